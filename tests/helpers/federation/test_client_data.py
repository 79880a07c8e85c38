"""Client data: nobody changes it afterwards, a row is clipped by itself, and nothing leaks."""

import copy
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from hypothesis import given, settings
from hypothesis import strategies as st

from fedclust.estimators import FastLloydKMeans, RRCluster
from fedclust_helpers.client_statistics import SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.federation.data import ClippedDataWarning, row_lengths, warn_if_mostly_clipped
from fedclust_helpers.mechanisms import Gaussian

SECRET = 0.123456789


def rows(n=12, d=3, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


# --- the caller's arrays are not ours ------------------------------------------------------------

BUILDERS = {
    "class": lambda p: ClientData(p, [0, 5, len(p)]),
    "class, DataFrame": lambda p: ClientData(pd.DataFrame(p, copy=False), [0, 5, len(p)]),
    "class, memory order": lambda p: ClientData(p[:, :], np.array([0, 5, len(p)])),
    "from_clients": lambda p: ClientData.from_clients([p[:5], p[5:]]),
    "from_clients, one": lambda p: ClientData.from_clients([p]),
    "from_clients, mapping": lambda p: ClientData.from_clients({"a": p[:5], "b": p[5:]}),
    "from_clients, frames": lambda p: ClientData.from_clients([pd.DataFrame(p, copy=False)]),
    "from_clients, stacked": lambda p: ClientData.from_clients(p.reshape(2, -1, p.shape[1])),
    "from_owners": lambda p: ClientData.from_owners(p, np.repeat([0, 1], len(p) // 2)),
    "one_point_each": lambda p: ClientData.one_point_each(p),
    "one_point_each, frame": lambda p: ClientData.one_point_each(pd.DataFrame(p, copy=False)),
    "simulate": lambda p: simulate([p[:5], p[5:]], "ideal", seed=1)._clients.data,
    "simulate, array": lambda p: (
        simulate(p.reshape(2, -1, p.shape[1]), "ideal", seed=1)._clients.data
    ),
    "local_users": lambda p: simulate(p, "local", seed=1)._clients.data,
    "users": lambda p: simulate([p], "local", seed=1)._clients.data,
    "take": lambda p: ClientData(p, [0, 5, len(p)], copy=False).take([1, 0]),
}


@pytest.mark.parametrize("how", list(BUILDERS))
def test_changing_the_callers_array_changes_nothing(how):
    mine = rows() / 4
    data = BUILDERS[how](mine)
    before = data.points.copy()
    mine[:] = 999_984.0
    assert np.array_equal(data.points, before)


def test_changing_the_callers_offsets_or_labels_changes_nothing():
    offsets, labels = np.array([0, 5, 12]), np.zeros(12, dtype=np.int64)
    data = ClientData(rows(), offsets, labels)
    by_owner = ClientData.from_owners(rows(), np.repeat([0, 1], 6), labels)
    by_client = ClientData.from_clients([rows()], [labels])
    offsets[1], labels[:] = 11, 7
    assert data.offsets.tolist() == [0, 5, 12]
    for each in (data, by_owner, by_client):
        assert not each.labels.any()


@pytest.mark.parametrize(
    "same",
    [lambda d: d, copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)),
     lambda d: d.take([0, 1]), lambda d: d.clipped(0.1)[0], lambda d: d.clipped(9.0)[0]],
)  # fmt: skip
def test_no_array_of_client_data_can_be_written(same):
    data = same(ClientData(rows(), [0, 5, 12], np.arange(12)))
    for array in (data.points, data.offsets, data.labels, data.client(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            _ = _unlock(array)


def _unlock(array):
    array.flags.writeable = True
    return array


def test_a_view_is_kept_only_where_it_is_asked_for():
    mine = rows()
    for data in (
        ClientData(mine, [0, 12], copy=False),
        ClientData.one_point_each(mine, copy=False),
    ):
        assert np.shares_memory(data.points, mine) and not data.points.flags.writeable
    assert mine.flags.writeable
    refuses(TypeError, "copy must be True or False", ClientData, mine, [0, 12], copy="no")
    refuses(TypeError, "copy must be True or False", ClientData.one_point_each, mine, copy=0)


# --- owners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [[3, 7], [-5, 2], [10**9, 10**10], [2**62, 2**63 - 1], [2**63, 2**64 - 1], [10**30, 10**31],
     ["berlin", "oslo"], ["", "x"], [b"a", b"b"], [np.int8(-3), np.int8(4)]],
    ids=str,
)  # fmt: skip
def test_owners_of_any_size_and_by_name(names):
    owners = [names[i] for i in (1, 0, 1, 1, 0, 0, 0)]
    points = rows(7)
    data = ClientData.from_owners(points, owners)
    assert data.n_clients == 2
    assert np.array_equal(data.client(0), points[[1, 4, 5, 6]])
    assert np.array_equal(data.client(1), points[[0, 2, 3]])


def test_many_owners_keep_their_rows_in_order():
    owners = np.random.default_rng(1).integers(0, 70_000, 300_000)  # above 16 bits
    points = np.arange(300_000.0)[:, None]
    data = ClientData.from_owners(points, owners)
    assert data.n_clients == len(np.unique(owners))
    assert np.array_equal(data.points[:, 0], np.argsort(owners, kind="stable"))


def test_a_column_of_a_table_names_the_owners():
    table = pd.DataFrame({"x": [1.0, 2, 3], "site": ["b", "a", "b"], "y": [4, 5, 6]})
    data = ClientData.from_owners(table, "site")
    assert data.client(0).tolist() == [[2, 5]] and data.client(1).tolist() == [[1, 4], [3, 6]]
    series = ClientData.from_owners(table[["x", "y"]], table["site"])
    assert np.array_equal(series.points, data.points)
    with pytest.raises(ValueError, match="owners must be one owner for each row, or a column"):
        ClientData.from_owners(table, "town")
    with pytest.raises(ValueError, match="owners must be one owner for each row, or a column"):
        ClientData.from_owners(rows(), "site")
    with pytest.raises(TypeError, match="points must be an array of real numbers"):
        ClientData.from_owners(table, [1, 2, 3])  # the names are still among the features


@pytest.mark.parametrize(
    "owners",
    [[0.0] * 12, [None] * 12, [True] * 12, [0] * 11, [[0]] * 12, 0, None, [0, "a"] * 6, {0: 1},
     [float("nan")] * 12, [[0], [1, 2]]],
    ids=str,
)  # fmt: skip
def test_owners_that_are_none_are_refused_by_name(owners):
    if owners == [0, "a"] * 6:
        owners = np.array(owners, dtype=object)
    with pytest.raises(ValueError, match="owners must be 12 integers or names"):
        ClientData.from_owners(rows(), owners)


# --- sequences and mappings of clients -----------------------------------------------------------


def test_a_mapping_of_clients_is_numbered_in_its_order():
    a, b = rows(4), rows(3, seed=1)
    data = ClientData.from_clients({"z": a, "b": b}, {"b": [1, 1, 1], "z": [0, 0, 0, 0]})
    assert np.array_equal(data.client(0), a) and np.array_equal(data.client(1), b)
    assert data.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="labels must be a mapping only with the keys of clients"):
        ClientData.from_clients({"z": a, "b": b}, {"z": [0] * 4, "c": [1] * 3})
    with pytest.raises(ValueError, match="labels must be a mapping only with the keys of clients"):
        ClientData.from_clients([a, b], {"z": [0] * 4})


def test_tables_are_matched_by_the_names_of_their_columns():
    first = pd.DataFrame({"age": [30.0, 40], "pressure": [120.0, 130]})
    swapped = pd.DataFrame({"pressure": [140.0], "age": [50.0]})
    data = ClientData.from_clients([first, swapped])
    assert data.client(1).tolist() == [[50.0, 140.0]]
    for wrong in ({"age": [1.0], "weight": [2.0]}, {"age": [1.0]},
                  {"age": [1.0], "pressure": [1.0], "weight": [2.0]}):  # fmt: skip
        with pytest.raises(ValueError, match=r"clients\[1\] must have the same columns as"):
            ClientData.from_clients([first, pd.DataFrame(wrong)])
    twice = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    refuses(ValueError, "columns of different names", ClientData.from_clients, [twice])


MASKED = np.ma.array(rows(), mask=np.eye(12, 3))
CELLS = np.empty((12, 3), dtype=object)
CELLS[:] = rows()
CELLS[5, 1] = np.ma.masked


@pytest.mark.parametrize(
    "masked", [MASKED, list(MASKED), (*rows()[:11].tolist(), [1.0, 2.0, np.ma.masked]),
               [[np.ma.array(v, mask=v > 0) for v in row] for row in rows()], CELLS,
               pd.DataFrame(CELLS)],
)  # fmt: skip
def test_masked_entries_are_not_read_however_deep_they_lie(masked):
    """numpy drops the mask of an array in a list, and what lies behind it would be a value."""
    for build, name in (
        (lambda p: ClientData(p, [0, 12]), "points"), (ClientData.one_point_each, "points"),
        (lambda p: ClientData.from_clients([p]), r"clients\[0\]"),
        (lambda p: ClientData.from_clients({"a": rows(), "b": p}), r"clients\['b'\]"),
        (lambda p: ClientData.from_owners(p, np.arange(12) % 2), "points"),
        (lambda p: FastLloydKMeans(2, epsilon=1, lower=-9, upper=9).preview(p), "X"),
        (lambda p: FastLloydKMeans(2, epsilon=1, lower=-9, upper=9).preview([rows(), p]), "X"),
        (lambda p: FastLloydKMeans(2, epsilon=1, lower=-9, upper=9).rehearse(p, n_rows=1), "X"),
    ):  # fmt: skip
        refuses(TypeError, f"^{name} .*without masked entries", build, masked)


def test_masked_labels_and_owners_are_not_read():
    owners = np.ma.array(np.arange(12) % 2, mask=np.arange(12) == 3)
    each = [np.ma.array([0, 1, 2], mask=[1, 0, 0])]
    for own in (owners, list(owners)):
        refuses(TypeError, "owners .*without masked", ClientData.from_owners, rows(), own)
        model = RRCluster(2, epsilon=1.0, classes=[0, 1], lower=-9, upper=9)
        refuses(TypeError, "y .*without masked", model.preview, rows(), own)
        refuses(TypeError, "clients .*without masked", model.preview, rows(), [0] * 12,
                clients=own)  # fmt: skip
    refuses(TypeError, "labels .*without masked", ClientData.from_clients, [rows()[:3]], each)


@pytest.mark.parametrize(
    ("offsets", "match"),
    [(wrong, "^offsets must") for wrong in ([0.0, 12.0], [0, 5.5, 12], [[0, 12]], "ab", None)]
    + [(wrong, "^offsets must run from 0") for wrong in ([0], [0, 2], [1, 12])]
    + [(wrong, "at least one row") for wrong in ([0, 2, 2, 12], [0, 3, 2, 12])],
)
def test_offsets_are_whole_numbers_from_0_to_the_number_of_rows(offsets, match):
    refuses((TypeError, ValueError), match, ClientData, rows(), offsets)


# --- nothing is shown ----------------------------------------------------------------------------


def test_no_text_form_shows_the_data():
    points = np.full((7, 2), SECRET)
    data = ClientData(points, [0, 3, 7], [5, 5, 5, 5, 5, 5, 5])
    assert repr(data) == "ClientData(n_clients=2, n_features=2, labelled)"
    federation = simulate(data, "ideal", seed=1)
    for thing in (data, federation, federation.client_memory):
        for text in (repr(thing), str(thing), f"{thing}"):
            assert "0.1234" not in text and "7" not in text.split(" object at ")[0]


# --- clipping ------------------------------------------------------------------------------------


def exact_square(row):
    return sum(Fraction(float(x)) ** 2 for x in row)


MAGNITUDES = [5e-324, 1e-310, 1e-200, 1e-150, 1.0, 3.0, 1e150, 1e154, 1e200, 1e300, 1.7e308]


@pytest.mark.parametrize("domain", ["box", "ball"])
@pytest.mark.parametrize("bound", [1e-300, 1e-200, 0.5, 1.0, 1e8, 1e160, 1e300])
@pytest.mark.parametrize("d", [1, 2, 3, 17])
def test_rows_of_any_magnitude_end_inside(domain, bound, d):
    rng = np.random.default_rng(d)
    wild = np.array([m * rng.uniform(-1, 1, d) for m in MAGNITUDES for _ in range(3)])
    wild = np.vstack([wild, np.zeros(d), np.full(d, 1.7e308), np.eye(1, d)[0] * -1.7e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped, counts = ClientData(wild, [0, len(wild)]).clipped(bound, domain=domain)
    moved = (clipped.points != wild).any(axis=1)
    assert counts.tolist() == [moved.sum()]
    limit = Fraction(bound)
    for row, was, changed in zip(clipped.points, wild, moved, strict=True):
        if domain == "box":
            assert np.abs(row).max() <= bound
            assert changed == (np.abs(was).max() > bound)
        else:
            # a row that was moved lies strictly inside; one that was not, up to rounding
            assert exact_square(row) <= limit**2 * (1 if changed else 1 + Fraction(1, 10**14))
            assert changed or exact_square(was) <= limit**2 * (1 + Fraction(1, 10**14))
            if changed:  # onto the sphere, in the same direction
                assert exact_square(row) >= (limit * (1 - Fraction(3, 10**12))) ** 2
                assert np.array_equal(
                    np.sign(row)[np.abs(row) > 1e-300], np.sign(was)[np.abs(row) > 1e-300]
                )


@settings(max_examples=100)
@given(
    st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 60),
    st.sampled_from(["box", "ball"]), st.sampled_from([0.3, 1.0, 1e10]),
)  # fmt: skip
def test_clipping_a_row_depends_on_that_row_alone(seed, d, n, domain, bound):
    """Alone, permuted, beside giants and denormals: the same bits."""
    rng = np.random.default_rng(seed)
    scale = rng.choice([1e-320, 1e-170, 0.2, 1.0, bound, 1e170, 1e300], (n, 1))
    points = rng.uniform(-1, 1, (n, d)) * scale

    def clip(some):
        return ClientData(some, [0, len(some)]).clipped(bound, domain=domain)[0].points

    together = clip(points)
    order = rng.permutation(n)
    assert np.array_equal(clip(points[order]), together[order])
    for i in range(n):
        assert np.array_equal(clip(points[i : i + 1])[0], together[i])
    giants = np.vstack([np.full((3, d), 1e308), points, np.full((2, d), 5e-324)])
    assert np.array_equal(clip(giants)[3:-2], together)


@pytest.mark.parametrize(
    "bound", [float("nan"), float("inf"), -float("inf"), 0, -1, 1e301, 1e-301, 10**400]
)
@pytest.mark.parametrize("domain", ["box", "ball"])
def test_bounds_that_bound_nothing_are_refused(bound, domain):
    data = ClientData(rows(), [0, 12])
    refuses((ValueError, OverflowError), "bound|too large", data.clipped, bound, domain=domain)


# --- a warning for the data holder ---------------------------------------------------------------


def test_a_data_holder_is_warned_without_a_number():
    raw = 50 + 8 * rows(90)
    data = ClientData(raw, [0, 40, 90])
    _, counts = data.clipped(1.0)
    with pytest.warns(ClippedDataWarning, match="most rows lie outside") as caught:
        warn_if_mostly_clipped(data, counts)
    assert not any(character.isdigit() for character in str(caught[0].message))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # half of the rows are no reason to warn
        warn_if_mostly_clipped(data, np.array([0, 45]))


@pytest.mark.parametrize("bound", [1e-200, 1e-130, 0.3, 1.0, 7.0, 1e130, 1e200])
@pytest.mark.parametrize("d", [1, 2, 5, 784])
def test_rows_are_found_long_by_their_exact_length(bound, d):
    """The quick sum of squares only spares work: rows within a rounding of the bound, too."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((400, d))
    lengths = bound * (1 + rng.integers(-40, 41, 400) * 2.0**-53)
    rows *= (lengths / np.linalg.norm(rows, axis=1))[:, None]
    rows[:4] = [[0.0] * d, [5e-324] * d, [1e308] * d, [bound] * d]
    exact = row_lengths(rows) > bound
    _, counts = ClientData.one_point_each(rows).clipped(bound, domain="ball")
    assert np.array_equal(counts, exact) and 20 < exact.sum() < 380


# --- forms and sizes of rows ----------------------------------------------------------------------

TRUSTS = ("trusted", "ideal")


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.sampled_from(TRUSTS))
def test_one_point_cannot_do_more_than_its_clipped_self(x, y, trust):
    points = np.array(rows(20, 2))
    points[7] = x, y
    outside = simulate([points[:9], points[9:]], trust, seed=1)
    inside = simulate([np.clip(p, -1, 1) for p in (points[:9], points[9:])], trust, seed=1)
    (total,), (clipped,) = (
        f.noisy_sum(TOTAL, [Gaussian(2.0, 1.0)], round=0) for f in (outside, inside)
    )
    assert np.allclose(total, clipped, atol=1e-8)
    assert outside.clipped_counts.tolist() == [int(max(abs(x), abs(y)) > 1), 0]
    np.testing.assert_array_equal(points[7], [x, y])


def test_an_empty_cluster_looks_like_any_other_on_the_wire():
    far = np.array([[-0.9, -0.9], [0.9, 0.9]])
    sizes = []
    for points in (np.full((40, 2), 0.9), np.repeat(far, 20, axis=0)):
        federation = simulate([points[:20], points[20:]], "masked", noise_from="server", seed=1)
        federation.noisy_sum(
            SUMS_AND_COUNTS, (Gaussian(1.5, 1.0), Gaussian(1.0, 1.0)), round=0, centers=far
        )
        sizes.append([(m.name, m.shape, m.n_bytes) for m in federation.transcript.messages])
    assert sizes[0] == sizes[1]
