"""D. Are the last bits of discrete noise random?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from fedclust_helpers._validation import IntArray, check_delta, check_int

SPREAD = 6  # bits by which the noise must spread beyond a bit that is tested


@dataclass(frozen=True)
class LowBitsAudit:
    """Result of `audit_low_bits`.

    Attributes
    ----------
    n : int
        Number of integers.
    shares : tuple of float
        Share of ones in each tested bit, the lowest first.
    failed : tuple of str
        Which tests failed; empty if none.
    incomplete : tuple of str
        What could not be tested; empty if nothing.
    false_alarm : float
        Probability bound that uniform low bits fail.
    """

    n: int
    shares: tuple[float, ...]
    failed: tuple[str, ...]
    incomplete: tuple[str, ...]
    false_alarm: float

    @property
    def verdict(self) -> Literal["passed", "FAILED", "incomplete"]:
        """FAILED if a test failed, incomplete if none did but something was not tested."""
        return "FAILED" if self.failed else "incomplete" if self.incomplete else "passed"

    @property
    def passed(self) -> bool:
        """True if the bits asked for were tested and are uniform. A pass is no proof."""
        return self.verdict == "passed"

    def __str__(self) -> str:
        head = (
            f"low bits audit ({self.n} integers, {len(self.shares)} bits, false alarm"
            f" {self.false_alarm:g}): {self.verdict}"
        )
        return "\n".join([head, *(f"  {reason}" for reason in self.failed + self.incomplete)])


def audit_low_bits(steps: Any, *, n_bits: int = 8, false_alarm: float = 1e-3) -> LowBitsAudit:
    """Test that the low bits of discrete noise, or of noised values, are uniform and independent.

    Wide noise on a fine grid has uniform low bits, and then the low bits of value plus noise say
    nothing about the value. Noise that went through a float, or was rounded to a coarser grid, has
    constant ones: what is left of the value's own bits is then in plain view.

    Four families of tests share `false_alarm` equally, with Bonferroni corrections inside: every
    bit is 1 half of the time; so is the sum (exclusive or) of every two bits, and of the same bit
    of two integers in a row (in C order: of neighbouring coordinates); and the number that the
    lowest bits form takes all values equally often (as many bits as give 8 integers to each).

    Parameters
    ----------
    steps : array_like of int
        Noise in whole steps of its grid, as `DiscreteGaussian.sample_steps` draws it; or released
        values in steps.
    n_bits : int
        Bits to test, at most 62. Those less than `SPREAD` bits below the spread of the values
        cannot be expected to be uniform: they are left out, and the verdict is "incomplete".
    false_alarm : float
        Bound, in (0, 1), on the probability that uniform bits fail.

    Returns
    -------
    LowBitsAudit

    Raises
    ------
    TypeError, ValueError
        For numbers that are no integers (floats have lost their low bits), or fewer than 100.

    Notes
    -----
    A discrete Gaussian of scale s steps has bits below 2^b uniform up to exp(-2 pi^2 (s/2^b)^2), a
    discrete Laplace up to (2^b/(2 pi s))^2: with SPREAD = 6 below 1e-5 each.
    """
    try:
        values: IntArray = np.asarray(steps)
    except ValueError:
        raise TypeError("steps must be an array of integers") from None
    if values.dtype.kind not in "iu":
        raise TypeError(f"steps must be integers (floats lose low bits), got {values.dtype}")
    n_bits = check_int(n_bits, "n_bits", maximum=62)
    false_alarm = check_delta(false_alarm, "false_alarm")
    values = values.ravel()
    n = len(values)
    if n < 100:
        raise ValueError(f"steps must hold at least 100 integers, got {n}")
    # quartiles: an outlier must not make narrow noise look wide
    spread = float(np.subtract(*np.quantile(values.astype(np.float64), [0.75, 0.25]))) / 1.35
    usable = max(math.floor(math.log2(max(spread, 1.0))) - SPREAD, 0)
    tested = min(n_bits, usable)
    incomplete = []
    if tested < n_bits:
        incomplete.append(
            f"{tested} of {n_bits} bits were tested: the noise spreads over {spread:.3g} steps"
        )
    if tested == 0:
        return LowBitsAudit(n, (), (), tuple(incomplete), false_alarm)
    words = values.astype(np.uint64)
    bits = np.stack([(words >> np.uint64(b)) & np.uint64(1) for b in range(tested)]).astype(bool)
    share = false_alarm / 4
    failed = []
    ones = bits.sum(axis=1)
    for bit, count in enumerate(ones):
        if _two_sided(int(count), n) < share / tested:
            failed.append(f"bit {bit} is 1 in {count / n:.2%}")
    pairs = tested * (tested - 1) // 2
    for a in range(tested):
        for b in range(a):
            different = int((bits[a] ^ bits[b]).sum())
            if _two_sided(different, n) < share / pairs:
                failed.append(f"bits {b} and {a} differ in {different / n:.2%}")
    for bit in range(tested):
        different = int((bits[bit, 1:] ^ bits[bit, :-1]).sum())
        if _two_sided(different, n - 1) < share / tested:
            failed.append(f"bit {bit} changes from one integer to the next in {different / n:.2%}")
    together = min(tested, int(math.log2(n / 8)))
    counts = np.bincount(
        (words & np.uint64(2**together - 1)).astype(np.int64), minlength=2**together
    )
    statistic = float(((counts - n / 2**together) ** 2).sum() * 2**together / n)
    if stats.chi2.sf(statistic, 2**together - 1) < share:
        failed.append(f"the lowest {together} bits together are not uniform")
    return LowBitsAudit(
        n, tuple(float(x) for x in ones / n), tuple(failed), tuple(incomplete), false_alarm
    )


def _two_sided(count: int, n: int) -> float:
    return min(1.0, 2 * float(stats.binom.cdf(min(count, n - count), n, 0.5)))
