"""D. Are the last bits of discrete noise random?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from scipy import stats

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import IntArray, Share, check_int
from fedclust_helpers.audit._queries import Report

SPREAD = 6  # bits by which the noise must spread beyond a bit that is tested


@dataclass(frozen=True)
class LowBitsAudit(Report):
    """Result of `audit_low_bits`: of `n` integers, the share of ones in each tested bit."""

    failed: tuple[str, ...]
    incomplete: tuple[str, ...]
    n: int
    shares: tuple[float, ...]  # the lowest bit first
    false_alarm: float

    def _lines(self) -> list[str]:
        bits = f"{self.n} integers, {len(self.shares)} bits"
        return [f"low bits audit ({bits}, false alarm {self.false_alarm:g})"]


@checked
def audit_low_bits(
    steps: Any,
    *,
    n_bits: Annotated[int, partial(check_int, maximum=62)] = 8,
    false_alarm: Share = 1e-3,
) -> LowBitsAudit:
    """Test that the low bits of discrete noise, or of noised values, are uniform and independent.

    Wide noise on a fine grid has uniform low bits, and then the low bits of value plus noise say
    nothing about the value. Noise that went through a float, or was rounded to a coarser grid, has
    constant ones: what is left of the value's own bits is then in plain view.

    Four families of tests share `false_alarm` equally, with Bonferroni corrections inside: every
    bit is 1 half of the time; so is the sum (exclusive or) of every two bits, and of the same bit
    of two integers in a row (in C order: of neighbouring coordinates); and the number that the
    lowest bits form takes all values equally often (as many bits as give 8 integers to each).

    `steps` are at least 100 whole steps of the grid: noise, as `DiscreteGaussian.sample_steps`
    draws it, or released values. Floats, which have lost their low bits, are a TypeError. Of the
    `n_bits` those less than `SPREAD` bits below the spread of the values cannot be expected to be
    uniform: they are left out, and the verdict is "incomplete". `false_alarm` bounds the
    probability that uniform bits fail.

    Notes
    -----
    A discrete Gaussian of scale s steps has bits below 2^b uniform up to exp(-2 pi^2 (s/2^b)^2), a
    discrete Laplace up to (2^b/(2 pi s))^2: with SPREAD = 6 below 1e-5 each.
    """
    try:
        values: IntArray = np.asarray(steps).ravel()
    except ValueError:
        raise TypeError("steps must be an array of integers") from None
    if values.dtype.kind not in "iu":
        raise TypeError(f"steps must be integers (floats lose low bits), got {values.dtype}")
    n = len(values)
    if n < 100:
        raise ValueError(f"steps must hold at least 100 integers, got {n}")
    # quartiles: an outlier must not make narrow noise look wide
    spread = float(np.subtract(*np.quantile(values.astype(np.float64), [0.75, 0.25]))) / 1.35
    tested = min(n_bits, max(math.floor(math.log2(max(spread, 1.0))) - SPREAD, 0))
    incomplete: tuple[str, ...] = ()
    if tested < n_bits:
        incomplete = (
            f"{tested} of {n_bits} bits were tested: the noise spreads over {spread:.3g} steps",
        )
    if tested == 0:
        return LowBitsAudit((), incomplete, n, (), false_alarm)
    words = values.astype(np.uint64)
    bits = np.stack([(words >> np.uint64(b)) & np.uint64(1) for b in range(tested)]).astype(bool)
    each, pairs = range(tested), list(combinations(range(tested), 2))
    families = (
        (len(each), ((f"bit {b} is 1", bits[b]) for b in each)),
        (len(pairs), ((f"bits {a} and {b} differ", bits[a] ^ bits[b]) for a, b in pairs)),
        (len(each), ((f"bit {b} changes from one integer to the next", bits[b, 1:] ^ bits[b, :-1])
                     for b in each)),
    )  # fmt: skip
    share, failed = false_alarm / 4, []
    for size, family in families:
        for what, coin in family:
            ones, m = int(coin.sum()), len(coin)
            if 2 * stats.binom.cdf(min(ones, m - ones), m, 0.5) < share / size:
                failed.append(f"{what} in {ones / m:.2%}")
    together = min(tested, int(math.log2(n / 8)))
    lowest = (words & np.uint64(2**together - 1)).astype(np.int64)
    counts = np.bincount(lowest, minlength=2**together)
    statistic = float(((counts - n / 2**together) ** 2).sum() * 2**together / n)
    if stats.chi2.sf(statistic, 2**together - 1) < share:
        failed.append(f"the lowest {together} bits together are not uniform")
    return LowBitsAudit(tuple(failed), incomplete, n, tuple(bits.mean(axis=1)), false_alarm)
