"""Figures of notebook 01: attacks, noise, masks, a run, the committed tables, where it breaks.

Each draws numbers that the notebook computed, and returns its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from studies.bench import plots
from studies.bench.style import (
    BLUE,
    DARK,
    GREY,
    LOOKS,
    MUTED,
    ORANGE,
    PALE,
    RED,
    THEORY,
    Look,
)

# --- the question and the attack ------------------------------------------------------------------


def plot_hospitals(
    axes: Any, parts: Sequence[ArrayLike], alone: Sequence[ArrayLike], together: ArrayLike
) -> Any:
    """One panel per hospital: its rows, the centres it finds alone, and those of all rows.

    `parts` have shapes (n_i, 2); `alone`, one for each of them, and `together` have (k, 2).
    """
    ring: dict[str, Any] = {"facecolor": "none", "edgecolor": DARK, "linewidths": 1.6, "zorder": 5}
    for ax, part, found, name in zip(axes, parts, alone, "ABCDEFGH", strict=False):
        plots.cloud(ax, part)
        plots.centers(ax, together, "none", size=110, label="centres of all rows", **ring)
        plots.centers(ax, found, RED, "X", size=70, label="centres found alone")
        title = f"hospital {name}, {len(np.asarray(part))} rows"
        plots.finish(ax, title, "feature 1", xlim=(-1, 1), ylim=(-1, 1))
    axes[0].set_ylabel("feature 2")
    plots.legend_below(axes, 2)
    return axes


def plot_reconstruction(
    ax: Axes, points: ArrayLike, target: ArrayLike, exact: ArrayLike, guesses: ArrayLike
) -> Axes:
    """Guesses of a record from two releases, exact (one cross) and noised (many dots).

    The inset enlarges the box that holds all data. `points` have shape (n, 2), `guesses` (m, 2),
    `target` and the `exact` guess (2,).
    """
    guesses, target, exact = np.asarray(guesses), np.asarray(target), np.asarray(exact)
    box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]).T
    name = "guess from two FastLloyd runs"
    plots.centers(ax, guesses, BLUE, size=12, alpha=0.6, linewidths=0, label=name)
    ax.fill(*box, color=DARK, zorder=4)
    reach = 1.05 * float(np.abs(guesses).max())
    ends: dict[str, Any] = {"xlim": (-reach, reach), "ylim": (-reach, reach), "aspect": "equal"}
    plots.finish(ax, "", "feature 1", "feature 2", **ends)
    inset = ax.inset_axes((0.7, 0.7, 0.36, 0.36))
    inset.set_facecolor("white")
    plots.cloud(inset, points, size=1.5)
    inset.plot(*box, color=DARK, linewidth=1.6)
    cross: dict[str, Any] = {"color": RED, "marker": "+", "linestyle": "none"}
    ax.plot([], [], markeredgewidth=2, label="guess from two exact runs", **cross)
    inset.plot(*exact, markersize=10, markeredgewidth=2, zorder=6, **cross)
    inset.plot(*target, "o", markersize=12, markerfacecolor="none", color=DARK, zorder=5)
    ax.scatter([], [], s=120, facecolor="none", edgecolor=DARK, label="the record")
    inset.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=[], yticks=[])
    ax.indicate_inset_zoom(inset, edgecolor=MUTED)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), handletextpad=0.2)
    return ax


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


# --- sensitivity ----------------------------------------------------------------------------------


def plot_changes(ax: Axes, cases: ArrayLike) -> Axes:
    """Share of cases with at most such a change; columns of (m, 3): plain, relative, replaced.

    Changes are in units of the radius; the axis ends at 4.
    """
    cases = np.sort(np.asarray(cases, dtype=np.float64), axis=0)
    share = 100 * np.arange(1, len(cases) + 1) / len(cases)
    names = ("plain sum, one added", "relative sum, one added", "relative sum, one replaced")
    looks = (Look("", ORANGE, ":"), Look("", BLUE, "-"), Look("", DARK, "--"))
    plots.curves(ax, None, {n: (c, share) for n, c in zip(names, cases.T, strict=True)}, looks)
    for place, text in ((1, "η"), (2, "2η")):
        ax.axvline(place, **THEORY)
        plots.note(ax, text, (place, 6), (4, 0))
    ends: dict[str, Any] = {"xlim": (0, 4.0), "ylim": (0, 102), "names": "lower right"}
    return plots.finish(ax, "", "change caused by one record, in units of η", "% of cases", **ends)


# --- the wire -------------------------------------------------------------------------------------


def plot_masked(
    axes: Any, seen: Sequence[Mapping[str, ArrayLike]], titles: Sequence[str], bits: int
) -> Any:
    """Histograms of masked words for different hidden values, one panel per kind of pad."""
    edges = np.linspace(0, 1, 33)
    for ax, words, title in zip(axes, seen, titles, strict=True):
        looks = zip(words.items(), LOOKS, ("-", "--", ":"), strict=False)
        for (name, values), look, dash in looks:
            share = np.histogram(np.asarray(values, float) / 2.0**bits, edges)[0]
            style: dict[str, Any] = {"color": look.color, "linestyle": dash, "linewidth": 1.8}
            ax.stairs(share / share.mean(), edges, label=name, **style)
        x, y = f"word seen by the server / 2^{bits}", "frequency / uniform"
        plots.finish(ax, title, x, y, ylim=(0, 2.6), xlim=(0, 1))
    axes[0].legend(title="hidden value", loc="upper center", ncols=len(seen[0]), handlelength=1.6)
    return axes


def plot_rounding(
    axes: Any,
    mass: Callable[..., Any],
    exact_delta: Callable[..., float],
    sd: float,
    claim: tuple[float, float],
) -> Any:
    """Left: probabilities of a truncated count near zero. Right: exact delta of one release.

    `mass(m, sd, rule)` and `exact_delta(epsilon, sd, rule)` are those of the notebook, with the
    rules "truncated" and "rounded"; `claim` is (epsilon, delta) of the whole run.
    """
    (left, right), m = axes, np.arange(-6, 8)
    atoms = {
        "no record": 1000 * mass(m, sd, "truncated"),
        "one record": 1000 * mass(m - 1, sd, "truncated"),
    }
    plots.curves(left, m, atoms, (Look("", DARK, "o-"), Look("", ORANGE, "s--")), linewidth=1)
    text = ("truncated noise: a double atom", "released count", "probability × 1000")
    plots.finish(left, *text, ylim=(0, None), xticks=m[::3], names="lower right")
    epsilons = np.linspace(0, 0.15, 61)
    for rule, color, dash in (("truncated", RED, "-"), ("rounded", DARK, "--")):
        deltas = np.array([exact_delta(e, sd, rule) for e in epsilons])
        deltas[deltas < 1e-15] = np.nan
        right.plot(epsilons, deltas, dash, color=color, label=rule)
    right.plot(*claim, "D", color=DARK)
    plots.note(right, "claimed", claim, (-7, 10), ha="right")
    ends: dict[str, Any] = {"log": "y", "ylim": (1e-17, 0.3), "names": (0.58, 0.3)}
    plots.finish(right, "one count release", "ε", "exact δ", **ends)
    return axes


# --- a run ----------------------------------------------------------------------------------------


def plot_run(
    ax: Axes, points: ArrayLike, history: ArrayLike, *, radius: float | None = None
) -> Axes:
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
    return plots.finish(ax, "", "feature 1", "feature 2", xlim=ends, ylim=ends)


# --- the committed tables, and where it breaks ----------------------------------------------------

METHODS = {
    "sulloyd": Look("SuLloyd", RED, "^-"),
    "glloyd": Look("GLloyd", ORANGE, "s-"),
    "fastlloyd": Look("FastLloyd", BLUE, "o-"),
}
SHORT = {
    r"(.*) follows the same trend: FastLloyd better than (.*)": r"\1, against \2",
    r"FastLloyd has the smallest AUC": "smallest AUC",
    r"FastLloyd (also )?beats ": "cost, against ",
    r"fastlloyd beats ": "cost, against ",
    r"_fold, a baseline that folds": " that folds",
    r" in all cases": "",
    r"clipping the step improves consistently": "clipping the step beats none",
    r"smallest AUC of the two on all Synth sets \(SuLloyd\)": "smaller AUC than SuLloyd (Synth)",
    r" at every d \(G2\)": " at every d",
    r"davies bouldin": "Davies-Bouldin",
    r"centroid mse": "centroid error",
    r"\bglloyd": "GLloyd",
    r"\bsulloyd": "SuLloyd",
}
"""What the rows of `plot_wins` say instead of the whole statement."""
COUNTED = r"better in (?P<better>\d+), worse in (?P<worse>\d+), tie in (?P<tie>\d+)"


def plot_wins(ax: Axes, claims: pd.DataFrame) -> Axes:
    """Share of comparisons decided for and against each claim that counts them; the rest are ties.

    `claims` has the columns of `studies.claims`. Of two rivals in one figure of the paper only the
    harder one, GLloyd, is drawn.
    """
    said = claims["statement"]
    easy = said.str.contains("sulloyd", case=False) & claims["where"].ne("Fig. 4")
    claims = claims[(said.str.contains("FastLloyd") | claims["where"].eq("Fig. 5")) & ~easy]
    cells = claims["found"].str.extract(COUNTED).dropna().astype(int)
    total, rows = cells.sum(axis=1), np.arange(len(cells))[::-1]
    ax.hlines(rows, 0, 100, color=PALE, linewidth=0.8, zorder=0)
    for name, color, mark in (("better", BLUE, "o"), ("worse", DARK, "x")):
        ax.plot(100 * cells[name] / total, rows, mark, color=color, label=name)
    named = claims.loc[cells.index]
    words = list(named["statement"].replace(SHORT, regex=True))
    texts = [f"{w}: {s} ({n})" for w, s, n in zip(named["where"], words, total, strict=True)]
    ax.set_yticks(rows, texts, fontsize=10)
    lost, level = (cells[c].sum() / total.sum() for c in ("worse", "tie"))
    title = f"FastLloyd loses {lost:.0%} of these comparisons, and {level:.0%} are level"
    plots.finish(ax, title, "% of comparisons", xlim=(-3, 103))
    ax.legend(loc="upper center", bbox_to_anchor=(0.3, -0.1), ncols=2)
    return ax


def plot_breaks(axes: Any, *by: Mapping[int, ArrayLike]) -> Any:
    """Costs of privacy and of the start against records (left) and columns (right).

    Each of `by` maps a size to (n_sets, 2) factors on the cost of each data set: that of privacy
    and that of the start. Drawn as medians with bars from 10 to 90 %, those of the start a little
    to the right.
    """
    looks = {"privacy": Look("privacy", BLUE), "start": Look("start", DARK, "s--")}
    quantiles, ends = (0.1, 0.5, 0.9), [1.0]
    for ax, found, label in zip(axes, by, ("records n", "columns d"), strict=True):
        ax.axhline(1, **THEORY)
        factors = np.stack([np.asarray(v, dtype=np.float64) for v in found.values()])
        for (name, look), factor, aside in zip(
            looks.items(), np.moveaxis(factors, 2, 0), (1.0, 1.07), strict=True
        ):
            at = aside * np.array(list(found), dtype=np.float64)
            how: dict[str, Any] = {"interval": "bars", "quantiles": quantiles}
            plots.curves(ax, at, {name: factor}, [look], **how)
        plots.finish(ax, "", label, log="xy", xticks=list(found))
        plots.ticks(ax, [0.5, 1, 2, 5, 10, 20, 50], "y")
        ends.extend(plots.spread(np.moveaxis(factors, 1, 2), quantiles).ravel())
    for ax in axes:
        ax.set_ylim(0.9 * min(ends), 1.2 * max(ends))
        plots.label_lines(ax)
    axes[0].set_ylabel("factor on NICV (log)")
    return axes


def plot_table(ax: Axes, table: pd.DataFrame, found: ArrayLike, best: ArrayLike) -> Axes:
    """Rows of a table by its first two columns, released centres, and those without privacy."""
    rows = table.iloc[:, :2]
    plots.cloud(ax, rows.to_numpy(), size=9)
    plots.centers(ax, found, BLUE, label="released")
    plots.crosses(ax, best, label="without privacy")
    ax.set_aspect("auto")
    return plots.finish(ax, "", *rows.columns, names="upper right")
