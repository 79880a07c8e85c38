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
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fedclust_helpers._index import repeat
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import PROJECTED_SUMS_AND_COUNTS, SERVER_POINT_WEIGHTS
from fedclust_helpers.fastlloyd.algorithm import default_delta, of_points
from fedclust_helpers.federation import FederationFacts
from fedclust_helpers.kmeans import shortened
from fedclust_helpers.program import (
    Algorithm,
    Options,
    Public,
    Release,
    Steps,
    gaussian,
    least_noise,
)

PROJECTED_FROM = 33  # columns from which the high-dimensional variant runs
LOW_COLUMNS, LOW_GENERATIONS, SHARES = 16, 14, 16
MAX_CANDIDATES = 4000
STEP = 0.01  # of the radius
LEVY = 1.75


class Evolved(NamedTuple):
    """Centres (k, d)."""

    centers: FloatArray


class Level(NamedTuple):
    """Noise multiplier of the run, and the epsilon that decides how many generations there are."""

    sigma: float
    epsilon: float


def pe_means(public: Public, level: Level, *, n_clusters: int) -> Steps:
    """PE-means for a total of (epsilon, delta), add/remove one point, N public.

    int(4 sqrt d) generations, times int(epsilon) above 1; max(N/(5k), 4) mutants of each parent.

    Parameters
    ----------
    public : Public
        Facts and coins of a federation whose rows lie in a ball (``domain="ball"``) of public
        radius `bound`.
    level : Level
        The noise, which `plan_pe` finds for `epsilon` and `delta`.
    n_clusters : int

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    f, rng, k = public.facts, public.coins, n_clusters
    n, d, radius, projected = f.n_records, f.n_features, f.bound, f.n_features >= PROJECTED_FROM
    generations, shares = LOW_GENERATIONS, SHARES
    if not projected:
        generations = shares = int(4 * math.sqrt(d)) * max(1, int(level.epsilon))
    noise = gaussian(level.sigma * math.sqrt(shares))
    mutants = int(max(min(n / (5 * k), MAX_CANDIDATES / k - 1), 4))
    n_candidates, low = (mutants + 1) * k, d
    basis = np.eye(d)
    if projected:
        low = LOW_COLUMNS
        basis = rng.standard_normal((d, low)) / math.sqrt(low)
    places = even_places(n_candidates, low, radius / math.sqrt(d), rng=rng)
    for _ in range(generations):
        # as many candidates as planned, where later ones are fewer: copies get no votes
        message = places[np.resize(np.arange(len(places)), n_candidates)]
        answer = yield Release(SERVER_POINT_WEIGHTS, [noise], server_points=message, basis=basis)
        found, std = answer[0][: len(places)], answer.std[0]
        votes = kept(found, n)
        if (found**2).mean() < std**2:  # hardly any signal
            mutants = max(mutants // 2, min(4, mutants))
        held = votes > 0
        if not held.any():  # nothing was seen: any candidates
            held[:k] = True
        parents = places[held][np.resize(np.arange(held.sum()), max(k, held.sum()))]
        if held.sum() > k:
            parents = public.kmeans(places[held], votes[held], k, rng=rng)
        places = offspring(parents, mutants, radius, rng=rng)
    if not projected:
        return Evolved(parents)
    sums, counts = yield Release(
        PROJECTED_SUMS_AND_COUNTS, [noise, noise], basis=basis, centers=parents
    )
    return Evolved(shortened(sums / np.maximum(counts, 1.0)[:, None], radius))


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
    many = repeat(parents, mutants, axis=0)
    return np.vstack([parents, shortened(many + STEP * radius * levy(many.shape, rng=rng), radius)])


def levy(shape: tuple[int, ...], *, rng: np.random.Generator) -> FloatArray:
    """Draws with a heavy tail of index `LEVY`: a normal over a power of another."""
    up = math.gamma(1 + LEVY) * math.sin(math.pi * LEVY / 2)
    scale = (up / (math.gamma((1 + LEVY) / 2) * LEVY * 2 ** ((LEVY - 1) / 2))) ** (1 / LEVY)
    u, v = scale * rng.standard_normal(shape), rng.standard_normal(shape)
    return np.asarray(u / np.maximum(np.abs(v), 1e-12) ** (1 / LEVY))


def _checked(facts: FederationFacts, options: Options) -> Options:
    """Rows in a ball, one of them hidden under add/remove."""
    of_points(facts, options)
    if facts.domain != "ball":
        raise ValueError("federation must keep its rows in a ball: domain='ball', got 'box'")
    return options


def _least(cost: Any, public: Public, epsilon: float, delta: float, **_: Any) -> Level:
    """The least noise for the generations of epsilon."""
    sigma = least_noise(lambda sigma: cost(Level(sigma, epsilon)), public, epsilon, delta)
    return Level(sigma, epsilon)


PE_MEANS = Algorithm(
    name="PE-means", steps=pe_means, search=_least, check=_checked, default_delta=default_delta
)
plan_pe = PE_MEANS.planner("plan_pe")
