"""C. What can an attacker tell apart, with and without one worst-case record?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_delta,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.audit._noise_tests import POWER, exact_runs, peak_density, steps_of
from fedclust_helpers.audit._queries import (
    MAX_RUNS,
    Release,
    as_queries,
    claimed_stds,
    draw_runs,
    float_array,
)

N_THRESHOLDS = 400  # candidate thresholds of a canary audit
RUNS_PER_BATCH = 10_000  # runs drawn at once by `canary_scores`, which bounds its memory
MAX_KEPT = 2e7  # numbers that `audit_release` keeps of all runs to find contrasts
EXACT_FALSE_ALARM = 1e-3  # of the search for exact releases in `audit_release`
_ATOM_LEVEL = 1e-4  # strictness with which a repeated score is called too frequent
_N_ATOMS = 20  # repeated scores that are tried as events
_N_CONTRASTS = 20  # coordinates in a contrast where there are too many for all of them
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
    incomplete : tuple of str
        What this audit could not see; empty if nothing.
    exact_share : tuple of float
        For `audit_release`: share of the runs, without and with the canary, in which everything
        that the canary moves had its exact value (up to a grid step). Empty otherwise.
    exact_alarm : bool
        True if exact, or repeated, values came too often for noise of the claimed scale.
    direction : {"matched", "contrast"}
        Which score the bounds are about: the best one for independent noise, or one that subtracts
        what other coordinates tell about the noise.
    """

    epsilon_lower_bound: float
    mu_lower_bound: float
    delta: float
    confidence: float
    claimed_epsilon: float | None
    claimed_mu: float | None
    n_without: int
    n_with: int
    incomplete: tuple[str, ...] = ()
    exact_share: tuple[float, ...] = ()
    exact_alarm: bool = False
    direction: Literal["matched", "contrast"] = "matched"

    @property
    def epsilon_alarm(self) -> bool:
        """True if an epsilon was claimed and the lower bound exceeds it."""
        return self.claimed_epsilon is not None and self.epsilon_lower_bound > self.claimed_epsilon

    @property
    def mu_alarm(self) -> bool:
        """True if a mu was claimed and the lower bound exceeds it."""
        return self.claimed_mu is not None and self.mu_lower_bound > self.claimed_mu

    @property
    def verdict(self) -> Literal["no claim tested", "FAILED", "incomplete", "passed"]:
        """FAILED if a claim was refuted, incomplete if none was but something was not tested."""
        if self.epsilon_alarm or self.mu_alarm or self.exact_alarm:
            return "FAILED"
        if self.claimed_epsilon is None and self.claimed_mu is None:
            return "no claim tested"
        return "incomplete" if self.incomplete else "passed"

    @property
    def passed(self) -> bool:
        """True if a claim was tested, completely, and none was refuted. A pass is no proof."""
        return self.verdict == "passed"

    def __str__(self) -> str:
        def line(name: str, bound: float, claim: float | None, alarm: bool) -> str:
            said = "no claim" if claim is None else f"claimed {claim:.4g}"
            return f"  {name} >= {bound:.4g} ({said})" + (": ALARM" if alarm else "")

        head = (
            f"canary audit ({self.n_without} + {self.n_with} runs, confidence "
            f"{self.confidence:g}, {self.direction}): {self.verdict}"
        )
        epsilon = line(
            "epsilon", self.epsilon_lower_bound, self.claimed_epsilon, self.epsilon_alarm
        )
        mu = line("mu", self.mu_lower_bound, self.claimed_mu, self.mu_alarm)
        lines = [head, f"{epsilon}, delta = {self.delta:g}", mu]
        if self.exact_alarm:
            shares = " and ".join(f"{share:.2%}" for share in self.exact_share)
            lines.append(f"  exact or repeated values, exact in {shares} of the runs: ALARM")
        return "\n".join([*lines, *(f"  incomplete: {reason}" for reason in self.incomplete)])


@checked
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
    # where scipy finds no quantile (a tail of 1e-200), 0 is a lower bound, too
    return np.where(hits > 0, np.nan_to_num(lower), 0.0), np.where(hits < trials, upper, 1.0)


class _Events:
    """Events that an attack may wait for: a score above a threshold, or equal to a value."""

    def __init__(self, scores: FloatArray) -> None:
        self.thresholds = _thresholds(scores)
        values, counts = np.unique(scores, return_counts=True)
        often = np.argsort(-counts, kind="stable")[:_N_ATOMS]
        self.atoms = np.sort(values[often[counts[often] > 2]])

    def __len__(self) -> int:
        return len(self.thresholds) + len(self.atoms)

    def hits(self, scores: FloatArray, event: int | None = None) -> FloatArray:
        """Number of scores in each event (or in one of them)."""
        ordered = np.sort(scores)
        above = len(scores) - np.searchsorted(ordered, self.thresholds, side="right")
        upper = np.searchsorted(ordered, self.atoms, side="right")
        equal = upper - np.searchsorted(ordered, self.atoms, side="left")
        hits = np.concatenate([above, equal]).astype(np.float64)
        return hits if event is None else hits[[event]]


def _bounds_at(
    hits: tuple[FloatArray, FloatArray], sizes: tuple[int, int], *, tail: float, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Lower bounds on epsilon and mu from the numbers of runs, without and with, in some events.

    Both returned arrays have shape (2, n_events): row 0 takes an event as a sign of the record's
    presence, row 1 as a sign of its absence. Each entry relies on one Clopper-Pearson bound per
    data set; the complement of the event uses the same two bounds, so that the better of the two
    epsilon bounds costs nothing.
    """
    rates = [clopper_pearson(h, n, tail=tail) for h, n in zip(hits, sizes, strict=True)]
    (low_without, high_without), (low_with, high_with) = rates
    less, more = np.stack([high_without, high_with]), np.stack([low_with, low_without])
    with np.errstate(divide="ignore", invalid="ignore"):
        on_event = np.log(np.maximum(more - delta, 0.0) / less)
        on_complement = np.log(np.maximum(1 - less - delta, 0.0) / (1 - more))
    epsilon = np.fmax(on_event, on_complement)
    mu = special.ndtri(more) - special.ndtri(less)
    return epsilon, mu


class _Pick:
    """The best event for each of the two measures on the runs that may pick."""

    def __init__(self, without: FloatArray, with_: FloatArray, *, tail: float, delta: float):
        self.events = _Events(np.concatenate([without, with_]))
        hits = self.events.hits(without), self.events.hits(with_)
        sizes = len(without), len(with_)
        scanned = _bounds_at(hits, sizes, tail=min(tail, _PICK_TAIL), delta=delta)
        self.best: list[tuple[int, int]] = []
        self.value: list[float] = []
        for scan in scanned:  # epsilon, mu
            # without a finite bound anywhere (tiny samples) any fixed choice is valid
            scan = np.nan_to_num(scan, nan=-np.inf)
            direction, event = np.unravel_index(int(np.argmax(scan)), scan.shape)
            self.best.append((int(direction), int(event)))
            self.value.append(float(scan[direction, event]))

    def bounds(
        self, without: FloatArray, with_: FloatArray, *, tail: float, delta: float
    ) -> tuple[float, float]:
        """The bounds on epsilon and mu from fresh runs; at least 0."""
        found = []
        for measure, (direction, event) in enumerate(self.best):
            hits = self.events.hits(without, event), self.events.hits(with_, event)
            bound = _bounds_at(hits, (len(without), len(with_)), tail=tail, delta=delta)
            found.append(float(np.fmax(bound[measure][direction, 0], 0.0)))
        return found[0], found[1]


def _too_frequent(scores: FloatArray) -> tuple[float, float]:
    """Share of the most frequent score if it is suspicious, else 0; smallest share to be seen.

    Among scores most of which are different, one and the same value should not come often: not
    more often than the pairs of equal scores elsewhere (at least three are supposed) explain. Where
    most scores have ties, the noise itself is on few values and rates are what counts.
    """
    n = len(scores)
    _, counts = np.unique(scores, return_counts=True)
    if 2 * len(counts) < n:
        return 0.0, 0.0
    most = int(counts.max())
    pairs = int((counts * (counts - 1) // 2).sum()) - most * (most - 1) // 2

    def needed(pairs: int) -> int:
        p = min(6 * (pairs + 3) / n**2, 1.0)
        return int(stats.binom.isf(_ATOM_LEVEL * p, n, p)) + 1

    enough = needed(0)
    smallest = float(special.betaincinv(enough, n - enough + 1, POWER)) if enough <= n else 1.0
    return (most / n if most >= needed(pairs) else 0.0), smallest


def _check_claims(
    confidence: float, delta: float, claimed_mu: float | None, claimed_epsilon: float | None
) -> None:
    check_delta(confidence, "confidence")
    check_delta(delta, "delta", allow_zero=True)
    for claim, name in ((claimed_mu, "claimed_mu"), (claimed_epsilon, "claimed_epsilon")):
        if claim is not None:
            check_positive(claim, name)


@checked
def audit_canary(
    scores_without: ArrayLike,
    scores_with: ArrayLike,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    claimed_mu: float | None = None,
    claimed_epsilon: float | None = None,
    smallest: float = 0.01,
) -> CanaryAudit:
    """Bound the privacy loss from below with the scores of an attack on two neighbouring data sets.

    The first half of each sample picks the threshold (over quantiles of the pooled scores, in both
    directions, for epsilon and mu separately); the second half is counted once at that threshold.
    With TPR the rate of scores above it on the data set with the canary, FPR the rate without, and
    Clopper-Pearson bounds of (1 - confidence)/2 on each side::

        epsilon >= log((TPR_low - delta) / FPR_high)        for any (epsilon, delta)-DP release
        mu >= ppf(1 - FPR_high) - ppf(1 - TPR_low)           for a mu-GDP release

    and the same with the roles of the data sets or the event and its complement exchanged. Values
    that repeat among the scores that pick are tried as events too: a release that is exact now and
    then gives itself away by them. Any rule may pick. Ours ranks by the same bounds with 1e-4 on
    each side, because the best of many candidates at the final confidence is too often a lucky one
    far out in a tail.

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
    smallest : float
        The smallest share of exact releases that has to be seen, in (0, 1); with too few runs for
        it (about 1000 for 1 %) the verdict is "incomplete".

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
    smallest = check_delta(smallest, "smallest")

    tail = (1 - confidence) / 2
    without, with_ = samples
    half = len(without) // 2, len(with_) // 2
    pick = _Pick(without[: half[0]], with_[: half[1]], tail=tail, delta=delta)
    found = pick.bounds(without[half[0] :], with_[half[1] :], tail=tail, delta=delta)
    incomplete = []
    for sample, name in ((without, "without"), (with_, "with")):
        share, visible = _too_frequent(sample)
        if share:
            incomplete.append(
                f"one score makes up {share:.2%} of the runs {name} the canary, as in a release"
                " that is exact now and then; audit the noise"
            )
        elif visible > smallest:
            incomplete.append(
                f"exact releases in fewer than {visible:.2g} of the {len(sample)} runs {name} the"
                " canary would not be seen"
            )
    return CanaryAudit(
        epsilon_lower_bound=found[0],
        mu_lower_bound=found[1],
        delta=delta,
        confidence=confidence,
        claimed_epsilon=claimed_epsilon,
        claimed_mu=claimed_mu,
        n_without=len(without),
        n_with=len(with_),
        incomplete=tuple(incomplete),
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


@checked
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


@checked
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
    n_runs = check_int(n_runs, "n_runs", maximum=MAX_RUNS)
    check_rng(rng)
    centre, weights, _ = _direction(exact_without, exact_with, claimed_std, query)
    return _score(
        release, centre, weights, n_runs=n_runs, vectorized=vectorized, keep=None, rng=rng
    )[0]


def _score(
    release: Release,
    centre: tuple[FloatArray, ...],
    weights: list[FloatArray],
    *,
    n_runs: int,
    vectorized: bool,
    keep: list[IntArray] | None,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Scores (n_runs,) and the kept coordinates' differences from `centre` (n_runs, n_kept)."""
    shapes = [value.shape for value in centre]
    scores = np.zeros(n_runs)
    kept = []
    for start in range(0, n_runs, RUNS_PER_BATCH):
        batch = min(RUNS_PER_BATCH, n_runs - start)
        drawn = draw_runs(release, shapes, n_runs=batch, vectorized=vectorized, rng=rng)
        differences = [runs - value.ravel() for runs, value in zip(drawn, centre, strict=True)]
        for difference, weight in zip(differences, weights, strict=True):
            scores[start : start + batch] += difference @ weight
        if keep is not None:
            kept.append(
                np.concatenate([d[:, c] for d, c in zip(differences, keep, strict=True)], axis=1)
            )
    return scores, np.concatenate(kept) if kept else np.zeros((n_runs, 0))


@checked
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
    smallest: float = 0.01,
    rng: np.random.Generator,
) -> CanaryAudit:
    """Audit a release end to end: run it on both data sets, score, and bound the privacy loss.

    From two independent streams spawned from `rng`, as `canary_scores` and `audit_canary`; see
    these for the arguments. When only one query is audited, the claim is that query's own (its
    sensitivity over its standard deviation), which is smaller than the claim of the whole release.

    Two more attacks. **Contrasts:** a score that subtracts what the other coordinates tell about
    the noise (the direction Sigma^-1 (exact_with - exact_without), Sigma estimated on the first
    quarter of the runs) is used instead if it separates the second quarter better. Differences of
    two coordinates or of two clusters that share noise are of this form. **Exact values:** runs in
    which the coordinates that the canary moves lie at their exact values, or at one and the same
    value, are counted and compared with what noise of the claimed scale allows.

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
    mu. A pass proves nothing; the false-alarm probability is at most 1 - confidence per claim, and
    `EXACT_FALSE_ALARM` for the exact values (for unimodal noise no more peaked than Laplace). 500
    runs show a release that is exact in 1 % of them; on a coarse grid more are needed, and the
    verdict is "incomplete" where `n_runs` is too few to see the share `smallest`.
    """
    check_rng(rng)
    check_int(n_runs, "n_runs", minimum=2, maximum=MAX_RUNS)
    _check_claims(confidence, delta, claimed_mu, claimed_epsilon)
    smallest = check_delta(smallest, "smallest")
    centre, weights, length = _direction(exact_without, exact_with, claimed_std, query)
    std = np.concatenate([s.ravel() for s in claimed_stds(claimed_std, centre)])
    moved = as_queries(exact_with, "exact_with")
    chosen = [query is None or query == index for index in range(len(centre))]
    fits = n_runs * sum(c.size for c, use in zip(centre, chosen, strict=True) if use) <= MAX_KEPT
    keep = [
        np.flatnonzero(weight if not fits else np.full(weight.shape, use))
        for weight, use in zip(weights, chosen, strict=True)
    ]
    first, second = rng.spawn(2)
    how = {"n_runs": n_runs, "vectorized": vectorized, "keep": keep}
    scores, kept = zip(
        *(
            _score(release, centre, weights, rng=stream, **how)  # type: ignore[arg-type]
            for release, stream in ((release_without, first), (release_with, second))
        ),
        strict=True,
    )
    starts = np.cumsum([0, *(c.size for c in centre)])[:-1]
    columns = np.concatenate([k + start for k, start in zip(keep, starts, strict=True)])
    flat = [np.concatenate([a.ravel() for a in part]) for part in (centre, moved)]
    std = std[columns]
    shift = (flat[1] - flat[0])[columns] / std
    residuals = [kept[0] / std, kept[1] / std]  # around exact_without, both

    tail = (1 - confidence) / 2
    result = audit_canary(
        scores[0],
        scores[1],
        confidence=confidence,
        delta=delta,
        claimed_mu=claimed_mu,
        claimed_epsilon=claimed_epsilon,
        smallest=smallest,
    )
    incomplete = []
    half, quarter = n_runs // 2, n_runs // 4
    if not fits:
        incomplete.append(f"contrasts were not tested: over {MAX_KEPT:g} numbers to keep")
    elif len(shift) > 1 and quarter < 10:
        incomplete.append("contrasts were not tested: too few runs")
    elif len(shift) > 1:
        contrast = _contrast(residuals[0][:quarter], residuals[1][:quarter] - shift, shift / length)
        pairs = [r @ contrast for r in residuals]
        tried = [
            _Pick(*(s[quarter:half] for s in pair), tail=tail, delta=delta)
            for pair in (scores, pairs)
        ]
        if tried[1].value[1] > 1.1 * max(tried[0].value[1], 0.0) + 0.1:
            found = tried[1].bounds(*(s[half:] for s in pairs), tail=tail, delta=delta)
            result = replace(
                result,
                epsilon_lower_bound=found[0],
                mu_lower_bound=found[1],
                direction="contrast",
            )

    moves = shift != 0
    rounding = np.finfo(np.float64).eps
    size = np.abs(flat[0])[columns] / std + np.abs(shift)
    shares, alarm, visible = [], False, 0.0
    for residual, centred in ((residuals[0], 0.0), (residuals[1], shift)):
        z = (residual - centred)[:, moves]
        precision = rounding * (4 + size[moves] + np.abs(z).max(axis=0))
        atoms = exact_runs(
            z,
            steps_of(z, precision),
            precision=precision,
            peak=peak_density(3.0),
            independent=False,
            level=EXACT_FALSE_ALARM / 2,
        )
        shares.append(atoms.share)
        alarm |= atoms.alarm or atoms.repeated
        visible = max(visible, atoms.visible)
    if visible > smallest:
        incomplete.append(
            f"exact releases in fewer than {visible:.2g} of the runs would not be seen; more than"
            f" {n_runs} runs are needed"
        )
    return replace(
        result, incomplete=tuple(incomplete), exact_share=tuple(shares), exact_alarm=alarm
    )


def _contrast(without: FloatArray, with_: FloatArray, direction: FloatArray) -> FloatArray:
    """Sigma^-1 direction, of noise whose samples are given; few coordinates if there are many."""
    noise = np.concatenate([without - without.mean(axis=0), with_ - with_.mean(axis=0)])
    n, d = noise.shape
    matched = noise @ direction
    if d <= n // 10:
        columns = np.arange(d)
    else:
        # those that know more about the matched score than independent noise would
        surprise = np.abs(matched @ noise / n - direction)
        columns = np.argsort(-surprise, kind="stable")[:_N_CONTRASTS]
    features = np.column_stack([matched, noise[:, columns]])
    shift = np.concatenate([[1.0], direction[columns]])
    covariance = features.T @ features / n + 1e-9 * np.eye(len(shift))
    weights = np.linalg.solve(covariance, shift)
    out = weights[0] * direction
    out[columns] += weights[1:]
    return out / np.linalg.norm(out)
