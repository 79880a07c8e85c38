"""Nested grids: cells, keys, families of cells, and what lies near a ball or a point."""

import itertools
import math

import numpy as np
import pytest
from conftest import generator, refuses
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.ldp_kmeans.grids import MAX_CELLS, MAX_DEPTH, NestedGrid


def some_grids(d):
    """The cube of the notes, one with an odd side and shift, and a random one."""
    return [
        NestedGrid(d),
        NestedGrid(d, 0.7, tuple(0.1 * i - 0.3 for i in range(d))),
        NestedGrid.shifted(d, rng=generator(d)),
    ]


def points_in(grid, n=500, spread=1.0):
    """Uniform points of the cube (or of one `spread` times as large)."""
    centre = grid.origin + grid.side / 2
    reach = spread * grid.side / 2
    return centre + generator(n, grid.n_features).uniform(-reach, reach, (n, grid.n_features))


def box_distance(point, low, high):
    """Distance of a point to a closed box, coordinate by coordinate."""
    gaps = [max(a - x, x - b, 0.0) for x, a, b in zip(point, low, high, strict=True)]
    return math.sqrt(math.fsum(g * g for g in gaps))


# --- cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("depth", [0, 1, 3, 10])
def test_a_point_lies_in_its_cell(d, depth):
    for grid in some_grids(d):
        points = points_in(grid)
        cells = grid.cells(points, depth)
        side = grid.cell_side(depth)
        assert cells.shape == points.shape and cells.dtype == np.int64
        assert cells.min() >= 0 and cells.max() < 2**depth
        assert side == grid.side / 2**depth
        offset = points - grid.corners(cells, depth)
        assert (offset >= -1e-12).all() and (offset <= side * (1 + 1e-12)).all()
        assert grid.centers(cells, depth) == pytest.approx(grid.corners(cells, depth) + side / 2)
        # the centre of a cell lies in that cell
        assert np.array_equal(grid.cells(grid.centers(cells, depth), depth), cells)


def test_borders_belong_to_the_upper_cell_and_points_outside_to_the_nearest():
    grid = NestedGrid(2)
    borders = np.array([[-1.0], [-0.5], [0.0], [0.5], [0.5 - 2.0**-40]])  # of the upper cell
    assert NestedGrid(1).cells(borders, 2).ravel().tolist() == [0, 1, 2, 3, 2]
    outside = np.array([[1.0, -1.0], [7.0, 0.1], [-1e200, 1e200], [0.1, -5.0]])
    assert grid.cells(outside, 2).tolist() == [[3, 0], [3, 2], [0, 3], [2, 0]]
    assert NestedGrid(1).cells(outside[:, :1], MAX_DEPTH).max() == 2**MAX_DEPTH - 1


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=4),
    st.integers(0, MAX_DEPTH),
    st.integers(0, MAX_DEPTH),
    st.floats(0.01, 100),
    st.integers(0, 100),
)
def test_floors_are_nested(point, fine, coarse, side, seed):
    """G_m(G_l(p)) = G_m(p) for every m coarser than l, also for odd sides and shifts."""
    coarse, fine = sorted((coarse, fine))
    d = len(point)
    shift = generator(seed).uniform(-1, 1, d)
    for grid in (NestedGrid(d), NestedGrid(d, side), NestedGrid(d, side, tuple(shift))):
        cells = grid.cells([point], fine)
        assert np.array_equal(grid.ancestors(cells, fine, coarse), grid.cells([point], coarse))


# --- families -------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 4])
def test_children_and_ancestors_are_inverse(d):
    for grid, depth, to_depth in ((NestedGrid(d), 2, 4), (NestedGrid(d, 0.7), 0, 3)):
        cells = np.unique(grid.cells(points_in(grid, 30), depth), axis=0)
        below = grid.children(cells, depth, to_depth)
        n_each = 2 ** (d * (to_depth - depth))
        assert len(below) == len(cells) * n_each == len(np.unique(below, axis=0))
        up = grid.ancestors(below, to_depth, depth)
        assert np.array_equal(up, np.repeat(cells, n_each, axis=0))
        # each child's centre lies in its ancestor
        assert np.array_equal(grid.cells(grid.centers(below, to_depth), depth), up)
        assert np.array_equal(grid.children(cells, depth, depth), cells)
        assert np.array_equal(grid.ancestors(cells, depth, depth), cells)


@pytest.mark.parametrize(("d", "depth"), [(1, 6), (2, 4), (3, 3)])
@pytest.mark.parametrize("radius", [0.11, 0.5, 1.0])
def test_meeting_the_ball_against_brute_force(d, depth, radius):
    for grid in some_grids(d):
        cells = grid.all_cells(depth)
        side = grid.cell_side(depth)
        corners = grid.corners(cells, depth)
        gaps = np.array([box_distance([0.0] * d, low, low + side) for low in corners])
        clear = np.abs(gaps - radius) > 1e-9  # the rounding of a touching cell is nobody's business
        meets = grid.meets_ball(cells, depth, radius)
        assert np.array_equal(meets[clear], gaps[clear] <= radius)
        # pruning on the way down loses none of them
        pruned = grid.all_cells(depth, radius=radius)
        assert sorted(map(tuple, pruned.tolist())) == sorted(map(tuple, cells[meets].tolist()))


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "depth"), [(1, 12), (2, 6), (4, 3), (12, 1), (3, 0)])
def test_packed_keys_are_unique_and_can_be_unpacked(d, depth):
    grid = NestedGrid(d)
    cells = grid.all_cells(depth)
    if d * depth <= 6:
        assert set(map(tuple, cells.tolist())) == set(itertools.product(range(2**depth), repeat=d))
    keys = grid.keys(cells, depth)
    assert keys.dtype == np.uint64
    assert sorted(keys.tolist()) == list(range(2 ** (d * depth)))  # dense: nothing is wasted
    assert np.array_equal(grid.unpack(keys, depth), cells)


@pytest.mark.parametrize(("d", "depth"), [(7, 9), (63, 1), (2, 32), (100, 1)])
def test_keys_of_any_length_are_told_apart(d, depth):
    """Exact up to 63 bits; longer ones are hashed, chance of any collision 1e-11."""
    grid, rng = NestedGrid(d), generator(d)
    base = rng.integers(2**depth, size=d)
    near = base ^ np.eye(d, dtype=np.int64)  # neighbours that differ in one coordinate
    cells = np.concatenate([rng.integers(2**depth, size=(20_000, d)), base[None], near])
    cells = np.unique(cells, axis=0)
    keys = grid.keys(cells, depth)
    assert len(np.unique(keys)) == len(cells)
    if d * depth <= 63:
        assert np.array_equal(grid.unpack(keys, depth), cells)
    else:
        refuses(ValueError, "^depth must leave at most 63 bits to unpack", grid.unpack, keys, depth)


# --- shifted hierarchies --------------------------------------------------------------------------


def test_a_shifted_grid_covers_the_ball_and_its_shift_is_uniform():
    """Each axis: mean within 5 standard errors of 0 and variance r^2/3 within 10 %."""
    rng = generator(0)
    grids = [NestedGrid.shifted(3, rng=rng, radius=2.0) for _ in range(4000)]
    shifts = np.array([grid.shift for grid in grids])
    assert (np.abs(shifts.mean(axis=0)) < 5 * math.sqrt(4 / 3 / 4000)).all()
    assert shifts.var(axis=0) == pytest.approx(np.full(3, 4 / 3), rel=0.1)
    for grid in grids[:50]:
        assert (grid.origin <= -2).all() and (grid.origin + grid.side > 2).all()


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "depth"), [(23, 1), (2, 12), (30, 1), (2000, 1)])
def test_depths_that_would_fill_the_memory_are_refused(d, depth):
    with pytest.raises(ValueError, match=f"^depth must be smaller.*at most {MAX_CELLS}"):
        NestedGrid(d).all_cells(depth)
