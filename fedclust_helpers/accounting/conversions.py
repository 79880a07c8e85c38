"""Conversions between Gaussian DP, zero-concentrated DP and (epsilon, delta)-DP."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import log_ndtr, ndtri_exp

from fedclust_helpers._lazy import optimize
from fedclust_helpers._validation import (
    check_delta,
    check_epsilon,
    check_level,
    check_positive,
    check_real,
)
from fedclust_helpers.accounting.search import safe_root

LARGEST = 1e15  # an epsilon or mu beyond is no promise, and no float can tell such numbers apart


def to_calibrate(epsilon: float, delta: float) -> tuple[float, float]:
    """Epsilon and delta, if floats can tell noise that keeps them from noise that does not."""
    epsilon, delta = check_real(epsilon, "epsilon"), check_real(delta, "delta")
    if not 1 / LARGEST <= epsilon <= LARGEST:
        raise ValueError(f"epsilon must lie between 1e-15 and 1e15 to calibrate noise: {epsilon:g}")
    if not 1e-250 <= delta < 1:
        raise ValueError(f"delta must lie in [1e-250, 1) to calibrate noise, got {delta:g}")
    return epsilon, delta


def _calibrated(
    excess: Callable[[float], float], *, xtol: float = 1e-15, rtol: float = 1e-14,
    slack: float = 1e-9,
) -> float:  # fmt: skip
    """Where a rising function of a noise parameter passes 0, for noise that floats can express."""
    high = 1.0
    while excess(high) < 0:
        high *= 2
    while excess(high / 2) >= 0:
        high /= 2
    return safe_root(excess, high / 2, high, xtol=xtol * high, rtol=rtol, slack=slack)


# --- Gaussian differential privacy (Dong, Roth, Su 2022; FastLloyd Theorems 2.1 to 2.3) ----------


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP (FastLloyd, Theorem 2.3).

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), second term in logarithms.
    ValueError unless both are >= 0; infinite ones are allowed.
    """
    mu, epsilon = check_level(mu, "mu"), check_level(epsilon, "epsilon")
    if (
        mu == 0 or epsilon == math.inf or epsilon / mu > 1e150
    ):  # far beyond every float: no loss is as large
        return 0.0
    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(-math.exp(first) * math.expm1(min(second - first, 0.0)))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP; delta in [0, 1)."""
    mu, delta = check_level(mu, "mu"), check_delta(delta, allow_zero=True)
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if mu > LARGEST or delta == 0:
        return math.inf
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2
    return safe_root(
        lambda e: gdp_delta(mu, e) - delta, high, 0.0, xtol=1e-13, rtol=1e-14, slack=1e-9 * delta
    )


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP.

    Equivalently 1/mu is the noise multiplier of the analytic Gaussian mechanism (Balle and Wang
    2018): the smallest standard deviation per unit of L2 sensitivity.
    """
    epsilon, delta = to_calibrate(epsilon, delta)
    return _calibrated(lambda mu: math.log(max(gdp_delta(mu, epsilon), 1e-320)) - math.log(delta))


def gaussian_sigma_analytic(epsilon: float, delta: float) -> float:
    """Noise multiplier of the analytic Gaussian mechanism: exact, for any epsilon."""
    return 1.0 / gdp_mu(epsilon, delta)


def gaussian_sigma_classic(epsilon: float, delta: float, *, constant: float = 1.25) -> float:
    """Noise multiplier sqrt(2 ln(constant/delta))/epsilon, proved for epsilon < 1 only.

    The formula is evaluated for any epsilon, so that its failure above about epsilon = 8 can be
    shown; `mechanisms.Gaussian.from_budget` calibrates exactly.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    ratio = check_positive(constant, "constant") / delta
    if not 1 <= ratio < math.inf:
        raise ValueError(f"constant / delta must be finite and >= 1, got {ratio:g}")
    return math.sqrt(2 * math.log(ratio)) / epsilon


def most_right(epsilon: float, delta: float) -> float:
    """How often a guess which of two neighbours was there is right at most, each as likely before.

    Right with probability p either way needs p <= e^epsilon (1 - p) + delta, so p is at most
    1 - (1 - delta)/(1 + e^epsilon); 0.5 is a coin.
    """
    odds = math.exp(-check_level(epsilon, "epsilon"))
    delta = check_delta(delta, allow_zero=True)
    return 1 - (1 - delta) * odds / (1 + odds)


def pure_to_gdp_mu(epsilon: float) -> float:
    """Every epsilon-DP mechanism is mu-GDP with this mu = -2 Phi^-1(1/(1 + e^eps))."""
    epsilon = check_level(epsilon, "epsilon")
    return float(-2 * ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


# --- zero-concentrated differential privacy (Bun and Steinke 2016; Canonne et al. 2020) ----------


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at `delta` of a rho-zCDP mechanism (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    rho, delta = check_level(rho, "rho"), check_delta(delta, allow_zero=True)
    if rho == 0 or math.isinf(rho):
        return rho
    if delta == 0:
        return math.inf

    def bound(log_order: float) -> float:
        a = 1 + math.exp(log_order)
        return a * rho + math.log(1 / (a * delta)) / (a - 1) + math.log1p(-1 / a)

    best = optimize.minimize_scalar(
        bound, bounds=(-12.0, 80.0), method="bounded", options={"xatol": 1e-10}
    )
    return float(max(best.fun, 0.0))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta)-DP by `zcdp_epsilon`."""
    epsilon, delta = to_calibrate(epsilon, delta)
    return _calibrated(
        lambda rho: zcdp_epsilon(rho, delta) - epsilon, xtol=1e-12, rtol=9e-16,
        slack=1e-9 * epsilon,
    )  # fmt: skip
