"""The tables of rivals: designs, what one cell measures, and who promises what to whom."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

import fedclust_helpers
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import kmeans, metrics
from studies.bench.cell import (
    Cell,
    Design,
    Numbers,
    Settings,
    Table,
    grid,
    summary,
    tables_of,
)
from studies.beyond.cells import rows_seen
from studies.beyond.pe_means import plan_pe
from studies.fastlloyd.cells import dealt
from studies.fastlloyd.problems import load_problem, reference_centers
from studies.ldp_kmeans.blocks import N_VALUES, root_mean_square
from studies.ldp_kmeans.problems import Ball, best_ball_centers, load_ball
from studies.side_by_side.cells import BAD
from tools.rivals.environments import RIVALS, Process


class Promise(NamedTuple):
    """Columns that say what a method promises, and to whom."""

    trust: str
    unit: str = "point"
    relation: str = "add/remove"
    pure: bool = False


METHODS = {
    "optimum": Promise("none", relation=""),
    "diffprivlib": Promise("trusted", relation="not stated", pure=True),
    "google_lsh": Promise("trusted"),
    "dpm": Promise("trusted"),
    "pe_means": Promise("trusted"),
    "sulloyd": Promise("masked", pure=True),
    "fastlloyd": Promise("masked"),
    "overclustered": Promise("masked"),
}
"""Row kinds. Bounds [-1, 1]^d, k and n are public for all. `pure`: delta = 0."""
WRITTEN_HERE: dict[str, Callable[..., Any]] = {
    "pe_means": plan_pe, "sulloyd": fl.plan_sulloyd, "fastlloyd": fl.plan,
    "overclustered": fl.plan_overclustered,
}  # fmt: skip
"""What runs in this process: ours, and PE-means as `studies.beyond` wrote it from its paper."""


@dataclass(frozen=True, kw_only=True)
class RivalsDesign(Design):
    """How large the tables are made. The constants of `overclustered` were chosen on `tuned`."""

    tuned: tuple[str, ...] = ("iris", "wine", "lsun", "yeast", "s1", "adult", "digits")
    fresh: tuple[str, ...] = ("breast", "g2_32", "synth_12_6_7")
    epsilons: tuple[float, ...] = (0.25, 0.5, 1.0)
    large: tuple[tuple[int, int, int], ...] = ((50_000, 10, 10), (100_000, 8, 5), (300_000, 4, 10))
    """n, d, k of the paper's mixtures in the unit ball (drawn anew for each), at epsilon 1."""
    seeds: int = 20
    methods: tuple[str, ...] = tuple(METHODS)
    dimensions: tuple[int, ...] = (2, 4, 5, 6, 8, 13, 32, 64)
    oracles: tuple[str, ...] = ("k-rr", "olh", "oue", "hadamard")
    oracle_epsilons: tuple[float, ...] = (1.0, 4.0)


FULL = RivalsDesign()
QUICK = RivalsDesign(
    tuned=("iris",), fresh=(), epsilons=(1.0,), dimensions=(2, 64), oracles=("k-rr",),
    oracle_epsilons=(1.0,), runs=2, large=((500, 2, 3),),
)  # fmt: skip
processes: dict[str, Process] = {}
"""The running rivals; `open_rivals` fills it."""


def open_rivals(base: Path) -> dict[str, Process]:
    """A process for each rival, its environment under `base`; each starts when first asked."""
    processes.update({name: Process(rival, base) for name, rival in RIVALS.items()})
    return processes


# --- clustering -----------------------------------------------------------------------------------


def _rivals(design: RivalsDesign) -> Iterator[Settings]:
    large = ["_".join(map(str, ("mixture", *shape))) for shape in design.large]
    for sets, names, epsilons in (
        ("tuned", design.tuned, design.epsilons), ("fresh", design.fresh, design.epsilons),
        ("large", large, (1.0,)),
    ):  # fmt: skip
        for dataset in names:
            for method in design.methods:
                common = {"sets": sets, "dataset": dataset, "method": method}
                slow = sets == "large" and method in ("pe_means", "dpm")  # a minute a run
                runs = design.at_most(5 if slow else design.seeds)
                if method == "optimum":
                    yield common | {"epsilon": math.inf}
                else:
                    yield from grid(**common, epsilon=epsilons, runs=runs)


class Data(NamedTuple):
    """Points in the box [-1, 1]^d, the radius of the smallest public ball around them, the best.

    The best clustering found without privacy by its cost and by the centre of each row.
    """

    points: Any
    k: int
    radius: float
    best: float
    labels: Any


@lru_cache(maxsize=1)
def data_of(dataset: str) -> Data:
    """A set of FastLloyd's paper in its box, or the mixture "mixture_n_d_k" in the unit ball."""
    if dataset.startswith("mixture"):
        n, d, k = map(int, dataset.split("_")[1:])
        ball = Ball("mixture", n, d, k, 0)
        points, radius, centers = load_ball(ball).points, 1.0, best_ball_centers(ball)
    else:
        problem, centers = load_problem(dataset), reference_centers(dataset)
        points, k, radius = problem.points, problem.n_clusters, math.sqrt(problem.points.shape[1])
    labels = kmeans.assign(points, centers).labels
    return Data(points, k, radius, metrics.nicv(points, centers), labels)


@lru_cache(maxsize=1)
def _saved(dataset: str) -> str:
    """The points of a data set as a file, for another interpreter."""
    path = Path(tempfile.mkdtemp(prefix="fedclust-rivals-")) / f"{dataset}.npy"
    np.save(path, data_of(dataset).points)
    return str(path)


def run_here(method: str, data: Data, epsilon: float, seed: Any) -> tuple[Any, float]:
    """Centres of one run under the trust of `METHODS`, and its processor time.

    PE-means gets the smallest public ball that holds the points; its centres are moved into the
    box.
    """
    points, k = data.points, data.k
    evolved = method == "pe_means"
    room: Any = {"domain": "ball", "bound": data.radius} if evolved else {}
    room |= {"noise_from": "server"} if METHODS[method].trust == "masked" else {}
    federation = dealt(points, METHODS[method].trust, *seed.spawn(2), **room)
    begin = time.process_time()
    plan = WRITTEN_HERE[method](federation, n_clusters=k, epsilon=epsilon)
    centers = fl.run(federation, plan).centers
    return np.clip(centers, -1, 1) if evolved else centers, time.process_time() - begin


def nicv(cell: Cell, *, sets: str, dataset: str, method: str, epsilon: float) -> Numbers:
    """NICV over repeated runs, their median time, how many ended `BAD`; and the honest limit.

    `agreement` is the mean adjusted Rand index (Hubert and Arabie 1985) of the run's partition
    with that of the best clustering without privacy: 1 the same, 0 as by chance. `failed` is the
    share of runs that ended without an answer; they count as bad.

    That is `known`: what noise adds to the best cost, as a share, where the groups are known.
    """
    data = data_of(dataset)
    shape = {"n": len(data.points), "d": data.points.shape[1], "k": data.k}
    if method == "optimum":
        return shape | {"nicv_mean": data.best, "nicv_median": data.best, "agreement": 1.0}
    delta = 0.0 if METHODS[method].pure else fl.default_delta(len(data.points))
    if method in WRITTEN_HERE:
        runs = [run_here(method, data, epsilon, seed) for seed in cell.seeds()]
        centers, seconds = map(list, zip(*runs, strict=True))
        answer: dict[str, Any] = {}
    else:
        seeds = [int(seed.generate_state(1)[0]) for seed in cell.seeds()]
        answer = processes[method].ask(
            "centers", points=_saved(dataset), radius=data.radius, k=data.k, epsilon=epsilon,
            delta=delta, seeds=seeds,
        )  # fmt: skip
        centers, seconds = answer["centers"], answer["seconds"]
    # DPM's partition is its own; of the others a row belongs to the nearest centre
    own = np.load(answer["labels"]) if "labels" in answer else [None] * len(centers)
    ended = [(np.array(c), rows) for c, rows in zip(centers, own, strict=True) if c is not None]
    if not ended:
        return shape | {"delta": delta, "bad": 1.0, "failed": 1.0}
    costs = np.array([metrics.nicv(data.points, c) for c, _ in ended])
    agreement = [
        adjusted_rand_score(
            data.labels, kmeans.assign(data.points, c).labels if rows is None else rows
        )
        for c, rows in ended
    ]
    found = summary(costs)
    low, high = np.quantile(costs, [0.1, 0.9])
    limit = rows_seen(*shape.values(), epsilon)["known"]
    return shape | {
        "delta": delta, "known": limit, "nicv_mean": found["mean"], "ci95": found["ci95"],
        "nicv_median": found["median"], "nicv_low": low, "nicv_high": high,
        "bad": 1 - float((costs <= BAD * data.best).sum()) / len(centers),
        "agreement": float(np.mean(agreement)),
        "centers": float(np.median([len(c) for c, _ in ended])),
        "failed": 1 - len(ended) / len(centers), "seconds": float(np.median(seconds)),
    }  # fmt: skip


def promised(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """With the columns of `Promise` and the versions."""
    for column in ("trust", "unit", "relation"):
        frame[column] = [getattr(METHODS[method], column) for method in frame["method"]]
    frame["version"] = [
        processes[method].version if method in processes else fedclust_helpers.__version__
        for method in frame["method"]
    ]
    return frame


# --- diffprivlib's budget, and the oracles --------------------------------------------------------


def budget(cell: Cell, *, d: int, epsilon: float) -> Numbers:
    """What the mechanisms of one run were given, added up; and whether one row alone shows.

    Clusters are disjoint, so they count once: every round spends one count and one sum for each
    column.
    """
    k, seeds = 3, [int(seed.generate_state(1)[0]) for seed in cell.seeds()]
    told = processes["diffprivlib"].ask("spent", d=d, k=k, epsilon=epsilon, seed=seeds[0])
    counts = [e for kind, e, _ in told["spent"] if kind == "count"]
    sums = [e for kind, e, _ in told["spent"] if kind == "sum"]
    still = processes["diffprivlib"].ask("alone", n=1000, d=d, epsilon=epsilon, seeds=seeds)
    return {
        "rounds": told["rounds"], "epsilon_count": counts[0], "epsilon_sum": sums[0],
        "sensitivity": told["spent"][-1][2],
        "spent": (sum(counts) + sum(sums) / k) / epsilon,
        "still_without": still["still"][0] / len(seeds),
        "still_with": still["still"][1] / len(seeds),
    }  # fmt: skip


def oracle_error(cell: Cell, *, oracle: str, n: int, epsilon: float) -> Numbers:
    """Error of the counts of 64 equally likely values, as in `ldp_oracles`."""
    seeds = [int(seed.generate_state(1)[0]) for seed in cell.seeds()]
    told = processes["pure_ldp"].ask(
        "errors", oracle=oracle, n=n, n_values=N_VALUES, epsilon=epsilon, seeds=seeds
    )
    sd = root_mean_square(np.array(told["squares"]))
    seconds = float(np.median(told["seconds"]))
    return {"sd": sd[0], "low": sd[1], "high": sd[2], "seconds": seconds}


TABLES = tables_of(
    FULL, QUICK,
    Table(
        "rivals", _rivals, nicv,
        "sets,dataset,n,d,k,epsilon,delta,method,trust,unit,relation,runs,nicv_mean,ci95,"
        "nicv_median,nicv_low,nicv_high,bad,known,agreement,centers,failed,seconds,version",
        finish=promised, seed="{dataset}/{method}/{epsilon:g}", anew=("seconds", "version"),
        sequential=True,
    ),
    Table(
        "rivals_budget",
        lambda d: grid(d=d.dimensions, epsilon=1.0, runs=d.repeated(20)), budget,
        "d,epsilon,runs,rounds,epsilon_count,epsilon_sum,sensitivity,spent,still_without,"
        "still_with",
        sequential=True,
    ),
    Table(
        "rivals_oracles",
        lambda d: grid(
            oracle=d.oracles, n=10_000, epsilon=d.oracle_epsilons, runs=d.at_most(5)
        ),
        oracle_error, "oracle,n,epsilon,runs,sd,low,high,seconds", anew=("seconds",),
        sequential=True,
    ),
)  # fmt: skip
"""Name -> table. They are no part of `studies.TABLES`: only `make rivals` can make them."""
