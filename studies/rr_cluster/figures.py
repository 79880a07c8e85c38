"""Figures of notebook 04 that take more than a few lines, and how methods and accountants look.

Each draws numbers that the notebook computed, and returns its axes. `METHODS` names the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from studies.bench import plots
from studies.bench.style import (
    BLUE,
    DASHED,
    DATA,
    GREY,
    LOOKS,
    ORANGE,
    PALE,
    PLUM,
    PURPLE,
    RED,
    THEORY,
    Look,
)
from studies.paper_data import make_lines

METHODS: Mapping[str, Look] = {
    "fedavg": Look("DP-FedAvg", GREY, "v-"),
    "fedprox": Look("DP-FedProx", GREY, "<-"),
    "fedper": Look("DP-FedPer", GREY, ">-"),
    "ifca": Look("DP-IFCA", ORANGE, "s-"),
    "ifca_promise": Look("DP-IFCA, the paper's promise", ORANGE, "s--"),
    "fesem": Look("DP-FeSEM", ORANGE, "p-"),
    "fedcam": Look("DP-FedCAM", ORANGE, "h-"),
    "rr_ifca": Look("RR-Cluster", RED, "^-"),
    "rr_granted": Look("RR-Cluster, noise granted", RED, "^--"),
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
"""Look of each accountant; the keys are those of `accountants`."""

MODELS = tuple(
    Look("", look.color, dash) for look, dash in zip(LOOKS, ("-", "--", "-.", ":"), strict=False)
)
SIGMA = "noise s on an identifier"


def plot_ifca(axes: Any, runs: Mapping[str, Sequence[Any]], rounds: Sequence[int]) -> Any:
    """Models as lines over the clients' points: one row for each start, one column for each round.

    `runs` map the name of a start to (lines found, models (k, 2) by round) of several runs; drawn
    is the first of those that found most.
    """
    grid, x = np.asarray(axes, dtype=object), np.array([-1.0, 1.0])
    made = make_lines(400, rng=np.random.default_rng(1))
    shown = made.train_points[:: max(1, len(made.train_points) // plots.MAX_SHOWN)]
    for row, (name, found) in zip(grid, runs.items(), strict=True):
        best = max(n for n, _ in found)
        history = next(h for n, h in found if n == best)
        for ax, t in zip(row, rounds, strict=True):
            ax.scatter(*shown.T, s=3, color=DATA, linewidths=0, zorder=1)
            lines = {j: slope * x + at for j, (slope, at) in enumerate(np.asarray(history[t]))}
            plots.curves(ax, x, lines, MODELS, linewidth=2.4)
            ax.set(xlim=(-1, 1), ylim=(-10, 7), xticks=[], yticks=[-8, 0, 6])
            if t != rounds[0]:
                ax.set_yticklabels([])
        row[0].set_ylabel(f"{name}: {best} found")
    for ax, t in zip(grid[0], rounds, strict=True):
        plots.finish(ax, "start" if t == 0 else f"round {t}")
    most = ", ".join(f"{max(n for n, _ in found)} if {name}" for name, found in runs.items())
    plots.headline(grid, f"Lines found in the best run: {most}")
    return axes


def plot_noise_of_means(
    ax: Axes, sizes: ArrayLike, lengths: ArrayLike, predicted: ArrayLike, *, bound: float
) -> Axes:
    """Length of the noise in a mean update against the number of updates.

    `sizes` and `predicted` have shape (s,), `lengths` (s, repetitions). No mean of clipped updates
    is longer than `bound`.
    """
    sizes, lengths = (np.asarray(v, dtype=np.float64) for v in (sizes, lengths))
    ax.plot(sizes, predicted, **THEORY)
    plots.curves(ax, sizes, {"": lengths}, (Look("_run", ORANGE, "o"),), interval="marks")
    ax.axhline(bound, **DASHED)
    plots.note(ax, "longest possible mean update, C", (sizes[0], bound * 1.08), va="bottom")
    middle = len(sizes) // 2
    at = (sizes[middle], np.asarray(predicted)[middle])
    plots.note(ax, r"$2\,C\,\sigma\sqrt{p}\;/\;N$", at, (30, 20), line=True)
    return plots.finish(
        ax, f"{sizes[-1]:g} updates: noise of {np.mean(lengths[-1]) / bound:.1f} times C",
        "updates in the cluster N",
        "length of the noise", log="xy", xticks=sizes, yticks=[0.3, 1, 3, 10],
    )  # fmt: skip


def plot_sizes(ax: Axes, history: Sequence[ArrayLike], least: int) -> Axes:
    """Mean members of each cluster, largest first: as chosen, after noise, after rebalancing.

    `history` has arrays (3, k), one for each round; the dashed line is B.
    """
    sizes = np.sort(np.mean(np.asarray(history, dtype=np.float64), axis=0))[:, ::-1]
    places, names = np.arange(sizes.shape[1]), ("as chosen", "after noise", f"filled to {least}")
    for shift, values, name, color in zip(
        (-0.27, 0.0, 0.27), sizes, names, (PALE, BLUE, PURPLE), strict=True
    ):
        bars = ax.bar(places + shift, values, 0.25, color=color, label=name)
        ax.bar_label(bars, fmt="%.0f", fontsize=9)
    ax.axhline(least, **DASHED)
    most, low = sizes[:, 0], sizes[:, -1]
    title = f"Chosen {low[0]:.0f} to {most[0]:.0f}, after noise {low[1]:.0f} to {most[1]:.0f}"
    return plots.finish(
        ax, title, "cluster, largest first", "clients in a round", xticks=places,
        ylim=(0, 1.4 * sizes.max()), names="upper right",
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
    plots.curves(ax, sigmas, epsilons, ACCOUNTANTS, markersize=5)
    return plots.finish(
        ax, f"However much noise: Theorem 4.2 says ε ≥ {floor:.2f}", "noise multiplier σ",
        f"ε of {n_rounds} rounds", log="xy", xticks=[1, 2, 4, 8, 16],
        yticks=[0.1, 0.5, 1, 2, 5, 10], names="upper right",
    )  # fmt: skip


def plot_comparison(
    ax: Axes, scores: Mapping[str, Mapping[float, ArrayLike]], alone: float,
    measure: str = "accuracy",
) -> Axes:  # fmt: skip
    """Accuracy at equal epsilon: method -> epsilon -> one number for each partition.

    Lines are means, faint marks partitions; `alone` is that of clients that train on their own.
    """
    for name, by_epsilon in scores.items():
        look, at = METHODS[name], list(by_epsilon)
        values = np.array([np.ravel(by_epsilon[e]) for e in at])
        plots.curves(ax, at, {name: values}, METHODS, interval="marks")
        ax.plot(at, values.mean(axis=1), look.style, color=look.color, label=look.label)
    ends = list(next(iter(scores.values())))
    ax.plot([min(ends), max(ends)], [alone, alone], label="each client alone", **DASHED)
    means = {
        name: {e: float(np.asarray(v).mean()) for e, v in part.items()}
        for name, part in scores.items()
    }
    last = max(means["fedavg"])
    best = max(means, key=lambda name: means[name][last])
    title = f"At ε = {last:g} best: {METHODS[best].label}, {means[best][last]:.2f}"
    at = list(means[best])
    plots.finish(ax, title, "ε", measure, log="x", xticks=at, names="ends")
    return ax


def plot_choice(
    axes: Any,
    *,
    sigmas: ArrayLike,
    wrong: ArrayLike,
    sigma: float,
    flip_rate: float,
    sizes: Mapping[str, ArrayLike],
    min_size: int,
    title: str,
) -> Any:
    """One run with a chosen B and epsilon: flipped identifiers and cluster sizes.

    `sigmas` and `wrong` (s,) are the noise of an identifier and the probability of a wrong one;
    `sigma` (0: none) is the noise of this run, `flip_rate` the share of identifiers it changed;
    `sizes` map two names to mean cluster sizes (k,), as clients choose and as the server uses them;
    `min_size` is B.
    """
    left, middle = plots.panels(axes)
    live: dict[str, Any] = {"color": RED, "markersize": 11, "markeredgecolor": "white"}
    left.plot(sigmas, wrong, color=BLUE)
    left.plot(max(sigma, float(np.min(sigmas))), flip_rate, "o", **live)
    at, ends = [0.2, 0.5, 1, 2, 5, 10], (-0.03, 0.82)
    wrongs = (f"1  {flip_rate:.0%} of identifiers wrong", SIGMA, "share wrong")
    plots.finish(left, *wrongs, log="x", xticks=at, ylim=ends)
    k = len(np.asarray(next(iter(sizes.values()))))
    for shift, (name, values), color in zip((-0.2, 0.2), sizes.items(), (PALE, BLUE), strict=True):
        ordered = np.sort(np.asarray(values))[::-1]
        middle.bar(np.arange(k) + shift, ordered, 0.38, color=color, label=name)
    middle.axhline(min_size, **DASHED)
    text = ("2  clients per round", "cluster, largest first (dashed: B)")
    plots.finish(middle, *text, xticks=range(k), names="upper right")
    plots.headline(axes, title)
    return axes
