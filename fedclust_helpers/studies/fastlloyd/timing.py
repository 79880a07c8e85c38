"""Table 3: bytes on the wire and time of one round, as a ratio to scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fedclust_helpers import fastlloyd as fl
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.datasets import partition_iid
from fedclust_helpers.federation import ClientData, MaskedSecureSum
from fedclust_helpers.kmeans import sphere_packing
from fedclust_helpers.studies.fastlloyd.cells import N_CLIENTS, Cell
from fedclust_helpers.studies.fastlloyd.problems import load_problem, seed_of


def round_cell(cell: Cell) -> dict[str, float]:
    """One masked round of two clients, noise included, against one scikit-learn iteration.

    Both run in turn from the same centres, `cell.runs` times after a warm-up; the ratio is the
    median of the paired ratios of CPU times. One thread works, so on an idle machine CPU time is
    the time on the clock, and on a busy one it does not count the waiting.
    """
    problem = load_problem(cell.dataset)
    points, k = problem.points, problem.n_clusters
    seeds = seed_of(cell.name).spawn(3)
    owners = partition_iid(len(points), N_CLIENTS, rng=np.random.default_rng(seeds[0]))
    federation = MaskedSecureSum(ClientData.from_owners(points, owners), seed=seeds[1])
    start = sphere_packing(k, points.shape[1], rng=np.random.default_rng(seeds[2]))
    plan = fl.plan(federation, n_clusters=k, epsilon=cell.epsilon, n_rounds=2)
    assert plan.radii is not None
    radius, mechanisms = float(plan.radii[1]), plan.mechanisms[1]

    def ours() -> None:
        sums, counts = federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, mechanisms, round=0, centers=start, radius=radius
        )
        fl.update_centers(start, sums, counts, radius=radius)

    def theirs() -> None:
        KMeans(k, init=start, n_init=1, max_iter=1, algorithm="lloyd").fit(points)

    federation.transcript.messages.clear()  # of the key agreement, once per run
    ours()
    n_bytes = federation.transcript.n_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs()
        ratios = np.array([_seconds(ours) / _seconds(theirs) for _ in range(cell.runs)])
    return {
        "bytes_per_round": n_bytes,
        "round_time_ratio_to_sklearn": float(np.median(ratios)),
        "ratio_p10": float(np.quantile(ratios, 0.1)),
        "ratio_p90": float(np.quantile(ratios, 0.9)),
    }


def _seconds(call: Callable[[], None]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
