"""A whole paper in miniature, from statistic to notebook cell: what CONTRIBUTING.md walks through.

"The private mean" (nobody wrote it): every client sums its rows, each cut to length `bound`, and
counts them; one noised sum of both is released; the mean is their quotient. Its one claim: the
error falls like 1/N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import FloatArray, IntArray, check_int
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.client_statistics.base import COUNT, Change, ClientStatistic, Values, vector
from fedclust_helpers.federation import Plan, PlannedRelease, RunResult, planner, simulate
from fedclust_helpers.studies.bench.grading import Claim

# --- 1. the statistic: what a client computes, and what one record can change in it ---------------


def changes(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row of length `bound` at most, and 1 in the count."""
    return {"total": vector(bound, "bound", n_features), "count": COUNT}


def total_and_count(points: FloatArray, offsets: IntArray) -> Values:
    """Sum and number of the rows of each client."""
    sizes = np.diff(offsets).astype(np.float64)
    return *TOTAL.compute(points, offsets), sizes[:, None]  # all clients at once


TOTAL_AND_COUNT = ClientStatistic(
    "total_and_count", ("total", "count"), total_and_count, changes, domain="ball"
)

# --- 2. the plan: every public number, and the noise that the federation chooses ------------------


@planner
def plan(federation: Any, *, epsilon: float, delta: float, n_rounds: int = 1) -> Plan:
    """One noised sum for (epsilon, delta), one point, whatever the ledger's relation."""
    check_int(n_rounds, "n_rounds")
    # both parts and all rounds share mu^2 equally
    multiplier = federation.noise_multiplier(epsilon, delta) * float(np.sqrt(2 * n_rounds))
    d = federation.n_features
    noise = tuple(
        federation.gaussian(TOTAL_AND_COUNT, part, multiplier=multiplier, n_coordinates=size)
        for part, size in (("total", d), ("count", 1))
    )
    first = PlannedRelease.of(TOTAL_AND_COUNT, noise, round=0, numbers=d + 1)
    return Plan(
        method="the private mean", n_clusters=1, n_features=d, n_rounds=n_rounds,
        epsilon=epsilon, delta=delta, facts=federation.facts,
        releases=tuple(replace(first, round=t) for t in range(n_rounds)),
    )  # fmt: skip


# --- 3. the run: the algorithm, and nothing else --------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanResult(RunResult):
    """The mean (1, d) of all rounds."""

    centers: FloatArray


def run(federation: Any, plan: Plan, *, progress: Progress = False) -> MeanResult:
    """Follow the plan on its federation; `progress` as for every run."""
    means = []
    with federation.follow(plan, progress) as held:
        for t, release in enumerate(plan.releases):
            total, count = federation.noisy_sum(TOTAL_AND_COUNT, release.mechanisms, round=t)
            means.append(total / max(float(count[0]), 1.0))
    return MeanResult(
        plan=plan, ledger=federation.ledger.of(held), transcript=federation.transcript,
        centers=np.mean(means, axis=0)[None],
    )  # fmt: skip


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
    "T1", "Section 1", "the error of the private mean falls like 1/N", errors,
    "slope {slope:.2f} in N", lambda n: abs(n.slope + 1) < 0.15,
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

federation = simulate([[[0.1, 0.2]], [[0.3, 0.1]]], "masked", seed=1, domain="ball")
plan = toy.plan(federation, epsilon=1.0, delta=1e-6)
print(plan.n_rounds, "round, epsilon", plan.epsilon)

# %%
result = toy.run(federation, plan)
_ = toy.plot_errors(plt.subplots()[1], toy.errors((100, 1000)))
plt.show()
"""
