"""Algorithm 1 with the parameters that the paper prints: L = lg n grids, everybody in all calls.

Nobody would run it on data of their own: see `users_needed_as_printed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedclust_helpers._validation import (
    Count,
    Positive,
    check_epsilon,
    check_int,
    check_positive,
    check_share,
)
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans import shared
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER
from fedclust_helpers.ldp_kmeans.grids import MAX_DEPTH, NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, check_depths, check_listing, descend
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.one_round import FoundCells, cell_sums, choose_cells, recover
from fedclust_helpers.ldp_kmeans.projections import to_ball
from fedclust_helpers.ldp_kmeans.shared import Deviations, Report, Starts
from fedclust_helpers.program import Ask, Options, Public, Steps


def as_printed(
    public: Public, report: Report, *, n_clusters: int, alpha: Positive = 0.5,
    n_levels: Count | None = None, n_sd: Deviations = 3.5, n_init: Starts = 10,
) -> Steps:  # fmt: skip
    """Algorithm 1 with the paper's parameters: L = lg n grids, every user in all 2 L calls.

    Each user answers the L histograms with epsilon/(2L) and the L sum oracles with
    (epsilon/(2L), delta/L) each, noise as Algorithm 6 prints it: continuous, so there is no secure
    mode. Counts have standard deviation about (4 L/epsilon) sqrt(n). The dimension is not reduced.
    Proxy points are corners, sums are asked for at all levels.

    Slips of the text that are corrected, or the program would not run: t_l =
    alpha 2^(l-L+1)/sqrt(d) (line 6), L grids instead of L + 1 (line 9), Q for M (line 11), PH
    subtracted at the maximal cell's own level (lines 17-19), a count must exceed its own noise
    before it is picked (line 20), z(g, s) (line 32). `descend` for Bitstogram (line 10) flatters
    the printed parameters.
    """
    k, d, epsilon = n_clusters, public.facts.n_features, report.epsilon
    n_levels = _levels(public.facts.n_records, n_levels)
    # lines 1 to 8
    grid, fine_to_coarse = grid_for_algorithm_1(d, alpha, n_levels)
    depths = check_depths(p + (fine_to_coarse[-1] == 0) for p in reversed(fine_to_coarse))
    check_listing(grid, depths)
    q = shared.ball_projection(public, d)
    each = epsilon / (2 * n_levels)
    noise = gaussian_report(1.0, each, report.delta / n_levels, calibration="as_printed")
    counts = CellCounts(
        grid, depths, epsilon / 2, projection=q, rng=public.coins, n_answers=n_levels
    )
    sums = {p: cell_sums(grid, p, q, noise, rng=public.coins) for p in depths}
    # lines 9 to 12
    yield Ask(counts), *(Ask(one) for one in sums.values())

    def decoded() -> FoundCells:
        # lines 13 to 30
        levels = descend(counts, n_sd=n_sd)
        chosen = choose_cells(
            levels, n_sd=n_sd, vector_sums=lambda p, cells: sums[p].estimate(grid.keys(cells, p))
        )
        points = chosen.points(grid, "corner")
        shared.warn_if_blind(len(points), public, report)
        # line 31
        low = shared.proxy_centers(public, points, chosen.weight, k, n_init)
        # lines 32 to 38
        assert chosen.sums is not None  # asked for above
        centers = recover(points, chosen.sums, chosen.weight, low)
        centers = np.where(np.isfinite(centers), centers, to_ball(low))
        return FoundCells(centers, low, points, chosen.weight, tuple(levels), chosen, grid, q)

    return decoded


def _levels(n: int, n_levels: int | None) -> int:
    return n_levels or max(1, math.ceil(math.log2(n)))


def users_needed_as_printed(
    share: float, epsilon: float, n_levels: int | None = None, *, n_sd: float = 3.5
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


def grid_for_algorithm_1(
    n_features: int, alpha: float, n_levels: int
) -> tuple[NestedGrid, list[int]]:
    """The grid of Algorithm 1 and the depth of each level l = 1..L, fine to coarse.

    t_l = alpha 2^(l-L+1)/sqrt(d). (Line 6 prints 1/(alpha sqrt(d)), with which the cells exceed the
    domain; Definition 3.1 has alpha r_l/sqrt(d).) The cube is the smallest multiple of the coarsest
    cell by a power of two that covers [-1, 1]^d.
    """
    coarsest = 2 * alpha / np.sqrt(n_features)
    if not 2.0**-MAX_DEPTH <= coarsest <= 1e100:
        raise ValueError(f"alpha must give cells of a depth up to {MAX_DEPTH}, got {alpha:g}")
    up = max(0, int(np.ceil(np.log2(2 / coarsest))))
    if up + n_levels - 1 > MAX_DEPTH:
        raise ValueError(
            f"n_levels must leave depths up to {MAX_DEPTH}, got {up + n_levels - 1} for"
            f" {n_levels} levels"
        )
    grid = NestedGrid(n_features, float(coarsest * 2**up))
    return grid, [up + n_levels - level for level in range(1, n_levels + 1)]


def _teaching(facts: FederationFacts, options: Options) -> Options:
    if facts.noise != "continuous":
        raise ValueError(
            "federation must be in teaching mode: Algorithm 6 prints continuous Gaussian noise,"
            " whose last bits leak, so it has no secure mode; ldp_kmeans.plan has one"
        )
    return shared.of_users(facts, options)


def _proved(
    cost: Callable[[Report], float], public: Public, epsilon: float, delta: float, **_: Any
) -> Report:
    report = Report(epsilon, delta, epsilon)
    if not cost(report) <= epsilon * (1 + 1e-9):
        raise ValueError(
            f"epsilon must be smaller: at {epsilon:g} the noise of Algorithm 6 is proved for less"
            f" than what it gives, {cost(report):g}"
        )
    return report


def _error(plan: Plan) -> tuple[float, str]:
    n, n_sd = plan.facts.n_records, plan.options["n_sd"]
    each = plan.dial.epsilon / (2 * _levels(n, plan.options["n_levels"]))
    return n_sd * RandomizedResponse(each).debias / math.sqrt(n), (
        f"of the users must share a cell for it to stand out ({n_sd:g} standard deviations); above"
        " 1 nothing can"
    )


def _says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    n_levels = _levels(plan.facts.n_records, plan.options["n_levels"])
    share = 1 / (CELLS_PER_CLUSTER * plan.n_clusters)
    n_sd = plan.options["n_sd"]
    needed = users_needed_as_printed(share, plan.dial.epsilon, n_levels, n_sd=n_sd)
    return shared.says(plan, rows, needed)


AS_PRINTED = shared.algorithm(
    "one_round_as_printed", as_printed, check=_teaching, search=_proved, predict=_error, says=_says
)
plan_as_printed = AS_PRINTED.planner("plan_as_printed")
