"""Real data sets of the FastLloyd paper (Table 2) that are read from files.

Labels are numbered from 0. The bounds are public, as those of `fedclust_helpers.datasets.shipped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_int, check_rng
from fedclust_helpers.datasets import Dataset
from fedclust_helpers.datasets.shipped import CHOSEN, CODED
from studies.paper_data.files import entry_of, fetch
from studies.paper_data.images import IMAGE_SOURCES


def _dataset(
    name: str,
    points: FloatArray,
    labels: IntArray,
    n_clusters: int,
    bounds: Any,
    bounds_note: str,
    feature_names: Sequence[str] | None = None,
) -> Dataset:
    """A data set with source, licence and citation of the registry."""
    entry = entry_of(name)
    names = None if feature_names is None else tuple(feature_names)
    return Dataset(
        name, points, labels, n_clusters, bounds, bounds_note, entry.url, entry.licence,
        entry.citation, names, copy=False,
    )  # fmt: skip


def _read_suite(name: str) -> tuple[FloatArray, IntArray]:
    """Points and labels (from 0) of a data set of the clustering-data suite."""
    points = np.loadtxt(fetch(f"{name}/{name}.data.gz"), ndmin=2)
    labels = np.loadtxt(fetch(f"{name}/{name}.labels0.gz"), dtype=np.int64)
    return points, labels - 1


def load_yeast() -> Dataset:
    """Protein localisation scores, 1484 x 8, k = 10."""
    names = ("mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc")
    note = f"scores between 0 and 1: {CODED}"
    return _dataset("yeast", *_read_suite("yeast"), 10, (0, 1), note, names)


def load_lsun() -> Dataset:
    """Lsun of the Fundamental Clustering Problems Suite, 400 x 2, k = 3."""
    return _dataset("lsun", *_read_suite("lsun"), 3, ((0, 0), (5, 6)), CHOSEN)


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
    note = f"coordinates 0..1,000,000 along the sine curve and 0..100,000 across: {CHOSEN}"
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
    note = f"grades 1..10: {CODED}"
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


def load_images(name: str, split: str = "test") -> Dataset:
    """All images of one name of `IMAGE_SOURCES` in one split, as rows of pixels; k is the classes'.

    "mnist" has the 10,000 test images: FastLloyd uses 10,000 and does not say which.
    """
    named = tuple(name for name in IMAGE_SOURCES if name != "digits")
    source = IMAGE_SOURCES[check_choice(name, "name", named)]
    images, labels = source.read(check_choice(split, "split", source.splits))
    points = images.reshape(len(images), -1).astype(np.float64)
    note = f"pixels 0..{source.levels}: {CODED}"
    return _dataset(source.dataset, points, labels, source.n_classes, (0, source.levels), note)
