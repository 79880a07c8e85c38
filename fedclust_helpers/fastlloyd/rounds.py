"""The rounds of over-clustered Lloyd: what each branch releases, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedclust_helpers.client_statistics import (
    CELL_COUNTS,
    CUT_STEPS,
    MAX_CELLS,
    MOMENTS,
    VOTES,
    ClientStatistic,
)

Branch = Literal["grid", "moments", "votes"]

ZOOM_FROM = 50.0  # N mu/sqrt(d) from which two coarse grids find the box of the data first
FEW_ROWS, MANY_ROWS = 15.0, 40.0  # N mu/k, rows of a cluster for each noise of a count
VOTE_SHARE = 0.05
CANDIDATES = 20  # of votes for each cluster at most: more find no more, and cost most of the time
CELLS_PER_ROW = 64  # however little noise there is, finer cells than that tell nothing more


class Round(NamedTuple):
    """One release of a plan: its share of mu^2, and what is broadcast for it."""

    statistic: ClientStatistic
    share: float
    size: int  # cells on an axis, centres or candidates
    radius: float = 0.0  # of a cut step, in units of the spread of the data


def branch_for(n: int, d: int, k: int, mu: float, *, open_k: bool = False) -> Branch:
    """The branch that suits public numbers; `open_k`: k is the largest that may be chosen."""
    rows = n * mu / k
    if d <= 2 or (d <= 4 and (rows < FEW_ROWS or open_k)):
        return "grid"
    seen = k >= (5 if d <= 4 else 15) or (k >= 3 and d <= 16 and rows >= MANY_ROWS)
    return "votes" if seen and not open_k else "moments"


def over(n: int, d: int, k: int, mu: float) -> int:
    """Centres of the rounds before the merge: 2 k, and 1.5 k where many columns have few rows."""
    return math.ceil(1.5 * k) if d > 4 and n * mu / k < FEW_ROWS else 2 * k


def _grid_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    rounds, rest = [], 1.0
    if n * mu / math.sqrt(d) >= ZOOM_FROM:
        rounds = [Round(CELL_COUNTS, 0.04, _per_axis(n, d, mu * 0.2)) for _ in range(2)]
        rest = 0.92
    reach = 0.8 * 0.45 / k ** (1 / d)
    return (
        *rounds,
        Round(CELL_COUNTS, 0.35 * rest, _per_axis(n, d, mu * math.sqrt(0.35 * rest))),
        Round(CUT_STEPS, 0.45 * rest, 2 * k, reach),
        Round(CUT_STEPS, 0.20 * rest, k, 0.8 * reach),
    )


def _per_axis(n: int, d: int, mu: float) -> int:
    """Cells on an axis: finer cells hold fewer rows against the same noise."""
    cells = min((n * mu / 1.5) ** (2 * d / (d + 2)), MAX_CELLS, CELLS_PER_ROW * n)
    return max(2, int(min(round(cells ** (1 / d)), MAX_CELLS ** (1 / d))))


def _moment_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    shares = _growing(0.63, 4)
    return (
        Round(MOMENTS, 0.07, 1),
        *(Round(CUT_STEPS, s, over(n, d, k, mu), 0.65 * 0.85**t) for t, s in enumerate(shares)),
        Round(CUT_STEPS, 0.30, k, 0.65 * 0.85**4),
    )


def _vote_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    std = 1 / (mu * math.sqrt(VOTE_SHARE))
    candidates = int(np.clip(min(n / (2 * std), n / 5), 4 * k, CANDIDATES * k))
    shares = _growing(0.68 - 2 * VOTE_SHARE, 3)
    return (
        Round(MOMENTS, 0.07, 1),
        Round(VOTES, VOTE_SHARE, candidates),
        Round(VOTES, VOTE_SHARE, candidates),
        *(Round(CUT_STEPS, s, over(n, d, k, mu), 0.5 * 0.8**t) for t, s in enumerate(shares)),
        Round(CUT_STEPS, 0.25, k, 0.5 * 0.8**3),
    )


ROUNDS = {"grid": _grid_rounds, "moments": _moment_rounds, "votes": _vote_rounds}


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


def numbers_of(one: Round, d: int) -> int:
    """Numbers that each client sends."""
    sizes = {"cell_counts": one.size**d, "moments": 2 * d, "votes": one.size}
    return sizes.get(one.statistic.name, one.size * (d + 1))
