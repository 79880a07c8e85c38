"""Splitting rows over clients, and scaling points to the box that the algorithms work in.

A split is an int64 array ``client_of`` of shape (n,): row i belongs to client ``client_of[i]``,
clients are 0..M-1, and every client holds at least one row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    Count,
    FloatArray,
    IntArray,
    Positive,
    as_bound,
    as_points,
    check_fits,
)

_MAX = float(np.finfo(np.float64).max)


@checked
def partition_iid(n: Count, n_clients: Count, *, rng: np.random.Generator) -> IntArray:
    """Deal n rows at random to clients of equal size (sizes differ by at most one).

    ValueError if there are more clients than rows.

    Examples
    --------
    >>> import numpy as np
    >>> client_of = partition_iid(10, 4, rng=np.random.default_rng(0))
    >>> np.bincount(client_of)
    array([3, 3, 2, 2])
    """
    check_fits(2 * n, "n")
    if n_clients > n:
        raise ValueError(f"n_clients must be <= n = {n}, got {n_clients}")
    return rng.permutation(np.arange(n, dtype=np.int64) % n_clients)


@checked
def scale_to_box(
    points: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, bound: Positive = 1.0
) -> FloatArray:
    """Map the box between public bounds of the columns of `points` (n, d) to [-bound, bound]^d.

    `lower` and `upper`, numbers or of shape (d,), must be known without looking at the data; then
    scaling costs no privacy. Points outside stay outside: clipping them (and counting them) is the
    client's step, which a federation does before anything is summed. A column of width 0 becomes 0.
    ValueError if the bounds, or a width, are not finite, or ``upper < lower``.

    Examples
    --------
    >>> scale_to_box([[0, 5], [10, 5], [15, 5]], [0, 5], [10, 5])
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 2.,  0.]])
    """
    array = as_points(points)
    low, high = (
        as_bound(side, name, array.shape[1]) for side, name in ((lower, "lower"), (upper, "upper"))
    )
    if (high < low).any():
        raise ValueError("upper must be >= lower in every column")
    with np.errstate(over="ignore"):
        width = high - low
        if not np.isfinite(width).all():
            raise ValueError("upper - lower must be finite in every column")
        scaled = (array - low) / np.where(width > 0, width, 1.0)
        scaled *= 2 * min(bound, _MAX / 4)
        scaled -= bound
    np.clip(scaled, -_MAX, _MAX, out=scaled)  # far outside stays far outside, and finite
    scaled[:, width == 0] = 0.0
    return scaled


def scale_from_box(
    points: FloatArray, lower: FloatArray, upper: FloatArray, *, bound: float = 1.0
) -> FloatArray:
    """Points (n, d) of [-bound, bound]^d in their own units: what `scale_to_box` did, undone."""
    return lower + (points / bound + 1) / 2 * (upper - lower)
