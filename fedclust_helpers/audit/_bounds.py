"""Lower bounds on epsilon and mu from attack scores of runs without and with a canary."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.audit._noise_tests import smallest_rate

N_THRESHOLDS = 400  # candidate thresholds of a canary audit
_ATOM_LEVEL = 1e-4  # strictness with which a repeated score is called too frequent
_N_ATOMS = 20  # repeated scores that are tried as events
_PICK_TAIL = 1e-4  # of the bounds that rank events: the best of many at the final confidence is
# too often a lucky one far out in a tail

Pair = tuple[FloatArray, FloatArray]  # without and with the canary


class Claims(NamedTuple):
    """What is tested, and how strictly: see the docstring of the package."""

    confidence: float
    delta: float
    mu: float | None
    epsilon: float | None

    @property
    def how(self) -> dict[str, float]:
        """`tail`: error probability of each of the two binomial bounds behind a bound."""
        return {"tail": (1 - self.confidence) / 2, "delta": self.delta}

    @property
    def missing(self) -> list[str]:
        """What is incomplete for want of a claim."""
        return ["no claim tested"] if self.mu is None and self.epsilon is None else []


def _clopper_pearson(hits: FloatArray, trials: int, tail: float) -> Pair:
    """Exact binomial bounds (lower, upper), each of which misses with probability <= `tail`.

    Clopper and Pearson (1934): quantiles of beta distributions.
    """
    low, high = np.maximum(hits, 1), np.minimum(hits, trials - 1)
    # where scipy finds no quantile (a tail of 1e-200), 0 is a lower bound, too
    lower = np.nan_to_num(special.betaincinv(low, trials - low + 1, tail))
    upper = special.betaincinv(high + 1, trials - high, 1 - tail)
    return np.where(hits > 0, lower, 0.0), np.where(hits < trials, upper, 1.0)


def _bounds_at(hits: Pair, sizes: tuple[int, int], *, tail: float, delta: float) -> Pair:
    """Lower bounds on epsilon and mu from the numbers of runs, without and with, in some events.

    Both returned arrays have shape (2, n_events): row 0 takes an event as a sign of the record's
    presence, row 1 as a sign of its absence. Each entry relies on one Clopper-Pearson bound per
    data set; the complement of the event uses the same two bounds, so that the better of the two
    epsilon bounds costs nothing.
    """
    rates = [_clopper_pearson(h, n, tail) for h, n in zip(hits, sizes, strict=True)]
    (low_without, high_without), (low_with, high_with) = rates
    less, more = np.stack([high_without, high_with]), np.stack([low_with, low_without])
    with np.errstate(divide="ignore", invalid="ignore"):
        on_event = np.log(np.maximum(more - delta, 0.0) / less)
        on_complement = np.log(np.maximum(1 - less - delta, 0.0) / (1 - more))
    return np.fmax(on_event, on_complement), special.ndtri(more) - special.ndtri(less)


class Pick:
    """The best event for each of the two measures on the runs that may pick.

    Events are scores above a threshold (quantiles at levels evenly spaced in log odds, so dense in
    both tails), or equal to a value that repeats.
    """

    def __init__(self, pair: Pair, *, tail: float, delta: float):
        scores = np.sort(np.concatenate(pair))
        edge = math.log(len(scores))
        levels = special.expit(np.linspace(-edge, edge, N_THRESHOLDS))
        places = np.minimum((levels * len(scores)).astype(int), len(scores) - 1)
        self.thresholds = np.unique(scores[places])
        values, counts = np.unique(scores, return_counts=True)
        often = np.argsort(-counts, kind="stable")[:_N_ATOMS]
        self.atoms = np.sort(values[often[counts[often] > 2]])
        hits = self._hits(pair[0]), self._hits(pair[1])
        sizes = len(pair[0]), len(pair[1])
        self.best: list[tuple[int, int]] = []  # direction and event, for epsilon and mu
        self.value: list[float] = []
        for scan in _bounds_at(hits, sizes, tail=min(tail, _PICK_TAIL), delta=delta):
            # without a finite bound anywhere (tiny samples) any fixed choice is valid
            scan = np.nan_to_num(scan, nan=-np.inf)
            direction, event = np.unravel_index(int(np.argmax(scan)), scan.shape)
            self.best.append((int(direction), int(event)))
            self.value.append(float(scan[direction, event]))

    def _hits(self, scores: FloatArray) -> FloatArray:
        """Number of scores in each event."""
        ordered = np.sort(scores)
        above = len(scores) - np.searchsorted(ordered, self.thresholds, side="right")
        upper = np.searchsorted(ordered, self.atoms, side="right")
        equal = upper - np.searchsorted(ordered, self.atoms, side="left")
        return np.concatenate([above, equal]).astype(np.float64)

    def bounds(self, pair: Pair, *, tail: float, delta: float) -> tuple[float, float]:
        """The bounds on epsilon and mu from fresh runs; at least 0."""
        hits, sizes = [self._hits(scores) for scores in pair], (len(pair[0]), len(pair[1]))
        found = []
        for measure, (direction, event) in enumerate(self.best):
            counted = hits[0][[event]], hits[1][[event]]
            bound = _bounds_at(counted, sizes, tail=tail, delta=delta)[measure]
            found.append(float(np.fmax(bound[direction, 0], 0.0)))
        return found[0], found[1]


def bounds_of(pair: Pair, claims: Claims) -> tuple[float, float]:
    """Bounds on epsilon and mu: the first half of the runs picks, the second is counted."""
    (without, with_), halves = pair, [len(scores) // 2 for scores in pair]
    pick = Pick((without[: halves[0]], with_[: halves[1]]), **claims.how)
    return pick.bounds((without[halves[0] :], with_[halves[1] :]), **claims.how)


def too_frequent(scores: FloatArray) -> tuple[float, float]:
    """Share of the most frequent score if it is suspicious, else 0; smallest share to be seen.

    Among scores most of which are different, one and the same value should not come often: not
    more often than the pairs of equal scores elsewhere (at least three are supposed) explain. Where
    most scores have ties, the noise itself is on few values and rates are what counts.
    """
    n = len(scores)
    counts = np.unique(scores, return_counts=True)[1]
    if 2 * len(counts) < n:
        return 0.0, 0.0
    most = int(counts.max())
    pairs = int((counts * (counts - 1) // 2).sum()) - most * (most - 1) // 2

    def needed(pairs: int) -> int:
        p = min(6 * (pairs + 3) / n**2, 1.0)
        return int(stats.binom.isf(_ATOM_LEVEL * p, n, p)) + 1

    return (most / n if most >= needed(pairs) else 0.0), smallest_rate(n, needed(0))
