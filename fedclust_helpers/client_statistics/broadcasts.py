"""What a server sends with its question, checked whole before anything is charged or computed.

Each number becomes one Python number here, and each list of numbers one array of floats:
sensitivity and statistic get the same. A numpy float of few bits would overflow in the statistic
alone, and a number of a type of its own may have two values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from fedclust_helpers._validation import (
    _real_array,
    as_numbers,
    check_fits,
    check_instance,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
    check_share,
)

LARGEST = 1e150  # magnitude of what an array may hold: its squares can be added up
LARGEST_NUMBER = 1e200  # of a number: the square of the largest bound that has a sensitivity
MAX_NUMBERS = 2**30  # of one array: 8 GiB

Takes = Mapping[str, str | Callable[[Any, str], Any]]
"""What a statistic takes by name: the sizes of a float array ("k d"), or a check of a number."""

POSITIVE, NOT_NEGATIVE, REAL = check_positive, check_non_negative, check_real
STEPS = partial(check_int, minimum=0, maximum=1_000_000)
COUNTED = partial(check_int, maximum=1_000_000)
MARGIN = partial(check_share, one=True)


def plain(value: Any, name: str) -> Any:
    """A number as a Python number, numbers as floats (...); names and models' forms as they are."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__array__") or isinstance(value, Sequence):
        array = _real_array(value, name)
        if array.ndim:
            check_fits(array.size, name, limit=MAX_NUMBERS)
            with np.errstate(over="ignore"):  # wide floats: infinite then, and refused
                return np.ascontiguousarray(as_numbers(array, name, largest=LARGEST, empty=True))
        value = array[()]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, Real):
        return value
    number: Any = int(value) if isinstance(value, Integral) else check_real(value, name)
    if not -LARGEST_NUMBER <= number <= LARGEST_NUMBER:
        raise ValueError(f"{name} must be at most {LARGEST_NUMBER:g} in magnitude")
    return number


def checked_broadcast(
    given: Mapping[str, Any], takes: Takes, rule: Callable[..., None] | None, n_features: int
) -> dict[str, Any]:
    """All arguments of a broadcast as numbers and arrays of the sizes that `takes` says.

    ValueError or TypeError names the argument that is wrong. Equal letters are equal sizes, d is
    the number of features. Names that `takes` does not know are made plain, no more.
    """
    broadcast = {name: plain(value, name) for name, value in given.items()}
    sizes = {"d": n_features}
    for name, wanted in takes.items():
        if name not in broadcast:
            continue  # it has a default, or the statistic will miss it
        value = broadcast[name]
        if not isinstance(wanted, str):
            broadcast[name] = wanted(value, name)
            continue
        shape = check_instance(value, np.ndarray, name, what="an array of numbers").shape
        letters = wanted.split()
        fits = len(shape) == len(letters) and value.size > 0
        if not fits or any(
            sizes.setdefault(x, n) != n for x, n in zip(letters, shape, strict=True)
        ):
            known = ", ".join(str(sizes.get(x, x)) for x in letters)
            raise ValueError(f"{name} must have shape ({known}), got {shape}")
    if rule is not None:
        rule(**broadcast)
    return broadcast
