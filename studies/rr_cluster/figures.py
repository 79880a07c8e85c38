"""Figures of notebook 04 that take more than a few lines, and how methods and accountants look.

Each draws numbers that the notebook computed, and returns its axes. `METHODS` names the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from fedclust_helpers._index import bincount
from studies.bench import plots
from studies.bench.style import (
    BLUE,
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
from studies.paper_data import make_lines

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
        ax, f"Even {sizes[-1]:g} updates: noise of {np.mean(lengths[-1]) / bound:.1f} times C",
        "updates in the cluster N",
        "length of the noise", log="xy", xticks=sizes, yticks=[0.3, 1, 3, 10],
    )  # fmt: skip


def plot_sizes(axes: Any, history: Sequence[ArrayLike], least: int) -> Any:
    """Members of each cluster by round: as clients choose, after noise, after rebalancing.

    `history` has arrays (3, k), one for each round; the dashed line is B.
    """
    sizes = np.asarray(history, dtype=np.float64)
    names = ("as chosen", "after noise", f"after rebalancing, B = {least}")
    for i, (ax, name) in enumerate(zip(plots.panels(axes), names, strict=True)):
        lines = dict(enumerate(sizes[:, i].T))
        plots.curves(ax, np.arange(len(sizes)), lines, MODELS, linewidth=1.4)
        ax.axhline(least, **DASHED)
        plots.finish(ax, f"{name}: {sizes[:, i].min():.0f} to {sizes[:, i].max():.0f}", "round")
    plots.panels(axes)[0].set_ylabel("clients in a cluster")
    return axes


def plot_woken(ax: Axes, found: Mapping[tuple[str, int], Sequence[int]]) -> Axes:
    """(start, B) -> lines found in each of several runs: one row each, a mark for each run."""
    y = np.arange(len(found))[::-1]
    for height, ((_, b), runs) in zip(y, found.items(), strict=True):
        values, times = np.unique(runs, return_counts=True)
        look = RED if b else BLUE
        ax.scatter(
            values, np.full(len(values), height), s=20 * times, color=look, marker="^" if b else "o"
        )
    ax.set_yticks(y, [f"{kind}, B = {b}" for kind, b in found])
    best = {key: int(np.sum(np.asarray(runs) == 4)) for key, runs in found.items()}
    text = ", ".join(f"{n}" for n in best.values())
    return plots.finish(
        ax, f"Runs that found all four lines: {text} of {len(runs)}", "lines found (area: runs)",
        xlim=(-0.3, 4.4), xticks=range(5), ylim=(-0.6, len(found) - 0.4),
    )  # fmt: skip


def plot_identifiers(
    ax: Axes, right: Callable[[float], float], simulated: Mapping[float, float], n_clusters: int
) -> Axes:
    """Probability of a right identifier against its noise: a function, and simulated shares."""
    levels = np.geomspace(0.2, 2 * max(simulated), 60)
    ax.plot(levels, [right(s) for s in levels], label="integral", **THEORY)
    marks: dict[str, Any] = {"color": RED, "markersize": 9, "linestyle": "none"}
    ax.plot(list(simulated), list(simulated.values()), "o", label="simulated", **marks)
    ax.axhline(1 / n_clusters, label="blind guess", **DASHED)
    low, high = (f(simulated.values()) for f in (min, max))
    return plots.finish(
        ax, f"{low:.0%} to {high:.0%} of the noised identifiers are right", SIGMA,
        "P(right cluster)", log="x", ylim=(0, 1.03), xticks=[0.2, 0.5, 1, 2, 5, 10],
        names="upper right",
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


def plot_counter_example(axes: Any, worlds: Mapping[str, Sequence[Sequence[int]]]) -> Any:
    """Updates (arrows of length C) in their clusters, with and without one client.

    `worlds` maps two titles to the updates +1 or -1 of each cluster. The first entry of the first
    cluster is the client that leaves; the last one of the first cluster of the second world is the
    one that is moved.
    """
    for i, (ax, (title, clusters)) in enumerate(
        zip(plots.panels(axes), worlds.items(), strict=True)
    ):
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
        plots.bare(ax).set(xlim=(-0.55, 1.55), ylim=(-1.85, 1.4))
        ax.set_xticks([0, 1], ["cluster 1", "cluster 2"])
        ax.tick_params(length=0)
        plots.finish(ax, title)
    plots.headline(axes, "One client leaves, two sums move: √5 C, not 2 C")
    return axes


def plot_comparison(
    ax: Axes, scores: Mapping[str, Mapping[float, ArrayLike]], alone: float
) -> Axes:
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
    plots.finish(ax, title, "ε", "accuracy", log="x", xticks=at, names="ends")
    return ax


def plot_threes(axes: Any, models: ArrayLike, score: Any, made: Any, digit: int = 3) -> Any:
    """Of each model the weights of its pixels for one digit, and the group that it serves.

    `score` is its `Evaluation`; models of points on lines are drawn as lines.
    """
    models = np.asarray(models)
    for j, ax in zip(range(len(models)), plots.panels(axes), strict=False):
        served = made.groups[score.choices == j]
        group = int(bincount(served).argmax()) if len(served) else None
        share = 0.0 if group is None else np.mean(served == group)
        if made.n_classes is None:
            x = np.array([-1.0, 1.0])
            ax.plot(x, models[j, 0] * x + models[j, 1], color=BLUE)
            ax.set(ylim=(-8, 8))
        else:
            weights = models[j].reshape(-1, made.n_classes)[: made.n_features, digit]
            edge = np.abs(weights).max()
            side = made.feature_shape[:2]
            ax.imshow(weights.reshape(side), cmap="PuOr", vmin=-edge, vmax=edge)
        plots.bare(ax)
        text = "nobody" if group is None else f"{share:.0%} from group {group + 1}"
        plots.finish(ax, f"model {j + 1}", f"{len(served)} clients,\n{text}")
    plots.headline(axes, f"{score.groups_alone} groups have a model of their own")
    return axes


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
