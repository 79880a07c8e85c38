"""What people do by habit: labels, weights, scalers, searches, gaps, files written twice."""

import logging
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fedclust.estimators import (
    PrivateKMeans,
    UncertainCentersWarning,
    UncoveredStepWarning,
    base,
    load,
)
from fedclust.estimators.drawing import directions
from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger, gdp_mu

TEACHING = {"mode": "teaching", "seed": 4}
MEANS = np.array([[25.0, 10.0], [75.0, 40.0]])
OWNERS = np.arange(1800) % 3


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


# --- what stands around a fit ---------------------------------------------------------------------


def test_a_step_that_learned_from_the_rows_is_in_the_statement():
    """And one that did not is named; neither where there is no step."""
    plain = private(bounds=(-4, 4))
    with pytest.warns(UncoveredStepWarning, match="standardscaler learned from the rows"):
        learned = make_pipeline(StandardScaler(), plain).fit(rows(), privatekmeans__clients=OWNERS)[
            -1
        ]
    said = dict(learned.statement().rows())["bounds"]
    assert said.startswith("as given, after a transformation that this statement does not cover")
    assert "standardscaler" in said and "public" not in said
    halve = FunctionTransformer(lambda X: X / 2)
    public = make_pipeline(halve, "passthrough", private(bounds=(0, 50)))
    public.fit(rows(), privatekmeans__clients=OWNERS)
    said = dict(public[-1].statement().rows())["bounds"]
    assert said.startswith("given, public, in units after functiontransformer: ")
    public[-1].fit(rows(), clients=OWNERS)  # called alone
    assert dict(public[-1].statement().rows())["bounds"].startswith("given, public: ")


CALLS = {
    "GridSearchCV": lambda m: GridSearchCV(
        m, {"n_clusters": [2, 3]}, cv=2, refit=False, error_score="raise"
    ).fit(rows(), clients=OWNERS),
    "cross_validate": lambda m: cross_validate(
        m, rows(), cv=4, params={"clients": OWNERS}, error_score="raise"
    ),
    "cross_val_predict": lambda m: cross_val_predict(m, rows(), cv=4, params={"clients": OWNERS}),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_search_has_one_ledger_and_a_budget_that_pays_for_all_of_it(call):
    """Else it is refused before its first fit, with what all four fits cost: twice one of them."""
    four = r"4 fits like this one cost epsilon = 4\.\d+ at .* each epsilon = 2\b"
    refuses(ValueError, f"ledger must be given inside a search .*{four}", CALLS[call], private())
    poor = PrivacyLedger(budget=Budget(6.0, 1e-4))
    refuses(
        BudgetExceededError, "4 fits like this one take 1..%", CALLS[call], private(ledger=poor)
    )
    assert not poor.releases and poor.remaining == 1
    enough = PrivacyLedger(budget=Budget(9.0, 1e-4))
    CALLS[call](private(ledger=enough))
    assert len(enough.releases) == 4 * 5 and enough.remaining > 0


def test_a_search_that_was_refused_stays_refused_at_its_last_fits():
    """Also where the search goes on after an error: then what is left would pay for the last."""
    poor = PrivacyLedger(budget=Budget(6.0, 1e-4))
    refuses(ValueError, "4 fits failed", GridSearchCV(
        private(ledger=poor), {"n_clusters": [2, 3]}, cv=2
    ).fit, rows(), clients=OWNERS)  # fmt: skip
    assert not poor.releases


# --- what a fit says of itself --------------------------------------------------------------------


def test_sizes_and_noise_are_those_that_were_released(fitted):
    sums, counts = fitted.result_.released[-1]
    std_sums, std_counts = fitted.result_.released[-1].std
    assert (fitted.cluster_sizes_ == counts).all() and fitted.cautions_ == ()
    assert np.abs(fitted.cluster_sizes_ - 900).max() < 100 + 5 * std_counts
    radius = fitted.plan_.broadcasts("radius")[-1]
    np.testing.assert_allclose(fitted._center_std, radius * std_sums / counts)
    assert fitted.n_iter_ == fitted.plan_.n_rounds == 5


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
    with pytest.warns(UncertainCentersWarning, match="nearly empty|half of its distance") as told:
        bad = private(12, 0.02 if trust == "trusted" else 1.0, trust=trust).fit(X)
    assert told[-1].filename == __file__
    assert bad.cautions_ and not any(c in str(bad.statement()) for c in bad.cautions_)
    assert private(2, 4.0, trust=trust).fit(X).cautions_ == ()


def test_distances_and_score_are_in_the_units_of_the_rows(fitted):
    X = rows(50, 9)
    centers = fitted.cluster_centers_
    np.testing.assert_allclose(
        fitted.transform(X), np.linalg.norm(X[:, None] - centers, axis=2), rtol=1e-9
    )
    own = centers[fitted.predict(X)]
    assert fitted.score(X) == pytest.approx(-((X - own) ** 2).sum())


def test_the_price_of_noise_is_foreseen_by_public_numbers():
    """It falls by 2^(4/3) for twice as many rows, and that of known groups by 4."""
    said = [
        dict(private(n_records=n).preview([rows(), rows()]).rows())["price of noise"].split()
        for n in (20_000, 40_000)
    ]
    (one, known), (two, known_two) = ((float(w[0]), float(w[-6])) for w in said)
    assert one / two == pytest.approx(2 ** (4 / 3), rel=0.1)
    assert known / known_two == pytest.approx(4, rel=0.1)
    facts = private(n_records=20_000).preview([rows(), rows()]).facts
    mu = gdp_mu(facts["epsilon"], facts["delta"]) / math.sqrt(2)  # of two clients one is honest
    foreseen = fastlloyd.overclustered_excess(20_000, facts["n_clusters"], 2, mu)
    assert facts["predicted_error"] == pytest.approx(foreseen, rel=1e-6)
    other = private(method="fastlloyd").preview([rows()] * 2)
    assert "price of noise" not in dict(other.rows())


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
    "dates": (pd.to_datetime(["2024-01-05"] * 9), "holds dates: take the days since a public"),
    "dates as text": (["2024-01-05"] * 9, "holds dates as text"),
    "limits": (["0.4"] * 5 + ["<0.3"] * 4, "entries such as '<5': put a number"),
    "decimal commas": (["3,5"] * 9, "decimal commas: read the file with decimal=','"),
    "numbers as text": (["3.5"] * 9, "numbers as text: convert it"),
    "words": (["high"] * 9, "holds words or other objects"),
}


@pytest.mark.parametrize("kind", list(TEXTS))
def test_a_column_without_numbers_is_answered_with_what_to_do(kind):
    values, match = TEXTS[kind]
    table = pd.DataFrame({"age": np.arange(9.0), "dose": values})
    with pytest.raises(TypeError, match=f"column 'dose' is not numeric: it .*{match}") as caught:
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
    assert "5/5" in capsys.readouterr().err
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert "over-clustered" in caplog.text and "charged: epsilon = 2 " in caplog.text
    private().fit(rows(), clients=OWNERS)
    assert not capsys.readouterr().err


def test_a_fit_that_takes_long_says_so_first_and_shows_its_progress(capsys, caplog, monkeypatch):
    monkeypatch.setattr(base, "LONG", 0.0)
    private().fit(rows(), clients=OWNERS)
    assert "PrivateKMeans: this fit takes about 0 s" in caplog.text
    assert "5/5" not in capsys.readouterr().err, "nobody sees it there"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    private().fit(rows(), clients=OWNERS)
    assert "5/5" in capsys.readouterr().err
    private(options={"progress": False}).fit(rows(), clients=OWNERS)
    assert "5/5" not in capsys.readouterr().err


def test_what_takes_long_is_known_before(fitted):
    plan, facts = fitted.plan_, fitted.plan_.facts
    assert base.expected_seconds(plan, 1000) < 1 < 10 < base.expected_seconds(plan, 10**7)
    many = replace(plan, facts=replace(facts, trust="masked", n_clients=10**5))
    assert base.expected_seconds(many, 1000) > 10


def test_a_figure_shows_released_numbers_in_their_units(fitted, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    fitted.save(tmp_path / "model.json")
    drawn = [m.plot() for m in (fitted, load(tmp_path / "model.json"))]  # no data is held there
    for ax in drawn:
        np.testing.assert_allclose(ax.collections[0].get_offsets(), fitted.cluster_centers_)
        widths = [p.width for p in ax.patches]
        np.testing.assert_allclose(widths, 2 * 2.45 * fitted._center_std * 50)
    one = fitted.plot(columns=[1])
    np.testing.assert_allclose(
        one.collections[0].get_offsets()[:, 0], fitted.cluster_centers_[:, 1]
    )
    refuses(ValueError, "columns must be among column 0, column 1", fitted.plot, columns=["age"])
    refuses(ValueError, "one or two columns", fitted.plot, columns=[0, 1, 0])
    centers = np.random.default_rng(0).normal(size=(4, 6))
    full = np.linalg.norm(centers - centers.mean(axis=0)) ** 2
    assert 0.5 * full < np.linalg.norm(directions(centers)) ** 2 <= full
    matplotlib.pyplot.close("all")

    def absent(name):
        raise ModuleNotFoundError(name="matplotlib")

    monkeypatch.setattr("importlib.import_module", absent)
    refuses(ImportError, r"needs matplotlib.*'\.\[plots\]'", fitted.plot)
