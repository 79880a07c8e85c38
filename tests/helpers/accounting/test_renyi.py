"""Sampled discrete noise: the two theorems against exact divergences and the library."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.special import logsumexp

from fedclust_helpers.accounting import Budget, PrivacyLedger, Sampling
from fedclust_helpers.accounting.entries import relation
from fedclust_helpers.accounting.renyi import ORDERS, fixed_size_rdp, poisson_rdp, sampled_rdp
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DistributedDiscreteGaussian,
    Gaussian,
)

SUPPORT = np.arange(-600, 601)


def log_pmf(center: float, scale: float) -> np.ndarray:
    """Logarithms of a discrete Gaussian on a window that holds all but 1e-100 of it."""
    log = -((SUPPORT - center) ** 2) / (2 * scale**2)
    return log - logsumexp(log)


def mixed(rate: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Logarithms of (1 - rate) exp(a) + rate exp(b)."""
    return np.logaddexp(math.log1p(-rate) + a, math.log(rate) + b)


def divergence(p: np.ndarray, q: np.ndarray, order: int) -> float:
    """Renyi divergence of two distributions on the support, from their logarithms."""
    return float(logsumexp(order * p + (1 - order) * q)) / (order - 1)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("order", [2, 3, 8, 20])
def test_poisson_bound_covers_the_exact_divergence_both_ways(rate, scale, order):
    """One client of value 1 is added: DG against the mixture with the shifted DG."""
    base = log_pmf(0, scale)
    other = mixed(rate, base, log_pmf(1, scale))
    bound = poisson_rdp(1 / (2 * scale**2), rate, order)
    assert 0 < divergence(other, base, order) <= bound * (1 + 1e-9)
    assert 0 < divergence(base, other, order) <= bound * (1 + 1e-9)
    assert bound <= order / (2 * scale**2)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("scale", [2.0, 6.0, 20.0])
@pytest.mark.parametrize("order", [2, 3, 8, 20])
def test_fixed_size_bound_covers_the_exact_divergence(rate, scale, order):
    """One client changes from 1 to -1 (sensitivity 2), the others hold 0 or 1."""
    bound = fixed_size_rdp(4 / (2 * scale**2), rate, order)
    for others in (0, 1):
        base = log_pmf(others, scale)  # the sample holds somebody else instead
        one = mixed(rate, base, log_pmf(1, scale))
        two = mixed(rate, base, log_pmf(-1, scale))
        assert 0 < divergence(one, two, order) <= bound * (1 + 1e-9)
        assert divergence(two, one, order) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("scheme", ["poisson", "fixed"])
@pytest.mark.parametrize(("rho", "rate"), [(0.01, 0.01), (0.5, 0.01), (0.125, 0.3)])
def test_bounds_lie_above_the_library_s_for_gaussians_and_not_far(scheme, rho, rate):
    """The general theorems cost something, but not the amplification."""
    sampling = (
        Sampling("poisson", rate=rate)
        if scheme == "poisson"
        else Sampling("fixed", size=round(1000 * rate), population=1000)
    )
    orders = (2, 4)
    event = sampling.wrap(Gaussian(1.0, 1 / math.sqrt(2 * rho)).dp_event())
    library = RdpAccountant(orders, relation(sampling.adjacency)).compose(event).rdp
    ours = sampled_rdp(scheme, rho, rate, orders)
    for order, mine, theirs in zip(orders, ours, library, strict=True):
        assert theirs * (1 - 1e-9) <= mine <= min(order * rho, 8 * theirs) * (1 + 1e-9)


@pytest.mark.parametrize("bound", [fixed_size_rdp, poisson_rdp])
def test_bounds_grow_with_everything_and_meet_the_ends(bound):
    for order in (2, 5, 64):
        assert bound(0.0, 0.1, order) == pytest.approx(0, abs=1e-12)
        assert bound(0.3, 1.0, order) == order * 0.3
    values = [bound(0.05, 0.1, order) for order in ORDERS]
    assert values == sorted(values)  # a larger order may stand in for a smaller one


SAMPLED = [
    (Sampling("poisson", rate=0.05), "add/remove"),
    (Sampling("fixed", size=5, population=100), "replace-one"),
]
DISCRETE = {
    "discrete": lambda a: [DiscreteGaussian(1.0, 2.0, 2.0**-20, a)],
    "with a continuous one": lambda a: [DiscreteGaussian(1.0, 3.0, 1.0, a), Gaussian(1.0, 3.0, a)],
    "shares": lambda a: [DistributedDiscreteGaussian(1.0, 2.0, 2.0**-20, a, n_honest=3)],
}


@pytest.mark.parametrize(("sampling", "adjacency"), SAMPLED)
@pytest.mark.parametrize("mechanisms", DISCRETE.values(), ids=DISCRETE)
def test_a_ledger_amplifies_sampled_discrete_noise(sampling, adjacency, mechanisms):
    ledger = PrivacyLedger(unit="client", adjacency=adjacency)
    everyone = PrivacyLedger(unit="client", adjacency=adjacency)
    for t in range(10):
        ledger.charge(mechanisms(adjacency), name="x", round=t, sampling=sampling)
        everyone.charge(mechanisms(adjacency), name="x", round=t)
    assert ledger.epsilon(1e-5) < 0.6 * everyone.epsilon(1e-5)
    # never less than the continuous noise of the same scale, which the library knows
    gaussian = PrivacyLedger(unit="client", adjacency=adjacency)
    for t in range(10):
        rho = sum(m.rho for m in mechanisms(adjacency))
        one = Gaussian(1.0, 1 / math.sqrt(2 * rho), adjacency)
        gaussian.charge([one], name="x", round=t, sampling=sampling)
    assert ledger.epsilon(1e-5) >= gaussian.epsilon(1e-5) * (1 - 1e-6)
    assert 0 < ledger.delta(0.5) < everyone.delta(0.5)


@pytest.mark.parametrize(("sampling", "adjacency"), SAMPLED)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_the_rdp_filter_takes_no_less_than_the_curve_at_its_order(sampling, adjacency, epsilon):
    """Sampled curves are known at integers, and the order of a budget lies between two of them."""
    budget = Budget(epsilon, 1e-5, "rdp")
    ledger = PrivacyLedger(unit="client", adjacency=adjacency)
    line = ledger.entry(DISCRETE["discrete"](adjacency), name="x", sampling=sampling)
    order, rho = budget.rdp_order, line.sampled_rho
    assert rho is not None
    low, high = (max(2, f(order)) for f in (math.floor, math.ceil))
    curve = sampled_rdp(sampling.scheme, rho, sampling.share, (low, high))
    at = curve[0] + (curve[1] - curve[0]) * max(order - low, 0) / max(high - low, 1)
    assert budget.cost(line) >= at and not float(order).is_integer()


# --- fine discrete noise is almost a rounded Gaussian (test_discrete.py) --------------------------


@pytest.mark.parametrize(("sampling", "adjacency"), SAMPLED)
@pytest.mark.parametrize("sigma", [1.0, 4.0])
def test_fine_sampled_noise_costs_what_continuous_noise_costs_and_not_less(
    sampling, adjacency, sigma
):
    def total(mechanism):
        ledger = PrivacyLedger(unit="client", adjacency=adjacency)
        for t in range(20):
            ledger.charge([mechanism], name="x", round=t, sampling=sampling)
        return ledger.epsilon(1e-6)

    exact = total(Gaussian(1.0, sigma, adjacency))
    fine = total(DiscreteGaussian(1.0, sigma, 2.0**-30, adjacency, 10**5))
    assert exact <= fine < exact * (1 + 1e-4)
    unknown = total(DiscreteGaussian(1.0, sigma, 2.0**-30, adjacency))  # size not stated
    coarse = total(DiscreteGaussian(1.0, sigma, 0.5, adjacency, 10**5))  # the gap says nothing
    assert fine <= unknown == coarse
