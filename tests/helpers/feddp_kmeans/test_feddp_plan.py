"""Budgets of FedDP-KMeans: the totals of a list of configurations, and the inverse.

Numbers come from an independent composition with dp-accounting at delta = 1e-6 (discretisation
1e-3) or from closed forms.
"""

import math

import numpy as np
import pytest
from feddp_cases import DELTA, ONES, VARIANTS, D, federation, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fedclust_helpers import accounting as acc
from fedclust_helpers.feddp_kmeans.budgets import (
    PROPORTIONS,
    StepBudgets,
    calibrate_budgets,
    joint_epsilon,
    split_epsilon,
)
from fedclust_helpers.mechanisms import Gaussian, Laplace

pytestmark = pytest.mark.slow


def planned(fed=None, unit="point", **options):
    """A plan of FedDP-KMeans with its noise by the name of each step."""
    found = plan_of("feddp", federation(unit=unit) if fed is None else fed, **options)
    names = {0: ("outer",), 1: ("weights",), 2: ("sums", "counts")}
    noise = {}
    for release in found.releases:
        steps = names.get(release.round, ("lloyd_sums", "lloyd_counts"))
        noise |= dict(zip(steps, release.mechanisms, strict=True))
    return found, noise


def for_total(epsilon, **options):
    return calibrate_budgets(split_epsilon(1.0, **options), epsilon)


def sigma(epsilon):
    return acc.gaussian_sigma_analytic(epsilon, DELTA)


# --- totals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budgets, total",
    [
        (ONES, 3.3556),
        (StepBudgets(1, 1, 1, 1, 1, 1, 1), 4.6328),
        (StepBudgets(1, 1, 1, 1, 1, 1, 2), 4.5690),
        (StepBudgets(1, 1, 0.5, 0.5), 2.5594),  # the authors' data-point configuration
        (StepBudgets(1, 1, 1, 0.2, 0.5, 0.5, 1), 3.1006),  # and their client configuration
        (StepBudgets(0, 0, 0, 0, 0.5, 0.5, 3), 0.9394),
        (StepBudgets(0, 1, 0, 1), 2.0),
        (split_epsilon(4), 3.2801),
        (split_epsilon(0.5, unit="client"), 0.3669),
    ],
)
def test_total_of_known_configurations(budgets, total):
    # the accountant's grid of 1e-3 and the exact total of each differ in the fourth digit
    assert budgets.total() == pytest.approx(total, abs=2e-3)
    assert budgets.total() <= budgets.epsilon_sum


def test_gaussian_steps_alone_have_the_closed_form():
    # mu adds in squares, and T rounds with sqrt(T) times the noise are one release
    for n_rounds in (1, 2, 7):
        budgets = StepBudgets(0.7, 0, 1.3, 0, 1.1, 1e-9, n_rounds)
        mu = math.sqrt(sum(sigma(e) ** -2 for e in (0.7, 1.3, 1.1)))
        assert budgets.total() == pytest.approx(acc.gdp_epsilon(mu, DELTA), rel=2e-3)


# --- mechanisms -----------------------------------------------------------------------------------


def test_mechanisms_are_calibrated_one_by_one():
    budgets = StepBudgets(1, 0.5, 2, 0.25, 1, 0.8, 4)
    _, steps = planned(federation(bound=11.0), budgets=budgets)
    assert steps["outer"] == Gaussian(121, 121 * sigma(1))
    assert steps["outer"].std == pytest.approx(511.2, abs=0.05)
    assert steps["sums"] == Gaussian(11, 11 * sigma(2))
    assert steps["lloyd_sums"].std == pytest.approx(11 * 2 * sigma(1))  # sqrt(4) rounds
    assert steps["weights"] == Laplace(1, 2.0) and steps["counts"] == Laplace(1, 4.0)
    assert steps["lloyd_counts"].scale == pytest.approx(5.0)  # T / epsilon


# --- neighbours get the same plan -----------------------------------------------------------------


@settings(max_examples=12)
@given(
    st.sampled_from(["point", "client"]),
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.sampled_from([*VARIANTS, "auto"]),
    st.sampled_from(["teaching", "secure"]),
)
def test_neighbouring_data_sets_get_the_same_plan(unit, seed, size, variant, mode):
    """One row or one client of any size added: with the same public numbers, nothing differs."""
    rng = np.random.default_rng(seed)
    base = [rng.normal(size=(int(n), D)) for n in rng.integers(1, 30, size=6)]
    more = rng.normal(size=(size, D)) * 10.0 ** rng.integers(-3, 6)
    neighbour = [*base, more]
    if unit == "point":
        neighbour = [np.vstack([base[0], more[:1]]), *base[1:]]
    first, second = (
        plan_of(
            variant, federation(clients, unit=unit, mode=mode, n_records=1000, n_clients=20),
            n_rounds=2,
        )
        for clients in (base, neighbour)
    )  # fmt: skip
    assert first == second and str(first) == str(second)
    if hasattr(first.dial, "centers"):
        assert np.array_equal(first.dial.centers, second.dial.centers)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["teaching", "secure"])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 100.0, 1e4, 1e6])
def test_extreme_budgets_are_planned_exactly(epsilon, mode, sizes):
    """And no privacy loss distribution grows beyond a fixed size (56 GiB once, at epsilon 1e6)."""
    for variant in ("feddp", "given"):
        found = plan_of(variant, federation(mode=mode), epsilon=epsilon, n_rounds=3)
        assert 0.9 * epsilon < found.total_epsilon <= epsilon
    assert max(sizes, default=0) < 5_000_000


@pytest.fixture
def sizes(monkeypatch):
    """Sizes of all arrays of probabilities that the library composes."""
    from dp_accounting.pld import pld_pmf

    sizes = []
    for name in ("DensePLDPmf", "SparsePLDPmf"):
        plain = getattr(pld_pmf, name).__init__

        def init(self, *args, _plain=plain, **kwargs):
            _plain(self, *args, **kwargs)
            sizes.append(self.size)

        monkeypatch.setattr(getattr(pld_pmf, name), "__init__", init)
    joint_epsilon.cache_clear()
    return sizes


# --- the inverse ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit, needed", [("point", (0.3107, 1.2321, 4.8650)), ("client", (0.3416, 1.3507, 5.2975))]
)
def test_inverse_finds_the_known_budgets(unit, needed):
    for total, epsilon_init in zip((0.25, 1, 4), needed, strict=True):
        budgets = for_total(total, unit=unit)
        assert budgets.epsilon_sum == pytest.approx(epsilon_init, rel=2e-3)
        assert total * (1 - 1e-3) < budgets.total() <= total
        shares = np.array([budgets.outer, budgets.weights, budgets.sums, budgets.counts])
        assert shares / shares.sum() == pytest.approx(PROPORTIONS[unit])
