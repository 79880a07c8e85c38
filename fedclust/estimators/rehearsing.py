"""Rehearsals: a plan and its neighbours, run in teaching mode on data that costs nothing."""

from __future__ import annotations

import inspect
import secrets
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from fedclust.estimators.bounds import given_bounds
from fedclust.estimators.clients import check_rows, is_one_table
from fedclust.frames import take
from fedclust_helpers._lazy import pd
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.datasets import partition_iid

SMALLEST = 1e-12  # a cost without noise below this (rows on their centres) counts as this


def rehearse(
    estimator: Any, X: Any, y: Any, clients: Any, *, n_clusters: Any, epsilon: Any, n_rounds: Any,
    n_rows: int | None, n_clients: int, repeats: int, seed: int, progress: Progress,
) -> pd.DataFrame:  # fmt: skip
    """What an estimator's `rehearse` returns; arguments as there."""
    check_int(repeats, "repeats", maximum=1000)
    check_int(seed, "seed", minimum=0)
    check_int(n_clients, "n_clients")
    if n_rows is not None:
        check_int(n_rows, "n_rows")
    streams = np.random.SeedSequence(seed).spawn(repeats + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are a column of the table
        check_rows(X)
        _check_not_private(
            estimator,
            *_dealt(estimator, X, y, clients, None, n_clients, np.random.default_rng(streams[0])),
        )
        X, y, clients = _dealt(
            estimator, X, y, clients, n_rows, n_clients, np.random.default_rng(streams[0])
        )
        planned = _teaching(estimator, streams[1])._prepare(X, y, clients).plan
        settings = list(_settings(estimator, planned, n_clusters, epsilon, n_rounds))
        made: list[dict[str, Any]] = []
        bare: dict[Any, float] = {}  # without noise: once for each plan
        with showing(progress, len(settings) * repeats, "rehearsal") as done:
            for changed, setting in settings:
                runs = []
                for r, stream in enumerate(streams[1:]):
                    fitted = _teaching(estimator, stream, **setting).fit(X, y, clients=clients)
                    key = fitted._bare_key
                    if key not in bare:
                        bare[key] = fitted._bare(X, y, clients, np.random.default_rng(streams[1]))
                    runs.append((fitted, fitted._good(X, y, clients), bare[key]))
                    done(len(made) * repeats + r + 1)
                made.append(_row(changed, runs))
    return pd.DataFrame(made)


def remember(estimator: Any, points: FloatArray) -> None:
    """Note a keyed number of the rows of a fit, so that `rehearse` can refuse them; no row."""
    key, seen = estimator.__dict__.setdefault("_private", (secrets.randbits(64), set()))
    seen.add(_number(points, key))


def _number(points: FloatArray, key: int) -> tuple[int, ...]:
    """Shape, and a number that rows have in any order; others have it by a chance of 2^-60."""
    odd = np.random.default_rng(key).integers(2**63, size=points.shape[1] + 1, dtype=np.uint64)
    odd = 2 * odd + 1
    rows = np.zeros(len(points), dtype=np.uint64)
    for column, factor in zip(points.T, odd, strict=False):
        rows += (column + 0.0).view(np.uint64) * factor  # wraps around
    rows = (rows ^ (rows >> np.uint64(31))) * odd[-1]
    return *points.shape, int((rows ^ (rows >> np.uint64(29))).sum())


def _check_not_private(estimator: Any, X: Any, y: Any, clients: Any) -> None:
    if not hasattr(estimator, "_private"):
        return
    key, seen = estimator._private
    given = given_bounds(estimator.lower, estimator.upper, estimator.bounds, public_data=True)
    family = estimator._family(estimator._choice()[0])
    if _number(family.read(estimator, X, y, clients, given).data.points, key) in seen:
        raise ValueError(
            "X must not be the rows of a fit: a rehearsal protects nothing, shows exact costs and"
            " charges no ledger; give it public or synthetic rows"
        )


def _settings(
    estimator: Any, plan: Any, n_clusters: Any, epsilon: Any, n_rounds: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The plan as it is, then with one number changed at a time."""
    yield "as planned", {}
    k, eps, t = plan.n_clusters, float(estimator.epsilon), plan.n_rounds
    near = [] if isinstance(estimator.n_clusters, str) else [v for v in (k - 1, k + 1) if v > 0]
    for value in _values(n_clusters, "n_clusters", near):
        yield "n_clusters", {"n_clusters": value}
    for value in _values(epsilon, "epsilon", [eps / 2, eps * 2]):
        yield "epsilon", {"epsilon": value}
    method = estimator._choice()[0]
    if "n_rounds" not in inspect.signature(estimator._family(method).planner(method)).parameters:
        if n_rounds is not None and len(_values(n_rounds, "n_rounds", [])):
            raise ValueError(f"n_rounds must be None: method {method!r} has its own")
        return
    for value in _values(n_rounds, "n_rounds", [v for v in (t - 1, t + 1) if v > 0]):
        yield "n_rounds", {"n_rounds": value}


def _values(given: Any, name: str, default: list[Any]) -> Any:
    """The values to compare."""
    if given is None:
        return default
    if (
        isinstance(given, str)
        or not isinstance(given, Sequence | np.ndarray)
        or np.ndim(given) != 1
    ):
        raise TypeError(f"{name} must be a sequence of values to compare, or None")
    return given


def _teaching(estimator: Any, stream: np.random.SeedSequence, **setting: Any) -> Any:
    """A fresh estimator with this setting: no ledger of anybody's data, seeded noise."""
    made = clone(estimator.__class__(**{**estimator.get_params(deep=False), "ledger": None}))
    own = made.get_params(deep=False)
    rounds = {n: v for n, v in setting.items() if n == "n_rounds" and n not in own}
    setting = {n: v for n, v in setting.items() if n not in rounds}
    options = {**(made.options or {}), **rounds, "progress": False}
    return made.set_params(
        mode="teaching", seed=int(stream.generate_state(1)[0]), options=options, **setting
    )


def _row(changed: str, runs: list[tuple[Any, float, float]]) -> dict[str, Any]:
    fitted = runs[0][0]
    good, bare = (np.array([run[i] for run in runs]) for i in (1, 2))
    return {
        "changed": changed, "n_clusters": fitted._n_found, "epsilon": fitted.plan_.epsilon,
        "n_rounds": fitted.plan_.n_rounds, fitted._quality: float(good.mean()),
        "sd": float(good.std(ddof=1)) if len(good) > 1 else float("nan"),
        "without_noise": float(bare.mean()),
        "ratio": float(good.mean() / max(bare.mean(), SMALLEST)),
        "too_few_rows": bool(fitted._told["warnings"]),
    }  # fmt: skip


def _dealt(
    estimator: Any, X: Any, y: Any, clients: Any, n_rows: int | None, n_clients: int, rng: Any
) -> tuple[Any, Any, Any]:
    """Rows drawn to the number asked for, and dealt to clients where nothing says whose they are.

    Clients that X names stay as they are.
    """
    if not is_one_table(X):
        if n_rows is not None:
            raise ValueError("n_rows must be None where X says whose each row is")
        return X, y, clients
    if n_rows is not None:
        if clients is not None:
            raise ValueError("n_rows must be None where clients are given")
        chosen = rng.integers(len(X), size=n_rows)
        X = take(X, chosen)
        y = y if y is None or isinstance(y, str) else np.asarray(y)[chosen]
    if clients is None and not estimator._one_row_each:
        clients = partition_iid(len(X), min(n_clients, len(X)), rng=rng)
    return X, y, clients
