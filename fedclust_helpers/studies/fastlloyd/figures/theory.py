"""Figures of notebook 01, sections 1 to 9: attacks, noise, sensitivity, GDP, errors, folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers.studies.bench.style import COLORS, label_lines, plot_points
from fedclust_helpers.studies.fastlloyd.figures._common import CYCLE, MARKS, THEORY, plain_ticks

# --- the question and the attack ------------------------------------------------------------------


def plot_hospitals(
    axes: Sequence[Axes],
    parts: Sequence[ArrayLike],
    alone: Sequence[ArrayLike],
    together: ArrayLike,
) -> Sequence[Axes]:
    """One panel per hospital: its rows, the centres it finds alone, and those of all rows.

    Parameters
    ----------
    parts : sequence of array_like of shape (n_i, 2)
    alone : sequence of array_like of shape (k, 2)
    together : array_like of shape (k, 2)
    """
    for ax, part, found, name in zip(axes, parts, alone, "ABCDEFGH", strict=False):
        plot_points(ax, part)
        truth, found = np.asarray(together), np.asarray(found)
        ax.scatter(
            truth[:, 0], truth[:, 1], s=110, facecolor="none", edgecolor=COLORS["non-private"],
            linewidths=1.6, zorder=4, label="centres of all rows",
        )  # fmt: skip
        ax.scatter(
            found[:, 0], found[:, 1], s=70, color=COLORS["sulloyd"], marker="X",
            edgecolor="white", zorder=3, label="centres found alone",
        )  # fmt: skip
        ax.set(xlim=(-1, 1), ylim=(-1, 1), xlabel="feature 1")
        ax.set_title(f"hospital {name}, {len(np.asarray(part))} rows", fontsize=11)
    axes[0].set_ylabel("feature 2")
    handles, names = axes[-1].get_legend_handles_labels()
    axes[-1].figure.legend(handles, names, loc="outside lower center", ncols=2)
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
    box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    ax.scatter(
        guesses[:, 0], guesses[:, 1], s=12, alpha=0.6, color=COLORS["fastlloyd"], linewidths=0,
        label="guess from two FastLloyd runs",
    )  # fmt: skip
    ax.fill(*box.T, color="#222222", zorder=4)
    reach = 1.05 * float(np.quantile(np.abs(guesses), 0.98))
    ax.set(
        xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal",
        xlabel="feature 1", ylabel="feature 2",
    )  # fmt: skip
    inset = ax.inset_axes((0.62, 0.6, 0.4, 0.4))
    inset.set_facecolor("white")
    plot_points(inset, points, size=1.5)
    inset.plot(*box.T, color="#222222", linewidth=1.6)
    cross: dict[str, Any] = {"color": COLORS["attack"], "marker": "+", "linestyle": "none"}
    ax.plot([], [], markeredgewidth=2, label="guess from two exact runs", **cross)
    inset.plot(*exact, markersize=10, markeredgewidth=2, zorder=6, **cross)
    inset.plot(*target, "o", markersize=12, markerfacecolor="none", color="#222222", zorder=5)
    ax.scatter([], [], s=120, facecolor="none", edgecolor="#222222", label="the record")
    inset.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=[], yticks=[])
    ax.indicate_inset_zoom(inset, edgecolor="#555555")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), handletextpad=0.2)
    return ax


def plot_roc(
    ax: Axes,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    mu: float,
    bound_label: str = "GDP bound",
) -> Axes:
    """ROC curves of membership attacks, and the most that mu-GDP allows.

    Parameters
    ----------
    curves : mapping from a name to (false positive rates, true positive rates)
    mu : float
        The bound is TPR = Phi(Phi^-1(FPR) + mu).
    """
    rates = np.linspace(0, 1, 401)
    bound = norm.cdf(norm.ppf(rates) + mu)
    ax.fill_between(rates, bound, 1, color="#efeff2", linewidth=0, zorder=0)
    ax.plot(rates, bound, label=bound_label, **THEORY)
    ax.plot([0, 1], [0, 1], color="#9c9ca1", linewidth=1, linestyle=":", label="coin toss")
    for (name, (fpr, tpr)), color, dash in zip(
        curves.items(), (COLORS["attack"], COLORS["fastlloyd"], "#f89c20"), ("-", "-", "--"),
        strict=False,
    ):  # fmt: skip
        ax.plot(fpr, tpr, color=color, linestyle=dash, label=name, linewidth=2)
    ax.set(
        xlim=(-0.02, 1), ylim=(0, 1.02), aspect="equal",
        xlabel="false alarm rate", ylabel="detection rate",
    )  # fmt: skip
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
    for (name, values), color, mark in zip(measured.items(), CYCLE, MARKS, strict=False):
        ax.plot(epsilons, predicted[name], label=name, **THEORY)
        ax.plot(epsilons, values, mark, color=color, label=f"_{name}", zorder=3)
    ax.set(
        xscale="log", yscale="log", xlabel="ε of the round (log scale)",
        ylabel="rms error of a centre (log scale)",
    )  # fmt: skip
    plain_ticks(ax, epsilons)
    return label_lines(ax, x_offset=8)


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
    bins = np.linspace(0, reach, 61).tolist()
    for (name, values), color in zip(changes.items(), (CYCLE[0], CYCLE[3], CYCLE[1]), strict=False):
        values = np.asarray(values)
        weights = np.full(len(values), 100 / len(values))
        ax.hist(
            values, bins=bins, weights=weights, color=color, alpha=0.6, label=name,
            histtype="stepfilled",
        )  # fmt: skip
    height = ax.get_ylim()[1] * 1.1
    ax.set_ylim(0, height)
    for text, place in limits.items():
        ax.axvline(place, **THEORY)
        ax.annotate(
            text, (place, height), xytext=(3, -4), textcoords="offset points", va="top", fontsize=10
        )
    ax.set(
        xlabel="change caused by one record, in units of η", ylabel="% of cases", xlim=(0, reach)
    )
    ax.legend(loc="center right")
    return ax


# --- Gaussian differential privacy ----------------------------------------------------------------


def plot_hockey_stick(
    ax: Axes,
    epsilons: ArrayLike,
    formula: Mapping[str, ArrayLike],
    simulated: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> Axes:
    """delta(epsilon) by formula (lines) and by simulation (marks), vertical axis logarithmic."""
    for (name, values), color, mark in zip(formula.items(), CYCLE, MARKS, strict=False):
        ax.plot(epsilons, values, color=color, label=name)
        ax.plot(*simulated[name], mark, color=color, label=f"_{name}", markeredgecolor="white")
    ax.set(yscale="log", xlabel="ε", ylabel="δ (log scale)")
    return label_lines(ax)


def plot_claim_ratio(
    ax: Axes,
    epsilons: ArrayLike,
    ratios: Mapping[str, ArrayLike],
    crossings: Mapping[str, float],
) -> Axes:
    """True over claimed delta of the textbook calibration, and where it crosses 1."""
    for (name, values), color, mark in zip(ratios.items(), CYCLE, MARKS, strict=False):
        ax.plot(epsilons, values, color=color, label=name)
        ax.plot(crossings[name], 1, mark, color=color, label=f"_{name}", zorder=4)
    ax.axhline(1, **THEORY)
    ax.axhspan(1, 1e9, color="#fbe9ea", linewidth=0, zorder=0)
    ax.axvspan(float(np.min(epsilons)), 1, color="#eef4ff", linewidth=0, zorder=0)
    ax.set(
        xscale="log", yscale="log", xlabel="claimed ε (log scale)",
        ylabel="true δ / claimed δ (log scale)", ylim=(1e-4, 1e3),
        xlim=(float(np.min(epsilons)), float(np.max(epsilons))),
    )  # fmt: skip
    plain_ticks(ax, [0.5, 1, 2, 4, 8, 16])
    return label_lines(ax)


# --- the split and its error ----------------------------------------------------------------------


def plot_split(
    ax: Axes,
    ratios: ArrayLike,
    excess: Mapping[str, ArrayLike],
    optima: Mapping[str, float],
) -> Axes:
    """Error over its minimum against the ratio of the two noise multipliers."""
    for (name, values), color, mark in zip(excess.items(), CYCLE, MARKS, strict=False):
        ax.plot(ratios, values, color=color, label=f"_{name}")
        ax.plot(optima[name], 1, mark, color=color, markeredgecolor="white", zorder=4, label=name)
    ax.set(
        xscale="log", ylim=(0.97, 2), xlim=(float(np.min(ratios)), float(np.max(ratios))),
        xlabel="σ_C / σ_R (log scale)", ylabel="error / smallest error",
    )  # fmt: skip
    plain_ticks(ax, [0.5, 1, 2, 4, 8, 16])
    ax.legend(title="marks: (4d)^(1/4)", loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def plot_error_slips(
    axes: Sequence[Axes],
    clusters: ArrayLike,
    printed_ratio: ArrayLike,
    sds: ArrayLike,
    mean_ratio: ArrayLike,
    median_ratio: ArrayLike,
    dimensions: ArrayLike,
    mean_distance: ArrayLike,
) -> Sequence[Axes]:
    """Three panels: the factor k, the count's standard deviations, the distance in a ball."""
    ax = axes[0]
    ax.plot(clusters, clusters, **THEORY)
    ax.plot(clusters, printed_ratio, "o", color=CYCLE[0])
    ax.set(
        xlabel="clusters k", ylabel="printed / measured error",
        xlim=(0, 1.1 * float(np.max(clusters))), ylim=(0, 1.1 * float(np.max(clusters))),
    )  # fmt: skip
    ax.set_title("one cluster: k times too large", fontsize=11)
    ax = axes[1]
    ax.axhline(1, **THEORY)
    ax.plot(sds, mean_ratio, "s-", color=CYCLE[2], label="mean")
    ax.plot(sds, median_ratio, "o--", color=CYCLE[0], label="median")
    ax.set(
        xscale="log", yscale="log", xlabel="count / sd of its noise (log)",
        ylabel="measured / corrected (log)",
    )  # fmt: skip
    ax.legend()
    plain_ticks(ax, sds)
    ax.set_title("few points: no mean exists", fontsize=11)
    ax = axes[2]
    last = float(np.max(dimensions))
    d = np.linspace(1, last, 200)
    ax.plot(d, d / (d + 1), **THEORY)
    ax.plot(dimensions, mean_distance, "o", color=CYCLE[0])
    ax.axhline(0.5, color=COLORS["attack"], linestyle="--", linewidth=1.4)
    ax.annotate(
        "paper: 1/2", (last, 0.5), xytext=(0, 5), textcoords="offset points",
        ha="right", fontsize=10,
    )  # fmt: skip
    ax.annotate(
        "d/(d+1)", (last, 0.93), xytext=(0, -14), textcoords="offset points",
        ha="right", fontsize=10,
    )  # fmt: skip
    ax.set(xscale="log", ylim=(0, 1.05), xlabel="dimension d (log)", ylabel="mean distance / η")
    plain_ticks(ax, dimensions)
    ax.set_title("in a ball: not η/2", fontsize=11)
    return axes


# --- radius and folding ---------------------------------------------------------------------------


def plot_radius(
    axes: Sequence[Axes],
    clusters: ArrayLike,
    radii: Mapping[str, ArrayLike],
    true_epsilon: Mapping[str, ArrayLike],
    claimed: float,
) -> Sequence[Axes]:
    """Left: eta over the first radius. Right: true epsilon if round 0 is noised for eta."""
    for ax, curves in zip(axes, (radii, true_epsilon), strict=True):
        for (name, values), color, mark in zip(curves.items(), CYCLE, MARKS, strict=False):
            ax.plot(clusters, values, f"{mark}-", color=color, label=name, markersize=5)
        ax.set(xscale="log", xlabel="clusters k (log scale)")
        plain_ticks(ax, clusters)
    axes[0].axhline(1, **THEORY)
    axes[0].set(ylim=(0, 1.08), ylabel="radius / first radius of Step")
    axes[0].set_title("η shrinks with k, in few dimensions", fontsize=11)
    axes[1].axhline(claimed, **THEORY)
    axes[1].set(ylabel="true ε", ylim=(0, None))
    axes[1].set_title(f"true ε if round 0 is noised for η (claimed {claimed:g})", fontsize=11)
    for ax in axes:
        label_lines(ax)
    return axes


def plot_fold(
    axes: Sequence[Axes],
    values: ArrayLike,
    maps: Mapping[str, ArrayLike],
    sds: ArrayLike,
    ratios: Mapping[str, ArrayLike],
) -> Sequence[Axes]:
    """Left: the maps. Right: error of folding over error of truncating, against the noise."""
    ax = axes[0]
    ax.axvspan(-1, 1, color="#eef4ff", linewidth=0, zorder=0)
    styles = ((CYCLE[0], "-", 2.4), (COLORS["attack"], "--", 1.8))
    for (name, mapped), (color, dash, width) in zip(maps.items(), styles, strict=False):
        ax.plot(values, mapped, dash, color=color, linewidth=width, label=name)
    ax.set(xlabel="value before", ylabel="value after", ylim=(-1.1, 1.75), yticks=[-1, 0, 1])
    ax.legend(loc="upper center", ncols=2, handlelength=1.5, columnspacing=1)
    ax.set_title("the two maps (shaded: inside the box)", fontsize=11)
    ax = axes[1]
    ax.axhline(1, **THEORY)
    for (name, ratio), color, mark in zip(ratios.items(), CYCLE, MARKS, strict=False):
        ax.plot(sds, ratio, f"{mark}-", color=color, label=name, markersize=5)
    ax.set(
        xscale="log", xlabel="sd of the noise (log scale)", ylabel="MSE folded / truncated",
        ylim=(0, None),
    )  # fmt: skip
    plain_ticks(ax, sds)
    ax.set_title("below 1: folding is better", fontsize=11)
    label_lines(ax)
    return axes
