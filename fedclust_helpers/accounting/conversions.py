"""Conversions between Gaussian DP, zero-concentrated DP and (epsilon, delta)-DP."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri_exp
from scipy.stats import norm

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    check_delta,
    check_epsilon,
    check_non_negative,
    check_positive,
)

LARGEST = 1e15  # an epsilon or mu beyond is no promise, and no float can tell such numbers apart
SMALLEST = 1e-15


def _check_invertible(epsilon: float, delta: float) -> tuple[float, float]:
    """An (epsilon, delta) that noise can be calibrated to in floating point."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if not SMALLEST <= epsilon <= LARGEST:
        raise ValueError(
            f"epsilon must lie between {SMALLEST:g} and {LARGEST:g} to calibrate noise, got"
            f" {epsilon:g}"
        )
    if delta < 1e-250:
        raise ValueError(f"delta must be at least 1e-250 to calibrate noise, got {delta:g}")
    return epsilon, delta


# --- Gaussian differential privacy (Dong, Roth, Su 2022; FastLloyd Theorems 2.1 to 2.3) ----------


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP (FastLloyd, Theorem 2.3).

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), second term in logarithms.
    """
    mu, epsilon = check_non_negative(mu, "mu"), check_non_negative(epsilon, "epsilon")
    if mu == 0:
        return 0.0
    if epsilon / mu > 1e150:  # far beyond every float: no loss is as large
        return 0.0
    first = norm.logcdf(-epsilon / mu + mu / 2)
    second = epsilon + norm.logcdf(-epsilon / mu - mu / 2)
    return float(-math.exp(first) * math.expm1(min(second - first, 0.0)))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP."""
    mu, delta = check_non_negative(mu, "mu"), check_delta(delta)
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if mu > LARGEST:
        return math.inf
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2
    return float(brentq(lambda e: gdp_delta(mu, e) - delta, 0.0, high, xtol=1e-13, rtol=1e-14))


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP.

    Equivalently 1/mu is the noise multiplier of the analytic Gaussian mechanism (Balle and Wang
    2018): the smallest standard deviation per unit of L2 sensitivity.
    """
    epsilon, delta = _check_invertible(epsilon, delta)
    high = 1.0
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    while gdp_delta(high / 2, epsilon) >= delta:
        high /= 2
    return float(
        brentq(
            lambda m: math.log(max(gdp_delta(m, epsilon), 1e-320)) - math.log(delta),
            high / 2, high, xtol=1e-15 * high, rtol=1e-14,
        )
    )  # fmt: skip


def gaussian_sigma_analytic(epsilon: float, delta: float) -> float:
    """Noise multiplier of the analytic Gaussian mechanism: exact, for any epsilon."""
    return 1.0 / gdp_mu(epsilon, delta)


def gaussian_sigma_classic(epsilon: float, delta: float, *, constant: float = 1.25) -> float:
    """Noise multiplier sqrt(2 ln(constant/delta))/epsilon, proved for epsilon < 1 only.

    This function evaluates the formula for any epsilon, so that its failure above about
    epsilon = 8 can be shown; `mechanisms.Gaussian.classic` refuses epsilon >= 1.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if not check_positive(constant, "constant") >= delta:
        raise ValueError(f"constant must be at least delta, got {constant}")
    return math.sqrt(2 * math.log(constant / delta)) / epsilon


def pure_to_gdp_mu(epsilon: float) -> float:
    """Every epsilon-DP mechanism is mu-GDP with this mu = -2 Phi^-1(1/(1 + e^eps))."""
    epsilon = check_non_negative(epsilon, "epsilon")
    return float(-2 * ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


# --- zero-concentrated differential privacy (Bun and Steinke 2016; Canonne et al. 2020) ----------


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at `delta` of a rho-zCDP mechanism (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    rho, delta = check_non_negative(rho, "rho"), check_delta(delta)
    if rho == 0:
        return 0.0

    def bound(log_order: float) -> float:
        a = 1 + math.exp(log_order)
        return a * rho + math.log(1 / (a * delta)) / (a - 1) + math.log1p(-1 / a)

    best = minimize_scalar(bound, bounds=(-12.0, 80.0), method="bounded", options={"xatol": 1e-10})
    return float(max(best.fun, 0.0))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta)-DP by `zcdp_epsilon`."""
    epsilon, delta = _check_invertible(epsilon, delta)
    high = 1.0
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2
    while zcdp_epsilon(high / 2, delta) >= epsilon:
        high /= 2
    return float(
        brentq(lambda r: zcdp_epsilon(r, delta) - epsilon, high / 2, high, xtol=1e-12 * high)
    )


@checked
def basic_composition(budgets: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Sequential composition of (epsilon, delta) pairs: both add up.

    Raises
    ------
    ValueError, TypeError
        If `budgets` holds anything but pairs of an epsilon >= 0 and a delta in [0, 1).
    """
    try:
        pairs = [(e, d) for e, d in budgets]
    except (TypeError, ValueError):
        raise TypeError("budgets must be a sequence of (epsilon, delta) pairs") from None
    for e, d in pairs:
        check_non_negative(e, "epsilon of budgets")
        check_delta(d, "delta of budgets", allow_zero=True)
    return math.fsum(e for e, _ in pairs), math.fsum(d for _, d in pairs)
