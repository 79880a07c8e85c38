"""Bad input to the theory of the local model, one argument at a time; sizes that cannot fit.

What is refused is refused by a ValueError or TypeError that names the argument; what is accepted
gives no nan. (`make sweep` does the same for every public function of the library.)
"""

import math

import numpy as np
import pytest
from conftest import refuses
from ldp_cases import rng

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import reports, simulate
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans import local_randomizers as lr
from fedclust_helpers.ldp_kmeans import projections as maps
from fedclust_helpers.studies.ldp_kmeans import as_printed, bounds, encodings

X = rng(1).normal(scale=0.2, size=(300, 3))
USERS, LABELS = np.arange(300), rng(2).integers(3, size=300)
REPORT = reports.gaussian_report(1.0, 1.0, 1e-6)


def side(points, channels):
    return fo.Question((points[:, 0] > 0).astype(np.uint64))


def sided(points, channels):
    return (points[:, 0] > 0).astype(np.uint64), points


def users():
    return simulate(X, "local", seed=1)


THEORY = {
    "response_factor": {"epsilon": 1.0},
    "split_users_std": {"n": 100, "epsilon": 1.0, "n_mechanisms": 4, "m": 2},
    "sums_center_error": {"n": 1000, "n_features": 3, "epsilon": 1.0, "delta": 1e-6,
                          "cluster_size": 100.0},
    "count_rms": {"n": 100, "epsilon": 1.0, "rng": rng(), "n_buckets": 64},
    "lemma_2_12_bound": {"n_users": 100, "n_features": 3, "delta_norm": 1.0, "epsilon": 1.0,
                         "delta": 1e-6, "beta": 0.1},
    "sums_error": {"n": 100, "n_features": 3, "epsilon": 1.0, "delta": 1e-6, "rng": rng(),
                   "radius": 0.5, "n_values": 8, "beta": 0.1},
    "printed_sums_truth": {"epsilon": 1.0, "delta": 1e-6, "center_norm": 0.5, "radius": 0.1},
    "cross_term_violation": {"n": 5, "n_features": 2, "rng": rng(), "n_trials": 50},
    "clustering_cost": {"points": X, "labels": LABELS},
    "projected_cost_ratio": {"points": X, "labels": LABELS, "n_outputs": 2, "rng": rng(),
                             "n_maps": 2},
    "longest_stretch": {"points": X, "n_outputs": 2, "rng": rng()},
    "stretch_bound": {"n_points": 100, "alpha": 0.1, "beta": 0.1, "n_outputs": 4},
    "expected_outside": {"n_points": 100, "alpha": 0.1, "n_outputs": 4},
    "grid_points_bound": {"n_clusters": 3, "n_features": 3, "alpha": 0.5},
    "discretised_cost": {"points": X, "depth": 2, "n_clusters": 3, "rng": rng()},
    "mean_nearby_cells": {"n_features": 3, "n_shifts": 100, "rng": rng(), "distance": 0.3},
    "cells_within": {"positions": X, "distance": 0.3},
    "share_in_shifted_cell": {"n_features": 3, "rng": rng(), "low": 0.0, "side": 1.0},
    "collision_ratio": {"t": 3, "c": 2.0},
    "lemma_2_15": {"B": 100.0, "c": 3.0, "as_printed": True},
    "exponent_ratio": {"c": 2.0},
    "lemma_2_16_trials": {"side": 3.0, "rng": rng(), "c": 3.0, "n_shifts": 50},
    "loglog_slope": {"n": [1.0, 2, 3], "values": [1.0, 2, 4], "level": 0.95},
    "missed_mass": {"n": 100, "epsilon": 1.0},
}  # fmt: skip


def bad_values(value):
    """Wrong types, and numbers and arrays out of every range."""
    yield from ("words", object(), {"x": 1}, math.nan, math.inf, -math.inf)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from (-1, -0.5, 10**12, 10**30, 1e300, 1e-300, np.array([1, 2]))
    if isinstance(value, np.ndarray):
        floats = np.array(value, dtype=np.float64)
        for wrong in (math.nan, math.inf):
            spoiled = floats.copy()
            spoiled.flat[0] = wrong
            yield spoiled
        yield from (value[None, None], value.astype(complex), value.astype(str), value[:0])
    if isinstance(value, list):
        yield from ([], [math.nan] * len(value), [-1] * len(value), [10**12] * len(value))


def has_nan(result):
    if isinstance(result, float | np.floating):
        return math.isnan(result)
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.isnan(result).any())
    return isinstance(result, tuple) and any(map(has_nan, result))


@pytest.mark.parametrize("name", THEORY)
def test_every_argument_is_checked_by_name(name):
    call, given = getattr(theory, name, None) or getattr(growth, name), THEORY[name]
    call(**given)
    for argument, value in given.items():
        for bad in bad_values(value):
            shown = f"{name}({argument}={bad if np.ndim(bad) == 0 else type(bad).__name__!r})"
            before = {k: np.array(v) for k, v in given.items() if isinstance(v, np.ndarray)}
            try:
                result = call(**given | {argument: bad})
            except (TypeError, ValueError) as refused:
                assert argument in str(refused), f"{shown}: {refused}"
            except Exception as unclear:
                raise AssertionError(f"{shown}: {unclear!r}") from unclear
            else:
                assert not has_nan(result), f"{shown} gave nan"
            for key, array in before.items():
                assert np.array_equal(given[key], array), f"{shown} changed {key}"


SIZES = {
    "rows of a hash": lambda: encodings.UnaryEncoding(1.0, 10**6).randomize(LABELS, rng=rng()),
    "channel of a response": lambda: lr.RandomizedResponse(60.0, 2**40).probabilities(),
    "counts of a response": lambda: lr.RandomizedResponse(60.0, 2**40).estimate(LABELS),
    "values of a hash": lambda: lr.LocalHashing(1.0, 2**40, 1).estimate(LABELS, USERS),
    "buckets": lambda: lk.vector_sums.HeavySums(
        sided, 1.0, 10**6, REPORT, rng=rng(), n_buckets=2**20
    ),
    "channels": lambda: fo.OneBitCounts(
        side, 1.0, rng=rng(), shares=np.ones(10**5), n_buckets=2**20
    ),
    "a matrix": lambda: maps.BallProjection(10**6, 10**5, rng=rng()),
    "kept reports": lambda: lk.plan_gaussian_reports(
        users(), n_clusters=2, epsilon=1.0, max_reports=10**9
    ),
}


@pytest.mark.parametrize("what", SIZES)
def test_what_does_not_fit_is_refused_by_a_public_estimate(what):
    refuses(ValueError, "must be|too large", SIZES[what])
