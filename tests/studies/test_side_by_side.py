"""Side by side: equal promises, one answer under all trust models, crossings of curves."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from conftest import refuses

from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.federation import TRUST_MODELS
from studies.side_by_side import cells, lesson, reading
from studies.side_by_side.cells import DELTA, PAIRS, Task, asked, one_run

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
MEANS = np.array([[-0.4, -0.3], [0.4, -0.2], [0.0, 0.5]])
POINTS = MEANS[np.repeat(np.arange(3), 400)] + 0.04 * RNG.standard_normal((1200, 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_one_replaced_record_costs_the_same(epsilon: float) -> None:
    budget, delta = asked("fastlloyd", epsilon)
    assert gdp_epsilon(2 * gdp_mu(budget, delta), DELTA) == pytest.approx(epsilon)
    assert budget > 0 and asked("overclustered", epsilon) == (budget, delta)
    assert asked("sulloyd", epsilon)[0] == epsilon / 2 and asked("sketch", epsilon)[0] == epsilon
    half, small = asked("feddp", epsilon)
    assert 2 * half == epsilon and small * (1 + math.exp(half)) == pytest.approx(DELTA)
    refuses(ValueError, "epsilon", asked, "fastlloyd", 0.0)
    refuses(ValueError, "delta", asked, "fastlloyd", 1.0, 2.0)


def test_every_trust_model_takes_part_and_no_other() -> None:
    trusts = {trust for trust, _ in PAIRS}
    assert {"trusted", "ideal", "masked", "serverless", "local", "none"} <= trusts
    assert trusts <= {*TRUST_MODELS, "none"}
    refuses(ValueError, "trust must be one of", one_run, "blind", "fastlloyd", POINTS, 3,
            epsilon=1.0, seed=0)  # fmt: skip


@pytest.mark.parametrize(("trust", "method"), PAIRS)
def test_every_pair_runs_at_the_budget_that_was_asked(trust: str, method: str) -> None:
    made = one_run(trust, method, POINTS, 3, epsilon=2.0, seed=3, bound=0.8)
    assert made.centers.shape == (3, 2) and np.isfinite(made.centers).all()
    again = one_run(trust, method, POINTS, 3, epsilon=2.0, seed=3, bound=0.8)
    assert np.array_equal(made.centers, again.centers)
    sent = cells.sent_by_one(made, trust, len(POINTS))
    if trust == "none":
        assert made.plan is None and cells.n_rounds(made) == 0
        return
    assert made.plan.epsilon == pytest.approx(asked(method, 2.0)[0])
    assert made.plan.total_epsilon <= made.plan.epsilon * (1 + 1e-9)
    assert math.isnan(sent) if trust == "ideal" else sent >= 1
    assert cells.n_rounds(made) >= 1


def test_real_sets_lie_in_the_ball_and_in_their_box() -> None:
    points, bound = cells.points_of(Task("iris", 150, 4, 3))
    assert bound == 0.5 and np.abs(points).max() <= bound + 1e-12
    assert np.linalg.norm(points, axis=1).max() <= 1


def test_crossings_of_curves() -> None:
    n = np.array([1e3, 1e4, 1e5])
    line = pd.Series(1 + 100 / n, index=n)  # an excess of 100/n: 5 % at n = 2000
    assert reading.falls_below(line, 1.05) == pytest.approx(2000)
    assert reading.falls_below(line, 1.2) == 1000
    assert math.isnan(reading.falls_below(line, 1.0005))
    bumpy = pd.Series([1.01, 1.2, 1.01], index=n)
    assert 1e4 < reading.falls_below(bumpy, 1.05) < 1e5
    up = pd.Series([1.01, 1.02, 1.2], index=n)
    assert reading.said_from(math.nan, up) == "at none"
    assert reading.said_from(1e3, up) == "≤ 1,000" and reading.said_from(1200, up) == "1,200"
    assert [reading.rounded(x) for x in (12_345.0, 0.254, math.nan)] == [
        "12,000", "0.25", "at none"
    ]  # fmt: skip


def test_ratios_are_of_small_sets_and_large_ones_have_a_table() -> None:
    made = (("optimum", 0.5, math.inf), ("sulloyd", 1.0, 1.0), ("fastlloyd", 2.0, 1.0))
    sets, names = (("tuned", "iris"), ("large", "mix")), "sets dataset n d k bad method nicv_median"
    rows = [(*each, 9, 2, 3, 0.25, *run) for run in made for each in sets]
    table = pd.DataFrame(rows, columns=[*names.split(), "epsilon"])
    assert reading.ratio(table, "sulloyd", "fastlloyd").to_dict() == {("tuned", "iris", 1.0): 0.5}
    assert reading.over_best(table).loc["iris"].to_dict() == {"sulloyd": 2, "fastlloyd": 4}
    assert lesson.large(table).to_numpy().tolist() == [["9, 2, 3", "4.00 (25%)", "2.00 (25%)"]]
    assert reading.geometric_mean([0.5, 2.0]) == pytest.approx(1)
    assert math.isnan(reading.geometric_mean([]))


def test_exchanged_shares_by_formula() -> None:
    """With the shares in their places a round adds up to epsilon: d sums and one count."""
    for d in (2, 8, 64):
        share = (4 * d * 0.225**2) ** (1 / 3)
        assert (d * 1 + share) / (d + share) == pytest.approx(1)
        assert reading.spent_by_formula(d) == pytest.approx((d * share + 1) / (d + share))


def test_the_decision_table_takes_the_nearest_setting_and_counts_its_runs() -> None:
    rows = [
        {"n": n, "d": d, "k": 5, "trust": trust, "method": method, "bytes": 10.0,
         "over_optimum": 1 + i * (method == "fastlloyd")}
        for n, d in ((1000, 2), (100_000, 8)) for trust, method in lesson.TAKE
        for i in range(4 if n == 1000 else 2)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    assert lesson.nearest(table, 2500, 3, 4) == (1000, 2, 5)
    assert lesson.nearest(table, 50_000, 10, 10) == (100_000, 8, 5)
    real = pd.DataFrame([
        {"data": data, "n": 9, "d": 2, "k": 3, "trust": trust, "method": method, "epsilon": epsilon,
         "median": 1.25 * epsilon, "bad": 0.1}
        for data in ("mixture", "s1") for epsilon in (1.0, 4.0) for trust, method in lesson.TAKE
    ])  # fmt: skip
    found = lesson.decision(table, real, (1500, 2, 5), (90_000, 8, 5)).set_index("take")
    fast = found.loc["masked, FastLloyd (01)"]
    assert fast["made: 1,000, 2, 5"] == "2.50 (75%)" and fast["s1: 9, 2, 3"] == "1.25 (10%)"
    assert found.loc["masked, over-clustered (section 3)", "made: 100,000, 8, 5"] == "1.00 (0%)"
    assert len(found.columns) == 5
    assert lesson.failures(table)["masked, FastLloyd"].tolist() == ["75%", "50%"]


def test_the_rows_of_a_lesson_fill_the_ball_and_no_more() -> None:
    rows = lesson.data("photograph", 500, 5, rng=np.random.default_rng(1))
    points, bound = lesson.in_ball(rows)
    assert bound == 1 / math.sqrt(3) and np.linalg.norm(points, axis=1).max() <= 1
    assert lesson.in_ball(lesson.data("mixture", rng=np.random.default_rng(1)))[1] == 1.0
