"""Runs the cells of a table in parallel, keeps what is done, and writes the finished files.

Every finished cell is appended to ``<table>.partial.csv``. Its first line names the table, the
design and the code; a later run with the same goes on from there, another one is refused. Every
line ends in a checksum, so that a torn or changed one is measured again. The file is locked while
a run works on it, and removed when the table is complete. Each cell has a seed of its own, so the
result depends neither on the number of processes nor on interruptions.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

import joblib
import numpy
import pandas as pd
import sklearn
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import BrokenProcessPool
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tqdm import tqdm

from fedclust_helpers._validation import check_choice
from fedclust_helpers.studies.fastlloyd.cells import Cell
from fedclust_helpers.studies.fastlloyd.tables import TABLES, Design, Table, cell_row

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: no lock)
    fcntl = None  # type: ignore[assignment]

FLOAT_FORMAT = "%.6g"
PATIENCE = 3
"""How often worker processes may be killed without one more finished cell."""
_HEADER = "# fedclust partial table"
_CHECKSUM = "crc32="


class PartialTableError(RuntimeError):
    """A partial table cannot be gone on with: in use, or of another design or code."""


def run_table(
    name: str,
    folder: str | os.PathLike[str],
    *,
    design: Design | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> list[Path]:
    """Make one result table under `folder`; returns the files written.

    Worker processes that are killed (for want of memory, say) are replaced; what they worked on is
    measured again. The finished files appear all at once, whole.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    folder : path
        Created if absent. Must hold the tables that this one builds on.
    design : Design, optional
        The committed design if not given.
    n_jobs : int
        Processes, as in joblib: -1 for all cores.
    progress : bool
        Show a progress bar.

    Raises
    ------
    TypeError, ValueError
        If there is no such table, or an argument is of the wrong kind.
    FileNotFoundError
        If a table that this one builds on is missing.
    PartialTableError
        If another run is making this table there, if the partial file is of another design or
        another version of the code, or if workers are killed again and again.
    """
    table = TABLES[check_choice(name, "name", tuple(TABLES))]
    if design is None:
        design = Design()
    if not isinstance(design, Design):
        raise TypeError(f"design must be a Design, got {type(design).__name__}")
    n_jobs = _check_jobs(n_jobs)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for needed in table.needs:
        if not (folder / f"{needed}.csv").exists():
            raise FileNotFoundError(f"{name} builds on {needed}.csv: make the table {needed} first")
    cells = table.cells(design)
    partial = folder / f"{name}.partial.csv"
    with _locked(partial) as stream:
        done = _resume(stream, partial, _header(name, cells))
        _measure_all(
            table, name, cells, done, stream, n_jobs=1 if table.sequential else n_jobs,
            progress=progress,
        )  # fmt: skip
        rows = [cell_row(cell) | _numbers(done[cell.key]) for cell in cells]
        frame = pd.DataFrame(rows).drop(columns="cpu_seconds")
        written = _write(table.finish(frame, folder), folder)
        if progress:
            print(f"{name}: {sum(row['cpu_seconds'] for row in rows):.0f} CPU seconds")
        partial.unlink()
    return written


def _check_jobs(n_jobs: Any) -> int:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int):
        raise TypeError(f"n_jobs must be an integer, got {type(n_jobs).__name__}")
    if n_jobs == 0 or n_jobs < -joblib.cpu_count() or n_jobs > 1024:
        raise ValueError(f"n_jobs must be between 1 and 1024, or -1 for all cores; got {n_jobs}")
    return n_jobs


# --- measuring ------------------------------------------------------------------------------------


def _measure_all(
    table: Table,
    name: str,
    cells: Sequence[Cell],
    done: dict[str, dict[str, Any]],
    stream: IO[bytes],
    *,
    n_jobs: int,
    progress: bool,
) -> None:
    """Measure what is missing in `done`, append it to the stream, and start killed workers anew."""
    killed = 0
    with tqdm(total=len(cells), desc=name, initial=len(done), disable=not progress) as bar:
        while todo := [cell for cell in cells if cell.key not in done]:
            jobs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
            try:
                for row in jobs(delayed(_measure)(table, cell) for cell in todo):
                    done[row["key"]] = row
                    stream.write(_line(row))  # one write: an interruption tears one line at most
                    stream.flush()
                    bar.update()
                    killed = 0
            except BrokenProcessPool as error:
                killed += 1
                if killed >= PATIENCE:
                    raise PartialTableError(
                        f"worker processes were killed {killed} times without finishing a cell of"
                        f" {name}: is there too little memory? Try fewer jobs; finished cells are"
                        " kept"
                    ) from error


def _measure(table: Table, cell: Cell) -> dict[str, Any]:
    start = time.process_time()
    with threadpool_limits(1):
        values = table.measure(cell)
    return {"key": cell.key, **values, "cpu_seconds": time.process_time() - start}


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name != "key"}


def _write(tables: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """All files of a table, each whole or not at all."""
    ready = []
    for stem, result in tables.items():
        temporary = folder / f"{stem}.csv.new"
        result.to_csv(temporary, index=False, float_format=FLOAT_FORMAT, lineterminator="\n")
        ready.append((temporary, folder / f"{stem}.csv"))
    for temporary, path in ready:
        temporary.replace(path)
    return [path for _, path in ready]


# --- the partial file -----------------------------------------------------------------------------


@cache
def code_version() -> str:
    """A digest of this package's source and of the libraries that the numbers depend on."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(f"numpy {numpy.__version__}, sklearn {sklearn.__version__}".encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _header(name: str, cells: Sequence[Cell]) -> bytes:
    design = hashlib.sha256("\n".join(cell.key for cell in cells).encode()).hexdigest()[:16]
    return _signed(f"{_HEADER},table={name},design={design},code={code_version()}")


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The partial file, open for reading and appending, while nobody else works on it."""
    with path.open("a+b") as stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = not path.exists() or os.fstat(stream.fileno()).st_ino != path.stat().st_ino
            except BlockingIOError:
                gone = True
            if gone:
                raise PartialTableError(
                    f"another run works on {path.name}: wait until it ends, or name another folder"
                )
        yield stream


def _resume(stream: IO[bytes], path: Path, header: bytes) -> dict[str, dict[str, Any]]:
    """Finished cells of an interrupted run with the same header; damaged lines are cut out."""
    stream.seek(0)
    content = stream.read()
    if header.startswith(content):  # nothing yet, or not even the whole first line
        content = header
    lines = content.splitlines(keepends=True)
    if lines[0] != header:
        raise PartialTableError(_why_another(lines[0], header, path))
    done, good = {}, [header]
    for line in lines[1:]:
        row = _row(line)
        if row is not None:
            done[row["key"]] = row
            good.append(line)
    whole = b"".join(good)
    stream.seek(0, os.SEEK_END)
    if whole != content or stream.tell() != len(whole):
        stream.truncate(0)
        stream.write(whole)
        stream.flush()
    return done


def _why_another(found: bytes, header: bytes, path: Path) -> str:
    differ = "cannot be read"
    if _unsigned(found) is not None and found.startswith(_HEADER.encode()):
        ours, theirs = header.split(b","), found.split(b",")
        changed = [a.split(b"=")[0].decode() for a, b in zip(ours, theirs, strict=False) if a != b]
        differ = f"is of another {changed[0]}"
    return (
        f"{path.name} {differ}, so going on with it would mix results: remove the file to start"
        " afresh, or go back to what it was begun with"
    )


def _signed(text: str) -> bytes:
    """A line with its checksum at the end."""
    return f"{text},{_CHECKSUM}{zlib.crc32(text.encode()):08x}\n".encode()


def _unsigned(line: bytes) -> str | None:
    """The text of a line, or None if it is not as it was written."""
    try:
        text, mark, _ = line.decode().rpartition(f",{_CHECKSUM}")
    except UnicodeDecodeError:
        return None
    return text if mark and _signed(text) == line else None


def _line(row: dict[str, Any]) -> bytes:
    """A row as ``key,name=value,...``: cells of different tables have different columns."""
    stream = io.StringIO()
    fields = [row["key"]] + [f"{k}={float(v)!r}" for k, v in row.items() if k != "key"]
    csv.writer(stream, lineterminator="").writerow(fields)
    return _signed(stream.getvalue())


def _row(line: bytes) -> dict[str, Any] | None:
    """What `_line` wrote, or None if the line is damaged."""
    text = _unsigned(line)
    if text is None:
        return None
    key, *fields = next(csv.reader([text]))
    pairs = (field.rsplit("=", 1) for field in fields)
    return {"key": key} | {name: float(value) for name, value in pairs}


# --- finished tables ------------------------------------------------------------------------------


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
    ValueError
        If the file is no table; the message names it.
    """
    if not isinstance(table, str):
        raise TypeError(f"table must be the name of a result table, got {type(table).__name__}")
    folder = results_folder()
    there = {path.stem: path for path in _finished(folder)}
    if table not in there:
        raise FileNotFoundError(
            f"no result table {table!r}; there are: {', '.join(there) or 'none'}."
            " `make results` makes them"
        )
    try:
        return pd.read_csv(there[table])
    except ValueError as error:  # torn, empty, or no text
        raise ValueError(
            f"{there[table].name} is no table of results: restore it, or make it with"
            " `make results`"
        ) from error


def load_all_results() -> dict[str, pd.DataFrame]:
    """All committed result tables by name."""
    return {path.stem: load_results(path.stem) for path in _finished(results_folder())}


def _finished(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.csv") if not p.name.endswith(".partial.csv"))
