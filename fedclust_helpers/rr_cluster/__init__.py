"""RR-Cluster (Yang, Hu, Kim, Li 2025): private federated clustering of models.

Clients have labelled examples instead of points, and a cluster's centre is a model. The unit of
privacy is one client. First a plan is made from the federation, then `run` follows it:

* `plan`: Algorithms 1 and 2 with IFCA, FeSEM or FedCAM; without rebalancing, the private base
  clusterers. A trusted server sees each client's update; identifiers are released with noise.
* `plan_sums_only`: beyond the paper. One noised sum per round, identifiers reach nobody, dead
  models are re-seeded from noised counts.
* `plan_dp_fedavg`, `plan_dp_fedprox`, `plan_dp_fedper`: one shared model.
* `evaluate`: accuracy and cluster recovery, outside the privacy boundary.

Two relations occur and are kept apart: replace-one with cohorts of fixed size, add/remove with
Poisson sampling. Modules: ``models``, ``identifiers``, ``rebalancing``, ``accounting``,
``sensitivity``, ``theory``.
"""

from fedclust_helpers.rr_cluster.algorithm import RebalancingPlan, plan
from fedclust_helpers.rr_cluster.baselines import (
    SharedPlan,
    personal_models,
    plan_dp_fedavg,
    plan_dp_fedper,
    plan_dp_fedprox,
)
from fedclust_helpers.rr_cluster.evaluation import Evaluation, evaluate
from fedclust_helpers.rr_cluster.identifiers import identifier_mechanism, privatise
from fedclust_helpers.rr_cluster.models import (
    LinearRegression,
    OneHiddenLayer,
    SoftmaxRegression,
)
from fedclust_helpers.rr_cluster.planning import Training, TrainingPlan, TrainingResult
from fedclust_helpers.rr_cluster.rebalancing import rebalance
from fedclust_helpers.rr_cluster.running import run
from fedclust_helpers.rr_cluster.sums_only import Reseeding, SumsPlan, plan_sums_only

__all__ = [
    "Evaluation",
    "LinearRegression",
    "OneHiddenLayer",
    "RebalancingPlan",
    "Reseeding",
    "SharedPlan",
    "SoftmaxRegression",
    "SumsPlan",
    "Training",
    "TrainingPlan",
    "TrainingResult",
    "evaluate",
    "identifier_mechanism",
    "personal_models",
    "plan",
    "plan_dp_fedavg",
    "plan_dp_fedper",
    "plan_dp_fedprox",
    "plan_sums_only",
    "privatise",
    "rebalance",
    "run",
]
