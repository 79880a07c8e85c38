"""Random rebalancing: no cluster of a round with fewer than B updates (Algorithm 1, red lines)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedclust_helpers._validation import IntArray, check_choice, check_int, check_rng

RULES = ("strict", "literal", "off")
MOST = 10**7  # clusters


def as_labels(clusters: Any, n_clusters: int) -> IntArray:
    """Cluster numbers (m,) as int64, each below `n_clusters`."""
    try:
        array = np.asarray(clusters)
    except ValueError:  # ragged
        array = np.zeros(())
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError("clusters must be whole numbers of shape (m,)")
    if array.size and not 0 <= array.min() <= array.max() < n_clusters:
        raise ValueError(f"clusters must be numbers below n_clusters={n_clusters}")
    return array.astype(np.int64)


def smallest_size(min_size: int, n_updates: int, n_clusters: int) -> int:
    """The size that rebalancing fills up to: B, or floor(n/k) where n < kB updates are there.

    A rule fixed in advance: a small cohort is no error, and tells nobody anything by one.
    """
    size = check_int(min_size, "min_size", minimum=0)
    n = check_int(n_updates, "n_updates", minimum=0)
    return min(size, n // check_int(n_clusters, "n_clusters"))


def rebalance(
    clusters: IntArray,
    n_clusters: int,
    min_size: int,
    *,
    rule: str = "strict",
    rng: np.random.Generator,
) -> IntArray:
    """Move randomly drawn updates from large clusters to those with fewer than B.

    Parameters
    ----------
    clusters : ndarray of int, shape (m,)
        Cluster number of each update.
    n_clusters, min_size : int
        k and B. Where m < kB, B is lowered to floor(m/k).
    rule : {"strict", "literal", "off"}
        Who may be drawn from the clusters of at least B updates. "strict": in random order, but
        nobody from a cluster that is down to B. So every cluster ends with at least B. "literal"
        (Algorithm 2, line 12): anybody; a donor may fall below B.
    rng : numpy.random.Generator
        Nothing is drawn from it when no cluster is short.

    Returns
    -------
    ndarray of int, shape (m,)
        A new array; each update moves at most once.
    """
    check_choice(rule, "rule", RULES)
    check_rng(rng)
    k = check_int(n_clusters, "n_clusters", maximum=MOST)
    clusters = as_labels(clusters, k)
    size = smallest_size(check_int(min_size, "min_size", minimum=0), len(clusters), k)
    sizes = np.bincount(clusters, minlength=k)
    short = np.maximum(size - sizes, 0)
    out = clusters.copy()
    if rule == "off" or not short.any():
        return out
    order = rng.permutation(np.flatnonzero(sizes[clusters] >= size))
    if rule == "strict":
        # the first (size - B) members of a cluster in this order are free to go
        own = clusters[order]
        by_cluster = np.argsort(own, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=k))])[:-1]
        rank = np.empty(len(order), dtype=np.int64)
        rank[by_cluster] = np.arange(len(order)) - first[own[by_cluster]]
        order = order[rank < sizes[own] - size]
    receivers = np.repeat(np.arange(k), short)
    out[order[: len(receivers)]] = receivers[: len(order)]
    return out
