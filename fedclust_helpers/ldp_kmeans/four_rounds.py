"""Algorithms 2 to 5: heavy cells, candidate centres, proxy data set, recovery, in four rounds.

Lines are those of the paper, which runs F L M R bucket histograms and sum oracles in parallel, each
with a share of the budget. Here R = 2 of each: every point is in exactly one D_l, so one question
with value (l, bucket) replaces L; the oracle's own noise decides what is heavy, for any of the F
guesses of the cost that a laptop's n could tell apart; and one LSH scale stands for M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from fedclust_helpers._validation import Count, FloatArray, IntArray, check_int
from fedclust_helpers.federation import Plan
from fedclust_helpers.federation.reports import Words
from fedclust_helpers.ldp_kmeans import heavy_cells, shared
from fedclust_helpers.ldp_kmeans.depths import Expected, runs_of_depths
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts, CellLevel, HeavyCells
from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.shared import Deviations, Report, Starts
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.program import Ask, Divide, Public, Steps

REPETITIONS = 2  # R
SCALE = 0.5  # the distance r of the LSH, as a share of the heavy cell's side; one for all M
PROBES_PER_CELL = 3000  # public points whose buckets the server looks up
PROBES_EVERYWHERE = 20_000
NULL_BUCKET = np.uint64(0)
# the share of users for each question
WITHOUT_LSH = {"cells": 0.4, "proxy": 0.3, "recovery count": 0.1, "recovery sum": 0.2}
WITH_LSH = {
    "cells": 0.30, "buckets": 0.10, "bucket sums": 0.10, "proxy": 0.25,
    "recovery count": 0.25 / 3, "recovery sum": 0.5 / 3,
}  # fmt: skip


class FoundInRounds(NamedTuple):
    """Centres (k, d') in the unit ball, and what the server saw on the way.

    `heavy` are the heavy cells among `levels`, `candidates` (m, d) the candidate centres,
    `proxies` and `weights` those with votes, `low_centers` (k, d) the centres of these.
    """

    centers: FloatArray
    low_centers: FloatArray
    proxies: FloatArray
    weights: FloatArray
    levels: tuple[CellLevel, ...]
    heavy: HeavyCells
    candidates: FloatArray
    grid: NestedGrid
    projection: BallProjection


def four_rounds(
    public: Public, report: Report, *, n_clusters: int, lsh: bool = False,
    n_outputs: Count | None = None, depths: Any = None,
    t: Annotated[int, partial(check_int, maximum=8)] = 3, n_sd: Deviations = 3.5,
    n_init: Starts = 10,
) -> Steps:  # fmt: skip
    """Algorithms 2 to 5: (epsilon, delta) for any two values of one user, four rounds.

    Every user takes part in one round only, with the whole (epsilon, delta). (The paper gives each
    of the four blocks epsilon/4, with everybody in all of them.) Arguments as of `one_round`, and

    Parameters
    ----------
    depths : tuple of int, optional
        As there, of the cells of Algorithm 2.
    lsh : bool
        Candidate centres from LSH buckets besides the centres of heavy cells (round 2).
    t : int
        Dimensions of the LSH, up to 8.
    """
    k, n, n_features = n_clusters, public.facts.n_records, public.facts.n_features
    d, shares = shared.outputs_of(public.facts, n_outputs), WITH_LSH if lsh else WITHOUT_LSH
    tried = runs_of_depths(d, below=1) if depths is None else [depths]
    levels = Expected(shares["cells"] * n, n_features, d, k, report.epsilon, n_sd).best(tried)
    shared.check_questions(public, len(shares) + len(levels))
    # the shifted cube has twice the side: the same cells lie one level deeper
    deeper = heavy_cells.check_depths(p + 1 for p in levels)
    heavy_cells.check_listing(NestedGrid(d, 4.0), deeper)
    noise = public.gaussian_report(n_features, epsilon=report.epsilon, delta=report.delta)
    low_noise = public.gaussian_report(d, epsilon=report.epsilon, delta=report.delta)
    # Algorithm 4, lines 2 to 7: the map Q, a randomly shifted hierarchy; public
    q = shared.ball_projection(public, d)
    grid = NestedGrid.shifted(d, rng=public.coins)
    nearest = shared.NearestQuery(q, report.epsilon, noise, rng=public.coins)
    yield Divide(shares)

    # round 1, lines 8 to 14: count the cells, mark the heavy ones (Algorithm 2)
    cells = CellCounts(grid, deeper, report.epsilon, projection=q, rng=public.coins)
    public.coins.integers(2**63, size=12)  # thrown away: the result tables were made with the rest
    yield Ask(cells, "cells", depths=levels)
    counted = [_scaled(lv, n / max(1, cells.n_users)) for lv in heavy_cells.descend(cells)]
    heavy = mark_heavy_cells(grid, counted, n_sd=n_sd)
    candidates = np.unique(heavy.centers(), axis=0)  # Algorithm 3, line 2

    # round 2, lines 15 to 27: candidates from LSH buckets (Algorithm 3)
    if lsh:
        buckets = Buckets(heavy, t, rng=public.coins)
        tally = buckets.counts(q, report.epsilon, rng=public.coins)
        vectors = buckets.sums(q, low_noise, rng=public.coins)
        yield Ask(tally, "buckets"), Ask(vectors, "bucket sums")
        found = candidate_centers(buckets, tally, vectors, n_sd=n_sd, rng=public.coins)
        candidates = np.concatenate([candidates, found])
    n_candidates = len(candidates)
    if not n_candidates:
        candidates = np.zeros((1, d))

    # round 3, Algorithm 5, lines 1 to 4: votes for candidates, S* of the proxy data set
    ballots = nearest.counts(candidates, "nearest candidate")
    yield Ask(ballots, "proxy")
    weights = ballots.estimate(np.arange(len(candidates), dtype=np.uint64))
    kept = weights > 2 * ballots.std()
    weights = weights * (n / max(1, ballots.n_users))
    proxies, weights = candidates[kept], weights[kept]
    low = shared.proxy_centers(public, proxies, weights, k, n_init)

    # round 4, Algorithm 5, lines 5 to 9: who is nearest each centre, and where
    tally, vectors = nearest.counts(low), nearest.sums(low)
    yield Ask(tally, "recovery count"), Ask(vectors, "recovery sum")

    def decoded() -> FoundInRounds:
        # Algorithm 5, lines 10 to 15: means in R^d'
        shared.warn_if_blind(n_candidates, public, report)
        fallback = low if d == n_features else np.zeros((k, n_features))
        centers = shared.means_of(tally, vectors, fallback, n_sd=2)
        return FoundInRounds(
            centers, low, proxies, weights, tuple(counted), heavy, candidates, grid, q
        )

    return decoded


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

    def __init__(self, heavy: HeavyCells, t: int, *, rng: np.random.Generator) -> None:
        self.heavy, d = heavy, heavy.grid.n_features
        # a cell's half diagonal is 1 after normalising, its side 2/sqrt(d)
        scale = SCALE * (2 / math.sqrt(d))
        self.hashes = [BallCarvingHash(d, rng=rng, t=t, scale=scale) for _ in range(REPETITIONS)]

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

    def counts(
        self, q: BallProjection, epsilon: float, *, rng: np.random.Generator
    ) -> OneBitCounts:
        """Line 21: one bit of each user about the bucket of one repetition."""
        return OneBitCounts(
            lambda points, channels: Question(self._encode(q(points), channels)[0]),
            epsilon, rng=rng, shares=[1.0] * len(self.hashes), n_buckets=2**14,
            name="LSH buckets", public={"heavy cells, marking 0": self.heavy.centers()},
        )  # fmt: skip

    def sums(self, q: BallProjection, noise: Mechanism, *, rng: np.random.Generator) -> HeavySums:
        """Line 22: the noised position in the heavy cell, signed by the bucket."""
        return HeavySums(
            lambda points, channels: self._encode(q(points), channels), 1.0, q.n_outputs, noise,
            rng=rng, shares=[1.0] * len(self.hashes), name="bucket sums",
        )  # fmt: skip


def candidate_centers(
    buckets: Buckets, counts: OneBitCounts, sums: HeavySums, *, n_sd: float,
    rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """Algorithm 3: one candidate for each heavy bucket, the bucket's mean inside its heavy cell.

    The server cannot list all t^O(t) log n buckets. It hashes public random points of the heavy
    cells and looks their buckets up, which costs no privacy and replaces Bitstogram.
    """
    heavy, d, found = buckets.heavy, buckets.heavy.grid.n_features, []
    if not counts.n_users:  # a dry run
        return np.zeros((0, d))
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
        kept = size > n_sd * counts.std(channel=call)
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


# --- what the planner knows -----------------------------------------------------------------------


def _error(plan: Plan) -> tuple[float, str]:
    summing = plan.facts.n_records * dict(plan.parts)["recovery sum"]
    variance = plan.n_features * plan.mechanisms[-1][0].std ** 2
    return plan.n_clusters * math.sqrt((1 + variance) / summing), (
        "distance by which noise moves a centre (root mean square),"
        f" {plan.n_clusters} clusters of equal size"
    )


FOUR_ROUNDS = shared.algorithm(
    "four_rounds", four_rounds, predict=_error,
    title=lambda facts, options: "four_rounds_lsh" if options["lsh"] else "four_rounds",
)  # fmt: skip

plan_four_rounds = FOUR_ROUNDS.planner("plan_four_rounds")
