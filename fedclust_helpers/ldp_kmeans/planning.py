"""Planners of locally private k-means and of its baselines: all public numbers of a run.

A plan is made from the users that will follow it (`local_users`), and lists every question with the
mechanism that answers it. The kind of noise is the federation's choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from fedclust_helpers._validation import (
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
    check_real,
    check_share,
)
from fedclust_helpers.federation import LocalReports, PlannedRelease
from fedclust_helpers.federation.local import check_shares
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans.cells import (
    check_depths,
    check_listing,
    detection_threshold,
    users_needed,
)
from fedclust_helpers.ldp_kmeans.grids import NestedGrid, grid_for_algorithm_1
from fedclust_helpers.ldp_kmeans.local_randomizers import (
    MAX_NUMBERS,
    RandomizedResponse,
    participations,
)
from fedclust_helpers.ldp_kmeans.plans import (
    CELLS_PER_CLUSTER,
    FourRoundPlan,
    OneRoundPlan,
    PrintedPlan,
    VectorPlan,
    bit_release,
    check_flag,
    check_init,
    check_local_epsilon,
    check_z,
    outputs_of,
    users_of,
    vector_release,
)

MAX_ROUNDS = 1000
MAX_CALLS = 1024  # bucket histograms of one four-round run


# --- Algorithm 1 ----------------------------------------------------------------------------------


def default_depths(n_outputs: int, epsilon: float) -> tuple[int, ...]:
    """Two levels: cells of side 0.5 and 0.25 up to six dimensions, 1 and 0.5 beyond.

    The additive error is at least sqrt(n) anyway, so cells finer than n^(-1/4) cannot pay; each
    level costs a factor sqrt(2) or so in noise. The constants were chosen on mixtures in the unit
    ball; they are public.
    """
    check_epsilon(epsilon)
    return (2, 3) if check_int(n_outputs, "n_outputs") <= 6 else (1, 2)


def plan(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    sums: bool | Literal["auto"] = "auto",
    n_outputs: int | None = None,
    depths: tuple[int, ...] | None = None,
    sums_share: float | None = None,
    sums_depth: int | None = None,
    n_answers: int | None = None,
    z: float = 3.5,
    proxies: Literal["center", "corner"] = "center",
    n_init: int = 10,
) -> OneRoundPlan:
    """Plan Algorithm 1 with parameters that work: (epsilon, delta) for any two values of one user.

    Users are split, not the budget: those who count answer m = max(1, round(epsilon/2.18)) of the
    levels with epsilon/m each; those who sum send one vector with (epsilon, delta). Without sums
    the run is pure, and its delta is 0.

    Parameters
    ----------
    federation : LocalReports
        The users who will run the plan, one point each in the unit ball: `local_users`.
    n_clusters : int
    epsilon, delta : float
    sums : bool or "auto"
        Recover centres in R^d' with HeavySumsOracle. "auto": only if a projection is needed.
    n_outputs : int, optional
        d after projection: d' up to 6, else 4 (then `sums` is needed).
    depths : tuple of int, optional
        Depths of the grids on [-1, 1]^d; cells of depth p have side 2^(1-p).
    sums_share : float, optional
        Share of users who send vectors: 0.5, or 0.7 for d' > 6.
    sums_depth : int, optional
        Which depth they sum over: 3 for epsilon >= 3, else 2, if those are among the depths.
    n_answers : int, optional
        m, levels of which each counting user answers.
    z : float
    proxies : {"center", "corner"}
        Where a cell's proxy point lies. The corner is line 8 as printed; returned without sums it
        is off by half a cell diagonal.
    n_init : int
        Starts of the server's k-means.

    Returns
    -------
    OneRoundPlan

    Raises
    ------
    ValueError, TypeError
        If the federation could not run it; nothing is released or charged.
    """
    n, n_features, k = users_of(federation, n_clusters)
    epsilon, delta = check_local_epsilon(epsilon), check_delta(delta)
    d = outputs_of(n_features, n_outputs)
    if not isinstance(sums, bool) and not (isinstance(sums, str) and sums == "auto"):
        raise ValueError(f"sums must be True, False or 'auto', got {sums!r}")
    with_sums = d < n_features if sums == "auto" else bool(sums)
    if d < n_features and not with_sums:
        raise ValueError("sums must be True when points are projected: centres live in R^d'")
    levels = default_depths(d, epsilon) if depths is None else check_depths(depths)
    check_listing(NestedGrid(d), levels)
    m = participations(epsilon, len(levels)) if n_answers is None else n_answers
    m = check_int(m, "n_answers", maximum=len(levels))
    z = check_z(z)
    check_choice(proxies, "proxies", ("center", "corner"))
    if n < len(levels) + int(with_sums):
        raise ValueError(
            f"n_records of the federation must be at least the number of questions,"
            f" {len(levels) + int(with_sums)}, got {n}"
        )
    depth, share, mechanism = None, 0.0, None
    parts: tuple[tuple[str, float], ...] = ()
    if with_sums:
        share = (0.7 if n_features > 6 else 0.5) if sums_share is None else sums_share
        if not 0 < check_real(share, "sums_share") < 1:
            raise ValueError(f"sums_share must lie in (0, 1), got {share}")
        wanted = 3 if epsilon >= 3 else 2
        depth = (wanted if wanted in levels else levels[-1]) if sums_depth is None else sums_depth
        if check_int(depth, "sums_depth") not in levels:
            raise ValueError(f"sums_depth must be one of the depths {levels}, got {depth}")
        mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
        parts = (("count", 1 - share), ("sum", share))
    releases = [bit_release("cell counts", 0, epsilon, m, part="count" if with_sums else None)]
    if mechanism is not None:
        releases.append(vector_release("cell sums", 0, mechanism, n_features, part="sum"))
        error = k * mechanism.std * math.sqrt(CELLS_PER_CLUSTER * n_features / (share * n))
        meaning = (
            f"distance by which noise moves a centre (root mean square), {k} clusters of equal size"
            f" over {CELLS_PER_CLUSTER} cells each"
        )
    else:
        error = detection_threshold(n, epsilon, len(levels), z=z, n_answers=m) / n
        meaning = f"of the users must share a cell for it to stand out ({z:g} standard deviations)"
    return OneRoundPlan(
        method="one_round", n_clusters=k, n_features=n_features, n_rounds=1, epsilon=epsilon,
        delta=delta if with_sums else 0.0, releases=tuple(releases), facts=federation.facts,
        predicted_error=error, predicted_error_is=meaning, parts=parts, z=z,
        n_init=check_init(n_init),
        needed=users_needed(
            1 / (CELLS_PER_CLUSTER * k), epsilon, len(levels), z=z, user_share=1 - share,
            n_answers=m,
        ),
        n_outputs=d, depths=levels, sums_depth=depth, sums_share=share, n_answers=m,
        mechanism=mechanism, proxies=proxies,
    )  # fmt: skip


def plan_grid_histogram(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    depth: int | None = None,
    z: float = 3.5,
    n_init: int = 10,
) -> OneRoundPlan:
    """Plan the plain baseline: one grid, one bit per user, k-means on the cells that stand out.

    epsilon-LDP for each user (with vector sums above six dimensions: (epsilon, delta)). As good as
    Algorithm 1 when the depth suits the data, worse when it does not. Default: depth 3 up to four
    dimensions, else 2.
    """
    users_of(federation, n_clusters)
    d = federation.n_features
    depth = (3 if d <= 4 or d > 6 else 2) if depth is None else check_int(depth, "depth")
    made = plan(
        federation, n_clusters=n_clusters, epsilon=epsilon, delta=delta, depths=(depth,), z=z,
        n_init=n_init,
    )  # fmt: skip
    return replace(made, method="grid_histogram")


def plan_as_printed(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    alpha: float = 0.5,
    n_levels: int | None = None,
    z: float = 3.5,
    n_init: int = 10,
) -> PrintedPlan:
    """Plan Algorithm 1 with the paper's parameters: L = lg n grids, every user in all 2 L calls.

    Each user answers the L histograms with epsilon/(2L) and the L sum oracles with
    (epsilon/(2L), delta/L) each, noise as Algorithm 6 prints it. Its counts have standard deviation
    about (4 L/epsilon) sqrt(n): see `users_needed_as_printed`.

    Raises
    ------
    ValueError
        In secure mode: the noise that Algorithm 6 prints is continuous.
    """
    n, d, k = users_of(federation, n_clusters)
    epsilon, delta = check_local_epsilon(epsilon), check_delta(delta)
    if federation.facts.noise != "continuous":
        raise ValueError(
            "federation must be in teaching mode: Algorithm 6 prints continuous Gaussian noise,"
            " whose last bits leak, so it has no secure mode; ldp_kmeans.plan has one"
        )
    n_levels = max(1, math.ceil(math.log2(n))) if n_levels is None else n_levels
    n_levels = check_int(n_levels, "n_levels")
    z = check_z(z)
    grid, fine_to_coarse = grid_for_algorithm_1(d, alpha, n_levels)
    depths = tuple(reversed(fine_to_coarse))
    if depths[0] == 0:
        depths = tuple(p + 1 for p in depths)
    check_listing(grid, check_depths(depths))
    mechanism = gaussian_report(
        1.0, epsilon / (2 * n_levels), delta / n_levels, calibration="as_printed"
    )
    c = RandomizedResponse(epsilon / (2 * n_levels)).debias
    made = PrintedPlan(
        method="one_round_as_printed", n_clusters=k, n_features=d, n_rounds=1, epsilon=epsilon,
        delta=delta, facts=federation.facts, z=z, n_init=check_init(n_init),
        releases=(
            bit_release("cell counts", 0, epsilon / 2, n_levels),
            *(vector_release("cell sums", 0, mechanism, d) for _ in depths),
        ),
        predicted_error=z * c / math.sqrt(n),
        predicted_error_is=f"of the users must share a cell for it to stand out ({z:g} standard"
        " deviations); above 1 nothing can",
        needed=users_needed_as_printed(1 / (CELLS_PER_CLUSTER * k), epsilon, n_levels, z=z),
        grid=grid, depths=depths, n_levels=n_levels, mechanism=mechanism,
    )  # fmt: skip
    if not made.total_epsilon <= epsilon * (1 + 1e-9):
        raise ValueError(
            f"epsilon must be smaller: at {epsilon:g} the noise of Algorithm 6 is proved for less"
            f" than what it gives, {made.total_epsilon:g}"
        )
    return made


def users_needed_as_printed(
    share: float, epsilon: float, n_levels: int | None = None, *, z: float = 4.0
) -> int:
    """Users for which a cell with `share` of the data shows z sd at epsilon/(2L) per histogram.

    Without `n_levels`, L = lg n of the answer itself (the fixed point of the two).
    """
    share, z = check_share(share, "share", one=True), check_positive(z, "z")
    epsilon = check_epsilon(epsilon)
    if n_levels is not None:
        check_int(n_levels, "n_levels", maximum=10**6)
    n = 2.0
    for _ in range(200):
        levels = math.ceil(math.log2(n)) if n_levels is None else n_levels
        c = RandomizedResponse(epsilon / (2 * max(1, levels))).debias
        ratio = z * c / share
        if not ratio < 1e100:
            raise ValueError(f"share must be larger or z smaller: {share:g} is never seen")
        new = max(2.0, ratio**2)
        if math.isclose(new, n, rel_tol=1e-6):
            break
        n = new
    return math.ceil(n if n_levels is None else ratio**2)


# --- Algorithms 2 to 5 ----------------------------------------------------------------------------

WITHOUT_LSH = {"cells": 0.4, "proxy": 0.3, "recovery count": 0.1, "recovery sum": 0.2}
WITH_LSH = {
    "cells": 0.30, "buckets": 0.10, "bucket sums": 0.10, "proxy": 0.25,
    "recovery count": 0.25 / 3, "recovery sum": 0.5 / 3,
}  # fmt: skip


def plan_four_rounds(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    lsh: bool = False,
    n_outputs: int | None = None,
    depths: tuple[int, ...] = (1, 2, 3),
    shifted: bool = True,
    t: int = 3,
    scales: tuple[float, ...] = (0.5,),
    repetitions: int = 2,
    n_guesses: int | None = None,
    joint_levels: bool = True,
    shares: Mapping[str, float] | None = None,
    z: float = 3.5,
    n_init: int = 10,
) -> FourRoundPlan:
    """Plan Algorithms 2 to 5: (epsilon, delta) for any two values of one user, four rounds.

    Every user takes part in one round only, with the whole (epsilon, delta). (The paper gives each
    of the four blocks epsilon/4, with everybody in all of them.)

    Parameters
    ----------
    federation, n_clusters, epsilon, delta, n_outputs, z, n_init
        As for `plan`.
    lsh : bool
        Candidate centres from LSH buckets besides the centres of heavy cells (round 2).
    depths : tuple of int
        As for `plan`: cells of depth p have side 2^(1-p).
    shifted : bool
        Shift the hierarchy at random (section 4.2).
    t, scales, repetitions
        LSH: dimensions, distances r as shares of the heavy cell's side (M of them), and R.
    n_guesses : int, optional
        F guesses k sqrt(n) 2^f of OPT; None: one marking by the noise threshold.
    joint_levels : bool
        One question for all levels, instead of splitting the users over levels.
    shares : mapping, optional
        Share of users for each question; they add up to 1.
    """
    n, n_features, k = users_of(federation, n_clusters)
    epsilon, delta = check_local_epsilon(epsilon), check_delta(delta)
    lsh, shifted = check_flag(lsh, "lsh"), check_flag(shifted, "shifted")
    joint_levels = check_flag(joint_levels, "joint_levels")
    d = outputs_of(n_features, n_outputs)
    levels = check_depths(depths)
    grid_depths = tuple(p + 1 for p in levels) if shifted else levels
    check_listing(NestedGrid(d, 4.0 if shifted else 2.0), check_depths(grid_depths))
    t, z = check_int(t, "t", maximum=8), check_z(z)
    check_int(repetitions, "repetitions", maximum=MAX_CALLS)
    try:
        sizes = tuple(check_positive(s, "scales") for s in scales)
    except TypeError:
        raise TypeError("scales must be a sequence of shares of a cell's side") from None
    if not sizes:
        raise ValueError("scales must hold at least one share of a cell's side")
    if n_guesses is not None:
        check_int(n_guesses, "n_guesses", maximum=64)
    expected = WITH_LSH if lsh else WITHOUT_LSH
    chosen = check_shares(expected if shares is None else shares)
    if set(chosen) != set(expected):
        raise ValueError(f"shares must name the questions {', '.join(expected)}")
    if n < len(chosen) + len(levels):
        raise ValueError(
            f"n_records of the federation must be at least the number of questions,"
            f" {len(chosen) + len(levels)}, got {n}"
        )
    mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
    low = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    m = participations(epsilon, len(levels))
    buckets = [
        bit_release("LSH buckets", 1, epsilon, 1, part="buckets"),
        vector_release("bucket sums", 1, low, d, part="bucket sums"),
    ]
    summing = n * chosen["recovery sum"]
    made = FourRoundPlan(
        method="four_rounds_lsh" if lsh else "four_rounds", n_clusters=k, n_features=n_features,
        n_rounds=4 if lsh else 3, epsilon=epsilon, delta=delta, facts=federation.facts,
        releases=(
            bit_release("cell counts", 0, epsilon, m, part="cells"),
            *(buckets if lsh else []),
            bit_release("nearest candidate", 2, epsilon, 1, part="proxy"),
            bit_release("nearest centre", 3, epsilon, 1, part="recovery count"),
            vector_release(
                "points by nearest centre", 3, mechanism, n_features, part="recovery sum"
            ),
        ),
        predicted_error=k * math.sqrt((1 + n_features * mechanism.std**2) / summing),
        predicted_error_is="distance by which noise moves a centre (root mean square),"
        f" {k} clusters of equal size",
        parts=tuple(chosen.items()), z=z, n_init=check_init(n_init),
        needed=users_needed(
            1 / (CELLS_PER_CLUSTER * k), epsilon, len(levels), z=z, user_share=chosen["cells"]
        ),
        n_outputs=d, depths=levels, shifted=shifted, lsh=lsh, t=t, scales=sizes,
        repetitions=repetitions, n_guesses=n_guesses, joint_levels=joint_levels,
        mechanism=mechanism, low_mechanism=low,
    )  # fmt: skip
    if made.n_calls > MAX_CALLS:
        raise ValueError(
            f"repetitions must be fewer: {made.n_calls} bucket histograms (at most {MAX_CALLS})"
        )
    return made


# --- baselines ------------------------------------------------------------------------------------


def plan_gaussian_reports(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    max_reports: int = 200_000,
    n_init: int = 1,
) -> VectorPlan:
    """Plan "every user sends point + Gaussian noise": k-means on the noisy points.

    (epsilon, delta)-LDP. The obvious idea, and a poor one: noise of standard deviation 8 at epsilon
    1 buries a ball of radius 1, and k-means clusters the noise. The server keeps the `max_reports`
    reports of the lowest user numbers.
    """
    n, d, k = users_of(federation, n_clusters)
    max_reports = check_int(max_reports, "max_reports", minimum=k, maximum=MAX_NUMBERS // d)
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    return VectorPlan(
        method="gaussian_reports", n_clusters=k, n_features=d, n_rounds=1,
        epsilon=check_local_epsilon(epsilon), delta=check_delta(delta), facts=federation.facts,
        releases=(vector_release("noisy points", 0, mechanism, d),), n_init=check_init(n_init),
        predicted_error=mechanism.std * math.sqrt(d),
        predicted_error_is="distance by which noise moves one report (root mean square), in a ball"
        " of radius 1",
        mechanism=mechanism, max_reports=max_reports,
    )  # fmt: skip


def plan_private_mean(
    federation: LocalReports, *, n_clusters: int = 1, epsilon: float, delta: float = 1e-6
) -> VectorPlan:
    """Plan one centre: the mean of all points from Gaussian reports (k copies of it).

    What to fall back on when n is too small to see any structure. (epsilon, delta)-LDP.
    """
    n, d, k = users_of(federation, n_clusters)
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    return VectorPlan(
        method="private_mean", n_clusters=k, n_features=d, n_rounds=1,
        epsilon=check_local_epsilon(epsilon), delta=check_delta(delta), facts=federation.facts,
        releases=(vector_release("sum of points", 0, mechanism, d),),
        predicted_error=mechanism.std * math.sqrt(d / n),
        predicted_error_is="distance by which noise moves the mean (root mean square)",
        mechanism=mechanism,
    )  # fmt: skip


def plan_lloyd(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    n_rounds: int = 5,
) -> VectorPlan:
    """Plan Lloyd's algorithm with the users split over rounds: half of each count, half sum.

    (epsilon, delta)-LDP for each user, who takes part once. A centre moves only if its noised count
    exceeds two standard deviations. Without `initial` in `run` the start is uniform in the ball,
    and the outcome hangs on it.
    """
    n, d, k = users_of(federation, n_clusters)
    n_rounds = check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    if n < 2 * n_rounds:
        raise ValueError(f"n_rounds must leave users for each question, got {n_rounds}")
    mechanism = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    share = 1 / (2 * n_rounds)
    releases: list[PlannedRelease] = []
    for t in range(n_rounds):
        releases += [
            bit_release("nearest centre", t, epsilon, 1, part=f"count {t}"),
            vector_release("points by nearest centre", t, mechanism, d, part=f"sum {t}"),
        ]
    return VectorPlan(
        method="ldp_lloyd", n_clusters=k, n_features=d, n_rounds=n_rounds,
        epsilon=check_local_epsilon(epsilon), delta=check_delta(delta), facts=federation.facts,
        releases=tuple(releases), z=2.0, mechanism=mechanism,
        parts=tuple((f"{what} {t}", share) for t in range(n_rounds) for what in ("count", "sum")),
        predicted_error=k * math.sqrt((1 + d * mechanism.std**2) / (share * n)),
        predicted_error_is="distance by which noise moves a centre in a round (root mean square),"
        f" {k} clusters of equal size",
    )  # fmt: skip
