"""Algorithm 1: k-means from one round of locally private reports."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.frequency_oracles import HeavySums
from fedclust_helpers.grids import NestedGrid, grid_for_algorithm_1
from fedclust_helpers.ldp_kmeans.cells import (
    CellCounts,
    CellLevel,
    ChosenCells,
    check_depths,
    check_listing,
    choose_cells,
    descend,
    users_needed,
)
from fedclust_helpers.local_randomizers import (
    RandomizedResponse,
    gaussian_report,
    participations,
)
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.projections import BallProjection

CELLS_PER_CLUSTER = 3  # cells over which a cluster spreads, as a rule of thumb for warnings
GRID = 2.0**-20  # step of discrete Gaussian reports in secure mode


class NothingDetectedWarning(UserWarning):
    """Too few users for this epsilon: no cell stands out of the noise, or hardly any could."""


@dataclass(frozen=True)
class OneRoundPlan:
    """All public numbers of a one-round run, fixed before the first report.

    `sums_share` is the share of users who send vectors; 0 where the centres found among the cells
    are returned as they are.
    """

    n_clusters: int
    n_features: int
    n_outputs: int
    epsilon: float
    delta: float
    depths: tuple[int, ...]
    sums_depth: int | None
    sums_share: float
    n_answers: int
    z: float
    mechanism: Mechanism | None
    needed: int

    @property
    def uses_sums(self) -> bool:
        """Whether the last step recovers centres from vector sums."""
        return self.sums_depth is not None


@dataclass(frozen=True)
class LdpResult:
    """Centres of a locally private run and everything a reader may ask about it.

    `centers` (k, d') in the ball; `low_centers` (k, d) those of the proxy points. `levels` are the
    cells that the server looked at, `chosen` those that became proxy points. All of it is computed
    from randomised reports. `private` is False in teaching mode.
    """

    centers: FloatArray
    low_centers: FloatArray
    proxies: FloatArray
    weights: FloatArray
    plan: object
    epsilon: float
    delta: float
    private: bool
    levels: tuple[CellLevel, ...] = ()
    chosen: ChosenCells | None = None
    grid: NestedGrid | None = None
    projection: BallProjection | None = None
    details: dict[str, object] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """Estimated number of users behind the proxy points."""
        return float(self.weights.sum())

    @property
    def warning(self) -> str:
        """What this run does not give."""
        if not self.private:
            return "teaching mode: not private against anyone who knows the seed"
        return ""


def default_depths(n_outputs: int, epsilon: float) -> tuple[int, ...]:
    """Two levels: cells of side 0.5 and 0.25 up to six dimensions, 1 and 0.5 beyond.

    The additive error is at least sqrt(n) anyway, so cells finer than n^(-1/4) cannot pay; each
    level costs a factor sqrt(2) or so in noise. The constants were chosen on mixtures in the unit
    ball (engineering notes 2.3); they are public.
    """
    check_epsilon(epsilon)
    return (2, 3) if n_outputs <= 6 else (1, 2)


def plan_one_round(
    n_users: int,
    n_features: int,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    sums: bool | Literal["auto"] = "auto",
    n_outputs: int | None = None,
    depths: tuple[int, ...] | None = None,
    sums_share: float | None = None,
    sums_depth: int | None = None,
    n_answers: int | None = None,
    z: float = 3.5,
    secure: bool = False,
) -> OneRoundPlan:
    """The practical parametrisation of Algorithm 1, from public numbers.

    Users are split, not the budget: those who count answer m = max(1, round(epsilon/2.18)) of the
    levels with epsilon/m each; those who sum send one vector with (epsilon, delta).

    Parameters
    ----------
    sums : bool or "auto"
        Recover centres in R^d' with HeavySumsOracle. "auto": only if a projection is needed.
    n_outputs : int, optional
        d after projection: d' up to 6, else 4 (then `sums` is needed).
    depths : tuple of int, optional
        Depths of the grids on [-1, 1]^d; cells of depth p have side 2^(1-p).
    sums_share : float, optional
        Share of users who send vectors: 0.5, or 0.7 for d' > 6.
    sums_depth : int, optional
        Which depth they sum over: 3 for epsilon >= 3, else 2, if those are among the depths.
    """
    n_users = check_int(n_users, "n_users")
    n_features = check_int(n_features, "n_features")
    k = check_int(n_clusters, "n_clusters", maximum=n_users)
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if sums not in (True, False, "auto"):
        raise ValueError(f"sums must be True, False or 'auto', got {sums!r}")
    d = min(n_features, 4 if n_features > 6 else n_features) if n_outputs is None else n_outputs
    check_int(d, "n_outputs", maximum=n_features)
    with_sums = d < n_features if sums == "auto" else bool(sums)
    if d < n_features and not with_sums:
        raise ValueError("sums must be True when points are projected: centres live in R^d'")
    levels = default_depths(d, epsilon) if depths is None else check_depths(tuple(depths))
    m = participations(epsilon, len(levels)) if n_answers is None else n_answers
    check_int(m, "n_answers", maximum=len(levels))
    if n_users < len(levels) + int(with_sums):
        raise ValueError(
            f"n_users must be at least the number of questions, {len(levels) + int(with_sums)}"
        )
    depth, share, mechanism = None, 0.0, None
    if with_sums:
        share = (0.7 if n_features > 6 else 0.5) if sums_share is None else sums_share
        if not 0 < share < 1:
            raise ValueError(f"sums_share must lie in (0, 1), got {share}")
        wanted = 3 if epsilon >= 3 else 2
        depth = (wanted if wanted in levels else levels[-1]) if sums_depth is None else sums_depth
        if depth not in levels:
            raise ValueError(f"sums_depth must be one of the depths {levels}, got {depth}")
        mechanism = gaussian_report(
            1.0, epsilon, delta, grid=GRID if secure else None, n_features=n_features
        )
    needed = users_needed(
        1 / (CELLS_PER_CLUSTER * k), epsilon, len(levels), z=z, user_share=1 - share
    )
    return OneRoundPlan(
        k, n_features, d, epsilon, delta, levels, depth, share, m, check_positive(z, "z"),
        mechanism, needed,
    )  # fmt: skip


def one_round(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    proxies: Literal["center", "corner"] = "center",
    n_init: int = 10,
    **parameters: object,
) -> LdpResult:
    """Algorithm 1 with parameters that work: (epsilon, delta)-LDP for each user, one round.

    1. Public: project to d dimensions (only for d' > 6), nested grids.
    2. Each user sends one bit about the cell of its point (or m bits with epsilon/m each), or one
       noised signed vector.
    3. Server: descend to cells that stand out, choose cells fine to coarse, weighted k-means on
       their centres, and, with sums, the mean of the users near each centre.

    Parameters
    ----------
    federation : LocalReports
        Users with one point each in the unit ball: `local_users`.
    n_clusters : int
    epsilon, delta : float
        For any two values of one user. Without sums the run is pure: delta is not used.
    rng : numpy.random.Generator
        For the server's k-means. (Public coins come from the federation.)
    proxies : {"center", "corner"}
        Where a cell's proxy point lies. The corner is line 8 as printed; returned without sums it
        is off by half a cell diagonal.
    **parameters
        See `plan_one_round`.

    Returns
    -------
    LdpResult

    Raises
    ------
    ValueError, TypeError, TrustModelError, LedgerMismatchError, BudgetExceededError
        Before any data is read.

    Warns
    -----
    NothingDetectedWarning
        If no cell stands out; the message says how many users it would take.
    """
    require_local(federation)
    check_rng(rng)
    check_choice(proxies, "proxies", ("center", "corner"))
    plan = plan_one_round(
        federation.n_records, federation.n_features, n_clusters=n_clusters, epsilon=epsilon,
        delta=delta, secure=federation.randomness.is_secure, **parameters,  # type: ignore[arg-type]
    )  # fmt: skip
    check_int(n_init, "n_init")
    public = federation.randomness.public
    identity = plan.n_outputs == plan.n_features
    projection = BallProjection(
        plan.n_features, plan.n_outputs, rng=public, kind="identity" if identity else "gaussian"
    )
    grid = NestedGrid(plan.n_outputs)
    check_listing(grid, plan.depths)
    counts = CellCounts(
        grid, plan.depths, plan.epsilon, projection=projection, rng=public,
        n_answers=plan.n_answers,
    )  # fmt: skip
    sums = None
    if plan.mechanism is not None and plan.sums_depth is not None:
        sums = cell_sums(grid, plan.sums_depth, projection, plan.mechanism, rng=public)
        federation.divide({"count": 1 - plan.sums_share, "sum": plan.sums_share})
        check_all(federation, [(counts, "count"), (sums, "sum")])
        federation.ask(counts, round=0, part="count")
        federation.ask(sums, round=0, part="sum")
    else:
        check_all(federation, [(counts, None)])
        federation.ask(counts, round=0)
    scale = federation.n_records / max(1, counts.n_users)

    levels = descend(counts)
    chosen = choose_cells(levels, z=plan.z)
    points, weights = chosen.points(grid, proxies), chosen.weight * scale
    warn_if_blind(len(points), plan.needed, federation.n_records, plan.epsilon)
    low = proxy_centers(points, weights, plan.n_clusters, rng=rng, n_init=n_init)
    centers = low
    if sums is not None and plan.sums_depth is not None:
        centers = recover(sums, levels, plan.sums_depth, grid, low, scale=counts.n_users)
        if identity:
            centers = np.where(np.isfinite(centers), centers, low)
        centers = np.nan_to_num(centers, nan=0.0)
    return LdpResult(
        centers, low, points, weights, plan, plan.epsilon, plan.delta if plan.uses_sums else 0.0,
        federation.randomness.is_secure, tuple(levels), chosen, grid, projection,
    )  # fmt: skip


def one_round_as_printed(
    federation: LocalReports,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float = 1e-6,
    rng: np.random.Generator,
    alpha: float = 0.5,
    n_levels: int | None = None,
    z: float = 3.5,
    n_init: int = 10,
) -> LdpResult:
    """Algorithm 1 with the paper's parameters: L = lg n grids, every user in all 2 L calls.

    Each user answers the L histograms with epsilon/(2L) and the L sum oracles with
    (epsilon/(2L), delta/L) each, noise as Algorithm 6 prints it; corners as proxy points; Sum(g)
    and Count(g) by inclusion and exclusion over all levels. The dimension is not reduced
    (k^O(1/alpha^2) cells are out of reach either way).

    Slips of the text that are corrected, or the program would not run: t_l =
    alpha 2^(l-L+1)/sqrt(d) (line 6), L grids instead of L + 1 (line 9), Q for M (line 11), PH
    subtracted at the maximal cell's own level (lines 17-19), a count must exceed its own noise
    before it is picked (line 20), z(g, s) (line 32). Bitstogram over d L bits is replaced by a
    descent through the nested grids: it needs d L times fewer users for the same list, which
    flatters the printed parameters.

    Its counts have standard deviation about (4 L/epsilon) sqrt(n): see `users_needed_as_printed`.
    """
    require_local(federation)
    check_rng(rng)
    d, n = federation.n_features, federation.n_records
    k = check_int(n_clusters, "n_clusters", maximum=n)
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    n_levels = max(1, math.ceil(math.log2(n))) if n_levels is None else n_levels
    check_int(n_levels, "n_levels")
    check_positive(z, "z")
    check_int(n_init, "n_init")
    grid, fine_to_coarse = grid_for_algorithm_1(d, alpha, n_levels)
    depths = tuple(reversed(fine_to_coarse))
    if depths[0] == 0:
        depths = tuple(p + 1 for p in depths)
    check_listing(grid, depths)
    public = federation.randomness.public
    identity = BallProjection(d, d, rng=public, kind="identity")
    per_call = epsilon / (2 * n_levels)
    counts = CellCounts(
        grid, depths, epsilon / 2, projection=identity, rng=public, n_answers=n_levels
    )
    mechanism = gaussian_report(1.0, per_call, delta / n_levels, calibration="as_printed")
    sums = {p: cell_sums(grid, p, identity, mechanism, rng=public) for p in depths}
    check_all(federation, [(counts, None), *((s, None) for s in sums.values())])
    federation.ask(counts, round=0)
    for oracle in sums.values():
        federation.ask(oracle, round=0)

    levels = descend(counts, z=z)
    chosen = choose_cells(
        levels, z=z, vector_sums=lambda p, cells: sums[p].estimate(grid.keys(cells, p))
    )
    points = chosen.points(grid, "corner")
    needed = users_needed_as_printed(1 / (CELLS_PER_CLUSTER * k), epsilon, n_levels, z=z)
    warn_if_blind(len(points), needed, n, epsilon)
    low = proxy_centers(points, chosen.weight, k, rng=rng, n_init=n_init)
    centers = low.copy()
    if len(points) and chosen.sums is not None:
        label = kmeans.assign(points, low).labels
        total = np.zeros_like(low)
        np.add.at(total, label, chosen.sums)
        count = np.bincount(label, weights=chosen.weight, minlength=k)
        centers = np.where(count[:, None] > 0, total / np.maximum(count, 1e-300)[:, None], low)
    return LdpResult(
        to_ball(centers), low, points, chosen.weight, depths, epsilon, delta,
        federation.randomness.is_secure, tuple(levels), chosen, grid, identity,
    )  # fmt: skip


def users_needed_as_printed(
    share: float, epsilon: float, n_levels: int | None = None, *, z: float = 4.0
) -> int:
    """Users for which a cell with `share` of the data shows z sd at epsilon/(2L) per histogram.

    Without `n_levels`, L = lg n of the answer itself (the fixed point of the two).
    """
    check_positive(share, "share")
    n = 2.0
    for _ in range(200):
        levels = math.ceil(math.log2(n)) if n_levels is None else n_levels
        c = RandomizedResponse(check_epsilon(epsilon) / (2 * max(1, levels))).debias
        new = (z * c / share) ** 2
        if math.isclose(new, n, rel_tol=1e-6):
            break
        n = new
    return math.ceil(n)


def require_local(federation: object) -> None:
    """Refuse anything but users who answer for themselves."""
    if not isinstance(federation, LocalReports):
        raise TypeError(
            f"federation must offer ask (LocalReports, see local_users), got"
            f" {type(federation).__name__}"
        )
    if federation.bound != 1.0 or federation.domain != "ball":
        raise ValueError("federation must keep points in the unit ball: local_users(bound=1.0)")


def check_all(federation: LocalReports, queries: list[tuple[object, str | None]]) -> None:
    """Everything that can be refused is refused before the first report, the budget included.

    Costs are added up on a copy of the ledger: one query may fit where all of them do not.
    """
    trial = replace(federation.ledger, releases=list(federation.ledger.releases))
    for query, part in queries:
        federation.check_ask(query, part=part)  # type: ignore[arg-type]
        group = None if part is None or federation.split is None else federation.split.group(part)
        trial.charge(query.mechanisms, name=query.name, group=group)  # type: ignore[attr-defined]


def warn_if_blind(n_proxies: int, needed: int, n_users: int, epsilon: float) -> None:
    """Say how many users it would take when (almost) nothing can be seen."""
    if n_proxies == 0:
        warnings.warn(
            f"nothing stands out of the noise at epsilon={epsilon:g} with {n_users} users: about"
            f" {max(needed, 2 * n_users)} are needed; the centres returned carry no information",
            NothingDetectedWarning,
            stacklevel=3,
        )


def proxy_centers(
    points: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    n_init: int = 10,
) -> FloatArray:
    """Weighted k-means on proxy points; with fewer points than k, the origin fills the rest."""
    n_features = points.shape[1]
    if len(points) <= n_clusters:
        return np.concatenate([points, np.zeros((n_clusters - len(points), n_features))])
    return kmeans.weighted_kmeans(points, weights, n_clusters, rng=rng, n_init=n_init)


def cell_sums(
    grid: NestedGrid,
    depth: int,
    projection: BallProjection,
    mechanism: Mechanism,
    *,
    rng: np.random.Generator,
    n_buckets: int = 2**14,
) -> HeavySums:
    """HeavySumsOracle over the cells of one depth, for the points themselves (line 11)."""

    def encode(points: FloatArray, _: IntArray) -> tuple[np.ndarray, FloatArray]:
        return grid.keys(grid.cells(projection(points), depth), depth), points

    return HeavySums(
        encode, 1.0, projection.n_features, mechanism, rng=rng, n_buckets=n_buckets,
        name="cell sums",
    )  # fmt: skip


def recover(
    sums: HeavySums,
    levels: list[CellLevel],
    depth: int,
    grid: NestedGrid,
    low_centers: FloatArray,
    *,
    scale: float,
) -> FloatArray:
    """Line 31-38: the mean in R^d' of users whose cells lie nearest each low-dimensional centre.

    Sums and counts are those of the cells that stand out at one depth; `scale` is the number of
    users who were counted. Rows without such a cell are nan. Means are cut to the unit ball.
    """
    level = next(lv for lv in levels if lv.depth == depth)
    label = kmeans.assign(grid.centers(level.cells, depth), low_centers).labels if len(
        level.cells
    ) else np.zeros(0, dtype=np.int64)  # fmt: skip
    k = len(low_centers)
    total = np.zeros((k, sums.n_outputs))
    np.add.at(total, label, sums.estimate(grid.keys(level.cells, depth)))
    count = np.bincount(label, weights=level.counts, minlength=k) * (sums.n_users / scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(count[:, None] > 0, total / count[:, None], np.nan)
    return to_ball(means)


def to_ball(points: FloatArray) -> FloatArray:
    """Rows cut to length 1."""
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))
