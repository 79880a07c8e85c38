"""Locally private k-means (Chaturvedi, Jones, Nguyen): one round, four rounds, and a sketch.

The trust model is the weakest of all: every user randomises on the device, and the server sees
randomised reports only. Data lies in the unit ball, one point per user.

``plan(federation, n_clusters=, epsilon=, delta=)`` fixes every public number and prints as the
privacy statement of the run; ``run(federation, plan, rng=)`` follows it.

* ``plan``: Algorithm 1 with parameters that work (as printed, it needs 10^8 users: the studies).
* ``plan_four_rounds``: Algorithms 2 to 5, with and without the LSH step.
* ``plan_sketch``: beyond the paper, one symbol of each user and a mixture fitted to all of them.

Baselines are in `studies.ldp_kmeans.baselines`.

The building blocks are modules: local randomisers, frequency oracles, vector sums, nested grids,
locality-sensitive hashing, projections. `limits` proves what no method can do.

>>> users_needed(0.2, 1.0, n_levels=5)  # so that a cell with a fifth of them is seen at epsilon 1
7171
"""

from fedclust_helpers.ldp_kmeans.four_rounds import FOUR_ROUNDS, plan_four_rounds
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, detection_threshold, users_needed
from fedclust_helpers.ldp_kmeans.limits import least_excess
from fedclust_helpers.ldp_kmeans.one_round import ONE_ROUND, plan
from fedclust_helpers.ldp_kmeans.shared import NothingDetectedWarning, users_needed_by
from fedclust_helpers.ldp_kmeans.sketch_run import (
    SKETCH,
    PoorFitWarning,
    plan_sketch,
    sketch_report,
    sketch_users_needed,
)
from fedclust_helpers.program import run

__all__ = [
    "plan", "plan_four_rounds", "plan_sketch", "PoorFitWarning", "run", "sketch_users_needed",
    "users_needed",
]  # fmt: skip

PLANS = {"alg1": plan, "alg4": plan_four_rounds, "sketch": plan_sketch}
"""The planners by the names used in the result tables."""
