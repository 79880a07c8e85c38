"""What the claims about locally private k-means are computed with, against independent oracles.

The numbers of the claims themselves are rows of the committed page (test_claims.py). Fixed seeds.
Where a number is a mean over trials, the tolerance is at least four standard errors (false alarm
below 1e-4 a comparison for another seed).
"""

import math

import numpy as np
import pytest
from conftest import seeded as rng
from scipy import integrate, special, stats

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from studies.ldp_kmeans import as_printed, growth, theory
from studies.ldp_kmeans.bounds import (
    collision_probability,
)

# --- splitting users and budgets ------------------------------------------------------------------


def test_users_win_by_the_root_of_the_number_of_questions_for_small_epsilon():
    ratios = [theory.split_budget_std(100, 1e-3, m) / theory.split_users_std(100, 1e-3, m)
              for m in (4, 16, 64)]  # fmt: skip
    assert ratios == pytest.approx([2, 4, 8], rel=1e-4)


def test_printed_users_find_their_own_number_of_levels():
    n = as_printed.users_needed_as_printed(1 / 50, 1.0)
    levels = math.ceil(math.log2(n))
    assert as_printed.users_needed_as_printed(1 / 50, 1.0, levels) == pytest.approx(n, rel=1e-5)
    assert levels > 20


def test_detection_threshold_and_users_needed_are_inverse():
    for epsilon in (0.5, 1, 4, 8):
        n = lk.users_needed(0.02, epsilon, 2)
        assert lk.detection_threshold(n, epsilon, 2) <= 0.02 * n
        assert lk.detection_threshold(n - 2, epsilon, 2) > 0.02 * (n - 2)
        assert lk.users_needed(0.02, epsilon, 2, user_share=0.5) == pytest.approx(2 * n, abs=2)
    # by hand: z c sqrt(n M/m) with m = 2 answers of epsilon/2
    c = RandomizedResponse(2.0).debias
    assert lk.detection_threshold(10**6, 4, 4) == pytest.approx(3.5 * c * math.sqrt(2e6))


# --- grids ----------------------------------------------------------------------------------------


def test_cells_within_agrees_with_brute_force():
    positions = rng(4).uniform(-2, 2, size=(40, 3))
    found = theory.cells_within(positions, 1.3)
    corners = np.stack(np.meshgrid(*[np.arange(-5, 6)] * 3, indexing="ij"), -1).reshape(-1, 3)
    for position, count in zip(positions, found, strict=True):
        gap = np.maximum(np.maximum(corners - position, position - corners - 1), 0)
        assert count == (np.linalg.norm(gap, axis=1) <= 1.3).sum()


def test_few_cells_are_their_own_centres():
    corners = np.array([[0.6, 0.6], [-0.6, -0.6]])
    assert theory.discretised_cost(corners, 1, 3, rng=rng()) == pytest.approx(0.02)
    assert kmeans_cost(corners, [[0.5, 0.5], [-0.5, -0.5]], normalize=True) == pytest.approx(0.02)


# --- P11 to P14: locality-sensitive hashing -------------------------------------------------------


@pytest.mark.parametrize(
    "t, c", [(1, 6.0), (4, 0.01), (16, 6.0), (64, 6.0), (475, 3.0), (475, 6.0)]
)
def test_collision_probability_against_quadrature(t, c):
    """An independent integral, also far out in the tail where p is below 1e-40."""
    w = t**0.25

    def integrand(x):
        inside = np.maximum(0.0, 1 - (x * c / (2 * w * math.sqrt(t))) ** 2)
        common = special.betainc((t + 1) / 2, 0.5, inside)
        return common / (2 - common) * stats.chi.pdf(x, t)

    top = min(2 * w * math.sqrt(t) / c, math.sqrt(t) + 12)
    x = np.linspace(0, top, 4001)
    expected = integrate.simpson(integrand(x), x=x)
    assert collision_probability(c, t) == pytest.approx(expected, rel=1e-5)


# --- growth with n --------------------------------------------------------------------------------


def test_slopes():
    n = np.array([1e3, 1e4, 1e5, 1e6])
    exact = growth.loglog_slope(n, 7 * n**0.5)
    assert exact == pytest.approx((0.5, 0.5, 0.5))
    noisy = growth.loglog_slope(n, n * [1.0, 1.1, 0.95, 1.02])
    fit = stats.linregress(np.log(n), np.log(n * [1.0, 1.1, 0.95, 1.02]))
    half = stats.t.ppf(0.975, 2) * fit.stderr
    assert noisy == pytest.approx((fit.slope, fit.slope - half, fit.slope + half))
    assert growth.loglog_slope(n, n * [1.0, 1.1, 0.95, 1.02], level=0.5).low > noisy.low


def test_the_interval_of_a_slope_covers_the_truth():
    # 400 lines with normal errors: 95 % intervals miss 20 times, above 38 less than 1e-4
    g, n = rng(8), np.logspace(3, 6, 6)
    fits = [growth.loglog_slope(n, n**0.5 * np.exp(0.1 * g.normal(size=6))) for _ in range(400)]
    assert 5 <= sum(not f.low < 0.5 < f.high for f in fits) <= 38
