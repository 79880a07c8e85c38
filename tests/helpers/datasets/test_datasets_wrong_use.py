"""Data sets refuse what they cannot use: sizes, extreme numbers; and copies."""

import inspect

import numpy as np
import pytest
from conftest import seeded as rng

from fedclust_helpers import datasets

POINTS = np.random.default_rng(1).uniform(0, 10, (40, 3))
LABELS = np.repeat([0, 1], 20)
TEXTS = {"name": "x", "source": "s", "licence": "l", "citation": "c"}


CALLS = {
    "gaussian_mixture": {"means": [[0.0, 0], [9, 9]], "covariances": 1.0, "sizes": [30, 20],
                         "rng": rng(), "n_outliers": 3, "name": "a", "citation": "c"},
    "make_ball_mixture": {"n": 100, "n_features": 2, "n_clusters": 3, "rng": rng(), "radius": 0.15},
    "partition_iid": {"n": 20, "n_clients": 4, "rng": rng()},
    "partition_dirichlet": {"labels": LABELS, "n_clients": 4, "concentration": 0.5, "rng": rng(),
                            "min_size": 2},
    "scale_to_box": {"points": POINTS, "lower": [0.0, 0, 0], "upper": [10.0, 10, 10], "bound": 1.0},
    "scale_min_max_not_private": {"points": POINTS, "bound": 1.0},
    "Dataset": {"points": POINTS, "labels": LABELS, "n_clusters": 2,
                "bounds": ([0.0, 0, 0], [10.0, 10, 10]), "bounds_note": "n",
                "feature_names": ("a", "b", "c"), **TEXTS},
}  # fmt: skip


@pytest.mark.parametrize("function", CALLS)
def test_the_valid_arguments_are_valid(function):
    assert getattr(datasets, function)(**CALLS[function]) is not None


def test_every_function_is_looked_at():
    """All that `datasets` exports, but what takes no argument."""
    public = {name for name, value in vars(datasets).items() if callable(value)}
    public -= {n for n in public if n.startswith("load_") and not _parameters(n)}
    assert public == set(CALLS)


def _parameters(name):
    return inspect.signature(getattr(datasets, name)).parameters


@pytest.mark.parametrize(
    ("function", "changes"),
    [
        ("make_ball_mixture", {"radius": 1e300}),
        ("gaussian_mixture", {"means": [[1e308, 0], [0, 0]]}),
        ("gaussian_mixture", {"covariances": 1e300}),
    ],
    ids=str,
)
def test_extreme_numbers_are_refused_by_name(function, changes):
    with pytest.raises(ValueError) as caught:
        getattr(datasets, function)(**(CALLS[function] | changes))
    assert next(iter(changes)) in str(caught.value)


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


# --- records do not change ------------------------------------------------------------------------


def test_changing_the_callers_arrays_changes_no_record():
    mine = {
        name: np.array(value) if isinstance(value, np.ndarray | list) else value
        for name, value in CALLS["Dataset"].items()
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
