"""Client statistics: closed forms, additivity, sensitivities as declared, the slack of rounding."""

import math
import pickle

import numpy as np
import pytest
from conftest import read_only as frozen
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers import client_statistics as cs
from fedclust_helpers.client_statistics.base import known

RELATIVE, PLAIN, TOTAL = cs.RELATIVE_SUMS_AND_COUNTS, cs.SUMS_AND_COUNTS, cs.TOTAL
CASES = [
    (RELATIVE, "sums"),
    (RELATIVE, "counts"),
    (PLAIN, "sums"),
    (PLAIN, "counts"),
    (TOTAL, "total"),
]


def rng(seed=5):
    return np.random.default_rng(seed)


def declared(statistic, part, norm, adjacency, d, radius, grid=0.0):
    return statistic.sensitivity_of(
        part, norm, adjacency, grid=grid, n_features=d, radius=radius, bound=1.0
    )


instances = st.tuples(
    st.integers(2, 12),
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0.01, 3),
    st.integers(0, 9**6),
)

# --- values ---------------------------------------------------------------------------------------


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
    assert {name.lower(): s for name, s in named.items()} == cs.STATISTICS
    for name, s in cs.STATISTICS.items():
        assert s.name == name and pickle.loads(pickle.dumps(s)) is s
    refuses(
        ValueError, "name 'total' is taken", known("total", changes=TOTAL.changes), TOTAL.compute
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
    moved = np.rint(after / grid) * grid - np.rint(before / grid) * grid
    moved = np.linalg.norm(moved.ravel(), norm)
    unrounded = declared(RELATIVE, "sums", norm, "add/remove", d, radius)
    rounded = declared(RELATIVE, "sums", norm, "add/remove", d, radius, grid)
    assert 0.99 * (rounded - unrounded) < moved - unrounded <= rounded - unrounded
