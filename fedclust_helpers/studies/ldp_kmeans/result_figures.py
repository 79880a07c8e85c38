"""Figures of notebook 03, sections 10 to 15: methods, trust models, four rounds, growth, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.federation import LocalReports
from fedclust_helpers.ldp_kmeans import LdpResult
from fedclust_helpers.studies.bench import style
from fedclust_helpers.studies.bench.plots import (
    centers,
    crosses,
    curves,
    finish,
    headline,
    note,
    panels,
    spread,
    ticks,
)
from fedclust_helpers.studies.bench.style import (
    BLUE,
    DARK,
    DASHED,
    GREY,
    ORANGE,
    PLUM,
    RED,
    THEORY,
    Look,
)
from fedclust_helpers.studies.ldp_kmeans.figures import (
    COSTS,
    FOUR,
    LOCAL,
    SHADES,
    WHITE,
    disc,
    power,
    released,
    squares,
)

METHODS: Mapping[str, Look] = {
    "alg1": Look("one round", LOCAL, "v"),
    "alg1_hso": Look("one round + sums", LOCAL, "^"),
    "alg1_printed": Look("one round, as printed", RED, "X"),
    "alg4": Look("four rounds", ORANGE, "s"),
    "alg4_lsh": Look("four rounds + LSH", ORANGE, "D"),
    "grid_histogram": Look("one grid", BLUE, "o"),
    "gaussian_report": Look("noisy points", GREY, "P"),
    "ldp_lloyd": Look("local Lloyd", PLUM, "<"),
    "private_mean": Look("one private mean", GREY, "o"),
    "central_glloyd": Look("central GLloyd", PLUM, "D"),
}
"""Look of each method; the keys are those of the result tables."""

TRUST: Mapping[str, Look] = {
    "local": Look("local: trust nobody", style.TRUST["local"], "v-"),
    "secure sum": Look("secure sum", style.TRUST["secure sum"], "o-"),
    "trusted": Look("trusted server", style.TRUST["trusted"], "D-"),
}
"""Look of each trust model."""


def plot_methods(
    ax: Axes, costs: Mapping[str, Mapping[int, ArrayLike]], *, best: float, single: float
) -> Axes:
    """Cost of each method at two n (open: the smaller), one row per method, log scale.

    Parameters
    ----------
    costs : method -> n -> costs of shape (repetitions,)
    best, single : float
        Non-private cost, and that of one centre at the origin.
    """
    y = np.arange(len(costs))[::-1]
    for height, (method, by_n) in zip(y, costs.items(), strict=True):
        _, color, marker = METHODS[method]
        for shift, (n, values) in zip((0.17, -0.17), sorted(by_n.items()), strict=True):
            values, at = np.asarray(values, dtype=np.float64), height + shift
            face = "white" if n == min(by_n) else color
            mark: dict[str, Any] = {"color": color, "markersize": 7, "markerfacecolor": face}
            ax.plot(values, np.full(len(values), at), marker, **mark)
            place = (values.max() * 1.07, at)
            note(ax, f"{values.mean():.3f}", place, fontsize=9, bbox=WHITE | {"pad": 0.6})
    for x, text in ((best, "non-private"), (single, "one centre at 0")):
        ax.axvline(x, zorder=0, **DASHED)
        ax.text(x, len(y) - 0.45, text, ha="center", va="bottom", fontsize=10)
    ax.set_yticks(y, [METHODS[m].label for m in costs])
    low, high = (power(n) for n in sorted(next(iter(costs.values()))))
    ax.set_title("Grids beat everything else, and need many users", pad=24)
    return finish(
        ax, "", f"cost per point (log); open marks n = {low}, filled n = {high}", xscale="log",
        xticks=[*COSTS, 1], ylim=(-0.6, len(y) - 0.4), xlim=(best * 0.85, None),
    )  # fmt: skip


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
    looks = (Look("_one", BLUE), Look("_one", LOCAL, "v-"), Look("_one", ORANGE, "s-"))
    curves(ax, depths, single, looks)
    for (n, values), look in zip(single.items(), looks, strict=False):
        both, last = float(np.asarray(double[n]).mean()), float(spread(values)[1][-1])
        ax.axhline(both, color=look.color, linestyle="--", linewidth=1.4)
        note(ax, "two levels", (depths[-1] + 0.12, both), fontsize=9, bbox=WHITE)
        note(ax, f"n = {power(n)}", (depths[-1], last), (8, 0))
    ax.axhline(best, color=DARK, linestyle=":", linewidth=1.2)
    return finish(
        ax, "One grid is as good, if you guess its depth",
        "depth of the only grid (side 1, ½, ¼, ⅛)", "cost per point", log="y", xticks=depths,
        yticks=COSTS, xlim=(depths[0] - 0.1, depths[-1] + 0.65),
    )  # fmt: skip


def plot_trust(
    ax: Axes, n_users: ArrayLike, costs: Mapping[str, ArrayLike], *, best: float
) -> Axes:
    """Cost against n under three trust models, the same algorithm and epsilon.

    Parameters
    ----------
    n_users : array_like of shape (m,)
    costs : keys of `TRUST` -> costs of shape (m, repetitions)
    best : float
    """
    for name, values in costs.items():
        ring: dict[str, Any] = {"markersize": 9, "markerfacecolor": "none"}
        curves(ax, n_users, {name: values}, TRUST, **(ring if name == "trusted" else {}))
    ax.axhline(best, **DASHED)
    ax.text(float(np.min(n_users)), best * 0.95, "non-private", va="top", fontsize=10)
    finish(
        ax, "Trusting nobody costs hundreds of times the users", "users n", "cost per point",
        log="xy", yticks=COSTS, ylim=(best * 0.8, None), names="upper right",
    )  # fmt: skip
    ticks(ax, [1e3, 1e4, 1e5, 1e6], text=None)
    return ax


def plot_rounds(axes: Any, points: ArrayLike, result: LdpResult, means: ArrayLike) -> Any:
    """What the server knows after each of four rounds, in two dimensions, on four axes."""
    titles = ("1  heavy cells", "2  candidates", "3  votes", "4  means (▾)")
    for ax, title in zip(panels(axes), titles, strict=True):
        finish(disc(ax, points), title)
    one, two, three, four = panels(axes)
    marked, candidates = result.heavy, result.candidates
    assert marked is not None and candidates is not None
    for shade, depth, cells in zip(SHADES, marked.depths, marked.cells, strict=False):
        squares(one, marked.grid.corners(cells, depth), marked.grid.cell_side(depth), shade)
    n_heavy = len(marked.centers())
    small: dict[str, Any] = {"size": 24, "linewidths": 0.5}
    centers(two, candidates[:n_heavy], ORANGE, "s", label="heavy cells", **small)
    centers(two, candidates[n_heavy:], RED, "D", label="LSH buckets", **small)
    two.legend(
        loc="lower center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9, handletextpad=0.1,
        columnspacing=0.6,
    )  # fmt: skip
    area = 900 * result.weights / max(result.weights.sum(), 1e-300)
    centers(three, result.proxies, ORANGE, size=area, alpha=0.8, linewidths=0.5)
    crosses(four, means)
    ring: dict[str, Any] = {"edgecolor": ORANGE, "linewidths": 1.6, "zorder": 5}
    centers(four, result.low_centers, "white", "s", size=60, **ring)
    released(four, result.centers)
    headline(axes, "Four rounds: find, refine, vote, recover")
    return axes


def plot_growth(ax: Axes, growth: Mapping[str, tuple[ArrayLike, ArrayLike, float]]) -> Axes:
    """What grows with n, each curve divided by its first value, with its fitted slope.

    `growth` maps names to (n, values, slope).
    """
    lines = {
        f"{name}: slope {slope:.2f}": (n, np.asarray(values) / np.ravel(values)[0])
        for name, (n, values, slope) in growth.items()
    }
    curves(ax, None, lines, FOUR)
    every = np.concatenate([np.ravel(n) for n, _, _ in growth.values()]).astype(np.float64)
    ends = np.array([every.min(), every.max()])
    root = np.sqrt(ends / ends[0])
    ax.plot(ends, root, **THEORY)
    ax.text(ends[1], root[1] * 0.8, "√n", ha="right", va="top", fontsize=10)
    title, y = "Noise grows like √n, the excess cost does not", "relative to the smallest n"
    finish(ax, title, "users n", y, log="xy", names="upper left")
    low, high = np.log10(ends)
    ticks(ax, 10.0 ** np.arange(np.ceil(low), np.floor(high) + 1), text=None)
    return ax


def plot_limits(
    axes: Any, epsilons: ArrayLike, needed: Mapping[str, ArrayLike], table: pd.DataFrame | None
) -> Any:
    """Left: users needed to see a cell with 2 % of them. Right: cost ratio against d' at ε = 1.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    needed : name -> users of shape (m,)
    table : DataFrame or None
        Rows of ``ldp_cost``, see `cost_ratios`.
    """
    left, right = panels(axes)
    looks = (Look("", RED, "X-"), Look("", LOCAL, "v-"), Look("", BLUE))
    curves(left, epsilons, needed, looks)
    text = ("To see a cell with 2 % of the users", "ε", "users needed")
    finish(left, *text, log="xy", xticks=epsilons, names="upper right")
    if table is None:
        right.set_visible(False)
        return axes
    part = cost_ratios(table, epsilon=1.0)
    lines = {f"n = {power(float(str(n)))}": row for n, row in part.iterrows()}
    curves(right, None, lines, FOUR)
    mean = cost_ratios(table, epsilon=1.0, algorithms=("private_mean", "private_mean")).min()
    right.plot(mean.index, mean, ":", color=DARK, linewidth=1.4)
    note(right, "one private mean", (mean.index[0], mean.iloc[0]), (0, 20))
    right.axhline(1, **DASHED)
    right.axvspan(6, 10, color="#eeeeee", zorder=0)
    note(right, "d > 6:\nvector sums", (7.7, part.max().max()), ha="center", va="top")
    finish(
        right, "Cost at ε = 1, k = 5", "dimension d′", "cost / non-private cost", log="xy",
        xticks=part.columns, yticks=[1, 2, 5, 10, 20], names="lower right",
    )  # fmt: skip
    return axes


def cost_ratios(
    table: pd.DataFrame, *, epsilon: float, algorithms: tuple[str, str] = ("alg1", "alg1_hso")
) -> pd.DataFrame:
    """Cost over non-private cost of the mixture at k = 5 by n (rows) and d' (columns), means.

    The first of `algorithms` up to six dimensions, the second beyond. `table` is ``ldp_cost``,
    with columns data, n, dprime, k, epsilon, algorithm, cost_per_point, nonprivate_cost.
    """
    same = (table["epsilon"] == epsilon) & (table["k"] == 5) & (table["data"] == "mixture")
    wanted = np.where(table["dprime"] > 6, algorithms[1], algorithms[0])
    chosen = table[same & (table["algorithm"] == wanted)]
    ratio = chosen["cost_per_point"] / chosen["nonprivate_cost"]
    return ratio.groupby([chosen["n"], chosen["dprime"]]).mean().unstack()


def said_by_users(federation: LocalReports, points: ArrayLike) -> pd.DataFrame:
    """One user of each part of a divided run: what it holds, was asked, and said.

    Parameters
    ----------
    federation : LocalReports
        After the run, made with ``keep_payloads=True``; each part was asked once, in order.
    points : array_like of shape (n, d)
        What the users hold. Nobody but the reader of a lesson has this column.
    """
    if federation.split is None:
        raise ValueError("federation must have divided its users")
    points, rows = np.asarray(points), []
    users = np.arange(federation.n_clients)
    messages = federation.transcript.view("server")
    for part, message in zip(federation.split.parts, messages, strict=True):
        if message.payload is None:
            raise ValueError("federation must keep payloads")
        user = int(users[federation.split.members(users, part)][0])
        said = message.payload[0]
        text = ("−1" if said[0] else "+1") if said.dtype == bool else _vector(said, 1)
        name = message.name.split(":")[0]
        rows.append((message.round + 1, name, user, _vector(points[user], 2), text))
    columns = ["round", "question", "user", "true point (secret)", "what left the phone"]
    return pd.DataFrame(rows, columns=columns)


def _vector(values: ArrayLike, digits: int) -> str:
    return "(" + ", ".join(f"{x:+.{digits}f}" for x in np.asarray(values)) + ")"
