"""Checks of arguments that data sets share: numbers, whole numbers, texts, and what fits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import FloatArray, IntArray

LARGEST = 1e150
"""Numbers beyond this have squares that overflow; so have reciprocals of numbers below 1e-150."""


def as_reals(value: ArrayLike, name: str) -> FloatArray:
    """A float64 copy of finite real numbers; text, booleans, dates and masked entries are refused.

    Raises
    ------
    TypeError, ValueError
        Naming the argument.
    """
    wrong = TypeError(f"{name} must be real numbers")
    if isinstance(value, np.ma.MaskedArray):
        raise wrong
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiuO":
            raise wrong
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    return array


def as_positives(value: ArrayLike, name: str, n: int, of_what: str) -> FloatArray:
    """`n` numbers > 0 whose sum can be divided by."""
    array = as_reals(value, name)
    if array.shape != (n,) or not (array > 0).all():
        raise ValueError(f"{name} must be {n} finite numbers > 0, one for each {of_what}")
    return array


def as_whole(value: ArrayLike, name: str, *, minimum: int | None = None) -> IntArray:
    """A one-dimensional int64 copy of integers; floats and booleans are refused."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iu" or array.ndim != 1 or np.ma.isMaskedArray(value):
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a sequence of integers") from None
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be integers of 64 bits")
    array = array.astype(np.int64)
    if minimum is not None and array.size and array.min() < minimum:
        raise ValueError(f"{name} must be integers >= {minimum}")
    return array


def check_text(value: Any, name: str) -> str:
    """Return `value` if it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    return value


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is a bool."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def check_moderate(value: float, name: str) -> float:
    """Return a positive number whose square and reciprocal are in range."""
    if not 1 / LARGEST <= value <= LARGEST:
        raise ValueError(f"{name} must be between 1e-150 and 1e150, got {value:g}")
    return value


def check_fits(n_numbers: int, names: str) -> None:
    """Refuse arguments that ask for more numbers of 8 bytes than this machine has memory.

    Parameters
    ----------
    n_numbers : int
        A public estimate, from the arguments alone.
    names : str
        The arguments that decide it.

    Raises
    ------
    ValueError
        Naming the arguments, before anything is allocated.
    """
    if 8 * n_numbers > memory():
        raise ValueError(
            f"{names} must be smaller: {8 * n_numbers / 2**30:.3g} GiB would be needed, this"
            f" machine has {memory() / 2**30:.3g}"
        )


def memory() -> int:
    """Bytes of memory of this machine (16 GiB where it does not tell)."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # pragma: no cover
        return 2**34


def own_view(array: NDArray[Any], given: Any, *, copy: bool) -> Any:
    """A read-only array that does not change with `given`, unless no copy is wanted."""
    if copy and isinstance(given, np.ndarray) and np.may_share_memory(array, given):
        array = array.copy()
    elif copy and hasattr(given, "__array__") and not isinstance(given, np.ndarray):
        array = array.copy()  # a DataFrame may share its memory
    view = array.view()
    view.flags.writeable = False
    return view


def is_sequence(value: Any) -> bool:
    """Whether `value` has items in an order, and is no text."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def positive_definite(value: ArrayLike, name: str, n_features: int) -> FloatArray:
    """A symmetric positive definite matrix of moderate size."""
    matrix = as_reals(value, name)
    if matrix.shape != (n_features, n_features):
        raise ValueError(f"{name} must have shape ({n_features}, {n_features}), got {matrix.shape}")
    largest = float(np.abs(matrix).max())
    if not 1 / LARGEST <= largest <= LARGEST:
        raise ValueError(f"{name} must be positive definite, of entries between 1e-150 and 1e150")
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * largest):
        raise ValueError(f"{name} must be symmetric")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite") from None
    return matrix
