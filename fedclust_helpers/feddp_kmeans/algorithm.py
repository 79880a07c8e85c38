"""FedDP-Init (Algorithm 1) and FedDP-Lloyds (Algorithm 2); comments give the lines of the paper.

Both follow a plan to the letter: what clients sum and how it is noised is in `planning`, what the
server makes of released values in `server`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.feddp_kmeans.levels import Step
from fedclust_helpers.feddp_kmeans.planning import FedDPPlan, ServerPlan
from fedclust_helpers.feddp_kmeans.server import (
    centers_from_sums,
    count_floor,
    inside,
    surviving_points,
    top_eigenvectors,
)
from fedclust_helpers.federation import PlannedRelease, SumFederation

Released = tuple[tuple[FloatArray, FloatArray], ...]
LEAST_WEIGHT = 5.0  # the released code drops server points below at data-point level


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """What Steps 1 and 2 released, and what the server made of it.

    `eigenvalues` (r,) and `basis` (d, r) of the noised outer product; `server_projected` (q, r) and
    the noised `weights` (q,) of the server points; `kept` (q,), those weights made usable.
    """

    eigenvalues: FloatArray
    basis: FloatArray
    server_projected: FloatArray
    weights: FloatArray
    kept: FloatArray

    def clustered(self, k: int, *, rng: np.random.Generator, n_init: int) -> FloatArray:
        """Centres xi (k, r) of the weighted, projected server points."""
        filled = self.kept > 0
        return kmeans.weighted_kmeans(
            self.server_projected[filled], self.kept[filled], k, rng=rng, n_init=n_init
        )


@dataclass(frozen=True, eq=False)
class InitResult(WeightedPoints):
    """What FedDP-Init released and what the server made of it.

    Further `projected_centers` (k, r); `sums` (k, d) and `counts` (k,) of Step 3; `centers` (k, d).
    """

    projected_centers: FloatArray
    sums: FloatArray
    counts: FloatArray
    centers: FloatArray


def weigh_server_points(
    federation: SumFederation, plan: ServerPlan, server: FloatArray, *, minimum: float
) -> WeightedPoints:
    """Steps 1 and 2 of FedDP-Init; points with a noised weight below `minimum` are dropped."""
    planned = {r.round: r for r in plan.releases}
    server = inside(server, plan.facts.bound)  # public points, cut to the same ball

    # Step 1: the subspace of the largest eigenvectors
    if plan.budgets.outer:
        (outer,) = release(federation, plan.level.outer, planned[0])  # lines 3 to 6
    else:
        outer = server.T @ server
    rank = min(plan.n_clusters, plan.n_features)
    eigenvalues, basis = top_eigenvectors(outer, rank)  # line 7

    # Step 2: the server's points, weighted by how many rows are nearest to each
    projected = server @ basis
    (weights,) = release(  # lines 9 to 15
        federation, plan.level.weights, planned[1], basis=basis, server_points=projected
    )
    kept = surviving_points(weights, minimum=minimum, at_least=plan.n_clusters)
    return WeightedPoints(eigenvalues, basis, projected, weights, kept)


def initialise(
    federation: SumFederation, plan: FedDPPlan, server: FloatArray, *, rng: np.random.Generator
) -> InitResult:
    """FedDP-Init: three private aggregates replace a bad start (Algorithm 1)."""
    *_, weights, means = plan.releases[: len(plan.releases) - plan.n_rounds]
    minimum = LEAST_WEIGHT if plan.facts.unit == "point" else weights.mechanisms[0].std
    found = weigh_server_points(federation, plan, server, minimum=minimum)  # lines 2 to 15

    # Step 3: cluster the weighted points, refine by sums over the rows of the clients
    xi = found.clustered(plan.n_clusters, rng=rng, n_init=plan.n_init)  # line 17
    sums, counts = release(  # lines 18 to 23
        federation, plan.level.means, means, basis=found.basis, centers=xi
    )
    centers = centers_from_sums(  # line 24
        sums, counts, xi @ found.basis.T, count_floor=count_floor(means.mechanisms[1]),
        radius=plan.facts.bound,
    )  # fmt: skip
    return InitResult(
        **vars(found), projected_centers=xi, sums=sums, counts=counts, centers=centers
    )


def lloyds(
    federation: SumFederation, plan: ServerPlan, centers: FloatArray
) -> tuple[FloatArray, Released]:
    """FedDP-Lloyds: rounds of noised sums and counts (Algorithm 2).

    The noise of the sums is that of one Gaussian release at (lloyd_sums, delta) times sqrt(T),
    which is exact for T Gaussians together; Algorithm 2 and the text of section 3.2 print two other
    formulas, both larger (claim K2).

    Returns the centres of all rounds (T + 1, k, d), starting with `centers`, and what was released.
    """
    history, released = [centers.copy()], []
    for planned in plan.rounds:  # line 2
        sums, counts = release(  # lines 3 to 10
            federation, plan.level.lloyd, planned, centers=history[-1]
        )
        released.append((sums, counts))
        centers = centers_from_sums(  # line 11
            sums, counts, history[-1], count_floor=count_floor(planned.mechanisms[1]),
            radius=plan.facts.bound,
        )  # fmt: skip
        history.append(centers)
    return np.stack(history), tuple(released)


def release(
    federation: SumFederation, step: Step, planned: PlannedRelease, **broadcast: Any
) -> tuple[FloatArray, ...]:
    """The noised sum that the plan names, with the clip bounds of its step."""
    return federation.noisy_sum(
        step.statistic, planned.mechanisms, round=planned.round, **broadcast, **step.clips
    )
