"""A client's room as a process of its own, reached through a socket of this machine only.

Flower starts a new process for every message. That process only carries bytes (see
scripts/federation/app): the data, the ledger and the keys stay in this one, which has neither
Flower nor the network. `serve` opens the room of a configuration file and answers until it is
told to stop; killed and started again, it goes on.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Budget
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.flower.client import ClientRoom
from fedclust_helpers.flower.messages import MAX_BYTES
from fedclust_helpers.flower.study import Study

NEEDED = ("study", "rows", "number", "journal", "bound", "budget", "socket")
OPTIONAL = ("secret", "key", "domain", "labels", "lower", "upper", "result")


def read_config(path: Path | str) -> dict[str, Any]:
    """The settings of a room; names of files are relative to the folder of the configuration.

    Needed are study, rows, number, journal, bound, budget (with epsilon and delta) and socket.
    There may be secret, key, domain, labels, lower, upper and result. What each is stands in
    docs/deployment.md. ValueError names the settings that are missing or unknown.
    """
    path = Path(path)
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    missing = [name for name in NEEDED if name not in found]
    unknown = sorted(found.keys() - {*NEEDED, *OPTIONAL})
    if missing or unknown:
        raise ValueError(f"{path.name} must name {missing or 'no more'}; unknown: {unknown or '-'}")
    for name in ("study", "rows", "secret", "key", "journal", "socket", "labels", "result"):
        if name in found:
            found[name] = path.parent / found[name]
    return found


def open_room(config: Mapping[str, Any]) -> ClientRoom:
    """The room of these settings."""
    study, rows = Study.read(config["study"]), _table(config["rows"])
    if "lower" in config or "upper" in config:
        missing = [name for name in ("lower", "upper") if name not in config]
        if missing:
            raise ValueError(f"{missing[0]} must be given too: both public bounds, or none")
        rows = scale_to_box(rows, config["lower"], config["upper"])
        if study.trust == "local":  # the whole box fits into the unit ball, as for LocalKMeans
            rows = rows * (1 / np.sqrt(study.n_features))
    labels = _table(config["labels"]).ravel().astype(np.int64) if "labels" in config else None
    return ClientRoom(
        study, rows, number=config["number"], journal=config["journal"],
        secret=config["secret"].read_bytes() if "secret" in config else None,
        key=config["key"].read_bytes() if "key" in config else None,
        budget=Budget(**config["budget"]), bound=config["bound"],
        domain=config.get("domain", "box"), labels=labels,
    )  # fmt: skip


def serve(config: Mapping[str, Any]) -> None:
    """Answer one message after the other; the result is written where the clients receive it."""
    room, socket = open_room(config), config["socket"]
    socket.unlink(missing_ok=True)
    before = os.umask(0o177)  # the socket is for this account alone
    try:
        listener = Listener(str(socket), family="AF_UNIX")
    finally:
        os.umask(before)
    with listener:
        print(f"client {room.number} is ready, agreement {room.agreement.hex()}", flush=True)
        print(room.plan, flush=True)
        while True:
            try:
                with listener.accept() as connection:
                    connection.send_bytes(room.answer(connection.recv_bytes(MAX_BYTES)))
            except (EOFError, OSError):  # the other side went away: it will ask again
                continue
            write_result(room, config.get("result"))


def write_result(room: ClientRoom, path: Path | None) -> None:
    """Keep the centres (or models) of a finished run, which this client computed for itself."""
    if path is not None and not path.exists() and room.finished:
        result = room.result
        if result is not None:
            centers: Any = getattr(result, "centers", getattr(result, "models", None))
            np.savetxt(path, centers, delimiter=",", fmt="%.17g")


def _table(path: Path) -> FloatArray:
    """Rows of numbers from .npy, or from a .csv with one line of names."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
