"""Local privacy: every user randomises on the device, and the server is trusted with nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_instance,
    check_int,
    check_real,
)
from fedclust_helpers.accounting import Accountable, Budget, LedgerMismatchError, PrivacyLedger
from fedclust_helpers.federation.base import InProcess, Part
from fedclust_helpers.federation.checks import check_ledger
from fedclust_helpers.federation.data import ClientData
from fedclust_helpers.federation.plan import PlannedRelease
from fedclust_helpers.federation.reports import LocalQuery, Reports, public_coins

log = logging.getLogger(__name__)
USERS_PER_CHUNK = 2**17  # users whose reports are held at once: memory does not grow with n


class LocalReports(InProcess):
    """Local privacy: every client noises its own message before it leaves; nobody is trusted.

    One release is one report of every client. Each record is in one report, so under parallel
    composition a round costs what one report costs. Who takes part is no secret, so neighbours are
    replace-one: any two values of one user (or all rows of one client).

    `clients` may also be one array of shape (n, d): row j is user j's point. Rows are kept in the
    ball of radius `bound` (``domain="box"``: in the cube), both public. A ledger that is given must
    be kept for replace-one and for one point, or one client (else `LedgerMismatchError`: it would
    not say what a report costs). `split` is the last division of the users (`divide`), or None.
    """

    trust = "local"
    offers: tuple[str, ...] = ("reports",)
    noise_from = "every client, to its own message"
    no_sampling = "who takes part is no secret"
    sees: tuple[tuple[str, str], ...] = (
        ("server", "every user's randomised report, and who sent it"),
        ("other users", "what the server broadcasts"),
    )

    def __init__(
        self,
        clients: Any,
        *,
        domain: Any = "ball",
        ledger: PrivacyLedger | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> None:
        ledger = _check_local(check_ledger(ledger, budget, "replace-one"))
        super().__init__(_as_clients(clients), domain=domain, ledger=ledger, **options)
        self._split: UserSplit | None = None

    @property
    def split(self) -> UserSplit | None:
        """The last division of the users, or None."""
        return self._split

    def charged(self, reports: Sequence[Accountable]) -> tuple[Any, ...]:
        """What the ledger is charged with when every user draws these: the report, as it is."""
        made = tuple(check_instance(reports, Sequence, "reports", what="mechanisms"))  # type: ignore[type-abstract]
        if not all(hasattr(m, "pure_epsilon") for m in made):
            raise TypeError("reports must be mechanisms, each with a pure_epsilon")
        return made

    def report_bytes(self, reports: Reports) -> int:
        """Bytes of the reports of one user on all their ways."""
        return sum(array[0].nbytes for array in reports)

    def _reports(self, part: Part, values: FloatArray) -> FloatArray:
        noisy = self.noised(self._exact(values, part.mechanism), part.mechanism)
        self.transcript.record(
            part.round, "clients", "server", f"noisy {part.name}", noisy[0],
            count=len(noisy), payload=noisy,
        )  # fmt: skip
        return noisy

    def check_one_point_each(self) -> None:
        """Raise unless every client holds one point: a query is answered by one point."""
        if self._data.n_clients != len(self._data.points):
            raise ValueError(
                "clients must hold one point each to answer local queries (give one array of"
                " shape (n, d), or let every client choose one of its rows at random)"
            )

    @checked
    def check_ask(self, query: LocalQuery, *, part: str | None = None) -> None:
        """Raise what `ask` would raise before its first report, the budget apart."""
        _check_local(self.ledger)
        self.check_one_point_each()
        if part is not None and (self.split is None or part not in self.split.parts):
            known = ", ".join(self.split.parts) if self.split else "none"
            raise ValueError(f"part {part!r} is unknown; divide the users first (parts: {known})")
        who, wrong = f"query {query.name!r}", ""
        if not query.mechanisms:
            wrong = "must state a mechanism (NoNoise if there is none)"
        for mechanism in query.mechanisms:
            if mechanism.adjacency != self.ledger.adjacency:
                raise LedgerMismatchError(
                    f"{who} speaks of {mechanism.adjacency}, this ledger of"
                    f" {self.ledger.adjacency}; local privacy is replace-one"
                )
            if hasattr(mechanism, "n_honest"):
                wrong = "draws only one node's share of a noise; every user must draw all of it"
            noise = math.isfinite(getattr(mechanism, "sensitivity", math.inf))
            continuous = noise and getattr(mechanism, "grid", 0.0) is None
            if self.randomness.is_secure and continuous:
                wrong = "must use discrete noise in secure mode"
        if wrong:
            raise ValueError(f"{who} {wrong}")
        for name, value in query.public.items():
            if np.asarray(value).dtype.kind not in "biuf":
                raise TypeError(f"public[{name!r}] of {who} must be an array of numbers")
        query.check(self.n_features)

    def _checked(self, *args: Any) -> Any:
        """As for all federations."""
        _check_local(self.ledger)
        return super()._checked(*args)

    def divide(self, shares: Mapping[str, float]) -> UserSplit:
        """Divide the users over named parts by public coins; later `ask`s may name a part.

        Users of different parts answer different questions, so their costs do not add up: the
        ledger keeps one group for each part of this division.
        """
        shares = check_shares(shares)  # raises before the ledger counts it
        with self._lock:  # users are asked in the division that is charged
            seed = int(self.randomness.public.integers(2**63))
            split = UserSplit(shares, seed)
            object.__setattr__(split, "number", self.ledger.new_division())
            self._split = split
            return split

    def ask(self, query: LocalQuery, *, round: int, part: str | None = None) -> None:
        """Put one question to all users, or to those of one part; the query collects the answers.

        Each user's report is randomised on the device. It is charged once for each user: reports of
        different users compose in parallel, because a neighbouring data set changes one user. What
        is wrong raises before any data is read or budget spent.
        """
        check_int(round, "round", minimum=0)
        with self._lock:
            self._ask(query, round, part)

    def _ask(self, query: LocalQuery, round: int, part: str | None) -> None:
        self.check_ask(query, part=part)
        split = self._split
        group = None if part is None or split is None else split.group(part)
        charged = self.charged(query.mechanisms)
        self._charge(
            PlannedRelease(round, query.name, query.parts, charged, part=part), group=group
        )
        self._tell(round, dict(query.public), self.n_clients)
        self._deliver(query, round, self._randomised(query, part))

    def _randomised(
        self, query: LocalQuery, part: str | None
    ) -> Iterator[tuple[IntArray, Reports]]:
        """Numbers and reports of the users, chunk by chunk, as they leave the devices."""
        split = self._split
        for start in range(0, self._data.n_clients, USERS_PER_CHUNK):
            points = self._data.points[start : start + USERS_PER_CHUNK]
            users = self._numbers(start, start + len(points))
            if part is not None and split is not None:
                here = split.members(users, part)
                users, points = users[here], points[here]
                if not len(users):
                    continue
            yield users, self._responses(query, points, users)

    def _responses(self, query: LocalQuery, points: FloatArray, users: IntArray) -> Reports:
        """The reports of these users; it never raises.

        A user for whom the computation fails answers as for the point 0, so that the failure tells
        others nothing: what is reported is still randomised.
        """

        try:
            with np.errstate(all="ignore"):
                return query.respond(points, users, rng=self.randomness.noise)
        except Exception:  # its text may speak of the points: it stays here
            log.exception("%s failed", query.name)
        if len(users) == 1:
            return query.respond(np.zeros_like(points), users, rng=self.randomness.noise)
        alone = [self._responses(query, points[[i]], users[[i]]) for i in range(len(users))]
        return tuple(np.concatenate(column) for column in zip(*alone, strict=True))

    def _numbers(self, start: int, stop: int) -> IntArray:
        """The numbers by which users find their part and question in the public coins."""
        return np.arange(start, stop)

    def _deliver(
        self, query: LocalQuery, round: int, answers: Iterable[tuple[IntArray, Reports]]
    ) -> None:
        """Bring the reports to the server, and put it on record."""
        kept: list[Reports] = []
        first: Reports = ()
        asked = 0
        for users, reports in answers:
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
    Only `LocalReports.divide` gives a number out; a division made by hand has None, and says who
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
        check_choice(part, "part", self.parts)
        if self.number is None:
            raise ValueError("this UserSplit was made by hand: LocalReports.divide numbers them")
        return f"division {self.number}/{part}"

    def members(self, users: IntArray, part: str) -> NDArray[np.bool_]:
        """Which of these user numbers belong to `part`."""
        index = self.parts.index(check_choice(part, "part", self.parts))
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


def _check_local(ledger: PrivacyLedger) -> PrivacyLedger:
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
    return ledger


def _as_clients(clients: Any) -> ClientData:
    """One array: one point each; a sequence of arrays (n_i, d): their clients."""
    if isinstance(clients, ClientData):
        return clients
    try:
        nested = isinstance(clients, list | tuple) and clients and np.ndim(clients[0]) == 2
    except ValueError:  # rows of unequal length: named below
        nested = False
    if nested:
        return ClientData.from_clients(clients)
    return ClientData.one_point_each(as_points(clients, "clients"))
