"""RR-Cluster's accounting: Theorem 4.2 in 50 digits, the tables, the ledger, and the floors."""

import math

import dp_accounting as dpa
import mpmath as mp
import numpy as np
import pytest
from conftest import first_of, refuses
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.accounting import (
    ADJACENCIES,
    PrivacyLedger,
    Sampling,
    gdp_epsilon,
    gdp_mu,
)
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster.accounting import (
    ACCOUNTANTS,
    LIBRARY,
    calibrate,
    calibrate_identifiers,
    certified_epsilon,
    event_epsilon,
    floor_epsilon,
    krr_rdp,
    mixed_epsilon,
    split_identifiers,
    theorem_4_2_rdp,
)

pytestmark = pytest.mark.slow

DELTA = 1e-3
PEOPLE = {"n_clients": 1000, "cohort": 100}
NOTES_ORDERS = (1.75, 2.25, 2.5, 3.5, 4.5, *range(2, 65), *range(72, 257, 8))

# sigma_eff at q = 0.1, delta = 1e-3: (rounds, epsilon) -> paper, paper_tight, wor_rdp, poisson_rdp
# (the last with the few orders above), poisson_pld, poisson_pld_replace
TABLE = {
    (50, 2): (6.040, 3.062, 2.474, 1.473, 1.318, 2.038),
    (50, 4): (1.808, 1.534, 1.521, 1.007, 0.910, 1.181),
    (50, 8): (1.007, 0.940, 0.940, 0.723, 0.662, 0.756),
    (100, 2): (None, 5.531, 3.385, 1.861, 1.674, 2.880),
    (100, 4): (2.572, 2.120, 1.995, 1.204, 1.100, 1.638),
    (100, 8): (1.365, 1.269, 1.269, 0.846, 0.778, 0.981),
    (200, 2): (None, None, 4.699, 2.458, None, None),
    (200, 4): (3.959, 3.112, 2.703, 1.517, None, None),
    (200, 8): (1.833, 1.683, 1.662, 1.016, None, None),
}
both = pytest.mark.parametrize(("rounds", "epsilon"), TABLE)


def exact_bracket(alpha, curve, rate, epsilon_inf=None):
    """The terms of Theorem 4.2 (j = 2, and j >= 3) in 50 digits, written from the paper."""
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


# --- Theorem 4.2 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [2, 3, 8, 64, 256])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0, 1e4])
@pytest.mark.parametrize("rate", [0.001, 0.1, 1.0])
def test_theorem_4_2_against_high_precision(alpha, sigma, rate):
    with mp.workdps(50):
        second, rest = exact_gaussian(alpha, sigma, rate)
        exact = mp.log1p(second + rest) / (alpha - 1)
    # the logarithm of 1 + x is computed from log x, so small x keep an absolute error of 1e-16
    assert theorem_4_2_rdp(alpha, sigma, rate) == pytest.approx(float(exact), rel=1e-10, abs=1e-15)


def test_without_noise_left_the_terms_from_three_on_stay():
    limit = theorem_4_2_rdp(8, math.inf, 0.1)
    exact = math.log1p(2 * sum(0.1**j * math.comb(8, j) for j in range(3, 9))) / 7
    assert limit == pytest.approx(exact, rel=1e-12)
    assert theorem_4_2_rdp(2, math.inf, 0.1) == 0.0


@pytest.mark.parametrize(("rate", "cohort"), [(0.1, 100), (0.01, 10)])
def test_r5_equals_the_library_where_noise_is_small(rate, cohort):
    orders = list(range(2, 65))

    def library(sigma):
        accountant = RdpAccountant(orders, dpa.NeighboringRelation.REPLACE_ONE)
        gaussian = dpa.GaussianDpEvent(sigma)
        accountant.compose(dpa.SampledWithoutReplacementDpEvent(1000, cohort, gaussian))
        return accountant.rdp

    def printed(sigma):
        return np.array([theorem_4_2_rdp(a, sigma, rate) for a in orders])

    np.testing.assert_allclose(printed(1.0), library(1.0), rtol=1e-12)
    if rate == 0.1:  # more noise: the library has a refinement for Gaussians
        assert (printed(2.0) / library(2.0)).max() == pytest.approx(1.40, abs=0.01)
        assert (printed(4.0) / library(4.0)).max() == pytest.approx(3.7, abs=0.1)
        assert (printed(4.0) >= library(4.0) * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    ("rate", "rounds", "sigma", "expected"),
    [
        (0.1, 100, 1, (12.20, 10.81, 10.81, 5.67, 4.78)),
        (0.1, 100, 2, (5.05, 4.30, 3.99, 1.80, 1.54)),
        (0.1, 200, 4, (3.98, 3.23, 2.44, 1.08, 0.93)),
        (0.01, 1000, 1, (3.19, 2.57, 2.57, 1.39, 1.16)),
    ],
)
def test_r6_epsilon_of_a_given_noise(rate, rounds, sigma, expected):
    run = dict(delta=DELTA, n_rounds=rounds, n_clients=1000, cohort=round(1000 * rate))
    names = ("paper", "paper_tight", "wor_rdp", "poisson_rdp", "poisson_pld")
    found = [certified_epsilon(sigma, accountant=name, **run) for name in names]
    assert found == pytest.approx(expected, abs=0.016)


# --- calibration ----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("column", [0, 1])
def test_table_of_noise_for_the_paper(rounds, epsilon, column):
    accountant, sigma = list(ACCOUNTANTS)[column], TABLE[rounds, epsilon][column]
    if sigma is None:
        with pytest.raises(ValueError, match="floor"):
            calibrate(epsilon, DELTA, n_rounds=rounds, accountant=accountant, **PEOPLE)
    else:
        found = calibrate(epsilon, DELTA, n_rounds=rounds, accountant=accountant, **PEOPLE)
        assert found == pytest.approx(sigma, abs=6e-4)


@both
def test_table_of_noise_for_the_library_by_rdp(rounds, epsilon):
    """The noise of the table costs what it was made for (rounded to three digits)."""
    wor, poisson = TABLE[rounds, epsilon][2:4]
    events = (
        (dpa.SampledWithoutReplacementDpEvent(1000, 100, dpa.GaussianDpEvent(wor)), "replace-one",
         range(2, 65)),
        (dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(poisson)), "add/remove", NOTES_ORDERS),
    )  # fmt: skip
    for event, adjacency, orders in events:
        cost = event_epsilon(event, adjacency, rounds, DELTA, orders=list(orders))
        assert cost == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.thorough
@both
def test_table_of_noise_for_the_library_by_pld(rounds, epsilon):
    for column, accountant in ((4, "poisson_pld"), (5, "poisson_pld_replace")):
        sigma = TABLE[rounds, epsilon][column]
        if sigma is not None:
            cost = certified_epsilon(
                sigma, delta=DELTA, n_rounds=rounds, accountant=accountant, **PEOPLE
            )
            assert cost == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize(
    "accountant", first_of(["poisson_rdp", "paper", "paper_tight", "wor_rdp", "poisson_pld"], 4)
)
def test_calibrated_noise_costs_at_most_epsilon_and_a_little_less_costs_more(accountant):
    run = dict(n_rounds=10, accountant=accountant, **PEOPLE)
    sigma = calibrate(1.5, DELTA, **run)
    assert certified_epsilon(sigma, delta=DELTA, **run) <= 1.5
    assert certified_epsilon(sigma * (1 - 2e-5), delta=DELTA, **run) > 1.5


@pytest.mark.parametrize(
    ("rounds", "printed", "tight"),
    [
        (10, 1.01, 0.69),
        (20, 1.31, 0.90),
        (50, 1.77, 1.26),
        (75, 2.01, 1.47),
        (100, 2.23, 1.62),
        (150, 2.51, 1.88),
        (200, 2.77, 2.10),
        (500, 3.66, 2.91),
    ],
)
def test_floors_of_theorem_4_2(rounds, printed, tight):
    run = dict(delta=DELTA, n_rounds=rounds, **PEOPLE)
    assert floor_epsilon(accountant="paper", **run) == pytest.approx(printed, abs=0.006)
    assert floor_epsilon(accountant="paper_tight", **run) == pytest.approx(tight, abs=0.006)
    assert all(floor_epsilon(accountant=name, **run) == 0 for name in LIBRARY)


def test_no_noise_reaches_epsilon_two_in_100_rounds_and_the_error_says_the_floor():
    run = dict(delta=DELTA, n_rounds=100, accountant="paper", **PEOPLE)
    assert certified_epsilon(1e6, **run) == pytest.approx(2.226, abs=1e-3)
    with pytest.raises(ValueError, match=r"epsilon must be > 2\.226 .*floor"):
        calibrate(2.0, DELTA, n_rounds=100, accountant="paper", **PEOPLE)
    with pytest.raises(ValueError, match=r"> 0\.0\d+ .*floor"):  # tiny delta, few Renyi orders
        calibrate(0.01, 1e-12, n_rounds=1, accountant="wor_rdp", **PEOPLE)


# --- everybody takes part -------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", LIBRARY)
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_without_sampling_the_curve_is_exact(accountant, delta):
    """sqrt(T)/mu; the secondary one's sigma is relative to C although 2C moves."""
    run = {"n_rounds": 30, "n_clients": 1000, "cohort": 1000, "accountant": accountant}
    reach = 2 if accountant == "poisson_pld_replace" else 1
    for epsilon in (0.01, 0.5, 2.0, 200.0):
        sigma = calibrate(epsilon, delta, **run)
        assert sigma == pytest.approx(reach * math.sqrt(30) / gdp_mu(epsilon, delta), rel=1e-11)
        back = certified_epsilon(sigma, delta=delta, **run)
        assert epsilon * (1 - 1e-6) < back <= epsilon * (1 + 1e-9)
    assert floor_epsilon(delta=1e-12, **run) == 0.0
    exact = certified_epsilon(14.0, delta=delta, **run)
    assert exact == pytest.approx(gdp_epsilon(reach * math.sqrt(30) / 14, delta), rel=1e-12)


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


@pytest.mark.parametrize("method", ["rdp", "pld"])
def test_poisson_rounds_cost_the_same_in_the_ledger(method):
    """Counts 1, sums C, add/remove, rate 0.1."""
    sigma_2, sigma_1 = split_identifiers(1.3, 0.1)
    pair = [Gaussian(0.3, 0.3 * sigma_1), Gaussian(1.0, sigma_2)]
    ledger = ledger_of(pair, Sampling("poisson", rate=0.1), 30)
    expected = certified_epsilon(
        1.3, delta=DELTA, n_rounds=30, accountant=f"poisson_{method}", **PEOPLE
    )
    assert ledger.epsilon(DELTA, method=method) == pytest.approx(expected, rel=1e-9)


def test_relation_and_sampling_go_together_as_in_the_ledger():
    assert set(LIBRARY) < set(ACCOUNTANTS)
    for name, accountant in ACCOUNTANTS.items():
        assert accountant.adjacency in ADJACENCIES
        assert accountant.sampling in ("fixed", "poisson")
        together = (accountant.adjacency == "replace-one") == (accountant.sampling == "fixed")
        assert together == (name != "poisson_pld_replace")  # which is secondary


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
def test_theorem_4_2_for_pure_identifiers_alone(epsilon):
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


def test_mixed_rounds():
    run = dict(delta=DELTA, n_rounds=50, **PEOPLE)
    alone = mixed_epsilon(3.0, 0.0, amplified=True, **run)
    assert alone == certified_epsilon(3.0, accountant="paper_tight", **run)
    amplified = mixed_epsilon(3.0, 0.5, amplified=True, n_clusters=4, **run)
    assert alone < amplified < mixed_epsilon(3.0, 0.5, amplified=True, **run)
    assert mixed_epsilon(3.0, 0.5, n_clusters=4, **run) > 5 * amplified  # as if all took part


@pytest.mark.parametrize("amplified", [True, False])
def test_calibrated_identifiers_use_up_the_budget(amplified):
    run = dict(n_rounds=50, n_clusters=4, amplified=amplified, **PEOPLE)
    sigma = 3.0 if amplified else 40.0
    found = calibrate_identifiers(4.0, DELTA, sigma_theta=sigma, **run)
    assert mixed_epsilon(sigma, found, delta=DELTA, **run) == pytest.approx(4.0, rel=1e-4)
    assert mixed_epsilon(sigma, found, delta=DELTA, **run) <= 4.0
    with pytest.raises(ValueError, match="sigma_theta=1 costs"):
        calibrate_identifiers(4.0, DELTA, sigma_theta=1.0, **run)


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"cohort": 1001}, {"cohort": 0}, {"epsilon": 0.0}, {"accountant": "best"}],
)  # fmt: skip
def test_calibrate_refuses(change):
    good = dict(epsilon=2.0, delta=DELTA, n_rounds=50, accountant="wor_rdp", **PEOPLE)
    refuses(ValueError, next(iter(change)), calibrate, **good | change)
