"""Figures of notebook 03. Each draws numbers that are given to it; titles say what they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers import kmeans
from fedclust_helpers.program import Run
from studies.bench import plots, style

LOCAL = style.TRUST["local"]
SHADES = ("#b9b3e6", "#7a6fd0", "#4a3aa8", "#2b1d73")  # coarse to fine


# --- building blocks ------------------------------------------------------------------------------


def plot_spectrum(
    ax: Axes, estimates: ArrayLike, popular: ArrayLike, counts: ArrayLike, *, std: float
) -> Axes:
    """Counts of all places: a bell of noise, and the popular places beside it, at one height.

    `popular` are the planted places, `counts` their true counts; the noise has standard deviation
    `std`, and the dashed line stands at five times that.
    """
    estimates, popular = np.asarray(estimates, dtype=np.float64) / 1e3, np.asarray(popular)
    std, noise = std / 1e3, np.delete(estimates, popular)
    edges = np.linspace(noise.min(), noise.max(), 70)
    heights = np.maximum(np.histogram(noise, edges)[0], 0.5)
    ax.stairs(heights, edges, fill=True, color=style.PALE, baseline=0.5)
    grid = np.linspace(edges[0], edges[-1], 300)
    ax.plot(grid, norm.pdf(grid, 0, std) * len(noise) * (edges[1] - edges[0]), **style.THEORY)
    at, truth = estimates[popular], np.asarray(counts) / 1e3
    same = np.full(len(at), 4.0)
    ax.plot(at, same, "v", color=LOCAL, markersize=9, markeredgecolor="white", linestyle="none")
    ax.plot(truth, same / 2, "|", color=style.DARK, markersize=12, mew=1.8, linestyle="none")
    ax.axvline(5 * std, color=style.MUTED, linestyle="--", linewidth=1.2)
    plots.note(ax, "5 sd", (5 * std, 2500), (5, 0))
    first = int(np.argmax(truth))
    plots.note(ax, "popular places (ticks: the truth)", (float(at[first]), 12), ha="right")
    seen = int((at > 5 * std).sum())
    title = f"One bit from each user: {seen} of {len(at)} popular places stand out by 5 sd"
    x = "counted users of a place / 1000"
    return plots.finish(ax, title, x, "places", log="y", ylim=(0.5, 8e3))


# --- cells ----------------------------------------------------------------------------------------


def disc(ax: Axes, points: ArrayLike) -> Axes:
    """Some users, grey, in the unit disc, without ticks and frame."""
    plots.cloud(ax, points, size=3)
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.MUTED, linewidth=1.0, zorder=2))
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06))
    return plots.bare(ax)


def squares(ax: Axes, corners: ArrayLike, side: float, color: Any, *, zorder: float = 1.5) -> None:
    """Squares, from their lower corners (m, 2); a thin edge, dark around small and empty ones."""
    patches = [Rectangle((x, y), side, side) for x, y in np.asarray(corners)]
    alpha = None if zorder > 1.5 else 0.5
    edge = "white" if side > 0.1 and color != "none" else SHADES[-1]
    look: dict[str, Any] = {"edgecolor": edge, "linewidth": 0.8, "zorder": zorder}
    ax.add_collection(PatchCollection(patches, facecolor=color, alpha=alpha, **look))


def plot_run(ax: Axes, points: ArrayLike, result: Run, means: ArrayLike | None = None) -> Axes:
    """Cells that a one-round run chose, outlines of those that it split, and its centres."""
    disc(ax, points)
    if hasattr(result, "chosen"):
        for shade, level in zip(SHADES, result.levels, strict=False):
            cells = result.chosen.cells[result.chosen.depth == level.depth]
            side = result.grid.cell_side(level.depth)
            squares(ax, result.grid.corners(cells, level.depth), side, shade)
            if level is not result.levels[-1]:
                squares(ax, result.grid.corners(level.cells, level.depth), side, "none")
    if means is not None:
        plots.crosses(ax, means)
    return plots.centers(ax, result.centers, LOCAL, "v", size=95, zorder=5)


def plot_sketch(
    axes: Any, points: ArrayLike, board: tuple[Callable[..., Any], Any],
    fit: tuple[ArrayLike, ArrayLike], best: ArrayLike, text: str,
) -> Any:  # fmt: skip
    """Left: the users on the first of some boards. Right: what was fitted to all answers.

    `board` has a function of places (m, 2) and of the arrays of boards, and these arrays.
    `fit` has places (m, 2) and their weights, `best` the centres to compare with.
    """
    left, right = plots.panels(axes)
    axis = np.linspace(-1, 1, 400)
    square = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    tints = ListedColormap(["#f4c98b", "#a9c4f5", "#f2a3a8", "#cdb0e8"])
    where: dict[str, Any] = {"origin": "lower", "extent": (-1, 1, -1, 1), "cmap": tints}
    colour, boards = board
    image = np.asarray(colour(square, *(part[:1] for part in boards))).reshape(400, 400)
    left.imshow(image, vmin=0, vmax=3, **where)
    disc(left, points)
    left.collections[-1].set(color=style.DARK, alpha=0.4)
    plots.finish(left, "One board, and the users")
    places, weights = fit
    right.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.MUTED))
    plots.centers(right, places, LOCAL, size=4000 * np.asarray(weights), alpha=0.8)
    plots.crosses(right, best)
    right.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal")
    plots.finish(plots.bare(right), text)
    return axes


def plot_trust(ax: Axes, costs: pd.DataFrame, least: ArrayLike, few: Mapping[str, float]) -> Axes:
    """Cost over the best against n, one line for each column of `lesson.cost_by_trust`.

    Grey: `least` (m,), what no local method can stay below. `few`: users for 5 % by column.
    """
    ax.plot(costs.index, np.asarray(least), label="local: no method below", **style.THEORY)
    looks = {
        "grids": style.Look("local: grids", LOCAL, "v--"),
        "sketch": style.Look("local: sketch", LOCAL, "o-"),
        "shuffled sketch": style.Look("shuffled: sketch", style.TRUST["shuffled"], "s-"),
        "sum": style.Look("a noised sum", style.TRUST["secure sum"], "D-"),
    }
    above = {name: costs[name] - 1 for name in costs}
    plots.curves(ax, None, above, looks, floor=1e-4)
    at = [1e-4, 1e-3, 0.01, 0.1, 1, 10]
    times = f"{few['sketch'] / few['sum']:.0f} times"
    least = "at least " * bool(few["sum"] == costs.index[0])  # fewer users were not tried
    plots.finish(
        ax, f"Trusting nobody takes {least}{times} the users with the sketch", "users n",
        "cost above the best", log="xy", yticks=at, ylim=(6e-5, 300), names="upper right",
    )  # fmt: skip
    ax.set_yticks(at, [f"{y:.4g}" if y > 1e-4 else "≤ 0.0001" for y in at])
    plots.ticks(ax, [1e3, 1e4, 1e5, 1e6], text=None)
    return ax


def plot_photograph(axes: Any, image: ArrayLike, colours: ArrayLike, ratio: float) -> Any:
    """An image (h, w, 3) in 0 to 255, and the same one in the nearest of some colours (k, 3)."""
    left, right = plots.panels(axes)
    pixels, kept = np.asarray(image), np.clip(np.asarray(colours), 0, 255)
    near = kmeans.assign(pixels.reshape(-1, 3), kept).labels
    painted = kept[near].reshape(pixels.shape)
    for ax, shown in ((left, pixels), (right, painted)):
        ax.imshow(shown.astype(np.uint8)[::2, ::2])  # a picture of this size shows no more
        plots.bare(ax)
    plots.finish(left, f"{near.size:,} users, one pixel each")
    plots.finish(right, f"{len(kept)} released colours, {ratio:.2f} times the best cost")
    return axes
