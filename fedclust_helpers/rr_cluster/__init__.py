"""RR-Cluster (Yang, Hu, Kim, Li 2025): private federated clustering of models.

Clients have labelled examples instead of points, and a cluster's centre is a model. The unit of
privacy is one client. First a plan, then a run that follows it:

    training = rr_cluster.Training(model, cohort=100, clip=0.3)
    plan = rr_cluster.plan(federation, training, n_clusters=4, n_rounds=50, epsilon=4, delta=1e-3)
    result = rr_cluster.run(federation, plan)

* `plan`: Algorithms 1 and 2 with IFCA, FeSEM or FedCAM; without rebalancing, the private base
  clusterers. A trusted server sees each client's update; identifiers are released with noise.
* `plan_sums_only`: beyond the paper. One noised sum per round, identifiers reach nobody, dead
  models are re-seeded from noised counts.
* `plan_dp_fedavg` (with DP-FedProx), `plan_dp_fedper`: one shared model.
* `mixed_models`: for itself, a client mixes its own model into the released one that it chooses.

Notation of the paper: k -> `n_clusters`, T -> `n_rounds`, M -> clients of the federation, qM ->
`cohort`, B -> `min_size`, C_theta -> `clip`, gamma -> `server_rate`, sigma_s, sigma_theta,
theta_j -> `models` (k, d), s_i -> identifiers, S_j -> clusters.

>>> import numpy as np
>>> chosen = np.array([0, 0, 0, 0, 1])  # one client alone in a cluster
>>> np.bincount(rebalance(chosen, 2, 2, rng=np.random.default_rng(0)))
array([3, 2])
"""

from fedclust_helpers.program import run
from fedclust_helpers.rr_cluster.algorithm import RR_CLUSTER, plan
from fedclust_helpers.rr_cluster.evaluation import Diagnosis, Evaluation, diagnose, evaluate
from fedclust_helpers.rr_cluster.identifiers import RandomAnswer
from fedclust_helpers.rr_cluster.mixing import mixed_models, own_models, released_weight
from fedclust_helpers.rr_cluster.models import LinearRegression, OneHiddenLayer, SoftmaxRegression
from fedclust_helpers.rr_cluster.rebalancing import rebalance
from fedclust_helpers.rr_cluster.sums_only import (
    FEDAVG,
    FEDPER,
    SUMS_ONLY,
    personal_models,
    plan_dp_fedavg,
    plan_dp_fedper,
    plan_sums_only,
)
from fedclust_helpers.rr_cluster.training import Dial, Trained, Training

__all__ = [
    "evaluate", "LinearRegression", "OneHiddenLayer", "plan", "plan_sums_only", "rebalance",
    "run", "SoftmaxRegression", "Training",
]  # fmt: skip
