"""Flower as the transport of a `ServerRoom`; the only module that imports ``flwr``, and lazily.

Flower's own ``send_and_receive`` looks for answers every three seconds; this one every 50 ms.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from fedclust_helpers.flower.exchange import RoundFailedError
from fedclust_helpers.flower.room import write_centers
from fedclust_helpers.flower.server import ServerRoom
from fedclust_helpers.flower.study import Study

POLL = 0.05  # seconds between two looks for answers


def _flwr() -> Any:
    try:
        import flwr.app
    except ImportError:
        raise ImportError(
            "a federation over a network needs Flower: pip install 'fedclust-helpers[federation]'"
            " in an environment of its own"
        ) from None
    return flwr.app


class FlowerTransport:
    """The nodes of a Flower federation; an address is a node's number, which Flower vouches for.

    Waits up to `deadline` seconds until `n_clients` nodes are there; `RoundFailedError` if then
    more than `may_miss` are not.
    """

    def __init__(
        self, grid: Any, n_clients: int, *, deadline: float = 60.0, may_miss: int = 0
    ) -> None:
        self._flwr, self._grid = _flwr(), grid
        self._asked: dict[str, Hashable] = {}  # message -> node
        self._waiting: list[tuple[Hashable, bytes]] = []
        start = time.monotonic()
        while len(nodes := sorted(grid.get_node_ids())) < n_clients:
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

    Prints seconds and bytes of the exchanges. Where the server receives, the centres go to the file
    ``settings["result"]``.
    """
    study = Study.read(settings["study"])
    transport = FlowerTransport(
        grid, study.n_clients, deadline=float(settings["deadline"]), may_miss=study.may_miss
    )
    room = ServerRoom(
        study, transport, journal=settings["journal"], deadline=float(settings["deadline"]),
        patience=float(settings["patience"]),
    )  # fmt: skip
    print(f"agreement {room.agreement.hex()}", flush=True)
    result = room.run()
    print(f"seconds {[round(s, 2) for s in room.seconds]} bytes {room.n_bytes}", flush=True)
    if result is not None and settings["result"]:
        write_centers(Path(settings["result"]), result)
    return result
