"""What T rounds on sampled clients would cost, by the paper's Theorem 4.2 and by other accountants.

A planner takes two of them (`fedclust_helpers.rr_cluster.costs`); here all are side by side.
Notation as there: sigma_eff, one client, M = ``n_clients``, qM = ``cohort``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fedclust_helpers._lazy import dpa
from fedclust_helpers._validation import FloatArray, check_choice, check_int, check_positive
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.accounting.renyi import fixed_size_curve
from fedclust_helpers.accounting.search import least
from fedclust_helpers.rr_cluster import costs
from fedclust_helpers.rr_cluster.costs import (
    JOINT_ORDERS,
    Accountant,
    converted,
    event_epsilon,
    floor_refusal,
)

MAX_PLD_EPSILON = 20.0  # of a calibration by privacy loss distributions: minutes above
MAX_LOSS = 1000.0  # privacy loss, sampling left out, up to which a distribution fits in memory

ACCOUNTANTS: dict[str, Accountant] = {
    # Theorem 4.2, with the conversion of Theorem A.1 and with that of Canonne, Kamath and Steinke
    # (2020): valid, with a floor
    "paper": Accountant("replace-one", "fixed"),
    "paper_tight": Accountant("replace-one", "fixed"),
    "wor_rdp": costs.ACCOUNTANTS["wor_rdp"],
    "poisson_rdp": costs.ACCOUNTANTS["poisson_rdp"],
    # the privacy loss distribution of the Poisson-sampled Gaussian
    "poisson_pld": Accountant("add/remove", "poisson"),
    # secondary: the library's pair +C against -C. A replaced client may also move to another block;
    # that this is no worse was checked by quadrature, not proved
    "poisson_pld_replace": Accountant("replace-one", "poisson"),
}
"""The noise that sigma_eff = 1 means is that of `fedclust_helpers.rr_cluster.costs`."""
PAPER = ("paper", "paper_tight")


def gaussian_rdp(alpha: float | FloatArray, sigma: float) -> Any:
    """Renyi divergence of order `alpha` > 1 of the Gaussian mechanism, alpha/(2 sigma^2)."""
    return alpha / (2 * sigma**2)


def theorem_4_2_rdp(alpha: int, sigma: float, rate: float) -> float:
    """Renyi divergence of one round by Theorem 4.2, for a Gaussian with multiplier `sigma`.

    Replace-one, fixed-size sampling of a share `rate` in (0, 1], integer `alpha` >= 2. The
    logarithm is taken of the whole bracket (not as in Theorem A.5); eps(inf) = inf for a Gaussian,
    so each min{2, .} is 2 and the terms j >= 3 don't vanish as sigma grows. The theorem is the one
    of `accounting.renyi.fixed_size_curve`.
    """
    return float(fixed_size_curve([alpha], lambda j: gaussian_rdp(j, sigma), rate)[0])


def converted_as_printed(orders: tuple[int, ...], rdp: FloatArray, delta: float) -> float:
    """Epsilon at `delta` as Theorems A.1 and A.6 have it: plus log(1/delta)/(alpha - 1)."""
    a = np.asarray(orders, dtype=np.float64)
    return max(0.0, float(np.min(rdp + math.log(1 / delta) / (a - 1))))


def certified_epsilon(
    sigma: float, *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:
    """Epsilon of `n_rounds` rounds at noise multiplier sigma_eff, by any of `ACCOUNTANTS`.

    `sigma` may be ``math.inf`` for Theorem 4.2 ("paper" and "paper_tight"): its floor.
    """
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    check_int(cohort, "cohort", maximum=n_clients)
    run: dict[str, Any] = {"delta": delta, "n_rounds": n_rounds, "n_clients": n_clients}
    if accountant in costs.ACCOUNTANTS:
        run |= {"cohort": cohort, "accountant": accountant}
        return costs.certified_epsilon(sigma, **run)
    if accountant in PAPER:
        curve = fixed_size_curve(JOINT_ORDERS, lambda j: gaussian_rdp(j, sigma), cohort / n_clients)
        convert = converted_as_printed if accountant == "paper" else converted
        return convert(JOINT_ORDERS, n_rounds * curve, delta)
    check_positive(sigma, "sigma")
    if cohort == n_clients:
        return gdp_epsilon(math.sqrt(n_rounds) * _reach(accountant) / sigma, delta)
    if n_rounds / (2 * sigma**2) + 10 * math.sqrt(n_rounds) / sigma > MAX_LOSS:
        raise ValueError(
            f"sigma must be larger for {n_rounds} rounds with accountant {accountant!r}, whose"
            f" grids grow with the loss (take 'poisson_rdp'); got {sigma:g}"
        )
    return _by_pld(sigma, delta, n_rounds, cohort / n_clients, ACCOUNTANTS[accountant].adjacency)


@lru_cache(maxsize=4096)
def _by_pld(sigma: float, delta: float, n_rounds: int, rate: float, adjacency: str) -> float:
    event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(sigma))
    return event_epsilon(event, adjacency, n_rounds, delta, orders=None)


def _reach(accountant: str) -> float:
    """By how many sigma_eff = 1 the sum moves: +C against -C for the pair of the secondary one."""
    return 2.0 if accountant == "poisson_pld_replace" else 1.0


def floor_epsilon(
    *, delta: float, n_rounds: int, n_clients: int, cohort: int, accountant: str = "paper"
) -> float:
    """The limit of `certified_epsilon` as sigma grows: no noise certifies less.

    The floor of Theorem 4.2 comes from its terms j >= 3; its divergence of order 2 does vanish. A
    privacy loss distribution has none.
    """
    if accountant in PAPER:
        return certified_epsilon(
            math.inf, delta=delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
            accountant=accountant,
        )  # fmt: skip
    if accountant in costs.ACCOUNTANTS:
        return costs.floor_epsilon(delta=delta, n_clients=n_clients, cohort=cohort)
    return 0.0


@lru_cache(maxsize=1024)
def calibrate(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> float:  # fmt: skip
    """The smallest sigma_eff for which `accountant` certifies (epsilon, delta) over `n_rounds`.

    As `costs.calibrate`, by any of `ACCOUNTANTS`.
    """
    check_choice(accountant, "accountant", tuple(ACCOUNTANTS))
    check_int(cohort, "cohort", maximum=n_clients)
    who: dict[str, Any] = {"delta": delta, "n_clients": n_clients, "cohort": cohort}
    run = who | {"n_rounds": n_rounds}
    if accountant in costs.ACCOUNTANTS:
        return costs.calibrate(epsilon, accountant=accountant, **run)
    if accountant not in PAPER and cohort == n_clients:
        return (1 + 1e-12) * math.sqrt(n_rounds) * _reach(accountant) / gdp_mu(epsilon, delta)
    floor = floor_epsilon(accountant=accountant, **run)
    refusal = floor_refusal(floor, epsilon, accountant, n_rounds, **who)
    if epsilon <= floor:
        raise ValueError(refusal)
    start, step = 1.0, math.log(2)
    if accountant not in PAPER:
        if epsilon > MAX_PLD_EPSILON:
            raise ValueError(
                f"epsilon must be <= {MAX_PLD_EPSILON:g} with accountant {accountant!r}, whose"
                f" grids grow with it (take 'poisson_rdp'); got {epsilon:g}"
            )
        start, step = costs.calibrate(epsilon, accountant="poisson_rdp", **run), 0.1

    def excess(sigma: float) -> float:
        return certified_epsilon(sigma, accountant=accountant, **run) - epsilon

    return least(excess, refusal, start=start, step=step, lowest=-epsilon)
