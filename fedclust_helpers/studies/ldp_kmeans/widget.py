"""Widget of notebook 03: users, epsilon and depth against the cells that are seen, and centres."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers._validation import as_points, check_int
from fedclust_helpers.federation import simulate
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.ldp_kmeans import NothingDetectedWarning, detection_threshold, plan, run
from fedclust_helpers.studies.ldp_kmeans.figures import plot_run

MAX_DEPTH = 6
N_SCORED = 50_000  # points on which the cost in the title is computed


def levels_of(depth: int) -> tuple[int, ...]:
    """The two levels whose finer one is `depth`; one level for depth 1."""
    depth = check_int(depth, "depth", maximum=MAX_DEPTH)
    return (depth - 1, depth) if depth > 1 else (1,)


def local_run(
    ax: Axes,
    points: ArrayLike,
    *,
    n: int,
    epsilon: float,
    depth: int,
    n_clusters: int,
    seed: int,
    means: ArrayLike | None = None,
) -> Axes:
    """Run the one-round algorithm on the first n users and draw what the server sees.

    Every call is one epsilon-LDP run (replace-one, one bit per level and user) in teaching mode:
    not private against anyone who knows the seed.

    Parameters
    ----------
    ax : Axes
    points : array_like of shape (N, 2)
        In the unit disc.
    n : int
        Users who take part, at most N.
    epsilon : float
        Of each user.
    depth : int
        Of the finer grid, 1 to 6: cells of side 2^(1 - depth). The coarser one has twice the side.
    n_clusters, seed : int
    means : array_like of shape (k, 2), optional
        True means, drawn as crosses.

    Returns
    -------
    ax
        Drawn on by `figures.ldp.plot_run`.
    """
    points = as_points(points, n_features=2)
    n = check_int(n, "n", maximum=len(points))
    depths = levels_of(depth)
    streams = np.random.SeedSequence(check_int(seed, "seed", minimum=0)).spawn(2)
    users = simulate(points[:n], "local", seed=streams[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDetectedWarning)  # the title says it
        planned = plan(users, n_clusters=n_clusters, epsilon=epsilon, depths=depths)
        result = run(users, planned, rng=np.random.default_rng(streams[1]))
    plot_run(ax, points[:n], result, means)
    share = detection_threshold(n, epsilon, len(depths)) / n
    needs = f"a cell needs {share:.1%} of them" if share < 1 else "no cell can be seen"
    cost = kmeans_cost(points[:N_SCORED], result.centers, normalize=True)
    ax.set_title(
        f"n = {n:,}, ε = {epsilon:.2f}: {needs}\n{len(result.weights)} cells, cost {cost:.3f}",
        fontsize=11,
    )
    return ax


def local_run_callback(
    points: ArrayLike, *, n_clusters: int, seed: int, means: ArrayLike | None = None
) -> Callable[[float, float, int], None]:
    """Return the function that the sliders call: it draws a new figure and shows it."""
    points = as_points(points, n_features=2)

    def redraw(n: float, epsilon: float, depth: int) -> None:
        _, ax = plt.subplots(figsize=(4.6, 5.0))
        local_run(
            ax, points, n=min(len(points), round(n)), epsilon=epsilon, depth=depth,
            n_clusters=n_clusters, seed=seed, means=means,
        )  # fmt: skip
        plt.show()

    return redraw


def explore_local(
    points: ArrayLike, *, n_clusters: int, seed: int, means: ArrayLike | None = None
) -> Any:
    """Sliders for n (from 1000, logarithmic), epsilon (0.1 to 10) and depth; the callback."""
    from ipywidgets import FloatLogSlider, IntSlider, interact

    points = as_points(points, n_features=2)
    most = float(np.log10(len(points)))
    users = FloatLogSlider(
        value=min(1e5, len(points)), base=10, min=min(3.0, most), max=most, step=0.1,
        description="users n", readout_format=".0f", continuous_update=False,
    )  # fmt: skip
    epsilon = FloatLogSlider(
        value=1.0, base=10, min=-1, max=1, step=0.1, description="epsilon", readout_format=".2f",
        continuous_update=False,
    )  # fmt: skip
    depth = IntSlider(value=3, min=1, max=MAX_DEPTH, description="depth", continuous_update=False)
    redraw = local_run_callback(points, n_clusters=n_clusters, seed=seed, means=means)
    return interact(redraw, n=users, epsilon=epsilon, depth=depth)
