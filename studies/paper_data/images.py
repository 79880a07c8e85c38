"""Labelled images as federations (RR-Cluster, Section 5.1): rotated groups, and mixes of labels.

FashionMNIST, EMNIST, CIFAR-10, CIFAR-100, MNIST and digits, read as bytes: a federation picks its
images first and converts only those. Only formats without executable parts are read: IDX, ZIP, and
the binary version of CIFAR (not the pickled one).
"""

from __future__ import annotations

import gzip
import math
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._checked import checked
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_int
from fedclust_helpers.datasets import load_digits
from studies.paper_data.files import entry_of, fetch
from studies.paper_data.records import LabelledFederation
from studies.paper_data.roles_and_lines import check_sizes, group_of_clients

ByteArray = NDArray[np.uint8]
Images = tuple[ByteArray, IntArray]

SPLITS = ("train", "test")
_CIFAR_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "cifar10": {
        "train": tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
        "test": ("cifar-10-batches-bin/test_batch.bin",),
    },
    "cifar100": {"train": ("cifar-100-binary/train.bin",), "test": ("cifar-100-binary/test.bin",)},
}


# --- the files -----------------------------------------------------------------------------------


def parse_idx(compressed: bytes) -> ByteArray:
    """Bytes in the IDX format, gzipped: 2 zeros, type 8, rank, big-endian sizes, the array."""
    content = gzip.decompress(compressed)
    rank = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=rank, offset=4).astype(np.int64)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape(shape)


def _read_digits(split: str) -> Images:
    data = load_digits()
    assert data.labels is not None
    return data.points.reshape(-1, 8, 8).astype(np.uint8), data.labels


def _read_idx(split: str, name: str) -> Images:
    stem = f"{name}/{'t10k' if split == 'test' else 'train'}"
    images = parse_idx(fetch(f"{stem}-images-idx3-ubyte.gz").read_bytes())
    labels = parse_idx(fetch(f"{stem}-labels-idx1-ubyte.gz").read_bytes())
    return images, labels.astype(np.int64)


def _read_emnist(split: str, subset: str) -> Images:
    stem = f"gzip/emnist-{subset}-{split}"
    with zipfile.ZipFile(fetch("emnist/gzip.zip")) as archive:
        images = parse_idx(archive.read(f"{stem}-images-idx3-ubyte.gz"))
        labels = parse_idx(archive.read(f"{stem}-labels-idx1-ubyte.gz"))
    # the file holds every image mirrored along its diagonal
    return np.ascontiguousarray(images.transpose(0, 2, 1)), labels.astype(np.int64)


def _read_cifar(split: str, name: str) -> Images:
    """Rows of label bytes (one; coarse and fine for CIFAR-100), then 1024 bytes of each colour."""
    members = _CIFAR_FILES[name][split]
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

    `read` maps a split to images (n, h, w) or (n, h, w, 3) of bytes and labels (n,); `dataset` is
    a name in the registry of files; `mean` a round number near the mean pixel / `levels` of such
    images, not computed from the data; `splits` one name if there is no separate test set here.
    """

    read: Callable[[str], Images]
    dataset: str
    n_classes: int
    mean: float
    levels: int = 255
    splits: tuple[str, ...] = SPLITS


IMAGE_SOURCES = MappingProxyType(
    {
        "digits": ImageSource(_read_digits, "digits", 10, 0.3, levels=16, splits=("all",)),
        "mnist": ImageSource(partial(_read_idx, name="mnist"), "mnist", 10, 0.13, splits=("test",)),
        "fashion_mnist": ImageSource(
            partial(_read_idx, name="fashion_mnist"), "fashion_mnist", 10, 0.286
        ),
        "emnist_balanced": ImageSource(
            partial(_read_emnist, subset="balanced"), "emnist", 47, 0.17
        ),
        "emnist_bymerge": ImageSource(partial(_read_emnist, subset="bymerge"), "emnist", 47, 0.17),
        "emnist_byclass": ImageSource(partial(_read_emnist, subset="byclass"), "emnist", 62, 0.17),
        "cifar10": ImageSource(partial(_read_cifar, name="cifar10"), "cifar10", 10, 0.47),
        "cifar100": ImageSource(partial(_read_cifar, name="cifar100"), "cifar100", 100, 0.47),
    }
)
"""Images that `make_rotated_images` knows by name."""


# --- federations ---------------------------------------------------------------------------------


@checked
def make_rotated_images(
    dataset: str = "fashion_mnist",
    *,
    n_clients: int = 1000,
    n_train: int = 60,
    n_test: int = 10,
    rotations: Sequence[int] = (0, 90, 180, 270),
    weights: ArrayLike | None = None,
    pool: int = 2,
    rng: np.random.Generator,
) -> LabelledFederation:
    """Clients in groups that see the images turned by 0, 90, 180, 270 degrees (Section 5.1).

    Images are dealt at random, each to one client at most: training images from the training files
    and test images from the test files where there are both. All images of a client are turned
    counter-clockwise by the angle of its group, averaged over blocks of `pool` x `pool` pixels,
    scaled to [0, 1], and a public mean is subtracted. Clients come in runs of one group.

    Parameters
    ----------
    dataset : str
        A key of `IMAGE_SOURCES`. "fashion_mnist" with the defaults uses all 70,000 images (the
        paper's setting); "mnist" has 10,000 images here, "digits" 1797 and no file.
    n_clients, n_train, n_test : int
        Clients M, training and test images of each.
    rotations : sequence of int
        Angle of each group, multiples of 90. The paper's imbalanced setting is ``(0, 90, 180)``
        with ``weights=(2, 1, 1)``: 500, 250 and 250 clients.
    weights : array_like of shape (n_groups,), optional
        Sizes of the groups, up to a factor; equal if not given.
    pool : int, default 2
        Side of the blocks; must divide the side of an image. 1 keeps every pixel.
    rng : numpy.random.Generator

    Returns
    -------
    LabelledFederation
        `groups` are positions in `rotations`.

    Raises ValueError if there are too few images, and as `files.fetch` does.
    """
    source = IMAGE_SOURCES[check_choice(dataset, "dataset", tuple(IMAGE_SOURCES))]
    check_int(pool, "pool", maximum=16)
    sizes = {"train": n_train, "test": n_test}
    return _rotated(
        source, dataset, "", _dealt_once, n_clients, sizes, rotations, weights, pool, rng
    )


@checked
def make_rotated_digits(
    n_clients: int = 60,
    *,
    n_train: int = 24,
    n_test: int = 5,
    rotations: Sequence[int] = (0, 90, 180, 270),
    weights: ArrayLike | None = None,
    reuse: bool = False,
    rng: np.random.Generator,
) -> LabelledFederation:
    """Rotated groups of clients from scikit-learn's 1797 digits of 8 x 8 pixels; needs no file.

    As `make_rotated_images` without pooling. There are few images, so a federation of a thousand
    clients needs `reuse`.

    Parameters
    ----------
    n_clients, n_train, n_test : int
    rotations, weights
        As for `make_rotated_images`.
    reuse : bool, default False
        If true, a random part ``n_test / (n_train + n_test)`` of the images is kept for testing,
        and each client draws its images from the two parts, without replacement of its own:
        clients share images, but no test image is ever trained on. Clients then differ less from
        each other than real ones.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> make_rotated_digits(rng=np.random.default_rng(0))
    LabelledFederation('digits rotated', M=60, N=1440+300, p=64, classes=10, groups=4)
    """
    deal, remark = (_dealt_again, "; clients share images") if reuse else (_dealt_once, "")
    sizes = {"train": n_train, "test": n_test}
    source = IMAGE_SOURCES["digits"]
    return _rotated(source, "digits", remark, deal, n_clients, sizes, rotations, weights, 1, rng)


def _rotated(
    source: ImageSource, dataset: str, remark: str, deal: Callable[..., dict[str, Images]],
    n_clients: int, sizes: dict[str, int], rotations: Sequence[int], weights: ArrayLike | None,
    pool: int, rng: np.random.Generator,
) -> LabelledFederation:  # fmt: skip
    """The federation of images that `deal` gives to the clients, in their order."""
    check_sizes(n_clients, sizes["train"], sizes["test"])
    turns = _quarter_turns(rotations)
    groups = group_of_clients(n_clients, len(turns), weights)
    points, held = {}, deal(source, n_clients, sizes, rng)
    for split, (images, _) in held.items():
        points[split] = _turned(images, groups, turns, pool, source)
    shape = points["train"].shape[1:]
    if source.dataset == "digits":
        digits = load_digits()
        origin, licence, citation = digits.source, digits.licence, digits.citation
    else:
        entry = entry_of(source.dataset)
        origin, licence, citation = entry.url, entry.licence, entry.citation
    angles = ", ".join(str(90 * turn) for turn in turns)
    return LabelledFederation(
        name=f"{dataset} rotated",
        description=f"groups see the images turned by {angles} degrees{remark}",
        train_points=points["train"].reshape(-1, math.prod(shape)),
        train_offsets=sizes["train"] * np.arange(n_clients + 1),
        train_labels=held["train"][1],
        test_points=points["test"].reshape(-1, math.prod(shape)),
        test_offsets=sizes["test"] * np.arange(n_clients + 1),
        test_labels=held["test"][1],
        n_classes=source.n_classes,
        feature_shape=shape,
        bound=1.0,
        bound_note=f"pixels are coded 0..{source.levels}, scaled to [0, 1] less {source.mean:g}",
        groups=groups,
        source=origin,
        licence=licence,
        citation=citation,
    )


def _dealt_once(
    source: ImageSource, n_clients: int, sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, Images]:
    """Random images, each to one client at most, from the files of both splits or from all."""
    wanted = {split: n_clients * size for split, size in sizes.items()}
    if len(source.splits) == 1:
        images, classes = source.read(source.splits[0])
        both = _drawn(len(images), sum(wanted.values()), "images", rng)
        parts = zip(wanted, np.split(both, [wanted["train"]]), strict=True)
        return {split: (images[rows], classes[rows]) for split, rows in parts}
    held = {}
    for split, size in wanted.items():
        images, classes = source.read(split)
        rows = _drawn(len(images), size, f"{split} images", rng)
        held[split] = images[rows], classes[rows]
    return held


def _dealt_again(
    source: ImageSource, n_clients: int, sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, Images]:
    """Random images for each client, of a part that all clients train or test on."""
    images, classes = source.read(source.splits[0])
    order, held = rng.permutation(len(images)), {}
    n_test = math.ceil(len(images) * sizes["test"] / sum(sizes.values()))
    for split, part in (("train", order[n_test:]), ("test", order[:n_test])):
        if (size := sizes[split]) > len(part):
            raise ValueError(
                f"n_{split} must be <= {len(part)}, the {split} images left by n_train and n_test"
            )
        keys = rng.random((n_clients, len(part)))
        rows = part[np.argpartition(keys, size - 1, axis=1)[:, :size].ravel()]
        held[split] = images[rows], classes[rows]
    return held


def _quarter_turns(rotations: Sequence[int]) -> list[int]:
    angles = [check_int(angle, "rotations", minimum=0, maximum=270) for angle in rotations]
    if not angles or len(set(angles)) < len(angles) or any(angle % 90 for angle in angles):
        raise ValueError("rotations must be different multiples of 90 degrees from 0 to 270")
    return [angle // 90 for angle in angles]


def _drawn(n: int, wanted: int, what: str, rng: np.random.Generator) -> IntArray:
    """Random rows without replacement."""
    if wanted > n:
        raise ValueError(
            f"n_images, or n_clients times n_train and n_test, must be smaller: there are {n}"
            f" {what}, but the clients would hold {wanted} of them"
        )
    return rng.permutation(n)[:wanted]


def _scaled(images: NDArray[np.uint8], pool: int, source: ImageSource) -> FloatArray:
    """Pooled images, scaled to [0, 1] and centred by the public mean: (n, h, w) or (n, h, w, 3)."""
    if images.shape[1] % pool or images.shape[2] % pool:
        raise ValueError(f"pool must divide the side {images.shape[1]} of an image, got {pool}")
    # sums of pool**2 bytes fit in 16 bits up to pool = 16
    total = np.zeros((len(images), images.shape[1] // pool, *images.shape[2:]), dtype=np.uint16)
    for row in range(pool):
        total += images[:, row::pool]
    columns = total[:, :, ::pool].copy()
    for column in range(1, pool):
        columns += total[:, :, column::pool]
    points = columns.astype(np.float64)
    points /= source.levels * pool**2
    points -= source.mean
    return points


def _turned(
    images: NDArray[np.uint8], groups: IntArray, turns: list[int], pool: int, source: ImageSource
) -> FloatArray:
    """Scaled images, those of each group turned as a whole; clients own equal runs of them."""
    points = _scaled(images, pool, source)
    group_of = repeat(groups, len(images) // len(groups))
    # groups are runs of clients, so each is one slice
    ends = np.cumsum(bincount(group_of, minlength=len(turns)))
    for turn, start, end in zip(turns, [0, *ends[:-1]], ends, strict=True):
        if turn:
            points[start:end] = np.rot90(points[start:end], turn, axes=(1, 2)).copy()
    return points
