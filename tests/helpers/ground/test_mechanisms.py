"""Mechanisms: noise distributions against exact laws, calibration, exact privacy, wrong use.

A test that draws from a seeded generator cannot fail by chance after it has passed once; its
false-alarm probability (that a correct sampler fails for a random seed) is stated all the same.
Tests of the secure source have no seed: theirs is 1e-9 for each case.
"""

import math

import dp_accounting as dpa
import numpy as np
import pytest
from conftest import generator, refuses
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedclust_helpers import accounting
from fedclust_helpers.mechanisms import (
    SECURE,
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Gaussian,
    Laplace,
    NoNoise,
)

ALL = [
    Gaussian(2.0, 0.7),
    Laplace(2.0, 0.7),
    DiscreteGaussian(2.0, 0.7, 0.25),
    DiscreteLaplace(2.0, 0.7, 0.25),
    DistributedDiscreteGaussian(2.0, 0.7, 0.25, n_honest=3, n_coordinates=4),
]
PRIVATE = pytest.mark.parametrize("mechanism", ALL, ids=lambda m: type(m).__name__)


def gaussian_pmf(scale, reach=None):
    """Exact pmf of the discrete Gaussian on the integers -reach..reach."""
    x = np.arange(-(reach or int(40 * scale) + 10), (reach or int(40 * scale) + 10) + 1)
    weights = np.exp(-(x**2) / (2 * scale**2))
    return x, weights / weights.sum()


def laplace_pmf(scale, reach=None):
    """Exact pmf of the discrete Laplace on the integers -reach..reach."""
    x = np.arange(-(reach or int(40 * scale) + 10), (reach or int(40 * scale) + 10) + 1)
    return x, math.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)


def chi_square(sample, x, pmf):
    """P-value of integer samples against an exact pmf; rare values are pooled at both ends."""
    keep = pmf * len(sample) >= 10
    low, high = x[keep][0], x[keep][-1]
    observed = np.bincount(np.clip(sample, low, high).astype(int) - low, minlength=high - low + 1)
    expected = pmf[(x >= low) & (x <= high)] * len(sample)
    expected[0] += pmf[x < low].sum() * len(sample)
    expected[-1] += pmf[x > high].sum() * len(sample)
    return stats.chisquare(observed, expected * (len(sample) / expected.sum())).pvalue


def in_units(mechanism, n, source):
    """Samples as integers; fails if the noise is not on the grid."""
    noise = mechanism.sample(n, rng=source)
    units = np.rint(noise / mechanism.grid)
    np.testing.assert_array_equal(units * mechanism.grid, noise)
    return units


# --- continuous noise -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (Gaussian(5.0, 1.7), stats.norm(0, 1.7)),
        (Gaussian(0.1, 30.0), stats.norm(0, 30.0)),
        (Laplace(5.0, 1.7), stats.laplace(0, 1.7)),
        (Laplace.from_budget(1.0, 0.25), stats.laplace(0, 4.0)),
    ],
)
def test_continuous_noise_follows_its_law(mechanism, law):
    noise = mechanism.sample((200, 100), rng=generator(3))
    # Kolmogorov-Smirnov and a two-sided test of the variance; false alarm 1e-4 each
    assert stats.kstest(noise.ravel(), law.cdf).pvalue > 1e-4
    kurtosis = 2 if isinstance(mechanism, Gaussian) else 5  # Var(x^2)/sd^4
    assert noise.var() == pytest.approx(mechanism.std**2, rel=4 * math.sqrt(kurtosis / noise.size))
    assert mechanism.std == pytest.approx(law.std(), rel=1e-12)


# --- discrete noise -------------------------------------------------------------------------------

LAWS = pytest.mark.parametrize(
    ("kind", "pmf"), [(DiscreteGaussian, gaussian_pmf), (DiscreteLaplace, laplace_pmf)]
)
SCALES = pytest.mark.parametrize(
    ("scale", "grid"), [(0.4, 1.0), (1.0, 1.0), (2.3, 0.5), (0.07, 2**-6)]
)


@LAWS
@SCALES
@pytest.mark.parametrize(("source", "alarm"), [(3, 1e-4), (SECURE, 1e-9)])
def test_discrete_noise_follows_the_exact_law(kind, pmf, scale, grid, source, alarm):
    """Of a seeded generator (false alarm 1e-4) and of the operating system (1e-9, unseeded)."""
    source = SECURE if source is SECURE else generator(source)
    assert chi_square(in_units(kind(1.0, scale, grid), 100_000, source), *pmf(scale / grid)) > alarm
    assert kind(1.0, scale, grid).sample((0, 3), rng=source).shape == (0, 3)


@pytest.mark.parametrize("kind", [DiscreteGaussian, DiscreteLaplace])
@pytest.mark.parametrize("rng", [SECURE, generator(0)])
def test_noise_far_below_the_grid_is_zero(kind, rng):
    for scale, grid in [(1e-162, 1.0), (5e-324, 1.0), (1.0, 1e200)]:
        assert not kind(1.0, scale, grid).sample(50, rng=rng).any()
    refuses(ValueError, "scale/grid must be a positive float", kind, 1.0, 1e-300, 1e300)


@LAWS
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 25.0])
def test_declared_standard_deviations_are_those_of_the_law(kind, pmf, scale):
    x, p = pmf(scale)
    exact = math.sqrt((x**2 * p).sum())
    declared = kind(1.0, 0.5 * scale, 0.5).std / 0.5
    if kind is DiscreteLaplace:
        assert declared == pytest.approx(exact, rel=1e-12)
    else:
        assert exact <= declared * (1 + 1e-12)
        if scale >= 1:
            assert declared == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_shares_of_distributed_noise_add_up_to_the_convolution(m):
    mechanism = DistributedDiscreteGaussian(1.0, 1.5, 0.5, n_honest=m)
    total = sum(in_units(mechanism, 50_000, g) for g in np.random.default_rng(1).spawn(m))
    x, share = gaussian_pmf(3 / math.sqrt(m), 60)
    p = share
    for _ in range(m - 1):
        p = np.convolve(p, share)
    reach = (len(p) - 1) // 2
    assert chi_square(total, np.arange(-reach, reach + 1), p) > 1e-4  # false alarm 1e-4


# --- all mechanisms -------------------------------------------------------------------------------


@PRIVATE
def test_shapes_seeds_and_independence(mechanism):
    for shape in ((), (4,), (2, 3, 5), (0, 4)):
        noise = mechanism.sample(shape, rng=generator(3))
        assert noise.dtype == np.float64 and noise.shape == shape
    rng = generator(1)
    first, second = (mechanism.sample(20_000, rng=rng) for _ in range(2))
    np.testing.assert_array_equal(first, mechanism.sample(20_000, rng=generator(1)))
    for x, y in ((first, second), (first[1:], first[:-1])):
        # a correlation of n independent pairs has sd 1/sqrt(n): four of those, false alarm 6e-5
        assert abs(np.corrcoef(x, y)[0, 1]) < 4 / math.sqrt(20_000)


@PRIVATE
@pytest.mark.parametrize("probability", [0.5, 1e-2, 1e-9])
def test_tails_are_bounds(mechanism, probability):
    bound = mechanism.tail(probability)
    if isinstance(mechanism, Gaussian):
        exceeded = 2 * stats.norm.sf(bound, scale=mechanism.std)
    elif isinstance(mechanism, Laplace):
        exceeded = math.exp(-bound / mechanism.scale)
        assert exceeded == pytest.approx(probability)  # exact
    else:
        shares = getattr(mechanism, "n_honest", 1)
        law = laplace_pmf if isinstance(mechanism, DiscreteLaplace) else gaussian_pmf
        x, share = law(mechanism.scale / mechanism.grid / math.sqrt(shares), 150)
        p = share
        for _ in range(shares - 1):
            p = np.convolve(p, share)
        reach = (len(p) - 1) // 2
        exceeded = p[np.abs(np.arange(-reach, reach + 1)) * mechanism.grid > bound].sum()
    assert exceeded <= probability * (1 + 1e-9)
    assert bound <= 25 * mechanism.std  # not vacuous
    assert mechanism.tail(1e-6) > mechanism.tail(1e-3)


@PRIVATE
def test_replacing_doubles_the_sensitivity_and_keeps_the_noise(mechanism):
    other = mechanism.as_replace_one()
    assert other.adjacency == "replace-one" and other.as_replace_one() is other
    assert other.sensitivity == 2 * mechanism.sensitivity
    assert other.std == mechanism.std and other.grid == mechanism.grid
    assert other.norm == (1 if "Laplace" in type(mechanism).__name__ else 2)
    np.testing.assert_array_equal(
        other.sample(9, rng=generator(3)), mechanism.sample(9, rng=generator(3))
    )
    if mechanism.gdp_mu is not None:
        assert other.gdp_mu == pytest.approx(2 * mechanism.gdp_mu)
    if math.isfinite(mechanism.pure_epsilon):
        assert other.pure_epsilon == pytest.approx(2 * mechanism.pure_epsilon)
    if type(mechanism) in (Gaussian, DiscreteGaussian):
        assert other.rho == pytest.approx(4 * mechanism.rho)


def test_no_noise_is_no_privacy():
    nothing = NoNoise().as_replace_one()
    np.testing.assert_array_equal(nothing.sample((2, 2), rng=SECURE), np.zeros((2, 2)))
    assert nothing.gdp_mu == nothing.rho == nothing.pure_epsilon == math.inf
    assert nothing.std == nothing.tail(1e-9) == 0 and nothing.adjacency == "replace-one"
    assert isinstance(nothing.dp_event(), dpa.NonPrivateDpEvent)


# --- calibration ----------------------------------------------------------------------------------


@given(st.floats(0.01, 50), st.floats(-12, -0.5), st.floats(1e-3, 1e3))
def test_gaussian_budgets_are_spent_exactly(epsilon, log_delta, sensitivity):
    delta = 10**log_delta
    mechanism = Gaussian.from_budget(sensitivity, epsilon, delta)
    assert accounting.gdp_delta(mechanism.gdp_mu, epsilon) == pytest.approx(delta, rel=1e-8)
    assert mechanism.std == pytest.approx(
        sensitivity * accounting.gaussian_sigma_analytic(epsilon, delta), rel=1e-14
    )
    assert mechanism.rho == pytest.approx(mechanism.gdp_mu**2 / 2)


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_pure_budgets(kind):
    mechanism = kind.from_budget(3.0, 0.25)
    assert mechanism.scale == 12 and mechanism.pure_epsilon == 0.25
    assert mechanism.gdp_mu is None and mechanism.rho is None


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def shifted(pmf, steps):
    return np.concatenate([pmf, np.zeros(steps)]), np.concatenate([np.zeros(steps), pmf])


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (1.0, 1e-2), (5.0, 1e-8)])
@pytest.mark.parametrize("grid", [1.0, 0.125])
def test_discrete_gaussian_budgets_hold_exactly(epsilon, delta, grid):
    """The exact delta of the two shifted distributions, by summation; not wasteful either."""
    mechanism = DiscreteGaussian.from_budget(1.0, epsilon, delta, grid=grid)
    _, pmf = gaussian_pmf(mechanism.scale / grid)
    exact = hockey_stick(*shifted(pmf, round(1 / grid)), epsilon)
    assert delta / 30 < exact <= delta
    assert accounting.zcdp_epsilon(mechanism.rho, delta) == pytest.approx(epsilon, rel=1e-9)


def renyi(p, q, order):
    """Renyi divergence of two pmfs, in logarithms, where both are above underflow."""
    both = (p > 1e-300) & (q > 1e-300)
    terms = order * np.log(p[both]) + (1 - order) * np.log(q[both])
    return float(np.logaddexp.reduce(terms)) / (order - 1)


ORDERS = (1.01, 1.5, 2.0, 3.0, 8.0)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("share_scale", [0.5, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("steps", [1, 2])
def test_distributed_noise_is_as_private_as_declared(m, share_scale, steps):
    """Exact Renyi divergence of the m-fold convolution against Kairouz, Liu, Steinke, Theorem 1."""
    scale = share_scale * math.sqrt(m) * (1 + 1e-12)
    mechanism = DistributedDiscreteGaussian(steps, scale, n_honest=m)
    share = gaussian_pmf(share_scale, 60)[1]
    pmf = share
    for _ in range(m - 1):
        pmf = np.convolve(pmf, share)
    plain = steps**2 / (2 * scale**2)
    per_order = [renyi(*shifted(pmf, steps), a) / a for a in ORDERS if a * steps < 9]
    assert max(per_order) <= mechanism.rho * (1 + 1e-9)
    assert mechanism.rho >= plain * (1 - 1e-12)
    if m == 1:  # D_a = a rho (Canonne et al., Theorem 14)
        assert mechanism.rho == pytest.approx(plain, rel=1e-12)
        assert DiscreteGaussian(0.5 * steps, 0.5 * scale, 0.5).rho == pytest.approx(plain)
        assert renyi(*shifted(pmf, steps), 2.0) == pytest.approx(2 * plain, rel=1e-6)
    elif share_scale == 0.5 and steps == 1:
        # the sum of small discrete Gaussians is *not* a discrete Gaussian: it costs more
        assert max(per_order) > 1.05 * plain
    # two coordinates that both move: the divergence adds up, the sensitivity is sqrt(2) as large
    two = DistributedDiscreteGaussian(math.sqrt(2) * steps, scale, n_honest=m, n_coordinates=2)
    assert 2 * max(per_order) <= two.rho * (1 + 1e-9)


def test_shares_smaller_than_half_a_grid_step_are_refused():
    """There the theorem says nothing, and its formula is indeed too small."""
    share = gaussian_pmf(0.313, 60)[1]
    pmf = share
    for _ in range(4):
        pmf = np.convolve(pmf, share)
    scale = 0.313 * math.sqrt(5)
    tau = 10 * sum(math.exp(-2 * math.pi**2 * 0.313**2 * j / (j + 1)) for j in range(1, 5))
    formula = min((2 / scale) ** 2 + tau / 2, (2 / scale + tau) ** 2) / 2
    assert renyi(*shifted(pmf, 2), 1.01) / 1.01 > 1.1 * formula
    with pytest.raises(ValueError, match="^scale must be >= sqrt"):
        DistributedDiscreteGaussian(2.0, scale, n_honest=5)
    alone = DistributedDiscreteGaussian(2.0, 0.313)  # one share is one discrete Gaussian
    assert alone.rho == pytest.approx(DiscreteGaussian(2.0, 0.313).rho, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_discrete_laplace_is_pure_and_its_event_an_upper_bound(scale, steps):
    """Exact by summation. On a coarse grid the event of continuous Laplace noise is too small."""
    mechanism = DiscreteLaplace(float(steps), scale)
    _, pmf = laplace_pmf(scale, 60 + 40 * int(scale))
    p, q = shifted(pmf, steps)
    both = (p > 0) & (q > 0)
    assert np.log(p[both] / q[both]).max() == pytest.approx(mechanism.pure_epsilon, rel=1e-9)
    accountant = PLDAccountant().compose(mechanism.dp_event())
    for share in (0.0, 0.3, 0.9):
        epsilon = share * mechanism.pure_epsilon
        exact = hockey_stick(p, q, epsilon)
        assert exact <= accountant.get_delta(epsilon) + 1e-12
        if steps == 1:
            assert accountant.get_delta(epsilon) == pytest.approx(exact, rel=2e-3)
            continuous = 1 - math.exp((epsilon - mechanism.pure_epsilon) / 2)
            assert continuous < exact


# --- wrong use ------------------------------------------------------------------------------------

BAD = (0, -1.0, math.nan, math.inf)
WRONG = [(name, bad) for name in ("sensitivity", "scale", "grid", "epsilon") for bad in BAD]
WRONG += [("delta", bad) for bad in (0, 1, 1.5, -0.1, math.nan)]
FORMS = {
    Gaussian: {"sensitivity": 1.0, "std": 1.0},
    Laplace: {"sensitivity": 1.0, "scale": 1.0},
    DiscreteGaussian: {"sensitivity": 1.0, "scale": 1.0, "grid": 0.5},
    DiscreteLaplace: {"sensitivity": 1.0, "scale": 1.0, "grid": 0.5},
    Gaussian.from_budget: {"sensitivity": 1.0, "epsilon": 0.5, "delta": 1e-5},
    Laplace.from_budget: {"sensitivity": 1.0, "epsilon": 0.5},
    DiscreteGaussian.from_budget: {"sensitivity": 1.0, "epsilon": 0.5, "delta": 1e-5},
    DiscreteLaplace.from_budget: {"sensitivity": 1.0, "epsilon": 0.5},
}


@pytest.mark.parametrize("build", FORMS, ids=lambda build: build.__qualname__)
def test_wrong_parameters_are_named(build):
    good = FORMS[build]
    for name, bad in WRONG:
        name = "std" if name == "scale" and "std" in good else name
        if name in good:
            refuses(ValueError, f"^{name} must", build, **good | {name: bad})
    refuses(ValueError, "^adjacency must be one of add/remove", build, **good, adjacency="replace")
    assert build(**good, adjacency="replace-one").adjacency == "replace-one"


@PRIVATE
def test_the_source_of_randomness_must_be_named(mechanism):
    for bad in (None, 0, np.random.SeedSequence(0), "secure"):
        refuses(TypeError, "^rng must be a numpy.random.Generator", mechanism.sample, 3, rng=bad)
    if mechanism.grid is None:  # in floating point
        refuses(ValueError, "no secure sampler: use a discrete mechanism", mechanism.sample, 3,
                rng=SECURE)  # fmt: skip
