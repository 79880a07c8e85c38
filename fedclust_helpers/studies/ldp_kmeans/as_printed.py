"""Algorithm 1 with the parameters that the paper prints: L = lg n grids, everybody in all calls.

Nobody would run it on data of their own: see `users_needed_as_printed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import check_epsilon, check_int, check_positive, check_share
from fedclust_helpers.federation import LocalReports, planner
from fedclust_helpers.federation.reports import LocalQuery, gaussian_report
from fedclust_helpers.ldp_kmeans import planning, results
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER
from fedclust_helpers.ldp_kmeans.grids import MAX_DEPTH, MAX_FEATURES, NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, check_depths, check_listing, descend
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.one_round import cell_sums, choose_cells, recover
from fedclust_helpers.ldp_kmeans.runs import RUNS
from fedclust_helpers.mechanisms import Mechanism


@dataclass(frozen=True, kw_only=True)
class PrintedPlan(planning.LocalPlan):
    """Algorithm 1 with the paper's parameters: every user in all 2 L calls."""

    grid: NestedGrid
    depths: tuple[int, ...]
    mechanism: Mechanism


@planner
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
    check_listing(grid, check_depths(depths))
    each, share = epsilon / (2 * n_levels), 1 / (CELLS_PER_CLUSTER * k)
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
    n_features = check_int(n_features, "n_features", maximum=MAX_FEATURES)
    alpha = check_positive(alpha, "alpha")
    n_levels = check_int(n_levels, "n_levels")
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
    with results.following(federation, plan, known, progress) as held:
        for query in known:
            federation.ask(query, round=0)
    # lines 13 to 30
    levels = descend(counts, n_sd=plan.n_sd)
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
        federation, plan, held, centers, low_centers=low, proxies=points,
        weights=chosen.weight, levels=tuple(levels), chosen=chosen, grid=grid, projection=q,
    )  # fmt: skip


RUNS["one_round_as_printed"] = run_as_printed  # so that `ldp_kmeans.run` follows such a plan
