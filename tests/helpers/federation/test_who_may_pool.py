"""Who may pool what they know: what statements say, and what is left against one more."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers import fastlloyd, ldp_kmeans
from fedclust_helpers.accounting import Budget, PrivacyLedger, gdp_epsilon, gdp_mu
from fedclust_helpers.accounting.entries import Entry, costliest
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import ClientsMissingError, simulate
from fedclust_helpers.federation.trust import trust_model
from fedclust_helpers.mechanisms import DistributedDiscreteGaussian, Gaussian
from fedclust_helpers.program import Release, gaussian

DELTA = 1e-6
SHARED = [
    ("masked", {}),
    ("masked", {"receiver": "server"}),
    ("serverless", {}),
]
OTHERS = [
    ("trusted", {}), ("ideal", {}), ("masked", {"noise_from": "server"}), ("local", {}),
    ("shuffled", {}),
]  # fmt: skip


def rows(n=5):
    return [np.random.default_rng(i).uniform(-1, 1, (40, 2)) for i in range(n)]


def plan_of(trust, n=5, epsilon=1.0, **options):
    if trust in ("local", "shuffled"):
        users = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
        made, planner = simulate(users, trust, seed=1, **options), ldp_kmeans.plan_sketch
    else:
        made, planner = simulate(rows(n), trust, seed=1, **options), fastlloyd.plan
    return planner(made, n_clusters=2, epsilon=epsilon, delta=DELTA)


@pytest.mark.parametrize(("trust", "options"), SHARED)
@pytest.mark.parametrize("colluding", [0, 1, 3])
def test_what_is_left_against_one_more_is_the_noise_of_one_share_less(trust, options, colluding):
    """In closed form: m shares are counted on, m - 1 are left, and mu grows by sqrt(m/(m - 1))."""
    plan = plan_of(trust, max_colluding=colluding, **options)
    left = 5 - colluding - 1
    more = gdp_epsilon(gdp_mu(1.0, DELTA) * math.sqrt((left + 1) / left), DELTA)
    assert plan.epsilon_against_more == pytest.approx(more, rel=1e-4)
    said = dict(plan.statement())["holds"]
    assert f"epsilon = {plan.epsilon_against_more:.5g} is left" in said
    if not colluding:
        assert said.startswith("against nobody who takes part")
        return
    assert said.startswith(f"while at most {colluding} of the 5 clients pool what they know")
    # under masks the group secret opens single messages, and one share of noise is in each
    alone = gdp_epsilon(gdp_mu(1.0, DELTA) * math.sqrt(left + 1), DELTA)
    assert (f"server with one of them epsilon = {plan.epsilon_of(1):.5g}" in said) == (
        trust == "masked"
    )
    assert plan.epsilon_of(1) == pytest.approx(alone, rel=1e-4)


def test_two_clients_who_count_on_both_shares_are_worse_off_alone():
    """The figure of the review: an epsilon of 1 is 1.455 for who takes its own share away."""
    said = dict(plan_of("serverless", n=2, max_colluding=0).statement())["holds"]
    assert float(said.split()[-3]) == pytest.approx(1.455, abs=5e-4)
    assert "however many" in dict(plan_of("serverless", n=2).statement())["holds"]


def test_fewer_shares_where_clients_may_be_missing():
    plan = plan_of("serverless", may_miss=2)  # 2 of 5 are counted on
    more = gdp_epsilon(gdp_mu(1.0, DELTA) * math.sqrt(2), DELTA)
    assert plan.epsilon_against_more == pytest.approx(more, rel=1e-4)


@pytest.mark.parametrize(("trust", "options"), OTHERS)
def test_every_statement_says_who_may_pool_and_what_epsilon_means(trust, options):
    said = dict(plan_of(trust, **options).statement())
    assert "right at most 73.2 % of the time about one row" in said["means"]  # 1/(1 + 1/e)
    if trust == "shuffled":
        assert said["holds"].startswith("against nobody who takes part")
        assert float(said["holds"].split()[-3]) > 1.0
    else:
        assert said["holds"] == trust_model(trust, **options).pooling != ""
    assert len(said["holds"]) > 40


def test_a_user_who_tells_is_one_user_less_who_hides():
    plans = [plan_of("shuffled", max_colluding=n) for n in (499, 500)]
    crowd = plans[0].releases[0].mechanisms[0]
    less = plans[0].epsilon_against_more
    assert less == crowd.hidden_by(500).epsilon(DELTA) > crowd.epsilon(DELTA)
    assert "while at most 499 of the 1000 users" in dict(plans[0].statement())["holds"]


@pytest.mark.parametrize(("epsilon", "right"), [(0.1, "52.5"), (1.0, "73.2"), (100.0, "100")])
def test_epsilon_in_odds(epsilon, right):
    """The ceiling of lesson 00, 1/(1 + exp(-epsilon)), rounded up."""
    plan = plan_of("ideal", epsilon=epsilon)
    assert f"at most {right} % of the time" in dict(plan.statement())["means"]


def test_exact_values_hold_against_nobody():
    plan = fastlloyd.plan_lloyd(simulate(rows(), "ideal", seed=1), n_clusters=2)
    assert not {"means", "holds"} & {heading for heading, _ in plan.statement()}


def test_a_share_of_noise_is_the_same_whoever_is_left():
    """`hidden_by` changes who is counted on, never what a node draws."""
    share = DistributedDiscreteGaussian(2.0, 12.0, 0.25, n_honest=9, n_coordinates=3)
    less = share.hidden_by(4)
    assert (less.scale, less.n_honest) == (8.0, 4)
    assert less.scale / math.sqrt(4) == share.scale / math.sqrt(9)


# --- delta ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "warned"),
    [(0.9e-3 / 2, True), (1.1e-4 / 2, True), (0.9e-4 / 2, False), (None, False)],
)
def test_a_delta_above_a_tenth_of_one_over_the_rows_is_warned_of(delta, warned):
    """2000 rows; 1/(N ln N), the default, is what the paper takes."""
    f = simulate(rows(), "ideal", seed=1, n_records=2000)
    plan = fastlloyd.plan(f, n_clusters=2, epsilon=1.0, delta=delta)
    assert ("WARNING" in dict(plan.statement())) == warned
    plan.facts.check_delta(plan.delta)
    for wrong in (1 / 2000, 0.5):
        refuses(
            ValueError, "delta must be far below one over the 2,000", f.facts.check_delta, wrong
        )


def test_delta_is_compared_with_the_clients_where_these_are_protected():
    f = simulate(rows(), "ideal", seed=1, ledger=PrivacyLedger("client"))
    refuses(ValueError, "one over the 5 that", f.facts.check_delta, 0.2)
    f.facts.check_delta(0.19)


# --- repeats --------------------------------------------------------------------------------------

GRIDS = [(32, 2), (32, 6), (32, 10), (64, 30)]


@pytest.mark.parametrize(("bits", "fractional_bits"), GRIDS)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("filter", ["basic", "rdp"])
def test_no_choice_of_repeats_costs_more_than_the_plan_says(bits, fractional_bits, repeats, filter):
    """Lines of one rho have other gaps to a Gaussian on a coarse grid; and a budget holds them."""
    g = np.random.default_rng(0)
    f = simulate(
        [g.uniform(-1, 1, (750, 8)) for _ in range(4)], "masked", seed=1,
        may_miss=1, repeats=repeats, noise="discrete", bits=bits, fractional_bits=fractional_bits,
    )  # fmt: skip
    plan = fastlloyd.plan(f, n_clusters=4, epsilon=1.0, delta=DELTA)
    lines = plan.entries()
    totals = [
        PrivacyLedger(releases=(*lines, *again)).epsilon(DELTA)
        for again in combinations_with_replacement(lines, repeats)
    ]
    assert max(totals) == plan.total_epsilon <= 1.0 * (1 + 1e-9)
    for again in (0, len(lines) - 1):
        ledger = PrivacyLedger(budget=Budget(2.0, 1e-5, filter))
        held = ledger.admit(lines, name="plan", repeats=plan.repeats())
        before = ledger.remaining
        for number, line in enumerate(lines):
            for _ in range(1 + repeats * (number == again)):
                ledger.charge(
                    line.mechanisms, name=line.name, round=line.round, reservation=held,
                    number=number,
                )  # fmt: skip
        assert ledger.remaining >= before - 1e-9


def test_repeats_outside_a_plan_are_so_many_in_all():
    noise = DistributedDiscreteGaussian(1.5, 9.0, 2.0**-30, n_honest=3, n_coordinates=2)
    f = simulate(
        rows(), "masked", seed=1, may_miss=1, repeats=1, n_records=200,
        silent={0: [3], 1: [2]},
    )  # fmt: skip
    f.noisy_sum(TOTAL, [noise], round=0)
    refuses(ClientsMissingError, "none of 1 repeats is left", f.noisy_sum, TOTAL, [noise], round=1)
    assert [line.round for line in f.ledger.releases] == [0, 0, 1]


def test_what_is_on_record_is_what_was_sent():
    """A generator that goes on with its arrays changes no broadcast of before."""
    centers = np.zeros((2, 2))
    request = Release(TOTAL, [gaussian(1.0)], centers=centers)
    centers += 7
    assert (request.broadcast["centers"] == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        request.broadcast["centers"] += 1


def lines_of(*multipliers):
    return [
        Entry(i, "sum", (Gaussian(1.0, m),), "point", "add/remove")
        for i, m in enumerate(multipliers)
    ]


def test_all_choices_of_lines_are_tried_for_repeats():
    lines = lines_of(9.0, 5.0, 7.0, 5.0)
    several = costliest(lines, 2, lambda released: len({r.mechanisms for r in released[4:]}))
    assert several[0].mechanisms != several[1].mechanisms  # no one line twice
    dear = costliest(lines, 2, lambda released: sum(r.rho for r in released))
    assert [r.mechanisms[0].std for r in dear] == [5.0, 5.0]
    assert costliest(lines, 0, len) == costliest([], 2, len) == ()


@pytest.mark.parametrize("filter", ["basic", "rdp", "gdp"])
def test_a_budget_holds_the_repeat_that_costs_most_by_its_own_filter(filter):
    """Whatever line it is told, any line of the plan may be made again."""
    cheap, dear = lines_of(40.0, 10.0)
    left = []
    for told in (cheap, dear):
        ledger = PrivacyLedger(budget=Budget(3.0, 1e-5, filter))
        ledger.admit([cheap, dear], name="plan", repeats=[told])
        left.append(ledger.remaining)
    assert left[0] == left[1]
