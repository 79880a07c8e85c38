"""Where clusters of a sketch are looked for: greedy fits of several scales, and better places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.datasets.generators import uniform_in_ball
from fedclust_helpers.ldp_kmeans.projections import to_ball
from fedclust_helpers.ldp_kmeans.sketch_bins import TINY, Sketch
from fedclust_helpers.ldp_kmeans.sketch_fit import (
    EDGE,
    Fitter,
    Mixture,
    Places,
    Prior,
)

SCALES = (1.0, 0.25)  # of the clusters that the two fits look for, in standard deviations of Prior
MIDDLE, MANY_CLUSTERS = 0.5, 10  # a third size, looked for from so many clusters on
SWAPS = 2  # components in turn that may move before a fit is done
MAX_SWAPS = 6
CLEARLY = 0.5  # by how much a swap must raise the evidence
NO_BACKGROUND = 1e-4
BARE = 4.0  # by how much a background must raise the log posterior
N_PLACES = 1500
MANY, FEW, EARLY = 24, 8, 4
MAX_PLACES = 2**24  # symbols of all questions and places together


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
) -> tuple[Mixture, float]:
    """The likeliest of greedy fits that look for clusters of different sizes, and its `weakest`.

    New clusters are looked for in random places of the ball, or of the span of `subspace`
    (d, rank). The better fit may then lose its background and move single components.
    """
    fitter = Fitter(sketches, Prior(n_clusters, n_features))
    numbers = sum(s.counts.size for s in fitter.sketches)
    n_places = max(64, min(N_PLACES, MAX_PLACES // max(1, numbers)))
    fits = []
    few = n_clusters < MANY_CLUSTERS or subspace is not None
    for scale in SCALES if few else (*SCALES, MIDDLE):
        if subspace is None:
            places = uniform_in_ball(n_places, n_features, rng=rng)
        else:
            places = uniform_in_ball(n_places, subspace.shape[1], rng=rng) @ subspace.T
        everywhere = fitter.places(places, scale * fitter.prior.sd)
        fits.append((prune(fitter, grow(fitter, everywhere)), everywhere))
    best, everywhere = max(fits, key=lambda fit: fitter.evidence(fit[0]))
    mixture = swap(fitter, bare(fitter, best), everywhere)
    return mixture, weakest(fitter, mixture)


def swap(fitter: Fitter, mixture: Mixture, everywhere: Places) -> Mixture:
    """Take away the component that is missed least, and look for a better place for it.

    Until that fails for SWAPS components in turn.
    """
    here, failed = fitter.evidence(mixture), 0
    for _ in range(MAX_SWAPS):
        if failed >= min(SWAPS, len(mixture.weights)) or len(mixture.weights) < 2:
            break
        less = fitter.improve(ranked(fitter, mixture)[failed], 15)
        place, _ = best_place(fitter, less, everywhere)
        other = bare(fitter, fitter.improve(less.with_one_at(place, everywhere.sd), 60))
        there = fitter.evidence(other)
        if there > here + CLEARLY:
            mixture, here, failed = other, there, 0
        else:
            failed += 1
    return mixture


def ranked(fitter: Fitter, mixture: Mixture) -> list[Mixture]:
    """The mixture without each of its components, the one missed least first."""
    without = [mixture.without(j) for j in range(len(mixture.weights))]
    return sorted(without, key=fitter.log_likelihood, reverse=True)


def weakest(fitter: Fitter, mixture: Mixture) -> float:
    """How much the answers ask for the component that is missed least; 1 is what chance gives.

    Root of twice the log-likelihood lost without it, over `Prior.threshold`; infinite beyond k.
    """
    if not 1 < len(mixture.weights) <= fitter.prior.n_clusters:
        return math.inf
    without = [fitter.improve(less, 30) for less in ranked(fitter, mixture)[:2]]
    lost = fitter.log_likelihood(mixture) - max(map(fitter.log_likelihood, without))
    return math.sqrt(2 * max(0.0, lost)) / fitter.prior.threshold(float(np.median(mixture.sds)))


def grow(fitter: Fitter, everywhere: Places) -> Mixture:
    """Add a component where the answers ask for one most, and climb; up to 2 k of them.

    Up to k components almost any sign will do; beyond, one must stand out (`Prior.threshold`).
    """
    prior = fitter.prior
    k, d = prior.n_clusters, prior.n_features
    wide = Mixture(np.array([0.9]), np.zeros((1, d)), np.array([2 * prior.sd]))
    mixture = fitter.improve(wide, 30)
    while len(mixture.weights) < 2 * k:
        place, score = best_place(fitter, mixture, everywhere)
        if score < (1.0 if len(mixture.weights) < k else fitter.prior.threshold(everywhere.sd)):
            break
        mixture = fitter.improve(mixture.with_one_at(place, everywhere.sd), 30)
    return fitter.improve(mixture, 100)


def bare(fitter: Fitter, mixture: Mixture) -> Mixture:
    """The mixture without a background, unless the answers ask for one.

    The likelihood is flat where a wide cluster or a background explains the same answers. A
    background that is not there would draw the centres of k-means towards itself.
    """
    if mixture.background < NO_BACKGROUND:
        return mixture
    weights = mixture.weights * ((1 - NO_BACKGROUND) / mixture.weights.sum())
    other = fitter.improve(Mixture(weights, mixture.centers, mixture.sds), 60)
    return other if fitter.log_posterior(other) > fitter.log_posterior(mixture) - BARE else mixture


def prune(fitter: Fitter, mixture: Mixture) -> Mixture:
    """Drop components beyond k whose loss costs less log-likelihood than chance would give."""
    while len(mixture.weights) > fitter.prior.n_clusters:
        here = fitter.log_likelihood(mixture)
        smaller = [fitter.improve(one, 20) for one in ranked(fitter, mixture)[:3]]
        best = max(smaller, key=fitter.log_likelihood)
        sd = float(np.median(mixture.sds))
        if here - fitter.log_likelihood(best) >= fitter.prior.threshold(sd) ** 2 / 2:
            break
        mixture = best
    return mixture


def best_place(fitter: Fitter, mixture: Mixture, everywhere: Places) -> tuple[FloatArray, float]:
    """Where the answers ask most for one more component, and by how many standard deviations.

    The MANY best places climb for EARLY steps (the FEW best in up to four columns), and the FEW
    best of them for 12 in all.
    """
    sd, d = everywhere.sd, everywhere.points.shape[1]
    sought = fitter.sought(mixture)
    best = np.argsort(-fitter.scores(sought, everywhere))[: FEW if d <= 4 else MANY]
    points, step = everywhere.points[best].copy(), np.full(len(best), sd)
    scores, uphill = fitter.uphill(sought, points, sd)
    for i in range(12):
        if i == EARLY:
            top = np.argsort(-scores)[:FEW]
            points, step, scores, uphill = points[top], step[top], scores[top], uphill[top]
        way = uphill / np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), TINY)
        tried = points + step[:, None] * way
        tried = to_ball(tried, EDGE)
        new, slope = fitter.uphill(sought, tried, sd)
        better = new > scores
        points[better], scores[better], uphill[better] = tried[better], new[better], slope[better]
        step = np.where(better, step * 1.2, step / 2.5)
    first = int(scores.argmax())
    return points[first], float(scores[first])
