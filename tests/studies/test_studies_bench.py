"""The bench under the result tables: cells, partial files, provenance, single rows."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import refuses

import studies
from studies import TABLES, PartialTableError, run_table
from studies import __main__ as command
from studies.bench import results, runner, versions
from studies.bench.cell import (
    Cell,
    Design,
    Numbers,
    Table,
    grouped,
    melted,
    seed_of,
    sorted_by,
)
from studies.bench.rows import remake, spread

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"


def value(cell: Cell, *, x: int) -> Numbers:
    return {"mean": x + 1 / 3, "median": float("nan") if x == 2 else -x, "ci95": 0.1 * x}


def toy(measure: Callable[..., Numbers] = value, rows: Any = range(6), **options: Any) -> Table:
    """Six cells with x = 0..5, three runs each."""

    def settings(design: Design) -> list[dict[str, Any]]:
        return [{"x": x, "runs": design.repeated(3)} for x in rows]

    return Table("toy", settings, measure, "x,runs,mean,median,ci95", seed="d{x}/m", **options)


def stopping(at: int, seen: list[int]) -> Table:
    def measure(cell: Cell, *, x: int) -> Numbers:
        if x == at:
            raise KeyboardInterrupt
        seen.append(x)
        return value(cell, x=x)

    return toy(measure)


# --- partial tables: nothing wrong is ever taken over ---------------------------------------------


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Path, bytes]:
    """A partial toy table with four of six cells, and the bytes of the finished one."""
    run_table(toy(), tmp_path)
    wanted = (tmp_path / "toy.csv").read_bytes()
    for name in ("toy.csv", "toy.json"):
        (tmp_path / name).unlink()
    refuses(KeyboardInterrupt, "", run_table, stopping(4, []), tmp_path)
    (path,) = tmp_path.glob("toy.*.partial.jsonl")
    assert len(path.read_bytes().splitlines()) == 4 and not (tmp_path / "toy.csv").exists()
    return path, wanted


def finished(path: Path) -> tuple[bytes, list[int]]:
    """The bytes of the table made from a partial file, and the cells that were measured for it."""
    seen: list[int] = []
    run_table(stopping(99, seen), path.parent)
    assert not path.exists()
    return (path.parent / "toy.csv").read_bytes(), seen


@pytest.mark.parametrize("torn", [0, 1, 30])
def test_an_interrupted_run_is_resumed_and_a_torn_line_is_measured_again(begun, torn):
    path, wanted = begun
    path.write_bytes(path.read_bytes()[: -torn or None])
    made, seen = finished(path)
    assert made == wanted and seen == ([3, 4, 5] if torn else [4, 5])


def test_cells_with_another_name_or_other_runs_are_measured(begun):
    path, _ = begun
    for other in (toy(rows=range(5)), toy(design=Design(runs=9)), replace(toy(), seed="{x}")):
        run_table(other, path.parent)
        run_table(other, path.parent / "alone")
        (made, alone) = ((f / "toy.csv").read_bytes() for f in (path.parent, path.parent / "alone"))
        assert made == alone


def test_a_partial_file_of_another_version_is_left_alone(begun, monkeypatch):
    path, wanted = begun
    before = path.read_bytes()
    monkeypatch.setattr(runner, "code_version", lambda: "another")
    run_table(toy(), path.parent)
    assert (path.parent / "toy.csv").read_bytes() == wanted and path.read_bytes() == before


def test_the_version_knows_every_file_of_the_package_and_the_libraries(tmp_path, monkeypatch):
    deep = tmp_path / "studies" / "deep"
    (deep / "er").mkdir(parents=True)
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "studies" / "bench" / "versions.py"))
    version = versions.code_version.__wrapped__
    seen = [version()]
    for text in ("a = 1\n", "a = 2\n"):
        (deep / "er" / "module.py").write_text(text)
        seen.append(version())
    (deep / "er" / "module.py").rename(deep / "module.py")
    seen.append(version())
    monkeypatch.setattr(versions, "versions", lambda: {"numpy": "0.1"})
    assert len({*seen, version()}) == 5
    monkeypatch.undo()
    root = Path(versions.__file__).resolve().parents[2]
    assert (root / "fedclust_helpers" / "kmeans.py").exists()


def test_a_killed_worker_ends_the_run_and_loses_no_finished_cell(tmp_path: Path) -> None:
    flag = tmp_path / "flag"

    def dies(cell: Cell, *, x: int) -> Numbers:
        if x == 5 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value(cell, x=x)

    with pytest.raises(PartialTableError, match="killed while it measured toy: is there too"):
        run_table(toy(dies), tmp_path, n_jobs=2)
    assert not (tmp_path / "toy.csv").exists()
    run_table(toy(dies), tmp_path, n_jobs=2)
    run_table(toy(), tmp_path / "alone")
    assert (tmp_path / "toy.csv").read_bytes() == (tmp_path / "alone" / "toy.csv").read_bytes()


def test_cells_run_where_joblib_is_told_to_and_sequential_ones_here(tmp_path):
    def where(cell: Cell, *, x: int) -> Numbers:
        return {"mean": float(threading.get_ident() == here), "median": 0.0, "ci95": 0.0}

    here = threading.get_ident()

    for sequential in (False, True):
        with joblib.parallel_config("threading"):
            run_table(toy(where, sequential=sequential), tmp_path, n_jobs=2)
        found = set(pd.read_csv(tmp_path / "toy.csv")["mean"])
        assert found == {float(sequential)}


def test_finished_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    def torn(frame: pd.DataFrame) -> str:
        if "second" in frame:
            raise OSError("disk full")
        return "x\n"

    for name in ("toy.csv", "second.csv"):
        (tmp_path / name).write_text("old\n")
    monkeypatch.setattr(runner, "as_csv", torn)
    table = replace(
        toy(), columns={"toy": "x", "second": "x,second"},
        finish=lambda frame, folder: {"toy": frame, "second": frame.assign(second=1)},
    )  # fmt: skip
    refuses(OSError, "disk full", run_table, table, tmp_path)
    assert (tmp_path / "toy.csv").read_text() == (tmp_path / "second.csv").read_text() == "old\n"
    (kept,) = tmp_path.glob("toy.*.partial.jsonl")
    assert len(kept.read_bytes().splitlines()) == 6


# --- provenance -----------------------------------------------------------------------------------


def test_a_table_says_how_it_was_made(tmp_path: Path) -> None:
    table = toy(design=Design(), quick=Design(runs=2))
    run_table(table, tmp_path, design=Design(runs=2))
    found = json.loads((tmp_path / "toy.json").read_text())
    assert found["files"] == {"toy.csv": 6} and found["cells"] == 6
    assert found["design"] == {"runs": 2} and found["command"].endswith("--table toy --runs 2")
    assert set(found["versions"]) >= {"python", "numpy", "scipy", "fedclust_helpers"}
    assert found["versions"]["numpy"] == np.__version__
    assert found["code_fingerprint"] == versions.code_version() and "SHA-256" in found["seeds"]
    assert found["cpu_seconds"] >= 0 and str(tmp_path) not in str(found)
    assert found["design_fingerprint"] == versions.design_fingerprint(table.cells(Design(runs=2)))
    run_table(table, tmp_path, design=table.quick)
    assert "--design quick" in json.loads((tmp_path / "toy.json").read_text())["command"]


@pytest.mark.parametrize("name", TABLES)
def test_every_committed_table_has_its_provenance(name: str) -> None:
    found, table = studies.load_provenance(name), TABLES[name]
    assert set(found["files"]) == {f"{stem}.csv" for stem in table.headers}
    for file, rows in found["files"].items():
        assert len(pd.read_csv(RESULTS / file)) == rows
    assert found["cells"] == len(table.cells(table.design))
    assert found["design_fingerprint"] == versions.design_fingerprint(table.cells(table.design))
    assert found["command"] == f"python -m studies --table {name}"
    wanted = {"seeds", "versions", "commit", "cpu_seconds", "design", "code_fingerprint"}
    assert wanted <= set(found)


# --- single rows ----------------------------------------------------------------------------------


def test_rows_are_measured_again_and_compared(tmp_path: Path) -> None:
    seen: list[int] = []
    run_table(toy(), tmp_path)
    (same,) = remake(stopping(99, seen), {"x": "3"}, tmp_path)
    assert seen == [3] and not same.differences
    assert same.stored["mean"].to_list() == same.recomputed["mean"].to_list() == ["3.33333"]
    text = (tmp_path / "toy.csv").read_text()
    (tmp_path / "toy.csv").write_text(text.replace("3.33333", "3.33334"))
    (other,) = remake(toy(), {"x": "3.0"}, tmp_path)
    assert other.differences == ["x=3 runs=3: mean 3.33334, 3.33333"] and not other.beyond
    (tmp_path / "toy.csv").write_text(text.replace("3.33333", "9.33333"))
    (far,) = remake(toy(), {"x": "3"}, tmp_path)
    assert far.beyond == far.differences == ["x=3 runs=3: mean 9.33333, 3.33333"]


@pytest.mark.parametrize("n_each", [1, 3, 100])
@pytest.mark.parametrize("name", ["rr_accuracy", "ldp_cost", "fastlloyd_nicv", "ldp_bitstogram"])
def test_a_draw_of_rows_holds_every_word_among_the_settings(name: str, n_each: int) -> None:
    table = TABLES[name]
    every = [
        {k: str(v) for k, v in c.columns.items() if k != "seed"} for c in table.cells(table.design)
    ]
    drawn = spread(table, rng=np.random.default_rng(1), n_each=n_each)
    assert spread(table, rng=np.random.default_rng(1), n_each=n_each) == drawn
    assert len(drawn) >= min(n_each, len({tuple(row.items()) for row in every}))
    assert len({tuple(row.items()) for row in drawn}) == len(drawn)
    for key, value in {(k, v) for row in every for k, v in row.items() if not v[:1].isdigit()}:
        there = {tuple(row.items()) for row in every if row.get(key) == value}
        assert sum(row.get(key) == value for row in drawn) >= min(n_each, len(there)), (key, value)


def test_rows_bring_what_they_are_compared_with(tmp_path: Path) -> None:
    """A column relative to another row needs that row, and no more."""
    seen: list[tuple[str, str]] = []

    def measure(cell: Cell, *, data: str, method: str) -> Numbers:
        seen.append((data, method))
        return {"cost": {"a": 1.0, "b": 4.0}[method] + len(data)}

    def relative(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
        base = frame[frame["method"] == "a"].set_index("data")["cost"]
        return frame.assign(ratio=frame["cost"] / frame["data"].map(base).to_numpy())

    def settings(design: Design) -> list[dict[str, str]]:
        return [{"data": d, "method": m} for d in ("x", "yy") for m in ("a", "b")]

    table = Table("toy", settings, measure, "data,method,cost,ratio", relative,
                  beside={"method": "a"}, paired=("data",))  # fmt: skip
    run_table(table, tmp_path)
    seen.clear()
    (made,) = remake(table, {"data": "yy", "method": "b"}, tmp_path)
    assert sorted(seen) == [("yy", "a"), ("yy", "b")]
    assert len(made.names) == 1 and not made.differences and made.stored["ratio"].item() == "2"


# --- the command line -----------------------------------------------------------------------------


def test_command_line_ends_with_a_sentence(tmp_path, capsys):
    arguments = ["--design", "quick", "--out", str(tmp_path), "--jobs", "1"]
    with pytest.raises(SystemExit) as caught:
        command.main([*arguments, "--table", "fastlloyd_scaling"])
    assert caught.value.code == 1 and "make the tab" in capsys.readouterr().err


def test_command_line_checks_rows_drawn_at_random(tmp_path, capsys):
    run_table(TABLES["rr_flips"], tmp_path, design=TABLES["rr_flips"].quick)
    arguments = ["--design", "quick", "--out", str(tmp_path), "--table", "rr_flips"]
    arguments += ["--check", "1", "--draw", "3", "--jobs", "1"]
    command.main(arguments)
    assert re.fullmatch(
        r"rr_flips: [1-9]\d* rows, 0 .* beyond their interval\n", capsys.readouterr().out
    )
    path = tmp_path / "rr_flips.csv"
    table = pd.read_csv(path, dtype=str)
    table.assign(**{table.columns[-1]: "0.123"}).to_csv(path, index=False)
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2 and " 0.123, " in capsys.readouterr().out


@pytest.mark.parametrize("again", [[], ["--row"]])
def test_command_line_shows_rows(again: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--table", "ldp_lsh", "--row", "kind=closed form", "t=4", *again, "distance=2"])
    printed = capsys.readouterr().out
    assert "ldp_lsh.csv: 1 rows" in printed
    assert "probability" in printed and "all digits agree" in printed and "DIFFERS" not in printed


@pytest.mark.parametrize(
    "arguments",
    [["--design", "quick"], ["--runs", "1"], ["--table", "other"], ["--runs", "1000000000000"],
     ["--check", "0"], ["--check", "1", "--draw", "-1"],
     ["--jobs", "0"], ["--jobs", "1000000"], ["--row", "x=1"], ["--scheduler", "tcp://a:1"],
     ["--table", "ldp_lsh", "--row", "t"], ["--table", "ldp_lsh", "--row", "t=5"]],
)  # fmt: skip
def test_command_line_refuses_wrong_use(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code


def test_all_tables_leave_out_what_needs_an_extra(monkeypatch, tmp_path, capsys):
    made: list[str] = []

    def note(table: Table, *args: object, **kwargs: object) -> list[Path]:
        made.append(table.name)
        return []

    monkeypatch.setattr(command, "run_table", note)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    command.main(["--design", "quick", "--out", str(tmp_path)])
    assert made == [name for name in TABLES if name not in ("rr_torch", "summary_beside")]
    assert "left out rr_torch: torch is not installed" in capsys.readouterr().out
    command.main(["--design", "quick", "--out", str(tmp_path), "--table", "rr_torch"])
    assert made[-1] == "rr_torch"  # asked for by name: the error says what is missing


# --- cells, designs, and from cells to rows -------------------------------------------------------


def test_seeds_come_from_names() -> None:
    cell = Cell("t/x", {}, 3)
    assert cell.seed.entropy == seed_of("t/x").entropy != seed_of("t/y").entropy
    few, more = Cell("t/x", {}, 2).seeds(), cell.seeds()
    assert [s.generate_state(2).tolist() for s in few] == [
        s.generate_state(2).tolist() for s in more[:2]
    ]


def test_rows_are_grouped_sorted_and_melted() -> None:
    frame = pd.DataFrame({"m": ["b", "a", "b"], "v": [1.0, 5.0, 3.0], "k1": 7, "k20": 8, "k_x": 0})
    table = grouped(frame, ["m"], v=("v", "max"))
    assert table.to_dict("list") == {"m": ["b", "a"], "seeds": [2, 1], "v": [3.0, 5.0]}
    assert sorted_by(table, m=None)["m"].to_list() == ["a", "b"]
    assert sorted_by(table, m=("b", "a"))["m"].to_list() == ["b", "a"]
    long = melted(frame, "k", "k", "cost")
    assert long["k"].to_list() == [1] * 3 + [20] * 3 and "k_x" in long


# --- reading tables -------------------------------------------------------------------------------


def folder_of(path: Path, **files: str | bytes) -> Path:
    path.mkdir(parents=True)
    for name, content in files.items():
        text = content.encode() if isinstance(content, str) else content
        (path / f"{name}.csv").write_bytes(text)
    return path


def test_finished_tables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "results", one="a,b\n1,2\n")
    monkeypatch.setattr(results, "RESULTS", folder)
    assert studies.load_results("one").to_dict("list") == {"a": [1], "b": [2]}
    refuses(FileNotFoundError, "no result table 'two'; there are: one", studies.load_results, "two")
    refuses(FileNotFoundError, r"no one\.json beside", studies.load_provenance, "one")


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2,3\n1\n4,5,6,7,8\n", b"\xff\xfe\x00,\x80\n"])
def test_a_damaged_result_table_is_named(tmp_path, monkeypatch, content):
    monkeypatch.setattr(results, "RESULTS", folder_of(tmp_path / "results", one=content))
    refuses(ValueError, r"one\.csv is no table of results", studies.load_results, "one")
    for name in ("../one", "", "one.csv"):
        refuses(FileNotFoundError, "no result table", studies.load_results, name)
