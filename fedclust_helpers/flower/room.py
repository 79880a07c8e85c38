"""A client's room as a process of its own, reached through a socket of this machine only.

Flower starts a new process for every message. Ours (tools/federation/app) only carries bytes: the
data, the ledger and the keys stay in this one, which has neither Flower nor the network. But Flower
gets that program from the server, so it is to run under an account that may open the socket and no
other file of the room (setting `group`). `serve` opens the room of a configuration file and answers
until it is told to stop; killed and started again, it goes on.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tomllib
from collections.abc import Mapping
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import numpy as np

from fedclust_helpers._private import tighten, write_private
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Budget
from fedclust_helpers.flower.client import ClientRoom
from fedclust_helpers.flower.journal import JournalError, locked
from fedclust_helpers.flower.messages import MAX_BYTES
from fedclust_helpers.flower.study import Study

NEEDED = ("study", "rows", "number", "journal", "bound", "budget", "socket")
OPTIONAL = ("secret", "key", "domain", "labels", "result", "group")


def read_config(path: Path | str) -> dict[str, Any]:
    """The settings of a room; names of files are relative to the folder of the configuration.

    Needed are study, rows, number, journal, bound, budget (with epsilon and delta) and socket.
    There may be secret, key, domain, labels, result and group. What each is stands in
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
    columns, rows = _table(config["rows"])
    labels = _table(config["labels"])[1].ravel().astype(np.int64) if "labels" in config else None
    secret, key = (
        tighten(config[name]).read_bytes() if name in config else None for name in ("secret", "key")
    )
    return ClientRoom(
        Study.read(config["study"]), rows, columns=columns, number=config["number"],
        journal=config["journal"], secret=secret, key=key, budget=Budget(**config["budget"]),
        bound=config["bound"], domain=config.get("domain", "box"), labels=labels,
    )  # fmt: skip


def serve(config: Mapping[str, Any]) -> None:
    """Answer one message after the other; the result is written where the clients receive it.

    `JournalError` where another process has the journal or the socket, or where the result of
    another run would be taken for that of this one.
    """
    room, socket, result = open_room(config), config["socket"], config.get("result")
    if result is not None and result.exists() and not room.finished:
        raise JournalError(f"{result.name} is there before the run is finished: name another file")
    group = config.get("group")
    with room.journal.hold(), locked(socket), _listening(socket, group) as listener:
        print(f"client {room.number} is ready\n{room.plan}\n{room.said()}", flush=True)
        while True:
            try:
                with listener.accept() as connection:
                    connection.send_bytes(room.answer(connection.recv_bytes(MAX_BYTES)))
            except (EOFError, OSError):  # the other side went away: it will ask again
                continue
            write_result(room, result)


def _listening(socket: Path, group: str | None = None) -> Listener:
    """A socket for this account alone, or for the accounts of a group too."""
    socket.unlink(missing_ok=True)  # of a room that was killed
    before = os.umask(0o177)
    try:
        listener = Listener(str(socket), family="AF_UNIX")
    finally:
        os.umask(before)
    if group is not None:
        shutil.chown(socket, group=group)
        socket.chmod(0o660)
    return listener


def write_result(room: ClientRoom, path: Path | None) -> None:
    """Keep the centres (or models) of a finished run, which this client computed for itself."""
    if path is not None and not path.exists() and room.finished:
        result = room.result
        if result is not None:
            write_centers(path, result)


def write_centers(path: Path, result: Any) -> None:
    """The centres (or models; or both bounds) of a result as CSV, for this account alone."""
    text = io.StringIO()
    centers: Any = getattr(result, "centers", getattr(result, "models", None))
    if centers is None:
        centers = np.stack([result.lower, result.upper])
    np.savetxt(text, centers, delimiter=",", fmt="%.17g")
    write_private(path, text.getvalue())


def _table(path: Path) -> tuple[list[str] | None, FloatArray]:
    """Names of the columns and rows of numbers, from a .csv; of an .npy, no names."""
    if path.suffix == ".npy":
        return None, np.load(path, allow_pickle=False)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        names = [name.strip() for name in next(csv.reader(lines), [])]
        if names:
            names[0] = names[0].removeprefix("# ")  # as np.savetxt writes it
        return names, np.loadtxt(lines, delimiter=",", ndmin=2)
