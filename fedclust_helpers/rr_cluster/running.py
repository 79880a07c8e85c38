"""Following a plan: one entry for all algorithms of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, as_points, check_fits
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.rr_cluster.algorithm import CLUSTERERS, Round, close_models
from fedclust_helpers.rr_cluster.planning import LARGEST, TrainingPlan, TrainingResult
from fedclust_helpers.rr_cluster.plans import RebalancingPlan
from fedclust_helpers.rr_cluster.sums_only import SumsPlan, fedper, sums_only


@checked
def run(
    federation: SumFederation, plan: TrainingPlan, *, initial: ArrayLike | None = None,
    keep_history: bool = False, diagnose: bool = False, progress: Progress = False,
) -> TrainingResult:  # fmt: skip
    """Follow a plan of this package: RR-Cluster, sums only, DP-FedAvg, DP-FedProx or DP-FedPer.

    `federation` is the one that the plan was made from. `initial` (k, d) are public starting
    models; random ones by default (for FeSEM `close_models`). `keep_history` keeps the models of
    every round. `progress` shows a bar over the releases, or is called as progress(done, total).

    `diagnose` (RR-Cluster) compares released with exact identifiers, and says how many differ and
    how large the true clusters are: `flip_rate` (T,) and `true_sizes` (T, k). Only a simulation can
    look there; nothing of it may be released.

    ValueError, TypeError, PlanMismatchError and BudgetExceededError come before any data is read.
    """
    if diagnose and not isinstance(plan, RebalancingPlan):
        raise ValueError("diagnose must be False: only RR-Cluster has identifiers to look at")
    if keep_history:
        size = (plan.n_rounds + 1) * plan.n_clusters * plan.n_parameters
        check_fits(size, "keep_history", limit=LARGEST)
    models = _initial_models(federation, plan, initial)
    history, sizes, moved, reseeded = [models], [], [], []
    wrong, true_sizes = [], []
    common = None
    with federation.follow(plan, progress) as held:
        for made in _rounds(plan)(federation, plan, models):
            models, common = made.models, made.common
            history += [models] if keep_history else []
            sizes += [made.sizes] if made.sizes is not None else []
            reseeded += [made.reseeded] if made.reseeded is not None else []
            if made.clusters is not None:
                moved.append(np.count_nonzero(made.released != made.clusters))
            if diagnose:
                true = made.exact.argmax(axis=1)
                wrong.append(float((true != made.released).mean()))
                true_sizes.append(np.bincount(true, minlength=plan.n_clusters))
    seen = {"flip_rate": np.array(wrong), "true_sizes": np.array(true_sizes)} if diagnose else {}
    return TrainingResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        models=models, common=common, reseeded=tuple(reseeded),
        sizes=np.array(sizes, dtype=np.float64).reshape(len(sizes), plan.n_clusters),
        moved=np.array(moved, dtype=np.int64),
        history=np.stack(history) if keep_history else None,
        diagnostics=seen,
    )  # fmt: skip


def _rounds(plan: TrainingPlan) -> Callable[..., Iterator[Round]]:
    if isinstance(plan, RebalancingPlan):
        return CLUSTERERS[plan.clusterer]
    return sums_only if isinstance(plan, SumsPlan) else fedper


def _initial_models(federation: SumFederation, plan: TrainingPlan, initial: Any) -> FloatArray:
    """Starting models from public randomness, or as given (public: not computed from the data)."""
    model, k = plan.training.model, plan.n_clusters
    if initial is None:
        rng = federation.randomness.public
        close = isinstance(plan, RebalancingPlan) and plan.clusterer == "fesem"
        return close_models(model, k, rng=rng) if close else model.initial(k, rng=rng)
    models = as_points(initial, "initial", n_features=plan.n_parameters)
    if len(models) != k:
        raise ValueError(f"initial must hold {k} models, got {len(models)}")
    return models.copy()
