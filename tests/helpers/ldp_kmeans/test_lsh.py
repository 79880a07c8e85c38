"""Ball-carving LSH: buckets, coverage, and collision probabilities in closed form."""

import math

import numpy as np
import pytest
from conftest import generator

from fedclust_helpers.ldp_kmeans import lsh

# --- the hash -------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 2, 3, 4])
@pytest.mark.parametrize("n_grids", [1, 4])
def test_points_that_no_ball_caught_share_the_null_bucket(t, n_grids):
    """Uncovered: (1 - fraction)^U on average over shifts; 400 hashes, 4.5 standard errors."""
    rng = generator(t, n_grids, 2)
    points = rng.uniform(-100, 100, size=(100, 4))
    empty = [
        (lsh.BallCarvingHash(4, rng=rng, t=t, n_grids=n_grids)(points) == 0).mean()
        for _ in range(400)
    ]
    expected = (1 - lsh.ball_fraction(t)) ** n_grids
    se = np.std(empty) / math.sqrt(len(empty))
    assert abs(np.mean(empty) - expected) < 4.5 * se


def test_a_bucket_is_one_ball():
    """Points of a bucket are within 2w of each other after the projection; none is left over."""
    rng = generator(5)
    hashed = lsh.BallCarvingHash(6, rng=rng, t=2, scale=0.7)
    points = rng.normal(size=(5000, 6)) * 5
    keys = hashed(points)
    images = points @ hashed._matrix
    assert keys.dtype == np.uint64 and len(np.unique(keys)) > 50
    assert hashed.n_grids == lsh.grids_needed(2, 10**6, 0.01) and (keys != 0).all()
    for key in np.unique(keys):
        inside = images[keys == key]
        assert np.linalg.norm(inside[:, None] - inside[None], axis=2).max() <= 2 * hashed.width


def test_the_matrix_keeps_lengths_and_the_scale_counts_as_one():
    rng = generator(6)
    matrix = lsh.BallCarvingHash(20_000, rng=rng, t=3, scale=0.25)._matrix
    # E ||e_j A||^2 = 1/scale^2: 60 000 draws, 4.5 standard errors
    lengths = (matrix**2).sum(axis=1)
    assert lengths.mean() == pytest.approx(16, rel=4.5 * math.sqrt(2 / 60_000))
    points = rng.normal(size=(2000, 4))
    one = lsh.BallCarvingHash(4, rng=generator(7), t=2, scale=1.0)
    four = lsh.BallCarvingHash(4, rng=generator(7), t=2, scale=4.0)  # a power of two: exact
    assert np.array_equal(one(points), four(4 * points))
