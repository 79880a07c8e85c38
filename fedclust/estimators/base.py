"""What all estimators share: read, plan, warn, run, remember; one ledger for every fit."""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedclust.estimators import habits, rehearsing
from fedclust.estimators.bounds import Bounds, given_bounds
from fedclust.estimators.columns import as_rows, features
from fedclust.estimators.reading import Rows
from fedclust.estimators.saving import settings_of
from fedclust.estimators.statement import Statement, as_word, statement_of
from fedclust.estimators.telling import _Told
from fedclust_helpers import program
from fedclust_helpers._checked import check_fields
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers._validation import FloatArray, check_real
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData, Federation, Plan, simulate
from fedclust_helpers.federation.data import column_names, depth_outside, is_table

Named = Mapping[Any, float]
LOG = logging.getLogger(__name__)


LONG = 10.0  # seconds from which a fit says what it will take


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


class TooFewRowsWarning(UserWarning):
    """By the plan's own prediction noise will drown the result: said before anything is spent."""


class Prepared(NamedTuple):
    """All that is fixed before the first message."""

    federation: Federation
    plan: Plan
    rows: Rows
    bounds: Any  # lower and upper (d,); None: a run will find them
    running: dict[str, Any]
    method: str
    told: dict[str, Any]  # what the statement says beside the plan


@dataclass(eq=False, repr=False)
class _Planned(_Told):
    """Public bounds in, a result in original units out; one ledger for every fit.

    A dataclass for its constructor: scikit-learn reads the parameters off the signature, and wants
    them kept as they are until `fit`.
    """

    n_clusters: int | Literal["auto"]
    epsilon: float
    delta: float | None = None
    _: KW_ONLY
    bounds: str | PathLike[str] | Mapping[Any, Any] | tuple[Any, ...] | None = None
    lower: ArrayLike | Named | None = None
    upper: ArrayLike | Named | None = None
    public_data: bool = False
    mode: Literal["secure", "teaching"] = "secure"
    seed: int | None = None
    ledger: PrivacyLedger | None = None
    missing: Literal["raise", "drop"] = "raise"
    verbose: bool | int = False
    options: dict[str, Any] | None = None

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Answer a parameter that scikit-learn's estimators have and this one must not."""
        habits.refuse_parameters(cls.__name__, named)
        return super().__new__(cls)

    if TYPE_CHECKING:  # each has a choice of its own
        method: Any
        trust: Any

    # what the estimators fill in ------------------------------------------------------------------

    def _choice(self, **more: Any) -> tuple[str, str | None]:
        """The method, and why it was chosen where that was left open; refuses what it cannot do."""
        return self.method, None

    def _planner(self, method: str) -> Callable[..., Any]:
        """The planner of a method."""
        raise NotImplementedError

    def _planner_on_private_bounds(self, method: str) -> Callable[..., Any]:
        """The planner of a method for rows whose bounds nobody knows."""
        raise ValueError(
            f"bounds must be public with method={method!r}: finding them, bounds='private', takes"
            " method='overclustered' or 'fastlloyd'"
        )

    def _read(self, X: Any, y: Any, clients: Any, bounds: Bounds, method: str) -> Rows:
        """The rows and clients that the arguments of `fit` speak of."""
        raise NotImplementedError

    def _played(
        self, data: ClientData, method: str, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:
        """What is simulated for clients whose rows lie in the box: their data, further options."""
        raise NotImplementedError

    def _given(
        self, method: str, federation: Any, planning: dict[str, Any], running: dict[str, Any],
        rows: Rows, box: tuple[FloatArray, FloatArray], **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Further arguments of the planner, by position; others go into `planning`, `running`."""
        raise NotImplementedError

    def _keep(self, prepared: Prepared, result: Any) -> None:
        """Set what a result means in original units as attributes."""
        raise NotImplementedError

    def _notes(self, plan: Any, method: str) -> list[str]:
        """What a user should hear before the plan is paid for."""
        return []

    # fitting --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, clients: Any = None) -> Self:
        """Run the protocol once and charge it; what is wrong is refused before that.

        Parameters
        ----------
        X : array or table (n, d); list or dict of these, one for each client; or ClientData
            Of a table (DataFrame) the feature columns are those with bounds by name, else all but
            the owners'; values must be numbers, none missing.
        y : None
            Rows have no labels here. Owners of rows go to `clients`.
        clients : name of a column of X, or one id for each row (n,), optional
            Whose each row is: names, numbers of any size, dates. Only beside one array or table;
            without it every row of that is a client of its own.
        """
        return self._fitted(X, y, clients)

    def _fitted(self, X: Any, y: Any, clients: Any, **more: Any) -> Self:
        with self._alone():
            prepared = self._prepare(X, y, clients, **more)
            for note in prepared.told["warnings"]:
                warnings.warn(note, TooFewRowsWarning, stacklevel=depth_outside() + 1)
            self._announce(prepared)
            asked = settings_of(self)
            federation = prepared.federation
            if federation.facts.mode == "secure" and not self.public_data:
                rehearsing.remember(self, prepared.rows.data.points)
            with self._remembering(federation.ledger):
                LOG.info("%s: %s", type(self).__name__, prepared.plan.method)
                result = program.run(federation, prepared.plan, **prepared.running)
                LOG.info("charged: epsilon = %g at delta = %g", result.epsilon, result.delta)
                if prepared.bounds is None:
                    found = result.limits
                    prepared = prepared._replace(bounds=(found.lower, found.upper))
                self._keep(prepared, result)
            self.plan_, self.result_, self.method_ = prepared.plan, result, prepared.method
            self.ledger_, self.transcript_ = federation.ledger, federation.transcript
            self._box, self._told, self._asked = prepared.bounds, prepared.told, asked
            self.n_iter_ = prepared.plan.n_rounds
            self._name_features(federation.facts.n_features, prepared.rows.columns)
        self._caution()
        return self

    def _announce(self, prepared: Prepared) -> None:
        """Say that a fit will take long, and show its progress where somebody can see it."""
        seconds = expected_seconds(prepared.plan, len(prepared.rows.data.points))
        if seconds > LONG:
            LOG.warning("%s: this fit takes about %.0f s", type(self).__name__, seconds)
            prepared.running.setdefault("progress", sys.stderr.isatty())

    def _caution(self) -> None:
        """Warn of what released values say about the result."""

    def preview(self, X: Any, y: Any = None, *, clients: Any = None) -> Statement:
        """The privacy statement of the `fit` with these arguments; nothing is spent or sent.

        Public numbers only go into it. Make it before the budget is touched.
        """
        return self._previewed(X, y, clients)

    def _previewed(self, X: Any, y: Any, clients: Any, **more: Any) -> Statement:
        made = self._prepare(X, y, clients, **more)
        return statement_of(
            type(self).__name__, made.plan, made.bounds, columns=made.rows.columns,
            ledger=made.federation.ledger, **made.told,
        )  # fmt: skip

    def _prepare(self, X: Any, y: Any, clients: Any, **more: Any) -> Prepared:
        """Read, scale and plan: everything that can be refused is refused here."""
        if hasattr(self, "_loaded"):
            raise CopyRefusedError(
                "a loaded model is a record of a release, and does not know what else was spent:"
                " fit a new estimator, with the ledger of the data"
            )
        check_fields(self)
        method, chosen_for = self._choice(**more)
        given = given_bounds(self.lower, self.upper, self.bounds, public_data=self.public_data)
        planner = (self._planner_on_private_bounds if given.private else self._planner)(method)
        rows = self._read(X, y, clients, given, method)
        planning, running = self._split_options(planner, program.run)
        box: Any = None if given.private else given.of_data(rows.data, rows.columns)
        held = rows.data
        if box is not None:
            scaled = scale_to_box(held.points, *box)
            held = ClientData(scaled, held.offsets, held.labels, copy=False)
        data, further = self._played(held, method, rows.n_rows)
        if box is None:
            further["domain"] = "raw"
        own = {"mode": self.mode, "seed": self.seed, "ledger": self._open_ledger()}
        federation: Any = simulate(data, self.trust, **own | further)
        if self.delta is not None and "delta" in inspect.signature(planner).parameters:
            planning["delta"] = self.delta
        first = self._given(method, federation, planning, running, rows, box, **more)
        asked = {"n_clusters": self.n_clusters, "epsilon": check_real(self.epsilon, "epsilon")}
        plan = planner(federation, *first, **asked, **planning)
        if self.verbose and "progress" not in running:
            running["progress"] = True
        called = habits.around(_Planned)
        if called.search is not None and not self.public_data:
            habits.check_search(called.search, plan, self._open_ledger())
        if called.learned and not self.public_data:
            warnings.warn(
                called.uncovered(), habits.UncoveredStepWarning, stacklevel=depth_outside() + 1
            )
        told = {
            "bounds_from": "found privately" if given.private else called.bounds_from(
                given.lower is None
            ),
            "chosen_for": chosen_for, "warnings": tuple(self._notes(plan, method)),
        }  # fmt: skip
        return Prepared(federation, plan, rows, box, running, method, told)

    def _split_options(
        self, plan: Callable[..., Any], run: Callable[..., Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the planner and of the run; unknown ones are refused by name."""
        options = self.options or {}
        ours = {"federation", "plan", "n_clusters", "epsilon", "delta", "rng", "server_points"}
        ours |= {"training"}
        ours |= set(self.get_params(deep=False)) - {"options"}
        known = [set(inspect.signature(f).parameters) - ours for f in (plan, run)]
        known[0] |= self._further_options
        wrong = [name for name in options if name not in known[0] | known[1]]
        if wrong:
            raise ValueError(
                f"options must be among {', '.join(sorted(known[0] | known[1]))}; got"
                f" {', '.join(map(repr, wrong))}"
            )
        planned, running = ({n: v for n, v in options.items() if n in names} for names in known)
        return planned, running

    _further_options: ClassVar[frozenset[str]] = frozenset()

    # the ledger -----------------------------------------------------------------------------------

    def _open_ledger(self) -> PrivacyLedger | None:
        """The ledger that a fit charges: the one given, else the one of the fit before."""
        return getattr(self, "_opened", None) if self.ledger is None else self.ledger

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One fit at a time: of two at once, the ledger of one would be forgotten."""
        ours = object()
        if self.__dict__.setdefault("_busy", ours) is not ours:  # one step for all threads
            raise RuntimeError(
                "a fit of this estimator is under way: fit a clone, with the ledger of the data"
            )
        try:
            yield
        finally:
            self.__dict__.pop("_busy", None)

    @contextmanager
    def _remembering(self, ledger: PrivacyLedger) -> Iterator[None]:
        """Keep the ledger of what was charged, even if a run is interrupted."""
        try:
            yield
        finally:
            if ledger.releases:
                self._opened = ledger

    # rows -----------------------------------------------------------------------------------------

    def _scaled(self, X: Any) -> FloatArray:
        """Rows (n, d) in the box."""
        return scale_to_box(self._in_units(X), *self._box)

    def _in_units(self, X: Any) -> FloatArray:
        """Rows (n, d) in their own units, columns of a table chosen by name."""
        check_is_fitted(self)
        names: Any = getattr(self, "feature_names_in_", None)
        if is_table(X):
            named = names is not None and column_names(X) is not None
            if named and hasattr(self, "_loaded"):  # names as a file keeps them
                own = {as_word(c): c for c in X.columns}
                names = [own.get(name, name) for name in names]
            if named and not set(names) <= set(X.columns):
                raise ValueError(
                    f"X must have the columns of the fit: {', '.join(map(str, names))}"
                )
            X = features(X, "X", columns=list(names) if named else None)
        return as_rows(X, "X", n_features=self.n_features_in_, of=type(self).__name__)

    def _name_features(self, n_features: int, columns: Any) -> None:
        """What scikit-learn asks for; a fit on arrays has no names of columns."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if columns is not None:  # a name may be a tuple
            self.feature_names_in_ = np.fromiter(columns, dtype=object, count=n_features)
