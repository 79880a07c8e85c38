"""What a locally private algorithm should be compared with, under the same trust and budget."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans

from fedclust_helpers import kmeans
from fedclust_helpers._state import Fixed
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.reports import Reports, Words
from fedclust_helpers.ldp_kmeans.frequency_oracles import (
    HeavySums,
    OneBitCounts,
    Question,
    _numbers_of,
    _only,
    check_report_mechanism,
    cut_to,
    noised_report,
    one_point_each,
    report_values,
)
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS
from fedclust_helpers.ldp_kmeans.one_round import LdpResult, following, to_ball
from fedclust_helpers.ldp_kmeans.plans import VectorPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.mechanisms import Mechanism, NoiseSource


class NoisyPoints(Fixed):
    """Every user's point plus Gaussian noise, as the server receives them; a `LocalQuery`.

    Points are cut to length `radius` on the device. The server keeps at most `max_kept` reports,
    those of the lowest user numbers.

    Parameters
    ----------
    n_features : int
    mechanism : Gaussian or DiscreteGaussian
        Must hide 2 radius (and its rounding) under replace-one: see
        `LocalReports.gaussian_report`.
    max_kept : int
    radius : float
    """

    parts = ("noisy point",)
    name = "noisy points"

    def __init__(
        self, n_features: int, mechanism: Mechanism, *, max_kept: int, radius: float = 1.0
    ) -> None:
        self._n_features = check_int(n_features, "n_features", maximum=MAX_NUMBERS)
        self._radius = check_positive(radius, "radius")
        self._mechanism = check_report_mechanism(
            mechanism, self._radius, self._n_features, what="a point"
        )
        self._max_kept = check_int(max_kept, "max_kept", maximum=MAX_NUMBERS // self._n_features)
        self._kept: list[FloatArray] = []
        self._n_users = 0

    @property
    def n_features(self) -> int:
        """d, columns of the points."""
        return self._n_features

    @property
    def max_kept(self) -> int:
        """Reports that the server keeps."""
        return self._max_kept

    @property
    def mechanism(self) -> Mechanism:
        """The noise of one report."""
        return self._mechanism

    @property
    def public(self) -> Mapping[str, NDArray[Any]]:
        """Nothing is told to the users."""
        return MappingProxyType({})

    @property
    def n_users(self) -> int:
        """Users who were asked."""
        return self._n_users

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The one Gaussian report of each user."""
        return (self._mechanism,)

    def check(self, n_features: int) -> None:
        """The number of columns must be that of the points, the noise enough for their length."""
        if n_features != self._n_features:
            raise ValueError(f"n_features must be {n_features}, got {self._n_features}")
        check_report_mechanism(self._mechanism, self._radius, self._n_features, what="a point")

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """Noisy points (m, d); in whole steps (int64) with noise on a grid."""
        points, users = one_point_each(points, users)
        if points.shape[1] != self._n_features:
            raise ValueError(f"points must have {self._n_features} columns, got {points.shape[1]}")
        shrink = cut_to(points, self._radius)[:, None]
        sent = np.where(shrink > 0, points, 0.0) * shrink
        return (noised_report(sent, self._mechanism, rng=rng),)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """Keep reports while there is room."""
        users = _numbers_of(users)
        vectors = _only(reports, (len(users), self._n_features), "if")
        room = self._max_kept - sum(len(k) for k in self._kept)
        if room > 0:
            self._kept.append(report_values(vectors[:room], self._mechanism))
        self._n_users += len(users)

    def points(self) -> FloatArray:
        """The kept reports, (m, d)."""
        return np.concatenate([np.zeros((0, self._n_features)), *self._kept])


def run_gaussian_reports(
    federation: LocalReports, plan: VectorPlan, *, rng: np.random.Generator, progress: bool
) -> LdpResult:
    """Every user sends point + Gaussian noise; k-means on the noisy points, cut to the ball."""
    check_rng(rng)
    query = NoisyPoints(plan.n_features, plan.mechanism, max_kept=plan.max_reports)
    with following(federation, plan, [query], progress=progress) as (ask, n_before):
        ask(query, round=0)
    noisy = query.points()
    model = KMeans(plan.n_clusters, n_init=plan.n_init, random_state=int(rng.integers(2**31)))
    centers = to_ball(model.fit(noisy).cluster_centers_)
    return _result(federation, plan, n_before, centers)


def run_private_mean(
    federation: LocalReports, plan: VectorPlan, *, rng: np.random.Generator, progress: bool
) -> LdpResult:
    """One centre, the mean of all points from Gaussian reports: k copies of it."""
    check_rng(rng)
    sums = HeavySums(
        lambda points, _: (np.zeros(len(points), dtype=np.uint64), points), 1.0,
        plan.n_features, plan.mechanism, rng=federation.randomness.public, n_buckets=2,
        name="sum of points",
    )  # fmt: skip
    with following(federation, plan, [sums], progress=progress) as (ask, n_before):
        ask(sums, round=0)
    mean = to_ball(sums.estimate(np.zeros(1, dtype=np.uint64)) / max(1, sums.n_users))
    return _result(federation, plan, n_before, np.repeat(mean, plan.n_clusters, axis=0))


def run_lloyd(
    federation: LocalReports,
    plan: VectorPlan,
    *,
    rng: np.random.Generator,
    initial: ArrayLike | None,
    progress: bool,
) -> LdpResult:
    """Lloyd's algorithm with the users split over rounds: in each, half count and half sum.

    A centre moves only if its noised count exceeds two standard deviations.
    """
    check_rng(rng)
    k, d, public = plan.n_clusters, plan.n_features, federation.randomness.public
    if initial is None:
        centers = random_in_ball(k, d, rng=rng)
    else:
        centers = to_ball(as_points(initial, "initial", n_features=d))
        if len(centers) != k:
            raise ValueError(f"initial must hold {k} centres, got {len(centers)}")
    history, keys = [centers], np.arange(k, dtype=np.uint64)
    with following(federation, plan, [], progress=progress) as (ask, n_before):
        for t in range(plan.n_rounds):
            now = history[-1]
            counts, sums = _nearest_queries(now, plan.epsilon, plan.mechanism, public)
            ask(counts, round=t, part=f"count {t}")
            ask(sums, round=t, part=f"sum {t}")
            count = counts.estimate(keys) * (sums.n_users / max(1, counts.n_users))
            seen = counts.estimate(keys) > plan.z * counts.std()
            means = sums.estimate(keys) / np.where(seen, count, 1.0)[:, None]
            history.append(to_ball(np.where(seen[:, None], means, now)))
    return _result(federation, plan, n_before, history[-1], history=np.stack(history))


def _nearest_queries(
    centers: FloatArray, epsilon: float, mechanism: Mechanism, rng: np.random.Generator
) -> tuple[OneBitCounts, HeavySums]:
    """One bit about the nearest centre, or the point signed by it."""

    def label(points: FloatArray) -> Words:
        return kmeans.assign(points, centers).labels.astype(np.uint64)

    counts = OneBitCounts(
        lambda points, _: Question(label(points)), epsilon, rng=rng, name="nearest centre",
        public={"centres": centers},
    )  # fmt: skip
    sums = HeavySums(
        lambda points, _: (label(points), points), 1.0, centers.shape[1], mechanism, rng=rng,
        n_buckets=2**10, name="points by nearest centre",
    )  # fmt: skip
    return counts, sums


def random_in_ball(n: int, n_features: int, *, rng: np.random.Generator) -> FloatArray:
    """Points uniform in the unit ball, (n, d)."""
    n, n_features = check_int(n, "n"), check_int(n_features, "n_features")
    if n * n_features > MAX_NUMBERS:
        raise ValueError(
            f"n times n_features must be at most {MAX_NUMBERS}, got {n} x {n_features}"
        )
    directions = check_rng(rng).normal(size=(n, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.random((n, 1)) ** (1 / n_features))


def _result(
    federation: LocalReports,
    plan: VectorPlan,
    n_before: int,
    centers: FloatArray,
    **details: object,
) -> LdpResult:
    d = plan.n_features
    return LdpResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=federation.randomness.is_secure, centers=centers, low_centers=centers,
        proxies=np.zeros((0, d)), weights=np.zeros(0),
        projection=BallProjection(d, d, rng=federation.randomness.public, kind="identity"),
        details=details,
    )  # fmt: skip
