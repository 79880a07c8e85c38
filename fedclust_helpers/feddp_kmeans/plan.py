"""Budgets of FedDP-KMeans: step budgets, their exact total, and the inverse.

Each Gaussian step is calibrated alone by the analytic mechanism at (epsilon_i, delta), each Laplace
step has scale sensitivity/epsilon_i. What all steps cost together is the ledger's business: the
total is the PLD composition of all mechanisms at one delta, not the sum of Theorem 1 (which would
need 3 delta: theory checks F9).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scipy.optimize import brentq

from fedclust_helpers._validation import check_choice, check_delta, check_epsilon, check_int
from fedclust_helpers.accounting import PrivacyLedger, gaussian_sigma_analytic, zcdp_rho
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
)

STEPS = ("outer", "weights", "sums", "counts")
PROPORTIONS: Mapping[str, tuple[float, float, float, float]] = {
    "point": (0.2, 0.2, 0.45, 0.15),
    "client": (0.35, 0.1, 0.45, 0.1),
}
"""Recommended shares of (epsilon_1, epsilon_2, epsilon_3G, epsilon_3L), Appendix H.1."""


@dataclass(frozen=True)
class StepBudgets:
    """Epsilon of each step, as in Algorithms 1 and 2; `delta` belongs to each Gaussian step.

    `lloyd_sums` and `lloyd_counts` are for all `n_rounds` rounds of FedDP-Lloyds together. A step
    with budget 0 is not run.
    """

    outer: float
    weights: float
    sums: float
    counts: float
    lloyd_sums: float = 0.0
    lloyd_counts: float = 0.0
    n_rounds: int = 0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        check_int(self.n_rounds, "n_rounds", minimum=0)
        check_delta(self.delta)
        for name in (*STEPS, "lloyd_sums", "lloyd_counts"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and >= 0, got {value}")
        if (self.n_rounds > 0) != (self.lloyd_sums > 0 and self.lloyd_counts > 0):
            raise ValueError("lloyd_sums and lloyd_counts must be > 0 exactly when n_rounds > 0")

    @property
    def epsilon_sum(self) -> float:
        """The sum of all step budgets: the epsilon of Theorem 1."""
        steps = (*STEPS, "lloyd_sums", "lloyd_counts")
        return math.fsum(getattr(self, name) for name in steps)

    def total(self, *, kind: str = "continuous") -> float:
        """The exact total epsilon at `delta` for all steps together, by the ledger."""
        return total_epsilon(self, kind)

    def mechanisms(
        self,
        sensitivities: Mapping[str, float],
        *,
        kind: str = "continuous",
        grid: float = 2.0**-30,
        integral_counts: bool = True,
    ) -> dict[str, Mechanism]:
        """One mechanism for each step that has a budget.

        Parameters
        ----------
        sensitivities : mapping
            For "outer", "sums", "lloyd_sums" in L2, for "weights", "counts", "lloyd_counts" in L1.
        kind : {"continuous", "discrete"}
        grid : float
            Grid of discrete mechanisms; counts take grid 1 if `integral_counts`.
        """
        check_choice(kind, "kind", ("continuous", "discrete"))
        out: dict[str, Mechanism] = {}
        for name in ("outer", "sums", "lloyd_sums"):
            epsilon = getattr(self, name)
            if epsilon == 0:
                continue
            std = sensitivities[name] * gaussian_multiplier(epsilon, self.delta, kind)
            if name == "lloyd_sums":
                std *= math.sqrt(self.n_rounds)
            out[name] = (
                Gaussian(sensitivities[name], std)
                if kind == "continuous"
                else DiscreteGaussian(sensitivities[name], std, grid)
            )
        for name in ("weights", "counts", "lloyd_counts"):
            epsilon = getattr(self, name)
            if epsilon == 0:
                continue
            if name == "lloyd_counts":
                epsilon /= self.n_rounds
            step = 1.0 if integral_counts else grid
            out[name] = (
                Laplace.from_budget(sensitivities[name], epsilon)
                if kind == "continuous"
                else DiscreteLaplace.from_budget(sensitivities[name], epsilon, grid=step)
            )
        return out


def gaussian_multiplier(epsilon: float, delta: float, kind: str) -> float:
    """Noise multiplier of one Gaussian step: analytic, or by zCDP for discrete noise."""
    if kind == "continuous":
        return gaussian_sigma_analytic(epsilon, delta)
    return 1 / math.sqrt(2 * zcdp_rho(epsilon, delta))


@lru_cache(maxsize=4096)
def total_epsilon(budgets: StepBudgets, kind: str = "continuous") -> float:
    """Total epsilon of `budgets` at their delta (add/remove); each distinct call is made once.

    Sensitivities cancel, so the total depends on the budgets alone.
    """
    unit = dict.fromkeys((*STEPS, "lloyd_sums", "lloyd_counts"), 1.0)
    ledger = PrivacyLedger()
    mechanisms = budgets.mechanisms(unit, kind=kind)
    for name, mechanism in mechanisms.items():
        repeats = budgets.n_rounds if name.startswith("lloyd") else 1
        for _ in range(repeats):
            ledger.charge([mechanism], name=name)
    return ledger.epsilon(budgets.delta)


def budgets_for_sum(
    epsilon_init: float,
    *,
    unit: Literal["point", "client"] = "point",
    proportions: Sequence[float] | None = None,
    n_rounds: int = 0,
    delta: float = 1e-6,
) -> StepBudgets:
    """Step budgets from epsilon_init and proportions (Appendix H.1).

    Parameters
    ----------
    epsilon_init : float
        Sum of the budgets of FedDP-Init.
    proportions : four numbers >= 0 that sum to 1, optional
        Shares of outer product, weights, sums, counts. Defaults to the paper's for `unit`.
    n_rounds : int
        Rounds of FedDP-Lloyds. All rounds together get the same pair as Step 3, on top of
        epsilon_init.
    """
    check_epsilon(epsilon_init, "epsilon_init")
    check_choice(unit, "unit", ("point", "client"))
    shares = PROPORTIONS[unit] if proportions is None else tuple(float(p) for p in proportions)
    if len(shares) != 4 or not all(s >= 0 for s in shares) or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"proportions must be four numbers >= 0 that sum to 1, got {shares}")
    steps = [epsilon_init * s for s in shares]
    n_rounds = check_int(n_rounds, "n_rounds", minimum=0)
    lloyd = (steps[2], steps[3]) if n_rounds else (0.0, 0.0)
    outer, weights, sums, counts = steps
    return StepBudgets(outer, weights, sums, counts, *lloyd, n_rounds, check_delta(delta))


def budgets_for_total(
    epsilon: float,
    *,
    unit: Literal["point", "client"] = "point",
    proportions: Sequence[float] | None = None,
    n_rounds: int = 0,
    delta: float = 1e-6,
    kind: str = "continuous",
) -> StepBudgets:
    """The inverse: the largest step budgets whose exact total is at most `epsilon` at `delta`.

    Finds the scale by root search; about ten accountant calls, and none when the same question was
    asked before in this process.
    """
    key = None if proportions is None else tuple(float(p) for p in proportions)
    check_epsilon(epsilon)
    return _budgets_for_total(float(epsilon), unit, key, n_rounds, delta, kind)


@lru_cache(maxsize=1024, typed=True)
def _budgets_for_total(
    epsilon: float,
    unit: Literal["point", "client"],
    proportions: tuple[float, ...] | None,
    n_rounds: int,
    delta: float,
    kind: str,
) -> StepBudgets:
    def budgets(log_scale: float) -> StepBudgets:
        return budgets_for_sum(
            math.exp(log_scale), unit=unit, proportions=proportions, n_rounds=n_rounds, delta=delta
        )  # fmt: skip

    def excess(log_scale: float) -> float:
        return math.log(total_epsilon(budgets(log_scale), kind) / epsilon)

    # the sum is an upper bound of the total (at equal delta it nearly always is): bracket around it
    low, high = math.log(epsilon / 2), math.log(2.5 * epsilon)
    while excess(low) > 0:
        low -= 1.0
    while excess(high) < 0:
        high += 1.0
    root = brentq(excess, low, high, xtol=2e-4)
    while excess(root) > 0:  # the tolerance must not cost budget
        root -= 1e-4
    return budgets(root)


@lru_cache(maxsize=1024, typed=True)
def lloyd_budgets_for_total(
    epsilon: float, n_rounds: int, *, delta: float = 1e-6, share: float = 0.75
) -> StepBudgets:
    """Budgets of FedDP-Lloyds alone (for baselines): `share` on sums, the rest on counts.

    Total of all rounds at most `epsilon` at `delta`.
    """
    check_epsilon(epsilon)
    check_int(n_rounds, "n_rounds")
    if not 0 < share < 1:
        raise ValueError(f"share must lie in (0, 1), got {share}")

    def budgets(scale: float) -> StepBudgets:
        return StepBudgets(0.0, 0.0, 0.0, 0.0, scale * share, scale * (1 - share), n_rounds, delta)

    def excess(scale: float) -> float:
        return total_epsilon(budgets(scale)) - epsilon

    root = brentq(excess, 0.5 * epsilon, 3 * epsilon, xtol=2e-4 * epsilon)
    while excess(root) > 0:
        root *= 1 - 1e-4
    return budgets(root)
