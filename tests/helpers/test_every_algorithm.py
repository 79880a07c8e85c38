"""What holds for every algorithm on every trust model: plan, run and ledger are one."""

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from algorithms import (
    ALGORITHMS,
    BESIDE_SERVER,
    CLIENTS,
    DATA,
    EVERY,
    LOCAL,
    ONE_NOISE,
    POINTS,
    PRIVATE,
    each_trust,
    found,
    run,
)
from conftest import first_of, refuses

from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import Budget, BudgetExceededError, Sampling
from fedclust_helpers.client_statistics import MODEL_BLOCKS
from fedclust_helpers.federation import PlanMismatchError
from fedclust_helpers.federation.plan_statement import NOUNS
from fedclust_helpers.mechanisms import SECURE

pytestmark = pytest.mark.slow

every_private_one = pytest.mark.parametrize("name", PRIVATE)


def untouched(fed, n_messages):
    """Nothing charged, and nothing sent since keys were agreed on."""
    return not fed.ledger.releases and len(fed.transcript.messages) == n_messages


# --- plan, run, ledger ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "trust", "mode"),
    [(n, t, "teaching") for n, t in each_trust()]
    + [(n, t, "secure") for n, t in each_trust() if t == ALGORITHMS[n].trusts[0]]
    + [("fastlloyd", t, "secure") for t in ALGORITHMS["fastlloyd"].trusts[1:]],
)
def test_a_run_is_what_its_plan_says(name, trust, mode):
    """What was asked for is planned, charged and sent, in both modes; the data stay as they are."""
    algorithm = ALGORITHMS[name]
    fed = algorithm.federation(trust, mode=mode)
    n_keys, before = len(fed.transcript.messages), fed._clients.data.points.copy()
    plan = algorithm.plan(fed)
    assert untouched(fed, n_keys)
    result = run(fed, plan)
    assert fed.ledger.releases == result.ledger.releases
    assert [
        (r.round, r.name, r.mechanisms, r.sampling, (r.group or "").rpartition("/")[2])
        for r in fed.ledger.releases
    ] == [(r.round, r.name, r.mechanisms, r.charged_sampling, r.part or "") for r in plan.releases]
    assert result.epsilon == pytest.approx(plan.total_epsilon, rel=1e-9)
    asked = algorithm.options.get("epsilon", math.inf)
    if name in POINTS and mode == "teaching":  # Gaussian, or Laplace, steps alone: exact
        assert result.epsilon == pytest.approx(asked, rel=1e-6)
    assert plan.epsilon == asked and 0.93 * asked <= result.epsilon <= asked * (1 + 1e-9)
    noise = [m for r in plan.releases for m in r.mechanisms]
    secret = mode == "secure" and name != "lloyd"
    assert result.private == secret and bool(result.warning) != secret
    assert mode == "secure" or name == "lloyd" or "who knows the seed" in result.warning
    assert fed.randomness.is_secure == (mode == "secure")
    if secret:
        assert fed.randomness.noise is SECURE
        assert all(getattr(m, "grid", 1.0) is not None for m in noise)
    assert np.isfinite(found(result)).all()
    assert np.array_equal(fed._clients.data.points, before)
    text = str(plan)
    for fact in (plan.method, fed.facts.adjacency, f"{mode} mode", f"one {NOUNS[fed.facts.unit]}"):
        assert fact in text
    sent = [
        m
        for m in fed.transcript.messages[n_keys:]
        if m.sender != "server" or m.name.startswith("masked")
    ]  # and not what is told
    assert plan.n_bytes == pytest.approx(sum(m.n_bytes * m.count for m in sent), rel=0.1)


@pytest.mark.parametrize(
    "name", [n for n in EVERY if {"ideal", "trusted"} <= {*ALGORITHMS[n].trusts}]
)
def test_trust_models_with_one_noise_give_one_run(name):
    """Up to the resolution of a ring, which 32 bits make coarse; one seed is one run."""
    runs = {}
    for trust in (*ONE_NOISE, "ideal"):
        if trust in ALGORITHMS[name].trusts:
            fed = ALGORITHMS[name].federation(trust, seed=21)
            result = run(fed, ALGORITHMS[name].plan(fed))
            first = runs.setdefault(trust, result)
            assert np.array_equal(found(first), found(result))
    for trust, result in runs.items():
        step = {"server's noise": 1e-6, "server's noise, 32 bits": 0.05}.get(trust, 1e-9)
        assert np.abs(found(result) - found(runs["ideal"])).max() < step, trust
    other = ALGORITHMS[name].federation("ideal", seed=22)
    assert not np.array_equal(found(run(other, ALGORITHMS[name].plan(other))), found(runs["ideal"]))


@every_private_one
@pytest.mark.parametrize("data", [data for data in DATA if data != "groups"])
def test_rows_of_no_use_give_finite_centres_within_the_bound(name, data):
    """What the rows are is decided by rules, not by errors that others can see."""
    fed = ALGORITHMS[name].federation(rows=DATA[data])
    centers = found(run(fed, ALGORITHMS[name].plan(fed, epsilon=0.5)))
    assert np.isfinite(centers).all()
    if name in ("fastlloyd", "grid", "moments"):
        assert np.abs(centers).max() <= fed.facts.bound
    if name in BESIDE_SERVER + LOCAL and name != "one round":  # which takes the middle of a cell
        assert np.linalg.norm(centers, axis=1).max() <= fed.facts.bound * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name in PRIVATE if name not in CLIENTS])
@pytest.mark.parametrize("epsilon", [1e-3, 1e3])
def test_small_and_large_budgets_are_planned(name, epsilon):
    for mode in ("teaching", "secure"):
        fed = ALGORITHMS[name].federation(mode=mode)
        plan = ALGORITHMS[name].plan(fed, epsilon=epsilon)
        assert plan.total_epsilon <= epsilon * (1 + 1e-9)
        assert plan.total_epsilon > 0.5 * epsilon or epsilon < 1e-2


# --- what a plan knows ----------------------------------------------------------------------------


@every_private_one
@pytest.mark.parametrize("seed", range(2))
def test_neighbours_get_the_same_plan(name, seed):
    """Two data sets of one size, the second far from the first: a plan has public numbers alone."""
    plans = []
    for data in ("groups", "far away"):
        fed = ALGORITHMS[name].federation(rows=DATA[data], seed=seed)
        plans.append(ALGORITHMS[name].plan(fed))
    assert plans[0] == plans[1] and str(plans[0]) == str(plans[1])


# --- secure mode takes the noise of its teaching twin ---------------------------------------------


def same_noise(plans, *, exact=True, within=1e-3):
    """(teaching, secure): mechanism by mechanism, and no more is spent than allowed."""
    teaching, secure = plans
    assert len(teaching.releases) == len(secure.releases)
    for one, other in zip(teaching.releases, secure.releases, strict=True):
        for a, b in zip(one.mechanisms, other.mechanisms, strict=True):
            if not isinstance(getattr(a, "std", None), float):  # a randomised response
                assert b.pure_epsilon == pytest.approx(a.pure_epsilon, rel=1e-3)
                continue
            low = 1 - 1e-6 if exact else 1 - 1e-3
            assert low < (b.std / b.sensitivity) / (a.std / a.sensitivity) < 1 + within
            assert b.std < a.std * (1 + within)
    assert secure.total_epsilon <= secure.epsilon * (1 + 1e-9)
    assert secure.total_epsilon > (1 - 2 * within) * teaching.total_epsilon


@pytest.mark.parametrize(("name", "trust"), each_trust(PRIVATE))
@pytest.mark.parametrize("epsilon", first_of([2.0, 0.1]))
def test_secure_plans_take_the_noise_of_their_teaching_twins(name, trust, epsilon):
    """Gaussian and Laplace steps of one budget within the tolerance of their joint search."""
    if name in LOCAL:
        epsilon *= 2
    numbers = {"n_records": 5000} if name in POINTS else {}
    twins = [
        ALGORITHMS[name].plan(
            ALGORITHMS[name].federation(trust, **numbers, **mode), epsilon=epsilon
        )
        for mode in ({}, {"mode": "secure"})
    ]
    # curves of cohorts jump where epsilon is small: each search ends within a thousandth
    jumps = name in CLIENTS and epsilon < 1
    same_noise(twins, exact=name not in BESIDE_SERVER and not jumps)
    if trust in ("masked", "serverless"):  # shares of discrete noise, as tight
        alone = ALGORITHMS[name].federation("ideal", **numbers)
        same_noise((ALGORITHMS[name].plan(alone, epsilon=epsilon), twins[1]))
    if name in CLIENTS and not jumps and name not in ("fedper", "fesem", "fedcam"):  # memory, all
        assert twins[0].dial.accountant == twins[1].dial.accountant


@pytest.mark.parametrize(("name", "trust"), each_trust(("fastlloyd", "moments")))
def test_two_secure_runs_on_the_same_rows_release_other_numbers(name, trust):
    centers = []
    for _ in range(2):
        fed = ALGORITHMS[name].federation(trust, mode="secure")
        centers.append(found(run(fed, ALGORITHMS[name].plan(fed, epsilon=2.0))))
    one, other = centers
    assert not ((one == other) & (one != 0)).any()  # 0: a centre that nobody is near


@pytest.mark.parametrize("name", ["fastlloyd", "glloyd"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_ledger_agrees_with_an_independent_accountant(name, epsilon):
    """Privacy loss distributions of dp-accounting, where all noise is Gaussian."""
    fed = ALGORITHMS[name].federation("trusted")
    result = run(fed, ALGORITHMS[name].plan(fed, epsilon=epsilon))
    assert fed.ledger.epsilon(result.delta, method="pld") == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("name", ["fastlloyd", "glloyd"])
def test_a_coarse_ring_takes_little_more_noise(name):
    """Eight bits after the point: still far below the 8 % of zCDP."""
    coarse = {"bits": 32, "fractional_bits": 8, "n_records": 5000}
    same_noise(
        [ALGORITHMS[name].plan(ALGORITHMS[name].federation("server's noise", **coarse, **mode))
         for mode in ({}, {"mode": "secure"})],
        within=0.015,
    )  # fmt: skip


# --- a budget -------------------------------------------------------------------------------------


@every_private_one
@pytest.mark.parametrize("mode", ["teaching", "secure"])
def test_a_budget_pays_for_a_plan_once_and_not_for_a_dearer_one(name, mode):
    """Continuous or discrete, Gaussian and Laplace side by side: the plan takes all of it."""
    algorithm = ALGORITHMS[name]
    whole = algorithm.plan(algorithm.federation(mode=mode))
    for share, paid in ((0.9, 0), (1.001, 1)):
        budget = Budget(share * whole.total_epsilon, whole.delta or 1e-6)
        fed = algorithm.federation(budget=budget, mode=mode)
        plan = algorithm.plan(fed)
        for _ in range(paid):
            run(fed, plan)
        charged, sent = len(fed.ledger.releases), len(fed.transcript.messages)
        refuses(BudgetExceededError, "", run, fed, plan)
        assert charged == paid * len(plan.releases) == len(fed.ledger.releases)
        assert len(fed.transcript.messages) == sent


# --- plans that somebody changed by hand ----------------------------------------------------------


def others(value: Any) -> list[Any]:
    """Values of the same kind, most of them plausible."""
    if isinstance(value, bool | np.bool_):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, -1]
    if isinstance(value, float):
        return [value * 2, value / 2, 1e-9, math.nan]
    if isinstance(value, str):
        return ["lloyd", "glloyd", "halving", "fesem", "exact", "grid", "moments", "one_round", ""]
    if isinstance(value, tuple):
        inner = [(*value[:-1], other) for other in others(value[-1])] if value else []
        return [value[:-1], value * 2, value[::-1], (), (5, 2), *inner]
    if isinstance(value, np.ndarray):
        return [value[:-1], value + np.nan, value * 2]
    if value is None:
        return [1, (2, 3)]
    if dataclasses.is_dataclass(value):
        return [made for f in dataclasses.fields(value)
                for made in changed(value, f.name, getattr(value, f.name))]  # fmt: skip
    return []


def changed(record: Any, name: str, value: Any) -> Any:
    """The record with other values of one field, where its constructor takes them."""
    for other in others(value):
        try:
            yield dataclasses.replace(record, **{name: other})
        except (ValueError, TypeError):
            continue  # refused at once


@pytest.mark.parametrize("name", [n for n in EVERY if n not in LOCAL or n == "one round, sums"])
def test_a_changed_plan_is_run_as_stated_or_refused_with_nothing_charged(name):
    make = ALGORITHMS[name].federation
    fed = make()
    plan = ALGORITHMS[name].plan(fed)
    sent, fields, tried = len(fed.transcript.messages), dataclasses.fields(plan), set()
    for field in fields:
        for other in changed(plan, field.name, getattr(plan, field.name)):
            tried.add(field.name)
            try:
                run(fed, other)
            except (ValueError, TypeError):  # of which PlanMismatchError is one
                assert not fed.ledger.releases and len(fed.transcript.messages) == sent
            else:
                assert fed.ledger.releases == other.entries()
                fed = make()
    assert tried >= {"method", "n_clusters", "n_rounds", "epsilon", "releases", "facts"}
    assert len(tried) >= len(fields) - 2  # all but a model's statistic, or the like
    result = run(fed, pickle.loads(pickle.dumps(plan)))  # a copy is not a change
    assert len(result.ledger.releases) == len(plan.releases)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("fastlloyd", lambda p: {"given": (*p.given, ("alpha", 2.0))}),
        ("fastlloyd", lambda p: {"dial": p.dial / 2}),
        ("grid", lambda p: {"algorithm": fastlloyd.FASTLLOYD}),
        ("moments", lambda p: {"parts": (("left", 1.0),)}),
        ("feddp", lambda p: {"dial": dataclasses.replace(p.dial, outer=2.0)}),
        ("rr", lambda p: {"dial": p.dial._replace(answer=1e-6)}),
    ],
)
def test_a_plan_that_would_fail_on_its_way_is_not_begun(name, change):
    fed = ALGORITHMS[name].federation()
    random = {"identifiers": "krr"} if name == "rr" else {}
    plan = ALGORITHMS[name].plan(fed, **random)
    other = dataclasses.replace(plan, **change(plan))
    refuses(PlanMismatchError, "plan must be as a planner made it", run, fed, other)
    assert not fed.ledger.releases and not fed.transcript.messages


def test_a_release_is_the_next_one_of_the_plan_with_its_sampling_too():
    """Everyone where a cohort was planned would be charged for the cohort alone."""
    fed = ALGORITHMS["sums only"].federation(adjacency="add/remove")
    plan = ALGORITHMS["sums only"].plan(fed)
    own = plan.options["training"].broadcast() | {"models": np.zeros((2, 15))}
    own |= {"count_weight": plan.broadcasts("count_weight")[0]}
    for sampling in (None, Sampling("poisson", rate=0.9)):
        with fed.follow(plan), pytest.raises(PlanMismatchError, match=r"\(other sampling"):
            fed.noisy_sum(MODEL_BLOCKS, plan.mechanisms[0], round=0, sampling=sampling, **own)
    assert not fed.ledger.releases


def test_who_writes_a_planner_vouches_for_its_plans():
    fed = ALGORITHMS["fastlloyd"].federation()
    plan = ALGORITHMS["fastlloyd"].plan(fed)
    options = plan.options | {"postprocess": "truncate"}
    truncated = dataclasses.replace(plan, given=tuple(options.items())).vouched()
    assert run(fed, truncated).plan.options["postprocess"] == "truncate"
