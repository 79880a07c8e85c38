"""Algorithm 1: the round and the loop, for FastLloyd and its baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, as_numbers, as_points, check_choice
from fedclust_helpers.fastlloyd.planning import LloydPlan, Postprocess, check_postprocess
from fedclust_helpers.federation import RunResult, SumFederation


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


def run(
    federation: SumFederation,
    plan: LloydPlan,
    *,
    initial: Literal["halving", "largest"] | ArrayLike = "halving",
    progress: bool = False,
) -> LloydResult:
    """Follow a plan: FastLloyd (Algorithm 1), or one of its baselines.

    Parameters
    ----------
    federation : SumFederation
        The one that `plan` was made from.
    plan : LloydPlan
        From `plan`, `plan_glloyd`, `plan_sulloyd` or `plan_lloyd`.
    initial : {"halving", "largest"} or array_like of shape (k, d)
        Sphere packing variant (public randomness), or public starting centres. Centres that were
        computed from private data would have to be charged: do not pass any.
    progress : bool
        Show a progress bar over the rounds.

    Returns
    -------
    LloydResult

    Raises
    ------
    ValueError, TypeError, PlanMismatchError, BudgetExceededError
        Before any data is read: if the plan was made for another federation, or costs more than it
        states, or more than the ledger has left.
    """
    if isinstance(federation, type) or not callable(getattr(federation, "noisy_sum", None)):
        got = federation if isinstance(federation, type) else type(federation)
        raise TypeError(f"federation must be a federation with noisy_sum, got {got.__name__}")
    if not isinstance(plan, LloydPlan):
        raise TypeError(f"plan must be a LloydPlan, got {type(plan).__name__}")
    centers = initial_centers(federation, plan.n_clusters, initial)
    history, released = [centers], []
    with federation.follow(plan) as n_before:
        for t in tqdm(range(plan.n_rounds), disable=not progress, desc=plan.method):
            radius = None if plan.radii is None else plan.radii[t]
            given = {} if radius is None else {"radius": radius}
            sums, counts = federation.noisy_sum(  # lines 4 to 14: clients and aggregation
                plan.statistic, plan.mechanisms[t], round=t, centers=centers, **given
            )
            released.append((sums, counts))
            if plan.radii is not None:  # lines 15 to 17
                centers = update_centers(
                    centers, sums, counts, radius=radius, postprocess=plan.postprocess,
                    bound=federation.bound, count_floor=plan.count_floor, clip_step=plan.clip_step,
                )  # fmt: skip
            else:
                centers = _means(plan, centers, sums, counts, federation.bound)
            history.append(centers)
    return LloydResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=federation.randomness.is_secure and plan.method != "lloyd",
        centers=centers, history=np.stack(history), released=tuple(released),
    )  # fmt: skip


@checked
def update_centers(
    centers: FloatArray,
    relative_sums: FloatArray,
    counts: FloatArray,
    *,
    radius: float | None = None,
    postprocess: Postprocess = "fold",
    bound: float = 1.0,
    count_floor: float | None = 1.0,
    clip_step: bool = True,
) -> FloatArray:
    """The public part of a round: noised relative sums and counts -> new centres (section 5.3.5).

    Step = relative sum / count, cut to length `radius`, then folded into the box. All of it is
    post-processing: it sees released values only and costs no budget.

    Parameters
    ----------
    centers, relative_sums : ndarray of shape (k, d)
    counts : ndarray of shape (k,)
    count_floor : float or None
        Counts below are raised to it (1 by default): a count that noise made tiny or negative
        would throw or reverse the step. None divides by the noised count as the paper does, with
        0 replaced by 1e-9 as in its released code.
    clip_step : bool
        Cut the step to the radius (text of section 5.3.5; missing in Algorithm 1).
    """
    check_postprocess(postprocess, count_floor)
    centers = as_points(centers, "centers")
    relative_sums = as_points(relative_sums, "relative_sums", n_features=centers.shape[1])
    counts = as_numbers(counts, "counts", ndim=1)
    if not len(centers) == len(relative_sums) == len(counts):
        raise ValueError("centers, relative_sums and counts must be of the same k clusters")
    step = relative_sums / _floored(counts, count_floor)[:, None]
    if radius is not None and clip_step:
        length = np.linalg.norm(step, axis=1, keepdims=True)
        step = step * np.minimum(1.0, radius / np.maximum(length, 1e-300))
    return POSTPROCESS[postprocess](centers + step, bound)


POSTPROCESS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "fold": lambda x, bound: kmeans.fold(x, bound=bound),
    "truncate": lambda x, bound: kmeans.truncate(x, bound=bound),
    "none": lambda x, bound: x,
}


def _means(
    plan: LloydPlan, centers: FloatArray, sums: FloatArray, counts: FloatArray, bound: float
) -> FloatArray:
    """New centres from plain sums; without noise, an empty cluster keeps its centre."""
    if plan.method == "lloyd":
        return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
    means = sums / _floored(counts, plan.count_floor)[:, None]
    return POSTPROCESS[plan.postprocess](means, bound)


def _floored(counts: FloatArray, count_floor: float | None) -> FloatArray:
    """Noised counts as divisors: raised to the floor, or only kept away from 0 if it is None."""
    if count_floor is None:
        return np.where(np.abs(counts) < 1e-9, 1e-9, counts)
    return np.maximum(counts, count_floor)


def initial_centers(
    federation: SumFederation, n_clusters: int, initial: str | ArrayLike
) -> FloatArray:
    """Starting centres: sphere packing from public randomness, or an array given by the caller."""
    if isinstance(initial, str):
        method: Any = check_choice(initial, "initial", ("halving", "largest"))
        return kmeans.sphere_packing(
            n_clusters, federation.n_features, rng=federation.randomness.public,
            bound=federation.bound, method=method,
        )  # fmt: skip
    centers = as_points(initial, "initial", n_features=federation.n_features)
    if len(centers) != n_clusters:
        raise ValueError(f"initial must hold {n_clusters} centres, got {len(centers)}")
    return centers.copy()
