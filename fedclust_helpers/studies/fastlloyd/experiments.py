"""Experiments of notebook 01 whose plumbing is longer than their idea."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import datasets, kmeans
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation import ClientData, Randomness, simulate


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
    sums, counts = kmeans.sums_and_counts(rows, centers, radius=radius)
    return sums - counts[:, None] * centers, counts


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
    noise_r, noise_n = (
        by_server.fixed_point.round(noise.sample(shape, rng=own))
        for noise, shape in zip(noises, (start.shape, start.shape[:1]), strict=True)
    )
    points = np.vstack(clients)
    tries = np.arange(len(points) + 1)[:, None] + noise_n
    candidates = (published - start) * tries[..., None] - noise_r
    steps = candidates / room.resolution
    found = np.abs(steps - np.rint(steps)).max(axis=2).argmin(axis=0)
    sums = candidates[found, np.arange(len(start))]
    true_sums, true_counts = relative_statistic(points, start, float(np.sqrt(start.shape[1])))
    right = found == true_counts
    error = float(np.abs(sums - true_sums)[right].max(initial=0.0))
    assert plan.predicted_error is not None
    return Published(found, true_counts, error, float(np.sqrt(plan.predicted_error)))


def through_the_wire(
    clients: Sequence[FloatArray], plan: fl.LloydPlan, start: FloatArray, seed: Any
) -> Callable[..., Any]:
    """A release for an audit: round 0 of `plan`, masked; the server draws the noise, not `rng`."""
    stage, number = simulate(clients, "masked", seed=seed), count()
    at: Any = {"centers": start, "radius": plan.radii[0]}  # type: ignore[index]

    def release(rng: np.random.Generator) -> Any:
        return stage.noisy_sum(plan.statistic, plan.mechanisms[0], round=next(number), **at)

    return release
