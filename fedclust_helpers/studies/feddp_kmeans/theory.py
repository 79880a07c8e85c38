"""The algorithms of the analysis (Appendices C to F).

Algorithm 3 is the non-private reference. Algorithm 4 (fewer server points) and Algorithm 5 (with
Lemma 17 of `diameter`) are private: each release goes through the ledger of the federation, which
must be kept for one point under add/remove.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_delta,
    check_function,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.client_statistics import (
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
)
from fedclust_helpers.feddp_kmeans._releases import noised_weights, point_mechanism
from fedclust_helpers.feddp_kmeans.algorithm import (
    centers_from_sums,
    count_floor,
    top_eigenvectors,
)
from fedclust_helpers.feddp_kmeans.baselines import (
    MARGIN,
)
from fedclust_helpers.feddp_kmeans.bounds import check_weight
from fedclust_helpers.feddp_kmeans.budgets import MAX_ROUNDS, check_budget
from fedclust_helpers.feddp_kmeans.diameter import DiameterReduction, reduce_diameter
from fedclust_helpers.feddp_kmeans.planning import (
    check_federation,
    check_restarts,
    check_server_points,
)
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import Mechanism

# --- Algorithm 3: the non-private reference -------------------------------------------------------


# --- Algorithm 4: fewer server points -------------------------------------------------------------


@dataclass(frozen=True)
class SimplifiedServerData:
    """Indices of the server points that stay, how many of them froze, and every noised release.

    `released` holds, for each round, the candidates (indices) and their noised weights.
    """

    kept: IntArray
    n_frozen: int
    released: tuple[tuple[IntArray, FloatArray], ...]


def simplification_rounds(n_server_points: int, *, epsilon: float, min_weight: float) -> int:
    """T = ceil(10 ln(4 ln|Q| / (epsilon w_min))) of Algorithm 4 (at least 1)."""
    log_q = math.log(max(check_int(n_server_points, "n_server_points"), 2))
    log_ratio = math.log(4 * log_q) - math.log(check_budget(epsilon))  # no tiny products
    log_ratio -= math.log(check_weight(min_weight))
    return max(1, math.ceil(10 * max(log_ratio, 0.0)))


def simplify_server_data(
    federation: SumFederation,
    server_points: ArrayLike,
    basis: ArrayLike,
    *,
    epsilon: float,
    min_weight: float,
    rng: np.random.Generator,
    n_rounds: int | None = None,
    threshold: Literal["printed", "proof"] = "printed",
    at_least: int = 1,
    first_round: int = 0,
) -> SimplifiedServerData:
    """Algorithm 4: keep few server points, each with enough rows; pure `epsilon` in all.

    Each round asks for the noised weights of all candidates (frozen ones and the rest), freezes
    those above the threshold, and drops each of the others with probability 1/2.

    Parameters
    ----------
    basis : array_like of shape (d, r)
        Subspace in which rows are assigned to server points.
    n_rounds : int, optional
        T; `simplification_rounds` by default. The printed loop t = 0..T makes T + 1 releases, so
        each is charged epsilon/(T + 1) (the paper says epsilon/T).
    threshold : {"printed", "proof"}
        "printed" freezes above 2 ln(n)/epsilon. That is less than the noise itself, which has scale
        (T + 1)/epsilon, as soon as T > 2 ln n; a server point without rows then freezes with
        probability n^(-2/(T+1))/2 in each round. "proof" freezes above 2 R ln(R|Q|)/epsilon with
        R = T + 1 releases, which is what the proof of Lemma 26 works with.
    at_least : int
        If fewer points froze, those with the largest last noised weight join them.
    """
    check_federation(federation, unit="point")
    server = as_points(server_points, "server_points", n_features=federation.n_features)
    basis = as_points(basis, "basis")
    if basis.shape[0] != server.shape[1]:
        raise ValueError(f"basis must have {server.shape[1]} rows, got {basis.shape[0]}")
    check_choice(threshold, "threshold", ("printed", "proof"))
    check_int(at_least, "at_least", maximum=len(server))
    check_rng(rng)
    rounds = simplification_rounds(len(server), epsilon=epsilon, min_weight=min_weight)
    if n_rounds is not None:
        rounds = check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS)
    releases = 1 + rounds
    check_int(first_round, "first_round", minimum=0)
    limit = 2 * math.log(federation.n_records) / epsilon
    if threshold == "proof":
        limit = 2 * releases * math.log(releases * len(server)) / epsilon
    one = point_mechanism(
        federation, SERVER_POINT_WEIGHTS, "weights", epsilon / releases,
        n_server_points=len(server),
    )  # fmt: skip
    federation.ledger.check([one] * releases, name="Algorithm 4")

    projected = server @ basis
    frozen = np.zeros(len(server), dtype=bool)
    undecided = np.ones(len(server), dtype=bool)
    latest = np.full(len(server), -np.inf)
    released: list[tuple[IntArray, FloatArray]] = []
    for t in range(releases):
        asked = np.flatnonzero(frozen | undecided)
        if len(asked) == 0:  # all were dropped before any froze
            break
        weights = noised_weights(
            federation, basis, projected[asked], epsilon / releases, round=first_round + t
        )
        released.append((asked, weights))
        latest[asked] = weights
        frozen[asked[(weights > limit) & undecided[asked]]] = True
        undecided &= ~frozen & (rng.random(len(server)) < 0.5)
    order = np.argsort(-latest, kind="stable")
    extra = order[~frozen[order]][: max(0, at_least - int(frozen.sum()))]
    kept = np.sort(np.concatenate([np.flatnonzero(frozen), extra]))
    return SimplifiedServerData(kept, int(frozen.sum()), tuple(released))


# --- Algorithm 5 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoryResult:
    """Centres (k, d) of Algorithm 5, their history in the (moved) space, and the released basis."""

    centers: FloatArray
    history: FloatArray
    basis: FloatArray
    simplified: SimplifiedServerData
    reduction: DiameterReduction | None


def _means_noise(
    federation: SumFederation, epsilon: float, delta: float, n_clusters: int
) -> tuple[Mechanism, Mechanism]:
    """Noise of sums and counts for (epsilon, delta) together, one half of epsilon to each."""
    statistic, k = PROJECTED_SUMS_AND_COUNTS, n_clusters
    return (
        point_mechanism(federation, statistic, "sums", epsilon / 2, delta, n_clusters=k),
        point_mechanism(federation, statistic, "counts", epsilon / 2, n_clusters=k),
    )


def theory_kmeans(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float,
    min_weight: float,
    n_rounds: int,
    rng: np.random.Generator,
    sigma: float | None = None,
    move: Callable[[DiameterReduction], SumFederation] | None = None,
    threshold: Literal["printed", "proof"] = "printed",
    n_simplify: int | None = None,
    n_init: int = 10,
) -> TheoryResult:
    """Algorithm 5: (epsilon, delta)-DP by basic composition; the ledger knows the exact total.

    A quarter of the budget each goes to diameter reduction, subspace, first centres (half to
    Algorithm 4, half to the weights of what it keeps) and the means. The last quarter is shared
    equally by the first means (rows three times nearer than to any other centre) and `n_rounds`
    Lloyd rounds. Every assignment is made in the subspace, as printed (Algorithm 2 assigns in the
    full space).

    Parameters
    ----------
    sigma : float, optional
        Largest standard deviation, for the diameter reduction only.
    move : callable, optional
        ``move(reduction)`` returns the federation of the same clients after each has applied
        ``reduction.move`` to its rows, on the same ledger. None skips the reduction: assumption (1)
        holds already, and its quarter is not spent.
    threshold, n_simplify
        `threshold` and `n_rounds` of `simplify_server_data`.
    n_init : int
        Restarts of the server's k-means.
    """
    check_federation(federation, unit="point")
    server, k = check_server_points(federation, server_points, n_clusters)
    quarter, delta = check_budget(epsilon) / 4, check_delta(delta)
    share = 1 / (check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS) + 1)
    check_choice(threshold, "threshold", ("printed", "proof"))
    simplifications = simplification_rounds(len(server), epsilon=quarter, min_weight=min_weight)
    if n_simplify is not None:
        simplifications = check_int(n_simplify, "n_simplify", minimum=0, maximum=MAX_ROUNDS)
    check_restarts(n_init)
    check_rng(rng)
    if move is not None:
        check_function(move, "move")
        if sigma is None:
            raise ValueError("sigma must be given when the diameter is reduced")
    if sigma is not None:
        check_positive(sigma, "sigma")
    # what the steps cost does not depend on the radius, so the whole can be checked here
    whole = quarter * (1 if move is None else 2)
    federation.ledger.check(
        [point_mechanism(federation, SERVER_POINT_WEIGHTS, "weights", whole,
                         n_server_points=len(server)),
         point_mechanism(federation, OUTER_PRODUCT, "outer_product", quarter, delta / 4),
         *_means_noise(federation, quarter * share, delta * share / 4, k) * (n_rounds + 1)],
        name="Algorithm 5",
    )  # fmt: skip

    reduction = None
    if move is not None and sigma is not None:
        reduction = reduce_diameter(
            federation, server, epsilon=quarter, sigma=sigma, min_weight=min_weight
        )
        server, federation = reduction.server_points, move(reduction)
        check_federation(federation, unit="point")
        if len(server) < k:  # too few anchors: repeat them
            server = np.resize(server, (k, server.shape[1]))

    outer = point_mechanism(federation, OUTER_PRODUCT, "outer_product", quarter, delta / 4)
    (noisy_outer,) = federation.noisy_sum(OUTER_PRODUCT, [outer], round=1)
    basis = top_eigenvectors(noisy_outer, min(k, federation.n_features))[1]

    simplified = simplify_server_data(
        federation, server, basis, epsilon=quarter / 2, min_weight=min_weight, rng=rng,
        n_rounds=simplifications, threshold=threshold, at_least=k, first_round=2,
    )  # fmt: skip
    round = 2 + len(simplified.released)
    projected = server[simplified.kept] @ basis
    weights = noised_weights(federation, basis, projected, quarter / 2, round=round)
    weights = np.maximum(weights, 1e-6 * max(float(weights.max()), 1.0))
    targets = kmeans.weighted_kmeans(projected, weights, k, rng=rng, n_init=n_init)

    pair = _means_noise(federation, quarter * share, delta * share / 4, k)
    history = [targets @ basis.T]
    for t in range(n_rounds + 1):
        sums, counts = federation.noisy_sum(
            PROJECTED_SUMS_AND_COUNTS, pair, round=round + 1 + t, basis=basis, centers=targets,
            margin=MARGIN if t == 0 else 1.0,
        )  # fmt: skip
        history.append(
            centers_from_sums(
                sums,
                counts,
                history[-1],
                count_floor=count_floor(pair[1]),
                radius=federation.bound,
            )  # fmt: skip
        )
        targets = history[-1] @ basis
    centers = history[-1] if reduction is None else reduction.restore(history[-1])
    return TheoryResult(centers, np.stack(history), basis, simplified, reduction)
