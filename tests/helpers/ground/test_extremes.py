"""Numbers at the ends of their ranges and objects of the wrong type: quick, finite, named."""

import math

import pytest
from conftest import refuses

from fedclust_helpers import accounting as acc
from fedclust_helpers.mechanisms import DiscreteLaplace, Gaussian, Laplace

TINY_TO_HUGE = [1e-300, 1e-160, 1e-20, 1e-6, 0.0, 1.0, 100.0, 1e6, 1e160, 1e300]


@pytest.mark.parametrize("mu", TINY_TO_HUGE)
def test_conversions_are_numbers_everywhere(mu):
    for epsilon in (0.0, 1e-300, 1e-9, 1.0, 1e3, 1e300):
        assert 0 <= acc.gdp_delta(mu, epsilon) <= 1
    for delta in (1e-300, 1e-12, 0.5, 1 - 1e-12):
        assert acc.gdp_epsilon(mu, delta) >= 0
        assert acc.zcdp_epsilon(mu, delta) >= 0


@pytest.mark.parametrize("invert", [acc.gdp_mu, acc.zcdp_rho, acc.gaussian_sigma_analytic])
def test_noise_is_calibrated_or_refused_by_name(invert):
    for epsilon in (1e-15, 1e-6, 1.0, 100.0, 1e6, 1e15):
        for delta in (1e-250, 1e-12, 0.5, 1 - 1e-12):
            assert 0 < invert(epsilon, delta) < math.inf
    for epsilon in (1e-300, 1e-20, 1e16, 1e300):
        refuses(ValueError, "^epsilon must lie between", invert, epsilon, 1e-6)
    refuses(ValueError, "^delta must lie in", invert, 1.0, 1e-300)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 10.0, 1e3, 1e6])
def test_totals_of_mixed_releases_do_not_grow_with_the_loss(epsilon):
    """A grid of privacy losses up to epsilon = 1e6 would need 56 GiB: proved bounds do instead."""
    ledger = acc.PrivacyLedger()
    ledger.charge([Laplace.from_budget(1.0, epsilon)], name="a")
    ledger.charge([DiscreteLaplace.from_budget(1.0, epsilon)], name="b")
    ledger.charge([Gaussian(1.0, 5.0)], name="c")
    total = ledger.epsilon(1e-6)
    assert max(2 * epsilon * 0.99, 0.8) <= total <= 2 * epsilon + 0.91


@pytest.mark.parametrize("filter_", ["basic", "gdp", "rdp"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-9), (1e6, 1e-5), (1.0, 1e-200)])
def test_costs_are_numbers_at_any_budget_and_noise(filter_, epsilon, delta):
    budget = acc.Budget(epsilon, delta, filter_)
    ledger = acc.PrivacyLedger()
    for mechanism in (Gaussian(1.0, 5.0), Gaussian(1.0, 1e12), Laplace(1.0, 5.0)):
        cost = budget.cost(ledger.entry([mechanism], name="x"))
        assert cost > 0 and not math.isnan(cost)
