"""What the planner of each method must hear of an estimator: sums, a server's rows, reports.

`FAMILIES` has the family of each method. `PrivateKMeans` may call all of them, the estimators named
after papers one each; `RRCluster` has one of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedclust.estimators.bounds import Bounds
from fedclust.estimators.clients import Rows, is_one_table, read_rows
from fedclust.tables import read_numbers
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import LedgerMismatchError, PrivacyLedger
from fedclust_helpers.datasets import scale_to_box
from fedclust_helpers.federation import ClientData, Federation

FAR, FAR_IN_ONE_ROUND = 0.5, 0.2
"""Share of the cost of non-private k-means that noise may add before a plan warns."""
WORTH_SAYING = 0.1
"""Share of that cost which no method can avoid to add, from which a plan says so."""
MAX_KEY_AGREEMENTS = 4096
"""Clients who can agree on a key through the server: 0.3 ms each, and 5 s for a whole small fit."""
MAX_NODES = 256
"""Clients who can exchange shares with each other without a server: 1 GB on the wire, 3 s."""
MAX_UNSAID = 200
"""Rows of one table that count as clients of their own without a word."""
Box = tuple[FloatArray, FloatArray]


@dataclass
class Asked:
    """One fit on its way to its planner: `planning` and `running` are what it will be asked for."""

    method: str
    bounds: Bounds
    X_server: Any
    rows: Rows
    box: Any  # lower and upper (d,); None: there is none before the run
    planning: dict[str, Any] = field(default_factory=dict)
    running: dict[str, Any] = field(default_factory=dict)


class Family:
    """What planners of one kind ask of an estimator `of`, whose rows lie in the box."""

    trusts: ClassVar[tuple[str, ...]] = ("masked", "ideal", "trusted", "serverless")
    unused: ClassVar[dict[str, str]] = {}  # parameters, and why they must be left as they are
    names: ClassVar[tuple[str, str]] = ("X", "clients")  # of the arguments with rows and owners

    def planner(self, method: str, *, private: bool = False) -> Callable[..., Any]:
        """The planner of a method; of rows whose bounds nobody knows if `private`."""
        if private:
            raise ValueError(
                f"bounds must be public with method={method!r}: finding them, bounds='private',"
                " takes method='overclustered' or 'fastlloyd'"
            )
        return self._planners()[method]

    def _planners(self) -> Mapping[str, Callable[..., Any]]:
        raise NotImplementedError

    def check(self, of: Any, method: str, X_server: Any) -> None:
        """Refuse trust and parameters that the method has no use for."""
        if of.trust not in self.trusts:
            raise ValueError(
                f"trust must be one of {', '.join(self.trusts)} with method={method!r}; got"
                f" {of.trust!r}"
            )
        for name, why in self.unused.items():
            given = X_server if name == "X_server" and X_server is not None else None
            given = getattr(of, name, None) if given is None else given
            if given is not None and not (name == "unit" and given == "point"):
                raise ValueError(f"{name} must not be given with method={method!r}: {why}")

    def read(self, of: Any, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
        """The rows and clients that the arguments of `fit` speak of.

        One table without owners has one holder who shows the server everything ("trusted"), or
        rows that are clients of their own; many of them must be said to be so.
        """
        alone, trusted = clients is None and is_one_table(X), of.trust == "trusted"
        if alone and getattr(of, "unit", None) == "client":
            raise ValueError("clients must be given with unit='client': whose each row is")
        rows = read_rows(
            X, clients, columns=bounds.columns, missing=of.missing, one_holder=alone and trusted,
            names=self.names,
        )  # fmt: skip
        if alone and not trusted and rows.data.n_clients > MAX_UNSAID:
            raise ValueError(
                f"{self.names[1]} must be given for more than {MAX_UNSAID} rows in one table with"
                f" trust={of.trust!r}, where each client is a party: the name of a column, or an id"
                " for each row; range(len(X)) says that each row is a client of its own. If one"
                " party holds all rows, choose trust='trusted'"
            )
        return rows

    def box(self, bounds: Bounds, rows: Rows) -> Box | None:
        """Lower and upper bound (d,) of the rows; None if a run will find them."""
        return None if bounds.private else bounds.of_data(rows.data, rows.columns)

    def played(self, of: Any, data: ClientData, n_rows: int) -> tuple[ClientData, dict[str, Any]]:
        """The data that is simulated, and further options of `simulate`.

        `n_rows` counts those that were left out, too.
        """
        raise NotImplementedError

    def given(self, of: Any, federation: Federation, asked: Asked) -> tuple[Any, ...]:
        """Arguments of the planner by position; others go into what is `asked`."""
        return ()

    def in_box(self, centers: FloatArray) -> FloatArray:
        """The centres of a result in the box [-1, 1]^d."""
        return np.clip(centers, -1, 1)

    def local(self, of: Any, plan: Any) -> str:
        """What else a client computes for itself, added to the words on what stays local."""
        return ""

    def notes(self, of: Any, plan: Any) -> list[str]:
        """What a user should hear before the plan is paid for."""
        return []


def public_records(of: Any, n_rows: int) -> int | None:
    """The public number of rows; those that were left out count: it tells nothing of them."""
    return n_rows if of.n_records is None and of.missing == "drop" else of.n_records


class _Sums(Family):
    """FastLloyd and over-clustered Lloyd: sums of rows, one row protected under add/remove."""

    unused = {
        "X_server": "take method='adaptive' or 'feddp'",
        "rows_per_client": "it is for unit='client'",
        "radius": "it is for method='feddp' and 'adaptive'",
        "unit": "it protects rows; whole clients are protected by method='adaptive', with X_server",
    }

    def planner(self, method: str, *, private: bool = False) -> Callable[..., Any]:
        from fedclust import describing
        from fedclust_helpers import fastlloyd

        if private:
            within = {"fastlloyd": describing.FASTLLOYD, "overclustered": describing.OVERCLUSTERED}
            return within[method].planner()
        return {"fastlloyd": fastlloyd.plan, "overclustered": fastlloyd.plan_overclustered}[method]

    def read(self, of: Any, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
        """Refuse what would take minutes or memory, or has no honest client, before it starts."""
        rows = super().read(of, X, y, clients, bounds)
        n, limit = rows.data.n_clients, {"masked": MAX_KEY_AGREEMENTS, "serverless": MAX_NODES}
        if n > limit.get(of.trust, n):
            raise ValueError(
                f"{self.names[0]} must hold at most {limit[of.trust]} clients with"
                f" trust={of.trust!r}, where each takes a key exchange: group rows under fewer"
                " clients; or choose trust='ideal', or 'local' for users who trust nobody"
            )
        if n < 2 and (of.trust == "serverless" or (of.trust == "masked" and of.publish)):
            raise ValueError(
                f"{self.names[0]} must hold at least two clients, so that no one knows all of the"
                " noise; with one, choose trust='trusted', or publish=False and keep the results"
                " from the server"
            )
        return rows

    def played(self, of: Any, data: ClientData, n_rows: int) -> tuple[ClientData, dict[str, Any]]:
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
        seen = fastlloyd.measured_excess(plan.facts.n_records, plan.n_clusters, mu)
        if seen.most <= FAR or plan.options.get("k_range") is not None:
            return []
        return [
            f"{_too_few(plan)}. Where a cluster had about as many rows, private runs typically cost"
            f" {seen.typical:.0%} more than k-means without privacy, and nine in ten of them up to"
            f" {seen.most:.0%} more. {_LESS}"
        ]


_LESS = "Take fewer clusters, a larger epsilon, or more rows"


def _too_few(plan: Any) -> str:
    return f"too few rows for {plan.n_clusters} clusters at epsilon = {plan.epsilon:g}"


class _Columns(_Sums):
    """Bounds and summaries: counts of the rows by column, in their own units."""

    names = ("clients", "owners")

    def planner(self, method: str, *, private: bool = False) -> Callable[..., Any]:
        from fedclust import describing

        return {"bounds": describing.plan_bounds, "summary": describing.plan_summary}[method]

    def box(self, bounds: Bounds, rows: Rows) -> None:
        return None

    def given(self, of: Any, federation: Federation, asked: Asked) -> tuple[Any, ...]:
        if not asked.bounds.private:
            asked.planning |= {"lower": asked.bounds.lower, "upper": asked.bounds.upper}
        return ()

    def notes(self, of: Any, plan: Any) -> list[str]:
        return []


class _WithServer(Family):
    """FedDP-KMeans: the server's public rows make the start; one row or client, add/remove."""

    trusts = ("ideal", "trusted")

    def _planners(self) -> Mapping[str, Callable[..., Any]]:
        from fedclust_helpers import feddp_kmeans

        return {"feddp": feddp_kmeans.plan, "adaptive": feddp_kmeans.plan_adaptive}

    def check(self, of: Any, method: str, X_server: Any) -> None:
        super().check(of, method, X_server)
        if of.X_server is None and X_server is None:
            raise ValueError(
                "X_server must be given, to fit or to the constructor: public rows that resemble"
                " those of the clients; PrivateKMeans does without"
            )

    def played(self, of: Any, data: ClientData, n_rows: int) -> tuple[ClientData, dict[str, Any]]:
        radius, ledger = of.radius or math.sqrt(data.n_features), of._account.ledger
        return ClientData(np.clip(data.points, -1, 1), data.offsets, copy=False), {
            "domain": "ball", "bound": radius, "n_records": public_records(of, n_rows),
            "ledger": PrivacyLedger(of.unit) if ledger is None else ledger,
        }  # fmt: skip

    def given(self, of: Any, federation: Federation, asked: Asked) -> tuple[Any, ...]:
        if federation.facts.unit != of.unit:
            raise LedgerMismatchError(f"ledger must be kept for one {of.unit}, as unit says")
        server, planning = self.server(of, asked), asked.planning
        asked.running["rng"] = np.random.default_rng(of.seed)
        counts = {"n_records": of.n_records, "rows_per_client": of.rows_per_client}
        if asked.method == "adaptive":
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
        if added <= FAR_IN_ONE_ROUND:
            return []
        return [
            f"{_too_few(plan)}: the noise of the last round alone is predicted to raise the cost of"
            f" k-means by {added:.0%}. {_LESS}"
        ]

    def server(self, of: Any, asked: Asked) -> FloatArray:
        """The server's rows in the box."""
        given, rows = of.X_server if asked.X_server is None else asked.X_server, asked.rows
        columns = rows.columns or range(rows.data.n_features)
        points, _ = read_numbers(given, "X_server", columns=columns)
        return np.clip(scale_to_box(points, *asked.box), -1, 1)


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

    def _planners(self) -> Mapping[str, Callable[..., Any]]:
        from fedclust_helpers import ldp_kmeans

        return {"sketch": ldp_kmeans.plan_sketch, "one_round": ldp_kmeans.plan}

    def read(self, of: Any, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
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

    def played(self, of: Any, data: ClientData, n_rows: int) -> tuple[ClientData, dict[str, Any]]:
        # the whole box fits into the unit ball
        inside = np.clip(data.points, -1, 1) * (1 / np.sqrt(data.n_features))
        return ClientData.one_point_each(inside, copy=False), {}

    def given(self, of: Any, federation: Federation, asked: Asked) -> tuple[Any, ...]:
        asked.running["rng"] = np.random.default_rng(of.seed)
        return ()

    def in_box(self, centers: FloatArray) -> FloatArray:
        return np.clip(centers / (1 / np.sqrt(centers.shape[1])), -1, 1)

    def notes(self, of: Any, plan: Any) -> list[str]:
        from fedclust_helpers import ldp_kmeans

        n, k = plan.facts.n_records, plan.n_clusters
        needed, local = ldp_kmeans.users_needed_by(plan), plan.dial.local_epsilon
        unavoidable = ""
        if plan.algorithm is ldp_kmeans.SKETCH and k > 1:
            needed = ldp_kmeans.sketch_users_needed(1 / k, local, plan.n_features, n_clusters=k)
            least = ldp_kmeans.least_excess(n, local, plan.n_features, n_clusters=k)
            unavoidable = _NO_METHOD.format(least) if least >= WORTH_SAYING else ""
        if needed <= n:
            return []
        behind = f" ({local:.3g} on the device)" if plan.facts.trust == "shuffled" else ""
        return [
            f"{_too_few(plan)}{behind}: to see {k} clusters of equal size takes about {needed:,}"
            f" users, and there are {n:,}{unavoidable}"
        ]


_NO_METHOD = (
    ". From one such answer of each user no method can stay within {:.0%} of the cost of k-means on"
    " round clusters of one width, even one that nearly knows their centres"
)


_SUMS, _WITH_SERVER, _REPORTS = _Sums(), _WithServer(), _Reports()
FAMILIES: Mapping[str, Family] = {
    "overclustered": _SUMS, "fastlloyd": _SUMS, "adaptive": _WITH_SERVER, "feddp": _WITH_SERVER,
    "sketch": _REPORTS, "one_round": _REPORTS,
}  # fmt: skip
"""The family of each method of k-means."""
COLUMNS = _Columns()


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
            " client at once, and it starts from public rows of the server; or choose unit='point'"
        )
    return "overclustered", (
        "of the methods that release sums it had the lowest cost, or close to it, in every setting"
        " that was measured (claim B.central.fresh)"
    )
