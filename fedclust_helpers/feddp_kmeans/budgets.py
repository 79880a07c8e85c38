"""Step budgets of FedDP-KMeans: how an epsilon is split, and what the steps cost together.

Each Gaussian step is calibrated alone at (epsilon_i, delta), each Laplace step has scale
sensitivity/epsilon_i. What all steps cost together is the ledger's business: the total is the joint
composition of all mechanisms at one delta, not the sum of Theorem 1 (which would need 3 delta:
claim F9). Which mechanism a step gets is decided by the federation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    Delta,
    check_int,
    check_non_negative,
)
from fedclust_helpers.accounting import PrivacyLedger, gaussian_sigma_analytic
from fedclust_helpers.accounting.search import safe_root
from fedclust_helpers.mechanisms import Gaussian, Laplace, Mechanism

STEPS = ("outer", "weights", "sums", "counts")
LLOYD_STEPS = ("lloyd_sums", "lloyd_counts")
PROPORTIONS: Mapping[str, tuple[float, float, float, float]] = {
    "point": (0.2, 0.2, 0.45, 0.15),
    "client": (0.35, 0.1, 0.45, 0.1),
}
"""Recommended shares of (epsilon_1, epsilon_2, epsilon_3G, epsilon_3L), Appendix H.1."""

MAX_ROUNDS = 10_000  # a plan lists every release: more rounds than this were never meant
MIN_BUDGET, MAX_BUDGET = 1e-12, 1e12  # beyond, noise and data differ by more than floats hold


def _budget(epsilon: Any, name: str) -> float:
    """A privacy parameter epsilon for which noise can be drawn in floats, or 0."""
    epsilon = check_non_negative(epsilon, name)
    if epsilon and not MIN_BUDGET <= epsilon <= MAX_BUDGET:
        raise ValueError(
            f"{name} must lie between {MIN_BUDGET:g} and {MAX_BUDGET:g}, got {epsilon:g}"
        )
    return epsilon


StepBudget = Annotated[float, _budget]


@checked
@dataclass(frozen=True)
class StepBudgets:
    """Epsilon of each step, as in Algorithms 1 and 2; `delta` belongs to each Gaussian step.

    `lloyd_sums` and `lloyd_counts` are for all `n_rounds` rounds of FedDP-Lloyds together. A step
    with budget 0 is not run.

    >>> StepBudgets(outer=0.2, weights=0.3, sums=0.4, counts=0.1).n_rounds
    0
    """

    outer: StepBudget
    weights: StepBudget
    sums: StepBudget
    counts: StepBudget
    lloyd_sums: StepBudget = 0.0
    lloyd_counts: StepBudget = 0.0
    n_rounds: Annotated[int, partial(check_int, minimum=0, maximum=MAX_ROUNDS)] = 0
    delta: Delta = 1e-6

    def __post_init__(self) -> None:
        if (self.n_rounds > 0) != (self.lloyd_sums > 0 and self.lloyd_counts > 0):
            raise ValueError("lloyd_sums and lloyd_counts must be > 0 exactly when n_rounds > 0")

    @property
    def steps(self) -> dict[str, float]:
        """Epsilon of each step by its name."""
        return {name: getattr(self, name) for name in (*STEPS, *LLOYD_STEPS)}

    @property
    def epsilon_sum(self) -> float:
        """The sum of all step budgets: the epsilon of Theorem 1."""
        return math.fsum(self.steps.values())

    def total(self) -> float:
        """Exact total epsilon at `delta` of Gaussian and Laplace noise, by the ledger.

        Sensitivities cancel, so no federation is needed. Discrete noise costs a hair more: the
        total of a run is that of its plan.
        """
        t = max(self.n_rounds, 1)
        releases: list[tuple[Mechanism, ...]] = []
        for name, epsilon in self.steps.items():
            rounds = t if name in LLOYD_STEPS else 1
            if epsilon and name in ("outer", "sums", "lloyd_sums"):
                std = math.sqrt(rounds) * gaussian_sigma_analytic(epsilon, self.delta)
                releases += [(Gaussian(1.0, std),)] * rounds
            elif epsilon:
                releases += [(Laplace.from_budget(1.0, epsilon / rounds),)] * rounds
        return joint_epsilon(tuple(releases), self.delta)


@lru_cache(maxsize=4096)
def joint_epsilon(
    releases: tuple[tuple[Mechanism, ...], ...],
    delta: float,
    unit: str = "point",
    adjacency: str = "add/remove",
) -> float:
    """The ledger's total of these releases; the same question is answered once per process."""
    ledger = PrivacyLedger(unit=unit, adjacency=adjacency)
    for mechanisms in releases:
        ledger.charge(list(mechanisms), name="step")
    return ledger.epsilon(delta)


def split_epsilon(
    epsilon_init: float, *, unit: Literal["point", "client"] = "point",
    proportions: Sequence[float] | None = None, n_rounds: int = 0, delta: float = 1e-6,
) -> StepBudgets:  # fmt: skip
    """Step budgets from epsilon_init, which they sum to, and proportions (Appendix H.1).

    `proportions` are four numbers >= 0 that sum to 1, the shares of outer product, weights, sums
    and counts; the paper's for `unit` by default. All `n_rounds` rounds of FedDP-Lloyds together
    get the same pair as Step 3, on top of epsilon_init.
    """
    if not _budget(epsilon_init, "epsilon_init"):
        raise ValueError("epsilon_init must be > 0, got 0")
    shares = PROPORTIONS[unit] if proportions is None else proportions
    outer, weights, sums, counts = (epsilon_init * share for share in shares)
    lloyd = (sums, counts) if n_rounds else (0.0, 0.0)
    return StepBudgets(outer, weights, sums, counts, lloyd[0], lloyd[1], n_rounds, delta)


def calibrate_budgets(
    shares: StepBudgets,
    epsilon: float,
    *,
    total: Callable[[StepBudgets], float] = StepBudgets.total,
) -> StepBudgets:
    """The largest multiple of `shares` whose `total` is at most `epsilon`.

    Of `shares` only ratios matter; they should add up to about 1 (the search starts there). `total`
    is what step budgets cost, growing with them (about ten calls); `plan` asks the ledger for the
    mechanisms that its federation would use. ValueError if even the smallest budgets cost more:
    every Gaussian step is calibrated at `delta` alone, so several of them together cost a little at
    the same delta, however small each budget.
    """
    used = [share for share in shares.steps.values() if share]
    if not (2.5 * epsilon * max(used) < MAX_BUDGET and epsilon / 2 * min(used) > MIN_BUDGET):
        raise ValueError(
            f"epsilon must leave each step between {MIN_BUDGET:g} and {MAX_BUDGET:g}, got {epsilon}"
        )

    def at(log_scale: float) -> StepBudgets:
        factor = math.exp(log_scale)
        scaled: Any = {name: factor * share for name, share in shares.steps.items()}
        return replace(shares, **scaled)

    def excess(log_scale: float) -> float:
        found = total(at(log_scale))
        return math.log(found / epsilon) if found > 0 else -50.0

    # the sum is an upper bound of the total (at equal delta it nearly always is): bracket around it
    low, high = math.log(epsilon / 2), math.log(2.5 * epsilon)
    lowest = max(low - 25.0, math.log(MIN_BUDGET / min(used)))
    while excess(low) > 0:
        low -= 1.0
        if low < lowest:
            raise ValueError(
                f"epsilon={epsilon:g} is too small at delta={shares.delta:g}: the Gaussian steps"
                " together cost more than that, however little each of them gets; choose a larger"
                " epsilon or a smaller delta of each step"
            )
    while excess(high) < 0 and high + 1.0 < math.log(MAX_BUDGET / max(used)):
        high += 1.0
    if excess(high) < 0:
        return at(high)
    return at(safe_root(excess, low, high, xtol=2e-4, step=1e-4))
