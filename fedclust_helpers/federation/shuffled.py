"""The shuffle model: users randomise, a shuffler passes their reports on without the senders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import IntArray, check_int
from fedclust_helpers.accounting import Accountable, Shuffled
from fedclust_helpers.federation.local import USERS_PER_CHUNK, LocalReports, UserSplit
from fedclust_helpers.federation.plan import TrustModelError
from fedclust_helpers.federation.reports import LocalQuery, Reports

NOT_PURE = (
    "is no pure report, and the theorem that amplifies is for pure ones: choose a plan without"
    " vector sums, or the trust model 'local'"
)


class ShuffledReports(LocalReports):
    """Users as under local privacy, and a shuffler between them and the server.

    Every user sends one randomised report to the shuffler, which passes all of them on in random
    order, without senders. A release is charged as the shuffled set (`accounting.Shuffled`): pure
    epsilon_0 against the shuffler and everybody else, and a much smaller (epsilon, delta) against a
    server that does not collude with it.

    **Questions.** In `LocalReports` a user's number decides which question the user answers, and
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

    trust = "shuffled"
    offers = ()
    sees = (
        (
            "shuffler",
            "every user's ticket and randomised report, and who sent it; it is trusted to pass on"
            " every user's, in random order and without the sender, and not to collude with the"
            " server: else each user is left with the local epsilon",
        ),
        ("server", "the tickets and randomised reports of all users in random order"),
        ("other users", "what the server broadcasts"),
    )

    def __init__(self, clients: Any, *, max_colluding: int = 0, **options: Any) -> None:
        super().__init__(clients, **options)
        n = self._data.n_clients
        if self.n_clients != n or self.n_records != len(self._data.points):
            raise ValueError(
                "n_clients and n_records must be the true numbers (or be left out) behind a"
                " shuffler: a bound would promise more cover than there is"
            )
        self._n_honest = n - check_int(max_colluding, "max_colluding", minimum=0, maximum=n - 1)
        self._tickets: IntArray | None = None  # of a division; each user knows one
        self._asked: dict[str, float] = {}

    @property
    def n_honest(self) -> int:  # type: ignore[override]
        """Users who hide one another."""
        return self._n_honest

    def charged(self, reports: Sequence[Accountable]) -> tuple[Any, ...]:
        """The shuffled set of what these draw: one message of every user."""
        return (Shuffled(super().charged(reports), self.n_honest, drawn=True),)

    def report_bytes(self, reports: Reports) -> int:
        """Each goes two ways with a ticket of eight bytes."""
        return 2 * (super().report_bytes(reports) + 8)

    def check_ask(self, query: LocalQuery, *, part: str | None = None) -> None:
        """As for local users; and each part of a division is asked once, with pure reports."""
        super().check_ask(query, part=part)
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

    def divide(self, shares: Mapping[str, float]) -> UserSplit:
        """Divide the users over named parts by tickets that they draw; each may be asked once."""
        with self._lock:
            split = super().divide(shares)
            self._tickets, self._asked = self._drawn_tickets(), {}
            return split

    def _drawn_tickets(self) -> IntArray:
        """A ticket for each user, drawn on the device."""
        words = np.frombuffer(self.randomness.bytes(8 * self._data.n_clients), dtype=np.uint64)
        return (words >> np.uint64(1)).astype(np.int64)

    def _ask(self, query: LocalQuery, round: int, part: str | None) -> None:
        divided, n_before = self._tickets, len(self.ledger.releases)
        if part is None:  # a fresh one: tickets of two questions must not tell who sent both
            self._tickets = self._drawn_tickets()
        try:
            super()._ask(query, round, part)
        finally:
            self._tickets = divided
            if part is not None and len(self.ledger.releases) > n_before:
                self._asked[part] = math.fsum(m.pure_epsilon for m in query.mechanisms)

    def _numbers(self, start: int, stop: int) -> IntArray:
        """Tickets in place of the users' numbers."""
        assert self._tickets is not None
        return self._tickets[start:stop]

    def _deliver(
        self, query: LocalQuery, round: int, answers: Iterable[tuple[IntArray, Reports]]
    ) -> None:
        """To the shuffler in the order of the users, to the server in random order."""
        sent = [(tickets, *reports) for tickets, reports in answers]
        columns = [np.concatenate(column) for column in zip(*sent, strict=True)]
        if not columns:
            return
        names = [f"{query.name}: {name}" for name in ("ticket", *query.parts)]
        order = self.randomness.order(len(columns[0]))
        for sender, receiver in (("clients", "shuffler"), ("shuffler", "server")):
            if sender == "shuffler":
                columns = [column[order] for column in columns]
            for name, column in zip(names, columns, strict=True):
                self.transcript.record(
                    round, sender, receiver, name, np.asarray(column[0]), count=len(column),
                    payload=column,
                )  # fmt: skip
        for start in range(0, len(order), USERS_PER_CHUNK):
            tickets, *reports = (column[start : start + USERS_PER_CHUNK] for column in columns)
            query.collect(tickets, tuple(reports))
