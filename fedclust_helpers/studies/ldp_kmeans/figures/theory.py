"""Pictures of the lemmas: random projections and locality-sensitive hashing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.patches import Circle
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import COLORS
from fedclust_helpers.studies.ldp_kmeans.figures._common import (
    BLUE,
    DARK,
    LOCAL,
    MUTED,
    ORANGE,
    PLUM,
    WRONG,
    panels,
    plain_ticks,
)

TOP = 1e5  # of the ratio axis


def plot_projection(
    axes: Any,
    alphas: ArrayLike,
    ratios: ArrayLike,
    stretch: ArrayLike,
    printed: ArrayLike,
    corrected: ArrayLike,
) -> Any:
    """Left: cost of a clustering after a random map. Right: the longest image of a point.

    Parameters
    ----------
    axes : two Axes
    alphas : array_like of shape (m,)
    ratios : array_like of shape (m, maps)
        Cost after over cost before, at the dimension that Theorem 2.7 gives for each alpha.
    stretch, printed, corrected : array_like of shape (m,)
        Measured, Lemma 2.8 as printed, and with its "1 +".
    """
    left, right = panels(axes)
    alphas, ratios = np.asarray(alphas, dtype=np.float64), np.asarray(ratios)
    grid = np.geomspace(alphas.min() * 0.8, alphas.max() * 1.2, 100)
    left.fill_between(grid, 1 / (1 + grid), 1 + grid, color="#e4e4e8", linewidth=0, zorder=0)
    for column in ratios.T:
        left.plot(alphas[: len(ratios)], column, "v", color=LOCAL, markersize=5, alpha=0.6)
    left.text(alphas.max(), 1.42, "allowed", ha="right", fontsize=10, color=DARK)
    left.set(xscale="log", xlabel="α (log scale)", ylabel="cost after / cost before")
    plain_ticks(left, alphas)
    left.set_title("The cost of a clustering survives", fontsize=11)
    right.plot(
        alphas, corrected, "--", color=DARK, linewidth=1.4, label="corrected: 1 + √(2 ln(n/β)/d)"
    )
    right.plot(alphas, stretch, "v", color=LOCAL, markersize=8, label="measured")
    right.plot(alphas, printed, ":", color=WRONG, label="printed: α√ln(n/β)")
    right.set(xscale="log", xlabel="α (log scale)", ylabel="largest ‖Tp‖/‖p‖", ylim=(0, None))
    plain_ticks(right, alphas)
    right.legend(loc="lower right", fontsize=9)
    right.set_title("Points do not shrink: “1 +” is missing", fontsize=11)
    return axes


def plot_lsh(
    axes: Any,
    scene: Mapping[str, Any],
    curves: Mapping[int, tuple[ArrayLike, ArrayLike]],
    measured: Mapping[int, tuple[ArrayLike, ArrayLike]],
    ratios: Mapping[float, tuple[ArrayLike, ArrayLike]],
) -> Any:
    """A bucket and its mean; the collision curve; what a bucket's mean is worth.

    Parameters
    ----------
    axes : three Axes
    scene : mapping with "points" (n, 2), "same" (n,) bool, "filter" (2,) and "radius"
    curves, measured : t -> (distances, probabilities)
    ratios : c -> (t, p(1)^2/p(c))
    """
    left, middle, right = panels(axes)
    points, same = np.asarray(scene["points"]), np.asarray(scene["same"], dtype=bool)
    left.scatter(points[~same, 0], points[~same, 1], s=5, color=COLORS["data"], linewidths=0)
    left.scatter(points[same, 0], points[same, 1], s=7, color=LOCAL, linewidths=0)
    left.add_patch(
        Circle(
            scene["filter"], scene["radius"], fill=False, edgecolor=DARK, linewidth=1.2, zorder=3
        )
    )
    left.plot(*scene["filter"], "*", color=ORANGE, markersize=15, markeredgecolor="white", zorder=5)
    mean = points[same].mean(axis=0)
    left.plot(*mean, "X", color=WRONG, markersize=10, markeredgecolor="white", zorder=6)
    left.set_aspect("equal")
    left.set(xticks=[], yticks=[], xlabel="★ filter point   ✕ mean of its bucket")
    left.set_title("One bucket", fontsize=11)

    styles = {1: (BLUE, "o"), 2: (PLUM, "s"), 4: (LOCAL, "v"), 8: (ORANGE, "D")}
    for t, (u, p) in curves.items():
        middle.plot(u, p, color=styles[t][0], label=f"t = {t}")
        if t in measured:
            middle.plot(*measured[t], styles[t][1], color=styles[t][0], markersize=6)
    middle.set(yscale="log", ylim=(1e-3, 1.3), xlabel="distance u", ylabel="p(u) (log scale)")
    middle.legend(loc="upper right", fontsize=9)
    middle.set_title("Far points collide less", fontsize=11)

    colors = (WRONG, PLUM, BLUE, LOCAL, ORANGE)
    for (c, pair), color in zip(ratios.items(), colors, strict=False):
        x, ratio = (np.asarray(v, dtype=np.float64) for v in pair)
        right.plot(x, ratio, "-", color=color)
        last = int(np.flatnonzero(ratio < TOP)[-1])
        right.annotate(
            f"c = {c:g}", (x[last], ratio[last]), xytext=(5, 0 if last == len(x) - 1 else 3),
            textcoords="offset points", va="center", fontsize=9, annotation_clip=False,
        )  # fmt: skip
    right.axhline(1, color=MUTED, linestyle="--", linewidth=1.0)
    right.axvspan(1, 4, color="#eeeeee", zorder=0)
    right.text(2, 3e4, "t that a\nlaptop can\nhash", ha="center", va="top", fontsize=9)
    right.set(xscale="log", yscale="log", xlabel="dimensions t (log)", ylabel="p(1)²/p(c) (log)")
    right.set_ylim(0.2, TOP)
    plain_ticks(right, [1, 2, 4, 8, 16, 32, 64])
    right.set_title("…only for large c and t", fontsize=11)
    left.figure.suptitle(
        "LSH filters far points out, if they are far enough", x=0.01, ha="left", fontsize=12
    )
    return axes
