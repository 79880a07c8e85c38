"""Federated data sets: what clients and server hold, and that the radius is public and right.

Tests that need a downloaded file skip, and say which one, where it is not on this machine.
"""

import hashlib
import math
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pooch
import pytest
from conftest import need, refuses
from conftest import seeded as rng
from scipy.optimize import minimize
from scipy.stats import chi2, kstest

from fedclust_helpers.federation import ClientData
from studies import paper_data
from studies.paper_data import census, files
from studies.paper_data.census import CODES

pytestmark = pytest.mark.slow

mixture = partial(paper_data.make_server_mixture, n_clients=20, rows_per_client=50)
MAKERS = {
    "mixture": mixture,
    "image": paper_data.make_image_federation,
    "acsincome": partial(paper_data.make_acsincome_federation, "federal", clients_per_state=3),
}


GENERATORS = {
    "g2": partial(paper_data.make_g2, 3, n=50),
    "synth": partial(paper_data.make_synth, 3, 2, n=400),
    "ablation": partial(paper_data.make_ablation, 2, 2, 0.5),
    "timesynth": partial(paper_data.make_timesynth, 50, 3, 2),
}


def make(name, **options):
    if name == "acsincome":
        need(name)
    return (MAKERS | GENERATORS)[name](**{"rng": rng()} | options)


def sorted_rows(*parts):
    rows = np.vstack(parts)
    return rows[np.lexsort(rows.T)]


# ---- the record --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_every_federation_has_the_promised_form(name):
    data = make(name)
    n, d = data.points.shape
    assert (data.n_points, data.n_features) == (n, d)
    points, offsets = data.clients()
    clients = ClientData(points, offsets)
    assert clients.n_clients == data.n_clients == len(offsets) - 1
    assert data.server_points.shape == (len(data.in_distribution), d)
    assert (np.diff(data.in_distribution.astype(int)) <= 0).all()  # in-distribution points first
    assert data.in_distribution.any() and not data.in_distribution.all()
    for array in (data.points, data.offsets, data.server_points, data.in_distribution):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for values in (data.points, data.server_points):
        longer = np.linalg.norm(values, axis=1) > data.radius
        # no real row exceeds its radius; of the mixture about 0.1 % do
        assert longer.mean() <= (0.01 if name == "mixture" else 0)
    assert data.radius_note and data.source and data.licence and data.citation
    assert repr(data).startswith(
        f"FederatedDataset('{data.name}', M={data.n_clients}, N={n}, d={d}"
    )


@pytest.mark.parametrize("name", [*MAKERS, *GENERATORS])
def test_data_repeat_with_the_generator_and_differ_without_it(name):
    first, again, other = make(name), make(name), make(name, rng=rng(1))
    fields = ("points", "offsets", "server_points") if name in MAKERS else ("points",)
    for field in fields:
        np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
    assert not np.array_equal(getattr(first, fields[-1]), getattr(other, fields[-1]))
    refuses(TypeError, "rng must be a numpy.random.Generator", make, name, rng=3)


# ---- Gaussian mixture --------------------------------------------------------------------------


def test_mixture_is_the_one_of_the_paper():
    data = paper_data.make_server_mixture(rng=rng(5))
    assert data.points.shape == (100_000, 100) and data.n_clients == 100
    assert (np.diff(data.offsets) == 1000).all()
    assert data.server_points.shape == (300, 100) and data.in_distribution.sum() == 200
    assert data.radius == 11.0
    means = data.true_centers
    assert means.shape == (10, 100) and means.min() >= 0 and means.max() <= 1
    # false alarm 1e-6 each: 1000 uniform coordinates; 10^7 residuals; 10^4 server coordinates
    assert kstest(means.ravel(), "uniform").pvalue > 1e-6
    residual = data.points - means[data.labels]
    statistic = 2 * (residual**2).sum()
    assert chi2.isf(1 - 5e-7, residual.size) < statistic < chi2.isf(5e-7, residual.size)
    server = data.server_points[data.in_distribution] - np.repeat(means, 20, axis=0)
    assert kstest(server.ravel() * math.sqrt(2), "norm").pvalue > 1e-6
    uniform = data.server_points[~data.in_distribution]
    assert kstest(uniform.ravel(), "uniform").pvalue > 1e-6
    counts = np.bincount(data.labels, minlength=10)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < chi2.isf(1e-6, 9)  # false alarm 1e-6
    # cost at the true means, 50 in expectation; the best cost in the notes is 49.96 +- 0.01
    assert (residual**2).sum(axis=1).mean() == pytest.approx(50, abs=0.2)
    # labels are mixed within every client: all ten components at each of them
    per_client = data.labels.reshape(100, 1000)
    assert min(len(np.unique(row)) for row in per_client) == 10


def test_missing_components_leave_the_server_and_nothing_else():
    everything, fewer = mixture(rng=rng(2)), mixture(missing=4, rng=rng(2))
    np.testing.assert_array_equal(everything.points, fewer.points)
    assert fewer.in_distribution.sum() == 120 and len(fewer.server_points) == 220
    known = everything.server_points[:120]
    np.testing.assert_array_equal(fewer.server_points[:120], known)
    np.testing.assert_array_equal(fewer.server_points[120:], everything.server_points[200:])
    # rows of the missing components are still at the clients
    assert np.isin([6, 7, 8, 9], fewer.labels).all()
    none = mixture(missing=10, rng=rng(2))
    assert len(none.server_points) == 100 and not none.in_distribution.any()


# ---- images ------------------------------------------------------------------------------------


def test_image_clients_are_strips_of_one_picture_and_the_server_has_the_other():
    from sklearn.datasets import load_sample_image

    data = paper_data.make_image_federation(block=1, server_in=50, server_out=70, rng=rng(3))
    assert data.n_clients == 64 and data.n_features == 3
    assert data.n_points == 427 * 640 - 50 and len(data.server_points) == 120
    scale = 127.5 * math.sqrt(3)
    china, flower = (load_sample_image(f"{name}.jpg") for name in ("china", "flower"))

    def colours(values):
        pixels = np.rint(values * scale + 127.5)
        np.testing.assert_allclose(values * scale + 127.5, pixels, atol=1e-8)  # nothing is lost
        return pixels.astype(int)

    # nothing is at both server and clients, and nothing got lost
    inside = data.server_points[data.in_distribution]
    np.testing.assert_array_equal(
        sorted_rows(colours(data.points), colours(inside)), sorted_rows(china.reshape(-1, 3))
    )
    # a client that gave no pixel away holds its ten columns, from the left
    sizes = np.diff(data.offsets)
    whole = int(np.flatnonzero(sizes == 4270)[0])
    own = data.points[data.offsets[whole] : data.offsets[whole + 1]]
    strip = china[:, 10 * whole : 10 * whole + 10].transpose(1, 0, 2).reshape(-1, 3)
    np.testing.assert_array_equal(colours(own), strip)
    foreign = {tuple(row) for row in flower.reshape(-1, 3).tolist()}
    server = colours(data.server_points[~data.in_distribution])
    assert all(tuple(row) in foreign for row in server.tolist())


# ---- census ------------------------------------------------------------------------------------

PERSON = {"SCHL": 21, "MAR": 1, "OCCP": 1021, "POBP": 8, "RELP": 0, "SEX": 2, "RAC1P": 1}


def test_census_codes_give_the_819_columns_of_the_paper():
    for codes in CODES.values():
        assert list(codes) == sorted(set(codes))
    # one more column per variable for missing values, as folktables has it
    assert sum(len(codes) + 1 for codes in CODES.values()) == 819
    assert len(paper_data.ACS_STATES) == 51 == len(set(paper_data.ACS_STATES))


def test_one_hot_puts_each_code_in_its_own_column():
    start = 0
    for name, codes in CODES.items():
        table = pd.DataFrame([PERSON | {name: code} for code in codes])
        block = census.one_hot_acsincome(table)[:, start : start + len(codes) + 1]
        np.testing.assert_array_equal(block, np.eye(len(codes), len(codes) + 1))
        for strange in (np.nan, -1, 99_999, codes[0] + 0.5):
            one = census.one_hot_acsincome(pd.DataFrame([PERSON | {name: strange}]))
            assert one[0, start + len(codes)] == 1 and one.sum() == 7
        start += len(codes) + 1
    with pytest.raises(ValueError, match="table must have the columns SCHL.*RELP is missing"):
        census.one_hot_acsincome({name: [1] for name in CODES if name != "RELP"})
    with pytest.raises(ValueError, match="table must have columns of one length"):
        census.one_hot_acsincome({name: [1] for name in CODES} | {"SEX": [1, 2]})


@pytest.mark.parametrize(("state", "n", "n_class"), [("co", 31_306, 1170), ("ne", 10_785, 275)])
def test_acsincome_rows_are_those_of_the_file(state, n, n_class):
    need("acsincome")
    table = pd.read_csv(files.fetch(f"acsincome/acsincome_{state}_features.csv"))
    assert len(table) == n
    own = table[table["COW"] == 5]
    points = census.one_hot_acsincome(own)
    assert points.shape == (n_class, 819) and len(own) == n_class
    other = np.array([feature.endswith("=other") for feature in census._FEATURE_NAMES])
    assert other.sum() == 7 and not points[:, other].any()  # every code is listed
    assert all(table[name].isin(codes).all() for name, codes in CODES.items())
    income = pd.read_csv(files.fetch(f"acsincome/acsincome_{state}_labels.csv"))["PINCP"]
    read = census._table(state, None)
    np.testing.assert_array_equal(read["COW"], table["COW"])
    np.testing.assert_array_equal(read["high_income"], income == 1)


def test_census_federation_takes_the_server_rows_out_of_the_clients():
    need("acsincome")
    whole = pd.concat([census._table(state, None) for state in ("co", "ne")])
    whole = whole[whole["COW"] == census.EMPLOYMENT["not_for_profit"]]
    data = paper_data.make_acsincome_federation("not_for_profit", rng=rng())
    assert data.n_clients == 2 and data.n_clusters == 10
    assert data.n_points == len(whole) - 20 == 2596 + 1025 - 20
    assert len(data.server_points) == 1020 and data.in_distribution.sum() == 20
    assert data.radius == math.sqrt(7)
    for values in (data.points, data.server_points):
        np.testing.assert_array_equal(values.sum(axis=1), 7)
        assert set(np.unique(values)) == {0.0, 1.0}
    inside = data.server_points[data.in_distribution]
    np.testing.assert_array_equal(
        sorted_rows(data.points, inside), sorted_rows(census.one_hot_acsincome(whole))
    )
    # the first client is Colorado: its rows are a part of that file
    column = census._FEATURE_NAMES.index("POBP=8")
    first = data.points[: data.offsets[1]]
    assert first[:, column].mean() > 0.2 > data.points[data.offsets[1] :, column].mean()
    assert data.labels.mean() == pytest.approx(whole["high_income"].mean(), abs=0.01)


@pytest.fixture
def official(monkeypatch, tmp_path):
    """A made-up official file of Delaware in the data folder; returns its sha256."""
    people = pd.DataFrame([PERSON | {"COW": 5.0, "AGEP": 40, "WKHP": 40.0}] * 8)
    people["PINCP"] = [60_000.0, 50_000, 101, 100, np.nan, 70_000, 80_000, 90_000]
    people["PWGTP"] = [1, 9, 9, 9, 9, 0, 9, 9]
    people.loc[6, "AGEP"] = 16
    people.loc[7, "WKHP"] = np.nan
    people.loc[2, "COW"] = 1.0
    people["RT"] = "P"  # the real file has many more columns
    folder = tmp_path / "data"
    (folder / "acs_pums").mkdir(parents=True)
    with zipfile.ZipFile(folder / "acs_pums" / "csv_pde.zip", "w") as archive:
        archive.writestr("psam_p10.csv", people.to_csv(index=False))
        archive.writestr("ACS2018_PUMS_README.pdf", b"text")
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(folder))
    return hashlib.sha256((folder / "acs_pums" / "csv_pde.zip").read_bytes()).hexdigest()


def test_official_file_needs_a_pinned_hash_and_is_filtered(official, monkeypatch, tmp_path):
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: pytest.fail("used the network"))

    def made(sha256=None):
        return paper_data.make_acsincome_federation(
            "federal", states=["de"], server_in=1, server_out=1, sha256=sha256, rng=rng()
        )

    refuses(ValueError, "sha256 must be given for state 'de'", made)
    refuses(ValueError, "csv_pde.zip does not have the registered sha256", made, {"de": "0" * 64})
    # rows 3 to 7 fail the filter: income (twice), weight, age, hours
    np.testing.assert_array_equal(census._table("de", official.upper())["high_income"], [1, 0, 0])
    federation = made({"de": official})
    assert federation.n_points == 1 and len(federation.server_points) == 2
    assert federation.source == census.ACS_URL.format(state="de")


OF_FILES = {"acsincome": MAKERS["acsincome"], "tinyshakespeare": paper_data.make_shakespeare_roles}


@pytest.mark.parametrize("dataset", OF_FILES)
def test_files_with_other_bytes_are_refused(dataset, monkeypatch, tmp_path):
    for entry in paper_data.registry().values():
        if entry.dataset == dataset:
            (tmp_path / entry.file).parent.mkdir(exist_ok=True)
            (tmp_path / entry.file).write_bytes(b"AGEP\n1\n")
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(tmp_path))
    assert not paper_data.available(dataset)
    refuses(ValueError, "does not have the registered sha256", OF_FILES[dataset], rng=rng())


# ---- Shakespeare -------------------------------------------------------------------------------


def test_tinyshakespeare_has_its_speeches_and_speakers():
    need("tinyshakespeare")
    speeches = paper_data.load_tinyshakespeare()
    assert len(speeches) == 7222 and len({who for who, _ in speeches}) == 309
    assert speeches[0] == ("First Citizen", "Before we proceed any further, hear me speak.")
    assert speeches[72] == ("TITUS", "")  # a name without a text
    # the public part starts with The Taming of the Shrew and ends with The Tempest
    first = next(i for i, (who, _) in enumerate(speeches) if who == "SLY")
    assert len(speeches) - first == 1176 and speeches[first][1] == "I'll pheeze you, in faith."
    assert {"PROSPERO", "KATHARINA"} <= {who for who, _ in speeches[first:]}
    assert not {"PROSPERO", "KATHARINA", "SLY"} & {who for who, _ in speeches[:first]}


# ---- generated as in FastLloyd --------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 64])
def test_g2_has_two_equal_clusters_with_the_stated_spread(d):
    data = paper_data.make_g2(d, rng=rng(1))
    assert data.points.shape == (2048, d) and data.n_clusters == 2
    np.testing.assert_array_equal(np.bincount(data.labels), [1024, 1024])
    centers = np.array([500.0, 600.0])[data.labels][:, None]
    z = (data.points - centers) / 30
    # false alarm 1e-6 each: Kolmogorov-Smirnov on 2048 d standard normal values
    assert kstest(z.ravel(), "norm").pvalue > 1e-6
    np.testing.assert_array_equal(data.bounds, [[350.0] * d, [750.0] * d])
    assert np.any(data.labels[:-1] != np.sort(data.labels)[:-1])  # rows are shuffled


def largest_separation(difference, cov_1, cov_2):
    """Separation index (Qiu and Joe 2006) by a general optimiser from many starts."""

    def negative_j(a):
        m, s = a @ difference, np.sqrt(a @ cov_1 @ a) + np.sqrt(a @ cov_2 @ a)
        return -(m - 1.959963984540054 * s) / (m + 1.959963984540054 * s)

    starts = rng(5).standard_normal((20, len(difference)))
    starts *= np.sign(starts @ difference)[:, None]
    return max(-minimize(negative_j, start).fun for start in starts)


def cluster_moments(data):
    groups = [data.points[data.labels == j] for j in range(data.n_clusters)]
    return [(g.mean(axis=0), np.cov(g.T).reshape(data.n_features, -1)) for g in groups]


@pytest.mark.parametrize(("k", "d", "separation"), [(4, 2, 0.2), (5, 6, 0.5), (3, 1, -0.2)])
def test_synth_reaches_the_separation_asked_for(k, d, separation):
    data = paper_data.make_synth(k, d, 60_000, separation=separation, n_outliers=0, rng=rng(7))
    moments = cluster_moments(data)
    index = np.array([
        [largest_separation(b[0] - a[0], a[1], b[1]) if a is not b else 1 for b in moments]
        for a in moments
    ])  # fmt: skip
    # Every cluster, not only the closest pair. Sample moments of >= 4000 points move the index by
    # about 0.006 (one sd): 0.05 is far outside.
    np.testing.assert_allclose(index.min(axis=1), separation, atol=0.05)


def test_synth_sizes_outliers_and_bounds():
    data = paper_data.make_synth(4, 3, n=1040, n_outliers=40, separation=0.2, rng=rng(2))
    assert data.n_points == 1040
    np.testing.assert_array_equal(np.bincount(data.labels + 1), [40, 100, 200, 300, 400])
    lower, upper = data.bounds
    outliers = data.points[data.labels == -1]
    assert (outliers >= lower).all() and (outliers <= upper).all()
    # uniform in the box: false alarm 1e-6 on 120 values
    assert kstest(((outliers - lower) / (upper - lower)).ravel(), "uniform").pvalue > 1e-6
    # eigenvalues were drawn from [1, 10]; the largest cluster has 400 points
    eigenvalues = np.linalg.eigvalsh(np.cov(data.points[data.labels == 3].T))
    assert 0.7 < eigenvalues.min() and eigenvalues.max() < 13
