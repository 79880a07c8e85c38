"""Cells of nested grids counted from one bit per user, and which of them hold data.

Shared by the one-round algorithm (Algorithm 1, lines 9-28) and the four-round one (Algorithm 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_epsilon,
    check_function,
    check_instance,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
)
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import MAX_CELLS, MAX_DEPTH, NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse, participations
from fedclust_helpers.ldp_kmeans.projections import BallProjection

MAX_SURVIVORS = 400  # cells that go on to the next depth


class CellCounts(OneBitCounts):
    """One-bit counts of the cell that holds a user's (projected) point, at several depths.

    A user answers for ``n_answers`` of the depths (public coin), with epsilon/n_answers each.
    """

    def __init__(
        self,
        grid: NestedGrid,
        depths: tuple[int, ...],
        epsilon: float,
        *,
        projection: BallProjection,
        rng: np.random.Generator,
        n_answers: int | None = None,
        n_buckets: int = 2**16,
        name: str = "cell counts",
    ) -> None:
        depths = check_depths(depths)
        finest = depths[-1]
        if not isinstance(grid, NestedGrid):
            raise TypeError(f"grid must be a NestedGrid, got {type(grid).__name__}")
        if not isinstance(projection, BallProjection):
            raise TypeError(f"projection must be a BallProjection, got {type(projection).__name__}")
        if projection.n_outputs != grid.n_features:
            raise ValueError(
                f"projection must have {grid.n_features} outputs as the grid has, got"
                f" {projection.n_outputs}"
            )

        def encode(points: FloatArray, channels: IntArray) -> Question:
            cells = grid.cells(projection(points), finest)
            keys = grid.keys(cells, finest)
            for index, depth in enumerate(depths[:-1]):
                here = np.flatnonzero(channels == index)
                keys[here] = grid.keys(cells[here] >> (finest - depth), depth)
            return Question(keys)

        m = participations(epsilon, len(depths)) if n_answers is None else n_answers
        super().__init__(
            encode, epsilon, rng=rng, shares=[1.0] * len(depths), n_answers=m,
            n_buckets=n_buckets, name=name,
        )  # fmt: skip
        self.grid, self.depths, self.projection = grid, depths, projection

    def count(self, cells: IntArray, depth: int) -> FloatArray:
        """Estimated number of asked users in each cell, (m,)."""
        channel = self._channel_of(depth)
        return self.estimate(self.grid.keys(cells, depth), channel=channel)

    def _channel_of(self, depth: int) -> int:
        if check_int(depth, "depth") not in self.depths:
            raise ValueError(f"depth must be one of the depths {self.depths}, got {depth}")
        return self.depths.index(depth)

    def depth_std(self, depth: int) -> float:
        """Standard deviation of `count`."""
        return self.std(channel=self._channel_of(depth))


def check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    """Increasing depths from 1 to 52."""
    given: object = depths
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"depths must be a sequence of integers, got {type(depths).__name__}")
    depths = tuple(check_int(p, "depths", maximum=MAX_DEPTH) for p in depths)
    if not depths or any(b <= a for a, b in zip(depths, depths[1:], strict=False)):
        raise ValueError(f"depths must increase, got {depths}")
    return depths


def check_listing(
    grid: NestedGrid, depths: tuple[int, ...], *, max_cells: int = MAX_SURVIVORS
) -> None:
    """Refuse depths whose cells `descend` could not list, whatever the reports say."""
    if not isinstance(grid, NestedGrid):
        raise TypeError(f"grid must be a NestedGrid, got {type(grid).__name__}")
    depths, max_cells = check_depths(depths), check_int(max_cells, "max_cells")
    try:
        n_cells = len(grid.all_cells(depths[0], radius=1.0))
    except ValueError as refused:
        raise ValueError(f"depths must start lower: {refused}") from None
    for depth, deeper in zip(depths, depths[1:], strict=False):
        n_cells = min(n_cells, max_cells) << min(grid.n_features * (deeper - depth), 63)
        if n_cells > MAX_CELLS:
            raise ValueError(
                f"depths must lie closer together: one cell of depth {depth} has"
                f" 2^{grid.n_features * (deeper - depth)} descendants of depth {deeper} in"
                f" {grid.n_features} dimensions (at most {MAX_CELLS} cells are listed)"
            )


@dataclass(frozen=True)
class CellLevel:
    """The cells of one depth that the server looked at, with their estimated counts."""

    depth: int
    cells: IntArray
    counts: FloatArray
    std: float


def descend(
    counts: CellCounts, *, z: float = 2.5, radius: float = 1.0, max_cells: int = MAX_SURVIVORS
) -> list[CellLevel]:
    """Prefix-tree descent: look only at children of cells whose count stands out of the noise.

    One round of reports is enough: users answered for fixed depths, only the server's reading is
    adaptive. The first depth is listed in full (cells that meet the ball); after that, the children
    of at most `max_cells` survivors with count > z sd. With m candidates noise alone passes the
    threshold m Q(z) times, so z is raised to sqrt(2 ln m) + 1/2 where that is larger.

    Returns
    -------
    list of CellLevel, coarse to fine; a level holds the survivors of its depth.
    """
    if not isinstance(counts, CellCounts):
        raise TypeError(f"counts must be CellCounts, got {type(counts).__name__}")
    z, max_cells = check_non_negative(z, "z"), check_int(max_cells, "max_cells")
    radius = check_non_negative(radius, "radius")
    levels: list[CellLevel] = []
    grid = counts.grid
    for depth in counts.depths:
        if not levels:
            candidates = grid.all_cells(depth, radius=radius)
        else:
            parents = levels[-1]
            candidates = grid.children(parents.cells, parents.depth, depth)
            candidates = candidates[grid.meets_ball(candidates, depth, radius)]
        std = counts.depth_std(depth)
        estimates = counts.count(candidates, depth)
        kept = np.flatnonzero(estimates > threshold(len(candidates), z) * std)
        kept = kept[np.argsort(-estimates[kept], kind="stable")][:max_cells]
        levels.append(CellLevel(depth, candidates[kept], estimates[kept], std))
    return levels


def threshold(n_candidates: int, z: float) -> float:
    """Standard deviations that a count must exceed when `n_candidates` are compared."""
    z = check_non_negative(z, "z")
    if check_int(n_candidates, "n_candidates", minimum=0) < 1000:
        return z
    return max(z, math.sqrt(2 * math.log(n_candidates)) + 0.5)


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
        check_instance(grid, NestedGrid, "grid")
        check_choice(where, "where", ("center", "corner"))
        out = np.empty(self.cells.shape)
        for depth in np.unique(self.depth):
            rows = self.depth == depth
            place = grid.centers if where == "center" else grid.corners
            out[rows] = place(self.cells[rows], int(depth))
        return out


def choose_cells(
    levels: list[CellLevel],
    *,
    z: float = 3.5,
    max_cells: int | None = None,
    vector_sums: Callable[[int, IntArray], FloatArray] | None = None,
) -> ChosenCells:
    """Algorithm 1, lines 13-30: cover the data greedily, from fine cells to coarse ones.

    ``Count(g) = PH(g) - sum of PH over the maximal chosen descendants of g``: what g holds beyond
    the cells that were chosen inside it. A cell is chosen when Count exceeds
    ``z sd sqrt(1 + number subtracted)``, so no multiplicity is negative. (Line 20 takes a fixed
    number of largest cells, and lines 17-19 subtract PH at the wrong level; a chosen cell then
    replaces its descendants among the maximal ones, lines 22-28.)

    Parameters
    ----------
    levels : list of CellLevel, coarse to fine
    z : float
    max_cells : int, optional
        Choose at most so many of each depth (the 2 N_G log(1/alpha) of line 20).
    vector_sums : callable, optional
        ``vector_sums(depth, cells)``: PSO of cells (m, d'), kept in step with the counts as
        Sum(g) (lines 16 and 19).
    """
    check_levels(levels)
    z = check_non_negative(z, "z")
    if max_cells is not None:
        check_int(max_cells, "max_cells", minimum=0)
    if vector_sums is not None:
        check_function(vector_sums, "vector_sums")
    n_features = levels[0].cells.shape[1]
    # maximal chosen cells: depth, coordinates and PH; one row each
    depth_of = np.zeros(0, dtype=np.int64)
    maximal, maximal_ph = np.zeros((0, n_features), dtype=np.int64), np.zeros(0)
    vectors = vector_sums or (lambda depth, cells: np.zeros((len(cells), 0)))
    maximal_pso = vectors(levels[0].depth, maximal)
    chosen: list[tuple[int, IntArray, FloatArray, FloatArray]] = []
    for level in reversed(levels):
        up = maximal >> (depth_of - level.depth)[:, None]
        parent = match_rows(up, level.cells)
        below = parent >= 0
        size = len(level.cells)
        subtract = np.bincount(parent[below], weights=maximal_ph[below], minlength=size)
        n_below = np.bincount(parent[below], minlength=size)
        count = level.counts - subtract
        picked = np.flatnonzero(count > z * level.std * np.sqrt(1.0 + n_below))
        if max_cells is not None:
            picked = picked[np.argsort(-count[picked], kind="stable")][:max_cells]
        pso = vectors(level.depth, level.cells)
        sums = pso.copy()
        np.subtract.at(sums, parent[below], maximal_pso[below])
        chosen.append((level.depth, level.cells[picked], count[picked], sums[picked]))
        stays = ~np.isin(parent, picked)
        depth_of = np.concatenate([depth_of[stays], np.full(len(picked), level.depth)])
        maximal = np.concatenate([maximal[stays], level.cells[picked]])
        maximal_ph = np.concatenate([maximal_ph[stays], level.counts[picked]])
        maximal_pso = np.concatenate([maximal_pso[stays], pso[picked]])
    return ChosenCells(
        np.concatenate([np.full(len(c), p) for p, c, _, _ in chosen]),
        np.concatenate([c for _, c, _, _ in chosen]),
        np.concatenate([w for _, _, w, _ in chosen]),
        np.concatenate([v for _, _, _, v in chosen]) if vector_sums else None,
    )


def check_levels(levels: Sequence[CellLevel]) -> None:
    """Counted cells of increasing depths, at least one level."""
    if (
        not isinstance(levels, Sequence)
        or not levels
        or not all(isinstance(lv, CellLevel) for lv in levels)
    ):
        raise TypeError("levels must be a sequence of CellLevel, at least one")
    if any(b.depth <= a.depth for a, b in zip(levels, levels[1:], strict=False)):
        raise ValueError("levels must go from coarse to fine")
    for level in levels:
        if level.cells.ndim != 2 or level.counts.shape != (len(level.cells),):
            raise ValueError("levels must hold one count for each cell")


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


def detection_threshold(
    n_users: int, epsilon: float, n_levels: int, *, z: float = 3.5, n_answers: int | None = None
) -> float:
    """Smallest count that is detected among n users: z c sqrt(n M/m), from public numbers."""
    n_users, n_levels = check_int(n_users, "n_users"), check_int(n_levels, "n_levels")
    z, epsilon = check_positive(z, "z"), check_epsilon(epsilon)
    m = participations(epsilon, n_levels) if n_answers is None else n_answers
    check_int(m, "n_answers", maximum=n_levels)
    c = RandomizedResponse(epsilon / m).debias
    return z * c * math.sqrt(n_users * n_levels / m)


def users_needed(
    share: float,
    epsilon: float,
    n_levels: int,
    *,
    z: float = 3.5,
    user_share: float = 1.0,
    n_answers: int | None = None,
) -> int:
    """Users for which a cell that holds `share` of the data stands out: z^2 c^2 M/(m share^2).

    A share `user_share` of them counts cells, m = `n_answers` of M = `n_levels` levels each.
    """
    for value, name in ((share, "share"), (user_share, "user_share")):
        if not 0 < check_real(value, name) <= 1:
            raise ValueError(f"{name} must lie in (0, 1], got {value}")
    one = detection_threshold(1, epsilon, n_levels, z=z, n_answers=n_answers)
    if one / share > 1e100:
        raise ValueError(f"share must be larger or z smaller: {share:g} is never seen at z={z:g}")
    return math.ceil((one / share) ** 2 / user_share)
