"""What fit takes, predict, transform and score take too: nothing is charged for what is refused."""

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from sklearn import config_context
from sklearn.model_selection import cross_val_predict, cross_val_score

from fedclust import private_bounds, private_summary
from fedclust.estimators import PrivateKMeans
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.federation import ClientData

MEANS = np.array([[20.0, 120.0], [50.0, 140.0], [80.0, 165.0]])
BOX = ([0, 60], [110, 220])
rng = np.random.default_rng(0)
ROWS = MEANS[rng.integers(3, size=1200)] + rng.normal(0, 4, (1200, 2))
TABLE = pd.DataFrame(ROWS, columns=["age", "bp"]).assign(clinic=np.arange(1200) % 4)
OWN = [TABLE[["age", "bp"]][TABLE.clinic == i] for i in range(4)]
FORMS = {
    "array and ids": (ROWS, {"clients": TABLE.clinic}),
    "table and column": (TABLE, {"clients": "clinic"}),
    "list of tables": (OWN, {}),
    "list of arrays": ([each.to_numpy() for each in OWN], {}),
    "dict": ({f"c{i}": each for i, each in enumerate(OWN)}, {}),
    "one array": (np.stack([each.to_numpy() for each in OWN]), {}),
    "ClientData": (ClientData.from_clients([each.to_numpy() for each in OWN]), {}),
}


def private(**changes):
    given = {"bounds": BOX, "mode": "teaching", "seed": 1} | changes
    return PrivateKMeans(3, 2.0, 1e-6, **given)


def gaps(X):
    """The same with a missing value in the first row of every table."""
    if isinstance(X, dict):
        return {key: gaps(each) for key, each in X.items()}
    if isinstance(X, list) or np.ndim(X) == 3:
        return [gaps(each) for each in X]
    X = X.copy()
    (X if isinstance(X, np.ndarray) else X.iloc)[0, 0] = np.nan
    return X


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("missing", ["raise", "drop"])
def test_what_was_fitted_has_labels_distances_and_a_score(form, missing):
    X, how = FORMS[form]
    if missing == "drop":
        if isinstance(X, ClientData):
            return  # has no gaps
        X = gaps(X)
    made = {name: private(missing=missing) for name in ("fit_predict", "fit_transform")}
    labels, distances = (getattr(model, name)(X, **how) for name, model in made.items())
    model = made["fit_predict"]
    several = isinstance(labels, list)
    each = zip(labels, distances, strict=True) if several else [(labels, distances)]
    n = 0
    for own, far in each:
        full = ~np.isnan(far).any(axis=1)
        assert len(own) == len(far) and (far[full].argmin(axis=1) == own[full]).all()
        assert (own[~full] == -1).all() and (~full).sum() == (missing == "drop")
        n += len(own)
    assert n == 1200 and several == (how == {})
    assert model.score(X) == pytest.approx(private().fit(X, **how).score(X) if missing == "raise"
                                           else model.score(X))  # fmt: skip
    assert 1200 * 16 < -model.score(X) < 1200 * 60  # two coordinates of variance 16


@pytest.mark.parametrize("call", [cross_val_score, cross_val_predict])
def test_clients_are_crossed_and_no_fit_is_charged_in_vain(call):
    """Of a list of clients, and of a table with gaps that are dropped."""
    ledger = PrivacyLedger(budget=Budget(50.0, 1e-4))
    each = np.array_split(ROWS, 10)
    if call is cross_val_score:
        scores = cross_val_score(private(ledger=ledger), each, cv=5, error_score="raise")
        assert (scores < -240 * 16).all()
    model = private(ledger=ledger, missing="drop")
    table = TABLE.copy()
    table.iloc[::50, 1] = np.nan
    features, own = table[["age", "bp"]], table["clinic"].to_numpy()
    found = call(model, features, cv=3, params={"clients": own})
    assert np.isfinite(found).all() and len(ledger.releases) > 0


def test_what_would_be_refused_later_is_refused_before_the_fit():
    words = TABLE.assign(bp="high")
    for form in (words, [words, words], {"a": TABLE[["age"]], "b": TABLE[["bp"]]}):
        for call in ("fit_predict", "fit_transform"):
            model = private(ledger=(ledger := PrivacyLedger()))
            how = {"clients": "clinic"} if form is words else {}
            refuses((TypeError, ValueError), "X", getattr(model, call), form, **how)
            assert not ledger.releases
    framed = private(ledger=ledger).set_output(transform="pandas")
    refuses(ValueError, "set_output must be 'default'", framed.fit_transform, OWN)
    for form, how, word in ((TABLE, {"clients": "clinic"}, "arrow"), (OWN, {}, "pandas")):
        with config_context(transform_output=word):
            refuses(ValueError, "output", private(ledger=ledger).fit_transform, form, **how)
    refuses(ValueError, "set_output must be 'default'", framed.fit(OWN).transform, OWN)
    assert len(ledger.releases) == len(framed.plan_.releases)
    assert framed.fit_transform(TABLE[["age", "bp"]], clients=TABLE.clinic).shape == (1200, 3)


def test_after_an_interruption_the_ledger_says_what_was_spent():
    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    model = private(options={"progress": stop})
    assert not hasattr(model, "ledger_")
    with pytest.raises(KeyboardInterrupt):
        model.fit(OWN)
    assert len(model.ledger_.releases) == 2 and model.ledger_.epsilon(1e-6) > 0
    refuses(ValueError, "not fitted", model.predict, OWN[0])
    spent = model.ledger_
    model.set_params(options=None).fit(OWN)
    assert model.ledger_ is spent and len(spent.releases) == 2 + len(model.plan_.releases)


@pytest.mark.parametrize("size", [1e-300, 1e-22, 1e37, 1e300])
def test_bounds_are_found_of_numbers_that_their_bins_tell_apart(size):
    """Else a fit would be paid for on bounds that hold none of the rows."""
    ledger, how = PrivacyLedger(), {"delta": 1e-6, "mode": "teaching", "seed": 1}
    X = {name: each.assign(bp=each.bp * size) for name, each in FORMS["dict"][0].items()}
    said = "must have numbers of sizes .* column bp has others"
    refuses(ValueError, f"clients {said}", private_bounds, X, 2.0, ledger=ledger, **how)
    refuses(ValueError, f"clients {said}", private_summary, X, 2.0, ledger=ledger, **how)
    refuses(ValueError, f"X {said}", private(bounds="private", ledger=ledger).fit, X)
    assert not ledger.releases
    X = {name: each.assign(bp=each.bp * 1e34) for name, each in FORMS["dict"][0].items()}
    found = private_bounds(X, 2.0, **how)
    assert found.found.all() and 1e35 < found.lower[1] < found.upper[1] < 1e37


# --- extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e298])
def test_units_change_no_label_and_no_distance(size):
    """Rows and bounds times any size; the score is right, or refused where no number holds it."""
    scaled = private(bounds=tuple(np.array(side) * size for side in BOX))
    plain = private().fit(FORMS["list of arrays"][0])
    scaled.fit([each * size for each in FORMS["list of arrays"][0]])
    np.testing.assert_array_equal(scaled.predict(ROWS * size), plain.predict(ROWS))
    np.testing.assert_allclose(scaled.transform(ROWS * size), plain.transform(ROWS), rtol=1e-9)
    if size == 1.0:
        assert scaled.score(ROWS) == pytest.approx(plain.score(ROWS))
    else:
        refuses(ValueError, "X must be near the size of 1", scaled.score, ROWS * size)


@pytest.mark.parametrize("power", range(40, 64, 4))
def test_an_offset_changes_no_label_or_is_refused(power):
    """Whole numbers beyond what floats tell apart: all rows of a column would be alike."""
    rows, far = ROWS.round().astype(np.int64), np.array([0, 2**power])
    ledger, own = PrivacyLedger(), TABLE.clinic
    moved = private(bounds=tuple(np.array(side) + far for side in BOX), ledger=ledger)
    if power < 54:
        plain = private().fit(rows, clients=own).predict(rows)
        np.testing.assert_array_equal(moved.fit(rows + far, clients=own).predict(rows + far), plain)
    else:
        refuses(ValueError, "100 floating-point numbers between", moved.fit, rows + far,
                clients=own)  # fmt: skip
        assert not ledger.releases
