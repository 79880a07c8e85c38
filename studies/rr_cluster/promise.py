"""The paper's own promise: add/remove, Poisson sampling, and the noise that it takes there.

RR-Cluster is defined under add/remove (Definition 2.1 of the paper). There one client changes one
sum by C and its identifier by 1, as long as nobody is moved: `promised` runs DP-IFCA and DP-FeSEM
so.

**Why the accounting holds.** A round releases a table with a noised identifier for each of the M
clients (of one who was not drawn, or is not there, it is noise alone), then k noised sums with
noised counts, over the groups that the noised identifiers make. A client joins with probability q.
If it does, its row changes by 1; given the table, one sum changes by C at most and one count by 1,
and nobody else is put elsewhere. The direction of this change may depend on the table, its length
may not, and spherical noise knows no directions: both together are one Gaussian with
1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2, drawn with probability q, and such rounds compose
(`ClientStatistic` has the argument for clients who remember earlier rounds). The paper divides by
the exact number of updates, which changes when a client leaves: here counts are noised, too.

B > 0 moves clients as RR-Cluster does, **with a noise that no proof covers**: one client that
leaves then moves the sums by more than C (claim R2). It shows what the method would do if it got
its rebalancing for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import CLIENT_UPDATES, NEAREST_UPDATES, ClientMemory
from fedclust_helpers.federation import ClientData, Randomness
from fedclust_helpers.rr_cluster import algorithm, costs, rebalancing, sums_only
from fedclust_helpers.rr_cluster.costs import COUNTS_SHARE
from studies.bench import cell as bench
from studies.rr_cluster import cells
from studies.rr_cluster.cells import Run
from studies.rr_cluster.design import best_clips, tuned_clips
from studies.rr_cluster.problems import Clients, load_clients, model_named

TUNING_SEED = 100  # the partitions from here on choose the clips and nothing else
GRANTED = "rr_granted"  # RR-Cluster with the noise of DP-IFCA, which no proof covers
PROMISED = ("poisson", "poisson_rdp")


class Noise(NamedTuple):
    """Standard deviations of a round: on identifiers, on sums, and on counts."""

    identifiers: float
    sums: float
    counts: float


def noise_of(epsilon: float, delta: float, clip: float, **rounds: int) -> Noise:
    """Half of 1/sigma_eff^2 for identifiers (change 1), half for sums (C) and counts (1)."""
    if math.isinf(epsilon):
        return Noise(0.0, 0.0, 0.0)
    sigma = costs.calibrate(epsilon, delta, accountant=PROMISED[1], **rounds)
    sigma_s, rest = costs.split_identifiers(sigma, 0.5)
    counts, sums = costs.split_identifiers(rest, COUNTS_SHARE)
    return Noise(sigma_s, clip * sums, counts)


def promised(
    data: ClientData, training: rr.Training, models: FloatArray, noise: Noise, *, n_rounds: int,
    min_size: int, seed: np.random.SeedSequence, clusterer: str = "ifca",
) -> tuple[FloatArray, float]:  # fmt: skip
    """The last models (k, d), and how many clients were moved in a round.

    `models` are the first ones; with `min_size` 0 nobody is moved. `clusterer`: "ifca" or "fesem".
    """
    statistic = NEAREST_UPDATES if clusterer == "fesem" else CLIENT_UPDATES
    random, memory = Randomness.teaching(seed), ClientMemory(data.n_clients)
    draw = random.noise
    assert isinstance(draw, np.random.Generator)
    law, k = Sampling("poisson", rate=training.cohort / data.n_clients), len(models)
    least, moved = sums_only.FLOOR * training.cohort / k, 0
    if clusterer == "fesem":
        memory.put("fesem", random.public.integers(k, size=data.n_clients))
    for _ in range(n_rounds):
        drawn = random.cohort(law, data.n_clients)
        part = data.take(drawn)
        identifiers, updates = statistic.compute(
            part.points, part.offsets, labels=part.labels, memory=memory.of(drawn),
            models=models, **training.broadcast(),
        )  # fmt: skip
        named = identifiers + draw.normal(0, noise.identifiers, identifiers.shape)
        chosen = named.argmax(axis=1)
        groups = rebalancing.rebalance(
            chosen, k, min(min_size, len(drawn) // k), rule="strict", rng=random.public
        )
        member = (groups == np.arange(k)[:, None]).astype(np.float64)
        sums = member @ updates + draw.normal(0, noise.sums, models.shape)
        counts = member.sum(axis=1) + draw.normal(0, noise.counts, k)
        models = models + sums / np.maximum(counts, least)[:, None]
        moved += int(np.count_nonzero(groups != chosen))
    return models, moved / n_rounds


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PromiseDesign(bench.Design):
    """How large the tables are made."""

    data: str = "fashion_mnist"
    seeds: int = 10
    tuning_seeds: int = 2
    epsilons: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    clips: tuple[float, ...] = (0.1, 0.3, 1.0)
    k: int = 4
    B: int = 8
    rounds: int = 50
    settings: tuple[tuple[str, str], ...] = (
        ("balanced", "softmax"), ("imbalanced", "softmax"), ("balanced", "one_hidden"),
        ("dirichlet_0.5", "softmax"), ("dirichlet_0.1", "softmax"),
    )  # fmt: skip


FULL = PromiseDesign()
QUICK = PromiseDesign(
    data="digits", tuning_seeds=1, epsilons=(8.0,), clips=(0.3, 1.0), B=2, rounds=3, runs=2,
    settings=(("balanced", "softmax"),),
)  # fmt: skip


def family(run: Run) -> str:
    """The runs that share a clip: those of the same noise; RR-Cluster takes that of DP-IFCA."""
    return f"{cells.BASE.get(run.method, run.method).replace(GRANTED, 'ifca')}_{run.sampling}"


def runs(design: PromiseDesign) -> Iterator[Run]:
    """Baselines under the paper's promise; RR-Cluster as granted, as printed, and as it holds."""
    for epsilon in design.epsilons:
        for name in ("fedavg", "fedper"):
            yield Run(name, "none", *PROMISED, 0, epsilon)
        for name, size in (("ifca", 0), ("fesem", 0), (GRANTED, design.B)):
            yield Run(name, "corrected", *PROMISED, size, epsilon)
        for identifiers in ("corrected", "printed"):
            yield Run("rr_ifca", identifiers, B=design.B, epsilon=epsilon)


def trained(
    cell: bench.Cell, *, clients: Clients, run: Run, model: str, k: int, rounds: int, clip: float
) -> bench.Numbers:
    """Accuracy of one run on one set of clients, and how many clients were moved in a round."""
    problem = load_clients(clients)
    if run.sampling == "fixed" or run.identifiers == "none":
        how = {"model": model, "n_clusters": k, "n_rounds": rounds, "clip": clip}
        result, found, _ = cells.train(problem, run, **how)  # type: ignore[arg-type]
        moved = float(np.mean(result.moved)) if len(result.moved) else 0.0
        return {"accuracy": found.accuracy, "moved": moved}
    learner, cohort = model_named(model, problem), cells.cohort_of(problem)
    start = problem.initial(learner, k)
    if run.method == "fesem":
        start = algorithm.close_models(learner, k, rng=np.random.default_rng(problem.seed))
    noise = noise_of(
        run.epsilon, cells.DELTA, clip, n_rounds=rounds, cohort=cohort,
        n_clients=problem.train.n_clients,
    )  # fmt: skip
    models, moved = promised(
        problem.train, rr.Training(learner, cohort=cohort, clip=clip), start, noise,
        n_rounds=rounds, min_size=run.B, seed=problem.seed,
        clusterer="fesem" if run.method == "fesem" else "ifca",
    )  # fmt: skip
    found = rr.evaluate(learner, models, problem.train, problem.test, problem.groups)
    return {"accuracy": found.accuracy, "moved": moved}


# --- which cells, and rows ------------------------------------------------------------------------


def _clips(design: PromiseDesign) -> Iterator[bench.Settings]:
    """On partitions of their own, balanced groups."""
    for model in dict.fromkeys(model for _, model in design.settings):
        each = {(family(run), run.epsilon): run for run in reversed(list(runs(design)))}
        for seed, run, clip in product(range(design.tuning_seeds), each.values(), design.clips):
            yield {
                "clients": Clients(design.data, "balanced", TUNING_SEED + seed), "run": run,
                "model": model, "k": design.k, "rounds": design.rounds, "clip": clip,
            }  # fmt: skip


def _finish_clips(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    columns = list(Run._fields)
    rows = frame[columns].itertuples(index=False, name=None)
    frame["family"] = [family(Run(*row)) for row in rows]
    return best_clips(frame, folder, ["model", "family", "epsilon"])


def _promise(design: PromiseDesign) -> Iterator[bench.Settings]:
    usual = design.clips[len(design.clips) // 2]  # data of a tiny design: not tuned
    for setting, model in design.settings:
        for seed, run in product(range(design.at_most(design.seeds)), runs(design)):
            key = (model, family(run), run.epsilon)
            yield {
                "clients": Clients(design.data, setting, seed), "run": run, "model": model,
                "k": design.k, "rounds": design.rounds,
                "clip": tuned_clips("rr_promise_clips").get(key, usual),
            }  # fmt: skip


KEYS = ["data", "setting", "model", "k", "rounds", "epsilon"]
OTHERS = ("fedavg", "ifca")  # what every run is compared with, seed by seed


def _finish(frame: pd.DataFrame, folder: Path) -> bench.Files:
    own = [*KEYS, *(name for name in Run._fields if name != "epsilon"), "clip"]
    table = bench.grouped(
        frame, own, acc_mean=("accuracy", bench.mean), ci95=("accuracy", bench.ci95),
        moved=("moved", bench.mean),
    )  # fmt: skip
    return {"rr_promise": table, "rr_promise_paired": paired(frame)}


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """What each method gains over DP-FedAvg and DP-IFCA under the paper's promise, same clients."""
    rows = []
    for where, part in frame.groupby(KEYS, sort=False):
        by = ["method", "identifiers", "sampling", "B"]
        scores = {key: one.set_index("seed")["accuracy"] for key, one in part.groupby(by)}
        for (key, ours), other in product(scores.items(), OTHERS):
            (reference,) = (v for k, v in scores.items() if k[0] == other)
            if key[0] == other:
                continue
            found = bench.summary((ours - reference).dropna())
            rows.append(
                dict(zip([*KEYS, *by], (*where, *key), strict=True))
                | {"reference": other, "seeds": len(ours)}
                | {"diff_mean": found["mean"], "ci95": found["ci95"]}
            )
    return pd.DataFrame(rows)


RUN = ",".join([*KEYS, "method", "identifiers", "sampling"])
TABLES = bench.tables_of(
    FULL, QUICK,
    bench.Table(
        "rr_promise_clips", _clips, trained,
        "model,family,epsilon,clip,seeds,acc_mean,acc_min,chosen",
        finish=_finish_clips, names=("family",), whole=("chosen",),
    ),
    bench.Table(
        "rr_promise", _promise, trained,
        {
            "rr_promise": f"{RUN},accountant,B,clip,seeds,acc_mean,ci95,moved",
            "rr_promise_paired": f"{RUN},B,reference,seeds,diff_mean,ci95",
        },
        finish=_finish, whole=("rr_promise_paired",), names=("reference",),
    ),
)  # fmt: skip
"""In the order in which they are made."""
