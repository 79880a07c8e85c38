"""The server's side: it drives a run, adds up what it cannot read, and holds no data.

`ServerRoom` speaks to the clients through any `Transport`: a direct call in tests, Flower in a
deployment. Requests are repeated until every client answered, so a message that is lost, late,
doubled or out of order costs time and nothing else. Who does not answer within `deadline` seconds
is missing: where the study has no `may_miss`, the run stops with an error that names it. Totals are
kept on disk before they are sent: a server that was killed goes on from there, and never sends two
totals of one release.

Where clients may be missing, each round begins with a roll: it brings the total of the round before
to the clients that receive, and to one that was away those that it missed. Who answered is the set
of the round, kept on disk before it is named to them. Where one of the set stays silent, the round
is asked again: of the same set once it is back, else of another one, while the plan has a repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust.flower.agreement import NONCE_BYTES, agreement_of, parts_of, session_of
from fedclust.flower.exchange import Exchange, RoundFailedError, Transport, Wrong
from fedclust.flower.journal import Journal, charged, entry, packed, unpacked
from fedclust.flower.messages import SERVER, Frame, named, numbered
from fedclust.flower.seats import SEATS, Seat
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import check_instance, check_positive
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import TrustModelError
from fedclust_helpers.program import Walk
from fedclust_helpers.secure_aggregation import SECRET_BYTES

Arrays = Mapping[str, np.ndarray]
Totals = Sequence[NDArray[Any]]
FRESH = ("nonce", "check")  # what each client sends in hello


@checked
class ServerRoom:
    """The server of one study.

    Parameters
    ----------
    study : Study
        From the server's own file; its hash must be that of every client.
    transport : Transport
        With one address for each client.
    journal : path
        The file that keeps the totals of this run.
    deadline : float
        Seconds in which all clients must answer one message; then those who did not are missing:
        the round goes on without them where the study allows for it (`may_miss`), else the run
        stops. (Flower's app asks for 120.)
    patience : float
        Seconds after which a message is sent again to those who did not answer. (There: 60.)
    clock : callable
        Seconds of the server, for these two alone. Clients have none: nothing they do depends on
        the time, so clocks may differ.
    """

    def __init__(
        self, study: Study, transport: Transport, *, journal: Path | str, deadline: float = 60.0,
        patience: float = 10.0, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        check_instance(study, Study, "study")
        self.study = study
        self._exchange = Exchange(
            transport, deadline=check_positive(deadline, "deadline"),
            patience=check_positive(patience, "patience"), clock=clock,
        )  # fmt: skip
        self.plan = study.planned(SEATS[study.trust](study))
        self._parts = parts_of(study, self.plan)
        self.agreement = self._session = agreement_of(self._parts)
        self.journal = Journal(journal, agreement=self.agreement.hex())
        self._kept: dict[str, Any] = {}
        self._n_rolls = 0

    @property
    def n_bytes(self) -> dict[str, int]:
        """Bytes of all messages "sent" and "received", and those of it that went "again"."""
        return self._exchange.n_bytes

    @property
    def seconds(self) -> list[float]:
        """Of each exchange, the hello first."""
        return self._exchange.seconds

    def run(self, progress: Progress = False) -> Any:
        """Make all releases of the plan; the result where the server receives, else None.

        `RoundFailedError` if a client refuses, or more do not answer than may be missing; run again
        to go on from there.
        """
        seat = SEATS[self.study.trust](self.study)
        walk = self.study.walk(seat, self.plan) if self.study.receiver == "server" else None
        end = len(self.plan.releases)
        with self.journal.open() as self._kept:
            self._kept.setdefault("asked", [])  # the sets of each release, the last one added up
            self._meet()
            last: Totals = ()
            with showing(progress, end, self.plan.method) as done:
                for number, line in enumerate(self.plan.releases):
                    last = self._total(seat, walk, number, last)
                    if walk is not None:
                        asked = walk.request
                        walk.go_on(seat.read(asked, line, number, last, self._set_of(number)))
                    done(number + 1)
            self._finish(numbered(last) if walk is None else {})
        if walk is None:
            return None
        numbers = [n for n in range(end) for _ in (self._kept["asked"] or [[None]] * end)[n]]
        own = entry({"runs": []}, self.agreement, self.plan)
        own["answered"] = [[n, None, []] for n in numbers]
        ledger = PrivacyLedger(self.study.unit, self.study.adjacency)
        return walk.result(charged(ledger, [own]))

    def _meet(self) -> None:
        """Study and plan are compared before anything else; who is who comes back.

        So does a fresh nonce of each client. All of them go round: the session follows from them.
        Who is not there now stays out of the run, with a nonce of zeros.
        """
        exchange, may_miss = self._exchange, self.study.may_miss
        exchange.known["agreement"] = exchange.known["session"] = self.agreement
        parts = {name: np.frombuffer(part, np.uint8) for name, part in self._parts.items()}
        hello = Frame("hello", self.agreement, SERVER, 0, parts)
        replies = exchange(hello, "hello", self._check_hello, fewer=may_miss)
        numbers = {address: frame.sender for address, frame in replies.items()}
        n, there = self.study.n_clients, set(numbers.values())
        if len(there) < len(numbers) or not there <= {*range(n)} or len(there) < n - may_miss:
            raise RoundFailedError(
                f"clients must be number 0 to {n - 1}, each once, got {sorted(numbers.values())}"
            )
        met = self._met({frame.sender: frame for frame in replies.values()})
        exchange.numbers = {a: i for a, i in numbers.items() if met["nonces"][i].any()}
        self._session = exchange.known["session"] = session_of(self.agreement, met["nonces"])
        some = list(exchange.numbers)
        fewer = may_miss - (n - len(some))
        begun = exchange(Frame("session", self._session, SERVER, 0, met), "session", to=some,
                         fewer=max(0, fewer))  # fmt: skip
        exchange.numbers = {a: i for a, i in exchange.numbers.items() if a in begun}

    def _met(self, frames: Mapping[int, Frame]) -> dict[str, np.ndarray]:
        """Nonces and checks of all; those of the beginning, where the run has begun."""
        made = len(self._kept["runs"])
        for i, frame in frames.items():
            if not self._least(i) <= frame.number <= made + 1:
                raise RoundFailedError(
                    f"client {i} answered {frame.number} releases, this server has the"
                    f" totals of {made}: a journal was lost or put back; start a new run"
                )
        if "met" in self._kept:
            met = unpacked(self._kept["met"])
            for i, frame in frames.items():
                nonce = met["nonces"][i]
                if nonce.any() and not np.array_equal(frame.arrays["nonce"], nonce):
                    raise RoundFailedError(
                        f"client {i} has another nonce than when the run began: a journal was lost"
                        " or put back; start a new run"
                    )
            return met
        met = {
            f"{name}s": np.zeros((self.study.n_clients, frames[min(frames)].arrays[name].size),
                                 np.uint8)
            for name in FRESH
        }  # fmt: skip
        for i, frame in frames.items():
            for name in FRESH:
                met[f"{name}s"][i] = frame.arrays[name]
        if self.study.may_miss:  # kept with the first set that is asked
            self._kept["met"] = packed(met)
        return met

    def _least(self, client: int) -> int:
        """So many releases a client has passed at least: it is in the set of the last of these."""
        if not self.study.may_miss:
            return len(self._kept["runs"])
        passed = [n for n in range(len(self._kept["runs"])) if client in self._kept["asked"][n][-1]]
        return max(passed, default=-1) + 1 if self._needs_all else 0

    def _check_hello(self, frame: Frame) -> str:
        form = {"nonce": (NONCE_BYTES,), "check": (SECRET_BYTES * (self.study.trust in RINGS),)}
        sent = {
            name: array.shape for name, array in frame.arrays.items() if array.dtype == np.uint8
        }
        return "" if sent == form else "a hello without a nonce"

    def _finish(self, content: Arrays) -> None:
        """The last total goes round; who is missing gets it when the server runs again."""
        end, to, fewer = len(self.plan.releases), None, 0
        if self.study.may_miss:
            here = self._roll(end)
            content, to = {}, [a for a, i in self._exchange.numbers.items() if i in here]
            fewer = self.study.may_miss - (self.study.n_clients - len(here))
        finish = Frame("finish", self._session, SERVER, end, content)
        self._exchange(finish, "done", to=to, fewer=fewer)

    # one release ----------------------------------------------------------------------------------

    def _total(self, seat: Seat, walk: Walk | None, number: int, last: Totals) -> Totals:
        """What one release gives, from the journal or asked for: kept before anybody sees it."""
        line, kept = self.plan.releases[number], self._kept["runs"]
        if number < len(kept):
            totals = list(unpacked(kept[number]).values())
            if self.study.seed is not None:
                seat.added(line, [totals])  # the stream of its noise goes on
            return totals
        asked = None
        content: Arrays = {}
        if walk is not None:
            asked = seat.checked(walk.request, line)
            content = {} if self.study.trust == "local" else _said(asked)

        def wrong(frame: Frame) -> str:
            return seat.wrong(asked, line, frame.sender, list(frame.arrays.values()))

        if self.study.may_miss:
            replies = self._answers(number, content, wrong)
        else:  # where the clients receive: the total before comes with the request
            kind, content = ("total", numbered(last)) if walk is None else ("release", content)
            replies = self._exchange(
                Frame(kind, self._session, SERVER, number, content), "answer", wrong
            )
        by_number = sorted(replies.values(), key=lambda frame: frame.sender)
        answers = [list(frame.arrays.values()) for frame in by_number]
        shapes = [[array.shape for array in answer] for answer in answers]
        if self.study.trust != "local" and any(s != shapes[0] for s in shapes):
            raise RoundFailedError(f"answers to release {number} differ in shape")
        totals = list(seat.added(line, answers))
        kept.append(packed(numbered(totals)))
        self.journal.save(self._kept)  # a release has one total
        return totals

    # clients that may be missing ------------------------------------------------------------------

    @property
    def _needs_all(self) -> bool:
        """Whether a sum needs the answers of its whole set: a trusted server adds up any."""
        return self.study.trust in RINGS

    def _set_of(self, number: int) -> list[int] | None:
        """The set whose sum a release is; None: all."""
        sets = self._kept["asked"]
        return sets[number][-1] if sets and len(sets[number][-1]) < self.study.n_clients else None

    def _answers(self, number: int, content: Arrays, wrong: Wrong) -> dict[Hashable, Frame]:
        """The answers of a set of clients: of all of it where the sum needs them.

        Who is there when the roll is called, and silent in the round, gets a second chance.
        """
        silent: Counter[int] = Counter()
        while True:
            here = self._roll(number) - {i for i, times in silent.items() if times > 1}
            who = self._next_set(number, here)
            some = [a for a, i in self._exchange.numbers.items() if i in who and i in here]
            fewer = self.study.may_miss - (self.study.n_clients - len(some))
            if self._needs_all:
                fewer = len(some) if self._n_repeats < self.study.repeats else 0
            content = content | named(who, self.study.n_clients)  # type: ignore[operator]
            request = Frame("release", self._session, SERVER, number, content)
            replies = self._exchange(request, "answer", wrong, to=some, fewer=max(0, fewer))
            if len(replies) == len(who) or not self._needs_all:
                return replies
            silent.update({*who} - {frame.sender for frame in replies.values()})

    @property
    def _n_repeats(self) -> int:
        return sum(len(sets) - 1 for sets in self._kept["asked"])

    def _next_set(self, number: int, here: set[int]) -> list[int]:
        """Whom to ask: a set that was asked before, if it is there again, or all who are there."""
        asked = self._kept["asked"]
        tried = asked[number] if number < len(asked) else []
        for who in reversed(tried):
            if here.issuperset(who) or not self._needs_all:
                tried.remove(who)
                tried.append(who)  # the last one is added up
                return who
        if len(here) < self.study.n_clients - self.study.may_miss:
            raise RoundFailedError(f"clients {sorted(here)} are too few for release {number}")
        if tried and self._n_repeats >= self.study.repeats:
            raise RoundFailedError(
                f"clients {sorted({*tried[-1]} - here)} do not answer to release {number}, and none"
                f" of the {self.study.repeats} repeats of the plan is left; run again when they are"
                " back"
            )
        if not tried:
            asked.append(tried)
        tried.append(sorted(here))
        self.journal.save(self._kept)  # named to nobody before
        return tried[-1]

    def _roll(self, number: int) -> set[int]:
        """The clients who are there, and have all totals before release `number`."""
        exchange, least = self._exchange, self.study.n_clients - self.study.may_miss
        ready: set[int] = set()
        waiting = dict.fromkeys(exchange.numbers, number)  # and the roll that each is called with
        had: dict[Hashable, int] = {}
        while waiting:
            at = min(waiting.values())
            some = [a for a, one in waiting.items() if one == at]
            spare = len(ready) + len(waiting) - least
            if spare < 0:
                raise RoundFailedError(f"fewer than {least} clients are there for release {number}")
            replies = exchange(self._called(at), "here", to=some, fewer=spare)
            for address in some:
                has = replies[address].number if address in replies else None
                if has is None or has == number:
                    del waiting[address]
                    ready |= {exchange.numbers[address]} if has is not None else set()
                elif has > number or has <= had.get(address, -1):
                    raise RoundFailedError(
                        f"client {exchange.numbers[address]} has {has} totals, this server those of"
                        f" {number}: a journal was lost or put back; start a new run"
                    )
                else:
                    had[address], waiting[address] = has, has + 1
        return ready

    def _called(self, number: int) -> Frame:
        """The roll before release `number`, with the total before where the clients receive."""
        self._n_rolls += 1
        content: dict[str, np.ndarray] = {"roll": np.array(self._n_rolls)}
        if number and self.study.receiver == "clients":
            content |= named(self._set_of(number - 1), self.study.n_clients)
            content |= unpacked(self._kept["runs"][number - 1])
        return Frame("roll", self._session, SERVER, number, content)


def _said(asked: Any) -> dict[str, np.ndarray]:
    """What the server broadcasts: the name of the statistic, and numbers."""
    name = asked.statistic.name
    content = {"statistic": np.frombuffer(name.encode("ascii"), np.uint8)}
    for key, value in asked.broadcast.items():
        content[key] = array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TrustModelError(f"{key} of {name} is not made of numbers: it is not sent")
    return content
