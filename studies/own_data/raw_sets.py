"""Tables in their own units: heavy tails, skew, zeros, dates, years, whole numbers, any size.

`FRESH` are tables of columns drawn at random, which nobody looked at before the result table was
made: the honest number is theirs. The constants of private bounds were chosen on others. Sets that
ship with scikit-learn, drawn from with replacement, were looked at before the recipe was fixed.
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


FRESH = tuple(f"random_{seed}" for seed in range(1, 15))
SETS |= {name: _random(2026 + i) for i, name in enumerate(FRESH)}


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


SHIPPED = {"iris": 3, "wine": 3, "breast_cancer": 2, "diabetes": 4, "digits": 10}
SETS |= {name: (k, _drawn(name)) for name, k in SHIPPED.items()}
