"""The types of a signature, checked: `@checked` refuses an argument of the wrong kind by its name.

A public function says in its signature what it takes. With the decorator a call that gives another
kind of thing ends with "NAME must be ..., got ..." before anything is computed. Hints of the form
``Annotated[float, check]`` (the ranges of `_validation`) are checked by ``check(value, name)``, and
the function gets what that returns.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import short

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[Any, str], Any]
Test = Callable[[Any], bool]
Kind = tuple[Test, str]  # a test of values, and what is wanted in words


def checked(function: F) -> F:
    """Refuse arguments that are not of the kind that the signature of `function` says.

    For a class (above ``@dataclass``) the arguments of its own constructor and of its own public
    methods are checked. Hints are read at the first call; defaults are not checked.

    Then TypeError for an argument of another kind; ValueError if it is nan, out of the range of its
    hint, or not one of the words of a ``Literal``.
    """
    if not isinstance(function, type):
        return _checking(function)
    for name, member in list(vars(function).items()):
        inner = getattr(member, "__func__", member)  # of a classmethod
        if name == "__init__":
            setattr(function, name, _checking(inner, function))
        elif isinstance(inner, types.FunctionType) and name[0] != "_":
            if inner.__code__.co_argcount + inner.__code__.co_kwonlyargcount > 1:
                made = _checking(inner)
                setattr(function, name, made if inner is member else type(member)(made))
    return function


def check_fields(record: Any) -> None:
    """Check the fields of a dataclass by their hints: for classes that others may derive from.

    A derived dataclass has a constructor of its own, which is not ``@checked`` unless it says so.
    """
    for name, check in _field_checks(type(record)):  # type: ignore[arg-type]
        check(getattr(record, name), name)


@functools.cache
def _field_checks(kind: type) -> tuple[tuple[str, Check], ...]:
    hints = hints_of(getattr(kind, "__init__"), kind)  # noqa: B009
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    found = ((name, check_of(hints.get(name, Any))) for name in names)
    return tuple((name, check) for name, check in found if check is not None)


def _checking(function: F, owner: type | None = None) -> F:
    """The function, or the constructor of `owner`, with its arguments checked."""
    prepared: list[tuple[list[str], dict[str, Check]]] = []  # whole at once, or not at all

    def prepare() -> tuple[list[str], dict[str, Check]]:
        hints, names, checks = hints_of(function, owner), [], {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(name)
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                found = check_of(hints.get(name, Any))
                if found is not None:
                    checks[name] = found
        return names, checks

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not prepared:
            prepared.append(prepare())
        names, checks = prepared[0]
        given = [
            checks[name](value, name) if name in checks else value
            for name, value in zip(names, args, strict=False)
        ]
        for name in kwargs:
            if name in checks:
                kwargs[name] = checks[name](kwargs[name], name)
        return function(*given, *args[len(given) :], **kwargs)

    return call  # type: ignore[return-value]


def check_of(hint: Any) -> Check | None:
    """The check that a hint asks for: ``check(value, name)`` gives the value; None if all is fine.

    It raises for other values. Only a range changes what it lets through, into a float, say.
    """
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        inner = tuple(one for one in get_args(hint) if one is not type(None))
        if len(inner) == 1 and get_origin(inner[0]) is typing.Annotated:
            within = check_of(inner[0])
            return lambda v, name: v if v is None or within is None else within(v, name)
    if get_origin(hint) is typing.Annotated:
        ranges = [one for one in hint.__metadata__ if callable(one)]
        if ranges:
            return typing.cast(Check, ranges[0])
    kind = test_of(hint)
    if kind is None:
        return None
    test, what = kind

    def check(value: Any, name: str) -> Any:
        if not test(value):
            _refuse(name, value, what)
        return value

    return check


def _refuse(name: str, value: Any, what: str) -> typing.NoReturn:
    if isinstance(value, float | np.floating) and value != value and "number" in what:
        raise ValueError(f"{name} must be a number, got nan")
    if what.startswith("one of"):
        raise ValueError(f"{name} must be {what}; got {short(value)}")
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise TypeError(f"{name} must be {what}, got {got}")


def hints_of(function: Callable[..., Any], owner: type | None = None) -> dict[str, Any]:
    """The type hints of the arguments, read where they were written.

    A field that a dataclass inherits is read in the module of the class that declares it. Raises
    NameError for a name that is not defined there: a check must not be left out in silence.
    """
    space = getattr(inspect.unwrap(function), "__globals__", {})
    declared: dict[str, dict[str, Any]] = {}
    for kind in reversed(owner.__mro__ if owner else ()):
        there = vars(sys.modules[kind.__module__])
        declared |= dict.fromkeys(vars(kind).get("__annotations__", ()), there)
    return {
        name: eval(hint, declared.get(name, space)) if isinstance(hint, str) else hint
        for name, hint in getattr(function, "__annotations__", {}).items()
        if name != "return"
    }


# --- what a hint asks for -------------------------------------------------------------------------


def test_of(hint: Any) -> Kind | None:
    """A test of values for a type hint, and what is wanted in words; None where all is fine."""
    if hint in (Any, inspect.Parameter.empty, object) or isinstance(hint, TypeVar):
        return None
    if hint is None or hint is type(None):
        return (lambda v: v is None), "None"
    origin, inner = get_origin(hint), get_args(hint)
    if hint == ArrayLike or np.ndarray in (origin, hint):
        return is_numeric, "an array of real numbers"
    if origin is typing.Annotated:
        return test_of(inner[0])
    if origin in (Union, types.UnionType):
        tests = [found for one in inner if (found := test_of(one)) is not None]
        if len(tests) < len(inner):
            return None
        words = " or ".join(dict.fromkeys(what for _, what in tests))
        return (lambda v: any(test(v) for test, _ in tests)), words
    if origin is Literal:
        words = ", ".join(str(w) for w in inner)
        return (lambda v: isinstance(v, str | int) and v in inner), f"one of {words}"
    if Callable in (origin, hint) or hint is typing.Callable:
        return is_function, "a function"
    return _plain(hint) if origin is None else _container(origin, inner)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


_PLAIN: dict[Any, Kind] = {
    bool: (_is_flag, "True or False"),
    int: (lambda v: type(v) is int or isinstance(v, Integral) and not _is_flag(v), "an integer"),
    float: (
        lambda v: (type(v) is float or isinstance(v, Real) and not _is_flag(v)) and v == v,
        "a real number",
    ),
    str: (lambda v: isinstance(v, str), "a string"),
    bytes: (lambda v: isinstance(v, bytes), "bytes"),
    np.random.Generator: (
        lambda v: isinstance(v, np.random.Generator),
        "a numpy.random.Generator",
    ),
}


def _plain(hint: Any) -> Kind | None:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if not isinstance(hint, type):
        return None
    if getattr(hint, "_is_protocol", False):
        members = _members(hint)
        return (lambda v: _offers(v, members)), f"a {hint.__name__}"
    article = "an" if hint.__name__[0] in "AEIO" else "a"
    return (lambda v: isinstance(v, hint)), f"{article} {hint.__name__}"


def _container(origin: Any, inner: tuple[Any, ...]) -> Kind | None:
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
    # an iterator is not used up here
    return not hasattr(values, "__len__") or all(test(value) for value in values)


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
    except (TypeError, ValueError, OverflowError):
        return False
    return array.dtype.kind in "fiub"


def _members(protocol: type) -> frozenset[str]:
    found: set[str] = set()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base.__name__ != "Protocol":
            found |= {*vars(base), *getattr(base, "__annotations__", {})}
    return frozenset(name for name in found if not name.startswith("_"))


def _offers(value: Any, members: frozenset[str]) -> bool:
    return not isinstance(value, type) and all(
        hasattr(type(value), name) or hasattr(value, name) for name in members
    )
