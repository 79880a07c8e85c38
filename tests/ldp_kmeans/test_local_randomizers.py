"""Local randomisers: exact privacy by enumeration, rounding, unbiased estimates, public coins."""

import itertools
import math
import secrets
from dataclasses import replace
from fractions import Fraction

import dp_accounting as dpa
import mpmath as mp
import numpy as np
import pytest
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.accounting import Release, gdp_delta, zcdp_epsilon
from fedclust_helpers.accounting.totals import total_epsilon
from fedclust_helpers.federation.reports import gaussian_report, public_coins
from fedclust_helpers.ldp_kmeans import local_randomizers
from fedclust_helpers.ldp_kmeans import local_randomizers as lr
from fedclust_helpers.ldp_kmeans.vector_sums import check_report_mechanism
from fedclust_helpers.mechanisms import SECURE, DiscreteGaussian, Gaussian
from studies.ldp_kmeans import encodings

DELTA = 1e-6
EPSILONS = [1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 50.0]
NAN, INF = float("nan"), float("inf")


def e_to(epsilon):
    """e^epsilon to 60 digits."""
    with mp.workdps(60):
        return mp.exp(mp.mpf(epsilon))


def as_mp(fraction):
    with mp.workdps(60):
        return mp.mpf(fraction.numerator) / fraction.denominator


def saturated(epsilon, k=2):
    """What 53-bit probabilities can give at most: two steps of 2^-53 for all other answers."""
    return min(epsilon, math.log((2.0**52 - 1) * (k - 1)))


def check_ratio(ratio, epsilon):
    """`ratio` (exact) never exceeds e^epsilon, and falls short only by the rounding.

    A probability moves by less than 5 steps of 2^-53 (2 or 3 on purpose, 1.5 by float errors). The
    rarest answers have at least probability 1/(e^epsilon + 21) together, so a factor of the ratio
    loses at most 1 + 5 * 2^-53 (e^epsilon + 21); two factors of a ratio may move.
    """
    assert as_mp(ratio) <= e_to(epsilon)
    reach = min(epsilon, 36.0)
    loss = 2 * math.log1p(5 * 2.0**-53 * (math.exp(reach) + 21))
    assert math.log(ratio) >= reach - loss - 1e-14


# --- words, thresholds, rounding ------------------------------------------------------------------


def test_words_are_reproducible_and_uniform():
    words = lr.random_words((50, 400), rng=np.random.default_rng(1))
    assert words.shape == (50, 400) and words.dtype == np.uint64
    assert np.array_equal(words, lr.random_words((50, 400), rng=np.random.default_rng(1)))
    for source in (words.ravel(), lr.random_words(20_000, rng=SECURE)):
        bits = (source[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        z = (bits.sum(axis=0, dtype=np.int64) - 10_000) / math.sqrt(5_000)
        # 128 standard normal scores, false alarm 128 * 6e-7 (secure words cannot be seeded)
        assert np.abs(z).max() < 5


def test_secure_words_come_from_the_operating_system_and_from_nowhere_else(monkeypatch):
    assert not np.array_equal(lr.random_words(4, rng=SECURE), lr.random_words(4, rng=SECURE))
    asked = []

    def tokens(n):
        asked.append(n)
        return bytes(range(n))

    def seeded(*_):
        raise AssertionError("a seeded generator was used in secure mode")

    monkeypatch.setattr(secrets, "token_bytes", tokens)
    for name in ("default_rng", "Generator", "PCG64"):
        monkeypatch.setattr(np.random, name, seeded)
    words = lr.random_words((1, 2), rng=SECURE)
    assert asked == [16] and words.tobytes() == bytes(range(16)) and words.shape == (1, 2)


@pytest.mark.parametrize(
    "mechanism",
    [lr.RandomizedResponse(2.0, 2), lr.RandomizedResponse(2.0, 5), encodings.UnaryEncoding(2.0, 3)],
)
def test_secure_randomisers_ignore_every_seed_and_work(mechanism):
    values = np.zeros(4000, dtype=int)
    first, second = (mechanism.randomize(values, rng=SECURE) for _ in range(2))
    assert not np.array_equal(first, second)
    estimate = mechanism.estimate(first)
    # 4000 answers, 5 standard deviations: false alarm about 6e-7 for each of 10 values
    assert abs(estimate[0] - 4000) < 5 * mechanism.std(4000, 4000)
    assert (np.abs(estimate[1:]) < 5 * mechanism.std(4000)).all()


def test_a_threshold_is_met_by_exactly_its_share_of_words():
    for steps in (0, 1, 2, 12345, 2**52, 2**53 - 1):
        edge = steps << 11
        around = np.array([w for w in (edge - 1, edge) if w >= 0], dtype=np.uint64)
        assert lr.below(around, steps * 2.0**-53).tolist() == [w < edge for w in map(int, around)]


@given(st.floats(0, 1), st.booleans())
def test_rounding_moves_more_than_one_step_to_the_stated_side(probability, up):
    rounded = Fraction(lr.round_probability(probability, up=up))
    step = Fraction(1, 2**53)
    assert (rounded / step).denominator == 1 and 0 <= rounded <= 1
    moved = (rounded - Fraction(probability)) * (1 if up else -1)
    assert moved <= 2 * step
    if 0 < rounded < 1:
        assert moved > step


def test_thresholds_of_0_and_1_and_between_steps():
    words = np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)
    assert (
        lr.below(words, 0.0).tolist() == [False] * 3 and lr.below(words, 1.0).tolist() == [True] * 3
    )
    for probability in (-(2.0**-53), 1 + 2.0**-52, 2.0**-54, 0.1 + 2.0**-56, NAN, INF):
        refuses(ValueError, "^probability must be", lr.below, words, probability)


# --- equal odds from words ------------------------------------------------------------------------

SIZES = [1, 2, 3, 5, 7, 10, 100, 10_999, 11_000, 65_537, 10**9 + 7, 2**32 - 1, 2**61 - 1, 2**61,
         3_700_000_000_000_000_000, 2**62 - 1, 2**62, 2**63 - 25, 2**63]  # fmt: skip


@pytest.mark.parametrize("k", SIZES)
def test_every_value_is_left_with_the_same_number_of_words(k):
    """Exact at any k: the words that are kept are a multiple of k, in whole rounds of 0..k-1.

    Reducing all 2^64 words modulo k would give small values one word in 2^64/k more: odds off by
    2e-17 at k = 11,000 and by 0.22 at k = 3.7e18.
    """
    kept = 2**64 // k * k  # what must be kept, by exact integers
    assert 2**64 - kept < k and kept % k == 0
    edge = [w for w in (0, 1, k - 1, k, 2 * k - 1, kept - k, kept - 1) if 0 <= w < kept]
    asked = []
    values = lr.words_modulo(np.array(edge, dtype=np.uint64), k, lambda w: asked.append(w) or w)
    assert values.tolist() == [w % k for w in edge] and asked == []
    beyond = [w for w in (kept, kept + 1, 2**64 - 1) if kept <= w < 2**64]
    redrawn = lr.words_modulo(
        np.array(beyond, dtype=np.uint64), k,
        lambda w: asked.append(len(w)) or np.full(len(w), (k - 1) // 2, dtype=np.uint64),
    )  # fmt: skip
    assert redrawn.tolist() == [(k - 1) // 2] * len(beyond)
    assert asked == ([len(beyond)] if beyond else [])


def test_a_redraw_may_be_redrawn():
    """Words at the top are drawn again until they lie below the largest multiple of k."""
    k, top = 3 * 2**61, 2**64 - 1
    queue = [top, top - 1, 5]
    words = np.full(1, top, dtype=np.uint64)
    out = lr.words_modulo(words, k, lambda w: np.array([queue.pop(0)], dtype=np.uint64))
    assert out.tolist() == [5] and queue == [] and words[0] == top  # the input is not changed
    # of any shape, and only the words that must be
    table = np.array([[7, top], [top, 8]], dtype=np.uint64)
    out = lr.words_modulo(table, k, lambda w: np.arange(len(w), dtype=np.uint64))
    assert out.tolist() == [[7, 0], [1, 8]] and table[0, 1] == top


@pytest.mark.parametrize("k", [3, 11_000, 10**6, 2**40 + 1, 3_700_000_000_000_000_000, 2**62])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 30.0, 45.0])
def test_the_odds_of_k_ary_response_are_exact_rationals_below_e_to_epsilon(k, epsilon):
    """keep is a multiple of 2^-53 and the others share the rest equally: no odds above e^epsilon.

    Proved with rationals and e^epsilon to 60 digits; short of it only by the rounding of keep.
    """
    try:
        mechanism = lr.RandomizedResponse(epsilon, k)
    except ValueError as refused:  # too many values for this epsilon in 53 bits
        assert "large enough to leave a signal" in str(refused)
        assert (k - 1) / math.exp(epsilon) > 2**49
        return
    keep = Fraction(mechanism.keep)
    assert (keep * 2**53).denominator == 1
    odds = keep / ((1 - keep) / (k - 1))
    assert as_mp(odds) <= e_to(epsilon)
    ideal = Fraction(math.exp(epsilon)) / (Fraction(math.exp(epsilon)) + k - 1)
    assert ideal - keep <= 5 * Fraction(1, 2**53)


@pytest.mark.parametrize("k", [3, 7, 11_000, 3_700_000_000_000_000_000, 2**62])
def test_the_other_value_is_any_other_with_equal_odds(monkeypatch, k):
    """From the code: the word of the other value goes through all shifts 1..k-1 in whole rounds."""
    mechanism = lr.RandomizedResponse(45.0, k)
    largest = 2**64 // (k - 1) * (k - 1) - 1
    cases = [0, 1, (k - 2), (k - 1), largest - 1, largest]
    for value in (0, k // 2, k - 1):
        for word in cases:
            queue = [2**64 - 1, word]  # lie; then this shift
            monkeypatch.setattr(
                local_randomizers, "random_words",
                lambda n, rng=None, q=queue: np.full(n, q.pop(0), dtype=np.uint64),
            )  # fmt: skip
            (other,) = mechanism.randomize(np.array([value]), rng=None)
            assert int(other) == (value + 1 + word % (k - 1)) % k != value and queue == []
        if largest < 2**64 - 1:  # the word beyond is drawn again
            queue = [2**64 - 1, largest + 1, 2]
            monkeypatch.setattr(
                local_randomizers, "random_words",
                lambda n, rng=None, q=queue: np.full(n, q.pop(0), dtype=np.uint64),
            )  # fmt: skip
            (other,) = mechanism.randomize(np.array([value]), rng=None)
            assert int(other) == (value + 1 + 2 % (k - 1)) % k and queue == []


def test_hashes_of_local_hashing_are_drawn_again_beyond_the_last_multiple(monkeypatch):
    """A public hash owes nothing to privacy, but its values should be equally frequent, too."""
    hashing = encodings.LocalHashing(1.0, 10, seed=4)
    g, seen = hashing.response.n_values, []
    real = encodings.public_coins

    def coins(seed, users):
        out = real(seed, users)
        if seed == 0:
            out[:2] = 2**64 - 1
        seen.append(seed)
        return out

    monkeypatch.setattr(encodings, "public_coins", coins)
    values = hashing._hash(np.arange(6), np.zeros(6, dtype=np.int64))
    assert g == 4 or seen == [4, 0, 1]
    assert ((values >= 0) & (values < g)).all()


# --- exact privacy --------------------------------------------------------------------------------


def exact_keep(monkeypatch, mechanism, value):
    """Probability, over one 64-bit word, that `randomize` reports the value itself.

    Found from the code that runs, by bisection on the word. The second word (which other value) is
    held at 0.
    """

    def reports_itself(word):
        queue = [word, 0]
        monkeypatch.setattr(
            local_randomizers,
            "random_words",
            lambda shape, rng=None: np.full(shape, queue.pop(0), dtype=np.uint64),
        )
        return mechanism.randomize([value], rng=None)[0] == value

    low, high = 0, 2**64 - 1
    assert reports_itself(low) and not reports_itself(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reports_itself(middle) else (low, middle)
    return Fraction(high, 2**64)


@pytest.mark.parametrize("k", range(2, 21))
def test_randomized_response_is_exactly_private(monkeypatch, k):
    """The whole channel of the code, word by word: the largest ratio is e^eps, never above it."""
    epsilon = EPSILONS[k % len(EPSILONS)]
    mechanism = lr.RandomizedResponse(epsilon, k)
    keeps = {v: exact_keep(monkeypatch, mechanism, v) for v in (0, k // 2, k - 1)}
    assert set(keeps.values()) == {Fraction(mechanism.keep)}
    # the second word chooses among the others: each residue of k - 1 leads to another of them
    words = np.array([np.full(k - 1, 2**64 - 1), np.arange(k - 1)], dtype=np.uint64)
    for value in range(k):
        queue = list(words)
        monkeypatch.setattr(
            local_randomizers, "random_words", lambda *_, rng=None, q=queue: q.pop(0)
        )
        others = mechanism.randomize(np.full(k - 1, value), rng=None)
        assert sorted(others) == [v for v in range(k) if v != value]
    keep = Fraction(mechanism.keep)
    residues = [2**64 // (k - 1) + (r < 2**64 % (k - 1)) for r in range(k - 1)]
    assert sum(residues) == 2**64
    other = [(1 - keep) * Fraction(r, 2**64) for r in residues]
    check_ratio(keep / min(other), epsilon)
    assert max(other) / min(other) < keep / min(other)


@pytest.mark.parametrize("k", range(2, 21))
def test_no_epsilon_is_exceeded_by_rounding(k):
    """300 random epsilons: computed in floats, the probability itself can be on the wrong side."""
    rng = np.random.default_rng(k)
    for epsilon in EPSILONS + [float(e) for e in 10 ** rng.uniform(-3, 1.7, 300)]:
        keep = Fraction(lr.RandomizedResponse(epsilon, k).keep)
        least = (1 - keep) * Fraction(2**64 // (k - 1), 2**64)
        check_ratio(keep / least, epsilon)


@pytest.mark.parametrize("k", [2, 3, 20])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_stated_channel_is_a_channel(epsilon, k):
    channel = lr.RandomizedResponse(epsilon, k).probabilities()
    assert channel.sum(axis=1) == pytest.approx(np.ones(k), abs=1e-15)
    ratios = channel[:, None, :] / channel[None, :, :]
    # floats near 1 - 2^-53: the division adds one relative rounding
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-15)
    assert ratios.max() == pytest.approx(math.exp(saturated(epsilon, k)), rel=0.01)


def bit_probabilities(mechanism, value):
    k = mechanism.n_values
    keep, flip = Fraction(mechanism.keep), Fraction(mechanism.flip)
    return [keep if v == value else flip for v in range(k)]


@pytest.mark.parametrize("kind", ["optimized", "symmetric"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_unary_encoding_is_exactly_private(kind, k):
    """All 2^k reports of all pairs of values."""
    for epsilon in EPSILONS:
        mechanism = encodings.UnaryEncoding(epsilon, k, kind)
        largest = Fraction(0)
        for v, w in itertools.permutations(range(k), 2):
            p, q = bit_probabilities(mechanism, v), bit_probabilities(mechanism, w)
            for report in itertools.product((0, 1), repeat=k):
                on_v = math.prod(a if bit else 1 - a for a, bit in zip(p, report, strict=True))
                on_w = math.prod(a if bit else 1 - a for a, bit in zip(q, report, strict=True))
                largest = max(largest, on_v / on_w)
        check_ratio(largest, epsilon)
        if kind == "symmetric":  # two bits share epsilon, so even 50 is within reach
            assert math.log(largest) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("kind", ["optimized", "symmetric"])
def test_no_epsilon_of_unary_encoding_is_exceeded_by_rounding(kind):
    for epsilon in 10 ** np.random.default_rng(5).uniform(-3, 1.7, 2000):
        mechanism = encodings.UnaryEncoding(float(epsilon), 2, kind)
        keep, flip = Fraction(mechanism.keep), Fraction(mechanism.flip)
        assert as_mp(keep * (1 - flip) / (flip * (1 - keep))) <= e_to(float(epsilon))


def test_the_bits_of_unary_encoding_have_the_stated_probabilities(monkeypatch):
    mechanism = encodings.UnaryEncoding(1.0, 3, "symmetric")
    for value, threshold in ((0, mechanism.keep), (1, mechanism.flip)):
        edge = int(Fraction(threshold) * 2**64)
        for word, expected in ((edge - 1, True), (edge, False)):
            monkeypatch.setattr(
                encodings,
                "random_words",
                lambda shape, rng=None, w=word: np.full(shape, w, dtype=np.uint64),
            )
            # bit 0 of somebody with value 0, then of somebody with value 1
            assert mechanism.randomize([value], rng=None)[0, 0] == expected


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 2.0, 4.0])
def test_local_hashing_is_exactly_private_for_every_user(epsilon):
    """The hash is public, so the ratio holds given each user's own hash function."""
    mechanism = encodings.LocalHashing(epsilon, 6, seed=3)
    response = mechanism.response
    g = response.n_values
    channel = [
        [Fraction(response.keep) if x == y else Fraction(0) for y in range(g)] for x in range(g)
    ]
    other = (1 - Fraction(response.keep)) * Fraction(2**64 // (g - 1), 2**64)
    channel = [[p or other for p in row] for row in channel]
    seen = set()
    for user in range(40):
        hashed = mechanism._hash(np.full(6, user), np.arange(6))
        rows = [channel[x] for x in hashed]
        pairs = {ab for p, q in itertools.permutations(rows, 2) for ab in zip(p, q, strict=True)}
        largest = max(a / b for a, b in pairs)
        seen.add(len(set(hashed)))
        if len(set(hashed)) == 1:
            assert largest == 1  # all values look the same to this user
        else:
            check_ratio(largest, epsilon)
    assert max(seen) > 1


def test_local_hashing_answers_through_its_response(monkeypatch):
    mechanism = encodings.LocalHashing(2.0, 50, seed=9)
    values, users = np.arange(50), np.arange(100, 150)
    rng = np.random.default_rng
    assert np.array_equal(
        mechanism.randomize(values, users, rng=rng(4)),
        mechanism.response.randomize(mechanism._hash(users, values), rng=rng(4)),
    )
    assert mechanism.response.n_values == 8  # e^2 + 1
    assert encodings.LocalHashing(0.1, 50, seed=9).response.n_values == 2
    assert encodings.LocalHashing(40.0, 50, seed=9).response.n_values == round(math.exp(20)) + 1


def test_own_hash_functions_are_uniform_and_collide_as_they_should():
    mechanism = encodings.LocalHashing(math.log(7), 4, seed=11)  # g = 8
    users = np.arange(200_000)
    a, b = (mechanism._hash(users, np.full(len(users), v)) for v in (0, 1))
    assert mechanism.response.n_values == 8
    joint = np.bincount(8 * a + b, minlength=64)
    # chi-square with 63 degrees of freedom; false alarm 1e-6 above 141
    assert ((joint - 3125) ** 2 / 3125).sum() < 141


# --- the ledger's view ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        lr.RandomizedResponse(1.3),
        lr.RandomizedResponse(1.3, 9),
        encodings.UnaryEncoding(1.3, 4),
        encodings.UnaryEncoding(1.3, 4, "symmetric"),
        encodings.LocalHashing(1.3, 12, seed=0),
    ],
)
def test_every_randomiser_states_one_users_report(mechanism):
    assert mechanism.pure_epsilon == 1.3 and mechanism.adjacency == "replace-one"
    assert mechanism.gdp_mu is None and mechanism.rho is None
    # binary randomised response, as an event: losses +-epsilon
    assert mechanism.dp_event() == dpa.dp_event.DiscreteLaplaceDpEvent(1.3, 1)


# --- unbiased, with the stated spread -------------------------------------------------------------

REPETITIONS, USERS = 400, 500


def check_estimates(estimates, truth, std):
    """Mean and spread of (repetitions, k) estimates against the truth (k,).

    Mean: 4.5 standard errors, false alarm 7e-6 for each value. Spread: the sample sd of 400
    repetitions is within 17 % (4.8 of its standard errors 1/sqrt(800)), false alarm 2e-6.
    """
    std = np.broadcast_to(std, truth.shape)
    error = estimates.mean(axis=0) - truth
    assert (np.abs(error) < 4.5 * std / math.sqrt(len(estimates))).all()
    assert np.abs(estimates.std(axis=0) / std - 1).max() < 0.17


def population(k):
    """Values of 500 users: half hold value 0, the rest is spread; truth (k,)."""
    values = np.concatenate([np.zeros(USERS // 2, dtype=int), np.arange(USERS // 2) % k])
    return values, np.bincount(values, minlength=k).astype(float)


@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_randomized_response_is_unbiased_with_the_stated_spread(epsilon, k):
    mechanism = lr.RandomizedResponse(epsilon, k)
    values, truth = population(k)
    rng = np.random.default_rng([k, int(10 * epsilon)])
    reports = mechanism.randomize(np.tile(values, REPETITIONS), rng=rng)
    estimates = [mechanism.estimate(r) for r in reports.reshape(REPETITIONS, USERS)]
    check_estimates(np.array(estimates), truth, [mechanism.std(USERS, c) for c in truth])


@pytest.mark.parametrize("kind", ["optimized", "symmetric"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_unary_encoding_is_unbiased_with_the_stated_spread(epsilon, kind):
    mechanism = encodings.UnaryEncoding(epsilon, 5, kind)
    values, truth = population(5)
    bits = mechanism.randomize(np.tile(values, REPETITIONS), rng=np.random.default_rng(8))
    assert bits.shape == (USERS * REPETITIONS, 5) and bits.dtype == bool
    estimates = [mechanism.estimate(b) for b in bits.reshape(REPETITIONS, USERS, 5)]
    check_estimates(np.array(estimates), truth, [mechanism.std(USERS, c) for c in truth])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_local_hashing_is_unbiased_with_the_stated_spread(epsilon):
    """`std` is stated for a value that few hold; a common one has at most that of its response."""
    mechanism = encodings.LocalHashing(epsilon, 6, seed=21)
    values, truth = population(5)
    truth = np.append(truth, 0.0)
    users = np.arange(USERS * REPETITIONS)  # fresh hash functions in every repetition
    reports = mechanism.randomize(
        np.tile(values, REPETITIONS), users, rng=np.random.default_rng(13)
    )
    estimates = np.array(
        [
            mechanism.estimate(r, u)
            for r, u in zip(
                reports.reshape(REPETITIONS, USERS), users.reshape(REPETITIONS, USERS), strict=True
            )
        ]
    )
    g, keep = mechanism.response.n_values, mechanism.response.keep
    variance = truth * keep * (1 - keep) + (USERS - truth) / g * (1 - 1 / g)
    check_estimates(estimates, truth, np.sqrt(variance) / (keep - 1 / g))
    assert mechanism.std(USERS) == pytest.approx(np.sqrt(variance[-1]) / (keep - 1 / g))


# --- how many answers -----------------------------------------------------------------------------


def spread(epsilon, m):
    """Variance of a count when every user answers m questions, up to constants."""
    return 1 / (math.tanh(epsilon / m / 2) ** 2 * m)


@pytest.mark.parametrize("n_mechanisms", [1, 2, 3, 10, 40])
def test_the_participation_rule_against_brute_force(n_mechanisms):
    for epsilon in np.linspace(0.05, 60, 400):
        m = lr.participations(float(epsilon), n_mechanisms)
        best = min(range(1, n_mechanisms + 1), key=lambda j: spread(epsilon, j))
        assert 1 <= m <= n_mechanisms and abs(m - best) <= 1
        # near the boundary between two m the rule may take the other one: within 3 % of the sd
        assert spread(epsilon, m) <= 1.06 * spread(epsilon, best)
    assert math.sinh(lr.SWITCH) == pytest.approx(2 * lr.SWITCH, rel=2e-3)  # what SWITCH solves


# --- Gaussian reports -----------------------------------------------------------------------------

SIGMAS = {0.5: 16.1, 1.0: 8.45, 2.0: 4.46, 4.0: 2.39, 8.0: 1.31}
PRINTED = {0.5: 42.4, 1.0: 21.2, 2.0: 10.6, 4.0: 5.3, 8.0: 2.65}


@pytest.mark.parametrize("epsilon", SIGMAS)
def test_gaussian_reports_of_the_notes(epsilon):
    """Notes section 1.5: analytic and printed noise for g = id on the unit ball."""
    report = gaussian_report(1.0, epsilon, DELTA)
    assert isinstance(report, Gaussian) and report.adjacency == "replace-one"
    assert report.sensitivity == 2.0 and report.std == pytest.approx(SIGMAS[epsilon], rel=4e-3)
    assert gdp_delta(report.gdp_mu, epsilon) == pytest.approx(DELTA, rel=1e-9)
    printed = gaussian_report(1.0, epsilon, DELTA, calibration="as_printed")
    assert printed.sensitivity == 2.0 and printed.std == pytest.approx(PRINTED[epsilon], abs=0.05)
    # for a ball it is a factor 2 more than the classic calibration of the true sensitivity
    c_g = math.sqrt(2 * math.log(1.25 / DELTA))
    assert printed.std == pytest.approx(2 * c_g * 2.0 / epsilon)
    assert gdp_delta(printed.gdp_mu, epsilon) < DELTA


@pytest.mark.parametrize("radius", [0.05, 1.0, 7.0])
def test_the_noise_of_a_report_scales_with_the_bound_alone(radius):
    report = gaussian_report(radius, 1.0, DELTA)
    assert report.sensitivity == 2 * radius
    assert report.std == pytest.approx(radius * gaussian_report(1.0, 1.0, DELTA).std)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_discrete_reports_pay_for_their_grid(epsilon):
    grid, d = 2.0**-6, 9
    report = gaussian_report(1.0, epsilon, DELTA, grid=grid, n_features=d)
    assert isinstance(report, DiscreteGaussian) and report.grid == grid
    assert report.sensitivity == 2 + 3 * grid and report.adjacency == "replace-one"
    total = total_epsilon([Release(0, "", (report,), "point", "replace-one")], DELTA)
    assert 0.99 * epsilon < total <= epsilon < zcdp_epsilon(report.rho, DELTA)
    assert report.std > gaussian_report(1.0, epsilon, DELTA).std
    fine = gaussian_report(1.0, epsilon, DELTA, grid=2.0**-20, n_features=d)
    assert fine.std < gaussian_report(1.0, epsilon, DELTA).std * (1 + 1e-5)
    few = replace(report, n_coordinates=d - 1)
    refuses(ValueError, "states n_coordinates=8, but 9", check_report_mechanism, few, 1.0, d)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_slack_of_the_grid_covers_the_worst_rounding(d):
    """Two reports, each rounded: the distance grows by at most sqrt(d) steps, and almost does."""
    grid, rng = 0.25, np.random.default_rng(d)
    slack = gaussian_report(1.0, 1.0, DELTA, grid=grid, n_features=d).sensitivity - 2

    def rounded(x):
        return np.rint(x / grid) * grid

    x, y = rng.uniform(-1, 1, (2, 20_000, d))
    grown = np.linalg.norm(rounded(x) - rounded(y), axis=1) - np.linalg.norm(x - y, axis=1)
    assert grown.max() <= slack
    nearly = np.full(d, grid / 2 * (1 + 1e-9))  # just above a rounding edge, on both sides
    worst = np.linalg.norm(rounded(nearly) - rounded(-nearly)) - np.linalg.norm(2 * nearly)
    assert worst == pytest.approx(slack, rel=1e-6)


# --- public coins ---------------------------------------------------------------------------------


def splitmix(seed, user):
    """SplitMix64 in Python integers, one user at a time."""
    mask = 2**64 - 1
    z = (seed + user * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_public_coins_are_splitmix_bit_for_bit():
    users = [0, 1, 2, 999_999, 2**40]
    for seed in (0, 1, 2**63 - 1, 2**64 - 1):
        assert public_coins(seed, np.array(users)).tolist() == [splitmix(seed, u) for u in users]
    # the first outputs of the reference generator with seed 0
    assert splitmix(0, 1) == 0xE220A8397B1DCDAF and splitmix(0, 2) == 0x6E789E6AA1B965F4


def test_public_coins_are_uniform_and_unrelated():
    n = 2**18
    coins = public_coins(123456789, np.arange(n))
    assert len(np.unique(coins)) == n  # a bijection of the user number
    other = public_coins(987654321, np.arange(n))
    # seven chi-square scores with 255 degrees of freedom; false alarm 1e-7 each above 384
    samples = [(coins >> np.uint64(s)) & np.uint64(255) for s in (0, 16, 32, 56)]
    samples.append((coins ^ np.roll(coins, 1)) >> np.uint64(56))  # neighbours
    samples.append((coins ^ other) & np.uint64(255))  # two seeds
    low, high = coins & np.uint64(15), coins >> np.uint64(60)  # row and channel of one coin
    samples.append(low | (high << np.uint64(4)))
    for sample in samples:
        counts = np.bincount(sample.astype(np.int64), minlength=256)
        assert ((counts - n / 256) ** 2 / (n / 256)).sum() < 384


# --- wrong use ------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
MAKERS = {
    "response": lr.RandomizedResponse,
    "unary": lambda e: encodings.UnaryEncoding(e, 3),
    "hashing": lambda e: encodings.LocalHashing(e, 3, 1),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_an_epsilon_without_a_signal_in_53_bits_is_refused(maker):
    MAKERS[maker](1e-12)
    refuses(ValueError, "^epsilon must be large enough to leave a signal", MAKERS[maker], 1e-17)
    MAKERS[maker](700.0), MAKERS[maker](1e5)  # nothing overflows


BAD_VALUES = {
    "floats": ([0.0, 1.0], TypeError, "integers of shape"),
    "two dimensions": ([[0, 1]], TypeError, "integers of shape"),
    "a number": (3, TypeError, "integers of shape"),
    "text": (["0", "1"], TypeError, "integers of shape"),
    "negative": ([0, -77], ValueError, r"must lie in 0\.\.2$"),
    "too large": ([0, 77], ValueError, r"must lie in 0\.\.2$"),
    "beyond 63 bits": (np.array([2**63 + 77], dtype=np.uint64), ValueError, r"must lie in 0\.\.2$"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_wrong_values_are_named_but_never_quoted(case):
    values, error, match = BAD_VALUES[case]
    users = np.arange(2)
    calls = [
        ("values", lambda: lr.RandomizedResponse(1.0, 3).randomize(values, rng=RNG)),
        ("values", lambda: encodings.UnaryEncoding(1.0, 3).randomize(values, rng=RNG)),
        ("values", lambda: encodings.LocalHashing(1.0, 3, 1).randomize(values, users, rng=RNG)),
        ("reports", lambda: lr.RandomizedResponse(1.0, 3).estimate(values)),
        ("answers", lambda: lr.check_values(values, 3, "answers")),
    ]
    for name, call in calls:
        with pytest.raises(error, match=f"^{name} .*{match}") as caught:
            call()
        assert "77" not in str(caught.value)


def test_values_may_be_any_integers():
    for dtype in (bool, np.uint8, np.int32, np.uint64):
        checked = lr.check_values(np.array([0, 1, 1], dtype=dtype), 2)
        assert checked.dtype == np.int64 and checked.tolist() == [0, 1, 1]
