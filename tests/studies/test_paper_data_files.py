"""Files of the papers' data: what is read from them, how they are found, checked and downloaded.

Tests that need a downloaded file skip, and say which one, where it is not on this machine.
"""

import dataclasses
import hashlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pooch
import pytest
from conftest import need, refuses
from conftest import seeded as rng

from studies import paper_data
from studies.paper_data import files
from studies.paper_data.images import IMAGE_SOURCES

# name, rows, columns, k, number of labels
REAL = [
    ("yeast", 1484, 8, 10, 10),
    ("lsun", 400, 2, 3, 3),
    ("s1", 5000, 2, 15, 15),
    ("birch2", 25_000, 2, 100, 100),
    ("breast_wisconsin", 683, 9, 2, 2),
    ("adult", 48_842, 6, 3, 2),
    ("mnist", 10_000, 784, 10, 10),
    ("fashion_mnist", 10_000, 784, 10, 10),
]


def local_file(file):
    entry = paper_data.registry()[file]
    if not files.is_local(entry):
        pytest.skip(f"not on this machine: {file} (set FEDCLUST_DATA_DIR)")
    return paper_data.fetch(file)


def load(name):
    need(name)
    if name in IMAGE_SOURCES:
        return paper_data.load_images(name)
    options = {"rng": rng()} if name == "birch2" else {}
    return getattr(paper_data, f"load_{name}")(**options)


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


@pytest.mark.parametrize("file", sorted(paper_data.registry()))
def test_local_files_have_the_registered_hash_and_size(file):
    path, entry = local_file(file), paper_data.registry()[file]
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry.sha256
    assert len(content) == entry.bytes


def test_registry_is_complete():
    entries = paper_data.registry()
    assert len(entries) == 25
    for file, entry in entries.items():
        assert file == entry.file and file.startswith(f"{entry.dataset}/")
        assert len(entry.sha256) == 64 and int(entry.sha256, 16) >= 0 and entry.bytes > 0
        assert entry.url.startswith("https://") and entry.url.endswith(file.split("/")[1])
        assert entry.licence and entry.citation


def test_breast_missing_values_by_name():
    need("breast_wisconsin")
    dropped = paper_data.load_breast_wisconsin(missing="drop")
    filled = paper_data.load_breast_wisconsin(missing="median")
    assert (dropped.n_points, filled.n_points) == (683, 699)
    np.testing.assert_array_equal(np.bincount(filled.labels), [458, 241])
    column = filled.feature_names.index("bare_nuclei")
    # the 16 filled rows all hold the median, and nothing else changed
    median = np.median(dropped.points[:, column])
    counts = [np.bincount(d.points[:, column].astype(int), minlength=11) for d in (filled, dropped)]
    np.testing.assert_array_equal(counts[0] - counts[1], 16 * (np.arange(11) == median))
    with pytest.raises(ValueError, match="missing must be one of drop, median"):
        paper_data.load_breast_wisconsin(missing="mean")


def test_birch2_rows_come_from_the_generator_given():
    need("birch2")
    everything = paper_data.load_birch2(None)
    assert everything.n_points == 100_000
    sample = paper_data.load_birch2(rng=rng(3))
    rows = rng(3).choice(100_000, 25_000, replace=False)
    np.testing.assert_array_equal(sample.points, everything.points[rows])
    np.testing.assert_array_equal(sample.labels, everything.labels[rows])
    refuses(TypeError, "rng must be a numpy.random.Generator", paper_data.load_birch2, 100)
    refuses(ValueError, "n must be >= 1 and <= 100000", paper_data.load_birch2, 100_001, rng=rng())


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
    monkeypatch.setattr(files, "cache_folder", lambda: cache)
    return cache


def register(monkeypatch, file, url, *, content=None):
    """Point one registered file to `url`, and to the hash of `content` if given."""
    changes = {"url": url}
    if content is not None:
        changes |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    entries = dict(paper_data.registry())
    entries[file] = dataclasses.replace(entries[file], **changes)
    monkeypatch.setattr(files, "registry", lambda: entries)
    return entries[file]


def kept(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


S1 = "s1/s1.data.gz"


def offered(web, monkeypatch, content, *, registered=None):
    """Serve this as the file of S1, whose registered hash is that of `registered`."""
    folder, url = web
    (folder / "file").write_bytes(content)
    return register(monkeypatch, S1, f"{url}/file", content=registered or content)


def test_download_is_checked_and_cached(web, isolated, monkeypatch):
    entry = offered(web, monkeypatch, b"1 2\n3 4\n")
    assert not files.is_local(entry)
    path = paper_data.fetch(S1)
    assert path == isolated / S1 and path.read_bytes() == b"1 2\n3 4\n"
    assert files.is_local(entry)
    (web[0] / "file").unlink()  # from now on only the cache can answer
    assert paper_data.fetch(S1) == path


def test_corrupted_download_is_refused_and_not_kept(web, isolated, monkeypatch):
    offered(web, monkeypatch, b"1 2\n3 5\n", registered=b"1 2\n3 4\n")
    with pytest.raises(ValueError, match="do not have the registered sha256.*nothing was kept"):
        paper_data.fetch(S1)
    assert kept(isolated) == []
    assert not paper_data.available("s1")


def test_damaged_cache_is_replaced(web, isolated, monkeypatch):
    offered(web, monkeypatch, b"good")
    damaged = isolated / "s1" / "s1.data.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"bad")
    assert paper_data.fetch(S1).read_bytes() == b"good"


@pytest.mark.parametrize("reason", ["refused", "not found"])
def test_missing_file_error_says_what_to_do(reason, web, isolated, monkeypatch, tmp_path):
    url = f"{web[1]}/absent" if reason == "not found" else "http://127.0.0.1:9/absent"
    register(monkeypatch, S1, url)
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(paper_data.DatasetUnavailableError) as error:
        paper_data.load_s1()
    assert isinstance(error.value, FileNotFoundError)
    message = str(error.value)
    for part in (S1, url, "FEDCLUST_DATA_DIR", str(tmp_path / "nowhere"), "save"):
        assert part in message
    assert not (tmp_path / "nowhere").exists() and kept(isolated) == []


def test_data_folder_is_used_first_and_never_written(web, isolated, monkeypatch, tmp_path):
    offered(web, monkeypatch, b"good")
    folder = tmp_path / "data"
    monkeypatch.setenv("FEDCLUST_DATA_DIR", str(folder))
    (folder / "s1").mkdir(parents=True)

    # a file that is not there goes to the cache, not to the folder
    assert paper_data.fetch(S1) == isolated / "s1" / "s1.data.gz"
    assert kept(folder) == []

    # a file that is there wins over the cache
    (folder / "s1" / "s1.data.gz").write_bytes(b"good")
    assert paper_data.fetch(S1) == folder / "s1" / "s1.data.gz"

    # with the wrong bytes it is an error, and stays as it was
    (folder / "s1" / "s1.data.gz").write_bytes(b"bad")
    with pytest.raises(ValueError, match="s1.data.gz does not have the registered sha256"):
        paper_data.fetch(S1)
    assert (folder / "s1" / "s1.data.gz").read_bytes() == b"bad"
    assert not paper_data.available("s1")


def test_unknown_names_are_refused():
    refuses(ValueError, "file must be one of the registered files", paper_data.fetch, "../secret")
    refuses(
        ValueError, "dataset must be one of acsincome, adult, birch2", paper_data.available, "cifar"
    )


@pytest.mark.parametrize("how", ["file", "link", "read-only", "folder in place of the file"])
def test_a_blocked_cache_is_called_by_its_name(tmp_path, monkeypatch, how):
    """No talk of a network that was never asked."""
    cache = tmp_path / "cache"
    file = S1
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

    monkeypatch.delenv("FEDCLUST_DATA_DIR", raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: cache)
    monkeypatch.setattr(pooch, "stream_download", asked, raising=False)
    with pytest.raises(paper_data.DatasetUnavailableError) as caught:
        paper_data.fetch(file)
    message = str(caught.value)
    assert "could not be kept in the cache" in message and "cache" in message
    assert "downloaded" not in message and "network" not in message
