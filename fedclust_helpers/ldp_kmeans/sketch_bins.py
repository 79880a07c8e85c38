"""How Gaussians fall into the bins of a sketch's questions: probabilities and their slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedclust_helpers._lazy import special
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.sketch import Questions

NARROW = 0.115  # periods; other wraps of a narrower Gaussian hold less than 1e-5
ORDERS = 5  # a wider one has harmonics beyond these of less than 1e-6
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Sketch:
    """Counts (m, g) of the answers to questions, and how they were randomised.

    The methods keep probabilities in arrays (g, K, m): symbols, components, questions.
    """

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
    def _axes(self) -> list[_Axis]:
        return [_Axis.of(self.questions, i) for i in range(len(self.questions.bins))]

    def waves(self, centers: FloatArray, sds: FloatArray) -> list[Waves]:
        """Of each axis the damped harmonics (2 H, K, m) of Gaussians."""
        return [axis.waves(centers, sds) for axis in self._axes]

    def bins(self, waves: Sequence[Waves]) -> list[FloatArray]:
        """Of each axis the probabilities (B, K, m) of its bins."""
        return [axis.bins(wave) for axis, wave in zip(self._axes, waves, strict=True)]

    def symbols(self, bins: Sequence[FloatArray]) -> FloatArray:
        """Probability (g, K, m) of each symbol, before it is randomised."""
        out = bins[0][self.questions.digits[0]]
        for p, digits in zip(bins[1:], self.questions.digits[1:], strict=True):
            out *= p[digits]
        return out

    def reports(self, weights: FloatArray, symbols: FloatArray) -> FloatArray:
        """Probability (g, m) of each report under a mixture."""
        background = max(0.0, 1 - weights.sum()) / self.questions.n_symbols
        return np.asarray(self.response.other + self.span * ((weights @ symbols) + background))

    def slopes(
        self, product: FloatArray, waves: Sequence[Waves], bins: Sequence[FloatArray],
        sds: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Derivatives by centres (K, d) and by log sd (K,) of sum(pull symbols).

        `product` is pull times symbols, (g, K, m).
        """
        by_center = np.zeros((len(sds), self.questions.directions.shape[2]))
        by_sd = np.zeros(len(sds))
        for axis, wave, p in zip(self._axes, waves, bins, strict=True):
            c, b = axis.slopes(product, wave, p, sds)
            by_center += c
            by_sd += b
        return by_center, by_sd


class _Axis(NamedTuple):
    """One axis of all questions: how Gaussians fall into its bins.

    A standard deviation below NARROW periods takes normal distribution functions at the edges,
    a wider one the harmonics of the wrapped normal: both are exact to about 1e-6.
    """

    slope: FloatArray  # (m, d)
    phase: FloatArray  # (m,)
    period: FloatArray  # (m,)
    orders: FloatArray  # (H,), those that bins of this number see
    mix: FloatArray  # (B, 2 H), from harmonics to probabilities
    one_hot: FloatArray  # (B, g)

    @classmethod
    def of(cls, q: Questions, i: int) -> _Axis:
        n_bins = q.bins[i]
        h = np.array([h for h in range(1, ORDERS + 1) if h % n_bins], dtype=np.float64)
        middle = 2 * np.pi * h * (np.arange(n_bins)[:, None] + 0.5) / n_bins
        size = 2 * np.sin(np.pi * h / n_bins) / (np.pi * h)
        mix = np.concatenate([size * np.cos(middle), size * np.sin(middle)], axis=1)
        slope = q.directions[:, i] / q.periods[:, i, None]
        one_hot = np.ascontiguousarray(np.eye(n_bins)[:, q.digits[i]])
        return cls(slope, q.phases[:, i], q.periods[:, i], h, mix, one_hot)

    def waves(self, centers: FloatArray, sds: FloatArray) -> Waves:
        """Where Gaussians lie on the axis, and what their bins are made of."""
        turn = (centers @ self.slope.T + self.phase).ravel()
        width = (sds[:, None] / self.period).ravel()
        narrow = width < NARROW
        thin, wide = np.flatnonzero(narrow), np.flatnonzero(~narrow)
        n_bins = len(self.mix)
        # from each edge to the centre, in periods
        far = np.arange(n_bins)[:, None] / n_bins - turn[thin]
        far -= np.rint(far)
        far /= width[thin]
        return Waves(
            (len(sds), len(self.period)), thin, wide, far, width[thin],
            self._harmonics(turn[wide], width[wide]), width[wide],
        )  # fmt: skip

    def _harmonics(self, turn: FloatArray, width: FloatArray) -> FloatArray:
        """Cosines, then sines: (2 H, those)."""
        n = len(self.orders)
        out = np.empty((2 * n, len(turn)))
        if not len(turn):
            return out
        turn = 2 * np.pi * turn
        rate = np.maximum(-2 * np.pi**2 * width**2, -30.0)
        cos, sin = np.cos(turn), np.sin(turn)
        # order h is damped by exp(rate h^2); from h to h + 1 that is exp(rate (2 h + 1))
        damp = np.exp(rate)
        double, odd = damp * damp, damp.copy()
        c, s = cos, sin
        at = 0
        for h in range(1, ORDERS + 1):
            if h > 1:
                c, s = c * cos - s * sin, s * cos + c * sin
                odd *= double
                damp = damp * odd
            if at < n and self.orders[at] == h:
                np.multiply(c, damp, out=out[at])
                np.multiply(s, damp, out=out[n + at])
                at += 1
        return out

    def bins(self, wave: Waves) -> FloatArray:
        """Probabilities (B, K, m)."""
        n_bins = len(self.mix)
        out = np.empty((n_bins, wave.shape[0] * wave.shape[1]))
        if len(wave.wide):
            flat = self.mix @ wave.waves
            flat += 1 / n_bins
            out[:, wave.wide] = flat
        if len(wave.thin):
            at = special.ndtr(wave.far)
            at -= wave.far * wave.thin_width
            out[:, wave.thin] = np.roll(at, -1, axis=0) - at + 1 / n_bins
        return np.maximum(out, TINY, out=out).reshape(n_bins, *wave.shape)

    def slopes(
        self, product: FloatArray, wave: Waves, p: FloatArray, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        by_bin = (self.one_hot @ product.reshape(len(product), -1)) / p.reshape(len(p), -1)
        size = wave.shape[0] * wave.shape[1]
        by_turn, by_width = np.empty(size), np.empty(size)
        n = len(self.orders)
        if len(wave.wide):
            by_wave = self.mix.T @ by_bin[:, wave.wide]
            turned = by_wave[n:] * wave.waves[:n] - by_wave[:n] * wave.waves[n:]
            by_turn[wave.wide] = 2 * np.pi * (self.orders @ turned)
            by_wave *= wave.waves
            damped = np.tile(self.orders**2, 2) @ by_wave
            by_width[wave.wide] = -4 * np.pi**2 * wave.wide_width**2 * damped
        if len(wave.thin):
            pull = by_bin[:, wave.thin]
            density = np.exp(-0.5 * wave.far**2) * (1 / math.sqrt(2 * math.pi))
            pull = np.roll(pull, 1, axis=0) - pull  # of the distribution function at each edge
            pull *= density
            by_turn[wave.thin] = -pull.sum(axis=0) / wave.thin_width
            by_width[wave.thin] = -(pull * wave.far).sum(axis=0)
        return by_turn.reshape(wave.shape) @ self.slope, by_width.reshape(wave.shape).sum(axis=1)


class Waves(NamedTuple):
    """Gaussians on one axis of all questions: narrow ones by edges, wide ones by harmonics."""

    shape: tuple[int, int]  # (K, m)
    thin: IntArray
    wide: IntArray
    far: FloatArray  # (B, thin), from the centre to the edges, in standard deviations
    thin_width: FloatArray
    waves: FloatArray  # (2 H, wide)
    wide_width: FloatArray
