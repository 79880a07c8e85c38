"""Checks of arguments, used by every public function before any data is read or budget spent.

Messages name the argument and what was expected. They never quote values of private data: a
message may be seen by another party. The ranges at the end go with `@checked` (module `_checked`):
an argument that is hinted ``Positive`` is checked, and made a float, before its function runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
T = TypeVar("T")

MAX_NUMBERS = 2**33  # 64 GiB of floats: what no call of this package may ask for by mistake


def unmasked(values: T, name: str) -> T:
    """Return `values`; TypeError if they are, or hold at any depth, a masked array.

    numpy would make an array of what lies behind the mask, and nobody would see it.
    """
    if _holds_masks(values):
        raise TypeError(
            f"{name} must be an array of real numbers, or of names, without masked entries: fill"
            " or drop them first"
        )
    return values


def _holds_masks(values: Any) -> bool:
    if isinstance(values, np.ma.MaskedArray):
        return True
    if isinstance(values, Mapping):
        return any(map(_holds_masks, values.values()))
    if hasattr(values, "dtypes") and hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy() if "object" in np.ravel(values.dtypes).astype(str) else ()
    if isinstance(values, np.ndarray):
        values = values.ravel().tolist() if values.dtype == object else ()
    if not isinstance(values, list | tuple) or set(map(type, values)) <= _BARE:
        return False
    return any(map(_holds_masks, values))


_BARE = {float, int, bool, str}  # nothing lies within


def _real_array(values: Any, name: str, of_shape: str = "") -> NDArray[Any]:
    unmasked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            if array.dtype.kind in "cSUMm":
                raise TypeError
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of real numbers{of_shape}") from None
    return array


def as_points(
    points: ArrayLike, name: str = "points", *, n_features: int | None = None, finite: bool = True
) -> FloatArray:
    """Return `points` as a finite C-contiguous float64 array (n, d), copied only if needed.

    TypeError if the values are not real numbers; ValueError if the shape is not (n, d) with n, d >=
    1, if `n_features` differs, or if a value is not finite (unless the caller looks: `finite`).
    """
    array = _real_array(points, name, " of shape (n, d)")
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), got {array.ndim} dimension(s)")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one row and one column, got {array.shape}")
    if n_features is not None and array.shape[1] != n_features:
        raise ValueError(f"{name} must have {n_features} columns, got {array.shape[1]}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    # one pass without a temporary mask: a sum of finite values may overflow, so look closer then
    with np.errstate(over="ignore", invalid="ignore"):
        fine = not finite or np.isfinite(array.sum()) or np.isfinite(array).all()
    if not fine:
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    return array


def check_int(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return `value` as an int within [minimum, maximum]; bool and float are refused."""
    if type(value) is not int and (
        isinstance(value, bool | np.bool_) or not isinstance(value, Integral)
    ):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    value = int(value)
    if value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and <= {maximum}"
        raise ValueError(f"{name} must be >= {minimum}{upper}, got {value}")
    return value


def check_real(value: Any, name: str) -> float:
    """Return `value` as a float that is not nan."""
    if type(value) is not float and (
        isinstance(value, bool | np.bool_) or not isinstance(value, Real)
    ):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    try:
        value = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be below 1.8e308 in size") from None
    if math.isnan(value):
        raise ValueError(f"{name} must be a number, got nan")
    return value


def check_positive(value: Any, name: str, *, finite: bool = True) -> float:
    """Return `value` as a float > 0 (and finite, unless `finite` is False)."""
    value = check_real(value, name)
    if value <= 0 or (finite and math.isinf(value)):
        raise ValueError(f"{name} must be {'finite and ' if finite else ''}> 0, got {value}")
    return value


def check_non_negative(value: Any, name: str) -> float:
    """Return `value` as a finite float >= 0."""
    value = check_real(value, name)
    if value < 0 or math.isinf(value):
        raise ValueError(f"{name} must be finite and >= 0, got {value}")
    return value


def check_level(value: Any, name: str) -> float:
    """A number that is at least 0; infinity is allowed: a privacy level without any promise."""
    value = check_real(value, name)
    if value < 0:
        raise ValueError(f"{name} must be >= 0, got {value}")
    return value


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a privacy parameter epsilon: finite and > 0."""
    return check_positive(value, name)


def check_delta(value: Any, name: str = "delta", *, allow_zero: bool = False) -> float:
    """Return a privacy parameter delta in (0, 1), or [0, 1) when `allow_zero` (pure mechanisms)."""
    value = check_real(value, name)
    if not (0 <= value < 1) or (value == 0 and not allow_zero):
        raise ValueError(f"{name} must lie in {'[0, 1)' if allow_zero else '(0, 1)'}, got {value}")
    return value


def check_share(value: Any, name: str, *, zero: bool = False, one: bool = False) -> float:
    """Return a share of a whole: a float in (0, 1), with 0 or 1 where `zero` or `one` say so."""
    value = check_real(value, name)
    if not (0 < value < 1 or (zero and value == 0) or (one and value == 1)):
        limits = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"{name} must lie in {limits}, got {value}")
    return value


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {short(value)}")
    return str(value)


def check_bool(value: Any, name: str) -> bool:
    """Return `value` as a bool; 0, 1 and "yes" are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def check_instance(value: Any, kind: type[T], name: str, *, what: str = "") -> T:
    """Return `value` if it is an instance of `kind`.

    `what` says in words what is wanted, where the name of the class does not ("a mechanism for each
    part").
    """
    if not isinstance(value, kind):
        wanted = what or f"a {kind.__name__}"
        got = value.__name__ if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{name} must be {wanted}, got {got}")
    return value


def as_numbers(
    values: Any,
    name: str,
    *,
    ndim: int | None = None,
    largest: float = math.inf,
    empty: bool = False,
) -> FloatArray:
    """Return `values` as a finite float64 array, of any shape or of `ndim` dimensions.

    TypeError if they are not real numbers; ValueError if the number of dimensions differs, if there
    are none (unless `empty`), or if one is not finite or beyond `largest` in magnitude.
    """
    array = _real_array(values, name)
    if array.dtype.kind == "b" and array.ndim == 0:
        raise TypeError(f"{name} must be real numbers, got bool")
    array = array.astype(np.float64, copy=False)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    if array.size == 0 and not empty:
        raise ValueError(f"{name} must not be empty")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    if math.isfinite(largest) and array.size and np.abs(array).max() > largest:
        raise ValueError(f"{name} must be at most {largest:g} in magnitude")
    return array


def as_bound(value: Any, name: str, n_features: int) -> FloatArray:
    """A public bound of each of `n_features` columns, finite: a number, or one for each column."""
    side = as_numbers(value, name)
    if side.shape not in ((), (n_features,)):
        raise ValueError(f"{name} must be a number or {n_features} numbers, one for each column")
    return np.broadcast_to(side, (n_features,))


def as_integers(
    values: Any,
    name: str,
    *,
    n: int | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
) -> IntArray:
    """Return `values` as an int64 array (n,) within [minimum, maximum].

    TypeError if they are not integers (floats and bools are none); ValueError if the shape is not
    (n,), or if one is out of range. Values are not quoted.
    """
    unmasked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of integers of shape (n,)") from None
    if array.ndim != 1 or (n is not None and len(array) != n):
        raise ValueError(f"{name} must be {'' if n is None else f'{n} '}integers of shape (n,)")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be below 2^63")
    limits = [f">= {minimum}"] * (minimum is not None) + [f"<= {maximum}"] * (maximum is not None)
    low = minimum is not None and array.size > 0 and array.min() < minimum
    high = maximum is not None and array.size > 0 and array.max() > maximum
    if low or high:
        raise ValueError(f"{name} must be {' and '.join(limits)}")
    return array.astype(np.int64, copy=False)


def check_fits(n_numbers: float, name: str, *, limit: float = MAX_NUMBERS) -> None:
    """Refuse a size, by a public count of the numbers it needs, before memory runs out."""
    if not n_numbers <= limit:
        raise ValueError(f"{name} is too large: it needs {n_numbers:.3g} numbers, over {limit:.3g}")


def short(value: Any) -> str:
    """A value in a message: arrays and long texts are not written out."""
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"{value.__name__ if isinstance(value, type) else type(value).__name__} object"


def check_rng(rng: Any, name: str = "rng") -> np.random.Generator:
    """Return `rng` if it is a numpy Generator (integers and None are refused on purpose)."""
    return check_instance(rng, np.random.Generator, name, what="a numpy.random.Generator")


# --- ranges, for the hints of `@checked` functions ------------------------------------------------

Count = Annotated[int, check_int]
Natural = Annotated[int, partial(check_int, minimum=0)]
Number = Annotated[float, check_real]  # not nan
Positive = Annotated[float, check_positive]
NonNegative = Annotated[float, check_non_negative]
Epsilon = Annotated[float, check_epsilon]
Delta = Annotated[float, check_delta]
DeltaOrZero = Annotated[float, partial(check_delta, allow_zero=True)]
Share = Annotated[float, check_share]  # in (0, 1)
Rate = Annotated[float, partial(check_share, one=True)]  # in (0, 1]
