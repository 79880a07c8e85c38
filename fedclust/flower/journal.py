"""What a party must not forget, and so where a run is and what may come next in it.

A journal is a small file that is replaced as a whole, or not at all.

A client charges its ledger and keeps its answer before the answer leaves, in one step: the new file
is written beside the old one, forced to the disk, and renamed over it. Killed before, nothing was
charged or sent; killed after, the charge stands and the same bytes are sent again, so no pad covers
two messages. A file that was lost or put back from a backup breaks this: see docs/deployment.md.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedclust.flower.messages import Frame, RefusedError, decode, encode
from fedclust.flower.study import Study
from fedclust_helpers import mechanisms
from fedclust_helpers._private import private, tighten, write_private
from fedclust_helpers.accounting import Entry, PrivacyLedger, Sampling
from fedclust_helpers.federation import Plan
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse

FORMAT = 1
Kept = Mapping[str, Any]  # of one run, see `entry`
MECHANISMS = {
    kind.__name__: kind
    for kind in (
        mechanisms.Gaussian, mechanisms.DiscreteGaussian, mechanisms.DistributedDiscreteGaussian,
        mechanisms.Laplace, mechanisms.DiscreteLaplace, mechanisms.NoNoise, RandomizedResponse,
    )
}  # fmt: skip


class JournalError(RuntimeError):
    """The journal cannot be read, or another process works with it."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep `path` to oneself, by a lock beside it; `JournalError` where another one has it.

    The lock is the operating system's, and ends with the process that holds it, however it ends.
    """
    import fcntl  # not on Windows, where the rest of the package works

    with open(tighten(path.with_name(path.name + ".lock")), "a", opener=private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalError(f"{path.name} is in use by another process") from None
        yield


class Journal:
    """A JSON document in the file `path`, for this account alone.

    `identity` (whose journal it is) is written into a new file, and must be that of an old one. A
    link leads to the same file; one with a second (hard) name is refused, for replacing it under
    one name would leave another budget under the other. What one who holds it has saved may not go
    away or become something else: a file put back would let pads be used a second time.
    """

    _is_held = False
    _saved: bytes | None = None

    def __init__(self, path: Path | str, **identity: Any) -> None:
        self.path = tighten(Path(path).resolve())
        self.identity = {"format": FORMAT, **identity}

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every other process from opening it, for as long as this one has work with it."""
        with locked(self.path):
            self._is_held = True
            try:
                yield
            finally:
                self._is_held, self._saved = False, None

    @contextmanager
    def open(self) -> Iterator[dict[str, Any]]:
        """The document, which `save` puts back; one process at a time."""
        with nullcontext() if self._is_held else locked(self.path):
            yield self.read()

    def read(self) -> dict[str, Any]:
        """The document as it was saved last, to be looked at only."""
        text = self.path.read_bytes() if self.path.exists() else None
        if self._saved not in (None, text):
            raise JournalError(f"{self.path.name} was changed or removed while its room was open")
        if text is None:
            return {**self.identity, "runs": []}
        if self.path.stat().st_nlink > 1:
            raise JournalError(f"{self.path.name} has a second name (a hard link): remove one")
        try:
            found = json.loads(text)
            if not isinstance(found, dict) or not isinstance(found.get("runs"), list):
                raise ValueError
        except ValueError:
            raise JournalError(
                f"{self.path.name} is damaged: what was released is not known, so nothing more may"
                " be; start again with new data or ask for help"
            ) from None
        for name, value in self.identity.items():
            if found.setdefault(name, value) != value:  # an older journal does not say all of it
                raise JournalError(
                    f"{self.path.name} was kept for another {name}: {found[name]!r}, not {value!r}"
                )
        return found

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace the file: after this line the document survives a kill and a power cut."""
        text = json.dumps(document)
        write_private(self.path, text)
        self._saved = text.encode() if self._is_held else None
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# --- the runs of a client -------------------------------------------------------------------------


def entry(document: dict[str, Any], agreement: bytes, plan: Plan) -> dict[str, Any]:
    """What is kept of the run of this agreement; a new entry where there is none.

    `answered` is charged: the number of a release, the set of clients it was asked of (None: all)
    and the shapes of the answer. `totals` are those that came back, each with its set.
    """
    for run in document["runs"]:
        if run["agreement"] == agreement.hex():
            return run
    new = {
        "agreement": agreement.hex(), "planned": written(plan.entries()),
        "repeats": written(plan.repeats()), "nonce": "", "check": "", "session": "", "met": [],
        "answered": [], "totals": [], "last": None, "finished": False,
    }  # fmt: skip
    document["runs"].append(new)
    return new


def charged(ledger: PrivacyLedger, runs: Sequence[Mapping[str, Any]]) -> PrivacyLedger:
    """The ledger with all that these runs charged, each admitted as a whole as it was.

    `BudgetExceededError` where that is more than the budget.
    """
    for run in runs:
        # an older journal has how many these are
        numbers = [n for n, *_ in run["answered"]] if "answered" in run else range(run["charged"])
        if not numbers:
            continue
        planned = read_releases(run["planned"])
        reservation = ledger.admit(
            planned, repeats=read_releases(run.get("repeats", ())),
            name="a run before this one (the budget in room.toml must be that of all studies)",
        )  # fmt: skip
        division = ledger.new_division() if any(made.group for made in planned) else None
        for number in numbers:
            made = planned[number]
            part = made.group and f"division {division}/{made.group.rpartition('/')[2]}"
            ledger.charge(
                made.mechanisms, name=made.name, round=made.round, sampling=made.sampling,
                group=part, reservation=reservation, number=number,
            )  # fmt: skip
        ledger.close(reservation)
    return ledger


# --- where a run is, and what may come next -------------------------------------------------------


def state_of(mine: Kept) -> Literal["opened", "agreed", "answering", "done"]:
    """Where a run is, by what is kept of it; what a room takes in each state: module `room`."""
    if mine["finished"]:
        return "done"
    if mine["session"]:
        return "answering"
    return "agreed" if mine["nonce"] else "opened"


def named_set(study: Study, content: dict[str, np.ndarray], mine: Kept) -> list[int]:
    """The numbers of the set that a message names: large enough, and of those who began.

    It is taken out of the `content`.
    """
    n, there = study.n_clients, content.pop("set", None)
    if there is None or there.dtype != bool or there.shape != (n,):
        raise RefusedError("the message must say which clients it is about")
    who = np.flatnonzero(there).tolist()
    if len(who) < n - study.may_miss:
        raise RefusedError(
            f"{len(who)} of {n} clients are too few: {study.may_miss} may be missing"
        )
    if not {*who} <= {*mine["met"]}:
        raise RefusedError("the set has clients who were not there when the run began")
    return who


def check_repeat(
    study: Study, frame: Frame, who: list[int] | None, content: Mapping[str, np.ndarray], mine: Kept
) -> None:
    """The same release again: only of a set that is new, and while the plan has a repeat."""
    answered, said = mine["answered"], f"{frame.kind} {frame.number} was answered"
    sets = [asked for number, asked, _ in answered if number == frame.number]
    if who in sets or mine["last"]["content"] != packed(content):  # a second release
        raise RefusedError(f"{said} before, to another request")
    if len(answered) - len({number for number, *_ in answered}) >= study.repeats:
        raise RefusedError(
            f"{said} for another set of clients, and none of the {study.repeats} repeats of the"
            " plan is left"
        )


def check_next(study: Study, number: int, mine: Kept) -> None:
    """Releases come in their order; who may be missing leaves out some of those that it may."""
    answered, at = mine["answered"], len(mine["answered"])
    if study.may_miss and study.receiver == "clients":
        at = len(mine["totals"])
    elif study.may_miss:
        at = max(answered[-1][0] if answered else 0, number)
    if number != at:
        raise RefusedError(f"release {at} is the next one, not release {number}")


# --- what is kept, as JSON ------------------------------------------------------------------------


def packed(arrays: Mapping[str, np.ndarray]) -> str:
    """Arrays as text."""
    return base64.b64encode(encode(Frame("total", bytes(8), 0, 0, arrays))).decode()


def unpacked(text: str) -> dict[str, np.ndarray]:
    """The arrays of `packed`."""
    return dict(decode(base64.b64decode(text)).arrays)


def written(releases: Sequence[Entry]) -> list[Any]:
    """Entries of a ledger as JSON."""
    return [
        [
            r.round, r.name, r.unit, r.adjacency, [_mechanism(m) for m in r.mechanisms], r.group,
            *([] if r.sampling is None else [asdict(r.sampling)]),
        ]
        for r in releases
    ]  # fmt: skip


def read_releases(entries: Sequence[Any]) -> list[Entry]:
    """The entries of `written`; an older journal has no group, and no sampling."""
    return [
        Entry(
            t, name, tuple(MECHANISMS[kind](**own) for kind, own in noise), unit, adjacency,
            Sampling(**rest[1]) if len(rest) > 1 else None, rest[0] if rest else None,
        )
        for t, name, unit, adjacency, noise, *rest in entries
    ]  # fmt: skip


def _mechanism(mechanism: Any) -> list[Any]:
    kind = type(mechanism).__name__
    if MECHANISMS.get(kind) is not type(mechanism):
        raise TypeError(f"mechanism {kind} cannot be kept in a journal")
    return [kind, {f.name: getattr(mechanism, f.name) for f in fields(mechanism)}]
