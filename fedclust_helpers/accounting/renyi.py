"""Renyi curves of noise that is sampled *and* discrete, which ``dp-accounting`` does not know.

The library amplifies Gaussians only. But amplification needs no more than the Renyi curve of the
mechanism inside: any curve that lies above the true one gives a bound. A discrete Gaussian obeys
the curve alpha rho of its zero-concentrated guarantee (Canonne, Kamath, Steinke 2020, Theorem 4),
and so does any joint release of discrete and continuous Gaussians. The two theorems used here hold
for every mechanism:

* fixed cohorts, replace-one: Wang, Balle, Kasiviswanathan (2019), Theorem 9;
* Poisson cohorts, add/remove: Zhu and Wang (2019), the general upper bound (with its factor 3,
  which is needed where the tight bound for Gaussians is not proved).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from fedclust_helpers._validation import FloatArray

ORDERS = (*range(2, 64), 72, 80, 96, 112, 128, 160, 192, 256)
"""Integer orders: both theorems are stated for them."""


def _log_binomial(n: int, k: FloatArray) -> FloatArray:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def fixed_size_rdp(rho: float, rate: float, order: int) -> float:
    """Renyi divergence of a rho-concentrated release on a cohort of fixed size, replace-one.

    Wang, Balle and Kasiviswanathan (2019), Theorem 9, with eps(j) = j rho and eps(inf) = inf::

        (a-1) eps'(a) <= log(1 + q^2 C(a,2) min(4 (e^eps(2) - 1), 2 e^eps(2))
                               + sum_{j=3}^a 2 q^j C(a,j) e^((j-1) eps(j)))

    `rho` is that of the release without sampling, one client, replace-one; `rate` cohort over
    population; `order` an integer a >= 2.
    """
    if rate == 1:
        return order * rho
    if rho == 0:
        return 0.0
    second = 2 * math.log(rate) + float(_log_binomial(order, np.array(2.0)))
    second += min(math.log(4) + 2 * rho + math.log(-math.expm1(-2 * rho)), math.log(2) + 2 * rho)
    j = np.arange(3.0, order + 1)
    rest = math.log(2) + j * math.log(rate) + _log_binomial(order, j) + (j - 1) * j * rho
    amplified = float(logsumexp(np.concatenate([[0.0, second], rest]))) / (order - 1)
    return min(amplified, order * rho)


def poisson_rdp(rho: float, rate: float, order: int) -> float:
    """Renyi divergence of a rho-concentrated release on a Poisson cohort, add/remove.

    Zhu and Wang (2019), general upper bound, with eps(j) = j rho::

        (a-1) eps'(a) <= log((1-q)^(a-1) (a q - q + 1) + C(a,2) q^2 (1-q)^(a-2) e^eps(2)
                             + 3 sum_{j=3}^a C(a,j) (1-q)^(a-j) q^j e^((j-1) eps(j)))

    Parameters as in `fixed_size_rdp`; `rate` is the probability with which a client takes part.
    """
    if rate == 1:
        return order * rho
    stay, log_q = math.log1p(-rate), math.log(rate)
    first = (order - 1) * stay + math.log1p((order - 1) * rate)
    j = np.arange(2.0, order + 1)
    terms = _log_binomial(order, j) + (order - j) * stay + j * log_q + (j - 1) * j * rho
    terms[1:] += math.log(3)
    amplified = float(logsumexp(np.concatenate([[first], terms]))) / (order - 1)
    return min(max(amplified, 0.0), order * rho)


@lru_cache(maxsize=4096)
def sampled_rdp(scheme: str, rho: float, rate: float, orders: tuple[int, ...]) -> tuple[float, ...]:
    """The curve at all `orders` for "fixed" or "poisson" sampling; remembered, rounds are alike."""
    one = fixed_size_rdp if scheme == "fixed" else poisson_rdp
    return tuple(one(rho, rate, order) for order in orders)
