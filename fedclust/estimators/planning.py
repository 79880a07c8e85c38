"""From the arguments of a call to its plan, and the one ledger that is charged for it."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from fedclust import describing, doubts
from fedclust.doubts import UnusualColumnWarning
from fedclust.estimators.bounds import Bounds, by_name
from fedclust.estimators.clients import Rows
from fedclust.estimators.methods import Asked, Family
from fedclust.frames import find
from fedclust_helpers import program
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers._validation import FloatArray, as_bound, check_real
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClippedDataWarning, Federation, Plan, simulate
from fedclust_helpers.federation.data import depth_outside

LOG = logging.getLogger(__name__)
LONG = 10.0  # seconds from which a fit says what it will take
NOT_OPTIONS = {
    "federation", "plan", "n_clusters", "epsilon", "delta", "rng", "server_points", "training",
}  # fmt: skip


class TooFewRowsWarning(UserWarning):
    """By the plan's own prediction noise will drown the result: said before anything is spent."""


class Prepared(NamedTuple):
    """All that is fixed before the first message."""

    federation: Federation
    plan: Plan
    rows: Rows
    bounds: Any  # lower and upper (d,); None: a run will find them, or works without a box
    running: dict[str, Any]
    method: str
    told: dict[str, Any]  # what the statement says beside the plan
    clipped: Any  # rows (M,) that lie outside the bounds; 0 where these are found
    local: list[Warning]  # what the holder of the rows alone should know of them

    def tell(self) -> None:
        """Warn the holder of the rows."""
        for each in self.local:
            warnings.warn(each, stacklevel=depth_outside() + 1)


def prepare(
    of: Any, family: Family, method: str, bounds: Bounds, X: Any, y: Any = None,
    clients: Any = None, X_server: Any = None, chosen_for: str | None = None,
) -> Prepared:  # fmt: skip
    """Read, scale and plan: everything that can be refused is refused here.

    `of` has the parameters: an estimator, or the call of a function.
    """
    planner = family.planner(method, private=bounds.private)
    takes = set(inspect.signature(planner).parameters)
    rows = family.read(of, X, y, clients, bounds)
    box, weights = family.box(bounds, rows), None
    if hasattr(of, "weights"):
        weights = weights_of(of.weights, rows.columns, rows.data.n_features)
        box = weighted(box, weights)
    if bounds.private:
        data = rows.data
        describing.check_sizes(data.points, rows.columns or range(data.n_features), family.names[0])
    asked = Asked(method, bounds, X_server, rows, box, *_split(of, takes))
    held, clipped = (rows.data, 0) if box is None else rows.data.in_box(*box, 1.0)
    local = _unusual(rows, bounds)
    if bounds.lower is not None:
        local += outside(rows, *bounds.of(rows.data.n_features, rows.columns))
    data, further = family.played(of, held, rows.n_rows)
    if box is None:
        further["domain"] = "raw"
    how = {"mode": of.mode, "seed": of.seed, "ledger": of._account.ledger}
    how["public_data"] = bounds.read_off
    federation = simulate(data, of.trust, **how | further)
    for name in ("n_clusters", "delta"):
        given = getattr(of, name, None)
        if given is not None and name in takes:
            asked.planning[name] = given
    first = family.given(of, federation, asked)
    plan = planner(federation, *first, epsilon=check_real(of.epsilon, "epsilon"), **asked.planning)
    federation.facts.check_delta(plan.delta)
    if of.verbose:
        asked.running.setdefault("progress", True)
    warned = [text for heading, text in plan.statement() if heading == "WARNING"]
    told = {
        "bounds_from": bounds.source, "chosen_for": chosen_for, "weights": weights,
        "local": family.local(of, plan),
        "warnings": (*family.notes(of, plan), *warned),
    }  # fmt: skip
    running = asked.running
    return Prepared(federation, plan, rows, box, running, method, told, clipped, local)


def outside(rows: Rows, lower: Any, upper: Any) -> list[Warning]:
    """What to tell of values outside these bounds (d,)."""
    data = rows.data
    names = rows.columns or range(data.n_features)
    told = doubts.outside(data.points, data.offsets, lower, upper, names, rows.named)
    return [ClippedDataWarning(text) for text in told]


def _unusual(rows: Rows, bounds: Bounds) -> list[Warning]:
    names, data = rows.columns or range(rows.data.n_features), rows.data
    told = doubts.unusual(data.points, data.offsets, names)
    if bounds.columns is None:  # nobody has chosen them
        told += doubts.row_numbers(data.points, data.offsets, names)
    return [UnusualColumnWarning(text) for text in told]


def _split(of: Any, takes: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the planner, which `takes` these, and of the run; others are refused by name."""
    options, elsewhere = of.options or {}, NOT_OPTIONS | of._parameters
    known = [each - elsewhere for each in (takes, set(inspect.signature(program.run).parameters))]
    known[0] |= of._further_options
    if wrong := [name for name in options if name not in known[0] | known[1]]:
        raise ValueError(
            f"options must be among {', '.join(sorted(known[0] | known[1]))}; got"
            f" {', '.join(map(repr, wrong))}"
        )
    planned, running = ({n: v for n, v in options.items() if n in names} for names in known)
    return planned, running


def weights_of(given: Any, names: list[Any] | None, d: int) -> FloatArray:
    """The weight (d,) of each column: 1 where a mapping does not name it.

    `names` are those of the columns; None for rows of an array, whose columns are 0, 1, ...
    """
    given = by_name(given, "weights")
    if isinstance(given, Mapping):
        columns = list(range(d)) if names is None else names
        if unknown := [name for name in given if find(columns, name) is None]:
            raise ValueError(
                f"weights must name columns with bounds; {', '.join(map(str, unknown))} not"
            )
        given = [given.get(name, 1.0) for name in columns]
    elif names is not None and np.ndim(given):
        raise ValueError("weights must be by name where columns have names: {column: weight}")
    found = as_bound(1.0 if given is None else given, "weights", d)
    if not (found > 0).all():
        raise ValueError("weights must be > 0: leave out a column that is not to count")
    return found


def weighted(box: Any, weights: FloatArray) -> Any:
    """The box in which a column counts by its weight: bounds moved apart about their middle.

    They stay where the weight is the largest, and are twice as wide where it is half of that. So no
    column is cut closer than without weights, and no row moves a sum by more.
    """
    if (weights == weights[0]).all():
        return box
    if box is None:
        raise ValueError(
            "weights must not be given with bounds='private', which says nothing of their width:"
            " find bounds with private_bounds first, and give them"
        )
    lower, upper = box
    further = (weights.max() / weights - 1) * (upper / 2 - lower / 2)
    return lower - further, upper + further


def announce(name: str, prepared: Prepared) -> None:
    """Warn of what rows and plan foresee, and of a long run, where somebody can see it."""
    prepared.tell()
    for text in prepared.told["warnings"]:
        warnings.warn(text, TooFewRowsWarning, stacklevel=depth_outside() + 1)
    seconds = expected_seconds(prepared.plan, len(prepared.rows.data.points))
    if seconds > LONG:
        LOG.warning("%s: this fit takes about %.0f s", name, seconds)
        prepared.running.setdefault("progress", sys.stderr.isatty())


def expected_seconds(plan: Plan, n_rows: int) -> float:
    """What a simulated run takes on one core, within a factor of three or so.

    Measured on a server of 2020: every row in every release, every number on the wire (with its
    share of the noise where sums are masked), every pair of keys.
    """
    facts = plan.facts
    masked = facts.trust.startswith("masked")
    rows = n_rows * len(plan.releases) * (0.5e-6 + 0.04e-6 * facts.n_features)
    wire = plan.n_bytes * (20e-9 if masked else 4e-9)
    return rows + wire + (0.3e-3 * facts.n_clients if masked else 0.0)


class Account:
    """Where an estimator and all its clones find the one ledger that their fits are charged to.

    A ledger of their own opens with the first fit: unit and adjacency follow from its method. In
    another process no fit is charged, or its cost would be forgotten here.
    """

    def __init__(self, given: PrivacyLedger | None = None) -> None:
        self.given, self._ledger, self._fits, self._lock = given, given, 0, Lock()
        self.is_shared, self._process = False, os.getpid()

    @property
    def is_charged(self) -> bool:
        """Whether something was charged, or a fit is under way."""
        return self._ledger is not None and bool(self._fits or self._ledger.releases)

    @property
    def ledger(self) -> PrivacyLedger | None:
        """The ledger that was given; else the one that was opened, once it is charged."""
        return self._ledger if self.is_charged else self.given

    @contextmanager
    def charging(self, ledger: PrivacyLedger) -> Iterator[PrivacyLedger]:
        """Charge this ledger, or the one that a clone in another thread has opened meanwhile."""
        with self._lock:
            forked = self.is_shared and os.getpid() != self._process
            if forked or (self._ledger is not None and self._ledger.is_record):
                raise CopyRefusedError(
                    "an estimator in another process has a record of its ledger only: fit the"
                    " original, and search with n_jobs=1 or in threads"
                    " (joblib.parallel_config(backend='threading')); for other data give"
                    " ledger=PrivacyLedger()"
                )
            ledger = ledger if self.ledger is None else self.ledger
            self._ledger = ledger
            self._fits += 1
        try:
            yield ledger
        finally:
            with self._lock:
                self._fits -= 1

    def __deepcopy__(self, memo: Any) -> Account:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Account, (self.record(),)

    def record(self) -> PrivacyLedger:
        """What was charged so far, to read and not to charge."""
        return PrivacyLedger().since(0) if self.ledger is None else self.ledger.since(0)
