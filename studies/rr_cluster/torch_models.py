"""A convolutional and a recurrent network in PyTorch, trained for all clients of a round at once.

The paper uses a CNN for images and an LSTM for text and describes neither (Appendix C); these are
small ones. NumPy arrays go in and out. Inside, a model is a pure function of its flat parameters,
and `torch.func` maps its gradient over the clients, a chunk of them at a time so that the work fits
in the cache or the memory of the device. PyTorch is imported on first use; it comes with the extra
``torch``.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    check_choice,
    check_int,
    check_non_negative,
    check_positive,
    check_rng,
)
from fedclust_helpers.client_statistics.models import Batch

Tensor = Any  # torch.Tensor, which is not known before the import


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "SmallCNN and CharLSTM need PyTorch. Install it with: pip install"
            " '.[torch]' in the checkout"
        ) from error


class _TorchModel(ABC):
    """Cross-entropy over the outputs of a network given by `_scores`; the head comes last.

    `device` is one of PyTorch, for example "cuda"; `dtype`, "float32" or "float64", is what the
    network computes with (arrays of this class are float64 in any case); `chunk_size` is how many
    clients are computed at a time, 128 by default or what suits a CPU. `offset` (m, n, c) is added
    to the outputs (the common model of FedCAM). ImportError if PyTorch is not installed.
    """

    cpu_chunk: ClassVar[int]  # clients at a time that keep one core busiest
    # Clients share the kernels of a chunk, so that the last bits of a loss or an update may change
    # with the company. Losses closer than this (relative) are computed again for a client alone, so
    # that its choice does not; its update stays within the clipping bound in any case.
    loss_slack: ClassVar[float] = 1e-4

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        n_classes: int,
        *,
        device: str,
        dtype: str,
        chunk_size: int | None,
    ) -> None:
        self.n_classes = check_int(n_classes, "n_classes", minimum=2)
        self.device = str(_torch().device(device))
        self.dtype = check_choice(dtype, "dtype", ("float32", "float64"))
        if chunk_size is None:
            chunk_size = self.cpu_chunk if self.device == "cpu" else 128
        self.chunk_size = check_int(chunk_size, "chunk_size")
        self._shapes = tuple(shapes)
        self._sizes = [math.prod(shape) for shape in shapes]

    @property
    def n_parameters(self) -> int:
        """Number of parameters d."""
        return sum(self._sizes)

    @property
    def shared(self) -> slice:
        """Parameters that DP-FedPer sends: all but the output layer."""
        return slice(0, self.n_parameters - sum(self._sizes[-2:]))

    @abstractmethod
    def _spread(self, number: int, shape: tuple[int, ...]) -> float:
        """Standard deviation of the initial numbers of an array of parameters."""

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Starting models (k, d)."""
        n, _ = check_int(n_clusters, "n_clusters"), check_rng(rng)
        arrays = enumerate(zip(self._shapes, self._sizes, strict=True))
        parts = [rng.normal(0.0, self._spread(i, shape), (n, d)) for i, (shape, d) in arrays]
        return np.concatenate(parts, axis=1)

    def _layers(self, parameters: Tensor) -> list[Tensor]:
        """The arrays of one model as views of its flat parameters (d,)."""
        parts = parameters.split(self._sizes)
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    @abstractmethod
    def _scores(self, parameters: Tensor, features: Tensor) -> Tensor:
        """Outputs (n, c) of one model (d,) on examples (n, p)."""

    def _features(self, features: FloatArray) -> np.ndarray:
        """The features in the number type that the network reads, as a copy."""
        return features.astype(self.dtype)

    def _loss(
        self, parameters: Tensor, features: Tensor, labels: Tensor, share: Tensor, offset: Tensor
    ) -> Tensor:
        """Mean loss of one client; `share` (n,) adds up to 1."""
        scores = self._scores(parameters, features) + offset
        cross_entropy = _torch().nn.functional.cross_entropy
        return (cross_entropy(scores, labels, reduction="none") * share).sum()

    # from and to NumPy

    def _tensor(self, array: np.ndarray) -> Tensor:
        return _torch().from_numpy(array).to(self.device)

    def _numbers(self, array: FloatArray) -> Tensor:
        return self._tensor(array.astype(self.dtype))

    def _chunks(self, m: int) -> Iterator[slice]:
        for start in range(0, m, self.chunk_size):
            yield slice(start, start + self.chunk_size)

    def _check(
        self, models: FloatArray, batch: Batch, offset: FloatArray | None = None
    ) -> tuple[np.ndarray, FloatArray]:
        """Labels (m, n) and the share (m, n) of each example in the mean of its client."""
        if models.ndim != 2 or models.shape[1] != self.n_parameters:
            raise ValueError(f"models must have shape (k, {self.n_parameters}), got {models.shape}")
        if batch.labels is None:
            raise ValueError("batch must hold labels (class numbers), not targets")
        if batch.labels.size and not 0 <= batch.labels.min() <= batch.labels.max() < self.n_classes:
            raise ValueError(f"labels must be class numbers below {self.n_classes}")
        if offset is not None and offset.shape != (*batch.labels.shape, self.n_classes):
            raise ValueError(f"offset must have shape (m, n, {self.n_classes})")
        total = batch.weights.sum(axis=1, keepdims=True)
        return batch.labels, batch.weights / np.where(total > 0, total, 1.0)

    # the protocol

    def outputs(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Outputs (m, n, c) before the loss, each client under its own model of (m, d)."""
        torch = _torch()
        labels, _ = self._check(models, batch)
        out = np.empty((*labels.shape, self.n_classes))
        scores = torch.func.vmap(self._scores)
        with torch.no_grad():
            for part in self._chunks(len(labels)):
                features = self._tensor(self._features(batch.features[part]))
                out[part] = scores(self._numbers(models[part]), features).cpu().numpy()
        return out

    def losses(
        self, models: FloatArray, batch: Batch, *, offset: FloatArray | None = None
    ) -> FloatArray:
        """Mean loss (m, k) of every client under each model (k, d)."""
        torch = _torch()
        labels, share = self._check(models, batch, offset)
        (m, n), k = labels.shape, len(models)
        out = np.empty((m, k))
        parameters = self._numbers(models)
        scores = torch.func.vmap(self._scores, in_dims=(0, None))
        cross_entropy = torch.nn.functional.cross_entropy
        with torch.no_grad():
            for part in self._chunks(m):
                rows = batch.features[part].reshape(-1, batch.features.shape[2])
                z = scores(parameters, self._tensor(self._features(rows)))
                if offset is not None:
                    z = z + self._numbers(offset[part].reshape(-1, self.n_classes))
                answers = self._tensor(labels[part].astype(np.int64).ravel()).expand(k, -1)
                each = cross_entropy(z.flatten(0, 1), answers.flatten(), reduction="none")
                shares = self._numbers(share[part])
                out[part] = (each.view(k, -1, n) * shares).sum(dim=2).T.cpu().numpy()
        return out

    def train(
        self,
        starts: FloatArray,
        batch: Batch,
        *,
        n_steps: int,
        learning_rate: float,
        proximal: float = 0.0,
        offset: FloatArray | None = None,
    ) -> FloatArray:
        """Full-batch gradient descent of every client from its own start (m, d)."""
        torch = _torch()
        labels, share = self._check(starts, batch, offset)
        n_steps = check_int(n_steps, "n_steps", minimum=0)
        rate = self._numbers(np.array([check_positive(learning_rate, "learning_rate")]))
        mu = check_non_negative(proximal, "proximal")
        added = np.zeros((len(labels), 1, 1)) if offset is None else offset
        gradient = torch.func.vmap(torch.func.grad(self._loss))
        trained = starts.astype(np.float64)
        for part in self._chunks(len(labels)):
            start = self._numbers(starts[part])
            data = (
                self._tensor(self._features(batch.features[part])),
                self._tensor(labels[part].astype(np.int64)),
                self._numbers(share[part]),
                self._numbers(added[part]),
            )
            moved = torch.zeros_like(start)
            for _ in range(n_steps):
                moved = moved - rate * (gradient(start + moved, *data) + mu * moved)
            trained[part] += moved.cpu().numpy()
        return trained

    def accuracy(self, models: FloatArray, batch: Batch) -> FloatArray:
        """Share of correct labels (m,), each client under its own model of (m, d)."""
        right = self.outputs(models, batch).argmax(axis=2) == batch.labels
        return (right * batch.weights).sum(axis=1) / batch.weights.sum(axis=1)


class SmallCNN(_TorchModel):
    """Two 3 x 3 convolutions, each with pooling and rectified linear units, and an output layer.

    Both convolutions keep the side of the image; the maximum over blocks of 2 x 2 then halves it.
    The output layer is the head of DP-FedPer. Initial weights are N(0, 2/inputs) (He), biases 0.

    Parameters
    ----------
    side : int
        Images are `side` x `side`, at least 4. Features are flattened by rows, then columns, then
        colours, as the image federations of `studies.paper_data` do.
    n_classes : int
    n_channels : int, default 1
        Colours of an image, 3 for CIFAR.
    n_filters : tuple of two int, default (8, 16)
        Filters of each convolution.
    device, dtype, chunk_size
        4 clients at a time on the CPU.
    """

    cpu_chunk = 4

    def __init__(
        self,
        side: int,
        n_classes: int,
        *,
        n_channels: int = 1,
        n_filters: tuple[int, int] = (8, 16),
        device: str = "cpu",
        dtype: str = "float32",
        chunk_size: int | None = None,
    ) -> None:
        self.side = check_int(side, "side", minimum=4)
        self.n_channels = check_int(n_channels, "n_channels")
        if len(n_filters) != 2:
            raise ValueError(f"n_filters must be two numbers of filters, got {len(n_filters)}")
        one, two = (check_int(n, "n_filters") for n in n_filters)
        self.n_filters = (one, two)
        shapes: list[tuple[int, ...]] = [(one, self.n_channels, 3, 3), (one,), (two, one, 3, 3)]
        shapes += [(two,), (n_classes, two * (self.side // 4) ** 2), (n_classes,)]
        super().__init__(shapes, n_classes, device=device, dtype=dtype, chunk_size=chunk_size)

    def __repr__(self) -> str:
        return (
            f"SmallCNN({self.side}, {self.n_classes}, n_channels={self.n_channels}, "
            f"n_filters={self.n_filters})"
        )

    def _spread(self, number: int, shape: tuple[int, ...]) -> float:
        return 0.0 if len(shape) == 1 else math.sqrt(2 / math.prod(shape[1:]))

    def _check(
        self, models: FloatArray, batch: Batch, offset: FloatArray | None = None
    ) -> tuple[np.ndarray, FloatArray]:
        expected = self.side**2 * self.n_channels
        if batch.features.shape[2] != expected:
            raise ValueError(f"batch must have {expected} features, got {batch.features.shape[2]}")
        return super()._check(models, batch, offset)

    def _scores(self, parameters: Tensor, features: Tensor) -> Tensor:
        f = _torch().nn.functional
        filters, biases, filters2, biases2, weights, last = self._layers(parameters)
        x = features.view(-1, self.side, self.side, self.n_channels).permute(0, 3, 1, 2)
        # the maximum first: the same value with a quarter of the work
        x = f.relu(f.max_pool2d(f.conv2d(x, filters, biases, padding=1), 2))
        x = f.relu(f.max_pool2d(f.conv2d(x, filters2, biases2, padding=1), 2))
        return x.flatten(1) @ weights.T + last


class CharLSTM(_TorchModel):
    """An embedding of characters, one LSTM layer over the window, and an output layer.

    Features are codes of characters as floats (`paper_data.make_shakespeare_roles`);
    the state after the last one predicts the next. The cell is written out step by step, because
    the fused kernels cannot be mapped over clients. Equations and order of the gates (input,
    forget, cell, output) are those of ``torch.nn.LSTM`` with one bias. The output layer is the head
    of DP-FedPer. Initial weights are N(0, 1/inputs), with embeddings N(0, 1), biases 0 and those of
    the forget gate 1.

    Parameters
    ----------
    n_symbols : int
        Codes are 0..n_symbols - 1, and so are labels.
    n_hidden : int, default 32
        Size of the state.
    n_embedding : int, default 8
    device, dtype, chunk_size
        16 clients at a time on the CPU.
    """

    cpu_chunk = 16

    def __init__(
        self,
        n_symbols: int,
        n_hidden: int = 32,
        *,
        n_embedding: int = 8,
        device: str = "cpu",
        dtype: str = "float32",
        chunk_size: int | None = None,
    ) -> None:
        n_symbols = check_int(n_symbols, "n_symbols", minimum=2)
        self.n_hidden = check_int(n_hidden, "n_hidden")
        self.n_embedding = check_int(n_embedding, "n_embedding")
        gates = 4 * self.n_hidden
        shapes: list[tuple[int, ...]] = [(n_symbols, self.n_embedding), (gates, self.n_embedding)]
        shapes += [(gates, self.n_hidden), (gates,), (n_symbols, self.n_hidden), (n_symbols,)]
        super().__init__(shapes, n_symbols, device=device, dtype=dtype, chunk_size=chunk_size)

    def __repr__(self) -> str:
        return f"CharLSTM({self.n_classes}, {self.n_hidden}, n_embedding={self.n_embedding})"

    def _spread(self, number: int, shape: tuple[int, ...]) -> float:
        if number == 0:
            return 1.0
        return 0.0 if len(shape) == 1 else 1 / math.sqrt(shape[1])

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Starting models (k, d)."""
        models = super().initial(n_clusters, rng=rng)
        gates = sum(self._sizes[:3])
        models[:, gates + self.n_hidden : gates + 2 * self.n_hidden] = 1.0
        return models

    def _features(self, features: FloatArray) -> np.ndarray:
        codes = features.astype(np.int64)
        if codes.size and not 0 <= codes.min() <= codes.max() < self.n_classes:
            raise ValueError(f"batch must hold codes of characters below {self.n_classes}")
        return codes

    def _scores(self, parameters: Tensor, features: Tensor) -> Tensor:
        torch = _torch()
        embedding, inputs, recurrent, biases, weights, last = self._layers(parameters)
        # what each symbol adds to the gates, looked up for every place of the window
        table = embedding @ inputs.T + biases
        gates = torch.nn.functional.embedding(features.T, table)
        state = gates.new_zeros(features.shape[0], self.n_hidden)
        cell = state
        for gate in gates.unbind(0):  # slices instead would make the gradient quadratic in length
            enter, keep, new, leave = (gate + state @ recurrent.T).chunk(4, dim=-1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
            state = torch.sigmoid(leave) * torch.tanh(cell)
        return state @ weights.T + last
