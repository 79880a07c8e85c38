"""Splitting rows over clients, and scaling points to the box that the algorithms work in.

A split is an int64 array ``client_of`` of shape (n,): row i belongs to client ``client_of[i]``,
clients are 0..M-1, and every client holds at least one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import (
    Count,
    FloatArray,
    IntArray,
    Positive,
    as_bound,
    as_numbers,
    as_points,
    check_fits,
    unmasked,
)

_MAX = float(np.finfo(np.float64).max)


def as_weights(value: ArrayLike, name: str, *, n: int | None = None, of: str = "") -> FloatArray:
    """Numbers > 0, `n` of them (one for each `of`) if that is given, over their maximum."""
    weights = as_numbers(value, name, empty=True)
    if n is not None and weights.shape != (n,):
        raise ValueError(f"{name} must be {n} finite numbers > 0, one for each {of}")
    if weights.ndim != 1 or weights.size == 0:
        raise ValueError(f"{name} must have shape (n_clients,), got {weights.shape}")
    if not (weights > 0).all():
        raise ValueError(f"{name} must be {n or ''} finite numbers > 0".replace("  ", " "))
    return weights / weights.max()


def apportion(n: int, weights: FloatArray) -> IntArray:
    """Split n into integers >= 1 that add up to n, as near to n * weights / sum(weights) as can be.

    A part whose share is below 1 gets 1; the rest is shared again. ValueError if n is smaller than
    the number of weights.
    """
    if n < len(weights):
        raise ValueError(f"cannot split {n} rows into {len(weights)} parts of at least 1")
    small = np.zeros(len(weights), dtype=bool)
    while True:
        left = n - int(small.sum())
        share = np.where(small, 1, left * weights / weights[~small].sum())
        if small[share < 1].all():
            break
        small |= share < 1
        if small.all():  # n = M, up to rounding of the shares
            break
    sizes = np.ones(len(weights), dtype=np.int64)
    spare = n - len(weights)
    if spare:  # the largest remainders are rounded up
        beyond = np.maximum(share - 1, 0.0)
        exact = spare * beyond / beyond.sum()
        whole = np.floor(exact).astype(np.int64)
        order = np.argsort(whole - exact, kind="stable")
        whole[order[: spare - int(whole.sum())]] += 1
        sizes += whole
    return sizes


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
def partition_dirichlet(
    labels: Any,
    n_clients: Count,
    concentration: Positive,
    *,
    rng: np.random.Generator,
    min_size: Count = 1,
) -> IntArray:
    """Give clients different mixes of labels: class shares follow a symmetric Dirichlet.

    For each label (any values (n,) that can be compared), client shares are drawn from
    Dirichlet(concentration, ..., concentration) and each row of that label goes to a client drawn
    with those shares. A small concentration gives clients that hold few labels, a large one gives
    nearly equal mixes.

    Clients that end below `min_size` rows are then filled with rows taken at random from those
    above it. With many clients and a small concentration that is a visible share of the rows.
    ValueError if ``n_clients * min_size`` is larger than n.
    """
    try:
        groups = np.asarray(unmasked(labels, "labels"))
        values, codes = np.unique(groups, return_inverse=True)
    except (TypeError, ValueError):
        raise TypeError("labels must be values that can be compared with each other") from None
    if groups.ndim != 1 or groups.size == 0:
        raise ValueError(f"labels must have shape (n,) with n >= 1, got {groups.shape}")
    n = len(groups)
    if n_clients * min_size > n:
        raise ValueError(f"n_clients * min_size must be <= n = {n}, got {n_clients} * {min_size}")
    check_fits(len(values) * n_clients, "n_clients")
    client_of = np.empty(n, dtype=np.int64)
    for code in range(len(values)):
        rows = np.flatnonzero(codes == code)
        shares = np.cumsum(rng.dirichlet(np.full(n_clients, concentration)))
        draws = rng.random(len(rows)) * shares[-1]
        client_of[rows] = np.minimum(shares.searchsorted(draws, side="right"), n_clients - 1)

    sizes = bincount(client_of, minlength=n_clients)
    needed = repeat(np.arange(n_clients), np.maximum(min_size - sizes, 0))
    if len(needed):
        # rank of each row within its client, in random order: ranks below min_size stay
        order = rng.permutation(n)
        order = order[np.argsort(client_of[order], kind="stable")]
        first = np.cumsum(sizes) - sizes
        rank = np.arange(n) - repeat(first, sizes)
        client_of[rng.choice(order[rank >= min_size], len(needed), replace=False)] = needed
    return client_of


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


@checked
def scale_min_max_not_private(points: ArrayLike, *, bound: Positive = 1.0) -> FloatArray:
    """Map each column's own minimum and maximum to -bound and bound. **Not private.**

    This is what FastLloyd does (Section 6.1.3). The minimum and maximum of every column are exact
    functions of single points, they are released without noise, and no epsilon pays for them. Use
    it only to repeat the paper's numbers; use `scale_to_box` otherwise. A constant column becomes
    0.
    """
    array = as_points(points)
    return scale_to_box(array, array.min(axis=0), array.max(axis=0), bound=bound)
