"""Speaking roles and noisy lines as clients (RR-Cluster, Section 5.1 and App. D.3)."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import IntArray, as_points, check_int, check_non_negative
from studies.paper_data.files import entry_of, fetch
from studies.paper_data.records import GENERATED, LabelledFederation, apportion, as_weights

PAPER = (
    "X. Yang, S. Hu, S. Kim and T. Li, Differentially private federated clustering with random "
    "rebalancing"
)

LINES = ((3.0, 2.0), (1.0, -1.0), (-1.0, 1.0), (-3.0, -2.0))
"""Slope and intercept of the four lines of `make_lines`; the paper does not list its own."""

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The 65 characters of tinyshakespeare. Character i has code i + 1; code 0 is padding."""


def load_tinyshakespeare() -> tuple[tuple[str, str], ...]:
    """All 7222 speeches of tinyshakespeare as (speaker, text), in the order of the file.

    Where the file gives a name only, the text is empty. Speakers are the 309 names of the file; one
    that occurs in several plays, such as "First Citizen", is one speaker.

    Raises as `files.fetch` does.
    """
    text = fetch("tinyshakespeare/input.txt").read_text(encoding="ascii").strip()
    blocks = (block.partition("\n") for block in re.split(r"\n{2,}", text))
    return tuple((speaker.removesuffix(":"), speech) for speaker, _, speech in blocks)


def check_sizes(n_clients: int, n_train: int, n_test: int) -> None:
    """At least one client, one training and one test example."""
    for value, name in ((n_clients, "n_clients"), (n_train, "n_train"), (n_test, "n_test")):
        check_int(value, name)


def group_of_clients(n_clients: int, n_groups: int, weights: ArrayLike | None) -> IntArray:
    """Group of each client, in runs; sizes follow the weights, each group has a client."""
    share = np.ones(n_groups)
    if weights is not None:
        share = as_weights(weights, "weights", n=n_groups, of="group (rotations, lines)")
    if n_clients < n_groups:
        raise ValueError(f"n_clients must be >= {n_groups}, the number of groups, got {n_clients}")
    return repeat(np.arange(n_groups), apportion(n_clients, share))


@checked
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
    check_sizes(1 if n_roles is None else n_roles, n_train, n_test)
    check_int(window, "window")
    if n_train + n_test > min_characters:
        raise ValueError(f"min_characters must be >= n_train + n_test = {n_train + n_test}")

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
    role_of = repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(codes)) - first[role_of]
    early = place < (sizes * n_train // (n_train + n_test))[role_of]
    points, labels = {}, {}
    for split, part, size in (("train", early, n_train), ("test", ~early, n_test)):
        # random order within each role, then the first `size` of each
        rows = np.flatnonzero(part)
        rows = rows[np.lexsort((rng.random(len(rows)), role_of[rows]))]
        counts = bincount(role_of[rows], minlength=len(sizes))
        rank = np.arange(len(rows)) - repeat(np.cumsum(counts) - counts, counts)
        rows = rows[rank < size]
        read = rows[:, None] + np.arange(-window, 0)
        inside = read >= first[role_of[rows], None]
        points[split] = np.where(inside, codes[np.maximum(read, 0)], 0).astype(np.float64)
        labels[split] = codes[rows]
    entry = entry_of("tinyshakespeare")
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
    )


@checked
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
    check_sizes(n_clients, n_train, n_test)
    models = as_points(lines, "lines", n_features=2)
    groups = group_of_clients(n_clients, len(models), weights)
    check_non_negative(noise, "noise")
    points = {}
    for split, size in (("train", n_train), ("test", n_test)):
        slope, intercept = repeat(models[groups], size, axis=0).T
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
        **GENERATED,
        citation=PAPER,
    )
