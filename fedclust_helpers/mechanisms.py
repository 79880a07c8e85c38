"""Noise mechanisms: each is a noise distribution together with the sensitivity it hides.

A mechanism knows its `sensitivity`, in which norm, under which `adjacency`, and how to draw noise.
It does not know clients, and it never sees data: `sample` returns noise, the caller adds it.

Two sources of randomness, chosen by one argument: a seeded ``numpy.random.Generator`` (teaching,
tests) or `SECURE` (discrete mechanisms only: drawn exactly, from the operating system's entropy, by
`exact_noise`).

>>> import numpy as np
>>> count = Laplace.from_budget(1.0, 0.5)  # one row moves a count by 1; epsilon 0.5
>>> count.scale
2.0
>>> count.sample((2,), rng=np.random.default_rng(0)).round(1)
array([ 0.6, -1.2])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from fedclust_helpers._lazy import dpa
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_epsilon,
    check_fits,
    check_positive,
    check_rng,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.accounting.discrete import Gap, discrete_multipliers
from fedclust_helpers.accounting.entries import ADJACENCIES, Accountable, Entry, Pure
from fedclust_helpers.accounting.totals import total_epsilon
from fedclust_helpers.exact_noise import discrete_gaussian, discrete_laplace

__all__ = [
    "DiscreteGaussian", "DiscreteLaplace", "DistributedDiscreteGaussian", "Gaussian", "Laplace",
    "NoNoise", "SECURE",
]  # fmt: skip

Shape = int | tuple[int, ...]


MAX_NOISE = 2**30  # numbers that are drawn at once
MAX_STEPS = 2.0**62  # noise and totals in grid steps stay below this: int64 has a bit to spare
NEGLIGIBLE = 2.0**-80  # probability with which one coordinate of noise may leave its range
MAX_TEACHING_STEPS = 2.0**48  # NumPy's geometric numbers are floats inside: even last bits above


class SecureNoise:
    """Marker for the secure source: exact samplers, the operating system's entropy, no seed."""

    def __repr__(self) -> str:
        return "SECURE"


SECURE = SecureNoise()
NoiseSource = np.random.Generator | SecureNoise


def _size(shape: Shape) -> tuple[int, ...]:
    """The shape of noise that fits into memory."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    check_fits(math.prod(sizes), "shape", limit=MAX_NOISE)
    return sizes


class Mechanism(Accountable, Protocol):
    """What a federation needs of a mechanism (all of them below satisfy it)."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def norm(self) -> int: ...
    @property
    def std(self) -> float: ...
    @property
    def grid(self) -> float | None: ...
    def sample(self, shape: Shape, *, rng: NoiseSource) -> FloatArray: ...
    def tail(self, probability: float) -> float: ...


class _Base:
    """Guarantees that a mechanism does not have, and what all have in common."""

    sensitivity: float
    adjacency: str
    norm: ClassVar[int]
    grid: float | None = None
    gdp_mu: ClassVar[float | None] = None
    pure_epsilon: ClassVar[float] = math.inf
    rho: ClassVar[float | None] = None

    _positive: ClassVar[tuple[str, ...]] = ("sensitivity", "std")

    def __post_init__(self) -> None:
        """Noise of no or of unknown size hides nothing."""
        for name in self._positive:
            value = getattr(self, name)
            if not (type(value) is float and 0 < value < math.inf):
                object.__setattr__(self, name, check_positive(value, name))
        check_choice(self.adjacency, "adjacency", ADJACENCIES)

    def as_replace_one(self) -> Self:
        """The same noise, stated for replace-one neighbours: the sensitivity doubles at most.

        Replacing a record is removing one and adding another (triangle inequality).
        """
        if self.adjacency == "replace-one":
            return self
        return replace(self, sensitivity=2 * self.sensitivity, adjacency="replace-one")  # type: ignore[type-var]


@dataclass(frozen=True)
class NoNoise(_Base):
    """No protection at all: exact values leave, and the ledger shows epsilon = inf.

    >>> NoNoise().sample((2,)), NoNoise().gdp_mu
    (array([0., 0.]), inf)
    """

    adjacency: str = "add/remove"
    sensitivity: float = math.inf
    norm: ClassVar[int] = 2
    std: ClassVar[float] = 0.0
    gdp_mu: ClassVar[float | None] = math.inf
    rho: ClassVar[float | None] = math.inf

    _positive: ClassVar[tuple[str, ...]] = ()

    def sample(self, shape: Shape, *, rng: NoiseSource | None = None) -> FloatArray:
        """Zeros of the given shape."""
        return np.zeros(_size(shape))

    def tail(self, probability: float) -> float:
        """No noise, no tail: 0."""
        return 0.0

    def dp_event(self) -> dpa.DpEvent:
        """``NonPrivateDpEvent``."""
        return dpa.NonPrivateDpEvent()


class Kind(NamedTuple):
    """A kind of noise: how numbers of a given scale are drawn, and how far they reach.

    `draw` (rng, scale, size) gives floats; `seeded` (n, scale, rng) and `secure` (n, scale) whole
    numbers. Beyond `reach` (probability) scales, and one step, a whole number lies with at most
    that probability. `gap` (n, scale) is how far n whole numbers are from rounded floats.
    """

    draw: Callable[[np.random.Generator, float, tuple[int, ...]], FloatArray]
    seeded: Callable[[int, float, np.random.Generator], IntArray]
    secure: Callable[[int, float], IntArray]
    reach: Callable[[float], float]
    gap: Callable[[int, float], Gap]


def _laplace_steps(n: int, scale: float, rng: np.random.Generator) -> IntArray:
    """Integers with P(x) proportional to exp(-|x|/scale): difference of two geometrics."""
    p = -math.expm1(-1 / scale)
    return rng.geometric(p, n) - rng.geometric(p, n)


def _gaussian_steps(n: int, scale: float, rng: np.random.Generator) -> IntArray:
    """Rejection from the discrete Laplace (Canonne et al., Algorithm 3), vectorised."""
    t = math.floor(scale) + 1
    out = np.empty(0, dtype=np.int64)
    while len(out) < n:
        y = _laplace_steps(int(1.5 * (n - len(out))) + 16, t, rng)
        with np.errstate(over="ignore"):  # of a tiny scale: an infinite exponent is no chance
            exponent = ((np.abs(y) - scale**2 / t) / scale) ** 2 / 2
        out = np.concatenate([out, y[rng.random(len(y)) < np.exp(-exponent)]])
    return out[:n]


KINDS = {
    1: Kind(
        draw=lambda rng, scale, size: rng.laplace(0.0, scale, size),
        seeded=_laplace_steps, secure=discrete_laplace, reach=lambda p: math.log(2 / p),
        gap=Gap.laplace,
    ),
    2: Kind(
        draw=lambda rng, scale, size: rng.normal(0.0, scale, size),
        seeded=_gaussian_steps, secure=discrete_gaussian,
        reach=lambda p: math.sqrt(2 * math.log(2 / p)), gap=Gap.gaussian,
    ),
}  # fmt: skip
"""Norm of the sensitivity that it hides -> the kind of noise: Laplace or Gaussian."""


class _Continuous(_Base):
    """Noise in floating point: it leaks in its last bits, so there is no secure sampler."""

    def sample(self, shape: Shape, *, rng: NoiseSource) -> FloatArray:
        """Noise of the given shape (teaching source only)."""
        if isinstance(rng, SecureNoise):
            raise ValueError(
                f"{type(self).__name__} has no secure sampler: use a discrete mechanism"
            )
        scale = getattr(self, self._positive[1])  # "std" or "scale"
        return KINDS[self.norm].draw(check_rng(rng), scale, _size(shape))


@dataclass(frozen=True)
class Gaussian(_Continuous):
    """Independent N(0, std^2) on each coordinate of a statistic with bounded L2 sensitivity.

    Exactly mu-GDP with mu = sensitivity/std (FastLloyd, Theorem 2.1).

    Examples
    --------
    >>> m = Gaussian.from_budget(sensitivity=1.0, epsilon=1.0, delta=1e-5)
    >>> round(m.std, 4), round(m.gdp_mu, 4)
    (3.7306, 0.2681)
    """

    sensitivity: float
    std: float
    adjacency: str = "add/remove"
    norm: ClassVar[int] = 2

    @classmethod
    def from_budget(
        cls, sensitivity: float, epsilon: float, delta: float, *, adjacency: str = "add/remove"
    ) -> Gaussian:
        """The smallest noise that is (epsilon, delta)-DP: analytic calibration, any epsilon."""
        return cls(sensitivity, sensitivity * gaussian_sigma_analytic(epsilon, delta), adjacency)

    @property
    def gdp_mu(self) -> float:  # type: ignore[override]
        """mu = sensitivity / std."""
        return self.sensitivity / self.std

    @property
    def rho(self) -> float:  # type: ignore[override]
        """zCDP parameter mu^2/2."""
        return self.gdp_mu**2 / 2

    def tail(self, probability: float) -> float:
        """A bound that one coordinate exceeds with at most this probability."""
        return self.std * KINDS[2].reach(probability)

    def dp_event(self) -> dpa.DpEvent:
        """``GaussianDpEvent`` with noise multiplier std/sensitivity."""
        return dpa.GaussianDpEvent(self.std / self.sensitivity)


class _Laplace(Pure, _Base):
    """Laplace noise: epsilon-DP with epsilon = sensitivity/scale."""

    scale: float
    norm: ClassVar[int] = 1
    _positive: ClassVar[tuple[str, ...]] = ("sensitivity", "scale")

    @classmethod
    def from_budget(cls, sensitivity: float, epsilon: float, **how: Any) -> Self:
        """Noise for pure epsilon-DP: scale = sensitivity/epsilon; `how` are the other fields."""
        return cls(sensitivity, sensitivity / check_epsilon(epsilon), **how)  # type: ignore[call-arg]

    @property
    def pure_epsilon(self) -> float:  # type: ignore[override]
        """epsilon = sensitivity / scale."""
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class Laplace(_Laplace, _Continuous):
    """Independent Laplace(scale) on each coordinate of a statistic with bounded L1 sensitivity.

    epsilon-DP with epsilon = sensitivity/scale; the variance is 2 scale^2.
    """

    sensitivity: float
    scale: float
    adjacency: str = "add/remove"

    @property
    def std(self) -> float:
        """Standard deviation sqrt(2) scale."""
        return math.sqrt(2) * self.scale

    def tail(self, probability: float) -> float:
        """A bound that one coordinate exceeds with at most this probability."""
        return self.scale * math.log(1 / probability)

    def dp_event(self) -> dpa.DpEvent:
        """``LaplaceDpEvent`` with noise multiplier scale/sensitivity."""
        return dpa.LaplaceDpEvent(self.scale / self.sensitivity)


@dataclass(frozen=True)
class _Discrete(_Base):
    """Noise on the multiples of `grid`, for values that were rounded to that grid.

    Noise is drawn, added and encoded in whole steps (int64). A float on the way would have even
    last digits wherever scale/grid passes 2^53, and so would tell value and noise apart.

    `n_coordinates`, if given, is the largest number of coordinates that it is drawn for, a public
    number. Totals then also go through the continuous noise of the same scale (`continuous`).
    """

    sensitivity: float
    scale: float
    grid: float = 1.0
    adjacency: str = "add/remove"
    n_coordinates: int | None = None
    norm: ClassVar[int] = 2
    _positive: ClassVar[tuple[str, ...]] = ("sensitivity", "scale", "grid")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.scale / self.grid > 0 and self.tail(NEGLIGIBLE) / self.grid < MAX_STEPS):
            raise ValueError(
                "scale/grid must be a positive float below about 2^58 (64-bit integers):"
                " change the grid"
            )

    def sample_steps(self, shape: Shape, *, rng: NoiseSource) -> IntArray:
        """Noise of the given shape in whole steps of `grid`; `rng` a Generator or SECURE."""
        n, scale = math.prod(_size(shape)), self.scale / self.grid
        if isinstance(rng, SecureNoise):
            return KINDS[self.norm].secure(n, scale).reshape(shape)
        if scale > MAX_TEACHING_STEPS:
            raise ValueError("scale/grid must be at most 2^48 with a seed: take a coarser grid")
        return KINDS[self.norm].seeded(n, scale, check_rng(rng)).reshape(shape)

    def sample(self, shape: Shape, *, rng: NoiseSource) -> FloatArray:
        """`sample_steps` as numbers, multiples of `grid`. For looking at: releases add steps."""
        return self.sample_steps(shape, rng=rng).astype(np.float64) * self.grid

    def tail(self, probability: float) -> float:
        """A bound that one coordinate exceeds with at most this probability."""
        return self.scale * KINDS[self.norm].reach(probability) + self.grid

    def continuous(self) -> tuple[Gaussian | Laplace, Gap] | None:
        """Continuous noise of the same scale, and the gap to it; None without `n_coordinates`."""
        if self.n_coordinates is None:
            return None
        gap = self._gap(self.n_coordinates, self.scale / self.grid)
        twin = Gaussian if self.norm == 2 else Laplace
        return twin(self.sensitivity, self.scale, self.adjacency), gap

    def _gap(self, n: int, scale: float) -> Gap:
        return KINDS[self.norm].gap(n, scale)

    @property
    def std(self) -> float:
        """The scale: an upper bound of the standard deviation, exact to 1e-6 for scale >= grid."""
        return self.scale

    def dp_event(self) -> dpa.DpEvent:
        """``ZCDpEvent``: the RDP accountant takes it, PLD does not."""
        return dpa.ZCDpEvent(self.rho)


@dataclass(frozen=True)
class DiscreteGaussian(_Discrete):
    """Discrete Gaussian on the multiples of `grid`: P(x) proportional to exp(-x^2/(2 scale^2)).

    rho-zCDP with rho = sensitivity^2/(2 scale^2) for L2 sensitivity (Canonne, Kamath, Steinke
    2020, Theorem 14). The statistic must be rounded to the grid *before* its sensitivity is
    stated. With `n_coordinates`, totals take the exact curve of the Gaussian where the grid is fine
    enough (`accounting.discrete`).

    >>> noise = DiscreteGaussian.from_budget(1.0, epsilon=1.0, delta=1e-6)
    >>> round(noise.scale, 2), round(noise.rho, 4)
    (4.53, 0.0244)
    """

    @classmethod
    def from_budget(
        cls,
        sensitivity: float,
        epsilon: float,
        delta: float,
        *,
        grid: float = 1.0,
        adjacency: str = "add/remove",
        n_coordinates: int | None = None,
    ) -> DiscreteGaussian:
        """Noise that is (epsilon, delta)-DP: little more than a Gaussian's, or by its zCDP bound.

        The former needs `n_coordinates` and a fine grid.
        """
        for multiplier in discrete_multipliers(epsilon, delta):
            made = cls(sensitivity, sensitivity * multiplier, grid, adjacency, n_coordinates)
            entry = Entry(0, "", (made,), "point", adjacency)
            if total_epsilon([entry], delta) <= epsilon * (1 + 1e-9):
                break
        return made

    @property
    def rho(self) -> float:  # type: ignore[override]
        """zCDP parameter sensitivity^2 / (2 scale^2)."""
        return (self.sensitivity / self.scale) ** 2 / 2


@dataclass(frozen=True)
class DiscreteLaplace(_Laplace, _Discrete):
    """Discrete Laplace (two-sided geometric) on the multiples of `grid`, for L1 sensitivity.

    epsilon-DP with epsilon = sensitivity/scale, for values rounded to the grid.

    >>> noise = DiscreteLaplace.from_budget(1.0, 0.5)
    >>> noise.scale, round(noise.std, 2)
    (2.0, 2.8)
    """

    _positive: ClassVar[tuple[str, ...]] = _Discrete._positive

    @property
    def std(self) -> float:
        """Standard deviation grid * sqrt(2 e^-a)/(1 - e^-a) with a = grid/scale."""
        a = self.grid / self.scale
        return self.grid * math.sqrt(2 * math.exp(-a)) / -math.expm1(-a)


@dataclass(frozen=True)
class DistributedDiscreteGaussian(_Discrete):
    """One node's share of a noise that must hide the statistic even from colluding nodes.

    Every node adds a discrete Gaussian of scale ``scale/sqrt(n_honest)`` (what `sample` draws).
    `n_honest` of them together hide a statistic of the given L2 `sensitivity` in `n_coordinates`
    dimensions, whatever the others do with what they know; `std`, `rho` and `tail` are theirs.

    The sum of discrete Gaussians is only close to one. Kairouz, Liu and Steinke (2021, Theorem 1)
    bound it: (1/2) e^2-concentrated DP with

        e = min( sqrt(D^2/s^2 + tau d/2),  D/s + tau sqrt(d) ),
        tau = 10 sum_{j=1}^{m-1} exp(-2 pi^2 (s^2/m) j/(j+1)),

    in grid units, D the sensitivity, s the scale, m = n_honest, for shares of s/sqrt(m) >= 1/2. On
    a fine grid tau is 0 in floats. Their proof (Theorem 8) bounds the ratio of the probabilities of
    the sum and of one discrete Gaussian of scale s, at every integer, by e^(+-tau/2): so the sum is
    as close to a Gaussian as the latter, but for that (`accounting.discrete`).

    >>> share = DistributedDiscreteGaussian(1.0, 8.0, n_honest=4)
    >>> share.std, round(share.rho, 4)
    (8.0, 0.0078)
    """

    n_coordinates: int = 1
    n_honest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_honest > 1 and self.scale < self.grid / 2 * math.sqrt(self.n_honest):
            raise ValueError("scale must be >= sqrt(n_honest) grid/2, else no bound holds")

    @property
    def rho(self) -> float:  # type: ignore[override]
        """zCDP parameter of the honest nodes' noise."""
        d, tau, ratio = self.n_coordinates, self._tau, self.sensitivity / self.scale
        return min(ratio**2 + tau * d / 2, (ratio + tau * math.sqrt(d)) ** 2) / 2

    @property
    def _tau(self) -> float:
        s, m = self.scale / self.grid, self.n_honest
        j = np.arange(1, m)
        return 10 * float(np.exp(-2 * np.pi**2 * (s**2 / m) * j / (j + 1)).sum())

    def hidden_by(self, n_honest: int) -> DistributedDiscreteGaussian:
        """The noise of so many of these shares."""
        scale = self.scale * math.sqrt(n_honest / self.n_honest)
        return replace(self, scale=scale, n_honest=n_honest)

    def _gap(self, n: int, scale: float) -> Gap:
        return Gap.gaussian(n, scale, apart=self._tau / 2)

    def sample_steps(self, shape: Shape, *, rng: NoiseSource) -> IntArray:
        """The noise of one node, in whole steps of `grid`."""
        one = DiscreteGaussian(
            self.sensitivity, self.scale / math.sqrt(self.n_honest), self.grid, self.adjacency
        )
        return one.sample_steps(shape, rng=rng)

    def tail(self, probability: float) -> float:
        """A bound for the honest nodes' noise in one coordinate (sub-Gaussian)."""
        return super().tail(probability) + (self.n_honest - 1) * self.grid
