"""One ``run`` for all plans of locally private k-means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import check_instance, check_rng
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.following import check_vouched
from fedclust_helpers.ldp_kmeans import baselines, planning
from fedclust_helpers.ldp_kmeans.four_rounds import run_four_rounds
from fedclust_helpers.ldp_kmeans.one_round import run_one_round
from fedclust_helpers.ldp_kmeans.results import LdpResult
from fedclust_helpers.ldp_kmeans.sketch_run import run_sketch

RUNS: dict[str, Callable[..., LdpResult]] = {
    "one_round": run_one_round,
    "grid_histogram": run_one_round,
    "four_rounds": run_four_rounds,
    "four_rounds_lsh": run_four_rounds,
    "gaussian_reports": baselines.run_gaussian_reports,
    "private_mean": baselines.run_private_mean,
    "ldp_lloyd": baselines.run_lloyd,
    "sketch": run_sketch,
}
"""What follows a plan, by its `method`; a further algorithm enters its own."""


def run(
    federation: LocalReports, plan: planning.LocalPlan, *, rng: np.random.Generator,
    initial: ArrayLike | None = None, progress: Progress = False,
) -> LdpResult:  # fmt: skip
    """Follow a plan: ask the users its questions, in its order, and no others.

    Parameters
    ----------
    federation : LocalReports
        The users that `plan` was made from.
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
    planning.require_local(federation)
    check_rng(rng)
    check_vouched(check_instance(plan, planning.LocalPlan, "plan"))
    method = plan.method
    more: dict[str, Any] = {"initial": initial} if method == "ldp_lloyd" else {}
    if initial is not None and not more:
        raise TypeError(f"initial must not be given: {method} takes no starting centres")
    if method not in RUNS:
        raise ValueError(f"plan has the unknown method {method!r}")
    return RUNS[method](federation, plan, rng=rng, progress=progress, **more)
