"""Clipping to public bounds, so that the answer of a client, or of a row, is its own to the bit."""

from __future__ import annotations

import numpy as np

from fedclust_helpers._nearest import squared_lengths
from fedclust_helpers._validation import FloatArray


def lengths(squares: FloatArray, n_terms: int) -> FloatArray:
    """Upper bounds on lengths from sums of `n_terms` squares, computed in any order.

    Such a sum is low by at most n_terms + 1 roundings, and a square by 2**-1075 if it underflows.
    """
    room = 1 + (n_terms + 8) * float(np.finfo(np.float64).eps)
    return (np.sqrt(squares) + np.sqrt(n_terms) * 2.0**-537) * room


def shrink(norms: FloatArray, bound: float) -> FloatArray:
    """Factors min(1, bound/norm) that clip vectors of these norms to length `bound`.

    Never too large by rounding, and 0 where the norm is not finite: nothing is known of a vector
    whose squared norm overflows, so it must not count.
    """
    with np.errstate(all="ignore"):
        factors = bound / (norms * (1 + 4 * float(np.finfo(np.float64).eps)))
    factors = np.where(norms <= bound, 1.0, factors)
    return np.where(np.isfinite(norms) & (factors >= 1e-290), factors, 0.0)


def _clip(values: FloatArray, norms: FloatArray, bound: float) -> FloatArray:
    """Multiply `values` (m, ...) by `shrink` in place; where that is 0, even nan becomes 0."""
    factors = shrink(norms, bound)
    with np.errstate(under="ignore", invalid="ignore"):
        values *= factors.reshape(-1, *(1,) * (values.ndim - 1))
    if not factors.all():
        values[factors == 0] = 0.0
    return values


def clip_totals(values: FloatArray, bound: float) -> FloatArray:
    """Cut each client's row of `values` (m, k), none negative, to L1 norm `bound`, in place."""
    return _clip(values, values.sum(axis=1), bound)


def clip_clients(values: FloatArray, bound: float) -> FloatArray:
    """Cut each client's array of `values` (m, ...) to Euclidean length `bound`, in place."""
    flat = values.reshape(len(values), -1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", flat, flat)
        return _clip(values, lengths(squares, flat.shape[1]), bound)


def clip_rows(rows: FloatArray, bound: float) -> FloatArray:
    """Cut each of `rows` (n, d) to Euclidean length `bound` in place, each by its own factor."""
    d = rows.shape[1]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rough = np.einsum("ij,ij->i", rows, rows)
        # the order of these sums is unknown: they only tell which rows are short beyond doubt
        limit = min(bound * bound * (1 - 1e-9), 1e300) if bound > 1e-140 else -1.0
        long = ~(rough <= limit)
        if 2 * np.count_nonzero(long) > len(rows):
            return _clip(rows, lengths(squared_lengths(rows), d), bound)
        chosen = np.flatnonzero(long)
        cut = rows[chosen]
        rows[chosen] = _clip(cut, lengths(squared_lengths(cut), d), bound)
    return rows
