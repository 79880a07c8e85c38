"""A client's rows from a file, with a refusal that says where and what, and never which value."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from fedclust_helpers._validation import FloatArray

MISSING = r"|na|n/a|nan|null|none|\.|-|\?"
KINDS = {  # of a value that is no number: what it looks like, and what to do
    MISSING: "a missing value: fill it in, or leave the row out",
    r"[-+]?[\d,.' \u00a0\u202f]*\d[\d,.' \u00a0\u202f]*": "thousands separators or a decimal comma:"
    " write numbers as 1234.5",
    r"[<>≤≥~].*": "a sign before a number, as of a limit of detection: decide for a number",
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*": "a date: convert it to a number, such as days",
    r"[-+]?inf(inity)?": "an infinite number: decide for a finite one",
    r"[-+]?[\d.,]+ ?[^\d\s].*": "a unit or other signs after a number: leave them out",
    r"true|false|yes|no": "a truth value: write 1 or 0",
}


def read_rows(
    path: Path, columns: Sequence[str] | None, *, missing: bool = False
) -> tuple[FloatArray, str]:
    """The rows of a .csv (n, d) in the columns of a study, and what to tell about its others.

    The first line of a .csv has the names of its columns, which are separated by commas; the text
    is UTF-8 (a mark at its beginning and line ends of other systems do no harm). Columns are found
    by their names, others are left out; without `columns` all are taken. With `missing`, values may
    be missing (nan), else they are refused. An .npy has no names: all of it is taken. ValueError
    names file, line, column and the kind of what is wrong there; OSError for a file that cannot be
    read.
    """
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False), ""
    names, at, found = _lines(path)
    wanted = names if columns is None else columns
    if {*wanted} - {*names} or columns is None:
        if any(_is_number(name) for name in names):
            _refuse(path, 1, "numbers where the names of the columns must be")
    for name in wanted:
        if name not in names:
            close = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 1)
            near = [each for each in names if each.lower() in close]
            meant = f"; did you mean the one named {near[0]!r}?" if near else ""
            _refuse(path, 1, f"no column {name!r}, which the study has{meant}")
    places = [names.index(name) for name in wanted]
    chosen = [[values[i] for i in places] for values in found]
    rows = _numbers(path, wanted, at, chosen, missing)
    said = ""
    if others := [name for name in names if name not in wanted]:
        said = f"{path.name}: columns that the study has not are left out: {', '.join(others)}\n"
    if places != sorted(places):
        said += f"{path.name}: columns are taken by name, in the order {', '.join(wanted)}\n"
    return rows, said


def _lines(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Names of the columns; of each line below that is not empty its number and its values."""
    names: list[str] = []
    at, found = [], []
    lines = csv.reader(io.StringIO(_text(path), newline=None))
    try:
        for values in lines:
            if not names:
                names = _names(path, values, lines.line_num) if values else []
            elif values:
                if len(values) != len(names):
                    what = f"{len(values)} values below {len(names)} names of columns: a comma too"
                    _refuse(path, lines.line_num, f"{what} many, or a line that was cut short")
                at.append(lines.line_num)
                found.append(values)
    except csv.Error:
        _refuse(path, lines.line_num, "quotation marks or signs that no CSV file has")
    if not names:
        raise ValueError(f"{path.name} is empty: its first line must be the names of the columns")
    if not found:
        raise ValueError(f"{path.name} has no row below the names of its columns")
    return names, at, found


def outside(
    path: Path, columns: Sequence[str], rows: FloatArray, lower: Sequence[float],
    upper: Sequence[float],
) -> str:  # fmt: skip
    """A warning for the eyes of this client alone, where many values lie outside the bounds."""
    share = ((rows < np.asarray(lower)) | (rows > np.asarray(upper))).mean(axis=0)
    return "".join(
        f"{path.name}, column {name}: {'most' if part > 0.5 else 'more than one in twenty'} of the"
        f" values are not within {low:g} to {high:g} and will be cut to it: is it the unit of the"
        " study, and the right column?\n"
        for name, part, low, high in zip(columns, share, lower, upper, strict=True)
        if part > 0.05
    )


def _text(path: Path) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "perhaps Latin-1"
        _refuse(path, line, f"signs that are not UTF-8 ({what}): save the file as UTF-8")


def _names(path: Path, values: Sequence[str], line: int) -> list[str]:
    names = [value.strip() for value in values]
    names[0] = names[0].removeprefix("# ")  # as np.savetxt writes it
    if len(names) == 1 and (found := [mark for mark in ";\t|" if mark in names[0]]):
        mark = {"\t": "tabs"}.get(found[0], repr(found[0]))
        _refuse(path, line, f"columns are separated by {mark}: separate them by commas")
    if len({*names}) < len(names):
        second = next(i for i, name in enumerate(names) if name in names[:i])
        _refuse(path, line, f"column {second + 1} has the name of one before it: name each once")
    return names


def _numbers(
    path: Path, names: Sequence[str], at: Sequence[int], found: Sequence[Sequence[str]],
    missing: bool,
) -> FloatArray:  # fmt: skip
    rows = np.full((len(found), len(names)), np.nan)
    for row, line, values in zip(rows, at, found, strict=True):
        for j, (name, text) in enumerate(zip(names, values, strict=True)):
            word = text.strip().lower()
            if _is_number(text):
                row[j] = float(text)
            elif not (missing and re.fullmatch(MISSING, word)):
                kinds = (says for form, says in KINDS.items() if re.fullmatch(form, word))
                _refuse(path, line, next(kinds, "words: convert them to numbers"), name)
    return rows


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text  # 1_000 is one for Python
    except ValueError:
        return False


def _refuse(path: Path, line: int, what: str, column: str | None = None) -> NoReturn:
    where = f"{path.name}, line {line}" + ("" if column is None else f", column {column}")
    raise ValueError(f"{where}: {what}")
