"""A whole paper in miniature, from statistic to notebook cell: what CONTRIBUTING.md walks through.

"The private mean" (nobody wrote it): every client sums its rows, each cut to length `bound`, and
counts them; one noised sum of both is released; the mean is their quotient. Its one claim: the
error falls like 1/N.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers._validation import Count, FloatArray, IntArray
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.client_statistics.base import COUNT, Change, ClientStatistic, Values, vector
from fedclust_helpers.federation import simulate
from fedclust_helpers.program import Algorithm, Public, Release, Steps, gaussian, run
from studies.bench.grading import Claim

# --- 1. the statistic: what a client computes, and what one record can change in it ---------------


def changes(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row of length `bound` at most, and 1 in the count."""
    return {"total": vector(bound, n_features), "count": COUNT}


def total_and_count(points: FloatArray, offsets: IntArray) -> Values:
    """Sum and number of the rows of each client."""
    sizes = np.diff(offsets).astype(np.float64)
    return *TOTAL.compute(points, offsets), sizes[:, None]  # all clients at once


TOTAL_AND_COUNT = ClientStatistic(
    "total_and_count", ("total", "count"), total_and_count, changes, domain="ball"
)

# --- 2. the algorithm: it asks for noised sums, and says how much noise each part gets ------------


class Mean(NamedTuple):
    """The mean (1, d) of all rounds."""

    centers: FloatArray


def private_mean(public: Public, sigma: float, *, n_rounds: Count = 1) -> Steps:
    """The private mean for a total of (epsilon, delta), one point."""
    noise, means = gaussian(sigma * math.sqrt(2 * n_rounds)), []  # all share mu^2 equally
    for _ in range(n_rounds):
        total, count = yield Release(TOTAL_AND_COUNT, [noise, noise])
        means.append(total / max(float(count[0]), 1.0))
    return Mean(np.mean(means, axis=0)[None])


# --- 3. its planner; `run` follows every plan -----------------------------------------------------

PRIVATE_MEAN = Algorithm(name="the private mean", steps=private_mean)
plan = PRIVATE_MEAN.planner()

# --- 4. the claim, 5. the figure, 6. the cell -----------------------------------------------------


def errors(sizes: tuple[int, ...] = (100, 1000, 10_000)) -> dict[str, Any]:
    """Root mean square error of the mean over 20 runs, for N rows of one Gaussian."""
    found = []
    for n in sizes:
        rows = np.random.default_rng(n).normal(0, 0.1, (n, 2))
        runs = []
        for seed in range(20):
            federation = simulate([rows[::2], rows[1::2]], "ideal", seed=seed, domain="ball")
            result = run(federation, plan(federation, epsilon=1.0, delta=1e-6))
            runs.append(((result.centers[0] - rows.mean(axis=0)) ** 2).sum())
        found.append(float(np.sqrt(np.mean(runs))))
    slope = float(np.polyfit(np.log(sizes), np.log(found), 1)[0])
    return {"sizes": sizes, "errors": tuple(found), "slope": slope}


CLAIM = Claim(
    id="T1", where="Section 1", statement="the error of the private mean falls like 1/N",
    check=errors, shows="slope {slope:.2f} in N", rule="abs(slope + 1) < 0.15",
)  # fmt: skip


def plot_errors(ax: Axes, numbers: dict[str, Any]) -> Axes:
    """Error against N, both logarithmic, with the claim as a line."""
    ax.loglog(numbers["sizes"], numbers["errors"], "o", label="20 runs each")
    sizes = np.array(numbers["sizes"])
    ax.loglog(sizes, numbers["errors"][0] * sizes[0] / sizes, label="1/N")
    ax.set(xlabel="rows N", ylabel="error", title="Ten times the rows, a tenth of the error")
    ax.legend()
    return ax


CELL = """# %%
import matplotlib.pyplot as plt
import toy_paper as toy

from fedclust_helpers.federation import simulate
from fedclust_helpers.program import run

federation = simulate([[[0.1, 0.2]], [[0.3, 0.1]]], "masked", seed=1, domain="ball")
plan = toy.plan(federation, epsilon=1.0, delta=1e-6)
print(plan.n_rounds, "round, epsilon", plan.epsilon)

# %%
result = run(federation, plan)
_ = toy.plot_errors(plt.subplots()[1], toy.errors((100, 1000)))
plt.show()
"""
