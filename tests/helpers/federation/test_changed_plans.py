"""Plans that somebody changed by hand: run as they are stated, or refused with nothing charged."""

import dataclasses
import math
import pickle
import warnings
from functools import partial
from typing import Any

import feddp_cases
import ldp_cases
import numpy as np
import pytest
import rr_cases
from conftest import refuses

from fedclust_helpers import fastlloyd, rr_cluster
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import MODEL_BLOCKS
from fedclust_helpers.federation import PlanMismatchError, simulate
from studies.beyond import pe_means

pytestmark = pytest.mark.slow

ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))


def rows(**options):
    return simulate([ROWS[::2], ROWS[1::2]], "ideal", seed=1, **options)


def users():
    return simulate(ldp_cases.DATA[:300], "local", seed=1)


def drawn(adjacency):
    return rr_cases.federation(trust="trusted", adjacency=adjacency)


def models(planner_of, **options):
    """A plan of models that are trained by cohorts of 20."""
    own = {"delta": 1e-3, "n_rounds": 3, "epsilon": 4.0} | options
    training = rr_cluster.Training(rr_cases.MODEL, cohort=20, clip=1.0, n_steps=2)
    return lambda fed: planner_of(fed, training, **own)


def local(name):
    call = ldp_cases.ALGORITHMS[name].planner
    return users, partial(call, **TWO | FOUR), run_local


def run_local(fed, plan):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lk.run(fed, plan, rng=np.random.default_rng(0))


TWO, FOUR = {"n_clusters": 2}, {"epsilon": 4.0}
AUTO: dict[str, Any] = {"n_clusters": "auto", "epsilon": 4.0, "k_range": (2, 5)}
# a federation, its plan, and the run
PLANS = {
    **{name: (rows, partial(plan, n_clusters=2, n_rounds=3, **{} if name == "lloyd" else FOUR),
              fastlloyd.run) for name, plan in fastlloyd.PLANS.items()},
    **{branch: (rows, partial(fastlloyd.plan_overclustered, branch=branch, **AUTO), fastlloyd.run)
       for branch in ("grid", "moments", "votes")},
    "pe": (lambda: rows(domain="ball"), partial(pe_means.plan_pe, **TWO | FOUR), fastlloyd.run),
    **{name: (feddp_cases.federation, partial(feddp_cases.plan_of, name, n_rounds=2),
              feddp_cases.follow) for name in feddp_cases.VARIANTS},
    "local": local("one_round with sums"),
    "ifca": (lambda: drawn("replace-one"), models(rr_cluster.plan, **TWO), rr_cluster.run),
    "krr": (lambda: drawn("replace-one"), models(rr_cluster.plan, **TWO, identifiers="krr"),
            rr_cluster.run),
    "sums": (lambda: drawn("add/remove"), models(rr_cluster.plan_sums_only, **TWO),
             rr_cluster.run),
    "fedavg": (lambda: drawn("add/remove"), models(rr_cluster.plan_dp_fedavg), rr_cluster.run),
    "fedper": (lambda: drawn("add/remove"), models(rr_cluster.plan_dp_fedper), rr_cluster.run),
}  # fmt: skip


def others(value: Any) -> list[Any]:
    """Values of the same kind, most of them plausible."""
    if isinstance(value, bool | np.bool_):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, -1]
    if isinstance(value, float):
        return [value * 2, value / 2, 1e-9, math.nan]
    if isinstance(value, str):
        return ["lloyd", "glloyd", "halving", "fesem", "exact", "grid", "votes", "one_round", ""]
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


@pytest.mark.parametrize("name", PLANS)
def test_a_changed_plan_is_run_as_stated_or_refused_with_nothing_charged(name):
    make, plan_of, run = PLANS[name]
    fed = make()
    plan = plan_of(fed)
    sent, fields, tried = len(fed.transcript.messages), dataclasses.fields(plan), set()
    for field in fields:
        for other in changed(plan, field.name, getattr(plan, field.name)):
            tried.add(field.name)
            try:
                run(fed, other)
            except (ValueError, TypeError):  # of which PlanMismatchError is one
                assert not fed.ledger.releases and len(fed.transcript.messages) == sent
            else:
                assert fed.ledger.releases == other.lines()
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
        ("krr", lambda p: {"dial": p.dial._replace(answer=1e-6)}),
    ],
)
def test_a_plan_that_would_fail_on_its_way_is_not_begun(name, change):
    make, plan_of, run = PLANS[name]
    fed = make()
    plan = plan_of(fed)
    other = dataclasses.replace(plan, **change(plan))
    refuses(PlanMismatchError, "plan must be as a planner made it", run, fed, other)
    assert not fed.ledger.releases and not fed.transcript.messages


def test_a_release_is_the_next_one_of_the_plan_with_its_sampling_too():
    """Everyone where a cohort was planned would be charged for the cohort alone."""
    make, plan_of, _ = PLANS["sums"]
    fed = make()
    plan = plan_of(fed)
    own = plan.options["training"].broadcast() | {"models": np.zeros((2, 15))}
    own |= {"count_weight": plan.broadcasts("count_weight")[0]}
    for sampling in (None, Sampling("poisson", rate=0.9)):
        with fed.follow(plan), pytest.raises(PlanMismatchError, match=r"\(other sampling"):
            fed.noisy_sum(MODEL_BLOCKS, plan.mechanisms[0], round=0, sampling=sampling, **own)
    assert not fed.ledger.releases


def test_who_writes_a_planner_vouches_for_its_plans():
    fed = rows()
    plan = fastlloyd.plan(fed, n_clusters=2, epsilon=1.0)

    options = plan.options | {"postprocess": "truncate"}
    truncated = dataclasses.replace(plan, given=tuple(options.items())).vouched()
    assert fastlloyd.run(fed, truncated).plan.options["postprocess"] == "truncate"
