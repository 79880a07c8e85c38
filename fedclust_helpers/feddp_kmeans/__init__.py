"""FedDP-KMeans (Scott, Lampert, Saulpic 2025): server-side data makes the start, privately.

Three private aggregates replace a bad start (FedDP-Init, Algorithm 1), then few rounds of
federated DP Lloyd (FedDP-Lloyds, Algorithm 2). First a plan, then a run that follows it:

    plan = feddp_kmeans.plan(federation, server_points, n_clusters=10, epsilon=1.0)
    result = feddp_kmeans.run(federation, plan, rng=rng)

`plan_adaptive` and `plan_lloyds` plan variants for the same `run`. Two units of privacy, by
the ledger's `unit`: one "point" (rows are clipped to the ball of radius Delta) or one "client"
(whole statistics are clipped, Appendix G.4). Neighbours by add/remove throughout.

Notation of the paper: P, Q -> client rows, `server_points`; Delta -> the federation's `bound`;
Pi -> `basis`; w_q -> `weights`; xi -> `projected_centers`; nu -> `centers`;
epsilon_1, epsilon_2, epsilon_3G, epsilon_3L, epsilon_4G, epsilon_4L -> the fields of `StepBudgets`.

>>> import numpy as np
>>> from fedclust_helpers.federation import simulate
>>> rng = np.random.default_rng(0)
>>> rows = rng.choice([-0.5, 0.5], (2000, 1)) + rng.normal(0, 0.05, (2000, 3))
>>> federation = simulate([rows[50:]], "trusted", seed=0, domain="ball", bound=1.0)
>>> planned = plan(federation, rows[:50], n_clusters=2, epsilon=4.0, delta=1e-6)
>>> run(federation, planned, rng=rng).centers.shape
(2, 3)
"""

from fedclust_helpers.feddp_kmeans.adaptive import ADAPTIVE, Choice, plan_adaptive
from fedclust_helpers.feddp_kmeans.algorithm import FEDDP, Found, InitResult, plan
from fedclust_helpers.feddp_kmeans.baselines import LLOYDS, STARTS, plan_lloyds, server_lloyds
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets, calibrate_budgets, split_epsilon
from fedclust_helpers.feddp_kmeans.levels import ClipBounds
from fedclust_helpers.program import run

__all__ = [
    "ClipBounds", "plan", "plan_adaptive", "plan_lloyds", "run",
    "StepBudgets",
]  # fmt: skip
