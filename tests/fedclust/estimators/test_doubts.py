"""Whoever holds rows hears of values that bounds cut, of codes and of row numbers; nobody else."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from fedclust import private_bounds, private_summary
from fedclust.command.fit import run
from fedclust.doubts import outside, row_numbers, unusual
from fedclust.estimators import FedDPKMeans, PrivateKMeans, UnusualColumnWarning
from fedclust_helpers.federation import ClippedDataWarning

TEACHING = {"delta": 1e-6, "mode": "teaching", "seed": 1}
BY_NAME = {"age": (0, 110), "bp": (60, 220)}
MEANS = np.array([[20.0, 120.0], [50.0, 140.0], [80.0, 165.0]])


def rows(seed, n=1500):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        MEANS[rng.integers(3, size=n)] + rng.normal(0, 4, (n, 2)), columns=list(BY_NAME)
    )


CLIENTS = {f"c{i}": rows(i) for i in range(5)}


def first(n, column, value):
    """All clients, with this in the first n rows of a column."""
    kept = np.arange(1500) >= n
    return {k: v.assign(**{column: v[column].where(kept, value)}) for k, v in CLIENTS.items()}


def said(call, kinds=(ClippedDataWarning, UnusualColumnWarning)):
    """The warnings for the holder that a call gives."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in told if each.category in kinds]


def fit(X, **how):
    clients = {} if isinstance(X, dict) else {"clients": "who"}
    model = PrivateKMeans(3, 2.0, bounds=BY_NAME, **TEACHING)
    return [lambda: model.fit(X, **clients), lambda: model.preview(X, **clients)]


def entry_points(X):
    """Every way from rows to a plan, with the same bounds."""
    how = {} if isinstance(X, dict) else {"owners": "who"}
    ask = {"bounds": BY_NAME, **TEACHING, **how}
    server = FedDPKMeans(3, 4.0, bounds=BY_NAME, X_server=rows(9), **TEACHING)
    own = {} if isinstance(X, dict) else {"clients": "who"}
    return [
        *fit(X), lambda: server.fit(X, **own), lambda: private_summary(X, 2.0, **ask),
        lambda: private_summary(X, 2.0, preview=True, **ask),
    ]  # fmt: skip


def test_one_client_in_another_unit_is_named_at_every_entry_point():
    odd = CLIENTS | {"c4": rows(4).assign(bp=rows(4).bp / 10)}
    table = pd.concat([each.assign(who=name) for name, each in odd.items()])
    for X, name in ((odd, r"(X|clients)\['c4'\]"), (table, r"client 4 \(counted from 0\)")):
        for call in entry_points(X):
            (text,) = said(call)
            assert re.match(f"column bp of {name}: most of the values are not within 60 to", text)
    for call in entry_points(CLIENTS):
        assert said(call) == []


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("code", [-99.0, -999.0, 999.0])
def test_a_code_in_a_share_of_a_column_is_noticed_where_bounds_cut_it(share, code):
    coded = {
        k: v.assign(bp=v.bp.where(np.arange(1500) >= 1500 * share, code))
        for k, v in CLIENTS.items()
    }
    for call in fit(coded):
        text = " ".join(said(call))
        assert "column bp: " in text and "a code for a missing one" in text
        assert str(int(code)) not in text  # quotes no value
    assert not said(fit(first(60, "bp", code))[1])  # 4 %, at all alike


def test_codes_are_noticed_where_bounds_are_found():
    coded = first(150, "age", -99)
    model = PrivateKMeans(3, 2.0, bounds="private", **TEACHING)
    for call in (lambda: model.fit(coded), lambda: private_bounds(coded, 2.0, **TEACHING)):
        assert any(
            "column age: one in twenty or more of the values are one" in t for t in said(call)
        )


def test_a_share_that_only_one_client_has_is_told_however_small():
    """Thirty of 1500 at one client, none at the others; at all alike nothing is said."""
    high = {
        k: v.assign(bp=v.bp.where(np.arange(1500) >= 30, 230 + v.age)) for k, v in CLIENTS.items()
    }
    (text,) = said(fit(CLIENTS | {"c2": high["c2"]})[1])
    assert text.startswith("column bp of X['c2']: more of the values than at other clients")
    assert said(fit(high)[1]) == []


def test_chance_alone_is_seldom_told():
    """20 clients, 5 columns, 1 % outside by chance, 200 times: at most 1 in 1000 each by design."""
    told = 0
    for seed in range(200):
        points = np.random.default_rng(seed).uniform(0, 1.01, (4000, 5))
        offsets = np.arange(0, 4001, 200)
        told += bool(outside(points, offsets, np.zeros(5), np.ones(5), range(5)))
    assert told <= 4  # more by chance: 1e-4 at most


def test_row_numbers_are_told_where_nobody_chose_the_columns():
    numbered = {k: v.assign(id=np.arange(1500)) for k, v in CLIENTS.items()}
    dealt = {k: v.assign(id=np.arange(i, 7500, 5)) for i, (k, v) in enumerate(CLIENTS.items())}
    for X in (numbered, dealt):
        (text,) = said(lambda: private_bounds(X, 2.0, **TEACHING))  # noqa: B023
        assert text.startswith("column id: whole numbers, one after the other")
    assert said(fit(numbered)[1]) == []


@pytest.mark.parametrize(
    "values",
    [np.repeat([1, 2], 500), np.tile([1, 2, 3, 4, 5], 200), np.zeros(1000), np.full(1000, np.nan),
     np.r_[np.zeros(300), np.linspace(50_000, 100_000, 700)], np.linspace(0, 1, 1000) ** 3,
     np.random.default_rng(0).integers(0, 1000, 1000)],
)  # fmt: skip
def test_ordinary_columns_are_not_called_odd(values):
    column = values.astype(float)[:, None]
    assert (
        unusual(column, [0, 500, 1000], ["x"]) == [] == row_numbers(column, [0, 500, 1000], ["x"])
    )


@pytest.mark.parametrize(("n", "is_told"), [(19, False), (20, True)])
def test_one_value_of_a_client_with_a_few_rows_is_no_code(n, is_told):
    column = np.r_[-999.0, np.linspace(0, 100, 1000)][:, None]
    assert bool(unusual(column, [0, n, 1001], ["x"])) == is_told


def test_the_command_tells_it_too(tmp_path, capsys):
    table = pd.concat([v.assign(clinic=k) for k, v in CLIENTS.items()])
    table.iloc[::3, 1] = -999
    table.to_csv(tmp_path / "v.csv", index=False)
    (tmp_path / "bounds.csv").write_text("column,lower,upper\nage,0,110\nbp,60,220\n")
    (tmp_path / "fit.toml").write_text(
        '[data]\nfile="v.csv"\nclients="clinic"\n[study]\nn_clusters=3\nepsilon=2.0\ndelta=1e-6\n'
        'bounds="bounds.csv"\nmode="teaching"\nseed=1\n'
    )
    assert run(tmp_path / "fit.toml") == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(
        "fedclust: warning: column bp: one in twenty or more of the values"
    )
    assert "999" not in printed.err and printed.err.count("column bp: one in twenty or more") <= 2
    assert "warning: column" not in printed.out
    for file in (tmp_path / "results").iterdir():
        assert "one in twenty" not in file.read_text()  # no part of what is released


def test_a_client_without_rows_changes_no_word():
    """Wherever it stands: it counts no row of its neighbour's."""
    points = np.vstack([rows(i).to_numpy() for i in range(3)])
    points[3000:, 0] += 900.0  # one client in another unit
    points[:1500, 1] = -999.0
    points[:300, 1] = 130.0 + np.arange(300) / 100
    counted = np.column_stack([points, np.tile(np.arange(1500.0), 3)])
    lower, upper, names = np.zeros(3), np.full(3, 2000.0), ["age", "bp", "row"]
    upper[0] = 110.0

    def heard(offsets, who):
        offsets = np.array(offsets)
        return [
            outside(counted, offsets, lower, upper, names, who),
            unusual(counted, offsets, names), row_numbers(counted, offsets, names),
        ]  # fmt: skip

    plain = heard([0, 1500, 3000, 4500], ["a", "b", "c"])
    assert all(plain)
    assert " of c:" in plain[0][0]
    for at in range(4):
        offsets, who = [0, 1500, 3000, 4500], ["a", "b", "c"]
        offsets.insert(at, offsets[at])
        who.insert(at, "none")
        assert heard(offsets, who) == plain
