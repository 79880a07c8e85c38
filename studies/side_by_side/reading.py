"""Reading the tables side by side: ratios with intervals, where curves cross, what claims say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers.accounting import gdp_epsilon
from fedclust_helpers.federation import simulate
from studies.bench.grading import decided, lower, several
from studies.side_by_side.cells import DELTA, PURE, SUMS, asked

NONE = "at none"
"""Said where no x of the table will do, though it was run."""
RIVALS = ("diffprivlib", "google_lsh", "pe_means")
"""Rows of ``rivals.csv`` that are the work of others."""
SMALL = ("tuned", "fresh")
"""`sets` of ``rivals.csv`` that are small; "large" are the mixtures."""


def ratio(table: pd.DataFrame, ours: str, theirs: str, value: str = "nicv_median") -> pd.Series:
    """NICV of one method over another's on small sets, by (sets, dataset, epsilon)."""
    keys = ["sets", "dataset", "epsilon"]
    small = table[table["sets"].isin(SMALL)]
    a, b = (small[small["method"] == name].set_index(keys)[value] for name in (ours, theirs))
    return (a / b).dropna()


def over_best(table: pd.DataFrame, epsilon: float = 1.0) -> pd.DataFrame:
    """Median NICV over that without privacy at one epsilon: a row for each set, small or large."""
    part = table[table["epsilon"].isin([epsilon, math.inf])]
    cost = part.pivot_table(index="dataset", columns="method", values="nicv_median", sort=False)
    return cost.div(cost.pop("optimum"), axis=0)


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


def rounded(x: float) -> str:
    """A number of records or of an epsilon as one says it: two digits, thousands with a comma."""
    if math.isnan(x):
        return NONE
    two = float(f"{x:.2g}")
    return f"{two:,.0f}" if two >= 10 else f"{two:g}"


KEYS = ["dataset", "epsilon"]

# --- rivals ---------------------------------------------------------------------------------------


def against(table: pd.DataFrame, ours: str, theirs: str) -> dict[str, Any]:
    """Mean cost over another method's on the `tuned` sets: geometric mean, and decided cells."""
    part = table[table["sets"] == "tuned"]
    found = ratio(part, ours, theirs, "nicv_mean")
    by_epsilon = np.exp(np.log(found).groupby("epsilon").mean())
    return {
        "mean": geometric_mean(found), "most": float(found.max()), "n": len(found),
        "below": int((found < 1).sum()), "by": several(by_epsilon, ".2f"),
        "cells": lower(part, ours, theirs, keys=KEYS, value="nicv_mean", by="method"),
    }  # fmt: skip


def over_all(table: pd.DataFrame) -> dict[str, Any]:
    """Over-clustered Lloyd against the best rival of each cell, on the `fresh` sets."""
    part = table[table["sets"] == "fresh"]
    by = part.pivot_table(index=KEYS, columns="method", values="nicv_mean")
    found = (by["overclustered"] / by[list(RIVALS)].min(axis=1)).dropna()
    return {"mean": geometric_mean(found), "most": float(found.max()), "n": len(found),
            "below": int((found < 1).sum()), "rivals": ", ".join(RIVALS)}  # fmt: skip


def agreement(table: pd.DataFrame) -> dict[str, Any]:
    """Agreement with the partition without privacy, of over-clustered Lloyd and of DPM."""
    private = table[table["method"] != "optimum"]
    by = private.pivot_table(index=KEYS, columns="method", values="agreement", sort=False)
    ours, theirs = by["overclustered"], by["dpm"]
    of = table[table["method"] == "dpm"]
    large = of.loc[of["sets"] == "large", "dataset"].tolist()
    return {
        "n": len(by), "higher": int((ours > theirs.fillna(0)).sum()),
        "ours": float(ours.median()), "theirs": float(theirs.median()),
        "large_ours": float(ours.loc[large].median()),
        "large_theirs": float(theirs.loc[large].median()),
        "failed": float(of["failed"].mean()),
    }  # fmt: skip


def spent_by_formula(d: int, *, moved: float = 1.0) -> float:
    """Total over epsilon if the shares of Su et al. (2016) are exchanged.

    They are epsilon_0 : epsilon_i = (4 d rho^2)^(1/3) : 1. A record `moved` a sum by that part of
    the sensitivity that the noise is made for.
    """
    share = (4 * d * 0.225**2) ** (1 / 3)
    return (1 + moved * d * share) / (d + share)


def split(table: pd.DataFrame) -> dict[str, Any]:
    """What diffprivlib's mechanisms were given in all, over what was asked for."""
    spent: Any = table.set_index("d")["spent"]
    formula = np.array([spent_by_formula(d) for d in spent.index])
    return {
        "off": float(np.abs(spent / formula - 1).max()), "first": int(spent.index[spent > 1][0]),
        "most": float(spent.max()), "at": int(spent.idxmax()), "two": float(spent[2]),
        # for bounds [-1, 1] an added record moves a sum by 1; the library calibrates for 2
        "added": next(d for d in range(1, 1000) if spent_by_formula(d, moved=0.5) > 1),
    }  # fmt: skip


def empty(table: pd.DataFrame) -> dict[str, Any]:
    """In which share of the runs a centre stays exactly in place, without and with one row."""
    runs = int(table["runs"].sum())
    return {"without": float(table["still_without"].mean()), "runs": runs,
            "with_": float(table["still_with"].mean())}  # fmt: skip


def oracles(theirs: pd.DataFrame, ours: pd.DataFrame) -> dict[str, Any]:
    """Standard deviations of counts at the same n, epsilon and 64 values: theirs and ours."""
    theirs, ours = (table.astype({"epsilon": float}) for table in (theirs, ours))
    both = theirs.merge(ours, on=["oracle", "n", "epsilon"], suffixes=("", "_ours"))
    hadamard = both[both["oracle"] == "hadamard"].set_index("epsilon")
    one_bit = (hadamard["sd_ours"] / hadamard["sd"]).sort_index()
    both = both[both["oracle"] != "hadamard"]
    half = np.hypot((both["high"] - both["low"]) / 2, (both["high_ours"] - both["low_ours"]) / 2)
    over = both["sd_ours"] / both["sd"]
    return {"cells": decided(both["sd"] - both["sd_ours"], half), "ratios": several(over, ".2f"),
            "names": ", ".join(dict.fromkeys(both["oracle"])), "most": float(over.max()),
            "least": float(over.min()), "bit_one": float(one_bit.iloc[0]),
            "bit_four": float(one_bit.iloc[-1])}  # fmt: skip


# --- side by side ---------------------------------------------------------------------------------


def conversions() -> dict[str, Any]:
    """What replacing one record costs by the releases of each plan, over what was asked."""
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.5, 0.5, (400, 2))
    over = []
    for epsilon in (0.5, 1.0, 4.0):
        for method, planner in SUMS.items():
            fed = simulate([points[:200], points[200:]], "ideal", seed=1, bound=1.0)
            budget, delta = asked(method, epsilon)
            more = {} if method in PURE else {"delta": delta}
            plan = planner(fed, n_clusters=3, epsilon=budget, **more)
            if method in PURE:
                over.append(2 * plan.total_epsilon / epsilon)
                continue
            mu = math.sqrt(sum(
                (m.sensitivity / m.std) ** 2 for r in plan.releases for m in r.mechanisms
            ))  # fmt: skip
            over.append(gdp_epsilon(2 * mu, DELTA) / epsilon)
    return {"most": max(over), "least": min(over)}


def _mixture(table: pd.DataFrame, trust: str, method: str, epsilon: float) -> pd.Series:
    where: dict[str, Any] = {"data": "mixture", "d": 2, "k": 5, "epsilon": epsilon}
    return curve(table, trust, method, "n", value="median", **where)


def catch_up(table: pd.DataFrame) -> dict[str, Any]:
    """From which n on the median of a local method stays within 5 % of the best possible."""
    out: dict[str, Any] = {}
    for method in ("sketch", "alg1", "ldp_lloyd"):
        for name, epsilon in (("one", 1.0), ("four", 4.0)):
            line = _mixture(table, "local", method, epsilon)
            at = falls_below(line, 1.05)
            out[f"{method}_{name}"], out[f"{method}_{name}_said"] = at, said_from(at, line)
    line = _mixture(table, "masked", "overclustered", 1.0)
    masked = falls_below(line, 1.05)
    times = rounded(out["sketch_one"] / masked)
    return out | {"masked": masked, "masked_said": said_from(masked, line), "times": times}
