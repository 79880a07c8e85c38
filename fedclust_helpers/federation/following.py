"""A plan on its way: what comes next, and the budget that is held for it."""

from __future__ import annotations

from collections.abc import Callable

from fedclust_helpers.accounting import BudgetExceededError, PrivacyLedger
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
)


class Following:
    """A plan whose budget is held; refused if it is another federation's, or costs too much.

    `done` is called with the number of releases that are finished.
    """

    def __init__(
        self,
        plan: Plan,
        facts: FederationFacts,
        ledger: PrivacyLedger,
        done: Callable[[int], object],
    ) -> None:
        plan.vouched()
        if plan.facts != facts:
            names = FederationFacts.__dataclass_fields__
            wrong = [n for n in names if getattr(plan.facts, n) != getattr(facts, n)]
            raise PlanMismatchError(f"plan was made for a federation with other {', '.join(wrong)}")
        if not plan.total_epsilon <= plan.epsilon * (1 + 1e-9):
            raise BudgetExceededError(
                f"the releases of the plan cost epsilon={plan.total_epsilon:g}, more than the"
                f" {plan.epsilon:g} that it states"
            )
        for release in plan.releases:
            ledger.line(
                release.mechanisms, name=release.name, round=release.round,
                sampling=release.charged_sampling,
            )  # fmt: skip
        self.reservation = ledger.admit(plan.lines(), name=f"{plan.method} as planned")
        self.plan, self.done, self.n_made = plan, done, 0

    def next(self, wanted: PlannedRelease) -> None:
        """Refuse a release that is not the next one of the plan."""
        planned = self.plan.releases[self.n_made :][:1]
        keys = ("round", "name", "mechanisms", "sampling", "part", "amplified")
        wrong = [k for k in keys if not planned or getattr(planned[0], k) != getattr(wanted, k)]
        if wrong:
            raise PlanMismatchError(
                f"release {wanted.name!r} of round {wanted.round} is not the next one of the plan"
                + (f" (other {', '.join(wrong)})" if planned else " (all of it was released)")
            )
        self.n_made += 1  # first: what follows may be a function of the caller's
        if self.n_made > 1:
            self.done(self.n_made - 1)
