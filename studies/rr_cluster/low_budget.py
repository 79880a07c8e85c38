"""Small epsilons: who takes part, in which features, and whether to train together at all.

`rr_low_clips` chooses the clips on partitions of their own; `rr_low_budget` has all methods tuned
alike, and `rr_low_gains` what the better release gains on the same clients. `race` has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.client_statistics.models import Batch, batch_of
from fedclust_helpers.rr_cluster.sums_only import FLOOR
from studies.bench import cell as bench
from studies.rr_cluster import cells
from studies.rr_cluster.design import best_clips, tuned_clips
from studies.rr_cluster.problems import Clients, ModelProblem, load_clients, model_named

TUNING_SEED = 100  # the partitions from here on choose the clips and nothing else
ALONE_STEPS = 100
METHODS = {"rr_cluster": "rr_ifca", "sums": "sums_ifca_reseed", "fedavg": "fedavg"}
SAMPLING = {"replace-one": ("fixed", "wor_rdp"), "add/remove": ("poisson", "poisson_rdp")}
ROUNDS = {"sampled": 50, "everyone": 30}


class Spent(NamedTuple):
    """One method at one guarantee; "alone" releases nothing."""

    method: str
    who: str = "nobody"
    adjacency: str = "none"
    epsilon: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LowDesign(bench.Design):
    """How large the tables are made."""

    pixels: str = "fashion_mnist"
    cosines: str = "fashion_dct"
    seeds: int = 3
    tuning_seeds: int = 1
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    deltas: tuple[float, ...] = (1e-3, 1e-5)
    clips: tuple[float, ...] = (0.2, 0.4, 1.0)
    k: int = 4
    few: int = 2


FULL = LowDesign()
QUICK = LowDesign(
    pixels="digits", cosines="digits_dct", epsilons=(1.0,), deltas=(1e-3,), clips=(0.2, 1.0),
    runs=2,
)  # fmt: skip


def clip_of(design: LowDesign, data: str, spent: Spent) -> float:
    """The tuned clip: of the epsilon whose mu, at the first delta, is nearest in ratio."""
    if spent.method == "alone":
        return 0.0
    mu = gdp_mu(spent.epsilon, spent.delta)
    near = min(design.epsilons, key=lambda e: abs(math.log(gdp_mu(e, design.deltas[0]) / mu)))
    key = (data, spent.method, spent.who, spent.adjacency, near)
    return tuned_clips("rr_low_clips").get(key, design.clips[0])  # data of a tiny design: not tuned


def both_batches(problem: ModelProblem) -> tuple[Batch, Batch]:
    """The training and the test examples of all clients."""
    a, b = problem.train, problem.test
    return batch_of(a.points, a.offsets, a.labels), batch_of(b.points, b.offsets, b.labels)


def trained_alone(model: Any, train: Batch) -> FloatArray:
    """Each client's own model (m, d) after 100 steps on its own examples."""
    zeros = np.zeros((len(train.features), model.n_parameters))
    return np.asarray(model.train(zeros, train, n_steps=ALONE_STEPS, learning_rate=0.3))


# --- cells ----------------------------------------------------------------------------------------


def low_budget(
    cell: bench.Cell, *, clients: Clients, spent: Spent, k: int, clip: float
) -> bench.Numbers:
    """Accuracy of one run, noise multiplier, and what the ledger says was spent."""
    problem = load_clients(clients)
    n, learner = problem.train.n_clients, model_named("softmax", problem)
    if spent.method == "alone":
        train, test = both_batches(problem)
        own = float(learner.accuracy(trained_alone(learner, train), test).mean())
        return {"groups_alone": 0.0, "sigma": 0.0, "spent": 0.0, "accuracy": own}
    sampling, accountant = SAMPLING[spent.adjacency]
    cohort = n if spent.who == "everyone" else cells.cohort_of(problem)
    corrected = "corrected" if spent.method == "rr_cluster" else "none"
    run = cells.Run(
        METHODS[spent.method], corrected, sampling, accountant,
        max(1, round(FLOOR * cohort / k)), spent.epsilon,
    )  # fmt: skip
    result, found, _ = cells.train(
        problem, run, model="softmax", n_clusters=k, n_rounds=ROUNDS[spent.who], clip=clip,
        cohort=cohort, delta=spent.delta,
    )  # fmt: skip
    return {
        "accuracy": found.accuracy, "groups_alone": found.groups_alone,
        "sigma": result.plan.dial.sigma, "spent": result.epsilon,
    }  # fmt: skip


# --- which cells ----------------------------------------------------------------------------------


def _spent(design: LowDesign, deltas: tuple[float, ...]) -> list[Spent]:
    """Sums only and DP-FedAvg in both designs and relations."""
    grid = product(("sums", "fedavg"), ROUNDS, SAMPLING, design.epsilons, deltas)
    return [Spent(*each) for each in grid]


def _central(design: LowDesign, deltas: tuple[float, ...]) -> list[Spent]:
    """RR-Cluster: the paper's release, which is under replace-one and sampled."""
    grid = product(("rr_cluster",), ("sampled",), ("replace-one",), design.epsilons, deltas)
    return [Spent(*each) for each in grid]


def _clips(design: LowDesign) -> Iterator[bench.Settings]:
    first = design.deltas[:1]
    for data in (design.pixels, design.cosines):
        runs = _spent(design, first) + (_central(design, first) if data == design.pixels else [])
        for seed, spent, clip in product(range(design.tuning_seeds), runs, design.clips):
            clients = Clients(data, "balanced", TUNING_SEED + seed)
            k = 1 if spent.method == "fedavg" else design.k
            yield {"clients": clients, "spent": spent, "k": k, "clip": clip}


def _budgets(design: LowDesign) -> Iterator[bench.Settings]:
    """Balanced groups; then pixels, other groups and fewer models, all under replace-one."""
    first, middle = design.deltas[:1], design.epsilons[len(design.epsilons) // 2]
    both = _spent(design, first)
    ours = [s for s in both if s.adjacency == "replace-one"]
    strict = [s._replace(delta=delta) for delta in design.deltas[1:] for s in ours]
    sums, one = ([s for s in ours if s.method == "sums"], [s for s in ours if s.epsilon == middle])
    blocks = [
        (design.cosines, "balanced", design.k, both + strict),
        (design.pixels, "balanced", design.k, sums + _central(design, first)),
        (design.cosines, "imbalanced", design.k, one),
        (design.cosines, "balanced", design.few, [s for s in one if s.method == "sums"]),
    ]
    blocks += [(data, setting, 1, [Spent("alone")]) for data, setting in
               ((design.cosines, "balanced"), (design.pixels, "balanced"),
                (design.cosines, "imbalanced"))]  # fmt: skip
    for seed in range(design.at_most(design.seeds)):
        for data, setting, k, runs in blocks:
            clients = Clients(data, setting, seed)
            for spent in runs:
                yield {
                    "clients": clients, "spent": spent,
                    "k": 1 if spent.method in ("fedavg", "alone") else k,
                    "clip": clip_of(design, data, spent),
                }  # fmt: skip


def _named(settings: bench.Settings) -> str:
    """The rest of a cell's name: partitions are named alike for both kinds of features."""
    clients, out = settings["clients"], []
    for name, value in settings.items():
        if name != "clients":
            values = value if isinstance(value, tuple) else (value,)
            out.append(f"{name}={','.join(map(str, values))}")
    return "/".join((*map(str, clients), *out))


# --- rows -----------------------------------------------------------------------------------------

CLIP_KEYS = ("data", "method", "who", "adjacency", "epsilon")


def _finish_budgets(frame: pd.DataFrame, folder: Path) -> bench.Files:
    keys = ["data", "setting", *Spent._fields[:2], "k", *Spent._fields[2:], "clip"]
    table = bench.grouped(
        frame, keys, acc_mean=("accuracy", bench.mean), ci95=("accuracy", bench.ci95),
        groups_alone=("groups_alone", bench.mean), sigma=("sigma", bench.mean),
        spent=("spent", "max"),
    )  # fmt: skip
    return {"rr_low_budget": table, "rr_low_gains": gains(frame)}


def gains(frame: pd.DataFrame) -> pd.DataFrame:
    """What sums only with everybody gains over each rival on the same clients, with intervals."""
    rows = []
    where = ["data", "setting", "k", "adjacency", "epsilon", "delta"]
    ours = frame[(frame["method"] == "sums") & (frame["who"] == "everyone")]
    for key, part in ours.groupby(where, sort=False):
        data, setting, k, adjacency, epsilon, delta = key
        own = part.set_index("seed")["accuracy"]
        rivals = frame[(frame["data"] == data) & (frame["setting"] == setting)]
        for (method, who, models), other in rivals.groupby(["method", "who", "k"], sort=False):
            at = other if method == "alone" else other[
                (other["adjacency"] == adjacency) & (other["epsilon"] == epsilon)
                & (other["delta"] == delta)
            ]  # fmt: skip
            if not len(at) or models not in (1, k) or (method, who) == ("sums", "everyone"):
                continue
            both = (own - at.set_index("seed")["accuracy"]).dropna()
            found = bench.summary(both)
            rows.append(dict(zip(where, key, strict=True)) | {
                "reference": method, "reference_who": who, "seeds": len(both),
                "gain_mean": found["mean"], "ci95": found["ci95"],
                "better_in": int((both > 0).sum()),
            })  # fmt: skip
    return pd.DataFrame(rows)


TABLES = bench.tables_of(
    FULL, QUICK,
    bench.Table(
        "rr_low_clips", _clips, low_budget, f"{','.join(CLIP_KEYS)},clip,seeds,acc_mean,chosen",
        seed=_named, finish=partial(best_clips, keys=[*CLIP_KEYS]), whole=("chosen",),
    ),
    bench.Table(
        "rr_low_budget", _budgets, low_budget,
        {
            "rr_low_budget": "data,setting,method,who,k,adjacency,epsilon,delta,clip,seeds,acc_mean"
            ",ci95,groups_alone,sigma,spent",
            "rr_low_gains": "data,setting,k,adjacency,epsilon,delta,reference,reference_who,seeds,"
            "gain_mean,ci95,better_in",
        },
        seed=_named, finish=_finish_budgets, whole=("rr_low_gains",),
        names=("reference", "reference_who"),
    ),
)  # fmt: skip
"""In the order in which they are made."""
