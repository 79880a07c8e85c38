"""What the FastLloyd tables measure: many seeded runs of a method on a data set."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import metrics
from fedclust_helpers._validation import FloatArray, check_choice
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.datasets import partition_iid
from fedclust_helpers.federation import ClientData, Federation, Plan, simulate
from fedclust_helpers.kmeans import sphere_packing
from studies.bench.cell import Cell, Numbers, seed_of, summary
from studies.bench.results import load_printed
from studies.fastlloyd.problems import load_problem, reference_centers

N_CLIENTS = 2
METHODS: dict[str, tuple[Callable[..., Plan], dict[str, Any]]] = {
    "lloyd": (fl.plan_lloyd, {}),
    "sulloyd": (fl.plan_sulloyd, {"count_floor": None}),
    "glloyd": (fl.plan_glloyd, {"count_floor": None}),
    "fastlloyd": (fl.plan, {}),
    "sulloyd_fold": (fl.plan_sulloyd, {"postprocess": "fold", "count_floor": 1.0}),
    "glloyd_fold": (fl.plan_glloyd, {"postprocess": "fold", "count_floor": 1.0}),
}
"""Names in the tables -> planner and fixed arguments. Without a fold, baselines divide by the
noised count as the paper does: a floor of 1 would throw their centres out of the box more often."""
INITS = {"halving": "halving", "binary": "largest"}
"""Names in the tables -> `initial` of the algorithms."""
PAPER_ROUNDS = load_printed("fastlloyd/table3", 1)
"""Bytes and milliseconds per iteration that the paper's Table 3 prints for FastLloyd."""
SCORES = ("silhouette", "davies_bouldin", "centroid_mse")


def dealt(
    points: FloatArray, trust: str, split: np.random.SeedSequence, protocol: np.random.SeedSequence,
    *, n_clients: int = N_CLIENTS, **options: Any,
) -> Federation:  # fmt: skip
    """The points dealt at random to clients of equal size; `options` are for `simulate`."""
    owners = partition_iid(len(points), n_clients, rng=np.random.default_rng(split))
    return simulate(ClientData.from_owners(points, owners), trust, seed=protocol, **options)


def all_centers(
    cell: Cell, *, dataset: str, init: str, method: str, epsilon: float, **options: Any
) -> list[FloatArray]:
    """Final centres of every run; run i is the same for every number of runs > i."""
    problem = load_problem(dataset)
    if method == "optimum":
        return [reference_centers(dataset)]
    planner, fixed = METHODS[check_choice(method, "method", tuple(METHODS))]
    initial = INITS[check_choice(init, "init", tuple(INITS))]
    budget = {} if method == "lloyd" else {"epsilon": epsilon}
    out = []
    for seed in cell.seeds():
        federation = dealt(problem.points, "masked", *seed.spawn(2), noise_from="server")
        plan = planner(
            federation, n_clusters=problem.n_clusters, initial=initial, **fixed, **budget, **options
        )
        out.append(fl.run(federation, plan).centers)
    return out


def nicv(cell: Cell, *, dataset: str, **settings: Any) -> Numbers:
    """NICV over the runs of `all_centers`, and the shape of the data."""
    problem = load_problem(dataset)
    centers = all_centers(cell, dataset=dataset, **settings)
    found = summary([metrics.nicv(problem.points, each) for each in centers])
    named = {"nicv_mean": found["mean"], "nicv_median": found["median"], "ci95": found["ci95"]}
    return problem.shape | named


def nicv_of_draw(cell: Cell, *, figure: str, dataset: str, draw: int, **settings: Any) -> Numbers:
    """`nicv` on one of several draws of the same kind of data; `figure` is where it is shown."""
    return nicv(cell, dataset=f"{dataset}_{draw}", **settings)


def ablation(cell: Cell, *, method: str, **settings: Any) -> Numbers:
    """`nicv` where counts have no floor, as in the paper."""
    if method == "fastlloyd":
        settings["count_floor"] = None
    return nicv(cell, method=method, init="halving", **settings)


def scores(cell: Cell, *, dataset: str, **settings: Any) -> Numbers:
    """The three scores of Appendix D; infinite Davies-Bouldin values are counted, not averaged.

    Silhouette uses the same rows (at most 2,000) in every run of every method.
    """
    problem, reference = load_problem(dataset), reference_centers(dataset)
    rows = seed_of(f"silhouette/{dataset}")
    found = np.array(
        [
            (
                metrics.silhouette(problem.points, centers, rng=np.random.default_rng(rows)),
                metrics.davies_bouldin(problem.points, centers),
                centroid_mse(centers, reference),
            )
            for centers in all_centers(cell, dataset=dataset, **settings)
        ]
    )
    out: Numbers = dict(problem.shape)
    for name, values in zip(SCORES, found.T, strict=True):
        finite = values[np.isfinite(values)]
        out |= {f"{name}_{statistic}": value for statistic, value in summary(finite).items()}
        out[f"{name}_omitted"] = len(values) - len(finite)
    return out


def round_time(cell: Cell, *, dataset: str, epsilon: float) -> Numbers:
    """Table 3: one masked round of two clients against one scikit-learn iteration.

    Noise is included. Both run in turn from the same centres after a warm-up; the ratio is the
    median of the paired ratios of CPU times. One thread works, so on an idle machine CPU time is
    the time on the clock, and on a busy one it does not count the waiting.
    """
    problem = load_problem(dataset)
    points, k = problem.points, problem.n_clusters
    split, protocol, first = cell.seed.spawn(3)
    federation = dealt(points, "masked", split, protocol, noise_from="server")
    start = sphere_packing(k, points.shape[1], rng=np.random.default_rng(first))
    plan = fl.plan(federation, n_clusters=k, epsilon=epsilon, n_rounds=2)
    radius, mechanisms = plan.broadcasts("radius")[1], plan.mechanisms[1]

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
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    paper_bytes, paper_ms = PAPER_ROUNDS.get(dataset, (np.nan, np.nan))
    return problem.shape | {
        "bytes_per_round": n_bytes, "paper_bytes": paper_bytes, "paper_ms": paper_ms,
        "round_time_ratio_to_sklearn": middle, "ratio_p10": low, "ratio_p90": high,
    }  # fmt: skip


def _seconds(call: Callable[[], None]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def centroid_mse(centers: ArrayLike, reference: ArrayLike) -> float:
    """Mean squared distance between centres and the reference centres matched to them.

    The matching is the one-to-one assignment of least total squared distance (Hungarian method).
    A squared distance is summed over the d coordinates and averaged over the k pairs. Both arrays
    have shape (k, d).

    Examples
    --------
    >>> centroid_mse([[0.0, 0.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 1.0]])
    0.5
    """
    if len(np.asarray(centers)) != len(np.asarray(reference)):
        raise ValueError("reference must have as many rows as centers")
    squared = cdist(centers, reference, "sqeuclidean")
    return float(squared[linear_sum_assignment(squared)].mean())
