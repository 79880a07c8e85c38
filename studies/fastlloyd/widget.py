"""Widget of notebook 01: radius, epsilon and k against released centres and their cost."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers import fastlloyd, federation, kmeans, metrics
from fedclust_helpers._validation import FloatArray, check_int
from studies.bench import widgets
from studies.fastlloyd.figures import plot_run

Strategy = Literal["step", "constant"]


def reference_cost(points: FloatArray, n_clusters: int, *, seed: int) -> float:
    """Cost per point of k-means without privacy, best of three starts."""
    rng = np.random.default_rng(check_int(seed, "seed", minimum=0))
    centers = kmeans.weighted_kmeans(points, None, n_clusters, rng=rng, n_init=3)
    return metrics.nicv(points, centers)


def private_run(
    ax: Axes, points: FloatArray, *, epsilon: float, delta: float, alpha: float, n_clusters: int,
    strategy: Strategy, seed: int, reference: float | None = None,
) -> Axes:  # fmt: skip
    """Run FastLloyd and draw the way of the centres, the radius and the cost.

    Every call is one (epsilon, delta)-DP run, add/remove one point, in teaching mode: not private
    against anyone who knows the seed. The start depends on `seed` and `n_clusters` only.

    `points` lie in [-1, 1]^2; epsilon, alpha, n_clusters and strategy are those of
    `fedclust_helpers.fastlloyd.plan`; reference is the cost of k-means without privacy, which is
    computed if it is not given.
    """
    check_int(seed, "seed", minimum=0)
    ideal = federation.simulate([points], "ideal", seed=seed)
    plan = fastlloyd.plan(
        ideal, n_clusters=n_clusters, epsilon=epsilon, delta=delta, alpha=alpha, strategy=strategy
    )
    run = fastlloyd.run(ideal, plan)
    assert run.history is not None
    radius = run.plan.broadcasts("radius")[-1]
    plot_run(ax, points, run.history, radius=radius)
    best = reference or reference_cost(points, n_clusters, seed=seed)
    ratio = metrics.nicv(points, run.centers) / best
    ax.set_title(f"{strategy} radius {radius:.2f}: {ratio:.2f} times the best cost")
    return ax


def explore(points: FloatArray, *, n_clusters: int, epsilon: float, delta: float, seed: int) -> Any:
    """Controls for the factor of the radius, epsilon, k and strategy; returns the callback."""
    reference = cache(partial(reference_cost, points, seed=seed))

    def draw(ax: Axes, alpha: float, epsilon: float, k: int, strategy: Strategy, seed: int) -> Axes:
        return private_run(
            ax, points, epsilon=epsilon, delta=delta, alpha=alpha, n_clusters=k,
            strategy=strategy, seed=seed, reference=reference(k),
        )  # fmt: skip

    controls = {
        "alpha": widgets.slider(0.2, 0.1, 2.0, 0.1),
        "epsilon": widgets.log_slider(epsilon, -1.5, 1),
        "k": widgets.slider(n_clusters, 1, 10, 1),
        "strategy": widgets.choice(["constant", "step"]),
    }
    return widgets.explore(draw, controls, (4.8, 4.8), seed=seed)
