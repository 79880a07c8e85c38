"""What notebook 06 tries: a decision table, wide bounds, seven mistakes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust import PrivateKMeans
from studies.bench.samples import Rows
from studies.own_data.lesson import Files

AS_PLANNED: dict[str, Any] = {"n_clusters": (), "epsilon": (), "n_rounds": ()}
"""A rehearsal that changes nothing."""


FOUR = ("masked", "serverless", "trusted", "local")
"""Kinds of trust that the lesson compares."""


def decide(
    ask: Mapping[str, Any], private: Any, public: Any, trusts: Sequence[str] = FOUR, **tried: Any
) -> pd.DataFrame:
    """A row for each kind of trust: who sees what and how many bytes (plan), the cost (rehearsed).

    `ask` are the other parameters of `PrivateKMeans`. Rows of `private` belong to the clients that
    its column clinic names; under local and shuffled trust each is a client of its own.
    """
    rows = {}
    for trust in trusts:
        given: dict[str, Any] = {**ask, "trust": trust}
        estimator, alone = PrivateKMeans(**given), trust in ("local", "shuffled")
        those = private.drop(columns="clinic") if alone else private
        facts = estimator.preview(those, clients=None if alone else "clinic").facts
        rows[trust] = {
            "the server sees": dict(facts["sees"]).get("server", "there is none"),
            "noise from": facts["noise_from"], "kB of all": round(facts["planned_bytes"] / 1000),
            "cost / no noise": round(estimator.rehearse(public, **AS_PLANNED | tried).ratio[0], 2),
        }  # fmt: skip
    return pd.DataFrame(rows).T.infer_objects()


def nearby(
    ask: Mapping[str, Any], public: Any, ks: Sequence[int] = (-1, 1),
    factors: Sequence[float] = (0.01, 0.25), **tried: Any,
) -> pd.DataFrame:  # fmt: skip
    """The rehearsal of other k and epsilon, one at a time: what a plan predicts, what it costs.

    `ks` are added to the k that is asked for, where that leaves one; `factors` are for epsilon.
    """
    estimator, k = PrivateKMeans(**ask), ask["n_clusters"]
    other = {"n_clusters": tuple(k + more for more in ks if k + more > 0),
             "epsilon": tuple(factor * ask["epsilon"] for factor in factors)}  # fmt: skip
    table = estimator.rehearse(public, **AS_PLANNED | other | tried).round(3)
    return table[["n_clusters", "epsilon", "nicv", "ratio", "too_few_rows"]]


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


def attempt(what: str, action: Callable[[], Any], word: str = "") -> bool:
    """Run it; print the error, or the first warning, that comes of it; whether that has `word`."""
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
    return said is not None and word in str(said)


def mistakes(table: pd.DataFrame, files: Files, *, epsilon: float, **asked: Any) -> list[bool]:
    """Six mistakes, each with what comes of it; whether that is about this mistake."""
    columns = [c for c in table if c != "clinic"]
    gaps, few = table.copy(), table[: len(table) // 10]
    gaps.loc[7, columns[0]] = np.nan

    def fit(rows: pd.DataFrame, clients: str | None = "clinic", **given: Any) -> Callable[[], Any]:
        asks: dict[str, Any] = {"epsilon": epsilon, **asked, **given}
        return lambda: PrivateKMeans(**asks).fit(rows, clients=clients)

    bounds: dict[str, Any] = {"bounds": files.bounds}
    return [
        attempt("1 no bounds", fit(table), "must be given"),
        attempt("2 bounds read off the rows", fit(table, public_data=True), "read off the data"),
        attempt("3 bounds of other units", fit(table, bounds=(0, 1)), "are not within 0 to 1"),
        attempt("4 missing values", fit(gaps, **bounds), "missing values"),
        attempt(
            "5 nobody owns a row", fit(table[columns], None, **bounds), "clients must be given"
        ),
        attempt("6 too few rows", fit(few, epsilon=epsilon / 50, **bounds), "too few rows"),
    ]
