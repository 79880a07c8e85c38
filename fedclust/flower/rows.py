"""A client's rows from a file, and what to tell their holder about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from fedclust import describing, doubts
from fedclust.flower.study import Study
from fedclust.tables import read_csv, read_numbers
from fedclust_helpers._validation import FloatArray, as_points


def rows_of(study: Study, number: int, path: Path) -> tuple[FloatArray, str]:
    """A client's rows for a study, and lines about them for the eyes of their holder alone.

    ValueError, or OSError, for rows that do not fit.
    """
    if study.columns is None and path.suffix != ".npy":
        raise ValueError("columns must be in the study, where rows have names")
    rows, said = read_rows(path, study.columns, missing=study.domain == "raw")
    check_rows(study, number, rows)
    names, edges = study.columns or range(study.n_features), [0, len(rows)]
    if study.domain == "raw":
        describing.check_sizes(rows, names, "rows")
    told = doubts.unusual(rows, edges, names)
    if study.lower is not None and study.upper is not None:
        sides = np.asarray(study.lower), np.asarray(study.upper)
        told += doubts.outside(rows, edges, *sides, names)
    return rows, said + "".join(f"{path.name}, {text}\n" for text in told)


def check_rows(study: Study, number: int, rows: ArrayLike) -> FloatArray:
    """The rows (n, d) of client `number`, or ValueError where they cannot be those of a study."""
    raw = study.domain == "raw"  # numbers may be missing
    points = as_points(rows, "rows", n_features=study.n_features, finite=not raw)
    if study.trust == "local" and len(points) != (n := len(study.users_of(number))):
        raise ValueError(f"rows must be those of {n} users, got {len(points)}")
    return points


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
