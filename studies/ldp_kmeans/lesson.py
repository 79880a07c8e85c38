"""Settings of the notebook, its data, what it is tried with, and tables and runs that it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers import datasets, kmeans
from fedclust_helpers import ldp_kmeans as ldp
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question, ask_values
from fedclust_helpers.program import Run
from studies.bench.lesson import Lesson
from studies.bench.samples import Rows, choose, photograph

LESSON = Lesson(
    settings={
        "DATA": "app users", "SEED": 5, "EPSILON": 1.0, "LARGE": 8.0, "DELTA": 1e-6, "K": 5,
        "N_USERS": 1_000_000,
    },
    variations={
        "DATA": ("photograph",), "EPSILON": (0.3, 2.0), "LARGE": (4.0,), "DELTA": (1e-5,),
        "K": (2, 8), "N_USERS": (100_000, 20_000),
    },
    streams=(
        "coin", "phones", "signs", "split", "users", "cells", "server", "need", "boards",
        "noisy", "photograph", "poll", "bits",
    ),
)  # fmt: skip
begin = LESSON.begin

DISC = 1 / np.sqrt(2)  # a box of this half side lies in the unit disc


def data(name: str, n: int | None = None, *, rng: np.random.Generator) -> Rows:
    """n users (20,000), one row each, in the unit disc.

    "app users" are five round groups in a city, drawn anew; "photograph" has the red and the blue
    of pixels, in random order, 273,280 at most.
    """
    return choose(name, {
        "app users": lambda: _app_users(n or 20_000, rng), "photograph": lambda: _pixels(n, rng),
    })  # fmt: skip


def _app_users(n: int, rng: np.random.Generator) -> Rows:
    made = datasets.make_ball_mixture(n, 2, 5, rng=rng)
    reach = np.full(2, 10.0)
    return Rows(made.points, ("km east", "km north"), -reach, reach, np.arange(n), 5, made.labels)


def _pixels(n: int | None, rng: np.random.Generator) -> Rows:
    made = photograph(1, rng=rng)
    points = rng.permutation(made.points[:, [0, 2]])[: n or 20_000] * DISC
    middle, half = np.full(2, 127.5), np.full(2, 127.5 / DISC)
    owners = np.arange(len(points))
    return Rows(points, ("red", "blue"), middle - half, middle + half, owners, made.k)


def scorer(
    points: FloatArray, k: int, *, rng: np.random.Generator
) -> tuple[FloatArray, Callable[..., float]]:
    """The best centres (k, d), and a function ``ratio(places, weights=None)``.

    It returns the cost of k-means on weighted places, or of k centres, over the best, which is that
    of k-means without privacy; nan for fewer than k places. Fitted and compared on 100,000 points
    at most.
    """
    some = points[:: max(1, len(points) // 100_000)]
    best = kmeans.weighted_kmeans(some, None, k, rng=rng)
    least, state = kmeans.kmeans_cost(some, best), rng.bit_generator.state

    def ratio(places: ArrayLike, weights: ArrayLike | None = None) -> float:
        places = np.asarray(places)
        if len(places) < k:
            return float("nan")
        if len(places) > k or weights is not None:
            again = np.random.default_rng()
            again.bit_generator.state = state
            places = kmeans.weighted_kmeans(places, weights, k, rng=again)
        return kmeans.kmeans_cost(some, places) / least

    return best, ratio


class Phones(NamedTuple):
    """Places of 200,000 phones among 65,536; the popular ones, and how many phones each holds."""

    places: IntArray
    popular: IntArray
    held: IntArray


def phones(*, rng: np.random.Generator) -> Phones:
    """Eight popular places with 20,000 down to 3,000 phones; all others are anywhere."""
    held = 1000 * np.array([20, 17, 14, 12, 10, 8, 6, 3])
    popular = rng.choice(2**16, len(held), replace=False)
    rest = rng.integers(2**16, size=200_000 - held.sum())
    return Phones(np.concatenate([repeat(popular, held), rest]), popular, held)


def above(n_sd: float, means: ArrayLike) -> FloatArray:
    """How often a count with noise of sd 1 around these means is above so many sd."""
    return np.asarray(norm.sf(n_sd - np.asarray(means)))


def pixels(k: int, *, rng: np.random.Generator) -> tuple[FloatArray, Callable[..., float]]:
    """The colours (273,280, 3) of a photograph, row by row, in 0 to 255; and their `scorer`."""
    colours = photograph(1, rng=rng).table().to_numpy()
    return colours, scorer(colours, k, rng=rng)[1]


def package_cost(
    method: str, points: ArrayLike, k: int, epsilon: float, ratio: Callable[..., float], *,
    n_runs: int = 5, **options: Any,
) -> float:  # fmt: skip
    """Median of `ratio` over teaching runs of the package; `method` is a key of `PLANS`."""
    found = []
    for seed in range(n_runs):
        users = simulate(np.asarray(points), "local", seed=seed)
        plan = ldp.PLANS[method](users, n_clusters=k, epsilon=epsilon, **options)
        found.append(ratio(ldp.run(users, plan, rng=np.random.default_rng(seed)).centers))
    return float(np.median(found))


def four_rounds(points: ArrayLike, k: int, epsilon: float, delta: float, *, seed: int) -> Run:
    """A run of Algorithms 2 to 5 with hashing."""
    users = simulate(np.asarray(points), "local", seed=seed)
    plan = ldp.plan_four_rounds(
        users, n_clusters=k, epsilon=epsilon, delta=delta, lsh=True, t=2, depths=(1, 2, 3)
    )
    return ldp.run(users, plan, rng=np.random.default_rng(seed))


def empty_places_sd(
    epsilon: float,
    answers: Sequence[int],
    *,
    rng: np.random.Generator,
    n: int = 20_000,
    questions: int = 10,
) -> dict[int, float]:
    """Sd of counts of empty places over sqrt(n), by how many questions each of n users answers."""
    found = {}
    for a in answers:
        oracle = OneBitCounts(
            lambda points, _: Question(points[:, 0].astype(np.uint64)),
            epsilon, shares=[1.0] * questions, n_answers=a, rng=rng,
        )  # fmt: skip
        ask_values(oracle, np.zeros((n, 1)), rng=rng)
        own = oracle.buckets(np.zeros(1, dtype=np.uint64))
        found[a] = float(np.delete(oracle.spectrum[0], own).std() * oracle.scale(0) / np.sqrt(n))
    return found


def cost_by_columns(
    table: pd.DataFrame, better: pd.DataFrame, *, n: int, k: int = 5, epsilon: float = 1.0
) -> pd.DataFrame:
    """Cost over non-private cost of mixtures by method and d, means over data sets.

    Algorithm 1 is planned by default: up to six columns without vectors. `table` is ``ldp_cost``,
    with columns data, n, dprime, k, epsilon, algorithm, cost_per_point, nonprivate_cost; `better`
    is ``better_local``, which has the sketch, with a hundredth of the users.
    """
    names = {"alg1": f"Algorithm 1, {n:,} users", "alg4": f"four rounds, {n:,} users"}
    part = table[(table["data"] == "mixture") & (table["epsilon"] == epsilon)]
    part = part[(part["n"] == n) & (part["k"] == k)]
    default = (part["algorithm"] != "alg1_hso") | (part["dprime"] > 6)
    method = part["algorithm"].replace("alg1_hso", "alg1").map(names)
    ratio = (part["cost_per_point"] / part["nonprivate_cost"]).where(default)
    costs = ratio.groupby([method, part["dprime"].rename("columns")]).mean().unstack()
    sketch = over_best(better, epsilon=epsilon).T[(n // 100, "sketch")]
    costs.loc[f"sketch, {n // 100:,} users"] = [sketch[f"d={d}, k={k}"] for d in costs]
    return costs.rename_axis(None)


BY_TRUST = {
    "grids": ("local", "alg1"), "sketch": ("local", "sketch"),
    "shuffled sketch": ("shuffled", "sketch"), "sum": ("ideal", "overclustered"),
}  # fmt: skip
"""Names of `cost_by_trust`, with trust and method of the table ``side_by_side``."""


def cost_by_trust(table: pd.DataFrame, *, epsilon: float = 1.0) -> pd.DataFrame:
    """Median cost over the best by n (rows) and method: five groups in the plane."""
    same = {"data": "mixture", "d": 2, "k": 5, "epsilon": epsilon}
    part = table[(table[list(same)] == list(same.values())).all(axis=1)]
    medians = part.set_index(["trust", "method", "n"])["median"].sort_index()
    return pd.DataFrame({name: medians.loc[key] for name, key in BY_TRUST.items()})


def least_by_users(users: Iterable[int]) -> FloatArray:
    """The least that any local method adds to the best cost in `cost_by_trust`, (m,)."""
    return np.array([ldp.least_excess(int(n), 1.0, 2, n_clusters=5) for n in users])


def over_best(table: pd.DataFrame, *, epsilon: float = 1.0) -> pd.DataFrame:
    """Mean cost over the best by n and method, one column for each (d, k): mixtures of a table.

    `table` is ``better_local``.
    """
    names = {"alg1": "Algorithm 1", "sketch": "sketch"}
    part = table[(table["data"] == "mixture") & (table["epsilon"] == epsilon)]
    part = part.assign(method=part["algorithm"].map(names)).dropna(subset="method")
    costs = part.pivot_table("over_optimum", ["n", "method"], ["dprime", "k"])
    return costs.set_axis(costs.columns.map("d={0[0]}, k={0[1]}".format), axis=1)
