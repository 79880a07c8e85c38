"""Designs of the FedDP-KMeans tables (Scott, Lampert, Saulpic 2025) and how they are put together.

`tables` registers `FEDDP_TABLES`; what is measured is in `feddp_cells`, the data sets in
`feddp_problems`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from fedclust_helpers.studies.fastlloyd.cells import Cell, summary
from fedclust_helpers.studies.feddp_kmeans.cells import (
    cost_cell,
    elbow_cell,
    pareto_cell,
    random_settings,
)
from fedclust_helpers.studies.feddp_kmeans.problems import UNITS, mixture_name

if TYPE_CHECKING:
    from fedclust_helpers.studies.fastlloyd.tables import Design

Settings = tuple[tuple[str, int, int], ...]
PANELS: Settings = (
    ("data", 100, 1000),
    ("client", 1000, 50),
    ("client", 2000, 50),
    ("client", 5000, 50),
)
"""Level, clients and rows per client of Figures 1, 10, 2 and 11 (left panels)."""
CHUNK = 50  # random settings per cell
CENSUS = ("not_for_profit", "federal", "self_employed")
COST_COLUMNS = ["method", "eps_total", "T", "seeds", "cost_mean", "ci95", "excess_mean"]
STEP_COLUMNS = {
    "eps1": "outer",
    "eps2": "weights",
    "eps3G": "sums",
    "eps3L": "counts",
    "eps4G": "lloyd_sums",
    "eps4L": "lloyd_counts",
}


@dataclass(frozen=True)
class FedDPDesign:
    """How large the FedDP tables are made; a part of `Design`."""

    panels: Settings = PANELS
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
    elbow: tuple[tuple[str, int, int, tuple[float, ...]], ...] = (
        ("data", 100, 1000, (0.05, 0.1, 0.2, 0.5, 1.0)),
        ("client", 2000, 50, (0.5, 1.0, 2.0, 4.0)),
    )
    elbow_k_primes: tuple[int, ...] = (20, 10)
    elbow_k_max: int = 20
    elbow_seeds: int = 5
    census: tuple[str, ...] = tuple(f"census_{employment}" for employment in CENSUS)
    census_epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    census_seeds: int = 3


QUICK_FEDDP = FedDPDesign(
    panels=(("data", 20, 50), ("client", 100, 10)),
    d=6,
    k=3,
    epsilons=(0.5,),
    rounds=(0, 1),
    start_rounds=(1,),
    settings=4,
    start_settings=2,
    missing=(0, 1),
    elbow=(("data", 20, 50, (1.0,)),),
    elbow_k_primes=(5,),
    elbow_k_max=6,
    census=("strips_8",),  # no download
    census_epsilons=(0.5,),
)
"""Tiny tables for tests."""


def _names(design: Design, panels: Settings, default_seeds: int, *, missing: int = 0) -> list[str]:
    feddp = design.feddp
    return [
        mixture_name(level, clients, rows, d=feddp.d, k=feddp.k, seed=seed, missing=missing)
        for level, clients, rows in panels
        for seed in range(design.runs or default_seeds)
    ]


# --- costs at a fixed total epsilon ---------------------------------------------------------------


def _cost_group(
    table: str,
    datasets: list[str],
    *,
    epsilons: tuple[float, ...],
    rounds: tuple[int, ...],
    start_rounds: tuple[int, ...],
    kfed: bool = True,
) -> list[Cell]:
    options = {
        "paper": (("epsilons", epsilons), ("rounds", rounds), ("start_rounds", start_rounds)),
        "adaptive": (("epsilons", epsilons),),
        "start": (),
        "kfed": (),
    }
    groups = list(options) if kfed else list(options)[:-1]
    return [
        Cell(table, dataset, group, math.inf, 1, "server", options[group])
        for dataset in datasets
        for group in groups
    ]


def _long(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each data set, method, T and epsilon: its cost, and its excess over optimal."""
    results = [name for name in frame.columns if name.count("|") == 2]
    long = frame.melt("dataset", results, value_name="cost").dropna(subset="cost")
    keys = long["variable"].str.split("|", expand=True)
    long = long.assign(method=keys[0], T=keys[1].astype(int), eps_total=keys[2].astype(float))
    best = long[long["method"] == "optimal"].set_index("dataset")["cost"]
    return long.assign(excess=long["cost"] - long["dataset"].map(best))


def _summarise(long: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean over data sets for each setting; T of the adaptive method is its most frequent choice.

    Methods in the order in which they appear, then T, then epsilon.
    """
    order = {name: i for i, name in enumerate(("feddp", "feddp_adaptive", *STARTS, "kfed"))}
    adaptive = long["method"] == "feddp_adaptive"
    groups = long.assign(
        chosen=long["T"], T=long["T"].mask(adaptive, 0), order=long["method"].map(order).fillna(9)
    ).groupby([*keys, "order", "method", "T", "eps_total"], sort=False)
    rows = []
    for key, part in groups:
        named = dict(zip([*keys, "order", "method", "T", "eps_total"], key, strict=True))
        costs = summary(part["cost"])
        rows.append(
            named
            | {
                "T": int(part["chosen"].mode().iloc[0]),
                "sort_T": named["T"],
                "seeds": len(part),
                "cost_mean": costs["mean"],
                "ci95": costs["ci95"],
                "excess_mean": float(part["excess"].mean()),
                "excess_max": float(part["excess"].max()),
            }
        )
    table = pd.DataFrame(rows)
    for name in keys:  # keep the order of the design
        table[f"rank_{name}"] = table[name].map({v: i for i, v in enumerate(long[name].unique())})
    ranks = [f"rank_{name}" for name in keys]
    table = table.sort_values([*ranks, "order", "sort_T", "eps_total"], kind="stable")
    return table[[*keys, *COST_COLUMNS, "excess_max"]]


def _with_mixture(long: pd.DataFrame) -> pd.DataFrame:
    parts = long["dataset"].str.split("_")
    return long.assign(
        level=parts.str[0], clients=parts.str[1].astype(int), missing=parts.str[6].astype(int)
    )


def _cost_cells(design: Design) -> list[Cell]:
    feddp = design.feddp
    return _cost_group(
        "feddp_cost", _names(design, feddp.panels, feddp.cost_seeds),
        epsilons=feddp.epsilons, rounds=feddp.rounds, start_rounds=feddp.start_rounds,
    )  # fmt: skip


def _finish_cost(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    long = _with_mixture(_long(frame)).sort_values("dataset", key=_design_order(frame))
    return {"feddp_cost": _summarise(long, ["level", "clients"])}


def _design_order(frame: pd.DataFrame) -> Callable[[pd.Series], pd.Series]:
    places = {name: i for i, name in enumerate(frame["dataset"].unique())}
    return lambda names: names.map(places)


def _missing_cells(design: Design) -> list[Cell]:
    feddp = design.feddp
    return [
        cell
        for missing in feddp.missing
        for cell in _cost_group(
            "feddp_missing",
            _names(design, feddp.panels[:1], feddp.missing_seeds, missing=missing),
            epsilons=feddp.epsilons, rounds=(0, 1), start_rounds=(1, 3), kfed=False,
        )
    ]  # fmt: skip


def _finish_missing(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    return {"feddp_missing": _summarise(_with_mixture(_long(frame)), ["missing"])}


def _census_cells(design: Design) -> list[Cell]:
    feddp = design.feddp
    seeds = range(design.runs or feddp.census_seeds)
    return _cost_group(
        "feddp_census", [f"{name}_{seed}" for name in feddp.census for seed in seeds],
        epsilons=feddp.census_epsilons, rounds=(0, 1), start_rounds=(1,),
    )  # fmt: skip


def _finish_census(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    long = _long(frame)
    names = long["dataset"].str.removeprefix("census_").str.rsplit("_", n=1).str[0]
    return {"feddp_census": _summarise(long.assign(employment=names), ["employment"])}


# --- Pareto fronts, Tables 2 to 5 -----------------------------------------------------------------


def _pareto_cells(design: Design) -> list[Cell]:
    feddp = design.feddp
    sizes = {"feddp": feddp.settings} | dict.fromkeys(STARTS, feddp.start_settings)
    chunks = [
        (method, (("first", first), ("last", min(first + CHUNK, size))))
        for method, size in sizes.items()
        for first in range(0, size, CHUNK)
    ]
    levels = dict.fromkeys(level for level, _, _ in feddp.panels)
    names = [f"budgets_{level}" for level in levels]
    names += _names(design, feddp.panels, feddp.pareto_seeds)
    return [
        Cell("feddp_pareto", name, method, math.inf, 1, "server", chunk)
        for name in names
        for method, chunk in chunks
    ]


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


def _finish_pareto(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    results = [name for name in frame.columns if name.count("|") == 1]
    long = frame.melt(["dataset", "optimal"], results).dropna(subset="value")
    names, parts = long["variable"].str.split("|", expand=True), long["dataset"].str.split("_")
    long = long.assign(
        method=names[0], setting=names[1].astype(int), level=parts.str[0], clients=parts.str[1]
    )
    totals = long[long["level"] == "budgets"].set_index(["clients", "method", "setting"])["value"]
    costs = long[long["level"] != "budgets"].copy()
    costs["excess"] = costs["value"] - costs["optimal"]
    costs["panel"] = costs["level"] + "_" + costs["clients"]
    keys = ["level", "panel", "method", "setting"]
    means = costs.groupby(keys, sort=False).agg(
        seeds=("value", "size"), cost_mean=("value", "mean"), excess_mean=("excess", "mean")
    )
    rows = []
    for record in means.reset_index().to_dict("records"):
        mean = {str(name): value for name, value in record.items()}
        level, method, setting = mean.pop("level"), mean["method"], mean["setting"]
        budgets = random_settings(level, method, setting + 1)[setting]
        steps = {column: getattr(budgets, name) for column, name in STEP_COLUMNS.items()}
        total = totals[level, method, setting]
        rows.append({**mean, **steps, "T": budgets.n_rounds, "eps_total": total})
    last = ["seeds", "cost_mean", "excess_mean"]
    table = pd.DataFrame(rows)[[*keys[1:], *STEP_COLUMNS, "T", "eps_total", *last]]
    order = {f"{level}_{clients}": i for i, (level, clients) in enumerate(_panels(costs))}
    methods = {name: i for i, name in enumerate(("feddp", *STARTS))}
    table = table.sort_values(
        ["panel", "method", "setting"],
        key=lambda c: c.map(order if c.name == "panel" else methods) if c.dtype != int else c,
    )
    table["pareto"] = 0
    for _, part in table.groupby(["panel", "method"], sort=False):
        front = pareto_front(part["eps_total"].to_numpy(), part["excess_mean"].to_numpy())
        table.loc[part.index, "pareto"] = front.astype(int)
    return {"feddp_pareto": table, "feddp_proportions": _proportions(table)}


def _panels(costs: pd.DataFrame) -> list[tuple[str, str]]:
    pairs = costs[["level", "clients"]].drop_duplicates()
    return sorted(
        pairs.itertuples(index=False, name=None),
        key=lambda p: (list(UNITS).index(p[0]), int(p[1])),
    )


PAPER_PROPORTIONS = {
    "data_100": ((0.18, 0.23, 0.43, 0.17), (0.61, 0.39, 0.0)),
    "client_1000": ((0.38, 0.09, 0.42, 0.10), (0.86, 0.11, 0.04)),
    "client_2000": ((0.43, 0.10, 0.36, 0.11), (0.80, 0.17, 0.03)),
    "client_5000": ((0.43, 0.09, 0.37, 0.11), (0.81, 0.10, 0.10)),
}
"""Gaussian rows of Tables 2 and 3 (shares of steps) and of Tables 4 and 5 (shares of T)."""


def _proportions(pareto: pd.DataFrame) -> pd.DataFrame:
    """Tables 2 to 5 from the Pareto-optimal runs of FedDP-KMeans, beside the paper's numbers.

    "ours" is the paper's statistic: mean step budget over mean sum of the four. All settings drawn
    have equal shares on average, which is what a table of chance alone would show.
    """
    rows = []
    steps = list(STEP_COLUMNS)[:4]
    for panel, part in pareto[pareto["method"] == "feddp"].groupby("panel", sort=False):
        front = part[part["pareto"] == 1]
        shares, rounds = PAPER_PROPORTIONS.get(str(panel), ((math.nan,) * 4, (math.nan,) * 3))
        tables = ("2", "4") if str(panel).startswith("data") else ("3", "5")
        for step, paper in zip(steps, shares, strict=True):
            each = front[step] / front[steps].sum(axis=1)
            rows.append((tables[0], panel, step, paper,
                         front[step].sum() / front[steps].to_numpy().sum(), each.mean(),
                         part[step].sum() / part[steps].to_numpy().sum(), len(front)))  # fmt: skip
        for n_rounds, paper in enumerate(rounds):
            share = (front["T"] == n_rounds).mean()
            rows.append((tables[1], panel, f"T={n_rounds}", paper, share, share,
                         (part["T"] == n_rounds).mean(), len(front)))  # fmt: skip
    columns = ["table", "panel", "quantity", "paper", "ours", "ours_mean_of_shares"]
    return pd.DataFrame(rows, columns=[*columns, "all_settings", "pareto_runs"])


# --- Figure 7 -------------------------------------------------------------------------------------


def _elbow_cells(design: Design) -> list[Cell]:
    feddp = design.feddp
    return [
        Cell("feddp_elbow", name, "feddp", epsilon, 1, "server",
             (("k_prime", k_prime), ("k_max", feddp.elbow_k_max)))
        for k_prime in feddp.elbow_k_primes
        for level, clients, rows, epsilons in feddp.elbow
        for name in _names(design, ((level, clients, rows),), feddp.elbow_seeds)
        for epsilon in epsilons
    ]  # fmt: skip


def _finish_elbow(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Columns eps1 = eps2 and what both cost; the elbow is that of each data set's own curve."""
    parts = frame["dataset"].str.split("_")
    frame = frame.assign(
        level=parts.str[0], clients=parts.str[1].astype(int), true_k=parts.str[4].astype(int)
    )
    rows = []
    keys = ["k_prime", "level", "clients", "epsilon"]
    for (k_prime, level, clients, epsilon), part in frame.groupby(keys, sort=False):
        true_k = part["true_k"].iloc[0]
        for name in (column for column in frame.columns if column.startswith("k|")):
            costs = summary(part[name])
            rows.append(
                {
                    "level": level, "clients": clients, "eps1": epsilon, "eps2": epsilon,
                    "eps_total": part["eps_total"].iloc[0], "k_prime": k_prime,
                    "k": int(name[2:]), "seeds": len(part), "cost_mean": costs["mean"],
                    "ci95": costs["ci95"], "elbow_median": part["elbow"].median(),
                    "elbow_is_true_k": (part["elbow"] == true_k).mean(),
                    "elbow_within_1": ((part["elbow"] - true_k).abs() <= 1).mean(),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows)
    order = {"k_prime": False, "clients": True, "eps1": True, "k": True}
    return {"feddp_elbow": table.sort_values(list(order), ascending=list(order.values()))}


FEDDP_TABLES = {
    "feddp_cost": (_cost_cells, cost_cell, _finish_cost),
    "feddp_pareto": (_pareto_cells, pareto_cell, _finish_pareto),
    "feddp_missing": (_missing_cells, cost_cell, _finish_missing),
    "feddp_elbow": (_elbow_cells, elbow_cell, _finish_elbow),
    "feddp_census": (_census_cells, cost_cell, _finish_census),
}
"""Name -> cells, measure, finish: the arguments of `tables.Table`."""
