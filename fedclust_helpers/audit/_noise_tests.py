"""Tests on standardised residuals of repeated releases: exact values, repeats, dependence.

All of them take residuals z = (release - exact) / claimed_std of shape (n_runs, n_coordinates) and
compare a count or a statistic with its distribution under independent, unimodal noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from fedclust_helpers._validation import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

SAME = 1e-9  # two residuals closer than this (in standard deviations) count as one value
WIDEST = 0.5  # widest window around the exact value, in standard deviations
POWER = 0.95  # probability with which the "smallest" share of a report would have been seen
MAX_LAG = 5  # runs apart whose noise is compared
MAX_PAIR_WORK = 1e10  # coordinates^2 * runs of the comparison of all pairs
MIN_PAIR_RUNS = 200  # runs below which all pairs are not compared
MAX_GRAM_WORK = 5e9  # coordinates * runs^2 of the sum of squared correlations
MAX_VALUES = 1e7  # coordinates * runs that are ranked
MIN_SQUARED = 30  # coordinates from which the sum of squared correlations is tested
_BLOCK = 2000


@lru_cache
def peak_density(excess_kurtosis: float) -> float:
    """Density at 0 of the generalised normal with variance 1: 0.399 for 0, 0.707 for 3."""

    def kurtosis(shape: float) -> float:
        logs = special.gammaln(np.array([1.0, 3.0, 5.0]) / shape)
        return float(np.exp(logs[2] + logs[0] - 2 * logs[1])) - 3

    if excess_kurtosis <= 0:
        shape = 2.0
    elif excess_kurtosis >= kurtosis(0.1):
        shape = 0.1
    else:
        shape = float(optimize.brentq(lambda b: kurtosis(b) - excess_kurtosis, 0.1, 2.0))
    logs = special.gammaln(np.array([1.0, 3.0]) / shape)
    return shape / 2 * float(np.exp(0.5 * (logs[1] - logs[0]) - logs[0]))


def steps_of(scores: FloatArray, precision: FloatArray) -> FloatArray:
    """Step of the grid on which each column lies, 0 for a continuum; `precision`: of one value."""
    d = scores.shape[1]
    out = np.zeros(d)
    if d > 256:  # mostly all alike: look at some before all
        some = np.arange(0, d, d // 64)
        if not steps_of(scores[:, some], precision[some]).any():
            return out
    ordered = np.sort(scores, axis=0)
    gaps = np.diff(ordered, axis=0)
    for column, error in enumerate(precision):
        some = gaps[:, column]
        some = np.sort(some[some > 4 * error])[:64]
        step = 0.0
        for gap in some:  # Euclid's algorithm, up to rounding errors
            a, b = float(gap), step
            while b > max(64 * error, 1e-12):
                a, b = b, abs(a - b * round(a / b))
            step = a
            if step < SAME / 4:
                step = 0.0
                break
        out[column] = step
    return out


@lru_cache(maxsize=4096)
def _threshold(n: int, p: float, level: float) -> int:
    """Smallest count that Binomial(n, p) reaches with probability at most `level`."""
    return int(stats.binom.isf(level, n, p)) + 1


@lru_cache(maxsize=4096)
def _visible(n: int, p: float, threshold: int) -> float:
    """Smallest share of additional hits for which `threshold` is reached with chance POWER."""
    if threshold > n:
        return 1.0
    rate = float(special.betaincinv(threshold, n - threshold + 1, POWER))
    return max(rate - p, 0.0) / max(1 - p, 1e-300)


class ExactRuns(NamedTuple):
    """Runs that lie too often at the exact value, or too often at one and the same value."""

    share: float  # of the runs at the exact value (within SAME, or a grid step), at most
    alarm: bool
    visible: float  # smallest share that would have been seen
    repeats: int  # runs that share their values with an earlier run
    repeated: bool


def exact_runs(
    scores: FloatArray,
    steps: FloatArray,
    *,
    precision: FloatArray,
    peak: float,
    independent: bool,
    level: float,
) -> ExactRuns:
    """Test single coordinates, and all of them together, for atoms. `level` is that of all tests.

    Mass at the exact value: for windows [-w, w], w = SAME, 4 SAME, ... up to WIDEST, the number of
    runs inside is compared with a binomial. Unimodal noise with density at most `peak` puts at most
    peak * 2w there (on a grid: peak * step for each of its points). Atoms elsewhere: by a union
    bound over the cells of probability <= p that the values fall in,
    P(some cell holds c runs) <= P(Binomial(n, p) >= c) / p.
    """
    n, d = scores.shape
    same = np.maximum(SAME, 8 * precision)
    widths: list[float] = []
    width = 1.0
    while width * float(same.max()) <= WIDEST or not widths:
        widths.append(width)
        width *= 4
    joint = d > 1
    part = level / 2 / (len(widths) * (d + joint))
    size = np.abs(scores) / same
    alarm, visible = False, 1.0
    for width in widths:
        half = width * same
        points = np.where(
            steps > 0, steps * (np.floor(2 * half / np.maximum(steps, 1e-300)) + 1), 2 * half
        )
        p = np.minimum(peak * points, 1.0)
        hits = size <= width
        probabilities, where = np.unique(p, return_inverse=True)
        thresholds = np.array([_threshold(n, float(q), part) for q in probabilities])
        alarm |= bool((hits.sum(axis=0) >= thresholds[where]).any())
        together = float(np.exp(np.log(p).sum())) if independent else float(p.min())
        together = max(together, 1e-300)
        needed = _threshold(n, together, part)
        if joint:
            alarm |= int(hits.all(axis=1).sum()) >= needed
        visible = min(visible, _visible(n, together, needed))

    # the same value in several runs
    cells = np.where(steps > 0, np.maximum(steps, same), same)
    p = np.minimum(peak * cells, 1.0)
    part = level / 4 / (d + joint)
    repeated = False
    ordered = np.sort(scores, axis=0)
    equal = np.diff(ordered, axis=0) <= np.where(steps > 0, np.minimum(same, steps / 2), same)
    for column in np.flatnonzero(equal.any(axis=0)):
        counts = _group_sizes(equal[:, column])
        repeated |= _too_many(counts, n, float(p[column]), part)
    together = max(float(np.exp(np.log(p).sum())) if independent else float(p.min()), 1e-300)
    rows = np.rint(scores / cells)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    if joint:
        repeated |= _too_many(counts, n, together, part)
    narrow = (size <= np.maximum(1.0, 0.5 * steps / same)).all(axis=1)
    return ExactRuns(float(narrow.mean()), bool(alarm), visible, n - len(counts), bool(repeated))


def _group_sizes(equal: BoolArray) -> IntArray:
    """Sizes of the groups of a sorted sample, given whether neighbours are equal."""
    return np.diff(np.concatenate([[0], np.flatnonzero(~equal) + 1, [len(equal) + 1]]))


def _too_many(counts: IntArray, n: int, p: float, level: float) -> bool:
    """Whether one cell holds too many of n runs, or too many pairs of runs share a cell."""
    most = int(counts.max())
    if most < 2:
        return False
    if stats.binom.sf(most - 1, n, p) <= level * p:
        return True
    expected = n * (n - 1) / 2 * p
    pairs = int((counts * (counts - 1) // 2).sum())
    return expected <= 1 and bool(stats.poisson.sf(pairs - 1, expected) <= level)


class Dependence(NamedTuple):
    """What the comparison of coordinates and of runs with each other found."""

    largest: float  # |correlation| of two coordinates; nan if not all pairs were compared
    alarm: bool
    reasons: tuple[str, ...]  # which tests failed
    incomplete: tuple[str, ...]


def dependence(
    scores: FloatArray,
    steps: FloatArray,
    *,
    precision: FloatArray,
    peak: float,
    level: float,
    smallest: float,
    rng: np.random.Generator,
) -> Dependence:
    """Compare coordinates with each other, and runs with each other. `level` is that of all tests.

    On normal scores a of z and b of |z|, so that independence gives every statistic one and the
    same distribution whatever the noise: the largest |corr(a_i, a_j)|, |corr(b_i, b_j)| and
    |corr(a_i, b_j)|, i != j; the sums of squares of the first two (Schott 2005), which need no
    single large one and do not grow in cost with the square of the number of coordinates; the
    spread over the runs of the sum over all coordinates; |z_i| = |z_j| within a run; and the mean
    product of runs up to MAX_LAG apart.
    """
    n, d = scores.shape
    reasons, incomplete = [], []
    part = level / 6
    used = min(n, int(MAX_VALUES / d))
    a = _ranked(scores[:used], rng)
    b = _ranked(np.abs(scores[:used]), rng)

    largest = math.nan
    if d > 1:
        rows = min(used, int(MAX_PAIR_WORK / d**2))
        if rows >= min(MIN_PAIR_RUNS, n):
            if rows < used:
                first, second = _ranked(scores[:rows], rng), _ranked(np.abs(scores[:rows]), rng)
            else:
                first, second = a, b
            n_pairs = d * (d - 1) / 2
            found = _largest(first, second)
            largest = min(found[0], 1.0)
            for value, times, name in zip(
                found, (1, 1, 2), ("values", "sizes", "a value and a size"), strict=True
            ):
                limit = float(stats.t.isf(part / 3 / (times * n_pairs) / 2, rows - 2))
                if value > limit / math.sqrt(rows - 2 + limit**2):
                    reasons.append(f"correlation {value:.2f} between the {name} of two coordinates")
        rows = min(used, max(int(math.sqrt(MAX_GRAM_WORK / d)), 10))
        if d >= MIN_SQUARED:
            for name, ranked, values in (("values", a, scores), ("sizes", b, np.abs(scores))):
                used_scores = ranked if rows == used else _ranked(values[:rows], rng)
                excess = _squared_correlations(used_scores)
                n_pairs = d * (d - 1) / 2
                mean = n_pairs / (rows - 1)
                variance = n_pairs * 2 * (rows - 2) / ((rows - 1) ** 2 * (rows + 1))
                freedom = 2 * mean**2 / variance
                if excess > stats.chi2.isf(part / 2, freedom) * mean / freedom:
                    reasons.append(f"many small correlations between the {name} of coordinates")
        if math.isnan(largest):
            # a share x of the coordinates in equal pairs adds x d / 2 to the sum of squares
            limit = float(stats.norm.isf(part / 2)) + float(stats.norm.isf(1 - POWER))
            share = 2 * limit / rows
            if share > smallest:
                incomplete.append(
                    f"noise shared in pairs by fewer than {share:.2g} of {d} coordinates would not"
                    " be seen"
                )
        for ranked, name in ((a, "values"), (b, "sizes")):
            m = len(ranked)
            common = (m - 1) * float((ranked.sum(axis=1) ** 2).sum()) / d
            tails = stats.chi2.cdf(common, m - 1), stats.chi2.sf(common, m - 1)
            if min(tails) < part / 4:
                reasons.append(f"the {name} of all coordinates have a common part")
        pairs = _equal_sizes(scores, steps, precision, peak, part)
        if pairs:
            reasons.append(f"{pairs} times two coordinates of one run had noise of the same size")

    for lag in range(1, min(MAX_LAG, n - 2) + 1):
        for ranked, name in ((a, "values"), (b, "sizes")):
            if len(ranked) <= lag + 1:
                continue
            m = len(ranked)
            # columns have length 1: products are 1/m on average over equal runs
            total = m * float((ranked[:-lag] * ranked[lag:]).sum()) + d * (m - lag) / (m - 1)
            score = abs(total) / math.sqrt(d * (m - lag))
            if score > stats.norm.isf(part / (4 * MAX_LAG)):
                reasons.append(f"the {name} of runs {lag} apart are correlated")
    return Dependence(largest, bool(reasons), tuple(reasons), tuple(incomplete))


def _ranked(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Each column's ranks as normal quantiles, of length 1; a random order of ties per column."""
    n, d = values.shape
    out = np.empty((n, d))
    quantiles = special.ndtri((np.arange(n) + 0.5) / n)
    quantiles /= np.linalg.norm(quantiles)
    for start in range(0, d, _BLOCK):
        block = values[:, start : start + _BLOCK]
        ordered = np.argsort(block, axis=0, kind="stable")
        sorted_values = np.take_along_axis(block, ordered, axis=0)
        tied = (sorted_values[1:] == sorted_values[:-1]).any(axis=0)
        for column in np.flatnonzero(tied):
            shuffled = rng.permutation(n)  # ties in a random order
            ordered[:, column] = shuffled[np.argsort(block[shuffled, column], kind="stable")]
        np.put_along_axis(out[:, start : start + _BLOCK], ordered, quantiles[:, None], axis=0)
    return out


def _largest(a: FloatArray, b: FloatArray) -> tuple[float, float, float]:
    """Largest |corr| of two columns of a, of b, and of a column of a with another one of b."""
    d = a.shape[1]
    out = [0.0, 0.0, 0.0]
    for start in range(0, d, _BLOCK):
        stop = min(start + _BLOCK, d)
        for index, (left, right) in enumerate(((a, a), (b, b), (a, b))):
            correlations = left[:, start:stop].T @ right
            np.abs(correlations, out=correlations)
            correlations[np.arange(stop - start), np.arange(start, stop)] = 0.0
            out[index] = max(out[index], float(correlations.max()))
    return out[0], out[1], out[2]


def _squared_correlations(ranked: FloatArray) -> float:
    """Sum over i < j of the squared correlation of columns i and j, by the smaller Gram matrix."""
    n, d = ranked.shape
    gram = ranked @ ranked.T if n <= d else ranked.T @ ranked
    return float(((gram**2).sum() - d) / 2)


def _equal_sizes(
    scores: FloatArray, steps: FloatArray, precision: FloatArray, peak: float, level: float
) -> int:
    """Pairs of coordinates with |z_i| = |z_j| within a run, if they are too many, else 0."""
    n, d = scores.shape
    same = float(max(16 * precision.max(), 2 * steps.max(), 1e-13))
    # each |z| has density at most 2 peak, so a pair is that close with probability <= 4 peak same
    expected = n * d * (d - 1) / 2 * 4 * peak * same
    if expected > 100:
        return 0
    pairs = 0
    for start in range(0, n, 500):
        ordered = np.sort(np.abs(scores[start : start + 500]), axis=1)
        pairs += int((np.diff(ordered, axis=1) <= same).sum())
    return pairs if pairs and stats.poisson.sf(pairs - 1, expected) <= level else 0
