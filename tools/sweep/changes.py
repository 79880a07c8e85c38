"""What can be wrong with one argument: changed values by the kind of the recorded one.

A change says what is expected of it: "same" (another form of the same value: the result may not
differ), "refused" (out of what is documented: accepting it is nonsense) or "any" (an edge: a
result is fine if it is finite, a clear error as well).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

Expected = Literal["same", "refused", "any"]
HUGE = 10**12


@dataclass(frozen=True)
class Change:
    """A changed value of one argument; `finite` tells whether all its numbers are."""

    kind: str
    value: Any
    expected: Expected
    finite: bool = True


class Stranger:
    """An object of a class that no function has ever heard of."""

    def __repr__(self) -> str:
        return "Stranger()"


POSITIVE = re.compile(
    r"^(epsilon|bound|radius|clip\w*|scale|std|sigma\w*|sensitivity|grid|diameter|n_\w+|max_\w+"
    r"|count\w*|size|cohort|population|rounds?|\w+_std|\w+_epsilon|rho|bits|tries|learning_rate"
    r"|\w*multiplier|amount|resolution|spread|min_\w+|dimension\w*|limit)$"
)
SHARES = re.compile(
    r"^(delta|beta|alpha|confidence|probability|false_alarm|rate|share|\w+_share|\w+_rate|fraction"
    r"|\w+_fraction|tail|margin|level|quantile|\w+_delta|gamma|failure\w*)$"
)
FREE = re.compile(r"^(name|names|title|path|folder|text|purpose|label|part|sender|receiver)$")


def is_option(name: str, annotation: str, doc: str) -> bool:
    """Whether an argument is one of a few words."""
    if "Literal" in annotation:
        return True
    listed = re.search(rf"^\s*(?:\w+, )*{re.escape(name)}(?:, \w+)* : .*\{{\"", doc, re.MULTILINE)
    words = {
        "method", "mode", "kind", "rule", "adjacency", "unit", "domain", "outside", "scheme",
        "filter", "calibration", "identifiers", "clusterer", "accountant", "trust", "filter_",
    }  # fmt: skip
    return bool(listed) or name in words


def may_be_none(parameter: inspect.Parameter | None) -> bool:
    """Whether the signature allows None."""
    if parameter is None:
        return False
    text = str(parameter.annotation)
    return parameter.default is None or "None" in text or text in ("Any", "typing.Any")


def changes(
    name: str, value: Any, parameter: inspect.Parameter | None, doc: str
) -> Iterator[Change]:
    """All changes of the argument `name` with the recorded `value`."""
    annotation = "" if parameter is None else str(parameter.annotation)
    if not may_be_none(parameter) and value is not None:
        yield Change("none", None, "refused")
    elif value is not None:
        yield Change("none", None, "any")
    if isinstance(value, bool | np.bool_):
        yield Change("text", "yes", "any")
        yield Change("number", 2, "any")
    elif isinstance(value, int | np.integer) and "float" not in annotation:
        yield from _integers(name, int(value), annotation)
    elif isinstance(value, int | float | np.integer | np.floating):
        yield from _reals(name, float(value))
    elif isinstance(value, str):
        yield from _words(name, value, annotation, doc)
    elif isinstance(value, np.ndarray):
        yield from _arrays(value)
    elif isinstance(value, pd.DataFrame | pd.Series):
        yield from _frames(value)
    elif isinstance(value, np.random.Generator):
        yield Change("seed", 3, "refused")
        yield Change("old generator", np.random.RandomState(0), "refused")
        yield Change("text", "seed", "refused")
    elif isinstance(value, Mapping):
        yield from _mappings(value)
    elif isinstance(value, list | tuple) and type(value) in (list, tuple):
        yield from _sequences(value)
    elif isinstance(value, bytes):
        yield Change("no bytes", b"", "any")
        yield Change("short", value[:1], "any")
        yield Change("text", "x" * len(value), "refused")
        yield Change("number", 3, "refused")
    elif value is None:
        yield Change("stranger", Stranger(), "refused")
        yield Change("nan", float("nan"), "refused", finite=False)
    else:
        yield from _objects(value)


def _integers(name: str, value: int, annotation: str) -> Iterator[Change]:
    yield Change("numpy", np.int64(value) if abs(value) < 2**63 else value, "same")
    yield Change("zero", 0, "any")
    yield Change("negative", -1, "refused")
    yield Change("very negative", -HUGE, "refused")
    yield Change("huge", HUGE, "any")
    real = re.search("float|Array|Number|Epsilon|Positive|NonNeg|Rate|Share", annotation)
    yield Change("half", value + 0.5, "any" if real else "refused")
    yield Change("nan", float("nan"), "refused", finite=False)
    yield Change("inf", float("inf"), "refused", finite=False)
    yield Change("text", str(value), "refused")
    yield Change(
        "list", [value], "any" if re.search("Array|Sequence|Iter", annotation) else "refused"
    )
    yield Change("bool", True, "refused")
    yield Change("stranger", Stranger(), "refused")


def _reals(name: str, value: float) -> Iterator[Change]:
    bounded = bool(POSITIVE.match(name) or SHARES.match(name))
    yield Change("numpy", np.float64(value), "same")
    if value.is_integer() and abs(value) < 2**53:
        yield Change("integer", int(value), "same")
    yield Change("zero", 0.0, "any")
    yield Change("negative", -abs(value) or -1.0, "refused" if bounded else "any")
    yield Change("tiny", 1e-300, "any")
    yield Change("huge", 1e300, "refused" if SHARES.match(name) else "any")
    yield Change("above one", 1.5, "refused" if SHARES.match(name) else "any")
    yield Change("nan", float("nan"), "refused", finite=False)
    infinite = "any" if "epsilon" in name else "refused"
    yield Change("inf", float("inf"), infinite, finite=False)  # type: ignore[arg-type]
    yield Change("-inf", float("-inf"), "refused", finite=False)
    yield Change("text", str(value), "refused")
    yield Change("complex", 1j, "refused")
    yield Change("list", [value, value], "any")
    yield Change("bool", True, "refused" if bounded else "any")
    yield Change("stranger", Stranger(), "refused")


def _words(name: str, value: str, annotation: str, doc: str) -> Iterator[Change]:
    option = is_option(name, annotation, doc)
    yield Change("unknown option", "no such option", "refused" if option else "any")
    yield Change("no text", "", "refused" if option else "any")
    yield Change("number", 3, "refused")
    yield Change("list", [value], "any" if not option else "refused")
    yield Change("stranger", Stranger(), "refused")


def _arrays(value: np.ndarray) -> Iterator[Change]:
    if value.dtype.kind not in "fiub":
        yield Change("empty", value[:0] if value.ndim else value, "any")
        yield Change("stranger", Stranger(), "refused")
        return
    numeric = value.dtype.kind in "fiu"
    writable = np.array(value)
    read_only = np.array(value)
    read_only.flags.writeable = False
    yield Change("list", value.tolist(), "any" if value.dtype.kind == "b" else "same")
    yield Change("read-only", read_only, "same")
    if value.ndim:
        wide = np.zeros((value.shape[0], *value.shape[1:-1], 2 * value.shape[-1]), value.dtype) \
            if value.ndim > 1 else np.zeros(2 * len(value), value.dtype)  # fmt: skip
        wide[..., ::2] = value
        yield Change("strided", wide[..., ::2], "same")
        yield Change("other byte order", value.astype(value.dtype.newbyteorder()), "same")
        yield Change("object", value.astype(object), "any")
        yield Change("empty", writable[:0], "any")
        yield Change("one more dimension", value[None], "any")
        yield Change("flat", value.ravel() if value.ndim > 1 else value[0] if len(value) else 0,
                     "any")  # fmt: skip
        yield Change("text", np.full(value.shape, "x"), "refused")
        yield Change("complex", value.astype(complex) + 1j, "refused")
    if value.ndim == 2:
        yield Change("pandas", pd.DataFrame(value), "any")
        if value.shape[1] > 1:
            yield Change("fewer columns", value[:, :-1], "any")
        yield Change("more columns", np.concatenate([value, value[:, :1]], axis=1), "any")
        yield Change("ragged", [[1.0, 2.0], [3.0]], "refused")
    if value.ndim == 1:
        yield Change("pandas", pd.Series(value), "any")
    if value.ndim and len(value) > 1:
        yield Change("one row", value[:1], "any")
        yield Change("one row less", value[:-1], "any")
        yield Change("duplicates", np.repeat(value[:1], len(value), axis=0), "any")
    if not numeric or value.size == 0:
        return
    first = (0,) * value.ndim
    if value.dtype.kind == "f":
        yield Change("float32", value.astype(np.float32), "any")
        yield Change("integers", np.rint(np.nan_to_num(value)).astype(np.int64), "any")
        yield Change("constant", np.zeros_like(value), "any")
        yield Change("huge", np.where(value < 0, -1e300, 1e300), "any")
    else:
        yield Change("floats", value.astype(np.float64) + 0.25, "any")
        yield Change("negative", np.where(np.arange(value.size).reshape(value.shape) == 0, -7,
                                          value.astype(np.int64)), "any")  # fmt: skip
        yield Change("huge", np.where(np.arange(value.size).reshape(value.shape) == 0, HUGE,
                                      value.astype(np.int64)), "any")  # fmt: skip
    for bad in ("nan", "inf"):
        changed = value.astype(np.float64)
        changed[first] = float(bad)
        yield Change(bad, changed, "refused", finite=False)


def _frames(value: Any) -> Iterator[Change]:
    yield Change("empty", value.iloc[:0], "any")
    yield Change("array", value.to_numpy(), "any")
    yield Change("stranger", Stranger(), "refused")
    yield Change("number", 3, "refused")
    yield Change("text", "x", "refused")


def _mappings(value: Mapping[Any, Any]) -> Iterator[Change]:
    yield Change("empty", {}, "any")
    yield Change("number", 3, "refused")
    yield Change("text", "x", "refused")
    if value:
        key = next(iter(value))
        yield Change("wrong values", {k: Stranger() for k in value}, "refused")
        yield Change("unknown key", {**value, "no such key": value[key]}, "any")
        yield Change("fewer keys", {k: v for k, v in value.items() if k != key}, "any")
        if isinstance(value[key], float | int):
            for bad in ("nan", "-1"):
                changed = {**value, key: float(bad)}
                yield Change(f"{bad} inside", changed, "refused", finite=bad != "nan")


def _sequences(value: Sequence[Any]) -> Iterator[Change]:
    same = tuple if isinstance(value, list) else list
    yield Change("other sequence", same(value), "same")
    yield Change("empty", type(value)(), "any")
    yield Change("number", 3, "any")
    yield Change("text", "x", "refused")
    yield Change("stranger", Stranger(), "refused")
    if not value:
        return
    yield Change("one", type(value)(value[:1]), "any")
    yield Change("one less", type(value)(value[:-1]), "any")
    yield Change("twice", type(value)([*value, *value]), "any")
    yield Change("none inside", type(value)([None, *value[1:]]), "any")
    yield Change("stranger inside", type(value)([Stranger(), *value[1:]]), "refused")
    first = value[0]
    if isinstance(first, np.ndarray) and first.ndim == 2 and first.dtype.kind in "fiu":
        yield Change("an empty client", type(value)([first[:0], *value[1:]]), "any")
        yield Change("a client with fewer columns", type(value)([first[:, 1:], *value[1:]]), "any")
        for bad in ("nan", "inf"):
            changed = first.astype(np.float64)
            changed[0, 0] = float(bad)
            yield Change(f"{bad} inside", type(value)([changed, *value[1:]]), "refused", False)
    elif isinstance(first, float | int) and not isinstance(first, bool):
        for bad in ("nan", "inf"):
            yield Change(
                f"{bad} inside", type(value)([float(bad), *value[1:]]),
                "any" if bad == "inf" else "refused", False,
            )  # fmt: skip
        yield Change("negative inside", type(value)([-1, *value[1:]]), "any")


def _objects(value: Any) -> Iterator[Change]:
    yield Change("stranger", Stranger(), "refused")
    yield Change("number", 3, "refused")
    yield Change("text", "x", "refused")
    if not callable(value) or inspect.isclass(type(value)):
        yield Change("its class", type(value), "refused")
