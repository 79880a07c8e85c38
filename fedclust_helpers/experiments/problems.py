"""Data sets of the sweeps by name: points scaled as in the paper, and the number of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np

from fedclust_helpers import datasets
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.kmeans import weighted_kmeans

REAL = ("iris", "wine", "lsun", "breast", "yeast", "digits", "s1", "adult", "birch2", "mnist")
"""Real data sets, from cheap to expensive."""
G2_DIMENSIONS = tuple(2**i for i in range(1, 11))


def seed_of(key: str) -> np.random.SeedSequence:
    """Seed of a name: the same on every machine, and unrelated for different names.

    Examples
    --------
    >>> seed_of("iris").entropy == seed_of("iris").entropy != seed_of("wine").entropy
    True
    """
    return np.random.SeedSequence(int.from_bytes(sha256(key.encode()).digest()[:16], "little"))


@dataclass(frozen=True, eq=False)
class Problem:
    """Points in [-1, 1]^d by the (not private) minima and maxima of the columns, and k."""

    name: str
    points: FloatArray
    n_clusters: int

    @property
    def shape(self) -> dict[str, int]:
        """Columns n, d, k of the result tables."""
        return {"n": self.points.shape[0], "d": self.points.shape[1], "k": self.n_clusters}


@lru_cache(maxsize=3)
def load_problem(name: str) -> Problem:
    """The data set `name`, for example "s1", "g2_64", "synth_8_32_0" or "ablation_4_8_0.25".

    Generated sets are drawn from the seed of their name. In "synth_k_d_i" and "synthk_k_i" the
    last number tells the draws apart.

    Raises
    ------
    ValueError
        If there is no such data set.
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    kind, *numbers = name.split("_")
    rng = np.random.default_rng(seed_of(f"data/{name}"))
    if not numbers and kind in REAL:
        data = _load_real(kind)
    elif kind == "g2" and len(numbers) == 1:
        data = datasets.make_g2(int(numbers[0]), rng=rng)
    elif kind == "synth" and len(numbers) == 3:
        data = datasets.make_synth(int(numbers[0]), int(numbers[1]), rng=rng)
    elif kind == "synthk" and len(numbers) == 2:
        data = datasets.make_synth(int(numbers[0]), 2, rng=rng)
    elif kind == "ablation" and len(numbers) == 3:
        k, d, separation = int(numbers[0]), int(numbers[1]), float(numbers[2])
        data = datasets.make_ablation(k, d, separation, rng=rng)
    elif kind == "timesynth" and len(numbers) == 3:
        n, k, d = map(int, numbers)
        data = datasets.make_timesynth(n, k, d, rng=rng)
    else:
        raise ValueError(f"name must be a data set of the result tables, got {name!r}")
    points = datasets.scale_min_max_not_private(data.points)
    points.flags.writeable = False
    return Problem(name, points, data.n_clusters)


def _load_real(name: str) -> datasets.Dataset:
    if name == "breast":  # 699 rows as in the paper's Table 2
        return datasets.load_breast_wisconsin(missing="median")
    if name == "birch2":  # the 25,000 rows that our notes used, so that numbers can be compared
        return datasets.load_birch2(rng=np.random.default_rng(0))
    loader = getattr(datasets, f"load_{name}")
    data: datasets.Dataset = loader()
    return data


@lru_cache(maxsize=3)
def reference_centers(name: str) -> FloatArray:
    """The best of ten k-means++ runs on all points: the optimum that the tables compare with."""
    problem = load_problem(name)
    rng = np.random.default_rng(seed_of(f"reference/{name}"))
    return weighted_kmeans(problem.points, None, problem.n_clusters, rng=rng, n_init=10)
