"""Clients that drop out, in one process: who is summed, what it costs, what a lie gains."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import (
    ClientsMissingError,
    PlannedRelease,
    TrustModelError,
    simulate,
)
from fedclust_helpers.federation.aggregation import Part
from fedclust_helpers.mechanisms import DistributedDiscreteGaussian, Gaussian

M = 5
ROWS = [np.random.default_rng(i).normal(0.1 * i, 0.2, (30 + i, 2)).clip(-1, 1) for i in range(M)]
N = sum(map(len, ROWS))
SHARED = {
    "masked": ("masked", {}),
    "read by the server": ("masked", {"receiver": "server"}),
    "serverless": ("serverless", {}),
}
ONE_NOISE = {
    "trusted": ("trusted", {}), "ideal": ("ideal", {}),
    "masked": ("masked", {"noise_from": "server"}),
}  # fmt: skip


def made(trust, rows=ROWS, **options):
    trust, own = (SHARED | {f"{n}, one noise": row for n, row in ONE_NOISE.items()})[trust]
    return simulate(rows, trust, **{"seed": 7, "may_miss": 2, "n_records": N} | own | options)


def ran(federation, **options):
    plan = fastlloyd.plan(federation, **{"n_clusters": 2, "epsilon": 3.0, "n_rounds": 4} | options)
    return fastlloyd.run(federation, plan)


# --- the sum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", [*SHARED, *(f"{name}, one noise" for name in ONE_NOISE)])
def test_a_run_without_a_client_is_that_of_a_federation_that_never_had_it(trust):
    """The last two, so that the others have the same streams of noise; sizes of shares too."""
    gone = dict.fromkeys(range(4), [3, 4])
    one = ran(made(trust, away=gone))
    other = ran(made(trust, ROWS[:3], may_miss=0, n_clients=M))
    assert np.array_equal(one.centers, other.centers)
    assert np.array_equal(one.history, other.history)
    assert [a.mechanisms for a in one.ledger.releases] == [
        b.mechanisms for b in other.ledger.releases
    ]
    assert not np.array_equal(one.centers, ran(made(trust)).centers)


@pytest.mark.parametrize("trust", SHARED)
def test_gone_before_or_during_a_round_and_back_again(trust):
    """The same sums, whether a client is known to be gone or does not answer; one costs more."""
    before = ran(made(trust, away={1: [1], 2: [1]}, repeats=2))
    during = ran(made(trust, silent={1: [1]}, away={2: [1]}, repeats=2))
    assert [len(r.ledger.releases) for r in (before, during)] == [4, 5]
    assert [r.round for r in during.ledger.releases] == [0, 1, 1, 2, 3]
    # the noise of the second set is fresh, so only the first round, before it, is the same
    assert np.array_equal(before.history[1], during.history[1])
    assert before.epsilon < during.epsilon < during.plan.total_epsilon <= 3.0 * (1 + 1e-9)
    exact = [
        fastlloyd.run(f, fastlloyd.plan_lloyd(f, n_clusters=2, n_rounds=4)).centers
        for f in (
            made(trust, silent={1: [1, 4]}, away={3: [0]}, repeats=1),
            made("trusted, one noise", away={1: [1, 4], 3: [0]}),
        )
    ]
    assert np.abs(exact[0] - exact[1]).max() < 1e-6


@pytest.mark.parametrize("trust", ["trusted, one noise", "ideal, one noise"])
def test_who_adds_up_what_it_sees_leaves_the_silent_out(trust):
    """No second set is needed: the noise is added once, to the sum of those who answered."""
    silent, away = (ran(made(trust, **{how: {1: [0], 2: [0, 3]}})) for how in ("silent", "away"))
    assert np.array_equal(silent.history, away.history)
    assert len(silent.ledger.releases) == 4


def test_a_cohort_is_drawn_of_those_who_are_there():
    one_each = [np.full((1, 2), 0.5)] * 40
    federation = simulate(
        one_each, "ideal", seed=1, may_miss=20, away={0: range(20)}, ledger=PrivacyLedger("client")
    )
    (drawn,) = federation.noisy_sum(
        replace(TOTAL, unit="client"), [Gaussian(2.0, 1e-9)], round=0,
        sampling=Sampling("poisson", rate=0.999999),
    )  # fmt: skip
    assert drawn == pytest.approx([10.0, 10.0], abs=1e-6)


# --- noise and price ------------------------------------------------------------------------------


@pytest.mark.parametrize("colluding", [0, 1, 2])
def test_shares_suffice_for_those_who_are_left(colluding):
    """Of the smallest sets, without their colluders: no less noise than the ledger is told."""
    federation = made("masked", max_colluding=colluding)
    n_honest, n = federation.facts.n_honest, 4000
    assert n_honest == M - 2 - colluding
    share = DistributedDiscreteGaussian(9.0, 64.0, 2.0**-10, n_honest=n_honest, n_coordinates=2)
    for who in ((0, 1, 2), (1, 3, 4)):
        silence = np.zeros((3, n), np.uint64)
        words = federation.trust.adder.to_messages(federation.aggregation, silence, share, who)
        honest = federation.aggregation.decode(words[: len(who) - colluding].sum(axis=0), share)
        assert honest.var() == pytest.approx(64.0**2, rel=5 * math.sqrt(2 / n))
    more = replace(share, n_honest=n_honest + 1)
    refuses(ValueError, "counts on", federation.noisy_sum, TOTAL, [more], round=0)


def test_a_plan_reserves_its_repeats_and_says_what_they_cost():
    plans = [
        fastlloyd.plan(made("masked", repeats=n), n_clusters=2, epsilon=3.0, n_rounds=4)
        for n in (0, 2)
    ]
    for plan, n in zip(plans, (0, 2), strict=True):
        assert plan.total_epsilon == pytest.approx(3.0, rel=1e-5)
        alone = PrivacyLedger(releases=plan.entries()).epsilon(plan.delta)
        assert (alone < 2.99) == bool(n)
        said = dict(plan.statement())["missing"]
        assert "up to 2 of 5 clients" in said and "1.58 times the noise" in said
        assert (f"{n} repeats reserved" in said and f"{alone:.6g}" in said) == bool(n)
    # 4 releases and 2 repeats of Gaussian noise: sqrt(6/4) of the noise
    ratio = plans[1].mechanisms[0][0].scale / plans[0].mechanisms[0][0].scale
    assert ratio == pytest.approx(math.sqrt(1.5), rel=1e-5)
    assert "missing" not in dict(
        fastlloyd.plan(made("masked", may_miss=0), n_clusters=2, epsilon=3.0).statement()
    )


def test_the_costliest_release_is_what_a_repeat_is_reserved_for():
    federation = made("masked", repeats=2)
    plan = fastlloyd.plan_overclustered(federation, n_clusters=2, epsilon=3.0)
    costs = [line.rho for line in plan.entries()]
    assert max(costs) > 1.01 * min(costs)  # else this test shows nothing
    for line in plan.entries():
        twice = PrivacyLedger(releases=[*plan.entries(), line, line])
        assert twice.epsilon(plan.delta) <= plan.total_epsilon <= 3.0 * (1 + 1e-9)


@pytest.mark.parametrize("filter", ["basic", "rdp"])
def test_budgets_hold_repeats_until_they_are_made_or_the_run_ends(filter):
    """A plan with repeats that costs what is there is admitted; one repeat more is not."""
    planned = fastlloyd.plan(made("masked", repeats=1), n_clusters=2, epsilon=1.0, n_rounds=3)
    lines, repeats = planned.entries(), planned.repeats()
    limit = Budget(1.0, planned.delta, "basic" if filter == "basic" else filter)
    enough = PrivacyLedger(budget=Budget(3.0, 0.01, filter))
    room = enough.admit(lines, name="run", repeats=repeats)
    held = enough.remaining
    for number in (0, 1, 1, 2):
        made_now = enough.charge(
            lines[number].mechanisms, name=lines[number].name, round=number, reservation=room,
            number=number,
        )  # fmt: skip
        assert made_now in enough.releases
        assert enough.remaining == pytest.approx(held, rel=1e-9)  # it was held already
    for number in (2, 1, 3):  # the repeat is used up; none is made out of turn; none is beyond
        refuses(
            BudgetExceededError, "repeats that .* is left|not the next", enough.charge,
            lines[min(number, 2)].mechanisms, name=lines[0].name, round=number, reservation=room,
            number=number,
        )  # fmt: skip
    assert len(enough.releases) == 4
    if filter == "basic":
        PrivacyLedger(budget=limit).admit(lines, name="run", repeats=repeats)
        refuses(
            BudgetExceededError, "run would exceed", PrivacyLedger(budget=limit).admit, lines,
            name="run", repeats=repeats * 2,
        )  # fmt: skip


def test_releases_that_are_passed_over_cost_nothing():
    """The ledger of a client that was away: it was in some of the sums."""
    plan = fastlloyd.plan(made("masked", repeats=1), n_clusters=2, epsilon=1.0, n_rounds=3)
    ledger = PrivacyLedger(budget=Budget(3.0, 0.01, "rdp"))
    room = ledger.admit(plan.entries(), name="run", repeats=plan.repeats())
    last = plan.entries()[2]
    ledger.charge(last.mechanisms, name=last.name, round=2, reservation=room, number=2)
    ledger.close(room)
    assert len(ledger.releases) == 1
    alone = PrivacyLedger(budget=Budget(3.0, 0.01, "rdp"))
    alone.charge(plan.releases[2].mechanisms, name="the last")
    assert ledger.remaining == pytest.approx(alone.remaining)


# --- too many, and a server that lies -------------------------------------------------------------


def test_too_many_missing_and_no_repeat_left_stop_the_run_and_stay_charged():
    away = made("masked", away={2: [0, 1, 2]}, repeats=1)
    refuses(ClientsMissingError, r"clients \[0, 1, 2\] are missing in release 2", ran, away)
    assert len(away.ledger.releases) == 2  # nobody was asked
    both = made("masked", away={2: [0]}, silent={2: [1, 2]}, repeats=1)
    refuses(ClientsMissingError, r"clients \[0, 1, 2\] are missing in release 2", ran, both)
    assert len(both.ledger.releases) == 3  # a first set was, and no second one that is too small
    silent = made("masked", silent={1: [0], 2: [1]}, repeats=1)
    refuses(ClientsMissingError, "round 2, and none of 1 repeats is left", ran, silent)
    assert [r.round for r in silent.ledger.releases] == [0, 1, 1, 2]
    one = made("masked, one noise", silent={1: [0]})  # the server's own noise: no second set
    refuses(ClientsMissingError, "none of 0 repeats", ran, one)
    assert [r.round for r in one.ledger.releases] == [0, 1]


def test_a_round_that_was_broken_off_shows_uniform_words_and_its_pads_never_come_again():
    federation = made("read by the server", silent={0: [2]}, repeats=1, keep_payloads=True)
    noise = DistributedDiscreteGaussian(9.0, 10.0, 2.0**-10, n_honest=2, n_coordinates=2)
    (released,) = federation.noisy_sum(TOTAL, [noise], round=0)
    first, second = (m.payload for m in federation.transcript.view("server") if m.round == 0)
    assert [len(first), len(second)] == [M - 1, M - 1]
    decoded = federation.aggregation.fixed_point.decode
    assert np.array_equal(decoded(second.sum(axis=0, dtype=np.uint64)), released)
    exact = sum(rows.sum(axis=0) for i, rows in enumerate(ROWS) if i != 2)
    assert np.abs(released - exact).max() < 8 * 10 * math.sqrt(2)
    # of what is missing a member: neither single words nor their sum, nor what pads leave of both
    for words in (*first, first.sum(axis=0, dtype=np.uint64), *(first - second)):
        assert np.abs(decoded(words)).max() > 1e5  # false alarm below 1e-4: uniform over 8.6e9


def test_noise_of_two_sets_is_independent():
    """A server that lies about who is gone subtracts two noises, and not one noise twice."""
    scale, n = 10.0, 400
    noise = DistributedDiscreteGaussian(M, scale, 2.0**-10, n_honest=2, n_coordinates=1)
    federation = made("masked")
    errors = np.array([
        [
            federation.aggregation.read(part, federation.aggregation.add(
                noise, federation.aggregation.send(part, np.zeros((len(who), 1)), who)))[0]
            for who in ((0, 1, 2, 3), (0, 1, 3))
            for part in [Part("total", "total", 0, t, noise, len(who), who)]
        ]
        for t in range(n)
    ])  # fmt: skip
    variances = scale**2 / 2 * np.array([4, 3])
    assert np.allclose(errors.var(axis=0), variances, rtol=5 * math.sqrt(2 / n))
    assert abs(np.corrcoef(errors.T)[0, 1]) < 5 / math.sqrt(n)


def test_a_repeat_is_of_the_last_release_and_within_a_plan():
    federation = made("masked", repeats=1)
    plan = fastlloyd.plan(federation, n_clusters=2, epsilon=3.0, n_rounds=2)
    other = PlannedRelease(0, "other", (), ())
    with federation.follow(plan) as held:
        federation._charge(plan.releases[0])
        refuses(ValueError, "is not the next one", federation._charge, other, again=True)
        federation._charge(plan.releases[0], again=True)
        refuses(ClientsMissingError, "none of 1", federation._charge, plan.releases[0], again=True)
    assert len(federation.ledger.record_of(held).releases) == 2


# --- refused --------------------------------------------------------------------------------------


def test_single_messages_need_everybody():
    refuses(
        TrustModelError, "collect needs all clients", made("trusted, one noise").collect, TOTAL,
        [Gaussian(9.0, 1.0)], round=0,
    )  # fmt: skip
    users = np.zeros((20, 2))
    for trust in ("local", "shuffled"):
        refuses(ValueError, "may_miss must be 0", simulate, users, trust, seed=1, may_miss=1)
