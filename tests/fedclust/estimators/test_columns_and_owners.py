"""Columns are found by their names in any kind of table, and an owner has one name: properties."""

import datetime
import unicodedata
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from conftest import refuses

from fedclust import private_bounds, private_summary
from fedclust.estimators import FedDPKMeans, PrivateKMeans, load
from fedclust.tables import read_csv
from fedclust_helpers.accounting import PrivacyLedger

TEACHING = {"delta": 1e-6, "mode": "teaching", "seed": 4}
MEANS = np.array([[25.0, 10.0, 3.0], [75.0, 40.0, 1.0], [50.0, 20.0, 2.0]])
SIDES = ([0.0, 0.0, 0.0], [100.0, 50.0, 4.0])
OWNERS = np.arange(1200) % 3
rng = np.random.default_rng(0)
ROWS = MEANS[rng.integers(3, size=1200)] + rng.normal(0, [3, 3, 0.1], (1200, 3))
ORDERS = [[1, 2, 0], [2, 1, 0]]
NAMES = {
    "text": ["age", "dose", "grade"],
    "numbers": [0, 1, 2],
    "years": [2019, 2021, 2020],
    "floats": [0.0, 1.0, 2.0],
    "tuples": [("a", "x"), ("a", "y"), ("b", "x")],
    "dates": list(pd.to_datetime(["2020-01-01", "2020-02-01", "2019-12-01"])),
    "text of numbers": ["1", "2", "0"],
}


def private(**changes):
    return PrivateKMeans(3, 2.0, **{"bounds": SIDES, **TEACHING} | changes)


class Foreign:
    """A table of another library: names, and pandas' interchange."""

    def __init__(self, table):
        self.table, self.columns = table, list(table.columns)

    def __len__(self):
        return len(self.table)


class Lazy(Foreign):
    """As dask has it."""

    def compute(self):
        return self.table


class Interchanged(Foreign):
    """As the dataframe interchange has it."""

    def __dataframe__(self, **how):
        return self.table.__dataframe__(**how)


class Arrow(Foreign):
    """As pyarrow has it: names of columns, and no rows by number."""

    def __init__(self, table):
        self.table, self.column_names = table, list(table.columns)

    def __getitem__(self, name):
        return self.table[name].to_numpy()


def records(table):
    return table.to_records(index=False)


def polars(table):
    return pytest.importorskip("polars").DataFrame(table.to_dict("list"))


def polars_lazy(table):
    return polars(table).lazy()


def pyarrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def batch(table):
    made = pytest.importorskip("pyarrow").RecordBatch
    return made.from_pandas(table, preserve_index=False)


def dask(table):
    return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=2)


KINDS = {
    each.__name__: each
    for each in (pd.DataFrame, Lazy, Interchanged, Arrow, records, polars, polars_lazy, pyarrow,
                 batch, dask)
}  # fmt: skip


def csv(path, table):
    table.to_csv(path, index=False)
    return read_csv(path)


def by_name(described, values):
    """What is said of each column; those of an array are called 0, 1, ..."""
    names = [str(c).removesuffix(".0") for c in described.columns or range(3)]
    return dict(zip(names, values, strict=True))


def same(found, wanted):
    """Whether both say the same of each column, by its name."""
    for name in ("lower", "upper"):
        each = [by_name(f, getattr(f, name)) for f in (found, wanted)]
        assert each[0] == pytest.approx(each[1])


@pytest.mark.parametrize("names", list(NAMES))
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_any_order_of_columns_gives_the_same(names, order, tmp_path):
    """Labels, scores, centres, bounds and summaries, whatever the names are, from a file too."""
    own = NAMES[names]
    table = pd.DataFrame(ROWS, columns=pd.Index(own, tupleize_cols=False))
    turned = table.iloc[:, order]
    bounds = dict(zip(own, zip(*SIDES, strict=True), strict=True))
    for given in (bounds, dict(reversed(bounds.items()))):
        fits = [private(bounds=given).fit(each, clients=OWNERS) for each in (table, turned)]
        np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
        fits[0].save(tmp_path / f"{len(list(tmp_path.iterdir()))}.json")
        for model in (fits[0], load(max(tmp_path.iterdir()))):
            np.testing.assert_array_equal(model.predict(turned), fits[0].predict(table))
            np.testing.assert_array_equal(model.transform(turned), fits[0].transform(table))
            assert model.score(turned) == pytest.approx(fits[0].score(table))
    by_place = private().fit(table, clients=OWNERS)  # bounds by place, and names of the fit
    np.testing.assert_array_equal(by_place.predict(turned), by_place.predict(table))
    near = {"owners": OWNERS, **TEACHING}
    found = private_bounds(table, 3.0, **near)
    fits = [private(bounds=found.bounds).fit(each, clients=OWNERS) for each in (table, turned)]
    np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
    wanted = private_summary(table, 2.0, bounds=bounds, **near)
    for each, columns in ((turned, None), (table, [own[i] for i in order])):
        got = private_summary(each, 2.0, bounds=bounds, columns=columns, **near)
        same(got, wanted)
        means = [by_name(f, f.mean.value) for f in (got, wanted)]
        assert all(abs(means[0][c] - means[1][c]) < 3 for c in means[1])  # noise of about 0.5


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_kind_of_table_is_read_by_its_names(kind):
    make = KINDS[kind]
    table = pd.DataFrame(ROWS, columns=NAMES["text"])
    turned = make(table.iloc[:, [2, 0, 1]])
    expected = private().fit(table, clients=OWNERS)
    np.testing.assert_array_equal(expected.predict(turned), expected.predict(table))
    each = [table[OWNERS == i] for i in range(3)]
    mixed = private().fit([each[0], make(each[1].iloc[:, [1, 2, 0]]), make(each[2])])
    np.testing.assert_array_equal(mixed.cluster_centers_, expected.cluster_centers_)
    by_column = private(bounds=dict(zip(NAMES["text"], zip(*SIDES, strict=True), strict=True)))
    by_column.fit(make(table.iloc[:, [1, 2, 0]].assign(who=OWNERS)), clients="who")
    np.testing.assert_array_equal(by_column.cluster_centers_, expected.cluster_centers_)
    assert private_bounds(turned, 3.0, owners=OWNERS, **TEACHING).names == ["grade", "age", "dose"]
    server = FedDPKMeans(3, 4.0, bounds=SIDES, X_server=make(table[::9].iloc[:, ::-1]), **TEACHING)
    plain = FedDPKMeans(3, 4.0, bounds=SIDES, X_server=table[::9], **TEACHING)
    centers = [m.fit(table, clients=OWNERS).cluster_centers_ for m in (server, plain)]
    np.testing.assert_array_equal(*centers)


def test_names_of_files_find_the_columns_that_read_so(tmp_path):
    years = pd.DataFrame(ROWS, columns=NAMES["years"])
    lines = [f"{y},{low},{high}" for y, low, high in zip(NAMES["years"], *SIDES, strict=True)]
    (tmp_path / "bounds.csv").write_text("\n".join(["column,lower,upper", *lines]))
    model = private(bounds=tmp_path / "bounds.csv").fit(years, clients=OWNERS)
    np.testing.assert_array_equal(model.predict(years[[2020, 2019, 2021]]), model.predict(years))
    from_csv = csv(tmp_path / "rows.csv", years[[2021, 2020, 2019]])
    np.testing.assert_array_equal(model.predict(from_csv), model.predict(years))
    both = years.assign(**{"2019": 1.0})
    np.testing.assert_array_equal(model.predict(both.drop(columns=[2019])) >= 0, True)


def test_arrays_and_names_are_not_mixed():
    """Which column of an array is which, its names do not say: refused, whichever came first."""
    table = pd.DataFrame(ROWS, columns=NAMES["text"])
    named, plain = private().fit(table, clients=OWNERS), private().fit(ROWS, clients=OWNERS)
    for call in ("predict", "transform", "score"):
        refuses(
            ValueError, r"X must be a table with named columns \(age", getattr(named, call), ROWS
        )
        refuses(ValueError, r"no names: X.to_numpy\(\)", getattr(plain, call), table)
    numbered = pd.DataFrame(ROWS)  # what an array becomes has its numbers as names
    np.testing.assert_array_equal(plain.predict(numbered[[2, 0, 1]]), plain.predict(ROWS))
    ledger = PrivacyLedger()
    turned = private(bounds={1: (0, 50), 0: (0, 100), 2: (0, 4)}, ledger=ledger)
    refuses(ValueError, "X must be a table with named columns", turned.fit, ROWS, clients=OWNERS)
    twice = pd.DataFrame(ROWS, columns=pd.Index([0.5, "0.5", "a"], dtype=object))
    refuses(ValueError, "columns of different names", private(ledger=ledger).fit, twice,
            clients=OWNERS)  # fmt: skip
    truths = pd.DataFrame(ROWS, columns=pd.Index([False, True, 2], dtype=object))
    refuses(ValueError, "X must have the columns 0, 1, 2; 0, 1 not", plain.predict, truths)
    for other in (True, pd.NA):  # that compares to no truth, as expressions of polars
        refuses(ValueError, "must be .* the name of a column", plain.fit, numbered, clients=other)
    each = np.empty((1200, 2), dtype=[("age", float, 2), ("dose", float)])[:, 0]
    refuses(TypeError, "column 'age' holds several values in each row", private(ledger=ledger).fit,
            each, clients=OWNERS)  # fmt: skip
    assert not ledger.releases


# --- whose rows -----------------------------------------------------------------------------------

TWICE = {  # two ways of writing one owner
    "number and text": ("12", 12),
    "text of a float": ("12", "12.0"),
    "float and text": ("12", 12.0),
    "bytes": ("P 7", b"P 7"),
    "decimal": ("12", Decimal(12)),
    "numpy": ("12", np.int32(12)),
    "blank behind": ("P 7", "P 7 "),
    "blank before": ("P 7", "\tP 7"),
    "hard blank": ("P 7", "P\u00a07"),
    "two blanks": ("P 7", "P  7"),
    "zero width": ("P 7", "P\u200b 7"),
    "selector of a shape": ("P 7", "P 7\ufe0f"),
    "filler": ("P 7", "P 7\u3164"),
    "joiner": ("P 7", "P\u034f 7"),
    "byte order mark": ("P 7", "\ufeffP 7"),
    "decomposed": ("Éva ﬁ", unicodedata.normalize("NFD", "Éva ﬁ")),
    "ligature": ("Éva ﬁ", "Éva fi"),
    "wide digits": ("12", "１２"),
    "date": ("2020-01-01", datetime.date(2020, 1, 1)),
    "timestamp": ("2020-01-01", pd.Timestamp("2020-01-01")),
    "pairs": (("a", 1), ("a", "1")),
}  # fmt: skip


def given(ids):
    """Ids as an array of objects, a column of a table, and names of clients in a dict."""
    array = np.fromiter(ids, dtype=object, count=len(ids))
    table = pd.DataFrame(ROWS, columns=NAMES["text"]).assign(who=pd.Series(array, dtype=object))
    yield ROWS, {"clients": array}
    yield table, {"clients": "who"}
    yield {each: ROWS[k::9] for k, each in enumerate(dict.fromkeys(ids))}, {}


@pytest.mark.parametrize("kind", list(TWICE))
def test_an_owner_under_two_names_is_refused(kind):
    ledger = PrivacyLedger()
    one, other = TWICE[kind]
    ids = [(one, other, "somebody else")[i] for i in OWNERS]
    said, fit = "must give each owner one id: some differ in", private(ledger=ledger).fit
    for X, how in given(ids):
        refuses(ValueError, said, fit, X, **how)
    assert not ledger.releases


@pytest.mark.parametrize(
    "null",
    [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("nan"), Decimal("snan"), "", "  ",
     "nan", "None", "<NA>", "NaT", "NULL", "#N/A"],
    ids=repr,
)  # fmt: skip
def test_nobody_is_no_owner(null):
    ids = np.fromiter(((null, "b", "c")[i] for i in OWNERS), dtype=object, count=1200)
    ledger = PrivacyLedger()
    refuses(ValueError, "clients must be .*none of them missing", private(ledger=ledger).fit, ROWS,
            clients=ids)  # fmt: skip
    assert not ledger.releases


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_floats_that_stand_for_several_owners_are_refused(kind):
    exact = 2.0 ** (np.finfo(kind).nmant + 1) - 2
    private(trust="ideal").fit(ROWS, clients=(exact + np.arange(1200) % 2).astype(kind))
    ids = (exact + 2 * (1 + np.arange(1200) % 3)).astype(kind)
    refuses(ValueError, "clients must be ids that are exact", private().fit, ROWS, clients=ids)
    text = np.array(["1.23457E+11", "7.1E+10", "8E+10"])[OWNERS]
    refuses(ValueError, "clients must be ids that are exact", private().fit, ROWS, clients=text)


def test_ids_that_differ_in_more_stay_apart():
    for ids in (
        ["North", "north", "Nort"],
        ["1 11", "11 1", "111"],
        ["01", "1", "001"],
        [1, 2.5, "x"],
    ):
        model = private().fit(ROWS, clients=np.fromiter(ids * 400, dtype=object, count=1200))
        assert len(model.clipped_counts_) == 3


# --- bounds ---------------------------------------------------------------------------------------

BY_NAME = {"age": (0, 100), "dose": (0, 50), "grade": (0, 4)}
WIDE = pd.DataFrame(BY_NAME)
LONG = pd.DataFrame(SIDES, index=["lower", "upper"], columns=list(BY_NAME)).T


@pytest.mark.parametrize(
    "form",
    [
        {"bounds": dict(reversed(BY_NAME.items()))},
        {"bounds": WIDE[["grade", "age", "dose"]]},
        {"bounds": LONG[::-1]},
        {"bounds": LONG.rename_axis("column").reset_index()[::-1]},
        {"bounds": Arrow(WIDE[["grade", "age", "dose"]])},
        {"bounds": (WIDE.iloc[0][::-1], WIDE.iloc[1])},
        {"lower": WIDE.iloc[0][::-1], "upper": WIDE.iloc[1]},
        {"lower": 0, "upper": WIDE.iloc[1][::-1]},
    ],
    ids=["mapping", "two rows", "a row each", "a file's", "arrow", "pair of series", "series",
         "one"],
)  # fmt: skip
def test_bounds_of_any_form_are_found_by_name(form):
    table = pd.DataFrame(ROWS, columns=NAMES["text"])
    model = private(**{"bounds": None} | form).fit(table, clients=OWNERS)
    facts = model.statement().facts
    each = zip(facts["columns"], facts["lower"], facts["upper"], strict=True)
    assert {c: (low, high) for c, low, high in each} == BY_NAME
    if "bounds" in form:
        how = {"owners": OWNERS, "columns": ["grade", "age"], **TEACHING}
        found = private_summary(table, 2.0, bounds=form["bounds"], **how)
        assert found.names == ["grade", "age"] and found.upper.tolist() == [4, 100]


@pytest.mark.parametrize(
    "form",
    [
        {"bounds": ((0, 110), (60, 220))},
        {"bounds": [(0, 110), (60, 220)]},
        {"bounds": np.array([[0, 110], [60, 220]])},
        {"bounds": {"lower": (0, 60), "upper": (110, 220)}},
        {"lower": {"age": 0, "dose": 0}, "upper": [100, 50]},
    ],
    ids=["tuples", "list", "array", "keys", "half"],
)
def test_bounds_that_can_be_read_in_two_ways_are_refused(form):
    table = pd.DataFrame(ROWS[:, :2], columns=NAMES["text"][:2])
    model = private(**{"bounds": None} | form, ledger=(ledger := PrivacyLedger()))
    refuses((ValueError, TypeError), "could be .*, or ", model.fit, table, clients=OWNERS)
    refuses(
        ValueError, "could be in the order of columns, or in that of the table", private_summary,
        table, 1.0, bounds=([0, 0], [100, 50]), columns=["dose", "age"], owners=OWNERS, **TEACHING,
    )  # fmt: skip
    refuses(ValueError, "bounds must name each of columns; dose not", private_summary, table, 1.0,
            bounds={"age": (0, 100)}, columns=["dose"], owners=OWNERS, **TEACHING)  # fmt: skip
    assert not ledger.releases
