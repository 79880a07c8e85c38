"""The finished result tables: where they are, reading them, and what is written beside them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from fedclust_helpers._lazy import pd

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"
"""Where the tables lie."""


def load_results(table: str) -> pd.DataFrame:
    """A committed result table, for example ``load_results("fastlloyd_nicv")``.

    Raises
    ------
    TypeError
        If `table` is no string.
    FileNotFoundError
        If the folder or the table is missing; the message lists the tables there are.
    ValueError
        If the file is no table; the message names it.
    """
    if not isinstance(table, str):
        raise TypeError(f"table must be the name of a result table, got {type(table).__name__}")
    there = {path.stem: path for path in sorted(RESULTS.glob("*.csv"))}
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


def load_provenance(table: str) -> dict[str, Any]:
    """How a table was made: ``table.json`` beside it.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    path = RESULTS / f"{table}.json"
    if not path.exists():
        raise FileNotFoundError(f"no {path.name} beside the result tables")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def load_printed(name: str, keys: int) -> dict[Any, Any]:
    """Numbers that others printed, ``NAME.csv`` beside the code: first columns -> the others.

    A key or a value of one column stands for itself.
    """
    path = Path(__file__).resolve().parents[1] / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [tuple(map(_as_number, row)) for row in csv.reader(stream)][1:]
    parts = ((row[:keys], row[keys:]) for row in rows)
    return {k[0] if keys == 1 else k: v[0] if len(v) == 1 else v for k, v in parts}


def _as_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
