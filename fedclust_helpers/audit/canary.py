"""C. What can an attacker tell apart, with and without one worst-case record?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedclust_helpers._validation import (
    FloatArray,
    check_delta,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.audit._queries import (
    Release,
    as_queries,
    claimed_stds,
    draw_runs,
    float_array,
)

N_THRESHOLDS = 400  # candidate thresholds of a canary audit
RUNS_PER_BATCH = 10_000  # runs drawn at once by `canary_scores`, which bounds its memory
_PICK_TAIL = 1e-4  # strictness of the bounds that rank thresholds; see `audit_canary`


@dataclass(frozen=True)
class CanaryAudit:
    """Result of `audit_canary`.

    Attributes
    ----------
    epsilon_lower_bound : float
        At the stated confidence, no (epsilon, delta)-DP release with a smaller epsilon gives these
        scores; at least 0. The adjacency and the unit are those of the two data sets.
    mu_lower_bound : float
        The same for a mu-GDP release; at least 0.
    delta : float
        The delta at which the epsilon bound holds.
    confidence : float
        Each of the two bounds, taken alone, is below the truth with at least this probability.
    claimed_epsilon, claimed_mu : float or None
        The claims under test.
    n_without, n_with : int
        Number of runs on each data set. Half of them pick the threshold.
    """

    epsilon_lower_bound: float
    mu_lower_bound: float
    delta: float
    confidence: float
    claimed_epsilon: float | None
    claimed_mu: float | None
    n_without: int
    n_with: int

    @property
    def epsilon_alarm(self) -> bool:
        """True if an epsilon was claimed and the lower bound exceeds it."""
        return self.claimed_epsilon is not None and self.epsilon_lower_bound > self.claimed_epsilon

    @property
    def mu_alarm(self) -> bool:
        """True if a mu was claimed and the lower bound exceeds it."""
        return self.claimed_mu is not None and self.mu_lower_bound > self.claimed_mu

    @property
    def passed(self) -> bool:
        """True if at least one claim was tested and none was refuted. A pass is no proof."""
        tested = self.claimed_epsilon is not None or self.claimed_mu is not None
        return tested and not (self.epsilon_alarm or self.mu_alarm)

    def __str__(self) -> str:
        def line(name: str, bound: float, claim: float | None, alarm: bool) -> str:
            said = "no claim" if claim is None else f"claimed {claim:.4g}"
            return f"  {name} >= {bound:.4g} ({said})" + (": ALARM" if alarm else "")

        untested = self.claimed_epsilon is None and self.claimed_mu is None
        verdict = "no claim tested" if untested else "passed" if self.passed else "FAILED"
        head = (
            f"canary audit ({self.n_without} + {self.n_with} runs, confidence "
            f"{self.confidence:g}): {verdict}"
        )
        epsilon = line(
            "epsilon", self.epsilon_lower_bound, self.claimed_epsilon, self.epsilon_alarm
        )
        mu = line("mu", self.mu_lower_bound, self.claimed_mu, self.mu_alarm)
        return "\n".join([head, f"{epsilon}, delta = {self.delta:g}", mu])


def clopper_pearson(
    successes: ArrayLike, trials: int, *, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Return exact binomial bounds (lower, upper), each of which misses with probability <= `tail`.

    Parameters
    ----------
    successes : array_like of int
        Number of successes, between 0 and `trials`.
    trials : int
        Number of trials, at least 1.
    tail : float
        Error probability of each bound, in (0, 1).

    Returns
    -------
    lower, upper : ndarray of the shape of `successes`

    Raises
    ------
    ValueError
        If a number of successes or `tail` is out of range.

    Notes
    -----
    Clopper and Pearson (1934): the bounds are quantiles of beta distributions.
    """
    trials = check_int(trials, "trials")
    tail = check_delta(tail, "tail")
    hits = float_array(successes, "successes")
    if ((hits < 0) | (hits > trials) | (hits != np.floor(hits))).any():
        raise ValueError(f"successes must be whole numbers between 0 and {trials}")
    inner_low, inner_high = np.maximum(hits, 1), np.minimum(hits, trials - 1)
    lower = special.betaincinv(inner_low, trials - inner_low + 1, tail)
    upper = special.betaincinv(inner_high + 1, trials - inner_high, 1 - tail)
    return np.where(hits > 0, lower, 0.0), np.where(hits < trials, upper, 1.0)


def _bounds_at(
    without: FloatArray, with_: FloatArray, thresholds: FloatArray, *, tail: float, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Lower bounds on epsilon and mu from the event {score > threshold}.

    Both returned arrays have shape (2, n_thresholds): row 0 takes the event as a sign of the
    record's presence, row 1 as a sign of its absence. Each entry relies on one Clopper-Pearson
    bound per data set; the complement of the event uses the same two bounds, so that the better of
    the two epsilon bounds costs nothing.
    """
    rates = []
    for scores in (without, with_):
        hits = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")
        rates.append(clopper_pearson(hits, len(scores), tail=tail))
    (low_without, high_without), (low_with, high_with) = rates
    less, more = np.stack([high_without, high_with]), np.stack([low_with, low_without])
    with np.errstate(divide="ignore", invalid="ignore"):
        on_event = np.log(np.maximum(more - delta, 0.0) / less)
        on_complement = np.log(np.maximum(1 - less - delta, 0.0) / (1 - more))
    epsilon = np.fmax(on_event, on_complement)
    mu = special.ndtri(more) - special.ndtri(less)
    return epsilon, mu


def _check_claims(
    confidence: float, delta: float, claimed_mu: float | None, claimed_epsilon: float | None
) -> None:
    check_delta(confidence, "confidence")
    check_delta(delta, "delta", allow_zero=True)
    for claim, name in ((claimed_mu, "claimed_mu"), (claimed_epsilon, "claimed_epsilon")):
        if claim is not None:
            check_positive(claim, name)


def audit_canary(
    scores_without: ArrayLike,
    scores_with: ArrayLike,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    claimed_mu: float | None = None,
    claimed_epsilon: float | None = None,
) -> CanaryAudit:
    """Bound the privacy loss from below with the scores of an attack on two neighbouring data sets.

    The first half of each sample picks the threshold (over quantiles of the pooled scores, in both
    directions, for epsilon and mu separately); the second half is counted once at that threshold.
    With TPR the rate of scores above it on the data set with the canary, FPR the rate without, and
    Clopper-Pearson bounds of (1 - confidence)/2 on each side::

        epsilon >= log((TPR_low - delta) / FPR_high)        for any (epsilon, delta)-DP release
        mu >= ppf(1 - FPR_high) - ppf(1 - TPR_low)           for a mu-GDP release

    and the same with the roles of the data sets or the event and its complement exchanged. Any rule
    may pick the threshold. Ours ranks by the same bounds with 1e-4 on each side, because the best
    of many candidates at the final confidence is too often a lucky one far out in a tail.

    Parameters
    ----------
    scores_without, scores_with : array_like of shape (n_runs,)
        Attack scores of independent runs on the two data sets (the sizes may differ), at least two
        each. Any score is valid; a better one gives a sharper bound. See `canary_scores`.
    confidence : float
        Confidence of each bound, in (0, 1).
    delta : float
        The delta of the claim, in [0, 1); 0 for pure DP.
    claimed_mu, claimed_epsilon : float, optional
        The claims to test, > 0. They refer to the adjacency and the unit in which the data sets
        are neighbours.

    Returns
    -------
    CanaryAudit

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a sample is too short or not finite, or if a number is out of range.

    Notes
    -----
    One-sided: an alarm refutes the claim, a pass proves nothing. For a correct release each claim
    raises a false alarm with probability at most 1 - confidence (at most twice that when both are
    tested). The usual rate is far lower, because both binomial bounds must fail together: for a
    Gaussian release at its exact mu about 0.3 % at 95 % confidence.

    The epsilon bound is the one of Jagielski et al. (2020) and the mu bound that of Nasr et al.
    (2023). The latter reads the whole trade-off curve off one point and is much sharper, but it
    only says something about a claim that is made in GDP.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> without, with_ = rng.standard_normal(4000), 1.0 + rng.standard_normal(4000)
    >>> audit_canary(without, with_, claimed_mu=1.0).passed
    True
    >>> audit_canary(without, with_, claimed_mu=0.5).mu_alarm
    True
    """
    samples = []
    for scores, name in ((scores_without, "scores_without"), (scores_with, "scores_with")):
        array = float_array(scores, name)
        if array.ndim != 1 or len(array) < 2:
            raise ValueError(f"{name} must have shape (n_runs,) with n_runs >= 2")
        samples.append(array)
    _check_claims(confidence, delta, claimed_mu, claimed_epsilon)

    tail = (1 - confidence) / 2
    without, with_ = samples
    picked = (without[: len(without) // 2], with_[: len(with_) // 2])
    counted = (without[len(without) // 2 :], with_[len(with_) // 2 :])
    thresholds = _thresholds(np.concatenate(picked))
    scanned = _bounds_at(*picked, thresholds, tail=min(tail, _PICK_TAIL), delta=delta)
    found = []
    for measure in range(2):  # 0: epsilon, 1: mu
        # without a finite bound anywhere (tiny samples) any fixed choice is valid
        scan = np.nan_to_num(scanned[measure], nan=-np.inf)
        direction, best = np.unravel_index(int(np.argmax(scan)), scan.shape)
        bound = _bounds_at(*counted, thresholds[[best]], tail=tail, delta=delta)
        found.append(float(np.fmax(bound[measure][direction, 0], 0.0)))
    return CanaryAudit(
        epsilon_lower_bound=found[0],
        mu_lower_bound=found[1],
        delta=delta,
        confidence=confidence,
        claimed_epsilon=claimed_epsilon,
        claimed_mu=claimed_mu,
        n_without=len(without),
        n_with=len(with_),
    )


def _thresholds(scores: FloatArray) -> FloatArray:
    """Quantiles at levels evenly spaced in log odds, so dense in both tails."""
    ordered = np.sort(scores)
    edge = math.log(len(ordered))
    levels = special.expit(np.linspace(-edge, edge, N_THRESHOLDS))
    return np.unique(ordered[np.minimum((levels * len(ordered)).astype(int), len(ordered) - 1)])


def _direction(
    exact_without: Any, exact_with: Any, claimed_std: Any, query: int | None
) -> tuple[tuple[FloatArray, ...], list[FloatArray], float]:
    """Centre, weights per query (zero for queries left out) and length mu of a canary's change."""
    centre, moved = as_queries(exact_without, "exact_without"), as_queries(exact_with, "exact_with")
    if [a.shape for a in centre] != [b.shape for b in moved]:
        raise ValueError("exact_with must have the same queries and shapes as exact_without")
    stds = claimed_stds(claimed_std, centre)
    if query is not None:
        query = check_int(query, "query", minimum=0, maximum=len(centre) - 1)
    shifts = [
        ((b - a) / std).ravel() * (query is None or query == index)
        for index, (a, b, std) in enumerate(zip(centre, moved, stds, strict=True))
    ]
    length = math.sqrt(sum(float(shift @ shift) for shift in shifts))
    if length == 0:
        raise ValueError("exact_with must differ from exact_without in the audited queries")
    weights = [shift / std.ravel() / length for shift, std in zip(shifts, stds, strict=True)]
    return centre, weights, length


def canary_mu(
    exact_without: Any, exact_with: Any, claimed_std: Any, *, query: int | None = None
) -> float:
    """Return the GDP mu that one canary would show if the Gaussian noise is as claimed.

    It is the Euclidean length of (exact_with - exact_without) / claimed_std over the audited
    queries: the best that `audit_canary` can find with this canary on a correct release. A canary
    is strong if this comes close to the claimed mu of the release.

    Parameters
    ----------
    exact_without, exact_with : array_like or tuple of array_like
        Exact queries on the two neighbouring data sets.
    claimed_std : float, array_like or tuple
        Claimed standard deviation, one entry per query.
    query : int, optional
        Audit only this query of a tuple.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If shapes do not fit or the canary changes nothing.

    Examples
    --------
    >>> canary_mu((0.0, 10.0), (3.0, 11.0), (3.0, 1.0))
    1.4142135623730951
    """
    return _direction(exact_without, exact_with, claimed_std, query)[2]


def canary_scores(
    release: Release,
    exact_without: Any,
    exact_with: Any,
    claimed_std: Any,
    *,
    n_runs: int,
    query: int | None = None,
    vectorized: bool = True,
    rng: np.random.Generator,
) -> FloatArray:
    """Score releases by how far they lie in the direction in which the canary moves the queries.

    The score is the inner product of (release - exact_without) and (exact_with - exact_without)
    with each coordinate weighted by 1 / claimed_std^2, divided by the length `canary_mu`. For
    independent Gaussian noise this is the optimal attack: the scores are N(0, 1) without the canary
    and N(canary_mu, 1) with it, if the claims are right.

    Parameters
    ----------
    release : callable
        The release on **one** of the two data sets: ``release(rng, n_runs)`` returning an array of
        shape (n_runs, ...) or a tuple of them, or ``release(rng)`` with ``vectorized=False``. It is
        called for at most `RUNS_PER_BATCH` runs at a time.
    exact_without, exact_with : array_like or tuple of array_like
        Exact queries on the two neighbouring data sets.
    claimed_std : float, array_like or tuple
        Claimed standard deviation, > 0, one entry per query.
    n_runs : int
        Number of runs, at least 1.
    query : int, optional
        Score only this query of a tuple. A query with a small share of the budget is nearly
        invisible in the joint score, so audit each one separately too.
    vectorized : bool
        How `release` is called.
    rng : numpy.random.Generator
        Given to `release`.

    Returns
    -------
    ndarray of shape (n_runs,)

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If shapes do not fit, if a number is out of range, or if the canary changes nothing.
    """
    n_runs = check_int(n_runs, "n_runs")
    check_rng(rng)
    centre, weights, _ = _direction(exact_without, exact_with, claimed_std, query)
    shapes = [value.shape for value in centre]
    scores = np.zeros(n_runs)
    for start in range(0, n_runs, RUNS_PER_BATCH):
        batch = min(RUNS_PER_BATCH, n_runs - start)
        drawn = draw_runs(release, shapes, n_runs=batch, vectorized=vectorized, rng=rng)
        for runs, value, weight in zip(drawn, centre, weights, strict=True):
            scores[start : start + batch] += (runs - value.ravel()) @ weight
    return scores


def audit_release(
    release_without: Release,
    release_with: Release,
    exact_without: Any,
    exact_with: Any,
    claimed_std: Any,
    *,
    n_runs: int = 4000,
    query: int | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    claimed_mu: float | None = None,
    claimed_epsilon: float | None = None,
    vectorized: bool = True,
    rng: np.random.Generator,
) -> CanaryAudit:
    """Audit a release end to end: run it on both data sets, score, and bound the privacy loss.

    `canary_scores` on both data sets, from two independent streams spawned from `rng`, followed by
    `audit_canary`; see these for the arguments. When only one query is audited, the claim is that
    query's own (its sensitivity over its standard deviation), which is smaller than the claim of
    the whole release.

    Returns
    -------
    CanaryAudit

    Raises
    ------
    TypeError, ValueError
        As `canary_scores` and `audit_canary`; all parameters are checked before the release is run.

    Notes
    -----
    Recipe: epsilon = 4 or mu = 1, 4000 runs per data set, alarm on mu. For a Gaussian sum at that
    setting a halved noise is found practically always and the bound reaches about 0.86 of the true
    mu. A pass proves nothing; the false-alarm probability is at most 1 - confidence per claim.
    """
    check_rng(rng)
    check_int(n_runs, "n_runs", minimum=2)
    _check_claims(confidence, delta, claimed_mu, claimed_epsilon)
    first, second = rng.spawn(2)
    scores = [
        canary_scores(
            release,
            exact_without,
            exact_with,
            claimed_std,
            n_runs=n_runs,
            query=query,
            vectorized=vectorized,
            rng=stream,
        )
        for release, stream in ((release_without, first), (release_with, second))
    ]
    return audit_canary(
        scores[0],
        scores[1],
        confidence=confidence,
        delta=delta,
        claimed_mu=claimed_mu,
        claimed_epsilon=claimed_epsilon,
    )
