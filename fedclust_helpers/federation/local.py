"""Local privacy: every user randomises on the device, and the server is trusted with nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_real
from fedclust_helpers.accounting import Budget, LedgerMismatchError, PrivacyLedger
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.plan import PlannedRelease
from fedclust_helpers.frequency_oracles import LocalQuery
from fedclust_helpers.local_randomizers import public_coins
from fedclust_helpers.mechanisms import Mechanism

USERS_PER_CHUNK = 2**17  # users whose reports are held at once: memory does not grow with n


class LocalReports(InProcess):
    """Local privacy: every client noises its own message before it leaves; nobody is trusted.

    One release is one report of every client. Each record is in one report, so under parallel
    composition a round costs what one report costs.
    """

    trust = "local"
    noise_from = "every client, to its own message"
    _split: UserSplit | None = None

    @property
    def split(self) -> UserSplit | None:
        """The last division of the users, made by `divide`."""
        return self._split

    def reports(
        self,
        statistic: ClientStatistic,
        mechanisms: Sequence[Mechanism],
        *,
        round: int,
        **broadcast: Any,
    ) -> tuple[FloatArray, ...]:
        """The noised messages of all clients, arrays of shape (M, ...), as the server sees them."""
        self.check_release(statistic, mechanisms, **broadcast)
        self._charge(PlannedRelease.of(statistic, tuple(mechanisms), round=round))
        self._record_broadcast(round, broadcast)
        values = self._values(statistic, broadcast)
        out = []
        for part, value, mechanism in zip(statistic.parts, values, mechanisms, strict=True):
            exact = value if mechanism.grid is None else self._steps(value, mechanism)
            noisy = self._released(exact, mechanism)
            self.transcript.record(
                round, "clients", "server", f"noisy {part}", noisy[0],
                count=self.n_clients, payload=noisy,
            )  # fmt: skip
            out.append(noisy)
        return tuple(out)

    def check_ask(self, query: LocalQuery, *, part: str | None = None) -> None:
        """Raise what `ask` would raise before its first report, the budget apart."""
        if self.n_clients != len(self._data.points):
            raise ValueError("clients must hold one point each to answer local queries")
        if part is not None and (self.split is None or part not in self.split.parts):
            raise ValueError(
                f"part {part!r} is unknown; divide the users first (parts:"
                f" {', '.join(self.split.parts) if self.split else 'none'})"
            )
        for mechanism in query.mechanisms:
            if mechanism.adjacency != self.ledger.adjacency:
                raise LedgerMismatchError(
                    f"query {query.name!r} speaks of {mechanism.adjacency}, this ledger of"
                    f" {self.ledger.adjacency}; local privacy is replace-one (see local_users)"
                )
            noise = math.isfinite(getattr(mechanism, "sensitivity", math.inf))
            continuous = noise and getattr(mechanism, "grid", 0.0) is None
            if self.randomness.is_secure and continuous:
                raise ValueError(f"query {query.name!r} must use discrete noise in secure mode")
        for name, value in query.public.items():
            if np.asarray(value).dtype.kind not in "biuf":
                raise TypeError(
                    f"public[{name!r}] of query {query.name!r} must be an array of numbers"
                )
        query.check(self.n_features)

    def divide(self, shares: Mapping[str, float]) -> UserSplit:
        """Divide the users over named parts by public coins; later `ask`s may name a part.

        Users of different parts answer different questions, so their costs do not add up: the
        ledger keeps one group for each part of this division.
        """
        seed = int(self.randomness.public.integers(2**63))
        split = UserSplit(dict(shares), seed)  # raises before the ledger counts it
        self._split = replace(split, number=self.ledger.new_division())
        return self._split

    def ask(self, query: LocalQuery, *, round: int, part: str | None = None) -> None:
        """Put one question to all users, or to those of one part; the query collects the answers.

        Each user's report is randomised on the device. It is charged once for each user: reports of
        different users compose in parallel, because a neighbouring data set changes one user.

        Raises
        ------
        ValueError, LedgerMismatchError, BudgetExceededError
            Before any data is read or budget spent.
        """
        self.check_ask(query, part=part)
        group = None if part is None or self.split is None else self.split.group(part)
        self._charge(
            PlannedRelease(round, query.name, query.parts, tuple(query.mechanisms), part=part),
            group=group,
        )
        for name, value in query.public.items():
            self.transcript.record(
                round, "server", "clients", name, np.asarray(value, dtype=np.float64),
                count=self.n_clients,
            )  # fmt: skip
        kept: list[tuple[NDArray[np.generic], ...]] = []
        first: tuple[NDArray[np.generic], ...] = ()
        asked = 0
        for start in range(0, self.n_clients, USERS_PER_CHUNK):
            points = self._data.points[start : start + USERS_PER_CHUNK]
            users = np.arange(start, start + len(points))
            if part is not None and self.split is not None:
                users = users[self.split.members(users, part)]
                points = points[users - start]
                if not len(users):
                    continue
            reports = query.respond(points, users, rng=self.randomness.noise)
            query.collect(users, reports)
            asked += len(users)
            first = first or tuple(r[:1].copy() for r in reports)
            if self.transcript.keep_payloads:
                kept.append(reports)
        for i, (name, one) in enumerate(zip(query.parts, first, strict=bool(asked))):
            payload = np.concatenate([reports[i] for reports in kept]) if kept else None
            self.transcript.record(
                round, "clients", "server", f"{query.name}: {name}", np.asarray(one[0]),
                count=asked, payload=payload,
            )  # fmt: skip


@dataclass(frozen=True)
class UserSplit:
    """A public division of users over parts: user j's part depends on j and a public seed only.

    `number` tells the divisions on one ledger apart: two of them may put a user in any two parts.
    """

    shares: dict[str, float]
    seed: int
    number: int = 0

    def __post_init__(self) -> None:
        shares = [check_real(s, "shares") for s in self.shares.values()]
        if not shares or any(not 0 < s <= 1 for s in shares):
            raise ValueError("shares must be numbers in (0, 1], one for each part")
        if abs(math.fsum(shares) - 1) > 1e-9:
            raise ValueError("shares must add up to 1")

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.shares)

    def group(self, part: str) -> str:
        """The ledger's label of a part."""
        return f"division {self.number}/{check_choice(part, 'part', self.parts)}"

    def members(self, users: IntArray, part: str) -> NDArray[np.bool_]:
        """Which of these user numbers belong to `part`."""
        index = self.parts.index(check_choice(part, "part", self.parts))
        edges = np.cumsum([0.0, *self.shares.values()])
        edges[-1] = 1.0
        low, high = (np.uint64(min(int(e * 2**53), 2**53 - 1) << 11) for e in edges[index:][:2])
        coins = public_coins(self.seed, users)
        return (coins >= low) & ((coins < high) | (index == len(self.parts) - 1))


def local_users(
    points: ArrayLike | ClientData,
    *,
    bound: float = 1.0,
    ledger: PrivacyLedger | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> LocalReports:
    """A federation of users who hold one point each and trust nobody.

    Points live in the ball of radius `bound` (a public number); the ledger speaks of replace-one:
    any two values of one user.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Row j is user j's point. (Or `ClientData` with one row for each client.)
    bound : float
    ledger, budget
        As in `simulate`; the ledger must be kept for replace-one.
    **options
        ``seed`` or ``mode="secure"``, ``outside="clip"`` or ``"refuse"``, ``keep_payloads``.
    """
    if ledger is not None and budget is not None:
        raise ValueError("budget must not be given with a ledger: a ledger brings its own")
    data = points if isinstance(points, ClientData) else ClientData.one_point_each(points)
    if ledger is None:
        ledger = PrivacyLedger(adjacency="replace-one", budget=budget)
    return LocalReports(data, bound=bound, domain="ball", ledger=ledger, **options)
