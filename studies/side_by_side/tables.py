"""The tables of all algorithms and trust models on the same data: their designs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.fastlloyd import known_groups_excess
from studies.bench.cell import Design, Settings, Table, ci95, grid, mean, tables_of
from studies.side_by_side.cells import BAD, PAIRS, Task, asked, measure

DECIDED = (
    ("none", "public_rows"), ("ideal", "feddp"), ("masked", "overclustered"),
    ("masked", "fastlloyd"), ("shuffled", "sketch"), ("local", "sketch"), ("local", "alg1"),
)  # fmt: skip
"""(trust model, method) of the decision table."""
REAL = {"s1": (5000, 2, 15), "adult": (48_842, 6, 3), "digits": (1797, 64, 10)}
"""Real sets: n, d, k."""


@dataclass(frozen=True, kw_only=True)
class SideDesign(Design):
    """How large the table is made: dials of a mixture are turned one at a time, from `base`."""

    base: tuple[int, int, int] = (100_000, 2, 5)
    sizes: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    size_epsilons: tuple[float, ...] = (1.0, 4.0)
    dimensions: tuple[int, ...] = (2, 4, 8, 16)
    clusters: tuple[int, ...] = (2, 5, 10, 20)
    epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    real: tuple[str, ...] = tuple(REAL)
    real_epsilons: tuple[float, ...] = (1.0,)
    seeds: int = 20
    decided: tuple[tuple[int, int, int], ...] = (
        (1000, 2, 5), (10_000, 2, 5), (100_000, 2, 5),
        (1000, 8, 5), (10_000, 8, 5), (100_000, 8, 5),
        (10_000, 10, 10), (50_000, 10, 10),
    )  # fmt: skip
    """n, d, k of the decision table."""
    decided_seeds: int = 20


FULL = SideDesign()
QUICK = SideDesign(
    base=(3000, 2, 3), sizes=(3000,), size_epsilons=(4.0,), dimensions=(3,), clusters=(),
    epsilons=(), real=(), decided=((1000, 2, 3),), runs=1,
)  # fmt: skip


def _tasks(design: SideDesign) -> dict[tuple[Task, float], None]:
    """All (task, epsilon), each once, in order."""
    n, d, k = design.base
    found = [
        (Task("mixture", size, d, k), epsilon)
        for epsilon in design.size_epsilons for size in design.sizes
    ]  # fmt: skip
    found += [(Task("mixture", n, each, k), 1.0) for each in design.dimensions]
    found += [(Task("mixture", n, d, each), 1.0) for each in design.clusters]
    found += [(Task("mixture", n, d, k), epsilon) for epsilon in design.epsilons]
    found += [
        (Task(data, *REAL[data]), epsilon)
        for data in design.real for epsilon in design.real_epsilons
    ]  # fmt: skip
    return dict.fromkeys(found)


def _side_by_side(design: SideDesign) -> Iterator[Settings]:
    for task, epsilon in _tasks(design):
        for seed in range(design.at_most(design.seeds)):
            for trust, method in PAIRS:  # innermost: the points of a seed are kept
                yield from grid(task=task, trust=trust, method=method, epsilon=epsilon, seed=seed)


def _decisions(design: SideDesign) -> Iterator[Settings]:
    for size in design.decided:
        for seed in range(design.at_most(design.decided_seeds)):
            for trust, method in DECIDED:  # innermost: the points of a seed are kept
                task = Task("mixture", *size)
                yield from grid(task=task, trust=trust, method=method, epsilon=1.0, seed=seed)


def _low(cost: pd.Series) -> float:
    return float(cost.quantile(0.1))


def _high(cost: pd.Series) -> float:
    return float(cost.quantile(0.9))


def _bad(cost: pd.Series) -> float:
    return float((cost > BAD).mean())


def _name(settings: Settings) -> str:
    task = "/".join(map(str, settings["task"]))
    return "{}/{trust}/{method}/{epsilon:g}/{seed}".format(task, **settings)


def limited(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """With `known`: what noise adds to the best cost of a sum, as a share, if groups are known."""
    rows = frame[["n", "k", "d", "epsilon", "trust"]].itertuples(index=False)
    frame["known"] = [
        known_groups_excess(n, k, d, gdp_mu(*asked("overclustered", epsilon)))
        if trust not in ("none", "shuffled", "local") else math.nan
        for n, k, d, epsilon, trust in rows
    ]  # fmt: skip
    return frame


TABLES = tables_of(
    FULL, QUICK,
    Table(
        "side_by_side", _side_by_side, measure,
        "data,n,d,k,trust,method,epsilon,seeds,over_optimum,ci95,median,low,high,bad,rounds,bytes,"
        "seconds,known",
        seed=_name, finish=limited,
        means={"over_optimum": ("over_optimum", mean), "ci95": ("over_optimum", ci95),
               "median": ("over_optimum", "median"),
               "low": ("over_optimum", _low), "high": ("over_optimum", _high),
               "bad": ("over_optimum", _bad),
               "rounds": ("rounds", mean), "bytes": ("bytes", mean),
               "seconds": ("seconds", "median")},
        # where a search of a likelihood ends depends on the last digits of a processor
        anew=("over_optimum", "ci95", "median", "low", "high", "bad", "seconds"),
    ),
    Table(
        "decisions", _decisions, measure,
        "data,n,d,k,trust,method,epsilon,seed,over_optimum,rounds,bytes,seconds",
        seed=_name, anew=("over_optimum", "seconds"),
    ),
)  # fmt: skip
"""Name -> table."""
