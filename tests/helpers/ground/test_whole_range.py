"""Public functions of privacy levels are right or refuse, on the whole range of their arguments."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from fedclust_helpers import accounting, secure_aggregation
from fedclust_helpers.accounting import conversions, shuffling

LEVELS = (0.0, 1e-300, 1e-9, np.float32(0.5), 1.0, 30.0, 1e6, 1e300, math.inf)
DELTAS = (0.0, 1e-300, 1e-6, np.float32(0.1), 1 - 1e-12)
NO_LEVELS, NO_DELTAS = (-1.0, -5e-324, math.nan), (-1e-6, 1.0, math.inf, math.nan)


@pytest.mark.parametrize("level", LEVELS)
def test_levels_on_the_whole_range_are_in_it_and_rise_with_what_they_should(level):
    for delta in DELTAS:
        for epsilon_of in (
            accounting.gdp_epsilon, accounting.zcdp_epsilon,
            lambda level, delta: shuffling.shuffled_epsilon(1000, level, delta),
        ):  # fmt: skip
            epsilon = epsilon_of(level, delta)
            assert 0 <= epsilon <= math.inf
            assert level > 0 or epsilon == 0
    deltas = [accounting.gdp_delta(level, e) for e in LEVELS]
    assert all(0 <= delta <= 1 for delta in deltas) and sorted(deltas, reverse=True) == deltas
    shuffled = [shuffling.shuffled_delta(1000, level, e) for e in LEVELS]
    assert all(0 <= delta <= 1 for delta in shuffled)
    assert 0 <= conversions.pure_to_gdp_mu(level) <= math.inf


def test_what_is_no_level_is_refused():
    for wrong in NO_LEVELS:
        for call in (
            lambda x: accounting.gdp_delta(x, 1.0), lambda x: accounting.gdp_delta(1.0, x),
            lambda x: accounting.gdp_epsilon(x, 1e-6), lambda x: accounting.zcdp_epsilon(x, 1e-6),
            conversions.pure_to_gdp_mu,
            lambda x: conversions.gaussian_sigma_classic(x, 1e-6),
            lambda x: shuffling.shuffled_delta(10, x, 0.1),
            lambda x: shuffling.shuffled_delta(10, 1.0, x),
            lambda x: shuffling.shuffled_epsilon(10, x, 1e-6),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="must be"):
                call(wrong)
    for function, wrong in product(
        (
            accounting.gdp_epsilon, accounting.zcdp_epsilon, conversions.gaussian_sigma_classic,
            lambda level, delta: shuffling.shuffled_epsilon(10, level, delta),
        ),
        NO_DELTAS,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="delta must"):
            function(1.0, wrong)
    with pytest.raises(ValueError, match="n_users"):
        shuffling.shuffled_delta(-5, 1.0, 0.1)


def test_a_ring_takes_its_two_sizes_and_bounds_that_are_some():
    ring = secure_aggregation.FixedPoint(32, 16)
    for wrong in ({"n_records": -5}, {"magnitude": -1e9}, {"noise_tail": math.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ring.check_capacity(
                **({"n_records": 5, "magnitude": 1.0, "noise_tail": 1.0, "name": "x"} | wrong)
            )
    for bits in (16, 48):
        with pytest.raises(ValueError, match="bits must be 32 or 64"):
            secure_aggregation.FixedPoint(bits, 4)
