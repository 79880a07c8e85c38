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
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from fedclust_helpers._validation import FloatArray, check_int, check_level, check_share

LARGE = 1e15  # a rho beyond is no promise: not amplified
ORDERS = (*range(2, 64), 72, 80, 96, 112, 128, 160, 192, 256)
"""Integer orders: both theorems are stated for them."""


def _log_binomial(n: int | FloatArray, k: FloatArray) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def fixed_size_brackets(
    orders: Sequence[int], curve: Callable[[FloatArray], FloatArray], rate: float,
    epsilon_inf: float = math.inf,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Logarithms of 1 + (term j = 2) and of the sum over j >= 3 of the theorem, for each order."""
    a = np.asarray(orders, dtype=np.float64)[:, None]
    j = np.arange(2, int(a.max()) + 1, dtype=np.float64)
    epsilons = np.asarray(curve(j), dtype=np.float64)
    e2 = float(epsilons[0])
    if epsilon_inf == 0:
        log_cap = np.full_like(j, -np.inf)
    elif epsilon_inf > math.log(3):  # then (e^eps(inf) - 1)^j > 2
        log_cap = np.full_like(j, math.log(2))
    else:
        log_cap = np.minimum(math.log(2), j * math.log(math.expm1(epsilon_inf)))
    first = math.log(4) + e2 + math.log(-math.expm1(-e2)) if e2 > 0 else -math.inf
    factors = (j - 1) * epsilons + log_cap
    factors[0] = min(first, e2 + log_cap[0])
    inside = j[None, :] <= a
    log_choose = _log_binomial(a, np.where(inside, j, a))
    terms = np.where(inside, log_choose + j * math.log(rate) + factors, -np.inf)
    tail = np.full(len(a), -np.inf)
    if terms.shape[1] > 1:
        tail = logsumexp(terms[:, 1:], axis=1)
    return np.logaddexp(0.0, terms[:, 0]), tail


def fixed_size_curve(
    orders: Sequence[int], curve: Callable[[FloatArray], FloatArray], rate: float,
    epsilon_inf: float = math.inf,
) -> FloatArray:  # fmt: skip
    """Renyi divergences of a release on a cohort of fixed size, replace-one.

    Wang, Balle and Kasiviswanathan (2019), Theorem 9, for any mechanism::

        (a-1) eps'(a) <= log(1 + q^2 C(a,2) min(4 (e^eps(2) - 1), e^eps(2) m(2))
                               + sum_{j=3}^a q^j C(a,j) e^((j-1) eps(j)) m(j)),
        m(j) = min(2, (e^eps(inf) - 1)^j)

    `curve` gives eps(j) for j = 2, 3, ... without sampling, one client, replace-one; `epsilon_inf`
    is eps(inf), inf for Gaussian noise; `rate` is cohort over population; `orders` are integers
    a >= 2. With noise without end and eps(inf) = inf the terms j >= 3 stay: the bound has a floor.
    """
    brackets = fixed_size_brackets(orders, curve, rate, epsilon_inf)
    return np.asarray(np.logaddexp(*brackets) / (np.asarray(orders, dtype=np.int64) - 1))


def _checked(rho: float, rate: float, order: int) -> tuple[float, float, int]:
    return (
        check_level(rho, "rho"), check_share(rate, "rate", one=True),
        check_int(order, "order", minimum=2),
    )  # fmt: skip


def fixed_size_rdp(rho: float, rate: float, order: int) -> float:
    """Renyi divergence of a rho-concentrated release on a cohort of fixed size, replace-one.

    The least of `fixed_size_curve`, with eps(j) = j rho, and of the release without sampling.
    """
    rho, rate, order = _checked(rho, rate, order)
    if rate == 1 or not 0 < rho < LARGE:
        return order * rho
    return min(float(fixed_size_curve([order], lambda j: j * rho, rate)[0]), order * rho)


def poisson_rdp(rho: float, rate: float, order: int) -> float:
    """Renyi divergence of a rho-concentrated release on a Poisson cohort, add/remove.

    Zhu and Wang (2019), general upper bound, with eps(j) = j rho::

        (a-1) eps'(a) <= log((1-q)^(a-1) (a q - q + 1) + C(a,2) q^2 (1-q)^(a-2) e^eps(2)
                             + 3 sum_{j=3}^a C(a,j) (1-q)^(a-j) q^j e^((j-1) eps(j)))

    Parameters as in `fixed_size_rdp`; `rate` is the probability with which a client takes part.
    """
    rho, rate, order = _checked(rho, rate, order)
    if rate == 1 or not 0 < rho < LARGE:
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
