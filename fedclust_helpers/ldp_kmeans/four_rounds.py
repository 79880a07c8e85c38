"""Algorithms 2-5: heavy cells, candidate centres, proxy data set, recovery, in four rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_delta,
    check_fits,
    check_instance,
    check_int,
    check_non_negative,
    check_positive,
    check_rng,
    short,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.reports import LocalQuery
from fedclust_helpers.ldp_kmeans.cells import (
    CellCounts,
    CellLevel,
    check_levels,
    descend,
    match_rows,
)
from fedclust_helpers.ldp_kmeans.frequency_oracles import HeavySums, OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS
from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash, collision_probability
from fedclust_helpers.ldp_kmeans.one_round import (
    Ask,
    LdpResult,
    following,
    proxy_centers,
    to_ball,
    warn_if_blind,
)
from fedclust_helpers.ldp_kmeans.plans import FourRoundPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection

Keys = NDArray[np.uint64]
NULL_BUCKET = np.uint64(0)


# --- Algorithm 2 ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeavyCells:
    """Heavy cells of each depth (coarse to fine) in a grid whose root is heavy by definition.

    A point belongs to D_l if the cell of level l - 1 that holds it is heavy and the one of level l
    is not. Below the finest depth every cell is light, so the sets D_1, ..., D_(L+1) are a
    partition (Lemma 4.10).
    """

    grid: NestedGrid
    depths: tuple[int, ...]
    cells: tuple[IntArray, ...]

    def level_of(self, points: FloatArray) -> IntArray:
        """l with the point in D_l, 1..L+1: the number of heavy cells around it, plus one."""
        points = as_points(points, n_features=self.grid.n_features)
        level = np.ones(len(points), dtype=np.int64)
        for depth, heavy in zip(self.depths, self.cells, strict=True):
            keys = self.grid.keys(self.grid.cells(points, depth), depth)
            level += np.isin(keys, self.grid.keys(heavy, depth))
        return level

    def parents(self, points: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, Keys]:
        """The smallest heavy cell around each point: level, centre, half diagonal, key (m,)."""
        points = as_points(points, n_features=self.grid.n_features)
        level = self.level_of(points)
        centers = np.empty((len(points), self.grid.n_features))
        half = np.empty(len(points))
        keys = np.empty(len(points), dtype=np.uint64)
        for index, depth in enumerate((0, *self.depths)):
            here = level == index + 1
            cells = self.grid.cells(points[here], depth) if here.any() else np.zeros(
                (0, self.grid.n_features), dtype=np.int64
            )  # fmt: skip
            centers[here] = self.grid.centers(cells, depth)
            half[here] = self.grid.cell_side(depth) * math.sqrt(self.grid.n_features) / 2
            keys[here] = self.grid.keys(cells, depth) * np.uint64(64) + np.uint64(index)
        return level, centers, half, keys

    def centers(self) -> FloatArray:
        """Centres of all heavy cells below the root, coarse to fine: S_H of Algorithm 3."""
        found = [self.grid.centers(c, p) for p, c in zip(self.depths, self.cells, strict=True)]
        return np.concatenate(found)


def mark_heavy_cells(
    grid: NestedGrid,
    levels: Sequence[CellLevel],
    *,
    n_clusters: int,
    beta: float = 0.1,
    opt: float | None = None,
    z: float = 3.5,
) -> HeavyCells:
    """Algorithm 2: a cell is heavy if its count is large and its parent is heavy.

    Large means beyond the noise, z sd, and, for a guess `opt` of the optimal cost, beyond
    ``beta d opt/(t_l^2 k L)`` (the code prints d^2/d). The printed loop starts at l = 2 while H_1
    stays empty, so nothing below the root would ever be heavy; it starts at 1 here.

    Parameters
    ----------
    levels : sequence of CellLevel
        Counted cells, coarse to fine.
    opt : float, optional
        Guess of the optimal cost in the projected space; None leaves the noise to decide.
    """
    if not isinstance(grid, NestedGrid):
        raise TypeError(f"grid must be a NestedGrid, got {type(grid).__name__}")
    check_levels(levels)
    d, n_levels = grid.n_features, len(levels)
    k, z = check_int(n_clusters, "n_clusters"), check_non_negative(z, "z")
    beta = check_positive(beta, "beta")
    heavy: list[IntArray] = []
    for index, level in enumerate(levels):
        limit = z * level.std
        if opt is not None:
            side = grid.cell_side(level.depth)
            limit = max(limit, beta * d * check_positive(opt, "opt") / (side**2 * k * n_levels))
        ok = level.counts >= limit
        if index:
            above = grid.ancestors(level.cells, level.depth, levels[index - 1].depth)
            ok &= match_rows(above, heavy[-1]) >= 0
        heavy.append(level.cells[ok])
    return HeavyCells(grid, tuple(lv.depth for lv in levels), tuple(heavy))


def synthetic_space(
    heavy: HeavyCells, points: FloatArray, *, separation: float
) -> tuple[FloatArray, IntArray]:
    """Lambda (Algorithm 4, line 19): (which heavy cell, position in it) as one vector.

    Coordinates 1..H are `separation` times the indicator of the heavy cell around the point, the
    last d its position relative to that cell's centre, so points of different cells are at least
    ``sqrt(2) separation`` apart. (The text subtracts o(C_l(p)) instead of the ancestor's centre,
    which lays all cells of one ancestor on top of each other.)

    Returns
    -------
    images (n, H + d), index of the heavy cell (n,)
    """
    if not isinstance(heavy, HeavyCells):
        raise TypeError(f"heavy must be HeavyCells, got {type(heavy).__name__}")
    points = as_points(points, n_features=heavy.grid.n_features)
    _, centers, _, keys = heavy.parents(points)
    distinct, index = np.unique(keys, return_inverse=True)
    images = np.zeros((len(points), len(distinct) + points.shape[1]))
    images[np.arange(len(points)), index] = check_positive(separation, "separation")
    images[:, len(distinct) :] = points - centers
    return images, index


# --- Algorithms 3 and 4 --------------------------------------------------------------------------


class _Buckets:
    """The bucket of a point for one guess, scale and repetition: (D_l, heavy cell, LSH bucket)."""

    def __init__(
        self, plan: FourRoundPlan, markings: list[HeavyCells], rng: np.random.Generator
    ) -> None:
        self.markings = markings
        levels: Sequence[int | None] = (
            [None] if plan.joint_levels else range(1, len(plan.depths) + 2)
        )
        self.calls = list(
            product(range(len(markings)), levels, plan.scales, range(plan.repetitions))
        )
        # a cell's half diagonal is 1 after normalising, its side 2/sqrt(d)
        side = 2 / math.sqrt(plan.n_outputs)
        self.hashes = [
            BallCarvingHash(plan.n_outputs, rng=rng, t=plan.t, scale=scale * side)
            for _, _, scale, _ in self.calls
        ]

    def locate(self, images: FloatArray, call: int) -> tuple[Keys, FloatArray]:
        """Keys (m,) and positions in the heavy cell in units of its half diagonal (m, d)."""
        guess, level, _, _ = self.calls[call]
        where, centers, half, cell_keys = self.markings[guess].parents(images)
        local = (images - centers) / half[:, None]
        with np.errstate(over="ignore"):
            bucket = self.hashes[call](local)
            keys = bucket ^ (cell_keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(2 * call + 3)
        silent = bucket == 0
        if level is not None:
            silent |= where != level
        return np.where(silent, NULL_BUCKET, keys), local


def candidate_centers(
    plan: FourRoundPlan,
    buckets: _Buckets,
    counts: OneBitCounts,
    sums: HeavySums,
    *,
    rng: np.random.Generator,
    points_per_cell: int = 3000,
    n_everywhere: int = 20_000,
) -> FloatArray:
    """Algorithm 3: one candidate for each heavy bucket, the bucket's mean inside its heavy cell.

    The server cannot list all t^O(t) log n buckets. It hashes public random points of the heavy
    cells and looks their buckets up, which costs no privacy and replaces Bitstogram.
    """
    check_instance(plan, FourRoundPlan, "plan")
    check_instance(buckets, _Buckets, "buckets", what="the buckets of a plan")
    for oracle, name in ((counts, "counts"), (sums, "sums")):
        if isinstance(oracle, type) or not hasattr(oracle, "estimate"):
            raise TypeError(f"{name} must be an oracle of bucket {name}, got {short(oracle)}")
    check_rng(rng)
    points_per_cell = check_int(points_per_cell, "points_per_cell", minimum=0)
    n_everywhere = check_int(n_everywhere, "n_everywhere", minimum=0)
    most = max((sum(map(len, heavy.cells)) for heavy in buckets.markings), default=0)
    check_fits(n_everywhere * plan.n_outputs, "n_everywhere", limit=MAX_NUMBERS)
    check_fits(most * points_per_cell * plan.n_outputs, "points_per_cell", limit=MAX_NUMBERS)
    found = []
    for call, (guess, _, _, _) in enumerate(buckets.calls):
        heavy = buckets.markings[guess]
        probes = [rng.uniform(-1, 1, size=(n_everywhere, plan.n_outputs))]
        for depth, cells in zip(heavy.depths, heavy.cells, strict=True):
            side = heavy.grid.cell_side(depth)
            offsets = rng.random((len(cells), points_per_cell, plan.n_outputs)) * side
            corners = heavy.grid.corners(cells, depth)
            probes.append((corners[:, None] + offsets).reshape(-1, plan.n_outputs))
        probe = np.concatenate(probes)
        keys, _ = buckets.locate(probe, call)
        keys, first = np.unique(keys, return_index=True)
        real = keys != NULL_BUCKET
        keys, first = keys[real], first[real]
        size = counts.estimate(keys, channel=call)
        kept = size > plan.z * counts.std(channel=call)
        if not kept.any():
            continue
        _, centers, half, _ = heavy.parents(probe[first[kept]])
        share = sums.n_users / max(1, counts.n_users) / len(buckets.calls)
        mean = sums.estimate(keys[kept]) / (size[kept] * share)[:, None]
        # back into the cell that the bucket belongs to
        limit = 1 / math.sqrt(plan.n_outputs)
        found.append(centers + half[:, None] * np.clip(mean, -limit, limit))
    return np.concatenate(found) if found else np.zeros((0, plan.n_outputs))


def run_four_rounds(
    federation: LocalReports, plan: FourRoundPlan, *, rng: np.random.Generator, progress: bool
) -> LdpResult:
    """Algorithm 4 with Algorithms 2, 3 and 5, reduced to what a laptop's n can carry.

    1. Count cells of a randomly shifted hierarchy; mark the heavy ones (Algorithm 2).
    2. (``lsh=True``) Count and sum LSH buckets inside heavy cells; candidates (Algorithm 3).
    3. Each user names the nearest candidate: proxy data set, weighted k-means (Algorithm 5).
    4. Each user names the nearest centre, or sends a noised vector for it: means in R^d'.
    """
    check_rng(rng)
    n, d, k = federation.n_records, plan.n_outputs, plan.n_clusters
    public = federation.randomness.public
    identity = d == plan.n_features
    projection = BallProjection(
        plan.n_features, d, rng=public, kind="identity" if identity else "gaussian"
    )
    # the shifted cube has twice the side: the same cells lie one level deeper
    grid = NestedGrid.shifted(d, rng=public) if plan.shifted else NestedGrid(d)
    depths = tuple(p + 1 for p in plan.depths) if plan.shifted else plan.depths
    nearest, origin = _NearestQuery(projection, plan, public), np.zeros((1, d))
    with following(federation, plan, [], progress=progress) as (ask, n_before):
        # round 1: cells
        cells = CellCounts(grid, depths, plan.epsilon, projection=projection, rng=public)
        later = [nearest.counts(origin, f"nearest {what}") for what in ("candidate", "centre")]
        known: list[LocalQuery] = [cells, *later, nearest.sums(origin)]
        for query in known:
            federation.check_ask(query)  # what can be refused is refused before the first report
        ask(cells, round=0, part="cells")
        levels = [_scaled(lv, n / max(1, cells.n_users)) for lv in descend(cells)]
        guesses: list[float | None] = [None]
        if plan.n_guesses is not None:
            guesses = [k * math.sqrt(n) * 2.0**f for f in range(plan.n_guesses)]
        markings = [
            mark_heavy_cells(grid, levels, n_clusters=k, opt=guess, z=plan.z) for guess in guesses
        ]
        candidates = np.unique(np.concatenate([m.centers() for m in markings]), axis=0)

        # round 2: buckets
        if plan.lsh:
            found = _ask_buckets(ask, plan, markings, projection, public)
            candidates = np.concatenate([candidates, found])
        warn_if_blind(len(candidates), plan, n)
        if not len(candidates):
            candidates = origin

        # round 3: proxy data set
        ballots = nearest.counts(candidates, "nearest candidate")
        ask(ballots, round=2, part="proxy")
        weights = ballots.estimate(np.arange(len(candidates), dtype=np.uint64))
        kept = weights > 2 * ballots.std()
        weights = weights * (n / max(1, ballots.n_users))
        proxies, weights = candidates[kept], weights[kept]
        low = proxy_centers(proxies, weights, k, rng=rng, n_init=plan.n_init)

        # round 4: recovery (Algorithm 5)
        tally, vectors = nearest.counts(low, "nearest centre"), nearest.sums(low)
        ask(tally, round=3, part="recovery count")
        ask(vectors, round=3, part="recovery sum")
    keys = np.arange(k, dtype=np.uint64)
    count = tally.estimate(keys) * (vectors.n_users / max(1, tally.n_users))
    seen = count > 2 * tally.std() * (vectors.n_users / max(1, tally.n_users))
    fallback = low if identity else np.zeros((k, plan.n_features))
    means = vectors.estimate(keys) / np.where(seen, count, 1.0)[:, None]
    centers = to_ball(np.where(seen[:, None], means, fallback))
    return LdpResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=federation.randomness.is_secure, centers=centers, low_centers=low, proxies=proxies,
        weights=weights, levels=tuple(levels), grid=grid, projection=projection,
        details={"heavy": markings, "candidates": candidates},
    )  # fmt: skip


class _NearestQuery:
    """Questions "which of these public points is nearest to yours?" in the projected space."""

    def __init__(
        self, projection: BallProjection, plan: FourRoundPlan, rng: np.random.Generator
    ) -> None:
        self.projection, self.plan, self.rng = projection, plan, rng

    def _label(self, points: FloatArray, targets: FloatArray) -> Keys:
        return kmeans.assign(self.projection(points), targets).labels.astype(np.uint64)

    def counts(self, targets: FloatArray, name: str) -> OneBitCounts:
        """One bit about the index of the nearest target."""
        return OneBitCounts(
            lambda points, _: Question(self._label(points, targets)), self.plan.epsilon,
            rng=self.rng, name=name, public={name.removeprefix("nearest ") + "s": targets},
        )  # fmt: skip

    def sums(self, targets: FloatArray) -> HeavySums:
        """The point itself, signed by the index of the nearest target (Algorithm 5, line 7).

        The paper sends all k d' numbers with noise of sensitivity sqrt(2); two points p and -p of
        one cluster differ by 2. Here the sign matrix keeps it at d' numbers, sensitivity 2.
        """
        return HeavySums(
            lambda points, _: (self._label(points, targets), points), 1.0, self.plan.n_features,
            self.plan.mechanism, rng=self.rng, n_buckets=2**10, name="points by nearest centre",
        )  # fmt: skip


def _scaled(level: CellLevel, factor: float) -> CellLevel:
    return CellLevel(level.depth, level.cells, level.counts * factor, level.std * factor)


def _ask_buckets(
    ask: Ask,
    plan: FourRoundPlan,
    markings: list[HeavyCells],
    projection: BallProjection,
    public: np.random.Generator,
) -> FloatArray:
    """Round 2: one bit about the bucket, or one noised vector, of each user; then Algorithm 3."""
    buckets = _Buckets(plan, markings, public)
    n_calls = len(buckets.calls)

    def bit(points: FloatArray, channels: IntArray) -> Question:
        images, keys = projection(points), np.zeros(len(points), dtype=np.uint64)
        for call in range(n_calls):
            here = channels == call
            if here.any():
                keys[here] = buckets.locate(images[here], call)[0]
        return Question(keys)

    def vector(points: FloatArray, channels: IntArray) -> tuple[Keys, FloatArray]:
        images = projection(points)
        keys, local = np.zeros(len(points), dtype=np.uint64), np.zeros_like(images)
        for call in range(n_calls):
            here = channels == call
            if here.any():
                keys[here], local[here] = buckets.locate(images[here], call)
        return keys, local

    heavy = {f"heavy cells, marking {i}": marking.centers() for i, marking in enumerate(markings)}
    counts = OneBitCounts(
        bit, plan.epsilon, rng=public, shares=[1.0] * n_calls, n_buckets=2**14, name="LSH buckets",
        public=heavy,
    )  # fmt: skip
    sums = HeavySums(
        vector, 1.0, plan.n_outputs, plan.low_mechanism, rng=public, shares=[1.0] * n_calls,
        name="bucket sums",
    )  # fmt: skip
    ask(counts, round=1, part="buckets")
    ask(sums, round=1, part="bucket sums")
    return candidate_centers(plan, buckets, counts, sums, rng=public)


def printed_calls(
    n_users: int, n_outputs: int, n_clusters: int, *, t: int = 4, beta: float = 0.1
) -> dict[str, float]:
    """How many parallel calls Algorithm 4 makes as printed, and what each would get.

    L = lg n, F = lg(sqrt(n)/k), M = 1 + lg(d^(3/2) sqrt(L)), R = ln(k L^2/beta)/p(1) (constant 1).
    """
    n = check_int(n_users, "n_users", minimum=2)
    n_outputs = check_int(n_outputs, "n_outputs")
    n_clusters = check_int(n_clusters, "n_clusters")
    beta = check_delta(beta, "beta")
    levels = math.ceil(math.log2(n))
    guesses = max(1, math.ceil(math.log2(n / (math.sqrt(n) * n_clusters))))
    scales = math.ceil(1 + math.log2(n_outputs**1.5 * math.sqrt(levels)))
    repetitions = math.ceil(math.log(n_clusters * levels**2 / beta) / collision_probability(1.0, t))
    calls = guesses * levels * scales * repetitions
    return {
        "F": guesses, "L": levels, "M": scales, "R": repetitions, "calls": calls,
        "epsilon_share": 1 / (8 * calls), "users_per_call": n / calls,
    }  # fmt: skip
