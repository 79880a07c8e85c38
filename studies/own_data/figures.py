"""Figures of the notebook on own data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from studies.bench import plots
from studies.bench.samples import Rows
from studies.bench.style import BLUE, DARK, DASHED, TRUST, Look

COSTS = {
    "sum": Look("shares added up", TRUST["local"], "s-"),
    "joint": Look("exact total", BLUE, "o-"),
}


def map_of(ax: Axes, made: Rows, centers: ArrayLike) -> Axes:
    """Rows of the first two columns in their units, and released centres."""
    centers = np.asarray(centers)
    plots.cloud(ax, made.table().to_numpy(), label="rows (stay in the clinics)")
    plots.centers(ax, centers, BLUE, label="released centres")
    ax.set_aspect("auto")
    title = f"{len(centers)} released centres among {len(made.points):,} rows"
    plots.finish(ax, title, *made.names[:2])
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


def ratios(ax: Axes, factors: ArrayLike, costs: Mapping[str, Sequence[float]]) -> Axes:
    """Cost against that without noise for bounds that are too wide, one line for each method."""
    looks = {"overclustered": Look("over-clustered", BLUE, "o-"),
             "fastlloyd": Look("FastLloyd", TRUST["local"], "s-")}  # fmt: skip
    plots.curves(ax, factors, costs, looks)
    ax.axhline(1, **DASHED)
    ends = [f"{looks[name].label} {costs[name][0]:.1f} to {costs[name][-1]:.1f}" for name in looks]
    title = f"Exact bounds to {np.asarray(factors)[-1]:g} times as wide: {', '.join(ends)}"
    return plots.finish(ax, title, "times too wide", "cost / cost without noise", log="xy",
                        xticks=factors, names="upper left", yticks=(1, 2, 4, 6, 10))  # fmt: skip


def agreements(ax: Axes, found: Mapping[str, ArrayLike]) -> Axes:
    """Agreement with the true groups, a mark for each run, a row for each way to get bounds."""
    for y, values in zip(range(len(found))[::-1], map(np.asarray, found.values()), strict=True):
        ax.plot(values, np.full(len(values), y), "o", color=BLUE, alpha=0.5)
        ax.plot(np.median(values), y, "|", color=DARK, markersize=22, markeredgewidth=2)
    ax.set_yticks(range(len(found))[::-1], list(found))
    ax.set_ylim(-0.5, len(found) - 0.5)
    both = [float(np.median(np.asarray(found[name]))) for name in ("known columns", "paid for")]
    title = f"Paying for bounds lifts the agreement from {both[0]:.2f} to {both[1]:.2f}"
    return plots.finish(ax, title, "agreement with the true groups (1: the same)")


def total(epsilon: float, delta: float, n_fits: ArrayLike, at_delta: float) -> Any:
    """Exact epsilon, at `at_delta`, of several Gaussian fits of (epsilon, delta) each."""
    mu = gdp_mu(epsilon, delta)
    return np.array([gdp_epsilon(mu * math.sqrt(n), at_delta) for n in np.atleast_1d(n_fits)])


def months(ax: Axes, *, epsilon: float, delta: float, budget: float) -> Axes:
    """What a fit in each month costs in all, against a budget: two ways to count the same fits.

    `epsilon` is that of one fit at `delta`, by Gaussian noise; `budget` that of all, at 3 `delta`.
    """
    at, whole = np.arange(1, 13), 3 * delta
    costs = {"sum": epsilon * at, "joint": total(epsilon, delta, at, whole)}
    plots.curves(ax, at, costs, COSTS)
    ax.axhline(budget, **DASHED)
    plots.note(ax, "budget", (12, budget), (0, -9), ha="right")
    paid = int((costs["joint"] <= budget).sum())
    title = f"Exact totals: {paid} of 12 fits fit into the budget"
    return plots.finish(
        ax, title, "fits", f"epsilon at delta = {whole:g}", names="upper left", ylim=(0, None)
    )
