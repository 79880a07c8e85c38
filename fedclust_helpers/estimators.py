"""Estimators with ``fit`` and ``predict`` over your own federated data; thin, in original units."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from fedclust_helpers import fastlloyd, kmeans, ldp_kmeans
from fedclust_helpers._reading import (
    client_data,
    column_names,
    holds_clients,
    is_one_table,
    is_table,
)
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_bound,
    as_points,
    check_bool,
    check_choice,
    check_optional,
)
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData, InProcess, Plan, simulate

MAX_KEY_AGREEMENTS = 4096
"""Clients who can agree on a key through the server within seconds."""
MAX_NODES = 256
"""Clients who can exchange shares with each other without a server."""

_Data = ClientData | Mapping[Any, ArrayLike] | Sequence[ArrayLike] | ArrayLike


@dataclass(eq=False, repr=False)
class _InBox(ClusterMixin, BaseEstimator):
    """Public bounds in, centres and labels in original units out; one ledger for every fit.

    A dataclass for its constructor: scikit-learn reads the parameters off the signature, and wants
    them kept as they are until `fit`.
    """

    n_clusters: int
    _: KW_ONLY
    epsilon: float
    delta: float | None = None
    lower: ArrayLike
    upper: ArrayLike
    mode: Literal["secure", "teaching"] = "secure"
    seed: int | None = None
    ledger: PrivacyLedger | None = None
    options: dict[str, Any] | None = None

    _paper: ClassVar[Any]  # its plan and run

    def _read(self, X: Any, y: Any) -> ClientData:
        """The clients that X and y speak of; refused before anything is charged."""
        raise NotImplementedError

    def _federation(self, data: ClientData) -> InProcess:
        """The federation of clients whose rows lie in the box."""
        raise NotImplementedError

    def _run(self, federation: InProcess, plan: Plan, **running: Any) -> tuple[Any, FloatArray]:
        """The result, and its centres in the box."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the protocol once and charge it; what is wrong is refused before that.

        Parameters
        ----------
        X : sequence or mapping of arrays or DataFrames of shape (n_i, d), one per client; or one
            array or DataFrame of shape (n, d); or ClientData
            For `LocalKMeans` one array, row i the only one of user i.
        y : array of shape (n,), optional
            With one array: the owner of each row, a number or a name. With one DataFrame also the
            name of the column of owners. Without it, every row is a client of its own.
        """
        data = self._read(X, y)
        planner = self._planners[check_choice(self.method, "method", tuple(self._planners))]
        planning, running = self._split_options(planner, self._paper.run)
        lower, upper = self._bounds(data.n_features)
        scaled = scale_to_box(data.points, lower, upper)
        federation = self._federation(ClientData(scaled, data.offsets, copy=False))
        if self.delta is not None and "delta" in inspect.signature(planner).parameters:
            planning["delta"] = self.delta
        plan = planner(federation, n_clusters=self.n_clusters, epsilon=self.epsilon, **planning)
        with self._remembering(federation.ledger):
            result, box_centers = self._run(federation, plan, **running)
        self.plan_, self.result_, self._box_centers = plan, result, box_centers
        self.ledger_, self.transcript_ = federation.ledger, federation.transcript
        self.cluster_centers_ = (box_centers + 1) / 2 * (upper - lower) + lower
        self.n_features_in_ = federation.n_features
        self._learn_names(X, y)
        return self

    def fit_predict(self, X: _Data, y: ArrayLike | None = None) -> Any:
        """`fit`, then the label of each row (n,), found where it is; a list for several clients.

        Labels come from the released centres and the holder's own rows: they cost no budget as long
        as they stay with the holder. The estimator does not keep them.
        """
        self.fit(X, y)  # refuses what cannot be read before anything is spent
        rows = self._rows_of(X, y)
        return [self.predict(own) for own in rows] if isinstance(rows, list) else self.predict(rows)

    def predict(self, X: ArrayLike) -> IntArray:
        """Nearest centre of each row, distances measured in the scaled box."""
        return kmeans.assign(*self._scaled(X)).labels

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Minus the k-means cost in the scaled box (larger is better); `y` is not used.

        On private data this number is a further release: charge it or keep it to yourself. The same
        holds for what scikit-learn's searches and cross-validation print from it.
        """
        points, centers = self._scaled(X)
        return -kmeans.kmeans_cost(kmeans.moderate_points(points, "X"), centers)

    # bounds, options, ledger ----------------------------------------------------------------------

    def _bounds(self, n_features: int) -> tuple[FloatArray, FloatArray]:
        lower, upper = (
            as_bound(getattr(self, name), name, n_features) for name in ("lower", "upper")
        )
        if not (lower < upper).all():
            raise ValueError("lower and upper must satisfy lower < upper in every feature")
        return lower, upper  # their difference is checked by `scale_to_box`

    def _split_options(
        self, plan: Callable[..., Any], run: Callable[..., Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the planner and of the run; unknown ones are refused by name."""
        options = check_optional(self.options, dict, "options") or {}
        ours = {"federation", "plan", "n_clusters", "epsilon", "delta", "rng"}
        known = [set(inspect.signature(f).parameters) - ours for f in (plan, run)]
        wrong = [name for name in options if name not in known[0] | known[1]]
        if wrong:
            raise ValueError(
                f"options must be among {', '.join(sorted(known[0] | known[1]))}; got"
                f" {', '.join(map(repr, wrong))}"
            )
        planned, running = ({n: v for n, v in options.items() if n in names} for names in known)
        return planned, running

    def _open_ledger(self) -> PrivacyLedger | None:
        """The ledger that a fit charges: the one given, else the one of the fit before."""
        if check_optional(self.ledger, PrivacyLedger, "ledger") is not None:
            return self.ledger
        return getattr(self, "_opened", None)

    @contextmanager
    def _remembering(self, ledger: PrivacyLedger) -> Iterator[None]:
        """Keep the ledger of what was charged, even if a run is interrupted."""
        try:
            yield
        finally:
            if ledger.releases:
                self._opened = ledger

    # rows -----------------------------------------------------------------------------------------

    def _rows_of(self, X: Any, y: Any) -> Any:
        """What `predict` is asked about: one array, or a list of one for each client."""
        if isinstance(X, ClientData):
            return [X.client(i) for i in range(X.n_clients)]
        if isinstance(X, Mapping):
            return list(X.values())
        if holds_clients(X):
            return list(X)
        if isinstance(y, str):
            return X.drop(columns=y)
        return X if is_table(X) else as_points(X, "X")  # a list of rows is one table, too

    def _scaled(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        points = as_points(self._in_order(X), "X", n_features=self.n_features_in_)
        lower, upper = self._bounds(self.n_features_in_)
        return scale_to_box(points, lower, upper), self._box_centers

    def _learn_names(self, X: Any, y: Any) -> None:
        """Remember the columns of a table, so that others are not taken for them."""
        names = column_names(X, y)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _in_order(self, X: Any) -> Any:
        """A table with the columns of the fit, in their order; arrays as they are."""
        own, names = column_names(X, None), getattr(self, "feature_names_in_", None)
        if own is None or names is None:
            return X
        if len(own) != len(names) or set(own) != set(names):
            raise ValueError(f"X must have the columns of the fit: {', '.join(map(str, names))}")
        return X[list(names)]

    # copies ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A fitted estimator is pickled as what was released: the ledger becomes a record of it.

        What only the clients know is left out. An estimator that was not fitted keeps its ledger,
        which refuses to be pickled if it has a budget.
        """
        state = dict(super().__getstate__())
        state.pop("clipped_counts_", None)
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
        return made


@dataclass(eq=False, repr=False)
class FastLloydKMeans(_InBox):
    """FastLloyd over data in its own units, given public bounds of every feature.

    With ``trust="masked"`` and ``publish=True`` (the defaults) every client adds a share of the
    noise, so the centres may be shown to everybody, the server included. With ``publish=False``
    the server alone adds the noise, as in the paper. It knows that noise: **whoever then sends it
    the centres, or publishes them, hands it the exact sums and counts of every cluster.**

    Parameters
    ----------
    epsilon, delta : float
        Total budget of one `fit`, add/remove one row. delta defaults to 1/(N ln N), with N the
        public `n_records`.
    lower, upper : float or array_like of shape (d,)
        Bounds known *without looking at the data*. Rows outside are clipped at their client.
    trust : {"masked", "ideal", "trusted", "serverless"}
    publish : bool, default True
        Whether the results may reach the server. Needs two clients with ``trust="masked"``; the
        price is more noise where clients are few (twice the variance for two).
    n_records : int, optional
        Public number of rows, or a bound or guess of it. Without it the true number is taken, and
        **is public then**: delta, the number of rounds and the plan tell it.
    mode : {"secure", "teaching"}
        "secure" (default) takes noise and keys from the operating system and needs OpenDP;
        "teaching" takes a `seed` and is not private against anyone who knows it.
    ledger : PrivacyLedger, optional
        The ledger of this data set. Pass the same one to every fit on the same data, and it goes
        with every clone: searches and cross-validation charge it for every fit (in this process;
        elsewhere it refuses). Without it the first `fit` opens one, and further fits of this
        estimator are charged to the same one; a scikit-learn clone, for other data, begins with
        none.
    options : dict, optional
        Further arguments of the method's planner and of `fastlloyd.run` (alpha, strategy, n_rounds,
        initial ...).
    method : {"fastlloyd", "overclustered"}
        "overclustered" has the same guarantee and a lower cost (claim B.central.fresh).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d), in original units
    plan_ : fastlloyd.LloydPlan
        What was fixed before the first message; ``print(model.plan_)`` is the privacy statement.
    ledger_, transcript_, result_
        What was charged, what crossed the wire, the full result.
    clipped_counts_ : ndarray of shape (M,)
        Rows that each client clipped: known to the clients only, no part of release or pickle.

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

    _: KW_ONLY
    trust: Literal["masked", "ideal", "trusted", "serverless"] = "masked"
    publish: bool = True
    n_records: int | None = None

    method: Literal["fastlloyd", "overclustered"] = "fastlloyd"

    _paper: ClassVar[Any] = fastlloyd
    _planners: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "fastlloyd": fastlloyd.plan, "overclustered": fastlloyd.plan_overclustered,
    }  # fmt: skip

    def _read(self, X: Any, y: Any) -> ClientData:
        check_choice(self.trust, "trust", ("masked", "ideal", "trusted", "serverless"))
        check_bool(self.publish, "publish")
        data = client_data(X, y)
        self._check_many(data, alone=y is None and is_one_table(X))
        return data

    def _federation(self, data: ClientData) -> InProcess:
        shares = {}
        if self.trust == "masked":
            shares["noise_from"] = "clients" if self.publish else "server"
        made: InProcess = simulate(
            data, self.trust, mode=self.mode, seed=self.seed, ledger=self._open_ledger(),
            n_records=self.n_records, **shares,
        )  # fmt: skip
        return made

    def _run(self, federation: Any, plan: Any, **running: Any) -> tuple[Any, FloatArray]:
        result = fastlloyd.run(federation, plan, **running)
        self.clipped_counts_ = federation.clipped_counts
        return result, result.centers

    def _check_many(self, data: ClientData, *, alone: bool) -> None:
        """Refuse what would take minutes or memory, or has no honest client, before it starts."""
        limit = {"masked": MAX_KEY_AGREEMENTS, "serverless": MAX_NODES}.get(self.trust)
        if limit is not None and data.n_clients > limit:
            instead = (
                "give the owner of each row as y" if alone else "group rows under fewer clients"
            )
            raise ValueError(
                f"X must hold at most {limit} clients with trust={self.trust!r}, where each takes"
                f" a key exchange: {instead}; or choose trust='ideal', or LocalKMeans for users who"
                " trust nobody"
            )
        needs_two = self.trust == "serverless" or (self.trust == "masked" and self.publish)
        if needs_two and data.n_clients < 2:
            raise ValueError(
                "X must hold at least two clients, so that no one knows all of the noise; with one,"
                " choose trust='trusted', or publish=False and keep the results from the server"
            )


@dataclass(eq=False, repr=False)
class LocalKMeans(_InBox):
    """One-round locally private k-means: users with one row each, who trust nobody.

    The server never holds a row, not even a sum that is exact. It takes many users: see
    `ldp_kmeans.sketch_users_needed` and `ldp_kmeans.users_needed`.

    Arguments and attributes as for `FastLloydKMeans`, but: epsilon and delta hold for any two
    values of one user's row, whatever all others do; `ledger` is for replace-one; `seed` (teaching
    mode) also seeds the server's k-means; `method` is one of

    * "sketch" (default): one randomised symbol of each user, and a density fitted to all of them;
      pure, delta is not used; from 100,000 users on never worse than the other (claim
      B.sketch.mixtures). The server searches for seconds.
    * "one_round": the paper's Algorithm 1, a randomised bit of each user (or, above six features,
      perhaps a noised vector instead; below, it is pure). The server needs milliseconds.

    `options` are those of the method's planner in `ldp_kmeans` and of `ldp_kmeans.run`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.choice([20.0, 60.0], size=(50_000, 1)) + rng.normal(0, 4, (50_000, 2))
    >>> model = LocalKMeans(2, epsilon=1.0, lower=0, upper=100, mode="teaching", seed=1).fit(rows)
    >>> np.sort(model.cluster_centers_[:, 0]).round(-1).tolist()
    [20.0, 60.0]
    """

    _: KW_ONLY
    method: Literal["sketch", "one_round"] = "sketch"

    _paper: ClassVar[Any] = ldp_kmeans
    _planners: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "sketch": ldp_kmeans.plan_sketch, "one_round": ldp_kmeans.plan,
    }  # fmt: skip

    def _read(self, X: Any, y: Any) -> ClientData:
        if y is not None:
            raise ValueError("y must not be given: every row is a user of its own")
        if isinstance(X, Mapping) or holds_clients(X):
            raise ValueError("X must be one array of shape (n, d), row i the only one of user i")
        if not isinstance(X, ClientData):
            return ClientData.one_point_each(as_points(X, "X"))
        if X.rows_per_client != 1:
            raise ValueError("X must hold one row for each client: they are the users")
        return X

    def _federation(self, data: ClientData) -> InProcess:
        # the whole box fits into the unit ball
        inside = np.clip(data.points, -1, 1) * (1 / np.sqrt(data.n_features))
        made: InProcess = simulate(
            ClientData.one_point_each(inside, copy=False), "local", mode=self.mode, seed=self.seed,
            ledger=self._open_ledger(),
        )  # fmt: skip
        return made

    def _run(self, federation: Any, plan: Any, **running: Any) -> tuple[Any, FloatArray]:
        rng = np.random.default_rng(self.seed)
        result = ldp_kmeans.run(federation, plan, rng=rng, **running)
        return result, np.clip(result.centers / (1 / np.sqrt(federation.n_features)), -1, 1)
