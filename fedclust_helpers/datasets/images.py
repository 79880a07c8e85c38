"""Labelled images of the RR-Cluster paper (Section 5): FashionMNIST, EMNIST, CIFAR-10, CIFAR-100.

A loader returns a `Dataset`, pixels as float64. `IMAGE_SOURCES` gives them as bytes: a federation
picks its images first and converts only those. Only formats without executable parts are read:
IDX, ZIP, and the binary version of CIFAR (not the pickled one).
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from fedclust_helpers._validation import IntArray, check_choice
from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._files import fetch
from fedclust_helpers.datasets.loaders import _CODED, _dataset, _parse_idx, _read_idx

ByteArray = NDArray[np.uint8]
Images = tuple[ByteArray, IntArray]

EMNIST_SUBSETS = ("balanced", "bymerge", "byclass")
"""EMNIST with 47, 47 and 62 classes: 131,600 images, and twice 814,255 (training and test)."""

_SPLITS = ("train", "test")
_CIFAR_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "cifar10": {
        "train": tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
        "test": ("cifar-10-batches-bin/test_batch.bin",),
    },
    "cifar100": {
        "train": ("cifar-100-binary/train.bin",),
        "test": ("cifar-100-binary/test.bin",),
    },
}


def load_fashion_mnist(split: str = "train") -> Dataset:
    """FashionMNIST, ten kinds of clothes: 60,000 training or 10,000 test images x 784, k = 10.

    Parameters
    ----------
    split : {"train", "test"}
    """
    return _as_dataset("fashion_mnist", _read_fashion_mnist(split), 10)


def load_emnist(subset: str = "balanced", split: str = "train") -> Dataset:
    """EMNIST, handwritten digits and letters as upright images of 28 x 28 pixels.

    The paper's 814,255 images of 47 classes are "bymerge", training and test together: over 5 GB
    as float64. Only `subset` is unpacked.

    Parameters
    ----------
    subset : {"balanced", "bymerge", "byclass"}
        112,800 (+ 18,800 test), 697,932 (+ 116,323) and as many images of 47, 47 and 62 classes.
    split : {"train", "test"}
    """
    images = _read_emnist(split, subset)
    return _as_dataset("emnist", images, 62 if subset == "byclass" else 47)


def load_cifar10(split: str = "train") -> Dataset:
    """CIFAR-10, colour photographs: 50,000 training or 10,000 test images x 3072, k = 10.

    Columns run over rows, then columns, then colours of the 32 x 32 x 3 image. The binary version
    of the file is read, which holds no pickle.

    Parameters
    ----------
    split : {"train", "test"}
    """
    return _as_dataset("cifar10", _read_cifar(split, "cifar10"), 10)


def load_cifar100(split: str = "train") -> Dataset:
    """CIFAR-100, as `load_cifar10` with the 100 fine classes, k = 100.

    Parameters
    ----------
    split : {"train", "test"}
    """
    return _as_dataset("cifar100", _read_cifar(split, "cifar100"), 100)


def _as_dataset(name: str, images: Images, n_classes: int) -> Dataset:
    pixels, labels = images
    points = pixels.reshape(len(pixels), -1).astype(np.float64)
    return _dataset(name, points, labels, n_classes, (0, 255), f"pixels 0..255: {_CODED}")


# --- the files -----------------------------------------------------------------------------------


def _read_digits(split: str) -> Images:
    data = sklearn_datasets.load_digits()
    return data.images.astype(np.uint8), data.target.astype(np.int64)


def _read_mnist(split: str) -> Images:
    images = _read_idx(fetch("mnist/t10k-images-idx3-ubyte.gz"))
    labels = _read_idx(fetch("mnist/t10k-labels-idx1-ubyte.gz"))
    return images, labels.astype(np.int64)


def _read_fashion_mnist(split: str) -> Images:
    stem = {"train": "train", "test": "t10k"}[check_choice(split, "split", _SPLITS)]
    images = _read_idx(fetch(f"fashion_mnist/{stem}-images-idx3-ubyte.gz"))
    labels = _read_idx(fetch(f"fashion_mnist/{stem}-labels-idx1-ubyte.gz"))
    return images, labels.astype(np.int64)


def _read_emnist(split: str, subset: str) -> Images:
    check_choice(subset, "subset", EMNIST_SUBSETS)
    check_choice(split, "split", _SPLITS)
    stem = f"gzip/emnist-{subset}-{split}"
    with zipfile.ZipFile(fetch("emnist/gzip.zip")) as archive:
        images = _parse_idx(gzip.decompress(archive.read(f"{stem}-images-idx3-ubyte.gz")))
        labels = _parse_idx(gzip.decompress(archive.read(f"{stem}-labels-idx1-ubyte.gz")))
    # the file holds every image mirrored along its diagonal
    return np.ascontiguousarray(images.transpose(0, 2, 1)), labels.astype(np.int64)


def _read_cifar(split: str, name: str) -> Images:
    """Rows of label bytes (one; coarse and fine for CIFAR-100), then 1024 bytes of each colour."""
    members = _CIFAR_FILES[name][check_choice(split, "split", _SPLITS)]
    n_label_bytes = 1 if name == "cifar10" else 2
    file = "cifar-10-binary.tar.gz" if name == "cifar10" else "cifar-100-binary.tar.gz"
    found = {}
    with tarfile.open(fetch(f"{name}/{file}"), "r:gz") as archive:
        for member in archive:  # in file order, so that the stream is unpacked once
            if member.name in members and (stream := archive.extractfile(member)) is not None:
                found[member.name] = np.frombuffer(stream.read(), dtype=np.uint8)
    rows = np.concatenate([found[member] for member in members]).reshape(-1, n_label_bytes + 3072)
    images = rows[:, n_label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, n_label_bytes - 1].astype(np.int64)


# --- images by name ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageSource:
    """How the images of one name are read, and what is publicly known about them.

    Attributes
    ----------
    read : callable
        Maps a split to images (n, h, w) or (n, h, w, 3) of bytes and labels (n,).
    dataset : str
        Name in the registry of files.
    n_classes : int
    mean : float
        A round number near the mean pixel / `levels` of such images; a constant of this module, not
        computed from the data at run time.
    levels : int
        Largest value of a pixel.
    splits : tuple of str
        ("train", "test"), or one name if there is no separate test set here.
    """

    read: Callable[[str], Images]
    dataset: str
    n_classes: int
    mean: float
    levels: int = 255
    splits: tuple[str, ...] = _SPLITS


IMAGE_SOURCES = MappingProxyType(
    {
        "digits": ImageSource(_read_digits, "digits", 10, 0.3, levels=16, splits=("all",)),
        "mnist": ImageSource(_read_mnist, "mnist", 10, 0.13, splits=("test",)),
        "fashion_mnist": ImageSource(_read_fashion_mnist, "fashion_mnist", 10, 0.286),
        "emnist_balanced": ImageSource(
            partial(_read_emnist, subset="balanced"), "emnist", 47, 0.17
        ),
        "emnist_bymerge": ImageSource(partial(_read_emnist, subset="bymerge"), "emnist", 47, 0.17),
        "emnist_byclass": ImageSource(partial(_read_emnist, subset="byclass"), "emnist", 62, 0.17),
        "cifar10": ImageSource(partial(_read_cifar, name="cifar10"), "cifar10", 10, 0.47),
        "cifar100": ImageSource(partial(_read_cifar, name="cifar100"), "cifar100", 100, 0.47),
    }
)
"""Images that `make_rotated_images` and `make_dirichlet_federation` know by name."""
