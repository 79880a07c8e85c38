"""The private algorithms of the analysis (Appendices C to F): Algorithms 4 and 5, and Lemma 17.

Each release goes through the ledger of the federation, which must be kept for one point under
add/remove. (Algorithm 3, without privacy, is in `k_fed`.) Comments give the lines of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
    check_share,
)
from fedclust_helpers.client_statistics import (
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
)
from fedclust_helpers.feddp_kmeans.algorithm import N_INIT, check_facts, with_server_points
from fedclust_helpers.feddp_kmeans.budgets import MAX_ROUNDS
from fedclust_helpers.feddp_kmeans.server import centers_from_sums, count_floor, top_eigenvectors
from fedclust_helpers.federation import Federation
from fedclust_helpers.mechanisms import Mechanism
from studies.feddp_kmeans.k_fed import MARGIN

Threshold = Literal["printed", "proof"]


def weights_noise(federation: Federation, epsilon: float, n_points: int) -> Mechanism:
    """Laplace noise for the weights of `n_points` server points."""
    return federation.laplace(
        SERVER_POINT_WEIGHTS, "weights", epsilon=epsilon, n_server_points=n_points
    )


def noised_weights(
    federation: Federation, basis: FloatArray, projected: FloatArray, epsilon: float, round: int
) -> FloatArray:
    """Noised number of rows nearest to each of `projected` (q, r), for pure `epsilon`."""
    noise = [weights_noise(federation, epsilon, len(projected))]
    (weights,) = federation.noisy_sum(
        SERVER_POINT_WEIGHTS, noise, round=round, basis=basis, server_points=projected
    )
    return weights


# --- Lemma 17 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiameterReduction:
    """Translations that bring far components together; every client applies `move` to its rows.

    `anchors` (f, d) are the server points that stayed, `components` (f,) the component of each,
    `shifts` (c, d) the translation of each component, `bound` the radius that holds the moved
    anchors and everything within the distance D of them.
    """

    anchors: FloatArray
    components: IntArray
    shifts: FloatArray
    bound: float

    @property
    def server_points(self) -> FloatArray:
        """The anchors after the move."""
        return self.anchors + self.shifts[self.components]

    def move(self, rows: ArrayLike) -> FloatArray:
        """Translate each row with the component of its nearest anchor."""
        rows = as_points(rows, "rows", n_features=self.anchors.shape[1])
        return rows + self.shifts[self.components[kmeans.assign(rows, self.anchors).labels]]

    def restore(self, centers: ArrayLike) -> FloatArray:
        """Take centres found in the moved space back to the original one."""
        centers = as_points(centers, "centers", n_features=self.anchors.shape[1])
        nearest = kmeans.assign(centers, self.server_points).labels
        return centers - self.shifts[self.components[nearest]]


@checked
def reduce_diameter(
    federation: Federation,
    server_points: ArrayLike,
    *,
    epsilon: float,
    sigma: float,
    min_weight: float,
) -> DiameterReduction:
    """Lemma 17: one noised histogram over server points, then translations; pure `epsilon`.

    `sigma` and `min_weight` are the largest standard deviation of a component in any direction and
    its smallest weight; D = 4 ln(n) sqrt(d) sigma. A server point stays if B(q, D) holds
    epsilon n w_min/(200 ln|Q|) server points ("frozen") or n w_min/3 noised rows. The
    representative of component i goes to (100 D' i, 0, ...), D' the largest diameter of a
    component. Two details are ours: D' is at least D (with the printed rule, components of single
    points all land on the origin), and i counts from 0.

    The map acts on each row alone, so neighbours stay neighbours: what is released from moved rows
    composes on the same ledger.
    """
    check_facts(federation.facts, unit="point")
    server = as_points(server_points, "server_points", n_features=federation.facts.n_features)
    n, (size, d) = federation.facts.n_records, server.shape
    needed = n * check_share(min_weight, "min_weight", one=True)
    # one row has no spread of its own: ln 2 for ln 1
    reach = 4 * math.log(max(n, 2)) * math.sqrt(d) * check_positive(sigma, "sigma")
    gaps = cdist(server, server)
    most = 1 if gaps.max() < reach else size  # components
    if not (reach > 1e-100 and 100 * max(gaps.max(), reach) * most + reach < 1e100):
        raise ValueError("server_points and sigma must keep moved rows between 1e-100 and 1e100")

    weights = noised_weights(federation, np.eye(d), server, check_epsilon(epsilon), 0)
    in_ball = gaps <= reach
    frozen = in_ball.sum(axis=1) >= epsilon * needed / (200 * math.log(max(size, 2)))
    stays = np.flatnonzero(frozen | (in_ball @ weights >= needed / 3))
    if len(stays) == 0:  # everything is noise: keep the heaviest ball
        stays = np.array([int((in_ball @ weights).argmax())])
    gaps = gaps[np.ix_(stays, stays)]
    n_components, components = connected_components(gaps < reach, directed=False)
    diameter = max(float(gaps[components[:, None] == components].max()), reach)
    targets = np.zeros((n_components, d))
    targets[:, 0] = 100 * diameter * np.arange(n_components)
    representatives = server[stays][np.unique(components, return_index=True)[1]]
    bound = 100 * diameter * (n_components - 1) + diameter + reach
    return DiameterReduction(
        server[stays], components.astype(np.int64), targets - representatives, bound
    )


# --- Algorithm 4: fewer server points -------------------------------------------------------------


@dataclass(frozen=True)
class SimplifiedServerData:
    """Indices of the server points that stay, and every noised release.

    `released` holds, for each round, the candidates (indices) and their noised weights.
    """

    kept: IntArray
    released: tuple[tuple[IntArray, FloatArray], ...]


def simplification_rounds(n_server_points: int, *, epsilon: float, min_weight: float) -> int:
    """T = ceil(10 ln(4 ln|Q| / (epsilon w_min))) of Algorithm 4 (at least 1)."""
    log_ratio = math.log(4 * math.log(max(n_server_points, 2))) - math.log(check_epsilon(epsilon))
    log_ratio -= math.log(check_share(min_weight, "min_weight", one=True))
    return max(1, math.ceil(10 * max(log_ratio, 0.0)))


@checked
def simplify_server_data(
    federation: Federation,
    server_points: ArrayLike,
    basis: ArrayLike,
    *,
    epsilon: float,
    min_weight: float,
    rng: np.random.Generator,
    n_rounds: int | None = None,
    threshold: Threshold = "printed",
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
    check_facts(federation.facts, unit="point")
    server = as_points(server_points, "server_points", n_features=federation.facts.n_features)
    basis = as_points(basis, "basis")
    if basis.shape[0] != server.shape[1]:
        raise ValueError(f"basis must have {server.shape[1]} rows, got {basis.shape[0]}")
    check_int(at_least, "at_least", maximum=len(server))
    rounds = simplification_rounds(len(server), epsilon=epsilon, min_weight=min_weight)  # line 2
    if n_rounds is not None:
        rounds = check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS)
    releases = 1 + rounds
    each = epsilon / releases
    limit = 2 * math.log(federation.facts.n_records) / epsilon
    if threshold == "proof":
        limit = 2 * releases * math.log(releases * len(server)) / epsilon
    noise = weights_noise(federation, each, len(server))
    federation.ledger.check([noise] * releases, name="Algorithm 4")

    projected = server @ basis
    frozen = np.zeros(len(server), dtype=bool)
    undecided = np.ones(len(server), dtype=bool)
    latest = np.full(len(server), -np.inf)
    released: list[tuple[IntArray, FloatArray]] = []
    for t in range(releases):  # line 3
        asked = np.flatnonzero(frozen | undecided)  # line 4
        if len(asked) == 0:  # all were dropped before any froze
            break
        weights = noised_weights(  # line 5
            federation, basis, projected[asked], each, first_round + t
        )
        released.append((asked, weights))
        latest[asked] = weights
        frozen[asked[(weights > limit) & undecided[asked]]] = True  # lines 6, 7
        undecided &= ~frozen & (rng.random(len(server)) < 0.5)  # line 8
    order = np.argsort(-latest, kind="stable")
    extra = order[~frozen[order]][: max(0, at_least - int(frozen.sum()))]
    kept = np.sort(np.concatenate([np.flatnonzero(frozen), extra]))
    return SimplifiedServerData(kept, tuple(released))


# --- Algorithm 5 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoryResult:
    """Centres (k, d) of Algorithm 5, their history in the (moved) space, and the released basis."""

    centers: FloatArray
    history: FloatArray
    basis: FloatArray
    simplified: SimplifiedServerData
    reduction: DiameterReduction | None


def _outer_noise(federation: Federation, epsilon: float, delta: float) -> Mechanism:
    multiplier = federation.noise_multiplier(epsilon, delta)
    size = federation.facts.n_features**2
    return federation.gaussian(
        OUTER_PRODUCT, "outer_product", multiplier=multiplier, n_coordinates=size
    )


def _means_noise(
    federation: Federation, epsilon: float, delta: float, n_clusters: int
) -> tuple[Mechanism, Mechanism]:
    """Noise of sums and counts for (epsilon, delta) together, one half of epsilon to each."""
    statistic, k = PROJECTED_SUMS_AND_COUNTS, n_clusters
    multiplier = federation.noise_multiplier(epsilon / 2, delta)
    return (
        federation.gaussian(
            statistic,
            "sums",
            multiplier=multiplier,
            n_coordinates=k * federation.facts.n_features,
            n_clusters=k,
        ),
        federation.laplace(statistic, "counts", epsilon=epsilon / 2, n_coordinates=k, n_clusters=k),
    )


@checked
def theory_kmeans(
    federation: Federation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float,
    min_weight: float,
    n_rounds: int,
    rng: np.random.Generator,
    sigma: float | None = None,
    move: Callable[[DiameterReduction], Federation] | None = None,
    threshold: Threshold = "printed",
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
    threshold
        That of `simplify_server_data`.
    """
    check_facts(federation.facts, unit="point")
    asked = {"server_points": server_points, "n_clusters": n_clusters}
    server, k = with_server_points(federation.facts, asked)["server_points"], n_clusters
    quarter, delta = check_epsilon(epsilon) / 4, check_delta(delta)
    share = 1 / (check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS) + 1)
    simplifications = simplification_rounds(len(server), epsilon=quarter, min_weight=min_weight)
    if move is not None and sigma is None:
        raise ValueError("sigma must be given when the diameter is reduced")
    # what the steps cost does not depend on the radius, so the whole can be checked here
    pair = quarter * share, delta * share / 4
    federation.ledger.check(
        [weights_noise(federation, quarter * (1 if move is None else 2), len(server)),
         _outer_noise(federation, quarter, delta / 4),
         *_means_noise(federation, *pair, k) * (n_rounds + 1)],
        name="Algorithm 5",
    )  # fmt: skip

    reduction = None
    if move is not None and sigma is not None:
        reduction = reduce_diameter(  # line 2
            federation, server, epsilon=quarter, sigma=sigma, min_weight=min_weight
        )
        server, federation = reduction.server_points, move(reduction)
        check_facts(federation.facts, unit="point")
        if len(server) < k:  # too few anchors: repeat them
            server = np.resize(server, (k, server.shape[1]))

    outer = _outer_noise(federation, quarter, delta / 4)  # line 3
    (noisy_outer,) = federation.noisy_sum(OUTER_PRODUCT, [outer], round=1)
    basis = top_eigenvectors(noisy_outer, min(k, federation.facts.n_features))[1]

    simplified = simplify_server_data(  # line 4: Lemma 20
        federation, server, basis, epsilon=quarter / 2, min_weight=min_weight, rng=rng,
        n_rounds=simplifications, threshold=threshold, at_least=k, first_round=2,
    )  # fmt: skip
    round = 2 + len(simplified.released)
    projected = server[simplified.kept] @ basis
    weights = noised_weights(federation, basis, projected, quarter / 2, round)
    weights = np.maximum(weights, 1e-6 * max(float(weights.max()), 1.0))
    targets = kmeans.weighted_kmeans(projected, weights, k, rng=rng, n_init=N_INIT)

    noise = _means_noise(federation, *pair, k)
    history = [targets @ basis.T]
    for t in range(n_rounds + 1):  # line 5 (t = 0, clear rows only), then line 6
        sums, counts = federation.noisy_sum(
            PROJECTED_SUMS_AND_COUNTS, noise, round=round + 1 + t, basis=basis,
            centers=history[-1] @ basis if t else targets, margin=1.0 if t else MARGIN,
        )  # fmt: skip
        centers = centers_from_sums(
            sums,
            counts,
            history[-1],
            count_floor=count_floor(noise[1].std),
            radius=federation.facts.bound,
        )
        history.append(centers)
    centers = history[-1] if reduction is None else reduction.restore(history[-1])
    return TheoryResult(centers, np.stack(history), basis, simplified, reduction)
