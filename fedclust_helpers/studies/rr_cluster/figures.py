"""Figures of notebook 04, sections 1 to 10: the algorithm, identifiers, accounting, theory, views.

Each draws numbers that the notebook computed, and returns its axes. `METHODS` names the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.plots import (
    MAX_SHOWN,
    bare,
    bars,
    curves,
    finish,
    headline,
    note,
    panels,
)
from fedclust_helpers.studies.bench.style import (
    BLUE,
    DARK,
    DASHED,
    DATA,
    GREY,
    LOOKS,
    MUTED,
    ORANGE,
    PALE,
    PLUM,
    PURPLE,
    RED,
    THEORY,
    Look,
)
from fedclust_helpers.studies.rr_cluster.theory import Table4Row

METHODS: Mapping[str, Look] = {
    "fedavg": Look("DP-FedAvg", GREY, "v-"),
    "fedprox": Look("DP-FedProx", GREY, "<-"),
    "fedper": Look("DP-FedPer", GREY, ">-"),
    "ifca": Look("DP-IFCA", ORANGE, "s-"),
    "fesem": Look("DP-FeSEM", ORANGE, "p-"),
    "fedcam": Look("DP-FedCAM", ORANGE, "h-"),
    "rr_ifca": Look("RR-Cluster", RED, "^-"),
    "rr_fesem": Look("RR-Cluster (FeSEM)", RED, "P-"),
    "rr_fedcam": Look("RR-Cluster (FedCAM)", RED, "X-"),
    "sums_ifca": Look("sums only", BLUE, "o-"),
    "sums_ifca_reseed": Look("sums only, re-seeded", PURPLE, "D-"),
}
"""Look of each method; the keys are those of the result tables."""

ACCOUNTANTS: Mapping[str, Look] = {
    "paper": Look("Theorem 4.2, printed", RED, "^-"),
    "paper_tight": Look("Theorem 4.2, tight conversion", ORANGE, "s-"),
    "wor_rdp": Look("fixed size, replace-one", BLUE, "o-"),
    "poisson_rdp": Look("Poisson, add/remove (RDP)", PURPLE, "d--"),
    "poisson_pld": Look("Poisson, add/remove", PURPLE, "D--"),
    "poisson_pld_replace": Look("Poisson, replace-one", PLUM, "v:"),
}
"""Look of each accountant; the keys are those of `rr_cluster.accounting`."""

MODELS = tuple(
    Look("", look.color, dash) for look, dash in zip(LOOKS, ("-", "--", "-.", ":"), strict=False)
)
SIGMA, SIGMAS = "identifier noise σ", [0.2, 0.5, 1, 2, 5]

# --- the algorithm --------------------------------------------------------------------------------


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
    """
    grid, x = np.asarray(axes, dtype=object), np.array([-1.0, 1.0])
    shown = np.asarray(points)[:: max(1, len(np.asarray(points)) // MAX_SHOWN)]
    for row, (name, history) in zip(grid, histories.items(), strict=True):
        for ax, t in zip(row, rounds, strict=True):
            ax.scatter(*shown.T, s=3, color=DATA, linewidths=0, zorder=1)
            lines = {j: slope * x + at for j, (slope, at) in enumerate(np.asarray(history[t]))}
            curves(ax, x, lines, MODELS, linewidth=2.4)
            ax.set(xlim=(-1, 1), ylim=(-10, 7), xticks=[], yticks=[-8, 0, 6])
            if t != rounds[0]:
                ax.set_yticklabels([])
        row[0].set_ylabel(name)
    for ax, t in zip(grid[0], rounds, strict=True):
        finish(ax, "start" if t == 0 else f"round {t}")
    headline(grid, "The same clients, two starts: four lines found, or none")
    return axes


def plot_noise_of_means(
    ax: Axes, sizes: ArrayLike, lengths: ArrayLike, predicted: ArrayLike, *, bound: float
) -> Axes:
    """Length of the noise in a mean update against the size of its cluster.

    Parameters
    ----------
    sizes, predicted : array_like of shape (s,)
    lengths : array_like of shape (s, repetitions)
    bound : float
        No mean of clipped updates is longer.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    ax.plot(sizes, predicted, **THEORY)
    curves(ax, sizes, {"": lengths}, (Look("_run", ORANGE, "o"),), interval="marks")
    ax.axhline(bound, **DASHED)
    note(ax, "longest possible mean update, C", (sizes[0], bound * 1.08), va="bottom")
    middle = len(sizes) // 2
    at = (sizes[middle], np.asarray(predicted)[middle])
    note(ax, "2 C σ √d / |S|", at, (30, 20), line=True)
    return finish(
        ax, "Noise buries the update of every cluster of a round", "members of the cluster |S|",
        "length of the noise", log="xy", xticks=sizes, yticks=[0.3, 1, 3, 10],
    )  # fmt: skip


def plot_found(ax: Axes, found: Mapping[str, Mapping[str, ArrayLike]]) -> Axes:
    """Lines found by each method from each kind of start, one dot for each seed.

    `found` maps starts to mappings of keys of `METHODS` to counts of shape (seeds,).
    """
    for g, by_method in enumerate(found.values()):
        for i, (method, counts) in enumerate(by_method.items()):
            label, color, style = METHODS[method]
            at, label = g + 0.26 * (i - (len(by_method) - 1) / 2), label.removeprefix("DP-")
            x, y = [], []
            for level, n in zip(*np.unique(counts, return_counts=True), strict=True):
                x.extend(at + 0.03 * (np.arange(n) % 4 - min(n - 1, 3) / 2))
                y.extend(level + 0.16 * (np.arange(n) // 4))
            mark: dict[str, Any] = {"color": color, "markeredgecolor": "white"}
            ax.plot(x, y, style[0], label="_" if g else label, **mark)
    ax.set_xticks(range(len(found)), list(found))
    ax.set(yticks=range(5), ylim=(-0.4, 4.6), ylabel="lines found (of 4)")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.2)
    return finish(ax, "Rebalancing wakes dead models, not misplaced ones")


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
    sizes : array_like of shape (b,)
        Thresholds B.
    errors : mapping of sigma_theta to mean squared errors of shape (b,)
    inserted, trained : array_like of shape (2, b)
        Squared bias and variance at one noise, with a moved update relative to the model it goes
        to, and relative to the model it was trained from.
    """
    left, middle, right = panels(axes)
    curves(left, sizes, {f"σ = {sigma:g}": values for sigma, values in errors.items()})
    for values in errors.values():
        best = int(np.argmin(values))
        ring = (np.asarray(sizes)[best], np.asarray(values)[best])
        left.plot(*ring, "o", markersize=14, markerfacecolor="none", color=DARK)
    looks = {"bias²": Look("bias²", RED, "s-"), "variance": Look("variance", BLUE)}
    for ax, pair in ((middle, inserted), (right, trained)):
        curves(ax, sizes, dict(zip(looks, np.asarray(pair), strict=True)), looks, floor=1e-3)
        ax.set_ylim(7e-4, 40)
    for ax, title in (
        (left, "The best B moves with the noise"),
        (middle, "Relative to the new model: bias"),
        (right, "As Algorithm 1 has it: no bias"),
    ):
        at = [0, 10, 20, 30, 40, 50]
        finish(ax, title, "threshold B", yscale="log", xticks=at, names="upper right")
    left.set_ylabel("squared error, small cluster (log)")
    return axes


# --- identifiers and accounting -------------------------------------------------------------------


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
    sigmas : array_like of shape (s,)
    exact, simulated : mapping of the number of clusters to probabilities of shape (s,)
    needed : mapping of total epsilon to sigma_s
    epsilons : array_like of shape (m,)
    rates : mapping of names of mechanisms to probabilities of shape (m,)
    """
    left, right = panels(axes)
    lines = (Look("", BLUE, "-"), Look("", PLUM, "-"))
    curves(left, sigmas, {f"k = {k}": values for k, values in exact.items()}, lines)
    marks = (Look("_", BLUE, "o"), Look("_", PLUM, "s"))
    open_mark: dict[str, Any] = {"markerfacecolor": "white", "markersize": 5}
    curves(left, sigmas, {k: simulated[k] for k in exact}, marks, **open_mark)
    title = "Quadrature (line) and simulation agree"
    ends: dict[str, Any] = {"ylim": (0, 0.82), "xticks": SIGMAS, "names": "upper left"}
    finish(left, title, SIGMA, "P(wrong cluster)", log="x", **ends)
    _mark_epsilons(left, needed, 0.2)
    pairs = ((ORANGE, "s-"), (RED, "^-"), (PLUM, "D-"), (BLUE, "o-"))
    curves(right, epsilons, rates, tuple(Look("", *pair) for pair in pairs))
    right.axhline(0.75, **DASHED)
    note(right, "a blind guess", (np.asarray(epsilons)[0], 0.76), va="bottom")
    finish(
        right, "Every mechanism misplaces half, k = 4", "total ε of 50 rounds", log="x",
        ylim=(0, 0.82), xticks=epsilons, names="ends",
    )  # fmt: skip
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
    seen = {f"B = {b}": np.where(np.less(v, 1.2e-6), np.nan, v) for b, v in expected.items()}
    curves(ax, sigmas, seen, tuple(look._replace(style="-") for look in LOOKS))
    for b, look in zip(expected, LOOKS, strict=False):
        for sigma, value in measured.get(b, ()):
            if value > 0:
                ax.plot(sigma, value, look.style[0], color=look.color, markeredgecolor="white")
    _mark_epsilons(ax, needed, 4.0)
    return finish(
        ax, "With private identifiers nobody is left to move", SIGMA, "clients moved per round",
        log="xy", ylim=(1e-6, 150), xticks=SIGMAS, names="ends",
    )  # fmt: skip


def plot_accountants(
    ax: Axes, sigmas: ArrayLike, epsilons: Mapping[str, ArrayLike], floor: float, *, n_rounds: int
) -> Axes:
    """Epsilon of a run against the noise, by accountant (keys of `ACCOUNTANTS`).

    `floor` is that of the accountant "paper": no noise gets below it.
    """
    sigmas = np.asarray(sigmas, dtype=np.float64)
    ax.plot(sigmas[[0, -1]], [floor, floor], color=RED, linestyle=":", linewidth=1.4)
    ax.text(sigmas[0], floor * 0.96, f"floor {floor:.2f}", va="top", fontsize=10)
    curves(ax, sigmas, epsilons, ACCOUNTANTS, markersize=5)
    return finish(
        ax, "No noise gets Theorem 4.2 below its floor", "noise multiplier σ",
        f"ε of {n_rounds} rounds", log="xy", xticks=[1, 2, 4, 8, 16],
        yticks=[0.1, 0.5, 1, 2, 5, 10], names="ends",
    )  # fmt: skip


def plot_relations(ax: Axes, epsilons: ArrayLike, noise: Mapping[str, ArrayLike]) -> Axes:
    """Noise on a sum of updates, in units of C, by accountant (keys of `ACCOUNTANTS`)."""
    curves(ax, epsilons, noise, ACCOUNTANTS)
    return finish(
        ax, "The same ε, three promises, three noises", "ε of 50 rounds", "noise on a sum / C",
        log="xy", xticks=epsilons, yticks=[0.5, 1, 2, 5], names="ends",
    )  # fmt: skip


def plot_counter_example(axes: Any, worlds: Mapping[str, Sequence[Sequence[int]]]) -> Any:
    """Updates (arrows of length C) in their clusters, with and without one client.

    `worlds` maps two titles to the updates +1 or -1 of each cluster. The first entry of the first
    cluster is the client that leaves; the last one of the first cluster of the second world is the
    one that is moved.
    """
    for i, (ax, (title, clusters)) in enumerate(zip(panels(axes), worlds.items(), strict=True)):
        for j, updates in enumerate(clusters):
            ax.add_patch(Rectangle((j - 0.42, -1.3), 0.84, 2.6, facecolor="none", edgecolor=MUTED))
            special = {(0, 0, 0): ("A", RED), (1, 0, len(updates) - 1): ("moved", ORANGE)}
            for n, update in enumerate(updates):
                x = j + 0.26 * (n - (len(updates) - 1) / 2)
                name, color = special.get((i, j, n), ("", BLUE))
                arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2.2}
                ax.annotate("", (x, update), (x, 0), arrowprops=arrow)
                if name:
                    side = "top" if update > 0 else "bottom"
                    ax.text(x, -0.12 * update, name, ha="center", va=side, fontsize=10)
            total = f"sum {sum(updates):+d} C".replace("-", "−").replace("+0", "0")
            ax.text(j, -1.45, total, ha="center", va="top", fontsize=11)
        ax.axhline(0, color=PALE, linewidth=1, zorder=0)
        bare(ax).set(xlim=(-0.55, 1.55), ylim=(-1.85, 1.4))
        ax.set_xticks([0, 1], ["cluster 1", "cluster 2"])
        ax.tick_params(length=0)
        finish(ax, title)
    headline(axes, "One client leaves, two sums move: √5 C, not 2 C")
    return axes


def plot_shifts(ax: Axes, shifts: Mapping[str, float]) -> Axes:
    """Joint change of the cluster sums in units of C, one bar for each setting; claimed: 2."""
    colors = [RED if shift > 2 * (1 + 1e-9) else BLUE for shift in shifts.values()]
    x = "joint change of the sums when one client changes / C"
    bars(ax, shifts, colors, x, "")
    top = len(shifts)
    ax.plot([2, 2], [-0.6, top - 0.6], **DASHED)
    ax.text(2, top - 0.5, "claimed: 2 C", ha="center", fontsize=10)
    ax.set(xlim=(0, 1.12 * max(shifts.values())), ylim=(-0.6, top - 0.1))
    ax.set_title("Only released identifiers keep the promise of 2 C", pad=14)
    return ax


# --- theory ---------------------------------------------------------------------------------------


def plot_table_4(ax: Axes, rows: Sequence[Table4Row]) -> Axes:
    """Identifier noise that would explain Table 4 (with 95 % interval), and what epsilon needs.

    Noise is drawn between 0.1 and 60: 64 of 64 right fits any small one.
    """
    shown = {
        "DP-IFCA": (Look("DP-IFCA", ORANGE, "s"), -0.05),
        "RR-Cluster(IFCA) B=4": (Look("RR-Cluster, B=4", PLUM, "v"), 0.0),
        "RR-Cluster(IFCA) B=8": (Look("RR-Cluster, B=8", RED, "^"), 0.05),
    }
    finite = [row for row in rows if np.isfinite(row.epsilon)]
    needed = dict(sorted({row.epsilon: row.needed for row in finite}.items()))
    epsilons = list(needed)
    ax.plot(epsilons, list(needed.values()), "--", color=DARK, label="needed by the accounting")
    for method, (look, shift) in shown.items():
        part = [row for row in finite if row.method == method]
        x = np.array([row.epsilon * 2**shift for row in part])
        low, high = ([getattr(row, n) for row in part] for n in ("lowest", "highest"))
        limits = (np.maximum(low, 0.05), np.minimum(high, 60.0))
        ax.vlines(x, *limits, color=look.color, linewidth=1.6)
        middle = np.clip([row.sigma_s for row in part], 0.1, 60.0)
        mark: dict[str, Any] = {"markersize": 8, "markeredgecolor": "white"}
        curves(ax, x, {method: middle}, (look,), **mark)
    return finish(
        ax, "Table 4 fits DP-IFCA's noise, and not RR-Cluster's", "printed ε", SIGMA, log="xy",
        ylim=(0.08, 80), xticks=epsilons, yticks=[0.1, 0.3, 1, 3, 10, 30], names="upper right",
    )  # fmt: skip


def plot_convergence(
    axes: Any,
    sigmas: ArrayLike,
    term: Mapping[str, ArrayLike],
    sizes: ArrayLike,
    tails: Mapping[str, ArrayLike],
    distances: Mapping[str, ArrayLike],
) -> Any:
    """Lemma 4.8 (identifiers), Equation 18 and the contraction of Theorem 4.10 beside the truth.

    Parameters
    ----------
    sigmas : array_like of shape (s,)
    term : mapping of "truth", "printed", "literal", "corrected" to arrays of shape (s,)
    sizes : array_like of shape (b,)
        Thresholds B.
    tails : mapping of "bound", "above", "below" to arrays of shape (b,)
    distances : mapping of "truth", "printed", "corrected" to distances by round
    """
    left, middle, right = panels(axes)
    looks = {
        "truth": Look("truth", DARK, "-"), "printed": Look("printed", RED, "--"),
        "literal": Look("read literally", MUTED, ":"), "corrected": Look("corrected", BLUE, "-."),
        "bound": Look("bound", RED, "--"), "above": Look("P(|S| > B)", ORANGE, "-"),
        "below": Look("P(|S| < B)", BLUE, "-"),
    }  # fmt: skip
    curves(left, sigmas, term, looks)
    left.axhspan(1, 100, color="#eeeeee", zorder=0)
    left.text(np.asarray(sigmas)[0], 20, "above 1: says nothing", fontsize=9, va="top")
    text = ("Lemma 4.8: true, and empty", SIGMA, "P(wrong cluster)")
    finish(left, *text, log="xy", ylim=(1e-3, 30), xticks=SIGMAS)
    left.legend(loc=(0.36, 0.02), fontsize=9)
    curves(middle, sizes, tails, looks, floor=1e-12)
    text = ("Eq. 18 bounds the other tail", "threshold B (400 clients, k = 4)", "")
    finish(middle, *text, yscale="log", ylim=(1e-8, 100), names="lower right")
    seen = {
        name: (np.arange(np.size(values)), np.where(np.less(values, 1.5e-3), np.nan, values))
        for name, values in distances.items()
    }
    curves(right, None, seen, looks)
    text = ("Thm 4.10 promises too much", "round", "distance")
    finish(right, *text, log="y", ylim=(1e-3, 1.5), names="ends")
    return axes
