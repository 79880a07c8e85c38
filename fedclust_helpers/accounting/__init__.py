"""Privacy accounting: conversions between definitions, and the ledger of releases.

Formulas that the notebooks teach (Gaussian DP, zero-concentrated DP) are written out here. Every
total over many releases comes from the ``dp-accounting`` library, except where a closed form is
exact: unsampled Gaussians (mu adds in squares) and pure mechanisms (epsilon adds). Discrete noise
on a fine grid costs what continuous noise costs, by the theorem of `discrete`. What reports cost
behind a shuffler is computed in `shuffling` and `blanket`.

>>> round(gdp_mu(1.0, 1e-6), 4)  # what Gaussian noise may spend in all
0.2367
>>> round(gaussian_sigma_analytic(1.0, 1e-6), 3)  # its standard deviation for a sensitivity of 1
4.225
"""

from fedclust_helpers.accounting.blanket import blanket_delta
from fedclust_helpers.accounting.budget import Budget, BudgetExceededError
from fedclust_helpers.accounting.conversions import (
    gaussian_sigma_analytic,
    gaussian_sigma_classic,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    most_right,
    pure_to_gdp_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from fedclust_helpers.accounting.entries import (
    ADJACENCIES,
    UNITS,
    Accountable,
    Entry,
    LedgerMismatchError,
    Sampling,
)
from fedclust_helpers.accounting.ledger import PrivacyLedger, Reservation
from fedclust_helpers.accounting.shuffling import (
    Shuffled,
    local_epsilon_for,
    shuffled_delta,
    shuffled_epsilon,
)

__all__ = [
    "Budget", "BudgetExceededError", "Entry", "gaussian_sigma_analytic", "gdp_delta",
    "gdp_epsilon", "gdp_mu", "LedgerMismatchError", "local_epsilon_for", "PrivacyLedger",
    "Sampling", "Shuffled",
]  # fmt: skip
