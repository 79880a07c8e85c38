"""Depths of the grids: fixed rules, those of the other tables, beside the predicted ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import Federation, Plan, simulate
from studies.bench.cell import Cell, Numbers, seed_of
from studies.ldp_kmeans.problems import Ball, best_ball_cost, load_ball

DELTA = 1e-6
TRIED = ("1", "1-2", "2", "2-3", "2-3-4", "3", "3-4")
"""Depths beside which the predicted ones are put."""


def fixed_one_round(federation: Federation, *, epsilon: float, **asked: Any) -> Plan:
    """Algorithm 1 at depths 2 and 3 whatever n, k and epsilon; sums at 3 from epsilon 3 on."""
    asked |= {"depths": (2, 3), "sums_depth": 3 if epsilon >= 3 else 2}
    return lk.plan(federation, epsilon=epsilon, **asked)


def fixed_four_rounds(federation: Federation, **asked: Any) -> Plan:
    """Algorithm 4 at depths 1, 2 and 3."""
    return lk.plan_four_rounds(federation, depths=(1, 2, 3), **asked)


PLANNERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "alg1": (lk.plan, fixed_one_round), "alg4": (lk.plan_four_rounds, fixed_four_rounds),
}  # fmt: skip
"""Algorithm -> its planner, and the one with fixed depths."""


def depths_cost(cell: Cell, *, ball: Ball, algorithm: str, epsilon: float, rule: str) -> Numbers:
    """Cost over the optimum with "predicted" or "fixed" depths, or those that `rule` names.

    All rules have the same coins, so the same projection and the same start of the server.
    """
    problem, (predicted, fixed) = load_ball(ball), PLANNERS[algorithm]
    protocol, server = seed_of(f"{ball.name}/{algorithm}/{epsilon:g}").spawn(2)
    users = simulate(problem.points, "local", seed=protocol)
    asked: dict[str, Any] = {"n_clusters": ball.k, "epsilon": epsilon, "delta": DELTA}
    if rule[0].isdigit():
        asked["depths"] = tuple(int(p) for p in rule.split("-"))
    plan = (fixed if rule == "fixed" else predicted)(users, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lk.NothingDetectedWarning)
        centers = lk.run(users, plan, rng=np.random.default_rng(server)).centers
    over = problem.cost(centers) / best_ball_cost(ball)
    asked_at, sums_at = plan.broadcasts("depths")[0], plan.broadcasts("depth")
    return {
        "over_optimum": over, "log": float(np.log(over)), "coarsest": asked_at[0],
        "finest": asked_at[-1], "sums_depth": sums_at[0] if sums_at else np.nan,
    }  # fmt: skip


SETTING = ["data", "n", "dprime", "k", "algorithm", "epsilon"]


def against_best(depths: pd.DataFrame) -> dict[str, Any]:
    """P.depths.best: the depths chosen against the best of all that were tried."""
    log = depths.pivot_table(index=SETTING, columns="rule", values="log")
    best = log.drop(columns=["predicted", "fixed"]).min(axis=1).dropna()
    off = {rule: (log[rule] - best).dropna().map(math.exp) for rule in ("predicted", "fixed")}
    return {"n": len(best), "mean": np.exp(np.log(off["predicted"]).mean()),
            "worst": off["predicted"].max(), "fixed": np.exp(np.log(off["fixed"]).mean()),
            "fixed_worst": off["fixed"].max()}  # fmt: skip
