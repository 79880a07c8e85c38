"""Depths by a predicted error: its closed forms against draws, and what it chooses."""

import math

import numpy as np
import pytest
from conftest import refuses
from ldp_cases import public_users

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans.depths import CELLS_PER_CLUSTER, FAR, Expected, meet

RUNS = ((1,), (1, 2), (2,), (2, 3), (2, 3, 4), (3,), (3, 4))


def depths_of(plan):
    return plan.broadcasts("depths")[0]


def expected(n=10**5, d=2, k=5, epsilon=1.0, d_in=None, **more):
    return Expected(n, d if d_in is None else d_in, d, k, epsilon, **more)


@pytest.mark.parametrize("ratio", [0.05, 0.4, 3.0])
def test_meeting_in_an_interval_is_what_draws_say(ratio):
    """Within 4 standard errors of 10^5 draws, of a distribution that they do not share."""
    rng = np.random.default_rng(1)
    a, b = ratio * rng.normal(size=(2, 10**5)) / math.sqrt(2) + rng.random(10**5)
    share, wanted = np.mean(np.floor(a) == np.floor(b)), meet(ratio**2, 1.0)
    assert abs(share - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / 10**5)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_bias_is_that_of_means_of_cell_centres(depth):
    """Without noise only the bias is left: 400 one-dimensional clusters at random, 1 % to 4 %."""
    of = expected(10**15, d=1, k=5)
    rng, side = np.random.default_rng(2), 2.0 ** (1 - depth)
    values = of.sd * rng.normal(size=20_000)
    off = [
        (np.floor((values + u) / side) * side + side / 2 - values - u).mean()
        for u in rng.uniform(0, side, 400)
    ]
    assert of.error((depth,)) == pytest.approx(np.mean(np.square(off)), rel=0.12, abs=2e-6)


def test_an_error_is_a_share_of_the_cost_of_not_being_seen():
    for n in (10, 10**3, 10**5, 10**7):
        for run in RUNS:
            assert 0 <= expected(n, d=4).error(run) <= FAR * (1 + 1e-12)
    few, many = expected(100, d=4), expected(10**8, d=4)
    assert few.seen(3, (3,)) < 0.05 and many.seen(3, (3,)) > 0.95
    assert few.error((5, 6)) == pytest.approx(FAR)  # nobody
    # with sums: noise of every vector in every cell that a cluster touches, over n
    of = expected(10**12, d=4, d_in=10)
    cells = 1 / meet(2 * of.sd**2, 0.25) ** 4
    more = of.error_of_sums((3,), 3, 10**4, 600.0) - of.error_of_sums((3,), 3, 10**4, 0.0)
    assert more == pytest.approx(25 * CELLS_PER_CLUSTER * cells * 600 / 10**4)
    assert of.scale > 1.5 and expected(d=4).scale == 1


def test_more_users_or_epsilon_ask_finer():
    for d in (1, 2, 4, 6):
        finest = [expected(10**i, d=d).best()[-1] for i in range(3, 9)]
        assert finest == sorted(finest) and finest[0] < finest[-1]
        finest = [expected(10**5, d=d, epsilon=e).best()[-1] for e in (0.25, 1.0, 4.0)]
        assert finest == sorted(finest)
    sums = [
        expected(0.3 * 10**i, d=4, d_in=10).best_for_sums(0.7 * 10**i, 714.0)[1]
        for i in range(4, 9)
    ]
    assert sums == sorted(sums) and sums[0] < 3 <= sums[-1]


def test_the_epsilon_of_a_report_decides_not_that_of_the_crowd():
    points = np.zeros((20_000, 2))
    asked = {"n_clusters": 5, "epsilon": 0.25}
    local, shuffled = (lk.plan(simulate(points, t, seed=0), **asked) for t in ("local", "shuffled"))
    assert depths_of(shuffled) == expected(20_000, epsilon=shuffled.dial.local_epsilon).best()
    assert depths_of(shuffled)[-1] > depths_of(local)[-1]


def test_every_dimension_has_depths_or_is_refused_in_words():
    for planner, most in ((lk.plan, 12), (lk.plan_four_rounds, 9)):
        for d in (1, 6, 7, most):
            made = planner(public_users(10**5, 20), n_clusters=3, epsilon=1.0, n_outputs=d)
            assert depths_of(made)[0] >= 1 and len(depths_of(made)) <= 3
    many = public_users(10**5, 40)
    given = lk.plan(many, n_clusters=3, epsilon=1.0, n_outputs=2, depths=(1, 3))
    assert depths_of(given) == (1, 3)
    refuses(ValueError, "depths must", lk.plan, many, n_clusters=3, epsilon=1.0, n_outputs=40)
    refuses(ValueError, "depths must", lk.plan_four_rounds, many, n_clusters=3, epsilon=1.0,
            n_outputs=40)  # fmt: skip
