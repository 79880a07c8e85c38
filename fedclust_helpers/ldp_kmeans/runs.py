"""One ``run`` for all plans of locally private k-means."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import check_instance, check_rng
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.ldp_kmeans.as_printed import run_as_printed
from fedclust_helpers.ldp_kmeans.baselines import (
    run_gaussian_reports,
    run_lloyd,
    run_private_mean,
)
from fedclust_helpers.ldp_kmeans.four_rounds import run_four_rounds
from fedclust_helpers.ldp_kmeans.one_round import run_one_round
from fedclust_helpers.ldp_kmeans.plans import (
    FourRoundPlan,
    LocalPlan,
    OneRoundPlan,
    PrintedPlan,
    VectorPlan,
    require_local,
)
from fedclust_helpers.ldp_kmeans.results import LdpResult
from fedclust_helpers.ldp_kmeans.sketch_run import SketchPlan, run_sketch

BASELINES = {"gaussian_reports": run_gaussian_reports, "private_mean": run_private_mean}


def run(
    federation: LocalReports,
    plan: LocalPlan,
    *,
    rng: np.random.Generator,
    initial: ArrayLike | None = None,
    progress: Progress = False,
) -> LdpResult:
    """Follow a plan: ask the users its questions, in its order, and no others.

    Parameters
    ----------
    federation : LocalReports
        The users that `plan` was made from.
    plan : LocalPlan
        From `plan`, `plan_four_rounds`, `plan_as_printed` or the plan of a baseline.
    rng : numpy.random.Generator
        For the server's k-means and starts. (Public coins and noise come from the federation.)
    initial : array_like of shape (k, d), optional
        Public starting centres, for `plan_lloyd` only.
    progress : bool or function
        A bar over the questions, or called as ``progress(done, total)``.

    Raises
    ------
    ValueError, TypeError, PlanMismatchError, LedgerMismatchError, BudgetExceededError
        Before any data is read: if the plan was made for another federation, or costs more than it
        states, or more than the ledger has left.

    Warns
    -----
    NothingDetectedWarning
        If no cell stands out; the message says how many users it would take.
    """
    require_local(federation)
    check_rng(rng)
    check_instance(plan, LocalPlan, "plan")
    if plan.method == "ldp_lloyd" and isinstance(plan, VectorPlan):
        return run_lloyd(federation, plan, rng=rng, initial=initial, progress=progress)
    if initial is not None:
        raise TypeError(f"initial must not be given: {plan.method} takes no starting centres")
    if isinstance(plan, SketchPlan):
        return run_sketch(federation, plan, rng=rng, progress=progress)
    if isinstance(plan, OneRoundPlan):
        return run_one_round(federation, plan, rng=rng, progress=progress)
    if isinstance(plan, FourRoundPlan):
        return run_four_rounds(federation, plan, rng=rng, progress=progress)
    if isinstance(plan, PrintedPlan):
        return run_as_printed(federation, plan, rng=rng, progress=progress)
    if not isinstance(plan, VectorPlan) or plan.method not in BASELINES:
        raise ValueError(f"plan has the unknown method {plan.method!r}")
    return BASELINES[plan.method](federation, plan, rng=rng, progress=progress)
