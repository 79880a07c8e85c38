"""Estimators with ``fit`` and ``predict`` over your own federated data; thin, in original units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from fedclust_helpers import fastlloyd, kmeans, ldp_kmeans
from fedclust_helpers._validation import FloatArray, IntArray, as_points
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData, local_users, simulate
from fedclust_helpers.federation.base import InProcess


class _InBox(ClusterMixin, BaseEstimator):
    """Public bounds in, centres and labels in original units out."""

    lower: ArrayLike
    upper: ArrayLike

    def _bounds(self, n_features: int) -> tuple[FloatArray, FloatArray]:
        lower = np.broadcast_to(np.asarray(self.lower, dtype=np.float64), (n_features,))
        upper = np.broadcast_to(np.asarray(self.upper, dtype=np.float64), (n_features,))
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError("lower and upper must be finite with lower < upper in every feature")
        return lower, upper

    def _keep(self, result: Any, federation: InProcess, box_centers: FloatArray) -> None:
        lower, upper = self._bounds(federation.n_features)
        self.result_, self._box_centers = result, box_centers
        self.ledger_, self.transcript_ = federation.ledger, federation.transcript
        self.cluster_centers_ = (box_centers + 1) / 2 * (upper - lower) + lower
        self.n_features_in_ = federation.n_features

    def _scaled(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        points = as_points(X, "X", n_features=self.n_features_in_)
        lower, upper = self._bounds(self.n_features_in_)
        return scale_to_box(points, lower, upper), self._box_centers

    def predict(self, X: ArrayLike) -> IntArray:
        """Nearest centre of each row, distances measured in the scaled box."""
        return kmeans.assign(*self._scaled(X)).labels

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Minus the k-means cost in the scaled box (larger is better).

        On private data this number is a further release: charge it or keep it to yourself.
        """
        return -kmeans.kmeans_cost(*self._scaled(X))


class FastLloydKMeans(_InBox):
    """FastLloyd over data in its own units, given public bounds of every feature.

    Parameters
    ----------
    n_clusters : int
    epsilon, delta : float
        Total budget of one `fit`, add/remove one row. delta defaults to 1/(N ln N).
    lower, upper : float or array_like of shape (d,)
        Bounds known *without looking at the data*. Rows outside are clipped at their client.
    trust : {"masked", "ideal", "trusted", "serverless"}
    mode : {"secure", "teaching"}
        "secure" (default) takes noise and keys from the operating system and needs OpenDP;
        "teaching" takes a `seed` and is not private against anyone who knows it.
    seed : int, optional
    ledger : PrivacyLedger, optional
        The ledger of this data set. Pass the same one to every fit on the same data.
    options : dict, optional
        Further arguments of `fastlloyd.fastlloyd` (alpha, strategy, n_rounds ...).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d), in original units
    ledger_, transcript_, result_
        What was charged, what crossed the wire, the full result.
    clipped_counts_ : ndarray of shape (M,)
        Rows that each client clipped. Known to the clients only: not part of the release.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(20, 2, (400, 2)), rng.normal(60, 2, (400, 2))
    >>> model = FastLloydKMeans(
    ...     2, epsilon=2.0, lower=0, upper=100, mode="teaching", seed=1
    ... ).fit([a, b])
    >>> np.sort(model.cluster_centers_[:, 0]).round(-1).tolist()
    [20.0, 60.0]
    >>> round(model.ledger_.epsilon(model.result_.delta), 6)
    2.0
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float,
        delta: float | None = None,
        lower: ArrayLike,
        upper: ArrayLike,
        trust: Literal["masked", "ideal", "trusted", "serverless"] = "masked",
        mode: Literal["secure", "teaching"] = "secure",
        seed: int | None = None,
        ledger: PrivacyLedger | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.lower = lower
        self.upper = upper
        self.trust = trust
        self.mode = mode
        self.seed = seed
        self.ledger = ledger
        self.options = options

    def fit(
        self, X: ClientData | Sequence[ArrayLike] | ArrayLike, y: ArrayLike | None = None
    ) -> FastLloydKMeans:
        """Run FastLloyd once and charge it.

        Parameters
        ----------
        X : sequence of arrays of shape (n_i, d), one per client; or one array of shape (n, d)
        y : int array of shape (n,), optional
            With one array: the owner (client number) of each row. Without it, every row is a
            client of its own.
        """
        if isinstance(X, ClientData):
            data = X
        elif np.ndim(X[0]) == 2:  # type: ignore[index]
            data = ClientData.from_clients(X)  # type: ignore[arg-type]
        else:
            points = as_points(X, "X")  # type: ignore[arg-type]
            data = ClientData.from_owners(points, np.arange(len(points)) if y is None else y)
        lower, upper = self._bounds(data.n_features)
        scaled = ClientData(scale_to_box(data.points, lower, upper), data.offsets)
        federation = simulate(
            scaled, self.trust, mode=self.mode, seed=self.seed, ledger=self.ledger
        )
        result = fastlloyd.fastlloyd(
            federation,
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            delta=self.delta,
            **(self.options or {}),
        )
        self._keep(result, federation, result.centers)
        self.clipped_counts_ = federation.clipped_counts
        return self


class LocalKMeans(_InBox):
    """One-round locally private k-means: users with one row each, who trust nobody.

    Every user sends a randomised bit (or, above six features, perhaps a noised vector instead); the
    server never holds a row, not even a sum that is exact. It takes many users: see
    `ldp_kmeans.users_needed`.

    Parameters
    ----------
    n_clusters : int
    epsilon, delta : float
        For any two values of one user's row, whatever all others do. Up to six features the
        protocol is pure and delta is not used.
    lower, upper : float or array_like of shape (d,)
        Bounds known *without looking at the data*; rows outside are clipped on the device.
    mode : {"secure", "teaching"}
        "secure" (default) takes all private noise from the operating system; "teaching" takes a
        `seed` and is not private against anyone who knows it.
    seed : int, optional
        Teaching mode only; also seeds the server's k-means.
    ledger : PrivacyLedger, optional
        The ledger of these users (replace-one). Pass the same one to every fit on the same users.
    options : dict, optional
        Further arguments of `ldp_kmeans.plan` (depths, sums, z ...).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d), in original units
    ledger_, transcript_, result_
        What was charged, what crossed the wire, the full result.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.choice([20.0, 60.0], size=(50_000, 1)) + rng.normal(0, 4, (50_000, 2))
    >>> model = LocalKMeans(2, epsilon=1.0, lower=0, upper=100, mode="teaching", seed=1).fit(rows)
    >>> np.sort(model.cluster_centers_[:, 0]).round(-1).tolist()
    [20.0, 60.0]
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float,
        delta: float = 1e-6,
        lower: ArrayLike,
        upper: ArrayLike,
        mode: Literal["secure", "teaching"] = "secure",
        seed: int | None = None,
        ledger: PrivacyLedger | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.lower = lower
        self.upper = upper
        self.mode = mode
        self.seed = seed
        self.ledger = ledger
        self.options = options

    def fit(self, X: ArrayLike, y: None = None) -> LocalKMeans:
        """Ask every user once and charge it; row i of X (n, d) is user i's."""
        points = as_points(X, "X")
        d = points.shape[1]
        lower, upper = self._bounds(d)
        # the whole box fits into the unit ball
        shrink = 1 / np.sqrt(d)
        inside = np.clip(scale_to_box(points, lower, upper), -1, 1) * shrink
        federation = local_users(inside, mode=self.mode, seed=self.seed, ledger=self.ledger)
        plan = ldp_kmeans.plan(
            federation, n_clusters=self.n_clusters, epsilon=self.epsilon, delta=self.delta,
            **(self.options or {}),
        )  # fmt: skip
        result = ldp_kmeans.run(federation, plan, rng=np.random.default_rng(self.seed))
        self._keep(result, federation, np.clip(result.centers / shrink, -1, 1))
        return self
