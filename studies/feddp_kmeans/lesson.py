"""Settings of notebook 02, what it is tried with, its random streams, and one table it reads."""

from __future__ import annotations

import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from studies.bench.lesson import Lesson
from studies.bench.results import load_results

LESSON = Lesson(
    settings={
        "SEED": 5, "EPSILON": 1.0, "DELTA": 1e-6, "K": 10, "D": 100, "N_CLIENTS": 100,
        "N_ROWS": 200, "N_MANY": 1000, "N_PHONES": 2000, "N_NOISE": 5, "N_AUDIT": 4000,
    },
    variations={"EPSILON": (0.5, 2.0), "K": (6, 15), "N_ROWS": (100,), "N_PHONES": (1000,)},
    streams=(
        "large", "small", "rounds", "subspace", "weights", "audit", "floor", "baselines", "phones",
        "ablation", "james stein", "planning", "missing", "photo", "colours", "limits", "k",
    ),
)  # fmt: skip
begin = LESSON.begin


def best_costs() -> pd.DataFrame:
    """Mean excess by (level, clients, eps_total) and method at its best T, from `feddp_cost`."""
    keys = ["level", "clients", "eps_total"]
    return load_results("feddp_cost").pivot_table("excess_mean", keys, "method", aggfunc="min")


def against_starts() -> pd.DataFrame:
    """Both private methods beside the best public start: with private rounds, and untouched."""
    best, starts = best_costs(), list(STARTS)
    spent = best[best["feddp"].notna()]
    alone = best.xs(0.0, level="eps_total")[starts].T.min()
    return spent[["feddp", "feddp_adaptive"]].assign(
        start=spent[starts].T.min(),
        untouched=[alone[level, clients] for level, clients, _ in spent.index],
    )


def rival(cells: pd.DataFrame) -> pd.Series:
    """The better public start of each row of `against_starts`."""
    return cells[["start", "untouched"]].T.min()
