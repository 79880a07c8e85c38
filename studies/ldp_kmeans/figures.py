"""Figures of notebook 03. Each draws numbers that are given to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from fedclust_helpers.ldp_kmeans import lsh, random_in_ball
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.program import Run
from studies.bench import plots, style
from studies.ldp_kmeans.lesson import COMPARED
from studies.ldp_kmeans.theory import collision_ratio

LOCAL = style.TRUST["local"]
SHADES = ("#b9b3e6", "#7a6fd0", "#4a3aa8", "#2b1d73")  # coarse to fine
WHITE: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # behind a name
COSTS = [0.02, 0.05, 0.1, 0.2, 0.5]
TRUST: Mapping[str, style.Look] = {
    "local": style.Look("local: trust nobody", LOCAL, "v-"),
    "secure sum": style.Look("secure sum", style.TRUST["secure sum"], "o-"),
    "trusted": style.Look("trusted server", style.TRUST["trusted"], "D-"),
}
"""Look of each trust model."""

# --- building blocks ------------------------------------------------------------------------------


def plot_coin(ax: Axes, naive: ArrayLike, debiased: ArrayLike, truth: float) -> Axes:
    """Histograms of the counted and the de-biased number of yes answers over many repetitions."""
    both = np.concatenate([np.ravel(naive), np.ravel(debiased)])
    edges, top = np.linspace(both.min(), both.max(), 90), 0.0
    for values, color, name in ((debiased, LOCAL, "de-biased"), (naive, style.RED, "naive count")):
        heights = np.histogram(values, edges)[0]
        ax.stairs(heights, edges, fill=True, color=color, alpha=0.85)
        top = max(top, float(heights.max()))
        place = (float(np.mean(np.asarray(values))), heights.max() * 1.04)
        plots.note(ax, name, place, ha="center", va="bottom", bbox=WHITE)
    ax.axvline(truth, zorder=0, **style.DASHED)
    plots.note(ax, "truth", (truth, 1.2 * top), (-6, 0), ha="right")
    title = "Counting the answers is wrong; undoing the coin is right"
    ends: dict[str, Any] = {"yticks": [], "ylim": (0, 1.3 * top)}
    return plots.finish(ax, title, "estimated number of “yes”", "repetitions", **ends)


def plot_spectrum(
    ax: Axes, estimates: ArrayLike, popular: ArrayLike, counts: ArrayLike, *, std: float, z: float
) -> Axes:
    """Estimates of all buckets: a bell of noise, and the popular values that stand out of it.

    `popular` are the buckets of planted values, `counts` their true counts; the noise has standard
    deviation `std`, the threshold is z times that.
    """
    estimates, popular = np.asarray(estimates, dtype=np.float64) / 1e3, np.asarray(popular)
    std, noise = std / 1e3, np.delete(estimates, popular)
    edges = np.linspace(noise.min(), noise.max(), 70)
    heights = np.maximum(np.histogram(noise, edges)[0], 0.5)
    ax.stairs(heights, edges, fill=True, color=style.PALE, baseline=0.5)
    grid = np.linspace(edges[0], edges[-1], 300)
    ax.plot(grid, norm.pdf(grid, 0, std) * len(noise) * (edges[1] - edges[0]), **style.THEORY)
    at, truth = estimates[popular], np.asarray(counts) / 1e3
    levels = np.geomspace(1.2, 60, len(at))
    ax.hlines(levels, at, truth, color=style.MUTED, linewidth=1.0)
    ax.plot(at, levels, "v", color=LOCAL, markersize=9, markeredgecolor="white")
    ax.plot(truth, levels, "|", color=style.DARK, markersize=14, markeredgewidth=1.8)
    ax.axvline(z * std, color=style.MUTED, linestyle="--", linewidth=1.2)
    plots.note(ax, f"{z:.1f} sd:\nnoise ends here", (z * std + 0.15, 2500), va="top")
    first, text = int(np.argmax(truth)), "popular places\n(ticks: the truth)"
    plots.note(ax, text, (float(at[first]), levels[first]), (0, 34), line=True, ha="center")
    title, x = "One bit from each user, all buckets at once", "estimated users in a bucket / 1000"
    return plots.finish(ax, title, x, "buckets", log="y", ylim=(0.5, 8e3))


def plot_splits(
    axes: Any, questions: ArrayLike, errors: Mapping[float, Mapping[str, ArrayLike]], measured: Any
) -> Any:
    """Error of L questions when the users or the budget are split, one panel per epsilon.

    epsilon -> name -> sd/sqrt(n): `errors` for each of `questions`, `measured` for ten of them.
    """
    looks = {
        "split the budget": style.Look("split the budget", style.RED, "-."),
        "split the users": style.Look("split the users", LOCAL, "-"),
        "mixed": style.Look("mixed: ε/2.18 questions each", style.DARK, ":"),
    }
    marks = {"split the budget": "X", "split the users": "v", "mixed": "o"}
    for ax, (epsilon, parts) in zip(plots.panels(axes), errors.items(), strict=True):
        plots.curves(ax, questions, parts, looks)
        for name, value in measured[epsilon].items():
            face = "white" if name == "mixed" else looks[name].color
            ax.plot(10, value, marks[name], color=looks[name].color, markersize=8, mfc=face)
        at = [1, 2, 5, 10, 20, 40]
        plots.finish(
            ax, f"ε = {epsilon:g}", "questions L", log="xy", xticks=at, yticks=[*at[:-1], 50]
        )
    first = plots.panels(axes)[0]
    first.set_ylabel("sd of a count / √n (log)")
    first.legend(loc="upper left")
    plots.headline(axes, "Let each user answer few questions well")
    return axes


def plot_noise_audit(
    axes: Any, scores: Mapping[str, Any], lower: Mapping[str, float], claimed: float
) -> Any:
    """title -> scores of one user's report for two values, and the lower bound on epsilon."""
    for ax, (title, pair) in zip(plots.panels(axes), scores.items(), strict=True):
        alarm = lower[title] > claimed
        verdict = f"ε is at least {lower[title]:.2f}" if alarm else "no alarm"
        plots.audit(ax, title, pair, f"claimed ε = {claimed:g}\n{verdict}", alarm=alarm)
        plots.finish(ax, "", "score of a report / its noise", "reports")
    return axes


def key_below(ax: Axes, height: float = 0.0) -> None:
    """What the marks in one panel mean, as they are drawn, at a height under it."""
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, height)}
    ax.legend(**place, ncols=3, handletextpad=0.2, columnspacing=1.0, borderaxespad=0.2)


# --- cells ----------------------------------------------------------------------------------------


def disc(ax: Axes, points: ArrayLike) -> Axes:
    """Some users, grey, in the unit disc, without ticks and frame."""
    plots.cloud(ax, points, size=3)
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.MUTED, linewidth=1.0, zorder=2))
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06))
    return plots.bare(ax)


def squares(ax: Axes, corners: ArrayLike, side: float, color: Any, *, zorder: float = 1.5) -> None:
    """Filled squares, from their lower corners (m, 2); a thin edge, dark around small ones."""
    patches = [Rectangle((x, y), side, side) for x, y in np.asarray(corners)]
    alpha = None if zorder > 1.5 else 0.5
    edge = "white" if side > 0.1 else SHADES[-1]
    look: dict[str, Any] = {"edgecolor": edge, "linewidth": 0.8, "zorder": zorder}
    ax.add_collection(PatchCollection(patches, facecolor=color, alpha=alpha, **look))


def plot_corners(
    axes: Any, points: ArrayLike, depth: int, costs: Mapping[str, Any], *, best: float
) -> Any:
    """Left: cells that hold 0.2 % of the points, corners and centres. Right: cost of either.

    `costs` maps "corner" and "center" to depth -> cost; `best` is k-means on the points.
    """
    left, right = plots.panels(axes)
    points, grid = np.asarray(points), NestedGrid(2)
    cells, count = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
    cells = cells[count > 0.002 * len(points)]
    disc(left, points)
    squares(left, grid.corners(cells, depth), grid.cell_side(depth), SHADES[0])
    small: dict[str, Any] = {"size": 24, "linewidths": 0}
    plots.centers(left, grid.corners(cells, depth), style.RED, "X", label="corner", **small)
    plots.centers(left, grid.centers(cells, depth), SHADES[3], label="centre", **small)
    plots.finish(left, "Corners lie to one side")
    key_below(left)
    looks = {
        "corner": style.Look("corners", style.RED, "X--"),
        "center": style.Look("centres", SHADES[3]),
    }
    plots.curves(
        right, None, {name: pd.Series(by_depth) for name, by_depth in costs.items()}, looks
    )
    right.axhline(best, **style.DASHED)
    depths = sorted(costs["corner"])
    plots.note(right, "k-means on the points", (depths[0], best * 0.93), va="top")
    for name, look in looks.items():
        plots.note(right, look.label, (depths[1], costs[name][depths[1]]), (10, 8))
    plots.finish(
        right, "Corners cost more", "level (side 1, ½, ¼, ⅛)", "cost per point", log="y",
        xticks=depths, yticks=COSTS, ylim=(best * 0.7, None),
    )  # fmt: skip
    return axes


def cells_of_shell(r: float, side: float, center: ArrayLike) -> NDArray[np.float64]:
    """Lower corners (m, 2) of grid cells that meet the shell r <= |p - center| < 2r."""
    center = np.asarray(center, dtype=np.float64)
    reach = int(np.ceil(2 * r / side)) + 1
    steps = np.indices((2 * reach, 2 * reach)).reshape(2, -1).T - reach
    low = (np.floor(center / side) + steps) * side - center
    near = np.linalg.norm(np.maximum(np.maximum(low, -(low + side)), 0), axis=1)
    far = np.linalg.norm(np.maximum(np.abs(low), np.abs(low + side)), axis=1)
    return np.asarray(low[(near < 2 * r) & (far >= r)] + center)


def plot_shells(ax: Axes, center: tuple[float, float], radii: ArrayLike) -> Axes:
    """Shells r to 2r around one centre, each with the cells of its own grid, of side r/sqrt(2)."""
    radii = np.asarray(radii, dtype=np.float64)
    sides, (x, y), outer = radii / np.sqrt(2), center, 2.25 * radii.max()
    shells = [cells_of_shell(r, side, center) for r, side in zip(radii, sides, strict=True)]
    tints = ("#ececf4", "#b9b3e6", "#7a6fd0", "#4a3aa8")
    for i, corners in enumerate(shells):
        squares(ax, corners, sides[i], tints[i % 4], zorder=2 + i)
        ax.add_patch(Circle(center, 2 * radii[i], fill=False, edgecolor=style.DARK, zorder=8))
    ax.plot(x, y, "x", color="white", markersize=7, markeredgewidth=1.8, zorder=9)
    ax.set(xlim=(x - outer, x + outer), ylim=(y - outer, y + outer), aspect="equal")
    numbers = ", ".join(str(len(corners)) for corners in shells)
    return plots.finish(
        plots.bare(ax), "Each shell needs about as many", f"cells, from outside: {numbers}"
    )


def plot_run(ax: Axes, points: ArrayLike, result: Run, means: ArrayLike | None = None) -> Axes:
    """Cells that a one-round run chose (darker: finer) and its centres, over some users."""
    disc(ax, points)
    if hasattr(result, "chosen"):
        for shade, level in zip(SHADES, result.levels, strict=False):
            cells = result.chosen.cells[result.chosen.depth == level.depth]
            corners = result.grid.corners(cells, level.depth)
            squares(ax, corners, result.grid.cell_side(level.depth), shade)
    if means is not None:
        plots.crosses(ax, means)
    return plots.centers(ax, result.centers, LOCAL, "v", size=95, zorder=5)


def plot_lights(
    axes: Any, points: ArrayLike, results: Mapping[int, Run], costs: Any, means: ArrayLike
) -> Any:
    """The one-round algorithm for growing n: one panel each, as in `plot_run`."""
    for ax, (n, result) in zip(plots.panels(axes), results.items(), strict=True):
        plot_run(ax, np.asarray(points)[:n], result, means)
        plots.finish(ax, f"n = {n:,}: {len(result.weights)} cells", f"cost {costs[n]:.4f}")
    plots.headline(axes, "Cells light up as users arrive")
    return axes


# --- runs -----------------------------------------------------------------------------------------


def plot_methods(
    ax: Axes, costs: Mapping[str, Mapping[int, ArrayLike]], *, best: float, single: float
) -> Axes:
    """method -> n -> costs of its repetitions, at two n (open: the smaller), one row per method.

    A tick marks each median, and a column on the right has its number. `best` is the non-private
    cost, `single` that of one centre at the origin.
    """
    y, sizes = np.arange(len(costs))[::-1], sorted(next(iter(costs.values())))
    for height, by_n in zip(y, costs.values(), strict=True):
        for shift, marker, n in zip((0.19, -0.19), "ov", sizes, strict=True):
            values, at = np.asarray(by_n[n], dtype=np.float64), height + shift
            face = "white" if n == sizes[0] else LOCAL
            ax.plot(
                values, np.full(len(values), at), marker, color=LOCAL, markersize=6, mfc=face,
                label=f"n = {n:,}" if height == 0 else None,
            )  # fmt: skip
            (tick,) = ax.plot(np.median(values), at, "|", color=style.DARK, markersize=12, mew=1.5)
            text = f"{np.median(values):.3f}"
            ax.text(1.02, at, text, transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.text(1.02, len(y) - 0.4, "median", transform=ax.get_yaxis_transform(), fontsize=9)
    for x, text in ((best, "non-private"), (single, "one centre at 0")):
        ax.axvline(x, zorder=0, **style.DASHED)
        ax.text(x, len(y) - 0.4, text, ha="center", va="bottom", fontsize=10)
    tick.set_label("median")
    ax.set_yticks(y, list(costs))
    key_below(ax, -0.14)
    ax.set_title("Two levels come first at both n; one grid comes near if its side fits", pad=24)
    return plots.finish(
        ax, "", "cost per point (log)",
        xscale="log", xticks=[*COSTS, 1], ylim=(-0.6, len(y) - 0.4), xlim=(best * 0.85, None),
    )  # fmt: skip


def plot_trust(
    ax: Axes, n_users: ArrayLike, costs: Mapping[str, ArrayLike], *, best: float
) -> Axes:
    """Cost against n: keys of `TRUST` -> costs of shape (m, repetitions)."""
    for name, values in costs.items():
        ring: dict[str, Any] = {"markersize": 9, "markerfacecolor": "none"}
        plots.curves(ax, n_users, {name: values}, TRUST, **(ring if name == "trusted" else {}))
    ax.axhline(best, **style.DASHED)
    ax.text(float(np.min(n_users)), best * 0.95, "non-private", va="top", fontsize=10)
    plots.finish(
        ax, "Trusting nobody costs a hundred times the users and more", "users n", "cost per point",
        log="xy", yticks=COSTS, ylim=(best * 0.8, None), names="upper right",
    )  # fmt: skip
    plots.ticks(ax, [1e3, 1e4, 1e5, 1e6], text=None)
    return ax


def plot_lsh(axes: Any, *, rng: np.random.Generator) -> Any:
    """Left: one bucket of a ball-carving hash. Right: p(1)^2/p(u) against the dimension t."""
    left, right = plots.panels(axes)
    near, radius = np.array([0.25, 0.2]), 0.16
    blob = near + radius * rng.normal(size=(600, 2)) / 2
    points = np.concatenate([near[None], blob, random_in_ball(1500, 2, rng=rng)])
    keys = lsh.BallCarvingHash(2, rng=rng, t=2, scale=radius)(points)
    same = keys == keys[0]
    for chosen, color, size in ((~same, style.DATA, 5), (same, SHADES[2], 7)):
        name = "its bucket" if color != style.DATA else None
        left.scatter(
            points[chosen, 0], points[chosen, 1], s=size, color=color, linewidths=0, label=name
        )
    look: dict[str, Any] = {"fill": False, "edgecolor": style.DARK, "linewidth": 1.2, "zorder": 3}
    left.add_patch(Circle((near[0], near[1]), radius, **look))
    white: dict[str, Any] = {"markeredgecolor": "white", "zorder": 5, "linestyle": "none"}
    left.plot(*near, marker="*", color=style.ORANGE, markersize=17, label="one user", **white)
    mean = points[same].mean(axis=0)
    left.plot(*mean, marker="X", color=style.RED, markersize=11, label="its mean", **white)
    left.set(xlim=(-0.3, 0.8), ylim=(-0.35, 0.75), aspect="equal")
    plots.finish(plots.bare(left), "A bucket also holds strangers")
    key_below(left)
    ts, top = [1, 2, 4, 8, 16, 32, 64], 1e4
    for u, mark in zip((1.5, 2, 3, 4, 6), "os^Dv", strict=True):
        damped = np.array([collision_ratio(t, u) for t in ts])
        shown = damped < top
        right.plot(np.array(ts)[shown], damped[shown], mark + "-", color=LOCAL)
        last = int(np.flatnonzero(shown)[-1])
        plots.note(right, f"u = {u:g}", (ts[last], damped[last]), (8, 0), annotation_clip=False)
    plots.note(right, "u: distance\nin radii", (4.6, 0.5 * top), va="top")
    right.axhline(1, **style.DASHED)
    plots.note(right, "below: not damped", (5, 0.32))
    right.axvspan(0.9, 4, color="#eeeeee", zorder=0)
    plots.note(right, "what a laptop\ncan hash", (1.9, 0.5 * top), ha="center", va="top")
    return plots.finish(
        right, "Far users are damped if they are far enough", "dimensions t",
        "damping p(1)²/p(u), a ratio",
        log="xy", ylim=(0.2, top), xlim=(0.9, 64), xticks=ts,
    ) and axes  # fmt: skip


def plot_rounds(axes: Any, points: ArrayLike, result: Run, means: ArrayLike) -> Any:
    """What the server knows after each of four rounds, in two dimensions, on four axes."""
    one, two, three, four = (disc(ax, points) for ax in plots.panels(axes))
    marked, candidates = result.heavy, result.candidates
    for shade, depth, cells in zip(SHADES, marked.depths, marked.cells, strict=False):
        squares(one, marked.grid.corners(cells, depth), marked.grid.cell_side(depth), shade)
    plots.finish(one, "1  heavy cells, coarse to fine")
    n_heavy = len(marked.centers())
    ring: dict[str, Any] = {"edgecolor": style.DARK, "linewidths": 1.2, "zorder": 5}
    plots.centers(two, candidates[:n_heavy], SHADES[0], "s", size=26, label="heavy cell", **ring)
    plots.centers(two, candidates[n_heavy:], style.RED, "D", size=26, label="bucket")
    plots.finish(two, "2  candidates")
    key_below(two)
    area = 1500 * result.weights / max(result.weights.sum(), 1e-300)
    plots.centers(three, result.proxies, SHADES[1], size=area, alpha=0.75, edgecolor=style.DARK)
    plots.finish(three, "3  votes (area)")
    plots.centers(four, result.low_centers, SHADES[0], "s", size=70, label="votes", **ring)
    plots.centers(four, result.centers, LOCAL, "v", size=95, zorder=5, label="means")
    plots.crosses(four, means).collections[-1].set_label("truth")
    plots.finish(four, "4  centres")
    key_below(four)
    plots.headline(axes, "Four rounds: find, refine, vote, recover")
    return axes


def plot_limits(axes: Any, needed: pd.DataFrame, ratios: pd.DataFrame) -> Any:
    """Left: users needed to see a cell with 2 % of them, one row for each epsilon, one column for
    each design. Right: rows (method, n) of `cost_ratios` for one k, against the dimension.
    """
    left, right = plots.panels(axes)
    looks = (
        style.Look("", style.RED, "X--"),
        style.Look("", LOCAL, "v-"),
        style.Look("", style.BLUE),
    )
    plots.curves(left, needed.index, {name: needed[name] for name in needed}, looks)
    plots.finish(
        left, "To see a cell with 2 % of the users", "ε", "users needed", log="xy",
        xticks=needed.index, names="upper right", ylim=(1, 1e12),
    )  # fmt: skip
    big = sorted({n for _, n in ratios.index})[-2:]
    for method, color, dash in zip(
        COMPARED, (LOCAL, style.ORANGE, style.DARK), ("-", "--", ":"), strict=True
    ):
        for n, mark in zip(big, "ov", strict=True):
            row = ratios.loc[(method, n)].dropna()
            if method != COMPARED[2]:
                name = f"{method}, $10^{round(np.log10(n))}$ users"
                right.plot(row.index, row, mark + dash, color=color, label=name)
            elif n == big[0]:
                right.plot(row.index, row, dash, color=color, label=method)
    right.axhline(1, **style.DASHED)
    return plots.finish(
        right, "Cost over best cost, ε = 1, five clusters", "dimension d", "cost / best cost",
        log="xy", xticks=ratios.columns, yticks=[1, 2, 5, 10, 20], names="upper left",
        ylim=(0.9, 120),
    ) and axes  # fmt: skip
