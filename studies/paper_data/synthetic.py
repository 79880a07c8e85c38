"""The generated sets of FastLloyd's Section 6.1.3 and Appendix B: G2, Synth, TimeSynth, ablation.

Everything is a Gaussian mixture, rows in random order, with the public bounds of
`fedclust_helpers.datasets.gaussian_mixture`.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers._checked import checked
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_int,
    check_positive,
    check_real,
)
from fedclust_helpers.datasets import Dataset, gaussian_mixture
from studies.paper_data.records import apportion

_POWERS = tuple(2**i for i in range(1, 10))
SYNTH_DESIGN = tuple(product(_POWERS[:5], _POWERS))
"""(n_clusters, n_features) of the 45 Synth settings (Section 6.1.3)."""
SYNTH_K_DESIGN = tuple((k, 2) for k in _POWERS[:7])
"""(n_clusters, n_features) of the Synth-K settings (Figure 3b)."""
ABLATION_DESIGN = tuple(product(_POWERS[:4], _POWERS[:4], (0.25, 0.5, 0.75)))
"""(n_clusters, n_features, separation) of the 48 ablation sets (Appendix B)."""


@checked
def make_g2(
    n_features: int, n: int = 2048, sd: float = 30.0, *, rng: np.random.Generator
) -> Dataset:
    """G2: two spherical Gaussians of equal size at (500, ..., 500) and (600, ..., 600).

    `sd` is the standard deviation in every dimension, as in the SIPU collection; the files of that
    collection (n = 2048, sd 10 to 100, d up to 1024) are other draws from the same distribution.

    Parameters
    ----------
    n_features : int
    n : int, default 2048
        At least 2; the first cluster has the odd point.
    sd : float, default 30
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> data = make_g2(2, rng=np.random.default_rng(0))
    >>> data.bounds[0], data.bounds[1]
    (array([350., 350.]), array([750., 750.]))
    """
    d = check_int(n_features, "n_features")
    check_int(n, "n", minimum=2)
    check_positive(sd, "sd")
    means = repeat([[500.0], [600.0]], d, axis=1)
    return gaussian_mixture(
        means,
        sd**2,
        [n - n // 2, n // 2],
        rng=rng,
        name=f"g2_{d}_{sd:g}",
        citation="P. Franti, R. Mariescu-Istodor and C. Zhong (2016), XNN graph, S+SSPR, 207-217",
    )


@checked
def make_timesynth(
    n: int, n_clusters: int, n_features: int, *, rng: np.random.Generator
) -> Dataset:
    """TimeSynth: balanced spherical clusters for timing (Section 6.1.3).

    The paper fixes the sizes only. Ours: centres uniform in [-10, 10]^d, standard deviation 1,
    sizes that differ by at most one.
    """
    k, d = check_int(n_clusters, "n_clusters"), check_int(n_features, "n_features")
    check_int(n, "n", minimum=k)
    means = rng.uniform(-10.0, 10.0, (k, d))
    sizes = apportion(n, np.ones(k))
    return gaussian_mixture(means, 1.0, sizes, rng=rng, name=f"timesynth_{n}_{k}_{d}")


@checked
def make_synth(
    n_clusters: int,
    n_features: int,
    n: int = 10_000,
    *,
    rng: np.random.Generator,
    separation: float | None = None,
    n_outliers: int | None = None,
) -> Dataset:
    """Synth and Synth-K: clusters of sizes 1:2:...:k with a given separation (Section 6.1.3).

    In the spirit of ``genRandomClust`` of the R package clusterGeneration, which the paper uses:
    covariances with eigenvalues uniform in [1, 10] and random orientation, and a separation index
    (Qiu and Joe 2006) between each cluster and its nearest neighbour that equals `separation`.
    What differs: the R package puts the centres on a lattice of simplices and resizes the
    covariances; here the covariances stay and the centres are grown one by one, each in a random
    direction from an earlier one, at the distance that gives the separation, and only where every
    other cluster is at least as well separated. Outliers are uniform in the box of the bounds.

    Parameters
    ----------
    n_clusters, n_features : int
    n : int, default 10,000
        All points, outliers included.
    rng : numpy.random.Generator
    separation : float in (-1, 1), optional
        Drawn uniformly from [0.16, 0.26] if not given, as in the paper.
    n_outliers : int, optional
        Drawn uniformly from 0..100 if not given, as in the paper.

    Raises
    ------
    ValueError
        If fewer points than clusters are left after the outliers, or an argument is out of range.
    """
    k, d = check_int(n_clusters, "n_clusters"), check_int(n_features, "n_features")
    separation = float(rng.uniform(0.16, 0.26)) if separation is None else separation
    n_outliers = int(rng.integers(0, 101)) if n_outliers is None else n_outliers
    n_outliers = check_int(n_outliers, "n_outliers", minimum=0)
    if n - n_outliers < k:
        raise ValueError(f"n must be >= n_clusters + n_outliers = {k + n_outliers}, got {n}")
    means, covariances = _separated_clusters(k, d, separation, rng)
    sizes = apportion(n - n_outliers, np.arange(1.0, k + 1.0))
    return gaussian_mixture(
        means, covariances, sizes, rng=rng, n_outliers=n_outliers, name=f"synth_{k}_{d}"
    )


@checked
def make_ablation(
    n_clusters: int, n_features: int, separation: float, *, rng: np.random.Generator
) -> Dataset:
    """One of the 48 ablation sets (Appendix B; the settings are `ABLATION_DESIGN`).

    Clusters as in `make_synth`, without outliers. Sizes are uniform integers between 0.7 and 1.3
    times the average 2048 / k.
    """
    k, d = check_int(n_clusters, "n_clusters"), check_int(n_features, "n_features")
    means, covariances = _separated_clusters(k, d, separation, rng)
    average = 2048 / k
    low, high = int(np.ceil(0.7 * average)), int(np.floor(1.3 * average))
    sizes = rng.integers(low, high, size=k, endpoint=True)
    name = f"ablation_{k}_{d}_{separation:g}"
    return gaussian_mixture(means, covariances, sizes, rng=rng, name=name)


def _best_ratio(difference: FloatArray, cov_1: FloatArray, cov_2: FloatArray) -> float:
    """Largest <a, m> / (sd_1(a) + sd_2(a)) over directions a.

    Scaled to <a, m> = 1 this minimises a convex function. Its stationary points solve
    (cov_1 / sd_1 + cov_2 / sd_2) a = const * m, which is iterated; every step lowers the function.
    """
    if not difference.any():
        return 0.0
    direction: NDArray[np.floating] = difference
    best = 0.0
    for _ in range(200):
        sd_1 = np.sqrt(direction @ cov_1 @ direction)
        sd_2 = np.sqrt(direction @ cov_2 @ direction)
        ratio = float(direction @ difference / (sd_1 + sd_2))
        if ratio <= best * (1 + 1e-12):
            break
        best = ratio
        direction = np.linalg.solve(cov_1 / sd_1 + cov_2 / sd_2, difference)
    return best


def _random_covariances(k: int, d: int, rng: np.random.Generator) -> FloatArray:
    """k matrices with eigenvalues uniform in [1, 10] and Haar-random eigenvectors: (k, d, d)."""
    q, r = np.linalg.qr(rng.standard_normal((k, d, d)))
    q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return (q * rng.uniform(1.0, 10.0, (k, 1, d))) @ q.transpose(0, 2, 1)


def _separated_clusters(
    k: int, d: int, separation: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means (k, d) and covariances (k, d, d), each cluster at `separation` from its nearest one."""
    separation = check_real(separation, "separation")
    if not -1 < separation < 1:
        raise ValueError(f"separation must lie in (-1, 1), got {separation}")
    target = float(norm.isf(0.025)) * (1 + separation) / (1 - separation)
    covariances = _random_covariances(k, d, rng)
    means = np.zeros((k, d))
    placed = 1
    while placed < k:
        parent = int(rng.integers(placed))
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        new = covariances[placed]
        # the ratio grows in proportion to the distance, so one evaluation gives the distance
        distance = target / _best_ratio(direction, covariances[parent], new)
        candidate = means[parent] + distance * direction
        if _all_separated(candidate, new, means[:placed], covariances[:placed], parent, target):
            means[placed] = candidate
            placed += 1
    return means, covariances


def _all_separated(
    mean: FloatArray,
    covariance: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    parent: int,
    target: float,
) -> bool:
    """Whether a new cluster reaches the ratio `target` with every placed one but its parent."""
    differences = mean - means
    # the ratio along the line between the means is a lower bound, and is enough for most pairs
    sd_new = np.sqrt(np.einsum("ij,ij->i", differences @ covariance, differences))
    images = (covariances @ differences[:, :, None])[:, :, 0]
    sd_old = np.sqrt(np.einsum("ij,ij->i", images, differences))
    squared = np.einsum("ij,ij->i", differences, differences)
    unsure: IntArray = np.flatnonzero(squared < target * (sd_new + sd_old))
    return all(
        _best_ratio(differences[j], covariances[j], covariance) >= target
        for j in unsure
        if j != parent
    )
