"""The server's side: it drives a run, adds up what it cannot read, and holds no data.

`ServerRoom` speaks to the clients through any `Transport`: a direct call in tests, Flower in a
deployment. Requests are repeated until every client answered, so a message that is lost, late,
doubled or out of order costs time and nothing else; after `deadline` seconds the run stops with an
error that names who did not answer. Totals are kept on disk before they are sent: a server that was
killed goes on from there, and never sends two totals of one release.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import check_instance, check_positive
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import TrustModelError
from fedclust_helpers.flower.agreement import NONCE_BYTES, agreement_of, parts_of, session_of
from fedclust_helpers.flower.journal import Journal, charged, entry, packed, unpacked
from fedclust_helpers.flower.messages import (
    SERVER,
    UNREAD,
    Frame,
    MessageError,
    decode,
    encode,
    numbered,
)
from fedclust_helpers.flower.seats import SEATS, Seat
from fedclust_helpers.flower.study import RINGS, Study
from fedclust_helpers.program import Walk
from fedclust_helpers.secure_aggregation import SECRET_BYTES

Arrays = Mapping[str, np.ndarray]
FRESH = ("nonce", "check")  # what each client sends in hello


class Transport(Protocol):
    """Carries bytes to addresses, and brings answers with the address that they came from.

    The address of an answer is authenticated by the transport; messages may be lost or doubled.
    """

    @property
    def addresses(self) -> Sequence[Hashable]:
        """One for each client, in any order."""

    def send(self, address: Hashable, message: bytes) -> None: ...
    def receive(self, timeout: float) -> tuple[Hashable, bytes] | None:
        """The next answer, or None after `timeout` seconds."""


class RoundFailedError(RuntimeError):
    """A client refused, or did not answer in time; the text says which, and what it said."""


@checked
class ServerRoom:
    """The server of one study.

    Parameters
    ----------
    study : Study
        From the server's own file; its hash must be that of every client.
    transport : Transport
        With one address for each client.
    journal : path
        The file that keeps the totals of this run.
    deadline : float
        Seconds in which all clients must answer one message; then the run stops. (Flower's app in
        tools/federation asks for 120.)
    patience : float
        Seconds after which a message is sent again to those who did not answer. (There: 60.)
    clock : callable
        Seconds of the server, for these two alone. Clients have none: nothing they do depends on
        the time, so clocks may differ.
    """

    def __init__(
        self, study: Study, transport: Transport, *, journal: Path | str, deadline: float = 60.0,
        patience: float = 10.0, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        check_instance(study, Study, "study")
        self.study, self.transport, self._clock = study, transport, clock
        self.deadline = check_positive(deadline, "deadline")
        self.patience = check_positive(patience, "patience")
        self.plan = study.planned(SEATS[study.trust](study))
        self._parts = parts_of(study, self.plan)
        self.agreement = self._session = agreement_of(self._parts)
        self.journal = Journal(journal, agreement=self.agreement.hex())
        self.n_bytes = {"sent": 0, "received": 0}
        self.seconds: list[float] = []  # of each exchange, the hello first
        self._numbers: dict[Hashable, int] = {}
        self._kept: dict[str, Any] = {}

    def run(self, progress: Progress = False) -> Any:
        """Make all releases of the plan; the result where the server receives, else None.

        `RoundFailedError` if a client refuses or does not answer; run again to go on from there.
        """
        seat = SEATS[self.study.trust](self.study)
        walk = self.study.walk(seat, self.plan) if self.study.receiver == "server" else None
        with self.journal.open() as self._kept:
            self._meet()
            last: Sequence[NDArray[Any]] = ()
            with showing(progress, len(self.plan.releases), self.plan.method) as done:
                for number, line in enumerate(self.plan.releases):
                    last = self._total(seat, walk, number, last)
                    if walk is not None:
                        walk.go_on(seat.read(walk.request, line, number, last))
                    done(number + 1)
            content = numbered(last) if walk is None else {}
            end = len(self.plan.releases)
            self._exchange(Frame("finish", self._session, SERVER, end, content), "done")
        if walk is None:
            return None
        own = entry({"runs": []}, self.agreement, self.plan.lines()) | {"charged": end}
        ledger = PrivacyLedger(self.study.unit, self.study.adjacency)
        return walk.result(charged(ledger, [own]))

    def _meet(self) -> None:
        """Study and plan are compared before anything else; who is who comes back.

        So does a fresh nonce of each client. All of them go round: the session follows from them.
        """
        parts = {name: np.frombuffer(part, np.uint8) for name, part in self._parts.items()}
        hello = Frame("hello", self.agreement, SERVER, 0, parts)
        replies = self._exchange(hello, "hello", self._check_hello)
        numbers = {address: frame.sender for address, frame in replies.items()}
        wanted = set(range(self.study.n_clients))
        if len(numbers) != len(wanted) or set(numbers.values()) != wanted:
            raise RoundFailedError(
                f"clients must be number 0 to {self.study.n_clients - 1}, each once, got"
                f" {sorted(numbers.values())}"
            )
        made = len(self._kept["runs"])
        for frame in replies.values():
            if not made <= frame.number <= made + 1:
                raise RoundFailedError(
                    f"client {frame.sender} answered {frame.number} releases, this server has the"
                    f" totals of {made}: a journal was lost or put back; start a new run"
                )
        self._numbers = numbers
        by_number = sorted(replies.values(), key=lambda frame: frame.sender)
        met = {f"{name}s": np.stack([f.arrays[name] for f in by_number]) for name in FRESH}
        self._session = session_of(self.agreement, met["nonces"])
        self._exchange(Frame("session", self._session, SERVER, 0, met), "session")

    def _check_hello(self, frame: Frame) -> str:
        form = {"nonce": (NONCE_BYTES,), "check": (SECRET_BYTES * (self.study.trust in RINGS),)}
        sent = {
            name: array.shape for name, array in frame.arrays.items() if array.dtype == np.uint8
        }
        return "" if sent == form else "a hello without a nonce"

    # one release ----------------------------------------------------------------------------------

    def _total(
        self, seat: Seat, walk: Walk | None, number: int, last: Sequence[NDArray[Any]]
    ) -> Sequence[NDArray[Any]]:
        """What one release gives, from the journal or asked for: kept before anybody sees it."""
        line, kept = self.plan.releases[number], self._kept["runs"]
        if number < len(kept):
            totals = list(unpacked(kept[number]).values())
            if self.study.seed is not None:
                seat.added(line, [totals])  # the stream of its noise goes on
            return totals
        asked = None
        content: Arrays = numbered(last)  # where the clients receive: the total before
        if walk is not None:
            asked = seat.checked(walk.request, line)
            content = {} if self.study.trust == "local" else _said(asked)
        request = Frame("total" if walk is None else "release", self._session, SERVER, number,
                        content)  # fmt: skip
        replies = self._exchange(
            request, "answer",
            lambda frame: seat.wrong(asked, line, frame.sender, list(frame.arrays.values())),
        )  # fmt: skip
        by_number = sorted(replies.values(), key=lambda frame: frame.sender)
        answers = [list(frame.arrays.values()) for frame in by_number]
        shapes = [[array.shape for array in answer] for answer in answers]
        if self.study.trust != "local" and any(s != shapes[0] for s in shapes):
            raise RoundFailedError(f"answers to release {number} differ in shape")
        totals = list(seat.added(line, answers))
        kept.append(packed(numbered(totals)))
        self.journal.save(self._kept)  # a release has one total
        return totals

    # messages -------------------------------------------------------------------------------------

    def _exchange(
        self, request: Frame, wanted: str, check: Any = lambda frame: ""
    ) -> dict[Hashable, Frame]:
        """Send one request to all and wait for the `wanted` answer of each; repeat what is lost."""
        message, start = encode(request), self._clock()
        end, replies, faults = start + self.deadline, {}, dict[Hashable, str]()
        due = dict.fromkeys(self.transport.addresses, start)  # when to send (again)
        while due:
            now = self._clock()
            for address in [a for a, when in due.items() if when <= now <= end]:
                self.n_bytes["sent"] += len(message)
                self.transport.send(address, message)
                due[address] = now + self.patience
            got = self.transport.receive(max(0.0, min(end, *due.values()) - now))
            if got is None:
                if now > end:  # and nothing is waiting any more
                    raise RoundFailedError(self._missing(request, set(due), faults))
                continue
            address, answer = got
            self.n_bytes["received"] += len(answer)
            frame, fault = self._read(address, answer, request, wanted)
            fault = fault or (check(frame) if frame else "")
            if frame is not None and not fault:
                if due.pop(address, None) is not None:
                    replies[address] = frame
            elif fault and address in due:
                faults[address] = fault
                due[address] = min(due[address], self._clock() + self.patience / 10)
        self.seconds.append(self._clock() - start)
        return replies

    def _read(
        self, address: Hashable, answer: bytes, request: Frame, wanted: str
    ) -> tuple[Frame | None, str]:
        """The frame of an answer, or what is wrong with it; (None, "") for one that came late."""
        try:
            frame = decode(answer)
        except MessageError as error:
            return None, str(error)
        if frame.kind == "refused" and frame.number == UNREAD:
            return None, f"client {frame.sender} could not read the message: {frame.text}"
        if frame.kind == "refused" and frame.number == request.number:
            raise RoundFailedError(f"client {frame.sender} refused: {frame.text}")
        known = self.agreement if frame.kind == "hello" else self._session
        if frame.agreement != known[:8]:
            return None, "an answer of another agreement or session"
        if wanted != "hello" and self._numbers.get(address) != frame.sender:
            return None, f"an answer in the name of client {frame.sender}"
        if frame.kind != wanted or (wanted != "hello" and frame.number != request.number):
            return None, ""
        return frame, ""

    def _missing(
        self, request: Frame, pending: set[Hashable], faults: Mapping[Hashable, str]
    ) -> str:
        who = [str(self._numbers.get(a, f"at {a}")) for a in pending]
        text = f"no answer to {request.kind} {request.number} within {self.deadline:g} s from"
        text += f" client {', '.join(sorted(who))}"
        said = sorted({faults[a] for a in pending if faults.get(a)})
        return text + (f" ({'; '.join(said)})" if said else "")


def _said(asked: Any) -> dict[str, np.ndarray]:
    """What the server broadcasts: the name of the statistic, and numbers."""
    name = asked.statistic.name
    content = {"statistic": np.frombuffer(name.encode("ascii"), np.uint8)}
    for key, value in asked.broadcast.items():
        content[key] = array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TrustModelError(f"{key} of {name} is not made of numbers: it is not sent")
    return content
