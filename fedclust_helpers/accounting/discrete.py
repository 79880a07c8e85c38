"""Discrete noise priced as the continuous noise that it is close to.

Integers that are noised by a rounded Gaussian are as private as the Gaussian mechanism: for a whole
number v, v + round(N) = round(v + N), which is post-processing, however the releases are composed.
What is really drawn is a *discrete* Gaussian (or Laplace). It is zero-concentrated (Canonne,
Kamath, Steinke 2020), and also so close to the rounded one that almost nothing is lost.

**Theorem.** Let a transcript be made by adaptive releases of integer vectors, each noised by
independent draws of X, and let Y be other noise on the integers, such that for all k

    P[X = k] <= e^a P[Y = k],     and   P[Y = k] <= e^b P[X = k]   wherever |k| <= t s,

with numbers a, b and t for every draw, A and B their sums over all draws, and T the sum of all
P[|Y| > t s]. If the same releases with noise Y are (eps, delta)-DP, then those with noise X are

    (eps + A + B,  e^A (delta + e^eps T))-DP.

*Proof.* Given a transcript, releases that came before decide what is released next, so the
probability of a transcript is the product of those of its draws; whatever else is drawn (other
mechanisms, samples, public coins) has the same factors with X as with Y. So P_X[S] <= e^A P_Y[S]
for every event S, and P_Y'[S] <= e^B P_X'[S] + T for the neighbour, where T bounds the event that
some draw leaves its range. Hence P_X[S] <= e^A (e^eps P_Y'[S] + delta) <= e^(A + eps + B) P_X'[S]
+ e^A (e^eps T + delta).

**Gaussian, scale s in steps.** P[X = k] = g(k)/(1 + theta) with g the density of N(0, s^2) and 0 <=
theta <= 2 q/(1 - q), q = exp(-2 pi^2 s^2) (Poisson summation), P[Y = k] = g(k) I(k) with I(k) the
mean of cosh(k u/s^2) exp(-u^2/(2 s^2)) over |u| <= 1/2. By Jensen, and cosh >= 1, log I >= -1/(24
s^2): a = 1/(24 s^2), for all k. By cosh y <= exp(y^2/2), and since exp(c v) lies below its chord
over v = u^2 in [0, 1/4], I <= 1 + (exp((t^2 - 1)/(8 s^2)) - 1)/3 for |k| <= t s: that less 1, plus
theta, is b, about (t^2 - 1)/(24 s^2). |Y| > t s needs |N| > z s with z = t - 1/(2 s): T <=
exp(-z^2/2) for each number.

**Laplace, scale s.** With h = 1/s, X over Y is 1/cosh(h/2) for k != 0 and (1 + e^(-h/2))/(1 +
e^(-h)) for k = 0: two constants, and no tail.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from fedclust_helpers._validation import check_delta, check_int, check_level
from fedclust_helpers.accounting.conversions import gaussian_sigma_analytic, zcdp_rho

ROOMS = (1e-7, 1e-5, 1e-4, 1e-3, 1e-2)  # shares of a budget that are tried as room for its gap


class Gap(NamedTuple):
    """How far draws of discrete noise are from rounded continuous ones; gaps add up.

    `up` is A of the theorem, `down` the part of B that holds everywhere, `drawn` (n, s) for n
    numbers with Gaussian noise of s steps, whose part of B depends on how far the noise may reach.
    """

    up: float = 0.0
    down: float = 0.0
    drawn: tuple[tuple[int, float], ...] = ()

    @classmethod
    def gaussian(cls, n: int, s: float, *, apart: float = 0.0) -> Gap:
        """`n` discrete Gaussians of `s` steps, or noise within e^(+-apart) of each of them."""
        n, s, apart = _drawn(n, s, apart)
        h = 1 / max(s, 1e-300)
        return cls(n * (h * h / 24 + apart), n * apart, ((n, s),) if n else ())

    @classmethod
    def laplace(cls, n: int, s: float) -> Gap:
        """`n` discrete Laplace numbers of scale `s` steps."""
        n, s, _ = _drawn(n, s)
        h = 1 / max(s, 1e-300)
        up = math.log1p(-math.exp(-h / 2) * math.expm1(-h / 2) / (1 + math.exp(-h)))
        return cls(n * up, n * h * h / 8)  # log cosh y <= y^2/2

    @classmethod
    def sum(cls, gaps: Iterable[Gap]) -> Gap:
        """The gap of several releases."""
        gaps, drawn = list(gaps), Counter[float]()
        for gap in gaps:
            for n, s in gap.drawn:
                drawn[s] += n
        total = math.fsum(g.up for g in gaps), math.fsum(g.down for g in gaps)
        return cls(*total, tuple((n, s) for s, n in drawn.items()))

    @property
    def numbers(self) -> int:
        """How many Gaussian numbers are drawn in all."""
        return sum(n for n, _ in self.drawn)

    def back(self, z: float) -> float:
        """B of the theorem, where no Gaussian exceeds `z` standard deviations."""
        total = [self.down]
        for n, s in self.drawn:
            t, q = z + 1 / (2 * s), math.exp(-2 * math.pi**2 * s * s)
            inner = math.expm1(min((t * t - 1) / (8 * s * s), 700.0)) / 3
            total.append(n * (inner + 2 * q / (1 - q)))
        return math.fsum(total)

    @property
    def room(self) -> float:
        """The share of delta that is left to the tails, about the best one."""
        return min(max(2 * self.up, 1e-9), 0.1)

    def reach(self, epsilon: float, delta: float) -> float:
        """The z at which e^epsilon T is the `room` within `delta`."""
        if not self.drawn:
            return 0.0
        room = math.log(self.room) + math.log(delta)
        return math.sqrt(2 * max(epsilon + math.log(self.numbers) - room, 0.0))


def _drawn(n: int, s: float, apart: float = 0.0) -> tuple[int, float, float]:
    levels = check_level(s, "s"), check_level(apart, "apart")
    return check_int(n, "n", minimum=0), *levels


def epsilon_across(gap: Gap, delta: float, epsilon_of: Callable[[float], float]) -> float:
    """Epsilon at `delta` of releases with discrete noise, by the theorem of this module.

    `epsilon_of` gives the epsilon at a delta of the same releases with continuous noise. inf where
    the gap is too wide to say anything useful.
    """
    delta = check_delta(delta, allow_zero=True)
    if not gap.up < 1.0 or delta < 1e-300:
        return math.inf
    least = delta * math.exp(-gap.up)
    epsilon = epsilon_of(least * (1 - gap.room))
    if not math.isfinite(epsilon):
        return math.inf
    return epsilon + gap.up + gap.back(gap.reach(epsilon, least))


def delta_across(gap: Gap, epsilon: float, delta_of: Callable[[float], float]) -> float:
    """Delta at `epsilon`, likewise; `delta_of` is that of the continuous noise.

    Where A + B is more than `epsilon`, what is missing is added to delta.
    """
    epsilon = check_level(epsilon, "epsilon")
    if not gap.up < 1.0 or epsilon > 700.0:
        return 1.0
    z = gap.reach(epsilon, max(delta_of(epsilon), 1e-300))
    shift = gap.up + gap.back(z)
    if shift > epsilon + 1:
        return 1.0
    within = max(epsilon - shift, 0.0)
    tails = gap.numbers * math.exp(within - z * z / 2)
    missing = math.exp(epsilon) * math.expm1(max(shift - epsilon, 0.0))
    return min(1.0, math.exp(gap.up) * (delta_of(within) + tails) + missing)


def discrete_multipliers(epsilon: float, delta: float) -> Iterator[float]:
    """Noise multipliers to try with discrete Gaussian noise for a total of (epsilon, delta).

    Growing: those of the exact curve with more and more room for the gap, then that of
    zero-concentrated DP, which needs none. On a fine grid the first one will do.
    """
    last = 1 / math.sqrt(2 * zcdp_rho(epsilon, delta))
    for room in ROOMS:
        sigma = gaussian_sigma_analytic(epsilon * (1 - room), delta * (1 - room))
        if sigma < last:
            yield sigma
    yield last
