"""Bounds of every column, found privately: where the rows lie, to within what k-means needs.

One release counts the rows of each column by sign and power of two, 383 public bins, so nothing
must be known of units or sizes. Where there are rows enough, one or two more releases look closer,
32 equal bins between the bounds so far. What is looked at, and how closely, is decided from what
was released; how many releases there are, from public numbers alone.

How well that works is public, too: `rate`, the noise of one bin as a share of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from fedclust.describing.windows import Window, support, threshold, trimmed
from fedclust_helpers._validation import FloatArray, check_share
from fedclust_helpers.client_statistics import MAGNITUDE_COUNTS, WEIGHTED_COUNTS, magnitude_edges
from fedclust_helpers.client_statistics.histograms import LARGEST, SMALLEST
from fedclust_helpers.fastlloyd import default_delta as delta_of
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import Algorithm, Options, Public, Release, Steps, gaussian

WARNED, REFUSED = 0.013, 0.05
"""Rates: above the first some per cent of all rows are clipped, above the second most are."""
STAGES = ((0.003, (0.7, 0.15, 0.15)), (0.006, (0.85, 0.15)), (math.inf, (1.0,)))
"""Up to which rate there are how many releases, with which shares of mu^2."""
BINS = 64  # of a closer look
TAIL = 0.001  # share of the rows that may lie beyond each end
OCTAVES = 3  # powers of two at most that the rows of a narrow column reach, all of one sign
FEW = 6  # bins, with their margins: a column in no more is worth another such look
NARROW = 4.0  # times more weight for such a column
MOSTLY = 0.5  # of the rows in the zero bin: the others are too few for a closer look
ZERO = LARGEST - SMALLEST  # the bin of zero
Alarm = Annotated[float, check_share]


class Limits(NamedTuple):
    """Bounds `lower` and `upper` (d,), and in which columns (d,) rows were `found` for sure.

    `histograms` are the released counts of each look, (d, b), each with its `edges` (d, b + 1).

    >>> import numpy as np
    >>> from fedclust.describing import plan_bounds, run
    >>> from fedclust_helpers.federation import simulate
    >>> federation = simulate([np.linspace(20, 80, 2000)[:, None]], "trusted", seed=0, domain="raw")
    >>> limits = run(federation, plan_bounds(federation, epsilon=1.0)).value
    >>> limits.found, len(limits.histograms)
    (array([ True]), 3)
    """

    lower: FloatArray
    upper: FloatArray
    found: Any
    histograms: tuple[FloatArray, ...]
    edges: tuple[FloatArray, ...]


def rate(facts: FederationFacts, sigma: float) -> float:
    """Noise of one bin as a share of the rows, if one release had all of the budget: public.

    sqrt(d)/(mu n) where one party adds the noise, with mu = 1/sigma that of the bounds; sqrt(2)
    times as much for a replaced row.
    """
    d = facts.n_features
    length = MAGNITUDE_COUNTS.sensitivity_of("counts", 2, facts.adjacency, n_features=d)
    return facts.more_noise * length * sigma / facts.n_records


def private_bounds(public: Public, sigma: float, *, alarm: Alarm = 0.01) -> Steps:
    """Bounds of all columns for a total of (epsilon, delta), one row.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan_bounds` takes the `federation` that will run it, with
        ``domain="raw"``: rows in their own units. A missing number (nan) counts nowhere.
    sigma : float
        Noise multiplier of all releases together: among how many it is divided follows from the
        `rate`, a public number. `plan_bounds` takes `epsilon` and `delta`, the total, and finds the
        least; delta is 1/(N ln N) by default.
    alarm : float
        Probability, at most, that any column without rows is taken for one that has some.

    Raises
    ------
    ValueError
        If rows are so few that bounds would be noise (`rate` above 0.05).
    """
    d = public.facts.n_features
    shares = next(s for most, s in STAGES if rate(public.facts, sigma) <= most)
    answer = yield Release(MAGNITUDE_COUNTS, [gaussian(sigma / math.sqrt(shares[0]))])
    (counts,), (std,) = answer, answer.std
    edges = np.broadcast_to(magnitude_edges(), (d, counts.shape[1] + 1))
    z = threshold(counts.shape[1], d, alarm / len(shares))
    windows = [support(own, std, z, TAIL) for own in counts]
    found = np.array([window.found for window in windows])
    lower, upper = _ends(edges, windows)
    kinds = [_weight(own, window) for own, window in zip(counts, windows, strict=True)]
    looks = [(counts, edges)]
    for share in shares[1:]:
        weights = _weights(kinds, lower, upper)
        answer = yield Release(
            WEIGHTED_COUNTS, [gaussian(sigma / math.sqrt(share))], lower=lower, upper=upper,
            weights=weights, n_bins=BINS,
        )  # fmt: skip
        heavy = np.maximum(weights, 2.0**-16)
        counts, stds = answer[0] / heavy[:, None], answer.std[0] / heavy
        edges = np.linspace(lower, upper, BINS + 1, axis=1)
        z = threshold(BINS, d, alarm / len(shares))
        n = public.facts.n_records
        for j in np.flatnonzero(weights):
            window = _closer(counts[j], stds[j], z, n, kinds[j])
            lower[j], upper[j] = edges[j, window.first], edges[j, window.last + 1]
            if window.last - window.first > FEW:
                kinds[j] = min(kinds[j], 1.0)
        looks.append((counts, edges))
    return Limits(lower, upper, found, *(tuple(each) for each in zip(*looks, strict=True)))


def _ends(edges: FloatArray, windows: list[Window]) -> tuple[FloatArray, FloatArray]:
    sides = ((own[w.first], own[w.last + 1]) for own, w in zip(edges, windows, strict=True))
    lower, upper = np.array(list(sides)).T
    return lower.copy(), upper.copy()


def _weight(counts: FloatArray, window: Window) -> float:
    """How closely a column is worth looking at: not at all where zeros dominate."""
    total = max(float(counts[window.first : window.last + 1].sum()), 1.0)
    if window.first <= ZERO <= window.last:
        return 0.0 if counts[ZERO] > MOSTLY * total else 1.0
    return NARROW if window.last - window.first < OCTAVES else 1.0


def _weights(kinds: list[float], lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Weights (d,) with squares that add up to d at most: multiples of 2^-16, so sums are exact."""
    weights = np.array(kinds) if any(kinds) else np.ones(len(kinds))
    weights = weights * math.sqrt(len(kinds) / float((weights**2).sum()))
    return np.floor(weights * 2.0**16 * (1 - 1e-9)) / 2.0**16


def _closer(counts: FloatArray, std: float, z: float, n: int, kind: float) -> Window:
    """A closer look at one column, with a margin on either side."""
    if kind == NARROW:
        window = support(counts, std, z, TAIL)
        if not window.found:
            return Window(0, len(counts) - 1, True)
    else:
        window = trimmed(counts, std, TAIL * n)
    margin = 1 + (window.last - window.first) // 10
    return Window(max(window.first - margin, 0), min(window.last + margin, len(counts) - 1), True)


def check_sizes(points: FloatArray, columns: Sequence[Any], name: str) -> None:
    """Refuse numbers that the bins of sizes do not tell apart, before bounds of them are paid for.

    Those from 2^127 on, and a column of which none but zeros is as large as 2^-64.
    """
    sizes = np.abs(points)
    with np.errstate(invalid="ignore"):
        small = (sizes > 0).any(axis=0) & ~(sizes >= 2.0**SMALLEST).any(axis=0)
        wrong = small | (sizes >= 2.0**LARGEST).any(axis=0)
    if wrong.any():
        said = ", ".join(str(columns[j]) for j in np.flatnonzero(wrong).tolist())
        raise ValueError(
            f"{name} must have numbers of sizes from 5e-20 to 1.7e38 for private bounds, but column"
            f" {said} has others: change its unit by a public factor"
        )


def of_rows(facts: FederationFacts, options: Options) -> Options:
    """The options, for a federation of raw rows that hides one of them."""
    if facts.unit != "point" or facts.domain != "raw":
        raise ValueError(
            "federation must hold raw rows (domain='raw') and keep a ledger for one point, got"
            f" {facts.domain!r} and one {facts.unit}"
        )
    return options


def default_delta(facts: FederationFacts, options: Options) -> float:
    """1/(N ln N), for the public number N of records."""
    return delta_of(facts.n_records)


def check_rate(facts: FederationFacts, sigma: float) -> tuple[float, str]:
    """The rate, and what it means; refused where bounds would be noise."""
    found = rate(facts, sigma)
    if found > REFUSED:
        raise ValueError(
            f"epsilon must be larger, rows more or columns fewer: noise in one bin is {found:.3g}"
            f" of all rows (limit {REFUSED:g}), so most would be clipped. Give public bounds, or"
            f" {math.ceil(facts.n_records * found / REFUSED):,} rows"
        )
    return found, "of all rows is the noise of one bin, if bounds are found in one release"


def _predict(plan: Plan) -> tuple[float, str]:
    return check_rate(plan.facts, plan.dial)


def told(
    facts: FederationFacts, sigma: float, *, share: float = 1.0, alarm: float = 0.01
) -> list[tuple[str, str]]:
    """What a statement says of bounds that have this `share` of mu^2."""
    found = rate(facts, sigma)
    part = "" if share == 1 else f", for {share:.0%} of mu^2"
    rows = [(
        "finds bounds", f"of every column{part}, from counts of rows by sign and power of two; a"
        f" column without rows is taken for one with rows with probability {alarm:g} at most; noise"
        f" in one bin is {found:.3g} of all rows, whose number is public",
    )]  # fmt: skip
    if found > WARNED:
        rows.append((
            "WARNING", f"few rows for private bounds: with noise above {WARNED:.1%} of all rows in"
            " one bin, several per cent of the rows may lie outside them and be clipped",
        ))  # fmt: skip
    return rows


def _says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*rows, *told(plan.facts, plan.dial, alarm=plan.options["alarm"])]


BOUNDS = Algorithm(
    name="private bounds", steps=private_bounds, check=of_rows, default_delta=default_delta,
    predict=_predict, says=_says,
)  # fmt: skip
plan_bounds = BOUNDS.planner("plan_bounds")
