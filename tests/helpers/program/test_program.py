"""Algorithms as generators: what a plan, a run and a party of a network make of them."""

import dataclasses
import inspect
import math
import pickle

import numpy as np
import pytest
import rr_cases
from conftest import refuses

from fedclust_helpers import fastlloyd, federation
from fedclust_helpers._validation import Delta, Epsilon
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import (
    ADDITIVE_UPDATES,
    CELL_COUNTS,
    CLIENT_UPDATES,
    RELATIVE_SUMS_AND_COUNTS,
    SUMS_AND_COUNTS,
    TOTAL,
)
from fedclust_helpers.federation import (
    PlanMismatchError,
    PlannedRelease,
    TrustModelError,
    simulate,
)
from fedclust_helpers.program import (
    Algorithm,
    Ask,
    Divide,
    Execution,
    Members,
    Public,
    Release,
    SumsOf,
    as_given,
    gaussian,
    run,
)
from fedclust_helpers.rr_cluster import Training

ROWS = [np.random.default_rng(i).uniform(-1, 1, (200, 2)) for i in range(3)]
CENTERS = np.zeros((3, 2))
BUDGET = {"epsilon": 1.0, "delta": 1e-4}


def room(trust="ideal", **options):
    return simulate(ROWS, trust, seed=1, **options)


def asked(sigma, radius=1.0, **how):
    how = {"centers": CENTERS, "radius": radius} | how
    return Release(RELATIVE_SUMS_AND_COUNTS, [gaussian(sigma), gaussian(sigma)], **how)


# --- wrong algorithms are refused, when planned or before a release that is not the plan's --------


def after_one(then):
    """One good release, then what `then` (sigma, the largest count) yields."""

    def steps(public, sigma):
        _, counts = yield asked(sigma)
        yield from (request for request in then(sigma, counts.max()))

    return steps


def rounds_by_coins(public, sigma):
    for _ in range(int(public.coins.integers(1, 50))):
        yield asked(sigma)


def other(sigma):
    return Release(SUMS_AND_COUNTS, [gaussian(sigma)] * 2, centers=CENTERS)


def one_noise(sigma):
    return Release(RELATIVE_SUMS_AND_COUNTS, [gaussian(sigma)], centers=CENTERS, radius=1.0)


CHANGED = {  # what is asked for second, as planned or not
    "radius": lambda s, other_one: [asked(s, 2.0 if other_one else 1.0)],
    "more": lambda s, other_one: [asked(s)] * (2 if other_one else 1),
    "fewer": lambda s, other_one: [asked(s)] * (0 if other_one else 1),
    "more centers": lambda s, other_one: [
        asked(s, centers=np.zeros((30, 2)) if other_one else CENTERS)],
    "less noise": lambda s, other_one: [asked(s / 2 if other_one else s)],
    "other statistic": lambda s, other_one: [other(s) if other_one else asked(s)],
}  # fmt: skip


def changed(name, above):
    """An algorithm that changes its mind where a released count is larger."""
    return after_one(lambda s, n: CHANGED[name](s, n > above))


WRONG = {name: changed(name, 0) for name in CHANGED} | {
    "radius from answers": after_one(lambda s, n: [asked(s, 1.0 + max(0.0, float(n)))]),
    "own bound": after_one(lambda s, n: [asked(s, bound=1e-6)]),
    "one noise too few": after_one(lambda s, n: [one_noise(s)]),
    "nan in a later round": after_one(lambda s, n: [asked(s, centers=CENTERS * np.nan)]),
    "rounds by coins": rounds_by_coins,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_algorithm_has_no_plan(name):
    fed = room()
    plan = Algorithm(name=name, steps=WRONG[name]).planner()
    refuses((ValueError, TypeError), "", plan, fed, **BUDGET)
    assert not fed.ledger.releases and not fed.transcript.messages


@pytest.mark.parametrize("name", CHANGED)
def test_a_run_and_an_execution_refuse_what_is_not_planned_before_it_is_charged(name):
    """Where no dry run came: its counts are small."""
    fed = room()
    plan = Algorithm(name=f"sly {name}", steps=changed(name, 100)).planner()(fed, **BUDGET)
    text = "ended before its plan" if name == "fewer" else "next one of the plan"
    # an execution has no federation behind it that would compare once more
    answers = [(CENTERS, np.full(3, 1000.0))] * (2 if name == "more" else 1)
    refuses(PlanMismatchError, text, Execution, fed, plan, answers)
    refuses(PlanMismatchError, text, run, fed, plan)
    assert fed.ledger.releases == plan.entries()[: len(answers)]


OTHERS = {
    "round": 7, "name": "other", "parts": ("other",), "mechanisms": (), "part": "other",
    "sampling": Sampling("poisson", rate=0.5), "numbers": 1, "amplified": False, "n_bytes": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_release_is_that_of_the_plan_in_every_field(name):
    assert {*OTHERS} == {f.name for f in dataclasses.fields(PlannedRelease)}
    plan = fastlloyd.plan(room(), n_clusters=2, epsilon=1.0)
    for number, release in enumerate(plan.releases):
        plan.check_release(number, release)
    other = dataclasses.replace(plan.releases[1], **{name: OTHERS[name]})
    refuses(PlanMismatchError, rf"\(other {name}\)", plan.check_release, 1, other)
    for number in (-1, 0, len(plan.releases)):
        refuses(PlanMismatchError, "next one of the plan", plan.check_release, number, other)


def test_a_sloppy_author_gets_the_least_noise_all_the_same():
    def halving(public, sigma):
        for _ in range(3):
            yield Release(TOTAL, [gaussian(sigma)])

    plan = Algorithm(name="halving", steps=halving).planner()
    fed = room()
    made = plan(fed, **BUDGET)
    assert made.dial == pytest.approx(fed.noise_multiplier(**BUDGET) * math.sqrt(3), rel=1e-5)
    assert 1 - 1e-4 < made.total_epsilon <= 1


def test_equal_releases_are_looked_at_once_and_planned_without_rows(monkeypatch):
    def many(public, sigma):
        box = np.ones(2)
        for _ in range(200):
            yield Release(
                CELL_COUNTS, [gaussian(sigma * math.sqrt(200))], lower=-box, upper=box, n_per_axis=4
            )

    fed, looks = room(), []
    check = fed.check_release
    monkeypatch.setattr(
        type(fed), "check_release", lambda self, *a, **b: (looks.append(1), check(*a, **b))[1]
    )
    object.__setattr__(fed, "_data", type("NoRows", (), {"labels": None})())
    plan = Algorithm(name="many", steps=many).planner()(fed, **BUDGET)
    assert len(plan.releases) == 200 and len(looks) == 1  # in two dry runs


def test_a_tuple_of_requests_is_one_round():
    def both(public, sigma):
        first, second = yield asked(sigma * math.sqrt(4)), asked(sigma * math.sqrt(4))
        return type("Two", (), {"gap": float(first[0].sum() - second[0].sum())})()

    fed = room()
    plan = Algorithm(name="both", steps=both).planner()(fed, **BUDGET)
    assert (plan.n_rounds, [r.round for r in plan.releases]) == (1, [0, 0])
    assert run(fed, plan).gap != 0


def test_std_is_that_of_all_shares():
    fed = simulate(ROWS, "masked", seed=1, max_colluding=1)
    result = run(fed, fastlloyd.plan(fed, n_clusters=2, epsilon=1.0))
    mechanism = result.plan.mechanisms[0][0]
    assert result.released[0].std[0] == pytest.approx(mechanism.std * math.sqrt(3 / 2))
    assert pickle.loads(pickle.dumps(result.released[0])).std == result.released[0].std


# --- the planner ------------------------------------------------------------------------------


def test_a_planner_speaks_of_its_arguments():
    fed, given = room(), {"n_clusters": 2, "epsilon": 1.0}
    plan = fastlloyd.plan(fed, **given)
    for error, text, function, arguments, options in (
        (TypeError, r"plan\(\) missing a required .*argument: 'n_clusters'", fastlloyd.plan, (fed,),
         {"epsilon": 1.0}),
        (TypeError, r"plan\(\) got an unexpected keyword argument 'rho'", fastlloyd.plan, (fed,),
         given | {"rho": 1}),
        (ValueError, "strategy must be one of step, constant", fastlloyd.plan, (fed,),
         given | {"strategy": "fast"}),
        (TypeError, "federation must be a Federation", fastlloyd.plan, (None,), given),
        (TypeError, "plan must be a Plan", run, (fed, None), {}),
        (TypeError, "rng must be a", run, (fed, plan), {"rng": 7}),
    ):  # fmt: skip
        refuses(error, text, function, *arguments, **options)
    assert not fed.ledger.releases
    assert inspect.unwrap(fastlloyd.plan) is fastlloyd.FASTLLOYD.steps  # what `plan??` shows


def test_options_that_only_the_search_takes_belong_to_the_planner_alone():
    def steps(public, sigma, *, n_clusters: int):
        yield asked(sigma)

    def search(
        cost, public, epsilon, delta, *, times: float = 1.0, sigma: float | None = None, **_
    ):
        return public.noise_multiplier(epsilon, delta) * times if sigma is None else sigma

    budget = {"epsilon": Epsilon | None, "delta": Delta}
    plan = Algorithm(name="searched", steps=steps, search=search, budget=budget).planner()
    how = {"n_clusters": 3, "delta": 1e-4}
    once, twice = (plan(room(), epsilon=1.0, times=times, **how) for times in (1.0, 2.0))
    assert twice.dial == 2 * once.dial and once.options == {"n_clusters": 3}
    given = plan(room(), sigma=once.dial, **how)
    assert given.releases == once.releases and given.epsilon == once.total_epsilon


def test_options_belong_to_the_plan():
    start = np.zeros((2, 2))
    fed = room()
    plan = fastlloyd.plan(fed, n_clusters=2, epsilon=1.0, initial=start)
    start += 9
    plan.options["postprocess"] = "none"  # a copy
    assert plan.options["initial"].max() == 0 and not plan.options["initial"].flags.writeable
    assert plan.options["postprocess"] == "fold" and plan.broadcasts("radius")[0] > 1.4
    again = pickle.loads(pickle.dumps(plan))
    assert again.algorithm is plan.algorithm and again == plan
    assert run(fed, again).history.shape == (plan.n_rounds + 1, 2, 2)


# --- a party of a network -------------------------------------------------------------------------


def test_an_execution_comes_back_from_its_answers_at_every_step():
    def planned(fed):
        return fastlloyd.plan_overclustered(fed, n_clusters=3, epsilon=1.0)

    fed = room()
    result = run(fed, planned(fed))
    answers = [answer for _, answer in result.record]
    for n in range(len(answers) + 1):
        fed = room()
        execution = Execution(fed, planned(fed), answers[:n])
        assert [execution.line] == [*result.plan.releases, None][
            n : n + 1
        ] and not fed.ledger.releases
        for answer in answers[n:]:
            execution.advance(answer)
        assert execution.request is None
        np.testing.assert_array_equal(execution.result(result.ledger).centers, result.centers)


# --- two halves of a release ----------------------------------------------------------------------

TRAINING = Training(rr_cases.MODEL, cohort=60, clip=1.0)
MODELS = np.zeros((2, rr_cases.MODEL.n_parameters))


def grouped(groups, *, common=False, order=("members", "sums")):
    """Identifiers, then sums by `groups` of them, `order` says when."""

    def steps(public: Public, sigma):
        statistic, how, more = CLIENT_UPDATES, TRAINING.broadcast() | {"models": MODELS}, {}
        if common:
            statistic, more = ADDITIVE_UPDATES, {"n_vectors": 2, "n_groups": 3}
            how |= {"common": MODELS[0]}
        noise = [gaussian(2 * sigma), gaussian(2 * sigma / math.sqrt(3))]
        chosen, sums = None, None
        for what in order:
            if what == "members":
                chosen = yield Members(statistic, noise, **more, **how)
            else:
                (sums,) = yield SumsOf(groups(chosen))
        return sums

    return Algorithm(name="grouped", steps=steps).planner()


def both_vectors(chosen):
    """Own vector by identifier, common one in a group of everybody."""
    return np.stack([np.full(len(chosen), 2), chosen], axis=1)


def test_sums_by_groups_are_one_line_and_one_sample():
    fed = rr_cases.federation()
    plan = grouped(lambda chosen: chosen)(fed, epsilon=50.0, delta=1e-3)
    assert len(plan.releases) == 1 and plan.n_rounds == 1
    result = run(fed, plan)
    assert len(fed.ledger.releases) == 1 and result.value.shape == MODELS.shape
    ids = result.record[0][1]
    assert ids.shape == (60,) and set(ids) <= {0, 1}
    discrete = grouped(lambda chosen: chosen)(
        rr_cases.federation(noise="discrete"), epsilon=50.0, delta=1e-3
    )
    assert [m.n_coordinates for m in discrete.mechanisms[0]] == [2 * 60, MODELS.size]


def test_a_client_may_send_several_vectors_each_to_a_group_of_its_own():
    fed = rr_cases.federation()
    plan = grouped(both_vectors, common=True)(fed, epsilon=1e6, delta=1e-3)
    d = MODELS.shape[1]
    assert plan.releases[0].numbers == 2 + 2 * d
    sums = run(fed, plan).value
    exact = rr_cases.federation()
    _, updates = exact.collect(
        ADDITIVE_UPDATES, plan.mechanisms[0], round=0, models=MODELS, common=MODELS[0],
        **TRAINING.broadcast(),
    )  # fmt: skip
    np.testing.assert_allclose(sums[2], updates[:, :d].sum(axis=0), atol=0.05)
    assert (sums[2] != updates[:, :d].sum(axis=0)).all(), "noised"
    np.testing.assert_allclose(sums[:2].sum(axis=0), updates[:, d:].sum(axis=0), atol=0.05)


def nobody_in_particular(chosen):
    return np.zeros(60, dtype=int)


REFUSED = {
    "groups must be one of 2": [
        {"groups": lambda chosen: chosen + 2},
        {"groups": lambda chosen: chosen[1:]},
        {"groups": lambda chosen: chosen * 0.5},
    ],
    # their sum would move by more than the two of them do together
    "groups of the vectors of one client": [
        {"groups": lambda chosen: np.stack([chosen, chosen], axis=1), "common": True},
    ],
    "sums by groups come once": [
        {"groups": nobody_in_particular, "order": ("sums",)},
        {"groups": nobody_in_particular, "order": ("members", "sums", "sums")},
    ],
    "offers no members": [{"groups": lambda chosen: chosen, "trust": "ideal"}],
}


@pytest.mark.parametrize("text", REFUSED)
def test_exact_messages_are_summed_once_in_groups_of_their_own_by_a_trusted_server(text):
    for how in REFUSED[text]:
        how = dict(how)
        fed = rr_cases.federation(trust=how.pop("trust", "trusted"))
        error = TrustModelError if "offers" in text else PlanMismatchError
        refuses(error, text, grouped(**how), fed, epsilon=5.0, delta=1e-3)


# --- users who answer for themselves --------------------------------------------------------------


class Coin:
    """One bit of each user, by randomised response."""

    name, parts, public = "coin", ("bit",), {}

    def __init__(self, mechanism):
        self.mechanisms, self.total, self.n_users = (mechanism,), 0.0, 0

    def check(self, n_features):
        """Any number of columns will do."""

    def respond(self, points, users, *, rng):
        """The sign of the first column, noised."""
        value = np.sign(points[:, :1])
        return (value + self.mechanisms[0].sample(value.shape, rng=rng),)

    def collect(self, users, reports):
        """Add up."""
        self.total, self.n_users = self.total + reports[0].sum(), self.n_users + len(users)


def questions(public, epsilon, *, divided=True, again=False, part="right"):
    fed_noise = federation.reports.gaussian_report(1.0, epsilon, 1e-6)
    queries = [Coin(fed_noise), Coin(fed_noise)]
    if divided:
        yield Divide({"left": 0.4, "right": 0.6})
    if again:
        yield Divide({"left": 0.5, "right": 0.5})
    yield Ask(queries[0], "left"), Ask(queries[1], part)
    return type("Asked", (), {"n": [q.n_users for q in queries]})()


def test_parts_of_the_users_answer_in_parallel_and_are_divided_once():
    fed = simulate(ROWS[0] / 2, "local", seed=1)
    plan = Algorithm(name="questions", steps=questions, search=as_given, capability="ask").planner()
    how = {"epsilon": 1.0, "delta": 1e-6}
    for wrong, text in (
        ({"divided": False}, "divide the users first"),
        ({"again": True}, "divided once"),
        ({"part": "middle"}, "part 'middle' is unknown"),
    ):
        refuses(PlanMismatchError, text, plan, fed, **how, **wrong)
    assert not fed.ledger.releases
    made = plan(fed, **how)
    assert made.parts == (("left", 0.4), ("right", 0.6)) and made.n_rounds == 1
    assert made.total_epsilon == pytest.approx(1.0)
    result = run(fed, made)
    assert sum(result.n) == 200 and min(result.n) > 0
    assert result.epsilon == pytest.approx(1.0)
