"""RR-Cluster's accounting: the theorem of cohorts in 50 digits, the ledger, random answers."""

import math

import dp_accounting as dpa
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.accounting import (
    PrivacyLedger,
    Sampling,
    gdp_epsilon,
    gdp_mu,
)
from fedclust_helpers.accounting.renyi import fixed_size_curve
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster.costs import (
    ACCOUNTANTS,
    calibrate,
    calibrate_identifiers,
    certified_epsilon,
    event_epsilon,
    floor_epsilon,
    krr_rdp,
    mixed_epsilon,
    split_identifiers,
)

pytestmark = pytest.mark.slow

DELTA = 1e-3
PEOPLE = {"n_clients": 1000, "cohort": 100}
NOTES_ORDERS = (1.75, 2.25, 2.5, 3.5, 4.5, *range(2, 65), *range(72, 257, 8))


def exact_bracket(alpha, curve, rate, epsilon_inf=None):
    """The terms of the theorem (j = 2, and j >= 3) in 50 digits, written from the paper."""
    with mp.workdps(50):
        q = mp.mpf(rate)
        e2 = curve(2)

        def cap(j):
            return 2 if epsilon_inf is None else min(2, mp.expm1(mp.mpf(epsilon_inf)) ** j)

        second = q**2 * mp.binomial(alpha, 2) * min(4 * mp.expm1(e2), mp.exp(e2) * cap(2))
        rest = mp.fsum(
            q**j * mp.binomial(alpha, j) * mp.exp((j - 1) * curve(j)) * cap(j)
            for j in range(3, alpha + 1)
        )
        return second, rest


def exact_gaussian(alpha, sigma, rate):
    return exact_bracket(alpha, lambda j: mp.mpf(j) / (2 * mp.mpf(sigma) ** 2), rate)


# --- the theorem of cohorts of fixed size (Theorem 4.2 of the paper) ------------------------------


@pytest.mark.parametrize("alpha", [2, 3, 64, 256])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 1e4, math.inf])
@pytest.mark.parametrize("rate", [0.001, 0.1, 1.0])
def test_the_theorem_of_cohorts_against_high_precision(alpha, sigma, rate):
    with mp.workdps(50):
        second, rest = exact_gaussian(alpha, sigma, rate)
        exact = mp.log1p(second + rest) / (alpha - 1)
    # the logarithm of 1 + x is computed from log x, so small x keep an absolute error of 1e-16
    (found,) = fixed_size_curve([alpha], lambda j: j / (2 * sigma**2), rate)
    assert found == pytest.approx(float(exact), rel=1e-10, abs=1e-15)


# --- calibration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_calibrated_noise_costs_at_most_epsilon_and_a_little_less_costs_more(accountant):
    run = dict(n_rounds=10, accountant=accountant, **PEOPLE)
    sigma = calibrate(1.5, DELTA, **run)
    assert certified_epsilon(sigma, delta=DELTA, **run) <= 1.5
    assert certified_epsilon(sigma * (1 - 2e-5), delta=DELTA, **run) > 1.5


# --- everybody takes part -------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_without_sampling_the_curve_is_exact(accountant, delta):
    run = {"n_rounds": 30, "n_clients": 1000, "cohort": 1000, "accountant": accountant}
    for epsilon in (0.01, 0.5, 2.0, 200.0):
        sigma = calibrate(epsilon, delta, **run)
        assert sigma == pytest.approx(math.sqrt(30) / gdp_mu(epsilon, delta), rel=1e-11)
        back = certified_epsilon(sigma, delta=delta, **run)
        assert epsilon * (1 - 1e-6) < back <= epsilon * (1 + 1e-9)
    assert floor_epsilon(delta=1e-12, n_clients=1000, cohort=1000) == 0.0
    exact = certified_epsilon(14.0, delta=delta, **run)
    assert exact == pytest.approx(gdp_epsilon(math.sqrt(30) / 14, delta), rel=1e-12)


def test_the_exact_curve_is_that_of_the_library_and_renyi_orders_waste_a_tenth():
    """Dong, Roth, Su (2022) against privacy loss distributions, and against what was taken once."""
    sigma = calibrate(1.0, DELTA, n_rounds=10, n_clients=1000, cohort=1000, accountant="wor_rdp")
    event = dpa.GaussianDpEvent(sigma)
    by_pld = event_epsilon(event, "add/remove", 10, DELTA, orders=None)
    assert by_pld == pytest.approx(1.0, rel=1e-3) and by_pld >= 1.0 - 1e-6
    by_renyi = event_epsilon(event, "add/remove", 10, DELTA, orders=NOTES_ORDERS)
    assert 1.08 < by_renyi < 1.2


# --- one joint event, and the ledger --------------------------------------------------------------


@given(st.floats(0.3, 30), st.floats(1e-6, 0.99))
def test_split_identifiers_adds_up(sigma, share):
    sigma_s, sigma_theta = split_identifiers(sigma, share)
    assert 1 / sigma_s**2 + 1 / sigma_theta**2 == pytest.approx(1 / sigma**2, rel=1e-12)
    assert share * sigma_s**2 == pytest.approx(sigma**2, rel=1e-12)


def ledger_of(pair, sampling, rounds):
    ledger = PrivacyLedger(unit="client", adjacency=sampling.adjacency)
    for t in range(rounds):
        ledger.charge(pair, name="round", round=t, sampling=sampling)
    return ledger


def test_fixed_size_rounds_cost_the_same_in_the_ledger():
    """Identifiers sqrt(2) C_s sigma_s, sums 2C sigma_theta, replace-one, 100 of 1000 clients."""
    sigma_s, sigma_theta = split_identifiers(1.521, 0.3)
    clip, root = 0.3, math.sqrt(2)
    pair = [
        Gaussian(root, root * sigma_s, "replace-one"),
        Gaussian(2 * clip, 2 * clip * sigma_theta, "replace-one"),
    ]
    ledger = ledger_of(pair, Sampling("fixed", size=100, population=1000), 50)
    expected = certified_epsilon(1.521, delta=DELTA, n_rounds=50, accountant="wor_rdp", **PEOPLE)
    assert ledger.epsilon(DELTA, method="rdp") == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(4.0, abs=0.005)


def test_poisson_rounds_cost_the_same_in_the_ledger():
    """Counts 1, sums C, add/remove, rate 0.1."""
    sigma_2, sigma_1 = split_identifiers(1.3, 0.1)
    pair = [Gaussian(0.3, 0.3 * sigma_1), Gaussian(1.0, sigma_2)]
    ledger = ledger_of(pair, Sampling("poisson", rate=0.1), 30)
    expected = certified_epsilon(1.3, delta=DELTA, n_rounds=30, accountant="poisson_rdp", **PEOPLE)
    assert ledger.epsilon(DELTA, method="rdp") == pytest.approx(expected, rel=1e-9)


# --- identifiers of a pure mechanism --------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 10])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 12.0])
def test_krr_rdp_is_the_divergence_of_its_two_distributions(k, epsilon):
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    p, q = np.full(k, (1 - keep) / (k - 1)), np.full(k, (1 - keep) / (k - 1))
    p[0] = q[1] = keep
    for alpha in (1.5, 2, 7, 40):
        direct = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
        assert krr_rdp(alpha, epsilon, n_clusters=k) == pytest.approx(direct, rel=1e-9, abs=1e-13)
        assert direct <= krr_rdp(alpha, epsilon) * (1 + 1e-9) + 1e-13
    assert krr_rdp(4000.0, epsilon, n_clusters=k) <= epsilon
    np.testing.assert_array_equal(
        krr_rdp(np.array([2.0, 7.0]), epsilon, n_clusters=k),
        [krr_rdp(2.0, epsilon, n_clusters=k), krr_rdp(7.0, epsilon, n_clusters=k)],
    )


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_pure_identifiers_alone_are_amplified(epsilon):
    """eps(inf) = epsilon is finite here, so min{2, (e^eps(inf) - 1)^j} bites."""

    divergences = [mp.mpf(krr_rdp(float(j), epsilon)) for j in range(2, 257)]

    def curve(j):
        return divergences[j - 2]

    best = math.inf
    for alpha in (*range(2, 65), *range(72, 257, 8)):
        second, rest = exact_bracket(alpha, curve, 0.1, epsilon)
        rdp = 50 * float(mp.log1p(second + rest)) / (alpha - 1)
        best = min(
            best, rdp + math.log1p(-1 / alpha) - math.log(DELTA * alpha) / (alpha - 1)
        )  # fmt: skip
    found = mixed_epsilon(math.inf, epsilon, delta=DELTA, n_rounds=50, amplified=True, **PEOPLE)
    assert found == pytest.approx(max(best, 0.0), rel=1e-8)


@pytest.mark.parametrize("amplified", [True, False])
def test_calibrated_identifiers_use_up_the_budget(amplified):
    run = dict(n_rounds=50, n_clusters=4, amplified=amplified, **PEOPLE)
    sigma = 3.0 if amplified else 40.0
    found = calibrate_identifiers(4.0, DELTA, sigma_theta=sigma, **run)
    assert mixed_epsilon(sigma, found, delta=DELTA, **run) == pytest.approx(4.0, rel=1e-4)
    assert mixed_epsilon(sigma, found, delta=DELTA, **run) <= 4.0
    with pytest.raises(ValueError, match="sigma_theta=1 costs"):
        calibrate_identifiers(4.0, DELTA, sigma_theta=1.0, **run)
