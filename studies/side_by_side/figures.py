"""Figures of notebook 05. Each draws numbers that are given to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from studies.bench import plots, style
from studies.bench.style import BLUE, DARK, DASHED, MUTED, ORANGE, RED, Look
from studies.side_by_side.reading import curve

LOCAL, SHUFFLED = style.TRUST["local"], style.TRUST["shuffled"]
LOOKS: Mapping[tuple[str, str], Look] = {
    ("masked", "overclustered"): Look("masked, over-clustered", BLUE, "o-"),
    ("masked", "fastlloyd"): Look("masked, FastLloyd", BLUE, "s--"),
    ("ideal", "feddp"): Look("secure sum, FedDP-KMeans", BLUE, "D-."),
    ("shuffled", "sketch"): Look("shuffled, sketch", SHUFFLED, "h-."),
    ("local", "sketch"): Look("local, sketch", LOCAL, "v-"),
    ("local", "alg1"): Look("local, Algorithm 1", LOCAL, "^--"),
    ("local", "ldp_lloyd"): Look("local, LDP-Lloyd", LOCAL, "P:"),
    ("none", "public_rows"): Look("public rows only", DARK, "X:"),
}
"""How each trust model and algorithm is drawn, in all figures."""
NAMES = {
    "fastlloyd": "FastLloyd", "overclustered": "over-clustered", "feddp": "FedDP-KMeans",
    "sulloyd": "SuLloyd", "alg1": "Algorithm 1", "alg4": "Algorithm 4", "sketch": "sketch",
    "ldp_lloyd": "LDP-Lloyd", "public_rows": "k-means on public rows",
    "diffprivlib": "diffprivlib", "google_lsh": "Google's LSH", "pe_means": "PE-means",
}  # fmt: skip
"""Names of the algorithms in text."""
SMALLEST = 1e-4
"""Excess below which a cost is the best cost, for logarithmic axes."""
LEVELS = [1e-4, 0.001, 0.01, 0.1, 1, 10]
SETS = {"s1": "S1", "adult": "adult", "digits": "digits"}


def percent(ax: Axes) -> Axes:
    """Ticks of an excess cost: 1 is 100 %; what lies below the lowest is drawn there."""
    floor = SMALLEST * (1 + 1e-9)
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda v, _: "≤ " * bool(v <= floor) + f"{100 * v:g} %")
    )
    return ax


def plot_conversion(ax: Axes, epsilons: ArrayLike, lines: Mapping[str, ArrayLike]) -> Axes:
    """Budget asked of a plan over epsilon for one replaced record, by kind of noise."""
    looks = dict(zip(lines, (
        Look("", LOCAL, "-"), Look("", BLUE, "--"), Look("", DARK, ":")
    ), strict=True))  # fmt: skip
    plots.curves(ax, epsilons, lines, looks)
    title = "One promise, three numbers to ask for"
    plots.finish(ax, title, "ε for one replaced record", "ε to ask of a plan", names="upper left")
    return ax


FOUR = ("overclustered", "fastlloyd", "sketch", "alg1")
"""Methods that most figures are about."""


def plot_maps(
    axes: Any, points: ArrayLike, found: Mapping[tuple[str, str], tuple[Any, float]],
    best: ArrayLike,
) -> None:  # fmt: skip
    """Released centres on the data, one panel for each run, crosses where the best ones lie."""
    each = plots.panels(axes)
    for ax, (key, (released, cost)) in zip(each, found.items(), strict=True):
        look = LOOKS[key]
        plots.cloud(ax, points)
        plots.centers(ax, released, look.color, look.style[0], size=75)
        plots.crosses(ax, best)
        plots.bare(ax).set_title(f"{look.label}\n{cost:.2f} times the best", fontsize=10)


def plot_excess(
    ax: Axes, table: pd.DataFrame, x: str, keys: Sequence[tuple[str, str]], title: str,
    label: str, *, level: float | None = 0.05, log: str = "xy", **where: Any,
) -> Axes:  # fmt: skip
    """Median excess cost over n, d, k or epsilon, one line for each trust model and algorithm.

    Bars are 95 % intervals of the mean.
    """
    lines = {}
    for trust, method in keys:
        values = curve(table, trust, method, x, value="median", **where)
        if len(values):
            lines[trust, method] = (values - 1).clip(lower=SMALLEST)
            mean, half = (curve(table, trust, method, x, value=v, **where)
                          for v in ("over_optimum", "ci95"))  # fmt: skip
            low, high = ((mean + side * half.fillna(0) - 1).clip(SMALLEST) for side in (-1, 1))
            ax.vlines(values.index, low, high, color=LOOKS[trust, method].color, linewidth=1)
    plots.curves(ax, None, lines, {key: LOOKS[key] for key in lines}, markersize=5)
    if level is not None:
        ax.axhline(level, **DASHED)
    at = sorted({v for line in lines.values() for v in line.index})
    plots.finish(ax, title, label, "cost above the best", log=log, yticks=LEVELS,
                 xticks=at if len(at) <= 5 else None, ylim=(SMALLEST / 2.5, 40))  # fmt: skip
    plots.legend_below(ax, columns=2)  # on a phone names at the right ends are out of sight
    return percent(ax)


PRICE: Mapping[tuple[str, str], Look] = {
    ("masked", "overclustered"): Look("trusted,\nsecure sum,\nmasked", BLUE, "o-"),
    ("serverless", "overclustered"): Look("serverless: dotted", DARK, "d:"),
    ("shuffled", "sketch"): Look("shuffled", SHUFFLED, "h-."),
    ("local", "sketch"): Look("local (sketch)", LOCAL, "v-"),
    ("local", "alg1"): Look("local (Algorithm 1)", LOCAL, "^--"),
}
"""Trust models on the front page, each with the better algorithm; local with the paper's too."""
PLACES = ((1e3, 2.8e-4), (1e3, 6.5e-5), (1.2e5, 8e-4), (1.5e4, 6.5e-3), (1.3e4, 2.8))
"""Where their names begin, inside the axes: the figure is also read on a phone."""


def plot_price(ax: Axes, table: pd.DataFrame, **where: Any) -> Axes:
    """The price of trust: median excess over the number of records, one line for a trust model."""
    lines = {key: curve(table, *key, "n", value="median", **where) - 1 for key in PRICE}
    lines = {key: line.clip(lower=SMALLEST) for key, line in lines.items() if len(line)}
    plots.curves(ax, None, lines, {key: PRICE[key] for key in lines}, markersize=5)
    ax.axhline(0.05, **DASHED)
    plots.note(ax, "5 %", (1e6, 0.05), (0, 8), ha="right")
    for place, look in zip(PLACES, PRICE.values(), strict=True):
        plots.note(ax, look.label, place)
    at = next(iter(lines.values())).index
    text = ("The price of trust is paid in records", "records n (ε = 1)", "cost above the best")
    plots.finish(ax, *text, log="xy", yticks=LEVELS, xticks=at[::2])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    ax.set_ylim(SMALLEST / 2.5, 20)
    return percent(ax)


def plot_sets(ax: Axes, table: pd.DataFrame, keys: Sequence[tuple[str, str]]) -> Axes:
    """Cost over the best on the real sets: one row for each algorithm, one mark for each set."""
    rows = [key for key in keys if len(curve(table, *key, "data"))]
    for number, (name, marker) in enumerate(zip(SETS, "osD", strict=True)):
        x = [curve(table, *key, "data").get(name, np.nan) for key in rows]
        color, y = (BLUE, DARK, ORANGE)[number], np.arange(len(rows))[::-1] + 0.24 * (1 - number)
        ax.plot(x, y, marker, color=color, label=SETS[name], markersize=7)
    ax.set_yticks(np.arange(len(rows))[::-1], [LOOKS[key].label for key in rows])
    for between in range(1, len(rows)):
        ax.axhline(between - 0.5, color=style.PALE, linewidth=0.6)
    ax.axvline(1, **DASHED)
    title = "Few records, many clusters or columns: nothing local works"
    return plots.finish(ax, title, "cost over the best", log="x", xticks=[1, 2, 5, 10, 20],
                        names="upper right")  # fmt: skip


def plot_wire(ax: Axes, table: pd.DataFrame, keys: Sequence[tuple[str, str]]) -> Axes:
    """Bytes that a client sends in a run against the excess cost."""
    by = table.set_index(["trust", "method"])
    for key in keys:
        if key not in by.index:
            continue
        row: Any = by.loc[key]
        look = LOOKS[key]
        at = (row["bytes"], max(row["over_optimum"] - 1, SMALLEST))
        ax.plot(*at, look.style[0], color=look.color, markersize=9)
        left = row["bytes"] > 10_000
        plots.note(ax, look.label, at, (-9 if left else 9, 0), ha="right" if left else "left")
    title = "A byte from each of many, or kilobytes from a few"
    title += "\n(n = 100,000, d = 2, k = 5, ε = 1)"
    plots.finish(ax, title, "bytes that one client sends", "cost above the best", log="xy",
                 yticks=LEVELS, xlim=(0.5, 3e5), ylim=(SMALLEST / 1.5, 40))  # fmt: skip
    return percent(ax)


def plot_rivals(axes: Any, ratios: Mapping[str, pd.DataFrame], names: Mapping[str, str]) -> None:
    """Our cost over a rival's by data set and epsilon, with intervals; a panel for each rival."""
    for number, (ax, (rival, frame)) in enumerate(
        zip(plots.panels(axes), ratios.items(), strict=True)
    ):
        frame = frame.reset_index()
        sets = list(dict.fromkeys(frame["dataset"]))
        places = {name: len(sets) - 1 - i for i, name in enumerate(sets)}
        for shift, (epsilon, marker) in enumerate(zip((0.25, 0.5, 1.0), "osD", strict=True)):
            part = frame[frame["epsilon"] == epsilon]
            y = part["dataset"].map(places) + 0.22 * (1 - shift)
            color = (BLUE, DARK, ORANGE)[shift]
            low, high = part["ratio"] - part["half"], part["ratio"] + part["half"]
            ax.hlines(y, low.clip(lower=1e-3), high, color=color, linewidth=1.2)
            ax.plot(part["ratio"], y, marker, color=color, markersize=5, label=f"ε = {epsilon:g}")
        ax.set_yticks(list(places.values()), list(places))
        ax.axvline(1, **DASHED)
        where = "lower left" * (number == 0)
        title = f"FastLloyd over {names[rival]}"
        plots.finish(ax, title, "our cost over theirs", log="x", xlim=(0.04, 4),
                     xticks=[0.05, 0.1, 0.2, 0.5, 1, 2], names=where)  # fmt: skip


def plot_split(ax: Axes, table: pd.DataFrame, formula: Callable[[int], float]) -> Axes:
    """What the mechanisms of a run add up to, over what was asked, by the number of columns."""
    d = np.arange(1, 70)
    ax.plot(d, [formula(int(each)) for each in d], color=MUTED, linewidth=1.3)
    ax.plot(table["d"], table["spent"], "o", color=RED, markersize=7)
    ax.axhline(1, **DASHED)
    plots.note(ax, "asked for", (60, 1), (0, -9))
    plots.note(ax, "exchanged shares, by formula", (42, formula(42)), (12, -14))
    at = (32, float(table.set_index("d")["spent"][32]))
    plots.note(ax, "given to the mechanisms", at, (-10, 8), ha="right")
    title = "From five columns on, the shares add up to more than ε"
    return plots.finish(ax, title, "columns d", "given over asked")


def plot_models(
    ax: Axes, lines: Mapping[str, pd.Series], errors: Mapping[str, Any], alone: float
) -> Axes:
    """Accuracy over epsilon of methods that cluster models, and of a client that trains alone."""
    marks = zip(lines, ("o-", "s--", "^-.", "D:"), (BLUE, DARK, ORANGE, LOCAL), strict=False)
    looks = {name: Look(name, color, mark) for name, mark, color in marks}
    plots.curves(ax, None, lines, looks, errors=errors, interval="bars")
    ax.axhline(alone, **DASHED)
    plots.note(ax, "each client alone", (8, alone), (0, 7), ha="right")
    title = "Models: only noised sums pass\nthe client that trains alone"
    return plots.finish(ax, title, "ε (one client replaced)", "accuracy", log="x", xticks=[2, 4, 8],
                        names="lower right")  # fmt: skip


def plot_dials(ax: Axes, costs: Mapping[tuple[str, str], float], title: str) -> Axes:
    """Cost over the best of several runs on one data set."""
    y = np.arange(len(costs))[::-1]
    for place, (key, cost) in zip(y, costs.items(), strict=True):
        look = LOOKS[key]
        ax.hlines(place, 1, cost, color=look.color, linewidth=2)
        ax.plot(cost, place, look.style[0], color=look.color, markersize=8)
        ax.annotate(f"{cost:.2f}", (cost, place), xytext=(9, 0), textcoords="offset points",
                    va="center", fontsize=10)  # fmt: skip
    ax.set_yticks(y, [LOOKS[key].label for key in costs])
    top = max(10.0, 2 * max(costs.values()))
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500) if t <= top]
    return plots.finish(ax, title, "cost over the best", log="x", xticks=ticks, xlim=(0.9, top))
