"""Budgets of FedDP-KMeans: the totals of a list of configurations, and the inverse.

Numbers come from an independent composition with dp-accounting at delta = 1e-6 (discretisation
1e-3) or from closed forms.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedclust_helpers.accounting import (
    PrivacyLedger,
    gaussian_sigma_analytic,
    gaussian_sigma_classic,
    gdp_epsilon,
    zcdp_epsilon,
)
from fedclust_helpers.feddp_kmeans import plan
from fedclust_helpers.feddp_kmeans.plan import (
    PROPORTIONS,
    StepBudgets,
    budgets_for_sum,
    budgets_for_total,
    lloyd_budgets_for_total,
    total_epsilon,
)
from fedclust_helpers.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

DELTA = 1e-6
ONES = StepBudgets(1, 1, 1, 1)
UNIT = dict.fromkeys(("outer", "weights", "sums", "counts", "lloyd_sums", "lloyd_counts"), 1.0)


def ledger_of(*mechanisms):
    ledger = PrivacyLedger()
    for mechanism in mechanisms:
        ledger.charge([mechanism], name="step")
    return ledger


def sigma(epsilon):
    return gaussian_sigma_analytic(epsilon, DELTA)


# --- totals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budgets, total",
    [
        (ONES, 3.3556),
        (StepBudgets(1, 1, 1, 1, 1, 1, 1), 4.6328),
        (StepBudgets(1, 1, 1, 1, 1, 1, 2), 4.5690),
        (StepBudgets(1, 1, 0.5, 0.5), 2.5594),  # the authors' data-point configuration
        (StepBudgets(1, 1, 0.5, 0.5, 0.5, 0.5, 1), 3.1327),
        (StepBudgets(1, 1, 1, 0.2), 2.5558),  # and their client configuration
        (StepBudgets(1, 1, 1, 0.2, 0.5, 0.5, 1), 3.1006),
        (StepBudgets(0, 0, 0, 0, 0.5, 0.5, 1), 0.9805),
        (StepBudgets(0, 0, 0, 0, 0.5, 0.5, 2), 0.9604),
        (StepBudgets(0, 0, 0, 0, 0.5, 0.5, 3), 0.9394),
        (StepBudgets(1, 0, 1, 0), 1.4547),
        (StepBudgets(0, 1, 0, 1), 2.0),
    ],
)
def test_total_of_known_configurations(budgets, total):
    # the accountant's grid of 1e-3 and the exact total of each differ in the fourth digit
    assert budgets.total() == pytest.approx(total, abs=1.5e-3)
    assert budgets.total() <= budgets.epsilon_sum


@pytest.mark.parametrize(
    "unit, known",
    [
        ("point", {0.5: 0.4035, 1: 0.8107, 2: 1.6296, 4: 3.2801}),
        ("client", {0.5: 0.3669, 1: 0.7383, 2: 1.4875, 4: 3.0052}),
    ],
)
def test_total_of_the_recommended_proportions(unit, known):
    for epsilon_init, total in known.items():
        budgets = budgets_for_sum(epsilon_init, unit=unit)
        assert budgets.epsilon_sum == pytest.approx(epsilon_init)
        assert budgets.total() == pytest.approx(total, abs=2e-3)


def test_gaussian_steps_alone_have_the_closed_form():
    # mu adds in squares, and T rounds with sqrt(T) times the noise are one release
    for n_rounds in (1, 2, 7):
        budgets = StepBudgets(0.7, 0, 1.3, 0, 1.1, 1e-9, n_rounds)
        mu = math.sqrt(sum(sigma(e) ** -2 for e in (0.7, 1.3, 1.1)))
        assert budgets.total() == pytest.approx(gdp_epsilon(mu, DELTA), rel=2e-3)


def test_total_does_not_depend_on_the_sensitivities():
    budgets = StepBudgets(1, 1, 0.5, 0.5, 0.5, 0.5, 2)
    mechanisms = budgets.mechanisms(
        {"outer": 121, "weights": 1, "sums": 11, "counts": 3, "lloyd_sums": 2, "lloyd_counts": 7}
    )
    ledger = ledger_of(*mechanisms.values(), mechanisms["lloyd_sums"], mechanisms["lloyd_counts"])
    assert ledger.epsilon(DELTA) == pytest.approx(budgets.total(), abs=1e-3)


def test_classical_calibration_and_renyi_accounting_of_the_same_steps():
    classic = gaussian_sigma_classic(1, DELTA)
    steps = [Gaussian(1, classic), Laplace(1, 1), Gaussian(1, classic), Laplace(1, 1)]
    assert ledger_of(*steps).epsilon(DELTA) == pytest.approx(3.0577, abs=1.5e-3)
    assert ledger_of(*steps, *steps[:2]).epsilon(DELTA) == pytest.approx(4.2700, abs=1.5e-3)
    own = ledger_of(*ONES.mechanisms(UNIT).values())
    assert own.epsilon(DELTA, method="rdp") == pytest.approx(3.4690, abs=5e-3)
    assert own.epsilon(DELTA, method="pld") < own.epsilon(DELTA, method="rdp")


@pytest.mark.parametrize(
    "budgets, radius, claimed, true",
    [
        (StepBudgets(1, 1, 0.5, 0.5), 11.0, 2.559, 16.2),
        (ONES, 11.0, 3.3556, 16.74),
        (ONES, 2.65, 3.3556, 4.93),
        (StepBudgets(1, 1, 0.5, 0.5), 2.65, 2.559, 4.28),
    ],
)
def test_what_the_released_code_really_costs(budgets, radius, claimed, true):
    """It noises x x^T, of sensitivity Delta^2, with Delta sigma."""
    steps = budgets.mechanisms({**UNIT, "outer": radius**2, "sums": radius})
    assert ledger_of(*steps.values()).epsilon(DELTA) == pytest.approx(claimed, abs=1.5e-3)
    steps["outer"] = Gaussian(radius**2, radius * sigma(budgets.outer))
    assert ledger_of(*steps.values()).epsilon(DELTA) == pytest.approx(true, abs=0.03)


def test_theorem_1_needs_three_deltas_by_basic_composition_and_the_ledger_one():
    budgets = StepBudgets(1, 1, 1, 1, 1, 1, 1)
    steps = budgets.mechanisms(UNIT)
    gaussians = [steps[name] for name in ("outer", "sums", "lloyd_sums")]
    # each Gaussian step spends all of delta at its own epsilon: the sum of all is (6, 3 delta)
    for mechanism in gaussians:
        assert ledger_of(mechanism).delta(1.0) == pytest.approx(DELTA, rel=1e-6)
    assert budgets.epsilon_sum == 6
    ledger = ledger_of(*steps.values())
    assert ledger.epsilon(DELTA) < 4.7
    # for these Gaussians delta at the sum of epsilons is far below one delta (claim K1b)
    assert ledger_of(*gaussians).delta(3.0) < 5e-6 * DELTA


# --- mechanisms -----------------------------------------------------------------------------------


def test_mechanisms_are_calibrated_one_by_one():
    steps = StepBudgets(1, 0.5, 2, 0.25, 1, 0.8, 4).mechanisms({**UNIT, "outer": 121.0, "sums": 11})
    assert steps["outer"] == Gaussian(121, 121 * sigma(1))
    assert steps["outer"].std == pytest.approx(511.2, abs=0.05)
    assert steps["sums"] == Gaussian(11, 11 * sigma(2))
    assert steps["lloyd_sums"] == Gaussian(1, 2 * sigma(1))  # sqrt(4) rounds
    assert steps["weights"] == Laplace(1, 2.0) and steps["counts"] == Laplace(1, 4.0)
    assert steps["lloyd_counts"].scale == pytest.approx(5.0)  # T / epsilon


@pytest.mark.parametrize("n_rounds, ratio", [(1, 4.225), (2, 5.975), (3, 7.317), (5, 9.447)])
def test_noise_of_the_lloyd_sums(n_rounds, ratio):
    budgets = StepBudgets(0, 0, 0, 0, 1, 1, n_rounds)
    assert budgets.mechanisms(UNIT)["lloyd_sums"].std == pytest.approx(ratio, abs=1e-3)


def test_discrete_mechanisms_and_their_total():
    budgets = StepBudgets(0.5, 0.2, 0.5, 0.2)
    steps = budgets.mechanisms({**UNIT, "outer": 4.0}, kind="discrete", grid=2.0**-10)
    assert isinstance(steps["outer"], DiscreteGaussian) and steps["outer"].grid == 2.0**-10
    assert isinstance(steps["weights"], DiscreteLaplace) and steps["weights"].grid == 1
    fractional = budgets.mechanisms(UNIT, kind="discrete", grid=0.25, integral_counts=False)
    assert fractional["weights"].grid == 0.25
    # each Gaussian step alone spends its budget by the zCDP bound
    assert zcdp_epsilon(steps["outer"].rho, DELTA) == pytest.approx(0.5, rel=1e-6)
    total = budgets.total(kind="discrete")
    assert total == ledger_of(*steps.values()).epsilon(DELTA)
    # the exact total of the continuous noise is smaller, the accountant of the discrete one weaker
    assert budgets.total() < total < 4 * budgets.total()
    assert budgets_for_total(1.0, kind="discrete").total(kind="discrete") == pytest.approx(
        1.0, rel=1e-3
    )


def test_a_step_without_budget_has_no_mechanism():
    assert set(StepBudgets(0, 1, 1, 0).mechanisms(UNIT)) == {"weights", "sums"}


# --- the inverse ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit, needed",
    [
        ("point", (0.3107, 0.6187, 1.2321, 2.4483, 4.8650)),
        ("client", (0.3416, 0.6793, 1.3507, 2.6804, 5.2975)),
    ],
)
def test_inverse_finds_the_known_budgets(unit, needed):
    found = []
    for total, epsilon_init in zip((0.25, 0.5, 1, 2, 4), needed, strict=True):
        budgets = budgets_for_total(total, unit=unit)
        found.append(budgets.epsilon_sum)
        assert budgets.epsilon_sum == pytest.approx(epsilon_init, rel=2e-3)
        assert total * (1 - 1e-3) < budgets.total() <= total
        shares = np.array([budgets.outer, budgets.weights, budgets.sums, budgets.counts])
        assert shares / shares.sum() == pytest.approx(PROPORTIONS[unit])
    assert found == sorted(found)


@pytest.mark.parametrize("unit", ["point", "client"])
@pytest.mark.parametrize("n_rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.2, 0.8])
def test_few_accountant_calls_and_none_for_the_same_question(unit, n_rounds, epsilon):
    plan._budgets_for_total.cache_clear()
    before = total_epsilon.cache_info().misses
    first = budgets_for_total(epsilon, unit=unit, n_rounds=n_rounds)
    calls = total_epsilon.cache_info().misses - before
    assert calls <= 12  # the limit is 100
    assert epsilon * (1 - 1e-3) < first.total() <= epsilon
    again = budgets_for_total(epsilon, unit=unit, n_rounds=n_rounds)
    assert again is first
    assert total_epsilon.cache_info().misses - before == calls


def test_budgets_of_rounds_repeat_step_3():
    budgets = budgets_for_sum(2.0, n_rounds=3)
    assert (budgets.lloyd_sums, budgets.lloyd_counts) == (budgets.sums, budgets.counts)
    assert budgets.epsilon_sum == pytest.approx(2.0 * 1.6)
    assert budgets_for_sum(2.0).lloyd_sums == 0


@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_lloyd_alone_spends_the_whole_budget(n_rounds, epsilon):
    budgets = lloyd_budgets_for_total(epsilon, n_rounds)
    assert budgets.outer == budgets.weights == budgets.sums == budgets.counts == 0
    assert budgets.lloyd_sums == pytest.approx(3 * budgets.lloyd_counts)
    assert epsilon * (1 - 1e-3) < budgets.total() <= epsilon


@settings(max_examples=6)
@given(
    st.floats(0.3, 1.0),
    st.lists(st.integers(1, 9), min_size=4, max_size=4).filter(lambda w: len(set(w)) > 1),
)
def test_any_proportions_stay_within_the_total(epsilon, weights):
    proportions = [w / sum(weights) for w in weights]
    budgets = budgets_for_total(epsilon, proportions=proportions)
    assert epsilon * (1 - 2e-3) < budgets.total() <= epsilon
    assert budgets.outer / budgets.epsilon_sum == pytest.approx(proportions[0])


def test_spending_nothing_on_the_subspace_leaves_more_for_the_rest():
    without = budgets_for_total(1.0, proportions=(0, 0.25, 0.5625, 0.1875))  # the same ratios
    assert without.outer == 0 and without.total() <= 1
    assert without.sums > budgets_for_total(1.0).sums


# --- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: budgets_for_sum(1.0, proportions=(0.3, 0.3, 0.3, 0.3)), "sum to 1"),
        (lambda: budgets_for_total(1.0, proportions=(0.5, 0.5, 0.0)), "sum to 1"),
        (lambda: budgets_for_sum(1.0, proportions=(1.2, -0.2, 0, 0)), "sum to 1"),
        (lambda: budgets_for_sum(1.0, proportions=(float("nan"), 0.5, 0.5, 0)), "sum to 1"),
        (lambda: budgets_for_sum(1.0, n_rounds=-1), "n_rounds"),
        (lambda: budgets_for_total(1.0, n_rounds=-1), "n_rounds"),
        (lambda: budgets_for_total(1.0, unit="person"), "unit"),
        (lambda: budgets_for_total(0.0), "epsilon"),
        (lambda: budgets_for_total(1.0, delta=0.0), "delta"),
        (lambda: lloyd_budgets_for_total(1.0, 0), "n_rounds"),
        (lambda: lloyd_budgets_for_total(1.0, 2, share=1.0), "share"),
        (lambda: StepBudgets(-1, 1, 1, 1), "outer"),
        (lambda: StepBudgets(1, math.inf, 1, 1), "weights"),
        (lambda: StepBudgets(1, 1, 1, 1, 1, 1, 0), "n_rounds"),
        (lambda: StepBudgets(1, 1, 1, 1, 0, 0, 2), "n_rounds"),
        (lambda: StepBudgets(1, 1, 1, 1, 1, 1, -1), "n_rounds"),
        (lambda: ONES.mechanisms(UNIT, kind="exact"), "kind"),
    ],
)
def test_wrong_budgets_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
