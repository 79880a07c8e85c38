"""How far one client moves the cluster sums: rebalancing enumerated exactly.

Everything is in units of the clipping bound C, with whole-number updates, so that probabilities are
`Fraction` and squared distances are integers. The *joint* change is the L2 norm over all k sums.

Rebalancing is random, so two neighbouring client sets give two distributions over k-tuples of sums.
What Gaussian noise must hide is their W-infinity distance: the smallest r for which the two can be
coupled so that they never differ by more than r. (`mean_shift` is a lower bound on it.) The numbers
are examples, not proofs: nothing may be certified with them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from fedclust_helpers._index import bincount
from fedclust_helpers._validation import check_choice, check_int

RULES = ("strict", "literal", "surplus")
MOST_PARTITIONS = 10**6  # outcomes of one enumeration
Sums = tuple[int, ...]
Distribution = dict[Sums, Fraction]
_Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Instance:
    """Clients with their (noisy) cluster, their update in units of C, and the threshold B."""

    assignment: tuple[int, ...]
    updates: tuple[int, ...]
    n_clusters: int
    min_size: int

    def __post_init__(self) -> None:
        k = check_int(self.n_clusters, "n_clusters", maximum=10_000)
        check_int(self.min_size, "min_size", minimum=0, maximum=10_000)
        if len(self.assignment) != len(self.updates):
            raise ValueError("assignment and updates must have the same length")
        if any(not 0 <= j < k for j in self.assignment):
            raise ValueError(f"assignment must hold cluster numbers below n_clusters={k}")
        if any(u not in (-1, 0, 1) for u in self.updates):
            raise ValueError("updates must be -1, 0 or 1 (units of C)")

    def without(self, client: int) -> Instance:
        """The same clients but one."""
        i = check_int(client, "client", minimum=0, maximum=len(self.assignment) - 1)
        return replace(
            self, assignment=self.assignment[:i] + self.assignment[i + 1 :],
            updates=self.updates[:i] + self.updates[i + 1 :],
        )  # fmt: skip


# Client 0 is the one that leaves. Section A.2 of the paper claims that the joint change is 2.
TWO_CLUSTERS = Instance((0, 0, 1, 1, 1), (1, 1, -1, -1, -1), 2, 2)
"""k = 2, B = 2, deterministic: cluster 0 falls below B and takes one of three equal updates: the
change is (-2, 1), of norm sqrt(5)."""
THREE_CLUSTERS = Instance((1, 0, 0, 1), (1, 1, 1, -1), 3, 1)
"""k = 3, B = 1: cluster 1 loses its surplus and may donate no longer; W-infinity 3 (strict)."""
FIVE = Instance((0, 0, 1, 1, 1, 1, 1), (1, 1, -1, -1, -1, -1, -1), 3, 2)
"""k = 3, B = 2, literal rule: cluster 0 has exactly B and leaves the donors; W-infinity 5."""


def flip_of(b: int) -> Instance:
    """k = 3, B = b; sizes b, 1.2 b, 0.8 b; updates +1, -1, 0. Without client 0 a donor receives."""
    sizes = (b, 6 * b // 5, 4 * b // 5)
    assignment = tuple(j for j, size in enumerate(sizes) for _ in range(size))
    return Instance(assignment, tuple((1, -1, 0)[j] for j in assignment), 3, b)


# --- rebalancing, enumerated ----------------------------------------------------------------------


def _needs(sizes: Sequence[int], min_size: int) -> list[int]:
    """The small clusters in order, each as often as it lacks clients."""
    return [j for j, size in enumerate(sizes) for _ in range(max(0, min_size - size))]


def _donors(sizes: Sequence[int], min_size: int, rule: str) -> list[bool]:
    return [size > min_size - (rule == "literal") for size in sizes]


def _check_feasible(sizes: Sequence[int], min_size: int, rule: str) -> None:
    spare = min_size if rule == "strict" else 0
    donors = _donors(sizes, min_size, rule)
    supply = sum(size - spare for size, gives in zip(sizes, donors, strict=True) if gives)
    if supply < len(_needs(sizes, min_size)):
        raise ValueError(
            f"the donors of the instance must hold enough clients to fill every cluster to"
            f" {min_size} (rule {rule!r})"
        )


def rebalanced_partitions(instance: Instance, *, rule: str = "strict") -> Distribution:
    """Every final assignment of the clients, with its probability.

    Small clusters (below B) are filled to B one client at a time, each drawn uniformly from the
    donors that have not been moved. Donor clusters are

    * "strict": those above B at that moment (so nothing falls below B);
    * "literal" (Algorithm 2): those with at least B members at the start, without limit;
    * "surplus" (Section 3.2): those with more than B members at the start, without limit.
    """
    check_choice(rule, "rule", RULES)
    assignment, b = instance.assignment, instance.min_size
    sizes = bincount(assignment, minlength=instance.n_clusters).tolist()
    _check_feasible(sizes, b, rule)
    open_at_start = _donors(sizes, b, rule)
    n_donors = sum(size for size, gives in zip(sizes, open_at_start, strict=True) if gives)
    moves = len(_needs(sizes, b))
    if math.perm(n_donors, min(moves, 60)) > MOST_PARTITIONS:
        raise ValueError(f"instance must be smaller: {moves} of {n_donors} clients move, too many")
    outcomes: Distribution = {assignment: Fraction(1)}
    for target in _needs(sizes, b):
        grown: Distribution = {}
        for current, probability in outcomes.items():
            now = Counter(current)
            donors = [
                i
                for i, j in enumerate(current)
                if j == assignment[i] and open_at_start[j] and (rule != "strict" or now[j] > b)
            ]
            for i in donors:
                moved = current[:i] + (target,) + current[i + 1 :]
                grown[moved] = grown.get(moved, Fraction(0)) + probability / len(donors)
        outcomes = grown
    return outcomes


def rebalanced_sums(instance: Instance, *, rule: str = "strict") -> Distribution:
    """The exact distribution of the k-tuple of cluster sums (units of C) after rebalancing.

    With all updates equal to 1 these are the final cluster sizes. Rules: `rebalanced_partitions`.
    """
    check_choice(rule, "rule", RULES)
    kinds = Counter(zip(instance.assignment, instance.updates, strict=True))
    k = range(instance.n_clusters)
    counts = tuple(tuple(kinds[j, value] for value in (-1, 0, 1)) for j in k)
    return dict(_sums_of_counts(counts, instance.min_size, rule))


@lru_cache(maxsize=200_000)
def _sums_of_counts(counts: _Counts, min_size: int, rule: str) -> tuple[tuple[Sums, Fraction], ...]:
    """`rebalanced_sums` of `counts[j][v]` clients with update v - 1 in cluster j."""
    k = len(counts)
    sizes = [sum(row) for row in counts]
    _check_feasible(sizes, min_size, rule)
    open_at_start = _donors(sizes, min_size, rule)
    start = tuple(row[2] - row[0] for row in counts)
    # how many of each kind have not been moved, and the sums so far
    states: dict[tuple[_Counts, Sums], Fraction] = {(counts, start): Fraction(1)}
    for target in _needs(sizes, min_size):
        grown: dict[tuple[_Counts, Sums], Fraction] = {}
        for (left, sums), probability in states.items():
            may_give = [
                open_at_start[j] and (rule != "strict" or sum(left[j]) > min_size) for j in range(k)
            ]
            total = sum(sum(left[j]) for j in range(k) if may_give[j])
            for j, v in itertools.product(range(k), range(3)):
                if not may_give[j] or left[j][v] == 0:
                    continue
                row = left[j][:v] + (left[j][v] - 1,) + left[j][v + 1 :]
                moved = list(sums)
                moved[j] -= v - 1
                moved[target] += v - 1
                key = (left[:j] + (row,) + left[j + 1 :], tuple(moved))
                share = probability * Fraction(left[j][v], total)
                grown[key] = grown.get(key, Fraction(0)) + share
        states = grown
    return tuple(_merged((probability, sums) for (_, sums), probability in states.items()).items())


# --- distances between two distributions ----------------------------------------------------------


def w_infinity(first: Distribution, second: Distribution) -> float:
    """The W-infinity distance (L2) of two finite distributions over tuples of integers, exactly.

    The best coupling is found by bisecting over the possible distances; each is tested by maximum
    flow in whole numbers, so that the common denominator must be below 2^31.
    """
    for name, distribution in (("first", first), ("second", second)):
        if sum(distribution.values()) != 1:
            raise ValueError(f"{name} must be a probability distribution")
    a = np.array(list(first), dtype=np.int64)
    b = np.array(list(second), dtype=np.int64)
    squared = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    radii = np.unique(squared)
    radii = radii[radii >= max(squared.min(axis=1).max(), squared.min(axis=0).max())]
    if len(radii) == 1:
        return math.sqrt(radii[0])
    scale = math.lcm(*(p.denominator for p in (*first.values(), *second.values())))
    if scale >= 2**31:
        raise ValueError("first and second need a common denominator below 2^31")
    supply = [int(p * scale) for p in first.values()]
    demand = [int(p * scale) for p in second.values()]
    low, high = 0, len(radii) - 1
    while low < high:
        middle = (low + high) // 2
        if _can_couple(squared <= radii[middle], supply, demand, scale):
            high = middle
        else:
            low = middle + 1
    return math.sqrt(radii[low])


def _can_couple(near: Any, supply: Sequence[int], demand: Sequence[int], total: int) -> bool:
    """Whether all mass can be sent along the pairs marked in `near`."""
    n, m = near.shape
    rows, columns = np.nonzero(near)
    source, sink = n + m, n + m + 1
    tail = np.concatenate([np.full(n, source), rows, n + np.arange(m)])
    head = np.concatenate([np.arange(n), n + columns, np.full(m, sink)])
    capacity = np.concatenate([supply, np.full(len(rows), total), demand]).astype(np.int32)
    graph = csr_array((capacity, (tail, head)), shape=(n + m + 2, n + m + 2))
    return bool(maximum_flow(graph, source, sink).flow_value == total)


def mean_sums(distribution: Distribution) -> tuple[Fraction, ...]:
    """The expected sum of each cluster."""
    weights = list(distribution.values())
    return tuple(
        sum((w * value for w, value in zip(weights, values, strict=True)), Fraction(0))
        for values in zip(*distribution, strict=True)
    )


def mean_shift(first: Distribution, second: Distribution) -> float:
    """The L2 distance of the two means: at most `w_infinity`, and cheap."""
    pairs = zip(mean_sums(first), mean_sums(second), strict=True)
    return math.sqrt(sum((x - y) ** 2 for x, y in pairs))


def donor_flip(b: int) -> float:
    """How far the means of the sums move, by the literal rule, if client 0 of `flip_of` leaves."""
    full = flip_of(b)
    worlds = [rebalanced_sums(x, rule="literal") for x in (full, full.without(0))]
    return mean_shift(*worlds)


def removal_shift(instance: Instance, client: int = 0, *, rule: str = "strict") -> float:
    """W-infinity distance (units of C) between the sums with and without one client (add/remove).

    The partition is internal: only the sums are released. Both client sets must hold k B clients.
    """
    other = instance.without(client)
    return w_infinity(rebalanced_sums(instance, rule=rule), rebalanced_sums(other, rule=rule))


def released_shift(
    instance: Instance, client: int, update: int, *, cluster: int | None = None,
    rule: str = "strict",
) -> tuple[float, int]:  # fmt: skip
    """The change of the sums when one client is replaced and the noisy identifiers are *released*.

    Both worlds are played out separately: the released identifiers are those of `instance` in both
    (they are what is conditioned on), the exact one of the new client is `cluster` (it reaches
    nothing but the noise), and each world enumerates its own coins. Where the same coins give the
    same partition, the answer is the largest joint change of the sums over all partitions and the
    largest number of sums that change: |u - u'| <= 2 and 1, whatever the rule, so that noise for 2C
    is right and rebalancing costs nothing extra. Where they do not, only a coupling bounds the
    change: the W-infinity distance, and all sums.
    """
    world = released_world(instance, rule=rule)
    other = released_world(instance, replaced=(client, cluster, update), rule=rule)
    if {p: w for p, (w, _) in world.items()} != {p: w for p, (w, _) in other.items()}:
        return w_infinity(_merged(world.values()), _merged(other.values())), instance.n_clusters
    changes = [
        np.subtract(after, before)
        for (_, before), (_, after) in zip(
            world.values(), (other[p] for p in world), strict=True
        )
    ]  # fmt: skip
    return (
        max(float(np.linalg.norm(change)) for change in changes),
        max(int(np.count_nonzero(change)) for change in changes),
    )


def released_world(
    instance: Instance, *, replaced: tuple[int, int | None, int] | None = None,
    rule: str = "strict", identifiers: str = "released",
) -> dict[tuple[int, ...], tuple[Fraction, Sums]]:  # fmt: skip
    """One world given its released identifiers: partition -> (probability, sums of the clusters).

    `instance` has the *released* identifiers as its assignment. `replaced` is (client, exact
    cluster, update): the client that is exchanged, its new update and, if not None, its new exact
    identifier. `identifiers` is what the server rebalances; "exact" is the mistake that this module
    must be able to see.
    """
    check_choice(identifiers, "identifiers", ("released", "exact"))
    exact, updates = list(instance.assignment), list(instance.updates)
    if replaced is not None:
        client, cluster, update = replaced
        updates[client] = update
        exact[client] = exact[client] if cluster is None else cluster
    seen = instance.assignment if identifiers == "released" else tuple(exact)
    played = Instance(seen, tuple(updates), instance.n_clusters, instance.min_size)
    out = {}
    for partition, probability in rebalanced_partitions(played, rule=rule).items():
        sums = bincount(partition, weights=played.updates, minlength=played.n_clusters)
        out[partition] = probability, tuple(int(x) for x in sums)
    return out


def _merged(parts: Iterable[tuple[Fraction, Sums]]) -> Distribution:
    """Probabilities of equal sums added up."""
    out: Distribution = {}
    for probability, sums in parts:
        out[sums] = out.get(sums, Fraction(0)) + probability
    return out
