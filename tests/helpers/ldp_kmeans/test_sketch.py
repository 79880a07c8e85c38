"""Locally private k-means by a sketch: reports, likelihood, what can be seen, and whole runs."""

import math
import warnings

import numpy as np
import pytest
from conftest import first_of
from ldp_cases import DATA, WIDE, K, rng
from scipy.optimize import check_grad
from scipy.stats import norm

from fedclust.estimators import LocalKMeans
from fedclust_helpers import kmeans
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.datasets.generators import uniform_in_ball
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans import sketch, sketch_bins, sketch_fit, sketch_run, sketch_search
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse

pytestmark = pytest.mark.slow

MIXTURE = sketch_fit.Mixture(
    np.array([0.5, 0.3]), np.array([[0.3, 0.1, -0.2], [-0.4, 0.2, 0.1]]), np.array([0.15, 0.2])
)


def questions(n=40, d=3, bins=(2, 3), sides=(0.7, 1.0), seed=0, **options):
    return sketch.draw_questions(n, d, bins, sides, rng=rng(seed), **options)


def asked(points, epsilon=2.0, seed=0, **options):
    """The sketch of some points, from their own reports."""
    query = sketch.SketchQuery(
        questions(d=points.shape[1], seed=seed, **options), epsilon, rng=rng(seed + 1), name="bins"
    )
    users = np.arange(len(points))
    query.collect(users, query.respond(points, users, rng=rng(seed + 2)))
    return sketch_bins.Sketch(query.questions, query.counts, query.response)


def symbols_of(made, centers, sds):
    """Probabilities (g, K, m) of symbols, put together from halves."""
    falls = made.falls(centers, sds)
    both = falls.first[:, None] * falls.second[None]
    return both.reshape(-1, *both.shape[2:])


def planned(points, *, k=K, epsilon=2.0, seed=1, mode="teaching", **options):
    fed = simulate(points, "local", seed=seed if mode == "teaching" else None, mode=mode)
    return fed, lk.plan_sketch(fed, n_clusters=k, epsilon=epsilon, **options)


# --- reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "d", "bins"),
    [(0.1, 2, (2,)), (1, 1, (4,)), (1, 4, (2, 2)), (2, 10, (2, 2, 2)), (4, 2, (7, 8)),
     (9, 3, (6, 6, 7))],
)  # fmt: skip
def test_symbols_of_a_question_are_about_e_to_the_epsilon(epsilon, d, bins):
    found = sketch.bins_for(epsilon, d)
    assert sorted(found) == sorted(bins)
    assert math.prod(found) <= sketch.MAX_SYMBOLS


def test_questions_look_along_orthonormal_directions():
    q = questions()
    products = q.directions @ q.directions.transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(2), products.shape), atol=1e-12)
    # the side of a pair of bins along an axis is the one asked for
    middle = math.sqrt(6) / 2
    sides = q.periods / np.array([2, 3]) * middle * math.sqrt(3)
    np.testing.assert_allclose(sides[:4], [[0.7] * 2, [1.0] * 2] * 2)


def test_a_symbol_is_the_bins_of_the_wrapped_axes():
    q, points = questions(), rng(3).uniform(-0.5, 0.5, (500, 3))
    which = rng(4).integers(40, size=500)
    found = q.symbols(points, which)
    places = np.einsum("ntd,nd->nt", q.directions[which], points) / q.periods[which]
    cells = np.floor(np.mod(places + q.phases[which], 1) * [2, 3]).astype(int)
    np.testing.assert_array_equal(found, cells[:, 0] * 3 + cells[:, 1])
    np.testing.assert_array_equal(q.digits[:, found].T, cells)


def test_a_users_answer_depends_on_that_user_alone():
    query = sketch.SketchQuery(questions(), 1.0, rng=rng(), name="bins")
    points, users = rng(1).uniform(-0.5, 0.5, (3000, 3)), np.arange(3000)
    together = query._answer(points, users)
    some = rng(2).permutation(3000)[:700]
    np.testing.assert_array_equal(query._answer(points[some], users[some]), together[some])
    one_by_one = [int(query._answer(points[[i]], users[[i]])[0]) for i in range(50)]
    assert one_by_one == together[:50].tolist()


def test_the_answer_is_to_the_users_own_question():
    """Which one depends on the number of the user only, and all are asked equally often."""
    query = sketch.SketchQuery(questions(), 1.0, rng=rng(), name="bins")
    points, users = rng(1).uniform(-0.5, 0.5, (40_000, 3)), np.arange(40_000)
    which = query._question_of(users)
    np.testing.assert_array_equal(
        query._answer(points, users), query.questions.symbols(points, which)
    )
    assert abs(np.bincount(which, minlength=40) - 1000).max() < 5 * math.sqrt(1000)


def test_reports_of_two_points_are_as_far_apart_as_the_channel_says():
    """Black box: the whole user's side, many times, for two points with different symbols."""
    epsilon, n = 1.0, 60_000
    query = sketch.SketchQuery(questions(1), epsilon, rng=rng(), name="bins")
    users = np.arange(n)
    seen = []
    for j, place in enumerate(([0.5, 0.1, 0.0], [-0.4, -0.3, 0.2])):
        (reports,) = query.respond(np.tile(place, (n, 1)), users, rng=rng(5 + j))
        seen.append(np.bincount(reports, minlength=6) / n)
    symbols = query.questions.symbols(
        np.array([[0.5, 0.1, 0], [-0.4, -0.3, 0.2]]), np.zeros(2, int)
    )
    assert symbols[0] != symbols[1]
    ratio = np.log(seen[0] / seen[1])
    # five standard errors of a log ratio of shares of about e/(e + 5) and 1/(e + 5)
    slack = 5 * math.sqrt(2 * (math.e + 5) / n)
    assert abs(ratio[symbols] - [epsilon, -epsilon]).max() < slack
    assert abs(np.delete(ratio, symbols)).max() < slack


# --- likelihood -----------------------------------------------------------------------------------


def test_probabilities_of_symbols_are_those_of_drawn_points():
    n, made = 400_000, asked(np.zeros((1, 3)))
    points = MIXTURE.centers[0] + MIXTURE.sds[0] * rng(3).standard_normal((n, 3))
    symbols = symbols_of(made, MIXTURE.centers, MIXTURE.sds)
    for j in range(0, 40, 13):
        share = np.bincount(made.questions.symbols(points, np.full(n, j)), minlength=6) / n
        np.testing.assert_allclose(symbols[:, 0, j], share, atol=4.5 * math.sqrt(0.25 / n))
    np.testing.assert_allclose(symbols.sum(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("width", [0.004, 0.05, 0.114, 0.116, 0.3, 2.0])
@pytest.mark.parametrize("n_bins", [2, 3, 8])
def test_bins_are_those_of_a_wrapped_gaussian(width, n_bins):
    """However narrow it is: a truncated series of harmonics had negative bins here."""
    asked_of = sketch.Questions(
        np.ones((40, 1, 1)), np.full((40, 1), 0.5), np.linspace(0, 1, 40)[:, None], (n_bins,)
    )
    made = sketch_bins.Sketch(asked_of, np.ones((40, n_bins)), RandomizedResponse(1.0, n_bins))
    at, sd = np.array([[0.17]]), np.array([0.5 * width])
    found = made.falls(at, sd).bins[0][:, 0, 0]
    edges = np.arange(n_bins + 1)[:, None] / n_bins + np.arange(-12, 13)[:, None, None]
    past = norm.cdf((edges - 0.17 / 0.5 - asked_of.phases[:, 0]) / width)
    np.testing.assert_allclose(found, np.diff(past, axis=1).sum(axis=0), atol=1e-5)


def test_reports_mix_symbols_background_and_coins():
    made = asked(np.zeros((1, 3)))
    symbols = symbols_of(made, MIXTURE.centers, MIXTURE.sds)
    found = made.reports(MIXTURE.weights, made.falls(MIXTURE.centers, MIXTURE.sds))
    truth = 0.5 * symbols[:, 0] + 0.3 * symbols[:, 1] + 0.2 / 6
    np.testing.assert_allclose(found, made.response.probabilities() @ truth, atol=1e-5)


def test_the_gradient_is_that_of_the_cost():
    sketches = [
        asked(DATA[:4000, :3], bins=(2, 3, 2)),
        asked(DATA[4000:6000, :3], seed=7, phase=0.25, bins=(2, 2)),
    ]
    fitter = sketch_fit.Fitter(sketches, sketch_fit.Prior(2, 3))
    at = fitter._pack(MIXTURE)
    at = np.concatenate([at, []]) + 0.01 * rng(2).standard_normal(len(at))
    value, slope = fitter.cost(at)
    error = check_grad(lambda x: fitter.cost(x)[0], lambda x: fitter.cost(x)[1], at)
    assert math.isfinite(value) and error < 1e-3 * np.linalg.norm(slope)


def test_scores_are_normal_where_there_is_nothing_to_find():
    """Data of the mixture itself: no place asks for another component."""
    points = MIXTURE.sample(60_000, rng=rng(5))
    alone = sketch_fit.Mixture(np.array([1.0]), MIXTURE.centers[:1], MIXTURE.sds[:1])
    only = alone.centers[0] + alone.sds[0] * rng(6).standard_normal((60_000, 3))
    found = []
    for seed in range(12):
        fitter = sketch_fit.Fitter([asked(only, seed=seed)], sketch_fit.Prior(1, 3))
        places = fitter.places(rng(9).uniform(-0.5, 0.5, (6, 3)), 0.15)
        found.append(fitter.scores(fitter.sought(alone), places))
    found = np.concatenate(found)
    assert abs(found.mean()) < 4.5 / math.sqrt(12)  # scores of one sketch are correlated
    assert 0.6 < found.std() < 1.5
    fitter = sketch_fit.Fitter([asked(points)], sketch_fit.Prior(2, 3))
    first = sketch_fit.Mixture(np.array([0.5]), MIXTURE.centers[:1], MIXTURE.sds[:1])
    there = fitter.places(MIXTURE.centers[1:], float(MIXTURE.sds[1]))
    assert fitter.scores(fitter.sought(first), there)[0] > 8


def test_climbing_finds_what_the_points_came_from():
    points = MIXTURE.sample(200_000, rng=rng(8))
    fitter = sketch_fit.Fitter([asked(points, epsilon=3.0)], sketch_fit.Prior(2, 3))
    near = sketch_fit.Mixture(np.array([0.4, 0.4]), MIXTURE.centers + 0.08, np.full(2, 0.15))
    found = fitter.improve(near, 100)
    np.testing.assert_allclose(found.centers, MIXTURE.centers, atol=0.03)
    np.testing.assert_allclose(found.sds, MIXTURE.sds, atol=0.03)
    assert fitter.log_likelihood(found) > fitter.log_likelihood(near)


def test_answers_of_fixed_phase_tell_the_subspace():
    d, n = 12, 200_000
    basis = np.linalg.qr(rng(1).standard_normal((d, 2)))[0]
    points = 0.3 * rng(2).standard_normal((n, 2)) @ basis.T + 0.02 * rng(3).standard_normal((n, d))
    made = asked(points, epsilon=2.0, n=200, bins=(2, 2, 2), sides=(1.2, 1.6), phase=0.25)
    found = sketch_search.leading_subspace([made], 2)
    overlap = np.linalg.svd(basis.T @ found, compute_uv=False)
    assert overlap.min() > 0.9


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 2), (1.0, 6), (4.0, 3)])
def test_information_is_that_of_the_reports(epsilon, d):
    """Of a cluster's weight at weight 0, among uniform reports."""
    bins = sketch.bins_for(epsilon, d)
    made = sketch_bins.Sketch(
        sketch.draw_questions(4000, d, bins, sketch_run.SIDES, rng=rng()),
        np.ones((4000, math.prod(bins))), RandomizedResponse(epsilon, math.prod(bins)),
    )  # fmt: skip
    symbols = symbols_of(made, np.full((1, d), 0.1), np.array([0.1]))[:, 0]
    g = made.response.n_values
    direct = (made.span**2 * g * (symbols - 1 / g) ** 2).sum(axis=0).mean()
    assert sketch_run.information(epsilon, d, 0.1) == pytest.approx(direct, rel=0.05)


@pytest.mark.parametrize(("share", "sd", "d"), [(0.1, 0.05, 2), (0.25, 0.1, 4)])
def test_with_the_users_needed_a_cluster_stands_out_as_much_as_it_must(share, sd, d):
    """Simulated: one cluster of this share and width among uniform points, looked for in place."""
    n = lk.sketch_users_needed(share, 2.0, d, n_clusters=5, sd=sd)
    prior, scores = sketch_fit.Prior(5, d), []
    none = sketch_fit.Mixture(np.array([1e-9]), np.zeros((1, d)), np.array([prior.sd]))
    bins = sketch.bins_for(2.0, d)
    for seed in range(16):
        some = rng(seed + 100)
        points = uniform_in_ball(n, d, rng=some)
        inside = some.random(n) < share
        points[inside] = 0.2 + sd * some.standard_normal((inside.sum(), d))
        sketches = [asked(points, seed=seed, n=400, bins=bins, sides=sketch_run.SIDES)]
        fitter = sketch_fit.Fitter(sketches, prior)
        there = fitter.places(np.full((1, d), 0.2), sd)
        scores.append(fitter.scores(fitter.sought(none), there)[0])
    # scores have a standard deviation of about 1: false alarm below 1e-5 beside 10 % of the formula
    goal = prior.threshold(sd)
    assert abs(np.mean(scores) - goal) < 4.5 / math.sqrt(16) + 0.1 * goal


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "epsilon", "most"),
    first_of([(DATA, 4.0, 1.02), (DATA, 1.0, 1.35), (WIDE, 4.0, 1.1)]),
)
def test_centres_are_near_the_optimum(points, epsilon, most):
    best = kmeans.kmeans_cost(points, kmeans.weighted_kmeans(points, None, K, rng=rng(), n_init=5))
    fed, plan = planned(points, epsilon=epsilon)
    result = lk.run(fed, plan, rng=rng())
    assert kmeans.kmeans_cost(points, result.centers) < most * best
    assert result.centers.shape == (K, points.shape[1])
    assert np.linalg.norm(result.centers, axis=1).max() <= 1 + 1e-12
    assert result.weights.sum() <= len(points) * (1 + 1e-9)
    assert result.structure > 5 and result.explained > 0.8


def test_more_epsilon_does_not_cost_more():
    """Of tight clusters: five harmonics alone cost 1.0023 times the optimum at 7 here."""
    places, costs = np.array([[0.5, 0.1], [-0.4, -0.5], [0.0, 0.6], [-0.6, 0.3], [0.4, -0.6]]), []
    for seed in range(2):
        points = places[rng(seed).integers(5, size=40_000)]
        points = points + 0.02 * rng(seed + 10).standard_normal(points.shape)
        best = kmeans.kmeans_cost(points, kmeans.lloyd(points, places, n_rounds=3))
        found = [lk.run(*planned(points, k=5, epsilon=e), rng=rng(seed)) for e in (2.0, 7.0)]
        costs.append([kmeans.kmeans_cost(points, one.centers) / best for one in found])
    less, more = np.mean(costs, axis=0)
    assert more < less and more < 1.0012


def test_one_pure_report_of_each_user_is_charged():
    fed, plan = planned(WIDE)
    result = lk.run(fed, plan, rng=rng())
    assert plan.delta == 0 and result.ledger.pure_epsilon() == pytest.approx(2.0)
    assert plan.total_epsilon == pytest.approx(2.0)
    assert dict(plan.parts) == {"bins": 0.75, "spread": 0.25}
    sent = [m for m in result.transcript.messages if m.receiver == "server"]
    assert sum(m.count for m in sent) == len(WIDE)
    assert "randomised symbols, one of 8" in str(plan)


def test_what_round_clusters_do_not_explain_is_said():
    turn = rng(1).uniform(0, 2 * np.pi, 100_000)
    ring = 0.6 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    with pytest.warns(lk.PoorFitWarning, match="round clusters explain"):
        result = lk.run(*planned(ring, k=2, epsilon=4.0), rng=rng())
    assert result.misfit > 5 and result.explained < 0.8


def test_more_clusters_than_the_answers_ask_for_are_a_caution():
    two = rng(1).choice([-0.4, 0.4], size=(40_000, 1)) + 0.05 * rng(2).standard_normal((40_000, 2))
    given = {"epsilon": 4.0, "lower": -1, "upper": 1, "mode": "teaching", "seed": 3}
    right = LocalKMeans(2, **given).fit(two)
    assert right.cautions_ == () and right.result_.weakest > 3
    with pytest.warns(lk.PoorFitWarning, match="hardly tell 3 clusters from 2") as said:
        wrong = LocalKMeans(3, **given).fit(two)
    assert wrong.cautions_ == tuple(str(one.message) for one in said)  # each is said once


@pytest.mark.parametrize(
    "points", [np.zeros((1000, 2)), np.tile([[0.7, 0.7]], (1000, 1)), DATA[:3]]
)
def test_degenerate_points_give_finite_centres(points):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fed, plan = planned(points, k=2, epsilon=3.0)
        assert np.isfinite(lk.run(fed, plan, rng=rng()).centers).all()
