"""A plan on its way: who vouches for it, what comes next, and the budget that is held for it.

Only a planner knows what its algorithm will broadcast in every round, so it alone can check a plan
whole. A plan with a field that was changed by hand is refused whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fedclust_helpers._validation import check_function, check_instance
from fedclust_helpers.accounting import BudgetExceededError, PrivacyLedger
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
)

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made", bound=Plan)


def planner(function: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """A function that vouches for its plans: a federation follows no others.

    Before it returns a plan it has asked the federation for every release of it, with what will be
    broadcast (`check_release`), and has checked all that its algorithm reads off the plan.
    """
    check_function(function, "function")

    @wraps(function)
    def vouching(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        plan = function(*args, **kwargs)
        check_instance(plan, Plan, "plan")
        object.__setattr__(plan, "_vouched", _values(plan))
        return plan

    return vouching


def check_vouched(plan: Plan) -> None:
    """Raise `PlanMismatchError` unless every field is as a `planner` left it."""
    now = _values(plan)
    made = vars(plan).get("_vouched", [...] * len(now))
    if not all(a is b or (np.isscalar(a) and a == b) for a, b in zip(made, now, strict=True)):
        raise PlanMismatchError(
            "plan must be as a planner made it: with a field changed by hand it could fail on its"
            " way, when part of the budget is spent, or state what does not hold. Give the planner"
            " other arguments; it checks every round"
        )


def _values(plan: Plan) -> list[Any]:
    return [getattr(plan, f.name) for f in fields(plan)]


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
        check_vouched(plan)
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
        self.reservation = ledger.admit(
            plan.lines(), name=f"{plan.method} as planned", repeats=plan.repeats()
        )
        self.plan, self.done, self.n_made = plan, done, 0

    def next(self, wanted: PlannedRelease, *, again: bool = False) -> int:
        """The number of a release; refused if it is not the next one of the plan.

        `again`: if it is not the last one that was made.
        """
        number = self.n_made - again
        planned = self.plan.releases[number:][:1]
        keys = ("round", "name", "mechanisms", "sampling", "part", "amplified")
        wrong = [k for k in keys if not planned or getattr(planned[0], k) != getattr(wanted, k)]
        if wrong:
            raise PlanMismatchError(
                f"release {wanted.name!r} of round {wanted.round} is not the next one of the plan"
                + (f" (other {', '.join(wrong)})" if planned else " (all of it was released)")
            )
        self.n_made = number + 1  # first: what follows may be a function of the caller's
        if number and not again:
            self.done(number)
        return number
