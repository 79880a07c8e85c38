"""Designs of the tables on local privacy and how they are put together.

`tables` registers `LDP_TABLES`; what is measured is in `ldp_cells`, the data sets in
`ldp_problems`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fedclust_helpers.studies.fastlloyd.cells import Cell, summary
from fedclust_helpers.studies.ldp_kmeans.blocks import (
    bitstogram_cell,
    collision_cell,
    oracle_cell,
    sums_cell,
)
from fedclust_helpers.studies.ldp_kmeans.cells import (
    ALGORITHMS,
    COUNTS,
    MAX_OPEN,
    TRUST,
    cost_cell,
    scaling_cell,
    trust_cell,
)
from fedclust_helpers.studies.ldp_kmeans.growth import loglog_slope
from fedclust_helpers.studies.ldp_kmeans.problems import ball_name, load_ball

if TYPE_CHECKING:
    from fedclust_helpers.studies.fastlloyd.tables import Design

COST_COLUMNS = [
    "data", "algorithm", "n", "dprime", "k", "epsilon", "seeds", "cost_per_point", "ci95",
    "nonprivate_cost", "seconds", "peak_mb",
]  # fmt: skip
MAIN = (
    "alg1", "alg1_hso", "alg4", "grid_histogram", "ldp_lloyd", "private_mean", "central_glloyd",
)  # fmt: skip
"""Algorithms that run in every setting; the others in some."""
REAL = (("birch2", 100), ("birch2", 10), ("pixels", 8))


@dataclass(frozen=True)
class LdpDesign:
    """How large the tables on local privacy are made; a part of `Design`.

    "gaussian_report", "alg1_printed" and "alg4_lsh" run with k = 5 and `side_seeds` or
    `printed_seeds` only; the first two at some epsilons.
    """

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    dimensions: tuple[int, ...] = (2, 4, 6, 10, 20, 50)
    clusters: tuple[int, ...] = (3, 5, 10)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    seeds: int = 5
    large: int = 15_000_000  # n d' above which there are fewer seeds
    large_seeds: int = 3
    other_seeds: int = 2  # for n = 1e6 and k other than the middle one
    side_seeds: int = 3
    printed_seeds: int = 2
    lsh_sizes: tuple[int, ...] = (1_000_000,)
    huge: tuple[tuple[int, int, int], ...] = tuple((10_000_000, d, 5) for d in (2, 4, 10))
    huge_epsilons: tuple[float, ...] = (1.0, 4.0)
    huge_seeds: int = 2
    real: tuple[tuple[str, int], ...] = REAL
    real_seeds: int = 5
    block_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    block_runs: int = 20
    bitstogram_sizes: tuple[int, ...] = (100_000, 1_000_000)
    bitstogram_runs: int = 20
    sums_dimensions: tuple[int, ...] = (1, 4, 10, 50)
    lsh_pairs: tuple[int, ...] = (4000, 4000, 4000, 4000, 800)  # t = 1, 2, 3, 4, 6
    scaling_sizes: tuple[int, ...] = (
        10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
    )  # fmt: skip
    scaling_seeds: int = 5
    trust_sizes: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    trust_epsilons: tuple[float, ...] = (1.0, 4.0)
    trust_seeds: int = 5


QUICK_LDP = LdpDesign(
    sizes=(2000,),
    dimensions=(2, 8),
    clusters=(5,),
    epsilons=(1.0, 4.0),
    lsh_sizes=(2000,),
    huge=((4000, 2, 5),),
    huge_epsilons=(4.0,),
    real=(("pixels", 3),),
    real_seeds=1,
    block_sizes=(2000,),
    bitstogram_sizes=(20_000,),
    sums_dimensions=(2, 5),
    lsh_pairs=(300, 300),
    scaling_sizes=(10_000, 20_000, 40_000),
    trust_sizes=(2000, 4000),
)
"""Tiny tables for tests."""


# --- ldp_cost -------------------------------------------------------------------------------------


def _cost_cell(dataset: str, algorithm: str, epsilons: tuple[float, ...]) -> Cell:
    return Cell("ldp_cost", dataset, algorithm, math.inf, 1, "none", (("epsilons", epsilons),))


def _cost_cells(design: Design) -> list[Cell]:
    ldp = design.ldp
    out: list[Cell] = []

    def add(name: str, n: int, d: int, k: int, seed: int, epsilons: tuple[float, ...]) -> None:
        """All algorithms on one data set, next to each other: they share the draw."""
        algorithms = dict.fromkeys(MAIN, epsilons)
        few = tuple(e for e in epsilons if e in (1.0, 4.0))
        if k == 5 and few and seed < ldp.side_seeds:
            algorithms["gaussian_report"] = few
        if n in ldp.lsh_sizes and k == 5 and seed < ldp.side_seeds:
            algorithms["alg4_lsh"] = epsilons
        if k == 5 and d <= MAX_OPEN and seed < ldp.printed_seeds and n <= max(ldp.sizes):
            algorithms["alg1_printed"] = tuple(e for e in epsilons if e in (1.0, 4.0, 8.0))
        if d > MAX_OPEN:
            del algorithms["alg1"]
        out.extend(_cost_cell(name, a, algorithms[a]) for a in ALGORITHMS if algorithms.get(a))

    def add_mixtures(n: int, clusters: tuple[int, ...], seeds: int) -> None:
        for d in ldp.dimensions:
            for seed in range(min(seeds, ldp.large_seeds) if n * d > ldp.large else seeds):
                for k in clusters:
                    add(ball_name(n, d, k, seed), n, d, k, seed, ldp.epsilons)

    # cheap and telling settings first: the table takes an hour
    main = ldp.clusters[len(ldp.clusters) // 2]
    large = tuple(n for n in ldp.sizes if n * max(ldp.dimensions) > ldp.large)
    for n in ldp.sizes:
        if n not in large:
            add_mixtures(n, ldp.clusters, design.runs or ldp.seeds)
    for n in large:
        add_mixtures(n, (main,), design.runs or ldp.seeds)
    for kind, k in ldp.real:
        for seed in range(ldp.real_seeds):
            algorithms = (*MAIN, "gaussian_report") if seed < ldp.side_seeds else MAIN
            out += [_cost_cell(f"{kind}_{k}_{seed}", a, ldp.epsilons) for a in algorithms]
    for n, d, k in ldp.huge:
        for seed in range(design.runs or ldp.huge_seeds):
            add(ball_name(n, d, k, seed), n, d, k, seed, ldp.huge_epsilons)
    for n in large:
        others = tuple(k for k in ldp.clusters if k != main)
        add_mixtures(n, others, design.runs or ldp.other_seeds)
    return out


def _finish_cost(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """One row for each kind of data, size, algorithm and epsilon: means over data sets."""
    parts = frame["dataset"].str.split("_")
    real = {name: load_ball(name).shape for name in frame["dataset"] if name[0] != "m"}
    shapes = [
        real.get(name) or dict(zip(("n", "dprime", "k"), map(int, part[1:4]), strict=True))
        for name, part in zip(frame["dataset"], parts, strict=True)
    ]
    frame = frame.assign(**pd.DataFrame(shapes, index=frame.index), data=parts.str[0])
    epsilons = sorted(float(c[5:]) for c in frame.columns if c.startswith("cost|"))
    keys = ["data", "n", "dprime", "k", "method"]
    rows = []
    for key, part in frame.groupby(keys, sort=False):
        for epsilon in epsilons:
            here = part.dropna(subset=f"cost|{epsilon:g}")
            if here.empty:
                continue
            costs = summary(here[f"cost|{epsilon:g}"])
            rows.append(
                dict(zip(keys, key, strict=True))
                | {
                    "epsilon": epsilon, "seeds": len(here), "cost_per_point": costs["mean"],
                    "ci95": costs["ci95"], "nonprivate_cost": here["nonprivate"].mean(),
                    "seconds": here[f"seconds|{epsilon:g}"].mean(),
                    "peak_mb": here[f"peak_mb|{epsilon:g}"].max(),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows).rename(columns={"method": "algorithm"})
    order = {name: i for i, name in enumerate(("mixture", "birch2", "pixels", *ALGORITHMS))}
    table = table.sort_values(
        ["data", "n", "dprime", "k", "algorithm", "epsilon"],
        key=lambda c: c.map(order) if c.name in ("data", "algorithm") else c,
    )
    return {"ldp_cost": table[COST_COLUMNS]}


# --- building blocks ------------------------------------------------------------------------------

ORACLES = ("hadamard", "k-rr", "oue", "sue", "olh")
SLOW_ORACLES = ("oue", "sue", "olh")  # 64 numbers for each user


def _oracle_cells(design: Design) -> list[Cell]:
    ldp = design.ldp
    return [
        Cell("ldp_oracles", f"users_{n}", oracle, epsilon, design.runs or ldp.block_runs, "none")
        for n in ldp.block_sizes
        for oracle in ORACLES
        if oracle not in SLOW_ORACLES or n <= 100_000
        for epsilon in ldp.epsilons
    ]


def _finish_oracles(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Measured standard deviation of a count over the square root of n, beside theory."""
    frame = frame.assign(
        n=frame["dataset"].str.split("_").str[1].astype(int),
        ratio=frame["measured"] / frame["theory"],
    ).rename(columns={"method": "oracle", "measured": "sd"})
    columns = ["oracle", "n", "epsilon", "runs", "sd", "low", "high", "theory", "ratio"]
    return {"ldp_oracles": frame[columns]}


def _bitstogram_cells(design: Design) -> list[Cell]:
    ldp = design.ldp
    return [
        Cell("ldp_bitstogram", f"users_{n}_{bits}", "bitstogram", epsilon,
             design.runs or ldp.bitstogram_runs, "none")
        for n in ldp.bitstogram_sizes
        for bits in (12, 24)
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]  # fmt: skip


BITSTOGRAM_NOTES = {
    (10**5, 12, 1.0): 6348, (10**5, 24, 1.0): 11_285, (10**5, 24, 4.0): 6348,
    (10**6, 12, 1.0): 26_781, (10**6, 24, 1.0): 35_708, (10**6, 24, 4.0): 11_298,
}  # fmt: skip
"""(n, bits, epsilon) -> smallest recovered count of a second implementation, +-15 %."""


def _finish_bitstogram(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    parts = frame["dataset"].str.split("_")
    frame = frame.assign(n=parts.str[1].astype(int), bits=parts.str[2].astype(int))
    keys = zip(frame["n"], frame["bits"], frame["epsilon"], strict=True)
    frame["notes"] = [BITSTOGRAM_NOTES.get(key, math.nan) for key in keys]
    columns = ["n", "bits", "epsilon", "runs", "recovered", "bits_limit", "oracle_limit", "notes"]
    return {"ldp_bitstogram": frame[[*columns, "false_positives", "seconds"]]}


def _sums_cells(design: Design) -> list[Cell]:
    ldp = design.ldp
    settings = [(n, d, "analytic") for n in ldp.block_sizes for d in ldp.sums_dimensions]
    settings += [(max(ldp.block_sizes), d, "as_printed") for d in ldp.sums_dimensions]
    return [
        Cell("ldp_sums", f"users_{n}_{d}", calibration, epsilon, design.runs or 5, "none")
        for n, d, calibration in settings
        for epsilon in (1.0, 4.0)
    ]


def _finish_sums(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    parts = frame["dataset"].str.split("_")
    frame = frame.assign(
        n=parts.str[1].astype(int), dprime=parts.str[2].astype(int),
        ratio=frame["measured"] / frame["theory"], bound_over_p99=frame["bound"] / frame["p99"],
    ).rename(
        columns={"method": "calibration", "measured": "rms", "bound": "lemma_2_12_bound"}
    )  # fmt: skip
    columns = ["calibration", "n", "dprime", "epsilon", "runs", "rms", "low", "high", "theory"]
    return {"ldp_sums": frame[[*columns, "ratio", "p99", "lemma_2_12_bound", "bound_over_p99"]]}


LSH_NOTES = {
    (1, 1.0): 0.4815, (1, 2.0): 0.2888, (1, 4.0): 0.1488, (2, 1.0): 0.4140, (2, 2.0): 0.1713,
    (2, 4.0): 0.0562, (3, 1.0): 0.3475, (3, 2.0): 0.1258, (3, 4.0): 0.0288, (4, 1.0): 0.3252,
    (4, 2.0): 0.1022, (4, 4.0): 0.0135, (6, 1.0): 0.2900, (6, 2.0): 0.0725, (6, 4.0): 0.0062,
}  # fmt: skip
"""(t, distance) -> share of colliding pairs in a second implementation."""


def _lsh_cells(design: Design) -> list[Cell]:
    pairs = design.ldp.lsh_pairs
    cells = [
        Cell("ldp_lsh", f"pairs_{t}_{distance:g}", "simulated", math.inf, count, "none")
        for t, count in zip((1, 2, 3, 4, 6), pairs, strict=False)
        for distance in (1.0, 2.0, 4.0)
    ]
    return cells + [
        Cell("ldp_lsh", f"pairs_{t}_{c:g}", "closed form", math.inf, 0, "none")
        for t in (1, 2, 4, 8, 16, 32, 64, 128)
        for c in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    ]


def _finish_lsh(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """First the simulated distances, then the closed form alone with the ratio of Lemma 2.15."""
    parts = frame["dataset"].str.split("_")
    frame = frame.assign(t=parts.str[1].astype(int), distance=parts.str[2].astype(float))
    keys = zip(frame["t"], frame["distance"], frame["method"], strict=True)
    frame["notes"] = [
        LSH_NOTES.get((t, u), math.nan) if method == "simulated" else math.nan
        for t, u, method in keys
    ]
    frame = frame.rename(
        columns={
            "method": "kind", "runs": "pairs", "closed": "probability",
            "near_square_over": "p1_squared_over_p", "lower_bound": "lower_bound_over_A",
        }
    )  # fmt: skip
    columns = ["kind", "t", "distance", "probability", "pairs", "simulated", "se", "notes"]
    return {"ldp_lsh": frame[[*columns, "lower_bound_over_A", "upper_bound", "p1_squared_over_p"]]}


# --- Table 1 as an experiment ---------------------------------------------------------------------

EXPONENTS = {
    "oracle_error": 0.5, "detection_threshold": 0.5, "sums_error": 0.5,
    "excess_alg1": 0.5, "excess_alg4": 0.5, "excess_ldp_lloyd": math.nan, "zipf_missed": math.nan,
}  # fmt: skip
"""Quantity -> exponent that the paper gives (for an excess: an upper bound on it)."""
SCALING_SHAPE = (4, 5)  # d', k


def _scaling_cells(design: Design) -> list[Cell]:
    ldp = design.ldp
    cells = [
        Cell("ldp_scaling", f"users_{n}_{seed}", quantity, 1.0, 1, "none")
        for n in ldp.scaling_sizes
        for quantity in COUNTS
        if quantity != "sums_error" or n < 10**7  # it holds all users' vectors at once
        for seed in range(design.runs or ldp.scaling_seeds)
    ]
    for n in ldp.scaling_sizes:
        seeds = design.runs or (ldp.scaling_seeds if n < 10**7 else ldp.large_seeds)
        for seed in range(seeds):
            cells += [
                Cell("ldp_scaling", ball_name(n, *SCALING_SHAPE, seed), quantity, 1.0, 1, "none")
                for quantity in EXPONENTS
                if quantity.startswith("excess_")
            ]
    return cells


def _finish_scaling(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Means for each n, and the slope over all single values, which repeats on every row."""
    frame = frame.assign(n=frame["dataset"].str.split("_").str[1].astype(int))
    rows = []
    for quantity, exponent in EXPONENTS.items():
        part = frame[frame["method"] == quantity]
        if part.empty:
            continue
        slope = loglog_slope(part["n"], part["value"])
        for n, here in part.groupby("n"):
            values = summary(here["value"])
            rows.append(
                {
                    "quantity": quantity, "n": n, "epsilon": here["epsilon"].iloc[0],
                    "seeds": len(here), "value": values["mean"], "ci95": values["ci95"],
                    "paper_exponent": exponent, "slope": slope.slope, "slope_low": slope.low,
                    "slope_high": slope.high,
                }
            )  # fmt: skip
    return {"ldp_scaling": pd.DataFrame(rows)}


# --- the price of the trust model -----------------------------------------------------------------


def _trust_cells(design: Design) -> list[Cell]:
    ldp, out = design.ldp, []
    for n in ldp.trust_sizes:
        for seed in range(design.runs or ldp.trust_seeds):
            name = ball_name(n, *SCALING_SHAPE, seed)
            for method, epsilon in TRUST.items():
                epsilons = (math.inf,) if math.isinf(epsilon) else ldp.trust_epsilons
                out += [Cell("ldp_trust", name, method, e, 1, "none") for e in epsilons]
    return out


def _finish_trust(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    parts = frame["dataset"].str.split("_")
    names = frame["method"].str.split("/", expand=True)
    frame = frame.assign(
        trust=names[0], algorithm=names[1], excess=frame["cost"] - frame["nonprivate"],
        n=parts.str[1].astype(int), dprime=parts.str[2].astype(int), k=parts.str[3].astype(int),
    )  # fmt: skip
    keys = ["trust", "algorithm", "epsilon", "n", "dprime", "k"]
    rows = []
    for key, part in frame.groupby(keys, sort=False):
        costs = summary(part["cost"])
        rows.append(
            dict(zip(keys, key, strict=True))
            | {
                "seeds": len(part), "cost_per_point": costs["mean"], "ci95": costs["ci95"],
                "nonprivate_cost": part["nonprivate"].mean(),
                "excess_median": part["excess"].median(),
            }
        )  # fmt: skip
    table = pd.DataFrame(rows)
    order = {name: i for i, name in enumerate(dict.fromkeys(frame["trust"]))}
    return {
        "ldp_trust": table.sort_values(
            ["trust", "algorithm", "epsilon", "n"],
            key=lambda c: c.map(order) if c.name == "trust" else c,
        )
    }


LDP_TABLES = {
    "ldp_cost": (_cost_cells, cost_cell, _finish_cost),
    "ldp_oracles": (_oracle_cells, oracle_cell, _finish_oracles),
    "ldp_bitstogram": (_bitstogram_cells, bitstogram_cell, _finish_bitstogram),
    "ldp_sums": (_sums_cells, sums_cell, _finish_sums),
    "ldp_lsh": (_lsh_cells, collision_cell, _finish_lsh),
    "ldp_scaling": (_scaling_cells, scaling_cell, _finish_scaling),
    "ldp_trust": (_trust_cells, trust_cell, _finish_trust),
}
"""Name -> cells, measure, finish: the arguments of `tables.Table`."""
