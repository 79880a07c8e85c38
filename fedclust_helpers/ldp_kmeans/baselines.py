"""What Algorithm 1 has to beat: noisy points, one private mean, and Lloyd's algorithm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, as_points, check_fits, check_int, check_rng
from fedclust_helpers.accounting import Reservation
from fedclust_helpers.federation import LocalReports, planner
from fedclust_helpers.ldp_kmeans import results
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS
from fedclust_helpers.ldp_kmeans.planning import VectorPlan, asked_for, bit_release, vector_release
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums, NoisyPoints

MAX_ROUNDS = 1000


@planner
def plan_gaussian_reports(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    max_reports: int = 200_000, n_init: int = 1,
) -> VectorPlan:  # fmt: skip
    """Plan "every user sends point + Gaussian noise": k-means on the noisy points.

    (epsilon, delta)-LDP. The obvious idea, and a poor one: noise of standard deviation 8 at epsilon
    1 buries a ball of radius 1, and k-means clusters the noise. The server keeps the `max_reports`
    reports of the lowest user numbers.
    """
    asked = asked_for(federation, n_clusters, epsilon, delta, n_init=n_init)
    d, k = federation.n_features, asked["n_clusters"]
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    return VectorPlan(
        **asked, method="gaussian_reports", n_rounds=1,
        releases=(vector_release("noisy points", 0, mechanism, d),),
        predicted_error=mechanism.std * math.sqrt(d),
        predicted_error_is="distance by which noise moves one report (root mean square), in a ball"
        " of radius 1",
        mechanism=mechanism,
        max_reports=check_int(max_reports, "max_reports", minimum=k, maximum=MAX_NUMBERS // d),
    )  # fmt: skip


def run_gaussian_reports(
    federation: LocalReports, plan: VectorPlan, *, rng: np.random.Generator, progress: Progress
) -> results.LdpResult:
    """k-means on the noisy points, cut to the ball."""
    query = NoisyPoints(plan.n_features, plan.mechanism, max_kept=plan.max_reports)
    with results.following(federation, plan, [query], progress) as held:
        federation.ask(query, round=0)
    noisy = query.points()
    model = KMeans(plan.n_clusters, n_init=plan.n_init, random_state=int(rng.integers(2**31)))
    centers = results.to_ball(model.fit(noisy).cluster_centers_)
    return _result(federation, plan, held, centers)


@planner
def plan_private_mean(
    federation: LocalReports, *, n_clusters: int = 1, epsilon: float, delta: float = 1e-6
) -> VectorPlan:
    """Plan one centre: the mean of all points from Gaussian reports (k copies of it).

    What to fall back on when n is too small to see any structure. (epsilon, delta)-LDP.
    """
    asked, d = asked_for(federation, n_clusters, epsilon, delta), federation.n_features
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    return VectorPlan(
        **asked, method="private_mean", n_rounds=1,
        releases=(vector_release("sum of points", 0, mechanism, d),),
        predicted_error=mechanism.std * math.sqrt(d / federation.n_records),
        predicted_error_is="distance by which noise moves the mean (root mean square)",
        mechanism=mechanism,
    )  # fmt: skip


def run_private_mean(
    federation: LocalReports, plan: VectorPlan, *, rng: np.random.Generator, progress: Progress
) -> results.LdpResult:
    """One centre, the mean of all points: k copies of it."""
    sums = HeavySums(
        lambda points, _: (np.zeros(len(points), dtype=np.uint64), points), 1.0,
        plan.n_features, plan.mechanism, rng=federation.randomness.public, n_buckets=2,
        name="sum of points",
    )  # fmt: skip
    with results.following(federation, plan, [sums], progress) as held:
        federation.ask(sums, round=0)
    mean = results.to_ball(sums.estimate(np.zeros(1, dtype=np.uint64)) / max(1, sums.n_users))
    return _result(federation, plan, held, np.repeat(mean, plan.n_clusters, axis=0))


@planner
def plan_lloyd(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    n_rounds: int = 5,
) -> VectorPlan:  # fmt: skip
    """Plan Lloyd's algorithm with the users split over rounds: half of each count, half sum.

    (epsilon, delta)-LDP for each user, who takes part once. A centre moves only if its noised count
    exceeds two standard deviations. Without `initial` in `run` the start is uniform in the ball,
    and the outcome hangs on it.
    """
    asked = asked_for(federation, n_clusters, epsilon, delta, n_sd=2.0)
    n, d, k = federation.n_records, federation.n_features, asked["n_clusters"]
    n_rounds = check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    if n < 2 * n_rounds:
        raise ValueError(f"n_rounds must leave users for each question, got {n_rounds}")
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    share = 1 / (2 * n_rounds)
    releases = []
    for t in range(n_rounds):
        releases += [
            bit_release("nearest centre", t, epsilon, 1, part=f"count {t}"),
            vector_release("points by nearest centre", t, mechanism, d, part=f"sum {t}"),
        ]
    return VectorPlan(
        **asked, method="ldp_lloyd", n_rounds=n_rounds, releases=tuple(releases),
        parts=tuple((f"{what} {t}", share) for t in range(n_rounds) for what in ("count", "sum")),
        predicted_error=k * math.sqrt((1 + d * mechanism.std**2) / (share * n)),
        predicted_error_is="distance by which noise moves a centre in a round (root mean square),"
        f" {k} clusters of equal size",
        mechanism=mechanism,
    )  # fmt: skip


def run_lloyd(
    federation: LocalReports, plan: VectorPlan, *, rng: np.random.Generator,
    initial: ArrayLike | None, progress: Progress,
) -> results.LdpResult:  # fmt: skip
    """Lloyd's algorithm, in each round from the reports of users who were not asked before."""
    k, d, public = plan.n_clusters, plan.n_features, federation.randomness.public
    if initial is None:
        now = random_in_ball(k, d, rng=rng)
    else:
        now = results.to_ball(as_points(initial, "initial", n_features=d))
        if len(now) != k:
            raise ValueError(f"initial must hold {k} centres, got {len(now)}")
    nearest = results.NearestQuery(results.ball_projection(federation, d, d), plan, rng=public)
    history = [now]
    with results.following(federation, plan, [], progress) as held:
        for t in range(plan.n_rounds):
            counts, sums = nearest.counts(now), nearest.sums(now)
            federation.ask(counts, round=t, part=f"count {t}")
            federation.ask(sums, round=t, part=f"sum {t}")
            now = results.means_of(counts, sums, now, n_sd=plan.n_sd)
            history.append(now)
    return _result(federation, plan, held, now, history=np.stack(history))


def random_in_ball(n: int, n_features: int, *, rng: np.random.Generator) -> FloatArray:
    """Points uniform in the unit ball, (n, d)."""
    n, n_features = check_int(n, "n"), check_int(n_features, "n_features")
    check_fits(n * n_features, "n times n_features", limit=MAX_NUMBERS)
    directions = check_rng(rng).normal(size=(n, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.random((n, 1)) ** (1 / n_features))


def _result(
    federation: LocalReports, plan: VectorPlan, held: Reservation, centers: FloatArray,
    history: FloatArray | None = None,
) -> results.LdpResult:  # fmt: skip
    q = results.ball_projection(federation, plan.n_features, plan.n_features)
    return results.result_of(federation, plan, held, centers, projection=q, history=history)
