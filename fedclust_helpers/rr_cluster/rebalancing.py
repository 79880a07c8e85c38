"""The rebalancing that RR-Cluster is named after: small clusters are filled from large ones."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import IntArray

Rule = Literal["strict", "literal", "off"]


def rebalance(
    clusters: IntArray, n_clusters: int, min_size: int, *, rule: Rule = "strict",
    rng: np.random.Generator,
) -> IntArray:  # fmt: skip
    """Lines 9 and 10 of Algorithm 1: fill clusters of fewer than B updates from large ones.

    `clusters` (m,) are those of the updates; a new array is returned, in which each update has
    moved at most once. Where m < kB, B (`min_size`) is lowered to floor(m/k): a small cohort is no
    error, and tells nobody anything by one.

    `rule` says who may be drawn from the clusters of at least B updates. "strict": in random order,
    but nobody from a cluster that is down to B, so that every cluster ends with at least B.
    "literal" (Algorithm 2, line 13): anybody; a donor may fall below B. "off": nobody. Nothing is
    drawn from `rng` when no cluster is short.
    """
    k = n_clusters
    out = np.array(clusters)
    size = min(min_size, len(out) // k)
    sizes = bincount(out, minlength=k)
    short = np.maximum(size - sizes, 0)
    if rule == "off" or not short.any():
        return out
    order = rng.permutation(np.flatnonzero(sizes[out] >= size))
    if rule == "strict":
        # the first (size - B) members of a cluster in this order are free to go
        own = out[order]
        by_cluster = np.argsort(own, kind="stable")
        first = np.concatenate([[0], np.cumsum(bincount(own, minlength=k))])[:-1]
        rank = np.empty(len(order), dtype=np.int64)
        rank[by_cluster] = np.arange(len(order)) - first[own[by_cluster]]
        order = order[rank < sizes[own] - size]
    receivers = repeat(np.arange(k), short)
    out[order[: len(receivers)]] = receivers[: len(order)]
    return out
