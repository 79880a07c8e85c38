"""Pictures of what identifiers, sampling and rebalancing cost, and of what the server sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import panels, plain_ticks
from fedclust_helpers.studies.rr_cluster.figures._common import (
    ACCOUNTANTS,
    CYCLE,
    DARK,
    GOOD,
    MUTED,
    OTHER,
    PALE,
    PURPLE,
    WRONG,
)


def _mark_epsilons(ax: Axes, needed: Mapping[float, float], height: float) -> None:
    """Dashed lines at the identifier noise that each total epsilon needs."""
    for epsilon, sigma in needed.items():
        ax.axvline(sigma, color=MUTED, linestyle="--", linewidth=1, zorder=0)
        ax.text(sigma * 1.03, height, f"ε = {epsilon:g}", fontsize=9, va="top", rotation=90)


def plot_flips(
    axes: Any,
    sigmas: ArrayLike,
    exact: Mapping[int, ArrayLike],
    simulated: Mapping[int, ArrayLike],
    needed: Mapping[float, float],
    epsilons: ArrayLike,
    rates: Mapping[str, ArrayLike],
) -> Any:
    """Probability of a wrong identifier, against the noise (left) and the total epsilon (right).

    Parameters
    ----------
    axes : two Axes
    sigmas : array_like of shape (s,)
    exact, simulated : mapping of the number of clusters to probabilities of shape (s,)
    needed : mapping of total epsilon to sigma_s
    epsilons : array_like of shape (m,)
    rates : mapping of names of mechanisms to probabilities of shape (m,)
    """
    left, right = panels(axes)
    for (k, values), color, mark in zip(exact.items(), (GOOD, PURPLE), "os", strict=False):
        left.plot(sigmas, values, "-", color=color, label=f"k = {k}")
        left.plot(
            sigmas, simulated[k], mark, color=color, markerfacecolor="white", markersize=5,
            label="_",
        )  # fmt: skip
    left.set(xscale="log", ylim=(0, 0.82), xlabel="identifier noise σ (log)")
    left.set_ylabel("P(wrong cluster)")
    plain_ticks(left, [0.2, 0.5, 1, 2, 5])
    _mark_epsilons(left, needed, 0.2)
    left.legend(loc="upper left")
    left.set_title("Quadrature (line) and simulation agree")
    styles = zip(rates.items(), (OTHER, WRONG, PURPLE, GOOD), "s^Do", strict=False)
    for (name, values), color, mark in styles:
        right.plot(epsilons, values, mark + "-", color=color, label=name)
    right.axhline(0.75, color=DARK, linestyle="--", linewidth=1.2)
    right.text(np.asarray(epsilons)[0], 0.76, "a blind guess", fontsize=10, va="bottom")
    right.set(xscale="log", ylim=(0, 0.82), xlabel="total ε of 50 rounds (log)")
    plain_ticks(right, epsilons)
    right.set_title("Every mechanism misplaces half, k = 4")
    label_lines(right, x_offset=6)
    return axes


def plot_moved(
    ax: Axes,
    sigmas: ArrayLike,
    expected: Mapping[int, ArrayLike],
    needed: Mapping[float, float],
    measured: Mapping[int, Sequence[tuple[float, float]]],
) -> Axes:
    """Clients that rebalancing moves in a round, against the identifier noise.

    Parameters
    ----------
    sigmas : array_like of shape (s,)
    expected : mapping of B to expected numbers of shape (s,)
        When everybody's true cluster is the same one.
    needed : mapping of total epsilon to sigma_s
    measured : mapping of B to (sigma_s, mean number) of live runs
    """
    for (b, values), color, mark in zip(expected.items(), CYCLE, "os^D", strict=False):
        shown = np.asarray(values, dtype=np.float64)
        ax.plot(sigmas, np.where(shown < 1.2e-6, np.nan, shown), color=color, label=f"B = {b}")
        for sigma, value in measured.get(b, ()):
            if value > 0:
                ax.plot(sigma, value, mark, color=color, markeredgecolor="white")
    ax.set(xscale="log", yscale="log", ylim=(1e-6, 150), xlabel="identifier noise σ (log)")
    ax.set_ylabel("clients moved per round (log)")
    plain_ticks(ax, [0.2, 0.5, 1, 2, 5])
    _mark_epsilons(ax, needed, 4.0)
    label_lines(ax, x_offset=6)
    ax.set_title("With private identifiers nobody is left to move")
    return ax


def plot_accountants(
    ax: Axes,
    sigmas: ArrayLike,
    curves: Mapping[str, ArrayLike],
    floor: float,
    *,
    n_rounds: int,
) -> Axes:
    """Epsilon of a run against the noise, by accountant.

    Parameters
    ----------
    sigmas : array_like of shape (s,)
    curves : mapping of keys of `ACCOUNTANTS` to epsilons of shape (s,)
    floor : float
        Of the accountant "paper".
    n_rounds : int
    """
    sigmas = np.asarray(sigmas, dtype=np.float64)
    ax.plot(sigmas[[0, -1]], [floor, floor], color=WRONG, linestyle=":", linewidth=1.4)
    ax.text(sigmas[0], floor * 0.96, f"floor {floor:.2f}", va="top", fontsize=10)
    for name, values in curves.items():
        label, color, style = ACCOUNTANTS[name]
        ax.plot(sigmas, values, style, color=color, markersize=5, label=label)
    ax.set(xscale="log", yscale="log", xlabel="noise multiplier σ (log)")
    ax.set_ylabel(f"ε of {n_rounds} rounds (log)")
    plain_ticks(ax, [1, 2, 4, 8, 16])
    plain_ticks(ax, [0.1, 0.5, 1, 2, 5, 10], "y")
    label_lines(ax, x_offset=6)
    ax.set_title("No noise gets Theorem 4.2 below its floor")
    return ax


def plot_relations(ax: Axes, epsilons: ArrayLike, noise: Mapping[str, ArrayLike]) -> Axes:
    """Noise on a sum of updates, in units of C, that each accountant asks for.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    noise : mapping of keys of `ACCOUNTANTS` to standard deviations of shape (m,)
    """
    for name, values in noise.items():
        label, color, style = ACCOUNTANTS[name]
        ax.plot(epsilons, values, style, color=color, label=label)
    ax.set(xscale="log", yscale="log", xlabel="ε of 50 rounds (log)")
    ax.set_ylabel("noise on a sum / C (log)")
    plain_ticks(ax, epsilons)
    plain_ticks(ax, [0.5, 1, 2, 5], "y")
    label_lines(ax, x_offset=6)
    ax.set_title("The same ε, three promises, three noises")
    return ax


def plot_counter_example(axes: Any, worlds: Mapping[str, Sequence[Sequence[int]]]) -> Any:
    """Updates (arrows of length C) in their clusters, with and without one client.

    Parameters
    ----------
    axes : two Axes
    worlds : mapping of two titles to the updates +1 or -1 of each cluster
        The first entry of the first cluster is the client that leaves; the last one of the first
        cluster of the second world is the one that is moved.
    """
    for i, (ax, (title, clusters)) in enumerate(zip(panels(axes), worlds.items(), strict=True)):
        for j, updates in enumerate(clusters):
            ax.add_patch(Rectangle((j - 0.42, -1.3), 0.84, 2.6, facecolor="none", edgecolor=MUTED))
            at = j + 0.26 * (np.arange(len(updates)) - (len(updates) - 1) / 2)
            for n, (x, update) in enumerate(zip(at, updates, strict=True)):
                leaves = i == 0 and j == 0 and n == 0
                moved = i == 1 and j == 0 and n == len(updates) - 1
                color = WRONG if leaves else OTHER if moved else GOOD
                ax.annotate(
                    "", (x, update), (x, 0),
                    arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2.2},
                )  # fmt: skip
                if leaves or moved:
                    ax.text(
                        x, -0.12 if update > 0 else 0.12, "A" if leaves else "moved", ha="center",
                        va="top" if update > 0 else "bottom", fontsize=10, color=DARK,
                    )  # fmt: skip
            total = f"sum {sum(updates):+d} C".replace("-", "−").replace("+0", "0")
            ax.text(j, -1.45, total, ha="center", va="top", fontsize=11)
        ax.axhline(0, color=PALE, linewidth=1, zorder=0)
        ax.set(xlim=(-0.55, 1.55), ylim=(-1.85, 1.4), yticks=[])
        ax.set_xticks([0, 1], ["cluster 1", "cluster 2"])
        for side in ax.spines.values():
            side.set_visible(False)
        ax.tick_params(length=0)
        ax.set_title(title)
    panels(axes)[0].figure.suptitle(
        "One client leaves, two sums move: √5 C, not 2 C", x=0.01, ha="left", fontsize=12
    )
    return axes


def plot_shifts(ax: Axes, shifts: Mapping[str, float], *, claimed: float = 2.0) -> Axes:
    """Joint change of the cluster sums in units of C, one bar for each setting."""
    y = np.arange(len(shifts))[::-1]
    widths = np.array(list(shifts.values()))
    colors = [WRONG if w > claimed * (1 + 1e-9) else GOOD for w in widths]
    ax.barh(y, widths, color=colors, height=0.62)
    ax.plot([claimed, claimed], [-0.6, len(y) - 0.6], "--", color=DARK, linewidth=1.3)
    ax.text(claimed, len(y) - 0.5, f"claimed: {claimed:g} C", ha="center", fontsize=10)
    for height, width in zip(y, widths, strict=True):
        ax.text(width, height, f" {width:.2f}", va="center", fontsize=10)
    ax.set_yticks(y, list(shifts))
    ax.set(xlim=(0, 1.12 * widths.max()), ylim=(-0.6, len(y) - 0.1))
    ax.set_xlabel("joint change of the sums when one client changes / C")
    ax.set_title("Only released identifiers keep the promise of 2 C", pad=14)
    return ax


def plot_views(
    axes: Any,
    identifiers: ArrayLike,
    groups: ArrayLike,
    words: ArrayLike,
    counts: ArrayLike,
    members: ArrayLike,
) -> Any:
    """What is at the server after one round: identifiers, masked words, or noised counts.

    Parameters
    ----------
    axes : three Axes
    identifiers : array_like of shape (m, k)
        Exact one-hots of the clients of a round.
    groups : array_like of int, shape (m,)
        True groups, by which the rows are sorted.
    words : array_like of shape (m, w)
        Some masked words of each client, scaled to [0, 1).
    counts, members : array_like of shape (k,)
        Noised and true counts.
    """
    left, middle, right = panels(axes)
    order = np.argsort(np.asarray(groups), kind="stable")
    shown = np.asarray(identifiers)[order]
    left.imshow(
        shown, aspect="auto", cmap=ListedColormap(["white", WRONG]), interpolation="nearest"
    )
    for edge in np.flatnonzero(np.diff(np.asarray(groups)[order])):
        left.axhline(edge + 0.5, color=DARK, linewidth=1)
    left.set(xticks=range(shown.shape[1]), xlabel="model", ylabel="client, by true group")
    left.set_title("RR-Cluster: everyone's group")
    middle.imshow(np.asarray(words), aspect="auto", cmap="gray", interpolation="nearest")
    middle.set(xticks=[], xlabel="words of the masked message", ylabel="client")
    middle.set_title("Sums only, masked: nothing")
    x = np.arange(len(np.asarray(counts)))
    right.bar(x, counts, color=GOOD, width=0.6)
    right.plot(x, members, "_", color=DARK, markersize=26, markeredgewidth=2)
    right.set(xticks=x, xlabel="model", ylabel="clients (mark: truth)")
    right.set_title("Released: noised sums")
    return axes
