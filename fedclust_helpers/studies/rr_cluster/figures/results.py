"""Pictures of training runs: accuracy at equal epsilon, limits, the widget; the table of claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    mean_and_range,
    panels,
    plain_ticks,
)
from fedclust_helpers.studies.rr_cluster.figures._common import (
    DARK,
    GOOD,
    METHODS,
    MUTED,
    OTHER,
    PALE,
    PURPLE,
    WRONG,
)

PROMISES = {
    "fixed": "Fixed size, replace-one",
    "poisson": "Poisson, add/remove",
}
"""Sampling -> sampling and the relation under which it is accounted."""


BASE: Mapping[str, Any] = {"setting": "balanced", "model": "softmax", "k": 4, "rounds": 50}
FAIR: Mapping[str, Any] = {"sampling": "fixed", "accountant": "wor_rdp"}
MAIN_SIZE = 8  # B of the rows that are shown
MAIN: Mapping[str, tuple[str, int]] = {
    "fedavg": ("none", 0),
    "ifca": ("corrected", 0),
    "rr_ifca": ("corrected", MAIN_SIZE),
    "sums_ifca": ("none", MAIN_SIZE),
    "sums_ifca_reseed": ("none", MAIN_SIZE),
}
"""Method -> kind of identifiers and B of its row in the comparison at equal epsilon."""


def _rows(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def main_rows(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``rr_accuracy`` for `MAIN`: base setting, fixed size, replace-one, finite ε."""
    parts = [
        _rows(accuracy, method=method, identifiers=identifiers, B=size, **BASE, **FAIR)
        for method, (identifiers, size) in MAIN.items()
    ]
    return pd.concat([part[np.isfinite(part["epsilon"])] for part in parts])


def paired_gains(paired: pd.DataFrame, method: str) -> pd.DataFrame:
    """The rows of ``rr_paired`` of a method of `MAIN` against DP-IFCA, labelled by their setting.

    Fixed size and replace-one for both, identifiers of DP-IFCA noised for sqrt(2).
    """
    identifiers, size = MAIN[method]
    rows = _rows(
        paired, method=method, identifiers=identifiers, B=size, reference="ifca",
        reference_identifiers="corrected", **FAIR,
    )  # fmt: skip
    rows = rows[np.isfinite(rows["epsilon"])]
    names: dict[str, dict[Any, str]] = {
        "setting": {"imbalanced": "2:1:1"}, "model": {"one_hidden": "hidden layer"},
        "rounds": {100: "T = 100"}, "k": {2: "k = 2"},
    }  # fmt: skip
    labels = [
        " ".join(names[str(c)][value] for c, value in row.items() if value in names[str(c)])
        for row in rows[list(names)].to_dict("records")
    ]
    return rows.assign(label=[label or "base setting" for label in labels])


def plot_comparison(axes: Any, runs: pd.DataFrame, *, note: str = "") -> Any:
    """Accuracy at equal epsilon by method, one panel for each promise; a dot for each seed.

    Parameters
    ----------
    axes : two Axes
    runs : DataFrame
        Columns method, sampling, epsilon, accuracy.
    note : str
        A remark in the first panel.
    """
    epsilons = sorted(runs["epsilon"].unique())
    for ax, (sampling, title) in zip(panels(axes), PROMISES.items(), strict=True):
        part = runs[runs["sampling"] == sampling]
        for method in METHODS:
            rows = part[part["method"] == method]
            if rows.empty:
                continue
            label, color, marker = METHODS[method]
            at = [epsilons.index(e) for e in rows["epsilon"]]
            ax.plot(
                at, rows["accuracy"], marker, color=color, alpha=0.5, markersize=5,
                markeredgewidth=0,
            )  # fmt: skip
            mean = rows.groupby("epsilon")["accuracy"].mean().reindex(epsilons)
            ax.plot(range(len(epsilons)), mean, color=color, label=label)
        ax.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
        ax.set(ylim=(0.15, 1.0), xlabel="ε", xlim=(-0.2, len(epsilons) - 0.8))
        ax.set_title(title)
        label_lines(ax, x_offset=8)
    first = panels(axes)[0]
    first.text(0.98, 0.03, note, transform=first.transAxes, ha="right", fontsize=10)
    first.set_ylabel("accuracy")
    first.figure.suptitle(
        "At equal ε, sums alone beat noised identifiers", x=0.01, ha="left", fontsize=12
    )
    return axes


def plot_results(axes: Any, accuracy: pd.DataFrame, paired: pd.DataFrame) -> Any:
    """The committed tables: accuracy with intervals, and differences paired by partition.

    Parameters
    ----------
    axes : two Axes
    accuracy : DataFrame
        Rows of ``rr_accuracy``, one for each method and epsilon: method, epsilon, acc_mean, ci95.
    paired : DataFrame
        Columns label, epsilon, diff_mean, ci95; one row of marks for each label.
    """
    left, right = panels(axes)
    epsilons = sorted(accuracy["epsilon"].unique())
    for i, (method, part) in enumerate(accuracy.groupby("method", sort=False)):
        label, color, marker = METHODS[str(method)]
        at = np.array([epsilons.index(e) for e in part["epsilon"]]) + 0.05 * (i - 2)
        left.errorbar(
            at, 100 * part["acc_mean"], 100 * part["ci95"], fmt=marker + "-", color=color,
            label=label, markersize=6, elinewidth=1.4, markeredgecolor="white",
        )  # fmt: skip
    left.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
    left.set(xlabel="ε", ylabel="accuracy, %")
    left.legend(loc="lower right", fontsize=9)
    left.set_title("RR-Cluster lies on DP-IFCA")
    labels = list(dict.fromkeys(paired["label"]))
    for height, label in zip(range(len(labels))[::-1], labels, strict=True):
        rows = paired[paired["label"] == label].sort_values("epsilon")
        for shift, mark, (_, row) in zip((0.22, 0, -0.22), "os^", rows.iterrows(), strict=False):
            low = row["diff_mean"] - row["ci95"]
            high = row["diff_mean"] + row["ci95"]
            color = GOOD if low > 0 else WRONG if high < 0 else MUTED
            right.errorbar(
                100 * row["diff_mean"], height + shift, xerr=100 * row["ci95"], fmt=mark,
                color=color, markeredgecolor="white", elinewidth=1.4, markersize=7,
            )  # fmt: skip
    right.axvline(0, color=DARK, linestyle="--", linewidth=1.2)
    right.set_yticks(range(len(labels))[::-1], labels)
    right.set(ylim=(-0.6, len(labels) - 0.4), xlabel="points of accuracy, paired by partition")
    right.set_title("What sums only gains (● ε = 2, ■ 4, ▲ 8)")
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
    axes : three Axes
    shares : shares of the smallest group (g,), and its accuracy (g, seeds) by threshold
    models : numbers of models (m,), accuracy (m, seeds)
    budgets : epsilons (e,), accuracy (e, seeds) by "sums_ifca" and "sums_ifca_reseed"
    """
    left, middle, right = panels(axes)
    x = 100 * np.asarray(shares[0])
    for (threshold, values), color, mark in zip(
        shares[1].items(), (GOOD, OTHER), "os", strict=False
    ):
        mean, low, high = mean_and_range(values)
        left.vlines(x, low, high, color=color, linewidth=1.2)
        left.plot(x, mean, mark + "-", color=color, label=f"threshold {threshold:g}")
    left.set(ylim=(0, 1), xlabel="smallest group, % of the clients", xticks=x)
    left.set_ylabel("accuracy of that group")
    left.set_title("The smallest groups need luck")
    left.legend(loc="lower right")
    k, values = np.asarray(models[0]), np.asarray(models[1])
    mean, low, high = mean_and_range(values)
    middle.vlines(k, low, high, color=PURPLE, linewidth=1.2)
    middle.plot(k, mean, "D-", color=PURPLE)
    middle.axvline(4, color=DARK, linestyle="--", linewidth=1.2)
    middle.text(4.1, 0.05, "truth", fontsize=10)
    middle.set(ylim=(0, 1), xlabel="number of models k", xticks=k, ylabel="accuracy")
    middle.set_title("Too few cost, spare ones don't")
    epsilons = np.asarray(budgets[0])
    for method, array in budgets[1].items():
        label, color, marker = METHODS[method]
        mean, low, high = mean_and_range(array)
        right.vlines(epsilons, low, high, color=color, linewidth=1.2)
        right.plot(epsilons, mean, marker + "-", color=color, label=label)
    right.set(xscale="log", ylim=(0, 1), xlabel="ε (log)", ylabel="accuracy")
    plain_ticks(right, epsilons)
    right.legend(loc="lower right")
    right.set_title("Re-seeding helps to ε = 0.5")
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
    axes : three Axes
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
    title : str
    """
    left, middle, right = panels(axes)
    left.plot(sigmas, wrong, color=GOOD)
    at = max(sigma, float(np.asarray(sigmas)[0]))
    left.plot(at, flip_rate, "o", color=WRONG, markersize=11, markeredgecolor="white")
    left.set(xscale="log", ylim=(-0.03, 0.82), xlabel="identifier noise σ (log)")
    plain_ticks(left, [0.2, 0.5, 1, 2, 5, 10])
    left.set_title(f"1  {flip_rate:.0%} of identifiers wrong")
    k = len(np.asarray(next(iter(sizes.values()))))
    for shift, (name, values), color in zip((-0.2, 0.2), sizes.items(), (PALE, GOOD), strict=True):
        ordered = np.sort(np.asarray(values))[::-1]
        middle.bar(np.arange(k) + shift, ordered, 0.38, color=color, label=name)
    middle.axhline(min_size, color=DARK, linestyle="--", linewidth=1.2)
    middle.set(xticks=range(k), xlabel="cluster, largest first (dashed: B)")
    middle.legend(loc="upper right")
    middle.set_title("2  clients per round")
    b, low, high = (np.asarray(v) for v in curve)
    right.fill_between(b, low, high, color=GOOD, alpha=0.25, linewidth=0)
    right.plot(b, (low + high) / 2, "-", color=GOOD)
    right.plot(min_size, accuracy, "o", color=WRONG, markersize=11, markeredgecolor="white")
    right.set(ylim=(0, 1), xlabel="threshold B", xticks=b)
    right.set_title(f"3  accuracy {accuracy:.2f}")
    left.figure.suptitle(title, x=0.01, ha="left")
    return axes
