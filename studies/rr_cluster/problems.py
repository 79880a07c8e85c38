"""Federations of labelled clients by name, for the RR-Cluster tables, and models by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dctn

from fedclust_helpers._index import bincount
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import ClientData
from fedclust_helpers.rr_cluster import OneHiddenLayer, SoftmaxRegression
from studies import paper_data
from studies.bench.cell import generator_of, seed_of
from studies.paper_data import LabelledFederation
from studies.rr_cluster.torch_models import CharLSTM, SmallCNN

N_HIDDEN = 32
ROTATIONS = {
    "balanced": ((0, 90, 180, 270), (1, 1, 1, 1)),
    "imbalanced": ((0, 90, 180), (2, 1, 1)),
    "small": ((0, 90, 180, 270), (4, 3, 2, 1)),
}
"""Settings of the tables -> angle of each group, and the sizes of the groups up to a factor."""


DIRICHLET = "dirichlet_"


class Clients(NamedTuple):
    """Clients of one seed: the same partition for every method.

    "fashion_mnist" has 1000 clients of 60 training and 10 test images, averaged over 2 x 2 pixels;
    "digits" is scikit-learn's, 60 clients of 24 and 5 images, and needs no file. "fashion_dct" and
    "digits_dct" are the same clients with `cosine_features`. Settings: `ROTATIONS`. "shakespeare",
    "roles" are the 141 roles with 1000 characters or more, 60 training and 20 test places each, the
    same text for every seed. In "dirichlet_0.5" images are not turned: each client has shares of
    the labels of its own, drawn from Dirichlet(0.5), and there are no groups.

    Examples
    --------
    >>> Clients("fashion_mnist", "balanced", 3).name
    'fashion_balanced_3'
    """

    data: str
    setting: str
    seed: int

    @property
    def name(self) -> str:
        """What seeds are derived from."""
        data = self.data.removesuffix("_dct").removesuffix("_mnist")
        return f"{data}_{self.setting}_{self.seed}"


@dataclass(frozen=True, eq=False)
class ModelProblem:
    """The data of `clients`.

    `seed` gives the starting models and everything random in a run, so methods that draw clients in
    the same way draw the same ones.
    """

    clients: Clients
    federation: LabelledFederation
    train: ClientData
    test: ClientData

    @property
    def groups(self) -> np.ndarray:
        """True group of each client (M,); one group where none is known."""
        groups = self.federation.groups
        return np.zeros(self.train.n_clients, dtype=np.int64) if groups is None else groups

    @property
    def constant_accuracy(self) -> float:
        """Test accuracy of always answering the most frequent training label."""
        assert self.train.labels is not None and self.test.labels is not None
        return float((self.test.labels == bincount(self.train.labels).argmax()).mean())

    @property
    def seed(self) -> np.random.SeedSequence:
        """Seed of every run on these clients."""
        return seed_of(f"run/{self.clients.name}")

    def initial(self, model: Model, n_clusters: int) -> FloatArray:
        """Starting models (k, d): the first k of the same ones, whatever k is."""
        rng = generator_of(f"initial/{self.clients.name}/{model!r}")
        return np.concatenate([model.initial(1, rng=rng) for _ in range(n_clusters)])


LOWEST = 0.6  # frequencies up to this share of the side of an image are kept
TILT = 0.5  # power by which the higher ones are lifted


def cosine_features(points: FloatArray, side: int) -> FloatArray:
    """The low frequencies of square images (n, side^2): public features, nothing is learned.

    The orthonormal cosine transform (DCT-II) in both directions; a coefficient of frequencies
    (u, v) is kept for u^2 + v^2 <= (0.6 side)^2 and multiplied by (1 + sqrt(u^2 + v^2))^0.5.

    Examples
    --------
    >>> cosine_features(np.ones((1, 196)), 14).shape
    (1, 64)
    """
    length = np.hypot(*np.indices((side, side))).ravel()
    kept = length <= LOWEST * side
    waves = dctn(points.reshape(-1, side, side), axes=(1, 2), norm="ortho").reshape(len(points), -1)
    return np.asarray(waves[:, kept] * (1 + length[kept]) ** TILT)


def _with_cosines(made: LabelledFederation) -> LabelledFederation:
    """The same clients with `cosine_features` for pixels, and the bound that follows."""
    side = made.feature_shape[0]
    train, test = (cosine_features(p, side) for p in (made.train_points, made.test_points))
    bound = made.bound * side * (1 + LOWEST * side) ** TILT
    return replace(
        made, train_points=train, test_points=test, feature_shape=test.shape[1:], bound=bound,
        bound_note=f"{made.bound_note}; a coefficient is at most the length of an image",
    )  # fmt: skip


def _dealt_by_label(
    made: LabelledFederation, alpha: float, rng: np.random.Generator
) -> LabelledFederation:
    """The same images, dealt again: each client has shares of the labels from Dirichlet(alpha).

    They hold for its training and its test images. A label that is used up is replaced by the one
    of which most images are left.
    """
    shares = rng.dirichlet(np.full(made.n_classes or 1, alpha), size=made.n_clients)
    kept: dict[str, Any] = {}
    for split in ("train", "test"):
        points, offsets, labels = made.clients(split)
        assert labels is not None
        stacks = [
            rng.permutation(np.flatnonzero(labels == c)).tolist() for c in range(len(shares.T))
        ]
        order = []
        for share, size in zip(shares, np.diff(offsets), strict=True):
            for label in rng.choice(len(stacks), size=size, p=share):
                order.append((stacks[label] or max(stacks, key=len)).pop())
        kept |= {f"{split}_points": points[order], f"{split}_labels": labels[order]}
    return replace(made, **kept, groups=None)


@lru_cache(maxsize=2)
def load_clients(clients: Clients) -> ModelProblem:
    """The clients' data.

    Raises
    ------
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    rng = generator_of(f"data/{clients.name}")
    if clients.data == "shakespeare":
        made = paper_data.make_shakespeare_roles(n_train=60, rng=rng)
    else:
        rotations, weights = ROTATIONS.get(clients.setting, ((0,), (1,)))
        groups: dict[str, Any] = {"rotations": rotations, "weights": weights, "rng": rng}
        source = clients.data.replace("fashion_dct", "fashion_mnist").removesuffix("_dct")
        if source == "digits":
            made = paper_data.make_rotated_digits(**groups)
        else:
            made = paper_data.make_rotated_images(source, **groups)
        if clients.setting.startswith(DIRICHLET):
            alpha = float(clients.setting.removeprefix(DIRICHLET))
            made = _dealt_by_label(made, alpha, rng)
        if clients.data.endswith("_dct"):
            made = _with_cosines(made)
    train, test = (ClientData(*made.clients(split)) for split in ("train", "test"))
    return ModelProblem(clients, made, train, test)


def model_named(name: str, problem: ModelProblem) -> Model:
    """The model "softmax", "one_hidden", "cnn" or "lstm" for the examples of a problem.

    Raises
    ------
    ImportError
        If "cnn" or "lstm" is wanted and PyTorch is not installed.
    """
    p, c = problem.federation.n_features, problem.federation.n_classes
    assert c is not None
    if name == "softmax":
        return SoftmaxRegression(p, c)
    if name == "one_hidden":
        return OneHiddenLayer(p, N_HIDDEN, c)
    if name == "cnn":
        return SmallCNN(problem.federation.feature_shape[0], c)
    if name == "lstm":
        return CharLSTM(c)
    raise ValueError(f"name must be 'softmax', 'one_hidden', 'cnn' or 'lstm', got {name!r}")
