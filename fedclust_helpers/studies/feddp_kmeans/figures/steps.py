"""Pictures of the steps of FedDP-KMeans: the data, the start, the subspace, the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import as_points
from fedclust_helpers.studies.bench.style import COLORS, label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    DARK,
    INSIDE,
    METHODS,
    OUTSIDE,
    line,
    panels,
    plain_ticks,
)

MAX_SHOWN = 1200  # client rows drawn in a picture


def plane_between(means: ArrayLike) -> NDArray[np.float64]:
    """Orthonormal directions (d, 2) along which the means differ most: the plane of the pictures.

    Made from the truth, so for pictures only.
    """
    means = as_points(means, "means")
    if len(means) < 3 or means.shape[1] < 2:
        raise ValueError("means must hold at least three means of at least two features")
    return np.linalg.svd(means - means.mean(axis=0))[2][:2].T


def _cloud(ax: Axes, plane: NDArray[np.float64], points: ArrayLike) -> None:
    """Some client rows in the plane, grey, and a square frame without ticks."""
    points = np.asarray(points)
    shown = points[:: max(1, len(points) // MAX_SHOWN)] @ plane
    ax.scatter(shown[:, 0], shown[:, 1], s=5, color=COLORS["data"], linewidths=0, zorder=1)
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])


def _truth(ax: Axes, plane: NDArray[np.float64], means: ArrayLike) -> None:
    at = np.asarray(means) @ plane
    ax.scatter(at[:, 0], at[:, 1], s=55, marker="x", color=DARK, linewidths=1.8, zorder=5)


def plot_server_data(
    ax: Axes, points: ArrayLike, server: ArrayLike, inside: ArrayLike, means: ArrayLike
) -> Axes:
    """Client rows, server points of both kinds and true means in the plane between the means.

    Parameters
    ----------
    points, server, means : array_like of shape (., d)
    inside : array_like of bool of shape (q,)
        Which server points are drawn like the clients' rows.
    """
    plane, inside = plane_between(means), np.asarray(inside, dtype=bool)
    _cloud(ax, plane, points)
    at = np.asarray(server) @ plane
    ax.scatter(
        at[inside, 0],
        at[inside, 1],
        s=16,
        color=INSIDE,
        linewidths=0,
        zorder=3,
        label="server, same kind",
    )
    ax.scatter(
        at[~inside, 0], at[~inside, 1], s=22, marker="s", facecolor="none", edgecolor=OUTSIDE,
        linewidths=1.3, zorder=4, label="server, other kind",
    )  # fmt: skip
    _truth(ax, plane, means)
    ax.set(xlabel="direction 1 between the means", ylabel="direction 2")
    ax.set_title("A third of the server's points come from elsewhere")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


def plot_rounds(
    ax: Axes,
    rounds: Sequence[int],
    private: Mapping[str, ArrayLike],
    exact: Mapping[str, ArrayLike],
) -> Axes:
    """Excess cost after T rounds at one fixed budget, private (solid) and without noise (dotted).

    Parameters
    ----------
    rounds : sequence of int
    private, exact : mapping of keys of `METHODS` to arrays of shape (len(rounds),)
    """
    for name, values in private.items():
        label, color, marker = METHODS[name]
        ax.plot(rounds, values, marker + "-", color=color, label=label)
        ax.plot(rounds, exact[name], ":", color=color, linewidth=1.4)
    ax.axhline(0, color=DARK, linestyle="--", linewidth=1.2)
    ax.set_xscale("log", base=2)
    plain_ticks(ax, rounds)
    ax.set(xlabel="rounds T, all for the same ε (log scale)", ylabel="cost above the optimum")
    ax.set_ylim(-0.35, 1.06 * max(float(np.max(v)) for v in private.values()))
    ax.set_title("More private rounds do not repair a bad start")
    return label_lines(ax, x_offset=8)


def plot_subspace(
    ax: Axes,
    epsilons: ArrayLike,
    energy: Mapping[str, ArrayLike],
    transitions: Mapping[str, float],
) -> Axes:
    """Between-cluster energy kept by the private subspace against the budget of Step 1.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    energy : mapping of "mirror" and "average" to arrays of shape (m, repetitions)
    transitions : mapping of the same keys to the predicted epsilon
    """
    styles = {
        "mirror": ("mirrored triangle", "#9c9ca1", "s"),
        "average": ("(E + Eᵀ)/2", INSIDE, "o"),
    }
    epsilons = np.asarray(epsilons, dtype=np.float64)
    for name, values in energy.items():
        label, color, marker = styles[name]
        array = np.asarray(values, dtype=np.float64)
        low, middle, high = array.min(axis=1), array.mean(axis=1), array.max(axis=1)
        ax.fill_between(epsilons, low, high, color=color, alpha=0.25, linewidth=0)
        ax.plot(epsilons, middle, marker + "-", color=color, label=label)
        ax.axvline(transitions[name], color=color, linestyle="--", linewidth=1.3)
    ax.axhline(1, color=DARK, linestyle="--", linewidth=1.2)
    ax.set_xscale("log")
    plain_ticks(ax, epsilons)
    ax.set(ylim=(0, 1.08), xlabel="ε of Step 1 (log scale)", ylabel="share of energy kept")
    ax.set_title("The subspace is found once the noise falls below the gap")
    ax.legend(loc="lower right")
    ax.annotate(
        xy=(transitions["mirror"], 0.5), xytext=(22, 0), textcoords="offset points",
        ha="left", va="center", **line("dashed: where the predicted\nnoise equals the eigengap"),
    )  # fmt: skip
    return ax


def plot_weights(
    axes: Any,
    points: ArrayLike,
    server: ArrayLike,
    weights: ArrayLike,
    inside: ArrayLike,
    means: ArrayLike,
) -> Any:
    """Server points before and after weighting; the area of a mark is its weight."""
    plane, inside = plane_between(means), np.asarray(inside, dtype=bool)
    at = np.asarray(server) @ plane
    noised = np.maximum(np.asarray(weights, dtype=np.float64), 0.0)
    titles = ("Before: every server point counts the same", "After: a point weighs its rows")
    for ax, weight, title in zip(panels(axes), (np.ones(len(at)), noised), titles, strict=True):
        _cloud(ax, plane, points)
        area = 18 * weight / weight.mean()
        share = weight[~inside].sum() / weight.sum()
        for chosen, color, marker in ((inside, INSIDE, "o"), (~inside, OUTSIDE, "s")):
            ax.scatter(
                at[chosen, 0], at[chosen, 1], s=area[chosen], marker=marker, facecolor=color,
                alpha=0.75, edgecolor="white", linewidths=0.4, zorder=3,
            )  # fmt: skip
        _truth(ax, plane, means)
        ax.set_xlabel(f"other kind (squares): {share:.0%} of the weight")
        ax.set_title(title)
    return axes


def plot_init(
    axes: Any,
    points: ArrayLike,
    server: ArrayLike,
    inside: ArrayLike,
    means: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    noise: float,
    energy: float,
    weights: ArrayLike,
    centers: ArrayLike,
    cost: float,
    best: float,
    epsilon: float,
) -> Any:
    """One run of FedDP-Init in three panels: noised spectrum, weighted server points, centres.

    Parameters
    ----------
    axes : three Axes
    eigenvalues : array_like of shape (r,)
        Largest eigenvalues of the noised outer product.
    noise : float
        Spectral norm to expect of its noise.
    energy : float
        Share of the energy between the means that the subspace keeps.
    weights : array_like of shape (q,)
        Noised weights of the server points.
    centers : array_like of shape (k, d)
    cost, best : float
        Cost per point of the centres, and of the optimum.
    epsilon : float
        Exact total of the run.
    """
    left, middle, right = panels(axes)
    plane, inside = plane_between(means), np.asarray(inside, dtype=bool)
    values = np.maximum(np.asarray(eigenvalues, dtype=np.float64), 1.0) / 1e3
    left.bar(np.arange(1, len(values) + 1), values, color=INSIDE, width=0.7)
    left.axhline(noise / 1e3, color=DARK, linestyle="--", linewidth=1.3)
    left.set(yscale="log", xlabel="eigenvalue (dashed: noise)", ylabel="size / 1000 (log scale)")
    left.set_ylim(0.3 * min(float(values.min()), noise / 1e3), None)
    left.set_title(f"1  subspace keeps {energy:.0%}")
    weight = np.maximum(np.asarray(weights, dtype=np.float64), 0.0)
    at = np.asarray(server) @ plane
    area = 16 * weight / max(float(weight.mean()), 1e-9)
    _cloud(middle, plane, points)
    for chosen, color, marker in ((inside, INSIDE, "o"), (~inside, OUTSIDE, "s")):
        middle.scatter(
            at[chosen, 0], at[chosen, 1], s=area[chosen], marker=marker, facecolor=color,
            alpha=0.75, edgecolor="white", linewidths=0.4, zorder=3,
        )  # fmt: skip
    share = weight[~inside].sum() / max(float(weight.sum()), 1e-9)
    middle.set_title(f"2  other kind weighs {share:.0%}")
    _cloud(right, plane, points)
    placed = np.asarray(centers) @ plane
    right.scatter(
        placed[:, 0], placed[:, 1], s=90, color=INSIDE, edgecolor="white", linewidths=1.2, zorder=4
    )  # fmt: skip
    _truth(right, plane, means)
    right.set_title(f"3  cost {cost:.2f}, best {best:.2f}")
    for ax in (middle, right):
        box = np.asarray(points)[:: max(1, len(np.asarray(points)) // MAX_SHOWN)] @ plane
        low, high = box.min(axis=0), box.max(axis=0)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    left.figure.suptitle(f"FedDP-Init at a total of ε = {epsilon:.2f}", x=0.01, ha="left")
    return axes
