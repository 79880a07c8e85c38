"""Interpreters that follow a plan: a whole run, and a party that stops at each request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import check_instance, check_rng
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import (
    Federation,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    Transcript,
)
from fedclust_helpers.program.public import Answer, Public
from fedclust_helpers.program.session import Session, Steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What an algorithm returned, and every (request, answer) on the way.

    The fields of `value` (`centers` (k, d), `models`, `history` of those before the first round
    and after each, ...) are attributes of the run, too. `ledger` is the record of the releases of
    this run alone, `transcript` what crossed the wire on this federation.
    """

    plan: Plan
    ledger: PrivacyLedger = field(repr=False)
    transcript: Transcript = field(repr=False)
    value: Any
    record: tuple[tuple[Any, Any], ...] = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        if name == "history" and not hasattr(self.value, name):
            return None  # where a run keeps none
        if name.startswith("_") or name == "value" or not hasattr(self.value, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.value, name)

    @cached_property
    def epsilon(self) -> float:
        """What the run cost at `delta`: by the ledger's record, or as its algorithm adds it up."""
        own = self.plan.algorithm.total
        return self.ledger.epsilon(self.delta) if own is None else own(self.plan)

    @property
    def delta(self) -> float:
        """The delta at which the run was planned."""
        return self.plan.delta

    @property
    def private(self) -> bool:
        """False in teaching mode (not private for who knows the seed), without noise, or where
        something was read off data that were declared public."""
        facts = self.plan.facts
        return facts.mode == "secure" and not facts.public_data and math.isfinite(self.plan.epsilon)

    @property
    def warning(self) -> str:
        """What this run does not give."""
        if not math.isfinite(self.epsilon):
            return "no privacy: exact statistics were released"
        if self.plan.facts.public_data:
            return "no privacy: bounds were read off the data, as only public data may be treated"
        if not self.private:
            return "teaching mode: not private against anyone who knows the seed"
        return ""

    @property
    def released(self) -> tuple[Answer, ...]:
        """The noised sums, one tuple of arrays for each release."""
        return tuple(answer for _, answer in self.record if isinstance(answer, Answer))


def run(
    federation: Federation, plan: Plan, *, rng: np.random.Generator | None = None,
    progress: Progress = False,
) -> Run:  # fmt: skip
    """Follow a plan on its federation: its releases and no others; what the algorithm returns.

    `rng` draws what is whoever runs it decides alone (k-means of released values); by default these
    are public coins too. `progress` shows a bar over the releases, or is called as
    progress(done, total).

    Raises
    ------
    PlanMismatchError
        If the plan was made for another federation, or changed by hand.
    BudgetExceededError
        If it costs more than it states, or than the ledger has left: before any data is read.
    """
    check_instance(federation, Federation, "federation")
    if rng is not None:
        check_rng(rng)
    plan = check_instance(plan, Plan, "plan")
    federation.require(plan.algorithm.capability)
    with federation.follow(plan, progress) as held:
        execution = Execution(federation, plan, rng=rng).to_the_end()
    return execution.result(federation.ledger.record_of(held))


class Execution:
    """A party's execution of a plan: it stops at each release, and goes on with the answer.

    `request` is the one that waits for an answer, as `line` of the plan; None at the end. Those of
    a tuple come one after the other. What nobody is asked for, such as a division of the users, is
    made on the way. All that a process must know after a crash are the `answers` so far, and a
    federation made anew, whose public coins are at their start. Each request is compared with the
    plan's next line, as in a run. `rng` is that of `run`.
    """

    def __init__(
        self, federation: Federation, plan: Plan, answers: Iterable[Any] = (), *,
        rng: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        public = Public(federation.facts, federation.randomness.public, rng)
        self.plan, self.session = plan, Session(federation, public, plan)
        self.request: Any = None
        self.line: PlannedRelease | None = None
        self._value: Any = None
        self._record: list[tuple[Any, Any]] = []
        self._steps = self._stops(plan.steps(public))
        self.advance(None)
        for answer in answers:
            self.advance(answer)

    def advance(self, answer: Any) -> None:
        """Send the answer to the request that waits, and come to the next one or to the end."""
        try:
            self.request, self.line = self._steps.send(answer)
        except StopIteration as end:
            self.request, self.line, self._value = None, None, end.value
            if len(self.session.lines) < len(self.plan.releases):
                raise PlanMismatchError("the algorithm ended before its plan") from None

    def to_the_end(self) -> Execution:
        """The federation itself answers all that is asked from here on."""
        while self.request is not None:
            self.advance(self.request.made(self.session, self.line))
        return self

    def _stops(self, steps: Steps) -> Steps:
        """The algorithm again, one release at a time."""
        reply = None
        while True:
            try:
                asked = steps.send(reply)
            except StopIteration as end:
                return end.value
            replies = []
            for request, line in self.session.look(asked):
                free = line is None
                answer = request.made(self.session, line) if free else (yield request, line)
                self._record.append((request, answer))
                replies.append(answer)
            reply = tuple(replies) if isinstance(asked, tuple) else replies[0]

    def result(self, ledger: PrivacyLedger) -> Run:
        """At the end, what `run` returns; `ledger` holds what this run was charged."""
        value = self._value() if callable(self._value) else self._value
        return Run(
            plan=self.plan, ledger=ledger, transcript=self.session.federation.transcript,
            value=value, record=tuple(self._record),
        )  # fmt: skip
