"""Data sets of the tables on local privacy by name, and the best non-private cost on each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn import datasets as sklearn_datasets

from fedclust_helpers import datasets, kmeans
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.studies.fastlloyd.problems import seed_of

SUBSAMPLE = 100_000  # points that k-means for the optimum starts on
REFERENCE_ROUNDS = 5  # Lloyd rounds on all points after that
PHOTOGRAPH = "china.jpg"  # ships with scikit-learn


@dataclass(frozen=True, eq=False)
class BallProblem:
    """Points in the unit ball, one for each user, and k. `labels` are those of a mixture."""

    name: str
    data: str
    points: FloatArray
    n_clusters: int
    labels: IntArray | None = None

    @property
    def shape(self) -> dict[str, int]:
        """Columns n, dprime, k of the result tables."""
        return {"n": len(self.points), "dprime": self.points.shape[1], "k": self.n_clusters}

    def cost(self, centers: FloatArray) -> float:
        """k-means cost per point."""
        return kmeans.kmeans_cost(self.points, centers, normalize=True)


def ball_name(n: int, d: int, k: int, seed: int) -> str:
    """Name of a Gaussian mixture for `load_ball`.

    Examples
    --------
    >>> ball_name(10**6, 4, 5, 0)
    'mixture_1000000_4_5_0'
    """
    return f"mixture_{n}_{d}_{k}_{seed}"


@lru_cache(maxsize=1)
def load_ball(name: str) -> BallProblem:
    """The data set `name`: a `ball_name`, "birch2_<k>_<seed>" or "pixels_<k>_<seed>".

    Mixtures are drawn anew for each seed; the real points are the same for every seed. They are
    scaled by public bounds so that the whole box of possible values lies in the ball: half side
    1/sqrt(d).

    Raises
    ------
    ValueError
        If there is no such data set.
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    kind, *numbers = name.split("_")
    if kind == "mixture" and len(numbers) == 4:
        n, d, k, _ = map(int, numbers)
        rng = np.random.default_rng(seed_of(f"data/{name}"))
        data = datasets.make_ball_mixture(n, d, k, rng=rng)
        return BallProblem(name, kind, data.points, k, data.labels)
    if kind in ("birch2", "pixels") and len(numbers) == 2:
        points = real_points(kind)
        return BallProblem(name, kind, points, int(numbers[0]))
    raise ValueError(f"name must be a data set of the tables on local privacy, got {name!r}")


@lru_cache(maxsize=2)
def real_points(kind: str) -> FloatArray:
    """All rows of birch2, or the colours of the pixels of a photograph, in the unit ball."""
    if kind == "birch2":
        return datasets.load_birch2(None).scaled(1 / math.sqrt(2))
    image = sklearn_datasets.load_sample_image(PHOTOGRAPH)
    colours = image.reshape(-1, 3).astype(np.float64)
    return datasets.scale_to_box(colours, 0.0, 255.0, bound=1 / math.sqrt(3))


@lru_cache(maxsize=4)
def best_ball_centers(name: str) -> FloatArray:
    """Centres of the best non-private clustering found, (k, d).

    k-means++ (three restarts) on at most `SUBSAMPLE` points, or the means of a mixture's
    components where they are cheaper there, followed by a few Lloyd rounds on all points.
    """
    problem = load_ball(name)
    points, k = problem.points, problem.n_clusters
    some = points[:SUBSAMPLE] if problem.labels is not None else points
    rng = np.random.default_rng(seed_of(f"reference/{name}"))
    starts = [kmeans.weighted_kmeans(some, None, k, rng=rng, n_init=3)]
    if problem.labels is not None:
        sums, counts = kmeans.group_sums(some, problem.labels[: len(some)], k)
        if counts.all():
            starts.append(sums / counts[:, None])
    start = min(starts, key=lambda centers: kmeans.kmeans_cost(some, centers))
    return kmeans.lloyd(points, start, n_rounds=REFERENCE_ROUNDS)


@lru_cache(maxsize=64)
def best_ball_cost(name: str) -> float:
    """Cost per point of `best_ball_centers`."""
    return load_ball(name).cost(best_ball_centers(name))
