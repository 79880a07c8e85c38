"""A. Is the noise of each released query as large as claimed, always, and independent?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    check_delta,
    check_int,
    check_non_negative,
    check_rng,
)
from fedclust_helpers.audit._noise_tests import dependence, exact_runs, peak_density, steps_of
from fedclust_helpers.audit._queries import (
    MAX_RUNS,
    Release,
    as_queries,
    claimed_stds,
    draw_runs,
)


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
    exact_share : float
        Share of the runs in which the whole query had its exact value (up to a grid step).
    sometimes_exact : bool
        True if some coordinate, or the whole query, was at its exact value, or near it, more often
        than the claimed noise can be.
    smallest_share : float
        A release that is exact in a share of the runs below this one need not be seen.
    repeated : bool
        True if one value, of a coordinate or of the whole query, came more often than it can.
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
    exact_share: float
    sometimes_exact: bool
    smallest_share: float
    repeated: bool

    @property
    def passed(self) -> bool:
        """True if no test of this query failed."""
        return not (
            self.too_little or self.too_much or self.biased or self.sometimes_exact or self.repeated
        )

    def __str__(self) -> str:
        flags = [
            text
            for flag, text in (
                (self.too_little, "TOO LITTLE NOISE"),
                (self.too_much, "TOO MUCH NOISE"),
                (self.biased, "BIASED"),
                (self.sometimes_exact, f"EXACT IN {self.exact_share:.2%} OF THE RUNS"),
                (self.repeated, "REPEATED VALUES"),
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
        Largest |correlation| of the normal scores of two coordinates, within or between queries, or
        of their absolute values; nan if not all pairs were compared.
    dependence : tuple of str
        Which tests of independence failed; empty if none.
    incomplete : tuple of str
        What this audit could not see or was told not to look at; empty if nothing.
    n_runs : int
        Number of runs.
    false_alarm : float
        Probability bound that a release with exactly the claimed noise fails at least one test.
    """

    queries: tuple[QueryNoise, ...]
    max_correlation: float
    dependence: tuple[str, ...]
    incomplete: tuple[str, ...]
    n_runs: int
    false_alarm: float

    @property
    def correlated(self) -> bool:
        """True if coordinates, or runs, are too much alike for independent noise."""
        return bool(self.dependence)

    @property
    def alarm(self) -> bool:
        """True if a test failed: evidence that the claim is wrong."""
        return self.correlated or not all(query.passed for query in self.queries)

    @property
    def verdict(self) -> Literal["passed", "FAILED", "incomplete"]:
        """FAILED if a test failed, incomplete if none did but something was not tested."""
        return "FAILED" if self.alarm else "incomplete" if self.incomplete else "passed"

    @property
    def passed(self) -> bool:
        """True if everything was tested and no test failed. A pass is no proof of privacy."""
        return self.verdict == "passed"

    def __str__(self) -> str:
        tested = (
            "not tested"
            if math.isnan(self.max_correlation)
            else f"{self.max_correlation:.4f}: " + ("DEPENDENT" if self.correlated else "ok")
        )
        head = f"noise scale audit ({self.n_runs} runs, false alarm {self.false_alarm:g}): "
        lines = [head + self.verdict, *(f"  {query}" for query in self.queries)]
        lines.append(f"  largest correlation {tested}")
        lines += [f"  DEPENDENT: {reason}" for reason in self.dependence]
        share = max(query.smallest_share for query in self.queries)
        lines.append(f"  exact releases in fewer than {share:.2g} of the runs would not be seen")
        return "\n".join([*lines, *(f"  incomplete: {reason}" for reason in self.incomplete)])


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
    largest = stats.chi2.isf(level / 2, freedom)
    if largest == 0:
        raise ValueError(
            f"excess_kurtosis is too large for {n_runs} runs: nothing follows for the scale"
        )
    return _ScaleTest(
        math.sqrt(freedom / largest),
        math.sqrt(freedom / stats.chi2.ppf(level / 2, freedom)),
    )


@checked
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
    smallest: float = 0.01,
    rng: np.random.Generator,
) -> NoiseScaleAudit:
    """Compare the noise of a release with the standard deviation that was claimed, per query.

    The data stay fixed and the release is repeated. With z = (release - exact) / claimed_std, five
    families of tests share `false_alarm` equally, each with a Bonferroni correction inside:

    1. per query, the standard deviation pooled over its coordinates is 1 (two-sided);
    2. per coordinate, the standard deviation is 1 (two-sided);
    3. per coordinate, the mean is 0;
    4. coordinates and runs are independent: no two coordinates are correlated, within or between
       queries, in value or in size, and no two runs a few apart. This catches sums and counts that
       were given the same noise, noise that differs in sign only, and noise used again;
    5. no coordinate and no query lies at its exact value, or at any one value, more often than
       noise with the claimed scale does. This catches releases that are exact now and then.

    A family that does not apply (one coordinate only, `independent=False`) passes its share on.
    Dependence is looked for in pairs of coordinates: noise that depends in threes only is not seen.
    Beyond about 10 000 coordinates the pairs are compared by the sum of their squared correlations.

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
        Excess kurtosis of the noise, >= 0: 0 for Gaussian, 3 for Laplace. The noise is taken to be
        no more peaked than the generalised normal of this kurtosis.
    independent : bool
        Whether the coordinates are claimed independent. If False, families 1 and 4 are left out,
        and the verdict is "incomplete" at best.
    vectorized : bool
        How `release` is called.
    names : sequence of str, optional
        Names of the queries, for the report.
    smallest : float
        The smallest share of exact releases (of coordinates with shared noise, where not all pairs
        can be compared) that has to be seen with a probability of 95 %, in (0, 1). If the runs are
        too few for it, the verdict is "incomplete". 500 runs show 1 %, on a coarse grid more are
        needed.
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
    n_runs = check_int(n_runs, "n_runs", minimum=10, maximum=MAX_RUNS)
    false_alarm = check_delta(false_alarm, "false_alarm")
    kurtosis = check_non_negative(excess_kurtosis, "excess_kurtosis")
    smallest = check_delta(smallest, "smallest")
    check_rng(rng)
    truth = as_queries(exact, "exact")
    stds = claimed_stds(claimed_std, truth)
    if any(np.abs(v).max() > 1e100 * s.min() for v, s in zip(truth, stds, strict=True)):
        raise ValueError("exact must be at most 1e100 times claimed_std in size (rescale)")
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

    rounding = np.finfo(np.float64).eps
    precisions = [
        rounding * (4 + np.abs(runs).max(axis=0) / std.ravel())
        for runs, std in zip(drawn, stds, strict=True)
    ]
    return _judge(
        scores,
        precisions,
        shapes,
        names=[str(name) for name in names],
        false_alarm=false_alarm,
        kurtosis=kurtosis,
        independent=independent,
        smallest=smallest,
        # its own stream, for the order of ties: nothing is drawn from `rng`
        ties=rng.spawn(1)[0],
    )


def _judge(
    scores: list[FloatArray],
    precisions: list[FloatArray],
    shapes: Sequence[tuple[int, ...]],
    *,
    names: Sequence[str],
    false_alarm: float,
    kurtosis: float,
    independent: bool,
    smallest: float,
    ties: np.random.Generator,
) -> NoiseScaleAudit:
    """All tests on standardised residuals, one array (n_runs, n_coordinates) per query."""
    n_runs = len(scores[0])
    n_coordinates = sum(query.shape[1] for query in scores)
    test_single = not independent or any(query.shape[1] > 1 for query in scores)
    share = false_alarm / (2 + 2 * independent + test_single)
    single = _scale_test(n_runs, 1, kurtosis, share / n_coordinates)
    bias_limit = float(stats.t.isf(share / n_coordinates / 2, n_runs - 1))
    peak = peak_density(kurtosis)
    all_steps = [steps_of(query, p) for query, p in zip(scores, precisions, strict=True)]

    queries = []
    for name, query, shape, steps, precision in zip(
        names, scores, shapes, all_steps, precisions, strict=True
    ):
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
        atoms = exact_runs(
            query,
            steps,
            precision=precision,
            peak=peak,
            independent=independent,
            level=share / len(scores),
        )
        queries.append(
            QueryNoise(
                name=name,
                n_coordinates=query.shape[1],
                ratio=ratio,
                interval=shown,
                worst_ratio=float(ratios[worst]),
                worst_coordinate=tuple(int(i) for i in np.unravel_index(worst, shape)),
                bias=float(t_scores.max()),
                too_little=any(high < 1 for _, high in intervals),
                too_much=any(low > 1 for low, _ in intervals),
                biased=bool(t_scores.max() > bias_limit),
                exact_share=atoms.share,
                sometimes_exact=atoms.alarm,
                smallest_share=atoms.visible,
                repeated=atoms.repeated,
            )
        )

    correlation = math.nan
    reasons: tuple[str, ...] = ()
    incomplete: list[str] = []
    if independent:
        found = dependence(
            np.concatenate(scores, axis=1),
            np.concatenate(all_steps),
            precision=np.concatenate(precisions),
            peak=peak,
            level=share,
            smallest=smallest,
            rng=ties,
        )
        correlation, reasons = found.largest, found.reasons
        incomplete += found.incomplete
    else:
        incomplete.append("dependence between coordinates was not tested (independent=False)")
    for result in queries:
        if result.smallest_share > smallest:
            incomplete.append(
                f"exact releases of {result.name} in fewer than {result.smallest_share:.2g} of the"
                f" runs would not be seen; more than {n_runs} runs are needed"
            )
    return NoiseScaleAudit(
        tuple(queries), correlation, reasons, tuple(incomplete), n_runs, false_alarm
    )


@checked
def audit_rounds(
    run: Callable[[np.random.Generator], Any],
    claimed_std: Sequence[Any],
    *,
    n_runs: int = 500,
    false_alarm: float = 1e-3,
    excess_kurtosis: float = 0.0,
    names: Sequence[str] | None = None,
    smallest: float = 0.01,
    rng: np.random.Generator,
) -> NoiseScaleAudit:
    """Audit the noise of all releases of a run together: noise used again in a later round is seen.

    Round by round such noise looks right. Here every release of the run is a query, and
    `audit_noise_scale` compares the coordinates of all rounds with each other. The exact values may
    differ from run to run, as they do when a round's question depends on the answers before.

    Parameters
    ----------
    run : callable
        ``run(rng)`` returning one whole run: a sequence with one pair ``(released, exact)`` for
        each round, each an array or a tuple of arrays (queries), of the same shapes in every run.
    claimed_std : sequence
        For each round, the claimed standard deviation (or a tuple of them, one per query).
    n_runs : int
        Number of runs, at least 10.
    false_alarm, excess_kurtosis, smallest, rng
        As in `audit_noise_scale`.
    names : sequence of str, optional
        Names of the queries of one round.

    Returns
    -------
    NoiseScaleAudit
        With the queries "round 0: sums", "round 0: counts", "round 1: sums", ...

    Raises
    ------
    TypeError, ValueError
        As `audit_noise_scale`.

    Examples
    --------
    >>> import numpy as np
    >>> def reused(rng):
    ...     noise = rng.standard_normal(3)
    ...     return [(5.0 + noise, 5.0), (7.0 + noise, 7.0)]
    >>> result = audit_rounds(reused, [1.0, 1.0], rng=np.random.default_rng(0))
    >>> result.correlated, result.queries[1].passed
    (True, True)
    """
    n_runs = check_int(n_runs, "n_runs", minimum=10, maximum=MAX_RUNS)
    false_alarm = check_delta(false_alarm, "false_alarm")
    kurtosis = check_non_negative(excess_kurtosis, "excess_kurtosis")
    smallest = check_delta(smallest, "smallest")
    check_rng(rng)
    rows: list[list[FloatArray]] = []
    size: list[FloatArray] = []
    shapes: list[tuple[int, ...]] = []
    labels: list[str] = []
    for number in range(n_runs):
        row, largest, found, called = _residuals(run(rng), claimed_std, names)
        if number and found != shapes:
            raise ValueError("run must return arrays of the same shapes in every run")
        rows.append(row)
        size = [np.maximum(a, b) for a, b in zip(size, largest, strict=True)] if size else largest
        shapes, labels = found, called
    scores = [np.stack(query) for query in zip(*rows, strict=True)]
    rounding = np.finfo(np.float64).eps
    return _judge(
        scores,
        [rounding * (4 + value) for value in size],
        shapes,
        names=labels,
        false_alarm=false_alarm,
        kurtosis=kurtosis,
        independent=True,
        smallest=smallest,
        ties=rng.spawn(1)[0],
    )


def _residuals(
    rounds: Any, claimed_std: Sequence[Any], names: Sequence[str] | None
) -> tuple[list[FloatArray], list[FloatArray], list[tuple[int, ...]], list[str]]:
    """Residuals of one run, the size of the numbers behind them, shapes and names, per query."""
    if len(rounds) != len(claimed_std):
        raise ValueError(
            f"claimed_std must have one entry for each of the {len(rounds)} rounds, got"
            f" {len(claimed_std)}"
        )
    scores, sizes, shapes, labels = [], [], [], []
    for number, ((released, exact), claimed) in enumerate(zip(rounds, claimed_std, strict=True)):
        values = as_queries(released, "released")
        truth = as_queries(exact, "exact")
        if len(truth) != len(values):
            raise ValueError("released and exact must have the same number of queries")
        if names is not None and (isinstance(names, str) or len(names) != len(values)):
            raise ValueError(f"names must be a sequence of {len(values)} strings")
        for index, (value, centre, std) in enumerate(
            zip(values, truth, claimed_stds(claimed, values), strict=True)
        ):
            centre = np.broadcast_to(centre, value.shape)
            scores.append(((value - centre) / std).ravel())
            sizes.append((np.abs(value) / std).ravel())
            shapes.append(value.shape)
            labels.append(
                f"round {number}: {names[index] if names is not None else f'query {index}'}"
            )
    return scores, sizes, shapes, labels
