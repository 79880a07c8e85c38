"""A weighted copy of the data, made of what was released: whatever is made of it is free of charge.

The rounds of many centres of over-clustered Lloyd end with such a copy: places, and about how many
rows lie around each. It may be clustered for any k, as often as one likes, and copies of rows that
arrived in batches may be put together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount
from fedclust_helpers._lazy import optimize
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.fastlloyd.postprocessing import Cluster, costs_by_k, elbow
from fedclust_helpers.fastlloyd.rounds import MOST_CLUSTERS, largest_k

STARTS = 20  # of k-means: one start ends in a worse optimum in a quarter of the runs
REDRAWS, RESTARTS = 10, 4  # draws of noise that tell how settled centres are, and starts in each


class Around(NamedTuple):
    """What a copy says of clusters: `sizes` (k,) in rows, and standard deviations of the noise.

    `size_std` (k,) is that of a size, `center_std` (k,) that of each coordinate of a centre.
    """

    sizes: FloatArray
    size_std: FloatArray
    center_std: FloatArray


@dataclass(frozen=True, eq=False)
class WeightedCopy:
    """Places that stand for rows, with the noise that is in them.

    Attributes
    ----------
    points : (L, d)
        In the box of the data.
    weights : (L,)
        Rows that each stands for, as estimated: not negative, and of the public number in all.
    weight_std, sum_std : (L,)
        Standard deviations of the noise in a weight, and in each coordinate of the sum of the rows
        around a point.
    scatter : float
        Mean squared distance of rows to their points, as estimated from released values.
    noise : float
        Standard deviation of the noise in one count that gets the whole budget, 1/mu; of copies
        that are put together, of the sum of one from each.
    """

    points: FloatArray
    weights: FloatArray
    weight_std: FloatArray
    sum_std: FloatArray
    scatter: float
    noise: float

    @property
    def n_records(self) -> float:
        """The public number of rows that it stands for."""
        return float(self.weights.sum())

    def largest_k(self, k_range: tuple[int, int] = (2, MOST_CLUSTERS)) -> int:
        """The largest k of a range for which each cluster has points, above the noise."""
        most = largest_k(self.n_records, 1 / self.noise, k_range)
        return min(most, int(np.count_nonzero(self.weights)))

    def centers(
        self, k: int, *, rng: np.random.Generator, n_init: int = STARTS,
        cluster: Cluster = kmeans.weighted_kmeans,
    ) -> FloatArray:  # fmt: skip
        """Centres (k, d) of its weighted k-means."""
        return filled_means(self.points, self.weights, k, rng=rng, n_init=n_init, cluster=cluster)

    def cost(self, centers: FloatArray) -> float:
        """Mean squared distance of rows to the nearest of `centers` (k, d), as estimated."""
        squared = kmeans.assign(self.points, centers).squared
        return self.scatter + float(self.weights @ squared) / self.n_records

    def costs(self, k_range: tuple[int, int], *, rng: np.random.Generator) -> FloatArray:
        """Rows (k, cost per row) for the numbers of clusters in a range."""
        return costs_by_k(self.points, self.weights, k_range, self.scatter, rng=rng)

    def best_k(self, k_range: tuple[int, int], *, rng: np.random.Generator) -> int:
        """The elbow of the costs, among the k of a range whose clusters show above the noise."""
        return elbow(self.costs((k_range[0], self.largest_k(k_range)), rng=rng))

    def around(self, centers: FloatArray) -> Around:
        """Sizes of the clusters around `centers` (k, d), and the noise of sizes and centres.

        Noise in the weights moves a centre towards the points that it makes heavier.
        """
        labels, squared = kmeans.assign(self.points, centers)
        k, held = len(centers), self.weights > 0
        moved = self.sum_std**2 + self.weight_std**2 * squared / self.points.shape[1]
        sizes, counts, sums = (
            bincount(labels[held], v[held], k).astype(np.float64)
            for v in (self.weights, self.weight_std**2, moved)
        )
        return Around(sizes, np.sqrt(counts), np.sqrt(sums) / np.maximum(sizes, 1.0))

    def unsettled(self, centers: FloatArray, *, rng: np.random.Generator) -> float:
        """The share of the rows that another draw of the noise would put into other clusters.

        As estimated: noise as large as that in the copy is added once more, and the clusters of its
        k-means are matched with those around `centers` (k, d). The mean over 10 draws.
        """
        k, labels = len(centers), kmeans.assign(self.points, centers).labels
        moves = self.sum_std / np.maximum(self.weights, np.maximum(self.weight_std, 1.0))
        stay = 0.0
        for _ in range(REDRAWS):
            weights = self.weights + self.weight_std * rng.standard_normal(len(self.weights))
            points = self.points + moves[:, None] * rng.standard_normal(self.points.shape)
            if (weights <= 0).all():
                continue
            found = filled_means(points, np.maximum(weights, 0), k, rng=rng, n_init=RESTARTS)
            shared = np.zeros((k, k))
            np.add.at(shared, (labels, kmeans.assign(self.points, found).labels), self.weights)
            stay += float(shared[optimize.linear_sum_assignment(-shared)].sum())
        return max(0.0, 1 - stay / (REDRAWS * self.n_records))


def together(copies: Sequence[WeightedCopy]) -> WeightedCopy:
    """One copy of all rows, of copies of batches that have no row in common."""
    weights = np.concatenate([one.weights for one in copies])
    scatter = math.fsum(one.n_records * one.scatter for one in copies) / float(weights.sum())
    return WeightedCopy(
        np.concatenate([one.points for one in copies]), weights,
        np.concatenate([one.weight_std for one in copies]),
        np.concatenate([one.sum_std for one in copies]), scatter,
        math.hypot(*(one.noise for one in copies)),
    )  # fmt: skip


def filled_means(
    points: FloatArray, weights: FloatArray, k: int, *, rng: np.random.Generator, n_init: int,
    cluster: Cluster = kmeans.weighted_kmeans,
) -> FloatArray:  # fmt: skip
    """Weighted k-means; places that hold nothing are left out, and k is filled with copies."""
    held = weights > 0
    points, weights = points[held], weights[held]
    if len(points) <= k:
        return points[np.resize(np.arange(len(points)), k)]
    return cluster(points, weights, k, rng=rng, n_init=n_init)
