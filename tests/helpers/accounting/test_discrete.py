"""Discrete noise priced as rounded continuous noise: the theorem, against exact enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedclust_helpers.accounting import PrivacyLedger, gdp_delta, gdp_epsilon, zcdp_epsilon
from fedclust_helpers.accounting.discrete import (
    Gap,
    delta_across,
    discrete_multipliers,
    epsilon_across,
)
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Gaussian,
    Laplace,
)

SCALES = [0.7, 2.0, 3.0, 10.0]


def steps(s, reach=30.0):
    return np.arange(-math.ceil(reach * s), math.ceil(reach * s) + 1)


def discrete_gaussian(s, k):
    weights = np.exp(-(k**2) / (2 * s * s))
    return weights / weights.sum()


def rounded(distribution, k):
    """Probabilities of round(N), from the tail on the far side."""
    return distribution.cdf(-np.abs(k) + 0.5) - distribution.cdf(-np.abs(k) - 0.5)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def ledger_of(*mechanisms):
    ledger = PrivacyLedger(adjacency=mechanisms[0].adjacency)
    for one in mechanisms:
        ledger.charge([one], name="x")
    return ledger


# --- the gap, point by point ----------------------------------------------------------------------


@pytest.mark.parametrize("s", SCALES)
def test_the_gap_of_a_discrete_gaussian_holds_at_every_integer(s):
    k = steps(s)
    x, y = discrete_gaussian(s, k), rounded(norm(scale=s), k)
    gap = DiscreteGaussian(1.0, s, 1.0, n_coordinates=1).continuous()[1]
    up = np.log(x / y)
    assert up.max() <= gap.up
    for z in (1.0, 2.0, 4.0, 8.0, 12.0):
        inside = np.abs(k) <= (z + 1 / (2 * s)) * s
        assert (-up[inside]).max() <= gap.back(z)
        assert y[~inside].sum() <= math.exp(-z * z / 2)
    if s >= 2:  # and they say something: nearly reached at 0, and at the edge
        assert gap.up < 1.02 * up.max()
        assert gap.back(4.0) < 1.6 * (-up[np.abs(k) <= 4 * s + 0.5]).max()


def test_gaps_add_up_over_coordinates_and_releases():
    """The largest ratio of n independent draws is that of one to the power n, reached at 0."""
    s, n = 3.0, 40
    k = steps(s)
    up = np.log(discrete_gaussian(s, k) / rounded(norm(scale=s), k))
    gap = DiscreteGaussian(5.0, 3.0 / 4, 1 / 4, n_coordinates=n).continuous()[1]
    assert n * up.max() <= gap.up < 1.02 * n * up.max()
    edge = (-up[np.abs(k) <= 4 * s + 0.5]).max()
    assert n * edge <= gap.back(4.0) < 1.5 * n * edge
    twice = Gap.sum([gap, gap])
    assert (twice.up, twice.numbers) == (2 * gap.up, 2 * n)
    assert twice.back(4.0) == pytest.approx(2 * gap.back(4.0))
    both = Gap.sum([gap, Gap.gaussian(7, 2.0), Gap.laplace(3, 5.0)])
    assert both.numbers == n + 7 and both.up > gap.up and both.down == Gap.laplace(3, 5.0).down


@pytest.mark.parametrize("m", [2, 3, 7])
@pytest.mark.parametrize("share", [0.5, 0.8, 2.0])
def test_shares_of_noise_add_up_to_as_small_a_gap(m, share):
    """The sum of m discrete Gaussians, by convolution, against the rounded Gaussian."""
    k = steps(share, 40.0)
    one = discrete_gaussian(share, k)
    total = one
    for _ in range(m - 1):
        total = np.convolve(total, one)
    s = share * math.sqrt(m)
    k = np.arange(len(total)) - len(total) // 2
    near = np.abs(k) <= 6 * s
    up = np.log(total[near] / rounded(norm(scale=s), k[near]))
    mechanism = DistributedDiscreteGaussian(1.0, s, 1.0, n_honest=m, n_coordinates=1)
    gap = mechanism.continuous()[1]
    assert up.max() <= gap.up * (1 + 1e-9) and -up.min() <= gap.back(6.0)
    alone = discrete_gaussian(s, k)[near]
    ratio = np.abs(np.log(total[near] / alone)).max()
    assert ratio <= gap.down + 1e-12  # of one discrete Gaussian, by Poisson summation


@pytest.mark.parametrize("s", [0.3, *SCALES, 1000.0])
def test_the_gap_of_a_discrete_laplace_is_exact(s):
    k = np.arange(0, 200)
    x = np.exp(-k / s) * math.tanh(1 / (2 * s))
    y = np.exp(-k / s) * math.sinh(1 / (2 * s))  # of round(Laplace)
    y[0] = -math.expm1(-1 / (2 * s))
    up = np.log(x / y)
    gap = DiscreteLaplace(1.0, s, 1.0, n_coordinates=1).continuous()[1]
    assert up.max() == pytest.approx(gap.up, rel=1e-6)
    assert -up.min() <= gap.back(0.0) * (1 + 1e-9) < 2 * max(-up.min(), 1 / (60 * s * s))


# --- what follows from it -------------------------------------------------------------------------

EPSILONS = np.concatenate([[0.0], np.geomspace(0.01, 6.0, 60)])


@pytest.mark.parametrize("s", SCALES[1:])
def test_delta_and_epsilon_of_one_number_hold_for_every_shift(s):
    """All integer shifts, exact delta by enumeration; the Gaussian curve alone would be wrong."""
    k, alone_is_wrong = steps(s), False
    x = discrete_gaussian(s, k)
    for shift in range(1, int(5 * s) + 1):
        ledger = ledger_of(DiscreteGaussian(float(shift), s, 1.0, n_coordinates=1))
        moved = np.exp(-((k - shift) ** 2) / (2 * s * s)) * x.max()
        gap = Gap.gaussian(1, s)
        for epsilon in EPSILONS[:: 1 + shift // 4]:
            true = max(hockey_stick(x, moved, epsilon), hockey_stick(moved, x, epsilon))
            bound = delta_across(gap, epsilon, lambda at, mu=shift / s: gdp_delta(mu, at))
            assert true <= bound * (1 + 1e-9) and true <= ledger.delta(epsilon) * (1 + 1e-9)
            alone_is_wrong |= true > gdp_delta(shift / s, epsilon) * (1 + 1e-6)
        for delta in (1e-2, 1e-5, 1e-9):
            near = epsilon_across(gap, delta, lambda at, mu=shift / s: gdp_epsilon(mu, at))
            for epsilon in (near, ledger.epsilon(delta)):
                assert hockey_stick(x, moved, epsilon) <= delta * (1 + 1e-9)
    assert alone_is_wrong


def test_it_holds_for_adaptive_releases_in_three_coordinates():
    """Shifts chosen by what was released before: exact delta over all transcripts."""
    s = 2.0
    k = steps(s, 9.0)
    x = {a: np.exp(-((k - a) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)) for a in range(3)}
    # second and third shift depend on the sign of the number before
    p, q = [], []
    for i, j in itertools.product(range(len(k)), repeat=2):
        second, third = (2, 1) if k[i] > 0 else (1, 0), 1 + (k[j] > 0)
        p.append(x[0][i] * x[0][j] * x[0])
        q.append(x[1][i] * x[second[0]][j] * x[third])
    p, q = np.concatenate(p), np.concatenate(q)
    mu = math.sqrt(1 + 4 + 4) / s  # the largest shifts
    gap = Gap.sum([Gap.gaussian(1, s)] * 3)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        bound = delta_across(gap, epsilon, lambda at: gdp_delta(mu, at))
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("s", "n", "epsilon"), [(2.0, 1, 1.0), (3.0, 30, 0.3), (40.0, 500, 2.0)])
def test_tails_are_paid_for(s, n, epsilon):
    """From the answer back to the theorem: e^A (delta' + e^eps' T) with exact tails, all n."""
    gap, delta, asked = Gap.gaussian(n, s), 1e-6, []
    total = epsilon_across(gap, delta, lambda at: asked.append(at) or epsilon)
    z = brentq(lambda z: gap.back(z) - (total - epsilon - gap.up), 0.1, 40.0, xtol=1e-12)
    k = steps(s)
    tails = n * rounded(norm(scale=s), k)[np.abs(k) > (z + 1 / (2 * s)) * s].sum()
    assert tails > 0
    assert math.exp(gap.up) * (asked[0] + math.exp(epsilon) * tails) <= delta * (1 + 1e-12)
    # room for them is left in delta, and used: the bound on the tails fills it
    assert asked[0] + math.exp(epsilon) * n * math.exp(-z * z / 2) == pytest.approx(
        delta * math.exp(-gap.up), rel=1e-6
    )
    there = delta_across(gap, epsilon, lambda at: 1e-6)
    z = gap.reach(epsilon, 1e-6)
    within = max(epsilon - gap.up - gap.back(z), 0.0)
    least = 1e-6 + math.exp(within) * n * math.exp(-z * z / 2)
    assert there >= math.exp(gap.up) * least * (1 - 1e-12) > 1e-6 * (1 + 5e-10)


# --- totals ---------------------------------------------------------------------------------------


def fine(kind, **options):
    return kind(1.0, 4.0, 2.0**-28, n_coordinates=1000, **options)


@pytest.mark.parametrize("adjacency", ["add/remove", "replace-one"])
def test_a_fine_grid_costs_what_continuous_noise_costs(adjacency):
    gaussian, laplace = Gaussian(1.0, 4.0, adjacency), Laplace(1.0, 4.0, adjacency)
    pairs = [
        ([fine(DiscreteGaussian, adjacency=adjacency)] * 9, [gaussian] * 9),
        ([fine(DistributedDiscreteGaussian, adjacency=adjacency, n_honest=5)] * 9, [gaussian] * 9),
        ([fine(DiscreteLaplace, adjacency=adjacency)] * 2, [laplace] * 2),
        (
            [fine(DiscreteGaussian, adjacency=adjacency), laplace,
             fine(DiscreteLaplace, adjacency=adjacency)],
            [gaussian, laplace, laplace],
        ),
    ]  # fmt: skip
    for discrete, continuous in pairs:
        one, other = ledger_of(*discrete), ledger_of(*continuous)
        exact = other.epsilon(1e-6)
        assert exact <= one.epsilon(1e-6) < exact * (1 + 1e-5)
        exact = other.delta(0.3)
        assert exact <= one.delta(0.3) < exact * (1 + 1e-4)


@pytest.mark.parametrize("s", [1e-100, 0.1, 0.5, 1.0, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("n", [1, 100, 10**6])
def test_coarse_noise_never_costs_more_than_its_zero_concentrated_bound(s, n):
    known = DiscreteGaussian(1.0, s, 1.0, n_coordinates=n)
    ledger, unknown = ledger_of(known, known), ledger_of(DiscreteGaussian(1.0, s), known)
    bound = zcdp_epsilon(2 * known.rho, 1e-6)
    assert ledger.epsilon(1e-6, method="zcdp") == bound
    exact = min(gdp_epsilon(math.sqrt(2) / s, 1e-6), bound)  # inf beyond 1e15
    assert exact <= ledger.epsilon(1e-6) <= bound
    assert unknown.epsilon(1e-6) == pytest.approx(bound)  # of one, the size is not stated
    assert ledger.epsilon(0.0) == math.inf


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("n", [1, 10**5])
@pytest.mark.parametrize("grid", [2.0**-30, 2.0**-8, 1.0])
def test_noise_for_a_budget_keeps_it_on_every_grid(epsilon, n, grid):
    made = DiscreteGaussian.from_budget(1.0, epsilon, 1e-6, grid=grid, n_coordinates=n)
    total = ledger_of(made).epsilon(1e-6)
    assert 0.95 * epsilon < total <= epsilon * (1 + 1e-9)
    exact = Gaussian.from_budget(1.0, epsilon, 1e-6).std
    assert exact < made.scale <= DiscreteGaussian.from_budget(1.0, epsilon, 1e-6).scale * (1 + 1e-9)
    if grid < 1e-6:
        assert made.scale < exact * (1 + 1e-5)
    tried = list(discrete_multipliers(epsilon, 1e-6))
    assert tried == sorted(tried) and made.scale in tried


@pytest.mark.parametrize("s", [0.3, 0.5, 0.8])
def test_the_way_back_pays_for_the_sum_of_the_density_on_a_coarse_grid(s):
    """Poisson summation: the density of N(0, s^2) adds up to 1 + theta over the integers."""
    theta = math.fsum(math.exp(-(k**2) / (2 * s * s)) for k in range(-40, 41))
    theta = theta / (s * math.sqrt(2 * math.pi)) - 1
    inner = Gap.gaussian(3, s).back(1 - 1 / (2 * s))  # as far as t = 1, where the rest is nothing
    assert 3 * math.log1p(theta) <= inner < 3 * 1.5 * theta
