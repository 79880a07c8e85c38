"""The accountants of RR-Cluster side by side: the paper's noise, its floors, Poisson cohorts."""

import math

import pytest
from conftest import refuses

from fedclust_helpers.accounting import PrivacyLedger, Sampling, gdp_mu
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster import costs
from studies.rr_cluster.accountants import (
    ACCOUNTANTS,
    PAPER,
    calibrate,
    certified_epsilon,
    floor_epsilon,
    theorem_4_2_rdp,
)

pytestmark = pytest.mark.slow

DELTA = 1e-3
PEOPLE = {"n_clients": 1000, "cohort": 100}


@pytest.mark.parametrize(
    ("rounds", "accountant", "floor", "epsilon", "sigma"),
    [
        (50, "paper", 1.77, 4, 1.808), (50, "paper_tight", 1.26, 2, 3.062),
        (200, "paper", 2.77, 8, 1.833), (200, "paper_tight", 2.10, 4, 3.112),
    ],
)  # fmt: skip
def test_the_paper_s_noise_and_the_floor_below_which_none_suffices(
    rounds, accountant, floor, epsilon, sigma
):
    run = dict(n_rounds=rounds, accountant=accountant, **PEOPLE)
    assert floor_epsilon(delta=DELTA, **run) == pytest.approx(floor, abs=0.006)
    assert certified_epsilon(1e6, delta=DELTA, **run) == pytest.approx(floor, abs=0.006)
    assert calibrate(epsilon, DELTA, **run) == pytest.approx(sigma, abs=6e-4)
    refuses(ValueError, r"epsilon must be > \d\.\d+ .*floor", calibrate, floor - 0.1, DELTA, **run)
    assert all(
        floor_epsilon(delta=DELTA, n_rounds=rounds, accountant=name, **PEOPLE) == 0
        for name in ACCOUNTANTS
        if name not in PAPER
    )


@pytest.mark.parametrize("accountant", ["paper", "paper_tight", "poisson_pld"])
def test_calibrated_noise_costs_at_most_epsilon_and_a_little_less_costs_more(accountant):
    run = dict(n_rounds=10, accountant=accountant, **PEOPLE)
    sigma = calibrate(1.5, DELTA, **run)
    assert certified_epsilon(sigma, delta=DELTA, **run) <= 1.5
    assert certified_epsilon(sigma * (1 - 2e-5), delta=DELTA, **run) > 1.5


def test_theorem_4_2_is_the_theorem_by_which_random_answers_are_planned():
    """Without an answer, `joint_multiplier` asks for the noise of "paper_tight"."""
    run = dict(n_rounds=10, delta=DELTA, **PEOPLE)
    assert calibrate(2.0, accountant="paper_tight", **run) == costs.joint_multiplier(2.0, **run)
    assert theorem_4_2_rdp(8, math.inf, 0.1) > 0
    assert theorem_4_2_rdp(2, math.inf, 0.1) == 0


@pytest.mark.parametrize("accountant", ["poisson_pld", "poisson_pld_replace"])
def test_without_sampling_the_curve_is_exact(accountant):
    """sqrt(T)/mu; the secondary one's sigma is relative to C although 2C moves."""
    run = {"n_rounds": 30, "n_clients": 1000, "cohort": 1000, "accountant": accountant}
    reach = 2 if accountant == "poisson_pld_replace" else 1
    for epsilon in (0.5, 2.0):
        sigma = calibrate(epsilon, DELTA, **run)
        assert sigma == pytest.approx(reach * math.sqrt(30) / gdp_mu(epsilon, DELTA), rel=1e-11)
        back = certified_epsilon(sigma, delta=DELTA, **run)
        assert epsilon * (1 - 1e-6) < back <= epsilon * (1 + 1e-9)


def test_privacy_loss_distributions_of_poisson_cohorts():
    """As the ledger has them; beyond what their grids hold they are refused."""
    line = Gaussian(1.0, 1.3)
    ledger = PrivacyLedger(unit="client")
    for t in range(30):
        ledger.charge([line], name="round", round=t, sampling=Sampling("poisson", rate=0.1))
    run = {"n_rounds": 30, "accountant": "poisson_pld"} | PEOPLE
    expected = certified_epsilon(1.3, delta=DELTA, **run)
    assert ledger.epsilon(DELTA, method="pld") == pytest.approx(expected, rel=1e-9)
    refuses(ValueError, "sigma must be larger", certified_epsilon, 0.01, delta=DELTA, **run)
    refuses(ValueError, "epsilon must be <= 20", calibrate, 21.0, DELTA, **run)
