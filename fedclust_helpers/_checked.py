"""The types of a signature, checked: `@checked` refuses an argument of the wrong kind by its name.

It is for entry points, the functions that README, manual and lessons name: a call that gives
another kind of thing ends with "NAME must be ..., got ..." before anything is computed. What they
call trusts its arguments. Hints of the form ``Annotated[float, check]`` (the ranges of
`_validation`) are checked by ``check(value, name)``, and the function gets what that returns.
Arrays are looked at by whoever reads them (`as_points` and the like), and classes of protocols not
at all.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
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

    For a class (above ``@dataclass``) those of its own constructor. Hints are read at the first
    call; defaults are not checked.

    Then TypeError for an argument of another kind; ValueError if it is nan, out of the range of its
    hint, or not one of the words of a ``Literal``.
    """
    if not isinstance(function, type):
        return _checking(function, function)
    init = getattr(function, "__init__")  # noqa: B009
    setattr(function, "__init__", _checking(init, _hinted(function)))  # noqa: B010
    return function


def check_fields(record: Any) -> None:
    """Check the fields of a dataclass by their hints: for classes that others may derive from.

    A derived dataclass has a constructor of its own, which is not ``@checked`` unless it says so.
    """
    for name, check in _field_checks(type(record)).items():  # type: ignore[arg-type]
        check(getattr(record, name), name)


@functools.cache
def _field_checks(kind: type) -> dict[str, Check]:
    return _checks(kind, [field.name for field in dataclasses.fields(kind) if field.init])


def _hinted(kind: type) -> Any:
    """What holds the hints of a constructor: the class itself where its fields are the arguments.

    Those that it inherits are read in the module of the class that declares them.
    """
    return kind if dataclasses.is_dataclass(kind) else getattr(kind, "__init__")  # noqa: B009


def _checks(hinted: Any, names: Iterable[str]) -> dict[str, Check]:
    """The checks of arguments by name, where there is something to check."""
    hints = typing.get_type_hints(hinted, include_extras=True)
    found = ((name, check_of(hints.get(name, Any))) for name in names)
    return {name: check for name, check in found if check is not None}


def _checking(function: F, hinted: Any) -> F:
    """The function with its arguments checked by the hints of `hinted`."""

    @functools.cache
    def prepared() -> tuple[list[str], dict[str, Check]]:
        parameters = inspect.signature(function).parameters.values()
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        return [p.name for p in named if p.kind is not p.KEYWORD_ONLY], _checks(
            hinted, [p.name for p in named]
        )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        names, checks = prepared()
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


# --- what a hint asks for -------------------------------------------------------------------------


def test_of(hint: Any) -> Kind | None:
    """A test of values for a type hint, and what is wanted in words; None where all is fine."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in (Any, object, ArrayLike) or np.ndarray in (origin, hint):
        return None
    if hint is None or hint is type(None):
        return (lambda v: v is None), "None"
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
        return (lambda v: callable(v) and not isinstance(v, type)), "a function"
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
    np.random.Generator: (
        lambda v: isinstance(v, np.random.Generator),
        "a numpy.random.Generator",
    ),
}


def _plain(hint: Any) -> Kind | None:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if not isinstance(hint, type) or getattr(hint, "_is_protocol", False):
        return None
    article = "an" if hint.__name__[0] in "AEIO" else "a"
    return (lambda v: isinstance(v, hint)), f"{article} {hint.__name__}"


def _container(origin: type, inner: tuple[Any, ...]) -> Kind | None:
    """A collection by what can be done with it: a list will do for a tuple."""
    if not issubclass(origin, Iterable):
        return _plain(origin)
    if origin is tuple and inner[-1] is not Ellipsis:
        parts = [test_of(one) for one in inner]
        return (
            lambda v: (
                isinstance(v, tuple | list | np.ndarray)
                and len(v) == len(parts)
                and all(p is None or p[0](x) for p, x in zip(parts, v, strict=True))
            ),
            f"{len(parts)} values ({', '.join(p[1] if p else 'anything' for p in parts)})",
        )
    named, needed = issubclass(origin, Mapping), "__iter__" if origin is Iterable else "__len__"
    items = test_of(inner[-1 if named else 0])

    def test(value: Any) -> bool:
        if isinstance(value, Mapping) is not named or isinstance(value, str | bytes | type):
            return False
        if not hasattr(value, needed):
            return False
        # an iterator is not used up here
        return (
            items is None
            or not hasattr(value, "__len__")
            or all(map(items[0], value.values() if named else value))
        )

    if named:
        return test, "a mapping" + (f" to {items[1]}" if items else "")
    return test, "a sequence" + (f", each item {items[1]}" if items else "")
