"""Figures of notebook 01, sections 10 to 14: masks, attacks, rounding, a run, an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import COLORS, label_lines, plot_centers, plot_points
from fedclust_helpers.studies.fastlloyd.figures._common import CYCLE, MARKS, THEORY, note

# --- the wire -------------------------------------------------------------------------------------


def plot_masked(
    axes: Sequence[Axes], seen: Sequence[Mapping[str, ArrayLike]], titles: Sequence[str], bits: int
) -> Sequence[Axes]:
    """Histograms of masked words for different hidden values, one panel per kind of pad."""
    edges = np.linspace(0, 1, 33)
    dashes = ("-", "--", ":")
    for ax, words, title in zip(axes, seen, titles, strict=True):
        for (name, values), color, dash in zip(words.items(), CYCLE, dashes, strict=False):
            share = np.histogram(np.asarray(values, float) / 2.0**bits, edges)[0]
            ax.stairs(
                share / share.mean(), edges, color=color, linestyle=dash, label=name, linewidth=1.8
            )
        ax.set(
            xlabel=f"word seen by the server / 2^{bits}", ylim=(0, 2.6), xlim=(0, 1),
            ylabel="frequency / uniform",
        )  # fmt: skip
        ax.set_title(title, fontsize=11)
    axes[0].legend(title="hidden value", loc="upper center", ncols=len(seen[0]), handlelength=1.6)
    return axes


def plot_attacks(
    axes: Sequence[Axes],
    reuse: tuple[ArrayLike, ArrayLike],
    seed: tuple[ArrayLike, ArrayLike, ArrayLike],
    overflow: tuple[ArrayLike, ArrayLike],
) -> Sequence[Axes]:
    """Three attacks: recovered against true differences, recovered against true sums, wrapping.

    Parameters
    ----------
    reuse : (true, recovered)
    seed : (true, released, recovered)
    overflow : (true totals, decoded totals)
    """

    def diagonal(ax: Axes, values: ArrayLike) -> None:
        ends = [float(np.min(values)), float(np.max(values))]
        ax.plot(ends, ends, **THEORY)

    ax = axes[0]
    diagonal(ax, reuse[0])
    ax.plot(*reuse, "o", color=COLORS["attack"])
    ax.set(xlabel="true R − C", ylabel="server computes")
    ax.set_title("pad used twice", fontsize=11)
    ax = axes[1]
    diagonal(ax, seed[0])
    ax.plot(seed[0], seed[1], "o", color=COLORS["fastlloyd"], label="released", alpha=0.6)
    ax.plot(seed[0], seed[2], "+", color=COLORS["attack"], label="noise removed", markersize=9)
    ax.set(xlabel="true relative sum", ylabel="client computes")
    ax.legend(loc="upper left", handletextpad=0.2)
    ax.set_title("one seed for all", fontsize=11)
    ax = axes[2]
    diagonal(ax, overflow[0])
    ax.plot(*overflow, color=COLORS["attack"])
    ax.set(xlabel="true total (thousands)", ylabel="decoded (thousands)")
    ax.set_title("ring of 32 bits", fontsize=11)
    return axes


def plot_rounding(
    axes: Sequence[Axes],
    integers: ArrayLike,
    atoms: Mapping[str, ArrayLike],
    epsilons: ArrayLike,
    deltas: Mapping[str, ArrayLike],
    claim: tuple[float, float],
) -> Sequence[Axes]:
    """Left: probabilities of a truncated count near zero. Right: exact delta of one release."""
    ax = axes[0]
    for (name, mass), color, mark in zip(atoms.items(), CYCLE, MARKS, strict=False):
        ax.plot(integers, 1000 * np.asarray(mass), f"{mark}-", color=color, label=name, linewidth=1)
    ax.set(xlabel="released count", ylabel="probability × 1000", ylim=(0, None))
    ax.legend(loc="lower right")
    ax.set_title("truncated noise: a double atom", fontsize=11)
    ax = axes[1]
    for (name, values), color, dash in zip(
        deltas.items(), (COLORS["attack"], COLORS["fastlloyd"]), ("-", "--"), strict=False
    ):
        values = np.asarray(values, dtype=float)
        seen = values > 1e-17
        ax.plot(np.asarray(epsilons)[seen], values[seen], dash, color=color, label=name)
    ax.plot(*claim, "D", color="#222222")
    ax.annotate(
        "claimed", claim, xytext=(-7, 6), textcoords="offset points", fontsize=10, ha="right"
    )
    ax.set(yscale="log", xlabel="ε", ylabel="exact δ (log scale)", ylim=(1e-17, 0.3))
    ax.set_title("one count release", fontsize=11)
    label_lines(ax)
    return axes


# --- a run ----------------------------------------------------------------------------------------


def plot_run(
    ax: Axes,
    points: ArrayLike,
    history: ArrayLike,
    *,
    radius: float | None = None,
    name: str = "fastlloyd",
) -> Axes:
    """Centres of a run from start (small, hollow) to end (large) on two-column data.

    Parameters
    ----------
    points : array_like of shape (n, 2)
    history : array_like of shape (T + 1, k, 2)
        Centres before the first and after each round.
    radius : float, optional
        Circles of this radius around the final centres: what counts as inside.
    name : str
        Method, for colour and marker.
    """
    history = np.asarray(history)
    plot_points(ax, points)
    for path in history.transpose(1, 0, 2):
        ax.plot(path[:, 0], path[:, 1], color=COLORS[name], linewidth=1, alpha=0.8, zorder=2)
    ax.scatter(
        history[0, :, 0], history[0, :, 1], s=28, facecolor="white", edgecolor=COLORS[name],
        zorder=3,
    )  # fmt: skip
    plot_centers(ax, history[-1], name=name)
    if radius is not None:
        angle = np.linspace(0, 2 * np.pi, 100)
        for center in history[-1]:
            ax.plot(
                center[0] + radius * np.cos(angle), center[1] + radius * np.sin(angle),
                color=COLORS["theory"], linewidth=0.7, linestyle=":", zorder=2,
            )  # fmt: skip
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), xlabel="feature 1", ylabel="feature 2")
    return ax


def plot_audit(
    ax: Axes, names: Sequence[str], ratios: Mapping[str, ArrayLike], *, limit: float = 1.0
) -> Axes:
    """Lower bounds of an audit over the claim, one row per variant; beyond `limit`: an alarm."""
    rows = np.arange(len(names))[::-1]
    ax.axvline(limit, **THEORY)
    ax.axvspan(limit, 10, color="#fbe9ea", linewidth=0, zorder=0)
    offsets = np.linspace(0.16, -0.16, len(ratios))
    for (name, values), color, mark, offset in zip(
        ratios.items(), CYCLE, MARKS, offsets, strict=False
    ):
        ax.plot(values, rows + offset, mark, color=color, label=name, markersize=8)
    ax.set(
        yticks=rows, yticklabels=list(names), xlabel="lower bound on μ found / μ claimed",
        xlim=(0, max(2.2, 1.1 * max(float(np.max(v)) for v in ratios.values()))),
        ylim=(-0.6, len(names) - 0.4),
    )  # fmt: skip
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.22), ncols=len(ratios))
    note(ax, "alarm", (0.98, 0.93), ha="right")
    return ax
