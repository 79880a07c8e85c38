"""Experiments of notebook 01 whose plumbing is longer than their idea."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import accounting, datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation import ClientData, Randomness, simulate
from fedclust_helpers.federation.ways import Masked
from fedclust_helpers.program import Program


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
    planned_error: float


def read_published(
    clients: Sequence[FloatArray], start: FloatArray, *, noise_from: str, seed: Any, **asked: Any
) -> Published:
    """One round from a public start; the centres are published, the server takes its noise away.

    A centre is start + (R + noise_R) / (n + noise_n): for the true count n, and with the right
    noises, R is a whole number of steps of the grid. The server tries every count.
    """
    room = simulate(clients, "masked", seed=seed, noise_from=noise_from)
    plan = fl.plan(room, n_rounds=1, initial=start, **asked)
    published = fl.run(room, plan).centers
    by_server = simulate(clients, "masked", seed=seed)
    noises = fl.plan(by_server, n_rounds=1, initial=start, **asked).mechanisms[0]
    own = Randomness.teaching(seed).noise  # the server's own generator
    ring = cast(Masked, by_server.way).fixed_point
    noise_r, noise_n = (
        ring.round(noise.sample(shape, rng=own))
        for noise, shape in zip(noises, (start.shape, start.shape[:1]), strict=True)
    )
    points = np.vstack(clients)
    tries = np.arange(len(points) + 1)[:, None] + noise_n
    candidates = (published - start) * tries[..., None] - noise_r
    steps = candidates / room.facts.resolution
    found = np.abs(steps - np.rint(steps)).max(axis=2).argmin(axis=0)
    sums = candidates[found, np.arange(len(start))]
    true_sums, true_counts = relative_statistic(points, start, float(np.sqrt(start.shape[1])))
    right = found == true_counts
    error = float(np.abs(sums - true_sums)[right].max(initial=0.0))
    assert plan.predicted_error is not None
    return Published(found, true_counts, error, float(np.sqrt(plan.predicted_error)))


def through_the_wire(
    clients: Sequence[FloatArray], plan: Program, start: FloatArray, seed: Any
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
    epsilon: float | None, delta: float, rng: np.random.Generator,
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
    for radius in fl.round_radii(n_rounds, k, d).tolist():
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


def ends(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence], **asked: Any
) -> dict[str, FloatArray]:
    """Cost over that of k-means, (m,) for m starts: FastLloyd, without noise, over-clustered."""
    best = kmeans.weighted_kmeans(points, None, k, rng=np.random.default_rng(0), n_init=5)
    planners: dict[str, tuple[Any, dict[str, Any]]] = {
        "FastLloyd": (fl.plan, asked), "without noise": (fl.plan_lloyd, {}),
        "over-clustered": (fl.plan_overclustered, asked),
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in planners}
    for seed in seeds:
        for name, (planner, budget) in planners.items():
            room = simulate([points], "ideal", seed=seed)
            centers = fl.run(room, planner(room, n_clusters=k, **budget)).centers
            found[name].append(metrics.nicv(points, centers) / metrics.nicv(points, best))
    return {name: np.array(costs) for name, costs in found.items()}


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
        room = simulate([data], "ideal", seed=of_run)
        exact = metrics.nicv(data, fl.run(room, fl.plan_lloyd(room, n_clusters=k)).centers)
        room = simulate([data], "ideal", seed=of_run)
        private = fl.run(room, fl.plan(room, n_clusters=k, **asked)).centers
        factors.append((metrics.nicv(data, private) / exact, exact / best))
    return np.array(factors)


def guesses(
    worlds: Sequence[FloatArray], start: FloatArray, cluster: int,
    seeds: Sequence[np.random.SeedSequence], **asked: Any,
) -> FloatArray:  # fmt: skip
    """The record that joined, as read off two FastLloyd runs as if there were no noise, (m, 2).

    `worlds` are the rows of May and June, `start` the public centres, `cluster` the record's.
    """

    def first_sums(rows: FloatArray, seed: np.random.SeedSequence) -> FloatArray:
        room = simulate([rows], "ideal", seed=seed)
        plan = fl.plan(room, n_clusters=len(start), initial=start, **asked)
        return fl.run(room, plan).released[0][0][cluster]

    pairs = ([first_sums(w, s) for w, s in zip(worlds, x.spawn(2), strict=True)] for x in seeds)
    return np.array([june - may + start[cluster] for may, june in pairs])


def worst_case_scores(
    clients: Sequence[FloatArray], start: FloatArray, n_runs: int, seed: np.random.SeedSequence,
    *, mu: float = 1.0,
) -> FloatArray:  # fmt: skip
    """Scores of masked rounds without and with a patient at the rim of the radius, (2, n_runs).

    The attacker knows all other records and where the noised answer would move: the score is the
    answer in that direction, in standard deviations of its noise. It has mean 0 without the
    patient and, if the noise is as planned for this `mu`, mean mu with the patient.
    """
    delta = 1e-5
    budget: dict[str, Any] = {"epsilon": accounting.gdp_epsilon(mu, delta), "delta": delta}
    room = simulate(clients, "masked", seed=0)
    plan = fl.plan(
        room, n_clusters=len(start), initial=start, n_rounds=1, strategy="constant", **budget
    )
    radius = plan.broadcasts("radius")[0]
    patient = start[:1] + radius * (1 - 1e-7) * np.eye(1, start.shape[1])
    worlds = clients, [*clients[:-1], np.vstack([clients[-1], patient])]
    out, in_ = (relative_statistic(np.vstack(world), start, radius) for world in worlds)
    scales = [noise.std for noise in plan.mechanisms[0]]
    way = [(b - a) / scale for a, b, scale in zip(out, in_, scales, strict=True)]
    length = np.sqrt(sum(float((part**2).sum()) for part in way))
    scores = []
    for world, of_world in zip(worlds, seed.spawn(2), strict=True):
        release = through_the_wire(world, plan, start, of_world)
        seen = (release(np.random.default_rng(0)) for _ in range(n_runs))
        scores.append([
            sum(
                float(((y - a) / s * w).sum())
                for y, a, s, w in zip(answer, out, scales, way, strict=True)
            ) / length
            for answer in seen
        ])  # fmt: skip
    return np.array(scores)
