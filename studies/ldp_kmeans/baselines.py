"""What Algorithm 1 has to beat: one grid, noisy points, one private mean, Lloyd's algorithm."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._index import repeat
from fedclust_helpers._lazy import cluster
from fedclust_helpers._validation import FloatArray, IntArray, as_points, check_int
from fedclust_helpers.client_statistics.clipping import clip_rows
from fedclust_helpers.datasets.generators import uniform_in_ball
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.ldp_kmeans import shared
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS, RandomizedResponse
from fedclust_helpers.ldp_kmeans.one_round import ONE_ROUND, Depth, one_round
from fedclust_helpers.ldp_kmeans.projections import to_ball
from fedclust_helpers.ldp_kmeans.queries import Query
from fedclust_helpers.ldp_kmeans.shared import Deviations, Report, Starts
from fedclust_helpers.ldp_kmeans.vector_sums import (
    HeavySums,
    check_report_mechanism,
    noised_report,
    report_values,
)
from fedclust_helpers.mechanisms import Mechanism, NoiseSource
from fedclust_helpers.program import Ask, Divide, Options, Public, Steps

Rounds = Annotated[int, partial(check_int, maximum=1000)]


class Centers(NamedTuple):
    """Centres (k, d) in the unit ball; `history` (T + 1, k, d), those of each round."""

    centers: FloatArray
    history: FloatArray | None = None


def grid_histogram(
    public: Public, report: Report, *, n_clusters: int, depth: Depth | None = None,
    n_sd: Deviations = 3.5, n_init: Starts = 10,
) -> Steps:  # fmt: skip
    """The plain baseline: one grid, one bit per user, k-means on the cells that stand out.

    As good as Algorithm 1 when the depth suits the data, worse when it does not. Default: depth 3
    up to four dimensions and (with vector sums) beyond six, else 2.
    """
    d = public.facts.n_features
    depths = ((3 if d <= 4 or d > 6 else 2) if depth is None else depth,)
    return (yield from one_round(
        public, report, n_clusters=n_clusters, depths=depths, n_sd=n_sd, n_init=n_init
    ))  # fmt: skip


class NoisyPoints(Query):
    """Every user's point plus Gaussian noise, as the server receives them.

    Points are cut to length `radius` on the device. The server keeps at most `max_kept` reports,
    those of the lowest user numbers.
    """

    parts = ("noisy point",)
    _kinds = "if"

    def __init__(
        self, n_features: int, mechanism: Mechanism, *, max_kept: int, radius: float = 1.0
    ) -> None:
        super().__init__("noisy points")
        self.n_features, self.radius, self.max_kept = n_features, radius, max_kept
        self.mechanism = check_report_mechanism(mechanism, radius, n_features, what="a point")
        self.mechanisms, self._shape = (mechanism,), (n_features,)
        self._kept: list[FloatArray] = []

    def check(self, n_features: int) -> None:
        """The number of columns must be that of the points."""
        if n_features != self.n_features:
            raise ValueError(f"n_features must be {n_features}, got {self.n_features}")

    def _answer(self, points: FloatArray, users: IntArray) -> FloatArray:
        if points.shape[1] != self.n_features:
            raise ValueError(f"points must have {self.n_features} columns, got {points.shape[1]}")
        return clip_rows(points.copy(), self.radius)

    def _encode(self, points: FloatArray, users: IntArray, rng: NoiseSource) -> NDArray[Any]:
        return noised_report(self._answer(points, users), self.mechanism, rng=rng)

    def _decode(self, users: IntArray, vectors: NDArray[Any]) -> None:
        room = self.max_kept - sum(len(k) for k in self._kept)
        if room > 0:
            self._kept.append(report_values(vectors[:room], self.mechanism))

    def points(self) -> FloatArray:
        """The kept reports, (m, d)."""
        return np.concatenate([np.zeros((0, self.n_features)), *self._kept])


def gaussian_reports(
    public: Public, report: Report, *, n_clusters: int, max_reports: int = 200_000,
    n_init: Starts = 1,
) -> Steps:  # fmt: skip
    """Every user sends point + Gaussian noise: k-means on the noisy points.

    (epsilon, delta)-LDP. The obvious idea, and a poor one: noise of standard deviation 8 at epsilon
    1 buries a ball of radius 1, and k-means clusters the noise. The server keeps the `max_reports`
    reports of the lowest user numbers.
    """
    d = public.facts.n_features
    noise = public.gaussian_report(d, epsilon=report.epsilon, delta=report.delta)
    query = NoisyPoints(d, noise, max_kept=max_reports)
    yield Ask(query)

    def clustered() -> Centers:
        """k-means on the noisy points, cut to the ball."""
        seed = int(public.own.integers(2**31))
        model = cluster.KMeans(n_clusters, n_init=n_init, random_state=seed).fit(query.points())
        return Centers(to_ball(model.cluster_centers_))

    return clustered


def private_mean(public: Public, report: Report, *, n_clusters: int = 1) -> Steps:
    """One centre: the mean of all points from Gaussian reports (k copies of it).

    What to fall back on when n is too small to see any structure. (epsilon, delta)-LDP.
    """
    d = public.facts.n_features
    noise = public.gaussian_report(d, epsilon=report.epsilon, delta=report.delta)
    sums = HeavySums(
        lambda points, _: (np.zeros(len(points), dtype=np.uint64), points), 1.0, d, noise,
        rng=public.coins, n_buckets=2, name="sum of points",
    )  # fmt: skip
    yield Ask(sums)
    mean = to_ball(sums.estimate(np.zeros(1, dtype=np.uint64)) / max(1, sums.n_users))
    return Centers(repeat(mean, n_clusters, axis=0))


def lloyd(
    public: Public, report: Report, *, n_clusters: int, n_rounds: Rounds = 5,
    initial: ArrayLike | None = None,
) -> Steps:  # fmt: skip
    """Lloyd's algorithm with the users split over rounds: half of each count, half sum.

    (epsilon, delta)-LDP for each user, who takes part once. A centre moves only if its noised count
    exceeds two standard deviations. `initial` (k, d) are public starting centres; without them the
    start is uniform in the ball, and the outcome hangs on it.
    """
    d = public.facts.n_features
    now = uniform_in_ball(n_clusters, d, rng=public.own) if initial is None else np.array(initial)
    noise = public.gaussian_report(d, epsilon=report.epsilon, delta=report.delta)
    projection = shared.ball_projection(public, d)
    nearest = shared.NearestQuery(projection, report.epsilon, noise, rng=public.coins)
    history = [now]
    share = 1 / (2 * n_rounds)
    yield Divide({f"{what} {t}": share for t in range(n_rounds) for what in ("count", "sum")})
    for t in range(n_rounds):
        counts, sums = nearest.counts(now), nearest.sums(now)
        yield Ask(counts, f"count {t}"), Ask(sums, f"sum {t}")
        now = shared.means_of(counts, sums, now, n_sd=2.0)
        history.append(now)
    return Centers(now, np.stack(history))


# --- what the planners know -----------------------------------------------------------------------


def _kept(facts: FederationFacts, options: Options) -> Options:
    options, k = shared.of_users(facts, options), options["n_clusters"]
    most = MAX_NUMBERS // facts.n_features
    check_int(options["max_reports"], "max_reports", minimum=k, maximum=most)
    return options


def _started(facts: FederationFacts, options: Options) -> Options:
    options, k = shared.of_users(facts, options), options["n_clusters"]
    if facts.n_records < 2 * options["n_rounds"]:
        raise ValueError(f"n_rounds must leave users for each question, got {options['n_rounds']}")
    if options["initial"] is None:
        return options
    initial = as_points(options["initial"], "initial", n_features=facts.n_features)
    if len(initial) != k:
        raise ValueError(f"initial must hold {k} centres, got {len(initial)}")
    return options | {"initial": to_ball(initial)}


def _of_a_report(plan: Plan) -> tuple[float, str]:
    return plan.mechanisms[0][0].std * math.sqrt(plan.n_features), (
        "distance by which noise moves one report (root mean square), in a ball of radius 1"
    )


def _of_the_mean(plan: Plan) -> tuple[float, str]:
    return plan.mechanisms[0][0].std * math.sqrt(plan.n_features / plan.facts.n_records), (
        "distance by which noise moves the mean (root mean square)"
    )


def _of_a_round(plan: Plan) -> tuple[float, str]:
    summing = plan.facts.n_records * plan.parts[-1][1]
    variance = plan.n_features * plan.mechanisms[-1][0].std ** 2
    return plan.n_clusters * math.sqrt((1 + variance) / summing), (
        "distance by which noise moves a centre in a round (root mean square),"
        f" {plan.n_clusters} clusters of equal size"
    )


GRID_HISTOGRAM = shared.algorithm(
    "grid_histogram", grid_histogram, predict=ONE_ROUND.predict,
    search=shared.stated(lambda public, options, epsilon: (RandomizedResponse(epsilon),)),
)  # fmt: skip
GAUSSIAN_REPORTS = shared.algorithm(
    "gaussian_reports", gaussian_reports, check=_kept, predict=_of_a_report
)
PRIVATE_MEAN = shared.algorithm("private_mean", private_mean, predict=_of_the_mean)
LLOYD = shared.algorithm("ldp_lloyd", lloyd, check=_started, predict=_of_a_round)

plan_grid_histogram = GRID_HISTOGRAM.planner("plan_grid_histogram")
plan_gaussian_reports = GAUSSIAN_REPORTS.planner("plan_gaussian_reports")
plan_private_mean = PRIVATE_MEAN.planner("plan_private_mean")
plan_lloyd = LLOYD.planner("plan_lloyd")
