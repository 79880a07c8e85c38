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
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    out = [
        HEADER.pack(
            b"f%c" % VERSION,
            kind,
            frame.agreement[:8],
            frame.sender,
            frame.number,
            len(frame.arrays),
        )  # fmt: skip
    ]
    for i, (name, value) in enumerate(frame.arrays.items()):
        array = np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in NUMBERS:
            raise TypeError(f"{name} must be an array of numbers, got {array.dtype.name} values")
        label = b"" if name == str(i) else name.encode("ascii")
        out.append(
            struct.pack(
                f"<B{len(label)}sBB{array.ndim}I",
                len(label),
                label,
                NUMBERS.index(array.dtype.str),
                array.ndim,
                *array.shape,
            )  # fmt: skip
        )
        out.append(array.tobytes())
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


def plain(array: np.ndarray) -> Any:
    """One number as a number, arrays as they are."""
    return array.item() if array.ndim == 0 else array


def are_words(arrays: Mapping[str, np.ndarray], bits: int, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether these are words of a ring in the shapes that were sent, in their order."""
    wanted = [(str(i), f"<u{bits // 8}", list(shape)) for i, shape in enumerate(shapes)]
    return [(name, a.dtype.str, list(a.shape)) for name, a in arrays.items()] == wanted
