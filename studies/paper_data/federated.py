"""Clients with public data at the server (FedDP-KMeans, App. G.1): a mixture, strips of a picture.

The server holds a few points from the clients' distribution and more from elsewhere.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn import datasets as sklearn_datasets

from fedclust_helpers._checked import checked
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, check_int, check_positive
from studies.paper_data.records import GENERATED, FederatedDataset, as_weights, offsets_of

PAPER = (
    "J. Scott, C. H. Lampert and D. Saulpic (2025), Differentially private federated k-means "
    "clustering with server-side data, ICML"
)
INSIDE = 1 - 1e-12
"""Length of rows that are scaled to the unit sphere: rounding cannot push them out of the ball."""


@checked
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
    d, k = check_int(n_features, "n_features"), check_int(n_clusters, "n_clusters")
    check_int(n_clients, "n_clients")
    check_int(rows_per_client, "rows_per_client")
    check_positive(variance, "variance")
    check_positive(side, "side")
    check_int(missing, "missing", minimum=0, maximum=k)
    share = None
    if weights is not None:
        share = as_weights(weights, "weights", n=k, of="of the n_clusters components")
        share = share / share.sum()
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
    drawn = repeat(means, server_per_cluster, axis=0)
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
        in_distribution=np.arange(len(server)) < n_in,
        **GENERATED,
        citation=PAPER,
        labels=labels,
        true_centers=means,
    )


@checked
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
    check_int(n_clients, "n_clients", maximum=640 // check_int(block, "block", maximum=427))
    private, public = (
        colour_patches(sklearn_datasets.load_sample_image(name), block)
        for name in ("china.jpg", "flower.jpg")
    )
    n_rows, n_columns, d = private.shape
    private, public = (part * (INSIDE / math.sqrt(d)) for part in (private, public))
    if server_in + server_out == 0:
        raise ValueError("server_in and server_out must leave the server a point")

    # columns first, so that a strip is one run of rows
    rows = private.transpose(1, 0, 2).reshape(-1, d)
    taken = rng.choice(len(rows), server_in, replace=False)
    foreign = rng.choice(len(rows), server_out, replace=False)
    strip_of = np.arange(n_columns) * n_clients // n_columns
    kept = np.ones(len(rows), dtype=bool)
    kept[taken] = False
    sizes = bincount(repeat(strip_of, n_rows)[kept], minlength=n_clients)
    if (sizes == 0).any():
        raise ValueError("server_in must leave every client at least one row")
    return FederatedDataset(
        name="image strips",
        points=rows[kept],
        offsets=offsets_of(sizes),
        server_points=np.vstack([rows[taken], public.reshape(-1, d)[foreign]]),
        n_clusters=n_clusters,
        radius=1.0,
        radius_note="colours are coded 0..255: no image can exceed it",
        in_distribution=np.arange(server_in + server_out) < server_in,
        source="scikit-learn",
        licence="CC BY 2.0",
        citation="china.jpg by danielbuechele, flower.jpg by vultilion (Flickr), "
        "distributed with scikit-learn",
    )


def colour_patches(image: ArrayLike, block: int) -> FloatArray:
    """Patches of an image of bytes, from -1 to 1: (rows, columns, 3 * block**2)."""
    image = np.asarray(image)
    h, w = image.shape[0] // block, image.shape[1] // block
    cells = image[: h * block, : w * block].reshape(h, block, w, block, 3).transpose(0, 2, 1, 3, 4)
    return cells.reshape(h, w, -1) / 127.5 - 1
