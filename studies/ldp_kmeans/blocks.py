"""Measurements behind the building-block tables: oracles, Bitstogram, vector sums, LSH."""

from __future__ import annotations

import math
import time
from typing import Literal

import numpy as np

from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.ldp_kmeans.frequency_oracles import (
    OneBitCounts,
    Question,
    ask_values,
)
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from studies.bench.cell import Cell, Numbers, summary
from studies.bench.results import load_printed
from studies.ldp_kmeans import bounds
from studies.ldp_kmeans.bitstogram import Bitstogram
from studies.ldp_kmeans.encodings import LocalHashing, UnaryEncoding
from studies.ldp_kmeans.theory import sums_error

Calibration = Literal["analytic", "as_printed"]
DELTA = 1e-6
N_VALUES = 64  # domain of the oracle table
PLANTED_SHARE = 0.2  # of all users behind the largest planted value
LADDER = 0.75  # ratio of neighbouring planted counts
BETA = 0.01  # failure probability of Lemma 2.12's bound
BITSTOGRAM_NOTES = load_printed("ldp_kmeans/bitstogram_second", 3)
"""(n, bits, epsilon) -> smallest recovered count of a second implementation, +-15 %."""
LSH_NOTES = load_printed("ldp_kmeans/lsh_second", 2)
"""(t, distance) -> share of colliding pairs in a second implementation."""


def root_mean_square(squares: FloatArray) -> tuple[float, float, float]:
    """Root of the mean of one mean square for each run, with the roots of its 95 % interval."""
    found = summary(squares)
    low, high = (math.sqrt(max(0.0, found["mean"] + s * found["ci95"])) for s in (-1, 1))
    return math.sqrt(found["mean"]), low, high


# --- ldp_oracles ----------------------------------------------------------------------------------


def _oracle_errors(
    method: str, epsilon: float, values: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Errors of all counts in one run, and their standard deviations by theory: (V,) each."""
    n, truth = len(values), bincount(values, minlength=N_VALUES)
    if method == "hadamard":
        oracle = OneBitCounts(
            lambda points, _: Question(points[:, 0].astype(np.uint64)), epsilon, rng=rng
        )
        ask_values(oracle, values[:, None], rng=rng)
        keys = np.arange(N_VALUES, dtype=np.uint64)
        held = bincount(oracle.buckets(keys), weights=truth, minlength=oracle.n_buckets)
        # against the users of the same bucket: a collision is no error of the response
        error = oracle.estimate(keys) - held[oracle.buckets(keys)]
        return error, np.sqrt(oracle.response.debias**2 * n - truth)
    if method == "k-rr":
        response = RandomizedResponse(epsilon, N_VALUES)
        estimate = response.estimate(response.randomize(values, rng=rng))
        return estimate - truth, np.array([response.std(n, c) for c in truth])
    if method == "olh":
        hashing = LocalHashing(epsilon, N_VALUES, seed=int(rng.integers(2**31)))
        users = np.arange(n)
        estimate = hashing.estimate(hashing.randomize(values, users, rng=rng), users)
        keep, g = hashing.response.keep, hashing.response.n_values
        # a value's own holders answer with variance keep (1 - keep), not with that of the others
        own = truth * (keep * (1 - keep) - (1 - 1 / g) / g) / (keep - 1 / g) ** 2
        return estimate - truth, np.sqrt(hashing.std(n) ** 2 + own)
    unary = UnaryEncoding(epsilon, N_VALUES, "optimized" if method == "oue" else "symmetric")
    estimate = unary.estimate(unary.randomize(values, rng=rng))
    return estimate - truth, np.array([unary.std(n, c) for c in truth])


def oracles(cell: Cell, *, oracle: str, n: int, epsilon: float) -> Numbers:
    """Error of the counts of 64 equally likely values."""
    squares, variances = np.empty(cell.runs), np.empty(cell.runs)
    for run, seed in enumerate(cell.seeds()):
        rng = np.random.default_rng(seed)
        values = rng.integers(N_VALUES, size=n)
        error, std = _oracle_errors(oracle, epsilon, values, rng)
        squares[run], variances[run] = np.mean(error**2), np.mean(std**2)
    theory, sd = math.sqrt(variances.mean()), root_mean_square(squares)
    return {"sd": sd[0], "low": sd[1], "high": sd[2], "theory": theory, "ratio": sd[0] / theory}


# --- ldp_bitstogram -------------------------------------------------------------------------------


def planted_counts(n: int, run: int) -> IntArray:
    """A ladder of counts from a fifth of all users downwards; odd runs lie half a step lower."""
    top = PLANTED_SHARE * n * (math.sqrt(LADDER) if run % 2 else 1.0)
    steps = math.floor(math.log(math.sqrt(n) / top) / math.log(LADDER))
    return np.maximum(1, np.rint(top * LADDER ** np.arange(steps))).astype(np.int64)


def bitstogram(cell: Cell, *, n: int, bits: int, epsilon: float) -> Numbers:
    """Which planted values of the domain 2^bits are found.

    The others hold values drawn from the whole domain. "recovered" is the smallest planted count
    such that it and all larger ones were found in at least 80 % of the runs.
    """
    found: dict[int, list[bool]] = {}
    wrong, seconds, threshold = 0, 0.0, np.zeros(2)
    for run, seed in enumerate(cell.seeds()):
        rng = np.random.default_rng(seed)
        counts = planted_counts(n, run)
        planted = rng.choice(2**bits, len(counts), replace=False).astype(np.uint64)
        values = rng.integers(2**bits, size=n, dtype=np.uint64)
        values[: counts.sum()] = repeat(planted, counts)
        query = Bitstogram(lambda points: points[:, 0].astype(np.uint64), epsilon, bits, rng=rng)
        start = time.process_time()
        ask_values(query, values[:, None].astype(np.float64), rng=rng)
        hitters = query.heavy_hitters()[0]
        seconds += time.process_time() - start
        for value, count in zip(planted, counts, strict=True):
            found.setdefault(int(count), []).append(bool(np.isin(value, hitters)))
        wrong += int((~np.isin(hitters, planted)).sum())
        threshold = np.array(
            [query.recovery_threshold(n, oracle_n_sd=0.0), query.recovery_threshold(n, n_sd=0.0)]
        )
    rates = {count: np.mean(hits) for count, hits in sorted(found.items(), reverse=True)}
    recovered = math.inf
    for count, rate in rates.items():
        if rate < 0.8:
            break
        recovered = count
    return {
        "recovered": float(recovered),
        "bits_limit": float(threshold[0]),
        "oracle_limit": float(threshold[1]),
        "notes": BITSTOGRAM_NOTES.get((n, bits, epsilon), math.nan),
        "false_positives": wrong / cell.runs,
        "seconds": seconds / cell.runs,
    }


# --- ldp_sums -------------------------------------------------------------------------------------


def sums(cell: Cell, *, calibration: Calibration, n: int, dprime: int, epsilon: float) -> Numbers:
    """Error of HeavySumsOracle for unit vectors."""
    squares, norms, rms, bound = np.empty(cell.runs), [], 0.0, 0.0
    for run, seed in enumerate(cell.seeds()):
        result = sums_error(
            n, dprime, epsilon, DELTA, rng=np.random.default_rng(seed), radius=1.0, beta=BETA,
            calibration=calibration,
        )  # fmt: skip
        squares[run], rms, bound = np.mean(result.errors**2), result.rms, result.bound
        norms.append(result.errors)
    p99 = float(np.quantile(np.concatenate(norms), 0.99))
    found, low, high = root_mean_square(squares)
    return {
        "rms": found, "low": low, "high": high, "theory": rms, "ratio": found / rms, "p99": p99,
        "lemma_2_12_bound": bound, "bound_over_p99": bound / p99,
    }  # fmt: skip


# --- ldp_lsh --------------------------------------------------------------------------------------


def collisions(cell: Cell, *, kind: str, t: int, distance: float) -> Numbers:
    """Share of `runs` pairs at a distance that collide, a fresh hash for each pair.

    "closed form" is the formula and the bounds of Theorem 2.14 alone.
    """
    probability = bounds.collision_probability(distance, t)
    out = {
        "pairs": cell.runs, "probability": probability,
        "simulated": math.nan, "se": math.nan, "notes": math.nan,
        "lower_bound_over_A": bounds.near_lower_bound(t) if distance == 1 else math.nan,
        "upper_bound": bounds.far_upper_bound(distance, t),
        "p1_squared_over_p": bounds.collision_probability(1.0, t) ** 2 / probability,
    }  # fmt: skip
    if kind == "simulated":
        rng, hits, pair = cell.rng, 0, np.zeros((2, t))
        pair[1, 0] = distance
        for _ in range(cell.runs):
            first, second = BallCarvingHash(t, rng=rng, t=t)(pair)
            hits += int(first == second and first != 0)
        share = hits / cell.runs
        se, notes = math.sqrt(share * (1 - share) / cell.runs), LSH_NOTES.get((t, distance))
        out |= {"simulated": share, "se": se, "notes": math.nan if notes is None else notes}
    return out
