"""Measurements behind `ldp_cost`, `ldp_scaling` and `ldp_trust`: costs of whole runs."""

from __future__ import annotations

import math
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fedclust_helpers import fastlloyd, kmeans
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.federation import (
    ClientData,
    Federation,
    Plan,
    simulate,
)
from fedclust_helpers.federation.local import USERS_PER_CHUNK
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.projections import to_ball
from studies.bench.cell import Cell, Numbers, generator_of, seed_of
from studies.ldp_kmeans import baselines
from studies.ldp_kmeans.as_printed import plan_as_printed
from studies.ldp_kmeans.depths import fixed_four_rounds, fixed_one_round
from studies.ldp_kmeans.growth import zipf_shares
from studies.ldp_kmeans.problems import (
    Ball,
    BallProblem,
    best_ball_centers,
    best_ball_cost,
    load_ball,
)
from studies.ldp_kmeans.theory import count_rms, response_factor, sums_error

DELTA = 1e-6
KEPT_REPORTS = 50_000  # noisy points that the server of gaussian_report clusters
PLANS: dict[str, Callable[..., Plan]] = {
    "alg1": fixed_one_round,
    "alg1_hso": partial(fixed_one_round, sums=True),
    "alg1_printed": plan_as_printed,
    "alg4": fixed_four_rounds,
    "alg4_lsh": partial(fixed_four_rounds, lsh=True),
    "grid_histogram": baselines.plan_grid_histogram,
    "gaussian_report": partial(baselines.plan_gaussian_reports, max_reports=KEPT_REPORTS),
    "ldp_lloyd": baselines.plan_lloyd,
    "private_mean": baselines.plan_private_mean,
}
"""Names in the tables -> the planner of the algorithm; depths are fixed, see `ldp_depths`."""
ALGORITHMS = (*PLANS, "central_glloyd")
MAX_OPEN = 6  # dimensions up to which the centres of cells are the output (no projection)
STARTS = {"ldp_lloyd": 3, "central_glloyd": 3}
"""Random starts of methods that hang on one; a run of the table is the mean over them."""
MANY = 1_000_000  # users from which on there are two starts, to save time


def run_centers(problem: BallProblem, algorithm: str, epsilon: float, key: str) -> FloatArray:
    """Final centres of one run; its randomness follows from `key`."""
    protocol, server = seed_of(key).spawn(2)
    k = problem.n_clusters
    if algorithm == "central_glloyd":
        data = ClientData(problem.points, np.array([0, len(problem.points)]))
        federation = simulate(data, "ideal", seed=protocol, bound=1.0)
        return _central("glloyd", federation, k, epsilon, "halving")
    users = simulate(problem.points, "local", seed=protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lk.NothingDetectedWarning)
        plan = PLANS[algorithm](users, n_clusters=k, epsilon=epsilon, delta=DELTA)
        return lk.run(users, plan, rng=np.random.default_rng(server)).centers


def _central(
    algorithm: str, federation: Federation, k: int, epsilon: float, initial: str | FloatArray
) -> FloatArray:
    """Final centres of FastLloyd or of one of its baselines."""
    plan = fastlloyd.PLANS[algorithm](
        federation, n_clusters=k, epsilon=epsilon, delta=DELTA, initial=initial
    )
    return fastlloyd.run(federation, plan).centers


def n_starts(algorithm: str, problem: BallProblem) -> int:
    """Runs with different random starts that are averaged."""
    return min(STARTS.get(algorithm, 1), 2 if len(problem.points) >= MANY else 3)


def cost(cell: Cell, *, ball: Ball, algorithm: str, epsilon: float) -> Numbers:
    """One algorithm on one data set: cost per point, CPU seconds of the whole run (all users
    simulated), and the largest memory in MB = 10^6 bytes, the data included. Means over starts.
    """
    problem = load_ball(ball)
    found = np.empty((n_starts(algorithm, problem), 3))
    for start in range(len(found)):
        key = f"{ball.name}/{algorithm}/{epsilon:g}/{start}"
        tracemalloc.start()
        begin = time.process_time()
        centers = run_centers(problem, algorithm, epsilon, key)
        seconds = time.process_time() - begin
        peak = tracemalloc.get_traced_memory()[1] + problem.points.nbytes
        tracemalloc.stop()
        found[start] = problem.cost(centers), seconds, peak / 1e6
    found_cost, seconds, _ = found.mean(axis=0)
    return {
        "cost": float(found_cost), "nonprivate": best_ball_cost(ball), "seconds": float(seconds),
        "peak_mb": float(found[:, 2].max()),
    }  # fmt: skip


# --- ldp_scaling ----------------------------------------------------------------------------------

ZIPF = 1.2
ZIPF_VALUES = 2000
THRESHOLD_STEP = 1.15  # ratio of neighbouring planted counts
THRESHOLD_STEPS = 9
Z = 3.5


def _count_values(
    n: int, values: np.ndarray, epsilon: float, rng: np.random.Generator
) -> OneBitCounts:
    oracle = OneBitCounts(
        lambda points, _: Question(points[:, 0].astype(np.uint64)), epsilon, rng=rng
    )
    for start in range(0, n, USERS_PER_CHUNK):
        users = np.arange(start, min(n, start + USERS_PER_CHUNK))
        block = values[users, None]
        oracle.collect(users, oracle.respond(block, users, rng=rng))
    return oracle


def oracle_error(n: int, epsilon: float, *, rng: np.random.Generator) -> float:
    """Root mean square error of a one-bit count over the empty buckets."""
    return count_rms(n, epsilon, rng=rng, n_buckets=2**10)


def threshold_count(n: int, epsilon: float, *, rng: np.random.Generator) -> float:
    """Count at which a planted value starts to stand out by 3.5 sd, from one run of a ladder."""
    middle = Z * response_factor(epsilon) * math.sqrt(n)
    powers = np.arange(THRESHOLD_STEPS)[::-1] - THRESHOLD_STEPS // 2
    counts = np.rint(middle * THRESHOLD_STEP**powers).astype(np.int64)
    values = rng.integers(2**40, size=n).astype(np.float64)
    values[: counts.sum()] = repeat(2.0**41 + np.arange(len(counts)), counts)
    oracle = _count_values(n, values, epsilon, rng)
    keys = (2.0**41 + np.arange(len(counts))).astype(np.uint64)
    seen = int((oracle.estimate(keys) > Z * oracle.std()).sum())
    return float(middle * THRESHOLD_STEP ** (THRESHOLD_STEPS // 2 + 0.5 - seen))


def missed_users(n: int, epsilon: float, *, rng: np.random.Generator) -> float:
    """Users whose value does not stand out, values drawn from a Zipf law."""
    values = rng.choice(ZIPF_VALUES, size=n, p=zipf_shares(ZIPF_VALUES, ZIPF))
    oracle = _count_values(n, values.astype(np.float64), epsilon, rng)
    seen = oracle.estimate(np.arange(ZIPF_VALUES, dtype=np.uint64)) > Z * oracle.std()
    return float((~seen[values]).sum())


def vector_error(n: int, epsilon: float, *, rng: np.random.Generator) -> float:
    """Root mean square error of the vector sums of HeavySumsOracle, unit vectors, d' = 4."""
    errors = sums_error(n, 4, epsilon, DELTA, rng=rng, radius=1.0, calibration="analytic").errors
    return float(np.sqrt(np.mean(errors**2)))


COUNTS: dict[str, Callable[..., float]] = {
    "oracle_error": oracle_error,
    "detection_threshold": threshold_count,
    "sums_error": vector_error,
    "zipf_missed": missed_users,
}
"""Quantities that need no k-means: name -> (n, epsilon, rng) -> value."""


SCALING_SHAPE = (4, 5)  # d', k


def scaling(cell: Cell, *, quantity: str, n: int, epsilon: float, seed: int) -> Numbers:
    """One value of a quantity that grows with n: one of `COUNTS`, or "excess_<algorithm>".

    That is the total cost above the best non-private one on a mixture.
    """
    if quantity in COUNTS:
        return {"value": COUNTS[quantity](n, epsilon, rng=cell.rng)}
    ball, algorithm = Ball("mixture", n, *SCALING_SHAPE, seed), quantity.removeprefix("excess_")
    problem = load_ball(ball)
    costs = [
        problem.cost(run_centers(problem, algorithm, epsilon, f"{cell.name}/{start}"))
        for start in range(n_starts(algorithm, problem))
    ]
    return {"value": (float(np.mean(costs)) - best_ball_cost(ball)) * n}


# --- ldp_trust ------------------------------------------------------------------------------------

DISPLACEMENT = 0.25  # of the common start from the best centres


def common_start(ball: Ball) -> FloatArray:
    """Centres near the best ones: a stand-in for a public guess, the same for every algorithm.

    Each is moved by `DISPLACEMENT` in a random direction.
    """
    centers = best_ball_centers(ball)
    rng = generator_of(f"start/{ball.name}")
    moves = rng.standard_normal(centers.shape)
    moves *= DISPLACEMENT / np.linalg.norm(moves, axis=1, keepdims=True)
    return to_ball(centers + moves)


TRUST = (
    ("none", "lloyd"), ("central", "glloyd"), ("secure_sum", "fastlloyd"), ("local", "ldp_lloyd"),
    ("local", "alg1"),
)  # fmt: skip
"""Trust models and algorithms; the first takes no epsilon."""
SUMS: dict[str, dict[str, Any]] = {
    "secure_sum": {"trust": "masked", "noise_from": "server"}, "central": {"trust": "trusted"},
}  # fmt: skip


def trust(cell: Cell, *, ball: Ball, trust: str, algorithm: str, epsilon: float) -> Numbers:
    """Cost of one algorithm in its trust model, from the common start (but for "alg1")."""
    problem, start = load_ball(ball), common_start(ball)
    points, k = problem.points, problem.n_clusters
    protocol, server = cell.seed.spawn(2)
    if trust == "none":
        centers = kmeans.lloyd(points, start, n_rounds=5)
    elif algorithm == "alg1":
        centers = run_centers(problem, "alg1", epsilon, cell.name)
    elif trust == "local":
        users = simulate(points, "local", seed=protocol)
        plan = baselines.plan_lloyd(
            users, n_clusters=k, epsilon=epsilon, delta=DELTA, initial=start
        )
        centers = lk.run(users, plan, rng=np.random.default_rng(server)).centers
    else:
        data = ClientData(points, np.array([0, len(points) // 2, len(points)]))
        fed = simulate(data, **SUMS[trust], seed=protocol, bound=1.0)
        centers = _central(algorithm, fed, k, epsilon, start)
    found, best = problem.cost(centers), best_ball_cost(ball)
    return {"cost": found, "nonprivate": best, "excess": found - best}
