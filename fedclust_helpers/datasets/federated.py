"""Data that is already split over clients, with public data at the server (FedDP-KMeans, App. G.1).

The server holds a few points from the clients' distribution and more from elsewhere. They are
public: no epsilon pays for looking at them. So is the radius, the length to which every client
clips its points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import datasets as sklearn_datasets

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.datasets._base import set_texts
from fedclust_helpers.datasets._checks import (
    as_positives,
    as_whole,
    check_fits,
    check_moderate,
    own_view,
)

PAPER = (
    "J. Scott, C. H. Lampert and D. Saulpic (2025), Differentially private federated k-means "
    "clustering with server-side data, ICML"
)

INSIDE = 1 - 1e-12
"""Length of rows that are scaled to the unit sphere: rounding cannot push them out of the ball."""


@dataclass(frozen=True, eq=False, repr=False)
class FederatedDataset:
    """The rows of all clients, the points of the server, and what is publicly known.

    Attributes
    ----------
    name : str
    points : ndarray of float64 of shape (N, d), read-only
        Rows of all clients; client i owns ``points[offsets[i]:offsets[i + 1]]``.
    offsets : ndarray of int64 of shape (M + 1,), read-only
    server_points : ndarray of float64 of shape (q, d), read-only
        Public points held by the server.
    n_clusters : int
        The number of clusters k that the paper uses with these data.
    radius : float
        Public bound Delta on the length of a point. A row may still be longer; a federation clips
        it at the client and counts it.
    radius_note : str
        Where the radius comes from.
    in_distribution : ndarray of bool of shape (q,), read-only
        Which server points were drawn like the clients' rows. For figures and scores: no algorithm
        may use it.
    labels : ndarray of int64 of shape (N,), read-only, or None
        Reference labels of the rows. Never an input of the clustering.
    true_centers : ndarray of float64 of shape (k, d), read-only, or None
        Centres that the rows were generated around.
    source, licence, citation : str
    copy : bool, default True
        Keep copies of the arrays given. False keeps views: they must not be changed afterwards.
    """

    name: str
    points: FloatArray
    offsets: IntArray
    server_points: FloatArray
    n_clusters: int
    radius: float
    radius_note: str
    in_distribution: NDArray[np.bool_]
    source: str
    licence: str
    citation: str
    labels: IntArray | None = None
    true_centers: FloatArray | None = None
    copy: InitVar[bool] = True

    def __post_init__(self, copy: bool) -> None:
        set_texts(self, "name", "radius_note", "source", "licence", "citation")
        points = as_points(self.points)
        n, d = points.shape
        offsets = check_offsets(self.offsets, "offsets", n)
        server = as_points(self.server_points, "server_points", n_features=d)
        try:
            inside = np.asarray(self.in_distribution)
        except ValueError:  # ragged
            inside = np.empty((), dtype=np.bool_)
        if inside.shape != (len(server),) or inside.dtype != np.bool_:
            raise ValueError(
                f"in_distribution must be a boolean array of shape ({len(server)},), one for each"
                " of server_points"
            )
        set_field = object.__setattr__
        set_field(self, "points", own_view(points, self.points, copy=copy))
        set_field(self, "offsets", offsets)
        set_field(self, "server_points", own_view(server, self.server_points, copy=copy))
        set_field(self, "in_distribution", own_view(inside, self.in_distribution, copy=copy))
        set_field(self, "n_clusters", check_int(self.n_clusters, "n_clusters", maximum=10**9))
        set_field(self, "radius", check_positive(self.radius, "radius"))
        if self.labels is not None:
            labels = as_whole(self.labels, "labels")
            if labels.shape != (n,):
                raise ValueError(f"labels must have shape ({n},), got {labels.shape}")
            set_field(self, "labels", own_view(labels, None, copy=False))
        if self.true_centers is not None:
            centers = as_points(self.true_centers, "true_centers", n_features=d)
            set_field(self, "true_centers", own_view(centers, self.true_centers, copy=copy))

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of rows N of all clients together."""
        return self.points.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.points.shape[1]

    def clients(self) -> tuple[FloatArray, IntArray]:
        """Rows and offsets, in the form that `fedclust_helpers.federation.ClientData` takes."""
        return self.points, self.offsets

    def __repr__(self) -> str:
        size = f"M={self.n_clients}, N={self.n_points}, d={self.n_features}, k={self.n_clusters}"
        return f"FederatedDataset({self.name!r}, {size}, server={len(self.server_points)})"


def check_offsets(value: ArrayLike, name: str, n_rows: int) -> IntArray:
    """Offsets of clients with at least one row each, read-only."""
    offsets = as_whole(value, name)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_rows:
        raise ValueError(f"{name} must run from 0 to the number of rows, one after each client")
    if (np.diff(offsets) <= 0).any():
        raise ValueError(f"{name} must give every client at least one row")
    frozen: IntArray = own_view(offsets, None, copy=False)
    return frozen


def _offsets(sizes: IntArray | Sequence[int]) -> IntArray:
    """Offsets of clients of the given sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _in_distribution(n_in: int, n_out: int) -> NDArray[np.bool_]:
    """Mask of a server that lists its in-distribution points first."""
    return np.arange(n_in + n_out) < n_in


def make_server_mixture(
    *,
    n_clients: int = 100,
    rows_per_client: int = 1000,
    n_features: int = 100,
    n_clusters: int = 10,
    variance: float = 0.5,
    server_per_cluster: int = 20,
    n_uniform: int = 100,
    missing: int = 0,
    weights: ArrayLike | None = None,
    side: float = 1.0,
    rng: np.random.Generator,
) -> FederatedDataset:
    """Gaussian mixture at the clients, a sample of it plus uniform points at the server (App. G.1).

    Means are uniform in the cube [0, side]^d, every component has covariance ``variance * I``, and
    clients draw their rows independently. The server has `server_per_cluster` points of each
    component that it knows, in the order of the components, and `n_uniform` points uniform in the
    cube. Defaults are the paper's cross-silo setting; its cross-device settings are
    ``rows_per_client=50`` with 1000, 2000 or 5000 clients.

    Parameters
    ----------
    n_clients, rows_per_client, n_features, n_clusters : int
    variance : float
        0.5 in the paper, so the best cost is close to ``n_features * variance`` = 50 per point.
    server_per_cluster, n_uniform : int
    missing : int, default 0
        The last `missing` components have no points at the server (App. H.2). Everything else
        stays the same for the same seed.
    weights : array_like of shape (n_clusters,), optional
        Positive mixture weights, scaled to add up to 1; equal if not given.
    side : float, default 1
        Side of the cube: a larger one separates the components.
    rng : numpy.random.Generator

    Returns
    -------
    FederatedDataset
        `labels` are the components, `true_centers` their means. `radius` is 11.0 in the setting of
        the paper, like in its code (Table 1 gives 10.57 for a set of server points): the root of
        the mean plus 3.36 standard deviations of the squared length of a point, rounded up to one
        decimal. One or two rows in a thousand are longer.

    Raises
    ------
    ValueError
        If an argument is out of range, or the server would hold no point.

    Examples
    --------
    >>> import numpy as np
    >>> make_server_mixture(n_clients=5, rows_per_client=20, rng=np.random.default_rng(0))
    FederatedDataset('server mixture', M=5, N=100, d=100, k=10, server=300)
    """
    n_clients = check_int(n_clients, "n_clients")
    rows_per_client = check_int(rows_per_client, "rows_per_client")
    d, k = check_int(n_features, "n_features"), check_int(n_clusters, "n_clusters")
    variance, side = check_positive(variance, "variance"), check_positive(side, "side")
    server_per_cluster = check_int(server_per_cluster, "server_per_cluster", minimum=0)
    n_uniform = check_int(n_uniform, "n_uniform", minimum=0)
    missing = check_int(missing, "missing", minimum=0, maximum=k)
    check_moderate(variance, "variance")
    check_moderate(side, "side")
    check_fits(n_clients * rows_per_client * (d + 2), "n_clients, rows_per_client and n_features")
    check_fits((server_per_cluster + 1) * k * d, "server_per_cluster, n_clusters and n_features")
    check_fits(n_uniform * d, "n_uniform and n_features")
    share = None
    if weights is not None:
        share = as_positives(weights, "weights", k, "of the n_clusters components")
        share = share / share.max()
        share = share / share.sum()
    check_rng(rng)
    n_in = server_per_cluster * (k - missing)
    if n_in + n_uniform == 0:
        raise ValueError("server_per_cluster and n_uniform must leave the server a point")

    n, sd = n_clients * rows_per_client, math.sqrt(variance)
    means = rng.uniform(0.0, side, (k, d))
    labels = rng.integers(k, size=n) if share is None else rng.choice(k, n, p=share)
    points = rng.standard_normal((n, d))
    points *= sd
    for component, mean in enumerate(means):
        points[labels == component] += mean
    drawn = np.repeat(means, server_per_cluster, axis=0)
    drawn += sd * rng.standard_normal(drawn.shape)
    server = np.vstack([drawn[:n_in], rng.uniform(0.0, side, (n_uniform, d))])

    # moments of the squared length of a point, over the means too
    center = d * (side**2 / 3 + variance)
    spread = math.sqrt(d * (4 * side**4 / 45 + 4 * side**2 * variance / 3 + 2 * variance**2))
    return FederatedDataset(
        name="server mixture",
        points=points,
        offsets=rows_per_client * np.arange(n_clients + 1),
        server_points=server,
        n_clusters=k,
        radius=math.ceil(10 * math.sqrt(center + 3.36 * spread)) / 10,
        radius_note="from the parameters of the mixture: exceeded by about 0.1 % of the points",
        in_distribution=_in_distribution(n_in, n_uniform),
        source="generated",
        licence="generated, no restriction",
        citation=PAPER,
        labels=labels,
        true_centers=means,
        copy=False,
    )


def make_image_federation(
    *,
    n_clients: int = 64,
    block: int = 2,
    n_clusters: int = 8,
    server_in: int = 20,
    server_out: int = 300,
    rng: np.random.Generator,
) -> FederatedDataset:
    """Strips of a photograph as clients, another photograph as public data. Needs no download.

    The two sample images of scikit-learn (427 x 640 pixels) are cut into `block` x `block` patches
    without overlap; a row is the colours of one patch. Clients are vertical strips of equal width
    of ``china.jpg``, left to right (widths differ by at most one patch). The server has
    `server_in` patches taken out of that image at random and `server_out` of ``flower.jpg``.
    Neighbouring strips look alike, distant ones do not, so clients differ as real ones do.

    Parameters
    ----------
    n_clients : int, default 64
        At most ``640 // block``.
    block : int, default 2
        Side of a patch in pixels, so ``d = 3 * block**2``. 1 gives single pixel colours.
    n_clusters : int, default 8
    server_in, server_out : int
    rng : numpy.random.Generator
        Chooses the server's patches.

    Returns
    -------
    FederatedDataset
        Colours 0..255 are mapped to [-1, 1] and divided by the root of d, so `radius` is 1 for
        every possible image.

    Raises
    ------
    ValueError
        If an argument is out of range, or a client would be left without a row.

    Examples
    --------
    >>> import numpy as np
    >>> make_image_federation(rng=np.random.default_rng(0))
    FederatedDataset('image strips', M=64, N=68140, d=12, k=8, server=320)
    """
    block = check_int(block, "block", maximum=427)
    n_clients = check_int(n_clients, "n_clients", maximum=640 // block)
    n_clusters = check_int(n_clusters, "n_clusters", maximum=427 * 640)
    private, public = (_patches(name, block) for name in ("china.jpg", "flower.jpg"))
    n_rows, n_columns, d = private.shape
    server_in = check_int(server_in, "server_in", minimum=0, maximum=n_rows * n_columns - n_clients)
    server_out = check_int(server_out, "server_out", minimum=0, maximum=n_rows * n_columns)
    if server_in + server_out == 0:
        raise ValueError("server_in and server_out must leave the server a point")
    check_rng(rng)

    # columns first, so that a strip is one run of rows
    rows = private.transpose(1, 0, 2).reshape(-1, d)
    taken = rng.choice(len(rows), server_in, replace=False)
    foreign = rng.choice(len(rows), server_out, replace=False)
    strip_of = np.arange(n_columns) * n_clients // n_columns
    kept = np.ones(len(rows), dtype=bool)
    kept[taken] = False
    sizes = np.bincount(np.repeat(strip_of, n_rows)[kept], minlength=n_clients)
    if (sizes == 0).any():
        raise ValueError("server_in must leave every client at least one row")
    return FederatedDataset(
        name="image strips",
        points=rows[kept],
        offsets=_offsets(sizes),
        server_points=np.vstack([rows[taken], public.reshape(-1, d)[foreign]]),
        n_clusters=n_clusters,
        radius=1.0,
        radius_note="colours are coded 0..255: no image can exceed it",
        in_distribution=_in_distribution(server_in, server_out),
        source="scikit-learn",
        licence="CC BY 2.0",
        citation="china.jpg by danielbuechele, flower.jpg by vultilion (Flickr), "
        "distributed with scikit-learn",
        copy=False,
    )


def _patches(name: str, block: int) -> FloatArray:
    """Patches of a sample image inside the unit ball: (rows, columns, 3 * block**2)."""
    image = sklearn_datasets.load_sample_image(name)
    n_rows, n_columns = image.shape[0] // block, image.shape[1] // block
    image = image[: n_rows * block, : n_columns * block]
    cells = image.reshape(n_rows, block, n_columns, block, 3).transpose(0, 2, 1, 3, 4)
    scaled = cells.reshape(n_rows, n_columns, -1).astype(np.float64)
    scaled /= 127.5
    scaled -= 1.0
    scaled *= INSIDE / math.sqrt(scaled.shape[-1])
    return scaled
