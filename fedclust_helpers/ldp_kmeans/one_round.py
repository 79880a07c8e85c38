"""Algorithm 1: k-means from one round of locally private reports. Lines are those of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount
from fedclust_helpers._validation import Count, FloatArray, IntArray, check_int
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.ldp_kmeans import heavy_cells, shared
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER, Expected
from fedclust_helpers.ldp_kmeans.grids import MAX_DEPTH, NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, CellLevel, ChosenCells, match_rows
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse, participations
from fedclust_helpers.ldp_kmeans.projections import BallProjection, to_ball
from fedclust_helpers.ldp_kmeans.shared import Deviations, Report, Starts
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.program import Ask, Divide, Options, Public, Steps

Depth = Annotated[int, partial(check_int, maximum=MAX_DEPTH)]


class FoundCells(NamedTuple):
    """Centres (k, d') in the unit ball, and what the server saw on the way.

    `low_centers` (k, d) are those of the `proxies` (m, d), points with `weights` (m,) users each.
    `levels` are the cells that the server looked at, `chosen` those that became proxy points.
    """

    centers: FloatArray
    low_centers: FloatArray
    proxies: FloatArray
    weights: FloatArray
    levels: tuple[CellLevel, ...]
    chosen: ChosenCells
    grid: NestedGrid
    projection: BallProjection


def one_round(
    public: Public, report: Report, *, n_clusters: int, sums: bool | Literal["auto"] = "auto",
    n_outputs: Count | None = None, depths: Any = None, sums_depth: Depth | None = None,
    n_sd: Deviations = 3.5, n_init: Starts = 10,
) -> Steps:  # fmt: skip
    """Algorithm 1 with parameters that work: (epsilon, delta) for any two values of one user.

    Users are split, not the budget: those who count answer m = max(1, round(epsilon/2.18)) of the
    levels with epsilon/m each; those who sum (half of the users, 70 % for d' > 6) send one vector
    with (epsilon, delta). Without sums the run is pure, and its delta is 0.

    Shuffled users (``simulate(points, "shuffled")``) send no sums. (epsilon, delta) is then that of
    the shuffled set, which the server sees; a report has the larger `dial.local_epsilon` of the
    plan. What the federation could not run is refused; nothing is released or charged.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan` takes the `federation` of users who will run it, one point each in
        the unit ball.
    report : Report
        What one report keeps. `plan` takes `epsilon` and `delta`, 1e-6 by default.
    n_clusters : int
    sums : bool or "auto"
        Recover centres in R^d' with HeavySumsOracle. "auto": only if a projection is needed.
    n_outputs : int, optional
        d after projection: d' up to 6, else 4 (then `sums` is needed).
    depths, sums_depth : tuple of int and int, optional
        Depths of the grids on [-1, 1]^d, and the one of the sums; cells of depth p have side
        2^(1-p). Default: those with the least predicted error (`ldp_kmeans.depths`).
    n_sd : float
        Standard deviations that a count must exceed to be seen.
    n_init : int
        Starts of the server's k-means.
    """
    k, n, n_features = n_clusters, public.facts.n_records, public.facts.n_features
    d = shared.outputs_of(public.facts, n_outputs)
    summing = _sums(sums, n_features, d)
    tried, epsilon, share = None if depths is None else [depths], report.local_epsilon, 0.0
    if summing:
        share = 0.7 if n_features > 6 else 0.5
        noise = public.gaussian_report(n_features, epsilon=report.epsilon, delta=report.delta)
        expected = Expected((1 - share) * n, n_features, d, k, epsilon, n_sd)
        levels, depth = expected.best_for_sums(share * n, n_features * noise.std**2, tried)
        depth = sums_depth or depth
        if depth not in levels:
            raise ValueError(f"sums_depth must be one of the depths {levels}, got {depth}")
    else:
        levels = Expected(n, d, d, k, epsilon, n_sd).best(tried)
    shared.check_questions(public, len(levels) + summing)
    # lines 1 to 8: the map Q and the grids, public
    q, grid = shared.ball_projection(public, d), NestedGrid(d)
    heavy_cells.check_listing(grid, levels)
    counts = CellCounts(grid, levels, epsilon, projection=q, rng=public.coins)
    # lines 9 to 12: one bit of each user about the cell of its point (or m bits), or one vector
    if summing:
        vectors = cell_sums(grid, depth, q, noise, rng=public.coins)
        yield Divide({"count": 1 - share, "sum": share})
        yield Ask(counts, "count", depths=levels), Ask(vectors, "sum", depth=depth)
    else:
        yield Ask(counts, depths=levels)

    def decoded() -> FoundCells:
        # lines 13 to 30: cells that stand out; the proxy data set D*
        seen = heavy_cells.descend(counts)
        chosen = choose_cells(seen, n_sd=n_sd)
        # cell centres: corners (line 8) are half a diagonal off
        points, weights = chosen.points(grid), chosen.weight * (n / max(1, counts.n_users))
        shared.warn_if_blind(len(points), public, report)
        # line 31: S*
        low = centers = shared.proxy_centers(public, points, weights, k, n_init)
        # lines 32 to 38: S'
        if summing:
            level = next(lv for lv in seen if lv.depth == depth)
            found = vectors.estimate(grid.keys(level.cells, depth))
            places = grid.centers(level.cells, depth)
            scale = vectors.n_users / max(1, counts.n_users)
            centers = recover(places, found, level.counts, low, scale=scale)
            if d == n_features:
                centers = np.where(np.isfinite(centers), centers, low)
            centers = np.nan_to_num(centers, nan=0.0)
        return FoundCells(centers, low, points, weights, tuple(seen), chosen, grid, q)

    return decoded


# --- steps ----------------------------------------------------------------------------------------


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
        count = level.counts - bincount(parent[below], maximal_ph[below], minlength=size)
        n_below = bincount(parent[below], minlength=size)
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
    count = scale * bincount(label, weights=counts, minlength=k)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return to_ball(np.where(count > 0, total / count, np.nan))


# --- what the planners know -----------------------------------------------------------------------


def _sums(sums: bool | str, n_features: int, d: int) -> bool:
    return d < n_features if sums == "auto" else bool(sums)


def _checked(facts: FederationFacts, options: Options) -> Options:
    """Centres live in R^d': a projection cannot be undone without sums."""
    options = shared.of_users(facts, options)
    d = shared.outputs_of(facts, options["n_outputs"])
    if d < facts.n_features and not _sums(options["sums"], facts.n_features, d):
        raise ValueError("sums must be True when points are projected: centres live in R^d'")
    return options


def _error(plan: Plan) -> tuple[float, str]:
    n, k, d, shares = plan.facts.n_records, plan.n_clusters, plan.n_features, dict(plan.parts)
    if shares:
        std = plan.releases[1].mechanisms[0].std
        return k * std * math.sqrt(CELLS_PER_CLUSTER * d / (shares["sum"] * n)), (
            "distance by which noise moves a centre (root mean square),"
            f" {k} clusters of equal size over {CELLS_PER_CLUSTER} cells each"
        )
    n_sd, n_levels = plan.options["n_sd"], len(plan.broadcasts("depths")[0])
    least = heavy_cells.detection_threshold(n, plan.dial.local_epsilon, n_levels, n_sd=n_sd)
    return least / n, (
        f"of the users must share a cell for it to stand out ({n_sd:g} standard deviations)"
    )


def _message(public: Public, options: Options, epsilon: float) -> tuple[RandomizedResponse, ...]:
    d, k = shared.outputs_of(public.facts, options["n_outputs"]), options["n_clusters"]
    depths = options["depths"]
    if depths is None:
        depths = Expected(public.facts.n_records, d, d, k, epsilon, options["n_sd"]).best()
    m = participations(epsilon, len(depths))
    return (RandomizedResponse(epsilon / m),) * m  # of a user who counts


ONE_ROUND = shared.algorithm(
    "one_round", one_round, check=_checked, predict=_error,
    search=shared.stated(_message),
)  # fmt: skip

plan = ONE_ROUND.planner()
