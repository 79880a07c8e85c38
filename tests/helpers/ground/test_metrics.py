"""Metrics: closed forms on tiny data, independent formulas, invariances, conventions."""

import math

import numpy as np
import pytest
from conftest import refuses
from conftest import seeded as rng
from scipy.spatial.distance import cdist
from sklearn.metrics import davies_bouldin_score, silhouette_samples

from fedclust_helpers import metrics
from studies.fastlloyd.cells import centroid_mse

PAIRS = [[0.0], [1.0], [10.0], [11.0]]  # inside distance 1, between the means 10


@pytest.fixture
def blobs():
    """Three clusters of 100, 80 and 20 points in 3 dimensions: points, centres, labels."""
    centers = np.array([[0.0, 0, 0], [8, 0, 0], [0, 8, 8]])
    labels = np.repeat([0, 1, 2], [100, 80, 20])
    points = centers[labels] + rng(1).standard_normal((200, 3))
    for array in (centers, labels, points):
        array.flags.writeable = False
    return points, centers, labels


def test_nicv_of_many_chunks_equals_one_formula():
    points, centers = rng(1).standard_normal((20_000, 2)), rng(2).standard_normal((7, 2))
    expected = cdist(points, centers, "sqeuclidean").min(axis=1).mean()
    assert metrics.nicv(points, centers) == pytest.approx(expected, rel=1e-12)
    refuses(ValueError, "centers must have 2 columns", metrics.nicv, points, centers[:, :1])


def test_silhouette_is_a_closed_form_and_that_of_a_seeded_subsample(blobs):
    # distances to the other pair 10 and 11 (mean 10.5), or 9 and 10 (mean 9.5)
    value = metrics.silhouette(PAIRS, [[0.5], [10.5]], rng=rng())
    assert value == pytest.approx((1 - 1 / 10.5 + 1 - 1 / 9.5) / 2, rel=1e-12)
    points, centers, labels = blobs
    whole = metrics.silhouette(points, centers, rng=rng(1))
    assert whole == pytest.approx(silhouette_samples(points, labels).mean(), abs=0.02)
    part = metrics.silhouette(points, centers, rng=rng(3), max_points=50)
    rows = rng(3).choice(200, 50, replace=False)
    assert part == metrics.silhouette(points[rows], centers, rng=rng(9)) != whole


def test_davies_bouldin_closed_form_and_oracle(blobs):
    # scatter 1/2 in each cluster: (0.5 + 0.5) / 10
    assert metrics.davies_bouldin(PAIRS, [[0.0], [12.0]]) == pytest.approx(0.1, rel=1e-12)
    points, centers, _ = blobs
    expected = davies_bouldin_score(points, cdist(points, centers).argmin(axis=1))
    far = np.vstack([centers, [[1e3, 1e3, 1e3]]])  # a centre without points changes nothing
    assert metrics.davies_bouldin(points, far) == pytest.approx(expected, rel=1e-12)


def test_one_cluster_and_one_point_per_cluster_have_the_values_of_the_paper(blobs):
    points, centers, _ = blobs
    far = [[0.0, 0, 0], [1e6, 0, 0]]  # every point goes to the first centre
    for one in ((points, far), (points, centers[:1]), (points[:1], centers)):
        assert metrics.silhouette(*one, rng=rng()) == -1
        assert metrics.davies_bouldin(*one) == math.inf
    assert metrics.silhouette(PAIRS, PAIRS, rng=rng()) == metrics.davies_bouldin(PAIRS, PAIRS) == 0


def test_centroid_mse_closed_form_needs_the_best_matching():
    # matching each centre to its nearest reference would use the reference at 0 twice
    centers, reference = [[0.0], [1.0]], [[0.0], [4.0]]
    assert centroid_mse(centers, reference) == pytest.approx((0 + 9) / 2)
    # summed over coordinates, averaged over centres, whatever their order
    assert centroid_mse([[0.0, 0.0]], [[1.0, 2.0]]) == 5
    assert centroid_mse(PAIRS[::-1], PAIRS) == 0
    refuses(ValueError, "reference must have as many rows", centroid_mse, PAIRS, reference)
