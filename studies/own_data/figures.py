"""Figures of the notebook on own data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from studies.bench import plots
from studies.bench.style import BLUE, DASHED, TRUST, Look

COSTS = {
    "sum": Look("shares added up", TRUST["local"], "s-"),
    "joint": Look("exact total", BLUE, "o-"),
}


def map_of(ax: Axes, table: pd.DataFrame, centers: ArrayLike, columns: Mapping[str, str]) -> Axes:
    """Rows of two columns (name -> unit), and the released centres."""
    plots.cloud(ax, table[list(columns)].to_numpy())
    plots.centers(ax, centers, BLUE)
    ax.set_aspect("auto")
    names = [f"{name} ({unit})" for name, unit in columns.items()]
    return plots.finish(ax, "Four centres, found without pooling a row", *names)


def ratios(
    ax: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], title: str, label: str,
    names: str = "upper right",
) -> Axes:  # fmt: skip
    """Cost against that without noise, one line for each way; a dashed line where noise is free."""
    styles = ((BLUE, "o-"), (TRUST["local"], "s-"))
    looks = {name: Look(name, *style) for name, style in zip(series, styles, strict=False)}
    plots.curves(ax, x, series, looks)
    ax.axhline(1, **DASHED)
    return plots.finish(
        ax, title, label, "cost / cost without noise", log="xy", xticks=x,
        names=names if len(series) > 1 else "", yticks=(1, 2, 4, 6),
    )  # fmt: skip


def total(epsilon: float, delta: float, n_fits: ArrayLike) -> Any:
    """Exact epsilon, at `delta`, of several Gaussian fits of (epsilon, delta) each."""
    mu = gdp_mu(epsilon, delta)
    return np.array([gdp_epsilon(mu * math.sqrt(n), delta) for n in np.atleast_1d(n_fits)])


def months(ax: Axes, *, epsilon: float, delta: float, budget: float, n_months: int = 12) -> Axes:
    """What a fit in each month costs in all, against a budget: two ways to count the same fits.

    `epsilon` is that of one fit at `delta`, by Gaussian noise, as is `budget` that of all of them.
    """
    at = np.arange(1, n_months + 1)
    costs = {"sum": epsilon * at, "joint": total(epsilon, delta, at)}
    plots.curves(ax, at, costs, COSTS)
    ax.axhline(budget, **DASHED)
    plots.note(ax, "budget", (n_months, budget), (0, -9), ha="right")
    paid = int((costs["joint"] <= budget).sum())
    title = f"Exact totals: {paid} of {n_months} fits fit into the budget"
    return plots.finish(ax, title, "fits", "epsilon", names="upper left", ylim=(0, None))
