"""The ledger of releases: what was let out, under which adjacency, and what it costs together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import dp_accounting as dpa
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq, minimize_scalar

from fedclust_helpers._validation import (
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_non_negative,
)
from fedclust_helpers.accounting.conversions import (
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pure_to_gdp_mu,
    zcdp_epsilon,
)

ADJACENCIES = ("add/remove", "replace-one")
UNITS = ("point", "client", "person")
RDP_ORDERS = (
    tuple(1 + x / 10 for x in range(1, 100))
    + tuple(map(float, range(11, 64)))
    + (128.0, 256.0, 512.0)
)


class BudgetExceededError(RuntimeError):
    """The next release would exceed the budget of the ledger; nothing was read or charged."""


class LedgerMismatchError(ValueError):
    """A release of another unit or adjacency was offered to a ledger: the two do not compose."""


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


@dataclass(frozen=True)
class Sampling:
    """How the records of one joint release were drawn, and in which way that stays secret.

    ``Sampling("poisson", rate=q)`` amplifies under add/remove; ``Sampling("fixed", size=m,
    population=n)`` is sampling without replacement and amplifies under replace-one. Both hold only
    while nobody but the data holders learns who was drawn.
    """

    scheme: Literal["poisson", "fixed"]
    rate: float | None = None
    size: int | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.scheme, "scheme", ("poisson", "fixed"))
        if self.scheme == "poisson":
            if self.rate is None or not 0 < self.rate <= 1:
                raise ValueError(f"rate must lie in (0, 1], got {self.rate}")
        else:
            population = check_int(self.population, "population")
            check_int(self.size, "size", maximum=population)

    @property
    def adjacency(self) -> str:
        """The neighbouring relation in which this scheme amplifies."""
        return "add/remove" if self.scheme == "poisson" else "replace-one"

    def amplifies(self, event: dpa.DpEvent) -> bool:
        """Whether ``dp-accounting`` can bound this event sampled in this way."""
        laplace = isinstance(event, dpa.LaplaceDpEvent) and self.scheme == "poisson"
        return isinstance(event, dpa.GaussianDpEvent) or laplace

    def wrap(self, event: dpa.DpEvent) -> dpa.DpEvent:
        """The sampled event of ``dp-accounting``."""
        if self.scheme == "poisson":
            return dpa.PoissonSampledDpEvent(self.rate, event)
        return dpa.SampledWithoutReplacementDpEvent(self.population, self.size, event)


@dataclass(frozen=True)
class Release:
    """One line of the ledger: mechanisms that were applied to one and the same sample."""

    round: int
    name: str
    mechanisms: tuple[Any, ...]
    unit: str
    adjacency: str
    sampling: Sampling | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.adjacency, "adjacency", ADJACENCIES)

    @property
    def gdp_mu(self) -> float | None:
        """Joint mu (squares add up), or None if a mechanism has none or the release is sampled."""
        mus = [m.gdp_mu for m in self.mechanisms]
        if self.sampling is not None or any(m is None for m in mus):
            return None
        return math.sqrt(math.fsum(m * m for m in mus))

    @property
    def rho(self) -> float | None:
        """Joint rho (sum), or None if some mechanism has none or the release is sampled."""
        rhos = [m.rho for m in self.mechanisms]
        if self.sampling is not None or any(r is None for r in rhos):
            return None
        return math.fsum(rhos)

    @property
    def pure_epsilon(self) -> float:
        """Joint pure epsilon (sum; sampling is ignored, which is an upper bound)."""
        return math.fsum(m.pure_epsilon for m in self.mechanisms)

    def dp_event(self) -> dpa.DpEvent:
        """This release as one event of ``dp-accounting``.

        Gaussians on one sample are merged into one Gaussian with 1/z^2 = sum 1/z_i^2, which is
        exact and the only interior that all sampled accountants take. Another interior is charged
        as if everyone took part, which is an upper bound (the one exception: one Laplace vector
        under Poisson sampling).
        """
        mus = [m.gdp_mu for m in self.mechanisms]
        if all(m is not None and math.isfinite(m) for m in mus):
            inner = dpa.GaussianDpEvent(1 / math.sqrt(math.fsum(m * m for m in mus)))
        else:
            events = [m.dp_event() for m in self.mechanisms]
            inner = events[0] if len(events) == 1 else dpa.ComposedDpEvent(events)
        if self.sampling is None or not self.sampling.amplifies(inner):
            return inner
        return self.sampling.wrap(inner)


@dataclass(frozen=True)
class Budget:
    """A total (epsilon, delta) that adaptive releases may fill but not exceed.

    `filter` is the rule by which releases chosen *adaptively* are added up; it is fixed before the
    first release:

    * ``"pure"`` (delta = 0): epsilons add up (Rogers et al. 2016).
    * ``"gdp"``: squares of mu add up to mu(epsilon, delta)^2 (Smith and Thakurta 2022). Takes
      unsampled Gaussian and pure mechanisms.
    * ``"rdp"``: Renyi divergences at one order, chosen here from the budget alone, add up (Feldman
      and Zrnic 2021). Takes whatever ``dp-accounting`` can bound by RDP.
    * ``"basic"``: shares f of (epsilon, delta) add up, a release taking the smallest f for which it
      is (f epsilon, f delta)-DP (Rogers et al. 2016). Wasteful over many releases, but exact for
      one, and it takes pure and Gaussian releases side by side: the filter for local privacy.
    """

    epsilon: float
    delta: float = 0.0
    filter: str | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta, allow_zero=True)
        chosen = self.filter or ("pure" if self.delta == 0 else "gdp")
        check_choice(chosen, "filter", ("pure", "gdp", "rdp", "basic"))
        if (chosen == "pure") != (self.delta == 0):
            raise ValueError(
                "filter 'pure' goes with delta = 0, 'gdp', 'rdp' and 'basic' with delta > 0"
            )
        object.__setattr__(self, "filter", chosen)

    @property
    def rdp_order(self) -> float:
        """The order that leaves most room to zero-concentrated releases: limit(a)/a is largest."""
        best = minimize_scalar(
            lambda t: -self.rdp_limit(1 + math.exp(t)) / (1 + math.exp(t)),
            bounds=(-6.0, 12.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        return 1 + math.exp(best.x)

    def rdp_limit(self, order: float) -> float:
        """The Renyi divergence at `order` that still implies (epsilon, delta)-DP."""
        log_term = math.log(1 / (order * self.delta)) / (order - 1) + math.log1p(-1 / order)
        return self.epsilon - log_term

    @property
    def limit(self) -> float:
        """The number that the charges of `cost` may add up to."""
        if self.filter == "pure":
            return self.epsilon
        if self.filter == "gdp":
            return gdp_mu(self.epsilon, self.delta) ** 2
        return 1.0 if self.filter == "basic" else self.rdp_limit(self.rdp_order)

    def cost(self, release: Release) -> float:
        """What one release takes of `limit` (inf if the filter cannot bound it)."""
        if self.filter == "pure":
            return release.pure_epsilon
        if self.filter == "gdp":
            mu = release.gdp_mu
            if mu is None and math.isfinite(release.pure_epsilon):
                mu = pure_to_gdp_mu(release.pure_epsilon)
            if mu is None:
                raise LedgerMismatchError(
                    f"filter 'gdp' cannot bound release {release.name!r}; use Budget(filter='rdp')"
                )
            return mu * mu
        if self.filter == "basic":
            return self._basic_share(release)
        accountant = RdpAccountant([self.rdp_order], _relation(release.adjacency))
        event = _for_rdp(release.dp_event())
        if not accountant.supports(event):
            return math.inf
        accountant.compose(event)
        return float(accountant.rdp[0])

    def _basic_share(self, release: Release) -> float:
        """The share f of (epsilon, delta) that a release takes (sampling is ignored)."""
        mus = [m.gdp_mu for m in release.mechanisms if m.rho is not None]
        rho = math.fsum(m.rho for m in release.mechanisms if m.rho is not None)
        share = math.fsum(m.pure_epsilon for m in release.mechanisms if m.rho is None)
        share /= self.epsilon
        if rho == 0 or not math.isfinite(share + rho):
            return share + (0 if rho == 0 else math.inf)
        exact = all(mu is not None for mu in mus)
        mu = math.sqrt(2 * rho)

        def excess(f: float) -> float:
            """Negative where the (discrete) Gaussians are (f epsilon, f delta)-DP."""
            at = min(f * self.delta, 1 - 1e-12)
            needed = gdp_epsilon(mu, at) if exact else zcdp_epsilon(rho, at)
            return needed - f * self.epsilon

        high = 1.0
        while excess(high) > 0:
            high *= 2
        low = high / 2
        while excess(low) <= 0 and low > 1e-9:
            low /= 2
        return share + float(brentq(excess, low, 2 * low, xtol=1e-12))


def _relation(adjacency: str) -> dpa.NeighboringRelation:
    if adjacency == "add/remove":
        return dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
    return dpa.NeighboringRelation.REPLACE_ONE


def _accountant(event: dpa.DpEvent, adjacency: str, method: str = "auto") -> dpa.PrivacyAccountant:
    """The accountant of ``dp-accounting`` that bounds `event`: "pld", "rdp", or the first of them.

    PLD always works in its own add/remove convention. Our noise multipliers are relative to the
    sensitivity in the ledger's adjacency, so an unsampled event is the same pair of distributions
    under both; for replace-one the library would double a Gaussian's sensitivity once more. It has
    no PLD for sampling without replacement, and Poisson sampling is kept for add/remove only.
    """
    if method in ("auto", "pld"):
        accountant: dpa.PrivacyAccountant = PLDAccountant()
        if accountant.supports(event):
            return accountant.compose(event)
    if method in ("auto", "rdp"):
        accountant = RdpAccountant(RDP_ORDERS, _relation(adjacency))
        if accountant.supports(event := _for_rdp(event)):
            return accountant.compose(event)
    raise ValueError(
        f"dp-accounting does not support this ledger under {adjacency} (method {method!r}): {event}"
    )


def _for_rdp(event: dpa.DpEvent) -> dpa.DpEvent:
    """The event with discrete Laplace noise, unknown to the RDP accountant, bounded by zCDP.

    Pure epsilon-DP implies epsilon^2/2-zCDP (Bun and Steinke 2016, Prop. 1.4).
    """
    if isinstance(event, dpa.ComposedDpEvent):
        return dpa.ComposedDpEvent([_for_rdp(e) for e in event.events])
    if isinstance(event, dpa.SelfComposedDpEvent):
        return dpa.SelfComposedDpEvent(_for_rdp(event.event), event.count)
    if isinstance(event, dpa.dp_event.DiscreteLaplaceDpEvent):
        return dpa.ZCDpEvent((event.noise_parameter * event.sensitivity) ** 2 / 2)
    return event


@dataclass
class PrivacyLedger:
    """Every release made from one data set, and what they cost together.

    Parameters
    ----------
    unit : {"point", "client", "person"}
        Whose presence is protected.
    adjacency : {"add/remove", "replace-one"}
        What "neighbouring data sets" means. Releases of another unit or adjacency are refused.
    budget : Budget, optional
        A total; the release that would exceed it is refused before any data is read.

    Notes
    -----
    Groups: releases with different `group` labels concern disjoint sets of records, fixed without
    looking at the data (by user number, say). They compose in parallel: the total is that of the
    worst group, together with everything that has no group. Labels "split/part" with different
    "split" speak of different divisions of the records, which may overlap: the worst parts of all
    splits add up.
    """

    unit: str = "point"
    adjacency: str = "add/remove"
    budget: Budget | None = None
    releases: list[Release] = field(default_factory=list)
    n_divisions: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.adjacency, "adjacency", ADJACENCIES)

    def new_division(self) -> int:
        """A number for a division of the records that no other division on this ledger has."""
        self.n_divisions += 1
        return self.n_divisions - 1

    def check(
        self,
        mechanisms: Sequence[Accountable],
        *,
        name: str,
        round: int = 0,
        sampling: Sampling | None = None,
        group: str | None = None,
    ) -> Release:
        """Build the line for a release and refuse it if it does not fit; nothing is charged.

        Raises
        ------
        LedgerMismatchError
            If a mechanism or a sampling scheme speaks of another adjacency than the ledger.
        BudgetExceededError
            If the release would exceed the budget.
        """
        for mechanism in mechanisms:
            if mechanism.adjacency != self.adjacency:
                raise LedgerMismatchError(
                    f"release {name!r} is calibrated for {mechanism.adjacency}, this ledger is kept"
                    f" for {self.adjacency}; convert the mechanism first (as_replace_one)"
                )
        if sampling is not None and sampling.adjacency != self.adjacency:
            raise LedgerMismatchError(
                f"{sampling.scheme} sampling amplifies under {sampling.adjacency}, this ledger is"
                f" kept for {self.adjacency}"
            )
        release = Release(
            round, name, tuple(mechanisms), self.unit, self.adjacency, sampling, group
        )
        if self.budget is not None:
            spent, cost = self._filter_spent(release.group), self.budget.cost(release)
            if spent + cost > self.budget.limit * (1 + 1e-9):
                raise BudgetExceededError(
                    f"release {name!r} would exceed the budget epsilon={self.budget.epsilon:g},"
                    f" delta={self.budget.delta:g}: {spent / self.budget.limit:.1%} is spent and"
                    f" this takes {cost / self.budget.limit:.1%} (filter {self.budget.filter})"
                )
        return release

    def charge(self, mechanisms: Sequence[Accountable], **details: Any) -> Release:
        """Check a release and write it down. Call this before the data is read."""
        release = self.check(mechanisms, **details)
        self.releases.append(release)
        return release

    def _filter_spent(self, group: str | None) -> float:
        """Filter charges so far that share records with `group` (None: the worst group)."""
        assert self.budget is not None
        spent = math.fsum(self.budget.cost(r) for r in self.releases if r.group is None)
        by_group: dict[str, dict[str, float]] = {}
        for r in self.releases:
            if r.group is not None:
                costs = by_group.setdefault(_split_of(r.group), {})
                costs[r.group] = costs.get(r.group, 0.0) + self.budget.cost(r)
        for split, costs in by_group.items():
            same = group is not None and split == _split_of(group)
            spent += costs.get(str(group), 0.0) if same else max(costs.values())
        return spent

    @property
    def remaining(self) -> float:
        """Share of the budget that is left, in the units of its filter (1 = all)."""
        if self.budget is None:
            return math.inf
        return 1 - self._filter_spent(None) / self.budget.limit

    # totals ---------------------------------------------------------------------------------------

    def _streams(self) -> list[list[Release]]:
        """Releases that compose sequentially: one list for each set of groups that may overlap."""
        groups = sorted({r.group for r in self.releases if r.group is not None})
        splits = [[g for g in groups if _split_of(g) == s] for s in {_split_of(g) for g in groups}]
        # what a group was asked is a list of releases: groups that were asked the same count once,
        # and so do choices (a part of each split) that were asked the same in another order
        overlaps: dict[frozenset[Any], frozenset[str]] = {frozenset(): frozenset()}
        for parts in splits:
            choices = {_asked(self.releases, g): g for g in parts}
            overlaps = {
                frozenset((Counter(dict(asked)) + Counter([more])).items()): chosen | {g}
                for asked, chosen in overlaps.items()
                for more, g in choices.items()
            }
        streams = overlaps.values()
        return [[r for r in self.releases if r.group is None or r.group in s] for s in streams]

    def dp_event(self, group: str | None = None) -> dpa.DpEvent:
        """All releases (of one group and those of no group) as one ``dp-accounting`` event."""
        splits = {_split_of(r.group) for r in self.releases if r.group is not None}
        if group is not None and splits - {_split_of(group)}:
            raise ValueError("group must be None on a ledger with several divisions of the records")
        return _compose([r for r in self.releases if group is None or r.group in (None, group)])

    def gdp_mu(self) -> float | None:
        """The mu of the whole ledger if every release is Gaussian and unsampled, else None."""
        mus = [_total_mu(stream) for stream in self._streams()]
        return None if any(m is None for m in mus) else max(m for m in mus if m is not None)

    def rho(self) -> float | None:
        """Total rho if every release is an unsampled (discrete) Gaussian, else None."""
        rhos = [_total_rho(stream) for stream in self._streams()]
        return None if any(r is None for r in rhos) else max(r for r in rhos if r is not None)

    def pure_epsilon(self) -> float:
        """Sum of pure epsilons (inf if some release has none)."""
        return max(math.fsum(r.pure_epsilon for r in s) for s in self._streams())

    def epsilon(self, delta: float, *, method: str = "auto") -> float:
        """Total epsilon at `delta`, for releases fixed in advance.

        Parameters
        ----------
        delta : float
            In [0, 1); 0 only if every release is pure.
        method : {"auto", "gdp", "zcdp", "pld", "rdp", "pure"}
            "auto" takes the closed form where there is one (all Gaussian: "gdp", exact; Gaussian
            and discrete Gaussian: "zcdp", the RDP bound at the best real order; delta = 0:
            "pure"), else "pld" where the library supports every event, else "rdp" or, if that is
            smaller, the zCDP total of all (discrete) Gaussians plus the sum of pure epsilons.

        Returns
        -------
        float
            inf if something was released without noise.
        """
        delta = check_delta(delta, allow_zero=True)
        check_choice(method, "method", ("auto", "gdp", "zcdp", "pld", "rdp", "pure"))
        if not self.releases:
            return 0.0
        if delta == 0 or method == "pure":
            return self.pure_epsilon()
        return max(self._stream_epsilon(stream, delta, method) for stream in self._streams())

    def _stream_epsilon(self, stream: list[Release], delta: float, method: str) -> float:
        """Total epsilon of releases that compose sequentially."""
        mu = _total_mu(stream) if method in ("auto", "gdp") else None
        if mu is not None:
            return gdp_epsilon(mu, delta) if math.isfinite(mu) else math.inf
        if method == "gdp":
            raise ValueError("method 'gdp' needs Gaussian releases without sampling only")
        rho = _total_rho(stream) if method in ("auto", "zcdp") else None
        if rho is not None:
            return zcdp_epsilon(rho, delta) if math.isfinite(rho) else math.inf
        if method == "zcdp":
            raise ValueError(
                "method 'zcdp' needs (discrete) Gaussian releases without sampling only"
            )
        pure = math.fsum(r.pure_epsilon for r in stream)
        worst = self._library_epsilon(stream, delta, method)
        return min(worst, pure) if method == "auto" else worst

    def _library_epsilon(self, stream: list[Release], delta: float, method: str) -> float:
        event = _compose(stream)
        if any(isinstance(e, dpa.NonPrivateDpEvent) for e in _leaves(event)):
            return math.inf
        total = float(_accountant(event, self.adjacency, method).get_epsilon(delta))
        return min(total, _split_epsilon(stream, delta)) if method == "auto" else total

    def delta(self, epsilon: float) -> float:
        """Total delta at `epsilon`, for releases fixed in advance (1 if not private)."""
        epsilon = check_non_negative(epsilon, "epsilon")
        if not self.releases:
            return 0.0
        return max(self._stream_delta(stream, epsilon) for stream in self._streams())

    def _stream_delta(self, stream: list[Release], epsilon: float) -> float:
        """Total delta of releases that compose sequentially."""
        if math.fsum(r.pure_epsilon for r in stream) <= epsilon:
            return 0.0
        mu = _total_mu(stream)
        if mu is not None:
            return gdp_delta(mu, epsilon) if math.isfinite(mu) else 1.0
        event = _compose(stream)
        if any(isinstance(e, dpa.NonPrivateDpEvent) for e in _leaves(event)):
            return 1.0
        return float(_accountant(event, self.adjacency).get_delta(epsilon))

    def since(self, n_releases: int) -> PrivacyLedger:
        """A ledger of the releases made after the first `n_releases`: what one run cost alone."""
        check_int(n_releases, "n_releases", minimum=0)
        kept = self.releases[n_releases:]
        return PrivacyLedger(self.unit, self.adjacency, None, kept, self.n_divisions)

    def to_frame(self) -> Any:
        """The ledger as a pandas table: one row per mechanism of each release."""
        import pandas as pd

        rows = [
            {
                "round": r.round,
                "release": r.name,
                "mechanism": type(m).__name__,
                "sensitivity": getattr(m, "sensitivity", np.nan),
                "std": getattr(m, "std", 0.0),
                "adjacency": r.adjacency,
                "unit": r.unit,
                "sampling": r.sampling.scheme if r.sampling else "everyone",
                "group": r.group or "all",
            }
            for r in self.releases
            for m in r.mechanisms
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return f"{len(self.releases)} releases, unit: one {self.unit}, {self.adjacency}"


def _total_mu(stream: list[Release]) -> float | None:
    """Joint mu of releases that compose sequentially, or None if one is not Gaussian."""
    mus = [r.gdp_mu for r in stream]
    if any(m is None for m in mus):
        return None
    return math.sqrt(math.fsum(m * m for m in mus if m is not None))


def _total_rho(stream: list[Release]) -> float | None:
    """Joint rho of releases that compose sequentially, or None if one has none."""
    rhos = [r.rho for r in stream]
    return None if any(r is None for r in rhos) else math.fsum(r for r in rhos if r is not None)


def _split_of(group: str) -> str:
    """The division of the records that a group label belongs to ("" if it names none)."""
    return group.rpartition("/")[0]


def _asked(releases: Sequence[Release], group: str) -> tuple[Any, ...]:
    """Everything that decides what the releases of one group cost."""
    return tuple((r.mechanisms, r.sampling) for r in releases if r.group == group)


def _split_epsilon(stream: list[Release], delta: float) -> float:
    """Basic composition of the Gaussian part, at `delta` by zCDP, and the pure part, at 0.

    Sampling is ignored, which is an upper bound.
    """
    mechanisms = [m for r in stream for m in r.mechanisms]
    rho = math.fsum(m.rho for m in mechanisms if m.rho is not None)
    pure = math.fsum(m.pure_epsilon for m in mechanisms if m.rho is None)
    return pure + zcdp_epsilon(rho, delta) if math.isfinite(rho + pure) else math.inf


def _compose(releases: list[Release]) -> dpa.DpEvent:
    """Composition, with equal neighbours counted instead of repeated."""
    events: list[dpa.DpEvent] = []
    for release in releases:
        events.append(release.dp_event())
    counted: list[tuple[dpa.DpEvent, int]] = []
    for event in events:
        if counted and counted[-1][0] == event:
            counted[-1] = (event, counted[-1][1] + 1)
        else:
            counted.append((event, 1))
    parts = [e if n == 1 else dpa.SelfComposedDpEvent(e, n) for e, n in counted]
    return parts[0] if len(parts) == 1 else dpa.ComposedDpEvent(parts)


def _leaves(event: dpa.DpEvent) -> list[dpa.DpEvent]:
    """The innermost events of a composed or sampled event."""
    if isinstance(event, dpa.ComposedDpEvent):
        return [leaf for e in event.events for leaf in _leaves(e)]
    inner = getattr(event, "event", None)
    return [event] if inner is None else _leaves(inner)
