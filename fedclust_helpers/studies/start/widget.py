"""Widget of notebook 00: epsilon and k against released centres and their cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers import fastlloyd, federation, kmeans, metrics
from fedclust_helpers._validation import check_int
from fedclust_helpers.studies.start.figures import plot_private_clusters

N_ROUNDS = 3


def private_clusters(
    ax: Axes, clients: federation.ClientData, *, epsilon: float, n_clusters: int, seed: int
) -> Axes:
    """Run three rounds of noised sums and counts, and draw what is released.

    Every call is one release of (epsilon, 1e-5)-DP, add/remove one point, in teaching mode: not
    private against anyone who knows the seed. Starting centres are public (sphere packing) and
    depend on `seed` and `n_clusters` only, so that moving epsilon changes nothing but the noise.

    Parameters
    ----------
    ax : Axes
    clients : ClientData
        Points in [-1, 1]^d; the first two columns are drawn.
    epsilon : float
    n_clusters : int
    seed : int

    Returns
    -------
    Axes
        Drawn on by `figures.start.plot_private_clusters`.
    """
    streams = np.random.SeedSequence(check_int(seed, "seed", minimum=0)).spawn(2)
    start = kmeans.sphere_packing(
        n_clusters, clients.n_features, rng=np.random.default_rng(streams[0]), method="largest"
    )
    ideal = federation.simulate(clients, "ideal", seed=streams[1])
    plan = fastlloyd.plan_glloyd(
        ideal, n_clusters=n_clusters, epsilon=epsilon, delta=1e-5, n_rounds=N_ROUNDS,
        initial=start, postprocess="truncate",
    )  # fmt: skip
    result = fastlloyd.run(ideal, plan)
    reference = kmeans.lloyd(clients.points, start, n_rounds=N_ROUNDS)
    return plot_private_clusters(
        ax, clients.points, result.centers, reference, epsilon=epsilon,
        nicv=metrics.nicv(clients.points, result.centers),
        nicv_reference=metrics.nicv(clients.points, reference),
    )  # fmt: skip


def private_clusters_callback(
    clients: federation.ClientData, *, seed: int
) -> Callable[[float, int], None]:
    """Return the function that the sliders call: it draws a new figure and shows it."""

    def redraw(epsilon: float, n_clusters: int) -> None:
        _, ax = plt.subplots(figsize=(4.6, 4.8))
        private_clusters(ax, clients, epsilon=epsilon, n_clusters=n_clusters, seed=seed)
        plt.show()

    return redraw


def explore_private_clusters(clients: federation.ClientData, *, seed: int) -> Any:
    """Sliders for epsilon (0.1 to 10, logarithmic) and k (1 to 8); returns the callback."""
    from ipywidgets import FloatLogSlider, IntSlider, interact

    epsilon = FloatLogSlider(
        value=1.0, base=10, min=-1, max=1, step=0.1, description="epsilon", readout_format=".2f",
        continuous_update=False,
    )  # fmt: skip
    n_clusters = IntSlider(value=4, min=1, max=8, description="k", continuous_update=False)
    return interact(
        private_clusters_callback(clients, seed=seed), epsilon=epsilon, n_clusters=n_clusters
    )
