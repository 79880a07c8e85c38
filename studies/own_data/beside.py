"""A private summary beside OpenDP's: one joint release, against seven questions a column.

Both get the same public bounds and the same mu. OpenDP's calls (a trusted server, floats of the
library's own) each get an equal share of mu^2/2 as zero-concentrated privacy, which is generous:
the exponential mechanism of its quantiles is charged no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedclust import describing
from fedclust.describing.summary import QUARTILES
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.federation import ClientData, simulate
from studies.bench.cell import Cell, Numbers, generator_of
from studies.own_data.raw_sets import SETS

DELTA, BINS, TAIL = 1e-6, 20, 0.001
CANDIDATES = 320  # places of a quartile, as many as the joint release has fine bins
Answer = dict[str, FloatArray]


def joint(X: FloatArray, low: FloatArray, high: FloatArray, epsilon: float, seed: int) -> Answer:
    """The summary of this project."""
    data = ClientData(X, np.array([0, len(X)]), copy=False)
    federation = simulate(data, "ideal", domain="raw", seed=seed)
    plan = describing.plan_summary(
        federation, lower=low, upper=high, bins=BINS, epsilon=epsilon, delta=DELTA
    )
    found = describing.run(federation, plan).value
    return {
        "count": found.count.value, "mean": found.mean.value, "spread": found.spread.value,
        "quartiles": found.quartiles.value, "bins": found.histogram,
    }  # fmt: skip


def opendp(X: FloatArray, low: FloatArray, high: FloatArray, epsilon: float, seed: int) -> Answer:
    """OpenDP's calls, one after the other; its noise is the operating system's."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rho = gdp_mu(epsilon, DELTA) ** 2 / 2 / (7 * X.shape[1])
    rows = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()

    def noised(asked: Any, column: list[float]) -> Any:
        """Gaussian noise that costs `rho`."""
        released = asked >> dp.m.then_gaussian(float(asked.map(1)) / math.sqrt(2 * rho))
        assert released.map(1) <= rho * (1 + 1e-6)
        return released(column)

    made: dict[str, list[Any]] = {name: [] for name in ("count", "mean", "spread")}
    quartiles, bins = [], []
    for column, a, b in zip(X.T, low.tolist(), high.tolist(), strict=True):
        middle, half = (a + b) / 2, (b - a) / 2
        u = ((column - middle) / half).clip(-1, 1).tolist()
        clamped = rows >> dp.t.then_clamp((-1.0, 1.0))
        n = max(float(noised(rows >> dp.t.then_count(), u)), 1.0)
        mean = noised(clamped >> dp.t.then_sum(), u) / n
        squares = (np.array(u) ** 2).tolist()
        square = noised(rows >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum(), squares) / n
        made["count"].append(n)
        made["mean"].append(middle + half * mean)
        made["spread"].append(half * math.sqrt(max(square - mean**2, 1e-6)))
        edges = np.linspace(-1, 1, BINS + 1)[1:-1].tolist()
        counted = (
            rows
            >> dp.t.then_find_bin(edges=edges)
            >> dp.t.then_count_by_categories(
                categories=list(range(BINS)), null_category=False, MO="L2Distance<f64>", TOA="f64"
            )
        )
        bins.append(noised(counted, u))
        quartiles.append([middle + half * _quantile(rows, u, p, rho) for p in QUARTILES])
    return {name: np.array(v) for name, v in made.items()} | {
        "quartiles": np.array(quartiles), "bins": np.array(bins),
    }  # fmt: skip


def _quantile(rows: Any, u: list[float], p: float, rho: float) -> float:
    """OpenDP's quantile among candidates, at the scale that costs `rho`."""
    import opendp.prelude as dp

    places = np.linspace(-1, 1, CANDIDATES + 1).tolist()

    def made(scale: float) -> Any:
        return rows >> dp.m.then_private_quantile(
            dp.zero_concentrated_divergence(), places, p, scale
        )

    scale = math.sqrt(made(1.0).map(1) / rho)  # rho falls with the square of the scale
    found = made(scale * (1 + 1e-9))
    assert found.map(1) <= rho * (1 + 1e-6)
    return float(found(u))


METHODS: dict[str, Callable[..., Answer]] = {"joint": joint, "opendp": opendp}


def summary_beside(cell: Cell, *, dataset: str, n: int, method: str, epsilon: float) -> Numbers:
    """Mean absolute errors over columns and runs: of the sample's own values, cut to the bounds.

    Counts and bins in shares of n, means and quartiles in standard deviations, spreads as ratios.
    """
    make = SETS[dataset][1]
    errors: dict[str, list[float]] = {}
    for run, seed in enumerate(cell.seeds()):
        X = make(n, rng=generator_of(f"summary_beside/{dataset}/{n}/{run}"))  # for both methods
        low, high = np.quantile(X, [TAIL, 1 - TAIL], axis=0)
        some = high > low
        X, low, high = np.clip(X, low, high)[:, some], low[some], high[some]
        answer = METHODS[method](X, low, high, epsilon, int(seed.generate_state(1)[0]))
        sd = X.std(axis=0)
        bins = [
            np.histogram(x, np.linspace(*ends, BINS + 1))[0]
            for x, ends in zip(X.T, zip(low, high, strict=True), strict=True)
        ]
        found = {
            "count": (answer["count"] - n) / n,
            "mean": (answer["mean"] - X.mean(axis=0)) / sd,
            "spread": answer["spread"] / sd - 1,
            "quartiles": (answer["quartiles"] - np.quantile(X, QUARTILES, axis=0).T) / sd[:, None],
            "bins": (answer["bins"] - np.array(bins)) / n,
        }
        for name, error in found.items():
            errors.setdefault(name, []).append(float(np.abs(error).mean()))
    return {"d": X.shape[1]} | {name: float(np.mean(each)) for name, each in errors.items()}
