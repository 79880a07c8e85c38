"""What the claims about RR-Cluster are computed with: as printed, corrected, and the exact truth.

The numbers of the claims themselves are rows of the committed page (test_claims.py).
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fedclust_helpers.accounting import gaussian_sigma_analytic, gdp_epsilon
from studies.rr_cluster.theory import (
    argmax_accuracy,
    expected_moved,
    exponential_accuracy,
    krr_accuracy,
    rebalancing_error,
    sigma_for_accuracy,
)

pytestmark = pytest.mark.slow

DELTA = 1e-3
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


# --- when rebalancing acts ------------------------------------------------------------------------


def test_expected_moved_against_simulation_and_by_hand():
    assert expected_moved(2, [0.5, 0.5], 1) == pytest.approx(0.5, rel=1e-12)
    probabilities = [0.6, 0.2, 0.1, 0.1]
    sizes = np.random.default_rng(2).multinomial(100, probabilities, 40_000)
    moved = np.maximum(12 - sizes, 0).sum(axis=1)
    half = norm.isf(FALSE_ALARM / 2) * moved.std() / math.sqrt(len(moved))
    assert expected_moved(100, probabilities, 12) == pytest.approx(moved.mean(), abs=half)


# --- R15: bias and variance in B ------------------------------------------------------------------

SIZES = (0, 10, 15, 20, 30, 40, 50)


def curve(sigma, reference="inserted", seed=5):
    return [
        rebalancing_error(sigma, b, rng=np.random.default_rng(seed), reference=reference)
        for b in SIZES
    ]


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
