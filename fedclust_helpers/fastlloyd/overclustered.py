"""Over-clustered Lloyd: FastLloyd's guarantee, spent in the order in which it helps.

Three changes to FastLloyd, all of them releases of masked sums or post-processing:

* *find the data first*: a noised histogram (few columns), two noised moments (many), or votes for
  candidate centres (many columns and clusters);
* *cut instead of drop*: a row that lies far from its centre pulls with length `radius`, so the
  radius can shrink, and with it the noise;
* *over-cluster*: the noised rounds move 2 k centres, which are then merged to k by weighted k-means
  on the server, free of charge; one more round settles them.

k itself can be chosen from what is released anyway (``n_clusters="auto"``): the elbow of the cost.

Budgets are shares of mu^2 (Gaussian DP): a release with noise multiplier z costs 1/z^2, and the
shares of a plan add up to 1. Which branch runs is decided by public numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.neighbors import NearestNeighbors

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, check_choice, check_instance, check_int
from fedclust_helpers.client_statistics import (
    CELL_COUNTS,
    MAX_CELLS,
    MOMENTS,
    VOTES,
)
from fedclust_helpers.fastlloyd.planning import checked_size
from fedclust_helpers.fastlloyd.postprocessing import (
    cell_centers,
    costs_by_k,
    elbow,
    even_spread,
    shrinkage,
    simplex,
)
from fedclust_helpers.fastlloyd.rounds import (
    OVER,
    ROUNDS,
    Branch,
    Round,
    branch_for,
    numbers_of,
    parts_of,
)
from fedclust_helpers.federation import (
    Plan,
    PlannedRelease,
    RunResult,
    SumFederation,
    planner,
    require,
)
from fedclust_helpers.federation.noise import planned_within
from fedclust_helpers.mechanisms import Mechanism

STARTS = 10  # of the server's k-means
BOX = 2.5  # standard deviations from the mean to the sides of the box of the data
K_RANGE = (2, 48)  # for n_clusters="auto"


@checked
@dataclass(frozen=True, kw_only=True)
class OverclusteredPlan(Plan):
    """A run of over-clustered Lloyd.

    Attributes
    ----------
    branch : {"grid", "moments", "votes"}
    rounds : tuple of Round
        What each release is for; their shares of mu^2 add up to 1.
    k_range : (int, int), optional
        k is chosen between these after the run's first releases; `n_clusters` is the larger.
    """

    branch: Branch
    rounds: tuple[Round, ...] = field(repr=False)
    k_range: tuple[int, int] | None = None

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement; it says so where k is chosen from releases."""
        rows = super().statement()
        if self.k_range is None:
            return rows
        low, high = self.k_range
        at = [heading for heading, _ in rows].index("public")
        text = rows[at][1].replace(f" {high} clusters", f" {low} to {high} clusters")
        chosen = "afterwards, from what is released below; nothing more is released or charged"
        return [*rows[:at], ("public", text), ("k is chosen", chosen), *rows[at + 1 :]]


@dataclass(frozen=True, kw_only=True, eq=False)
class OverclusteredResult(RunResult):
    """Centres (k, d), and the centres before they were merged, (2 k, d) with their weights.

    `costs_by_k` has rows (k, cost per point) where k was chosen from them, else none.
    """

    plan: OverclusteredPlan
    centers: FloatArray
    before_merge: FloatArray = field(repr=False)
    weights: FloatArray = field(repr=False)
    released: tuple[tuple[FloatArray, ...], ...] = field(repr=False)
    costs_by_k: FloatArray = field(repr=False)


# --- the plan -------------------------------------------------------------------------------------


@planner
@checked
def plan_overclustered(
    federation: SumFederation,
    *,
    n_clusters: int | Literal["auto"],
    epsilon: float,
    delta: float | None = None,
    branch: Branch | Literal["auto"] = "auto",
    k_range: tuple[int, int] | None = None,
) -> OverclusteredPlan:
    """Plan over-clustered Lloyd for a total of (epsilon, delta), add/remove one point.

    Parameters
    ----------
    federation : SumFederation
        The one that will run the plan, ideal, masked or serverless.
    n_clusters : int or "auto"
        "auto" chooses k within `k_range` by the elbow of the cost that the server computes from
        the grid, or from the last round before the merge. It costs nothing; see claim B.k.elbow
        for when it is right.
    epsilon, delta : float
        Total; delta is 1/(N ln N) by default, which tells the federation's `n_records` N.
    branch : {"auto", "grid", "moments", "votes"}
        How the data is found: "grid" up to four columns, "votes" from 15 clusters on, else
        "moments"; for k = "auto" never "votes".
    k_range : (int, int), optional
        Smallest and largest k for "auto", public; (2, 48) by default. It matters: the elbow is
        where the cost lies farthest below the line between its two ends.

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    k_range = _checked_range(n_clusters, k_range)
    k, delta = checked_size(federation, k_range[1] if k_range else int(n_clusters), delta)
    n, d = federation.n_records, federation.n_features
    check_choice(branch, "branch", ("auto", "grid", "moments", "votes"))
    chosen: Branch = branch_for(d, None if k_range else k) if branch == "auto" else branch
    if chosen == "grid" and 2**d > MAX_CELLS:
        raise ValueError(f"branch must not be 'grid' for {d} features: too many cells")

    def made(sigma: float) -> OverclusteredPlan:
        rounds = ROUNDS[chosen](n, d, k, 1 / sigma)
        releases = []
        for t, one in enumerate(rounds):
            noise = tuple(_noise(federation, one, sigma, d))
            numbers = numbers_of(one, d)
            releases.append(PlannedRelease.of(one.statistic, noise, round=t, numbers=numbers))
            federation.check_release(one.statistic, noise, **_blank(one, d, federation.bound))
        last = releases[-1].mechanisms[0]
        return OverclusteredPlan(
            method=f"over-clustered Lloyd, {chosen}", n_clusters=k, n_features=d,
            n_rounds=len(rounds), epsilon=epsilon, delta=delta, releases=tuple(releases),
            facts=federation.facts, branch=chosen, rounds=rounds, k_range=k_range,
            predicted_error=d * (last.std * rounds[-1].radius * k / n) ** 2,
            predicted_error_is="mean squared distance by which noise moves a centre in the last"
            " round, k clusters of equal size, in units of the spread of the data",
        )  # fmt: skip

    return planned_within(federation, epsilon, delta, made)


def _checked_range(
    n_clusters: int | str, k_range: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The range of k for "auto", None for a given k."""
    if n_clusters != "auto":
        if k_range is not None:
            raise ValueError("k_range must not be given unless n_clusters is 'auto'")
        return None
    if k_range is None:
        return K_RANGE
    if len(k_range) != 2:
        raise ValueError(f"k_range must be two integers, got {len(k_range)}")
    low = check_int(k_range[0], "k_range")
    return low, check_int(k_range[1], "k_range", minimum=low + 1)


def _noise(federation: SumFederation, one: Round, sigma: float, d: int) -> list[Mechanism]:
    public = {"middle": federation.bound**2 / 2} if one.statistic is MOMENTS else {}
    parts = zip(one.statistic.parts, parts_of(one, d), strict=True)
    return [
        federation.gaussian(
            one.statistic, part, multiplier=sigma / math.sqrt(one.share * share),
            n_coordinates=numbers_of(one, d), **public,
        )
        for part, share in parts
    ]  # fmt: skip


def _blank(one: Round, d: int, bound: float) -> dict[str, Any]:
    """What is broadcast for a release, as far as it is known before the run."""
    if one.statistic is CELL_COUNTS:
        box = np.full(d, bound)
        return {"lower": -box, "upper": box, "n_per_axis": one.size}
    if one.statistic is MOMENTS:
        return {"middle": bound**2 / 2}
    places = np.zeros((one.size, d))
    return {"centers": places} | ({} if one.statistic is VOTES else {"radius": 1.0})


# --- the run --------------------------------------------------------------------------------------


def run_overclustered(
    federation: SumFederation, plan: OverclusteredPlan, *, progress: Progress = False
) -> OverclusteredResult:
    """Follow a plan of `plan_overclustered` on its federation.

    Raises
    ------
    ValueError, TypeError, PlanMismatchError, BudgetExceededError
        Before any data is read.
    """
    require(federation, "noisy_sum")
    check_instance(plan, OverclusteredPlan, "plan")
    with federation.follow(plan, progress) as held:
        run = follow(federation, plan)
    return OverclusteredResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=run.centers, before_merge=run.many,
        weights=run.weights, released=tuple(run.released), costs_by_k=run.costs,
    )  # fmt: skip


def follow(federation: SumFederation, plan: OverclusteredPlan) -> Steps:
    """The steps of a plan, from the releases that the federation makes."""
    steps = Steps(federation, plan)
    steps.centers = {"grid": steps.grid, "moments": steps.moments, "votes": steps.votes}[
        plan.branch
    ]()
    return steps


class Steps:
    """The releases of one run, and what the server makes of them."""

    def __init__(self, federation: SumFederation, plan: OverclusteredPlan) -> None:
        self.federation, self.plan = federation, plan
        self.rng, self.n = federation.randomness.public, federation.n_records
        self.k, self.d, self.bound = plan.n_clusters, plan.n_features, federation.bound
        self.released: list[tuple[FloatArray, ...]] = []
        self.many, self.weights = np.zeros((0, self.d)), np.zeros(0)
        self.centers, self.costs = np.zeros((0, self.d)), np.zeros((0, 2))
        facts = plan.facts
        # where every client adds a share, all shares together are more than the honest ones alone
        distributed = facts.noise == "distributed"
        self.more = math.sqrt(facts.n_clients / facts.n_honest) if distributed else 1.0

    def _ask(self, **broadcast: Any) -> tuple[tuple[FloatArray, ...], list[float]]:
        """The next release of the plan, and the standard deviations of its parts."""
        t = len(self.released)
        noise = self.plan.releases[t].mechanisms
        statistic = self.plan.rounds[t].statistic
        found = self.federation.noisy_sum(statistic, noise, round=t, **broadcast)
        self.released.append(found)
        return found, [self.more * m.std for m in noise]

    @property
    def _next(self) -> Round:
        return self.plan.rounds[len(self.released)]

    def _cut(self, centers: FloatArray) -> FloatArray:
        return np.clip(centers, -self.bound, self.bound)

    def _means(self, points: FloatArray, weights: FloatArray, k: int, n_init: int) -> FloatArray:
        """Weighted k-means; places that hold nothing are left out, and k is filled with copies."""
        held = weights > 0
        points, weights = points[held], weights[held]
        if len(points) <= k:
            return points[np.resize(np.arange(len(points)), k)]
        return kmeans.weighted_kmeans(points, weights, k, rng=self.rng, n_init=n_init)

    def _step(
        self, centers: FloatArray, radius: float, cap: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Steps of a cut round, at most `cap` long; their noise variance; the noised counts."""
        # where k is chosen later than planned for, copies fill the message: they hold nothing
        message = centers[np.resize(np.arange(len(centers)), self._next.size)]
        (sums, counts), (std_sums, std_counts) = self._ask(centers=message, radius=radius)
        sums, counts = sums[: len(centers)], counts[: len(centers)]
        divisor = np.maximum(counts, max(1.0, std_counts))
        steps = radius * sums / divisor[:, None]
        length = np.linalg.norm(steps, axis=1)
        steps *= np.minimum(1.0, cap / np.maximum(length, 1e-300))[:, None]
        return steps, (radius * std_sums / divisor) ** 2, counts

    def _choose_k(self, places: FloatArray, weights: FloatArray, within: float) -> None:
        """Where the plan leaves k open: the elbow of the cost of weighted places."""
        if self.plan.k_range is not None:
            self.costs = costs_by_k(places, weights, self.plan.k_range, within, rng=self.rng)
            self.k = elbow(self.costs)

    def _merge(self, centers: FloatArray, counts: FloatArray) -> FloatArray:
        """2 k centres to k: weighted k-means, free of charge."""
        self.many, self.weights = centers, simplex(counts, self.n)
        return self._means(centers, self.weights, self.k, STARTS)

    # --- few columns: a histogram

    def grid(self) -> FloatArray:
        """Histogram, one round of 2 k centres, merge, one round."""
        lower, upper = np.full(self.d, -self.bound), np.full(self.d, self.bound)
        while True:
            one = self._next
            ((counts,), _) = self._ask(lower=lower, upper=upper, n_per_axis=one.size)
            places, weights = cell_centers(lower, upper, one.size), simplex(counts, self.n)
            if self._next.statistic is not CELL_COUNTS:
                break
            side = (upper - lower) / one.size
            mean = weights @ places / self.n
            spread = np.sqrt(weights @ (places - mean) ** 2 / self.n + side**2 / 12)
            lower = np.maximum(lower, mean - BOX * spread)
            upper = np.minimum(upper, mean + BOX * spread)
        self._choose_k(places, weights, float((((upper - lower) / one.size) ** 2).sum() / 12))
        half = float(np.linalg.norm(upper - lower)) / 2
        # as many centres as the plan says, on cells that hold something; copies hold nothing
        filled = int(np.count_nonzero(weights > 0))
        k_many = max(self.k, min(OVER * self.k, filled // 2))
        centers = self._means(places, weights, k_many, STARTS)
        centers = centers[np.resize(np.arange(len(centers)), OVER * self.k)]
        centers, counts = self._shrunk_round(centers, half)
        return self._shrunk_round(self._merge(centers, counts), half)[0]

    def _shrunk_round(self, centers: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
        """A cut round whose steps shrink by their own noise: (1 - d v/|step|^2)+."""
        radius = self._next.radius * scale * (self.plan.n_clusters / self.k) ** (1 / self.d)
        steps, variance, counts = self._step(centers, radius, math.inf)
        steps *= shrinkage(steps, self.d * variance)[:, None]
        length = np.linalg.norm(steps, axis=1)
        steps *= np.minimum(1.0, radius / np.maximum(length, 1e-300))[:, None]
        return self._cut(centers + steps), counts

    # --- many columns: moments, or votes for candidates

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variances by column, each shrunk by its noise."""
        middle = self.bound**2 / 2
        (sums, squares), (std_sums, std_squares) = self._ask(middle=middle)
        mean = sums / self.n
        mean = mean * shrinkage(mean[None], np.array([self.d * (std_sums / self.n) ** 2]))[0]
        variance = squares / self.n + middle - mean**2
        common = float(variance.mean())
        off = (variance - common)[None]
        noise = np.array([self.d * (std_squares / self.n) ** 2])
        variance = common + off[0] * shrinkage(off, noise)[0]
        total = float(
            np.clip(variance.sum(), 0.01 * self.d * self.bound**2, self.d * self.bound**2)
        )
        variance = np.maximum(variance, 1e-3 * total / self.d)
        return self._cut(mean), variance * (total / variance.sum())

    def _pulled_round(
        self, centers: FloatArray, mean: FloatArray, scale: float
    ) -> tuple[FloatArray, FloatArray]:
        """A cut round, then a pull towards the mean: (1 - d v/(2 |C - m|^2))+."""
        radius = self._next.radius * scale
        steps, variance, counts = self._step(centers, radius, 1.5 * radius)
        away = centers + steps - mean
        return self._cut(mean + away * shrinkage(away, self.d * variance / 2)[:, None]), counts

    def _rounds(self, centers: FloatArray, mean: FloatArray, scale: float) -> FloatArray:
        counts = np.ones(len(centers))
        while len(self.released) < len(self.plan.rounds) - 1:
            centers, counts = self._pulled_round(centers, mean, scale)
        weights = simplex(counts, self.n)
        between = float(
            weights @ ((centers - weights @ centers / self.n) ** 2).sum(axis=1) / self.n
        )
        self._choose_k(centers, weights, max(scale**2 - between, 0.0))
        return self._pulled_round(self._merge(centers, counts), mean, scale)[0]

    def moments(self) -> FloatArray:
        """Moments, rounds of 2 k centres from an even spread, merge, one round."""
        mean, variance = self._moments()
        spread = even_spread(OVER * self.k, self.d, rng=self.rng)
        centers = self._cut(mean + np.sqrt(3 * variance) * spread)
        return self._rounds(centers, mean, math.sqrt(variance.sum()))

    def votes(self) -> FloatArray:
        """Moments, votes for candidates twice, rounds of 2 k centres, merge, one round."""
        mean, variance = self._moments()
        n = self._next.size
        drawn = self.rng.standard_normal((n, self.d))
        places = self._cut(mean + np.sqrt(variance) * drawn)
        (counts,), _ = self._ask(centers=places)
        weights = simplex(counts, self.n)
        places = self._cut(self._offspring(places, weights, variance))
        (counts,), _ = self._ask(centers=places)
        centers = self._means(places, simplex(counts, self.n), OVER * self.k, 3)
        return self._rounds(centers, mean, math.sqrt(variance.sum()))

    def _offspring(
        self, places: FloatArray, weights: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Candidates near those with votes, about as far off as these are from each other."""
        held = places[weights > 0]
        gap = 0.0
        if len(held) > 1:
            near = NearestNeighbors(n_neighbors=2).fit(held).kneighbors(held)[0][:, 1]
            gap = float(np.median(near))
        parents = self.rng.choice(len(places), len(places), p=weights / weights.sum())
        side = 0.7 * gap / math.sqrt(self.d) * np.sqrt(variance / variance.mean())
        return places[parents] + side * self.rng.standard_normal(places.shape)
