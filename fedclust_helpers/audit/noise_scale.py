"""A. Is the noise of each released query as large as claimed?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fedclust_helpers._validation import (
    FloatArray,
    check_delta,
    check_int,
    check_non_negative,
    check_rng,
)
from fedclust_helpers.audit._queries import (
    Release,
    as_queries,
    claimed_stds,
    draw_runs,
)

MAX_CORRELATED = 1000  # coordinates up to which all pairwise correlations are tested


@dataclass(frozen=True)
class QueryNoise:
    """Noise of one query, as found by `audit_noise_scale`.

    Attributes
    ----------
    name : str
        Name of the query.
    n_coordinates : int
        Number of coordinates of the query.
    ratio : float
        Measured over claimed standard deviation, pooled over the coordinates; 1 is right.
    interval : tuple of float
        Interval for the true ratio (see `NoiseScaleAudit.false_alarm`). When the coordinates may be
        dependent it spans the intervals of the single coordinates.
    worst_ratio : float
        The ratio of the coordinate that is furthest from 1.
    worst_coordinate : tuple of int
        Index of that coordinate in the query.
    bias : float
        Largest |mean error| over the coordinates, in units of its standard error.
    too_little, too_much, biased : bool
        Which tests were failed: noise smaller than claimed (a privacy error), larger than claimed
        (a loss of accuracy, and a sign that claim and code differ), mean different from `exact`.
    """

    name: str
    n_coordinates: int
    ratio: float
    interval: tuple[float, float]
    worst_ratio: float
    worst_coordinate: tuple[int, ...]
    bias: float
    too_little: bool
    too_much: bool
    biased: bool

    @property
    def passed(self) -> bool:
        """True if no test of this query failed."""
        return not (self.too_little or self.too_much or self.biased)

    def __str__(self) -> str:
        flags = [
            text
            for flag, text in (
                (self.too_little, "TOO LITTLE NOISE"),
                (self.too_much, "TOO MUCH NOISE"),
                (self.biased, "BIASED"),
            )
            if flag
        ]
        return (
            f"{self.name}: sd/claimed {self.ratio:.4f} in [{self.interval[0]:.4f}, "
            f"{self.interval[1]:.4f}], worst of {self.n_coordinates} coordinate(s) "
            f"{self.worst_ratio:.4f}, bias {self.bias:.1f} standard errors: "
            + (", ".join(flags) or "ok")
        )


@dataclass(frozen=True)
class NoiseScaleAudit:
    """Result of `audit_noise_scale`.

    Attributes
    ----------
    queries : tuple of QueryNoise
        One entry per query, in the order of the release.
    max_correlation : float
        Largest |correlation| between two coordinates, within or between queries; nan if not tested.
    correlated : bool
        True if that correlation is too large for independent noise.
    n_runs : int
        Number of runs.
    false_alarm : float
        Probability bound that a release with exactly the claimed noise fails at least one test.
    """

    queries: tuple[QueryNoise, ...]
    max_correlation: float
    correlated: bool
    n_runs: int
    false_alarm: float

    @property
    def passed(self) -> bool:
        """True if no test failed. A pass is no proof of privacy."""
        return not self.correlated and all(query.passed for query in self.queries)

    def __str__(self) -> str:
        tested = (
            "not tested"
            if math.isnan(self.max_correlation)
            else f"{self.max_correlation:.4f}: " + ("DEPENDENT" if self.correlated else "ok")
        )
        head = f"noise scale audit ({self.n_runs} runs, false alarm {self.false_alarm:g}): " + (
            "passed" if self.passed else "FAILED"
        )
        lines = [head, *(f"  {query}" for query in self.queries)]
        return "\n".join([*lines, f"  largest correlation {tested}"])


class _ScaleTest(NamedTuple):
    """Acceptance interval factors: `ratio * low` and `ratio * high` bracket the true ratio."""

    low: float
    high: float


def _scale_test(n_runs: int, n_coordinates: int, kurtosis: float, level: float) -> _ScaleTest:
    """Two-sided interval for a standard deviation, `level` in all.

    The sample variance is treated as a scaled chi-square whose degrees of freedom match its true
    variance, sigma^4 (2/(n - 1) + kurtosis/n). For Gaussian noise (kurtosis 0) this is exact.
    """
    freedom = n_coordinates * 2.0 / (2.0 / (n_runs - 1) + kurtosis / n_runs)
    return _ScaleTest(
        math.sqrt(freedom / stats.chi2.isf(level / 2, freedom)),
        math.sqrt(freedom / stats.chi2.ppf(level / 2, freedom)),
    )


def audit_noise_scale(
    release: Release,
    exact: Any,
    claimed_std: Any,
    *,
    n_runs: int = 2000,
    false_alarm: float = 1e-3,
    excess_kurtosis: float = 0.0,
    independent: bool = True,
    vectorized: bool = True,
    names: Sequence[str] | None = None,
    rng: np.random.Generator,
) -> NoiseScaleAudit:
    """Compare the noise of a release with the standard deviation that was claimed, per query.

    The data stay fixed and the release is repeated. With z = (release - exact) / claimed_std, four
    families of tests share `false_alarm` equally, each with a Bonferroni correction inside:

    1. per query, the standard deviation pooled over its coordinates is 1 (two-sided);
    2. per coordinate, the standard deviation is 1 (two-sided);
    3. per coordinate, the mean is 0;
    4. no two coordinates are correlated, within or between queries (up to `MAX_CORRELATED`
       coordinates). This catches sums and counts that were given the same noise.

    A family that does not apply (one coordinate only, `independent=False`) passes its share on.

    Parameters
    ----------
    release : callable
        ``release(rng, n_runs)`` returning an array of shape (n_runs, ...) or a tuple of them; or
        ``release(rng)`` returning one release, with ``vectorized=False``. Audit the noisy aggregate
        itself, before it is clipped, folded or divided.
    exact : array_like or tuple of array_like
        The same queries without noise, on the same data.
    claimed_std : float, array_like or tuple
        Standard deviation of the noise (for Laplace sqrt(2) times the scale), > 0. One entry per
        query, each broadcast to the query's shape.
    n_runs : int
        Number of runs, at least 10. 2000 runs show a factor of 1.1 in one scalar query.
    false_alarm : float
        Bound, in (0, 1), on the probability that correct noise fails.
    excess_kurtosis : float
        Excess kurtosis of the noise, >= 0: 0 for Gaussian, 3 for Laplace.
    independent : bool
        Whether the coordinates are claimed independent. If False, families 1 and 4 are left out.
    vectorized : bool
        How `release` is called.
    names : sequence of str, optional
        Names of the queries, for the report.
    rng : numpy.random.Generator
        Given to `release`.

    Returns
    -------
    NoiseScaleAudit

    Raises
    ------
    TypeError
        If a number, the names or `rng` has the wrong type.
    ValueError
        If a parameter is out of range, or if shapes do not fit.

    Notes
    -----
    The false-alarm bound is exact for independent Gaussian noise. With `excess_kurtosis` > 0 the
    scale tests match the first two moments of the sample variance only, and the t tests are
    approximate, so the bound is approximate too: for Laplace noise at 2000 runs and
    `false_alarm` = 1e-3, 0.13 % of 32 000 correct releases failed.

    Examples
    --------
    >>> import numpy as np
    >>> def release(rng, n_runs):
    ...     return 7.0 + 2.0 * rng.standard_normal(n_runs)
    >>> audit_noise_scale(release, 7.0, 2.0, rng=np.random.default_rng(0)).passed
    True
    >>> audit_noise_scale(release, 7.0, 4.0, rng=np.random.default_rng(0)).queries[0].too_little
    True
    """
    n_runs = check_int(n_runs, "n_runs", minimum=10)
    false_alarm = check_delta(false_alarm, "false_alarm")
    kurtosis = check_non_negative(excess_kurtosis, "excess_kurtosis")
    check_rng(rng)
    truth = as_queries(exact, "exact")
    stds = claimed_stds(claimed_std, truth)
    if names is None:
        names = [f"query {index}" for index in range(len(truth))]
    if isinstance(names, str) or len(names) != len(truth):
        raise ValueError(f"names must be a sequence of {len(truth)} strings")

    shapes = [query.shape for query in truth]
    drawn = draw_runs(release, shapes, n_runs=n_runs, vectorized=vectorized, rng=rng)
    scores = [
        (runs - value.ravel()) / std.ravel()
        for runs, value, std in zip(drawn, truth, stds, strict=True)
    ]

    n_coordinates = sum(query.shape[1] for query in scores)
    test_pairs = independent and 1 < n_coordinates <= MAX_CORRELATED
    test_single = not independent or any(query.shape[1] > 1 for query in scores)
    share = false_alarm / (1 + independent + test_single + test_pairs)
    single = _scale_test(n_runs, 1, kurtosis, share / n_coordinates)
    bias_limit = float(stats.t.isf(share / n_coordinates / 2, n_runs - 1))

    queries = []
    for name, query, value in zip(names, scores, truth, strict=True):
        variances = query.var(axis=0, ddof=1)
        ratios = np.sqrt(variances)
        ratio = math.sqrt(variances.mean())
        intervals = []
        if test_single:
            intervals += [
                (float(ratios.min()) * single.low, float(ratios.min()) * single.high),
                (float(ratios.max()) * single.low, float(ratios.max()) * single.high),
            ]
            shown = (intervals[0][0], intervals[1][1])
        if independent:
            pooled = _scale_test(n_runs, query.shape[1], kurtosis, share / len(scores))
            shown = (ratio * pooled.low, ratio * pooled.high)
            intervals.append(shown)
        means = query.mean(axis=0)
        errors = ratios / math.sqrt(n_runs)
        # a coordinate without noise has an infinite t score as soon as its mean is off
        t_scores = np.divide(
            np.abs(means), errors, out=np.where(means == 0, 0.0, np.inf), where=errors > 0
        )
        worst = int(np.argmax(np.abs(np.log(np.maximum(ratios, 1e-300)))))
        queries.append(
            QueryNoise(
                name=str(name),
                n_coordinates=query.shape[1],
                ratio=ratio,
                interval=shown,
                worst_ratio=float(ratios[worst]),
                worst_coordinate=tuple(int(i) for i in np.unravel_index(worst, value.shape)),
                bias=float(t_scores.max()),
                too_little=any(high < 1 for _, high in intervals),
                too_much=any(low > 1 for low, _ in intervals),
                biased=bool(t_scores.max() > bias_limit),
            )
        )

    correlation, correlated = math.nan, False
    if test_pairs:
        correlation = _largest_correlation(np.concatenate(scores, axis=1))
        n_pairs = n_coordinates * (n_coordinates - 1) // 2
        limit = float(stats.t.isf(share / n_pairs / 2, n_runs - 2))
        correlated = correlation > limit / math.sqrt(n_runs - 2 + limit**2)
    return NoiseScaleAudit(tuple(queries), correlation, correlated, n_runs, false_alarm)


def _largest_correlation(scores: FloatArray) -> float:
    """Largest |correlation| between two columns; columns without variance count as 0."""
    centred = scores - scores.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    unit = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)
    correlations = np.abs(unit.T @ unit)
    np.fill_diagonal(correlations, 0.0)
    return float(min(correlations.max(), 1.0))
