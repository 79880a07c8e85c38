"""The tables of FedDP-KMeans (Scott, Lampert, Saulpic 2025): designs, and how cells become rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from studies.bench import cell as bench
from studies.feddp_kmeans.cells import (
    NO_ROUNDS,
    cost,
    elbow_curve,
    pareto,
    random_settings,
)
from studies.feddp_kmeans.problems import Level, Mixture, Real

Panel = tuple[Level, int, int]  # level, clients, rows per client
STEPS = {
    "eps1": "outer", "eps2": "weights", "eps3G": "sums", "eps3L": "counts",
    "eps4G": "lloyd_sums", "eps4L": "lloyd_counts",
}  # fmt: skip
"""Columns of the step budgets -> fields of `StepBudgets`."""
ORDER = ("feddp", "feddp_adaptive", *STARTS, "kfed", "optimal")
PAPER_PROPORTIONS = {
    "point_100": ((0.18, 0.23, 0.43, 0.17), (0.61, 0.39, 0.0)),
    "client_1000": ((0.38, 0.09, 0.42, 0.10), (0.86, 0.11, 0.04)),
    "client_2000": ((0.43, 0.10, 0.36, 0.11), (0.80, 0.17, 0.03)),
    "client_5000": ((0.43, 0.09, 0.37, 0.11), (0.81, 0.10, 0.10)),
}
"""Gaussian rows of Tables 2 and 3 (shares of steps) and of Tables 4 and 5 (shares of T)."""


@dataclass(frozen=True, kw_only=True)
class FedDPDesign(bench.Design):
    """How large the FedDP tables are made; the panels are Figures 1, 10, 2 and 11 (left)."""

    panels: tuple[Panel, ...] = (
        ("point", 100, 1000), ("client", 1000, 50), ("client", 2000, 50), ("client", 5000, 50),
    )  # fmt: skip
    d: int = 100
    k: int = 10
    epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    rounds: tuple[int, ...] = (0, 1, 2, 3)
    start_rounds: tuple[int, ...] = (1, 2, 3)
    cost_seeds: int = 10
    settings: int = 300
    start_settings: int = 60  # for each of the three public starts
    pareto_seeds: int = 3
    missing: tuple[int, ...] = (0, 1, 2, 5)
    missing_seeds: int = 5
    elbow: tuple[tuple[Panel, tuple[float, ...]], ...] = (
        (("point", 100, 1000), (0.05, 0.1, 0.2, 0.5, 1.0)),
        (("client", 2000, 50), (0.5, 1.0, 2.0, 4.0)),
    )
    elbow_k_primes: tuple[int, ...] = (20, 10)
    elbow_k_max: int = 20
    elbow_seeds: int = 5
    census: tuple[str, ...] = ("not_for_profit", "federal", "self_employed")
    census_epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    census_seeds: int = 3

    def mixtures(self, panel: Panel, seeds: int, missing: int = 0) -> Iterator[Mixture]:
        """The data sets of a panel, one for each seed."""
        for seed in range(self.repeated(seeds)):
            yield Mixture(*panel, self.d, self.k, seed, missing)


FULL = FedDPDesign()
QUICK = FedDPDesign(
    panels=(("point", 20, 50), ("client", 100, 10)), d=6, k=3, epsilons=(0.5,), rounds=(0, 1),
    start_rounds=(1,), settings=4, start_settings=2, missing=(0, 1),
    elbow=((("point", 20, 50), (1.0,)),), elbow_k_primes=(5,), elbow_k_max=6,
    census=("strips_8",),  # no download
    census_epsilons=(0.5,), runs=2,
)  # fmt: skip


# --- costs at a fixed total epsilon: feddp_cost, feddp_missing, feddp_census ----------------------


def _runs(
    sets: Iterable[Mixture | Real],
    epsilons: tuple[float, ...],
    rounds: tuple[int, ...],
    start_rounds: tuple[int, ...],
    others: tuple[str, ...] = ("kfed", "optimal"),
) -> Iterator[bench.Settings]:
    """All runs on each data set; the rounds of the adaptive method are its own choice."""
    for data in sets:
        yield from bench.grid(data=data, method="feddp", T=rounds, eps_total=epsilons)
        yield from bench.grid(data=data, method=STARTS, T=start_rounds, eps_total=epsilons)
        yield from bench.grid(data=data, method="feddp_adaptive", T=0, eps_total=epsilons)
        yield from bench.grid(data=data, method=STARTS, T=0, eps_total=0.0)
        yield from bench.grid(data=data, method=others, T=NO_ROUNDS, eps_total=math.inf)


def _costs(keys: list[str], frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Means over data sets; T of the adaptive method is its most frequent choice."""
    names = [*Mixture._fields] if "level" in frame else [*Real._fields]
    best = frame[frame["method"] == "optimal"].set_index(names)["cost"]
    optimum = best.loc[list(frame[names].itertuples(index=False, name=None))]
    table = bench.grouped(
        frame.assign(excess=frame["cost"] - optimum.to_numpy()),
        [*keys, "method", "T", "eps_total"], cost_mean=("cost", bench.mean),
        ci95=("cost", bench.ci95), excess_mean=("excess", "mean"), excess_max=("excess", "max"),
        chosen=("chosen", lambda rounds: int(rounds.mode().iloc[0])),
    )  # fmt: skip
    places = {name: frame[name].unique() for name in keys}  # the order of the design
    table = bench.sorted_by(table, **places, method=ORDER, T=None, eps_total=None)
    return table.assign(T=table["chosen"])


def _cost(design: FedDPDesign) -> Iterator[bench.Settings]:
    sets = [m for panel in design.panels for m in design.mixtures(panel, design.cost_seeds)]
    yield from _runs(sets, design.epsilons, design.rounds, design.start_rounds)


def _missing(design: FedDPDesign) -> Iterator[bench.Settings]:
    seeds, panel = design.missing_seeds, design.panels[0]
    sets = [m for each in design.missing for m in design.mixtures(panel, seeds, missing=each)]
    yield from _runs(sets, design.epsilons, (0, 1), (1, 3), others=("optimal",))


def _census(design: FedDPDesign) -> Iterator[bench.Settings]:
    seeds = range(design.repeated(design.census_seeds))
    sets = [Real(name, seed) for name in design.census for seed in seeds]
    yield from _runs(sets, design.census_epsilons, (0, 1), (1,))


# --- Pareto fronts, Tables 2 to 5 -----------------------------------------------------------------


def _pareto(design: FedDPDesign) -> Iterator[bench.Settings]:
    sizes = {"feddp": design.settings} | dict.fromkeys(STARTS, design.start_settings)
    levels = dict.fromkeys(level for level, _, _ in design.panels)
    sets: list[tuple[Level, Mixture | None]] = [(level, None) for level in levels]
    for panel in design.panels:
        sets += [(panel[0], m) for m in design.mixtures(panel, design.pareto_seeds)]
    for level, data in sets:
        for method, size in sizes.items():
            yield from bench.grid(level=level, method=method, setting=range(size), data=data)


def pareto_front(epsilon: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Mask (n,) of the settings that no other one beats in both total epsilon and cost.

    Examples
    --------
    >>> pareto_front(np.array([1.0, 2.0, 3.0]), np.array([5.0, 6.0, 4.0])).tolist()
    [True, False, True]
    """
    order = np.lexsort((cost, epsilon))
    best = np.minimum.accumulate(cost[order])
    front = np.zeros(len(cost), dtype=bool)
    front[order] = np.concatenate([[True], cost[order][1:] < best[:-1]])
    return front


def _finish_pareto(frame: pd.DataFrame, folder: Path) -> bench.Files:
    if "clients" not in frame:  # what settings cost, asked for without a run
        return {}
    setting = ["level", "method", "setting"]
    totals = frame[frame["clients"].isna()].set_index(setting)["eps_total"]
    runs = frame[frame["clients"].notna()].astype({"clients": int})
    runs["panel"] = runs["level"] + "_" + runs["clients"].astype(str)
    table = bench.grouped(
        runs, ["clients", "panel", *setting], cost_mean=("cost", "mean"),
        excess_mean=("excess", "mean"),
    )  # fmt: skip
    keys = list(table[setting].itertuples(index=False, name=None))
    budgets = [random_settings(level, method, i + 1)[i] for level, method, i in keys]
    for column, name in STEPS.items():
        table[column] = [getattr(budget, name) for budget in budgets]
    table["T"] = [budget.n_rounds for budget in budgets]
    table["eps_total"] = totals.loc[keys].to_numpy()
    table = bench.sorted_by(
        table, level=("point", "client"), clients=None, method=ORDER, setting=None
    )  # fmt: skip
    table["pareto"] = 0
    for _, part in table.groupby(["panel", "method"], sort=False):
        front = pareto_front(part["eps_total"].to_numpy(), part["excess_mean"].to_numpy())
        table.loc[part.index, "pareto"] = front.astype(int)
    return {"feddp_pareto": table, "feddp_proportions": _proportions(table)}


def _proportions(pareto: pd.DataFrame) -> pd.DataFrame:
    """Tables 2 to 5 from the Pareto-optimal runs of FedDP-KMeans, beside the paper's numbers.

    "ours" is the paper's statistic: mean step budget over mean sum of the four. All settings drawn
    have equal shares on average, which is what a table of chance alone would show.
    """
    rows = []
    steps = list(STEPS)[:4]
    for panel, part in pareto[pareto["method"] == "feddp"].groupby("panel", sort=False):
        front = part[part["pareto"] == 1]
        shares, rounds = PAPER_PROPORTIONS.get(str(panel), ((math.nan,) * 4, (math.nan,) * 3))
        tables = ("2", "4") if str(panel).startswith("point") else ("3", "5")
        for step, paper in zip(steps, shares, strict=True):
            each = front[step] / front[steps].sum(axis=1)
            rows.append((tables[0], panel, step, paper,
                         front[step].sum() / front[steps].to_numpy().sum(), each.mean(),
                         part[step].sum() / part[steps].to_numpy().sum(), len(front)))  # fmt: skip
        for n_rounds, paper in enumerate(rounds):
            share = (front["T"] == n_rounds).mean()
            rows.append((tables[1], panel, f"T={n_rounds}", paper, share, share,
                         (part["T"] == n_rounds).mean(), len(front)))  # fmt: skip
    return pd.DataFrame(rows, columns=PROPORTIONS.split(","))


# --- Figure 7 -------------------------------------------------------------------------------------


def _elbow(design: FedDPDesign) -> Iterator[bench.Settings]:
    for k_prime in design.elbow_k_primes:
        for panel, epsilons in design.elbow:
            sets = design.mixtures(panel, design.elbow_seeds)
            yield from bench.grid(
                data=sets, k_prime=k_prime, k_max=design.elbow_k_max, eps1=epsilons
            )


def _finish_elbow(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Columns eps1 = eps2 and what both cost; the elbow is that of each data set's own curve."""
    gap = (frame["elbow"] - frame["k"]).abs()
    frame = frame.assign(eps2=frame["eps1"], right=gap == 0, near=gap <= 1).drop(columns="k")
    return bench.melted(frame, "k", "k", "cost")


PROPORTIONS = "table,panel,quantity,paper,ours,ours_mean_of_shares,all_settings,pareto_runs"
COST = "method,eps_total,T,seeds,cost_mean,ci95,excess_mean,excess_max"


def _cost_table(
    name: str, settings: Callable[[FedDPDesign], Iterator[bench.Settings]], *keys: str
) -> bench.Table:
    return bench.Table(
        name, settings, cost, ",".join([*keys, COST]), finish=partial(_costs, list(keys)),
        beside={"method": "optimal"}, paired=("data",),
    )  # fmt: skip


TABLES = bench.tables_of(
    FULL,
    QUICK,
    _cost_table("feddp_cost", _cost, "level", "clients"),
    bench.Table(
        "feddp_pareto", _pareto, pareto,
        {
            "feddp_pareto": f"panel,method,setting,{','.join(STEPS)},T,eps_total,seeds,cost_mean,"
            "excess_mean,pareto",
            "feddp_proportions": PROPORTIONS,
        },
        finish=_finish_pareto, beside={"data": None}, paired=("level", "method", "setting"),
        names=("panel",), whole=("pareto", "feddp_proportions"),
    ),
    _cost_table("feddp_missing", _missing, "missing"),
    bench.Table(
        "feddp_elbow", _elbow, elbow_curve,
        "level,clients,eps1,eps2,eps_total,k_prime,k,seeds,cost_mean,ci95,elbow_median,"
        "elbow_is_true_k,elbow_within_1",
        finish=_finish_elbow, names=("k",),
        means={
            "cost_mean": ("cost", bench.mean), "ci95": ("cost", bench.ci95),
            "elbow_median": ("elbow", "median"), "elbow_is_true_k": ("right", bench.mean),
            "elbow_within_1": ("near", bench.mean),
        },
        order={"k_prime": (20, 10, 5), "clients": None, "eps1": None, "k": None},
    ),
    _cost_table("feddp_census", _census, "employment"),
)  # fmt: skip
