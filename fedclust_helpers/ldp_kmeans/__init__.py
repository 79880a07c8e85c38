"""Locally private k-means (Chaturvedi, Jones, Nguyen): one round, four rounds, baselines.

The trust model is the weakest of all: every user randomises on the device, and the server sees
randomised reports only. Data lies in the unit ball, one point per user.

* ``one_round``: Algorithm 1 with parameters that work; ``one_round_as_printed``: the paper's.
* ``four_rounds``: Algorithms 2 to 5, with and without the LSH step.
* ``grid_histogram``, ``gaussian_report_kmeans``, ``ldp_lloyd``, ``private_mean``: baselines.
"""

from fedclust_helpers.ldp_kmeans.baselines import (
    NoisyPoints,
    gaussian_report_kmeans,
    grid_histogram,
    ldp_lloyd,
    private_mean,
    random_in_ball,
)
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
    FourRoundPlan,
    HeavyCells,
    candidate_centers,
    four_rounds,
    mark_heavy_cells,
    plan_four_rounds,
    printed_calls,
    synthetic_space,
)
from fedclust_helpers.ldp_kmeans.one_round import (
    LdpResult,
    NothingDetectedWarning,
    OneRoundPlan,
    one_round,
    one_round_as_printed,
    plan_one_round,
    users_needed_as_printed,
)

__all__ = [
    "CellCounts",
    "CellLevel",
    "ChosenCells",
    "FourRoundPlan",
    "HeavyCells",
    "LdpResult",
    "NoisyPoints",
    "NothingDetectedWarning",
    "OneRoundPlan",
    "candidate_centers",
    "choose_cells",
    "descend",
    "detection_threshold",
    "four_rounds",
    "gaussian_report_kmeans",
    "grid_histogram",
    "ldp_lloyd",
    "mark_heavy_cells",
    "one_round",
    "one_round_as_printed",
    "plan_four_rounds",
    "plan_one_round",
    "printed_calls",
    "private_mean",
    "random_in_ball",
    "synthetic_space",
    "users_needed",
    "users_needed_as_printed",
]
