"""Splitting rows over clients, and scaling points to the box that the algorithms work in.

A split is an integer array ``client_of`` of shape (n,): row i belongs to client ``client_of[i]``,
clients are 0..M-1, and every client holds at least one row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.datasets._checks import as_reals, check_fits

_MAX = float(np.finfo(np.float64).max)


def _largest_remainder(n: int, weights: FloatArray) -> IntArray:
    """Integers adding up to n, as near to n * weights / sum(weights) as rounding allows."""
    share = n * weights / weights.sum()
    sizes = np.floor(share).astype(np.int64)
    missing = n - int(sizes.sum())
    order = np.argsort(sizes - share, kind="stable")
    sizes[order[:missing]] += 1
    return sizes


def apportion(n: int, weights: FloatArray, *, minimum: int = 1) -> IntArray:
    """Split n into integers proportional to `weights`, none below `minimum`.

    A part whose share is below `minimum` gets exactly `minimum`; the rest is shared again.

    Raises
    ------
    ValueError
        If n is smaller than ``minimum * len(weights)``.
    """
    if n < minimum * len(weights):
        raise ValueError(f"cannot split {n} rows into {len(weights)} parts of at least {minimum}")
    small = np.zeros(len(weights), dtype=bool)
    while True:
        left = n - minimum * int(small.sum())
        share = np.where(small, minimum, left * weights / weights[~small].sum())
        if small[share < minimum].all():
            break
        small |= share < minimum
        if small.all():  # n = minimum * M, up to rounding of the shares
            break
    sizes = np.full(len(weights), minimum, dtype=np.int64)
    spare = n - int(sizes.sum())
    if spare:
        sizes += _largest_remainder(spare, np.maximum(share - minimum, 0.0))
    return sizes


def partition_iid(n: int, n_clients: int, *, rng: np.random.Generator) -> IntArray:
    """Deal n rows at random to clients of equal size (sizes differ by at most one).

    Parameters
    ----------
    n, n_clients : int
        Numbers of rows and of clients M, with M <= n.
    rng : numpy.random.Generator

    Returns
    -------
    client_of : ndarray of int64 of shape (n,)

    Raises
    ------
    ValueError
        If there are more clients than rows.

    Examples
    --------
    >>> import numpy as np
    >>> client_of = partition_iid(10, 4, rng=np.random.default_rng(0))
    >>> np.bincount(client_of)
    array([3, 3, 2, 2])
    """
    n, n_clients = check_int(n, "n"), check_int(n_clients, "n_clients")
    check_fits(2 * n, "n")
    check_rng(rng)
    if n_clients > n:
        raise ValueError(f"n_clients must be <= n = {n}, got {n_clients}")
    return rng.permutation(np.arange(n, dtype=np.int64) % n_clients)


def partition_unequal(n: int, proportions: ArrayLike, *, rng: np.random.Generator) -> IntArray:
    """Deal n rows at random to clients whose sizes follow `proportions`.

    Parameters
    ----------
    n : int
    proportions : array_like of shape (M,)
        Positive weights, one per client; they need not add up to 1. A client whose share is
        below one row gets one row.
    rng : numpy.random.Generator

    Returns
    -------
    client_of : ndarray of int64 of shape (n,)

    Raises
    ------
    ValueError
        If a proportion is not positive and finite, or if there are more clients than rows.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(partition_unequal(100, [1, 9, 90], rng=np.random.default_rng(0)))
    array([ 1,  9, 90])
    """
    n = check_int(n, "n")
    check_fits(2 * n, "n")
    weights = as_reals(proportions, "proportions")
    if weights.ndim != 1 or weights.size == 0:
        raise ValueError(f"proportions must have shape (n_clients,), got {weights.shape}")
    if not (weights > 0).all():
        raise ValueError("proportions must be finite and > 0")
    check_rng(rng)
    if weights.size > n:
        raise ValueError(f"proportions must name at most n = {n} clients, got {weights.size}")
    sizes = apportion(n, weights / weights.max())
    return rng.permutation(np.repeat(np.arange(weights.size, dtype=np.int64), sizes))


def partition_dirichlet(
    labels: ArrayLike,
    n_clients: int,
    concentration: float,
    *,
    rng: np.random.Generator,
    min_size: int = 1,
) -> IntArray:
    """Give clients different mixes of labels: class shares follow a symmetric Dirichlet.

    For each label, client shares are drawn from Dirichlet(concentration, ..., concentration) and
    each row of that label goes to a client drawn with those shares. A small concentration gives
    clients that hold few labels, a large one gives nearly equal mixes.

    Clients that end below `min_size` are then filled with rows taken at random from those above
    it. With many clients and a small concentration that is a visible share of the rows.

    Parameters
    ----------
    labels : array_like of shape (n,)
        Any values that can be compared.
    n_clients : int
    concentration : float
        > 0.
    rng : numpy.random.Generator
    min_size : int, default 1
        Smallest number of rows of a client.

    Returns
    -------
    client_of : ndarray of int64 of shape (n,)

    Raises
    ------
    ValueError
        If ``n_clients * min_size`` is larger than n, or an argument is out of range.
    """
    try:
        groups = np.asarray(labels)
        np.unique(groups[:1])  # can be compared
    except (TypeError, ValueError, IndexError):
        raise TypeError("labels must be a sequence of values that can be compared") from None
    if groups.ndim != 1 or groups.size == 0:
        raise ValueError(f"labels must have shape (n,) with n >= 1, got {groups.shape}")
    n, n_clients = len(groups), check_int(n_clients, "n_clients")
    concentration = check_positive(concentration, "concentration")
    min_size = check_int(min_size, "min_size")
    check_rng(rng)
    if n_clients * min_size > n:
        raise ValueError(f"n_clients * min_size must be <= n = {n}, got {n_clients} * {min_size}")
    try:
        values, codes = np.unique(groups, return_inverse=True)
    except TypeError:
        raise TypeError("labels must be values that can be compared with each other") from None
    check_fits(len(values) * n_clients, "n_clients")
    client_of = np.empty(n, dtype=np.int64)
    for code in range(len(values)):
        rows = np.flatnonzero(codes == code)
        shares = np.cumsum(rng.dirichlet(np.full(n_clients, concentration)))
        draws = rng.random(len(rows)) * shares[-1]
        client_of[rows] = np.minimum(shares.searchsorted(draws, side="right"), n_clients - 1)

    sizes = np.bincount(client_of, minlength=n_clients)
    needed = np.repeat(np.arange(n_clients), np.maximum(min_size - sizes, 0))
    if len(needed):
        # rank of each row within its client, in random order: ranks below min_size stay
        order = rng.permutation(n)
        order = order[np.argsort(client_of[order], kind="stable")]
        first = np.cumsum(sizes) - sizes
        rank = np.arange(n) - np.repeat(first, sizes)
        client_of[rng.choice(order[rank >= min_size], len(needed), replace=False)] = needed
    return client_of


def scale_to_box(
    points: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, bound: float = 1.0
) -> FloatArray:
    """Map the box between public bounds linearly to [-bound, bound]^d.

    The bounds must be known without looking at the data; then scaling costs no privacy. Points
    outside the bounds stay outside: clipping them (and counting them) is the client's step, which
    a federation does before anything is summed.

    Parameters
    ----------
    points : array_like of shape (n, d)
    lower, upper : array_like of shape (d,) or scalars
        Public bounds of each column. A column of width 0 becomes 0.
    bound : float, default 1.0

    Returns
    -------
    ndarray of float64 of shape (n, d)

    Raises
    ------
    ValueError
        If the bounds are not finite, have the wrong shape, or ``upper < lower``.

    Examples
    --------
    >>> scale_to_box([[0, 5], [10, 5], [15, 5]], [0, 5], [10, 5])
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 2.,  0.]])
    """
    array = as_points(points)
    bound = check_positive(bound, "bound")
    low, high = (
        _as_bound(side, name, array.shape[1]) for side, name in ((lower, "lower"), (upper, "upper"))
    )
    if (high < low).any():
        raise ValueError("upper must be >= lower in every column")
    with np.errstate(over="ignore"):
        width = high - low
    if not np.isfinite(width).all():
        raise ValueError("upper - lower must be finite in every column")
    divisor = np.where(width > 0, width, 1.0)
    with np.errstate(over="ignore"):
        scaled = (array - low) / divisor
        scaled *= 2 * min(bound, _MAX / 4)
        scaled -= bound
    np.clip(scaled, -_MAX, _MAX, out=scaled)  # far outside stays far outside, and finite
    scaled[:, width == 0] = 0.0
    return scaled


def _as_bound(value: ArrayLike, name: str, n_features: int) -> FloatArray:
    side = as_reals(value, name)
    if side.shape not in ((), (n_features,)):
        raise ValueError(
            f"{name} must be a number or have shape ({n_features},), one for each column of points,"
            f" got {side.shape}"
        )
    return np.broadcast_to(side, (n_features,))


def scale_min_max_not_private(points: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Map each column's own minimum and maximum to -bound and bound. **Not private.**

    This is what FastLloyd does (Section 6.1.3). The minimum and maximum of every column are exact
    functions of single points, they are released without noise, and no epsilon pays for them. Use
    it only to repeat the paper's numbers; use `scale_to_box` otherwise. A constant column becomes
    0.

    Parameters
    ----------
    points : array_like of shape (n, d)
    bound : float, default 1.0

    Returns
    -------
    ndarray of float64 of shape (n, d), inside [-bound, bound]
    """
    array = as_points(points)
    return scale_to_box(array, array.min(axis=0), array.max(axis=0), bound=bound)
