"""`fedclust study new`, `fedclust room` and `fedclust run`: a federation in three steps.

At the server, beside study.json: the folder `server` with its certificate and key, journal, logs
and, where it receives, the result. At client NAME: the folder NAME with its keys, room.toml, a copy
of the study, and the result; NAME.card, which it sends to the first client; and, beside the rows,
the journal of what they have cost, which later studies on the same rows find there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedclust.command.prompts import study_of
from fedclust.command.saying import DONE, FAILED, REFUSED, say
from fedclust.flower import keys, link
from fedclust.flower import process as rooms
from fedclust.flower.journal import JournalError, locked
from fedclust.flower.keys import spoken
from fedclust.flower.parties import PARTIES
from fedclust.flower.room import ClientRoom
from fedclust.flower.rows import rows_of
from fedclust.flower.study import KEYS, RINGS, Study
from fedclust_helpers._private import private, write_private
from fedclust_helpers.accounting import BudgetExceededError

STUDY, SERVER, ROOM, AGREED = "study.json", "server", "room.toml", "agreed"
REFUSALS = (
    ValueError, TypeError, OSError, ImportError, JournalError, BudgetExceededError, link.LinkError,
)  # fmt: skip


def do(asked: argparse.Namespace) -> int:
    """Do one of the three; returns the exit code."""
    try:
        if asked.command != "study":
            asked.study = asked.study.absolute()  # Flower takes no other
        with _terminable():
            return {"study": new_study, "room": open_room, "run": run_study}[asked.command](asked)
    except REFUSALS as error:
        return say(error, REFUSED)
    except KeyboardInterrupt:
        return say(KeyboardInterrupt("stopped: the same command goes on from here"), FAILED)


# --- step one: the study --------------------------------------------------------------------------


def new_study(asked: argparse.Namespace) -> int:
    """Write study.json and the server's keys into a folder that has no study, and show the plan."""
    folder: Path = asked.folder
    if (folder / STUDY).exists():
        raise ValueError(f"{folder.name} holds a study already: name another folder for this one")
    study = study_of(asked)
    plan = study.planned(PARTIES[study.trust](study))  # or refused, before anything is written
    from fedclust.flower.certificates import certificates

    made = certificates(link.split(str(study.server))[0])
    document = json.loads(study.to_json()) | {"certificate": made["ca.crt"].decode("ascii")}
    (folder / SERVER).mkdir(parents=True, mode=0o700)
    for name, content in made.items():
        with open(folder / SERVER / name, "xb", opener=private) as file:
            file.write(content)
    kept = {name: value for name, value in document.items() if value is not None}
    (folder / STUDY).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"{plan}\n\nNothing is spent or sent yet. Written: {STUDY} and {SERVER}/ in {folder}.")
    print(
        f"Send {STUDY} to every client; each says:\n"
        f"    fedclust room {STUDY} --client NAME --rows rows.csv"
    )
    return DONE


# --- step two: a room -----------------------------------------------------------------------------


def open_room(asked: argparse.Namespace) -> int:
    """Make keys the first time, take the complete study when it is there, and open the room."""
    study = Study.read(asked.study)
    rooms.number_of(study, asked.client)
    folder = asked.study.parent / asked.client
    if not asked.no_node and not asked.plan:
        link.need_flower()
    known = (folder / ROOM).exists()
    if not known:
        _set_up(asked, study, folder)
    _take(study, asked.study, folder)
    if known and (asked.rows or asked.budget or asked.labels):
        raise ValueError(
            f"{asked.client}/{ROOM} has rows, labels and budget already: change them there, and"
            " leave these arguments out"
        )
    config = rooms.read_config(folder / ROOM)
    complete = _completed(Study.read(config["study"]), asked, folder)
    if complete is None:
        return DONE
    room = rooms.open_room(config)
    print(rooms.statement_of(study, room.plan, room.agreement, rooms.spent(room)))
    if asked.plan:
        return DONE
    if study.trust in RINGS and not room.finished:
        _agree(folder / AGREED, room, asked.agreed)
    return _stay(config, room, complete, asked.no_node)


def _set_up(asked: argparse.Namespace, study: Study, folder: Path) -> None:
    """Keys and settings of a new room, after its rows were looked at; all of it or nothing."""
    if asked.rows is None:
        raise ValueError("--rows must name the file of rows, the first time")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder.name} is there, without a {ROOM}: it is no room, or parts of one are lost;"
            " move it away. New keys need a new card, hence a new study file"
        )
    if (study.public_keys or study.node_keys) is not None:
        raise ValueError(
            f"{asked.study.name} is complete, but {asked.client} has no keys here: put the folder"
            f" {asked.client} back, or ask for a new study"
        )
    rows = asked.rows.resolve()
    journal = rows.with_name(f"{rows.name}.journal")
    if journal.exists() and not asked.budget:
        raise ValueError(
            f"{journal.name} has what earlier studies on these rows have cost: --budget EPSILON"
            " DELTA must say what all studies together may cost, this one too"
        )
    plan = study.planned(PARTIES[study.trust](study))
    epsilon, delta = asked.budget or (plan.epsilon, plan.delta)
    settings: dict[str, Any] = {
        "study": STUDY, "client": asked.client, "rows": str(rows),
        "journal": str(journal),
    }  # fmt: skip
    if asked.labels is not None:
        settings["labels"] = str(asked.labels.resolve())
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    # or refused, before there are keys
    _, said = rows_of(study, rooms.number_of(study, asked.client), asked.rows)
    if said:
        print(said, end="")
    folder.mkdir(mode=0o700, exist_ok=True)
    holds = dict(plan.statement()).get("holds", "")
    card = keys.make_keys(folder, study, asked.client, holds=holds)
    keys.write_card(folder.parent / f"{asked.client}.card", card)
    write_private(folder / STUDY, study.to_json())
    write_private(
        folder / ROOM,
        f'{text}# group = "carriers"   # of the account of the SuperNode, where it has its own\n'
        f"[budget]  # of all studies on these rows\nepsilon = {epsilon!r}\ndelta = {delta!r}\n",
    )


def _take(study: Study, path: Path, folder: Path) -> None:
    """Keep the study that came, unless it is another one than this room made keys for."""
    kept = Study.read(folder / STUDY)
    if differ := [
        f.name for f in fields(Study)
        if f.name not in KEYS and getattr(kept, f.name) != getattr(study, f.name)
    ]:  # fmt: skip
        raise ValueError(
            f"{path.name} is not the one that {folder.name} made its keys for: {', '.join(differ)}"
            f" differ. Put {folder.name}/{STUDY} back; a second study goes into a folder of its"
            " own, with the same --rows"
        )
    came = [getattr(study, name) for name in KEYS]
    had = [getattr(kept, name) for name in KEYS]
    if came == had or came == [None] * len(came):
        return
    if had != [None] * len(had):
        raise ValueError(
            f"{path.name} has other keys of clients than {folder.name}/{STUDY}: ask the first"
            " client which is right; a new exchange of keys needs new rooms"
        )
    write_private(folder / STUDY, study.to_json())


def _completed(study: Study, asked: argparse.Namespace, folder: Path) -> Study | None:
    """The study with all keys; None while this client has to wait for it, and is told so."""
    names, place = list(study.clients or ()), asked.study.parent
    if study.node_keys is not None:
        return study
    if asked.client != names[0]:
        print(
            f"The room has its keys. Send {asked.client}.card to {names[0]}, and put the {STUDY}"
            " that comes back in place of this one; then:"
            f" fedclust room {STUDY} --client {asked.client}"
        )
        return None
    paths = {name: place / f"{name}.card" for name in names}
    if missing := [path.name for path in paths.values() if not path.exists()]:
        print(
            f"The room has its keys. Put the cards of the others here ({', '.join(missing)}); then:"
            f" fedclust room {STUDY} --client {asked.client}"
        )
        return None
    made = [keys.read_card(path) for path in paths.values()]
    key = (folder / keys.ROOM_KEY).read_bytes()
    complete = keys.complete(study, made, key)
    write_private(folder / STUDY, complete.to_json())
    shown = {
        name: value for name, value in json.loads(complete.to_json()).items() if value is not None
    }
    asked.study.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    print(f"All keys are in {STUDY} now: send it back to every client, and to the server.")
    return complete


def _agree(path: Path, room: ClientRoom, given: list[str] | None) -> None:
    """Nobody but people who talk to each other can tell whether keys were swapped on their way."""
    own = spoken(room.agreement)
    if path.exists() and path.read_text(encoding="utf-8").strip() == own:
        return
    if given is None and sys.stdin.isatty():
        print(
            "Read the agreement to the other clients, by telephone. Whoever swapped keys on their"
            " way can read your messages, and only this comparison shows it."
        )
        said = input("Do all of them read the same? [yes/no] ").strip().lower()
        given = own.split() if said == "yes" else []
    if given is None or " ".join(given).split() != own.split():
        raise ValueError(
            "the agreement is not what the others read, or nobody compared it: the room stays shut."
            f" It is {own}; say --agreed and what the others read"
        )
    write_private(path, own + "\n")


def tell(text: str) -> None:
    """To the screen, now."""
    print(text, flush=True)


def _stay(config: dict[str, Any], room: ClientRoom, study: Study, no_node: bool) -> int:
    """Answer until Ctrl-C (or TERM), with Flower's SuperNode beside; it ends with the room."""
    folder = config["folder"]
    node = link.KeptUp(lambda: link.start_node(folder, study, config["socket"]), tell)
    reaching = link.Reaching(folder, study, tell)
    if no_node and study.server is not None:
        line = link.node_arguments(folder, study, config["socket"])
        tell(f"the other account starts\n    {shlex.join(['flower-supernode', *line])}")
        tell(f"with copies of its own of ca.crt and {keys.NODE_KEY}")

    def opened(text: str) -> None:
        tell(text)
        if not no_node and not node.ident:
            node.start()
            reaching.start()

    try:
        rooms.serve(config, room, opened)
    except KeyboardInterrupt:
        if not room.finished:
            raise
    finally:
        reaching.stop()
        node.stop()
    return DONE


# --- step three: the run --------------------------------------------------------------------------


def run_study(asked: argparse.Namespace) -> int:
    """Start the server, run the study, and show result and statement."""
    study = Study.read(asked.study)
    folder = asked.study.parent / SERVER
    link.need_flower()
    if not (folder / "server.key").exists():
        raise ValueError(
            f"{SERVER}/server.key is not beside {asked.study.name}: run where `fedclust study new`"
            " wrote it, or copy that folder"
        )
    if study.node_keys is None:
        first = (study.clients or ("the first client",))[0]
        raise ValueError(
            f"{asked.study.name} is a draft: {first} completes it with the keys of all clients, and"
            " sends it back"
        )
    with locked(folder / "run"), link.super_link(folder, study) as started:
        print(f"the server is up; waiting for {', '.join(study.clients or ())}", flush=True)
        try:
            text = link.run_study(
                folder, asked.study, started, tell,
                wait=asked.wait, deadline=asked.deadline, patience=asked.deadline / 2,
            )  # fmt: skip
        except link.LinkError as error:
            return say(error, FAILED)
    print(text)
    return DONE


@contextmanager
def _terminable() -> Iterator[None]:
    """TERM, too, ends with all that was started."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
