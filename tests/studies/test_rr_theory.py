"""What the claims about RR-Cluster are computed with: as printed, corrected, and the exact truth.

The numbers of the claims themselves are rows of the committed page (test_claims.py).
"""

import math

import numpy as np
import pytest
from conftest import refuses
from scipy.integrate import quad
from scipy.stats import binomtest, norm

from fedclust_helpers.accounting import gaussian_sigma_analytic, gdp_epsilon
from fedclust_helpers.rr_cluster.accounting import (
    certified_epsilon,
    split_identifiers,
)
from studies.rr_cluster.theory import (
    TABLE_4,
    TABLE_4_CLIENTS,
    TABLE_4_EPSILONS,
    actual_epsilon,
    argmax_accuracy,
    contraction,
    equation_18,
    expected_moved,
    exponential_accuracy,
    flat_axis_factor,
    identifier_term,
    krr_accuracy,
    largest_informative_sigma,
    rebalancing_error,
    rebalancing_term,
    selection_error,
    selection_term,
    sigma_for_accuracy,
    table_4,
)

pytestmark = pytest.mark.slow

DELTA = 1e-3
PEOPLE = {"n_clients": 1000, "cohort": 100}
FALSE_ALARM = 1e-6  # of each statistical test below; seeds are fixed


# --- identifiers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4, 30])
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 20.0])
def test_quadrature_against_an_adaptive_one(k, sigma):
    exact, _ = quad(
        lambda z: norm.pdf(z) * norm.cdf(1 / sigma + z) ** (k - 1), -12, 12, epsabs=1e-13
    )
    assert argmax_accuracy(sigma, k) == pytest.approx(exact, abs=2e-9)
    if k == 2:
        assert exact == pytest.approx(norm.cdf(1 / (sigma * math.sqrt(2))), abs=1e-11)


def test_argmax_accuracy_at_its_ends():
    assert argmax_accuracy(0.0, 4) == 1.0
    assert argmax_accuracy(math.inf, 4) == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("sigma", [0.5, 2.15])
def test_simulation_agrees_with_quadrature(sigma):
    n = 200_000
    noisy = np.eye(4)[0] + sigma * np.random.default_rng(1).standard_normal((n, 4))
    share = (noisy.argmax(axis=1) == 0).mean()
    test = binomtest(round(share * n), n, argmax_accuracy(sigma, 4))
    assert test.pvalue > FALSE_ALARM


@pytest.mark.parametrize("k", [2, 4])
def test_sigma_for_accuracy_inverts(k):
    for sigma in (0.2, 0.5, 3.0, 100.0):
        assert sigma_for_accuracy(argmax_accuracy(sigma, k), k) == pytest.approx(sigma, rel=1e-6)
    assert sigma_for_accuracy(1.0, k) == 0.0
    assert sigma_for_accuracy(1 / k, k) == sigma_for_accuracy(0.0, k) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "printed", "corrected", "exponential", "krr", "real"),
    [
        (1, 0.641, 0.675, 0.645, 0.525, 1.51),
        (2, 0.546, 0.610, 0.525, 0.289, 3.06),
        (4, 0.381, 0.493, 0.289, 0.052, 6.22),
        (8, 0.161, 0.306, 0.052, 0.001, 12.77),
    ],
)
def test_flip_rates_of_one_release(epsilon, printed, corrected, exponential, krr, real):
    sigma, root = gaussian_sigma_analytic(epsilon, DELTA), math.sqrt(2)
    right = [argmax_accuracy(sigma, 4), argmax_accuracy(root * sigma, 4)]
    right += [exponential_accuracy(epsilon, 4), krr_accuracy(epsilon, 4)]
    assert 1 - np.array(right) == pytest.approx([printed, corrected, exponential, krr], abs=6e-4)
    assert gdp_epsilon(root / sigma, DELTA) == pytest.approx(real, abs=0.006)
    assert krr_accuracy(epsilon, 4) == pytest.approx(1 / (1 + 3 * math.exp(-epsilon)), rel=1e-12)
    assert exponential_accuracy(epsilon, 4) == krr_accuracy(epsilon / 2, 4)


@pytest.mark.parametrize(
    ("nominal", "identifiers", "two_clusters", "three_clusters"),
    [(2, 2.63, 2.17, 2.78), (4, 5.41, 4.42, 5.72), (8, 10.71, 8.98, 11.46)],
)
def test_what_nominal_epsilon_really_is(nominal, identifiers, two_clusters, three_clusters):
    sigma = {2: 2.4737, 4: 1.5207, 8: 0.93952}[nominal]  # wor_rdp, T = 50
    pair, run = split_identifiers(sigma, 0.5), dict(delta=DELTA, n_rounds=50, **PEOPLE)
    assert actual_epsilon(*pair, identifier_ratio=1.0, **run) == pytest.approx(nominal, rel=1e-4)
    assert actual_epsilon(*pair, **run) == pytest.approx(identifiers, abs=0.007)
    # what add/remove with an internal partition needs: sums that move by sqrt(5) C, and by 3 C
    for ratio, real in ((math.sqrt(5) / 2, two_clusters), (1.5, three_clusters)):
        joint = 1 / math.hypot(1 / pair[0], ratio / pair[1])
        cost = certified_epsilon(joint, accountant="wor_rdp", **run)
        assert cost == pytest.approx(real, abs=0.007)


# --- when rebalancing acts ------------------------------------------------------------------------


def test_expected_moved_against_simulation_and_by_hand():
    assert expected_moved(2, [0.5, 0.5], 1) == pytest.approx(0.5, rel=1e-12)
    probabilities = [0.6, 0.2, 0.1, 0.1]
    sizes = np.random.default_rng(2).multinomial(100, probabilities, 40_000)
    moved = np.maximum(12 - sizes, 0).sum(axis=1)
    half = norm.isf(FALSE_ALARM / 2) * moved.std() / math.sqrt(len(moved))
    assert expected_moved(100, probabilities, 12) == pytest.approx(moved.mean(), abs=half)


def test_noised_identifiers_leave_nothing_to_rebalance():
    """T = 50, half of the budget on identifiers, everybody's true cluster the same."""
    for epsilon, sigma_s, most in ((2, 3.50, 1.4e-4), (4, 2.15, 1.1e-3), (8, 1.33, 0.01)):
        right = argmax_accuracy(sigma_s, 4)
        probabilities = [right, *[(1 - right) / 3] * 3]
        assert expected_moved(100, probabilities, 8) < most, epsilon
    assert expected_moved(100, [0.25] * 4, 12) == pytest.approx(0.0024, abs=1e-4)


# --- Lemma 4.8 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "truth", "printed"),
    [(0.2, 0.0006, 0.0009), (0.5, 0.178, 0.415), (1.0, 0.448, 1.76), (5.0, 0.696, 11.2)],
)
def test_r8_identifier_term(sigma, truth, printed):
    wrong = 1 - argmax_accuracy(sigma, 4)
    assert wrong == pytest.approx(truth, abs=0.002)
    assert identifier_term(sigma, 4) == pytest.approx(printed, rel=0.04)
    assert wrong <= identifier_term(sigma, 4, form="corrected") <= identifier_term(sigma, 4)
    assert (identifier_term(sigma, 4) < 1) == (sigma < 0.8)  # vacuous from about 0.7 on


def test_r8_the_literal_reading_is_no_bound():
    assert identifier_term(5.0, 4, form="literal") == pytest.approx(0.022, abs=1e-3)
    assert 1 - argmax_accuracy(5.0, 4) > 0.69


@pytest.mark.parametrize("worst", [False, True])
def test_r9_truth_and_loss_variance_by_simulation(worst):
    rng = np.random.default_rng(4)
    z = 0.5 * rng.standard_normal((100_000, 2))
    first, second = (-0.5 if worst else 0.5), 1.5  # Delta = 2, beta = 1/4
    losses = [((z - [t, 0]) ** 2).sum(axis=1) / 2 for t in (first, second)]
    truth, bound = selection_error(2.0, 0.5, worst=worst)
    wrong = int((losses[0] > losses[1]).sum())
    assert binomtest(wrong, len(z), truth).pvalue > FALSE_ALARM
    assert bound == pytest.approx(selection_term(losses[1].std(), 0.25, 1.0, 2.0, 1), rel=0.02)


@pytest.mark.parametrize(
    ("b", "truth", "printed"), [(60, 0, 0.76), (80, 2.6e-4, 3.0), (90, 0.005, 12), (95, 0.015, 49)]
)
def test_r11_rebalancing_term(b, truth, printed):
    size_std = math.sqrt(400 * 0.25 * 0.75)
    moved = expected_moved(400, [0.25] * 4, b) / 400
    assert moved == pytest.approx(truth, abs=2e-4)
    assert rebalancing_term(size_std, 400, 4, b) == pytest.approx(printed, rel=0.03)
    short = 4 * equation_18(400, 4, b).below  # some cluster below B, union bound
    assert moved <= short <= rebalancing_term(size_std, 400, 4, b, form="corrected")


def test_r11_imbalanced_sizes_make_it_vacuous():
    """2:1:1 and three clusters: Assumption 4.6 measures the deviation from M/k."""
    variance = (200 - 400 / 3) ** 2 + 400 * 0.5 * 0.5
    assert rebalancing_term(math.sqrt(variance), 400, 3, 80) == pytest.approx(14, abs=0.5)


def test_corrected_terms_are_never_larger():
    assert selection_term(0.1, 0.25, 1.0, 4.0, 3) < selection_term(0.1, 0.25, 1.0, 4.0, 4)
    for term, arguments in (
        (identifier_term, (0.3, 4)), (rebalancing_term, (3.0, 400, 4, 50)),
    ):  # fmt: skip
        assert 0 < term(*arguments, form="corrected") < term(*arguments)


# --- Theorem 4.10 ---------------------------------------------------------------------------------

ONE_MODEL = dict(
    gamma=1.0, strong_convexity=0.01, smoothness=1.0, tau=0.0, delta_c=0.1, n_clients=100,
    n_clusters=1, min_size=100,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_corrected_contraction_holds_for_random_quadratics(seed):
    rng = np.random.default_rng(seed)
    curvatures = rng.uniform(0.01, 1, 6)
    for gamma in (0.1, 0.5, 1.0):
        settings = ONE_MODEL | dict(
            gamma=gamma, strong_convexity=curvatures.min(), smoothness=curvatures.max()
        )
        assert flat_axis_factor(curvatures, gamma) <= contraction(**settings, form="corrected")


def test_f3_twice_the_error_rate_is_needed():
    settings = ONE_MODEL | dict(tau=0.01, n_clusters=2, min_size=40, strong_convexity=1.0)
    printed, corrected = contraction(**settings), contraction(**settings, form="corrected")
    assert printed == pytest.approx(1 - (40 - 20) / 120)
    assert corrected == pytest.approx(1 - (40 - 40) / 120)


@pytest.mark.parametrize(
    ("k", "delta_c", "sigma", "epsilon"),
    [(2, 0.1, 0.28, 16.9), (2, 0.5, 0.36, 11.6), (4, 0.1, 0.24, 21.3), (4, 0.5, 0.29, 16.2)],
)
def test_r14_vacuous_in_every_private_regime(k, delta_c, sigma, epsilon):
    found = largest_informative_sigma(k, delta_c)
    assert found == pytest.approx(sigma, abs=0.006)
    assert gdp_epsilon(1 / found, DELTA) == pytest.approx(epsilon, abs=0.15)  # one round, no split
    for share, informative in ((0.99, True), (1.01, False)):  # B delta_c > 4 tau M, B = M/k
        assert (delta_c / k > 4 * identifier_term(share * found, k)) == informative
    tighter = largest_informative_sigma(k, delta_c, form="corrected")
    assert found < tighter < 1.3 * found


# --- R15: bias and variance in B ------------------------------------------------------------------

SIZES = (0, 10, 15, 20, 30, 40, 50)


def curve(sigma, reference="inserted", seed=5):
    return [
        rebalancing_error(sigma, b, rng=np.random.default_rng(seed), reference=reference)
        for b in SIZES
    ]


def test_r15_without_noise_rebalancing_only_hurts():
    points = curve(0.1)
    assert points[0].mse == points[1].mse  # B = 10 moves nobody
    assert points[1].moved == 0 and points[2].moved == pytest.approx(5, abs=0.1)
    assert all(p.mse > 4 * points[0].mse for p in points[2:])


def test_updates_relative_to_the_trained_model_bring_no_bias():
    """Algorithms 1 and 2, against the analysis: near the optimum moved updates average to 0."""
    for sigma in (0.25, 1.0):
        for as_printed, analysed in zip(curve(sigma, "trained")[3:], curve(sigma)[3:], strict=True):
            assert abs(as_printed.bias) < 0.01 < 0.2 < analysed.bias
            assert as_printed.mse < analysed.mse


def test_rebalancing_error_without_rebalancing_has_the_variance_of_the_noise():
    """B = 0: one step of size 1 forgets the past, so the error is the last round's noise.

    Beside it stands that of a mean of ten points.
    """
    point = rebalancing_error(0.2, 0, rng=np.random.default_rng(6), n_repetitions=300)
    expected = (2 * 0.2) ** 2 * 20 / 10**2 + 20 * 0.1**2 / 10
    assert point.moved == 0
    half = norm.isf(FALSE_ALARM / 2) * math.sqrt(2 / (20 * 300)) * expected
    assert point.mse == pytest.approx(expected, abs=half)


# --- Table 4 --------------------------------------------------------------------------------------


def test_table_4_was_measured_on_64_clients():
    for accuracies in TABLE_4.values():
        assert len(accuracies) == len(TABLE_4_EPSILONS)
        for value in accuracies:
            if value is not None:
                right = value * TABLE_4_CLIENTS / 100
                assert abs(right - round(right)) < 0.01 * TABLE_4_CLIENTS / 100


@pytest.mark.thorough
def test_no_number_of_rounds_explains_table_4():
    """One round, and no budget for the models at all: still more noise than 87.5 % allows."""
    rows = {(r.method, r.epsilon): r for r in table_4(n_rounds=1, share=1.0)}
    for epsilon in (4.0, 8.0):
        row = rows["RR-Cluster(IFCA) B=8", epsilon]
        assert row.accuracy_at_needed < row.accuracy / 100
        assert row.needed > row.highest


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: argmax_accuracy(-1.0, 4), "sigma"),
        (lambda: argmax_accuracy(1.0, 0), "n_clusters"),
        (lambda: sigma_for_accuracy(1.2, 4), "accuracy"),
        (lambda: expected_moved(10, [0.5, 0.4], 1), "probabilities"),
        (lambda: selection_term(1.0, 0.5, 1.0, 1.0, 2), "beta"),
        (lambda: identifier_term(1.0, 4, form="fraction"), "form"),
        (lambda: rebalancing_term(1.0, 100, 4, 25), "min_size"),
        (lambda: equation_18(400, 4, 100), "min_size"),
        (lambda: contraction(**(ONE_MODEL | {"form": "loose"})), "form"),
        (lambda: largest_informative_sigma(4, 1.5), "delta_c"),
        (lambda: rebalancing_error(1.0, 51, rng=np.random.default_rng(0)), "min_size"),
        (lambda: table_4(share=0.0), "share"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, name):
    refuses(ValueError, name, call)
