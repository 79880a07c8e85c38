"""What the claims of locally private k-means read off the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from studies.bench.grading import decided, lower, several
from studies.ldp_kmeans import checks
from studies.ldp_kmeans.growth import loglog_slope

SETTING = ["n", "dprime", "k", "epsilon"]


def slope(scaling: pd.DataFrame, quantity: str) -> dict[str, Any]:
    """The slope of a quantity in n, with its interval, and its first and last value per user."""
    part = scaling[scaling["quantity"] == quantity]
    first, last = part.iloc[0], part.iloc[-1]
    b, low, high = (float(first[c]) for c in ("slope", "slope_low", "slope_high"))
    return {"b": b, "low": low, "high": high, "shown": f"slope {b:.3f} ({low:.3f} to"
            f" {high:.3f})", "first": first["value"] / first["n"],
            "last": last["value"] / last["n"]}  # fmt: skip


def in_dimension(sums: pd.DataFrame) -> dict[str, Any]:
    """The slope of the error of a vector sum in d'."""
    part = sums.query("calibration == 'analytic' and epsilon == 1 and n == n.max()")
    b, low, high = loglog_slope(part["dprime"], part["rms"])
    return {"b": b, "low": low, "high": high, "d": several(part["dprime"], "g")}


def optimum_ratios(cost: pd.DataFrame) -> dict[str, Any]:
    """Costs over the best: printed parameters, one round by n, four rounds by d' and two n."""
    cost = cost[cost["data"].eq("mixture")]
    cost = cost.assign(ratio=cost["cost_per_point"] / cost["nonprivate_cost"])
    printed = cost[cost["algorithm"].eq("alg1_printed")]["ratio"]
    one = cost.query("algorithm == 'alg1' and k == 5 and epsilon == 1 and dprime == 4")
    four = cost.query("algorithm == 'alg4' and k == 5").sort_values("dprime")
    by, most = {key: part["ratio"] for key, part in four.groupby(["epsilon", "n"])}, four["n"].max()
    spread = [by[e, most].max() / by[e, most].min() for e in (4, 1)]
    one = one.sort_values("n")
    shown = {f"{name}_{e}": several(by[e, n], ".3g")
             for name, n in (("at", most), ("less", most // 10)) for e in (4, 1)}  # fmt: skip
    d, d_less = (
        several(sorted(set(four["dprime"][four["n"] == n])), "g") for n in (most, most // 10)
    )
    return {
        "printed_low": printed.min(), "printed_high": printed.max(), "one": several(one["ratio"]),
        "last": one["ratio"].iloc[-1], "n": several(one["n"], ".0e"), "spread": spread, **shown,
        "falls": bool(one["ratio"].is_monotonic_decreasing),
        "n_four": several([most], ".0e"), "d": d, "d_less": d_less,
    }  # fmt: skip


def printed(cost: pd.DataFrame) -> dict[str, Any]:
    """Costs over the best cost, and what the printed parameters ask for."""
    return optimum_ratios(cost) | checks.as_printed()


def oracles(oracles: pd.DataFrame) -> dict[str, Any]:
    """The range of measured error over theory."""
    return {"low": oracles["ratio"].min(), "high": oracles["ratio"].max(), "n": len(oracles)}


def bitstogram(table: pd.DataFrame) -> dict[str, Any]:
    """Smallest count recovered over the formula, and false values."""
    ratio = table["recovered"] / table[["bits_limit", "oracle_limit"]].max(axis=1)
    return {"low": ratio.min(), "high": ratio.max(), "n": len(ratio), "holds": ratio < 1.35,
            "false": table["false_positives"].max()}  # fmt: skip


def sums(sums: pd.DataFrame) -> dict[str, Any]:
    """Bound over the 99 % quantile with either noise, and rms over theory."""
    slack, ours = (sums.loc[sums["calibration"] == name, "bound_over_p99"]
                   for name in ("as_printed", "analytic"))  # fmt: skip
    return {"low": slack.min(), "high": slack.max(), "ours": (ours.min(), ours.max()),
            "rms": (sums["ratio"].min(), sums["ratio"].max())}  # fmt: skip


def lsh(lsh: pd.DataFrame) -> dict[str, Any]:
    """Collision probabilities against the bounds of the paper and against simulation."""
    closed, simulated = (lsh[lsh["kind"] == kind] for kind in ("closed form", "simulated"))
    near, far = closed[closed["distance"] == 1], closed[closed["distance"] > 1]
    over = near["probability"] / near["lower_bound_over_A"]
    z = (simulated["simulated"] - simulated["probability"]).abs() / simulated["se"]
    table = closed.pivot_table(index="t", columns="distance", values="p1_squared_over_p")
    return {
        "low": over.min(), "high": over.max(), "t": near["t"].max(),
        "holds": far["probability"] <= far["upper_bound"], "n": len(far), "z": z.max(),
        "under": int((far["probability"] <= far["upper_bound"]).sum()), "simulated": len(z),
        "at_15": (table[1.5].iloc[0], table[1.5].iloc[-1]), "at_4": (table[4.0][4], table[4.0][8]),
        "falls": table[1.5].is_monotonic_decreasing,
    }  # fmt: skip


def versus(cost: pd.DataFrame, first: str, second: str, where: str) -> dict[str, Any]:
    """Settings in which the mean cost of one algorithm is lower than that of another."""
    part = cost[cost["data"].eq("mixture")].query(where)
    middle = part.pivot_table(index=SETTING, columns="algorithm", values="cost_per_point")
    cells = lower(part, first, second, keys=SETTING, value="cost_per_point", by="algorithm")
    return {"cells": cells, "ratio": (middle[first] / middle[second]).median()}


def trust(table: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """Cells are sizes n: the same Lloyd from one start under three trust models."""
    part = table[table["epsilon"] == epsilon].set_index(["trust", "algorithm", "n"])
    part = part.sort_index()
    mean, ci, excess = part["cost_per_point"], part["ci95"], part["excess_median"]
    local, cells = ("local", "ldp_lloyd"), []
    for other in (("central", "glloyd"), ("secure_sum", "fastlloyd")):
        n = mean[local].index.intersection(mean[other].index)
        half = np.hypot(ci[local][n], ci[other][n])
        cells.append(decided(mean[local][n] - mean[other][n], half))
    last = int(max(mean[local].index))
    shown = ", ".join(
        f"{who} {excess[(*key, last)]:.2g}"
        for who, key in (("trusted server", ("central", "glloyd")),
                         ("secure sum", ("secure_sum", "fastlloyd")), ("local", local))
    )  # fmt: skip
    return {"cells": cells[0] + cells[1], "n": several([last], ".0e"),
            "shown": shown}  # fmt: skip
