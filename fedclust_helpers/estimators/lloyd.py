"""FastLloyd over data in its own units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from fedclust_helpers import fastlloyd
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.estimators.base import Prepared
from fedclust_helpers.estimators.bounds import Bounds
from fedclust_helpers.estimators.boxed import _Boxed
from fedclust_helpers.estimators.reading import Rows, is_one_table
from fedclust_helpers.federation import ClientData, Federation, simulate

MAX_KEY_AGREEMENTS = 4096
"""Clients who can agree on a key through the server within seconds."""
MAX_NODES = 256
"""Clients who can exchange shares with each other without a server."""


@dataclass(eq=False, repr=False)
class FastLloydKMeans(_Boxed):
    """FastLloyd over data in its own units, given public bounds of every feature.

    With ``trust="masked"`` and ``publish=True`` (the defaults) every client adds a share of the
    noise, so the centres may be shown to everybody, the server included. With ``publish=False``
    the server alone adds the noise, as in the paper. It knows that noise: **whoever then sends it
    the centres, or publishes them, hands it the exact sums and counts of every cluster.**

    Parameters
    ----------
    n_clusters : int or "auto"
        k; "auto", with ``method="overclustered"``, chooses it from what is released anyway.
    epsilon : float
        Total budget of one `fit`, add/remove one row.
    delta : float, optional
        The same. By default 1/(N ln N), the paper's choice, with N the public `n_records`. **Give a
        smaller one, 1e-6 say**: delta should lie far below 1/N, and N delta = 1/ln N is 0.13 for
        2,400 rows. A mechanism that publishes each row with probability delta keeps that promise,
        and exposes somebody in 12 % of its runs.
    lower, upper : float, array_like of shape (d,) or dict by column
        Bounds known *without looking at the data*. Rows outside are clipped at their client. Bounds
        by name choose the columns of a table.
    bounds : path, optional
        A CSV file with the columns column, lower, upper, instead of `lower` and `upper`.
    public_data : bool
        Whether anybody may see the rows. Then the bounds may be left out: they are read off the
        rows, with a `PublicBoundsWarning`.
    trust : {"masked", "ideal", "trusted", "serverless"}
        What leaves a client: statistics under masks that cancel in the sum ("masked", default);
        exact ones, into a box that adds them up and noises the sum ("ideal"); exact ones, to the
        server ("trusted"); or shares, to the other clients, with no server at all ("serverless").
    publish : bool, default True
        Whether the results may reach the server. Needs two clients with ``trust="masked"``; the
        price is more noise where clients are few (twice the variance for two).
    n_records : int, optional
        Public number of rows, or a bound or guess of it. Without it the true number is taken, and
        **is public then**: delta, the number of rounds and the plan tell it.
    mode : {"secure", "teaching"}
        "secure" (default) takes noise and keys from the operating system and needs OpenDP;
        "teaching" takes a `seed` and is not private against anyone who knows it.
    seed : int, optional
        Of all noise and keys, for teaching mode alone.
    ledger : PrivacyLedger, optional
        The ledger of this data set. Pass the same one to every fit on the same data, and it goes
        with every clone: searches and cross-validation charge it for every fit (in this process;
        elsewhere it refuses). Without it the first `fit` opens one, and further fits of this
        estimator are charged to the same one; a scikit-learn clone, for other data, begins with
        none.
    options : dict, optional
        Further arguments of the method's planner, `fastlloyd.plan` or
        `fastlloyd.plan_overclustered`, and of `fastlloyd.run` (alpha, strategy, n_rounds, initial,
        progress ...).
    method : {"fastlloyd", "overclustered"}
        "overclustered" has the same guarantee and a lower cost (claim B.central.fresh).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d), in original units
    plan_ : program.Program
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
    _local: ClassVar[tuple[str, ...]] = ("clipped_counts_",)
    _planners: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "fastlloyd": fastlloyd.plan, "overclustered": fastlloyd.plan_overclustered,
    }  # fmt: skip

    def _read(self, X: Any, y: Any, clients: Any, bounds: Bounds) -> Rows:
        rows = super()._read(X, y, clients, bounds)
        check_many(self, rows.data, alone=clients is None and is_one_table(X))
        return rows

    def _federation(self, data: ClientData) -> Federation:
        shares = {}
        if self.trust == "masked":
            shares["noise_from"] = "clients" if self.publish else "server"
        made: Federation = simulate(
            data, self.trust, mode=self.mode, seed=self.seed, ledger=self._open_ledger(),
            n_records=self.n_records, **shares,
        )  # fmt: skip
        return made

    def _followed(self, prepared: Prepared) -> tuple[Any, FloatArray]:
        federation: Any = prepared.federation
        result = fastlloyd.run(federation, prepared.plan, **prepared.running)
        self.clipped_counts_ = federation.clipped_counts
        return result, result.centers

    def _notes(self, plan: Any) -> list[str]:
        # an over-clustered plan predicts in squares of the spread: at most that of a filled box
        spread = plan.n_features / 3 if plan.algorithm is fastlloyd.OVERCLUSTERED else 1.0
        return self._drowned(plan, spread)


def check_many(estimator: Any, data: ClientData, *, alone: bool) -> None:
    """Refuse what would take minutes or memory, or has no honest client, before it starts."""
    trust = estimator.trust
    limit = {"masked": MAX_KEY_AGREEMENTS, "serverless": MAX_NODES}.get(trust)
    if limit is not None and data.n_clients > limit:
        instead = (
            "give the owner of each row as clients" if alone else "group rows under fewer clients"
        )
        raise ValueError(
            f"X must hold at most {limit} clients with trust={trust!r}, where each takes"
            f" a key exchange: {instead}; or choose trust='ideal', or LocalKMeans for users who"
            " trust nobody"
        )
    needs_two = trust == "serverless" or (trust == "masked" and estimator.publish)
    if needs_two and data.n_clients < 2:
        raise ValueError(
            "X must hold at least two clients, so that no one knows all of the noise; with one,"
            " choose trust='trusted', or publish=False and keep the results from the server"
        )
