"""Runs the cells of a table in parallel, keeps what is done, and writes the finished files.

Every finished cell is appended to ``<table>.partial.csv``. A later run with the same design goes on
from there; the partial file is removed when the table is complete. Each cell has a seed of its own,
so the result depends neither on the number of processes nor on interruptions.
"""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tqdm import tqdm

from fedclust_helpers._validation import check_choice
from fedclust_helpers.experiments.cells import Cell
from fedclust_helpers.experiments.tables import TABLES, Design, Table, cell_row

FLOAT_FORMAT = "%.6g"


def run_table(
    name: str,
    folder: Path,
    *,
    design: Design | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> list[Path]:
    """Make one result table under `folder`; returns the files written.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    folder : Path
        Created if absent. Must hold the tables that this one builds on.
    design : Design, optional
        The committed design if not given.
    n_jobs : int
        Processes, as in joblib.
    progress : bool
        Show a progress bar.

    Raises
    ------
    ValueError
        If there is no such table.
    FileNotFoundError
        If a table that this one builds on is missing.
    """
    table = TABLES[check_choice(name, "name", tuple(TABLES))]
    design = Design() if design is None else design
    folder.mkdir(parents=True, exist_ok=True)
    for needed in table.needs:
        if not (folder / f"{needed}.csv").exists():
            raise FileNotFoundError(f"{name} builds on {needed}.csv: make the table {needed} first")
    cells = table.cells(design)
    partial = folder / f"{name}.partial.csv"
    done = read_partial(partial)
    todo = [cell for cell in cells if cell.key not in done]
    jobs = Parallel(n_jobs=1 if table.sequential else n_jobs, return_as="generator_unordered")
    finished = jobs(delayed(_measure)(table, cell) for cell in todo)
    bar = tqdm(
        finished, name, total=len(cells), initial=len(cells) - len(todo), disable=not progress
    )
    with partial.open("a", newline="") as stream:
        for row in bar:
            done[row["key"]] = row
            stream.write(_line(row))  # one write, so that an interruption tears one line at most
            stream.flush()
    rows = [cell_row(cell) | _numbers(done[cell.key]) for cell in cells]
    frame = pd.DataFrame(rows).drop(columns="cpu_seconds")
    written = []
    for stem, result in table.finish(frame, folder).items():
        path = folder / f"{stem}.csv"
        result.to_csv(path, index=False, float_format=FLOAT_FORMAT, lineterminator="\n")
        written.append(path)
    if progress:
        print(f"{name}: {sum(row['cpu_seconds'] for row in rows):.0f} CPU seconds")
    partial.unlink()
    return written


def _measure(table: Table, cell: Cell) -> dict[str, Any]:
    start = time.process_time()
    with threadpool_limits(1):
        values = table.measure(cell)
    return {"key": cell.key, **values, "cpu_seconds": time.process_time() - start}


def _line(row: dict[str, Any]) -> str:
    """A row as ``key,name=value,...``: cells of different tables have different columns."""
    stream = io.StringIO()
    fields = [row["key"]] + [f"{k}={float(v)!r}" for k, v in row.items() if k != "key"]
    csv.writer(stream, lineterminator="\n").writerow(fields)
    return stream.getvalue()


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name != "key"}


def read_partial(path: Path) -> dict[str, dict[str, Any]]:
    """Finished cells of an interrupted table; a torn last line is cut off the file."""
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    out = {}
    for key, *fields in csv.reader(io.StringIO(whole)):
        pairs = (field.split("=") for field in fields)
        out[key] = {"key": key} | {name: float(value) for name, value in pairs}
    return out


def results_folder() -> Path:
    """The folder data/results, looked for upward from the working folder and from this package.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "data" / "results").is_dir():
                return folder / "data" / "results"
    raise FileNotFoundError(
        "no folder data/results above the working folder or the package: run inside a checkout of"
        " the repository, or make the tables with `make results`"
    )


def load_results(table: str) -> pd.DataFrame:
    """A committed result table, for example ``load_results("fastlloyd_nicv")``.

    Raises
    ------
    FileNotFoundError
        If the folder or the table is missing; the message lists the tables there are.
    """
    folder = results_folder()
    path = folder / f"{table}.csv"
    if not path.exists():
        there = [finished.stem for finished in _finished(folder)]
        raise FileNotFoundError(
            f"no result table {table!r}; there are: {', '.join(there) or 'none'}."
            " `make results` makes them"
        )
    return pd.read_csv(path)


def load_all_results() -> dict[str, pd.DataFrame]:
    """All committed result tables by name."""
    return {path.stem: load_results(path.stem) for path in _finished(results_folder())}


def _finished(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.csv") if not p.name.endswith(".partial.csv"))
