"""Flower as the transport of a `ServerRoom`; the only module that imports ``flwr``, and lazily.

Flower's own ``send_and_receive`` looks for answers every three seconds; this one every 50 ms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from fedclust.flower.agreement import spoken
from fedclust.flower.exchange import RoundFailedError
from fedclust.flower.room import result_file, statement_of, write_result
from fedclust.flower.server import ServerRoom
from fedclust.flower.study import Study
from fedclust_helpers._private import private

POLL = 0.05  # seconds between two looks for answers
SAID = "said.txt"


def _flwr() -> Any:
    try:
        import flwr.app
    except ImportError:
        raise ImportError(
            "a federation over a network needs Flower: pip install '.[federation]' in the"
            " checkout, in an environment of its own"
        ) from None
    return flwr.app


class FlowerTransport:
    """The nodes of a Flower federation; an address is a node's number, which Flower vouches for.

    Waits up to `deadline` seconds until `n_clients` nodes are there; `RoundFailedError` if then
    more than `may_miss` are not.
    """

    def __init__(
        self, grid: Any, n_clients: int, *, deadline: float = 60.0, may_miss: int = 0,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self._flwr, self._grid = _flwr(), grid
        self._asked: dict[str, Hashable] = {}  # message -> node
        self._waiting: list[tuple[Hashable, bytes]] = []
        start, seen = time.monotonic(), -1
        while len(nodes := sorted(grid.get_node_ids())) < n_clients:
            if len(nodes) != seen:
                seen = len(nodes)
                say(f"{seen} of {n_clients} clients are there")
            if time.monotonic() - start > deadline:
                if len(nodes) >= n_clients - may_miss:
                    break
                raise RoundFailedError(f"{len(nodes)} of {n_clients} clients are there")
            time.sleep(POLL)
        if len(nodes) > n_clients:
            raise RoundFailedError(f"{len(nodes)} nodes are there, the study has {n_clients}")
        self.addresses: Sequence[Hashable] = nodes

    def send(self, address: Any, message: bytes) -> None:
        """Push a message; what comes back is an answer to it."""
        flwr = self._flwr
        content = flwr.RecordDict({"fedclust": flwr.ConfigRecord({"message": message})})
        pushed = self._grid.push_messages(
            [flwr.Message(content=content, message_type="query", dst_node_id=address)]
        )
        self._asked |= dict.fromkeys(pushed, address)

    def receive(self, timeout: float) -> tuple[Hashable, bytes] | None:
        """The next answer; a node's error is an empty one, and the message will be sent again."""
        end = time.monotonic() + timeout
        while True:
            if self._waiting:
                return self._waiting.pop(0)
            for reply in self._grid.pull_messages(list(self._asked)):
                node = self._asked.pop(reply.metadata.reply_to_message_id, None)
                if node is None or node != reply.metadata.src_node_id:
                    continue
                answer = b"" if reply.has_error() else reply.content["fedclust"]["message"]
                self._waiting.append((node, answer))
            if not self._waiting and time.monotonic() >= end:
                return None
            if not self._waiting:
                time.sleep(POLL)


def serve(grid: Any, settings: Any) -> Any:
    """What the ServerApp does: run the study of the file ``settings["study"]``.

    Journal and, where the server receives, centres and statement are in ``settings["folder"]``.
    What happens is written to `SAID` there, a line of JSON each, for whoever started the run:
    "say", "measured" (seconds and bytes of the exchanges), and at the end "done" or "failed" with
    what to show.
    """
    folder = Path(settings["folder"])
    with open(folder / SAID, "a", encoding="utf-8", opener=private) as file:

        def say(text: str, kind: str = "say") -> None:
            file.write(json.dumps({kind: text}) + "\n")
            file.flush()

        try:
            study = Study.read(settings["study"])
            result, text = _run(grid, study, folder, settings, say)
        except Exception as error:
            names = ", ".join(f"client {i} is {name}" for i, name in enumerate(_names(settings)))
            say(f"{error}" + (f" ({names})" if names else ""), "failed")
            raise
        say(text, "done")
        return result


def _run(
    grid: Any, study: Study, folder: Path, settings: Any, say: Callable[..., None]
) -> tuple[Any, str]:
    wait = float(settings["wait"])
    transport = FlowerTransport(
        grid, study.n_clients, deadline=wait, may_miss=study.may_miss, say=say
    )
    room = ServerRoom(
        study, transport, journal=folder / "journal.json", deadline=float(settings["deadline"]),
        patience=float(settings["patience"]),
    )  # fmt: skip
    n = len(transport.addresses)
    say(f"{n} of {study.n_clients} clients are there; agreement {spoken(room.agreement)}")
    result = room.run(lambda done, total: say(f"release {done} of {total}"))
    say(f"seconds {[round(s, 2) for s in room.seconds]} bytes {room.n_bytes}", "measured")
    statement = statement_of(study, room.plan, room.agreement)
    if result is None:
        where = f"{result_file(study)}, in the folder of each client's room"
        return None, f"{statement}\nresult        {where}"
    return result, write_result(folder, study, result, statement)


def _names(settings: Any) -> Sequence[str]:
    try:
        return Study.read(settings["study"]).clients or ()
    except (OSError, ValueError, TypeError):
        return ()
