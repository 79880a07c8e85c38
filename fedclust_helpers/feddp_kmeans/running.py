"""`run`: any plan of FedDP-KMeans, its adaptive variant or its baselines, on its federation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, check_rng
from fedclust_helpers.feddp_kmeans import planning
from fedclust_helpers.feddp_kmeans.adaptive import AdaptivePlan, follow_adaptive
from fedclust_helpers.feddp_kmeans.algorithm import InitResult, Released, initialise, lloyds
from fedclust_helpers.feddp_kmeans.baselines import STARTS, LloydsPlan
from fedclust_helpers.feddp_kmeans.planning import FedDPPlan, ServerPlan
from fedclust_helpers.federation import RunResult, SumFederation


@dataclass(frozen=True, eq=False, kw_only=True)
class FedDPResult(RunResult):
    """Centres of a run and what each step released; epsilon is that of the ledger of this run.

    `history` (T + 1, k, d) starts with the centres before the first Lloyd round; `released` holds
    the noised (sums, counts) of each round; `init` is None where no FedDP-Init was run.
    """

    plan: ServerPlan
    centers: FloatArray
    history: FloatArray = field(repr=False)
    released: Released = field(default=(), repr=False)
    init: InitResult | None = field(default=None, repr=False)


@checked
def run(
    federation: SumFederation, plan: ServerPlan, server_points: ArrayLike | None = None, *,
    rng: np.random.Generator | None = None, progress: Progress = False,
) -> FedDPResult:  # fmt: skip
    """Follow a plan of `plan`, `plan_adaptive` or `plan_lloyds`: nothing else is released.

    `federation` has the public facts of the one that the plan was made from; `server_points` (q, d)
    are those of the plan (None only where it was made without). `rng` is for the server's own
    k-means, which costs no privacy (None only for a plan that starts from given centres).
    `progress` shows a bar over the releases, or is called as progress(done, total).

    PlanMismatchError or BudgetExceededError for other server points, another federation, or a
    ledger that cannot pay all of the plan: before anything is charged, read or sent.
    """
    planning.check_federation(federation)
    server, generator = cast(Any, None), cast(Any, None)
    if plan.server is not None:
        server, generator = planning.same_server_points(plan, server_points), check_rng(rng)
    elif server_points is not None:
        raise ValueError("server_points must be None: the plan starts from given centres")
    init = None
    with federation.follow(plan, progress) as held:
        if isinstance(plan, AdaptivePlan):
            history, released = follow_adaptive(federation, plan, server, rng=generator)
        elif isinstance(plan, LloydsPlan):
            centers = plan.centers
            if centers is None:
                centers = STARTS[plan.initial](server, plan.n_clusters, rng=generator)
            history, released = lloyds(federation, plan, centers)
        else:
            assert isinstance(plan, FedDPPlan)
            init = initialise(federation, plan, server, rng=generator)
            history, released = lloyds(federation, plan, init.centers)
    return FedDPResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        init=init, centers=history[-1], history=history, released=released,
    )  # fmt: skip
