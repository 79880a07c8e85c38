"""Figures of notebook 04 that take more than a few lines, and how methods and accountants look.

Each draws numbers that the notebook computed, and returns its axes. `METHODS` names the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from studies.bench import plots
from studies.bench.style import (
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
from studies.rr_cluster import theory

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
SIGMA = "noise s on an identifier"


def plot_ifca(
    axes: Any,
    points: ArrayLike,
    histories: Mapping[str, Sequence[ArrayLike]],
    rounds: Sequence[int],
) -> Any:
    """Models as lines over the clients' points: one row for each start, one column for each round.

    `points` (N, 2) are x and y of all clients; `histories` map the name of a start to models by
    round, slope and intercept (k, 2).
    """
    grid, x = np.asarray(axes, dtype=object), np.array([-1.0, 1.0])
    shown = np.asarray(points)[:: max(1, len(np.asarray(points)) // plots.MAX_SHOWN)]
    for row, (name, history) in zip(grid, histories.items(), strict=True):
        for ax, t in zip(row, rounds, strict=True):
            ax.scatter(*shown.T, s=3, color=DATA, linewidths=0, zorder=1)
            lines = {j: slope * x + at for j, (slope, at) in enumerate(np.asarray(history[t]))}
            plots.curves(ax, x, lines, MODELS, linewidth=2.4)
            ax.set(xlim=(-1, 1), ylim=(-10, 7), xticks=[], yticks=[-8, 0, 6])
            if t != rounds[0]:
                ax.set_yticklabels([])
        row[0].set_ylabel(name)
    for ax, t in zip(grid[0], rounds, strict=True):
        plots.finish(ax, "start" if t == 0 else f"round {t}")
    plots.headline(grid, "The same clients, two starts: where models begin decides")
    return axes


def plot_noise_of_means(
    ax: Axes, sizes: ArrayLike, lengths: ArrayLike, predicted: ArrayLike, *, bound: float
) -> Axes:
    """Length of the noise in a mean update against the number of updates.

    `sizes` and `predicted` have shape (s,), `lengths` (s, repetitions). No mean of clipped updates
    is longer than `bound`.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    ax.plot(sizes, predicted, **THEORY)
    plots.curves(ax, sizes, {"": lengths}, (Look("_run", ORANGE, "o"),), interval="marks")
    ax.axhline(bound, **DASHED)
    plots.note(ax, "longest possible mean update, C", (sizes[0], bound * 1.08), va="bottom")
    middle = len(sizes) // 2
    at = (sizes[middle], np.asarray(predicted)[middle])
    plots.note(ax, r"$2\,C\,\sigma_\theta\sqrt{p}\;/\;N$", at, (30, 20), line=True)
    return plots.finish(
        ax, "Noise buries the update of every cluster of a round", "updates in the cluster N",
        "length of the noise", log="xy", xticks=sizes, yticks=[0.3, 1, 3, 10],
    )  # fmt: skip


def plot_bias_variance(axes: Any, rows: pd.DataFrame) -> Any:
    """Error of the minority model against B, stacked from variance and squared bias.

    `rows` are those of ``rr_rebalancing`` at one noise: the left panel for updates relative to the
    model they go to ("inserted"), the right one for those of Algorithm 2 ("trained").
    """
    kinds = {"inserted": "As analysed: bias takes over", "trained": "As in Algorithm 2: no bias"}
    for ax, (kind, title) in zip(plots.panels(axes), kinds.items(), strict=True):
        part = rows[rows["reference"] == kind]
        bias, variance = part["bias2"].clip(lower=0), part["variance"]
        ax.bar(part["B"], variance, 3.4, color=PALE, label="variance")
        ax.bar(part["B"], bias, 3.4, bottom=variance, color=PLUM, label="bias²")
        plots.finish(ax, title, "threshold B", xticks=part["B"])
    plots.panels(axes)[0].set_ylabel("squared error, small cluster")
    plots.panels(axes)[1].legend(loc="upper right")
    return axes


def plot_identifiers(ax: Axes, right: Callable[[float], float], needed: Sequence[float]) -> Axes:
    """Probability of a right identifier against its noise, beside Table 4 of the paper.

    `right` is a function of the noise, `needed` the noise that epsilon = 2, 4 and 8 need; shares of
    64 clients have 95 % intervals.
    """
    levels = np.geomspace(0.2, 6, 60)
    ax.plot(levels, [right(s) for s in levels], color=DARK, label="computed: noise, largest entry")
    looks = (("DP-IFCA", 0.97, BLUE, "s"), ("RR-Cluster(IFCA) B=8", 1.03, RED, "^"))
    for name, shift, color, mark in looks:
        share = np.array(theory.TABLE_4[name][1:4], dtype=np.float64) / 100
        low, high = theory.clopper_pearson(
            np.round(share * theory.TABLE_4_CLIENTS), theory.TABLE_4_CLIENTS
        )
        label = "Table 4: " + name.replace("(IFCA)", ",")
        at, half = shift * np.asarray(needed), [share - low, high - share]
        ax.errorbar(at, share, half, fmt=mark, color=color, elinewidth=1.4, label=label)
    return plots.finish(
        ax, "Most noised identifiers are wrong; RR-Cluster's in Table 4 not", SIGMA,
        "P(right cluster)", log="x", ylim=(0, 1.03), xticks=[0.2, 0.5, 1, 2, 5],
        names="lower left",
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
        ax, "No noise gets Theorem 4.2 below its floor", "noise multiplier σ",
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


def plot_shifts(ax: Axes, shifts: Mapping[str, float]) -> Axes:
    """Joint change of the cluster sums in units of C, one bar for each setting; claimed: 2."""
    colors = [RED if shift > 2 * (1 + 1e-9) else BLUE for shift in shifts.values()]
    x = "change of all sums together / C"
    plots.bars(ax, shifts, colors, x, "")
    top = len(shifts)
    ax.plot([2, 2], [-0.6, top - 0.6], **DASHED)
    ax.text(2, top - 0.5, "claimed: 2 C", ha="center", fontsize=10)
    ax.set(xlim=(0, 1.12 * max(shifts.values())), ylim=(-0.6, top - 0.1))
    ax.set_title("Only released identifiers keep to 2 C", pad=14)
    return ax


def plot_moved(ax: Axes, moved: Mapping[int, float], right: float, n_clusters: int) -> Axes:
    """Clients that rebalancing moves in a round, against the threshold B.

    `moved` maps B to what a live run moved; 0 is drawn at the bottom. `right` is the probability of
    a right identifier: lines are the expected numbers for clusters of equal size, and where the
    true cluster of all is the same one (cohorts of 100 and 40).
    """
    bottom, sizes, k = 1e-4, np.arange(max(moved) + 1), n_clusters
    one = [right, *[(1 - right) / (k - 1)] * (k - 1)]
    cases = {
        "cohort 100, equal clusters": (100, [1 / k] * k, "--"),
        "cohort 100, all in one": (100, one, "-"), "cohort 40, all in one": (40, one, ":"),
    }  # fmt: skip
    for name, (cohort, law, dash) in cases.items():
        at = sizes[sizes * k <= cohort]
        expected = [theory.expected_moved(cohort, law, int(b)) for b in at]
        plots.curves(ax, at, {name: np.maximum(expected, bottom)}, (Look("", DARK, dash),))
    live: dict[str, Any] = {"color": RED, "markersize": 9, "markeredgecolor": "white"}
    heights = np.maximum(list(moved.values()), bottom)
    ax.plot(list(moved), heights, "o", label="live run", clip_on=False, **live)
    return plots.finish(
        ax, "With private identifiers a small B moves nobody", "threshold B",
        "clients moved per round", log="y", ylim=(bottom, 60), names="lower right",
    )  # fmt: skip


def plot_comparison(ax: Axes, scores: pd.DataFrame, alone: float) -> Axes:
    """Accuracy at equal epsilon by method: means as lines, a mark for each partition.

    `scores` has the columns method (keys of `METHODS`), epsilon and accuracy; `alone` is that of
    clients that train on their own data alone.
    """
    epsilons = sorted(scores["epsilon"].unique())
    for method, rows in scores.groupby("method"):
        _, color, style = METHODS[str(method)]
        faint: dict[str, Any] = {"alpha": 0.45, "markersize": 5, "markeredgewidth": 0}
        ax.plot(rows["epsilon"], rows["accuracy"], style[0], color=color, **faint)
    means = scores.pivot_table("accuracy", "epsilon", "method")
    plots.curves(ax, epsilons, {m: means[m].to_numpy() for m in METHODS if m in means}, METHODS)
    ax.axhline(alone, label="each client alone", **DASHED)
    return plots.finish(
        ax, "At equal ε sums only is ahead of all from 2 on", "ε", "accuracy", log="x",
        xticks=epsilons, ylim=(0, 1), names="lower right",
    )  # fmt: skip


LOW: Mapping[tuple[str, str], Look] = {
    ("sums", "everyone"): Look("sums only, everybody", PURPLE, "D-"),
    ("sums", "sampled"): Look("sums only, a tenth", PURPLE, "D:"),
    ("fedavg", "everyone"): Look("DP-FedAvg, everybody", GREY, "v-"),
    ("fedavg", "sampled"): Look("DP-FedAvg, a tenth", GREY, "v:"),
}
"""Look of a method and of who takes part in a round."""


def plot_low_budget(axes: Any, table: pd.DataFrame, alone: float) -> Any:
    """Accuracy against small epsilons, one panel for each delta: everybody or a sampled tenth.

    `table` has the columns method, who, epsilon, delta, acc_mean and ci95 of one setting.
    """
    both = plots.panels(axes)
    for ax, (delta, part) in zip(both, table.groupby("delta", sort=False), strict=True):
        rows = part.set_index(["method", "who"]).sort_values("epsilon")
        series = {key: rows["acc_mean"].loc[[key]].to_numpy() for key in LOW}
        errors = {key: rows["ci95"].loc[[key]].to_numpy() for key in LOW}
        epsilons = sorted(part["epsilon"].unique())
        plots.curves(ax, epsilons, series, LOW, errors=errors)
        ax.axhline(alone, label="each client alone", **DASHED)
        how: dict[str, Any] = {"log": "x", "xticks": epsilons, "ylim": (0.2, 0.85)}
        plots.finish(ax, f"δ = {delta:g}", "ε", **how)
    both[0].set_ylabel("accuracy")
    plots.legend_below(both, columns=2)
    plots.headline(both, "With everybody in every round, taking part pays from ε = 1 on")
    return axes


def plot_counts(axes: Any, counts: Mapping[str, ArrayLike], events: Sequence[Any]) -> Any:
    """Noised counts of the models by round as shades of grey, without and with re-seeding.

    `counts` map two titles to arrays of shape (T, k); `events` are (round, dead model, split model)
    of the second run, a mark at the dead one.
    """
    both = plots.panels(axes)
    values = {title: np.asarray(v, dtype=np.float64).T for title, v in counts.items()}
    top = max(v.max() for v in values.values())
    for ax, (title, shown) in zip(both, values.items(), strict=True):
        image = ax.imshow(
            shown, cmap="Greys", vmin=0, vmax=top, aspect="auto", interpolation="nearest"
        )
        plots.finish(ax, title, "round", yticks=range(len(shown)))
    both[0].set_ylabel("model")
    for t, dead, _ in events:
        both[1].plot(t, dead, "v", color=RED, markersize=11, markeredgecolor="white")
    both[0].figure.colorbar(image, ax=both, label="clients that chose it (noised)")
    return axes


def plot_limits(
    axes: Any, shares: Mapping[float, ArrayLike], models: Mapping[int, ArrayLike],
    rivals: Mapping[str, float],
) -> Any:  # fmt: skip
    """Where sums only breaks: accuracies by partition for a small true group, and a wrong k.

    `shares` maps the share of the smallest group to the accuracy in it, `models` the number of
    models to the accuracy of all, `rivals` the name of another method to its accuracy: lines.
    """
    left, right = plots.panels(axes)
    percent = {100 * share: values for share, values in shares.items()}
    for ax, series in ((left, percent), (right, models)):
        array = np.array(list(series.values()), dtype=np.float64)
        plots.curves(ax, list(series), {"": array}, (Look("_run", PURPLE, "D"),), interval="marks")
        bar: dict[str, Any] = {"color": DARK, "markersize": 24, "markeredgewidth": 2}
        ax.plot(list(series), np.median(array, axis=1), "_", **bar)
        for name, accuracy in rivals.items():
            ax.axhline(accuracy, color=MUTED, linewidth=1.2, linestyle=":")
            above = (4, 7 if accuracy == max(rivals.values()) else -8)
            plots.note(ax, name, (max(series), accuracy), above, ha="right", fontsize=9)
    right.axvline(4, **DASHED)
    plots.note(right, "true groups", (4, 0.06), (6, 0))
    text = ("A small group goes unseen", "smallest group, % of clients", "accuracy in it")
    plots.finish(left, *text, ylim=(0, 1), xticks=list(percent))
    text = ("Too few models cost, spare ones do not", "number of models k", "accuracy")
    plots.finish(right, *text, ylim=(0, 1), xticks=list(models))
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
