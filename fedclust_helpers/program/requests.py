"""What an algorithm may ask for: a noised sum, or that clients remember something, or scale rows.

A request names a statistic, how much noise each part gets, and what is broadcast: shapes,
sensitivities and mechanisms follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.client_statistics.base import public_numbers
from fedclust_helpers.federation import FederationFacts, PlannedRelease
from fedclust_helpers.program.public import Answer, Noise
from fedclust_helpers.program.session import Request, Session, frozen


class Release(Request):
    """A noised sum of a statistic over all clients, or over a cohort that is drawn anew.

    `noise` has an entry for each part of the statistic; `broadcast` is what every client receives:
    arrays are copied, so what is on record is what was sent.
    """

    capability = "noisy_sum"

    def __init__(
        self, statistic: ClientStatistic, noise: Sequence[Noise], *,
        sampling: Sampling | None = None, **broadcast: Any,
    ) -> None:  # fmt: skip
        self.statistic, self.noise = statistic, tuple(noise)
        self.sampling = sampling
        self.broadcast = {name: frozen(value) for name, value in broadcast.items()}
        self.shapes: list[tuple[int, ...]] = []  # of one client's message, known with the line
        self.numbers: dict[str, Any] = {}  # of the broadcast, likewise

    def sizes(self, facts: FederationFacts) -> list[int]:
        """How many numbers of each part are released together."""
        return [math.prod(shape) for shape in self.shapes]

    def sent(self, facts: FederationFacts) -> int:
        """How many numbers one client sends."""
        return sum(math.prod(shape) for shape in self.shapes)

    def line(self, session: Session) -> PlannedRelease:
        """The line of the plan for what is asked; refused where the federation would refuse.

        Requests of one form have one line, which is computed once.
        """
        sent = self.broadcast
        if session.follows is None:  # a run checks it in `Federation._release`, before the charge
            sent = self.statistic.broadcast(sent, session.federation.facts.n_features)
        self.numbers = public_numbers(sent)
        arrays = frozenset((n, np.shape(v)) for n, v in self.broadcast.items())
        numbers = frozenset(self.numbers.items())
        form = self.statistic, self.noise, self.sampling, numbers, arrays
        if form not in session.forms:
            session.forms[form] = {}, self._line(session), self.shapes
        lines, line, self.shapes = session.forms[form]
        if session.n_rounds not in lines:
            lines[session.n_rounds] = replace(line, round=session.n_rounds)
        return lines[session.n_rounds]

    def _line(self, session: Session) -> PlannedRelease:
        federation, public = session.federation, session.public
        federation.require(self.capability)
        sent = self.statistic.broadcast(self.broadcast, public.facts.n_features)
        self.numbers = public_numbers(sent)
        self.shapes = federation.shapes_of(self.statistic, sent)
        if len(self.noise) != len(self.statistic.parts):
            raise ValueError(f"noise must be given for each of {self.statistic.parts}")
        parts = zip(self.statistic.parts, self.noise, self.sizes(public.facts), strict=True)
        noise = tuple(public.mechanism(self.statistic, p, z, n, self.numbers) for p, z, n in parts)
        how = {"sampling": self.sampling, **self.broadcast}
        line = federation.check_release(self.statistic, noise, **how)
        return replace(line, numbers=self.sent(public.facts))

    def blank(self, session: Session, line: PlannedRelease) -> Answer:
        """The sum over no rows: zeros, or where the session has an `rng` noise alone."""
        facts = session.federation.facts
        answer = Answer.of(map(np.zeros, self.shapes), line.mechanisms, facts)
        if session.rng is None:
            return answer
        drawn = [
            session.rng.normal(0, s if 0 < s < math.inf else 1.0, a.shape)
            for s, a in zip(answer.std, answer, strict=True)
        ]
        return Answer.of(drawn, line.mechanisms, facts)

    def made(self, session: Session, line: PlannedRelease) -> Answer:
        """Charged, computed, noised: by the federation, which looks at all of it once more."""
        how = {"round": line.round, "sampling": self.sampling, **self.broadcast}
        arrays = session.federation.noisy_sum(self.statistic, line.mechanisms, **how)
        return Answer.of(arrays, line.mechanisms, session.federation.facts)


class Remember(Request):
    """Public values (M, ...) that clients keep under a name, a row each; None: they forget it.

    It is for statistics that go on from earlier rounds; what clients write there does not come
    back.
    """

    def __init__(self, name: str, values: Any = None) -> None:
        self.name, self.values = name, values

    def made(self, session: Session, line: None) -> None:
        """Each client takes its row."""
        memory = session.federation.client_memory
        memory.forget(self.name)
        if self.values is not None:
            memory.put(self.name, self.values[: memory.n_clients])


class Scale(Request):
    """Public bounds (d,) of the columns, for clients whose rows are as they are.

    From here on statistics that need a box get the rows between the bounds, mapped and clipped.
    """

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        self.lower, self.upper = lower, upper

    def made(self, session: Session, line: None) -> None:
        """Each client maps its rows."""
        session.federation.scale(self.lower, self.upper)
