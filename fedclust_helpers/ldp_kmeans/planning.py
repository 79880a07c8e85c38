"""Planners of Algorithm 1 and of Algorithms 2 to 5: all public numbers of a run.

A plan is made from the users that will follow it (``simulate(points, "local")``), and lists every
question with the mechanism that answers it. The kind of noise is the federation's choice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from fedclust_helpers._validation import check_bool, check_int
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import (
    check_depths,
    check_listing,
    detection_threshold,
    users_needed,
)
from fedclust_helpers.ldp_kmeans.local_randomizers import participations
from fedclust_helpers.ldp_kmeans.plans import (
    CELLS_PER_CLUSTER,
    FourRoundPlan,
    OneRoundPlan,
    asked_for,
    bit_release,
    check_questions,
    outputs_of,
    reading,
    vector_release,
)


def plan(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    sums: bool | Literal["auto"] = "auto",
    n_outputs: int | None = None,
    depths: tuple[int, ...] | None = None,
    n_sd: float = 3.5,
    n_init: int = 10,
) -> OneRoundPlan:
    """Plan Algorithm 1 with parameters that work: (epsilon, delta) for any two values of one user.

    Users are split, not the budget: those who count answer m = max(1, round(epsilon/2.18)) of the
    levels with epsilon/m each; those who sum (half of the users, 70 % for d' > 6) send one vector
    with (epsilon, delta). Without sums the run is pure, and its delta is 0.

    Parameters
    ----------
    federation : LocalReports
        The users who will run the plan, one point each in the unit ball.
    n_clusters : int
    epsilon, delta : float
    sums : bool or "auto"
        Recover centres in R^d' with HeavySumsOracle. "auto": only if a projection is needed.
    n_outputs : int, optional
        d after projection: d' up to 6, else 4 (then `sums` is needed).
    depths : tuple of int, optional
        Depths of the grids on [-1, 1]^d; cells of depth p have side 2^(1-p). Default: (2, 3) up to
        six dimensions, (1, 2) beyond. Cells finer than n^(-1/4) cannot pay, as the error is at
        least sqrt(n) anyway; each level costs a factor sqrt(2) or so in noise.
    n_sd : float
        Standard deviations that a count must exceed to be seen.
    n_init : int
        Starts of the server's k-means.

    Raises
    ------
    ValueError, TypeError
        If the federation could not run it; nothing is released or charged.
    """
    asked, how = asked_for(federation, n_clusters, epsilon, delta), reading(n_sd, n_init)
    n, n_features, k = federation.n_records, federation.n_features, asked["n_clusters"]
    d = outputs_of(n_features, n_outputs)
    if not isinstance(sums, bool) and not (isinstance(sums, str) and sums == "auto"):
        raise ValueError(f"sums must be True, False or 'auto', got {sums!r}")
    with_sums = d < n_features if sums == "auto" else bool(sums)
    if d < n_features and not with_sums:
        raise ValueError("sums must be True when points are projected: centres live in R^d'")
    levels = ((2, 3) if d <= 6 else (1, 2)) if depths is None else check_depths(depths)
    check_listing(NestedGrid(d), levels)
    check_questions(federation, len(levels) + with_sums)
    m = participations(epsilon, len(levels))
    counting = bit_release("cell counts", 0, epsilon, m, part="count" if with_sums else None)
    if not with_sums:
        made = OneRoundPlan(
            **asked | how | {"delta": 0.0}, method="one_round", n_rounds=1, releases=(counting,),
            predicted_error=detection_threshold(n, epsilon, len(levels), n_sd=n_sd) / n,
            predicted_error_is=f"of the users must share a cell for it to stand out ({n_sd:g}"
            " standard deviations)",
            n_outputs=d, depths=levels, sums_depth=None, mechanism=None,
        )  # fmt: skip
    else:
        share, wanted = (0.7 if n_features > 6 else 0.5), (3 if epsilon >= 3 else 2)
        mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
        made = OneRoundPlan(
            **asked | how, method="one_round", n_rounds=1,
            releases=(
                counting, vector_release("cell sums", 0, mechanism, n_features, part="sum")
            ),
            parts=(("count", 1 - share), ("sum", share)),
            predicted_error=k * mechanism.std
            * math.sqrt(CELLS_PER_CLUSTER * n_features / (share * n)),
            predicted_error_is="distance by which noise moves a centre (root mean square),"
            f" {k} clusters of equal size over {CELLS_PER_CLUSTER} cells each",
            n_outputs=d, depths=levels, mechanism=mechanism,
            sums_depth=wanted if wanted in levels else levels[-1],
        )  # fmt: skip
    counters = made.shares.get("count", 1.0)
    return replace(made, needed=_needed(k, epsilon, len(levels), n_sd, counters))


def _needed(k: int, epsilon: float, n_levels: int, n_sd: float, user_share: float) -> int:
    share = 1 / (CELLS_PER_CLUSTER * k)
    return users_needed(share, epsilon, n_levels, n_sd=n_sd, user_share=user_share)


def plan_grid_histogram(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    depth: int | None = None,
    n_sd: float = 3.5,
    n_init: int = 10,
) -> OneRoundPlan:
    """Plan the plain baseline: one grid, one bit per user, k-means on the cells that stand out.

    As good as Algorithm 1 when the depth suits the data, worse when it does not. Default: depth 3
    up to four dimensions and (with vector sums) beyond six, else 2.
    """
    asked_for(federation, n_clusters, epsilon, delta)
    d = federation.n_features
    depth = (3 if d <= 4 or d > 6 else 2) if depth is None else check_int(depth, "depth")
    made = plan(
        federation, n_clusters=n_clusters, epsilon=epsilon, delta=delta, depths=(depth,), n_sd=n_sd,
        n_init=n_init,
    )  # fmt: skip
    return replace(made, method="grid_histogram")


# the share of users for each question
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
    t: int = 3,
    n_sd: float = 3.5,
    n_init: int = 10,
) -> FourRoundPlan:
    """Plan Algorithms 2 to 5: (epsilon, delta) for any two values of one user, four rounds.

    Every user takes part in one round only, with the whole (epsilon, delta). (The paper gives each
    of the four blocks epsilon/4, with everybody in all of them.)

    Parameters
    ----------
    federation, n_clusters, epsilon, delta, n_outputs, depths, n_sd, n_init
        As for `plan`.
    lsh : bool
        Candidate centres from LSH buckets besides the centres of heavy cells (round 2).
    t : int
        Dimensions of the LSH, up to 8.
    """
    asked, how = asked_for(federation, n_clusters, epsilon, delta), reading(n_sd, n_init)
    n_features, k, lsh = federation.n_features, asked["n_clusters"], check_bool(lsh, "lsh")
    d, levels = outputs_of(n_features, n_outputs), check_depths(depths)
    # the shifted cube has twice the side: the same cells lie one level deeper
    check_listing(NestedGrid(d, 4.0), check_depths(p + 1 for p in levels))
    t = check_int(t, "t", maximum=8)
    shares = WITH_LSH if lsh else WITHOUT_LSH
    check_questions(federation, len(shares) + len(levels))
    mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
    low = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    m = participations(epsilon, len(levels))
    buckets = [
        bit_release("LSH buckets", 1, epsilon, 1, part="buckets"),
        vector_release("bucket sums", 1, low, d, part="bucket sums"),
    ]
    summing = federation.n_records * shares["recovery sum"]
    return FourRoundPlan(
        **asked | how, method="four_rounds_lsh" if lsh else "four_rounds",
        n_rounds=4 if lsh else 3,
        releases=(
            bit_release("cell counts", 0, epsilon, m, part="cells"),
            *(buckets if lsh else []),
            bit_release("nearest candidate", 2, epsilon, 1, part="proxy"),
            bit_release("nearest centre", 3, epsilon, 1, part="recovery count"),
            vector_release(
                "points by nearest centre", 3, mechanism, n_features, part="recovery sum"
            ),
        ),
        parts=tuple(shares.items()),
        predicted_error=k * math.sqrt((1 + n_features * mechanism.std**2) / summing),
        predicted_error_is="distance by which noise moves a centre (root mean square),"
        f" {k} clusters of equal size",
        needed=_needed(k, epsilon, len(levels), n_sd, shares["cells"]),
        n_outputs=d, depths=levels, lsh=lsh, t=t, mechanism=mechanism, low_mechanism=low,
    )  # fmt: skip
