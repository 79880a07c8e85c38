"""Figures of notebook 03, sections 1 to 9 and 13: building blocks, cells, lemmas, one round.

Each draws numbers that the notebook computed, and returns its axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from fedclust_helpers.ldp_kmeans import LdpResult
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.studies.bench.plots import (
    audit,
    bare,
    centers,
    cloud,
    crosses,
    curves,
    finish,
    headline,
    note,
    panels,
)
from fedclust_helpers.studies.bench.style import (
    BLUE,
    DARK,
    DASHED,
    DATA,
    MUTED,
    ORANGE,
    PALE,
    PLUM,
    PURPLE,
    RED,
    THEORY,
    Look,
)

LOCAL = PURPLE
SHADES = ("#b9b3e6", "#7a6fd0", "#4a3aa8", "#2b1d73")  # coarse to fine
WHITE: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # behind a name
COSTS = [0.02, 0.05, 0.1, 0.2, 0.5]
FOUR = (Look("", BLUE), Look("", PLUM, "s-"), Look("", LOCAL, "v-"), Look("", ORANGE, "D-"))

# --- building blocks ------------------------------------------------------------------------------


def plot_coin(ax: Axes, naive: ArrayLike, debiased: ArrayLike, truth: float) -> Axes:
    """Histograms of the counted and the de-biased number of yes answers over many repetitions."""
    both = np.concatenate([np.ravel(naive), np.ravel(debiased)])
    edges, top = np.linspace(both.min(), both.max(), 90), 0.0
    for values, color, name in ((debiased, LOCAL, "de-biased"), (naive, RED, "naive count")):
        heights = np.histogram(values, edges)[0]
        ax.stairs(heights, edges, fill=True, color=color, alpha=0.85)
        top = max(top, float(heights.max()))
        place = (float(np.mean(np.asarray(values))), heights.max() * 1.04)
        note(ax, name, place, ha="center", va="bottom", bbox=WHITE)
    ax.axvline(truth, zorder=0, **DASHED)
    note(ax, "truth", (truth, 1.2 * top), (-6, 0), ha="right")
    title = "Counting the answers is wrong; undoing the coin is right"
    ends: dict[str, Any] = {"yticks": [], "ylim": (0, 1.3 * top)}
    return finish(ax, title, "estimated number of “yes”", "repetitions", **ends)


def plot_spectrum(
    ax: Axes, estimates: ArrayLike, popular: ArrayLike, counts: ArrayLike, *, std: float, z: float
) -> Axes:
    """Estimates of all buckets: a bell of noise, and the popular values that stand out of it.

    Parameters
    ----------
    estimates : array_like of shape (T,)
    popular, counts : array_like of shape (m,)
        Buckets of the planted values and their true counts.
    std, z : float
        Predicted standard deviation, and the threshold in such units.
    """
    estimates, popular = np.asarray(estimates, dtype=np.float64) / 1e3, np.asarray(popular)
    std, noise = std / 1e3, np.delete(estimates, popular)
    edges = np.linspace(noise.min(), noise.max(), 70)
    heights = np.maximum(np.histogram(noise, edges)[0], 0.5)
    ax.stairs(heights, edges, fill=True, color=PALE, baseline=0.5)
    grid = np.linspace(edges[0], edges[-1], 300)
    ax.plot(grid, norm.pdf(grid, 0, std) * len(noise) * (edges[1] - edges[0]), **THEORY)
    at, truth = estimates[popular], np.asarray(counts) / 1e3
    levels = np.geomspace(1.2, 60, len(at))
    ax.hlines(levels, at, truth, color=MUTED, linewidth=1.0)
    ax.plot(at, levels, "v", color=LOCAL, markersize=9, markeredgecolor="white")
    ax.plot(truth, levels, "|", color=DARK, markersize=14, markeredgewidth=1.8)
    ax.axvline(z * std, color=MUTED, linestyle="--", linewidth=1.2)
    note(ax, f"{z:.1f} sd:\nnoise ends here", (z * std + 0.15, 2500), va="top")
    first, text = int(np.argmax(truth)), "popular places\n(ticks: the truth)"
    note(ax, text, (float(at[first]), levels[first]), (0, 34), line=True, ha="center")
    title, x = "One bit from each user, all buckets at once", "estimated users in a bucket / 1000"
    return finish(ax, title, x, "buckets", log="y", ylim=(0.5, 8e3))


def plot_splits(
    axes: Any,
    n_questions: ArrayLike,
    errors: Mapping[float, Mapping[str, ArrayLike]],
    measured: Mapping[float, Mapping[str, tuple[float, float]]],
) -> Any:
    """Error of M questions when the users or the budget are split, one panel per epsilon.

    Parameters
    ----------
    n_questions : array_like of shape (m,)
    errors : epsilon -> name -> sd/sqrt(n) of shape (m,)
    measured : epsilon -> name -> (M, measured sd/sqrt(n))
    """
    looks = {
        "split the budget": Look("split the budget", RED, "-"),
        "split the users": Look("split the users", LOCAL, "-"),
        "mixed": Look("mixed: ε/2.18 questions each", BLUE, "--"),
    }
    marks = {"split the budget": "X", "split the users": "v", "mixed": "o"}
    for ax, (epsilon, parts) in zip(panels(axes), errors.items(), strict=True):
        curves(ax, n_questions, parts, looks)
        for name, (m, value) in measured[epsilon].items():
            ax.plot(m, value, marks[name], color=looks[name].color, markersize=9)
        at = [1, 2, 5, 10, 20, 40]
        finish(ax, f"ε = {epsilon:g}", "questions M", log="xy", xticks=at, yticks=[*at[:-1], 50])
    first = panels(axes)[0]
    first.set_ylabel("sd of a count / √n (log)")
    first.legend(loc="upper left")
    headline(axes, "Let each user answer few questions well")
    return axes


def plot_ladder(
    ax: Axes, counts: ArrayLike, shares: Mapping[float, ArrayLike], limits: Mapping[float, float]
) -> Axes:
    """Share of runs in which a planted value was recovered, against how many users hold it.

    Parameters
    ----------
    counts : array_like of shape (m,)
    shares : epsilon -> shares of shape (m,)
    limits : epsilon -> predicted threshold
    """
    looks = (Look("", LOCAL, "v-"), Look("", BLUE, "o-"))
    curves(ax, counts, {f"ε = {epsilon:g}": values for epsilon, values in shares.items()}, looks)
    for epsilon, look in zip(shares, looks, strict=False):
        ax.axvline(limits[epsilon], color=look.color, linestyle="--", linewidth=1.3)
    finish(
        ax, "Above the predicted count a value among 16 million is found",
        "users who hold the value", "share of runs that find it", log="x", ylim=(-0.04, 1.08),
        xticks=[1000, 3000, 10_000, 30_000],
    )  # fmt: skip
    ax.legend(loc="center right", title="dashed: predicted")
    return ax


def plot_sums(
    ax: Axes, n_users: ArrayLike, errors: ArrayLike, theory: ArrayLike, bound: ArrayLike
) -> Axes:
    """Error of a recovered vector sum against n: each run, the exact rms, Lemma 2.12.

    Parameters
    ----------
    n_users, theory, bound : array_like of shape (m,)
    errors : array_like of shape (m, repetitions)
    """
    n_users = np.asarray(n_users, dtype=np.float64)
    curves(ax, n_users, {"": errors}, (Look("_run", LOCAL, "v"),), interval="marks")
    looks = {"bound": Look("_", RED, "--"), "theory": Look("_", DARK, "-")}
    curves(ax, n_users, {"bound": bound, "theory": theory}, looks, linewidth=1.5)
    at = len(n_users) // 2
    note(ax, "Lemma 2.12", (n_users[at], np.asarray(bound)[at]), (8, 16), ha="right")
    note(ax, "exact rms: σ√(d′n)", (n_users[at], np.asarray(theory)[at]), (8, -16))
    title = "Sums cost √n too; the lemma is an upper bound with room"
    return finish(ax, title, "users n", "length of the error", log="xy", xticks=n_users)


def plot_noise_audit(
    axes: Any,
    scores: Mapping[str, tuple[ArrayLike, ArrayLike]],
    lower: Mapping[str, float],
    claimed: float,
) -> Any:
    """Scores of one user's report for two possible values, one panel for each noise.

    Parameters
    ----------
    scores : title -> (scores with value x, scores with value y)
    lower : title -> lower bound on epsilon
    """
    for ax, (title, pair) in zip(panels(axes), scores.items(), strict=True):
        alarm = lower[title] > claimed
        verdict = f"ε is at least {lower[title]:.2f}" if alarm else "no alarm"
        audit(ax, title, pair, f"claimed ε = {claimed:g}\n{verdict}", alarm=alarm)
        finish(ax, "", "score of a report / its noise", "reports")
    return axes


# --- cells ----------------------------------------------------------------------------------------


def disc(ax: Axes, points: ArrayLike) -> Axes:
    """Some users, grey, in the unit disc, without ticks and frame."""
    cloud(ax, points, size=3)
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=MUTED, linewidth=1.0, zorder=2))
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06))
    return bare(ax)


def squares(ax: Axes, corners: ArrayLike, side: float, color: Any, *, zorder: float = 1.5) -> None:
    """Filled squares with a thin edge, from their lower corners (m, 2)."""
    patches = [Rectangle((x, y), side, side) for x, y in np.asarray(corners)]
    alpha = None if zorder > 1.5 else 0.5
    look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": zorder}
    ax.add_collection(PatchCollection(patches, facecolor=color, alpha=alpha, **look))


def released(ax: Axes, points: ArrayLike) -> None:
    """Released centres."""
    centers(ax, points, LOCAL, "v", size=95, zorder=5)


def plot_corners(
    axes: Any,
    points: ArrayLike,
    depth: int,
    costs: Mapping[str, ArrayLike],
    depths: Sequence[int],
    *,
    best: float,
) -> Any:
    """Left: cells that hold 0.2 % of the points, corners and centres. Right: cost of either.

    Parameters
    ----------
    points : array_like of shape (n, 2)
    depth : int
        Of the cells in the picture.
    costs : mapping of "corner" and "center" to costs of shape (len(depths),)
    best : float
        Cost of k-means on the points themselves.
    """
    left, right = panels(axes)
    points, grid = np.asarray(points), NestedGrid(2)
    cells, count = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
    cells = cells[count > 0.002 * len(points)]
    disc(left, points)
    squares(left, grid.corners(cells, depth), grid.cell_side(depth), SHADES[0])
    small: dict[str, Any] = {"size": 22, "linewidths": 0}
    centers(left, grid.corners(cells, depth), RED, "X", label="corner (printed)", **small)
    centers(left, grid.centers(cells, depth), LOCAL, label="centre", **small)
    left.legend(loc="upper left", bbox_to_anchor=(-0.06, 1.06), handletextpad=0.1)
    finish(left, "Corners all lie to one side")
    looks = {"corner": Look("corners", RED, "X-"), "center": Look("centres", LOCAL)}
    curves(right, depths, {name: costs[name] for name in looks}, looks)
    right.axhline(best, **DASHED)
    note(right, "k-means on the points", (depths[0], best * 0.93), va="top")
    for name, look in looks.items():
        note(right, look.label, (depths[1], np.asarray(costs[name])[1]), (10, 8))
    finish(
        right, "The floor map costs more than the grid", "depth of the grid (side 1, ½, ¼, ⅛)",
        "cost per point", log="y", xticks=depths, yticks=COSTS, ylim=(best * 0.7, None),
    )  # fmt: skip
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
    x, y = (float(value) for value in np.asarray(center))
    tints = ("#d5e1fb", "#fbe3c0", "#e3cfe0", "#dcdcdf")
    outer = 2.25 * max(radius for radius, _, _ in shells)
    for i, ((radius, corners, side), tint) in enumerate(zip(shells, tints, strict=False)):
        squares(ax, corners, side, tint, zorder=2 + i)
        for r in (radius, 2 * radius):
            ax.add_patch(Circle((x, y), r, fill=False, edgecolor=MUTED, linewidth=0.9, zorder=8))
        ax.annotate(
            f"{len(corners)} cells", (x + 1.36 * radius, y + 0.49 * radius),
            (x + 1.06 * outer, y + outer * (0.8 - 0.27 * i)), fontsize=10, va="center", zorder=9,
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": MUTED, "lw": 0.8},
        )  # fmt: skip
    ax.plot(x, y, "x", color=DARK, markersize=7, markeredgewidth=1.8, zorder=9)
    ax.set(xlim=(x - outer, x + outer), ylim=(y - outer, y + outer), aspect="equal")
    return finish(bare(ax), "Cells that grow with the distance:\nevery shell needs about as many")


def plot_run(
    ax: Axes, points: ArrayLike, result: LdpResult, means: ArrayLike | None = None
) -> Axes:
    """Cells that a one-round run chose (darker: finer) and its centres, over some users."""
    disc(ax, points)
    if result.grid is not None and result.chosen is not None:
        for shade, level in zip(SHADES, result.levels, strict=False):
            cells = result.chosen.cells[result.chosen.depth == level.depth]
            corners = result.grid.corners(cells, level.depth)
            squares(ax, corners, result.grid.cell_side(level.depth), shade)
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
        finish(ax, f"n = {power(n)}: {len(result.weights)} cells", f"cost {costs[n]:.3f}")
    headline(axes, "Cells light up as users arrive")
    return axes


def power(n: float) -> str:
    """The nearest power of ten."""
    return f"$10^{round(np.log10(n))}$"


# --- lemmas ---------------------------------------------------------------------------------------


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
    look = Look("_map", LOCAL, "v")
    curves(left, alphas[: len(ratios)], {"": ratios}, (look,), interval="marks")
    left.text(alphas.max(), 1.42, "allowed", ha="right", fontsize=10)
    text = ("The cost of a clustering survives", "α", "cost after / cost before")
    finish(left, *text, log="x", xticks=alphas)
    looks = (
        Look("corrected: 1 + √(2 ln(n/β)/d)", DARK, "--"),
        Look("measured", LOCAL, "v"),
        Look("printed: α√ln(n/β)", RED, ":"),
    )
    curves(right, alphas, dict(enumerate((corrected, stretch, printed))), looks)
    text = ("Points do not shrink: “1 +” is missing", "α", "largest ‖Tp‖/‖p‖")
    finish(right, *text, log="x", xticks=alphas, ylim=(0, None))
    right.legend(loc="lower right", fontsize=9)
    return axes


def plot_lsh(
    axes: Any,
    scene: Mapping[str, Any],
    collisions: Mapping[int, tuple[ArrayLike, ArrayLike]],
    measured: Mapping[int, tuple[ArrayLike, ArrayLike]],
    ratios: Mapping[float, tuple[ArrayLike, ArrayLike]],
) -> Any:
    """A bucket and its mean; the collision curve; what a bucket's mean is worth.

    Parameters
    ----------
    scene : mapping with "points" (n, 2), "same" (n,) bool, "filter" (2,) and "radius"
    collisions, measured : t -> (distances, probabilities)
    ratios : c -> (t, p(1)^2/p(c))
    """
    left, middle, right = panels(axes)
    points, same = np.asarray(scene["points"]), np.asarray(scene["same"], dtype=bool)
    for chosen, color, size in ((~same, DATA, 5), (same, LOCAL, 7)):
        left.scatter(points[chosen, 0], points[chosen, 1], s=size, color=color, linewidths=0)
    look: dict[str, Any] = {"fill": False, "edgecolor": DARK, "linewidth": 1.2, "zorder": 3}
    left.add_patch(Circle(scene["filter"], scene["radius"], **look))
    left.plot(*scene["filter"], "*", color=ORANGE, markersize=15, markeredgecolor="white", zorder=5)
    mean = points[same].mean(axis=0)
    left.plot(*mean, "X", color=RED, markersize=10, markeredgecolor="white", zorder=6)
    left.set(xticks=[], yticks=[], aspect="equal")
    finish(left, "One bucket", "★ filter  ✕ mean of its bucket")

    looks = dict(zip((1, 2, 4, 8), FOUR, strict=True))
    lines = {t: look._replace(label=f"t = {t}", style="-") for t, look in looks.items()}
    curves(middle, None, collisions, lines)
    marks = {t: look._replace(label="_", style=look.style[0]) for t, look in looks.items()}
    curves(middle, None, measured, marks)
    finish(middle, "Far points collide less", "distance u", "p(u)", log="y", ylim=(1e-3, 1.3))
    middle.legend(loc="upper right", fontsize=9)

    top = 1e5
    curves(right, None, ratios, tuple(Look("", c, "-") for c in (RED, PLUM, BLUE, LOCAL, ORANGE)))
    for c, pair in ratios.items():  # a name stands where its line leaves the axes
        x, ratio = (np.asarray(v, dtype=np.float64) for v in pair)
        last = int(np.flatnonzero(ratio < top)[-1])
        offset = (5, 0 if last == len(x) - 1 else 3)
        note(right, f"c = {c:g}", (x[last], ratio[last]), offset, fontsize=9, annotation_clip=False)
    right.axhline(1, color=MUTED, linestyle="--", linewidth=1.0)
    right.axvspan(1, 4, color="#eeeeee", zorder=0)
    right.text(2, 3e4, "t that a\nlaptop can\nhash", ha="center", va="top", fontsize=9)
    finish(
        right, "…only for large c and t", "dimensions t", "p(1)²/p(c)", log="xy",
        ylim=(0.2, top), xticks=[1, 2, 4, 8, 16, 32, 64],
    )  # fmt: skip
    headline(axes, "LSH filters far points out, if they are far enough")
    return axes
