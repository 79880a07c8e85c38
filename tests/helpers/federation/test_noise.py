"""The one place that chooses noise: kind, grid, sensitivity; and integers from sampler to ring."""

import math

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers import client_statistics as cs
from fedclust_helpers import fastlloyd
from fedclust_helpers import federation as fl
from fedclust_helpers import mechanisms as mech
from fedclust_helpers.accounting import PrivacyLedger, Sampling
from fedclust_helpers.federation.noise import REPORT_STEPS

CLIENTS = [np.random.default_rng(i).uniform(-0.5, 0.5, (30, 3)) for i in range(3)]


def federation(trust="ideal", **options):
    if options.get("mode") != "secure":
        options = {"seed": 1} | options
    return fl.simulate(CLIENTS, trust, **options)


# --- kinds ----------------------------------------------------------------------------------------

BY_SERVER, SECURE = {"noise_from": "server"}, {"mode": "secure"}
KINDS = [
    ("ideal", {}, mech.Gaussian, mech.Laplace),
    ("ideal", {"noise": "discrete"}, mech.DiscreteGaussian, mech.DiscreteLaplace),
    ("ideal", {"mode": "secure"}, mech.DiscreteGaussian, mech.DiscreteLaplace),
    ("trusted", {"mode": "secure"}, mech.DiscreteGaussian, mech.DiscreteLaplace),
    ("masked", BY_SERVER, mech.Gaussian, mech.Laplace),
    ("masked", BY_SERVER | SECURE, mech.DiscreteGaussian, mech.DiscreteLaplace),
    ("masked", BY_SERVER | SECURE | {"bits": 32}, mech.DiscreteGaussian, mech.DiscreteLaplace),
    ("masked", {}, mech.DistributedDiscreteGaussian, None),
    ("masked", SECURE, mech.DistributedDiscreteGaussian, None),
    ("serverless", {}, mech.DistributedDiscreteGaussian, None),
    ("serverless", {"mode": "secure"}, mech.DistributedDiscreteGaussian, None),
]


@pytest.mark.parametrize(("trust", "options", "gaussian", "laplace"), KINDS)
@pytest.mark.parametrize("statistic", [cs.SUMS_AND_COUNTS, cs.RELATIVE_SUMS_AND_COUNTS])
def test_what_a_federation_draws_is_what_it_accepts(trust, options, gaussian, laplace, statistic):
    f = federation(trust, **options)
    sums, counts = statistic.parts
    radius = {"radius": 0.7} if statistic is cs.RELATIVE_SUMS_AND_COUNTS else {}
    made = tuple(
        f.gaussian(statistic, part, multiplier=4.0, n_coordinates=size, **radius)
        for part, size in ((sums, 6), (counts, 2))
    )
    assert all(type(m) is gaussian for m in made)
    f.check_release(statistic, made, centers=np.zeros((2, 3)), **radius)
    if laplace is None:
        with pytest.raises(fl.TrustModelError, match="Laplace noise needs one party to draw it"):
            f.laplace(statistic, sums, epsilon=1.0, **radius)
        return
    pure = tuple(f.laplace(statistic, part, epsilon=0.5, **radius) for part in statistic.parts)
    assert all(type(m) is laplace for m in pure)
    f.check_release(statistic, pure, centers=np.zeros((2, 3)), **radius)
    assert sum(m.pure_epsilon for m in pure) == pytest.approx(1.0)


@pytest.mark.parametrize(("trust", "options", "gaussian", "laplace"), KINDS)
def test_the_multiplier_is_that_of_the_noise(trust, options, gaussian, laplace):
    """One release with it costs what was asked for, whatever the kind."""
    f = federation(trust, **options)
    mechanism = f.gaussian(
        cs.TOTAL, "total", multiplier=f.noise_multiplier(0.7, 1e-6), n_coordinates=3
    )
    ledger = PrivacyLedger()
    ledger.charge([mechanism], name="x")
    assert 0.69 < ledger.epsilon(1e-6) <= 0.7 * (1 + 1e-9)
    if gaussian is mech.Gaussian:  # nothing is left for the gap of discrete noise
        assert ledger.epsilon(1e-6) == pytest.approx(0.7, rel=1e-10)


@pytest.mark.parametrize("trust", ["trusted", "ideal", "masked"])
@pytest.mark.parametrize("bound", [1e-9, 1e-3, 1.0, 2000.0, 1e9])
def test_secure_noise_has_random_last_bits_at_any_scale(trust, bound):
    """Each of the lowest bits of 3000 noises is 1 half of the time (false alarm 1e-6 a bit)."""
    options = {"fractional_bits": 8} if trust == "masked" and bound > 1e6 else {}
    options |= {"fractional_bits": 50} if trust == "masked" and bound < 1e-6 else {}
    options |= BY_SERVER if trust == "masked" else {}
    f = fl.simulate([np.zeros((2, 3))], trust, mode="secure", bound=bound, **options)
    for mechanism in (
        f.gaussian(cs.TOTAL, "total", multiplier=20.0, n_coordinates=3),
        f.laplace(cs.TOTAL, "total", epsilon=0.01),
    ):
        f.check_release(cs.TOTAL, [mechanism])
        assert 2**8 < mechanism.scale / mechanism.grid < 2**56
        steps = mechanism.sample_steps(3000, rng=mech.SECURE)
        assert steps.dtype == np.int64
        for bit in range(4):
            ones = ((steps >> bit) & 1).mean()
            assert abs(ones - 0.5) < 5 * 0.5 / math.sqrt(3000)


@pytest.mark.parametrize("mechanism", [mech.DiscreteGaussian, mech.DiscreteLaplace])
def test_noise_that_floats_cannot_hold_is_drawn_in_steps_alone(mechanism):
    wide, rng = mechanism(1.0, 2.0**54, 1.0), np.random.default_rng(1)
    refuses(ValueError, "scale/grid must be at most 2", wide.sample, 3, rng=rng)
    assert wide.sample_steps(3, rng=mech.SECURE).dtype == np.int64


@pytest.mark.parametrize("trust", ["trusted", "ideal"])
def test_totals_that_64_bit_integers_cannot_hold_are_refused(trust):
    f = fl.simulate(CLIENTS, trust, mode="secure", n_records=10**12)
    fine = mech.DiscreteGaussian(2.0, 20.0, 2.0**-45)
    # 2^17 - 1 rows at the bound leave 2^45 steps below 2^62; the noise is 180 times as wide
    nearly = fl.simulate(CLIENTS, trust, mode="secure", n_records=2**17 - 1)
    for full in (f, nearly):
        with pytest.raises(ValueError, match="grid of that for 'total' is too fine"):
            full.noisy_sum(cs.TOTAL, [fine], round=0)
        assert not full.ledger.releases


def test_reports_of_a_user_have_a_grid_in_proportion_to_the_bound_where_noise_is_discrete():
    for options, grid in (({"seed": 1}, None), ({"mode": "secure"}, 2.0 ** (1 - REPORT_STEPS))):
        f = fl.simulate(np.zeros((4, 2)), "local", bound=3.0, **options)
        mechanism = f.gaussian_report(2, epsilon=1.0, delta=1e-6)
        assert mechanism.grid == grid and mechanism.sensitivity >= 6


# --- sensitivities --------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", [cs.SUMS_AND_COUNTS, cs.SERVER_POINT_WEIGHTS])
@pytest.mark.parametrize("grid", [1000.0, 3.0, 1.5, 0.3])
def test_counts_on_a_grid_without_all_integers_are_charged_for_rounding(statistic, grid):
    """On a grid of 1000, 500 rows round to 0 and 501 to 1000: one row moves the answer by 1000."""
    part = statistic.parts[-1]
    public = {"bound": 1.0, "n_features": 2, "n_server_points": 4}
    fine = statistic.sensitivity_of(part, 1, "add/remove", grid=0.25, **public)
    assert fine == statistic.sensitivity_of(part, 1, "add/remove", **public) == 1
    assert statistic.sensitivity_of(part, 1, "add/remove", grid=grid, **public) >= 1 + grid


def test_a_coarse_grid_hides_what_it_rounds():
    f = federation(noise="discrete")
    noise = mech.DiscreteLaplace.from_budget(1.0, 0.1, grid=1000.0)
    sums = mech.DiscreteLaplace.from_budget(10.0, 0.1, grid=2.0**-20)
    with pytest.raises(ValueError, match="'counts' hides a sensitivity of 1"):
        f.noisy_sum(cs.SUMS_AND_COUNTS, (sums, noise), round=0, centers=np.zeros((1, 3)))
    assert not f.ledger.releases


# --- who adds noise, who receives -----------------------------------------------------------------


def test_thousands_of_clients_bring_a_secret():
    many = fl.ClientData.one_point_each(np.zeros((5000, 2)))
    with pytest.raises(ValueError, match="pre_shared_secret must be given for more than 4096"):
        fl.simulate(many, "masked", noise_from="server", seed=1)
    fl.simulate(many, "masked", noise_from="server", seed=1, pre_shared_secret=bytes(32))


# --- public numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["trusted", "ideal", "masked"])
def test_facts_and_plans_hold_public_numbers_only(trust):
    """Data sets that differ by a row or a client give the same facts and the same plan."""
    public = {"n_records": 200, "n_clients": 5} | (BY_SERVER if trust == "masked" else {})
    plans, facts = [], []
    for clients in (CLIENTS, [*CLIENTS[:2], CLIENTS[2][:-1]], [*CLIENTS, CLIENTS[0][:1]]):
        f = fl.simulate(clients, trust, seed=1, **public)
        facts.append(f.facts)
        plans.append(fastlloyd.plan(f, n_clusters=2, epsilon=1.0))
    assert facts[0] == facts[1] == facts[2]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("adjacency", ["add/remove", "replace-one"])
def test_more_clients_than_the_public_number_are_refused(adjacency):
    """Cut to it, one client fewer would bring another in: one record would move two."""
    how = {"seed": 1, "ledger": PrivacyLedger(adjacency=adjacency)}
    with pytest.raises(ValueError, match="n_clients must be the public number .* 2 is less"):
        fl.simulate(CLIENTS, "ideal", n_clients=2, **how)
    assert fl.simulate(CLIENTS, "ideal", n_clients=9, **how).facts.n_clients == 9


def test_a_fixed_cohort_is_drawn_from_the_public_population():
    """A stated population of 1000 amplifies as 1000 do: the three clients are rarely drawn."""
    ledger = PrivacyLedger(unit="client", adjacency="replace-one")
    f = fl.simulate(CLIENTS, "ideal", seed=1, ledger=ledger, n_clients=1000)
    drawn = Sampling("fixed", size=100, population=1000)
    taken = [len(f.randomness.cohort(drawn, len(CLIENTS))) for _ in range(300)]
    # mean 0.3, standard error 0.03: false alarm 1e-6
    assert abs(np.mean(taken) - 0.3) < 0.16
    with pytest.raises(ValueError, match="must state the population of 1000"):
        f.check_release(
            cs.MODEL_BLOCKS, [mech.NoNoise("replace-one")],
            sampling=Sampling("fixed", size=3, population=3),
        )  # fmt: skip


def test_secure_mode_lets_no_error_tell_how_large_the_data_are():
    with pytest.warns(fl.ClippedDataWarning, match="^[^0-9]*$"):  # for the data holder, no numbers
        fl.simulate([1e9 + np.ones((5, 2))], "ideal", mode="secure")
    fl.simulate(CLIENTS, "ideal", mode="secure", n_records=1)  # a wrong public number is no error


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trust", "options"), [("serverless", {}), ("masked", {"bits": 32})])
def test_a_grid_that_is_too_coarse_for_shares_of_noise_gets_more_noise(trust, options):
    """A sum of discrete Gaussians on whole numbers is far from one: it costs twice as much."""
    f = federation(trust, fractional_bits=0, n_records=10**6, **options)
    plan = fastlloyd.plan(f, n_clusters=2, epsilon=60.0, delta=1e-5)
    assert plan.total_epsilon <= 60 and plan.dial > max(f.noise_multipliers(60.0, 1e-5))
    result = fastlloyd.run(
        f := federation(trust, **options), fastlloyd.plan(f, n_clusters=2, epsilon=4.0, delta=1e-5)
    )
    assert result.epsilon == f.ledger.epsilon(1e-5) <= 4.0 * (1 + 1e-9)
