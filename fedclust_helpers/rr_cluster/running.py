"""Following a plan: one entry for all algorithms of this package."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.rr_cluster import algorithm, baselines, sums_only
from fedclust_helpers.rr_cluster.planning import (
    TrainingPlan,
    TrainingResult,
    check_run,
    initial_models,
)

CLOSE = 0.01  # standard deviation between the starting models of FeSEM, per parameter


def run(
    federation: SumFederation,
    plan: TrainingPlan,
    model: Model,
    *,
    initial: ArrayLike | None = None,
    keep_history: bool = False,
    diagnose: bool = False,
    progress: bool = False,
) -> TrainingResult:
    """Follow a plan of this package: RR-Cluster, sums only, DP-FedAvg, DP-FedProx or DP-FedPer.

    Parameters
    ----------
    federation : SumFederation
        The one that the plan was made from.
    plan : TrainingPlan
    model : Model
    initial : array_like of shape (k, d), optional
        Public starting models; random ones by default. For FeSEM one random model and copies that
        differ by N(0, 0.01^2): between unrelated models the distances are so large that nobody
        would ever leave the model drawn first.
    keep_history : bool
        Keep the models of every round.
    diagnose : bool
        RR-Cluster: compare released with exact identifiers and say how many differ (``flip_rate``,
        (T,)), and ``true_sizes`` (T, k). A look behind the boundary that only a simulation can
        take: not part of what is released.
    progress : bool
        Show a bar over the rounds.

    Returns
    -------
    TrainingResult

    Raises
    ------
    ValueError, TypeError, PlanMismatchError, BudgetExceededError
        Before any data is read.
    """
    check_run(federation, plan, model, keep_history=keep_history)
    clustering = isinstance(plan, algorithm.RebalancingPlan)
    if diagnose and not clustering:
        raise ValueError("diagnose must be False: only RR-Cluster has identifiers to look at")
    if initial is None and getattr(plan, "clusterer", "") == "fesem":
        rng = federation.randomness.public
        initial = model.initial(1, rng=rng) + rng.normal(
            0.0, CLOSE, (plan.n_clusters, model.n_parameters)
        )
    models = initial_models(federation, model, plan.n_clusters, initial)
    follower: Any = federation  # what it must offer was checked when planning
    how: dict[str, Any] = {"keep_history": keep_history, "progress": progress}
    if isinstance(plan, algorithm.RebalancingPlan):
        return algorithm.follow(follower, plan, model, models, diagnose=diagnose, **how)
    if isinstance(plan, sums_only.SumsPlan):
        return sums_only.follow(federation, plan, model, models, **how)
    assert isinstance(plan, baselines.SharedPlan)
    return baselines.follow(follower, plan, model, models, **how)
