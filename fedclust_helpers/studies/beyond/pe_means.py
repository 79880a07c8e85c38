"""PE-means (Humphries, Lin, Yekhanin, arXiv 2606.00342, 2026): the rival, over a secure sum.

Private evolution: every record votes for the nearest of some public candidates, the noised votes
choose k parents, and the next candidates are the parents and mutants of theirs. Each release is a
histogram in which one record counts once, so it is a masked sum like ours. Written from the paper's
abstract and introduction and from what can be seen of its published code, with three changes:

* *the ball is public*. The code subtracts the exact mean and divides by the exact largest norm.
  Here rows lie within the federation's `bound`: for data in [-1, 1]^d the ball around the origin
  with radius sqrt(d), the smallest that holds the box. The first candidates fill the largest cube
  inside the ball, which is that box; a start that fills the ball does worse.
* *above 32 columns* (HDPE: 16 random columns, then one release of sums and counts in all columns)
  noise is drawn for every coordinate, and 14 + 2 shares of 1/16 are spent on 14 + 2 releases.
* at most `MAX_CANDIDATES` candidates, where the rule N/(5k) asks for more, and delta and N as
  everywhere in this package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, check_instance
from fedclust_helpers.client_statistics import (
    PROJECTED_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
    VOTES,
    ClientStatistic,
)
from fedclust_helpers.fastlloyd.planning import checked_size
from fedclust_helpers.federation import Plan, PlannedRelease, RunResult, SumFederation, planner

PROJECTED_FROM = 33  # columns from which the high-dimensional variant runs
LOW_COLUMNS, LOW_GENERATIONS, SHARES = 16, 14, 16
MAX_CANDIDATES = 4000
STEP = 0.01  # of the radius
LEVY = 1.75
Asked = tuple[ClientStatistic, dict[str, Any], tuple[int, ...]]
"""What a release asks for: a statistic, its broadcast before the run, the size of each part."""


@checked
@dataclass(frozen=True, kw_only=True)
class EvolutionPlan(Plan):
    """A run of PE-means: `mutants` of each parent in the first generation, later perhaps fewer."""

    mutants: int
    projected: bool

    @property
    def n_generations(self) -> int:
        """Releases of votes."""
        return self.n_rounds - self.projected


@dataclass(frozen=True, kw_only=True, eq=False)
class EvolutionResult(RunResult):
    """Centres (k, d), and all that was released."""

    plan: EvolutionPlan
    centers: FloatArray
    released: tuple[tuple[FloatArray, ...], ...] = field(repr=False)


@planner
def plan_pe(
    federation: SumFederation, *, n_clusters: int, epsilon: float, delta: float | None = None
) -> EvolutionPlan:
    """Plan PE-means for a total of (epsilon, delta), add/remove one point, N public.

    int(4 sqrt d) generations, times int(epsilon) above 1; max(N/(5k), 4) mutants of each parent.

    Parameters
    ----------
    federation : SumFederation
        Its rows lie in a ball (``domain="ball"``) whose radius `bound` is public.

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    k, delta = checked_size(federation, n_clusters, delta)
    n, d = federation.n_records, federation.n_features
    if federation.facts.domain != "ball":
        raise ValueError("federation must keep its rows in a ball: domain='ball', got 'box'")
    sigma, projected = federation.noise_multiplier(epsilon, delta), d >= PROJECTED_FROM
    n_votes = LOW_GENERATIONS if projected else int(4 * math.sqrt(d)) * max(1, int(epsilon))
    multiplier = sigma * math.sqrt(SHARES if projected else n_votes)
    mutants = int(max(min(n / (5 * k), MAX_CANDIDATES / k - 1), 4))
    m, low = (mutants + 1) * k, {"basis": np.zeros((d, LOW_COLUMNS))}
    asked: list[Asked] = [(VOTES, {"centers": np.zeros((m, d))}, (m,))]
    if projected:
        last = {"centers": np.zeros((k, LOW_COLUMNS))}
        votes = {"server_points": np.zeros((m, LOW_COLUMNS))}
        asked = [(SERVER_POINT_WEIGHTS, low | votes, (m,))]
        asked += [(PROJECTED_SUMS_AND_COUNTS, low | last, (k * d, k))]
    releases: list[PlannedRelease] = []
    for statistic, blank, sizes in asked:
        noise = tuple(
            federation.gaussian(statistic, part, multiplier=multiplier, n_coordinates=size)
            for part, size in zip(statistic.parts, sizes, strict=True)
        )
        federation.check_release(statistic, noise, **blank)
        for _ in range(n_votes if len(sizes) == 1 else 1):
            releases.append(
                PlannedRelease.of(statistic, noise, round=len(releases), numbers=sum(sizes))
            )
    return EvolutionPlan(
        method="PE-means", n_clusters=k, n_features=d, n_rounds=len(releases), epsilon=epsilon,
        delta=delta, facts=federation.facts, mutants=mutants, projected=projected,
        releases=tuple(releases),
    )  # fmt: skip


def run_pe(
    federation: SumFederation, plan: EvolutionPlan, *, progress: Progress = False
) -> EvolutionResult:
    """Follow a plan of `plan_pe` on its federation."""
    check_instance(plan, EvolutionPlan, "plan")
    with federation.follow(plan, progress) as held:
        centers, released = evolve(federation, plan)
    return EvolutionResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=centers, released=released,
    )  # fmt: skip


def evolve(
    federation: SumFederation, plan: EvolutionPlan
) -> tuple[FloatArray, tuple[tuple[FloatArray, ...], ...]]:
    """Centres (k, d) from the releases that the federation makes, and these releases."""
    rng, k, n = federation.randomness.public, plan.n_clusters, federation.n_records
    d = LOW_COLUMNS if plan.projected else plan.n_features
    radius, mutants, released = federation.bound, plan.mutants, []
    side = radius / math.sqrt(plan.n_features)
    statistic, name, basis = VOTES, "centers", {}
    if plan.projected:
        statistic, name = SERVER_POINT_WEIGHTS, "server_points"
        basis = {"basis": rng.standard_normal((plan.n_features, d)) / math.sqrt(d)}
    places = even_places((mutants + 1) * k, d, side, rng=rng)
    for t in range(plan.n_generations):
        noise = plan.releases[t].mechanisms
        found = federation.noisy_sum(statistic, noise, round=t, **basis, **{name: places})
        released.append(found)
        votes = kept(found[0], n)
        if (found[0] ** 2).mean() < noise[0].std ** 2:  # hardly any signal
            mutants = max(mutants // 2, min(4, mutants))
        held = votes > 0
        parents = places[held][np.resize(np.arange(held.sum()), max(k, held.sum()))]
        if held.sum() > k:
            parents = kmeans.weighted_kmeans(places[held], votes[held], k, rng=rng)
        places = offspring(parents, mutants, radius, rng=rng)
    if not plan.projected:
        return parents, tuple(released)
    noise = plan.releases[-1].mechanisms
    sums, counts = federation.noisy_sum(
        PROJECTED_SUMS_AND_COUNTS, noise, round=plan.n_rounds - 1, centers=parents, **basis
    )
    released.append((sums, counts))
    means = in_ball(sums / np.maximum(counts, 1.0)[:, None], radius)
    return means, tuple(released)


def even_places(m: int, d: int, side: float, *, rng: np.random.Generator) -> FloatArray:
    """m places (m, d) that fill [-side, side]^d evenly: a scrambled Sobol sequence."""
    seed = int(rng.integers(2**31))
    drawn = stats.qmc.Sobol(d, rng=seed).random_base2(max(1, math.ceil(math.log2(m))))
    return side * (2 * drawn[:m] - 1)


def kept(votes: FloatArray, total: float) -> FloatArray:
    """The largest noised votes until they add up to `total`; the others become 0, (m,)."""
    order = np.argsort(-votes, kind="stable")
    last = int(np.searchsorted(np.cumsum(votes[order]), total)) + 1
    out = np.zeros_like(votes)
    out[order[:last]] = votes[order[:last]]
    return np.maximum(out, 0.0)


def offspring(
    parents: FloatArray, mutants: int, radius: float, *, rng: np.random.Generator
) -> FloatArray:
    """Parents and `mutants` of each, a Levy flight away (Mantegna 1994), within the ball."""
    many = np.repeat(parents, mutants, axis=0)
    return np.vstack([parents, in_ball(many + STEP * radius * levy(many.shape, rng=rng), radius)])


def levy(shape: tuple[int, ...], *, rng: np.random.Generator) -> FloatArray:
    """Draws with a heavy tail of index `LEVY`: a normal over a power of another."""
    up = math.gamma(1 + LEVY) * math.sin(math.pi * LEVY / 2)
    scale = (up / (math.gamma((1 + LEVY) / 2) * LEVY * 2 ** ((LEVY - 1) / 2))) ** (1 / LEVY)
    u, v = scale * rng.standard_normal(shape), rng.standard_normal(shape)
    return np.asarray(u / np.maximum(np.abs(v), 1e-12) ** (1 / LEVY))


def in_ball(places: FloatArray, radius: float) -> FloatArray:
    """Places beyond the ball, moved to its surface."""
    length = np.linalg.norm(places, axis=1, keepdims=True)
    return places * np.minimum(1.0, radius / np.maximum(length, 1e-300))
