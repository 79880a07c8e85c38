"""Real data sets of the FastLloyd paper (Table 2), and scikit-learn's digits.

Labels are numbered from 0. The bounds are public: they follow from how the columns are coded, or
are round numbers around what such measurements can be, chosen by us; `bounds_note` says which.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedclust_helpers._lazy import pd, toy_data
from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_int, check_rng
from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._files import fetch, is_local, registry

_IN_WHEELS = ("iris", "wine", "digits")
_CODED = "range of the coding"
_CHOSEN = "round numbers around plausible values, our choice"


def available(name: str) -> bool:
    """Whether ``load_<name>`` works on this machine without a network."""
    check_choice(name, "name", tuple(sorted({e.dataset for e in registry().values()} | {"digits"})))
    if name in _IN_WHEELS:
        return True
    return all(is_local(entry) for entry in registry().values() if entry.dataset == name)


def _dataset(
    name: str,
    points: FloatArray,
    labels: IntArray,
    n_clusters: int,
    bounds: Any,
    bounds_note: str,
    feature_names: Sequence[str] | None = None,
    **facts: str,
) -> Dataset:
    """A data set with the licence and the citation of the registry, or with its own `facts`."""
    entry = next((entry for entry in registry().values() if entry.dataset == name), None)
    if entry is not None:
        facts = {"licence": entry.licence, "citation": entry.citation, "source": entry.url} | facts
    names = None if feature_names is None else tuple(feature_names)
    return Dataset(
        name, points, labels, n_clusters, bounds, bounds_note, feature_names=names, copy=False,
        **facts,
    )  # fmt: skip


def _read_suite(name: str) -> tuple[FloatArray, IntArray]:
    """Points and labels (from 0) of a data set of the clustering-data suite."""
    points = np.loadtxt(fetch(f"{name}/{name}.data.gz"), ndmin=2)
    labels = np.loadtxt(fetch(f"{name}/{name}.labels0.gz"), dtype=np.int64)
    return points, labels - 1


def _shipped(name: str, data: Any, k: int, bounds: Any, note: str, **facts: str) -> Dataset:
    """A data set that ships with scikit-learn."""
    facts["source"] = "scikit-learn"
    return _dataset(name, data.data, data.target, k, bounds, note, data.feature_names, **facts)


def load_iris() -> Dataset:
    """Fisher's iris, 150 x 4, k = 3; ships with scikit-learn.

    Rows 35 and 38 are those of the R version, which differ from the UCI file.

    Examples
    --------
    >>> load_iris()
    Dataset('iris', n=150, d=4, k=3)
    """
    data = toy_data.load_iris()
    note = f"centimetres, lengths 0..10 and widths 0..5: {_CHOSEN}"
    return _shipped("iris", data, 3, ((0, 0, 0, 0), (10, 5, 10, 5)), note)


def load_wine() -> Dataset:
    """Chemical analysis of wines, 178 x 13, k = 3; ships with scikit-learn."""
    lower = (8, 0, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0)
    upper = (16, 10, 5, 40, 200, 5, 8, 1, 5, 15, 2, 5, 2000)
    return _shipped("wine", toy_data.load_wine(), 3, (lower, upper), _CHOSEN)


def load_digits() -> Dataset:
    """Handwritten digits of 8 x 8 pixels, 1797 x 64, k = 10; ships with scikit-learn.

    Not in the paper: a small stand-in for MNIST that needs no download.
    """
    citation = (
        "E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine"
        " Learning Repository"
    )
    return _shipped(
        "digits", toy_data.load_digits(), 10, (0, 16), f"pixels count 0..16 set dots:"
        f" {_CODED}", licence="CC BY 4.0 (UCI data set 80)", citation=citation,
    )  # fmt: skip


def load_yeast() -> Dataset:
    """Protein localisation scores, 1484 x 8, k = 10."""
    names = ("mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc")
    note = f"scores between 0 and 1: {_CODED}"
    return _dataset("yeast", *_read_suite("yeast"), 10, (0, 1), note, names)


def load_lsun() -> Dataset:
    """Lsun of the Fundamental Clustering Problems Suite, 400 x 2, k = 3."""
    return _dataset("lsun", *_read_suite("lsun"), 3, ((0, 0), (5, 6)), _CHOSEN)


def load_s1() -> Dataset:
    """S1 of the SIPU collection: 15 Gaussian clusters, 5000 x 2, k = 15."""
    note = "integer coordinates on a canvas of 0..1,000,000: our reading of the collection"
    return _dataset("s1", *_read_suite("s1"), 15, (0, 1_000_000), note)


def load_birch2(n: int | None = 25_000, *, rng: np.random.Generator | None = None) -> Dataset:
    """Birch2 of the SIPU collection: 100 clusters on a sine curve, k = 100.

    `n` rows, at most 100,000, are drawn at random without replacement, as in the paper (Section
    6.1.3, which does not say which rows): ``rng.choice(100_000, n, replace=False)``. None gives all
    100,000 rows in file order, and needs no `rng`.
    """
    if n is not None or rng is not None:
        generator = check_rng(rng)
    if n is not None:
        n = check_int(n, "n", maximum=100_000)
    points, labels = _read_suite("birch2")
    if n is not None:
        rows = generator.choice(len(points), n, replace=False)
        points, labels = points[rows], labels[rows]
    bounds = ((0, 0), (1_000_000, 100_000))
    note = f"coordinates 0..1,000,000 along the sine curve and 0..100,000 across: {_CHOSEN}"
    return _dataset("birch2", points, labels, 100, bounds, note)


def load_breast_wisconsin(*, missing: str = "drop") -> Dataset:
    """Breast Cancer Wisconsin (Original), 699 x 9 before missing values are treated, k = 2.

    This is not `sklearn.datasets.load_breast_cancer` (569 x 30). Sixteen rows lack the column
    ``bare_nuclei``; the paper lists 699 rows and does not say how they are filled.

    ``missing="drop"`` leaves 683 rows; "median" keeps 699 and fills the gap with the median of the
    column, which is a function of the data that no epsilon pays for.
    """
    check_choice(missing, "missing", ("drop", "median"))
    names = (
        "clump_thickness", "cell_size_uniformity", "cell_shape_uniformity", "marginal_adhesion",
        "epithelial_cell_size", "bare_nuclei", "bland_chromatin", "normal_nucleoli", "mitoses",
    )  # fmt: skip
    file = fetch("breast_wisconsin/breast-cancer-wisconsin.data")
    table = pd.read_csv(file, header=None, names=["id", *names, "class"], na_values="?")
    if missing == "drop":
        table = table.dropna()
    else:
        table = table.fillna({"bare_nuclei": table["bare_nuclei"].median()})
    points = table[list(names)].to_numpy(dtype=np.float64)
    labels = (table["class"].to_numpy() == 4).astype(np.int64)
    note = f"grades 1..10: {_CODED}"
    return _dataset("breast_wisconsin", points, labels, 2, (1, 10), note, names)


def load_adult() -> Dataset:
    """Adult census data, the six numeric columns of both files, 48842 x 6, k = 3.

    The labels are the two income classes (1 for more than 50,000 dollars); the paper clusters
    into three.
    """
    columns = {0: "age", 2: "fnlwgt", 4: "education_num", 10: "capital_gain"}
    columns |= {11: "capital_loss", 12: "hours_per_week"}
    parts = [
        pd.read_csv(fetch(file), header=None, skiprows=skip, skipinitialspace=True)
        for file, skip in (("adult/adult.data", 0), ("adult/adult.test", 1))
    ]
    table = pd.concat(parts, ignore_index=True)
    points = table[list(columns)].to_numpy(dtype=np.float64)
    labels = table[14].str.startswith(">50K").to_numpy().astype(np.int64)
    bounds = ((17, 0, 1, 0, 0, 1), (90, 1_500_000, 16, 99_999, 5_000, 99))
    note = (
        "coded ranges of age, education, capital gain and hours (which the census cuts off); "
        "0..1,500,000 for the sampling weight and 0..5,000 for the capital loss are our choice"
    )
    return _dataset("adult", points, labels, 3, bounds, note, tuple(columns.values()))


def _images(name: str, stem: str) -> Dataset:
    points, labels = (
        read_idx(fetch(f"{name}/{stem}-{kind}-ubyte.gz")) for kind in ("images-idx3", "labels-idx1")
    )
    points = points.reshape(len(points), -1).astype(np.float64)
    return _dataset(name, points, labels.astype(np.int64), 10, (0, 255), f"pixels 0..255: {_CODED}")


def load_mnist() -> Dataset:
    """The 10,000 test images of MNIST, 10000 x 784, k = 10.

    The paper uses 10,000 images and does not say which; the test set has that size.
    """
    return _images("mnist", "t10k")


def load_fashion_mnist(split: str = "train") -> Dataset:
    """FashionMNIST, 60,000 images of clothes ("train") or 10,000 ("test") x 784, k = 10."""
    check_choice(split, "split", ("train", "test"))
    return _images("fashion_mnist", "t10k" if split == "test" else "train")


def read_idx(path: Path) -> np.ndarray:
    """Content of a compressed file in the IDX format."""
    return parse_idx(gzip.decompress(path.read_bytes()))


def parse_idx(content: bytes) -> np.ndarray:
    """Array of unsigned bytes in the IDX format: 2 zeros, type 8, rank, big-endian sizes, bytes."""
    rank = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=rank, offset=4).astype(np.int64)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape(shape)
