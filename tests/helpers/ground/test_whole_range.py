"""Public functions of privacy levels are right or refuse, on the whole range of their arguments."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedclust_helpers import accounting, secure_aggregation
from fedclust_helpers.accounting import blanket, conversions, discrete, renyi, shuffling

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


# --- any argument at all: right, or refused in words ----------------------------------------------

ENDS = (
    math.nan, math.inf, -math.inf, -1.0, -5e-324, 0.0, 5e-324, 1e-300, 1e-16, 1e-6, np.float32(0.1),
    0.5, 1 - 1e-12, 1.0, 2, np.int64(3), 2.5, 29.9, 31.0, 700.0, 1e6, 1e15, 1e300, 2**70, True,
    None, "1", [1.0],
)  # fmt: skip
ANY = st.sampled_from(ENDS) | st.floats()
LEVEL = st.sampled_from(ENDS) | st.floats(0, 40)
SHARE = st.sampled_from(ENDS) | st.floats(0, 1)
SIZE = st.sampled_from((1, 2, 3, 50, 10**6, 10**12, 0, -3, 2.0, True, None, math.nan))
NEAR, SECONDS = 1 + 1e-6, 60.0  # of one call: a thousand times what it needs


def gap_of(n, s, apart):
    return discrete.Gap.sum([discrete.Gap.gaussian(n, s, apart=apart), discrete.Gap.laplace(n, s)])


def is_gdp(mu, epsilon, delta):
    return mu > 0 and accounting.gdp_delta(mu, epsilon) <= delta * NEAR


def is_zcdp(rho, epsilon, delta):
    return rho > 0 and conversions.zcdp_epsilon(rho, delta) <= float(epsilon) * NEAR


def is_local(local, n, epsilon, delta):
    return local >= epsilon and shuffling.shuffled_delta(n, local, epsilon) <= delta


WHOLE = {  # what is called, with what, and what is right of its answer
    "gdp_mu": (accounting.gdp_mu, (ANY, SHARE), is_gdp),
    "zcdp_rho": (conversions.zcdp_rho, (ANY, SHARE), is_zcdp),
    "most_right": (
        conversions.most_right, (LEVEL, SHARE), lambda p, e, d: 0.5 <= p <= 1 and p >= d,
    ),
    "discrete_multipliers": (
        lambda *args: list(discrete.discrete_multipliers(*args)), (ANY, SHARE),
        lambda found, e, d: found == sorted(found)
        and is_zcdp(1 / (2 * found[-1] ** 2), e, d),
    ),
    "blanket_delta": (
        lambda n, local, e, g, m: blanket.blanket_delta(n, local, e, (g,), answers=m),
        (SIZE, LEVEL, LEVEL, SIZE, SIZE),
        lambda d, n, local, e, *_: 0 <= d <= blanket.pure_delta(local, e),
    ),
    "local_epsilon_for": (accounting.local_epsilon_for, (SIZE, LEVEL, SHARE), is_local),
    "fixed_size_rdp": (renyi.fixed_size_rdp, (LEVEL, SHARE, st.sampled_from((2, 17, 256, 1, None))),
                       lambda found, rho, rate, a: 0 <= found <= a * float(rho) * NEAR),
    "poisson_rdp": (renyi.poisson_rdp, (LEVEL, SHARE, st.sampled_from((2, 17, 256, 1, 2.5))),
                    lambda found, rho, rate, a: 0 <= found <= a * float(rho) * NEAR),
    "epsilon_across": (
        lambda n, s, apart, d: discrete.epsilon_across(
            gap_of(n, s, apart), d, lambda delta: accounting.gdp_epsilon(1.0, delta)
        ),
        (SIZE, LEVEL, SHARE, SHARE),
        lambda e, n, s, apart, d: e >= accounting.gdp_epsilon(1.0, d),
    ),
    "delta_across": (
        lambda n, s, apart, e: discrete.delta_across(
            gap_of(n, s, apart), e, lambda epsilon: accounting.gdp_delta(1.0, epsilon)
        ),
        (SIZE, LEVEL, SHARE, LEVEL),
        lambda d, n, s, apart, e: accounting.gdp_delta(1.0, e) <= d * NEAR + 1e-300 and d <= 1,
    ),
    "pads": (
        lambda round, n, size: secure_aggregation.PadBook(bytes(32), b"s").pads(
            "sums", round, n, (size,)
        ),
        (SIZE, st.sampled_from((1, 3, 0, -1, 10**12, 2.0, None)), st.sampled_from((0, 2, -1, 1.5))),
        lambda pads, round, n, size: pads.shape == (n, size) and pads.dtype == np.uint64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=150)
@given(data=st.data())
def test_any_argument_is_answered_rightly_or_refused_in_words(name, data):
    call, kinds, is_right = WHOLE[name]
    given_ = [data.draw(kind) for kind in kinds]
    began = time.monotonic()
    try:
        found = call(*given_)
    except (ValueError, TypeError) as error:
        assert any(word in str(error) for word in ("must be", "must lie", "too large")), error
        return
    finally:
        assert time.monotonic() - began < SECONDS
    assert is_right(found, *given_), found
