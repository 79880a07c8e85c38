"""FedDP-Init (Algorithm 1), FedDP-Lloyds (Algorithm 2), and their composition FedDP-KMeans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_int,
    check_non_negative,
    check_positive,
    check_rng,
)
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import (
    BALL_SUMS_AND_COUNTS,
    CLIENT_MEANS,
    CLIENT_OUTER_PRODUCT,
    CLIENT_SERVER_POINT_WEIGHTS,
    CLIENT_SUMS_AND_COUNTS,
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
    ClientStatistic,
)
from fedclust_helpers.feddp_kmeans.plan import StepBudgets
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import Mechanism

N_INIT = 10  # restarts of the server's own k-means: they cost no privacy, and one is not enough


@dataclass(frozen=True)
class ClipBounds:
    """Client-level clip bounds (Appendix G.4): public numbers, chosen without looking at the data.

    Attributes
    ----------
    outer : float
        Frobenius norm of a client's X^T X.
    weights : float
        L1 norm of its histogram over server points.
    means, filled : float
        L2 norm of its k x d matrix of cluster means, and L1 norm of the 0/1 vector of its clusters.
    sums, counts : float
        L2 and L1 norms of the statistics of FedDP-Lloyds.
    """

    outer: float
    weights: float
    means: float
    filled: float
    sums: float
    counts: float

    def __post_init__(self) -> None:
        for name in ("outer", "weights", "means", "filled", "sums", "counts"):
            check_positive(getattr(self, name), name)

    @classmethod
    def suggest(
        cls, server_points: ArrayLike, *, rows_per_client: int, n_clusters: int
    ) -> ClipBounds:
        """Bounds from server data and public counts: what a typical client would need.

        With r2 = mean squared norm of the server points and n = `rows_per_client` independent
        rows: ||X^T X||_F is the root of its expected square under the server's moments, n rows
        fill k (1 - (1 - 1/k)^n) clusters, the matrix of means has length sqrt(filled r2), that of
        the sums n sqrt(r2/min(k, n)).
        """
        server = as_points(server_points, "server_points")
        n = check_int(rows_per_client, "rows_per_client")
        k = check_int(n_clusters, "n_clusters")
        r2 = float(np.einsum("ij,ij->", server, server) / len(server))
        second = server.T @ server / len(server)
        # a sample of n rows: E||X^T X||_F^2 = n E||x||^4 + n (n - 1) ||E x x^T||_F^2
        fourth = float((np.einsum("ij,ij->i", server, server) ** 2).mean())
        outer = math.sqrt(n * fourth + n * (n - 1) * float((second**2).sum()))
        filled = k * (1 - (1 - 1 / k) ** n)
        return cls(
            outer=outer,
            weights=1.0,
            means=math.sqrt(filled * r2),
            filled=filled,
            sums=n * math.sqrt(r2 / min(k, n)),
            counts=float(n),
        )


@dataclass(frozen=True)
class InitResult:
    """What FedDP-Init released and what the server made of it.

    `eigenvalues` (r,) and `basis` (d, r) of the noised outer product; `weights` (q,) noised weights
    of the server points; `projected_centers` (k, r); `centers` (k, d).
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


@dataclass(frozen=True)
class FedDPResult:
    """Centres of a run, what each step released, and what it cost.

    `ledger` holds the releases of this run alone; `private` is False in teaching mode (not
    private against anyone who knows the seed).
    """

    centers: FloatArray
    init: InitResult | None
    history: FloatArray
    budgets: StepBudgets
    ledger: PrivacyLedger = field(repr=False)
    private: bool
    released: tuple[tuple[FloatArray, FloatArray], ...] = field(default=(), repr=False)

    @property
    def delta(self) -> float:
        """The delta at which the budgets were calibrated."""
        return self.budgets.delta

    @cached_property
    def epsilon(self) -> float:
        """The ledger's total of this run at `delta`; a PLD composition, made when asked for."""
        return self.ledger.epsilon(self.delta)


# --- public steps of the server (post-processing) -------------------------------------------------


def top_eigenvectors(noisy_outer: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors (d, rank) of (E + E^T)/2 with the largest eigenvalues.

    Independent noise on all d^2 entries makes the matrix unsymmetric; averaging it with its
    transpose is post-processing and halves the off-diagonal variance (theory checks K4).
    """
    values, vectors = np.linalg.eigh((noisy_outer + noisy_outer.T) / 2)
    return values[::-1][:rank].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def surviving_points(weights: FloatArray, *, minimum: float, at_least: int) -> FloatArray:
    """Noised weights made usable: below `minimum` they become 0, but `at_least` points survive.

    When fewer reach the minimum, the points with the largest noised weights are kept with weight
    at least 1e-6 of the largest: a rule fixed in advance, on released values only.
    """
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
    norms = np.linalg.norm(centers, axis=1, keepdims=True)
    return centers * np.minimum(1.0, radius / np.maximum(norms, 1e-300))


# --- what differs between the two units of privacy ------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """Statistics and their public arguments for one unit of privacy."""

    outer: ClientStatistic
    weights: ClientStatistic
    means: ClientStatistic
    lloyd: ClientStatistic
    outer_args: dict[str, Any]
    weights_args: dict[str, Any]
    means_args: dict[str, Any]
    lloyd_args: dict[str, Any]


def _level(federation: SumFederation, clips: ClipBounds | None) -> _Level:
    if federation.ledger.unit == "point":
        if clips is not None:
            raise ValueError("clips must be None at data-point level (the ledger's unit is point)")
        return _Level(
            OUTER_PRODUCT, SERVER_POINT_WEIGHTS, PROJECTED_SUMS_AND_COUNTS, BALL_SUMS_AND_COUNTS,
            {}, {}, {}, {},
        )  # fmt: skip
    if federation.ledger.unit != "client":
        raise ValueError("federation must keep a ledger for one point or one client")
    if clips is None:
        raise ValueError("clips must be given at client level (see ClipBounds.suggest)")
    return _Level(
        CLIENT_OUTER_PRODUCT, CLIENT_SERVER_POINT_WEIGHTS, CLIENT_MEANS, CLIENT_SUMS_AND_COUNTS,
        {"clip_outer": clips.outer},
        {"clip_weights": clips.weights},
        {"clip_means": clips.means, "clip_filled": clips.filled},
        {"clip_sums": clips.sums, "clip_counts": clips.counts},
    )  # fmt: skip


def _mechanisms(
    federation: SumFederation, budgets: StepBudgets, level: _Level, k: int, q: int
) -> dict[str, Mechanism]:
    """One mechanism for each step, from the sensitivity of its statistic."""
    kind = "discrete" if federation.randomness.is_secure else "continuous"
    grid = federation.resolution or (2.0**-20 if kind == "discrete" else 0.0)
    public: dict[str, Any] = {
        "bound": federation.bound, "n_features": federation.n_features, "n_clusters": k,
        "n_server_points": q,
    }  # fmt: skip

    def sensitivity(statistic: ClientStatistic, part: int, norm: int, **extra: float) -> float:
        name = statistic.parts[part]
        return statistic.sensitivity_of(name, norm, "add/remove", grid=grid, **public, **extra)

    sensitivities = {
        "outer": sensitivity(level.outer, 0, 2, **level.outer_args),
        "weights": sensitivity(level.weights, 0, 1, **level.weights_args),
        "sums": sensitivity(level.means, 0, 2, **level.means_args),
        "counts": sensitivity(level.means, 1, 1, **level.means_args),
        "lloyd_sums": sensitivity(level.lloyd, 0, 2, **level.lloyd_args),
        "lloyd_counts": sensitivity(level.lloyd, 1, 1, **level.lloyd_args),
    }
    steps = budgets.mechanisms(
        sensitivities, kind=kind, grid=grid or 1.0,
        integral_counts=federation.ledger.unit == "point",
    )  # fmt: skip
    _check_steps(federation, level, steps, k, q)
    return steps


def _check_steps(
    federation: SumFederation, level: _Level, steps: dict[str, Mechanism], k: int, q: int
) -> None:
    """Let the federation refuse any of the steps (a ring too small, say) before the first."""
    d = federation.n_features
    basis, shape = np.zeros((d, 1)), {"n_server_points": q, "n_clusters": k}
    targets = {"basis": basis, "server_points": np.zeros((q, 1))}
    for statistic, names, broadcast in (
        (level.outer, ("outer",), level.outer_args),
        (level.weights, ("weights",), targets | level.weights_args),
        (level.means, ("sums", "counts"), {"basis": basis, "centers": np.zeros((k, 1))}
         | level.means_args),
        (level.lloyd, ("lloyd_sums", "lloyd_counts"), {"centers": np.zeros((k, d))}
         | level.lloyd_args),
    ):  # fmt: skip
        if all(name in steps for name in names):
            federation.check_release(
                statistic, [steps[n] for n in names], public=shape, **broadcast
            )


def check_feddp_run(
    federation: SumFederation, server_points: ArrayLike | None, n_clusters: int
) -> tuple[FloatArray | None, int]:
    """Shared validation; returns the server points inside the ball, and the number of clusters."""
    if not callable(getattr(federation, "noisy_sum", None)):
        raise TypeError(f"federation must offer noisy_sum, got {type(federation).__name__}")
    if federation.ledger.adjacency != "add/remove":
        raise ValueError("federation must keep a ledger for add/remove neighbours")
    if getattr(federation, "domain", "ball") != "ball":
        raise ValueError("federation must clip rows to a ball: domain='ball', bound=Delta")
    k = check_int(n_clusters, "n_clusters", maximum=federation.n_records)
    if server_points is None:
        return None, k
    server = as_points(server_points, "server_points", n_features=federation.n_features)
    if len(server) < k:
        raise ValueError(f"server_points must hold at least n_clusters={k} rows, got {len(server)}")
    # the server's points are public: it clips its own to the same ball
    norms = np.linalg.norm(server, axis=1, keepdims=True)
    return server * np.minimum(1.0, federation.bound / np.maximum(norms, 1e-300)), k


def require_budget(federation: SumFederation, everything: Sequence[Mechanism]) -> None:
    """Refuse a run that the ledger could not pay to the end; nothing is charged here."""
    federation.ledger.check(everything, name="all steps of FedDP-KMeans")


# --- Algorithm 1 ----------------------------------------------------------------------------------


def feddp_init(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    budgets: StepBudgets,
    rng: np.random.Generator,
    clips: ClipBounds | None = None,
    rank: int | None = None,
    margin: float = 1.0,
    minimum_weight: float | None = None,
    n_init: int = N_INIT,
) -> InitResult:
    """FedDP-Init: three private aggregates replace a bad start (Algorithm 1).

    Parameters
    ----------
    federation : SumFederation
        With ``domain="ball"`` and ``bound`` = Delta. Its ledger's unit decides the level: "point",
        or "client" (then `clips` is needed).
    server_points : array_like of shape (q, d)
        Data of the server; costs no privacy.
    n_clusters : int
    budgets : StepBudgets
        Budgets of the four releases. ``outer=0`` spends nothing on Step 1 and takes the subspace
        of the server points instead.
    rng : numpy.random.Generator
        For the server's own k-means.
    clips : ClipBounds, optional
        Client level only.
    rank : int, optional
        Dimension of the subspace; n_clusters as in the paper by default.
    margin : float
        Step 3 counts a row only if its nearest centre is at most `margin` times as far as any
        other: 1 is off, 1/3 is Algorithm 5.
    minimum_weight : float, optional
        Server points with a noised weight below are dropped. Defaults to 5 at data-point level as
        in the released code, and to the noise's own standard deviation at client level.
    n_init : int
        Restarts of the weighted k-means.

    Returns
    -------
    InitResult

    Raises
    ------
    ValueError, TypeError, LedgerMismatchError, BudgetExceededError
        Before any data is read.
    """
    server, k = check_feddp_run(federation, server_points, n_clusters)
    assert server is not None
    check_rng(rng)
    level = _level(federation, clips)
    rank = min(federation.n_features, k) if rank is None else check_int(
        rank, "rank", maximum=federation.n_features
    )  # fmt: skip
    if not 0 < margin <= 1:
        raise ValueError(f"margin must lie in (0, 1], got {margin}")
    if margin < 1 and level.means is not PROJECTED_SUMS_AND_COUNTS:
        raise ValueError("margin must be 1 at client level")
    check_int(n_init, "n_init")
    if minimum_weight is not None:
        check_non_negative(minimum_weight, "minimum_weight")
    for name in ("weights", "sums", "counts"):
        if getattr(budgets, name) == 0:
            raise ValueError(f"budgets.{name} must be > 0 for FedDP-Init")
    steps = _mechanisms(federation, budgets, level, k, len(server))
    require_budget(federation, [m for n, m in steps.items() if not n.startswith("lloyd")])

    # Step 1: the subspace of the k largest eigenvectors
    if "outer" in steps:
        (noisy_outer,) = federation.noisy_sum(
            level.outer, [steps["outer"]], round=0, **level.outer_args
        )
    else:
        noisy_outer = server.T @ server
    eigenvalues, basis = top_eigenvectors(noisy_outer, rank)

    # Step 2: the server's points, weighted by how many rows are nearest to each
    projected = server @ basis
    (weights,) = federation.noisy_sum(
        level.weights, [steps["weights"]], round=1, public={"n_server_points": len(server)},
        basis=basis, server_points=projected, **level.weights_args,
    )  # fmt: skip
    if minimum_weight is None:
        minimum_weight = 5.0 if federation.ledger.unit == "point" else steps["weights"].std
    kept = surviving_points(weights, minimum=minimum_weight, at_least=k)

    # Step 3: cluster the weighted points, refine by sums over the rows of the clients
    filled = kept > 0
    xi = kmeans.weighted_kmeans(projected[filled], kept[filled], k, rng=rng, n_init=n_init)
    on_margin = level.means is PROJECTED_SUMS_AND_COUNTS
    extra: dict[str, Any] = {"margin": margin} if on_margin else {}
    sums, counts = federation.noisy_sum(
        level.means, [steps["sums"], steps["counts"]], round=2, public={"n_clusters": k},
        basis=basis, centers=xi, **level.means_args, **extra,
    )  # fmt: skip
    centers = centers_from_sums(
        sums, counts, xi @ basis.T, count_floor=count_floor(steps["counts"]),
        radius=federation.bound,
    )  # fmt: skip
    return InitResult(eigenvalues, basis, projected, weights, kept, xi, sums, counts, centers)


def count_floor(mechanism: Mechanism) -> float:
    """Counts below three standard deviations of their own noise say nothing."""
    return max(1.0, 3 * mechanism.std)


# --- Algorithm 2 ----------------------------------------------------------------------------------


def feddp_lloyds(
    federation: SumFederation,
    centers: ArrayLike,
    *,
    budgets: StepBudgets,
    clips: ClipBounds | None = None,
    first_round: int = 3,
) -> tuple[FloatArray, tuple[tuple[FloatArray, FloatArray], ...]]:
    """FedDP-Lloyds: `budgets.n_rounds` rounds of noised sums and counts (Algorithm 2).

    The noise of the sums is that of one Gaussian release at (lloyd_sums, delta) times sqrt(T),
    which is exact for T Gaussians together; Algorithm 2 and the text of section 3.2 print two other
    formulas, both larger (theory checks K2).

    Returns
    -------
    history : ndarray of shape (T + 1, k, d)
        Starting with `centers`.
    released : tuple of (sums, counts)
    """
    check_feddp_run(federation, None, 1)
    centers = as_points(centers, "centers", n_features=federation.n_features)
    level = _level(federation, clips)
    steps = _mechanisms(federation, budgets, level, len(centers), 1)
    history, released = [centers.copy()], []
    if budgets.n_rounds:
        pair = [steps["lloyd_sums"], steps["lloyd_counts"]]
        require_budget(federation, pair * budgets.n_rounds)
        for t in range(budgets.n_rounds):
            sums, counts = federation.noisy_sum(
                level.lloyd, pair, round=first_round + t, public={"n_clusters": len(centers)},
                centers=history[-1], **level.lloyd_args,
            )  # fmt: skip
            released.append((sums, counts))
            history.append(
                centers_from_sums(
                    sums,
                    counts,
                    history[-1],
                    count_floor=count_floor(pair[1]),
                    radius=federation.bound,
                )  # fmt: skip
            )
    return np.stack(history), tuple(released)


# --- both -----------------------------------------------------------------------------------------


def feddp_kmeans(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    budgets: StepBudgets,
    rng: np.random.Generator,
    clips: ClipBounds | None = None,
    **init_options: Any,
) -> FedDPResult:
    """FedDP-Init followed by FedDP-Lloyds.

    Get `budgets` from `budgets_for_total` (a total epsilon, exact by PLD) or `budgets_for_sum`.
    Parameters as in `feddp_init`.
    """
    server, k = check_feddp_run(federation, server_points, n_clusters)
    before = len(federation.ledger.releases)
    assert server is not None
    everything = _mechanisms(federation, budgets, _level(federation, clips), k, len(server))
    require_budget(
        federation,
        [m for n, m in everything.items()
         for _ in range(budgets.n_rounds if n.startswith("lloyd") else 1)],
    )  # fmt: skip
    init = feddp_init(
        federation, server_points, n_clusters=n_clusters, budgets=budgets, rng=rng, clips=clips,
        **init_options,
    )  # fmt: skip
    history, released = feddp_lloyds(federation, init.centers, budgets=budgets, clips=clips)
    own = federation.ledger.since(before)
    return FedDPResult(
        history[-1], init, history, budgets, own, federation.randomness.is_secure, released
    )
