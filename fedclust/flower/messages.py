"""Messages of a real federation as bytes: a short header, and arrays of known kinds and shapes.

A message is read by a party that does not trust its sender. Nothing in it is code or an object:
`decode` takes numbers only, checks every length before it uses it, and raises `MessageError` for
whatever is not exactly one message. Little-endian throughout::

    2 bytes   "f" and the version of this format
    1 byte    kind
    8 bytes   the first bytes of the agreement, or of the session once it is known (`agreement`)
    2 bytes   sender: the number of a client, or `SERVER`
    2 bytes   number of the release, from 0
    1 byte    how many arrays follow, each: length of its name (1) and name, kind of its numbers
              (1), dimensions (1), sizes (4 each), numbers
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

VERSION = 3
SERVER = 2**16 - 1
UNREAD = 2**16 - 1  # number in the answer to a message that could not be read
HEADER = struct.Struct("<2sB8sHHB")
MAX_BYTES = 2**28  # of one message
MAX_DIMENSIONS = 8
KINDS = (
    "hello", "session", "roll", "here", "release", "total", "finish", "answer", "refused", "done",
)  # fmt: skip
NUMBERS = ("<f8", "<i8", "<u8", "<u4", "|b1", "|u1")


class MessageError(ValueError):
    """These bytes are not one message of this format."""


class RefusedError(ValueError):
    """A request that a client does not answer; the text is all that the server learns."""


@dataclass(frozen=True)
class Frame:
    """One message: `kind` of `KINDS`, from `sender`, about release `number`.

    `arrays` are named where the receiver knows them by name, else "0", "1", ... in order.
    """

    kind: str
    agreement: bytes
    sender: int
    number: int = 0
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The words of a message that carries a text."""
        letters = self.arrays.get("text", np.zeros(0, np.uint8))
        return letters.tobytes().decode("ascii", "replace")


def encode(frame: Frame) -> bytes:
    """The bytes of a message; numbers of other kinds raise TypeError."""
    kind = KINDS.index(frame.kind)
    about = frame.agreement[:8], frame.sender, frame.number, len(frame.arrays)
    out = [HEADER.pack(b"f%c" % VERSION, kind, *about)]
    for i, (name, value) in enumerate(frame.arrays.items()):
        array = np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in NUMBERS:
            raise TypeError(f"{name} must be an array of numbers, got {array.dtype.name} values")
        label = b"" if name == str(i) else name.encode("ascii")
        form = len(label), label, NUMBERS.index(array.dtype.str), array.ndim, *array.shape
        out += [struct.pack(f"<B{len(label)}sBB{array.ndim}I", *form), array.tobytes()]
    return b"".join(out)


def decode(message: bytes) -> Frame:
    """The message of these bytes, or `MessageError`; the arrays are read-only views."""
    if not isinstance(message, bytes):
        raise TypeError(f"message must be bytes, got {type(message).__name__}")
    if not HEADER.size <= len(message) <= MAX_BYTES:
        raise MessageError(f"message must be {HEADER.size} to {MAX_BYTES} bytes: {len(message)}")
    version, kind, agreement, sender, number, n_arrays = HEADER.unpack_from(message)
    if version != b"f%c" % VERSION:
        raise MessageError(f"message is not of version {VERSION} of this format")
    if kind >= len(KINDS):
        raise MessageError("message is of no known kind")
    at, arrays = HEADER.size, {}
    for i in range(n_arrays):
        try:
            name, array, at = _read(message, at)
        except (struct.error, UnicodeDecodeError):
            raise MessageError("message is cut short or garbled") from None
        if name == str(i) or (name or str(i)) in arrays:  # one form for each message
            raise MessageError("message names an array twice")
        arrays[name or str(i)] = array
    if at != len(message):
        raise MessageError("message is longer than it says")
    return Frame(KINDS[kind], agreement, sender, number, arrays)


def _read(message: bytes, at: int) -> tuple[str, np.ndarray, int]:
    """One array from position `at`, and where the next one starts."""
    (length,) = struct.unpack_from("<B", message, at)
    label, kind, n_dimensions = struct.unpack_from(f"<{length}sBB", message, at + 1)
    if kind >= len(NUMBERS) or n_dimensions > MAX_DIMENSIONS:
        raise MessageError("message holds numbers of no known kind")
    at += 3 + length
    shape = struct.unpack_from(f"<{n_dimensions}I", message, at)
    at += 4 * n_dimensions
    dtype = np.dtype(NUMBERS[kind])
    n_bytes = math.prod(shape) * dtype.itemsize  # Python integers: no overflow
    if at + n_bytes > len(message) or math.prod(max(n, 1) for n in shape) > MAX_BYTES:
        raise MessageError("message is cut short or garbled")
    array = np.frombuffer(message, dtype, math.prod(shape), at).reshape(shape)
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise MessageError("message holds truth values that are neither")
    return label.decode("ascii"), array, at + n_bytes


def numbered(arrays: Any) -> dict[str, np.ndarray]:
    """Arrays without names, in order."""
    return {str(i): array for i, array in enumerate(arrays)}


def words(text: str) -> dict[str, np.ndarray]:
    """A short text as the content of a message."""
    letters = text.encode("ascii", "replace")[:400]
    return {"text": np.frombuffer(letters, np.uint8)}


def named(who: Sequence[int] | None, n_clients: int) -> dict[str, np.ndarray]:
    """A set of clients (None: all of them) as the content of a message."""
    there = np.isin(np.arange(n_clients), who) if who is not None else np.ones(n_clients, bool)
    return {"set": there}


def are_words(arrays: Mapping[str, np.ndarray], bits: int, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether these are words of a ring in the shapes that were sent, in their order."""
    wanted = [(str(i), f"<u{bits // 8}", list(shape)) for i, shape in enumerate(shapes)]
    return [(name, a.dtype.str, list(a.shape)) for name, a in arrays.items()] == wanted


# --- one request to many clients ------------------------------------------------------------------

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
    what went "again": more than once. `seconds` are those of each exchange. `say` hears once in an
    exchange, after `patience`, whose answers are late.
    """

    def __init__(
        self, transport: Transport, *, deadline: float, patience: float,
        clock: Callable[[], float], say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.transport, self._clock, self._say = transport, clock, say
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
        asked, late = set[Hashable](), None
        others = None  # when all others had answered
        while due:
            now, until = self._clock(), end
            if len(due) <= fewer and due.keys() <= self._silent:
                others = now if others is None else others
                until = min(end, others + others - start)
            some = [a for a, when in due.items() if when <= now <= end]
            if late is None and now - start >= self.patience and asked.intersection(some):
                late = self._named(due)
                self._say(f"no answer yet from {late}: asked again")
            for address in some:
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
        text = f"no answer to {request.kind} {request.number} within {self.deadline:g} s from"
        text += f" {self._named(pending)}"
        said = sorted({faults[a] for a in pending if faults.get(a)})
        text += f" ({'; '.join(said)})" if said else ""
        return f"{text}: run again when all rooms are open"

    def _named(self, some: Iterable[Hashable]) -> str:
        who = sorted(str(self.numbers.get(a, f"at {a}")) for a in some)
        return f"client {', '.join(who)}"


def by_name(text: str, names: Mapping[str, str]) -> str:
    """A text with clients by their names, for "client 0", "clients [0, 2]" or "client at 17".

    >>> by_name("client 1 refused: too few clients", {"1": "south"})
    'south refused: too few clients'
    """

    def known(found: re.Match[str]) -> str:
        some = found[1].split(", ")
        return ", ".join(names[each] for each in some) if names.keys() >= {*some} else found[0]

    one = r"(?:at )?\d+"
    return re.sub(rf"\bclients? \[?({one}(?:, {one})*)\]?", known, text)
