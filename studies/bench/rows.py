"""Single rows of a committed table, made again: which digits differ, which leave the interval."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from studies.bench.cell import Cell, Design, Table
from studies.bench.runner import CPU, as_csv, measured

REPEATED = {"seed", "draw"}  # what rows are means over
INTERVAL = 0.05  # relative, of a row that states none


class Remade(NamedTuple):
    """Rows of one file: what names them, and each number as stored and as recomputed."""

    file: str
    names: pd.DataFrame
    stored: pd.DataFrame
    recomputed: pd.DataFrame

    @property
    def differences(self) -> list[str]:
        """ "name=value ...: column stored, recomputed", one for each digit that differs."""
        return [text for text, _ in self._differing()]

    @property
    def beyond(self) -> list[str]:
        """Those that another processor does not explain: words, and numbers outside the interval.

        It is the stored number +- the row's `ci95`, or +- 5 % where that is more or all there is.
        """
        return [text for text, apart in self._differing() if apart]

    def _differing(self) -> Iterator[tuple[str, bool]]:
        stored, again = self.stored.to_dict("records"), self.recomputed.to_dict("records")
        for name, row, ours in zip(self.names.to_dict("records"), stored, again, strict=True):
            for column, theirs in row.items():
                if ours[column] != theirs:
                    found = f"{theirs or 'nan'}, {ours[column] or 'nan'}"
                    apart = not _near(theirs, ours[column], row.get("ci95", ""))
                    yield f"{_text(name)}: {column} {found}", apart


def matching(table: Table, wanted: Mapping[str, str], design: Design) -> list[Cell]:
    """The cells with these settings, and those that their rows are compared with.

    Raises
    ------
    ValueError
        If there is no such setting, or no cell has these values; the message lists those there are.
    """
    cells = table.cells(design)
    if repeated := REPEATED & wanted.keys():
        raise ValueError(f"rows of {table.name} are means over {', '.join(repeated)}: leave it out")
    for name, value in wanted.items():
        there = list(dict.fromkeys(_plain(c.columns[name]) for c in cells if name in c.columns))
        if not there:
            every = list(dict.fromkeys(key for cell in cells for key in cell.columns))
            raise ValueError(f"{table.name} has no setting {name!r}; there are: {', '.join(every)}")
        if _plain(value) not in there:
            some = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
            raise ValueError(f"{table.name} has no {name}={value}; there are: {some}")
    found = [cell for cell in cells if _has(cell, wanted)]
    if not found:
        raise ValueError(f"{table.name} has no row with {_text(wanted)}")
    partners = {tuple(cell.settings[name] for name in table.paired) for cell in found}

    def beside(cell: Cell) -> bool:
        if any(cell.settings.get(name) != value for name, value in table.beside.items()):
            return False
        return tuple(cell.settings[name] for name in table.paired) in partners

    return [c for c in cells if c in found or (table.beside and beside(c))]


def spread(
    table: Table, *, rng: np.random.Generator, n_each: int = 1, design: Design | None = None
) -> list[dict[str, str]]:
    """Settings of rows drawn at random so that every word among the settings is in `n_each` rows.

    Words are values that are no finite numbers: methods, data sets, levels, "inf" ... A change of
    the code that moves one method is seen by its rows alone; a few rows at random would miss it.
    Fewer than `n_each` where a word has fewer rows; any `n_each` of a table without words.
    """
    cells = table.cells(table.design if design is None else design)
    rows = {_text(row): row for row in map(_row, cells)}
    keys = [str(key) for key in rng.permutation(list(rows))]
    left = Counter(word for row in rows.values() for word in _words(row))
    left = Counter({word: min(n_each, n) for word, n in left.items()})
    out = []
    for key in keys:
        row = rows[key]
        if any(left[word] > 0 for word in _words(row)):
            left.subtract(_words(row))
            out.append(row)
    return out or [rows[key] for key in keys[:n_each]]


def remake(
    table: Table, wanted: Mapping[str, str], folder: Path, *, design: Design | None = None
) -> list[Remade]:
    """Measure the cells of some rows again; `wanted` has settings as text, ``{"n": "1000"}``.

    Columns of times and memory, and those that only the whole table gives, are left out.

    Raises
    ------
    ValueError
        If no cell has these settings.
    FileNotFoundError
        If the table is not in `folder`.
    """
    cells = matching(table, wanted, table.design if design is None else design)
    numbers = [measured(table, cell)[1] for cell in cells]
    for each in numbers:
        del each[CPU]
    out, shown = [], {column for columns in table.headers.values() for column in columns}
    for stem, frame in table.files(cells, numbers, folder).items():
        if stem in table.whole or not wanted.keys() & shown <= set(frame):
            continue  # its rows are means over more cells than these
        stored = pd.read_csv(folder / f"{stem}.csv", dtype=str, keep_default_na=False)
        again = pd.read_csv(io.StringIO(as_csv(frame)), dtype=str, keep_default_na=False)
        names = [n for n in stored if n in {*table.names, *(c for x in cells for c in x.columns)}]
        values = [n for n in stored if n not in (*names, *table.whole, *table.anew)]
        both = stored.merge(again, on=names, suffixes=("", "\0"))
        for name in wanted.keys() & set(names):
            both = both[both[name].map(_plain) == _plain(wanted[name])]
        recomputed = both[[f"{name}\0" for name in values]].set_axis(values, axis=1)
        out.append(Remade(f"{stem}.csv", both[names], both[values], recomputed))
    return out


def report(remade: Remade) -> str:
    """Every number as stored and recomputed, line by line, and whether all digits agree."""
    lines = [f"{remade.file}: {len(remade.names)} rows"]
    for i, row in enumerate(remade.names.to_dict("records")):
        lines.append(f"  {_text(row)}")
        for column in remade.stored:
            ours, theirs = remade.recomputed[column].iloc[i], remade.stored[column].iloc[i]
            mark = "same" if ours == theirs else "DIFFERS"
            lines.append(f"    {column:24} stored {theirs:>14} recomputed {ours:>14}  {mark}")
    return "\n".join(lines)


def _near(stored: str, found: str, width: str) -> bool:
    if not (_finite(stored) and _finite(found)):
        return False
    reach = max(INTERVAL * abs(float(stored)), float(width) if _finite(width) else 0.0)
    return abs(float(found) - float(stored)) <= reach


def _has(cell: Cell, wanted: Mapping[str, str]) -> bool:
    columns = cell.columns
    return all(n in columns and _plain(columns[n]) == _plain(v) for n, v in wanted.items())


def _row(cell: Cell) -> dict[str, str]:
    return {name: _plain(v) for name, v in cell.columns.items() if name not in REPEATED}


def _words(row: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in row.items() if not _finite(value)]


def _finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _plain(value: object) -> str:
    """A setting as text, numbers as in the tables: 1, 1.0 and "1.0" are the same."""
    try:
        return f"{float(str(value)):.6g}"
    except ValueError:
        return str(value)


def _text(row: Mapping[Any, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value != "")
