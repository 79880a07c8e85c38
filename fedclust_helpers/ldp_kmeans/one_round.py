"""Algorithm 1: k-means from one round of locally private reports. Lines are those of the paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_function,
    check_non_negative,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.reports import LocalQuery
from fedclust_helpers.ldp_kmeans import heavy_cells, results
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, CellLevel, ChosenCells, match_rows
from fedclust_helpers.ldp_kmeans.planning import OneRoundPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import Mechanism


def run_one_round(
    federation: LocalReports, plan: OneRoundPlan, *, rng: np.random.Generator, progress: Progress
) -> results.LdpResult:
    """Algorithm 1 with parameters that work; or one grid.

    Each user sends one bit about the cell of its point (or m bits with epsilon/m each), or one
    noised signed vector. Proxy points are cell centres: corners (line 8) are half a diagonal off.
    """
    n, public = federation.n_records, federation.randomness.public
    local, _ = federation.report_budget(plan.epsilon, plan.delta)
    # lines 1 to 8: the map Q and the grids, public
    q = results.ball_projection(federation, plan.n_features, plan.n_outputs)
    grid = NestedGrid(plan.n_outputs)
    counts = CellCounts(grid, plan.depths, local, projection=q, rng=public)
    sums = None
    if plan.mechanism is not None and plan.sums_depth is not None:
        sums = cell_sums(grid, plan.sums_depth, q, plan.mechanism, rng=public)
    known: list[LocalQuery] = [counts] if sums is None else [counts, sums]
    # lines 9 to 12: what the users say
    with results.following(federation, plan, known, progress) as held:
        federation.ask(counts, round=0, part=None if sums is None else "count")
        if sums is not None:
            federation.ask(sums, round=0, part="sum")
    # lines 13 to 30: cells that stand out; the proxy data set D*
    levels = heavy_cells.descend(counts)
    chosen = choose_cells(levels, n_sd=plan.n_sd)
    points, weights = chosen.points(grid), chosen.weight * (n / max(1, counts.n_users))
    results.warn_if_blind(len(points), plan, n)
    # line 31: S*
    low = results.proxy_centers(points, weights, plan, rng=rng)
    # lines 32 to 38: S'
    centers = low
    if sums is not None:
        level = next(lv for lv in levels if lv.depth == plan.sums_depth)
        seen = sums.estimate(grid.keys(level.cells, level.depth))
        places = grid.centers(level.cells, level.depth)
        scale = sums.n_users / max(1, counts.n_users)
        centers = recover(places, seen, level.counts, low, scale=scale)
        if plan.n_outputs == plan.n_features:
            centers = np.where(np.isfinite(centers), centers, low)
        centers = np.nan_to_num(centers, nan=0.0)
    return results.result_of(
        federation, plan, held, centers, low_centers=low, proxies=points, weights=weights,
        levels=tuple(levels), chosen=chosen, grid=grid, projection=q,
    )  # fmt: skip


def cell_sums(
    grid: NestedGrid, depth: int, projection: BallProjection, mechanism: Mechanism, *,
    rng: np.random.Generator,
) -> HeavySums:  # fmt: skip
    """Line 11: HeavySumsOracle over the cells of one depth, for the points themselves."""

    def encode(points: FloatArray, _: IntArray) -> tuple[np.ndarray, FloatArray]:
        return grid.keys(grid.cells(projection(points), depth), depth), points

    return HeavySums(encode, 1.0, projection.n_features, mechanism, rng=rng, name="cell sums")


def choose_cells(
    levels: list[CellLevel], *, n_sd: float = 3.5,
    vector_sums: Callable[[int, IntArray], FloatArray] | None = None,
) -> ChosenCells:  # fmt: skip
    """Lines 13 to 30: cover the data greedily, from fine cells to coarse ones.

    ``Count(g) = PH(g) - sum of PH over the maximal chosen descendants of g``: what g holds beyond
    the cells that were chosen inside it. A cell is chosen when Count exceeds
    ``n_sd std sqrt(1 + number subtracted)``, so no multiplicity is negative. (Line 20 takes a fixed
    number of largest cells, and lines 17 to 19 subtract PH at the wrong level.)

    Parameters
    ----------
    levels : list of CellLevel, coarse to fine
    n_sd : float
    vector_sums : callable, optional
        ``vector_sums(depth, cells)``: PSO of cells (m, d'), kept in step with the counts as Sum(g).
    """
    heavy_cells.check_levels(levels)
    n_sd = check_non_negative(n_sd, "n_sd")
    if vector_sums is not None:
        check_function(vector_sums, "vector_sums")
    pso = vector_sums or (lambda depth, cells: np.zeros((len(cells), 0)))
    # line 13: M*, the maximal chosen cells: depth, coordinates, PH and PSO; one row each
    depth_of = np.zeros(0, dtype=np.int64)
    maximal = np.zeros((0, levels[0].cells.shape[1]), dtype=np.int64)
    maximal_ph, maximal_pso = np.zeros(0), pso(levels[0].depth, maximal)
    chosen: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
    for level in reversed(levels):  # line 14
        # lines 15 to 19: Count and Sum without what is covered already
        parent = match_rows(maximal >> (depth_of - level.depth)[:, None], level.cells)
        below, size = parent >= 0, len(level.cells)
        count = level.counts - np.bincount(parent[below], maximal_ph[below], minlength=size)
        n_below = np.bincount(parent[below], minlength=size)
        level_pso = pso(level.depth, level.cells)
        total = level_pso.copy()
        np.subtract.at(total, parent[below], maximal_pso[below])
        # line 20: G*
        picked = np.flatnonzero(count > n_sd * level.std * np.sqrt(1.0 + n_below))
        depth = np.full(len(picked), level.depth)
        chosen.append((depth, level.cells[picked], count[picked], total[picked]))
        # lines 21 to 28: a chosen cell replaces its descendants among the maximal ones
        stays = ~np.isin(parent, picked)
        depth_of = np.concatenate([depth_of[stays], depth])
        maximal = np.concatenate([maximal[stays], level.cells[picked]])
        maximal_ph = np.concatenate([maximal_ph[stays], level.counts[picked]])
        maximal_pso = np.concatenate([maximal_pso[stays], level_pso[picked]])
    depths, cells, weights, sums = (np.concatenate(c) for c in zip(*chosen, strict=True))
    return ChosenCells(depths, cells, weights, sums if vector_sums else None)


def recover(
    places: FloatArray, sums: FloatArray, counts: FloatArray, low_centers: FloatArray, *,
    scale: float = 1.0,
) -> FloatArray:  # fmt: skip
    """Lines 32 to 38: Sum/Count over the cells nearest each centre of S*, cut to the unit ball.

    Cells lie at `places` (m, d), with vector sums (m, d') and counts (m,), to be multiplied by
    `scale`. Centres without users are nan.
    """
    k, label = len(low_centers), np.zeros(0, dtype=np.int64)
    if len(places):
        label = kmeans.assign(places, low_centers).labels
    total = np.zeros((k, sums.shape[1]))
    np.add.at(total, label, sums)
    count = scale * np.bincount(label, weights=counts, minlength=k)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return results.to_ball(np.where(count > 0, total / count, np.nan))
