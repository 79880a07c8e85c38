"""Experiments of notebook 01 whose plumbing is longer than their idea."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import count, product
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import clone

from fedclust.estimators import PrivateKMeans, UncertainCentersWarning
from fedclust_helpers import accounting, datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation import ClientData, Randomness, simulate
from fedclust_helpers.federation.aggregation import Masked
from fedclust_helpers.program import Plan
from studies.bench.samples import Rows


def two_hospitals(n: int, *, rng: np.random.Generator) -> tuple[FloatArray, ClientData]:
    """About n points of five groups in [-1, 1]^2, and the two clients who hold them.

    Client 0 has most of groups 0 and 2, client 1 of groups 1 and 4; group 3 is shared.
    """
    means = [[-0.6, -0.55], [0.55, -0.6], [-0.65, 0.5], [0.1, 0.1], [0.65, 0.6]]
    sizes = np.rint(n * np.array([0.35, 0.25, 0.2, 0.125, 0.075])).astype(int)
    mixture = datasets.gaussian_mixture(means, 0.12**2, sizes, rng=rng)
    points = np.clip(mixture.points, -1, 1)
    part_in_first = np.array([1.0, 0.0, 0.99, 0.6, 0.02])[mixture.labels]
    owners = (rng.random(len(points)) >= part_in_first).astype(int)
    return points, ClientData.from_owners(points, owners)


def relative_statistic(
    rows: ArrayLike, centers: FloatArray, radius: float
) -> tuple[FloatArray, IntArray]:
    """What FastLloyd releases, before noise: sums of (x - centre) (k, d), and counts (k,)."""
    return kmeans.sums_and_counts(rows, centers, radius=radius, relative=True)


def one_record_moves(*, rng: np.random.Generator) -> tuple[float, float, float]:
    """Change over the radius by one record, in a random case: dimension, clusters, centres, data.

    Of the plain sums, of the relative sums, and of the relative sums if the record is replaced by
    the one opposite. Half of the records lie just inside the radius, the others anywhere in it.
    """
    d, k = int(rng.integers(1, 9)), int(rng.integers(1, 16))
    eta, centers = fl.max_radius(k, d), rng.uniform(-1, 1, (k, d))
    rows, way = rng.uniform(-1, 1, (60, d)), rng.normal(size=d)
    length = eta * rng.choice([rng.random() ** (1 / d), 1 - 1e-7])
    step = length * way / np.linalg.norm(way)
    more: tuple[Any, ...] = (rows[:0], centers[:1] + step, centers[:1] - step)
    base, added, other = (
        relative_statistic(np.vstack([rows, extra]), centers, eta)[0] for extra in more
    )
    plain, moved, replaced = (
        float(np.linalg.norm(move) / eta) for move in (more[1], added - base, added - other)
    )
    return plain, moved, replaced


class Published(NamedTuple):
    """What a server that knows its noise reads in published centres, and what is true."""

    counts: IntArray
    true_counts: IntArray
    largest_error: float


def read_published(
    clients: Sequence[FloatArray], start: FloatArray, *, noise_from: str, seed: Any,
    decimals: int = 16, **asked: Any,
) -> Published:  # fmt: skip
    """One round from a public start; the centres are published, the server takes its noise away.

    A centre is start + (R + noise_R) / (n + noise_n): for the true count n, and with the right
    noises, R is a whole number of steps of the grid. The server tries every count.
    """
    fed = simulate(clients, "masked", seed=seed, noise_from=noise_from)
    plan = fl.plan(fed, n_rounds=1, initial=start, **asked)
    published = fl.run(fed, plan).centers.round(decimals)
    by_server = simulate(clients, "masked", seed=seed)
    noises = fl.plan(by_server, n_rounds=1, initial=start, **asked).mechanisms[0]
    own = Randomness.teaching(seed).noise  # the server's own generator
    ring = cast(Masked, by_server.aggregation).fixed_point
    noise_r, noise_n = (
        ring.round(noise.sample(shape, rng=own))
        for noise, shape in zip(noises, (start.shape, start.shape[:1]), strict=True)
    )
    points = np.vstack(clients)
    tries = np.arange(len(points) + 1)[:, None] + noise_n
    candidates = (published - start) * tries[..., None] - noise_r
    steps = candidates / fed.facts.resolution
    found = np.abs(steps - np.rint(steps)).max(axis=2).argmin(axis=0)
    sums = candidates[found, np.arange(len(start))]
    true_sums, true_counts = relative_statistic(points, start, float(np.sqrt(start.shape[1])))
    right = found == true_counts
    error = float(np.abs(sums - true_sums)[right].max(initial=0.0))
    return Published(found, true_counts, error)


def through_the_wire(
    clients: Sequence[FloatArray], plan: Plan, start: FloatArray, seed: Any
) -> Callable[..., Any]:
    """A release for an audit: round 0 of `plan`, masked; the server draws the noise, not `rng`."""
    stage, number = simulate(clients, "masked", seed=seed), count()
    at: Any = {"centers": start, "radius": plan.broadcasts("radius")[0]}

    def release(rng: np.random.Generator) -> Any:
        return stage.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, plan.mechanisms[0], round=next(number), **at
        )

    return release


def variant(
    points: FloatArray, centers: FloatArray, *, cut: bool, steps: bool, n_rounds: int,
    epsilon: float | None, delta: float, rng: np.random.Generator, **radii: Any,
) -> FloatArray:  # fmt: skip
    """Private Lloyd with or without each of FastLloyd's two ideas; centres (k, d) after all rounds.

    `steps`: sums of steps from the old centres, in place of sums of positions. `cut`: records
    beyond the radius do not count. Neither is GLloyd that folds, both are FastLloyd. Every variant
    has the noise that its own sensitivity needs: the radius (both), the diagonal of the box (steps
    that are not cut) or half of it (positions). Epsilon None: without noise.
    """
    k, d = centers.shape
    sigma = 0.0 if epsilon is None else np.sqrt(n_rounds) / accounting.gdp_mu(epsilon, delta)
    split = fl.split_noise if steps else fl.split_noise_glloyd
    noises = split(sigma, d) if sigma else (0.0, 0.0)
    for radius in fl.round_radii(n_rounds, k, d, **radii).tolist():
        reach = (radius if cut else 2 * np.sqrt(d)) if steps else np.sqrt(d)
        sums, counts = kmeans.sums_and_counts(
            points, centers, radius=radius if cut else None, relative=steps
        )
        noised = sums + rng.normal(0, 1, (k, d)) * noises[0] * reach
        divisor = np.maximum(counts + rng.normal(0, 1, k) * noises[1], 1)
        if not steps:
            centers = kmeans.fold(noised / divisor[:, None])
            continue
        centers = fl.update_centers(centers, noised, divisor, radius=reach)
    return centers


def bad_ends(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence], **asked: Any
) -> dict[str, int]:
    """How many of these starts end above 1.5 times the cost of k-means.

    FastLloyd, Lloyd without noise from the same starts, and over-clustered Lloyd.
    """
    (best,), found = best_centers([points], k), {}
    planners: dict[str, tuple[Any, dict[str, Any]]] = {
        "FastLloyd": (fl.plan, asked), "without noise": (fl.plan_lloyd, {}),
        "over-clustered": (fl.plan_overclustered, asked),
    }  # fmt: skip
    for name, (planner, budget) in planners.items():
        feds = [simulate([points], "ideal", seed=seed) for seed in seeds]
        runs = (fl.run(fed, planner(fed, n_clusters=k, **budget)) for fed in feds)
        costs = [metrics.nicv(points, run.centers) for run in runs]
        found[name] = sum(cost > 1.5 * metrics.nicv(points, best) for cost in costs)
    return found


def losses(
    n: int, d: int, k: int, seeds: Sequence[np.random.SeedSequence], **asked: Any
) -> FloatArray:
    """(m, 2) factors on the cost of m made sets of k groups: that of the noise, that of the start.

    The noise: FastLloyd over Lloyd without noise, from one start. The start: Lloyd without noise
    over Lloyd from the true means.
    """
    factors = []
    for seed in seeds:
        of_data, of_run = seed.spawn(2)
        rng = np.random.default_rng(of_data)
        groups = rng.uniform(-0.7, 0.7, (k, d))
        data = np.clip(groups[np.arange(n) % k] + rng.normal(0, 0.1, (n, d)), -1, 1)
        best = metrics.nicv(data, kmeans.lloyd(data, groups, n_rounds=5))
        fed = simulate([data], "ideal", seed=of_run)
        exact = metrics.nicv(data, fl.run(fed, fl.plan_lloyd(fed, n_clusters=k)).centers)
        fed = simulate([data], "ideal", seed=of_run)
        private = fl.run(fed, fl.plan(fed, n_clusters=k, **asked)).centers
        factors.append((metrics.nicv(data, private) / exact, exact / best))
    return np.array(factors)


def best_centers(parts: Sequence[FloatArray], k: int) -> list[FloatArray]:
    """Centres of k-means without privacy, best of five starts, for the rows of each part."""
    fit, rng = kmeans.weighted_kmeans, np.random.default_rng(0)
    return [fit(rows, None, k, rng=rng, n_init=5) for rows in parts]


def round_table(transcript: Any, *, round: int) -> str:
    """Every message of a round: from whom, to whom, what, how long, how often."""
    sent = transcript.to_frame().query(f"round == {round}")
    return str(
        sent[["sender", "receiver", "name", "dtype", "n_bytes", "count"]].to_string(index=False)
    )


def guesses(
    points: FloatArray, start: FloatArray, record: FloatArray,
    seeds: Sequence[np.random.SeedSequence], **asked: Any,
) -> FloatArray:  # fmt: skip
    """A record (1, d) that joins, read off two FastLloyd runs as if there were no noise, (m, d).

    Both runs begin at the public centres `start`, each with noise of its own. The attacker takes
    the sums without the record from those with it, and is even told in which cluster it is.
    """
    cluster, worlds = kmeans.assign(record, start).labels[0], (points, np.vstack([points, record]))

    def first_sums(rows: FloatArray, seed: np.random.SeedSequence) -> FloatArray:
        fed = simulate([rows], "ideal", seed=seed)
        plan = fl.plan(fed, n_clusters=len(start), initial=start, **asked)
        sums: FloatArray = fl.run(fed, plan).released[0][0]
        return sums[cluster]

    pairs = ([first_sums(w, s) for w, s in zip(worlds, x.spawn(2), strict=True)] for x in seeds)
    return np.array([june - may + start[cluster] for may, june in pairs])


def at_rim(centers: FloatArray, radius: float) -> FloatArray:
    """A record (1, d) in the box, just inside the radius of its nearest centre: the worst case.

    Raises
    ------
    ValueError
        If no record along the axes from any of the centres is one.
    """
    axes = np.eye(centers.shape[1])
    for j, way in product(range(len(centers)), (*axes, *-axes)):
        record = centers[j : j + 1] + (1 - 1e-7) * radius * way
        if np.abs(record).max() <= 1 and kmeans.assign(record, centers).labels[0] == j:
            return record
    raise ValueError("centers and radius leave no room for a record at the rim")


def worst_case_scores(
    clients: Sequence[FloatArray], start: FloatArray, n_runs: int, *, mu: float
) -> Callable[..., FloatArray]:
    """A game: (seed) -> scores of masked rounds without and with one patient, (2, n_runs).

    The first clients hold 150 rows of each; the patient is at the rim of the radius. The attacker
    knows all other records and where the answer would move: the score is the answer in that
    direction, in standard deviations of the noise that is claimed. It has mean 0 without the
    patient and, if the noise is as planned for `mu`, mean mu with the patient. The game takes
    `noise`, what the code really adds as a part of that, and `reach`: how far the patient is from
    the centre, as a part of the radius.
    """
    few, k = [rows[:150] for rows in clients[:2]], len(start)

    def planned(strength: float) -> Plan:
        budget: Any = {"epsilon": accounting.gdp_epsilon(strength, 1e-5), "delta": 1e-5}
        budget |= {"initial": start, "n_rounds": 1, "strategy": "constant"}
        return fl.plan(simulate(few, "masked", seed=0), n_clusters=k, **budget)

    claimed = planned(mu)
    radius = claimed.broadcasts("radius")[0]
    sds = [noise.std for noise in claimed.mechanisms[0]]

    def flat(answer: Any) -> FloatArray:
        parts = zip(answer, sds, strict=True)
        return np.concatenate([np.ravel(x) / sd for x, sd in parts])

    def game(seed: np.random.SeedSequence, noise: float = 1.0, reach: float = 1.0) -> FloatArray:
        worlds = few, [*few[:-1], np.vstack([few[-1], at_rim(start, reach * radius)])]
        out, in_ = (flat(relative_statistic(np.vstack(w), start, radius)) for w in worlds)
        way = (in_ - out) / np.linalg.norm(in_ - out)
        plan, rng = planned(mu / noise), np.random.default_rng(0)
        plays = [
            through_the_wire(w, plan, start, s) for w, s in zip(worlds, seed.spawn(2), strict=True)
        ]
        return np.array([[(flat(play(rng)) - out) @ way for _ in range(n_runs)] for play in plays])

    return game


def at_least(scores: Sequence[FloatArray], threshold: float = 0.5) -> float:
    """A lower bound on mu from scores without and with a record; wrong in at most 5 % of audits."""
    caught = [stats.binomtest(int((s > threshold).sum()), len(s)) for s in scores]
    false, hits = (test.proportion_ci(0.95) for test in caught)
    return float(stats.norm.ppf(hits.low) - stats.norm.ppf(false.high))


VARIANTS: dict[str, dict[str, bool]] = {
    "plain sums": {"cut": False, "steps": False}, "cut only": {"cut": True, "steps": False},
    "steps only": {"cut": False, "steps": True}, "both": {"cut": True, "steps": True},
}  # fmt: skip


def over_exact(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence],
    epsilons: Sequence[float], *, delta: float, n_rounds: int = 3,
) -> dict[float, dict[str, FloatArray]]:  # fmt: skip
    """By epsilon and name: cost of each of `VARIANTS` over that without noise, same start, (m,)."""
    how: Any = {"delta": delta, "n_rounds": n_rounds}
    found: Any = {epsilon: {name: [] for name in VARIANTS} for epsilon in epsilons}
    for of_start, of_noise in (seed.spawn(2) for seed in seeds):
        start = kmeans.sphere_packing(k, points.shape[1], rng=np.random.default_rng(of_start))
        rng, plain = np.random.default_rng(of_noise), VARIANTS["plain sums"]
        exact = metrics.nicv(points, variant(points, start, epsilon=None, rng=rng, **plain, **how))
        for epsilon, (name, flags) in product(epsilons, VARIANTS.items()):
            rng = np.random.default_rng(of_noise)
            centers = variant(points, start, epsilon=epsilon, rng=rng, **flags, **how)
            found[epsilon][name].append(metrics.nicv(points, centers) / exact)
    return {e: {name: np.array(costs) for name, costs in of.items()} for e, of in found.items()}


def share_error(
    d: int, *, rng: np.random.Generator, epsilon: float, delta: float, of: int = 400,
    draws: int = 4000,
) -> Callable[..., FloatArray]:  # fmt: skip
    """Mean squared error of the centre of `of` records: (shares of mu^2 for counts, move) -> (m,).

    Move and error in radii; all shares have the same draws; one release spends (epsilon, delta).
    """
    noise = rng.normal(size=(draws, d + 1)) / accounting.gdp_mu(epsilon, delta)

    def error(shares: ArrayLike, step: float) -> FloatArray:
        w, true = np.ravel(shares)[:, None, None], step * np.eye(d)[0]
        means = (of * true + noise[:, 1:] / np.sqrt(1 - w)) / (of + noise[:, :1] / np.sqrt(w))
        return np.asarray(((means - true) ** 2).sum(axis=2).mean(axis=1))

    return error


def breaks(
    seeds: Sequence[np.random.SeedSequence], **asked: Any
) -> tuple[dict[int, FloatArray], dict[int, FloatArray]]:
    """`losses` by the number of records (in the plane), and by columns (2000 records)."""
    by_n = {n: losses(n, 2, 5, seeds, **asked) for n in (100, 300, 1000, 3000)}
    return by_n, {d: losses(2000, d, 5, seeds, **asked) for d in (2, 8, 32, 64)}


def finale(
    models: Sequence[PrivateKMeans], rows: Rows, table: pd.DataFrame,
    seeds: Sequence[np.random.SeedSequence],
) -> tuple[FloatArray, pd.DataFrame]:  # fmt: skip
    """Centres of k-means without privacy, in the box, and how fitted models compare, by method.

    Columns: cost over that of k-means; share of rows in the group of their label; median, 10 % and
    90 % of the cost over `seeds`; how many runs warned. `table` has a column "hospital".
    """
    (best,), found = best_centers([rows.points], rows.k), dict[str, Any]()
    for model in models:
        centers, warned = [], 0
        for seed in (model.seed, *(int(seed.generate_state(1)[0]) for seed in seeds)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", UncertainCentersWarning)
                run = clone(model).set_params(seed=seed).fit(table, clients="hospital")
            centers.append(datasets.scale_to_box(run.cluster_centers_, rows.lower, rows.upper))
            warned += bool(told)
        found[str(model.method)] = centers, warned
    found["k-means"] = [best] * 2, 0
    for name, (centers, warned) in found.items():
        right = np.mean(kmeans.assign(rows.points, centers[0]).labels == rows.labels)
        costs = [metrics.nicv(rows.points, m) / metrics.nicv(rows.points, best) for m in centers]
        others = np.quantile(costs[1:], (0.5, 0.1, 0.9))
        found[name] = costs[0], max(right, 1 - right), *others, warned
    columns = ["cost", "agreement", "median", "10 %", "90 %", "warned"]
    return best, pd.DataFrame.from_dict(found, orient="index", columns=columns)


def by_radius(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence], alphas: Sequence[float],
    *, epsilon: float, delta: float, n_rounds: int = 7,
) -> dict[float, FloatArray]:  # fmt: skip
    """By the one radius of all rounds: median costs, with and without noise, over Lloyd's."""
    found, d = {}, points.shape[1]
    how: Any = {"n_rounds": n_rounds, "delta": delta, "strategy": "constant", "steps": True}
    for alpha in alphas:
        costs, how["alpha"] = [], alpha
        for rng in map(np.random.default_rng, seeds):
            start = kmeans.sphere_packing(k, d, rng=rng)
            for e, cut in ((epsilon, True), (None, True), (None, False)):
                centers = variant(points, start, epsilon=e, cut=cut, rng=rng, **how)
                costs.append(metrics.nicv(points, centers))
        *cut_runs, lloyd = np.reshape(costs, (-1, 3)).T
        found[round(fl.max_radius(k, d, alpha=alpha), 3)] = np.median(cut_runs / lloyd, axis=1)
    return found
