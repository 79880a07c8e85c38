"""RR-Cluster and what goes beyond it: clients with labelled rows, a cluster's centre is a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from fedclust.estimators.base import _Estimator
from fedclust.estimators.bounds import Bounds
from fedclust.estimators.clients import (
    Rows,
    check_order,
    client_codes,
    is_one_table,
    owners_of,
    read_rows,
)
from fedclust.estimators.methods import Asked, Family
from fedclust.estimators.planning import Prepared
from fedclust.frames import names_of, table_of
from fedclust_helpers import fastlloyd, rr_cluster
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    Natural,
    Positive,
    as_points,
    check_int,
    unmasked,
)
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics.models import batch_of
from fedclust_helpers.federation import ClientData, Federation

TRAINING = frozenset({"n_steps", "learning_rate", "server_rate"})
REBALANCING = ("ifca", "fesem", "fedcam")


class _Models(Family):
    """Rounds in which clients with labelled rows train models; one client is protected."""

    def _planners(self) -> Mapping[str, Callable[..., Any]]:
        plans = dict.fromkeys(REBALANCING, rr_cluster.plan)
        return plans | {"sums_only": rr_cluster.plan_sums_only}

    def read(self, of: Any, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
        labels = of._labels_of(y, of._classes(), X)
        return read_rows(X, clients, columns=bounds.columns, labels=labels, missing=of.missing)

    def played(self, of: Any, data: ClientData, n_rows: int) -> tuple[ClientData, dict[str, Any]]:
        ledger = of._account.ledger
        if ledger is None:
            same = "replace-one" if of.method in REBALANCING else "add/remove"
            ledger = PrivacyLedger("client", same)
        # each client has a row; how many all of them have would tell of one: no public number
        counts = {"n_labels": len(of._classes()), "n_records": data.n_clients}
        return data, {"ledger": ledger, **counts}

    def given(self, of: Any, federation: Federation, asked: Asked) -> tuple[Any, ...]:
        if of.usual_rows is not None and (of.n_hidden or of.method == "fedcam"):
            raise ValueError(
                "usual_rows must be None with n_hidden > 0 or method='fedcam': the models of such a"
                " fit cannot be mixed"
            )
        m, planning = federation.facts.n_clients, asked.planning
        training = {n: planning.pop(n) for n in TRAINING if n in planning}
        planning.setdefault("delta", fastlloyd.default_delta(m) if m > 2 else 0.1)
        planning["n_rounds"] = of.n_rounds
        if of.method in REBALANCING:
            planning["clusterer"] = of.method
        cohort = m if of.cohort is None else of.cohort
        model = of._model(federation.facts.n_features)
        return (rr_cluster.Training(model, cohort=cohort, clip=of.clip, **training),)

    def local(self, of: Any, plan: Any) -> str:
        if of.usual_rows is None:
            return ""
        weight = rr_cluster.released_weight(plan)
        return (
            f"; and the mixed model of each client, {weight:.0%} of it the released one (for"
            f" {of.usual_rows:g} rows): never publish it, it is made of the client's own rows"
        )

    def notes(self, of: Any, plan: Any) -> list[str]:
        """Noise of a round that is longer than any mean of clipped updates leads nowhere."""
        std = plan.releases[0].mechanisms[-1].std
        training = plan.options["training"]
        length = math.sqrt(training.model.n_parameters) * std * plan.n_clusters / training.cohort
        if length <= training.clip:
            return []
        return [
            f"too few clients for {plan.n_clusters} models at epsilon = {plan.epsilon:g}: the noise"
            f" of a round is {length / training.clip:.1f} times as long as the longest mean"
            " update; take fewer clusters or rounds, a larger epsilon, or more clients"
        ]


_MODELS = _Models()


@dataclass(eq=False, repr=False)
class RRCluster(_Estimator):
    """Clusters of models: each client ends up with the model that suits its own rows best.

    Protects one client, with all of its rows. Arguments and attributes as for `FastLloydKMeans`,
    but:

    Parameters
    ----------
    classes : sequence
        The public list of class labels; a label outside it is refused.
    n_hidden : int
        Units of one hidden layer; 0 is softmax regression.
    method : {"sums_only", "ifca", "fesem", "fedcam"}
        "sums_only" (default) releases one noised sum in a round, under add/remove of a client, and
        works with every `trust`. The others are RR-Cluster with that base clusterer: replace-one
        of a client, ``trust="trusted"``.
    trust : {"ideal", "trusted", "masked", "serverless"}
        What leaves a client, as for `FastLloydKMeans`; "ideal" by default: exact updates, into a
        box that adds them up and noises the sum. With the last two every client must take part in
        every round.
    cohort : int, optional
        Clients of a round; all by default.
    clip : float
        Bound on the length of a client's update.
    n_rounds : int
    usual_rows : float, optional
        A public number, the rows of a usual client. With it a client predicts with a **mixed**
        model: the released one that it chooses and one of its own, weighted by what the noise and
        its number of rows say of both (`rr_cluster.released_weight`). It costs nothing, and helps
        where noise is strong. Not with `n_hidden` or "fedcam".
    delta : float
        1/(M ln M) for M clients by default; give a smaller one where you can (see
        `FastLloydKMeans`).
    options : dict, optional
        n_steps, learning_rate, server_rate of the clients' training, and further arguments of the
        planner, `rr_cluster.plan_sums_only` or `rr_cluster.plan`, and of `rr_cluster.run`
        (min_size, reseed, initial, progress ...).

    Attributes
    ----------
    models_ : ndarray of shape (n_clusters, p)
        May be published.
    choices_ : ndarray of shape (M,)
        The model of each client, by the loss on its own rows. **Local**: every client knows its
        own; no part of the release, of a pickle, or of a saved file.
    mixed_ : ndarray of shape (M, p)
        The mixed model of each client, with `usual_rows`; local, too.
    clients_ : list
        Names of the clients, in the order of `choices_`; local, too.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 20, 2))  # 400 clients; half of them label the other way round
    >>> y = (X[:, :, 0] > 0) ^ (np.arange(400) % 2 == 0)[:, None]
    >>> model = RRCluster(2, epsilon=8.0, classes=[False, True], lower=-1, upper=1, clip=1.0,
    ...                   mode="teaching", seed=1)
    >>> model = model.fit(list(X), list(y))
    >>> bool(model.score(list(X), list(y)) > 0.9)
    True
    """

    _: KW_ONLY
    classes: Sequence[Any] | None = None
    n_hidden: Natural = 0
    trust: Literal["ideal", "trusted", "masked", "serverless"] = "ideal"
    cohort: int | None = None
    clip: float = 0.3
    n_rounds: int = 20
    usual_rows: Positive | None = None

    method: Literal["sums_only", "ifca", "fesem", "fedcam"] = "sums_only"

    _local: ClassVar[tuple[str, ...]] = ("choices_", "mixed_", "clients_", "clipped_counts_")
    _further_options: ClassVar[frozenset[str]] = TRAINING
    _quality: ClassVar[str] = "accuracy"

    def fit(self, X: Any, y: Any = None, *, clients: Any = None) -> Self:
        """Train the models, and let every client choose its own.

        Parameters
        ----------
        X : as for `FastLloydKMeans.fit`
        y : labels, among `classes`
            One for each row of one table (or the name of its column), or one array for each client.
        clients : as for `FastLloydKMeans.fit`
        """
        return self._fitted(X, y, clients)

    def _family(self, method: str) -> Family:
        return _MODELS

    def _keep(self, prepared: Prepared, result: Any) -> None:
        self.models_, self.common_ = result.models, result.common
        self.clients_, self._box = prepared.rows.clients, prepared.bounds
        self._keep_form(prepared.federation.facts.n_features)
        data = self._inside(prepared.rows.data)
        self.choices_, self.mixed_ = self._judged(data).choices, None
        if self.usual_rows is not None:
            self.mixed_ = rr_cluster.mixed_models(
                prepared.plan, self.models_, data, usual_rows=self.usual_rows
            )

    # what clients do for themselves ---------------------------------------------------------------

    def choose(self, X: Any, y: Any, *, clients: Any = None) -> IntArray:
        """The model (M,) of each client: that of least loss on its own labelled rows. Local.

        For clients that were not in the fit, too. Arguments as in `fit`.
        """
        return self._judged(self._rows(X, y, clients).data).choices

    def predict(self, X: Any, *, clients: Any = None, choice: int | None = None) -> Any:
        """The label of each row, by its client's model: for the holder of the rows, no release.

        With `usual_rows` that is the mixed model of a client of the fit, else the one it chose.

        Parameters
        ----------
        X : one array or table (n, d), or a list or dict of one for each client
        clients : name of a column, or ids (n,)
            Beside one table: clients of the fit.
        choice : int
            Instead of `clients`: one model, of number 0 to n_clusters - 1, for all rows of a table.
        """
        if not is_one_table(X):
            keys = list(X) if isinstance(X, Mapping) else list(range(len(X)))
            if isinstance(X, ClientData):
                raise TypeError("X must be a table, or a list or dict of them")
            models = self._models_of(keys)
            tables = [self._in_box(self._in_units(X[key])) for key in keys]
            return [
                self._labelled(own, one, np.zeros(len(own), np.int64))
                for one, own in zip(models[:, None], tables, strict=True)
            ]
        if choice is not None:
            check_int(choice, "choice", minimum=0, maximum=len(self.models_) - 1)
            rows = self._in_box(self._in_units(X))
            models, own = self.models_, np.full(len(rows), choice)
        elif clients is None:
            raise ValueError("clients or choice must be given: every client has a model of its own")
        else:
            X = table_of(X)
            rows = self._in_box(self._in_units(X))
            own, found = client_codes(owners_of(X, clients)[0], len(rows))
            models = self._models_of(found)
        return self._labelled(rows, models, own)

    def score(self, X: Any, y: Any, *, clients: Any = None) -> float:
        """Mean accuracy of the clients, each with the model that suits these rows best. Local.

        With `usual_rows` each client of the fit has its mixed model, which no label in `y` enters.
        """
        rows = self._rows(X, y, clients)
        if getattr(self, "mixed_", None) is None:
            return self._judged(rows.data).accuracy
        sizes = np.diff(rows.data.offsets)
        own = repeat(np.arange(len(sizes)), sizes)
        said = self._labelled(rows.data.points, self._models_of(rows.clients), own)
        right = said == self.classes_[rows.data.labels]
        return float((bincount(own, right) / sizes).mean())

    def _rows(self, X: Any, y: Any, clients: Any) -> Rows:
        columns = self._columns
        labels = self._labels_of(y, self._known, X)
        rows = read_rows(X, clients, columns=columns, labels=labels)
        return rows._replace(data=self._inside(rows.data))

    def _inside(self, data: ClientData) -> ClientData:
        """Rows in the box, clipped as in the fit."""
        points = np.clip(self._in_box(data.points), -1, 1)
        return ClientData(points, data.offsets, data.labels, copy=False)

    def _judged(self, data: ClientData) -> rr_cluster.Evaluation:
        """How every client fares with its own choice."""
        groups = np.zeros(data.n_clients, dtype=np.int64)
        return rr_cluster.evaluate(
            self._form, self.models_, data, data, groups, common=self.common_
        )

    def _models_of(self, names: list[Any]) -> FloatArray:
        """The model (m, p) that each of these clients of the fit uses."""
        known = {name: i for i, name in enumerate(getattr(self, "clients_", []))}
        if any(name not in known for name in names):
            raise ValueError("clients must be those of the fit; others choose(), and give choice")
        at = [known[name] for name in names]
        mixed = getattr(self, "mixed_", None)
        return self.models_[self.choices_[at]] if mixed is None else mixed[at]

    def _labelled(self, rows: FloatArray, models: FloatArray, own: IntArray) -> Any:
        """The label (n,) of each row under the model of number `own` (n,)."""
        model, rows = self._form, np.clip(rows, -1, 1)
        out = np.empty((len(rows), len(self.classes_)))
        for j in np.unique(own):
            at = own == j
            batch = batch_of(rows[at], np.array([0, at.sum()]), np.zeros(at.sum(), int))
            out[at] = model.outputs(models[j : j + 1], batch)[0]
            if self.common_ is not None:
                out[at] += model.outputs(self.common_[None], batch)[0]
        return self.classes_[out.argmax(axis=1)]

    # classes and models ---------------------------------------------------------------------------

    def _classes(self) -> list[Any]:
        if self.classes is None or isinstance(self.classes, str | set | frozenset):
            raise ValueError("classes must be given: the public list of class labels")
        found = list(self.classes)
        if len(found) < 2 or len(set(found)) < len(found):
            raise ValueError("classes must hold two or more different labels")
        return found

    def _keep_form(self, n_features: int) -> None:
        """Classes and model of this fit: parameters that are set later belong to the next."""
        self._known, self._form = self._classes(), self._model(n_features)
        self.classes_ = np.fromiter(self._known, dtype=object, count=len(self._known))
        if len({type(label) for label in self._known}) == 1 and np.ndim(self._known[0]) == 0:
            self.classes_ = np.asarray(self._known)

    def _model(self, n_features: int) -> Any:
        n = len(self._classes())
        if self.n_hidden:
            return rr_cluster.OneHiddenLayer(n_features, self.n_hidden, n)
        return rr_cluster.SoftmaxRegression(n_features, n)

    def _labels_of(self, y: Any, classes: list[Any], X: Any) -> Callable[..., tuple[Any, Any]]:
        """What `read_rows` asks for the class numbers of a table."""
        if isinstance(X, ClientData):
            if y is not None or X.labels is None or X.labels.max() >= len(classes):
                raise ValueError("y must be None: ClientData brings labels, numbers of classes")
            return lambda *_: (None, None)
        if y is None:
            raise ValueError("y must be given: a label for each row")
        numbers = {label: i for i, label in enumerate(classes)}
        named = isinstance(y, str)
        if (
            not is_one_table(X)
            and not named
            and (not isinstance(y, Mapping | Sequence | np.ndarray) or len(y) != len(X))
        ):
            raise ValueError("y must hold one array of labels for each client")

        def of(table: Any, key: Any = None) -> tuple[Any, Any]:
            if named and y not in (names_of(table) or ()):
                raise ValueError("y must be labels, or the name of a column of X")
            own = table[y] if named else y if key is None else y[key]
            check_order(table, own, "y")
            values = np.asarray(unmasked(own, "y"), dtype=object)
            if values.shape != (len(table),):
                raise ValueError("y must hold one label for each row")
            try:
                codes = [numbers[label] for label in values.tolist()]
            except (KeyError, TypeError):
                raise ValueError("y must hold labels of classes only") from None
            return np.array(codes, dtype=np.int64), y if named else None

        return of

    def _content(self) -> dict[str, Any]:
        return {
            "models": self.models_.tolist(),
            "common": None if self.common_ is None else self.common_.tolist(),
        }

    def _restore(self, content: Mapping[str, Any]) -> None:
        self._keep_form(self.n_features_in_)
        common, n = content["common"], self._form.n_parameters
        self.models_ = as_points(content["models"], "models", n_features=n)
        self.common_ = None if common is None else as_points([common], "common", n_features=n)[0]

    def _good(self, X: Any, y: Any, clients: Any) -> float:
        return self.score(X, y, clients=clients)

    def _bare(self, X: Any, y: Any, clients: Any, rng: Any) -> float:
        free = {**self.get_params(deep=False), "epsilon": math.inf, "ledger": None}
        return type(self)(**free).fit(X, y, clients=clients).score(X, y, clients=clients)

    @property
    def _bare_key(self) -> Any:
        return self.plan_.n_clusters, self.plan_.n_rounds
