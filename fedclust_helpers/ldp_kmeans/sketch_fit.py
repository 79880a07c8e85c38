"""Maximum likelihood for a sketch: a mixture of round Gaussians and a uniform background.

All of it is post-processing of the counts that `SketchQuery` collects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from fedclust_helpers._lazy import optimize
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.datasets.generators import uniform_in_ball
from fedclust_helpers.ldp_kmeans.projections import to_ball
from fedclust_helpers.ldp_kmeans.sketch_bins import TINY, Sketch

ALIKE = 0.5  # log standard deviations lie so far from their mean, more at a linear cost
LEVEL = 0.5  # and their mean so far from that of the prior
STILL = 0.02  # of the log posterior, about
BLOCK = 16  # places that are looked at together: so many stay in a processor's cache
EDGE = 0.98  # clusters lie within the ball of this radius


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
        return to_ball(np.concatenate(parts))


@dataclass(frozen=True)
class Prior:
    """What is believed before any answer: no cluster is very wide, all lie in the ball."""

    n_clusters: int
    n_features: int
    reach: float = field(default=0.65)

    @property
    def sd(self) -> float:
        """Median of a cluster's standard deviation."""
        k, d = self.n_clusters, self.n_features
        return 0.45 * min(0.4 / 0.45, 0.7 * k ** (-1 / d)) / math.sqrt(d)

    def threshold(self, sd: float) -> float:
        """Standard deviations by which one more component of this size must stand out.

        The largest score of all places of a ball exceeds sqrt(3.2 d + 8) hardly ever by accident; a
        narrower component has (self.sd/sd)^d times as many places.
        """
        finer = max(0.0, math.log(self.sd / sd))
        return math.sqrt((3.2 + 2 * finer) * self.n_features + 8)

    def cost(
        self, centers: FloatArray, log_sds: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Minus the log prior, and its derivatives."""
        middle = float(log_sds.mean())
        apart, by_apart = _huber((log_sds - middle) / ALIKE)
        level, by_level = _huber(np.array([(middle - math.log(self.sd)) / LEVEL]))
        by_log_sd = (by_apart - by_apart.mean()) / ALIKE + by_level[0] / (LEVEL * len(log_sds))
        length = np.linalg.norm(centers, axis=1)
        over = np.maximum(0.0, length - EDGE)
        value = apart + level + 0.5 * (length**2).sum() / self.reach**2
        value += 1e4 * (over**2).sum()
        by_center = centers / self.reach**2
        by_center = by_center + centers * (2e4 * over / np.maximum(length, TINY))[:, None]
        return float(value), by_center, by_log_sd


def _huber(z: FloatArray) -> tuple[float, FloatArray]:
    """Sum of z^2/2, linear beyond 1, and its derivative."""
    near = np.clip(z, -1.0, 1.0)
    return float((near * (z - near / 2)).sum()), near


class Fitter:
    """Greedy maximum likelihood over the answers of several sketches."""

    def __init__(self, sketches: Sequence[Sketch], prior: Prior) -> None:
        self.sketches = [s for s in sketches if s.counts.sum() > 0]
        self.prior = prior

    # parameters: centres, log sds, log weights relative to the background
    def _unpack(self, flat: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        d = self.prior.n_features
        k = len(flat) // (d + 2)
        return flat[: k * d].reshape(k, d), flat[k * d : k * (d + 1)], flat[k * (d + 1) :]

    def _pack(self, mixture: Mixture) -> FloatArray:
        ratio = np.maximum(mixture.weights, 1e-6) / max(mixture.background, 1e-6)
        return np.concatenate([mixture.centers.ravel(), np.log(mixture.sds), np.log(ratio)])

    @staticmethod
    def _sds(log_sds: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.clip(log_sds, -9.0, 1.0)))  # a search may step far

    @staticmethod
    def _weights(scores: FloatArray) -> FloatArray:
        top = max(0.0, float(scores.max(initial=0.0)))
        parts = np.exp(scores - top)
        return np.asarray(parts / (parts.sum() + math.exp(-top)))

    def cost(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log posterior, and its gradient."""
        centers, log_sds, scores = self._unpack(flat)
        sds, weights = self._sds(log_sds), self._weights(scores)
        value, by_center, by_sd = self.prior.cost(centers, log_sds)
        by_weight, by_background = np.zeros(len(weights)), 0.0
        for s in self.sketches:
            falls = s.falls(centers, sds)
            expected = s.reports(weights, falls)
            value -= float((s.seen * np.log(expected)).sum())
            pull = s.span * s.seen / expected
            w, c, b = s.slopes(weights, pull, falls, sds)
            by_weight, by_center, by_sd = by_weight + w, by_center - c, by_sd - b
            by_background += float(pull.sum()) / s.questions.n_symbols
        background = max(0.0, 1 - weights.sum())
        mean = float(weights @ by_weight) + background * by_background
        # with a faint pull that keeps the weights of nothing finite
        by_score = 1e-3 * scores - weights * (by_weight - mean)
        value += 5e-4 * float(scores @ scores)
        return value, np.concatenate([by_center.ravel(), by_sd, by_score])

    def log_posterior(self, mixture: Mixture) -> float:
        """Log-likelihood plus log prior, up to a constant."""
        return -self.cost(self._pack(mixture))[0]

    def evidence(self, mixture: Mixture) -> float:
        """Log posterior less an Occam factor: narrow components have more places to be in."""
        finer = np.maximum(0.0, np.log(self.prior.sd / mixture.sds))
        return self.log_posterior(mixture) - self.prior.n_features * float(finer.sum())

    def log_likelihood(self, mixture: Mixture) -> float:
        """Of all answers."""
        return sum(
            float((s.seen * np.log(self.expected(s, mixture)[0])).sum()) for s in self.sketches
        )

    def expected(self, s: Sketch, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
        """Probabilities (g, m) of reports, and of the symbols behind them."""
        reports = s.reports(mixture.weights, s.falls(mixture.centers, mixture.sds))
        return reports, (reports - s.response.other) / s.span

    def improve(self, mixture: Mixture, n_steps: int) -> Mixture:
        """Climb from a mixture (L-BFGS), until a step wins less than STILL."""
        users = sum(float(s.totals.sum()) for s in self.sketches)
        found = optimize.minimize(
            self.cost, self._pack(mixture), jac=True, method="L-BFGS-B",
            options={"maxiter": n_steps, "maxfun": 2 * n_steps, "ftol": STILL / users},
        ).x  # fmt: skip
        centers, log_sds, scores = self._unpack(found)
        return Mixture(self._weights(scores), centers, self._sds(log_sds))

    def places(self, points: FloatArray, sd: float) -> Places:
        """Clusters that may be at these places (c, d), as the sketches would see them."""
        blocks, sds = [], np.full(len(points), sd)
        for part in (slice(i, i + BLOCK) for i in range(0, len(points), BLOCK)):
            falls = [s.falls(points[part], sds[part]) for s in self.sketches]
            blocks.append([(one.first, one.second) for one in falls])
        return Places(points, sd, blocks)

    def sought(self, mixture: Mixture) -> list[Sought]:
        """What the answers of each sketch ask for beside a mixture: arrays (g, m).

        The slope of the log-likelihood by a symbol's probability, that probability under the
        mixture, and the variance of the slope.
        """
        found = []
        for s in self.sketches:
            reports, truth = self.expected(s, mixture)
            pull, spread = s.span * s.seen / reports, s.span**2 * s.totals / reports
            found.append((s, pull, truth, spread))
        return found

    def scores(self, sought: Sequence[Sought], places: Places) -> FloatArray:
        """How many standard deviations the answers ask for a new cluster at each place (c, d)."""
        return np.concatenate([_score(sought, block) for block in places.blocks])

    def uphill(
        self, sought: Sequence[Sought], points: FloatArray, sd: float
    ) -> tuple[FloatArray, FloatArray]:
        """The scores of clusters at these places (c, d), and the directions uphill."""
        ones, sds, way = np.ones(len(points)), np.full(len(points), sd), np.zeros_like(points)
        falls = [s.falls(points, sds) for s, *_ in sought]
        for (s, pull, *_), one in zip(sought, falls, strict=True):
            way += s.slopes(ones, pull, one, sds)[1]
        return _score(sought, [(one.first, one.second) for one in falls]), way


def _score(sought: Sequence[Sought], halves: Sequence[Halves]) -> FloatArray:
    """A score test: the slope of the log-likelihood by a new weight over its deviation."""
    n = halves[0][0].shape[1]
    gain, variance = np.zeros(n), np.full(n, 1e-12)
    for (s, pull, truth, spread), (first, second) in zip(sought, halves, strict=True):
        gain += s.meet(pull, first, second) - float((pull * truth).sum())
        variance += s.meet(spread, first**2, second**2)
        variance -= 2 * s.meet(spread * truth, first, second)
        variance += float((spread * truth**2).sum())
    return np.asarray(gain / np.sqrt(variance))


Sought: TypeAlias = tuple[Sketch, FloatArray, FloatArray, FloatArray]
Halves: TypeAlias = tuple[FloatArray, FloatArray]


class Places(NamedTuple):
    """Where a new cluster may be: (c, d), its sd, and by blocks the halves of each sketch."""

    points: FloatArray
    sd: float
    blocks: list[list[Halves]]
