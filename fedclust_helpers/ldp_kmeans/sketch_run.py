"""Locally private k-means from a sketch: one round, pure epsilon, one symbol of each user."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    Count,
    Epsilon,
    FloatArray,
    Share,
    check_fits,
    check_share,
)
from fedclust_helpers.federation import Plan
from fedclust_helpers.federation.data import depth_outside
from fedclust_helpers.ldp_kmeans import shared
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS, RandomizedResponse
from fedclust_helpers.ldp_kmeans.projections import to_ball
from fedclust_helpers.ldp_kmeans.shared import Report, Starts
from fedclust_helpers.ldp_kmeans.sketch import SketchQuery, bins_for, draw_questions
from fedclust_helpers.ldp_kmeans.sketch_bins import Sketch
from fedclust_helpers.ldp_kmeans.sketch_fit import Fitter, Mixture, Prior
from fedclust_helpers.ldp_kmeans.sketch_search import SCALES, fit_mixture, leading_subspace
from fedclust_helpers.program import Ask, Divide, Options, Public, Steps

SIDES = (0.5, 0.7, 1.0, 1.4)  # of a pair of bins, over the square root of the dimension
SPREAD_SIDES = (1.2, 4 / 3, 22 / 15, 1.6)
SPREAD_SHARE = 0.25  # of the users, asked where the points spread, beyond OPEN dimensions
OPEN = 6
CELLS = 3000  # (question, symbol) pairs, or 6 k d if that is more
MIN_QUESTIONS = 96
N_DRAWN = 20_000  # points of the fitted density on which k-means finds the centres
SOME = 2.0  # standard deviations of structure, below which nothing was seen
DOUBTFUL = 0.75  # of what chance gives: a component that is missed less may not be there
CLEAR = 5.0  # standard deviations beyond which a misfit, or any structure, is no accident
WELL = 0.8  # part of the structure that a good fit explains
HARMONICS = 500  # of a bin's edges, in `information`


class PoorFitWarning(UserWarning):
    """The answers hold much that k round clusters do not explain, or hardly ask for so many."""


class FoundInSketch(NamedTuple):
    """Centres (k, d) in the unit ball, and the density that was fitted to the answers.

    Attributes
    ----------
    proxies, weights : arrays (m, d) and (m,)
        Means of the components of `mixture`, and the users behind each.
    structure : float
        Standard deviations by which the answers differ from those of uniform points.
    misfit : float
        Standard deviations by which they differ from those of the mixture.
    explained : float
        Part of the structure that the mixture explains; 1 if there is hardly any.
    weakest : float
        How much the answers ask for the component missed least, where chance gives up to 1.
    cautions : tuple of str
        What the answers say against the centres: too little explained, or `weakest` below 0.75:
        of 75 hard runs all 21 above 1.5 times k-means and 3 of 26 within 1.1; 4 of 146 easy ones.
    """

    centers: FloatArray
    proxies: FloatArray
    weights: FloatArray
    mixture: Mixture
    structure: float
    misfit: float
    explained: float
    weakest: float
    cautions: tuple[str, ...]


def sketch(public: Public, report: Report, *, n_clusters: int, n_init: Starts = 10) -> Steps:
    """A sketch: pure epsilon-LDP for any two values of one user, delta = 0, one round.

    Behind a shuffler (``simulate(points, "shuffled")``) the set of all answers is (epsilon, delta),
    and each of them alone pure with the larger `dial.local_epsilon` of the plan.

    Every user answers one public question about its point with one of g symbols, through g-ary
    randomised response with the whole epsilon. The server fits a mixture of round Gaussians and a
    uniform background to all answers, and clusters that density. Beyond six dimensions a quarter
    of the users is asked coarser questions, which tell in which subspace the clusters lie.

    Parameters
    ----------
    public : Public
        Facts and coins. The plan takes the `federation` of users who will run it, one point each in
        the unit ball.
    report : Report
        What one report keeps. The plan takes `epsilon` and `delta` of the run; delta (1e-6 by
        default) is used by shuffled users only.
    n_clusters : int
    n_init : int
        Starts of k-means on the fitted density.
    """
    k, d, n, local = n_clusters, public.facts.n_features, public.facts.n_records, report[2]
    shared.check_questions(public, 2)
    bins, spread = bins_for(local, d), spread_bins_for(local, d)
    g = math.prod(bins)
    m = max(MIN_QUESTIONS, max(CELLS, 6 * k * d) // (g - 1))
    check_fits(m * max(g, len(bins) * d), "n_features times n_clusters", limit=MAX_NUMBERS)

    def query(
        name: str, bins: tuple[int, ...], sides: Sequence[float], phase: float | None = None
    ) -> SketchQuery:
        shuffled = public.coins.permutation(np.resize(sides, m)).tolist()
        questions = draw_questions(m, d, bins, shuffled, rng=public.coins, phase=phase)
        return SketchQuery(questions, local, rng=public.coins, name=name)

    queries = [query("bins", bins, SIDES)]
    if spread:
        queries.append(query("spread", spread, SPREAD_SIDES, 0.25))
        yield Divide({"bins": 1 - SPREAD_SHARE, "spread": SPREAD_SHARE})
        yield tuple(Ask(one, one.name) for one in queries)
    else:
        yield Ask(queries[0])

    def fitted() -> FoundInSketch:
        sketches = [Sketch(q.questions, q.counts, q.response) for q in queries]
        subspace = leading_subspace(sketches[1:], min(k, d)) if spread else None
        mixture, least = fit_mixture(sketches, k, d, subspace=subspace, rng=public.own)
        structure, misfit, explained = goodness(sketches, mixture)
        cautions = _cautions(k, misfit, explained, least)
        if structure < SOME:
            shared.warn_if_blind(0, public, report)
        else:
            for text in cautions:
                warnings.warn(text, PoorFitWarning, stacklevel=depth_outside() + 1)
        drawn = mixture.sample(N_DRAWN, rng=public.own)
        centers = kmeans.weighted_kmeans(drawn, None, k, rng=public.own, n_init=n_init)
        return FoundInSketch(
            to_ball(centers), mixture.centers, mixture.weights * n, mixture,
            structure, misfit, explained, least, cautions,
        )  # fmt: skip

    return fitted


def sketch_report(epsilon: float, n_features: int) -> RandomizedResponse:
    """What a user of a sketch draws with this epsilon; of two kinds that with fewer symbols.

    ``accounting.local_epsilon_for(n, epsilon, delta, lambda e: (sketch_report(e, d),))`` is the
    local epsilon of `plan_sketch` behind a shuffler.
    """
    both = bins_for(epsilon, n_features), spread_bins_for(epsilon, n_features)
    return RandomizedResponse(epsilon, min(math.prod(bins) for bins in both if bins))


def _message(public: Public, options: Options, epsilon: float) -> tuple[RandomizedResponse, ...]:
    return (sketch_report(epsilon, public.facts.n_features),)


def spread_bins_for(epsilon: float, n_features: int) -> tuple[int, ...]:
    """Bins of the second kind of question, two on each axis; none up to six dimensions."""
    bins = bins_for(epsilon, n_features)
    if n_features <= OPEN:
        return ()
    return (2,) * (len(bins) if max(bins) == 2 else min(n_features, 8))


def goodness(sketches: Sequence[Sketch], mixture: Mixture) -> tuple[float, float, float]:
    """Structure and misfit in standard deviations, and the part of the structure explained.

    Pearson's X^2 of the answers against uniform ones and against the mixture's, less its mean.
    """
    fitter = Fitter(sketches, Prior(1, mixture.centers.shape[1]))
    flat, fitted, freedom = 0.0, 0.0, 0.0
    for s in fitter.sketches:
        g = s.questions.n_symbols
        asked = s.totals > 0
        expected = (fitter.expected(s, mixture)[0] * s.totals)[:, asked]
        uniform = np.broadcast_to(s.totals[asked] / g, expected.shape)
        seen = s.seen[:, asked]
        flat += float(((seen - uniform) ** 2 / uniform).sum())
        fitted += float(((seen - expected) ** 2 / expected).sum())
        freedom += asked.sum() * (g - 1)
    scale = math.sqrt(2 * freedom)
    structure, misfit = (flat - freedom) / scale, (fitted - freedom) / scale
    if structure < CLEAR:
        return structure, misfit, 1.0
    return structure, misfit, float(min(1.0, max(0.0, 1 - misfit / structure)))


def information(epsilon: float, n_features: int, sd: float) -> float:
    """Fisher information of one user's report about the weight of one cluster, at weight 0.

    The cluster is Gaussian with this standard deviation, all others are spread out: reports are
    about uniform. A phase is uniform, so a bin's probability has the mean square
    ``1/B^2 + sum_h a_h^2 exp(-(2 pi h sd/T)^2) / 2`` with a_h = 2 sin(pi h/B)/(pi h); axes are
    independent, and reports tell symbols apart by p - q.
    """
    bins = bins_for(epsilon, n_features)
    response = RandomizedResponse(epsilon, math.prod(bins))
    middle = math.prod(bins) ** (1 / len(bins)) / 2
    h = np.arange(1, HARMONICS + 1)
    square = np.ones(len(SIDES))
    for n_bins in bins:
        period = np.array(SIDES) / math.sqrt(n_features) / middle * n_bins
        size = 2 * np.sin(np.pi * h / n_bins) / (np.pi * h)
        damp = np.exp(-((2 * np.pi * h * sd / period[:, None]) ** 2))
        square *= 1 / n_bins + n_bins / 2 * (size**2 * damp).sum(axis=1)
    g = response.n_values
    return float((response.keep - response.other) ** 2 * (g * square.mean() - 1))


@checked
def sketch_users_needed(
    share: Share, epsilon: Epsilon, n_features: Count, *, n_clusters: Count,
    sd: Annotated[float, partial(check_share, zero=True, one=True)] | None = None,
) -> int:  # fmt: skip
    """Users that it takes to see a cluster with this share of them.

    Its weight must exceed its standard deviation 1/sqrt(n information) by `Prior.threshold`, from
    which the fit adds a component: a search over the ball finds less by accident.

    Parameters
    ----------
    share : float
        Of the users, in (0, 1).
    epsilon, n_features
        Of the plan.
    n_clusters : int
    sd : float, optional
        The cluster's standard deviation along each axis; by default the median of the prior.
    """
    prior = Prior(n_clusters, n_features)
    sd = prior.sd if sd is None else sd
    told = information(epsilon, n_features, sd)
    if not share**2 * told > 1e-300:
        raise ValueError(f"share must be large enough for some number of users, got {share}")
    asked = prior.threshold(max(sd, min(SCALES) * prior.sd))
    return math.ceil(asked**2 / (share**2 * told))


def _cautions(k: int, misfit: float, explained: float, least: float) -> tuple[str, ...]:
    """What is said against the centres."""
    told = []
    if misfit > CLEAR and explained < WELL:
        told.append(
            f"{k} round clusters explain {explained:.0%} of what the answers show: the data may"
            " hold more clusters, or none"
        )
    if least < DOUBTFUL:
        told.append(
            f"the answers hardly tell {k} clusters from {k - 1}: two centres may lie in one group,"
            " and one between others"
        )
    return tuple(told)


def _error(plan: Plan) -> tuple[float, str]:
    d, n = plan.n_features, plan.facts.n_records * dict(plan.parts).get("bins", 1.0)
    prior = Prior(plan.n_clusters, d)
    told = information(plan.dial.local_epsilon, d, prior.sd)
    return min(1.0, prior.threshold(prior.sd) / math.sqrt(n * told)), (
        "of the users must belong to a cluster for it to be seen"
    )


SKETCH = shared.algorithm("sketch", sketch, search=shared.stated(_message), predict=_error)

plan_sketch = SKETCH.planner("plan_sketch")
