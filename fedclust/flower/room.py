"""A client's side: the room where its data stay. It trusts nobody who sends it a message.

`ClientRoom.answer` takes bytes and gives bytes; how they travel is not its business. Whatever a
request says, a client

* takes part only in the study that its own operator gave it, with its own plan of it, and in one
  session of it, which its own fresh nonce is part of;
* makes the releases of the plan in order, each once for a set of clients that it is in, of
  statistics that it knows by name, with the noise of the plan, which must hide what one record can
  change for *this* request; a second set only where the plan reserves a repeat;
* charges its own ledger, within its own budget, and keeps the charge on disk before it answers;
* gives the same bytes to a request that is repeated, and none to another one in its place;
* refuses in one sentence made of public numbers: an error tells nothing about its rows.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust.flower import turns
from fedclust.flower.agreement import (
    NONCE_BYTES,
    RefusedError,
    agreement_of,
    check_of,
    compare,
    parts_of,
    session_for,
)
from fedclust.flower.journal import (
    Journal,
    JournalError,
    charged,
    entry,
    packed,
    unpacked,
)
from fedclust.flower.messages import (
    UNREAD,
    Frame,
    MessageError,
    are_words,
    decode,
    encode,
    numbered,
    plain,
    words,
)
from fedclust.flower.seats import SEATS, Asked, Client, Seat
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._checked import checked
from fedclust_helpers._state import SingleUse
from fedclust_helpers._validation import (
    as_integers,
    as_points,
    check_choice,
    check_instance,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger
from fedclust_helpers.client_statistics import STATISTICS
from fedclust_helpers.federation.plan import PlannedRelease
from fedclust_helpers.secure_aggregation import SECRET_BYTES, public_key, secret_check

log = logging.getLogger(__name__)


@checked
class ClientRoom(SingleUse):
    """One client: its rows, its secret, its ledger on disk, and the study that it agreed to.

    Parameters
    ----------
    study : Study
        From the client's own file.
    rows : array_like of shape (n, d)
        In the units of `lower` and `upper` of the study, if it has them, else in those of `bound`.
    number : int
        Which of the clients this is, from 0.
    secret : bytes, optional
        The group secret (32 bytes), which the clients share and the server must not have; masked
        and serverless only.
    key : bytes, optional
        This client's private key (32 bytes), serverless only: its public key is in the study.
    journal : path
        The file that keeps charges and answers: one for a data set, for all its studies.
    budget : Budget
        What all studies on these rows may cost together, for the unit and adjacency of the study.
        The journal is for these two, and for the filter of the budget, from its first run on.
    bound : float
        Rows are cut to [-bound, bound]^d, or to this length: a study with another is refused.
    domain : {"box", "ball", "raw"}
        Which of the two, or neither: rows as they are; here, too, the client's own word counts.
    labels : array_like of int, shape (n,), optional
        The class of each row, for models.
    columns : sequence of str, optional
        Names of the columns of `rows`, where they have them: those of the study, in its order.

    Raises
    ------
    ValueError, TypeError
        For a study that does not fit this client: nothing was sent or charged.
    JournalError
        For a journal that was kept for another unit, adjacency or filter, or is damaged.
    """

    advice = "a copy would answer with the same pads; make one room for each client"

    def __init__(
        self, study: Study, rows: ArrayLike, *, number: int, journal: Path | str, budget: Budget,
        bound: float, domain: str = "box", secret: bytes | None = None,
        labels: ArrayLike | None = None, key: bytes | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        if study.trust in RINGS and len(check_instance(secret, bytes, "secret")) != SECRET_BYTES:
            raise ValueError(f"secret must be {SECRET_BYTES} bytes")
        raw = study.domain == "raw"  # numbers may be missing
        points = as_points(rows, "rows", n_features=study.n_features, finite=not raw)
        if columns is not None and [*columns] != [*(study.columns or ())]:
            known = "none" if study.columns is None else [*study.columns]
            raise ValueError(f"rows must have the columns of the study, in its order: {known}")
        self._rows = study.scaled(points).copy()
        self._labels = None if labels is None else as_integers(labels, "labels").copy()
        own: dict[str, Any] = {"bound": check_positive(bound, "bound")}
        own["domain"] = check_choice(domain, "domain", ("box", "ball", "raw"))
        for name, value in own.items():
            if getattr(study, name) != value:
                raise ValueError(f"study has {name} {getattr(study, name)}, this client {value}")
        self.study, self._key, self._budget = study, key, budget
        self._secret = secret if study.trust in RINGS else None
        self.number = check_int(number, "number", minimum=0, maximum=study.n_clients - 1)
        if study.trust == "local" and len(self._rows) != len(study.users_of(number)):
            raise ValueError(
                f"rows must be those of {len(study.users_of(number))} users, got {len(self._rows)}"
            )
        if study.public_keys and public_key(key or b"").hex() != study.public_keys[number]:
            raise ValueError(f"key must be the private one of public_keys[{number}] of the study")
        self.journal = Journal(
            journal, unit=study.unit, adjacency=study.adjacency, filter=budget.filter
        )
        self.journal.read()  # or refused now
        self._lock = threading.Lock()
        self.plan = study.planned(self._seat())
        self._parts = parts_of(study, self.plan)
        self.agreement = agreement_of(self._parts)
        self._way: _Way | None = None

    def _seat(self, session: str = "") -> Seat:
        known = bytes.fromhex(session) or bytes(32)
        own = Client(self.number, known, self._secret, self._key)
        return SEATS[self.study.trust](self.study, self._rows, labels=self._labels, client=own)

    # what the operator may look at ----------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all of the run is done."""
        return bool(self._mine(self.journal.read())["finished"])

    @property
    def result(self) -> Any:
        """The run's result, where the clients receive and the run is finished; else None."""
        mine = self._mine(self.journal.read())
        if self.study.receiver == "server" or not mine["finished"]:
            return None
        self._way = self._way_to(len(self.plan.releases), mine)
        assert self._way.walk is not None
        return self._way.walk.result(charged(self._new_ledger(), [mine]))

    def ledger(self) -> PrivacyLedger:
        """All that was charged for these rows, as a ledger with this client's budget."""
        return charged(self._new_ledger(self._budget), self.journal.read()["runs"])

    def _new_ledger(self, budget: Budget | None = None) -> PrivacyLedger:
        return PrivacyLedger(self.study.unit, self.study.adjacency, budget)

    def said(self) -> str:
        """What operators read to each other: the agreement, and a check of the group secret.

        The first is that of the server too. The second is for the other clients alone.
        """
        lines = [f"agreement  {self.agreement.hex()}"]
        if self._secret is not None:
            lines.append(f"secret     {secret_check(self._secret, self.agreement)[:8].hex()}")
        return "\n".join(lines)

    # one request ----------------------------------------------------------------------------------

    def answer(self, request: bytes) -> bytes:
        """The answer to one message; never an exception, and never more than the plan says."""
        self.check_process()
        number = UNREAD
        try:
            frame = decode(request)
            number = frame.number
            with self._lock, self.journal.open() as kept:
                return self._answered(frame, hashlib.sha256(request).hexdigest(), kept)
        except (RefusedError, MessageError, BudgetExceededError) as error:
            log.warning("refused: %s", error)
            reason = str(error)
        except JournalError as error:
            log.error("%s", error)
            reason = "the client's journal is not to be had"
        except Exception:  # its text may speak of the rows: it stays here
            log.exception("a request failed")
            reason = "the client failed; its operator finds the reason in its log"
        return self._reply("refused", number, words(reason))

    def _reply(
        self, kind: str, number: int, arrays: Mapping[str, np.ndarray], session: bytes = b""
    ) -> bytes:
        return encode(Frame(kind, session or self.agreement, self.number, number, arrays))

    def _answered(self, frame: Frame, digest: str, kept: dict[str, Any]) -> bytes:
        mine = self._mine(kept)
        is_first = frame.kind == "hello" and not mine["answered"]
        if not is_first and mine["check"] != self._check(mine):
            raise RefusedError("the group secret is another one than in the hello before")
        if frame.kind == "hello":
            return self._hello(frame, kept, mine)
        if not mine["nonce"]:
            raise RefusedError("no hello came before this message")
        if frame.kind == "session":
            return self._met(frame, kept, mine)
        session = bytes.fromhex(mine["session"])
        if not session or frame.agreement != session[:8]:
            raise RefusedError("the message belongs to no session of this client")
        if frame.kind == "roll":
            return self._here(frame, kept, mine, session)
        last = mine["last"] or {"replies": {}}
        is_same = (last.get("kind"), last.get("number")) == (frame.kind, frame.number)
        if is_same and digest in last["replies"]:
            kind, arrays = last["replies"][digest]
            return self._reply(kind, frame.number, unpacked(arrays), session)
        who, content = turns.asked_of(self.study, self.number, frame, mine)
        if is_same:
            turns.check_repeat(self.study, frame, who, content, mine)
        if mine["finished"]:
            raise RefusedError("this run is finished")
        turns.check_turn(self.study, frame.number, mine)
        kind, made, way = self._next(replace(frame, arrays=content), kept, mine, who)
        before = last["replies"] if is_same else {}
        mine["last"] = {
            "kind": frame.kind, "number": frame.number, "content": packed(content),
            "replies": before | {digest: [kind, packed(made)]},
        }  # fmt: skip
        self.journal.save(kept)  # charged and kept; only now may it leave
        self._way = way
        return self._reply(kind, frame.number, made, session)

    def _hello(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> bytes:
        """Compare what was agreed; then this client's nonce of the run, and a check of a secret."""
        compare(self._parts, frame.arrays)
        if not mine["nonce"]:
            ledger = charged(self._new_ledger(self._budget), kept["runs"])
            ledger.admit(  # or refused now
                self.plan.lines(), name="the plan", repeats=self.plan.repeats()
            )
            mine["nonce"] = secrets.token_bytes(NONCE_BYTES).hex()
        mine["check"] = self._check(mine)
        self.journal.save(kept)  # the nonce is that of this run for ever
        own = {name: bytes.fromhex(mine[name]) for name in ("nonce", "check")}
        content = {name: np.frombuffer(value, np.uint8) for name, value in own.items()}
        return self._reply("hello", mine["answered"][-1][0] + 1 if mine["answered"] else 0, content)

    def _check(self, mine: Mapping[str, Any]) -> str:
        """What this client shows of its secret in the run that `mine` is kept of; "" before it."""
        nonce = bytes.fromhex(mine["nonce"])
        return check_of(self._secret, self.agreement, self.number, nonce).hex() if nonce else ""

    def _met(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> bytes:
        """Everybody's nonces and checks came back: the session follows, and is kept."""
        session, met = session_for(
            self.number, frame.arrays, n_clients=self.study.n_clients, agreement=self.agreement,
            secret=self._secret, nonce=bytes.fromhex(mine["nonce"]), may_miss=self.study.may_miss,
        )  # fmt: skip
        if (
            mine["answered"] and mine["session"] != session.hex()
        ):  # its pads are not those of before
            raise RefusedError(
                "this is another session than that of the releases before: a journal was lost or"
                " put back; start a new run"
            )
        mine["session"], mine["met"] = session.hex(), np.flatnonzero(met).tolist()
        self.journal.save(kept)
        return self._reply("session", frame.number, {}, session)

    # who takes part -------------------------------------------------------------------------------

    def _here(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any], session: bytes
    ) -> bytes:
        """The roll is called, and brings the total of the release before where clients receive.

        The answer says how many totals this client has: one that was away gets the others first.
        """
        content = dict(frame.arrays)
        called = content.pop("roll", np.zeros(0))
        if not self.study.may_miss or (called.dtype, called.shape) != (np.dtype("<i8"), ()):
            raise RefusedError("no roll is called in this study")
        number = frame.number
        if self.study.receiver == "clients":
            if number == len(mine["totals"]) + 1:
                self._take(replace(frame, arrays=content), mine)
                self.journal.save(kept)
            number = len(mine["totals"])
        return self._reply("here", number, {"roll": called}, session)

    # the run --------------------------------------------------------------------------------------

    def _next(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any], who: list[int] | None
    ) -> tuple[str, dict[str, np.ndarray], _Way | None]:
        """Kind and content of the answer to the next message of the run, and how far it is then."""
        number, clients_receive = frame.number, self.study.receiver == "clients"
        brings = clients_receive and not self.study.may_miss  # the total of the release before
        is_end = number == len(self.plan.releases)
        if frame.kind != ("finish" if is_end else "total" if brings else "release"):
            raise RefusedError(f"no {frame.kind} {number} is in the plan")
        if brings:
            self._take(frame, mine)
        elif clients_receive and frame.arrays:
            raise RefusedError("where the clients receive, a request brings its set alone")
        if is_end:
            mine["finished"] = True
            return "done", {}, self._way_to(number, mine) if clients_receive else None
        way, line = self._way_to(number, mine), self.plan.releases[number]
        if self.study.trust == "local" and frame.arrays:
            raise RefusedError("the question is that of the study: a request brings nothing")
        if way.walk is None:
            asked = self._told(frame, line, way.seat)
        else:
            asked = way.seat.checked(way.walk.request, line)
        answer: list[Any] = [number, who, []]
        mine["answered"].append(answer)
        others = [run for run in kept["runs"] if run is not mine]
        charged(self._new_ledger(self._budget), [*others, mine])  # or refused now
        content = way.seat.sent(asked, line, number, who)
        way.n_sent += 1
        answer[2] = [list(array.shape) for array in content]
        return "answer", numbered(content), way

    def _take(self, frame: Frame, mine: dict[str, Any]) -> None:
        """The clients receive: the total of the release before came back, of one of its sets."""
        content, number = dict(frame.arrays), frame.number - 1
        if number < 0:
            if content:
                raise RefusedError("a total came before the first release")
            return
        who, answers = None, [own for own in mine["answered"] if own[0] == number]
        if self.study.may_miss:
            named = turns.named_set(self.study, content.pop("set", None), mine)
            who = None if len(named) == self.study.n_clients else named
            if self.number in named and who not in [asked for _, asked, _ in answers]:
                raise RefusedError("the total is of a set that this client did not answer for")
        shapes = answers[-1][2] if answers else self._shapes(number, mine)
        if not are_words(content, self.study.bits, shapes):
            raise RefusedError("the total is not of the shape and kind that was sent")
        mine["totals"].append([packed(content), who])

    def _shapes(self, number: int, mine: Mapping[str, Any]) -> list[Any]:
        """The shapes of a release in which this client was missing."""
        self._way = way = self._way_to(number, mine)
        assert way.walk is not None
        asked = way.seat.checked(way.walk.request, self.plan.releases[number])
        return [list(shape) for shape in way.seat.shapes_of(asked.statistic, asked.broadcast)]

    def _told(self, frame: Frame, line: PlannedRelease, seat: Seat) -> Asked:
        """The server receives: it says what it asks for, and the plan says whether it may."""
        broadcast = {name: plain(value) for name, value in frame.arrays.items()}
        name = bytes(np.atleast_1d(broadcast.pop("statistic", b""))).decode("ascii", "replace")
        statistic = STATISTICS.get(name)
        if statistic is None or name != line.name:
            raise RefusedError(f"release {frame.number} is not of the statistic of the plan")
        if statistic.remembers:
            raise RefusedError(f"{name} depends on what a client remembers, which is not kept here")
        try:
            return seat.checked(Asked(statistic, broadcast), line)
        except (TypeError, ValueError):  # a broadcast that is wrong, or not hidden by the plan
            log.exception("a broadcast was refused")
            raise RefusedError(
                f"the broadcast of release {frame.number} does not fit the plan"
            ) from None

    def _mine(self, kept: dict[str, Any]) -> dict[str, Any]:
        return entry(kept, self.agreement, self.plan)

    def _way_to(self, number: int, mine: Mapping[str, Any]) -> _Way:
        """The run up to release `number`: gone on with, or made anew from the journal."""
        way, self._way = self._way, None  # one that fails on its way is not gone on
        totals = mine["totals"][:number] or [["", None]] * number  # where others read them: none
        answered = [own for own in mine["answered"] if own[0] <= number]
        known = mine["session"], totals[: len(way.totals)] if way else [], len(answered)
        if way is None or (way.session, way.totals, way.n_sent) != known:
            way = _Way(self, mine["session"])
        for done in range(len(way.totals), number + 1):
            asked = way.walk and way.walk.request
            for _, _, shapes in [own for own in answered[way.n_sent :] if own[0] == done]:
                if self.study.seed is not None:
                    way.seat.pass_over(asked, self.plan.releases[done], shapes)
                way.n_sent += 1
            if done == number:
                break
            text, who = totals[done]
            if way.walk is not None:
                total = list(unpacked(text).values()) if text else []
                way.walk.go_on(way.seat.read(asked, self.plan.releases[done], done, total, who))
            way.totals.append(totals[done])
        return way


class _Way:
    """How far a room has come in a session: its seat, and the algorithm where it follows that.

    `n_sent` answers were made, of `totals` the algorithm knows.
    """

    def __init__(self, room: ClientRoom, session: str) -> None:
        self.session, self.seat = session, room._seat(session)
        walks = room.study.receiver == "clients" or room.study.trust == "local"
        self.walk = room.study.walk(self.seat, room.plan) if walks else None
        self.totals: list[list[Any]] = []
        self.n_sent = 0
