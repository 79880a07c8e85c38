"""Compiled loops for the extra ``fast`` (Numba): the same answers as NumPy's, bit for bit.

Used where Numba is installed, unless the environment variable ``FEDCLUST_FAST`` is 0; nothing is
compiled at import, and what was compiled once is kept on disk. Every function here is plain Python
too. None reorders or contracts a sum: Numba compiles without ``fastmath``, so a sum is rounded as
the definition of `_nearest` says, and a block is added up in the order of its rows, as the sparse
product of `kmeans.add_block` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

LANES = 64  # rows that are measured at once: the vector registers work across rows
LEAST = 2**17  # products n k d below which importing Numba would not pay
PER_USER = 4  # products that a report of one user is worth
MOST = 2**9  # numbers of all centres above which matrix products are the better filter


@cache
def _numba() -> Any:
    """Numba, or None: not installed, or switched off."""
    if os.environ.get("FEDCLUST_FAST", "1") == "0":
        return None
    try:
        import numba
    except ImportError:
        return None
    return numba


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = _numba().njit(cache=True, nogil=True, error_model="numpy")(function)
    return made


def fast(function: Callable[..., Any], work: int) -> Callable[..., Any] | None:
    """The compiled `function`, or None without Numba or where there is little `work`."""
    return _compiled(function) if work >= LEAST and _numba() is not None else None


def nearest(
    points: Any, targets: Any, low: float, high: float, limit: float, largest: float,
    labels: Any, inside: Any, sums: Any, counts: Any, size: int, origins: Any,
) -> bool:  # fmt: skip
    """Write `labels` (n,) of the nearest targets, and which rows are `inside`; True when done.

    Squared distances are summed in the order of the columns. Up to `low` a row is inside and above
    `high` it is not; in between the sum by halves is compared with `limit`, as `within` does. False
    if some number is above `largest` in magnitude, or nan: nothing that was written counts then.

    If `sums` (k, d) is not empty, rows inside, less the one of `origins` (k, d) of their label, are
    added to it and to `counts` (k,) instead, blocks of `size` rows apart first, as `add_rows` does
    with them: one pass for a Lloyd round.
    """
    n, d = points.shape
    columns, squares = np.zeros((d, LANES)), np.empty(d)
    value, best = np.empty(LANES), np.empty(LANES)
    label, near = np.empty(LANES, np.int64), np.empty(LANES, np.bool_)
    adding, own, left = len(sums) > 0, np.zeros(sums.shape), size
    start = 0
    while start < n:
        rows = points[start : start + min(LANES, left)]
        m, large = len(rows), 0
        for j in range(d):
            for i in range(m):
                columns[j, i] = rows[i, j]
            for i in range(LANES):
                large += not abs(columns[j, i]) <= largest
        if large > 0:
            return False
        best[:] = np.inf
        label[:] = 0
        for c in range(len(targets)):
            target = targets[c]
            value[:] = 0.0
            j = 0
            while j + 3 < d:  # four columns a time, still in order
                t0, t1, t2, t3 = target[j], target[j + 1], target[j + 2], target[j + 3]
                x0, x1, x2, x3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
                for i in range(LANES):
                    e0, e1, e2, e3 = x0[i] - t0, x1[i] - t1, x2[i] - t2, x3[i] - t3
                    value[i] = (((value[i] + e0 * e0) + e1 * e1) + e2 * e2) + e3 * e3
                j += 4
            while j < d:
                t0, x0 = target[j], columns[j]
                for i in range(LANES):
                    e0 = x0[i] - t0
                    value[i] += e0 * e0
                j += 1
            for i in range(LANES):
                closer = value[i] < best[i]
                best[i] = value[i] if closer else best[i]
                label[i] = c if closer else label[i]
        unsure = 0
        for i in range(m):
            near[i] = best[i] <= low
            unsure += (best[i] > low) & (best[i] <= high)
        if unsure > 0:
            for i in range(m):
                if low < best[i] <= high:
                    for j in range(d):
                        e0 = rows[i, j] - targets[label[i], j]
                        squares[j] = e0 * e0
                    width = d
                    while width > 4:
                        half = width // 2
                        for j in range(half):
                            squares[j] += squares[width - half + j]
                        width -= half
                    total = squares[0]
                    for j in range(1, width):
                        total += squares[j]
                    near[i] = total <= limit
        start, left = start + m, left - m
        if adding:
            for i in range(m):
                if near[i]:
                    c = label[i]
                    counts[c] += 1
                    for j in range(d):
                        own[c, j] += rows[i, j] - origins[c, j]
        else:
            for i in range(m):
                labels[start - m + i], inside[start - m + i] = label[i], near[i]
        if left == 0 or start == n:
            sums += own
            own[:] = 0.0
            left = size
    return True


def add_rows(sums: Any, counts: Any, block: Any, labels: Any, apart: bool) -> None:
    """Add rows to `sums` (bins, d) and `counts` by label, the block `apart` first; -1 is nobody's.

    Where the sums are 0 it makes no difference, except that bins of many clients fill the cache.
    """
    own = np.zeros(sums.shape) if apart else sums
    n, d = block.shape
    for i in range(n):
        c = labels[i]
        if c >= 0:
            counts[c] += 1
            for j in range(d):
                own[c, j] += block[i, j]
    if apart:
        sums += own


def coins(users: Any, seed: Any, out: Any) -> None:
    """Write `public_coins` of `users`, 64-bit words, into `out`."""
    for i in range(len(users)):
        z = users[i] * np.uint64(0x9E3779B97F4A7C15) + seed
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = z ^ (z >> np.uint64(31))


def hashes(keys: Any, a: Any, b: Any, c: Any, shift: Any, out: Any) -> None:
    """Write the buckets of `keys` (`BucketHash`), 64-bit words, into `out`."""
    for i in range(len(keys)):
        low, high = keys[i] & np.uint64(0xFFFFFFFF), keys[i] >> np.uint64(32)
        out[i] = (low * a + high * b + c) >> shift


def flip_by_parity(bits: Any, rows: Any, buckets: Any) -> None:
    """Flip the bits where `rows` and `buckets`, words below 2^32, share an odd number of ones."""
    for i in range(len(bits)):
        z = rows[i] & buckets[i]
        z ^= z >> np.uint64(16)
        z ^= z >> np.uint64(8)
        z ^= z >> np.uint64(4)
        odd = (np.uint64(0x6996) >> (z & np.uint64(15))) & np.uint64(1)  # parity of four bits
        bits[i] = bits[i] != (odd == np.uint64(1))


def tally(sums: Any, cells: Any, negative: Any) -> None:
    """Add 1 to the cell of each report, or -1 where it is `negative`, in place."""
    for i in range(len(cells)):
        sums[cells[i]] += -1.0 if negative[i] else 1.0
