"""What all estimators share: read, plan, warn, run, tell; one ledger for every fit."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedclust.estimators import arguments, rehearsing, saving
from fedclust.estimators.bounds import given_bounds
from fedclust.estimators.methods import Family
from fedclust.estimators.planning import Account, Prepared, announce, outside, prepare
from fedclust.estimators.statement import Statement, statement_of
from fedclust.tables import read_numbers
from fedclust_helpers import program
from fedclust_helpers._checked import check_fields
from fedclust_helpers._progress import Progress
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers._validation import FloatArray, check_bool
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import scale_to_box

Named = Mapping[Any, float]
LOG = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class _Estimator(BaseEstimator):
    """Public bounds in, a result in original units out; one ledger for every fit.

    A dataclass for its constructor: scikit-learn reads the parameters off the signature, and wants
    them kept as they are until `fit`.
    """

    n_clusters: int | Literal["auto"]
    epsilon: float
    delta: float | None = None
    _: KW_ONLY
    bounds: Any = None
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
        arguments.refuse_parameters(cls.__name__, named)
        return super().__new__(cls)

    if TYPE_CHECKING:  # each has a choice of its own, and fills these in
        method: Any
        trust: Any

        def _keep(self, prepared: Prepared, result: Any) -> None: ...  # in original units
        def _content(self) -> dict[str, Any]: ...  # what was released, as JSON
        def _restore(self, content: Mapping[str, Any]) -> None: ...
        def _good(self, X: Any, y: Any, clients: Any) -> float: ...  # how good this fit is
        def _bare(self, X: Any, y: Any, clients: Any, rng: Any) -> float: ...  # one without noise

    _local: ClassVar[tuple[str, ...]] = ()  # attributes that only the clients know
    _further_options: ClassVar[frozenset[str]] = frozenset()
    _quality: ClassVar[str] = "nicv"
    _one_row_each: ClassVar[bool] = False

    def _family(self, method: str) -> Family:
        """What the planner of a method must hear."""
        raise NotImplementedError

    def _choice(self, X_server: Any = None) -> tuple[str, str | None]:
        """The method, and why it was chosen where that was left open; refuses what it cannot do."""
        self._family(self.method).check(self, self.method, X_server)
        return self.method, None

    def _caution(self) -> None:
        """Warn of what released values say about the result."""

    # fitting --------------------------------------------------------------------------------------

    def _fitted(self, X: Any, y: Any, clients: Any, X_server: Any = None) -> Self:
        with self._alone():
            prepared = self._prepare(X, y, clients, X_server)
            with self._account.charging(prepared.federation.ledger) as ledger:
                if ledger is not prepared.federation.ledger:  # a clone opened one meanwhile
                    prepared = self._prepare(X, y, clients, X_server)
                announce(type(self).__name__, prepared)
                self._run(prepared)
        self._caution()
        return self

    def _run(self, prepared: Prepared) -> None:
        """Charge, release, and keep what was released."""
        federation, asked = prepared.federation, saving.settings_of(self)
        if federation.facts.mode == "secure" and not self.public_data:
            rehearsing.remember(self, prepared.rows.data.points)
        LOG.info("%s: %s", type(self).__name__, prepared.plan.method)
        self.ledger_ = federation.ledger  # says what was spent, also where a fit does not end
        result = program.run(federation, prepared.plan, **prepared.running)
        LOG.info("charged: epsilon = %g at delta = %g", result.epsilon, result.delta)
        if prepared.bounds is None:
            found = result.limits.lower, result.limits.upper
            prepared = prepared._replace(bounds=found, local=outside(prepared.rows, *found))
            prepared.tell()
        self._keep(prepared, result)
        self.plan_, self.result_, self.method_ = prepared.plan, result, prepared.method
        self._box, self._asked, self.transcript_ = prepared.bounds, asked, federation.transcript
        self._told = prepared.told | {"ledger": federation.ledger}
        self.n_iter_ = prepared.plan.n_rounds
        self._name_features(federation.facts.n_features, prepared.rows.columns)

    def preview(self, X: Any, y: Any = None, *, clients: Any = None) -> Statement:
        """The privacy statement of the `fit` with these arguments; nothing is spent or sent.

        Public numbers only go into it. Make it before the budget is touched.
        """
        return self._previewed(X, y, clients)

    def _previewed(self, X: Any, y: Any, clients: Any, X_server: Any = None) -> Statement:
        made = self._prepare(X, y, clients, X_server)
        made.tell()
        return statement_of(
            type(self).__name__, made.plan, made.bounds, columns=made.rows.columns,
            ledger=made.federation.ledger, **made.told,
        )  # fmt: skip

    def _prepare(self, X: Any, y: Any, clients: Any, X_server: Any = None) -> Prepared:
        """Read, scale and plan: everything that can be refused is refused here."""
        if hasattr(self, "_loaded"):
            raise CopyRefusedError(
                "a model that was loaded, clustered again or put together is a record of releases,"
                " and does not know what else was spent: fit a new estimator, with the ledger of"
                " the data"
            )
        check_fields(self)
        method, chosen_for = self._choice(X_server)
        given = given_bounds(self.lower, self.upper, self.bounds, public_data=self.public_data)
        family = self._family(method)
        return prepare(self, family, method, given, X, y, clients, X_server, chosen_for)

    @property
    def _parameters(self) -> set[str]:
        """What cannot be given in `options`, since it has a place of its own."""
        return set(self.get_params(deep=False)) - {"options"}

    # the ledger -----------------------------------------------------------------------------------

    @property
    def _account(self) -> Account:
        """Of the ledger that was given; else of the one that the first fit opens."""
        own: Account = self.__dict__.setdefault("_account", Account())
        if self.ledger is not None and self.ledger is not own.given:
            own = self.__dict__["_account"] = Account(self.ledger)
        return own

    def _sharing(self, made: Self) -> Self:
        """Another estimator, whose fits are charged to the same ledger as those of this one."""
        account = made.__dict__["_account"] = self._account  # made here, before the first fit too
        account.is_shared = True
        return made

    def __sklearn_clone__(self) -> Self:
        """A clone shares the ledger of its original: whose rows it will be given is not known."""
        return self._sharing(super().__sklearn_clone__())

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

    # rows -----------------------------------------------------------------------------------------

    def _in_box(self, rows: FloatArray) -> FloatArray:
        """Rows (n, d) of their own units in the box."""
        return scale_to_box(rows, *self._box)

    def _in_units(self, X: Any, name: str = "X", *, gaps: bool = False) -> FloatArray:
        """Rows (n, d) in their own units, in the columns of the fit."""
        columns, of = self._columns, type(self).__name__
        d = len(columns)
        return read_numbers(X, name, columns=columns, gaps=gaps, n_features=d, of=of)[0]

    @property
    def _columns(self) -> list[Any]:
        """The names of the columns of the fit: 0, 1, ... where they had none."""
        check_is_fitted(self)
        return list(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _name_features(self, n_features: int, columns: Any) -> None:
        """What scikit-learn asks for; a fit on arrays has no names of columns."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if columns is not None:  # a name may be a tuple
            self.feature_names_in_ = np.fromiter(columns, dtype=object, count=n_features)

    # what may be shown and kept -------------------------------------------------------------------

    def statement(self) -> Statement:
        """The privacy statement of the last fit: what was protected, who saw what, what is left."""
        check_is_fitted(self)
        if not hasattr(self, "plan_"):
            loaded: Statement = self._loaded
            return loaded
        names = getattr(self, "feature_names_in_", None)
        return statement_of(
            type(self).__name__, self.plan_, self._box, columns=names,
            result=self.result_, **self._told,
        )  # fmt: skip

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write what was released, and the statement, as JSON (see `load`): no data, no secrets.

        FileExistsError if `path` exists, unless `overwrite`.
        """
        check_is_fitted(self)
        saving.save(self, path, overwrite=check_bool(overwrite, "overwrite"))

    def rehearse(
        self, X: Any, y: Any = None, *, clients: Any = None, n_clusters: Any = None,
        epsilon: Any = None, n_rounds: Any = None, n_rows: int | None = None, n_clients: int = 10,
        repeats: int = 3, seed: int = 0, progress: Progress = False,
    ) -> Any:  # fmt: skip
        """Try the plan, and plans near it, on data that costs nothing: public or synthetic.

        **Do not hand private data to it**: nothing is protected here, and no ledger is charged. The
        rows of a fit of this estimator in secure mode are refused, in whatever order they come.

        Parameters
        ----------
        X, y, clients
            As for `fit`. One table without `clients` is dealt to `n_clients` at random.
        n_clusters, epsilon, n_rounds : sequences of numbers, optional
            Values to compare, one at a time. By default one cluster fewer and one more, half and
            twice epsilon, and (where a method has rounds to choose) one round fewer and one more.
            An empty sequence leaves a comparison out.
        n_rows : int, optional
            The public number of rows of the private data: so many are drawn from X, with
            replacement, since noise matters less among many rows.
        n_clients : int
            To how many clients one table is dealt that does not say whose its rows are.
        repeats : int
            Runs of each plan, in teaching mode.
        seed : int
            Of all choices made here.
        progress : bool or function
            A bar over the runs, or called as progress(done, total).

        Returns
        -------
        pandas.DataFrame
            A row for each plan. `nicv` (mean squared distance to the nearest centre, in the box
            [-1, 1]^d; for models `accuracy`) and its standard deviation over the repeats, the same
            `without_noise` (non-private k-means; for models a run without noise), their `ratio`,
            and whether the plan warns of too few rows.
        """
        return rehearsing.rehearse(
            self, X, y, clients, n_clusters=n_clusters, epsilon=epsilon, n_rounds=n_rounds,
            n_rows=n_rows, n_clients=n_clients, repeats=repeats, seed=seed, progress=progress,
        )  # fmt: skip

    @property
    def _n_found(self) -> int:
        """Clusters of the result: a plan may leave the choice to what is released."""
        return int(self.plan_.n_clusters)

    @property
    def _bare_key(self) -> Any:
        """What `_bare` depends on, but for the rows."""
        return self._n_found

    def _repr_html_inner(self) -> Any:
        return self.statement()._repr_html_() if self._is_told else super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """In Jupyter a fitted estimator shows its privacy statement."""
        if not self._is_told:
            shown: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
            return shown
        made = self.statement()
        return {"text/plain": str(made), "text/html": made._repr_html_()}

    @property
    def _is_told(self) -> bool:
        return hasattr(self, "plan_") or hasattr(self, "_loaded")

    # pickles and clones ---------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A fitted estimator is pickled as what was released: the ledger becomes a record of it.

        What only the clients know is left out. An estimator that was not fitted keeps its ledger,
        which refuses to be pickled if it has a budget.
        """
        state = dict(super().__getstate__())
        for name in (*self._local, "_busy", "_private", "_account"):
            state.pop(name, None)
        account = self._account
        if account.is_charged:
            record = account.record()
            state["_account"] = Account(record)
            state["ledger"] = None if self.ledger is None else record
            if "ledger_" in state:
                state["ledger_"] = self.ledger_.since(0)
            if "_told" in state:
                state["_told"] = self._told | {"ledger": self._told["ledger"].since(0)}
        elif account.is_shared:
            state["_account"] = account
        return state

    def __copy__(self) -> Self:
        return self._with(self.__dict__)

    def __deepcopy__(self, memo: Any) -> Self:
        return self._with(deepcopy(self.__dict__, memo))  # ledgers stay the same object

    def _with(self, state: dict[str, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(state)
        made.__dict__.pop("_busy", None)
        return self._sharing(made)
