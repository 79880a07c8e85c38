"""What the notebook on own data tries: made-up files, a decision table, wide bounds, mistakes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers.estimators import FastLloydKMeans

GROUPS = np.array([[32, 112], [48, 150], [66, 128], [81, 168]])
"""Where the made-up visits lie: age in years, blood pressure in mmHg."""
LOWER, UPPER = np.array([18, 80]), np.array([98, 200])


def write_files(folder: Path, n: int, n_clinics: int, *, rng: np.random.Generator) -> None:
    """Write `n` made-up visits to visits.csv, and the public bounds to bounds.csv."""
    rows = GROUPS[rng.integers(len(GROUPS), size=n)] + rng.normal(0, [4, 5], (n, 2))
    visits = pd.DataFrame(rows.round(1), columns=["age", "pressure"])
    visits["clinic"] = [f"clinic {c}" for c in rng.integers(n_clinics, size=n)]
    visits.to_csv(folder / "visits.csv", index=False)
    limits = "column,lower,upper\nage,18,98\npressure,80,200\n"
    (folder / "bounds.csv").write_text(limits, encoding="utf-8")


def synthetic(k: int, *, rng: np.random.Generator) -> pd.DataFrame:
    """Visits that cost nothing: `k` groups at random places between the public bounds."""
    places = rng.uniform(LOWER + [8, 12], UPPER - [8, 12], (k, 2))
    rows = places[rng.integers(k, size=2000)] + rng.normal(0, 5, (2000, 2))
    return pd.DataFrame(rows, columns=["age", "pressure"])


def decide(
    doors: Mapping[str, tuple[Any, Mapping[str, Any]]], private: Any, public: Any, **tried: Any
) -> pd.DataFrame:
    """A row for each door: who sees what and how many bytes (its plan), and the cost (a rehearsal).

    `doors` are estimators with the further arguments of their `preview`.
    """
    rows = {}
    for name, (door, whose) in doors.items():
        facts = door.preview(private, **whose).facts
        rows[name] = {
            "the server sees": dict(facts["sees"]).get("server", "no server takes part"),
            "noise from": facts["noise_from"], "kB of all": facts["planned_bytes"] / 1000,
            "cost / no noise": door.rehearse(public, **tried).ratio[0],
        }  # fmt: skip
    return pd.DataFrame(rows).T.infer_objects()


def too_wide(
    public: pd.DataFrame, factors: Sequence[float], settings: Mapping[str, Any], **tried: Any
) -> list[float]:
    """Cost against that without noise, for bounds so many times too wide around their middle."""
    middle, half = (LOWER + UPPER) / 2, (UPPER - LOWER) / 2
    ratios = []
    for f in factors:
        door = FastLloydKMeans(lower=middle - f * half, upper=middle + f * half, **settings)
        ratios.append(door.rehearse(public.to_numpy(), **tried).ratio[0])
    return ratios


def attempt(what: str, action: Callable[[], Any]) -> bool:
    """Run it; print the error, or the first warning, that comes of it, and say whether one did."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said: Any = None
        try:
            action()
        except (ValueError, TypeError, RuntimeError) as error:
            said = error
    if said is None and caught:
        said = caught[0].message
    if said is not None:
        print(f"{what}: {type(said).__name__}\n    {said}")
    return said is not None
