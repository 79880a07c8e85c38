"""What a fitted estimator tells and keeps: its statement, files, rehearsals and copies."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedclust.estimators import rehearsing, saving
from fedclust.estimators.statement import Statement, statement_of
from fedclust_helpers._progress import Progress
from fedclust_helpers._validation import check_bool


class _Told(BaseEstimator):
    """An estimator that says what was released, and keeps nothing else."""

    _local: ClassVar[tuple[str, ...]] = ()  # attributes that only the clients know

    # what may be shown and kept -------------------------------------------------------------------

    def statement(self) -> Statement:
        """The privacy statement of the last fit: what was protected, who saw what, what is left."""
        check_is_fitted(self)
        if not hasattr(self, "plan_"):
            loaded: Statement = self._loaded
            return loaded
        names = getattr(self, "feature_names_in_", None)
        return statement_of(
            type(self).__name__, self.plan_, self._box, columns=names, ledger=self.ledger_,
            result=self.result_, **self._told,
        )  # fmt: skip

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write what was released, and the statement, as JSON (see `load`): no data, no secrets.

        FileExistsError if `path` exists, unless `overwrite`.
        """
        check_is_fitted(self)
        saving.save(self, path, overwrite=check_bool(overwrite, "overwrite"))

    def _content(self) -> dict[str, Any]:
        """What was released, as JSON."""
        raise NotImplementedError

    def _restore(self, content: Mapping[str, Any]) -> None:
        """Take back what `_content` gave."""
        raise NotImplementedError

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

    def _good(self, X: Any, y: Any, clients: Any) -> float:
        """How good this fit is on these rows."""
        raise NotImplementedError

    def _bare(self, X: Any, y: Any, clients: Any, rng: Any) -> float:
        """How good one is without noise."""
        raise NotImplementedError

    @property
    def _n_found(self) -> int:
        """Clusters of the result: a plan may leave the choice to what is released."""
        return int(self.plan_.n_clusters)

    @property
    def _bare_key(self) -> Any:
        """What `_bare` depends on, but for the rows."""
        return self._n_found

    _quality: ClassVar[str] = "nicv"
    _one_row_each: ClassVar[bool] = False

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

    # copies ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A fitted estimator is pickled as what was released: the ledger becomes a record of it.

        What only the clients know is left out. An estimator that was not fitted keeps its ledger,
        which refuses to be pickled if it has a budget.
        """
        state = dict(super().__getstate__())
        for name in (*self._local, "_busy", "_private"):
            state.pop(name, None)
        if "_opened" in state:
            record = state["_opened"].since(0)
            state |= {name: record for name in ("_opened", "ledger_") if name in state}
            state["ledger"] = None if state["ledger"] is None else record
        return state

    def __copy__(self) -> Self:
        return self._with(self.__dict__)

    def __deepcopy__(self, memo: Any) -> Self:
        return self._with(copy.deepcopy(self.__dict__, memo))  # ledgers stay the same object

    def _with(self, state: dict[str, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(state)
        made.__dict__.pop("_busy", None)
        return made
