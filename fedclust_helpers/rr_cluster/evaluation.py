"""How good the models are: an evaluation outside the privacy boundary.

Every function here reads the clients' data and true groups. In a real federation each client could
do its own part for itself; nothing of it may be released as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._index import bincount
from fedclust_helpers._lazy import optimize
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_integers,
    as_numbers,
    as_points,
    check_instance,
)
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.client_statistics.models import AdditiveModel, batch_of
from fedclust_helpers.federation import ClientData, Federation, Plan
from fedclust_helpers.program import Execution, Members, Run
from fedclust_helpers.rr_cluster.algorithm import RR_CLUSTER

USED = 0.02  # share of the clients from which on a model counts as used
BLOCK = 100  # clients evaluated at a time


@dataclass(frozen=True)
class Evaluation:
    """How the clients fare, each with the model of least loss on its own training data.

    `accuracy` is the mean over clients, `per_client` (M,) each one's share of correct labels on its
    test data (for a regression: minus the mean squared error); `choices` (M,) their models.
    `cluster_accuracy` is the share of clients whose choice agrees with their true group, under the
    best matching of models to groups: misleading where models are noise. `models_used` were chosen
    by at least 2 % of the clients. `groups_alone` have a model of their own: most of the group
    chose it, and most who chose it are of the group.
    """

    accuracy: float
    cluster_accuracy: float
    models_used: int
    groups_alone: int
    choices: IntArray
    per_client: FloatArray


def evaluate(
    model: Model, models: ArrayLike, train_data: ClientData, test_data: ClientData,
    groups: ArrayLike, *, common: FloatArray | None = None,
) -> Evaluation:  # fmt: skip
    """Accuracy and cluster recovery of trained models; outside the privacy boundary.

    `models` are (k, d), or (M, d) for M clients, one each (DP-FedPer): then nobody chooses.
    `train_data` and `test_data` are of the same clients, of the true `groups` (M,). The outputs of
    `common` (d,), the common model of FedCAM, are added.
    """
    if not callable(getattr(model, "losses", None)) or isinstance(model, type):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    check_instance(train_data, ClientData, "train_data")
    check_instance(test_data, ClientData, "test_data")
    models = as_points(models, "models", n_features=model.n_parameters)
    m = train_data.n_clients
    groups = as_integers(groups, "groups", n=m)
    if test_data.n_clients != m:
        raise ValueError("test_data must be of the same clients as train_data")
    if common is not None:
        if not isinstance(model, AdditiveModel):
            raise TypeError(f"model must have outputs() to add a common one, got {model!r}")
        common = as_numbers(common, "common", ndim=1)
        if len(common) != model.n_parameters:
            raise ValueError(f"common must have shape ({model.n_parameters},), got {common.shape}")
    groups = np.unique(groups, return_inverse=True)[1].reshape(m)  # columns of the table below
    own = len(models) == m and m > 1
    choices, scores = np.zeros(m, dtype=np.int64), np.empty(m)
    for start in range(0, m, BLOCK):
        part = np.arange(start, min(start + BLOCK, m))
        if not own:
            losses = _evaluated("losses", model, models, train_data.take(part), common)
            choices[part] = losses.argmin(axis=1)
        chosen = models[part if own else choices[part]]
        scores[part] = _evaluated("accuracy", model, chosen, test_data.take(part), common)
    table = np.zeros((len(models) if not own else 1, int(groups.max()) + 1))
    np.add.at(table, (choices, groups), 1)
    rows, columns = optimize.linear_sum_assignment(-table)
    members, sizes, largest = table.sum(axis=0), table.sum(axis=1), table.argmax(axis=0)
    at_home = table[largest, np.arange(table.shape[1])]
    alone = (at_home > members / 2) & (at_home > sizes[largest] / 2)
    return Evaluation(
        accuracy=float(scores.mean()),
        cluster_accuracy=float(table[rows, columns].sum() / m),
        models_used=int((sizes >= USED * m).sum()),
        groups_alone=int(alone.sum()),
        choices=choices,
        per_client=scores,
    )


def _evaluated(
    method: str, model: Any, models: FloatArray, data: ClientData, common: FloatArray | None
) -> FloatArray:
    """The losses or accuracies of some clients, the common model's outputs added if given."""
    batch = batch_of(data.points, data.offsets, data.labels)
    offset: dict[str, FloatArray] = {}
    if common is not None:
        everyone = np.broadcast_to(common, (data.n_clients, len(common)))
        offset = {"offset": model.outputs(everyone, batch)}
    return np.asarray(getattr(model, method)(models, batch, **offset))


class Diagnosis(NamedTuple):
    """Of each round: the share of identifiers that noise changed (T,), true sizes (T, k)."""

    flip_rate: FloatArray
    true_sizes: IntArray


def diagnose(
    federation: Federation, plan: Plan, *, progress: Progress = False
) -> tuple[Run, Diagnosis]:
    """Run a plan of RR-Cluster, and compare released with exact identifiers.

    Only a simulation can look there; nothing of the diagnosis may be released.
    """
    check_instance(federation, Federation, "federation").require("collect")
    if check_instance(plan, Plan, "plan").algorithm is not RR_CLUSTER:
        raise ValueError("plan must be one of RR-Cluster: others have no identifiers to look at")
    flipped, sizes = [], []
    with federation.follow(plan, progress) as held:
        execution = Execution(federation, plan)
        while (asked := execution.request) is not None:
            line: Any = execution.line
            if not isinstance(asked, Members):
                execution.advance(asked.made(execution.session, line))
                continue
            how: Any = {"round": line.round, "sampling": asked.sampling, **asked.broadcast}
            exact, vectors = federation.collect(asked.statistic, line.mechanisms, **how)
            seen = federation.identified(asked.statistic, line.mechanisms, exact, line.round)
            true = exact.argmax(axis=1)
            flipped.append((true != seen).mean())
            sizes.append(bincount(true, minlength=plan.n_clusters))
            execution.session.held = asked, vectors, line
            execution.advance(seen)
    result = execution.result(federation.ledger.record_of(held))
    return result, Diagnosis(np.array(flipped), np.array(sizes))
