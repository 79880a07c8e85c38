"""Over-clustered Lloyd on bounds that were found privately, beside bounds that nobody knows."""

from __future__ import annotations

import math
import warnings

import numpy as np

from fedclust import describing
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.datasets import scale_from_box, scale_to_box
from fedclust_helpers.federation import ClientData, ClippedDataWarning, simulate
from studies.bench.cell import Cell, Numbers
from studies.own_data.raw_sets import SETS

ON_PRIVATE_BOUNDS = describing.OVERCLUSTERED.planner()
TAIL = 0.001  # share of the rows beyond each oracle bound
WRONG = 10_000  # one row in so many has the wrong unit
UNIT = 1e6  # and is so many times too large


def private_bounds(cell: Cell, *, sets: str, dataset: str, n: int, epsilon: float) -> Numbers:
    """Cost on private bounds over that on oracle bounds, which cost nothing; what was clipped.

    Both have the same total epsilon, and their cost is that of the right rows, cut to the oracle's
    box, the quantiles of `TAIL` of all right rows. `over` is the median of the runs, `widest` that
    of the widest column against the oracle's. `sets`: was the recipe changed after a look at them?
    """
    k, make = SETS[dataset]
    found = []
    for seed in cell.seeds():
        rows, ours, theirs = (np.random.default_rng(s) for s in seed.spawn(3))
        X = make(n, rng=rows)
        d = X.shape[1]
        low, high = np.quantile(X, [TAIL, 1 - TAIL], axis=0)
        right = np.clip(scale_to_box(X, low, high), -1, 1)
        spoilt = X.copy()
        spoilt[rows.choice(n, n // WRONG, replace=False)] *= UNIT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippedDataWarning)
            box = ClientData(scale_to_box(spoilt, low, high), np.array([0, n]), copy=False)
            federation = simulate(box, "ideal", seed=int(ours.integers(2**32)))
            oracle = fl.run(
                federation, fl.plan_overclustered(federation, n_clusters=k, epsilon=epsilon)
            )
            raw = ClientData(spoilt, np.array([0, n]), copy=False)
            federation = simulate(raw, "ideal", domain="raw", seed=int(theirs.integers(2**32)))
            plan = ON_PRIVATE_BOUNDS(federation, n_clusters=k, epsilon=epsilon)
            private = fl.run(federation, plan)
        limits = private.limits
        centers = _moved(private.centers, limits.lower, limits.upper, low, high)
        costs = [kmeans.kmeans_cost(right, one) for one in (centers, oracle.centers)]
        beyond = (X < limits.lower) | (X > limits.upper)
        some = high > low  # a column of one value has no width
        wide = ((limits.upper - limits.lower)[some] / (high - low)[some]).max()
        found.append((costs[0] / costs[1], beyond.mean(), wide, limits.found.mean()))
    over, clipped, widest, sure = np.array(found).T
    sigma = plan.dial / math.sqrt(describing.BOUNDS_SHARE)
    return {
        "d": d, "k": k, "rate": describing.rate(plan.facts, sigma), "rounds": plan.n_rounds,
        "over": float(np.median(over)), "worst": float(over.max()),
        "clipped": float(np.median(clipped)), "widest": float(np.median(widest)),
        "found": float(sure.mean()),
    }  # fmt: skip


def _moved(
    centers: FloatArray, lower: FloatArray, upper: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Centres of one box in that of the oracle, where they may lie outside."""
    return scale_to_box(scale_from_box(centers, lower, upper), low, high)
