"""The estimator: own units in, own units out, one ledger over several fits."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate

from fedclust.estimators import FastLloydKMeans, LocalKMeans, TooFewRowsWarning, load
from fedclust_helpers import fastlloyd, kmeans, ldp_kmeans
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    PrivacyLedger,
    local_epsilon_for,
)
from fedclust_helpers.federation import (
    ClientData,
    ClippedDataWarning,
    TrustModelError,
    simulate,
)

LOWER, UPPER = np.array([0.0, -50.0]), np.array([200.0, 50.0])


def branches(rng):
    """Three clients whose rows lie around (40, -20) and (160, 20)."""
    means = np.array([[40.0, -20.0], [160.0, 20.0]])
    return [means[rng.integers(2, size=n)] + rng.normal(0, 3, (n, 2)) for n in (900, 600, 300)]


def model(**changes):
    settings = {"epsilon": 2.0, "lower": LOWER, "upper": UPPER, "mode": "teaching", "seed": 4}
    return FastLloydKMeans(2, **(settings | changes))


@pytest.fixture
def clients():
    return branches(np.random.default_rng(0))


def test_centres_come_back_in_original_units(clients):
    fitted = model(epsilon=8.0, options={"n_rounds": 7}).fit(clients)
    order = np.argsort(fitted.cluster_centers_[:, 0])
    # noise of epsilon 8 on 1800 rows moves a centre by far less than 5 units
    np.testing.assert_allclose(fitted.cluster_centers_[order], [[40, -20], [160, 20]], atol=5.0)
    labels = fitted.predict([[45.0, -15.0], [150.0, 10.0]])
    assert labels.tolist() == order.tolist()


def test_it_is_the_function_on_scaled_data(clients):
    fitted = model().fit(clients)
    scaled = [2 * (c - LOWER) / (UPPER - LOWER) - 1 for c in clients]
    federation = simulate(scaled, seed=4, noise_from="clients")
    result = fastlloyd.run(federation, fastlloyd.plan(federation, n_clusters=2, epsilon=2.0))
    np.testing.assert_allclose(fitted.result_.centers, result.centers, atol=1e-9)
    pooled = np.concatenate(clients)
    nearest = kmeans.assign(np.concatenate(scaled), result.centers).labels
    off = pooled - fitted.cluster_centers_[nearest]
    assert fitted.score(pooled) == pytest.approx(-(off**2).sum())


def test_rows_without_owners_belong_to_one_holder_or_must_be_said_to_be_clients(clients):
    """Who holds them all shows them to the server ("trusted"); else each row is a party."""
    rows, ledger = clients[2], PrivacyLedger()
    assert len(model(trust="trusted").fit(rows).clipped_counts_) == 1
    for trust in ("masked", "ideal", "serverless"):
        few = model(trust=trust).preview(rows[:200])
        assert few.facts["n_clients"] == 200
        unsaid = model(trust=trust, ledger=ledger)
        refuses(ValueError, "clients must be given for more than 200 rows", unsaid.fit, rows)
    assert model(trust="ideal").preview(rows, clients=range(300)).facts["n_clients"] == 300
    assert not ledger.releases


def test_rows_outside_the_public_bounds_are_clipped_and_counted(clients):
    clients[1] = np.vstack([clients[1], [[1e6, 0.0], [0.0, -1e6]]])
    fitted = model().fit(clients)
    assert fitted.clipped_counts_.tolist() == [0, 2, 0]


def test_one_ledger_over_two_fits_and_a_budget(clients):
    delta = fastlloyd.default_delta(sum(len(c) for c in clients))
    ledger = PrivacyLedger(budget=Budget(2.0, delta))
    model(epsilon=1.0, ledger=ledger).fit(clients)
    assert ledger.epsilon(delta) == pytest.approx(1.0)
    spent = len(ledger.releases)
    with pytest.raises(BudgetExceededError, match="exceed the budget"):
        model(epsilon=1.9, ledger=ledger).fit(clients)
    assert len(ledger.releases) == spent


# --- what X and y may be --------------------------------------------------------------------------


def table(clients):
    """All rows in one DataFrame with a column of owners in the middle."""
    frame = pd.DataFrame(np.concatenate(clients), columns=["income", "balance"])
    names = np.repeat(["west", "north", "east"], [len(c) for c in clients])
    frame.insert(1, "branch", names)
    return frame


def test_tables_and_mappings_are_clients_too(clients):
    reference = model().fit(clients[::-1])  # in alphabetical order: east, north, west
    frame = table(clients)
    by_column = model().fit(frame, clients="branch")
    by_series = model().fit(frame[["income", "balance"]], clients=frame["branch"])
    whole = model().fit(ClientData.from_clients(clients[::-1]))
    mapping = {"east": clients[2], "north": clients[1], "west": clients[0]}
    named = {
        name: pd.DataFrame(rows, columns=["income", "balance"]) for name, rows in mapping.items()
    }
    named["west"] = named["west"][["balance", "income"]]  # another order, the same names
    each = [by_column, by_series, whole, model().fit(mapping), model().fit(named),
            model().fit(list(named.values()))]  # fmt: skip
    for fitted in each:
        assert (fitted.cluster_centers_ == reference.cluster_centers_).all()


def test_columns_of_a_table_are_not_mixed_up_when_predicting(clients):
    frame = table(clients)
    fitted = model().fit(frame, clients="branch")
    assert fitted.feature_names_in_.tolist() == ["income", "balance"]
    labels = fitted.predict(frame[["income", "balance"]])
    assert (fitted.predict(frame[["balance", "income"]]) == labels).all()
    refuses(ValueError, "X must be a table with named columns", fitted.predict, clients[0])
    with pytest.raises(ValueError, match="X must have the columns income, balance; .* not"):
        fitted.predict(frame[["income"]].assign(age=1.0))
    fitted.fit(clients)
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda c: ([], None), ValueError, "X must hold at least one"),
        (lambda c: ({}, None), ValueError, "X must hold at least one client"),
        (lambda c: ([[]], None), ValueError, "X must have"),
        (
            lambda c: (c, np.zeros(1800, int)),
            ValueError,
            "clients must not be given beside clients",
        ),
        (
            lambda c: (ClientData.from_clients(c), [0]),
            ValueError,
            "clients must not be given beside",
        ),
        (lambda c: (table(c), None), TypeError, "X must be an array of real numbers"),
        (lambda c: (c[0], 3), ValueError, "clients must be .*id.* each row"),
        (lambda c: ([c[0], c[1][:, :1]], None), ValueError, r"X\[1\] must have 2"),
        (lambda c: ([c[0], c[1][0]], None), ValueError, r"X\[1\] must have shape"),
        (lambda c: ([c[0], np.full((3, 2), np.nan)], None), ValueError, r"X\[1\].*fin"),
        (lambda c: ([1.0, 2.0], None), ValueError, "X must have shape"),
        (lambda c: ("rows", None), TypeError, "X must be an array of real numbers"),
        (lambda c: (iter(c), None), TypeError, "X must be an array of real numbers"),
        (lambda c: (c[:1], None), ValueError, "X must hold at least two clients"),
        (lambda c: (c[0], np.zeros(900, int)), ValueError, "X must hold at least two clients"),
    ],
)
def test_what_is_no_data_is_refused_by_name_and_costs_nothing(clients, make, error, match):
    ledger = PrivacyLedger(budget=Budget(10.0, 1e-3))
    X, y = make(clients)
    for call in ("fit", "fit_predict"):
        refuses(error, match, getattr(model(ledger=ledger), call), X, clients=y)
    assert not ledger.releases and ledger.remaining == 1


def test_too_many_clients_do_not_start_a_key_exchange_each(monkeypatch):
    rows, each = np.zeros((32_000, 2)), range(32_000)
    monkeypatch.setattr(X25519PrivateKey, "from_private_bytes", None)  # no key can be made
    for trust, most in (("masked", 4096), ("serverless", 256)):
        fit = model(trust=trust).fit
        refuses(ValueError, f"at most {most} clients .* fewer clients.*ideal", fit, rows,
                clients=each)  # fmt: skip
    assert model(trust="ideal").preview(rows, clients=each).facts["n_clients"] == 32_000


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"alpah": 0.5}, ValueError, "options must be among alpha, .*; got 'alpah'"),
        ({"epsilon": 5.0}, ValueError, "options must be among .*; got 'epsilon'"),
        ({"federation": None}, ValueError, "options must be among .*; got 'federation'"),
        (["alpha"], TypeError, "options must be a mapping"),
        ({"n_rounds": 0}, ValueError, "n_rounds"),
        ({"initial": "best"}, ValueError, "initial must be one of"),
    ],
)
def test_options_are_checked_before_anything_is_charged(clients, options, error, match):
    ledger = PrivacyLedger()
    refuses(error, match, model(ledger=ledger, options=options).fit, clients)
    assert not ledger.releases


def test_options_reach_the_plan_and_the_run(clients):
    start = np.array([[-0.5, -0.5], [0.5, 0.5]])
    fitted = model(options={"n_rounds": 3, "initial": start, "alpha": 0.5}).fit(clients)
    assert fitted.plan_.n_rounds == 3
    assert (fitted.result_.history[0] == start).all()
    assert fitted.plan_.broadcasts("radius") != model(options={"n_rounds": 3}).fit(
        clients
    ).plan_.broadcasts("radius")


# --- labels ---------------------------------------------------------------------------------------


def test_labels_of_the_rows_of_a_fit_come_as_the_rows_came(clients):
    frame = table(clients)
    stacked, owners = np.concatenate(clients), np.repeat([0, 1, 2], [900, 600, 300])
    fitted = model()
    together = fitted.fit_predict(stacked, clients=owners)
    assert (together == fitted.predict(stacked)).all() and together.shape == (1800,)
    by_client = model().fit_predict(clients)
    assert (np.concatenate(by_client) == together).all() and len(by_client) == 3
    assert (np.concatenate(model().fit_predict(ClientData.from_clients(clients))) == together).all()
    other = model()
    assert (other.fit_predict(frame, clients="branch") == other.predict(frame)).all()
    mapped = model().fit_predict({"a": clients[0], "b": clients[1], "c": clients[2]})
    assert (np.concatenate(mapped) == together).all()
    assert not hasattr(fitted, "labels_")  # labels of private rows are no part of the model


def test_labels_cost_no_more_than_the_fit(clients):
    ledger, once = PrivacyLedger(), PrivacyLedger()
    model(ledger=ledger).fit_predict(clients)
    model(ledger=once).fit(clients)
    assert len(ledger.releases) == len(once.releases) > 0
    with pytest.raises(TypeError, match="sample_weight"):
        model(ledger=ledger).fit_predict(clients, sample_weight=np.ones(3))
    assert len(ledger.releases) == len(once.releases)


# --- who may see what -----------------------------------------------------------------------------


def test_published_results_hide_the_sums_from_the_server_too(clients):
    """The server adds no noise that it could subtract: every client adds a share."""
    open_, closed = model().fit(clients), model(publish=False).fit(clients)
    assert open_.plan_.facts.noise == "distributed" and "client" in open_.plan_.facts.noise_from
    assert (
        closed.plan_.facts.noise == "continuous" and closed.plan_.facts.noise_from == "the server"
    )
    assert "send it no result" in str(closed.plan_) and "send it no result" not in str(open_.plan_)
    for trust in ("ideal", "trusted"):
        for publish in (True, False):
            fitted = model(trust=trust, publish=publish).fit(clients)
            assert fitted.plan_.facts.noise == "continuous"
    refuses(TypeError, "publish must be True or False", model(publish="no").fit, clients)
    assert model(publish=False).fit(clients[:1]).plan_.facts.n_clients == 1


def test_a_public_number_of_records_replaces_the_true_one(clients):
    """delta, rounds and every public number are then the same for any number of rows."""
    more = [np.concatenate([c, c[:7]]) for c in clients]
    a, b = (model(n_records=2000).fit(rows).plan_ for rows in (clients, more))
    assert a == b and a.delta == fastlloyd.default_delta(2000)
    assert "2000 records" in str(a) and "1800" not in str(a)
    c, d = (model().fit(rows).plan_ for rows in (clients, more))
    assert c.delta == fastlloyd.default_delta(1800) != d.delta
    for wrong in (0, -5, 1.5, "many"):
        refuses((TypeError, ValueError), "n_records", model(n_records=wrong).fit, clients)


def test_data_in_other_units_are_noticed_by_the_holder(clients):
    with pytest.warns(ClippedDataWarning, match="column 0: most of the values") as caught:
        model().fit([1000 * c for c in clients])
    assert caught[0].filename == __file__  # points at the caller's line
    with pytest.warns(ClippedDataWarning) as caught:
        simulate(clients, noise_from="server", seed=1)
    assert caught[0].filename == __file__


# --- one ledger -----------------------------------------------------------------------------------


def test_fits_of_one_estimator_are_charged_to_one_ledger(clients):
    fitted = model(epsilon=1.0).fit(clients)
    ledger, delta = fitted.ledger_, fitted.plan_.delta
    once = len(ledger.releases)
    fitted.fit(clients).fit(clients)
    assert fitted.ledger_ is ledger and len(ledger.releases) == 3 * once
    assert ledger.epsilon(delta) > 1.5 and fitted.result_.epsilon == pytest.approx(1.0)
    other = clone(fitted).set_params(ledger=PrivacyLedger())  # for other data
    assert other.fit(clients).ledger_ is not ledger


def test_an_interrupted_fit_is_not_forgotten(clients, monkeypatch):
    charge, n = PrivacyLedger.charge, []

    def interrupted(self, *args, **kwargs):
        if len(n) == 2:
            raise KeyboardInterrupt
        n.append(charge(self, *args, **kwargs))
        return n[-1]

    monkeypatch.setattr(PrivacyLedger, "charge", interrupted)
    estimator = model()
    refuses(KeyboardInterrupt, "", estimator.fit, clients)
    monkeypatch.undo()
    estimator.fit(clients)
    assert list(estimator.ledger_.releases[:2]) == n
    assert len(estimator.ledger_.releases) == 2 + estimator.plan_.n_rounds


@pytest.mark.parametrize("how", [clone, copy.copy, copy.deepcopy])
def test_copies_of_an_estimator_charge_the_same_budget(clients, how):
    delta = 1e-4
    ledger = PrivacyLedger(budget=Budget(2.5, delta))
    original = model(epsilon=1.0, delta=delta / 2.5, ledger=ledger)
    for _ in range(2):
        how(original).fit(clients)
    assert ledger.remaining < 0.21
    refuses(BudgetExceededError, "", how(original).fit, clients)
    fitted = how(model(ledger=PrivacyLedger()).fit(clients))
    assert fitted.ledger is not None and not fitted.ledger.is_record


def own(owners):
    return {"clients": owners}


SEARCHES = {
    "cross_val_score": lambda m, X, y, **o: cross_val_score(m, X, cv=4, params=own(y), **o),
    "cross_validate": lambda m, X, y, **o: cross_validate(m, X, cv=4, params=own(y), **o),
    "cross_val_predict": lambda m, X, y, **o: cross_val_predict(m, X, cv=4, params=own(y), **o),
    "GridSearchCV": lambda m, X, y, **o: GridSearchCV(
        m,
        {"options": [{"alpha": a, "n_rounds": 2} for a in (0.5, 0.8)]},
        cv=2,
        refit=False,
        error_score="raise",
        **o,
    ).fit(X, clients=y),
}


@pytest.mark.parametrize("backend", ["serial", "threading"])
@pytest.mark.parametrize("search", list(SEARCHES))
def test_scikit_learn_searches_charge_every_fit(clients, search, backend):
    """Four fits at a quarter of the budget each: all of it, and no fifth."""
    X, y = np.concatenate(clients), np.arange(1800) % 5
    ledger = PrivacyLedger(budget=Budget(4.0, 4e-4))
    estimator = model(epsilon=1.0, delta=1e-4, ledger=ledger, options={"n_rounds": 2})
    n_jobs = 1 if backend == "serial" else 3
    with joblib.parallel_config("threading" if backend == "threading" else "sequential"):
        SEARCHES[search](estimator, X, y, n_jobs=n_jobs)
    assert len(ledger.releases) == 4 * 2
    assert ledger.remaining == pytest.approx(0.0, abs=1e-6)
    refuses(BudgetExceededError, "", clone(estimator).fit, X, clients=y)


@pytest.mark.thorough
@pytest.mark.parametrize("budget", [Budget(4.0, 4e-4), None])
def test_other_processes_refuse_the_ledger(clients, budget):
    """With a budget it cannot be sent; without one it arrives as a record and takes no charge."""
    X, y = np.concatenate(clients), np.arange(1800) % 5
    ledger = PrivacyLedger(budget=budget)
    estimator = model(epsilon=1.0, delta=1e-4, ledger=ledger)
    with joblib.parallel_config("loky"):
        with pytest.raises((TypeError, pickle.PicklingError)) as caught:
            cross_val_score(estimator, X, cv=2, params=own(y), n_jobs=2, error_score="raise")
    chain = f"{caught.value} {caught.value.__cause__}"
    assert "PrivacyLedger" in chain
    assert not ledger.releases


# --- pickles --------------------------------------------------------------------------------------


def test_a_pickled_model_is_what_was_released_and_no_more(clients):
    """No rows, no counts of clipped rows, no keys: nothing that only the clients know."""
    marked = [np.array(c) for c in clients]
    marked[0][0] = [123.456789, -12.3456789]
    marked[1][:11] = 1e6  # clipped
    ledger = PrivacyLedger(budget=Budget(5.0, 1e-3))
    fitted = model(ledger=ledger).fit(marked)
    assert fitted.clipped_counts_.tolist() == [0, 11, 0]
    data = pickle.dumps(fitted)
    scaled = 2 * (marked[0][0] - LOWER) / (UPPER - LOWER) - 1
    for number in (*marked[0][0], *scaled, *marked[2][5], 1e6):
        assert np.float64(number).tobytes() not in data
    for word in (b"clipped_counts_", b"ClientData", b"PadBook", b"ClientMemory", b"Budget"):
        assert word not in data
    again = pickle.loads(data)
    assert not hasattr(again, "clipped_counts_")
    assert (again.cluster_centers_ == fitted.cluster_centers_).all()
    assert (again.predict(marked[2]) == fitted.predict(marked[2])).all()
    assert str(again.plan_) == str(fitted.plan_)
    assert again.ledger_.is_record and again.ledger.is_record
    assert again.ledger_.epsilon(again.plan_.delta) == pytest.approx(2.0)
    assert len(data) < 100_000


@pytest.mark.parametrize("given", [True, False])
def test_an_unpickled_model_cannot_be_fitted_beside_the_ledger(clients, given):
    ledger = PrivacyLedger() if given else None
    fitted = model(ledger=ledger).fit(clients)
    again = pickle.loads(pickle.dumps(fitted))
    before = len(again.ledger_.releases)
    refuses(CopyRefusedError, "record", again.fit, clients)
    assert len(again.ledger_.releases) == before == len(fitted.ledger_.releases)
    fitted.fit(clients)  # the one that has the ledger may
    assert len(fitted.ledger_.releases) == 2 * before


def test_an_estimator_with_a_budget_is_not_pickled_before_its_fit():
    with pytest.raises(CopyRefusedError, match="budget"):
        pickle.dumps(model(ledger=PrivacyLedger(budget=Budget(1.0, 1e-6))))
    pickle.loads(pickle.dumps(model()))


# --- LocalKMeans ----------------------------------------------------------------------------------


def users(n=60_000, rng=None):
    """Rows around (40, -20) and (160, 20), one for each user."""
    rng = np.random.default_rng(5) if rng is None else rng
    means = np.array([[40.0, -20.0], [160.0, 20.0]])
    return means[rng.integers(2, size=n)] + rng.normal(0, 3, (n, 2))


def local(**changes):
    settings = {"epsilon": 2.0, "lower": LOWER, "upper": UPPER, "mode": "teaching", "seed": 4}
    settings["method"] = "one_round"  # milliseconds at the server
    return LocalKMeans(2, **(settings | changes))


def test_local_centres_come_back_in_original_units():
    fitted = local().fit(users())
    order = np.argsort(fitted.cluster_centers_[:, 0])
    # cells of side 0.25 in the ball are 35 and 18 units wide: centres are good to a quarter cell
    np.testing.assert_allclose(fitted.cluster_centers_[order], [[40, -20], [160, 20]], atol=9.0)
    assert fitted.predict([[45.0, -15.0], [150.0, 10.0]]).tolist() == order.tolist()
    assert fitted.ledger_.epsilon(0.0) == pytest.approx(2.0)
    assert fitted.ledger_.adjacency == "replace-one"


def test_a_plan_for_too_few_users_says_what_no_method_can_beat():
    for n, epsilon, said in ((300, 0.1, True), (2000, 0.5, False)):  # 30 %, 6 %
        text, *_ = local(method="sketch", epsilon=epsilon).preview(users(n)).facts["warnings"]
        assert "too few rows for 2 clusters" in text
        least = ldp_kmeans.least_excess(n, epsilon, 2, n_clusters=2)
        assert (f"no method can stay within {least:.0%}" in text) == said


@pytest.mark.parametrize("method", ["sketch", "one_round"])
def test_behind_a_shuffler_hundreds_do_where_thousands_must(method):
    rows = users(4000)
    finer = {"depths": (2, 3)} if method == "one_round" else None  # the groups are tight
    estimator = local(trust="shuffled", method=method, epsilon=0.25, delta=1e-7, options=finer)
    preview = str(estimator.preview(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TooFewRowsWarning)
        fitted = estimator.fit(rows)
    order = np.argsort(fitted.cluster_centers_[:, 0])
    np.testing.assert_allclose(fitted.cluster_centers_[order], [[40, -20], [160, 20]], atol=12.0)
    plan = fitted.plan_
    assert plan.dial.local_epsilon > local_epsilon_for(4000, 0.25, 1e-7) > 1.5
    assert fitted.result_.epsilon <= 0.25 and plan.delta == 1e-7
    assert {m.sender for m in fitted.transcript_.view("server")} == {"shuffler"}
    for text in (preview, str(fitted.statement())):
        assert "shuffler sees" in text and "blanket" in text
        assert f"local epsilon {plan.dial.local_epsilon:.4g}" in text
    few = local(method=method, epsilon=0.25).preview(rows).facts["warnings"]
    assert any(note.startswith("too few rows") for note in few)
    # and where even a shuffler does not help, the note says what a message may say
    notes = estimator.set_params(epsilon=0.1).preview(rows[:100]).facts["warnings"]
    assert any("on the device" in note for note in notes)


def test_a_shuffled_fit_is_the_function_saved_rehearsed_and_charged_once(tmp_path):
    rows, ledger = users(3000), PrivacyLedger(adjacency="replace-one", budget=Budget(1.5, 2e-6))
    estimator = local(trust="shuffled", epsilon=1.0, ledger=ledger)
    federation = simulate(((rows - LOWER) / (UPPER - LOWER) * 2 - 1) / np.sqrt(2), "shuffled",
                          seed=4)  # fmt: skip
    plan = ldp_kmeans.plan(federation, n_clusters=2, epsilon=1.0, delta=1e-6)
    result = ldp_kmeans.run(federation, plan, rng=np.random.default_rng(4))
    table = estimator.rehearse(rows[:1000], n_clusters=(), epsilon=(2.0,), repeats=1)
    assert table.epsilon.tolist() == [1.0, 2.0] and not ledger.releases  # nothing is charged
    fitted = estimator.fit(rows)
    np.testing.assert_allclose(fitted.result_.centers, result.centers, atol=1e-12)
    refuses(BudgetExceededError, "", estimator.fit, rows)
    assert len(ledger.releases) == 1 and 0.99 < ledger.epsilon(1e-6) <= 1.0
    fitted.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.trust == "shuffled" and str(again.statement()) == str(fitted.statement())


def test_what_a_shuffler_cannot_do_is_refused():
    ledger = PrivacyLedger(adjacency="replace-one")
    of = {"ledger": ledger, "trust": "shuffled"}
    refuses(ValueError, "trust must be one of", local(**of | {"trust": "masked"}).fit, users(9))
    refuses(ValueError, "trust", local(**of | {"trust": None}).fit, users(9))
    sums = local(**of, options={"sums": True})
    refuses(TrustModelError, "no pure report", sums.fit, users(500))
    assert not ledger.releases


@pytest.mark.parametrize(
    ("X", "y", "error", "match"),
    [
        (users(500), np.zeros(500), ValueError, "clients must not be given"),
        ([users(500), users(500)], None, ValueError, "X must be one array"),
        ({"a": users(500)}, None, ValueError, "X must be one array"),
        (ClientData.from_clients([users(500)]), None, ValueError, "X must hold one row for each"),
        ([], None, ValueError, "X must be one array"),
        ("rows", None, TypeError, "X must be an array of real numbers"),
    ],
)
def test_local_data_are_one_row_each(X, y, error, match):
    ledger = PrivacyLedger(adjacency="replace-one", budget=Budget(10.0))
    for call in ("fit", "fit_predict"):
        refuses(error, match, getattr(local(ledger=ledger), call), X, clients=y)
    assert not ledger.releases


def test_rows_given_as_plain_lists_are_fitted_and_labelled():
    """A list of rows is one table: it is not charged and then taken for a list of clients."""
    rows = np.random.default_rng(0).uniform(0, 100, (60, 2))
    options = {"epsilon": 1.0, "delta": 1e-3, "lower": 0, "upper": 100, "mode": "teaching"}
    labels = [
        FastLloydKMeans(2, seed=1, **options).fit_predict(given, clients=[0] * 30 + [1] * 30)
        for given in (rows, rows.tolist())
    ]
    assert np.array_equal(labels[0], labels[1]) and labels[0].shape == (60,)
    model = FastLloydKMeans(2, seed=1, ledger=PrivacyLedger(), **options)
    refuses((TypeError, ValueError), "X", model.fit_predict, [["a", "b"]] * 60)
    assert not model.ledger.releases
