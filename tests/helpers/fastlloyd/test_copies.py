"""The weighted copy that over-clustered Lloyd releases on its way, and what is made of it."""

import numpy as np
import pytest
from conftest import seeded as rng

from fedclust_helpers import datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers.client_statistics import CUT_STEPS
from fedclust_helpers.fastlloyd.postprocessing import simplex
from fedclust_helpers.fastlloyd.rounds import ROWS_OF_A_CLUSTER
from fedclust_helpers.federation import simulate


def rows(n=4000, d=3, k=6, seed=0):
    means = rng(seed).uniform(-0.8, 0.8, (k, d))
    draw = rng(seed + 1)
    return np.clip(datasets.gaussian_mixture(means, 0.005, [n // k] * k, rng=draw).points, -1, 1)


def fitted(points, *, k=6, epsilon=2.0, seed=1):
    fed = simulate([points], "ideal", seed=seed)
    return fl.run(fed, fl.plan_overclustered(fed, n_clusters=k, epsilon=epsilon))


def some_copy(seed, n=20, d=2, noise=0.01):
    draw = rng(seed)
    return fl.WeightedCopy(
        draw.uniform(-1, 1, (n, d)), draw.uniform(0, 50, n), np.full(n, 3.0 + seed),
        np.full(n, 0.5), scatter=0.01 * (1 + seed), noise=noise,
    )  # fmt: skip


@pytest.mark.parametrize("d", [2, 3])
def test_a_copy_is_made_of_the_last_release_of_many_centres(d):
    """Its weights are the noised counts, projected; its points the means around what was asked."""
    result = fitted(rows(9000, d))
    asked = [(r, a) for r, a in result.record if r.statistic is CUT_STEPS]
    request, (sums, counts) = [one for one in asked if len(one[1][1]) > 6][-1]
    std = [a for r, a in asked if r is request][0].std
    copy, radius = result.copy, request.numbers["radius"]
    np.testing.assert_array_equal(copy.weights, simplex(counts, 9000))
    np.testing.assert_array_equal(copy.weight_std, std[1])
    np.testing.assert_allclose(copy.sum_std, radius * std[0])
    full = counts > 15 * std[1]  # there neither shrinkage nor a cap moves much
    means = request.broadcast["centers"] + radius * sums / counts[:, None]
    assert full.sum() >= 3 and np.abs(copy.points - means)[full].max() < 0.02
    assert copy.noise == pytest.approx(result.plan.dial)


def test_copies_of_batches_together_are_one_copy_of_all_rows():
    one, two = some_copy(0, noise=0.3), some_copy(1, 30, noise=0.4)
    both = fl.together([one, two])
    for name in ("points", "weights", "weight_std", "sum_std"):
        np.testing.assert_array_equal(
            getattr(both, name), np.concatenate([getattr(one, name), getattr(two, name)])
        )
    assert both.n_records == pytest.approx(one.n_records + two.n_records)
    assert both.noise == pytest.approx(0.5)
    centers = rng(5).uniform(-1, 1, (3, 2))  # cost per row: of all rows
    each = [copy.n_records * copy.cost(centers) for copy in (one, two)]
    assert both.n_records * both.cost(centers) == pytest.approx(sum(each))
    alone, again = fl.together([one]), fl.together([fl.together([one]), two])
    assert alone.cost(centers) == pytest.approx(one.cost(centers))
    assert again.cost(centers) == pytest.approx(both.cost(centers))


def test_noise_of_sizes_and_centres_is_what_noise_does():
    """Against 4,000 drawn copies: a spread of 4,000 is off by more than 10 % one time in 1e15."""
    draw, copy = rng(3), some_copy(0, 30)
    copy = fl.WeightedCopy(copy.points, copy.weights + 300, *[np.full(30, v) for v in (6.0, 4.0)],
                           scatter=0.0, noise=0.01)  # fmt: skip
    centers = copy.centers(3, rng=rng(4))
    labels, said = kmeans.assign(copy.points, centers).labels, copy.around(centers)
    centers = np.stack([
        np.average(copy.points[labels == j], 0, copy.weights[labels == j]) for j in range(3)
    ])  # fmt: skip
    said = copy.around(centers)
    sizes, places = [], []
    for _ in range(4000):
        counts = copy.weights + 6.0 * draw.standard_normal(30)
        sums = copy.weights[:, None] * copy.points + 4.0 * draw.standard_normal((30, 2))
        sums += (counts - copy.weights)[:, None] * copy.points  # steps are from a point that stays
        total = np.stack([sums[labels == j].sum(axis=0) for j in range(3)])
        sizes.append([counts[labels == j].sum() for j in range(3)])
        places.append(total / np.array(sizes[-1])[:, None])
    np.testing.assert_allclose(said.sizes, np.mean(sizes, axis=0), rtol=0.01)
    np.testing.assert_allclose(said.size_std, np.std(sizes, axis=0), rtol=0.1)
    found = np.sqrt(np.var(places, axis=0).mean(axis=1))
    np.testing.assert_allclose(said.center_std, found, rtol=0.1)


def test_any_k_from_one_release():
    """At the planned k close to the fit; at another one close to what the rows allow."""
    points = rows(12_000)
    result = fitted(points)
    for k in (3, 6, 9):
        centers = result.copy.centers(k, rng=rng(2))
        best = kmeans.weighted_kmeans(points, None, k, rng=rng(3), n_init=10)
        assert metrics.nicv(points, centers) < 1.1 * metrics.nicv(points, best)
        assert result.copy.cost(centers) == pytest.approx(metrics.nicv(points, centers), abs=0.02)
    assert metrics.nicv(points, result.copy.centers(6, rng=rng(4))) < 1.05 * metrics.nicv(
        points, result.centers
    )


def test_k_is_looked_for_where_clusters_show_above_the_noise():
    copy = fitted(rows(12_000)).copy
    most = int(copy.n_records / copy.noise / ROWS_OF_A_CLUSTER)
    held = int((copy.weights > 0).sum())
    assert copy.largest_k((2, 10**6)) == min(most, held) and copy.largest_k((2, 5)) == 5
    assert copy.best_k((2, 12), rng=rng(0)) == 6


def test_rows_are_unsettled_where_noise_decides_between_clusters():
    """The corners of a square have two best pairs of clusters: half of the draws of the noise take
    the other one, which moves half of the rows. Of four clusters there is one best choice."""
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]) / 2
    copy = fl.WeightedCopy(corners, np.full(4, 100.0), np.full(4, 5.0), np.full(4, 5.0), 0.0, 5.0)
    sides = np.array([[-0.5, 0.0], [0.5, 0.0]])
    each = [copy.unsettled(sides, rng=rng(seed)) for seed in range(20)]
    assert np.mean(each) == pytest.approx(0.25, abs=4 * 0.25 / np.sqrt(200))
    assert copy.unsettled(corners, rng=rng(0)) == 0
