"""Nearest centres, decided for each row by itself.

A count may change by one when one row is added, and no more: the label of a row must not depend on
the other rows. Matrix products do not give that. BLAS picks its kernel by shape, alignment and
number of threads, sums in another order, and breaks a tie one way for 2500 rows and the other way
for 2501. So the definition here is a sum in a fixed order, written with elementwise operations
only (`squared_distances`); each is one rounding of IEEE 754, whatever the shape. Matrix products
serve as a filter: where a proven bound on their error leaves no doubt about what the definition
says, they are believed, and all other rows are decided by the definition.

The bound
---------
Let z* = B^T x exactly (B the basis, or the identity), f_j = ||z* - t_j||^2, b = ||B||_F (1 for the
identity), T = max_j ||t_j|| and rho = b ||x|| + T, all norms Euclidean. With u the unit roundoff
of the filter and g(m) = m u/(1 - m u) (Higham 2002, section 3.1, for every order of summation):

* a score s_j = ||t_j||^2 - 2 <x, B t_j> has an error of at most 1.5 g(d + r + 8) rho^2, since the
  inner product is at most 2 b ||x|| T <= rho^2/2 and the squared norm at most rho^2;
* the definition uses z with ||z - z*|| <= g(d) b ||x||, which moves f_j - f_i by at most
  4 g(d) b ||x|| T <= g(d) rho^2, and each of its sums of r squares has a relative error of at most
  g(r + 2), which matters by twice that times the smaller one, itself at most about rho^2.

So s_j - s_i > 6 (d + r + 8) u rho^2 proves that the definition puts j behind i (r = 0 without a
basis). `_slack` is 8 (d + r + 8) u rho^2: room for rounding the threshold, and for underflow as
long as rho^2 lies in the `_WINDOW` of the type. A squared distance s_j + ||x||^2 is off by at most
half of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers import _fast
from fedclust_helpers._validation import FloatArray, IntArray

BLOCK = 8_192  # rows at once: keeps the temporaries in cache
_EPS = float(np.finfo(np.float64).eps)
_FEW = 64  # with so few open rows a second filter does not pay
_NARROW = 64  # with so few centres the scores lie centre by centre, (k, n)
_SMALL = 32_768  # numbers that one array of all differences may have
_MANY = 512  # rows of a client from which on a compiled pass of its own pays
_TINY = 4_096  # products n k d below which the definition is as fast as the filter
_SINGLE_DEPTH = 40
_EXTREME = (2.0**-480, 2.0**480)  # rows outside are scaled by a power of two: no over- or underflow
_WINDOW = {np.dtype(np.float32): (1e-24, 1e30), np.dtype(np.float64): (1e-280, 1e280)}

BoolArray = NDArray[np.bool_]


# --- the definition -------------------------------------------------------------------------------


def project(rows: FloatArray, basis: FloatArray) -> FloatArray:
    """Coordinates (r, n) of `rows` (n, d) on the columns of `basis` (d, r), summed in order."""
    out = np.zeros((basis.shape[1], len(rows)))
    for column, direction in zip(rows.T, basis, strict=True):
        out += direction[:, None] * column
    return out


def squared_lengths(rows: FloatArray) -> FloatArray:
    """Squared Euclidean lengths (n,) of `rows` (n, d), summed by halves; inf if they overflow."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = rows * rows
        width = rows.shape[1]
        while width > 4:
            half = width // 2
            squares[:, :half] += squares[:, width - half : width]
            width -= half
        out = squares[:, 0].copy()
        for j in range(1, width):
            out += squares[:, j]
    return out


def _exponents(rows: FloatArray, targets: FloatArray) -> IntArray:
    """Powers of two (n,) to divide rows and `targets` by: 0 except for extreme magnitudes."""
    if max(-rows.min(), rows.max(), -targets.min(), targets.max()) <= _EXTREME[1]:
        largest_target = np.abs(targets).max()
        if largest_target >= _EXTREME[0]:  # so is the larger of row and targets
            return np.zeros(len(rows), dtype=np.int64)
    largest = np.maximum(np.abs(rows).max(axis=1), np.abs(targets).max())
    extreme = (largest < _EXTREME[0]) | (largest > _EXTREME[1])
    return np.where(extreme, np.frexp(largest)[1], 0).astype(np.int64)


def squared_distances(
    rows: FloatArray, targets: FloatArray, basis: FloatArray | None
) -> FloatArray:
    """Squared distances (k, n) of `rows` (n, d), projected on `basis`, to `targets` (k, r).

    Rows of extreme magnitude are measured in a unit of their own, a power of two.
    """
    exponents = _exponents(rows, targets)
    scaled = bool(exponents.any())
    if scaled:
        rows = np.ldexp(rows, -exponents[:, None])
    columns = np.ascontiguousarray(rows.T) if basis is None else project(rows, basis)
    if not scaled and targets.size * len(rows) <= _SMALL:
        differences = columns[:, None] - targets.T[:, :, None]  # the same, with fewer calls
        differences *= differences
        values = differences[0]
        for square in differences[1:]:
            values += square
        return values
    values = np.zeros((len(targets), len(rows)))
    for column, target in zip(columns, targets.T[:, :, None], strict=True):
        difference = column - (np.ldexp(target, -exponents) if scaled else target)
        difference *= difference
        values += difference
    return values


def within(rows: FloatArray, targets: FloatArray, labels: IntArray, radius: float) -> BoolArray:
    """Which rows are within `radius` of the target of their label.

    What is inside is truly inside: a row so close to the sphere that the rounding of its distance
    matters counts as outside, so that rounding never raises the sensitivity of a sum.
    """
    nearest, exponents = targets[labels], _exponents(rows, targets)
    if exponents.any():
        rows, nearest = (np.ldexp(array, -exponents[:, None]) for array in (rows, nearest))
    values = squared_lengths(rows - nearest)
    with np.errstate(over="ignore", under="ignore"):
        limits = np.ldexp(radius, -exponents) ** 2 * _shrink(targets)
    return (values <= limits) & (limits >= _WINDOW[np.dtype(np.float64)][0])


def _eps_of(dtype: np.dtype) -> float:
    return float(np.finfo(np.float32 if dtype == np.float32 else np.float64).eps)


def _shrink(targets: FloatArray) -> float:
    return 1 - 2 * (targets.shape[1] + 4) * _EPS


# --- the filter -----------------------------------------------------------------------------------


class NearestTarget:
    """Which of `targets` (k, r) is nearest to a row, projected on `basis` (d, r) if there is one.

    Every answer is a function of the row, `targets` and `basis` alone, bit for bit.
    """

    def __init__(self, targets: FloatArray, basis: FloatArray | None = None) -> None:
        self.targets, self.basis = targets, basis
        k, r = targets.shape
        self._depth = r + 8 if basis is None else len(basis) + r + 8
        # in many dimensions the bound is loose, among many targets the gaps are narrow
        single = self._depth <= _SINGLE_DEPTH and k <= _NARROW
        self._type = np.dtype(np.float32 if single else np.float64)
        width = max(k, r if basis is None else len(basis))
        self.rows_at_once = min(BLOCK, max(512, BLOCK * 64 // width))

    @cached_property
    def _squares(self) -> FloatArray:
        with np.errstate(over="ignore", under="ignore"):
            return (self.targets**2).sum(axis=1)

    @cached_property
    def _reach(self) -> float:
        return float(np.sqrt(self._squares.max()))

    @cached_property
    def _gain(self) -> float:
        with np.errstate(over="ignore", under="ignore"):
            return 1.0 if self.basis is None else float(np.sqrt((self.basis**2).sum()))

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """What rows are multiplied by, one or two matrices, and ||t||^2 (within the window)."""
        first, second = -2 * self.targets, None
        if self.basis is not None and len(self.targets) <= 2 * self.basis.shape[1]:
            first = first @ self.basis.T  # fold both products into one
        elif self.basis is not None:
            first, second = np.ascontiguousarray(self.basis.T), first.astype(self._type)
        return first.astype(self._type), second, self._squares.astype(self._type)

    def labels(self, points: FloatArray) -> IntArray:
        """Index (n,) of the nearest target for the rows of `points` (n, d); the first if tied."""
        return self._by_blocks(points, lambda block: self.labels_within(block, np.inf)[0])

    def _by_blocks(self, points: FloatArray, labels: Callable[[FloatArray], IntArray]) -> IntArray:
        """What `labels` says of some rows at once, for all rows."""
        found = np.empty(len(points), dtype=np.int64)
        for start in range(0, len(points), self.rows_at_once):
            part = slice(start, start + self.rows_at_once)
            found[part] = labels(points[part])
        return found

    def labels_within(self, block: FloatArray, radius: float) -> tuple[IntArray, BoolArray]:
        """As `labels`, and which of the rows are `within` the radius (for no basis)."""
        quick = self._by_loops(block, radius)
        if quick is not None:
            return quick
        labels, nearest, slack, open_rows = self._search(block)
        if np.isinf(radius):
            return labels, np.ones(len(block), dtype=np.bool_)
        if nearest is None:
            return labels, within(block, self.targets, labels, radius)
        squares = block.astype(self._type)
        squares *= squares
        nearest += squares @ np.ones(block.shape[1], dtype=self._type)
        limit = radius * radius * _shrink(self.targets)
        slack += 4 * _eps_of(self._type) * limit
        with np.errstate(over="ignore"):
            low, high = self._type.type(limit - slack), self._type.type(limit + slack)
        inside = nearest <= low
        unsure = ~inside
        unsure &= ~(nearest > high)
        unsure[open_rows] = True
        rows = np.flatnonzero(unsure)
        if len(rows):
            inside[rows] = within(block[rows], self.targets, labels[rows], radius)
        return labels, inside

    def labels_with_margin(self, points: FloatArray, margin: float) -> IntArray:
        """As `labels`, but -1 unless it is at most `margin` times as far as every other target."""
        if margin >= 1 or len(self.targets) == 1:
            return self.labels(points)
        return self._by_blocks(points, lambda block: self._clearly_nearest(block, margin * margin))

    def _clearly_nearest(self, block: FloatArray, square: float) -> IntArray:
        """-1 unless its squared distance is at most `square` times every other one."""
        labels = np.full(len(block), -1, dtype=np.int64)
        rows = np.arange(len(block))
        slack = self._slack(block)
        if slack is not None:
            coordinates = block if self.basis is None else block @ self.basis
            scores = -2 * self.targets @ coordinates.T
            scores += self._squares[:, None]
            scores += (coordinates**2).sum(axis=1)
            first, second = scores[0].copy(), np.full(len(block), np.inf)
            for row in scores[1:]:
                np.minimum(second, np.maximum(first, row), out=second)
                np.minimum(first, row, out=first)
            # each score is within `slack` of the definition's; the product rounds once more
            gap = square * second - first
            slack *= 1 + square
            clear = np.flatnonzero(gap > slack)
            labels[clear] = scores[:, clear].argmin(axis=0)
            rows = np.flatnonzero(np.abs(gap) <= slack)
        if len(rows):
            values = squared_distances(block[rows], self.targets, self.basis)
            best, lanes = values.argmin(axis=0), np.arange(len(rows))
            nearest = values[best, lanes]
            values[best, lanes] = np.inf
            labels[rows] = np.where(nearest <= square * values.min(axis=0), best, -1)
        return labels

    @cached_property
    def _loop_targets(self) -> FloatArray | None:
        """The targets for the compiled loops; None where those are not exact, or are slower."""
        largest = float(np.abs(self.targets).max())
        usual = _EXTREME[0] <= largest <= _EXTREME[1]
        few = self.basis is None and self.targets.size <= _fast.MOST
        return np.ascontiguousarray(self.targets) if few and usual else None

    def _by_loops(self, block: FloatArray, radius: float) -> tuple[IntArray, BoolArray] | None:
        """`labels_within` by the compiled definition, or None."""
        n = len(block)
        loops = self._loops(n, radius)
        if loops is None:
            return None
        labels, inside = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        nowhere, nothing = np.empty((0, self.targets.shape[1])), np.empty(0, dtype=np.int64)
        done = loops(np.ascontiguousarray(block), labels, inside, nowhere, nothing, n, nowhere)
        return (labels, inside) if done else None

    def add(
        self, points: FloatArray, radius: float, edges: IntArray, size: int, sums: FloatArray,
        counts: IntArray, origins: FloatArray,
    ) -> bool:  # fmt: skip
        """Add rows `within` the radius to the `sums` (M, k, d) and `counts` (M, k) of clients.

        What is added is the row less the one of `origins` (k, d) that belongs to its target.

        In one compiled pass, in the order of `kmeans.add_block`. False, and zeros, where there is
        none: no Numba, few rows for each client, or a row that is too large or not finite.
        """
        n, m = len(points), len(sums)
        loops = self._loops(n, radius) if n >= _MANY * m else None
        if loops is None:
            return False
        labels, inside = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        for i in range(m):
            own = points[edges[i] : edges[i + 1]]
            if not loops(own, labels, inside, sums[i], counts[i], size, origins):
                sums[:], counts[:] = 0, 0
                return False
        return True

    def _loops(self, n: int, radius: float) -> Callable[..., bool] | None:
        """The compiled definition for n rows, or None."""
        loops = _fast.fast(_fast.nearest, n * self.targets.size)
        limit = radius * radius * _shrink(self.targets)
        usual = self._loop_targets is not None and limit >= _WINDOW[np.dtype(np.float64)][0]
        if loops is None or not usual:
            return None
        # the two sums of d squares are each within (d + 2) u of the truth
        slack = 4 * (self.targets.shape[1] + 8) * _EPS
        public = (self._loop_targets, limit * (1 - slack), limit * (1 + slack), limit, _EXTREME[1])
        return lambda points, *out: loops(points, *public, *out)

    def _slack(self, block: FloatArray) -> float | None:
        """Bound for all rows of `block`, or None if its numbers are too large or too small."""
        dtype = block.dtype
        largest = max(float(block.max()), -float(block.min()))
        reach = self._gain * math.sqrt(block.shape[1]) * largest + self._reach
        low, high = _WINDOW[dtype]
        squared = reach * reach
        if not low <= squared <= high:
            return None
        return 4 * self._depth * _eps_of(dtype) * squared

    def _scores(self, block: FloatArray) -> FloatArray:
        """||t||^2 - 2 <x, B t> by matrix products: (k, n) for few targets, else (n, k)."""
        first, second, squares = self._factors
        # `_slack` has kept the products finite; some kernels of the linear algebra library raise
        # the flag "invalid" over lanes that no result comes from
        with np.errstate(invalid="ignore"):
            if len(self.targets) <= _NARROW:
                scores = first @ block.T if second is None else second @ (first @ block.T)
                scores += squares[:, None]
            else:
                scores = block @ first.T if second is None else (block @ first.T) @ second.T
                scores += squares
        return scores

    def _search(self, block: FloatArray) -> tuple[IntArray, FloatArray | None, float, IntArray]:
        """Labels; scores of the nearest and their error bound (or None, 0); rows left open."""
        k, n = len(self.targets), len(block)
        nothing = np.empty(0, dtype=np.int64)
        slack = None
        if n * self.targets.size > _TINY or self.basis is not None:
            with np.errstate(over="ignore", under="ignore"):
                short = block.astype(self._type, copy=False)
            slack = self._slack(short)
        if slack is None:
            labels = np.zeros(n, dtype=np.int64)
            if k > 1:
                self._settle(block, labels, np.arange(n))
            return labels, None, 0.0, nothing
        scores = self._scores(short)
        if k <= _NARROW:
            nearest = scores.min(axis=0)
            near = scores <= nearest + self._type.type(slack)
            # the label is the sum of j over the targets j that are near, if there is only one
            small = np.zeros(n, dtype=np.uint8)
            for j, flags in enumerate(near.view(np.uint8)[1:], start=1):
                small += flags * np.uint8(j)
            labels, axis = small.astype(np.int64), 0
        else:
            labels, axis = scores.argmin(axis=1), 1
            nearest = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
            near = scores <= (nearest + self._type.type(slack))[:, None]
        if np.count_nonzero(near) == n:  # at least one for each row
            return labels, nearest, slack, nothing
        many = near.view(np.uint8).sum(axis=axis, dtype=np.uint8 if axis == 0 else np.int64) > 1
        rows = np.flatnonzero(many)
        self._settle(block, labels, rows)
        return labels, nearest, slack, rows

    def _settle(self, block: FloatArray, labels: IntArray, rows: IntArray) -> None:
        """Write what the definition says about `rows` of the block into `labels`."""
        if len(rows) > _FEW and len(rows) * self.targets.size > _TINY:
            rows = self._sharpen(block, labels, rows)
        if len(rows):
            values = squared_distances(block[rows], self.targets, self.basis)
            labels[rows] = values.argmin(axis=0)

    def _sharpen(self, block: FloatArray, labels: IntArray, rows: IntArray) -> IntArray:
        """Second filter: double precision, each row by its own bound, the origin in the middle.

        It starts from the coordinates z of the definition, so d does not enter its bound.
        """
        chosen = block[rows]
        low, high = _WINDOW[np.dtype(np.float64)]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            coordinates = chosen if self.basis is None else project(chosen, self.basis).T
            center = self.targets.mean(axis=0)
            shifted, targets = coordinates - center, self.targets - center
            squares = (targets**2).sum(axis=1)
            scores = shifted @ (-2 * targets.T)
            scores += squares
            best = scores.argmin(axis=1)
            reach = np.sqrt((shifted**2).sum(axis=1)) + np.sqrt(squares.max())
            squared = reach * reach
            limit = scores[np.arange(len(rows)), best] + (
                8 * (shifted.shape[1] + 8) * _EPS * squared  # twice `_slack`: the shift rounds, too
            )
            sure = np.count_nonzero(scores <= limit[:, None], axis=1) == 1
            sure &= (squared >= low) & (squared <= high) & (_exponents(chosen, self.targets) == 0)
        labels[rows] = best
        return rows[~sure]
