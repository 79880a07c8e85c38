"""FedDP-KMeans over data in its own units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import feddp_kmeans
from fedclust_helpers._validation import FloatArray, Positive, as_points
from fedclust_helpers.accounting import LedgerMismatchError, PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.estimators.base import Prepared
from fedclust_helpers.estimators.boxed import _Boxed
from fedclust_helpers.estimators.reading import Rows, features
from fedclust_helpers.estimators.statement import Statement
from fedclust_helpers.federation import ClientData, Federation, simulate
from fedclust_helpers.federation.data import is_table


@dataclass(eq=False, repr=False)
class FedDPKMeans(_Boxed):
    """FedDP-KMeans: related public data of the server make the start, for one point or one client.

    Arguments and attributes as for `FastLloydKMeans`, but:

    Parameters
    ----------
    X_server : array or table (q, d)
        Public rows that resemble those of the clients, at least `n_clusters` of them; also an
        argument of `fit`. They cost no privacy, and are moved into the bounds.
    unit : {"point", "client"}
        Whose presence is protected: one row, or all rows of one client; add/remove.
    trust : {"ideal", "trusted"}
        What the server sees: noised sums only, from a box that adds up ("ideal", default), or every
        client's exact sums ("trusted"). No others: it is the server that clusters its points with
        the sums.
    method : {"feddp", "adaptive"}
        The paper's algorithm, or the variant whose budget, start and rounds follow from public
        numbers (claims K.adaptive and K.adaptive.free): the one to take for clients.
    n_records, rows_per_client : int, optional
        Public numbers of rows, of all clients and of a typical one. For ``unit="client"`` both are
        needed: a count of the rows would tell whether a client takes part.
    radius : float, optional
        Rows longer than this in the box [-1, 1]^d are shortened at their client: less noise. By
        default sqrt(d), which leaves every row of the box as it is.
    delta : float, default 1e-6
    options : dict, optional
        Further arguments of the planner, `feddp_kmeans.plan` or `feddp_kmeans.plan_adaptive`, and
        of `feddp_kmeans.run` (n_rounds, clips, initial ...).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(20, 2, (900, 2)), rng.normal(60, 2, (900, 2))
    >>> related = np.concatenate([rng.normal(25, 6, (40, 2)), rng.normal(55, 6, (40, 2))])
    >>> model = FedDPKMeans(2, epsilon=2.0, lower=0, upper=100, mode="teaching", seed=1)
    >>> model = model.fit([a, b], X_server=related)
    >>> np.sort(model.cluster_centers_[:, 0]).round(-1).tolist()
    [20.0, 60.0]
    """

    _: KW_ONLY
    X_server: ArrayLike | None = None
    unit: Literal["point", "client"] = "point"
    trust: Literal["ideal", "trusted"] = "ideal"
    n_records: int | None = None
    rows_per_client: int | None = None
    radius: Positive | None = None

    method: Literal["feddp", "adaptive"] = "feddp"

    _paper: ClassVar[Any] = feddp_kmeans
    _planners: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "feddp": feddp_kmeans.plan, "adaptive": feddp_kmeans.plan_adaptive,
    }  # fmt: skip
    _local: ClassVar[tuple[str, ...]] = ("clipped_counts_",)

    def fit(self, X: Any, y: Any = None, *, clients: Any = None, X_server: Any = None) -> Self:
        """As `FastLloydKMeans.fit`; `X_server` takes the place of the constructor's."""
        return self._fitted(X, y, clients, X_server=X_server)

    def preview(
        self, X: Any, y: Any = None, *, clients: Any = None, X_server: Any = None
    ) -> Statement:
        """As `FastLloydKMeans.preview`; `X_server` takes the place of the constructor's."""
        return self._previewed(X, y, clients, X_server=X_server)

    def _federation(self, data: ClientData) -> Federation:
        radius, ledger = self.radius or math.sqrt(data.n_features), self._open_ledger()
        made: Federation = simulate(
            ClientData(np.clip(data.points, -1, 1), data.offsets, copy=False), self.trust,
            mode=self.mode, seed=self.seed, domain="ball", bound=radius, n_records=self.n_records,
            ledger=PrivacyLedger(self.unit) if ledger is None else ledger,
        )  # fmt: skip
        return made

    def _given(
        self, federation: Any, planning: dict[str, Any], running: dict[str, Any], rows: Rows,
        box: tuple[FloatArray, FloatArray], **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        if federation.facts.unit != self.unit:
            raise LedgerMismatchError(f"ledger must be kept for one {self.unit}, as unit says")
        server = self._server(more.get("X_server"), rows, box)
        running["rng"] = np.random.default_rng(self.seed)
        counts = {"n_records": self.n_records, "rows_per_client": self.rows_per_client}
        if self.method == "adaptive":
            planning |= {"rng": np.random.default_rng(self.seed), **counts}
        elif self.unit == "client" and "clips" not in planning and "budgets" not in planning:
            if self.rows_per_client is None:
                raise ValueError(
                    "rows_per_client must be given with unit='client': a public number"
                )
            planning["clips"] = feddp_kmeans.ClipBounds.suggest(
                server, rows_per_client=self.rows_per_client,
                n_clusters=self.n_clusters,  # type: ignore[arg-type]
            )  # fmt: skip
        if self.unit == "client" and self.n_records is None:  # the true one would be public
            raise ValueError("n_records must be given with unit='client': a public number")
        return (server,)

    def _server(self, given: Any, rows: Rows, box: tuple[FloatArray, FloatArray]) -> FloatArray:
        """The server's rows in the box."""
        given = self.X_server if given is None else given
        if given is None:
            raise ValueError(
                "X_server must be given, to fit or to the constructor: public rows that resemble"
                " those of the clients; FastLloydKMeans does without"
            )
        table = features(given, "X_server", columns=rows.columns if is_table(given) else None)
        points = as_points(table, "X_server", n_features=rows.data.n_features)
        return np.clip(scale_to_box(points, *box), -1, 1)

    def _followed(self, prepared: Prepared) -> tuple[Any, FloatArray]:
        federation: Any = prepared.federation
        result = feddp_kmeans.run(federation, prepared.plan, **prepared.running)
        self.clipped_counts_ = federation.clipped_counts
        return result, np.clip(result.centers, -1, 1)

    def _notes(self, plan: Any) -> list[str]:
        return self._drowned(plan, 1.0)
