"""The record of everything that crossed the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedclust_helpers._lazy import pd


@dataclass(frozen=True)
class Message:
    """One message, or `count` messages of the same form (one for each client).

    `n_bytes` is the size of one message as encoded on the wire. `count` is a public number: of
    clients who are drawn in secret, how many are expected. `payload` is kept on request: for
    messages of all clients it has one row per client.
    """

    round: int
    sender: str
    receiver: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int
    count: int = 1
    payload: Any = None


@dataclass
class Transcript:
    """Everything that crossed the wire: a record for the reader, not part of what is released.

    It counts clients as the plan does, so that it does not tell how many of a hidden cohort took
    part; payloads, which are kept on request, do.

    >>> import numpy as np
    >>> from fedclust_helpers.client_statistics import TOTAL
    >>> from fedclust_helpers.federation import simulate
    >>> from fedclust_helpers.mechanisms import Gaussian
    >>> federation = simulate([np.ones((5, 1)), np.ones((3, 1))], "trusted", seed=0)
    >>> sums = federation.noisy_sum(TOTAL, [Gaussian(1.0, 0.5)], round=0)
    >>> [message.receiver for message in federation.transcript.messages]
    ['server']
    """

    keep_payloads: bool = False
    messages: list[Message] = field(default_factory=list)

    def record(
        self,
        round: int,
        sender: str,
        receiver: str,
        name: str,
        array: np.ndarray | np.generic | bytes,
        *,
        count: int = 1,
        payload: Any = None,
    ) -> None:
        """Add a message with the encoded form `array` (of one message; bytes become uint8)."""
        if isinstance(array, bytes):
            array = np.frombuffer(array, dtype=np.uint8)
        kept = (array if payload is None else payload) if self.keep_payloads else None
        self.messages.append(
            Message(
                round, sender, receiver, name, tuple(array.shape), str(array.dtype),
                int(array.nbytes), count, kept,
            )
        )  # fmt: skip

    def view(self, party: str) -> list[Message]:
        """The messages that `party` received: "server", "clients" or "client 3"."""
        names = {party} | ({"clients"} if party.startswith("client ") else set())
        return [m for m in self.messages if m.receiver in names]

    def n_bytes(self, *, round: int | None = None) -> int:
        """Total bytes on the wire, of one round or of all."""
        chosen = [m for m in self.messages if round is None or m.round == round]
        return sum(m.n_bytes * m.count for m in chosen)

    def to_frame(self) -> Any:
        """The transcript as a pandas table."""
        columns = ["round", "sender", "receiver", "name", "shape", "dtype", "n_bytes", "count"]
        return pd.DataFrame(
            [{c: getattr(m, c) for c in columns} for m in self.messages], columns=columns
        )
