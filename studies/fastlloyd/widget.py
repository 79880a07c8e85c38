"""Widget of notebook 01: epsilon, alpha, k and strategy against released centres and NICV."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers import fastlloyd, federation, kmeans, metrics
from fedclust_helpers._validation import check_int
from studies.bench import widgets
from studies.fastlloyd.figures import plot_run

Strategy = Literal["step", "constant"]


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
    strategy: Strategy,
    seed: int,
    reference: float | None = None,
) -> Axes:
    """Run FastLloyd and draw the way of the centres, the radius and the cost.

    Every call is one (epsilon, 1/(N ln N))-DP run, add/remove one point, in teaching mode: not
    private against anyone who knows the seed. The start depends on `seed` and `n_clusters` only.

    `clients` holds points in [-1, 1]^2; epsilon, alpha, n_clusters and strategy are those of
    `fedclust_helpers.fastlloyd.plan`; reference is the cost of k-means without privacy, for the
    title.
    """
    check_int(seed, "seed", minimum=0)
    ideal = federation.simulate(clients, "ideal", seed=seed)
    plan = fastlloyd.plan(
        ideal, n_clusters=n_clusters, epsilon=epsilon, alpha=alpha, strategy=strategy
    )
    run = fastlloyd.run(ideal, plan)
    assert run.history is not None
    radius = run.plan.broadcasts("radius")[-1]
    plot_run(ax, clients.points, run.history, radius=radius)
    cost = metrics.nicv(clients.points, run.centers)
    best = "" if reference is None else f" (k-means {reference:.4f})"
    ax.set_title(f"NICV {cost:.4f}{best}\n{run.plan.n_rounds} rounds, η = {radius:.2f}")
    return ax


def explore(clients: federation.ClientData, *, seed: int) -> Any:
    """Controls for epsilon (0.03 to 10), alpha, k and strategy; returns the callback."""
    reference = cache(partial(reference_cost, clients, seed=seed))

    def draw(ax: Axes, epsilon: float, alpha: float, k: int, strategy: Strategy) -> Axes:
        return private_run(
            ax, clients, epsilon=epsilon, alpha=alpha, n_clusters=k, strategy=strategy, seed=seed,
            reference=reference(k),
        )  # fmt: skip

    controls = {
        "epsilon": widgets.log_slider(1.0, -1.5, 1),
        "alpha": widgets.slider(0.8, 0.2, 2.0, 0.2),
        "k": widgets.slider(5, 1, 10, 1),
        "strategy": widgets.choice(["step", "constant"]),
    }
    return widgets.explore(draw, controls, (4.8, 4.8))
