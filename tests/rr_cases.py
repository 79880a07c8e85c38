"""Clients, federations and calls that the tests of RR-Cluster share."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClientData, simulate

P, C = 4, 3  # features, classes
MODEL = rr.SoftmaxRegression(P, C)
OF_TRAINING = {field.name for field in dataclasses.fields(rr.Training)} - {"model"}


def clients(m: int = 60, n: int = 8, *, groups: int = 2, seed: int = 0) -> tuple[ClientData, Any]:
    """Labelled examples of m clients; each group names the classes in another order."""
    rng = np.random.default_rng(seed)
    owners = np.arange(m) % groups
    classes = rng.integers(0, C, (m, n))
    centres = np.column_stack([np.eye(C), np.zeros((C, P - C))])
    points = 0.6 * centres[classes] + rng.uniform(-0.2, 0.2, (m, n, P))
    labels = (classes + owners[:, None]) % C
    return ClientData(points.reshape(m * n, P), np.arange(m + 1) * n, labels.ravel()), owners


DATA, GROUPS = clients()


def federation(
    data: ClientData = DATA, trust: str = "trusted", *, adjacency: str = "replace-one",
    budget: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """A simulation with a ledger for one client; seed 1 unless in secure mode."""
    ledger = PrivacyLedger(unit="client", adjacency=adjacency, budget=budget)
    if options.get("mode") != "secure":
        options = {"seed": 1} | options
    return simulate(data, trust, ledger=ledger, **options)  # type: ignore[arg-type]


def planned(planner: Callable[..., Any], f: Any, model: Any, **arguments: Any) -> Any:
    """A plan; the arguments of `Training` are picked out."""
    own = {name: arguments.pop(name) for name in OF_TRAINING & arguments.keys()}
    return planner(f, rr.Training(model, **own), **arguments)


def plan_and_run(planner: Callable[..., Any]) -> Callable[..., Any]:
    """One call for both."""
    return lambda f, model, **arguments: rr.run(f, planned(planner, f, model, **arguments))


rr_cluster, sums_only = plan_and_run(rr.plan), plan_and_run(rr.plan_sums_only)
dp_fedavg, dp_fedper = plan_and_run(rr.plan_dp_fedavg), plan_and_run(rr.plan_dp_fedper)


class Table:
    """A model whose clients do what their one row says: (loss of each model, update)."""

    def __init__(self, k: int, d: int) -> None:
        self.k, self.n_parameters = k, d
        self.shared = slice(0, d - 1)

    def losses(self, models: Any, batch: Any) -> Any:
        return batch.features[:, 0, : self.k]

    def train(self, starts: Any, batch: Any, **_: Any) -> Any:
        return starts + batch.features[:, 0, self.k :]


def table_rows(blocks: Any, updates: Any, k: int) -> Any:
    """Rows of `Table` clients, in [-1, 1] but for the updates; a last column as the target."""
    losses = 1.0 - np.eye(k)[list(blocks)]
    return np.column_stack([losses, np.atleast_2d(updates), np.zeros(len(losses))])
