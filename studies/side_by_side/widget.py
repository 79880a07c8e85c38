"""Widget of notebook 05: n, d, k and epsilon of a mixture against the cost of each algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers._validation import check_int
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.kmeans import kmeans_cost, weighted_kmeans
from studies.bench import widgets
from studies.side_by_side.cells import one_run
from studies.side_by_side.figures import plot_dials

QUICK = (
    ("masked", "overclustered"), ("masked", "fastlloyd"), ("local", "alg1"),
    ("local", "ldp_lloyd"), ("none", "public_rows"),
)  # fmt: skip
"""What answers within a second; a sketch takes a few."""
MOST = 100_000


def dials(ax: Axes, *, n: int, d: int, k: int, epsilon: float, seed: int) -> Axes:
    """Draw a mixture of n points, d columns and k clusters, run each algorithm once, compare.

    Every run is (epsilon, 1e-6)-DP for one replaced record, in teaching mode: not private against
    anyone who knows the seed.
    """
    n = check_int(n, "n", minimum=100, maximum=MOST)
    base = np.random.SeedSequence(check_int(seed, "seed", minimum=0))
    rng = np.random.default_rng(base.spawn(1)[0])
    points = make_ball_mixture(n, d, k, rng=rng).points
    best = kmeans_cost(points, weighted_kmeans(points[:20_000], None, k, rng=rng, n_init=3))
    costs = {}
    for trust, method in QUICK:
        made = one_run(trust, method, points, k, epsilon=epsilon, seed=seed)
        costs[trust, method] = kmeans_cost(points, made.centers) / best
    return plot_dials(ax, costs, f"One run each: n = {n:,}, d = {d}, k = {k}, ε = {epsilon:.2f}")


def explore(*, epsilon: float, seed: int) -> Any:
    """Sliders for n (300 to 100,000), d (1 to 16), k (2 to 20) and epsilon; the callback."""

    def draw(ax: Axes, n: float, **moved: Any) -> Axes:
        return dials(ax, n=round(n), **moved)

    few = {"readout_format": ".0f", "description": "records n"}
    controls = {
        "n": widgets.log_slider(1e4, 2.5, 5, **few), "d": widgets.slider(2, 1, 16, 1),
        "k": widgets.slider(5, 2, 20, 1), "epsilon": widgets.log_slider(epsilon, -1, 1),
    }  # fmt: skip
    return widgets.explore(draw, controls, (6.8, 3.2), seed=seed)
