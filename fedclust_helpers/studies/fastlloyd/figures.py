"""Figures of notebook 01, sections 1 to 14: attacks, noise, theory, masks, a run, an audit.

Each draws numbers that the notebook computed, and returns its axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers.studies.bench.plots import centers, cloud, curves, finish, legend_below, note
from fedclust_helpers.studies.bench.style import (
    BLUE,
    DARK,
    GREY,
    LOOKS,
    MUTED,
    ORANGE,
    PLUM,
    RED,
    THEORY,
    Look,
)

POWERS = [0.5, 1, 2, 4, 8, 16]
SHADE, ALARM = "#eef4ff", "#fbe9ea"  # where something holds, and where it fails
LINES = tuple(look._replace(style="-") for look in LOOKS)
MARKS = tuple(look._replace(label="_", style=look.style[0]) for look in LOOKS)

# --- the question and the attack ------------------------------------------------------------------


def plot_hospitals(
    axes: Any, parts: Sequence[ArrayLike], alone: Sequence[ArrayLike], together: ArrayLike
) -> Any:
    """One panel per hospital: its rows, the centres it finds alone, and those of all rows.

    Parameters
    ----------
    parts : sequence of array_like of shape (n_i, 2)
    alone : sequence of array_like of shape (k, 2)
    together : array_like of shape (k, 2)
    """
    ring: dict[str, Any] = {"facecolor": "none", "edgecolor": DARK, "linewidths": 1.6, "zorder": 5}
    for ax, part, found, name in zip(axes, parts, alone, "ABCDEFGH", strict=False):
        cloud(ax, part)
        centers(ax, together, "none", size=110, label="centres of all rows", **ring)
        centers(ax, found, RED, "X", size=70, label="centres found alone")
        title = f"hospital {name}, {len(np.asarray(part))} rows"
        finish(ax, title, "feature 1", xlim=(-1, 1), ylim=(-1, 1))
    axes[0].set_ylabel("feature 2")
    legend_below(axes, 2)
    return axes


def plot_reconstruction(
    ax: Axes, points: ArrayLike, target: ArrayLike, exact: ArrayLike, guesses: ArrayLike
) -> Axes:
    """Guesses of a record from two releases, exact (one cross) and noised (many dots).

    The inset enlarges the box that holds all data.

    Parameters
    ----------
    points : array_like of shape (n, 2)
    target, exact : array_like of shape (2,)
    guesses : array_like of shape (m, 2)
    """
    guesses, target, exact = np.asarray(guesses), np.asarray(target), np.asarray(exact)
    box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]).T
    name = "guess from two FastLloyd runs"
    centers(ax, guesses, BLUE, size=12, alpha=0.6, linewidths=0, label=name)
    ax.fill(*box, color=DARK, zorder=4)
    reach = 1.05 * float(np.quantile(np.abs(guesses), 0.98))
    ends: dict[str, Any] = {"xlim": (-reach, reach), "ylim": (-reach, reach), "aspect": "equal"}
    finish(ax, "", "feature 1", "feature 2", **ends)
    inset = ax.inset_axes((0.62, 0.6, 0.4, 0.4))
    inset.set_facecolor("white")
    cloud(inset, points, size=1.5)
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
    looks = (Look("", RED, "-"), Look("", BLUE, "-"), Look("", ORANGE, "--"))
    curves(ax, None, rates, looks, linewidth=2)
    ends: dict[str, Any] = {"xlim": (-0.02, 1), "ylim": (0, 1.02), "aspect": "equal"}
    finish(ax, "", "false alarm rate", "detection rate", **ends)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), handlelength=1.5)
    return ax


# --- noise and sensitivity ------------------------------------------------------------------------


def plot_error_over_epsilon(
    ax: Axes,
    epsilons: ArrayLike,
    measured: Mapping[str, ArrayLike],
    predicted: Mapping[str, ArrayLike],
) -> Axes:
    """Measured errors (marks) and predictions (lines) against epsilon, both axes logarithmic."""
    curves(ax, epsilons, predicted, (Look("", MUTED, "-"),), linewidth=1.3, zorder=1)
    curves(ax, epsilons, measured, MARKS)
    y = "rms error of a centre"
    return finish(ax, "", "ε of the round", y, log="xy", xticks=epsilons, names="ends")


def plot_changes(
    ax: Axes, changes: Mapping[str, ArrayLike], limits: Mapping[str, float], *, reach: float = 4.0
) -> Axes:
    """Histograms of how far one record moves a statistic, in units of the radius.

    Parameters
    ----------
    changes : mapping from a name to changes, array_like of shape (m,)
    limits : mapping from a text to the position of a vertical line
    reach : float
        Right end of the horizontal axis; larger changes are not drawn.
    """
    edges = np.linspace(0, reach, 61)
    for (name, values), color in zip(changes.items(), (BLUE, PLUM, ORANGE), strict=False):
        share = 100 * np.histogram(values, edges)[0] / np.size(values)
        ax.stairs(share, edges, fill=True, color=color, alpha=0.6, label=name)
    height = ax.get_ylim()[1] * 1.1
    for text, place in limits.items():
        ax.axvline(place, **THEORY)
        note(ax, text, (place, height), (3, -4), va="top")
    ends: dict[str, Any] = {"xlim": (0, reach), "ylim": (0, height), "names": "center right"}
    return finish(ax, "", "change caused by one record, in units of η", "% of cases", **ends)


# --- Gaussian differential privacy ----------------------------------------------------------------


def plot_hockey_stick(
    ax: Axes,
    epsilons: ArrayLike,
    formula: Mapping[str, ArrayLike],
    simulated: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> Axes:
    """delta(epsilon) by formula (lines) and by simulation (marks), vertical axis logarithmic."""
    curves(ax, epsilons, formula, LINES)
    curves(ax, None, simulated, MARKS, markeredgecolor="white")
    return finish(ax, "", "ε", "δ", log="y", names="ends")


def plot_claim_ratio(
    ax: Axes, epsilons: ArrayLike, ratios: Mapping[str, ArrayLike], crossings: Mapping[str, float]
) -> Axes:
    """True over claimed delta of the textbook calibration, and where it crosses 1."""
    first, last = float(np.min(epsilons)), float(np.max(epsilons))
    curves(ax, epsilons, ratios, LINES)
    curves(ax, None, {name: ([at], [1]) for name, at in crossings.items()}, MARKS, zorder=4)
    ax.axhline(1, **THEORY)
    ax.axhspan(1, 1e9, color=ALARM, linewidth=0, zorder=0)
    ax.axvspan(first, 1, color=SHADE, linewidth=0, zorder=0)
    return finish(
        ax, "", "claimed ε", "true δ / claimed δ", log="xy", xticks=POWERS, xlim=(first, last),
        ylim=(1e-4, 1e3), names="ends",
    )  # fmt: skip


# --- the split and its error ----------------------------------------------------------------------


def plot_split(
    ax: Axes, ratios: ArrayLike, excess: Mapping[str, ArrayLike], optima: Mapping[str, float]
) -> Axes:
    """Error over its minimum against the ratio of the two noise multipliers."""
    curves(ax, ratios, excess, tuple(look._replace(label="_") for look in LINES))
    looks = tuple(look._replace(label="") for look in MARKS)
    best = {name: ([at], [1]) for name, at in optima.items()}
    curves(ax, None, best, looks, markeredgecolor="white", zorder=4)
    finish(
        ax, "", "σ_C / σ_R", "error / smallest error", log="x", xticks=POWERS, ylim=(0.97, 2),
        xlim=(float(np.min(ratios)), float(np.max(ratios))),
    )  # fmt: skip
    ax.legend(title="marks: (4d)^(1/4)", loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def plot_error_slips(
    axes: Any,
    clusters: ArrayLike,
    printed_ratio: ArrayLike,
    sds: ArrayLike,
    mean_ratio: ArrayLike,
    median_ratio: ArrayLike,
    dimensions: ArrayLike,
    mean_distance: ArrayLike,
) -> Any:
    """Three panels: the factor k, the count's standard deviations, the distance in a ball."""
    left, middle, right = axes
    end = 1.1 * float(np.max(clusters))
    left.plot(clusters, clusters, **THEORY)
    left.plot(clusters, printed_ratio, "o", color=BLUE)
    ends: dict[str, Any] = {"xlim": (0, end), "ylim": (0, end)}
    title = "one cluster: k times too large"
    finish(left, title, "clusters k", "printed / measured error", **ends)
    middle.axhline(1, **THEORY)
    looks = {"mean": Look("mean", RED, "s-"), "median": Look("median", BLUE, "o--")}
    curves(middle, sds, {"mean": mean_ratio, "median": median_ratio}, looks)
    finish(
        middle, "few points: no mean exists", "count / sd of its noise", "measured / corrected",
        log="xy", xticks=sds, names="best",
    )  # fmt: skip
    last = float(np.max(dimensions))
    d = np.linspace(1, last, 200)
    right.plot(d, d / (d + 1), **THEORY)
    right.plot(dimensions, mean_distance, "o", color=BLUE)
    right.axhline(0.5, color=RED, linestyle="--", linewidth=1.4)
    note(right, "paper: 1/2", (last, 0.5), (0, 9), ha="right")
    note(right, "d/(d+1)", (last, 0.93), (0, -10), ha="right")
    finish(
        right, "in a ball: not η/2", "dimension d", "mean distance / η", log="x",
        xticks=dimensions, ylim=(0, 1.05),
    )  # fmt: skip
    return axes


# --- radius and folding ---------------------------------------------------------------------------


def plot_radius(
    axes: Any,
    clusters: ArrayLike,
    radii: Mapping[str, ArrayLike],
    true_epsilon: Mapping[str, ArrayLike],
    claimed: float,
) -> Any:
    """Left: eta over the first radius. Right: true epsilon if round 0 is noised for eta."""
    title = f"true ε if round 0 is noised for η (claimed {claimed:g})"
    for ax, values, level, top, text, y in (
        (axes[0], radii, 1.0, 1.08, "η shrinks with k, in few dimensions", "radius / first radius"),
        (axes[1], true_epsilon, claimed, None, title, "true ε"),
    ):
        curves(ax, clusters, values, markersize=5)
        ax.axhline(level, **THEORY)
        finish(ax, text, "clusters k", y, log="x", xticks=clusters, ylim=(0, top), names="ends")
    return axes


def plot_fold(
    axes: Any,
    values: ArrayLike,
    maps: Mapping[str, ArrayLike],
    sds: ArrayLike,
    ratios: Mapping[str, ArrayLike],
) -> Any:
    """Left: the maps. Right: error of folding over error of truncating, against the noise."""
    left, right = axes
    left.axvspan(-1, 1, color=SHADE, linewidth=0, zorder=0)
    curves(left, values, maps, (Look("", BLUE, "-"), Look("", RED, "--")), linewidth=2)
    title = "the two maps (shaded: inside the box)"
    finish(left, title, "value before", "value after", ylim=(-1.1, 1.75), yticks=[-1, 0, 1])
    left.legend(loc="upper center", ncols=2, handlelength=1.5, columnspacing=1)
    right.axhline(1, **THEORY)
    curves(right, sds, ratios, markersize=5)
    finish(
        right, "below 1: folding is better", "sd of the noise", "MSE folded / truncated", log="x",
        xticks=sds, ylim=(0, None), names="ends",
    )  # fmt: skip
    return axes


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
        finish(ax, title, x, y, ylim=(0, 2.6), xlim=(0, 1))
    axes[0].legend(title="hidden value", loc="upper center", ncols=len(seen[0]), handlelength=1.6)
    return axes


def plot_attacks(
    axes: Any,
    reuse: tuple[ArrayLike, ArrayLike],
    seed: tuple[ArrayLike, ArrayLike, ArrayLike],
    overflow: tuple[ArrayLike, ArrayLike],
) -> Any:
    """Three attacks: recovered against true differences, recovered against true sums, wrapping.

    Parameters
    ----------
    reuse : (true, recovered)
    seed : (true, released, recovered)
    overflow : (true totals, decoded totals)
    """
    texts = (
        ("pad used twice", "true R − C", "server computes"),
        ("one seed for all", "true relative sum", "client computes"),
        ("ring of 32 bits", "true total (thousands)", "decoded (thousands)"),
    )
    for ax, truth, text in zip(axes, (reuse[0], seed[0], overflow[0]), texts, strict=True):
        ends = [float(np.min(truth)), float(np.max(truth))]
        ax.plot(ends, ends, **THEORY)
        finish(ax, *text)
    axes[0].plot(*reuse, "o", color=RED)
    axes[1].plot(seed[0], seed[1], "o", color=BLUE, label="released", alpha=0.6)
    axes[1].plot(seed[0], seed[2], "+", color=RED, label="noise removed", markersize=9)
    axes[1].legend(loc="upper left", handletextpad=0.2)
    axes[2].plot(*overflow, color=RED)
    return axes


def plot_rounding(
    axes: Any,
    integers: ArrayLike,
    atoms: Mapping[str, ArrayLike],
    epsilons: ArrayLike,
    deltas: Mapping[str, ArrayLike],
    claim: tuple[float, float],
) -> Any:
    """Left: probabilities of a truncated count near zero. Right: exact delta of one release."""
    left, right = axes
    masses = {name: 1000 * np.asarray(mass) for name, mass in atoms.items()}
    curves(left, integers, masses, linewidth=1)
    text = ("truncated noise: a double atom", "released count", "probability × 1000")
    finish(left, *text, ylim=(0, None), names="lower right")
    seen = {n: np.where(np.asarray(v) > 1e-17, v, np.nan) for n, v in deltas.items()}
    curves(right, epsilons, seen, (Look("", RED, "-"), Look("", BLUE, "--")))
    right.plot(*claim, "D", color=DARK)
    note(right, "claimed", claim, (-7, 10), ha="right")
    ends: dict[str, Any] = {"log": "y", "ylim": (1e-17, 0.3), "names": "ends"}
    finish(right, "one count release", "ε", "exact δ", **ends)
    return axes


# --- a run and its audit --------------------------------------------------------------------------


def plot_run(
    ax: Axes, points: ArrayLike, history: ArrayLike, *, radius: float | None = None
) -> Axes:
    """Centres of a run from start (small, hollow) to end (large) on two-column data.

    Parameters
    ----------
    points : array_like of shape (n, 2)
    history : array_like of shape (T + 1, k, 2)
        Centres before the first and after each round.
    radius : float, optional
        Circles of this radius around the final centres: what counts as inside.
    """
    history = np.asarray(history)
    cloud(ax, points)
    ax.plot(*history.transpose(2, 0, 1), color=BLUE, linewidth=1, alpha=0.8, zorder=2)
    centers(ax, history[0], "white", size=28, edgecolor=BLUE, zorder=3)
    if radius is not None:
        angle = np.linspace(0, 2 * np.pi, 100)[:, None]
        circles = history[-1].T[:, None] + radius * np.stack([np.cos(angle), np.sin(angle)])
        ax.plot(*circles, color=MUTED, linewidth=0.7, linestyle=":", zorder=2)
    centers(ax, history[-1], BLUE)
    ends = (-1.05, 1.05)
    return finish(ax, "", "feature 1", "feature 2", xlim=ends, ylim=ends)


def plot_audit(ax: Axes, names: Sequence[str], ratios: Mapping[str, ArrayLike]) -> Axes:
    """Lower bounds of an audit over the claim, one row per variant; beyond 1: an alarm."""
    rows = np.arange(len(names))[::-1]
    ax.axvline(1, **THEORY)
    ax.axvspan(1, 10, color=ALARM, linewidth=0, zorder=0)
    offsets = np.linspace(0.16, -0.16, len(ratios))
    placed = {n: (v, rows + o) for (n, v), o in zip(ratios.items(), offsets, strict=True)}
    looks = tuple(look._replace(label="") for look in MARKS)
    curves(ax, None, placed, looks, markersize=8)
    ax.set_yticks(rows, list(names))
    most = max(2.2, 1.1 * max(float(np.max(v)) for v in ratios.values()))
    ends: dict[str, Any] = {"xlim": (0, most), "ylim": (-0.6, len(names) - 0.4)}
    finish(ax, "", "lower bound on μ found / μ claimed", **ends)
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.22), ncols=len(ratios))
    ax.text(0.98, 0.93, "alarm", transform=ax.transAxes, ha="right", fontsize=10)
    return ax
