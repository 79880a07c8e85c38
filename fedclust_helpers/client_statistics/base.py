"""The type of a client statistic: a pure function with its sensitivity."""

from __future__ import annotations

import copyreg
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    as_integers,
    check_choice,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import ADJACENCIES, UNITS

Values = tuple[FloatArray, ...]


@checked
class ClientMemory:
    """What each client keeps for itself from round to round; it never crosses the wire.

    One array (M, ...) for each name, a row for each client; a client reads and writes its own row.
    `of` is the same memory, seen by some of the clients.
    """

    def __init__(self, n_clients: int) -> None:
        self.n_clients = check_int(n_clients, "n_clients", minimum=0)
        self._chosen: np.ndarray | None = None  # all: a million users need no list of themselves
        self._arrays: dict[str, np.ndarray] = {}

    @property
    def _clients(self) -> np.ndarray:
        return np.arange(self.n_clients) if self._chosen is None else self._chosen

    @checked
    def of(self, clients: np.ndarray) -> ClientMemory:
        """The same memory, seen by `clients` only."""
        view = ClientMemory(self.n_clients)
        view._chosen = as_integers(clients, "clients", minimum=0, maximum=self.n_clients - 1)
        view._arrays = self._arrays
        return view

    @checked
    def get(self, name: str) -> np.ndarray | None:
        """A copy of the rows (m, ...) kept under `name`, or None; rows never written are 0."""
        array = self._arrays.get(name)
        return None if array is None else array[self._clients]

    @checked
    def put(self, name: str, rows: np.ndarray, *, where: np.ndarray | None = None) -> None:
        """Keep `rows` under `name`: one for each client, or for those with ``where[i]`` only."""
        rows, chosen = np.asarray(rows), self._clients
        if where is not None:
            where = np.asarray(where)
            if (where.shape, where.dtype) != (chosen.shape, np.bool_):
                raise TypeError(f"where must be {len(chosen)} bools, one for each client")
            chosen = chosen[where]
        if rows.shape[:1] != chosen.shape:
            raise ValueError(f"rows must be {len(chosen)}, one for each client, got {rows.shape}")
        kept = self._arrays.get(name)
        if kept is None or (kept.shape[1:], kept.dtype) != (rows.shape[1:], rows.dtype):
            kept = np.zeros((self.n_clients, *rows.shape[1:]), dtype=rows.dtype)
            self._arrays[name] = kept
        kept[chosen] = rows

    def forget(self, *names: str) -> None:
        """Drop what is kept under `names`: a new run starts afresh."""
        for name in names:
            self._arrays.pop(name, None)


def _one_row(*, n_features: int, **_: Any) -> int:
    """One record touches the d coordinates of one row of the statistic."""
    return n_features


def _read_off(broadcast: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of clusters and of server points, read off the arrays that clients receive."""
    rows = {"n_clusters": "centers", "n_server_points": "server_points"}
    return {name: len(broadcast[array]) for name, array in rows.items() if array in broadcast}


def _same_grid(grid: float) -> bool:
    """Whether every integer is a multiple of `grid`."""
    steps = 1 / grid
    return steps >= 1 and steps == round(steps)


@checked
@dataclass(frozen=True)
class ClientStatistic:
    """An additive statistic of one or more arrays, computed in one pass over the client's rows.

    Attributes
    ----------
    name : str
        Under which a client knows the function.
    parts : tuple of str
        Names of the arrays it returns (they are released together).
    compute : callable
        ``compute(points, offsets, **broadcast) -> tuple of arrays of shape (M, ...)``, one row for
        each client whose rows are ``offsets[i]:offsets[i+1]``.
    sensitivity : callable
        ``sensitivity(adjacency, **public) -> {part: (l1, l2)}``: how much one record changes each
        part, over all clusters jointly.
    magnitude : callable
        ``magnitude(**public) -> {part: float}``: the largest absolute value one record adds to one
        coordinate. Used for range checks from public bounds.
    integral : tuple of str
        Parts whose exact values are integers (rounding to a grid that holds all integers leaves
        them as they are).
    unit : str
        Whose presence the sensitivity speaks of: one "point", unless it says otherwise.
    pooled : callable, optional
        The sum of `compute` over all clients, where it can be had without an array per client.
    n_touched : callable
        ``n_touched(**public) -> int``: how many coordinates one record or client can change, for
        the slack of rounding.
    reads : tuple of {"labels", "memory"}
        What else of its own a client hands to `compute`: ``labels`` (N,), None where it has none,
        and ``memory``, what it kept from earlier rounds (`ClientMemory`).
    domain : {"any", "box", "ball"}
        Where rows must lie for the sensitivity to hold: anywhere, in [-bound, bound]^d, or within
        length `bound`. A federation that clips its rows to a larger set refuses the statistic.
    remembers : bool
        Whether what a client sends depends on rounds in which it took part before. Amplification
        round by round is not proved then: a sampled release is charged as if everyone took part.
    dimensions : callable
        ``dimensions(broadcast) -> {name: int}``: public numbers that the sensitivity needs and that
        the broadcast arrays tell.
    """

    name: str
    parts: tuple[str, ...]
    compute: Callable[..., Values]
    sensitivity: Callable[..., Mapping[str, tuple[float, float]]]
    magnitude: Callable[..., Mapping[str, float]]
    integral: tuple[str, ...] = ()
    unit: str = "point"
    pooled: Callable[..., Values] | None = None
    n_touched: Callable[..., int] = _one_row
    reads: tuple[str, ...] = ()
    domain: Literal["any", "box", "ball"] = "any"
    remembers: bool = False
    dimensions: Callable[[Mapping[str, Any]], Mapping[str, int]] = _read_off

    def __post_init__(self) -> None:
        check_choice(self.domain, "domain", ("any", "box", "ball"))
        check_choice(self.unit, "unit", UNITS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name where this package knows it, so that plans and results can be kept."""
        package = importlib.import_module(__name__.rpartition(".")[0])
        for name, value in vars(package).items():
            if value is self:
                return _by_name, (name,)
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

    @checked
    def fits(self, domain: str) -> bool:
        """Whether rows clipped to a "box" or "ball" of the same bound lie in this domain."""
        check_choice(domain, "domain", ("box", "ball"))
        return self.domain in ("any", domain) or (self.domain, domain) == ("box", "ball")

    @checked
    def sensitivity_of(
        self, part: str, norm: int, adjacency: str, *, grid: float = 0.0, **public: Any
    ) -> float:
        """Sensitivity of one part in the L1 or L2 norm, after rounding to multiples of `grid`.

        Rounding moves each coordinate of a difference by at most one grid step, and one record
        touches `d` coordinates, so the slack is d*grid (L1) or sqrt(d)*grid (L2): the corrected
        statement of FastLloyd's Appendix A.3. Integer parts have none on a grid that holds all
        integers; on a coarser one they are rounded like the others.
        """
        check_choice(adjacency, "adjacency", ADJACENCIES)
        check_choice(part, "part", self.parts)
        check_int(norm, "norm", maximum=2)
        check_non_negative(grid, "grid")
        check_int(public["n_features"], "n_features")
        check_positive(public.get("bound", 1.0), "bound")
        bound = self.sensitivity(adjacency, **public)[part][norm - 1]
        if grid == 0 or (part in self.integral and _same_grid(grid)):
            return bound
        touched = self.n_touched(**public) * (1 if adjacency == "add/remove" else 2)
        return bound + grid * (touched if norm == 1 else np.sqrt(touched))


def _by_name(name: str) -> ClientStatistic:
    """The statistic of this name in the package."""
    found: ClientStatistic = getattr(importlib.import_module(__name__.rpartition(".")[0]), name)
    return found


@checked
def twice_if_replaced(adjacency: str, l1: float, l2: float) -> tuple[float, float]:
    """Replace-one is one removal and one addition: both may count in full."""
    factor = 1 if adjacency == "add/remove" else 2
    return factor * l1, factor * l2


@checked
def count_sensitivity(adjacency: str) -> tuple[float, float]:
    """One record changes one count by 1; a replaced one may change two (L1 = 2, L2 = sqrt 2)."""
    return (1.0, 1.0) if adjacency == "add/remove" else (2.0, float(np.sqrt(2)))
