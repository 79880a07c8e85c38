"""Plans of locally private k-means: all public numbers of a run.

A plan is made from the users that will follow it (``simulate(points, "local")``), and lists every
question with the mechanism that answers it. The kind of noise is the federation's choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fedclust_helpers._validation import (
    check_bool,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import Shuffled
from fedclust_helpers.federation import LocalReports, Plan, PlannedRelease, planner
from fedclust_helpers.federation.reports import MAX_EPSILON
from fedclust_helpers.ldp_kmeans import heavy_cells
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER, Expected, runs_of_depths
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse, participations
from fedclust_helpers.mechanisms import Mechanism

MAX_INIT = 1000  # starts of the server's k-means
MAX_SD = 1e6


@dataclass(frozen=True, kw_only=True)
class LocalPlan(Plan):
    """A run in which every user randomises on the device.

    Attributes
    ----------
    local_epsilon : float
        Pure epsilon of all reports of one user, whoever sees them; `epsilon` of the plan without a
        shuffler, more with one.
    parts : tuple of (str, float)
        Names of the parts of the users and the share of each; empty if everybody answers all. Users
        of different parts answer different questions: each user is charged for one part.
    n_sd : float
        Standard deviations that a count must exceed to be seen.
    n_init : int
        Starts of the server's k-means.
    needed : int
        Users that it takes to see clusters of equal size that spread over three cells each; 0 where
        no cells are counted.
    """

    local_epsilon: float
    parts: tuple[tuple[str, float], ...] = ()
    n_sd: float = 3.5
    n_init: int = 10
    needed: int = 0

    @property
    def shares(self) -> dict[str, float]:
        """Share of the users of each part."""
        return dict(self.parts)

    @property
    def n_bytes(self) -> int:
        """Bytes of all reports together (about, where users are divided): bits take one each.

        Shuffled ones go two ways, each with a ticket of eight bytes.
        """
        total, shares = 0.0, self.shares
        for release in self.releases:
            users = self.facts.n_clients * shares.get(release.part or "", 1.0)
            size = release.numbers * (1 if _is_bit(release.mechanisms[0]) else 8)
            shuffled = isinstance(release.mechanisms[0], Shuffled)
            total += users * (2 * (size + 8) if shuffled else size)
        return round(total)

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement of the run as (heading, text) pairs."""
        kinds = {
            "randomised bits" if _is_bit(m) else f"{self.facts.noise} Gaussian noise on vectors"
            for release in self.releases for m in release.mechanisms
        }  # fmt: skip
        noise = f"{' and '.join(sorted(kinds, reverse=True))}, drawn by every user alone"
        rows = [(what, noise if what == "noise" else text) for what, text in super().statement()]
        crowds = {m for r in self.releases for m in r.mechanisms if isinstance(m, Shuffled)}
        if crowds:
            hidden = max(crowds, key=lambda m: m.pure_epsilon)
            rows.append((
                "shuffle",
                f"one message alone costs its user the local epsilon {hidden.pure_epsilon:.4g}"
                f" (delta 0); all of them without senders what is guaranteed, by"
                f" {hidden.n_users:,} users who hide one another",
            ))  # fmt: skip
        if self.parts:
            shares = ", ".join(f"{share:.1%} {name!r}" for name, share in self.parts)
            by = "a ticket that it draws" if crowds else "number"
            rows.append(("parts", f"each user is in one, by {by}: {shares}"))
        if self.needed:
            seen = (
                f"about {self.needed:,} to see {self.n_clusters} clusters of equal size that"
                f" spread over {CELLS_PER_CLUSTER} cells each"
            )
            rows.append(("users needed", seen))
        return rows


def _is_bit(mechanism: Any) -> bool:
    report = mechanism.reports[0] if isinstance(mechanism, Shuffled) else mechanism
    return isinstance(report, RandomizedResponse)


@dataclass(frozen=True, kw_only=True)
class OneRoundPlan(LocalPlan):
    """Algorithm 1 with parameters that work, or one grid (`plan_grid_histogram`).

    With sums a share of the users sends vectors with the noise `mechanism`, keyed by their cell of
    depth `sums_depth`; else both are None, and the centres found among the cells are returned.
    """

    n_outputs: int
    depths: tuple[int, ...]
    sums_depth: int | None = None
    mechanism: Mechanism | None = None


@dataclass(frozen=True, kw_only=True)
class FourRoundPlan(LocalPlan):
    """Algorithms 2 to 5. The parts of the users are the questions.

    The paper runs F L M R bucket histograms and sum oracles in parallel, each with a share of the
    budget. Here R = 2 of each: every point is in exactly one D_l, so one question with value (l,
    bucket) replaces L; the oracle's own noise decides what is heavy, for any of the F guesses of
    the cost that a laptop's n could tell apart; and one LSH scale stands for M.
    """

    n_outputs: int
    depths: tuple[int, ...]
    lsh: bool
    t: int
    mechanism: Mechanism
    low_mechanism: Mechanism = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class VectorPlan(LocalPlan):
    """A baseline whose users send noised points; `max_reports` is how many the server keeps."""

    mechanism: Mechanism
    max_reports: int = 0


# --- the planners ---------------------------------------------------------------------------------


@planner
def plan(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    sums: bool | Literal["auto"] = "auto", n_outputs: int | None = None,
    depths: tuple[int, ...] | None = None, n_sd: float = 3.5, n_init: int = 10,
) -> OneRoundPlan:  # fmt: skip
    """Plan Algorithm 1 with parameters that work: (epsilon, delta) for any two values of one user.

    Users are split, not the budget: those who count answer m = max(1, round(epsilon/2.18)) of the
    levels with epsilon/m each; those who sum (half of the users, 70 % for d' > 6) send one vector
    with (epsilon, delta). Without sums the run is pure, and its delta is 0.

    Shuffled users (``simulate(points, "shuffled")``) send no sums. (epsilon, delta) is then that of
    the shuffled set, which the server sees; a report has the larger `LocalPlan.local_epsilon`.

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
        Depths of the grids on [-1, 1]^d; cells of depth p have side 2^(1-p). Default: those with
        the least predicted error (`ldp_kmeans.depths`), like the depth of the sums.
    n_sd : float
        Standard deviations that a count must exceed to be seen.
    n_init : int
        Starts of the server's k-means.

    Raises
    ------
    ValueError, TypeError
        If the federation could not run it; nothing is released or charged.
    """
    asked = asked_for(federation, n_clusters, epsilon, delta, n_sd, n_init)
    n, n_features, k = federation.n_records, federation.n_features, asked["n_clusters"]
    d = _outputs_of(n_features, n_outputs)
    if not isinstance(sums, bool) and not (isinstance(sums, str) and sums == "auto"):
        raise ValueError(f"sums must be True, False or 'auto', got {sums!r}")
    with_sums = d < n_features if sums == "auto" else bool(sums)
    if d < n_features and not with_sums:
        raise ValueError("sums must be True when points are projected: centres live in R^d'")
    tried = None if depths is None else [heavy_cells.check_depths(depths)]
    local, share, own = epsilon, 0.0, dict[str, Any]()
    if not with_sums:
        local, own["delta"] = federation.report_budget(epsilon, delta)
        levels = Expected(n, d, d, k, local, n_sd).best(tried)
    else:
        share = 0.7 if n_features > 6 else 0.5
        mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
        expected = Expected((1 - share) * n, n_features, d, k, epsilon, n_sd)
        levels, sums_depth = expected.best_for_sums(share * n, n_features * mechanism.std**2, tried)
    heavy_cells.check_listing(NestedGrid(d), levels)
    check_questions(federation, len(levels) + with_sums)
    m = participations(local, len(levels))
    counting = bit_release("cell counts", 0, local, m, part="count" if with_sums else None)
    counting = replace(counting, mechanisms=federation.charged(counting.mechanisms))
    if not with_sums:
        own |= {
            "local_epsilon": local, "releases": (counting,),
            "predicted_error": heavy_cells.detection_threshold(n, local, len(levels), n_sd=n_sd)
            / n,
            "predicted_error_is": f"of the users must share a cell for it to stand out ({n_sd:g}"
            " standard deviations)",
        }  # fmt: skip
    else:
        summing = vector_release("cell sums", 0, mechanism, n_features, part="sum")
        spread = CELLS_PER_CLUSTER * n_features / (share * n)
        own = {
            "releases": (counting, summing), "parts": (("count", 1 - share), ("sum", share)),
            "predicted_error": k * mechanism.std * math.sqrt(spread),
            "predicted_error_is": "distance by which noise moves a centre (root mean square),"
            f" {k} clusters of equal size over {CELLS_PER_CLUSTER} cells each",
            "mechanism": mechanism, "sums_depth": sums_depth,
        }  # fmt: skip
    return OneRoundPlan(
        **asked | own, method="one_round", n_rounds=1, n_outputs=d, depths=levels,
        needed=_needed(k, local, len(levels), n_sd, 1 - share),
    )  # fmt: skip


@planner
def plan_grid_histogram(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    depth: int | None = None, n_sd: float = 3.5, n_init: int = 10,
) -> OneRoundPlan:  # fmt: skip
    """Plan the plain baseline: one grid, one bit per user, k-means on the cells that stand out.

    As good as Algorithm 1 when the depth suits the data, worse when it does not. Default: depth 3
    up to four dimensions and (with vector sums) beyond six, else 2.
    """
    d = require_local(federation).n_features
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


@planner
def plan_four_rounds(
    federation: LocalReports, *, n_clusters: int, epsilon: float, delta: float = 1e-6,
    lsh: bool = False, n_outputs: int | None = None, depths: tuple[int, ...] | None = None,
    t: int = 3, n_sd: float = 3.5, n_init: int = 10,
) -> FourRoundPlan:  # fmt: skip
    """Plan Algorithms 2 to 5: (epsilon, delta) for any two values of one user, four rounds.

    Every user takes part in one round only, with the whole (epsilon, delta). (The paper gives each
    of the four blocks epsilon/4, with everybody in all of them.) Arguments as for `plan`, and

    Parameters
    ----------
    depths : tuple of int, optional
        As for `plan`, of the cells of Algorithm 2.
    lsh : bool
        Candidate centres from LSH buckets besides the centres of heavy cells (round 2).
    t : int
        Dimensions of the LSH, up to 8.
    """
    asked = asked_for(federation, n_clusters, epsilon, delta, n_sd, n_init)
    n_features, k, lsh = federation.n_features, asked["n_clusters"], check_bool(lsh, "lsh")
    d, shares = _outputs_of(n_features, n_outputs), WITH_LSH if lsh else WITHOUT_LSH
    tried = runs_of_depths(d, below=1) if depths is None else [heavy_cells.check_depths(depths)]
    n_counting = shares["cells"] * federation.n_records
    levels = Expected(n_counting, n_features, d, k, epsilon, n_sd).best(tried)
    # the shifted cube has twice the side: the same cells lie one level deeper
    deeper = heavy_cells.check_depths(p + 1 for p in levels)
    heavy_cells.check_listing(NestedGrid(d, 4.0), deeper)
    t = check_int(t, "t", maximum=8)
    check_questions(federation, len(shares) + len(levels))
    mechanism = federation.gaussian_report(n_features, epsilon=epsilon, delta=delta)
    low = federation.gaussian_report(d, epsilon=epsilon, delta=delta)
    m = participations(epsilon, len(levels))
    buckets = (
        bit_release("LSH buckets", 1, epsilon, 1, part="buckets"),
        vector_release("bucket sums", 1, low, d, part="bucket sums"),
    )
    recovered = "points by nearest centre"
    summing = federation.n_records * shares["recovery sum"]
    return FourRoundPlan(
        **asked, method="four_rounds_lsh" if lsh else "four_rounds", n_rounds=4 if lsh else 3,
        releases=(
            bit_release("cell counts", 0, epsilon, m, part="cells"),
            *(buckets if lsh else ()),
            bit_release("nearest candidate", 2, epsilon, 1, part="proxy"),
            bit_release("nearest centre", 3, epsilon, 1, part="recovery count"),
            vector_release(recovered, 3, mechanism, n_features, part="recovery sum"),
        ),
        parts=tuple(shares.items()),
        predicted_error=k * math.sqrt((1 + n_features * mechanism.std**2) / summing),
        predicted_error_is="distance by which noise moves a centre (root mean square),"
        f" {k} clusters of equal size",
        needed=_needed(k, epsilon, len(levels), n_sd, shares["cells"]),
        n_outputs=d, depths=levels, lsh=lsh, t=t, mechanism=mechanism, low_mechanism=low,
    )  # fmt: skip


# --- what they share ------------------------------------------------------------------------------


def require_local(federation: Any) -> LocalReports:
    """Refuse anything but users who answer for themselves, one point each in the unit ball."""
    if not isinstance(federation, LocalReports):
        raise TypeError(
            f"federation must offer ask (simulate(points, 'local')), got"
            f" {type(federation).__name__}"
        )
    if federation.bound != 1.0 or federation.domain != "ball":
        raise ValueError("federation must keep points in the unit ball: bound=1.0")
    federation.check_one_point_each()
    return federation


def asked_for(
    federation: LocalReports, n_clusters: int, epsilon: float, delta: float, n_sd: float = 3.5,
    n_init: int = 10,
) -> dict[str, Any]:  # fmt: skip
    """What every plan states: who answers, k, d', the budget, how counts are read; all checked.

    Below one standard deviation the server would read noise as cells.
    """
    n = require_local(federation).n_records
    if check_epsilon(epsilon) > MAX_EPSILON:
        raise ValueError(f"epsilon must be at most {MAX_EPSILON:g}, got {epsilon:g}")
    if not 1 <= check_positive(n_sd, "n_sd") <= MAX_SD:
        raise ValueError(f"n_sd must be from 1 to {MAX_SD:g} standard deviations, got {n_sd:g}")
    return {
        "n_clusters": check_int(n_clusters, "n_clusters", maximum=n),
        "n_features": federation.n_features, "facts": federation.facts,
        "epsilon": float(epsilon), "local_epsilon": float(epsilon), "delta": check_delta(delta),
        "n_sd": float(n_sd), "n_init": check_int(n_init, "n_init", maximum=MAX_INIT),
    }  # fmt: skip


def check_questions(federation: LocalReports, n_questions: int) -> None:
    """At least one user for each question."""
    n = federation.n_records
    if n < n_questions:
        raise ValueError(
            f"n_records of the federation must be at least the number of questions, {n_questions},"
            f" got {n}"
        )


def _outputs_of(n_features: int, n_outputs: int | None) -> int:
    """d after projection: d' up to 6, else 4."""
    if n_outputs is None:
        return n_features if n_features <= 6 else 4
    return check_int(n_outputs, "n_outputs", maximum=n_features)


def _needed(k: int, epsilon: float, n_levels: int, n_sd: float, user_share: float) -> int:
    share = 1 / (CELLS_PER_CLUSTER * k)
    return heavy_cells.users_needed(share, epsilon, n_levels, n_sd=n_sd, user_share=user_share)


def bit_release(
    name: str, round: int, epsilon: float, n_answers: int, *, part: str | None = None
) -> PlannedRelease:
    """A question of one bit, `n_answers` times with epsilon/n_answers each."""
    response: Any = RandomizedResponse(epsilon / n_answers)
    bits = ("bit",) if n_answers == 1 else tuple(f"bit {i + 1}" for i in range(n_answers))
    return PlannedRelease(round, name, bits, (response,) * n_answers, part=part, numbers=n_answers)


def vector_release(
    name: str, round: int, mechanism: Mechanism, n_outputs: int, *, part: str | None = None
) -> PlannedRelease:
    """A question that is answered by one noised vector."""
    what = "noisy point" if name == "noisy points" else "signed vector"
    return PlannedRelease(round, name, (what,), (mechanism,), part=part, numbers=n_outputs)
