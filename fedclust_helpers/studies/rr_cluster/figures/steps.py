"""Pictures of the algorithm: models as lines, noise of a mean, collapse, bias and variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import COLORS, label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import line, panels, plain_ticks
from fedclust_helpers.studies.rr_cluster.figures._common import (
    CYCLE,
    DARK,
    GOOD,
    METHODS,
    OTHER,
    STYLES,
    THEORY,
    WRONG,
)

MAX_SHOWN = 1500


def plot_ifca(
    axes: Any,
    points: ArrayLike,
    histories: Mapping[str, Sequence[ArrayLike]],
    rounds: Sequence[int],
) -> Any:
    """Models as lines over the clients' points: one row for each start, one column for each round.

    Parameters
    ----------
    axes : Axes of shape (len(histories), len(rounds))
    points : array_like of shape (N, 2)
        x and y of all clients.
    histories : mapping of names of starts to models of shape (k, 2) by round
        Slope and intercept.
    rounds : sequence of int
    """
    grid = np.asarray(axes, dtype=object)
    shown = np.asarray(points)[:: max(1, len(np.asarray(points)) // MAX_SHOWN)]
    x = np.array([-1.0, 1.0])
    for row, (name, history) in zip(grid, histories.items(), strict=True):
        for ax, t in zip(row, rounds, strict=True):
            ax.scatter(*shown.T, s=3, color=COLORS["data"], linewidths=0, zorder=1)
            for j, (slope, intercept) in enumerate(np.asarray(history[t])):
                ax.plot(
                    x, slope * x + intercept, STYLES[j % 4], color=CYCLE[j % 4], linewidth=2.4,
                    zorder=2,
                )  # fmt: skip
            ax.set(xlim=(-1, 1), ylim=(-10, 7), xticks=[], yticks=[-8, 0, 6])
            if t != rounds[0]:
                ax.set_yticklabels([])
        row[0].set_ylabel(name)
    for ax, t in zip(grid[0], rounds, strict=True):
        ax.set_title("start" if t == 0 else f"round {t}")
    grid[0, 0].figure.suptitle(
        "The same clients, two starts: four lines found, or none", x=0.01, ha="left", fontsize=12
    )
    return axes


def plot_noise_of_means(
    ax: Axes,
    sizes: ArrayLike,
    lengths: ArrayLike,
    predicted: ArrayLike,
    *,
    bound: float,
) -> Axes:
    """Length of the noise in a mean update against the size of its cluster.

    Parameters
    ----------
    sizes : array_like of shape (s,)
    lengths : array_like of shape (s, repetitions)
    predicted : array_like of shape (s,)
    bound : float
        No mean of clipped updates is longer.
    """
    sizes, lengths = np.asarray(sizes, dtype=np.float64), np.asarray(lengths)
    ax.plot(sizes, predicted, **THEORY)
    for column in lengths.T:
        ax.plot(sizes, column, "o", color=OTHER, markersize=5, alpha=0.5, linewidth=0)
    ax.axhline(bound, color=DARK, linestyle="--", linewidth=1.3)
    ax.set(xscale="log", yscale="log", xlabel="members of the cluster |S| (log)")
    ax.set_ylabel("length of the noise (log)")
    plain_ticks(ax, sizes)
    plain_ticks(ax, [0.3, 1, 3, 10], "y")
    ax.text(sizes[0], bound * 1.08, "longest possible mean update, C", va="bottom", fontsize=10)
    ax.annotate(
        xy=(sizes[len(sizes) // 2], np.asarray(predicted)[len(sizes) // 2]), xytext=(30, 16),
        textcoords="offset points", **line("2 C σ √d / |S|"),
    )  # fmt: skip
    ax.set_title("Noise buries the update of every cluster of a round")
    return ax


def plot_found(ax: Axes, found: Mapping[str, Mapping[str, ArrayLike]]) -> Axes:
    """Lines found by each method from each kind of start, one dot for each seed.

    Parameters
    ----------
    found : mapping of starts to mappings of keys of `METHODS` to counts of shape (seeds,)
    """
    methods = list(next(iter(found.values())))
    for g, by_method in enumerate(found.values()):
        for i, method in enumerate(methods):
            name, color, marker = METHODS[method]
            values = np.asarray(by_method[method])
            at = g + 0.26 * (i - (len(methods) - 1) / 2)
            for level in np.unique(values):
                n = int((values == level).sum())
                x = at + 0.03 * (np.arange(n) % 4 - min(n - 1, 3) / 2)
                y = level + 0.16 * (np.arange(n) // 4)
                ax.plot(
                    x, y, marker, color=color, markersize=6, markeredgecolor="white",
                    label=name.removeprefix("DP-") if g == 0 and level == values.max() else "_",
                )  # fmt: skip
    ax.set_xticks(range(len(found)), list(found))
    ax.set(yticks=range(5), ylim=(-0.4, 4.6), ylabel="lines found (of 4)")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.2)
    ax.set_title("Rebalancing wakes dead models, not misplaced ones")
    return ax


def plot_bias_variance(
    axes: Any,
    sizes: ArrayLike,
    errors: Mapping[float, ArrayLike],
    inserted: ArrayLike,
    trained: ArrayLike,
) -> Any:
    """Error of the minority model against B: by noise, split in two, and as the algorithm has it.

    Parameters
    ----------
    axes : three Axes
    sizes : array_like of shape (b,)
        Thresholds B.
    errors : mapping of sigma_theta to mean squared errors of shape (b,)
    inserted, trained : array_like of shape (2, b)
        Squared bias and variance at one noise, with a moved update relative to the model it goes
        to, and relative to the model it was trained from.
    """
    left, middle, right = panels(axes)
    sizes = np.asarray(sizes)
    for (sigma, values), color, mark in zip(errors.items(), CYCLE, "os^D", strict=False):
        values = np.asarray(values)
        left.plot(sizes, values, mark + "-", color=color, label=f"σ = {sigma:g}")
        best = int(values.argmin())
        left.plot(sizes[best], values[best], "o", markersize=14, markerfacecolor="none", color=DARK)
    left.set_title("The best B moves with the noise")
    left.set_ylabel("squared error, small cluster (log)")
    left.legend(loc="upper right")
    for ax, (bias, variance), name in (
        (middle, np.asarray(inserted), "Relative to the new model: bias"),
        (right, np.asarray(trained), "As Algorithm 1 has it: no bias"),
    ):
        ax.plot(sizes, np.maximum(bias, 1e-3), "s-", color=WRONG, label="bias²")
        ax.plot(sizes, variance, "o-", color=GOOD, label="variance")
        ax.set_title(name)
        ax.set_ylim(7e-4, 40)
        ax.legend(loc="upper right")
    for ax in (left, middle, right):
        ax.set(yscale="log", xlabel="threshold B", xticks=[0, 10, 20, 30, 40, 50])
    return axes


def plot_counts(
    axes: Any,
    counts: Mapping[str, ArrayLike],
    threshold: float,
    events: Sequence[tuple[int, int, int]],
) -> Any:
    """Noised counts of the models by round, without and with re-seeding.

    Parameters
    ----------
    axes : two Axes
    counts : mapping of two titles to arrays of shape (T, k)
        The second run is the one with `events`.
    threshold : float
        Mean count below which a model is dead.
    events : sequence of (round, dead model, split model)
    """
    both = panels(axes)
    for ax, (title, values) in zip(both, counts.items(), strict=True):
        for j, column in enumerate(np.asarray(values).T):
            ax.plot(column, STYLES[j % 4], color=CYCLE[j % 4], linewidth=1.5, label=f"model {j}")
        ax.axhline(threshold, color=DARK, linestyle=(0, (2, 2)), linewidth=1.2)
        ax.set_xlabel("round")
        ax.set_title(title)
    both[0].set_ylabel("noised count")
    for i, (t, dead, _) in enumerate(events):
        both[1].axvline(t, color=CYCLE[dead % 4], linewidth=1, zorder=0)
        top = both[1].get_ylim()[1]
        both[1].text(
            t + 0.5, top * (0.97 - 0.09 * i), f"model {dead} replaced", fontsize=9, va="top"
        )
    label_lines(both[0])
    return axes
