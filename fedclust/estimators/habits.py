"""Habits of scikit-learn that mean something else where every fit is a release.

What is passed by habit is answered with what to do here. Pipelines, searches and cross-validation
that call a `fit` are noticed by the calls on the stack: a statement must not promise what a step
before it, or the fits beside it, take away.
"""

from __future__ import annotations

import sys
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from fedclust_helpers.accounting import BudgetExceededError, PrivacyLedger

PARAMETERS = {
    "random_state": "the name is seed, for mode='teaching' only: secure noise has no seed",
    "n_init": "each further start would be a release of its own, and cost its share of epsilon",
    "max_iter": "the number of rounds is part of the plan: options={'n_rounds': ...} where a method"
    " lets you choose",
    "tol": "rounds are planned in advance: when to stop must not depend on the rows",
    "init": "public starting centres go into options={'initial': ...} of method 'fastlloyd'",
    "n_jobs": "a fit runs in one process",
    "algorithm": "the name is method",
}
ARGUMENTS = {
    "sample_weight": "noise is calibrated for rows of weight 1, and a weight would multiply what a"
    " row can move; leave rows out by a public rule instead",
    "groups": "the name is clients",
    "owners": "the name is clients",
}


class UncoveredStepWarning(UserWarning):
    """A step before this one learned from the rows: what it learned is in no statement."""


class Search(NamedTuple):
    """A search or cross-validation that calls this fit: one of `n_fits` (None: not known)."""

    n_fits: int | None
    rows: int  # which object holds them
    scorer: Any  # one object in all fits of a search

    def is_of(self, other: Search) -> bool:
        """Whether both are fits of one search, as far as a fit can tell."""
        return self.rows == other.rows and self.scorer is other.scorer


class Around(NamedTuple):
    """What calls this fit: names of steps before it, of those that learn; and a search."""

    steps: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    search: Search | None = None

    def bounds_from(self, read_off: bool) -> str:
        """Where bounds come from, in words."""
        if read_off:
            return "read off the data, which was declared public"
        if self.learned:
            return (
                "as given, after a transformation that this statement does not cover"
                f" ({', '.join(self.learned)})"
            )
        return "given, public" + (f", in units after {', '.join(self.steps)}" * bool(self.steps))

    def uncovered(self) -> str:
        """What a user should hear of steps that learned from the rows."""
        return (
            f"{', '.join(self.learned)} learned from the rows before they came here: what that step"
            " learned is protected by no epsilon, and bounds are in its units. Scale by public"
            " bounds, as this estimator does, or fit that step on public rows"
        )


def refuse_parameters(kind: str, named: dict[str, Any]) -> None:
    """TypeError for a parameter that scikit-learn's estimators have and this one must not."""
    for name in named:
        if name in PARAMETERS:
            raise TypeError(f"{kind} has no parameter {name!r}: {PARAMETERS[name]}")


def refuse_arguments(y: Any, further: dict[str, Any]) -> None:
    """Refuse labels and weights beside the rows, before anything is read."""
    for name in further:
        why = ARGUMENTS.get(name, "it takes X, clients and, where a server has rows, X_server")
        raise TypeError(f"fit() takes no argument {name!r}: {why}")
    if y is not None:
        raise ValueError(
            "y must be None: rows have no labels here. If it says whose each row is, give it as"
            " clients: fit(X, clients=...), and in a Pipeline fit(X, STEP__clients=...)"
        )


def around(kind: type) -> Around:
    """What calls this fit of an estimator of this kind, as far as the stack tells."""
    steps: list[str] = []
    learned: list[str] = []
    search = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module == "sklearn.pipeline" and name in ("fit", "fit_predict", "fit_transform"):
            before = _before(frame.f_locals.get("self"), kind)
            steps = [*(step for step, _ in before), *steps]
            learned = [*(step for step, fitted in before if fitted), *learned]
        if module == "sklearn.model_selection._validation" and search is None:
            if name in ("_fit_and_score", "_fit_and_predict"):
                search = _search(frame)
        frame = frame.f_back
    return Around(tuple(steps), tuple(learned), search)


def _before(pipeline: Any, kind: type) -> list[tuple[str, bool]]:
    """The steps of a pipeline before our own, and whether each learns from the rows it sees."""
    found: list[tuple[str, bool]] = []
    for name, step in getattr(pipeline, "steps", ()):
        if isinstance(step, kind):
            break
        if step is not None and step != "passthrough":
            from sklearn.utils import get_tags

            found.append((name, bool(get_tags(step).requires_fit)))
    return found


def _search(frame: FrameType) -> Search:
    """Which search this is, and how many fits it makes."""
    local = frame.f_locals
    rows, scorer = id(local.get("X")), local.get("scorer")
    split, candidate = local.get("split_progress"), local.get("candidate_progress")
    if split and candidate:
        return Search(split[1] * candidate[1], rows, scorer)
    above = frame.f_back
    while above is not None:  # in one process alone
        local = above.f_locals
        if above.f_code.co_name in ("cross_validate", "cross_val_predict") and "cv" in local:
            n_fits = local["cv"].get_n_splits(local["X"], local["y"], local.get("groups"))
            return Search(int(n_fits), rows, scorer)
        above = above.f_back
    return Search(None, rows, scorer)


class _Seen(NamedTuple):
    """The search whose fits were seen last on a ledger: how many, and whether it is refused."""

    search: Search
    n_fits: int
    refused: bool


_SEEN: WeakKeyDictionary[PrivacyLedger, _Seen] = WeakKeyDictionary()
_LOCK = Lock()  # fits of one search may be threads


def check_search(search: Search, plan: Any, ledger: PrivacyLedger | None) -> None:
    """Refuse a search without a ledger, or one that its budget cannot pay as a whole.

    ValueError or `BudgetExceededError`, each with what all fits would cost if all cost as much as
    this one. A search whose first fit was refused stays refused.
    """
    n, lines = search.n_fits, plan.lines()
    if ledger is None:
        whole = "each"
        if n is not None:
            every = PrivacyLedger(plan.facts.unit, plan.facts.adjacency, None, lines * n)
            whole = (
                f"{n} fits like this one cost epsilon = {every.epsilon(plan.delta):.3g} at delta ="
                f" {plan.delta:g} together, each"
            )
        raise ValueError(
            "ledger must be given inside a search or cross-validation, whose fits are all charged"
            f" to the same rows: {whole} epsilon = {plan.total_epsilon:.3g}. Pass"
            " ledger=PrivacyLedger(budget=Budget(epsilon, delta)), or rehearse on public rows"
        )
    if ledger.budget is None or n is None:
        return
    with _LOCK:  # whichever comes first decides for all, before any of them is charged
        seen = _SEEN.get(ledger)
        if seen is None or seen.n_fits >= n or not search.is_of(seen.search):
            beyond = n * ledger.cost_of(lines) > ledger.remaining * (1 + 1e-9)
            seen = _Seen(search, 0, beyond)
        _SEEN[ledger] = seen = seen._replace(n_fits=seen.n_fits + 1)
    if seen.refused:
        raise BudgetExceededError(
            f"the whole search would exceed the budget: {n} fits like this one take"
            f" {n * ledger.cost_of(lines):.0%} of it, and {ledger.remaining:.0%} is left; nothing"
            " was fitted. Take fewer candidates or splits, a smaller epsilon of each fit, or"
            " rehearse on public rows"
        )
