"""Plans of locally private k-means: the objects, and what all planners check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedclust_helpers._validation import check_delta, check_epsilon, check_int, check_positive
from fedclust_helpers.federation import LocalReports, Plan, PlannedRelease
from fedclust_helpers.federation.reports import MAX_EPSILON
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.mechanisms import Mechanism

CELLS_PER_CLUSTER = 3  # cells over which a cluster spreads, as a rule of thumb for warnings
MAX_INIT = 1000  # starts of the server's k-means
MAX_SD = 1e6


@dataclass(frozen=True, kw_only=True)
class LocalPlan(Plan):
    """A run in which every user randomises on the device.

    Attributes
    ----------
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
        """Bytes of all reports together (about, where users are divided): bits take one each."""
        total, shares = 0.0, self.shares
        for release in self.releases:
            users = self.facts.n_clients * shares.get(release.part or "", 1.0)
            total += users * release.numbers * (1 if _is_bit(release.mechanisms[0]) else 8)
        return round(total)

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement of the run as (heading, text) pairs."""
        kinds = {
            "randomised bits" if _is_bit(m) else f"{self.facts.noise} Gaussian noise on vectors"
            for release in self.releases for m in release.mechanisms
        }  # fmt: skip
        noise = f"{' and '.join(sorted(kinds, reverse=True))}, drawn by every user alone"
        rows = [(what, noise if what == "noise" else text) for what, text in super().statement()]
        if self.parts:
            shares = ", ".join(f"{share:.1%} {name!r}" for name, share in self.parts)
            rows.append(("parts", f"each user is in one, by number: {shares}"))
        if self.needed:
            seen = (
                f"about {self.needed:,} to see {self.n_clusters} clusters of equal size that"
                f" spread over {CELLS_PER_CLUSTER} cells each"
            )
            rows.append(("users needed", seen))
        return rows


def _is_bit(mechanism: Any) -> bool:
    return isinstance(mechanism, RandomizedResponse)


@dataclass(frozen=True, kw_only=True)
class OneRoundPlan(LocalPlan):
    """Algorithm 1 with parameters that work, or one grid (`plan_grid_histogram`).

    With sums a share of the users sends vectors with the noise `mechanism`, keyed by their cell of
    depth `sums_depth`; else both are None, and the centres found among the cells are returned.
    """

    n_outputs: int
    depths: tuple[int, ...]
    sums_depth: int | None
    mechanism: Mechanism | None


@dataclass(frozen=True, kw_only=True)
class PrintedPlan(LocalPlan):
    """Algorithm 1 with the paper's parameters: every user in all 2 L calls."""

    grid: NestedGrid
    depths: tuple[int, ...]
    mechanism: Mechanism


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
    federation: LocalReports, n_clusters: int, epsilon: float, delta: float
) -> dict[str, Any]:
    """What every plan states: who answers, k, d' and the budget, all checked."""
    n = require_local(federation).n_records
    if check_epsilon(epsilon) > MAX_EPSILON:
        raise ValueError(f"epsilon must be at most {MAX_EPSILON:g}, got {epsilon:g}")
    return {
        "n_clusters": check_int(n_clusters, "n_clusters", maximum=n),
        "n_features": federation.n_features, "facts": federation.facts,
        "epsilon": float(epsilon), "delta": check_delta(delta),
    }  # fmt: skip


def check_questions(federation: LocalReports, n_questions: int) -> None:
    """At least one user for each question."""
    n = federation.n_records
    if n < n_questions:
        raise ValueError(
            f"n_records of the federation must be at least the number of questions, {n_questions},"
            f" got {n}"
        )


def outputs_of(n_features: int, n_outputs: int | None) -> int:
    """d after projection: d' up to 6, else 4."""
    if n_outputs is None:
        return min(n_features, 4 if n_features > 6 else n_features)
    return check_int(n_outputs, "n_outputs", maximum=n_features)


def reading(n_sd: float, n_init: int) -> dict[str, Any]:
    """How the server reads counts; below one standard deviation it would read noise as cells."""
    if not 1 <= check_positive(n_sd, "n_sd") <= MAX_SD:
        raise ValueError(f"n_sd must be from 1 to {MAX_SD:g} standard deviations, got {n_sd:g}")
    return {"n_sd": float(n_sd), "n_init": check_int(n_init, "n_init", maximum=MAX_INIT)}


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
