"""One run of any algorithm under any trust model, on data in the unit ball, at one guarantee.

**Equal guarantees.** Secure sums state add/remove neighbours, local reports replace-one. Here every
run hides which of two values a record has (replace-one, n public) with the same epsilon at the same
delta; `asked` gives the add/remove budget that a plan over a secure sum is made with. What is local
is pure (delta = 0): a stronger promise.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers import kmeans
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers._validation import FloatArray, check_choice, check_delta, check_epsilon
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.federation import TRUST_MODELS, Plan, simulate
from studies.bench.cell import Cell, Numbers, seed_of
from studies.fastlloyd.cells import dealt
from studies.fastlloyd.problems import load_problem, reference_centers
from studies.ldp_kmeans import baselines
from studies.ldp_kmeans.depths import fixed_four_rounds, fixed_one_round
from studies.ldp_kmeans.problems import Ball, best_ball_centers, load_ball

DELTA = 1e-6
N_CLIENTS = 10
"""Clients of the secure sums; in the local and shuffled models every record is a client."""
PUBLIC_SHARE, MOST_PUBLIC = 0.01, 1000
"""Part of the records that is public where a method wants server points, and the most of them."""
BAD = 1.5
"""A run that costs more than this many times the best has missed a cluster, or nearly."""

SUMS: dict[str, Callable[..., Plan]] = {
    "fastlloyd": fl.plan, "overclustered": fl.plan_overclustered, "sulloyd": fl.plan_sulloyd,
}  # fmt: skip
REPORTS: dict[str, Callable[..., Plan]] = {
    "alg1": fixed_one_round, "alg4": fixed_four_rounds, "sketch": lk.plan_sketch,
    "ldp_lloyd": baselines.plan_lloyd,
}  # fmt: skip
PURE = ("sulloyd", "alg1", "alg4", "sketch")
PAIRS = tuple(
    (trust, method)
    for trust, methods in {
        "none": ("public_rows",),
        "trusted": ("fastlloyd", "overclustered"),
        "ideal": ("fastlloyd", "overclustered", "feddp"),
        "masked": ("fastlloyd", "overclustered"),
        "serverless": ("fastlloyd", "overclustered"),
        "shuffled": ("sketch",),
        "local": ("alg1", "alg4", "ldp_lloyd", "sketch"),
    }.items()
    for method in methods
    if trust in (*TRUST_MODELS, "none")
)
"""(trust model, method) of the tables; a trust model that does not exist takes no part."""


class Task(NamedTuple):
    """A data set: "mixture" (with its own n, d, k), or the name of a real one."""

    data: str
    n: int
    d: int
    k: int


@lru_cache(maxsize=2)
def points_of(task: Task, seed: int = 0) -> tuple[FloatArray, float]:
    """Points in the unit ball, and half the side of the public box around them.

    Of a mixture only the ball is public, so its box is [-1, 1]^d; a real set fills a box, which is
    shrunk until the ball holds it.
    """
    if task.data == "mixture":
        return load_ball(Ball(*task, seed)).points, 1.0
    bound = 1 / math.sqrt(task.d)
    return load_problem(task.data).points * bound, bound


@lru_cache(maxsize=64)
def best_cost(task: Task, seed: int = 0) -> float:
    """Cost per point of the best non-private clustering found."""
    points, bound = points_of(task, seed)
    if task.data == "mixture":
        centers = best_ball_centers(Ball(*task, seed))
    else:
        centers = reference_centers(task.data) * bound
    return kmeans.kmeans_cost(points, centers, normalize=True)


def asked(method: str, epsilon: float, delta: float = DELTA) -> tuple[float, float]:
    """Budget (epsilon, delta) to ask of a plan, so that one *replaced* record costs `epsilon`.

    Replacing is removing and adding. What is made of Gaussian noise alone is mu-GDP for one and
    2 mu-GDP for both (Dong, Roth, Su 2022, group privacy). Pure noise doubles epsilon. Else
    (epsilon', delta') twice is (2 epsilon', (1 + e^epsilon') delta'). Local reports need no
    conversion: they hide a replaced value as they are.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if method in REPORTS:
        return epsilon, delta
    if method == "sulloyd":
        return epsilon / 2, delta
    if method == "feddp":
        return epsilon / 2, delta / (1 + math.exp(epsilon / 2))
    return gdp_epsilon(gdp_mu(epsilon, delta) / 2, delta), delta


def n_public(n: int, k: int) -> int:
    """How many of n records count as public: a hundredth, at least 10 k, at most `MOST_PUBLIC`."""
    return min(n, max(10 * k, min(round(PUBLIC_SHARE * n), MOST_PUBLIC)))


def server_points(points: FloatArray, k: int, *, rng: np.random.Generator) -> FloatArray:
    """Records that count as public, drawn at random: `n_public` of them."""
    return points[rng.choice(len(points), n_public(len(points), k), replace=False)]


class Outcome(NamedTuple):
    """One run: centres (k, d), the plan it followed, its transcript, and processor seconds."""

    centers: FloatArray
    plan: Any
    transcript: Any
    seconds: float


def one_run(
    trust: str, method: str, points: FloatArray, k: int, *, epsilon: float, seed: Any,
    bound: float = 1.0, delta: float = DELTA, n_clients: int = N_CLIENTS, **options: Any,
) -> Outcome:  # fmt: skip
    """Run `method` under `trust` at (epsilon, delta) for one replaced record, in teaching mode.

    Parameters
    ----------
    points : array of shape (n, d)
        In the unit ball, and in [-bound, bound]^d, which is public.
    n_clients : int
        Of secure sums.
    seed : numpy.random.SeedSequence or int
    **options
        For `simulate`.
    """
    check_choice(trust, "trust", tuple(dict.fromkeys(t for t, _ in PAIRS)))
    base = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # a new one: `spawn` counts its children, and the same seed shall give the same run again
    base = np.random.SeedSequence(base.entropy, spawn_key=base.spawn_key)
    split, protocol, server = base.spawn(3)
    rng, plan = np.random.default_rng(server), cast(Any, None)
    begin = time.process_time()
    if trust == "none":
        public = server_points(points, k, rng=rng)
        centers = kmeans.weighted_kmeans(public, None, k, rng=rng, n_init=10)
        return Outcome(centers, None, None, time.process_time() - begin)
    eps, dlt = asked(method, epsilon, delta)
    if method in REPORTS:
        users = simulate(points, trust, seed=protocol, **options)
        begin = time.process_time()
        more = {} if method == "sketch" and trust == "local" else {"delta": dlt}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = REPORTS[method](users, n_clusters=k, epsilon=eps, **more)
            result: Any = lk.run(users, plan, rng=rng)
        return Outcome(result.centers, plan, result.transcript, time.process_time() - begin)
    if method == "feddp":
        options |= {"bound": 1.0, "domain": "ball"}
        fed = dealt(points, trust, split, protocol, n_clients=n_clients, **options)
        public = server_points(points, k, rng=rng)
        begin = time.process_time()
        plan = fk.plan(fed, public, n_clusters=k, epsilon=eps, delta=dlt)
        result = fk.run(fed, plan, rng=rng)
    else:
        options["bound"] = bound
        fed = dealt(points, trust, split, protocol, n_clients=n_clients, **options)
        more = {} if method == "sulloyd" else {"delta": dlt}
        begin = time.process_time()
        plan = SUMS[method](fed, n_clusters=k, epsilon=eps, **more)
        result = fl.run(fed, plan)
    return Outcome(result.centers, plan, result.transcript, time.process_time() - begin)


def measure(
    cell: Cell, *, task: Task, trust: str, method: str, epsilon: float, seed: int, **options: Any
) -> Numbers:
    """Cost over the best non-private one, rounds, bytes that one client sends, seconds.

    All trust models get the same seed, so that those with the same noise give the same answer.
    `options` are for `simulate`.
    """
    points, bound = points_of(task, seed)
    same = seed_of(f"side_by_side/{'/'.join(map(str, task))}/{epsilon:g}/{seed}")
    how: dict[str, Any] = {"epsilon": epsilon, "seed": same, "bound": bound, **options}
    made = one_run(trust, method, points, task.k, **how)
    cost = kmeans.kmeans_cost(points, made.centers, normalize=True)
    return {
        "over_optimum": cost / best_cost(task, seed), "rounds": n_rounds(made),
        "bytes": sent_by_one(made, trust, task.n), "seconds": made.seconds,
    }  # fmt: skip


def n_rounds(made: Outcome) -> int:
    """Rounds in which clients send something."""
    return 0 if made.plan is None else len({release.round for release in made.plan.releases})


def sent_by_one(made: Outcome, trust: str, n_records: int) -> float:
    """Bytes that a client sends in a run, keys included, on average; none for an ideal sum."""
    if made.plan is None or trust == "ideal":
        return math.nan
    senders = {"clients", "nodes"}
    total = sum(
        m.n_bytes * m.count
        for m in made.transcript.messages
        if m.sender in senders or m.sender.startswith(("client ", "user"))
    )
    return total / (n_records if trust in ("local", "shuffled") else N_CLIENTS)
