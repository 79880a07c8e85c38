"""Guards that stand behind others: each of them refuses alone, where the outer one is passed by."""

import math

import numpy as np
import pytest

from fedclust_helpers import client_statistics as cs
from fedclust_helpers import mechanisms as mech
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, Sampling
from fedclust_helpers.federation import simulate
from fedclust_helpers.rr_cluster import LinearRegression
from fedclust_helpers.secure_aggregation import RingOverflowError

CLIENTS = [np.full((4, 3), 0.25), np.full((2, 3), -0.5), np.zeros((1, 3))]


def planned(ledger, *stds):
    return [ledger.entry([mech.Gaussian(1.0, std)], name=f"release {std}") for std in stds]


def test_a_reservation_pays_for_what_was_admitted_and_nothing_else():
    """The federation compares with its plan; the ledger does not rely on that."""
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5))
    held = ledger.admit(planned(ledger, 40.0, 50.0), name="a plan")
    for wrong in (mech.Gaussian(1.0, 50.0), mech.Gaussian(1.0, 0.01)):
        with pytest.raises(BudgetExceededError, match="is not the next that was admitted"):
            ledger.charge([wrong], name="release 40.0", reservation=held)
    ledger.charge([mech.Gaussian(1.0, 40.0)], name="release 40.0", reservation=held)
    ledger.charge([mech.Gaussian(1.0, 50.0)], name="release 50.0", reservation=held)
    with pytest.raises(BudgetExceededError, match="is not the next that was admitted"):
        ledger.charge([mech.Gaussian(1.0, 50.0)], name="once more", reservation=held)
    ledger.close(held)
    assert len(ledger.releases) == 2
    parts = [ledger.entry([mech.Gaussian(1.0, 90.0)], name="x", group=f"planned/{p}") for p in "ab"]
    held = ledger.admit(parts, name="two parts of one division, which cost what one costs")
    ledger.charge(parts[0].mechanisms, name="x", group="division 0/a", reservation=held)
    with pytest.raises(BudgetExceededError, match="is not the next that was admitted"):
        ledger.charge(parts[1].mechanisms, name="x", group="division 1/b", reservation=held)
    ledger.charge(parts[1].mechanisms, name="x", group="division 0/b", reservation=held)


@pytest.mark.parametrize(
    "wrong",
    [{"name": "other"}, {"round": 1}, {"group": "division 0/b"}, {"group": None},
     {"sampling": Sampling("poisson", rate=0.5)}, {"mechanisms": [mech.Gaussian(1.0, 41.0)]}],
    ids=str,
)  # fmt: skip
def test_a_line_is_charged_as_it_was_admitted_in_every_field(wrong):
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5))
    line = {"mechanisms": [mech.Gaussian(1.0, 40.0)], "name": "x", "group": "division 0/a"}
    held = ledger.admit([ledger.entry(**line | {"group": "planned/a"})], name="a plan")
    with pytest.raises(BudgetExceededError, match="is not the next that was admitted"):
        ledger.charge(**line | wrong, reservation=held)
    assert not ledger.releases
    ledger.charge(**line, reservation=held)


def test_a_reservation_is_good_for_its_own_ledger_until_it_is_closed():
    ledger, other = PrivacyLedger(), PrivacyLedger(budget=Budget(0.1, 1e-6))
    held = ledger.admit(planned(ledger, 2.0), name="a plan")
    with pytest.raises(BudgetExceededError, match="has no open reservation"):
        other.charge([mech.Gaussian(1.0, 2.0)], name="release 2.0", reservation=held)
    ledger.close(held)
    with pytest.raises(BudgetExceededError, match="has no open reservation"):
        ledger.charge([mech.Gaussian(1.0, 2.0)], name="release 2.0", reservation=held)
    assert not ledger.releases and not other.releases


def test_the_largest_total_of_a_ring_counts_the_rounding_of_every_client():
    """Three clients may each round up by half of 20,000; the noise alone would fit."""
    f = simulate(CLIENTS, "masked", noise_from="server", seed=1, bits=32, fractional_bits=16)
    with pytest.raises(RingOverflowError):
        f.noisy_sum(cs.TOTAL, [mech.DiscreteGaussian(90_000.0, 1.0, 20_000.0)], round=0)
    assert not f.ledger.releases


@pytest.mark.parametrize(
    "mechanism", [mech.DiscreteGaussian(1.0, 2.0**57), mech.DiscreteLaplace(1.0, 2.0**55)]
)
def test_secure_steps_are_random_to_the_last_bit_beyond_what_floats_hold(mechanism):
    """False alarm below 1e-6: 5 standard deviations for each of 4 bits."""
    steps = mechanism.sample_steps(2000, rng=mech.SECURE)
    assert np.abs(steps).max() > 2**54  # where floats are even, then multiples of 4, ...
    for bit in range(4):
        ones = ((steps >> bit) & 1).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / math.sqrt(len(steps))


LOOSE = cs.ClientStatistic(
    name="loose", parts=("total",),
    compute=lambda points, offsets, **_: (np.add.reduceat(points, offsets[:-1], axis=0),),
    changes=lambda *, bound, n_features, **_: {
        "total": cs.Change(n_features * bound, math.sqrt(n_features) * bound, bound)
    },
)  # fmt: skip


@pytest.mark.parametrize("given", [{"bound": 1e-7}, {"n_features": 0.0001}])
def test_a_statistic_that_takes_any_name_does_not_lower_its_own_sensitivity(given):
    f = simulate(CLIENTS, "ideal", seed=1)
    for mechanism in (mech.Gaussian(1e-3, 1e-4), f.gaussian(LOOSE, "total", multiplier=1.0)):
        with pytest.raises(TypeError, match="must not be given: the federation's own"):
            f.noisy_sum(LOOSE, [mechanism], round=0, **given)
    assert not f.ledger.releases


@pytest.mark.parametrize("k", [2, 25])
def test_the_number_of_clusters_is_read_off_the_centres(k):
    """A client's clipped sums over k clusters move by sqrt(k d) times the clip in L1."""
    ledger = PrivacyLedger(unit="client")
    f = simulate(CLIENTS, "ideal", seed=1, domain="ball", ledger=ledger)
    statistic, public = cs.CLIENT_SUMS_AND_COUNTS, {"clip_sums": 1.0, "clip_counts": 1.0}
    sent = {"centers": np.zeros((k, 3)), **public}
    for n_clusters, fits in ((k, True), (1, False)):
        noise = [
            f.laplace(statistic, part, epsilon=1.0, n_clusters=n_clusters, **public)
            for part in statistic.parts
        ]
        if fits:
            f.check_release(statistic, noise, **sent)
        else:
            with pytest.raises(ValueError, match="'sums' hides a sensitivity of"):
                f.check_release(statistic, noise, **sent)


def test_an_array_cannot_hide_a_number_that_the_sensitivity_needs():
    """The sensitivity is read off numbers; an array in their place would go unseen."""
    model = LinearRegression(1)
    federation = simulate(
        [np.ones((5, 2)) * 0.1] * 6, "ideal", seed=1, ledger=PrivacyLedger("client")
    )
    sent = {"models": np.zeros((2, 2)), "model": model, "clip": 1.0, "n_steps": 1,
            "learning_rate": 0.1}  # fmt: skip
    noise = [federation.gaussian(cs.MODEL_BLOCKS, "blocks", multiplier=1.0, clip=1.0, model=model)]
    for weight in (np.array([5.0]), [5.0], np.array([[5.0]])):
        with pytest.raises(TypeError, match="count_weight must be (one|a real) number"):
            federation.noisy_sum(cs.MODEL_BLOCKS, noise, round=0, **sent, count_weight=weight)
    with pytest.raises(ValueError, match="one client can change it by 5.09"):
        federation.noisy_sum(cs.MODEL_BLOCKS, noise, round=0, **sent, count_weight=5.0)
    assert not federation.ledger.releases and not federation.transcript.messages
