"""Figures of notebook 01: attacks, the two ideas, masks, a run, where it breaks.

Each draws numbers that the notebook computed, and returns its axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from studies.bench import plots
from studies.bench.style import (
    BLUE,
    DARK,
    GREY,
    MUTED,
    RED,
    THEORY,
    Look,
)

COLUMNS = ("column 1", "column 2")

# --- the question and the attack ------------------------------------------------------------------


def plot_reconstruction(
    axes: Any, records: ArrayLike, exact: ArrayLike, noised: ArrayLike,
    names: Sequence[str] = COLUMNS,
) -> Any:  # fmt: skip
    """What is read (crosses) from exact sums, beside the records, and from noised sums.

    All have shape (m, 2), in the box [-1, 1]^2, which the right panel shows as a square.
    """
    ring: dict[str, Any] = {"facecolor": "none", "edgecolor": DARK, "linewidths": 1.4}
    plots.centers(axes[0], records, "none", size=110, label="a record", **ring)
    plots.centers(axes[0], exact, RED, "X", size=40, label="what is read")
    reach = 1.15 * float(np.abs(np.asarray(noised)).max(initial=2))
    axes[1].fill([-1, 1, 1, -1], [-1, -1, 1, 1], color=DARK, label="the box of all records")
    plots.centers(axes[1], noised, RED, "X", size=40, label="what is read")
    for ax, end, title in zip(axes, (1, reach), ("exact sums", "noised sums"), strict=True):
        labels = (f"{name} (scaled)" for name in names)
        plots.finish(ax, title, *labels, xlim=(-end, end), ylim=(-end, end), aspect="equal")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return axes


def plot_roc(
    ax: Axes, rates: Mapping[str, tuple[ArrayLike, ArrayLike]], *, mu: float, bound_label: str
) -> Axes:
    """ROC curves (false and true positive rates) of attacks, and the most that mu-GDP allows.

    The bound is TPR = Phi(Phi^-1(FPR) + mu).
    """
    grid = np.linspace(0, 1, 401)
    bound = norm.cdf(norm.ppf(grid) + mu)
    ax.fill_between(grid, bound, 1, color="#efeff2", linewidth=0, zorder=0)
    ax.plot(grid, bound, label=bound_label, **THEORY)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":", label="coin toss")
    looks = (Look("", RED, "-."), Look("", BLUE, "-"))
    plots.curves(ax, None, rates, looks, linewidth=2)
    ends: dict[str, Any] = {"xlim": (-0.02, 1), "ylim": (0, 1.02), "aspect": "equal"}
    plots.finish(ax, "", "false alarm rate", "detection rate", **ends)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), handlelength=3)
    return ax


def rates(without: ArrayLike, with_record: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """False alarm and detection rate for every threshold on the scores of an attacker."""
    scores = np.asarray(without), np.asarray(with_record)
    cuts = np.sort(np.r_[-np.inf, scores[0], scores[1], np.inf])[::-1]
    false, true = ((s[:, None] >= cuts).mean(axis=0) for s in scores)
    return false, true


# --- the two ideas, the shares of the budget, the wire --------------------------------------------


def plot_variants(ax: Axes, ratios: Mapping[str, ArrayLike]) -> Axes:
    """Factors on the cost, (m,) for each variant: a dot for each run, a bar at the median."""
    rng = np.random.default_rng(0)  # of the places across, which mean nothing
    for i, values in enumerate(np.asarray(v, dtype=np.float64) for v in ratios.values()):
        aside = rng.uniform(-0.18, 0.18, len(values))
        ax.plot(values, i + aside, "o", color=BLUE, markersize=3.5, alpha=0.55)
        ax.plot(np.full(2, np.median(values)), [i - 0.33, i + 0.33], color=DARK, linewidth=2.5)
    ax.axvline(1, **THEORY)
    ax.set_yticks(range(len(ratios)), list(ratios))
    ax.invert_yaxis()
    plots.finish(ax, "", "cost / cost without noise, lower is better", log="x")
    plots.ticks(ax, [0.5, 1, 2, 4, 8])
    return ax


def plot_shares(ax: Axes, shares: ArrayLike, lines: Mapping[str, ArrayLike]) -> Axes:
    """Error of a centre over the share of the budget for counts, one named line for each case."""
    looks = (Look("", BLUE, "-"), Look("", DARK, "--"))
    plots.curves(ax, shares, lines, looks)
    ax.legend(title="the centre", loc="upper center")
    return plots.finish(
        ax, "", "share of the budget for counts", "error / least of solid line", ylim=(0, 5)
    )


def plot_words(ax: Axes, seen: Mapping[str, ArrayLike], ring: int = 100_000) -> Axes:
    """Histograms of the words that the server sees, one for each kind of mask."""
    edges = np.linspace(0, ring, 41)
    for (name, words), color, dash in zip(seen.items(), (BLUE, DARK), ("-", "--"), strict=True):
        count = np.histogram(words, edges)[0]
        ax.stairs(count, edges, label=name, color=color, linestyle=dash, linewidth=1.8)
    ends: dict[str, Any] = {"xlim": (0, ring), "ylim": (0, None), "names": "upper right"}
    return plots.finish(ax, "", "B's word, as the server sees it", "rounds", **ends)


# --- a run ----------------------------------------------------------------------------------------


def plot_run(
    ax: Axes, points: ArrayLike, history: ArrayLike, *, radius: float | None = None,
    names: Sequence[str] = COLUMNS,
) -> Axes:  # fmt: skip
    """Centres of a run from start (small, hollow) to end (large) on two-column data.

    `points` have shape (n, 2); `history` (T + 1, k, 2) holds the centres before the first and after
    each round. Circles of `radius` around the final ones: what counts as inside.
    """
    history = np.asarray(history)
    plots.cloud(ax, points)
    ax.plot(*history.transpose(2, 0, 1), color=BLUE, linewidth=1, alpha=0.8, zorder=2)
    plots.centers(ax, history[0], "white", size=28, edgecolor=BLUE, zorder=3)
    if radius is not None:
        angle = np.linspace(0, 2 * np.pi, 100)[:, None]
        circles = history[-1].T[:, None] + radius * np.stack([np.cos(angle), np.sin(angle)])
        ax.plot(*circles, color=MUTED, linewidth=0.7, linestyle=":", zorder=2)
    plots.centers(ax, history[-1], BLUE)
    ends = (-1.05, 1.05)
    return plots.finish(ax, "", *(f"{name} (scaled)" for name in names), xlim=ends, ylim=ends)


# --- where it breaks, and the end ----------------------------------------------------------------


def plot_breaks(axes: Any, *by: Mapping[int, ArrayLike]) -> Any:
    """Factors on the cost of start, cut and noise over records (left) and columns (right).

    Each of `by` maps a size to (n_sets, 3) factors of the data sets. Drawn as medians with bars
    from 10 to 90 %, side by side.
    """
    looks = {"start": Look("start", DARK, "s--"), "cut": Look("cut", RED, "^:"),
             "noise": Look("noise", BLUE)}  # fmt: skip
    quantiles, ends = (0.1, 0.5, 0.9), [1.0]
    titles = ("2 columns", "2000 records")
    for ax, found, label, title in zip(axes, by, ("records", "columns"), titles, strict=True):
        ax.axhline(1, **THEORY)
        factors = np.stack([np.asarray(v, dtype=np.float64) for v in found.values()])
        for (name, look), factor, aside in zip(
            looks.items(), np.moveaxis(factors, 2, 0), (0.87, 1.0, 1.15), strict=True
        ):
            at = aside * np.array(list(found), dtype=np.float64)
            how: dict[str, Any] = {"interval": "bars", "quantiles": quantiles}
            plots.curves(ax, at, {name: factor}, [look], **how)
        plots.finish(ax, title, label, log="xy", xticks=list(found))
        plots.ticks(ax, [0.5, 1, 2, 5, 10, 20, 50], "y")
        ends.extend(plots.spread(np.moveaxis(factors, 1, 2), quantiles).ravel())
    for ax in axes:
        ax.set_ylim(0.9 * min(ends), 1.2 * max(ends))
    axes[0].legend(loc="upper right")
    axes[0].set_ylabel("factor on the cost (log)")
    return axes
