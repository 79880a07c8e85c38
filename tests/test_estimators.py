"""The estimator: own units in, own units out, one ledger over several fits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fedclust_helpers import fastlloyd, kmeans, ldp_kmeans
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger
from fedclust_helpers.estimators import FastLloydKMeans, LocalKMeans
from fedclust_helpers.federation import ClientData, local_users, simulate

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
    result = fastlloyd.fastlloyd(simulate(scaled, seed=4), n_clusters=2, epsilon=2.0)
    np.testing.assert_allclose(fitted.result_.centers, result.centers, atol=1e-9)
    pooled = np.concatenate(clients)
    assert fitted.score(pooled) == pytest.approx(
        -kmeans.kmeans_cost(np.concatenate(scaled), result.centers)
    )


def test_three_ways_to_hand_over_clients_agree(clients):
    stacked = np.concatenate(clients)
    owners = np.repeat([0, 1, 2], [len(c) for c in clients])
    a = model().fit(clients).cluster_centers_
    b = model().fit(stacked, owners).cluster_centers_
    c = model().fit(ClientData.from_clients(clients)).cluster_centers_
    d = model().fit([pd.DataFrame(c) for c in clients]).cluster_centers_
    assert (a == b).all() and (a == c).all() and (a == d).all()


def test_rows_without_owners_are_clients_of_their_own(clients):
    rows = clients[2]
    fitted = model(trust="ideal").fit(rows)
    assert len(fitted.clipped_counts_) == len(rows)


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


def test_secure_mode_is_the_default_and_takes_no_seed(clients):
    pytest.importorskip("opendp")
    settings = {"epsilon": 2.0, "lower": LOWER, "upper": UPPER}
    a = FastLloydKMeans(2, **settings).fit(clients)
    b = FastLloydKMeans(2, **settings).fit(clients)
    assert a.result_.private and a.result_.warning == ""
    assert not np.array_equal(a.cluster_centers_, b.cluster_centers_)
    with pytest.raises(ValueError, match="seed"):
        FastLloydKMeans(2, **settings, seed=1).fit(clients)


def test_scikit_learn_conventions(clients):
    estimator = model(options={"alpha": 0.5})
    assert clone(estimator).get_params()["options"] == {"alpha": 0.5}
    with pytest.raises(NotFittedError):
        estimator.predict([[1.0, 2.0]])
    fitted = estimator.fit(clients)
    with pytest.raises(ValueError, match="X must have 2 columns"):
        fitted.predict([[1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"lower": UPPER}, "lower < upper"),
        ({"upper": np.inf}, "finite"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"trust": "blind"}, "trust"),
        ({"mode": "fast"}, "mode"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_charged(clients, changes, match):
    ledger = PrivacyLedger()
    with pytest.raises(ValueError, match=match):
        model(ledger=ledger, **changes).fit(clients)
    assert not ledger.releases


# --- LocalKMeans ----------------------------------------------------------------------------------


def users(n=60_000, rng=None):
    """Rows around (40, -20) and (160, 20), one for each user."""
    rng = np.random.default_rng(5) if rng is None else rng
    means = np.array([[40.0, -20.0], [160.0, 20.0]])
    return means[rng.integers(2, size=n)] + rng.normal(0, 3, (n, 2))


def local(**changes):
    settings = {"epsilon": 2.0, "lower": LOWER, "upper": UPPER, "mode": "teaching", "seed": 4}
    return LocalKMeans(2, **(settings | changes))


def test_local_centres_come_back_in_original_units():
    fitted = local().fit(users())
    order = np.argsort(fitted.cluster_centers_[:, 0])
    # cells of side 0.25 in the ball are 35 and 18 units wide: centres are good to a quarter cell
    np.testing.assert_allclose(fitted.cluster_centers_[order], [[40, -20], [160, 20]], atol=9.0)
    assert fitted.predict([[45.0, -15.0], [150.0, 10.0]]).tolist() == order.tolist()
    assert fitted.ledger_.epsilon(0.0) == pytest.approx(2.0)
    assert fitted.ledger_.adjacency == "replace-one"


def test_local_is_the_function_on_scaled_rows():
    rows = users(5000)
    scaled = ((rows - LOWER) / (UPPER - LOWER) * 2 - 1) / np.sqrt(2)
    result = ldp_kmeans.one_round(
        local_users(scaled, seed=4), n_clusters=2, epsilon=2.0, rng=np.random.default_rng(4)
    )
    fitted = local().fit(rows)
    np.testing.assert_allclose(fitted.result_.centers, result.centers, atol=1e-12)


def test_local_secure_mode_is_the_default_and_takes_no_seed():
    fitted = local(mode="secure", seed=None).fit(users(3000))
    assert fitted.result_.private and np.isfinite(fitted.cluster_centers_).all()
    with pytest.raises(ValueError, match="seed"):
        local(mode="secure").fit(users(100))


def test_local_budget_is_kept_over_two_fits():
    ledger = PrivacyLedger(adjacency="replace-one", budget=Budget(3.0))
    local(ledger=ledger).fit(users(2000))
    with pytest.raises(BudgetExceededError):
        local(ledger=ledger).fit(users(2000))
    assert ledger.epsilon(0.0) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"lower": UPPER}, "lower"), ({"epsilon": 0.0}, "epsilon"), ({"delta": 1.0}, "delta")],
)
def test_local_wrong_settings_are_refused_before_anything_is_charged(changes, match):
    ledger = PrivacyLedger(adjacency="replace-one")
    with pytest.raises(ValueError, match=match):
        local(ledger=ledger, **changes).fit(users(500))
    assert not ledger.releases
