"""Local privacy: users randomise on the device, and the server gets their reports.

Each client noises its own message before it leaves, and nobody is trusted. Who takes part is no
secret, so neighbours are replace-one: any two values of one user (or all rows of one client). A
user is in one part of a division, so under parallel composition a round costs what one report does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_instance,
    check_int,
    check_real,
)
from fedclust_helpers.accounting import Accountable, LedgerMismatchError, PrivacyLedger
from fedclust_helpers.federation.aggregation import Aggregation, Context, Part
from fedclust_helpers.federation.clients import responses
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.plan import FederationFacts
from fedclust_helpers.federation.reports import LocalQuery, Reports, public_coins

USERS_PER_CHUNK = 2**17  # users whose reports are held at once: memory does not grow with n
Answers = Iterator[tuple[IntArray, Reports]]  # numbers and reports, chunk by chunk


class Named(Aggregation):
    """Every user's report goes to the server, with the user's number.

    Clients may also be one array of shape (n, d): row j is user j's point. A ledger that is given
    must be kept for replace-one and for one point, or one client (else `LedgerMismatchError`: it
    would not say what a report costs).
    """

    offers: tuple[str, ...] = ("reports", "ask")
    adjacency, domain = "replace-one", "ball"
    can_miss = False

    def __init__(self, context: Context, *, first: int = 0) -> None:
        super().__init__(context)
        self.first = first  # the number of the first user whose rows are here
        self._split: UserSplit | None = None
        self._n_answers = self._n_failed = 0  # of the last question

    @property
    def n_failed(self) -> int:
        """Of so many users the last question failed; a report of each was drawn all the same."""
        return self._n_failed

    @property
    def failed(self) -> bool:
        """Whether it failed of all, who were more than one."""
        return self._n_failed == self._n_answers > 1

    @property
    def split(self) -> UserSplit | None:
        """The last division of the users, or None."""
        return self._split

    @staticmethod
    def clients(given: Any) -> ClientData:
        """One array: one point each; a sequence of arrays (n_i, d): their clients."""
        if isinstance(given, ClientData):
            return given
        try:
            nested = isinstance(given, list | tuple) and given and np.ndim(given[0]) == 2
        except ValueError:  # rows of unequal length: named below
            nested = False
        if nested:
            return ClientData.from_clients(given)
        return ClientData.one_point_each(as_points(given, "clients"))

    @staticmethod
    def check_ledger(ledger: PrivacyLedger) -> None:
        """Replace-one, and one point or one client: what a report of a user hides."""
        if ledger.adjacency != "replace-one":
            raise LedgerMismatchError(
                f"ledger must be kept for replace-one, got {ledger.adjacency}: in the local model"
                " everybody takes part, and a report hides any two values of one user"
            )
        if ledger.unit not in ("point", "client"):
            raise LedgerMismatchError(
                f"ledger must be kept for one point (or one client), got one {ledger.unit}, who may"
                " send several reports"
            )

    def reports(self, part: Part, values: FloatArray) -> FloatArray:
        """The noised message of every client."""
        noisy = self.decode(self.send(part, values), part.mechanism)
        self._record(part, "clients", "server", f"noisy {part.name}", noisy, len(noisy))
        return noisy

    # questions ------------------------------------------------------------------------------------

    def check_ask(self, query: LocalQuery, part: str | None, facts: FederationFacts) -> None:
        """Raise unless this question may be put to all users, or to those of `part`."""
        if part is not None and (self.split is None or part not in self.split.parts):
            known = ", ".join(self.split.parts) if self.split else "none"
            raise ValueError(f"part {part!r} is unknown; divide the users first (parts: {known})")
        who, wrong = f"query {query.name!r}", ""
        if not query.mechanisms:
            wrong = "must state a mechanism (NoNoise if there is none)"
        for mechanism in query.mechanisms:
            if hasattr(mechanism, "n_honest"):
                wrong = "draws only one node's share of a noise; every user must draw all of it"
            noise = math.isfinite(getattr(mechanism, "sensitivity", math.inf))
            continuous = noise and getattr(mechanism, "grid", 0.0) is None
            if facts.mode == "secure" and continuous:
                wrong = "must use discrete noise in secure mode"
        if wrong:
            raise ValueError(f"{who} {wrong}")
        query.check(facts.n_features)

    def charged(self, reports: Sequence[Accountable]) -> tuple[Any, ...]:
        """What the ledger is charged with when every user draws these: the report, as it is."""
        return tuple(reports)

    def report_bytes(self, reports: Reports) -> int:
        """Bytes of the reports of one user on every hop."""
        return sum(array[0].nbytes for array in reports)

    def divided(self, split: UserSplit) -> None:
        """From here on, questions may name a part of this division."""
        self._split = split

    def asked(self, query: LocalQuery, part: str | None) -> None:
        """Note that this question was charged."""

    def ask(self, query: LocalQuery, part: str | None, round: int, points: FloatArray) -> None:
        """Bring the users' reports to the server, and put it on record."""
        kept: list[Reports] = []
        first: Reports = ()
        n_asked = 0
        numbers = self.first + np.arange(len(points))
        for users, reports in self.answers(query, part, points, numbers):
            query.collect(users, reports)
            n_asked += len(users)
            first = first or tuple(r[:1].copy() for r in reports)
            if self.context.transcript.keep_payloads:
                kept.append(reports)
        for i, (name, one) in enumerate(zip(query.parts, first, strict=bool(n_asked))):
            payload = np.concatenate([reports[i] for reports in kept]) if kept else None
            self.context.transcript.record(
                round, "clients", "server", f"{query.name}: {name}", np.asarray(one[0]),
                count=n_asked, payload=payload,
            )  # fmt: skip

    def answers(
        self, query: LocalQuery, part: str | None, points: FloatArray, numbers: IntArray
    ) -> Answers:
        """Numbers and reports of those who are asked, as they leave the devices."""
        self._n_answers = self._n_failed = 0
        for start in range(0, len(points), USERS_PER_CHUNK):
            chunk = slice(start, start + USERS_PER_CHUNK)
            users, rows = numbers[chunk], points[chunk]
            if part is not None and self.split is not None:
                here = self.split.members(users, part)
                users, rows = users[here], rows[here]
                if not len(users):
                    continue
            reports, failed = responses(query, rows, users, rng=self.context.randomness.noise)
            self._n_answers += len(users)
            self._n_failed += failed
            yield users, reports


@dataclass(frozen=True)
class UserSplit:
    """A public division of users over parts: user j's part depends on j and a public seed only.

    `number` tells the divisions on one ledger apart: two of them may put a user in any two parts.
    Only `Federation.divide` gives a number out; a division made by hand has None, and says who
    would be in which part.
    """

    shares: Mapping[str, float]
    seed: int
    number: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", MappingProxyType(check_shares(self.shares)))
        check_int(self.seed, "seed", minimum=0, maximum=2**64 - 1)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.shares)

    def group(self, part: str) -> str:
        """The ledger's label of a part."""
        if self.number is None:
            raise ValueError("this UserSplit was made by hand: Federation.divide numbers them")
        return f"division {self.number}/{part}"

    def members(self, users: IntArray, part: str) -> NDArray[np.bool_]:
        """Which of these user numbers belong to `part`."""
        index = self.parts.index(part)
        edges = np.cumsum([0.0, *self.shares.values()])
        edges[-1] = 1.0
        low, high = (np.uint64(min(int(e * 2**53), 2**53 - 1) << 11) for e in edges[index:][:2])
        coins = public_coins(self.seed, users)
        return (coins >= low) & ((coins < high) | (index == len(self.parts) - 1))


def check_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares of named parts, each in (0, 1], that add up to 1; a copy."""
    check_instance(shares, Mapping, "shares", what="a mapping part -> share")  # type: ignore[type-abstract]
    if not all(isinstance(name, str) and name and "/" not in name for name in shares):
        raise TypeError("shares must name its parts by strings without '/'")
    out = {name: check_real(share, "shares") for name, share in shares.items()}
    if not out or any(not 0 < s <= 1 for s in out.values()):
        raise ValueError("shares must be numbers in (0, 1], one for each part")
    if abs(math.fsum(out.values()) - 1) > 1e-9:
        raise ValueError("shares must add up to 1")
    return out
