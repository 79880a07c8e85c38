"""The three families of private k-means in a box: sums, sums beside a server's rows, reports.

`FAMILIES` has the family of each method. `PrivateKMeans` may call all of them, the estimators named
after papers one each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedclust.estimators.bounds import Bounds
from fedclust.estimators.columns import features
from fedclust.estimators.family import Box, Family, check_many, public_records
from fedclust.estimators.reading import Rows, is_one_table, read_rows
from fedclust_helpers._validation import FloatArray, as_points
from fedclust_helpers.accounting import LedgerMismatchError, PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import is_table

FAR, FAR_IN_ONE_ROUND = 0.5, 0.2
"""Share of the cost of non-private k-means that noise may add before a plan warns."""


class _Sums(Family):
    """FastLloyd and over-clustered Lloyd: sums of rows, one row protected under add/remove."""

    trusts = ("masked", "ideal", "trusted", "serverless")
    unused = {
        "X_server": "take method='adaptive' or 'feddp'",
        "rows_per_client": "it is for unit='client'",
        "radius": "it is for method='feddp' and 'adaptive'",
        "unit": "it protects rows; whole clients are protected by method='adaptive', with X_server",
    }

    def planner(self, method: str) -> Callable[..., Any]:
        from fedclust_helpers import fastlloyd

        plans = {"fastlloyd": fastlloyd.plan, "overclustered": fastlloyd.plan_overclustered}
        return plans[method]

    def planner_on_private_bounds(self, method: str) -> Callable[..., Any]:
        from fedclust import describing

        kinds = {"fastlloyd": describing.FASTLLOYD, "overclustered": describing.OVERCLUSTERED}
        return kinds[method].door()

    def read(self, of: Any, X: Any, clients: Any, bounds: Bounds) -> Rows:
        rows = super().read(of, X, clients, bounds)
        check_many(of, rows.data)
        return rows

    def played(
        self, of: Any, data: ClientData, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:  # fmt: skip
        options: dict[str, Any] = {"n_records": public_records(of, n_rows)}
        if of.trust == "masked":
            options["noise_from"] = "clients" if of.publish else "server"
        return data, options

    def in_box(self, centers: FloatArray) -> FloatArray:
        return centers  # folded into it round by round

    def notes(self, of: Any, plan: Any) -> list[str]:
        """FastLloyd adds no less than over-clustered Lloyd."""
        from fedclust_helpers import fastlloyd

        mu = fastlloyd.honest_mu(plan) * math.sqrt(1 - plan.options.get("bounds_share", 0.0))
        size = plan.facts.n_records, plan.n_clusters, plan.n_features
        added = fastlloyd.overclustered_excess(*size, mu)
        return [] if added <= FAR else [_too_few(plan, f"add {added:.0%} to the cost")]


def _too_few(plan: Any, what: str) -> str:
    return (
        f"too few rows for {plan.n_clusters} clusters at epsilon = {plan.epsilon:g}: noise is"
        f" predicted to {what} of non-private k-means. Take fewer clusters, a larger epsilon, or"
        " more rows"
    )


class _WithServer(Family):
    """FedDP-KMeans: the server's public rows make the start; one row or client, add/remove."""

    trusts = ("ideal", "trusted")
    unused: ClassVar[dict[str, str]] = {}

    def planner(self, method: str) -> Callable[..., Any]:
        from fedclust_helpers import feddp_kmeans

        return {"feddp": feddp_kmeans.plan, "adaptive": feddp_kmeans.plan_adaptive}[method]

    def check(self, of: Any, method: str, **more: Any) -> None:
        super().check(of, method, **more)
        if of.X_server is None and more.get("X_server") is None:
            raise ValueError(
                "X_server must be given, to fit or to the constructor: public rows that resemble"
                " those of the clients; PrivateKMeans does without"
            )

    def played(
        self, of: Any, data: ClientData, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:  # fmt: skip
        radius, ledger = of.radius or math.sqrt(data.n_features), of._open_ledger()
        return ClientData(np.clip(data.points, -1, 1), data.offsets, copy=False), {
            "domain": "ball", "bound": radius, "n_records": public_records(of, n_rows),
            "ledger": PrivacyLedger(_unit(of)) if ledger is None else ledger,
        }  # fmt: skip

    def given(
        self, of: Any, method: str, federation: Any, planning: dict[str, Any],
        running: dict[str, Any], rows: Rows, box: Box, **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        if federation.facts.unit != _unit(of):
            raise LedgerMismatchError(f"ledger must be kept for one {_unit(of)}, as unit says")
        server = self.server(of, more.get("X_server"), rows, box)
        running["rng"] = np.random.default_rng(of.seed)
        counts = {"n_records": of.n_records, "rows_per_client": of.rows_per_client}
        if method == "adaptive":
            planning |= {"rng": np.random.default_rng(of.seed), **counts}
        elif of.unit == "client" and "clips" not in planning and "budgets" not in planning:
            if of.rows_per_client is None:
                raise ValueError(
                    "rows_per_client must be given with unit='client': a public number"
                )
            from fedclust_helpers.feddp_kmeans import ClipBounds

            planning["clips"] = ClipBounds.suggest(
                server, rows_per_client=of.rows_per_client, n_clusters=of.n_clusters
            )
        if of.unit == "client" and of.n_records is None:  # the true one would be public
            raise ValueError("n_records must be given with unit='client': a public number")
        return (server,)

    def notes(self, of: Any, plan: Any) -> list[str]:
        """Clusters cost a tenth of k cubes that fill the box, d/3 k^(-2/d), or less."""
        if plan.predicted_error is None:
            return []
        d = plan.n_features
        added = plan.predicted_error / (d / 30 * plan.n_clusters ** (-2 / d))
        far = added > FAR_IN_ONE_ROUND
        return [_too_few(plan, f"add {added:.0%} in its last round to the cost")] if far else []

    def server(self, of: Any, given: Any, rows: Rows, box: Box) -> FloatArray:
        """The server's rows in the box."""
        given = of.X_server if given is None else given
        table = features(given, "X_server", columns=rows.columns if is_table(given) else None)
        points = as_points(table, "X_server", n_features=rows.data.n_features)
        return np.clip(scale_to_box(points, *box), -1, 1)


class _Reports(Family):
    """The sketch and Algorithm 1: a report of each user about its own row, under replace-one."""

    trusts = ("local", "shuffled")
    unused = {
        "X_server": "every user sends one report, and the server has no use for rows",
        "n_records": "the number of reports is seen by whoever gets them",
        "rows_per_client": "every row is a user of its own",
        "radius": "it is for method='feddp' and 'adaptive'",
        "unit": "every row is a user of its own",
    }

    def planner(self, method: str) -> Callable[..., Any]:
        from fedclust_helpers import ldp_kmeans

        return {"sketch": ldp_kmeans.plan_sketch, "one_round": ldp_kmeans.plan}[method]

    def read(self, of: Any, X: Any, clients: Any, bounds: Bounds) -> Rows:
        if clients is not None:
            raise ValueError("clients must not be given: every row is a user of its own")
        if isinstance(X, ClientData):
            if X.rows_per_client != 1:
                raise ValueError("X must hold one row for each client: they are the users")
        elif not is_one_table(X) or (isinstance(X, Sequence) and len(X) == 0):
            raise ValueError("X must be one array of shape (n, d), row i the only one of user i")
        if of.missing == "drop":
            raise ValueError(
                "missing must be 'raise': a user who sends no report tells that its row has a gap;"
                " fill it by a public rule"
            )
        return read_rows(X, columns=bounds.columns)

    def played(
        self, of: Any, data: ClientData, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:  # fmt: skip
        # the whole box fits into the unit ball
        inside = np.clip(data.points, -1, 1) * (1 / np.sqrt(data.n_features))
        return ClientData.one_point_each(inside, copy=False), {}

    def given(
        self, of: Any, method: str, federation: Any, planning: dict[str, Any],
        running: dict[str, Any], rows: Rows, box: Box, **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        running["rng"] = np.random.default_rng(of.seed)
        return ()

    def in_box(self, centers: FloatArray) -> FloatArray:
        return np.clip(centers / (1 / np.sqrt(centers.shape[1])), -1, 1)

    def notes(self, of: Any, plan: Any) -> list[str]:
        from fedclust_helpers import ldp_kmeans

        n, k = plan.facts.n_records, plan.n_clusters
        needed, local = ldp_kmeans.users_needed_by(plan), plan.dial.local_epsilon
        if plan.algorithm is ldp_kmeans.SKETCH and k > 1:
            needed = ldp_kmeans.sketch_users_needed(1 / k, local, plan.n_features, n_clusters=k)
        if needed <= n:
            return []
        behind = f" ({local:.3g} on the device)" if plan.facts.trust == "shuffled" else ""
        return [
            f"too few rows for {k} clusters at epsilon = {plan.epsilon:g}{behind}: about {needed:,}"
            f" users are needed to see {k} clusters of equal size, and there are {n:,}"
        ]


def _unit(of: Any) -> str:
    """The unit in the words of a ledger."""
    return "point" if of.unit == "row" else str(of.unit)


_SUMS, _WITH_SERVER, _REPORTS = _Sums(), _WithServer(), _Reports()
FAMILIES: Mapping[str, Family] = {
    "overclustered": _SUMS, "fastlloyd": _SUMS, "adaptive": _WITH_SERVER, "feddp": _WITH_SERVER,
    "sketch": _REPORTS, "one_round": _REPORTS,
}  # fmt: skip
"""The family of each method."""


def best_method(trust: str, unit: str, *, has_server: bool) -> tuple[str, str]:
    """The method that "auto" takes, and why: from public facts alone.

    It is the one that is never much worse in the tables of this project (data/results): claims
    B.central.fresh, K.adaptive, B.sketch.mixtures and B.sketch.few.
    """
    if trust in _REPORTS.trusts:
        return "sketch", (
            f"of the methods for trust={trust!r} none had a lower cost, from 100,000 users on, in"
            " any setting that was measured (claim B.sketch.mixtures)"
        )
    if has_server:
        if trust not in _WITH_SERVER.trusts:
            raise ValueError(
                f"trust must be 'ideal' or 'trusted' with X_server, got {trust!r}: the server puts"
                " its rows together with sums that it reads; leave X_server out, or choose"
                " method='overclustered'"
            )
        return "adaptive", (
            "X_server is given, and FedDP-KMeans with this start was never worse than the paper's"
            " in any setting that was measured (claim K.adaptive)"
        )
    if unit == "client":
        raise ValueError(
            "X_server must be given with unit='client': only FedDP-KMeans protects all rows of a"
            " client at once, and it starts from public rows of the server; or choose unit='row'"
        )
    return "overclustered", (
        "of the methods that release sums it had the lowest cost, or close to it, in every setting"
        " that was measured (claim B.central.fresh)"
    )
