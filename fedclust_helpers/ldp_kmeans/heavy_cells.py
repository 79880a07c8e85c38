"""Cells of nested grids counted from one bit per user, and which of them stand out of the noise.

Shared by the one-round algorithm (Algorithm 1, lines 6 to 12) and the four-round one (Algorithm 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_int,
)
from fedclust_helpers.federation.reports import Words
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import MAX_CELLS, MAX_DEPTH, NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse, participations
from fedclust_helpers.ldp_kmeans.projections import BallProjection

MAX_SURVIVORS = 400  # cells that go on to the next depth
RADIUS = 1.0  # of the ball that the (projected) points lie in


class CellCounts(OneBitCounts):
    """One-bit counts of the cell that holds a user's (projected) point, at several depths.

    A user answers for `n_answers` of them, with epsilon/n_answers each; default `participations`.
    """

    def __init__(
        self, grid: NestedGrid, depths: tuple[int, ...], epsilon: float, *,
        projection: BallProjection, rng: np.random.Generator, n_answers: int | None = None,
    ) -> None:  # fmt: skip
        finest = depths[-1]

        def encode(points: FloatArray, channels: IntArray) -> Question:
            cells = grid.cells(projection(points), finest)
            keys = grid.keys(cells, finest)
            for index, depth in enumerate(depths[:-1]):
                here = np.flatnonzero(channels == index)
                keys[here] = grid.keys(cells[here] >> (finest - depth), depth)
            return Question(keys)

        m = participations(epsilon, len(depths)) if n_answers is None else n_answers
        super().__init__(
            encode, epsilon, rng=rng, shares=[1.0] * len(depths), n_answers=m, name="cell counts"
        )
        self.grid, self.depths, self.projection = grid, depths, projection

    def count(self, cells: IntArray, depth: int) -> FloatArray:
        """Estimated number of asked users in each cell, (m,)."""
        return self.estimate(self.grid.keys(cells, depth), channel=self.depths.index(depth))

    def depth_std(self, depth: int) -> float:
        """Standard deviation of `count`."""
        return self.std(channel=self.depths.index(depth))


def check_depths(depths: Any) -> tuple[int, ...]:
    """Increasing depths from 1 to 52."""
    if isinstance(depths, str) or not hasattr(depths, "__iter__"):
        raise TypeError(f"depths must be a sequence of integers, got {type(depths).__name__}")
    found = tuple(check_int(p, "depths", maximum=MAX_DEPTH) for p in depths)
    if not found or any(b <= a for a, b in zip(found, found[1:], strict=False)):
        raise ValueError(f"depths must increase, got {found}")
    return found


def check_listing(grid: NestedGrid, depths: tuple[int, ...]) -> None:
    """Refuse depths whose cells `descend` could not list, whatever the reports say."""
    try:
        n_cells = len(grid.all_cells(depths[0], radius=RADIUS))
    except ValueError as refused:
        raise ValueError(f"depths must start lower: {refused}") from None
    for depth, deeper in zip(depths, depths[1:], strict=False):
        bits = grid.n_features * (deeper - depth)
        n_cells = min(n_cells, MAX_SURVIVORS) << min(bits, 63)
        if n_cells > MAX_CELLS:
            raise ValueError(
                f"depths must lie closer together: one cell of depth {depth} has 2^{bits}"
                f" descendants of depth {deeper} in {grid.n_features} dimensions (at most"
                f" {MAX_CELLS} cells are listed)"
            )


@dataclass(frozen=True)
class CellLevel:
    """The cells of one depth that the server looked at, with their estimated counts."""

    depth: int
    cells: IntArray
    counts: FloatArray
    std: float


def descend(counts: CellCounts, *, n_sd: float = 2.5) -> list[CellLevel]:
    """Prefix-tree descent: look only at children of cells whose count stands out of the noise.

    One round of reports is enough: only the server's reading is adaptive. The first depth is listed
    in full (cells that meet the ball); after that, the children of at most 400 survivors with count
    > n_sd standard deviations: the levels that are returned, coarse to fine. (It replaces
    Bitstogram over d L bits, line 10, which needs many more users for the same list.)
    """
    levels: list[CellLevel] = []
    grid = counts.grid
    for depth in counts.depths:
        if not levels:
            candidates = grid.all_cells(depth, radius=RADIUS)
        else:
            parents = levels[-1]
            candidates = grid.children(parents.cells, parents.depth, depth)
            candidates = candidates[grid.meets_ball(candidates, depth, RADIUS)]
        std = counts.depth_std(depth)
        estimates = counts.count(candidates, depth)
        kept = np.flatnonzero(estimates > threshold(len(candidates), n_sd) * std)
        kept = kept[np.argsort(-estimates[kept], kind="stable")][:MAX_SURVIVORS]
        levels.append(CellLevel(depth, candidates[kept], estimates[kept], std))
    return levels


def threshold(n_candidates: int, n_sd: float) -> float:
    """Standard deviations that a count must exceed to beat the noise of m candidates."""
    if n_candidates < 1000:
        return n_sd
    return max(n_sd, math.sqrt(2 * math.log(n_candidates)) + 0.5)


@dataclass(frozen=True)
class ChosenCells:
    """Cells that became proxy points: `depth` and `weight` (m,), cells (m, d), fine to coarse.

    `sums` (m, d') holds Sum(g), the vector sum over the users behind each, where it was kept.
    """

    depth: IntArray
    cells: IntArray
    weight: FloatArray
    sums: FloatArray | None = None

    def points(self, grid: NestedGrid, where: str = "center") -> FloatArray:
        """One point for each cell: its centre, or the corner that Algorithm 1 prints."""
        place = {"center": grid.centers, "corner": grid.corners}[where]
        out = np.empty(self.cells.shape)
        for depth in np.unique(self.depth):
            rows = self.depth == depth
            out[rows] = place(self.cells[rows], int(depth))
        return out


@dataclass(frozen=True)
class HeavyCells:
    """Heavy cells of each depth (coarse to fine) in a grid whose root is heavy by definition.

    A point belongs to D_l if the cell of level l - 1 that holds it is heavy and the one of level l
    is not. Below the finest depth every cell is light, so the sets D_1, ..., D_(L+1) are a
    partition (Lemma 4.10).
    """

    grid: NestedGrid
    depths: tuple[int, ...]
    cells: tuple[IntArray, ...]

    def level_of(self, points: FloatArray) -> IntArray:
        """l with the point in D_l, 1..L+1: the number of heavy cells around it, plus one."""
        level = np.ones(len(points), dtype=np.int64)
        for depth, heavy in zip(self.depths, self.cells, strict=True):
            keys = self.grid.keys(self.grid.cells(points, depth), depth)
            level += np.isin(keys, self.grid.keys(heavy, depth))
        return level

    def parents(self, points: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, Words]:
        """The smallest heavy cell around each point: level, centre, half diagonal, key (m,)."""
        level, d = self.level_of(points), self.grid.n_features
        centers, half = np.empty((len(points), d)), np.empty(len(points))
        keys = np.empty(len(points), dtype=np.uint64)
        for index, depth in enumerate((0, *self.depths)):
            here = level == index + 1
            if here.any():
                cells = self.grid.cells(points[here], depth)
                centers[here] = self.grid.centers(cells, depth)
                half[here] = self.grid.cell_side(depth) * math.sqrt(d) / 2
                keys[here] = self.grid.keys(cells, depth) * np.uint64(64) + np.uint64(index)
        return level, centers, half, keys

    def centers(self) -> FloatArray:
        """Centres of all heavy cells below the root, coarse to fine: S_H of Algorithm 3."""
        found = [self.grid.centers(c, p) for p, c in zip(self.depths, self.cells, strict=True)]
        return np.concatenate(found)


def match_rows(rows: IntArray, table: IntArray) -> IntArray:
    """Index in `table` (distinct rows) of each row, or -1."""
    if not len(rows) or not len(table):
        return np.full(len(rows), -1)
    both = np.concatenate([table, rows])
    _, label = np.unique(both, axis=0, return_inverse=True)
    label = label.ravel()
    index = np.full(label.max() + 1, -1)
    index[label[: len(table)]] = np.arange(len(table))
    return index[label[len(table) :]]


def detection_threshold(n_users: int, epsilon: float, n_levels: int, *, n_sd: float = 3.5) -> float:
    """Smallest count that is detected among n users: n_sd c sqrt(n M/m), from public numbers.

    M = `n_levels`, of which each user answers m (`participations`); c belongs to epsilon/m.
    """
    m = participations(epsilon, n_levels)
    c = RandomizedResponse(epsilon / m).debias
    return n_sd * c * math.sqrt(n_users * n_levels / m)


def users_needed(
    share: float, epsilon: float, n_levels: int, *, n_sd: float = 3.5, user_share: float = 1.0
) -> int:
    """Users for which a cell that holds `share` of the data stands out: n_sd^2 c^2 M/(m share^2).

    A share `user_share` of them counts cells; M, m and c as in `detection_threshold`.
    """
    one = detection_threshold(1, epsilon, n_levels, n_sd=n_sd)
    return math.ceil((one / share) ** 2 / user_share)
