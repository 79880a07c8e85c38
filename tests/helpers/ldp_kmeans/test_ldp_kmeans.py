"""Algorithms 1 to 5 of locally private k-means and their baselines.

Fixed seeds. Costs are compared with bands that are several times the spread between seeds (see each
test); everything else is exact or has its tolerance stated beside it.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from conftest import refused
from ldp_cases import (
    ALGORITHMS,
    DATA,
    DELTA,
    WIDE,
    K,
    asked_counts,
    four_rounds,
    ldp_lloyd,
    one_round,
    planned,
    printed,
    private_mean,
    public_users,
    rng,
    run,
    with_lsh,
    with_sums,
)

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gdp_delta
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import simulate
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.ldp_kmeans import four_rounds as rounds
from fedclust_helpers.ldp_kmeans import heavy_cells
from fedclust_helpers.ldp_kmeans.four_rounds import Buckets, candidate_centers, mark_heavy_cells
from fedclust_helpers.ldp_kmeans.frequency_oracles import ask_values
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.one_round import choose_cells
from studies.ldp_kmeans import as_printed
from studies.ldp_kmeans.baselines import NoisyPoints

pytestmark = pytest.mark.slow

# --- choosing cells -------------------------------------------------------------------------------


def level(depth, cells, counts, std=0.0):
    cells = np.asarray(cells, dtype=np.int64)
    return heavy_cells.CellLevel(depth, cells, np.asarray(counts, dtype=np.float64), std)


def exact_level(points, depth, std=0.0, keep=None):
    """True counts of the occupied cells of one depth (or of those in `keep`)."""
    grid = NestedGrid(points.shape[1])
    cells, counts = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
    if keep is not None:
        cells, counts = cells[keep(counts)], counts[keep(counts)]
    return level(depth, cells, counts, std)


def inside(cell, depth, ancestor, above):
    return tuple(c >> (depth - above) for c in cell) == tuple(ancestor)


def choose_by_hand(levels, n_sd):
    """Lines 13-30 with sets and loops: {(depth, cell): Count} in the order of choice."""
    maximal, chosen = {}, {}
    for lv in reversed(levels):
        additions = {}
        for cell, ph in zip(map(tuple, lv.cells.tolist()), lv.counts, strict=True):
            below = [g for g in maximal if inside(g[1], g[0], cell, lv.depth)]
            count = ph - sum(maximal[g] for g in below)
            if count > n_sd * lv.std * math.sqrt(1 + len(below)):
                chosen[lv.depth, cell] = count
                additions[lv.depth, cell] = (ph, below)
        for g, (ph, below) in additions.items():
            for b in below:
                del maximal[b]
            maximal[g] = ph
    return chosen


def as_dict(chosen):
    cells = map(tuple, chosen.cells.tolist())
    return dict(zip(zip(chosen.depth.tolist(), cells, strict=True), chosen.weight, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_choice_against_brute_force_on_noisy_counts(seed):
    g = rng(seed)
    points = g.normal(scale=0.35, size=(400, 2)).clip(-0.99, 0.99)
    levels = [exact_level(points, p) for p in (1, 2, 4)]
    noisy = [
        level(lv.depth, lv.cells, lv.counts + g.normal(scale=6, size=len(lv.counts)), std=2)
        for lv in levels
    ]
    chosen = choose_cells(noisy, n_sd=1.5)
    expected = choose_by_hand(noisy, 1.5)
    assert as_dict(chosen) == pytest.approx(expected) and list(as_dict(chosen)) == list(expected)
    assert (chosen.weight > 1.5 * 2).all()  # no multiplicity near or below zero
    assert (np.diff(chosen.depth) <= 0).all()
    for where, share in (("center", 0.5), ("corner", 0.0)):
        places = (chosen.cells + share) * 2.0 ** (1 - chosen.depth[:, None]) - 1
        assert chosen.points(NestedGrid(2), where) == pytest.approx(places)


def test_sums_are_kept_in_step_with_counts():
    """Sum(g) is the vector sum over the points that Count(g) counts (lines 16 and 19)."""
    points = rng(1).normal(scale=0.3, size=(500, 2)).clip(-0.99, 0.99)
    grid = NestedGrid(2)

    def vector_sums(depth, cells):
        index = heavy_cells.match_rows(grid.cells(points, depth), cells)
        sums = np.zeros((len(cells), 2))
        np.add.at(sums, index[index >= 0], points[index >= 0])
        return sums

    levels = [exact_level(points, p, keep=lambda c, m=m: c >= m) for p, m in
              ((1, 30), (2, 15), (3, 6))]  # fmt: skip
    chosen = choose_cells(levels, vector_sums=vector_sums)
    covered = np.zeros(500, dtype=bool)
    every = zip(chosen.depth, chosen.cells, chosen.sums, chosen.weight, strict=True)
    for depth, cell, total, weight in every:
        here = (grid.cells(points, int(depth)) == cell).all(axis=1) & ~covered
        assert weight == here.sum() > 0  # without noise each point is counted once
        assert total == pytest.approx(points[here].sum(axis=0), abs=1e-12)
        covered |= here
    assert chosen.sums.sum(axis=0) == pytest.approx(points[covered].sum(axis=0), abs=1e-10)


def test_nothing_to_choose_from():
    empty = [level(1, np.zeros((0, 2)), []), level(2, np.zeros((0, 2)), [])]
    chosen = choose_cells(empty, vector_sums=lambda p, cells: np.zeros((len(cells), 7)))
    assert chosen.weight.shape == (0,) and chosen.cells.shape == (0, 2)
    assert chosen.sums.shape == (0, 7) and chosen.points(NestedGrid(2)).shape == (0, 2)


# --- descent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("depths", [(2,), (1, 3), (1, 2, 3), (2, 4)])
def test_descent_against_listing_everything(depths):
    points = DATA[:, :2] * 0.9
    counts = asked_counts(points, depths)
    grid = NestedGrid(2)
    survivors = None
    for found, depth in zip(heavy_cells.descend(counts), depths, strict=True):
        every = np.stack(np.unravel_index(np.arange(4**depth), (2**depth,) * 2), -1)
        every = every[grid.meets_ball(every, depth, 1.0)]
        if survivors is not None:
            above = grid.ancestors(every, depth, survivors[0])
            every = every[[tuple(row) in survivors[1] for row in above.tolist()]]
        estimates = counts.count(every, depth)
        kept = estimates > heavy_cells.threshold(len(every), 2.5) * counts.depth_std(depth)
        survivors = depth, set(map(tuple, every[kept].tolist()))
        assert set(map(tuple, found.cells.tolist())) == survivors[1]
        assert (np.diff(found.counts) <= 0).all() and found.std == counts.depth_std(depth)
        assert found.counts == pytest.approx(counts.count(found.cells, depth))
    assert survivors[1]


# --- heavy cells and the synthetic space ----------------------------------------------------------


def heavy_marking(points=DATA, std=30.0):
    grid = NestedGrid.shifted(points.shape[1], rng=rng(5))
    levels = []
    for depth in (2, 3, 4):
        cells, counts = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
        levels.append(level(depth, cells, counts, std))
    return mark_heavy_cells(grid, levels), levels


def test_heavy_cells_by_brute_force():
    """From the root on. (As printed the loop starts at l = 2 while H_1 is empty: nothing.)"""
    heavy, levels = heavy_marking()
    assert all(len(cells) for cells in heavy.cells)
    above = {()}
    for index, (lv, cells) in enumerate(zip(levels, heavy.cells, strict=True)):
        expected = set()
        for cell, count in zip(map(tuple, lv.cells.tolist()), lv.counts, strict=True):
            parent = () if index == 0 else tuple(c >> 1 for c in cell)
            if count >= 3.5 * 30 and parent in above:
                expected.add(cell)
        assert set(map(tuple, cells.tolist())) == expected
        above = expected
    assert heavy.centers() == pytest.approx(
        np.concatenate([heavy.grid.centers(c, p) for p, c in zip(heavy.depths, heavy.cells,
                                                                 strict=True)])
    )  # fmt: skip


def test_light_points_are_a_partition():
    """Lemma 4.10: each point is in exactly one D_l, by the definition of D_l."""
    heavy, _ = heavy_marking()
    grid, points = heavy.grid, DATA
    is_heavy = [np.ones(len(points), dtype=bool)]  # the root is heavy by definition
    for depth, cells in zip(heavy.depths, heavy.cells, strict=True):
        is_heavy.append(heavy_cells.match_rows(grid.cells(points, depth), cells) >= 0)
    is_heavy.append(np.zeros(len(points), dtype=bool))  # below the finest depth all are light
    members = np.stack([a & ~b for a, b in itertools.pairwise(is_heavy)])
    assert (members.sum(axis=0) == 1).all()
    assert (heavy.level_of(points) == members.argmax(axis=0) + 1).all()
    assert set(heavy.level_of(points)) == {1, 2, 3, 4}


def test_the_smallest_heavy_cell_around_a_point():
    heavy, _ = heavy_marking()
    levels, centers, half, keys = heavy.parents(DATA)
    depths = np.array([0, *heavy.depths])[levels - 1]
    sides = np.array([heavy.grid.cell_side(int(p)) for p in depths])
    assert (np.abs(DATA - centers) <= sides[:, None] / 2 * (1 + 1e-12)).all()
    assert half == pytest.approx(sides * math.sqrt(4) / 2)
    # one key for each cell: as many keys as pairs (level, centre)
    pairs = np.unique(np.column_stack([levels, centers]), axis=0)
    assert len(pairs) == len(np.unique(keys))


# --- candidates (Algorithm 3) ---------------------------------------------------------------------


class Stub:
    """A server side with made-up answers."""

    n_users = 1000

    def __init__(self, vector):
        self.vector = vector

    def estimate(self, keys, channel=0):
        if self.vector is None:
            return np.full(len(keys), 500.0)
        return self.vector(len(keys))

    def std(self, channel=0):
        return 1.0


def test_candidates_stay_in_their_cell(monkeypatch):
    """Pi_l of Algorithm 3 cuts each mean to the heavy cell of its bucket, whatever the noise."""
    monkeypatch.setattr(rounds, "PROBES_PER_CELL", 50)
    monkeypatch.setattr(rounds, "PROBES_EVERYWHERE", 2000)
    heavy, _ = heavy_marking()
    buckets = Buckets(heavy, 2, rng=rng(6))

    def candidates(vector):
        return candidate_centers(buckets, Stub(None), Stub(vector), n_sd=3.5, rng=rng(7))

    middle = candidates(lambda m: np.zeros((m, 4)))  # a mean of zero is the cell's centre
    noise = rng(8)
    moved = candidates(lambda m: 1e6 * noise.normal(size=(m, 4)))
    sides = {tuple(np.round(heavy.grid.centers(np.zeros((1, 4), int), 0)[0], 9)): 4.0}
    for depth, found in zip(heavy.depths, heavy.cells, strict=True):
        for center in heavy.grid.centers(found, depth):
            sides[tuple(np.round(center, 9))] = heavy.grid.cell_side(depth)
    assert len(middle) == len(moved) > len(sides) > 1
    for center, candidate in zip(middle, moved, strict=True):
        side = sides[tuple(np.round(center, 9))]
        assert (np.abs(candidate - center) <= side / 2 * (1 + 1e-9)).all()
    # the noise above fills the cells: most candidates lie on a wall
    assert np.median(np.abs(moved - middle).max(axis=1)) > 0.05


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "d, epsilon, depths, sums_depth, m, share",
    [
        (4, 4.0, (2, 3, 4), None, 2, 0.0),
        (6, 8.0, (2, 3, 4), None, 3, 0.0),
        (10, 1.0, (2,), 2, 1, 0.7),
        (10, 4.0, (3, 4), 4, 2, 0.7),
    ],
)
def test_the_practical_plan(d, epsilon, depths, sums_depth, m, share):
    plan = lk.plan(public_users(10**6, d), n_clusters=K, epsilon=epsilon)
    assert plan.broadcasts("depths") == (depths,)
    assert plan.broadcasts("depth") == (() if sums_depth is None else (sums_depth,))
    assert len(plan.releases[0].mechanisms) == len(plan.releases[0].parts) == m
    assert dict(plan.parts) == ({"count": 1 - share, "sum": share} if d > 6 else {})
    wanted = lk.users_needed(1 / 15, epsilon, len(depths), user_share=1 - share)
    assert lk.users_needed_by(plan) == wanted
    assert plan.facts.n_clients == 10**6 and (plan.delta == 0) == (d <= 6)
    if d > 6:
        (mechanism,) = plan.releases[1].mechanisms
        assert mechanism.sensitivity == 2
        assert gdp_delta(mechanism.gdp_mu, epsilon) == pytest.approx(DELTA)


# --- runs -----------------------------------------------------------------------------------------


def reports_of(fed):
    """What the users sent."""
    return [m for m in fed.transcript.messages if m.sender == "clients"]


@pytest.mark.parametrize("name", ["one_round with sums", "four_rounds", "four_rounds with LSH",
                                  "grid_histogram", "ldp_lloyd"])  # fmt: skip
def test_high_dimensions(name):
    """Ten dimensions: projected to four."""
    _, result = run(ALGORITHMS[name], WIDE, epsilon=8.0)
    assert result.centers.shape == (K, 10) and np.isfinite(result.centers).all()
    if hasattr(result, "low_centers"):
        assert result.projection.n_outputs == result.low_centers.shape[1] == 4


def test_scaling_to_all_users():
    """Half of the users count; the proxies' weights still speak of all of them."""
    _, result = run(with_sums, epsilon=8.0)
    assert 12_000 < result.weights.sum() == pytest.approx(20_000, rel=0.35)


@pytest.mark.parametrize("options", [{}, {"t": 2}, {"depths": (1, 2)}])
def test_the_questions_of_four_rounds(options):
    fed, result = run(with_lsh, DATA[:8000], epsilon=8.0, **options)
    assert np.isfinite(result.centers).all() and len(result.candidates)
    rounds = {m.name.split(":")[0]: m.round for m in reports_of(fed)}
    assert rounds == {
        "cell counts": 0, "LSH buckets": 1, "bucket sums": 1, "nearest candidate": 2,
        "nearest centre": 3, "points by nearest centre": 3,
    }  # fmt: skip


def test_lloyd_takes_a_start_and_keeps_it_where_nobody_is_near():
    start = np.array([[0.0, 0, 0, 0], [0.999, 0, 0, 0]])
    cluster = 0.05 * rng(13).normal(size=(20_000, 4)) - 0.2
    _, result = run(ldp_lloyd, cluster, k=2, epsilon=8.0, initial=start, n_rounds=3)
    assert result.history.shape == (4, 2, 4)
    assert np.array_equal(result.history[0], start)
    assert result.centers[1] == pytest.approx(start[1])  # no users: it stays
    assert np.linalg.norm(result.centers[0] + 0.2) < 0.15


def test_private_mean_has_the_stated_error():
    fed, result = run(private_mean, k=1, epsilon=2.0)
    assert result.centers.shape == (1, 4)
    mechanism = gaussian_report(1.0, 2.0, DELTA)
    error = np.linalg.norm(result.centers[0] - DATA.mean(axis=0))
    # chi with 4 degrees of freedom: above 5.1 sd with probability 1e-5
    assert error < 5.1 * mechanism.std / math.sqrt(20_000)
    assert [m.count for m in reports_of(fed)] == [20_000]


def test_noisy_points_keep_the_lowest_user_numbers():
    query = NoisyPoints(4, gaussian_report(1.0, 1.0, DELTA), max_kept=1500)
    ask_values(query, DATA[:1000], rng=rng(1))
    ask_values(query, DATA[1000:3000], rng=rng(2))
    assert query.points().shape == (1500, 4) and query.n_users == 3000
    residual = query.points() - DATA[:1500]
    assert residual.std() == pytest.approx(query.mechanism.std, rel=4 / math.sqrt(2 * 6000))


# --- accuracy -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hundred_thousand():
    return make_ball_mixture(100_000, 4, K, rng=np.random.default_rng(15)).points


def cost(points, result):
    return kmeans_cost(points, result.centers, normalize=True)


@pytest.mark.parametrize(
    "name, limit",
    [("one_round", 0.04), ("four_rounds", 0.1), ("four_rounds with LSH", 0.12),
     ("grid_histogram", 0.06)],
)  # fmt: skip
def test_accuracy(hundred_thousand, name, limit):
    """Notes 6.9: one round 0.025 to 0.03, one centre 0.4, the mixture itself 0.0225."""
    costs = [
        cost(hundred_thousand, run(ALGORITHMS[name], hundred_thousand, seed=s)[1]) for s in range(3)
    ]
    assert np.median(costs) < limit and min(costs) > 0.0215


def test_the_printed_parameters_see_nothing_at_this_size():
    """L = 15 levels: the sd of a count is c sqrt(n) at epsilon/30, more than all users."""
    fed = simulate(DATA, "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning, match="nothing stands out"):
        result = planned(as_printed.plan_as_printed)(fed, n_clusters=K, epsilon=0.25, rng=rng())
    number = as_printed.users_needed_as_printed(1 / 15, 0.25, 15, n_sd=3.5)
    assert number > 10**8 and f"about {number:,}" in str(result.plan)
    assert not result.centers.any()


def test_centres_stay_numbers_where_nobody_was_asked_for_a_sum(monkeypatch):
    """A dozen users, few of them in the part that sends points: an empty part has no mean."""
    shares = {"cells": 0.05, "proxy": 0.05, "recovery count": 0.85, "recovery sum": 0.05}
    monkeypatch.setattr(rounds, "WITHOUT_LSH", shares)
    empty = 0
    for seed in range(20):
        users = simulate(np.full((12, 2), 0.3), "local", seed=seed)
        plan = lk.plan_four_rounds(users, n_clusters=2, epsilon=40.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = lk.run(users, plan, rng=np.random.default_rng(0))
        assert users.split is not None
        empty += not users.split.members(np.arange(12), "recovery sum").any()
        assert np.isfinite(result.centers).all()
    assert empty > 5


@pytest.mark.parametrize("algorithm", [one_round, four_rounds])
def test_an_epsilon_at_which_nothing_shows(algorithm):
    fed = simulate(DATA, "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning, match="nothing stands out") as caught:
        result = algorithm(fed, n_clusters=K, epsilon=1e-4, rng=rng())
    number = lk.users_needed_by(result.plan)
    assert "20000 users" in str(caught[0].message) and f"about {number:,}" in str(result.plan)
    assert number == pytest.approx(
        (3.5 * 2 / 1e-4 * 15) ** 2 * len(result.plan.broadcasts("depths")[0])
        / dict(result.plan.parts).get("cells", dict(result.plan.parts).get("count", 1)),
        rel=1e-3,
    )  # fmt: skip
    assert result.centers.shape == (K, 4) and len(result.weights) == 0


def test_the_printed_algorithm_has_no_secure_mode_and_says_why():
    for options in ({"mode": "secure"}, {"seed": 1, "noise": "discrete"}):
        fed = simulate(DATA[:100], "local", **options)
        text = refused(fed, lambda f=fed: run(printed, fed=f, k=2), ValueError, "no secure mode")
        assert "continuous Gaussian" in text and "ldp_kmeans.plan has one" in text
