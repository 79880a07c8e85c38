"""Models in NumPy, trained for all clients of a round at once.

A model is a flat array of d parameters. The first linear layer comes first, as the (p + 1, h)
matrix of its weights and, as last row, its biases. Full-batch gradient steps move the outputs of
that layer by -lr (X X^T + 1) E, with E the error signal at the outputs: with this Gram matrix at
hand, the local steps touch the p features once, not twice a step. Equal to the direct computation
up to rounding.

What comes out for a client depends on its own rows and on the models alone, bit for bit, whoever
else is in the batch: every matrix product is one of a single client, of a shape that the others do
not change, and every sum runs in an order of its own. (A product of all rows at once does not have
this property: BLAS rounds a row differently with the number of rows beside it.) BLAS may still
round differently with another number of threads, so choices are decided in a fixed order where two
losses are close (`losses_in_order`); updates then differ in their last bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from fedclust_helpers._index import repeat
from fedclust_helpers._validation import (
    FloatArray,
    check_int,
)
from fedclust_helpers.client_statistics.models import Batch

CHUNK = 2**22  # numbers in the largest temporary array of a loss evaluation


class Dense(ABC):
    """Zero or one hidden layer of rectified linear units; the loss is left to the subclasses."""

    uses_gram: ClassVar[bool] = True
    loss_slack: ClassVar[float] = 1e-9  # relative; losses closer than this are looked at again

    def __init__(self, n_features: int, n_hidden: int, n_outputs: int) -> None:
        self.n_features = check_int(n_features, "n_features")
        self.n_hidden = n_hidden
        self.n_outputs = n_outputs
        self._width = n_hidden or n_outputs
        self._first = (self.n_features + 1) * self._width

    @property
    def n_parameters(self) -> int:
        """Number of parameters d."""
        return self._first + (self.n_hidden + 1) * self.n_outputs * (self.n_hidden > 0)

    @property
    def shared(self) -> slice:
        """Parameters that DP-FedPer sends: the first layer's; all but the biases without one."""
        return slice(0, self._first if self.n_hidden else self._first - self.n_outputs)

    # outputs

    def _matrices(self, models: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """First layers (k, p + 1, width) and, with a hidden layer, second ones (k, h + 1, c)."""
        k = len(models)
        first = models[:, : self._first].reshape(k, self.n_features + 1, self._width)
        if not self.n_hidden:
            return first, None
        return first, models[:, self._first :].reshape(k, self.n_hidden + 1, self.n_outputs)

    def _check(self, batch: Batch) -> None:
        """Refuse clients whose rows are not what the model is for."""
        p = batch.features.shape[2]
        if p != self.n_features:
            raise ValueError(f"batch must have {self.n_features} features, got {p}")
        self._check_answers(batch)

    def outputs(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Outputs (m, n, c) before the loss, each client under its own model of (m, d)."""
        self._check(batch)
        first, second = self._matrices(models)
        z = batch.features @ first[:, :-1] + first[:, -1:]
        return z if second is None else np.maximum(z, 0.0) @ second[:, :-1] + second[:, -1:]

    def _outputs_of_all(
        self, models: FloatArray, features: FloatArray, multiply: Any = np.matmul
    ) -> FloatArray:
        """Outputs (m, n, k, c) of every client under every model: a product a client and layer."""
        first, second = self._matrices(models)
        (m, n, p), k = features.shape, len(models)
        wide = np.ascontiguousarray(first[:, :-1].transpose(1, 0, 2)).reshape(p, -1)
        z = multiply(features, wide)
        z += first[:, -1].ravel()
        if second is None:
            return z.reshape(m, n, k, self.n_outputs)
        hidden = np.maximum(z, 0.0, out=z).reshape(m, n, k, -1).transpose(0, 2, 1, 3)
        z = multiply(hidden, second[:, :-1])
        z += second[:, -1:]
        return z.transpose(0, 2, 1, 3)

    def losses(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """Mean loss (m, k) of every client under each model (k, d).

        `offset` (m, n, c) is added to the outputs (the common model of FedCAM).
        """
        return self._losses(models, batch, offset, np.matmul)

    def losses_in_order(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """`losses` without BLAS: the same bits with any number of threads, but slow."""
        return self._losses(models, batch, offset, _multiply_in_order)

    def _losses(
        self, models: FloatArray, batch: Batch, offset: FloatArray | None, multiply: Any
    ) -> FloatArray:
        self._check(batch)
        m, n = batch.weights.shape
        out = np.empty((m, len(models)))
        share = _share(batch.weights)
        for part in _chunks(m, n * len(models) * self._width):
            z = self._outputs_of_all(models, batch.features[part], multiply)
            if offset is not None:
                z += offset[part, :, None, :]
            each = self._row_losses(z, _answers(batch)[part])
            out[part] = (each * share[part, :, None]).sum(axis=1)  # in the order of the rows
        return out

    # training

    def train(
        self, starts: FloatArray, batch: Batch, *, n_steps: int, learning_rate: float,
        proximal: float = 0.0, offset: FloatArray | None = None,
    ) -> FloatArray:  # fmt: skip
        """Full-batch gradient descent of every client from its own start (m, d).

        Steps on the first layer go through `batch.gram` if there is one. `proximal` is the mu of
        FedProx: it adds (mu/2) ||theta - start||^2 to the loss. `offset` (m, n, c) is added to the
        outputs.
        """
        self._check(batch)
        lr, mu = learning_rate, proximal
        share = _share(batch.weights)
        aims = self._aims(_answers(batch)) * share[..., None]
        x, gram = batch.features, batch.gram
        start, second0 = self._matrices(starts)
        first = start
        second = None if second0 is None else second0.copy()
        z0 = z = x @ start[:, :-1] + start[:, -1:]
        signal = np.zeros_like(z0)  # first = start - [X, 1]^T signal
        for step in range(n_steps):
            if second is None:
                out = z if offset is None else z + offset
                error = self._weighted_errors(out, aims, share)
            else:
                hidden = np.maximum(z, 0.0)
                out = hidden @ second[:, :-1] + second[:, -1:]
                if offset is not None:
                    out += offset
                at_output = self._weighted_errors(out, aims, share)
                error = (at_output @ second[:, :-1].transpose(0, 2, 1)) * (z > 0)
                assert second0 is not None
                second -= lr * (_with_bias(hidden, at_output) + mu * (second - second0))
            if gram is not None:
                signal *= 1 - lr * mu
                error *= lr
                signal += error
                if step + 1 < n_steps:
                    z = z0 - gram @ signal
            else:
                first = first - lr * (_with_bias(x, error) + mu * (first - start))
                if step + 1 < n_steps:
                    z = x @ first[:, :-1] + first[:, -1:]
        if gram is not None:
            first = _with_bias(x, signal)
            np.subtract(start, first, out=first)
        if second is None:
            own = first.reshape(len(starts), -1)
            return own.copy() if first is start else own
        trained = np.empty_like(starts)
        trained[:, : self._first] = first.reshape(len(starts), -1)
        trained[:, self._first :] = second.reshape(len(starts), -1)
        return trained

    def accuracy(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """Mean score (m,) of the examples, each client under its own model of (m, d).

        The share of correct labels; for a regression minus the mean squared error.
        """
        outputs = self.outputs(models, batch)
        if offset is not None:
            outputs += offset
        values, total = self._row_scores(outputs, _answers(batch)), batch.weights.sum(axis=1)
        return np.asarray((values * batch.weights).sum(axis=1) / np.where(total > 0, total, 1.0))

    # what the loss decides

    @abstractmethod
    def _check_answers(self, batch: Batch) -> None:
        """Refuse a batch without the right answers."""

    @abstractmethod
    def _row_scores(self, outputs: FloatArray, answers: np.ndarray) -> np.ndarray:
        """Score of each example (m, n), the higher the better."""

    @abstractmethod
    def _row_losses(self, outputs: FloatArray, answers: np.ndarray) -> FloatArray:
        """Loss of each example (m, n)."""

    @abstractmethod
    def _aims(self, answers: np.ndarray) -> FloatArray:
        """What the outputs should be like (m, n, c)."""

    @abstractmethod
    def _weighted_errors(
        self, outputs: FloatArray, aims: FloatArray, share: FloatArray
    ) -> FloatArray:
        """Derivative of the mean loss by the outputs; `aims` were multiplied by `share` (m, n)."""


def _with_bias(left: FloatArray, right: FloatArray) -> FloatArray:
    """[left, 1]^T right for each client: (m, n, p), (m, n, c) -> (m, p + 1, c)."""
    out = np.empty((len(left), left.shape[2] + 1, right.shape[2]))
    np.matmul(left.transpose(0, 2, 1), right, out=out[:, :-1])
    right.sum(axis=1, out=out[:, -1])
    return out


def _share(weights: FloatArray) -> FloatArray:
    """The share (m, n) of each row in the mean of its client; 0 for a client without weight."""
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


def _multiply_in_order(left: FloatArray, right: FloatArray) -> FloatArray:
    """left @ right, each sum in the order of its terms."""
    out = np.zeros(np.broadcast_shapes(left.shape[:-1] + (1,), right.shape[:-2] + (1, 1)))
    out = repeat(out, right.shape[-1], axis=-1)
    for j in range(left.shape[-1]):
        out += left[..., j, None] * right[..., j, None, :]
    return out


def _answers(batch: Batch) -> np.ndarray:
    answers = batch.targets if batch.labels is None else batch.labels
    if answers is None:
        raise ValueError("batch must hold labels or targets")
    return answers


def _chunks(m: int, numbers_per_client: int) -> Iterator[slice]:
    size = max(1, CHUNK // max(1, numbers_per_client))
    for start in range(0, m, size):
        yield slice(start, start + size)
