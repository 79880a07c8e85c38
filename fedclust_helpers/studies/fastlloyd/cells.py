"""One cell of a result table: a data set, a method with its settings, and many seeded runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import metrics
from fedclust_helpers._validation import FloatArray, check_choice, check_int, check_positive
from fedclust_helpers.datasets import partition_iid
from fedclust_helpers.federation import ClientData, MaskedSecureSum
from fedclust_helpers.studies.fastlloyd.problems import (
    Problem,
    load_problem,
    reference_centers,
    seed_of,
)

N_CLIENTS = 2
MAX_RUNS = 100_000
METHODS: dict[str, tuple[Callable[..., fl.LloydPlan], dict[str, Any]]] = {
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


@dataclass(frozen=True)
class Cell:
    """What is run: everything that names a row, and the number of repetitions.

    `options` are further keyword arguments of the algorithm, as sorted (name, value) pairs.
    """

    table: str
    dataset: str
    method: str
    epsilon: float
    runs: int
    init: str = "halving"
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("table", "dataset", "method", "init"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(
                    f"{name} must be a string, got {type(getattr(self, name)).__name__}"
                )
        check_positive(self.epsilon, "epsilon", finite=False)
        check_int(self.runs, "runs", minimum=0, maximum=MAX_RUNS)
        pairs = isinstance(self.options, tuple) and all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in self.options
        )
        if not pairs:
            raise TypeError("options must be a tuple of (name, value) pairs")

    @property
    def name(self) -> str:
        """Name of the cell without its number of runs; its seed is derived from it."""
        parts = [self.table, self.dataset, self.method, self.init, f"{self.epsilon:g}"]
        return "/".join(parts + [f"{k}={v}" for k, v in self.options])

    @property
    def key(self) -> str:
        """Name with the number of runs: what a partial table is resumed by."""
        return f"{self.name}/runs={self.runs}"


def run_centers(cell: Cell, problem: Problem, seed: np.random.SeedSequence) -> FloatArray:
    """Final centres of one run: a new random split into two equal clients, masked aggregation."""
    split, protocol = seed.spawn(2)
    rng = np.random.default_rng(split)
    owners = partition_iid(len(problem.points), N_CLIENTS, rng=rng)
    federation = MaskedSecureSum(ClientData.from_owners(problem.points, owners), seed=protocol)
    planner, fixed = METHODS[check_choice(cell.method, "method of the cell", tuple(METHODS))]
    budget = {} if cell.method == "lloyd" else {"epsilon": cell.epsilon}
    settings = {**fixed, **budget, **dict(cell.options)}
    initial = INITS[check_choice(cell.init, "init of the cell", tuple(INITS))]
    plan = planner(federation, n_clusters=problem.n_clusters, initial=initial, **settings)
    return fl.run(federation, plan).centers


def all_centers(cell: Cell) -> list[FloatArray]:
    """Centres of every run; run i is the same for every number of runs > i."""
    problem = load_problem(cell.dataset)
    if cell.method == "optimum":
        return [reference_centers(cell.dataset)]
    seeds = seed_of(cell.name).spawn(cell.runs)
    return [run_centers(cell, problem, seed) for seed in seeds]


def summary(values: ArrayLike) -> dict[str, float]:
    """Mean, median, half-width of the 95 % interval; nan where too few values are left."""
    try:
        sample = np.asarray(values)
        if sample.ndim != 1 or sample.dtype.kind not in "fiu":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError("values must be a sequence of real numbers") from None
    sample = sample.astype(np.float64)
    if len(sample) == 0:
        return {"mean": math.nan, "median": math.nan, "ci95": math.nan}
    ci95 = metrics.mean_ci(sample).half_width if len(sample) > 1 else math.nan
    return {"mean": float(sample.mean()), "median": float(np.median(sample)), "ci95": ci95}


def nicv_cell(cell: Cell) -> dict[str, float]:
    """NICV of a cell over its runs."""
    problem = load_problem(cell.dataset)
    return summary([metrics.nicv(problem.points, centers) for centers in all_centers(cell)])


def metrics_cell(cell: Cell) -> dict[str, float]:
    """The three scores of Appendix D; infinite Davies-Bouldin values are counted, not averaged.

    Silhouette uses the same rows (at most 2,000) in every run of every method.
    """
    points, reference = load_problem(cell.dataset).points, reference_centers(cell.dataset)
    rows = seed_of(f"silhouette/{cell.dataset}")
    scores = np.array(
        [
            (
                metrics.silhouette(points, centers, rng=np.random.default_rng(rows)),
                metrics.davies_bouldin(points, centers),
                metrics.centroid_mse(centers, reference),
            )
            for centers in all_centers(cell)
        ]
    )
    out: dict[str, float] = {}
    for name, values in zip(
        ("silhouette", "davies_bouldin", "centroid_mse"), scores.T, strict=True
    ):
        finite = values[np.isfinite(values)]
        out |= {f"{name}_{statistic}": value for statistic, value in summary(finite).items()}
        out[f"{name}_omitted"] = len(values) - len(finite)
    return out
