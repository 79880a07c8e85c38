"""A federation as one party of it sees it, behind the protocol that algorithms take.

All seats of a study have the same public facts, hence the same plan. A client's seat holds that
client's rows: where an algorithm asks for a sum, it makes its own part ready to be sent and stops
with `Asked`. Asked again with the totals that came back since, it passes over them and stops at the
next one, so a run needs no process that lives from round to round. The server's seat holds no rows:
it asks the clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

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
    Randomness,
    ServerlessSecureSum,
    TrustedServer,
)
from fedclust_helpers.federation.base import Part
from fedclust_helpers.federation.in_process import _Ring
from fedclust_helpers.federation.local import USERS_PER_CHUNK
from fedclust_helpers.federation.reports import LocalQuery, Reports
from fedclust_helpers.flower.study import Study
from fedclust_helpers.mechanisms import SECURE, Mechanism
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    PadBook,
    Ring,
    mask,
    pair_secret,
    unmask,
)

Shapes = Sequence[Sequence[tuple[int, ...]]]
Ask = Callable[[int, str, Mapping[str, Any]], Sequence[NDArray[Any]]]


class Asked(Exception):  # noqa: N818 (not an error)
    """An algorithm came to a sum that is not there yet; `content` is this client's part of it."""

    def __init__(self, content: Sequence[NDArray[Any]]) -> None:
        super().__init__("waiting for the sum of a release")
        self.content = tuple(content)


class _Seat(InProcess):
    """What all parties have in common; `rows` (n, d) are those of this party alone."""

    def __init__(
        self, study: Study, rows: FloatArray, *, ledger: PrivacyLedger | None = None,
        labels: IntArray | None = None, **own: Any,
    ) -> None:  # fmt: skip
        data = self._held(rows, labels)
        ledger = PrivacyLedger(study.unit, study.adjacency) if ledger is None else ledger
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


class _ClientSeat(_Seat):
    """A client's seat: parts of a release are gathered until all of them can be sent."""

    _n_parts = 0
    _content: list[Any]

    def _answers(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any], cohort: IntArray | None,
    ) -> Sequence[Any]:  # fmt: skip
        self._n_parts, self._content = len(statistic.parts), []
        return super()._answers(statistic, mechanisms, broadcast, cohort)

    def _made(self, content: NDArray[Any]) -> FloatArray:
        """One more part is ready; `Asked` when it was the last one."""
        self._content.append(content)
        if len(self._content) == self._n_parts:
            raise Asked(self._content)
        return np.zeros(content.shape)

    def _pass_over(self, shapes: Shapes) -> None:
        """Take the streams of teaching mode to where they stood after these releases."""

    def answer(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], *, number: int,
        shapes: Shapes, **how: Any,
    ) -> Sequence[NDArray[Any]]:  # fmt: skip
        """The answer to one release that the server asks for, within `follow`.

        `shapes` are those of the parts of all releases before.
        """
        self._pass_over(shapes)
        self._n_releases = number
        try:
            self.noisy_sum(statistic, mechanisms, **how)
        except Asked as asked:
            return asked.content
        raise AssertionError("a release ends with Asked")


# --- masked sums ----------------------------------------------------------------------------------


class MaskedSeat(_Seat, MaskedSecureSum):
    """A seat of a masked federation; without rows for a plan and the server's noise."""

    def __init__(self, study: Study, rows: FloatArray, **own: Any) -> None:
        super().__init__(study, rows, pre_shared_secret=bytes(SECRET_BYTES), **own)


class ServerlessSeat(_Seat, ServerlessSecureSum):
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


class _RingClientSeat(_ClientSeat, _Ring):
    """One client's seat: `totals` are the totals of the releases so far, where clients receive.

    `session` is that of the run, so that pads belong to it alone; `key` is this client's private
    key (without a server only).
    """

    _drawn_pads: Callable[..., Any]

    def __init__(
        self, study: Study, rows: FloatArray, *, number: int, session: bytes, secret: bytes,
        totals: Sequence[Sequence[Ring]] = (), key: bytes | None = None, **own: Any,
    ) -> None:  # fmt: skip
        super().__init__(study, rows, **own)
        self._number, self._totals = number, totals
        self.session = session
        self._pads = PadBook(secret, session, self.fixed_point.bits)
        others = enumerate(study.public_keys or ())
        self._pairs = {
            other: PadBook(pair_secret(key, bytes.fromhex(public)), session, self._pads.bits)
            for other, public in others
            if other != number and key is not None
        }

    def _values(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], *how: Any, **more: Any
    ) -> Any:
        if self._n_releases < len(self._totals):  # answered before: the rows are not looked at
            return [np.zeros((1, *shape)) for shape in self._shapes(statistic, broadcast)]
        return super()._values(statistic, broadcast, *how, **more)

    def _own_share(self, mechanism: Mechanism, shape: tuple[int, ...]) -> Any:
        """This client's share of the noise (0 where the server adds it)."""
        if not self.nodes_add_noise or not math.isfinite(mechanism.sensitivity):
            return np.zeros(shape, self.fixed_point.dtype)
        return self._fresh_noise(mechanism, shape, self.randomness.node_noise[self._number])

    def _noisy_sum(self, part: Part, value: FloatArray) -> FloatArray:
        shape, mechanism = value.shape[1:], part.mechanism
        pads = self._drawn_pads(part, self.n_clients, shape)
        share = self._own_share(mechanism, shape)  # also where it was used: the stream goes on
        if part.number >= len(self._totals):
            encoded = self._encode(value, mechanism)[0] + share
            return self._made(mask(encoded, pads[self._number] + self._shared(part, shape)))
        total = self._totals[part.number][len(self._content)]
        self._content.append(total)
        self.transcript.record(part.round, "server", "clients", f"masked noisy {part.name}", total)
        return self.fixed_point.decode(unmask(total, pads.sum(axis=0, dtype=pads.dtype)))

    def _shared(self, part: Part, shape: tuple[int, ...]) -> Ring:
        """What this client shares with the others: the shares it gets less those it gives."""
        total: Any = np.zeros(shape, self.fixed_point.dtype)
        for other, book in self._pairs.items():
            pad = book.pads(f"pair|{part.purpose}", part.number, 1, shape)[0]
            total = total + pad if other < self._number else total - pad
        return total

    def _pass_over(self, shapes: Shapes) -> None:
        if self.randomness.is_secure or self._following is None:
            return
        for planned, parts in zip(self._following.plan.releases, shapes, strict=False):
            for mechanism, shape in zip(planned.mechanisms, parts, strict=True):
                self._own_share(mechanism, tuple(shape))


class MaskedClientSeat(_RingClientSeat, MaskedSeat):
    """One client's seat of a masked federation."""


class ServerlessClientSeat(_RingClientSeat, ServerlessSeat):
    """One client's seat of a federation without a server."""

    def _drawn_pads(self, part: Part, n_clients: int, shape: tuple[int, ...]) -> Ring:
        return self._pads.pads(part.purpose, part.number, n_clients, shape)


class _AskingSeat(_Seat):
    """A server's seat: ``ask(number, name, broadcast)`` gets what the clients sent."""

    def __init__(self, study: Study, rows: FloatArray, *, ask: Ask, **own: Any) -> None:
        super().__init__(study, rows, **own)
        self._ask = ask

    def _answers(self, statistic: ClientStatistic, mechanisms: Any, broadcast: Any, _: Any) -> Any:
        return self._ask(self._n_releases, statistic.name, broadcast)


class MaskedServerSeat(_AskingSeat, MaskedSeat):
    """The server's seat where it reads the sums: ``ask(number, name, broadcast)`` gets them."""

    def _noisy_sum(self, part: Part, value: Any) -> FloatArray:
        self.transcript.record(
            part.round, "clients", "server", part.name, value, count=self.n_clients
        )
        return self.fixed_point.decode(value)


# --- a trusted server -----------------------------------------------------------------------------


class TrustedClientSeat(_ClientSeat, TrustedServer):
    """One client's seat where the server is trusted with exact statistics, for sums alone."""

    offers = ("noisy_sum",)

    def _noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        return self._made(self._exact(values, part.mechanism)[0])


class TrustedServerSeat(_AskingSeat, TrustedServer):
    """The trusted server's seat: ``ask`` gets the released values, which the server has noised."""

    offers = ("noisy_sum",)

    def _noisy_sum(self, part: Part, value: Any) -> FloatArray:
        self.transcript.record(
            part.round, "clients", "server", part.name, value, count=self.n_clients
        )
        return value


# --- local reports --------------------------------------------------------------------------------


class LocalSeat(_Seat, LocalReports):
    """A seat of users who answer for themselves; the rooms hold them in the order of numbers."""

    def _held(self, rows: FloatArray, labels: IntArray | None) -> ClientData:
        return ClientData.one_point_each(rows)


class LocalClientSeat(LocalSeat):
    """The seat of one room: its users' reports to question `n_answered`, made from the study alone.

    In teaching mode all noise is one stream: the room draws the others' too, and throws it away.
    """

    def __init__(
        self, study: Study, rows: FloatArray, *, number: int, n_answered: int = 0, **own: Any
    ) -> None:
        self._users, self._n_answered = study.users_of(number), n_answered
        if study.seed is not None:
            everyone = np.zeros((study.n_records, study.n_features))
            everyone[self._users.start : self._users.stop] = rows
            rows = everyone
        super().__init__(study, rows, **own)

    def _numbers(self, start: int, stop: int) -> IntArray:
        first = self._users.start if self.randomness.is_secure else 0
        return np.arange(first + start, first + stop)

    def _deliver(
        self, query: LocalQuery, round: int, answers: Iterable[tuple[IntArray, Reports]]
    ) -> None:
        """`Asked` with this room's reports; those to questions before are passed over."""
        passed, self._n_releases = self._n_releases < self._n_answered, self._n_releases + 1
        if passed and self.randomness.is_secure:
            return
        found = [_no_reports(query, self.n_features)]
        for users, reports in answers:
            own = (users >= self._users.start) & (users < self._users.stop)
            found.append(tuple(array[own] for array in reports))
        if not passed:
            raise Asked([np.concatenate(parts) for parts in zip(*found, strict=True)])


class LocalServerSeat(LocalSeat):
    """The server's seat: ``ask`` gets the reports of all rooms, one room after the other."""

    def __init__(self, study: Study, rows: FloatArray, *, ask: Ask, **own: Any) -> None:
        super().__init__(study, rows, **own)
        self._ask_rooms = ask
        self._rooms = [study.users_of(number) for number in range(study.n_clients)]
        self._wanted: list[list[tuple[Any, ...]]] = []  # kind and shape of each room's reports

    def _randomised(
        self, query: LocalQuery, part: str | None
    ) -> Iterator[tuple[IntArray, Reports]]:
        rooms = [np.arange(users.start, users.stop) for users in self._rooms]
        if part is not None and self.split is not None:
            rooms = [users[self.split.members(users, part)] for users in rooms]
        empty = _no_reports(query, self.n_features)
        self._wanted = [[(a.dtype, (len(u), *a.shape[1:])) for a in empty] for u in rooms]
        arrays = self._ask_rooms(self._n_releases, query.name, {})
        self._n_releases += 1
        users = np.concatenate(rooms)
        for start in range(0, self.n_clients, USERS_PER_CHUNK):  # as in one process, to the bit
            low, high = np.searchsorted(users, [start, start + USERS_PER_CHUNK])
            if low < high:
                yield users[low:high], tuple(array[low:high] for array in arrays)


def _no_reports(query: LocalQuery, n_features: int) -> Reports:
    """What nobody would send: kinds and shapes of a report."""
    one = np.zeros((1, n_features)), np.zeros(1, dtype=np.int64)
    return tuple(array[:0] for array in query.respond(*one, rng=np.random.default_rng(0)))


def server_seat(study: Study, ask: Ask) -> Any:
    """The server's seat of a study: without rows."""
    rows = np.zeros((1, study.n_features))
    own: Any = {} if study.n_labels is None else {"labels": np.zeros(1, dtype=np.int64)}
    if study.trust == "local":
        return LocalServerSeat(study, rows, ask=ask)
    if study.trust == "serverless":
        return ServerlessSeat(study, rows, **own)
    if study.trust == "trusted":
        return TrustedServerSeat(study, rows, ask=ask, **own)
    if study.receiver == "server":
        return MaskedServerSeat(study, rows, ask=ask, **own)
    return MaskedSeat(study, rows, **own)


def client_seat(
    study: Study, rows: FloatArray, *, number: int, session: bytes, secret: bytes | None,
    key: bytes | None, totals: Sequence[Sequence[Ring]], n_answered: int, **own: Any,
) -> Any:  # fmt: skip
    """A client's seat of a study, `n_answered` of whose releases were made."""
    if study.trust == "local":
        own.pop("labels", None)
        return LocalClientSeat(study, rows, number=number, n_answered=n_answered, **own)
    if study.trust == "trusted":
        return TrustedClientSeat(study, rows, **own)
    assert secret is not None
    own |= {"number": number, "session": session, "secret": secret, "totals": totals}
    if study.trust == "serverless":
        return ServerlessClientSeat(study, rows, key=key, **own)
    return MaskedClientSeat(study, rows, **own)
