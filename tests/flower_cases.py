"""Studies, rooms and bad networks for the tests of a real federation."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from fedclust.flower import ClientRoom, ServerRoom, Study
from fedclust.flower.keys import Card, check_of, complete, draft_of
from fedclust.flower.messages import SERVER, Frame, decode, encode
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.secure_aggregation import public_key

SECRET = bytes(range(32))
N_CLIENTS = 3
ROWS = [40, 55, 70]
LLOYD: dict[str, Any] = {"n_clusters": 3, "epsilon": 2.0, "n_rounds": 3}
SUMS: dict[str, Any] = {
    "n_clusters": 2, "n_rounds": 3, "epsilon": 20.0, "delta": 1e-3, "min_size": 1,
    "training": {"model": {"kind": "LinearRegression", "n_features": 1}, "clip": 0.5},
}  # fmt: skip
TRUSTED: dict[str, Any] = {"trust": "trusted", "noise_from": "server", "receiver": "server"}
NAMES = ["north", "south", "west"]
KEYS = [bytes([i + 1] * 32) for i in range(N_CLIENTS)]
SERVERLESS: dict[str, Any] = {
    "trust": "serverless", "public_keys": [public_key(key).hex() for key in KEYS],
}  # fmt: skip
LOCAL: dict[str, Any] = {
    "trust": "local", "receiver": "server", "adjacency": "replace-one", "domain": "ball",
    "users": ROWS,
}  # fmt: skip


def study(**changes: Any) -> Study:
    """FastLloyd with three clients in teaching mode, unless told otherwise."""
    common: dict[str, Any] = {
        "run": "a run", "method": "fastlloyd", "options": LLOYD, "n_clients": N_CLIENTS,
        "n_records": sum(ROWS), "n_features": 2, "seed": 5,
    }  # fmt: skip
    return Study(**(common | changes))


def completed(agreed: Study) -> Study:
    """The same with names of the clients, and all keys."""
    draft = replace(agreed, clients=NAMES, public_keys=None)
    cards = [
        Card(name, draft_of(draft).hex(), public_key(key).hex(), f"ecdsa-sha2-nistp384 {name}=")
        for name, key in zip(NAMES, KEYS, strict=True)
    ]
    return complete(draft, cards, KEYS[0])


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
        "key": KEYS[number] if agreed.trust == "serverless" else None,
        "budget": Budget(100.0, 0.1), "bound": agreed.bound, "domain": agreed.domain,
        "labels": None if labels is None else labels[number],
    }  # fmt: skip
    own = client_rows(agreed.n_features)[number] if rows is None else rows[number]
    return ClientRoom(agreed, own, number=number, **(common | options))


def server(folder: Path, agreed: Study, transport: Any, **options: Any) -> ServerRoom:
    """A server with its journal in `folder` that is soon impatient."""
    options = {"deadline": 600.0, "patience": 0.02, "journal": folder / "server.json"} | options
    return ServerRoom(agreed, transport, **options)


def ticks() -> Callable[[], float]:
    """A clock that goes on when it is read: a deadline that no busy machine brings nearer."""
    return (float(tick) for tick in count()).__next__


class Direct:
    """Rooms in this process as a transport: each message is answered at once."""

    def __init__(self, rooms: Sequence[Any]) -> None:
        self.rooms = list(rooms)
        self.addresses = range(len(self.rooms))
        self._waiting: list[tuple[Hashable, bytes]] = []

    def send(self, address: Any, message: bytes) -> None:
        """Answered now, received later."""
        self._waiting.append((address, self.rooms[address].answer(message)))

    def receive(self, timeout: float) -> tuple[Hashable, bytes] | None:
        """The oldest answer that is waiting."""
        return self._waiting.pop(0) if self._waiting else None


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


def in_one_process(agreed: Study) -> Any:
    """The same study in one process: the in-process federation and the same run."""
    rows: Any = client_rows(agreed.n_features)
    if agreed.trust == "local":
        rows = np.concatenate(rows)
    federation = simulate(
        rows, agreed.trust, ledger=PrivacyLedger(agreed.unit, agreed.adjacency),
        **agreed.federation_options,
    )  # fmt: skip
    return agreed.follow(federation, agreed.planned(federation))


def outcome(result: Any) -> np.ndarray:
    return result.models if hasattr(result, "models") else result.centers


def results(agreed: Study, returned: Any, rooms: list[ClientRoom]) -> list[Any]:
    return [returned] if agreed.receiver == "server" else [room.result for room in rooms]


def assert_same(agreed: Study, returned: Any, rooms: list[ClientRoom]) -> None:
    """Result, rounds and ledgers are those of one process."""
    reference = in_one_process(agreed)
    for result in results(agreed, returned, rooms):
        assert np.array_equal(outcome(result), outcome(reference))
        if reference.history is not None:
            assert np.array_equal(result.history, reference.history)
    for room in rooms:
        assert room.finished
        assert room.ledger().releases == reference.ledger.releases


def one_answer_each(answers, n_releases: int = LLOYD["n_rounds"]) -> bool:
    """No pad covers two messages: all answers of a client to one release are the same."""
    seen: dict[tuple[int, int], set[bytes]] = {}
    for client, answer in answers:
        frame = decode(answer)
        if frame.kind == "answer":
            seen.setdefault((client, frame.number), set()).add(answer)
    assert len(seen) == N_CLIENTS * n_releases
    return all(len(different) == 1 for different in seen.values())


MEETING = ("hello", "session")  # kinds of messages before the first release


class Killed(Exception):
    """Stands for a kill: nothing after it runs in that process."""


class Deadly(Direct):
    """At every message the server is killed, then the client who gets it: before it, while it keeps
    the answer, or after. Once each; at every total the server is killed before it is kept, too.
    """

    def __init__(self, folder: Path, agreed: Study) -> None:
        super().__init__(open_rooms(folder, agreed))
        self.folder, self.agreed = folder, agreed
        self.n_times: Counter[Any] = Counter()
        self.answers: list[tuple[int, bytes]] = []

    def send(self, address: Any, message: bytes) -> None:
        """Twice in vain, then it arrives."""
        frame = decode(message)
        once = (frame.kind, frame.number, address)
        self.n_times[once] += 1
        if self.n_times[once] == 1:
            raise Killed
        room = self.rooms[address]
        if self.n_times[once] > 2:
            super().send(address, message)
            self.answers.append(self._waiting[-1])
            return
        when = (frame.number + address) % 3
        if when == 1:
            room.journal.save = killing
            refused = decode(room.answer(message))  # a real kill would give no answer at all
            assert refused.kind in ("refused", frame.kind)
        elif when == 2:
            self.answers.append((address, room.answer(message)))
        self.rooms[address] = open_room(self.folder, self.agreed, address)

    def run(self) -> Any:
        """As often as it takes."""
        while True:
            room = server(self.folder, self.agreed, self)
            save = room.journal.save

            def once(document: Any, save: Any = save) -> None:
                n = len(document["runs"])
                self.n_times[n] += 1
                if self.n_times[n] == 1:
                    raise Killed
                save(document)

            room.journal.save = once  # type: ignore[method-assign]
            with suppress(Killed):
                return room.run()


class Recording(Direct):
    """What each room sent, release by release."""

    def __init__(self, rooms):
        super().__init__(rooms)
        self.first: list[dict[int, list[np.ndarray]]] = [{} for _ in rooms]

    def send(self, address, message):
        super().send(address, message)
        frame = decode(self._waiting[-1][1])
        if frame.kind == "answer":
            self.first[address].setdefault(frame.number, list(frame.arrays.values()))

    @property
    def answers(self) -> list[list[np.ndarray]]:
        """By room, all arrays of all releases (an impatient server may ask twice)."""
        return [sum(by_number.values(), []) for by_number in self.first]


def killing(document: Any) -> None:
    raise Killed


def ask(room, kind: str, number: int = 0, arrays: Any = None, session: bytes | None = None):
    session = session_of_room(room) if session is None else session
    return room.answer(encode(Frame(kind, session, SERVER, number, arrays or {})))


def session_of_room(room) -> bytes:
    """Of the run that its journal holds last (32 bytes), or none."""
    runs = room.journal.read()["runs"]
    return bytes.fromhex(runs[-1]["session"]) if runs else b""


def said_hello(room) -> dict[str, np.ndarray]:
    """What the client sends for a hello: its nonce, and a check of its secret."""
    parts = {name: np.frombuffer(part, np.uint8) for name, part in room._parts.items()}
    answer = decode(ask(room, "hello", 0, parts))
    assert answer.kind == "hello", answer.text
    return dict(answer.arrays)


def met(room, own: dict[str, np.ndarray], others: int = 9) -> dict[str, np.ndarray]:
    """What a server would send back: of the other clients, nonces full of the byte `others`."""
    secret = room._secret
    every = [
        own if i == room.number else {
            "nonce": np.full(32, others, np.uint8),
            "check": np.frombuffer(
                check_of(secret, room.agreement, i, bytes([others]) * 32), np.uint8
            ),
        }
        for i in range(room.study.n_clients)
    ]  # fmt: skip
    return {f"{name}s": np.stack([one[name] for one in every]) for name in ("nonce", "check")}


def hello(room) -> None:
    """Hello and session, as with honest others."""
    answer = decode(ask(room, "session", 0, met(room, said_hello(room))))
    assert answer.kind == "session", answer.text


def refused(answer: bytes, words: str) -> None:
    frame = decode(answer)
    assert frame.kind == "refused" and words in frame.text, (frame.kind, frame.text)
