"""Speed as ratios measured in one run: prints one JSON object, name -> number.

Each ratio has an honest denominator, taken in turn with our code in the same process, in CPU time
of a single thread. Rounds of k-means are compared with scikit-learn's fit of one iteration on the
pooled data (``KMeans(init=array, n_init=1, max_iter=1)``), which also validates and copies, and
with its bare inner iteration, which does nothing but iterate. Secure noise is compared with
OpenDP's; the local oracle with drawing its coins by the fastest generator of NumPy; a training
round with its bare matrix products, with as many operations in one product at peak speed, and with
a loop over clients; better releases with FastLloyd, and PE-means with them.
The least time of ours over the least time of theirs is reported: what else runs on the machine only
adds time. Numbers from different machines are comparable, milliseconds would not be. The changes
against `tools/bench/results.json` go to the error stream, ``--write`` stores what was measured.
Nothing here is a test.

    python tools/bench/run.py [--only rounds noise oracle feddp ldp shuffled rr ...] [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import record
from sklearn.cluster import KMeans
from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from fedclust_helpers import fastlloyd, feddp_kmeans, kmeans, ldp_kmeans
from fedclust_helpers.accounting import PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import MODEL_BLOCKS, RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import ClientData, Federation, simulate
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question, ask_values
from fedclust_helpers.mechanisms import SECURE, DiscreteGaussian, DiscreteLaplace, Gaussian
from fedclust_helpers.rr_cluster import SoftmaxRegression
from studies.beyond.pe_means import plan_pe
from studies.paper_data import make_server_mixture

Call = Callable[[], object]
Measured = Iterator[tuple[str, float]]


def seconds(call: Call) -> float:
    """Processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def ratio(ours: Call, theirs: Call, repeats: int) -> float:
    """Least time of ours over that of theirs, run in turn after a warm-up."""
    ours(), theirs()
    times = np.array([[seconds(ours), seconds(theirs)] for _ in range(repeats)])
    return float(np.divide(*times.min(axis=0)))


def peak(call: Call) -> int:
    """Largest memory, in bytes, that a call holds beyond what was there; after a warm-up."""
    call()
    tracemalloc.start()
    call()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def pooled_fit(points: np.ndarray, k: int) -> Call:
    """scikit-learn's k-means with one restart."""
    return lambda: KMeans(k, n_init=1, random_state=0).fit(points)


def inner_iteration(points: np.ndarray, centers: np.ndarray) -> Call:
    """scikit-learn's bare Lloyd iteration: labels, sums, new centres; no check, no copy."""
    n, k = len(points), len(centers)
    weights, new, in_clusters = np.ones(n), np.zeros_like(centers), np.zeros(k)
    labels, shift = np.full(n, -1, dtype=np.int32), np.zeros(k)
    return lambda: lloyd_iter_chunked_dense(
        points, weights, centers, new, in_clusters, labels, shift, 1
    )


class Round:
    """One Lloyd round of two equal clients on blobs of n points, in three versions."""

    def __init__(self, n: int, d: int, k: int) -> None:
        rng = np.random.default_rng(0)
        centers = rng.uniform(-0.9, 0.9, size=(k, d))
        points = centers[rng.integers(k, size=n)] + rng.normal(0, 0.05, size=(n, d))
        self.points, self.start = np.clip(points, -1, 1), centers + 0.05
        self.offsets = np.array([0, n // 2, n])
        self.federation = simulate(
            ClientData(self.points, self.offsets), seed=0, noise_from="server"
        )
        # enough rounds for every repetition: a pad is used once
        self.plan = fastlloyd.plan(self.federation, n_clusters=k, epsilon=1.0, n_rounds=7)
        self.t = 0

    def masked(self) -> np.ndarray:
        """Statistics of both clients, masks, ring sum, noise, unmasking, post-processing."""
        radius, mechanisms = self.plan.broadcasts("radius")[1], self.plan.mechanisms[1]
        self.t += 1
        sums, counts = self.federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, mechanisms, round=self.t, centers=self.start, radius=radius
        )
        return fastlloyd.update_centers(self.start, sums, counts, radius=radius)

    def plain(self) -> np.ndarray:
        """The same two clients without masks, radius or noise: sums, counts, means."""
        sums, counts = kmeans.sums_and_counts(self.points, self.start, offsets=self.offsets)
        return sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None]

    def sklearn(self) -> object:
        """One iteration of scikit-learn from the same centres on the pooled data."""
        model = KMeans(len(self.start), init=self.start, n_init=1, max_iter=1, algorithm="lloyd")
        return model.fit(self.points)


def rounds() -> Measured:
    """Masked and plain rounds over scikit-learn's fit and inner iteration; memory; bytes."""
    for n, d, k, repeats in ((100_000, 5, 5, 25), (1_000_000, 16, 32, 7)):
        case, name = Round(n, d, k), f"n{n}_d{d}_k{k}"
        theirs = {
            "sklearn": case.sklearn, "inner_iteration": inner_iteration(case.points, case.start)
        }  # fmt: skip
        for version, ours in (("masked", case.masked), ("plain", case.plain)):
            for other, call in theirs.items():
                yield f"{version}_round_over_{other}_{name}", ratio(ours, call, repeats)
        yield f"masked_round_peak_mib_{name}", peak(case.masked) / 2**20
    for k, d in ((2, 2), (2, 5), (5, 2), (5, 5)):
        case = Round(1_000, d, k)
        case.masked()
        yield f"bytes_per_round_k{k}_d{d}_m2", case.federation.transcript.n_bytes(round=1)


class FedDP:
    """A full FedDP-KMeans run (T = 1), d = 100, k = 10; the plan is made before timing."""

    def __init__(self, unit: Literal["point", "client"], n_clients: int, rows: int) -> None:
        self.unit = unit
        self.data = make_server_mixture(
            n_clients=n_clients, rows_per_client=rows, rng=np.random.default_rng(0)
        )
        self.clients = ClientData(*self.data.clients())
        clips = feddp_kmeans.ClipBounds(1500, 1, 21, 10, 120, 50)
        self.plan = feddp_kmeans.plan(
            self.federation(), self.data.server_points, n_clusters=10, epsilon=1.0, n_rounds=1,
            clips=clips if unit == "client" else None,
        )  # fmt: skip

    def federation(self) -> Federation:
        """A fresh ideal secure sum with a ledger of its own: the plan fits every one of them."""
        return simulate(
            self.clients, "ideal", seed=0, bound=self.data.radius, domain="ball",
            ledger=PrivacyLedger(unit=self.unit),
        )  # fmt: skip

    def run(self) -> object:
        """Clipping, three releases, server k-means (10 restarts), one round; ideal secure sum."""
        return feddp_kmeans.run(self.federation(), self.plan, rng=np.random.default_rng(0))

    def products(self) -> np.ndarray:
        """The matrix products that no implementation avoids, and nothing else."""
        points = self.data.points
        gram = points.T @ points
        basis = np.ascontiguousarray(np.linalg.eigh(gram)[1][:, -10:])
        server, centers = self.data.server_points @ basis, np.eye(10)
        total = np.zeros((10, points.shape[1]))
        for start in range(0, len(points), kmeans.CHUNK):
            block = points[start : start + kmeans.CHUNK]
            projected = block @ basis
            projected @ server.T  # Step 2: distances to the server points
            near = projected @ centers  # Step 3: distances to the centres
            total += near.T @ block  # sums
            total += (block @ total.T).T @ block  # one round of Lloyd in the full space
        return total


def feddp() -> Measured:
    """Runs at data-point level over what they cannot avoid; client level per point; memory."""
    point, client = FedDP("point", 100, 1000), FedDP("client", 5000, 50)
    rows = point.data.points
    for name, other in (
        ("sklearn_fit", pooled_fit(rows, 10)),
        ("inner_iteration", inner_iteration(rows, rows[:10].copy())),
        ("bare_products", point.products),
    ):
        yield f"feddp_run_over_{name}_100x1000", ratio(point.run, other, 5)
    per_point = ratio(client.run, point.run, 5) * len(rows) / len(client.data.points)
    yield "feddp_client_5000x50_over_point_run_per_point", per_point
    for name, case in (("100x1000", point), ("5000x50", client)):
        yield f"feddp_peak_over_data_{name}", 1 + peak(case.run) / case.data.points.nbytes


def noise() -> Measured:
    """Secure noise beside OpenDP's and a seed's, and a fit of 200 masked clients in secure mode."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain, zeros = dp.vector_domain(dp.atom_domain(T="i64")), np.zeros(20_000, dtype=np.int64)
    rng = np.random.default_rng(0)
    for kind, make, metric in (
        (DiscreteGaussian, dp.m.make_gaussian, dp.l2_distance(T=float)),
        (DiscreteLaplace, dp.m.make_laplace, dp.l1_distance(T=float)),
    ):
        one = kind(1.0, 1e6)
        theirs = make(domain, metric, scale=1e6)
        name = kind.__name__.removeprefix("Discrete").lower()
        ours = partial(one.sample_steps, 200_000, rng=SECURE)
        seeded = partial(one.sample_steps, 200_000, rng=rng)
        yield f"secure_{name}_nanoseconds", min(seconds(ours) for _ in range(5)) * 5_000
        yield f"opendp_over_secure_{name}", 10 * ratio(partial(theirs, zeros), ours, 3)
        yield f"secure_over_seeded_{name}", ratio(ours, seeded, 5)
    clients = ClientData(rng.uniform(-1, 1, (20_000, 5)), np.arange(201) * 100)

    def fit(mode: Literal["secure", "teaching"]) -> object:
        seed = None if mode == "secure" else 0
        federation = simulate(clients, "masked", mode=mode, seed=seed)
        return fastlloyd.run(federation, fastlloyd.plan(federation, n_clusters=3, epsilon=1.0))

    yield (
        "secure_over_seeded_masked_run_200x100",
        ratio(partial(fit, "secure"), partial(fit, "teaching"), 3),
    )


def better() -> Measured:
    """Whole runs with their plans, d = 5, k = 20: over-clustered Lloyd, and the rival PE-means."""
    rng = np.random.default_rng(0)
    ball = {"domain": "ball", "bound": 5**0.5}
    fast, over = fastlloyd.plan, fastlloyd.plan_overclustered

    def whole(planner: Callable[..., Any], points: np.ndarray, how: dict[str, Any]) -> Call:
        def call() -> object:
            federation = simulate([points], "ideal", seed=0, **how)
            return fastlloyd.run(federation, planner(federation, n_clusters=20, epsilon=1.0))

        return call

    for name, ours, how, theirs, n, repeats in (
        ("overclustered_over_fastlloyd_n100000_d5_k20", over, {}, fast, 100_000, 5),
        ("pe_means_over_overclustered_n20000_d5_k20", plan_pe, ball, over, 20_000, 3),
    ):
        points = rng.uniform(-1, 1, (n, 5))
        yield name, ratio(whole(ours, points, how), whole(theirs, points, {}), repeats)


def local_points(n: int, d: int = 4) -> np.ndarray:
    """A mixture of five components, one point for each user."""
    return make_ball_mixture(n, d, 5, rng=np.random.default_rng(0)).points


def local_run(
    points: np.ndarray, planner: Callable[..., Any], trust: Literal["local", "shuffled"] = "local"
) -> Call:
    """A whole run of k-means (epsilon = 1, k = 5) in which every user is simulated."""

    def call() -> object:
        users = simulate(points, trust, seed=0)
        plan = planner(users, n_clusters=5, epsilon=1.0)
        return ldp_kmeans.run(users, plan, rng=np.random.default_rng(0))

    return call


def ldp() -> Measured:
    """Algorithm 1, four rounds and the sketch over scikit-learn and each other; growth; memory."""
    points, wide = local_points(10**6), local_points(10**6, 10)
    one = local_run(points, ldp_kmeans.plan)
    iteration = inner_iteration(points, points[:5].copy())
    yield "ldp_alg1_over_sklearn_fit_n1e6", ratio(one, pooled_fit(points, 5), 5)
    yield "ldp_alg1_over_inner_iteration_n1e6", ratio(one, iteration, 5)
    four = local_run(points, ldp_kmeans.plan_four_rounds)
    yield "ldp_four_rounds_over_alg1_n1e6", ratio(four, one, 5)
    for name, rows in (("n1e6", points), ("n1e6_d10", wide)):
        sketch = local_run(rows, ldp_kmeans.plan_sketch)
        yield f"ldp_sketch_over_sklearn_fit_{name}", ratio(sketch, pooled_fit(rows, 5), 3)
    yield "ldp_sketch_seconds_n1e6_d10", seconds(sketch)
    yield "ldp_peak_over_data_n1e6", 1 + peak(one) / points.nbytes
    many = local_points(10**7)
    large, small = (local_run(rows, ldp_kmeans.plan) for rows in (many, local_points(10**5)))
    yield "ldp_alg1_n1e7_over_100_times_n1e5", ratio(large, small, 3) / 100
    yield "ldp_peak_over_data_n1e7", 1 + peak(large) / many.nbytes


def shuffled() -> Measured:
    """Whole runs behind a shuffler over those without one, n = 1e5; sketch over Algorithm 1."""
    points = local_points(10**5)
    one, sketch = ldp_kmeans.plan, ldp_kmeans.plan_sketch
    behind = local_run(points, one, "shuffled"), local_run(points, sketch, "shuffled")
    yield "ldp_shuffled_alg1_over_local_n1e5", ratio(behind[0], local_run(points, one), 3)
    yield "ldp_shuffled_sketch_over_local_n1e5", ratio(behind[1], local_run(points, sketch), 3)
    yield "ldp_shuffled_sketch_over_alg1_n1e5", ratio(behind[1], behind[0], 3)


def oracle() -> Measured:
    """One bit of each of a million users over the draws alone."""
    n, n_buckets = 10**6, 2**16
    values = np.random.default_rng(0).integers(1000, size=(n, 1)).astype(np.float64)

    def ours() -> np.ndarray:
        rng = np.random.default_rng(0)
        counts = OneBitCounts(
            lambda points, _: Question(points[:, 0].astype(np.uint64)), 1.0, rng=rng,
            n_buckets=n_buckets,
        )  # fmt: skip
        ask_values(counts, values, rng=rng)
        return counts.spectrum

    def draws() -> np.ndarray:
        """What no simulation avoids: an index and a bit of each user in one draw, one bincount."""
        rng = np.random.Generator(np.random.SFC64(0))  # the fastest generator of NumPy
        both = np.bincount(rng.integers(2 * n_buckets, size=n), minlength=2 * n_buckets)
        return both[:n_buckets] - both[n_buckets:]

    yield "ldp_oracle_over_fastest_draws_n1e6", ratio(ours, draws, 15)


class ModelRound:
    """A round of private IFCA: 100 of 1000 clients, 60 images of 196 features, 4 softmax models."""

    CLIENTS, COHORT, ROWS, FEATURES, CLASSES, K = 1000, 100, 60, 196, 10, 4
    STEPS, RATE, CLIP = 5, 0.3, 0.3

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        m, n, p = self.CLIENTS, self.ROWS, self.FEATURES
        self.points = rng.uniform(-0.3, 0.7, (m, n, p))
        self.labels = rng.integers(0, self.CLASSES, (m, n))
        self.model = SoftmaxRegression(p, self.CLASSES)
        self.models = self.model.initial(self.K, rng=rng)
        data = ClientData(self.points.reshape(m * n, p), n * np.arange(m + 1), self.labels.ravel())
        ledger = PrivacyLedger(unit="client", adjacency="replace-one")
        self.federation = simulate(data, "ideal", seed=0, bound=1.0, ledger=ledger)
        self.sampling = Sampling("fixed", size=self.COHORT, population=m)
        sensitivity = 2 * self.CLIP
        self.mechanisms = (Gaussian(sensitivity, 2 * sensitivity, "replace-one"),)
        self.drawn = rng.choice(m, self.COHORT, replace=False)
        self.choice = rng.integers(self.K, size=self.COHORT)
        x = self.points[self.drawn]
        self.gram = x @ x.transpose(0, 2, 1) + 1.0
        self.t = 0

    def ours(self) -> np.ndarray:
        """Draw, losses, local steps, clipping, blocks, noise, ledger, transcript, new models."""
        self.t += 1
        (blocks,) = self.federation.noisy_sum(
            MODEL_BLOCKS, self.mechanisms, round=self.t, sampling=self.sampling, model=self.model,
            models=self.models, clip=self.CLIP, n_steps=self.STEPS, learning_rate=self.RATE,
            count_weight=self.CLIP,
        )  # fmt: skip
        return self.models + blocks[:, :-1] / np.maximum(blocks[:, -1:] / self.CLIP, 8)

    def products(self) -> np.ndarray:
        """The matrix products that no implementation avoids, and nothing else.

        Losses under all models; each local step acts on the outputs through a client's Gram matrix,
        so the features are touched once more, for the update; sums over clusters.
        """
        m, p, c = self.COHORT, self.FEATURES, self.CLASSES
        x = self.points[self.drawn]
        wide = self.models[:, : p * c].reshape(self.K, p, c).transpose(1, 0, 2).reshape(p, -1)
        z = (x.reshape(-1, p) @ wide).reshape(m, self.ROWS, self.K, c)
        own = z[np.arange(m), :, self.choice]
        for _ in range(self.STEPS - 1):
            own = self.gram @ own
        updates = (x.transpose(0, 2, 1) @ own).reshape(m, -1)
        return np.eye(self.K)[self.choice].T @ updates

    def one_product(self) -> np.ndarray:
        """As many multiplications as `products` in one product, which runs at peak speed.

        No floor of a round but a mark: here a number that was loaded serves hundreds of
        multiplications, in `products` ten to forty (classes, models times classes). That alone, and
        gathering the cohort's rows, makes `products` take two to three times as long as this.
        """
        m, n, p, c = self.COHORT, self.ROWS, self.FEATURES, self.CLASSES
        count = m * n * c * (p * self.K + n * (self.STEPS - 1) + p)
        side = 512
        left, right = np.ones((side, count // side**2)), np.ones((count // side**2, side))
        return left @ right

    def loop(self) -> np.ndarray:
        """The same round, one client after the other."""
        weights = self.models.reshape(self.K, self.FEATURES + 1, self.CLASSES)
        sums, counts = np.zeros_like(weights), np.zeros(self.K)
        rows = np.arange(self.ROWS)
        for i in self.drawn:
            x, y = self.points[i], self.labels[i]
            aims = np.eye(self.CLASSES)[y]
            losses = []
            for matrix in weights:
                z = x @ matrix[:-1] + matrix[-1]
                losses.append((np.log(np.exp(z).sum(axis=1)) - z[rows, y]).mean())
            choice = int(np.argmin(losses))
            w = weights[choice].copy()
            for _ in range(self.STEPS):
                z = np.exp(x @ w[:-1] + w[-1])
                error = (z / z.sum(axis=1, keepdims=True) - aims) / self.ROWS
                w[:-1] -= self.RATE * (x.T @ error)
                w[-1] -= self.RATE * error.sum(axis=0)
            update = w - weights[choice]
            sums[choice] += update * min(1.0, self.CLIP / np.linalg.norm(update))
            counts[choice] += 1
        return weights + sums / np.maximum(counts, 8)[:, None, None]


def rr() -> Measured:
    """A training round over its products, bare and at peak speed; a loop over clients over it."""
    case = ModelRound()
    for _ in range(60):  # almost every client makes its Gram matrix, which it does once
        case.ours()
    for name, first, second in (
        ("round_over_bare_products", case.ours, case.products),
        ("round_over_peak_products", case.ours, case.one_product),
        ("client_loop_over_round", case.loop, case.ours),
    ):
        yield f"rr_{name}_100of1000", ratio(first, second, 25)


PARTS: dict[str, Callable[[], Measured]] = {
    part.__name__: part for part in (rounds, noise, oracle, feddp, ldp, shuffled, rr, better)
}


def main() -> None:
    """Measure, print, compare with what is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these alone")
    parser.add_argument("--write", action="store_true", help="store the ratios in results.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    results = {}
    for name in options.only:
        made = {key: round(value, 3) for key, value in PARTS[name]()}
        facts = record.machine()
        print(*record.changes(made, facts), sep="\n", file=sys.stderr)
        if options.write:
            record.write(made, facts)
        results |= made
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
