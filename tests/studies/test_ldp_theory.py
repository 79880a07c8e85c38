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
from fedclust_helpers.accounting import gaussian_sigma_classic, gdp_delta
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from studies.ldp_kmeans import as_printed, growth, theory
from studies.ldp_kmeans.bounds import (
    collision_probability,
    far_upper_bound,
    near_lower_bound,
    printed_calls,
)

DELTA = 1e-6


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


# --- P1 to P5: dimension reduction ----------------------------------------------------------------


def test_the_longest_stretch_is_that_of_the_map():
    few = rng().normal(size=(50, 50))
    matrix = np.random.default_rng(7).normal(size=(50, 6)) / math.sqrt(6)
    by_hand = np.max(np.linalg.norm(few @ matrix, axis=1) / np.linalg.norm(few, axis=1))
    assert theory.longest_stretch(few, 6, rng=rng(7)) == pytest.approx(by_hand, rel=1e-12)


def test_p4_the_corrected_bound_holds_for_all_points():
    # 200 unit vectors, 100 maps: at beta = 0.2 the union bound may fail in 20 maps, not in more
    points = rng(3).normal(size=(200, 20))
    bound = theory.stretch_bound(200, 0.5, 0.2, 10).corrected
    failures = sum(theory.longest_stretch(points, 10, rng=g) > bound
                   for g in map(rng, range(100)))  # fmt: skip
    assert failures <= 20


# --- P6 to P9: oracles ----------------------------------------------------------------------------


def test_p6_sums_have_root_n_error():
    sizes = [1000, 4000, 16_000, 64_000]
    runs = [theory.sums_error(n, 4, 1.0, DELTA, rng=rng(n)) for n in sizes]
    means = [r.errors.mean() for r in runs]
    for n, run in zip(sizes, runs, strict=True):
        # mean of 64 lengths, each with a relative sd of 0.37: four standard errors are 0.18
        assert run.errors.mean() / math.sqrt(n) == pytest.approx(19.9, rel=0.18)
        assert np.sqrt(np.mean(run.errors**2)) == pytest.approx(run.rms, rel=0.18)
        assert run.errors.max() < 0.6 * run.bound  # slack 2 to 5
    slope = growth.loglog_slope(sizes, means)
    assert slope.low < 0.5 < slope.high and abs(slope.slope - 0.5) < 0.08


def test_p6_without_noise_only_the_signs_remain():
    # the analytic noise at epsilon = 500 is below 0.04 of a report of length 1/2
    run = theory.sums_error(20_000, 4, 500.0, DELTA, rng=rng(5), calibration="analytic")
    assert run.errors.mean() / math.sqrt(20_000) == pytest.approx(0.49, abs=0.06)


@pytest.mark.parametrize("epsilon, truth", [(1, 9.3e-6), (0.5, 3.6e-6), (0.25, 1.6e-6)])
def test_p2_of_the_notes_algorithm_5(epsilon, truth):
    assert theory.algorithm_5_true_delta(epsilon, DELTA) == pytest.approx(truth, rel=0.02)
    # with the sensitivity that is claimed, sqrt(2), the classic noise keeps its promise
    std = math.sqrt(2) * gaussian_sigma_classic(epsilon, DELTA)
    assert gdp_delta(math.sqrt(2) / std, epsilon) <= DELTA < gdp_delta(2 / std, epsilon)


def test_p8_the_cross_terms():
    three = np.ones((3, 1))
    assert (three.sum() ** 2) == 9 > 2 * (three**2).sum() == 6
    for d, share in ((1, 0.157), (4, 0.092)):
        found = theory.cross_term_violation(100, d, rng=rng(d), n_trials=8000)
        assert found.limit == pytest.approx(share, abs=5e-4)
        # 4 standard errors of 8000 trials, and 1/n for the finite n
        assert found.violated == pytest.approx(found.limit, abs=0.017 + 0.01)


def test_p9_counts_have_root_n_error():
    sizes = [1000, 4000, 16_000, 64_000]
    c = theory.response_factor(1.0)
    assert c == pytest.approx(2.164, abs=5e-4)
    for n in sizes:
        # 1023 buckets: 4 standard errors of the rms are 4/sqrt(2 * 1023)
        assert theory.count_rms(n, 1.0, rng=rng(n)) / math.sqrt(n) == pytest.approx(c, rel=0.09)
    small = [e * theory.count_rms(10_000, e, rng=rng(9)) / 100 for e in (0.25, 0.5, 1)]
    exact = [e * theory.response_factor(e) for e in (0.25, 0.5, 1)]
    assert small == pytest.approx(exact, rel=0.09) and max(small) < 2.5


# --- grids ----------------------------------------------------------------------------------------


def test_p10_the_shift_and_the_d_are_needed():
    assert theory.cells_within(np.zeros((1, 8)), 1 / 8).tolist() == [256]
    for d, expected in ((4, 12), (8, 35)):
        found = theory.mean_nearby_cells(d, 4000, rng=rng(d), distance=d**-0.5)
        assert found.exact == pytest.approx(expected, abs=0.5)
        assert found.mean == pytest.approx(found.exact, rel=0.1)


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


@pytest.mark.parametrize("t", [1, 2, 3, 4, 8, 16, 32, 64, 100])
def test_p11_the_bounds_of_the_theorem(t):
    constant = collision_probability(1.0, t) / near_lower_bound(t)
    assert 1.3 < constant < 5.4
    for c in np.linspace(1.01, 6, 60):
        assert collision_probability(float(c), t) <= far_upper_bound(float(c), t)


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


def test_p14_probabilities_of_the_shifted_grid_are_exact():
    # two points at distance 1 in the worst direction (45 degrees), 3 in the best (along an axis)
    g, side, n = rng(6), 4.0, 200_000
    shift = g.uniform(0, side, size=(n, 2))
    for step, expected in (((math.sqrt(0.5),) * 2, 0.6777), ((3.0, 0.0), 0.25)):
        same = (np.floor(shift / side) == np.floor((shift + step) / side)).all(axis=1).mean()
        assert same == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(n))


# --- what makes Algorithm 4 impractical -----------------------------------------------------------


def test_printed_calls_of_algorithm_4():
    """Notes 3.1: n = 1e6, k = 5, d = 8 (there R = 31 at t = 4, from p(1) rounded to 0.33)."""
    few, many = printed_calls(10**6, 8, 5, t=4), printed_calls(10**6, 8, 5, t=6)
    for calls in (few, many):
        assert (calls["L"], calls["F"], calls["M"]) == (20, 8, 8)
        assert calls["calls"] == 8 * 20 * 8 * calls["R"]
        assert calls["epsilon_share"] == pytest.approx(1 / (8 * calls["calls"]))
    repetitions = [printed_calls(10**6, 8, 5, t=t)["R"] for t in (4, 8)]
    assert repetitions == [30, 39]
    share = [printed_calls(10**6, 8, 5, t=t)["epsilon_share"] for t in (4, 8)]
    assert share == pytest.approx([3.2e-6, 2.5e-6], rel=0.04)
    users = [printed_calls(10**6, 8, 5, t=t)["users_per_call"] for t in (4, 8)]
    assert users == pytest.approx([25, 20], rel=0.05)
    large = [printed_calls(10**7, 8, 5, t=t) for t in (4, 8)]
    assert [c["calls"] for c in large] == pytest.approx([61_440, 76_800], rel=0.04)


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


def test_a_long_tail_adds_up_to_one():
    assert growth.zipf_shares().sum() == pytest.approx(1)
    assert growth.zipf_shares(3, 1.0) == pytest.approx(np.array([6, 3, 2]) / 11)
