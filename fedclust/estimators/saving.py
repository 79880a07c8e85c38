"""Fitted estimators as JSON: what was released and the statement; no data, no secrets.

The file is described in statement.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fedclust.estimators.bounds import Bounds
from fedclust.estimators.statement import Statement
from fedclust_helpers import __version__
from fedclust_helpers._private import write_private

FORMAT = "fedclust model 1"
PARTS = ("format", "version", "estimator", "parameters", "content", "statement")
# not written: what could remove noise, what holds objects, paths of a machine, data, and
# what the statement has
LEFT_OUT = frozenset(
    {"seed", "ledger", "options", "bounds", "lower", "upper", "weights", "X_server"}
)


def settings_of(estimator: Any) -> dict[str, Any]:
    """The parameters that are written, as they are now."""
    every = estimator.get_params(deep=False)
    return {name: deepcopy(v) for name, v in every.items() if name not in LEFT_OUT}


def as_json(estimator: Any) -> dict[str, Any]:
    """What `save` writes."""
    parameters = {name: _plain(value) for name, value in estimator._asked.items()}
    return {
        "format": FORMAT, "version": __version__, "estimator": type(estimator).__name__,
        "parameters": parameters, "content": estimator._content(),
        "statement": dict(estimator.statement().facts),
    }  # fmt: skip


def save(estimator: Any, path: str | PathLike[str], *, overwrite: bool) -> None:
    """Write a fitted estimator to `path`, for this account alone: who else reads it is for you."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}")
    if Path(path).suffix != ".json":
        raise ValueError("path must end in .json")
    if not overwrite and Path(path).exists():
        raise FileExistsError(f"path {Path(path).name} exists already: overwrite=True replaces it")
    text = json.dumps(as_json(estimator), indent=1, allow_nan=False)
    write_private(Path(path), text + "\n")


def load_as(path: str | PathLike[str], kinds: Mapping[str, Any]) -> Any:
    """The estimator that was saved at `path`, of one of these classes by their names."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}")
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"it is not JSON with format {FORMAT!r}")
        lacking = [part for part in PARTS if part not in found]
        if lacking or found["estimator"] not in list(kinds):
            what = ", ".join(lacking) or "an estimator that this version knows"
            raise ValueError(f"it lacks {what}")
        return restored(kinds[found["estimator"]], found)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        wrong = f"path must be a file that `save` wrote, and {Path(path).name} is none"
        raise ValueError(f"{wrong}: {error}") from None


def restored(kind: Any, found: Mapping[str, Any]) -> Any:
    """The record of a release from what `as_json` gives."""
    facts = found["statement"]
    lower, upper = (np.asarray(facts[side], dtype=np.float64) for side in ("lower", "upper"))
    names = facts["columns"]
    sides = [
        side if names is None else dict(zip(names, side, strict=True)) for side in (lower, upper)
    ]
    model = kind(**found["parameters"], lower=sides[0], upper=sides[1])
    model._loaded = Statement(facts)
    str(model._loaded)  # all that it says is there
    model._box = Bounds(None, lower, upper).of(len(lower))
    model._asked = found["parameters"]
    model._name_features(len(lower), names)
    model._restore(found["content"])
    return model


def _plain(value: Any) -> Any:
    """A parameter as JSON keeps it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a model with a parameter of type {type(value).__name__} cannot be saved")
