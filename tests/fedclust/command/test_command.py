"""The command: a study from its file to centres and statement; errors in one line, exit codes."""

import inspect
import json
import os
import subprocess
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest

from fedclust import command, estimators
from fedclust.command import fit as fitting
from fedclust.estimators import KINDS, PrivateKMeans, load

pytestmark = pytest.mark.slow

STUDY = """
[data]
file = "visits.csv"
clients = "clinic"
[study]
n_clusters = 2
epsilon = 2.0
bounds = "bounds.csv"
mode = "teaching"
seed = 1
"""


@pytest.fixture
def study(tmp_path):
    """A folder with data, bounds, and a study that runs."""
    rng = np.random.default_rng(0)
    means = np.array([[25.0, 10.0], [75.0, 40.0]])
    rows = means[rng.integers(2, size=3000)] + rng.normal(0, 3, (3000, 2))
    table = pd.DataFrame(rows, columns=["age", "dose"])
    table["clinic"] = rng.choice(["a", "b", "c"], 3000)
    table.to_csv(tmp_path / "visits.csv", index=False)
    for name, group in table.groupby("clinic"):
        group.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "bounds.csv").write_text("column,lower,upper\nage,0,100\ndose,0,50\n")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def fedclust(folder, *arguments):
    """The command in a process of its own: exit code, output, errors."""
    line = [sys.executable, "-m", "fedclust.command", *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, env=os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_study_goes_from_files_to_centres_and_statement(study):
    code, out, err = fedclust(study, "fit", "--config", "study.toml")
    assert (code, err) == (0, "")
    assert "server sees" in out and "by this fit" in out and "written: model.json" in out
    table = pd.read_csv(study / "visits.csv")
    same = PrivateKMeans(2, epsilon=2.0, bounds=study / "bounds.csv", mode="teaching", seed=1).fit(
        table, clients="clinic"
    )
    centers = pd.read_csv(study / "results" / "centers.csv")
    assert list(centers.columns) == ["cluster", "size", "age", "dose"]
    noise = same._center_std[:, None] * [50, 25]  # in units; two digits of it are shown
    off = np.abs(centers[["age", "dose"]].to_numpy() - same.cluster_centers_)
    assert (off <= noise / 2).all() and (off > 0).any()
    np.testing.assert_array_equal(centers["size"], same.cluster_sizes_.round())
    model = load(study / "results" / "model.json")
    np.testing.assert_array_equal(model.cluster_centers_, same.cluster_centers_)
    told = (study / "results" / "statement.txt").read_text("utf-8")
    assert str(model.statement()) + "\n" == told and told in out
    assert str(study) not in (study / "results" / "model.json").read_text()
    modes = [path.stat().st_mode & 0o777 for path in (study / "results").iterdir()]
    assert modes == [0o600] * 4  # who else reads them is for their owner to say
    # a second run does not overwrite what was paid for
    code, out, err = fedclust(study, "fit", "--config", "study.toml")
    assert code == 3 and "results holds a result already" in err and err.count("\n") == 1


def test_a_dry_run_prints_the_plan_and_writes_nothing(study, capsys):
    assert command.main(["fit", "--config", str(study / "study.toml"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "this is a preview" in out and "epsilon = 2 at" in out
    assert "in one process that holds all rows" in out
    assert not (study / "results").exists()


def test_files_of_clients_and_other_estimators(study, capsys):
    one = STUDY.replace('file = "visits.csv"\nclients = "clinic"', "files = {%s}")
    named = ", ".join(f'{n} = "{n}.csv"' for n in "abc")
    (study / "study.toml").write_text(one % named)
    assert fitting.run(study / "study.toml") == 0
    by_files = json.loads((study / "results" / "model.json").read_text())
    assert by_files["statement"]["n_clients"] == 3
    feddp = STUDY.replace("[study]", 'server = "b.csv"\n[study]\nestimator = "FedDPKMeans"')
    (study / "study.toml").write_text(feddp + '[output]\nfolder = "feddp"\n')
    assert fitting.run(study / "study.toml") == 0
    assert load(study / "feddp" / "model.json").statement().facts["estimator"] == "FedDPKMeans"
    assert "WARNING" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_can_hold_every_parameter_of_every_class(tmp_path, kind):
    """By the signatures, so that the file cannot lag behind; each value arrives as it stands."""
    parameters = set(inspect.signature(getattr(estimators, kind)).parameters)
    for name in sorted(parameters - fitting.SET_ELSEWHERE):
        line = "bounds = {x = [0, 1]}" if name == "bounds" else f"{name} = 3"
        needed = "\n".join(f"{n} = 2" for n in ("n_clusters", "epsilon", "classes", "clip")
                           if n in parameters and n != name)  # fmt: skip
        (tmp_path / "x.csv").write_text("x\n1\n")
        text = f'[data]\nfile = "x.csv"\n[study]\nestimator = "{kind}"\n{line}\n{needed}\n'
        (tmp_path / "study.toml").write_text(text)
        found = fitting.read_study(tmp_path / "study.toml")[0].get_params(deep=False)[name]
        assert found == ({"x": [0, 1]} if name == "bounds" else 3)


def test_bounds_that_nobody_knows_and_k_that_is_chosen(study):
    text = STUDY.replace('"bounds.csv"', '"private"').replace(
        "n_clusters = 2", 'n_clusters = "auto"'
    )
    (study / "study.toml").write_text(text)
    assert fitting.run(study / "study.toml") == 0
    model = load(study / "results" / "model.json")
    assert (
        model.n_clusters == "auto" and model.statement().facts["bounds_from"] == "found privately"
    )
    assert len(pd.read_csv(study / "results" / "centers.csv")) == len(model.cluster_centers_)


def test_labels_are_written_beside_the_rows_and_replace_nothing(study, capsys):
    assert fitting.run(study / "study.toml") == 0
    rows, found = study / "a.csv", study / "labels.csv"
    text = rows.read_text().splitlines()
    rows.write_text(
        "\n".join([text[0], "", *text[1:]])
    )  # an empty line moves the lines, not labels
    line = ["predict", str(study / "results" / "model.json"), str(rows)]
    assert command.main(line) == 0 and "keep it where the rows are" in capsys.readouterr().out
    labels = pd.read_csv(found)
    model = load(study / "results" / "model.json")
    np.testing.assert_array_equal(labels["cluster"], model.predict(pd.read_csv(rows)))
    np.testing.assert_array_equal(labels["line"], np.arange(len(text) - 1) + 3)
    assert found.stat().st_mode & 0o777 == 0o600
    before = found.read_bytes()
    assert command.main(line) == 3 and "labels.csv: it is there already" in capsys.readouterr().err
    assert found.read_bytes() == before


def test_models_from_the_command(study):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (2000, 1))
    table = pd.DataFrame({"x": X[:, 0], "who": np.arange(2000) % 100})
    table["class"] = np.where((table.x > 0.5) ^ (table.who % 2 == 0), "high", "low")
    table.to_csv(study / "models.csv", index=False)
    (study / "study.toml").write_text("""
[data]
file = "models.csv"
clients = "who"
labels = "class"
[study]
estimator = "RRCluster"
n_clusters = 2
epsilon = 8.0
lower = {x = 0}
upper = {x = 1}
classes = ["low", "high"]
n_rounds = 3
mode = "teaching"
seed = 1
""")
    assert fitting.run(study / "study.toml") == 0
    assert pd.read_csv(study / "results" / "centers.csv").shape == (2, 4)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("n_clusters = 2", "n_clusters = ", "study.toml is no TOML file"),
        ("[data]", "[date]", "sections are data, study, ledger and output, not 'date'"),
        ("clients", "client", "[data] has no 'client'"),
        ('clients = "clinic"', 'clients = "town"', "clients must be one id"),
        ("visits.csv", "none.csv", "none.csv: there is no such file"),
        ("epsilon = 2.0", "epsilon = -1", "epsilon must be"),
        ("epsilon = 2.0", "epsilom = 2.0", "[study] has no 'epsilom' (perhaps epsilon)"),
        ("epsilon = 2.0", "epsilon = 2.0\nn_init = 3", "n_init"),
        ("epsilon = 2.0", "epsilon = 2.0\nledger = 1", "ledger is no setting"),
        ("[study]", '[study]\nestimator = "KMeans"', "estimator must be one of"),
        ("file =", "files =", "[data] files must be a list of paths"),
        ('file = "visits.csv"', 'files = ["a.csv", "a.csv"]', "must name every file once"),
        ('file = "visits.csv"', 'files = {a = "a.csv", b = "./a.csv"}', "every file once"),
        ("[data]", "[output]\nfolder = 3\n[data]", "folder must be text"),
        ('clients = "clinic"', "clients = 3", "clients must be text"),
        ("[study]", '[study]\nestimator = ["KMeans"]', "estimator must be one of"),
        ("[study]", 'labels = "class"\n[study]', "labels are for RRCluster only"),
        (
            "[study]",
            'server = "a.csv"\n[study]\nestimator = "RRCluster"',
            "server is for PrivateKMeans",
        ),
        ('file = "visits.csv"\n', "", "[data] must have either file or files"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(study, capsys, old, new, says):
    assert old in STUDY
    (study / "study.toml").write_text(STUDY.replace(old, new, 1))
    assert command.main(["fit", "--config", str(study / "study.toml")]) == 3
    told = capsys.readouterr()
    assert says in told.err and told.err.startswith("fedclust: ")
    assert told.err.count("\n") == 1 and "Traceback" not in told.err and not told.out
    assert not (study / "results").exists()


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [("save", OSError("full"), "full"), ("_keep", KeyboardInterrupt(), "stopped")],
)
def test_a_run_that_fails_halfway_leaves_a_trace(study, capsys, monkeypatch, step, error, says):
    """By its exit code, and in the folder: whoever repeats the command is told what was spent."""
    monkeypatch.setattr(PrivateKMeans, step, lambda *a, **k: (_ for _ in ()).throw(error))
    assert fitting.run(study / "study.toml") == 4
    assert capsys.readouterr().err == f"fedclust: {says}\n"
    trace = json.loads((study / "results" / "model.json").read_text("utf-8"))
    assert trace["format"] == "a run that did not end: count it as spent"
    assert trace["planned"]["epsilon"] == 2.0
    with pytest.raises(ValueError, match="path must be a file that `save` wrote"):
        load(study / "results" / "model.json")
    monkeypatch.undo()
    assert fitting.run(study / "study.toml") == 3
    assert "or a run that did not end" in capsys.readouterr().err


def test_two_runs_at_once_do_not_both_spend(study, capsys, monkeypatch):
    fit, codes = PrivateKMeans.fit, []

    def meanwhile(self, *args, **kwargs):
        codes.append(fitting.run(study / "study.toml"))
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(PrivateKMeans, "fit", meanwhile)
    assert fitting.run(study / "study.toml") == 0 and codes == [3]
    assert load(study / "results" / "model.json").statement().facts["charged"]["releases"]


def test_a_folder_that_cannot_be_written_to_costs_nothing(study, capsys, monkeypatch):
    monkeypatch.setattr(PrivateKMeans, "fit", None)
    (study / "results").write_text("a file")
    assert fitting.run(study / "study.toml") == 3
    assert capsys.readouterr().err == "fedclust: results cannot be written to: File exists\n"


def test_ids_and_classes_in_words_are_read_as_text(study):
    """01 is not 1, and a clinic may be called NA; an id that is missing is refused."""
    table = pd.read_csv(study / "visits.csv")
    wanted = fitting.read_study(study / "study.toml")[0].preview(table, clients="clinic").facts
    names = table.clinic.map({"a": "01", "b": "1", "c": "NA"})
    table.assign(clinic=names).to_csv(study / "visits.csv", index=False)
    estimator, (X, y, clients), _ = fitting.read_study(study / "study.toml")
    assert estimator.preview(X, clients=clients).facts == wanted and set(X["clinic"]) == set(names)
    table.assign(clinic=names.where(names.index != 3)).to_csv(study / "visits.csv", index=False)
    assert fitting.run(study / "study.toml") == 3
    words = '[study]\nestimator = "RRCluster"\nclasses = ["0", "NA"]'
    of_models = STUDY.replace("[study]", f'labels = "class"\n{words}')
    (study / "study.toml").write_text(of_models)
    classes = np.where(np.arange(len(table)) % 2, "NA", "0")
    table.assign(clinic=names, **{"class": classes}).to_csv(study / "visits.csv", index=False)
    estimator, (X, y, clients), _ = fitting.read_study(study / "study.toml")
    assert estimator.preview(X, y, clients=clients).facts["n_clients"] == 3


def test_marks_of_other_systems_do_no_harm(study):
    """Windows line ends, a byte order mark, a comma at the end of each row, a column called NA."""
    plain = fitting.read_study(study / "study.toml")[1][0]
    for name in ("visits.csv", "bounds.csv", "study.toml"):
        text = (study / name).read_text("utf-8").replace("dose", "NA")
        if name == "visits.csv":
            first, *rows = text.splitlines()
            text = "\n".join([first, *(f"{row}," for row in rows)])
        (study / name).write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    estimator, (X, _, clients), _ = fitting.read_study(study / "study.toml")
    assert X.column_names == ["age", "NA", "clinic"] and (X.cells == plain.cells).all()
    assert estimator.preview(X, clients=clients).facts["columns"] == ["age", "NA"]


def test_a_rehearsal_on_the_private_file_is_refused_under_any_name(study, capsys):
    """It would print their exact cost: the same path, a link to it, a copy, its rows shuffled."""
    private = study / "visits.csv"
    (study / "link.csv").symlink_to(private)
    (study / "hard.csv").hardlink_to(private)
    header, *rows = private.read_text().splitlines()
    more = ["40.5,0.25,a"] * 99
    other = ("{} , {}e0,{}".format(*row.split(",")) for row in rows)  # written otherwise
    for name, lines in (
        ("copy", rows), ("shuffled", rows[::-1]), ("one more", [*rows, more[0]]),
        ("many more", [*more, *rows]), ("one less", rows[1:]), ("other", other),
    ):  # fmt: skip
        text = "\r\n".join([header, *lines])
        (study / f"{name}.csv").write_text(text, encoding="utf-8-sig", newline="")
    table = pd.read_csv(private)
    table[table.columns[:0:-1]].to_csv(study / "moved.csv", index=False)  # and one is away
    names = "visits", "link", "hard", "copy", "shuffled", "one more", "many more", "one less"
    for name in (*names, "other", "moved"):
        assert fitting.run(study / "study.toml", rehearse=study / f"{name}.csv") == 3
        told = capsys.readouterr()
        assert f"{name}.csv holds private rows of [data]" in told.err and not told.out
    one = STUDY.replace('file = "visits.csv"\nclients = "clinic"', "files = {%s}")
    (study / "study.toml").write_text(one % ", ".join(f'{n} = "{n}.csv"' for n in "abc"))
    for name in ("b", "copy"):  # a client's file, and the rows of all clients
        assert fitting.run(study / "study.toml", rehearse=study / f"{name}.csv") == 3
        assert "holds private rows" in capsys.readouterr().err


def test_a_rehearsal_reads_no_private_row_and_writes_nothing(study, capsys):
    public = study / "public.csv"
    pd.read_csv(study / "visits.csv")[:100].to_csv(public, index=False)
    (study / "visits.csv").unlink()
    assert fitting.run(study / "study.toml", rehearse=public) == 0
    out = capsys.readouterr().out
    assert "as planned" in out and "too_few_rows" in out and not (study / "results").exists()


def test_names_that_a_terminal_cannot_write_cost_no_run(study, monkeypatch):
    for name in ("visits.csv", "bounds.csv"):
        text = (study / name).read_text("utf-8").replace("dose", "größe")
        (study / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, out, err = fedclust(study, "fit", "--config", "study.toml")
    assert (code, err) == (0, "") and "gr\\xf6\\xdfe" in out and "written: model.json" in out


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("age,dose,clinic", "age,age,clinic", "visits.csv, line 1: column 2 has the name of one"),
        (",", ";", "visits.csv, line 1: columns are separated by ';': separate them by commas"),
        ("\n", "\n7,", "visits.csv, line 2: 4 values below 3 names"),  # numbers of rows, unnamed
    ],
)
def test_files_that_would_be_misread_are_refused(study, capsys, old, new, says):
    text = (study / "visits.csv").read_text("utf-8").strip()
    (study / "visits.csv").write_text(text.replace(old, new))
    assert fitting.run(study / "study.toml") == 3
    assert capsys.readouterr().err.startswith(f"fedclust: {says}")


def test_wrong_arguments_end_with_two(study):
    code, _, err = fedclust(study, "fit")
    assert code == 2 and "--config" in err and "Traceback" not in err


def test_the_command_is_declared(root):
    scripts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"fedclust": "fedclust.command:main"}


def test_a_budget_over_the_years_is_kept_beside_the_rows(study, capsys):
    """The fit that would exceed it is refused, and leaves neither charge nor trace."""

    def year(number):
        text = f'{STUDY}[ledger]\nfile = "rows.journal"\nepsilon = 4.5\ndelta = 1e-3\n'
        (study / "study.toml").write_text(f'{text}[output]\nfolder = "year{number}"\n')
        return fitting.run(study / "study.toml")

    assert (year(1), year(2)) == (0, 0)
    assert "by all fits on its ledger" in capsys.readouterr().out
    kept = (study / "rows.journal").read_bytes()
    assert year(3) == 3 and "would exceed the budget" in capsys.readouterr().err
    assert (study / "rows.journal").read_bytes() == kept
    assert not (study / "year3" / "model.json").exists()
    (study / "study.toml").write_text(f'{STUDY}[ledger]\nfile = "rows.journal"\n')
    assert fitting.run(study / "study.toml") == 3
    assert "[ledger] must have delta" in capsys.readouterr().err
