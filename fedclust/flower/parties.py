"""A federation as one party of it sees it: what a trust model does to a release on its way.

All parties of a study have the same public facts, hence the same plan. A release has three steps: a
client makes its answer ready (`sent`), the server adds up what it got (`added`), and whoever
follows the algorithm makes the answer of it (`read`): every client, or the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedclust.flower.journal import unpacked
from fedclust.flower.messages import RefusedError
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import STATISTICS, ClientStatistic
from fedclust_helpers.federation import (
    TRUST_MODELS,
    ClientData,
    Federation,
    Plan,
    PlannedRelease,
    Randomness,
    TrustModelError,
)
from fedclust_helpers.federation.aggregation import Aggregation, Context, Masked, Part, Who
from fedclust_helpers.federation.local import USERS_PER_CHUNK
from fedclust_helpers.federation.reports import LocalQuery, Reports
from fedclust_helpers.federation.trust import trust_model
from fedclust_helpers.mechanisms import SECURE
from fedclust_helpers.program import Answer, Ask
from fedclust_helpers.secure_aggregation import SECRET_BYTES, PadBook, Ring, pair_secret

Arrays = Sequence[NDArray[Any]]


class Asked(NamedTuple):
    """A sum that is asked for: the part of a `Release` that crosses the wire."""

    statistic: ClientStatistic
    broadcast: dict[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """As the server broadcasts it: the name of the statistic, and numbers."""
        name = self.statistic.name
        content = {"statistic": np.frombuffer(name.encode("ascii"), np.uint8)}
        for key, value in self.broadcast.items():
            content[key] = array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                raise TrustModelError(f"{key} of {name} is not made of numbers: it is not sent")
        return content

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], line: PlannedRelease, number: int) -> Asked:
        """As a client takes it, if it is of the statistic that release `number` has in the plan."""
        # one number as a number, arrays as they are
        broadcast = {key: a if a.ndim else a.item() for key, a in arrays.items()}
        name = bytes(np.atleast_1d(broadcast.pop("statistic", b""))).decode("ascii", "replace")
        statistic = STATISTICS.get(name)
        if statistic is None or name != line.name:
            raise RefusedError(f"release {number} is not of the statistic of the plan")
        if statistic.remembers:
            raise RefusedError(f"{name} depends on what a client remembers, which is not kept here")
        return cls(statistic, broadcast)


class Client(NamedTuple):
    """Which client a party is: its number, the session, and its secrets."""

    number: int
    session: bytes
    secret: bytes | None
    key: bytes | None


class Relayed(Masked):
    """Sums without a server, whose messages go through a relay that reads none.

    Appendix C.1 of FastLloyd, with shares that are not sent: the share of client i for client j is
    a pad of their two X25519 keys, which both compute. What a client publishes, the sum of the
    shares it has and its noise, goes under a pad of the group, so that the relay may add up.
    """

    def __init__(
        self, context: Context, *, keys: Mapping[int, tuple[bytes, str]] | None = None,
        **masked: Any,
    ) -> None:  # fmt: skip
        super().__init__(context, **masked)
        self._pairs = {
            other: PadBook(
                pair_secret(own, bytes.fromhex(public), use="pads"), self.session, self._pads.bits
            )
            for other, (own, public) in (keys or {}).items()
        }

    def send(self, part: Part, values: FloatArray, who: Who = None) -> Ring:
        """Of one client: with the shares that it gets less those that it gives."""
        words: Any = super().send(part, values, who)
        purpose, number = part.pads
        for other, book in self._pairs.items():
            if part.who is not None and other not in part.who:
                continue
            pad = book.pads(f"pair|{purpose}", number, 1, words.shape[1:])
            words = words + pad if who is not None and other < who[0] else words - pad
        return words


class Totals(Aggregation):
    """Exact statistics to a trusted server, whose algorithm sees sums of them alone."""

    offers = ("noisy_sum",)


RELAYED = replace(
    TRUST_MODELS["serverless"][0], aggregation=Relayed,
    sees=(
        ("relay", "uniformly random words"),
        ("clients", "the noised sums, and random words of each other client"),
    ),
)  # fmt: skip


class Party(Federation):
    """What all parties have in common; `rows` (n, d) are those of this party alone, if any."""

    def __init__(
        self, study: Study, rows: FloatArray | None = None, *, labels: IntArray | None = None,
        client: Client | None = None,
    ) -> None:  # fmt: skip
        if rows is None:
            rows = np.zeros((1, study.n_features))
            labels = None if study.n_labels is None else np.zeros(1, dtype=np.int64)
        self._study, self._client = study, client
        options = study.federation_options | self._secrets()
        ends = (options.pop(name, None) for name in ("noise_from", "receiver"))
        row = trust_model(study.trust, *ends)
        if study.trust == "serverless":
            row = RELAYED
        elif study.trust == "trusted":
            row = replace(row, aggregation=Totals)
        self._failed = False
        ledger = PrivacyLedger(study.unit, study.adjacency)
        super().__init__(self._held(rows, labels), row, ledger=ledger, **options)

    def _held(self, rows: FloatArray, labels: IntArray | None) -> ClientData:
        own = None if labels is None else [labels]
        return ClientData.from_clients([rows], own, missing=self._study.domain == "raw")

    def _secrets(self) -> dict[str, Any]:
        """What pads are made of, for one session alone; nothing that is secret for the server."""
        study, client = self._study, self._client
        if study.trust not in RINGS:
            return {}
        if client is None or client.secret is None:
            return {"pre_shared_secret": bytes(SECRET_BYTES)}
        secrets: dict[str, Any] = {"pre_shared_secret": client.secret, "session": client.session}
        if client.key and study.public_keys and study.trust == "serverless":
            others = enumerate(study.public_keys)
            secrets["keys"] = {i: (client.key, k) for i, k in others if i != client.number}
        return secrets

    def _present(self, held: ClientData, n_clients: int) -> int:
        return n_clients

    def _sources(self, seed: Any, n_nodes: int) -> Randomness:
        """In secure mode noise is the operating system's, and public choices are as agreed."""
        if seed is not None:
            return super()._sources(seed, n_nodes)
        public = np.random.default_rng(self._study.public_seed)
        return Randomness(public, SECURE, (SECURE,) * n_nodes, None, None)

    def _parts(self, line: PlannedRelease, number: int, who: Who) -> list[Part]:
        n = self.facts.n_clients if who is None else len(who)
        return [
            Part(name, f"{line.name}/{name}", line.round, number, mechanism, n, who)
            for name, mechanism in zip(line.parts, line.mechanisms, strict=True)
        ]

    def checked(self, asked: Any, line: PlannedRelease) -> Any:
        """What is asked for, as all parties use it; raises unless the plan's noise hides it."""
        broadcast, _ = self._checked(asked.statistic, line.mechanisms, None, asked.broadcast)
        return Asked(asked.statistic, broadcast)

    def sent(self, asked: Any, line: PlannedRelease, number: int, who: Who = None) -> Arrays:
        """A client's answer to release `number`, made of its rows: it is charged before.

        `who` are the clients who are asked, None: all.
        """
        assert self._client is not None
        shapes = self.shapes_of(asked.statistic, asked.broadcast)
        clients = self._clients.seen_by(asked.statistic)
        clients.begin()
        values = clients.values(asked.statistic, asked.broadcast, shapes)
        self._failed = clients.failed
        own = [self._client.number]
        return [
            self.aggregation.send(part, value, own)[0]
            for part, value in zip(self._parts(line, number, who), values, strict=True)
        ]

    @property
    def failed(self) -> bool:
        """Whether the last answer was sent as without rows, because computing it failed."""
        return self._failed

    def pass_over(self, asked: Any, line: PlannedRelease, shapes: Sequence[Any]) -> None:
        """A client's streams of teaching mode go to where they stood after an answer."""
        assert self._client is not None
        for mechanism, shape in zip(line.mechanisms, shapes, strict=True):
            nothing = np.zeros((1, *shape), self.aggregation.kind(mechanism))
            self.trust.adder.to_messages(
                self.aggregation, nothing, mechanism, [self._client.number]
            )

    def wrong(self, asked: Any, line: PlannedRelease, sender: int, arrays: Arrays) -> str:
        """What is wrong with a client's answer, in words; "" if nothing is."""
        if [a.dtype for a in arrays] != [self.aggregation.kind(m) for m in line.mechanisms]:
            return "an answer of other parts than the plan's"
        if not all(np.isfinite(a).all() for a in arrays):
            return "numbers that are not finite"
        size = sum(array.size for array in arrays)
        if line.numbers and size != line.numbers:
            return f"{size} numbers instead of {line.numbers}"
        return ""

    def added(self, line: PlannedRelease, answers: Sequence[Arrays]) -> Arrays:
        """The server's total of all answers, with its noise, if it is the one who adds it."""
        stacked = [np.stack(each) for each in zip(*answers, strict=True)]
        return [
            self.aggregation.add(m, each) for m, each in zip(line.mechanisms, stacked, strict=True)
        ]

    def read(
        self, asked: Any, line: PlannedRelease, number: int, totals: Arrays, who: Who = None
    ) -> Any:
        """The answer that the algorithm gets, of the totals of the clients `who`."""
        parts = list(zip(self._parts(line, number, who), totals, strict=True))
        ends = ("server", "clients") if self.facts.receiver == "clients" else ("clients", "server")
        for part, total in parts:
            self.transcript.record(part.round, *ends, part.name, total, count=part.n_senders)
        return Answer.of(
            [self.aggregation.read(*each) for each in parts], line.mechanisms, self.facts
        )


# --- local reports --------------------------------------------------------------------------------


class LocalParty(Party):
    """A party of users who answer for themselves; the rooms hold them in the order of numbers.

    In teaching mode all noise is one stream: a room draws the others' too, and throws it away.
    """

    def __init__(
        self, study: Study, rows: FloatArray | None = None, *, client: Client | None = None,
        labels: Any = None,
    ) -> None:  # fmt: skip
        self._own = range(0) if client is None else study.users_of(client.number)
        if rows is not None and study.seed is not None:
            everyone = np.zeros((study.n_records, study.n_features))
            everyone[self._own.start : self._own.stop] = rows
            rows = everyone
        super().__init__(study, rows, client=client)

    def _held(self, rows: FloatArray, labels: IntArray | None) -> ClientData:
        return ClientData.one_point_each(rows)

    def _secrets(self) -> dict[str, Any]:
        return {"first": self._own.start if self._study.seed is None else 0}

    def checked(self, asked: Ask, line: PlannedRelease) -> Ask:
        """The question, which each user answers with noise of its own."""
        self.check_ask(asked.query, part=asked.part)
        return asked

    def sent(self, asked: Ask, line: PlannedRelease, number: int, who: Who = None) -> Arrays:
        """The reports of this room's users."""
        found = [self._no_reports(asked.query)]
        points = self._clients.data.points
        numbers = self.users.first + np.arange(len(points))
        for users, reports in self.users.answers(asked.query, asked.part, points, numbers):
            own = (users >= self._own.start) & (users < self._own.stop)
            found.append(tuple(array[own] for array in reports))
        self._failed = bool(self.users.n_failed)
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def pass_over(self, asked: Ask, line: PlannedRelease, shapes: Sequence[Any]) -> None:
        """Draw the same reports again."""
        self.sent(asked, line, 0)

    def wrong(self, asked: Ask, line: PlannedRelease, sender: int, arrays: Arrays) -> str:
        """Reports are counted in the form of the question, and no others."""
        room, empty = self._study.users_of(sender), self._no_reports(asked.query)
        n = len(self._asked_of(asked, np.arange(room.start, room.stop)))
        if [(a.dtype, a.shape) for a in arrays] != [(a.dtype, (n, *a.shape[1:])) for a in empty]:
            return "reports of another form than the plan's"
        values = getattr(line.mechanisms[0], "n_values", math.inf)
        good = all(np.isfinite(a).all() and (a < values).all() for a in arrays)
        return "" if good else "reports that no user would send"

    def added(self, line: PlannedRelease, answers: Sequence[Arrays]) -> Arrays:
        """All reports: the server's algorithm counts them."""
        return [np.concatenate(each) for each in zip(*answers, strict=True)]

    def read(
        self, asked: Ask, line: PlannedRelease, number: int, totals: Arrays, who: Who = None
    ) -> None:
        """All reports are counted; a room has none, and goes on without."""
        users = self._asked_of(asked, np.arange(self.facts.n_clients))
        for start in range(0, self.facts.n_clients if totals else 0, USERS_PER_CHUNK):
            # as in one process, to the bit
            low, high = np.searchsorted(users, [start, start + USERS_PER_CHUNK])
            if low < high:
                asked.query.collect(users[low:high], tuple(array[low:high] for array in totals))

    def _asked_of(self, asked: Ask, users: IntArray) -> IntArray:
        """Those of these users who are asked."""
        if asked.part is None or self.split is None:
            return users
        return users[self.split.members(users, asked.part)]

    def _no_reports(self, query: LocalQuery) -> Reports:
        """What nobody would send: kinds and shapes of a report."""
        one = np.zeros((1, self.facts.n_features)), np.zeros(1, dtype=np.int64)
        return tuple(array[:0] for array in query.respond(*one, rng=np.random.default_rng(0)))


PARTIES: dict[str, type[Party]] = {
    "masked": Party, "serverless": Party, "trusted": Party, "local": LocalParty,
}  # fmt: skip


# --- along the plan -------------------------------------------------------------------------------


class Follower:
    """A party along the plan, with its execution of the algorithm where it `executes` that.

    `totals` are those of the releases that are over, as a journal keeps them, each with its set.
    A client made `n_sent` answers on its way, in this `session`.
    """

    def __init__(
        self, study: Study, party: Party, plan: Plan, *, executes: bool, session: str = ""
    ) -> None:
        self._study, self._releases, self.party, self.session = study, plan.releases, party, session
        self.execution = study.execution(party, plan) if executes else None
        self.totals: list[Any] = []
        self.n_sent = 0

    @property
    def line(self) -> PlannedRelease:
        """The release of the plan that comes next."""
        return self._releases[len(self.totals)]

    def asked(self) -> Any:
        """What the algorithm asks for in it, as all parties use it."""
        assert self.execution is not None
        return self.party.checked(self.execution.request, self.line)

    def pass_over(self, shapes: Sequence[Any]) -> None:
        """An answer was made before: streams of teaching mode go to where they stood after it."""
        if self._study.seed is not None:
            self.party.pass_over(self.execution and self.execution.request, self.line, shapes)
        self.n_sent += 1

    def advance(self, total: Sequence[Any]) -> None:
        """The release is over: the algorithm gets its total, and comes to the next one."""
        if self.execution is not None:
            text, who = total
            arrays = list(unpacked(text).values()) if text else []
            number = len(self.totals)
            self.execution.advance(
                self.party.read(self.execution.request, self.line, number, arrays, who)
            )
        self.totals.append(total)
