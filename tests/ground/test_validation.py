"""Checks of arguments: what is accepted, what is refused, and that messages name the argument."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedclust_helpers import _validation as v

# --- as_points ------------------------------------------------------------------------------------


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_]),
        st.tuples(st.integers(1, 5), st.integers(1, 4)),
    ).filter(lambda a: np.isfinite(a).all())
)
def test_every_real_dtype_becomes_the_same_float64_values(array):
    array.flags.writeable = False
    points = v.as_points(array)
    assert points.dtype == np.float64 and points.flags.c_contiguous
    np.testing.assert_array_equal(points, array.astype(np.float64))


def test_a_good_array_is_not_copied_and_a_fortran_one_is_made_contiguous():
    array = np.arange(6.0).reshape(3, 2)
    assert v.as_points(array) is array
    turned = v.as_points(np.asfortranarray(array))
    assert turned.flags.c_contiguous and not np.shares_memory(turned, array)
    np.testing.assert_array_equal(turned, array)


def test_lists_and_data_frames_are_accepted():
    expected = np.array([[1.0, 2.0], [3.0, 4.0]])
    for points in (
        [[1, 2], [3, 4]],
        ((1.0, 2), (3, 4)),
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4]}),
    ):
        np.testing.assert_array_equal(v.as_points(points), expected)
    nullable = pd.DataFrame({"a": [1, 3], "b": [2, 4]}, dtype="Int64")
    np.testing.assert_array_equal(v.as_points(nullable), expected)


@pytest.mark.parametrize(
    "points",
    [
        [["a", "b"]],
        [[b"1", b"2"]],
        [[1 + 2j, 0]],
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
        np.array([[1]], dtype="timedelta64[s]"),
        [[1, 2], [3]],
        [[{}, 1.0]],
    ],
)
def test_values_that_are_not_real_numbers_are_a_type_error(points):
    with pytest.raises(
        TypeError, match=r"^rows must be an array of real numbers of shape \(n, d\)"
    ):
        v.as_points(points, "rows")


def test_missing_values_of_pandas_are_refused():
    # which of the two errors depends on how the pandas version converts a missing integer
    with pytest.raises((TypeError, ValueError), match="^rows must be"):
        v.as_points(pd.DataFrame({"a": [1, None]}, dtype="Int64"), "rows")


@pytest.mark.parametrize("points", [3.0, [1.0, 2.0], np.zeros((2, 2, 2))])
def test_another_number_of_dimensions_is_refused(points):
    refuses(ValueError, r"^rows must have shape \(n, d\)", v.as_points, points, "rows")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_no_rows_or_no_columns_are_refused(shape):
    with pytest.raises(ValueError, match="^points must have at least one row and one column"):
        v.as_points(np.zeros(shape))


def test_another_number_of_features_is_refused():
    with pytest.raises(ValueError, match="^centers must have 3 columns, got 2"):
        v.as_points(np.zeros((4, 2)), "centers", n_features=3)
    assert v.as_points(np.zeros((4, 3)), n_features=3).shape == (4, 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("position", [0, 7])
def test_values_that_are_not_finite_are_refused_without_being_quoted(bad, position):
    values = [0.123456] * 8
    values[position] = bad
    with pytest.raises(ValueError, match="^points must be finite") as error:
        v.as_points(np.array(values, dtype=object).reshape(4, 2))
    assert "0.123456" not in str(error.value)  # a message may be seen by another party


def test_infinities_that_cancel_in_the_sum_are_found():
    refuses(ValueError, "finite", v.as_points, [[math.inf, 1.0], [-math.inf, 1.0]])


@pytest.mark.filterwarnings("error")
def test_finite_values_whose_sum_overflows_are_accepted_silently():
    np.testing.assert_array_equal(v.as_points([[1e308, 1e308]]), [[1e308, 1e308]])


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, np.float64(2), 1j])
def test_only_integers_are_integers(value):
    refuses(TypeError, "^k must be an integer", v.check_int, value, "k")


def test_integers_are_kept_within_their_range():
    assert v.check_int(np.int64(3), "k") == 3 and type(v.check_int(np.int8(3), "k")) is int
    assert v.check_int(0, "k", minimum=0) == 0
    assert v.check_int(5, "k", maximum=5) == 5
    refuses(ValueError, "^k must be >= 1, got 0", v.check_int, 0, "k")
    refuses(ValueError, "^k must be >= 1 and <= 5, got 6", v.check_int, 6, "k", maximum=5)


@pytest.mark.parametrize("check", [v.check_positive, v.check_non_negative, v.check_real])
@pytest.mark.parametrize("value", [True, np.False_, "1.0", None, [1.0], 1j, np.array([1.0, 2.0])])
def test_only_real_numbers_are_real(check, value):
    refuses(TypeError, "^mu must be a real number", check, value, "mu")


@pytest.mark.parametrize("value", [1, 2.5, np.float32(0.5), np.int64(7), Fraction(1, 3)])
def test_real_numbers_of_any_kind_become_floats(value):
    for check in (v.check_positive, v.check_non_negative, v.check_real):
        assert type(check(value, "mu")) is float and check(value, "mu") == float(value)


@pytest.mark.parametrize(
    ("check", "refused", "accepted"),
    [
        (v.check_real, [math.nan], [-math.inf, -1.0, 0.0, math.inf]),
        (v.check_positive, [math.nan, -math.inf, -1.0, 0.0, -0.0, math.inf], [5e-324, 1e308]),
        (v.check_non_negative, [math.nan, -math.inf, -5e-324, math.inf], [0.0, 1e308]),
        (v.check_epsilon, [math.nan, -1.0, 0.0, math.inf], [1e-9, 100.0]),
        (v.check_delta, [math.nan, -0.1, 0.0, 1.0, math.inf], [1e-300, 0.999]),
    ],
)
def test_ranges_of_numbers(check, refused, accepted):
    for value in refused:
        refuses(ValueError, "^name must ", check, value, "name")
    for value in accepted:
        assert check(value, "name") == value


def test_the_two_exceptions_infinite_bounds_and_zero_delta():
    assert v.check_positive(math.inf, "radius", finite=False) == math.inf
    assert v.check_delta(0, allow_zero=True) == 0
    refuses(ValueError, r"^delta must lie in \[0, 1\)", v.check_delta, 1.0, allow_zero=True)


def test_default_names_are_those_of_the_privacy_parameters():
    refuses(ValueError, "^epsilon must", v.check_epsilon, 0)
    refuses(ValueError, r"^delta must lie in \(0, 1\)", v.check_delta, 0)


def test_choices_and_generators():
    assert v.check_choice("b", "method", ("a", "b")) == "b"
    with pytest.raises(ValueError, match="^method must be one of a, b; got 'c'"):
        v.check_choice("c", "method", ("a", "b"))
    rng = np.random.default_rng(0)
    assert v.check_rng(rng) is rng
    for bad in (None, 0, np.random.RandomState(0), np.random.SeedSequence(0), np.random):
        refuses(TypeError, "^rng must be a numpy.random.Generator", v.check_rng, bad)


# --- shared checks of wrong types -----------------------------------------------------------------


class Stranger:
    pass


@pytest.mark.parametrize(
    "check",
    [
        lambda x: v.check_share(x, "rate"),
        lambda x: v.check_choice(x, "rate", ("a", "b")),
        lambda x: v.check_instance(x, Fraction, "rate"),
        lambda x: v.check_function(x, "rate"),
        lambda x: v.as_numbers(x, "rate", ndim=1),
        lambda x: v.check_text(x, "rate"),
        lambda x: v.check_bool(x, "rate"),
        lambda x: v.as_integers(x, "rate", minimum=0, maximum=5),
    ],
)
@pytest.mark.parametrize(
    "value", [Stranger(), Stranger, np.array([[1.5, 2.0]]), [Stranger()], 1j, b"a", math.nan]
)
def test_every_check_names_the_argument_whatever_comes(check, value):
    refuses((TypeError, ValueError), "^rate must", check, value)


def test_good_values_pass_the_shared_checks():
    assert v.check_share(0.5, "rate") == 0.5 and v.check_share(1, "rate", one=True) == 1.0
    assert v.check_instance(Fraction(1, 2), Fraction, "half") == Fraction(1, 2)
    assert v.check_function(len, "f") is len and v.check_bool(np.True_, "flag") is True
    np.testing.assert_array_equal(v.as_numbers([1, 2], "x", ndim=1), [1.0, 2.0])
    assert v.as_numbers([], "x", empty=True).size == 0
    v.check_fits(2**20, "n_rounds")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([math.nan], "finite"), ([math.inf], "finite"), ([], "empty"), ([[1.0]], "dimension"),
        ([-3e150], "at most 1e\\+150"), (np.ma.masked_array([1.0], [True]), "real numbers"),
    ],
)  # fmt: skip
def test_numbers_of_an_array_are_checked_without_being_quoted(values, match):
    with pytest.raises((TypeError, ValueError), match=f"^x must .*{match}") as error:
        v.as_numbers(values, "x", ndim=1, largest=1e150)
    assert "3e" not in str(error.value)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.inf])
def test_a_share_lies_strictly_between_unless_said(value):
    refuses(ValueError, r"^rate must lie in \(0, 1\), got", v.check_share, value, "rate")


@pytest.mark.parametrize("value", [[True], [1.0], ["1"], [[1]], 1, [-7], [1234567], [2**64 - 1]])
def test_only_whole_numbers_in_one_row_and_range_are_integers(value):
    with pytest.raises((TypeError, ValueError), match="^x must be") as error:
        v.as_integers(value, "x", minimum=0, maximum=5)
    assert "1234567" not in str(error.value)
    good = v.as_integers(np.array([0, 5], dtype=np.uint8), "x", minimum=0, maximum=5)
    assert good.dtype == np.int64 and good.tolist() == [0, 5]


@pytest.mark.parametrize("value", [10**12, math.inf, math.nan])
def test_what_cannot_fit_is_refused_before_memory_runs_out(value):
    refuses(ValueError, "^n_rounds is too large", v.check_fits, value, "n_rounds")


def test_arrays_and_strangers_are_not_written_into_messages():
    with pytest.raises(ValueError, match="got ndarray object"):
        v.check_choice(np.array([0.123456]), "method", ("a",))
