"""Speed as ratios measured in one run: prints one JSON object, name -> number.

Each ratio has an honest denominator, taken in turn with our code in the same process, in CPU time
of a single thread. Rounds of k-means are compared with scikit-learn's fit of one iteration on the
pooled data (``KMeans(init=array, n_init=1, max_iter=1)``), which also validates and copies, and
with its bare inner iteration, which does nothing but iterate. The local oracle is compared with
drawing its coins by the fastest generator of NumPy; a training round with its bare matrix products,
with as many operations in one product at peak speed, a loop over clients, and Flower; better
releases with FastLloyd, and PE-means with them.
The least time of ours over the least time of theirs is reported: what else runs on the machine only
adds time. Numbers from different machines are comparable, milliseconds would not be. The changes
against `tools/bench/results.json` go to the error stream, ``--write`` stores what was measured.
Nothing here is a test.

    python tools/bench/run.py [--quick] [--raw] [--only round oracle ldp better ...] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
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
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster import SoftmaxRegression
from studies.beyond.pe_means import plan_pe
from studies.paper_data import make_server_mixture


def paired_ratio(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> dict:
    """Least time of ours over that of theirs, run in turn after a warm-up; range of the pairs."""
    ours(), theirs()
    times = np.empty((repeats, 2))
    for i in range(repeats):
        for j, call in enumerate((ours, theirs)):
            start = time.process_time()
            call()
            times[i, j] = time.process_time() - start
    ratios = times[:, 0] / times[:, 1]
    return {
        "ratio": float(times[:, 0].min() / times[:, 1].min()),
        "low": float(ratios.min()),
        "high": float(ratios.max()),
    }


def inner_iteration(points: np.ndarray, centers: np.ndarray) -> Callable[[], object]:
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
        self.centers = rng.uniform(-0.9, 0.9, size=(k, d))
        points = self.centers[rng.integers(k, size=n)] + rng.normal(0, 0.05, size=(n, d))
        self.points = np.clip(points, -1, 1)
        self.start = self.centers + 0.05
        half = n // 2
        self.federation = simulate(ClientData(self.points, np.array([0, half, n])), seed=0)
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
        offsets = self.federation._clients.data.offsets
        sums, counts = kmeans.sums_and_counts(self.points, self.start, offsets=offsets)
        return sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None]

    def sklearn(self) -> np.ndarray:
        """One iteration of scikit-learn from the same centres on the pooled data."""
        model = KMeans(len(self.start), init=self.start, n_init=1, max_iter=1, algorithm="lloyd")
        return model.fit(self.points).cluster_centers_

    def inner(self) -> Callable[[], object]:
        """The bare iteration from the same centres on the pooled data."""
        return inner_iteration(self.points, self.start)

    def peak_megabytes(self) -> float:
        """Largest memory that a masked round holds beyond the data."""
        self.masked()
        tracemalloc.start()
        self.masked()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / 2**20


class FedDP:
    """A full FedDP-KMeans run (T = 1), d = 100, k = 10; the plan is made before timing."""

    def __init__(self, unit: Literal["point", "client"], n_clients: int, rows: int) -> None:
        self.unit, self.rows = unit, rows
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

    def run(self) -> np.ndarray:
        """Clipping, three releases, server k-means (10 restarts), one round; ideal secure sum."""
        rng = np.random.default_rng(0)
        return feddp_kmeans.run(self.federation(), self.plan, rng=rng).centers

    def sklearn(self) -> np.ndarray:
        """One scikit-learn k-means fit with one restart on the pooled rows."""
        model = KMeans(10, n_init=1, random_state=0)
        return model.fit(self.data.points).cluster_centers_

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

    def peak_over_data(self) -> float:
        """Largest memory of a run, the data included, over the size of the data."""
        self.run()
        tracemalloc.start()
        self.run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return 1 + peak / self.data.points.nbytes


def better_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """Whole runs with their plans, d = 5, k = 20: over-clustered Lloyd, and the rival PE-means."""
    rng, ratios = np.random.default_rng(0), {}

    def runner(planner: Callable[..., Any], runs: Callable[..., Any], **how: Any) -> Any:
        def whole() -> np.ndarray:
            federation = simulate([points], "ideal", seed=0, **how)
            return runs(federation, planner(federation, n_clusters=20, epsilon=1.0)).centers

        return whole

    fast = runner(fastlloyd.plan, fastlloyd.run)
    over = runner(fastlloyd.plan_overclustered, fastlloyd.run)
    pe = runner(plan_pe, fastlloyd.run, domain="ball", bound=5**0.5)
    for name, ours, theirs, n, times in (
        ("overclustered_over_fastlloyd_n100000_d5_k20", over, fast, 100_000, repeats),
        ("pe_means_over_overclustered_n20000_d5_k20", pe, over, 20_000, 3),
    ):
        points = rng.uniform(-1, 1, (n, 5))
        measured = paired_ratio(ours, theirs, times)
        ratios[name] = round(measured["ratio"], 2)
        if raw:
            print(name, measured, file=sys.stderr)
    return ratios


def feddp_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """Ratios of the FedDP-KMeans issue: data-point run, client level per point, memory."""
    point = FedDP("point", 100, 1000)
    results = {}
    iteration = inner_iteration(point.data.points, point.data.points[:10].copy())
    for name, other in (
        ("sklearn_fit", point.sklearn),
        ("inner_iteration", iteration),
        ("bare_products", point.products),
    ):
        measured = paired_ratio(point.run, other, repeats)
        results[f"feddp_run_over_{name}_100x1000"] = round(measured["ratio"], 3)
        if raw:
            print("feddp", name, measured, file=sys.stderr)
    client = FedDP("client", 5000, 50)
    measured = paired_ratio(client.run, point.run, repeats)
    per_point = measured["ratio"] * len(point.data.points) / len(client.data.points)
    results["feddp_client_5000x50_over_point_run_per_point"] = round(per_point, 3)
    results["feddp_peak_over_data_100x1000"] = round(point.peak_over_data(), 2)
    results["feddp_peak_over_data_5000x50"] = round(client.peak_over_data(), 2)
    return results


class Local:
    """Locally private k-means, epsilon = 1, k = 5; every user is simulated."""

    def __init__(self, n: int, d: int = 4) -> None:
        self.points = make_ball_mixture(n, d, 5, rng=np.random.default_rng(0)).points

    def one_round(self) -> np.ndarray:
        """Algorithm 1: federation, one bit of each user, server's k-means (10 restarts)."""
        users = simulate(self.points, "local", seed=0)
        rng = np.random.default_rng(0)
        plan = ldp_kmeans.plan(users, n_clusters=5, epsilon=1.0)
        return ldp_kmeans.run(users, plan, rng=rng).centers

    def four_rounds(self) -> np.ndarray:
        """Algorithms 2 to 5 without LSH."""
        users = simulate(self.points, "local", seed=0)
        rng = np.random.default_rng(0)
        plan = ldp_kmeans.plan_four_rounds(users, n_clusters=5, epsilon=1.0)
        return ldp_kmeans.run(users, plan, rng=rng).centers

    def sketch(self) -> np.ndarray:
        """One randomised symbol of each user, and the fit of a mixture to all of them."""
        users = simulate(self.points, "local", seed=0)
        plan = ldp_kmeans.plan_sketch(users, n_clusters=5, epsilon=1.0)
        return ldp_kmeans.run(users, plan, rng=np.random.default_rng(0)).centers

    def sklearn(self) -> np.ndarray:
        """One scikit-learn k-means fit with one restart on the same points."""
        return KMeans(5, n_init=1, random_state=0).fit(self.points).cluster_centers_

    def peak_over_data(self) -> float:
        """Largest memory of a run of Algorithm 1, the data included, over the size of the data."""
        self.one_round()
        tracemalloc.start()
        self.one_round()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return 1 + peak / self.points.nbytes


def shuffled_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """Whole runs behind a shuffler over those without one, n = 1e5; sketch over Algorithm 1."""
    points, results = Local(10**5).points, {}

    def run(planner: Callable[..., Any], trust: Literal["local", "shuffled"]) -> np.ndarray:
        users = simulate(points, trust, seed=0)
        made = planner(users, n_clusters=5, epsilon=1.0)
        return ldp_kmeans.run(users, made, rng=np.random.default_rng(0)).centers

    one, sketch = ldp_kmeans.plan, ldp_kmeans.plan_sketch
    for name, ours, theirs in (
        ("ldp_shuffled_alg1_over_local_n1e5", (one, "shuffled"), (one, "local")),
        ("ldp_shuffled_sketch_over_local_n1e5", (sketch, "shuffled"), (sketch, "local")),
        ("ldp_shuffled_sketch_over_alg1_n1e5", (sketch, "shuffled"), (one, "shuffled")),
    ):
        measured = paired_ratio(lambda of=ours: run(*of), lambda of=theirs: run(*of), repeats)
        results[name] = round(measured["ratio"], 2)
        if raw:
            print(name, measured, file=sys.stderr)
    return results


class Oracle:
    """One bit of each of n users about a value, and the counts of all buckets."""

    def __init__(self, n: int, n_buckets: int = 2**16) -> None:
        self.n, self.n_buckets = n, n_buckets
        self.values = np.random.default_rng(0).integers(1000, size=(n, 1)).astype(np.float64)

    def ours(self) -> np.ndarray:
        """All reports, sums, one transform."""
        rng = np.random.default_rng(0)
        oracle = OneBitCounts(
            lambda points, _: Question(points[:, 0].astype(np.uint64)), 1.0, rng=rng,
            n_buckets=self.n_buckets,
        )  # fmt: skip
        ask_values(oracle, self.values, rng=rng)
        return oracle.spectrum

    def draws(self) -> np.ndarray:
        """What no simulation avoids: an index and a bit of each user in one draw, one bincount."""
        rng = np.random.Generator(np.random.SFC64(0))  # the fastest generator of NumPy
        both = np.bincount(
            rng.integers(2 * self.n_buckets, size=self.n), minlength=2 * self.n_buckets
        )
        return both[: self.n_buckets] - both[self.n_buckets :]


def per_user_oracle(n: int, n_values: int) -> Callable[[], object] | None:
    """The same oracle in pure-LDP, one Python call per user; None where it is not installed."""
    try:
        from pure_ldp.frequency_oracles.hadamard_mechanism import (
            HadamardMechClient,
            HadamardMechServer,
        )
    except ImportError:
        return None
    items = np.random.default_rng(0).integers(1, 1001, size=n).tolist()  # its items start at 1

    def simulate() -> object:
        server = HadamardMechServer(1.0, n_values, t=1)
        client = HadamardMechClient(1.0, n_values, t=1)
        for item in items:
            server.aggregate(client.privatise(item))
        return server.estimate_all(range(1, n_values + 1))

    return simulate


def oracle_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """One bit of each of a million users over the draws alone."""
    oracle = Oracle(10**6)
    measured = paired_ratio(oracle.ours, oracle.draws, 3 * repeats)
    if raw:
        print("ldp oracle", measured, file=sys.stderr)
    return {"ldp_oracle_over_fastest_draws_n1e6": round(measured["ratio"], 3)}


def ldp_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """Ratios of the issue on local privacy: Algorithm 1, growth, memory, four rounds."""
    results = {}

    def note(name: str, measured: dict) -> None:
        results[name] = round(measured["ratio"], 3)
        if raw:
            print(name, measured, file=sys.stderr)

    case = Local(10**6)
    note("ldp_alg1_over_sklearn_fit_n1e6", paired_ratio(case.one_round, case.sklearn, repeats))
    iteration = inner_iteration(case.points, case.points[:5].copy())
    note("ldp_alg1_over_inner_iteration_n1e6", paired_ratio(case.one_round, iteration, repeats))
    measured = paired_ratio(case.four_rounds, case.one_round, repeats)
    note("ldp_four_rounds_over_alg1_n1e6", measured)
    note("ldp_sketch_over_sklearn_fit_n1e6", paired_ratio(case.sketch, case.sklearn, 3))
    results["ldp_peak_over_data_n1e6"] = round(case.peak_over_data(), 2)
    wide = Local(10**6, 10)
    note("ldp_sketch_over_sklearn_fit_n1e6_d10", paired_ratio(wide.sketch, wide.sklearn, 3))
    begin = time.process_time()
    wide.sketch()
    results["ldp_sketch_seconds_n1e6_d10"] = round(time.process_time() - begin, 2)
    large, small = Local(10**7), Local(10**5)
    measured = paired_ratio(large.one_round, small.one_round, max(3, repeats // 2))
    note("ldp_alg1_n1e7_over_100_times_n1e5", {k: v / 100 for k, v in measured.items()})
    results["ldp_peak_over_data_n1e7"] = round(large.peak_over_data(), 2)
    few, n_values = 20_000, 2**10
    simulate = per_user_oracle(few, n_values)
    if simulate is None:
        print("pure-LDP is not installed: comparison with it left out", file=sys.stderr)
    else:
        measured = paired_ratio(simulate, Oracle(few, n_values).ours, 3)
        note("ldp_pure_ldp_over_oracle_n2e4", measured)
    return results


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

    def peak(self) -> np.ndarray:
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

    def warm_up(self, rounds: int = 60) -> None:
        """Let almost every client make its Gram matrix: it does so once."""
        for _ in range(rounds):
            self.ours()

    def median_seconds(self, repeats: int) -> float:
        """Median time of one of our rounds."""
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.ours()
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    def flower_ratio(self, rounds: int) -> float | None:
        """Flower's time of a round over ours, measured back to back; None where it is not there.

        The interpreter of its own environment is FEDCLUST_FLOWER_PYTHON; see flower_round.py.
        """
        python = os.environ.get("FEDCLUST_FLOWER_PYTHON", sys.executable)
        quiet = {
            "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }  # fmt: skip
        there = subprocess.run([python, "-c", "import flwr, ray"], capture_output=True)
        if there.returncode:
            print(
                "Flower is not importable: its ratio is left out. Install flwr[simulation] in an"
                " environment of its own and set FEDCLUST_FLOWER_PYTHON",
                file=sys.stderr,
            )
            return None
        with tempfile.TemporaryDirectory() as folder:
            for name in ("points", "labels", "models"):
                np.save(Path(folder) / f"{name}.npy", getattr(self, name))
            before = self.median_seconds(25)
            script = Path(__file__).with_name("flower_round.py")
            done = subprocess.run(
                [python, str(script), folder, str(rounds)], capture_output=True, text=True,
                env=os.environ | quiet, timeout=900,
            )  # fmt: skip
        after = self.median_seconds(25)
        label = "seconds per round:"
        found = [line for line in done.stdout.splitlines() if line.startswith(label)]
        if not found:
            print("Flower gave no times: its ratio is left out", file=sys.stderr)
            return None
        theirs = np.median(json.loads(found[0].removeprefix(label)))
        return float(theirs / ((before + after) / 2))


def rr_ratios(repeats: int, raw: bool) -> dict[str, float]:
    """Ratios of the RR-Cluster issue: products, a loop over clients, Flower's simulation engine."""
    case = ModelRound()
    case.warm_up()
    results = {}
    for name, first, second in (
        ("round_over_bare_products", case.ours, case.products),
        ("round_over_peak_products", case.ours, case.peak),
        ("client_loop_over_round", case.loop, case.ours),
    ):
        measured = paired_ratio(first, second, repeats)
        results[f"rr_{name}_100of1000"] = round(measured["ratio"], 2)
        if raw:
            print("rr", name, measured, file=sys.stderr)
    flower = case.flower_ratio(10)
    if flower is not None:
        results["rr_flower_round_over_round_100of1000"] = round(flower, 1)
    return results


def round_ratios(quick: bool, raw: bool) -> dict[str, float]:
    """Masked and plain rounds over scikit-learn's fit and inner iteration; memory; bytes."""
    results: dict[str, float] = {}
    sizes = [(100_000, 5, 5, 25)] + ([] if quick else [(1_000_000, 16, 32, 7)])
    for n, d, k, repeats in sizes:
        case = Round(n, d, k)
        name = f"n{n}_d{d}_k{k}"
        for version in ("masked", "plain"):
            for other, call in (("sklearn", case.sklearn), ("inner_iteration", case.inner())):
                measured = paired_ratio(getattr(case, version), call, 5 if quick else repeats)
                results[f"{version}_round_over_{other}_{name}"] = round(measured["ratio"], 3)
                if raw:
                    print(version, other, name, measured, file=sys.stderr)
        results[f"masked_round_peak_mib_{name}"] = round(case.peak_megabytes(), 2)
    for k, d in ((2, 2), (2, 5), (5, 2), (5, 5)):
        case = Round(1_000, d, k)
        case.masked()
        results[f"bytes_per_round_k{k}_d{d}_m2"] = case.federation.transcript.n_bytes(round=1)
    return results


def main() -> None:
    """Measure, print, compare with what is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts: dict[str, Callable[[bool], dict[str, float]]] = {
        "oracle": lambda raw: oracle_ratios(5, raw),
        "feddp": lambda raw: feddp_ratios(5, raw),
        "ldp": lambda raw: ldp_ratios(5, raw),
        "shuffled": lambda raw: shuffled_ratios(3, raw),
        "rr": lambda raw: rr_ratios(25, raw),
        "better": lambda raw: better_ratios(5, raw),
    }
    parser.add_argument("--quick", action="store_true", help="few repetitions, no large data set")
    parser.add_argument("--raw", action="store_true", help="also print the range of each ratio")
    parser.add_argument("--only", nargs="+", choices=("round", *parts), help="these parts alone")
    parser.add_argument("--write", action="store_true", help="store the ratios in results.json")
    arguments = parser.parse_args()
    if arguments.write and arguments.quick:
        parser.error("--write needs all repetitions: leave --quick out")
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = arguments.only or (["round"] if arguments.quick else ["round", *parts])
    results: dict[str, float] = {}
    changes: list[str] = []
    for name in chosen:
        quick, raw = arguments.quick, arguments.raw
        made = round_ratios(quick, raw) if name == "round" else parts[name](raw)
        facts = record.machine()
        changes += record.changes(made, facts)
        if arguments.write:
            record.write(made, facts)
        results |= made
    print(json.dumps(results, indent=2))
    print("\n".join(changes), file=sys.stderr)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
