"""What the server makes of released values: post-processing, which costs no privacy."""

from __future__ import annotations

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.kmeans import shortened


def top_eigenvectors(noisy_outer: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors (d, rank) of (E + E^T)/2 with the largest eigenvalues.

    Independent noise on all d^2 entries makes the matrix unsymmetric; averaging it with its
    transpose halves the off-diagonal variance (claim K4.average).
    """
    values, vectors = np.linalg.eigh((noisy_outer + noisy_outer.T) / 2)
    return values[::-1][:rank].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def surviving_points(weights: FloatArray, *, minimum: float, at_least: int) -> FloatArray:
    """Noised weights made usable: below `minimum` they become 0, but `at_least` points survive.

    When fewer reach the minimum, the points with the largest noised weights are kept with weight
    at least 1e-6 of the largest: a rule fixed in advance, on released values only.
    """
    usable = np.where(weights >= max(minimum, 0.0), weights, 0.0)
    if np.count_nonzero(usable) < at_least:
        best = np.argsort(weights)[::-1][:at_least]
        usable = np.zeros_like(weights)
        usable[best] = np.maximum(weights[best], 1e-6 * max(float(weights.max()), 1.0))
    return usable


def count_floor(std: float) -> float:
    """Counts below three standard deviations of their own noise say nothing."""
    return max(1.0, 3 * std)


def centers_from_sums(
    sums: FloatArray, counts: FloatArray, fallback: FloatArray, *, count_floor: float,
    radius: float,
) -> FloatArray:  # fmt: skip
    """Noised sums over noised counts, guarded.

    A cluster whose noised count is below `count_floor` keeps `fallback` (a mean of so few rows is
    all noise, a negative count would flip it). Centres are moved into the ball of `radius`.
    """
    means = sums / np.maximum(counts, count_floor)[:, None]
    return shortened(np.where((counts >= count_floor)[:, None], means, fallback), radius)
