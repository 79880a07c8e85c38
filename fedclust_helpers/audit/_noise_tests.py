"""Tests on standardised residuals of repeated releases: exact values, repeats, dependence.

All of them take residuals z = (release - exact) / claimed_std of shape (n_runs, n_coordinates) and
compare a count or a statistic with its distribution under independent, unimodal noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from fedclust_helpers._validation import FloatArray, IntArray

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


class Residuals(NamedTuple):
    """Residuals of one query or of several, and what is known of each coordinate."""

    z: FloatArray  # (n_runs, n_coordinates)
    precision: FloatArray  # of one residual, as a float
    steps: FloatArray  # of the grid on which they lie, 0 for a continuum
    peak: float  # largest density of the noise

    @classmethod
    def of(cls, z: FloatArray, size: FloatArray, excess_kurtosis: float) -> Residuals:
        """`size` (n_coordinates,): magnitude of the numbers that were subtracted, over the std."""
        precision = np.finfo(np.float64).eps * (4 + size)
        return cls(z, precision, _steps(z, precision), _peak_density(excess_kurtosis))

    @classmethod
    def join(cls, queries: list[Residuals]) -> Residuals:
        """The coordinates of all queries side by side."""
        z, precision, steps, peaks = zip(*queries, strict=True)
        return cls(
            np.concatenate(z, axis=1), np.concatenate(precision), np.concatenate(steps), peaks[0]
        )


@lru_cache
def _peak_density(excess_kurtosis: float) -> float:
    """Density at 0 of the generalised normal with variance 1: 0.399 for 0, 0.707 for 3."""
    family = stats.gennorm

    def beyond(shape: float) -> float:
        return float(family.stats(shape, moments="k")) - excess_kurtosis

    shape = 2.0 if excess_kurtosis <= 0 else 0.1  # no more peaked than shape 0.1
    if excess_kurtosis > 0 and beyond(shape) > 0:
        shape = float(optimize.brentq(beyond, 0.1, 2.0))
    return float(family.pdf(0.0, shape) * family.std(shape))


def _steps(z: FloatArray, precision: FloatArray) -> FloatArray:
    """Step of the grid on which each column lies, 0 for a continuum."""
    d = z.shape[1]
    out = np.zeros(d)
    if d > 256:  # mostly all alike: look at some before all
        some = np.arange(0, d, d // 64)
        if not _steps(z[:, some], precision[some]).any():
            return out
    gaps = np.diff(np.sort(z, axis=0), axis=0)
    for column, error in enumerate(precision):
        wide = gaps[:, column]
        wide = np.sort(wide[wide > 4 * error])[:64]
        step = 0.0
        for gap in wide:  # Euclid's algorithm, up to rounding errors
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
def smallest_rate(n: int, threshold: int) -> float:
    """Smallest rate at which `threshold` of n runs are reached with chance POWER."""
    return float(special.betaincinv(threshold, n - threshold + 1, POWER)) if threshold <= n else 1.0


class ExactRuns(NamedTuple):
    """Runs that lie too often at the exact value, or too often at one and the same value."""

    share: float  # of the runs at the exact value (within SAME, or a grid step), at most
    alarm: bool
    visible: float  # smallest share that would have been seen
    repeated: bool


def exact_runs(noise: Residuals, *, independent: bool, level: float) -> ExactRuns:
    """Test single coordinates, and all of them together, for atoms. `level` is that of all tests.

    Mass at the exact value: for windows [-w, w], w = SAME, 4 SAME, ... up to WIDEST, the number of
    runs inside is compared with a binomial. Unimodal noise with density at most `peak` puts at most
    peak * 2w there (on a grid: peak * step for each of its points). Atoms elsewhere: by a union
    bound over the cells of probability <= p that the values fall in,
    P(some cell holds c runs) <= P(Binomial(n, p) >= c) / p.
    """
    z, precision, steps, peak = noise
    n, d = z.shape
    same = np.maximum(SAME, 8 * precision)

    def together(p: FloatArray) -> float:
        """Probability that all coordinates do what each does with probability p."""
        return max(float(np.exp(np.log(p).sum())) if independent else float(p.min()), 1e-300)

    n_widths = 1 + max(0, math.floor(math.log(WIDEST / float(same.max()), 4)))
    joint = d > 1
    part = level / 2 / (n_widths * (d + joint))
    size = np.abs(z) / same
    alarm, visible = False, 1.0
    for width in 4.0 ** np.arange(n_widths):
        points = 2 * width * same
        points = np.where(steps > 0, steps * (points // np.maximum(steps, 1e-300) + 1), points)
        p = np.minimum(peak * points, 1.0)
        hits = size <= width
        probabilities, where = np.unique(p, return_inverse=True)
        thresholds = np.array([_threshold(n, float(q), part) for q in probabilities])
        alarm |= bool((hits.sum(axis=0) >= thresholds[where]).any())
        common = together(p)
        needed = _threshold(n, common, part)
        if joint:
            alarm |= int(hits.all(axis=1).sum()) >= needed
        more = max(smallest_rate(n, needed) - common, 0.0) / max(1 - common, 1e-300)
        visible = min(visible, more if needed <= n else 1.0)

    # the same value in several runs
    cells = np.where(steps > 0, np.maximum(steps, same), same)
    p = np.minimum(peak * cells, 1.0)
    part = level / 4 / (d + joint)
    repeated = False
    width_of_one = np.where(steps > 0, np.minimum(same, steps / 2), same)
    equal = np.diff(np.sort(z, axis=0), axis=0) <= width_of_one
    for column in np.flatnonzero(equal.any(axis=0)):
        ends = np.flatnonzero(~equal[:, column]) + 1  # of groups of equal values
        counts = np.diff(np.concatenate([[0], ends, [n]]))
        repeated |= _too_many(counts, n, float(p[column]), part)
    if joint:
        counts = np.unique(np.rint(z / cells), axis=0, return_counts=True)[1]
        repeated |= _too_many(counts, n, together(p), part)
    exact = (size <= np.maximum(1.0, 0.5 * steps / same)).all(axis=1)
    return ExactRuns(float(exact.mean()), alarm, visible, repeated)


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
    reasons: tuple[str, ...]  # which tests failed
    incomplete: tuple[str, ...]


def dependence(
    noise: Residuals, *, level: float, smallest: float, rng: np.random.Generator
) -> Dependence:
    """Compare coordinates with each other, and runs with each other. `level` is that of all tests.

    On normal scores a of z and b of |z|, so that independence gives every statistic one and the
    same distribution whatever the noise: the largest |corr(a_i, a_j)|, |corr(b_i, b_j)| and
    |corr(a_i, b_j)|, i != j; the sums of squares of the first two (Schott 2005), which need no
    single large one and do not grow in cost with the square of the number of coordinates; the
    spread over the runs of the sum over all coordinates; |z_i| = |z_j| within a run; and the mean
    product of runs up to MAX_LAG apart.
    """
    z = noise.z
    n, d = z.shape
    reasons, incomplete = [], []
    part, n_pairs = level / 6, d * (d - 1) / 2
    used = min(n, int(MAX_VALUES / d))
    a = _ranked(z[:used], rng)
    b = _ranked(np.abs(z[:used]), rng)

    def ranked(rows: int) -> tuple[FloatArray, FloatArray]:
        return (a, b) if rows == used else (_ranked(z[:rows], rng), _ranked(np.abs(z[:rows]), rng))

    largest = math.nan
    if d > 1:
        rows = min(used, int(MAX_PAIR_WORK / d**2))
        if rows >= min(MIN_PAIR_RUNS, n):
            found = _largest(*ranked(rows))
            largest = min(found[0], 1.0)
            for value, times, name in zip(
                found, (1, 1, 2), ("values", "sizes", "a value and a size"), strict=True
            ):
                limit = float(stats.t.isf(part / 3 / (times * n_pairs) / 2, rows - 2))
                if value > limit / math.sqrt(rows - 2 + limit**2):
                    reasons.append(f"correlation {value:.2f} between the {name} of two coordinates")
        rows = min(used, max(int(math.sqrt(MAX_GRAM_WORK / d)), 10))
        if d >= MIN_SQUARED:
            mean = n_pairs / (rows - 1)
            variance = n_pairs * 2 * (rows - 2) / ((rows - 1) ** 2 * (rows + 1))
            freedom = 2 * mean**2 / variance
            limit = stats.chi2.isf(part / 2, freedom) * mean / freedom
            for name, scores in zip(("values", "sizes"), ranked(rows), strict=True):
                if _squared_correlations(scores) > limit:
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
        for scores, name in ((a, "values"), (b, "sizes")):
            common = (used - 1) * float((scores.sum(axis=1) ** 2).sum()) / d
            tails = stats.chi2.cdf(common, used - 1), stats.chi2.sf(common, used - 1)
            if min(tails) < part / 4:
                reasons.append(f"the {name} of all coordinates have a common part")
        pairs = _equal_sizes(noise, part)
        if pairs:
            reasons.append(f"{pairs} times two coordinates of one run had noise of the same size")

    for lag in range(1, min(MAX_LAG, used - 2) + 1):
        for scores, name in ((a, "values"), (b, "sizes")):
            # columns have length 1: products are 1/used on average over equal runs
            total = used * float((scores[:-lag] * scores[lag:]).sum())
            total += d * (used - lag) / (used - 1)
            if abs(total) / math.sqrt(d * (used - lag)) > stats.norm.isf(part / (4 * MAX_LAG)):
                reasons.append(f"the {name} of runs {lag} apart are correlated")
    return Dependence(largest, tuple(reasons), tuple(incomplete))


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
            shuffled = rng.permutation(n)
            ordered[:, column] = shuffled[np.argsort(block[shuffled, column], kind="stable")]
        np.put_along_axis(out[:, start : start + _BLOCK], ordered, quantiles[:, None], axis=0)
    return out


def _largest(a: FloatArray, b: FloatArray) -> list[float]:
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
    return out


def _squared_correlations(ranked: FloatArray) -> float:
    """Sum over i < j of the squared correlation of columns i and j, by the smaller Gram matrix."""
    n, d = ranked.shape
    gram = ranked @ ranked.T if n <= d else ranked.T @ ranked
    return float(((gram**2).sum() - d) / 2)


def _equal_sizes(noise: Residuals, level: float) -> int:
    """Pairs of coordinates with |z_i| = |z_j| within a run, if they are too many, else 0."""
    n, d = noise.z.shape
    same = float(max(16 * noise.precision.max(), 2 * noise.steps.max(), 1e-13))
    # each |z| has density at most 2 peak, so a pair is that close with probability <= 4 peak same
    expected = n * d * (d - 1) / 2 * 4 * noise.peak * same
    if expected > 100:
        return 0
    pairs = 0
    for start in range(0, n, 500):
        ordered = np.sort(np.abs(noise.z[start : start + 500]), axis=1)
        pairs += int((np.diff(ordered, axis=1) <= same).sum())
    return pairs if pairs and stats.poisson.sf(pairs - 1, expected) <= level else 0
