"""Algorithm 1, for FastLloyd and its baselines; comments give the lines of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    FloatArray,
    as_numbers,
    as_points,
    check_instance,
    check_positive,
)
from fedclust_helpers.fastlloyd.overclustered import (
    OverclusteredPlan,
    OverclusteredResult,
    run_overclustered,
)
from fedclust_helpers.fastlloyd.planning import LloydPlan, Postprocess, initial_centers
from fedclust_helpers.federation import RunResult, SumFederation, require


@dataclass(frozen=True, kw_only=True, eq=False)
class LloydResult(RunResult):
    """Centres of a run and everything a reader may ask about it.

    `centers` (k, d); `history` (T + 1, k, d) starts with the initial centres; `released` holds the
    noised (sums, counts) of each round.
    """

    plan: LloydPlan
    centers: FloatArray
    history: FloatArray = field(repr=False)
    released: tuple[tuple[FloatArray, FloatArray], ...] = field(repr=False)


@overload
def run(
    federation: SumFederation, plan: LloydPlan, *, progress: Progress = False
) -> LloydResult: ...
@overload
def run(
    federation: SumFederation, plan: OverclusteredPlan, *, progress: Progress = False
) -> OverclusteredResult: ...
def run(
    federation: SumFederation, plan: LloydPlan | OverclusteredPlan, *, progress: Progress = False
) -> LloydResult | OverclusteredResult:
    """Follow a plan of `plan` (FastLloyd, Algorithm 1) or of another planner, on its federation.

    `progress` shows a bar over the releases, or is called as progress(done, total).
    PlanMismatchError if the plan was made for another federation, BudgetExceededError if it costs
    more than it states, or than the ledger has left: before any data is read.
    """
    if isinstance(plan, OverclusteredPlan):
        return run_overclustered(federation, plan, progress=progress)
    require(federation, "noisy_sum")
    check_instance(plan, LloydPlan, "plan")
    centers = initial_centers(federation, plan)  # line 3
    history, released = [centers], []
    with federation.follow(plan, progress) as held:
        for t in range(plan.n_rounds):  # line 4
            radius: Any = {} if plan.radii is None else {"radius": plan.radii[t]}
            sums, counts = federation.noisy_sum(  # lines 5 to 16: clients, aggregation, noise
                plan.statistic, plan.mechanisms[t], round=t, centers=centers, **radius
            )
            centers = _next_centers(plan, centers, sums, counts, t)  # lines 17 to 20
            released.append((sums, counts))
            history.append(centers)
    return LloydResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=centers, history=np.stack(history), released=tuple(released),
    )  # fmt: skip


def _next_centers(
    plan: LloydPlan, centers: FloatArray, sums: FloatArray, counts: FloatArray, t: int
) -> FloatArray:
    """New centres from released values: a step from the old ones, or means where there is none."""
    if plan.method == "lloyd":  # without noise, an empty cluster keeps its centre
        return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
    if plan.radii is None:
        means = sums / _floored(counts, plan.count_floor)[:, None]
        return POSTPROCESS[plan.postprocess](means, plan.facts.bound)
    return update_centers(
        centers, sums, counts, radius=plan.radii[t], postprocess=plan.postprocess,
        bound=plan.facts.bound, count_floor=plan.count_floor, clip_step=plan.clip_step,
    )  # fmt: skip


@checked
def update_centers(
    centers: FloatArray, relative_sums: FloatArray, counts: FloatArray, *,
    radius: float | None = None, postprocess: Postprocess = "fold", bound: float = 1.0,
    count_floor: float | None = 1.0, clip_step: bool = True,
) -> FloatArray:  # fmt: skip
    """Lines 17 to 20, the public part of a round: noised relative sums and counts -> new centres.

    Step = relative sum / count, cut to length `radius`, then folded into the box (section 5.3.5).
    All of it is post-processing: it sees released values only and costs no budget.

    `centers` and `relative_sums` are (k, d), `counts` (k,). Counts below `count_floor` are raised
    to it (1 by default): a count that noise made tiny or negative would throw or reverse the step.
    None divides by the noised count as the paper does, with 0 replaced by 1e-9 as in its released
    code. `clip_step` cuts the step to the radius (text of section 5.3.5; missing in Algorithm 1).
    """
    if count_floor is not None:
        check_positive(count_floor, "count_floor")
    centers = as_points(centers, "centers")
    relative_sums = as_points(relative_sums, "relative_sums", n_features=centers.shape[1])
    counts = as_numbers(counts, "counts", ndim=1)
    if not len(centers) == len(relative_sums) == len(counts):
        raise ValueError("centers, relative_sums and counts must be of the same k clusters")
    step = relative_sums / _floored(counts, count_floor)[:, None]  # line 19
    if radius is not None and clip_step:
        length = np.linalg.norm(step, axis=1, keepdims=True)
        step = step * np.minimum(1.0, radius / np.maximum(length, 1e-300))
    return POSTPROCESS[postprocess](centers + step, bound)  # lines 19, 20


POSTPROCESS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "fold": lambda x, bound: kmeans.fold(x, bound=bound),
    "truncate": lambda x, bound: kmeans.truncate(x, bound=bound),
    "none": lambda x, bound: x,
}


def _floored(counts: FloatArray, count_floor: float | None) -> FloatArray:
    """Noised counts as divisors: raised to the floor, or only kept away from 0 if it is None."""
    if count_floor is None:
        return np.where(np.abs(counts) < 1e-9, 1e-9, counts)
    return np.maximum(counts, count_floor)
