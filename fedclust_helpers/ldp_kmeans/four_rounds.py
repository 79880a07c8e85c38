"""Algorithms 2 to 5: heavy cells, candidate centres, proxy data set, recovery, in four rounds.

Lines are those of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_instance,
    check_non_negative,
)
from fedclust_helpers.federation import LocalReports
from fedclust_helpers.federation.reports import LocalQuery, Words
from fedclust_helpers.ldp_kmeans import heavy_cells, results
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, CellLevel, HeavyCells
from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from fedclust_helpers.ldp_kmeans.planning import FourRoundPlan
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums

REPETITIONS = 2  # R
SCALE = 0.5  # the distance r of the LSH, as a share of the heavy cell's side; one for all M
PROBES_PER_CELL = 3000  # public points whose buckets the server looks up
PROBES_EVERYWHERE = 20_000
NULL_BUCKET = np.uint64(0)


def run_four_rounds(
    federation: LocalReports, plan: FourRoundPlan, *, rng: np.random.Generator, progress: Progress
) -> results.LdpResult:
    """Algorithm 4 with Algorithms 2, 3 and 5, reduced to what a laptop's n can carry."""
    n, k, d = federation.n_records, plan.n_clusters, plan.n_outputs
    public = federation.randomness.public
    # Algorithm 4, lines 2 to 7: the map Q, a randomly shifted hierarchy; public
    q = results.ball_projection(federation, plan.n_features, d)
    grid = NestedGrid.shifted(d, rng=public)
    # the shifted cube has twice the side: the same cells lie one level deeper
    depths = tuple(p + 1 for p in plan.depths)
    nearest, origin = results.NearestQuery(q, plan, rng=public), np.zeros((1, d))
    with results.following(federation, plan, [], progress) as held:
        cells = CellCounts(grid, depths, plan.epsilon, projection=q, rng=public)
        later = [nearest.counts(origin, f"nearest {what}") for what in ("candidate", "centre")]
        known: list[LocalQuery] = [cells, *later, nearest.sums(origin)]
        for query in known:
            federation.check_ask(query)  # what can be refused is refused before the first report

        # round 1, lines 8 to 14: count the cells, mark the heavy ones (Algorithm 2)
        federation.ask(cells, round=0, part="cells")
        levels = [_scaled(level, n / max(1, cells.n_users)) for level in heavy_cells.descend(cells)]
        heavy = mark_heavy_cells(grid, levels, n_sd=plan.n_sd)
        candidates = np.unique(heavy.centers(), axis=0)  # Algorithm 3, line 2

        # round 2, lines 15 to 27: candidates from LSH buckets (Algorithm 3)
        if plan.lsh:
            buckets = Buckets(plan, heavy, rng=public)
            tally, vectors = buckets.counts(q, rng=public), buckets.sums(q, rng=public)
            federation.ask(tally, round=1, part="buckets")
            federation.ask(vectors, round=1, part="bucket sums")
            found = candidate_centers(plan, buckets, tally, vectors, rng=public)
            candidates = np.concatenate([candidates, found])
        results.warn_if_blind(len(candidates), plan, n)
        if not len(candidates):
            candidates = origin

        # round 3, Algorithm 5, lines 1 to 4: votes for candidates, S* of the proxy data set
        ballots = nearest.counts(candidates, "nearest candidate")
        federation.ask(ballots, round=2, part="proxy")
        weights = ballots.estimate(np.arange(len(candidates), dtype=np.uint64))
        kept = weights > 2 * ballots.std()
        weights = weights * (n / max(1, ballots.n_users))
        proxies, weights = candidates[kept], weights[kept]
        low = results.proxy_centers(proxies, weights, plan, rng=rng)

        # round 4, Algorithm 5, lines 5 to 9: who is nearest each centre, and where
        tally, vectors = nearest.counts(low), nearest.sums(low)
        federation.ask(tally, round=3, part="recovery count")
        federation.ask(vectors, round=3, part="recovery sum")
    # Algorithm 5, lines 10 to 15: means in R^d'
    fallback = low if d == plan.n_features else np.zeros((k, plan.n_features))
    centers = results.means_of(tally, vectors, fallback, n_sd=2)
    return results.result_of(
        federation, plan, held, centers, low_centers=low, proxies=proxies, weights=weights,
        levels=tuple(levels), heavy=heavy, candidates=candidates, grid=grid, projection=q,
    )  # fmt: skip


def _scaled(level: CellLevel, factor: float) -> CellLevel:
    return CellLevel(level.depth, level.cells, level.counts * factor, level.std * factor)


# --- Algorithm 2 ---------------------------------------------------------------------------------


def mark_heavy_cells(
    grid: NestedGrid, levels: Sequence[CellLevel], *, n_sd: float = 3.5
) -> HeavyCells:
    """Algorithm 2: a cell is heavy if its count is large and its parent is heavy.

    Large means beyond the noise, `n_sd` standard deviations. (Line 8 adds ``beta d OPT/(t_l^2 k
    L)`` for a guess of OPT, which no laptop's n can tell from the noise. The printed loop starts at
    l = 2 while H_1 stays empty, so nothing below the root would ever be heavy; it starts at 1
    here.)

    Parameters
    ----------
    levels : sequence of CellLevel
        Counted cells, coarse to fine.
    """
    check_instance(grid, NestedGrid, "grid")
    heavy_cells.check_levels(levels)
    n_sd = check_non_negative(n_sd, "n_sd")
    heavy: list[IntArray] = []
    for index, level in enumerate(levels):  # line 6
        large = level.counts >= n_sd * level.std  # line 8
        if index:
            above = grid.ancestors(level.cells, level.depth, levels[index - 1].depth)
            large &= heavy_cells.match_rows(above, heavy[-1]) >= 0
        heavy.append(level.cells[large])  # line 9; the others are light
    return HeavyCells(grid, tuple(lv.depth for lv in levels), tuple(heavy))


# --- Algorithm 3 ---------------------------------------------------------------------------------


class Buckets:
    """H of Algorithm 4: the bucket (D_l, heavy cell, LSH bucket) of a point, R of them."""

    def __init__(self, plan: FourRoundPlan, heavy: HeavyCells, *, rng: np.random.Generator) -> None:
        self.plan, self.heavy = plan, heavy
        # a cell's half diagonal is 1 after normalising, its side 2/sqrt(d)
        scale = SCALE * (2 / math.sqrt(plan.n_outputs))
        self.hashes = [
            BallCarvingHash(plan.n_outputs, rng=rng, t=plan.t, scale=scale)
            for _ in range(REPETITIONS)
        ]

    def locate(self, images: FloatArray, call: int) -> tuple[Words, FloatArray]:
        """Keys (m,) and positions in the heavy cell in units of its half diagonal (m, d).

        Lambda of line 19 without its indicator: the key tells heavy cells apart. (The text
        subtracts o(C_l(p)) instead of the ancestor's centre, which lays all cells of one ancestor
        on top of each other.)
        """
        _, centers, half, cell_keys = self.heavy.parents(images)
        local = (images - centers) / half[:, None]
        with np.errstate(over="ignore"):
            bucket = self.hashes[call](local)
            keys = bucket ^ (cell_keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(2 * call + 3)
        return np.where(bucket == 0, NULL_BUCKET, keys), local

    def _encode(self, images: FloatArray, channels: IntArray) -> tuple[Words, FloatArray]:
        keys, local = np.zeros(len(images), dtype=np.uint64), np.zeros_like(images)
        for call in range(len(self.hashes)):
            here = channels == call
            if here.any():
                keys[here], local[here] = self.locate(images[here], call)
        return keys, local

    def counts(self, q: BallProjection, *, rng: np.random.Generator) -> OneBitCounts:
        """Line 21: one bit of each user about the bucket of one repetition."""
        return OneBitCounts(
            lambda points, channels: Question(self._encode(q(points), channels)[0]),
            self.plan.epsilon, rng=rng, shares=[1.0] * len(self.hashes), n_buckets=2**14,
            name="LSH buckets", public={"heavy cells, marking 0": self.heavy.centers()},
        )  # fmt: skip

    def sums(self, q: BallProjection, *, rng: np.random.Generator) -> HeavySums:
        """Line 22: the noised position in the heavy cell, signed by the bucket."""
        return HeavySums(
            lambda points, channels: self._encode(q(points), channels), 1.0, self.plan.n_outputs,
            self.plan.low_mechanism, rng=rng, shares=[1.0] * len(self.hashes), name="bucket sums",
        )  # fmt: skip


def candidate_centers(
    plan: FourRoundPlan, buckets: Buckets, counts: OneBitCounts, sums: HeavySums, *,
    rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """Algorithm 3: one candidate for each heavy bucket, the bucket's mean inside its heavy cell.

    The server cannot list all t^O(t) log n buckets. It hashes public random points of the heavy
    cells and looks their buckets up, which costs no privacy and replaces Bitstogram.
    """
    heavy, d, found = buckets.heavy, plan.n_outputs, []
    for call in range(len(buckets.hashes)):  # line 5
        probes = [rng.uniform(-1, 1, size=(PROBES_EVERYWHERE, d))]
        for depth, cells in zip(heavy.depths, heavy.cells, strict=True):
            offsets = rng.random((len(cells), PROBES_PER_CELL, d)) * heavy.grid.cell_side(depth)
            corners = heavy.grid.corners(cells, depth)
            probes.append((corners[:, None] + offsets).reshape(-1, d))
        probe = np.concatenate(probes)
        keys, first = np.unique(buckets.locate(probe, call)[0], return_index=True)
        real = keys != NULL_BUCKET
        keys, first = keys[real], first[real]
        # line 6: buckets whose count stands out
        size = counts.estimate(keys, channel=call)
        kept = size > plan.n_sd * counts.std(channel=call)
        if not kept.any():
            continue
        _, centers, half, _ = heavy.parents(probe[first[kept]])
        # line 7: their means
        share = sums.n_users / max(1, counts.n_users) / len(buckets.hashes)
        mean = sums.estimate(keys[kept]) / (size[kept] * share)[:, None]
        # lines 8 and 9: back into the cell that the bucket belongs to (the text adds b-hat itself)
        limit = 1 / math.sqrt(d)
        found.append(centers + half[:, None] * np.clip(mean, -limit, limit))
    return np.concatenate(found) if found else np.zeros((0, d))
