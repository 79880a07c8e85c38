"""What notebook 06 runs on: its settings, made-up files, thirty columns with few known limits."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import adjusted_rand_score

from fedclust import PrivateKMeans
from fedclust_helpers import datasets
from fedclust_helpers._validation import FloatArray, IntArray
from studies.bench import samples
from studies.bench.lesson import Lesson
from studies.bench.samples import Rows

LESSON = Lesson(
    settings={
        "SEED": 6, "DATA": "visits", "EPSILON": 1.0, "DELTA": 1e-6, "K": 4, "N": 6000, "M": 5,
    },
    variations={
        "DATA": ("tumours",), "EPSILON": (0.3, 2.0), "DELTA": (1e-7,), "K": (2, 3, 5),
        "N": (569, 1000, 1500), "M": (3, 10),
    },
    streams=("visits", "lookalike", "wide"),
)  # fmt: skip
begin = LESSON.begin

GROUPS = np.array([[32, 112], [48, 150], [66, 128], [81, 168]])
"""Where the made-up visits lie: age in years, blood pressure in mmHg."""


def _visits(n: int, n_clinics: int, *, rng: np.random.Generator) -> Rows:
    labels = rng.integers(len(GROUPS), size=n)
    rows = (GROUPS[labels] + rng.normal(0, [4, 5], (n, 2))).round(1)
    lower, upper = np.array([18.0, 80.0]), np.array([98.0, 200.0])
    points = datasets.scale_to_box(rows, lower, upper).clip(-1, 1)
    return Rows(
        points, ("age", "pressure"), lower, upper, rng.integers(n_clinics, size=n), 4, labels
    )


def data(name: str, n: int = 6000, n_clinics: int = 5, *, rng: np.random.Generator) -> Rows:
    """The rows that the setting DATA names.

    Raises
    ------
    ValueError
        If there is no such data set; the message lists those that there are.
    """
    return samples.choose(name, {
        "visits": lambda: _visits(n, n_clinics, rng=rng),
        "tumours": lambda: samples.tumours(n_clinics, min(n, 569), rng=rng),
    })  # fmt: skip


class Files(NamedTuple):
    """Two files in a folder that goes when this goes: the rows, and the public bounds."""

    rows: Path
    bounds: Path
    model: Path
    folder: Any


def written(made: Rows) -> Files:
    """The rows with a column `clinic`, and the bounds with a row for each column, as CSV files."""
    folder = TemporaryDirectory()
    here = Path(folder.name)
    files = Files(here / "visits.csv", here / "bounds.csv", here / "model.json", folder)
    made.table().round(3).assign(clinic=made.owners).to_csv(files.rows, index=False)
    limits = {"column": made.names, "lower": made.lower, "upper": made.upper}
    pd.DataFrame(limits).to_csv(files.bounds, index=False)
    return files


def off_by(made: Rows, centers: ArrayLike) -> float:
    """How far the mean of a group lies from the nearest centre at most, in widths of a column."""
    assert made.labels is not None
    means = np.array([made.points[made.labels == g].mean(axis=0) for g in np.unique(made.labels)])
    middle, half = (made.lower + made.upper) / 2, (made.upper - made.lower) / 2
    found = (np.asarray(centers) - middle) / half
    off = np.abs(means[:, None] - found).max(axis=2).min(axis=1)
    return float(off.max() / 2)


def forged(model: Path) -> Path:
    """A copy of a saved model whose first centre lies at the middle of the box."""
    saved = json.loads(model.read_text())
    centers, box = saved["content"]["centers"], saved["content"]["box_centers"]
    centers[0], box[0] = [sum(c) / len(c) for c in zip(*centers, strict=True)], [0.0] * len(box[0])
    copy = model.with_name("forged.json")
    copy.write_text(json.dumps(saved))
    return copy


def lookalike(bounds: Path, k: int, *, rng: np.random.Generator) -> pd.DataFrame:
    """Rows that cost nothing: `k` groups at random places between the public bounds of the file."""
    limits = pd.read_csv(bounds)
    places = rng.uniform(-0.8, 0.8, (k, len(limits)))
    rows = places[rng.integers(k, size=2000)] + rng.normal(0, 0.1, (2000, len(limits)))
    low, high = limits.lower.to_numpy(), limits.upper.to_numpy()
    rows = datasets.scale_from_box(rows, low, high)
    return pd.DataFrame(rows, columns=list(limits.column))


# --- thirty columns -------------------------------------------------------------------------------

KNOWN: dict[str, tuple[float, float]] = {
    "age": (18, 98), "pressure": (80, 200), "pulse": (30, 220), "temperature": (34, 42),
    "weight": (30, 200), "height": (120, 220), "sodium": (110, 170), "potassium": (2, 8),
    "glucose": (2, 30), "oxygen": (70, 100),
}  # fmt: skip
"""Columns of a clinic with limits from the protocol of the measurement."""
N_MARKERS, N_PATIENTS = 20, 6000


class Wide(NamedTuple):
    """Rows with thirty columns and the column clinic; what the data dictionary knows; the truth."""

    table: pd.DataFrame
    known: dict[str, tuple[float, float]]
    rest: list[str]
    groups: IntArray


def thirty_columns(k: int, n_clinics: int, *, rng: np.random.Generator) -> Wide:
    """`N_PATIENTS` made up: ten columns with known limits, twenty markers of any size without."""
    n = N_PATIENTS
    groups = rng.integers(k, size=n)
    low, high = np.array(list(KNOWN.values()), dtype=np.float64).T
    middle = rng.uniform(0.4, 0.6, (k, len(KNOWN)))
    known = low + (middle[groups] + rng.normal(0, 0.13, (n, len(KNOWN)))).clip(0, 1) * (high - low)
    size = 10.0 ** rng.integers(-4, 6, N_MARKERS)
    shift = rng.uniform(-0.6, 0.6, (k, N_MARKERS))
    markers = size * np.exp(shift[groups] + rng.normal(0, 0.4, (n, N_MARKERS)))
    rest = [f"marker {i + 1}" for i in range(N_MARKERS)]
    table = pd.DataFrame(np.hstack([known, markers]), columns=[*KNOWN, *rest])
    owners = rng.integers(n_clinics, size=n)
    return Wide(table.assign(clinic=owners), dict(KNOWN), rest, groups)


def agreement(wide: Wide, model: PrivateKMeans) -> float:
    """How well the model's labels agree with the true groups (adjusted Rand index, 1: the same)."""
    return float(adjusted_rand_score(wide.groups, model.predict(wide.table)))


def limits(wide: Wide, model: PrivateKMeans, columns: Sequence[str]) -> pd.DataFrame:
    """Bounds that the model found, beside those that are known, and the share of rows inside.

    That share is an exact count of private rows: a lesson on made-up rows may show it, no run may.
    """
    facts, rows = model.statement().facts, {}
    found = dict(
        zip(facts["columns"], zip(facts["lower"], facts["upper"], strict=True), strict=True)
    )
    for column in columns:
        (lower, upper), known = found[column], wide.known.get(column)
        said = "nobody knows" if known is None else "{:g} to {:g}".format(*known)
        inside = wide.table[column].between(lower, upper).mean()
        rows[column] = {
            "found": f"{lower:.4g} to {upper:.4g}",
            "known": said,
            "inside": f"{inside:.1%}",
        }
    return pd.DataFrame(rows).T


def three_ways(
    wide: Wide, k: int, epsilon: float, delta: float, seeds: Sequence[int]
) -> dict[str, FloatArray]:
    """Agreement with the true groups, a number for each seed, each way at (epsilon, delta) in all.

    With the known columns alone; with bounds of all columns that the plan pays for; and as if all
    limits were known (quantiles of the rows, which no private run may look at).
    """
    oracle = {c: tuple(np.quantile(wide.table[c], [0.001, 0.999])) for c in wide.rest}
    ways: dict[str, Any] = {"known columns": wide.known, "paid for": "private"}
    ways["if all were known"] = wide.known | oracle
    found: dict[str, FloatArray] = {}
    for name, bounds in ways.items():
        values = []
        for seed in seeds:
            model = PrivateKMeans(k, epsilon, delta, bounds=bounds, mode="teaching", seed=seed)
            with warnings.catch_warnings():  # of many runs the agreement tells
                warnings.simplefilter("ignore")
                values.append(agreement(wide, model.fit(wide.table, clients="clinic")))
        found[name] = np.array(values)
    return found
