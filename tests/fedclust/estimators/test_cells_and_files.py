"""What is no number is refused in the same words by all readers, and no value is quoted."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedclust import private_bounds
from fedclust.estimators import LocalKMeans, PrivateKMeans, RRCluster
from fedclust.tables import is_missing, read_csv, read_numbers
from fedclust_helpers.accounting import PrivacyLedger

BOX = ([0, 0], [100, 50])
OWNERS = np.arange(60) % 3
SECRET = "4711-Maria"
ODD = {  # a cell, and what it is called
    "words": (SECRET, "words|a unit or other signs"),
    "thousands": ("47,110", "thousands separators or a decimal comma"),
    "both": ("47.110,5", "thousands separators or a decimal comma"),
    "both turned": ("47,110.5", "thousands separators or a decimal comma"),
    "apostrophe": ("47'110", "thousands separators or a decimal comma"),
    "hard blank": ("47\u00a0110", "thousands separators or a decimal comma"),
    "narrow blank": ("47\u202f110", "thousands separators or a decimal comma"),
    "limit": ("<4711", "a sign before a number"),
    "unit": ("4711 kg", "a unit"),
    "currency": ("€4711", "a unit|words"),
    "minus": ("\u22124711", "a minus sign that is no hyphen"),
    "percent": ("4711%", "a unit"),
    "underscore": ("47_11", "words|a unit"),
    "date": ("2047-11-01", "a date"),
    "truth": ("yes", "a truth value"),
    "infinite": ("inf", "an infinite number|finite"),
    "timestamp": (pd.Timestamp("2047-11-01"), "a date"),
    "day": (datetime.date(2047, 11, 1), "a date"),
    "numpy's day": (np.datetime64("2047-11-01"), "a date"),
    "numpy's nanoseconds": (np.datetime64(4711, "ns"), "a date"),
    "duration": (datetime.timedelta(4711), "a time or a duration"),
    "numpy's duration": (np.timedelta64(4711, "s"), "a time or a duration"),
    "time of day": ("4:71:10", "a time or a duration"),
    "as pandas writes it": ("4711 days 00:00:00", "a time or a duration"),
    "mapping": ({SECRET: 1}, "objects that are no numbers"),
    "list": ([4711], "objects that are no numbers|array"),
    "complex": (4711j, "complex numbers|Complex"),
    "numpy's complex": (np.complex128(4711 + 1j), "complex numbers|Complex"),
    "bytes": (b"4711", "words|text"),
    "bytearray": (bytearray(b"4711"), "words|text|array"),
    "huge": (47110**400, "infinite"),
    "inf": (np.inf, "infinite|finite"),
}
GOOD = {
    "decimal": Decimal("47.11"), "fraction": Fraction(4711, 100), "truth": True,
    "numpy": np.float32(4),
}  # fmt: skip


def holding(cell):
    """60 rows of numbers, with this cell in column 1 of row 7."""
    rows = np.random.default_rng(0).uniform(0, 50, (60, 2)).round(2).astype(object)
    rows[7, 1] = cell
    return rows


def readers(rows, path):
    """Every way in: tables and arrays, whole or by client, with gaps allowed or not, and files."""
    table = pd.DataFrame(rows, columns=["age", "dose"])
    each = [rows[OWNERS == i] for i in range(3)]
    ledger, how = PrivacyLedger(), {"delta": 1e-6, "mode": "teaching", "seed": 1}
    model = PrivateKMeans(2, 1.0, bounds=BOX, ledger=ledger, **how)
    for missing in ("raise", "drop"):
        model.set_params(missing=missing)
        for X in (rows, rows.tolist(), table):
            yield ledger, lambda X=X: model.fit(X, clients=OWNERS)
        yield ledger, lambda: model.fit(each)
    yield ledger, lambda: private_bounds(table, 1.0, owners=OWNERS, ledger=ledger, **how)
    yield ledger, lambda: LocalKMeans(2, 1.0, bounds=BOX, mode="teaching", seed=1).fit(rows)
    models = RRCluster(2, 4.0, classes=[0, 1], bounds=BOX, missing="drop", ledger=ledger, **how)
    yield ledger, lambda: models.fit(rows, OWNERS % 2, clients=OWNERS)
    if isinstance(rows[7, 1], str):
        table.to_csv(path, index=False)
        yield ledger, lambda: model.fit(read_csv(path), clients=OWNERS)


@pytest.mark.parametrize("kind", list(ODD))
def test_a_cell_that_is_no_number_is_refused_in_the_same_words_everywhere(kind, tmp_path):
    cell, words = ODD[kind]
    for ledger, read in readers(holding(cell), tmp_path / "rows.csv"):
        with pytest.raises(
            (ValueError, TypeError), match=f"(X|clients|rows.csv).*({words})"
        ) as told:
            read()
        said = str(told.value)
        assert "4711" not in said and "Maria" not in said and "47" not in said
        assert not ledger.releases and told.value.__cause__ is None


def test_all_columns_of_words_are_named_at_once():
    table = pd.DataFrame(holding(1.0), columns=["age", "dose"]).assign(sex="f", species=SECRET)
    model = PrivateKMeans(2, 1.0, 1e-6, bounds=(0, 100), mode="teaching", seed=1)
    with pytest.raises(TypeError, match="column 'sex' holds words.*Neither are species numbers"):
        model.fit(table, clients=OWNERS)


@pytest.mark.parametrize("kind", list(GOOD))
def test_numbers_of_other_kinds_are_read(kind, tmp_path):
    model = PrivateKMeans(2, 1.0, 1e-6, bounds=BOX, mode="teaching", seed=1)
    plain = model.fit(holding(float(GOOD[kind])), clients=OWNERS).cluster_centers_
    np.testing.assert_array_equal(
        model.fit(holding(GOOD[kind]), clients=OWNERS).cluster_centers_, plain
    )


@pytest.mark.parametrize(
    "gap", [None, np.nan, pd.NA, pd.NaT, Decimal("nan"), Decimal("snan")], ids=repr
)
def test_a_gap_of_any_kind_is_left_out_or_refused_by_column(gap, tmp_path):
    rows = holding(gap)
    model = PrivateKMeans(2, 1.0, 1e-6, bounds=BOX, missing="drop", mode="teaching", seed=1)
    expected = model.fit(holding(np.nan), clients=OWNERS).cluster_centers_
    table = pd.DataFrame(rows, columns=["age", "dose"])
    for X in (rows, table):
        np.testing.assert_array_equal(model.fit(X, clients=OWNERS).cluster_centers_, expected)
    with pytest.raises(ValueError, match="X must have no missing values .*dose has some"):
        model.set_params(missing="raise").fit(table, clients=OWNERS)


CELLS = st.one_of(
    st.floats(), st.integers(), st.decimals(), st.fractions(), st.booleans(), st.text(),
    st.binary(), st.complex_numbers(), st.dates(), st.datetimes(), st.times(), st.timedeltas(),
    st.uuids(), st.lists(st.floats(), max_size=2), st.integers(0, 9).map(bytearray),
    st.integers(0, 99).map(lambda n: np.timedelta64(n, "s")),
    st.integers(0, 99).map(lambda n: np.datetime64(n, "ns")),
    st.complex_numbers(max_magnitude=9).map(np.complex64), st.floats(width=32).map(np.float32),
)  # fmt: skip


@given(CELLS)
def test_a_cell_is_the_number_that_it_is_or_refused(cell):
    """Whatever object it is: nothing that is no number becomes one."""
    column = np.empty(2, dtype=object)
    column[0], column[1] = 1.0, cell
    for X in (column[:, None], pd.DataFrame({"age": pd.Series(column, dtype=object)})):
        try:
            found = float(read_numbers(X, "X", gaps=True)[0][1, 0])
        except (TypeError, ValueError) as told:
            number = isinstance(cell, int | float | Decimal | Fraction | np.floating)
            assert "X" in str(told) and not (number and abs(cell) < 1e300)
        else:
            assert isinstance(cell, int | float | Decimal | Fraction | np.floating)
            assert found == float(cell) or (np.isnan(found) and is_missing(cell))


FILES = {
    "latin": ("age,dose\n1,2\n3,Köln\n".encode("latin-1"), "line 3, column 2: .*perhaps Latin-1"),
    "utf-16": ("age,dose\n1,2\n".encode("utf-16"), "line 1, column 1: .*UTF-16"),
    "utf-16 without a mark": ("age,dose\n1,2\n".encode("utf-16-le"), "line 1, column 1: .*UTF-16"),
    "workbook": (b"PK\x03\x04\x14\x00", "no CSV file but a workbook .*: export it as CSV"),
    "old workbook": (b"\xd0\xcf\x11\xe0\xa1", "no CSV file but a workbook"),
    "parquet": (b"PAR1\x15\x04", "no CSV file but a Parquet file"),
    "compressed": (b"\x1f\x8b\x08", "no CSV file but a compressed file"),
    "no header": (b"1,2\n3,4\n", "line 1: numbers where names"),
    "a comma too many": (b"age,dose\n1,2\n3,4,5\n", "line 3: 3 values below 2 names"),
    "cut short": (b"age,dose\n1,2\n3\n", "line 3: 1 values below 2 names"),
    "commas below": (b"age,dose,,\n1,2,,\n3,,,\n", "line 3, column dose: a missing value"),
    "semicolons": (b"age;dose\n1;2\n", "line 1: columns are separated by ';'"),
    "empty": (b"", "is empty"),
    "names only": (b"age,dose\n", "no row below"),
}


@pytest.mark.parametrize("kind", list(FILES))
def test_a_file_says_what_it_is_where_and_what_to_do(kind, tmp_path):
    content, words = FILES[kind]
    (tmp_path / "rows.csv").write_bytes(content)
    model = PrivateKMeans(2, 1.0, 1e-6, bounds=BOX, mode="teaching", seed=1)
    with pytest.raises(ValueError, match=f"rows.csv.*{words}"):
        model.fit(read_csv(tmp_path / "rows.csv"), clients=OWNERS)


@pytest.mark.parametrize("clients", ["town", None])
@pytest.mark.parametrize("reader", [read_csv, pd.read_csv, lambda p: pd.read_csv(p, header=None)])
def test_a_file_without_a_header_is_told_by_that_and_not_by_its_values(reader, clients, tmp_path):
    (tmp_path / "rows.csv").write_text("north,41.5,2\nsouth,43.5,4\n")
    model = PrivateKMeans(2, 1.0, 1e-6, bounds={"age": (0, 100), "dose": (0, 50)}, trust="trusted")
    with pytest.raises(ValueError, match=r"a file without a header\?.* write the names") as told:
        model.fit(reader(tmp_path / "rows.csv"), clients=clients)
    assert "north" not in str(told.value) and "41.5" not in str(told.value)
