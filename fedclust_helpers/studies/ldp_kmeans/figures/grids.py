"""Pictures of cells: corners and centres, shells, and the one-round algorithm at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers.ldp_kmeans import LdpResult
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.studies.bench.style import COLORS
from fedclust_helpers.studies.ldp_kmeans.figures._common import (
    BLUE,
    DARK,
    LOCAL,
    MAX_SHOWN,
    MUTED,
    ORANGE,
    WRONG,
    line,
    mean_and_range,
    panels,
    plain_ticks,
)

SHADES = ("#b9b3e6", "#7a6fd0", "#4a3aa8", "#2b1d73")  # coarse to fine
FRAME = 1.06


def frame(ax: Axes) -> Axes:
    """A square frame around the unit disc, without ticks."""
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=MUTED, linewidth=1.0, zorder=2))
    ax.set_aspect("equal")
    ax.set(xlim=(-FRAME, FRAME), ylim=(-FRAME, FRAME), xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def cloud(ax: Axes, points: ArrayLike, *, size: float = 3.0) -> Axes:
    """Some of the points, grey."""
    points = np.asarray(points)
    shown = points[:: max(1, len(points) // MAX_SHOWN)]
    ax.scatter(shown[:, 0], shown[:, 1], s=size, color=COLORS["data"], linewidths=0, zorder=1)
    return frame(ax)


def squares(
    ax: Axes, corners: ArrayLike, side: float, *, color: Any, alpha: Any = 0.5, zorder: float = 1.5
) -> None:
    """Filled squares with a thin edge, from their lower corners (m, 2)."""
    patches = [Rectangle((x, y), side, side) for x, y in np.asarray(corners)]
    ax.add_collection(
        PatchCollection(
            patches, facecolor=color, alpha=alpha, edgecolor="white", linewidth=0.8, zorder=zorder
        )
    )


def crosses(ax: Axes, means: ArrayLike) -> None:
    """True means."""
    means = np.asarray(means)
    ax.scatter(means[:, 0], means[:, 1], s=55, marker="x", color=DARK, linewidths=1.8, zorder=6)


def released(ax: Axes, centers: ArrayLike, *, color: str = LOCAL, marker: str = "v") -> None:
    """Released centres: large marks with a white edge."""
    centers = np.asarray(centers)
    ax.scatter(
        centers[:, 0], centers[:, 1], s=95, marker=marker, color=color, edgecolor="white",
        linewidths=1.2, zorder=5,
    )  # fmt: skip


def plot_corners(
    axes: Any,
    points: ArrayLike,
    depth: int,
    costs: Mapping[str, ArrayLike],
    depths: Sequence[int],
    *,
    best: float,
    least: float = 0.002,
) -> Any:
    """Left: cells that hold points, with their corners and centres. Right: cost of either.

    Parameters
    ----------
    axes : two Axes
    points : array_like of shape (n, 2)
    depth : int
        Of the cells in the picture.
    costs : mapping of "corner" and "center" to costs of shape (len(depths),)
    best : float
        Cost of k-means on the points themselves.
    least : float
        Smallest share of the points that a drawn cell holds.
    """
    left, right = panels(axes)
    points, grid = np.asarray(points), NestedGrid(2)
    cells, count = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
    cells = cells[count > least * len(points)]
    cloud(left, points)
    squares(left, grid.corners(cells, depth), grid.cell_side(depth), color=SHADES[0], alpha=0.45)
    for place, color, marker, name in (
        (grid.corners(cells, depth), WRONG, "X", "corner (printed)"),
        (grid.centers(cells, depth), LOCAL, "o", "centre"),
    ):
        left.scatter(
            place[:, 0], place[:, 1], s=22, marker=marker, color=color, linewidths=0, zorder=4,
            label=name,
        )  # fmt: skip
    left.legend(loc="upper left", bbox_to_anchor=(-0.06, 1.06), handletextpad=0.1)
    left.set_title("Corners all lie to one side", fontsize=11)
    for name, color, marker in (("corner", WRONG, "X"), ("center", LOCAL, "o")):
        right.plot(depths, costs[name], marker + "-", color=color)
    right.axhline(best, color=DARK, linestyle="--", linewidth=1.2)
    right.text(depths[0], best * 0.93, "k-means on the points", va="top", fontsize=10)
    for name, text in (("corner", "corners"), ("center", "centres")):
        right.annotate(
            text, (depths[1], np.asarray(costs[name])[1]), xytext=(10, 4),
            textcoords="offset points", fontsize=10,
        )  # fmt: skip
    right.set(yscale="log", xticks=list(depths), ylim=(best * 0.7, None))
    right.set(xlabel="depth of the grid (side 1, ½, ¼, ⅛)", ylabel="cost per point (log)")
    plain_ticks(right, [0.02, 0.05, 0.1, 0.2, 0.5], "y")
    right.set_title("The floor map costs more than the grid", fontsize=11)
    return axes


def plot_shells(
    ax: Axes, shells: Sequence[tuple[float, NDArray[np.float64], float]], center: ArrayLike
) -> Axes:
    """Shells around one centre, each with the cells of its own grid.

    Parameters
    ----------
    shells : sequence of (radius r, corners (m, 2), side), coarse to fine
        Cells that meet r <= distance < 2r.
    center : array_like of shape (2,)
    """
    x0, y0 = (float(v) for v in np.asarray(center, dtype=np.float64))
    tints = ("#d5e1fb", "#fbe3c0", "#e3cfe0", "#dcdcdf")
    outer = 2.25 * max(s[0] for s in shells)
    for i, ((radius, corners, side), tint) in enumerate(zip(shells, tints, strict=False)):
        patches = [Rectangle((x, y), side, side) for x, y in corners]
        ax.add_collection(
            PatchCollection(patches, facecolor=tint, edgecolor="white", linewidth=0.9, zorder=1 + i)
        )
        for r in (radius, 2 * radius):
            ax.add_patch(Circle((x0, y0), r, fill=False, edgecolor=MUTED, linewidth=0.9, zorder=8))
        ax.annotate(
            xy=(x0 + 1.36 * radius, y0 + 0.49 * radius),
            xytext=(x0 + 1.06 * outer, y0 + outer * (0.8 - 0.27 * i)),
            annotation_clip=False, va="center", **line(f"{len(corners)} cells"), zorder=9,
        )  # fmt: skip
    ax.plot(x0, y0, "x", color=DARK, markersize=7, markeredgewidth=1.8, zorder=9)
    ax.set(xlim=(x0 - outer, x0 + outer), ylim=(y0 - outer, y0 + outer))
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title("Cells that grow with the distance:\nevery shell needs about as many", loc="left")
    return ax


def plot_run(
    ax: Axes, points: ArrayLike, result: LdpResult, means: ArrayLike | None = None
) -> Axes:
    """Cells that a one-round run chose (darker: finer) and its centres, over some users."""
    cloud(ax, points)
    if result.grid is not None and result.chosen is not None:
        depths = result.chosen.depth
        for shade, depth in zip(SHADES, (level.depth for level in result.levels), strict=False):
            cells = result.chosen.cells[depths == depth]
            corners = result.grid.corners(cells, depth)
            squares(ax, corners, result.grid.cell_side(depth), color=shade, alpha=0.6)
    if means is not None:
        crosses(ax, means)
    released(ax, result.centers)
    return ax


def plot_lights(
    axes: Any,
    points: ArrayLike,
    results: Mapping[int, LdpResult],
    costs: Mapping[int, float],
    means: ArrayLike,
) -> Any:
    """The one-round algorithm for growing n: one panel each, as in `plot_run`."""
    for ax, (n, result) in zip(panels(axes), results.items(), strict=True):
        plot_run(ax, np.asarray(points)[:n], result, means)
        power = round(np.log10(n))
        ax.set_title(f"n = $10^{power}$: {len(result.weights)} cells", fontsize=11)
        ax.set_xlabel(f"cost {costs[n]:.3f}")
    figure = panels(axes)[0].figure
    figure.suptitle("Cells light up as users arrive", x=0.01, ha="left", fontsize=12)
    return axes


def plot_depths(
    ax: Axes,
    depths: Sequence[int],
    single: Mapping[int, ArrayLike],
    double: Mapping[int, ArrayLike],
    *,
    best: float,
) -> Axes:
    """Cost of one grid against its depth, beside the two-level run (dashed), for some n.

    Parameters
    ----------
    single : n -> costs of shape (len(depths), repetitions)
    double : n -> costs of shape (repetitions,)
    """
    styles = ((BLUE, "o"), (LOCAL, "v"), (ORANGE, "s"))
    for (n, values), (color, marker) in zip(single.items(), styles, strict=False):
        mean, low, high = mean_and_range(values)
        ax.fill_between(depths, low, high, color=color, alpha=0.18, linewidth=0)
        ax.plot(depths, mean, marker + "-", color=color)
        both = float(np.asarray(double[n]).mean())
        ax.axhline(both, color=color, linestyle="--", linewidth=1.4)
        ax.text(
            depths[-1] + 0.12, both, "two levels", va="center", fontsize=9, color=DARK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
        ax.annotate(
            f"n = $10^{round(np.log10(n))}$", (depths[-1], mean[-1]), xytext=(8, 0),
            textcoords="offset points", va="center", fontsize=10,
        )  # fmt: skip
    ax.axhline(best, color=DARK, linestyle=":", linewidth=1.2)
    ax.set(yscale="log", xticks=list(depths), xlabel="depth of the only grid (side 1, ½, ¼, ⅛)")
    ax.set(ylabel="cost per point (log scale)", xlim=(depths[0] - 0.1, depths[-1] + 0.65))
    plain_ticks(ax, [0.02, 0.05, 0.1, 0.2, 0.5], "y")
    ax.set_title("One grid is as good, if you guess its depth")
    return ax
