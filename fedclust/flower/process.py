"""A client's room as a process of its own, reached through a socket of this machine only.

Flower starts a new process for every message. Ours (the folder `app`) only carries bytes: the
data, the ledger and the keys stay in this one, which has neither Flower nor the network. But Flower
gets that program from the server, so it is best run under an account that may open the socket and
no other file of the room (setting `group`). `serve` opens the room of a `room.toml` and answers
until it is told to stop; killed and started again, it goes on.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import numpy as np

from fedclust.flower.journal import JournalError, locked
from fedclust.flower.keys import ROOM_KEY, group_secret, spoken
from fedclust.flower.messages import MAX_BYTES
from fedclust.flower.records import as_model
from fedclust.flower.room import ClientRoom
from fedclust.flower.rows import read_rows, rows_of
from fedclust.flower.study import Study
from fedclust_helpers._private import tighten, write_private
from fedclust_helpers.accounting import Budget
from fedclust_helpers.federation import Plan
from fedclust_helpers.federation.plan_statement import as_text

NEEDED = ("study", "client", "rows", "journal", "budget")
OPTIONAL = ("labels", "group", "socket")
CENTERS, STATEMENT, MODEL = "centers.csv", "statement.txt", "model.json"
RESULTS = {"private_bounds": "bounds.csv", "private_summary": "summary.csv"}  # others: `CENTERS`


def read_config(path: Path | str) -> dict[str, Any]:
    """The settings of a room; names of files are relative to the folder of the file.

    Needed are study, client (its name), rows, journal and budget (epsilon and delta). There may be
    labels, group and socket. ValueError names a setting that is missing or unknown.
    """
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:  # not TOML, or not UTF-8
        raise ValueError(f"{path.name} is no TOML file: {error}") from None
    for name in NEEDED:
        if name not in found:
            raise ValueError(f"{path.name} must have the setting {name!r}")
    if unknown := sorted(found.keys() - {*NEEDED, *OPTIONAL}):
        raise ValueError(f"{path.name} has no setting {unknown[0]!r}")
    found.setdefault("socket", "room.sock")
    for name in ("study", "rows", "journal", "socket", "labels"):
        if name in found:
            found[name] = path.parent / str(found[name])
    return found | {"folder": path.parent}


def number_of(study: Study, client: str) -> int:
    """The number of a client from its name in the study."""
    if client not in (study.clients or ()):
        names = ", ".join(study.clients or ()) or "none: it is no study of `fedclust study new`"
        raise ValueError(
            f"client must be one of the clients of the study ({names}); got {client!r}"
        )
    return list(study.clients or ()).index(client)


def open_room(config: Mapping[str, Any], tell: Callable[[str], None] = print) -> ClientRoom:
    """The room of these settings; `tell` is for the eyes of this client alone."""
    study = Study.read(config["study"])
    number = number_of(study, config["client"])
    rows, said = rows_of(study, number, config["rows"])
    if said:
        tell(said.rstrip())
    labels = read_rows(config["labels"], None)[0].ravel() if "labels" in config else None
    key = tighten(config["folder"] / ROOM_KEY).read_bytes()
    return ClientRoom(
        study, rows, columns=study.columns, number=number, journal=config["journal"],
        secret=group_secret(study, number, key), key=key if study.public_keys else None,
        budget=Budget(**config["budget"]), bound=study.bound, domain=study.domain,
        labels=None if labels is None else labels.astype(np.int64),
    )  # fmt: skip


def serve(config: Mapping[str, Any], room: ClientRoom, tell: Callable[[str], None] = print) -> None:
    """Answer one message after the other; the result is written where the clients receive it.

    `JournalError` where another process has the journal or the socket, or where the result of
    another run would be taken for that of this one.
    """
    folder, socket, ended = config["folder"], config["socket"], False
    result = result_file(room.study)
    if (folder / result).exists() and not room.finished:
        raise JournalError(
            f"{result} is there before this run is finished, so it is another run's: move it and"
            f" {STATEMENT} away"
        )
    with room.journal.hold(), locked(socket), _listening(socket, config.get("group")) as listener:
        tell(f"{config['client']} is ready, and waits for the server")
        while True:
            if not ended and room.finished:
                ended = True
                tell(f"{finish(folder, room)}\nThis run is finished: Ctrl-C closes the room.")
            try:
                with listener.accept() as connection:
                    connection.send_bytes(room.answer(connection.recv_bytes(MAX_BYTES)))
                    for trouble in room.troubles():
                        tell(trouble)
            except (EOFError, OSError):  # the other side went away: it will ask again
                continue


def _listening(socket: Path, group: str | None = None) -> Listener:
    """A socket for this account alone, or for the accounts of a group too."""
    if len(os.fsencode(socket.absolute())) > 100:
        raise ValueError(
            "socket must have a path of at most 100 letters, by the rules of the operating system:"
            ' set socket = "/tmp/NAME.sock" or the like in room.toml'
        )
    socket.unlink(missing_ok=True)  # of a room that was killed
    before = os.umask(0o177)
    try:
        listener = Listener(str(socket.absolute()), family="AF_UNIX")
    finally:
        os.umask(before)
    if group is not None:
        shutil.chown(socket, group=group)
        socket.chmod(0o660)
    return listener


def finish(folder: Path, room: ClientRoom) -> str:
    """What a client is told when its run is finished; its centres are in `folder` then."""
    statement = statement_of(room.study, room.plan, room.agreement, spent(room))
    if room.result is None:
        write_private(folder / STATEMENT, statement + "\n")
        return f"the run is finished; the server has the result\n{statement}"
    return write_result(folder, room.study, room.result, statement)


def result_file(study: Study) -> str:
    """The name of the file that the result of a study is written to."""
    return RESULTS.get(study.method, CENTERS)


def statement_of(study: Study, plan: Plan, agreement: bytes, *more: tuple[str, str]) -> str:
    """The plan's statement, below which run it is of, and with `more` pairs at its end."""
    pairs = [("run", study.run), ("agreement", spoken(agreement))]
    if study.columns is not None and study.lower is not None:
        bounds = zip(study.columns, study.lower, study.upper, strict=True)
        columns = ", ".join(f"{name} ({low:g} to {high:g})" for name, low, high in bounds)
        pairs.append(("columns", f"{columns}: public bounds, as given"))
    return as_text([*pairs, *plan.statement(), *more])


def spent(room: ClientRoom) -> tuple[str, str]:
    """What this client's rows have cost, and what is left of the budget."""
    ledger = room.ledger()
    return "spent", (
        f"releases of all studies on these rows: {len(ledger.releases)}; {ledger.remaining:.1%} of"
        " the budget is left"
    )


def write_result(folder: Path, study: Study, result: Any, statement: str) -> str:
    """Write the result below the names of the columns, and the statement beside it.

    Centres or models, a line each; of bounds or a summary a line for each thing that is known of
    every column, which begins with its name. Of over-clustered Lloyd the model, too, with the copy
    of the data, as `fedclust.load` reads it. In the units of the rows, for this account alone; what
    is there already is left as it is. Returns both, to be shown.
    """
    file, (names, lines) = result_file(study), _table(study, result)
    model = as_model(study, result)

    def cells(form: str) -> list[list[str]]:
        return [names, *([*label, *(format(v, form) for v in values)] for label, values in lines)]

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells(".17g"))
    contents = {STATEMENT: statement + "\n"} | ({} if model is None else {MODEL: model + "\n"})
    for name, content in (contents | {file: text.getvalue()}).items():
        if not (folder / file).exists():
            write_private(folder / name, content)
    table = "\n".join("  ".join(f"{cell:>12}" for cell in row) for row in cells(".6g"))
    written = f"{', '.join([file, *list(contents)[1:]])} and {STATEMENT}"
    return f"{statement}\nwritten: {written} in {folder.name}\n{table}"


def _table(study: Study, result: Any) -> tuple[list[str], list[tuple[list[str], list[float]]]]:
    """Names above a result, and its lines: what a line begins with, if anything, and numbers."""
    columns = [*(study.columns or [f"x{i}" for i in range(study.n_features)])]
    if study.method in RESULTS:
        found = {"lower": result.lower, "upper": result.upper}
        if study.method == "private_summary":
            for name in ("count", "mean", "spread"):
                found |= {f"{name} {end}": v for end, v in getattr(result, name)._asdict().items()}
            for i, name in enumerate(("25 %", "50 %", "75 %")):
                found |= {f"{name} {e}": v[:, i] for e, v in result.quartiles._asdict().items()}
        return ["", *columns], [([name], values.tolist()) for name, values in found.items()]
    if hasattr(result, "models"):
        models = np.asarray(result.models)
        return [f"x{i}" for i in range(models.shape[1])], [([], own) for own in models.tolist()]
    centers = np.asarray(study.in_units(result.centers))
    return columns, [([], own) for own in centers.tolist()]
