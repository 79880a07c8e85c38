"""The entries of a ledger: mechanisms on one sample, and how the sample was drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from fedclust_helpers._checked import checked
from fedclust_helpers._lazy import dpa
from fedclust_helpers._validation import Rate, check_int, check_share
from fedclust_helpers.accounting.discrete import Gap

ADJACENCIES = ("add/remove", "replace-one")
UNITS = ("point", "client", "person")


class LedgerMismatchError(ValueError):
    """A release of another unit or adjacency was offered to a ledger: the two do not compose."""


@runtime_checkable
class Accountable(Protocol):
    """What the ledger needs to know of a mechanism."""

    @property
    def adjacency(self) -> str: ...

    @property
    def gdp_mu(self) -> float | None:
        """The mu of its exact Gaussian-DP guarantee, or None."""

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of its pure guarantee (inf if there is none)."""

    @property
    def rho(self) -> float | None:
        """The rho of its zero-concentrated guarantee, or None where it has only a pure one."""

    def dp_event(self) -> dpa.DpEvent: ...


class Pure:
    """How a mechanism is reported of which only a pure epsilon is known, by default its own."""

    epsilon: Any
    gdp_mu: ClassVar[float | None] = None
    rho: ClassVar[float | None] = None

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of its pure guarantee."""
        known: float = self.epsilon
        return known

    def dp_event(self) -> dpa.DpEvent:
        """Binary randomised response of the same epsilon, which dominates every pure mechanism.

        As an event: discrete Laplace noise at a sensitivity of one step. (Continuous Laplace noise
        of the same epsilon does not dominate: on a coarse grid its delta is too small.)
        """
        return dpa.dp_event.DiscreteLaplaceDpEvent(self.pure_epsilon, 1)


def added(values: Iterable[float | None]) -> float | None:
    """The sum of the values, or None if one of them is None."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def squared(value: float | None) -> float | None:
    """The square, inf where it overflows; None for None."""
    return None if value is None else value * value


@checked
@dataclass(frozen=True)
class Sampling:
    """How the records of one joint release were drawn, and in which way that stays secret.

    ``Sampling("poisson", rate=q)`` amplifies under add/remove; ``Sampling("fixed", size=m,
    population=n)`` is sampling without replacement and amplifies under replace-one. Both hold only
    while nobody but the data holders learns who was drawn. Numbers of the other scheme are refused.

    >>> Sampling("fixed", size=10, population=100).scheme
    'fixed'
    """

    scheme: Literal["poisson", "fixed"]
    rate: Rate | None = None
    size: int | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        if self.scheme == "poisson":
            if self.size is not None or self.population is not None:
                raise ValueError("size and population go with scheme 'fixed', not with 'poisson'")
            check_share(self.rate, "rate", one=True)
        else:
            if self.rate is not None:
                raise ValueError("rate goes with scheme 'poisson', not with 'fixed'")
            population = check_int(self.population, "population")
            check_int(self.size, "size", maximum=population)

    @property
    def adjacency(self) -> str:
        """The neighbouring relation in which this scheme amplifies."""
        return "add/remove" if self.scheme == "poisson" else "replace-one"

    @property
    def share(self) -> float:
        """Probability with which one client is drawn."""
        if self.rate is not None:
            return self.rate
        assert self.size is not None and self.population is not None
        return self.size / self.population

    def wrap(self, event: dpa.DpEvent) -> dpa.DpEvent:
        """The sampled event of ``dp-accounting``; `event` itself where it cannot bound that."""
        laplace = isinstance(event, dpa.LaplaceDpEvent) and self.scheme == "poisson"
        if not (isinstance(event, dpa.GaussianDpEvent) or laplace):
            return event
        if self.scheme == "poisson":
            return dpa.PoissonSampledDpEvent(self.rate, event)
        return dpa.SampledWithoutReplacementDpEvent(self.population, self.size, event)


@dataclass(frozen=True)
class Entry:
    """A release on the ledger: mechanisms that were applied to one and the same sample.

    `LedgerMismatchError` if one of them, or the sampling scheme, speaks of another adjacency.

    >>> from fedclust_helpers.accounting import PrivacyLedger
    >>> from fedclust_helpers.mechanisms import Gaussian
    >>> PrivacyLedger().charge([Gaussian(1.0, 2.0)], round=0, name="a sum").gdp_mu
    0.5
    """

    round: int
    name: str
    mechanisms: tuple[Accountable, ...]
    unit: str
    adjacency: str
    sampling: Sampling | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for mechanism in self.mechanisms:
            if mechanism.adjacency != self.adjacency:
                raise LedgerMismatchError(
                    f"release {self.name!r} is calibrated for {mechanism.adjacency}, this ledger is"
                    f" kept for {self.adjacency}; convert the mechanism first (as_replace_one)"
                )
        if self.sampling is not None and self.sampling.adjacency != self.adjacency:
            raise LedgerMismatchError(
                f"{self.sampling.scheme} sampling amplifies under {self.sampling.adjacency}, this"
                f" ledger is kept for {self.adjacency}"
            )

    @property
    def gdp_mu(self) -> float | None:
        """Joint mu (squares add up), or None if a mechanism has none or the release is sampled."""
        square = added(squared(m.gdp_mu) for m in self.mechanisms)
        return None if square is None or self.sampling is not None else math.sqrt(square)

    @property
    def rho(self) -> float | None:
        """Joint rho (sum), or None if some mechanism has none or the release is sampled."""
        return None if self.sampling is not None else added(m.rho for m in self.mechanisms)

    @property
    def sampled_rho(self) -> float | None:
        """Joint rho of a *sampled* release with discrete noise, whose curve `renyi` amplifies.

        None where the library amplifies the release itself (Gaussians) or where no curve is known.
        """
        if self.sampling is None or all(m.gdp_mu is not None for m in self.mechanisms):
            return None
        rho = added(m.rho for m in self.mechanisms)
        return rho if rho is not None and math.isfinite(rho) else None

    def continuous(self) -> tuple[Entry, Gap]:
        """This release with its discrete noise made continuous where the gap is known, and the gap.

        That of which the gap is not known stays as it is.
        """
        drawn: tuple[Any, ...] = self.mechanisms
        pairs = [_continuous(m) if hasattr(m, "continuous") else None for m in drawn]
        if not any(pairs):
            return self, Gap()
        made = tuple(p[0] if p else m for m, p in zip(self.mechanisms, pairs, strict=True))
        return replace(self, mechanisms=made), Gap.sum(p[1] for p in pairs if p)

    @property
    def pure_epsilon(self) -> float:
        """Joint pure epsilon (sum; sampling is ignored, which is an upper bound)."""
        return math.fsum(m.pure_epsilon for m in self.mechanisms)

    def dp_event(self) -> dpa.DpEvent:
        """This release as one event of ``dp-accounting``.

        Gaussians on one sample are merged into one Gaussian with 1/z^2 = sum 1/z_i^2, which is
        exact and the only interior that all sampled accountants take. Another interior is charged
        as if everyone took part, which is an upper bound (the one exception: one Laplace vector
        under Poisson sampling); the totals of a ledger amplify discrete noise by `sampled_rho`.
        """
        square = added(squared(m.gdp_mu) for m in self.mechanisms)
        if square is not None and math.isfinite(square):
            inner = dpa.GaussianDpEvent(1 / math.sqrt(square))
        else:
            events = [m.dp_event() for m in self.mechanisms]
            inner = events[0] if len(events) == 1 else dpa.ComposedDpEvent(events)
        return inner if self.sampling is None else self.sampling.wrap(inner)


def costliest(
    planned: Sequence[Entry], n: int, cost: Callable[[list[Entry]], float]
) -> tuple[Entry, ...]:
    """The `n` that cost most if they are released again: by `cost` of all that is released.

    Which one is the costliest depends on who adds up: of two with one rho the one on the coarser
    grid has the wider gap. So all ways to choose `n` of those that differ are tried.
    """
    different = {(one.mechanisms, one.sampling, one.group): one for one in planned}.values()
    again = combinations_with_replacement(different, n)
    return max(again, key=lambda more: cost([*planned, *more]), default=())


def differences(planned: Any, made: Any, *, but: Collection[str] = ()) -> list[str]:
    """Names of the fields by which a release is not the planned one (None: there is none).

    For two entries of a ledger, or two releases of plans. Of a group only the part counts: which
    number its division has is known in the run alone.
    """

    def of(release: Any, name: str) -> Any:
        value = getattr(release, name, None)
        return value.rpartition("/")[2] if name == "group" and value is not None else value

    names = [f.name for f in fields(made) if f.name not in but]
    return [n for n in names if planned is None or of(planned, n) != of(made, n)]


@lru_cache(maxsize=1024)  # rounds are alike
def _continuous(mechanism: Any) -> tuple[Accountable, Gap] | None:
    twin: tuple[Accountable, Gap] | None = mechanism.continuous()
    return twin


# --- events of dp-accounting ----------------------------------------------------------------------


def relation(adjacency: str) -> dpa.NeighboringRelation:
    """The library's name of a neighbouring relation."""
    relations = dpa.NeighboringRelation
    return relations.ADD_OR_REMOVE_ONE if adjacency == "add/remove" else relations.REPLACE_ONE


def for_rdp(event: dpa.DpEvent) -> dpa.DpEvent:
    """The event with discrete Laplace noise, unknown to the RDP accountant, bounded by zCDP.

    Pure epsilon-DP implies epsilon^2/2-zCDP (Bun and Steinke 2016, Prop. 1.4).
    """
    if isinstance(event, dpa.ComposedDpEvent):
        return dpa.ComposedDpEvent([for_rdp(e) for e in event.events])
    if isinstance(event, dpa.SelfComposedDpEvent):
        return dpa.SelfComposedDpEvent(for_rdp(event.event), event.count)
    if isinstance(event, dpa.dp_event.DiscreteLaplaceDpEvent):
        return dpa.ZCDpEvent((event.noise_parameter * event.sensitivity) ** 2 / 2)
    return event


def compose(releases: Sequence[Entry]) -> dpa.DpEvent:
    """Composition, with equal neighbours counted instead of repeated."""
    counted: list[tuple[dpa.DpEvent, int]] = []
    for event in (release.dp_event() for release in releases):
        if counted and counted[-1][0] == event:
            counted[-1] = (event, counted[-1][1] + 1)
        else:
            counted.append((event, 1))
    parts = [e if n == 1 else dpa.SelfComposedDpEvent(e, n) for e, n in counted]
    return parts[0] if len(parts) == 1 else dpa.ComposedDpEvent(parts)
