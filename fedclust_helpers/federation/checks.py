"""What is refused before a release touches budget, data or wire: all of it by public numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fedclust_helpers._validation import check_instance
from fedclust_helpers.accounting import Budget, LedgerMismatchError, PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import Change, ClientMemory, ClientStatistic
from fedclust_helpers.client_statistics.base import public_numbers
from fedclust_helpers.federation.plan import FederationFacts
from fedclust_helpers.mechanisms import MAX_STEPS, NEGLIGIBLE, Mechanism


def check_statistic(
    facts: FederationFacts,
    statistic: ClientStatistic,
    mechanisms: Sequence[Mechanism],
    sampling: Sampling | None,
    broadcast: Mapping[str, Any],
) -> dict[str, Any]:
    """Unit, domain and sampling of a release; nothing sent beside overrides the federation.

    Returns the broadcast, whole and checked, that sensitivity and statistic both use.
    """
    check_instance(statistic, ClientStatistic, "statistic")
    n = len(statistic.parts)
    if len(check_instance(mechanisms, Sequence, "mechanisms", what=f"a sequence of {n}")) != n:  # type: ignore[type-abstract]
        raise ValueError(f"mechanisms must be {n}, one for each of {statistic.parts}")
    if statistic.unit != facts.unit:
        raise LedgerMismatchError(
            f"the sensitivity of {statistic.name!r} is stated for one {statistic.unit}, this"
            f" ledger is kept for one {facts.unit}"
        )
    if not statistic.fits(facts.domain):
        raise ValueError(
            f"the sensitivity of {statistic.name!r} holds for rows in a {statistic.domain} of"
            f" size bound, but this federation clips to a {facts.domain}: choose"
            f" domain={statistic.domain!r}"
        )
    own = {"bound", "n_features", *statistic.reads} & broadcast.keys()
    if own:
        raise TypeError(f"{', '.join(sorted(own))} must not be given: the federation's own")
    broadcast = statistic.broadcast(broadcast, facts.n_features)
    named = _arguments(statistic.changes)
    arrays = sorted(n for n, value in broadcast.items() if n in named and np.ndim(value) != 0)
    if arrays:
        raise TypeError(f"{', '.join(arrays)} must be one number: the sensitivity depends on it")
    if sampling is None:
        return broadcast
    check_instance(sampling, Sampling, "sampling")
    if statistic.unit != "client":
        raise ValueError(f"sampling draws clients, {statistic.name!r} is for one {statistic.unit}")
    if sampling.scheme == "fixed" and sampling.population != facts.n_clients:
        raise ValueError(f"sampling must state the population of {facts.n_clients} clients")
    return broadcast


@cache
def _arguments(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def shapes(
    facts: FederationFacts, statistic: ClientStatistic, broadcast: Mapping[str, Any], labelled: bool
) -> list[tuple[int, ...]]:
    """Shapes of one client's message, from one row of zeros; wrong broadcast arguments raise."""
    own: dict[str, Any] = {
        "labels": np.zeros(1, dtype=np.int64) if labelled else None,
        "memory": ClientMemory(1),
    }
    with np.errstate(all="ignore"):
        values = statistic.compute(
            np.zeros((1, facts.n_features)), np.array([0, 1]),
            **{name: own[name] for name in statistic.reads}, **broadcast,
        )  # fmt: skip
    if not are_answers(values, 1):
        raise ValueError(f"{statistic.name} must give finite numbers for each client")
    return [value.shape[1:] for value in values]


def are_answers(values: Sequence[Any], n_clients: int) -> bool:
    """Whether these are finite numbers, a row for each client."""
    return all(len(value) == n_clients and bool(np.isfinite(value).all()) for value in values)


def public_of(facts: FederationFacts, broadcast: Mapping[str, Any]) -> dict[str, Any]:
    """What the sensitivity is computed from: the broadcast, and the federation's own numbers."""
    own = {"bound": facts.bound, "n_features": facts.n_features}
    return {**public_numbers(broadcast), **own}


def check_noise(
    facts: FederationFacts,
    statistic: ClientStatistic,
    part: str,
    mechanism: Mechanism,
    size: int,
    public: Mapping[str, Any],
) -> None:
    """The noise hides what one record changes in this part of `size` numbers, in this mode."""
    if isinstance(mechanism, type) or not hasattr(mechanism, "sample"):
        got = type(mechanism).__name__
        raise TypeError(f"mechanisms: that for {part!r} must be a Mechanism, got {got}")
    if not math.isfinite(mechanism.sensitivity):  # NoNoise: the ledger will say inf
        return
    grid = max(facts.resolution, mechanism.grid or 0.0)
    needed = statistic.sensitivity_of(
        part, mechanism.norm, mechanism.adjacency, grid=grid, **public
    )
    if not mechanism.sensitivity >= needed * (1 - 1e-12):
        raise ValueError(
            f"mechanisms: that for {part!r} hides a sensitivity of {mechanism.sensitivity:.6g},"
            f" but one {facts.unit} can change it by {needed:.6g}"
            f" (L{mechanism.norm}, {mechanism.adjacency})"
        )
    coordinates = getattr(mechanism, "n_coordinates", None)
    honest, wrong = getattr(mechanism, "n_honest", None), ""
    if coordinates is not None and coordinates < size:
        wrong = f"states n_coordinates={coordinates}, but {size} are released"
    if facts.noise != "distributed":
        if honest is not None:
            wrong = (
                "draws only one node's share of its noise; use a DiscreteGaussian where one party"
                " adds it"
            )
    elif honest is None:
        wrong = "must be a DistributedDiscreteGaussian: every client knows its own noise"
    elif honest > facts.n_honest:
        wrong = f"counts on {honest} honest clients, but only {facts.n_honest} are guaranteed"
    if facts.mode == "secure" and mechanism.grid is None:
        wrong = "must be discrete in secure mode (DiscreteGaussian or DiscreteLaplace)"
    if wrong:
        raise ValueError(f"mechanisms: that for {part!r} {wrong}")


def largest_total(
    facts: FederationFacts, statistic: ClientStatistic, mechanism: Mechanism, change: Change
) -> tuple[int, float]:
    """How many units add up, and what one adds to one coordinate at most, rounding included."""
    rounding = max(facts.resolution, mechanism.grid or 0.0) / 2 * facts.n_clients / facts.n_units
    return facts.n_units, change.most + rounding


def check_integers(part: str, mechanism: Mechanism, n: int, most: float) -> None:
    """Refuse totals that 64-bit integers would not hold."""
    if mechanism.grid is None:
        return
    steps = (n * most + mechanism.tail(NEGLIGIBLE)) / mechanism.grid
    if not steps < MAX_STEPS:
        raise ValueError(
            f"mechanisms: the grid of that for {part!r} is too fine: a total may reach {steps:.3g}"
            " steps, and 64-bit integers hold 2^62"
        )


def check_ledger(
    ledger: PrivacyLedger | None, budget: Budget | None, adjacency: str = "add/remove"
) -> PrivacyLedger:
    """The ledger of a federation: the one given, or a new one for one point."""
    if ledger is not None and budget is not None:
        raise ValueError("budget must not be given with a ledger: a ledger brings its own")
    return PrivacyLedger(adjacency=adjacency, budget=budget) if ledger is None else ledger
