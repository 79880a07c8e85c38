"""Iris, wine and digits as they ship with scikit-learn, with public bounds.

The bounds follow from how the columns are coded, or are round numbers around what such measurements
can be, chosen by us; `bounds_note` says which.
"""

from __future__ import annotations

from typing import Any

from fedclust_helpers._lazy import toy_data
from fedclust_helpers.datasets._base import Dataset

CODED = "range of the coding"
CHOSEN = "round numbers around plausible values, our choice"


def _shipped(
    name: str, data: Any, k: int, bounds: Any, note: str, licence: str, citation: str
) -> Dataset:
    return Dataset(
        name, data.data, data.target, k, bounds, note, "scikit-learn", licence, citation,
        tuple(data.feature_names), copy=False,
    )  # fmt: skip


def load_iris() -> Dataset:
    """Fisher's iris, 150 x 4, k = 3.

    Rows 35 and 38 are those of the R version, which differ from the UCI file.

    Examples
    --------
    >>> load_iris()
    Dataset('iris', n=150, d=4, k=3)
    """
    return _shipped(
        "iris", toy_data.load_iris(), 3, ((0, 0, 0, 0), (10, 5, 10, 5)),
        f"centimetres, lengths 0..10 and widths 0..5: {CHOSEN}", "research use",
        "R. A. Fisher (1936), The use of multiple measurements in taxonomic problems, Annals of"
        " Eugenics 7(2), 179-188; version of the R package datasets",
    )  # fmt: skip


def load_wine() -> Dataset:
    """Chemical analysis of wines, 178 x 13, k = 3."""
    lower = (8, 0, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0)
    upper = (16, 10, 5, 40, 200, 5, 8, 1, 5, 15, 2, 5, 2000)
    return _shipped(
        "wine", toy_data.load_wine(), 3, (lower, upper), CHOSEN, "CC BY 4.0 (UCI data set 109)",
        "S. Aeberhard and M. Forina (1992), Wine, UCI Machine Learning Repository",
    )  # fmt: skip


def load_digits() -> Dataset:
    """Handwritten digits of 8 x 8 pixels, 1797 x 64, k = 10: a small stand-in for MNIST."""
    return _shipped(
        "digits", toy_data.load_digits(), 10, (0, 16), f"pixels count 0..16 set dots: {CODED}",
        "CC BY 4.0 (UCI data set 80)",
        "E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine"
        " Learning Repository",
    )  # fmt: skip
