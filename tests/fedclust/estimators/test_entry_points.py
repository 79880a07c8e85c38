"""What the entry points say and keep: statements, files, rehearsals, columns, owners, bounds."""

import copy
import datetime
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import fedclust.estimators as entry_points
from fedclust.estimators import (
    FastLloydKMeans,
    FedDPKMeans,
    LocalKMeans,
    PublicBoundsWarning,
    RRCluster,
    TooFewRowsWarning,
    load,
)
from fedclust.estimators.saving import as_json
from fedclust_helpers import fastlloyd, feddp_kmeans, rr_cluster
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
)
from fedclust_helpers.federation import ClientData, TrustModelError, simulate

pytestmark = pytest.mark.slow

TEACHING = {"mode": "teaching", "seed": 4}
LOWER, UPPER = {"age": 0, "dose": 0}, {"age": 100, "dose": 50}
MEANS = np.array([[25.0, 10.0], [75.0, 40.0]])


def patients(n=3000, seed=0):
    """One table: a name nobody needs, two features in another order, the hospital."""
    rng = np.random.default_rng(seed)
    rows = MEANS[rng.integers(2, size=n)] + rng.normal(0, 3, (n, 2))
    return pd.DataFrame({
        "name": [f"p{i}" for i in range(n)], "dose": rows[:, 1], "age": rows[:, 0],
        "hospital": rng.choice(["north", "south", "west"], n),
    })  # fmt: skip


def lloyd(**changes):
    settings = {"n_clusters": 2, "epsilon": 2.0, "lower": LOWER, "upper": UPPER, **TEACHING}
    return FastLloydKMeans(**settings | changes)


def related(seed=5, n=80):
    rng = np.random.default_rng(seed)
    return MEANS[rng.integers(2, size=n)] + rng.normal(0, 6, (n, 2))


def feddp(**changes):
    settings = {"epsilon": 2.0, "lower": [0, 0], "upper": [100, 50], "X_server": related()}
    return FedDPKMeans(2, **settings | TEACHING | changes)


def two_groups(m=300, n=20, seed=0):
    """Clients of whom every second one labels the other way round."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (m, n, 2))
    y = np.where((X[:, :, 0] > 5) ^ (np.arange(m) % 2 == 0)[:, None], "high", "low")
    return X, y


def models(**changes):
    settings = {"epsilon": 8.0, "classes": ["low", "high"], "lower": 0, "upper": 10, "clip": 1.0}
    return RRCluster(2, **settings | TEACHING | changes)


# --- whose row it is ------------------------------------------------------------------------------

IDS = {
    "names": ["b", "a", "c"],
    "big integers": [10**30, -(10**25), 7],
    "floats": [1.5, 0.5, 2.5],
    "booleans and words": [True, False, True],
    "dates": [datetime.date(2024, 1, d) for d in (2, 1, 3)],
    "mixed": ["b", 1, "a"],
}


@pytest.mark.parametrize("kind", list(IDS))
def test_owners_may_be_of_any_kind(kind):
    table = patients()
    codes = np.arange(3000) % 3
    ids = [IDS[kind][c] for c in codes]
    fitted = lloyd().fit(table, clients=ids)
    assert fitted.plan_.facts.n_clients == len(set(IDS[kind]))
    by_column = lloyd().fit(table.assign(owner=pd.Series(ids, dtype=object)), clients="owner")
    assert (fitted.cluster_centers_ == by_column.cluster_centers_).all()


def test_owners_that_say_nothing_are_refused():
    table, ledger = patients(), PrivacyLedger()
    ids = table["hospital"].to_numpy(dtype=object)
    fit = lloyd(ledger=ledger).fit
    refuses(ValueError, "clients must be 3000 ids.* none of them missing", fit, table,
            clients=np.where(ids == "north", None, ids))  # fmt: skip
    refuses(ValueError, "clients must be one id .* column of X", fit, table, clients="town")
    refuses(ValueError, "clients must be 3000 ids", fit, table, clients=ids[:5])
    refuses(ValueError, "clients must be 3000 ids", fit, table, clients=[ids])
    refuses(ValueError, "clients must be 3000 ids", fit, table, clients=[[]] * 3000)
    refuses(ValueError, "clients must not be given beside", fit, {"a": table}, clients=ids)
    assert not ledger.releases


# --- columns and bounds ---------------------------------------------------------------------------


def test_bounds_by_name_choose_the_columns(tmp_path):
    table = patients()
    path = tmp_path / "bounds.csv"
    path.write_text("column,lower,upper\nage,0,100\ndose,0,50\n")
    by_dict = lloyd().fit(table, clients="hospital")
    assert by_dict.feature_names_in_.tolist() == ["age", "dose"]
    by_file = lloyd(lower=None, upper=None, bounds=path).fit(table, clients="hospital")
    plain = lloyd(lower=[0, 0], upper=[100, 50]).fit(
        table[["age", "dose"]].to_numpy(), clients=table["hospital"]
    )
    each = lloyd().fit(dict(list(table.groupby("hospital"))))
    for fitted in (by_file, plain, each):
        assert (fitted.cluster_centers_ == by_dict.cluster_centers_).all()
    order = np.argsort(by_dict.cluster_centers_[:, 0])
    # noise of epsilon 2 on 3000 rows moves a centre by less than a unit of age
    np.testing.assert_allclose(by_dict.cluster_centers_[order], MEANS, atol=4)
    labels = by_dict.predict(table)  # further columns, another order: chosen by name
    assert (labels == plain.predict(table[["age", "dose"]].to_numpy())).all()
    assert (lloyd().fit_predict(table, clients="hospital") == labels).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"lower": None, "upper": None}, "lower must be given: bounds .* without looking"),
        ({"upper": None}, "upper must be given"),
        ({"upper": {"age": 100}}, "lower and upper must name the same columns"),
        ({"lower": {"age": 0, "town": 0}, "upper": {"age": 9, "town": 9}}, "X must have .*; town"),
        ({"lower": {"age": 0, "name": 0}, "upper": {"age": 9, "name": 9}}, "'name' holds words"),
        ({"bounds": "b.csv"}, "bounds must be None where lower or upper is given"),
        ({"lower": None, "upper": None, "bounds": "no such file"}, "bounds must be a file"),
        ({"lower": {"age": 100, "dose": 0}}, "lower < upper"),
        ({"public_data": "yes"}, "public_data must be True or False"),
        ({"upper": np.inf}, "upper must be finite"),
        ({"lower": [0, -50]}, "lower and upper must both name their columns, or neither"),
        (
            {
                side: dict.fromkeys(LOWER, b)
                for side, b in (("lower", -1.7e308), ("upper", 1.7e308))
            },
            "upper - lower must be finite",
        ),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"n_clusters": "many"}, "n_clusters"),
    ],
)
def test_bounds_are_refused_by_name_and_cost_nothing(changes, match):
    ledger = PrivacyLedger()
    refuses((TypeError, ValueError), match, lloyd(ledger=ledger, **changes).fit, patients(),
            clients="hospital")  # fmt: skip
    assert not ledger.releases


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("age,0,100\ndose,0,9\n", "header column,lower,upper"),
        ("column,lower,upper\n", "bounds.csv has no row below"),
        ("column,lower,upper\nage,0,100\nage,0,1\n", "every column once"),
        ("column,lower,upper\nage,zero,100\n", "line 2, column lower: words"),
        ("column,lower,upper\nage,0,\n", "line 2, column upper: a missing value"),
        ("", "bounds.csv is empty"),
    ],
)
def test_a_file_of_bounds_says_what_is_wrong_with_it(tmp_path, text, match):
    (tmp_path / "bounds.csv").write_text(text)
    fit = lloyd(lower=None, upper=None, bounds=tmp_path / "bounds.csv").fit
    refuses(ValueError, match, fit, patients(), clients="hospital")


def test_missing_values_are_refused_by_the_name_of_the_column():
    table = patients()
    table.loc[7, "dose"] = np.nan
    fit = lloyd().fit
    with pytest.raises(ValueError, match="no missing values .*, but dose has some") as caught:
        fit(table, clients="hospital")
    assert "p7" not in str(caught.value)
    groups = dict(list(table.groupby("hospital")))
    refuses(ValueError, r"X\['.*'\] must have no missing values .* dose has some", fit, groups)
    refuses(ValueError, "X must be finite", lloyd(lower=0, upper=1).fit, [[0.5, np.inf], [0, 1]])
    nullable = patients().astype({"dose": "Float64"})
    assert (fit(nullable, clients="hospital").cluster_centers_
            == lloyd().fit(patients(), clients="hospital").cluster_centers_).all()  # fmt: skip


def test_bounds_of_public_data_are_read_off_with_a_warning():
    table = patients()[["age", "dose"]].assign(same=1.0)
    public = FastLloydKMeans(2, epsilon=2.0, public_data=True, trust="trusted", **TEACHING)
    with pytest.warns(PublicBoundsWarning, match="read off the data") as caught:
        public.fit(table)
    assert caught[0].filename == __file__
    assert str(public.statement()).count("bounds were read off the data") == 1
    secret = FastLloydKMeans(2, epsilon=2.0, public_data=True, trust="trusted")
    with pytest.warns(PublicBoundsWarning):
        secret.fit(table)
    assert not secret.result_.private and "no privacy" in secret.result_.warning
    said = dict(secret.statement().rows())
    assert said["guarantee"].startswith("none: ") and not {"means", "holds"} & {*said}
    low, high = public.statement().facts["lower"], public.statement().facts["upper"]
    assert low[0] == table["age"].min() and high[1] == table["dose"].max()
    assert low[2] < 1 < high[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = lloyd(public_data=True).fit(patients(), clients="hospital")
    assert not given.result_.plan.facts.public_data  # bounds were given: nothing was read off


# --- scikit-learn ---------------------------------------------------------------------------------


def test_distances_names_and_frames_are_those_of_scikit_learn():
    table = patients()
    fitted = lloyd().fit(table, clients="hospital")
    distances = fitted.transform(table)
    assert distances.shape == (3000, 2)
    assert (distances.argmin(axis=1) == fitted.predict(table)).all()
    off = table[["age", "dose"]] - fitted.cluster_centers_[distances.argmin(axis=1)]
    assert fitted.score(table) == pytest.approx(-(off**2).to_numpy().sum())
    framed = fitted.set_output(transform="pandas").transform(table)
    assert list(framed.columns) == ["fastlloydkmeans0", "fastlloydkmeans1"]


def test_it_ends_a_pipeline_and_the_ledger_goes_with_it():
    table, ledger = patients(), PrivacyLedger()
    halve = FunctionTransformer(lambda X: X / 2)
    model = lloyd(lower=0, upper=50, ledger=ledger)
    pipe = make_pipeline(halve, model)
    pipe.fit(table[["age", "dose"]].to_numpy(), fastlloydkmeans__clients=table["hospital"])
    assert len(ledger.releases) == pipe[-1].plan_.n_rounds
    assert pipe.predict(MEANS).tolist() in ([0, 1], [1, 0])
    assert clone(pipe)[-1].ledger is ledger


def test_the_number_of_clusters_may_be_left_to_the_release():
    model = lloyd(method="overclustered", lower=[0, 0], upper=[100, 50]).set_params(
        n_clusters="auto"
    )
    fitted = model.fit(patients()[["age", "dose"]].to_numpy(), clients=np.arange(3000) % 3)
    assert 2 <= len(fitted.cluster_centers_) == fitted.transform(MEANS).shape[1] < 10
    made = model.rehearse(related(n=3000), repeats=1)
    assert made.n_clusters[0] < 48 and made.ratio[0] < 1.5
    assert set(made.changed) == {"as planned", "epsilon"}


# --- the statement --------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["masked", "ideal", "trusted", "serverless"])
def test_the_statement_says_who_saw_what_and_what_it_cost(trust):
    ledger = PrivacyLedger(budget=Budget(5.0, 1e-4))
    fitted = lloyd(trust=trust, delta=1e-5, ledger=ledger).fit(patients(), clients="hospital")
    text, facts = str(fitted.statement()), fitted.statement().facts
    for who, what in fitted.plan_.facts.sees:
        assert [who, what] in facts["sees"] and what in text
    assert facts["unit"] == "point" and facts["adjacency"] == "add/remove"
    assert facts["epsilon"] == 2.0 and facts["delta"] == 1e-5
    assert facts["charged"]["epsilon"] == pytest.approx(fitted.result_.epsilon)
    assert facts["planned_bytes"] == fitted.plan_.n_bytes > 0
    assert facts["budget"]["left"] == pytest.approx(ledger.remaining)
    for said in ("age 0 to 100", "stays local", "budget", "accountant", "by this fit", "round 0"):
        assert said in text
    assert "teaching mode" in facts["warnings"][-1]
    shown = fitted._repr_mimebundle_()
    assert shown["text/plain"] == text and "<table>" in shown["text/html"]
    assert "<table>" in fitted._repr_html_()
    assert "<table>" not in lloyd()._repr_mimebundle_()["text/html"] or "statement" not in text


def test_a_preview_is_the_statement_before_the_fit_and_costs_nothing():
    ledger = PrivacyLedger(budget=Budget(2.0, 1e-3))
    model = lloyd(ledger=ledger)
    before = model.preview(patients(), clients="hospital")
    assert not ledger.releases and not hasattr(model, "plan_")
    assert before.facts["charged"] is None and before.facts["budget"]["left"] == 1
    assert "this is a preview" in str(before)
    after = model.fit(patients(), clients="hospital").statement()
    for same in ("plan", "epsilon", "planned_bytes", "accountant", "sees", "lower"):
        assert before.facts[same] == after.facts[same]
    with pytest.raises(BudgetExceededError):
        model.fit(patients(), clients="hospital")
    refuses(ValueError, "epsilon", lloyd(epsilon=-1).preview, patients(), clients="hospital")


def test_two_fits_are_added_up_in_the_second_statement():
    model = lloyd(delta=1e-5).fit(patients(), clients="hospital")
    assert "all fits" not in str(model.statement())
    text = str(model.fit(patients(), clients="hospital").statement())
    assert f"{model.ledger_.epsilon(1e-5):.6g} by all fits on its ledger" in text


def test_a_budget_by_renyi_curves_pays_for_more_fits_chosen_in_turn():
    """Shares of (epsilon, delta) pay for three of these fits, as lesson 06 says."""
    paid = {}
    for rule in ("basic", "rdp"):
        ledger = PrivacyLedger(budget=Budget(3.0, 3e-5, filter=rule))
        model = lloyd(epsilon=1.0, delta=1e-5, ledger=ledger, method="overclustered")
        paid[rule] = 0
        with pytest.raises(BudgetExceededError):
            while paid[rule] < 20:
                model.fit(patients(), clients="hospital")
                paid[rule] += 1
    assert paid["basic"] == 3 and paid["rdp"] == 6


def test_too_few_rows_are_said_before_anything_is_spent():
    ledger, few = PrivacyLedger(budget=Budget(1.0, 1e-3)), patients(200)
    ask = lloyd(epsilon=0.1, delta=1e-5, ledger=ledger)
    preview = ask.preview(few, clients="hospital")
    assert any("too few rows for 2 clusters" in w for w in preview.facts["warnings"])
    ask.set_params(ledger=PrivacyLedger(budget=Budget(0.05, 1e-5)))
    with pytest.warns(TooFewRowsWarning, match="too few rows for 2 clusters") as caught:
        with pytest.raises(BudgetExceededError):
            ask.fit(few, clients="hospital")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", TooFewRowsWarning)
        lloyd().fit(patients(), clients="hospital")


@pytest.mark.parametrize(
    ("few", "enough"),
    [
        (lambda: feddp(epsilon=0.05).preview([related(n=60)]),
         lambda: feddp().preview([related(n=3000)])),
        (lambda: LocalKMeans(2, epsilon=1.0, lower=0, upper=100, **TEACHING).preview(
             related(n=200)),
         lambda: LocalKMeans(2, epsilon=4.0, lower=0, upper=100, **TEACHING).preview(
             related(n=200_000))),
        (lambda: models(epsilon=0.2).preview(*two_groups(40)),
         lambda: models().preview(*two_groups(400))),
        (lambda: lloyd(method="overclustered", epsilon=0.05).preview(
            patients(200), clients="hospital"),
         lambda: lloyd(method="overclustered").preview(patients(), clients="hospital")),
    ],
    ids=["feddp", "local", "models", "overclustered"],
)  # fmt: skip
def test_every_estimator_warns_of_too_few_and_only_then(few, enough):
    def told(statement):
        return [w for w in statement.facts["warnings"] if w.startswith("too few")]

    assert told(few()) and not told(enough())


def test_the_warning_goes_with_what_noise_really_does():
    """Where it warns, noise adds half the cost and more; where not, a tenth at most.

    Means of 4 runs, seeded: they are 2.5 and 1.00 with other seeds, too.
    """
    rng = np.random.default_rng(1)
    rows = rng.uniform(10, 90, (4, 2))[rng.integers(4, size=2000)] + rng.normal(0, 4, (2000, 2))
    added = {}
    for epsilon in (0.02, 2.0):
        model = FastLloydKMeans(
            4,
            epsilon=epsilon,
            lower=0,
            upper=100,
            method="overclustered",
            trust="ideal",
            **TEACHING,
        )
        made = model.rehearse(rows, n_clusters=(), epsilon=(), repeats=4)
        added[bool(made.too_few_rows[0])] = made.ratio[0] - 1
    assert set(added) == {True, False}
    assert added[True] > 0.5 and added[False] < 0.1


# --- files ----------------------------------------------------------------------------------------


def fitted_estimators():
    table = patients(4000)
    rows = table[["age", "dose"]].to_numpy()
    X, y = two_groups()
    local = LocalKMeans(
        2, epsilon=2.0, lower=[0, 0], upper=[100, 50], method="one_round", **TEACHING
    )
    return {
        "lloyd": (lloyd(ledger=PrivacyLedger(budget=Budget(9.0, 1e-3))).fit(
            table, clients="hospital"), table),
        "feddp": (feddp(unit="client", method="adaptive", n_records=4000, rows_per_client=10).fit(
            rows, clients=np.arange(4000) // 10), rows),
        "local": (local.fit(rows), rows),
        "models": (models().fit(list(X), list(y)), None),
        "models, fedcam": (models(method="fedcam", trust="trusted", n_rounds=3).fit(
            dict(enumerate(X)), dict(enumerate(y))), None),
    }  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    found = {}
    for name, (model, rows) in fitted_estimators().items():
        path = folder / f"{name}.json"
        model.save(path)
        found[name] = (model, rows, path)
    return found


ESTIMATORS = ["lloyd", "feddp", "local", "models", "models, fedcam"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_saved_model_follows_the_schema_and_says_the_same(saved, name):
    jsonschema = pytest.importorskip("jsonschema")
    model, rows, path = saved[name]
    schema = json.loads(
        (Path(entry_points.__file__).parent / "statement.schema.json").read_text("utf-8")
    )
    content = json.loads(path.read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(content)
    again = load(path)
    assert type(again) is type(model)
    assert str(again.statement()) == str(model.statement())
    assert again._repr_mimebundle_()["text/plain"] == str(model.statement())
    if rows is not None:
        assert (again.predict(rows) == model.predict(rows)).all()
        np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    else:
        one = two_groups()[0][0]
        assert (again.predict(one, choice=1) == model.predict(one, choice=1)).all()
        assert (again.choose([one], [["low"] * 20]) == model.choose([one], [["low"] * 20])).all()
    json.dumps(dict(model.statement().facts), allow_nan=False)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_data_and_no_secrets_are_saved(saved, name):
    model, rows, path = saved[name]
    text = path.read_text("utf-8")
    content = json.loads(text)
    for word in ("seed", "ledger", "options", "X_server", "lower", "upper", "bounds"):
        assert word not in content["parameters"]
    assert set(content["content"]) <= {
        "centers", "box_centers", "sizes", "size_std", "center_std", "copy", "models", "common",
    }  # fmt: skip
    assert "choices" not in text and "clients_" not in text and "clipped_counts" not in text
    if rows is not None:
        plain = np.asarray(rows[["age", "dose"]] if isinstance(rows, pd.DataFrame) else rows)
        assert not any(repr(float(v)) in text for v in plain[:50].ravel())


def test_a_loaded_model_cannot_be_fitted_beside_the_ledger(saved):
    again = load(saved["lloyd"][2])
    refuses(CopyRefusedError, "record", again.fit, patients(), clients="hospital")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda c: c.pop("content"), "lacks content"),
        (lambda c: c.update(format="other"), "with format"),
        (lambda c: c.update(estimator="KMeans"), "estimator that this version knows"),
        (lambda c: c["statement"].pop("lower"), "save` wrote, and other.json is none: 'lower'"),
        (lambda c: c["content"].update(centers=[["a"]]), "centers must be"),
        (lambda c: c["content"]["sizes"].pop(), "sizes and center_std must be those of"),
        (lambda c: c["parameters"].update(town=1), "file that `save` wrote"),
    ],
)
def test_files_that_save_did_not_write_are_refused(saved, tmp_path, change, match):
    content = json.loads(saved["lloyd"][2].read_text("utf-8"))
    change(content)
    (tmp_path / "other.json").write_text(json.dumps(content))
    refuses(ValueError, match, load, tmp_path / "other.json")


def test_paths_are_checked(saved, tmp_path):
    refuses(TypeError, "path must be a path", load, 3)
    refuses(TypeError, "path must be a path", saved["lloyd"][0].save, 3)
    refuses(ValueError, "path must end in .json", saved["lloyd"][0].save, tmp_path / "model")
    refuses(ValueError, "file that `save` wrote", load, tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    refuses(ValueError, "file that `save` wrote", load, tmp_path / "list.json")


# --- secure mode ----------------------------------------------------------------------------------


SECURE = {
    **{trust: (lambda how, t=trust: lloyd(trust=t, **how), (patients(900), None, "hospital"))
       for trust in ("masked", "ideal", "trusted", "serverless")},
    "feddp": (lambda how: feddp(**how), (np.array_split(related(n=3000), 3), None, None)),
    **{trust: (lambda how, t=trust: LocalKMeans(2, epsilon=2.0, lower=0, upper=100, trust=t,
                                                method="one_round", **how),
               (related(n=3000), None, None)) for trust in ("local", "shuffled")},
    **{f"models, {trust}": (lambda how, t=trust: models(trust=t, n_rounds=2, **how),
                            (*map(list, two_groups(60)), None)) for trust in ("ideal", "masked")},
}  # fmt: skip


@pytest.mark.parametrize("name", list(SECURE))
def test_secure_mode_is_the_default_and_takes_no_seed(name):
    make, (X, y, clients) = SECURE[name]
    fitted = make({"mode": "secure", "seed": None}).fit(X, y, clients=clients)
    assert type(fitted)(2, epsilon=1.0).mode == "secure" and fitted.result_.private
    assert not any("teaching" in told for told in fitted.statement().facts["warnings"])
    again = pickle.loads(pickle.dumps(fitted))
    assert as_json(again) == as_json(fitted) == as_json(copy.deepcopy(fitted))
    refuses(ValueError, "seed", make({"mode": "secure", "seed": 4}).fit, X, y, clients=clients)


# --- rehearsals -----------------------------------------------------------------------------------


def test_a_rehearsal_compares_plans_and_charges_nothing():
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5))
    model = lloyd(epsilon=1.0, ledger=ledger, lower=[0, 0], upper=[100, 50])
    seen = []
    made = model.rehearse(
        related(n=400), n_rows=3000, repeats=2, progress=lambda *n: seen.append(n)
    )
    assert not ledger.releases and not hasattr(model, "plan_")
    assert made.changed.tolist() == ["as planned"] + [
        word for word in ("n_clusters", "epsilon", "n_rounds") for _ in range(2)
    ]
    assert made.n_clusters.tolist()[:3] == [2, 1, 3] and made.epsilon.tolist()[3:5] == [0.5, 2.0]
    t = made.n_rounds[0]
    assert made.n_rounds.tolist()[5:] == [t - 1, t + 1]
    assert (made.ratio > 0.99).all() and (made.nicv > 0).all()
    assert seen[-1] == (14, 14)
    again = model.rehearse(related(n=400), n_rows=3000, repeats=2)
    pd.testing.assert_frame_equal(made, again)


def test_the_rows_of_a_fit_are_not_rehearsed_on():
    """In any order and form, drawn from or not; nothing of them is pickled."""
    table, once = patients(300), {"n_clusters": (), "epsilon": (), "n_rounds": (), "repeats": 1}
    model, public = (
        lloyd(mode="secure", seed=None),
        pd.DataFrame(related(), columns=["age", "dose"]),
    )
    model.rehearse(public, **once)
    model.fit(table, clients="hospital")
    model.fit(patients(200, seed=5), clients="hospital")
    shuffled = table.sample(frac=1, random_state=0)
    each = [group for _, group in table[["age", "dose"]].groupby(np.arange(300) % 3)]
    for rows in (table[["age", "dose"]], shuffled[["dose", "age"]], each):
        refuses(ValueError, "X must not be the rows of a fit", model.rehearse, rows, **once)
    refuses(ValueError, "X must not be the rows", model.rehearse, shuffled, n_rows=9, **once)
    model.rehearse(public, **once)
    model.rehearse(table[["age", "dose"]][1:], **once)  # other rows, as far as one can see
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_private")


def test_a_statement_tells_planned_numbers_only():
    """Two runs of one plan: other cohorts, the same statement, file, record and HTML."""
    rows = ClientData(np.random.default_rng(0).uniform(0, 100, (24, 2)), np.arange(13) * 2,
                      np.arange(24) % 2)  # fmt: skip
    told = set()
    for seed in range(4):
        model = RRCluster(2, epsilon=4.0, method="sums_only", trust="ideal", cohort=6, n_rounds=2,
                          classes=[0, 1], lower=0, upper=100, mode="teaching",
                          seed=seed).fit(rows)  # fmt: skip
        kept = as_json(model) | {"content": None}
        told.add((json.dumps(kept), model.statement()._repr_html_(),
                  model.transcript_.to_frame().to_csv()))  # fmt: skip
        assert model.plan_.releases[0].sampling is not None
    assert len(told) == 1


def test_more_budget_and_more_rows_help_in_a_rehearsal():
    """Means of 8 runs, seeded: the noise differs by factors of 40 and 30."""
    model = lloyd(lower=[0, 0], upper=[100, 50])
    quiet = {"n_clusters": (), "n_rounds": (), "repeats": 8}
    made = model.rehearse(related(n=400), n_rows=400, epsilon=(0.1, 4.0), **quiet)
    assert made.ratio[1] > made.ratio[2]
    many = model.rehearse(related(n=400), n_rows=12_000, epsilon=(0.1,), **quiet)
    assert many.ratio[1] < made.ratio[1]


@pytest.mark.parametrize(
    ("make", "quality"),
    [
        (lambda: (feddp(), related(n=500)), "nicv"),
        (lambda: (feddp(unit="client", n_records=500, rows_per_client=10), related(n=500)), "nicv"),
        (lambda: (LocalKMeans(2, epsilon=4.0, lower=[0, 0], upper=[100, 50], method="one_round",
                              **TEACHING), related(n=5000)), "nicv"),
        (lambda: (models(n_rounds=3), *map(list, two_groups(60))), "accuracy"),
    ],
    ids=["feddp", "feddp clients", "local", "models"],
)  # fmt: skip
def test_every_estimator_can_be_rehearsed(make, quality):
    model, *rows = make()
    made = model.rehearse(*rows, n_clusters=(), epsilon=(), n_rounds=(), repeats=1, n_clients=50)
    assert quality in made and np.isfinite(made[quality]).all() and (made.without_noise > 0).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"repeats": 0}, "repeats"), ({"seed": -1}, "seed"), ({"n_rows": 0}, "n_rows"),
        ({"n_clients": 0}, "n_clients"), ({"n_clusters": (0,)}, "n_clusters"),
        ({"epsilon": (-1.0,)}, "epsilon"), ({"n_rounds": (0,)}, "n_rounds"),
        ({"n_rows": 9, "clients": np.arange(80) % 3}, "n_rows must be None"),
        ({"progress": 3}, "progress"),
    ],
)  # fmt: skip
def test_what_cannot_be_rehearsed(options, match):
    model = lloyd(lower=[0, 0], upper=[100, 50])
    refuses((TypeError, ValueError), match, model.rehearse, related(), **options)


# --- FedDP-KMeans ---------------------------------------------------------------------------------


def test_feddp_is_the_function_on_scaled_data():
    table = patients(2000)
    fitted = feddp(options={"n_rounds": 2}).fit(
        table[["age", "dose"]].to_numpy(), clients=table["hospital"]
    )
    low, high = np.zeros(2), np.array([100.0, 50.0])
    scale = lambda rows: 2 * (rows - low) / (high - low) - 1  # noqa: E731
    groups = [scale(g[["age", "dose"]].to_numpy()) for _, g in table.groupby("hospital")]
    federation = simulate(groups, "ideal", seed=4, domain="ball", bound=np.sqrt(2))
    server = np.clip(scale(related()), -1, 1)
    plan = feddp_kmeans.plan(federation, server, n_clusters=2, epsilon=2.0, n_rounds=2)
    result = feddp_kmeans.run(federation, plan, rng=np.random.default_rng(4))
    np.testing.assert_allclose(fitted.result_.centers, result.centers, atol=1e-9)
    order = np.argsort(fitted.cluster_centers_[:, 0])
    np.testing.assert_allclose(fitted.cluster_centers_[order], MEANS, atol=5)


@pytest.mark.thorough
def test_feddp_protects_clients_by_the_adaptive_method_too():
    rows = related(n=6000, seed=1)
    owners = np.arange(6000) % 600
    model = feddp(unit="client", method="adaptive", epsilon=4.0, n_records=6000, rows_per_client=10)
    fitted = model.fit(rows, clients=owners)
    assert fitted.plan_.facts.unit == "client" and fitted.ledger_.unit == "client"
    assert "one client" in str(fitted.statement())
    papers = feddp(unit="client", n_records=6000, rows_per_client=10)
    server = np.clip(related() / [50, 25] - 1, -1, 1)
    assert papers._prepare(rows, None, owners).plan.options[
        "clips"
    ] == feddp_kmeans.ClipBounds.suggest(server, rows_per_client=10, n_clusters=2)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"X_server": None}, ValueError, "X_server must be given"),
        ({"X_server": [[1.0]]}, ValueError, "X_server must have 2 columns"),
        ({"X_server": [[1.0, np.nan]] * 9}, ValueError, "X_server must be finite"),
        ({"unit": "person"}, ValueError, "unit must be one of"),
        ({"trust": "masked"}, ValueError, "trust must be one of"),
        ({"radius": -1}, ValueError, "radius"),
        ({"unit": "client"}, ValueError, "rows_per_client must be given"),
        ({"unit": "client", "method": "adaptive"}, ValueError, "n_records must be given"),
        ({"ledger": PrivacyLedger("client")}, LedgerMismatchError, "ledger .* one point"),
        ({"method": "auto"}, ValueError, "method must be one of feddp, adaptive"),
    ],
)
def test_feddp_refuses_by_name(changes, error, match):
    refuses(error, match, feddp(**changes).fit, np.array_split(related(n=300), 3))


def test_feddp_server_rows_are_chosen_by_name_and_may_come_with_fit():
    table = patients(2000)
    server = pd.DataFrame(related(), columns=["age", "dose"])[["dose", "age"]].assign(more="x")
    named = feddp(lower=LOWER, upper=UPPER, X_server=None)
    by_name = named.fit(table, clients="hospital", X_server=server)
    by_array = feddp().fit(table[["age", "dose"]].to_numpy(), clients=table["hospital"])
    assert (by_name.cluster_centers_ == by_array.cluster_centers_).all()
    shorter = feddp(radius=0.5).fit(table[["age", "dose"]].to_numpy(), clients=table["hospital"])
    assert shorter.clipped_counts_.sum() > 0 and shorter.plan_.facts.bound == 0.5
    said = named.preview(table, clients="hospital", X_server=server)
    assert said.facts["columns"] == ["age", "dose"]


# --- models ---------------------------------------------------------------------------------------


def test_models_are_the_function_on_scaled_data_and_find_both_groups():
    X, y = two_groups()
    fitted = models().fit(list(X), list(y))
    labels = (y == "high").astype(int)
    data = ClientData(X.reshape(-1, 2) / 5 - 1, np.arange(0, 6001, 20), labels.ravel())
    federation = simulate(data, "ideal", seed=4, n_labels=2, ledger=PrivacyLedger("client"))
    training = rr_cluster.Training(rr_cluster.SoftmaxRegression(2, 2), cohort=300, clip=1.0)
    plan = rr_cluster.plan_sums_only(
        federation, training, n_clusters=2, n_rounds=20, epsilon=8.0,
        delta=fastlloyd.default_delta(300),
    )  # fmt: skip
    np.testing.assert_array_equal(fitted.models_, rr_cluster.run(federation, plan).models)
    even = fitted.choices_[::2]
    assert (even == even[0]).mean() > 0.95 and (fitted.choices_[1::2] != even[0]).mean() > 0.95
    assert fitted.score(list(X), list(y)) > 0.9
    assert (fitted.choose(list(X), list(y)) == fitted.choices_).all()


def test_clients_of_models_come_as_tables_lists_and_columns():
    X, y = two_groups(60)
    table = pd.DataFrame(X.reshape(-1, 2), columns=["a", "b"])
    table["who"], table["label"] = np.repeat([f"c{i:02}" for i in range(60)], 20), y.ravel()
    shuffled = table.sample(frac=1, random_state=1)
    by_list = models(n_rounds=3).fit(list(X), list(y))
    by_column = models(n_rounds=3).fit(table, "label", clients="who")
    by_array = models(n_rounds=3).fit(table[["a", "b"]], y.ravel(), clients=table["who"])
    tables = dict(list(table.groupby("who")))
    by_dict = models(n_rounds=3, lower={"a": 0, "b": 0}, upper=10).fit(tables, "label")
    for fitted in (by_column, by_array, by_dict):
        np.testing.assert_array_equal(fitted.models_, by_list.models_)
    told = by_column.predict(shuffled, clients="who")
    row = pd.Series(told, index=shuffled.index).sort_index().to_numpy()
    assert (row == np.concatenate(by_list.predict(list(X)))).all()
    assert set(told) <= {"low", "high"}
    with pytest.raises(ValueError, match="its index has others, or in another order"):
        by_column.predict(shuffled, clients=table["who"])
    assert (by_dict.predict(tables)[3] == by_list.predict(list(X))[3]).all()
    assert by_column.clients_[:2] == ["c00", "c01"]


@pytest.mark.parametrize(
    ("changes", "y", "error", "match"),
    [
        ({"classes": None}, "given", ValueError, "classes must be given"),
        ({"classes": ["low", "low"]}, "given", ValueError, "classes must hold two or more"),
        ({"classes": ["low", "mid"]}, "given", ValueError, "y must hold labels of classes only"),
        ({}, None, ValueError, "y must be given"),
        ({}, [["low"] * 20], ValueError, "y must hold one array of labels for each client"),
        ({}, "label", ValueError, "y must be labels, or the name of a column"),
        ({"method": "ifca"}, "given", TrustModelError, "members"),
        ({"cohort": 1000}, "given", ValueError, "cohort"),
        ({"clip": 0}, "given", ValueError, "clip"),
        ({"n_hidden": -1}, "given", ValueError, "n_hidden"),
        ({"options": {"n_step": 3}}, "given", ValueError, "options must be among .*; got 'n_step'"),
        ({"ledger": PrivacyLedger()}, "given", ValueError, "one client"),
        ({"trust": "masked", "cohort": 30}, "given", TrustModelError, "cohort"),
    ],
)
def test_models_refuse_by_name(changes, y, error, match):
    X, own = two_groups(60)
    ledger = changes.get("ledger") or PrivacyLedger("client")
    model = models(**{"ledger": ledger, **changes})
    refuses(error, match, model.fit, list(X), list(own) if y == "given" else y)
    assert not ledger.releases


@pytest.mark.parametrize("method", ["ifca", "fesem", "fedcam"])
def test_the_papers_methods_cluster_models_too(method):
    X, y = two_groups(60)
    model = models(method=method, trust="trusted", n_rounds=3, options={"min_size": 5})
    fitted = model.fit(list(X), list(y))
    assert fitted.plan_.options["clusterer"] == method and fitted.ledger_.adjacency == "replace-one"
    assert fitted.result_.epsilon <= 8.0 * (1 + 1e-9)
    assert len(fitted.predict(list(X))) == 60


def test_models_tell_what_is_wrong_with_a_question():
    X, y = two_groups(60)
    fitted = models(n_rounds=2, n_hidden=3).fit(list(X), list(y))
    refuses(ValueError, "clients or choice must be given", fitted.predict, X[0])
    refuses(ValueError, "choice must be", fitted.predict, X[0], choice=2)
    refuses(ValueError, "clients must be those of the fit", fitted.predict, X[0], clients=[99] * 20)
    assert fitted.predict(X[0], clients=[0] * 20).tolist() == fitted.predict(list(X))[0].tolist()


def test_what_clients_of_models_chose_is_not_pickled():
    X, y = two_groups(60)
    fitted = models(n_rounds=2).fit(list(X), list(y))
    again = pickle.loads(pickle.dumps(fitted))
    assert not hasattr(again, "choices_") and not hasattr(again, "clients_")
    assert (again.models_ == fitted.models_).all()
    assert copy.deepcopy(fitted).ledger_ is fitted.ledger_


# --- mixed models ---------------------------------------------------------------------------------


def test_mixed_models_stay_local_and_no_label_of_a_test_row_enters(tmp_path):
    X, y = two_groups(60)
    fresh, labels = two_groups(60, seed=1)
    alone = models(epsilon=0.5, n_rounds=5).fit(list(X), list(y))
    mixed = models(epsilon=0.5, n_rounds=5, usual_rows=20).fit(list(X), list(y))
    assert np.array_equal(mixed.models_, alone.models_)  # what is released is the same
    assert mixed.score(list(fresh), list(labels)) > alone.score(list(fresh), list(labels))
    said, wrong = mixed.predict(list(fresh)), np.where(labels == "high", "low", "high")
    for truth in (labels, wrong):
        right = np.mean([(a == b).mean() for a, b in zip(said, truth, strict=True)])
        assert mixed.score(list(fresh), list(truth)) == pytest.approx(right)
    told = str(mixed.statement()).replace("\n", " ")
    assert "mixed model" in told and "mixed model" not in str(alone.statement())
    mixed.save(tmp_path / "mixed.json")
    for copied in (pickle.loads(pickle.dumps(mixed)), entry_points.load(tmp_path / "mixed.json")):
        assert not hasattr(copied, "mixed_") and np.array_equal(copied.models_, mixed.models_)
    for wrong in ({"n_hidden": 2}, {"method": "fedcam", "trust": "trusted"}):
        refuses(
            ValueError,
            "usual_rows must be None",
            models(usual_rows=20, **wrong).fit,
            list(X),
            list(y),
        )
