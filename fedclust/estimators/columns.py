"""Columns described privately, for people with data: bounds of each, and a summary of each.

    found = private_bounds(table, 0.5, owners="hospital")
    PrivateKMeans(3, 1.0, bounds=found.bounds).fit(table, clients="hospital")
    private_summary(table, 1.0, owners="hospital").table()

Rows are in their own units, and numbers may be missing. What is released is noised counts of the
rows by column, as sums over all clients, under every trust model with sums; all else is computed
from them. One ledger, one plan, one total.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedclust import describing
from fedclust.estimators.bounds import Bounds, given_bounds
from fedclust.estimators.methods import COLUMNS
from fedclust.estimators.planning import Account, announce, outside, prepare
from fedclust.estimators.statement import Statement, statement_of
from fedclust_helpers._checked import checked
from fedclust_helpers._lazy import imported, pd
from fedclust_helpers._validation import Count, Delta, Epsilon, FloatArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import Plan
from fedclust_helpers.program import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Trust = Literal["masked", "ideal", "trusted", "serverless"]
Mode = Literal["secure", "teaching"]


@dataclass(frozen=True, eq=False, repr=False)
class _Described:
    """A run on raw rows: `plan`, `result`, `ledger`, and the names of the columns, or None."""

    plan: Plan = field(repr=False)
    result: Run = field(repr=False)
    ledger: PrivacyLedger = field(repr=False)
    columns: list[Any] | None
    _told: dict[str, Any]

    @property
    def lower(self) -> FloatArray:
        """The lower bound of each column (d,)."""
        return np.asarray(self.result.lower)

    @property
    def upper(self) -> FloatArray:
        """The upper bound of each column (d,)."""
        return np.asarray(self.result.upper)

    def statement(self) -> Statement:
        """The privacy statement: what was protected, who saw what, what is left."""
        return statement_of(
            self.plan.method, self.plan, (self.lower, self.upper), columns=self.columns,
            ledger=self.ledger, result=self.result, **self._told,
        )  # fmt: skip

    @property
    def names(self) -> list[Any]:
        """The names of the columns, or "column 0", ... of arrays."""
        return self.columns or [f"column {i}" for i in range(len(self.lower))]

    @property
    def bounds(self) -> dict[Any, tuple[float, float]]:
        """Both bounds as `bounds` of an estimator: by the name of each column, 0, 1, ... of arrays.

        They are public now: whoever fits with them pays for the fit alone.
        """
        pairs = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        return dict(zip(self.columns or range(len(self.lower)), pairs, strict=True))

    def table(self) -> pd.DataFrame:
        """A row for each column."""
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self.table().to_string(float_format="{:.4g}".format)
        except ImportError:  # without pandas there are no tables
            return f"{type(self).__name__}({len(self.lower)} columns)"

    def _repr_html_(self) -> str:
        return str(self.table().to_html(float_format="{:.4g}".format))


@dataclass(frozen=True, eq=False, repr=False)
class PrivateBounds(_Described):
    """Bounds of every column: what `private_bounds` found.

    Attributes
    ----------
    lower, upper : ndarray of shape (d,)
        In the units of the rows.
    found : ndarray of bool, shape (d,)
        False: no window of that column holds rows for sure, and its bounds are a guess.
    histograms : tuple of ndarray of shape (d, b)
        The noised counts of each release, between `edges` (d, b + 1).
    plan, result, ledger
        What was fixed before, what was released, what was charged.

    Examples
    --------
    >>> import numpy as np
    >>> from fedclust import private_bounds
    >>> rows = np.random.default_rng(0).normal(50, 10, (9000, 1))
    >>> private_bounds([rows[::2], rows[1::2]], 1.0, mode="teaching", seed=1).found
    array([ True])
    """

    @property
    def found(self) -> Any:
        """In which columns rows were found for sure (d,)."""
        return self.result.found

    @property
    def histograms(self) -> tuple[FloatArray, ...]:
        """The noised counts of each look (d, b)."""
        return tuple(self.result.histograms)

    @property
    def edges(self) -> tuple[FloatArray, ...]:
        """Edges of the bins of each look (d, b + 1)."""
        return tuple(self.result.edges)

    def table(self) -> pd.DataFrame:
        """A row for each column: lower, upper, found."""
        content = {"lower": self.lower, "upper": self.upper, "found": self.found}
        return pd.DataFrame(content, index=self.names)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSummary(_Described):
    """A summary of every column: what `private_summary` released.

    Attributes
    ----------
    count, mean, spread, quartiles : describing.Estimate
        Each a `value` with the ends of its interval, `low` and `high`, of shape (d,), quartiles
        (d, 3). `spread` is the standard deviation. A number beyond the bounds counts as the bound.
    histogram, edges : ndarray of shape (d, b) and (d, b + 1)
        Noised counts, each with a standard deviation of `std`.
    lower, upper, plan, result, ledger
        Bounds, what was fixed before, what was released, what was charged.

    Examples
    --------
    >>> import numpy as np
    >>> from fedclust import private_summary
    >>> rows = np.random.default_rng(0).normal(50, 10, (9000, 1))
    >>> clients = [rows[::2], rows[1::2]]
    >>> known = private_summary(clients, 1.0, bounds=(0, 100), mode="teaching", seed=1)
    >>> known.mean.value.round(), known.table().shape
    (array([50.]), (1, 20))
    """

    def __getattr__(self, name: str) -> Any:
        if name not in describing.Summary.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.result.value, name)

    def table(self) -> pd.DataFrame:
        """A row for each column: each value, and the ends of its interval."""
        content: dict[tuple[str, str], FloatArray] = {}
        for name in ("count", "mean", "spread"):
            content |= {(name, end): v for end, v in getattr(self, name)._asdict().items()}
        for i, name in enumerate(("25 %", "50 %", "75 %")):
            content |= {(name, end): v[:, i] for end, v in self.quartiles._asdict().items()}
        content |= {("bounds", "low"): self.lower, ("bounds", "high"): self.upper}
        return pd.DataFrame(content, index=self.names)

    def plot(self) -> Figure:
        """A histogram of each column, with its quartiles; noise of two deviations in grey."""
        plt = imported("matplotlib.pyplot")
        d = len(self.lower)
        wide = min(d, 4)
        figure, axes = plt.subplots(
            -(-d // wide), wide, figsize=(3.2 * wide, 2.4 * -(-d // wide)), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for ax in axes.flat[d:]:
            ax.set_axis_off()
        for j, (ax, name) in enumerate(zip(axes.flat, self.names, strict=False)):
            ax.stairs(np.maximum(self.histogram[j], 0.0), self.edges[j], fill=True, color="0.75")
            ax.axhspan(0, 2 * self.std, color="0.5", alpha=0.3, linewidth=0)
            for value, line in zip(self.quartiles.value[j], (":", "-", ":"), strict=True):
                ax.axvline(value, color="C0", linestyle=line)
            ax.set(title=str(name), xlim=(self.lower[j], self.upper[j]))
            ax.set_ylim(bottom=0)
        figure.supylabel("rows in each bin")
        plt.close(figure)
        made: Figure = figure
        return made


@checked
def private_bounds(
    clients: Any, epsilon: Epsilon, *, owners: Any = None, columns: list[Any] | None = None,
    delta: Delta | None = None, trust: Trust = "masked", publish: bool = True,
    n_records: Count | None = None, mode: Mode = "secure", seed: int | None = None,
    ledger: PrivacyLedger | None = None, preview: bool = False, **options: Any,
) -> PrivateBounds | Statement:  # fmt: skip
    """Bounds of every column, found privately: (epsilon, delta), one row.

    Nothing must be known of units or sizes: one release counts the rows of each column by sign and
    power of two, and where there are rows enough one or two more look closer. Rows beyond the
    bounds are few: less than 0.1 % at each end where rows are many.

    Parameters
    ----------
    clients : array or table (n, d); list or dict of these, one for each client; or ClientData
        What `fit` of an estimator takes as X. Numbers may be missing (nan, None).
    epsilon : float
        Total, for add/remove one row, or for what `ledger` is kept.
    owners : name of a column, or one id for each row (n,), optional
        Whose each row is, beside one table: what `fit` takes as `clients`.
    columns : list, optional
        Of a table, the columns to look at; by default all but the owners'.
    delta : float, optional
        By default 1/(N ln N), with N the public number of rows; give a smaller one, 1e-6 say.
    trust, publish, n_records, mode, seed
        As for `PrivateKMeans`; the number of rows is public.
    ledger : PrivacyLedger, optional
        The ledger of this data set, to which estimators are charged, too.
    preview : bool
        Return the statement of the plan instead: nothing is spent or sent.
    **options
        Of the planner, `describing.plan_bounds` (alarm).

    Raises
    ------
    ValueError, TypeError
        For what cannot be read or planned, and where rows are so few that bounds would be noise:
        noise in one bin, sqrt(d)/(mu N), above 5 % of all rows. Nothing is charged then. A
        `TooFewRowsWarning` is given above 1.3 %.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal([50, 2000], [10, 5], (9000, 2))
    >>> found = private_bounds([rows[::2], rows[1::2]], 1.0, mode="teaching", seed=1)
    >>> bool(((found.lower < rows.min(axis=0) + 20) & (found.upper < 3000)).all())
    True
    """
    given = Bounds(columns, None, None, private=True)
    how = _Call(epsilon, delta, trust, publish, n_records, mode, seed, ledger, options)
    return _described(PrivateBounds, "bounds", how, given, clients, owners, preview=preview)


@checked
def private_summary(
    clients: Any, epsilon: Epsilon, *, bounds: Any = "private", owners: Any = None,
    columns: list[Any] | None = None, delta: Delta | None = None, trust: Trust = "masked",
    publish: bool = True, n_records: Count | None = None, mode: Mode = "secure",
    seed: int | None = None, ledger: PrivacyLedger | None = None, preview: bool = False,
    **options: Any,
) -> PrivateSummary | Statement:  # fmt: skip
    """Number, mean, spread, quartiles and histogram of every column: (epsilon, delta), one row.

    All columns are asked together in one release, on public bounds or on bounds that are found
    privately first, for a fifth of mu^2. Intervals (95 %, each by itself) hold the noise and what a
    sample of so many rows may be off. They are for numbers cut to the bounds.

    Parameters
    ----------
    bounds : "private", or what `PrivateKMeans` takes
        {column: (lower, upper)}, a pair of numbers or arrays, or the path of a CSV file.
    clients, epsilon, owners, columns, delta, trust, publish, n_records, mode, seed, ledger, preview
        As for `private_bounds`.
    **options
        Of the planner, `describing.plan_summary` (bins, level).

    Raises
    ------
    ValueError, TypeError
        As for `private_bounds`; nothing is charged then.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(50, 10, (9000, 1))
    >>> known = private_summary(
    ...     [rows[::2], rows[1::2]], 1.0, bounds=(0, 100), mode="teaching", seed=1
    ... )
    >>> bool(known.mean.low[0] < 50 < known.mean.high[0])
    True
    """
    given = given_bounds(None, None, bounds, public_data=False)
    given = given.pick(columns)
    how = _Call(epsilon, delta, trust, publish, n_records, mode, seed, ledger, options)
    return _described(PrivateSummary, "summary", how, given, clients, owners, preview=preview)


@dataclass(frozen=True)
class _Call:
    """What a family reads of an estimator, for a function."""

    epsilon: float
    delta: float | None
    trust: str
    publish: bool
    n_records: int | None
    mode: str
    seed: int | None
    ledger: PrivacyLedger | None
    options: dict[str, Any]
    missing = "keep"
    verbose = False
    _parameters = frozenset({"lower", "upper"})
    _further_options: frozenset[str] = frozenset()

    @property
    def _account(self) -> Account:
        return Account(self.ledger)


def _described(
    kind: Any, method: str, how: _Call, bounds: Bounds, clients: Any, owners: Any, *, preview: bool
) -> Any:
    """Read and plan, then run; or what would be run."""
    made = prepare(how, COLUMNS, method, bounds, clients, clients=owners)
    ledger, columns = made.federation.ledger, made.rows.columns
    if preview:
        made.tell()
        return statement_of(
            made.plan.method, made.plan, None, columns=columns, ledger=ledger, **made.told
        )
    announce(kind.__name__, made)
    result = describing.run(made.federation, made.plan, **made.running)
    if bounds.private:
        made._replace(local=outside(made.rows, result.lower, result.upper)).tell()
    return kind(made.plan, result, ledger, columns, made.told)
