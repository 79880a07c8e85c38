"""Widget of notebook 03: users, epsilon and depth against the cells that are seen, and centres."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, as_points, check_int
from fedclust_helpers.federation import simulate
from fedclust_helpers.kmeans import assign, kmeans_cost
from fedclust_helpers.ldp_kmeans import NothingDetectedWarning, detection_threshold, plan, run
from studies.bench import widgets
from studies.bench.plots import panels
from studies.ldp_kmeans.figures import plot_run

MAX_DEPTH = 6
N_SCORED = 50_000  # points on which the cost in the title is computed


def levels_of(depth: int) -> tuple[int, ...]:
    """The two levels whose finer one is `depth`; one level for depth 1."""
    depth = check_int(depth, "depth", maximum=MAX_DEPTH)
    return (depth - 1, depth) if depth > 1 else (1,)


def _released(points: FloatArray, epsilon: float, depth: int, n_clusters: int, seed: int) -> Any:
    """What the one-round algorithm releases of all these points."""
    depths, streams = levels_of(depth), np.random.SeedSequence(seed).spawn(2)
    users = simulate(points, "local", seed=streams[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDetectedWarning)  # the title says it
        planned = plan(users, n_clusters=n_clusters, epsilon=epsilon, depths=depths)
        return run(users, planned, rng=np.random.default_rng(streams[1]))


def all_lit(points: FloatArray, best: FloatArray, *, epsilon: float, seed: int) -> int | None:
    """The first position of the slider of users where each of `best` has a kept cell, at depth 3.

    None if there is no such position.
    """
    for n in np.geomspace(1e3, 1e6, 31).round().clip(max=len(points)).astype(int):
        cells = _released(points[:n], epsilon, 3, len(best), seed).proxies
        if len(cells) and len(np.unique(assign(cells, best).labels)) == len(best):
            return int(n)
    return None


def local_run(
    ax: Axes,
    points: ArrayLike,
    *,
    n: int,
    epsilon: float,
    depth: int,
    n_clusters: int,
    seed: int,
    best: ArrayLike | None = None,
) -> Axes:
    """Run the one-round algorithm on the first n users and draw what the server sees.

    Every call is one epsilon-LDP run (replace-one, one bit per level and user) in teaching mode:
    not private against anyone who knows the seed.

    `points` (N, 2) lie in the unit disc, and `n` of their users take part. `depth` is that of the
    finer grid, 1 to 6: cells of side 2^(1 - depth); the coarser one has twice the side. `best`
    (k, 2) are centres to compare with, drawn as crosses; the title has the cost over theirs.
    """
    points = as_points(points, n_features=2)
    n = check_int(n, "n", maximum=len(points))
    result = _released(points[:n], epsilon, depth, n_clusters, check_int(seed, "seed", minimum=0))
    plot_run(ax, points[:n], result, best)
    share = detection_threshold(n, epsilon, len(levels_of(depth))) / n
    needs = f"a cell needs {share:.1%} of them" if share < 1 else "no cell can be seen"
    cost = kmeans_cost(points[:N_SCORED], result.centers, normalize=best is None)
    told = f"cost {cost:.3f}"
    if best is not None:
        told = f"{cost / kmeans_cost(points[:N_SCORED], best):.2f} times the best"
    side = f"1/{2 ** (depth - 1)}" if depth > 1 else "1"
    ax.set_title(
        f"n = {n:,}, ε = {epsilon:.2f}, side {side}\n{needs}\n{len(result.weights)} cells, {told}",
        fontsize=11,
    )
    return ax


def stills(axes: Any, points: ArrayLike, sizes: Sequence[int], **how: Any) -> None:
    """Three positions of the first slider, at depth 3: as many users as `sizes` say."""
    for ax, n in zip(panels(axes), sizes, strict=True):
        local_run(ax, points, n=n, depth=3, **how)


def explore(points: ArrayLike, *, n_clusters: int, seed: int, best: ArrayLike | None = None) -> Any:
    """Sliders for n (from 1000, logarithmic), epsilon (0.1 to 10) and depth; the callback."""
    points = as_points(points, n_features=2)
    fixed: dict[str, Any] = {"n_clusters": n_clusters, "best": best}

    def draw(ax: Axes, n: float, **moved: Any) -> Axes:
        return local_run(ax, points, n=min(len(points), round(n)), **moved, **fixed)

    most, few = float(np.log10(len(points))), {"readout_format": ".0f", "description": "users n"}
    controls = {
        "n": widgets.log_slider(min(1e5, len(points)), min(3.0, most), most, **few),
        "epsilon": widgets.log_slider(1.0, -1, 1),
        "depth": widgets.slider(3, 1, MAX_DEPTH, 1),
    }
    return widgets.explore(draw, controls, (4.6, 5.0), seed=seed)
