"""Bad input to the local model: every public function, one argument changed at a time.

What is refused is refused by a ValueError or TypeError that names the argument; what is accepted
gives no nan. Sizes that cannot fit are refused by a public estimate, at once.
"""

import inspect
import math

import numpy as np
import pytest
from ldp_cases import rng

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import UserSplit, reports, simulate
from fedclust_helpers.ldp_kmeans import (
    four_rounds,
    grids,
    heavy_cells,
    lsh,
    one_round,
    vector_sums,
)
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans import local_randomizers as lr
from fedclust_helpers.ldp_kmeans import projections as maps
from fedclust_helpers.studies.ldp_kmeans import as_printed, bounds, encodings, growth, theory

X = rng(1).normal(scale=0.2, size=(300, 3))
USERS, LABELS = np.arange(300), rng(2).integers(3, size=300)
WORDS, KEYS = lr.random_words(10, rng=rng()), np.arange(3, dtype=np.uint64)
REPORT = reports.gaussian_report(1.0, 1.0, 1e-6)
GRID = grids.NestedGrid(3)
CELLS = GRID.cells(X, 3)
IDENTITY = maps.BallProjection(3, 3, rng=rng(), kind="identity")
LEVELS = [
    heavy_cells.CellLevel(p, np.unique(GRID.cells(X, p), axis=0), None, 1.0) for p in (1, 2)
]  # fmt: skip
LEVELS = [heavy_cells.CellLevel(v.depth, v.cells, np.full(len(v.cells), 9.0), 1.0) for v in LEVELS]
SHARES = {"a": 0.5, "b": 0.5}


def side(points, channels):
    return fo.Question((points[:, 0] > 0).astype(np.uint64))


def sided(points, channels):
    return (points[:, 0] > 0).astype(np.uint64), points


def users():
    return simulate(X, "local", seed=1)


COUNTS = fo.OneBitCounts(side, 1.0, rng=rng(), n_buckets=16)
SUMS = vector_sums.HeavySums(sided, 1.0, 3, REPORT, rng=rng(), n_buckets=16)
TREE = lk.CellCounts(GRID, (1, 2), 4.0, projection=IDENTITY, rng=rng())
RESPONSE = lr.RandomizedResponse(1.0, 4)
CALLS = {
    "random_words": (lr.random_words, {"shape": 5, "rng": rng()}),
    "public_coins": (reports.public_coins, {"seed": 3, "users": USERS}),
    "below": (lr.below, {"words": WORDS, "probability": 0.5}),
    "words_modulo": (lr.words_modulo, {"words": WORDS, "n_values": 5, "redraw": lambda w: w}),
    "round_probability": (lr.round_probability, {"probability": 0.3, "up": True}),
    "participations": (lr.participations, {"epsilon": 1.0, "n_mechanisms": 4}),
    "response": (lr.RandomizedResponse, {"epsilon": 1.0, "n_values": 4}),
    "response.randomize": (RESPONSE.randomize, {"values": LABELS, "rng": rng()}),
    "response.estimate": (RESPONSE.estimate, {"reports": LABELS}),
    "response.std": (RESPONSE.std, {"n_users": 100, "count": 10}),
    "unary": (encodings.UnaryEncoding, {"epsilon": 1.0, "n_values": 4, "kind": "symmetric"}),
    "unary.estimate": (
        encodings.UnaryEncoding(1.0, 4).estimate, {"reports": np.zeros((9, 4), dtype=bool)},
    ),
    "hashing": (encodings.LocalHashing, {"epsilon": 1.0, "n_values": 4, "seed": 3}),
    "hashing.estimate": (
        encodings.LocalHashing(1.0, 4, 3).estimate, {"reports": LABELS, "users": USERS},
    ),
    "gaussian_report": (
        reports.gaussian_report,
        {"radius": 1.0, "epsilon": 1.0, "delta": 1e-6, "grid": 2.0**-10, "n_features": 3},
    ),
    "check_values": (lr.check_values, {"values": LABELS, "n_values": 3}),
    "walsh_hadamard": (fo.walsh_hadamard, {"values": np.ones((8, 2))}),
    "BucketHash": (fo.BucketHash, {"n_buckets": 16, "rng": rng()}),
    "OneBitCounts": (
        fo.OneBitCounts,
        {"encode": side, "epsilon": 1.0, "rng": rng(), "shares": [1.0, 1.0], "n_answers": 1,
         "n_buckets": 16},
    ),
    "OneBitCounts.respond": (COUNTS.respond, {"points": X, "users": USERS, "rng": rng()}),
    "OneBitCounts.estimate": (COUNTS.estimate, {"keys": KEYS, "channel": 0}),
    "OneBitCounts.check": (COUNTS.check, {"n_features": 3}),
    "Bitstogram": (
        fo.Bitstogram,
        {"values": lambda p: (p[:, 0] > 0).astype(np.uint64), "epsilon": 1.0, "n_bits": 4,
         "rng": rng(), "oracle_share": 0.3},
    ),
    "HeavySums": (
        vector_sums.HeavySums,
        {"encode": sided, "radius": 1.0, "n_outputs": 3, "mechanism": REPORT, "rng": rng(),
         "n_buckets": 16},
    ),
    "HeavySums.respond": (SUMS.respond, {"points": X, "users": USERS, "rng": rng()}),
    "HeavySums.rms_error": (SUMS.rms_error, {"n_users": 10, "mean_square": 0.5}),
    "check_report_mechanism": (
        vector_sums.check_report_mechanism, {"mechanism": REPORT, "radius": 1.0, "n_outputs": 3},
    ),
    "NestedGrid": (grids.NestedGrid, {"n_features": 3, "side": 2.0, "shift": (0.0, 0.0, 0.0)}),
    "grid.cells": (GRID.cells, {"points": X, "depth": 3}),
    "grid.centers": (GRID.centers, {"cells": CELLS, "depth": 3}),
    "grid.ancestors": (GRID.ancestors, {"cells": CELLS, "depth": 3, "to_depth": 1}),
    "grid.children": (GRID.children, {"cells": CELLS, "depth": 3, "to_depth": 4}),
    "grid.all_cells": (GRID.all_cells, {"depth": 2, "radius": 1.0}),
    "grid.meets_ball": (GRID.meets_ball, {"cells": CELLS, "depth": 3, "radius": 1.0}),
    "grid.keys": (GRID.keys, {"cells": CELLS, "depth": 3}),
    "grid.unpack": (GRID.unpack, {"keys": GRID.keys(CELLS, 3), "depth": 3}),
    "grid_for_algorithm_1": (
        as_printed.grid_for_algorithm_1, {"n_features": 3, "alpha": 0.5, "n_levels": 4},
    ),
    "grids_needed": (lsh.grids_needed, {"t": 3, "n_points": 100, "beta": 0.1}),
    "BallCarvingHash": (
        lsh.BallCarvingHash,
        {"n_features": 3, "rng": rng(), "t": 2, "scale": 1.0, "n_grids": 10},
    ),
    "ball carving": (lsh.BallCarvingHash(3, rng=rng(), t=2), {"points": X}),
    "collision_probability": (
        bounds.collision_probability, {"distance": 1.0, "t": 3},
    ),
    "far_upper_bound": (bounds.far_upper_bound, {"c": 2.0, "t": 3}),
    "BallProjection": (
        maps.BallProjection,
        {"n_features": 5, "n_outputs": 3, "rng": rng(), "kind": "gaussian"},
    ),
    "projection": (IDENTITY, {"points": X}),
    "jl_dimension": (bounds.jl_dimension, {"alpha": 0.2, "beta": 0.1}),
    "kmeans_dimension": (
        bounds.kmeans_dimension, {"n_clusters": 3, "alpha": 0.2, "beta": 0.1},
    ),
    "CellCounts": (
        lk.CellCounts,
        {"grid": GRID, "depths": (1, 2), "epsilon": 4.0, "projection": IDENTITY, "rng": rng(),
         "n_answers": 2},
    ),
    "descend": (heavy_cells.descend, {"counts": TREE, "n_sd": 2.0}),
    "choose_cells": (one_round.choose_cells, {"levels": LEVELS, "n_sd": 3.0}),
    "detection_threshold": (
        lk.detection_threshold,
        {"n_users": 100, "epsilon": 1.0, "n_levels": 2, "n_sd": 3.0},
    ),
    "users_needed": (
        lk.users_needed,
        {"share": 0.1, "epsilon": 1.0, "n_levels": 2, "n_sd": 3.0, "user_share": 0.5},
    ),
    "users_needed_as_printed": (
        as_printed.users_needed_as_printed,
        {"share": 0.1, "epsilon": 1.0, "n_levels": 20, "n_sd": 3.0},
    ),
    "NoisyPoints": (
        lk.NoisyPoints, {"n_features": 3, "mechanism": REPORT, "max_kept": 10, "radius": 1.0},
    ),
    "random_in_ball": (lk.random_in_ball, {"n": 4, "n_features": 3, "rng": rng()}),
    "mark_heavy_cells": (
        four_rounds.mark_heavy_cells, {"grid": GRID, "levels": LEVELS, "n_sd": 3.0},
    ),
    "plan": (
        lambda **k: lk.plan(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "sums": True, "n_outputs": 2,
         "depths": (1, 2), "n_sd": 3.0, "n_init": 3},
    ),
    "plan_as_printed": (
        lambda **k: as_printed.plan_as_printed(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "alpha": 0.5, "n_levels": 3, "n_sd": 3.0,
         "n_init": 3},
    ),
    "plan_four_rounds": (
        lambda **k: lk.plan_four_rounds(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "lsh": True, "n_outputs": 2,
         "depths": (1, 2), "t": 2, "n_sd": 3.0, "n_init": 3},
    ),
    "plan_gaussian_reports": (
        lambda **k: lk.plan_gaussian_reports(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "max_reports": 100, "n_init": 1},
    ),
    "plan_grid_histogram": (
        lambda **k: lk.plan_grid_histogram(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "depth": 2, "n_sd": 3.0, "n_init": 3},
    ),
    "plan_private_mean": (
        lambda **k: lk.plan_private_mean(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6},
    ),
    "plan_lloyd": (
        lambda **k: lk.plan_lloyd(users(), **k),
        {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "n_rounds": 2},
    ),
    "divide": (lambda **k: users().divide(**k), {"shares": SHARES}),
    "ask": (lambda **k: users().ask(**k), {"query": COUNTS, "round": 0, "part": None}),
    "federation.gaussian_report": (
        lambda **k: users().gaussian_report(**k),
        {"n_outputs": 3, "epsilon": 1.0, "delta": 1e-6},
    ),
    "UserSplit": (UserSplit, {"shares": SHARES, "seed": 3}),
    "members": (UserSplit(SHARES, 3).members, {"users": USERS, "part": "a"}),
}  # fmt: skip
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
CALLS |= {
    f"theory.{name}": (getattr(theory, name, None) or getattr(growth, name), given)
    for name, given in THEORY.items()
}


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
    if isinstance(value, tuple | list):
        yield from ((), (math.nan,) * len(value), (-1,) * len(value), (10**12,) * len(value))
    if isinstance(value, dict):
        yield from ({}, dict.fromkeys(value, math.nan), dict.fromkeys(value, -1))


def has_nan(result):
    if isinstance(result, float | np.floating):
        return math.isnan(result)
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.isnan(result).any())
    return isinstance(result, tuple) and any(map(has_nan, result))


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_checked_by_name(name):
    call, given = CALLS[name]
    call(**given)
    for argument, value in given.items():
        for bad in bad_values(value):
            shown = f"{name}({argument}={bad if np.ndim(bad) == 0 else type(bad).__name__!r})"
            before = {k: np.array(v) for k, v in given.items() if isinstance(v, np.ndarray)}
            try:
                result = call(**given | {argument: bad})
            except (TypeError, ValueError) as refused:
                other = {"part": "parts", "points": "rows"}.get(argument, argument)
                assert argument in str(refused) or other in str(refused), f"{shown}: {refused}"
            except Exception as unclear:
                raise AssertionError(f"{shown}: {unclear!r}") from unclear
            else:
                assert not has_nan(result), f"{shown} gave nan"
            for key, array in before.items():
                assert np.array_equal(given[key], array), f"{shown} changed {key}"


def test_every_public_function_of_the_theory_is_on_the_list():
    """What takes no points and is not listed above is derived from what is."""
    public = {
        name for module in (theory, growth) for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
        and not name.startswith("_")
    }  # fmt: skip
    derived = {
        "split_budget_std", "algorithm_5_true_delta", "pairwise_cost", "printed_scale",
        "zipf_shares",
    }  # fmt: skip
    assert public == set(THEORY) | derived


SIZES = {
    "rows of a hash": lambda: encodings.UnaryEncoding(1.0, 10**6).randomize(LABELS, rng=rng()),
    "channel of a response": lambda: lr.RandomizedResponse(60.0, 2**40).probabilities(),
    "counts of a response": lambda: lr.RandomizedResponse(60.0, 2**40).estimate(LABELS),
    "values of a hash": lambda: encodings.LocalHashing(1.0, 2**40, 1).estimate(LABELS, USERS),
    "buckets": lambda: vector_sums.HeavySums(sided, 1.0, 10**6, REPORT, rng=rng(), n_buckets=2**20),
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
    with pytest.raises(ValueError, match="must be|too large"):
        SIZES[what]()
