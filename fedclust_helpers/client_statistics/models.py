"""Statistics of federated model training: clipped updates, alone or in one block per model.

A client trains one of k public models on its own rows and reports by how much the parameters moved,
cut to length C. Which model it trains depends on its own data, on public models and on what it kept
itself, never on another client: that is what the sensitivities below rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, IntArray, as_points, check_positive
from fedclust_helpers.client_statistics.base import (
    ClientMemory,
    ClientStatistic,
    Values,
    twice_if_replaced,
)


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


@checked
def batch_of(points: FloatArray, offsets: IntArray, labels: IntArray | None = None) -> Batch:
    """Rows of clients as arrays (m, n, ...): a view for clients of equal size, else padded."""
    points = as_points(points)
    offsets = np.asarray(offsets)
    if (
        offsets.dtype.kind not in "iu"
        or offsets.ndim != 1
        or len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != len(points)
        or (np.diff(offsets) < 1).any()
    ):
        raise ValueError("offsets must run from 0 to the number of rows, a row or more each")
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be {len(points)} integers, one for each row")
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


def _groups(offsets: IntArray) -> list[Any]:
    """Clients with equally many rows together: a slice of all, or lists of client numbers.

    So nobody is padded to the size of another client, which would change how sums are rounded.
    """
    sizes = np.diff(offsets)
    if (sizes == sizes[0]).all():
        return [slice(None)]
    order = np.argsort(sizes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1)


def _batches(
    model: Model,
    points: FloatArray,
    offsets: IntArray,
    labels: IntArray | None,
    memory: ClientMemory | None,
) -> Iterator[tuple[Any, Batch]]:
    """The batches of `_groups`; examples with a label beyond the model's classes have weight 0."""
    groups = _groups(offsets)
    n_classes = getattr(model, "n_classes", None)
    if n_classes is not None and labels is None:
        raise ValueError(
            f"labels must be given for a model of {n_classes} classes: the clients have none"
        )
    for group in groups:
        if isinstance(group, slice):
            batch = batch_of(points, offsets, labels)
        else:
            n = int(offsets[group[0] + 1] - offsets[group[0]])
            rows = (offsets[group][:, None] + np.arange(n)).ravel()
            own = None if labels is None else labels[rows]
            batch = batch_of(points[rows], n * np.arange(len(group) + 1), own)
        if batch.labels is not None and n_classes is not None:
            known = batch.labels < n_classes
            if not known.all():
                kept = np.where(known, batch.labels, 0)
                batch = batch._replace(labels=kept, weights=batch.weights * known)
        yield group, _with_gram(model, batch, memory, keep=len(groups) == 1)


def _with_gram(model: Model, batch: Batch, memory: ClientMemory | None, *, keep: bool) -> Batch:
    """The batch with Gram matrices, where a client's own size says that they save work.

    With `keep` a client makes its own only once: the same bits as if it made it anew.
    """
    m, n, p = batch.features.shape
    if memory is None or not getattr(model, "uses_gram", False) or n >= 2 * p:
        return batch
    kept = memory.get("gram") if keep else None
    if kept is None or kept.shape[1:] != (n, n):
        kept = np.zeros((m, n, n))
    new = kept[:, 0, 0] == 0  # the diagonal of a Gram matrix is at least 1
    if new.any():
        rows = batch.features if new.all() else batch.features[new]
        made = rows @ rows.transpose(0, 2, 1) + 1.0
        if keep:
            memory.put("gram", made, where=new)
        kept[new] = made
    return batch._replace(gram=kept)


def _choice(
    model: Any, models: FloatArray, batch: Batch, offset: FloatArray | None = None
) -> IntArray:
    """The model (m,) of least loss; the lowest number of equals, and a loss that is nan is inf.

    Losses that come as close as the model's `loss_slack` (relative) are computed again, for each
    client alone and in a fixed order where the model has one: a choice moves a whole update, so it
    may not hang on the last bit of a product.
    """
    m, k = len(batch.features), len(models)
    if k == 1:
        return np.zeros(m, dtype=np.int64)
    added: Any = {} if offset is None else {"offset": offset}
    losses = np.nan_to_num(model.losses(models, batch, **added), nan=np.inf, posinf=np.inf)
    slack = getattr(model, "loss_slack", 0.0)
    if slack > 0:
        best, second = np.partition(losses, 1, axis=1)[:, :2].T
        with np.errstate(invalid="ignore"):  # inf - inf: everything is infinite, the first it is
            close = second - best <= slack * (1 + np.abs(best))
        again = getattr(model, "losses_in_order", model.losses)
        for i in np.flatnonzero(close & np.isfinite(best)):
            parts: Any = (None if a is None else a[i : i + 1] for a in batch)
            alone = Batch(*parts)
            own = {name: a[i : i + 1] for name, a in added.items()}
            losses[i] = np.nan_to_num(again(models, alone, **own), nan=np.inf, posinf=np.inf)[0]
    return losses.argmin(axis=1)


def _cut(updates: FloatArray, clip: float) -> FloatArray:
    """Rows (m, d) cut to length `clip`, in place; zero where a row or its square is not finite.

    A hair inside, so that rounding stays inside: a sum of d squares is exact up to d/2 last places.
    """
    squares = np.einsum("ij,ij->i", updates, updates)
    lost = ~np.isfinite(squares)
    if lost.any():
        updates[lost] = 0.0
        squares[lost] = 0.0
    inside = clip * (1 - max(1e-12, (updates.shape[1] + 8) * 2.0**-53))
    norms = np.sqrt(squares)
    long = norms > inside
    scale = np.ones(len(updates))
    scale[long] = inside / norms[long]
    updates *= scale[:, None]
    return updates


def _check_models(model: Model, models: FloatArray, clip: float) -> tuple[FloatArray, float]:
    models = np.asarray(models, dtype=np.float64)
    if models.ndim != 2 or models.shape[1] != model.n_parameters or len(models) == 0:
        raise ValueError(f"models must have shape (k, {model.n_parameters}), got {models.shape}")
    return models, check_positive(clip, "clip")


Answer = tuple[IntArray, FloatArray]  # choices (m,) and clipped updates (m, d) of some clients


def _least_loss(
    model: Model, models: FloatArray, batch: Batch, clip: float, how: Mapping[str, Any]
) -> Answer:
    """IFCA (Algorithm 2): the model of least loss is trained."""
    choice = _choice(model, models, batch)
    starts = models[choice]
    updates = model.train(starts, batch, **how)
    updates -= starts
    return choice, _cut(updates, clip)


def _nearest(
    model: Model, models: FloatArray, batch: Batch, clip: float, how: Mapping[str, Any],
    last: IntArray,
) -> Answer:  # fmt: skip
    """FeSEM: the model chosen last time is trained, the nearest to the trained weights chosen.

    The update is relative to that one, so that a mean of updates leads to the mean of the members'
    weights.
    """
    trained = model.train(models[last], batch, **how)
    distances = np.empty((len(trained), len(models)))
    for j, centre in enumerate(models):
        distances[:, j] = ((trained - centre) ** 2).sum(axis=1)
    choice = np.nan_to_num(distances, nan=np.inf, posinf=np.inf).argmin(axis=1)
    return choice, _cut(trained - models[choice], clip)


def _additive(
    model: Any, models: FloatArray, batch: Batch, clip: float, how: Mapping[str, Any],
    common: FloatArray,
) -> Answer:  # fmt: skip
    """FedCAM: outputs are those of a common model plus those of one of k models.

    The one of least loss of the sum is trained with the common one frozen, then the common one with
    that frozen. The update (m, 2d) is both, cut jointly.
    """
    everyone = np.broadcast_to(common, (len(batch.features), len(common)))
    offset = model.outputs(everyone, batch)
    choice = _choice(model, models, batch, offset)
    starts = models[choice]
    trained = model.train(starts, batch, offset=offset, **how)
    offset = model.outputs(trained, batch)
    moved = model.train(everyone, batch, offset=offset, **how) - everyone
    return choice, _cut(np.concatenate([moved, trained - starts], axis=1), clip)


def _answers(
    answer: Callable[..., Answer],
    width: int,
    model: Model,
    models: FloatArray,
    points: FloatArray,
    offsets: IntArray,
    labels: IntArray | None,
    memory: ClientMemory | None,
    *,
    clip: float,
    how: Mapping[str, Any],
    last: IntArray | None = None,
    **extra: Any,
) -> Answer:
    """What all clients answer, groups of equal size at a time; `last` (m,) goes to its client."""
    m = len(offsets) - 1
    choices, updates = np.empty(m, dtype=np.int64), np.empty((m, width))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # told to nobody
        for group, batch in _batches(model, points, offsets, labels, memory):
            own = {} if last is None else {"last": last[group]}
            choices[group], updates[group] = answer(model, models, batch, clip, how, **own, **extra)
    return choices, updates


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
    choice, updates = _answers(
        _least_loss, model.n_parameters, model, models, points, offsets, labels, memory, clip=clip,
        how={"n_steps": n_steps, "learning_rate": learning_rate, "proximal": proximal},
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


@checked
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
    labels: IntArray | None = None,
    memory: ClientMemory | None = None,
) -> Values:
    models, clip = _check_models(model, models, clip)
    choice, updates = _answers(
        _least_loss, model.n_parameters, model, models, points, offsets, labels, memory, clip=clip,
        how={"n_steps": n_steps, "learning_rate": learning_rate},
    )  # fmt: skip
    return np.eye(len(models))[choice], updates


def _nearest_updates(
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
    last = None if memory is None else memory.get("fesem")
    choice, updates = _answers(
        _nearest, model.n_parameters, model, models, points, offsets, labels, memory, clip=clip,
        how={"n_steps": n_steps, "learning_rate": learning_rate},
        last=np.zeros(len(offsets) - 1, dtype=np.int64) if last is None else last,
    )  # fmt: skip
    if memory is not None:
        memory.put("fesem", choice)
    return np.eye(len(models))[choice], updates


def _additive_updates(
    points: FloatArray,
    offsets: IntArray,
    *,
    model: Model,
    models: FloatArray,
    common: FloatArray,
    clip: float,
    n_steps: int,
    learning_rate: float,
    labels: IntArray | None = None,
    memory: ClientMemory | None = None,
) -> Values:
    models, clip = _check_models(model, models, clip)
    if not isinstance(model, AdditiveModel):
        raise TypeError(f"model must have outputs() for FedCAM, got {type(model).__name__}")
    if np.shape(common) != (model.n_parameters,):
        raise ValueError(f"common must have shape ({model.n_parameters},), got {np.shape(common)}")
    choice, updates = _answers(
        _additive, 2 * model.n_parameters, model, models, points, offsets, labels, memory,
        clip=clip, how={"n_steps": n_steps, "learning_rate": learning_rate}, common=common,
    )  # fmt: skip
    return np.eye(len(models))[choice], updates


def _update_statistic(
    name: str, compute: Callable[..., Values], *, n_vectors: int = 1, remembers: bool = False
) -> ClientStatistic:
    """Identifier and update of each client, `n_vectors` vectors of parameters long.

    Identifiers are whole numbers, but not said to be (`integral`): discrete noise on the grid 1
    would leave ties between them, which a fine grid does not.
    """

    def sensitivity(
        adjacency: str, *, clip: float, model: Model, **_: Any
    ) -> Mapping[str, tuple[float, float]]:
        clip = check_positive(clip, "clip")
        two = 1.0 if adjacency == "add/remove" else 2.0
        l1 = float(np.sqrt(n_vectors * model.n_parameters)) * clip
        return {
            "identifiers": (two, float(np.sqrt(two))),
            "updates": twice_if_replaced(adjacency, l1, clip),
        }

    return ClientStatistic(
        name=name,
        parts=("identifiers", "updates"),
        compute=compute,
        sensitivity=sensitivity,
        magnitude=lambda *, clip, **_: {"identifiers": 1.0, "updates": float(clip)},
        n_touched=lambda *, model, **_: n_vectors * model.n_parameters,
        unit="client",
        reads=("labels", "memory"),
        remembers=remembers,
    )


CLIENT_UPDATES = _update_statistic("client_updates", _client_updates)
"""One-hot identifier (k,) and clipped update (d,) of each client (Algorithms 1 and 2, IFCA).

Broadcast: `models` (k, d), `model`, `clip`, `n_steps`, `learning_rate`. Under replace-one two
identifiers differ by sqrt(2) in L2, not by 1. The sensitivity of the updates, 2C, is that of any
sums over a partition which the replaced client does not change: noised identifiers that were
released give such a partition.
"""

NEAREST_UPDATES = _update_statistic("nearest_updates", _nearest_updates, remembers=True)
"""The same for FeSEM: a client goes on from the model that it chose when it last took part."""

ADDITIVE_UPDATES = _update_statistic("additive_updates", _additive_updates, n_vectors=2)
"""The same for FedCAM: the update (2d,) is that of the `common` model (broadcast, (d,)) and that
of the chosen one, cut jointly."""


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
    shared = np.zeros(model.n_parameters, dtype=bool)
    shared[model.shared] = True
    heads = np.broadcast_to(models[0, ~shared], (len(offsets) - 1, int((~shared).sum()))).copy()
    kept = None if memory is None else memory.get("head")
    if kept is not None:
        heads += kept
    updates = np.empty((len(heads), int(shared.sum())))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for group, batch in _batches(model, points, offsets, labels, memory):
            starts = np.repeat(models[:1], len(batch.features), axis=0)
            starts[:, ~shared] = heads[group]
            trained = model.train(starts, batch, n_steps=n_steps, learning_rate=learning_rate)
            updates[group] = trained[:, shared] - starts[:, shared]
            usable = np.isfinite(trained).all(axis=1, keepdims=True)  # else the head stays
            heads[group] = np.where(usable, trained[:, ~shared], starts[:, ~shared])
    if memory is not None:  # relative to the initial head: 0 for a client that was never drawn
        memory.put("head", heads - models[0, ~shared])
    return (_cut(updates, clip),)


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
    remembers=True,
)
"""Clipped update of the shared parameters; the head is trained too and stays with the client.

Broadcast: `models` (1, d) with the shared parameters of the round and the initial head.
"""
