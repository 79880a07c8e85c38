"""Reading the tables side by side: ratios with intervals, and where two curves cross."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

NONE = "at none"
"""Said where no x of the table will do, though it was run."""
RIVALS = ("diffprivlib", "google_lsh", "pe_means")
"""Rows of ``rivals.csv`` that are the work of others."""


def ratio(table: pd.DataFrame, ours: str, theirs: str) -> pd.DataFrame:
    """NICV of one method over another's by data set and epsilon, with a 95 % interval.

    The interval is that of a ratio of two independent means by Fieller's theorem with their
    standard errors, in its first-order form: half width = ratio * hypot(ci/mean, ci/mean).
    Columns ratio, half; index (sets, dataset, epsilon).
    """
    keys = ["sets", "dataset", "epsilon"]
    a, b = (table[table["method"] == name].set_index(keys) for name in (ours, theirs))
    a, b = a.align(b, join="inner", axis=0)
    found = a["nicv_mean"] / b["nicv_mean"]
    half = found * np.hypot(a["ci95"] / a["nicv_mean"], b["ci95"] / b["nicv_mean"])
    return pd.DataFrame({"ratio": found, "half": half})


def over_best(table: pd.DataFrame) -> pd.DataFrame:
    """NICV over that without privacy: geometric means over epsilon, a row for each data set."""
    best = table[table["method"] == "optimum"].set_index("dataset")["nicv_mean"]
    part = table[table["method"] != "optimum"]
    over = part["nicv_mean"] / part["dataset"].map(best)
    groups = over.groupby([part["dataset"], part["method"]], sort=False)
    return groups.agg(geometric_mean).unstack()


def geometric_mean(values: ArrayLike) -> float:
    """exp of the mean logarithm of positive numbers; nan of none."""
    values = np.asarray(values, dtype=np.float64)
    return float(np.exp(np.log(values).mean())) if values.size else math.nan


def curve(
    table: pd.DataFrame, trust: str, method: str, x: str, *, value: str = "over_optimum",
    **where: float | str,
) -> pd.Series:  # fmt: skip
    """A column over `x`, sorted, of the rows of one trust model and method with these settings."""
    part = table[(table["trust"] == trust) & (table["method"] == method)]
    for name, wanted in where.items():
        part = part[part[name] == wanted]
    return part.drop_duplicates(x).set_index(x)[value].sort_index()


def falls_below(values: pd.Series, level: float) -> float:
    """From which x on a curve stays at or below a level; between two points by power law.

    nan if it never does, and the first x if it always does: the crossing is outside the table.
    """
    above = np.flatnonzero(values.to_numpy() > level)
    if not len(above):
        return float(values.index[0])
    last = int(above[-1])
    if last == len(values) - 1:
        return math.nan
    (x0, x1), (y0, y1) = values.index[last : last + 2], values.iloc[last : last + 2]
    # straight in the logarithms of x and of the excess over the best cost
    e0, e1, e = (math.log(max(y - 1, 1e-9)) for y in (y0, y1, level))
    t = (e0 - e) / (e0 - e1) if e1 < e0 else 1.0
    return float(math.exp(math.log(x0) + t * math.log(x1 / x0)))


def said_from(at: float, values: pd.Series) -> str:
    """`at` in words; "≤" where it is the first x of the curve, none smaller was run."""
    return ("≤ " if at == values.index[0] else "") + rounded(at)


def overtakes(first: pd.Series, second: pd.Series) -> float:
    """The first x of the table from which on `first` is at or below `second`; nan if it never is.

    Both curves are compared at the places that they have in common.
    """
    a, b = first.align(second, join="inner")
    above = np.flatnonzero((a > b).to_numpy())
    at = 0 if not len(above) else int(above[-1]) + 1
    return float(a.index[at]) if at < len(a) else math.nan


def stays_below(values: pd.Series, level: float) -> str:
    """Up to which x of the table a curve stays at or below a level, in words."""
    above = np.flatnonzero(values.to_numpy() > level)
    if len(above):
        return rounded(float(values.index[above[0] - 1])) if above[0] else NONE
    return f"≥ {rounded(float(values.index[-1]))}"


def rounded(x: float) -> str:
    """A number of records or of an epsilon as one says it: two digits, thousands with a comma."""
    if math.isnan(x):
        return NONE
    two = float(f"{x:.2g}")
    return f"{two:,.0f}" if two >= 10 else f"{two:g}"
