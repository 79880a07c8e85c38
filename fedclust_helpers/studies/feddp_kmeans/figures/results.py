"""Pictures of whole runs: comparisons, Pareto fronts, k, real data, limits; tables of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers import kmeans
from fedclust_helpers._validation import as_points, check_int
from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    DARK,
    INSIDE,
    METHODS,
    OUTSIDE,
    THEORY,
    mean_and_range,
    panels,
    plain_ticks,
)


def plot_comparison(ax: Axes, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess over the optimum of each method on each data set, one row per method, log scale."""
    y = np.arange(len(excess))[::-1]
    names = []
    for height, (method, values) in zip(y, excess.items(), strict=True):
        label, color, marker = METHODS[method]
        names.append(label)
        shown = np.maximum(np.asarray(values, dtype=np.float64), 1e-4)
        ax.plot(
            shown, np.full(len(shown), height), marker, color=color, markersize=9,
            markeredgecolor="white", linestyle="none",
        )  # fmt: skip
        ax.text(shown.max() * 1.3, height, f"{shown.mean():.2g}", va="center", fontsize=10)
    ax.set_yticks(y, names)
    ax.set(xscale="log", ylim=(-0.6, len(y) - 0.4))
    ax.set_xlabel("cost above the optimum, one mark per data set (log scale)")
    ax.set_xlim(right=ax.get_xlim()[1] * 2.2)
    return ax


def plot_excess(ax: Axes, epsilons: ArrayLike, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess over the optimum against total epsilon: mean and range over repetitions.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    excess : mapping of keys of `METHODS` to arrays of shape (m, repetitions)
    """
    epsilons = np.asarray(epsilons, dtype=np.float64)
    for method, values in excess.items():
        label, color, marker = METHODS[method]
        mean, low, high = mean_and_range(values)
        ax.fill_between(epsilons, low, high, color=color, alpha=0.2, linewidth=0)
        ax.plot(epsilons, mean, marker + "-", color=color, label=label)
    ax.set(xscale="log", yscale="log", xlabel="total ε (log scale)")
    ax.set_ylabel("cost above the optimum (log)")
    plain_ticks(ax, epsilons)
    return label_lines(ax, x_offset=8)


def pareto_front(epsilons: ArrayLike, costs: ArrayLike) -> NDArray[np.int64]:
    """Indices of the runs that no other run beats in both, by growing epsilon."""
    epsilons, costs = np.asarray(epsilons, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    order = np.lexsort((costs, epsilons))
    best = np.minimum.accumulate(costs[order])
    first = np.r_[True, best[1:] < best[:-1]]
    return order[first]


def plot_pareto(ax: Axes, runs: pd.DataFrame) -> Axes:
    """All runs as faint marks and the front of each method as a staircase.

    Parameters
    ----------
    runs : DataFrame
        Columns method, eps_total, excess.
    """
    right = 1.15 * float(runs["eps_total"].max())
    for method, part in runs.groupby("method", sort=False):
        label, color, marker = METHODS[str(method)]
        eps, cost = part["eps_total"].to_numpy(), part["excess"].to_numpy()
        ax.plot(eps, cost, marker, color=color, alpha=0.35, markersize=4.5)
        front = pareto_front(eps, cost)
        x, y = np.r_[eps[front], right], np.r_[cost[front], cost[front][-1]]
        ax.step(x, y, where="post", color=color, label=label)
    ax.set(xscale="log", yscale="log", xlabel="total ε (log scale)")
    ax.set_ylabel("cost above the optimum (log)")
    plain_ticks(ax, [0.2, 0.5, 1, 2])
    return label_lines(ax, x_offset=4)


def plot_cost_table(axes: Any, table: pd.DataFrame) -> Any:
    """The committed table: best mean excess over T against epsilon, one panel per setting.

    Parameters
    ----------
    axes : sequence of Axes
        One for each pair of level and clients in the table; spare ones are hidden.
    table : DataFrame
        Rows of ``feddp_cost`` with level, clients, method, eps_total, excess_mean.
    """
    axes_list = panels(axes)
    settings = list(dict.fromkeys(zip(table["level"], table["clients"], strict=True)))
    for ax, (level, clients) in zip(axes_list, settings, strict=False):
        part = table[(table["level"] == level) & (table["clients"] == clients)]
        for method, (label, color, marker) in METHODS.items():
            rows = part[part["method"] == method]
            if rows.empty:
                continue
            best = rows.groupby("eps_total")["excess_mean"].min()
            if not np.isfinite(best.index).any():  # spends nothing: no privacy
                ax.axhline(best.iloc[0], color=color, linestyle=":", label=label)
                continue
            ax.plot(
                best.index, np.maximum(best, 1e-3), marker + "-", color=color, label=label,
                markersize=5,
            )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="total ε (log)")
        plain_ticks(ax, sorted({float(e) for e in part["eps_total"] if np.isfinite(e)}))
        unit = "client" if level == "client" else "point"
        ax.set_title(f"hiding one {unit}, {clients} clients", fontsize=11)
    for ax in axes_list[len(settings) :]:
        ax.set_visible(False)
    axes_list[0].set_ylabel("cost above the optimum (log)")
    handles, names = axes_list[0].get_legend_handles_labels()
    axes_list[0].figure.legend(handles, names, loc="outside lower center", ncols=6)
    return axes


def plot_missing(ax: Axes, missing: ArrayLike, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess against the number of clusters that the server has never seen."""
    missing = np.asarray(missing)
    for method, values in excess.items():
        label, color, marker = METHODS[method]
        mean, low, high = mean_and_range(values)
        ax.vlines(missing, low, high, color=color, linewidth=1)
        ax.plot(missing, mean, marker + "-", color=color, label=label)
    ax.set(xticks=missing, ylim=(0, None), ylabel="cost above the optimum")
    ax.set_xlabel("clusters missing at the server (of 10)")
    return label_lines(ax, x_offset=8)


def plot_elbow(ax: Axes, ks: Sequence[int], costs: ArrayLike, chosen: int, truth: int) -> Axes:
    """Cost curve of the weighted server points, its chord, and the chosen k."""
    costs = np.asarray(costs, dtype=np.float64)
    ax.plot([ks[0], ks[-1]], [costs[0], costs[-1]], linestyle="--", **THEORY)
    ax.plot(ks, costs, "o-", color=INSIDE)
    at = list(ks).index(chosen)
    ax.plot(chosen, costs[at], "o", markersize=12, markerfacecolor="none", color=DARK)
    ax.annotate(
        f"elbow: k = {chosen}\n(truth: {truth})", (chosen, costs[at]), xytext=(-16, -14),
        textcoords="offset points", ha="right", va="center", fontsize=10,
    )  # fmt: skip
    ax.set(xlabel="k", ylabel="cost per unit of weight", xticks=[2, 5, 10, 15, 20])
    ax.set_title("The weighted server points show the elbow")
    return ax


# --- the photograph -------------------------------------------------------------------------------


def image_patches(image: ArrayLike, block: int = 2) -> NDArray[np.float64]:
    """Patches (rows, columns, 3 block^2) of an image, scaled to the unit ball.

    As `paper_data.make_image_federation` does it, for every patch of the picture.
    """
    block = check_int(block, "block")
    image = np.asarray(image, dtype=np.float64)
    if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < block:
        raise ValueError(f"image must have shape (h, w, 3) and hold a patch, got {image.shape}")
    h, w = image.shape[0] // block, image.shape[1] // block
    cells = image[: h * block, : w * block].reshape(h, block, w, block, 3).transpose(0, 2, 1, 3, 4)
    return (cells.reshape(h, w, -1) / 127.5 - 1) / np.sqrt(3 * block**2)


def paint(patches: ArrayLike, centers: ArrayLike | None = None) -> NDArray[np.float64]:
    """Picture (rows, columns, 3) in [0, 1]: the mean colour of each patch, or of its centre."""
    patches = np.asarray(patches, dtype=np.float64)
    h, w, d = patches.shape
    flat = patches.reshape(-1, d)
    if centers is not None:
        centers = as_points(centers, "centers", n_features=d)
        flat = centers[kmeans.assign(flat, centers).labels]
    colors = flat.reshape(len(flat), -1, 3).mean(axis=1) * np.sqrt(d)
    return np.asarray(np.clip((colors + 1) / 2, 0, 1).reshape(h, w, 3))


def plot_images(axes: Any, pictures: Mapping[str, ArrayLike]) -> Any:
    """Pictures in a grid, each with its title."""
    for ax, (title, picture) in zip(panels(axes), pictures.items(), strict=True):
        ax.imshow(np.asarray(picture), interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=11)
        for side in ax.spines.values():
            side.set_visible(False)
    ax.figure.suptitle(
        "Colours of another picture start the private search", x=0.01, ha="left", fontsize=12
    )
    return axes


def plot_limits(
    axes: Any,
    radii: tuple[ArrayLike, ArrayLike],
    sizes: tuple[ArrayLike, ArrayLike],
    *,
    radius: float,
) -> Any:
    """Where it breaks: excess against the clip radius (left) and the number of points (right).

    Parameters
    ----------
    axes : two Axes
    radii, sizes : (x of shape (m,), excess of shape (m, repetitions))
    radius : float
        The radius that the data need.
    """
    left, right = panels(axes)
    for ax, (x, values), color in ((left, radii, OUTSIDE), (right, sizes, INSIDE)):
        x = np.asarray(x, dtype=np.float64)
        mean, low, high = mean_and_range(values)
        ax.fill_between(x, low, high, color=color, alpha=0.25, linewidth=0)
        ax.plot(x, mean, "o-", color=color)
        ax.set(xscale="log", yscale="log", ylabel="cost above the optimum (log)")
        plain_ticks(ax, x)
    left.axvline(radius, color=DARK, linestyle="--", linewidth=1.2)
    left.text(radius * 1.04, left.get_ylim()[1] * 0.75, "needed", va="top", fontsize=10)
    left.set(xlabel="clip radius Δ (log)")
    left.set_title("A wrong radius costs on both sides")
    plain_ticks(left, [0.3, 1, 3, 10], "y")
    plain_ticks(right, [0.1, 1, 10], "y")
    right.set(xlabel="points n (log)")
    right.set_title("With too few points there is no subspace")
    return axes
