"""Your turn of notebook 00: right answers, typical mistakes and their sentences."""

import numpy as np

from fedclust_helpers import kmeans


def noised(points, centers, rng, of_sums, of_counts):
    sums, counts = kmeans.sums_and_counts(points, centers)
    sums = sums + rng.normal(0, of_sums, sums.shape)
    return sums, counts + rng.normal(0, of_counts, counts.shape)


def step(points, centers, mu, rng):
    d = points.shape[1]
    return noised(points, centers, rng, (2 * d) ** 0.5 / mu, 2**0.5 / mu)


def in_a_loop(points, centers, mu, rng):
    nearest = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    sums, counts, std = [], [], np.sqrt(2) / mu
    for j in range(len(centers)):
        mine = points[nearest == j]
        counts.append(len(mine) + std * rng.standard_normal())
        root = np.sqrt(points.shape[1])
        sums.append([sum(x) + root * std * rng.standard_normal() for x in mine.T])
    return sums, counts


def three_quarters_for_sums(points, centers, mu, rng):
    d = points.shape[1]
    one_hot = np.eye(len(centers))[kmeans.assign(points, centers).labels]
    counts = rng.normal(one_hot.sum(axis=0), 2 / mu)
    return rng.normal(np.einsum("nk,nd->kd", one_hot, points), (d / 0.75) ** 0.5 / mu), counts


def means(points, centers, mu, rng):
    sums, counts = step(points, centers, mu, rng)
    return sums / np.maximum(counts, 1)[:, None], counts


def floored(points, centers, mu, rng):
    sums, counts = step(points, centers, mu, rng)
    return sums, np.maximum(counts, 1)


def by_the_data(points, centers, mu, rng):
    half = np.linalg.norm(points, axis=1).max()
    return noised(points, centers, rng, 2**0.5 * half / mu, 2**0.5 / mu)


RIGHT = (step, in_a_loop, three_quarters_for_sums)
MISTAKES = {
    "sensitivity 1": (
        lambda p, c, mu, rng: noised(p, c, rng, 2**0.5 / mu, 2**0.5 / mu),
        "deviation 4.9; yours has 2.83. A patient in a corner of the box moves the sums by √d",
    ),
    "of two columns": (
        lambda p, c, mu, rng: noised(p, c, rng, 2 / mu, 2**0.5 / mu),
        "√2 is half the diagonal in two columns; in d columns it is √d.",
    ),
    "not shared": (
        lambda p, c, mu, rng: noised(p, c, rng, p.shape[1] ** 0.5 / mu, 1 / mu),
        "deviation 2.83; yours has 2. Sums and counts are two questions about one patient",
    ),
    "half of mu": (lambda p, c, mu, rng: step(p, c, mu / 2**0.5, rng), "Squares add up"),
    "variance": (
        lambda p, c, mu, rng: noised(p, c, rng, 2 * p.shape[1] / mu**2, 2 / mu**2),
        "a standard deviation, not a variance.",
    ),
    "replaced": (lambda p, c, mu, rng: step(p, c, mu / 2, rng), "who is replaced"),
    "exact counts": (
        lambda p, c, mu, rng: (step(p, c, mu, rng)[0], kmeans.sums_and_counts(p, c)[1]),
        "Your counts: some numbers get no noise",
    ),
    "one draw": (
        lambda p, c, mu, rng: tuple(
            x + rng.normal(0, 9 / mu) for x in kmeans.sums_and_counts(p, c)
        ),
        "Several numbers get the same draw of noise",
    ),
    "means": (means, "You return means."),
    "floor": (floored, "You raise a count of 0 to 1."),
    "bound from the data": (by_the_data, "Your noise has another size when one record is missing"),
}
