"""What T rounds on sampled clients cost: Theorem 4.2 as printed, and the library's accountants.

One round releases the identifiers and the cluster sums of one sample of clients. With Gaussian
noise on both it is one Gaussian mechanism with 1/sigma_eff^2 = 1/sigma_s^2 + 1/sigma_theta^2,
sampled and composed T times. Every function here speaks of sigma_eff, of one client, and of the
neighbouring relation of its accountant (`ACCOUNTANTS`); two accountants of different relations are
different promises and do not compare as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import dp_accounting as dpa
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
)
from fedclust_helpers.accounting.totals import RDP_ORDERS

PAPER_ORDERS = tuple(range(2, 65)) + tuple(range(72, 257, 8))  # Theorem 4.2 is for integers
# Orders of `PrivacyLedger` from 2 on: below, sampled Gaussians don't converge and never do better.
RUN_ORDERS = tuple(order for order in RDP_ORDERS if order >= 2)
MAX_SIGMA = 2.0**24
SIGMAS = (1e-100, 1e100)  # noise multipliers whose squares are numbers
MAX_ORDER = 100_000  # terms of Theorem 4.2 that are added up
MAX_EPSILON = 1e13  # of a calibration
MAX_PLD_EPSILON = 20.0  # of a calibration by privacy loss distributions: minutes above
CHEAP = {  # what a slow accountant starts from: one on the same scale, and a factor
    "wor_rdp": (("paper_tight", 1.0), ("poisson_rdp", 2.0)),
    "poisson_pld": (("poisson_rdp", 1.0),),
    "poisson_pld_replace": (("poisson_rdp", 1.0),),
}
MAX_LOSS = 1000.0  # privacy loss, sampling left out, up to which a distribution fits in memory


@dataclass(frozen=True)
class Accountant:
    """One way to bound T rounds: under which relation and sampling, and what it proves.

    `unit` says what sigma_eff = 1 means: the standard deviation of the noise on a cluster sum when
    the whole budget goes to the sums (C: clipping bound of an update).
    """

    adjacency: str
    sampling: str
    unit: str
    proves: str


_REPLACED = "2C on sums, sqrt(2) on a one-hot identifier"
ACCOUNTANTS: dict[str, Accountant] = {
    "paper": Accountant(
        "replace-one", "fixed", _REPLACED,
        "Theorem 4.2 and the conversion of Theorem A.1; valid, with a floor",
    ),
    "paper_tight": Accountant(
        "replace-one", "fixed", _REPLACED,
        "Theorem 4.2 and the conversion of Canonne, Kamath, Steinke (2020); valid, with a floor",
    ),
    "wor_rdp": Accountant(
        "replace-one", "fixed", _REPLACED,
        "RDP of the Gaussian sampled without replacement (Wang et al. 2019, Theorem 27)",
    ),
    "poisson_rdp": Accountant(
        "add/remove", "poisson", "C on sums, 1 on counts",
        "RDP of the Poisson-sampled Gaussian (Mironov, Talwar, Zhang 2019)",
    ),
    "poisson_pld": Accountant(
        "add/remove", "poisson", "C on sums, 1 on counts",
        "privacy loss distribution of the Poisson-sampled Gaussian",
    ),
    "poisson_pld_replace": Accountant(
        "replace-one", "poisson", "C on sums, 1 on counts",
        "secondary: the library's pair +C against -C. A replaced client may also move to another"
        " block; that this is no worse was checked by quadrature, not proved",
    ),
}  # fmt: skip
LIBRARY = ("wor_rdp", "poisson_rdp", "poisson_pld", "poisson_pld_replace")


# --- Theorem 4.2 ----------------------------------------------------------------------------------


def _check_rate(rate: Any) -> float:
    rate = check_real(rate, "rate")
    if not 0 < rate <= 1:
        raise ValueError(f"rate must lie in (0, 1], got {rate}")
    return rate


def _check_sigma(sigma: Any, name: str = "sigma") -> float:
    sigma = check_positive(sigma, name, finite=False)
    if sigma < SIGMAS[0] or SIGMAS[1] < sigma < math.inf:
        raise ValueError(
            f"{name} must lie in [{SIGMAS[0]:g}, {SIGMAS[1]:g}] or be inf, got {sigma}"
        )
    return sigma


def _check_total(epsilon: Any) -> float:
    """The total of a calibration."""
    epsilon = check_epsilon(epsilon)
    if epsilon > MAX_EPSILON:
        raise ValueError(f"epsilon must be <= {MAX_EPSILON:g}, got {epsilon:g}")
    return epsilon


def _check_alpha(alpha: Any) -> Any:
    """Orders above 1: a number, or an array of floats."""
    if np.ndim(alpha) == 0:
        order = check_real(alpha, "alpha")
        if not 1 < order < math.inf:
            raise ValueError(f"alpha must be > 1 and finite, got {order}")
        return order
    array = as_points(np.reshape(alpha, (1, -1)), "alpha")[0]
    if array.min() <= 1:
        raise ValueError("alpha must be > 1")
    return array


def gaussian_rdp(alpha: float | FloatArray, sigma: float) -> Any:
    """Renyi divergence of order `alpha` of the Gaussian mechanism, alpha/(2 sigma^2)."""
    return _check_alpha(alpha) / (2 * _check_sigma(sigma) ** 2)


def krr_rdp(alpha: float | FloatArray, epsilon: float, *, n_clusters: int = 2) -> Any:
    """Renyi divergence (replace-one) of k-ary randomised response with `n_clusters` answers.

    With two answers, the default, it bounds every epsilon-DP mechanism, so also the exponential
    one. `alpha` > 1 may be an array.
    """
    alpha = _check_alpha(alpha)
    epsilon, k = check_non_negative(epsilon, "epsilon"), check_int(n_clusters, "n_clusters")
    if k == 1 or epsilon == 0:
        return alpha * 0.0
    a = np.asarray(alpha, dtype=np.float64)
    log_r = -np.logaddexp(epsilon, math.log(k - 1))  # probability of one given wrong answer
    terms = [log_r + a * epsilon, log_r + (1 - a) * epsilon]
    if k > 2:
        terms.append(np.full_like(a, log_r + math.log(k - 2)))
    divergence = logsumexp(np.stack(terms), axis=0) / (a - 1)
    return divergence if np.ndim(alpha) else float(divergence)


def _log_brackets(
    orders: IntArray, curve: Callable[[FloatArray], FloatArray], rate: float, epsilon_inf: float
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of 1 + (term j = 2) and of the sum over j >= 3, for each order.

    `curve` gives eps(j) for j = 2, 3, ...; `epsilon_inf` is eps(inf).
    """
    j = np.arange(2, int(orders.max()) + 1, dtype=np.float64)
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
    with np.errstate(divide="ignore"):
        a = orders[:, None].astype(np.float64)
        inside = j[None, :] <= a
        above = np.where(inside, a - j, 0.0)
        log_choose = gammaln(a + 1) - gammaln(j + 1) - gammaln(above + 1)
    terms = np.where(inside, log_choose + j * math.log(rate) + factors, -np.inf)
    tail = np.full(len(orders), -np.inf)
    if terms.shape[1] > 1:
        tail = logsumexp(terms[:, 1:], axis=1)
    return np.logaddexp(0.0, terms[:, 0]), tail


def _theorem_4_2(
    orders: Sequence[int],
    curve: Callable[[FloatArray], FloatArray],
    rate: float,
    epsilon_inf: float = math.inf,
) -> FloatArray:
    array = np.asarray(orders, dtype=np.int64)
    head, tail = _log_brackets(array, curve, rate, epsilon_inf)
    return np.asarray(np.logaddexp(head, tail) / (array - 1))


def theorem_4_2_rdp(alpha: int, sigma: float, rate: float) -> float:
    """Renyi divergence of one round by Theorem 4.2, for a Gaussian with multiplier `sigma`.

    Replace-one, fixed-size sampling of a share `rate`. The logarithm is taken of the whole bracket
    (as in Theorem 4.2, not as in Theorem A.5); eps(inf) = inf for a Gaussian, so each min{2, .} is
    2 and the terms j >= 3 don't vanish as sigma grows.

    Raises
    ------
    ValueError
        If `alpha` is not an integer >= 2, or `rate` is outside (0, 1].
    """
    alpha, rate = check_int(alpha, "alpha", minimum=2, maximum=MAX_ORDER), _check_rate(rate)
    sigma = _check_sigma(sigma)
    return float(_theorem_4_2([alpha], lambda j: gaussian_rdp(j, sigma), rate)[0])


def theorem_a_5_rdp(alpha: int, sigma: float, rate: float) -> float:
    """Theorem A.5 as printed, with the sum over j >= 3 outside the logarithm: a misprint.

    The value is far above `theorem_4_2_rdp` at the same arguments (31 251 against 1.48 at order 8).
    """
    alpha, rate = check_int(alpha, "alpha", minimum=2, maximum=MAX_ORDER), _check_rate(rate)
    sigma = _check_sigma(sigma)
    orders = np.array([alpha])
    head, tail = _log_brackets(orders, lambda j: gaussian_rdp(j, sigma), rate, math.inf)
    return float(head[0] / (alpha - 1) + np.exp(tail[0]))


def _converted(orders: Sequence[float], rdp: FloatArray, delta: float, conversion: str) -> float:
    """(epsilon, delta) from a Renyi curve, at the best of `orders`."""
    a = np.asarray(orders, dtype=np.float64)
    if conversion == "tight":
        epsilons = rdp + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
    else:
        epsilons = rdp + (0.0 if conversion == "equation_9" else math.log(1 / delta)) / (a - 1)
    return max(0.0, float(np.min(epsilons)))


def paper_epsilon(
    sigma: float,
    *,
    delta: float,
    n_rounds: int,
    rate: float,
    conversion: Literal["printed", "tight", "equation_9"] = "printed",
) -> float:
    """Epsilon of `n_rounds` rounds by Theorem 4.2 (replace-one, fixed-size sampling).

    Parameters
    ----------
    sigma : float
        sigma_eff, > 0; ``math.inf`` gives the floor.
    conversion : {"printed", "tight", "equation_9"}
        "printed" adds log(1/delta)/(alpha - 1) (Theorems A.1 and A.6); "tight" is Proposition 12
        of Canonne, Kamath and Steinke (2020), as in ``dp-accounting``; "equation_9" adds nothing,
        which is how the last line of Equation 9 is printed and is **not** a bound.
    """
    sigma, rate = _check_sigma(sigma), _check_rate(rate)
    delta, n_rounds = check_delta(delta), check_int(n_rounds, "n_rounds")
    check_choice(conversion, "conversion", ("printed", "tight", "equation_9"))
    rdp = n_rounds * _theorem_4_2(PAPER_ORDERS, lambda j: gaussian_rdp(j, sigma), rate)
    return _converted(PAPER_ORDERS, rdp, delta, conversion)


# --- the library's accountants, and all of them by name -------------------------------------------


def _check_cohort(n_clients: Any, cohort: Any) -> tuple[int, int]:
    n_clients = check_int(n_clients, "n_clients")
    return n_clients, check_int(cohort, "cohort", maximum=n_clients)


@lru_cache(maxsize=4096)
def _library_epsilon(
    sigma: float,
    delta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    accountant: str,
    orders: tuple[float, ...],
) -> float:
    gaussian = dpa.GaussianDpEvent(sigma)
    if accountant == "wor_rdp":
        event = dpa.SampledWithoutReplacementDpEvent(n_clients, cohort, gaussian)
    else:
        event = dpa.PoissonSampledDpEvent(cohort / n_clients, gaussian)
    return event_epsilon(
        event, ACCOUNTANTS[accountant].adjacency, n_rounds, delta,
        orders=orders if accountant.endswith("_rdp") else None,
    )  # fmt: skip


def event_epsilon(
    event: dpa.DpEvent,
    adjacency: str,
    n_rounds: int,
    delta: float,
    *,
    orders: Sequence[float] | None,
) -> float:
    """Epsilon of equal rounds by ``dp-accounting``: at Renyi `orders`, or (None) by PLD."""
    relation = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
    if adjacency == "replace-one":
        relation = dpa.NeighboringRelation.REPLACE_ONE
    if orders is not None:
        bound: dpa.PrivacyAccountant = RdpAccountant(orders, relation)
    else:
        bound = PLDAccountant(relation)
    bound.compose(dpa.SelfComposedDpEvent(event, n_rounds))
    return float(bound.get_epsilon(delta))


def library_epsilon(
    sigma: float,
    *,
    delta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    accountant: str = "wor_rdp",
    orders: Sequence[float] = RUN_ORDERS,
) -> float:
    """Epsilon of `n_rounds` sampled Gaussian rounds by ``dp-accounting``.

    Parameters
    ----------
    sigma : float
        sigma_eff in the unit of the accountant (`ACCOUNTANTS`), finite.
    cohort : int
        Clients of a round: exactly (fixed size), or on average (Poisson, rate cohort/n_clients).
    accountant : {"wor_rdp", "poisson_rdp", "poisson_pld", "poisson_pld_replace"}
        The last is secondary: not proved for releases of several blocks.
    orders : sequence of float
        Renyi orders of the RDP accountants.
    """
    sigma, delta = check_positive(_check_sigma(sigma), "sigma"), check_delta(delta)
    n_rounds = check_int(n_rounds, "n_rounds")
    n_clients, cohort = _check_cohort(n_clients, cohort)
    check_choice(accountant, "accountant", LIBRARY)
    if sigma > MAX_SIGMA:
        raise ValueError(f"sigma must be <= {MAX_SIGMA:g} (the library loses precision above)")
    if "pld" in accountant and n_rounds / (2 * sigma**2) + 10 * math.sqrt(n_rounds) / sigma > (
        MAX_LOSS
    ):
        raise ValueError(
            f"sigma must be larger for {n_rounds} rounds with accountant {accountant!r}, whose"
            f" grids grow with the loss (take 'poisson_rdp'); got {sigma:g}"
        )
    return _library_epsilon(sigma, delta, n_rounds, n_clients, cohort, accountant, tuple(orders))


def certified_epsilon(
    sigma: float,
    *,
    delta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    accountant: str,
) -> float:
    """Epsilon of `n_rounds` rounds at noise multiplier sigma_eff, by any of `ACCOUNTANTS`."""
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    n_clients, cohort = _check_cohort(n_clients, cohort)
    if accountant in LIBRARY:
        return library_epsilon(
            sigma, delta=delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
            accountant=accountant,
        )  # fmt: skip
    conversion: Literal["printed", "tight"] = "tight" if accountant == "paper_tight" else "printed"
    return paper_epsilon(
        sigma, delta=delta, n_rounds=n_rounds, rate=cohort / n_clients, conversion=conversion
    )


def floor_epsilon(
    *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str = "paper"
) -> float:
    """The limit of `certified_epsilon` as sigma grows: no noise certifies less.

    The floor of Theorem 4.2 comes from its terms j >= 3. (Its divergence of order 2 does vanish,
    so total variation would certify epsilon = 0 once sigma is in the thousands.) The library's RDP
    accountants have none but that of the conversion at the largest order they try, which is 0
    unless delta is very small; its PLD has none.
    """
    delta, n_rounds = check_delta(delta), check_int(n_rounds, "n_rounds")
    n_clients, cohort = _check_cohort(n_clients, cohort)
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    if accountant in LIBRARY:
        if accountant.endswith("_rdp"):
            return _converted(RUN_ORDERS, np.zeros(len(RUN_ORDERS)), delta, "tight")
        return 0.0
    return certified_epsilon(
        math.inf, delta=delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
        accountant=accountant,
    )  # fmt: skip


def calibrate(
    epsilon: float,
    delta: float,
    *,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    accountant: str,
) -> float:
    """The smallest sigma_eff for which `accountant` certifies (epsilon, delta) over `n_rounds`.

    Cached. The result never costs more than `epsilon`, and is within 1e-6 of the smallest.

    Raises
    ------
    ValueError
        If `epsilon` is not above the floor of the accountant; the message names the floor.
    """
    epsilon, delta = _check_total(epsilon), check_delta(delta)
    n_rounds = check_int(n_rounds, "n_rounds")
    n_clients, cohort = _check_cohort(n_clients, cohort)
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    return _calibrated(epsilon, delta, n_rounds, n_clients, cohort, accountant)


@lru_cache(maxsize=1024)
def _calibrated(
    epsilon: float, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    run: dict[str, Any] = {
        "delta": delta, "n_rounds": n_rounds, "n_clients": n_clients, "cohort": cohort,
        "accountant": accountant,
    }  # fmt: skip
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
    excess: Callable[[float], float],
    refusal: str,
    *,
    start: float = 0.0,
    step: float = math.log(2),
    lowest: float = -math.inf,
) -> float:
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
    root = brentq(excess, low, high, xtol=5e-7, rtol=8.9e-16)
    while excess(root) > 0:
        root += 2e-7
    return math.exp(root)


def split_identifiers(sigma_eff: float, share: float) -> tuple[float, float]:
    """(sigma_s, sigma_theta) with 1/sigma_s^2 = share/sigma_eff^2 and the rest for sigma_theta.

    Identifiers then carry noise sqrt(2) C_s sigma_s and sums 2C sigma_theta (replace-one). The same
    split serves counts and sums under add/remove: counts get noise sigma_s, sums C sigma_theta.
    ``share = 0`` gives sigma_s = inf: nothing but the sums is released (DP-FedAvg).
    """
    sigma_eff, share = check_positive(sigma_eff, "sigma_eff"), check_real(share, "share")
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1), got {share}")
    sigma_s = sigma_eff / math.sqrt(share) if share else math.inf
    return sigma_s, sigma_eff / math.sqrt(1 - share)


# --- identifiers of a pure mechanism (exponential, k-ary randomised response) ---------------------


def mixed_epsilon(
    sigma_theta: float,
    identifier_epsilon: float,
    *,
    delta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    n_clusters: int = 2,
    amplified: bool = False,
) -> float:
    """Epsilon of rounds that release epsilon-DP identifiers and Gaussian sums of one sample.

    Replace-one, fixed size. The two releases share their sample and are one event: to charge the
    sums as sampled and the identifiers apart as unsampled is not a proof, because the identifiers
    tell something about who was drawn. ``dp-accounting`` amplifies no such pair.

    Parameters
    ----------
    sigma_theta : float
        Noise multiplier of the sums (noise 2C sigma_theta).
    identifier_epsilon : float
        Pure epsilon of one client's identifier in one round.
    n_clusters : int
        Answers of k-ary randomised response; 2 (the default) bounds every pure mechanism.
    amplified : bool
        False: both as if everyone took part, an upper bound. True: Theorem 4.2, whose black-box
        form takes any Renyi curve, with the tight conversion (and with its floor).
    """
    sigma_theta = _check_sigma(sigma_theta, "sigma_theta")
    identifier_epsilon = check_non_negative(identifier_epsilon, "identifier_epsilon")
    delta, n_rounds = check_delta(delta), check_int(n_rounds, "n_rounds")
    n_clients, cohort = _check_cohort(n_clients, cohort)
    check_int(n_clusters, "n_clusters")
    if not isinstance(amplified, bool | np.bool_):
        raise TypeError(f"amplified must be True or False, got {type(amplified).__name__}")

    def curve(a: FloatArray) -> FloatArray:
        identifiers = krr_rdp(a, identifier_epsilon, n_clusters=n_clusters)
        return np.asarray(identifiers + gaussian_rdp(a, sigma_theta))

    if not amplified:
        return _converted(RUN_ORDERS, n_rounds * curve(np.asarray(RUN_ORDERS)), delta, "tight")
    epsilon_inf = identifier_epsilon if math.isinf(sigma_theta) else math.inf
    rdp = n_rounds * _theorem_4_2(PAPER_ORDERS, curve, cohort / n_clients, epsilon_inf)
    return _converted(PAPER_ORDERS, rdp, delta, "tight")


def calibrate_identifiers(
    epsilon: float,
    delta: float,
    *,
    sigma_theta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    n_clusters: int = 2,
    amplified: bool = False,
) -> float:
    """The largest pure epsilon of an identifier for which `mixed_epsilon` stays within `epsilon`.

    Raises
    ------
    ValueError
        If the sums alone already cost `epsilon`; the message says how much they cost.
    """
    epsilon, delta = _check_total(epsilon), check_delta(delta)
    run: dict[str, Any] = {
        "delta": delta, "n_rounds": n_rounds, "n_clients": n_clients, "cohort": cohort,
        "n_clusters": n_clusters, "amplified": amplified,
    }  # fmt: skip
    alone = mixed_epsilon(sigma_theta, 0.0, **run)
    refusal = (
        f"epsilon must be > {alone:.4g}, which sigma_theta={sigma_theta:g} costs without any"
        f" identifier; got {epsilon:g}"
    )
    if epsilon <= alone:
        raise ValueError(refusal)

    def excess(t: float) -> float:  # t = -log of the identifiers' epsilon: smaller is costlier
        return mixed_epsilon(sigma_theta, math.exp(-t), **run) - epsilon

    return 1 / smallest(excess, refusal)
