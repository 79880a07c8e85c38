"""Discrete noise drawn exactly from fair bits: no seed, no table, no rounding in any probability.

A uniform number U in [0, 1) is an endless sequence of fair bits, of which only as many are looked
at as a decision needs. ``U < exp(-x)`` is decided by `WORD` bits and floats in nearly all cases;
where these stand too close to say (about once in 2^30 decisions), more bits are drawn and compared
with bounds of exp(-x) in rational arithmetic. So every decision is the one that the whole sequence
would have given, and what comes out has exactly the law

    discrete Laplace    P(x) proportional to exp(-|x|/s)
    discrete Gaussian   P(x) proportional to exp(-x^2/(2 s^2))

over the integers, for the float `s` as it is: a rational number. The Gaussian is Algorithm 3 of
Canonne, Kamath and Steinke (2020), rejection from the Laplace; the latter is drawn by its low and
high digits instead of their Algorithm 2. The bits are the operating system's, asked for again with
every call, so threads and forked processes never share any. How long a call takes depends on what
is drawn: timing is not hidden.

Why floats may decide
---------------------
Let e be the float that stands for x, p the float ``exp(-e)``, u the first bits as a float. All
errors below are absolute errors of a probability, in units of h = 2^-53 (half an ulp of 1).

1. *Word.* U lies between u and u + 2^-WORD, and u is exact: WORD <= 32 bits fit into a float.
2. *Exponent.* If e is off by E, then p is off by at most E exp(-x) (to first order; the rest is
   below h/1000). A relative error of r h costs r x exp(-x) h <= r h/2.7, as x exp(-x) <= 1/e.

   * Laplace: an integer below 2^58 is rounded (1), divided by s (1): 2 h relative, below 1 h.
   * Gaussian: x = z^2/2 with z = (|y| - c)/s and c = s^2/t < s, as t = floor(s) + 1 > s. c is
     correctly rounded, |y| rounded to a float, their difference rounded: an error of at most
     (|y| + c + ||y| - c|) h <= 2 (s + s |z|) h, however much cancels where |y| is close to c. Over
     s, that moves x by at most 2 (1 + |z|) |z| h, and p by 2 (|z| + z^2) exp(-z^2/2) h < 2.7 h
     (the two terms are largest at z = 1 and z^2 = 2: .61 and .74). Dividing by s and squaring
     rounds three more times: 3 h relative, 1.2 h. Together below 4 h.
   * Below the smallest normal float, errors are 2^-1074 and move nothing; a quotient beyond the
     largest float is infinite, and p = 0 is off by less than h, too.
3. *exp* of the platform is off by at most 4 ulp: 8 h of p <= 1.
4. *Comparing.* u - p is rounded: 1 h.

Together below 1 + 4 + 8 + 1 < 16 h = 2^-49. `SLACK` = 2^-40 leaves a factor of 512.

>>> noise = discrete_laplace(10_000, scale=2.0)
>>> noise.shape, bool(abs(noise.mean()) < 0.5)
((10000,), True)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import IntArray

__all__ = ["discrete_gaussian", "discrete_laplace"]

WORD = 32  # bits of a uniform number that are looked at first; at most 32, see above
SLACK = 2.0**-40  # how far float errors may move a probability, 512 times what was proved
BLOCK = 2**16  # candidates that are drawn at once: memory stays small, an interrupt is heard

Exact = Callable[[int], Fraction]


def random_bits(n: int, size: int) -> NDArray[np.unsignedinteger]:
    """n words of `size` fair bits each (1 to 64), from the operating system."""
    width = 1 << max(0, math.ceil(math.log2(size / 8)))  # bytes: 1, 2, 4 or 8
    words = np.frombuffer(os.urandom(width * n), dtype=f"<u{width}")
    return words >> words.dtype.type(8 * width - size)


def discrete_laplace(n: int, scale: float) -> IntArray:
    """n independent integers with P(x) proportional to exp(-|x|/scale), 0 < scale < 2^57."""
    return _collect(n, lambda m: _laplace_candidates(m, scale), most=2.2)


def discrete_gaussian(n: int, scale: float) -> IntArray:
    """n independent integers with P(x) proportional to exp(-x^2/(2 scale^2)), 0 < scale < 2^58."""
    return _collect(n, lambda m: _gaussian_candidates(m, scale), most=1.5)


def _collect(n: int, candidates: Callable[[int], IntArray], most: float) -> IntArray:
    """The first n of what `candidates` keep, about one of `most` that are tried."""
    out, done = np.empty(n, dtype=np.int64), 0
    while done < n:
        kept = candidates(min(int(most * (n - done)) + 16, BLOCK))[: n - done]
        out[done : done + len(kept)] = kept
        done += len(kept)
    return out


def _laplace_candidates(m: int, s: float) -> IntArray:
    """What m tries leave over of integers with P(x) proportional to exp(-|x|/s).

    With a power of two b <= s (or 1), |x| = low + b high: low < b with P proportional to
    exp(-low/s), by rejection, and high a number of successes of probability exp(-b/s) each.
    """
    digits = max(0, math.floor(math.log2(s)))
    block, scale = 1 << digits, Fraction(s)
    low = np.zeros(m, dtype=np.int64)
    if digits:
        low = random_bits(m, digits).astype(np.int64)
        low = low[_happens(low / s, lambda i: int(low[i]) / scale)]
    x = low + block * _successes(len(low), block / scale)
    negative = random_bits(len(x), 1).astype(bool)
    # each sign has half of the probability, and zero would be drawn with both
    return np.where(negative, -x, x)[~(negative & (x == 0))]


def _successes(n: int, x: Fraction) -> IntArray:
    """n numbers of tries before the first that fails, each succeeding with probability exp(-x)."""
    count, going = np.zeros(n, dtype=np.int64), np.arange(n)
    e = float(min(x, Fraction(1000)))  # beyond 746 p is 0 either way; 1/s of a tiny s has no float
    while len(going):
        going = going[_happens(np.full(len(going), e), lambda _: x)]
        count[going] += 1
    return count


def _gaussian_candidates(m: int, s: float) -> IntArray:
    """What rejection leaves over of m Laplace numbers of scale t = floor(s) + 1 (Algorithm 3)."""
    t, scale = math.floor(s) + 1, Fraction(s)
    y = discrete_laplace(m, t)
    centre = scale**2 / t
    with np.errstate(over="ignore"):  # of a tiny s: an infinite exponent is a probability of 0
        e = ((np.abs(y) - float(centre)) / s) ** 2 / 2
    return y[_happens(e, lambda i: (abs(int(y[i])) - centre) ** 2 / (2 * scale**2))]


def _happens(e: NDArray[np.float64], exact: Exact) -> NDArray[np.bool_]:
    """For each of m independent events of probability exp(-x) whether it happens.

    `e` are floats near x (as near as the module says), ``exact(i)`` is the i-th x itself.
    """
    words = random_bits(len(e), WORD)
    apart = words * 2.0**-WORD - np.exp(-e)  # of u and p; the bits not drawn yet only add to u
    happens = apart < 0
    for i in np.flatnonzero((apart >= -SLACK - 2.0**-WORD) & (apart <= SLACK)):
        happens[i] = _below(int(words[i]), WORD, exact(int(i)))
    return happens


def _below(bits: int, n: int, x: Fraction) -> bool:
    """Whether the uniform number whose first n bits are these lies below exp(-x)."""
    while True:
        low, high = exp_bounds(x, n + 32)
        if Fraction(bits + 1, 1 << n) <= low:
            return True
        if Fraction(bits, 1 << n) >= high:
            return False
        bits, n = bits << WORD | int(random_bits(1, WORD)[0]), n + WORD


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """exp(-x) between two rationals that are at most 2^-bits apart, for x >= 0.

    With m such that y = x/2^m < 1/2, exp(-y) is an alternating series whose terms fall by half and
    more; squared m times it is exp(-x). All is done in whole units of 2^-(bits + m + 12), rounded
    outwards. Each of K terms is below 2 units too large, and what is left out after one of at most
    a unit is below another: an interval of 4 K + 2 units, K < 1000. Squaring doubles it and adds 2.
    """
    m = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 2)
    y, shift = x / (1 << m), bits + m + 12
    total = term = one = 1 << shift
    n_terms = 0
    while term > 1:
        n_terms += 1
        term = -(-term * y.numerator // (y.denominator * n_terms))  # rounded up
        total += -term if n_terms % 2 else term
    low, high = max(0, total - 2 * n_terms - 1), min(one, total + 2 * n_terms + 1)
    for _ in range(m):
        low, high = low * low >> shift, -(-high * high >> shift)
    return Fraction(low, one), Fraction(high, one)
