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
three users and k = 3 (a test shows it): none of it is used here.

Of k-ary randomised response more is known than that it is pure: its `blanket` costs about half of
what the clones cost. `Shuffled` takes the smaller of both bounds where both hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from fedclust_helpers._lazy import stats
from fedclust_helpers._validation import check_delta, check_int, check_level
from fedclust_helpers.accounting.blanket import (
    MAX_LOCAL,
    MOST_USERS,
    blanket_delta,
    pure_delta,
)
from fedclust_helpers.accounting.conversions import to_calibrate
from fedclust_helpers.accounting.entries import Accountable, Pure
from fedclust_helpers.accounting.search import safe_root

WIDTH = 9.0  # standard deviations of the number of clones that are summed; the rest is added
ROUNDING = 1e-12  # relative, of the sums that are subtracted from each other
PRECISION = 1e-10  # relative, of an epsilon that is searched
ROOM = (
    1e-6  # relative, left of an epsilon for the grids of the blanket, which differ from each other
)
STEP = 0.25  # of the local epsilons that are tried


def shuffled_delta(n_users: int, local_epsilon: float, epsilon: float) -> float:
    """Delta at `epsilon` of n shuffled reports, each pure `local_epsilon`: an upper bound.

    For any two values of one user and all reports of the others. The pair of the theorem, computed:
    with c the sum of the counts n0 and n1, the two laws are (p n0 + n1) and (n0 + p n1) times the
    same weight, c is binomial, and n0 given c too: the hockey stick is a sum over c of its tails.
    """
    n_users = check_int(n_users, "n_users")
    local_epsilon = check_level(local_epsilon, "local_epsilon")
    epsilon = check_level(epsilon, "epsilon")
    alone = pure_delta(local_epsilon, epsilon)
    if epsilon >= local_epsilon or not 1e-6 < local_epsilon <= MAX_LOCAL or n_users <= 1:
        return alone
    n, p, e = min(n_users, MOST_USERS), math.exp(local_epsilon), math.exp(epsilon)
    middle, spread = n / p, math.sqrt(n / p)
    low = max(1, math.floor(middle - WIDTH * spread - 40))
    high = min(n, math.ceil(middle + WIDTH * spread + 40))
    c = np.arange(low, high + 1, dtype=np.float64)
    slope, bar = (p - 1) * (1 + e), (e * p - 1) * c
    least = np.floor(bar / slope) + 1  # the n0 from which the first law is above e times the second
    above = slope * c / 2 * stats.binom.sf(least - 2, c - 1, 0.5)
    below = bar * stats.binom.sf(least - 1, c, 0.5)
    weight = stats.binom.pmf(c, n, 1 / p) * (2 * p / (n * (p + 1)))
    total = float(weight @ np.maximum(above - below, 0.0) + ROUNDING * (weight @ above))
    # what the sum leaves out; user 1 adds one to c
    total += float(stats.binom.cdf(low - 2, n - 1, 1 / p) + stats.binom.sf(high - 1, n - 1, 1 / p))
    return min(total, alone)


@lru_cache(maxsize=1024)
def shuffled_epsilon(n_users: int, local_epsilon: float, delta: float) -> float:
    """Epsilon at `delta` of n shuffled reports: see `shuffled_delta`; never above the local one."""
    local_epsilon = check_level(local_epsilon, "local_epsilon")
    delta = check_delta(delta, allow_zero=True)
    if delta == 0 or local_epsilon == math.inf:
        return local_epsilon
    return _least(lambda e: shuffled_delta(n_users, local_epsilon, e), delta, local_epsilon)


def _least(delta_at: Callable[[float], float], delta: float, most: float) -> float:
    """An epsilon up to `most` at which delta is reached, the least but for PRECISION."""
    if delta_at(0.0) <= delta:
        return 0.0

    def over(epsilon: float) -> float:
        return math.log(max(delta_at(epsilon), 1e-300) / delta)

    if over(most) >= 0:
        return most
    return safe_root(over, most, 0.0, xtol=PRECISION * most / 4, rtol=PRECISION / 4)


def local_epsilon_for(
    n_users: int,
    epsilon: float,
    delta: float,
    reports: Callable[[float], Sequence[Accountable]] | None = None,
) -> float:
    """The largest local epsilon of a message of which n, shuffled, cost at most (epsilon, delta).

    For any pure message, by the clones. `reports` gives the randomisers of a message with a given
    local epsilon, for questions that are drawn on the device (see `Shuffled`): then it is the end
    of the first stretch, from there upwards, of local epsilons that cost no more. (They may jump
    with the number of symbols; what is returned was itself checked.)
    """
    n_users, (epsilon, delta) = check_int(n_users, "n_users"), to_calibrate(epsilon, delta)
    goal = epsilon * (1 - 10 * PRECISION)  # `shuffled_epsilon` rounds up
    most = max(epsilon, MAX_LOCAL)
    low = safe_root(
        lambda e: shuffled_delta(n_users, e, goal) - delta, epsilon, most, rtol=PRECISION,
        smooth=False,
    )  # fmt: skip
    if reports is None:
        return low

    def crowd(local: float) -> Shuffled:
        return Shuffled(tuple(reports(local)), n_users, drawn=True)

    def excess(local: float) -> float:
        answers = crowd(local)._answers
        at = epsilon * (1 - ROOM)
        return math.inf if answers is None else _blanket(n_users, at, *answers) - delta

    least = low
    while low + STEP < most and excess(low + STEP) <= 0:
        low += STEP
    low = safe_root(excess, low, min(low + STEP, most), rtol=ROOM, smooth=False)
    while low > least and crowd(low).epsilon(delta) > epsilon:
        low = max(least, low * (1 - ROOM))
    return low


@dataclass(frozen=True)
class Shuffled(Pure):
    """The shuffled set of n reports, as a mechanism of the ledger: it carries both guarantees.

    `reports` are the randomisers of one user's message, pure and for replace-one; `n_users` is how
    many users draw such a message honestly. `pure_epsilon` is the local guarantee: what a message
    with its sender's name on it costs, which the shuffler sees. ``epsilon(delta)`` is the central
    one: what the set costs whoever does not learn the senders. ``dp_event()`` is a message without
    the shuffler: what accountants that know no shuffle must charge.

    Shuffled sets compose as any two (epsilon, delta) mechanisms with randomness of their own: the
    totals of a ledger add up their epsilons, each at an equal share of delta.

    >>> from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
    >>> crowd = Shuffled((RandomizedResponse(1.0),), n_users=10_000)
    >>> crowd.pure_epsilon, round(crowd.epsilon(1e-6), 3)
    (1.0, 0.053)
    """

    reports: tuple[Any, ...]
    n_users: int
    drawn: bool = False

    adjacency: ClassVar[str] = "replace-one"

    def __post_init__(self) -> None:
        if any(report.adjacency != self.adjacency for report in self.reports):
            raise ValueError("reports must be for replace-one")
        if not self.reports or not math.isfinite(self.pure_epsilon):
            raise ValueError("reports must be pure: no theorem here amplifies another report")

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of one user's message: the local guarantee."""
        return math.fsum(report.pure_epsilon for report in self.reports)

    def hidden_by(self, n_honest: int) -> Shuffled:
        """The set of so many honest users."""
        return replace(self, n_users=n_honest)

    def epsilon(self, delta: float) -> float:
        """Epsilon of the shuffled set at `delta`: the central guarantee."""
        most = shuffled_epsilon(self.n_users, self.pure_epsilon, delta)
        answers = self._answers
        return most if answers is None else _closer(most, self.n_users, delta, *answers)

    def delta(self, epsilon: float) -> float:
        """Delta of the shuffled set at `epsilon`."""
        clones = shuffled_delta(self.n_users, self.pure_epsilon, epsilon)
        answers = self._answers
        return clones if answers is None else min(clones, _blanket(self.n_users, epsilon, *answers))

    @property
    def _answers(self) -> tuple[float, int, int] | None:
        """Local epsilon, symbols and number of the answers in a message, if they have a blanket."""
        symbols = getattr(self.reports[0], "response_symbols", None)
        if not self.drawn or symbols is None or any(r != self.reports[0] for r in self.reports):
            return None
        return self.pure_epsilon, symbols, len(self.reports)


def _blanket(n: int, epsilon: float, local: float, symbols: int, answers: int) -> float:
    return blanket_delta(n, local, epsilon, (symbols,), answers=answers)


@lru_cache(maxsize=1024)
def _closer(most: float, n: int, delta: float, *answers: Any) -> float:
    """The epsilon of the blanket, if it is below `most`."""
    return _least(lambda e: _blanket(n, e, *answers), delta, most)
