"""Locally private k-means over data in its own units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fedclust_helpers import ldp_kmeans
from fedclust_helpers._validation import FloatArray, check_choice
from fedclust_helpers.estimators.base import Prepared
from fedclust_helpers.estimators.bounds import Bounds
from fedclust_helpers.estimators.boxed import _Boxed
from fedclust_helpers.estimators.reading import Rows, is_one_table
from fedclust_helpers.federation import ClientData, Federation, simulate


@dataclass(eq=False, repr=False)
class LocalKMeans(_Boxed):
    """One-round locally private k-means: users with one row each, who trust nobody, or a shuffler.

    The server never holds a row, not even a sum that is exact. It takes many users: see
    `ldp_kmeans.sketch_users_needed` and `ldp_kmeans.users_needed`.

    Arguments and attributes as for `FastLloydKMeans`, but: epsilon and delta (1e-6 by default) hold
    for any two values of one user's row; `ledger` is for replace-one; `seed` (teaching mode) also
    seeds the server's k-means. `trust` is one of

    * "local" (default): the guarantee is each user's own, whatever all others do.
    * "shuffled": it holds for the set of all answers, against a server that does not collude with
      the shuffler, and with all users honest (`simulate` takes `max_colluding`). A message alone
      has the larger `plan_.dial.local_epsilon`. A thirtieth of the users does: 1,000 and not 32,000
      to come within 5 % of the best cost (sketch, epsilon 1, d = 2, k = 5: chapter 05, section 3).

    `method` is one of

    * "sketch" (default): one randomised symbol of each user, and a density fitted to all of them;
      pure, delta is not used; from 100,000 users on never worse than the other (claim
      B.sketch.mixtures). The server searches for seconds.
    * "one_round": the paper's Algorithm 1, a randomised bit of each user (or, above six features,
      perhaps a noised vector instead; below, it is pure). The server needs milliseconds.

    `options` are those of the method's planner, `ldp_kmeans.plan_sketch` or `ldp_kmeans.plan`, and
    of `ldp_kmeans.run`.

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
    trust: Literal["local", "shuffled"] = "local"
    method: Literal["sketch", "one_round"] = "sketch"

    _paper: ClassVar[Any] = ldp_kmeans
    _one_row_each: ClassVar[bool] = True
    _planners: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "sketch": ldp_kmeans.plan_sketch, "one_round": ldp_kmeans.plan,
    }  # fmt: skip

    def _read(self, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
        if clients is not None:
            raise ValueError("clients must not be given: every row is a user of its own")
        check_choice(self.trust, "trust", ("local", "shuffled"))
        if isinstance(X, ClientData):
            if X.rows_per_client != 1:
                raise ValueError("X must hold one row for each client: they are the users")
        elif not is_one_table(X) or (isinstance(X, Sequence) and len(X) == 0):
            raise ValueError("X must be one array of shape (n, d), row i the only one of user i")
        return super()._read(X, y, clients, bounds)

    def _federation(self, data: ClientData) -> Federation:
        # the whole box fits into the unit ball
        inside = np.clip(data.points, -1, 1) * (1 / np.sqrt(data.n_features))
        made: Federation = simulate(
            ClientData.one_point_each(inside, copy=False), self.trust, mode=self.mode,
            seed=self.seed, ledger=self._open_ledger(),
        )  # fmt: skip
        return made

    def _followed(self, prepared: Prepared) -> tuple[Any, FloatArray]:
        federation: Any = prepared.federation
        rng = np.random.default_rng(self.seed)
        plan: Any = prepared.plan
        result = ldp_kmeans.run(federation, plan, rng=rng, **prepared.running)
        return result, np.clip(result.centers / (1 / np.sqrt(federation.n_features)), -1, 1)

    def _notes(self, plan: Any) -> list[str]:
        n, k = plan.facts.n_records, plan.n_clusters
        needed, local = ldp_kmeans.users_needed_by(plan), plan.dial.local_epsilon
        if plan.algorithm is ldp_kmeans.SKETCH and k > 1:
            needed = ldp_kmeans.sketch_users_needed(1 / k, local, plan.n_features, n_clusters=k)
        if needed <= n:
            return []
        behind = f" ({local:.3g} on the device)" if self.trust == "shuffled" else ""
        return [
            f"too few rows for {k} clusters at epsilon = {plan.epsilon:g}{behind}: about {needed:,}"
            f" users are needed to see {k} clusters of equal size, and there are {n:,}"
        ]
