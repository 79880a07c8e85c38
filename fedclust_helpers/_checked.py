"""The types of a signature, checked: `@checked` refuses an argument of the wrong kind by its name.

A public function says in its signature what it takes. With the decorator a call that gives another
kind of thing ends with "NAME must be ..., got ..." before anything is computed. Ranges are not
looked at here, apart from nan, which is no number: see `_validation`.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import short

F = TypeVar("F", bound=Callable[..., Any])
Test = Callable[[Any], bool]
_ANYTHING = (Any, inspect.Parameter.empty, object)


def checked(function: F) -> F:
    """Refuse arguments that are not of the kind that the signature of `function` says.

    For a class (above ``@dataclass``) the arguments of its own constructor are checked. Hints are
    read at the first call.

    Raises (when called)
    --------------------
    TypeError
        If an argument is of another kind.
    ValueError
        If it is nan, or not one of the words of a ``Literal``.
    """
    if isinstance(function, type):
        setattr(function, "__init__", checked(vars(function)["__init__"]))  # noqa: B010
        return function

    tests: dict[str, tuple[Test, str]] = {}
    names: list[str] = []

    def prepare() -> None:
        parameters = inspect.signature(function).parameters
        hints = _hints(function)
        for name, parameter in parameters.items():
            positional = parameter.kind in (
                inspect.Parameter.POSITIONAL_ONLY,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
            )
            names.extend([name] if positional else [])
            variable = parameter.kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD,
            )
            found = None if variable else test_of(hints.get(name, Any))
            if found is not None:
                tests[name] = found
        names.append("")  # not empty: prepared

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not names:
            prepare()
        for name, value in zip(names, args, strict=False):
            if name in tests:
                _check(name, value, *tests[name])
        for name, value in kwargs.items():
            if name in tests:
                _check(name, value, *tests[name])
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _check(name: str, value: Any, test: Test, what: str) -> None:
    if test(value):
        return
    if isinstance(value, float | np.floating) and value != value and "number" in what:
        raise ValueError(f"{name} must be a number, got nan")
    if what.startswith("one of"):
        raise ValueError(f"{name} must be {what}; got {short(value)}")
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise TypeError(f"{name} must be {what}, got {got}")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints that can be understood here; names that are not defined are left out."""
    raw = {k: v for k, v in getattr(function, "__annotations__", {}).items() if k != "return"}
    space = getattr(inspect.unwrap(function), "__globals__", {})
    out = {}
    for name, hint in raw.items():
        try:
            out[name] = eval(hint, space) if isinstance(hint, str) else hint
        except (NameError, TypeError, AttributeError):
            continue
    return out


# --- what a hint asks for -------------------------------------------------------------------------


def test_of(hint: Any) -> tuple[Test, str] | None:
    """A test of values for a type hint, and what is wanted in words; None where all is fine."""
    if hint in _ANYTHING or isinstance(hint, TypeVar):
        return None
    if hint is None or hint is type(None):
        return (lambda v: v is None), "None"
    if hint == ArrayLike:
        return is_numeric, "an array of real numbers"
    origin, inner = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return test_of(inner[0])
    if origin in (Union, types.UnionType):
        return _any_of([test_of(one) for one in inner])
    if origin is Literal:
        words = ", ".join(str(w) for w in inner)
        return (lambda v: isinstance(v, str | int) and v in inner), f"one of {words}"
    if origin is np.ndarray or hint is np.ndarray:
        return is_numeric, "an array of real numbers"
    if origin is not None:
        return _container(origin, inner)
    return _plain(hint)


def _any_of(found: Sequence[tuple[Test, str] | None]) -> tuple[Test, str] | None:
    tests = [f for f in found if f is not None]
    if len(tests) < len(found):
        return None
    words = list(dict.fromkeys(what for _, what in tests))
    return (lambda v: any(test(v) for test, _ in tests)), " or ".join(words)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


_PLAIN: dict[Any, tuple[Test, str]] = {
    bool: (_is_flag, "True or False"),
    int: (lambda v: isinstance(v, Integral) and not _is_flag(v), "an integer"),
    float: (lambda v: isinstance(v, Real) and not _is_flag(v) and v == v, "a real number"),
    str: (lambda v: isinstance(v, str), "a string"),
    bytes: (lambda v: isinstance(v, bytes), "bytes"),
    np.random.Generator: (
        lambda v: isinstance(v, np.random.Generator),
        "a numpy.random.Generator",
    ),
}


def _plain(hint: Any) -> tuple[Test, str] | None:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is Callable or hint is typing.Callable:
        return is_function, "a function"
    if not isinstance(hint, type):
        return None
    if getattr(hint, "_is_protocol", False):
        members = _members(hint)
        return (lambda v: _offers(v, members)), f"a {hint.__name__}"
    article = "an" if hint.__name__[0] in "AEIO" else "a"
    return (lambda v: isinstance(v, hint)), f"{article} {hint.__name__}"


def _container(origin: Any, inner: tuple[Any, ...]) -> tuple[Test, str] | None:
    if origin is Callable or origin is typing.get_origin(typing.Callable[..., Any]):
        return is_function, "a function"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        items = test_of(inner[1]) if len(inner) == 2 else None
        return (
            lambda v: isinstance(v, Mapping) and (items is None or all(map(items[0], v.values()))),
            "a mapping" + (f" to {items[1]}" if items else ""),
        )
    if not (isinstance(origin, type) and issubclass(origin, Iterable)):
        return _plain(origin)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        parts = [test_of(one) for one in inner]
        return (
            lambda v: (
                isinstance(v, tuple | list | np.ndarray)
                and len(v) == len(parts)
                and all(p is None or p[0](x) for p, x in zip(parts, v, strict=True))
            ),
            f"{len(parts)} values ({', '.join(p[1] if p else 'anything' for p in parts)})",
        )
    items = test_of(inner[0]) if inner else None
    sized = issubclass(origin, Sequence | set | frozenset)
    return (
        lambda v: _is_collection(v, sized=sized) and (items is None or _all_are(v, items[0])),
        "a sequence" + (f", each item {items[1]}" if items else ""),
    )


def _is_collection(value: Any, *, sized: bool) -> bool:
    if isinstance(value, str | bytes | Mapping | type):
        return False
    return hasattr(value, "__len__") if sized else hasattr(value, "__iter__")


def _all_are(values: Any, test: Test) -> bool:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiu":
        return len(values) == 0 or test(values[0])
    if not hasattr(values, "__len__"):
        return True  # an iterator is not used up here
    return all(test(value) for value in values)


def is_function(value: Any) -> bool:
    """Whether `value` can be called and is not the class of something."""
    if isinstance(value, type):
        return value.__module__ == "builtins" and value is not types.FunctionType
    return callable(value)


def is_numeric(value: Any) -> bool:
    """Whether numpy takes `value` for an array of real numbers; nan and infinities are."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return True
    if isinstance(value, str | bytes | type) or value is None:
        return False
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return array.dtype.kind in "fiub"


def _members(protocol: type) -> frozenset[str]:
    found: set[str] = set()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base.__name__ != "Protocol":
            found |= {n for n in vars(base) if not n.startswith("_")}
            found |= {n for n in getattr(base, "__annotations__", {}) if not n.startswith("_")}
    return frozenset(found)


def _offers(value: Any, members: frozenset[str]) -> bool:
    if isinstance(value, type):
        return False
    own = getattr(value, "__dict__", {})
    return all(
        hasattr(type(value), name) or name in own or hasattr(value, name) for name in members
    )
