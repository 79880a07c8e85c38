"""Federations of labelled clients, for clustering models instead of points (RR-Cluster, Section 5).

A client holds training and test examples of its own. Where the paper builds groups of clients
(rotations, lines), the true group of each client is kept for scoring; no algorithm may use it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
    check_rng,
)
from fedclust_helpers.datasets._base import set_texts
from fedclust_helpers.datasets._checks import (
    as_positives,
    as_whole,
    check_fits,
    check_flag,
    check_moderate,
    is_sequence,
    own_view,
)
from fedclust_helpers.datasets._files import registry
from fedclust_helpers.datasets.federated import _offsets, check_offsets
from fedclust_helpers.datasets.images import IMAGE_SOURCES, ImageSource
from fedclust_helpers.datasets.loaders import load_digits
from fedclust_helpers.datasets.splits import apportion, partition_dirichlet
from fedclust_helpers.datasets.text import load_tinyshakespeare

PAPER = (
    "X. Yang, S. Hu, S. Kim and T. Li, Differentially private federated clustering with random "
    "rebalancing"
)

LINES = ((3.0, 2.0), (1.0, -1.0), (-1.0, 1.0), (-3.0, -2.0))
"""Slope and intercept of the four lines of `make_lines`; the paper does not list its own."""

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The 65 characters of tinyshakespeare. Character i has code i + 1; code 0 is padding."""

_SPLITS = ("train", "test")


@dataclass(frozen=True, eq=False, repr=False)
class LabelledFederation:
    """Training and test examples of all clients, and what is publicly known about them.

    Attributes
    ----------
    name, description : str
    train_points : ndarray of float64 of shape (N, p), read-only
        Client i owns ``train_points[train_offsets[i]:train_offsets[i + 1]]``. For regression the
        last column is the target.
    train_offsets : ndarray of int64 of shape (M + 1,), read-only
    train_labels : ndarray of int64 of shape (N,), read-only, or None for regression
    test_points, test_offsets, test_labels
        The same for the test examples, of the same M clients.
    n_classes : int, or None for regression
        Labels are 0..n_classes - 1.
    feature_shape : tuple of int
        Shape of one example before it was flattened: (h, w), (h, w, 3), (characters,) or (1,).
    bound : float
        Public bound on the absolute value of a number in the points. A federation clips at it.
    bound_note : str
        Where the bound comes from.
    groups : ndarray of int64 of shape (M,), read-only, or None
        True group of each client. For scores and figures: no algorithm may use it.
    source, licence, citation : str
    copy : bool, default True
        Keep copies of the arrays given. False keeps views: they must not be changed afterwards.
    """

    name: str
    description: str
    train_points: FloatArray
    train_offsets: IntArray
    train_labels: IntArray | None
    test_points: FloatArray
    test_offsets: IntArray
    test_labels: IntArray | None
    n_classes: int | None
    feature_shape: tuple[int, ...]
    bound: float
    bound_note: str
    groups: IntArray | None
    source: str
    licence: str
    citation: str
    copy: InitVar[bool] = True

    def __post_init__(self, copy: bool) -> None:
        set_field = object.__setattr__
        set_texts(self, "name", "description", "bound_note", "source", "licence", "citation")
        n_classes = self.n_classes
        if n_classes is not None:
            n_classes = check_int(n_classes, "n_classes", minimum=2, maximum=10**9)
        if not is_sequence(self.feature_shape) or len(self.feature_shape) == 0:
            raise TypeError("feature_shape must be a tuple of integers >= 1")
        shape = tuple(check_int(side, "feature_shape") for side in self.feature_shape)
        set_field(self, "feature_shape", shape)
        width = self.n_features + (n_classes is None)
        set_field(self, "bound", check_positive(self.bound, "bound"))
        for split in _SPLITS:
            points, offsets, labels = (
                getattr(self, f"{split}_{part}") for part in ("points", "offsets", "labels")
            )
            given = points
            points = as_points(points, f"{split}_points")
            if points.shape[1] != width:
                raise ValueError(
                    f"{split}_points must have {width} columns, as feature_shape and n_classes say,"
                    f" got {points.shape[1]}"
                )
            offsets = check_offsets(offsets, f"{split}_offsets", len(points))
            if (labels is None) != (n_classes is None):
                raise ValueError(f"{split}_labels and n_classes must both be given or both be None")
            if labels is not None and n_classes is not None:
                labels = as_whole(labels, f"{split}_labels")
                if labels.shape != (len(points),):
                    raise ValueError(f"{split}_labels must have shape ({len(points)},)")
                if labels.min() < 0 or labels.max() >= n_classes:
                    raise ValueError(
                        f"{split}_labels must be class numbers 0..{n_classes - 1} (n_classes)"
                    )
                set_field(self, f"{split}_labels", own_view(labels, None, copy=False))
            set_field(self, f"{split}_points", own_view(points, given, copy=copy))
            set_field(self, f"{split}_offsets", offsets)
        if len(self.train_offsets) != len(self.test_offsets):
            raise ValueError("train_offsets and test_offsets must name the same number of clients")
        if self.groups is not None:
            groups = as_whole(self.groups, "groups")
            if groups.shape != (self.n_clients,) or groups.min() < 0:
                raise ValueError(f"groups must be {self.n_clients} group numbers from 0")
            set_field(self, "groups", own_view(groups, None, copy=False))

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return len(self.train_offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of features p of one example, without the target."""
        return math.prod(self.feature_shape)

    def clients(self, split: str = "train") -> tuple[FloatArray, IntArray, IntArray | None]:
        """Points, offsets and labels of one split, as ``ClientData`` and ``batch_of`` take them.

        Parameters
        ----------
        split : {"train", "test"}
        """
        check_choice(split, "split", _SPLITS)
        if split == "train":
            return self.train_points, self.train_offsets, self.train_labels
        return self.test_points, self.test_offsets, self.test_labels

    def __repr__(self) -> str:
        size = f"M={self.n_clients}, N={len(self.train_points)}+{len(self.test_points)}"
        kind = "regression" if self.n_classes is None else f"classes={self.n_classes}"
        groups = "" if self.groups is None else f", groups={len(np.unique(self.groups))}"
        return f"LabelledFederation({self.name!r}, {size}, p={self.n_features}, {kind}{groups})"


def _group_of_clients(n_clients: int, n_groups: int, weights: ArrayLike | None) -> IntArray:
    """Group of each client, in runs; sizes follow the weights, each group has a client."""
    share = np.ones(n_groups)
    if weights is not None:
        share = as_positives(weights, "weights", n_groups, "group (rotations, lines)")
    if n_clients < n_groups:
        raise ValueError(f"n_clients must be >= {n_groups}, the number of groups, got {n_clients}")
    return np.repeat(np.arange(n_groups), apportion(n_clients, share / share.max()))


# --- images --------------------------------------------------------------------------------------


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

    Raises
    ------
    ValueError
        If there are too few images, or an argument is out of range.
    DatasetUnavailableError
        If a file is not here and cannot be downloaded.
    """
    source = IMAGE_SOURCES[check_choice(dataset, "dataset", tuple(IMAGE_SOURCES))]
    n_clients, n_train, n_test = _sizes(n_clients, n_train, n_test)
    turns = _quarter_turns(rotations)
    groups = _group_of_clients(n_clients, len(turns), weights)
    pool = check_int(pool, "pool", maximum=16)
    check_rng(rng)
    wanted = {"train": n_clients * n_train, "test": n_clients * n_test}
    points, labels = {}, {}
    if len(source.splits) == 2:
        for split in _SPLITS:
            images, classes = source.read(split)
            chosen = _deal(len(images), wanted[split], f"{split} images", rng)
            points[split] = _turned(images[chosen], groups, turns, pool, source)
            labels[split] = classes[chosen]
    else:
        images, classes = source.read(source.splits[0])
        both = _deal(len(images), sum(wanted.values()), "images", rng)
        for split, chosen in zip(_SPLITS, np.split(both, [wanted["train"]]), strict=True):
            points[split] = _turned(images[chosen], groups, turns, pool, source)
            labels[split] = classes[chosen]
    return _image_federation(
        source,
        f"{dataset} rotated",
        f"groups see the images turned by {', '.join(str(90 * turn) for turn in turns)} degrees",
        points,
        labels,
        {"train": n_train * np.arange(n_clients + 1), "test": n_test * np.arange(n_clients + 1)},
        groups,
    )


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

    Returns
    -------
    LabelledFederation

    Raises
    ------
    ValueError
        If there are too few images, or an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> make_rotated_digits(rng=np.random.default_rng(0))
    LabelledFederation('digits rotated', M=60, N=1440+300, p=64, classes=10, groups=4)
    """
    if not check_flag(reuse, "reuse"):
        return make_rotated_images(
            "digits",
            n_clients=n_clients,
            n_train=n_train,
            n_test=n_test,
            rotations=rotations,
            weights=weights,
            pool=1,
            rng=rng,
        )
    n_clients, n_train, n_test = _sizes(n_clients, n_train, n_test)
    check_fits(n_clients * 4000, "n_clients")  # a random number for each client and image
    turns = _quarter_turns(rotations)
    groups = _group_of_clients(n_clients, len(turns), weights)
    check_rng(rng)
    source = IMAGE_SOURCES["digits"]
    images, classes = source.read("all")
    order = rng.permutation(len(images))
    n_held = math.ceil(len(images) * n_test / (n_train + n_test))
    parts = {"test": order[:n_held], "train": order[n_held:]}
    points, labels, offsets = {}, {}, {}
    for split, size in (("train", n_train), ("test", n_test)):
        part = parts[split]
        if size > len(part):
            raise ValueError(
                f"n_{split} must be <= {len(part)}, the {split} images left by n_train and n_test"
            )
        keys = rng.random((n_clients, len(part)))
        chosen = part[np.argpartition(keys, size - 1, axis=1)[:, :size].ravel()]
        points[split] = _turned(images[chosen], groups, turns, 1, source)
        labels[split] = classes[chosen]
        offsets[split] = size * np.arange(n_clients + 1)
    return _image_federation(
        source,
        "digits rotated",
        f"groups see the images turned by {', '.join(str(90 * turn) for turn in turns)} degrees; "
        "clients share images",
        points,
        labels,
        offsets,
        groups,
    )


def make_dirichlet_federation(
    dataset: str,
    *,
    n_clients: int = 1000,
    concentration: float = 0.5,
    n_images: int | None = None,
    test_share: float = 1 / 7,
    min_size: int = 10,
    pool: int = 2,
    rng: np.random.Generator,
) -> LabelledFederation:
    """Clients with different mixes of labels: class shares follow a Dirichlet law (Section 5.1).

    Training and test files are taken together and split with `partition_dirichlet`; then each
    client keeps a random `test_share` of its images (rounded down, at least one) for testing. There
    are no true groups, and clients differ in size. The paper uses all of "emnist_bymerge" with
    concentration 0.5 (mild) and 0.1 (high heterogeneity).

    Parameters
    ----------
    dataset : str
        A key of `IMAGE_SOURCES`.
    n_clients : int, default 1000
    concentration : float
        > 0; a small one gives clients of few labels.
    n_images : int, optional
        Take only that many images, chosen at random.
    test_share : float
        Between 0 and 1.
    min_size : int, default 10
        Smallest number of images of a client, at least 2.
    pool : int, default 2
        Side of the blocks that are averaged. Images are scaled and centred as in
        `make_rotated_images`.
    rng : numpy.random.Generator

    Returns
    -------
    LabelledFederation

    Raises
    ------
    ValueError
        If there are too few images, or an argument is out of range.
    DatasetUnavailableError
        If a file is not here and cannot be downloaded.

    Examples
    --------
    >>> import numpy as np
    >>> make_dirichlet_federation("digits", n_clients=30, pool=1, rng=np.random.default_rng(0))
    LabelledFederation('digits dirichlet', M=30, N=1554+243, p=64, classes=10)
    """
    source = IMAGE_SOURCES[check_choice(dataset, "dataset", tuple(IMAGE_SOURCES))]
    n_clients = check_int(n_clients, "n_clients")
    concentration = check_positive(concentration, "concentration")
    if n_images is not None:
        n_images = check_int(n_images, "n_images")
    test_share = check_real(test_share, "test_share")
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must lie in (0, 1), got {test_share}")
    min_size = check_int(min_size, "min_size", minimum=2)
    pool = check_int(pool, "pool", maximum=16)
    check_rng(rng)
    files = [source.read(split) for split in source.splits]
    images = np.concatenate([pixels for pixels, _ in files])
    classes = np.concatenate([labels for _, labels in files])
    if n_images is not None:
        chosen = _deal(len(images), n_images, "images", rng)
        images, classes = images[chosen], classes[chosen]
    client_of = partition_dirichlet(classes, n_clients, concentration, rng=rng, min_size=min_size)
    sizes = np.bincount(client_of, minlength=n_clients)
    n_test = np.maximum((test_share * sizes).astype(np.int64), 1)
    # by client, in random order within each: the first n_test of a client are for testing
    order = rng.permutation(len(images))
    order = order[np.argsort(client_of[order], kind="stable")]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = rank < np.repeat(n_test, sizes)
    rows = {"train": order[~held], "test": order[held]}
    return _image_federation(
        source,
        f"{dataset} dirichlet",
        f"class shares of the clients follow Dirichlet({concentration:g})",
        {split: _scaled(images[rows[split]], pool, source) for split in _SPLITS},
        {split: classes[rows[split]] for split in _SPLITS},
        {"train": _offsets(sizes - n_test), "test": _offsets(n_test)},
        None,
    )


def _sizes(n_clients: int, n_train: int, n_test: int) -> tuple[int, int, int]:
    n_clients = check_int(n_clients, "n_clients")
    n_train, n_test = check_int(n_train, "n_train"), check_int(n_test, "n_test")
    check_fits(n_clients * (n_train + n_test), "n_clients, n_train and n_test")
    return n_clients, n_train, n_test


def _quarter_turns(rotations: Sequence[int]) -> list[int]:
    if not is_sequence(rotations):
        raise TypeError("rotations must be a sequence of multiples of 90 degrees")
    angles = [check_int(angle, "rotations", minimum=0, maximum=270) for angle in rotations]
    if not angles or len(set(angles)) < len(angles) or any(angle % 90 for angle in angles):
        raise ValueError("rotations must be different multiples of 90 degrees from 0 to 270")
    return [angle // 90 for angle in angles]


def _deal(n: int, wanted: int, what: str, rng: np.random.Generator) -> IntArray:
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
    images: NDArray[np.uint8],
    groups: IntArray,
    turns: list[int],
    pool: int,
    source: ImageSource,
) -> FloatArray:
    """Scaled images, those of each group turned as a whole; clients own equal runs of them."""
    points = _scaled(images, pool, source)
    group_of = np.repeat(groups, len(images) // len(groups))
    # groups are runs of clients, so each is one slice
    ends = np.cumsum(np.bincount(group_of, minlength=len(turns)))
    for turn, start, end in zip(turns, [0, *ends[:-1]], ends, strict=True):
        if turn:
            points[start:end] = np.rot90(points[start:end], turn, axes=(1, 2)).copy()
    return points


def _image_federation(
    source: ImageSource,
    name: str,
    description: str,
    points: dict[str, FloatArray],
    labels: dict[str, IntArray],
    offsets: dict[str, IntArray],
    groups: IntArray | None,
) -> LabelledFederation:
    shape = points["train"].shape[1:]
    if source.dataset == "digits":
        digits = load_digits()
        origin, licence, citation = digits.source, digits.licence, digits.citation
    else:
        entry = next(e for e in registry().values() if e.dataset == source.dataset)
        origin, licence, citation = entry.url, entry.licence, entry.citation
    return LabelledFederation(
        name=name,
        description=description,
        train_points=points["train"].reshape(-1, math.prod(shape)),
        train_offsets=offsets["train"],
        train_labels=labels["train"],
        test_points=points["test"].reshape(-1, math.prod(shape)),
        test_offsets=offsets["test"],
        test_labels=labels["test"],
        n_classes=source.n_classes,
        feature_shape=shape,
        bound=1.0,
        bound_note=f"pixels are coded 0..{source.levels}, scaled to [0, 1] less {source.mean:g}",
        groups=groups,
        source=origin,
        licence=licence,
        citation=citation,
        copy=False,
    )


# --- text ----------------------------------------------------------------------------------------


def make_shakespeare_roles(
    n_roles: int | None = None,
    *,
    min_characters: int = 1000,
    n_train: int = 120,
    n_test: int = 20,
    window: int = 20,
    rng: np.random.Generator,
) -> LabelledFederation:
    """Speaking roles as clients that predict the next character (Section 5.1).

    The text of a role is all its speeches in the order of the file, each on lines of its own. An
    example is `window` characters of it and the one that follows; where the text has no earlier
    character, the window begins with padding. Characters to predict are drawn at random without
    replacement: training ones from the first ``n_train / (n_train + n_test)`` of the text, test
    ones from the rest, so no test character was read or predicted in training.

    *Differences.* The paper takes 300 roles of the LEAF corpus; in tinyshakespeare 141 roles have
    1000 characters or more, 227 have 200. A role that occurs in several plays is one client.

    Parameters
    ----------
    n_roles : int, optional
        Number of clients M, drawn at random among the roles that are long enough; all if not given.
    min_characters : int, default 1000
        Roles with a shorter text are left out.
    n_train, n_test : int
        Examples of each client.
    window : int, default 20
        Number p of characters that are read.
    rng : numpy.random.Generator

    Returns
    -------
    LabelledFederation
        Points hold codes of characters: position in `ALPHABET` plus 1, or 0 for padding. Labels are
        codes too, so there are 66 classes and class 0 never occurs. Clients are in alphabetical
        order of the roles. There are no true groups.

    Raises
    ------
    ValueError
        If `min_characters` is too small for the examples wanted, or there are too few roles.
    DatasetUnavailableError
        If the file is not here and cannot be downloaded.
    """
    if n_roles is not None:
        n_roles = check_int(n_roles, "n_roles")
    min_characters = check_int(min_characters, "min_characters")
    _, n_train, n_test = _sizes(1, n_train, n_test)
    window = check_int(window, "window")
    # 309 roles at most, each with n_train + n_test windows, and their codes
    check_fits(309 * (n_train + n_test) * (window + 1) * 3, "window, n_train and n_test")
    if n_train + n_test > min_characters:
        raise ValueError(f"min_characters must be >= n_train + n_test = {n_train + n_test}")
    check_rng(rng)

    speeches: dict[str, list[str]] = {}
    for speaker, speech in load_tinyshakespeare():
        if speech:
            speeches.setdefault(speaker, []).append(speech)
    texts = ["\n".join(speeches[role]) + "\n" for role in sorted(speeches)]
    texts = [text for text in texts if len(text) >= min_characters]
    if len(texts) < (n_roles or 1):
        raise ValueError(
            f"only {len(texts)} roles have min_characters = {min_characters} or more: it must be"
            " smaller" + ("" if n_roles is None else f", or n_roles, got {n_roles}")
        )
    if n_roles is not None:
        texts = [texts[i] for i in np.sort(rng.choice(len(texts), n_roles, replace=False))]

    code_of = np.zeros(128, dtype=np.int64)
    code_of[[ord(character) for character in ALPHABET]] = np.arange(1, len(ALPHABET) + 1)
    codes = code_of[np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8)]
    sizes = np.array([len(text) for text in texts])
    first = np.cumsum(sizes) - sizes
    role_of = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(codes)) - first[role_of]
    early = place < (sizes * n_train // (n_train + n_test))[role_of]
    points, labels = {}, {}
    for split, part, size in (("train", early, n_train), ("test", ~early, n_test)):
        # random order within each role, then the first `size` of each
        rows = np.flatnonzero(part)
        rows = rows[np.lexsort((rng.random(len(rows)), role_of[rows]))]
        counts = np.bincount(role_of[rows], minlength=len(sizes))
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = rows[rank < size]
        read = rows[:, None] + np.arange(-window, 0)
        inside = read >= first[role_of[rows], None]
        points[split] = np.where(inside, codes[np.maximum(read, 0)], 0).astype(np.float64)
        labels[split] = codes[rows]
    entry = registry()["tinyshakespeare/input.txt"]
    return LabelledFederation(
        name="shakespeare roles",
        description=f"speaking roles predict the character after {window} others",
        train_points=points["train"],
        train_offsets=n_train * np.arange(len(sizes) + 1),
        train_labels=labels["train"],
        test_points=points["test"],
        test_offsets=n_test * np.arange(len(sizes) + 1),
        test_labels=labels["test"],
        n_classes=len(ALPHABET) + 1,
        feature_shape=(window,),
        bound=float(len(ALPHABET)),
        bound_note="codes 0..65 of a fixed alphabet",
        groups=None,
        source=entry.url,
        licence=entry.licence,
        citation=entry.citation,
        copy=False,
    )


# --- lines ---------------------------------------------------------------------------------------


def make_lines(
    n_clients: int = 1000,
    *,
    n_train: int = 20,
    n_test: int = 10,
    lines: ArrayLike = LINES,
    weights: ArrayLike | None = None,
    noise: float = 0.3,
    rng: np.random.Generator,
) -> LabelledFederation:
    """Clients on noisy lines, y = a x + b + N(0, noise^2) with x uniform in [-1, 1] (App. D.3).

    The paper gives neither lines, noise, x nor weights. Ours: `LINES`, ``noise=0.3`` (easy to
    cluster) or 1.5 (hard), and ``weights=(4, 4, 1, 1)`` for the imbalanced case.

    Parameters
    ----------
    n_clients, n_train, n_test : int
    lines : array_like of shape (n_groups, 2)
        Slope a and intercept b of each group.
    weights : array_like of shape (n_groups,), optional
        Sizes of the groups, up to a factor; equal if not given.
    noise : float, default 0.3
        Standard deviation, >= 0.
    rng : numpy.random.Generator

    Returns
    -------
    LabelledFederation
        Two columns: x, and the target y last. `groups` are rows of `lines`. A target exceeds
        `bound` with probability below 1e-8.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> make_lines(8, rng=np.random.default_rng(0))
    LabelledFederation('lines', M=8, N=160+80, p=1, regression, groups=4)
    """
    n_clients, n_train, n_test = _sizes(n_clients, n_train, n_test)
    models = as_points(lines, "lines", n_features=2)
    groups = _group_of_clients(n_clients, len(models), weights)
    noise = check_non_negative(noise, "noise")
    if noise > 0:
        check_moderate(noise, "noise")
    check_moderate(max(float(np.abs(models).max()), 1.0), "lines")
    check_fits(8 * n_clients * (n_train + n_test), "n_clients, n_train and n_test")
    check_rng(rng)
    points = {}
    for split, size in (("train", n_train), ("test", n_test)):
        slope, intercept = np.repeat(models[groups], size, axis=0).T
        x = rng.uniform(-1.0, 1.0, n_clients * size)
        y = slope * x + intercept + noise * rng.standard_normal(len(x))
        points[split] = np.column_stack([x, y])
    largest = float(np.abs(models).sum(axis=1).max()) + 6 * noise
    return LabelledFederation(
        name="lines",
        description=f"clients on {len(models)} lines with noise {noise:g}",
        train_points=points["train"],
        train_offsets=n_train * np.arange(n_clients + 1),
        train_labels=None,
        test_points=points["test"],
        test_offsets=n_test * np.arange(n_clients + 1),
        test_labels=None,
        n_classes=None,
        feature_shape=(1,),
        bound=max(largest, 1.0),
        bound_note="largest target without noise plus six standard deviations of it",
        groups=groups,
        source="generated",
        licence="generated, no restriction",
        citation=PAPER,
        copy=False,
    )
