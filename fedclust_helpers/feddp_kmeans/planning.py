"""Plans of FedDP-KMeans: everything that is fixed before the first message.

The federation that will run a plan chooses its mechanisms; what they cost together is the total of
the ledger over exactly these mechanisms. Nothing private is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_delta,
    check_epsilon,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import LedgerMismatchError
from fedclust_helpers.feddp_kmeans._releases import (
    lloyd_releases,
    noise_for,
    planned,
    start_releases,
    total_of,
)
from fedclust_helpers.feddp_kmeans.budgets import (
    MAX_ROUNDS,
    StepBudgets,
    calibrate_budgets,
    joint_epsilon,
    split_epsilon,
)
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, Level, level_of
from fedclust_helpers.federation import (
    Plan,
    PlanMismatchError,
    PlannedRelease,
    SumFederation,
    TrustModelError,
)

N_INIT = 10  # restarts of the server's own k-means: they cost no privacy, and one is not enough
MAX_RESTARTS = 10_000
ERROR_IS = (
    "mean squared distance by which the noise of the last sums moves a centre, clusters of equal"
    " size, squared units of the data"
)
LEAST_WEIGHT = 5.0  # the released code drops server points below at data-point level


@dataclass(frozen=True)
class ServerPoints:
    """What a plan keeps of the server's public points: their number, and a fingerprint."""

    n_points: int
    sha256: str

    @classmethod
    def of(cls, server: FloatArray) -> ServerPoints:
        """Number and hash of validated points (q, d); -0.0 and 0.0 are the same number."""
        server = as_points(server, "server")
        digest = hashlib.sha256(repr(server.shape).encode() + (server + 0.0).tobytes())
        return cls(len(server), digest.hexdigest())


@dataclass(frozen=True, kw_only=True)
class ServerPlan(Plan):
    """What the plans of this package have in common: step budgets, clips, server points."""

    budgets: StepBudgets
    clips: ClipBounds | None
    server: ServerPoints | None

    @cached_property
    def total_epsilon(self) -> float:
        """Total of all releases at `delta`, by the ledger; equal plans are added up once."""
        return joint_epsilon(
            [r.mechanisms for r in self.releases],
            delta=self.delta, unit=self.facts.unit, adjacency=self.facts.adjacency,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FedDPPlan(ServerPlan):
    """FedDP-Init (Algorithm 1), then `n_rounds` rounds of FedDP-Lloyds (Algorithm 2).

    Rounds 0, 1, 2 are the three steps of FedDP-Init (round 0 is missing if nothing is spent on the
    subspace), rounds 3, 4, ... those of FedDP-Lloyds.
    """

    rank: int
    margin: float
    minimum_weight: float
    n_init: int


# --- checks that all plans share ------------------------------------------------------------------


def check_federation(federation: Any, *, unit: str | None = None) -> None:
    """Refuse what is no federation, or none that shows noised sums of a ball to the server.

    With `unit`, its ledger must be kept for just that one.
    """
    if isinstance(federation, type):
        raise TypeError(f"federation must be a federation, got the class {federation.__name__}")
    if not callable(getattr(federation, "noisy_sum", None)) or not hasattr(federation, "facts"):
        raise TypeError(f"federation must offer noisy_sum, got {type(federation).__name__}")
    facts = federation.facts
    if facts.receiver != "server" or facts.trust == "local":
        raise TrustModelError(
            "FedDP-KMeans needs a federation whose server sees the noised sums, since it is the"
            f" server that clusters its points with them; {type(federation).__name__} does not show"
            " them to it: use trust='ideal' or 'trusted'"
        )
    if facts.adjacency != "add/remove":
        raise ValueError("federation must keep a ledger for add/remove neighbours")
    if facts.unit not in ("point", "client"):
        raise ValueError("federation must keep a ledger for one point or one client")
    if unit is not None and facts.unit != unit:
        raise LedgerMismatchError(f"federation must keep a ledger for one {unit}")
    if facts.domain != "ball":
        raise ValueError("federation must clip rows to a ball: domain='ball', bound=Delta")
    if not 1e-100 < facts.bound < 1e100:
        raise ValueError(
            "federation must have a bound between 1e-100 and 1e100 (rescale): squares of lengths"
            " leave the range of floats, and could not be clipped"
        )


def check_server_points(
    federation: SumFederation, server_points: Any, n_clusters: Any
) -> tuple[FloatArray, int]:
    """The server's points (q, d), at least one for each cluster, and the number of clusters."""
    k = check_int(n_clusters, "n_clusters", maximum=federation.facts.n_records)
    server = as_points(server_points, "server_points", n_features=federation.facts.n_features)
    if len(server) < k:
        raise ValueError(f"server_points must hold at least n_clusters={k} rows, got {len(server)}")
    return server, k


def same_server_points(plan: Any, server_points: Any) -> FloatArray:
    """The server's points (q, d); others than those of the plan are refused."""
    server = as_points(server_points, "server_points", n_features=plan.n_features)
    if ServerPoints.of(server) != plan.server:
        raise PlanMismatchError(
            "server_points must be those that the plan was made with: radii, budgets and starts"
            " may depend on them; make a plan for these"
        )
    return server


def inside(rows: FloatArray, bound: float) -> FloatArray:
    """Rows moved into the ball of radius `bound`; public or released rows only."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    factors = np.divide(bound, norms, out=np.ones_like(norms), where=norms > bound)
    return np.asarray(rows * factors)


def check_restarts(n_init: Any) -> int:
    """Restarts of the server's k-means."""
    return check_int(n_init, "n_init", maximum=MAX_RESTARTS)


# --- the plan of the paper ------------------------------------------------------------------------


def _all_releases(
    federation: SumFederation, level: Level, budgets: StepBudgets, k: int, q: int, rank: int
) -> tuple[PlannedRelease, ...]:
    d, delta = federation.facts.n_features, budgets.delta
    parts = dict(zip(level.means.statistic.parts, (budgets.sums, budgets.counts), strict=True))
    noise = noise_for(federation, level.means, parts, delta=delta, n_clusters=k)
    zeros = {"basis": np.zeros((d, rank)), "centers": np.zeros((k, rank))}
    means = planned(federation, 2, level.means, noise, **zeros)
    start = start_releases(federation, level, budgets, q, rank)
    return (*start, means, *lloyd_releases(federation, level.lloyd, budgets, k, first_round=3))


def check_budgets(budgets: Any) -> None:
    """Refuse what is neither None nor StepBudgets."""
    if budgets is not None and not isinstance(budgets, StepBudgets):
        raise TypeError(f"budgets must be StepBudgets, got {type(budgets).__name__}")


def chosen_budgets(
    budgets: StepBudgets | None,
    shares: StepBudgets,
    epsilon: float | None,
    total: Any,
) -> StepBudgets:
    """Explicit step budgets, or the largest multiple of `shares` within epsilon."""
    if budgets is None:
        if epsilon is None:
            raise ValueError("epsilon must be given (or budgets=StepBudgets(...))")
        return calibrate_budgets(shares, epsilon, total=total)
    if epsilon is not None:
        raise ValueError("epsilon must not be given with budgets: they say what is spent")
    return budgets


def delta_of(delta: float | None, budgets: StepBudgets | None) -> float:
    """The delta of a plan: 1e-6 unless it or the budgets say otherwise."""
    if budgets is None:
        return 1e-6 if delta is None else check_delta(delta)
    if delta is not None and check_delta(delta) != budgets.delta:
        raise ValueError(f"delta must be that of the budgets, {budgets.delta:g}, got {delta:g}")
    return budgets.delta


def plan(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    epsilon: float | None = None,
    delta: float | None = None,
    n_rounds: int = 0,
    proportions: Sequence[float] | None = None,
    budgets: StepBudgets | None = None,
    clips: ClipBounds | None = None,
    rank: int | None = None,
    margin: float = 1.0,
    minimum_weight: float | None = None,
    n_init: int = N_INIT,
) -> FedDPPlan:
    """Fix every release of FedDP-KMeans for a total of (epsilon, delta), add/remove.

    Parameters
    ----------
    federation : SumFederation
        With ``domain="ball"``, ``bound`` = Delta, and a server that sees the noised sums. Its
        ledger's unit decides the level: one "point", or one "client" (then `clips` is needed).
    server_points : array_like of shape (q, d)
        Data of the server, public: they cost no privacy. `run` refuses others.
    n_clusters : int
    epsilon : float, optional
        Exact total of all releases, by the ledger.
    delta : float, optional
        Of the total and of each Gaussian step alone; 1e-6 by default.
    n_rounds : int
        Rounds of FedDP-Lloyds; together they get the same pair of budgets as Step 3.
    proportions : four numbers >= 0 that sum to 1, optional
        Shares of outer product, weights, sums, counts; the paper's for the unit by default. A share
        0 of the outer product takes the subspace of the server points instead.
    budgets : StepBudgets, optional
        Explicit step budgets in place of `epsilon`, `n_rounds` and `proportions`.
    clips : ClipBounds, optional
        Client level only: public clip bounds.
    rank : int, optional
        Dimension of the subspace; n_clusters as in the paper by default.
    margin : float
        Step 3 counts a row only if its nearest centre is at most `margin` times as far as any
        other: 1 is off, 1/3 is Algorithm 5. Data-point level only.
    minimum_weight : float, optional
        Server points with a noised weight below are dropped. Defaults to 5 at data-point level as
        in the released code, and to the noise's own standard deviation at client level.
    n_init : int
        Restarts of the server's weighted k-means.

    Returns
    -------
    FedDPPlan

    Raises
    ------
    TypeError, ValueError, TrustModelError, RingOverflowError
        Whatever can be refused is refused here; nothing is charged, read or sent.
    """
    check_federation(federation)
    server, k = check_server_points(federation, server_points, n_clusters)
    facts = federation.facts
    level = level_of(facts.unit, clips)
    d, q = facts.n_features, len(server)
    rank = min(d, k) if rank is None else check_int(rank, "rank", maximum=d)
    if check_positive(margin, "margin") > 1:
        raise ValueError(f"margin must lie in (0, 1], got {margin}")
    if margin < 1 and facts.unit == "client":
        raise ValueError("margin must be 1 at client level")
    check_restarts(n_init)
    if minimum_weight is not None:
        check_non_negative(minimum_weight, "minimum_weight")
    check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS)
    check_budgets(budgets)
    if budgets is not None and (proportions is not None or n_rounds not in (0, budgets.n_rounds)):
        raise ValueError("n_rounds and proportions must not be given with budgets")
    delta = delta_of(delta, budgets)

    def releases(steps: StepBudgets) -> tuple[PlannedRelease, ...]:
        return _all_releases(federation, level, steps, k, q, rank)

    unit: Any = facts.unit
    shares = split_epsilon(1.0, unit=unit, proportions=proportions, n_rounds=n_rounds, delta=delta)
    for name in ("weights", "sums", "counts"):
        if getattr(budgets or shares, name) == 0:
            raise ValueError(f"budgets.{name} must be > 0 for FedDP-Init")
    steps = chosen_budgets(
        budgets, shares, epsilon, lambda b: total_of(federation, releases(b), delta)
    )
    whole = releases(steps)
    noise = {r.round: r.mechanisms for r in whole}
    if minimum_weight is None:
        minimum_weight = LEAST_WEIGHT if facts.unit == "point" else noise[1][0].std
    error = None
    if facts.unit == "point":
        error = d * (noise[max(noise)][0].std * k / facts.n_records) ** 2
    return FedDPPlan(
        method="FedDP-KMeans", n_clusters=k, n_features=d, n_rounds=steps.n_rounds,
        epsilon=total_of(federation, whole, delta) if epsilon is None else check_epsilon(epsilon),
        delta=delta, releases=whole, facts=facts, predicted_error=error,
        predicted_error_is=ERROR_IS,
        budgets=steps, clips=clips, server=ServerPoints.of(server), rank=rank, margin=float(margin),
        minimum_weight=float(minimum_weight), n_init=n_init,
    )  # fmt: skip
