"""Requests on their way: from an algorithm into a plan, or along a plan to a federation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from fedclust_helpers.federation import Federation, Plan, PlannedRelease
from fedclust_helpers.program.public import Public

Steps = Generator[Any, Any, Any]  # of requests, or tuples of them; mypy cannot tell the answers


def frozen(value: Any) -> Any:
    """An array as a copy that nobody writes to; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


class Request:
    """What an algorithm yields: it is charged by its `line` of the plan, if it has one."""

    numbers: Mapping[str, Any] = {}  # that are broadcast, known with the line

    def line(self, session: Session) -> PlannedRelease | None:
        """The release as the plan has it; None: nothing is charged."""
        return None

    def blank(self, session: Session, line: Any) -> Any:
        """The answer in a dry run: nobody is there."""

    def made(self, session: Session, line: Any) -> Any:
        """The answer of a federation."""


def drive(steps: Steps, reply_to: Callable[[Any], Any]) -> Any:
    """What an algorithm returns when `reply_to` answers it."""
    reply = None
    try:
        while True:
            reply = reply_to(steps.send(reply))
    except StopIteration as end:
        return end.value


class Session:
    """Requests on their way: into a plan that is being written, or along a plan that it `follows`.

    A tuple of requests is one round of messages: all of it is looked at before any of it is made.
    With an `rng` a dry run is answered by noise alone.
    """

    def __init__(
        self, federation: Federation, public: Public, follows: Plan | None = None, *,
        rng: np.random.Generator | None = None, forms: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.federation, self.public, self.follows, self.rng = federation, public, follows, rng
        self.forms: dict[Any, Any] = {} if forms is None else forms  # lines that are known
        self.lines: list[PlannedRelease] = []
        self.sent: list[tuple[tuple[str, Any], ...]] = []
        self.parts: dict[str, float] = {}  # of a division of the users
        self.held: Any = None  # what a boundary keeps between the two halves of a release
        self.n_rounds = 0

    def look(self, asked: Any) -> list[tuple[Request, PlannedRelease | None]]:
        """The requests of a round with their lines; refused where these are not the plan's next."""
        requests = asked if isinstance(asked, tuple) else (asked,)
        lines = [request.line(self) for request in requests]
        released = [line for line in lines if line is not None]
        for line in released:
            if self.follows is not None:
                self.follows.check_release(len(self.lines), line)
            self.lines.append(line)
        self.sent += [
            tuple(r.numbers.items()) for r, line in zip(requests, lines, strict=True) if line
        ]
        self.n_rounds += bool(released)
        return list(zip(requests, lines, strict=True))

    def __call__(self, asked: Any) -> Any:
        """The answer of a dry run to a request, or to each of a tuple of them."""
        replies = [request.blank(self, line) for request, line in self.look(asked)]
        return tuple(replies) if isinstance(asked, tuple) else replies[0]
