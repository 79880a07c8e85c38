"""k-means: independent oracles, the sphere packing, folding, and rows decided one by one."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import generator, refuses
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min
from threadpoolctl import threadpool_limits

from fedclust_helpers import _nearest, kmeans

SEED = 11
ROWS, CENTRES = np.arange(8.0).reshape(4, 2), np.array([[0.0, 1.0], [4.0, 5.0], [6.0, 7.0]])


def instance(n, d, k, seed=SEED):
    """Read-only points and centres in [-1, 1]^d."""
    made = [generator(i, seed).uniform(-1, 1, (m, d)) for i, m in enumerate((n, k))]
    for array in made:
        array.flags.writeable = False
    return made


def naive_sums_and_counts(points, centers, radius=None, relative=False):
    """One cluster after the other, distances by the definition: the oracle for the fast pass."""
    distances = np.linalg.norm(points[:, None] - centers[None], axis=2)
    labels = distances.argmin(axis=1)
    inside = distances.min(axis=1) <= (np.inf if radius is None else radius)
    masks = [(labels == j) & inside for j in range(len(centers))]
    own = centers if relative else np.zeros_like(centers)
    sums = np.array([(points[m] - c).sum(axis=0) for m, c in zip(masks, own, strict=True)])
    return sums, np.array([m.sum() for m in masks])


sizes = st.tuples(st.integers(1, 60), st.integers(1, 6), st.integers(1, 9), st.integers(0, 10**6))
radii = st.none() | st.floats(0.05, 2)


# --- assignment, cost, sums -----------------------------------------------------------------------


@given(sizes, radii)
def test_assignment_and_cost_agree_with_scikit_learn(size, radius):
    points, centers = instance(*size)
    labels, distances = pairwise_distances_argmin_min(points, centers)
    got = kmeans.assign(points, centers, radius=radius)
    inside = distances <= (np.inf if radius is None else radius)
    np.testing.assert_array_equal(got.labels, np.where(inside, labels, -1))
    np.testing.assert_allclose(got.squared, distances**2, atol=1e-13)
    cost = kmeans.kmeans_cost(points, centers)
    assert cost == pytest.approx((distances**2).sum(), rel=1e-10, abs=1e-12)
    assert kmeans.kmeans_cost(points, centers, normalize=True) == pytest.approx(cost / len(points))


def test_a_point_beyond_the_radius_by_rounding_never_counts():
    """The sensitivity of a relative sum rests on this: whatever is inside is truly inside."""
    rng, radius = generator(SEED), 0.3
    centers = rng.uniform(-1, 1, (5, 8))
    directions = rng.normal(size=(5000, 8))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    which = rng.integers(5, size=5000)
    lengths = radius * (1 + rng.integers(-8, 9, 5000) * 2.0**-53)
    points = centers[which] + lengths[:, None] * directions
    labels = kmeans.assign(points, centers, radius=radius).labels
    inside = labels >= 0
    distances = np.linalg.norm((points - centers[labels]).astype(np.longdouble), axis=1)
    assert not inside.all()
    assert (distances[inside] <= radius).all()
    # points that are inside by more than rounding do count
    clear = centers[which] + 0.99999999 * radius * directions
    assert (kmeans.assign(clear, centers, radius=radius).labels >= 0).all()


@given(sizes, radii, st.booleans(), st.data())
def test_each_client_gives_its_own_sums_and_counts(size, radius, relative, data):
    points, centers = instance(*size)
    cuts = data.draw(st.lists(st.integers(0, len(points)), max_size=8))
    offsets = np.array([0, *sorted(cuts), len(points)])
    offsets.flags.writeable = False
    how = {"radius": radius, "relative": relative}
    sums, counts = kmeans.sums_and_counts(points, centers, offsets=offsets, **how)
    assert sums.shape == (len(offsets) - 1, *centers.shape) and counts.dtype == np.int64
    for i in range(len(offsets) - 1):
        own = naive_sums_and_counts(points[offsets[i] : offsets[i + 1]], centers, **how)
        np.testing.assert_allclose(sums[i], own[0], atol=1e-12)
        np.testing.assert_array_equal(counts[i], own[1])
    pooled = kmeans.sums_and_counts(points, centers, **how)
    np.testing.assert_allclose(sums.sum(axis=0), pooled[0], atol=1e-12)
    np.testing.assert_array_equal(counts.sum(axis=0), pooled[1])


@pytest.mark.parametrize("radius", [None, 0.6, 0.01])
@pytest.mark.parametrize("chunk", [1, 7, 99])
def test_the_chunk_size_does_not_matter(monkeypatch, chunk, radius):
    points, centers = instance(100, 2, 4)
    offsets = np.array([0, 0, 1, 30, 30, 99, 100, 100])  # with clients that have no rows
    whole = kmeans.sums_and_counts(points, centers, radius=radius, offsets=offsets)
    monkeypatch.setattr(kmeans, "CHUNK", chunk)
    sums, counts = kmeans.sums_and_counts(points, centers, radius=radius, offsets=offsets)
    np.testing.assert_allclose(sums, whole[0], atol=1e-13)
    np.testing.assert_array_equal(counts, whole[1])


# --- Lloyd ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "k"), [(50, 1, 3), (800, 10, 4)])
@pytest.mark.parametrize("rounds", [1, 100])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounds_are_iterations_of_scikit_learn(n, d, k, rounds):
    points, _ = instance(n, d, k)
    init = np.array(points[:k])  # centres on data points: no cluster is empty
    model = KMeans(k, init=init, n_init=1, max_iter=rounds, tol=0, algorithm="lloyd").fit(points)
    centers = kmeans.lloyd(points, init, n_rounds=rounds)
    np.testing.assert_allclose(centers, model.cluster_centers_, atol=1e-12)


def test_empty_clusters_keep_their_centre_and_inputs_are_left_alone():
    points = np.array([[0.0, 0.0], [0.2, 0.0], [5.0, 0.0]])
    centers = np.array([[0.1, 0.5], [4.0, 0.0], [9.0, 9.0]])
    moved = kmeans.lloyd(points, centers, n_rounds=3)
    np.testing.assert_allclose(moved, [[0.1, 0.0], [5.0, 0.0], [9.0, 9.0]])
    np.testing.assert_array_equal(centers[0], [0.1, 0.5])
    assert not np.shares_memory(kmeans.lloyd(points, centers, n_rounds=0), centers)


def in_order(centers):
    return centers[np.lexsort(centers.T)]


def test_weights_are_repetitions():
    """On separated clusters every start finds the same optimum, with weights or with copies."""
    rng = generator(SEED)
    true = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    points = np.repeat(true, 12, axis=0) + rng.normal(scale=0.3, size=(36, 2))
    weights = rng.integers(0, 6, 36)
    points.flags.writeable = weights.flags.writeable = False
    weighted = kmeans.weighted_kmeans(points, weights, 3, rng=rng)
    repeated = kmeans.weighted_kmeans(np.repeat(points, weights, axis=0), None, 3, rng=rng)
    np.testing.assert_allclose(in_order(weighted), in_order(repeated), atol=1e-9)
    labels = np.repeat(np.arange(3), 12)
    means = [
        np.average(points[labels == j], axis=0, weights=weights[labels == j]) for j in (0, 1, 2)
    ]
    np.testing.assert_allclose(in_order(weighted), in_order(np.array(means)), atol=1e-9)


# --- sphere packing -------------------------------------------------------------------------------


def packed(monkeypatch, k, d, seed, **options):
    """Centres, and the radius `a` that was feasible for them."""
    tried = {}
    pack = kmeans._pack

    def spy(k, d, bound, distance, rng):
        centers = pack(k, d, bound, distance, rng)
        if centers is not None:
            tried[centers.tobytes()] = distance
        return centers

    with monkeypatch.context() as patch:
        patch.setattr(kmeans, "_pack", spy)
        centers = kmeans.sphere_packing(k, d, rng=generator(seed), **options)
    return centers, tried[centers.tobytes()]


@pytest.mark.parametrize("method", ["halving", "largest"])
@pytest.mark.parametrize("bound", [1.0, 40.0])
@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 1), (15, 2), (3, 30)])
def test_centres_keep_their_distances(monkeypatch, method, bound, k, d):
    for seed in range(5):
        centers, a = packed(monkeypatch, k, d, seed, method=method, bound=bound)
        assert centers.shape == (k, d) and a > 0
        assert (np.abs(centers) <= bound - a + 1e-12 * bound).all()
        if k > 1:
            assert pdist(centers).min() >= 2 * a * (1 - 1e-12)
        if method == "halving":
            assert math.log2(bound / a).is_integer()


@pytest.mark.parametrize(
    ("k", "d", "halving", "largest"), [(15, 2, 0.125, 0.187), (3, 4, 0.45, 0.51)]
)
def test_the_mean_radius_is_that_of_the_notes(monkeypatch, k, d, halving, largest):
    """s1 (k=15, d=2) and iris (k=3, d=4), against the authors' code and a true binary search.

    Fixed seeds. The radius varies from seed to seed by about 0.01 (s1) and 0.1 (iris), so that a
    mean of 40 is off by 0.016 for iris: 0.05 is three of those.
    """
    tolerance = 0.012 if k == 15 else 0.05
    for method, expected in (("halving", halving), ("largest", largest)):
        found = [packed(monkeypatch, k, d, s, method=method)[1] for s in range(40)]
        assert np.mean(found) == pytest.approx(expected, abs=tolerance)


# --- folding and truncation (theory checks F5, notes section 7) -----------------------------------

bounds = st.sampled_from([1.0, 0.5, 3.0, 7.25])


@given(st.floats(-50, 50), bounds)
def test_folding_is_a_triangle_wave(x, bound):
    """An independent formula: the arc sine of a sine."""
    expected = math.asin(math.sin(math.pi * x / 2)) * 2 / math.pi * bound
    assert float(kmeans.fold(x * bound, bound=bound)) == pytest.approx(expected, abs=1e-6 * bound)


@given(st.floats(-1, 1), st.floats(-1e300, 1e300), bounds)
def test_folding_is_exact_inside_and_always_ends_there(x, y, bound):
    assert float(kmeans.fold(x * bound, bound=bound)) == x * bound
    assert -bound <= kmeans.fold(y, bound=bound) <= bound


def test_truncation_clips_and_what_is_short_stays_as_it_is():
    rows = [[0.3, 0.4], [3.0, 4.0], [0.0, 0.0]]
    np.testing.assert_allclose(
        kmeans.shortened(np.array(rows), 1.0), [rows[0], [0.6, 0.8], rows[2]], rtol=1e-15
    )
    np.testing.assert_array_equal(kmeans.truncate([[-5, 0, 5]], bound=2.0), [[-2, 0, 2]])


# --- a row is decided by itself -------------------------------------------------------------------


def tied_rows(n, d, k, seed=SEED):
    """Rows with equal coordinates and centres that are shuffles of one: every distance is a tie."""
    rng = generator(seed)
    centers = np.stack([rng.permutation(np.linspace(-1, 1, d) + 0.1) for _ in range(k)])
    return np.repeat(rng.uniform(-1, 1, (n, 1)), d, axis=1), centers


def near_ties(n, d, k, seed=SEED):
    """Rows in the middle of two centres, moved by at most two units in the last place."""
    rng = generator(seed)
    centers = rng.uniform(-1, 1, (k, d))
    middle = (centers[rng.integers(k, size=n)] + centers[rng.integers(k, size=n)]) / 2
    return middle * (1 + rng.integers(-2, 3, (n, d)) * 2.0**-52), centers


def grid_rows(n, d, k, seed=SEED):
    """Small integers: ties that floats compute exactly, and centres that coincide."""
    rng = generator(seed)
    points = rng.integers(-2, 3, (n, d)).astype(float)
    centers = rng.integers(-2, 3, (k, d)).astype(float)
    centers[k // 2] = centers[0]
    return points, centers


def far_rows(n, d, k, seed=SEED):
    """Rows far from the origin, where the expanded square has no correct digit."""
    points, centers = near_ties(n, d, k, seed)
    return points + 1.6e9, centers + 1.6e9


def extreme_rows(n, d, k, seed=SEED):
    """Rows of many magnitudes, up to squares that overflow and down to denormal numbers."""
    points, centers = near_ties(n, d, k, seed)
    points *= 10.0 ** generator(seed).choice([-320, -160, -20, 0, 0, 20, 150, 300], (n, 1))
    return points, centers


KINDS = (tied_rows, near_ties, grid_rows, far_rows, extreme_rows)
by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
# n k d is about 1e6, where BLAS changes its kernel; few and many centres, one and many dimensions
SHAPES = [(2503, 64, 8), (2503, 5, 80), (2503, 1, 400), (2503, 400, 1), (2503, 16, 25)]


def decisions(points, centers, radius):
    """Label and inside, row by row: -1 is outside, and labels without a radius."""
    return np.stack([kmeans.assign(points, centers, radius=r).labels for r in (None, radius)])


def typical_radius(points, centers):
    """The median distance: as many rows inside as outside, and some exactly on the sphere."""
    return float(np.sqrt(np.median(kmeans.assign(points, centers).squared))) or 1.0


@by_kind
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_is_decided_by_itself_whatever_the_rows_their_layout_and_threads(kind, shape):
    points, centers = kind(*shape)
    radius = typical_radius(points, centers)
    whole = decisions(points, centers, radius)
    for n in (1, 2, 3, 8, 31, 64, 2048, 2499, 2500, 2501):
        np.testing.assert_array_equal(decisions(points[:n], centers, radius), whole[:, :n])
        counts = kmeans.sums_and_counts(points[:n], centers, radius=radius)[1]
        kept = whole[1, :n]
        np.testing.assert_array_equal(counts, np.bincount(kept[kept >= 0], minlength=len(centers)))
    order = generator(SEED).permutation(len(points))
    np.testing.assert_array_equal(decisions(points[order], centers, radius), whole[:, order])
    twice = np.concatenate([points, points], axis=1)
    for layout in (np.asfortranarray(points), twice[:, : shape[1]]):
        for threads in (1, 2):
            with threadpool_limits(threads):
                got = decisions(layout, np.asfortranarray(centers), radius)
                np.testing.assert_array_equal(got, whole)


@by_kind
@pytest.mark.parametrize("block", [1, 64, 500, 1 << 14])
def test_a_row_is_decided_by_itself_whatever_the_blocks(kind, block, monkeypatch):
    points, centers = kind(1500 if block > 1 else 250, 16, 25)
    radius = typical_radius(points, centers)
    whole = decisions(points, centers, radius)
    monkeypatch.setattr(kmeans, "CHUNK", block)
    np.testing.assert_array_equal(decisions(points, centers, radius), whole)
    # the same with the parts of the filter that a block of this size would not reach
    for names, value in ((("_TINY", "_FEW", "_SMALL"), 0), (("_NARROW",), 0), (("_TINY",), 10**12)):
        for name in names:
            monkeypatch.setattr(_nearest, name, value)
        np.testing.assert_array_equal(decisions(points, centers, radius), whole)


@by_kind
def test_labels_are_those_of_the_sum_in_order(kind):
    """The filter by matrix products never overrules the definition, written here once more."""
    points, centers = kind(700, 9, 12)
    scale = np.exp2(-np.frexp(np.maximum(np.abs(points).max(axis=1), 1))[1].clip(481) + 481.0)
    scale = np.where(scale < 1, scale * 2.0**-481, 1.0)
    squared = np.zeros((len(centers), len(points)))
    for j in range(points.shape[1]):
        squared += (points[:, j] * scale - centers[:, j, None] * scale) ** 2
    np.testing.assert_array_equal(kmeans.assign(points, centers).labels, squared.argmin(axis=0))


@pytest.mark.parametrize("n_before", [0, kmeans.CHUNK - 1, kmeans.CHUNK])
def test_the_sums_of_a_client_depend_on_its_rows_alone(n_before):
    """Bit for bit: blocks are cut between clients."""
    own, centers = instance(3001, 3, 4)
    others = instance(n_before + 1, 3, 4, seed=5)[0][1:]
    points = np.concatenate([others, own, others])
    edges = np.array([0, n_before, n_before + len(own), len(points)])
    labels = kmeans.assign(points, centers).labels
    mine = labels[n_before : n_before + len(own)]
    for alone, together in (
        (kmeans.sums_and_counts(own, centers, radius=0.9),
         kmeans.sums_and_counts(points, centers, radius=0.9, offsets=edges)),
        (kmeans.group_sums(own, mine, 4), kmeans.group_sums(points, labels, 4, offsets=edges)),
    ):  # fmt: skip
        np.testing.assert_array_equal(together[0][1], alone[0])
        np.testing.assert_array_equal(together[1][1], alone[1])


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("assign", (ROWS[:, :1], CENTRES)),
        ("assign", (ROWS, CENTRES[0])),
        ("assign", ([[np.nan, 0.0]], CENTRES)),
        ("assign", (ROWS, [[np.inf, 0.0]])),
        ("assign", (ROWS.astype(complex), CENTRES)),
        ("assign", (ROWS.astype(str), CENTRES)),
        ("sums_and_counts", (ROWS[:, :1], CENTRES)),
        ("sums_and_counts", ([[np.nan, 0.0]], CENTRES)),
        ("group_sums", (ROWS, [0, 1, 2, 10**6], 3)),
        ("group_sums", (ROWS, [0, 1, 2, 3], 3)),
        ("group_sums", (ROWS, [0, 1, 2, -2], 3)),
        ("group_sums", (ROWS, [0, 1, 2], 3)),
        ("group_sums", (ROWS, [0.0, 1.0, 2.0, 2.0], 3)),
        ("group_sums", (ROWS, [0, 0, 0, 0], 0)),
    ],
)
def test_what_would_be_wrong_or_beyond_memory_is_refused(name, given):
    said = "points|centers|labels|n_groups"
    refuses((TypeError, ValueError), said, getattr(kmeans, name), *given)


@pytest.mark.parametrize("offsets", [[0, 5], [0, 3, 2], [-1, 4], [0], [0.0, 4.0]])
def test_offsets_beyond_the_rows_are_refused(offsets):
    error = (TypeError, ValueError)
    refuses(error, "offsets", kmeans.sums_and_counts, ROWS, CENTRES, offsets=offsets)
    refuses(error, "offsets", kmeans.group_sums, ROWS, [0, 1, 2, 2], 3, offsets=offsets)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_child_ends_after_its_parent_ran_kmeans_on_two_threads():
    code = """
import multiprocessing, sys, numpy as np
from fedclust_helpers.kmeans import weighted_kmeans
def run():
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    weighted_kmeans(rows, None, 3, rng=np.random.default_rng(0))
run()
child = multiprocessing.get_context("fork").Process(target=run)
child.start()
child.join(60)
ended = child.exitcode == 0
child.kill()
sys.exit(not ended)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
