"""What runs of locally private k-means share: following a plan, votes for centres, the result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Reservation
from fedclust_helpers.federation import LocalReports, RunResult
from fedclust_helpers.federation.reports import LocalQuery, Words
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellLevel, ChosenCells, HeavyCells
from fedclust_helpers.ldp_kmeans.planning import LocalPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums


class NothingDetectedWarning(UserWarning):
    """Too few users for this epsilon: no cell stands out of the noise, or hardly any could."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LdpResult(RunResult):
    """Centres of a locally private run and what the server saw on the way.

    All of it is computed from randomised reports.

    Attributes
    ----------
    centers : array (k, d'), in the unit ball
    low_centers : array (k, d), those of the proxy points
    proxies, weights : arrays (m, d) and (m,), the proxy points and the users behind each
    levels : the cells that the server looked at, `chosen` those that became proxy points
    heavy, candidates : the heavy cells and the candidate centres (m, d) of four rounds
    history : array (n_rounds + 1, k, d), the centres of each round of Lloyd's algorithm
    """

    plan: LocalPlan
    centers: FloatArray
    low_centers: FloatArray = field(repr=False)
    proxies: FloatArray = field(repr=False)
    weights: FloatArray = field(repr=False)
    levels: tuple[CellLevel, ...] = field(repr=False, default=())
    chosen: ChosenCells | None = field(repr=False, default=None)
    heavy: HeavyCells | None = field(repr=False, default=None)
    candidates: FloatArray | None = field(repr=False, default=None)
    grid: NestedGrid | None = field(repr=False, default=None)
    projection: BallProjection = field(repr=False)


@contextmanager
def following(
    federation: LocalReports, plan: LocalPlan, queries: Sequence[LocalQuery], progress: Progress
) -> Iterator[Reservation]:
    """Follow a plan: yields what the ledger holds for it.

    `queries` are those that are known before the first report: what can be refused is refused here.
    """
    with federation.follow(plan, progress) as held:
        for query in queries:
            federation.check_ask(query)
        if plan.parts:
            federation.divide(plan.shares)
        yield held


def result_of(
    federation: LocalReports, plan: LocalPlan, held: Reservation, centers: FloatArray, **found: Any
) -> LdpResult:
    """The result of the run for which the ledger `held` its plan."""
    d = plan.n_features
    bare = {"low_centers": centers, "proxies": np.zeros((0, d)), "weights": np.zeros(0)}
    return LdpResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=centers, **bare | found,
    )  # fmt: skip


def ball_projection(federation: LocalReports, n_features: int, n_outputs: int) -> BallProjection:
    """Q from public coins; the identity where the dimension stays."""
    kind: Any = "identity" if n_outputs == n_features else "gaussian"
    return BallProjection(n_features, n_outputs, rng=federation.randomness.public, kind=kind)


def warn_if_blind(n_proxies: int, plan: LocalPlan, n_users: int) -> None:
    """Say how many users it would take when nothing can be seen."""
    if n_proxies == 0:
        share = 1 / (CELLS_PER_CLUSTER * plan.n_clusters)
        warnings.warn(
            f"nothing stands out of the noise at epsilon={plan.epsilon:g} with {n_users} users:"
            f" about {max(plan.needed, 2 * n_users)} are needed to see cells that hold {share:.1%}"
            f" of them ({plan.n_sd:g} standard deviations); the centres returned carry no"
            " information",
            NothingDetectedWarning,
            stacklevel=4,
        )


def proxy_centers(
    points: FloatArray, weights: FloatArray, plan: LocalPlan, *, rng: np.random.Generator
) -> FloatArray:
    """Weighted k-means on proxy points; with fewer points than k, the origin fills the rest."""
    k = plan.n_clusters
    if len(points) <= k:
        return np.concatenate([points, np.zeros((k - len(points), points.shape[1]))])
    return kmeans.weighted_kmeans(points, weights, k, rng=rng, n_init=plan.n_init)


def to_ball(points: FloatArray) -> FloatArray:
    """Rows cut to length 1."""
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))


# --- votes for public points, and the means of those who vote for one -----------------------------


class NearestQuery:
    """Questions "which of these public points is nearest to yours?", asked of images in R^d."""

    def __init__(self, projection: BallProjection, plan: Any, *, rng: np.random.Generator) -> None:
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
