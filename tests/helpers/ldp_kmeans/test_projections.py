"""Random projections: lengths, the stated clip rate, dimensions of the theory checks."""

import math

import numpy as np
import pytest
from conftest import generator
from scipy import stats

from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from fedclust_helpers.ldp_kmeans.projections import (
    BallProjection,
    row_products,
)
from studies.ldp_kmeans.bounds import jl_dimension, jl_failure


def sphere(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


# --- the map --------------------------------------------------------------------------------------


def test_images_are_scaled_projections_cut_to_the_ball():
    rng = generator(1)
    project = BallProjection(40, 4, rng=rng)
    points = sphere(rng, 3000, 40) * rng.random((3000, 1)) * 2
    plain = points @ project.matrix / project.scale
    lengths = np.linalg.norm(plain, axis=1)
    images, inside = project(points), lengths <= 1
    assert images.shape == (3000, 4) and 0 < inside.sum() < 3000
    assert images[inside] == pytest.approx(plain[inside], abs=1e-14)
    cut = plain[~inside] / lengths[~inside, None]
    assert images[~inside] == pytest.approx(cut, abs=1e-14)
    assert np.linalg.norm(images, axis=1).max() <= 1 + 1e-15
    assert (project(np.zeros((2, 40))) == 0).all()


def test_entries_are_gaussian_of_variance_one_over_d():
    """So E ||Tp||^2 = ||p||^2. 80 000 draws: false alarm below 1e-5 in each line."""
    normal = BallProjection(20_000, 4, rng=generator(2)).matrix
    assert normal.var() == pytest.approx(0.25, rel=4.5 * math.sqrt(2 / 80_000))
    assert abs(normal.mean()) < 4.5 * 0.5 / math.sqrt(80_000)
    assert stats.kstest(normal.ravel() * 2, "norm").pvalue > 1e-5


def test_identity_changes_nothing():
    points = sphere(generator(4), 100, 5) * 3
    project = BallProjection(5, 5, rng=generator(0), kind="identity")
    assert np.array_equal(project(points), points)  # not even points outside the ball


# --- the clip rate --------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 8])
def test_one_in_a_hundred_unit_vectors_is_cut(d):
    """Unit vectors e_1..e_m have independent Gaussian images, so the count cut is binomial.

    20 000 trials, 4.5 standard deviations: false alarm 7e-6.
    """
    rng = generator(d, 1)
    maps = [BallProjection(1000, d, rng=rng) for _ in range(20)]
    lengths = np.concatenate([np.linalg.norm(m.matrix / m.scale, axis=1) for m in maps])
    assert abs((lengths > 1).sum() - 200) < 4.5 * math.sqrt(20_000 * 0.01 * 0.99)
    assert (lengths / 2 > 1).mean() < 0.01  # shorter points are cut less often


# --- dimensions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.9])
def test_the_dimension_is_the_smallest_that_does(alpha, beta):
    d = jl_dimension(alpha, beta)
    assert jl_failure(d, alpha) <= beta
    assert d == 1 or all(jl_failure(m, alpha) > beta for m in range(max(1, d - 20), d))
    # Lemma 2.6: a constant near 1 in front of log(1/beta)/alpha^2
    if alpha < 0.1 and beta < 0.1:
        assert 0.6 < d * alpha**2 / math.log(1 / beta) < 1.3


# --- a row's image depends on that row alone ------------------------------------------------------


@pytest.mark.parametrize(("width", "d"), [(10, 4), (4, 3), (50, 4), (7, 1), (20, 20), (784, 6)])
def test_images_do_not_depend_on_other_rows_bit_for_bit(width, d):
    """Any number of rows, any order: else one user more could move others across a cell's border.

    (Plain matrix products fail this: the library changes kernels with the number of rows.)
    """
    rng = generator(width, d)
    matrix, points = rng.normal(size=(width, d)), rng.normal(size=(700, width))
    whole = row_products(points, matrix)
    for n in (*range(1, 20), 63, 64, 65, 127, 128, 129, 500, 699):
        assert np.array_equal(row_products(points[:n], matrix), whole[:n])
        assert np.array_equal(row_products(points[700 - n :], matrix), whole[700 - n :])
    order = rng.permutation(700)
    assert np.array_equal(row_products(points[order], matrix), whole[order])
    strided = np.repeat(points, 2, axis=0)[::2]
    assert np.array_equal(row_products(strided, matrix), whole)
    assert whole == pytest.approx(points @ matrix, rel=1e-12, abs=1e-12)


def test_projections_and_buckets_of_a_user_are_the_users_own():
    rng = generator(8)
    points = sphere(rng, 500, 20)
    project = BallProjection(20, 4, rng=rng)
    hashing = BallCarvingHash(20, rng=rng, t=3, scale=0.3)
    for image in (project, hashing):
        whole = image(points)
        for n in (1, 2, 3, 5, 17, 64, 65, 499):
            assert np.array_equal(image(points[:n]), whole[:n])
