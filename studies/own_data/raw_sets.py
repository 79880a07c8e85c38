"""Tables in their own units, made up: heavy tails, skew, zeros, dates, years, integers, all sizes.

Each has three to six groups, unlike in some of its columns. The recipe of private bounds was
changed once after a look at the named ones (more magnitudes, a third look, narrow columns). `FRESH`
are tables of columns drawn at random, which nobody looked at before the table was made: the honest
number is theirs. Sets that ship with scikit-learn are drawn from with replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from sklearn import datasets as shipped

from fedclust_helpers._validation import FloatArray

Maker = Callable[..., FloatArray]
SETS: dict[str, tuple[int, Maker]] = {}
"""Name -> number of clusters, and what makes n rows: make(n, rng=rng)."""


def entered(k: int) -> Callable[[Maker], Maker]:
    """Enter a maker under its name."""

    def enter(make: Maker) -> Maker:
        SETS[make.__name__] = k, make
        return make

    return enter


def _groups(n: int, rng: np.random.Generator, *shares: float) -> np.ndarray:
    return rng.choice(len(shares), n, p=np.array(shares) / sum(shares))


def _of(group: np.ndarray, *values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)[group]


@entered(4)
def shops(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Money with a heavy tail, visits, year of the first, share of returns."""
    g = _groups(n, rng, 4, 3, 2, 1)
    return np.column_stack([
        rng.lognormal(_of(g, 3, 5, 6, 7.5), 0.8), rng.poisson(_of(g, 1, 6, 15, 40)),
        rng.integers(2004, 2026, n), rng.beta(1, _of(g, 4, 12, 20, 9)),
    ])  # fmt: skip


@entered(3)
def plant(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Pressure about 100,000 with a small spread, temperature of both signs, tiny currents."""
    g = _groups(n, rng, 2, 1, 1)
    return np.column_stack([
        rng.normal(_of(g, 100_900, 101_600, 102_100), 90), rng.normal(_of(g, -8, 4, 21), 3),
        rng.gamma(4, _of(g, 2e-7, 6e-7, 4e-7)), rng.normal(_of(g, 40, 70, 55), 6),
    ])  # fmt: skip


@entered(5)
def trips(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Places in degrees, seconds since 1970, skewed durations and distances."""
    g = _groups(n, rng, 3, 3, 2, 2, 1)
    long = rng.lognormal(_of(g, 5.5, 6, 6.5, 7, 8), 0.5)
    return np.column_stack([
        rng.normal(_of(g, 52.37, 52.40, 52.52, 52.45, 52.31), 0.01),
        rng.normal(_of(g, 13.2, 13.5, 13.4, 13.3, 13.6), 0.012),
        1.70e9 + 3e7 * rng.random(n), long, long * rng.normal(7, 1, n),
    ])  # fmt: skip


@entered(3)
def claims(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Two columns that are zero for most, with a Pareto tail; age; years insured."""
    g = _groups(n, rng, 6, 3, 1)
    some = rng.random((2, n)) < np.stack([_of(g, 0.05, 0.3, 0.7), _of(g, 0.02, 0.1, 0.6)])
    amounts = (rng.pareto(2.2, (2, n)) + 1) * _of(g, 200, 500, 1500)
    return np.column_stack([
        *np.where(some, amounts, 0.0), rng.normal(_of(g, 35, 48, 66), 7).round(),
        rng.integers(0, 40, n),
    ])  # fmt: skip


@entered(4)
def genes(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Counts from none to thousands in eight columns."""
    g = _groups(n, rng, 1, 1, 1, 1)
    means = np.exp(np.random.default_rng(5).uniform(0, 7, (4, 8)))[g]
    return rng.negative_binomial(4, 4 / (4 + means)).astype(np.float64)


@entered(4)
def census(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Integers with many equal values: age, hours, schooling, year of arrival, children."""
    g = _groups(n, rng, 3, 3, 2, 1)
    hours = np.where(rng.random(n) < 0.6, 40, rng.normal(_of(g, 20, 38, 50, 8), 7).round())
    return np.column_stack([
        rng.normal(_of(g, 23, 38, 52, 71), 5).round(), hours.clip(0, 99),
        rng.normal(_of(g, 11, 14, 17, 9), 1.5).round().clip(1, 20),
        rng.integers(1960, 2020, n), rng.poisson(_of(g, 0.2, 1.5, 2, 3)),
    ])  # fmt: skip


@entered(3)
def stars(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Metres to a star, magnitude of both signs, tiny masses against huge ones, temperature."""
    g = _groups(n, rng, 5, 3, 1)
    return np.column_stack([
        rng.lognormal(_of(g, 40, 42, 43), 0.7), rng.normal(_of(g, 11, 5, -4), 1.5),
        rng.lognormal(_of(g, 68.5, 69.6, 72), 0.3), rng.normal(_of(g, 3400, 5700, 9500), 350),
    ])  # fmt: skip


@entered(3)
def doses(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Milligrams far below one, weight, year of birth, days of treatment, a ratio near one."""
    g = _groups(n, rng, 2, 2, 1)
    return np.column_stack([
        rng.gamma(5, _of(g, 0.002, 0.01, 0.03)), rng.normal(_of(g, 62, 81, 95), 8),
        rng.normal(_of(g, 1985, 1960, 1942), 6).round(), rng.geometric(_of(g, 0.2, 0.07, 0.02)),
        rng.normal(_of(g, 0.98, 1.01, 1.04), 0.012),
    ])  # fmt: skip


@entered(4)
def houses(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Price, area, rooms, year built, garden (none for most), energy."""
    g = _groups(n, rng, 3, 3, 2, 1)
    garden = np.where(rng.random(n) < _of(g, 0.1, 0.4, 0.9, 0.9), rng.lognormal(6, 0.8, n), 0)
    return np.column_stack([
        rng.lognormal(_of(g, 11.8, 12.4, 12.9, 14), 0.25), rng.normal(_of(g, 48, 82, 130, 240), 12),
        rng.normal(_of(g, 2, 3, 5, 7), 0.5).round(),
        rng.normal(_of(g, 1965, 1990, 2005, 1925), 9).round(),
        garden, rng.normal(_of(g, 150, 110, 70, 220), 20),
    ])  # fmt: skip


@entered(3)
def returns(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Student's t with three degrees of freedom, both signs, about nothing; volumes."""
    g = _groups(n, rng, 1, 1, 1)
    moves = rng.standard_t(3, (3, n)) * _of(g, 0.004, 0.012, 0.03) + _of(g, -0.02, 0, 0.05)
    return np.column_stack([*moves, rng.lognormal(_of(g, 14, 11, 9), 1.0)])


@entered(4)
def calendar(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Days since 1900, milliseconds since 1970, the hour, an amount of both signs."""
    g = _groups(n, rng, 1, 1, 1, 1)
    return np.column_stack([
        rng.normal(_of(g, 43_900, 44_600, 45_100, 45_500), 90).round(),
        1e3 * rng.normal(_of(g, 1.58e9, 1.63e9, 1.68e9, 1.72e9), 6e6),
        rng.normal(_of(g, 7, 11, 16, 21), 1.2) % 24, rng.normal(_of(g, -300, 50, 400, 900), 90),
    ])  # fmt: skip


@entered(3)
def needles(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Numbers about a large one, closer and closer: a thousandth, a ten-thousandth of it."""
    g = _groups(n, rng, 1, 1, 1)
    at = rng.normal(_of(g, -1, 0, 1.5), 0.25, (3, n))
    return np.column_stack([7000 + 40 * at[0], 5e6 + 4000 * at[1], 3e8 + 2e4 * at[2], at[0] * 9])


@entered(6)
def network(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Bytes in and out over six magnitudes, milliseconds, ports, errors (nearly none)."""
    g = _groups(n, rng, 3, 3, 2, 2, 1, 1)
    return np.column_stack([
        rng.lognormal(_of(g, 6, 8, 10, 12, 14, 16), 0.9),
        rng.lognormal(_of(g, 5, 10, 7, 9, 15, 8), 0.9),
        rng.gamma(2, _of(g, 4, 20, 60, 90, 300, 700)), _of(g, 53, 443, 80, 8080, 22, 3306),
        rng.poisson(_of(g, 0, 0.01, 0.02, 0.1, 0.3, 1)),
    ])  # fmt: skip


@entered(5)
def grades(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Ten columns with a short range: points out of 20, percentages, a year."""
    g = _groups(n, rng, 1, 2, 3, 2, 1)
    able = _of(g, 4, 8, 11, 14, 18)
    points = [rng.normal(able, s).round().clip(0, 20) for s in (1, 1.5, 2, 2, 2.5, 3)]
    per_cent = [(100 * rng.beta(able, 21 - able)).round() for _ in range(3)]
    return np.column_stack([*points, *per_cent, rng.integers(2015, 2025, n)])


@cache
def _rows_of(name: str) -> FloatArray:
    load = getattr(shipped, f"load_{name}")
    return np.asarray(load(return_X_y=True, **({"scaled": False} if name == "diabetes" else {}))[0])


def _drawn(name: str) -> Maker:
    def make(n: int, *, rng: np.random.Generator) -> FloatArray:
        rows = _rows_of(name)
        near = rows[rng.integers(len(rows), size=n)]
        return near + 0.05 * rows.std(axis=0) * rng.standard_normal(near.shape)

    return make


SETS |= {name: (k, _drawn(name)) for name, k in (("iris", 3), ("diabetes", 4), ("digits", 10))}


# --- tables of random columns ---------------------------------------------------------------------

Column = Callable[[FloatArray, np.random.Generator], FloatArray]
COLUMNS: tuple[Column, ...] = (
    lambda at, rng: rng.lognormal(2 * at, 0.8),
    lambda at, rng: rng.gamma(1 + np.exp(at)),
    lambda at, rng: at + 0.3 * rng.standard_t(3, len(at)),
    lambda at, rng: 10 + at + rng.normal(0, 0.3, len(at)),
    lambda at, rng: 1000 + at + rng.normal(0, 0.4, len(at)),
    lambda at, rng: np.where(rng.random(len(at)) < 0.5, 0.0, rng.pareto(2.5, len(at)) + np.exp(at)),
    lambda at, rng: rng.poisson(np.exp(at)).astype(np.float64),
    lambda at, rng: rng.beta(np.exp(at), 2.0),
    lambda at, rng: -rng.weibull(1.5, len(at)) * np.exp(at),
    lambda at, rng: rng.normal(at, 0.5) ** 3,
)
"""Columns whose rows lie where their groups say: skewed, heavy-tailed, far off, of mostly zeros."""
WHOLE: tuple[Column, ...] = (
    lambda at, rng: rng.normal(1990 + 12 * at, 4).round(),
    lambda at, rng: 1.7e9 + 2e7 * (at + rng.random(len(at))).round(6),
    lambda at, rng: (3 + at + rng.normal(0, 0.7, len(at))).round().clip(1, 5),
    lambda at, rng: rng.negative_binomial(2, 1 / (1 + np.exp(at))).astype(np.float64),
)
"""Years, seconds since 1970, answers from 1 to 5, counts: their unit is their own."""


def _random(seed: int) -> tuple[int, Maker]:
    """Three to nine columns, most of them in a unit of any size, and three to six groups."""
    form = np.random.default_rng(seed)
    k, d = int(form.integers(3, 7)), int(form.integers(3, 10))
    kinds, units = form.integers(0, len(COLUMNS) + len(WHOLE), d), 10.0 ** form.uniform(-9, 9, d)
    means, shares = form.normal(0, 1, (d, k)), form.dirichlet(np.full(k, 5.0))

    def make(n: int, *, rng: np.random.Generator) -> FloatArray:
        g = rng.choice(k, n, p=shares)
        made = []
        for kind, unit, at in zip(kinds, units, means, strict=True):
            own = kind < len(COLUMNS)
            column = (
                COLUMNS[kind](at[g], rng) * unit if own else WHOLE[kind - len(COLUMNS)](at[g], rng)
            )
            made.append(column)
        return np.column_stack(made)

    return k, make


FRESH = tuple(f"random_{seed}" for seed in range(1, 17))
SETS |= {name: _random(2026 + i) for i, name in enumerate(FRESH)}
