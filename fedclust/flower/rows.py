"""A client's rows from a file, and what to tell their holder about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedclust.tables import read_csv, read_numbers
from fedclust_helpers._validation import FloatArray


def read_rows(
    path: Path, columns: Sequence[str] | None, *, missing: bool = False
) -> tuple[FloatArray, str]:
    """The rows of a .csv (n, d) in the columns of a study, and what to tell about its others.

    Columns are found by their names, others are left out; without `columns` all are taken. With
    `missing`, values may be missing (nan), else they are refused. An .npy has no names: all of it
    is taken. ValueError names file, line, column and the kind of what is wrong there; OSError for a
    file that cannot be read.
    """
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False), ""
    table = read_csv(path)
    rows, _ = read_numbers(table, path.name, columns=columns, gaps=missing)
    names = table.column_names
    wanted = names if columns is None else list(columns)
    said = ""
    if others := [name for name in names if name not in wanted]:
        said = f"{path.name}: columns that the study has not are left out: {', '.join(others)}\n"
    if wanted != [name for name in names if name in wanted]:
        said += f"{path.name}: columns are taken by name, in the order {', '.join(wanted)}\n"
    return rows, said
