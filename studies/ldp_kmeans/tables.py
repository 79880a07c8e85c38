"""The tables on local privacy: their designs, and how cells become rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from studies.bench import cell as bench
from studies.ldp_kmeans import cells
from studies.ldp_kmeans.blocks import bitstogram, collisions, oracles, sums
from studies.ldp_kmeans.depths import TRIED, depths_cost
from studies.ldp_kmeans.growth import loglog_slope
from studies.ldp_kmeans.problems import Ball

MAIN = (
    "alg1", "alg1_hso", "alg4", "grid_histogram", "ldp_lloyd", "private_mean", "central_glloyd",
)  # fmt: skip
"""Algorithms that run in every setting; the others in some."""
ORACLES = ("hadamard", "k-rr", "oue", "sue", "olh")
SLOW_ORACLES = ("oue", "sue", "olh")  # 64 numbers for each user
EXPONENTS = {
    "oracle_error": 0.5, "detection_threshold": 0.5, "sums_error": 0.5,
    "excess_alg1": 0.5, "excess_alg4": 0.5, "excess_ldp_lloyd": math.nan, "zipf_missed": math.nan,
}  # fmt: skip
"""Quantity -> exponent that the paper gives (for an excess: an upper bound on it)."""


@dataclass(frozen=True, kw_only=True)
class LdpDesign(bench.Design):
    """How large the tables on local privacy are made.

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
    real: tuple[tuple[str, int], ...] = (("birch2", 100), ("birch2", 10), ("pixels", 8))
    real_seeds: int = 5
    block_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    block_runs: int = 20
    bitstogram_sizes: tuple[int, ...] = (100_000, 1_000_000)
    sums_dimensions: tuple[int, ...] = (1, 4, 10, 50)
    lsh_pairs: tuple[int, ...] = (4000, 4000, 4000, 4000, 800)  # t = 1, 2, 3, 4, 6
    scaling_sizes: tuple[int, ...] = (
        10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
    )  # fmt: skip
    scaling_seeds: int = 5
    trust_sizes: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    trust_epsilons: tuple[float, ...] = (1.0, 4.0)
    trust_seeds: int = 5


@dataclass(frozen=True, kw_only=True)
class DepthsDesign(bench.Design):
    """How large the table of depths is made: n and d' of mixtures with five clusters."""

    shapes: tuple[tuple[int, int], ...] = tuple(
        (n, d) for n in (10_000, 100_000) for d in (2, 4, 6, 10)
    )
    large: tuple[tuple[int, int], ...] = ((1_000_000, 4), (1_000_000, 10), (10_000_000, 10))
    real: tuple[tuple[str, int], ...] = (("birch2", 10), ("pixels", 8))
    epsilons: tuple[float, ...] = (0.5, 1.0, 4.0)
    large_epsilons: tuple[float, ...] = (1.0, 4.0)
    seeds: int = 5
    large_seeds: int = 3


FULL = LdpDesign()
QUICK = LdpDesign(
    sizes=(2000,), dimensions=(2, 8), clusters=(5,), epsilons=(1.0, 4.0), lsh_sizes=(2000,),
    huge=((4000, 2, 5),), huge_epsilons=(4.0,), real=(),
    block_sizes=(2000,), bitstogram_sizes=(20_000,), sums_dimensions=(2, 5), lsh_pairs=(300, 300),
    scaling_sizes=(10_000, 20_000, 40_000), trust_sizes=(2000, 4000), runs=2,
)  # fmt: skip


# --- which cells ----------------------------------------------------------------------------------


def _algorithms(
    design: LdpDesign, ball: Ball, epsilons: tuple[float, ...]
) -> Iterator[bench.Settings]:
    """All algorithms on one mixture, next to each other: they share the draw."""
    at = dict.fromkeys(MAIN, epsilons)
    if ball.k == 5 and ball.seed < design.side_seeds:
        at["gaussian_report"] = tuple(e for e in epsilons if e in (1.0, 4.0))
        if ball.n in design.lsh_sizes:
            at["alg4_lsh"] = epsilons
    if ball.k == 5 and ball.seed < design.printed_seeds and ball.n <= max(design.sizes):
        at["alg1_printed"] = tuple(e for e in epsilons if e in (1.0, 4.0, 8.0))
    for algorithm in cells.ALGORITHMS:
        if ball.dprime <= cells.MAX_OPEN or algorithm not in ("alg1", "alg1_printed"):
            yield from bench.grid(ball=ball, algorithm=algorithm, epsilon=at.get(algorithm, ()))


def _cost(design: LdpDesign) -> Iterator[bench.Settings]:
    """Cheap and telling settings first: the table takes an hour."""
    main = design.clusters[len(design.clusters) // 2]
    large = tuple(n for n in design.sizes if n * max(design.dimensions) > design.large)

    def mixtures(n: int, clusters: tuple[int, ...], seeds: int) -> Iterator[bench.Settings]:
        for d in design.dimensions:
            few = min(seeds, design.large_seeds) if n * d > design.large else seeds
            for seed, k in product(range(few), clusters):
                yield from _algorithms(design, Ball("mixture", n, d, k, seed), design.epsilons)

    for n in design.sizes:
        if n not in large:
            yield from mixtures(n, design.clusters, design.repeated(design.seeds))
    for n in large:
        yield from mixtures(n, (main,), design.repeated(design.seeds))
    for (data, k), seed in product(design.real, range(design.real_seeds)):
        side = ("gaussian_report",) if seed < design.side_seeds else ()
        ball = Ball.real(data, k, seed)
        yield from bench.grid(ball=ball, algorithm=(*MAIN, *side), epsilon=design.epsilons)
    for shape, seed in product(design.huge, range(design.repeated(design.huge_seeds))):
        yield from _algorithms(design, Ball("mixture", *shape, seed), design.huge_epsilons)
    for n in large:
        others = tuple(k for k in design.clusters if k != main)
        yield from mixtures(n, others, design.repeated(design.other_seeds))


def _oracles(design: LdpDesign) -> Iterator[bench.Settings]:
    runs = design.repeated(design.block_runs)
    for row in bench.grid(n=design.block_sizes, oracle=ORACLES, epsilon=design.epsilons, runs=runs):
        if row["oracle"] not in SLOW_ORACLES or row["n"] <= 100_000:
            yield row


def _sums(design: LdpDesign) -> Iterator[bench.Settings]:
    rest = {"dprime": design.sums_dimensions, "epsilon": (1.0, 4.0), "runs": design.repeated(5)}
    yield from bench.grid(n=design.block_sizes, calibration="analytic", **rest)
    yield from bench.grid(n=max(design.block_sizes), calibration="as_printed", **rest)


def _lsh(design: LdpDesign) -> Iterator[bench.Settings]:
    for t, pairs in zip((1, 2, 3, 4, 6), design.lsh_pairs, strict=False):
        yield from bench.grid(kind="simulated", t=t, distance=(1.0, 2.0, 4.0), runs=pairs)
    ts, distances = tuple(2**i for i in range(8)), (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    yield from bench.grid(kind="closed form", t=ts, distance=distances, runs=0)


def _scaling(design: LdpDesign) -> Iterator[bench.Settings]:
    seeds = range(design.repeated(design.scaling_seeds))
    for row in bench.grid(n=design.scaling_sizes, quantity=cells.COUNTS, epsilon=1.0, seed=seeds):
        if row["quantity"] != "sums_error" or row["n"] < 10**7:  # all users' vectors at once
            yield row
    excesses = [quantity for quantity in EXPONENTS if quantity not in cells.COUNTS]
    for n in design.scaling_sizes:
        most = design.scaling_seeds if n < 10**7 else design.large_seeds
        yield from bench.grid(
            n=n, seed=range(design.repeated(most)), quantity=excesses, epsilon=1.0
        )


def _scaling_name(settings: bench.Settings) -> str:
    ball = Ball("mixture", settings["n"], *cells.SCALING_SHAPE, settings["seed"])
    data = (
        "users_{n}_{seed}".format(**settings) if settings["quantity"] in cells.COUNTS else ball.name
    )
    return f"{data}/{settings['quantity']}/none/{settings['epsilon']:g}"


def _trust(design: LdpDesign) -> Iterator[bench.Settings]:
    for n, seed in product(design.trust_sizes, range(design.repeated(design.trust_seeds))):
        ball = Ball("mixture", n, *cells.SCALING_SHAPE, seed)
        for model, algorithm in cells.TRUST:
            epsilons = math.inf if model == "none" else design.trust_epsilons
            yield from bench.grid(ball=ball, trust=model, algorithm=algorithm, epsilon=epsilons)


def _depths(design: DepthsDesign) -> Iterator[bench.Settings]:
    """Every rule on a grid of mixtures and on real points; two where users are many."""
    seeds = range(design.at_most(design.seeds))

    def both(
        ball: Ball, epsilons: tuple[float, ...], tried: tuple[str, ...]
    ) -> Iterator[bench.Settings]:
        of: bench.Settings = {
            "ball": ball,
            "epsilon": epsilons,
            "rule": ("predicted", "fixed", *tried),
        }
        yield from bench.grid(algorithm="alg1", **of)
        yield from bench.grid(algorithm="alg4", **of | {"rule": ("predicted", "fixed")})

    for n, d in design.shapes:
        for seed in seeds:
            yield from both(Ball("mixture", n, d, 5, seed), design.epsilons, TRIED)
    for (data, k), seed in product(design.real, seeds):
        yield from both(Ball.real(data, k, seed), design.epsilons, TRIED)
    for (n, d), seed in product(design.large, range(design.at_most(design.large_seeds))):
        yield from both(Ball("mixture", n, d, 5, seed), design.large_epsilons, ())


# --- from cells to rows ---------------------------------------------------------------------------


def _slopes(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The slope over all single values of a quantity repeats on every row."""
    frame["paper_exponent"] = frame["quantity"].map(EXPONENTS)
    slopes = {
        quantity: loglog_slope(part["n"], part["value"])[:3]
        if part["n"].nunique() > 1
        else (math.nan,) * 3
        for quantity, part in frame.groupby("quantity")
    }
    for i, name in enumerate(("slope", "slope_low", "slope_high")):
        frame[name] = frame["quantity"].map({quantity: s[i] for quantity, s in slopes.items()})
    return frame


MEANS: dict[str, bench.Aggregate] = {
    "cost_per_point": ("cost", bench.mean), "ci95": ("cost", bench.ci95),
    "nonprivate_cost": ("nonprivate", "mean"),
}  # fmt: skip
TABLES = bench.tables_of(
    FULL,
    QUICK,
    bench.Table(
        "ldp_cost", _cost, cells.cost,
        "data,algorithm,n,dprime,k,epsilon,seeds,cost_per_point,ci95,nonprivate_cost,seconds,"
        "peak_mb",
        means=MEANS | {"seconds": ("seconds", "mean"), "peak_mb": ("peak_mb", "max")},
        order={
            "data": ("mixture", "birch2", "pixels"), "n": None, "dprime": None, "k": None,
            "algorithm": cells.ALGORITHMS, "epsilon": None,
        },
        anew=("seconds", "peak_mb"),
    ),
    bench.Table(
        "ldp_oracles", _oracles, oracles, "oracle,n,epsilon,runs,sd,low,high,theory,ratio",
        seed="users_{n}/{oracle}/none/{epsilon:g}",
    ),
    bench.Table(
        "ldp_bitstogram",
        lambda d: bench.grid(
            n=d.bitstogram_sizes, bits=(12, 24), epsilon=(0.5, 1.0, 2.0, 4.0),
            runs=d.repeated(d.block_runs),
        ),
        bitstogram,
        "n,bits,epsilon,runs,recovered,bits_limit,oracle_limit,notes,false_positives,seconds",
        seed="users_{n}_{bits}/bitstogram/none/{epsilon:g}", anew=("seconds",),
    ),
    bench.Table(
        "ldp_sums", _sums, sums,
        "calibration,n,dprime,epsilon,runs,rms,low,high,theory,ratio,p99,lemma_2_12_bound,"
        "bound_over_p99",
        seed="users_{n}_{dprime}/{calibration}/none/{epsilon:g}",
    ),
    bench.Table(
        "ldp_lsh", _lsh, collisions,
        "kind,t,distance,probability,pairs,simulated,se,notes,lower_bound_over_A,upper_bound,"
        "p1_squared_over_p",
        seed="pairs_{t}_{distance:g}/{kind}/none/inf",
    ),
    bench.Table(
        "ldp_scaling", _scaling, cells.scaling,
        "quantity,n,epsilon,seeds,value,ci95,paper_exponent,slope,slope_low,slope_high",
        finish=_slopes, means={"value": ("value", bench.mean), "ci95": ("value", bench.ci95)},
        order={"quantity": EXPONENTS, "n": None}, seed=_scaling_name,
        whole=("slope", "slope_low", "slope_high"),
    ),
    bench.Table(
        "ldp_trust", _trust, cells.trust,
        "trust,algorithm,epsilon,n,dprime,k,seeds,cost_per_point,ci95,nonprivate_cost,excess_median",
        means=MEANS | {"excess_median": ("excess", "median")},
        order={
            "trust": dict.fromkeys(model for model, _ in cells.TRUST), "algorithm": None,
            "epsilon": None, "n": None,
        },
        seed="{ball.name}/{trust}/{algorithm}/none/{epsilon:g}",
    ),
)  # fmt: skip
TABLES |= bench.tables_of(
    DepthsDesign(),
    DepthsDesign(
        shapes=((2000, 2),), large=((2000, 8),), real=(), epsilons=(1.0, 4.0), runs=2
    ),
    bench.Table(
        "ldp_depths", _depths, depths_cost,
        "data,n,dprime,k,algorithm,epsilon,rule,coarsest,finest,sums_depth,seeds,over_optimum,log,"
        "ci95",
        means={name: (name, "first") for name in ("coarsest", "finest", "sums_depth")}
        | {
            "over_optimum": ("over_optimum", bench.mean), "log": ("log", bench.mean),
            "ci95": ("log", bench.ci95),
        },
        order={
            "data": ("mixture", "birch2", "pixels"), "n": None, "dprime": None,
            "algorithm": cells.ALGORITHMS, "epsilon": None, "rule": ("predicted", "fixed", *TRIED),
        },
        seed="{ball.name}/{algorithm}/{epsilon:g}/{rule}",
    ),
)  # fmt: skip
