"""Figures of notebook 04, sections 11 to 15: what the server sees, accuracy, limits, the widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.plots import curves, finish, headline, label_lines, panels
from fedclust_helpers.studies.bench.style import BLUE, DARK, DASHED, MUTED, PALE, PLUM, RED, Look
from fedclust_helpers.studies.rr_cluster.figures import METHODS, MODELS, SIGMA

PROMISES = {"fixed": "Fixed size, replace-one", "poisson": "Poisson, add/remove"}
"""Sampling -> sampling and the relation under which it is accounted."""

BASE: Mapping[str, Any] = {"setting": "balanced", "model": "softmax", "k": 4, "rounds": 50}
FAIR: Mapping[str, Any] = {"sampling": "fixed", "accountant": "wor_rdp"}
MAIN: Mapping[str, tuple[str, int]] = {
    "fedavg": ("none", 0),
    "ifca": ("corrected", 0),
    "rr_ifca": ("corrected", 8),
    "sums_ifca": ("none", 8),
    "sums_ifca_reseed": ("none", 8),
}
"""Method -> kind of identifiers and B of its row in the comparison at equal epsilon."""


def _rows(table: pd.DataFrame, method: str, **values: Any) -> pd.DataFrame:
    """The rows of a method of `MAIN` with finite epsilon and these values."""
    identifiers, size = MAIN[method]
    wanted = {"method": method, "identifiers": identifiers, "B": size, **FAIR, **values}
    for name, value in wanted.items():
        table = table[table[name] == value]
    return table[np.isfinite(table["epsilon"])]


def main_rows(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``rr_accuracy`` for `MAIN`: base setting, fixed size, replace-one, finite ε."""
    return pd.concat([_rows(accuracy, method, **BASE) for method in MAIN])


def paired_gains(paired: pd.DataFrame, method: str) -> pd.DataFrame:
    """The rows of ``rr_paired`` of a method of `MAIN` against DP-IFCA, labelled by their setting.

    Fixed size and replace-one for both, identifiers of DP-IFCA noised for sqrt(2).
    """
    rows = _rows(paired, method, reference="ifca", reference_identifiers="corrected")
    names: dict[str, dict[Any, str]] = {
        "setting": {"imbalanced": "2:1:1"}, "model": {"one_hidden": "hidden layer"},
        "rounds": {100: "T = 100"}, "k": {2: "k = 2"},
    }  # fmt: skip
    labels = [
        " ".join(names[str(c)][value] for c, value in row.items() if value in names[str(c)])
        for row in rows[list(names)].to_dict("records")
    ]
    return rows.assign(label=[label or "base setting" for label in labels])


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
    shown, x = np.asarray(identifiers)[order], np.arange(np.size(counts))
    cells: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
    left.imshow(shown, cmap=ListedColormap(["white", RED]), **cells)
    for edge in np.flatnonzero(np.diff(np.asarray(groups)[order])):
        left.axhline(edge + 0.5, color=DARK, linewidth=1)
    text = ("RR-Cluster: everyone's group", "model", "client, by true group")
    finish(left, *text, xticks=range(shown.shape[1]))
    middle.imshow(np.asarray(words), cmap="gray", **cells)
    finish(middle, "Sums only, masked: nothing", "words of the masked message", "client")
    middle.set_xticks([])
    right.bar(x, counts, color=BLUE, width=0.6)
    right.plot(x, members, "_", color=DARK, markersize=26, markeredgewidth=2)
    finish(right, "Released: noised sums", "model", "clients (mark: truth)", xticks=x)
    return axes


def plot_comparison(axes: Any, runs: pd.DataFrame, *, remark: str = "") -> Any:
    """Accuracy at equal epsilon by method, one panel for each promise; a dot for each seed.

    Parameters
    ----------
    runs : DataFrame
        Columns method, sampling, epsilon, accuracy.
    remark : str
        Written in the first panel.
    """
    epsilons = sorted(runs["epsilon"].unique())
    at = np.arange(len(epsilons))
    for ax, (sampling, title) in zip(panels(axes), PROMISES.items(), strict=True):
        part = runs[runs["sampling"] == sampling]
        for method, rows in part.groupby("method"):
            _, color, style = METHODS[str(method)]
            dots = ([epsilons.index(e) for e in rows["epsilon"]], rows["accuracy"])
            faint: dict[str, Any] = {"alpha": 0.5, "markersize": 5, "markeredgewidth": 0}
            ax.plot(*dots, style[0], color=color, **faint)
        means = part.pivot_table("accuracy", "epsilon", "method").reindex(epsilons)
        lines = {m: look._replace(style="-") for m, look in METHODS.items()}
        curves(ax, at, {m: means[m].to_numpy() for m in METHODS if m in means}, lines)
        ax.set_xticks(at, [f"{e:g}" for e in epsilons])
        ends = (-0.2, len(epsilons) - 0.8)
        finish(ax, title, "ε", ylim=(0.15, 1.0), xlim=ends, names="ends")
    first = panels(axes)[0]
    first.text(0.98, 0.03, remark, transform=first.transAxes, ha="right", fontsize=10)
    first.set_ylabel("accuracy")
    headline(axes, "At equal ε, sums alone beat noised identifiers")
    return axes


def plot_results(axes: Any, accuracy: pd.DataFrame, paired: pd.DataFrame) -> Any:
    """The committed tables: accuracy with intervals, and differences paired by partition.

    Parameters
    ----------
    accuracy : DataFrame
        Rows of ``rr_accuracy``, one for each method and epsilon: method, epsilon, acc_mean, ci95.
    paired : DataFrame
        Columns label, epsilon, diff_mean, ci95; one row of marks for each label.
    """
    left, right = panels(axes)
    epsilons = sorted(accuracy["epsilon"].unique())
    for i, (method, part) in enumerate(accuracy.groupby("method", sort=False)):
        label, color, style = METHODS[str(method)]
        at = np.array([epsilons.index(e) for e in part["epsilon"]]) + 0.05 * (i - 2)
        bar: dict[str, Any] = {"elinewidth": 1.4, "markeredgecolor": "white", "fmt": style}
        mean, half = 100 * part["acc_mean"], 100 * part["ci95"]
        left.errorbar(at, mean, half, color=color, label=label, **bar)
    left.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
    finish(left, "RR-Cluster lies on DP-IFCA", "ε", "accuracy, %")
    left.legend(loc="lower right", fontsize=9)
    labels = list(dict.fromkeys(paired["label"]))
    for height, label in zip(range(len(labels))[::-1], labels, strict=True):
        rows = paired[paired["label"] == label].sort_values("epsilon")
        for shift, mark, (_, row) in zip((0.22, 0, -0.22), "os^", rows.iterrows(), strict=False):
            gain, half = 100 * row["diff_mean"], 100 * row["ci95"]
            color = BLUE if gain - half > 0 else RED if gain + half < 0 else MUTED
            bar = {"fmt": mark, "markeredgecolor": "white", "elinewidth": 1.4, "markersize": 7}
            right.errorbar(gain, height + shift, xerr=half, color=color, **bar)
    right.axvline(0, **DASHED)
    right.set_yticks(range(len(labels))[::-1], labels)
    x = "points of accuracy, paired by partition"
    finish(right, "What sums only gains (● ε = 2, ■ 4, ▲ 8)", x, ylim=(-0.6, len(labels) - 0.4))
    return axes


def plot_limits(
    axes: Any,
    shares: tuple[ArrayLike, Mapping[float, ArrayLike]],
    models: tuple[ArrayLike, ArrayLike],
    budgets: tuple[ArrayLike, Mapping[str, ArrayLike]],
) -> Any:
    """Where sums only breaks: small true groups, a wrong k, heavy noise.

    Parameters
    ----------
    shares : shares of the smallest group (g,), and its accuracy (g, seeds) by threshold
    models : numbers of models (m,), accuracy (m, seeds)
    budgets : epsilons (e,), accuracy (e, seeds) by "sums_ifca" and "sums_ifca_reseed"
    """
    left, middle, right = panels(axes)
    ends: dict[str, Any] = {"ylim": (0, 1), "names": "lower right"}
    x, by_threshold = 100 * np.asarray(shares[0]), shares[1]
    named = {f"threshold {threshold:g}": values for threshold, values in by_threshold.items()}
    curves(left, x, named, interval="bars")
    x_name, y_name = "smallest group, % of the clients", "accuracy of that group"
    finish(
        left,
        "The smallest groups need luck",
        x_name,
        y_name,
        ylim=(0, 1),
        xticks=x,
        names="lower right",
    )
    curves(middle, models[0], {"": models[1]}, (Look("_k", PLUM, "D-"),), interval="bars")
    middle.axvline(4, **DASHED)
    middle.text(4.1, 0.05, "truth", fontsize=10)
    text = ("Too few cost, spare ones don't", "number of models k", "accuracy")
    finish(middle, *text, ylim=(0, 1), xticks=models[0])
    curves(right, budgets[0], budgets[1], METHODS, interval="bars")
    text = ("Re-seeding helps to ε = 0.5", "ε", "accuracy")
    finish(right, *text, log="x", xticks=budgets[0], **ends)
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
    counts : mapping of two titles to arrays of shape (T, k)
        The second run is the one with `events`.
    threshold : float
        Mean count below which a model is dead.
    events : sequence of (round, dead model, split model)
    """
    both = panels(axes)
    for ax, (title, values) in zip(both, counts.items(), strict=True):
        lines = {f"model {j}": column for j, column in enumerate(np.asarray(values).T)}
        curves(ax, np.arange(len(np.asarray(values))), lines, MODELS, linewidth=1.5)
        ax.axhline(threshold, **DASHED | {"linestyle": (0, (2, 2))})
        finish(ax, title, "round")
    both[0].set_ylabel("noised count")
    top = both[1].get_ylim()[1]
    for i, (t, dead, _) in enumerate(events):
        both[1].axvline(t, color=MODELS[dead % 4].color, linewidth=1, zorder=0)
        text, height = f"model {dead} replaced", top * (0.97 - 0.09 * i)
        both[1].text(t + 0.5, height, text, fontsize=9, va="top")
    label_lines(both[0])
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
    curve: tuple[ArrayLike, ArrayLike, ArrayLike],
    accuracy: float,
    title: str,
) -> Any:
    """One run with a chosen B and epsilon: flipped identifiers, cluster sizes, accuracy against B.

    Parameters
    ----------
    sigmas, wrong : array_like of shape (s,)
        Noise of an identifier, and the probability of a wrong one.
    sigma, flip_rate : float
        Noise of this run (0: none), and the share of identifiers that it changed.
    sizes : mapping of two names to mean cluster sizes of shape (k,)
        As the clients choose, and as the server uses them.
    min_size : int
        B.
    curve : B, lowest and highest accuracy of shape (b,)
        From the table that was computed before.
    accuracy : float
        Of this run.
    """
    left, middle, right = panels(axes)
    live: dict[str, Any] = {"color": RED, "markersize": 11, "markeredgecolor": "white"}
    left.plot(sigmas, wrong, color=BLUE)
    left.plot(max(sigma, float(np.min(sigmas))), flip_rate, "o", **live)
    at, ends = [0.2, 0.5, 1, 2, 5, 10], (-0.03, 0.82)
    finish(left, f"1  {flip_rate:.0%} of identifiers wrong", SIGMA, log="x", xticks=at, ylim=ends)
    k = len(np.asarray(next(iter(sizes.values()))))
    for shift, (name, values), color in zip((-0.2, 0.2), sizes.items(), (PALE, BLUE), strict=True):
        ordered = np.sort(np.asarray(values))[::-1]
        middle.bar(np.arange(k) + shift, ordered, 0.38, color=color, label=name)
    middle.axhline(min_size, **DASHED)
    text = ("2  clients per round", "cluster, largest first (dashed: B)")
    finish(middle, *text, xticks=range(k), names="upper right")
    b, low, high = (np.asarray(v) for v in curve)
    curves(right, b, {"": np.stack([low, high], axis=1)}, (Look("_table", BLUE, "-"),))
    right.plot(min_size, accuracy, "o", **live)
    finish(right, f"3  accuracy {accuracy:.2f}", "threshold B", ylim=(0, 1), xticks=b)
    headline(axes, title)
    return axes
