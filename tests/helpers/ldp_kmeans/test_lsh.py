"""Ball-carving LSH: buckets, coverage, and collision probabilities in closed form."""

import math

import numpy as np
import pytest
from conftest import generator
from scipy import integrate, stats

from fedclust_helpers.ldp_kmeans import lsh
from studies.ldp_kmeans import bounds

# --- closed form ----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_the_closed_form_against_geometry(t):
    """Independent: volumes of two intersecting balls by integration, adaptive quadrature outside.

    The share I is the volume of the lens over that of the ball, by slices along the axis.
    """
    w = t**0.25

    def slices(low):
        # volume of the cap {x_1 > low} of a unit ball in t dimensions, over the ball's
        def section(x):
            return (1 - x * x) ** ((t - 1) / 2)

        return integrate.quad(section, low, 1)[0] / integrate.quad(section, -1, 1)[0]

    def both_over_either(rho):
        lens = 2 * slices(rho / (2 * w)) if rho < 2 * w else 0.0
        return lens / (2 - lens)

    def integrand(x, u):
        return both_over_either(u * x / math.sqrt(t)) * stats.chi.pdf(x, t)

    for u in (0.3, 1.0, 2.5):
        top = 2 * w * math.sqrt(t) / u
        points = [p for p in (math.sqrt(t) / 2, math.sqrt(t), 2 * math.sqrt(t)) if p < top]
        expected = integrate.quad(integrand, 0, min(top, 12.0), (u,), points=points)[0]
        assert bounds.collision_probability(u, t) == pytest.approx(expected, abs=1e-6)


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
