"""Pictures of whole runs: methods, trust models, four rounds, growth with n, where it breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.federation import LocalReports
from fedclust_helpers.ldp_kmeans import LdpResult
from fedclust_helpers.studies.ldp_kmeans.figures._common import (
    BLUE,
    DARK,
    LOCAL,
    METHODS,
    MUTED,
    ORANGE,
    PLUM,
    THEORY,
    TRUST,
    WRONG,
    line,
    mean_and_range,
    panels,
    plain_ticks,
    powers,
)
from fedclust_helpers.studies.ldp_kmeans.figures.grids import (
    SHADES,
    cloud,
    crosses,
    released,
    squares,
)


def plot_methods(
    ax: Axes, costs: Mapping[str, Mapping[int, ArrayLike]], *, best: float, single: float
) -> Axes:
    """Cost of each method at two n (open: the smaller), one row per method, log scale.

    Parameters
    ----------
    costs : method -> n -> costs of shape (repetitions,)
    best : float
        Non-private cost.
    single : float
        Cost of one centre at the origin.
    """
    y = np.arange(len(costs))[::-1]
    for height, (method, by_n) in zip(y, costs.items(), strict=True):
        _, color, marker = METHODS[method]
        for shift, (n, values) in zip((0.17, -0.17), sorted(by_n.items()), strict=True):
            values = np.asarray(values, dtype=np.float64)
            small = n == min(by_n)
            ax.plot(
                values, np.full(len(values), height + shift), marker if marker != "_" else "o",
                color=color, markersize=7, linestyle="none", markeredgecolor=color,
                markerfacecolor="white" if small else color,
            )  # fmt: skip
            ax.text(
                values.max() * 1.07, height + shift, f"{values.mean():.3f}", va="center",
                fontsize=9, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
    for x, text in ((best, "non-private"), (single, "one centre at 0")):
        ax.axvline(x, color=DARK, linestyle="--", linewidth=1.2, zorder=0)
        ax.text(x, len(y) - 0.45, text, ha="center", va="bottom", fontsize=10)
    ax.set_yticks(y, [METHODS[m][0] for m in costs])
    low, high = (f"$10^{round(np.log10(n))}$" for n in sorted(next(iter(costs.values()))))
    ax.set(xscale="log", ylim=(-0.6, len(y) - 0.4), xlim=(best * 0.85, None))
    ax.set_xlabel(f"cost per point (log scale); open marks n = {low}, filled n = {high}")
    plain_ticks(ax, [0.02, 0.05, 0.1, 0.2, 0.5, 1])
    ax.set_title("Grids beat everything else, and need many users", pad=24)
    return ax


def plot_trust(
    ax: Axes,
    n_users: ArrayLike,
    costs: Mapping[str, ArrayLike],
    *,
    best: float,
    lloyd: ArrayLike | None = None,
) -> Axes:
    """Cost against n under three trust models, the same algorithm and epsilon.

    Parameters
    ----------
    n_users : array_like of shape (m,)
    costs : keys of `TRUST` -> costs of shape (m, repetitions)
    best : float
    lloyd : array_like of shape (m, repetitions), optional
        GLloyd from a public start at a trusted server, drawn thin.
    """
    n_users = np.asarray(n_users, dtype=np.float64)
    for name, values in costs.items():
        label, color, marker = TRUST[name]
        mean, low, high = mean_and_range(values)
        ax.fill_between(n_users, low, high, color=color, alpha=0.18, linewidth=0)
        size = 9 if marker == "D" else 6
        ax.plot(
            n_users, mean, marker + "-", color=color, label=label, markersize=size,
            markerfacecolor="none" if marker == "D" else color,
        )  # fmt: skip
    if lloyd is not None:
        ax.plot(
            n_users, np.asarray(lloyd).mean(axis=1), "-.", color=MUTED, linewidth=1.3,
            label="trusted, GLloyd from a public start",
        )  # fmt: skip
    ax.axhline(best, color=DARK, linestyle="--", linewidth=1.2)
    ax.text(n_users[0], best * 0.95, "non-private", va="top", fontsize=10)
    ax.set(xscale="log", yscale="log", xlabel="users n (log scale)", ylim=(best * 0.8, None))
    ax.set_ylabel("cost per point (log scale)")
    powers(ax, [1e3, 1e4, 1e5, 1e6])
    plain_ticks(ax, [0.02, 0.05, 0.1, 0.2, 0.5], "y")
    ax.legend(loc="upper right")
    ax.set_title("Trusting nobody costs hundreds of times the users")
    return ax


def plot_rounds(axes: Any, points: ArrayLike, result: LdpResult, means: ArrayLike) -> Any:
    """What the server knows after each of four rounds, in two dimensions.

    Parameters
    ----------
    axes : four Axes
    result : LdpResult of `four_rounds`, two-dimensional
    """
    one, two, three, four = panels(axes)
    for ax in (one, two, three, four):
        cloud(ax, points)
    marked, candidates = result.heavy, result.candidates
    assert marked is not None and candidates is not None
    for shade, depth, cells in zip(SHADES, marked.depths, marked.cells, strict=False):
        side = marked.grid.cell_side(depth)
        squares(one, marked.grid.corners(cells, depth), side, color=shade, alpha=0.45)
    n_heavy = len(marked.centers())
    for rows, marker, color, name in (
        (candidates[:n_heavy], "s", ORANGE, "heavy cells"),
        (candidates[n_heavy:], "D", WRONG, "LSH buckets"),
    ):
        two.scatter(
            rows[:, 0], rows[:, 1], s=24, marker=marker, color=color, zorder=4, label=name,
            edgecolor="white", linewidths=0.5,
        )  # fmt: skip
    two.legend(
        loc="lower center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9, handletextpad=0.1,
        columnspacing=0.6,
    )  # fmt: skip
    area = 900 * result.weights / max(result.weights.sum(), 1e-300)
    three.scatter(
        result.proxies[:, 0], result.proxies[:, 1], s=area, color=ORANGE, alpha=0.8, zorder=4,
        edgecolor="white", linewidths=0.5,
    )  # fmt: skip
    crosses(four, means)
    released(four, result.low_centers, color="white", marker="s")
    four.scatter(
        result.low_centers[:, 0], result.low_centers[:, 1], s=60, marker="s", facecolor="none",
        edgecolor=ORANGE, linewidths=1.6, zorder=5,
    )  # fmt: skip
    released(four, result.centers)
    titles = (
        "1  heavy cells", "2  candidates", "3  votes", "4  means (▾)",
    )  # fmt: skip
    for ax, title in zip((one, two, three, four), titles, strict=True):
        ax.set_title(title, fontsize=11)
    one.figure.suptitle("Four rounds: find, refine, vote, recover", x=0.01, ha="left", fontsize=12)
    return axes


def plot_growth(ax: Axes, curves: Mapping[str, tuple[ArrayLike, ArrayLike, float]]) -> Axes:
    """What grows with n, each curve divided by its first value, with its fitted slope.

    Parameters
    ----------
    curves : name -> (n, values, slope)
    """
    styles = ((BLUE, "o"), (PLUM, "s"), (LOCAL, "v"), (ORANGE, "D"))
    first = math.inf
    for (name, (n, values, slope)), (color, marker) in zip(curves.items(), styles, strict=False):
        n, values = np.asarray(n, dtype=np.float64), np.asarray(values, dtype=np.float64)
        ax.plot(
            n, values / values[0], marker + "-", color=color, label=f"{name}: slope {slope:.2f}"
        )
        first = min(first, n[0])
    ends = np.array([first, max(float(np.max(c[0])) for c in curves.values())])
    ax.plot(ends, np.sqrt(ends / ends[0]), **THEORY)
    ax.text(ends[-1], np.sqrt(ends[-1] / ends[0]) * 0.8, "√n", ha="right", va="top", fontsize=10)
    ax.set(xscale="log", yscale="log", xlabel="users n (log scale)")
    ax.set_ylabel("relative to the smallest n (log)")
    powers(ax, 10.0 ** np.arange(np.ceil(np.log10(ends[0])), np.floor(np.log10(ends[1])) + 1))
    ax.legend(loc="upper left")
    ax.set_title("Noise grows like √n, the excess cost does not")
    return ax


def plot_limits(
    axes: Any,
    epsilons: ArrayLike,
    needed: Mapping[str, ArrayLike],
    table: pd.DataFrame | None,
    *,
    epsilon: float = 1.0,
) -> Any:
    """Left: users needed to see a cell with 2 % of them. Right: cost ratio against d' (table).

    Parameters
    ----------
    axes : two Axes
    epsilons : array_like of shape (m,)
    needed : name -> users of shape (m,)
    table : DataFrame or None
        Rows of ``ldp_cost``: data, n, dprime, k, epsilon, algorithm, cost_per_point,
        nonprivate_cost.
    """
    left, right = panels(axes)
    styles = ((WRONG, "X"), (LOCAL, "v"), (BLUE, "o"))
    for (name, values), (color, marker) in zip(needed.items(), styles, strict=False):
        left.plot(epsilons, values, marker + "-", color=color, label=name)
    left.set(xscale="log", yscale="log", xlabel="ε (log scale)", ylabel="users needed (log scale)")
    plain_ticks(left, epsilons)
    left.legend(loc="upper right")
    left.set_title("To see a cell with 2 % of the users", fontsize=11)
    if table is None:
        right.set_visible(False)
        return axes
    marks = ((BLUE, "o"), (PLUM, "s"), (LOCAL, "v"), (ORANGE, "D"))
    part = cost_ratios(table, epsilon=epsilon)
    for (n, row), (color, marker) in zip(part.iterrows(), marks, strict=False):
        right.plot(
            row.index,
            row,
            marker + "-",
            color=color,
            label=f"n = $10^{round(np.log10(float(str(n))))}$",
        )
    mean = cost_ratios(table, epsilon=epsilon, algorithms=("private_mean", "private_mean"))
    right.plot(mean.columns, mean.min(), ":", color=DARK, linewidth=1.4)
    right.annotate(
        "one private mean", (mean.columns[0], mean.min().iloc[0]), xytext=(0, 16),
        textcoords="offset points", fontsize=10, color=DARK,
    )  # fmt: skip
    right.axhline(1, color=DARK, linestyle="--", linewidth=1.2)
    right.axvspan(6, 10, color="#eeeeee", zorder=0)
    right.annotate(
        xy=(7.7, part.max().max()), xytext=(0, 0), textcoords="offset points", ha="center",
        va="top", **{k: v for k, v in line("d > 6:\nvector sums").items() if k != "arrowprops"},
    )  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="dimension d′ (log scale)")
    right.set_ylabel("cost / non-private cost (log)")
    plain_ticks(right, part.columns)
    plain_ticks(right, [1, 2, 5, 10, 20], "y")
    right.legend(loc="lower right")
    right.set_title(f"Cost at ε = {epsilon:g}, k = 5", fontsize=11)
    return axes


def cost_ratios(
    table: pd.DataFrame,
    *,
    epsilon: float,
    n_clusters: int = 5,
    data: str = "mixture",
    algorithms: tuple[str, str] = ("alg1", "alg1_hso"),
) -> pd.DataFrame:
    """Cost over non-private cost by n (rows) and d' (columns), means over data sets.

    The first of `algorithms` up to six dimensions, the second beyond.
    """
    chosen = table[(table["epsilon"] == epsilon) & (table["k"] == n_clusters)]
    chosen = chosen[chosen["data"] == data]
    wanted = np.where(chosen["dprime"] > 6, algorithms[1], algorithms[0])
    chosen = chosen[chosen["algorithm"] == wanted]
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
