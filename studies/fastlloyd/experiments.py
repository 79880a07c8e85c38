"""Experiments of notebook 01 whose plumbing is longer than their idea."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers import datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics import CELL_COUNTS, CUT_STEPS, RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.fastlloyd.postprocessing import cell_centers, shrinkage, simplex
from fedclust_helpers.federation import ClientData, Federation, Randomness, simulate
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


def privacy_and_start(
    by_n: Mapping[int, FloatArray], by_d: Mapping[int, FloatArray]
) -> tuple[list[float], list[float]]:
    """What privacy costs with few and many records; how often the start alone doubles a cost.

    Values are (m, 2): private over exact, exact over k-means, for m data sets. Both are printed.
    """
    privacy = [float(np.median(by_n[n][:, 0])) for n in (min(by_n), max(by_n))]
    lost = [float(np.mean(by_d[d][:, 1] > 2)) for d in (min(by_d), max(by_d))]
    print(f"factor by privacy, {min(by_n)} and {max(by_n)} records:", np.round(privacy, 2))
    print(f"sets whose cost the start doubles, d = {min(by_d)}, {max(by_d)}:", np.round(lost, 2))
    return privacy, lost


# --- the ladder to over-clustered Lloyd: (federation, k, epsilon) -> centres ----------------------


def as_planned(planner: Callable[..., Any]) -> Callable[[Federation, int, float], FloatArray]:
    """The rung of a method that has a planner."""
    return lambda room, k, epsilon: (
        fl.run(room, planner(room, n_clusters=k, epsilon=epsilon)).centers
    )


def histogram(room: Federation, k: int, epsilon: float, *, share: float = 1.0) -> FloatArray:
    """Rung 1: a noised histogram with this share of mu^2, and k-means on its cells."""
    n, d = room.n_records, room.n_features
    sigma = room.noise_multiplier(epsilon, fl.default_delta(n)) / np.sqrt(share)
    side = int(max(2, round((n / (1.5 * sigma)) ** (2 / (d + 2)))))
    noise = room.gaussian(CELL_COUNTS, "counts", multiplier=sigma, n_coordinates=side**d)
    box = np.full(d, room.bound)
    (counts,) = room.noisy_sum(
        CELL_COUNTS, [noise], round=0, lower=-box, upper=box, n_per_axis=side
    )
    cells = cell_centers(-box, box, side), simplex(counts, n)
    return kmeans.weighted_kmeans(*cells, k, rng=room.randomness.public)


def then_cut(room: Federation, k: int, epsilon: float, *, share: float = 0.7) -> FloatArray:
    """Rung 2: the rest of mu^2 for one round in which far records are cut, not left out.

    Centres are near their groups by now, so that the radius is less than half of FastLloyd's.
    """
    centers, d = histogram(room, k, epsilon, share=share), room.n_features
    sigma = room.noise_multiplier(epsilon, fl.default_delta(room.n_records))
    noise = [
        room.gaussian(CUT_STEPS, part, multiplier=part_sigma, n_coordinates=k * d)
        for part, part_sigma in zip(
            CUT_STEPS.parts, fl.split_noise(sigma / np.sqrt(1 - share), d), strict=True
        )
    ]
    radius = 0.45 * fl.max_radius(k, d)
    steps, counts = room.noisy_sum(CUT_STEPS, noise, round=1, centers=centers, radius=radius)
    divisor = np.maximum(counts, noise[1].std)[:, None]
    step = radius * steps / divisor
    spread = d * (radius * noise[0].std / divisor[:, 0]) ** 2
    return kmeans.truncate(centers + step * shrinkage(step, spread)[:, None])


RUNGS: dict[str, Callable[[Federation, int, float], FloatArray]] = {
    "FastLloyd": as_planned(fl.plan),
    "1 histogram": histogram,
    "2 then cut": then_cut,
    "3 over-cluster": as_planned(fl.plan_overclustered),
}


def ladder(k: int, epsilon: float, seeds: Sequence[np.random.SeedSequence]) -> pd.DataFrame:
    """Every rung: releases, epsilon, NICV over FastLloyd's with its 95 % interval.

    For each seed about 3000 records in k narrow groups of the plane, drawn anew. The interval is
    that of the mean logarithm of the ratio, run by run.
    """
    logs: dict[str, list[float]] = {name: [] for name in RUNGS}
    lines, spent = {}, {}
    for seed in seeds:
        of_data, of_run = seed.spawn(2)
        rng = np.random.default_rng(of_data)
        means, sizes = rng.uniform(-0.8, 0.8, (k, 2)), [3000 // k] * k
        points = np.clip(datasets.gaussian_mixture(means, 0.002, sizes, rng=rng).points, -1, 1)
        for name, rung in RUNGS.items():
            room = simulate([points], "ideal", seed=of_run)
            logs[name].append(float(np.log(metrics.nicv(points, rung(room, k, epsilon)))))
            lines[name] = len(room.ledger.releases)
            spent[name] = room.ledger.epsilon(fl.default_delta(len(points)))
    rows = []
    for name, values in logs.items():
        found = metrics.mean_ci(np.subtract(values, logs["FastLloyd"]))
        ends = found.mean + found.half_width * np.array([-1, 0, 1])
        rows.append((name, lines[name], spent[name], *np.exp(ends)))
    columns = ["rung", "releases", "epsilon", "low", "NICV ratio", "high"]
    return pd.DataFrame(rows, columns=columns).set_index("rung")
