"""Metrics: closed forms on tiny data, independent formulas, invariances, conventions."""

import math

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from conftest import seeded as rng
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import cdist
from sklearn.metrics import davies_bouldin_score, silhouette_samples

from fedclust_helpers import metrics

points_strategy = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.floats(-100, 100)
)


@pytest.fixture
def blobs():
    """Three clusters of 100, 80 and 20 points in 3 dimensions: points, centres, labels."""
    centers = np.array([[0.0, 0, 0], [8, 0, 0], [0, 8, 8]])
    labels = np.repeat([0, 1, 2], [100, 80, 20])
    points = centers[labels] + rng(1).standard_normal((200, 3))
    for array in (centers, labels, points):
        array.flags.writeable = False
    return points, centers, labels


# ---- NICV --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(points_strategy, st.integers(1, 5), st.integers(0, 2**32))
def test_nicv_is_the_mean_squared_distance_to_the_nearest_centre(points, k, seed):
    points.flags.writeable = False
    centers = rng(seed).uniform(-100, 100, (k, points.shape[1]))
    expected = cdist(points, centers, "sqeuclidean").min(axis=1).mean()
    # the expanded square loses about 1e-16 of the squared norms (at most 4e4 each)
    assert metrics.nicv(points, centers) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_nicv_of_many_chunks_equals_one_formula():
    points, centers = rng(1).standard_normal((70_000, 2)), rng(2).standard_normal((7, 2))
    expected = cdist(points, centers, "sqeuclidean").min(axis=1).mean()
    assert metrics.nicv(pd.DataFrame(points), centers) == pytest.approx(expected, rel=1e-12)
    refuses(ValueError, "centers must have 2 columns", metrics.nicv, points, centers[:, :1])
    refuses(ValueError, "reference must have 7 rows", metrics.centroid_mse, centers, centers[:3])


def test_nicv_is_zero_on_the_centres_and_invariant_to_order(blobs):
    points, centers, _ = blobs
    assert metrics.nicv(centers, centers) == 0
    value = metrics.nicv(points, centers)
    assert metrics.nicv(points[::-1], centers[::-1]) == pytest.approx(value, rel=1e-12)


# ---- silhouette and Davies-Bouldin -------------------------------------------------------------


def test_silhouette_closed_form():
    # two pairs: inside distance 1, distances to the other pair 10 and 11 (mean 10.5 and 9.5)
    points = [[0.0], [1.0], [10.0], [11.0]]
    expected = (1 - 1 / 10.5 + 1 - 1 / 9.5) / 2
    value = metrics.silhouette(points, [[0.5], [10.5]], rng=rng())
    assert value == pytest.approx(expected, rel=1e-12)


def test_silhouette_uses_all_points_or_a_seeded_subsample(blobs):
    points, centers, labels = blobs
    whole = metrics.silhouette(points, centers, rng=rng(1))
    assert whole == metrics.silhouette(points, centers, rng=rng(2))  # 200 rows: no subsample
    assert whole == pytest.approx(silhouette_samples(points, labels).mean(), abs=0.02)
    part = metrics.silhouette(points, centers, rng=rng(3), max_points=50)
    rows = rng(3).choice(200, 50, replace=False)
    assert part == metrics.silhouette(points[rows], centers, rng=rng(9))
    assert part != whole


def test_davies_bouldin_closed_form_and_oracle(blobs):
    # scatter 1/2 in each cluster, distance 10: (0.5 + 0.5) / 10
    points = [[0.0], [1.0], [10.0], [11.0]]
    assert metrics.davies_bouldin(points, [[0.0], [12.0]]) == pytest.approx(0.1, rel=1e-12)
    points, centers, _ = blobs
    labels = cdist(points, centers).argmin(axis=1)
    expected = davies_bouldin_score(points, labels)
    assert metrics.davies_bouldin(points, centers) == pytest.approx(expected, rel=1e-12)
    # a centre without points changes nothing
    far = np.vstack([centers, [[1e3, 1e3, 1e3]]])
    assert metrics.davies_bouldin(points, far) == pytest.approx(expected, rel=1e-12)


def test_one_cluster_has_the_values_that_the_paper_gives_it(blobs):
    points, centers, _ = blobs
    far = [[0.0, 0, 0], [1e6, 0, 0]]  # every point goes to the first centre
    assert metrics.silhouette(points, far, rng=rng()) == -1
    assert metrics.davies_bouldin(points, far) == math.inf
    assert metrics.silhouette(points, centers[:1], rng=rng()) == -1
    assert metrics.davies_bouldin(points, centers[:1]) == math.inf
    assert metrics.silhouette(points[:1], centers, rng=rng()) == -1
    assert metrics.davies_bouldin(points[:1], centers) == math.inf


def test_one_point_per_cluster_is_defined():
    points = [[0.0], [1.0], [5.0]]
    assert metrics.silhouette(points, points, rng=rng()) == 0
    assert metrics.davies_bouldin(points, points) == 0


# ---- matched centres ---------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(points_strategy, st.integers(0, 2**32))
def test_centroid_mse_ignores_the_order_of_centres(reference, seed):
    reference.flags.writeable = False
    order = rng(seed).permutation(len(reference))
    assert metrics.centroid_mse(reference[order], reference) == 0
    shift = rng(seed).uniform(-1, 1, reference.shape)
    direct = (shift**2).sum(axis=1).mean()
    moved = metrics.centroid_mse((reference + shift)[order], reference)
    assert moved <= direct + 1e-9  # the matching can only lower it


def test_centroid_mse_closed_form_needs_the_best_matching():
    # matching each centre to its nearest reference would use the reference at 0 twice
    centers, reference = [[0.0], [1.0]], [[0.0], [4.0]]
    assert metrics.centroid_mse(centers, reference) == pytest.approx((0 + 9) / 2)
    # summed over coordinates, averaged over centres
    assert metrics.centroid_mse([[0.0, 0.0]], [[1.0, 2.0]]) == 5


# ---- summaries ---------------------------------------------------------------------------------


def test_auc_is_equation_26():
    epsilons = [0.1, 0.25, 0.5, 0.75, 1.0]
    values = [5.0, 4.0, 2.0, 1.0, 0.5]
    expected = sum(
        (values[i] + values[i + 1]) / 2 * (epsilons[i + 1] - epsilons[i]) for i in range(4)
    )
    assert metrics.auc_over_epsilon(epsilons, values) == pytest.approx(expected, rel=1e-12)
    assert metrics.auc_over_epsilon(epsilons, np.full(5, 2.0)) == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("epsilons", "values", "message"),
    [
        ([1.0], [1.0], "epsilons must be at least two"),
        ([2.0, 1.0], [1.0, 1.0], "increasing order"),
        ([0.0, 1.0], [1.0, 1.0], "positive"),
        ([0.5, 1.0], [1.0], "values must have 2 entries"),
    ],
)
def test_auc_refuses_wrong_arguments(epsilons, values, message):
    refuses(ValueError, message, metrics.auc_over_epsilon, epsilons, values)


def test_mean_ci_closed_form():
    # t quantile with one degree of freedom is tan(pi (level) / 2); standard error of (1, 3) is 1
    interval = metrics.mean_ci([1.0, 3.0], level=0.9)
    assert interval.mean == 2
    assert interval.half_width == pytest.approx(math.tan(math.pi * 0.9 / 2), rel=1e-9)
    assert metrics.mean_ci([4.0, 4.0, 4.0]) == (4.0, 0.0)


def test_mean_ci_covers_the_mean_as_often_as_it_says():
    samples = rng(11).standard_normal((4000, 5))
    hits = sum(abs(mean) <= half for mean, half in map(metrics.mean_ci, samples))
    # binomial(4000, 0.95): sd 13.8; 5.5 sd, false alarm 4e-8
    assert abs(hits - 3800) < 76
