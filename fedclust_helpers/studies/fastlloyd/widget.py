"""Widget of notebook 01: epsilon, alpha, k and strategy against released centres and NICV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers import fastlloyd, federation, kmeans, metrics
from fedclust_helpers._validation import check_int
from fedclust_helpers.studies.fastlloyd.figures import plot_run


def reference_cost(clients: federation.ClientData, n_clusters: int, *, seed: int) -> float:
    """NICV of k-means without privacy, best of three starts: what a run is compared with."""
    rng = np.random.default_rng(check_int(seed, "seed", minimum=0))
    centers = kmeans.weighted_kmeans(clients.points, None, n_clusters, rng=rng, n_init=3)
    return metrics.nicv(clients.points, centers)


def private_run(
    ax: Axes,
    clients: federation.ClientData,
    *,
    epsilon: float,
    alpha: float,
    n_clusters: int,
    strategy: Literal["step", "constant"],
    seed: int,
    reference: float | None = None,
) -> Axes:
    """Run FastLloyd and draw the way of the centres, the radius and the cost.

    Every call is one (epsilon, 1/(N ln N))-DP run, add/remove one point, in teaching mode: not
    private against anyone who knows the seed. The start depends on `seed` and `n_clusters` only.

    Parameters
    ----------
    ax : Axes
    clients : ClientData
        Points in [-1, 1]^2.
    epsilon, alpha, n_clusters, strategy
        As in `fedclust_helpers.fastlloyd.plan`.
    seed : int
    reference : float, optional
        Cost of k-means without privacy, for the title.

    Returns
    -------
    Axes
        Drawn on by `figures.fastlloyd.plot_run`.
    """
    check_int(seed, "seed", minimum=0)
    ideal = federation.simulate(clients, "ideal", seed=seed)
    plan = fastlloyd.plan(
        ideal, n_clusters=n_clusters, epsilon=epsilon, alpha=alpha, strategy=strategy
    )
    run = fastlloyd.run(ideal, plan)
    assert run.plan.radii is not None
    plot_run(ax, clients.points, run.history, radius=float(run.plan.radii[-1]))
    cost = metrics.nicv(clients.points, run.centers)
    best = "" if reference is None else f" (k-means {reference:.4f})"
    ax.set_title(f"NICV {cost:.4f}{best}\n{run.plan.n_rounds} rounds, η = {run.plan.radii[-1]:.2f}")
    return ax


def private_run_callback(
    clients: federation.ClientData, *, seed: int
) -> Callable[[float, float, int, Literal["step", "constant"]], None]:
    """Return the function that the controls call: it draws a new figure and shows it."""
    costs: dict[int, float] = {}

    def redraw(
        epsilon: float, alpha: float, n_clusters: int, strategy: Literal["step", "constant"]
    ) -> None:
        if n_clusters not in costs:
            costs[n_clusters] = reference_cost(clients, n_clusters, seed=seed)
        _, ax = plt.subplots(figsize=(4.8, 4.8))
        private_run(
            ax, clients, epsilon=epsilon, alpha=alpha, n_clusters=n_clusters, strategy=strategy,
            seed=seed, reference=costs[n_clusters],
        )  # fmt: skip
        plt.show()

    return redraw


def explore_fastlloyd(clients: federation.ClientData, *, seed: int) -> Any:
    """Controls for epsilon (0.03 to 10), alpha, k and strategy; returns the callback."""
    from ipywidgets import Dropdown, FloatLogSlider, FloatSlider, IntSlider, interact

    epsilon = FloatLogSlider(
        value=1.0, base=10, min=-1.5, max=1, step=0.1, description="epsilon",
        readout_format=".2f", continuous_update=False,
    )  # fmt: skip
    alpha = FloatSlider(
        value=0.8, min=0.2, max=2.0, step=0.2, description="alpha", continuous_update=False
    )
    n_clusters = IntSlider(value=5, min=1, max=10, description="k", continuous_update=False)
    strategy = Dropdown(options=["step", "constant"], description="strategy")
    return interact(
        private_run_callback(clients, seed=seed),
        epsilon=epsilon, alpha=alpha, n_clusters=n_clusters, strategy=strategy,
    )  # fmt: skip
