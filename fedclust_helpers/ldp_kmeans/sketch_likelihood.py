"""How likely the answers to a sketch are under a mixture of round Gaussians, and the slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.sketch import Questions

HARMONICS = 7
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights (K,), centres (K, d), standard deviations (K,); the rest is background."""

    weights: FloatArray
    centers: FloatArray
    sds: FloatArray

    @property
    def background(self) -> float:
        """Weight of the uniform part."""
        return float(max(0.0, 1.0 - self.weights.sum()))

    def without(self, j: int) -> Mixture:
        """The mixture without one component; its weight goes to the others in proportion."""
        keep = np.arange(len(self.weights)) != j
        total = self.weights[keep].sum() + self.background
        scale = 1 / total if total > 0 else 1.0
        return Mixture(self.weights[keep] * scale, self.centers[keep], self.sds[keep])

    def with_one_at(self, place: FloatArray, sd: float) -> Mixture:
        """The mixture with one component more, of an average weight."""
        share = 1 / (len(self.weights) + 2)
        return Mixture(
            np.append(self.weights * (1 - share), share),
            np.vstack([self.centers, place]),
            np.append(self.sds, sd),
        )

    def sample(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n points of the fitted density, cut to the unit ball."""
        d = self.centers.shape[1]
        shares = np.append(self.weights, self.background)
        sizes = rng.multinomial(n, shares / shares.sum())
        parts = [
            c + s * rng.standard_normal((size, d))
            for c, s, size in zip(self.centers, self.sds, sizes, strict=False)
        ]
        parts.append(uniform_in_ball(sizes[-1], d, rng=rng))
        points = np.concatenate(parts)
        return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))


def uniform_in_ball(n: int, d: int, *, rng: np.random.Generator) -> FloatArray:
    """Uniform points (n, d) of the unit ball."""
    way = rng.standard_normal((n, d))
    way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-300)
    return np.asarray(way * rng.random((n, 1)) ** (1 / d))


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

    def waves(self, centers: FloatArray, sds: FloatArray) -> list[FloatArray]:
        """Of each axis the damped harmonics (2 H, K, m) of Gaussians."""
        return [axis.waves(centers, sds) for axis in self._axes]

    def bins(self, waves: Sequence[FloatArray]) -> list[FloatArray]:
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
        self, product: FloatArray, waves: Sequence[FloatArray], bins: Sequence[FloatArray],
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
    """One axis of all questions: how Gaussians fall into its bins."""

    slope: FloatArray  # (m, d)
    phase: FloatArray  # (m,)
    period: FloatArray  # (m,)
    orders: FloatArray  # (H,), those that bins of this number see
    mix: FloatArray  # (B, 2 H), from harmonics to probabilities
    one_hot: FloatArray  # (B, g)

    @classmethod
    def of(cls, q: Questions, i: int) -> _Axis:
        n_bins = q.bins[i]
        h = np.array([h for h in range(1, HARMONICS + 1) if h % n_bins], dtype=np.float64)
        middle = 2 * np.pi * h * (np.arange(n_bins)[:, None] + 0.5) / n_bins
        size = 2 * np.sin(np.pi * h / n_bins) / (np.pi * h)
        mix = np.concatenate([size * np.cos(middle), size * np.sin(middle)], axis=1)
        slope = q.directions[:, i] / q.periods[:, i, None]
        one_hot = np.ascontiguousarray(np.eye(n_bins)[:, q.digits[i]])
        return cls(slope, q.phases[:, i], q.periods[:, i], h, mix, one_hot)

    def waves(self, centers: FloatArray, sds: FloatArray) -> FloatArray:
        """Cosines, then sines: (2 H, K, m)."""
        turn = 2 * np.pi * (centers @ self.slope.T + self.phase)
        rate = np.maximum(-2 * np.pi**2 * (sds[:, None] / self.period) ** 2, -30.0)
        n = len(self.orders)
        out = np.empty((2 * n, *turn.shape))
        cos, sin = np.cos(turn), np.sin(turn)
        # order h is damped by exp(rate h^2); from h to h + 1 that is exp(rate (2 h + 1))
        damp = np.exp(rate)
        double, odd = damp * damp, damp.copy()
        c, s = cos, sin
        at = 0
        for h in range(1, HARMONICS + 1):
            if h > 1:
                c, s = c * cos - s * sin, s * cos + c * sin
                odd *= double
                damp = damp * odd
            if at < n and self.orders[at] == h:
                np.multiply(c, damp, out=out[at])
                np.multiply(s, damp, out=out[n + at])
                at += 1
        return out

    def bins(self, wave: FloatArray) -> FloatArray:
        """Probabilities (B, K, m)."""
        flat = self.mix @ wave.reshape(len(wave), -1)
        flat += 1 / len(self.mix)
        return np.maximum(flat, TINY, out=flat).reshape(-1, *wave.shape[1:])

    def slopes(
        self, product: FloatArray, wave: FloatArray, p: FloatArray, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        by_bin = (self.one_hot @ product.reshape(len(product), -1)).reshape(p.shape) / p
        by_wave = (self.mix.T @ by_bin.reshape(len(by_bin), -1)).reshape(wave.shape)
        n = len(self.orders)
        turned = self.orders[:, None, None] * (by_wave[n:] * wave[:n] - by_wave[:n] * wave[n:])
        by_center = 2 * np.pi * turned.sum(axis=0) @ self.slope
        rate = (sds[:, None] / self.period) ** 2
        by_wave *= wave
        damped = np.tensordot(np.tile(self.orders**2, 2), by_wave, 1)
        return by_center, (-4 * np.pi**2 * rate * damped).sum(axis=1)
