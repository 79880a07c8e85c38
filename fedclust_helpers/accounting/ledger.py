"""The ledger of releases: what was let out, under which adjacency, and what it costs together."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._lazy import dpa, pd
from fedclust_helpers._state import CopyRefusedError, Fixed
from fedclust_helpers._validation import check_choice, check_delta, check_non_negative
from fedclust_helpers.accounting.budget import Budget, BudgetExceededError
from fedclust_helpers.accounting.entries import (
    ADJACENCIES,
    UNITS,
    Accountable,
    Entry,
    Sampling,
    compose,
    costliest,
    differences,
)
from fedclust_helpers.accounting.totals import (
    Method,
    split_of,
    streams,
    total_delta,
    total_epsilon,
    total_mu,
)

TOLERANCE = 1e-9  # relative: what rounding may add to a plan that totals exactly the budget


class Reservation:
    """The part of a budget that an admitted plan holds until it is closed.

    The releases of the plan were fixed together in advance, so they are bounded together. Nothing
    of it is spent before the first of them is charged. `repeats` are the entries that are held for
    releases that are made a second time.
    """

    def __init__(
        self, planned: Sequence[Entry], cost: float, repeats: Sequence[Entry] = ()
    ) -> None:
        self.planned, self.cost, self.repeats = tuple(planned), cost, tuple(repeats)
        self.charged: list[Entry] = []
        self.is_open = True
        self.next, self.n_repeated = 0, 0  # of `planned` and of `repeats`

    @property
    def left(self) -> tuple[Entry, ...]:
        """What it still holds."""
        return self.planned[self.next :] + self.repeats[self.n_repeated :]


class PrivacyLedger(Fixed):
    """Every release made from one data set, and what they cost together.

    There is one ledger for a data set, in one process: `copy`, `deepcopy` and scikit-learn's
    `clone` give the same ledger, a pickled one is a record that takes no further charge (and a
    ledger with a budget is not pickled at all). Checking and charging are one step for all threads.

    `unit` ("point", "client" or "person") says whose presence is protected, `adjacency` what
    "neighbouring data sets" means; releases of another one are refused. The release that would
    exceed the `budget`, if there is one, is refused before any data is read. `releases` and
    `n_divisions` are what was released before this ledger was opened.

    Groups: releases with different `group` labels concern disjoint sets of records, fixed without
    looking at the data (by user number, say). They compose in parallel: the total is that of the
    worst group, together with everything that has no group. Labels "split/part" with different
    "split" speak of different divisions of the records, which may overlap: the worst parts of all
    splits add up.

    >>> from fedclust_helpers.mechanisms import Laplace
    >>> ledger = PrivacyLedger(budget=Budget(2.0))
    >>> release = ledger.charge([Laplace(1.0, 1.0)], round=0, name="a count")
    >>> ledger.epsilon(0.0), ledger.remaining
    (1.0, 0.5)
    """

    def __init__(
        self,
        unit: str = "point",
        adjacency: str = "add/remove",
        budget: Budget | None = None,
        releases: Sequence[Entry] = (),
        n_divisions: int = 0,
    ) -> None:
        self.unit = check_choice(unit, "unit", UNITS)
        self.adjacency = check_choice(adjacency, "adjacency", ADJACENCIES)
        self.budget = budget
        self._releases, self._n_divisions = list(releases), n_divisions
        self._reservations: list[Reservation] = []
        self._lock = threading.RLock()
        self._process: int | None = os.getpid()  # None: a record

    # what it is -----------------------------------------------------------------------------------

    @property
    def releases(self) -> tuple[Entry, ...]:
        """All releases so far, in order."""
        return tuple(self._releases)

    @property
    def is_record(self) -> bool:
        """Whether this is a record of an earlier run, which takes no charge."""
        return self._process is None

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: Any) -> PrivacyLedger:
        return self

    def __getstate__(self) -> tuple[Any, ...]:
        if self.budget is not None:
            raise CopyRefusedError(
                "PrivacyLedger with a budget must not be pickled: another process could spend the"
                " budget again; run in this process (threads are fine), or give each process a"
                " ledger with its own share"
            )
        return self.unit, self.adjacency, None, self._releases, self._n_divisions

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]
        self._process = None

    def _check_alive(self) -> None:
        if self._process is None:
            raise CopyRefusedError(
                "this PrivacyLedger is a record of releases: charge its original"
            )
        if self._process != os.getpid():
            raise CopyRefusedError(
                "this PrivacyLedger belongs to another process: a fork would spend its budget"
                " twice; charge it in the process that made it (threads are fine)"
            )

    # charging -------------------------------------------------------------------------------------

    def new_division(self) -> int:
        """A number for a division of the records that no other division on this ledger has."""
        with self._lock:
            self._check_alive()
            taken = {split_of(r.group) for r in self._releases if r.group is not None}
            while f"division {self._n_divisions}" in taken:  # also of a ledger put together again
                self._n_divisions += 1
            self._n_divisions += 1
            return self._n_divisions - 1

    def entry(
        self,
        mechanisms: Sequence[Accountable],
        *,
        name: str,
        round: int = 0,
        sampling: Sampling | None = None,
        group: str | None = None,
    ) -> Entry:
        """The entry of a release: `mechanisms` that are applied to one sample."""
        return Entry(round, name, tuple(mechanisms), self.unit, self.adjacency, sampling, group)

    def check(self, mechanisms: Sequence[Accountable], **details: Any) -> Entry:
        """The `entry` of a release, or `BudgetExceededError` where it does not fit; no charge.

        `details` are the ``name``, ``round``, ``sampling`` and ``group`` of `entry`.
        """
        release = self.entry(mechanisms, **details)
        with self._lock:
            self._require([release], f"release {release.name!r}")
        return release

    def charge(
        self,
        mechanisms: Sequence[Accountable],
        *,
        reservation: Reservation | None = None,
        number: int | None = None,
        **details: Any,
    ) -> Entry:
        """Check a release and write it down. Call this before the data is read.

        With a `reservation` the release must be one of those that were admitted together: the next
        one, or that of this `number`, from 0. The number of the last one again is a repeat of it,
        numbers that are passed over are never charged.
        """
        release = self.entry(mechanisms, **details)
        with self._lock:
            self._check_alive()
            if reservation is None:
                self._require([release], f"release {release.name!r}")
            else:
                self._claim(release, reservation, reservation.next if number is None else number)
            self._releases.append(release)
        return release

    def _claim(self, release: Entry, reservation: Reservation, number: int) -> None:
        if reservation not in self._reservations or not reservation.is_open:
            raise BudgetExceededError(f"release {release.name!r} has no open reservation")
        again = number == reservation.next - 1
        if again and reservation.n_repeated == len(reservation.repeats):
            raise BudgetExceededError(
                f"release {release.name!r} was charged before, and none of the"
                f" {len(reservation.repeats)} repeats that were admitted is left"
            )
        planned = reservation.planned[number] if number < len(reservation.planned) else None
        same = (again or number >= reservation.next) and not differences(planned, release)
        made = (*reservation.charged, release)  # parts cost in parallel within one division alone
        same &= len({split_of(r.group) for r in made if r.group is not None}) <= 1
        if not same:
            raise BudgetExceededError(f"release {release.name!r} is not the next that was admitted")
        reservation.charged.append(release)
        reservation.next, reservation.n_repeated = number + 1, reservation.n_repeated + again

    def admit(
        self, planned: Sequence[Entry], *, name: str, repeats: Sequence[Entry] = ()
    ) -> Reservation:
        """Reserve what a plan takes, before its first message.

        As many entries as `repeats` are held for releases that may have to be made again: those of
        `planned` that cost most by the filter of the budget. `BudgetExceededError` if the plan as
        a whole would exceed what is left.
        """
        with self._lock:
            self._check_alive()
            if self.budget is not None and repeats:
                repeats = costliest(planned, len(repeats), self._cost)
            reservation = Reservation(planned, self._require([*planned, *repeats], name), repeats)
            self._reservations.append(reservation)
            return reservation

    def close(self, reservation: Reservation) -> None:
        """End of a run: what was reserved and never released is free again.

        The filter "basic" bounds a plan as a whole and keeps all of it once one release was made.
        """
        with self._lock:
            reservation.is_open = False
            if not reservation.charged and reservation in self._reservations:
                self._reservations.remove(reservation)

    def _require(self, wanted: Sequence[Entry], name: str) -> float:
        """Refuse what the budget cannot pay; returns its cost."""
        budget = self.budget
        if budget is None:
            return 0.0
        group = wanted[0].group if len(wanted) == 1 else None
        spent, cost = self._spent(group), self._cost(wanted, group)
        if not spent + cost <= budget.limit * (1 + TOLERANCE):
            raise BudgetExceededError(
                f"{name} would exceed the budget epsilon={budget.epsilon:g},"
                f" delta={budget.delta:g}: {spent / budget.limit:.1%} is spent or reserved and this"
                f" takes {cost / budget.limit:.1%} (filter {budget.filter})"
            )
        return cost

    def _cost(self, wanted: Sequence[Entry], group: str | None = None) -> float:
        """What these take of the budget: where they are fixed in advance, together."""
        assert self.budget is not None
        if self.budget.filter == "basic" and len(wanted) > 1:
            return self.budget.share(wanted)
        return self._grouped(wanted, group)

    def _spent(self, group: str | None) -> float:
        """Costs so far and reserved that share records with `group` (None: the worst)."""
        assert self.budget is not None
        whole = 0.0  # plans bounded as a whole; what is reserved: each divides the records anew
        singles = list(self._releases)
        for r in self._reservations:
            if self.budget.filter == "basic" and len(r.planned) + len(r.repeats) > 1:
                whole += r.cost
                for release in r.charged:
                    singles.remove(release)
            elif r.is_open:
                whole += self._grouped(r.left, None)
        return whole + self._grouped(singles, group)

    def _grouped(self, releases: Sequence[Entry], group: str | None) -> float:
        """Added costs of single releases, groups of one division in parallel."""
        assert self.budget is not None
        total = math.fsum(self.budget.cost(r) for r in releases if r.group is None)
        by_group: dict[str, dict[str, float]] = {}
        for r in releases:
            if r.group is not None:
                costs = by_group.setdefault(split_of(r.group), {})
                costs[r.group] = costs.get(r.group, 0.0) + self.budget.cost(r)
        for split, costs in by_group.items():
            same = group is not None and split == split_of(group)
            total += costs.get(str(group), 0.0) if same else max(costs.values())
        return total

    @property
    def remaining(self) -> float:
        """Share of the budget that is left, in the units of its filter (1 = all)."""
        if self.budget is None:
            return math.inf
        with self._lock:
            return 1 - self._spent(None) / self.budget.limit

    # totals ---------------------------------------------------------------------------------------

    def dp_event(self) -> dpa.DpEvent:
        """All releases as one ``dp-accounting`` event, as if all groups were one."""
        return compose(self._releases)

    def gdp_mu(self) -> float | None:
        """The mu of the whole ledger if every release is Gaussian and unsampled, else None."""
        mus = [total_mu(stream) for stream in streams(self._releases)]
        return None if any(m is None for m in mus) else max(m for m in mus if m is not None)

    def pure_epsilon(self) -> float:
        """Sum of pure epsilons (inf if some release has none)."""
        return max(math.fsum(r.pure_epsilon for r in s) for s in streams(self._releases))

    def epsilon(self, delta: float, *, method: Method = "auto") -> float:
        """Total epsilon at `delta`, for releases fixed in advance.

        `method` "auto" takes the closed form where there is one (all Gaussian: "gdp", exact; delta
        = 0: "pure"), else the smallest of several proved bounds: "zcdp" for discrete and other
        Gaussians, the RDP bound at the best real order; "pld" where the library supports every
        event, else "rdp"; Renyi curves of sampled discrete noise (module `renyi`); the zCDP total
        of all (discrete) Gaussians plus the sum of pure epsilons; and all of these for the
        continuous noise that discrete noise of a stated number of coordinates is close to, plus
        the gap (module `discrete`). Shuffled sets add up their
        central epsilons, each at an equal share of delta; at delta = 0, their local ones. Always
        inf if something was released without noise.
        """
        return total_epsilon(self._releases, check_delta(delta, allow_zero=True), method)

    def delta(self, epsilon: float) -> float:
        """Total delta at `epsilon`, for releases fixed in advance (1 if not private)."""
        return total_delta(self._releases, check_non_negative(epsilon, "epsilon"))

    def since(self, n_releases: int) -> PrivacyLedger:
        """The record of the releases after the first `n_releases`: what one run cost alone."""
        return self._record(self._releases[n_releases:])

    def record_of(self, run: Reservation) -> PrivacyLedger:
        """The record of what one admitted plan released, whatever else was charged meanwhile."""
        return self._record(run.charged)

    def _record(self, kept: Sequence[Entry]) -> PrivacyLedger:
        record = PrivacyLedger(self.unit, self.adjacency, None, kept, self._n_divisions)
        record._process = None
        return record

    def to_frame(self) -> Any:
        """The ledger as a pandas table: one row per mechanism of each release."""
        rows = [
            {
                "round": r.round, "release": r.name, "mechanism": type(m).__name__,
                "sensitivity": getattr(m, "sensitivity", np.nan), "std": getattr(m, "std", 0.0),
                "adjacency": r.adjacency, "unit": r.unit,
                "sampling": r.sampling.scheme if r.sampling else "everyone",
                "group": r.group or "all",
            }
            for r in self._releases
            for m in r.mechanisms
        ]  # fmt: skip
        columns = "round release mechanism sensitivity std adjacency unit sampling group"
        return pd.DataFrame(rows, columns=columns.split())

    def __repr__(self) -> str:
        return f"PrivacyLedger({self})"

    def __str__(self) -> str:
        return f"{len(self._releases)} releases, unit: one {self.unit}, {self.adjacency}"
