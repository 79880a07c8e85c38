"""Over-clustered Lloyd: its statistics, its bill, its branches, and what neighbours can learn."""

import math

import numpy as np
import pytest
from conftest import seeded as rng

from fedclust_helpers import datasets, kmeans
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._index import bincount
from fedclust_helpers.client_statistics import CELL_COUNTS, CUT_STEPS, MOMENTS
from fedclust_helpers.fastlloyd import overclustered as over
from fedclust_helpers.fastlloyd import postprocessing as post
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.metrics import nicv
from fedclust_helpers.program import Execution, Public

BRANCHES = ("grid", "moments")
every_branch = pytest.mark.parametrize("branch", BRANCHES)


def mixture(n=3000, d=3, k=5, seed=0, spread=0.01):
    draw = rng(seed)
    means = draw.uniform(-0.8, 0.8, (k, d))
    return np.clip(datasets.gaussian_mixture(means, spread, [n // k] * k, rng=draw).points, -1, 1)


def run(points, branch, *, k=5, epsilon=1.0, trust="ideal", seed=1, mode="teaching", **options):
    clients = ClientData.from_owners(points, np.arange(len(points)) % 3)
    seed = seed if mode == "teaching" else None
    fed = simulate(clients, trust, seed=seed, mode=mode, **options)
    plan = fl.plan_overclustered(fed, n_clusters=k, epsilon=epsilon, branch=branch)
    return fed, plan, fl.run(fed, plan)


# --- statistics -----------------------------------------------------------------------------------

BOX = {"lower": np.full(2, -0.5), "upper": np.array([0.5, 1.0])}
CENTERS = np.array([[0.2, 0.1], [-0.6, -0.3], [0.5, 0.9]])


def test_cells_hold_the_rows_of_a_histogram():
    points = rng(2).uniform(-0.5, [0.5, 1.0], (500, 2))
    (found,) = CELL_COUNTS.compute(points, np.array([0, 200, 500]), **BOX, n_per_axis=4)
    edges = [np.linspace(-0.5, 0.5, 5), np.linspace(-0.5, 1.0, 5)]
    for part, rows in ((found[0], points[:200]), (found[1], points[200:])):
        np.testing.assert_array_equal(part.reshape(4, 4), np.histogramdd(rows, edges)[0])
    far = np.array([[-1.0, 1.0], [1.0, -1.0]])  # rows outside the box count at its border
    (found,) = CELL_COUNTS.compute(far, np.array([0, 2]), **BOX, n_per_axis=4)
    assert np.flatnonzero(found[0]).tolist() == [3, 12]
    centers = over.cell_centers(*BOX.values(), 4)
    (one,) = CELL_COUNTS.compute(centers[[7]], np.array([0, 1]), **BOX, n_per_axis=4)
    assert one[0, 7] == 1


@pytest.mark.parametrize("corner", [1.0, 0.0])
def test_squares_are_centred_so_that_no_row_moves_them_further_than_declared(corner):
    """At both ends of the range of a square the change is the whole sensitivity."""
    values = MOMENTS.compute(np.full((1, 3), corner), np.array([0, 1]), middle=0.5)
    sums, squares = (
        MOMENTS.sensitivity_of(part, 2, "add/remove", bound=1.0, n_features=3, middle=0.5)
        for part in MOMENTS.parts
    )
    assert np.linalg.norm(values[0]) == pytest.approx(corner * sums)
    assert np.linalg.norm(values[1]) == pytest.approx(squares)


def test_cut_steps_are_steps_over_the_radius():
    points = rng(3).uniform(-1, 1, (400, 2))
    sums, counts = CUT_STEPS.compute(points, np.array([0, 400]), centers=CENTERS, radius=0.2)
    labels = kmeans.assign(points, CENTERS).labels
    steps = (points - CENTERS[labels]) / 0.2
    steps /= np.maximum(1, np.linalg.norm(steps, axis=1, keepdims=True))
    for j in range(3):
        np.testing.assert_allclose(sums[0, j], steps[labels == j].sum(axis=0))
    np.testing.assert_array_equal(counts[0], bincount(labels, minlength=3))


# --- plans ----------------------------------------------------------------------------------------


def rounds_of(plan):
    """What each release of a plan is for."""
    d, branch = plan.n_features, plan.options["branch"]
    branch = ("grid" if d <= 2 else "moments") if branch == "auto" else branch
    return over.rounds_for(branch, plan.facts.n_records, d, plan.n_clusters, 1 / plan.dial)


@pytest.mark.parametrize(
    ("n", "d", "k", "first"),
    [(5000, 1, 2, CELL_COUNTS), (5000, 2, 2, CELL_COUNTS), (400, 4, 4, MOMENTS),
     (100, 3, 5, MOMENTS)],
)  # fmt: skip
def test_public_numbers_choose_the_branch(n, d, k, first):
    fed = simulate([np.zeros((100, d))], "ideal", seed=0, n_records=n)
    plan = fl.plan_overclustered(fed, n_clusters=k, epsilon=1.0)
    names = [release.name for release in plan.releases]
    asked = {name for name in names if name != CUT_STEPS.name}
    assert asked == {first.name}
    # few rows move 2 k centres on a grid, 1.5 k after moments; more rows more centres, 100 at most
    fewest = 2 * k if first is CELL_COUNTS else math.ceil(1.5 * k)
    few = fl.plan_overclustered(fed, n_clusters=k, epsilon=0.01)
    assert few.releases[-2].numbers == fewest * (d + 1)
    fed = simulate([np.zeros((100, d))], "ideal", seed=0, n_records=10**7)
    many = fl.plan_overclustered(fed, n_clusters=k, epsilon=1.0)
    assert {r.numbers for r in many.releases if r.name == CUT_STEPS.name} == {
        100 * (d + 1), k * (d + 1)
    }  # fmt: skip


def test_k_is_looked_for_where_a_cluster_shows_above_the_noise():
    """30 rows for each noise of a count: at 344 rows not 48 clusters, as a plan says."""
    fed = simulate([np.zeros((10, 4))], "ideal", seed=0, n_records=344)
    plan = fl.plan_overclustered(fed, n_clusters="auto", epsilon=1.0, delta=1e-6)
    most = int(344 / plan.dial / 30)
    assert 2 <= most <= 4 and f"2 to {max(3, most)} clusters" in str(plan)
    assert plan.releases[-1].numbers == max(3, most) * 5


@every_branch
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("n", [60, 50_000])
def test_shares_add_up_to_the_whole_budget(branch, epsilon, n):
    fed = simulate([np.zeros((10, 3))], "ideal", seed=0, n_records=n)
    plan = fl.plan_overclustered(fed, n_clusters=4, epsilon=epsilon, branch=branch)
    assert sum(one.share for one in rounds_of(plan)) == pytest.approx(1, abs=1e-12)
    spent = sum((m.sensitivity / m.std) ** 2 for r in plan.releases for m in r.mechanisms)
    assert math.sqrt(spent) == pytest.approx(1 / fed.noise_multiplier(epsilon, plan.delta))
    assert plan.total_epsilon == pytest.approx(epsilon, rel=1e-6)
    assert not fed.ledger.releases


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_hardly_any_noise_does_not_ask_for_a_grid_that_fills_the_memory(n_features):
    points = mixture(d=n_features)[:300]
    fed = simulate(np.array_split(points, 300), "masked", noise_from="server", seed=0)
    plan = fl.plan_overclustered(fed, n_clusters=3, epsilon=1e12, branch="grid")
    cells = max(r.size**n_features for r in rounds_of(plan) if r.statistic is CELL_COUNTS)
    assert 300 < cells <= 70 * 300  # 64, rounded to whole cells on an axis
    assert len(fl.run(fed, plan).centers) == 3


# --- runs -----------------------------------------------------------------------------------------


@every_branch
def test_a_run_follows_its_plan_and_spends_it(branch):
    points = mixture()
    fed, plan, result = run(points, branch)
    assert result.centers.shape == (5, 3) and np.abs(result.centers).max() <= 1
    sizes = [one.size for one in rounds_of(plan) if one.statistic is CUT_STEPS]
    assert result.copy.points.shape == (max(sizes), 3)
    assert result.copy.n_records == pytest.approx(len(points))
    assert len(result.released) == len(plan.releases) == len(result.ledger.releases)
    assert result.epsilon == pytest.approx(1.0, rel=1e-6)
    best = nicv(points, kmeans.weighted_kmeans(points, None, 5, rng=rng(), n_init=5))
    assert nicv(points, result.centers) < 3 * best


def test_centres_without_records_go_beside_those_with_the_most():
    """One after the other, while a centre has enough records for two; the others stay."""
    fed = simulate([np.zeros((1, 2))], "trusted", seed=0, n_records=1000)
    server = over.Server(Public(fed.facts, rng()), 1.0, 6, "grid", None)
    centers = np.arange(12.0).reshape(6, 2)
    counts = np.array([0.0, 400.0, 10.0, -5.0, 90.0, 1.0])
    moved = server.employed(centers, counts, 20.0, 0.1)
    np.testing.assert_array_equal(moved[[1, 4]], centers[[1, 4]])
    beside = [np.linalg.norm(moved[i] - centers[1]) for i in (0, 2, 3)]
    np.testing.assert_allclose(beside, 0.1)  # 400, 200, 100: then 90 are the most
    assert np.linalg.norm(moved[5] - centers[4]) == pytest.approx(0.1)


# --- what neighbours can learn --------------------------------------------------------------------


class Forced:
    """Hands out the releases of an earlier run, and keeps what it would have been asked about."""

    def __init__(self, federation, released):
        self.federation, self.released, self.exact = federation, released, []

    def __getattr__(self, name):
        return getattr(self.federation, name)

    def noisy_sum(self, statistic, mechanisms, *, round, sampling, **broadcast):
        points = self.federation._clients.data.points
        values = statistic.compute(points, np.array([0, len(points)]), **broadcast)
        self.exact.append([
            np.asarray(v[0]) / m.std for v, m in zip(values, mechanisms, strict=True)
        ])  # fmt: skip
        return self.released[round]


def replayed(points, plan, released, seed):
    fed = Forced(simulate([points], "ideal", seed=seed, n_records=plan.facts.n_records), released)
    return fed.exact, Execution(fed, plan).to_the_end().result(fed.ledger)


@every_branch
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_transcripts_replayed_on_neighbours_cost_at_most_mu(branch, epsilon):
    """Force the same outputs on X and on X with one row more: the exact cost of that pair."""
    points, worst = mixture(400, k=3), 0.0
    for seed in range(3):
        fed = simulate([points], "ideal", seed=seed)
        plan = fl.plan_overclustered(fed, n_clusters=3, epsilon=epsilon, branch=branch)
        result = fl.run(fed, plan)
        mu = 1 / fed.noise_multiplier(epsilon, plan.delta)
        before, same = replayed(points, plan, result.released, seed)
        np.testing.assert_array_equal(same.centers, result.centers)
        for row in (np.ones(3), -np.ones(3), np.zeros(3), points[0], np.array([1.0, -1, 1])):
            after, again = replayed(np.vstack([points, row]), plan, result.released, seed)
            # only releases carry data, to the centres and to the copy
            np.testing.assert_array_equal(again.centers, result.centers)
            np.testing.assert_array_equal(again.copy.points, result.copy.points)
            np.testing.assert_array_equal(again.copy.weights, result.copy.weights)
            assert again.copy.scatter == result.copy.scatter
            cost = sum(
                float(((a - b) ** 2).sum())
                for x, y in zip(before, after, strict=True)
                for a, b in zip(x, y, strict=True)
            )
            worst = max(worst, cost / mu**2)
    assert 0.3 < worst <= 1 + 1e-9


# --- k from what is released ----------------------------------------------------------------------


@pytest.mark.parametrize(("d", "branch"), [(2, "grid"), (6, "moments")])
def test_k_is_chosen_from_the_same_releases(d, branch):
    """Five groups far apart; the bill and the message sizes are those of the plan."""
    means = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]]) @ np.eye(2, d) * 0.7
    points = datasets.gaussian_mixture(means, 0.002, [800] * 5, rng=rng(8)).points
    fed = simulate([points], "ideal", seed=2)
    plan = fl.plan_overclustered(fed, n_clusters="auto", epsilon=2.0, k_range=(2, 12))
    options = plan.options
    assert (options["n_clusters"], options["k_range"]) == (12, (2, 12))
    given = fl.plan_overclustered(fed, n_clusters=12, epsilon=2.0, branch=branch)
    assert plan.releases == given.releases
    text = str(plan)
    assert "k is chosen" in text and "2 to 12 clusters" in text and "nothing more" in text
    assert "k is chosen" not in str(given)
    result = fl.run(fed, plan)
    assert result.centers.shape == (5, d)
    assert result.costs_by_k[:, 0].tolist() == list(range(2, 13))
    assert result.epsilon == pytest.approx(2.0, rel=1e-6)
    assert len(result.ledger.releases) == len(plan.releases)
    best = nicv(points, kmeans.weighted_kmeans(points, None, 5, rng=rng(), n_init=5))
    assert nicv(points, result.centers) < 1.5 * best


def test_messages_have_the_size_of_the_plan_whatever_k_is_chosen():
    """They are as long as those of a run with the largest k."""
    sizes = []
    for asked in ({"n_clusters": "auto", "k_range": (2, 9)}, {"n_clusters": 9}):
        fed = simulate(
            [mixture(600, 2, 3), mixture(600, 2, 3, 1)], "masked", noise_from="server", seed=2
        )
        result = fl.run(fed, fl.plan_overclustered(fed, epsilon=4.0, **asked))
        sizes.append([result.transcript.n_bytes(round=t) for t in range(len(result.released))])
        assert len(result.centers) < 9 or "k_range" not in asked
    assert sizes[0] == sizes[1]


def test_the_elbow_is_where_the_curve_bends():
    k = np.arange(2, 30.0)
    bent = np.where(k <= 7, k**-3, 7.0**-3 * (k / 7) ** -0.5)
    assert post.elbow(np.column_stack([k, bent])) == 7
    assert post.elbow(np.column_stack([k, k**-1.0])) in range(2, 30)  # a straight line: no bend
    assert post.elbow(np.array([[4.0, 0.0]])) == 4


# --- post-processing ------------------------------------------------------------------------------


def test_singular_values_that_noise_alone_has_are_taken_away():
    """One direction far above the noise stays, by the factor that its length says."""
    draw = rng(9)
    noise, way = draw.standard_normal((2, 6, 80)), np.zeros((6, 80))
    way[:, 0] = 400.0 * np.array([1, -1, 1, -1, 1, -1])
    std = np.full(6, 0.5)
    alone = over.soft_rank(0.5 * noise[0], std, 1.0)
    assert np.linalg.norm(alone) < 0.1 * np.linalg.norm(0.5 * noise[0])
    found = over.soft_rank(way + 0.5 * noise[0], std, 1.0)
    assert np.linalg.norm(found - way) < 0.5 * np.linalg.norm(0.5 * noise[0])
    np.testing.assert_allclose(over.soft_rank(way, std, 0.0), way, atol=1e-9)


def test_a_likely_level_is_what_was_measured_or_else_the_prior():
    assert over.likely_level(0.3, 1e-3, 0.12, 0.6) == pytest.approx(0.3, rel=0.03)
    assert over.likely_level(-50.0, 1e4, 0.12, 0.6) == pytest.approx(0.12, rel=0.1)
    assert over.likely_level(0.0012, 1e-5, 0.12, 0.6) == pytest.approx(0.0012, rel=0.03)
    assert 0.01 < over.likely_level(-0.1, 0.1, 0.12, 0.6) < 0.12


def test_the_simplex_projection_is_the_nearest_point():
    draw = rng(7)
    for _ in range(20):
        counts = 10 * draw.standard_normal(30) + 5
        found = over.simplex(counts, 100.0)
        assert found.min() >= 0 and found.sum() == pytest.approx(100)
        # optimality: what is positive is moved by one constant, what is zero by no more than it
        moved = counts - found
        held = found > 0
        assert np.ptp(moved[held]) < 1e-9 and (moved[~held] <= moved[held].max() + 1e-9).all()
