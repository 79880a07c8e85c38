"""The calls of NumPy that want indices of this platform: 32 bits in a browser, 64 elsewhere.

Labels and offsets here are int64 everywhere. Where indices have 32 bits NumPy refuses these four
calls for them, though nothing in memory has an index that does not fit; so all go through here
(ruff bans them elsewhere). With 64 bits nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

INDEX: type[np.signedinteger] = np.intp


def index(values: ArrayLike) -> NDArray[Any]:
    """Integers as indices; TypeError for other numbers, OverflowError for what no index is."""
    array = np.asarray(values)
    if not array.size:
        return np.zeros(array.shape, INDEX)
    found = array.astype(INDEX, casting="same_kind", copy=False)
    if not np.can_cast(array.dtype, INDEX) and (found != array).any():
        raise OverflowError("an index of this platform cannot be as large")
    return found


def bincount(codes: ArrayLike, weights: Any = None, minlength: int = 0) -> NDArray[Any]:
    """How often each code from 0 comes (int64), or the sum of its weights (float64)."""
    found = np.bincount(index(codes), weights, minlength)
    return found if weights is not None else found.astype(np.int64, copy=False)


def repeat(values: ArrayLike, times: ArrayLike, axis: int | None = None) -> NDArray[Any]:
    """Each value so many times."""
    return np.repeat(values, index(times), axis)


def take(values: NDArray[Any], rows: ArrayLike, axis: int) -> NDArray[Any]:
    """Rows or columns by number: faster than brackets."""
    return np.take(values, index(rows), axis)


def sums_from(values: NDArray[Any], starts: ArrayLike) -> NDArray[Any]:
    """Sums over the first axis from each start to the next one; an empty piece has its first."""
    return np.add.reduceat(values, index(starts), axis=0)


def spread_from(values: NDArray[Any], starts: ArrayLike) -> NDArray[Any]:
    """Largest minus smallest from each start to the next one."""
    at = index(starts)
    return np.maximum.reduceat(values, at) - np.minimum.reduceat(values, at)
