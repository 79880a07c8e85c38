"""Questions to users who randomise on the device, and divisions of the users over parts.

An answer is a set of reports, kept as the query's own counts: there the algorithm reads them. In a
dry run nobody reports. A query draws its coins from `public.coins` where it is made, so every
party that follows the algorithm has the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedclust_helpers.federation import Federation, PlanMismatchError, PlannedRelease
from fedclust_helpers.federation.local import check_shares
from fedclust_helpers.federation.reports import LocalQuery
from fedclust_helpers.program.session import Request, Session


class Ask(Request):
    """One question to all users, or to those of one part; charged once for each user.

    `numbers` are public ones that a plan shows with the question (`Plan.broadcasts`).

    >>> import numpy as np
    >>> from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
    >>> positive = lambda points, users: Question((points[:, 0] > 0).astype(np.uint64))
    >>> query = OneBitCounts(positive, 1.0, rng=np.random.default_rng(0), name="positive")
    >>> Ask(query).name
    'positive'
    """

    def __init__(self, query: LocalQuery, part: str | None = None, **numbers: Any) -> None:
        self.query, self.name, self.part, self.numbers = query, query.name, part, numbers

    def __getstate__(self) -> dict[str, Any]:
        """A question is asked once: a copy of a run knows its name alone."""
        return {n: v for n, v in vars(self).items() if n != "query"}

    def line(self, session: Session) -> PlannedRelease:
        """The line of the plan: the report itself, or the shuffled set of all of them.

        Questions of one form are looked at once; those of a run by the federation, too.
        """
        federation, query = session.federation, self.query
        federation.require("ask")
        if self.part is not None and self.part not in session.parts:
            raise PlanMismatchError(f"part {self.part!r} is unknown: divide the users first")
        sizes = tuple((name, np.shape(value)) for name, value in query.public.items())
        form = (type(query), query.name, query.parts, query.mechanisms, sizes)
        if form not in session.forms:
            session.forms[form] = self._form(federation)
        line, n_bytes = session.forms[form]
        users = federation.facts.n_clients * session.parts.get(self.part or "", 1.0)
        here = {"round": session.n_rounds, "part": self.part, "n_bytes": users * n_bytes}
        return replace(line, **here)

    def _form(self, federation: Federation) -> tuple[PlannedRelease, int]:
        """The line of a question to everybody, and the bytes of one report."""
        line = federation.check_ask(self.query)
        nobody = np.zeros((1, federation.facts.n_features)), np.zeros(1, dtype=np.int64)
        one = self.query.respond(*nobody, rng=np.random.default_rng(0))
        numbers = sum(int(array[0].size) for array in one)
        return replace(line, numbers=numbers), federation.users.report_bytes(one)

    def made(self, session: Session, line: PlannedRelease) -> None:
        """Charged in the group of its part, then asked."""
        session.federation.ask(self.query, round=line.round, part=self.part)


class Divide(Request):
    """Divide the users over named parts by public coins: costs of different parts do not add up.

    >>> Divide({"tree": 0.5, "sums": 0.5}).shares
    {'tree': 0.5, 'sums': 0.5}
    """

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = check_shares(shares)

    def line(self, session: Session) -> None:
        """Nothing is released. Once in a run, and as planned: parts of two divisions overlap."""
        if session.parts:
            raise PlanMismatchError("the users are divided once")
        if session.follows is not None and self.shares != dict(session.follows.parts):
            raise PlanMismatchError("the users are divided as the plan says")
        session.parts = self.shares

    def made(self, session: Session, line: None) -> None:
        """The division of the plan, by the coins of the federation."""
        session.federation.divide(self.shares)
