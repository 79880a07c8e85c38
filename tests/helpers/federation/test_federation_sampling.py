"""Labels, cohorts drawn by the federation, and what clients keep for themselves.

Statistical tests use fixed seeds and state the probability of a false alarm.
"""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from conftest import refuses
from scipy import stats

from fedclust_helpers._index import bincount
from fedclust_helpers.accounting import (
    PrivacyLedger,
    Sampling,
)
from fedclust_helpers.client_statistics import Change, ClientMemory, ClientStatistic
from fedclust_helpers.federation import ClientData, Randomness, TrustModelError, simulate
from fedclust_helpers.mechanisms import Gaussian, NoNoise

M, N, D = 30, 4, 3
SUMS = ("trusted", "ideal")  # a masked sum would tell the clients who takes part


def client_data(seed=0):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (M * N, D))
    return ClientData(points, np.arange(M + 1) * N, rng.integers(0, 5, M * N))


def unequal(seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, M)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return ClientData(
        rng.uniform(-1, 1, (offsets[-1], D)), offsets, rng.integers(0, 5, offsets[-1])
    )


def own_mean(seen=None, *, reads=("labels", "memory")):
    """A client statistic: the mean row; notes who was asked, and counts its visits in memory."""

    def compute(points, offsets, *, scale=1.0, labels=None, memory=None):
        sums = np.add.reduceat(points, offsets[:-1], axis=0)
        if memory is not None:
            kept = memory.get("visits")
            visits = np.zeros(len(sums), dtype=np.int64) if kept is None else kept
            memory.put("visits", visits + 1)
        if seen is not None:
            seen.append((points.copy(), None if labels is None else labels.copy()))
        return (scale * sums / np.diff(offsets)[:, None],)

    return ClientStatistic(
        name="own_mean",
        parts=("mean",),
        compute=compute,
        changes=lambda **_: {"mean": Change(3.0, 2.0, 1.0)},
        unit="client",
        reads=reads,
    )


def federation(data, trust, *, seed=1, adjacency="add/remove", **options):
    ledger = PrivacyLedger(unit="client", adjacency=adjacency, **options)
    return simulate(data, trust, seed=seed, ledger=ledger)


POISSON = Sampling("poisson", rate=0.3)
FIXED = Sampling("fixed", size=7, population=M)
NOISE = {"add/remove": Gaussian(2.5, 3.0), "replace-one": Gaussian(4.5, 3.0, "replace-one")}


# --- labels and chosen clients --------------------------------------------------------------------


@pytest.mark.parametrize("make", [client_data, unequal])
def test_take_is_the_data_of_the_chosen_clients(make):
    data = make()
    chosen = np.array([17, 3, 29, 0])
    part = data.take(chosen)
    assert part.n_clients == 4 and part.labels is not None and data.labels is not None
    for i, c in enumerate(chosen):
        assert np.array_equal(part.client(i), data.client(c))
        rows = slice(data.offsets[c], data.offsets[c + 1])
        assert np.array_equal(part.labels[part.offsets[i] : part.offsets[i + 1]], data.labels[rows])
    with pytest.raises(ValueError):
        part.points[0, 0] = 0.0
    # what was made without a check would pass it
    assert np.array_equal(ClientData(part.points, part.offsets, part.labels).points, part.points)


@pytest.mark.parametrize(
    ("labels", "match"),
    [(np.zeros(3, int), "4 integers"), (np.zeros(4), "an array of integers"),
     (np.array([0, 1, -1, 2]), ">= 0"), (np.zeros((4, 1), int), "4 integers")],
)  # fmt: skip
def test_labels_are_checked(labels, match):
    with pytest.raises((TypeError, ValueError), match=f"^labels must be {match}"):
        ClientData(np.zeros((4, 2)), np.array([0, 1, 4]), labels)


def test_labels_are_kept_and_read_only():
    data = ClientData(np.full((4, 2), 3.0), np.array([0, 1, 4]), np.array([1, 0, 2, 1], np.int32))
    for bound, domain in ((1.0, "box"), (1.0, "ball"), (5.0, "box")):
        clipped, _ = data.clipped(bound, domain=domain)
        assert np.array_equal(clipped.labels, [1, 0, 2, 1]) and clipped.labels.dtype == np.int64
    with pytest.raises(ValueError):
        data.labels[0] = 5
    # the number of classes is public and given; the labels themselves are not asked
    assert federation(data, "ideal").facts.n_labels is None
    assert simulate(data, "ideal", seed=1, n_labels=7).facts.n_labels == 7


def test_labels_by_client_and_by_owner():
    rows = [np.array([[1.0], [2.0]]), np.array([[3.0]])]
    data = ClientData.from_clients(rows, [[4, 5], [6]])
    assert np.array_equal(data.labels, [4, 5, 6])
    by_owner = ClientData.from_owners([[3.0], [1.0], [2.0]], [1, 0, 0], [6, 4, 5])
    assert np.array_equal(by_owner.points, data.points)
    assert np.array_equal(by_owner.labels, data.labels)
    refuses(ValueError, "one array for each client", ClientData.from_clients, rows, [[4], [6]])


# --- sampled releases -----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", SUMS)
def test_a_client_that_was_drawn_alone_and_fails_is_not_told_apart(trust):
    good = own_mean()

    def compute(points, offsets, **given):
        if points.any():
            raise TypeError
        return good.compute(points, offsets, **given)

    for size, told in ((1, nullcontext()), (2, pytest.raises(RuntimeError, match="every client"))):
        f = federation(client_data(), trust, adjacency="replace-one")
        drawn = Sampling("fixed", size=size, population=M)
        with told:
            f.noisy_sum(replace(good, compute=compute), [NoNoise("replace-one")], round=0,
                        sampling=drawn)  # fmt: skip


@pytest.mark.parametrize("trust", SUMS)
def test_the_statistic_reads_the_cohort_only(trust):
    data, seen = client_data(), []
    f = federation(data, trust, adjacency="replace-one")
    total = f.noisy_sum(own_mean(seen), [NoNoise("replace-one")], round=0, sampling=FIXED)[0]
    points, labels = seen[-1]
    assert len(points) == 7 * N and len(labels) == 7 * N
    cohort = np.sort(
        np.random.default_rng(np.random.SeedSequence(1).spawn(5)[4]).choice(M, 7, replace=False)
    )
    assert np.array_equal(points, data.take(cohort).points)
    assert np.array_equal(labels, data.take(cohort).labels)
    assert np.allclose(total, points.reshape(7, N, D).mean(axis=1).sum(axis=0), atol=1e-7)
    if trust == "ideal":
        return  # its record is the released value alone
    sent = [m for m in f.transcript.messages if m.name == "mean" and m.receiver == "server"]
    assert [m.count for m in sent] == [7]


@pytest.mark.parametrize("trust", SUMS)
def test_the_record_does_not_tell_how_many_of_a_hidden_cohort_took_part(trust):
    tables, sizes = [], set()
    for seed in range(12):  # four clients who come with probability 1/2: some cohorts are empty
        seen: list[Any] = []
        f = federation(client_data().take(np.arange(4)), trust, seed=seed)
        half = Sampling("poisson", rate=0.5)
        f.noisy_sum(own_mean(seen), [NOISE["add/remove"]], round=0, sampling=half, scale=1.0)
        sizes.add(len(seen[1][0]) // N if len(seen) > 1 else 0)
        tables.append(f.transcript.to_frame().astype(str))
    assert sizes >= {0, 1, 2, 3} and all(table.equals(tables[0]) for table in tables)
    assert set(tables[0]["count"]) == ({"2"} if trust == "trusted" else {"1", "2"})


def test_statistics_that_read_nothing_else_get_nothing_else():
    f = federation(client_data(), "ideal")
    f.noisy_sum(own_mean(reads=()), [NOISE["add/remove"]], round=0, sampling=POISSON)
    assert f.client_memory.get("visits") is None


def test_collect_gives_the_messages_of_the_cohort():
    data = client_data()
    f = federation(data, "trusted", adjacency="replace-one")
    (messages,) = f.collect(own_mean(), [NOISE["replace-one"]], round=0, sampling=FIXED)
    assert messages.shape == (7, D)
    means = data.points.reshape(M, N, D).mean(axis=1)
    assert all((np.abs(means - row).max(axis=1) < 1e-12).any() for row in messages)
    assert f.ledger.releases[0].sampling == FIXED
    with pytest.raises(TrustModelError):
        federation(data, "ideal", adjacency="replace-one").collect(
            own_mean(), [NOISE["replace-one"]], round=0, sampling=FIXED
        )


def test_poisson_cohorts_have_binomial_sizes_and_fixed_ones_their_size():
    # chi-square against Binomial(30, 0.3) and against equal chances; false alarm 1e-4 each
    f = federation(client_data(), "ideal")
    cohorts = [f.randomness.cohort(POISSON, M) for _ in range(4000)]
    sizes = np.bincount([len(c) for c in cohorts], minlength=M + 1)
    expected = 4000 * stats.binom.pmf(np.arange(M + 1), M, 0.3)
    common = expected > 10
    observed = np.append(sizes[common], sizes[~common].sum())
    assert (
        stats.chisquare(observed, np.append(expected[common], expected[~common].sum())).pvalue
        > 1e-4
    )
    fixed = [f.randomness.cohort(FIXED, M) for _ in range(4000)]
    assert all(len(np.unique(c)) == 7 for c in fixed)
    taken = bincount(np.concatenate(fixed), minlength=M)
    # sampling without replacement: variance of a count is n q (1 - q), and they sum to a constant
    statistic = ((taken - 4000 * 7 / M) ** 2).sum() / (4000 * (7 / M) * (1 - 7 / M) * M / (M - 1))
    assert stats.chi2.sf(statistic, M - 1) > 1e-4


# secure mode has no seed: all the checks below together fail by chance with probability < 1e-6
CHANCE = 1e-9


def within(count, n, p):
    """Whether a count is one of n draws with probability p."""
    return min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)) > CHANCE / 2


def equally_likely(counts):
    return stats.chisquare(counts).pvalue > CHANCE


def test_secure_uniforms_are_uniform_in_every_bit_and_fresh():
    drawn = [Randomness.secure().uniforms(4096) for _ in range(32)]
    u = np.concatenate(drawn)
    words = u * 2.0**53
    assert (words == np.floor(words)).all() and 0 <= u.min() and u.max() < 1
    assert equally_likely(np.bincount((u * 64).astype(int), minlength=64))
    bits = (words.astype(np.uint64)[:, None] >> np.arange(53, dtype=np.uint64)) & np.uint64(1)
    assert all(within(ones, len(u), 0.5) for ones in bits.sum(axis=0))
    # one draw and the next: 8 x 8 cells of pairs
    pairs = 8 * (np.concatenate(drawn[:-1]) * 8).astype(int)
    pairs += (np.concatenate(drawn[1:]) * 8).astype(int)
    assert equally_likely(np.bincount(pairs, minlength=64))


def test_secure_subsets_and_orders_are_all_as_likely():
    source = Randomness.secure()
    subsets = [tuple(source.subset(5, 2)) for _ in range(4000)]
    assert all(0 <= a < b < 5 for a, b in subsets)
    assert equally_likely([subsets.count((a, b)) for a in range(5) for b in range(a + 1, 5)])
    orders = [tuple(source.order(4)) for _ in range(4800)]
    assert equally_likely([orders.count(o) for o in permutations(range(4))])
    again = sum(a == b for a, b in pairwise(subsets))
    assert within(again, len(subsets) - 1, 1 / 10)
    assert len(source.subset(9, 0)) == 0 and list(source.subset(9, 9)) == list(range(9))


def test_the_ledger_is_charged_with_the_sampling():
    for sampling, adjacency in ((POISSON, "add/remove"), (FIXED, "replace-one")):
        f = federation(client_data(), "ideal", adjacency=adjacency)
        f.noisy_sum(own_mean(), [NOISE[adjacency]], round=3, sampling=sampling)
        (line,) = f.ledger.releases
        assert line.sampling == sampling and line.round == 3
        alone = PrivacyLedger(unit="client", adjacency=adjacency)
        alone.charge([NOISE[adjacency]], name="own_mean", round=3)
        assert f.ledger.epsilon(1e-3) < alone.epsilon(1e-3)


@pytest.mark.parametrize("trust", SUMS)
def test_an_empty_cohort_releases_pure_noise(trust):
    nobody = Sampling("poisson", rate=1e-12)
    f = federation(client_data(), trust)
    (released,) = f.noisy_sum(own_mean(), [NOISE["add/remove"]], round=0, sampling=nobody)
    noise = np.random.default_rng(np.random.SeedSequence(1).spawn(4)[1]).normal(0.0, 3.0, D)
    assert np.allclose(released, noise, atol=2.0**-30, rtol=0)
    assert len(f.ledger.releases) == 1
    if trust == "trusted":
        (messages,) = f.collect(own_mean(), [NOISE["add/remove"]], round=1, sampling=nobody)
        assert messages.shape == (0, D)


# --- what clients keep ----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", SUMS)
def test_memory_is_of_the_client_and_of_the_cohort_only(trust):
    f = federation(client_data(), trust, adjacency="replace-one")
    for t in range(20):
        f.noisy_sum(own_mean(), [NOISE["replace-one"]], round=t, sampling=FIXED)
    visits = f.client_memory.get("visits")
    cohorts = np.random.default_rng(np.random.SeedSequence(1).spawn(5)[4])
    drawn = np.concatenate([cohorts.choice(M, 7, replace=False) for _ in range(20)])
    assert np.array_equal(visits, bincount(drawn, minlength=M))
    assert not [m for m in f.transcript.messages if "visits" in m.name]


def test_memory_reads_and_writes_rows():
    memory = ClientMemory(5)
    assert memory.get("a") is None
    some = memory.of(np.array([3, 1]))
    some.put("a", np.array([[3.0, 3.0], [1.0, 1.0]]))
    assert np.array_equal(memory.get("a")[:, 0], [0, 1, 0, 3, 0])
    assert np.array_equal(some.get("a")[:, 0], [3, 1])
    some.put("a", np.array([[7.0, 7.0]]), where=np.array([False, True]))
    assert np.array_equal(memory.get("a")[:, 0], [0, 7, 0, 3, 0])
    copy = some.get("a")
    copy[:] = -1
    assert memory.get("a").min() == 0
    memory.forget("a", "never written")
    assert some.get("a") is None


def test_a_dry_run_writes_nothing_into_memory():
    f = federation(client_data(), "ideal")
    f.check_release(own_mean(), [NOISE["add/remove"]], sampling=POISSON)
    assert f.client_memory.get("visits") is None


def test_names_are_no_messages():
    f = federation(client_data(), "trusted")

    def compute(points, offsets, *, form, scale):
        assert form == "a name"
        return (scale * np.ones((len(offsets) - 1, 1)),)

    statistic = ClientStatistic(
        "named", ("one",), compute, lambda **_: {"one": Change(1.0, 1.0, 1.0)}, unit="client",
    )  # fmt: skip
    f.noisy_sum(statistic, [Gaussian(1.0, 1.0)], round=0, form="a name", scale=1.0)
    assert [m.name for m in f.transcript.view("clients")] == ["scale"]
