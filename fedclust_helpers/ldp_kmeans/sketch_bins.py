"""How Gaussians fall into the bins of a sketch's questions: probabilities and their slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fedclust_helpers._index import take
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.sketch import Questions

NARROW = 0.115  # periods; other wraps of a narrower Gaussian hold less than 1e-5
ORDERS = 5  # a wider one has harmonics beyond these of less than 1e-6
TINY = 1e-9
TAIL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)  # highest power first
TAIL_RATE = 0.3275911 / math.sqrt(2)
SINE, COSINE = (
    [(-1) ** i * math.pi ** (2 * i + odd) / math.factorial(2 * i + odd) for i in range(8, -1, -1)]
    for odd in (1, 0)
)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Counts (m, g) of the answers to questions, and how they were randomised."""

    questions: Questions
    counts: FloatArray
    response: RandomizedResponse

    @cached_property
    def span(self) -> float:
        """How much likelier the true symbol is reported than another one."""
        return self.response.keep - self.response.other

    @cached_property
    def seen(self) -> FloatArray:
        """The counts as (g, m)."""
        return np.ascontiguousarray(self.counts.T)

    @cached_property
    def totals(self) -> FloatArray:
        """Users of each question, (m,)."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def _axes(self) -> list[_Axes]:
        found, bins = [], self.questions.bins
        for n_bins, run in groupby(range(len(bins)), key=lambda i: bins[i]):
            found.append(_Axes.of(self.questions, n_bins, list(run)))
        return found

    @cached_property
    def _halves(self) -> list[IntArray]:
        """The bins (axes, symbols) of the first half of the axes, and of the others."""
        digits, middle = self.questions.digits, (len(self.questions.bins) + 1) // 2
        later = math.prod(self.questions.bins[middle:])
        return [digits[:middle, ::later], digits[middle:, :later]]

    def falls(self, centers: FloatArray, sds: FloatArray) -> Falls:
        """How Gaussians fall into the bins of all axes."""
        waves = [axes.waves(centers, sds) for axes in self._axes]
        bins = [axes.bins(wave) for axes, wave in zip(self._axes, waves, strict=True)]
        by_axis = [group[:, :, i] for group in bins for i in range(group.shape[2])]
        halves = []
        for digits in self._halves:
            half = np.ones((digits.shape[1], len(sds), self.questions.n_questions))
            for digit in digits:
                half *= by_axis.pop(0)[digit]
            halves.append(half)
        return Falls(halves[0], halves[1], bins, waves)

    def _by_halves(self, values: FloatArray) -> FloatArray:
        """An array (g, m) by the symbols of both halves of the axes."""
        first, second = (half.shape[1] for half in self._halves)
        return values.reshape(first, second, -1)

    def reports(self, weights: FloatArray, falls: Falls) -> FloatArray:
        """Probability (g, m) of each report under a mixture."""
        background = max(0.0, 1 - weights.sum()) / self.questions.n_symbols
        first = weights[:, None] * falls.first
        truth = np.einsum("akm,bkm->abm", first, falls.second).reshape(self.seen.shape)
        return np.asarray(self.response.other + self.span * (truth + background))

    def meet(self, values: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
        """Sums (K,) of values (g, m) times the symbols that these halves make."""
        toward = np.einsum("abm,bkm->akm", self._by_halves(values), second)
        return np.einsum("akm,akm->k", first, toward)

    def slopes(
        self, weights: FloatArray, pull: FloatArray, falls: Falls, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Derivatives of sum(pull weights symbols): by weights, centres (K, d) and log sds (K,).

        `pull` is (g, m).
        """
        pulled = self._by_halves(pull)
        firsts = falls.first * np.einsum("abm,bkm->akm", pulled, falls.second)
        by_weight = firsts.sum(axis=(0, 2))
        firsts *= weights[:, None]
        seconds = falls.second * np.einsum("abm,akm->bkm", pulled, falls.first)
        seconds *= weights[:, None]
        first, second = self._halves
        products = [(firsts, digit) for digit in first] + [(seconds, digit) for digit in second]
        by_center = np.zeros((len(sds), self.questions.directions.shape[2]))
        by_sd = np.zeros(len(sds))
        for axes, wave, p in zip(self._axes, falls.waves, falls.bins, strict=True):
            by_bin = np.empty_like(p)
            for i in range(p.shape[2]):
                product, digit = products.pop(0)
                one_hot = np.eye(len(p))[:, digit]
                flat = one_hot @ product.reshape(len(product), -1)
                by_bin[:, :, i] = flat.reshape(len(p), *product.shape[1:])
            c, b = axes.slopes(by_bin / p, wave)
            by_center += c
            by_sd += b
        return by_weight, by_center, by_sd


class Falls(NamedTuple):
    """Probabilities that Gaussians fall into bins: symbols are products of two halves.

    An answer's symbol (a, b) has the probability ``first[a, k] * second[b, k]`` under component k.
    """

    first: FloatArray  # (a, K, m)
    second: FloatArray  # (b, K, m)
    bins: list[FloatArray]  # (B, K, t, m), of t axes in turn with B bins each
    waves: list[Waves]


class _Axes(NamedTuple):
    """The next t axes of all questions that have B bins each: how Gaussians fall into them.

    A standard deviation below NARROW periods takes normal distribution functions at the edges,
    a wider one the harmonics of the wrapped normal: both are exact to about 1e-6.
    """

    shape: tuple[int, int]  # t, m
    slope: FloatArray  # (t m, d)
    phase: FloatArray  # (t m,)
    period: FloatArray  # (t m,)
    orders: FloatArray  # (H,), those that bins of this number see
    mix: FloatArray  # (B, 2 H), from harmonics to probabilities

    @classmethod
    def of(cls, q: Questions, n_bins: int, these: list[int]) -> _Axes:
        h = np.array([h for h in range(1, ORDERS + 1) if h % n_bins], dtype=np.float64)
        middle = 2 * np.pi * h * (np.arange(n_bins)[:, None] + 0.5) / n_bins
        size = 2 * np.sin(np.pi * h / n_bins) / (np.pi * h)
        mix = np.concatenate([size * np.cos(middle), size * np.sin(middle)], axis=1)
        slope = (q.directions[:, these] / q.periods[:, these, None]).transpose(1, 0, 2)
        shape = slope.shape[:2]
        phase, period = (np.ravel(of[:, these].T) for of in (q.phases, q.periods))
        return cls(shape, slope.reshape(-1, slope.shape[2]), phase, period, h, mix)

    def waves(self, centers: FloatArray, sds: FloatArray) -> Waves:
        """Where Gaussians lie on the axes, and what their bins are made of."""
        turn = centers @ self.slope.T
        turn += self.phase
        turn, width = turn.ravel(), (sds[:, None] / self.period).ravel()
        narrow = width < NARROW
        thin, wide = np.flatnonzero(narrow), np.flatnonzero(~narrow)
        n_bins = len(self.mix)
        # from each edge to the centre, in periods
        far = np.arange(n_bins)[:, None] / n_bins - turn[thin]
        far -= np.rint(far)
        far /= width[thin]
        return Waves(
            len(sds), thin, wide, far, np.exp(-0.5 * far**2), width[thin],
            self._harmonics(turn[wide], width[wide]), width[wide],
        )  # fmt: skip

    def _harmonics(self, turn: FloatArray, width: FloatArray) -> FloatArray:
        """Cosines, then sines: (2 H, those)."""
        n, n_bins = len(self.orders), len(self.mix)
        out, wave = np.empty((2 * n, len(turn))), np.empty(len(turn), dtype=np.complex128)
        wave.real, wave.imag = _cosine_and_sine(turn)
        step = 2 if n_bins == 2 else 1  # two bins see odd orders only
        further, at = wave**step, 0
        rate = np.maximum(-2 * np.pi**2 * width**2, -30.0)
        for h in range(1, ORDERS + 1, step):
            if h > 1:
                wave *= further
            if h % n_bins:
                damp = np.exp(rate * h**2)
                np.multiply(wave.real, damp, out=out[at])
                np.multiply(wave.imag, damp, out=out[n + at])
                at += 1
        return out

    def bins(self, wave: Waves) -> FloatArray:
        """Probabilities (B, K, t, m)."""
        n_bins = len(self.mix)
        out = np.empty((n_bins, wave.n_components * len(self.period)))
        if len(wave.wide):
            flat = self.mix @ wave.waves
            flat += 1 / n_bins
            _scatter(flat, wave.wide, out)
        if len(wave.thin):
            at = _below(wave.far, wave.bell)
            at -= wave.far * wave.thin_width
            _scatter(np.roll(at, -1, axis=0) - at + 1 / n_bins, wave.thin, out)
        return np.maximum(out, TINY, out=out).reshape(n_bins, wave.n_components, *self.shape)

    def slopes(self, by_bin: FloatArray, wave: Waves) -> tuple[FloatArray, FloatArray]:
        """By centres (K, d) and log sds (K,), from those by probabilities (B, K, t, m)."""
        by_bin = by_bin.reshape(len(by_bin), -1)
        by_turn, by_width = np.empty(by_bin.shape[1]), np.empty(by_bin.shape[1])
        n = len(self.orders)
        if len(wave.wide):
            by_wave = self.mix.T @ take(by_bin, wave.wide, axis=1)
            turned = by_wave[n:] * wave.waves[:n] - by_wave[:n] * wave.waves[n:]
            by_turn[wave.wide] = 2 * np.pi * (self.orders @ turned)
            by_wave *= wave.waves
            damped = np.tile(self.orders**2, 2) @ by_wave
            by_width[wave.wide] = -4 * np.pi**2 * wave.wide_width**2 * damped
        if len(wave.thin):
            pull = take(by_bin, wave.thin, axis=1)
            pull = np.roll(pull, 1, axis=0) - pull  # of the distribution function at each edge
            pull *= wave.bell * (1 / math.sqrt(2 * math.pi))
            by_turn[wave.thin] = -pull.sum(axis=0) / wave.thin_width
            by_width[wave.thin] = -(pull * wave.far).sum(axis=0)
        by_component = wave.n_components, -1
        return by_turn.reshape(by_component) @ self.slope, by_width.reshape(by_component).sum(
            axis=1
        )


class Waves(NamedTuple):
    """Gaussians on some axes of all questions: narrow ones by edges, wide ones by harmonics."""

    n_components: int
    thin: IntArray
    wide: IntArray
    far: FloatArray  # (B, thin), from the centre to the edges, in standard deviations
    bell: FloatArray  # (B, thin), exp(-far^2/2)
    thin_width: FloatArray
    waves: FloatArray  # (2 H, wide)
    wide_width: FloatArray


def _scatter(rows: FloatArray, where: IntArray, out: FloatArray) -> None:
    """Write rows into these columns: one by one, which is ten times as fast as together."""
    for row, to in zip(rows, out, strict=True):
        to[where] = row


def _below(far: FloatArray, bell: FloatArray) -> FloatArray:
    """The normal distribution function at `far`, to 1e-7; `bell` is ``exp(-far^2/2)``.

    Equation 7.1.26 of Abramowitz and Stegun (1964), in a tenth of the time of `scipy.special.ndtr`.
    """
    size = np.abs(far)
    near = 1 / (1 + TAIL_RATE * size)
    tail = _polynomial(TAIL, near)
    tail *= near
    tail *= bell
    return 0.5 + np.copysign(0.5 - 0.5 * tail, far)


def _cosine_and_sine(turn: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of 2 pi turn, to 1e-12, in a tenth of the time of NumPy's: Taylor series of the half turn."""
    half = turn - np.rint(turn)
    square = half * half
    cos, sin = _polynomial(COSINE, square), half * _polynomial(SINE, square)
    return 1 - 2 * sin * sin, 2 * sin * cos


def _polynomial(coefficients: Sequence[float], x: FloatArray) -> FloatArray:
    """Horner's rule, the highest power first."""
    out = coefficients[0] * x
    for c in coefficients[1:-1]:
        out += c
        out *= x
    out += coefficients[-1]
    return out
