"""From any table to names, owners and numbers: the one reader of all entry points.

A table is a DataFrame (pandas, polars, dask, or what has the dataframe interchange), an Arrow
table, a CSV file, or an array, whose columns are called 0, 1, ... Columns are found by their names,
never by their place. Messages go to whoever holds the rows: they name arguments, files, lines and
columns, and quote no value.

>>> numbers, names = read_numbers([[1.0, 2.0], [3.0, 4.0]], "X")
>>> numbers.shape, names
((2, 2), [0, 1])
"""

from __future__ import annotations

import csv
import datetime
import difflib
import io
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse

from fedclust.frames import are_numbers, as_word, find, names_of, table_of
from fedclust_helpers._validation import FloatArray, as_points, unmasked

MISSING = r"|#?na|#?n/a|<na>|nan|nat|null|none|\.|-|\?"
DATE = "a date: convert it to a number, such as the days since a public date"
TIME = "a time or a duration: convert it to a number, of hours, say"
TEXT = (str, bytes, bytearray, memoryview)
OBJECTS = {  # that are no numbers, though some say that they can be made floats
    (datetime.date, np.datetime64): DATE,
    (datetime.time, datetime.timedelta, np.timedelta64): TIME,
    (complex, np.complexfloating): "complex numbers",
}
KINDS = {  # of a cell that is no number: what it looks like, and what to do
    MISSING: "a missing value: fill it in, or leave the row out",
    r"[-+]?[\d,.' \u00a0\u202f]*\d[\d,.' \u00a0\u202f]*": "thousands separators or a decimal comma:"
    " write numbers as 1234.5",
    r"[\u2212\u2013\u2012] ?[\d.,]+": "a minus sign that is no hyphen: write -1234.5",
    r"[<>≤≥~].*": "a sign before a number, as of a limit of detection: decide for a number",
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*": DATE,
    r"(-?\d+ days?,? ?)?([-+]?\d{1,2}:\d{2}.*)?": TIME,
    r"[-+]?inf(inity)?": "an infinite number: decide for a finite one",
    r"[-+]?[\d.,]+ ?[^\d\s].*": "a unit or other signs after a number: leave them out",
    r"true|false|yes|no": "a truth value: write 1 or 0",
}
BINARY = {  # how files of other kinds begin
    b"PK\x03\x04": "a workbook (Excel or the like), or a compressed file",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a compressed file",
    b"ARROW1": "an Arrow file",
    b"%PDF": "a PDF",
}
NO_HEADER = " (a file without a header?): write the names of the columns in a line above the rows"


# --- CSV files ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The cells (n, d) of a file as text, None where they are empty; where each row stands.

    >>> import numpy as np
    >>> CsvTable("a.csv", ["age"], np.array([["40"], ["51"]]), lines=[2, 3])["age"].tolist()
    ['40', '51']
    """

    file: str
    column_names: list[str]
    cells: Any
    lines: list[int]

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, name: str) -> Any:
        """A column (n,)."""
        return self.cells[:, self.column_names.index(name)]

    def take(self, rows: Any) -> CsvTable:
        """These rows, by number."""
        lines = [self.lines[row] for row in rows]
        return CsvTable(self.file, self.column_names, self.cells[rows], lines)

    def classes(self, column: str, known: Sequence[Any]) -> CsvTable:
        """The same, with these classes in a column in place of their texts."""
        words, cells = {str(each): each for each in known}, self.cells.copy()
        cells[:, self.column_names.index(column)] = [
            words.get(text, float(text) if _is_number(text) else text) for text in self[column]
        ]
        return CsvTable(self.file, self.column_names, cells, self.lines)

    def refuse(self, row: int, column: Any, what: str) -> NoReturn:
        """ValueError about one cell."""
        raise ValueError(f"{self.file}, line {self.lines[row]}, column {column}: {what}")


def read_csv(path: str | Path) -> CsvTable:
    """A CSV file: separated by commas, in UTF-8, the names of the columns in its first line.

    A mark at its beginning, line ends of other systems, and a comma at the end of each row do no
    harm. ValueError names file and line; OSError for a file that cannot be read.
    """
    path = Path(path)
    names: list[str] = []
    lines, found = [], []
    reader = csv.reader(io.StringIO(_text(path), newline=None))
    try:
        for values in reader:
            if not names:
                names = _names(path, values, reader.line_num) if values else []
            elif values:
                while len(values) > len(names) and not values[-1]:
                    values.pop()
                if len(values) != len(names):
                    what = f"{len(values)} values below {len(names)} names of columns: a comma too"
                    _refuse(path, reader.line_num, f"{what} many, or a line that was cut short")
                lines.append(reader.line_num)
                found.append(values)
    except csv.Error:
        _refuse(path, reader.line_num, "quotation marks or signs that no CSV file has")
    if not names:
        raise ValueError(f"{path.name} is empty: its first line must be the names of the columns")
    if not found:
        raise ValueError(f"{path.name} has no row below the names of its columns")
    cells = np.array(found, dtype=object)
    cells[cells == ""] = None
    return CsvTable(path.name, names, cells, lines)


def _text(path: Path) -> str:
    content = path.read_bytes()
    if what := next((says for begin, says in BINARY.items() if content.startswith(begin)), None):
        raise ValueError(f"{path.name} is no CSV file but {what}: export it as CSV, in UTF-8")
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    start, what = content.find(b"\0"), "UTF-16"
    if start < 0 or marked:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            start, what = error.start, "UTF-16" if marked else "perhaps Latin-1"
    before = content[:start].split(b"\n")
    where = f"{path.name}, line {len(before)}, column {before[-1].count(b',') + 1}"
    raise ValueError(f"{where}: signs that are not UTF-8 ({what}): save the file as UTF-8")


def _names(path: Path, values: Sequence[str], line: int) -> list[str]:
    names = [value.strip() for value in values]
    while len(names) > 1 and not names[-1]:  # commas at the end
        names.pop()
    names[0] = names[0].removeprefix("# ")  # as np.savetxt writes it
    if len(names) == 1 and (found := [mark for mark in ";\t|" if mark in names[0]]):
        mark = {"\t": "tabs"}.get(found[0], repr(found[0]))
        _refuse(path, line, f"columns are separated by {mark}: separate them by commas")
    if len({*names}) < len(names):
        second = next(i for i, name in enumerate(names) if name in names[:i])
        _refuse(path, line, f"column {second + 1} has the name of one before it: name each once")
    return names


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise ValueError(f"{path.name}, line {line}: {what}")


# --- names of columns, and numbers ----------------------------------------------------------------


def read_numbers(
    X: Any, name: str, *, columns: Sequence[Any] | None = None, drop: Sequence[Any] = (),
    gaps: bool = False, n_features: int | None = None, of: str = "",
) -> tuple[FloatArray, list[Any]]:  # fmt: skip
    """The feature columns of a table, or an array, as finite numbers (n, d), and their names.

    `columns` are those wanted, in this order; by default all but those to `drop`. With `gaps`
    numbers may be missing (nan). `of` is the estimator that expects `n_features` columns.
    ValueError or TypeError names a column that is missing, or holds something else than numbers.
    """
    X = table_of(X)
    own = names_of(X)
    if own is None:
        is_array = isinstance(X, Sequence) or hasattr(X, "__array__")
        if not issparse(X) and (isinstance(X, (*TEXT, Mapping)) or not is_array):
            raise TypeError(
                f"{name} must be an array of real numbers (n, d), or a table; got"
                f" {type(X).__name__}"
            )
        if columns is not None and not are_numbers(columns):
            raise ValueError(
                f"{name} must be a table with named columns ({_listed(columns)}), since bounds or a"
                " fit name them, and an array does not say which is which:"
                " pandas.DataFrame(rows, columns=...) does"
            )
        points, names = _numbers_of_array(X, name), None
        n_features = len(columns) if n_features is None and columns is not None else n_features
    else:
        name = X.file if isinstance(X, CsvTable) else name
        wanted = _wanted(X, own, name, columns, drop)
        each, wrong = list[FloatArray](), dict[Any, TypeError]()
        for column in wanted.values():
            try:
                each.append(_numbers(X, column, X[column], name))
            except TypeError as error:  # all such columns are told at once
                wrong[column] = error
        if wrong:
            columns = list(wrong)
            more = f". Neither are {_listed(columns[1:])} numbers" if len(wrong) > 1 else ""
            raise TypeError(f"{wrong[columns[0]]}{more}")
        points, names = np.column_stack(each) if each else np.empty((len(X), 0)), list(wanted)
    if points.ndim == 2 and points.shape[1] == 0:
        raise ValueError(
            f"{name} must have at least one column: 0 feature(s) (shape=({points.shape[0]}, 0))"
            " while a minimum of 1 is required."
        )
    points = as_points(points, name, finite=False)
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(
            f"{name} must have {n_features} columns: {name} has {points.shape[1]} features, but"
            f" {of or 'this'} is expecting {n_features} features as input"
        )
    if not gaps:
        _check_complete(X, points, name, names)
    fine = np.isfinite(points) | (gaps & np.isnan(points))
    if not fine.all():
        allowed = "no infinite numbers; nan is a missing one" if gaps else "no nan, no inf"
        odd = [] if names is None else [names[i] for i in np.flatnonzero(~fine.all(axis=0))]
        where = f": {_listed(odd)} is not" if odd else ""
        raise ValueError(f"{name} must be finite ({allowed}){where}")
    return points, list(range(points.shape[1])) if names is None else names


def said_of_names(own: Sequence[Any], missing: Sequence[Any]) -> str:
    """What columns a table has where those were looked for; values read as names are not quoted."""
    if any(_is_number(str(c)) for c in own) and not any(_is_number(str(c)) for c in missing):
        return f"Its columns have numbers for names{NO_HEADER}"
    return f"It has {_listed(own)}"


def is_missing(value: Any) -> bool:
    """Whether this is None, or one of the values that are not themselves (nan, NaT, NA)."""
    try:
        return value is None or (not hasattr(value, "__len__") and bool(value != value))
    except (TypeError, ArithmeticError):  # pandas.NA has no truth, a signalling NaN no comparison
        return True


def _wanted(
    X: Any, own: list[Any], name: str, columns: Sequence[Any] | None, drop: Sequence[Any]
) -> dict[Any, Any]:
    """The column of each wanted name: the one that has it, or, where a file names it, its word."""
    if len(set(map(as_word, own))) < len(own):
        raise ValueError(f"{name} must have columns of different names")
    wanted = [c for c in own if c not in drop] if columns is None else list(columns)
    by_word: dict[str, list[Any]] = {}
    for column in own:
        by_word.setdefault(str(as_word(column)), []).append(column)
    found = {c: by_word.get(c, []) if (at := find(own, c)) is None else [own[at]] for c in wanted}
    missing = [c for c, each in found.items() if len(each) != 1]
    if isinstance(X, CsvTable) and (missing or columns is None) and any(map(_is_number, own)):
        raise ValueError(f"{name}, line 1: numbers where names of columns must be{NO_HEADER}")
    if both := [c for c, each in found.items() if any(one in drop for one in each)]:
        raise ValueError(f"{both[0]} must be no feature: it says whose each row is, or its class")
    if missing:
        known = {str(c).strip().lower(): c for c in own}
        near = [(c, difflib.get_close_matches(str(c).strip().lower(), known, 1)) for c in missing]
        said = [f"{_shown(known[most[0]])} for {_shown(c)}" for c, most in near if most]
        raise ValueError(
            f"{name} must have the columns {_listed(wanted)}; {_listed(missing)} not."
            f" {said_of_names(own, missing)}"
            + (f" (perhaps {', '.join(said)})" if said else "")
            + (
                f". Bounds or a fit gave no names: {name}.to_numpy() if the order is the same"
                if are_numbers(wanted)
                else ""
            )
        )
    if len({each[0] for each in found.values()}) < len(wanted):
        raise ValueError(f"{name} must have one column for each name; {_listed(wanted)} not")
    return {c: each[0] for c, each in found.items()}


def _numbers(X: Any, column: Any, values: Any, name: str) -> FloatArray:
    """One column (n,) as numbers, nan where one is missing; any other cell is refused."""
    array = np.asarray(unmasked(values, name))
    if array.ndim != 1:
        _refuse_column(name, column, "several values in each row: give each a column of its own")
    is_file = isinstance(X, CsvTable)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    if (quick := _all_numbers(array, is_file)) is not None:
        return quick
    found, as_text = np.full(len(array), np.nan), False
    for i, value in enumerate(array):
        if is_missing(value) or (is_file and re.fullmatch(MISSING, value.strip().lower())):
            continue
        what = _what(value)
        as_text |= isinstance(value, TEXT)
        if what is not None and is_file:
            X.refuse(i, column, what)
        if what is not None:
            _refuse_column(name, column, what)
        found[i] = float(value)
    if as_text and not is_file:
        _refuse_column(name, column, "numbers as text: convert it, with pandas.to_numeric, say")
    return found


def _all_numbers(array: Any, is_file: bool) -> FloatArray | None:
    """A column of objects at once, if there is no doubt about any of them."""
    if array.dtype.kind != "O":
        return None
    doubtful = tuple(OBJECTS) if is_file else (*OBJECTS, TEXT)
    if any(issubclass(kind, doubtful) for kind in set(map(type, array))):
        return None
    try:
        found = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    plain = all(map(is_missing, array[~np.isfinite(found)]))
    plain &= not (is_file and any("_" in text for text in array if text is not None))
    return found if plain else None


def _what(value: Any) -> str | None:
    """What a cell looks like that is no finite number; None if it is one."""
    if says := next((says for kinds, says in OBJECTS.items() if isinstance(value, kinds)), None):
        return says
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    except OverflowError:
        number = math.inf
    if math.isfinite(number) and not (isinstance(value, str) and "_" in value):
        return None  # 1_000 is a number for Python
    text = "inf" if math.isinf(number) else str(value).strip().lower()
    if not isinstance(value, TEXT) and not math.isinf(number):
        return "objects that are no numbers"
    said = (says for form, says in KINDS.items() if re.fullmatch(form, text))
    return next(said, "words: convert them to numbers")


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and _what(text) is None


def _refuse_column(name: str, column: Any, what: str) -> NoReturn:
    raise TypeError(
        f"{name} must be an array of real numbers, but column {column!r} holds {what}. If it says"
        " whose each row is, say so; else leave it out"
    )


def _numbers_of_array(X: Any, name: str) -> Any:
    """An array as floats; in the words that scikit-learn's checks ask for."""
    if issparse(X):
        raise TypeError(f"{name} must be a dense array: sparse input is not supported")
    try:
        array = np.asarray(unmasked(X, name))
        if array.dtype.kind in "SU":  # of a list in which some are text
            array = np.asarray(X, dtype=object)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError):
            raise
        raise TypeError(f"{name} must be an array of real numbers of shape (n, d)") from None
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must be an array of real numbers: Complex data not supported")
    if array.ndim == 1 and hasattr(X, "shape"):
        raise ValueError(
            f"{name} must have shape (n, d), got 1 dimension(s). Reshape your data: X[None] if it"
            " is one row, X[:, None] if it is one column"
        )
    if array.ndim != 2 or array.dtype.kind in "fiub":
        return array
    each = [_numbers(X, i, column, name) for i, column in enumerate(array.T)]
    return np.column_stack(each) if each else np.empty(array.shape)


def _check_complete(X: Any, points: FloatArray, name: str, names: list[Any] | None) -> None:
    """Refuse a missing value, by column, and in a file by line."""
    gaps = np.argwhere(np.isnan(points))
    if names is None or not len(gaps):
        return
    if isinstance(X, CsvTable):
        X.refuse(gaps[0, 0], names[gaps[0, 1]], KINDS[MISSING])
    raise ValueError(
        f"{name} must have no missing values (nan), but"
        f" {_listed([names[i] for i in np.unique(gaps[:, 1])])} has some: fill them by a public"
        " rule, or missing='drop' leaves such rows out at their client"
    )


def _listed(names: Sequence[Any]) -> str:
    names = list(names)
    return ", ".join(map(_shown, names[:12])) + (f" and {len(names) - 12} more" * (len(names) > 12))


def _shown(name: Any) -> str:
    """A name as it is, in quotation marks where blanks, signs or its kind would not be seen."""
    if not isinstance(name, str):
        return str(name)
    if not name.isprintable() or unicodedata.normalize("NFC", name) != name:
        return ascii(name)
    return repr(name) if name != name.strip() or name == "" or _is_number(name) else name
