"""Mixed models against their parts: the weight by precision, a fixed one, and cross-validation.

One run of sums only in a cell, with everybody in every round under replace-one; all columns are of
the same released models. `notes.md` describes the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.rr_cluster.sums_only import FLOOR
from studies.bench import cell as bench
from studies.rr_cluster import low_budget
from studies.rr_cluster.problems import Clients, load_clients, model_named

FRESH = 300  # the partitions from here on chose nothing
FIXED = {0.5: 0.7, 1.0: 0.8, 2.0: 1.0}  # chosen on partitions 100 and 101, with "short" training
GRID = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FOLDS = 3


class Way(NamedTuple):
    """How the clients train: clip, rounds, local steps, floor of the divisor, scale of the start.

    The floor is in shares of cohort/k. All of it was chosen on partitions
    100 to 103.
    """

    work: str
    clip: float
    n_rounds: int = 30
    n_steps: int = 5
    floor: float = FLOOR
    scale: float = 1.0


WAYS: dict[float, tuple[Way, Way]] = {
    0.5: (Way("short", 0.2), Way("long", 0.2, 30, 20, 1.0, 0.5)),
    1.0: (Way("short", 0.4), Way("long", 0.2, 60, 20, 1.0, 0.5)),
    2.0: (Way("short", 0.4), Way("long", 0.3, 60, 20, 1.0, 0.5)),
}
"""Epsilon -> as in rr_low_budget, and with more work in each round."""


def cross_validated(model: Any, chosen: FloatArray, train: Any) -> FloatArray:
    """The weight (m,) of `GRID` that does best on each client's own rows, held out in turn."""
    fold = np.arange(train.features.shape[1]) % FOLDS
    right = np.zeros((len(GRID), len(chosen)))
    for f in range(FOLDS):
        own = low_budget.trained_alone(model, train._replace(weights=train.weights * (fold != f)))
        held = train._replace(weights=train.weights * (fold == f))
        for i, w in enumerate(GRID):
            right[i] += model.accuracy(w * chosen + (1 - w) * own, held)
    return np.asarray(GRID)[right.argmax(axis=0)]


def mixed(cell: bench.Cell, *, clients: Clients, epsilon: float, way: Way, k: int) -> Any:
    """Accuracies of one run's models, released, own, and mixed in three ways; the best fixed w."""
    problem = load_clients(clients)
    model: Any = model_named("softmax", problem)
    n = problem.train.n_clients
    federation = simulate(
        problem.train, "ideal", seed=problem.seed, bound=problem.federation.bound,
        ledger=PrivacyLedger(unit="client", adjacency="replace-one"),
    )  # fmt: skip
    training = rr.Training(model, cohort=n, clip=way.clip, n_steps=way.n_steps)
    done = rr.run(federation, rr.plan_sums_only(
        federation, training, n_clusters=k, n_rounds=way.n_rounds, epsilon=epsilon, delta=1e-3,
        min_size=max(1, round(way.floor * n / k)),
        initial=way.scale * problem.initial(model, k),
    ))  # fmt: skip
    train, test = low_budget.both_batches(problem)
    chosen = done.models[model.losses(done.models, train).argmin(axis=1)]
    own = rr.own_models(model, problem.train)

    def accuracy(w: Any) -> float:
        w = np.broadcast_to(w, n)[:, None]
        return float(model.accuracy(w * chosen + (1 - w) * own, test).mean())

    weight = float(rr.released_weight(done.plan))
    weights = np.arange(0, 1.01, 0.1)
    ways = [accuracy(w) for w in weights]
    return {
        "weight": weight, "spent": done.epsilon, "alone": ways[0], "released": ways[-1],
        "mixed": accuracy(weight), "fixed": accuracy(FIXED[epsilon]),
        "validated": accuracy(cross_validated(model, chosen, train)),
        "best": max(ways), "best_weight": float(weights[int(np.argmax(ways))]),
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MixedDesign(bench.Design):
    """How large the table is made."""

    data: str = "fashion_dct"
    seeds: int = 10
    epsilons: tuple[float, ...] = tuple(WAYS)
    k: int = 4


FULL = MixedDesign()
QUICK = MixedDesign(data="digits_dct", epsilons=(1.0,), runs=2)


def _cells(design: MixedDesign) -> Iterator[bench.Settings]:
    for seed, epsilon in product(range(design.at_most(design.seeds)), design.epsilons):
        clients = Clients(design.data, "balanced", FRESH + seed)
        for way in WAYS[epsilon]:
            yield {"clients": clients, "epsilon": epsilon, "way": way, "k": design.k}


def _finish(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Means, and the gains of mixing on the same clients, with intervals."""
    frame = frame.assign(**{
        f"over_{name}": frame["mixed"] - frame[name]
        for name in ("released", "fixed")
    })  # fmt: skip
    means: dict[str, Any] = {n: (n, bench.mean) for n in COLUMNS}
    means |= {"mixed_ci95": ("mixed", bench.ci95)}
    for name in ("released", "fixed"):
        means |= {f"over_{name}_mean": (f"over_{name}", bench.mean)}
        means |= {f"over_{name}_ci95": (f"over_{name}", bench.ci95)}
    return bench.grouped(frame, ["epsilon", *Way._fields], **means)


COLUMNS = (
    "weight", "spent", "alone", "released", "mixed", "fixed", "validated", "best", "best_weight",
)  # fmt: skip
TABLES = bench.tables_of(
    FULL, QUICK,
    bench.Table(
        "rr_mixed", _cells, mixed,
        f"epsilon,{','.join(Way._fields)},seeds,{','.join(COLUMNS)},mixed_ci95,over_released_mean,"
        "over_released_ci95,over_fixed_mean,over_fixed_ci95",
        finish=_finish,
    ),
)  # fmt: skip
"""In the order in which they are made."""
