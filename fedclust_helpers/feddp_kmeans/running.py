"""`run`: any plan of FedDP-KMeans, its adaptive variant or its baselines, on its federation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import check_rng
from fedclust_helpers.feddp_kmeans.adaptive import AdaptivePlan, follow_adaptive
from fedclust_helpers.feddp_kmeans.algorithm import FedDPResult, follow_feddp
from fedclust_helpers.feddp_kmeans.baselines import LloydsPlan, follow_lloyds
from fedclust_helpers.feddp_kmeans.planning import (
    FedDPPlan,
    check_federation,
    same_server_points,
)
from fedclust_helpers.federation import SumFederation


def run(
    federation: SumFederation,
    plan: FedDPPlan | AdaptivePlan | LloydsPlan,
    server_points: ArrayLike | None = None,
    *,
    rng: np.random.Generator | None = None,
    progress: bool = False,
) -> FedDPResult:
    """Follow a plan of `plan`, `plan_adaptive` or `plan_lloyds_from`: nothing else is released.

    Parameters
    ----------
    federation : SumFederation
        Of the same public facts as the one that the plan was made from.
    plan : FedDPPlan, AdaptivePlan or LloydsPlan
    server_points : array_like of shape (q, d)
        Those that the plan was made with (None only where it was made without).
    rng : numpy.random.Generator
        For the server's own k-means, which costs no privacy (None only for a plan that starts from
        given centres).
    progress : bool
        Show a bar over the Lloyd rounds.

    Returns
    -------
    FedDPResult

    Raises
    ------
    PlanMismatchError
        For other server points or another federation.
    BudgetExceededError
        If the ledger cannot pay all of the plan. Nothing was charged, read or sent.
    """
    check_federation(federation)
    if not isinstance(plan, FedDPPlan | AdaptivePlan | LloydsPlan):
        raise TypeError(f"plan must be a plan of feddp_kmeans, got {type(plan).__name__}")
    server = None
    if getattr(plan, "server", None) is not None:
        server = same_server_points(plan, server_points)
        check_rng(rng)
    elif server_points is not None:
        raise ValueError("server_points must be None: the plan starts from given centres")
    if not isinstance(progress, bool):
        raise TypeError(f"progress must be True or False, got {type(progress).__name__}")
    follow: Any = follow_lloyds
    if isinstance(plan, FedDPPlan):
        follow = follow_feddp
    elif isinstance(plan, AdaptivePlan):
        follow = follow_adaptive
    with federation.follow(plan) as n_before:
        found = follow(federation, plan, server, rng=rng, progress=progress)
    return FedDPResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=plan.facts.mode == "secure", centers=found["history"][-1], **found,
    )  # fmt: skip
