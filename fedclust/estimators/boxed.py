"""What the estimators of the k-means papers share: centres in a box, labels where the rows are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fedclust.estimators import drawing, habits
from fedclust.estimators.base import Prepared, _Planned
from fedclust.estimators.bounds import Bounds
from fedclust.estimators.families import FAMILIES
from fedclust.estimators.findings import (
    UncertainCentersWarning,
    cautions,
    findings_of,
)
from fedclust.estimators.reading import Rows, is_one_table, read_rows
from fedclust.estimators.statement import Statement
from fedclust_helpers import kmeans, metrics
from fedclust_helpers._validation import FloatArray, IntArray, as_points
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import depth_outside


@dataclass(eq=False, repr=False)
class _Boxed(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, _Planned):
    """Centres that were found in the box [-1, 1]^d, in the units of the data."""

    _local: ClassVar[tuple[str, ...]] = ("clipped_counts_",)

    def _keep(self, prepared: Prepared, result: Any) -> None:
        lower, upper = prepared.bounds
        self._box_centers = FAMILIES[prepared.method].in_box(result.centers)
        self.cluster_centers_ = (self._box_centers + 1) / 2 * (upper - lower) + lower
        self.clipped_counts_ = prepared.federation.clipped_counts
        found = findings_of(result, self._box_centers)
        self.cluster_sizes_, self._center_std = found.sizes, found.center_std
        self._said = found.said
        self.cautions_ = cautions(found, self._box_centers, prepared.plan.facts.n_records)

    def _caution(self) -> None:
        for text in self.cautions_[len(self._said) :]:  # the run has warned of the first
            warnings.warn(text, UncertainCentersWarning, stacklevel=depth_outside() + 1)

    def fit(self, X: Any, y: Any = None, *, clients: Any = None, **further: Any) -> Self:
        """As `PrivateKMeans.fit`."""
        habits.refuse_arguments(y, further)
        return self._fitted(X, None, clients)

    def preview(self, X: Any, y: Any = None, *, clients: Any = None, **further: Any) -> Statement:
        """As `PrivateKMeans.preview`."""
        habits.refuse_arguments(y, further)
        return self._previewed(X, None, clients)

    def _choice(self, **more: Any) -> tuple[str, str | None]:
        FAMILIES[self.method].check(self, self.method, **more)
        return self.method, None

    def _planner(self, method: str) -> Callable[..., Any]:
        return FAMILIES[method].planner(method)

    def _planner_on_private_bounds(self, method: str) -> Callable[..., Any]:
        if planner := FAMILIES[method].planner_on_private_bounds(method):
            return planner
        return super()._planner_on_private_bounds(method)

    def _read(self, X: Any, y: Any, clients: Any, bounds: Bounds, method: str) -> Rows:
        return FAMILIES[method].read(self, X, clients, bounds)

    def _played(
        self, data: ClientData, method: str, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:
        return FAMILIES[method].played(self, data, n_rows)

    def _given(
        self, method: str, federation: Any, planning: dict[str, Any], running: dict[str, Any],
        rows: Rows, box: tuple[FloatArray, FloatArray], **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        family = FAMILIES[method]
        return family.given(self, method, federation, planning, running, rows, box, **more)

    def _notes(self, plan: Any, method: str) -> list[str]:
        family = FAMILIES[method]
        warned = [text for heading, text in plan.statement() if heading == "WARNING"]
        return [*family.notes(self, plan), *warned]

    def fit_predict(self, X: Any, y: Any = None, **given: Any) -> Any:
        """`fit` with these arguments, then the label of each row (n,); a list for several clients.

        Labels come from the released centres and the holder's own rows: they cost no budget as long
        as they stay with the holder. The estimator does not keep them.
        """
        self.fit(X, y, **given)  # refuses what cannot be read before anything is spent
        if is_one_table(X):
            return self.predict(X)
        each = read_rows(X, columns=self._columns).data
        return [self.predict(each.client(i)) for i in range(each.n_clients)]

    def predict(self, X: ArrayLike) -> IntArray:
        """Nearest centre of each row, in the scaled box: for the holder of the rows, no release."""
        return kmeans.assign(self._scaled(X), self._box_centers).labels

    def transform(self, X: ArrayLike) -> FloatArray:
        """Distance (n, k) of each row to each centre, in the units of X: no release either.

        `predict` measures in the scaled box, where each column counts by its bounds: the nearest
        centre of a row may be another one where columns have ranges of different width.
        """
        rows = self._in_units(X)
        each = [kmeans.assign(rows, center[None]).squared for center in self.cluster_centers_]
        return np.sqrt(np.stack(each, axis=1))

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Minus the sum of squared distances to the centres of `predict`, in the units of X.

        Larger is better; `y` is not used. On private data this number is a further release: charge
        it or keep it to yourself. The same holds for what scikit-learn's searches and
        cross-validation print from it.
        """
        rows = kmeans.moderate_points(self._in_units(X), "X")
        own = self.cluster_centers_[self.predict(X)]
        return -float(((rows - own) ** 2).sum())

    def plot(self, ax: Any = None, columns: Sequence[Any] | None = None) -> Any:
        """Draw the released centres, numbered, as large as their clusters; nothing private in it.

        Dashed ellipses hold 95 % of the noise in a centre, where the method says how much there is.

        Parameters
        ----------
        ax : matplotlib axes, optional
        columns : one or two names or numbers of columns, optional
            To draw, in their units. By default both of two columns; of more columns the plane in
            which the released centres differ most, in the scaled box.

        Returns
        -------
        matplotlib axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_is_fitted(self)
        return drawing.plot(self, ax, columns)

    @property
    def _n_features_out(self) -> int:
        return len(self._box_centers)

    @property
    def _n_found(self) -> int:
        return len(self._box_centers)

    @property
    def _columns(self) -> list[Any] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _content(self) -> dict[str, Any]:
        return {
            "centers": self.cluster_centers_.tolist(),
            "box_centers": self._box_centers.tolist(),
            "sizes": self.cluster_sizes_.tolist(),
            "center_std": None if self._center_std is None else self._center_std.tolist(),
        }

    def _restore(self, content: Mapping[str, Any]) -> None:
        d = self.n_features_in_
        self._box_centers = as_points(content["box_centers"], "box_centers", n_features=d)
        self.cluster_centers_ = as_points(content["centers"], "centers", n_features=d)
        self.cluster_sizes_ = np.asarray(content["sizes"], dtype=np.float64)
        std = content["center_std"]
        self._center_std = None if std is None else np.asarray(std, dtype=np.float64)

    def _pooled(self, X: Any, clients: Any) -> FloatArray:
        """All rows in the box, clipped as clients clip them."""
        data = read_rows(X, clients, columns=self._columns).data
        return np.clip(scale_to_box(data.points, *self._box), -1, 1)

    def _good(self, X: Any, y: Any, clients: Any) -> float:
        return metrics.nicv(self._pooled(X, clients), self._box_centers)

    def _bare(self, X: Any, y: Any, clients: Any, rng: Any) -> float:
        rows = self._pooled(X, clients)
        return metrics.nicv(rows, kmeans.weighted_kmeans(rows, None, self._n_found, rng=rng))
