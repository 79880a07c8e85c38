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

What it may be asked follows from the state that its journal has the run in (`journal.state_of`)::

    opened      hello                             -> agreed
    agreed      session (and hello again)         -> answering
    answering   roll, release, total, finish      -> done, after finish
    done        what was asked last, once more

A server that was killed begins with hello and session again, in whatever state the run is.
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

from fedclust.flower.journal import (
    Journal,
    JournalError,
    charged,
    check_next,
    check_repeat,
    entry,
    named_set,
    packed,
    state_of,
    unpacked,
)
from fedclust.flower.keys import FRESH, NONCE_BYTES, agreement_of, check_of, parts_of, session_for
from fedclust.flower.messages import (
    UNREAD,
    Frame,
    MessageError,
    RefusedError,
    are_words,
    decode,
    encode,
    numbered,
    words,
)
from fedclust.flower.parties import PARTIES, Asked, Client, Follower, Party
from fedclust.flower.rows import check_rows
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._checked import checked
from fedclust_helpers._state import SingleUse
from fedclust_helpers._validation import (
    as_integers,
    check_choice,
    check_instance,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import Budget, BudgetExceededError, PrivacyLedger
from fedclust_helpers.federation.plan import PlannedRelease
from fedclust_helpers.secure_aggregation import SECRET_BYTES, public_key

log = logging.getLogger(__name__)
UNKNOWN = ["", None]  # in the place of a total that a client does not get, and its set


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
        number = check_int(number, "number", minimum=0, maximum=study.n_clients - 1)
        points = check_rows(study, number, rows)
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
        self.number = number
        if study.public_keys and public_key(key or b"").hex() != study.public_keys[number]:
            raise ValueError(f"key must be the private one of public_keys[{number}] of the study")
        self.journal = Journal(
            journal, unit=study.unit, adjacency=study.adjacency, filter=budget.filter
        )
        self.journal.read()  # or refused now
        self._lock = threading.Lock()
        self.plan = study.planned(self._party())
        self._parts = parts_of(study, self.plan)
        self.agreement = agreement_of(self._parts)
        self._run: Follower | None = None
        self._troubles: list[str] = []

    def _party(self, session: str = "") -> Party:
        known = bytes.fromhex(session) or bytes(32)
        own = Client(self.number, known, self._secret, self._key)
        return PARTIES[self.study.trust](self.study, self._rows, labels=self._labels, client=own)

    # what the operator may look at ----------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all of the run is done."""
        return state_of(entry(self.journal.read(), self.agreement, self.plan)) == "done"

    @property
    def result(self) -> Any:
        """The run's result, where the clients receive and the run is finished; else None."""
        mine = entry(self.journal.read(), self.agreement, self.plan)
        if self.study.receiver == "server" or state_of(mine) != "done":
            return None
        self._run = run = self._followed(len(self.plan.releases), mine)
        assert run.execution is not None
        return run.execution.result(charged(self._new_ledger(), [mine]))

    def troubles(self) -> list[str]:
        """What its operator should hear, and nobody else, since this was asked last."""
        told, self._troubles = self._troubles, []
        return told

    def ledger(self) -> PrivacyLedger:
        """All that was charged for these rows, as a ledger with this client's budget."""
        return charged(self._new_ledger(self._budget), self.journal.read()["runs"])

    def _new_ledger(self, budget: Budget | None = None) -> PrivacyLedger:
        return PrivacyLedger(self.study.unit, self.study.adjacency, budget)

    # one request ----------------------------------------------------------------------------------

    def answer(self, request: bytes) -> bytes:
        """The answer to one message; never an exception, and never more than the plan says."""
        self.check_process()
        number = UNREAD
        try:
            frame = decode(request)
            number = frame.number
            with self._lock, self.journal.open() as kept:
                answer = self._answered(frame, hashlib.sha256(request).hexdigest(), kept)
            return encode(answer)
        except (RefusedError, MessageError, BudgetExceededError) as error:
            log.warning("refused: %s", error)
            reason = str(error)
        except JournalError as error:
            log.error("%s", error)
            reason = "the client's journal is not to be had"
        except Exception:  # its text may speak of the rows: it stays here
            log.exception("a request failed")
            reason = "the client failed; its operator finds the reason in its log"
        return encode(Frame("refused", self.agreement, self.number, number, words(reason)))

    def _answered(self, frame: Frame, digest: str, kept: dict[str, Any]) -> Frame:
        """What each state takes (see above), and what it makes of it."""
        mine = entry(kept, self.agreement, self.plan)
        state = state_of(mine)
        is_first = frame.kind == "hello" and not mine["answered"]
        if not is_first and mine["check"] != self._check(mine):
            raise RefusedError("the group secret is another one than in the hello before")
        if frame.kind == "hello":
            return self._hello(frame, kept, mine)
        if state == "opened":
            raise RefusedError("no hello came before this message")
        if frame.kind == "session":
            return self._meet(frame, kept, mine)
        if state == "agreed" or frame.agreement != bytes.fromhex(mine["session"])[:8]:
            raise RefusedError("the message belongs to no session of this client")
        if frame.kind == "roll":
            return self._here(frame, kept, mine)
        return self._once(frame, digest, kept, mine)

    def _reply(
        self, kind: str, number: int, arrays: Mapping[str, np.ndarray], mine: Mapping[str, Any]
    ) -> Frame:
        return Frame(kind, bytes.fromhex(mine["session"]), self.number, number, arrays)

    # opened -> agreed -> answering ----------------------------------------------------------------

    def _hello(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> Frame:
        """Compare what was agreed; then this client's nonce of the run, and a check of a secret."""
        own, sent = self._parts, frame.arrays
        differ = [name for name in own if name not in sent or sent[name].tobytes() != own[name]]
        if differ:
            raise RefusedError(
                f"the agreement is not this client's: {', '.join(differ)} differ; compare study"
                " files and package versions"
            )
        if not mine["nonce"]:
            ledger = charged(self._new_ledger(self._budget), kept["runs"])
            # or refused now
            ledger.admit(self.plan.entries(), name="the plan", repeats=self.plan.repeats())
            mine["nonce"] = secrets.token_bytes(NONCE_BYTES).hex()
        mine["check"] = self._check(mine)
        self.journal.save(kept)  # the nonce is that of this run for ever
        content = {name: np.frombuffer(bytes.fromhex(mine[name]), np.uint8) for name in FRESH}
        made = mine["answered"][-1][0] + 1 if mine["answered"] else 0
        return Frame("hello", self.agreement, self.number, made, content)

    def _check(self, mine: Mapping[str, Any]) -> str:
        """What this client shows of its secret in the run that `mine` is kept of; "" before it."""
        nonce = bytes.fromhex(mine["nonce"])
        return check_of(self._secret, self.agreement, self.number, nonce).hex() if nonce else ""

    def _meet(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> Frame:
        """Everybody's nonces and checks came back: the session follows from them, and is kept."""
        own, met = session_for(
            self.study, self.number, frame.arrays, agreement=self.agreement, secret=self._secret,
            nonce=bytes.fromhex(mine["nonce"]),
        )  # fmt: skip
        session = own.hex()
        if mine["answered"] and mine["session"] != session:  # its pads are not those of before
            raise RefusedError(
                "this is another session than that of the releases before: a journal was lost or"
                " put back; start a new run"
            )
        mine["session"], mine["met"] = session, met
        self.journal.save(kept)
        return self._reply("session", frame.number, {}, mine)

    # answering: who takes part --------------------------------------------------------------------

    def _here(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> Frame:
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
                self._take(number - 1, content, mine)
                self.journal.save(kept)
            number = len(mine["totals"])
        return self._reply("here", number, {"roll": called}, mine)

    # answering -> done ----------------------------------------------------------------------------

    def _once(self, frame: Frame, digest: str, kept: dict[str, Any], mine: dict[str, Any]) -> Frame:
        """The next message of the run, answered once: charged and kept before the answer leaves.

        Repeated, it gets the same bytes again; and no other message an answer in its place.
        """
        last = mine["last"] or {"kind": "", "number": 0, "replies": {}}
        is_same = (last["kind"], last["number"]) == (frame.kind, frame.number)
        if is_same and digest in last["replies"]:
            kind, arrays = last["replies"][digest]
            return self._reply(kind, frame.number, unpacked(arrays), mine)
        content, who = dict(frame.arrays), None
        if frame.kind == "release" and self.study.may_miss:
            who = named_set(self.study, content, mine)
            if self.number not in who:
                raise RefusedError(f"client {self.number} is not of the set that is asked")
            who = None if len(who) == self.study.n_clients else who
        if is_same:
            check_repeat(self.study, frame, who, content, mine)
        if mine["finished"]:
            raise RefusedError("this run is finished")
        check_next(self.study, frame.number, mine)
        kind, made, run = self._next(replace(frame, arrays=content), kept, mine, who)
        mine["last"] = {
            "kind": frame.kind, "number": frame.number, "content": packed(content),
            "replies": (last["replies"] if is_same else {}) | {digest: [kind, packed(made)]},
        }  # fmt: skip
        self.journal.save(kept)  # charged and kept; only now may it leave
        self._run = run
        return self._reply(kind, frame.number, made, mine)

    def _next(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any], who: list[int] | None
    ) -> tuple[str, dict[str, np.ndarray], Follower | None]:
        """Kind and content of the answer to the next message, and how far the run is then."""
        number, clients_receive = frame.number, self.study.receiver == "clients"
        brings = clients_receive and not self.study.may_miss  # the total of the release before
        is_end = number == len(self.plan.releases)
        if frame.kind != ("finish" if is_end else "total" if brings else "release"):
            raise RefusedError(f"no {frame.kind} {number} is in the plan")
        if brings:
            self._take(number - 1, dict(frame.arrays), mine)
        elif clients_receive and frame.arrays:
            raise RefusedError("where the clients receive, a request brings its set alone")
        if is_end:
            mine["finished"] = True
            return "done", {}, self._followed(number, mine) if clients_receive else None
        run, line = self._followed(number, mine), self.plan.releases[number]
        if self.study.trust == "local" and frame.arrays:
            raise RefusedError("the question is that of the study: a request brings nothing")
        asked = run.asked() if run.execution is not None else self._told(frame, line, run.party)
        answer: list[Any] = [number, who, []]
        mine["answered"].append(answer)
        others = [each for each in kept["runs"] if each is not mine]
        charged(self._new_ledger(self._budget), [*others, mine])  # or refused now
        content = run.party.sent(asked, line, number, who)
        run.n_sent += 1
        if run.party.failed:
            self._troubles.append(
                f"RELEASE {number} ({line.name}) FAILED ON THESE ROWS. It is charged, and was"
                " answered as without rows, so that the others see no difference. The log says"
                " why. Ask the other clients: if all rooms say this, it is an error of the program,"
                " and the result is worth nothing"
            )
        answer[2] = [list(array.shape) for array in content]
        return "answer", numbered(content), run

    def _take(self, number: int, content: dict[str, np.ndarray], mine: dict[str, Any]) -> None:
        """The clients receive: the total of release `number` came back, of one of its sets."""
        if number < 0:
            if content:
                raise RefusedError("a total came before the first release")
            return
        if number >= len(self.plan.releases):
            raise RefusedError(f"a total came after the last release, of {number}")
        who, answers = None, [own for own in mine["answered"] if own[0] == number]
        if self.study.may_miss:
            named = named_set(self.study, content, mine)
            who = None if len(named) == self.study.n_clients else named
            if self.number in named and who not in [asked for _, asked, _ in answers]:
                raise RefusedError("the total is of a set that this client did not answer for")
        if answers:
            shapes = answers[-1][2]
        else:  # this client was missing
            self._run = run = self._followed(number, mine)
            asked = run.asked()
            shapes = run.party.shapes_of(asked.statistic, asked.broadcast)
        if not are_words(content, self.study.bits, shapes):
            raise RefusedError("the total is not of the shape and kind that was sent")
        mine["totals"].append([packed(content), who])

    def _told(self, frame: Frame, line: PlannedRelease, party: Party) -> Asked:
        """The server receives: it says what it asks for, and the plan says whether it may."""
        asked = Asked.of(frame.arrays, line, frame.number)
        try:
            return party.checked(asked, line)
        except (TypeError, ValueError):  # a broadcast that is wrong, or not hidden by the plan
            log.exception("a broadcast was refused")
            raise RefusedError(
                f"the broadcast of release {frame.number} does not fit the plan"
            ) from None

    # the run in memory ----------------------------------------------------------------------------

    def _followed(self, number: int, mine: Mapping[str, Any]) -> Follower:
        """The run up to release `number`: gone on with, or made again from the journal."""
        run, self._run = self._run, None  # one that fails now is not gone on with
        totals = mine["totals"][:number] or [UNKNOWN] * number
        answered = [own for own in mine["answered"] if own[0] <= number]
        if run is not None:
            here = run.session, run.totals, run.n_sent
            if here == (mine["session"], totals[: len(run.totals)], len(answered)):
                for total in totals[len(run.totals) :]:
                    run.advance(total)
                return run
        return self._replayed(number, totals, answered, mine["session"])

    def _replayed(
        self, number: int, totals: list[Any], answered: list[Any], session: str
    ) -> Follower:
        """The run as its journal has it: every answer is passed over, every total taken again."""
        executes = self.study.receiver == "clients" or self.study.trust == "local"
        run = Follower(
            self.study, self._party(session), self.plan, executes=executes, session=session
        )
        for at in range(number + 1):
            for _, _, shapes in [own for own in answered if own[0] == at]:
                run.pass_over(shapes)
            if at < number:
                run.advance(totals[at])
        return run
