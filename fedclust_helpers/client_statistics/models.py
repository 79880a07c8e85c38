"""Statistics of federated model training: clipped updates, alone or in one block per model.

A client trains one of k public models on its own rows and reports by how much the parameters moved,
cut to length C. Which model it trains depends on its own data, on public models and on what it kept
itself, never on another client: that is what the sensitivities below rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedclust_helpers._index import repeat
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
)
from fedclust_helpers.client_statistics.base import Change, ClientMemory, Values, known, vector
from fedclust_helpers.client_statistics.broadcasts import (
    NOT_NEGATIVE,
    POSITIVE,
    REAL,
    STEPS,
    Takes,
)
from fedclust_helpers.client_statistics.clipping import clip_clients

AT_ONCE = 2**18  # numbers of the examples of one batch


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

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Random starting models (k, d)."""

    def losses(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Mean loss (m, k) of every client's examples under each model (k, d)."""

    def train(
        self, starts: FloatArray, batch: Batch, *, n_steps: int, learning_rate: float,
        proximal: float = 0.0,
    ) -> FloatArray:  # fmt: skip
        """Full-batch gradient steps from `starts` (m, d), one row for each client."""

    def accuracy(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Share of correct labels (m,), each client under its own model of (m, d)."""


@runtime_checkable
class AdditiveModel(Protocol):
    """A model whose outputs can be added to those of another one, as FedCAM does.

    Its methods of `Model` take ``offset=`` (m, n, c) as well, which is added to the outputs.
    """

    losses: Callable[..., FloatArray]
    train: Callable[..., FloatArray]
    accuracy: Callable[..., FloatArray]

    def outputs(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Outputs (m, n, c) before the loss, each client under its own model of (m, d)."""


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


def _groups(offsets: IntArray, width: int) -> list[Any]:
    """Clients with equally many rows together: slices of all, or lists of client numbers.

    So nobody is padded to the size of another client, which would change how sums are rounded.
    `AT_ONCE` numbers of examples at most, or one client: what is computed from them stays in cache.
    """
    sizes = np.diff(offsets)
    if (sizes == sizes[0]).all():
        step = max(1, AT_ONCE // int(sizes[0] * width))
        return [slice(start, start + step) for start in range(0, len(sizes), step)]
    order = np.argsort(sizes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1)


def batches(
    model: Model, points: FloatArray, offsets: IntArray, labels: IntArray | None,
    memory: ClientMemory | None,
) -> Iterator[tuple[Any, Batch]]:  # fmt: skip
    """The batches of `_groups`; examples with a label beyond the model's classes have weight 0."""
    n_classes = getattr(model, "n_classes", None)
    if n_classes is not None and labels is None:
        raise ValueError(
            f"labels must be given for a model of {n_classes} classes: the clients have none"
        )
    for group in _groups(offsets, points.shape[1]):
        own_memory = None
        if isinstance(group, slice):
            edges = offsets[group.start : group.stop + 1]
            part = slice(edges[0], edges[-1])
            own = None if labels is None else labels[part]
            batch = batch_of(points[part], edges - edges[0], own)
            own_memory = None if memory is None else memory._part(group)
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
        yield group, batch if memory is None else _with_gram(model, batch, own_memory)


def _with_gram(model: Model, batch: Batch, memory: ClientMemory | None) -> Batch:
    """The batch with Gram matrices, where a client's own size says that they save work.

    With a `memory` a client makes its own only once: the same bits as if it made it anew.
    """
    m, n, p = batch.features.shape
    if not getattr(model, "uses_gram", False) or n >= 2 * p:
        return batch
    kept = None if memory is None else memory.get("gram")
    if kept is None or kept.shape[1:] != (n, n):
        kept = np.zeros((m, n, n))
    new = kept[:, 0, 0] == 0  # the diagonal of a Gram matrix is at least 1
    if new.any():
        rows = batch.features if new.all() else batch.features[new]
        made = rows @ rows.transpose(0, 2, 1) + 1.0
        if memory is not None:
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


# --- how a client answers -------------------------------------------------------------------------

Answer = tuple[Any, FloatArray]
"""What each client chooses or keeps (m, ...), and its update (m, w), not yet cut."""


def _least_loss(model: Any, models: FloatArray, batch: Batch, last: None, **how: Any) -> Answer:
    """IFCA (RR-Cluster, Algorithm 2, lines 7 and 8): the model of least loss is trained."""
    choice = _choice(model, models, batch)  # line 7
    starts = models[choice]
    updates = model.train(starts, batch, **how)  # line 8
    updates -= starts
    return choice, updates


def _nearest(
    model: Any, models: FloatArray, batch: Batch, last: IntArray | None, **how: Any
) -> Answer:
    """FeSEM: the model chosen last time is trained, the nearest to the trained weights chosen.

    The update is relative to that one, so that a mean of updates leads to the mean of the members'
    weights.
    """
    last = np.zeros(len(batch.features), dtype=np.int64) if last is None else last
    trained = model.train(models[last], batch, **how)
    distances = np.empty((len(trained), len(models)))
    for j, centre in enumerate(models):
        distances[:, j] = ((trained - centre) ** 2).sum(axis=1)
    choice = np.nan_to_num(distances, nan=np.inf, posinf=np.inf).argmin(axis=1)
    return choice, trained - models[choice]


def _additive(
    model: Any, models: FloatArray, batch: Batch, last: None, *, common: FloatArray, **how: Any
) -> Answer:
    """FedCAM: outputs are those of a common model plus those of one of k models.

    The one of least loss of the sum is trained with the common one frozen, then the common one with
    that frozen. The update (m, 2d) is both.
    """
    everyone = np.broadcast_to(common, (len(batch.features), len(common)))
    offset = model.outputs(everyone, batch)
    choice = _choice(model, models, batch, offset)
    starts = models[choice]
    trained = model.train(starts, batch, offset=offset, **how)
    offset = model.outputs(trained, batch)
    moved = model.train(everyone, batch, offset=offset, **how) - everyone
    return choice, np.concatenate([moved, trained - starts], axis=1)


def _personal(
    model: Any, models: FloatArray, batch: Batch, last: FloatArray | None, **how: Any
) -> Answer:
    """DP-FedPer: the head is trained too, and kept, relative to the initial one (0 at first)."""
    shared = np.zeros(model.n_parameters, dtype=bool)
    shared[model.shared] = True
    initial = models[0, ~shared]
    starts = repeat(models[:1], len(batch.features), axis=0)
    if last is not None:
        starts[:, ~shared] += last
    trained = model.train(starts, batch, **how)
    usable = np.isfinite(trained).all(axis=1, keepdims=True)  # else the head stays
    heads = np.where(usable, trained[:, ~shared], starts[:, ~shared])
    return heads - initial, trained[:, shared] - starts[:, shared]


def _answers(
    answer: Callable[..., Answer], points: FloatArray, offsets: IntArray, *, model: Model,
    models: FloatArray, clip: float, labels: IntArray | None = None,
    memory: ClientMemory | None = None, remember: str = "", **how: Any,
) -> Answer:  # fmt: skip
    """What all clients answer, groups of equal size at a time; every update is cut to `clip`.

    `how` goes to the training. What a client answered is kept in its memory under `remember`.
    """
    if models.ndim != 2 or models.shape[1] != model.n_parameters or len(models) == 0:
        raise ValueError(f"models must have shape (k, {model.n_parameters}), got {models.shape}")
    kept: Any = None
    updates: Any = None
    last = memory.get(remember) if memory is not None and remember else None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # told to nobody
        for group, batch in batches(model, points, offsets, labels, memory):
            before = None if last is None else last[group]
            own, moved = answer(model, models, batch, before, **how)
            if kept is None:
                m = len(offsets) - 1
                kept, updates = (np.empty((m, *a.shape[1:]), dtype=a.dtype) for a in (own, moved))
            kept[group], updates[group] = own, moved
        # RR-Cluster, Algorithm 1, line 11
        updates = clip_clients(updates, clip)
    if memory is not None and remember:
        memory.put(remember, kept)
    return kept, updates


# --- one block for each model: nothing else need reach the server ---------------------------------

_CLIENT: dict[str, Any] = {"unit": "client", "reads": ("labels", "memory")}
_TRAINING: Takes = {
    "models": "k p", "clip": POSITIVE, "n_steps": STEPS, "learning_rate": REAL,
    "proximal": NOT_NEGATIVE,
}  # fmt: skip


def _blocks(
    points: FloatArray, offsets: IntArray, *, count_weight: float = 0.0,
    answer: Callable[..., Answer] = _least_loss, **given: Any,
) -> Answer:  # fmt: skip
    """Choices (m,) and rows (m, d) or, with counts, (m, d + 1) that go into the chosen blocks."""
    choice, updates = _answers(answer, points, offsets, **given)
    if count_weight > 0:
        updates = np.column_stack([updates, np.full(len(updates), count_weight)])
    return choice, updates


def blocks_sensitivity(adjacency: str, *, clip: float, count_weight: float = 0.0) -> float:
    """L2 sensitivity of all blocks jointly, counts of weight w included (one client).

    Adding or removing a client changes one block, by at most C, and its count by w:
    sqrt(C^2 + w^2). Replacing one either changes one block by at most 2C (counts stay), or two
    blocks by at most C and two counts by w: max(2C, sqrt(2 C^2 + 2 w^2)). For w <= C the counts are
    free under replace-one.
    """
    if adjacency == "add/remove":
        return float(np.hypot(clip, count_weight))
    return float(max(2 * clip, np.sqrt(2) * np.hypot(clip, count_weight)))


def _block_changes(
    *, clip: float, model: Model, count_weight: float = 0.0, **_: Any
) -> dict[str, Change]:
    added, replaced = (
        blocks_sensitivity(adjacency, clip=clip, count_weight=count_weight)
        for adjacency in ("add/remove", "replace-one")
    )
    l1 = float(np.sqrt(model.n_parameters)) * clip + count_weight
    touched = model.n_parameters + (count_weight > 0)
    return {"blocks": Change(l1, added, max(clip, count_weight), touched, replaced)}


def _pooled_blocks(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    choice, rows = _blocks(points, offsets, **given)
    member = choice[None, :] == np.arange(len(given["models"]))[:, None]
    return (member.astype(np.float64) @ rows,)


@known(
    "blocks", changes=_block_changes, pooled=_pooled_blocks, **_CLIENT,
    takes={**_TRAINING, "count_weight": NOT_NEGATIVE},
)  # fmt: skip
def MODEL_BLOCKS(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """Each client's clipped update in the block of the model it chose: (k, d), or (k, d + 1) with a
    last column of `count_weight` times 1, which sums to weighted counts.

    One vector, so that updates and counts are one joint event. Broadcast: `models` (k, d), `model`,
    `clip`, `count_weight`, and for the training `n_steps`, `learning_rate`, `proximal`. Choice by
    least loss (IFCA). See `blocks_sensitivity`.
    """
    return _in_blocks(points, offsets, **given)


@known(
    "blocks", changes=_block_changes, remembers=True, **_CLIENT,
    takes={**_TRAINING, "count_weight": NOT_NEGATIVE},
)  # fmt: skip
def NEAREST_BLOCKS(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """The same for FeSEM: a client goes on from the model that it chose when it last took part.

    Whatever it remembers, it fills one block, by at most C: the sensitivity is the same.
    """
    return _in_blocks(points, offsets, answer=_nearest, remember="fesem", **given)


def _in_blocks(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    choice, rows = _blocks(points, offsets, **given)
    blocks = np.zeros((len(rows), len(given["models"]), rows.shape[1]))
    blocks[np.arange(len(rows)), choice] = rows
    return (blocks,)


# --- messages of single clients, for a trusted server ---------------------------------------------


def _updates_of(n_vectors: int) -> Callable[..., dict[str, Change]]:
    """What changes: a one-hot identifier, and an update of `n_vectors` vectors of parameters.

    Identifiers are whole numbers, but not said to be: discrete noise on the grid 1 would leave ties
    between them, which a fine grid does not.
    """

    def changes(*, clip: float, model: Model, **_: Any) -> dict[str, Change]:
        n = n_vectors * model.n_parameters
        identifier = Change(1.0, 1.0, 1.0, n, replaced=float(np.sqrt(2)))
        return {"identifiers": identifier, "updates": vector(clip, n)}

    return changes


def _one_hot(answers: Answer, models: FloatArray) -> Values:
    return np.eye(len(models))[answers[0]], answers[1]


@known("identifiers", "updates", changes=_updates_of(1), takes=_TRAINING, **_CLIENT)
def CLIENT_UPDATES(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """One-hot identifier (k,) and clipped update (d,) of each client (Algorithms 1 and 2, IFCA).

    Broadcast: `models` (k, d), `model`, `clip`, `n_steps`, `learning_rate`. Under replace-one two
    identifiers differ by sqrt(2) in L2, not by 1. The sensitivity of the updates, 2C, is that of
    any sums over a partition which the replaced client does not change: noised identifiers that
    were released give such a partition.
    """
    return _one_hot(_answers(_least_loss, points, offsets, **given), given["models"])


@known(
    "identifiers", "updates", remembers=True, **_CLIENT, changes=_updates_of(1), takes=_TRAINING,
)  # fmt: skip
def NEAREST_UPDATES(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """The same for FeSEM: a client goes on from the model that it chose when it last took part."""
    return _one_hot(_answers(_nearest, points, offsets, remember="fesem", **given), given["models"])


@known(
    "identifiers", "updates", **_CLIENT, changes=_updates_of(2),
    takes={**_TRAINING, "common": "p"},
)  # fmt: skip
def ADDITIVE_UPDATES(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """The same for FedCAM: the update (2d,) is that of the `common` model (broadcast, (d,)) and
    that of the chosen one, cut jointly."""
    return _one_hot(_answers(_additive, points, offsets, **given), given["models"])


@known(
    "update", remembers=True, **_CLIENT, takes=_TRAINING,
    changes=lambda *, clip, model, **_: {
        "update": vector(clip, len(range(*model.shared.indices(model.n_parameters))))
    },
)  # fmt: skip
def SHARED_UPDATE(points: FloatArray, offsets: IntArray, **given: Any) -> Values:
    """Clipped update of the shared parameters; the head is trained too and stays (DP-FedPer).

    Broadcast: `models` (1, d) with the shared parameters of the round and the initial head, and as
    for `CLIENT_UPDATES`.
    """
    return (_answers(_personal, points, offsets, remember="head", **given)[1],)
