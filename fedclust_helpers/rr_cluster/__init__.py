"""RR-Cluster (Yang, Hu, Kim, Li 2025): private federated clustering of models.

Clients have labelled examples instead of points, and a cluster's centre is a model. The unit of
privacy is one client.

* `rr_cluster`: Algorithms 1 and 2 with IFCA, FeSEM or FedCAM; without rebalancing, the private base
  clusterers. A trusted server sees each client's update; identifiers are released with noise.
* `sums_only`: beyond the paper. One noised sum per round, identifiers reach nobody, dead models are
  re-seeded from noised counts.
* `dp_fedavg`, `dp_fedprox`, `dp_fedper`: one shared model.
* `evaluate`: accuracy and cluster recovery, outside the privacy boundary.

Two relations occur and are kept apart: replace-one with cohorts of fixed size, add/remove with
Poisson sampling. Modules: ``models``, ``identifiers``, ``rebalancing``, ``accounting``,
``sensitivity``, ``theory``.
"""

from fedclust_helpers.rr_cluster.algorithm import plan_rr_cluster, rr_cluster
from fedclust_helpers.rr_cluster.baselines import (
    dp_fedavg,
    dp_fedper,
    dp_fedprox,
    personal_models,
)
from fedclust_helpers.rr_cluster.evaluation import Evaluation, evaluate
from fedclust_helpers.rr_cluster.identifiers import identifier_mechanism, privatise
from fedclust_helpers.rr_cluster.models import (
    LinearRegression,
    OneHiddenLayer,
    SoftmaxRegression,
)
from fedclust_helpers.rr_cluster.plan import TrainingPlan, TrainingResult
from fedclust_helpers.rr_cluster.rebalancing import rebalance
from fedclust_helpers.rr_cluster.sums_only import Reseeding, plan_sums_only, sums_only

__all__ = [
    "Evaluation",
    "LinearRegression",
    "OneHiddenLayer",
    "Reseeding",
    "SoftmaxRegression",
    "TrainingPlan",
    "TrainingResult",
    "dp_fedavg",
    "dp_fedper",
    "dp_fedprox",
    "evaluate",
    "identifier_mechanism",
    "personal_models",
    "plan_rr_cluster",
    "plan_sums_only",
    "privatise",
    "rebalance",
    "rr_cluster",
    "sums_only",
]
