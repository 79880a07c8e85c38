"""The types of a signature, checked: what passes, what is refused, and by which name."""

import importlib
import inspect
import math
import pickle
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from numpy.typing import ArrayLike, NDArray

import fedclust_helpers as package
from fedclust_helpers import _checked, fastlloyd
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Epsilon, Natural, Share
from fedclust_helpers.accounting import Budget
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import DiscreteLaplace, Gaussian, Mechanism


class Stranger:
    pass


class Sounds(Protocol):
    volume: float

    def speak(self) -> str: ...


class Cat:
    def __init__(self):
        self.volume = 1.0

    def speak(self):
        return "meow"


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
    noise: Mechanism | None = None,
    noises: Sequence[Mechanism] = (),
    pairs: Iterable[tuple[float, float]] = (),
    shares: Mapping[str, float] | None = None,
    labels: NDArray[np.int64] | None = None,
    change: Callable[[Any], Any] | None = None,
    animal: Sounds | None = None,
    anything: Any = None,
    **options: Any,
) -> int:
    """Count what was given."""
    return n_rounds


@checked
@dataclass(frozen=True)
class Plain:
    size: int


POINTS = np.eye(2)


@pytest.mark.parametrize(
    "given",
    [
        {"points": [[1, 2]]},
        {"points": pd.DataFrame({"a": [1.0]})},
        {"points": POINTS.astype(object)},
        {"points": 3.0},
        {"n_rounds": np.int8(3)},
        {"epsilon": 1},
        {"epsilon": math.inf},
        {"epsilon": np.float32(1)},
        {"epsilon": Fraction(1, 2)},
        {"epsilon": None},
        {"method": "median"},
        {"verbose": np.True_},
        {"rng": np.random.default_rng(0)},
        {"budget": Budget(1.0)},
        {"noise": Gaussian(1.0, 1.0)},
        {"noises": [Gaussian(1.0, 1.0), DiscreteLaplace(1.0, 1.0)]},
        {"noises": []},
        {"pairs": [(1.0, 0.0), [2, 1e-5]]},
        {"pairs": iter([(1.0, 0.0)])},
        {"shares": {"a": 0.5}},
        {"labels": [1, 2]},
        {"change": len},
        {"change": lambda x: x},
        {"animal": Cat()},
        {"unknown": 3, "anything": Stranger()},
        {"another": Stranger()},
    ],
    ids=lambda g: ",".join(g),
)
def test_what_the_signature_says_passes(given):
    assert everything(**{"points": POINTS, **given}) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", None), ("points", "x"), ("points", [["a"]]), ("points", [[1, 2], [3]]),
        ("points", Stranger()), ("points", [[1j]]), ("points", np.ndarray),
        ("n_rounds", 2.5), ("n_rounds", None), ("n_rounds", True), ("n_rounds", "3"),
        ("n_rounds", [3]), ("n_rounds", np.nan),
        ("epsilon", "1"), ("epsilon", np.nan), ("epsilon", 1j), ("epsilon", True),
        ("epsilon", [1.0]), ("epsilon", np.array([1.0, 2.0])),
        ("method", "mode"), ("method", None), ("method", 3), ("method", np.array(["mean"])),
        ("name", 3), ("name", None), ("verbose", 1), ("verbose", "yes"),
        ("rng", 3), ("rng", "seed"), ("budget", 1.0), ("budget", Budget),
        ("noise", 1.0), ("noise", Gaussian), ("noise", Stranger()),
        ("noises", Gaussian(1.0, 1.0)), ("noises", [Stranger()]), ("noises", "ab"),
        ("noises", [None]), ("noises", None), ("pairs", [(1.0,)]), ("pairs", [3]), ("pairs", 3),
        ("pairs", [(1.0, "a")]), ("shares", {"a": "b"}), ("shares", [1.0]), ("labels", "ab"),
        ("change", 3), ("change", Stranger()), ("animal", Stranger()), ("animal", Cat),
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name_before_the_function_runs(name, value):
    given = {"points": POINTS, name: value}
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be ") as error:
        everything(**given)
    assert "Stranger object" not in str(error.value)


def test_arguments_are_checked_by_position_as_well():
    assert everything(POINTS, 5, 1.0) == 5
    refuses(TypeError, "^n_rounds must be an integer, got float", everything, POINTS, 5.0)
    refuses(ValueError, "^epsilon must be a number, got nan", everything, POINTS, 5, math.nan)


def test_the_constructor_of_a_class_is_checked():
    assert Plain(3).size == 3 and pickle.loads(pickle.dumps(Plain(3))) == Plain(3)
    refuses(TypeError, "^size must be an integer, got str", Plain, "3")


@checked
def ranged(epsilon: Epsilon, share: Share | None = None, *, size: Natural = 0):
    return epsilon, share, size


def test_ranges_are_checked_and_their_numbers_made_plain():
    for value in (np.float32(0.5), Fraction(1, 2)):
        assert all(type(x) is float and x == 0.5 for x in ranged(value, share=value)[:2])
    assert ranged(1, None, size=np.int8(0)) == (1.0, None, 0)
    for name, value in (("epsilon", 0.0), ("share", 1.0), ("size", -1), ("epsilon", math.nan)):
        refuses(ValueError, f"^{name} must ", ranged, **{"epsilon": 1.0, name: value})
    for name, value in (("epsilon", None), ("share", "a"), ("size", 1.0)):
        refuses(TypeError, f"^{name} must be a", ranged, **{"epsilon": 1.0, name: value})


def test_messages_quote_no_data():
    with pytest.raises(TypeError) as error:
        everything([["0.123456"]])
    assert "0.123456" not in str(error.value)


def test_a_checked_function_keeps_its_name_signature_and_doc():
    assert everything.__name__ == "everything" and everything.__doc__ == "Count what was given."
    assert list(inspect.signature(everything).parameters)[:2] == ["points", "n_rounds"]
    refuses(TypeError, "missing 1 required positional argument: 'points'", everything)
    refuses(TypeError, "multiple values for argument 'points'", everything, POINTS, points=POINTS)


# --- checks that nobody loses ---------------------------------------------------------------------


def test_an_interrupted_first_call_leaves_no_function_unchecked(monkeypatch):
    @checked
    def double(value: float, name: str) -> float:
        return 2 * value

    def interrupted(hint):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_checked, "check_of", interrupted)
        refuses(KeyboardInterrupt, "", double, 1.0, "a")
    refuses(TypeError, "value must be a real number", double, "1", "a")
    refuses(TypeError, "name must be a string", double, 1.0, 3)


def test_a_hint_that_cannot_be_read_is_no_licence():
    def takes(value: Any) -> None: ...

    takes.__annotations__ = {"value": "NoSuchName"}
    refuses(NameError, "NoSuchName", checked(takes), 3)


def test_every_hint_of_the_library_is_read():
    """Inherited fields of dataclasses, too: in the module of the class that declares them."""
    found = 0
    for name in (m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        if name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and is_dataclass(value):
                found += len(_checked.hints_of(value.__init__, value))
    assert found > 300
    fed = simulate([[[0.1, 0.2]] * 20, [[0.3, 0.4]] * 20], "ideal", seed=1)
    plan = fastlloyd.plan(fed, n_clusters=2, epsilon=1.0)
    refuses(TypeError, "facts must be a FederationFacts", replace, plan, facts=3)


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
