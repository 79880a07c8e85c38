"""The file of an unfinished table: locked while a run works on it, resumed by the next one.

Every finished cell is a line of ``NAME.partial.csv``. The first line names the table and carries a
fingerprint of the design and of the versions; another design or version is refused. Every line ends
in a checksum: a torn, short or changed one is measured again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import platform
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO

from fedclust_helpers import __version__
from fedclust_helpers.studies.bench.cell import Cell, Numbers

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: no lock)
    fcntl = None  # type: ignore[assignment]

_HEADER = "# fedclust partial table"
_CHECKSUM = "crc32="


class PartialTableError(RuntimeError):
    """A partial table cannot be gone on with: in use, or of another design or version."""


class PartialFile:
    """An open, locked partial file; `done` has the numbers of the finished cells by key."""

    def __init__(self, path: Path, stream: IO[bytes], header: bytes) -> None:
        self.path, self._stream = path, stream
        self.done = self._resume(header)

    def add(self, key: str, numbers: Numbers) -> None:
        """Append a finished cell: one write, so that an interruption tears one line at most."""
        self.done[key] = numbers
        self._stream.write(_line(key, numbers))
        self._stream.flush()

    def _resume(self, header: bytes) -> dict[str, Numbers]:
        """Finished cells of an interrupted run with this header; damaged lines are cut out."""
        self._stream.seek(0)
        content = self._stream.read()
        lines = content.splitlines(keepends=True)
        if header.startswith(content):  # nothing yet, or not even the whole first line
            lines = [header]
        if lines[0] != header:
            raise PartialTableError(_why_another(lines[0], header, self.path))
        done, good = {}, [header]
        for line in lines[1:]:
            text = _unsigned(line)
            if text is not None:
                key, *parts = next(csv.reader([text]))
                pairs = (part.rsplit("=", 1) for part in parts)
                done[key] = {name: float(value) for name, value in pairs}
                good.append(line)
        if b"".join(good) != content:
            self._stream.truncate(0)
            self._stream.write(b"".join(good))
            self._stream.flush()
        return done


@contextmanager
def partial_file(path: Path, name: str, cells: Sequence[Cell]) -> Iterator[PartialFile]:
    """The partial file of a table, open for reading and appending, while nobody else works on it.

    Raises
    ------
    PartialTableError
        If another run works on it, or it is of another design or version.
    """
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
        yield PartialFile(path, stream, _header(name, cells))


def versions() -> dict[str, str]:
    """What the numbers depend on beside the design."""
    libraries = ("numpy", "scipy", "scikit-learn", "pandas")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
        "fedclust_helpers": __version__,
    }


@cache
def code_version() -> str:
    """A digest of this package's source and of the libraries that the numbers depend on."""
    package = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(repr(versions()).encode())
    held = [p for p in package.rglob("*.*") if p.suffix in (".py", ".csv")]
    for path in sorted(p for p in held if p.parent.name != "results"):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def design_fingerprint(cells: Sequence[Cell]) -> str:
    """A digest of the names and repetitions of all cells, in order."""
    return hashlib.sha256("\n".join(cell.key for cell in cells).encode()).hexdigest()[:16]


def _header(name: str, cells: Sequence[Cell]) -> bytes:
    design = design_fingerprint(cells)
    return _signed(f"{_HEADER},table={name},design={design},version={code_version()}")


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


def _line(key: str, numbers: Numbers) -> bytes:
    """A row as ``key,name=value,...``: cells of different tables have different columns."""
    stream = io.StringIO()
    parts = [key, *(f"{name}={float(value)!r}" for name, value in numbers.items())]
    csv.writer(stream, lineterminator="").writerow(parts)
    return _signed(stream.getvalue())
