"""Random projections: lengths, the stated clip rate, dimensions of the theory checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from fedclust_helpers.ldp_kmeans.projections import (
    BallProjection,
    jl_dimension,
    jl_failure,
    kmeans_dimension,
    row_products,
)

NAN = float("nan")


def generator(*seed):
    return np.random.default_rng(list(seed))


def sphere(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


# --- the map --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "sign"])
def test_images_are_scaled_projections_cut_to_the_ball(kind):
    rng = generator(1)
    project = BallProjection(40, 4, rng=rng, kind=kind, clip_rate=0.2)
    points = sphere(rng, 3000, 40) * rng.random((3000, 1))
    plain = points @ project.matrix / project.scale
    lengths = np.linalg.norm(plain, axis=1)
    images = project(points)
    assert images.shape == (3000, 4)
    inside = lengths <= 1
    assert images[inside] == pytest.approx(plain[inside], abs=1e-14)
    cut = plain[~inside] / lengths[~inside, None]
    assert images[~inside] == pytest.approx(cut, abs=1e-14)
    assert np.linalg.norm(images, axis=1).max() <= 1 + 1e-15
    assert project.n_clipped(points) == (~inside).sum() > 0
    assert (project(np.zeros((2, 40))) == 0).all()


def test_entries_are_what_the_kind_says():
    rng = generator(2)
    signs = BallProjection(50, 4, rng=rng, kind="sign").matrix
    assert set(np.unique(signs)) == {-0.5, 0.5}
    normal = BallProjection(20_000, 4, rng=rng).matrix
    # 80 000 draws of variance 1/4: false alarm below 1e-5 in each line
    assert normal.var() == pytest.approx(0.25, rel=4.5 * math.sqrt(2 / 80_000))
    assert abs(normal.mean()) < 4.5 * 0.5 / math.sqrt(80_000)
    assert stats.kstest(normal.ravel() * 2, "norm").pvalue > 1e-5


@pytest.mark.parametrize("kind", ["gaussian", "sign"])
def test_lengths_are_kept_on_average(kind):
    """E ||Tp||^2 = ||p||^2 for any fixed p, over the draw of T: 4.5 standard errors."""
    rng = generator(3)
    point = sphere(rng, 1, 30)
    maps = [BallProjection(30, 3, rng=rng, kind=kind) for _ in range(3000)]
    squared = np.array([((point @ m.matrix) ** 2).sum() for m in maps])
    assert abs(squared.mean() - 1) < 4.5 * squared.std() / math.sqrt(3000)


def test_identity_changes_nothing():
    points = sphere(generator(4), 100, 5) * 3
    project = BallProjection(5, 5, rng=generator(0), kind="identity")
    assert np.array_equal(project(points), points)  # not even points outside the ball
    assert project.n_clipped(points) == 0
    assert project.scale == 1.0 and project.clip_rate == 0.0
    assert np.array_equal(project.matrix, np.eye(5))


def test_the_same_seed_gives_the_same_map():
    one, two = (BallProjection(9, 3, rng=generator(5)) for _ in range(2))
    assert np.array_equal(one.matrix, two.matrix)
    assert not np.array_equal(one.matrix, BallProjection(9, 3, rng=generator(6)).matrix)


# --- the clip rate --------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_rate", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_clip_rate_is_exact_for_unit_vectors(clip_rate, d):
    """Unit vectors e_1..e_m have independent Gaussian images, so the count clipped is binomial.

    20 000 trials, 4.5 standard deviations: false alarm 7e-6.
    """
    rng, axes = generator(d, int(100 * clip_rate)), np.eye(1000)
    maps = [BallProjection(1000, d, rng=rng, clip_rate=clip_rate) for _ in range(20)]
    clipped = sum(m.n_clipped(axes) for m in maps)
    sd = math.sqrt(20_000 * clip_rate * (1 - clip_rate))
    assert abs(clipped - 20_000 * clip_rate) < 4.5 * sd
    # shorter points are cut less often
    shorter = sum(m.n_clipped(axes * 0.5) for m in maps[:4])
    assert shorter / 4000 < clip_rate


@pytest.mark.parametrize(("d", "scale"), [(2, 2.15), (3, 1.95), (4, 1.82), (6, 1.67), (8, 1.59)])
def test_scales_of_the_notes(d, scale):
    """Notes section 2.1: sqrt(chi2.ppf(.99, d)/d)."""
    assert BallProjection(50, d, rng=generator(0)).scale == pytest.approx(scale, abs=0.006)


def test_keeping_everybody_inside_needs_more_room():
    """Notes section 2.1: n = 1e6, beta = .01 at d = 4 needs 3.28."""
    sure = BallProjection(50, 4, rng=generator(0), clip_rate=0.01 / 10**6)
    assert sure.scale == pytest.approx(3.28, abs=0.005)
    assert sure.n_clipped(np.eye(50)) == 0


# --- dimensions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "beta", "d"), [(0.1, 0.1, 150), (0.1, 0.01, 369), (0.2, 0.1, 42), (0.2, 0.01, 104)]
)
def test_dimensions_of_theory_check_p2(alpha, beta, d):
    assert jl_dimension(alpha, beta) == d


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.9])
def test_the_dimension_is_the_smallest_that_does(alpha, beta):
    d = jl_dimension(alpha, beta)
    assert jl_failure(d, alpha) <= beta
    assert d == 1 or all(jl_failure(m, alpha) > beta for m in range(max(1, d - 20), d))
    # Lemma 2.6: a constant near 1 in front of log(1/beta)/alpha^2
    if alpha < 0.1 and beta < 0.1:
        assert 0.6 < d * alpha**2 / math.log(1 / beta) < 1.3


def test_the_failure_probability_against_projections():
    """20 000 images of unit vectors: rates within 4.5 standard deviations, both sides counted."""
    rng = generator(9)
    for d, alpha in ((4, 0.3), (20, 0.2)):
        lengths = np.linalg.norm(BallProjection(20_000, d, rng=rng).matrix, axis=1)
        outside = ((lengths > 1 + alpha) | (lengths < 1 / (1 + alpha))).mean()
        p = jl_failure(d, alpha)
        assert abs(outside - p) < 4.5 * math.sqrt(p * (1 - p) / 20_000)


def test_one_dimension_is_a_normal_distribution():
    inside = stats.norm.cdf(1.5) - stats.norm.cdf(1 / 1.5)
    assert jl_failure(1, 0.5) == pytest.approx(1 - 2 * inside, rel=1e-12)


@pytest.mark.parametrize(("alpha", "d"), [(0.1, 691), (0.2, 156), (0.5, 22)])
def test_dimensions_of_theory_check_p3(alpha, d):
    """k = 10, beta = 0.1, constant 1."""
    assert kmeans_dimension(10, alpha, 0.1) == d
    assert kmeans_dimension(10, alpha, 0.1) == math.ceil(math.log(10 / (0.1 * alpha)) / alpha**2)
    assert kmeans_dimension(1, 5.0, 0.9) == 1  # never none


def test_that_dimension_keeps_the_cost_of_a_fixed_clustering():
    """Theorem 2.7 (theory check P3): alpha = .2 at d = 156 gave ratios .943 to 1.061."""
    rng = generator(10)
    points = rng.normal(size=(300, 300)) * 0.02 + sphere(rng, 10, 300)[rng.integers(10, size=300)]
    labels = rng.integers(10, size=300)

    def cost(x):
        means = np.array([x[labels == j].mean(axis=0) for j in range(10)])
        return ((x - means[labels]) ** 2).sum()

    ratios = [
        cost(points @ BallProjection(300, 156, rng=rng).matrix) / cost(points) for _ in range(8)
    ]
    assert 1 / 1.2 < min(ratios) and max(ratios) < 1.2


# --- wrong use ------------------------------------------------------------------------------------


def projection(n_features=10, n_outputs=3, **options):
    return BallProjection(n_features, n_outputs, **{"rng": generator(0), **options})


WRONG = {
    "no columns": (lambda: projection(0), ValueError, "^n_features must be >= 1"),
    "half a column": (lambda: projection(10, 2.5), TypeError, "^n_outputs must be an integer"),
    "no outputs": (lambda: projection(10, 0), ValueError, "^n_outputs must be >= 1"),
    "up": (lambda: projection(3, 4), ValueError, "^n_outputs must be >= 1 and <= 3"),
    "no rng": (lambda: projection(rng=None), TypeError, "^rng must be a numpy.random.Generator"),
    "seed": (lambda: projection(rng=3), TypeError, "^rng must be a numpy.random.Generator"),
    "kind": (lambda: projection(kind="pca"), ValueError, "^kind must be one of gaussian, sign"),
    "identity": (
        lambda: projection(kind="identity"),
        ValueError,
        "^n_outputs must equal n_features for kind 'identity'",
    ),
    "rate 0": (lambda: projection(clip_rate=0.0), ValueError, r"^clip_rate must lie in \(0, 1\)"),
    "rate 1": (lambda: projection(clip_rate=1.0), ValueError, r"^clip_rate must lie in \(0, 1\)"),
    "rate nan": (lambda: projection(clip_rate=NAN), ValueError, "^clip_rate must be a number"),
    "columns": (lambda: projection()(np.zeros((2, 9))), ValueError, "^points must have 10 columns"),
    "nan": (lambda: projection()(np.full((2, 10), NAN)), ValueError, "^points must be finite"),
    "clipped columns": (
        lambda: projection().n_clipped(np.zeros((2, 9))),
        ValueError,
        "^points must have 10 columns",
    ),
    "alpha 0": (lambda: jl_dimension(0.0, 0.1), ValueError, "^alpha must be finite and > 0"),
    "beta 0": (lambda: jl_dimension(0.1, 0.0), ValueError, r"^beta must lie in \(0, 1\)"),
    "alpha text": (lambda: jl_dimension("a", 0.1), TypeError, "^alpha must be a real number"),
    "clusters": (lambda: kmeans_dimension(0, 0.1, 0.1), ValueError, "^n_clusters must be >= 1"),
    "kmeans alpha": (lambda: kmeans_dimension(3, 0.0, 0.1), ValueError, "^alpha must be finite"),
    "kmeans beta": (
        lambda: kmeans_dimension(3, 0.1, -1.0),
        ValueError,
        r"^beta must lie in \(0, 1\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_named(case):
    call, error, match = WRONG[case]
    with pytest.raises(error, match=match):
        call()


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
