"""Growth with n: slopes in logarithms, and the long tail of a Zipf law."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fedclust_helpers._validation import FloatArray, as_numbers


class Slope(NamedTuple):
    """Slope of a line through logarithms, with a confidence interval."""

    slope: float
    low: float
    high: float


def loglog_slope(n: ArrayLike, values: ArrayLike, *, level: float = 0.95) -> Slope:
    """b in values ~ n^b (three pairs or more), least squares on logarithms, Student interval."""
    x, y = as_numbers(n, "n", ndim=1), as_numbers(values, "values", ndim=1)
    if np.ptp(y) == 0:
        return Slope(0.0, 0.0, 0.0)
    fit = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf((1 + level) / 2, len(x) - 2) * fit.stderr
    return Slope(float(fit.slope), float(fit.slope - half), float(fit.slope + half))


def zipf_shares(n_values: int = 2000, exponent: float = 1.2) -> FloatArray:
    """Shares v^-exponent of values 1..V, adding up to 1."""
    shares = np.arange(1.0, n_values + 1) ** -exponent
    return np.asarray(shares / shares.sum())
