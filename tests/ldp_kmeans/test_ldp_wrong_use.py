"""Wrong use of locally private k-means: refused before any user is asked or budget is spent."""

import numpy as np
import pytest
from ldp_cases import (
    ALGORITHMS,
    DATA,
    EVERY,
    WIDE,
    K,
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

from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.ldp_kmeans import NothingDetectedWarning, users_needed_by


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
    number = users_needed_by(result.plan)
    assert "20000 users" in str(caught[0].message) and f"about {number:,}" in str(result.plan)
    assert number == pytest.approx(
        (3.5 * 2 / 1e-4 * 15) ** 2 * len(result.plan.broadcasts("depths")[0])
        / dict(result.plan.parts).get("cells", dict(result.plan.parts).get("count", 1)),
        rel=1e-3,
    )  # fmt: skip
    assert result.centers.shape == (K, 4) and len(result.weights) == 0


@pytest.mark.parametrize("epsilon", [1e-17, 1e-200])
@pytest.mark.parametrize("name", ["one_round", "sketch"])
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
def test_users_hold_one_point_each_in_the_unit_ball(name):
    data = ClientData(DATA[:300], np.arange(0, 301, 10))
    for trust in ("ideal", "trusted", "local"):
        fed = simulate(data, trust, seed=1, bound=1.0, domain="ball",
                       ledger=PrivacyLedger(adjacency="replace-one"))  # fmt: skip
        refused(fed, lambda f=fed: run(ALGORITHMS[name], fed=f), (TypeError, ValueError),
                "offers no ask|clients must hold one point each")  # fmt: skip
    for bound in (2.0, 0.5):
        fed = simulate(DATA[:300], "local", seed=1, bound=bound)
        refused(fed, lambda f=fed: run(ALGORITHMS[name], fed=f), ValueError, "unit ball")


@EVERY
def test_a_plan_says_who_is_asked_and_what_it_costs(name):
    fed, result = run(ALGORITHMS[name], DATA[:3000], k=2)
    made = result.plan
    told = [(r.round, r.name, r.mechanisms, r.part) for r in made.releases]
    done = [
        (r.round, r.name, r.mechanisms, None if r.group is None else r.group.split("/")[1])
        for r in fed.ledger.releases
    ]
    assert told == done and result.epsilon <= made.epsilon * (1 + 1e-9)
    up = [m for m in fed.transcript.messages if m.receiver == "server"]
    assert sum(m.n_bytes * m.count for m in up) == pytest.approx(made.n_bytes, rel=0.05)
    text = str(made)
    assert made.method in text and "replace-one" in text and "teaching mode" in text
    assert "server sees" in text and f"epsilon = {made.epsilon:g}" in text
    for part, _ in made.parts:
        assert repr(part) in text
    assert made.predicted_error > 0 and f"{made.predicted_error:.4g}" in text


def test_the_printed_algorithm_has_no_secure_mode_and_says_why():
    for options in ({"mode": "secure"}, {"seed": 1, "noise": "discrete"}):
        fed = simulate(DATA[:100], "local", **options)
        text = refused(fed, lambda f=fed: run(printed, fed=f, k=2), ValueError, "no secure mode")
        assert "continuous Gaussian" in text and "ldp_kmeans.plan has one" in text
