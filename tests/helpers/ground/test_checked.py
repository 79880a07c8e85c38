"""The types of a signature, checked: what passes, what is refused, and by which name."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from fractions import Fraction
from typing import Any, Literal, get_type_hints

import numpy as np
import pytest
from conftest import refuses
from numpy.typing import ArrayLike

import fedclust_helpers as package
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Epsilon, Natural, Share
from fedclust_helpers.accounting import Budget
from fedclust_helpers.mechanisms import DiscreteLaplace, Gaussian


class Stranger:
    pass


@checked
def everything(
    points: ArrayLike,
    n_rounds: int = 3,
    epsilon: float | None = None,
    *,
    method: Literal["mean", "median"] = "mean",
    name: str = "x",
    verbose: bool = False,
    rng: np.random.Generator | None = None,
    budget: Budget | None = None,
    noises: Sequence[Gaussian] = (),
    pairs: Iterable[tuple[float, float]] = (),
    shares: Mapping[str, float] | None = None,
    change: Callable[[Any], Any] | None = None,
    anything: Any = None,
    **options: Any,
) -> int:
    """Count what was given."""
    return n_rounds


POINTS = np.eye(2)
GOOD: list[dict[str, Any]] = [
    {"points": [[1, 2]]}, {"points": "for whoever reads it"},
    {"n_rounds": np.int8(3)}, {"epsilon": 1}, {"epsilon": math.inf}, {"epsilon": None},
    {"epsilon": Fraction(1, 2)}, {"method": "median"}, {"verbose": np.True_},
    {"rng": np.random.default_rng(0)}, {"budget": Budget(1.0)},
    {"noises": [Gaussian(1.0, 1.0)]}, {"noises": []},
    {"pairs": [(1.0, 0.0), [2, 1e-5]]}, {"pairs": iter([(1.0, 0.0)])}, {"shares": {"a": 0.5}},
    {"change": len},
    {"unknown": 3, "anything": Stranger()},
]  # fmt: skip
BAD: dict[str, list[Any]] = {
    "n_rounds": [2.5, None, True, "3", [3], np.nan],
    "epsilon": ["1", np.nan, 1j, True, [1.0], np.array([1.0, 2.0])],
    "method": ["mode", None, 3, np.array(["mean"])],
    "name": [3, None],
    "verbose": [1, "yes"],
    "rng": [3, "seed"],
    "budget": [1.0, Budget],
    "noises": [Gaussian(1.0, 1.0), [Stranger()], "ab", [None], None],
    "pairs": [[(1.0,)], [3], 3, [(1.0, "a")]],
    "shares": [{"a": "b"}, [1.0]],
    "change": [3, Stranger(), Stranger],
}


def test_what_the_signature_says_passes():
    for given in GOOD:
        assert everything(**{"points": POINTS, **given}) == 3
    assert everything(POINTS, 5, 1.0) == 5
    assert everything.__doc__ == "Count what was given."
    assert list(inspect.signature(everything).parameters)[:2] == ["points", "n_rounds"]


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_refused_by_name_before_the_function_runs(name):
    for value in BAD[name]:
        with pytest.raises((TypeError, ValueError), match=rf"^{name} must be ") as error:
            everything(**{"points": POINTS, name: value})
        assert "Stranger object" not in str(error.value) and "0.123" not in str(error.value)
    refuses(TypeError, "^n_rounds must be an integer, got float", everything, POINTS, 5.0)
    refuses(TypeError, "missing 1 required positional argument: 'points'", everything)


@checked
def ranged(epsilon: Epsilon, share: Share | None = None, *, size: Natural = 0):
    return epsilon, share, size


def test_ranges_are_checked_and_their_numbers_made_plain():
    for value in (np.float32(0.5), Fraction(1, 2)):
        assert all(type(x) is float and x == 0.5 for x in ranged(value, share=value)[:2])
    assert ranged(1, None, size=np.int8(0)) == (1.0, None, 0)
    for name, value in (("epsilon", 0.0), ("share", 1.0), ("size", -1), ("size", 1.0)):
        error = (TypeError, ValueError)
        refuses(error, f"^{name} must ", ranged, **{"epsilon": 1.0, name: value})


# --- checks that nobody loses ---------------------------------------------------------------------


def test_every_hint_of_the_library_is_read():
    """Inherited fields of dataclasses, too: in the module of the class that declares them."""
    found = 0
    for name in (m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        if name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and is_dataclass(value):
                found += len(get_type_hints(value))
    assert found > 300


def test_a_class_derived_from_a_mechanism_keeps_its_checks():
    @dataclass(frozen=True)
    class Mine(Gaussian):
        pass

    @dataclass(frozen=True)
    class Discrete(DiscreteLaplace):
        pass

    assert Mine(1.0, 2.0).gdp_mu == 0.5
    for wrong in ((-1.0, 1.0), (1.0, -1.0), (1.0, math.nan), ("1", 1.0), (1.0, 1.0, "sideways")):
        refuses((ValueError, TypeError), "must be", Mine, *wrong)
    refuses(ValueError, "scale must be", Discrete, 1.0, -2.0)
