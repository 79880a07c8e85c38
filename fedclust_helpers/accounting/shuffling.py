"""Amplification by shuffling: what n randomised reports cost when nobody knows whose is whose.

Every user sends one report through the same local randomiser, pure epsilon_0 for any two values of
one user; a shuffler passes all of them on in random order, without senders. Whoever sees the
shuffled set learns less than from a report with a name on it: (epsilon, delta), replace-one, with
epsilon far below epsilon_0. The local guarantee stays, against the shuffler and everybody else.

Theorem ("clones", Feldman, McMillan, Talwar, "Hiding among the clones", 2021, Theorem 3.2). Write
p = e^epsilon_0, and let P0, P1 be the laws of user 1's report with one value or another, Pi that of
another user. With Q0 = (p P0 - P1)/(p - 1) and Q1 = (p P1 - P0)/(p - 1),

    P0 = (p Q0 + Q1)/(p + 1),    P1 = (Q0 + p Q1)/(p + 1),    Pi = (Q0 + Q1)/(2 p) + a rest of i,

as P0 <= p Pi, P1 <= p Pi and Q0 + Q1 = P0 + P1. Tell the observer all about the rests: what remains
is how many reports came from Q0 and from Q1. So the shuffled set is a post-processing of two
counts: another user adds one to each with probability 1/(2 p), user 1 with p/(p + 1) and 1/(p + 1),
or the reverse. Here the hockey stick of these counts is computed, not bounded.

A report may say more than the randomised value: which question it answers, say, drawn without
looking at the data. Together they are one randomiser with the same epsilon_0.

The same authors' "stronger clones" (2023) give more of them. Their erratum says that the proof of
Lemma 3.5 fails where clones are rarer than 1/(p + 1), and holds for a class of randomisers only.
That of k-ary response, each count with probability 1/(p + k - 1), fails by enumeration already for
three users and k = 3 (a test shows it): none of it is used here. For binary response to one common
question see `binary_delta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import dp_accounting as dpa
import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Count, Delta, Epsilon, NonNegative, check_instance
from fedclust_helpers.accounting.releases import Accountable

MAX_LOCAL = 30.0  # beyond, no crowd that fits a computer hides a user: nothing is claimed
MOST_USERS = 10**9  # of them; others only mix more, as anybody could add their reports
MAX_BINARY = 2000  # users up to which all data sets of the others are tried
WIDTH = 9.0  # standard deviations of the number of clones that are summed; the rest is added
ROUNDING = 1e-12  # relative, of the sums that are subtracted from each other
PRECISION = 1e-10  # relative, of an epsilon that is searched


@checked
def binary_delta(
    n_users: Count, local_epsilon: Epsilon, epsilon: NonNegative, *, ones: int | None = None
) -> float:
    """Exact delta at `epsilon` of n shuffled binary randomised responses, any two values of a user.

    The server sees how many say 1: a sum of two binomials and the bit of one user. With `ones`, for
    others of whom so many hold a 1; by default the worst of all such numbers, up to 2000 users.
    (Reports that say nothing but their bit: all users answer one and the same question.) To about
    n 1e-16, the rounding of a fast Fourier transform.
    """
    n = n_users - 1
    if ones is None and n_users > MAX_BINARY:
        raise ValueError(f"ones must be given beyond n_users={MAX_BINARY}; or take shuffled_delta")
    if ones is not None and not 0 <= ones <= n:
        raise ValueError(f"ones must be from 0 to n_users - 1, got {ones}")
    alone = _alone(local_epsilon, epsilon)
    if epsilon >= local_epsilon or local_epsilon > MAX_LOCAL:
        return alone
    keep = 1 / (1 + math.exp(-local_epsilon))
    size = next_fast_len(n_users + 1, real=True)
    wave = {p: rfft([1 - p, p], size) for p in (keep, 1 - keep)}
    gap = wave[keep] - math.exp(epsilon) * wave[1 - keep]  # user 1 holds a 1, against a 0
    worst = 0.0
    for m in range(n_users) if ones is None else (ones, n - ones):
        excess = irfft(wave[keep] ** m * wave[1 - keep] ** (n - m) * gap, size)[: n_users + 1]
        worst = max(worst, float(excess[excess > 0].sum()))
    return min(worst, alone)


def _alone(local_epsilon: float, epsilon: float) -> float:
    """Delta of a report with its sender: at most (p - e^epsilon)/(p + 1), as for two values."""
    if epsilon >= local_epsilon:
        return 0.0
    return -math.expm1(epsilon - local_epsilon) / (1 + math.exp(-local_epsilon))


@checked
def shuffled_delta(n_users: Count, local_epsilon: Epsilon, epsilon: NonNegative) -> float:
    """Delta at `epsilon` of n shuffled reports, each pure `local_epsilon`: an upper bound.

    For any two values of one user and all reports of the others. The pair of the theorem, computed:
    with c the sum of the counts n0 and n1, the two laws are (p n0 + n1) and (n0 + p n1) times the
    same weight, c is binomial, and n0 given c too: the hockey stick is a sum over c of its tails.
    """
    alone = _alone(local_epsilon, epsilon)
    if epsilon >= local_epsilon or not 1e-6 < local_epsilon <= MAX_LOCAL or n_users == 1:
        return alone
    n, p, e = min(n_users, MOST_USERS), math.exp(local_epsilon), math.exp(epsilon)
    middle, spread = n / p, math.sqrt(n / p)
    low = max(1, math.floor(middle - WIDTH * spread - 40))
    high = min(n, math.ceil(middle + WIDTH * spread + 40))
    c = np.arange(low, high + 1, dtype=np.float64)
    slope, bar = (p - 1) * (1 + e), (e * p - 1) * c
    least = np.floor(bar / slope) + 1  # the n0 from which the first law is above e times the second
    above = slope * c / 2 * binom.sf(least - 2, c - 1, 0.5)
    below = bar * binom.sf(least - 1, c, 0.5)
    weight = binom.pmf(c, n, 1 / p) * (2 * p / (n * (p + 1)))
    total = float(weight @ np.maximum(above - below, 0.0) + ROUNDING * (weight @ above))
    # what the sum leaves out; user 1 adds one to c
    total += float(binom.cdf(low - 2, n - 1, 1 / p) + binom.sf(high - 1, n - 1, 1 / p))
    return min(total, alone)


@checked
@lru_cache(maxsize=1024)
def shuffled_epsilon(n_users: Count, local_epsilon: Epsilon, delta: Delta) -> float:
    """Epsilon at `delta` of n shuffled reports: see `shuffled_delta`; never above the local one."""
    if shuffled_delta(n_users, local_epsilon, 0.0) <= delta:
        return 0.0
    return _edge(lambda e: shuffled_delta(n_users, local_epsilon, e) > delta, 0.0, local_epsilon)[1]


@checked
def local_epsilon_for(n_users: Count, epsilon: Epsilon, delta: Delta) -> float:
    """The largest epsilon of a report of which n, shuffled, cost at most (epsilon, delta)."""
    goal = epsilon * (1 - 10 * PRECISION)  # `shuffled_epsilon` rounds up
    most = max(epsilon, MAX_LOCAL)
    return _edge(lambda e: shuffled_delta(n_users, e, goal) <= delta, epsilon, most)[0]


def _edge(below: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The bracket, to a relative PRECISION, of the number up to which `below` holds."""
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


@checked
@dataclass(frozen=True)
class Shuffled:
    """The shuffled set of n reports, as a mechanism of the ledger: it carries both guarantees.

    `reports` are the randomisers of one user's message, pure and for replace-one; `n_users` is how
    many users draw such a message honestly. `pure_epsilon` is the local guarantee: what a message
    with its sender's name on it costs, which the shuffler sees. ``epsilon(delta)`` is the central
    one: what the set costs whoever does not learn the senders.

    Shuffled sets compose as any two (epsilon, delta) mechanisms with randomness of their own: the
    totals of a ledger add up their epsilons, each at an equal share of delta.
    """

    reports: tuple[Any, ...]
    n_users: Count

    adjacency: ClassVar[str] = "replace-one"
    gdp_mu: ClassVar[float | None] = None
    rho: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        for report in self.reports:
            check_instance(report, Accountable, "reports", what="mechanisms")  # type: ignore[type-abstract]
            if report.adjacency != self.adjacency:
                raise ValueError(f"reports must be for replace-one, got {report.adjacency}")
        if not self.reports or not math.isfinite(self.pure_epsilon):
            raise ValueError("reports must be pure: no theorem here amplifies another report")

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of one user's message: the local guarantee."""
        return math.fsum(report.pure_epsilon for report in self.reports)

    def epsilon(self, delta: Delta) -> float:
        """Epsilon of the shuffled set at `delta`: the central guarantee."""
        return shuffled_epsilon(self.n_users, self.pure_epsilon, delta)

    def delta(self, epsilon: NonNegative) -> float:
        """Delta of the shuffled set at `epsilon`."""
        return shuffled_delta(self.n_users, self.pure_epsilon, epsilon)

    def dp_event(self) -> dpa.DpEvent:
        """One message without the shuffler: what accountants that know no shuffle must charge."""
        return dpa.dp_event.DiscreteLaplaceDpEvent(self.pure_epsilon, 1)
