"""FedDP-Init (Algorithm 1) and FedDP-Lloyds (Algorithm 2), following a plan to the letter.

What the server does with a released value is post-processing: it stands between the releases, and
may use any randomness of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, as_points, check_int, check_real
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets
from fedclust_helpers.feddp_kmeans.levels import Step, level_of
from fedclust_helpers.feddp_kmeans.planning import FedDPPlan, inside
from fedclust_helpers.federation import Plan, PlannedRelease, RunResult, SumFederation
from fedclust_helpers.mechanisms import Mechanism

Released = tuple[tuple[FloatArray, FloatArray], ...]


@dataclass(frozen=True, eq=False)
class InitResult:
    """What FedDP-Init released and what the server made of it.

    `eigenvalues` (r,) and `basis` (d, r) of the noised outer product; `server_projected` (q, r) and
    the noised `weights` (q,) of the server points; `kept` (q,), those weights made usable;
    `projected_centers` (k, r); `sums` (k, d) and `counts` (k,) of Step 3; `centers` (k, d).
    """

    eigenvalues: FloatArray
    basis: FloatArray
    server_projected: FloatArray
    weights: FloatArray
    kept: FloatArray
    projected_centers: FloatArray
    sums: FloatArray
    counts: FloatArray
    centers: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FedDPResult(RunResult):
    """Centres of a run and what each step released; epsilon is that of the ledger of this run.

    `history` (T + 1, k, d) starts with the centres before the first Lloyd round; `released` holds
    the noised (sums, counts) of each round; `init` is None where no FedDP-Init was run.
    """

    centers: FloatArray
    history: FloatArray = field(repr=False)
    released: Released = field(default=(), repr=False)
    init: InitResult | None = field(default=None, repr=False)

    @property
    def budgets(self) -> StepBudgets:
        """The step budgets of the plan."""
        return self.plan.budgets  # type: ignore[attr-defined]


# --- public steps of the server (post-processing) -------------------------------------------------


def top_eigenvectors(noisy_outer: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors (d, rank) of (E + E^T)/2 with the largest eigenvalues.

    Independent noise on all d^2 entries makes the matrix unsymmetric; averaging it with its
    transpose is post-processing and halves the off-diagonal variance (claim K4).
    """
    noisy_outer = as_points(noisy_outer, "noisy_outer")
    if noisy_outer.shape[0] != noisy_outer.shape[1]:
        raise ValueError(f"noisy_outer must be square, got shape {noisy_outer.shape}")
    check_int(rank, "rank", maximum=len(noisy_outer))
    values, vectors = np.linalg.eigh((noisy_outer + noisy_outer.T) / 2)
    return values[::-1][:rank].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def surviving_points(weights: FloatArray, *, minimum: float, at_least: int) -> FloatArray:
    """Noised weights made usable: below `minimum` they become 0, but `at_least` points survive.

    When fewer reach the minimum, the points with the largest noised weights are kept with weight
    at least 1e-6 of the largest: a rule fixed in advance, on released values only.
    """
    weights = as_points(np.atleast_2d(weights).T, "weights")[:, 0]
    check_int(at_least, "at_least", maximum=len(weights))
    check_real(minimum, "minimum")
    usable = np.where(weights >= max(minimum, 0.0), np.maximum(weights, 0.0), 0.0)
    if np.count_nonzero(usable) < at_least:
        best = np.argsort(weights)[::-1][:at_least]
        usable = np.zeros_like(weights)
        usable[best] = np.maximum(weights[best], 1e-6 * max(float(weights.max()), 1.0))
    return usable


def centers_from_sums(
    sums: FloatArray,
    counts: FloatArray,
    fallback: FloatArray,
    *,
    count_floor: float,
    radius: float,
) -> FloatArray:
    """Noised sums over noised counts, guarded; post-processing of released values.

    A cluster whose noised count is below `count_floor` keeps `fallback` (a mean of so few rows is
    all noise, a negative count would flip it). Centres are moved into the ball of `radius`.
    """
    centers = np.where(
        (counts >= count_floor)[:, None],
        sums / np.maximum(counts, count_floor)[:, None],
        fallback,
    )
    return inside(centers, radius)


def count_floor(mechanism: Mechanism) -> float:
    """Counts below three standard deviations of their own noise say nothing."""
    return max(1.0, 3 * mechanism.std)


# --- Algorithms 1 and 2 ---------------------------------------------------------------------------


def release(
    federation: SumFederation, step: Step, planned: PlannedRelease, **broadcast: Any
) -> tuple[FloatArray, ...]:
    """The noised sum that the plan names, with the clip bounds of its step."""
    return federation.noisy_sum(
        step.statistic, planned.mechanisms, round=planned.round, **broadcast, **step.clips
    )


def initialise(
    federation: SumFederation, plan: FedDPPlan, server: FloatArray, *, rng: np.random.Generator
) -> InitResult:
    """FedDP-Init: three private aggregates replace a bad start (Algorithm 1)."""
    level = level_of(plan.facts.unit, plan.clips)
    planned = {r.round: r for r in plan.releases}
    server = inside(server, plan.facts.bound)  # public points, cut to the same ball

    # Step 1: the subspace of the largest eigenvectors
    if 0 in planned:
        (noisy_outer,) = release(federation, level.outer, planned[0])
    else:
        noisy_outer = server.T @ server
    eigenvalues, basis = top_eigenvectors(noisy_outer, plan.rank)

    # Step 2: the server's points, weighted by how many rows are nearest to each
    projected = server @ basis
    (weights,) = release(
        federation, level.weights, planned[1], basis=basis, server_points=projected
    )
    kept = surviving_points(weights, minimum=plan.minimum_weight, at_least=plan.n_clusters)

    # Step 3: cluster the weighted points, refine by sums over the rows of the clients
    filled = kept > 0
    xi = kmeans.weighted_kmeans(
        projected[filled], kept[filled], plan.n_clusters, rng=rng, n_init=plan.n_init
    )
    margin = {"margin": plan.margin} if plan.facts.unit == "point" else {}
    sums, counts = release(federation, level.means, planned[2], basis=basis, centers=xi, **margin)
    centers = centers_from_sums(
        sums, counts, xi @ basis.T, count_floor=count_floor(planned[2].mechanisms[1]),
        radius=plan.facts.bound,
    )  # fmt: skip
    return InitResult(eigenvalues, basis, projected, weights, kept, xi, sums, counts, centers)


def lloyds(
    federation: SumFederation,
    step: Step,
    rounds: tuple[PlannedRelease, ...],
    centers: FloatArray,
    *,
    progress: bool = False,
) -> tuple[FloatArray, Released]:
    """FedDP-Lloyds: rounds of noised sums and counts (Algorithm 2).

    The noise of the sums is that of one Gaussian release at (lloyd_sums, delta) times sqrt(T),
    which is exact for T Gaussians together; Algorithm 2 and the text of section 3.2 print two other
    formulas, both larger (claim K2).

    Returns
    -------
    history : ndarray of shape (T + 1, k, d)
        Starting with `centers`.
    released : tuple of (sums, counts)
    """
    history, released = [centers.copy()], []
    for planned in shown(rounds, progress):
        sums, counts = release(federation, step, planned, centers=history[-1])
        released.append((sums, counts))
        history.append(
            centers_from_sums(
                sums, counts, history[-1], count_floor=count_floor(planned.mechanisms[1]),
                radius=federation.facts.bound,
            )
        )  # fmt: skip
    return np.stack(history), tuple(released)


def shown(rounds: tuple[PlannedRelease, ...], progress: bool) -> Iterator[PlannedRelease]:
    """The rounds, with a progress bar if wanted."""
    yield from tqdm(rounds, desc="rounds", disable=not progress)


def lloyd_rounds(plan: Plan) -> tuple[PlannedRelease, ...]:
    """The releases of FedDP-Lloyds: the last `n_rounds` of a plan."""
    return plan.releases[len(plan.releases) - plan.n_rounds :]


def follow_feddp(
    federation: SumFederation,
    plan: FedDPPlan,
    server: FloatArray,
    *,
    rng: np.random.Generator,
    progress: bool,
) -> dict[str, Any]:
    """FedDP-Init, then FedDP-Lloyds from its centres."""
    init = initialise(federation, plan, server, rng=rng)
    step = level_of(plan.facts.unit, plan.clips).lloyd
    history, released = lloyds(
        federation, step, lloyd_rounds(plan), init.centers, progress=progress
    )
    return {"init": init, "history": history, "released": released}
