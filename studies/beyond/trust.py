"""The price of trust: one data set, one central guarantee, four trust models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from fedclust_helpers import fastlloyd
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu, local_epsilon_for
from fedclust_helpers.federation import ClientData, Plan, simulate
from studies.bench.cell import Cell, Numbers
from studies.ldp_kmeans import problems
from studies.ldp_kmeans.cells import SUMS
from studies.ldp_kmeans.depths import fixed_one_round

DELTA = 1e-6
MODELS = (
    ("local", "alg1"), ("local", "sketch"), ("shuffled", "alg1"), ("shuffled", "sketch"),
    ("secure_sum", "overclustered"), ("central", "overclustered"),
)  # fmt: skip
"""Trust models and algorithms; of each model the last is the best that we have."""
USERS: dict[str, Callable[..., Plan]] = {"alg1": fixed_one_round, "sketch": lk.plan_sketch}


def replace_one_epsilon(epsilon: float, delta: float) -> float:
    """The add/remove epsilon of Gaussian releases that are (epsilon, delta) under replace-one.

    One record replaced is one removed and one added: mu doubles at most.
    """
    return gdp_epsilon(gdp_mu(epsilon, delta) / 2, delta)


def trust_price(
    cell: Cell, *, ball: problems.Ball, trust: str, algorithm: str, epsilon: float
) -> Numbers:
    """Cost over the optimum of one run that is (epsilon, DELTA), one user's value replaced.

    `local_epsilon` is that of one user's message, known by its sender: infinite where clients send
    sums of exact rows.
    """
    problem, best = problems.load_ball(ball), problems.best_ball_cost(ball)
    protocol, server = cell.seed.spawn(2)
    local = np.inf
    if trust in SUMS:
        n = len(problem.points)
        data = ClientData(problem.points, np.array([0, n // 2, n]))
        federation = simulate(data, **SUMS[trust], seed=protocol, bound=1.0)
        asked = replace_one_epsilon(epsilon, DELTA)
        plan = fastlloyd.plan_overclustered(
            federation, n_clusters=ball.k, epsilon=asked, delta=DELTA
        )
        centers = fastlloyd.run(federation, plan).centers
    else:
        users = simulate(problem.points, trust, seed=protocol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine = USERS[algorithm](users, n_clusters=ball.k, epsilon=epsilon, delta=DELTA)
            centers = lk.run(users, mine, rng=np.random.default_rng(server)).centers
        local = mine.dial.local_epsilon
    over = problem.cost(centers) / best
    return {"over_optimum": over, "excess": over - 1, "local_epsilon": local}


# --- users needed ---------------------------------------------------------------------------------


def shuffled_local(n_users: int, epsilon: float, n_features: int) -> float:
    """The local epsilon of a sketch's symbol, of which n shuffled cost (epsilon, DELTA)."""
    return local_epsilon_for(
        n_users, epsilon, DELTA, lambda local: (lk.sketch_report(local, n_features),)
    )


def shuffled_users_needed(epsilon: float, n_features: int, n_clusters: int) -> int:
    """`sketch_users_needed` for clusters of equal size behind a shuffler, to a tenth of a percent.

    More users hide one another better, so each of them may say more.
    """
    low, high = 2.0, float(sketch_needed(epsilon, n_features, n_clusters))
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        local = shuffled_local(math.ceil(middle), epsilon, n_features)
        enough = middle >= sketch_needed(local, n_features, n_clusters)
        low, high = (low, middle) if enough else (middle, high)
    return math.ceil(high)


def sketch_needed(epsilon: float, n_features: int, n_clusters: int) -> int:
    """Users to see clusters of equal size, each with the median width of the prior."""
    return lk.sketch_users_needed(1 / n_clusters, epsilon, n_features, n_clusters=n_clusters)
