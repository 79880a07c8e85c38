"""The claims of the RR-Cluster paper: as printed, corrected, and the exact truth beside them."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, binomtest, norm

from fedclust_helpers.accounting import gaussian_sigma_analytic, gdp_epsilon
from fedclust_helpers.rr_cluster.accounting import (
    calibrate,
    certified_epsilon,
    split_identifiers,
)
from fedclust_helpers.studies.rr_cluster.theory import (
    TABLE_4,
    TABLE_4_CLIENTS,
    TABLE_4_EPSILONS,
    actual_epsilon,
    argmax_accuracy,
    binding_sigma,
    clip_as_printed,
    contraction,
    equation_18,
    expected_moved,
    exponential_accuracy,
    flat_axis_factor,
    identifier_term,
    krr_accuracy,
    largest_informative_sigma,
    model_noise,
    rebalancing_error,
    rebalancing_term,
    rounds_to_quarter,
    run_flip_rates,
    scale_divergence,
    selection_error,
    selection_term,
    sigma_for_accuracy,
    simulate_argmax,
    table_4,
)

DELTA = 1e-3
PEOPLE = {"n_clients": 1000, "cohort": 100}
FALSE_ALARM = 1e-6  # of each statistical test below; seeds are fixed


# --- identifiers ----------------------------------------------------------------------------------

SIGMAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.33, 1.5, 2.15, 3.5, 8.5)
ACCURACIES = {
    2: (1.000, 0.991, 0.961, 0.921, 0.881, 0.812, 0.760, 0.703, 0.681, 0.629, 0.580, 0.533),
    4: (0.999, 0.976, 0.907, 0.823, 0.746, 0.630, 0.552, 0.473, 0.446, 0.383, 0.329, 0.281),
}


@pytest.mark.parametrize("k", ACCURACIES)
def test_table_of_argmax_accuracy(k):
    found = [argmax_accuracy(sigma, k) for sigma in SIGMAS]
    assert found == pytest.approx(ACCURACIES[k], abs=6e-4)


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
    share = simulate_argmax(sigma, 4, n, rng=np.random.default_rng(1))
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


def test_flip_rates_of_a_run():
    """T = 50 at the same total: all mechanisms flip half of the identifiers or more."""
    for epsilon in (2, 4, 8):
        found = run_flip_rates(epsilon, DELTA, n_rounds=50, n_clusters=4, **PEOPLE)
        assert 0.5 < found.krr < found.printed < found.corrected < found.exponential < 0.75
        assert found.printed_epsilon > 1.15 * epsilon
    sigma = calibrate(8, DELTA, n_rounds=50, accountant="paper_tight", **PEOPLE)
    sigma_s, sigma_theta = split_identifiers(sigma, 0.5)
    real = 1 / math.sqrt(2 / sigma_s**2 + 1 / sigma_theta**2)
    assert found.printed_epsilon == certified_epsilon(
        real, delta=DELTA, n_rounds=50, accountant="paper_tight", **PEOPLE
    )


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


@pytest.mark.parametrize(("b", "sigma"), [(12, 0.78), (8, 0.58), (4, 0.43)])
def test_binding_sigma(b, sigma):
    found = binding_sigma(100, 4, b)
    assert found == pytest.approx(sigma, abs=0.005)
    assert 100 * (1 - argmax_accuracy(found, 4)) / 3 == pytest.approx(b, rel=1e-9)


# --- sensitivity and noise ------------------------------------------------------------------------


def test_r4_the_printed_clip_does_not_clip():
    one_hot, update = np.eye(4)[1], np.full(4, 50.0)
    assert np.linalg.norm(clip_as_printed(update, one_hot, 0.1)) == pytest.approx(10.0)


def test_model_noise_is_that_of_the_release():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 2 * 0.3 * 1.5, (4000, 50)) / 7
    squared = (noise**2).sum(axis=1).mean() / model_noise(1.5, 0.3, 50, 7) ** 2
    assert abs(squared - 1) < norm.isf(FALSE_ALARM / 2) * math.sqrt(2 / (50 * 4000))


def test_dividing_by_the_exact_size_reveals_it():
    sizes = (5, 9, 13, 25, 100)
    for d, expected in ((1970, (375, 72, 30, 7.2, 0.41)), (7850, (1493, 287, 120, 28.5, 1.62))):
        assert [scale_divergence(n, d) for n in sizes] == pytest.approx(expected, rel=0.01)

    def direct(p, q, order):
        value, _ = quad(
            lambda x: norm.pdf(x, scale=p) ** order * norm.pdf(x, scale=q) ** (1 - order), -5, 5
        )
        return math.log(value) / (order - 1)

    both = direct(1 / 5, 1 / 4, 2), direct(1 / 4, 1 / 5, 2)
    assert scale_divergence(5, 3) == pytest.approx(3 * max(both), rel=1e-6)
    assert scale_divergence(2, 1, order=2) == math.inf


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


@pytest.mark.parametrize(
    ("separation", "truth", "bound"), [(1, 0.158, 25.9), (2, 0.023, 5.0), (4, 4e-5, 1.15)]
)
def test_r9_selection_term(separation, truth, bound):
    found = selection_error(separation, 0.5)
    assert found[0] == pytest.approx(truth, abs=1e-3)
    assert found[1] == pytest.approx(bound, rel=0.01)
    worst = selection_error(separation, 0.5, worst=True)
    assert found[0] < worst[0] <= worst[1] == found[1]


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


def test_r10_equation_18_bounds_the_other_tail():
    found = equation_18(400, 4, 50)
    assert found.bound == pytest.approx(0.03, abs=1e-4)
    assert found.above > 1 - 1e-8 and found.below < 1e-8
    for b in range(60, 99, 3):
        one = equation_18(400, 4, b)
        assert one.below <= one.bound
        between = binom.pmf(b, 400, 0.25)
        assert one.above + one.below + between == pytest.approx(1.0, rel=1e-9)


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


def test_r12_tau_falls_as_one_over_m_at_most():
    terms = [rebalancing_term(math.sqrt(m * 3 / 16), m, 4, m / 8) for m in (100, 400, 1600)]
    assert terms == pytest.approx([1.92, 0.48, 0.12], rel=1e-9)
    assert identifier_term(0.5, 4) > 0.4  # no M makes this part of tau smaller


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


def test_r13_the_contraction_fails_along_a_flat_axis():
    real = flat_axis_factor([0.01, 1.0], 1.0)
    assert real == pytest.approx(0.99, rel=1e-12)
    assert contraction(**ONE_MODEL) == pytest.approx(0.5, rel=1e-12)
    assert contraction(**ONE_MODEL) < real <= contraction(**ONE_MODEL, form="corrected")


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


def test_f3_delta_cancels_in_corollary_b_1():
    arguments = dict(rate=0.05, alpha_0=0.1, condition_number=10.0)
    metres = rounds_to_quarter(separation=1.0, **arguments)
    millimetres = rounds_to_quarter(separation=1000.0, **arguments)
    assert millimetres == pytest.approx(metres + math.log(1000) / math.log1p(-0.05))
    corrected = rounds_to_quarter(separation=1000.0, form="corrected", **arguments)
    assert corrected == metres
    assert 0.95**corrected * 0.4 == pytest.approx(math.sqrt(0.1) / 8)  # Equation 41, both sides


# --- R15: bias and variance in B ------------------------------------------------------------------

SIZES = (0, 10, 15, 20, 30, 40, 50)


def curve(sigma, reference="inserted", seed=5):
    return [
        rebalancing_error(sigma, b, rng=np.random.default_rng(seed), reference=reference)
        for b in SIZES
    ]


def test_r15_error_is_u_shaped_and_the_optimum_grows_with_the_noise():
    best = {}
    for sigma in (0.25, 1.0, 3.0):
        errors = [point.mse for point in curve(sigma)[1:]]  # B >= 10
        best[sigma] = SIZES[1:][int(np.argmin(errors))]
    assert best[0.25] == 10 and 15 <= best[1.0] <= 30 and best[3.0] >= 40


def test_r15_bias_rises_and_variance_falls():
    points = curve(1.0)[2:]  # B = 15 .. 50
    bias, variance = [p.bias for p in points], [p.variance for p in points]
    assert bias == sorted(bias) and bias[0] < 0.2 and bias[-1] > 0.5
    assert variance == sorted(variance, reverse=True) and variance[0] > 5 * variance[-1]


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
    expected = model_noise(0.2, 1.0, 20, 10) ** 2 + 20 * 0.1**2 / 10
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


@pytest.mark.slow
def test_table_4_needs_less_identifier_noise_than_the_accounting():
    rows = {(r.method, r.epsilon): r for r in table_4()}
    assert len(rows) == 29
    row = rows["RR-Cluster(IFCA) B=8", 4.0]
    assert row.n_correct == 56
    assert row.sigma_s == pytest.approx(0.438, abs=1e-3)
    assert row.lowest < row.sigma_s < row.highest < row.needed / 3
    assert row.needed == pytest.approx(2.15, abs=0.005)
    assert row.accuracy_at_needed == pytest.approx(0.38, abs=0.005)
    for epsilon in (2.0, 4.0, 8.0, 16.0):  # B = 8 is better than its own noise allows throughout
        assert (
            rows["RR-Cluster(IFCA) B=8", epsilon].highest
            < rows["RR-Cluster(IFCA) B=8", epsilon].needed
        )
    ifca = rows["DP-IFCA", 4.0]  # while DP-IFCA is what the noise gives
    assert ifca.lowest < ifca.needed < ifca.highest


@pytest.mark.slow
def test_no_number_of_rounds_explains_table_4():
    """One round, and no budget for the models at all: still more noise than 87.5 % allows."""
    rows = {(r.method, r.epsilon): r for r in table_4(n_rounds=1, share=1.0)}
    for epsilon in (4.0, 8.0):
        row = rows["RR-Cluster(IFCA) B=8", epsilon]
        assert row.accuracy_at_needed < row.accuracy / 100
        assert row.needed > row.highest


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: argmax_accuracy(-1.0, 4), ValueError, "sigma"),
        (lambda: argmax_accuracy(1.0, 0), ValueError, "n_clusters"),
        (lambda: sigma_for_accuracy(1.2, 4), ValueError, "accuracy"),
        (lambda: simulate_argmax(1.0, 4, 10, rng=7), TypeError, "rng"),
        (lambda: expected_moved(10, [0.5, 0.4], 1), ValueError, "probabilities"),
        (lambda: binding_sigma(100, 4, 26), ValueError, "min_size"),
        (lambda: scale_divergence(1, 10), ValueError, "size"),
        (lambda: scale_divergence(5, 10, order=1.0), ValueError, "order"),
        (lambda: selection_term(1.0, 0.5, 1.0, 1.0, 2), ValueError, "beta"),
        (lambda: identifier_term(1.0, 4, form="fraction"), ValueError, "form"),
        (lambda: rebalancing_term(1.0, 100, 4, 25), ValueError, "min_size"),
        (lambda: equation_18(400, 4, 100), ValueError, "min_size"),
        (lambda: contraction(**(ONE_MODEL | {"form": "loose"})), ValueError, "form"),
        (lambda: largest_informative_sigma(4, 1.5), ValueError, "delta_c"),
        (lambda: rebalancing_error(1.0, 51, rng=np.random.default_rng(0)), ValueError, "min_size"),
        (lambda: rebalancing_error(1.0, 5, rng=None), TypeError, "rng"),
        (lambda: table_4(share=0.0), ValueError, "share"),
    ],
)
def test_wrong_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()
