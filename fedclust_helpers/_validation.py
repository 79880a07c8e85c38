"""Checks of arguments, used by every public function before any data is read or budget spent.

Messages name the argument and what was expected. They never quote values of private data: a
message may be seen by another party.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_points(
    points: ArrayLike, name: str = "points", *, n_features: int | None = None
) -> FloatArray:
    """Return `points` as a finite C-contiguous float64 array (n, d), copied only if needed.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If the shape is not (n, d) with n, d >= 1, if `n_features` differs, or if a value is not
        finite.
    """
    try:
        if isinstance(points, np.ma.MaskedArray):  # nobody would see that the mask is lost
            raise TypeError
        array = np.asarray(points)
        if array.dtype.kind not in "fiub":
            if array.dtype.kind in "cSUMm":
                raise TypeError
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers of shape (n, d)") from None
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), got {array.ndim} dimension(s)")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one row and one column, got {array.shape}")
    if n_features is not None and array.shape[1] != n_features:
        raise ValueError(f"{name} must have {n_features} columns, got {array.shape[1]}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    # one pass without a temporary mask: a sum of finite values may overflow, so look closer then
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(array.sum()) or np.isfinite(array).all()
    if not finite:
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    return array


def check_int(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return `value` as an int within [minimum, maximum]; bool and float are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    value = int(value)
    if value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and <= {maximum}"
        raise ValueError(f"{name} must be >= {minimum}{upper}, got {value}")
    return value


def check_real(value: Any, name: str) -> float:
    """Return `value` as a float that is not nan."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
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


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a privacy parameter epsilon: finite and > 0."""
    return check_positive(value, name)


def check_delta(value: Any, name: str = "delta", *, allow_zero: bool = False) -> float:
    """Return a privacy parameter delta in (0, 1), or [0, 1) when `allow_zero` (pure mechanisms)."""
    value = check_real(value, name)
    if not (0 <= value < 1) or (value == 0 and not allow_zero):
        raise ValueError(f"{name} must lie in {'[0, 1)' if allow_zero else '(0, 1)'}, got {value}")
    return value


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def check_rng(rng: Any, name: str = "rng") -> np.random.Generator:
    """Return `rng` if it is a numpy Generator (integers and None are refused on purpose)."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"{name} must be a numpy.random.Generator, got {type(rng).__name__}")
    return rng
