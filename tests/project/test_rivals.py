"""`make rivals`: what talks to other environments, and the committed tables; no rival is needed."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import refuses

import studies
from studies.bench import versions
from studies.bench.runner import as_csv
from tools.rivals import __main__ as command
from tools.rivals import environments, tables
from tools.rivals.environments import Process, Rival, RivalUnavailableError

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"
ECHO = """
import json, sys
print(json.dumps({"version": "7"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["ask"] == "die":
        sys.exit(3)
    print(json.dumps({"sum": sum(asked["numbers"])}), flush=True)
"""


@pytest.fixture
def echo(tmp_path: Path) -> Process:
    """A rival that adds up numbers, in an environment that is there already."""
    home = tmp_path / "environments" / "echo" / "bin"
    home.mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    (home.parent / "installed").touch()
    worker = tmp_path / "worker.py"
    worker.write_text(ECHO)
    return Process(Rival("echo", (), str(worker)), tmp_path / "environments")


def test_a_rival_answers_from_an_environment_of_its_own(echo: Process) -> None:
    assert echo.ask("add", numbers=[1, 2]) == {"sum": 3}
    assert echo.ask("add", numbers=[5]) == {"sum": 5} and echo.version == "7"
    refuses(RivalUnavailableError, "echo stopped without an answer", echo.ask, "die")
    echo.stop()


@pytest.mark.parametrize(
    ("name", "words"),
    [("google_lsh", "holds clustering/clustering_algorithm.py in GOOGLE_DP"),
     ("dpm", "holds dpm.py in DPM_CLUSTERING")],
)  # fmt: skip
def test_what_no_index_carries_is_named_by_a_folder(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rival = environments.RIVALS[name]
    assert rival.folder is not None
    for value in ("", str(tmp_path)):
        monkeypatch.setenv(rival.folder.variable, value)
        with pytest.raises(RivalUnavailableError, match=f"name the folder that {words}"):
            environments.folder_of(rival)
    held = tmp_path / rival.folder.holds
    held.parent.mkdir(exist_ok=True)
    held.touch()
    assert environments.folder_of(rival) == [str(tmp_path.resolve())]
    assert environments.folder_of(environments.RIVALS["diffprivlib"]) == []


def test_workers_import_nothing_of_ours() -> None:
    for rival in environments.RIVALS.values():
        text = (environments.HERE / rival.worker).read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) (fedclust|tools)", text, re.M)


def test_rows_of_one_method_replace_their_old_ones() -> None:
    names = ("diffprivlib", "fastlloyd")
    rows = [(data, m, e, 1.0) for data in ("wine", "iris") for m in names for e in (0.5, 1.0)]
    old = pd.DataFrame(rows, columns=["dataset", "method", "epsilon", "nicv_mean"])
    new = old[old["method"] == "fastlloyd"].assign(nicv_mean=2.0)
    both = command.replaced(old, new)
    pd.testing.assert_frame_equal(both.iloc[:, :3], old.iloc[:, :3])
    assert both.groupby("method")["nicv_mean"].mean().to_dict() == {
        "diffprivlib": 1.0, "fastlloyd": 2.0
    }  # fmt: skip
    refuses(ValueError, "", command.replaced, old, new[:1])


@pytest.mark.parametrize("name", tables.TABLES)
def test_committed_rows_are_those_of_the_design(name: str) -> None:
    table = tables.TABLES[name]
    stored = pd.read_csv(RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)
    assert list(stored) == table.headers[name]
    made = [cell.columns for cell in table.cells(table.design)]
    settings = [column for column in stored if column in made[0]]
    ours = pd.read_csv(
        io.StringIO(as_csv(pd.DataFrame(made)[settings])), dtype=str, keep_default_na=False
    )
    pd.testing.assert_frame_equal(ours, stored[settings])
    told = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert told["command"] == "python -m tools.rivals"
    cells = table.cells(table.design)
    assert told["cells"] == told["files"][f"{name}.csv"] == len(cells) == len(stored)
    if name == "rivals":
        assert told["design_fingerprint"] == versions.design_fingerprint(cells)
    for rival in told["rivals"].values():
        assert rival["version"] and rival["python_packages"]


def test_versions_are_those_that_are_asked_for() -> None:
    told = json.loads((RESULTS / "rivals.json").read_text(encoding="utf-8"))["rivals"]
    for name in told:
        for wanted in environments.RIVALS[name].requirements:
            package, _, number = wanted.partition("==")
            if number:
                assert told[name]["python_packages"][package] == number
    rows = pd.read_csv(RESULTS / "rivals.csv", dtype=str)
    versions = rows.drop_duplicates("method").set_index("method")["version"]
    assert versions["diffprivlib"] == "0.6.6"
    assert versions["google_lsh"] in environments.COMMITS.values()


def test_the_record_of_rows_made_apart_stands_beside_the_first() -> None:
    told = json.loads((RESULTS / "rivals.json").read_text(encoding="utf-8"))
    again = told | {"design": told["design"] | {"methods": ["fastlloyd"]}, "cpu_seconds": 1.5}
    both = command.merged(told | {"made_apart": {"sulloyd": {}}}, again)
    assert both["made_apart"]["fastlloyd"]["cpu_seconds"] == 1.5
    assert set(both.pop("made_apart")) == {"sulloyd", "fastlloyd"}
    assert both == told


@pytest.mark.parametrize("method", ["fastlloyd", "sulloyd", "pe_means"])
def test_our_rows_are_remade(method: str) -> None:
    """Within their intervals: digits depend on the processor."""
    wanted = {"dataset": "iris", "method": method, "epsilon": "1"}
    (made,) = studies.remake(tables.TABLES["rivals"], wanted, RESULTS)
    assert not made.beyond
    assert (made.stored["trust"] == tables.METHODS[method].trust).all() and len(made.names) == 1
