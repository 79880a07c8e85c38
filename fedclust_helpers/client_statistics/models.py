"""Statistics of federated model training: clipped updates, alone or in one block per model.

A client trains one of k public models on its own rows and reports by how much the parameters moved,
cut to length C. Which model it trains depends on its own data, on public models and on what it kept
itself, never on another client: that is what the sensitivities below rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_positive
from fedclust_helpers.client_statistics.base import (
    ClientMemory,
    ClientStatistic,
    Values,
    twice_if_replaced,
)

CLUSTERERS = ("ifca", "fesem", "fedcam")


class Batch(NamedTuple):
    """The examples of m clients: (m, n, ...) arrays, clients with fewer rows padded by weight 0.

    `labels` (m, n) are class numbers; without labels the last column of the rows is the `targets`
    (m, n) of a regression. `gram` (m, n, n), optional, is X X^T + 1 of each client: gradient steps
    on a first linear layer act on its outputs through this matrix alone.
    """

    features: FloatArray
    labels: IntArray | None
    targets: FloatArray | None
    weights: FloatArray
    gram: FloatArray | None = None


class Model(Protocol):
    """Models as flat float arrays (k, d), trained for many clients at once."""

    @property
    def n_parameters(self) -> int:
        """Number of parameters d."""

    @property
    def shared(self) -> slice:
        """The parameters that are sent in DP-FedPer; the rest, the head, stays with the client."""

    def initial(self, n_models: int, *, rng: np.random.Generator) -> FloatArray:
        """Random starting models (k, d)."""

    def losses(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Mean loss (m, k) of every client's examples under each model (k, d)."""

    def train(
        self,
        starts: FloatArray,
        batch: Batch,
        *,
        n_steps: int,
        learning_rate: float,
        proximal: float = 0.0,
        free: slice | None = None,
    ) -> FloatArray:
        """Full-batch gradient steps from `starts` (m, d), one row for each client."""

    def accuracy(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Share of correct labels (m,), each client under its own model of (m, d)."""


@runtime_checkable
class AdditiveModel(Protocol):
    """A model whose outputs can be added to those of another one, as FedCAM does."""

    def outputs(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Outputs (m, n, c) before the loss, each client under its own model of (m, d)."""

    def losses(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """As `Model.losses`, with `offset` (m, n, c) added to the outputs."""

    def train(
        self,
        starts: FloatArray,
        batch: Batch,
        *,
        n_steps: int,
        learning_rate: float,
        proximal: float = 0.0,
        free: slice | None = None,
        offset: FloatArray | None = None,
    ) -> FloatArray:
        """As `Model.train`, with `offset` added to the outputs."""

    def accuracy(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """As `Model.accuracy`, with `offset` added to the outputs."""


# --- the client's side ----------------------------------------------------------------------------


def batch_of(points: FloatArray, offsets: IntArray, labels: IntArray | None = None) -> Batch:
    """Rows of clients as arrays (m, n, ...): a view for clients of equal size, else padded."""
    m, sizes = len(offsets) - 1, np.diff(offsets)
    n = int(sizes.max())
    values: Any = labels if labels is not None else points[:, -1]
    rows = points if labels is not None else points[:, :-1]
    if (sizes == n).all():
        features = rows.reshape(m, n, -1)
        answers: Any = values.reshape(m, n)
        weights = np.ones((m, n))
    else:
        filled = np.arange(n) < sizes[:, None]
        features = np.zeros((m, n, rows.shape[1]))
        answers = np.zeros((m, n), dtype=values.dtype)
        features[filled], answers[filled] = rows, values
        weights = filled.astype(np.float64)
    if labels is not None:
        return Batch(features, answers, None, weights)
    return Batch(features, None, answers, weights)


def _client_batch(
    model: Model,
    points: FloatArray,
    offsets: IntArray,
    labels: IntArray | None,
    memory: ClientMemory | None,
) -> Batch:
    """The batch, with the Gram matrices where they save work; a client makes its own only once."""
    batch = batch_of(points, offsets, labels)
    n, p = batch.features.shape[1:]
    if memory is None or not getattr(model, "uses_gram", False) or n >= 2 * p:
        return batch
    kept = memory.get("gram")
    if kept is None or kept.shape[1:] != (n, n):
        kept = np.zeros((len(batch.features), n, n))
    new = kept[:, 0, 0] == 0  # the diagonal of a Gram matrix is at least 1
    if new.any():
        rows = batch.features if new.all() else batch.features[new]
        made = rows @ rows.transpose(0, 2, 1) + 1.0
        memory.put("gram", made, where=new)
        kept[new] = made
    return batch._replace(gram=kept)


def _cut(updates: FloatArray, clip: float) -> FloatArray:
    """Rows (m, d) cut to length `clip`, in place; a hair inside, so that rounding stays inside."""
    norms = np.sqrt(np.einsum("ij,ij->i", updates, updates))
    long = norms > clip * (1 - 1e-12)
    scale = np.ones(len(updates))
    scale[long] = clip * (1 - 1e-12) / norms[long]
    updates *= scale[:, None]
    return updates


def _check_models(model: Model, models: FloatArray, clip: float) -> tuple[FloatArray, float]:
    models = np.asarray(models, dtype=np.float64)
    if models.ndim != 2 or models.shape[1] != model.n_parameters or len(models) == 0:
        raise ValueError(f"models must have shape (k, {model.n_parameters}), got {models.shape}")
    return models, check_positive(clip, "clip")


def _respond(
    model: Any,
    models: FloatArray,
    batch: Batch,
    *,
    clip: float,
    clusterer: str,
    n_steps: int,
    learning_rate: float,
    proximal: float,
    common: FloatArray | None,
    memory: ClientMemory | None,
) -> tuple[IntArray, FloatArray]:
    """What each client does in a round: its choice (m,) of a model and its clipped update (m, d).

    * "ifca" (Algorithm 2): the model of least loss is trained.
    * "fesem": the model chosen last time is trained, then the model nearest to the trained weights
      is chosen; the update is relative to that one, so that a mean of updates leads to the mean of
      the members' weights.
    * "fedcam": outputs are those of a common model plus those of one of k models. The one of least
      loss of the sum is trained with the common one frozen, then the common one with that frozen.
      The update (m, 2d) is both, cut jointly.
    """
    how: dict[str, Any] = {
        "n_steps": n_steps, "learning_rate": learning_rate, "proximal": proximal,
    }  # fmt: skip
    if clusterer == "fesem":
        last = None if memory is None else memory.get("fesem")
        start = np.zeros(len(batch.features), dtype=np.int64) if last is None else last
        trained = model.train(models[start], batch, **how)
        distances = ((trained[:, None] - models[None]) ** 2).sum(axis=2)
        choice = distances.argmin(axis=1)
        if memory is not None:
            memory.put("fesem", choice)
        return choice, _cut(trained - models[choice], clip)
    if clusterer == "fedcam":
        if common is None or not isinstance(model, AdditiveModel):
            raise ValueError("clusterer 'fedcam' needs a common model and a model with outputs()")
        everyone = np.broadcast_to(common, (len(batch.features), len(common)))
        offset = model.outputs(everyone, batch)
        choice = model.losses(models, batch, offset=offset).argmin(axis=1)
        starts = models[choice]
        trained = model.train(starts, batch, offset=offset, **how)
        offset = model.outputs(trained, batch)
        moved = model.train(everyone, batch, offset=offset, **how) - everyone
        return choice, _cut(np.concatenate([moved, trained - starts], axis=1), clip)
    if len(models) == 1:
        choice = np.zeros(len(batch.features), dtype=np.int64)
    else:
        choice = model.losses(models, batch).argmin(axis=1)
    starts = models[choice]
    updates = model.train(starts, batch, **how)
    updates -= starts
    return choice, _cut(updates, clip)


# --- one block for each model: nothing else need reach the server ---------------------------------


def _blocks(
    points: FloatArray,
    offsets: IntArray,
    *,
    model: Model,
    models: FloatArray,
    clip: float,
    n_steps: int,
    learning_rate: float,
    count_weight: float = 0.0,
    proximal: float = 0.0,
    labels: IntArray | None = None,
    memory: ClientMemory | None = None,
) -> tuple[IntArray, FloatArray]:
    """Choices (m,) and rows (m, d) or, with counts, (m, d + 1) that go into the chosen blocks."""
    models, clip = _check_models(model, models, clip)
    batch = _client_batch(model, points, offsets, labels, memory)
    choice, updates = _respond(
        model, models, batch, clip=clip, clusterer="ifca", n_steps=n_steps,
        learning_rate=learning_rate, proximal=proximal, common=None, memory=memory,
    )  # fmt: skip
    if count_weight > 0:
        updates = np.column_stack([updates, np.full(len(updates), count_weight)])
    return choice, updates


def _model_blocks(points: FloatArray, offsets: IntArray, **arguments: Any) -> Values:
    choice, rows = _blocks(points, offsets, **arguments)
    blocks = np.zeros((len(rows), len(arguments["models"]), rows.shape[1]))
    blocks[np.arange(len(rows)), choice] = rows
    return (blocks,)


def _pooled_blocks(points: FloatArray, offsets: IntArray, **arguments: Any) -> Values:
    choice, rows = _blocks(points, offsets, **arguments)
    member = choice[None, :] == np.arange(len(arguments["models"]))[:, None]
    return (member.astype(np.float64) @ rows,)


def blocks_sensitivity(adjacency: str, *, clip: float, count_weight: float = 0.0) -> float:
    """L2 sensitivity of all blocks jointly, counts of weight w included (one client).

    Adding or removing a client changes one block, by at most C, and its count by w:
    sqrt(C^2 + w^2). Replacing one either changes one block by at most 2C (counts stay), or two
    blocks by at most C and two counts by w: max(2C, sqrt(2 C^2 + 2 w^2)). For w <= C the counts are
    free under replace-one.
    """
    clip = check_positive(clip, "clip")
    if adjacency == "add/remove":
        return float(np.hypot(clip, count_weight))
    return float(max(2 * clip, np.sqrt(2) * np.hypot(clip, count_weight)))


def _blocks_sensitivity(
    adjacency: str, *, clip: float, model: Model, count_weight: float = 0.0, **_: Any
) -> Mapping[str, tuple[float, float]]:
    l1 = float(np.sqrt(model.n_parameters)) * clip + count_weight
    l2 = blocks_sensitivity(adjacency, clip=clip, count_weight=count_weight)
    return {"blocks": (l1 if adjacency == "add/remove" else 2 * l1, l2)}


MODEL_BLOCKS = ClientStatistic(
    name="model_blocks",
    parts=("blocks",),
    compute=_model_blocks,
    pooled=_pooled_blocks,
    sensitivity=_blocks_sensitivity,
    magnitude=lambda *, clip, count_weight=0.0, **_: {"blocks": float(max(clip, count_weight))},
    n_touched=lambda *, model, count_weight=0.0, **_: model.n_parameters + (count_weight > 0),
    unit="client",
    reads=("labels", "memory"),
)
"""Each client's clipped update in the block of the model it chose: (k, d), or (k, d + 1) with a
last column of `count_weight` times 1, which sums to weighted counts.

One vector, so that updates and counts are one joint event. Broadcast: `models` (k, d), `model`,
`clip`, `n_steps`, `learning_rate`, `count_weight`, `proximal`. Choice by least loss (IFCA). See
`blocks_sensitivity`.
"""


# --- messages of single clients, for a trusted server ---------------------------------------------


def _client_updates(
    points: FloatArray,
    offsets: IntArray,
    *,
    model: Model,
    models: FloatArray,
    clip: float,
    n_steps: int,
    learning_rate: float,
    clusterer: str = "ifca",
    common: FloatArray | None = None,
    labels: IntArray | None = None,
    memory: ClientMemory | None = None,
) -> Values:
    models, clip = _check_models(model, models, clip)
    check_choice(clusterer, "clusterer", CLUSTERERS)
    batch = _client_batch(model, points, offsets, labels, memory)
    choice, updates = _respond(
        model, models, batch, clip=clip, clusterer=clusterer, n_steps=n_steps,
        learning_rate=learning_rate, proximal=0.0, common=common, memory=memory,
    )  # fmt: skip
    return np.eye(len(models))[choice], updates


def _updates_sensitivity(
    adjacency: str, *, clip: float, model: Model, clusterer: str = "ifca", **_: Any
) -> Mapping[str, tuple[float, float]]:
    clip = check_positive(clip, "clip")
    d = model.n_parameters * (2 if clusterer == "fedcam" else 1)
    two = 1.0 if adjacency == "add/remove" else 2.0
    return {
        "identifiers": (two, float(np.sqrt(two))),
        "updates": twice_if_replaced(adjacency, float(np.sqrt(d)) * clip, clip),
    }


CLIENT_UPDATES = ClientStatistic(
    name="client_updates",
    parts=("identifiers", "updates"),
    compute=_client_updates,
    sensitivity=_updates_sensitivity,
    magnitude=lambda *, clip, **_: {"identifiers": 1.0, "updates": float(clip)},
    integral=("identifiers",),
    n_touched=lambda *, model, clusterer="ifca", **_: (
        model.n_parameters * (2 if clusterer == "fedcam" else 1)
    ),
    unit="client",
    reads=("labels", "memory"),
)
"""One-hot identifier (k,) and clipped update (d,) of each client (RR-Cluster, Algorithms 1 and 2).

Broadcast: as `MODEL_BLOCKS`, `clusterer`, and for FedCAM the `common` model. Under replace-one two
identifiers differ by sqrt(2) in L2, not by 1. The sensitivity of the updates, 2C, is that of any
sums over a partition which the replaced client does not change: noised identifiers that were
released give such a partition.
"""


# --- personal heads (DP-FedPer) -------------------------------------------------------------------


def _shared_update(
    points: FloatArray,
    offsets: IntArray,
    *,
    model: Model,
    models: FloatArray,
    clip: float,
    n_steps: int,
    learning_rate: float,
    labels: IntArray | None = None,
    memory: ClientMemory | None = None,
) -> Values:
    models, clip = _check_models(model, models, clip)
    batch = _client_batch(model, points, offsets, labels, memory)
    starts = np.repeat(models, len(batch.features), axis=0)
    shared = np.zeros(model.n_parameters, dtype=bool)
    shared[model.shared] = True
    kept = None if memory is None else memory.get("head")
    if kept is not None:
        starts[:, ~shared] += kept
    trained = model.train(starts, batch, n_steps=n_steps, learning_rate=learning_rate)
    if memory is not None:  # relative to the initial head: 0 for a client that was never drawn
        memory.put("head", trained[:, ~shared] - models[0, ~shared])
    return (_cut(trained[:, shared] - starts[:, shared], clip),)


def _n_shared(model: Model) -> int:
    return len(range(*model.shared.indices(model.n_parameters)))


SHARED_UPDATE = ClientStatistic(
    name="shared_update",
    parts=("update",),
    compute=_shared_update,
    sensitivity=lambda adjacency, *, clip, model, **_: {
        "update": twice_if_replaced(
            adjacency, float(np.sqrt(_n_shared(model))) * clip, check_positive(clip, "clip")
        )
    },
    magnitude=lambda *, clip, **_: {"update": float(clip)},
    n_touched=lambda *, model, **_: _n_shared(model),
    unit="client",
    reads=("labels", "memory"),
)
"""Clipped update of the shared parameters; the head is trained too and stays with the client.

Broadcast: `models` (1, d) with the shared parameters of the round and the initial head.
"""
