"""Frequency oracles: a slow per-user reference, unbiased sums, noise that hides enough."""

import itertools
import math

import numpy as np
import pytest
from conftest import generator, refuses
from scipy.linalg import hadamard

from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import (
    NoNoise,
)
from studies.ldp_kmeans.bitstogram import Bitstogram

DELTA = 1e-6


def keys_of(points, channels=None):
    """Column 0 holds the key."""
    return fo.Question(points[:, 0].astype(np.uint64))


def signed_keys_of(points, channels):
    """Column 0 holds the key, a negative column 1 makes the count negative."""
    return fo.Question(points[:, 0].astype(np.uint64), points[:, 1] < 0)


def column(values):
    return np.asarray(values, dtype=float)[:, None]


# --- the transform --------------------------------------------------------------------------------


@pytest.mark.parametrize("log_size", [0, 1, 4, 10])
def test_walsh_hadamard_is_the_matrix_of_scipy(log_size):
    size = 2**log_size
    values = generator(log_size).normal(size=(size, 3, 2))
    values.flags.writeable = False
    expected = np.einsum("rt,tij->rij", hadamard(size), values)
    assert fo.walsh_hadamard(values) == pytest.approx(expected, abs=1e-10 * size)
    whole = generator(log_size).integers(-50, 50, size)
    assert np.array_equal(fo.walsh_hadamard(whole), hadamard(size) @ whole)  # integers are exact


# --- the hash -------------------------------------------------------------------------------------

PAIRS = [  # keys that a weak hash would confuse
    (0, 1),
    (0, 2**63),
    (1, 2**32),
    (2**32, 2**33),
    (0xFFFFFFFF, 0xFFFFFFFF00000000),
    (2**64 - 1, 2**64 - 2),
    (0x5555555555555555, 0xAAAAAAAAAAAAAAAA),
    (123456789, 123456789 + 2**40),
]


@pytest.mark.parametrize("n_buckets", [2, 4, 2**10])
def test_the_hash_is_pairwise_independent(n_buckets):
    """Over the draw of the hash: both buckets of a pair are jointly uniform, for every pair."""
    n = 8000
    rng = generator(n_buckets)
    keys = np.array(PAIRS, dtype=np.uint64)
    buckets = np.array([fo.BucketHash(n_buckets, rng=rng)(keys) for _ in range(n)]).astype(int)
    assert buckets.min() >= 0 and buckets.max() < n_buckets
    same = (buckets[..., 0] == buckets[..., 1]).mean(axis=0)
    p = 1 / n_buckets
    # one-sided score of a rate: 8 pairs, false alarm 8 * 3.4e-6 (Poisson tail for 2^10 buckets)
    assert (np.abs(same - p) <= 4.5 * math.sqrt(p * (1 - p) / n) + 4 / n).all()
    # the two top bits of both buckets: 16 cells (4 for two buckets), chi-square
    shift = max(0, n_buckets.bit_length() - 3)
    top = buckets >> shift
    side = min(n_buckets, 4)
    limit = {4: 32.0, 16: 55.0}[side * side]  # 3 and 15 degrees of freedom, tail below 2e-6
    for pair in range(len(PAIRS)):
        joint = np.bincount(side * top[:, pair, 0] + top[:, pair, 1], minlength=side * side)
        assert ((joint - n / side**2) ** 2 / (n / side**2)).sum() < limit


# --- an independent slow reference ----------------------------------------------------------------


def slow_one_bit(oracle, keys, negative, words, n_answers, n_channels, edges):
    """The one-bit oracle in plain Python: one user at a time, one bit at a time.

    Uses of the oracle only the public random numbers (seeds and hash coefficients); every rule is
    written out again.
    """
    mask, t = 2**64 - 1, oracle.n_buckets
    a, b, c = (int(x) for x in (oracle._hash._a, oracle._hash._b, oracle._hash._c))

    def coin(seed, user):
        z = (seed + user * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    flip_below = round((1 - oracle.response.keep) * 2**53) * 2**11
    sums = [[0] * t for _ in range(n_channels)]
    answered = [0] * n_channels
    reports = []
    for user, key in enumerate(keys):
        coins = [coin(int(seed), user) for seed in oracle._channels.seeds]
        first = 0
        while first < n_channels - 1 and (coins[0] >> 32) / 2**32 >= edges[first]:
            first += 1
        said = []
        for i in range(n_answers):
            channel = (first + i) % n_channels
            row = coins[i] % t
            bucket = ((((key & 0xFFFFFFFF) * a + (key >> 32) * b + c) & mask) * t) >> 64
            bit = bin(row & bucket).count("1") % 2 == 1
            bit ^= bool(negative[user])
            bit ^= int(words[i][user]) < flip_below
            said.append(bit)
            sums[channel][row] += -1 if bit else 1
            answered[channel] += 1
        reports.append(said)
    keep = oracle.response.keep
    estimates = [
        [
            1 / (keep - (1 - keep))
            * sum(y if bin(r & b).count("1") % 2 == 0 else -y for r, y in enumerate(sums[ch]))
            for b in range(t)
        ]
        for ch in range(n_channels)
    ]  # fmt: skip
    return reports, sums, answered, estimates


@pytest.mark.parametrize(
    ("shares", "n_answers"), [([1.0], 1), ([0.5, 0.3, 0.2], 1), ([1.0, 1.0, 1.0], 2)]
)
def test_the_oracle_equals_a_loop_over_users_bit_for_bit(shares, n_answers):
    n, t = 400, 16
    rng = generator(7)
    keys = rng.integers(2**53, size=n, dtype=np.uint64)  # exact as a float column
    negative = rng.random(n) < 0.3
    points = np.stack([keys.astype(float), np.where(negative, -1.0, 1.0)], axis=1)
    oracle = fo.OneBitCounts(
        signed_keys_of, 1.5, rng=rng, shares=shares, n_answers=n_answers, n_buckets=t
    )
    users = np.arange(n)
    # each answer is randomised response (exactly private: test_local_randomizers.py) at its share
    assert oracle.mechanisms == (RandomizedResponse(1.5 / n_answers),) * n_answers
    assert oracle.response == oracle.mechanisms[0]
    (bits,) = oracle.respond(points, users, rng=generator(8))
    assert bits.shape == (n, n_answers) and bits.dtype == bool
    oracle.collect(users, (bits,))
    noise = generator(8)
    words = [noise.integers(0, 2**64, size=n, dtype=np.uint64) for _ in range(n_answers)]
    edges = list(itertools.accumulate(s / math.fsum(shares) for s in shares))
    slow = slow_one_bit(
        oracle, [int(k) for k in keys], negative, words, n_answers, len(shares), edges
    )
    reports, sums, answered, estimates = slow
    assert bits.tolist() == reports
    assert oracle._sums.reshape(len(shares), t).tolist() == sums
    assert oracle.n_reports.tolist() == answered and oracle.n_users == n
    assert oracle.spectrum.tolist() == estimates  # sums of integers, then one product: equal
    some = keys[:20]
    for channel in range(len(shares)):
        scale = n / answered[channel]
        expected = [estimates[channel][int(b)] * scale for b in oracle.buckets(some)]
        assert oracle.estimate(some, channel=channel).tolist() == expected
        spread = oracle.response.debias * math.sqrt(answered[channel]) * scale
        assert oracle.std(channel=channel) == pytest.approx(spread, rel=1e-12)


# --- a report is its user's own -------------------------------------------------------------------


def test_a_users_report_depends_on_that_user_alone():
    points = np.abs(generator(11).normal(size=(300, 2))) * 100
    users, some = np.arange(300), np.arange(0, 300, 7)
    for query in (
        fo.OneBitCounts(signed_keys_of, 50.0, rng=generator(1), n_buckets=64),  # no flips
        sums(lambda p, c: (p[:, 0].astype(np.uint64), p), mechanism=NoNoise("replace-one")),
    ):
        (everybody,) = query.respond(points, users, rng=generator(2))
        (few,) = query.respond(points[some], some, rng=generator(3))
        assert np.array_equal(everybody[some], few)


# --- Bitstogram -----------------------------------------------------------------------------------


def values_of(points):
    return points[:, 0].astype(np.uint64)


def bitstogram(epsilon, n_bits, run, **options):
    return Bitstogram(values_of, epsilon, n_bits, rng=generator(run, n_bits), **options)


def test_bitstogram_without_noise_reads_every_bit():
    """At eps = 50 nothing is flipped: all distinct buckets decode to the values planted there."""
    n_bits = 63
    rng = generator(1)
    planted = rng.integers(2**53, size=6, dtype=np.uint64)
    query = bitstogram(50.0, n_bits, 3)
    fo.ask_values(query, column(np.repeat(planted, 30_000)), rng=rng)
    assert len(set(query.buckets(planted).tolist())) == 6
    assert set(planted.tolist()) <= set(query.candidates().tolist())
    heavy, counts = query.heavy_hitters()
    assert set(heavy.tolist()) == set(planted.tolist())
    assert counts == pytest.approx(np.full(6, 30_000), abs=5 * query.std(channel=n_bits))


def test_candidates_are_confirmed_by_the_oracle_channel():
    query = bitstogram(2.0, 12, 5, n_buckets=2**6)
    rng = generator(5)
    values = np.repeat(rng.integers(2**12, size=8), 2 ** np.arange(5, 13))
    fo.ask_values(query, column(values), rng=rng)
    candidates, counts = query.heavy_hitters(n_sd=-math.inf)
    assert sorted(candidates.tolist()) == sorted(query.candidates().tolist())
    assert np.array_equal(counts, query.estimate(candidates, channel=12))
    std = query.std(channel=12)
    left = []
    for z in (-1.0, 1.75, 3.5, 7.0, 1e6):
        heavy, confirmed = query.heavy_hitters(n_sd=z)
        assert heavy.tolist() == candidates[counts > z * std].tolist()
        assert np.array_equal(confirmed, counts[counts > z * std])
        left.append(len(heavy))
    assert left[0] > left[2] > 0 == left[-1]
    assert query.heavy_hitters()[0].tolist() == query.heavy_hitters(n_sd=3.5)[0].tolist()
    # each candidate is the value that its own bucket decodes to
    assert len(set(query.buckets(candidates).tolist())) == len(candidates) <= 2**6


# --- sums of vectors ------------------------------------------------------------------------------


def cells_and_points(points, channels):
    """Key: the orthant of the first two coordinates; vector: the point."""
    return (points[:, 0] > 0) + 2 * (points[:, 1] > 0).astype(np.uint64), points


def in_ball(rng, n, d, radius=1.0):
    points = rng.normal(size=(n, d))
    points *= (radius * rng.random(n) ** (1 / d) / np.linalg.norm(points, axis=1))[:, None]
    return points


def true_sums(points, keys, wanted):
    return np.array([points[keys == k].sum(axis=0) for k in wanted])


def test_heavy_sums_are_unbiased():
    """200 runs on the same points; mean error within 4.5 standard errors, 20 values."""
    n, d, runs = 400, 5, 200
    points = in_ball(generator(6), n, d)
    keys = cells_and_points(points, None)[0]
    wanted = np.arange(4, dtype=np.uint64)
    truth = true_sums(points, keys, wanted)
    report = gaussian_report(1.0, 4.0, DELTA)
    errors = []
    for run in range(runs):
        rng = generator(6, run)
        oracle = HeavySums(cells_and_points, 1.0, d, report, rng=rng, n_buckets=2**10)
        fo.ask_values(oracle, points, rng=rng)
        errors.append(oracle.estimate(wanted) - truth)
    errors = np.array(errors)
    se = errors.std(axis=0) / math.sqrt(runs)
    assert (np.abs(errors.mean(axis=0)) < 4.5 * se).all()
    rms = math.sqrt((errors**2).sum(axis=2).mean())
    assert rms == pytest.approx(oracle.rms_error(n, (points**2).sum(axis=1).mean()), rel=0.1)


def test_without_noise_a_cell_alone_is_summed_exactly():
    points = in_ball(generator(1), 500, 3)
    exact = NoNoise("replace-one")
    oracle = HeavySums(
        lambda p, c: (np.full(len(p), 77, dtype=np.uint64), p), 1.0, 3, exact, rng=generator(2)
    )
    fo.ask_values(oracle, points, rng=generator(3))
    found = oracle.estimate(np.array([77], dtype=np.uint64))[0]
    assert found == pytest.approx(points.sum(axis=0), abs=1e-9)
    assert oracle.mechanisms == (exact,)


def test_long_vectors_are_cut_to_the_radius():
    rng = generator(4)
    points = in_ball(rng, 300, 3, radius=5.0)
    lengths = np.linalg.norm(points, axis=1)
    oracle = HeavySums(cells_and_points, 2.0, 3, NoNoise("replace-one"), rng=rng)
    (signed,) = oracle.respond(points, np.arange(300), rng=rng)
    assert np.linalg.norm(signed, axis=1) == pytest.approx(np.minimum(lengths, 2.0), rel=1e-9)
    assert np.linalg.norm(signed, axis=1).max() <= 2.0  # not above by rounding
    directions = np.abs((signed * points).sum(axis=1)) / lengths
    assert directions == pytest.approx(np.minimum(lengths, 2.0), rel=1e-9)
    signs = np.sign((signed * points).sum(axis=1))
    assert set(signs) == {1.0, -1.0}
    # nothing in, nothing out: no nan for a vector of length 0
    (zero,) = oracle.respond(np.zeros((4, 3)), np.arange(4), rng=rng)
    assert (zero == 0).all()


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_the_sensitivity_of_a_signed_report_is_twice_the_radius(radius):
    """By search over pairs of values of one user: 2 sup ||g|| is reached and never exceeded."""
    rng = generator(10)
    oracle = HeavySums(cells_and_points, radius, 2, NoNoise("replace-one"), rng=rng, n_buckets=4)
    angle = np.linspace(0, 2 * np.pi, 73)
    points = 2 * radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    largest = 0.0
    for user in range(8):
        (signed,) = oracle.respond(points, np.full(len(points), user), rng=rng)
        gaps = np.linalg.norm(signed[:, None] - signed[None], axis=2)
        largest = max(largest, gaps.max())
    assert largest <= 2 * radius
    assert largest == pytest.approx(2 * radius, rel=2e-3)


@pytest.mark.parametrize("grid", [2.0**-6, 0.1])
def test_discrete_reports_are_whole_steps(grid):
    """Integers from the sampler to the wire: no last bits of floats tell value and noise apart.

    (Also where steps are no dyadic fractions: 0.1 * 10 - 0.1 * 7 and 0.1 * 8 - 0.1 * 5 are
    different floats.)
    """
    d = 3
    report = gaussian_report(1.0, 1.0, DELTA, grid=grid, n_features=d)
    oracle = HeavySums(cells_and_points, 1.0, d, report, rng=generator(1))
    points = in_ball(generator(2), 20_000, d)
    (reports,) = oracle.respond(points, np.arange(20_000), rng=generator(3))
    assert reports.dtype == np.int64 and oracle.mechanisms == (report,)
    spread = reports.std() * grid / report.std
    assert spread == pytest.approx(1.0, abs=0.03)  # 60 000 draws: 0.3 % standard error


# --- noise that hides too little ------------------------------------------------------------------


def counts(encode=keys_of):
    return fo.OneBitCounts(encode, 1.0, rng=generator(0), n_buckets=16)


def sums(encode=cells_and_points, radius=1.0, n_outputs=2, mechanism=None):
    mechanism = gaussian_report(1.0, 1.0, DELTA) if mechanism is None else mechanism
    return HeavySums(encode, radius, n_outputs, mechanism, rng=generator(0), n_buckets=16)


def test_check_finds_what_respond_would_find():
    refuses(ValueError, "^encode must return vectors of 2 columns", sums().check, 3)
    refuses(IndexError, "", counts(signed_keys_of).check, 1)
    query = counts()
    query.check(1)
    assert query.n_users == 0 and (query.spectrum == 0).all()  # nothing was asked
