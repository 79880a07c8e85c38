"""Numbers at the ends of their ranges and objects of the wrong type: quick, finite, named."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import (
    Budget,
    PrivacyLedger,
    Sampling,
    gaussian_sigma_analytic,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

TINY_TO_HUGE = [1e-300, 1e-160, 1e-20, 1e-6, 0.0, 1.0, 100.0, 1e6, 1e160, 1e300]
ROWS = [np.zeros((5, 2)), np.zeros((4, 2))]


@pytest.mark.parametrize("mu", TINY_TO_HUGE)
def test_conversions_are_numbers_everywhere(mu):
    for epsilon in (0.0, 1e-300, 1e-9, 1.0, 1e3, 1e300):
        assert 0 <= gdp_delta(mu, epsilon) <= 1
    for delta in (1e-300, 1e-12, 0.5, 1 - 1e-12):
        assert gdp_epsilon(mu, delta) >= 0
        assert zcdp_epsilon(mu, delta) >= 0


@pytest.mark.parametrize("invert", [gdp_mu, zcdp_rho, gaussian_sigma_analytic])
def test_noise_is_calibrated_or_refused_by_name(invert):
    for epsilon in (1e-15, 1e-6, 1.0, 100.0, 1e6, 1e15):
        for delta in (1e-250, 1e-12, 0.5, 1 - 1e-12):
            assert 0 < invert(epsilon, delta) < math.inf
    for epsilon in (1e-300, 1e-20, 1e16, 1e300):
        with pytest.raises(ValueError, match="^epsilon must lie between"):
            invert(epsilon, 1e-6)
    with pytest.raises(ValueError, match="^delta must be at least"):
        invert(1.0, 1e-300)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 10.0, 1e3, 1e6])
def test_totals_of_mixed_releases_do_not_grow_with_the_loss(epsilon):
    """A grid of privacy losses up to epsilon = 1e6 would need 56 GiB: proved bounds do instead."""
    ledger = PrivacyLedger()
    ledger.charge([Laplace.from_budget(1.0, epsilon)], name="a")
    ledger.charge([DiscreteLaplace.from_budget(1.0, epsilon)], name="b")
    ledger.charge([Gaussian(1.0, 5.0)], name="c")
    total = ledger.epsilon(1e-6)
    assert max(2 * epsilon * 0.99, 0.8) <= total <= 2 * epsilon + 0.91


@pytest.mark.parametrize("filter_", ["basic", "gdp", "rdp"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-9), (1e6, 1e-5), (1.0, 1e-200)])
def test_costs_are_numbers_at_any_budget_and_noise(filter_, epsilon, delta):
    budget = Budget(epsilon, delta, filter_)
    ledger = PrivacyLedger()
    for mechanism in (Gaussian(1.0, 5.0), Gaussian(1.0, 1e12), Laplace(1.0, 5.0)):
        cost = budget.cost(ledger.line([mechanism], name="x"))
        assert cost > 0 and not math.isnan(cost)


WRONG = [
    (lambda: simulate(ROWS, "ideal", seed=1, budget=1.0), "^budget must be a Budget"),
    (lambda: simulate(ROWS, "ideal", seed=1, ledger=Budget(1.0)), "^ledger must be a Privacy"),
    (lambda: PrivacyLedger(budget=1.0), "^budget must be a Budget"),
    (lambda: PrivacyLedger(releases=[1]), "^releases must be a sequence, each item a Release"),
    (lambda: PrivacyLedger().charge(Gaussian(1.0, 1.0), name="x"), "^mechanisms must be a seq"),
    (lambda: PrivacyLedger().charge(["noise"], name="x"), "^mechanisms must be a sequence"),
    (lambda: PrivacyLedger().charge([], name=3), "^name must be a string"),
    (lambda: PrivacyLedger().charge([], name="x", round="3"), "^round must be an integer"),
    (lambda: PrivacyLedger().charge([], name="x", sampling=0.1), "^sampling must be a Sampling"),
    (lambda: fastlloyd.run(simulate(ROWS, seed=1), "plan"), "^plan must be a LloydPlan"),
    (lambda: simulate(ROWS, "ideal", seed=1).follow("plan").__enter__(), "^plan must be a Plan"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[m for _, m in WRONG])
def test_objects_of_the_wrong_type_are_named_at_once(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanisms": Gaussian(2.0, 1.0)}, "^mechanisms must be a sequence"),
        ({"mechanisms": ["noise"]}, "^mechanism for 'total' must be a Mechanism"),
        ({"statistic": "total"}, "^statistic must be a ClientStatistic"),
        ({"round": "3"}, "^round must be an integer"),
        ({"round": 1.5}, "^round must be an integer"),
        ({"sampling": Sampling("poisson", rate=0.5)}, "^sampling draws clients|offers no sampling"),
    ],
    ids=str,
)
@pytest.mark.parametrize("trust", ["trusted", "ideal", "masked", "serverless"])
def test_a_wrong_release_is_named_before_anything_happens(trust, arguments, message):
    federation = simulate(ROWS, trust, seed=1)
    sent = len(federation.transcript.messages)
    noise = federation.gaussian(TOTAL, "total", multiplier=3.0, n_coordinates=2)
    call = {"statistic": TOTAL, "mechanisms": [noise], "round": 0} | arguments
    statistic, mechanisms = call.pop("statistic"), call.pop("mechanisms")
    with pytest.raises((TypeError, ValueError), match=message):
        federation.noisy_sum(statistic, mechanisms, **call)
    assert not federation.ledger.releases and len(federation.transcript.messages) == sent


def test_results_and_plans_compare_without_an_error():
    federation = simulate(ROWS, "ideal", seed=1)
    plan = fastlloyd.plan(federation, n_clusters=1, epsilon=1.0, delta=1e-3)
    result = fastlloyd.run(federation, plan)
    assert result == result and result != plan
    assert plan == fastlloyd.plan(federation, n_clusters=1, epsilon=1.0, delta=1e-3)
    assert hash(plan) == hash(plan)


def test_sizes_without_end_are_refused_by_name():
    federation = simulate(ROWS, "ideal", seed=1)
    for name in ("n_rounds", "n_clusters"):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            fastlloyd.plan(federation, **({"n_clusters": 2, "epsilon": 1.0} | {name: 10**12}))
    with pytest.raises(ValueError, match="scale/grid"):
        DiscreteGaussian(1.0, 1e30, 1.0)
