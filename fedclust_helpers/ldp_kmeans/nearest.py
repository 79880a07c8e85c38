"""Which of some public points is nearest to a user's: votes, and the means of those who vote."""

from __future__ import annotations

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.federation.reports import Words
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.plans import FourRoundPlan, VectorPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.results import to_ball
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums


class NearestQuery:
    """Questions "which of these public points is nearest to yours?", asked of images in R^d."""

    def __init__(
        self,
        projection: BallProjection,
        plan: FourRoundPlan | VectorPlan,
        *,
        rng: np.random.Generator,
    ) -> None:
        self.projection, self.plan, self.rng = projection, plan, rng

    def _label(self, points: FloatArray, targets: FloatArray) -> Words:
        return kmeans.assign(self.projection(points), targets).labels.astype(np.uint64)

    def counts(self, targets: FloatArray, name: str = "nearest centre") -> OneBitCounts:
        """One bit about the index of the nearest target."""
        return OneBitCounts(
            lambda points, _: Question(self._label(points, targets)), self.plan.epsilon,
            rng=self.rng, name=name, public={name.removeprefix("nearest ") + "s": targets},
        )  # fmt: skip

    def sums(self, targets: FloatArray) -> HeavySums:
        """The point itself, signed by the index of the nearest target (Algorithm 5, line 7).

        The paper sends all k d' numbers with noise of sensitivity sqrt(2); two points p and -p of
        one cluster differ by 2. Here the sign matrix keeps it at d' numbers, sensitivity 2.
        """
        return HeavySums(
            lambda points, _: (self._label(points, targets), points), 1.0, self.plan.n_features,
            self.plan.mechanism, rng=self.rng, n_buckets=2**10, name="points by nearest centre",
        )  # fmt: skip


def means_of(
    counts: OneBitCounts, sums: HeavySums, fallback: FloatArray, *, n_sd: float
) -> FloatArray:
    """Algorithm 5, lines 10 to 15: means (k, d') of those nearest each target, in the ball.

    `fallback` where the count does not stand out by `n_sd` standard deviations, and where nobody
    was asked for a sum.
    """
    keys = np.arange(len(fallback), dtype=np.uint64)
    votes = counts.estimate(keys)
    seen = (votes > n_sd * counts.std()) & (sums.n_users > 0)
    size = np.where(seen, votes * (sums.n_users / max(1, counts.n_users)), 1.0)
    return to_ball(np.where(seen[:, None], sums.estimate(keys) / size[:, None], fallback))
