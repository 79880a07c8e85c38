"""A summary of every column in one release: number, mean, spread, quartiles, histogram.

Each row counts in one of 20 bins of each column, again in one of 320, and adds (1, u, u^2 - 1/2),
where u is its place between the bounds, from -1 to 1. All columns are asked together, which hides
as much as one question at sqrt(d) times the noise of a single one; asked one by one, seven
questions a column, it would be sqrt(7 d) for each.

All intervals hold the noise and what a sample of so many rows may be off. They are for one number
at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust.describing.bounds import (
    Limits,
    check_rate,
    default_delta,
    of_rows,
    private_bounds,
    told,
)
from fedclust_helpers._validation import FloatArray, as_bound, check_int, check_share
from fedclust_helpers.client_statistics import DESCRIPTION
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import Algorithm, Options, Public, Release, Steps, gaussian

BOUNDS_SHARE = 0.2
"""Share of mu^2 for bounds that are found privately."""
SHARES = (0.5, 0.2, 0.3)  # of the rest: for bins, finer bins, moments
PARTS = 16  # of a bin
QUARTILES = (0.25, 0.5, 0.75)
Bins = Annotated[int, partial(check_int, minimum=2, maximum=200)]
Level = Annotated[float, check_share]


class Estimate(NamedTuple):
    """Values (d, ...) with the ends of their intervals.

    >>> mean = Estimate(value=40.2, low=39.8, high=40.6)
    >>> mean.low <= mean.value <= mean.high
    True
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of each column: d columns, b bins.

    `count`, `mean` and `spread` (the standard deviation) are `Estimate`s of (d,), `quartiles` one
    of (d, 3). `histogram` (d, b) are noised counts between `edges` (d, b + 1), each with a standard
    deviation of `std`. Where the bounds were found privately, `limits` says how.

    >>> import numpy as np
    >>> from fedclust.describing import plan_summary, run
    >>> from fedclust_helpers.federation import simulate
    >>> federation = simulate([np.linspace(20, 80, 2000)[:, None]], "trusted", seed=0, domain="raw")
    >>> known = run(federation, plan_summary(federation, epsilon=1.0, lower=[0], upper=[100])).value
    >>> known.mean.value.round(-1), known.histogram.shape
    (array([50.]), (1, 20))
    """

    lower: FloatArray
    upper: FloatArray
    count: Estimate
    mean: Estimate
    spread: Estimate
    quartiles: Estimate
    histogram: FloatArray
    edges: FloatArray
    std: float
    limits: Limits | None


def private_summary(
    public: Public, sigma: float, *, lower: ArrayLike | None = None,
    upper: ArrayLike | None = None, bins: Bins = 20, level: Level = 0.95,
) -> Steps:  # fmt: skip
    """A summary of all columns for a total of (epsilon, delta), one row.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan_summary` takes the `federation` that will run it, with
        ``domain="raw"``: rows in their own units. A missing number (nan) counts nowhere.
    sigma : float
        Noise multiplier of all releases together. `plan_summary` takes `epsilon` and `delta`, the
        total, and finds the least; delta is 1/(N ln N) by default, with N the public number of
        rows.
    lower, upper : float or array_like of shape (d,), optional
        Public bounds, in the units of the rows; numbers beyond count as the bound. Without them
        bounds are found privately first, for a fifth of mu^2 (`plan_bounds`).
    bins : int
        Bins of the histogram of each column.
    level : float
        Of the intervals, each by itself.

    Raises
    ------
    ValueError
        If rows are so few that private bounds would be noise.
    """
    d, limits = public.facts.n_features, None
    if lower is None or upper is None:
        limits = yield from private_bounds(public, sigma / math.sqrt(BOUNDS_SHARE))
        low, high = limits.lower, limits.upper
        sigma /= math.sqrt(1 - BOUNDS_SHARE)
    else:
        low, high = as_bound(lower, "lower", d), as_bound(upper, "upper", d)
    answer = yield Release(
        DESCRIPTION, [gaussian(sigma / math.sqrt(share)) for share in SHARES],
        lower=low, upper=high, n_bins=bins, n_parts=PARTS,
    )  # fmt: skip
    (counts, fine, moments), std = answer, answer.std
    z = NormalDist().inv_cdf((1 + level) / 2)
    # the number of rows is released three times: weighted by inverse variance
    totals = np.stack([counts.sum(axis=1), fine.sum(axis=1), moments[:, 0]])
    variances = np.array([bins * std[0] ** 2, bins * PARTS * std[1] ** 2, std[2] ** 2])
    number_var = float(1 / (1 / variances).sum())
    number = number_var * (totals / variances[:, None]).sum(axis=0)
    n = np.maximum(number, 1.0)
    # finer bins say more of the bins than these alone: both together, by inverse variance
    cells = fine.reshape(d, bins, PARTS)
    exact, rough = std[0] ** 2, PARTS * std[1] ** 2
    both = (counts * rough + cells.sum(axis=2) * exact) / (exact + rough)
    both_std = math.sqrt(exact * rough / (exact + rough))
    edges = np.linspace(low, high, bins + 1, axis=1)
    each = zip(both, cells, low, high, n, strict=True)
    quartiles = [_quartiles(*own, both_std, std[1], z) for own in each]
    mean, spread = _moments(moments, n, std[2], number_var, z, low, high)
    return Summary(
        low, high, _around(number, z * math.sqrt(number_var), floor=0.0), mean, spread,
        Estimate(*np.array(quartiles).transpose(2, 0, 1)), both, edges, both_std, limits,
    )  # fmt: skip


def _around(value: FloatArray, half: Any, *, floor: float = -math.inf) -> Estimate:
    return Estimate(value, np.maximum(value - half, floor), value + half)


def _moments(
    moments: FloatArray, n: FloatArray, std: float, number_var: float, z: float, low: FloatArray,
    high: FloatArray,
) -> tuple[Estimate, Estimate]:  # fmt: skip
    """Mean and standard deviation of each column, in its units."""
    half = (high - low) / 2
    mean = np.clip(moments[:, 1] / n, -1, 1)
    square = moments[:, 2] / n
    variance = np.clip(square + 0.5 - mean**2, 1e-6, 1.0)
    mean_var = (std**2 + mean**2 * number_var) / n**2 + variance / n
    # the derivatives of square + 1/2 - mean^2, and of (u - m)^2 <= (1 + |m|)^2 the variance at most
    noise = std**2 * (1 + 4 * mean**2) + (2 * mean**2 - square) ** 2 * number_var
    sampled = variance * np.maximum((1 + np.abs(mean)) ** 2 - variance, 0.0)
    wide = z * np.sqrt(noise / n**2 + sampled / n)
    spread = Estimate(
        *(half * np.sqrt(np.clip(v, 0, 1)) for v in (variance, variance - wide, variance + wide))
    )
    value = low + (mean + 1) * half
    return _around(value, z * half * np.sqrt(mean_var)), spread


def _quartiles(
    counts: FloatArray, cells: FloatArray, low: float, high: float, n: float, std: float,
    fine_std: float, z: float,
) -> FloatArray:  # fmt: skip
    """Quartiles of one column, each with its interval (3, 3): where the counts have passed enough.

    Bins tell in which bin a quartile lies, finer bins where in it. Ends are edges of finer bins:
    many rows may have one value.
    """
    b, parts = cells.shape
    within = np.maximum(cells - fine_std, 0.0) + 1e-9  # what is noise alone is left out
    within *= (np.maximum(counts, 0.0) / within.sum(axis=1))[:, None]
    passed = np.concatenate([[0.0], np.cumsum(within)])
    edges = np.linspace(low, high, b * parts + 1)
    i = np.arange(b * parts + 1) / parts
    found = []
    for p in QUARTILES:
        above = passed - p * passed[-1]
        noise = std**2 * (i * (1 - p) ** 2 + (b - i) * p**2) + fine_std**2 * parts / 4
        spread = z * np.sqrt(noise + n * p * (1 - p))
        at = float(np.interp(0.0, above, edges))
        before, after = np.flatnonzero(above + spread < 0), np.flatnonzero(above - spread > 0)
        bottom = edges[before[-1]] if len(before) else low
        top = edges[after[0]] if len(after) else high
        found.append((at, min(at, bottom), max(at, top)))
    return np.array(found)


# --- what the planner knows -----------------------------------------------------------------------


def _checked(facts: FederationFacts, options: Options) -> Options:
    """Both bounds or none, as arrays."""
    options = of_rows(facts, options)
    sides = {name: options[name] for name in ("lower", "upper")}
    if all(side is None for side in sides.values()):
        return options
    for name, side in sides.items():
        if side is None:
            raise ValueError(f"{name} must be given beside the other bound, or neither")
        sides[name] = as_bound(side, name, facts.n_features).copy()
    if not (sides["lower"] < sides["upper"]).all():
        raise ValueError("lower must be below upper in every column")
    return options | sides


def _predict(plan: Plan) -> tuple[float, str]:
    if plan.options["lower"] is None:
        check_rate(plan.facts, plan.dial / math.sqrt(BOUNDS_SHARE))
    counts = plan.mechanisms[-1][0]
    std = plan.facts.more_noise * counts.std
    return std, "rows is the standard deviation of a bin of the histograms, at most"


def _says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if plan.options["lower"] is not None:
        return rows
    sigma = plan.dial / math.sqrt(BOUNDS_SHARE)
    return [*rows, *told(plan.facts, sigma, share=BOUNDS_SHARE)]


SUMMARY = Algorithm(
    name="private summary", steps=private_summary, check=_checked, default_delta=default_delta,
    predict=_predict, says=_says,
)  # fmt: skip
plan_summary = SUMMARY.planner("plan_summary")
