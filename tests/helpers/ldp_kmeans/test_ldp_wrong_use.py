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


@pytest.mark.parametrize("algorithm", [one_round, four_rounds])
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


THREE = {"depths": (1, 2, 3)}
WRONG = [  # planner, rows, options, what the error names
    *((ALGORITHMS[name], DATA[:20], {"k": 21}, "n_clusters") for name in ALGORITHMS),
    *((ALGORITHMS[name], DATA[:500], {"epsilon": e}, "epsilon")  # below the resolution of a coin
      for name in ("one_round", "sketch") for e in (1e-17, 1e-200)),
    # depths that would fill the memory
    (grid_histogram, DATA, {"depth": 7}, "depth"),
    (with_sums, WIDE, {"n_outputs": 10, "depths": (1, 3)}, "depth"),
    (four_rounds, DATA, {"depths": (1, 9)}, "depth"),
    (four_rounds, DATA, {"depths": (8, 9)}, "depth"),
    (one_round, DATA, {"depths": (60,)}, "depth"), (printed, DATA, {"n_levels": 80}, "depth"),
    (printed, make_ball_mixture(200, 23, 2, rng=rng(23)).points, {}, "depth"),
    # fewer users than questions
    (one_round, DATA[:2], {"k": 1} | THREE, "n_records"),
    (with_sums, DATA[:3], {"k": 1} | THREE, "n_records"),
    (four_rounds, DATA[:6], {"k": 1} | THREE, "n_records"),
    (with_lsh, DATA[:8], {"k": 1} | THREE, "n_records"),
    (ldp_lloyd, DATA[:9], {"k": 1}, "n_records|n_rounds"),
    # what one argument alone does not show
    (one_round, DATA, {"n_outputs": 5}, "n_outputs"),
    (one_round, DATA, {"n_outputs": 2, "sums": False}, "sums must be True"),
    (one_round, DATA, {"depths": (3, 2)}, "depths must increase"),
    (one_round, DATA, {"depths": (2, 2)}, "depths must increase"),
    (one_round, DATA, {"levels": 3}, "levels"),
    (four_rounds, DATA, {"depths": (2, 1)}, "depths must increase"),
    (with_lsh, DATA, {"t": 9}, "t must be"),
    (gaussian_report_kmeans, DATA, {"max_reports": 1}, "max_reports"),
    (gaussian_report_kmeans, DATA, {"max_reports": 10**9}, "max_reports"),
    (ldp_lloyd, DATA, {"initial": np.zeros((3, 4))}, "initial must hold 2 centres"),
    (ldp_lloyd, DATA, {"initial": np.zeros((2, 3))}, "initial must have 4 columns"),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "points", "options", "message"), WRONG)
def test_what_cannot_be_planned_is_refused(algorithm, points, options, message):
    fed = simulate(points[:500], "local", seed=1)
    call = {"k": 2} | options
    refused(fed, lambda: run(algorithm, fed=fed, **call), (ValueError, TypeError), message)


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


def test_the_printed_algorithm_has_no_secure_mode_and_says_why():
    for options in ({"mode": "secure"}, {"seed": 1, "noise": "discrete"}):
        fed = simulate(DATA[:100], "local", **options)
        text = refused(fed, lambda f=fed: run(printed, fed=f, k=2), ValueError, "no secure mode")
        assert "continuous Gaussian" in text and "ldp_kmeans.plan has one" in text
