"""The tables of better releases: their designs, and how cells become rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedclust_helpers._validation import FloatArray
from studies.bench.cell import Design, Files, Settings, Table, ci95, grid, grouped, mean, tables_of
from studies.beyond import cells
from studies.beyond.trust import MODELS, trust_price
from studies.ldp_kmeans.problems import Ball
from studies.paper_data import OPEN_TABLES

TUNED = (
    "iris", "wine", "lsun", "yeast", "s1", "birch2", "adult", "g2_16", "g2_64", "digits",
    "synth_16_5_0", "synth_16_8_0", "synth_64_8_0", "synth_32_16_0",
)  # fmt: skip
"""Sets on which the constants of the recipe were chosen."""
SEEN = (
    "breast", "mnist", "fashion_mnist", "g2_4", "g2_32", "synthk_8_7", "synthk_24_7",
    "synth_8_4_7", "synth_12_6_7", "synth_24_6_7", "synth_48_12_7", "ablation_6_3_0.5",
    "ablation_8_8_0.25",
    "heavy_tails_4000_2_5", "heavy_tails_6000_8_6", "unequal_9000_6_8", "unequal_5000_20_10",
    "uniform_5000_2_5", "uniform_3000_3_8", "moons_2000_2_6", "skewed_10000_4_5",
    "skewed_4000_10_12", "nested_3000_5_3", "round_300_6_4", "round_4000_30_5",
    "heavy_tails_5000_3_6", "heavy_tails_8000_12_8", "unequal_7000_9_6", "unequal_4000_26_7",
    "uniform_6000_2_7", "uniform_4000_5_6", "moons_3000_2_6", "skewed_8000_6_8",
    "skewed_5000_18_9", "nested_4000_7_3", "round_500_8_5", "round_5000_24_10",
)  # fmt: skip
"""Sets that were fresh to an earlier recipe, and judged what was changed in it later."""
FRESH = (
    "heavy_tails_7000_4_5", "heavy_tails_3000_16_4", "unequal_6000_4_7", "unequal_12000_10_12",
    "uniform_8000_2_9", "uniform_5000_6_4", "moons_4000_2_6", "skewed_6000_3_10",
    "skewed_9000_14_6", "nested_6000_9_3", "round_2000_5_12", "round_8000_20_16",
)  # fmt: skip
"""Sets drawn after the last change, kind, n, d and k: the honest number is theirs."""
OPEN = tuple(OPEN_TABLES)
"""Real tables that come with Python packages; no constant was chosen on them."""


@dataclass(frozen=True, kw_only=True)
class BeyondDesign(Design):
    """How large the tables are made."""

    tuned: tuple[str, ...] = TUNED
    seen: tuple[str, ...] = SEEN
    fresh: tuple[str, ...] = FRESH
    open: tuple[str, ...] = OPEN
    epsilons: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    bounded: tuple[str, ...] = ("s1", "lsun", "adult", "yeast", "synth_16_8_0")
    widths: tuple[float, ...] = (0.8, 1.0, 2.0, 10.0)
    bound_epsilons: tuple[float, ...] = (0.25, 1.0)
    sizes: tuple[int, ...] = (10_000, 100_000)
    shapes: tuple[tuple[int, int], ...] = ((2, 5), (2, 10), (4, 5), (4, 10), (10, 5))
    large: tuple[tuple[int, int, int], ...] = ((1_000_000, 4, 10), (1_000_000, 10, 5))
    unknown_k: tuple[str, ...] = (
        "lsun", "s1", "birch2", "synthk_8_7", "synthk_24_7", "synth_8_8_0", "synth_16_8_0",
        "synth_32_16_0",
    )  # fmt: skip
    k_epsilons: tuple[float, ...] = (0.5, 1.0)
    k_most: tuple[int, ...] = (24, 48, 96)
    copied: tuple[str, ...] = (
        "yeast", "s1", "birch2", "adult", "synth_16_8_0", "unequal_9000_6_8", "skewed_10000_4_5",
        "round_4000_30_5", "OFP", "weather", "diamonds",
    )  # fmt: skip
    batched: tuple[str, ...] = (
        "birch2", "adult", "synth_16_8_0", "skewed_10000_4_5", "weather", "diamonds", "HI",
        "movies",
    )  # fmt: skip
    copy_times: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)
    drawn: tuple[cells.Groups, ...] = tuple(
        cells.Groups(n, d, 5, width)
        for n in (2000, 20_000) for d in (2, 8) for width in (0.05, 0.2, 0.4)
    )  # fmt: skip
    asked: tuple[int, ...] = (3, 5, 8)
    drawn_epsilons: tuple[float, ...] = (0.5, 2.0)
    local_epsilons: tuple[float, ...] = (1.0, 4.0)
    local_seeds: int = 5
    odd: tuple[str, ...] = tuple(cells.ODD)
    odd_size: int = 100_000
    real: tuple[tuple[str, int], ...] = (("birch2", 10), ("pixels", 8))


FULL = BeyondDesign()
QUICK = BeyondDesign(
    tuned=("iris",), seen=(), fresh=("unequal_500_3_4",), open=(), epsilons=(0.5, 1.0),
    bounded=("iris",), widths=(1.0, 10.0), bound_epsilons=(1.0,), sizes=(3000,),
    shapes=((2, 5), (7, 3)), large=(),
    unknown_k=("iris",), k_epsilons=(1.0,), k_most=(6,), copied=("iris",), batched=("iris",),
    copy_times=(1.0,), drawn=(cells.Groups(2000, 2, 5, 0.2),), local_epsilons=(4.0,),
    odd=("moons",), odd_size=3000, real=(), runs=2,
)  # fmt: skip


def _nicv(design: BeyondDesign) -> Iterator[Settings]:
    for sets in ("tuned", "seen", "fresh", "open"):
        for dataset in getattr(design, sets):
            common: Settings = {"sets": sets, "dataset": dataset}
            yield common | {"method": "optimum", "epsilon": math.inf}
            for method in cells.CENTRAL:
                if sets != "open" or method != "pe":  # PE-means takes minutes on many rows
                    yield from grid(
                        **common, method=method, epsilon=design.epsilons, runs=design.repeated(20)
                    )


def _graded(frame: pd.DataFrame, folder: Path) -> Files:
    """The rows, how often a formula held for known groups, and what was added by s."""
    best = frame[frame["method"] == "optimum"].set_index("dataset")["nicv_mean"]
    part = frame[frame["method"] == "oracle"]
    found, said = part["nicv_mean"] / part["dataset"].map(best) - 1, part["known"]
    factor = np.maximum(found, 1e-9) / said
    off = np.exp(np.abs(np.log(factor)))
    part = part.assign(factor=factor, within_two=off <= 2, within_three=off <= 3)
    counted = grouped(
        part[np.maximum(found, said) >= 0.005], ["method", "sets", "epsilon"], "cells",
        within_two=("within_two", "sum"), within_three=("within_three", "sum"),
        found_over_foreseen=("factor", "median"),
    )  # fmt: skip
    runs = frame[frame["method"] == "overclustered"]
    by_s, told = added_by_s(
        runs["s"].to_numpy(float), runs.filter(regex="^run_").to_numpy(float) - 1,
        runs["dataset"].to_numpy(str), runs["sets"].to_numpy(str),
    )  # fmt: skip
    return {
        "better_nicv": frame, "better_foreseen": counted, "better_excess": by_s,
        "better_told": told,
    }  # fmt: skip


S_FROM = (0, 12, 20, 30, 50, 80, 130, 250, 700)
"""Rows of a cluster for each noise of a count, from which on settings are put together."""


def added_by_s(
    s: FloatArray, excess: FloatArray, dataset: NDArray[Any], sets: NDArray[Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What runs of cells added to the best cost, (cells, runs): by s; and how often it held.

    `typical` is the median of the cells' medians; nine of ten cells have nine of ten runs below
    `most`. The second table leaves each data set out in turn, and says which share of its runs,
    and of its cells, lie below the point that the other sets give.
    """
    row = np.searchsorted(S_FROM, s, side="right") - 1
    ends = np.quantile(excess, 0.9, axis=1)

    def point(chosen: NDArray[np.bool_]) -> float:
        return float(np.quantile(ends[chosen], 0.9)) if chosen.any() else math.nan

    by_s = pd.DataFrame([
        {"s_from": first, "settings": int((row == i).sum()),
         "typical": float(np.median(np.median(excess[row == i], axis=1))) if (row == i).any()
         else math.nan, "most": point(row == i)}
        for i, first in enumerate(S_FROM)
    ])  # fmt: skip
    left = np.array([
        point((row == i) & (dataset != name)) for i, name in zip(row, dataset, strict=True)
    ])  # fmt: skip
    held = pd.DataFrame({
        "sets": sets, "runs_below": (excess < left[:, None]).mean(axis=1),
        "settings_below": (ends < left).astype(float),
    })[~np.isnan(left)]  # fmt: skip
    told = grouped(
        held, ["sets"], "settings", runs_below=("runs_below", mean),
        settings_below=("settings_below", mean),
    )  # fmt: skip
    return by_s, told


def _bounds(design: BeyondDesign) -> Iterator[Settings]:
    for method in ("fastlloyd", "overclustered", "pe"):
        # PE-means not on the largest set
        yield from grid(
            dataset=tuple(
                name for name in design.bounded if name != "adult" or method != "pe"
            ),
            width=design.widths, method=method, epsilon=design.bound_epsilons,
            runs=design.repeated(20),
        )  # fmt: skip


def _unknown_k(design: BeyondDesign) -> Iterator[Settings]:
    yield from grid(
        dataset=design.unknown_k, epsilon=design.k_epsilons, k_max=design.k_most,
        runs=design.repeated(10),
    )  # fmt: skip


def _copies(design: BeyondDesign) -> Iterator[Settings]:
    common: Settings = {"epsilon": 1.0, "runs": design.repeated(5)}
    yield from grid(dataset=design.copied, batches=1, times=design.copy_times, **common)
    yield from grid(dataset=design.batched, batches=12, times=1.0, **common)


def _unsettled(design: BeyondDesign) -> Iterator[Settings]:
    yield from grid(
        drawn=design.drawn, k=design.asked, epsilon=design.drawn_epsilons,
        runs=design.repeated(10),
    )  # fmt: skip


LIMITS = (1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4)
APART, ALIKE = 0.8, 0.9  # adjusted Rand index with other runs: below it, above it


def _by_limit(frame: pd.DataFrame, folder: Path) -> Files:
    """The rows; and of how many runs a warning from each limit on is right, and wrong."""
    said, agree = (frame.filter(regex=f"^{name}_").to_numpy(float) for name in ("said", "agree"))
    by = pd.DataFrame([
        {"limit": limit, "apart": int((agree < APART).sum()), "alike": int((agree > ALIKE).sum()),
         "found": int((said[agree < APART] > limit).sum()),
         "wrong": int((said[agree > ALIKE] > limit).sum())}
        for limit in LIMITS
    ])  # fmt: skip
    return {"better_unsettled": frame, "better_warned": by}


def _local(design: BeyondDesign) -> Iterator[Settings]:
    seeds = range(design.at_most(design.local_seeds))
    sizes = [(n, d, k) for n in design.sizes for d, k in design.shapes]
    balls = [Ball("mixture", *size, seed) for size in (*sizes, *design.large) for seed in seeds]
    balls += [Ball.real(data, k, seed) for data, k in design.real for seed in seeds]
    balls += [
        Ball(data, design.odd_size, 2, cells.ODD[data], seed)
        for data in design.odd
        for seed in seeds
    ]
    for ball in balls:
        yield from grid(ball=ball, algorithm=tuple(cells.LOCAL), epsilon=design.local_epsilons)


@dataclass(frozen=True, kw_only=True)
class TrustDesign(Design):
    """How large the table of trust is made: n, d' and k of the mixtures, one for each seed."""

    shape: tuple[int, int, int] = (100_000, 2, 5)
    epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    seeds: int = 5


def _trust(design: TrustDesign) -> Iterator[Settings]:
    for seed in range(design.at_most(design.seeds)):
        ball = Ball("mixture", *design.shape, seed)
        for model, algorithm in MODELS:
            common: Settings = {"ball": ball, "trust": model, "algorithm": algorithm}
            yield from grid(**common, epsilon=design.epsilons)


BETTER = tables_of(
    FULL, QUICK,
    Table(
        "better_nicv", _nicv, cells.nicv,
        {"better_nicv": "sets,dataset,n,d,k,method,epsilon,runs,nicv_mean,nicv_median,ci95,s,known,"
         "aggregates,numbers_per_client,seconds",
         "better_foreseen":
         "method,sets,epsilon,cells,within_two,within_three,found_over_foreseen",
         "better_excess": "s_from,settings,typical,most",
         "better_told": "sets,settings,runs_below,settings_below"},
        finish=_graded, whole=("better_foreseen", "better_excess", "better_told"),
        seed="{dataset}/{method}/{epsilon:g}", anew=("seconds",),
    ),
    Table(
        "better_bounds", _bounds, cells.nicv,
        "dataset,n,d,k,width,method,epsilon,runs,nicv_mean,nicv_median,ci95,known",
        seed="{dataset}/{width:g}/{method}/{epsilon:g}",
    ),
    Table(
        "better_k", _unknown_k, cells.chosen_k,
        "dataset,n,d,k,epsilon,k_max,runs,k_median,k_least,k_most,exact,near,known",
        seed="{dataset}/{epsilon:g}/{k_max}",
    ),
    Table(
        "better_copies", _copies, cells.copied,
        "dataset,n,d,k,s,epsilon,batches,asked,times,runs,again,planned,over_planned",
        seed="{dataset}/{epsilon:g}/{batches}/{times:g}",
    ),
    Table(
        "better_unsettled", _unsettled, cells.unsettled,
        {"better_unsettled": "n,d,groups,width,overlap,k,epsilon,runs,said,warned,agreement",
         "better_warned": "limit,apart,found,alike,wrong"},
        finish=_by_limit, whole=("better_warned",),
        seed="{drawn.n}/{drawn.d}/{drawn.groups}/{drawn.width:g}/{k}/{epsilon:g}",
    ),
    Table(
        "better_local", _local, cells.local_cost,
        "data,n,dprime,k,algorithm,epsilon,seeds,over_optimum,ci95,worst,seconds",
        seed=lambda s: f"{'/'.join(map(str, s['ball']))}/{s['algorithm']}/{s['epsilon']:g}",
        means={"over_optimum": ("over_optimum", mean), "ci95": ("over_optimum", ci95),
               "worst": ("over_optimum", "max"), "seconds": ("seconds", "median")},
        # where a search of a likelihood ends depends on the last digits of a processor
        anew=("over_optimum", "ci95", "worst", "seconds"),
    ),
)  # fmt: skip
TRUST = tables_of(
    TrustDesign(), TrustDesign(shape=(3000, 2, 3), epsilons=(1.0, 2.0), runs=2),
    Table(
        "trust_price", _trust, trust_price,
        "trust,algorithm,epsilon,n,dprime,k,seeds,local_epsilon,over_optimum,excess,ci95",
        seed="{ball.name}/{trust}/{algorithm}/{epsilon:g}",
        means={"local_epsilon": ("local_epsilon", "first"), "over_optimum": ("over_optimum", mean),
               "excess": ("excess", mean), "ci95": ("excess", ci95)},
        order={"trust": dict.fromkeys(model for model, _ in MODELS), "algorithm": None,
               "epsilon": None},
        anew=("over_optimum", "excess", "ci95"),
    ),
)  # fmt: skip
TABLES = BETTER | TRUST
"""Name -> table."""
