"""Algorithm 1: k-means from one round of locally private reports. Lines are those of the paper.

First with parameters that work, then as printed: L = lg n grids, everybody in all calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_epsilon,
    check_function,
    check_int,
    check_non_negative,
    check_positive,
    check_share,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.reports import LocalQuery, gaussian_report
from fedclust_helpers.ldp_kmeans import heavy_cells, planning, results
from fedclust_helpers.ldp_kmeans.grids import NestedGrid, grid_for_algorithm_1
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, CellLevel, ChosenCells, match_rows
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.planning import OneRoundPlan, PrintedPlan
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
    # lines 1 to 8: the map Q and the grids, public
    q = results.ball_projection(federation, plan.n_features, plan.n_outputs)
    grid = NestedGrid(plan.n_outputs)
    counts = CellCounts(grid, plan.depths, plan.epsilon, projection=q, rng=public)
    sums = None
    if plan.mechanism is not None and plan.sums_depth is not None:
        sums = cell_sums(grid, plan.sums_depth, q, plan.mechanism, rng=public)
    known: list[LocalQuery] = [counts] if sums is None else [counts, sums]
    # lines 9 to 12: what the users say
    with results.following(federation, plan, known, progress) as n_before:
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
        federation, plan, n_before, centers, low_centers=low, proxies=points, weights=weights,
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


# --- with the parameters that the paper prints ----------------------------------------------------


def plan_as_printed(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    alpha: float = 0.5, n_levels: int | None = None, n_sd: float = 3.5, n_init: int = 10,
) -> PrintedPlan:  # fmt: skip
    """Plan Algorithm 1 with the paper's parameters: L = lg n grids, every user in all 2 L calls.

    Each user answers the L histograms with epsilon/(2L) and the L sum oracles with
    (epsilon/(2L), delta/L) each, noise as Algorithm 6 prints it: continuous, so there is no secure
    mode. Counts have standard deviation about (4 L/epsilon) sqrt(n). The dimension is not reduced.
    """
    asked = planning.asked_for(federation, n_clusters, epsilon, delta, n_sd, n_init)
    n, d, k = federation.n_records, federation.n_features, asked["n_clusters"]
    if federation.facts.noise != "continuous":
        raise ValueError(
            "federation must be in teaching mode: Algorithm 6 prints continuous Gaussian noise,"
            " whose last bits leak, so it has no secure mode; ldp_kmeans.plan has one"
        )
    n_levels = max(1, math.ceil(math.log2(n))) if n_levels is None else n_levels
    n_levels = check_int(n_levels, "n_levels")
    grid, fine_to_coarse = grid_for_algorithm_1(d, alpha, n_levels)
    depths = tuple(p + (fine_to_coarse[-1] == 0) for p in reversed(fine_to_coarse))
    heavy_cells.check_listing(grid, heavy_cells.check_depths(depths))
    each, share = epsilon / (2 * n_levels), 1 / (planning.CELLS_PER_CLUSTER * k)
    mechanism = gaussian_report(1.0, each, delta / n_levels, calibration="as_printed")
    made = PrintedPlan(
        **asked, method="one_round_as_printed", n_rounds=1,
        releases=(
            planning.bit_release("cell counts", 0, epsilon / 2, n_levels),
            *(planning.vector_release("cell sums", 0, mechanism, d) for _ in depths),
        ),
        predicted_error=n_sd * RandomizedResponse(each).debias / math.sqrt(n),
        predicted_error_is=f"of the users must share a cell for it to stand out ({n_sd:g} standard"
        " deviations); above 1 nothing can",
        needed=users_needed_as_printed(share, epsilon, n_levels, n_sd=n_sd),
        grid=grid, depths=depths, mechanism=mechanism,
    )  # fmt: skip
    if not made.total_epsilon <= epsilon * (1 + 1e-9):
        raise ValueError(
            f"epsilon must be smaller: at {epsilon:g} the noise of Algorithm 6 is proved for less"
            f" than what it gives, {made.total_epsilon:g}"
        )
    return made


def users_needed_as_printed(
    share: float, epsilon: float, n_levels: int | None = None, *, n_sd: float = 4.0
) -> int:
    """Users for which a cell with `share` of the data shows n_sd sd at epsilon/(2L) per histogram.

    Without `n_levels`, L = lg n of the answer itself (the fixed point of the two).
    """
    share, n_sd = check_share(share, "share", one=True), check_positive(n_sd, "n_sd")
    epsilon = check_epsilon(epsilon)
    if n_levels is not None:
        check_int(n_levels, "n_levels", maximum=10**6)
    n = 2.0
    for _ in range(200):
        levels = math.ceil(math.log2(n)) if n_levels is None else n_levels
        ratio = n_sd * RandomizedResponse(epsilon / (2 * max(1, levels))).debias / share
        if not ratio < 1e100:
            raise ValueError(f"share must be larger, n_sd smaller: {share:g} is never seen")
        new = max(2.0, ratio**2)
        if math.isclose(new, n, rel_tol=1e-6):
            break
        n = new
    return math.ceil(n if n_levels is None else ratio**2)


def run_as_printed(
    federation: LocalReports, plan: PrintedPlan, *, rng: np.random.Generator, progress: Progress
) -> results.LdpResult:
    """Algorithm 1 with the paper's parameters: corners as proxy points, sums at all levels.

    Slips of the text that are corrected, or the program would not run: t_l =
    alpha 2^(l-L+1)/sqrt(d) (line 6), L grids instead of L + 1 (line 9), Q for M (line 11), PH
    subtracted at the maximal cell's own level (lines 17-19), a count must exceed its own noise
    before it is picked (line 20), z(g, s) (line 32). `descend` for Bitstogram (line 10) flatters
    the printed parameters.
    """
    grid, public = plan.grid, federation.randomness.public
    # lines 1 to 8
    q = results.ball_projection(federation, plan.n_features, plan.n_features)
    counts = CellCounts(
        grid, plan.depths, plan.epsilon / 2, projection=q, rng=public, n_answers=len(plan.depths)
    )
    sums = {p: cell_sums(grid, p, q, plan.mechanism, rng=public) for p in plan.depths}
    # lines 9 to 12
    known: list[LocalQuery] = [counts, *sums.values()]
    with results.following(federation, plan, known, progress) as n_before:
        for query in known:
            federation.ask(query, round=0)
    # lines 13 to 30
    levels = heavy_cells.descend(counts, n_sd=plan.n_sd)
    chosen = choose_cells(
        levels, n_sd=plan.n_sd, vector_sums=lambda p, cells: sums[p].estimate(grid.keys(cells, p))
    )
    points = chosen.points(grid, "corner")
    results.warn_if_blind(len(points), plan, federation.n_records)
    # line 31
    low = results.proxy_centers(points, chosen.weight, plan, rng=rng)
    # lines 32 to 38
    assert chosen.sums is not None  # asked for above
    centers = recover(points, chosen.sums, chosen.weight, low)
    centers = np.where(np.isfinite(centers), centers, results.to_ball(low))
    return results.result_of(
        federation, plan, n_before, centers, low_centers=low, proxies=points,
        weights=chosen.weight, levels=tuple(levels), chosen=chosen, grid=grid, projection=q,
    )  # fmt: skip
