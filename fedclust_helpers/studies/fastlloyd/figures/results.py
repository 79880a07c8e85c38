"""Figures and tables of notebook 01, sections 15 to 17: result tables, claims, where it breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import COLORS, MARKERS
from fedclust_helpers.studies.fastlloyd.figures._common import CYCLE, MARKS, THEORY, plain_ticks

NAMES = {"sulloyd": "SuLloyd", "glloyd": "GLloyd", "fastlloyd": "FastLloyd"}
METRICS = {
    "silhouette": "silhouette (higher is better)",
    "davies_bouldin": "Davies-Bouldin (lower is better)",
    "centroid_mse": "centroid error (log, lower is better)",
}


def _data_names(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["dataset"]))


def _curves(
    ax: Axes, cells: pd.DataFrame, value: str, methods: Mapping[str, str], *, bars: bool = True
) -> None:
    """One line per method over epsilon, and dashes at Lloyd without noise."""
    for method, name in methods.items():
        part = cells[cells["method"] == method].sort_values("epsilon")
        if part.empty:
            continue
        x, y, spread = (part[c].to_numpy() for c in ("epsilon", value, "ci95"))
        ax.plot(x, y, color=COLORS[method], marker=MARKERS[method], label=name, markersize=4.5)
        if bars:
            ax.vlines(x, y - spread, y + spread, color=COLORS[method], linewidth=1)
    exact = cells[cells["method"] == "lloyd"]
    if len(exact):
        ax.axhline(
            float(exact[value].iloc[0]), color=COLORS["lloyd"], linestyle="--", linewidth=1.2,
            label="Lloyd, no noise",
        )  # fmt: skip


def _flat(axes: Any) -> list[Axes]:
    return list(np.ravel(np.asarray(axes, dtype=object)))


def _finish_panels(panels: list[Axes], used: int) -> None:
    """Hide the panels without data, and put one legend under the figure."""
    for ax in panels[used:]:
        ax.set_visible(False)
    handles, names = panels[0].get_legend_handles_labels()
    panels[0].figure.legend(handles, names, loc="outside lower center", ncols=4)


def plot_nicv(axes: Any, table: pd.DataFrame) -> Any:
    """Figure 2 of the paper: mean NICV against epsilon, one panel per data set.

    Parameters
    ----------
    axes : array of Axes, at least one for each data set
    table : DataFrame
        Rows of ``fastlloyd_nicv`` with one start variant. Baselines with folding are thin lines.
    """
    panels = _flat(axes)
    names = _data_names(table)
    for ax, name in zip(panels, names, strict=False):
        cells = table[table["dataset"] == name]
        for method in ("sulloyd_fold", "glloyd_fold"):
            part = cells[cells["method"] == method].sort_values("epsilon")
            plain = method.removesuffix("_fold")
            ax.plot(
                part["epsilon"], part["nicv_mean"], color=COLORS[plain], linewidth=0.9,
                linestyle=":", label=f"{NAMES[plain]} with fold",
            )  # fmt: skip
        _curves(ax, cells, "nicv_mean", NAMES)
        first = cells.iloc[0]
        low = 0.8 * float(cells["nicv_mean"].min())
        high = 1.8 * float(cells.loc[cells["method"] != "optimum", "nicv_median"].max())
        ax.set(yscale="log", xticks=[0.1, 0.5, 1.0], ylim=(low, high))
        ax.yaxis.set_minor_formatter("")
        ax.set_title(f"{name}: N {first['n']}, d {first['d']}, k {first['k']}", fontsize=10)
        ax.set_xlabel("ε")
    for ax in panels[::4]:
        ax.set_ylabel("NICV (log scale)")
    _finish_panels(panels, len(names))
    return axes


def plot_scaling(axes: Sequence[Axes], table: pd.DataFrame) -> Sequence[Axes]:
    """Figures 3a, 3b, 4 of the paper: median area under NICV over epsilon, relative to SuLloyd."""
    labels = {"3a": ("d", "dimension d, G2 (log)"), "3b": ("k", "clusters k, Synth-K (log)")}
    for ax, (figure, (column, label)) in zip(axes, labels.items(), strict=False):
        part = table[table["figure"].astype(str) == figure]
        for method in ("lloyd", "glloyd", "fastlloyd"):
            line = part[part["method"] == method].sort_values(column)
            ax.plot(
                line[column], line["relative_to_sulloyd_median"], color=COLORS[method],
                marker=MARKERS[method], linestyle="--" if method == "lloyd" else "-",
                label={"lloyd": "Lloyd, no noise"}.get(method, NAMES.get(method)), markersize=4.5,
            )  # fmt: skip
        ax.axhline(1, **THEORY)
        ax.set(xscale="log", ylim=(0, 1.12), xlabel=label)
        ticks = np.unique(part[column])
        plain_ticks(ax, ticks[:: 3 if len(ticks) > 8 else 2])
    axes[0].set_ylabel("area relative to SuLloyd (= 1)")
    axes[1].legend(loc="lower left")
    part = table[(table["figure"].astype(str) == "4") & (table["method"] == "fastlloyd")]
    grid = 100 * (1 - part.pivot_table(index="k", columns="d", values="relative_to_sulloyd_median"))
    ax = axes[2]
    ax.imshow(grid.to_numpy(), cmap="cividis", vmin=0, vmax=100, aspect="auto", origin="lower")
    for (i, j), value in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(value):
            ax.text(
                j, i, f"{value:.0f}", ha="center", va="center", fontsize=8,
                color="black" if value > 55 else "white",
            )  # fmt: skip
    ax.set(
        xticks=range(len(grid.columns)), xticklabels=list(grid.columns), xlabel="dimension d",
        yticks=range(len(grid.index)), yticklabels=list(grid.index), ylabel="clusters k",
    )  # fmt: skip
    ax.tick_params(axis="x", labelsize=8)
    for panel, title in zip(axes, ("Fig. 3a", "Fig. 3b", "Fig. 4: % less area"), strict=False):
        panel.set_title(title, fontsize=11)
    return axes


def plot_ablation(ax: Axes, table: pd.DataFrame) -> Axes:
    """Figure 5 of the paper: NICV against alpha, relative to GLloyd; steps cut to the radius."""
    fast = table[(table["method"] == "fastlloyd") & table["clip_step"].eq(True)]
    dashes = {"step": "-", "constant": ":"}
    for post, color, mark in zip(("fold", "truncate", "none"), CYCLE, MARKS, strict=False):
        for strategy, dash in dashes.items():
            line = fast[(fast["postprocess"] == post) & (fast["strategy"] == strategy)]
            line = line.sort_values("alpha")
            ax.plot(
                line["alpha"], line["normalised"], color=color, linestyle=dash, marker=mark,
                markersize=4, label=post if strategy == "step" else f"_{post}",
            )  # fmt: skip
    ax.axhline(1, **THEORY)
    ax.axvline(0.8, color="#9c9ca1", linewidth=1, linestyle="--")
    ax.set(xlabel="α", ylabel="NICV relative to GLloyd")
    ax.legend(title="— Step, ··· Constant", fontsize=9, title_fontsize=9, loc="upper center")
    ax.set_title("Fig. 5 (dashes: α = 0.8)", fontsize=11)
    return ax


def plot_metrics(
    axes: Any, table: pd.DataFrame, names: Sequence[str] = ("iris", "s1", "adult", "mnist")
) -> Any:
    """Figures 6 to 8 of the paper: three other scores, one row each, one column per data set.

    Parameters
    ----------
    axes : array of Axes of shape (3, number of data sets)
    table : DataFrame
        ``fastlloyd_metrics``.
    names : sequence of str
        Data sets to draw; those that are not in the table are replaced by others.
    """
    panels = np.asarray(axes, dtype=object)
    there = _data_names(table)
    chosen = [n for n in names if n in there] + [n for n in there if n not in names]
    for row, (metric, label) in zip(panels, METRICS.items(), strict=True):
        for ax, name in zip(row, chosen, strict=False):
            cells = table[(table["dataset"] == name) & (table["metric"] == metric)]
            _curves(ax, cells, "median", NAMES, bars=False)
            ax.set(xticks=[0.1, 0.5, 1.0])
            if metric == "centroid_mse":
                ax.set_yscale("log")
                ax.yaxis.set_minor_formatter("")
                ax.set_xlabel("ε")
            if metric == "silhouette":
                ax.set_title(name, fontsize=11)
        row[0].set_ylabel(label.replace(" (", "\n("), fontsize=9)
    _finish_panels(_flat(axes), panels.size)
    return axes


def plot_breaks(
    axes: Sequence[Axes],
    by_size: tuple[ArrayLike, ArrayLike],
    by_dimension: tuple[ArrayLike, ArrayLike],
    by_tail: tuple[ArrayLike, ArrayLike],
) -> Sequence[Axes]:
    """Three limits: costs of privacy and of the start against N and d, ignored records.

    Parameters
    ----------
    axes : three Axes
    by_size, by_dimension : pair of array_like of shape (m,) and (m, 2, n_sets)
        Positions, and for each of them the factors by which privacy (0) and the start (1) raise
        the cost of each data set. Drawn as medians with bands from 10 to 90 %.
    by_tail : pair of array_like of shape (m,)
        Degrees of freedom, share of ignored records.
    """
    styles = (
        ("privacy", COLORS["fastlloyd"], "o", "-"),
        ("start", "#717581", "s", "--"),
    )
    tops: list[float] = []
    bottoms: list[float] = []
    for ax, (x, factors), label in zip(
        axes, (by_size, by_dimension), ("records N (log)", "columns d (log)"), strict=False
    ):
        ax.axhline(1, **THEORY)
        low, middle, high = np.quantile(np.asarray(factors, dtype=float), [0.1, 0.5, 0.9], axis=2)
        for i, (name, color, mark, dash) in enumerate(styles):
            ax.fill_between(x, low[:, i], high[:, i], color=color, alpha=0.2, linewidth=0)
            ax.plot(x, middle[:, i], marker=mark, linestyle=dash, color=color, label=name)
        ax.set(xscale="log", yscale="log", xlabel=label)
        plain_ticks(ax, x)
        plain_ticks(ax, [0.5, 1, 2, 5, 10, 20, 50], axis="y")
        tops.append(float(high.max()))
        bottoms.append(min(1.0, float(low.min())))
    for ax in axes[:2]:
        ax.set_ylim(0.9 * min(bottoms), 1.2 * max(tops))
    axes[0].set_ylabel("factor on NICV (log)")
    axes[0].legend(title="cost of", loc="upper right")
    ax = axes[2]
    tails, shares = np.asarray(by_tail[0]), 100 * np.asarray(by_tail[1])
    ax.bar(np.arange(len(tails)), shares, color=COLORS["fastlloyd"], width=0.6)
    ax.set(
        xticks=np.arange(len(tails)), xticklabels=[f"{t:g}" for t in tails],
        xlabel="degrees of freedom (1: Cauchy)", ylabel="% of records ignored",
    )  # fmt: skip
    return axes
