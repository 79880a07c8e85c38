"""Figures of notebook 02, sections 11 to 16: whole runs, Pareto fronts, k, a photograph, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers import kmeans
from fedclust_helpers._validation import as_points, check_int
from fedclust_helpers.studies.bench.plots import (
    bare,
    by,
    curves,
    finish,
    headline,
    legend_below,
    note,
    panels,
    ticks,
)
from fedclust_helpers.studies.bench.style import BLUE, DARK, DASHED, ORANGE, THEORY, Look
from fedclust_helpers.studies.feddp_kmeans.figures import EXCESS, METHODS


def plot_comparison(ax: Axes, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess over the optimum of each method on each data set, one row per method, log scale."""
    y = np.arange(len(excess))[::-1]
    for height, (method, values) in zip(y, excess.items(), strict=True):
        _, color, style = METHODS[method]
        shown = np.maximum(np.asarray(values, dtype=np.float64), 1e-4)
        mark: dict[str, Any] = {"color": color, "markersize": 9, "markeredgecolor": "white"}
        ax.plot(shown, np.full(len(shown), height), style[0], **mark)
        note(ax, f"{shown.mean():.2g}", (shown.max() * 1.3, height))
    ax.set_yticks(y, [METHODS[method].label for method in excess])
    x = EXCESS + ", one mark per data set"
    finish(ax, "", x, log="x", ylim=(-0.6, len(y) - 0.4))
    ax.set_xlim(right=ax.get_xlim()[1] * 2.2)
    return ax


def plot_excess(ax: Axes, epsilons: ArrayLike, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess over the optimum against total epsilon: mean and range over repetitions.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    excess : mapping of keys of `METHODS` to arrays of shape (m, repetitions)
    """
    curves(ax, epsilons, excess, METHODS)
    return finish(ax, "", "total ε", EXCESS, log="xy", xticks=epsilons, names="ends")


def pareto_front(epsilons: ArrayLike, costs: ArrayLike) -> NDArray[np.int64]:
    """Indices of the runs that no other run beats in both, by growing epsilon."""
    epsilons, costs = np.asarray(epsilons, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    order = np.lexsort((costs, epsilons))
    best = np.minimum.accumulate(costs[order])
    first = np.r_[True, best[1:] < best[:-1]]
    return order[first]


def plot_pareto(ax: Axes, runs: pd.DataFrame) -> Axes:
    """All runs as faint marks and the front of each method as a staircase.

    `runs` has columns method, eps_total, excess.
    """
    right = 1.15 * float(runs["eps_total"].max())
    for method, part in runs.groupby("method", sort=False):
        label, color, style = METHODS[str(method)]
        eps, cost = part["eps_total"].to_numpy(), part["excess"].to_numpy()
        ax.plot(eps, cost, style[0], color=color, alpha=0.35, markersize=4.5)
        front = pareto_front(eps, cost)
        x, y = np.r_[eps[front], right], np.r_[cost[front], cost[front][-1]]
        ax.step(x, y, where="post", color=color, label=label)
    at = [0.2, 0.5, 1, 2]
    return finish(ax, "", "total ε", EXCESS, log="xy", xticks=at, names="ends")


def plot_cost_table(axes: Any, table: pd.DataFrame) -> Any:
    """The committed table: best mean excess over T against epsilon, one panel per setting.

    Parameters
    ----------
    axes : sequence of Axes
        One for each pair of level and clients in the table; spare ones are hidden.
    table : DataFrame
        Rows of ``feddp_cost`` with level, clients, method, eps_total, excess_mean.
    """
    settings = list(table.groupby(["level", "clients"], sort=False))
    for ax, ((level, clients), part) in zip(panels(axes), settings, strict=False):
        best = part.groupby(["method", "eps_total"])["excess_mean"].min().reset_index()
        lines = by(best, "method", "eps_total", "excess_mean")
        private = {m: lines[m] for m in METHODS if m in lines and np.isfinite(lines[m].index).any()}
        curves(ax, None, private, METHODS, floor=1e-3, markersize=5)
        for method in METHODS:
            if method in lines and method not in private:  # spends nothing: no privacy
                label, color, _ = METHODS[method]
                ax.axhline(lines[method].iloc[0], color=color, linestyle=":", label=label)
        unit = "client" if level == "client" else "point"
        spent = sorted({float(e) for e in part["eps_total"] if np.isfinite(e)})
        title = f"hiding one {unit}, {clients} clients"
        finish(ax, title, "total ε", log="xy", xticks=spent)
    for ax in panels(axes)[len(settings) :]:
        ax.set_visible(False)
    panels(axes)[0].set_ylabel(EXCESS + " (log)")
    legend_below(panels(axes)[:1], 6)
    return axes


def plot_missing(ax: Axes, missing: ArrayLike, excess: Mapping[str, ArrayLike]) -> Axes:
    """Excess against the number of clusters that the server has never seen."""
    curves(ax, missing, excess, METHODS, interval="bars")
    x, ends = "clusters missing at the server (of 10)", (0, None)
    return finish(ax, "", x, EXCESS, xticks=missing, ylim=ends, names="ends")


def plot_elbow(ax: Axes, ks: Sequence[int], costs: ArrayLike, chosen: int, truth: int) -> Axes:
    """Cost curve of the weighted server points, its chord, and the chosen k."""
    costs = np.asarray(costs, dtype=np.float64)
    at = (chosen, costs[list(ks).index(chosen)])
    ax.plot([ks[0], ks[-1]], [costs[0], costs[-1]], **THEORY | {"linestyle": "--"})
    ax.plot(ks, costs, "o-", color=BLUE)
    ax.plot(*at, "o", markersize=12, markerfacecolor="none", color=DARK)
    note(ax, f"elbow: k = {chosen}\n(truth: {truth})", at, (-16, -14), ha="right")
    title = "The weighted server points show the elbow"
    return finish(ax, title, "k", "cost per unit of weight", xticks=[2, 5, 10, 15, 20])


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
        bare(ax).set_title(title, fontsize=11)
    headline(axes, "Colours of another picture start the private search")
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
    radii, sizes : (x of shape (m,), excess of shape (m, repetitions))
    radius : float
        The radius that the data need.
    """
    left, right = panels(axes)
    for ax, (x, values), color, label, title in (
        (left, radii, ORANGE, "clip radius Δ", "A wrong radius costs on both sides"),
        (right, sizes, BLUE, "points n", "With too few points there is no subspace"),
    ):
        curves(ax, x, {"": values}, (Look("_", color),))
        finish(ax, title, label, EXCESS, log="xy", xticks=x)
    left.axvline(radius, **DASHED)
    left.text(radius * 1.04, left.get_ylim()[1] * 0.75, "needed", va="top", fontsize=10)
    ticks(left, [0.3, 1, 3, 10], "y")
    ticks(right, [0.1, 1, 10], "y")
    return axes
