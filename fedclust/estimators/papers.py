"""The estimators that are named after papers: `PrivateKMeans` with a paper's method by default."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from fedclust.estimators.kmeans import _Boxed
from fedclust_helpers._validation import Positive


@dataclass(eq=False, repr=False)
class FastLloydKMeans(_Boxed):
    """FastLloyd (Diaa, Humphries, Kerschbaum 2025): sums of rows, add/remove one row.

    Parameters and attributes as for `PrivateKMeans`, but:

    Parameters
    ----------
    trust : {"masked", "ideal", "trusted", "serverless"}
    publish : bool, default True
        With ``trust="masked"``: whether the results may reach the server. Then every client adds a
        share of the noise, and the centres may be shown to everybody; it takes two clients, and
        costs more noise where they are few (twice the variance for two). With False the server
        alone adds the noise, as in the paper, and knows it: **whoever then sends it the centres,
        or publishes them, hands it the exact sums and counts of every cluster.**
    method : {"fastlloyd", "overclustered"}
        "overclustered" has the same guarantee and a lower cost (claim B.central.fresh).
    delta : float, optional
        By default 1/(N ln N), the paper's choice, with N the public `n_records`. **Give a smaller
        one, 1e-6 say**: delta should lie far below 1/N, and N delta = 1/ln N is 0.13 for 2,400
        rows. A mechanism that publishes each row with probability delta keeps that promise, and
        exposes somebody in 12 % of its runs.
    options : dict, optional
        Further arguments of the method's planner, `fastlloyd.plan` or
        `fastlloyd.plan_overclustered`, and of `fastlloyd.run` (alpha, strategy, n_rounds, initial,
        progress ...).

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


@dataclass(eq=False, repr=False)
class FedDPKMeans(_Boxed):
    """FedDP-KMeans (Scott, Lampert, Saulpic 2025): public rows of the server make the start.

    Parameters and attributes as for `PrivateKMeans`, but:

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


@dataclass(eq=False, repr=False)
class LocalKMeans(_Boxed):
    """Locally private k-means: users with one row each, who trust nobody, or a shuffler.

    The server never holds a row, not even a sum that is exact. It takes many users: see
    `ldp_kmeans.sketch_users_needed` and `ldp_kmeans.users_needed`.

    Parameters and attributes as for `PrivateKMeans`, but: epsilon and delta (1e-6 by default) hold
    for any two values of one user's row; `ledger` is for replace-one; `seed` (teaching mode) also
    seeds the server's k-means. `trust` is one of

    * "local" (default): the guarantee is each user's own, whatever all others do.
    * "shuffled": it holds for the set of all answers, against a server that does not collude with
      the shuffler, and with all users honest (`simulate` takes `max_colluding`). A message alone
      has the larger `plan_.dial.local_epsilon`. A thirtieth of the users does: 1,000 and not 32,000
      to come within 5 % of the best cost (sketch, epsilon 1, d = 2, k = 5: chapter 05, section 4).

    `method` is one of

    * "sketch" (default): one randomised symbol of each user, and a density fitted to all of them;
      pure, delta is not used; from 100,000 users on never worse than the other (claim
      B.sketch.mixtures). The server searches for seconds.
    * "one_round": the paper's Algorithm 1 (Chaturvedi, Jones, Nguyen 2022), a randomised bit of
      each user (or, above six features, perhaps a noised vector instead; below, it is pure). The
      server needs milliseconds.

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

    _one_row_each: ClassVar[bool] = True
