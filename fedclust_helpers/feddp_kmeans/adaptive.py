"""FedDP-KMeans with a public choice of where the budget goes (beyond the paper).

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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_choice,
    check_epsilon,
    check_int,
    check_rng,
)
from fedclust_helpers.client_statistics import (
    CLIENT_OUTER_PRODUCT,
    CLIENT_RESIDUAL_SUMS_AND_COUNTS,
    CLIENT_SERVER_POINT_WEIGHTS,
    OUTER_PRODUCT,
    RESIDUAL_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
)
from fedclust_helpers.feddp_kmeans.algorithm import (
    ClipBounds,
    FedDPResult,
    check_feddp_run,
    count_floor,
    require_budget,
    surviving_points,
    top_eigenvectors,
)
from fedclust_helpers.feddp_kmeans.plan import StepBudgets, gaussian_multiplier, total_epsilon
from fedclust_helpers.federation import SumFederation

Start = Literal["auto", "server", "weighted"]
MAX_ROUNDS = 6
NOISE_SHARE = 0.04  # a centre's noise may have this share of the server's mean squared residual
SHARES = {"server": (0.0, 0.0, 0.85, 0.15), "weighted": (0.2, 0.1, 0.55, 0.15)}
RESTARTS = 50


@dataclass(frozen=True)
class AdaptivePlan:
    """What was decided from public numbers, and the numbers that decided it."""

    start: str
    budgets: StepBudgets
    clip: float
    rows_per_client: int
    noise_over_gap: float
    centers: FloatArray


def _server_start(
    server: FloatArray, k: int, rng: np.random.Generator
) -> tuple[FloatArray, float, float]:
    """Centres of the server's data in its own subspace; residual energy; energy per direction."""
    _, basis = top_eigenvectors(server.T @ server, min(k, server.shape[1]))
    projected = server @ basis
    xi = kmeans.weighted_kmeans(projected, None, k, rng=rng, n_init=RESTARTS)
    labels = kmeans.assign(projected, xi).labels
    centers = xi @ basis.T
    residual = float(((server - centers[labels]) ** 2).sum(axis=1).mean())
    shares = np.bincount(labels, minlength=k) / len(server)
    spread = float(shares @ ((centers - shares @ centers) ** 2).sum(axis=1))
    return centers, residual, spread / max(k - 1, 1)


def _budgets(epsilon: float, delta: float, start: str, n_rounds: int, kind: str) -> StepBudgets:
    """Step budgets with the shares of `start` whose exact total is at most epsilon."""

    def at(scale: float) -> StepBudgets:
        outer, weights, sums, counts = (scale * s for s in SHARES[start])
        return StepBudgets(outer, weights, 0.0, 0.0, sums, counts, n_rounds, delta)

    root = brentq(lambda s: total_epsilon(at(s), kind) - epsilon, 0.5 * epsilon, 4 * epsilon,
                  xtol=2e-4 * epsilon)  # fmt: skip
    while total_epsilon(at(root), kind) > epsilon:
        root *= 1 - 1e-4
    return at(root)


def plan_adaptive(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    start: Start = "auto",
    n_rounds: int | None = None,
) -> AdaptivePlan:
    """Choose start, number of rounds, clip bound and budgets from public numbers.

    Public are: the server's data, epsilon and delta, the number of clients and rows, d and k.
    Parameters as in `feddp_adaptive`.
    """
    server, k = check_feddp_run(federation, server_points, n_clusters)
    assert server is not None
    check_epsilon(epsilon)
    check_choice(start, "start", ("auto", "server", "weighted"))
    if n_rounds is not None:
        check_int(n_rounds, "n_rounds")
    kind = "discrete" if federation.randomness.is_secure else "continuous"
    client_level = federation.ledger.unit == "client"
    rows = math.ceil(federation.n_records / federation.n_clients)
    n, d = federation.n_records, federation.n_features
    centers, residual, energy = _server_start(server, k, check_rng(rng))

    # Step 1: predicted spectral norm of its noise against the predicted eigengap
    weighted = _budgets(epsilon, delta, "weighted", 1, kind)
    reach = (
        ClipBounds.suggest(server, rows_per_client=rows, n_clusters=k).outer
        if client_level
        else federation.bound**2
    )
    noise = 2 * math.sqrt(d) * reach * gaussian_multiplier(weighted.outer, delta, kind)
    noise_over_gap = noise / max(n * energy, 1e-300)
    chosen = ("weighted" if noise_over_gap < 0.5 else "server") if start == "auto" else start

    # rounds: as many as keep the noise of a centre small against the residuals
    clip = math.sqrt(residual * (rows if client_level else 1.3))
    candidates = range(1, MAX_ROUNDS + 1) if n_rounds is None else (n_rounds,)
    budgets = _budgets(epsilon, delta, chosen, candidates[0], kind)
    for t in candidates[1:]:
        more = _budgets(epsilon, delta, chosen, t, kind)
        std = clip * gaussian_multiplier(more.lloyd_sums, delta, kind) * math.sqrt(t)
        if d * (std * k / n) ** 2 > NOISE_SHARE * residual:
            break
        budgets = more
    return AdaptivePlan(chosen, budgets, clip, rows, noise_over_gap, centers)


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


def feddp_adaptive(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    start: Start = "auto",
    n_rounds: int | None = None,
) -> FedDPResult:
    """Adaptive FedDP-KMeans for a total of (epsilon, delta), one point or one client, add/remove.

    Parameters
    ----------
    federation : SumFederation
        With ``domain="ball"``; the unit of its ledger decides the level.
    server_points : array_like of shape (q, d)
    n_clusters : int
    epsilon, delta : float
        Exact total by PLD over all releases.
    rng : numpy.random.Generator
        For the server's own k-means.
    start : {"auto", "server", "weighted"}
        "server" spends nothing on the start; "weighted" runs Steps 1 and 2 of FedDP-Init; "auto"
        takes "weighted" when the predicted noise of Step 1 is below half the predicted eigengap.
    n_rounds : int, optional
        Rounds of relative sums; at most 6, chosen from public numbers, by default.

    Returns
    -------
    FedDPResult
    """
    plan = plan_adaptive(
        federation, server_points, n_clusters=n_clusters, epsilon=epsilon, delta=delta, rng=rng,
        start=start, n_rounds=n_rounds,
    )  # fmt: skip
    before, k = len(federation.ledger.releases), n_clusters
    client_level = federation.ledger.unit == "client"
    server = as_points(server_points, "server_points")
    statistic = CLIENT_RESIDUAL_SUMS_AND_COUNTS if client_level else RESIDUAL_SUMS_AND_COUNTS
    clips = ClipBounds.suggest(server, rows_per_client=plan.rows_per_client, n_clusters=k)
    arguments: dict[str, Any] = (
        {"clip_sums": plan.clip, "clip_counts": float(plan.rows_per_client)}
        if client_level
        else {"clip_residual": plan.clip}
    )
    outer_arguments: dict[str, Any] = {"clip_outer": clips.outer} if client_level else {}
    weights_arguments: dict[str, Any] = {"clip_weights": clips.weights} if client_level else {}
    kind = "discrete" if federation.randomness.is_secure else "continuous"
    grid = federation.resolution or (2.0**-20 if kind == "discrete" else 0.0)
    public: dict[str, Any] = {
        "bound": federation.bound, "n_features": federation.n_features, "n_clusters": k,
        "n_server_points": len(server), **outer_arguments, **weights_arguments, **arguments,
    }  # fmt: skip
    outer = CLIENT_OUTER_PRODUCT if client_level else OUTER_PRODUCT
    weights_of = CLIENT_SERVER_POINT_WEIGHTS if client_level else SERVER_POINT_WEIGHTS
    steps = plan.budgets.mechanisms(
        {
            "outer": outer.sensitivity_of("outer_product", 2, "add/remove", grid=grid, **public),
            "weights": weights_of.sensitivity_of("weights", 1, "add/remove", grid=grid, **public),
            "lloyd_sums": statistic.sensitivity_of("sums", 2, "add/remove", grid=grid, **public),
            "lloyd_counts": statistic.sensitivity_of(
                "counts", 1, "add/remove", grid=grid, **public
            ),
        },
        kind=kind, grid=grid or 1.0, integral_counts=not client_level,
    )  # fmt: skip
    pair = [steps["lloyd_sums"], steps["lloyd_counts"]]
    first = [steps[s] for s in ("outer", "weights") if s in steps]
    # everything that can be refused is refused before the first release
    d, shape = federation.n_features, {"n_clusters": k, "n_server_points": len(server)}
    line, start_centers = np.zeros((d, 1)), np.zeros((k, d))
    federation.check_release(
        statistic, pair, public=shape, basis=line, centers=start_centers, **arguments
    )
    if first:
        federation.check_release(outer, first[:1], public=shape, **outer_arguments)
        federation.check_release(
            weights_of, first[1:], public=shape, basis=line,
            server_points=np.zeros((len(server), 1)), **weights_arguments,
        )  # fmt: skip
    require_budget(federation, first + pair * plan.budgets.n_rounds)

    centers, r = plan.centers, 0
    if plan.start == "weighted":
        (noisy_outer,) = federation.noisy_sum(outer, [steps["outer"]], round=0, **outer_arguments)
        _, basis = top_eigenvectors(noisy_outer, min(k, federation.n_features))
        projected = server @ basis
        (weights,) = federation.noisy_sum(
            weights_of, [steps["weights"]], round=1, public={"n_server_points": len(server)},
            basis=basis, server_points=projected, **weights_arguments,
        )  # fmt: skip
        kept = surviving_points(weights, minimum=2 * steps["weights"].std, at_least=k)
        filled = kept > 0
        xi = kmeans.weighted_kmeans(projected[filled], kept[filled], k, rng=rng, n_init=RESTARTS)
        centers, r = xi @ basis.T, 2

    history, released = [centers], []
    for t in range(plan.budgets.n_rounds):
        # the span of the current centres is where they differ: assign there
        basis = np.linalg.svd(history[-1].T, full_matrices=False)[0]
        sums, counts = federation.noisy_sum(
            statistic, pair, round=r + t, public={"n_clusters": k}, basis=basis,
            centers=history[-1], **arguments,
        )  # fmt: skip
        released.append((sums, counts))
        step = shrunk_step(sums, counts, std=pair[0].std, floor=count_floor(pair[1]))
        moved = history[-1] + step
        norms = np.linalg.norm(moved, axis=1, keepdims=True)
        history.append(moved * np.minimum(1.0, federation.bound / np.maximum(norms, 1e-300)))
    own = federation.ledger.since(before)
    return FedDPResult(
        history[-1], None, np.stack(history), plan.budgets, own,
        federation.randomness.is_secure, tuple(released),
    )  # fmt: skip
