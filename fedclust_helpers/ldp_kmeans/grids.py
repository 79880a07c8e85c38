"""Nested grids: a cube halved along every axis again and again, and the cells of each depth.

Cells of depth p have side ``side * 2^-p``. A cell is a row of d integers (its coordinates at that
depth), so the parent is one shift; `keys` makes 64-bit words of the rows for oracles. Algorithm 1
uses the grids ``t_l Z^d``, Algorithm 4 the randomly shifted dyadic cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
)

MAX_CELLS = 2**22  # cells that are ever listed at once
MAX_DEPTH = 52  # a float64 has no finer coordinates
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class NestedGrid:
    """The cube ``[-side/2 + shift, side/2 + shift)^d`` and its dyadic cells; shift None is 0."""

    n_features: int
    side: float = 2.0
    shift: tuple[float, ...] | None = None

    @classmethod
    def shifted(
        cls, n_features: int, *, rng: np.random.Generator, radius: float = 1.0
    ) -> NestedGrid:
        """A hierarchy of side 4 radius, shifted uniformly in [-radius, radius]^d (section 4.2).

        The paper shifts B(0, 1/2) inside a cube of side 1 by up to 1/2, which moves points out of
        it; a cube of twice the side holds them.
        """
        shift = rng.uniform(-radius, radius, size=n_features)
        return cls(n_features, 4 * radius, tuple(float(s) for s in shift))

    @property
    def origin(self) -> FloatArray:
        """Lower corner of the cube, (d,)."""
        centre = np.zeros(self.n_features) if self.shift is None else np.array(self.shift)
        return centre - self.side / 2

    def cell_side(self, depth: int) -> float:
        """Side of the cells of this depth."""
        return float(self.side * 0.5**depth)

    def cells(self, points: ArrayLike, depth: int) -> IntArray:
        """The cell of each point, int array (n, d); points outside go to the nearest cell."""
        scaled = np.asarray(points) - self.origin
        scaled *= 1 / self.cell_side(depth)
        return np.clip(np.floor(scaled, out=scaled), 0, 2**depth - 1, out=scaled).astype(np.int64)

    def centers(self, cells: ArrayLike, depth: int) -> FloatArray:
        """Centres of cells, (m, d)."""
        return self.origin + (np.asarray(cells) + 0.5) * self.cell_side(depth)

    def corners(self, cells: ArrayLike, depth: int) -> FloatArray:
        """Lower corners of cells, (m, d): the floor map of Algorithm 1, line 8."""
        return self.origin + np.asarray(cells) * self.cell_side(depth)

    def ancestors(self, cells: IntArray, depth: int, to_depth: int) -> IntArray:
        """The cells of `to_depth` <= `depth` that contain the given ones."""
        return np.asarray(cells >> (depth - to_depth))

    def children(self, cells: IntArray, depth: int, to_depth: int) -> IntArray:
        """All cells of `to_depth` inside the given ones, (m 2^(d(to_depth - depth)), d)."""
        step = to_depth - depth
        n_each = 2 ** min(self.n_features * step, 63)
        if max(1, len(cells)) * n_each > MAX_CELLS:
            raise ValueError(
                f"depth must be smaller: each of {len(cells)} cells of depth {depth} has"
                f" 2^{self.n_features * step} descendants of depth {to_depth} in"
                f" {self.n_features} dimensions (at most {MAX_CELLS} are listed)"
            )
        offsets = np.stack(np.unravel_index(np.arange(n_each), (2**step,) * self.n_features), -1)
        return ((cells << step)[:, None] + offsets).reshape(-1, self.n_features)

    def all_cells(self, depth: int, *, radius: float | None = None) -> IntArray:
        """Every cell of a depth, or those that meet the ball of `radius` around the origin."""
        cells = np.zeros((1, self.n_features), dtype=np.int64)
        for level in range(depth):
            cells = self.children(cells, level, level + 1)
            if radius is not None:
                cells = cells[self.meets_ball(cells, level + 1, radius)]
        return cells

    def meets_ball(self, cells: IntArray, depth: int, radius: float) -> NDArray[np.bool_]:
        """Which cells come within `radius` of the origin."""
        half = self.cell_side(depth) / 2
        gap = np.maximum(np.abs(self.centers(cells, depth)) - half, 0.0)
        return np.einsum("ij,ij->i", gap, gap) <= radius**2 * (1 + 1e-12)

    def keys(self, cells: IntArray, depth: int) -> NDArray[np.uint64]:
        """One 64-bit word per cell: exact packing up to 63 bits.

        Beyond, a hash of the row, where two cells collide with probability 2^-64.
        """
        if self.n_features * depth <= 63:
            packed = np.zeros(len(cells), dtype=np.uint64)
            for column in cells.T:
                packed <<= np.uint64(depth)
                packed |= column.astype(np.uint64)
            return packed
        with np.errstate(over="ignore"):
            mixed = np.zeros(len(cells), dtype=np.uint64)
            for column in cells.T:
                mixed = (mixed ^ column.astype(np.uint64)) * _MIX
                mixed ^= mixed >> np.uint64(29)
        return mixed

    def unpack(self, keys: NDArray[np.uint64], depth: int) -> IntArray:
        """The cells of exactly packed keys (at most 63 bits), (m, d)."""
        if self.n_features * depth > 63:
            raise ValueError(
                f"depth must leave at most 63 bits to unpack a key, got {depth} levels of"
                f" {self.n_features} bits"
            )
        mask = np.uint64(2**depth - 1)
        shifts = np.arange(self.n_features)[::-1].astype(np.uint64) * np.uint64(depth)
        return ((keys[:, None] >> shifts) & mask).astype(np.int64)
