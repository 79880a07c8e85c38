"""Data, algorithms and helpers that the tests of locally private k-means share."""

import warnings

import numpy as np
import pytest
from conftest import seeded as rng

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans.frequency_oracles import ask_values
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from studies.ldp_kmeans import as_printed, baselines

DELTA = 1e-6
K = 5
DATA = make_ball_mixture(20_000, 4, K, rng=np.random.default_rng(11)).points
WIDE = make_ball_mixture(20_000, 10, K, rng=np.random.default_rng(12)).points


def public_users(n, d):
    """A federation whose public number of users is n: enough to plan with."""
    return simulate(np.zeros((8, d)), "local", seed=1, n_records=n, n_clients=n)


def run(algorithm, points=DATA, *, k=K, epsilon=4.0, seed=1, fed=None, **options):
    fed = simulate(points, "local", seed=seed) if fed is None else fed
    with warnings.catch_warnings():
        for said in (lk.NothingDetectedWarning, lk.PoorFitWarning):
            warnings.simplefilter("ignore", said)
        return fed, algorithm(fed, n_clusters=k, epsilon=epsilon, rng=rng(), **options)


def planned(planner, **fixed):
    """Plan and follow in one call."""

    def call(fed, *, rng, **options):
        return lk.run(fed, planner(fed, **fixed | options), rng=rng)

    call.planner = planner
    return call


one_round, with_sums = planned(lk.plan), planned(lk.plan, sums=True)
printed = planned(as_printed.plan_as_printed, n_levels=6)
four_rounds, with_lsh = planned(lk.plan_four_rounds), planned(lk.plan_four_rounds, lsh=True)
grid_histogram = planned(baselines.plan_grid_histogram)
gaussian_report_kmeans = planned(baselines.plan_gaussian_reports)
ldp_lloyd, private_mean = planned(baselines.plan_lloyd), planned(baselines.plan_private_mean)
sketch = planned(lk.plan_sketch)

ALGORITHMS = {
    "one_round": one_round,
    "one_round with sums": with_sums,
    "one_round_as_printed": printed,
    "four_rounds": four_rounds,
    "four_rounds with LSH": with_lsh,
    "grid_histogram": grid_histogram,
    "gaussian_report_kmeans": gaussian_report_kmeans,
    "ldp_lloyd": ldp_lloyd,
    "private_mean": private_mean,
    "sketch": sketch,
}
EVERY = pytest.mark.parametrize("name", ALGORITHMS)


def asked_counts(points, depths, epsilon=4.0, seed=0, **options):
    identity = BallProjection(points.shape[1], points.shape[1], rng=rng(), kind="identity")
    counts = lk.CellCounts(
        NestedGrid(points.shape[1]), depths, epsilon, projection=identity, rng=rng(seed), **options
    )
    ask_values(counts, points, rng=rng(seed + 1))
    return counts
