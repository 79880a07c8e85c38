"""What a locally private algorithm should be compared with, under the same trust and budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_delta,
    check_epsilon,
    check_int,
    check_rng,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.frequency_oracles import (
    HeavySums,
    OneBitCounts,
    Question,
    Reports,
    Words,
)
from fedclust_helpers.ldp_kmeans.one_round import (
    GRID,
    LdpResult,
    check_all,
    one_round,
    require_local,
    to_ball,
)
from fedclust_helpers.local_randomizers import gaussian_report
from fedclust_helpers.mechanisms import Mechanism, NoiseSource
from fedclust_helpers.projections import BallProjection


def grid_histogram(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    depth: int | None = None,
    z: float = 3.5,
) -> LdpResult:
    """One grid, one bit per user, k-means on the cells that stand out: the plain baseline.

    epsilon-LDP for each user (with vector sums above six dimensions: (epsilon, delta)). As good as
    Algorithm 1 when the depth suits the data, worse when it does not. Default: depth 3 up to four
    dimensions, else 2.
    """
    require_local(federation)
    d = federation.n_features
    depth = (3 if d <= 4 or d > 6 else 2) if depth is None else depth
    return one_round(
        federation, n_clusters=n_clusters, epsilon=epsilon, delta=delta, rng=rng,
        depths=(check_int(depth, "depth"),), z=z,
    )  # fmt: skip


class NoisyPoints:
    """Every user's point plus Gaussian noise, as the server receives them; a `LocalQuery`.

    The server keeps at most `max_kept` reports, those of the lowest user numbers.
    """

    parts = ("noisy point",)
    name = "noisy points"

    def __init__(self, n_features: int, mechanism: Mechanism, *, max_kept: int) -> None:
        self.n_features, self.mechanism, self.max_kept = n_features, mechanism, max_kept
        self.public: dict[str, FloatArray] = {}
        self._kept: list[FloatArray] = []
        self.n_users = 0

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The one Gaussian report of each user."""
        return (self.mechanism,)

    def check(self, n_features: int) -> None:
        """The number of columns must be that of the points."""
        if n_features != self.n_features:
            raise ValueError(f"n_features must be {n_features}, got {self.n_features}")

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """Noisy points (m, d)."""
        grid = self.mechanism.grid
        sent = points if grid is None else np.rint(points / grid) * grid
        return (sent + self.mechanism.sample(points.shape, rng=rng),)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """Keep reports while there is room."""
        room = self.max_kept - sum(len(k) for k in self._kept)
        if room > 0:
            self._kept.append(np.asarray(reports[0][:room], dtype=np.float64))
        self.n_users += len(users)

    def points(self) -> FloatArray:
        """The kept reports, (m, d)."""
        return np.concatenate(self._kept)


def gaussian_report_kmeans(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    max_reports: int = 200_000,
    n_init: int = 1,
) -> LdpResult:
    """Every user sends point + Gaussian noise; k-means on the noisy points, cut to the ball.

    (epsilon, delta)-LDP. The obvious idea, and a poor one: noise of standard deviation 8 at epsilon
    1 buries a ball of radius 1, and k-means clusters the noise.
    """
    k, mechanism = _gaussian(federation, n_clusters, epsilon, delta)
    check_rng(rng)
    check_int(n_init, "n_init")
    max_kept = check_int(max_reports, "max_reports", minimum=k)
    query = NoisyPoints(federation.n_features, mechanism, max_kept=max_kept)
    check_all(federation, [(query, None)])
    federation.ask(query, round=0)
    noisy = query.points()
    model = KMeans(k, n_init=n_init, random_state=int(rng.integers(2**31))).fit(noisy)
    centers = to_ball(model.cluster_centers_)
    return _result(federation, centers, epsilon, delta)


def private_mean(
    federation: LocalReports, *, n_clusters: int = 1, epsilon: float, delta: float = 1e-6
) -> LdpResult:
    """One centre: the mean of all points from Gaussian reports (k copies of it).

    What to fall back on when n is too small to see any structure. (epsilon, delta)-LDP.
    """
    k, mechanism = _gaussian(federation, n_clusters, epsilon, delta)
    sums = HeavySums(
        lambda points, _: (np.zeros(len(points), dtype=np.uint64), points), 1.0,
        federation.n_features, mechanism, rng=federation.randomness.public, n_buckets=2,
        name="sum of points",
    )  # fmt: skip
    check_all(federation, [(sums, None)])
    federation.ask(sums, round=0)
    mean = to_ball(sums.estimate(np.zeros(1, dtype=np.uint64)) / max(1, sums.n_users))
    return _result(federation, np.repeat(mean, k, axis=0), epsilon, delta)


def ldp_lloyd(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    n_rounds: int = 5,
    initial: ArrayLike | None = None,
) -> LdpResult:
    """Lloyd's algorithm with the users split over rounds: in each, half count and half sum.

    (epsilon, delta)-LDP for each user, who takes part once. A centre moves only if its noised count
    exceeds two standard deviations. Without `initial` the start is uniform in the ball, and the
    outcome hangs on it.
    """
    k, mechanism = _gaussian(federation, n_clusters, epsilon, delta)
    check_rng(rng)
    n_rounds = check_int(n_rounds, "n_rounds")
    d, public = federation.n_features, federation.randomness.public
    if initial is None:
        centers = random_in_ball(k, d, rng=rng)
    else:
        centers = to_ball(as_points(initial, "initial", n_features=d))
        if len(centers) != k:
            raise ValueError(f"initial must hold {k} centres, got {len(centers)}")
    if federation.n_records < 2 * n_rounds:
        raise ValueError(f"n_rounds must leave users for each question, got {n_rounds}")
    share = 1 / (2 * n_rounds)
    parts = [f"{what} {t}" for t in range(n_rounds) for what in ("count", "sum")]
    federation.divide(dict.fromkeys(parts, share))

    history, keys = [centers], np.arange(k, dtype=np.uint64)
    for t in range(n_rounds):
        now = history[-1]
        counts, sums = _nearest_queries(now, epsilon, mechanism, public)
        check_all(federation, [(counts, f"count {t}"), (sums, f"sum {t}")])
        federation.ask(counts, round=t, part=f"count {t}")
        federation.ask(sums, round=t, part=f"sum {t}")
        count = counts.estimate(keys) * (sums.n_users / max(1, counts.n_users))
        seen = counts.estimate(keys) > 2 * counts.std()
        means = sums.estimate(keys) / np.where(seen, count, 1.0)[:, None]
        history.append(to_ball(np.where(seen[:, None], means, now)))
    result = _result(federation, history[-1], epsilon, delta)
    result.details["history"] = np.stack(history)
    return result


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
    directions = rng.normal(size=(n, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.random((n, 1)) ** (1 / n_features))


def _gaussian(
    federation: LocalReports, n_clusters: int, epsilon: float, delta: float
) -> tuple[int, Mechanism]:
    """Shared validation; k and the noise for one point of the unit ball."""
    require_local(federation)
    k = check_int(n_clusters, "n_clusters", maximum=federation.n_records)
    grid = GRID if federation.randomness.is_secure else None
    mechanism = gaussian_report(
        1.0, check_epsilon(epsilon), check_delta(delta), grid=grid,
        n_features=federation.n_features,
    )  # fmt: skip
    return k, mechanism


def _result(
    federation: LocalReports, centers: FloatArray, epsilon: float, delta: float
) -> LdpResult:
    d = federation.n_features
    identity = BallProjection(d, d, rng=federation.randomness.public, kind="identity")
    return LdpResult(
        centers, centers, np.zeros((0, d)), np.zeros(0), None, epsilon, delta,
        federation.randomness.is_secure, projection=identity,
    )  # fmt: skip
