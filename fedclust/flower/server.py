"""The server's side: it drives a run, adds up what it cannot read, and holds no data.

`ServerRoom` speaks to the clients through any `Transport`: a direct call in tests, in a deployment
Flower (`serve`; nothing else imports ``flwr``, and that lazily). Requests are repeated until every
client answered, so a message that is lost, late, doubled or out of order costs time and nothing
else. Who does not answer within `deadline` seconds is missing: where the study has no `may_miss`,
the run stops with an error that names it. Totals are kept on disk before they are sent: a server
that was killed goes on from there, and never sends two totals of one release.

Where clients may be missing, each round begins with a roll: it brings the total of the round before
to the clients that receive, and to one that was away those that it missed. Who answered is the set
of the round, kept on disk before it is named to them. Where one of the set stays silent, the round
is asked again: of the same set once it is back, else of another one, while the plan has a repeat.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedclust.flower.journal import Journal, charged, entry, packed, unpacked
from fedclust.flower.keys import FRESH, NONCE_BYTES, agreement_of, parts_of, session_of, spoken
from fedclust.flower.messages import (
    SERVER,
    Exchange,
    Frame,
    RoundFailedError,
    Transport,
    Wrong,
    by_name,
    named,
    numbered,
)
from fedclust.flower.parties import PARTIES, Arrays, Asked, Follower
from fedclust.flower.process import result_file, statement_of, write_result
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._checked import checked
from fedclust_helpers._private import private
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import check_instance, check_positive
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.secure_aggregation import SECRET_BYTES

POLL = 0.05  # seconds between two looks for answers
SAID = "said.txt"


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
    say : callable
        Hears whose answers are late.
    """

    def __init__(
        self, study: Study, transport: Transport, *, journal: Path | str, deadline: float = 60.0,
        patience: float = 10.0, clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        check_instance(study, Study, "study")
        self.study = study
        self.exchange = Exchange(
            transport, deadline=check_positive(deadline, "deadline"),
            patience=check_positive(patience, "patience"), clock=clock, say=say,
        )  # fmt: skip
        self.plan = study.planned(PARTIES[study.trust](study))
        self._parts = parts_of(study, self.plan)
        self.agreement = self._session = agreement_of(self._parts)
        self.journal = Journal(journal, agreement=self.agreement.hex())
        self._kept: dict[str, Any] = {}
        self._fewest, self._n_rolls = study.n_clients - study.may_miss, 0
        self._needs_all = study.trust in RINGS  # a trusted server adds up any part of a set

    def run(self, progress: Progress = False) -> Any:
        """Make all releases of the plan; the result where the server receives, else None.

        `RoundFailedError` if a client refuses, or more do not answer than may be missing; run again
        to go on from there.
        """
        executes, end = self.study.receiver == "server", len(self.plan.releases)
        party = PARTIES[self.study.trust](self.study)
        own = Follower(self.study, party, self.plan, executes=executes)
        with self.journal.open() as self._kept:
            self._kept.setdefault("asked", [])  # the sets of each release, the last one added up
            self._meet()
            last: Arrays = ()
            with showing(progress, end, self.plan.method) as done:
                for number in range(end):
                    last = self._total(own, last)
                    own.advance([self._kept["runs"][number], self._set_of(number)])
                    done(number + 1)
            self._finish({} if executes else numbered(last))
        if own.execution is None:
            return None
        numbers = [n for n in range(end) for _ in (self._kept["asked"] or [[None]] * end)[n]]
        run = entry({"runs": []}, self.agreement, self.plan)
        run["answered"] = [[n, None, []] for n in numbers]
        ledger = PrivacyLedger(self.study.unit, self.study.adjacency)
        return own.execution.result(charged(ledger, [run]))

    def _meet(self) -> None:
        """Study and plan are compared before anything else; who is who comes back.

        So does a fresh nonce of each client. All of them go round: the session follows from them.
        Who is not there now stays out of the run, with a nonce of zeros.
        """
        exchange = self.exchange
        exchange.known["agreement"] = exchange.known["session"] = self.agreement
        parts = {name: np.frombuffer(part, np.uint8) for name, part in self._parts.items()}
        hello = Frame("hello", self.agreement, SERVER, 0, parts)
        replies = exchange(hello, "hello", self._check_hello, fewer=self.study.may_miss)
        numbers = {address: frame.sender for address, frame in replies.items()}
        n, there = self.study.n_clients, set(numbers.values())
        if len(there) < len(numbers) or not there <= {*range(n)} or len(there) < self._fewest:
            raise RoundFailedError(
                f"clients must be number 0 to {n - 1}, each once, got {sorted(numbers.values())}"
            )
        met = self._met({frame.sender: frame for frame in replies.values()})
        exchange.numbers = {a: i for a, i in numbers.items() if met["nonces"][i].any()}
        self._session = exchange.known["session"] = session_of(self.agreement, met["nonces"])
        begun = self._ask("session", 0, met, "session", to=list(exchange.numbers))
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
        one = next(iter(frames.values())).arrays
        nothing = {name: np.zeros_like(one[name]) for name in FRESH}
        sent = [frames[i].arrays if i in frames else nothing for i in range(self.study.n_clients)]
        met = {f"{name}s": np.stack([arrays[name] for arrays in sent]) for name in FRESH}
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
        sent = {name: a.shape for name, a in frame.arrays.items() if a.dtype == np.uint8}
        return "" if sent == form else "a hello without a nonce"

    def _finish(self, content: Mapping[str, np.ndarray]) -> None:
        """The last total goes round; who is missing gets it when the server runs again."""
        end, to = len(self.plan.releases), None
        if self.study.may_miss:
            here = self._roll(end)  # brings it
            content, to = {}, [a for a, i in self.exchange.numbers.items() if i in here]
        self._ask("finish", end, content, "done", to=to)

    def _ask(
        self, kind: str, number: int, content: Mapping[str, np.ndarray], wanted: str,
        check: Wrong = lambda frame: "", *, to: Sequence[Hashable] | None = None,
        fewer: int | None = None,
    ) -> dict[Hashable, Frame]:  # fmt: skip
        """One exchange of the session, with all or some: `fewer` of these, else as many as leave
        enough, may be silent.
        """
        if fewer is None:
            fewer = 0 if to is None else len(to) - self._fewest
        request = Frame(kind, self._session, SERVER, number, content)
        return self.exchange(request, wanted, check, to=to, fewer=max(0, fewer))

    # one release ----------------------------------------------------------------------------------

    def _total(self, own: Follower, last: Arrays) -> Arrays:
        """What the next release gives, from the journal or asked for: kept before anybody sees it.

        `last` is the total before, which comes with the request where the clients receive.
        """
        number, line, kept = len(own.totals), own.line, self._kept["runs"]
        if number < len(kept):
            totals = list(unpacked(kept[number]).values())
            if self.study.seed is not None:
                own.party.added(line, [totals])  # the stream of its noise goes on
            return totals
        asked = None if own.execution is None else own.asked()
        content = asked.arrays() if isinstance(asked, Asked) else {}  # users know the question

        def wrong(frame: Frame) -> str:
            return own.party.wrong(asked, line, frame.sender, list(frame.arrays.values()))

        if self.study.may_miss:
            replies = self._answers(number, content, wrong)
        else:
            kind, content = ("total", numbered(last)) if asked is None else ("release", content)
            replies = self._ask(kind, number, content, "answer", wrong)
        by_number = sorted(replies.values(), key=lambda frame: frame.sender)
        answers = [list(frame.arrays.values()) for frame in by_number]
        shapes = [[array.shape for array in answer] for answer in answers]
        if self.study.trust != "local" and any(s != shapes[0] for s in shapes):
            raise RoundFailedError(f"answers to release {number} differ in shape")
        totals = list(own.party.added(line, answers))
        kept.append(packed(numbered(totals)))
        self.journal.save(self._kept)  # a release has one total
        return totals

    # clients that may be missing ------------------------------------------------------------------

    def _set_of(self, number: int) -> list[int] | None:
        """The set whose sum a release is; None: all."""
        sets = self._kept["asked"]
        return sets[number][-1] if sets and len(sets[number][-1]) < self.study.n_clients else None

    def _answers(
        self, number: int, content: dict[str, np.ndarray], wrong: Wrong
    ) -> dict[Hashable, Frame]:
        """The answers of a set of clients: of all of it where the sum needs them.

        Who is there when the roll is called, and silent in the round, gets a second chance.
        """
        silent: Counter[int] = Counter()
        while True:
            here = self._roll(number) - {i for i, times in silent.items() if times > 1}
            who = self._next_set(number, here)
            some = [a for a, i in self.exchange.numbers.items() if i in who and i in here]
            fewer = None
            if self._needs_all:
                fewer = len(some) if self._n_repeats < self.study.repeats else 0
            content = content | named(who, self.study.n_clients)
            replies = self._ask("release", number, content, "answer", wrong, to=some, fewer=fewer)
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
        if len(here) < self._fewest:
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
        exchange, least = self.exchange, self._fewest
        ready: set[int] = set()
        waiting = dict.fromkeys(exchange.numbers, number)  # and the roll that each is called with
        had: dict[Hashable, int] = {}
        while waiting:
            at = min(waiting.values())
            some = [a for a, one in waiting.items() if one == at]
            spare = len(ready) + len(waiting) - least
            if spare < 0:
                raise RoundFailedError(f"fewer than {least} clients are there for release {number}")
            replies = self._ask("roll", at, self._called(at), "here", to=some, fewer=spare)
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

    def _called(self, number: int) -> dict[str, np.ndarray]:
        """What the roll brings before release `number`: where the clients receive, the total."""
        self._n_rolls += 1
        content: dict[str, np.ndarray] = {"roll": np.array(self._n_rolls)}
        if number and self.study.receiver == "clients":
            content |= named(self._set_of(number - 1), self.study.n_clients)
            content |= unpacked(self._kept["runs"][number - 1])
        return content


# --- over Flower ----------------------------------------------------------------------------------


class FlowerTransport:
    """The nodes of a Flower federation; an address is a node's number, which Flower vouches for.

    Waits up to `deadline` seconds until `n_clients` nodes are there; `RoundFailedError` if then
    more than `may_miss` are not: `names` says whose the nodes are. Flower's own
    ``send_and_receive`` looks for answers every three seconds; this one every 50 ms.
    """

    def __init__(
        self, grid: Any, n_clients: int, *, deadline: float = 60.0, may_miss: int = 0,
        say: Callable[[str], None] = lambda text: None, names: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        try:
            import flwr.app
        except ImportError:
            raise ImportError(
                "a federation over a network needs Flower: pip install '.[federation]' in the"
                " checkout, in an environment of its own"
            ) from None
        self._flwr, self._grid = flwr.app, grid
        self._asked: dict[str, Hashable] = {}  # message -> node
        self._waiting: list[tuple[Hashable, bytes]] = []
        start, seen = time.monotonic(), -1
        while len(nodes := sorted(grid.get_node_ids())) < n_clients:
            away = [name for node, name in (names or {}).items() if node not in nodes]
            there = f"{len(nodes)} of {n_clients} clients are there"
            there += f", not {', '.join(away)}" if away else ""
            if len(nodes) != seen:
                seen = len(nodes)
                say(there)
            if time.monotonic() - start > deadline:
                if len(nodes) >= n_clients - may_miss:
                    break
                raise RoundFailedError(f"{there}: run again when all rooms are open")
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
                if node is not None and node == reply.metadata.src_node_id:
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
    folder, names = Path(settings["folder"]), dict[str, str]()
    with open(folder / SAID, "a", encoding="utf-8", opener=private) as file:

        def say(text: str, kind: str = "say") -> None:
            file.write(json.dumps({kind: text}) + "\n")
            file.flush()

        try:
            study = Study.read(settings["study"])
            clients, nodes = study.clients or (), str(settings["nodes"]).split()
            names |= {str(i): name for i, name in enumerate(clients)}
            at = {int(node): name for node, name in zip(nodes, clients, strict=False)}
            names |= {f"at {node}": name for node, name in at.items()}
            transport = FlowerTransport(
                grid, study.n_clients, deadline=float(settings["wait"]), may_miss=study.may_miss,
                say=say, names=at,
            )  # fmt: skip
            room = ServerRoom(
                study, transport, journal=folder / "journal.json",
                deadline=float(settings["deadline"]), patience=float(settings["patience"]),
                say=lambda text: say(by_name(text, names)),
            )  # fmt: skip
            n, took = len(transport.addresses), room.exchange
            say(f"{n} of {study.n_clients} clients are there; agreement {spoken(room.agreement)}")
            result = room.run(lambda done, total: say(f"release {done} of {total}"))
            say(f"seconds {[round(s, 2) for s in took.seconds]} bytes {took.n_bytes}", "measured")
            promised = study, room.plan, room.agreement
            if result is None:
                where = f"{result_file(study)}, in the folder of each client's room"
                text = statement_of(*promised, ("result", where))
            else:
                text = write_result(folder, study, result, statement_of(*promised))
        except Exception as error:
            say(by_name(str(error), names), "failed")
            raise
        say(text, "done")
        return result
