"""Algorithm 1: k-means from one round of locally private reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from tqdm.auto import tqdm

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_int,
    check_rng,
)
from fedclust_helpers.federation import LocalReports, RunResult
from fedclust_helpers.federation.reports import LocalQuery
from fedclust_helpers.ldp_kmeans.cells import (
    CellCounts,
    CellLevel,
    ChosenCells,
    choose_cells,
    descend,
)
from fedclust_helpers.ldp_kmeans.frequency_oracles import HeavySums
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.plans import (
    CELLS_PER_CLUSTER,
    LocalPlan,
    OneRoundPlan,
    PrintedPlan,
)
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.mechanisms import Mechanism


class NothingDetectedWarning(UserWarning):
    """Too few users for this epsilon: no cell stands out of the noise, or hardly any could."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LdpResult(RunResult):
    """Centres of a locally private run and everything a reader may ask about it.

    `centers` (k, d') in the ball; `low_centers` (k, d) those of the proxy points. `levels` are the
    cells that the server looked at, `chosen` those that became proxy points. All of it is computed
    from randomised reports.
    """

    plan: LocalPlan
    centers: FloatArray
    low_centers: FloatArray = field(repr=False)
    proxies: FloatArray = field(repr=False)
    weights: FloatArray = field(repr=False)
    levels: tuple[CellLevel, ...] = field(repr=False, default=())
    chosen: ChosenCells | None = field(repr=False, default=None)
    grid: NestedGrid | None = field(repr=False, default=None)
    projection: BallProjection | None = field(repr=False, default=None)
    details: dict[str, object] = field(repr=False, default_factory=dict)

    @property
    def coverage(self) -> float:
        """Estimated number of users behind the proxy points."""
        return float(self.weights.sum())


class Ask(Protocol):
    """`LocalReports.ask` within a plan."""

    def __call__(self, query: LocalQuery, *, round: int, part: str | None = None) -> None: ...


@contextmanager
def following(
    federation: LocalReports, plan: LocalPlan, queries: Sequence[LocalQuery], *, progress: bool
) -> Iterator[tuple[Ask, int]]:
    """Follow a plan: ``ask``, and how many releases the ledger held before.

    `queries` are those that are known before the first report: what can be refused is refused here.
    """
    with federation.follow(plan) as n_before:
        for query in queries:
            federation.check_ask(query)
        if plan.parts:
            federation.divide(plan.shares)
        with tqdm(total=len(plan.releases), disable=not progress, desc=plan.method) as bar:

            def ask(query: LocalQuery, *, round: int, part: str | None = None) -> None:
                federation.ask(query, round=round, part=part)
                bar.update()

            yield ask, n_before


def run_one_round(
    federation: LocalReports, plan: OneRoundPlan, *, rng: np.random.Generator, progress: bool
) -> LdpResult:
    """Algorithm 1 with parameters that work; or one grid.

    1. Public: project to d dimensions (only for d' > 6), nested grids.
    2. Each user sends one bit about the cell of its point (or m bits with epsilon/m each), or one
       noised signed vector.
    3. Server: descend to cells that stand out, choose cells fine to coarse, weighted k-means on
       their centres, and, with sums, the mean of the users near each centre.
    """
    check_rng(rng)
    public = federation.randomness.public
    identity = plan.n_outputs == plan.n_features
    projection = BallProjection(
        plan.n_features, plan.n_outputs, rng=public, kind="identity" if identity else "gaussian"
    )
    grid = NestedGrid(plan.n_outputs)
    counts = CellCounts(
        grid, plan.depths, plan.epsilon, projection=projection, rng=public,
        n_answers=plan.n_answers,
    )  # fmt: skip
    sums = None
    if plan.mechanism is not None and plan.sums_depth is not None:
        sums = cell_sums(grid, plan.sums_depth, projection, plan.mechanism, rng=public)
    known: list[LocalQuery] = [counts] if sums is None else [counts, sums]
    with following(federation, plan, known, progress=progress) as (ask, n_before):
        ask(counts, round=0, part=None if sums is None else "count")
        if sums is not None:
            ask(sums, round=0, part="sum")
    scale = federation.n_records / max(1, counts.n_users)

    levels = descend(counts)
    chosen = choose_cells(levels, z=plan.z)
    points, weights = chosen.points(grid, plan.proxies), chosen.weight * scale
    warn_if_blind(len(points), plan, federation.n_records)
    low = proxy_centers(points, weights, plan.n_clusters, rng=rng, n_init=plan.n_init)
    centers = low
    if sums is not None and plan.sums_depth is not None:
        centers = recover(sums, levels, plan.sums_depth, grid, low, scale=counts.n_users)
        if identity:
            centers = np.where(np.isfinite(centers), centers, low)
        centers = np.nan_to_num(centers, nan=0.0)
    return LdpResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=federation.randomness.is_secure, centers=centers, low_centers=low, proxies=points,
        weights=weights, levels=tuple(levels), chosen=chosen, grid=grid, projection=projection,
    )  # fmt: skip


def run_as_printed(
    federation: LocalReports, plan: PrintedPlan, *, rng: np.random.Generator, progress: bool
) -> LdpResult:
    """Algorithm 1 with the paper's parameters: L grids, every user in all 2 L calls.

    Corners as proxy points; Sum(g) and Count(g) by inclusion and exclusion over all levels. The
    dimension is not reduced (k^O(1/alpha^2) cells are out of reach either way).

    Slips of the text that are corrected, or the program would not run: t_l =
    alpha 2^(l-L+1)/sqrt(d) (line 6), L grids instead of L + 1 (line 9), Q for M (line 11), PH
    subtracted at the maximal cell's own level (lines 17-19), a count must exceed its own noise
    before it is picked (line 20), z(g, s) (line 32). Bitstogram over d L bits is replaced by a
    descent through the nested grids: it needs d L times fewer users for the same list, which
    flatters the printed parameters.
    """
    check_rng(rng)
    d, k, grid = plan.n_features, plan.n_clusters, plan.grid
    public = federation.randomness.public
    identity = BallProjection(d, d, rng=public, kind="identity")
    counts = CellCounts(
        grid, plan.depths, plan.epsilon / 2, projection=identity, rng=public,
        n_answers=plan.n_levels,
    )  # fmt: skip
    sums = {p: cell_sums(grid, p, identity, plan.mechanism, rng=public) for p in plan.depths}
    known: list[LocalQuery] = [counts, *sums.values()]
    with following(federation, plan, known, progress=progress) as (ask, n_before):
        for query in known:
            ask(query, round=0)

    levels = descend(counts, z=plan.z)
    chosen = choose_cells(
        levels, z=plan.z, vector_sums=lambda p, cells: sums[p].estimate(grid.keys(cells, p))
    )
    points = chosen.points(grid, "corner")
    warn_if_blind(len(points), plan, federation.n_records)
    low = proxy_centers(points, chosen.weight, k, rng=rng, n_init=plan.n_init)
    centers = low.copy()
    if len(points) and chosen.sums is not None:
        label = kmeans.assign(points, low).labels
        total = np.zeros_like(low)
        np.add.at(total, label, chosen.sums)
        count = np.bincount(label, weights=chosen.weight, minlength=k)
        centers = np.where(count[:, None] > 0, total / np.maximum(count, 1e-300)[:, None], low)
    return LdpResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=federation.randomness.is_secure, centers=to_ball(centers), low_centers=low,
        proxies=points, weights=chosen.weight, levels=tuple(levels), chosen=chosen, grid=grid,
        projection=identity,
    )  # fmt: skip


def warn_if_blind(n_proxies: int, plan: LocalPlan, n_users: int) -> None:
    """Say how many users it would take when (almost) nothing can be seen."""
    if n_proxies == 0:
        share = 1 / (CELLS_PER_CLUSTER * plan.n_clusters)
        warnings.warn(
            f"nothing stands out of the noise at epsilon={plan.epsilon:g} with {n_users} users:"
            f" about {max(plan.needed, 2 * n_users)} are needed to see cells that hold {share:.1%}"
            f" of them ({plan.z:g} standard deviations); the centres returned carry no information",
            NothingDetectedWarning,
            stacklevel=4,
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
    k = check_int(n_clusters, "n_clusters")
    n_features = points.shape[1]
    if len(points) <= k:
        return np.concatenate([points, np.zeros((k - len(points), n_features))])
    return kmeans.weighted_kmeans(points, weights, k, rng=rng, n_init=n_init)


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
