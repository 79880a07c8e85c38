"""One request to many clients, and their answers: repeated, checked, and awaited for a while."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from fedclust.flower.messages import UNREAD, Frame, MessageError, decode, encode

Wrong = Callable[[Frame], str]  # what is wrong with an answer, in words; "" if nothing is


class Transport(Protocol):
    """Carries bytes to addresses, and brings answers with the address that they came from.

    The address of an answer is authenticated by the transport; messages may be lost or doubled.
    """

    @property
    def addresses(self) -> Sequence[Hashable]:
        """One for each client, in any order."""

    def send(self, address: Hashable, message: bytes) -> None:
        """One message on its way."""

    def receive(self, timeout: float) -> tuple[Hashable, bytes] | None:
        """The next answer, or None after `timeout` seconds."""


class RoundFailedError(RuntimeError):
    """A client refused, or did not answer in time; the text says which, and what it said."""


class Exchange:
    """A server's messages: it asks, repeats what is lost, and notes who does not answer.

    `numbers` are the clients by their addresses, once these are known, `known` the agreements or
    sessions that answers may belong to. `n_bytes` counts what was "sent" and "received", and of it
    what went "again": more than once. `seconds` are those of each exchange.
    """

    def __init__(
        self, transport: Transport, *, deadline: float, patience: float,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.transport, self._clock = transport, clock
        self.deadline, self.patience = deadline, patience
        self.n_bytes = {"sent": 0, "received": 0, "again": 0}
        self.seconds: list[float] = []
        self.numbers: dict[Hashable, int] = {}
        self.known: dict[str, bytes] = {}
        self._silent: set[Hashable] = set()  # did not answer last time, and sent nothing since

    def __call__(
        self, request: Frame, wanted: str, check: Wrong = lambda frame: "", *,
        to: Iterable[Hashable] | None = None, fewer: int = 0,
    ) -> dict[Hashable, Frame]:  # fmt: skip
        """Send one request to all, or `to` some, and wait for the `wanted` answer of each.

        `fewer` of them may stay silent: they are waited for up to the deadline; where they were
        silent before, as long again as all others took. `RoundFailedError` if more are silent, or
        one refuses.
        """
        message, start = encode(request), self._clock()
        end, replies, faults = start + self.deadline, {}, dict[Hashable, str]()
        due = dict.fromkeys(self.transport.addresses if to is None else to, start)
        asked: set[Hashable] = set()
        others = None  # when all others had answered
        while due:
            now, until = self._clock(), end
            if len(due) <= fewer and due.keys() <= self._silent:
                others = now if others is None else others
                until = min(end, others + others - start)
            for address in [a for a, when in due.items() if when <= now <= end]:
                self._count("sent", message, again=address in asked)
                asked.add(address)
                self.transport.send(address, message)
                due[address] = now + self.patience
            got = self.transport.receive(max(0.0, min(until, *due.values()) - now))
            if got is None:
                if now > until:  # and nothing is waiting any more
                    break
                continue
            address, answer = got
            self._silent.discard(address)
            frame, fault = self._read(address, answer, request, wanted)
            fault = fault or (check(frame) if frame else "")
            fresh = frame is not None and not fault and address in due
            self._count("received", answer, again=not fresh)
            if fresh and frame is not None:
                del due[address]
                replies[address] = frame
            elif fault and address in due:
                faults[address] = fault
                due[address] = min(due[address], self._clock() + self.patience / 10)
        if len(due) > fewer:
            raise RoundFailedError(self._missing(request, set(due), faults))
        self._silent |= due.keys()
        self.seconds.append(self._clock() - start)
        return replies

    def _count(self, way: str, message: bytes, *, again: bool) -> None:
        self.n_bytes[way] += len(message)
        self.n_bytes["again"] += len(message) * again

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
        known = self.known["agreement" if frame.kind == "hello" else "session"]
        if frame.agreement != known[:8]:
            return None, "an answer of another agreement or session"
        if wanted != "hello" and self.numbers.get(address) != frame.sender:
            return None, f"an answer in the name of client {frame.sender}"
        of_this = wanted == "hello" or frame.number == request.number
        if wanted == "here":  # the same roll: an earlier one does not say who is there now
            of_this = np.array_equal(frame.arrays.get("roll", ()), request.arrays["roll"])
        return (frame, "") if frame.kind == wanted and of_this else (None, "")

    def _missing(
        self, request: Frame, pending: set[Hashable], faults: Mapping[Hashable, str]
    ) -> str:
        who = [str(self.numbers.get(a, f"at {a}")) for a in pending]
        text = f"no answer to {request.kind} {request.number} within {self.deadline:g} s from"
        text += f" client {', '.join(sorted(who))}"
        said = sorted({faults[a] for a in pending if faults.get(a)})
        return text + (f" ({'; '.join(said)})" if said else "")
