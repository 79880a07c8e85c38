"""The shuffle model: users randomise, a shuffler passes their reports on without the senders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import Accountable, Shuffled
from fedclust_helpers.federation.aggregation import Context
from fedclust_helpers.federation.local import USERS_PER_CHUNK, Named, UserSplit
from fedclust_helpers.federation.plan import FederationFacts, TrustModelError
from fedclust_helpers.federation.reports import LocalQuery, Reports

NOT_PURE = (
    "is no pure report, and the theorem that amplifies is for pure ones: choose a plan without"
    " vector sums, or the trust model 'local'"
)


class Shuffling(Named):
    """A shuffler passes the reports of all users on in random order, without the senders.

    A release is charged as the shuffled set (`accounting.Shuffled`): pure epsilon_0 against the
    shuffler and everybody else, and a much smaller (epsilon, delta) against a server that does not
    collude with it.

    **Questions.** Without a shuffler a user's number decides which question the user answers, and
    numbers are public: under a shuffler the answers to each of m questions would be a crowd of
    their own, of n/m users. Here every user draws a ticket on the device, 63 random bits that take
    the place of the number and travel with the report. Ticket and report together are one
    randomiser, the same for all users, pure epsilon_0 because the ticket is drawn without looking
    at the point: all n users are one crowd, and the question hides as well as the answer does (the
    privacy blanket, `accounting.blanket`). So are the parts of a division, which the ticket decides
    too: a user is in one part, each part may be asked once, all with one local epsilon, and the
    ledger, which charges the worst of them, charges the one shuffle of all.

    **Numbers.** The theorem wants the true number of users, so `n_clients` and `n_records` must be
    no bounds. `max_colluding` users may tell the server what they sent, or send what they like: the
    others hide one another.
    """

    offers = ("ask",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if not context.true_numbers:
            raise ValueError(
                "n_clients and n_records must be the true numbers (or be left out) behind a"
                " shuffler: a bound would promise more cover than there is"
            )
        self._tickets: IntArray | None = None  # of a division; each user knows one
        self._asked: dict[str, float] = {}

    def check_ask(self, query: LocalQuery, part: str | None, facts: FederationFacts) -> None:
        """As for named users; and each part of a division is asked once, with pure reports."""
        super().check_ask(query, part, facts)
        if part is not None and part in self._asked:
            raise ValueError(f"part {part!r} was asked already; divide the users again")
        local = math.fsum(m.pure_epsilon for m in query.mechanisms)
        if not math.isfinite(local):
            raise TrustModelError(f"query {query.name!r} {NOT_PURE}")
        for other in self._asked.values() if part is not None else ():
            if local != other:  # the dearest part bounds all of them where only symbols differ
                raise ValueError(
                    f"query {query.name!r} must have the local epsilon of the parts asked before,"
                    f" {other:.6g}, got {local:.6g}"
                )

    def charged(self, reports: Sequence[Accountable]) -> tuple[Any, ...]:
        """The shuffled set of what these draw: one message of every user."""
        return (Shuffled(super().charged(reports), self.context.n_honest, drawn=True),)

    def report_bytes(self, reports: Reports) -> int:
        """Each goes two ways with a ticket of eight bytes."""
        return 2 * (super().report_bytes(reports) + 8)

    def divided(self, split: UserSplit) -> None:
        """The tickets that users draw now decide their parts; each may be asked once."""
        super().divided(split)
        self._tickets, self._asked = self._drawn_tickets(), {}

    def asked(self, query: LocalQuery, part: str | None) -> None:
        """A part that was charged is not asked again, also where the run failed on its way."""
        if part is not None:
            self._asked[part] = math.fsum(m.pure_epsilon for m in query.mechanisms)

    def _drawn_tickets(self) -> IntArray:
        """A ticket for each user, drawn on the device."""
        words = np.frombuffer(
            self.context.randomness.bytes(8 * self.context.n_present), dtype=np.uint64
        )
        return (words >> np.uint64(1)).astype(np.int64)

    def ask(self, query: LocalQuery, part: str | None, round: int, points: FloatArray) -> None:
        """To the shuffler in the order of the users, to the server in random order."""
        tickets = self._tickets
        if part is None:  # fresh ones: tickets of two questions must not tell who sent both
            tickets = self._drawn_tickets()
        assert tickets is not None
        sent = [(own, *reports) for own, reports in self.answers(query, part, points, tickets)]
        columns = [np.concatenate(column) for column in zip(*sent, strict=True)]
        if not columns:
            return
        names = [f"{query.name}: {name}" for name in ("ticket", *query.parts)]
        order = self.context.randomness.order(len(columns[0]))
        for sender, receiver in (("clients", "shuffler"), ("shuffler", "server")):
            if sender == "shuffler":
                columns = [column[order] for column in columns]
            for name, column in zip(names, columns, strict=True):
                self.context.transcript.record(
                    round, sender, receiver, name, np.asarray(column[0]), count=len(column),
                    payload=column,
                )  # fmt: skip
        for start in range(0, len(order), USERS_PER_CHUNK):
            own, *reports = (column[start : start + USERS_PER_CHUNK] for column in columns)
            query.collect(own, tuple(reports))
