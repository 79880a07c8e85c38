"""Runs the cells of a table in parallel, keeps what is done, and writes the finished files.

Each cell has a seed of its own, so the result depends neither on the number of processes nor on
interruptions. ``NAME.VERSION.partial.jsonl`` has a line for each cell that was measured with this
version of the code; the next run goes on there. Beside the files lies ``NAME.json``: how they were
made.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from fedclust_helpers._validation import check_int
from studies.bench.cell import Cell, Design, Files, Numbers, Table
from studies.bench.versions import OURS, code_version, design_fingerprint, versions

FLOAT_FORMAT = "%.6g"
SEEDS = "each cell: the first 16 bytes (little endian) of the SHA-256 of its name"
CPU = "cpu_seconds"


class PartialTableError(RuntimeError):
    """A table that cannot be gone on with: a worker has another version, or was killed."""


def run_table(
    table: Table,
    folder: str | os.PathLike[str],
    *,
    design: Design | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> list[Path]:
    """Make one result table under `folder`; returns its files, without the ``.json`` beside them.

    The finished files appear all at once, whole. An interrupted run is resumed by the next one.

    Parameters
    ----------
    table : Table
        One of `studies.TABLES`.
    folder : path
        Created if absent. Must hold the tables that this one builds on.
    design : Design, optional
        The committed design if not given.
    n_jobs : int
        As in joblib: -1 for all cores. Its backend is that of ``joblib.parallel_config``.
    progress : bool
        Show a progress bar.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind.
    FileNotFoundError
        If a table that this one builds on is missing.
    PartialTableError
        If a worker has another version of this package, or is killed.
    """
    if not isinstance(table, Table):
        raise TypeError(f"table must be one of studies.TABLES, got {type(table).__name__}")
    design = table.design if design is None else design
    if not isinstance(design, type(table.design)):
        wanted = type(table.design).__name__
        raise TypeError(f"design must be a {wanted}, got {type(design).__name__}")
    if check_int(n_jobs, "n_jobs", minimum=-joblib.cpu_count(), maximum=1024) == 0:
        raise ValueError("n_jobs must be at least 1, or -1 for all cores; got 0")
    folder = Path(folder)
    for needed in table.needs:
        if not (folder / f"{needed}.csv").exists():
            raise FileNotFoundError(
                f"{table.name} builds on {needed}.csv: make the table {needed} first"
            )
    folder.mkdir(parents=True, exist_ok=True)
    cells = table.cells(design)
    unfinished = folder / f"{table.name}.{code_version()}.partial.jsonl"
    done = _measure_all(table, cells, unfinished, n_jobs, progress)
    rows = [dict(done[cell.key]) for cell in cells]
    seconds = sum(row.pop(CPU) for row in rows)
    files = table.files(cells, rows, folder)
    written = _write(files, folder)
    made = provenance(table, design, cells, files, seconds)
    (folder / f"{table.name}.json").write_text(as_json(made), encoding="utf-8")
    if progress:
        print(f"{table.name}: {seconds:.0f} CPU seconds")
    unfinished.unlink()
    return written


def provenance(
    table: Table, design: Design, cells: Sequence[Cell], files: Files, seconds: float
) -> dict[str, Any]:
    """What lies beside a table: command, design, versions, commit, seeds, CPU time."""
    size = {id(table.design): "", id(table.quick): " --design quick"}.get(id(design))
    return {
        "table": table.name,
        "files": {f"{stem}.csv": len(frame) for stem, frame in files.items()},
        "command": f"python -m studies --table {table.name}"
        + (f" --runs {design.runs}" if size is None else size),
        "design": asdict(design),
        "design_fingerprint": design_fingerprint(cells),
        "cells": len(cells),
        "seeds": SEEDS,
        "versions": versions(),
        "code_fingerprint": code_version(),
        "commit": _commit(),
        "cpu_seconds": round(seconds, 1),
    }


def as_json(made: Mapping[str, Any]) -> str:
    """Provenance as it is written: a line for each entry."""
    entries = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in made.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _commit() -> str | None:
    """The commit of the checkout, "+" behind it where packages or studies are changed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    found: list[str] = []
    for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno", *OURS]):
        try:
            done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True)
        except OSError:  # no git
            return None
        if done.returncode:
            return None
        found.append(done.stdout.strip())
    return found[0] + ("+" if found[1] else "")


# --- measuring ------------------------------------------------------------------------------------


def _resumed(path: Path) -> dict[str, Numbers]:
    """The numbers of the cells in a partial file, by key; a torn last line is taken out of it."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("]\n")]
    path.write_text("".join(whole), "utf-8")
    return dict(map(json.loads, whole))


def _measure_all(
    table: Table, cells: Sequence[Cell], unfinished: Path, n_jobs: int, progress: bool
) -> dict[str, Numbers]:
    """Measure what is missing, and append each cell to the partial file when it is done."""
    done = _resumed(unfinished)
    todo = [cell for cell in cells if cell.key not in done]
    own = {"backend": "sequential"} if table.sequential else {"n_jobs": n_jobs}
    jobs = joblib.Parallel(return_as="generator_unordered", **own)
    one, version = joblib.delayed(measured), code_version()
    with (
        unfinished.open("a", encoding="utf-8", buffering=1) as stream,
        tqdm(
            total=len(cells), desc=table.name, initial=len(cells) - len(todo), disable=not progress
        ) as bar,
    ):
        try:
            for key, numbers in jobs(one(table, cell, version=version) for cell in todo):
                done[key] = numbers
                stream.write(json.dumps([key, {n: float(v) for n, v in numbers.items()}]) + "\n")
                bar.update()
        except BrokenExecutor as error:
            raise PartialTableError(
                f"a worker process was killed while it measured {table.name}: is there too little"
                " memory? Finished cells are kept: run it again, perhaps with fewer jobs"
            ) from error
    return done


def measured(table: Table, cell: Cell, *, version: str | None = None) -> tuple[str, Numbers]:
    """The key of a cell and its numbers, with its CPU seconds, on one thread.

    `PartialTableError` where the code is not of this `version`, if one is given.
    """
    if version not in (None, code_version()):
        raise PartialTableError(
            "a worker has another version of this package or of its libraries: install the same"
            " on every machine (finished cells are kept)"
        )
    start = time.process_time()
    with threadpool_limits(1):
        values = table.values(cell)
    return cell.key, values | {CPU: time.process_time() - start}


def as_csv(frame: Any) -> str:
    """A finished table as it is written."""
    text: str = frame.to_csv(index=False, float_format=FLOAT_FORMAT, lineterminator="\n")
    return text


def _write(files: Files, folder: Path) -> list[Path]:
    """All files of a table, each whole or not at all."""
    ready = []
    for stem, frame in files.items():
        temporary = folder / f"{stem}.csv.new"
        temporary.write_text(as_csv(frame), encoding="utf-8")
        ready.append((temporary, folder / f"{stem}.csv"))
    for temporary, path in ready:
        temporary.replace(path)
    return [path for _, path in ready]
