"""A release in two halves: what each client of a cohort says of itself, then sums by groups.

The first answer is one noised identifier for each client; the algorithm makes groups of them, from
public coins; the second answer is one noised sum for each group. Given the first, each vector of a
client is in one group, whatever it holds, and no two are in the same: so all sums together move as
the client's vectors do together. Both halves are one line of the ledger, charged before the first,
on one sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import IntArray
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import FederationFacts, PlanMismatchError, PlannedRelease
from fedclust_helpers.program.public import Answer, Noise
from fedclust_helpers.program.requests import Release
from fedclust_helpers.program.session import Request, Session, frozen


class Members(Release):
    """Identifiers (m,) of a cohort, one number for each client; `SumsOf` has to follow.

    The statistic has two parts: a one-hot identifier (k,), and an update (p,) that is cut into
    `n_vectors` vectors of the same length. They are added up in `n_groups` groups, k by default.
    """

    capability = "members"

    def __init__(
        self, statistic: ClientStatistic, noise: Sequence[Noise], *, n_vectors: int = 1,
        n_groups: int | None = None, **how: Any,
    ) -> None:  # fmt: skip
        super().__init__(statistic, noise, **how)
        self.n_vectors, self._n_groups = n_vectors, n_groups

    @property
    def n_groups(self) -> int:
        """Groups that vectors are added up in."""
        return self.shapes[0][0] if self._n_groups is None else self._n_groups

    def cohort(self, facts: FederationFacts) -> int:
        """Clients who are asked: a public number."""
        if self.sampling is None:
            return facts.n_clients
        if self.sampling.size is None:
            raise ValueError("sampling must be fixed: identifiers tell how many clients there are")
        return self.sampling.size

    def sent(self, facts: FederationFacts) -> int:
        """Where clients unmask: one number, and a block for each group."""
        if facts.receiver == "server":
            return super().sent(facts)
        return 1 + self.n_groups * (math.prod(self.shapes[1]) // self.n_vectors)

    def sizes(self, facts: FederationFacts) -> list[int]:
        """Identifiers of the whole cohort; sums of all groups."""
        identifiers, updates = map(math.prod, self.shapes)
        return [identifiers * self.cohort(facts), self.n_groups * (updates // self.n_vectors)]

    def blank(self, session: Session, line: PlannedRelease) -> Any:
        """Everybody says 0, or anything."""
        m, k = self.cohort(session.federation.facts), self.shapes[0][0]
        session.held = self, np.zeros((m, *self.shapes[1])), line
        return (
            np.zeros(m, dtype=np.int64) if session.rng is None else session.rng.integers(k, size=m)
        )

    def made(self, session: Session, line: PlannedRelease) -> Any:
        """Exact messages stay with the boundary: a trusted server's, or that of the clients."""
        how = {"round": line.round, "sampling": self.sampling, **self.broadcast}
        chosen, held = session.federation.members(self.statistic, line.mechanisms, **how)
        session.held = self, held, line
        return chosen


class SumsOf(Request):
    """Noised sums (n_groups, p) of the vectors of the `Members` before.

    `groups` (m,), or (m, n_vectors), says for each vector the group that it belongs to; those of
    one client are in different groups.
    """

    def __init__(self, groups: IntArray) -> None:
        self.groups = frozen(np.asarray(groups))

    def _given_up(self, session: Session) -> tuple[Members, Any, IntArray, PlannedRelease]:
        """What was asked, the vectors (m, v, p) that were held, and their groups (m, v)."""
        if session.held is None:
            raise PlanMismatchError("sums by groups come once, after the identifiers")
        (asked, updates, line), session.held = session.held, None
        n, vectors = asked.n_groups, updates.reshape(len(updates), asked.n_vectors, -1)
        groups = self.groups.reshape(len(self.groups), -1)
        sizes = groups.shape == (len(updates), asked.n_vectors)
        if not sizes or groups.dtype.kind not in "iu" or not ((0 <= groups) & (groups < n)).all():
            raise PlanMismatchError(f"groups must be one of {n} for each vector of the cohort")
        ordered = np.sort(groups, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise PlanMismatchError("groups of the vectors of one client must be different")
        return asked, vectors, groups, line

    def blank(self, session: Session, line: None) -> Answer:
        """Sums of zeros, or noise alone."""
        asked, vectors, _, held = self._given_up(session)
        sums: Any = np.zeros((asked.n_groups, vectors.shape[2]))
        answer = Answer.of([sums], held.mechanisms[1:], session.federation.facts)
        if session.rng is None:
            return answer
        drawn = session.rng.normal(0, answer.std[0] or 1.0, sums.shape)
        return Answer.of([drawn], held.mechanisms[1:], session.federation.facts)

    def made(self, session: Session, line: None) -> Answer:
        """The noise is drawn here, after the groups are known."""
        asked, vectors, groups, held = self._given_up(session)
        federation, noise, n = session.federation, held.mechanisms, asked.n_groups
        sums = federation.summed(asked.statistic, noise, vectors, groups, n, held.round)
        return Answer.of([sums], noise[1:], federation.facts)
