"""Algorithms 3, 4 and 5, k-FED, diameter reduction, and the error bounds as corrected."""

import math

import feddp_cases
import numpy as np
import pytest
from conftest import read_only, refused, refuses
from feddp_cases import DELTA, cost, gaussians

from fedclust_helpers import accounting as acc
from fedclust_helpers import kmeans
from fedclust_helpers.federation import ClientData, TrustModelError
from studies.feddp_kmeans.k_fed import awasthi_sheffet, k_fed
from studies.feddp_kmeans.theory import (
    reduce_diameter,
    simplification_rounds,
    simplify_server_data,
    theory_kmeans,
)

pytestmark = pytest.mark.slow

SIGMA = 0.3
MEANS = np.array([[4.0, 0, 0, 0, 0], [0, 4, 0, 0, 0], [0, 0, 4, 0, 0], [-4, 0, 0, 0, 0]])
FAR = np.array([[0.0, 0, 0, 0, 0], [1e5, 0, 0, 0, 0]])


def separated(n=20_000, seed=0):
    """Rows around four means 13 standard deviations apart, their labels, and server points."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    points = MEANS[labels] + SIGMA * rng.normal(size=(n, 5))
    own = MEANS[np.repeat(np.arange(4), 20)] + SIGMA * rng.normal(size=(80, 5))
    return read_only(points), labels, read_only(np.concatenate([own, rng.uniform(-4, 4, (20, 5))]))


def two_groups(n=20_000, seed=1):
    """The same four means, twice, at a distance of 1e5; the server has a few points between."""
    rng = np.random.default_rng(seed)
    group, cluster = rng.integers(2, size=n), rng.integers(4, size=n)
    points = FAR[group] + MEANS[cluster] + SIGMA * rng.normal(size=(n, 5))
    own = [
        FAR[g] + MEANS[np.repeat(np.arange(4), 10)] + SIGMA * rng.normal(size=(40, 5))
        for g in (0, 1)
    ]
    between = rng.uniform(0, 1, (5, 5)) + FAR[1] * np.linspace(0.2, 0.8, 5)[:, None]
    return read_only(points), group, read_only(np.concatenate([*own, between]))


POINTS, LABELS, SERVER = separated()
GROUPED, GROUP, GROUPED_SERVER = two_groups()
OFFSETS = np.arange(0, 20_001, 2000)
BASIS = np.eye(5)[:, :3]


def federation(points=POINTS, **options):
    return feddp_cases.federation(ClientData(points, OFFSETS), **{"bound": 6.0} | options)


def errors(centers, means=MEANS):
    """Distance from each true mean to the nearest centre."""
    return np.linalg.norm(centers[:, None] - means, axis=2).min(axis=0)


# --- Algorithm 3 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_algorithm_3_classifies_a_separated_mixture_without_error(seed):
    centers = awasthi_sheffet(POINTS, 4, rng=np.random.default_rng(seed))
    found = kmeans.assign(POINTS, centers).labels
    pairs = set(zip(LABELS.tolist(), found.tolist(), strict=True))
    assert len(pairs) == 4  # one found cluster for each true one, and the other way round
    means = np.array([POINTS[LABELS == i].mean(axis=0) for i in range(4)])
    assert errors(centers, means).max() < 1e-12


def test_algorithm_3_starts_lloyd_at_the_means_of_clear_rows():
    points = np.random.default_rng(0).normal(size=(200, 4))
    centers = awasthi_sheffet(points, 3, rng=np.random.default_rng(1), n_rounds=0)
    basis = np.linalg.svd(points, full_matrices=False)[2][:3].T
    nu = kmeans.weighted_kmeans(points @ basis, None, 3, rng=np.random.default_rng(1))
    gaps = np.linalg.norm((points @ basis)[:, None] - nu, axis=2)
    clear = np.sort(gaps, axis=1)[:, 0] <= np.sort(gaps, axis=1)[:, 1] / 3
    expected = [points[clear & (gaps.argmin(axis=1) == r)].mean(axis=0) for r in range(3)]
    assert 0 < clear.sum() < 200
    # the signs of singular vectors are arbitrary, so the k-means starts are compared as sets
    assert errors(centers, np.array(expected)).max() < 1e-8


def test_k_fed_is_near_the_optimum_on_the_mixture():
    points, _, means = gaussians(3, 12, 400, d=50, k=4)
    data = ClientData(points, np.arange(0, 4801, 400))
    best = cost(points, kmeans.lloyd(points, means, n_rounds=5))
    found = k_fed(data, 4, rng=np.random.default_rng(0), n_init=3)
    # at most one row in ten on the wrong side; a merged pair of clusters costs 2 and more
    assert cost(points, found) < 1.03 * best
    assert np.array_equal(found, k_fed(data, 4, rng=np.random.default_rng(0), n_init=3))


# --- Algorithm 4 ----------------------------------------------------------------------------------


def simplify(fed=None, *, epsilon=4.0, seed=0, basis=BASIS, **options):
    fed = federation() if fed is None else fed
    options = {"min_weight": 0.2} | options
    return simplify_server_data(
        fed, SERVER, basis, epsilon=epsilon, rng=np.random.default_rng(seed), **options
    )


def test_number_of_rounds():
    assert simplification_rounds(300, epsilon=1.0, min_weight=0.1) == math.ceil(
        10 * math.log(4 * math.log(300) / 0.1)
    ) == 55  # fmt: skip
    assert simplification_rounds(1, epsilon=1e9, min_weight=1.0) == 1


@pytest.mark.parametrize("threshold", ["printed", "proof"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_algorithm_4_keeps_a_good_point_in_every_cluster_and_spends_epsilon(threshold, epsilon):
    fed = federation()
    result = simplify(fed, epsilon=epsilon, threshold=threshold)
    releases = 1 + simplification_rounds(len(SERVER), epsilon=epsilon, min_weight=0.2)
    assert len(result.released) == len(fed.ledger.releases) == releases
    assert fed.ledger.pure_epsilon() == pytest.approx(epsilon)
    # the point of Lemma 23, with a far smaller constant: within five standard deviations
    assert errors(SERVER[result.kept] @ BASIS, MEANS @ BASIS).max() < 5 * SIGMA
    assert len(result.kept) < len(SERVER)


def test_heavy_points_freeze_at_once_and_light_ones_are_halved():
    # weights of 50 and more against a threshold of 2 and noise of scale 0.4: nothing is in doubt
    fed = federation()
    result = simplify(fed, epsilon=20.0, n_rounds=7)
    exact = np.bincount(kmeans.assign(POINTS @ BASIS, SERVER @ BASIS).labels, minlength=len(SERVER))
    asked, noised = result.released[0]
    assert np.array_equal(asked, np.arange(len(SERVER)))
    assert np.abs(noised - exact).max() < 10  # scale 0.4: e^-25 times 100
    first = np.flatnonzero(noised > 2 * math.log(20_000) / 20)
    assert set(first) <= set(result.kept)
    left = [len(asked) - len(np.intersect1d(asked, result.kept)) for asked, _ in result.released]
    assert left == sorted(left, reverse=True) and left[-1] <= 3
    again = simplify(federation(), epsilon=20.0, n_rounds=7)
    assert np.array_equal(again.kept, result.kept)


def test_when_nothing_freezes_the_heaviest_points_stay():
    fed = federation()
    result = simplify(fed, epsilon=1e-3, threshold="proof", n_rounds=2, at_least=5)
    assert len(result.kept) == 5
    few = simplify(federation(), epsilon=1e-3, threshold="proof", n_rounds=40, at_least=4)
    assert len(few.kept) == 4  # all were dropped on the way: an early stop, not an error
    assert len(few.released) < 41


def test_algorithm_4_is_refused_as_a_whole():
    fed = federation(budget=acc.Budget(1.0, 0))
    refuses(acc.BudgetExceededError, "Algorithm 4", simplify, fed, epsilon=1.01)
    assert not fed.ledger.releases
    simplify(fed, epsilon=0.99, n_rounds=2)
    assert fed.ledger.remaining == pytest.approx(0.01)


# --- Lemma 17 -------------------------------------------------------------------------------------


def reduced(fed=None, *, server=GROUPED_SERVER, **options):
    fed = federation(GROUPED, bound=2e5) if fed is None else fed
    options = {"epsilon": 1.0, "sigma": SIGMA, "min_weight": 0.1} | options
    return reduce_diameter(fed, server, **options)


def test_diameter_reduction_separates_components_and_keeps_distances_within():
    fed = federation(GROUPED, bound=2e5)
    reduction = reduced(fed)
    assert fed.ledger.pure_epsilon() == pytest.approx(1.0) and len(fed.ledger.releases) == 1
    assert len(reduction.shifts) == 2
    assert len(reduction.anchors) == 80  # the five server points between are gone
    moved = reduction.move(GROUPED)
    for g in (0, 1):
        before, after = GROUPED[GROUP == g], moved[GROUP == g]
        shift = after[0] - before[0]
        assert np.abs(after - before - shift).max() < 1e-6  # one translation for all
    centers = np.array([moved[GROUP == g].mean(axis=0) for g in (0, 1)])
    diameter = 4 * math.log(20_000) * math.sqrt(5) * SIGMA  # D, which is more than the components'
    assert np.linalg.norm(centers[0] - centers[1]) > 50 * diameter
    assert np.linalg.norm(moved, axis=1).max() <= reduction.bound < 4000 < 1e5


def test_centers_come_back_from_the_moved_space():
    reduction = reduced()
    truth = np.concatenate([FAR[0] + MEANS, FAR[1] + MEANS])
    assert reduction.restore(reduction.move(truth)) == pytest.approx(truth, abs=1e-6)
    assert reduction.restore(reduction.server_points) == pytest.approx(reduction.anchors, abs=1e-6)


def test_the_map_acts_on_each_row_alone():
    """Neighbours stay neighbours: what is released from moved rows composes on the same ledger."""
    reduction = reduced()
    moved = reduction.move(GROUPED[:50])
    assert np.array_equal(moved[10:20], reduction.move(GROUPED[10:20]))


# --- Algorithm 5 ----------------------------------------------------------------------------------


def theory(fed, server=SERVER, *, k=4, epsilon=8.0, n_rounds=2, min_weight=0.2, **options):
    return theory_kmeans(
        fed, server, n_clusters=k, epsilon=epsilon, delta=DELTA, min_weight=min_weight,
        n_rounds=n_rounds, rng=np.random.default_rng(0), **{"threshold": "proof"} | options,
    )  # fmt: skip


@pytest.mark.parametrize("trust", ["ideal", "trusted"])
def test_algorithm_5_finds_the_means_within_its_budget(trust):
    fed = federation(trust=trust)
    result = theory(fed)
    assert errors(result.centers).max() < 0.2
    # basic composition gives epsilon for everything; here the diameter reduction was skipped
    assert 0 < fed.ledger.epsilon(DELTA) <= 6.0
    gaussians = [m for r in fed.ledger.releases for m in r.mechanisms if m.norm == 2]
    assert len(gaussians) == 1 + 3  # subspace, first means, two rounds
    assert fed.ledger.releases[-3].mechanisms == fed.ledger.releases[-1].mechanisms
    assert result.history.shape == (4, 4, 5)


def test_shares_of_the_budget_in_algorithm_5():
    fed = federation()
    theory(fed, epsilon=8.0, n_rounds=1)
    sigma = acc.gaussian_sigma_analytic(2.0, DELTA / 4)
    assert fed.ledger.releases[0].mechanisms[0].std == pytest.approx(36 * sigma)
    laplace = [m for r in fed.ledger.releases for m in r.mechanisms if m.norm == 1]
    assert sum(m.pure_epsilon for m in laplace[:-2]) == pytest.approx(2.0)  # first centres
    assert [m.pure_epsilon for m in laplace[-2:]] == pytest.approx([0.5, 0.5])
    sums = fed.ledger.releases[-1].mechanisms[0]
    assert sums.std == pytest.approx(6 * acc.gaussian_sigma_analytic(0.5, DELTA / 8))


def test_algorithm_5_is_refused_as_a_whole():
    for move in (None, lambda r: pytest.fail("the data must not be moved")):
        fed = federation(budget=acc.Budget(0.5, DELTA, "rdp"))
        with pytest.raises(acc.BudgetExceededError, match="Algorithm 5"):
            theory(fed, epsilon=8.0, move=move, sigma=SIGMA)
        assert not fed.ledger.releases


# --- wrong arguments, before anything is released -------------------------------------------------


def test_the_theory_speaks_of_one_point_and_of_a_server_that_sees():
    fed = federation(unit="client")
    masked = federation(trust="masked")
    for call in (
        simplify,
        theory,
        lambda f: reduce_diameter(f, SERVER, epsilon=1.0, sigma=1.0, min_weight=0.2),
    ):
        refused(fed, lambda c=call: c(fed), acc.LedgerMismatchError, "one point")
        refused(masked, lambda c=call: c(masked), TrustModelError, "server sees the noised sums")
