"""Measurements behind the tables of better releases: costs of whole runs, rivals side by side."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from fedclust.estimators.cautions import UNSETTLED
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import kmeans, metrics
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers._validation import FloatArray, Positive, check_choice
from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.client_statistics import CUT_STEPS
from fedclust_helpers.fastlloyd.algorithm import default_delta, of_points
from fedclust_helpers.federation import Plan, simulate
from fedclust_helpers.program import Algorithm, Public, Release, Steps, gaussian
from studies import paper_data
from studies.bench.cell import Cell, Numbers, generator_of, summary
from studies.beyond.pe_means import plan_pe
from studies.fastlloyd.cells import dealt
from studies.fastlloyd.problems import (
    Problem,
    load_problem,
    reference_centers,
    scale_min_max_not_private,
)
from studies.ldp_kmeans.depths import fixed_four_rounds, fixed_one_round
from studies.ldp_kmeans.problems import Ball, best_ball_cost, load_ball


def known_groups(
    public: Public, sigma: float, *, n_clusters: int, initial: ArrayLike, radius: Positive
) -> Steps:
    """One cut round from centres that only an oracle knows, with the whole budget."""
    noise = [gaussian(z) for z in fl.split_noise(sigma, public.facts.n_features)]
    answer = yield Release(CUT_STEPS, noise, centers=initial, radius=radius)
    (sums, counts), (_, std) = answer, answer.std
    centers = fl.update_centers(
        np.asarray(initial), radius * sums, counts, radius=1.5 * radius, postprocess="truncate",
        bound=public.facts.bound, count_floor=max(1.0, std),
    )  # fmt: skip
    return fl.Centers(centers, np.stack([initial, centers]))


CENTRAL: dict[str, Callable[..., Plan]] = {
    "oracle": Algorithm(
        name="known groups", steps=known_groups, check=of_points, default_delta=default_delta
    ).planner("plan_known"),
    "fastlloyd": fl.plan, "overclustered": fl.plan_overclustered, "pe": plan_pe,
}  # fmt: skip
"""Names in the tables -> planner: methods of one guarantee, over any noised sum.

"oracle" starts from the best centres, with the root of their cost as radius: not private.
"""
LOCAL: dict[str, Callable[..., Plan]] = {
    "alg1": fixed_one_round, "alg4": fixed_four_rounds, "sketch": lk.plan_sketch,
}  # fmt: skip


# --- central: the same (epsilon, delta), one point, over a secure sum -----------------------------


@lru_cache(maxsize=3)
def central_set(name: str) -> tuple[Problem, FloatArray]:
    """A set of the papers, an open table or, for "KIND_n_d_k", one drawn here; its best centres."""
    kind, *size = name.rsplit("_", 3)
    if name in paper_data.OPEN_TABLES:
        points, k = paper_data.load_open(name), paper_data.OPEN_TABLES[name].n_clusters
        rng = generator_of(f"reference/{name}")
        return Problem(name, points, k), kmeans.weighted_kmeans(points, None, k, rng=rng, n_init=20)
    if kind not in (*ODD, "unequal", "round"):
        return load_problem(name), reference_centers(name)
    n, d, k = map(int, size)
    points = drawn_odd(kind, n, d=d, k=k, rng=generator_of(f"data/{name}"))
    points = scale_min_max_not_private(points)
    rng = generator_of(f"reference/{name}")
    return Problem(name, points, k), kmeans.weighted_kmeans(points, None, k, rng=rng, n_init=10)


def rows_seen(n: int, d: int, k: int, epsilon: float) -> Numbers:
    """s, rows of a cluster for each noise of a count, and what noise adds for known groups."""
    mu = gdp_mu(epsilon, fl.default_delta(n))
    return {"s": n * mu / k, "known": fl.known_groups_excess(n, k, d, mu)}


def nicv(
    cell: Cell, *, dataset: str, method: str, epsilon: float, width: float = 1.0, sets: str = ""
) -> Numbers:
    """NICV over repeated runs, what a client sends, and the processor time of a run.

    `sets` says whether the recipe was tuned on the set. Bounds are `width` times as wide as those
    that fit; NICV is in the units of the latter.
    """
    problem, centers = central_set(dataset)
    best = metrics.nicv(problem.points, centers)
    if method == "optimum":
        return problem.shape | {"nicv_mean": best, "nicv_median": best}
    start: Any = {"initial": centers / width, "radius": math.sqrt(best) / width}
    more = start if method == "oracle" else {}
    room: Any = {"domain": "ball", "bound": math.sqrt(len(centers[0]))} if method == "pe" else {}
    planner = CENTRAL[check_choice(method, "method", tuple(CENTRAL))]
    # rows beyond too narrow bounds are moved to their edge, as a federation does
    points = np.clip(problem.points / width, -1, 1)
    costs, seconds, plan = [], [], None
    for seed in cell.seeds():
        federation = dealt(points, "ideal", *seed.spawn(2), **room)
        begin = time.process_time()
        plan = planner(federation, n_clusters=problem.n_clusters, epsilon=epsilon, **more)
        centers = fl.run(federation, plan).centers
        seconds.append(time.process_time() - begin)
        costs.append(metrics.nicv(problem.points, width * np.clip(centers, -1, 1)))
    found = summary(costs)
    assert plan is not None
    runs = {f"run_{i}": cost / best for i, cost in enumerate(costs) if method == "overclustered"}
    return problem.shape | rows_seen(epsilon=epsilon, **problem.shape) | runs | {
        "nicv_mean": found["mean"], "nicv_median": found["median"], "ci95": found["ci95"],
        "aggregates": len(plan.releases), "seconds": float(np.median(seconds)),
        "numbers_per_client": sum(r.numbers for r in plan.releases),
    }  # fmt: skip


def chosen_k(cell: Cell, *, dataset: str, epsilon: float, k_max: int) -> Numbers:
    """What k over-clustered Lloyd chooses from 2 to `k_max`, over repeated runs.

    `exact` and `near` are the shares of runs with the true k, and within a quarter of it.
    """
    problem, _ = central_set(dataset)
    chosen = []
    for seed in cell.seeds():
        federation = simulate([problem.points], "ideal", seed=seed)
        plan = fl.plan_overclustered(
            federation, n_clusters="auto", epsilon=epsilon, k_range=(2, k_max)
        )
        chosen.append(len(fl.run(federation, plan).centers))
    off = np.abs(np.array(chosen) / problem.n_clusters - 1)
    return problem.shape | rows_seen(epsilon=epsilon, **problem.shape) | {
        "k_median": float(np.median(chosen)), "k_least": min(chosen), "k_most": max(chosen),
        "exact": float((off == 0).mean()), "near": float((off <= 0.25).mean()),
    }  # fmt: skip


# --- copies: one release for any number of clusters, and for batches ------------------------------


def copied(cell: Cell, *, dataset: str, epsilon: float, batches: int, times: float) -> Numbers:
    """Cost of `times` k clusters in the copy of fits for k, over that of a fit for so many.

    `again` has a fit of each of so many `batches` of the rows, with the same epsilon, and their
    copies put together; `planned` one fit of all rows. Medians of NICV over repeated runs.
    """
    problem, _ = central_set(dataset)
    points, k = problem.points, problem.n_clusters
    asked, delta = max(2, round(times * k)), fl.default_delta(len(points))

    def fitted(rows: FloatArray, k: int, seed: np.random.SeedSequence) -> Any:
        federation = simulate([rows], "ideal", seed=seed)
        return fl.run(federation, fl.plan_overclustered(
            federation, n_clusters=k, epsilon=epsilon, delta=delta
        ))  # fmt: skip

    again, planned = [], []
    for seed in cell.seeds():
        order, starts, alone, *each = seed.spawn(3 + batches)
        rows = points[np.random.default_rng(order).permutation(len(points))]
        parts = zip(np.array_split(rows, batches), each, strict=True)
        copy = fl.together([fitted(part, k, one).copy for part, one in parts])
        found = copy.centers(asked, rng=np.random.default_rng(starts))
        again.append(metrics.nicv(points, found))
        planned.append(metrics.nicv(points, fitted(points, asked, alone).centers))
    costs = {"again": float(np.median(again)), "planned": float(np.median(planned))}
    return problem.shape | rows_seen(epsilon=epsilon, **problem.shape) | costs | {
        "asked": asked, "over_planned": costs["again"] / costs["planned"],
    }  # fmt: skip


class Groups(NamedTuple):
    """Round groups of one size and one width, their middles drawn in [-0.7, 0.7]^d."""

    n: int
    d: int
    groups: int
    width: float


def unsettled(cell: Cell, *, drawn: Groups, k: int, epsilon: float) -> Numbers:
    """What each run's copy says about other runs, and how much its labels agree with theirs.

    `said_i` is the share of rows that another draw of the noise would put elsewhere, `agree_i` the
    mean adjusted Rand index of all labels with those of the other runs. `overlap` is the share of
    rows that lie nearer to the middle of another group.
    """
    n, d, groups, width = drawn
    rng = generator_of(f"groups/{n}/{d}/{groups}/{width:g}")
    middles, of = rng.uniform(-0.7, 0.7, (groups, d)), rng.integers(0, groups, n)
    points = np.clip(middles[of] + width * rng.standard_normal((n, d)), -1, 1)
    said, labels = [], []
    for seed in cell.seeds():
        federation = simulate([points], "ideal", seed=seed)
        plan = fl.plan_overclustered(federation, n_clusters=k, epsilon=epsilon)
        result = fl.run(federation, plan)
        said.append(result.copy.unsettled(result.centers, rng=np.random.default_rng(0)))
        labels.append(kmeans.assign(points, result.centers).labels)
    agree = np.zeros((cell.runs, cell.runs))
    for i, j in combinations(range(cell.runs), 2):
        agree[i, j] = agree[j, i] = adjusted_rand_score(labels[i], labels[j])
    with_others = agree.sum(axis=1) / (cell.runs - 1)
    return {
        "overlap": float((kmeans.assign(points, middles).labels != of).mean()),
        "said": float(np.mean(said)), "agreement": float(with_others.mean()),
        "warned": float((np.array(said) > UNSETTLED).mean()),
    } | {f"said_{i}": one for i, one in enumerate(said)} | {
        f"agree_{i}": float(one) for i, one in enumerate(with_others)
    }  # fmt: skip


# --- local: the same epsilon, one user ------------------------------------------------------------


ODD = {
    "moons": 6, "rings": 6, "heavy_tails": 5, "skewed": 5, "nested": 3, "uniform": 5,
    "wide_bounds": 5,
}  # fmt: skip
"""Sets of points in the plane that are no mixture of round clusters of one width, and their k."""


def drawn_odd(data: str, n: int, *, d: int = 2, k: int = 5, rng: np.random.Generator) -> FloatArray:
    """Points (n, d) of an odd set, before they are scaled; moons and rings lie in the plane."""
    places, label = rng.uniform(-0.7, 0.7, (k, d)), rng.integers(0, k, n)
    number = int(rng.integers(2**31))
    if data == "moons":
        return np.asarray(make_moons(n, noise=0.08, random_state=number)[0])
    if data == "rings":
        return np.asarray(make_circles(n, noise=0.05, factor=0.4, random_state=number)[0])
    if data == "heavy_tails":
        return np.clip(places[label] + 0.05 * rng.standard_t(2, (n, d)), -1, 1)
    if data == "skewed":
        width = 0.05 * (1 + label[:, None])
        return np.clip(places[label] + width * rng.exponential(size=(n, d)), -1, 1)
    if data == "nested":
        wide, narrow = 0.35 * rng.normal(size=(n, d)), 0.1 + 0.03 * rng.normal(size=(n, d))
        return np.clip(np.where(rng.random((n, 1)) < 0.3, narrow, wide), -1, 1)
    if data == "uniform":
        return rng.uniform(-1, 1, (n, d))
    if data == "unequal":  # the i-th group has a share like 1/i
        label = rng.choice(k, n, p=(size := 1 / np.arange(1, k + 1)) / size.sum())
    return places[label] + 0.06 * rng.normal(size=(n, d))


@lru_cache(maxsize=2)
def odd_points(ball: Ball) -> FloatArray:
    """An odd set in the unit ball, whose box it fills; a tenth of it for "wide_bounds"."""
    check_choice(ball.data, "data", tuple(ODD))
    points = drawn_odd(ball.data, ball.n, rng=generator_of(f"odd/{ball.data}/{ball.seed}"))
    low, high = points.min(axis=0), points.max(axis=0)
    points = (2 * (points - low) / (high - low).max() - 1) / math.sqrt(2)
    if ball.data == "wide_bounds":
        points *= 0.1
    points.flags.writeable = False
    return points


@lru_cache(maxsize=8)
def best_odd_cost(ball: Ball) -> float:
    """Cost per point of the best non-private clustering found."""
    rng = generator_of(f"reference/{ball.data}/{ball.seed}")
    centers = kmeans.weighted_kmeans(odd_points(ball), None, ball.k, rng=rng, n_init=3)
    return kmeans.kmeans_cost(odd_points(ball), centers, normalize=True)


def local_cost(cell: Cell, *, ball: Ball, algorithm: str, epsilon: float) -> Numbers:
    """k-means cost per point of one run over the best non-private one, and seconds."""
    planner = LOCAL[check_choice(algorithm, "algorithm", tuple(LOCAL))]
    odd = ball.data in ODD
    points = odd_points(ball) if odd else load_ball(ball).points
    best = best_odd_cost(ball) if odd else best_ball_cost(ball)
    protocol, server = cell.seed.spawn(2)
    users = simulate(points, "local", seed=protocol)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = planner(users, n_clusters=ball.k, epsilon=epsilon)
        centers = lk.run(users, plan, rng=np.random.default_rng(server)).centers
    seconds = time.process_time() - begin
    cost = kmeans.kmeans_cost(points, centers, normalize=True)
    return {"cost": cost, "nonprivate": best, "over_optimum": cost / best, "seconds": seconds}
