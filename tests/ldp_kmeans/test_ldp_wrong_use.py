"""Wrong use of locally private k-means: refused before any user is asked or budget is spent."""

import re
import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from conftest import refuses
from ldp_cases import (
    ALGORITHMS,
    DATA,
    EVERY,
    WIDE,
    K,
    follow,
    four_rounds,
    gaussian_report_kmeans,
    grid_histogram,
    ldp_lloyd,
    one_round,
    printed,
    refused,
    rng,
    run,
    with_lsh,
    with_sums,
)

from fedclust_helpers.accounting import BudgetExceededError, PrivacyLedger
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import ClientData, PlanMismatchError, planner, simulate
from fedclust_helpers.ldp_kmeans import NothingDetectedWarning


def test_points_outside_the_ball_are_clipped_and_counted():
    points = np.array(DATA[:2000])
    points[:7] *= 100 / np.linalg.norm(points[:7], axis=1, keepdims=True)
    fed = simulate(points, "local", seed=1)
    assert fed.clipped_counts.sum() == 7 and fed.clipped_counts[:7].all()
    _, result = run(with_sums, fed=fed)
    assert np.linalg.norm(result.centers, axis=1).max() <= 1 + 1e-12
    assert np.linalg.norm(points[0]) == pytest.approx(100)  # the caller's array is as it was


@pytest.mark.parametrize("algorithm", [one_round, with_sums, grid_histogram, four_rounds])
def test_an_epsilon_at_which_nothing_shows(algorithm):
    fed = simulate(DATA, "local", seed=1)
    with pytest.warns(NothingDetectedWarning, match="nothing stands out") as caught:
        result = algorithm(fed, n_clusters=K, epsilon=1e-4, rng=rng())
    text = str(caught[0].message)
    number = int(re.search(r"about (\d+) are needed", text)[1])
    assert number == result.plan.needed > 10**6 and "20000 users" in text
    assert number == pytest.approx(
        (3.5 * 2 / 1e-4 * 15) ** 2 * len(result.plan.depths)
        / dict(result.plan.parts).get("cells", dict(result.plan.parts).get("count", 1)),
        rel=1e-3,
    )  # fmt: skip
    assert result.centers.shape == (K, 4) and len(result.weights) == 0


@pytest.mark.parametrize("epsilon", [1e-17, 1e-200])
@pytest.mark.parametrize("name", [n for n in ALGORITHMS if "report" not in n and "mean" != n[-4:]])
def test_an_epsilon_below_the_resolution_of_a_coin(name, epsilon):
    fed = simulate(DATA[:500], "local", seed=1)
    refused(fed, lambda: run(ALGORITHMS[name], fed=fed, epsilon=epsilon), ValueError, "epsilon")


@pytest.mark.parametrize(
    "points, algorithm, options",
    [
        (DATA, one_round, {"depths": (8,)}),
        (DATA, one_round, {"depths": (2, 9)}),
        (DATA, grid_histogram, {"depth": 7}),
        (WIDE, with_sums, {"n_outputs": 10, "depths": (1, 3)}),
        (WIDE, with_sums, {"n_outputs": 10, "depths": (3,)}),
        (DATA, four_rounds, {"depths": (1, 9)}),
        (DATA, four_rounds, {"depths": (8, 9)}),
        (DATA, one_round, {"depths": (60,)}),
    ],
)
def test_depths_that_would_overflow_memory(points, algorithm, options):
    fed = simulate(points[:200], "local", seed=1)
    refused(fed, lambda: run(algorithm, fed=fed, **options), ValueError, "depth")


def test_printed_grids_in_many_dimensions_are_refused():
    points = make_ball_mixture(200, 23, 2, rng=rng(23)).points
    fed = simulate(points, "local", seed=1)
    refused(fed, lambda: run(printed, fed=fed, k=2), ValueError, "depth")


@pytest.mark.parametrize(
    "algorithm, n",
    [(one_round, 2), (with_sums, 3), (four_rounds, 6), (with_lsh, 8), (ldp_lloyd, 9)],
)
def test_fewer_users_than_questions(algorithm, n):
    fed, asked = simulate(DATA[:n], "local", seed=1), {"depths": (1, 2, 3)}
    if algorithm is ldp_lloyd:
        asked = {}
    call = lambda: run(algorithm, fed=fed, k=1, **asked)  # noqa: E731
    refused(fed, call, ValueError, "n_records|n_rounds")


@EVERY
def test_more_clusters_than_users(name):
    fed = simulate(DATA[:20], "local", seed=1)
    refused(fed, lambda: run(ALGORITHMS[name], fed=fed, k=21), ValueError, "n_clusters")


@pytest.mark.parametrize(
    "algorithm, options, error, message",
    [
        (one_round, {"n_outputs": 5}, ValueError, "n_outputs"),
        (one_round, {"n_outputs": 2, "sums": False}, ValueError, "sums must be True"),
        (one_round, {"depths": (3, 2)}, ValueError, "depths must increase"),
        (one_round, {"depths": (2, 2)}, ValueError, "depths must increase"),
        (one_round, {"levels": 3}, TypeError, "levels"),
        (printed, {"n_levels": 80}, ValueError, "depth"),
        (four_rounds, {"depths": (2, 1)}, ValueError, "depths must increase"),
        (with_lsh, {"t": 9}, ValueError, "t must be"),
        (gaussian_report_kmeans, {"max_reports": 1}, ValueError, "max_reports"),
        (ldp_lloyd, {"initial": np.zeros((3, 4))}, ValueError, "initial must hold 2 centres"),
        (ldp_lloyd, {"initial": np.zeros((2, 3))}, ValueError, "initial must have 4 columns"),
    ],
)
def test_impossible_options(algorithm, options, error, message):
    """What one argument alone does not show."""
    fed = simulate(DATA[:200], "local", seed=1)
    refused(fed, lambda: run(algorithm, fed=fed, k=2, **options), error, message)


@EVERY
def test_a_run_needs_a_generator_and_a_progress_that_can_be_told(name):
    fed = simulate(DATA[:200], "local", seed=1)
    made = ALGORITHMS[name].planner(fed, n_clusters=2, epsilon=1.0)
    for source in (None, 0, np.random, np.random.RandomState(0)):
        refused(fed, lambda s=source: follow(fed, made, rng=s), TypeError,
                "rng must be a numpy.random.Generator")  # fmt: skip
    refused(fed, lambda: follow(fed, made), TypeError, "rng")
    refused(fed, lambda: follow(fed, made, rng=rng(), progress="bar"), TypeError, "progress must")


@EVERY
def test_progress_is_told_after_each_question(name):
    fed, told = simulate(DATA[:300], "local", seed=1), []
    made = ALGORITHMS[name].planner(fed, n_clusters=2, epsilon=4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDetectedWarning)
        follow(fed, made, rng=rng(), progress=lambda done, total: told.append((done, total)))
    assert told == [(i + 1, len(made.releases)) for i in range(len(made.releases))]


@EVERY
def test_a_federation_of_another_trust_model(name):
    data = ClientData(DATA[:300], np.arange(0, 301, 10))
    for trust in ("ideal", "trusted", "local"):
        fed = simulate(data, trust, seed=1, bound=1.0, domain="ball",
                       ledger=PrivacyLedger(adjacency="replace-one"))  # fmt: skip
        refused(fed, lambda f=fed: run(ALGORITHMS[name], fed=f), (TypeError, ValueError),
                "federation must|clients must hold one point each")  # fmt: skip
    text = "federation must (offer ask|be a LocalReports)"
    refuses(TypeError, text, run, ALGORITHMS[name], fed=DATA[:100])


@EVERY
def test_a_plan_is_followed_by_the_users_it_was_made_from_alone(name):
    """Another number of users, radius, mode or kind of noise: refused before the first report."""
    made = ALGORITHMS[name].planner(
        simulate(DATA[:300], "local", seed=1), n_clusters=2, epsilon=4.0
    )
    for other in (
        simulate(DATA[:299], "local", seed=1),
        simulate(DATA[:300], "local", mode="secure"),
        simulate(DATA[:300], "local", seed=1, noise="discrete"),
        simulate(DATA[:300], "local", seed=1, n_records=301),
        simulate(DATA[:300], "local", seed=1, ledger=PrivacyLedger("client", "replace-one")),
        simulate(WIDE[:300], "local", seed=1),
    ):
        refused(
            other, lambda f=other: follow(f, made, rng=rng()), PlanMismatchError, "plan was made"
        )
    with pytest.raises(FrozenInstanceError):
        made.epsilon = 0.1
    same = simulate(DATA[:300], "local", seed=8)  # the same public numbers, other coins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDetectedWarning)
        follow(same, made, rng=rng())
    assert same.ledger.epsilon(made.delta) <= made.epsilon * (1 + 1e-9)


@EVERY
def test_a_planner_that_is_wrong_releases_nothing_that_its_plan_does_not_state(name):
    """A plan with other numbers than its releases stops before data are touched."""
    wrong = planner(replace)
    fed = simulate(DATA[:300], "local", seed=1)
    made = ALGORITHMS[name].planner(fed, n_clusters=2, epsilon=4.0)
    cheaper = wrong(made, epsilon=made.epsilon / 2)
    error = BudgetExceededError if made.total_epsilon > made.epsilon / 2 else PlanMismatchError
    refused(fed, lambda: follow(fed, cheaper, rng=rng()), error, "cost|not the next one")
    for other in (wrong(made, epsilon=400.0), wrong(made, releases=made.releases[:0])):
        charged = len(fed.ledger.releases)
        if name in ("gaussian_report_kmeans", "private_mean") and other.releases:
            continue  # their noise is the plan's mechanism: nothing follows from epsilon
        refuses(PlanMismatchError, "not the next one of the plan", follow, fed, other, rng=rng())
        assert len(fed.ledger.releases) == charged and not fed.transcript.messages
    doubled = wrong(made, releases=made.releases * 2)
    if doubled.total_epsilon > made.epsilon * (1 + 1e-9):
        refused(fed, lambda: follow(fed, doubled, rng=rng()), BudgetExceededError, "more than")


@EVERY
def test_what_a_plan_says_is_what_the_ledger_holds(name):
    fed = simulate(DATA[:3000], "local", seed=1)
    made = ALGORITHMS[name].planner(fed, n_clusters=2, epsilon=4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingDetectedWarning)
        result = follow(fed, made, rng=rng())
    told = [(r.round, r.name, r.mechanisms, r.part) for r in made.releases]
    done = [
        (r.round, r.name, r.mechanisms, None if r.group is None else r.group.split("/")[1])
        for r in fed.ledger.releases
    ]
    assert told == done and result.plan is made
    assert result.epsilon == pytest.approx(made.total_epsilon, rel=1e-9)
    assert result.epsilon <= made.epsilon * (1 + 1e-9)
    up = [m for m in fed.transcript.messages if m.receiver == "server"]
    assert sum(m.n_bytes * m.count for m in up) == pytest.approx(made.n_bytes, rel=0.05)
    text = str(made)
    assert made.method in text and "replace-one" in text and "teaching mode" in text
    assert "server sees" in text and f"epsilon = {made.epsilon:g}" in text
    for part in made.shares:
        assert repr(part) in text
    assert made.predicted_error > 0 and f"{made.predicted_error:.4g}" in text


def test_the_printed_algorithm_has_no_secure_mode_and_says_why():
    for options in ({"mode": "secure"}, {"seed": 1, "noise": "discrete"}):
        fed = simulate(DATA[:100], "local", **options)
        text = refused(fed, lambda f=fed: run(printed, fed=f, k=2), ValueError, "no secure mode")
        assert "continuous Gaussian" in text and "ldp_kmeans.plan has one" in text


def test_starting_centres_are_for_the_one_algorithm_that_starts_somewhere():
    fed = simulate(DATA[:100], "local", seed=1)
    made = ALGORITHMS["one_round"].planner(fed, n_clusters=2, epsilon=1.0)
    with pytest.raises(TypeError, match="initial must not be given: one_round takes no"):
        follow(fed, made, rng=rng(), initial=np.zeros((2, 4)))
    refuses(TypeError, "plan must be a LocalPlan, got dict", follow, fed, {}, rng=rng())
    assert fed.ledger.releases == () and fed.transcript.messages == []


@EVERY
def test_a_ball_of_another_size(name):
    for bound in (2.0, 0.5):
        fed = simulate(DATA[:300], "local", seed=1, bound=bound)
        refused(fed, lambda f=fed: run(ALGORITHMS[name], fed=f), ValueError, "unit ball")


def test_users_may_not_hold_two_points():
    data = ClientData(DATA[:300], np.arange(0, 301, 2))
    fed = simulate(data, "local", seed=1)
    refused(fed, lambda: run(one_round, fed=fed), ValueError, "one point each")
