"""Private k-means over data in its own units: for every trust model, and as the papers have it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fedclust.estimators import arguments, clusters, drawing, reclustering
from fedclust.estimators.base import Named, _Estimator
from fedclust.estimators.cautions import (
    UncertainCentersWarning,
    cautions,
    released_sizes,
)
from fedclust.estimators.clients import is_one_table, read_rows
from fedclust.estimators.methods import FAMILIES, Family, best_method
from fedclust.estimators.planning import Prepared
from fedclust.estimators.statement import Statement
from fedclust_helpers import kmeans, metrics
from fedclust_helpers._validation import FloatArray, IntArray, Positive, as_points, check_bool
from fedclust_helpers.datasets import scale_from_box
from fedclust_helpers.fastlloyd import WeightedCopy
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import depth_outside, row_lengths


@dataclass(eq=False, repr=False)
class _Boxed(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, _Estimator):
    """Centres that were found in the box [-1, 1]^d, in the units of the data."""

    _: KW_ONLY
    weights: ArrayLike | Named | None = None

    _local: ClassVar[tuple[str, ...]] = ("clipped_counts_",)

    def _keep(self, prepared: Prepared, result: Any) -> None:
        self._box_centers = FAMILIES[prepared.method].in_box(result.centers)
        self.cluster_centers_ = scale_from_box(self._box_centers, *prepared.bounds)
        self.clipped_counts_ = np.maximum(prepared.clipped, prepared.federation.clipped_counts)
        made = getattr(result, "copy", None)
        self._copy = made if isinstance(made, WeightedCopy) else None
        found = released_sizes(result, self._box_centers)
        self.cluster_sizes_, self._size_std, self._center_std = found[:3]
        self._said = found.said
        n = prepared.plan.facts.n_records
        self.cautions_ = cautions(found, self._box_centers, n, self._copy)

    def _caution(self) -> None:
        for text in self.cautions_[len(self._said) :]:  # the run has warned of the first
            warnings.warn(text, UncertainCentersWarning, stacklevel=depth_outside() + 1)

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
        return self._fitted(X, None, clients, self._served(y, X_server, further))

    def preview(
        self, X: Any, y: Any = None, *, clients: Any = None, X_server: Any = None, **further: Any
    ) -> Statement:  # fmt: skip
        """The privacy statement of the `fit` with these arguments; nothing is spent or sent.

        Public numbers only go into it. Make it before the budget is touched.
        """
        return self._previewed(X, None, clients, self._served(y, X_server, further))

    def _served(self, y: Any, X_server: Any, further: dict[str, Any]) -> Any:
        """The server's rows; labels, weights, and such rows where no server has any are refused."""
        if X_server is not None and not hasattr(self, "X_server"):
            further["X_server"] = X_server
        arguments.refuse_arguments(y, further)
        return X_server

    def _family(self, method: str) -> Family:
        return FAMILIES[method]

    def fit_predict(self, X: Any, y: Any = None, **given: Any) -> Any:
        """`fit` with these arguments, then the label of each row (n,); a list for several clients.

        Labels come from the released centres and the holder's own rows: they cost no budget as long
        as they stay with the holder. The estimator does not keep them.
        """
        return self.fit(X, y, **given).predict(X)  # takes what a fit takes

    def predict(self, X: Any) -> Any:
        """Nearest centre (n,) of each row, in the scaled box: for the holder, no release.

        X is what `fit` takes: for several clients the result is a list. With ``missing="drop"`` a
        row with a missing value has label -1.
        """
        return self._of_each(X, self._labels)

    def transform(self, X: Any) -> Any:
        """Distance (n, k) of each row to each centre in the scaled box: no release either.

        The metric is that of `predict`: each column counts by its bounds, which lie 2 apart, and
        the smallest distance is that of the label. X as for `predict`; distances of a row with a
        missing value are nan.
        """
        arguments.check_output(self, is_one_table(X))
        return self._of_each(X, self._distances)

    def score(self, X: Any, y: ArrayLike | None = None) -> float:
        """Minus the sum of squared distances to the centres of `predict`, in the units of X.

        Larger is better; `y` is not used. X as for `predict`; rows that have no label count
        nothing. On private data this number is a further release: charge it or keep it to yourself.
        The same holds for what scikit-learn's searches and cross-validation print from it.
        ValueError where the sum is beyond what numbers can hold.
        """
        each = self._of_each(X, self._costs)
        sums = [each] if isinstance(each, float) else each
        if not np.isfinite(sums).all():
            raise ValueError(
                "X must be near the size of 1: squares of its distances are beyond the range of"
                " numbers (1e-308 to 1e308); change the unit of its columns, and of their bounds"
            )
        return -float(sum(sums))

    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """`fit` with these arguments, then `transform`: a list for several clients."""
        arguments.check_output(self, is_one_table(X))
        return self.fit(X, y, **given).transform(X)

    def _of_each(self, X: Any, value: Any) -> Any:
        """`value` of the rows of one table, or a list of those of each client."""
        gaps = self.missing == "drop"
        if is_one_table(X):
            return value(self._in_units(X, gaps=gaps))
        if isinstance(X, ClientData):
            X = [X.client(i) for i in range(X.n_clients)]
        keys = list(X) if isinstance(X, Mapping) else list(range(len(X)))
        each = [self._in_units(X[key], f"X[{key!r}]", gaps=gaps) for key in keys]
        return [value(rows) for rows in each]

    def _labels(self, rows: FloatArray) -> IntArray:
        labels, full = np.full(len(rows), -1), ~np.isnan(rows).any(axis=1)
        if full.any():
            labels[full] = kmeans.assign(self._in_box(rows[full]), self._box_centers).labels
        return labels

    def _distances(self, rows: FloatArray) -> FloatArray:
        found, full = np.full((len(rows), self._n_found), np.nan), ~np.isnan(rows).any(axis=1)
        if full.any():
            scaled = self._in_box(rows[full])
            each = [row_lengths(scaled - center) for center in self._box_centers]
            found[full] = np.stack(each, axis=1)
        return found

    def _costs(self, rows: FloatArray) -> float:
        """The sum of squared distances in units; inf where it is too large or too small."""
        labels = self._labels(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return clusters.sum_of_squares((rows - self.cluster_centers_[labels])[labels >= 0])

    def describe(self) -> Any:
        """What sets each cluster apart, from what was released: no row is asked again.

        Returns
        -------
        pandas.DataFrame, or a list of its rows (dicts) without pandas
            A row for each cluster and column, in each cluster the column first by which it differs
            most: the released `size`, the `center` and the standard deviation of its `noise` in the
            units of the column (nan where the method does not know it), how far it lies
            `from_mean`, the mean of all centres by size, the same `in_widths` of the column's
            bounds, and the `share` of the column in the squared distance from that mean.
        """
        check_is_fitted(self)
        return clusters.describe(self)

    @property
    def copy_(self) -> reclustering.DataCopy:
        """The weighted copy of the data that over-clustered Lloyd releases on its way.

        AttributeError after a fit by another method.
        """
        check_is_fitted(self)
        if self._copy is None:
            raise AttributeError(f"copy_ is not there: {reclustering.NO_COPY}")
        points = scale_from_box(self._copy.points, *self._box)
        return reclustering.DataCopy(
            points, self._copy.weights.copy(), self._copy.weight_std.copy()
        )

    def recluster(
        self, n_clusters: int | Literal["auto"], *, k_range: tuple[int, int] | None = None,
        seed: int = 0,
    ) -> Self:  # fmt: skip
        """A model with another number of clusters, from what this one released: it costs nothing.

        k-means of the copy of the data (`copy_`), with 20 starts. For the k that was planned the
        fit itself is a little better: its last round asked for these centres.

        Parameters
        ----------
        n_clusters : int or "auto"
            "auto" takes the elbow of the copy's costs.
        k_range : (int, int), optional
            Smallest and largest k for "auto", (2, 48) by default; never more clusters than have 30
            rows each for every noise of a count.
        seed : int
            Of the starts of k-means. They see released values alone, and protect nothing.

        Returns
        -------
        fitted estimator of the same kind
            A record of the release, as `load` gives: it predicts, draws, is saved, not fitted.

        Raises
        ------
        ValueError
            If the method of the fit releases no copy, or `n_clusters` is more than its points.
        """
        check_is_fitted(self)
        return cast("Self", reclustering.reclustered(self, n_clusters, k_range, seed))

    def plot(
        self, ax: Any = None, columns: Sequence[Any] | None = None, *, copy: bool = False
    ) -> Any:
        """Draw the released centres, numbered, as large as their clusters; nothing private in it.

        Dashed ellipses hold 95 % of the noise in a centre, where the method says how much there is;
        clusters that are nearly empty are pale. Ellipses do not tell how far another run may end
        from here: it may find another optimum.

        Parameters
        ----------
        ax : matplotlib axes, optional
        columns : one or two names or numbers of columns, optional
            To draw, in their units. By default both of two columns; of more columns the plane in
            which the released centres differ most, in the scaled box.
        copy : bool
            Whether to draw the copy of the data, too (`copy_`): a disc for each point, as large as
            its weight; an empty ring where that may be noise alone.

        Returns
        -------
        matplotlib axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_is_fitted(self)
        return drawing.plot(self, ax, columns, self.copy_ if check_bool(copy, "copy") else None)

    @property
    def _n_features_out(self) -> int:
        return len(self._box_centers)

    @property
    def _n_found(self) -> int:
        return len(self._box_centers)

    def _content(self) -> dict[str, Any]:
        return {
            "centers": self.cluster_centers_.tolist(),
            "box_centers": self._box_centers.tolist(),
            "sizes": self.cluster_sizes_.tolist(),
            "size_std": self._size_std,
            "center_std": None if self._center_std is None else self._center_std.tolist(),
            "copy": reclustering.as_json(self._copy),
        }

    def _restore(self, content: Mapping[str, Any]) -> None:
        d = self.n_features_in_
        self._box_centers = as_points(content["box_centers"], "box_centers", n_features=d)
        self.cluster_centers_ = as_points(content["centers"], "centers", n_features=d)
        self.cluster_sizes_ = np.asarray(content["sizes"], dtype=np.float64)
        self._size_std, std = content.get("size_std"), content["center_std"]
        self._center_std = None if std is None else np.asarray(std, dtype=np.float64)
        told, k = (self.cluster_centers_, self.cluster_sizes_, self._center_std), self._n_found
        if any(one is not None and len(one) != k for one in told):
            raise ValueError(f"centers, sizes and center_std must be those of {k} box_centers")
        self._copy = reclustering.from_json(content.get("copy"), d)

    def _pooled(self, X: Any, clients: Any) -> FloatArray:
        """All rows in the box, clipped as clients clip them."""
        data = read_rows(X, clients, columns=self._columns).data
        return np.clip(self._in_box(data.points), -1, 1)

    def _good(self, X: Any, y: Any, clients: Any) -> float:
        return metrics.nicv(self._pooled(X, clients), self._box_centers)

    def _bare(self, X: Any, y: Any, clients: Any, rng: Any) -> float:
        rows = self._pooled(X, clients)
        return metrics.nicv(rows, kmeans.weighted_kmeans(rows, None, self._n_found, rng=rng))


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
    weights : mapping {column: number}, Series, or array_like of shape (d,), optional
        How much a difference in each column counts, beside its bounds: 1 where it is not named, 2
        for twice as much (four times in a squared distance). Public, as bounds are: a choice by
        what columns mean, not by what is in them. The bounds of a column of smaller weight are
        moved apart about their middle, until it counts for so much less. For public bounds.
    trust : {"masked", "ideal", "trusted", "serverless", "shuffled", "local"}
        Who may see what (docs/trust.md). "masked" (default): statistics travel under masks that
        cancel in the sum, each client adds a share of the noise, and nobody sees more than noised
        sums. "ideal": a box adds up and noises. "trusted": the server sees every client's exact
        sums. "serverless": clients send shares to each other. "shuffled", "local": each row is a
        user who sends one randomised report, through a shuffler or straight to the server.
    unit : {"point", "client"}
        What is protected: one point, which is a row, or all rows of one client (needs `X_server`,
        `n_records` and `rows_per_client`).
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
        The ledger of this data set: pass the same one to every fit on the same data. Without it the
        first `fit` opens one, to which all fits of this estimator and of its clones are charged:
        those of searches and cross-validation too (in this process, threads included; elsewhere a
        fit is refused). For other data give a clone ``ledger=PrivacyLedger()``.
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
        cluster that is nearly empty; with a copy (`copy_`), that other noise of the same size would
        find other clusters.
    copy_ : DataCopy
        Of method "overclustered": `points` that stand for about `weights` rows each, with the
        noise `weight_std` in these, as they were released; `recluster` finds any number of clusters
        in it, `fedclust.from_copies` puts those of batches together.
    method_ : str
        The method that ran.
    n_iter_ : int
        Its rounds.
    plan_ : federation.Plan
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
    unit: Literal["point", "client"] = "point"
    method: Literal[
        "auto", "overclustered", "fastlloyd", "adaptive", "feddp", "sketch", "one_round"
    ] = "auto"
    publish: bool = True
    n_records: int | None = None
    rows_per_client: int | None = None
    X_server: ArrayLike | None = None
    radius: Positive | None = None

    def _choice(self, X_server: Any = None) -> tuple[str, str | None]:
        method: str = self.method
        chosen_for = None
        if method == "auto":
            has_server = (self.X_server if X_server is None else X_server) is not None
            method, chosen_for = best_method(self.trust, self.unit, has_server=has_server)
        FAMILIES[method].check(self, method, X_server)
        return method, chosen_for

    @property
    def _one_row_each(self) -> bool:  # type: ignore[override]
        return self.trust in ("local", "shuffled")
