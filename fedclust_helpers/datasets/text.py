"""Text as points: Shakespeare's speaking roles (small), Stack Overflow users (the paper's).

Both put every text on the unit sphere, so the radius 1 is public. The map from text to points must
be public as well: the Shakespeare features are fitted on plays that belong to the server only, the
Stack Overflow ones come from a pretrained sentence model.
"""

from __future__ import annotations

import importlib
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_int,
    check_rng,
)
from fedclust_helpers.datasets._checks import check_fits, check_text, is_sequence
from fedclust_helpers.datasets._files import fetch, registry
from fedclust_helpers.datasets.federated import INSIDE, FederatedDataset, _in_distribution, _offsets

_SHAKESPEARE = "tinyshakespeare/input.txt"
_FIRST_PUBLIC_SPEAKER = "SLY"  # opens The Taming of the Shrew, which The Tempest follows

STACKOVERFLOW_URL = "https://storage.googleapis.com/tff-datasets-public/stackoverflow.sqlite.lzma"
"""Stack Overflow posts by user, as TensorFlow Federated publishes them (several gigabytes)."""

STACKOVERFLOW_TAGS = (
    ("machine-learning", "math"),
    ("github", "pdf"),
    ("facebook", "hibernate"),
    ("plotting", "cookies"),
)
"""The four pairs of tags of the paper: 10394, 9237, 23266 and 2720 clients."""

SENTENCE_MODEL = "all-MiniLM-L6-v2"
"""Sentence model of the paper, 384 features of unit length."""


# --- Shakespeare ---------------------------------------------------------------------------------


def load_tinyshakespeare() -> tuple[tuple[str, str], ...]:
    """All 7222 speeches of tinyshakespeare as (speaker, text), in the order of the file.

    Where the file gives a name only, the text is empty. Speakers are the 309 names of the file; one
    that occurs in several plays, such as "First Citizen", is one speaker.

    Raises
    ------
    ValueError
        If the file does not have the registered sha256.
    DatasetUnavailableError
        If the file is not here and cannot be downloaded.
    """
    text = fetch(_SHAKESPEARE).read_text(encoding="ascii").strip()
    blocks = (block.partition("\n") for block in re.split(r"\n{2,}", text))
    return tuple((speaker.removesuffix(":"), speech) for speaker, _, speech in blocks)


def make_shakespeare_federation(
    *,
    n_features: int = 50,
    min_speeches: int = 20,
    n_clusters: int = 10,
    server_in: int = 20,
    server_out: int = 500,
    rng: np.random.Generator,
) -> FederatedDataset:
    """Speaking roles as clients, speeches as rows; two other plays are the public text.

    The last two plays of tinyshakespeare, *The Taming of the Shrew* and *The Tempest* (1176
    speeches), are public. On them alone a TF-IDF weighting (English stop words left out, words in
    at least two speeches, logarithmic counts) and a truncated singular value decomposition are
    fitted. Every other speech is mapped with that fixed map and scaled to length 1, one speech at
    a time, which a client can do on its own. Speeches without any word of the public vocabulary
    have no direction and are left out.

    Parameters
    ----------
    n_features : int, default 50
        Number of singular vectors d.
    min_speeches : int, default 20
        Roles with fewer usable speeches are left out.
    n_clusters : int, default 10
    server_in, server_out : int
        Server points taken at random out of the clients' speeches, and out of the public plays.
    rng : numpy.random.Generator
        Also seeds the randomised decomposition.

    Returns
    -------
    FederatedDataset
        Clients in alphabetical order of the roles; a role spans the plays it occurs in.

    Raises
    ------
    ValueError
        If an argument is out of range, no role has `min_speeches` usable speeches, or the file
        does not have the registered sha256.
    DatasetUnavailableError
        If the file is not here and cannot be downloaded.
    """
    n_features = check_int(n_features, "n_features", maximum=1000)
    min_speeches = check_int(min_speeches, "min_speeches")
    n_clusters = check_int(n_clusters, "n_clusters", maximum=7222)
    server_in = check_int(server_in, "server_in", minimum=0)
    server_out = check_int(server_out, "server_out", minimum=0)
    if server_in + server_out == 0:
        raise ValueError("server_in and server_out must leave the server a point")
    check_rng(rng)
    speeches = load_tinyshakespeare()
    first = next(i for i, (who, _) in enumerate(speeches) if who == _FIRST_PUBLIC_SPEAKER)
    words = TfidfVectorizer(min_df=2, stop_words="english", sublinear_tf=True)
    counts = words.fit_transform([text for _, text in speeches[first:]])
    svd = TruncatedSVD(n_features, random_state=int(rng.integers(2**31)))
    public, _ = _on_sphere(svd.fit_transform(counts))
    private, usable = _on_sphere(svd.transform(words.transform([t for _, t in speeches[:first]])))

    names = np.array([who for who, _ in speeches[:first]])[usable]
    roles, role_of, sizes = np.unique(names, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(sizes[role_of] >= min_speeches)
    if len(kept) == 0:
        raise ValueError(f"min_speeches must be <= {sizes.max()}, the longest role")
    for name, size, limit in (
        ("server_in", server_in, len(kept) - 1),
        ("server_out", server_out, len(public)),
    ):
        if size > limit:
            raise ValueError(f"{name} must be <= {limit}, the usable speeches, got {size}")
    taken = rng.choice(kept, server_in, replace=False)
    rest = np.setdiff1d(kept, taken)
    rest = rest[np.argsort(role_of[rest], kind="stable")]
    left = np.bincount(role_of[rest], minlength=len(roles))
    entry = registry()[_SHAKESPEARE]
    return FederatedDataset(
        name="shakespeare",
        points=private[rest],
        offsets=_offsets(left[left > 0]),
        server_points=np.vstack(
            [private[taken], public[rng.choice(len(public), server_out, replace=False)]]
        ),
        n_clusters=n_clusters,
        radius=1.0,
        radius_note="every speech is scaled to length 1",
        in_distribution=_in_distribution(server_in, server_out),
        source=entry.url,
        licence=entry.licence,
        citation=entry.citation,
        copy=False,
    )


def _on_sphere(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Rows scaled to length 1 without the zero rows, and the indices of those kept."""
    length = np.linalg.norm(rows, axis=1)
    usable = np.flatnonzero(length > 1e-9)
    return rows[usable] * (INSIDE / length[usable, None]), usable


# --- Stack Overflow ------------------------------------------------------------------------------


def load_stackoverflow_posts(
    path: str | PathLike[str],
    tags: tuple[str, str],
    *,
    split: str = "train",
    match: str = "any",
    embed: Callable[[list[str]], ArrayLike] | None = None,
    n_clusters: int = 10,
    server_out: int = 1000,
    server_per_tag: int = 10,
    rng: np.random.Generator,
) -> FederatedDataset:
    """Posts of Stack Overflow users about two topics, as sentence embeddings (App. G.1).

    Clients are the users with at least one post that has one of the two tags, and hold those posts
    only. The server has `server_per_tag` posts of each tag, taken out of the clients' data, and
    `server_out` posts of any users with neither tag.

    *The file.* Download `STACKOVERFLOW_URL` and unpack it, for example with
    ``xz --format=lzma -d``. No hash of it was verified by us. Its table ``examples`` has the text
    columns ``split_name`` ("train", "heldout", "test") and ``client_id`` and the blob
    ``serialized_example_proto``: a ``tf.train.Example`` with the byte strings ``tokens`` (the
    text), ``tags`` (separated by "|"), ``title``, ``type`` ("question" or "answer") and
    ``creation_date``, and the integer ``score``. One row is one *sentence* of a question or an
    answer; like the authors' code, this function takes each row for a post.

    *Differences.* The paper keeps posts with either tag; its code keeps those whose *first* tag is
    one of the two (``match="first"``), takes the first 1000 posts with neither tag instead of
    random ones, and draws the 20 others with replacement and without stratification.

    Parameters
    ----------
    path : path
        The unpacked database; opened for reading only.
    tags : tuple of two str
        For example one of `STACKOVERFLOW_TAGS`.
    split : str, default "train"
    match : {"any", "first"}, default "any"
    embed : callable, optional
        Maps a list of n texts to an array of shape (n, d). By default the sentence model of the
        paper (`SENTENCE_MODEL`) from the package sentence-transformers. Must be public: it may not
        be fitted on the clients' posts. Rows are scaled to length 1; a row of zeros stays.
    n_clusters : int, default 10
    server_out, server_per_tag : int
    rng : numpy.random.Generator

    Returns
    -------
    FederatedDataset
        Clients in alphabetical order of ``client_id``. `labels` tell which tag a post has: 0 or 1,
        the one named first on the post if it has both.

    Raises
    ------
    FileNotFoundError
        If there is no file at `path`.
    ImportError
        If `embed` is not given and sentence-transformers is not installed.
    ValueError
        If the file has another layout, too few posts match, or an argument is out of range.
    """
    if not is_sequence(tags) or len(tags) != 2 or tags[0] == tags[1] or not all(tags):
        raise ValueError("tags must be two different tags")
    for tag in tags:
        check_text(tag, "tags")
    check_text(split, "split")
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}")
    if embed is not None and not callable(embed):
        raise TypeError("embed must be a function of a list of texts")
    check_choice(match, "match", ("any", "first"))
    n_clusters = check_int(n_clusters, "n_clusters")
    server_out = check_int(server_out, "server_out", minimum=0)
    server_per_tag = check_int(server_per_tag, "server_per_tag", minimum=0)
    if server_out + server_per_tag == 0:
        raise ValueError("server_out and server_per_tag must leave the server a point")
    check_fits(100 * server_out, "server_out")
    check_rng(rng)
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path must be the unpacked file of {STACKOVERFLOW_URL}")
    if embed is None:
        embed = _sentence_model()
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        try:
            users, texts, labels = _tagged_posts(database, tags, split, match)
            foreign = _other_posts(database, tags, split, server_out, rng)
        except sqlite3.DatabaseError as error:
            raise ValueError(
                "path must be an SQLite file with the table examples(split_name, client_id, "
                "serialized_example_proto)"
            ) from error

    taken = []
    for label, tag in enumerate(tags):
        own = np.flatnonzero(labels == label)
        if len(own) < server_per_tag:
            raise ValueError(f"server_per_tag must be <= {len(own)}, the posts tagged {tag!r}")
        taken.append(rng.choice(own, server_per_tag, replace=False))
    server_rows = np.concatenate(taken)
    rest = np.setdiff1d(np.arange(len(texts)), server_rows)
    if len(rest) == 0:
        raise ValueError(f"tags must leave the clients a post in split {split!r}")
    rest = rest[np.argsort(users[rest], kind="stable")]
    _, sizes = np.unique(users[rest], return_counts=True)
    everything = [texts[i] for i in (*server_rows, *rest)] + foreign
    points = _embedded(embed, everything)
    n_in = len(server_rows)
    return FederatedDataset(
        name=f"stackoverflow_{tags[0]}_{tags[1]}",
        points=points[n_in : n_in + len(rest)],
        offsets=_offsets(sizes),
        server_points=np.vstack([points[:n_in], points[n_in + len(rest) :]]),
        n_clusters=n_clusters,
        radius=1.0,
        radius_note="every embedding is scaled to length 1",
        in_distribution=_in_distribution(n_in, len(foreign)),
        source=STACKOVERFLOW_URL,
        licence="CC BY-SA 3.0",
        citation="Stack Overflow users; data set of TensorFlow Federated",
        labels=labels[rest],
        copy=False,
    )


def _sentence_model() -> Callable[[list[str]], ArrayLike]:
    try:
        package = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise ImportError(
            "The default embedding needs the package sentence-transformers (and downloads the "
            f"model {SENTENCE_MODEL}). Install it, or pass your own public map as embed="
        ) from error
    return package.SentenceTransformer(SENTENCE_MODEL).encode


def _embedded(embed: Callable[[list[str]], ArrayLike], texts: list[str]) -> FloatArray:
    points = as_points(embed(texts), "the result of embed")
    if len(points) != len(texts):
        raise ValueError(f"embed must return one row per text ({len(texts)}), got {len(points)}")
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return points * (INSIDE / np.where(length > 0, length, 1.0))


def _tagged_posts(
    database: sqlite3.Connection, tags: tuple[str, str], split: str, match: str
) -> tuple[NDArray[np.str_], list[str], IntArray]:
    """User, text and tag (0 or 1) of every post of the split with one of the tags."""
    # the search in the raw bytes runs inside SQLite and leaves few rows to parse
    rows = database.execute(
        "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ? AND "
        "(instr(serialized_example_proto, ?) OR instr(serialized_example_proto, ?)) ORDER BY rowid",
        (split, *(tag.encode() for tag in tags)),
    )
    users, texts, labels = [], [], []
    for user, blob in rows:
        text, own = _parse_post(blob)
        found = [tags.index(tag) for tag in (own if match == "any" else own[:1]) if tag in tags]
        if found:
            users.append(user)
            texts.append(text)
            labels.append(found[0])
    return np.array(users, dtype=np.str_), texts, np.array(labels, dtype=np.int64)


def _other_posts(
    database: sqlite3.Connection,
    tags: tuple[str, str],
    split: str,
    size: int,
    rng: np.random.Generator,
) -> list[str]:
    """Texts of `size` random posts of the split that have neither tag."""
    low, high = database.execute("SELECT min(rowid), max(rowid) FROM examples").fetchone()
    if low is None:
        raise ValueError("path must be a file with at least one post")
    query = "SELECT serialized_example_proto FROM examples WHERE rowid = ? AND split_name = ?"
    found: list[str] = []
    seen: set[int] = set()
    # random row numbers until enough fit; most do, so the file is hardly read
    while len(found) < size and len(seen) <= high - low:
        for number in rng.integers(low, high, size=2 * size, endpoint=True).tolist():
            if number in seen or len(found) == size:
                continue
            seen.add(number)
            row = database.execute(query, (number, split)).fetchone()
            if row is not None:
                text, own = _parse_post(row[0])
                if not set(own) & set(tags):
                    found.append(text)
    if len(found) < size:
        raise ValueError(f"server_out must be <= {len(found)}, the posts with neither tag")
    return found


def _parse_post(blob: bytes) -> tuple[str, list[str]]:
    """Text and tags of a serialised ``tf.train.Example``."""
    features = _parse_example(blob)
    if "tokens" not in features or "tags" not in features:
        raise ValueError("path must hold posts with the byte features tokens and tags")
    return features["tokens"].decode(), features["tags"].decode().split("|")


def _parse_example(blob: bytes) -> dict[str, bytes]:
    """Byte features of a serialised ``tf.train.Example``, the first value of each.

    The message nests as Example.features (1) > Features.feature (1, a map: key 1, value 2) >
    Feature.bytes_list (1) > BytesList.value (1). Numbers in parentheses are field numbers.
    """
    found = {}
    for features in _field(blob, 1):
        for item in _field(features, 1):
            keys, values = _field(item, 1), _field(item, 2)
            texts = [
                text for value in values for bag in _field(value, 1) for text in _field(bag, 1)
            ]
            if keys and texts:
                found[keys[0].decode()] = texts[0]
    return found


def _field(message: bytes, number: int) -> list[bytes]:
    """All length-delimited values of one field of a protocol buffer message."""
    values, position = [], 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == 0:  # a number: read it to know where it ends
            _, position = _varint(message, position)
            continue
        if kind == 2:
            size, position = _varint(message, position)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("path must hold posts as serialised tf.train.Example messages")
        end = position + size
        if end > len(message):
            raise ValueError("path must hold posts that are not cut off")
        if kind == 2 and key >> 3 == number:
            values.append(message[position:end])
        position = end
    return values


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Integer in groups of 7 bits, lowest first, and the position after it."""
    value = shift = 0
    while position < len(message):
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ValueError("path must hold posts that are not cut off")
