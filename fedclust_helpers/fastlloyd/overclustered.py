"""Over-clustered Lloyd: FastLloyd's guarantee, spent in the order in which it helps.

Three changes to FastLloyd, all of them releases of masked sums or post-processing:

* *find the data first*: a noised histogram (few columns), two noised moments (many), or votes for
  candidate centres (many columns and clusters);
* *cut instead of drop*: a row that lies far from its centre pulls with length `radius`, so the
  radius can shrink, and with it the noise;
* *over-cluster*: the noised rounds move 2 k centres, which are then merged to k by weighted k-means
  on the server, free of charge; one more round settles them.

Budgets are shares of mu^2 (Gaussian DP): a release with noise multiplier z costs 1/z^2, and the
shares of a plan add up to 1. Which branch runs is decided by public numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, check_choice, check_instance
from fedclust_helpers.client_statistics import (
    CELL_COUNTS,
    CUT_STEPS,
    MAX_CELLS,
    MOMENTS,
    VOTES,
    ClientStatistic,
)
from fedclust_helpers.fastlloyd.planning import checked_size
from fedclust_helpers.federation import Plan, PlannedRelease, RunResult, SumFederation, require
from fedclust_helpers.mechanisms import Mechanism

Branch = Literal["grid", "moments", "votes"]

FEW_COLUMNS, MANY_CLUSTERS = 4, 15
ZOOM_FROM = 50.0  # N mu/sqrt(d) from which two coarse grids find the box of the data first
OVER = 2  # centres of the rounds for each cluster
MAX_CANDIDATES = 4000
STARTS = 10  # of the server's k-means


class Round(NamedTuple):
    """One release of a plan: its share of mu^2, and what is broadcast for it."""

    statistic: ClientStatistic
    share: float
    size: int  # cells on an axis, centres or candidates
    radius: float = 0.0  # of a cut step, in units of the spread of the data


@checked
@dataclass(frozen=True, kw_only=True)
class OverclusteredPlan(Plan):
    """A run of over-clustered Lloyd.

    Attributes
    ----------
    branch : {"grid", "moments", "votes"}
    rounds : tuple of Round
        What each release is for; their shares of mu^2 add up to 1.
    """

    branch: Branch
    rounds: tuple[Round, ...] = field(repr=False)

    @property
    def n_centers(self) -> int:
        """Centres that the rounds move before they are merged to k."""
        return OVER * self.n_clusters


@dataclass(frozen=True, kw_only=True, eq=False)
class OverclusteredResult(RunResult):
    """Centres (k, d), and the centres before they were merged, (2 k, d) with their weights."""

    plan: OverclusteredPlan
    centers: FloatArray
    before_merge: FloatArray = field(repr=False)
    weights: FloatArray = field(repr=False)
    released: tuple[tuple[FloatArray, ...], ...] = field(repr=False)


# --- the plan -------------------------------------------------------------------------------------


def branch_for(n_features: int, n_clusters: int) -> Branch:
    """The branch that suits d and k: both are public."""
    if n_features <= FEW_COLUMNS:
        return "grid"
    return "votes" if n_clusters >= MANY_CLUSTERS else "moments"


@checked
def plan_overclustered(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    branch: Branch | Literal["auto"] = "auto",
) -> OverclusteredPlan:
    """Plan over-clustered Lloyd for a total of (epsilon, delta), add/remove one point.

    Parameters
    ----------
    federation : SumFederation
        The one that will run the plan, ideal, masked or serverless.
    n_clusters : int
    epsilon, delta : float
        Total; delta is 1/(N ln N) by default, which tells the federation's `n_records` N.
    branch : {"auto", "grid", "moments", "votes"}
        How the data is found: "grid" up to four columns, "votes" from 15 clusters on, else
        "moments".

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    k, delta = checked_size(federation, n_clusters, delta)
    n, d = federation.n_records, federation.n_features
    check_choice(branch, "branch", ("auto", "grid", "moments", "votes"))
    chosen: Branch = branch_for(d, k) if branch == "auto" else branch
    if chosen == "grid" and 2**d > MAX_CELLS:
        raise ValueError(f"branch must not be 'grid' for {d} features: too many cells")
    sigma = federation.noise_multiplier(epsilon, delta)
    rounds = ROUNDS[chosen](n, d, k, 1 / sigma)
    releases = []
    for t, one in enumerate(rounds):
        noise = tuple(_noise(federation, one, sigma, d))
        numbers = _numbers(one, d)
        releases.append(PlannedRelease.of(one.statistic, noise, round=t, numbers=numbers))
        federation.check_release(one.statistic, noise, **_blank(one, d, federation.bound))
    last = releases[-1].mechanisms[0]
    plan = OverclusteredPlan(
        method=f"over-clustered Lloyd, {chosen}", n_clusters=k, n_features=d,
        n_rounds=len(rounds), epsilon=epsilon, delta=delta, releases=tuple(releases),
        facts=federation.facts, branch=chosen, rounds=rounds,
        predicted_error=d * (last.std * rounds[-1].radius * k / n) ** 2,
        predicted_error_is="mean squared distance by which noise moves a centre in the last round,"
        " k clusters of equal size, in units of the spread of the data",
    )  # fmt: skip
    if not plan.total_epsilon <= epsilon * (1 + 1e-9):
        raise ValueError(
            f"epsilon={epsilon:g} cannot be kept on this federation's grid of"
            f" {federation.resolution:g}: the releases would cost {plan.total_epsilon:.3g}"
        )
    return plan


def _grid_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    rounds, rest = [], 1.0
    if n * mu / math.sqrt(d) >= ZOOM_FROM:
        rounds = [Round(CELL_COUNTS, 0.04, _per_axis(n, d, mu * 0.2)) for _ in range(2)]
        rest = 0.92
    reach = 0.8 * 0.45 / k ** (1 / d)
    return (
        *rounds,
        Round(CELL_COUNTS, 0.35 * rest, _per_axis(n, d, mu * math.sqrt(0.35 * rest))),
        Round(CUT_STEPS, 0.45 * rest, OVER * k, reach),
        Round(CUT_STEPS, 0.20 * rest, k, 0.8 * reach),
    )


def _per_axis(n: int, d: int, mu: float) -> int:
    """Cells on an axis: finer cells hold fewer rows against the same noise."""
    cells = min((n * mu / 1.5) ** (2 * d / (d + 2)), MAX_CELLS)
    return max(2, int(min(round(cells ** (1 / d)), MAX_CELLS ** (1 / d))))


def _moment_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    shares = _growing(0.63, 4)
    return (
        Round(MOMENTS, 0.07, 1),
        *(Round(CUT_STEPS, s, OVER * k, 0.65 * 0.85**t) for t, s in enumerate(shares)),
        Round(CUT_STEPS, 0.30, k, 0.65 * 0.85**4),
    )


def _vote_rounds(n: int, d: int, k: int, mu: float) -> tuple[Round, ...]:
    std = 1 / (mu * math.sqrt(0.10))
    candidates = int(np.clip(min(n / (2 * std), n / 5), 2 * OVER * k, MAX_CANDIDATES))
    shares = _growing(0.48, 3)
    return (
        Round(MOMENTS, 0.07, 1),
        Round(VOTES, 0.10, candidates),
        Round(VOTES, 0.10, candidates),
        *(Round(CUT_STEPS, s, OVER * k, 0.5 * 0.8**t) for t, s in enumerate(shares)),
        Round(CUT_STEPS, 0.25, k, 0.5 * 0.8**3),
    )


ROUNDS = {"grid": _grid_rounds, "moments": _moment_rounds, "votes": _vote_rounds}


def _growing(total: float, n: int) -> list[float]:
    """n shares that add up to `total`, each half as much again as the one before."""
    parts = 1.5 ** np.arange(n)
    return (total * parts / parts.sum()).tolist()


def _parts(one: Round, d: int) -> Sequence[float]:
    """Shares of the parts of one release: sums and counts as in Eq. 19, moments 80 to 20."""
    if one.statistic is CUT_STEPS:
        sums = math.sqrt(4 * d) / (1 + math.sqrt(4 * d))
        return (sums, 1 - sums)
    return (0.8, 0.2) if one.statistic is MOMENTS else (1.0,)


def _numbers(one: Round, d: int) -> int:
    """Numbers that each client sends."""
    sizes = {"cell_counts": one.size**d, "moments": 2 * d, "votes": one.size}
    return sizes.get(one.statistic.name, one.size * (d + 1))


def _noise(federation: SumFederation, one: Round, sigma: float, d: int) -> list[Mechanism]:
    public = {"middle": federation.bound**2 / 2} if one.statistic is MOMENTS else {}
    parts = zip(one.statistic.parts, _parts(one, d), strict=True)
    return [
        federation.gaussian(
            one.statistic, part, multiplier=sigma / math.sqrt(one.share * share),
            n_coordinates=_numbers(one, d), **public,
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
    with federation.follow(plan, progress) as n_before:
        run = follow(federation, plan)
    return OverclusteredResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        centers=run.centers, before_merge=run.many,
        weights=run.weights, released=tuple(run.released),
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
        self.centers = np.zeros((0, self.d))
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
        (sums, counts), (std_sums, std_counts) = self._ask(centers=centers, radius=radius)
        divisor = np.maximum(counts, max(1.0, std_counts))
        steps = radius * sums / divisor[:, None]
        length = np.linalg.norm(steps, axis=1)
        steps *= np.minimum(1.0, cap / np.maximum(length, 1e-300))[:, None]
        return steps, (radius * std_sums / divisor) ** 2, counts

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
            lower = np.maximum(lower, mean - 3 * spread)
            upper = np.minimum(upper, mean + 3 * spread)
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
        radius = self._next.radius * scale
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


# --- post-processing ------------------------------------------------------------------------------


def simplex(counts: FloatArray, total: float) -> FloatArray:
    """The nearest vector without negative entries that adds up to `total`, (m,)."""
    ordered = np.sort(counts)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(counts) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(counts - excess[last], 0.0))


def shrinkage(vectors: FloatArray, noise: FloatArray) -> FloatArray:
    """Factors (1 - noise/|v|^2)+ of James and Stein for vectors (m, d) whose noise has this energy.

    A vector that is about as long as its noise says little; one much longer is left as it is.
    """
    energy = np.maximum((vectors**2).sum(axis=1), 1e-300)
    return np.asarray(np.maximum(0.0, 1 - noise / energy))


def cell_centers(lower: FloatArray, upper: FloatArray, n_per_axis: int) -> FloatArray:
    """Centres (n_per_axis^d, d) of the cells of a grid, the last column fastest."""
    middle = (np.arange(n_per_axis) + 0.5) / n_per_axis
    axes = np.meshgrid(*[lo + (hi - lo) * middle for lo, hi in zip(lower, upper, strict=True)],
                       indexing="ij")  # fmt: skip
    return np.stack([axis.ravel() for axis in axes], axis=1)


def even_spread(n: int, d: int, *, rng: np.random.Generator) -> FloatArray:
    """n points that cover [-1, 1]^d evenly: k-means of a uniform sample (centroidal Voronoi)."""
    sample = rng.uniform(-1, 1, (max(50 * n, 1000), d))
    return kmeans.weighted_kmeans(sample, None, n, rng=rng, n_init=1)
