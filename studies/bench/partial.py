"""The file of an unfinished table: what an interrupted run has measured, for the next one.

The first line of ``NAME.partial.jsonl`` names the table, its design and the version of the code;
another design or version is refused. Then comes a line for each finished cell.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from fedclust_helpers import __version__
from studies.bench.cell import Cell, Numbers

OURS = ("fedclust", "fedclust_helpers", "studies")  # the code that the numbers depend on


class PartialTableError(RuntimeError):
    """A table that cannot be gone on with: of another design or version, or workers were killed."""


class PartialFile:
    """The partial file of a table; `done` has the numbers of the finished cells by key.

    Raises
    ------
    PartialTableError
        If the file is of another design or version, or no partial table.
    """

    def __init__(self, path: Path, name: str, cells: Sequence[Cell]) -> None:
        self.path = path
        self.done: dict[str, Numbers] = {}
        made_of = {"table": name, "design": design_fingerprint(cells), "version": code_version()}
        head, *lines = path.read_text("utf-8").splitlines() if path.exists() else [""]
        if head and head != json.dumps(made_of):
            raise PartialTableError(
                f"{path.name} is of another {_differs(head, made_of)}: remove the file to start"
                " afresh, or go back to what it was begun with (going on would mix results)"
            )
        for line in lines:
            try:
                key, numbers = json.loads(line)
            except ValueError:  # torn when the run was interrupted: measured again
                break
            self.done[key] = numbers
        kept = [json.dumps(made_of), *(json.dumps(cell) for cell in self.done.items())]
        path.write_text("".join(f"{line}\n" for line in kept), "utf-8")

    def add(self, key: str, numbers: Numbers) -> None:
        """Append a finished cell."""
        self.done[key] = numbers
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([key, {n: float(v) for n, v in numbers.items()}]) + "\n")


def _differs(head: str, made_of: dict[str, str]) -> str:
    try:
        found = json.loads(head)
        return next(name for name in made_of if found[name] != made_of[name])
    except (ValueError, TypeError, LookupError, StopIteration):
        return "kind"


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
    """A digest of our code, and of the libraries that the numbers depend on."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(repr(versions()).encode())
    ours = [p for name in OURS for p in (root / name).rglob("*.*")]
    for path in sorted(p for p in ours if p.suffix in (".py", ".csv")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def design_fingerprint(cells: Sequence[Cell]) -> str:
    """A digest of the names and repetitions of all cells, in order."""
    return hashlib.sha256("\n".join(cell.key for cell in cells).encode()).hexdigest()[:16]
