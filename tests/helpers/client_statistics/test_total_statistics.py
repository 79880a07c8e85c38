"""Every statistic is total: for all broadcasts that pass the checks, and all finite rows.

No exception, no number that is not finite, and no neighbour moves it by more than is declared. A
client that failed for some rows only would tell others about them, free of charge.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedclust_helpers import client_statistics as cs
from fedclust_helpers.client_statistics import broadcasts
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster.models import LinearRegression, SoftmaxRegression

SIZES = [1e-320, 1e-200, 1e-12, 1.0, 3.0, 1e12, 1e60]


def number(rng, largest):
    """Usual numbers, zeros, ties, and powers of ten down to denormal ones and up to `largest`."""
    size = rng.choice([1.0, 0.5, *SIZES, largest, largest / 7])
    return min(float(size * rng.choice([1.0, 1.0, rng.random()])), largest)


def signed(rng, shape, pool, largest):
    """An array of such numbers of both signs, many of them from a `pool` of what is there."""
    values = [number(rng, largest) * rng.choice([-1, 0, 1]) for _ in range(4)]
    some = rng.choice([*values, *pool, 0.25, -0.5, 1.0], np.prod(shape, dtype=int))
    near = np.where(rng.random(some.shape) < 0.2, np.nextafter(some, 0), some)
    return np.clip(near, -largest, largest).reshape(shape)


def some_broadcast(statistic, rng, d):
    """A broadcast of a statistic as its `takes` says; model, labels and features belong to it."""
    sizes = {letter: int(rng.integers(1, 5)) for letter in "krq"} | {"d": d}
    made, pool = {}, []
    if "models" in statistic.takes:
        made["model"] = rng.choice([LinearRegression(d - 1), SoftmaxRegression(d, 2)])
        sizes["p"] = made["model"].n_parameters
    for name, wanted in statistic.takes.items():
        if isinstance(wanted, str):
            made[name] = signed(rng, [sizes[x] for x in wanted.split()], pool, broadcasts.LARGEST)
            pool += list(made[name].ravel()[:4])
        elif wanted in (broadcasts.STEPS, broadcasts.COUNTED):
            made[name] = int(rng.integers(1, 4))
        elif wanted is broadcasts.MARGIN:
            made[name] = float(rng.choice([1.0, 1 / 3, 1e-300, rng.random()]))
        else:
            made[name] = number(rng, broadcasts.LARGEST_NUMBER)
    if "lower" in made:
        ends = np.sort([made["lower"], made["upper"]], axis=0)
        made["lower"], made["upper"] = ends
    if "weights" in made:  # as heavy as they may be
        drawn = rng.random(d) * rng.choice([0.0, 1.0], d)
        made["weights"] = drawn * np.sqrt(d / max(float((drawn**2).sum()), 1e-9)) * (1 - 1e-12)
    return made, pool


def answers(statistic, rows, sizes, broadcast, labels):
    """Parts (M, ...) of clients with so many rows each, computed as a federation does."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    own = {"labels": None if labels is None else labels[: len(rows)]}
    own["memory"] = cs.ClientMemory(len(sizes))
    with np.errstate(all="ignore"):
        return statistic.compute(
            rows, offsets, **{name: own[name] for name in statistic.reads}, **broadcast
        )


def in_domain(statistic, rows, bound):
    """The rows as a federation clips them; as they are where the statistic takes any."""
    if statistic.domain in ("any", "raw"):
        return rows
    return ClientData.from_clients([rows]).clipped(bound, domain=statistic.domain)[0].points


@pytest.mark.parametrize("name", sorted(cs.STATISTICS))
@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_statistics_are_total_and_no_neighbour_moves_them_further(name, seed, d):
    statistic, rng = cs.STATISTICS[name], np.random.default_rng(seed)
    d += "models" in statistic.takes
    raw, pool = some_broadcast(statistic, rng, d)
    try:
        broadcast = statistic.broadcast(raw, d)
    except ValueError as error:
        assume("must" not in str(error))
        raise
    wide = statistic.domain in ("any", "raw")
    bound = 1.0 if wide else number(rng, 1e100)
    assume(bound >= 1e-300)
    n = int(rng.integers(3, 8))
    rows = signed(rng, (n, d), [*pool, bound], 1.7e308 if wide else 1e155)
    if statistic.domain == "raw":
        rows[rng.random(rows.shape) < 0.2] = np.nan
    rows = in_domain(statistic, rows, bound)
    labels = rng.integers(0, 3, n) if isinstance(raw.get("model"), SoftmaxRegression) else None
    sizes = rng.multinomial(n - 3, np.ones(2) / 2) + 1  # and one client of a single row
    public = {"bound": bound, "n_features": d} | cs.base.public_numbers(broadcast)

    def total(rows, sizes):
        values = answers(statistic, rows, sizes, broadcast, labels)
        assert len(values) == len(statistic.parts)
        assert all(len(v) == len(sizes) and np.isfinite(v).all() for v in values)
        return [v.sum(axis=0) for v in values]

    clients = [[n - 1], [n - 1, 1]] if statistic.unit == "client" else [[n - 1], [n]]
    fewer, more = total(rows[:-1], clients[0]), total(rows, clients[1])
    total(rows, [*sizes, 1])
    other = rows.copy()
    other[-1] = in_domain(statistic, signed(rng, (1, d), [*pool, bound], bound), bound)
    neighbours = {"add/remove": fewer, "replace-one": total(other, clients[1])}
    if statistic.pooled is not None:
        own = {n: v for n, v in (("labels", labels), ("memory", None)) if n in statistic.reads}
        offsets = np.array([0, n - 1, n])
        with np.errstate(all="ignore"):
            pooled = statistic.pooled(rows, offsets, **own, **broadcast)
        assert all(np.isfinite(v).all() for v in pooled)
    for adjacency, values in neighbours.items():
        for part, before, after in zip(statistic.parts, values, more, strict=True):
            for norm in (1, 2):
                claimed = statistic.sensitivity_of(part, norm, adjacency, **public)
                with np.errstate(all="ignore"):  # a claim of 0, where squares underflow
                    moved = np.linalg.norm(((after - before) / claimed).ravel(), norm)
                assert moved <= 1 + 1e-9 or np.abs(after - before).max() < 1e-300


# --- what is broadcast -----------------------------------------------------------------------

GRID = {"lower": [-1.0, -1.0], "upper": [1.0, 1.0], "n_per_axis": 4}
RELATIVE = {"centers": [[0.0, 0.0], [0.5, 0.5]], "radius": 0.5}
PROJECTED = {"basis": np.eye(2), "centers": [[0.0, 0.0]], "margin": 1.0}


@pytest.mark.parametrize(
    ("statistic", "good", "wrong"),
    [
        (cs.CELL_COUNTS, GRID, {"upper": [1.0, -1.0]}),
        (cs.CELL_COUNTS, GRID, {"upper": [1.0, -2.0]}),
        (cs.CELL_COUNTS, GRID, {"lower": [0.0, 0.0], "upper": [5e-324, 1.0]}),
        (cs.CELL_COUNTS, GRID, {"upper": [1.0, np.inf]}),
        (cs.CELL_COUNTS, GRID, {"upper": 1.0}),
        (cs.CELL_COUNTS, GRID, {"upper": [1.0]}),
        (cs.CELL_COUNTS, GRID, {"n_per_axis": 0}),
        (cs.CELL_COUNTS, GRID, {"n_per_axis": 2.0}),
        (cs.CELL_COUNTS, GRID, {"n_per_axis": 1025}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"radius": 0.0}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"radius": np.inf}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"radius": True}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": [[0.0, np.nan]]}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": [[0.0, 1e160]]}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": [0.0, 1.0]}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": np.zeros((0, 2))}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": np.zeros((2, 1))}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": [[0j, 1j]]}),
        (cs.RELATIVE_SUMS_AND_COUNTS, RELATIVE, {"centers": "centers"}),
        (cs.MOMENTS, {"middle": 0.5}, {"middle": -0.5}),
        (cs.MOMENTS, {"middle": 0.5}, {"middle": 10**201}),
        (cs.PROJECTED_SUMS_AND_COUNTS, PROJECTED, {"margin": 0.0}),
        (cs.PROJECTED_SUMS_AND_COUNTS, PROJECTED, {"centers": [[0.0]]}),
    ],
)
def test_a_broadcast_is_checked_whole_before_anything_is_charged_or_read(statistic, good, wrong):
    """Two data sets, of which one has rows on every number of the broadcast: nobody can tell."""
    noise = [Gaussian(10.0, 1.0) for _ in statistic.parts]
    told = set()
    for rows in ([[0.3, 0.3]], [[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]]):
        f = simulate([rows], "trusted", seed=1, domain="ball", bound=2.0)
        (name,) = wrong.keys() - {"lower"}
        with pytest.raises((ValueError, TypeError), match=name) as refusal:
            f.noisy_sum(statistic, noise, round=0, **good | wrong)
        told.add(str(refusal.value))
        assert not f.ledger.releases and not f.transcript.messages
    assert len(told) == 1
    f.noisy_sum(statistic, noise, round=0, **good)
    assert len(f.ledger.releases) == 1


def test_what_takes_does_not_know_is_made_plain_and_fits_into_memory(monkeypatch):
    own = replace(cs.TOTAL, name="own", takes={})
    empty = own.broadcast({"names": [], "share": np.float32(0.5)}, 3)
    assert empty["names"].shape == (0,) and type(empty["share"]) is float
    monkeypatch.setattr(broadcasts, "MAX_NUMBERS", 11)
    with pytest.raises(ValueError, match="^table is too large"):
        own.broadcast({"table": np.zeros((3, 4))}, 3)


class Twofaced(float):
    """A float that says another number when it is asked again."""

    def __float__(self):
        return 0.5


odd = st.one_of(
    st.floats(0.25, 2.0**15, width=16).map(np.float16),
    st.floats(0.25, 2.0**66, width=32).map(np.float32),
    st.floats(0.25, 1e20).map(np.longdouble),
    st.floats(0.25, 1e3).map(Twofaced),
    st.integers(1, 127).map(np.int8),
    st.integers(1, 10**30),
    st.fractions(Fraction(1, 4), 1000),
    st.floats(0.25, 2.0**15, width=16).map(lambda x: np.array(x, dtype=np.float16)),
)


@settings(max_examples=40)
@given(odd, st.integers(0, 99))
def test_a_number_is_the_same_for_the_sensitivity_and_the_statistic(radius, seed):
    """Also numbers whose squares overflow in their own type: a row moves by the radius at most."""
    rows = np.random.default_rng(seed).normal(size=(4, 3)) * 1e30
    sent = {"basis": np.eye(3), "centers": np.zeros((1, 3)), "radius": radius}
    statistic = cs.CUT_RELATIVE_SUMS_AND_COUNTS
    for own in (statistic, replace(statistic, name="own", takes={})):
        made = own.broadcast(sent, 3)["radius"]
        assert type(made) in (float, int)
        f = simulate([row[None] for row in rows], "trusted", seed=1, bound=1e40)
        sums, _ = f.collect(own, [Gaussian(made, 1.0), Gaussian(1.0, 1.0)], round=0, **sent)
        lengths = np.linalg.norm(sums[:, 0], axis=1)
        assert lengths == pytest.approx(made) and (lengths <= made * (1 + 1e-12)).all()


@pytest.mark.parametrize("center", [0.7, -0.999, 1e6])
def test_relative_sums_of_neighbours_differ_by_the_radius_at_most(center):
    """Sums of x less count times centre would leave the rounding of the sums, many radii long."""
    spacing = abs(float(np.spacing(center)))
    radius = 40 * spacing
    steps = np.random.default_rng(4).integers(-39, 40, (1000, 1)) * spacing
    rows, centers = center + steps, np.linspace(center, center + 5e3, 1000)[:, None]

    def total(rows):
        return cs.RELATIVE_SUMS_AND_COUNTS.compute(
            rows, np.array([0, len(rows)]), centers=centers, radius=radius
        )[0]

    whole = total(rows)
    for row in range(0, 1000, 100):
        assert np.linalg.norm(whole - total(np.delete(rows, row, axis=0))) <= radius * (1 + 1e-9)


@pytest.mark.parametrize("excess", [1e-12, 1e-9, 1e-6, 2e-4, 1e-3])
def test_a_row_a_little_longer_than_the_bound_is_cut_among_short_ones(excess):
    rows = np.full((9, 2), 0.01)
    rows[4] = [0.0, 0.3 * (1 + excess)]
    cut = cs.clipping.clip_rows(rows.copy(), 0.3)
    assert np.linalg.norm(cut[4]) <= 0.3 and np.array_equal(np.delete(cut, 4, 0), rows[[0] * 8])
