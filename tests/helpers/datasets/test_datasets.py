"""Data sets: shipped ones, generated ones against their definition, splits, scaling."""

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from conftest import seeded as rng
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2

from fedclust_helpers import datasets
from studies.fastlloyd.problems import scale_min_max_not_private
from studies.paper_data.records import apportion


@pytest.mark.parametrize(
    ("name", "n", "d", "k"), [("iris", 150, 4, 3), ("wine", 178, 13, 3), ("digits", 1797, 64, 10)]
)
def test_shipped_data_lie_in_their_public_bounds(name, n, d, k):
    data = getattr(datasets, f"load_{name}")()
    assert repr(data) == f"Dataset('{name}', n={n}, d={d}, k={k})"
    np.testing.assert_array_equal(np.unique(data.labels), np.arange(k))
    assert np.abs(data.scaled()).max() <= 1 and len(data.feature_names) == d
    assert data.source == "scikit-learn" and data.licence and data.citation and data.bounds_note


# ---- generators --------------------------------------------------------------------------------


def test_gaussian_mixture_has_the_means_and_covariances_asked_for():
    means = np.array([[0.0, 0.0], [40.0, -40.0]])
    covariances = np.array([[[4.0, 1.5], [1.5, 1.0]], [[1.0, -2.0], [-2.0, 9.0]]])
    for array in (means, covariances):
        array.flags.writeable = False
    data = datasets.gaussian_mixture(means, covariances, [3000, 5000], rng=rng(4))
    for j, n in enumerate((3000, 5000)):
        group = data.points[data.labels == j] - means[j]
        assert len(group) == n
        # n <mean, cov^-1 mean> is chi-square with 2 degrees of freedom; false alarm 1e-6
        mean = group.mean(axis=0)
        distance = n * mean @ np.linalg.solve(covariances[j], mean)
        assert distance < chi2.isf(1e-6, 2)
        # one sd of an entry is at most 9 sqrt(2 / 3000) = 0.23 (variances), 6 sd allowed
        np.testing.assert_allclose(group.T @ group / n, covariances[j], atol=1.4)


# ---- splits ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32))
def test_iid_split_is_equal_and_complete(n, n_clients, seed):
    if n_clients > n:
        with pytest.raises(ValueError, match="n_clients must be <= n"):
            datasets.partition_iid(n, n_clients, rng=rng(seed))
        return
    client_of = datasets.partition_iid(n, n_clients, rng=rng(seed))
    sizes = np.bincount(client_of, minlength=n_clients)
    assert client_of.shape == (n,) and client_of.dtype == np.int64
    assert len(sizes) == n_clients and sizes.max() - sizes.min() <= 1


def test_iid_split_is_random():
    # every row is equally likely at each client: 4000 splits of 6 rows over 2 clients
    hits = sum(datasets.partition_iid(6, 2, rng=rng(seed)) for seed in range(4000))
    assert (np.abs(hits - 2000) < 6 * np.sqrt(1000)).all()  # 6 rows, false alarm 1e-8


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 400),
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40),
)
def test_sizes_follow_the_proportions(spare, proportions):
    weights = np.array(proportions)
    n = len(weights) + spare
    sizes = apportion(n, weights)
    assert sizes.sum() == n and len(sizes) == len(weights) and sizes.min() >= 1
    assert apportion(100, np.array([1e-9, 1, 3])).tolist() == [1, 25, 74]
    share = n * weights / weights.sum()
    if share.min() >= 1:
        assert np.abs(sizes - share).max() < 1 + 1e-9
    # a larger proportion never gets much less: monotone up to rounding
    order = np.argsort(weights, kind="stable")
    assert (np.diff(sizes[order]) >= -1).all()


# ---- scaling -----------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=finite))
def test_min_max_reaches_both_ends_and_stays_inside(points):
    points.flags.writeable = False
    scaled = scale_min_max_not_private(points, bound=2.0)
    assert scaled.min() >= -2 and scaled.max() <= 2
    varying = points.max(axis=0) > points.min(axis=0)
    assert (scaled[:, varying].min(axis=0) == -2).all()
    assert (scaled[:, varying].max(axis=0) == 2).all()
    assert (scaled[:, ~varying] == 0).all()


def test_scaling_with_public_bounds():
    points = np.array([[0.0, 7.0, 255.0], [10.0, 9.0, 0.0], [-10.0, 7.0, 300.0]])
    points.flags.writeable = False
    scaled = datasets.scale_to_box(points, [0, 7, 0], [10, 7, 255])
    # a value outside its bounds stays outside; a column of width 0 becomes 0
    np.testing.assert_allclose(scaled, [[-1, 0, 1], [1, 0, -1], [-3, 0, 300 / 127.5 - 1]])
    np.testing.assert_array_equal(
        datasets.scale_to_box(points[:, :1], 0, 10, bound=5), [[-5], [5], [-15]]
    )
    # the map does not depend on the data: one row alone gives the same row
    np.testing.assert_array_equal(
        datasets.scale_to_box(points[:1], [0, 7, 0], [10, 7, 255]), scaled[:1]
    )
    for other in (points.astype(int), points.astype(np.float32), pd.DataFrame(points)):
        np.testing.assert_allclose(datasets.scale_to_box(other, [0, 7, 0], [10, 7, 255]), scaled)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0, 1], [1, 0], "upper must be >= lower"),
        ([0], [1, 1], "lower must be a number or 2 numbers"),
        (0, np.inf, "upper must be finite"),
        (np.nan, 1, "lower must be finite"),
        (-1e308, 1e308, "upper - lower must be finite"),
    ],
)
def test_scaling_refuses_wrong_bounds(lower, upper, message):
    refuses(ValueError, message, datasets.scale_to_box, np.zeros((3, 2)), lower, upper)


@pytest.mark.parametrize("lower", [0.0, -1e-320, 1e307])
@pytest.mark.parametrize("width", [5e-324, 1e-300, 1.0, 1e307])
@pytest.mark.parametrize("bound", [5e-324, 1.0, 1e308])
def test_scaling_is_finite_and_keeps_the_order(lower, width, bound):
    """Rows far outside stay outside; nothing becomes inf or nan."""
    points = np.array([[-1.7e308], [-1.0], [0.0], [1.0], [1e300], [1.7e308]])
    scaled = datasets.scale_to_box(points, lower, lower + width, bound=bound)
    assert np.isfinite(scaled).all() and (np.diff(scaled[:, 0]) >= 0).all()
    if width >= 1 and bound == 1.0 and lower == 0.0:
        assert scaled[0] < -bound and scaled[-1] > bound


def test_changing_the_callers_arrays_changes_no_record():
    given = {
        "points": np.random.default_rng(1).uniform(0, 10, (40, 3)), "labels": np.repeat([0, 1], 20),
        "n_clusters": 2, "bounds": ([0.0, 0, 0], [10.0, 10, 10]), "bounds_note": "n",
        "feature_names": ("a", "b", "c"), "name": "x", "source": "s", "licence": "l",
        "citation": "c",
    }  # fmt: skip
    mine = {
        name: np.array(value) if isinstance(value, np.ndarray | list) else value
        for name, value in given.items()
    }
    record = datasets.Dataset(**mine)
    arrays = {name: value for name, value in mine.items() if isinstance(value, np.ndarray)}
    before = {name: getattr(record, name).copy() for name in arrays}
    for value in arrays.values():
        value[:] = value[::-1].copy() if value.dtype == bool else value + 7
    for name in arrays:
        np.testing.assert_array_equal(getattr(record, name), before[name])
        with pytest.raises(ValueError, match="read-only"):
            getattr(record, name)[0] = 0
