"""What the server makes of releases, free of charge: projection, shrinkage, places, the elbow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray

Cluster = Callable[..., FloatArray]  # weighted k-means, or what takes its place


def simplex(counts: FloatArray, total: float) -> FloatArray:
    """The nearest vector without negative entries that adds up to `total`, (m,)."""
    ordered = np.sort(counts)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(counts) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(counts - excess[last], 0.0))


def soft_rank(vectors: FloatArray, std: FloatArray, pull: float) -> FloatArray:
    """Vectors (m, d) with noise of this std in each row's numbers, shrunk together.

    Singular values y, in units of noise, get the factor (1 - pull (sqrt(m) + sqrt(d))^2/y^2)+:
    noise alone has hardly any beyond the bracket.
    """
    u, y, v = np.linalg.svd(vectors / std[:, None], full_matrices=False)
    edge = np.sqrt(vectors.shape).sum()
    y = np.maximum(y**2 - pull * edge**2, 0.0) / np.maximum(y, 1e-300)
    return np.asarray((u * y) @ v * std[:, None])


def likely_level(measured: float, noise: float, median: float, spread: float) -> float:
    """A positive number that was measured with Gaussian noise of this std: its likely size.

    exp of the mean of its logarithm a posteriori. A priori that is Student's t with 3 degrees of
    freedom around log `median`, `spread` wide: far off is unlikely, not impossible.
    """
    level = median * np.exp(np.linspace(-9, 3, 300))
    prior = -2 * np.log1p((np.log(level / median) / spread) ** 2 / 3)
    chance = prior - ((level - measured) / noise) ** 2 / 2
    weights = np.exp(chance - chance.max())
    return float(np.exp(weights @ np.log(level) / weights.sum()))


def cell_centers(lower: FloatArray, upper: FloatArray, n_per_axis: int) -> FloatArray:
    """Centres (n_per_axis^d, d) of the cells of a grid, the last column fastest."""
    middle = (np.arange(n_per_axis) + 0.5) / n_per_axis
    axes = np.meshgrid(*[lo + (hi - lo) * middle for lo, hi in zip(lower, upper, strict=True)],
                       indexing="ij")  # fmt: skip
    return np.stack([axis.ravel() for axis in axes], axis=1)


def even_spread(
    n: int, d: int, *, rng: np.random.Generator, cluster: Cluster = kmeans.weighted_kmeans
) -> FloatArray:
    """n points that cover [-1, 1]^d evenly: k-means of a uniform sample (centroidal Voronoi)."""
    sample = rng.uniform(-1, 1, (max(50 * n, 1000), d))
    return cluster(sample, None, n, rng=rng, n_init=1)


def costs_by_k(
    places: FloatArray,
    weights: FloatArray,
    k_range: tuple[int, int],
    within: float,
    *,
    rng: np.random.Generator,
    n_init: int = 3,
) -> FloatArray:
    """Rows (k, W) for the numbers of clusters in a range: the cost per point of weighted places.

    `within` is what a point is away from its place, squared, and comes on top. The range ends
    before every place has a centre of its own.
    """  # fmt: skip
    low, high = k_range
    held = weights > 0
    places, weights = places[held], weights[held]
    rows = []
    for k in range(low, max(low, min(high, len(places) - 1)) + 1):
        cost = within
        if k < len(places):
            centers = kmeans.weighted_kmeans(places, weights, k, rng=rng, n_init=n_init)
            squared = kmeans.assign(places, centers).squared
            cost += float(weights @ squared / weights.sum())
        rows.append((k, cost))
    return np.array(rows, dtype=np.float64)


def elbow(costs: FloatArray) -> int:
    """The k at which log W lies farthest below the chord of its curve over log k; rows (k, W)."""
    x, y = np.log(costs[:, 0]), np.log(np.maximum(costs[:, 1], 1e-300))
    share = (x - x[0]) / max(x[-1] - x[0], 1e-300)
    return int(costs[np.argmax(y[0] + share * (y[-1] - y[0]) - y), 0])
