"""What notebook 06 tries: wide bounds, and what comes of a mistake."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import Any

import pandas as pd

from fedclust import PrivateKMeans
from studies.bench.samples import Rows

AS_PLANNED: dict[str, Any] = {"n_clusters": (), "epsilon": (), "n_rounds": ()}
"""A rehearsal that changes nothing."""


def too_wide(
    made: Rows, public: pd.DataFrame, factors: Sequence[float], settings: Mapping[str, Any],
    **tried: Any,
) -> dict[str, list[float]]:  # fmt: skip
    """Cost against that without noise, for bounds so many times too wide, by method."""
    middle, half = (made.lower + made.upper) / 2, (made.upper - made.lower) / 2
    ratios: dict[str, list[float]] = {"overclustered": [], "fastlloyd": []}
    for method, found in ratios.items():
        for f in factors:
            bounds = (middle - f * half, middle + f * half)
            ask: dict[str, Any] = {"bounds": bounds, "method": method, **settings}
            estimator = PrivateKMeans(**ask)
            found.append(estimator.rehearse(public.to_numpy(), **AS_PLANNED | tried).ratio[0])
    return ratios


def attempt(what: str, action: Callable[[], Any]) -> bool:
    """Run it, and print how the error begins, or the first warning; whether there was one."""
    said: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action()
        except (ValueError, TypeError, RuntimeError) as error:
            said = error
    if said is None and caught:
        said = caught[0].message
    told = "nothing is said" if said is None else f"{type(said).__name__}: {said}"
    print(f"{what}\n    {shorten(told, 110, placeholder=' ...')}")
    return said is not None
