"""Common use: labels, weights, scalers, searches, gaps, files written twice."""

import copy
import logging
import math
import os
import pickle
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from joblib import parallel_config
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedclust.estimators import (
    PrivateKMeans,
    TooFewRowsWarning,
    UncertainCentersWarning,
    load,
    planning,
)
from fedclust.estimators.drawing import directions
from fedclust_helpers import fastlloyd
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, gdp_mu

TEACHING = {"mode": "teaching", "seed": 4}
MEANS = np.array([[25.0, 10.0], [75.0, 40.0]])
OWNERS = np.arange(1800) % 3
ONE_FIT = 6  # releases: three grids, a round of many centres, two of the two centres


def rows(n=1800, seed=0):
    rng = np.random.default_rng(seed)
    return MEANS[rng.integers(2, size=n)] + rng.normal(0, 3, (n, 2))


def private(k=2, epsilon=2.0, **changes):
    return PrivateKMeans(k, epsilon, 1e-6, **{"bounds": ([0, 0], [100, 50]), **TEACHING} | changes)


@pytest.fixture(scope="module")
def fitted():
    return private().fit(rows(), clients=OWNERS)


# --- labels, weights, parameters ------------------------------------------------------------------


def test_labels_and_weights_are_refused_with_what_to_do_instead():
    ledger = PrivacyLedger()
    model = private(ledger=ledger)
    pipe = make_pipeline(FunctionTransformer(), model)
    for fit in (model.fit, model.fit_predict, model.preview, pipe.fit):
        refuses(ValueError, r"y must be None: .*fit\(X, clients=.*Pipeline", fit, rows(), OWNERS)
    for call in (model.fit, model.fit_predict, model.preview):
        refuses(TypeError, "'sample_weight': noise is calibrated for rows of weight 1", call,
                rows(), clients=OWNERS, sample_weight=OWNERS)  # fmt: skip
        refuses(TypeError, "'groups': the name is clients", call, rows(), groups=OWNERS)
        refuses(TypeError, "no argument 'widgets': it takes X, clients", call, rows(), widgets=1)
    assert not ledger.releases


@pytest.mark.parametrize(
    ("name", "instead"),
    [("random_state", "the name is seed"), ("n_init", "release of its own"),
     ("max_iter", "n_rounds"), ("init", "initial")],
)  # fmt: skip
def test_parameters_of_scikit_learn_are_answered_with_the_right_name(name, instead):
    refuses(TypeError, f"PrivateKMeans has no parameter '{name}': .*{instead}", PrivateKMeans, 2,
            1.0, **{name: 1})  # fmt: skip
    refuses(TypeError, "unexpected keyword argument 'colour'", PrivateKMeans, 2, 1.0, colour=1)


# --- searches and clones --------------------------------------------------------------------------

CALLS = {
    "GridSearchCV": lambda m, **how: GridSearchCV(
        m, {"n_clusters": [2, 3]}, cv=2, refit=False, error_score="raise", **how
    ).fit(rows(), clients=OWNERS),
    "cross_validate": lambda m, **how: cross_validate(
        m, rows(), cv=4, params={"clients": OWNERS}, error_score="raise", **how
    ),
    "cross_val_predict": lambda m, **how: cross_val_predict(
        m, rows(), cv=4, params={"clients": OWNERS}, **how
    ),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("threads", [1, 2])
def test_all_fits_of_a_search_are_charged_to_one_ledger(call, threads):
    """Four fits, and one more of the original, which tells of all."""
    model = private()
    with parallel_config(backend="threading"):
        CALLS[call](model, n_jobs=threads)
    model.fit(rows(), clients=OWNERS)
    assert len(model.ledger_.releases) == 5 * ONE_FIT
    said = dict(model.statement().rows())["charged"]
    assert re.search(r"epsilon = 2 at delta = 1e-06 by this fit; 4\.\d+ by all fits on its", said)


@pytest.mark.parametrize("call", list(CALLS))
def test_a_budget_is_that_of_the_whole_search(call):
    poor = PrivacyLedger(budget=Budget(3.0, 1e-4))
    refuses(BudgetExceededError, "exceed", CALLS[call], private(ledger=poor))
    assert 0 < len(poor.releases) < 4 * ONE_FIT and poor.remaining > 0
    enough = PrivacyLedger(budget=Budget(9.0, 1e-4))
    CALLS[call](private(ledger=enough))
    assert len(enough.releases) == 4 * ONE_FIT and enough.remaining > 0


@pytest.mark.parametrize("fitted_before", [False, True])
def test_no_other_process_fits_a_clone(fitted_before):
    """Its cost would be forgotten here; an estimator that has no clone may go elsewhere."""
    model = private()
    pickle.loads(pickle.dumps(model)).fit(rows(), clients=OWNERS)
    if fitted_before:
        model.fit(rows(), clients=OWNERS)
    sent = pickle.loads(pickle.dumps(clone(model)))
    refuses(CopyRefusedError, "n_jobs=1 or in threads", sent.fit, rows(), clients=OWNERS)
    sent.preview(rows(), clients=OWNERS)
    sent.set_params(ledger=PrivacyLedger()).fit(rows(), clients=OWNERS)  # other data
    assert len(sent.ledger_.releases) == ONE_FIT


def test_a_search_in_processes_says_what_to_do():
    search = GridSearchCV(private(), {"n_clusters": [2, 3]}, cv=2, n_jobs=2)
    refuses(ValueError, "4 fits failed", search.fit, rows(), clients=OWNERS)


def test_a_clone_has_the_ledger_of_its_original_until_it_is_given_another():
    first = private()
    second, third = clone(first), clone(clone(first))
    other = clone(first).set_params(ledger=PrivacyLedger())
    for model in (second, other, clone(other), first, third):
        model.fit(rows(), clients=OWNERS)
    assert first.ledger_ is second.ledger_ is third.ledger_ is not other.ledger_
    assert [len(m.ledger_.releases) for m in (first, other)] == [3 * ONE_FIT, 2 * ONE_FIT]
    refused = clone(private())
    refuses(ValueError, "n_clusters", refused.set_params(n_clusters=9000).fit, [rows()] * 2)
    assert refused._account.ledger is None


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_made_before_the_first_fit_has_the_same_ledger(way):
    first = private()
    second = way(first)
    for model in (first, second):
        model.fit(rows(), clients=OWNERS)
    assert first.ledger_ is second.ledger_ and len(first.ledger_.releases) == 2 * ONE_FIT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_clone_is_not_fitted_in_a_forked_process():
    """Its cost would be lost to the ledger that it shares."""
    model = clone(private())
    child = os.fork()
    if child == 0:
        try:
            model.fit(rows(), clients=OWNERS)
        except CopyRefusedError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# --- what a fit says of itself --------------------------------------------------------------------


def test_sizes_and_noise_are_those_that_were_released(fitted):
    sums, counts = fitted.result_.released[-1]
    std_sums, std_counts = fitted.result_.released[-1].std
    assert (fitted.cluster_sizes_ == counts).all() and fitted.cautions_ == ()
    assert np.abs(fitted.cluster_sizes_ - 900).max() < 100 + 5 * std_counts
    radius = fitted.result_.record[-1][0].numbers["radius"]
    np.testing.assert_allclose(fitted._center_std, radius * std_sums / counts)
    assert fitted.n_iter_ == fitted.plan_.n_rounds == ONE_FIT


def test_the_noise_that_is_told_is_the_noise_that_moves_centres():
    """The last step alone varies: over 200 seeds its spread is that of `_center_std`, times 0.8
    to 1.2 (the sd of 400 values has a relative error of 4 %). FastLloyd, one round."""
    off, told = [], []
    for seed in range(200):
        start = MEANS / [50, 25] - 1
        how = {"method": "fastlloyd", "options": {"n_rounds": 1, "initial": start}, "seed": seed}
        model = private(trust="trusted", **how).fit([rows()])
        off.append(model._box_centers[0])
        told.append(model._center_std[0])
    assert 0.8 < np.std(off, axis=0).mean() / np.mean(told) < 1.2


@pytest.mark.parametrize("trust", ["trusted", "local"])
def test_what_went_wrong_is_said_after_the_fit(trust):
    """Twelve clusters of two groups at a small epsilon; two at a large one say nothing."""
    X = np.repeat(MEANS, 20_000, axis=0) + np.random.default_rng(0).normal(0, 3, (40_000, 2))
    with pytest.warns(UncertainCentersWarning, match="nearly empty") as told:
        bad = private(12, 0.02 if trust == "trusted" else 1.0, trust=trust).fit(X)
    assert told[-1].filename == __file__
    assert bad.cautions_ and not any(c in str(bad.statement()) for c in bad.cautions_)
    assert private(2, 4.0, trust=trust).fit(X).cautions_ == ()


@pytest.mark.parametrize(
    ("means", "width", "k"), [([[20, 10], [20, 40], [80, 25]], 3, 3), ([[50, 25]], [16, 8], 5)]
)
def test_that_another_run_may_find_other_clusters_is_said_where_it_does(means, width, k):
    """Runs agree on three groups, and not on five parts of one; a clustering of the copy alike."""
    X = np.repeat(means, 6000 // len(means), axis=0)
    X = X + np.random.default_rng(0).normal(0, width, X.shape)
    runs = [private(k, 1.0, seed=seed).fit([X[::2], X[1::2]]) for seed in range(3)]
    labels = [model.predict(X) for model in runs]
    agree = [adjusted_rand_score(labels[0], other) for other in labels[1:]]
    said = [bool(model.cautions_) for model in (*runs, runs[0].recluster(k))]
    if len(means) == k:
        assert min(agree) > 0.99 and not any(said)
    else:
        assert max(agree) < 0.5 and all(said) and "another run" in runs[0].cautions_[0]


def test_distances_are_those_of_the_labels_and_the_score_is_in_the_units_of_the_rows(fitted):
    X = rows(50, 9)
    centers = fitted.cluster_centers_
    off = (X[:, None] - centers) / [50, 25]  # each column counts by half the width of its bounds
    np.testing.assert_allclose(fitted.transform(X), np.linalg.norm(off, axis=2), rtol=1e-9)
    own = centers[fitted.predict(X)]
    assert fitted.score(X) == pytest.approx(-((X - own) ** 2).sum())


def test_a_plan_tells_what_was_measured_with_as_many_rows():
    """From public numbers alone; and it warns, before anything is spent, where runs end far off."""
    facts = private(n_records=4000).preview([rows(), rows()]).facts
    mu = gdp_mu(facts["epsilon"], facts["delta"]) / math.sqrt(2)  # of two clients one is honest
    seen = fastlloyd.measured_excess(4000, 2, mu)
    assert seen.typical > fastlloyd.measured_excess(4000, 2, math.sqrt(2) * mu).typical
    assert facts["predicted_error"] == seen.typical
    text = dict(private(n_records=4000).preview([rows(), rows()]).rows())["cost"]
    assert f"{seen.most:.2g}. Data of another shape" in text and f"the {seen.settings} set" in text
    few = fastlloyd.measured_excess(200, 2, mu)
    assert few.typical > 10 * seen.typical and few.most > 0.5
    with pytest.warns(
        TooFewRowsWarning, match=f"cost {few.typical:.0%} more .*{few.most:.0%} more"
    ):
        private(n_records=200).fit([rows(), rows()])
    assert "cost" not in dict(private(method="fastlloyd").preview([rows()] * 2).rows())


# --- gaps -----------------------------------------------------------------------------------------


def test_rows_with_gaps_are_left_out_by_rule_and_still_counted():
    """The result is that of the complete rows; every public number is that of all rows."""
    X = rows()
    X[::9, 1] = np.nan
    whole = ~np.isnan(X).any(axis=1)
    public = {"n_records": 1800, "missing": "drop"}
    kept = private(**public).fit(X[whole], clients=OWNERS[whole])
    frame = pd.DataFrame(X, columns=["age", "dose"]).astype({"dose": "Float64"})
    each = [frame[OWNERS == i] for i in range(3)]
    for given, clients in ((X, OWNERS), (frame, OWNERS), (each, None)):
        made = private(missing="drop").fit(given, clients=clients)
        assert (made.cluster_centers_ == kept.cluster_centers_).all()
        assert made.plan_.facts.n_records == 1800
    alone = private(missing="drop", trust="trusted").fit(X)  # one holder
    assert alone.plan_.facts.n_records == 1800


def test_gaps_that_no_rule_covers_are_refused():
    X = rows(60)
    X[:20, 0] = np.nan
    each = [X[:20], X[20:]]
    refuses(ValueError, "finite|no missing", private().fit, each)
    drop = private(missing="drop")
    refuses(ValueError, "1 of 2 have none: leave these clients out", drop.fit, each)
    refuses(ValueError, "clients must be given with missing='drop'", drop.fit, X)
    local = private(missing="drop", trust="local")
    refuses(ValueError, "missing must be 'raise': a user who sends no report", local.fit, X)
    X[30, 0] = np.inf
    refuses(ValueError, "finite", drop.fit, [X[20:]] * 2)


TEXTS = {
    "dates": (pd.to_datetime(["2024-01-05"] * 9), "a date: .* the days since a public"),
    "dates as text": (["2024-01-05"] * 9, "a date"),
    "limits": (["0.4"] * 5 + ["<0.3"] * 4, "a sign before a number"),
    "decimal commas": (["3,5"] * 9, "thousands separators or a decimal comma"),
    "numbers as text": (["3.5"] * 9, "numbers as text: convert it"),
    "words": (["high"] * 9, "words: convert them to numbers"),
    "a word in an array": (np.array(["3.5", "high"] * 5, dtype=object)[:9], "words: convert"),
}


@pytest.mark.parametrize("kind", list(TEXTS))
def test_a_column_without_numbers_is_answered_with_what_to_do(kind):
    values, match = TEXTS[kind]
    table = pd.DataFrame({"age": np.arange(9.0), "dose": values})
    with pytest.raises(TypeError, match=f"column 'dose' holds {match}") as caught:
        private().fit([table, table])
    assert not any(str(v) in str(caught.value) for v in values)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    table = pd.DataFrame(rows(9), columns=["age", "dose"])
    near = private(bounds={"age": (0, 100), "dsoe": (0, 50)})
    refuses(ValueError, r"dsoe not. It has age, dose \(perhaps dose for dsoe\)", near.fit,
            [table, table])  # fmt: skip


# --- files, bars, figures -------------------------------------------------------------------------


def test_a_file_is_replaced_only_if_told(fitted, tmp_path):
    path = tmp_path / "model.json"
    fitted.save(path)
    before = path.read_text("utf-8")
    refuses(FileExistsError, "model.json exists already: overwrite=True", fitted.save, path)
    private(seed=9).fit(rows(), clients=OWNERS).save(path, overwrite=True)
    assert path.read_text("utf-8") != before
    again = load(path)
    assert again.cluster_sizes_.shape == (2,) and again._center_std.shape == (2,)


def test_long_fits_can_be_watched(capsys, caplog):
    with (
        caplog.at_level(logging.INFO, logger="fedclust"),
        caplog.at_level(logging.INFO, logger="fedclust_helpers"),
    ):
        private(verbose=1).fit(rows(), clients=OWNERS)
    assert f"{ONE_FIT}/{ONE_FIT}" in capsys.readouterr().err
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert "over-clustered" in caplog.text and "charged: epsilon = 2 " in caplog.text
    private().fit(rows(), clients=OWNERS)
    assert not capsys.readouterr().err


def test_a_fit_that_takes_long_says_so_first_and_shows_its_progress(capsys, caplog, monkeypatch):
    monkeypatch.setattr(planning, "LONG", 0.0)
    private().fit(rows(), clients=OWNERS)
    assert "PrivateKMeans: this fit takes about 0 s" in caplog.text
    assert f"{ONE_FIT}/{ONE_FIT}" not in capsys.readouterr().err, "nobody sees it there"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    private().fit(rows(), clients=OWNERS)
    assert f"{ONE_FIT}/{ONE_FIT}" in capsys.readouterr().err
    private(options={"progress": False}).fit(rows(), clients=OWNERS)
    assert f"{ONE_FIT}/{ONE_FIT}" not in capsys.readouterr().err


def test_what_takes_long_is_known_before(fitted):
    plan, facts = fitted.plan_, fitted.plan_.facts
    assert planning.expected_seconds(plan, 1000) < 1 < 10 < planning.expected_seconds(plan, 10**7)
    many = replace(plan, facts=replace(facts, trust="masked", n_clients=10**5))
    assert planning.expected_seconds(many, 1000) > 10


def test_a_figure_shows_released_numbers_in_their_units(fitted, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    fitted.save(tmp_path / "model.json")
    drawn = [m.plot() for m in (fitted, load(tmp_path / "model.json"))]  # no data is held there
    for ax in drawn:
        np.testing.assert_allclose(ax.collections[0].get_offsets(), fitted.cluster_centers_)
        assert ax.get_title().endswith("another run may end elsewhere")
        widths = [p.width for p in ax.patches]
        np.testing.assert_allclose(widths, 2 * 2.45 * fitted._center_std * 50)
        assert "pale" not in ax.get_title() and ax.collections[0].get_alpha().tolist() == [1, 1]
    one = fitted.plot(columns=[1])
    assert [p.height for p in one.patches] == pytest.approx([2 * 2.45 * fitted._size_std] * 2)
    np.testing.assert_allclose(
        one.collections[0].get_offsets()[:, 0], fitted.cluster_centers_[:, 1]
    )
    many = private(5, 0.1, trust="trusted").fit([rows()])
    ax, pale = many.plot(), [f"{j} (about" in many.cautions_[0] for j in range(5)]
    assert "pale: nearly empty" in ax.get_title() and 0 < sum(pale) < 5
    assert (ax.collections[0].get_alpha() < 1).tolist() == pale
    refuses(ValueError, "columns must be among column 0, column 1", fitted.plot, columns=["age"])
    refuses(ValueError, "one or two columns", fitted.plot, columns=[0, 1, 0])
    centers = np.random.default_rng(0).normal(size=(4, 6))
    full = np.linalg.norm(centers - centers.mean(axis=0)) ** 2
    assert 0.5 * full < np.linalg.norm(directions(centers)[0]) ** 2 <= full
    matplotlib.pyplot.close("all")

    def absent(name):
        raise ModuleNotFoundError(name="matplotlib")

    monkeypatch.setattr("importlib.import_module", absent)
    refuses(ImportError, r"needs matplotlib.*'\.\[plots\]'", fitted.plot)
