"""What a client may answer next, by what its journal says that it has answered.

Functions of a study, a message, and `mine`: what is kept of the run (`journal.entry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedclust.flower.agreement import RefusedError
from fedclust.flower.journal import packed
from fedclust.flower.messages import Frame
from fedclust.flower.study import Study

Kept = Mapping[str, Any]


def named_set(study: Study, there: np.ndarray | None, mine: Kept) -> list[int]:
    """The numbers of a set that a message names: large enough, and of those who began."""
    n = study.n_clients
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


def asked_of(
    study: Study, number: int, frame: Frame, mine: Kept
) -> tuple[list[int] | None, dict[str, np.ndarray]]:
    """The set that a release is asked of (None: all), client `number` in it, and the rest."""
    content = dict(frame.arrays)
    if frame.kind != "release" or not study.may_miss:
        return None, content
    who = named_set(study, content.pop("set", None), mine)
    if number not in who:
        raise RefusedError(f"client {number} is not of the set that is asked")
    return None if len(who) == study.n_clients else who, content


def check_repeat(
    study: Study, frame: Frame, who: list[int] | None, content: Mapping[str, np.ndarray], mine: Kept
) -> None:
    """The same release again: only of a set that is new, and while the plan has a repeat."""
    answered = mine["answered"]
    sets = [asked for number, asked, _ in answered if number == frame.number]
    if who in sets or mine["last"]["content"] != packed(content):  # a second release
        raise RefusedError(f"{frame.kind} {frame.number} was answered before, to another request")
    if len(answered) - len({number for number, *_ in answered}) >= study.repeats:
        raise RefusedError(
            f"{frame.kind} {frame.number} was answered for another set of clients, and none of"
            f" the {study.repeats} repeats of the plan is left"
        )


def check_turn(study: Study, number: int, mine: Kept) -> None:
    """Releases come in their order; who may be missing leaves out some of those that it may."""
    answered, totals = mine["answered"], mine["totals"]
    at = len(answered)
    if study.may_miss:
        at = answered[-1][0] if answered else 0
        at = len(totals) if study.receiver == "clients" else max(at, number)
    if number != at:
        raise RefusedError(f"release {at} is the next one, not release {number}")
