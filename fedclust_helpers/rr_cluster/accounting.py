"""What T rounds on sampled clients cost: Theorem 4.2 as printed, and the library's accountants.

One round releases identifiers (or counts) and cluster sums of one sample of clients. With Gaussian
noise on both it is one Gaussian mechanism with 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2,
sampled and composed T times. Every function speaks of sigma_eff, of one client, and of the relation
of its accountant (`ACCOUNTANTS`); accountants of two relations make different promises.

Throughout, ``n_clients`` is M and ``cohort`` the clients of a round: exactly (fixed size), or on
average (Poisson, rate cohort/n_clients).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from fedclust_helpers._lazy import dpa, optimize
from fedclust_helpers._validation import (
    FloatArray,
    check_choice,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.accounting.totals import RDP_ORDERS

PAPER_ORDERS = tuple(range(2, 65)) + tuple(range(72, 257, 8))  # Theorem 4.2 is for integers
# Orders of `PrivacyLedger` from 2 on: below, sampled Gaussians don't converge and never do better.
RUN_ORDERS = tuple(order for order in RDP_ORDERS if order >= 2)
MAX_SIGMA = 2.0**24
SIGMAS = (1e-100, 1e100)  # noise multipliers whose squares are numbers
MAX_PLD_EPSILON = 20.0  # of a calibration by privacy loss distributions: minutes above
CHEAP = {  # what a slow accountant starts from: one on the same scale, and a factor
    "wor_rdp": (("paper_tight", 1.0), ("poisson_rdp", 2.0)),
    "poisson_pld": (("poisson_rdp", 1.0),),
    "poisson_pld_replace": (("poisson_rdp", 1.0),),
}
MAX_LOSS = 1000.0  # privacy loss, sampling left out, up to which a distribution fits in memory


class Accountant(NamedTuple):
    """One way to bound T rounds: under which relation and sampling."""

    adjacency: str
    sampling: str


ACCOUNTANTS: dict[str, Accountant] = {
    # Theorem 4.2, with the conversion of Theorem A.1 and with that of Canonne, Kamath and Steinke
    # (2020): valid, with a floor
    "paper": Accountant("replace-one", "fixed"),
    "paper_tight": Accountant("replace-one", "fixed"),
    # RDP of the Gaussian sampled without replacement (Wang et al. 2019, Theorem 27)
    "wor_rdp": Accountant("replace-one", "fixed"),
    # RDP (Mironov, Talwar, Zhang 2019) and privacy loss distribution of the Poisson-sampled one
    "poisson_rdp": Accountant("add/remove", "poisson"),
    "poisson_pld": Accountant("add/remove", "poisson"),
    # secondary: the library's pair +C against -C. A replaced client may also move to another block;
    # that this is no worse was checked by quadrature, not proved
    "poisson_pld_replace": Accountant("replace-one", "poisson"),
}
"""sigma_eff = 1 means, if the whole budget goes to the sums, noise of standard deviation 2C for the
"fixed" ones (with sqrt(2) on identifiers), and C for the "poisson" ones (with 1 on counts)."""
LIBRARY = ("wor_rdp", "poisson_rdp", "poisson_pld", "poisson_pld_replace")
"""Those that amplify by sampling. Where all clients take part in each round nothing is amplified,
and all of them give the exact curve of the Gaussian (Dong, Roth, Su 2022, Corollary 2.13)."""


# --- Theorem 4.2 ----------------------------------------------------------------------------------


def gaussian_rdp(alpha: float | FloatArray, sigma: float) -> Any:
    """Renyi divergence of order `alpha` > 1 of the Gaussian mechanism, alpha/(2 sigma^2)."""
    return alpha / (2 * sigma**2)


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


def log_brackets(
    orders: Sequence[int], curve: Callable[[FloatArray], FloatArray], rate: float,
    epsilon_inf: float = math.inf,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Logarithms of 1 + (term j = 2) and of the sum over j >= 3 of Theorem 4.2, for each order.

    `curve` gives eps(j) for j = 2, 3, ...; `epsilon_inf` is eps(inf), inf for a Gaussian.
    """
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
    above = np.where(inside, a - j, 0.0)
    log_choose = gammaln(a + 1) - gammaln(j + 1) - gammaln(above + 1)
    terms = np.where(inside, log_choose + j * math.log(rate) + factors, -np.inf)
    tail = np.full(len(a), -np.inf)
    if terms.shape[1] > 1:
        tail = logsumexp(terms[:, 1:], axis=1)
    return np.logaddexp(0.0, terms[:, 0]), tail


def _theorem_4_2(orders: Sequence[int], *arguments: Any) -> FloatArray:
    return np.asarray(
        np.logaddexp(*log_brackets(orders, *arguments)) / (np.asarray(orders, dtype=np.int64) - 1)
    )


def theorem_4_2_rdp(alpha: int, sigma: float, rate: float) -> float:
    """Renyi divergence of one round by Theorem 4.2, for a Gaussian with multiplier `sigma`.

    Replace-one, fixed-size sampling of a share `rate` in (0, 1], integer `alpha` >= 2. The
    logarithm is taken of the whole bracket (not as in Theorem A.5); eps(inf) = inf for a Gaussian,
    so each min{2, .} is 2 and the terms j >= 3 don't vanish as sigma grows.
    """
    return float(_theorem_4_2([alpha], lambda j: gaussian_rdp(j, sigma), rate)[0])


def converted(
    orders: Sequence[float], rdp: FloatArray, delta: float, *, tight: bool = True
) -> float:
    """Epsilon at `delta` from a Renyi curve, at the best of `orders`.

    By Proposition 12 of Canonne, Kamath and Steinke (2020), as in ``dp-accounting``; not `tight`,
    by adding log(1/delta)/(alpha - 1) as Theorems A.1 and A.6 do.
    """
    a = np.asarray(orders, dtype=np.float64)
    if tight:
        epsilons = rdp + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
    else:
        epsilons = rdp + math.log(1 / delta) / (a - 1)
    return max(0.0, float(np.min(epsilons)))


# --- all accountants by name ----------------------------------------------------------------------


def certified_epsilon(
    sigma: float, *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    """Epsilon of `n_rounds` rounds at noise multiplier sigma_eff, by any of `ACCOUNTANTS`.

    `sigma` may be ``math.inf`` for Theorem 4.2 ("paper" and "paper_tight"): its floor.
    """
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    check_int(cohort, "cohort", maximum=n_clients)
    if accountant in LIBRARY:
        check_positive(sigma, "sigma")
        if cohort == n_clients:
            return gdp_epsilon(math.sqrt(n_rounds) * _reach(accountant) / sigma, delta)
        if sigma > MAX_SIGMA:
            raise ValueError(f"sigma must be <= {MAX_SIGMA:g} (the library loses precision above)")
        loss = n_rounds / (2 * sigma**2) + 10 * math.sqrt(n_rounds) / sigma
        if "pld" in accountant and loss > MAX_LOSS:
            raise ValueError(
                f"sigma must be larger for {n_rounds} rounds with accountant {accountant!r}, whose"
                f" grids grow with the loss (take 'poisson_rdp'); got {sigma:g}"
            )
    return _epsilon(sigma, delta, n_rounds, n_clients, cohort, accountant)


def _reach(accountant: str) -> float:
    """By how many sigma_eff = 1 the sum moves: +C against -C for the pair of the secondary one."""
    return 2.0 if accountant == "poisson_pld_replace" else 1.0


@lru_cache(maxsize=4096)
def _epsilon(
    sigma: float, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    if accountant not in LIBRARY:
        curve = _theorem_4_2(PAPER_ORDERS, lambda j: gaussian_rdp(j, sigma), cohort / n_clients)
        return converted(PAPER_ORDERS, n_rounds * curve, delta, tight=accountant == "paper_tight")
    event = dpa.PoissonSampledDpEvent(cohort / n_clients, dpa.GaussianDpEvent(sigma))
    if accountant == "wor_rdp":
        event = dpa.SampledWithoutReplacementDpEvent(n_clients, cohort, dpa.GaussianDpEvent(sigma))
    orders = RUN_ORDERS if accountant.endswith("_rdp") else None
    return event_epsilon(event, ACCOUNTANTS[accountant].adjacency, n_rounds, delta, orders=orders)


def event_epsilon(
    event: dpa.DpEvent, adjacency: str, n_rounds: int, delta: float, *,
    orders: Sequence[float] | None,
) -> float:  # fmt: skip
    """Epsilon of equal rounds by ``dp-accounting``: at Renyi `orders`, or (None) by PLD."""
    relation = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
    if adjacency == "replace-one":
        relation = dpa.NeighboringRelation.REPLACE_ONE
    bound: dpa.PrivacyAccountant = dpa.pld.PLDAccountant(relation)
    if orders is not None:
        bound = dpa.rdp.RdpAccountant(orders, relation)
    bound.compose(dpa.SelfComposedDpEvent(event, n_rounds))
    return float(bound.get_epsilon(delta))


def floor_epsilon(
    *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str = "paper"
) -> float:
    """The limit of `certified_epsilon` as sigma grows: no noise certifies less.

    The floor of Theorem 4.2 comes from its terms j >= 3; its divergence of order 2 does vanish. The
    library's RDP accountants have none but that of the conversion at the largest order they try,
    which is 0 unless delta is very small; its PLD has none.
    """
    if accountant not in LIBRARY:
        return certified_epsilon(
            math.inf, delta=delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
            accountant=accountant,
        )  # fmt: skip
    if accountant.endswith("_rdp") and cohort < n_clients:
        return converted(RUN_ORDERS, np.zeros(len(RUN_ORDERS)), delta)
    return 0.0


def calibrate(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:  # fmt: skip
    """The smallest sigma_eff for which `accountant` certifies (epsilon, delta) over `n_rounds`.

    Cached. The result never costs more than `epsilon`, and is within 1e-6 of the smallest. With
    ``cohort == n_clients`` it is sqrt(n_rounds)/mu, mu that of (epsilon, delta): exact. ValueError
    if `epsilon` is not above the floor of the accountant, which the message names.
    """
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    check_int(cohort, "cohort", maximum=n_clients)
    return _calibrated(epsilon, delta, n_rounds, n_clients, cohort, accountant)


@lru_cache(maxsize=1024)
def _calibrated(
    epsilon: float, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    run: dict[str, Any] = {"delta": delta, "n_rounds": n_rounds, "accountant": accountant}
    run |= {"n_clients": n_clients, "cohort": cohort}
    if accountant in LIBRARY and cohort == n_clients:
        # a hair more, so that rounding does not lift the total above epsilon
        return (1 + 1e-12) * math.sqrt(n_rounds) * _reach(accountant) / gdp_mu(epsilon, delta)
    floor = floor_epsilon(**run)
    refusal = (
        f"epsilon must be > {floor:.4g} for {n_rounds} rounds at delta={delta:g} and rate"
        f" {cohort / n_clients:g}: no noise makes accountant {accountant!r} certify less (its"
        f" floor); got {epsilon:g}"
    )
    if epsilon <= floor:
        raise ValueError(refusal)
    if "pld" in accountant and epsilon > MAX_PLD_EPSILON:
        raise ValueError(
            f"epsilon must be <= {MAX_PLD_EPSILON:g} with accountant {accountant!r}, whose grids"
            f" grow with it (take 'poisson_rdp'); got {epsilon:g}"
        )

    def excess(log_sigma: float) -> float:
        return certified_epsilon(math.exp(log_sigma), **run) - epsilon

    # the library takes long: start from a cheap bound on the same scale, and step finely
    start, step = 1.0, math.log(2)
    for other, ratio in CHEAP.get(accountant, ()):
        if epsilon > 1.05 * floor_epsilon(**run | {"accountant": other}):
            start = ratio * _calibrated(epsilon, delta, n_rounds, n_clients, cohort, other)
            step = 0.1
            break
    return smallest(excess, refusal, start=math.log(start), step=step, lowest=-epsilon)


def smallest(
    excess: Callable[[float], float], refusal: str, *, start: float = 0.0,
    step: float = math.log(2), lowest: float = -math.inf,
) -> float:  # fmt: skip
    """The smallest e^t with excess(t) <= 0, for a decreasing `excess`; a ValueError above 2^24.

    Within 1e-6; within 1e-3 where `excess` jumps to its `lowest` value (a conversion that gives 0
    all at once), since a root cannot be found faster there than by halving.
    """
    low = high = start
    value = excess(start)
    if value > 0:
        while value > 0:
            low, high, step = high, high + step, 1.5 * step
            if high > math.log(MAX_SIGMA):
                raise ValueError(refusal)
            value = excess(high)
    else:
        while (at_low := excess(low - step)) <= 0:
            low, value, step = low - step, at_low, 1.5 * step
        low, high = low - step, low
    while value <= lowest and high - low > 1e-3:
        middle = (low + high) / 2
        found = excess(middle)
        low, high, value = (middle, high, value) if found > 0 else (low, middle, found)
    if value <= lowest:
        return math.exp(high)
    root = optimize.brentq(excess, low, high, xtol=5e-7, rtol=8.9e-16)
    while excess(root) > 0:
        root += 2e-7
    return math.exp(root)


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
    mechanism). The two share their sample and are one event: to charge the sums as sampled and the
    identifiers apart as unsampled is no proof, since identifiers tell something about who was
    drawn. ``dp-accounting`` amplifies no such pair. So both are charged as if everyone took part;
    or, `amplified`, by Theorem 4.2, whose black-box form takes any Renyi curve (with its floor).
    """

    def curve(a: FloatArray) -> FloatArray:
        answer = krr_rdp(a, identifier_epsilon, n_clusters=n_clusters)
        return np.asarray(answer + gaussian_rdp(a, sigma_theta))

    if not amplified:
        return converted(RUN_ORDERS, n_rounds * curve(np.asarray(RUN_ORDERS)), delta)
    epsilon_inf = identifier_epsilon if math.isinf(sigma_theta) else math.inf
    rdp = n_rounds * _theorem_4_2(PAPER_ORDERS, curve, cohort / n_clients, epsilon_inf)
    return converted(PAPER_ORDERS, rdp, delta)


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

    def excess(t: float) -> float:  # t = -log of the identifiers' epsilon: smaller is costlier
        return mixed_epsilon(sigma_theta, math.exp(-t), delta=delta, **run) - epsilon

    return 1 / smallest(excess, refusal)
