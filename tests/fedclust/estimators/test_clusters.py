"""What is told of each cluster: from released values alone, to the digits that noise leaves."""

import math

import numpy as np
import pandas as pd
import pytest

from fedclust.estimators import PrivateKMeans, load
from fedclust.estimators.clusters import decimals

BOUNDS = {"age": (0, 100), "dose": (0.0, 0.5)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    means = np.array([[25.0, 0.1], [75.0, 0.1], [75.0, 0.4]])
    rows = means[rng.integers(3, size=6000)] + rng.normal(0, [3, 0.02], (6000, 2))
    return pd.DataFrame(rows, columns=["age", "dose"]).assign(clinic=rng.choice(list("abc"), 6000))


@pytest.fixture(scope="module")
def model(table):
    made = PrivateKMeans(3, 2.0, 1e-6, bounds=BOUNDS, mode="teaching", seed=1)
    return made.fit(table, clients="clinic")


def test_a_description_follows_from_released_values(model, tmp_path):
    told = model.describe()
    sizes, centers = model.cluster_sizes_, model.cluster_centers_
    mean = (sizes[:, None] * centers).sum(axis=0) / sizes.sum()
    width = np.array([100, 0.5])
    off = (centers - mean) / width
    for row in told.itertuples():
        i = ["age", "dose"].index(row.column)
        noise = model._center_std[row.cluster] * width[i] / 2
        assert row.noise == pytest.approx(noise)
        assert abs(row.center - centers[row.cluster, i]) <= noise / 10
        assert abs(row.from_mean - off[row.cluster, i] * width[i]) <= noise / 10
        assert row.in_widths == pytest.approx(off[row.cluster, i], abs=1e-3)
        share = off[row.cluster, i] ** 2 / (off[row.cluster] ** 2).sum()
        assert row.share == pytest.approx(share, abs=1e-3)
    first = told.groupby("cluster").head(1)  # what differs most comes first
    assert (first["in_widths"].abs() == told.groupby("cluster")["in_widths"].agg(
        lambda x: x.abs().max()).to_numpy()).all()  # fmt: skip
    model.save(tmp_path / "model.json")  # a saved one says the same
    pd.testing.assert_frame_equal(load(tmp_path / "model.json").describe(), told)


def test_without_pandas_a_description_is_a_list(model, monkeypatch):
    told = model.describe()

    def missing(self, name):
        raise ImportError

    monkeypatch.setattr("fedclust_helpers._lazy._Lazy.__getattr__", missing)
    assert pd.DataFrame(model.describe()).equals(told)


@pytest.mark.parametrize("width", [1e-300, 3e-5, 1.0, 250.0, 1e300])
@pytest.mark.parametrize("noise", [None, 0.0, 1e-9, 0.013, 0.4])
def test_rounding_is_finer_than_the_noise_and_shows_no_seventh_digit(width, noise):
    x = width / 3
    shown = round(x, decimals(width, None if noise is None else noise * width))
    assert abs(shown - x) <= width * (5e-4 if noise is None else max(noise / 20, 5e-6)) * 1.0001
    digits = np.format_float_scientific(shown / 10 ** math.floor(math.log10(width)), trim="-")
    assert len(digits.partition("e")[0].replace(".", "")) <= 6 or width in (1e-300, 1e300)


# --- weights --------------------------------------------------------------------------------------


def fitted(table, seed=1, bounds=BOUNDS, **given):
    made = PrivateKMeans(2, 4.0, 1e-6, bounds=bounds, mode="teaching", seed=seed, **given)
    return made.fit(table, clients="clinic")


def test_weights_are_bounds_that_are_moved_apart(table, tmp_path):
    """By the definition of a weight: half as much is twice as wide, and all else the same."""
    a = fitted(table, weights={"dose": 2, "age": 0.5})
    b = fitted(table, bounds={"age": (-150, 250), "dose": (0.0, 0.5)})
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    np.testing.assert_array_equal(a.predict(table), b.predict(table))
    assert a.score(table) == b.score(table)
    for each in ({"age": 3, "dose": 3}, None):  # alike: as without any
        same = fitted(table, weights=each).cluster_centers_
        np.testing.assert_array_equal(same, fitted(table).cluster_centers_)
    a.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(table), a.predict(table))
    assert str(again.statement()) == str(a.statement())


def test_a_weight_decides_which_groups_are_found(table):
    """Three groups, two centres: dose splits them by default, age where it weighs four times."""
    by_dose, by_age = fitted(table), fitted(table, weights={"age": 4})
    assert np.ptp(by_dose.cluster_centers_[:, 1]) > 0.2
    assert np.ptp(by_age.cluster_centers_[:, 0]) > 40
    told = dict(by_age.statement().rows())
    assert told["columns"] == (
        "share of the largest squared distance in the box: age up to 0.94 (weight 4); dose up to"
        " 0.059 (weight 1)"
    )
    assert "moved apart by weights: age 0 to 100; dose -0.75 to 1.25" in told["bounds"]
    assert "each of 2 carries up to 0.5" in dict(by_dose.statement().rows())["columns"]


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"height": 2}, "weights must name columns with bounds; height not"),
        ({"age": 0}, "weights must be > 0: leave out"),
        ({"age": -1}, "weights must be > 0"),
        ({"age": math.nan}, "weights"),
        ({"age": math.inf}, "weights"),
        ([1, 2], "weights must be by name where columns have names"),
    ],
)
def test_what_is_no_weight_is_refused_before_anything_is_charged(table, weights, says):
    model = PrivateKMeans(2, 1.0, 1e-6, bounds=BOUNDS, weights=weights)
    with pytest.raises((ValueError, TypeError), match=says):
        model.fit(table, clients="clinic")
    assert not hasattr(model, "ledger_")


def test_weights_of_an_array_are_by_place_and_need_public_bounds(table):
    rows = [group[["age", "dose"]].to_numpy() for _, group in table.groupby("clinic")]
    given = {"lower": [0, 0], "upper": [100, 0.5], "mode": "teaching", "seed": 1}
    by_place = PrivateKMeans(2, 4.0, 1e-6, weights=[1, 4], **given).fit(rows)
    by_number = PrivateKMeans(2, 4.0, 1e-6, weights={1: 4}, **given).fit(rows)
    by_index = PrivateKMeans(2, 4.0, 1e-6, weights=pd.Series({1: 4, 0: 1}), **given).fit(rows)
    for each in (by_number, by_index):
        np.testing.assert_array_equal(by_place.cluster_centers_, each.cluster_centers_)
    with pytest.raises(ValueError, match="find bounds with private_bounds first"):
        PrivateKMeans(2, 1.0, 1e-6, bounds="private", weights=[1, 4]).fit(rows)
