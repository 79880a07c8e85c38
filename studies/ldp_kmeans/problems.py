"""Data sets of the tables on local privacy, and the best non-private cost on each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sklearn import datasets as sklearn_datasets

from fedclust_helpers import datasets, kmeans
from fedclust_helpers._validation import FloatArray, IntArray
from studies import paper_data
from studies.bench.cell import generator_of

SUBSAMPLE = 100_000  # points that k-means for the optimum starts on
REFERENCE_ROUNDS = 5  # Lloyd rounds on all points after that
PHOTOGRAPH = "china.jpg"  # ships with scikit-learn
REAL_SHAPES = {"birch2": (100_000, 2), "pixels": (427 * 640, 3)}


class Ball(NamedTuple):
    """A data set in the unit ball: "mixture" (Gaussian), all rows of "birch2", or "pixels".

    Mixtures are drawn anew for each seed; the real points are the same for every seed.

    Examples
    --------
    >>> Ball("mixture", 10**6, 4, 5, 0).name, Ball.real("pixels", 8, 2).name
    ('mixture_1000000_4_5_0', 'pixels_8_2')
    """

    data: str
    n: int
    dprime: int
    k: int
    seed: int

    @classmethod
    def real(cls, data: str, k: int, seed: int) -> Ball:
        """Real points, of the size that they have."""
        return cls(data, *REAL_SHAPES[data], k, seed)

    @property
    def name(self) -> str:
        """What seeds are derived from."""
        parts = self if self.data == "mixture" else (self.data, self.k, self.seed)
        return "_".join(map(str, parts))


@dataclass(frozen=True, eq=False)
class BallProblem:
    """Points in the unit ball, one for each user, and k. `labels` are those of a mixture."""

    points: FloatArray
    n_clusters: int
    labels: IntArray | None = None

    def cost(self, centers: FloatArray) -> float:
        """k-means cost per point."""
        return kmeans.kmeans_cost(self.points, centers, normalize=True)


@lru_cache(maxsize=1)
def load_ball(ball: Ball) -> BallProblem:
    """The points, scaled by public bounds so that the box of possible values lies in the ball.

    Raises
    ------
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    if ball.data != "mixture":
        return BallProblem(real_points(ball.data), ball.k)
    rng = generator_of(f"data/{ball.name}")
    made = datasets.make_ball_mixture(ball.n, ball.dprime, ball.k, rng=rng)
    return BallProblem(made.points, ball.k, made.labels)


@lru_cache(maxsize=2)
def real_points(kind: str) -> FloatArray:
    """All rows of birch2, or the colours of the pixels of a photograph, in the unit ball."""
    if kind == "birch2":
        return paper_data.load_birch2(None).scaled(1 / math.sqrt(2))
    image = sklearn_datasets.load_sample_image(PHOTOGRAPH)
    colours = image.reshape(-1, 3).astype(np.float64)
    return datasets.scale_to_box(colours, 0.0, 255.0, bound=1 / math.sqrt(3))


@lru_cache(maxsize=4)
def best_ball_centers(ball: Ball) -> FloatArray:
    """Centres of the best non-private clustering found, (k, d), sorted by their coordinates.

    k-means++ (three restarts) on at most `SUBSAMPLE` points, or the means of a mixture's
    components where they are cheaper there, followed by a few Lloyd rounds on all points. Both
    often lead to the same centres, in an order that hangs on the last bit of a cost: hence sorted.
    """
    problem = load_ball(ball)
    points, k = problem.points, problem.n_clusters
    some = points[:SUBSAMPLE] if problem.labels is not None else points
    rng = generator_of(f"reference/{ball.name}")
    starts = [kmeans.weighted_kmeans(some, None, k, rng=rng, n_init=3)]
    if problem.labels is not None:
        sums, counts = kmeans.group_sums(some, problem.labels[: len(some)], k)
        if counts.all():
            starts.append(sums / counts[:, None])
    start = min(starts, key=lambda centers: kmeans.kmeans_cost(some, centers))
    centers = kmeans.lloyd(points, start, n_rounds=REFERENCE_ROUNDS)
    return centers[np.lexsort(centers.T[::-1])]


@lru_cache(maxsize=64)
def best_ball_cost(ball: Ball) -> float:
    """Cost per point of `best_ball_centers`."""
    return load_ball(ball).cost(best_ball_centers(ball))
