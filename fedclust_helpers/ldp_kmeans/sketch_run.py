"""Locally private k-means from a sketch: one round, pure epsilon, one symbol of each user."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    check_epsilon,
    check_fits,
    check_int,
    check_real,
    check_share,
)
from fedclust_helpers.federation import LocalReports, PlannedRelease, planner
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS, RandomizedResponse
from fedclust_helpers.ldp_kmeans.planning import LocalPlan, asked_for, check_questions
from fedclust_helpers.ldp_kmeans.results import (
    LdpResult,
    NothingDetectedWarning,
    ball_projection,
    following,
    to_ball,
)
from fedclust_helpers.ldp_kmeans.sketch import SketchQuery, bins_for, draw_questions
from fedclust_helpers.ldp_kmeans.sketch_fit import (
    HARMONICS,
    Fitter,
    Mixture,
    Prior,
    Sketch,
    fit_mixture,
    leading_subspace,
    threshold,
)

SIDES = (0.5, 0.7, 1.0, 1.4)  # of a pair of bins, over the square root of the dimension
SPREAD_SIDES = (1.2, 4 / 3, 22 / 15, 1.6)
SPREAD_SHARE = 0.25  # of the users, asked where the points spread, beyond OPEN dimensions
OPEN = 6
CELLS = 3000  # (question, symbol) pairs, or 6 k d if that is more
MIN_QUESTIONS = 96
N_DRAWN = 20_000  # points of the fitted density on which k-means finds the centres
CLEAR = 5.0  # standard deviations beyond which a misfit, or any structure, is no accident
WELL = 0.8  # part of the structure that a good fit explains


class PoorFitWarning(UserWarning):
    """The answers hold much that k round clusters do not explain: read the centres with care."""


@dataclass(frozen=True, kw_only=True)
class SketchPlan(LocalPlan):
    """One round of one randomised symbol for each user.

    Attributes
    ----------
    n_questions : int
    bins, spread_bins : tuple of int
        Bins on each axis of a question; those of the second kind (empty up to six dimensions).
    """

    n_questions: int
    bins: tuple[int, ...]
    spread_bins: tuple[int, ...] = ()

    def statement(self) -> list[tuple[str, str]]:
        """The privacy statement of the run as (heading, text) pairs."""
        noise = f"randomised symbols, one of {math.prod(self.bins)}, drawn by every user alone"
        return [(h, noise if h == "noise" else text) for h, text in super().statement()]


@dataclass(frozen=True, kw_only=True, eq=False)
class SketchResult(LdpResult):
    """Centres of a sketch, and the density that was fitted to the answers.

    Attributes
    ----------
    mixture : Mixture
        Its components are the `proxies`, and `weights` the users behind each.
    structure : float
        Standard deviations by which the answers differ from those of uniform points.
    misfit : float
        Standard deviations by which they differ from those of the mixture.
    explained : float
        Part of the structure that the mixture explains; 1 if there is hardly any.
    """

    mixture: Mixture = field(repr=False)
    structure: float
    misfit: float
    explained: float


@checked
def information(epsilon: float, n_features: int, sd: float) -> float:
    """Fisher information of one user's report about the weight of one cluster, at weight 0.

    The cluster is Gaussian with this standard deviation, all others are spread out: reports are
    about uniform. A phase is uniform, so a bin's probability has the mean square
    ``1/B^2 + sum_h a_h^2 exp(-(2 pi h sd/T)^2) / 2`` with a_h = 2 sin(pi h/B)/(pi h); axes are
    independent, and reports tell symbols apart by p - q.
    """
    check_int(n_features, "n_features", maximum=MAX_NUMBERS)
    bins = bins_for(check_epsilon(epsilon), n_features)
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
    share: float, epsilon: float, n_features: int, *, n_clusters: int, sd: float | None = None
) -> int:
    """Users that it takes to see a cluster with this share of them.

    Its weight must exceed its standard deviation 1/sqrt(n information) by sqrt(3.2 d + 8), the
    threshold from which the fit adds a component: a search over the ball finds less by accident.

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
    share = check_share(share, "share")
    check_int(n_features, "n_features", maximum=MAX_NUMBERS)
    wide = Prior(check_int(n_clusters, "n_clusters"), n_features).sd
    sd = wide if sd is None else check_real(sd, "sd")
    if not 0 <= sd <= 1:
        raise ValueError(f"sd must lie in [0, 1], got {sd:g}")
    told = information(epsilon, n_features, sd)
    if not share**2 * told > 1e-300:
        raise ValueError(f"share must be large enough for some number of users, got {share}")
    return math.ceil(threshold(n_features) ** 2 / (share**2 * told))


@planner
@checked
def plan_sketch(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    n_init: int = 10,
) -> SketchPlan:
    """Plan a sketch: pure epsilon-LDP for any two values of one user, delta = 0, one round.

    Behind a shuffler (``simulate(points, "shuffled")``) the set of all answers is (epsilon, delta),
    and each of them alone pure with the larger `LocalPlan.local_epsilon`.

    Every user answers one public question about its point with one of g symbols, through g-ary
    randomised response with the whole epsilon. The server fits a mixture of round Gaussians and a
    uniform background to all answers, and clusters that density. Beyond six dimensions a quarter
    of the users is asked coarser questions, which tell in which subspace the clusters lie.

    Parameters
    ----------
    federation : LocalReports
        The users who will run the plan, one point each in the unit ball.
    n_clusters : int
    epsilon, delta : float
        Of the run; delta is used by shuffled users only.
    n_init : int
        Starts of k-means on the fitted density.

    Raises
    ------
    ValueError, TypeError
        If the federation could not run it; nothing is released or charged.
    """
    asked = asked_for(federation, n_clusters, epsilon, delta, n_init=n_init)
    d, k = federation.n_features, asked["n_clusters"]
    check_questions(federation, 2)
    local, delta = federation.report_budget(epsilon, delta)
    bins, spread = bins_for(local, d), spread_bins_for(local, d)
    g = math.prod(bins)
    m = max(MIN_QUESTIONS, max(CELLS, 6 * k * d) // (g - 1))
    check_fits(m * max(g, len(bins) * d), "n_features times n_clusters", limit=MAX_NUMBERS)
    names: list[tuple[str, tuple[int, ...]]] = [("bins", bins)]
    if spread:
        names.append(("spread", spread))
    parts = (("bins", 1 - SPREAD_SHARE), ("spread", SPREAD_SHARE)) if spread else ()
    n_telling = federation.n_records * (1 - SPREAD_SHARE if spread else 1.0)
    told = information(local, d, Prior(k, d).sd)
    return SketchPlan(
        **asked | {"local_epsilon": local, "delta": delta}, method="sketch", n_rounds=1,
        releases=tuple(
            PlannedRelease(
                0, name, ("symbol",),
                federation.charged((RandomizedResponse(local, math.prod(b)),)),
                part=name if parts else None, numbers=1,
            )
            for name, b in names
        ),
        parts=parts,
        predicted_error=min(1.0, threshold(d) / math.sqrt(n_telling * told)),
        predicted_error_is="of the users must belong to a cluster for it to be seen",
        n_questions=m, bins=bins, spread_bins=spread,
    )  # fmt: skip


def spread_bins_for(epsilon: float, n_features: int) -> tuple[int, ...]:
    """Bins of the second kind of question, two on each axis; none up to six dimensions."""
    bins = bins_for(epsilon, n_features)
    if n_features <= OPEN:
        return ()
    return (2,) * (len(bins) if max(bins) == 2 else min(n_features, 8))


def run_sketch(
    federation: LocalReports, plan: SketchPlan, *, rng: np.random.Generator, progress: Progress
) -> SketchResult:
    """Ask, count, fit, and cluster what was fitted."""
    public, d = federation.randomness.public, plan.n_features
    local, _ = federation.report_budget(plan.epsilon, plan.delta)
    queries = [_query(plan, local, "bins", plan.bins, SIDES, None, public)]
    if plan.spread_bins:
        queries.append(_query(plan, local, "spread", plan.spread_bins, SPREAD_SIDES, 0.25, public))
    with following(federation, plan, queries, progress) as held:
        for query in queries:
            federation.ask(query, round=0, part=query.name if plan.parts else None)
    sketches = [Sketch(q.questions, q.counts, q.response) for q in queries]
    rank = min(plan.n_clusters, d)
    subspace = leading_subspace(sketches[1:], rank) if plan.spread_bins else None
    mixture = fit_mixture(sketches, plan.n_clusters, d, subspace=subspace, rng=rng)
    structure, misfit, explained = goodness(sketches, mixture)
    _warn(plan, structure, misfit, explained)
    drawn = mixture.sample(N_DRAWN, rng=rng)
    centers = kmeans.weighted_kmeans(drawn, None, plan.n_clusters, rng=rng, n_init=plan.n_init)
    centers = to_ball(centers)
    return SketchResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=centers, low_centers=centers,
        proxies=mixture.centers, weights=mixture.weights * federation.n_records,
        projection=ball_projection(federation, d, d), mixture=mixture, structure=structure,
        misfit=misfit, explained=explained,
    )  # fmt: skip


def _query(
    plan: SketchPlan, epsilon: float, name: str, bins: tuple[int, ...], sides: Sequence[float],
    phase: float | None, rng: np.random.Generator,
) -> SketchQuery:  # fmt: skip
    shuffled = rng.permutation(np.resize(sides, plan.n_questions)).tolist()
    questions = draw_questions(
        plan.n_questions, plan.n_features, bins, shuffled, rng=rng, phase=phase
    )
    return SketchQuery(questions, epsilon, rng=rng, name=name)


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


def _warn(plan: SketchPlan, structure: float, misfit: float, explained: float) -> None:
    if structure < 2.0:
        warnings.warn(
            f"nothing stands out of the noise at epsilon={plan.epsilon:g} with"
            f" {plan.facts.n_clients} users: the answers are those of points without structure"
            f" ({structure:.1f} standard deviations from them); the centres returned carry little"
            " information",
            NothingDetectedWarning,
            stacklevel=4,
        )
    elif misfit > CLEAR and explained < WELL:
        warnings.warn(
            f"{plan.n_clusters} round clusters explain {explained:.0%} of what the answers show:"
            " the data may hold more clusters, or none",
            PoorFitWarning,
            stacklevel=4,
        )
