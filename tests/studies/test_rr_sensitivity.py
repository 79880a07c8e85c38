"""How far one client moves the sums: enumeration, counter-examples by hand, search, sums only."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from conftest import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from fedclust_helpers.client_statistics.models import blocks_sensitivity
from fedclust_helpers.rr_cluster import rebalance
from studies.rr_cluster.sensitivity import (
    RULES,
    Instance,
    rebalanced_partitions,
    rebalanced_sums,
    released_shift,
    released_world,
    w_infinity,
)

pytestmark = pytest.mark.slow


every_rule = pytest.mark.parametrize("rule", RULES)
CROSS = [[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]


@st.composite
def instances(draw, max_clients=7):
    k = draw(st.integers(2, 3))
    n = draw(st.integers(k, max_clients))
    assignment = tuple(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    updates = tuple(draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n)))
    return Instance(assignment, updates, k, draw(st.integers(0, n // k)))


# --- enumeration ----------------------------------------------------------------------------------


def brute_force(instance, rule):
    """Draws in every order, as plain nested loops over clients."""
    b, start = instance.min_size, instance.assignment
    sizes = Counter(start)
    receivers = [j for j in range(instance.n_clusters) for _ in range(b - sizes[j])]
    large = {j for j in sizes if sizes[j] >= b + (rule == "surplus")}
    order_of = [i for i, j in enumerate(start) if j in large]
    outcome = Counter()
    for order in itertools.permutations(order_of):
        now, left, final = Counter(start), list(receivers), list(start)
        for i in order:
            if left and (rule != "strict" or now[start[i]] > b):
                now[start[i]] -= 1
                final[i] = left.pop(0)
        outcome[tuple(final)] += 1
    total = sum(outcome.values())
    return {final: Fraction(times, total) for final, times in outcome.items()}


@every_rule
@pytest.mark.parametrize(
    "instance",
    [
        Instance((0, 0, 0, 0, 1, 1), (1, 1, 1, -1, 1, 1), 3, 1),
        Instance((0, 0, 0, 0, 0, 1), (1, 0, 1, -1, 1, -1), 2, 3),
        Instance((0, 0, 0, 1, 1, 1, 2), (1, 1, 1, -1, 1, 1, 1), 3, 2),
        Instance((0, 1, 0, 1), (1, 1, 1, 1), 2, 2),
    ],
)
def test_partitions_against_all_permutations(instance, rule):
    assert rebalanced_partitions(instance, rule=rule) == brute_force(instance, rule)


@settings(deadline=None, max_examples=60)
@given(instances(), st.sampled_from(RULES))
def test_sums_are_those_of_the_partitions(instance, rule):
    try:
        partitions = rebalanced_partitions(instance, rule=rule)
    except ValueError:
        refuses(ValueError, "donors", rebalanced_sums, instance, rule=rule)
        return
    sums = Counter()
    for partition, probability in partitions.items():
        totals = np.bincount(partition, instance.updates, minlength=instance.n_clusters)
        sums[tuple(totals.astype(int).tolist())] += probability
    assert rebalanced_sums(instance, rule=rule) == dict(sums)
    assert sum(sums.values()) == 1


@settings(deadline=None, max_examples=60)
@given(instances())
def test_the_strict_rule_keeps_every_cluster_at_b_and_moves_each_client_once(instance):
    b, k = instance.min_size, instance.n_clusters
    before = np.bincount(instance.assignment, minlength=k)
    for partition in rebalanced_partitions(instance):
        sizes = np.bincount(partition, minlength=k)
        assert sizes.min() >= b and sizes.sum() == len(partition)
        moved = np.array(partition) != np.array(instance.assignment)
        assert moved.sum() == np.maximum(b - before, 0).sum()
        if (before >= b).all():
            assert partition == instance.assignment


@pytest.mark.parametrize("rule", ["strict", "literal"])
def test_the_sampler_of_the_algorithm_has_the_enumerated_distribution(rule):
    """Chi-square test at a false-alarm rate of 1e-6."""
    instance = Instance((0, 0, 0, 1, 1, 1, 1, 2), (1,) * 8, 3, 2)
    expected = rebalanced_partitions(instance, rule=rule)
    rng, n = np.random.default_rng(3), 20_000
    start = np.array(instance.assignment)
    drawn = Counter(tuple(rebalance(start, 3, 2, rule=rule, rng=rng).tolist()) for _ in range(n))
    assert set(drawn) <= set(expected)
    statistic = sum((drawn[o] - n * float(p)) ** 2 / (n * float(p)) for o, p in expected.items())
    assert statistic < chi2.isf(1e-6, len(expected) - 1)


# --- distances ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(-4, 4), min_size=4, max_size=4),
    st.lists(st.integers(-4, 4), min_size=4, max_size=4),
)
def test_w_infinity_in_one_dimension_is_the_largest_gap_of_sorted_values(x, y):
    def uniform(values):
        counts = Counter((v,) for v in values)
        return {v: Fraction(c, len(values)) for v, c in counts.items()}

    gap = max(abs(a - b) for a, b in zip(sorted(x), sorted(y), strict=True))
    assert w_infinity(uniform(x), uniform(y)) == gap


# --- replace-one ----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    instances(), st.integers(0, 6), st.integers(-1, 1), st.integers(0, 1), st.sampled_from(RULES)
)
def test_released_identifiers_repair_it(instance, client, update, cluster, rule):
    """Given the identifiers, exactly one sum moves, by |u - u'| <= 2C, under every rule.

    Two worlds, each with its own coins; the new client also has another exact identifier.
    """
    client %= len(instance.assignment)
    try:
        joint, entries = released_shift(instance, client, update, cluster=cluster, rule=rule)
    except ValueError:
        return  # the donors cannot fill every cluster
    assert joint == abs(update - instance.updates[client]) <= 2
    assert entries == (update != instance.updates[client])


def test_a_server_that_rebalances_exact_identifiers_is_seen():
    """The replay can fail: with the mistake, the two worlds have other partitions."""
    three = Instance((0, 0, 0, 1, 1), (1, 1, 1, -1, -1), 2, 2)
    change = (3, 0, -1)  # client 3 is replaced: its exact identifier was 1, now 0
    right = [released_world(three), released_world(three, replaced=change)]
    wrong = [
        released_world(three, identifiers="exact"),
        released_world(three, replaced=change, identifiers="exact"),
    ]
    assert right[0].keys() == right[1].keys()
    assert wrong[0].keys() != wrong[1].keys()
    shifts = [
        max(
            math.dist(a, b)
            for (_, a), (_, b) in itertools.product(first.values(), second.values())
        )
        for first, second in (right, wrong)
    ]  # fmt: skip
    assert shifts[0] == 0 and shifts[1] == math.sqrt(8)  # same update, and yet more than 2C
    assert released_shift(three, 3, 1, cluster=0) == (2.0, 1)


# --- sums only ------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """Every pair (squared change of the sums, squared change of the counts), and how often."""

    pairs: set[tuple[float, float]]
    n_compared: int


def block_sums(blocks, updates, n_clusters):
    """Sums (..., k, d) of `updates` (..., n, d) by `blocks` (..., n): the release without noise."""
    one_hot = (blocks[..., None] == np.arange(n_clusters)).astype(np.float64)
    return np.einsum("...nk,...nd->...kd", one_hot, updates)


def check_sums_only(k, n, updates, *, adjacency):
    """All (k m)^n data sets of n clients with `updates` (m, d), norms at most 1 (units of C).

    The last client is left out (add/remove), or exchanged for every other block and update.
    """
    values = np.asarray(updates, dtype=np.float64)
    n_states = k * len(values)
    states = np.array(list(itertools.product(range(n_states), repeat=n)))
    blocks, counted = states // len(values), np.column_stack([values, np.ones(len(values))])
    rows = counted[states % len(values)]
    whole = block_sums(blocks, rows, k)  # the last column are the counts
    if adjacency == "add/remove":
        changes = [whole - block_sums(blocks[:, :-1], rows[:, :-1], k)]
    else:
        # the last client runs fastest, so its exchange is a shift within groups of n_states
        grouped = whole.reshape(-1, n_states, *whole.shape[1:])
        changes = [grouped - np.roll(grouped, s, axis=1) for s in range(n_states)]
    pairs, compared = set(), 0
    for change in changes:
        squares = (change**2).sum(axis=-2).reshape(-1, counted.shape[1])
        both = np.stack([squares[:, :-1].sum(axis=1), squares[:, -1]], axis=1).round(12)
        pairs.update(map(tuple, np.unique(both, axis=0).tolist()))
        compared += len(both)
    return Compared(pairs, compared)


@pytest.mark.parametrize(("k", "n"), [(2, 4), (3, 3), (4, 3)])
def test_sums_only_under_add_remove(k, n):
    found = check_sums_only(k, n, CROSS, adjacency="add/remove")
    assert found.pairs == {(0.0, 1.0), (1.0, 1.0)}  # a client with update 0 moves its count only
    assert found.n_compared == (5 * k) ** n


@pytest.mark.parametrize(("k", "n"), [(2, 3), (3, 2)])
def test_sums_only_under_replace_one(k, n):
    found = check_sums_only(k, n, CROSS, adjacency="replace-one")
    assert {p for p in found.pairs if p[0] == 4} == {(4.0, 0.0)}
    assert max(s for s, c in found.pairs if c > 0) == 2 and {c for _, c in found.pairs} == {0, 2}
    # the sensitivity of the package, counts weighted so that one noise serves both, is attained
    for sigma_1, sigma_2 in itertools.product((0.5, 1.0, 3.0), repeat=2):
        weight = sigma_1 / sigma_2
        claimed = blocks_sensitivity("replace-one", clip=1.0, count_weight=weight)
        worst = max(s + c * weight**2 for s, c in found.pairs)
        assert worst == pytest.approx(claimed**2, rel=1e-12)
