"""Lemmas and side claims of the LDP paper as numbers: what `ldp_checks` is made of.

Each check is a function of a generator that returns ``quantity -> value``. `EXPECTED` holds what
the paper, or the theory checks with an independent implementation, give for some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedclust_helpers import kmeans
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.projections import BallProjection, jl_dimension, kmeans_dimension
from fedclust_helpers.studies.ldp_kmeans import theory

Numbers = dict[str, float]
COLUMNS = ["source", "quantity", "expected", "ours"]


def _identity(rng: np.random.Generator) -> Numbers:
    points = rng.normal(size=(200, 7))
    whole = theory.clustering_cost(points, np.zeros(len(points), dtype=np.int64))
    return {"pairwise form over cost": theory.pairwise_cost(points) / whole}


def _dimension(rng: np.random.Generator) -> Numbers:
    return {
        f"d for alpha={alpha:g}, beta={beta:g}": jl_dimension(alpha, beta)
        for alpha in (0.1, 0.2)
        for beta in (0.1, 0.01)
    }


def _fixed_clustering(rng: np.random.Generator) -> Numbers:
    n, k, d = 2000, 10, 300
    labels = rng.integers(k, size=n)
    points = rng.normal(size=(k, d))[labels] + 0.5 * rng.normal(size=(n, d))
    out: Numbers = {}
    for alpha in (0.1, 0.2, 0.5):
        outputs = kmeans_dimension(k, alpha, 0.1)
        ratios = theory.projected_cost_ratio(points, labels, outputs, rng=rng, n_maps=20)
        out[f"smallest cost ratio, alpha={alpha:g}, d={outputs}"] = float(ratios.min())
        out[f"largest cost ratio, alpha={alpha:g}, d={outputs}"] = float(ratios.max())
    return out


def _stretch(rng: np.random.Generator) -> Numbers:
    n, alpha, beta = 10_000, 0.01, 0.01
    d = kmeans_dimension(10, alpha, beta)
    bound = theory.stretch_bound(n, alpha, beta, d)
    points = rng.normal(size=(n, 50))
    return {
        "largest stretch, alpha=0.01, n=1e4": theory.longest_stretch(points, d, rng=rng),
        "printed bound": bound.printed,
        "bound with 1 +": bound.corrected,
        "line 2's scale, alpha=0.1, n=1e6": theory.printed_scale(10**6, 0.1, 0.01),
    }


def _outside(rng: np.random.Generator) -> Numbers:
    d = kmeans_dimension(5, 0.2, 0.05)
    return {
        f"points outside at alpha=0.2, d=156, n={n:g}": theory.expected_outside(n, 0.2, 156)
        for n in (10**3, 10**4, 10**5, 10**6)
    } | {"d of the lemma for k=5, beta=0.05": d}


def _printed_noise(rng: np.random.Generator) -> Numbers:
    truth = theory.printed_sums_truth(1.0, 1e-6, center_norm=0.5, radius=0.05)
    constant = theory.printed_sums_truth(1.0, 1e-6, center_norm=0.5, radius=0.0)
    return {
        "claimed epsilon": truth.claimed_epsilon,
        "true epsilon, g in a ball of diameter 0.1 at distance 0.5": truth.true_epsilon,
        "true mu": truth.true_mu,
        "noise for a constant g": constant.std,
    }


def _algorithm_5(rng: np.random.Generator) -> Numbers:
    return {
        f"true delta at epsilon={e:g}, claimed 1e-6": theory.algorithm_5_true_delta(e, 1e-6)
        for e in (0.25, 0.5, 1.0)
    }


def _classic_gaussian(rng: np.random.Generator) -> Numbers:
    delta = 1e-5
    out: Numbers = {}
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0):
        classic = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        exact = gaussian_sigma_analytic(epsilon, delta)
        out[f"epsilon={epsilon:g}: printed over exact noise, delta=1e-5"] = classic / exact
    return out


def _cross_terms(rng: np.random.Generator) -> Numbers:
    found = theory.cross_term_violation(100, 1, rng=rng, n_trials=20_000)
    return {"share of violations, d=1, n=100": found.violated, "its limit": found.limit}


def _nearby(rng: np.random.Generator) -> Numbers:
    out: Numbers = {}
    for d in (1, 2, 3, 4, 6, 8):
        found = theory.mean_nearby_cells(d, 20_000, rng=rng)
        out |= {f"cells within R/d, d={d}": found.mean, f"(1 + 2/d)^d, d={d}": found.bound}
    corner = theory.cells_within(np.zeros((1, 8)), 1 / 8)
    return out | {"cells at a corner, no shift, d=8": float(corner[0])}


def _lemma_2_15(rng: np.random.Generator) -> Numbers:
    out: Numbers = {}
    for b in (10.0, 1e2, 1e3, 1e4, 1e6):
        printed, safe = (theory.lemma_2_15(b, 3.0, as_printed=p) for p in (True, False))
        out[f"proved bound over B, printed t, B={b:g}"] = printed.proved
        out[f"proved bound over B, safe t, B={b:g}"] = safe.proved
        out[f"exact ratio over B, printed t, B={b:g}"] = printed.exact
    return out


def _exponent(rng: np.random.Generator) -> Numbers:
    return {
        f"(1/c')(2c^2 - 1) at c={c:g}": theory.exponent_ratio(c) for c in (2.0, 1.5, 1.42, 100.0)
    }


def _filter(rng: np.random.Generator) -> Numbers:
    out: Numbers = {}
    for side in (4.0, 3.0):
        trials = theory.lemma_2_16_trials(side, rng=rng)
        name = f"cell side {side:g}"
        out |= {
            f"success, {name}": trials.success,
            f"promise p(1)/4, {name}": trials.promise,
            f"radius bound, {name}": trials.radius_bound,
        }
    return out


def _proxies(rng: np.random.Generator) -> Numbers:
    points = make_ball_mixture(300_000, 4, 5, rng=rng).points
    out: Numbers = {}
    for depth in (2, 3, 4):
        for where in ("center", "corner"):
            cost = theory.discretised_cost(points, depth, 5, where=where, rng=rng)
            out[f"cost with cell {where}s, depth {depth}"] = cost
    return out


def _projected_cells(rng: np.random.Generator) -> Numbers:
    """No noise: project to four dimensions, cluster the cells, take the means in R^d'."""
    n, k, grid = 20_000, 5, NestedGrid(4)
    costs: dict[str, list[float]] = {}
    for d in (10, 20, 50):
        for _ in range(12):
            points = make_ball_mixture(n, d, k, rng=rng).points
            images = BallProjection(d, 4, rng=rng, kind="gaussian")(points)
            for depth in (3, 4):
                cells, index, size = np.unique(
                    grid.cells(images, depth), axis=0, return_inverse=True, return_counts=True
                )
                places = grid.centers(cells, depth)
                low = kmeans.weighted_kmeans(places, size, k, rng=rng, n_init=10)
                labels = kmeans.assign(places, low).labels[index.ravel()]
                sums, counts = kmeans.group_sums(points, labels, k)
                means = sums / np.maximum(counts, 1)[:, None]
                cost = kmeans.kmeans_cost(points, means, normalize=True)
                costs.setdefault(f"cost of projected cells, depth {depth}, d'={d}", []).append(cost)
    return {name: float(np.mean(values)) for name, values in costs.items()}


def _as_printed(rng: np.random.Generator) -> Numbers:
    out = {f"n for a 2 % cell at epsilon={e:g}": float(lk.users_needed_as_printed(0.02, e, 20))
           for e in (1.0, 4.0, 8.0)}  # fmt: skip
    calls = lk.printed_calls(10**6, 8, 5)
    return out | {
        "parallel calls of Algorithm 4, n=1e6, k=5, d=8": calls["calls"],
        "users per call": calls["users_per_call"],
        "cells per level, N_G of Lemma 3.3, alpha=0.5, d=4, k=5": theory.grid_points_bound(
            5, 4, 0.5
        ),
    }


def _splitting(rng: np.random.Generator) -> Numbers:
    out: Numbers = {}
    for m in (2, 10, 40):
        out[f"users split, epsilon=1, M={m}"] = theory.split_users_std(10**6, 1.0, m)
        out[f"budget split, epsilon=1, M={m}"] = theory.split_budget_std(10**6, 1.0, m)
    return out


def _shifted_cube(rng: np.random.Generator) -> Numbers:
    return {
        f"share of B(0, 1/2) left in [0, 1)^d, d={d}": theory.share_in_shifted_cell(d, rng=rng)
        for d in (2, 4, 8)
    } | {"share left in a cube of side 2, d=8": theory.share_in_shifted_cell(
        8, rng=rng, low=-1.0, side=2.0
    )}  # fmt: skip


CHECKS: dict[str, Callable[[np.random.Generator], Numbers]] = {
    "Def. 2.1 (P1)": _identity,
    "Lemma 2.6 (P2)": _dimension,
    "Theorem 2.7 (P3)": _fixed_clustering,
    "Lemma 2.8 (P4)": _stretch,
    "Lemma 2.10 (G3)": _classic_gaussian,
    "Lemma 2.12 proof (P8)": _cross_terms,
    "Lemma 2.12 privacy (P7)": _printed_noise,
    "Lemma 2.15 (P12)": _lemma_2_15,
    "Lemma 2.15 exponent (P13)": _exponent,
    "Lemma 2.16 (P14)": _filter,
    "Alg. 1 line 8": _proxies,
    "Alg. 1 lines 2, 6": _projected_cells,
    "Alg. 1, 4 parameters": _as_printed,
    "Alg. 4 line 3": _shifted_cube,
    "Alg. 5 line 7": _algorithm_5,
    "Lemma 4.2 (P10)": _nearby,
    "Lemma 4.12 (P5)": _outside,
    "splitting": _splitting,
}
EXPECTED: dict[str, Numbers] = {
    "Def. 2.1 (P1)": {"pairwise form over cost": 1.0},
    "Lemma 2.6 (P2)": {
        "d for alpha=0.1, beta=0.1": 150, "d for alpha=0.1, beta=0.01": 369,
        "d for alpha=0.2, beta=0.1": 42, "d for alpha=0.2, beta=0.01": 104,
    },
    "Theorem 2.7 (P3)": {
        "smallest cost ratio, alpha=0.1, d=691": 0.991,
        "largest cost ratio, alpha=0.1, d=691": 1.011,
        "smallest cost ratio, alpha=0.2, d=156": 0.943,
        "largest cost ratio, alpha=0.2, d=156": 1.061,
        "smallest cost ratio, alpha=0.5, d=22": 0.836,
        "largest cost ratio, alpha=0.5, d=22": 1.169,
    },
    "Lemma 2.8 (P4)": {
        "largest stretch, alpha=0.01, n=1e4": 1.0096, "printed bound": 0.034,
        "line 2's scale, alpha=0.1, n=1e6": 2.33,
    },
    "Lemma 2.10 (G3)": {
        f"epsilon={e}: printed over exact noise, delta=1e-5": v
        for e, v in (("0.1", 1.58), ("0.5", 1.38), ("1", 1.30), ("2", 1.22), ("5", 1.09),
                     ("10", 0.97))
    },
    "Lemma 2.12 proof (P8)": {"share of violations, d=1, n=100": 0.155, "its limit": 0.155},
    "Lemma 2.12 privacy (P7)": {
        "claimed epsilon": 1.0, "true epsilon, g in a ball of diameter 0.1 at distance 0.5": 5.1,
        "true mu": 1.04, "noise for a constant g": 0.0,
    },
    "Lemma 2.15 (P12)": {
        **{f"proved bound over B, printed t, B={b}": v
           for b, v in zip(("10", "100", "1000", "10000", "1e+06"),
                           (0.18, 0.094, 0.068, 0.054, 0.039), strict=True)},
        **{f"exact ratio over B, printed t, B={b}": v
           for b, v in zip(("10", "100", "1000", "10000", "1e+06"),
                           (1.3, 2.5, 3.3, 4.0, 5.5), strict=True)},
    },
    "Lemma 2.15 exponent (P13)": {
        "(1/c')(2c^2 - 1) at c=2": 28, "(1/c')(2c^2 - 1) at c=1.5": 112,
        "(1/c')(2c^2 - 1) at c=1.42": 1479, "(1/c')(2c^2 - 1) at c=100": 16,
    },
    "Lemma 2.16 (P14)": {
        "promise p(1)/4, cell side 4": 0.17, "promise p(1)/4, cell side 3": 0.15,
        "radius bound, cell side 4": 2877, "radius bound, cell side 3": 3.0,
    },
    "Alg. 1 line 8": {
        "cost with cell centers, depth 2": 0.0456, "cost with cell corners, depth 2": 0.2386,
        "cost with cell centers, depth 3": 0.0229, "cost with cell corners, depth 3": 0.0872,
        "cost with cell centers, depth 4": 0.0225, "cost with cell corners, depth 4": 0.0381,
    },
    "Alg. 1, 4 parameters": {
        "n for a 2 % cell at epsilon=1": 2.6e8, "n for a 2 % cell at epsilon=4": 1.6e7,
        "n for a 2 % cell at epsilon=8": 4.0e6, "parallel calls of Algorithm 4, n=1e6, k=5, d=8":
        39_680, "cells per level, N_G of Lemma 3.3, alpha=0.5, d=4, k=5": 495_040,
    },
    "Alg. 5 line 7": {
        "true delta at epsilon=0.25, claimed 1e-6": 1.6e-6,
        "true delta at epsilon=0.5, claimed 1e-6": 3.6e-6,
        "true delta at epsilon=1, claimed 1e-6": 9.3e-6,
    },
    "Lemma 4.2 (P10)": {
        **{f"cells within R/d, d={d}": v
           for d, v in zip((1, 2, 3, 4, 6, 8), (3.0, 3.78, 4.19, 4.43, 4.80, 4.94), strict=True)},
        "cells at a corner, no shift, d=8": 256,
    },
    "Lemma 4.12 (P5)": {
        "points outside at alpha=0.2, d=156, n=1000": 0.26,
        "points outside at alpha=0.2, d=156, n=10000": 2.6,
        "points outside at alpha=0.2, d=156, n=100000": 26,
        "points outside at alpha=0.2, d=156, n=1e+06": 265,
    },
    "splitting": {
        "users split, epsilon=1, M=2": 3060, "budget split, epsilon=1, M=2": 4083,
        "users split, epsilon=1, M=10": 6843, "budget split, epsilon=1, M=10": 20_017,
        "users split, epsilon=1, M=40": 13_686, "budget split, epsilon=1, M=40": 80_004,
    },
}  # fmt: skip
"""Printed in the paper, or found with an independent implementation (theory checks, notes)."""


def checks_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each number, in the order of `CHECKS`."""
    rows = []
    for record in frame.to_dict("records"):
        source = str(record["source"])
        for quantity, value in record.items():
            if quantity in ("source", "runs") or (isinstance(value, float) and math.isnan(value)):
                continue
            expected = EXPECTED.get(source, {}).get(str(quantity), math.nan)
            rows.append((source, quantity, expected, value))
    return pd.DataFrame(rows, columns=COLUMNS)
