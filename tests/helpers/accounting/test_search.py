"""The one search: within its tolerance of the root, and always on the side that is allowed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.accounting.search import least, safe_root

ROOTS = st.floats(1e-3, 1e3)


@given(ROOTS, st.sampled_from([1e-3, 1e-9, 1e-15]), st.booleans(), st.booleans())
def test_a_root_is_close_and_safe_in_both_directions(root, rtol, smooth, rising):
    def excess(x):
        return math.log(x / root) * (1 if rising else -1)

    ends = (root / 3, 5 * root) if rising else (5 * root, root / 3)
    found = safe_root(excess, *ends, xtol=1e-12 * root, rtol=max(rtol, 8.9e-16), smooth=smooth)
    assert excess(found) <= 0
    assert found == pytest.approx(root, rel=4 * rtol + 1e-11)


def test_a_jump_is_found_by_halving_and_a_slack_is_left_to_rounding():
    step = lambda x: -1.0 if x >= 0.3 else 1.0  # noqa: E731
    assert 0.3 <= safe_root(step, 1.0, 0.0, rtol=1e-9, smooth=False) <= 0.3 * (1 + 2e-9)
    shifted = lambda x: 1.0 - x + (1e-12 if x < 2 else 0.0)  # noqa: E731
    assert safe_root(shifted, 3.0, 0.5, xtol=1e-6, slack=1e-5) == pytest.approx(1, abs=1e-5)
    assert safe_root(shifted, 3.0, 0.5, xtol=1e-6) >= 1.0


@given(ROOTS, ROOTS, st.sampled_from([0.1, 1.0]), st.sampled_from([1.0, 1.5]), st.booleans())
def test_the_least_is_found_from_any_start(root, start, step, growth, smooth):
    def excess(x):
        return root / x - 1

    found = least(excess, "", start=start, step=step, growth=growth, smooth=smooth)
    assert excess(found) <= 0 and found == pytest.approx(root, rel=2e-6)


def test_what_no_number_reaches_is_refused_and_a_jump_to_the_lowest_is_close():
    with pytest.raises(ValueError, match="too much"):
        least(lambda x: 1 / x, "too much", most=100.0)
    jump = lambda x: -1.0 if x >= 7 else 0.5  # noqa: E731
    assert 7 <= least(jump, "", lowest=-1.0) <= 7 * 1.002


def test_what_cannot_be_computed_keeps_no_budget():
    with pytest.raises(ValueError, match="refused"):
        least(lambda x: math.nan, "refused")
    assert least(lambda x: math.nan if x < 2 else 3 - x, "refused") >= 3


def test_a_cost_that_never_passes_what_is_allowed_ends_the_search():
    assert 0 < least(lambda x: -1.0, "refused") < 1e-6
