"""Maximum likelihood for a sketch: a mixture of round Gaussians and a uniform background.

All of it is post-processing of the counts that `SketchQuery` collects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedclust_helpers._lazy import optimize
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.ldp_kmeans.sketch_likelihood import TINY, Mixture, Sketch, uniform_in_ball

EDGE = 0.98  # clusters lie within the ball of this radius


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

    def penalty(
        self, centers: FloatArray, log_sds: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Minus the log of the prior density, and its derivatives."""
        off = (log_sds - math.log(self.sd)) / 0.5
        length = np.linalg.norm(centers, axis=1)
        over = np.maximum(0.0, length - EDGE)
        value = 0.5 * (off**2).sum() + 0.5 * (length**2).sum() / self.reach**2
        value += 1e4 * (over**2).sum()
        by_center = centers / self.reach**2
        by_center = by_center + centers * (2e4 * over / np.maximum(length, TINY))[:, None]
        return float(value), by_center, off / 0.5


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

    def objective(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log of the posterior density, up to a constant, and its gradient."""
        centers, log_sds, scores = self._unpack(flat)
        sds, weights = self._sds(log_sds), self._weights(scores)
        value, by_center, by_sd = self.prior.penalty(centers, log_sds)
        by_weight, by_background = np.zeros(len(weights)), 0.0
        for s in self.sketches:
            waves = s.waves(centers, sds)
            bins = s.bins(waves)
            symbols = s.symbols(bins)
            expected = s.reports(weights, symbols)
            value -= float((s.seen * np.log(expected)).sum())
            symbols *= (s.span * s.seen / expected)[:, None]
            pulled = symbols.sum(axis=(0, 2))
            by_weight += pulled
            by_background += float((s.span * s.seen / expected).sum()) / s.questions.n_symbols
            symbols *= weights[:, None]
            c, b = s.slopes(symbols, waves, bins, sds)
            by_center, by_sd = by_center - c, by_sd - b
        background = max(0.0, 1 - weights.sum())
        mean = float(weights @ by_weight) + background * by_background
        # with a faint pull that keeps the weights of nothing finite
        by_score = 1e-3 * scores - weights * (by_weight - mean)
        value += 5e-4 * float(scores @ scores)
        return value, np.concatenate([by_center.ravel(), by_sd, by_score])

    def log_posterior(self, mixture: Mixture) -> float:
        """Log-likelihood plus log prior, up to a constant."""
        return -self.objective(self._pack(mixture))[0]

    def log_likelihood(self, mixture: Mixture) -> float:
        """The log-likelihood of all answers to all sketches."""
        return sum(
            float((s.seen * np.log(self.expected(s, mixture)[0])).sum()) for s in self.sketches
        )

    def expected(self, s: Sketch, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
        """Probabilities (g, m) of reports, and of the symbols behind them."""
        symbols = s.symbols(s.bins(s.waves(mixture.centers, mixture.sds)))
        reports = s.reports(mixture.weights, symbols)
        return reports, (reports - s.response.other) / s.span

    def improve(self, mixture: Mixture, n_steps: int) -> Mixture:
        """The mixture that L-BFGS reaches from the given one in `n_steps` steps."""
        found = optimize.minimize(
            self.objective, self._pack(mixture), jac=True, method="L-BFGS-B",
            options={"maxiter": n_steps, "maxfun": 2 * n_steps},
        ).x  # fmt: skip
        centers, log_sds, scores = self._unpack(found)
        return Mixture(self._weights(scores), centers, self._sds(log_sds))

    def places(self, points: FloatArray, sd: float, *, slopes: bool = False) -> Places:
        """Clusters that may be at these places (c, d), as the sketches would see them."""
        sds, seen = np.full(len(points), sd), []
        for s in self.sketches:
            waves = s.waves(points, sds)
            bins = s.bins(waves)
            seen.append((s.symbols(bins), waves, bins) if slopes else (s.symbols(bins), [], []))
        return Places(points, sd, seen)

    def scores(
        self, mixture: Mixture, places: Places, *, climb: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """How many standard deviations the answers ask for a new cluster at each place (c, d).

        The derivative of the log-likelihood by the new cluster's weight, over its standard
        deviation (a score test); and, to `climb`, the directions uphill.
        """
        n = len(places.points)
        gain, variance, uphill = np.zeros(n), np.full(n, 1e-12), np.zeros_like(places.points)
        for s, (symbols, waves, bins) in zip(self.sketches, places.seen, strict=True):
            reports, truth = self.expected(s, mixture)
            pull = s.span * s.seen / reports
            spread = s.span**2 * s.totals / reports
            gain += np.einsum("gcm,gm->c", symbols, pull) - float((pull * truth).sum())
            variance += np.einsum("gcm,gcm,gm->c", symbols, symbols, spread)
            variance -= 2 * np.einsum("gcm,gm->c", symbols, spread * truth)
            variance += float((spread * truth**2).sum())
            if climb:
                sds = np.full(n, places.sd)
                uphill += s.slopes(pull[:, None] * symbols, waves, bins, sds)[0]
        return gain / np.sqrt(variance), uphill


class Places(NamedTuple):
    """Where a new cluster may be: (c, d), its sd, and of each sketch its symbols (g, c, m)."""

    points: FloatArray
    sd: float
    seen: list[tuple[FloatArray, list[FloatArray], list[FloatArray]]]


N_PLACES = 1500
MAX_PLACES = 2**24  # numbers that all places hold together
N_FITS = 2


def leading_subspace(sketches: Sequence[Sketch], rank: int) -> FloatArray:
    """Directions (d, rank) in which the points spread most, from two bins of fixed phase.

    With phase 1/4 the bin of an axis says whether cos(2 pi a x / period) is negative: oftener, the
    farther x lies along a. So the de-biased answers times (a a^T), added up over random directions
    a, have the eigenvectors of the second-moment matrix.
    """
    d = sketches[0].questions.directions.shape[2]
    moment = np.zeros((d, d))
    for s in sketches:
        share = s.response.debias * (s.counts - s.response.other * s.totals[:, None])
        for axis, digits in enumerate(s.questions.digits):
            far = share[:, digits == 1].sum(axis=1) - s.totals / 2
            a = s.questions.directions[:, axis]
            moment += (a * far[:, None]).T @ a
    vectors = np.linalg.eigh(moment)[1]
    return np.asarray(vectors[:, : -rank - 1 : -1])


def fit_mixture(
    sketches: Sequence[Sketch],
    n_clusters: int,
    n_features: int,
    *,
    subspace: FloatArray | None = None,
    rng: np.random.Generator,
) -> Mixture:
    """The likelier of two greedy fits, which look for clusters in different random places.

    New clusters are looked for in the ball, or in the span of `subspace` (d, rank).
    """
    fitter = Fitter(sketches, Prior(n_clusters, n_features))
    numbers = sum(s.counts.size for s in fitter.sketches)
    n_places = max(64, min(N_PLACES, MAX_PLACES // max(1, numbers)))
    fits = []
    for _ in range(N_FITS):
        if subspace is None:
            places = uniform_in_ball(n_places, n_features, rng=rng)
        else:
            places = uniform_in_ball(n_places, subspace.shape[1], rng=rng) @ subspace.T
        fits.append(prune(fitter, grow(fitter, places)))
    return max(fits, key=fitter.log_posterior)


def grow(fitter: Fitter, places: FloatArray) -> Mixture:
    """Add a component where the answers ask for one most, and climb; up to 2 k of them.

    Up to k components almost any sign will do; beyond, one must stand out: the largest of the
    scores of all places of a ball exceeds sqrt(3.2 d + 8) hardly ever by accident.
    """
    prior = fitter.prior
    k, d = prior.n_clusters, prior.n_features
    wide = Mixture(np.array([0.9]), np.zeros((1, d)), np.array([2 * prior.sd]))
    mixture, everywhere = fitter.improve(wide, 30), fitter.places(places, prior.sd)
    while len(mixture.weights) < 2 * k:
        place, score = best_place(fitter, mixture, everywhere)
        if score < (1.0 if len(mixture.weights) < k else threshold(d)):
            break
        mixture = fitter.improve(mixture.with_one_at(place, prior.sd), 30)
    return fitter.improve(mixture, 100)


def threshold(n_features: int) -> float:
    """Standard deviations by which a new component must stand out: sqrt(3.2 d + 8)."""
    return math.sqrt(3.2 * n_features + 8)


def prune(fitter: Fitter, mixture: Mixture) -> Mixture:
    """Drop components beyond k whose loss costs less than 1.6 d + 4 in log-likelihood."""
    while len(mixture.weights) > fitter.prior.n_clusters:
        here = fitter.log_likelihood(mixture)
        without = [mixture.without(j) for j in range(len(mixture.weights))]
        smaller = [
            fitter.improve(one, 20)
            for one in sorted(without, key=fitter.log_likelihood, reverse=True)[:3]
        ]
        best = max(smaller, key=fitter.log_likelihood)
        if here - fitter.log_likelihood(best) >= threshold(fitter.prior.n_features) ** 2 / 2:
            break
        mixture = best
    return mixture


def best_place(fitter: Fitter, mixture: Mixture, everywhere: Places) -> tuple[FloatArray, float]:
    """Where the answers ask most for one more component, and by how many standard deviations.

    The best places climb for 12 steps.
    """
    sd, d = everywhere.sd, everywhere.points.shape[1]
    best = np.argsort(-fitter.scores(mixture, everywhere)[0])[: 8 if d <= 4 else 24]
    points, step = everywhere.points[best].copy(), np.full(len(best), sd)
    scores, uphill = fitter.scores(mixture, fitter.places(points, sd, slopes=True), climb=True)
    for _ in range(12):
        way = uphill / np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), TINY)
        tried = points + step[:, None] * way
        tried /= np.maximum(1.0, np.linalg.norm(tried, axis=1, keepdims=True) / EDGE)
        new, slope = fitter.scores(mixture, fitter.places(tried, sd, slopes=True), climb=True)
        better = new > scores
        points[better], scores[better], uphill[better] = tried[better], new[better], slope[better]
        step = np.where(better, step * 1.2, step / 2.5)
    top = int(scores.argmax())
    return points[top], float(scores[top])
