"""Where a column lies, from noised counts: post-processing of released values, free of charge."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fedclust_helpers._validation import FloatArray

NEXT = 2.5  # standard deviations that a bin must hold next to others which hold rows for sure
REACH = 2  # bins further out that are looked at for them
SPARE = 2.0  # standard deviations of noise that rows beyond a bound may be off


class Window(NamedTuple):
    """First and last bin, both inside; whether counts are sure to lie there."""

    first: int
    last: int
    found: bool


def threshold(n_bins: int, n_columns: int, alarm: float) -> float:
    """How many standard deviations a window must hold, so that noise alone seldom does.

    Windows of 1, 2, 4, ... of b bins are looked at from both ends of d columns: at most 2 d b
    (1 + log2 b) sums. By the union bound any of them passes over no rows with probability `alarm`
    at most.
    """
    n_sums = 2 * n_columns * n_bins * (1 + math.floor(math.log2(n_bins)))
    return -NormalDist().inv_cdf(alarm / n_sums)


def support(counts: FloatArray, std: float, z: float, share: float) -> Window:
    """The bins (b,) that hold rows for sure, cut at both ends while less than `share` lies beyond.

    From each end: of the windows whose sum is more than z standard deviations, one that ends first,
    the shortest of these. Without any, the best window of all, `found` False.
    """
    n = len(counts)
    first, from_above = _first(counts, std, z), _first(counts[::-1], std, z)
    if first is None or from_above is None:
        return _best(counts)
    low, high = sorted((first, n - 1 - from_above))
    low, high = _extended(counts[: high + 1][::-1], std, high - low), high
    low = high - low
    high = low + _extended(counts[low:], std, high - low)
    inside = counts[low : high + 1]
    most = share * max(float(inside.sum()), 1.0)
    low += int(np.argmax(np.cumsum(inside) > most))
    high -= int(np.argmax(np.cumsum(inside[::-1]) > most))
    return Window(low, max(low, high), True)


def _extended(counts: FloatArray, std: float, last: int) -> int:
    """The last bin after bins next to `last` were taken in that probably hold rows, too."""
    while True:
        sums = np.cumsum(counts[last + 1 : last + 1 + REACH])
        sure = np.flatnonzero(sums > NEXT * std * np.sqrt(np.arange(1, len(sums) + 1)))
        if not len(sure):
            return last
        last += int(sure[0]) + 1


def _lengths(n: int) -> list[int]:
    return [2**i for i in range(int(math.log2(n)) + 1)]


def _sums(counts: FloatArray, length: int) -> FloatArray:
    """Sums over all windows of this length."""
    total = np.concatenate([[0.0], np.cumsum(counts)])
    return total[length:] - total[:-length]


def _first(counts: FloatArray, std: float, z: float) -> int | None:
    """Left end of the window that holds rows for sure and ends first; the shortest of several."""
    ends = []
    for length in _lengths(len(counts)):
        sure = np.flatnonzero(_sums(counts, length) > z * std * math.sqrt(length))
        if len(sure):
            ends.append((int(sure[0]) + length - 1, length))
    return None if not ends else min(ends)[0] - min(ends)[1] + 1


def _best(counts: FloatArray) -> Window:
    """The window with the largest sum against its noise."""
    found = []
    for length in _lengths(len(counts)):
        sums = _sums(counts, length)
        at = int(np.argmax(sums))
        found.append((float(sums[at]) / math.sqrt(length), at, length))
    _, at, length = max(found)
    return Window(at, at + length - 1, False)


def trimmed(counts: FloatArray, std: float, most: float) -> Window:
    """All bins but those at the ends that hold less than `most` rows, noise allowed for."""
    n = len(counts)
    spread = SPARE * std * np.sqrt(np.arange(1, n + 1))
    ends = [np.flatnonzero(np.cumsum(one) + spread <= most) for one in (counts, counts[::-1])]
    low, above = (int(few[-1]) + 1 if len(few) else 0 for few in ends)
    return Window(low, n - 1 - above, True) if low < n - above else Window(0, n - 1, True)
