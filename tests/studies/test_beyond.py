"""PE-means over a secure sum: it spends what it states, and its pieces do what they say."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import seeded as rng

from fedclust_helpers import fastlloyd
from fedclust_helpers.federation import simulate
from fedclust_helpers.metrics import nicv
from fedclust_helpers.program import Algorithm, Execution, gaussian
from studies.bench.cell import Cell
from studies.bench.results import load_results
from studies.beyond import cells, figures, pe_means, reading, tables

pytestmark = pytest.mark.slow

few_and_many = pytest.mark.parametrize("d", [3, 40])


def cloud(d, n=200):
    return np.clip(rng(1).normal(0.4 * np.sign(rng(2).normal(size=(2, d)))[np.arange(n) % 2], 0.1),
                   -1, 1)  # fmt: skip


def run(points, *, epsilon=1.0, k=2, trust="ideal", mode="teaching", seed=3, **options):
    seed = seed if mode == "teaching" else None
    fed = simulate([points[::2], points[1::2]], trust, seed=seed, mode=mode, domain="ball",
                    bound=math.sqrt(points.shape[1]), **options)  # fmt: skip
    plan = pe_means.plan_pe(fed, n_clusters=k, epsilon=epsilon)
    return fed, plan, fastlloyd.run(fed, plan)


class Replayed:
    """A federation that hands out earlier releases, and keeps the exact values behind them."""

    def __init__(self, federation, released, points):
        self._federation, self._released, self._points = federation, released, points
        self.exact = []

    def __getattr__(self, name):
        return getattr(self._federation, name)

    def noisy_sum(self, statistic, mechanisms, *, round, sampling, **sent):
        values = statistic.compute(self._points, np.array([0, len(self._points)]), **sent)
        self.exact += [np.ravel(v) / m.std for v, m in zip(values, mechanisms, strict=True)]
        return self._released[round]


def room_of(points, **options):
    bound = math.sqrt(points.shape[1])
    return simulate([points], "ideal", seed=1, domain="ball", bound=bound, **options)


def replayed_cost(plan, points, row):
    """Exact cost of a whole transcript of PE-means, replayed with one record more, over mu^2."""
    released, exact = fastlloyd.run(room_of(points), plan).released, []
    for data in (points, np.vstack([points, row])):
        forced = Replayed(room_of(data, n_records=len(points)), released, data)
        Execution(forced, plan).to_the_end()
        exact.append(np.concatenate(forced.exact))
    mu = 1 / room_of(points).noise_multiplier(plan.dial.epsilon, plan.delta)
    return float(((exact[1] - exact[0]) ** 2).sum()) / mu**2


@few_and_many
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_a_run_spends_what_it_states(d, epsilon):
    points = cloud(d)
    fed, plan, result = run(points, epsilon=epsilon)
    assert result.epsilon == pytest.approx(epsilon, rel=1e-6)
    spent = sum((m.sensitivity / m.std) ** 2 for r in plan.releases for m in r.mechanisms)
    assert math.sqrt(spent) == pytest.approx(1 / fed.noise_multiplier(epsilon, plan.delta))
    generations = 14 if d == 40 else int(4 * math.sqrt(d)) * max(1, int(epsilon))
    assert plan.n_rounds == len(plan.releases) == generations + (d == 40)
    assert len(result.released) == len(result.ledger.releases) == plan.n_rounds
    assert result.centers.shape == (2, d)
    assert np.linalg.norm(result.centers, axis=1).max() <= math.sqrt(d) * (1 + 1e-9)


def test_with_much_budget_it_finds_the_groups():
    points = cloud(3, 3000)
    best = nicv(points, np.vstack([points[::2].mean(axis=0), points[1::2].mean(axis=0)]))
    assert nicv(points, run(points, epsilon=8.0)[2].centers) < 1.2 * best


@few_and_many
def test_replayed_transcripts_cost_mu_and_less_noise_is_seen(d):
    """The control: one of the releases with the noise of 14 steps where 16 shares are spent."""
    points = cloud(d)
    fed = room_of(points)
    plan = pe_means.plan_pe(fed, n_clusters=2, epsilon=1.0)
    rows = np.ones(d), -np.ones(d), points[0]
    assert max(replayed_cost(plan, points, row) for row in rows) == pytest.approx(1, abs=1e-9)

    def wrong(public, level, *, n_clusters):
        steps, reply = pe_means.pe_means(public, level, n_clusters=n_clusters), None
        for t in range(plan.n_rounds):
            asked = steps.send(reply)
            if t == plan.n_rounds - 1:
                asked.noise = tuple(gaussian(z.amount * math.sqrt(14 / 16)) for z in asked.noise)
            reply = yield asked

    loud = Algorithm(name="with less noise", steps=wrong)
    over = loud.planned(fed, {"n_clusters": 2}, dial=plan.dial, delta=plan.delta)
    assert max(replayed_cost(over, points, row) for row in rows) > 1.005


def test_votes_are_kept_until_they_add_up():
    votes = np.array([5.0, -3.0, 9.0, 1.0, 4.0])
    assert pe_means.kept(votes, 12.0).tolist() == [5, 0, 9, 0, 0]
    assert pe_means.kept(votes, 1000.0).tolist() == [5, 0, 9, 1, 4]


def test_places_fill_the_cube_and_offspring_stay_in_the_ball():
    places = pe_means.even_places(500, 3, 0.5, rng=rng())
    assert places.shape == (500, 3) and np.abs(places).max() <= 0.5
    assert (np.histogramdd(places, bins=[4] * 3, range=[(-0.5, 0.5)] * 3)[0] > 0).all()
    young = pe_means.offspring(places[:20], 30, 0.6, rng=rng())
    np.testing.assert_array_equal(young[:20], places[:20])
    assert young.shape == (620, 3) and np.linalg.norm(young[20:], axis=1).max() <= 0.6 + 1e-12


def test_ratios_above_the_goal_are_named():
    frame = pd.DataFrame({
        "dataset": ["a", "a", "b", "b"], "epsilon": 0.5, "d": 8, "k": [20, 20, 3, 3],
        "method": ["overclustered", "pe"] * 2, "nicv_mean": [1.0, 2.0, 3.0, 2.0],
        "sets": "fresh",
    })  # fmt: skip
    found = reading.against(frame, "pe")
    assert (found["above"], found["n"], found["most"]) == (1, 2, 1.5)
    assert found["where"] == " (b at 0.5: 1.50)"


def test_the_formula_for_known_groups_is_graded_where_it_or_the_run_reaches_half_a_percent():
    """Found over foreseen is 1.5 at epsilon .5, and too small to count at 1."""
    names = ["sets", "dataset", "method", "epsilon", "nicv_mean", "known"]
    rows = [
        ("fresh", "a", "optimum", math.inf, 1.0, 0.02),
        ("fresh", "a", "oracle", 0.5, 1.03, 0.02),
        ("fresh", "a", "oracle", 1.0, 1.004, 0.001),
    ]
    runs = pd.DataFrame([("fresh", "a", "overclustered", 0.5, 1.1, 0.02, 40.0, 1.1)],
                        columns=[*names, "s", "run_0"])  # fmt: skip
    frame = pd.concat([pd.DataFrame(rows, columns=names), runs])
    found = tables._graded(frame, None)["better_foreseen"]
    assert found[["epsilon", "within_two"]].to_numpy().tolist() == [[0.5, 1]]
    assert found["found_over_foreseen"].tolist() == pytest.approx([1.5])
    graded = reading.known(found)
    assert (graded["two"], graded["n"], graded["sets"]) == (1, 1, "1 of 1 fresh")


def test_what_is_told_is_measured_on_the_other_sets():
    """Of ten like sets nine of ten runs of nine lie below; a set of its own is above the others."""
    draw = rng(3)
    excess = draw.uniform(0, 1, (20, 10))
    excess[-1] += 5
    names = np.array([f"set{i // 2}" for i in range(19)] + ["odd"])
    by_s, told = tables.added_by_s(
        np.full(20, 60.0), excess, names, np.where(names == "odd", "b", "a")
    )
    row = by_s.set_index("s_from").loc[50]
    assert row["settings"] == 20 and by_s["settings"].sum() == 20
    assert row["typical"] == pytest.approx(np.median(np.median(excess, axis=1)))
    below = np.quantile(np.quantile(excess, 0.9, axis=1), 0.9)
    assert row["most"] == pytest.approx(below)
    held = told.set_index("sets")
    assert held.loc["b", "runs_below"] == 0 and held.loc["b", "settings_below"] == 0
    assert held.loc["a", "runs_below"] > 0.85 and held.loc["a", "settings"] == 19
    graded = reading.told(told)
    assert graded["n"] == 20 and graded["runs"] == pytest.approx(held["runs_below"]["a"] * 0.95)


def test_a_plan_tells_what_the_table_says():
    table = load_results("better_excess").set_index("s_from")
    assert table.index.tolist() == list(fastlloyd.EXCESS) == list(tables.S_FROM)
    for first, told in fastlloyd.EXCESS.items():
        assert told.settings == table.loc[first, "settings"]
        assert told[:2] == tuple(float(f"{table.loc[first, of]:.2g}") for of in ("typical", "most"))


def test_the_oracle_knows_the_groups_and_loses_what_is_foreseen():
    """Two round groups of one size: d/(lambda s^2) within a fifth, and not private in any way."""
    cell = Cell("oracle", {}, 20)
    set_ = "round_3000_8_2"
    best = cells.nicv(cell, dataset=set_, method="optimum", epsilon=math.inf)["nicv_mean"]
    found = cells.nicv(cell, dataset=set_, method="oracle", epsilon=0.1)
    assert found["nicv_mean"] / best - 1 == pytest.approx(found["known"], rel=0.2)
    assert found["aggregates"] == 1


def test_cost_of_bounds_is_over_the_methods_own_cost_on_common_sets():
    rows = [
        (name, 0.5, width, method, base * cost)
        for name, methods in (("a", tuple(figures.METHODS)), ("b", ("fastlloyd",)))
        for base, method in enumerate(methods, start=1)
        for width, cost in ((1.0, 2.0), (10.0, 8.0 if method == "fastlloyd" else 4.0))
    ]
    table = pd.DataFrame(rows, columns=["dataset", "epsilon", "width", "method", "nicv_mean"])
    table.loc[table["dataset"] == "b", "nicv_mean"] *= [1, 99]
    found = {name: costs[10.0] for name, costs in figures.cost_of_bounds(table).items()}
    assert found == pytest.approx({"fastlloyd": 4, "pe": 2, "overclustered": 2})
    fig, ax = plt.subplots()
    figures.plot_bounds(ax, table)
    drawn = {line.get_label(): line.get_ydata()[-1] for line in ax.get_lines()}
    assert drawn == pytest.approx({"FastLloyd": 4, "PE-means": 2, "over-clustered Lloyd": 2})
    plt.close(fig)
