"""Labelled images and federations of labelled clients, against made data with a known answer.

Tests that need a downloaded file skip, and say which one, where it is not on this machine. EMNIST
and CIFAR are read from small files of the real format.
"""

import dataclasses
import gzip
import hashlib
import io
import tarfile
import zipfile
from functools import partial
from itertools import product

import numpy as np
import pytest
from conftest import refuses
from conftest import seeded as rng
from scipy.stats import chi2, kstest

from studies import paper_data
from studies.paper_data import files, roles_and_lines
from studies.paper_data import images as labelled
from studies.paper_data.images import IMAGE_SOURCES, ImageSource


def serve(monkeypatch, tmp_path, file, content):
    """Put a made file where a registered one is looked for, with its hash in the registry."""
    path = tmp_path / file
    path.parent.mkdir()
    path.write_bytes(content)
    entries = dict(paper_data.registry())
    sha256 = hashlib.sha256(content).hexdigest()
    entries[file] = dataclasses.replace(entries[file], sha256=sha256, bytes=len(content))
    monkeypatch.setattr(files, "registry", lambda: entries)
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(tmp_path))


# ---- files -------------------------------------------------------------------------------------


def idx(array):
    """An array of bytes as compressed IDX."""
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def emnist_file(parts):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("gzip/emnist-letters-train-images-idx3-ubyte.gz", b"never read")
        for (subset, split), (images, labels) in parts.items():
            stem = f"gzip/emnist-{subset}-{split}"
            archive.writestr(f"{stem}-images-idx3-ubyte.gz", idx(images))
            archive.writestr(f"{stem}-labels-idx1-ubyte.gz", idx(labels))
    return stream.getvalue()


def test_emnist_subsets_are_read_upright_from_the_zip(monkeypatch, tmp_path):
    stored = product(("balanced", "bymerge", "byclass"), ("train", "test"))
    parts = {
        key: (rng(i).integers(256, size=(4 + i, 28, 28), dtype=np.uint8),
              rng(i).integers(47, size=4 + i, dtype=np.uint8))
        for i, key in enumerate(stored)
    }  # fmt: skip
    serve(monkeypatch, tmp_path, "emnist/gzip.zip", emnist_file(parts))
    for (subset, split), (stored, labels) in parts.items():
        source = IMAGE_SOURCES[f"emnist_{subset}"]
        upright, found = source.read(split)
        assert source.n_classes == (62 if subset == "byclass" else 47)
        np.testing.assert_array_equal(upright[:, 3, 20], stored[:, 20, 3])
        np.testing.assert_array_equal(upright.transpose(0, 2, 1), stored)
        np.testing.assert_array_equal(found, labels)


def cifar_file(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(("name", "n_label_bytes", "folder"), [
    ("cifar10", 1, "cifar-10-batches-bin"), ("cifar100", 2, "cifar-100-binary"),
])  # fmt: skip
def test_cifar_batches_are_in_order_and_colours_last(
    monkeypatch, tmp_path, name, n_label_bytes, folder
):
    """A record: labels, of which the last is the finest, then the planes of the three colours."""
    train = [f"data_batch_{i}" for i in range(1, 6)] if n_label_bytes == 1 else ["train"]
    test = "test_batch" if n_label_bytes == 1 else "test"
    batches = {  # the order in the archive is not that of the batches
        batch: rng(i).integers(10, size=(2 + i, n_label_bytes + 3072), dtype=np.uint8)
        for i, batch in enumerate((test, *train[::-1]))
    }
    members = {f"{folder}/{batch}.bin": rows.tobytes() for batch, rows in batches.items()}
    file = f"{name}/{name[:5]}-{name[5:]}-binary.tar.gz"
    serve(monkeypatch, tmp_path, file, cifar_file({f"{folder}/readme.html": b"<html>"} | members))
    for split, parts in (("train", train), ("test", [test])):
        images, labels = IMAGE_SOURCES[name].read(split)
        rows = np.concatenate([batches[batch] for batch in parts])
        assert images.shape == (len(rows), 32, 32, 3)
        np.testing.assert_array_equal(labels, rows[:, n_label_bytes - 1])
        planes = rows[:, n_label_bytes:].reshape(-1, 3, 32, 32)
        np.testing.assert_array_equal(images, planes.transpose(0, 2, 3, 1))
    load = partial(paper_data.load_images, name, "data_batch_1")
    refuses(ValueError, "split must be one of train, test", load)


# ---- rotated images ----------------------------------------------------------------------------

SIDE = 4


def numbered(n, first=1):
    """Images that are black but for the top left pixel, which holds the image's number."""
    images = np.zeros((n, SIDE, SIDE), dtype=np.uint8)
    images[:, 0, 0] = np.arange(first, first + n)
    return images, (np.arange(first, first + n) % 7).astype(np.int64)


@pytest.fixture
def numbered_images(monkeypatch):
    """Sources whose images can be told apart: 200 in one file; 120 and 80 in two."""
    split = {"train": numbered(120), "test": numbered(80, first=121)}
    sources = {
        "digits": ImageSource(lambda s: numbered(200), "digits", 7, 0.0, splits=("all",)),
        "two files": ImageSource(lambda s: split[s], "digits", 7, 0.0),
    }
    monkeypatch.setattr(labelled, "IMAGE_SOURCES", sources)


CORNER = {0: (0, 0), 90: (SIDE - 1, 0), 180: (SIDE - 1, SIDE - 1), 270: (0, SIDE - 1)}
"""Where the top left pixel goes when the image is turned counter-clockwise."""


def numbers_of(points):
    """The numbers of the images, and that nothing else is in them."""
    levels = np.rint(points * 255)
    np.testing.assert_allclose(points * 255, levels, atol=1e-9)
    assert ((levels > 0).sum(axis=1) == 1).all()
    return levels.max(axis=1).astype(int), levels.argmax(axis=1)


@pytest.mark.parametrize("name", ["digits", "two files"])
@pytest.mark.parametrize(
    ("rotations", "weights", "sizes"),
    [
        ((0, 90, 180, 270), None, [4, 4, 4, 4]),
        ((0, 90, 180), (2, 1, 1), [8, 4, 4]),
        ((270, 0), (3, 1), [12, 4]),
    ],
)
def test_images_are_dealt_once_and_turned_by_group(
    numbered_images, name, rotations, weights, sizes
):
    data = paper_data.make_rotated_images(
        name, n_clients=16, n_train=7, n_test=5, rotations=rotations, weights=weights, pool=1,
        rng=rng(3),
    )  # fmt: skip
    np.testing.assert_array_equal(np.bincount(data.groups), sizes)
    seen = {}
    for split, size in (("train", 7), ("test", 5)):
        points, offsets, labels = data.clients(split)
        np.testing.assert_array_equal(np.diff(offsets), size)
        numbers, places = numbers_of(points)
        np.testing.assert_array_equal(labels, numbers % 7)  # labels stay with their images
        corners = np.array([SIDE * row + column for row, column in map(CORNER.get, rotations)])
        np.testing.assert_array_equal(places, np.repeat(corners[data.groups], size))
        seen[split] = numbers
    everything = np.concatenate([seen["train"], seen["test"]])
    assert len(set(everything)) == len(everything) == 16 * 12
    if name == "two files":
        assert seen["train"].max() <= 120 < seen["test"].min()
    else:
        assert seen["train"].max() > 120  # one file: any image may be for training
    assert "turned by " + ", ".join(map(str, rotations)) in data.description


def test_reused_digits_never_train_on_a_test_image(numbered_images):
    data = paper_data.make_rotated_digits(40, n_train=30, n_test=10, reuse=True, rng=rng())
    seen = {}
    for split, size in (("train", 30), ("test", 10)):
        points, _, labels = data.clients(split)
        numbers, places = numbers_of(points)
        np.testing.assert_array_equal(labels, numbers % 7)
        assert all(len(set(own)) == size for own in numbers.reshape(40, size))
        corners = np.array([SIDE * row + column for row, column in CORNER.values()])
        np.testing.assert_array_equal(places, np.repeat(corners[data.groups], size))
        seen[split] = set(numbers)
    assert seen["train"].isdisjoint(seen["test"])
    assert len(seen["train"]) == 150 and len(seen["test"]) == 50  # every image is used by someone
    # equally often in expectation: 1200 draws over 150 images; false alarm 1e-6 (draws without
    # replacement vary less than the chi-square law allows)
    counts = np.bincount(numbers_of(data.train_points)[0])
    counts = counts[counts > 0]
    assert ((counts - 8) ** 2 / 8).sum() < chi2.isf(1e-6, 149)
    with pytest.raises(ValueError, match="n_train must be <= 150, the train images"):
        paper_data.make_rotated_digits(4, n_train=151, n_test=50, reuse=True, rng=rng())


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
@pytest.mark.parametrize("pool", [1, 2, 4, 8])
def test_pooling_is_the_mean_over_blocks(shape, pool):
    images = rng(1).integers(256, size=(5, *shape), dtype=np.uint8)
    images[0] = 255
    source = ImageSource(lambda s: (images, np.zeros(5)), "digits", 10, 0.25)
    found = labelled._scaled(images, pool, source)
    side = 8 // pool
    blocks = images.reshape(5, side, pool, side, pool, -1).mean(axis=(2, 4))
    np.testing.assert_allclose(found.reshape(blocks.shape), blocks / 255 - 0.25, atol=1e-14)
    assert found.shape == (5, side, side, *shape[2:])


# ---- Shakespeare -------------------------------------------------------------------------------


@pytest.fixture
def made_speeches(monkeypatch):
    """Two long roles and a short one; no 6 characters occur twice in a role."""
    texts = {}
    for seed, role in enumerate(("ROMEO", "Zeus", "Page")):
        size = 90 if role == "Page" else 400
        codes = rng(seed).integers(len(paper_data.ALPHABET), size=size - 3)
        texts[role] = "".join(np.array(list(paper_data.ALPHABET))[codes])
    halves = [(role, text[:50]) for role, text in texts.items()]
    halves += [("Page", "")] + [(role, text[50:]) for role, text in texts.items()]
    monkeypatch.setattr(roles_and_lines, "load_tinyshakespeare", lambda: tuple(halves))
    return {role: f"{text[:50]}\n{text[50:]}\n" for role, text in texts.items()}


def decoded(codes):
    return "".join(("_" + paper_data.ALPHABET)[int(code)] for code in codes)


@pytest.mark.parametrize("window", [6, 30])
def test_roles_predict_each_of_their_characters_once(made_speeches, window):
    assert {len(text) for text in made_speeches.values()} == {89, 399}
    data = paper_data.make_shakespeare_roles(
        min_characters=399, n_train=299, n_test=100, window=window, rng=rng()
    )
    assert data.n_clients == 2 and data.n_classes == 66 and data.bound == 65
    for client, role in enumerate(("ROMEO", "Zeus")):
        text = "_" * window + made_speeches[role]
        place_of = {text[i : i + window + 1]: i for i in range(399)}
        assert len(place_of) == 399
        found = {}
        for split, size in (("train", 299), ("test", 100)):
            rows = slice(size * client, size * (client + 1))
            points, _, labels = data.clients(split)
            found[split] = [
                place_of[decoded(read) + decoded([answer])]
                for read, answer in zip(points[rows], labels[rows], strict=True)
            ]
        assert sorted(found["train"]) == list(range(299))
        assert sorted(found["test"]) == list(range(299, 399))
    assert data.train_labels.min() >= 1  # padding is never an answer


def test_roles_are_chosen_by_length_and_number(made_speeches):
    options = {"n_train": 20, "n_test": 5, "window": 3}
    make = partial(paper_data.make_shakespeare_roles, **options)
    assert make(min_characters=89, rng=rng()).n_clients == 3
    assert make(min_characters=90, rng=rng()).n_clients == 2
    chosen = [make(1, min_characters=89, rng=rng(seed)) for seed in range(12)]
    assert all(data.n_clients == 1 for data in chosen)
    assert len({data.train_points.tobytes() for data in chosen}) > 1  # which depends on it
    cases = [
        ({"min_characters": 24}, "min_characters must be >= n_train . n_test = 25"),
        ({"min_characters": 400}, "only 0 roles have min_characters = 400 or more"),
        ({"min_characters": 90, "n_roles": 3}, "only 2 roles have min_characters = 90"),
        ({"window": 0}, "window must be >= 1"),
        ({"n_test": 0}, "n_test must be >= 1"),
    ]
    for change, message in cases:
        with pytest.raises(ValueError, match=message):
            paper_data.make_shakespeare_roles(**options | change, rng=rng())


# ---- lines -------------------------------------------------------------------------------------


def test_lines_have_the_law_of_the_appendix():
    data = paper_data.make_lines(weights=(4, 4, 1, 1), noise=1.5, rng=rng(6))
    np.testing.assert_array_equal(np.bincount(data.groups), [400, 400, 100, 100])
    assert data.n_features == 1 and data.n_classes is None and data.bound == 5 + 9
    for split, size in (("train", 20), ("test", 10)):
        points, _, labels = data.clients(split)
        assert labels is None and points.shape == (1000 * size, 2)
        a, b = np.array(paper_data.LINES)[np.repeat(data.groups, size)].T
        # false alarm 1e-6 each
        assert kstest((points[:, 0] + 1) / 2, "uniform").pvalue > 1e-6
        assert kstest((points[:, 1] - a * points[:, 0] - b) / 1.5, "norm").pvalue > 1e-6


# ---- wrong arguments ---------------------------------------------------------------------------


def test_makers_refuse_what_does_not_fit_together():
    images, digits = paper_data.make_rotated_images, paper_data.make_rotated_digits
    lines = paper_data.make_lines
    cases = [
        (partial(images, "cifar"), "dataset must be one of digits, mnist, fashion_mnist"),
        (partial(images, "digits"), "there are 1797 images, but the clients would hold 70000"),
        (partial(images, "digits", rotations=(0, 45)), "rotations must be different multiples"),
        (partial(images, "digits", rotations=(0, 0)), "rotations must be different multiples"),
        (partial(images, "digits", rotations=()), "rotations must be different multiples"),
        (partial(images, "digits", weights=(1, 1)), "weights must be 4 finite numbers > 0"),
        (partial(images, "digits", n_clients=3), "n_clients must be >= 4, the number of groups"),
        (partial(images, "digits", n_clients=9, pool=3), "pool must divide the side 8"),
        (partial(digits, 100), "there are 1797 images, but the clients would hold 2900"),
        (partial(lines, 3), "n_clients must be >= 4, the number of groups"),
        (partial(lines, lines=[[1.0, 2.0, 3.0]]), "lines must have 2 columns"),
    ]
    for make, message in cases:
        refuses(ValueError, message, make, rng=rng())
