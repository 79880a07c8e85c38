"""`PrivateKMeans`: one estimator for every trust model, and the method that it chooses."""

import numpy as np
import pandas as pd
import pytest
from conftest import refuses

import fedclust
from fedclust import estimators
from fedclust.estimators import FastLloydKMeans, FedDPKMeans, LocalKMeans, PrivateKMeans
from fedclust_helpers.accounting import PrivacyLedger

TEACHING = {"mode": "teaching", "seed": 4}
MEANS = np.array([[25.0, 10.0], [75.0, 40.0]])
BOUNDS = {"age": (0, 100), "dose": (0, 50)}


def rows(n, seed=0, sd=3.0):
    rng = np.random.default_rng(seed)
    return MEANS[rng.integers(2, size=n)] + rng.normal(0, sd, (n, 2))


CLIENTS = [rows(900, 1), rows(600, 2), rows(300, 3)]
SERVER = rows(80, 5, 6.0)


def private(**changes):
    settings = {"bounds": ([0, 0], [100, 50]), **TEACHING}
    return PrivateKMeans(2, 2.0, 1e-6, **settings | changes)


# --- the same as the estimators named after papers ------------------------------------------------

SAME = {
    "fastlloyd": (FastLloydKMeans, {}, {}),
    "overclustered": (FastLloydKMeans, {"trust": "serverless"}, {}),
    "feddp": (FedDPKMeans, {"trust": "trusted"}, {"X_server": SERVER}),
    "adaptive": (FedDPKMeans, {"trust": "ideal"}, {"X_server": SERVER}),
    "one_round": (LocalKMeans, {"trust": "shuffled"}, {}),
    "sketch": (LocalKMeans, {"trust": "local"}, {}),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", list(SAME))
def test_each_method_is_that_of_its_own_estimator(method):
    kind, how, more = SAME[method]
    X = CLIENTS if kind is not LocalKMeans else np.concatenate(CLIENTS)
    one = private(method=method, **how).fit(X, **more)
    other = kind(2, 2.0, 1e-6, method=method, lower=[0, 0], upper=[100, 50], **TEACHING, **how)
    other.fit(X, **more)
    assert (one.cluster_centers_ == other.cluster_centers_).all()
    assert one.plan_ == other.plan_ and one.method_ == method
    assert one.ledger_.epsilon(1e-6) == other.ledger_.epsilon(1e-6)


# --- the choice -----------------------------------------------------------------------------------

CHOSEN = {
    **dict.fromkeys(("masked", "ideal", "trusted", "serverless"), "overclustered"),
    **dict.fromkeys(("local", "shuffled"), "sketch"),
}


@pytest.mark.parametrize("trust", list(CHOSEN))
def test_the_method_is_chosen_by_public_facts_and_said(trust):
    """Other rows of the same number, the same choice; a method by name is not explained."""
    said = set()
    for seed in (1, 2):
        X = [rows(200, seed), rows(100, seed + 10)]
        X = np.concatenate(X) if trust in ("local", "shuffled") else X
        statement = private(trust=trust).preview(X)
        said.add(str(statement))
        assert dict(statement.rows())["chosen"] == statement.facts["chosen_for"] != ""
        by_name = private(trust=trust, method=CHOSEN[trust]).preview(X)
        assert by_name.facts["method"] == statement.facts["method"]
        assert by_name.facts["chosen_for"] is None and "chosen" not in dict(by_name.rows())
    assert len(said) == 1


def test_rows_of_a_server_choose_the_method_that_takes_them():
    methods = {
        private(trust="ideal", X_server=SERVER).preview(CLIENTS).facts["method"],
        private(trust="ideal").preview(CLIENTS, X_server=SERVER).facts["method"],
        private(trust="ideal", method="adaptive", X_server=SERVER).preview(CLIENTS).facts["method"],
    }
    assert len(methods) == 1 and "adaptive" in methods.pop()
    public = {"unit": "client", "n_records": 1800, "rows_per_client": 18}
    groups = [part for each in CLIENTS for part in np.array_split(each, len(each) // 18)]
    told = private(trust="ideal", **public).preview(groups, X_server=SERVER)
    assert told.facts["unit"] == "client" and "adaptive" in told.facts["method"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"trust": "masked", "X_server": SERVER}, "trust must be 'ideal' or 'trusted' with X_ser"),
        ({"unit": "client"}, "X_server must be given with unit='client'.* or choose unit='point'"),
        ({"method": "feddp"}, "trust must be one of ideal, trusted with method='feddp'"),
        ({"method": "sketch"}, "trust must be one of local, shuffled with method='sketch'"),
        ({"method": "fastlloyd", "trust": "local"}, "trust must be one of masked, .*'fastlloyd'"),
        ({"method": "feddp", "trust": "ideal"}, "X_server must be given, to fit or"),
        ({"method": "fastlloyd", "unit": "client"}, "unit must not be given .* protects rows"),
        ({"radius": 1.0}, "radius must not be given with method='overclustered'"),
        ({"rows_per_client": 9}, "rows_per_client must not be given"),
        ({"trust": "local", "n_records": 9}, "n_records must not be given with method='sketch'"),
        ({"trust": "nobody"}, "trust must be one of masked"),
        ({"method": "best"}, "method must be one of auto"),
        ({"unit": "row"}, "unit must be one of point, client"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(changes, match):
    ledger = PrivacyLedger()
    refuses(ValueError, match, private(ledger=ledger, **changes).fit, "no rows at all")
    assert not ledger.releases


# --- bounds ---------------------------------------------------------------------------------------


def test_bounds_may_be_said_in_four_ways(tmp_path):
    path = tmp_path / "bounds.csv"
    path.write_text("column,lower,upper\nage,0,100\ndose,0,50\n")
    tables = [pd.DataFrame(c, columns=["age", "dose"])[["dose", "age"]] for c in CLIENTS]
    by_name = {"lower": {"age": 0, "dose": 0}, "upper": {"age": 100, "dose": 50}, "bounds": None}
    told = [private(**how).fit(tables) for how in ({"bounds": BOUNDS}, {"bounds": path}, by_name)]
    told.append(private().fit(CLIENTS))
    for each in told:
        assert (each.cluster_centers_ == told[0].cluster_centers_).all()
    assert told[0].feature_names_in_.tolist() == ["age", "dose"]


@pytest.mark.parametrize(
    ("bounds", "error", "match"),
    [
        ([(0, 100), (0, 50)], TypeError, "bounds must be a mapping .* got list"),  # of two columns?
        ((0, 1, 2), TypeError, "bounds must be a mapping .* got tuple"),
        ({}, ValueError, "bounds must name at least one column"),
        ({"age": 100}, ValueError, "bounds must give 'age' two numbers"),
        ({"age": (0, 9), "dsoe": (0, 9)}, ValueError, "X.* must have the columns age, dsoe; dsoe"),
        ({"age": (0, 9), "dose": (9, 0)}, ValueError, "lower < upper .* but not in 'dose'"),
        ({"age": (0, 9), "dose": (7, 7)}, ValueError, "not in 'dose'.* one value only"),
        ((0, [100, 0]), ValueError, "lower < upper .* but not in"),
    ],
)
def test_bounds_that_cannot_be_read_are_refused(bounds, error, match):
    ledger = PrivacyLedger()
    table = pd.DataFrame(CLIENTS[0], columns=["age", "dose"])
    refuses(error, match, private(bounds=bounds, ledger=ledger).fit, [table, table])
    assert not ledger.releases


# --- from the top ---------------------------------------------------------------------------------


def test_estimators_are_found_at_the_top():
    for name in (*estimators.KINDS, "load"):
        assert getattr(fedclust, name) is getattr(estimators, name)
        assert name in dir(fedclust)
    refuses(AttributeError, "no attribute 'KMeans'", getattr, fedclust, "KMeans")


def test_what_was_chosen_is_saved_with_the_statement(tmp_path):
    fitted = private().fit(CLIENTS)
    fitted.save(tmp_path / "model.json")
    again = fedclust.load(tmp_path / "model.json")
    assert type(again) is PrivateKMeans and str(again.statement()) == str(fitted.statement())
    assert (again.predict(CLIENTS[0]) == fitted.predict(CLIENTS[0])).all()
