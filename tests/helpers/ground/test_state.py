"""State that must exist once is not copied, and what a release depends on is not overridden."""

import copy
import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from inspect import getattr_static

import cloudpickle
import numpy as np
import pytest
from conftest import refuses
from sklearn.base import clone

from fedclust_helpers import fastlloyd
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS, SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import PlanMismatchError, Randomness, simulate
from fedclust_helpers.mechanisms import Gaussian, NoNoise
from fedclust_helpers.secure_aggregation import PadBook

TRUSTS = ("trusted", "ideal", "masked", "serverless")
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "cloudpickle": cloudpickle.dumps,
    "inside a list": lambda x: copy.deepcopy([x]),
}


def rows(n=12, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2))


# --- keys, pads, generators -----------------------------------------------------------------------

SINGLE = {
    **{t: lambda t=t: simulate([rows(), rows(seed=1)], t, mode="secure") for t in TRUSTS},
    "teaching": lambda: simulate([rows()], "masked", noise_from="server", seed=1),
    "local": lambda: simulate(rows() / 2, "local", mode="secure"),
    "pads": lambda: PadBook(bytes(32), b"session"),
    "secure randomness": Randomness.secure,
    "teaching randomness": lambda: Randomness.teaching(1),
}


@pytest.mark.parametrize("thing", SINGLE)
def test_federations_pads_and_generators_are_neither_copied_nor_pickled(thing):
    """The server would subtract two messages under one pad: read the difference of the data."""
    for way in WAYS.values():
        refuses(CopyRefusedError, "must not be .*(each|another) process", way, SINGLE[thing]())


def in_a_fork(action):
    """What `action` does in a forked child: the name of its error, or "done"."""
    receive, send = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:  # pragma: no cover (another process)
        try:
            action()
            send.send("done")
        except BaseException as error:
            send.send(type(error).__name__)
        os._exit(0)
    os.waitpid(child, 0)
    return receive.recv()


def test_a_fork_releases_nothing_gives_out_no_pad_and_charges_no_ledger():
    pads, ledger = PadBook(bytes(32), b"s"), PrivacyLedger(budget=Budget(1.0))
    rooms = [simulate([rows(), rows(seed=1)], trust, seed=1) for trust in TRUSTS]
    for attempt in (
        *(lambda f=f: f.noisy_sum(TOTAL, (NoNoise(),), round=0) for f in rooms),
        lambda: pads.pads("p", 0, 2, (3,)),
        lambda: ledger.charge([], name="x"),
        lambda: ledger.admit([], name="x"),
        ledger.new_division,
    ):
        assert in_a_fork(attempt) == "CopyRefusedError"
        attempt()  # here it works


# --- ledgers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: clone(x, safe=False)])
@pytest.mark.parametrize("budget", [None, Budget(1.0, 1e-5)])
def test_a_copied_ledger_is_the_same_ledger(way, budget):
    ledger = PrivacyLedger(budget=budget)
    assert way(ledger) is ledger
    assert copy.deepcopy({"a": [ledger]})["a"][0] is ledger


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_ledger_with_a_budget_is_not_pickled(dumps):
    with pytest.raises(CopyRefusedError, match="another process could spend the budget again"):
        dumps(PrivacyLedger(budget=Budget(1.0)))


def test_a_pickled_ledger_is_a_record():
    ledger = PrivacyLedger()
    ledger.charge([Gaussian(1.0, 5.0)], name="x")
    record = pickle.loads(pickle.dumps(ledger))
    assert record.epsilon(1e-5) == ledger.epsilon(1e-5) and record.is_record
    for use in (lambda: record.charge([Gaussian(1.0, 5.0)], name="y"), record.new_division):
        refuses(CopyRefusedError, "record of releases", use)
    with pytest.raises(CopyRefusedError, match="record of releases"):
        ledger.since(0).charge([Gaussian(1.0, 5.0)], name="y")


@pytest.mark.parametrize("filter_", ["basic", "gdp", "rdp"])
def test_threads_share_one_budget(filter_, monkeypatch):
    """Eight threads at once, where one release fits: one is granted."""
    check = PrivacyLedger._require

    def slow(*given):
        check(*given)
        time.sleep(0.02)  # the others are here meanwhile, unless a lock keeps them out

    monkeypatch.setattr(PrivacyLedger, "_require", slow)
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5, filter_))
    barrier = threading.Barrier(8)

    def granted(_):
        barrier.wait()
        try:
            ledger.charge([Gaussian(1.0, 5.0)], name="x")
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(granted, range(8))) == len(ledger.releases) == 1


def test_threads_share_one_federation_without_sharing_a_pad():
    federation = simulate(
        [rows(), rows(seed=1)], "masked", noise_from="server", seed=1, keep_payloads=True
    )
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda t: federation.noisy_sum(TOTAL, (NoNoise(),), round=t), range(40)))
    sent = [m.payload.tobytes() for m in federation.transcript.messages if m.name == "total"]
    assert len(sent) == 40 and len(set(sent)) == 40


# --- nothing that a release depends on is the caller's --------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_federation_is_fixed_once_it_is_made(trust):
    mine = [rows(), rows(seed=1)]
    federation = simulate(mine, trust, seed=1, budget=Budget(9.0, 1e-5))
    for thing in (federation, federation.ledger):
        names = [n for n in dir(thing) if n[0] != "_" and not callable(getattr_static(thing, n))]
        assert len(names) > 3
        for name in names:
            refuses(AttributeError, "", setattr, thing, name, None)
            refuses(AttributeError, "", delattr, thing, name)
    total = federation.gaussian(TOTAL, "total", multiplier=100.0, n_coordinates=2)
    before = simulate(mine, trust, seed=1).noisy_sum(TOTAL, (total,), round=0)
    for array in mine:
        array[:] = 1e6  # the caller's arrays are not the federation's
    np.testing.assert_array_equal(federation.noisy_sum(TOTAL, (total,), round=0), before)


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_representation_holds_no_data_and_no_secret(trust):
    federation = simulate([rows(), rows(seed=1)], trust, mode="secure")
    text = repr(federation) + repr(federation.facts) + repr(federation.randomness)
    for number in rows().ravel():
        assert str(number)[:8] not in text
    book = PadBook(b"k" * 32, b"session")
    assert "kkkk" not in repr(book) and "session'" not in repr(book)


# --- a plan is followed ---------------------------------------------------------------------------


def test_a_run_releases_what_its_plan_says_and_nothing_else():
    federation = simulate([rows(40), rows(40, 1)], "ideal", seed=1)
    plan = fastlloyd.plan(federation, n_clusters=2, epsilon=1.0)
    first = plan.releases[0]
    good = {"centers": np.zeros((2, 2)), "radius": plan.broadcasts("radius")[0]}
    with federation.follow(plan) as held:
        assert held.charged == []
        for statistic, mechanisms, at, sent in (
            (RELATIVE_SUMS_AND_COUNTS, first.mechanisms, 1, good),
            (RELATIVE_SUMS_AND_COUNTS, plan.mechanisms[1], 0, good),
            (SUMS_AND_COUNTS, first.mechanisms, 0, {"centers": good["centers"]}),
        ):
            refuses(ValueError, "", federation.noisy_sum, statistic, mechanisms, round=at, **sent)
            assert not federation.ledger.releases
        federation.noisy_sum(RELATIVE_SUMS_AND_COUNTS, first.mechanisms, round=0, **good)
        with pytest.raises(PlanMismatchError, match="is not the next one of the plan"):
            federation.noisy_sum(RELATIVE_SUMS_AND_COUNTS, first.mechanisms, round=0, **good)
        refuses(PlanMismatchError, "a run is under way", fastlloyd.run, federation, plan)
    assert len(federation.ledger.releases) == 1


@pytest.mark.parametrize(
    "other",
    [{"bound": 2.0}, {"n_records": 1000}, {"mode": "secure"}, {"noise": "discrete"},
     {"domain": "ball"}, {"ledger": PrivacyLedger(unit="client")}],
    ids=str,
)  # fmt: skip
def test_a_plan_is_for_the_federation_that_made_it(other):
    plan = fastlloyd.plan(simulate([rows()], "ideal", seed=1), n_clusters=2, epsilon=1.0)
    options = other if "mode" in other else {"seed": 1} | other
    federation = simulate([rows()], "ideal", **options)
    text = "plan was made for a federation with other"
    refuses(PlanMismatchError, text, fastlloyd.run, federation, plan)
    assert not federation.ledger.releases and not federation.transcript.messages


def test_a_plan_that_costs_more_than_it_states_is_refused():
    federation = simulate([rows()], "ideal", seed=1)
    plan = fastlloyd.plan(federation, n_clusters=2, epsilon=1.0)
    for wrong in (0.5, 0.9999):
        forged = replace(plan, epsilon=wrong).vouched()  # by a planner that is wrong
        with pytest.raises(BudgetExceededError, match=f"more than the {wrong} that it states"):
            fastlloyd.run(federation, forged)
    assert not federation.ledger.releases and not federation.transcript.messages


def test_a_failed_run_keeps_what_it_released_and_frees_what_it_did_not():
    federation = simulate([rows()], "ideal", seed=1, budget=Budget(1.0, 1e-5))
    plan = fastlloyd.plan(federation, n_clusters=2, epsilon=1.0, delta=1e-5)
    with pytest.raises(RuntimeError), federation.follow(plan):
        raise RuntimeError("before the first release")
    assert federation.ledger.remaining == 1
    with pytest.raises(RuntimeError), federation.follow(plan):
        federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, plan.mechanisms[0], round=0, centers=np.zeros((2, 2)),
            radius=plan.broadcasts("radius")[0],
        )  # fmt: skip
        raise RuntimeError("after the first release")
    assert len(federation.ledger.releases) == 1
    # bounded together in advance: a plan that was begun counts whole
    assert federation.ledger.remaining == pytest.approx(0, abs=1e-6)
    refuses(BudgetExceededError, "", fastlloyd.run, federation, plan)
