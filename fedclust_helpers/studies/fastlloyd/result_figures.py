"""Figures of notebook 01, sections 15 to 17: the committed tables, and where FastLloyd breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.plots import (
    by,
    curves,
    finish,
    legend_below,
    panels,
    spread,
    ticks,
)
from fedclust_helpers.studies.bench.style import BLUE, DARK, GREY, LOOKS, ORANGE, RED, THEORY, Look

METHODS = {
    "sulloyd": Look("SuLloyd", RED, "^-"),
    "glloyd": Look("GLloyd", ORANGE, "s-"),
    "fastlloyd": Look("FastLloyd", BLUE, "o-"),
}
LLOYD = Look("Lloyd, no noise", DARK, "--")
METRICS = {
    "silhouette": "silhouette\n(higher is better)",
    "davies_bouldin": "Davies-Bouldin\n(lower is better)",
    "centroid_mse": "centroid error\n(log, lower is better)",
}


def _over_epsilon(ax: Axes, cells: pd.DataFrame, value: str, *, bars: bool = True) -> None:
    """One line per method over epsilon, intervals if wanted, and dashes at Lloyd without noise."""
    lines = by(cells, "method", "epsilon", value)
    lines = {method: lines[method] for method in METHODS if method in lines}
    half = by(cells, "method", "epsilon", "ci95") if bars else None
    curves(ax, None, lines, METHODS, errors=half, interval="bars", markersize=4.5)
    exact = cells.loc[cells["method"] == "lloyd", value]
    if len(exact):
        ax.axhline(
            float(exact.iloc[0]), color=DARK, linestyle="--", linewidth=1.2, label=LLOYD.label
        )
    ax.set_xticks([0.1, 0.5, 1.0])


def plot_nicv(axes: Any, table: pd.DataFrame) -> Any:
    """Figure 2 of the paper: mean NICV against epsilon, one panel per data set.

    `table` holds rows of ``fastlloyd_nicv`` with one start variant. Baselines with folding are
    thin dotted lines. Panels without data are hidden.
    """
    folded = {
        f"{name}_fold": look._replace(label=f"{look.label} with fold", style=":")
        for name, look in METHODS.items()
    }
    sets = list(table.groupby("dataset", sort=False))
    for ax, (name, cells) in zip(panels(axes), sets, strict=False):
        thin = by(cells[cells["method"].isin(folded)], "method", "epsilon", "nicv_mean")
        curves(ax, None, thin, folded, linewidth=0.9)
        _over_epsilon(ax, cells, "nicv_mean")
        first = cells.iloc[0]
        low = 0.8 * float(cells["nicv_mean"].min())
        high = 1.8 * float(cells.loc[cells["method"] != "optimum", "nicv_median"].max())
        finish(ax, "", "ε", yscale="log", ylim=(low, high))
        ax.yaxis.set_minor_formatter("")
        n, d, k = first[["n", "d", "k"]]
        ax.set_title(f"{name}: N {n}, d {d}, k {k}", fontsize=10)
    for ax in panels(axes)[::4]:
        ax.set_ylabel("NICV (log)")
    for ax in panels(axes)[len(sets) :]:
        ax.set_visible(False)
    legend_below(axes)
    return axes


def plot_scaling(axes: Any, table: pd.DataFrame) -> Any:
    """Figures 3a, 3b, 4 of the paper: median area under NICV over epsilon, relative to SuLloyd."""
    value, figure = "relative_to_sulloyd_median", table["figure"].astype(str)
    looks = METHODS | {"lloyd": LLOYD}
    for ax, number, column, label in (
        (axes[0], "3a", "d", "dimension d, G2"),
        (axes[1], "3b", "k", "clusters k, Synth-K"),
    ):
        part = table[figure == number]
        lines = by(part, "method", column, value)
        shown = {name: lines[name] for name in ("lloyd", "glloyd", "fastlloyd")}
        curves(ax, None, shown, looks, markersize=4.5)
        ax.axhline(1, **THEORY)
        at = np.unique(part[column])
        at = at[:: 3 if len(at) > 8 else 2]
        finish(ax, f"Fig. {number}", label, log="x", ylim=(0, 1.12), xticks=at)
    axes[0].set_ylabel("area relative to SuLloyd (= 1)")
    axes[1].legend(loc="lower left")
    part = table[(figure == "4") & (table["method"] == "fastlloyd")]
    grid, ax = 100 * (1 - part.pivot_table(index="k", columns="d", values=value)), axes[2]
    ax.imshow(grid, cmap="cividis", vmin=0, vmax=100, aspect="auto", origin="lower")
    for (i, j), number in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(number):
            color = "black" if number > 55 else "white"
            ax.text(j, i, f"{number:.0f}", ha="center", va="center", fontsize=8, color=color)
    ax.set_xticks(range(len(grid.columns)), grid.columns, fontsize=8)
    ax.set_yticks(range(len(grid.index)), grid.index)
    finish(ax, "Fig. 4: % less area", "dimension d", "clusters k")
    return axes


def plot_ablation(ax: Axes, table: pd.DataFrame) -> Axes:
    """Figure 5 of the paper: NICV against alpha, relative to GLloyd; steps cut to the radius."""
    fast = table[(table["method"] == "fastlloyd") & table["clip_step"].eq(True)]
    for strategy, dash in (("step", "-"), ("constant", ":")):
        part = by(fast[fast["strategy"] == strategy], "postprocess", "alpha", "normalised")
        looks = {
            name: Look(name if dash == "-" else f"_{name}", look.color, look.style[0] + dash)
            for name, look in zip(("fold", "truncate", "none"), LOOKS, strict=False)
        }
        curves(ax, None, {name: part[name] for name in looks}, looks, markersize=4)
    ax.axhline(1, **THEORY)
    ax.axvline(0.8, color=GREY, linewidth=1, linestyle="--")
    finish(ax, "Fig. 5 (dashes: α = 0.8)", "α", "NICV relative to GLloyd")
    ax.legend(title="— Step, ··· Constant", fontsize=9, title_fontsize=9, loc="upper center")
    return ax


def plot_metrics(
    axes: Any, table: pd.DataFrame, names: Sequence[str] = ("iris", "s1", "adult", "mnist")
) -> Any:
    """Figures 6 to 8 of the paper: three other scores, one row each, one column per data set.

    `table` is ``fastlloyd_metrics``; data sets of `names` that it lacks are replaced by others.
    """
    there = list(dict.fromkeys(table["dataset"]))
    chosen = [n for n in names if n in there] + [n for n in there if n not in names]
    grid = np.asarray(axes, dtype=object)
    for row, (metric, label) in zip(grid, METRICS.items(), strict=True):
        for ax, name in zip(row, chosen, strict=False):
            cells = table[(table["dataset"] == name) & (table["metric"] == metric)]
            _over_epsilon(ax, cells, "median", bars=False)
        row[0].set_ylabel(label, fontsize=9)
    for top, bottom, name in zip(grid[0], grid[2], chosen, strict=False):
        finish(top, name)
        finish(bottom, "", "ε", yscale="log")
        bottom.yaxis.set_minor_formatter("")
    legend_below(axes)
    return axes


def plot_breaks(
    axes: Any,
    by_size: tuple[ArrayLike, ArrayLike],
    by_dimension: tuple[ArrayLike, ArrayLike],
    by_tail: tuple[ArrayLike, ArrayLike],
) -> Any:
    """Three limits: costs of privacy and of the start against N and d, ignored records.

    Parameters
    ----------
    by_size, by_dimension : pair of array_like of shape (m,) and (m, 2, n_sets)
        Positions, and for each of them the factors by which privacy (0) and the start (1) raise
        the cost of each data set. Drawn as medians with bands from 10 to 90 %.
    by_tail : pair of array_like of shape (m,)
        Degrees of freedom, share of ignored records.
    """
    looks = {"privacy": Look("privacy", BLUE), "start": Look("start", "#717581", "s--")}
    quantiles, ends = (0.1, 0.5, 0.9), [1.0]
    for ax, (x, factors), label in zip(
        axes, (by_size, by_dimension), ("records N", "columns d"), strict=False
    ):
        ax.axhline(1, **THEORY)
        pair = dict(zip(looks, np.moveaxis(np.asarray(factors, dtype=float), 1, 0), strict=True))
        curves(ax, x, pair, looks, quantiles=quantiles)
        finish(ax, "", label, log="xy", xticks=x)
        ticks(ax, [0.5, 1, 2, 5, 10, 20, 50], "y")
        ends.extend(spread(factors, quantiles).ravel())
    for ax in axes[:2]:
        ax.set_ylim(0.9 * min(ends), 1.2 * max(ends))
    axes[0].set_ylabel("factor on NICV (log)")
    axes[0].legend(title="cost of", loc="upper right")
    tails, at = np.asarray(by_tail[0]), np.arange(np.size(by_tail[0]))
    axes[2].bar(at, 100 * np.asarray(by_tail[1]), color=BLUE, width=0.6)
    axes[2].set_xticks(at, [f"{t:g}" for t in tails])
    finish(axes[2], "", "degrees of freedom (1: Cauchy)", "% of records ignored")
    return axes
