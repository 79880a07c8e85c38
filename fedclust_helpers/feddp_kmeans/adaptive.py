"""A variant beyond the paper: FedDP-KMeans with a public choice of where the budget goes.

At client level the recommended settings lose to a server-only start below epsilon 1, for reasons
that can be read off before the run:

* Step 1 adds noise of spectral norm about 2 std sqrt(d) to an outer product whose eigengap is
  n x (between-cluster energy per direction); at small budgets the noise is several times the gap;
* Step 3 clips a matrix of *means*, whose length is dominated by where the clusters lie and not by
  what is unknown about them; sums of x - centre are much shorter;
* a mean of client means throws away that a client has several rows in a cluster.

So: start from centres of the server's data in the server's own subspace unless Step 1 is predicted
to beat its noise, then spend the budget on few rounds of relative sums, each with assignment in the
span of the current centres, and shrink every step by what its noise explains. All choices use
server data, budgets and public counts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.feddp_kmeans import planning
from fedclust_helpers.feddp_kmeans.algorithm import Released, release, weigh_server_points
from fedclust_helpers.feddp_kmeans.budgets import LLOYD_STEPS, StepBudgets
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, level_of, residual_step
from fedclust_helpers.feddp_kmeans.planning import ServerPlan, ServerPoints
from fedclust_helpers.feddp_kmeans.server import count_floor, inside, top_eigenvectors
from fedclust_helpers.federation import FederationFacts, SumFederation, planner

ROUNDS_TRIED = 6
NOISE_SHARE = 0.04  # a centre's noise may have this share of the server's mean squared residual
SHARES = {"server": (0.0, 0.0, 0.85, 0.15), "weighted": (0.2, 0.1, 0.55, 0.15)}
RESTARTS = 50
MOST_ROWS = 10**12


@dataclass(frozen=True, kw_only=True)
class AdaptivePlan(ServerPlan):
    """What was decided from public numbers, and the numbers that decided it.

    `initial` is "server" (the public `centers` (k, d)) or "weighted" (Steps 1 and 2 of FedDP-Init),
    `clip` bounds a residual (one point) or a client's sum of residuals, `noise_over_gap` is the
    predicted norm of the noise of Step 1 over the predicted eigengap.
    """

    initial: str
    clip: float
    rows_per_client: int | None
    noise_over_gap: float
    centers: FloatArray = field(repr=False, compare=False)


@planner
@checked
def plan_adaptive(
    federation: SumFederation, server_points: ArrayLike, *, n_clusters: int, epsilon: float,
    rng: np.random.Generator, delta: float | None = None, n_rounds: int | None = None,
    initial: Literal["auto", "server", "weighted"] = "auto", n_records: int | None = None,
    rows_per_client: int | None = None,
) -> AdaptivePlan:  # fmt: skip
    """Choose start, rounds, clip bound and budgets for a total of (epsilon, delta), add/remove.

    Only public numbers are used: the server's data, epsilon and delta, d, k, and the two counts.
    Arguments as in `plan`, but: `rng` is for the server's own k-means. `n_rounds` of relative sums
    are at most 6, chosen from public numbers, by default. `initial` "server" spends nothing on the
    start, "weighted" runs Steps 1 and 2 of FedDP-Init, and "auto" takes "weighted" when the
    predicted noise of Step 1 is below half the predicted eigengap. `n_records` and
    `rows_per_client` are public numbers of rows, of all clients together and of a typical one. Both
    are needed at client level; at data-point level `n_records` is the federation's by default.
    """
    facts = planning.check_federation(federation)
    server, k = planning.check_server_points(federation, server_points, n_clusters)
    fingerprint, server = ServerPoints.of(server), inside(server, facts.bound)
    delta, d = planning.delta_of(delta, None), facts.n_features
    n, rows = _public_counts(facts, n_records, rows_per_client)
    clips = None
    if rows is not None:
        clips = ClipBounds.suggest(server, rows_per_client=rows, n_clusters=k)
    level = level_of(facts.unit, clips)
    centers, residual, energy = _server_start(server, k, rng)
    # the server's points may coincide with their centres: some length must be allowed
    residual = max(residual, (1e-6 * facts.bound) ** 2)
    clip = math.sqrt(residual * (1.3 if rows is None else rows))
    step = residual_step(clip, rows)
    zeros = {"basis": np.zeros((d, min(k, d))), "centers": np.zeros((k, d))}

    def releases(b: StepBudgets) -> planning.Releases:
        first = planning.planned_start(federation, level, b, k, len(server))
        t = len(first)
        return first + planning.planned_releases(federation, b, LLOYD_STEPS, step, round=t, **zeros)

    def calibrated(start: str, rounds: int) -> StepBudgets:
        outer, weights, sums, counts = SHARES[start]
        shares = StepBudgets(outer, weights, 0.0, 0.0, sums, counts, rounds, delta)
        return planning.chosen_budgets(federation, releases, shares, epsilon)

    def multiplier(budget: float) -> float:
        return federation.noise_multiplier(budget, delta)

    # Step 1: predicted spectral norm of its noise against the predicted eigengap
    reach = facts.bound**2 if clips is None else clips.outer
    noise = 2 * math.sqrt(d) * reach * multiplier(calibrated("weighted", 1).outer)
    noise_over_gap = noise / max(n * energy, 1e-300)
    if initial == "auto":
        initial = "weighted" if noise_over_gap < 0.5 else "server"

    # rounds: as many as keep the noise of a centre small against the residuals
    budgets = calibrated(initial, 1 if n_rounds is None else n_rounds)
    for t in range(2, ROUNDS_TRIED + 1 if n_rounds is None else 2):
        more = calibrated(initial, t)
        std = clip * multiplier(more.lloyd_sums) * math.sqrt(t)
        if d * (std * k / n) ** 2 > NOISE_SHARE * residual:
            break
        budgets = more
    return planning.made_plan(
        AdaptivePlan, federation, releases(budgets), budgets, epsilon, n_records=n,
        method="FedDP-KMeans, adaptive", n_clusters=k, clips=clips, server=fingerprint,
        initial=initial, clip=clip, rows_per_client=rows, noise_over_gap=noise_over_gap,
        centers=centers,
    )  # fmt: skip


def _public_counts(
    facts: FederationFacts, n_records: int | None, rows_per_client: int | None
) -> tuple[int, int | None]:
    """Number of rows in all and of each client, as public numbers; never counted here."""
    if facts.unit == "point":
        if rows_per_client is not None:
            raise ValueError("rows_per_client must be None at data-point level")
        n = facts.n_records if n_records is None else n_records
        return check_int(n, "n_records", maximum=MOST_ROWS), None
    for value, name in ((n_records, "n_records"), (rows_per_client, "rows_per_client")):
        if value is None:
            raise ValueError(
                f"{name} must be given at client level, as a public number: clip bound and rounds"
                " depend on it, and a count of the rows would tell whether a client takes part"
            )
    n = check_int(n_records, "n_records", maximum=MOST_ROWS)
    return n, check_int(rows_per_client, "rows_per_client", maximum=MOST_ROWS)


def _server_start(
    server: FloatArray, k: int, rng: np.random.Generator
) -> tuple[FloatArray, float, float]:
    """Centres of the server's data in its own subspace; residual energy; energy per direction."""
    _, basis = top_eigenvectors(server.T @ server, min(k, server.shape[1]))
    projected = server @ basis
    xi = kmeans.weighted_kmeans(projected, None, k, rng=rng, n_init=RESTARTS)
    labels = kmeans.assign(projected, xi).labels
    centers = xi @ basis.T
    centers.flags.writeable = False
    residual = float(((server - centers[labels]) ** 2).sum(axis=1).mean())
    shares = np.bincount(labels, minlength=k) / len(server)
    spread = float(shares @ ((centers - shares @ centers) ** 2).sum(axis=1))
    return centers, residual, spread / max(k - 1, 1)


def follow_adaptive(
    federation: SumFederation, plan: AdaptivePlan, server: FloatArray, *, rng: np.random.Generator
) -> tuple[FloatArray, Released]:
    """The start of the plan, then rounds of relative sums, each shrunk by its own noise."""
    centers = plan.centers
    if plan.initial == "weighted":  # Steps 1 and 2 of FedDP-Init
        minimum = 2 * plan.releases[1].mechanisms[0].std
        found = weigh_server_points(federation, plan, server, minimum=minimum)
        xi = found.clustered(plan.n_clusters, rng=rng, n_init=RESTARTS)
        centers = xi @ found.basis.T
    step = residual_step(plan.clip, plan.rows_per_client)
    history, released = [centers], []
    for planned in plan.rounds:
        # the span of the current centres is where they differ: assign there
        basis = np.linalg.svd(history[-1].T, full_matrices=False)[0]
        sums, counts = release(federation, step, planned, basis=basis, centers=history[-1])
        released.append((sums, counts))
        noise, floor = planned.mechanisms[0].std, count_floor(planned.mechanisms[1])
        move = shrunk_step(sums, counts, std=noise, floor=floor)
        history.append(inside(history[-1] + move, plan.facts.bound))
    return np.stack(history), tuple(released)


def shrunk_step(sums: FloatArray, counts: FloatArray, *, std: float, floor: float) -> FloatArray:
    """Steps sums/counts (k, d), each shortened by what the noise of the sums explains.

    The positive-part James-Stein factor max(0, 1 - d s^2/||step||^2) with s = std/count: a step
    that is no longer than its noise is not taken. Post-processing of released values.
    """
    divisor = np.maximum(counts, floor)[:, None]
    step = sums / divisor
    explained = sums.shape[1] * (std / divisor) ** 2
    length = np.maximum((step**2).sum(axis=1, keepdims=True), 1e-300)
    return step * np.maximum(0.0, 1 - explained / length)
