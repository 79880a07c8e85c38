"""Federations of labelled clients by name, for the RR-Cluster tables, and models by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import ClientData
from fedclust_helpers.rr_cluster import OneHiddenLayer, SoftmaxRegression
from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.paper_data import LabelledFederation
from fedclust_helpers.studies.rr_cluster.torch_models import CharLSTM, SmallCNN

N_HIDDEN = 32
ROTATIONS = {
    "balanced": ((0, 90, 180, 270), (1, 1, 1, 1)),
    "imbalanced": ((0, 90, 180), (2, 1, 1)),
    "small": ((0, 90, 180, 270), (4, 3, 2, 1)),
}
"""Settings of the tables -> angle of each group, and the sizes of the groups up to a factor."""


@dataclass(frozen=True, eq=False)
class ModelProblem:
    """Clients of one seed: the same partition for every method.

    `seed` gives the starting models and everything random in a run, so methods that draw clients in
    the same way draw the same ones.
    """

    name: str
    data: str
    setting: str
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
        return float((self.test.labels == np.bincount(self.train.labels).argmax()).mean())

    @property
    def seed(self) -> np.random.SeedSequence:
        """Seed of every run on these clients."""
        return seed_of(f"run/{self.name}")

    def initial(self, model: Model, n_models: int) -> FloatArray:
        """Starting models (k, d): the first k of the same ones, whatever k is."""
        rng = np.random.default_rng(seed_of(f"initial/{self.name}/{model!r}"))
        return np.concatenate([model.initial(1, rng=rng) for _ in range(n_models)])


@lru_cache(maxsize=2)
def load_clients(name: str) -> ModelProblem:
    """The clients ``<data>_<setting>_<seed>``: "fashion_balanced_3", "digits_imbalanced_0".

    "fashion" is FashionMNIST, 1000 clients of 60 training and 10 test images, averaged over 2 x 2
    pixels; "digits" is scikit-learn's, 60 clients of 24 and 5 images, and needs no file. Settings:
    `ROTATIONS`. "shakespeare_roles_3" are the 141 roles with 1000 characters or more, 60 training
    and 20 test places each, the same text for every seed.

    Raises
    ------
    ValueError
        If there is no such data set.
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    kind, setting, number = name.split("_") if name.count("_") == 2 else ("", "", "")
    known = setting in ROTATIONS if kind != "shakespeare" else setting == "roles"
    if kind not in ("fashion", "digits", "shakespeare") or not known or not number.isdigit():
        raise ValueError(f"name must be a data set of the RR-Cluster tables, got {name!r}")
    rotations, weights = ROTATIONS.get(setting, ((), ()))
    rng = np.random.default_rng(seed_of(f"data/{name}"))
    if kind == "shakespeare":
        data = kind
        made = paper_data.make_shakespeare_roles(n_train=60, rng=rng)
    elif kind == "fashion":
        data = "fashion_mnist"
        made = paper_data.make_rotated_images(data, rotations=rotations, weights=weights, rng=rng)
    else:
        data = kind
        made = paper_data.make_rotated_digits(rotations=rotations, weights=weights, rng=rng)
    train, test = (ClientData(*made.clients(split)) for split in ("train", "test"))
    return ModelProblem(name, data, setting, made, train, test)


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
