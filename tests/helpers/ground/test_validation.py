"""Checks of arguments: what is accepted, what is refused, and that messages name the argument."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedclust_helpers import _validation as v

EITHER = (TypeError, ValueError)

# --- points ---------------------------------------------------------------------------------------


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_]),
        st.tuples(st.integers(1, 5), st.integers(1, 4)),
    ).filter(lambda a: np.isfinite(a).all())
)
def test_every_real_dtype_becomes_the_same_float64_values(array):
    array.flags.writeable = False
    for form in (array, np.asfortranarray(array), pd.DataFrame(array), array.tolist()):
        points = v.as_points(form)
        assert points.dtype == np.float64 and points.flags.c_contiguous
        np.testing.assert_array_equal(points, array.astype(np.float64))
    good = array.astype(np.float64)
    assert v.as_points(good, n_features=array.shape[1]) is good  # not copied


NOT_REAL: list = [
    [["a", "b"]], [["1", "2"]], [[b"1", b"2"]], [[1 + 2j, 0]], [[1, 2], [3]], [[{}, 1.0]],
    np.array([["2020-01-01"]], dtype="datetime64[D]"), np.array([[1]], dtype="timedelta64[s]"),
    np.ma.masked_array([[1.0]], [[True]]), [[np.ma.masked_array([1.0], [True])]],
    pd.DataFrame({"a": [1, None]}, dtype="Int64"),
]  # fmt: skip
SHAPES = [3.0, [1.0, 2.0], np.zeros((2, 2, 2)), np.zeros((0, 3)), np.zeros((3, 0))]


def test_what_are_no_points_is_refused_by_name():
    for points in NOT_REAL:
        refuses(EITHER, "^rows must be", v.as_points, points, "rows")
    for points in SHAPES:
        text = r"^rows must have (shape \(n, d\)|at least one row and one column)"
        refuses(ValueError, text, v.as_points, points, "rows")
    text = "^centers must have 3 columns, got 2"
    refuses(ValueError, text, v.as_points, np.zeros((4, 2)), "centers", n_features=3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_values_that_are_not_finite_are_refused_without_being_quoted(bad):
    # a message may be seen by another party
    for values in ([bad, 0.123456], [0.123456, bad], [bad, -bad if bad else 0.0]):
        with pytest.raises(ValueError, match="^points must be finite") as error:
            v.as_points(np.array([values], dtype=object))
        assert "0.123456" not in str(error.value)


@pytest.mark.filterwarnings("error")
def test_finite_values_whose_sum_overflows_are_accepted_silently():
    np.testing.assert_array_equal(v.as_points([[1e308, 1e308]]), [[1e308, 1e308]])


# --- numbers --------------------------------------------------------------------------------------

NO_NUMBER = (True, np.False_, "1", None, 1j, [1], np.array([1.0, 2.0]))
NUMBERS = [  # check, ranges: refused, accepted
    (v.check_real, [math.nan], [-math.inf, -1.0, 0.0, math.inf]),
    (v.check_positive, [math.nan, -math.inf, 0.0, -0.0, math.inf], [5e-324, 1e308]),
    (partial(v.check_positive, finite=False), [math.nan, 0.0], [5e-324, math.inf]),
    (v.check_non_negative, [math.nan, -5e-324, math.inf], [0.0, 1e308]),
    (v.check_epsilon, [math.nan, 0.0, math.inf], [1e-9, 100.0]),
    (v.check_delta, [math.nan, -0.1, 0.0, 1.0, math.inf], [1e-300, 0.999]),
    (partial(v.check_delta, allow_zero=True), [math.nan, -0.1, 1.0], [0.0, 0.999]),
    (v.check_share, [math.nan, -0.1, 0.0, 1.0, 1.5], [1e-9, 0.999]),
    (partial(v.check_share, one=True), [0.0, 1.5], [1e-9, 1.0]),
    (v.check_int, [0, -1], [1, np.int64(3), 10**30]),
    (partial(v.check_int, minimum=0, maximum=5), [-1, 6], [0, np.int8(5)]),
]


@pytest.mark.parametrize(("check", "refused", "accepted"), NUMBERS)
def test_ranges_and_kinds_of_numbers(check, refused, accepted):
    whole = getattr(check, "func", check) is v.check_int
    for value in (*NO_NUMBER, *([1.0, np.float64(2)] if whole else [])):
        refuses(TypeError, "^name must be a", check, value, "name")
    for value in refused:
        refuses(ValueError, "^name must ", check, value, "name")
    for value in accepted:
        assert check(value, "name") == value and type(check(value, "name")) is (
            int if whole else float
        )
    if not whole:
        assert check(Fraction(1, 3), "name") == 1 / 3 and check(np.float32(0.5), "name") == 0.5


# --- arrays, choices, objects ---------------------------------------------------------------------


class Stranger:
    pass


CHECKS = [
    lambda x: v.check_choice(x, "rate", ("a", "b")),
    lambda x: v.check_instance(x, Fraction, "rate"),
    lambda x: v.check_rng(x, "rate"),
    lambda x: v.as_numbers(x, "rate", ndim=1),
    lambda x: v.check_bool(x, "rate"),
    lambda x: v.as_integers(x, "rate", minimum=0, maximum=5),
]


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_names_the_argument_whatever_comes_and_quotes_no_data(check):
    for value in (
        Stranger(), Stranger, np.array([[1.5, 0.123456]]), [Stranger()], 1j, b"a", math.nan, 0,
        np.random.RandomState(0), ["0.123456"], None,
    ):  # fmt: skip
        with pytest.raises(EITHER, match="^rate must") as error:
            check(value)
        assert "0.123456" not in str(error.value) and "Stranger object at" not in str(error.value)


def test_good_values_pass_the_shared_checks():
    rng = np.random.default_rng(0)
    assert v.check_choice("b", "x", ("a", "b")) == "b" and v.check_rng(rng) is rng
    assert v.check_instance(Fraction(1, 2), Fraction, "half") == Fraction(1, 2)
    assert v.check_bool(np.True_, "flag") is True
    np.testing.assert_array_equal(v.as_numbers([1, 2], "x", ndim=1), [1.0, 2.0])
    assert v.as_numbers([], "x", empty=True).size == 0
    good = v.as_integers(np.array([0, 5], dtype=np.uint8), "x", minimum=0, maximum=5)
    assert good.dtype == np.int64 and good.tolist() == [0, 5]
    most = np.array([2**63 - 1], dtype=np.uint64)
    assert v.as_integers(most, "x").tolist() == [2**63 - 1]
    v.check_fits(2**20, "n_rounds")
    for size in (10**12, math.inf, math.nan):  # before memory runs out
        refuses(ValueError, "^n_rounds is too large", v.check_fits, size, "n_rounds")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([math.nan], "finite"), ([math.inf], "finite"), ([], "empty"), ([[1.0]], "dimension"),
        ([-3e150], "at most 1e\\+150"), (np.ma.masked_array([1.0], [True]), "real numbers"),
    ],
)  # fmt: skip
def test_numbers_of_an_array_are_checked_without_being_quoted(values, match):
    with pytest.raises(EITHER, match=f"^x must .*{match}") as error:
        v.as_numbers(values, "x", ndim=1, largest=1e150)
    assert "3e" not in str(error.value)


@pytest.mark.parametrize("value", [[True], [1.0], ["1"], [[1]], 1, [-7], [1234567], [2**64 - 1]])
def test_only_whole_numbers_in_one_row_and_range_are_integers(value):
    with pytest.raises(EITHER, match="^x must be") as error:
        v.as_integers(value, "x", minimum=0, maximum=5)
    assert "1234567" not in str(error.value)
