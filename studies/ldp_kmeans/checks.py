"""Live checks of the claims on locally private k-means: lemmas, proofs, algorithms as printed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize

from fedclust_helpers import accounting as acc
from fedclust_helpers import kmeans
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from studies.bench.grading import several
from studies.ldp_kmeans import theory
from studies.ldp_kmeans.as_printed import users_needed_as_printed
from studies.ldp_kmeans.bounds import jl_dimension, kmeans_dimension, printed_calls

Numbers = dict[str, Any]


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([2027, seed])


def costs() -> Numbers:
    """P1, P3: cost from pairs; cost of a fixed clustering under 20 random maps."""
    rng, n, k = _rng(), 2000, 10
    one = rng.normal(size=(200, 7))
    whole = theory.clustering_cost(one, np.zeros(len(one), dtype=np.int64))
    labels = rng.integers(k, size=n)
    points = rng.normal(size=(k, 300))[labels] + 0.5 * rng.normal(size=(n, 300))
    ratios = [
        theory.projected_cost_ratio(points, labels, kmeans_dimension(k, a, 0.1), rng=rng, n_maps=20)
        for a in (0.1, 0.2, 0.5)
    ]
    return {
        "pairs": theory.pairwise_cost(one) / whole,
        "low": [r.min() for r in ratios], "high": [r.max() for r in ratios],
    }  # fmt: skip


def lengths() -> Numbers:
    """P2, P4, P5, F14: dimensions, the longest image, and points outside of the ball."""
    n, alpha, beta = 10_000, 0.01, 0.01
    d = kmeans_dimension(10, alpha, beta)
    bound = theory.stretch_bound(n, alpha, beta, d)
    size = [jl_dimension(a, b) for a in (0.1, 0.2) for b in (0.1, 0.01)]
    unit = [math.log(1 / b) / a**2 for a in (0.1, 0.2) for b in (0.1, 0.01)]
    return {
        "d": size, "constant": [s / u for s, u in zip(size, unit, strict=True)],
        "longest": theory.longest_stretch(_rng(1).normal(size=(n, 50)), d, rng=_rng(2)),
        "printed": bound.printed, "corrected": bound.corrected,
        "scale": theory.printed_scale(10**6, 0.1, 0.01),
        "outside": [theory.expected_outside(m, 0.2, 156) for m in (10**3, 10**4, 10**5, 10**6)],
        "enough": theory.expected_outside(10**6, 0.2, 4 * 156),
    }  # fmt: skip


def noise() -> Numbers:
    """F12, F13, P7, P8, P.alg5: what printed noise really gives, at delta = 1e-6."""
    ball = theory.printed_sums_truth(1.0, 1e-6, center_norm=0.5, radius=0.05)
    std = 2 * 0.55 * acc.gaussian_sigma_analytic(1.0, 1e-6)  # 2 sup |g|
    safe = acc.gdp_epsilon(ball.sensitivity / std, 1e-6)
    classic = [
        math.sqrt(2 * math.log(1.25e5)) / e / acc.gaussian_sigma_analytic(e, 1e-5)
        for e in (0.1, 0.5, 0.99)
    ]
    return {
        "true": ball.true_epsilon, "safe": safe, "classic": classic,
        "constant": theory.printed_sums_truth(1.0, 1e-6, center_norm=0.5, radius=0.0).std,
        "violated": theory.cross_term_violation(100, 1, rng=_rng(3), n_trials=20_000).violated,
        "delta5": [theory.algorithm_5_true_delta(e, 1e-6) for e in (0.25, 0.5, 1.0)],
    }  # fmt: skip


def cells_near() -> Numbers:
    """P10: cells of a shifted grid within R/d of a point, by d."""
    found = [theory.mean_nearby_cells(d, 20_000, rng=_rng(d)) for d in (1, 2, 3, 4, 6, 8)]
    return {"mean": [f.mean for f in found], "bound": [f.bound for f in found]}


def hashing() -> Numbers:
    """P12, P13, P14, F15: what Lemmas 2.15 and 2.16 promise, and what is true."""
    wanted = (10.0, 1e2, 1e3, 1e4, 1e6)
    printed = [theory.lemma_2_15(b, 3.0) for b in wanted]
    trials = [theory.lemma_2_16_trials(side, rng=_rng(5)) for side in (4.0, 3.0)]
    return {
        "proved": [p.proved for p in printed], "exact": [p.exact for p in printed],
        "safe": [theory.lemma_2_15(b, 3.0, as_printed=False).proved for b in wanted],
        "hidden": [theory.exponent_ratio(c) for c in (2.0, 1.5, 1.42, 100.0)],
        "success": [t.success for t in trials], "promise": [t.promise for t in trials],
        "radius": [t.radius_bound for t in trials],
    }  # fmt: skip


def proxies() -> Numbers:
    """Alg. 1 line 8: cost per point of corners and centres of cells, without noise."""
    points = make_ball_mixture(100_000, 4, 5, rng=_rng(6)).points
    return {
        f"{where}s": [
            theory.discretised_cost(points, depth, 5, where=where, rng=_rng(7))
            for depth in (2, 3, 4)
        ]
        for where in ("center", "corner")
    }


def projected_cells() -> Numbers:
    """Cost with cells of depth 3 and 4 after projection to four dimensions, without noise."""
    k, grid = 5, NestedGrid(4)
    out: dict[str, list[float]] = {"depth3": [], "depth4": []}
    for d in (10, 20, 50):
        for depth in (3, 4):
            costs, rng = [], _rng(d)
            for _ in range(8):
                points = make_ball_mixture(10_000, d, k, rng=rng).points
                images = BallProjection(d, 4, rng=rng, kind="gaussian")(points)
                cells, index, size = np.unique(
                    grid.cells(images, depth), axis=0, return_inverse=True, return_counts=True
                )
                places = grid.centers(cells, depth)
                low = kmeans.weighted_kmeans(places, size, k, rng=rng, n_init=10)
                labels = kmeans.assign(places, low).labels[index.ravel()]
                sums, counts = kmeans.group_sums(points, labels, k)
                means = sums / np.maximum(counts, 1)[:, None]
                costs.append(kmeans.kmeans_cost(points, means, normalize=True))
            out[f"depth{depth}"].append(float(np.mean(costs)))
    return out


def as_printed() -> Numbers:
    """Users that the printed parameters need, parallel calls, a shifted cube, splitting."""
    calls = printed_calls(10**6, 8, 5)
    users = [users_needed_as_printed(0.02, e) for e in (1.0, 4.0, 8.0)]  # L = lg of the answer
    return {
        "users": several(users, ".2g"),
        "levels": several([math.ceil(math.log2(n)) for n in users], "d"),
        "calls": calls["calls"], "each": calls["users_per_call"],
        "cells": theory.grid_points_bound(5, 4, 0.5),
        "grid": 5 * int((((np.indices((9,) * 4) - 4) ** 2).sum(axis=0) <= 4 / 0.5**2).sum()),
        "cube": [theory.share_in_shifted_cell(d, rng=_rng(8)) for d in (2, 4, 8)],
        "split_users": [theory.split_users_std(10**6, 1.0, m) for m in (2, 10, 40)],
        "split_budget": [theory.split_budget_std(10**6, 1.0, m) for m in (2, 10, 40)],
    }  # fmt: skip


def overspent(epsilon: float, delta: float) -> float:
    """True delta over the claimed one, with noise sqrt(2 ln(1.25/delta))/epsilon."""
    sigma = acc.gaussian_sigma_classic(epsilon, delta)
    return acc.gdp_delta(1 / sigma, epsilon) / delta


def crossing(delta: float) -> float:
    """The epsilon at which that noise starts to be too small."""
    return float(optimize.brentq(lambda e: overspent(e, delta) - 1, 2, 15))


def classic_noise() -> Numbers:
    """Claims G1 and G3: how much the classic noise of a Gaussian overspends or wastes."""
    ratio = [
        acc.gaussian_sigma_classic(e, 1e-5) / acc.gaussian_sigma_analytic(e, 1e-5)
        for e in (0.1, 0.5, 1, 5, 10)
    ]
    over = [overspent(e, 1e-5) for e in (1, 5, 10, 20)]
    return {"over": over, "crossing": crossing(1e-5), "ratio": ratio}
