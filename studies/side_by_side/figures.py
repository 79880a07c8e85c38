"""Figures of notebook 05. Each draws numbers that are given to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def percent(ax: Axes) -> Axes:
    """Ticks of an excess cost: 1 is 100 %; what lies below the lowest is drawn there."""
    floor = SMALLEST * (1 + 1e-9)
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda v, _: "≤ " * bool(v <= floor) + f"{100 * v:g} %")
    )
    return ax


PRICED = (
    ("masked", "overclustered"), ("shuffled", "sketch"), ("local", "sketch"), ("local", "alg1"),
)  # fmt: skip
"""What less trust costs: the lines of the four panels."""


def plot_excess(axes: Any, table: pd.DataFrame, n: int = 100_000) -> Any:
    """Median excess cost over n, epsilon, d and k, a panel each, and the limit of a sum, dotted.

    What is not turned is n records, d = 2, k = 5, epsilon 1.
    """
    base: dict[str, float] = {"n": n, "epsilon": 1.0, "d": 2, "k": 5}
    labels = {"n": "records n", "epsilon": "ε", "d": "columns d", "k": "clusters k"}
    for ax, (x, label) in zip(plots.panels(axes), labels.items(), strict=True):
        where: dict[str, Any] = {"data": "mixture"} | {c: v for c, v in base.items() if c != x}
        lines = {key: curve(table, *key, x, value="median", **where) - 1 for key in PRICED}
        lines = {key: line.clip(lower=SMALLEST) for key, line in lines.items()}
        plots.curves(ax, None, lines, {key: LOOKS[key] for key in lines}, markersize=5)
        limit = curve(table, *PRICED[0], x, value="known", **where)
        ax.plot(limit.index, limit, ":", color=DARK, label="best possible sum, groups known")
        ax.axhline(0.05, **DASHED)
        first, *_, last = (float(f"{100 * v:.2g}") for v in lines["local", "sketch"])
        title = f"{label}: local sketch {first:,g} % to {last:,g} %"
        ticks = sorted({v for line in lines.values() for v in line.index})
        plots.finish(ax, title, label, "cost above the best", log="xy", yticks=LEVELS,
                     xticks=ticks if len(ticks) <= 5 else None,
                     ylim=(SMALLEST / 2.5, 40))  # fmt: skip
        percent(ax)
    plots.legend_below(axes, columns=2)
    return axes


def plot_copy(ax: Axes, points: ArrayLike, copy: ArrayLike, counts: ArrayLike,
              centers: ArrayLike) -> Axes:  # fmt: skip
    """Two columns of the points, a copy with its noised counts as areas, and centres."""
    copy, counts = np.asarray(copy), np.asarray(counts)
    plots.cloud(ax, np.asarray(points)[:, :2], label="records")
    area = 250 * counts / counts.max()
    ax.scatter(copy[:, 0], copy[:, 1], area, color="none", edgecolors=DARK, linewidths=1.5,
               label="copy (area: noised count)", zorder=3)  # fmt: skip
    plots.centers(ax, np.asarray(centers)[:, :2], BLUE, label="centres")
    plots.finish(ax, f"{len(copy)} centres with counts become {len(np.asarray(centers))}")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


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


def plot_over_best(ax: Axes, over: pd.DataFrame) -> Axes:
    """Median cost over the best at epsilon 1 of rivals and of ours, a row for each set."""
    looks = {
        "diffprivlib": Look(" (δ = 0)", MUTED, "x"), "sulloyd": Look(" (δ = 0)", MUTED, "d"),
        "google_lsh": Look("", RED, "^"), "pe_means": Look("", ORANGE, "v"),
        "fastlloyd": Look("", BLUE, "s"), "overclustered": Look("", BLUE, "o"),
    }  # fmt: skip
    y = np.arange(len(over))[::-1]
    for name, (pure, color, marker) in looks.items():
        face, size = ("white", 6) if name == "fastlloyd" else (color, 6)
        if name == "pe_means":  # often as good as ours: open, around our mark
            face, size = "none", 11
        ax.plot(over[name], y, marker, color=color, markerfacecolor=face, markersize=size,
                label=NAMES[name] + pure)  # fmt: skip
    short = [re.sub(r"^mixture_.*", "mixture", name) for name in over.index]
    ax.set_yticks(y, [f"{name} (n / k = {row:,.0f}, d = {d})" for name, row, d in
                      zip(short, over["n / k"], over["d"], strict=True)])  # fmt: skip
    ax.axvline(1, **DASHED)
    lowest = (over["overclustered"] <= over[list(looks)].min(axis=1)).sum()
    title = f"ε = 1: over-clustered sums are lowest on {lowest} of {len(over)} sets"
    plots.finish(ax, title, "median cost over the best", log="x", xticks=[1, 2, 5, 10, 20])
    plots.legend_below(ax, columns=3)
    return ax


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
