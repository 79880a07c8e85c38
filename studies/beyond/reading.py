"""What the claims about better releases read off the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedclust.estimators.cautions import UNSETTLED
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.fastlloyd.rounds import ROWS_OF_A_CLUSTER
from studies.bench.grading import Cells, decided, lower, several
from studies.beyond.figures import cost_of_bounds


def ratios(table: pd.DataFrame, keys: list[str], rival: str = "fastlloyd") -> pd.Series:
    """NICV of over-clustered Lloyd over a rival's, by cell."""
    by = table.set_index(keys)
    ours, theirs = (by[by["method"] == m]["nicv_mean"] for m in ("overclustered", rival))
    return ours / theirs


def _name(values: pd.Series) -> str:
    """Where the largest value is: the first level of its index."""
    worst: Any = values.idxmax()
    return str(worst[0])


def gain(table: pd.DataFrame, sets: str) -> dict[str, Any]:
    """Geometric mean over the cells of one kind of sets, and where it is lower."""
    part = table[(table["sets"] == sets) & (table["method"] != "optimum")]
    found = ratios(part, ["dataset", "epsilon"])
    cells = lower(part, "overclustered", "fastlloyd", keys=["dataset", "epsilon"],
                  value="nicv_mean", by="method")  # fmt: skip
    return {
        "mean": geometric(found), "most": float(found.max()), "where": _name(found),
        "cells": cells, "n": len(found), "by": at_epsilon(found),
    }  # fmt: skip


def known(table: pd.DataFrame) -> dict[str, Any]:
    """In how many cells the formula for known groups was right within a factor of two, of three."""
    sums = table.groupby("sets", sort=False)[["cells", "within_two", "within_three"]].sum()
    by = dict(zip(sums.index, sums.to_numpy().tolist(), strict=True))
    n, two, three = sums.to_numpy().sum(axis=0).tolist()
    return {
        "n": n, "two": two, "three": three, "share": two / n,
        "sets": ", ".join(f"{right} of {of} {name}" for name, (of, right, _) in by.items()),
        "factor": several(table.groupby("epsilon")["found_over_foreseen"].median(), ".2f"),
    }  # fmt: skip


def told(table: pd.DataFrame) -> dict[str, Any]:
    """Which share of the runs lies below the point told, the set of each left out of it."""
    by, weights = table.set_index("sets"), table["settings"].to_numpy(float)
    share = {of: float(weights @ table[of]) / weights.sum()
             for of in ("runs_below", "settings_below")}  # fmt: skip
    return {
        "runs": share["runs_below"], "settings": share["settings_below"], "n": int(weights.sum()),
        "open": float(by["runs_below"].get("open", 1.0)),
        "sets": ", ".join(f"{v:.0%} {name}" for name, v in by["runs_below"].items()),
    }  # fmt: skip


def against(table: pd.DataFrame, rival: str) -> dict[str, Any]:
    """Ratios to a rival in all cells; `by` epsilon, also on fresh sets, and `late`: from 0.5 on."""
    part = table[table["method"] != "optimum"]
    found = ratios(part, ["dataset", "epsilon"], rival)
    above, late = found[found > 1.05], found[found.index.get_level_values("epsilon") >= 0.5]
    named = zip(above.index.to_list(), above, strict=True)
    where = ", ".join(f"{name} at {epsilon:g}: {v:.2f}" for (name, epsilon), v in named)
    return {
        "mean": geometric(found), "most": float(found.max()), "above": len(above),
        "n": len(found), "where": f" ({where})" if where else "", "late": geometric(late),
        "by": at_epsilon(found), "worst": _name(found),
        "fresh": at_epsilon(ratios(part[part["sets"] == "fresh"], ["dataset", "epsilon"], rival)),
    }  # fmt: skip


def unknown_k(table: pd.DataFrame) -> dict[str, Any]:
    """Chosen k against the true one, by data set, for the default range."""
    part = table[table["k_max"] == 48]
    by = part.groupby("dataset", sort=False)
    near, exact = by["near"].mean(), by["exact"].mean()
    spans = [
        f"{name} {int(one['k'].iloc[0])}: {one['k_least'].min():g}-{one['k_most'].max():g}"
        for name, one in by
    ]
    moved = table.groupby(["dataset", "epsilon"])["k_median"].agg(lambda v: v.max() - v.min())
    return {"near": near.tolist(), "exact": float(exact.mean()), "spans": ", ".join(spans),
            "ok": int((near >= 0.8).sum()), "n": len(near),
            "wrong": ", ".join(near.index[near < 0.8]),
            "moved": float(moved.median()), "most": float(moved.max())}  # fmt: skip


def copies(table: pd.DataFrame, batched: bool) -> dict[str, Any]:
    """Cost in copies over that of a fit planned for it, of one fit or of batches put together.

    Of batches those count that have the rows for their k; `few` are the others.
    """
    part = table[(table["batches"] > 1) == batched]
    enough = (part["s"] / part["batches"] >= ROWS_OF_A_CLUSTER) | (part["batches"] == 1)
    few = part[~enough].set_index("dataset")["over_planned"]
    part = part[enough]
    found = part.set_index("dataset")["over_planned"]
    by = found.groupby(part["times"].to_numpy()).median()
    return {
        "median": float(found.median()), "most": float(found.max()), "where": str(found.idxmax()),
        "n": len(found), "sets": part["dataset"].nunique(),
        "by": ", ".join(f"{v:.3f} at {times:g} k" for times, v in by.items()),
        "few": ", ".join(f"{name} {v:.2f}" for name, v in few.items()) or "none",
    }  # fmt: skip


def warned(table: pd.DataFrame) -> dict[str, Any]:
    """Of runs apart from other runs, and alike, the shares that are warned; `by` limit."""
    found, wrong = table["found"] / table["apart"], table["wrong"] / table["alike"]
    (at,) = np.flatnonzero(table["limit"] == UNSETTLED)
    return {
        "found": float(found[at]), "wrong": float(wrong[at]),
        "apart": int(table["apart"][at]), "alike": int(table["alike"][at]),
        "by": ", ".join(f"{limit:.1%}: {a:.0%} and {b:.1%}" for limit, a, b
                        in zip(table["limit"], found, wrong, strict=True)),
    }  # fmt: skip


def bounds(table: pd.DataFrame) -> dict[str, Any]:
    """What bounds that do not fit cost each method, against its own cost with those that do."""
    found = cost_of_bounds(table)
    return {
        f"{method}_{name}": float(costs[width])
        for method, costs in found.items()
        for name, width in (("narrow", 0.8), ("wide", 10.0))
    }


def local(table: pd.DataFrame) -> dict[str, Any]:
    """The sketch against the better of Algorithms 1 and 4, mixtures of at least 1e5 users."""
    part = table[(table["data"] == "mixture") & (table["n"] >= 100_000)]
    by = part.set_index(["algorithm", "n", "dprime", "k", "epsilon"])
    ours = by.loc["sketch"]
    cells = Cells(0, 0, 0)
    for rival in ("alg1", "alg4"):
        theirs = by.loc[rival].reindex(ours.index)
        half = np.hypot(ours["ci95"], theirs["ci95"])
        cells += decided(theirs["over_optimum"] - ours["over_optimum"], half)
    mean = {name: geometric(by.loc[name]["over_optimum"]) for name in ("sketch", "alg1", "alg4")}
    return mean | {"cells": cells, "most": float(ours["over_optimum"].max())}


def few(table: pd.DataFrame) -> dict[str, Any]:
    """The same with 10,000 users."""
    part = table[(table["data"] == "mixture") & (table["n"] == 10_000)]
    by = part.set_index(["algorithm", "dprime", "k", "epsilon"])["over_optimum"]
    ours, theirs = by["sketch"], by["alg1"]
    return {"share": float((ours < theirs).mean()), "ours": at_epsilon(ours),
            "theirs": at_epsilon(theirs)}  # fmt: skip


def least(table: pd.DataFrame) -> dict[str, Any]:
    """What mixtures cost above the best over the least that is possible, near known groups.

    `sketch` and `most` of sketches at epsilon 1, with ten times the users who see the groups.
    """
    part = table[table["data"] == "mixture"]
    cells = part[["n", "epsilon", "dprime", "k"]].itertuples(index=False)
    limit = np.array([lk.least_excess(n, e, d, n_clusters=k) for n, e, d, k in cells])
    over = (part["over_optimum"] - 1) / limit
    many = (part["algorithm"] == "sketch") & (part["epsilon"] == 1) & (users_over_needed(part) > 10)
    return {"below": int((over < 1).sum()), "n": len(over), "closest": float(over.min()),
            "sketch": geometric(over[many]), "most": float(over[many].max()),
            "open": lk.least_excess(50_000, 1.0, 10, n_clusters=10)}  # fmt: skip


def users_over_needed(table: pd.DataFrame) -> pd.Series:
    """Users over `sketch_users_needed` for clusters of equal size, by row."""
    cells = table[["epsilon", "dprime", "k"]].itertuples(index=False)
    return table["n"] / [lk.sketch_users_needed(1 / k, e, d, n_clusters=k) for e, d, k in cells]


def geometric(values: pd.Series) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(values).mean()))


def at_epsilon(values: pd.Series) -> str:
    """Geometric means at each epsilon."""
    return several(np.exp(np.log(values).groupby("epsilon").mean()), ".2f")


def odd(table: pd.DataFrame) -> dict[str, Any]:
    """Data that is no mixture of round clusters of one width."""
    part = table[~table["data"].isin(["mixture", "birch2", "pixels", "wide_bounds"])]
    by = part.set_index(["algorithm", "data", "epsilon"])["over_optimum"]
    return {"most": float(by["sketch"].max()), "where": _name(by["sketch"]),
            "better": int((by["sketch"] < by["alg1"]).sum()), "n": len(by["sketch"]),
            "rival": float(by["alg1"].max())}  # fmt: skip


def wide(table: pd.DataFrame) -> dict[str, Any]:
    """Bounds ten times too wide."""
    by = table[table["data"] == "wide_bounds"].set_index(["algorithm", "epsilon"])["over_optimum"]
    return {"ours": several(by["sketch"], ".1f"), "theirs": several(by["alg1"], ".1f"),
            "most": float(by["sketch"].max())}  # fmt: skip


def gained(table: pd.DataFrame, reference: str, who: str, least: float = 0.0) -> dict[str, Any]:
    """What sums only with everybody gains over one rival, from an epsilon on; same clients."""
    part = table[(table["reference"] == reference) & (table["reference_who"] == who)]
    part = part[part["data"] == "fashion_dct"]
    main = part.query("setting == 'balanced' and k == 4 and adjacency == 'replace-one'"
                      " and delta == 0.001").sort_values("epsilon")  # fmt: skip
    worst = part.iloc[int(part["gain_mean"].argmin())]
    part = part[part["epsilon"] >= least]
    return {
        "cells": decided(part["gain_mean"], part["ci95"]),
        "main": several(100 * main["gain_mean"], "+.1f"),
        "half": several(100 * main["ci95"], ".1f"), "least": 100 * worst["gain_mean"],
        "where": f"{worst['adjacency']}, epsilon {worst['epsilon']:g},"
                 f" delta {worst['delta']:g}",
    }  # fmt: skip


def needed(table: pd.DataFrame) -> dict[str, Any]:
    """Sketches at epsilon 1, by users over `sketch_users_needed` for clusters of equal size."""
    part = table[(table["data"] == "mixture") & (table["algorithm"] == "sketch")]
    part = part[part["epsilon"] == 1]
    band = np.digitize(users_over_needed(part), [1.0, 10.0])
    fewer, between, more = (part["over_optimum"][band == i].sort_values() for i in range(3))
    return {
        "fewer": several(fewer, ".2f"), "between": several(between, ".2f"),
        "more": several(more, ".2f"), "least": fewer.min(), "most": more.max(),
    }  # fmt: skip
