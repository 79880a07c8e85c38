"""What T rounds on sampled clients cost: Renyi curves of cohorts, and the exact one of everybody.

One round releases identifiers (or counts) and cluster sums of one sample of clients. With Gaussian
noise on both it is one Gaussian mechanism with 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2,
sampled and composed T times. Every function speaks of sigma_eff, of one client, and of the relation
of its accountant (`ACCOUNTANTS`); accountants of two relations make different promises.

Throughout, ``n_clients`` is M and ``cohort`` the clients of a round: exactly (fixed size), or on
average (Poisson, rate cohort/n_clients).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from fedclust_helpers._lazy import dpa
from fedclust_helpers._validation import (
    FloatArray,
)
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.accounting.entries import relation
from fedclust_helpers.accounting.renyi import fixed_size_curve
from fedclust_helpers.accounting.search import MAX_SIGMA, least
from fedclust_helpers.accounting.totals import RDP_ORDERS

JOINT_ORDERS = tuple(range(2, 65)) + tuple(range(72, 257, 8))  # its theorem is for integers
# Orders of `PrivacyLedger` from 2 on: below, sampled Gaussians don't converge and never do better.
RUN_ORDERS = tuple(order for order in RDP_ORDERS if order >= 2)
SIGMAS = (1e-100, 1e100)  # noise multipliers whose squares are numbers


class Accountant(NamedTuple):
    """One way to bound T rounds: under which relation and sampling."""

    adjacency: str
    sampling: str


ACCOUNTANTS: dict[str, Accountant] = {
    # RDP of the Gaussian sampled without replacement (Wang et al. 2019, Theorem 27)
    "wor_rdp": Accountant("replace-one", "fixed"),
    # RDP of the Poisson-sampled one (Mironov, Talwar, Zhang 2019)
    "poisson_rdp": Accountant("add/remove", "poisson"),
}
"""sigma_eff = 1 means, if the whole budget goes to the sums, noise of standard deviation 2C for the
"fixed" one (with sqrt(2) on identifiers), and C for the "poisson" one (with 1 on counts). Where all
clients take part in each round nothing is amplified, and both give the exact curve of the Gaussian
(Dong, Roth, Su 2022, Corollary 2.13)."""
WORTHWHILE = (0.05, 100.0)  # epsilons outside: accountants of cohorts are slow and gain nothing
COUNTS_SHARE = 0.1  # of 1/sigma_eff^2 that noised counts get, under add/remove
SCHEMES = {row.adjacency: row.sampling for row in ACCOUNTANTS.values()}
"""Neighbouring relation of a ledger -> the sampling that is accounted under it."""
DEFAULT = {row.adjacency: name for name, row in ACCOUNTANTS.items()}
"""Neighbouring relation -> the accountant of cohorts."""


def krr_rdp(alpha: float | FloatArray, epsilon: float, *, n_clusters: int = 2) -> Any:
    """Renyi divergence (replace-one) of k-ary randomised response with `n_clusters` answers.

    With two answers, the default, it bounds every epsilon-DP mechanism, so also the exponential
    one. `alpha` > 1 may be an array.
    """
    k = n_clusters
    if k == 1 or epsilon == 0:
        return alpha * 0.0
    a = np.asarray(alpha, dtype=np.float64)
    log_r = -np.logaddexp(epsilon, math.log(k - 1))  # probability of one given wrong answer
    terms = [log_r + a * epsilon, log_r + (1 - a) * epsilon]
    if k > 2:
        terms.append(np.full_like(a, log_r + math.log(k - 2)))
    divergence = logsumexp(np.stack(terms), axis=0) / (a - 1)
    return divergence if np.ndim(alpha) else float(divergence)


def converted(orders: Sequence[float], rdp: FloatArray, delta: float) -> float:
    """Epsilon at `delta` from a Renyi curve, at the best of `orders`.

    By Proposition 12 of Canonne, Kamath and Steinke (2020), as in ``dp-accounting``.
    """
    a = np.asarray(orders, dtype=np.float64)
    return max(0.0, float(np.min(rdp + np.log1p(-1 / a) - np.log(delta * a) / (a - 1))))


# --- Gaussian rounds ------------------------------------------------------------------------------


def certified_epsilon(
    sigma: float, *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    """Epsilon of `n_rounds` rounds at noise multiplier sigma_eff, by one of `ACCOUNTANTS`."""
    if cohort == n_clients:
        return gdp_epsilon(math.sqrt(n_rounds) / sigma, delta)
    if sigma > MAX_SIGMA:
        raise ValueError(f"sigma must be <= {MAX_SIGMA:g} (the library loses precision above)")
    return _epsilon(sigma, delta, n_rounds, n_clients, cohort, accountant)


@lru_cache(maxsize=4096)
def _epsilon(
    sigma: float, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    event = dpa.PoissonSampledDpEvent(cohort / n_clients, dpa.GaussianDpEvent(sigma))
    if accountant == "wor_rdp":
        event = dpa.SampledWithoutReplacementDpEvent(n_clients, cohort, dpa.GaussianDpEvent(sigma))
    return event_epsilon(event, ACCOUNTANTS[accountant].adjacency, n_rounds, delta)


def event_epsilon(
    event: dpa.DpEvent, adjacency: str, n_rounds: int, delta: float, *,
    orders: Sequence[float] | None = RUN_ORDERS,
) -> float:  # fmt: skip
    """Epsilon of equal rounds by ``dp-accounting``: at Renyi `orders`, or (None) by PLD."""
    near = relation(adjacency)
    bound: dpa.PrivacyAccountant = dpa.pld.PLDAccountant(near)
    if orders is not None:
        bound = dpa.rdp.RdpAccountant(orders, near)
    bound.compose(dpa.SelfComposedDpEvent(event, n_rounds))
    return float(bound.get_epsilon(delta))


def floor_epsilon(*, delta: float, n_clients: int, cohort: int) -> float:
    """The limit of `certified_epsilon` as sigma grows: no noise certifies less.

    That of the conversion at the largest order, which is 0 unless delta is very small.
    """
    return converted(RUN_ORDERS, np.zeros(len(RUN_ORDERS)), delta) if cohort < n_clients else 0.0


@lru_cache(maxsize=1024)
def calibrate(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:  # fmt: skip
    """The smallest sigma_eff for which `accountant` certifies (epsilon, delta) over `n_rounds`.

    Cached. The result never costs more than `epsilon`, and is within 1e-6 of the smallest. With
    ``cohort == n_clients`` it is sqrt(n_rounds)/mu, mu that of (epsilon, delta): exact. ValueError
    if `epsilon` is not above the floor of the accountant, which the message names.
    """
    who: dict[str, Any] = {"delta": delta, "n_clients": n_clients, "cohort": cohort}
    if cohort == n_clients:
        # a hair more, so that rounding does not lift the total above epsilon
        return (1 + 1e-12) * math.sqrt(n_rounds) / gdp_mu(epsilon, delta)
    floor = floor_epsilon(**who)
    refusal = floor_refusal(floor, epsilon, accountant, n_rounds, **who)
    if epsilon <= floor:
        raise ValueError(refusal)
    run = who | {"n_rounds": n_rounds}
    # sampling without replacement takes long: start from a cheap bound, and step finely
    start, step = 1.0, math.log(2)
    if accountant == "wor_rdp":
        cheap = joint_multiplier(epsilon, room=1.05, **run)
        if cheap is not None:
            start, step = cheap, 0.1
        elif epsilon > 1.05 * floor:
            start, step = 2 * calibrate(epsilon, accountant="poisson_rdp", **run), 0.1

    def excess(sigma: float) -> float:
        return certified_epsilon(sigma, accountant=accountant, **run) - epsilon

    return least(excess, refusal, start=start, step=step, lowest=-epsilon)


def noise_multiplier(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> tuple[float, str]:
    """(sigma_eff, accountant) of Gaussian rounds: of the cohort's `accountant`, or the exact curve.

    The exact curve ("gdp": sigma_eff = sqrt(T)/mu) knows of no sampling, so it always holds. It is
    taken where everybody takes part, and where a cohort is so large that sampling gains nothing.
    """
    run: dict[str, Any] = {"n_rounds": n_rounds, "n_clients": n_clients, "accountant": accountant}
    exact = calibrate(epsilon, delta, cohort=n_clients, **run)
    if cohort < n_clients and WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
        if epsilon > floor_epsilon(delta=delta, n_clients=n_clients, cohort=cohort):
            sampled = calibrate(epsilon, delta, cohort=cohort, **run)
            if sampled < exact:
                return sampled, accountant
    return exact, "gdp"


def floor_refusal(
    floor: float, epsilon: float, accountant: str, n_rounds: int, *, delta: float, n_clients: int,
    cohort: int,
) -> str:  # fmt: skip
    """What is said where `epsilon` is not above the floor of an accountant."""
    return (
        f"epsilon must be > {floor:.4g} for {n_rounds} rounds at delta={delta:g} and rate"
        f" {cohort / n_clients:g}: no noise makes accountant {accountant!r} certify less (its"
        f" floor); got {epsilon:g}"
    )


def split_identifiers(sigma_eff: float, share: float) -> tuple[float, float]:
    """(sigma_s, sigma_theta) with 1/sigma_s^2 = share/sigma_eff^2 and the rest for sigma_theta.

    Identifiers then carry noise sqrt(2) C_s sigma_s and sums 2C sigma_theta (replace-one). The same
    split serves counts and sums under add/remove: counts get noise sigma_s, sums C sigma_theta.
    ``share = 0`` gives sigma_s = inf: nothing but the sums is released (DP-FedAvg).
    """
    sigma_s = sigma_eff / math.sqrt(share) if share else math.inf
    return sigma_s, sigma_eff / math.sqrt(1 - share)


# --- identifiers of a pure mechanism (exponential, k-ary randomised response) ---------------------


def mixed_epsilon(
    sigma_theta: float, identifier_epsilon: float, *, delta: float, n_rounds: int, n_clients: int,
    cohort: int, n_clusters: int = 2, amplified: bool = False,
) -> float:  # fmt: skip
    """Epsilon of rounds that release epsilon-DP identifiers and Gaussian sums of one sample.

    Replace-one, fixed size; `sigma_theta` for sums with noise 2C sigma_theta, `identifier_epsilon`
    for one answer of k-ary randomised response with `n_clusters` answers (2 bounds every pure
    mechanism; with epsilon 0 the sums are alone). The two share their sample and are one event: to
    charge the sums as sampled and the identifiers apart as unsampled is no proof, since identifiers
    tell something about who was drawn. ``dp-accounting`` amplifies no such pair. So both are
    charged as if everyone took part; or, `amplified`, by the theorem of
    `accounting.renyi.fixed_size_curve`, which takes any Renyi curve but has a floor: no noise
    certifies less.
    """

    def curve(a: FloatArray) -> FloatArray:
        answer = krr_rdp(a, identifier_epsilon, n_clusters=n_clusters)
        return np.asarray(answer + a / (2 * sigma_theta**2))

    if not amplified:
        return converted(RUN_ORDERS, n_rounds * curve(np.asarray(RUN_ORDERS)), delta)
    alone = identifier_epsilon > 0 and math.isinf(sigma_theta)
    epsilon_inf = identifier_epsilon if alone else math.inf
    rdp = n_rounds * fixed_size_curve(JOINT_ORDERS, curve, cohort / n_clients, epsilon_inf)
    return converted(JOINT_ORDERS, rdp, delta)


@lru_cache(maxsize=1024)
def joint_multiplier(
    epsilon: float, *, delta: float, n_rounds: int, n_clients: int, cohort: int, room: float = 1.0
) -> float | None:
    """The smallest sigma_eff of amplified sums alone by `mixed_epsilon`, as `calibrate` gives it.

    None where `epsilon` is not above `room` times the floor of the theorem.
    """
    run: dict[str, Any] = {"delta": delta, "n_rounds": n_rounds, "n_clients": n_clients}
    run |= {"cohort": cohort, "amplified": True}
    floor = mixed_epsilon(math.inf, 0.0, **run)
    if epsilon <= room * floor:
        return None
    refusal = f"epsilon must be larger: {epsilon:g} is too close to the least, {floor:.4g}"
    return least(lambda s: mixed_epsilon(s, 0.0, **run) - epsilon, refusal, lowest=-epsilon)


def calibrate_identifiers(epsilon: float, delta: float, *, sigma_theta: float, **run: Any) -> float:
    """The largest pure epsilon of an identifier for which `mixed_epsilon` stays within `epsilon`.

    `run` are the other arguments of `mixed_epsilon`. ValueError if the sums alone already cost
    `epsilon`; the message says how much they cost.
    """
    alone = mixed_epsilon(sigma_theta, 0.0, delta=delta, **run)
    refusal = (
        f"epsilon must be > {alone:.4g}, which sigma_theta={sigma_theta:g} costs without any"
        f" identifier; got {epsilon:g}"
    )
    if epsilon <= alone:
        raise ValueError(refusal)

    def excess(inverse: float) -> float:  # of the identifiers' epsilon: smaller is costlier
        return mixed_epsilon(sigma_theta, 1 / inverse, delta=delta, **run) - epsilon

    return 1 / least(excess, refusal)
