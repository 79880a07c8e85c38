"""Data sets: real files are checked where they are, generated ones against their definition.

Tests that need a downloaded file skip, and say which one, where it is not on this machine.
"""

import dataclasses
import hashlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
from conftest import need, refuses
from conftest import seeded as rng
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.stats import chi2, kstest

from fedclust_helpers import datasets
from fedclust_helpers.datasets import _files
from fedclust_helpers.datasets.splits import apportion
from studies import paper_data

# name, rows, columns, k, number of labels
REAL = [
    ("iris", 150, 4, 3, 3),
    ("wine", 178, 13, 3, 3),
    ("digits", 1797, 64, 10, 10),
    ("yeast", 1484, 8, 10, 10),
    ("lsun", 400, 2, 3, 3),
    ("s1", 5000, 2, 15, 15),
    ("birch2", 25_000, 2, 100, 100),
    ("breast_wisconsin", 683, 9, 2, 2),
    ("adult", 48_842, 6, 3, 2),
    ("mnist", 10_000, 784, 10, 10),
]


def local_file(file):
    entry = datasets.registry()[file]
    if not _files.is_local(entry):
        pytest.skip(f"not on this machine: {file} (set FEDCLUST_DATA_DIR)")
    return datasets.fetch(file)


def load(name):
    need(name)
    options = {"rng": rng()} if name == "birch2" else {}
    return getattr(datasets, f"load_{name}")(**options)


# ---- real data ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "n", "d", "k", "n_labels"), REAL)
def test_real_data_have_the_shape_of_the_paper_and_lie_in_their_public_bounds(
    name, n, d, k, n_labels
):
    data = load(name)
    assert (data.n_points, data.n_features, data.n_clusters) == (n, d, k)
    assert data.points.shape == (n, d) and data.points.dtype == np.float64
    assert data.labels.shape == (n,) and data.labels.dtype == np.int64
    np.testing.assert_array_equal(np.unique(data.labels), np.arange(n_labels))
    lower, upper = data.bounds
    assert lower.shape == upper.shape == (d,) and (lower < upper).all()
    assert (data.points >= lower).all() and (data.points <= upper).all()
    scaled = data.scaled()
    assert scaled.min() >= -1 and scaled.max() <= 1
    for array in (data.points, data.labels, *data.bounds):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert data.feature_names is None or len(data.feature_names) == d
    assert data.source and data.licence and data.citation and data.bounds_note
    assert repr(data) == f"Dataset('{name}', n={n}, d={d}, k={k})"


@pytest.mark.parametrize("file", sorted(datasets.registry()))
def test_local_files_have_the_registered_hash_and_size(file):
    path, entry = local_file(file), datasets.registry()[file]
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry.sha256
    assert len(content) == entry.bytes


def test_registry_is_complete():
    entries = datasets.registry()
    assert len(entries) == 29
    for file, entry in entries.items():
        assert file == entry.file and file.startswith(f"{entry.dataset}/")
        assert len(entry.sha256) == 64 and int(entry.sha256, 16) >= 0 and entry.bytes > 0
        assert entry.url.startswith("https://") and entry.url.endswith(file.split("/")[1])
        assert entry.licence and entry.citation


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
def test_wheel_data_need_no_file(name, monkeypatch, tmp_path):
    monkeypatch.setattr(_files, "cache_folder", lambda: tmp_path)
    monkeypatch.delenv("FEDCLUST_DATA_DIR", raising=False)
    monkeypatch.setattr(_files.pooch, "retrieve", lambda *a, **k: pytest.fail("used the network"))
    assert datasets.available(name)
    assert load(name).n_points > 0


def test_breast_missing_values_by_name():
    need("breast_wisconsin")
    dropped = datasets.load_breast_wisconsin(missing="drop")
    filled = datasets.load_breast_wisconsin(missing="median")
    assert (dropped.n_points, filled.n_points) == (683, 699)
    np.testing.assert_array_equal(np.bincount(filled.labels), [458, 241])
    column = filled.feature_names.index("bare_nuclei")
    # the 16 filled rows all hold the median, and nothing else changed
    median = np.median(dropped.points[:, column])
    counts = [np.bincount(d.points[:, column].astype(int), minlength=11) for d in (filled, dropped)]
    np.testing.assert_array_equal(counts[0] - counts[1], 16 * (np.arange(11) == median))
    with pytest.raises(ValueError, match="missing must be one of drop, median"):
        datasets.load_breast_wisconsin(missing="mean")


def test_birch2_rows_come_from_the_generator_given():
    need("birch2")
    everything = datasets.load_birch2(None)
    assert everything.n_points == 100_000
    sample = datasets.load_birch2(rng=rng(3))
    rows = rng(3).choice(100_000, 25_000, replace=False)
    np.testing.assert_array_equal(sample.points, everything.points[rows])
    np.testing.assert_array_equal(sample.labels, everything.labels[rows])
    refuses(TypeError, "rng must be a numpy.random.Generator", datasets.load_birch2, 100)
    refuses(ValueError, "n must be >= 1 and <= 100000", datasets.load_birch2, 100_001, rng=rng())


# ---- files, cache, download --------------------------------------------------------------------


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """An empty folder served on the loopback interface: (folder, base url)."""
    folder = tmp_path / "web"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """No data folder, an empty cache, no proxy; returns the cache folder."""
    monkeypatch.delenv("FEDCLUST_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    cache = tmp_path / "cache"
    monkeypatch.setattr(_files, "cache_folder", lambda: cache)
    return cache


def register(monkeypatch, file, url, *, content=None):
    """Point one registered file to `url`, and to the hash of `content` if given."""
    changes = {"url": url}
    if content is not None:
        changes |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    entries = dict(datasets.registry())
    entries[file] = dataclasses.replace(entries[file], **changes)
    monkeypatch.setattr(_files, "registry", lambda: entries)
    return entries[file]


def kept_files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "file", ["made_up", "s1/s1.data.gz", "adult/adult.data", "mnist/t10k-images-idx3-ubyte.gz"]
)
def test_download_is_checked_and_cached(file, web, request, monkeypatch):
    content = b"1 2\n3 4\n" if file == "made_up" else local_file(file).read_bytes()
    cache = request.getfixturevalue("isolated")
    file = "s1/s1.data.gz" if file == "made_up" else file
    folder, url = web
    (folder / "file").write_bytes(content)
    entry = register(monkeypatch, file, f"{url}/file", content=content)
    assert not _files.is_local(entry)
    path = datasets.fetch(file)
    assert path == cache / file and path.read_bytes() == content
    assert _files.is_local(entry)
    (folder / "file").unlink()  # from now on only the cache can answer
    assert datasets.fetch(file) == path


def test_corrupted_download_is_refused_and_not_kept(web, isolated, monkeypatch):
    folder, url = web
    (folder / "file").write_bytes(b"1 2\n3 5\n")
    register(monkeypatch, "s1/s1.data.gz", f"{url}/file", content=b"1 2\n3 4\n")
    with pytest.raises(ValueError, match="do not have the registered sha256.*nothing was kept"):
        datasets.fetch("s1/s1.data.gz")
    assert kept_files(isolated) == []
    assert not datasets.available("s1")


def test_damaged_cache_is_replaced(web, isolated, monkeypatch):
    folder, url = web
    (folder / "file").write_bytes(b"good")
    register(monkeypatch, "s1/s1.data.gz", f"{url}/file", content=b"good")
    damaged = isolated / "s1" / "s1.data.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"bad")
    assert datasets.fetch("s1/s1.data.gz").read_bytes() == b"good"


@pytest.mark.parametrize("reason", ["refused", "not found"])
def test_missing_file_error_says_what_to_do(reason, web, isolated, monkeypatch, tmp_path):
    url = f"{web[1]}/absent" if reason == "not found" else "http://127.0.0.1:9/absent"
    register(monkeypatch, "s1/s1.data.gz", url)
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(datasets.DatasetUnavailableError) as error:
        datasets.load_s1()
    assert isinstance(error.value, FileNotFoundError)
    message = str(error.value)
    for part in ("s1/s1.data.gz", url, "FEDCLUST_DATA_DIR", str(tmp_path / "nowhere"), "save"):
        assert part in message
    assert not (tmp_path / "nowhere").exists() and kept_files(isolated) == []


def test_data_folder_is_used_first_and_never_written(web, isolated, monkeypatch, tmp_path):
    served, url = web
    (served / "file").write_bytes(b"good")
    register(monkeypatch, "s1/s1.data.gz", f"{url}/file", content=b"good")
    folder = tmp_path / "data"
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(folder))
    (folder / "s1").mkdir(parents=True)

    # a file that is not there goes to the cache, not to the folder
    assert datasets.fetch("s1/s1.data.gz") == isolated / "s1" / "s1.data.gz"
    assert kept_files(folder) == []

    # a file that is there wins over the cache
    (folder / "s1" / "s1.data.gz").write_bytes(b"good")
    assert datasets.fetch("s1/s1.data.gz") == folder / "s1" / "s1.data.gz"

    # with the wrong bytes it is an error, and stays as it was
    (folder / "s1" / "s1.data.gz").write_bytes(b"bad")
    with pytest.raises(ValueError, match="s1.data.gz does not have the registered sha256"):
        datasets.fetch("s1/s1.data.gz")
    assert (folder / "s1" / "s1.data.gz").read_bytes() == b"bad"
    assert not datasets.available("s1")


def test_unknown_names_are_refused():
    refuses(ValueError, "file must be one of the registered files", datasets.fetch, "../secret")
    refuses(ValueError, "name must be one of acsincome, adult, birch2", datasets.available, "cifar")


# ---- generators --------------------------------------------------------------------------------


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


def test_generators_repeat_with_the_seed_and_differ_without_it():
    makers = [
        partial(paper_data.make_g2, 3, n=50),
        partial(paper_data.make_synth, 3, 2, n=400),
        partial(paper_data.make_ablation, 2, 2, 0.5),
        partial(paper_data.make_timesynth, 50, 3, 2),
    ]
    for make in makers:
        first, again, other = make(rng=rng(1)), make(rng=rng(1)), make(rng=rng(2))
        np.testing.assert_array_equal(first.points, again.points)
        assert first.points.shape != other.points.shape or (first.points != other.points).any()
        refuses(TypeError, "rng must be a numpy.random.Generator", make, rng=1)


def brute_force_separation(difference, cov_1, cov_2):
    """Largest J over directions by a general optimiser from many starts."""

    def negative_j(a):
        m, s = a @ difference, np.sqrt(a @ cov_1 @ a) + np.sqrt(a @ cov_2 @ a)
        return -(m - 1.959963984540054 * s) / (m + 1.959963984540054 * s)

    starts = rng(5).standard_normal((20, len(difference)))
    starts *= np.sign(starts @ difference)[:, None]
    return max(-minimize(negative_j, start).fun for start in starts)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_separation_index_equals_a_direct_search(d):
    random = rng(d)
    roots = random.standard_normal((2, d, d + 2))
    cov_1, cov_2 = roots @ roots.transpose(0, 2, 1)
    mean_1, mean_2 = 3 * random.standard_normal((2, d))
    ours = paper_data.separation_index(mean_1, cov_1, mean_2, cov_2)
    assert ours == pytest.approx(brute_force_separation(mean_2 - mean_1, cov_1, cov_2), abs=1e-6)
    swapped = paper_data.separation_index(mean_2, cov_2, mean_1, cov_1)
    assert ours == pytest.approx(swapped, abs=1e-9)


def cluster_moments(data):
    groups = [data.points[data.labels == j] for j in range(data.n_clusters)]
    return [(g.mean(axis=0), np.cov(g.T).reshape(data.n_features, -1)) for g in groups]


@pytest.mark.parametrize(("k", "d", "separation"), [(4, 2, 0.2), (5, 6, 0.5), (3, 1, -0.2)])
def test_synth_reaches_the_separation_asked_for(k, d, separation):
    data = paper_data.make_synth(k, d, 60_000, separation=separation, n_outliers=0, rng=rng(7))
    moments = cluster_moments(data)
    index = np.array(
        [
            [paper_data.separation_index(*a, *b) if a is not b else 1 for b in moments]
            for a in moments
        ]
    )
    # Every cluster, not only the closest pair. Sample moments of >= 4000 points move the index by
    # about 0.006 (one sd): 0.05 is far outside.
    np.testing.assert_allclose(index.min(axis=1), separation, atol=0.05)
    # the smallest cluster of the pair shows it on the data too: empirical 2.5 % and 97.5 %
    # quantiles along the line that separates the closest pair
    i, j = np.unravel_index(index.argmin(), index.shape)
    (mean_i, cov_i), (mean_j, cov_j) = moments[i], moments[j]
    direction = np.linalg.solve(cov_i + cov_j, mean_j - mean_i)
    low, high = (
        np.quantile(data.points[data.labels == c] @ direction, [0.025, 0.975]) for c in (i, j)
    )
    measured = (high[0] - low[1]) / (high[1] - low[0])
    assert separation - 0.1 < measured < separation + 0.05


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


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.int64, st.integers(1, 200), elements=st.integers(-1, 4)),
    st.integers(1, 50),
    st.floats(1e-3, 1e3),
    st.integers(1, 4),
    st.integers(0, 2**32),
)
def test_dirichlet_split_is_complete(labels, n_clients, concentration, min_size, seed):
    labels.flags.writeable = False
    options = {"rng": rng(seed), "min_size": min_size}
    if n_clients * min_size > len(labels):
        with pytest.raises(ValueError, match=r"n_clients \* min_size must be <= n"):
            datasets.partition_dirichlet(labels, n_clients, concentration, **options)
        return
    client_of = datasets.partition_dirichlet(labels, n_clients, concentration, **options)
    sizes = np.bincount(client_of, minlength=n_clients)
    assert client_of.shape == labels.shape and len(sizes) == n_clients
    assert sizes.min() >= min_size


def test_dirichlet_shares_have_the_right_variance():
    # two clients: the share of client 0 is Beta(c, c), variance 1 / (4 (2c + 1)) = 1/12 for c = 1,
    # plus binomial noise below 1e-3. 2000 draws: sd of the sample variance about 0.0012.
    labels = np.repeat(np.arange(2000), 100)
    client_of = datasets.partition_dirichlet(labels, 2, 1.0, rng=rng(8))
    share = (client_of == 0).reshape(2000, 100).mean(axis=1)
    assert abs(share.var() - 1 / 12 - 1 / 600) < 0.008  # 6 sd, false alarm 2e-9


# ---- scaling -----------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=finite))
def test_min_max_reaches_both_ends_and_stays_inside(points):
    points.flags.writeable = False
    scaled = datasets.scale_min_max_not_private(points, bound=2.0)
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


@pytest.mark.parametrize("how", ["file", "link", "read-only", "folder in place of the file"])
def test_a_blocked_cache_is_called_by_its_name(tmp_path, monkeypatch, how):
    """No talk of a network that was never asked."""
    cache = tmp_path / "cache"
    file = "s1/s1.data.gz"
    if how == "file":
        cache.write_text("in the way")
    elif how == "link":
        cache.symlink_to(tmp_path / "nowhere")
    elif how == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        cache.mkdir(mode=0o500)
    else:
        (cache / file).mkdir(parents=True)

    def asked(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.delenv(_files.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(_files, "cache_folder", lambda: cache)
    monkeypatch.setattr(_files.pooch, "stream_download", asked, raising=False)
    with pytest.raises(datasets.DatasetUnavailableError) as caught:
        datasets.fetch(file)
    message = str(caught.value)
    assert "could not be kept in the cache" in message and "cache" in message
    assert "downloaded" not in message and "network" not in message
