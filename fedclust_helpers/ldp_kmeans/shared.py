"""What the algorithms share: what a report may cost, votes for public points, words of a plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    Delta,
    FloatArray,
    check_epsilon,
    check_int,
    check_real,
)
from fedclust_helpers.accounting import Accountable, Shuffled, local_epsilon_for
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.federation.data import depth_outside
from fedclust_helpers.federation.reports import MAX_EPSILON, Words
from fedclust_helpers.ldp_kmeans import heavy_cells
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.projections import BallProjection, to_ball
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.program import Algorithm, Options, Public

MAX_SD = 1e6


class NothingDetectedWarning(UserWarning):
    """Too few users for this epsilon: no cell stands out of the noise, or hardly any could."""


# --- budgets and options --------------------------------------------------------------------------


class Report(NamedTuple):
    """What all reports of one user may cost: (epsilon, delta), or pure `local_epsilon`.

    The latter is epsilon, and behind a shuffler more.
    """

    epsilon: float
    delta: float
    local_epsilon: float


Message = Callable[[Public, Options, float], Sequence[Accountable]]


def stated(message: Message | None = None) -> Callable[..., Report]:
    """A search in which nothing is searched for: a user reports once, with all of the budget.

    `message(public, options, epsilon)` are the randomisers of one message with this local epsilon;
    where parts of the users send different ones, those with the fewest symbols. A shuffler that
    knows them lets them say more (`accounting.local_epsilon_for`).
    """

    def search(_: Any, public: Public, epsilon: float, delta: float, **options: Any) -> Report:
        facts, local = public.facts, epsilon
        if facts.trust == "shuffled":
            sent = None if message is None else partial(message, public, options)
            local = local_epsilon_for(facts.n_honest, epsilon, delta, sent)
        return Report(epsilon, delta, local)

    return search


def _epsilon(value: Any, name: str) -> float:
    if check_epsilon(value, name) > MAX_EPSILON:
        raise ValueError(f"{name} must be at most {MAX_EPSILON:g}, got {value:g}")
    return float(value)


def _n_sd(value: Any, name: str) -> float:
    """Below one standard deviation the server would read noise as cells."""
    if not 1 <= check_real(value, name) <= MAX_SD:
        raise ValueError(f"{name} must be from 1 to {MAX_SD:g} standard deviations, got {value:g}")
    return float(value)


Deviations = Annotated[float, _n_sd]
Starts = Annotated[int, partial(check_int, maximum=1000)]  # of the server's k-means


def of_users(facts: FederationFacts, options: Options) -> Options:
    """The options, for users whose points lie in the unit ball."""
    if facts.bound != 1.0 or facts.domain != "ball":
        raise ValueError("federation must keep points in the unit ball: bound=1.0")
    check_int(options["n_clusters"], "n_clusters", maximum=facts.n_records)
    if options.get("n_outputs") is not None:
        check_int(options["n_outputs"], "n_outputs", maximum=facts.n_features)
    if options.get("depths") is not None:
        options = options | {"depths": heavy_cells.check_depths(options["depths"])}
    return options


def check_questions(public: Public, n_questions: int) -> None:
    """At least one user for each question."""
    n = public.facts.n_records
    if n < n_questions:
        raise ValueError(
            f"n_records of the federation must be at least the number of questions, {n_questions},"
            f" got {n}"
        )


def outputs_of(facts: FederationFacts, n_outputs: int | None) -> int:
    """d after projection: d' up to 6, else 4."""
    d = facts.n_features
    return n_outputs or (d if d <= 6 else 4)


# --- what a plan says -----------------------------------------------------------------------------


def users_needed_by(plan: Plan) -> int:
    """Users that it takes to see clusters of equal size that spread over three cells each.

    0 where no cells are counted.
    """
    if not plan.broadcasts("depths"):
        return 0
    users = dict(plan.parts).get(plan.releases[0].part or "", 1.0)
    return heavy_cells.users_needed(
        1 / (CELLS_PER_CLUSTER * plan.n_clusters), plan.dial.local_epsilon,
        len(plan.broadcasts("depths")[0]), n_sd=plan.options["n_sd"], user_share=users,
    )  # fmt: skip


def says(
    plan: Plan, rows: list[tuple[str, str]], needed: int | None = None
) -> list[tuple[str, str]]:
    """The statement: what the users draw, the shuffle, the parts, the users needed."""
    drawn = {m for release in plan.releases for m in release.mechanisms}
    crowds = [m for m in drawn if isinstance(m, Shuffled)]
    reports = {r for m in drawn for r in (m.reports if isinstance(m, Shuffled) else (m,))}
    kinds = sorted({_kind(report, plan) for report in reports}, reverse=True)
    noise = f"{' and '.join(kinds)}, drawn by every user alone"
    rows = [(what, noise if what == "noise" else text) for what, text in rows]
    if crowds:
        hidden = max(crowds, key=lambda m: m.pure_epsilon)
        rows.append((
            "shuffle",
            f"one message alone costs its user the local epsilon {hidden.pure_epsilon:.4g}"
            f" (delta 0), all that is left if the shuffler tells who sent it; all of them"
            f" without senders what is guaranteed, by {hidden.n_users:,} users who hide one"
            " another",
        ))  # fmt: skip
    if plan.parts:
        shares = ", ".join(f"{share:.1%} {name!r}" for name, share in plan.parts)
        by = "a ticket that it draws" if crowds else "number"
        rows.append(("parts", f"each user is in one, by {by}: {shares}"))
    needed = users_needed_by(plan) if needed is None else needed
    if needed:
        rows.append((
            "users needed",
            f"about {needed:,} to see {plan.n_clusters} clusters of equal size that"
            f" spread over {CELLS_PER_CLUSTER} cells each",
        ))  # fmt: skip
    return rows


def _kind(report: Any, plan: Plan) -> str:
    if not isinstance(report, RandomizedResponse):
        return f"{plan.facts.noise} Gaussian noise on vectors"
    if report.n_values == 2:
        return "randomised bits"
    return f"randomised symbols, one of {report.n_values}"


def algorithm(name: str, steps: Any, **own: Any) -> Algorithm:
    """An algorithm that asks users."""
    how: dict[str, Any] = {
        "budget": {"epsilon": Annotated[float, _epsilon], "delta": Delta | None},
        "search": stated(), "check": of_users, "default_delta": lambda facts, options: 1e-6,
        "says": says, "capability": "ask",
    }  # fmt: skip
    return Algorithm(name=name, steps=steps, **how | own)


# --- what the server computes ---------------------------------------------------------------------


def ball_projection(public: Public, n_outputs: int) -> BallProjection:
    """Q from public coins; the identity where the dimension stays."""
    d = public.facts.n_features
    kind: Any = "identity" if n_outputs == d else "gaussian"
    return BallProjection(d, n_outputs, rng=public.coins, kind=kind)


def warn_if_blind(n_proxies: int, public: Public, report: Report) -> None:
    """Say that nothing was seen."""
    if n_proxies == 0:
        warnings.warn(
            f"nothing stands out of the noise at epsilon={report.epsilon:g} with"
            f" {public.facts.n_records} users: the centres returned carry no information (the plan"
            " says how many users are needed)",
            NothingDetectedWarning,
            stacklevel=depth_outside() + 1,
        )


def proxy_centers(
    public: Public, points: FloatArray, weights: FloatArray, k: int, n_init: int
) -> FloatArray:
    """Weighted k-means on proxy points; with fewer points than k, the origin fills the rest."""
    if len(points) <= k:
        return np.concatenate([points, np.zeros((k - len(points), points.shape[1]))])
    return public.kmeans(points, weights, k, rng=public.own, n_init=n_init)


# --- votes for public points, and the means of those who vote for one -----------------------------


class NearestQuery:
    """Questions "which of these public points is nearest to yours?", asked of images in R^d."""

    def __init__(
        self, projection: BallProjection, epsilon: float, noise: Mechanism, *,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.projection, self.epsilon, self.noise, self.rng = projection, epsilon, noise, rng

    def _label(self, points: FloatArray, targets: FloatArray) -> Words:
        return kmeans.assign(self.projection(points), targets).labels.astype(np.uint64)

    def counts(self, targets: FloatArray, name: str = "nearest centre") -> OneBitCounts:
        """One bit about the index of the nearest target."""
        return OneBitCounts(
            lambda points, _: Question(self._label(points, targets)), self.epsilon,
            rng=self.rng, name=name, public={name.removeprefix("nearest ") + "s": targets},
        )  # fmt: skip

    def sums(self, targets: FloatArray) -> HeavySums:
        """The point itself, signed by the index of the nearest target (Algorithm 5, line 7).

        The paper sends all k d' numbers with noise of sensitivity sqrt(2); two points p and -p of
        one cluster differ by 2. Here the sign matrix keeps it at d' numbers, sensitivity 2.
        """
        return HeavySums(
            lambda points, _: (self._label(points, targets), points), 1.0,
            self.projection.n_features, self.noise, rng=self.rng, n_buckets=2**10,
            name="points by nearest centre",
        )  # fmt: skip


def means_of(
    counts: OneBitCounts, sums: HeavySums, fallback: FloatArray, *, n_sd: float
) -> FloatArray:
    """Algorithm 5, lines 10 to 15: means (k, d') of those nearest each target, in the ball.

    `fallback` where the count does not stand out by `n_sd` standard deviations, and where nobody
    was asked for a sum.
    """
    keys = np.arange(len(fallback), dtype=np.uint64)
    votes = counts.estimate(keys)
    seen = (votes > n_sd * counts.std()) & (sums.n_users > 0)
    size = np.where(seen, votes * (sums.n_users / max(1, counts.n_users)), 1.0)
    return to_ball(np.where(seen[:, None], sums.estimate(keys) / size[:, None], fallback))
