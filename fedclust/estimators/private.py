"""Private k-means over data in its own units, under every trust model."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from fedclust.estimators import habits
from fedclust.estimators.boxed import _Boxed
from fedclust.estimators.families import FAMILIES, best_method
from fedclust.estimators.statement import Statement
from fedclust_helpers._validation import Positive


@dataclass(eq=False, repr=False)
class PrivateKMeans(_Boxed):
    """Private k-means over data in its own units, whomever its owners trust.

        model = PrivateKMeans(3, 1.0, 1e-6, bounds={"age": (0, 110), "height": (60, 220)})
        model.preview(table, clients="hospital")    # the statement; costs nothing
        model.fit(table, clients="hospital")        # noise and keys from the operating system

    Parameters
    ----------
    n_clusters : int or "auto"
        k; "auto", with over-clustered sums, chooses it from what is released anyway.
    epsilon : float
        Total budget of one `fit`, for the unit and adjacency of the method: add/remove one row, or
        one client; under local and shuffled trust any two values of one user's row.
    delta : float, optional
        The same. **Give one far below 1/N**, 1e-6 say: a mechanism that publishes each row with
        probability delta keeps the promise too. By default 1/(N ln N) for sums (the choice of
        FastLloyd's paper: N delta is 0.13 for 2,400 rows), else 1e-6.
    bounds : mapping, tuple or path
        Bounds of every column that are known *without looking at the data*: {column: (lower,
        upper)}, which also chooses the columns of a table; a tuple (lower, upper) of numbers or
        arrays (d,); or a CSV file with the columns column, lower, upper. Rows outside are clipped
        at their client. "private" finds them first, for a fifth of mu^2 (`options`: bounds_share);
        for methods that release sums, and refused where rows are too few for it.
    lower, upper : float, array_like of shape (d,) or dict by column
        The same in two arguments.
    trust : {"masked", "ideal", "trusted", "serverless", "shuffled", "local"}
        Who may see what (docs/trust.md). "masked" (default): statistics travel under masks that
        cancel in the sum, each client adds a share of the noise, and nobody sees more than noised
        sums. "ideal": a box adds up and noises. "trusted": the server sees every client's exact
        sums. "serverless": clients send shares to each other. "shuffled", "local": each row is a
        user who sends one randomised report, through a shuffler or straight to the server.
    unit : {"row", "client"}
        What is protected: one row, or all rows of one client (needs `X_server`, `n_records` and
        `rows_per_client`).
    method : str
        "auto" (default) chooses by public facts alone, `preview` and `statement` say what and why:
        "overclustered" for sums; "adaptive" where `X_server` is given; "sketch" for local and
        shuffled trust. By name also the papers' own: "fastlloyd", "feddp", "one_round".
    publish : bool
        With ``trust="masked"``: whether the results may reach the server (True; see
        `FastLloydKMeans`).
    n_records, rows_per_client : int, optional
        Public numbers of rows, of all clients and of a typical one. Without `n_records` the true
        number is taken and **is public then**.
    X_server : array or table (q, d), optional
        Public rows of the server that resemble the private ones; also an argument of `fit`. They
        cost no privacy. For ``trust="ideal"`` and "trusted".
    radius : float, optional
        With `X_server`: rows longer than this in the box are shortened at their client.
    public_data : bool
        Whether anybody may see the rows. Then the bounds may be left out: they are read off the
        rows, with a `PublicBoundsWarning`.
    mode : {"secure", "teaching"}
        "secure" (default) takes noise and keys from the operating system; "teaching" takes a
        `seed` and is not private against anyone who knows it.
    seed : int, optional
        Of all noise and keys, for teaching mode alone.
    ledger : PrivacyLedger, optional
        The ledger of this data set. Pass the same one to every fit on the same data, and it goes
        with every clone: searches and cross-validation charge it for every fit (in this process;
        elsewhere it refuses). Without it the first `fit` opens one, and further fits of this
        estimator are charged to the same one; a scikit-learn clone, for other data, begins with
        none.
    missing : {"raise", "drop"}
        What happens to rows with a missing value: they are refused, or left out at their client by
        this rule. What one row moves stays what it was, and whether a row was complete is protected
        as its values are. **The public number of rows counts all**, complete or not: `n_records`,
        or the true number without it. Every client needs a complete row. Not under local or
        shuffled trust, where a report that is not sent would tell of the gap.
    verbose : bool or int
        Whether a long fit shows a bar. The loggers `fedclust` and
        `fedclust_helpers` tell of plans and charges.
    options : dict, optional
        Further arguments of the method's planner, and of its run (n_rounds, progress ...).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d), in original units
    cluster_sizes_ : ndarray of shape (n_clusters,)
        Rows of each cluster as they were released, with noise; for reports, as estimated.
    cautions_ : tuple of str
        What released values say against the result, as the `UncertainCentersWarning` of the fit: a
        cluster that is nearly empty, noise of the size of the gaps between centres.
    method_ : str
        The method that ran.
    n_iter_ : int
        Its rounds.
    plan_ : program.Plan
        What was fixed before the first message. `statement` and, before a fit, `preview` say it in
        words.
    ledger_, transcript_, result_
        What was charged, what crossed the wire, the full result.
    clipped_counts_ : ndarray of shape (M,)
        Rows that each client clipped: known to the clients only, no part of release or pickle.
        There is no `labels_`, either: labels of private rows are computed where the rows are.

    Notes
    -----
    scikit-learn's estimator checks pass but for a few, which tests list with their reasons.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(20, 2, (400, 2)), rng.normal(60, 2, (400, 2))
    >>> model = PrivateKMeans(2, 1.0, 1e-6, bounds=(0, 100), mode="teaching", seed=1)
    >>> model = model.fit([a, b])
    >>> np.sort(model.cluster_centers_[:, 0]).round(-1).tolist()
    [20.0, 60.0]
    >>> model.method_
    'overclustered'
    """

    _: KW_ONLY
    trust: Literal["masked", "ideal", "trusted", "serverless", "shuffled", "local"] = "masked"
    unit: Literal["row", "client"] = "row"
    method: Literal[
        "auto", "overclustered", "fastlloyd", "adaptive", "feddp", "sketch", "one_round"
    ] = "auto"
    publish: bool = True
    n_records: int | None = None
    rows_per_client: int | None = None
    X_server: ArrayLike | None = None
    radius: Positive | None = None

    def fit(
        self, X: Any, y: Any = None, *, clients: Any = None, X_server: Any = None, **further: Any
    ) -> Self:  # fmt: skip
        """Run the protocol once and charge it; what is wrong is refused before that.

        Parameters
        ----------
        X : array or table (n, d); list or dict of these, one for each client; or ClientData
            Of a table (DataFrame) the feature columns are those with bounds by name, else all but
            the owners'; values must be numbers, none missing (but see `missing`).
        y : None
            Rows have no labels here. Owners of rows go to `clients`.
        clients : name of a column of X, or one id for each row (n,), optional
            Whose each row is: names, numbers of any size, dates. Only beside one array or table.
            Without it, one holder has all rows (``trust="trusted"``), or each row is a client of
            its own; say so for more than 200 rows: ``range(len(X))``.
        X_server : array or table (q, d), optional
            Takes the place of the constructor's.
        """
        habits.refuse_arguments(y, further)
        return self._fitted(X, None, clients, X_server=X_server)

    def preview(
        self, X: Any, y: Any = None, *, clients: Any = None, X_server: Any = None, **further: Any
    ) -> Statement:  # fmt: skip
        """The privacy statement of the `fit` with these arguments; nothing is spent or sent.

        Public numbers only go into it. Make it before the budget is touched.
        """
        habits.refuse_arguments(y, further)
        return self._previewed(X, None, clients, X_server=X_server)

    def _choice(self, **more: Any) -> tuple[str, str | None]:
        method: str = self.method
        chosen_for = None
        if method == "auto":
            has_server = more.get("X_server") is not None or self.X_server is not None
            method, chosen_for = best_method(self.trust, self.unit, has_server=has_server)
        FAMILIES[method].check(self, method, **more)
        return method, chosen_for

    @property
    def _one_row_each(self) -> bool:  # type: ignore[override]
        return self.trust in ("local", "shuffled")
