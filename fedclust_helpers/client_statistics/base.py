"""The type of a client statistic: a pure function with what one record can change in it."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers._validation import (
    FloatArray,
    check_choice,
)
from fedclust_helpers.accounting import UNITS
from fedclust_helpers.client_statistics.broadcasts import Takes, checked_broadcast, plain

Values = tuple[FloatArray, ...]
STATISTICS: dict[str, ClientStatistic] = {}
"""Every statistic of this package by the name that a remote client would be sent."""


class Change(NamedTuple):
    """What one record (or client) adds to a part of a statistic, at most, over all of its rows.

    `l1` and `l2` bound its norms, `most` the size of one coordinate (for range checks), `touched`
    is how many coordinates it reaches (each is rounded), and `replaced` bounds the L2 norm of one
    such addition less another: twice `l2`, unless it is known to be less. `whole` parts are
    integers: a grid that holds all integers leaves them as they are.

    >>> from fedclust_helpers.client_statistics import SUMS_AND_COUNTS
    >>> SUMS_AND_COUNTS.changes(bound=1.0, n_features=4)["sums"].l2
    2.0
    """

    l1: float
    l2: float
    most: float
    touched: int = 1
    replaced: float | None = None
    whole: bool = False


COUNT = Change(1.0, 1.0, 1.0, replaced=float(np.sqrt(2)), whole=True)
"""One record changes one count by 1; a replaced one may change two (L1 = 2, L2 = sqrt 2)."""


def vector(length: float, n: int) -> Change:
    """A vector of `n` numbers cut to Euclidean length `length`."""
    return Change(float(np.sqrt(n)) * length, length, length, n)


def weights(total: float, n: int, *, most: float = np.inf) -> Change:
    """`n` numbers of at most `most` cut to L1 norm `total`."""
    return Change(total, total, min(most, total), n)


class ClientMemory:
    """What each client keeps for itself from round to round; it never crosses the wire.

    One array (M, ...) for each name, a row for each client; a client reads and writes its own row.
    `of` is the same memory, seen by some of the clients.
    """

    def __init__(self, n_clients: int) -> None:
        self.n_clients = n_clients
        self._chosen: np.ndarray | None = None  # all: a million users need no list of themselves
        self._arrays: dict[str, np.ndarray] = {}

    @property
    def _clients(self) -> np.ndarray:
        return np.arange(self.n_clients) if self._chosen is None else self._chosen

    def of(self, clients: np.ndarray) -> ClientMemory:
        """The same memory, seen by `clients` only."""
        view = ClientMemory(self.n_clients)
        view._chosen = clients
        view._arrays = self._arrays
        return view

    def _part(self, chosen: slice) -> ClientMemory:
        """The same memory, seen by some of those who see it here."""
        return self.of(self._clients[chosen])

    def get(self, name: str) -> np.ndarray | None:
        """A copy of the rows (m, ...) kept under `name`, or None; rows never written are 0."""
        array = self._arrays.get(name)
        return None if array is None else array[self._clients]

    def put(self, name: str, rows: np.ndarray, *, where: np.ndarray | None = None) -> None:
        """Keep `rows` under `name`: one for each client, or for those with ``where[i]`` only."""
        chosen = self._clients if where is None else self._clients[where]
        kept = self._arrays.get(name)
        if kept is None or (kept.shape[1:], kept.dtype) != (rows.shape[1:], rows.dtype):
            kept = np.zeros((self.n_clients, *rows.shape[1:]), dtype=rows.dtype)
            self._arrays[name] = kept
        kept[chosen] = rows

    def forget(self, *names: str) -> None:
        """Drop what is kept under `names`: a new run starts afresh."""
        for name in names:
            self._arrays.pop(name, None)


@dataclass(frozen=True)
class ClientStatistic:
    """An additive statistic of one or more arrays, computed in one pass over the client's rows.

    A client knows it by its `name`. ``compute(points, offsets, **broadcast)`` gives an array (M,
    ...) for each of the `parts` (they are released together): a row for each client whose rows are
    ``offsets[i]:offsets[i+1]``. `pooled` is its sum over all clients, where that can be had without
    an array per client. ``changes(**public)`` gives the `Change` of each part, over all clusters
    jointly, by one `unit`. Public are bound and n_features of the federation, the numbers that are
    broadcast, and n_clusters and n_server_points, read off the broadcast arrays.

    `reads` names what else of its own a client hands to `compute`: "labels" (N,), None where it has
    none, and "memory", what it kept from earlier rounds (`ClientMemory`). `domain` is where rows
    must lie for the sensitivity to hold: anywhere, in [-bound, bound]^d, or within length `bound`;
    a federation that clips to a larger set refuses the statistic. What clients send of a statistic
    that `remembers` depends on rounds in which they took part before.

    Does sampling amplify then? **Poisson: yes.** Tell the attacker in which rounds the others took
    part: that has the same law whether client i is there or not. Given it and what was released so
    far, the others' messages are the same in both worlds. Client i joins by a fresh coin, whatever
    it remembers: the release is N(b) without it, and with it (1 - q) N(b) + q N(b + u), u drawn
    from its past but never longer than its clip. Divergences are convex, so the longest u is the
    worst: each round, given all before, is bounded by the pair of a client that remembers nothing,
    and such pairs compose. **Fixed size: not proved.** There the others' rounds tell that of
    client i, and what they remember depends on whose place was taken: b is another in both worlds.
    A cohort of fixed size is charged as if everyone took part.

    `takes` and `rule` say which broadcasts there are (`broadcasts`). For each of them `compute` is
    total: it raises for no finite rows, gives finite numbers, and the sensitivity holds.

    >>> from fedclust_helpers.client_statistics import TOTAL
    >>> TOTAL.parts, TOTAL.unit, TOTAL.changes(bound=1.0, n_features=4)["total"].l2
    (('total',), 'point', 2.0)
    """

    name: str
    parts: tuple[str, ...]
    compute: Callable[..., Values]
    changes: Callable[..., Mapping[str, Change]]
    unit: str = "point"
    pooled: Callable[..., Values] | None = None
    reads: tuple[str, ...] = ()
    domain: Literal["raw", "any", "box", "ball"] = "any"
    remembers: bool = False
    takes: Takes = field(default_factory=dict, hash=False)
    rule: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        check_choice(self.domain, "domain", ("raw", "any", "box", "ball"))
        check_choice(self.unit, "unit", UNITS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name where this package knows it, so that plans and results can be kept."""
        if STATISTICS.get(self.name) is self:
            return _by_name, (self.name,)
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

    def fits(self, domain: str) -> bool:
        """Whether rows clipped to a "box" or "ball" of the same bound lie in this domain.

        A "raw" federation gives rows as they are to statistics that take them so, and to others
        rows in a box.
        """
        given = "box" if domain == "raw" else domain
        return self.domain in ("raw", "any", given) or (self.domain, given) == ("box", "ball")

    def broadcast(self, given: Mapping[str, Any], n_features: int) -> dict[str, Any]:
        """What is broadcast as Python numbers and arrays; ValueError or TypeError if it is wrong.

        `changes` and `compute` are to get this, and nothing but this.
        """
        return checked_broadcast(given, self.takes, self.rule, n_features)

    def sensitivity_of(
        self, part: str, norm: int, adjacency: str, *, grid: float = 0.0, **public: Any
    ) -> float:
        """Sensitivity of one part in the L1 or L2 norm, after rounding to multiples of `grid`.

        A replaced record counts as one removed and one added. Rounding moves each coordinate of a
        difference by at most one grid step, and one record reaches ``Change.touched`` of them, t
        say, so the slack is t*grid (L1) or sqrt(t)*grid (L2): FastLloyd's Appendix A.3, corrected.
        """
        if public.get("bound", 1.0) > 1e100:
            raise ValueError("bound must be at most 1e100")
        change = self.changes(**public)[part]
        l1, l2, touched = change.l1, change.l2, change.touched
        if adjacency == "replace-one":
            l1, l2 = 2 * l1, 2 * l2 if change.replaced is None else change.replaced
            touched *= 2
        bound = l1 if norm == 1 else l2
        if not bound >= 0:
            raise ValueError(f"the sensitivity of {self.name!r} must be >= 0, got {bound}")
        if grid == 0 or (change.whole and _holds_integers(grid)):
            return bound
        return bound + grid * (touched if norm == 1 else np.sqrt(touched))


def known(*parts: str, **attributes: Any) -> Callable[[Callable[..., Values]], ClientStatistic]:
    """The statistic of a function, under the function's name in `STATISTICS`; its attributes."""

    def enter(compute: Callable[..., Values]) -> ClientStatistic:
        made = ClientStatistic(compute.__name__.lower(), parts, compute, **attributes)
        if STATISTICS.setdefault(made.name, made) is not made:  # clients know it by name
            raise ValueError(f"name {made.name!r} is taken by another statistic")
        return made

    return enter


def public_numbers(broadcast: Mapping[str, Any]) -> dict[str, Any]:
    """The public numbers in what clients receive: scalars and names, and the counts of rows."""
    numbers = {k: plain(v, k) for k, v in broadcast.items() if np.ndim(v) == 0}
    rows = {"n_clusters": "centers", "n_server_points": "server_points"}
    return numbers | {n: len(broadcast[array]) for n, array in rows.items() if array in broadcast}


def _by_name(name: str) -> ClientStatistic:
    return STATISTICS[name]


def _holds_integers(grid: float) -> bool:
    """Whether every integer is a multiple of `grid`."""
    steps = 1 / grid
    return steps >= 1 and steps == round(steps)
