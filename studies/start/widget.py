"""Widget of notebook 00: epsilon and k against released centres and their cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers import fastlloyd, federation, kmeans
from fedclust_helpers._validation import check_int
from studies.bench import widgets
from studies.start.figures import plot_private_clusters

N_ROUNDS = 3


def private_clusters(
    ax: Axes, clients: federation.ClientData, *, epsilon: float, n_clusters: int, seed: int
) -> Axes:
    """Run three rounds of noised sums and counts, and draw what is released.

    Every call is one release of (epsilon, 1e-5)-DP, add/remove one point, in teaching mode: not
    private against anyone who knows the seed. Starting centres are public (sphere packing) and
    depend on `seed` and `n_clusters` only, so that moving epsilon changes nothing but the noise.
    `clients` holds points in [-1, 1]^d; the first two columns are drawn.
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
        ax, clients.points, result.centers, reference, start=start, epsilon=epsilon
    )


def explore(clients: federation.ClientData, *, seed: int) -> Any:
    """Sliders for epsilon (0.1 to 10, logarithmic) and k (1 to 8); returns the callback."""
    controls = {"epsilon": widgets.log_slider(1.0, -1, 1), "k": widgets.slider(4, 1, 8, 1)}

    def draw(ax: Axes, epsilon: float, k: int, seed: int) -> Axes:
        return private_clusters(ax, clients, epsilon=epsilon, n_clusters=k, seed=seed)

    return widgets.explore(draw, controls, (4.6, 4.8), seed=seed)
