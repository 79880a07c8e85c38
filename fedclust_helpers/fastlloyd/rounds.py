"""The rounds of over-clustered Lloyd: what is released, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedclust_helpers._validation import check_int
from fedclust_helpers.client_statistics import (
    CELL_COUNTS,
    CUT_STEPS,
    MAX_CELLS,
    MOMENTS,
    ClientStatistic,
)
from fedclust_helpers.fastlloyd.parameters import known_groups_excess

Branch = Literal["grid", "moments"]

ZOOM_FROM = 50.0  # N mu/sqrt(d) from which two coarse grids find the box of the data first
LITTLE_NOISE = 0.001  # of the cost, if the groups were known: two rounds settle the centres
# Rows of one of the many centres for each noise of a count, and the fewest for each cluster: a
# histogram leaves them one round, where noise decides; moments leave four, where they can move.
ROWS_OF_A_CENTER = {"grid": 80.0, "moments": 16.0}
FEWEST = {"grid": 2.0, "moments": 1.5}
MOST_CENTERS = 100  # more of them find no more
ROWS_OF_A_CLUSTER, MOST_CLUSTERS = 30.0, 48  # likewise of a cluster, where k is chosen
CELLS_PER_ROW = 64  # however little noise there is, finer cells than that tell nothing more


class Round(NamedTuple):
    """One release of a plan: its share of mu^2, and what is broadcast for it."""

    statistic: ClientStatistic
    share: float
    size: int  # cells on an axis, or centres
    radius: float = 0.0  # of a cut step, in units of the spread of the data


def many(branch: Branch, n: int, k: int, mu: float) -> int:
    """Centres of the rounds before the merge: as many as have rows enough."""
    most = int(min(n * mu / ROWS_OF_A_CENTER[branch], n / 4, MOST_CENTERS))
    return max(math.ceil(FEWEST[branch] * k), most)


def checked_range(k_range: tuple[int, int] | None) -> tuple[int, int]:
    """Smallest and largest k where it is chosen; 2 to `MOST_CLUSTERS` by default."""
    if k_range is None:
        return 2, MOST_CLUSTERS
    if isinstance(k_range, str) or np.shape(k_range) != (2,):
        raise TypeError("k_range must be two numbers, the smallest and the largest k")
    low = check_int(k_range[0], "the smallest k of k_range")
    return low, check_int(k_range[1], "the largest k of k_range", minimum=low + 1)


def largest_k(n: float, mu: float, k_range: tuple[int, int]) -> int:
    """The largest k of a range that is looked at: each cluster must show above the noise."""
    low, high = k_range
    return max(low + 1, min(high, int(n * mu / ROWS_OF_A_CLUSTER)))


def rounds_for(branch: Branch, n: int, d: int, k: int, mu: float) -> list[Round]:
    """All releases. Where noise matters little two rounds settle the k centres, else one."""
    settling = 2 if known_groups_excess(n, k, d, mu) <= LITTLE_NOISE else 1
    centers = many(branch, n, k, mu)
    if branch == "moments":
        first = [Round(MOMENTS, 0.07, 1)]
        shares, reach, fade = _growing(0.57, 4), 0.65, 0.85
        wide, last, end = reach * (8 / centers) ** (1 / d), 0.36, reach * fade**4
    else:
        first, rest = [], 1.0
        if n * mu / math.sqrt(d) >= ZOOM_FROM:
            first = [Round(CELL_COUNTS, 0.04, _per_axis(n, d, mu * 0.2)) for _ in range(2)]
            rest = 0.92
        first.append(Round(CELL_COUNTS, 0.35 * rest, _per_axis(n, d, mu * math.sqrt(0.35 * rest))))
        shares, reach, fade = [0.45 * rest], 0.36, 1.0
        wide, last, end = reach * (2 / centers) ** (1 / d), 0.20 * rest, 0.8 * reach / k ** (1 / d)
    return [
        *first,
        *(Round(CUT_STEPS, share, centers, wide * fade**t) for t, share in enumerate(shares)),
        *(Round(CUT_STEPS, last / settling, k, end) for _ in range(settling)),
    ]


def _per_axis(n: int, d: int, mu: float) -> int:
    """Cells on an axis: finer cells hold fewer rows against the same noise."""
    cells = min((n * mu / 1.5) ** (2 * d / (d + 2)), MAX_CELLS, CELLS_PER_ROW * n)
    return max(2, int(min(round(cells ** (1 / d)), MAX_CELLS ** (1 / d))))


def _growing(total: float, n: int) -> list[float]:
    """n shares that add up to `total`, each half as much again as the one before."""
    parts = 1.5 ** np.arange(n)
    return (total * parts / parts.sum()).tolist()


def parts_of(one: Round, d: int) -> Sequence[float]:
    """Shares of the parts of one release: sums and counts as in Eq. 19, moments 80 to 20."""
    if one.statistic is CUT_STEPS:
        sums = math.sqrt(4 * d) / (1 + math.sqrt(4 * d))
        return (sums, 1 - sums)
    return (0.8, 0.2) if one.statistic is MOMENTS else (1.0,)
