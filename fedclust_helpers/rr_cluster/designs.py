"""How much noise a round needs: of a sampled cohort, or by the exact curve.

Everything here is arithmetic of public numbers, under the neighbouring relation of a ledger.
"""

from __future__ import annotations

import math

from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.rr_cluster import accounting

WORTHWHILE = (0.05, 100.0)  # epsilons outside: accountants of cohorts are slow and gain nothing
COUNTS_SHARE = 0.1  # of 1/sigma_eff^2 that noised counts get, under add/remove
SCHEMES = {row.adjacency: row.sampling for row in accounting.ACCOUNTANTS.values()}
"""Neighbouring relation of a ledger -> the sampling that is accounted under it."""
DEFAULT = {row.adjacency: name for name, row in accounting.ACCOUNTANTS.items()}
"""Neighbouring relation -> the accountant of cohorts."""


def noise_multiplier(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> tuple[float, str]:
    """(sigma_eff, accountant) of Gaussian rounds: of the cohort's `accountant`, or the exact curve.

    The exact curve ("gdp": sigma_eff = sqrt(T)/mu) knows of no sampling, so it always holds. It is
    taken where everybody takes part, and where a cohort is so large that sampling gains nothing.
    """
    # a hair more, so that rounding does not lift the total above epsilon
    exact = (1 + 1e-12) * math.sqrt(n_rounds) / gdp_mu(epsilon, delta)
    run = {"n_rounds": n_rounds, "n_clients": n_clients, "cohort": cohort}
    if cohort < n_clients and WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
        if epsilon > accounting.floor_epsilon(delta=delta, n_clients=n_clients, cohort=cohort):
            sampled = accounting.calibrate(epsilon, delta, accountant=accountant, **run)
            if sampled < exact:
                return sampled, accountant
    return exact, "gdp"
