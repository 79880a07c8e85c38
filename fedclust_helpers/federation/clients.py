"""What the clients of a simulation compute of their own rows: whatever happens, they answer.

A client whose computation fails answers as one without rows would, a user as for the point 0:
others who see that it failed would learn about its rows, free of charge. What fails in every
client is an error of the program, raised after the charge.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics import ClientMemory, ClientStatistic
from fedclust_helpers.federation.checks import are_answers
from fedclust_helpers.federation.data import ClientData, warn_if_mostly_clipped
from fedclust_helpers.federation.reports import LocalQuery, Reports
from fedclust_helpers.mechanisms import NoiseSource

log = logging.getLogger(__name__)
BLOCK = 2**18  # numbers that clients whose answers add up compute at once
Shapes = Sequence[tuple[int, ...]]
Cohort = IntArray | None  # numbers of clients; None: everyone


class Clients:
    """The rows of all clients, and what they keep from round to round.

    `clipped_counts` (M,) are the rows that each of them clipped: known to it alone, never sent.
    """

    def __init__(
        self, data: ClientData, clipped: IntArray, memory: ClientMemory | None = None
    ) -> None:
        self.data, self.clipped_counts = data, clipped
        self.memory = memory or ClientMemory(data.n_clients)
        self.begin()

    @classmethod
    def clipping(cls, data: ClientData, bound: float, domain: str) -> Clients:
        """Clients who clip their rows to the bound first, or keep them as they are ("raw")."""
        if domain == "raw":
            return RawClients(data, np.zeros(data.n_clients, dtype=np.int64))
        if not data.is_complete:
            raise ValueError("clients must have no missing numbers (nan) but in domain 'raw'")
        inside, clipped = data.clipped(bound, domain=domain)
        warn_if_mostly_clipped(data, clipped)
        return Clients(inside, clipped)

    def seen_by(self, statistic: ClientStatistic) -> Clients:
        """The same clients, with their rows as this statistic takes them."""
        return self

    def scale(self, lower: FloatArray, upper: FloatArray, bound: float) -> None:
        """Take public bounds (d,) for rows that are as they are."""
        raise ValueError("domain must be 'raw' to scale rows: these were clipped before")

    @contextmanager
    def together(self, statistic: ClientStatistic, cohort: Cohort) -> Iterator[None]:
        """For one process that plays all clients: RuntimeError if none of them can answer.

        One of several is never told apart, also where only it was drawn.
        """
        self.begin()
        yield
        if self.failed and (cohort is None or len(cohort) > 1):
            raise failed_everywhere(f"statistic {statistic.name!r}")

    def begin(self) -> None:
        """A new release: nobody has failed in it yet."""
        self._failed, self._answered = False, False

    @property
    def failed(self) -> bool:
        """Whether in this release all computations of these clients failed."""
        return self._failed and not self._answered

    def values(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], shapes: Shapes,
        cohort: Cohort = None,
    ) -> Sequence[FloatArray]:  # fmt: skip
        """The statistic of everyone or of a cohort, a row for each."""
        clients = np.arange(self.data.n_clients) if cohort is None else cohort
        made = self._computed(statistic, broadcast, cohort) if len(clients) else None
        if made is not None:
            return made
        values = [np.zeros((len(clients), *shape)) for shape in shapes]
        for i in range(len(clients) if len(clients) > 1 else 0):
            alone = self._computed(statistic, broadcast, clients[i : i + 1])
            if alone is not None and [a.shape[1:] for a in alone] == shapes:
                for value, own in zip(values, alone, strict=True):
                    value[i] = own[0]
        return values

    def added(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], shapes: Shapes, cohort: Cohort,
        encode: Callable[[FloatArray, Any], Any], mechanisms: Sequence[Any],
    ) -> Sequence[Any]:  # fmt: skip
        """The sums of each client's `values` as `encode` makes them, part by part, in one row.

        `BLOCK` numbers at a time, or one client: whole steps add up exactly in any order.
        """
        clients = np.arange(self.data.n_clients) if cohort is None else cohort
        at_once = max(1, BLOCK // max(1, sum(math.prod(shape) for shape in shapes)))
        totals: list[Any] = [0] * len(shapes)
        for first in range(0, max(1, len(clients)), at_once):
            some = self.values(statistic, broadcast, shapes, clients[first : first + at_once])
            for i, (value, mechanism) in enumerate(zip(some, mechanisms, strict=True)):
                totals[i] += encode(value, mechanism).sum(axis=0, keepdims=True)
        return totals

    def pooled(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], cohort: Cohort
    ) -> Sequence[FloatArray] | None:
        """The sums over them, in one row; None where they are not to be had at once."""
        at_once = statistic.pooled is not None or statistic.unit == "point"
        if not at_once or (cohort is not None and not len(cohort)):
            return None
        return self._computed(statistic, broadcast, cohort, pooled=True)

    def _computed(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], cohort: Cohort, *,
        pooled: bool = False,
    ) -> Sequence[FloatArray] | None:  # fmt: skip
        """The statistic of all these clients, or the sums over them; None where it fails."""
        data = self.data if cohort is None else self.data.take(cohort)
        memory = self.memory if cohort is None else self.memory.of(cohort)
        own: dict[str, Any] = {"labels": data.labels, "memory": memory}
        given = {name: own[name] for name in statistic.reads} | broadcast
        offsets, n = data.offsets, 1 if pooled else data.n_clients
        try:
            with np.errstate(all="ignore"):
                if pooled and statistic.pooled is not None:
                    values = tuple(v[None] for v in statistic.pooled(data.points, offsets, **given))
                else:  # additive over rows: the sum over clients is that of one who has all
                    edges = offsets[[0, -1]] if pooled else offsets
                    values = statistic.compute(data.points, edges, **given)
            if are_answers(values, n):
                self._answered = True
                return values
        except Exception:  # its text may speak of the rows: it stays here
            log.exception("%s failed", statistic.name)
        self._failed = True
        return None


class RawClients(Clients):
    """Rows as they are; in a box too, once bounds of their columns are public."""

    _scaled: Clients | None = None

    def seen_by(self, statistic: ClientStatistic) -> Clients:
        """As they are for a statistic that takes them so; for others in the box."""
        if statistic.domain == "raw":
            return self
        if self._scaled is None:
            raise ValueError(f"{statistic.name!r} needs rows in a box: their bounds are not public")
        return self._scaled

    def scale(self, lower: FloatArray, upper: FloatArray, bound: float) -> None:
        """Map the rows between these bounds to [-bound, bound]^d, and clip them."""
        self._scaled = Clients(*self.data.in_box(lower, upper, bound), self.memory)
        self.clipped_counts = self._scaled.clipped_counts


def failed_everywhere(what: str) -> RuntimeError:
    """What fails in every client is the program's fault."""
    return RuntimeError(
        f"{what} failed in every client: an error of the program, not of some rows (the log says"
        " where)"
    )


def responses(
    query: LocalQuery, points: FloatArray, users: IntArray, *, rng: NoiseSource
) -> tuple[Reports, int]:
    """The reports of these users, and of how many it failed: what fails is still randomised."""
    try:
        with np.errstate(all="ignore"):
            return query.respond(points, users, rng=rng), 0
    except Exception:  # its text may speak of the points: it stays here
        log.exception("%s failed", query.name)
    if len(users) == 1:
        return query.respond(np.zeros_like(points), users, rng=rng), 1
    alone = [responses(query, points[[i]], users[[i]], rng=rng) for i in range(len(users))]
    reports, failed = zip(*alone, strict=True)
    return tuple(np.concatenate(column) for column in zip(*reports, strict=True)), sum(failed)
