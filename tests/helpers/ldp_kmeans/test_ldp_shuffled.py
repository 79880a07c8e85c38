"""Algorithm 1 and the sketch behind a shuffler: plans, runs, and what is refused."""

import numpy as np
import pytest

from fedclust_helpers import accounting as acc
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import simulate

pytestmark = pytest.mark.slow

N, K, DELTA = 20_000, 3, 1e-6
PLACES = np.array([[0.5, 0.1], [-0.4, 0.4], [0.0, -0.6]])


def points(d=2, n=N):
    rng = np.random.default_rng(4)
    rows = 0.03 * rng.normal(size=(n, d))
    rows[:, :2] += PLACES[rng.integers(0, K, n)]
    return rows


def planned(planner, trust="shuffled", *, d=2, n=N, epsilon=1.0, **options):
    federation = simulate(points(d, n), trust, **({"seed": 1} | options))
    return federation, planner(federation, n_clusters=K, epsilon=epsilon, delta=DELTA)


def furthest(found):
    """Distance of the true centre that is found worst."""
    gaps = np.linalg.norm(PLACES[:, None] - found[None, :, :2], axis=2)
    return gaps.min(axis=1).max()


@pytest.mark.parametrize("options", [{"seed": 1}, {"seed": None, "mode": "secure"}])
@pytest.mark.parametrize("planner", [lk.plan, lk.plan_sketch])
def test_the_central_epsilon_is_asked_and_the_local_one_solved(planner, options):
    federation, plan = planned(planner, epsilon=0.5, **options)
    local = plan.dial.local_epsilon
    assert (plan.epsilon, plan.delta) == (0.5, DELTA)
    # the questions' symbols are known: more may be said than the clones allow, to the last digits
    assert local > 1.1 * acc.local_epsilon_for(N, 0.5, DELTA)
    assert 0.5 * (1 - 1e-3) < plan.total_epsilon <= 0.5
    text = str(plan)
    left = f"local epsilon {local:.4g} (delta 0), all that is left if the shuffler tells"
    for words in ("shuffler sees", "in random order", left, "0.5 at delta"):
        assert words in text
    result = lk.run(federation, plan, rng=np.random.default_rng(2))
    assert 0.49 < result.epsilon <= 0.5 and result.ledger.epsilon(0.0) <= local * (1 + 1e-12)
    # at 3 noise is far below the width of a cell; locally at 0.5 nothing of this would be found
    assert furthest(result.centers) < 0.12
    sent = result.transcript.view("server")
    assert {m.sender for m in sent} == {"shuffler"}
    on_wire = sum(m.n_bytes * m.count for m in result.transcript.messages if m.sender != "server")
    assert on_wire == plan.n_bytes
