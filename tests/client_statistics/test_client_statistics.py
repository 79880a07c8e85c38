"""Client statistics: closed forms, additivity, and sensitivities that hold and are attained."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedclust_helpers import client_statistics as cs
from fedclust_helpers.client_statistics.base import known
from fedclust_helpers.kmeans import sums_and_counts

RELATIVE, PLAIN, TOTAL = cs.RELATIVE_SUMS_AND_COUNTS, cs.SUMS_AND_COUNTS, cs.TOTAL
CASES = [
    (RELATIVE, "sums"),
    (RELATIVE, "counts"),
    (PLAIN, "sums"),
    (PLAIN, "counts"),
    (TOTAL, "total"),
]
ADJACENCIES = ("add/remove", "replace-one")


def rng(seed=5):
    return np.random.default_rng(seed)


def frozen(array):
    array = np.array(array, dtype=np.float64)
    array.flags.writeable = False
    return array


def everything(statistic, points, k, radius, seed):
    """Values on one data set (no clients), with centres from `seed`: one array for each part."""
    broadcast = {}
    if statistic is not TOTAL:
        broadcast["centers"] = frozen(rng(seed).uniform(-1, 1, (k, points.shape[1])))
    if statistic is RELATIVE:
        broadcast["radius"] = radius
    values = statistic.compute(points, np.array([0, len(points)]), **broadcast)
    return dict(zip(statistic.parts, (v[0] for v in values), strict=True))


def declared(statistic, part, norm, adjacency, d, radius, grid=0.0):
    return statistic.sensitivity_of(
        part, norm, adjacency, grid=grid, n_features=d, radius=radius, bound=1.0
    )


def norm_of(difference, norm):
    return np.linalg.norm(difference.ravel(), norm)


instances = st.tuples(
    st.integers(2, 12),
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0.01, 3),
    st.integers(0, 9**6),
)

# --- values ---------------------------------------------------------------------------------------


def test_values_on_four_points():
    points = frozen([[0.1, 0.0], [-0.2, 0.1], [0.9, 0.9], [1.0, -1.0]])
    centers = frozen([[0.0, 0.0], [1.0, 1.0]])
    offsets = np.array([0, 2, 4])
    relative, counts = RELATIVE.compute(points, offsets, centers=centers, radius=0.5)
    np.testing.assert_allclose(
        relative, [[[-0.1, 0.1], [0, 0]], [[0, 0], [-0.1, -0.1]]], atol=1e-15
    )
    np.testing.assert_array_equal(counts, [[2, 0], [0, 1]])
    sums, counts = PLAIN.compute(points, offsets, centers=centers)
    np.testing.assert_allclose(sums, [[[-0.1, 0.1], [0, 0]], [[1, -1], [0.9, 0.9]]], atol=1e-15)
    np.testing.assert_array_equal(counts, [[2, 0], [1, 1]])
    (total,) = TOTAL.compute(points, offsets)
    np.testing.assert_allclose(total, [[-0.1, 0.1], [1.9, -0.1]])


@given(instances)
def test_relative_sums_are_sums_of_differences_from_the_nearest_centre(instance):
    n, d, k, radius, seed = instance
    points = frozen(rng(seed).uniform(-1, 1, (n, d)))
    centers = frozen(rng(seed + 1).uniform(-1, 1, (k, d)))
    differences = points[:, None] - centers[None]
    distances = np.linalg.norm(differences, axis=2)
    labels = np.where(distances.min(axis=1) <= radius, distances.argmin(axis=1), -1)
    expected = [differences[labels == j, j].sum(axis=0) for j in range(k)]
    relative, counts = RELATIVE.compute(points, np.array([0, n]), centers=centers, radius=radius)
    np.testing.assert_allclose(relative[0], expected, atol=1e-13)
    np.testing.assert_array_equal(counts[0], [(labels == j).sum() for j in range(k)])


LLOYD = (cs.RELATIVE_SUMS_AND_COUNTS, cs.SUMS_AND_COUNTS, cs.TOTAL)


@pytest.mark.parametrize("statistic", LLOYD, ids=lambda s: s.name)
def test_every_statistic_is_additive_over_clients(statistic):
    """Also with clients that own no rows: they contribute zeros, never another client's rows."""
    points, centers = frozen(rng().uniform(-1, 1, (50, 3))), frozen(rng(1).uniform(-1, 1, (4, 3)))
    broadcast = {
        "relative_sums_and_counts": {"centers": centers, "radius": 0.9},
        "sums_and_counts": {"centers": centers},
        "total": {},
    }[statistic.name]
    pooled = statistic.compute(points, np.array([0, 50]), **broadcast)
    assert len(pooled) == len(statistic.parts)
    for offsets in ([0, 1, 20, 50], [0, 0, 10, 10, 10, 50, 50], [0, 50, 50], list(range(51))):
        offsets = np.array(offsets)
        offsets.flags.writeable = False
        by_client = statistic.compute(points, offsets, **broadcast)
        for part, whole in zip(by_client, pooled, strict=True):
            assert len(part) == len(offsets) - 1 and part.dtype == np.float64
            np.testing.assert_allclose(part.sum(axis=0), whole[0], atol=1e-12)
            assert not part[np.diff(offsets) == 0].any()


def test_the_registry_holds_every_statistic_under_its_name():
    named = {n: s for n, s in vars(cs).items() if isinstance(s, cs.ClientStatistic)}
    assert {name.lower(): s for name, s in named.items()} == cs.STATISTICS and len(named) == 18
    assert all(
        s.name == name and pickle.loads(pickle.dumps(s)) is s for name, s in cs.STATISTICS.items()
    )
    with pytest.raises(ValueError, match="name 'total' is taken"):
        known("total", changes=TOTAL.changes)(TOTAL.compute)
    for statistic, part in CASES:
        changes = statistic.changes(radius=0.5, bound=2.0, n_features=3)
        assert set(changes) >= set(statistic.parts)
        assert changes[part].most == (
            1 if part == "counts" else 0.5 if statistic is RELATIVE else 2
        )


# --- declared sensitivities -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "adjacency", "expected"),
    [
        ("relative sums", "add/remove", (3 * 0.4, 0.4)),  # d = 9, radius = 0.4
        ("relative sums", "replace-one", (6 * 0.4, 0.8)),
        ("sums", "add/remove", (9.0, 3.0)),
        ("sums", "replace-one", (18.0, 6.0)),
        ("total", "add/remove", (9.0, 3.0)),
        ("total", "replace-one", (18.0, 6.0)),
        ("counts", "add/remove", (1.0, 1.0)),
        ("counts", "replace-one", (2.0, math.sqrt(2))),
    ],
)
def test_declared_sensitivities_in_closed_form(part, adjacency, expected):
    sums = {"sums": (PLAIN,), "relative sums": (RELATIVE,), "total": (TOTAL,)}
    for statistic in sums.get(part, (PLAIN, RELATIVE)):
        got = [declared(statistic, part.split()[-1], norm, adjacency, 9, 0.4) for norm in (1, 2)]
        assert got == pytest.approx(expected, rel=1e-15)


def test_rounding_adds_a_grid_step_for_each_touched_coordinate():
    grid = 2.0**-10
    for adjacency, touched in (("add/remove", 9), ("replace-one", 18)):
        for norm, slack in ((1, touched * grid), (2, math.sqrt(touched) * grid)):
            for statistic, part in CASES:
                before = declared(statistic, part, norm, adjacency, 9, 0.4)
                after = declared(statistic, part, norm, adjacency, 9, 0.4, grid=grid)
                exact = part == "counts"
                assert after - before == pytest.approx(0 if exact else slack, rel=1e-9)


@pytest.mark.parametrize(("statistic", "part"), CASES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@settings(max_examples=60)
@given(instances, st.sampled_from([0.0, 2.0**-16, 0.01, 0.3]))
def test_no_neighbour_moves_a_statistic_by_more_than_declared(
    statistic, part, adjacency, instance, grid
):
    """Theorem 5.1 (theory check L1): all clusters jointly, both norms, also after rounding (F7)."""
    n, d, k, radius, seed = instance
    points = rng(seed).uniform(-1, 1, (n, d))
    corner = rng(seed + 2).random() < 0.5  # extreme records as often as typical ones
    points[0] = np.sign(points[0]) if corner else points[0]
    other = np.delete(points, 0, axis=0)
    if adjacency == "replace-one":
        other = np.vstack([-points[:1], other])
    before = everything(statistic, frozen(points), k, radius, seed + 1)[part]
    after = everything(statistic, frozen(other), k, radius, seed + 1)[part]
    if grid:
        before, after = (np.rint(v / grid) * grid for v in (before, after))
        if part == "counts":
            return  # integers are released as they are
    for norm in (1, 2):
        bound = declared(statistic, part, norm, adjacency, d, radius, grid)
        assert norm_of(before - after, norm) <= bound * (1 + 1e-12) + 1e-12


def worst_relative(d, k, radius, replace, seed):
    """Change of the relative sums by one record just inside the radius of a centre."""
    generator = rng(seed)
    centers = generator.uniform(-1, 1, (k, d))
    centers += 10 * radius * np.arange(k)[:, None]  # far apart: the record is nearest to centre 0
    direction = generator.normal(size=d)
    direction /= np.linalg.norm(direction)
    rest = generator.uniform(-1, 1, (20, d))
    record = centers[0] + radius * (1 - 1e-7) * direction
    first = np.vstack([rest, record])
    second = np.vstack([rest, 2 * centers[0] - record]) if replace else rest
    values = [
        RELATIVE.compute(frozen(p), np.array([0, len(p)]), centers=centers, radius=radius)
        for p in (first, second)
    ]
    return values[0][0] - values[1][0], values[0][1] - values[1][1]


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 15), (10, 3), (100, 2)])
def test_the_radius_is_attained_and_replacing_doubles_it(d, k):
    """Theory check L1: ratio 0.9999999 for add/remove and 1.9999998 for replace-one."""
    for seed, radius in enumerate((0.05, 0.3, 1.7)):
        for replace, factor in ((False, 1), (True, 2)):
            sums, _ = worst_relative(d, k, radius, replace, seed)
            ratio = norm_of(sums, 2) / radius
            assert 0.9999 * factor < ratio <= factor


def test_all_norms_of_all_parts_are_attained():
    """The bounds are not only valid but tight: some pair of neighbours reaches 99.9 % of each."""
    d, radius = 9, 0.4
    centers = frozen([np.full(d, -0.9), np.full(d, 0.9)])
    inward = 1 - 1e-6

    def change(statistic, part, first, second):
        broadcast = {"centers": centers} if statistic is not TOTAL else {}
        broadcast |= {"radius": radius} if statistic is RELATIVE else {}
        values = [
            statistic.compute(
                np.vstack([np.zeros((1, d)), *p]), np.array([0, 1 + len(p)]), **broadcast
            )
            for p in (first, second)
        ]
        index = statistic.parts.index(part)
        return values[0][index] - values[1][index]

    step = radius / math.sqrt(d) * inward  # in every coordinate: worst for the L1 norm too
    near = [centers[0] + step, centers[0] - step, centers[1] - step]
    corner = [np.full(d, 1.0), np.full(d, -1.0)]
    for statistic, part in CASES:
        if statistic is RELATIVE:
            pair = (near[0], near[2 if part == "counts" else 1])
        else:
            pair = (corner[0], corner[1])
        for adjacency in ADJACENCIES:
            second = [] if adjacency == "add/remove" else [pair[1]]
            moved = change(statistic, part, [pair[0]], second)
            for norm in (1, 2):
                bound = declared(statistic, part, norm, adjacency, d, radius)
                # plain sums of opposite corners change two clusters by d each: L2 is sqrt(2 d)
                joint = (
                    (statistic, part) == (PLAIN, "sums")
                    and adjacency == "replace-one"
                    and norm == 2
                )
                expected = bound / math.sqrt(2) if joint else bound
                assert 0.999 * expected <= norm_of(moved, norm) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("d", [1, 2, 9, 64])
@pytest.mark.parametrize("norm", [1, 2])
def test_the_rounding_slack_is_attained(d, norm):
    """Theory checks L14/F7: each coordinate of the sum just crosses a rounding boundary."""
    grid, centers = 2.0**-6, np.zeros((1, d))
    tiny = 1e-3 * grid
    record = np.full(d, math.floor(0.375 / math.sqrt(d) / grid) * grid + tiny)
    rest = np.full(d, 0.5 * grid - tiny / 2)  # the sum of all others, just below one half
    radius = np.linalg.norm(record) * (1 + 1e-9)
    before, after = (
        RELATIVE.compute(p, np.array([0, len(p)]), centers=centers, radius=radius)[0]
        for p in (rest[None], np.vstack([rest, record]))
    )
    moved = norm_of(np.rint(after / grid) * grid - np.rint(before / grid) * grid, norm)
    unrounded = declared(RELATIVE, "sums", norm, "add/remove", d, radius)
    rounded = declared(RELATIVE, "sums", norm, "add/remove", d, radius, grid)
    assert 0.99 * (rounded - unrounded) < moved - unrounded <= rounded - unrounded


def test_rounding_to_a_coarse_grid_really_exceeds_the_unrounded_bound():
    """As printed ("quantising does not violate the guarantee") the statement fails."""
    grid, radius, d = 2.0**-6, 0.3, 4
    centers = np.zeros((1, d))
    record = np.full(d, radius / math.sqrt(d) * (1 - 1e-9))
    rest = (np.ceil(record / grid) - 0.5) * grid - record + 1e-9  # the sum just crosses one half
    rest = np.where(rest > grid / 2, rest - grid, rest)
    values = [
        RELATIVE.compute(p, np.array([0, len(p)]), centers=centers, radius=radius)[0][0, 0]
        for p in (rest[None], np.vstack([rest, record]))
    ]
    moved = np.linalg.norm(np.rint(values[1] / grid) * grid - np.rint(values[0] / grid) * grid)
    assert radius * 1.01 < moved
    assert moved <= declared(RELATIVE, "sums", 2, "add/remove", d, radius, grid)


def test_the_rounding_slack_of_the_notes():
    """Theory check L14: slack at eta = 0.3, q = 16 is 7e-5 (d = 2) and 1.4e-3 (d = 784)."""
    for d, expected in ((2, 7e-5), (784, 1.4e-3)):
        rounded = declared(RELATIVE, "sums", 2, "add/remove", d, 0.3, grid=2.0**-16)
        assert rounded / 0.3 - 1 == pytest.approx(expected, rel=0.03)


# --- wrong use ------------------------------------------------------------------------------------


def test_wrong_arguments_are_named():
    good = {"radius": 1.0, "n_features": 2, "bound": 1.0}
    with pytest.raises(ValueError, match="^adjacency must be one of add/remove, replace-one"):
        RELATIVE.sensitivity_of("counts", 1, "add-remove", **good)
    with pytest.raises(ValueError, match="^part must be one of sums, counts"):
        RELATIVE.sensitivity_of("means", 1, "add/remove", **good)
    for norm in (0, 3, -1):
        with pytest.raises(ValueError, match="^norm must be"):
            RELATIVE.sensitivity_of("counts", norm, "add/remove", **good)
    for radius in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="^radius must be"):
            RELATIVE.sensitivity_of("counts", 1, "add/remove", **(good | {"radius": radius}))
    for bound in (0, -1, math.nan):
        with pytest.raises(ValueError, match="^bound must be"):
            PLAIN.sensitivity_of("sums", 1, "add/remove", **(good | {"bound": bound}))
        with pytest.raises(ValueError, match="^bound must be"):
            TOTAL.sensitivity_of("total", 1, "add/remove", **(good | {"bound": bound}))
    for n_features in (0, -2):
        with pytest.raises(ValueError, match="^n_features must be"):
            PLAIN.sensitivity_of("sums", 1, "add/remove", **(good | {"n_features": n_features}))
    for grid in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="^grid must be"):
            PLAIN.sensitivity_of("sums", 1, "add/remove", grid=grid, **good)


def test_statistics_check_what_they_are_sent():
    points, offsets = np.zeros((3, 2)), np.array([0, 3])
    with pytest.raises(ValueError, match="^centers must have 2 columns, got 3"):
        PLAIN.compute(points, offsets, centers=np.zeros((1, 3)))
    with pytest.raises(ValueError, match="^centers must be finite"):
        RELATIVE.compute(points, offsets, centers=np.full((1, 2), math.nan), radius=1.0)
    with pytest.raises(ValueError, match="^radius must be"):
        RELATIVE.compute(points, offsets, centers=np.zeros((1, 2)), radius=0)


def test_the_statistic_is_the_same_pass_as_plain_k_means():
    points, centers = rng().uniform(-1, 1, (100, 2)), rng(1).uniform(-1, 1, (3, 2))
    sums, counts = PLAIN.compute(points, np.array([0, 100]), centers=centers)
    expected = sums_and_counts(points, centers)
    np.testing.assert_array_equal(sums[0], expected[0])
    np.testing.assert_array_equal(counts[0], expected[1])
