"""Locally private k-means (Chaturvedi, Jones, Nguyen): one round, four rounds, baselines.

The trust model is the weakest of all: every user randomises on the device, and the server sees
randomised reports only. Data lies in the unit ball, one point per user.

``plan(federation, n_clusters=, epsilon=, delta=)`` fixes every public number and prints as the
privacy statement of the run; ``run(federation, plan, rng=)`` follows it.

* ``plan``: Algorithm 1 with parameters that work; ``plan_as_printed``: the paper's.
* ``plan_four_rounds``: Algorithms 2 to 5, with and without the LSH step.
* ``plan_grid_histogram``, ``plan_gaussian_reports``, ``plan_lloyd``, ``plan_private_mean``:
  baselines.
"""

from fedclust_helpers.ldp_kmeans.baselines import NoisyPoints, random_in_ball
from fedclust_helpers.ldp_kmeans.cells import (
    CellCounts,
    CellLevel,
    ChosenCells,
    choose_cells,
    descend,
    detection_threshold,
    users_needed,
)
from fedclust_helpers.ldp_kmeans.four_rounds import (
    HeavyCells,
    candidate_centers,
    mark_heavy_cells,
    printed_calls,
    synthetic_space,
)
from fedclust_helpers.ldp_kmeans.one_round import LdpResult, NothingDetectedWarning
from fedclust_helpers.ldp_kmeans.planning import (
    plan,
    plan_as_printed,
    plan_four_rounds,
    plan_gaussian_reports,
    plan_grid_histogram,
    plan_lloyd,
    plan_private_mean,
    users_needed_as_printed,
)
from fedclust_helpers.ldp_kmeans.plans import (
    FourRoundPlan,
    LocalPlan,
    OneRoundPlan,
    PrintedPlan,
    VectorPlan,
)
from fedclust_helpers.ldp_kmeans.runs import run

PLANS = {
    "alg1": plan,
    "alg1_printed": plan_as_printed,
    "alg4": plan_four_rounds,
    "grid_histogram": plan_grid_histogram,
    "gaussian_report": plan_gaussian_reports,
    "ldp_lloyd": plan_lloyd,
    "private_mean": plan_private_mean,
}
"""The planners by the names used in the result tables."""

__all__ = [
    "PLANS",
    "CellCounts",
    "CellLevel",
    "ChosenCells",
    "FourRoundPlan",
    "HeavyCells",
    "LdpResult",
    "LocalPlan",
    "NoisyPoints",
    "NothingDetectedWarning",
    "OneRoundPlan",
    "PrintedPlan",
    "VectorPlan",
    "candidate_centers",
    "choose_cells",
    "descend",
    "detection_threshold",
    "mark_heavy_cells",
    "plan",
    "plan_as_printed",
    "plan_four_rounds",
    "plan_gaussian_reports",
    "plan_grid_histogram",
    "plan_lloyd",
    "plan_private_mean",
    "printed_calls",
    "random_in_ball",
    "run",
    "synthetic_space",
    "users_needed",
    "users_needed_as_printed",
]
