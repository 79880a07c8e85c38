"""Data sets of the sweeps by name: points scaled as in the paper, and the number of clusters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedclust_helpers import datasets
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.kmeans import weighted_kmeans
from studies import paper_data
from studies.bench.cell import generator_of

REAL = ("iris", "wine", "lsun", "breast", "yeast", "digits", "s1", "adult", "birch2", "mnist")
"""Real data sets of the paper, from cheap to expensive."""
MORE = ("fashion_mnist",)
"""Real data sets beside them: of Fashion-MNIST the 10,000 test images, as many as of MNIST."""
G2_DIMENSIONS = tuple(2**i for i in range(1, 11))


def scale_min_max_not_private(points: FloatArray, *, bound: float = 1.0) -> FloatArray:
    """Map each column's own minimum and maximum to -bound and bound. **Not private.**

    This is what FastLloyd does (Section 6.1.3). The minimum and maximum of every column are exact
    functions of single points, they are released without noise, and no epsilon pays for them. A
    constant column becomes 0.
    """
    return datasets.scale_to_box(points, points.min(axis=0), points.max(axis=0), bound=bound)


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


def load_problem(name: str) -> Problem:
    """The data set `name`, for example "s1", "g2_64", "synth_8_32_0" or "ablation_4_8_0.25".

    Generated sets are drawn from the seed of their name. In "synth_k_d_i" and "synthk_k_i" the
    last number tells the draws apart.

    Raises
    ------
    ValueError
        If there is no such data set, or it would not fit into memory.
    paper_data.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    return _problem(name)


@lru_cache(maxsize=3)
def _problem(name: str) -> Problem:
    kind, *words = name.split("_")
    if name in REAL or name in MORE:
        data = _load_real(name)
    else:
        data = _generated(name, kind, words)
    points = scale_min_max_not_private(data.points)
    points.flags.writeable = False
    return Problem(name, points, data.n_clusters)


LARGEST = 10**7  # a number in the name of a generated data set


def _generated(name: str, kind: str, words: list[str]) -> datasets.Dataset:
    """The generated data set of a name, for example "synth_8_32_0"."""
    wrong = f"name must be a data set of the result tables, got {name!r}"
    shapes = {"g2": 1, "synth": 3, "synthk": 2, "ablation": 3, "timesynth": 3}
    if shapes.get(kind) != len(words):
        raise ValueError(wrong)
    # a number is written as it is printed: no other name for the same data
    if not all(re.fullmatch(r"0|[1-9][0-9]*|0\.[0-9]+", word) for word in words):
        raise ValueError(wrong)
    if any(float(word) > LARGEST for word in words):
        raise ValueError(f"{wrong} (at most {LARGEST} rows, columns or clusters)")
    rng = generator_of(f"data/{name}")
    try:
        if kind == "ablation":
            k, d, separation = int(words[0]), int(words[1]), float(words[2])
            return paper_data.make_ablation(k, d, separation, rng=rng)
        sizes = [int(word) for word in words]
        if kind == "g2":
            return paper_data.make_g2(sizes[0], rng=rng)
        if kind == "synth":
            return paper_data.make_synth(sizes[0], sizes[1], rng=rng)
        if kind == "synthk":
            return paper_data.make_synth(sizes[0], 2, rng=rng)
        return paper_data.make_timesynth(*sizes, rng=rng)
    except ValueError as error:
        raise ValueError(f"{wrong} ({error})") from None


def _load_real(name: str) -> datasets.Dataset:
    if name == "breast":  # 699 rows as in the paper's Table 2
        return paper_data.load_breast_wisconsin(missing="median")
    if name == "birch2":  # the 25,000 rows of a second implementation
        return paper_data.load_birch2(rng=np.random.default_rng(0))
    if name in ("mnist", "fashion_mnist"):
        return paper_data.load_images(name)
    place = datasets if name in ("iris", "wine", "digits") else paper_data
    data: datasets.Dataset = getattr(place, f"load_{name}")()
    return data


def reference_centers(name: str) -> FloatArray:
    """The best of ten k-means++ runs on all points: the optimum that the tables compare with."""
    return _reference(load_problem(name).name)


@lru_cache(maxsize=3)
def _reference(name: str) -> FloatArray:
    problem = load_problem(name)
    rng = generator_of(f"reference/{name}")
    return weighted_kmeans(problem.points, None, problem.n_clusters, rng=rng, n_init=10)
