"""A client's side: the room where its data stay. It trusts nobody who sends it a message.

`ClientRoom.answer` takes bytes and gives bytes; how they travel is not its business. Whatever a
request says, a client

* takes part only in the study that its own operator gave it, with its own plan of it, and in one
  session of it, which its own fresh nonce is part of;
* makes the releases of the plan in order, each once, of statistics that it knows by name, with the
  noise of the plan, which must hide what one record can change for *this* request;
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from fedclust_helpers.flower.agreement import (
    NONCE_BYTES,
    RefusedError,
    agreement_of,
    check_of,
    compare,
    parts_of,
    session_for,
)
from fedclust_helpers.flower.journal import (
    Journal,
    JournalError,
    charged,
    entry,
    packed,
    unpacked,
)
from fedclust_helpers.flower.messages import (
    MAX_BYTES,
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
from fedclust_helpers.flower.seats import Asked, client_seat
from fedclust_helpers.flower.study import RINGS, Study
from fedclust_helpers.secure_aggregation import SECRET_BYTES, Ring, public_key, secret_check

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
    domain : {"box", "ball"}
        Which of the two; here, too, the client's own word counts.
    labels : array_like of int, shape (n,), optional
        The class of each row, for models.
    columns : sequence of str, optional
        Names of the columns of `rows`, where they have them: those of the study, in its order.
    max_bytes : int
        Longest message that is read.

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
        labels: ArrayLike | None = None, max_bytes: int = MAX_BYTES, key: bytes | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        if study.trust in RINGS and len(check_instance(secret, bytes, "secret")) != SECRET_BYTES:
            raise ValueError(f"secret must be {SECRET_BYTES} bytes")
        points = as_points(rows, "rows", n_features=study.n_features)
        if columns is not None and [*columns] != [*(study.columns or ())]:
            known = "none" if study.columns is None else [*study.columns]
            raise ValueError(f"rows must have the columns of the study, in its order: {known}")
        self._rows = study.scaled(points).copy()
        self._labels = None if labels is None else as_integers(labels, "labels").copy()
        own: dict[str, Any] = {"bound": check_positive(bound, "bound")}
        own["domain"] = check_choice(domain, "domain", ("box", "ball"))
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
        self.max_bytes = check_int(max_bytes, "max_bytes")
        self.journal = Journal(
            journal, unit=study.unit, adjacency=study.adjacency, filter=budget.filter
        )
        self.journal.read()  # or refused now
        self._lock = threading.Lock()
        self.plan = study.planned(self._seat(PrivacyLedger(study.unit, study.adjacency)))
        self._parts = parts_of(study, self.plan)
        self.agreement = agreement_of(self._parts)
        self._result: Any = None

    def _seat(
        self, ledger: PrivacyLedger, totals: Sequence[Sequence[Ring]] = (), n_answered: int = 0,
        session: str = "",
    ) -> Any:  # fmt: skip
        return client_seat(
            self.study, self._rows, labels=self._labels, number=self.number, totals=totals,
            session=bytes.fromhex(session) or bytes(32), secret=self._secret, key=self._key,
            ledger=ledger, n_answered=n_answered,
        )  # fmt: skip

    # what the operator may look at ----------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all of the run is done."""
        return bool(self._mine(self.journal.read())["finished"])

    @property
    def result(self) -> Any:
        """The run's result, where the clients receive and the run is finished; else None."""
        if self._result is None and self.study.receiver == "clients":
            kept = self.journal.read()
            mine = self._mine(kept)
            if mine["finished"]:
                self._result = self._run(kept, mine)
        return self._result

    def ledger(self) -> PrivacyLedger:
        """All that was charged for these rows, as a ledger with this client's budget."""
        return self._opened(self.journal.read()["runs"])

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
            frame = decode(request, max_bytes=self.max_bytes)
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
        is_first = frame.kind == "hello" and not mine["shapes"]
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
        last = mine["last"]
        if last and (last["kind"], last["number"]) == (frame.kind, frame.number):
            if last["request"] != digest:  # other centres or another total: a second release
                raise RefusedError(
                    f"{frame.kind} {frame.number} was answered before, to another request"
                )
            return self._reply(last["reply"], frame.number, unpacked(last["arrays"]), session)
        if mine["finished"]:
            raise RefusedError("this run is finished")
        if frame.number != len(mine["shapes"]):
            raise RefusedError(
                f"release {len(mine['shapes'])} is the next one, not release {frame.number}"
            )
        kind, arrays = self._next(frame, kept, mine)
        mine["last"] = {
            "kind": frame.kind, "number": frame.number, "request": digest, "reply": kind,
            "arrays": packed(arrays),
        }  # fmt: skip
        self.journal.save(kept)  # charged and kept; only now may it leave
        return self._reply(kind, frame.number, arrays, session)

    def _hello(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> bytes:
        """Compare what was agreed; then this client's nonce of the run, and a check of a secret."""
        compare(self._parts, frame.arrays)
        if not mine["nonce"]:
            self._opened(kept["runs"]).admit(self.plan.lines(), name="the plan")  # or refused now
            mine["nonce"] = secrets.token_bytes(NONCE_BYTES).hex()
        mine["check"] = self._check(mine)
        self.journal.save(kept)  # the nonce is that of this run for ever
        own = {name: bytes.fromhex(mine[name]) for name in ("nonce", "check")}
        content = {name: np.frombuffer(value, np.uint8) for name, value in own.items()}
        return self._reply("hello", len(mine["shapes"]), content)

    def _check(self, mine: Mapping[str, Any]) -> str:
        """What this client shows of its secret in the run that `mine` is kept of; "" before it."""
        nonce = bytes.fromhex(mine["nonce"])
        return check_of(self._secret, self.agreement, self.number, nonce).hex() if nonce else ""

    def _met(self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]) -> bytes:
        """Everybody's nonces and checks came back: the session follows, and is kept."""
        session = session_for(
            self.number, frame.arrays, n_clients=self.study.n_clients, agreement=self.agreement,
            secret=self._secret, nonce=bytes.fromhex(mine["nonce"]),
        )  # fmt: skip
        if mine["shapes"] and mine["session"] != session.hex():  # its pads are not those of before
            raise RefusedError(
                "this is another session than that of the releases before: a journal was lost or"
                " put back; start a new run"
            )
        mine["session"] = session.hex()
        self.journal.save(kept)
        return self._reply("session", frame.number, {}, session)

    def _next(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]
    ) -> tuple[str, dict[str, np.ndarray]]:
        """The kind and content of the answer to the next message of the run."""
        clients_receive = self.study.receiver == "clients"
        is_end = frame.number == len(self.plan.releases)
        if frame.kind != ("finish" if is_end else "total" if clients_receive else "release"):
            raise RefusedError(f"no {frame.kind} {frame.number} is in the plan")
        if clients_receive:
            content = self._from_total(frame, kept, mine)
        elif self.study.trust == "local":
            content = () if is_end else self._from_study(frame, kept, mine)
        else:
            content = () if is_end else self._from_broadcast(frame, kept, mine)
        if is_end:
            mine["finished"] = True
            return "done", {}
        mine["charged"] = frame.number + 1
        mine["shapes"].append([list(array.shape) for array in content])
        return "answer", numbered(content)

    def _from_total(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]
    ) -> Sequence[NDArray[Any]]:
        """The clients receive: a total came back, and the algorithm goes on to the next release."""
        if frame.number:
            if not are_words(frame.arrays, self.study.bits, mine["shapes"][-1]):
                raise RefusedError("the total is not of the shape and kind that was sent")
            mine["totals"].append(packed(frame.arrays))
        elif frame.arrays:
            raise RefusedError("a total came before the first release")
        try:
            self._result = self._run(kept, mine)
        except Asked as asked:
            return asked.content
        if frame.kind != "finish":
            raise RefusedError("the run ended before its plan did")
        return ()

    def _from_study(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]
    ) -> Sequence[NDArray[Any]]:
        """Local reports: the question is known from the study, so a request brings nothing."""
        if frame.arrays:
            raise RefusedError("the question is that of the study: a request brings nothing")
        try:
            self._run(kept, mine)
        except Asked as asked:
            return asked.content
        raise RefusedError("the run ended before its plan did")

    def _from_broadcast(
        self, frame: Frame, kept: dict[str, Any], mine: dict[str, Any]
    ) -> Sequence[NDArray[Any]]:
        """The server receives: it says what it asks for, and the plan says whether it may."""
        number, broadcast = frame.number, {k: plain(v) for k, v in frame.arrays.items()}
        name = bytes(np.atleast_1d(broadcast.pop("statistic", b""))).decode("ascii", "replace")
        planned: PlannedRelease = self.plan.releases[number]
        statistic = STATISTICS.get(name)
        if statistic is None or name != planned.name:
            raise RefusedError(f"release {number} is not of the statistic that the plan names")
        if statistic.remembers:
            raise RefusedError(f"{name} depends on what a client remembers, which is not kept here")
        if {"round", "sampling", "number", "shapes"} & broadcast.keys():
            raise RefusedError("the broadcast names what is not the server's to say")
        seat = self._seat(self._opened(kept["runs"], leave=mine), session=mine["session"])
        with seat.follow(self.plan):
            for made in self.plan.releases[:number]:
                seat._charge(made)
            try:
                return seat.answer(
                    statistic, planned.mechanisms, number=number, shapes=mine["shapes"],
                    round=planned.round, **broadcast,
                )  # fmt: skip
            except (TypeError, ValueError):  # a broadcast that is wrong, or not hidden by the plan
                log.exception("a broadcast was refused")
                raise RefusedError(
                    f"the broadcast of release {number} does not fit the plan"
                ) from None

    # the run, and the ledger ----------------------------------------------------------------------

    def _mine(self, kept: dict[str, Any]) -> dict[str, Any]:
        return entry(kept, self.agreement, self.plan.lines())

    def _opened(
        self, runs: Sequence[Mapping[str, Any]], leave: Mapping[str, Any] | None = None
    ) -> PrivacyLedger:
        ledger = PrivacyLedger(self.study.unit, self.study.adjacency, self._budget)
        return charged(ledger, runs, leave=leave)

    def _run(self, kept: dict[str, Any], mine: dict[str, Any]) -> Any:
        """The whole algorithm up to the first release without a total, where it stops."""
        totals = [list(unpacked(text).values()) for text in mine["totals"]]
        ledger = self._opened(kept["runs"], leave=mine)
        seat = self._seat(ledger, totals, len(mine["shapes"]), mine["session"])
        return self.study.follow(seat, self.plan)
