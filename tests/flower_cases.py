"""Studies, rooms and bad networks for the tests of a real federation."""

from pathlib import Path
from typing import Any

import numpy as np

from fedclust_helpers.accounting import Budget
from fedclust_helpers.flower import ClientRoom, Direct, ServerRoom, Study

SECRET = bytes(range(32))
N_CLIENTS = 3
ROWS = [40, 55, 70]
LLOYD: dict[str, Any] = {"n_clusters": 3, "epsilon": 2.0, "n_rounds": 3}


def study(**changes: Any) -> Study:
    """FastLloyd with three clients in teaching mode, unless told otherwise."""
    common: dict[str, Any] = {
        "run": "a run", "method": "fastlloyd", "options": LLOYD, "n_clients": N_CLIENTS,
        "n_records": sum(ROWS), "n_features": 2, "seed": 5,
    }  # fmt: skip
    return Study(**(common | changes))


def client_rows(n_features: int = 2) -> list[np.ndarray]:
    """Rows of each client, inside the unit ball."""
    rng = np.random.default_rng(11)
    rows = [rng.normal(0, 0.3, (n, n_features)) for n in ROWS]
    return [r / np.maximum(1.0, np.linalg.norm(r, axis=1, keepdims=True)) for r in rows]


def open_rooms(folder: Path, agreed: Study, **options: Any) -> list[ClientRoom]:
    """A room for each client, with journals in `folder`."""
    return [open_room(folder, agreed, i, **options) for i in range(N_CLIENTS)]


def open_room(folder: Path, agreed: Study, number: int, **options: Any) -> ClientRoom:
    """The room of one client; opened again on the same journal it is the same client."""
    rows = options.pop("rows", None)
    labels = options.pop("labels", None)
    common: dict[str, Any] = {
        "secret": SECRET, "journal": folder / f"client-{number}.json",
        "budget": Budget(100.0, 0.1), "bound": agreed.bound, "domain": agreed.domain,
        "labels": None if labels is None else labels[number],
    }  # fmt: skip
    own = client_rows(agreed.n_features)[number] if rows is None else rows[number]
    return ClientRoom(agreed, own, number=number, **(common | options))


def server(folder: Path, agreed: Study, transport: Any, **options: Any) -> ServerRoom:
    """A server with its journal in `folder` that is soon impatient."""
    options = {"deadline": 20.0, "patience": 0.02, "journal": folder / "server.json"} | options
    return ServerRoom(agreed, transport, **options)


class BadNetwork(Direct):
    """A transport that spoils messages of one kind, seeded, but never all of them.

    `fault` is "lost", "doubled", "late", "out of order", "cut short" or "garbled".
    """

    def __init__(self, rooms: list[ClientRoom], fault: str, seed: int) -> None:
        super().__init__(rooms)
        self.fault, self.rng = fault, np.random.default_rng(seed)
        self.kept: list[tuple[Any, bytes]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.n_spoilt = 0

    def send(self, address: Any, message: bytes) -> None:
        """Perhaps spoilt on the way there."""
        for one in self.spoilt(message):
            self.deliver(address, one)
        if self.fault == "late" and self.kept and self.rng.random() < 0.5:
            self.deliver(*self.kept.pop(0))  # an old request again, long after
        self.kept.append((address, message))

    def deliver(self, address: Any, message: bytes) -> None:
        answer = self.rooms[address].answer(message)
        self.answers.append((address, answer))
        for one in self.spoilt(answer):
            self._waiting.append((address, one))
        if self.fault == "out of order":
            self.rng.shuffle(self._waiting)  # type: ignore[arg-type]

    def spoilt(self, message: bytes) -> list[bytes]:
        if self.fault in ("late", "out of order") or self.rng.random() < 0.6:
            return [message]
        self.n_spoilt += 1
        if self.fault == "lost":
            return []
        if self.fault == "doubled":
            return [message, message]
        at = int(self.rng.integers(len(message)))
        if self.fault == "cut short":
            return [message[:at]]
        bits = bytearray(message)
        bits[0] ^= 255  # what a checksum below finds: TLS delivers no other change
        bits[at] ^= 1
        return [bytes(bits)]
