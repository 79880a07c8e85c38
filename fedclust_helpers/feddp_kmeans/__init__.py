"""FedDP-KMeans (Scott, Lampert, Saulpic 2025): server-side data makes the start, privately.

Three private aggregates replace a bad start (FedDP-Init, Algorithm 1), then few rounds of
federated DP Lloyd (FedDP-Lloyds, Algorithm 2). Two units of privacy, by the ledger's `unit`: one
"point" (rows are clipped to the ball of radius Delta) or one "client" (whole statistics are
clipped, Appendix G.4). Neighbours by add/remove throughout.

Notation of the paper: P, Q -> client rows, `server_points`; Delta -> the federation's `bound`;
Pi -> `basis`; w_q -> `weights`; xi -> `projected_centers`; nu -> `centers`;
epsilon_1, epsilon_2, epsilon_3G, epsilon_3L, epsilon_4G, epsilon_4L -> the fields of `StepBudgets`.
"""

from fedclust_helpers.feddp_kmeans.adaptive import AdaptivePlan, feddp_adaptive, plan_adaptive
from fedclust_helpers.feddp_kmeans.algorithm import (
    ClipBounds,
    FedDPResult,
    InitResult,
    feddp_init,
    feddp_kmeans,
    feddp_lloyds,
    surviving_points,
    top_eigenvectors,
)
from fedclust_helpers.feddp_kmeans.baselines import (
    STARTS,
    k_fed,
    lloyds_from,
    optimal,
    server_kmeanspp,
    server_lloyds,
    sphere_packing_start,
)
from fedclust_helpers.feddp_kmeans.bounds import (
    averaging_error_bound,
    lloyd_error_bound,
    max_server_points,
)
from fedclust_helpers.feddp_kmeans.diameter import DiameterReduction, reduce_diameter
from fedclust_helpers.feddp_kmeans.plan import (
    PROPORTIONS,
    StepBudgets,
    budgets_for_sum,
    budgets_for_total,
    lloyd_budgets_for_total,
    total_epsilon,
)
from fedclust_helpers.feddp_kmeans.selection import (
    eigengap,
    elbow,
    noise_norm,
    separation_constant,
    server_cost_curve,
    subspace_energy,
)
from fedclust_helpers.feddp_kmeans.theory import (
    SimplifiedServerData,
    TheoryResult,
    awasthi_sheffet,
    simplify_server_data,
    theory_kmeans,
)

__all__ = [
    "PROPORTIONS",
    "STARTS",
    "AdaptivePlan",
    "ClipBounds",
    "DiameterReduction",
    "FedDPResult",
    "InitResult",
    "SimplifiedServerData",
    "StepBudgets",
    "TheoryResult",
    "averaging_error_bound",
    "awasthi_sheffet",
    "budgets_for_sum",
    "budgets_for_total",
    "eigengap",
    "elbow",
    "feddp_adaptive",
    "feddp_init",
    "feddp_kmeans",
    "feddp_lloyds",
    "k_fed",
    "lloyd_budgets_for_total",
    "lloyd_error_bound",
    "lloyds_from",
    "max_server_points",
    "noise_norm",
    "optimal",
    "plan_adaptive",
    "reduce_diameter",
    "separation_constant",
    "server_cost_curve",
    "server_kmeanspp",
    "server_lloyds",
    "simplify_server_data",
    "sphere_packing_start",
    "subspace_energy",
    "surviving_points",
    "theory_kmeans",
    "top_eigenvectors",
    "total_epsilon",
]
