"""What Algorithm 1 has to beat: noisy points, one private mean, and Lloyd's algorithm."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._lazy import cluster
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_fits,
    check_int,
    check_rng,
)
from fedclust_helpers.federation import FederationFacts
from fedclust_helpers.ldp_kmeans import shared
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS
from fedclust_helpers.ldp_kmeans.shared import Report, Starts
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums, NoisyPoints
from fedclust_helpers.program import Ask, Divide, Options, Plan, Public, Steps

Rounds = Annotated[int, partial(check_int, maximum=1000)]


class Centers(NamedTuple):
    """Centres (k, d) in the unit ball; `history` (T + 1, k, d), those of each round."""

    centers: FloatArray
    history: FloatArray | None = None


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
        return Centers(shared.to_ball(model.cluster_centers_))

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
    mean = shared.to_ball(sums.estimate(np.zeros(1, dtype=np.uint64)) / max(1, sums.n_users))
    return Centers(np.repeat(mean, n_clusters, axis=0))


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
    now = random_in_ball(n_clusters, d, rng=public.own) if initial is None else np.array(initial)
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


def random_in_ball(n: int, n_features: int, *, rng: np.random.Generator) -> FloatArray:
    """Points uniform in the unit ball, (n, d)."""
    n, n_features = check_int(n, "n"), check_int(n_features, "n_features")
    check_fits(n * n_features, "n times n_features", limit=MAX_NUMBERS)
    directions = check_rng(rng).normal(size=(n, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.random((n, 1)) ** (1 / n_features))


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
    return options | {"initial": shared.to_ball(initial)}


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


GAUSSIAN_REPORTS = shared.algorithm(
    "gaussian_reports", gaussian_reports, check=_kept, predict=_of_a_report
)
PRIVATE_MEAN = shared.algorithm("private_mean", private_mean, predict=_of_the_mean)
LLOYD = shared.algorithm("ldp_lloyd", lloyd, check=_started, predict=_of_a_round)

plan_gaussian_reports = GAUSSIAN_REPORTS.door("plan_gaussian_reports")
plan_private_mean = PRIVATE_MEAN.door("plan_private_mean")
plan_lloyd = LLOYD.door("plan_lloyd")
