"""Plans of locally private k-means: the objects, and what all planners check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedclust_helpers._validation import check_epsilon, check_int, check_positive
from fedclust_helpers.federation import LocalReports, Plan, PlannedRelease
from fedclust_helpers.federation.reports import MAX_EPSILON
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.mechanisms import Mechanism

CELLS_PER_CLUSTER = 3  # cells over which a cluster spreads, as a rule of thumb for warnings
MAX_INIT = 1000  # starts of the server's k-means


@dataclass(frozen=True, kw_only=True)
class LocalPlan(Plan):
    """A run in which every user randomises on the device.

    Attributes
    ----------
    parts : tuple of (str, float)
        Names of the parts of the users and the share of each; empty if everybody answers all. Users
        of different parts answer different questions: each user is charged for one part.
    z : float
        Standard deviations that a count must exceed to be seen.
    n_init : int
        Starts of the server's k-means.
    needed : int
        Users that it takes to see clusters of equal size that spread over three cells each; 0 where
        no cells are counted.
    """

    parts: tuple[tuple[str, float], ...] = ()
    z: float = 3.5
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
            first: Any = release.mechanisms[0]
            one_bit = isinstance(first, RandomizedResponse)
            users = self.facts.n_clients * shares.get(release.part or "", 1.0)
            total += users * release.numbers * (1 if one_bit else 8)
        return round(total)

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement of the run as (heading, text) pairs."""
        mechanisms: list[Any] = [m for r in self.releases for m in r.mechanisms]
        kinds = {
            "randomised bits" if isinstance(m, RandomizedResponse)
            else f"{self.facts.noise} Gaussian noise on vectors"
            for m in mechanisms
        }  # fmt: skip
        rows = [
            (what, f"{' and '.join(sorted(kinds, reverse=True))}, drawn by every user alone")
            if what == "noise"
            else (what, text)
            for what, text in super().statement()
        ]
        if self.parts:
            shares = ", ".join(f"{share:.1%} {name!r}" for name, share in self.parts)
            rows.append(("parts", f"each user is in one, by number: {shares}"))
        if self.needed:
            rows.append((
                "users needed",
                f"about {self.needed:,} to see {self.n_clusters} clusters of equal size that"
                f" spread over {CELLS_PER_CLUSTER} cells each",
            ))  # fmt: skip
        return rows


@dataclass(frozen=True, kw_only=True)
class OneRoundPlan(LocalPlan):
    """Algorithm 1 with parameters that work, or one grid (`plan_grid_histogram`).

    `sums_share` is the share of users who send vectors; 0 where the centres found among the cells
    are returned as they are.
    """

    n_outputs: int
    depths: tuple[int, ...]
    sums_depth: int | None
    sums_share: float
    n_answers: int
    mechanism: Mechanism | None
    proxies: Literal["center", "corner"] = "center"

    @property
    def uses_sums(self) -> bool:
        """Whether the last step recovers centres from vector sums."""
        return self.sums_depth is not None


@dataclass(frozen=True, kw_only=True)
class PrintedPlan(LocalPlan):
    """Algorithm 1 with the paper's parameters: every user in all 2 L calls."""

    grid: NestedGrid
    depths: tuple[int, ...]
    n_levels: int
    mechanism: Mechanism


@dataclass(frozen=True, kw_only=True)
class FourRoundPlan(LocalPlan):
    """Algorithms 2 to 5. The parts of the users are the questions.

    The paper runs F L M R bucket histograms and sum oracles in parallel, each with a share of the
    budget. Reductions, all public: ``joint_levels`` (every point is in exactly one D_l, so one
    question with value (l, bucket) replaces L), `n_guesses` for F (None: the oracle's own noise
    decides what is heavy), `scales` for M and `repetitions` for R.
    """

    n_outputs: int
    depths: tuple[int, ...]
    shifted: bool
    lsh: bool
    t: int
    scales: tuple[float, ...]
    repetitions: int
    n_guesses: int | None
    joint_levels: bool
    mechanism: Mechanism
    low_mechanism: Mechanism = field(repr=False)

    @property
    def n_calls(self) -> int:
        """Bucket histograms that users are split over: F L M R after the reductions."""
        levels = 1 if self.joint_levels else len(self.depths) + 1
        return (self.n_guesses or 1) * levels * len(self.scales) * self.repetitions


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


def users_of(federation: LocalReports, n_clusters: int) -> tuple[int, int, int]:
    """Shared validation; returns (n, d', k), all public."""
    n = require_local(federation).n_records
    return n, federation.n_features, check_int(n_clusters, "n_clusters", maximum=n)


def outputs_of(n_features: int, n_outputs: int | None) -> int:
    """d after projection."""
    if n_outputs is None:
        return min(n_features, 4 if n_features > 6 else n_features)
    return check_int(n_outputs, "n_outputs", maximum=n_features)


MAX_Z = 1e6  # standard deviations: no users could show anything beyond


def check_z(z: float) -> float:
    """A threshold of at least one standard deviation: below, noise is read as cells."""
    if not 1 <= check_positive(z, "z") <= MAX_Z:
        raise ValueError(f"z must lie between 1 and {MAX_Z:g} standard deviations, got {z:g}")
    return float(z)


def check_local_epsilon(epsilon: float) -> float:
    """epsilon up to 10,000: beyond, nothing is hidden."""
    if check_epsilon(epsilon) > MAX_EPSILON:
        raise ValueError(f"epsilon must be at most {MAX_EPSILON:g}, got {epsilon:g}")
    return float(epsilon)


def check_init(n_init: int) -> int:
    """Return the number of restarts of the server's k-means, if it can be run."""
    return check_int(n_init, "n_init", maximum=MAX_INIT)


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


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
