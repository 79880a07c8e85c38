"""Plans of FedDP-KMeans: everything that is fixed before the first message.

The federation that will run a plan chooses its mechanisms; what they cost together is the total of
the ledger over exactly these mechanisms. Nothing private is read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Count, FloatArray, as_points, check_delta, check_int
from fedclust_helpers.accounting import LedgerMismatchError
from fedclust_helpers.client_statistics.base import public_numbers
from fedclust_helpers.feddp_kmeans.budgets import (
    LLOYD_STEPS,
    StepBudgets,
    calibrate_budgets,
    joint_epsilon,
    split_epsilon,
)
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, Level, Step, level_of
from fedclust_helpers.federation import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    SumFederation,
    TrustModelError,
    planner,
)

N_INIT = 10  # restarts of the server's own k-means: they cost no privacy, and one is not enough
MAX_RESTARTS = 10_000
LAPLACE = ("weights", "counts", "filled")  # parts with a sensitivity in L1; the others are Gaussian
Releases = tuple[PlannedRelease, ...]


@checked
@dataclass(frozen=True)
class ServerPoints:
    """What a plan keeps of the server's public points: their number, and a fingerprint."""

    n_points: Count
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

    @property
    def level(self) -> Level:
        """The statistics of each step for the unit that is protected."""
        return level_of(self.facts.unit, self.clips)

    @property
    def rounds(self) -> Releases:
        """The releases of FedDP-Lloyds: the last `n_rounds`."""
        return self.releases[len(self.releases) - self.n_rounds :]

    @cached_property
    def total_epsilon(self) -> float:
        """Total of all releases at `delta`, by the ledger; equal plans are added up once."""
        return total_of(self.facts, self.releases, self.delta)


@dataclass(frozen=True, kw_only=True)
class FedDPPlan(ServerPlan):
    """FedDP-Init (Algorithm 1), then `n_rounds` rounds of FedDP-Lloyds (Algorithm 2).

    Rounds 0, 1, 2 are the three steps of FedDP-Init (round 0 is missing if nothing is spent on the
    subspace), rounds 3, 4, ... those of FedDP-Lloyds.
    """

    n_init: int


@planner
@checked
def plan(
    federation: SumFederation, server_points: ArrayLike, *, n_clusters: int,
    epsilon: float | None = None, delta: float | None = None, n_rounds: int = 0,
    budgets: StepBudgets | None = None, clips: ClipBounds | None = None, n_init: int = N_INIT,
) -> FedDPPlan:  # fmt: skip
    """Fix every release of FedDP-KMeans for a total of (epsilon, delta), add/remove.

    Whatever can be refused is refused here; nothing is charged, read or sent.

    Parameters
    ----------
    federation : SumFederation
        With ``domain="ball"``, ``bound`` = Delta, and a server that sees the noised sums. Its
        ledger's unit decides the level: one "point", or one "client" (then `clips` is needed).
    server_points : array_like of shape (q, d)
        Data of the server, public: they cost no privacy. `run` refuses others.
    n_clusters : int
    epsilon, delta : float
        Exact total of all releases, by the ledger; delta, also that of each Gaussian step alone,
        is 1e-6 by default. Shared out in the paper's proportions.
    n_rounds : int
        Rounds of FedDP-Lloyds; together they get the same pair of budgets as Step 3.
    budgets : StepBudgets, optional
        Explicit step budgets in place of `epsilon`, `delta` and `n_rounds` (other proportions:
        `split_epsilon`, `calibrate_budgets`). Without a budget for the outer product the subspace
        is that of the server points.
    clips : ClipBounds, optional
        Client level only: public clip bounds.
    n_init : int
        Restarts of the server's weighted k-means.
    """
    facts = check_federation(federation)
    server, k = check_server_points(federation, server_points, n_clusters)
    level = level_of(facts.unit, clips)
    check_restarts(n_init)
    if budgets is not None and n_rounds:
        raise ValueError("n_rounds must not be given with budgets")
    for name in ("weights", "sums", "counts"):
        if budgets is not None and getattr(budgets, name) == 0:
            raise ValueError(f"budgets.{name} must be > 0 for FedDP-Init")
    unit: Any = facts.unit
    shares = split_epsilon(1.0, unit=unit, n_rounds=n_rounds, delta=delta_of(delta, budgets))
    d, rank = facts.n_features, min(facts.n_features, k)
    basis, xi, centers = np.zeros((d, rank)), np.zeros((k, rank)), np.zeros((k, d))
    means = ("sums", "counts")

    def releases(b: StepBudgets) -> Releases:
        return (
            *planned_start(federation, level, b, k, len(server)),
            *planned_releases(federation, b, means, level.means, round=2, basis=basis, centers=xi),
            *planned_releases(federation, b, LLOYD_STEPS, level.lloyd, round=3, centers=centers),
        )

    steps = chosen_budgets(federation, releases, shares, epsilon, budgets)
    made = made_plan(
        FedDPPlan, federation, releases(steps), steps, epsilon, method="FedDP-KMeans",
        n_clusters=k, clips=clips, server=ServerPoints.of(server), n_init=n_init,
    )  # fmt: skip
    return made if unit == "point" else replace(made, predicted_error=None)


# --- checks that all plans share ------------------------------------------------------------------


def check_federation(federation: SumFederation, *, unit: str | None = None) -> FederationFacts:
    """The facts of a federation that shows noised sums of a ball to the server; others are refused.

    With `unit`, its ledger must be kept for just that one.
    """
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
    return facts


def check_server_points(
    federation: SumFederation, server_points: Any, n_clusters: int, *, each: bool = True
) -> tuple[FloatArray, int]:
    """The server's points (q, d), with `each` one for each cluster, and the number of clusters."""
    k = check_int(n_clusters, "n_clusters", maximum=federation.facts.n_records)
    server = as_points(server_points, "server_points", n_features=federation.facts.n_features)
    if each and len(server) < k:
        raise ValueError(f"server_points must hold at least n_clusters={k} rows, got {len(server)}")
    return server, k


def same_server_points(plan: ServerPlan, server_points: Any) -> FloatArray:
    """The server's points (q, d); others than those of the plan are refused."""
    server = as_points(server_points, "server_points", n_features=plan.n_features)
    if ServerPoints.of(server) != plan.server:
        raise PlanMismatchError(
            "server_points must be those that the plan was made with: radii, budgets and starts"
            " may depend on them; make a plan for these"
        )
    return server


def check_restarts(n_init: Any) -> int:
    """Restarts of the server's k-means."""
    return check_int(n_init, "n_init", maximum=MAX_RESTARTS)


def delta_of(delta: float | None, budgets: StepBudgets | None) -> float:
    """The delta of a plan: 1e-6 unless it or the budgets say otherwise."""
    if budgets is None:
        return 1e-6 if delta is None else check_delta(delta)
    if delta is not None and check_delta(delta) != budgets.delta:
        raise ValueError(f"delta must be that of the budgets, {budgets.delta:g}, got {delta:g}")
    return budgets.delta


# --- releases, and what they cost -----------------------------------------------------------------


def planned_releases(
    federation: SumFederation, budgets: StepBudgets, names: tuple[str, ...], step: Step, *,
    round: int, **zeros: Any,
) -> Releases:  # fmt: skip
    """The release of a step (all rounds of FedDP-Lloyds), refused if the federation would later.

    `names` are the budgets of its parts, for all rounds together: T Gaussians with sqrt(T) times
    the noise are one release, Laplace budgets add up. A step without budget is not run. `zeros` are
    arrays of zeros in the shape of what will be broadcast.
    """
    epsilons = [budgets.steps[name] for name in names]
    if not any(epsilons):
        return ()
    n_rounds = budgets.n_rounds if names == LLOYD_STEPS else 1
    statistic, public = step.statistic, {**public_numbers(zeros), **step.clips}
    one_row = np.zeros((1, federation.facts.n_features))
    sent = statistic.compute(one_row, np.array([0, 1]), **zeros, **step.clips)
    noise: list[Any] = []
    for part, epsilon, values in zip(statistic.parts, epsilons, sent, strict=True):
        size: Any = {"n_coordinates": values.size, **public}
        if part in LAPLACE:
            noise.append(federation.laplace(statistic, part, epsilon=epsilon / n_rounds, **size))
        else:
            multiplier = federation.noise_multiplier(epsilon, budgets.delta) * math.sqrt(n_rounds)
            noise.append(federation.gaussian(statistic, part, multiplier=multiplier, **size))
    numbers = federation.check_release(statistic, noise, **zeros, **step.clips)
    first = PlannedRelease.of(statistic, tuple(noise), round=round, numbers=numbers)
    return tuple(replace(first, round=round + t) for t in range(n_rounds))


def planned_start(
    federation: SumFederation, level: Level, budgets: StepBudgets, n_clusters: int, n_points: int
) -> Releases:
    """Steps 1 and 2 of FedDP-Init, rounds 0 and 1: each where it has a budget."""
    d = federation.facts.n_features
    rank = min(d, n_clusters)
    zeros: Any = {"basis": np.zeros((d, rank)), "server_points": np.zeros((n_points, rank))}
    return (
        *planned_releases(federation, budgets, ("outer",), level.outer, round=0),
        *planned_releases(federation, budgets, ("weights",), level.weights, round=1, **zeros),
    )


def total_of(facts: FederationFacts, releases: Releases, delta: float) -> float:
    """Total epsilon of planned releases at `delta`, by the ledger."""
    mechanisms = tuple(r.mechanisms for r in releases)
    return joint_epsilon(mechanisms, delta, facts.unit, facts.adjacency)


def chosen_budgets(
    federation: SumFederation, releases: Callable[[StepBudgets], Releases], shares: StepBudgets,
    epsilon: float | None, budgets: StepBudgets | None = None,
) -> StepBudgets:  # fmt: skip
    """Explicit step budgets, or the largest multiple of `shares` within epsilon."""
    if budgets is not None and epsilon is not None:
        raise ValueError("epsilon must not be given with budgets: they say what is spent")
    if budgets is not None:
        return budgets
    if epsilon is None:
        raise ValueError("epsilon must be given (or budgets=StepBudgets(...))")
    facts = federation.facts
    return calibrate_budgets(shares, epsilon, total=lambda b: total_of(facts, releases(b), b.delta))


Kind = TypeVar("Kind", bound=ServerPlan)


def made_plan(
    kind: type[Kind], federation: SumFederation, releases: Releases, budgets: StepBudgets,
    epsilon: float | None, *, n_clusters: int, n_records: int | None = None, **rest: Any,
) -> Kind:  # fmt: skip
    """A plan of these releases; `n_records` is public, that of the federation by default."""
    facts, d, delta = federation.facts, federation.facts.n_features, budgets.delta
    n = facts.n_records if n_records is None else n_records
    return kind(
        releases=releases, n_clusters=n_clusters, n_features=d, n_rounds=budgets.n_rounds,
        facts=facts, delta=delta, budgets=budgets,
        epsilon=total_of(facts, releases, delta) if epsilon is None else float(epsilon),
        predicted_error=d * (releases[-1].mechanisms[0].std * n_clusters / n) ** 2,
        predicted_error_is="mean squared distance by which the noise of the last sums moves a"
        " centre, clusters of equal size, squared units of the data",
        **rest,
    )  # fmt: skip
