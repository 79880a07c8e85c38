"""Growth with n: slopes in logarithms, and what a threshold of sqrt(n) misses of a long tail."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fedclust_helpers._validation import (
    FloatArray,
    as_numbers,
    check_int,
    check_non_negative,
    check_share,
)
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse


class Slope(NamedTuple):
    """Slope of a line through logarithms, with a confidence interval."""

    slope: float
    low: float
    high: float


def loglog_slope(n: ArrayLike, values: ArrayLike, *, level: float = 0.95) -> Slope:
    """b in values ~ n^b (three pairs or more), least squares on logarithms, Student interval."""
    x, y = as_numbers(n, "n", ndim=1), as_numbers(values, "values", ndim=1)
    if x.shape != y.shape or len(x) < 3 or not (x > 0).all() or not (y > 0).all():
        raise ValueError("n and values must be as many positive numbers, at least 3")
    level = check_share(level, "level")
    if np.ptp(x) == 0:
        raise ValueError("n must hold different numbers: a line needs a slope")
    if np.ptp(y) == 0:
        return Slope(0.0, 0.0, 0.0)
    fit = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf((1 + level) / 2, len(x) - 2) * fit.stderr
    return Slope(float(fit.slope), float(fit.slope - half), float(fit.slope + half))


def zipf_shares(n_values: int = 2000, exponent: float = 1.2) -> FloatArray:
    """Shares v^-exponent of values 1..V, adding up to 1."""
    check_int(n_values, "n_values", maximum=2**27)
    shares = np.arange(1.0, n_values + 1) ** -check_non_negative(exponent, "exponent")
    return np.asarray(shares / shares.sum())


def missed_mass(n: int, epsilon: float) -> float:
    """Users whose value has fewer than 3.5 c sqrt(n) holders, values from `zipf_shares`.

    With few large values it is constant or about sqrt(n); with this long tail almost like n.
    """
    counts = check_int(n, "n") * zipf_shares()
    return float(counts[counts < 3.5 * RandomizedResponse(epsilon).debias * math.sqrt(n)].sum())
