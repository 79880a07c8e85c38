"""A federation as one party of it sees it: what a trust model does to a release on its way.

All seats of a study have the same public facts, hence the same plan. A release goes three ways: a
client makes its answer ready (`sent`), the server adds up what it got (`added`), and whoever
follows the algorithm makes the answer of it (`read`): every client, or the server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import (
    ClientData,
    InProcess,
    LocalReports,
    MaskedSecureSum,
    PlannedRelease,
    Randomness,
    ServerlessSecureSum,
    TrustedServer,
)
from fedclust_helpers.federation.base import Part
from fedclust_helpers.federation.in_process import _Ring
from fedclust_helpers.federation.local import USERS_PER_CHUNK
from fedclust_helpers.federation.reports import LocalQuery, Reports
from fedclust_helpers.flower.study import Study
from fedclust_helpers.mechanisms import SECURE
from fedclust_helpers.program import Answer, Ask
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    PadBook,
    Ring,
    mask,
    pair_secret,
    unmask,
)

Arrays = Sequence[NDArray[Any]]


class Asked(NamedTuple):
    """A sum that is asked for: the part of a `Release` that crosses the wire."""

    statistic: ClientStatistic
    broadcast: dict[str, Any]


class Client(NamedTuple):
    """Whose seat it is, where it is a client's: its number, the session, and its secrets."""

    number: int
    session: bytes
    secret: bytes | None
    key: bytes | None


class Seat(InProcess):
    """What all parties have in common; `rows` (n, d) are those of this party alone, if any."""

    def __init__(
        self, study: Study, rows: FloatArray | None = None, *, labels: IntArray | None = None,
        client: Client | None = None, **own: Any,
    ) -> None:  # fmt: skip
        if rows is None:
            rows = np.zeros((1, study.n_features))
            labels = None if study.n_labels is None else np.zeros(1, dtype=np.int64)
        self._study, self._client = study, client
        ledger = PrivacyLedger(study.unit, study.adjacency)
        data = self._held(rows, labels)
        super().__init__(data, ledger=ledger, **own, **study.federation_options)
        if study.seed is None:  # noise from the operating system, public choices as agreed
            public = np.random.default_rng(study.public_seed)
            nodes = (SECURE,) * len(self.randomness.node_noise)
            self.randomness = Randomness(public, SECURE, nodes, None, None)

    def _held(self, rows: FloatArray, labels: IntArray | None) -> ClientData:
        return ClientData.from_clients([rows], labels=None if labels is None else [labels])

    @property
    def _n_present(self) -> int:
        return self.n_clients

    def _parts(self, line: PlannedRelease, number: int) -> list[Part]:
        return [
            Part(name, f"{line.name}/{name}", line.round, number, mechanism, self.n_clients)
            for name, mechanism in zip(line.parts, line.mechanisms, strict=True)
        ]

    def checked(self, asked: Any, line: PlannedRelease) -> Any:
        """What is asked for, as all parties use it; raises unless the plan's noise hides it."""
        broadcast, _ = self._checked(asked.statistic, line.mechanisms, None, asked.broadcast)
        return Asked(asked.statistic, broadcast)

    def sent(self, asked: Any, line: PlannedRelease, number: int) -> Arrays:
        """A client's answer to release `number`, made of its rows: it is charged before."""
        values = self._values(asked.statistic, asked.broadcast)
        parts = self._parts(line, number)
        return [self._sent(part, value) for part, value in zip(parts, values, strict=True)]

    def pass_over(self, asked: Any, line: PlannedRelease, shapes: Sequence[Any]) -> None:
        """A client's streams of teaching mode go to where they stood after an answer."""

    def wrong(self, asked: Any, line: PlannedRelease, sender: int, arrays: Arrays) -> str:
        """What is wrong with a client's answer, in words; "" if nothing is."""
        if [a.dtype for a in arrays] != [self._kind(m) for m in line.mechanisms]:
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
            self._added(each.sum(axis=0, dtype=each.dtype), mechanism)
            for mechanism, each in zip(line.mechanisms, stacked, strict=True)
        ]

    def _added(self, total: Any, mechanism: Any) -> Any:
        return total

    def read(self, asked: Any, line: PlannedRelease, number: int, totals: Arrays) -> Any:
        """The answer that the algorithm gets."""
        parts = list(zip(self._parts(line, number), totals, strict=True))
        ends = ("server", "clients") if self.receiver == "clients" else ("clients", "server")
        for part, total in parts:
            self.transcript.record(part.round, *ends, part.name, total, count=self.n_clients)
        return Answer.of([self._read(*each) for each in parts], line.mechanisms, self.facts)

    def _sent(self, part: Part, value: FloatArray) -> NDArray[Any]:
        raise NotImplementedError

    def _read(self, part: Part, total: Any) -> FloatArray:
        raise NotImplementedError

    def _kind(self, mechanism: Any) -> np.dtype[Any]:
        """Of the numbers that clients send."""
        return np.dtype(np.float64 if mechanism.grid is None else np.int64)


class TrustedSeat(Seat, TrustedServer):
    """The server is trusted with exact statistics, for sums alone."""

    offers = ("noisy_sum",)

    def _sent(self, part: Part, value: FloatArray) -> NDArray[Any]:
        return self._exact(value, part.mechanism)[0]

    def _added(self, total: Any, mechanism: Any) -> Any:
        return self.noised(total, mechanism)

    def _read(self, part: Part, total: Any) -> FloatArray:
        return total


# --- masked sums ----------------------------------------------------------------------------------


class _RingSeat(Seat, _Ring):
    """Words of a ring under pads that belong to one session alone."""

    _drawn_pads: Callable[..., Ring]

    def __init__(self, study: Study, rows: FloatArray | None = None, **own: Any) -> None:
        super().__init__(study, rows, **own)
        if self._client is None:
            return
        number, session, secret, key = self._client
        assert secret is not None
        # no pad covers two messages, nor is taken away twice
        self._pads = PadBook(secret, session, self.fixed_point.bits)
        self._unmasking = PadBook(secret, session, self.fixed_point.bits)
        self._pairs = {
            other: PadBook(pair_secret(key, bytes.fromhex(public)), session, self._pads.bits)
            for other, public in enumerate(study.public_keys or ())
            if other != number and key is not None
        }

    def _kind(self, mechanism: Any) -> np.dtype[Any]:
        return np.dtype(self.fixed_point.dtype)

    def _own_share(self, mechanism: Any, shape: tuple[int, ...]) -> Any:
        """This client's share of the noise (0 where the server adds it)."""
        assert self._client is not None
        if not self.nodes_add_noise or not math.isfinite(mechanism.sensitivity):
            return np.zeros(shape, self.fixed_point.dtype)
        return self._fresh_noise(mechanism, shape, self.randomness.node_noise[self._client.number])

    def pass_over(self, asked: Any, line: PlannedRelease, shapes: Sequence[Any]) -> None:
        """Draw the same shares of noise again."""
        for mechanism, shape in zip(line.mechanisms, shapes, strict=True):
            self._own_share(mechanism, tuple(shape))

    def _sent(self, part: Part, value: FloatArray) -> NDArray[Any]:
        assert self._client is not None
        shape = value.shape[1:]
        pads = self._drawn_pads(part, self.n_clients, shape)
        words = self._encode(value, part.mechanism)[0] + self._own_share(part.mechanism, shape)
        return mask(words, pads[self._client.number] + self._shared(part, shape))

    def _shared(self, part: Part, shape: tuple[int, ...]) -> Ring:
        """What this client shares with the others: the shares it gets less those it gives."""
        assert self._client is not None
        total: Any = np.zeros(shape, self.fixed_point.dtype)
        for other, book in self._pairs.items():
            pad = book.pads(f"pair|{part.purpose}", part.number, 1, shape)[0]
            total = total + pad if other < self._client.number else total - pad
        return total

    def _added(self, total: Any, mechanism: Any) -> Any:
        if self.nodes_add_noise:
            return total
        return total + self._fresh_noise(mechanism, total.shape, self.randomness.noise)

    def _read(self, part: Part, total: Any) -> FloatArray:
        if self.receiver == "clients":
            pads = self._unmasking.pads(part.purpose, part.number, self.n_clients, total.shape)
            total = unmask(total, pads.sum(axis=0, dtype=pads.dtype))
        return self.fixed_point.decode(total)


class MaskedSeat(_RingSeat, MaskedSecureSum):
    """A seat of a masked federation."""

    def __init__(self, study: Study, rows: FloatArray | None = None, **own: Any) -> None:
        super().__init__(study, rows, pre_shared_secret=bytes(SECRET_BYTES), **own)


class ServerlessSeat(_RingSeat, ServerlessSecureSum):
    """A seat of a federation without a server, whose messages go through a relay that reads none.

    Appendix C.1 of FastLloyd, with shares that are not sent: the share of client i for client j is
    a pad of their two X25519 keys, which both compute. What a client publishes, the sum of the
    shares it has and its noise, goes under a pad of the group, so that the relay may add up.
    """

    sees = (
        ("relay", "uniformly random words"),
        ("clients", "the noised sums, and random words of each other client"),
    )
    wire = _Ring.wire

    @property
    def messages_per_number(self) -> int:
        """One from each client to the relay, and one back."""
        return 2 * self.n_clients

    def _drawn_pads(self, part: Part, n_clients: int, shape: tuple[int, ...]) -> Ring:
        return self._pads.pads(part.purpose, part.number, n_clients, shape)


# --- local reports --------------------------------------------------------------------------------


class LocalSeat(Seat, LocalReports):
    """A seat of users who answer for themselves; the rooms hold them in the order of numbers.

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

    def _numbers(self, start: int, stop: int) -> IntArray:
        first = self._own.start if self.randomness.is_secure else 0
        return np.arange(first + start, first + stop)

    def checked(self, asked: Ask, line: PlannedRelease) -> Ask:
        """The question, which each user answers with noise of its own."""
        self.check_ask(asked.query, part=asked.part)
        return asked

    def sent(self, asked: Ask, line: PlannedRelease, number: int) -> Arrays:
        """The reports of this room's users."""
        found = [self._no_reports(asked.query)]
        for users, reports in self._randomised(asked.query, asked.part):
            own = (users >= self._own.start) & (users < self._own.stop)
            found.append(tuple(array[own] for array in reports))
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

    def read(self, asked: Ask, line: PlannedRelease, number: int, totals: Arrays) -> None:
        """All reports are counted; a room has none, and goes on without."""
        users = self._asked_of(asked, np.arange(self.n_clients))
        for start in range(0, self.n_clients if totals else 0, USERS_PER_CHUNK):
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
        one = np.zeros((1, self.n_features)), np.zeros(1, dtype=np.int64)
        return tuple(array[:0] for array in query.respond(*one, rng=np.random.default_rng(0)))


SEATS: dict[str, type[Seat]] = {
    "masked": MaskedSeat, "serverless": ServerlessSeat, "trusted": TrustedSeat, "local": LocalSeat,
}  # fmt: skip
