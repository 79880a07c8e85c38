"""The second hour of a user: good parts combined, in threads, after failures, with odd tables."""

import threading
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fedclust.estimators import (
    FastLloydKMeans,
    FedDPKMeans,
    PublicBoundsWarning,
    RRCluster,
    load,
)
from fedclust.tables import read_csv
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger
from fedclust_helpers.federation import ClientData

BOX = {"lower": 0, "upper": 100}
TEACHING = {"mode": "teaching", "seed": 1}


@pytest.fixture
def table():
    """60 rows of three clients."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(50, 10, (60, 2)), columns=["age", "dose"])
    made["clinic"] = np.arange(60) % 3
    return made


@pytest.fixture(autouse=True)
def few_rows(recwarn):
    """Every fit here warns of too few rows: what they are about is not accuracy."""


def lloyd(**changes):
    """An estimator that fits in milliseconds."""
    given = {"n_clusters": 2, "epsilon": 1.0, "trust": "ideal"} | BOX | TEACHING | changes
    return FastLloydKMeans(**given)


# --- one ledger, many threads ---------------------------------------------------------------------


def test_runs_in_threads_on_one_ledger_are_told_apart(table):
    """Each waits in its first round until all have begun, so that their releases interleave."""
    ledger, together = PrivacyLedger(), threading.Barrier(3, timeout=60)

    def wait(done, total):
        if done == 1:
            together.wait()

    models = [lloyd(ledger=ledger, options={"progress": wait}) for _ in range(3)]
    threads = [
        threading.Thread(target=m.fit, args=(table,), kwargs={"clients": "clinic"}) for m in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = len(models[0].plan_.releases)
    assert len(ledger.releases) == 3 * n > n
    for model in models:
        charged = model.statement().facts["charged"]
        assert charged["releases"] == n and charged["ledger_releases"] == 3 * n
        assert charged["epsilon"] == pytest.approx(1.0, rel=1e-9)


def test_two_fits_of_one_estimator_at_once_are_refused(table):
    """Each would open a ledger of its own, and only the last would be remembered."""
    seen = []

    def again(done, total):
        seen.append(done)
        if len(seen) == 1:
            with pytest.raises(RuntimeError, match="a fit of this estimator is under way"):
                model.fit(table, clients="clinic")

    model = lloyd(options={"progress": again})
    model.fit(table, clients="clinic")
    assert seen and len(model.ledger_.releases) == len(model.plan_.releases)
    model.set_params(options=None).fit(table, clients="clinic")
    assert len(model.ledger_.releases) == 2 * len(model.plan_.releases)


# --- a statement speaks of the fit, whatever comes after it ---------------------------------------


def facts(model):
    """All that a statement says."""
    return dict(model.statement().facts)


def test_parameters_set_after_a_fit_change_nothing_of_it(table, tmp_path):
    """Neither the warning of bounds read off the data nor the numbers in the file go away."""
    with pytest.warns(PublicBoundsWarning):
        model = lloyd(lower=None, upper=None, public_data=True).fit(table, clients="clinic")
    model.save(tmp_path / "before.json")
    before, saved = facts(model), (tmp_path / "before.json").read_text("utf-8")
    assert "bounds were read off" in " ".join(before["warnings"])
    model.set_params(
        lower=0, upper=1, public_data=False, epsilon=0.01, delta=0.1, n_clusters=5,
        mode="secure", seed=None, trust="masked",
    )  # fmt: skip
    model.save(tmp_path / "after.json")
    assert facts(model) == before and (tmp_path / "after.json").read_text("utf-8") == saved
    loaded = load(tmp_path / "after.json").set_params(epsilon=0.01)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text("utf-8") == saved


def test_models_answer_as_they_were_fitted(table, tmp_path):
    labels = np.where(table["age"] > 50, "old", "young")
    model = RRCluster(2, epsilon=4.0, classes=["old", "young"], n_rounds=2, **BOX, **TEACHING)
    model.fit(table, labels, clients="clinic")
    answers = model.predict(table, clients="clinic"), model.score(table, labels, clients="clinic")
    model.set_params(classes=["a", "b", "c"], n_hidden=3, n_clusters=7)
    assert (model.predict(table, clients="clinic") == answers[0]).all()
    assert model.score(table, labels, clients="clinic") == answers[1]
    with pytest.raises(ValueError, match="choice must be >= 0 and <= 1"):
        model.predict(table, choice=2)
    model.save(tmp_path / "models.json")
    assert set(load(tmp_path / "models.json").predict(table, choice=1)) <= {"old", "young"}


def test_bounds_that_are_changed_in_place_later_change_nothing(table):
    upper = np.full(2, 100.0)
    model = lloyd(upper=upper).fit(table, clients="clinic")
    before, labels = facts(model), model.predict(table[["age", "dose"]])
    upper[:] = 51
    assert facts(model) == before
    assert (model.predict(table[["age", "dose"]]) == labels).all()


def test_a_fit_that_is_refused_or_interrupted_leaves_the_fit_before_it(table):
    """The names of the columns stay: else a table in another order would be read wrongly."""
    named = {"lower": {"age": 0, "dose": 0}, "upper": {"age": 100, "dose": 100}}
    ledger = PrivacyLedger(budget=Budget(1.5, 1e-6))
    model = lloyd(ledger=ledger, delta=1e-6, **named).fit(table, clients="clinic")
    before, labels = facts(model), model.predict(table)
    with pytest.raises(BudgetExceededError):
        model.fit(table, clients="clinic")
    assert facts(model) == before
    assert (model.predict(table[["dose", "clinic", "age"]]) == labels).all()

    def stop(done, total):
        raise KeyboardInterrupt

    model.set_params(ledger=PrivacyLedger(), options={"progress": stop})
    with pytest.raises(KeyboardInterrupt):
        model.fit(table, clients="clinic")
    assert (model.predict(table[["dose", "clinic", "age"]]) == labels).all()
    assert facts(model)["charged"] == before["charged"]


# --- odd tables -----------------------------------------------------------------------------------


def test_tables_beside_arrays_are_refused(table):
    """Nothing says which column of the array is which."""
    rows = table[["dose", "age"]]
    for clients in ([rows.to_numpy(), rows], [rows, rows.to_numpy()]):
        with pytest.raises(ValueError, match="must have the same columns as|must be a table, as"):
            lloyd().fit(clients)


class Arrow:
    """Behaves as a pyarrow.Table: names of columns, and no rows by number."""

    def __init__(self, table):
        self.table, self.column_names = table, list(table.columns)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, name):
        return self.table[name].to_numpy()


def test_tables_of_all_kinds_are_read_by_the_names_of_their_columns(table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    expected = lloyd().fit(table, clients="clinic").cluster_centers_
    kinds = Arrow(table), read_csv(tmp_path / "rows.csv"), table.convert_dtypes(), table[::-1]
    for each in (*kinds, table.astype(object)[["clinic", "age", "dose"]]):
        np.testing.assert_allclose(lloyd().fit(each, clients="clinic").cluster_centers_, expected)
    own = [table[table.clinic == i][["age", "dose"]] for i in range(3)]
    mixed = [own[0], Arrow(own[1][["dose", "age"]]), own[2]]
    assert (lloyd().fit(mixed).cluster_centers_ == lloyd().fit(own).cluster_centers_).all()


def test_ids_of_a_table_in_another_order_are_refused(table):
    """By position they would make up clients whom nobody protects; nothing is charged."""
    said = "must have the rows of X, and its index has others, or in another order"
    ledger = PrivacyLedger()
    turned = table[["age", "dose"]][::-1]
    with pytest.raises(ValueError, match=f"clients {said}"):
        lloyd(ledger=ledger).fit(turned, clients=table["clinic"])
    model = RRCluster(2, epsilon=4.0, classes=[0, 1, 2], ledger=ledger, **BOX, **TEACHING)
    with pytest.raises(ValueError, match=f"y {said}"):
        model.fit(turned, table["clinic"], clients=np.arange(60))
    with pytest.raises(ValueError, match=f"clients {said}"):
        lloyd(ledger=ledger).fit(table[:40], clients=table["clinic"][20:])
    assert not ledger.releases
    lloyd().fit(turned, clients=table["clinic"].loc[turned.index])
    lloyd().fit(turned, clients=table["clinic"].to_numpy())


def test_owners_and_labels_are_no_features(table):
    bounds = {"lower": {"age": 0, "clinic": 0}, "upper": {"age": 100, "clinic": 2}}
    with pytest.raises(ValueError, match="clinic must be no feature: it says whose each row is"):
        lloyd(**bounds).fit(table, clients="clinic")
    model = RRCluster(2, epsilon=4.0, classes=[0, 1, 2], **bounds, **TEACHING)
    with pytest.raises(ValueError, match="clinic must be no feature"):
        model.fit(table, "clinic", clients=np.arange(60))


@pytest.mark.parametrize(
    "names",
    [
        pd.MultiIndex.from_tuples([("visit", "age"), ("visit", "dose")]), [0.5, 1.5],
        pd.to_datetime(["2020-01-01", "2020-02-01"]), [True, False], [1, "1"], [7, 3],
    ],
    ids=["tuples", "floats", "dates", "truths", "mixed", "numbers"],
)  # fmt: skip
def test_columns_may_have_names_of_any_kind(table, tmp_path, names):
    rows = table[["age", "dose"]].set_axis(names, axis=1)
    model = lloyd().fit(rows, clients=table["clinic"])
    model.save(tmp_path / "model.json")
    turned = rows.iloc[:, ::-1]
    for made in (model, load(tmp_path / "model.json")):
        np.testing.assert_array_equal(made.predict(turned), model.predict(rows))
    assert set(model.predict(rows)) == {0, 1}


def test_client_data_bring_the_labels_of_models():
    rng = np.random.default_rng(0)
    rows, y = rng.uniform(0, 100, (60, 2)), rng.integers(2, size=60)
    model = RRCluster(2, epsilon=4.0, classes=["n", "y"], n_rounds=2, **BOX, **TEACHING)
    data = ClientData(rows, [0, 20, 40, 60], y)
    each = [rows[:20], rows[20:40], rows[40:]]
    named = [np.array(["n", "y"])[y[i : i + 20]] for i in (0, 20, 40)]
    same = clone(model).fit(each, named)
    np.testing.assert_array_equal(model.fit(data).models_, same.models_)
    for wrong, given in ((data, y), (ClientData(rows, [0, 60]), None)):
        with pytest.raises(ValueError, match="y must be None: ClientData brings labels"):
            model.fit(wrong, given)
    with pytest.raises(ValueError, match="y must be None"):
        model.fit(ClientData(rows, [0, 60], y + 1))


def test_numbers_of_other_kinds_are_kept_as_floats(table, tmp_path):
    model = lloyd(epsilon=Fraction(1, 2)).fit(table, clients="clinic")
    model.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").get_params()["epsilon"] == 0.5


def test_classes_of_models_stay_what_they_are(table):
    labels = np.empty(60, dtype=object)
    labels[:] = [0 if age > 50 else "young" for age in table["age"]]
    model = RRCluster(2, epsilon=4.0, classes=[0, "young"], n_rounds=2, **BOX, **TEACHING)
    model.fit(table[["age", "dose"]], labels, clients=table["clinic"])
    assert set(model.predict(table[["age", "dose"]], choice=0)) <= {0, "young"}


def test_the_number_of_all_rows_is_no_public_number_where_clients_are_protected(table):
    """It would tell exactly how many rows one client brings."""
    y = np.arange(60) % 2
    model = RRCluster(2, epsilon=4.0, classes=[0, 1], n_rounds=2, **BOX, **TEACHING)
    statements = [
        model.preview(table[:n], y[:n], clients="clinic") for n in (60, 57)
    ]  # three clients
    assert statements[0].facts == statements[1].facts and "60" not in str(statements[0])
    model = FedDPKMeans(
        2, epsilon=4.0, unit="client", rows_per_client=20, X_server=table[["age", "dose"]],
        **BOX, **TEACHING,
    )  # fmt: skip
    with pytest.raises(ValueError, match="n_records must be given with unit='client'"):
        model.preview(table, clients="clinic")
    assert model.set_params(n_records=100).preview(table, clients="clinic").facts["n_records"]
