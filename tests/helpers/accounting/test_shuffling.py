"""Amplification by shuffling: against brute force, its limits, and what the ledger adds up."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from conftest import refuses
from scipy.stats import binom

from fedclust_helpers import accounting as acc
from fedclust_helpers import mechanisms as mech
from fedclust_helpers.accounting import blanket
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse

DELTA = 1e-6


def hockey_stick(first, second, epsilon):
    """Worst of both directions, for two arrays of probabilities."""
    e = math.exp(epsilon)
    return max(np.maximum(first - e * second, 0).sum(), np.maximum(second - e * first, 0).sum())


def histogram_law(rows):
    """Law of the histogram of independent reports, row i of `rows` the law of report i."""
    n, g = len(rows), len(rows[0])
    law = {(0,) * g: 1.0}
    for row in rows:
        more: dict[tuple[int, ...], float] = {}
        for seen, chance in law.items():
            for symbol, q in enumerate(row):
                key = tuple(c + (s == symbol) for s, c in enumerate(seen))
                more[key] = more.get(key, 0.0) + chance * q
        law = more
    keys = sorted(k for k in itertools.product(range(n + 1), repeat=g) if sum(k) == n)
    return np.array([law.get(k, 0.0) for k in keys])


def worst_of_all_data(channel, n, epsilon):
    """Exact delta of n shuffled reports: all data sets, all changes of one user."""
    values, worst = range(len(channel)), 0.0
    for others in itertools.combinations_with_replacement(values, n - 1):
        laws = [histogram_law([channel[v]] + [channel[o] for o in others]) for v in values]
        for a, b in itertools.combinations(laws, 2):
            worst = max(worst, hockey_stick(a, b, epsilon))
    return worst


def response(epsilon, k):
    """The channel of k-ary randomised response."""
    p = math.exp(epsilon)
    return (np.ones((k, k)) + (p - 1) * np.eye(k)) / (p + k - 1)


def two_counts(n, a, one, other, epsilon):
    """Two counts by brute force: another user adds to either with chance `a`, user 1 as told."""

    def added(table, chances):
        out = np.zeros_like(table)
        for (i, j), chance in zip(((1, 0), (0, 1), (0, 0)), chances, strict=True):
            out[i:, j:] += chance * table[: n + 1 - i, : n + 1 - j]
        return out

    others = np.zeros((n + 1, n + 1))
    others[0, 0] = 1.0
    for _ in range(n - 1):
        others = added(others, (a, a, 1 - 2 * a))
    return hockey_stick(added(others, one), added(others, other), epsilon)


def clones(n, local, epsilon):
    """The theorem's pair."""
    p = math.exp(local)
    one, other = (p / (p + 1), 1 / (p + 1), 0.0), (1 / (p + 1), p / (p + 1), 0.0)
    return two_counts(n, 1 / (2 * p), one, other, epsilon)


# --- the bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("local", [0.2, 1.0, 4.0])
def test_the_sum_over_tails_is_the_theorem_s_pair(n, local):
    """To 1e-10: the two are the same number, computed in different ways."""
    for share in (0.0, 0.05, 0.3, 0.8, 0.99):
        found = acc.shuffled_delta(n, local, share * local)
        assert found == pytest.approx(clones(n, local, share * local), abs=1e-10)


def test_the_general_bound_holds_for_any_pure_randomiser():
    """Random channels that are pure with epsilon_0, extreme ones among them."""
    rng = np.random.default_rng(3)
    for trial in range(30):
        local = float(rng.uniform(0.2, 3))
        logs = rng.choice([0.0, local], (3, 4)) if trial % 2 else rng.uniform(0, local, (3, 4))
        raw = np.exp(logs)
        channel = raw / raw.sum(axis=1, keepdims=True)
        local = math.log(float((channel.max(axis=0) / channel.min(axis=0)).max()))
        if local < 1e-9:
            continue
        for share in (0.1, 0.5):
            exact = worst_of_all_data(channel, 3, share * local)
            assert exact <= acc.shuffled_delta(3, local, share * local) + 1e-12


def binary_delta(n, local, epsilon, others):
    """Exact delta of n shuffled bits where one of these numbers of others holds a 1."""
    keep, worst = 1 / (1 + math.exp(-local)), 0.0
    for m in others:
        ones = binom.pmf(range(m + 1), m, keep), binom.pmf(range(n - m), n - 1 - m, 1 - keep)
        laws = [np.convolve(np.convolve(*ones), [1 - p, p]) for p in (keep, 1 - keep)]
        worst = max(worst, hockey_stick(*laws, epsilon))
    return worst


def test_one_data_set_of_the_others_is_a_lower_bound_at_any_size():
    for n, ones in ((10, 3), (500, 499), (100_000, 0)):
        found = binary_delta(n, 1.5, 0.1, [ones])
        assert 0 <= found <= acc.shuffled_delta(n, 1.5, 0.1) + 1e-16 * n
    # what the theorem tells the observer besides costs no more than a third of epsilon
    assert binary_delta(1000, 1.0, 0.1, range(1000)) > acc.shuffled_delta(1000, 1.0, 0.15)


def test_extremes_stay_finite_and_claim_nothing():
    assert acc.shuffled_epsilon(10, 1000.0, DELTA) == pytest.approx(1000.0)
    assert acc.local_epsilon_for(10, 50.0, DELTA) == 50.0
    assert acc.shuffled_delta(10**9, 10.0, 0.1) < DELTA
    assert acc.shuffled_delta(10, 1.0, 1e6) == 0.0


# --- the blanket ----------------------------------------------------------------------------------


def asked(local, sizes, shares, m):
    """The channel of a message: a drawn question, or m answers; a value is all true symbols."""
    values = itertools.product(*map(range, sizes))
    each = [[s * response(local / m, g)[v] for g, s, v in zip(sizes, shares, value, strict=True)]
            for value in values]  # fmt: skip
    channel = one = np.array([np.concatenate(row) for row in each])
    for _ in range(m - 1):
        channel = np.kron(channel, one)
    return channel


def blanket_sum(n, local, epsilon, k, m=1, shares=(1.0,)):
    """E[max(0, V_1 + ... + V_n)]/n as the module says it, over all multisets of values of V."""
    p, law, total = math.exp(local / m), Counter({0.0: 1.0}), Counter({0.0: 1.0})
    for share, g in zip(shares, np.broadcast_to(k, len(shares)), strict=True):
        for symbols in itertools.product("xyz", repeat=m):  # that of x0, that of x1, another one
            a, b, c = (symbols.count(s) for s in "xyz")
            chance = share * (int(g) - 2) ** c / (p + g - 1) ** m
            law[p**a - p**b * math.exp(epsilon)] += chance
            law[0.0] -= chance
    for _ in range(n):
        more: Counter[float] = Counter()
        for (s, q), (v, r) in itertools.product(total.items(), law.items()):
            more[round(s + v, 9)] += q * r
        total = more
    return math.fsum(q * max(s, 0.0) for s, q in total.items()) / n


@pytest.mark.parametrize("local", [0.4, 2.0])
@pytest.mark.parametrize(
    ("n", "sizes", "shares", "m"),
    [(4, (2,), (1.0,), 1), (4, (3,), (1.0,), 1), (3, (4,), (1.0,), 1), (3, (2, 2), (0.5, 0.5), 1),
     (3, (2, 3), (0.6, 0.4), 1), (3, (2,), (1.0,), 2), (2, (3,), (1.0,), 2), (2, (2,), (1.0,), 3)],
)  # fmt: skip
def test_the_blanket_is_never_below_enumeration(n, sizes, shares, m, local):
    """All data sets; and the fewest symbols, for all questions, cost no less."""
    for share in (0.0, 0.1, 0.4):
        epsilon = share * local
        exact = worst_of_all_data(asked(local, sizes, shares, m), n, epsilon)
        found = acc.blanket_delta(n, local, epsilon, sizes, shares=shares, answers=m)
        fewest = acc.blanket_delta(n, local, epsilon, (min(sizes),), answers=m)
        assert exact <= found * (1 + 1e-12) and found <= fewest * (1 + 1e-12)
        assert found < acc.shuffled_delta(n, local, epsilon)
        if (sizes, m) == ((2,), 1):
            assert binary_delta(n, local, epsilon, range(n)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.03, 0.6, 1.9])
@pytest.mark.parametrize(("k", "m", "shares"), [(2, 1, (1.0,)), (30, 1, (1.0,)), (2, 3, (1.0,)),
                                                ((3, 8), 1, (0.3, 0.7))])  # fmt: skip
def test_the_transform_is_above_the_sum_by_the_stated_error(k, m, shares, epsilon, monkeypatch):
    """The grid costs a hundredth at most; a window far too small is charged for, not believed."""
    direct = blanket_sum(12, 2.0, epsilon, k, m, shares)
    given = (12, 2.0, epsilon, np.atleast_1d(k).tolist())
    found = acc.blanket_delta(*given, shares=shares, answers=m)
    assert direct * (1 - 1e-12) <= found <= 1.01 * direct + 1e-15
    for reach in (0.2, 0.5, 1.0):
        monkeypatch.setattr(blanket, "REACH", reach)
        monkeypatch.setattr(blanket, "JUMPS", 0.0)
        assert direct * (1 - 1e-12) <= acc.blanket_delta(*given, shares=shares, answers=m)


@pytest.mark.parametrize("local", [1.0, 4.0])
def test_far_tails_keep_their_digits(local):
    """Two values of V and 0: the sum is two binomials', for 900 users, far below 1e-10."""
    n, p = 900, math.exp(local)
    for epsilon in (0.02 * local, 0.1 * local, 0.3 * local):
        e, q = math.exp(epsilon), 1 / (p + 1)
        first, second = np.ogrid[: n + 1, : n + 1]
        both = binom.pmf(first + second, n, 2 * q) * binom.pmf(first, first + second, 0.5)
        gain = np.maximum(first * (p - e) + second * (1 - p * e), 0)
        direct = float((both * gain).sum()) / n
        found = acc.blanket_delta(n, local, epsilon, (2,))
        assert direct * (1 - 1e-9) <= found <= 1.05 * direct


def test_drawn_responses_cost_the_smaller_bound_and_others_the_clones():
    one, two = RandomizedResponse(3.0, 20), (RandomizedResponse(1.0), RandomizedResponse(2.0, 9))
    clones = acc.shuffled_epsilon(1000, 3.0, DELTA)
    for reports, drawn in (((one,), False), (two, True), (two[::-1], False)):
        crowd = acc.Shuffled(reports, 1000, drawn=drawn)
        assert crowd.epsilon(DELTA) == clones
        assert crowd.delta(0.5) == acc.shuffled_delta(1000, 3.0, 0.5)
    crowd = acc.Shuffled((one,), 1000, drawn=True)
    assert crowd.epsilon(DELTA) < 0.5 * clones and crowd.delta(crowd.epsilon(DELTA)) <= DELTA
    sizes = (1, 10, 300, 20_000, 1_000_000)
    for local, k in itertools.product((0.05, 1.0, 5.0, 11.0), (2, 300)):
        crowds = [acc.Shuffled((RandomizedResponse(local, k),), n, drawn=True) for n in sizes]
        clones = [acc.shuffled_epsilon(n, local, DELTA) for n in sizes]
        both = [c.epsilon(DELTA) for c in crowds]
        assert max(clones) <= local and all(np.array(both) <= clones)
        for epsilons in (clones, both):
            assert epsilons == sorted(epsilons, reverse=True)
    for delta in (crowds[-1].delta, lambda e: acc.shuffled_delta(sizes[-1], local, e)):
        deltas = [delta(e) for e in (0.0, 0.3, 1.0, 3.0, 10.0, 11.0)]
        assert deltas == sorted(deltas, reverse=True) and deltas[-1] == 0.0


def test_several_answers_are_not_one_of_many_symbols():
    """Of a small epsilon three bits give away more than one of eight symbols."""
    crowd = acc.Shuffled((RandomizedResponse(0.1),) * 3, 300, drawn=True)
    local = crowd.pure_epsilon
    for epsilon in (0.0, 0.02):
        assert crowd.delta(epsilon) == acc.blanket_delta(300, local, epsilon, (2,), answers=3)
        assert crowd.delta(epsilon) > 1.02 * acc.blanket_delta(300, local, epsilon, (8,))


def test_questions_known_by_number_exceed_the_blanket_of_all():
    """Two questions, six users: drawn with the report they are one crowd; by number, two of three.

    The second question asks for the opposite of the first.
    """
    local, n = 2.0, 6
    keep = response(local, 2)
    drawn = np.concatenate([keep / 2, keep[::-1] / 2], axis=1)
    by_number = acc.Shuffled((RandomizedResponse(local),), n)
    for epsilon in (0.0, 0.4, 0.8):
        blanket_of_all = acc.blanket_delta(n, local, epsilon, (2,))
        assert worst_of_all_data(drawn, n, epsilon) <= blanket_of_all * (1 + 1e-12)
        split = worst_of_all_data(keep, n // 2, epsilon)  # the user's own question alone tells
        assert 1.1 * blanket_of_all < split <= acc.shuffled_delta(n // 2, local, epsilon)
        assert by_number.delta(epsilon) == acc.shuffled_delta(n, local, epsilon)


@pytest.mark.parametrize("n", [30, 1000, 50_000])
def test_the_local_epsilon_of_given_reports_is_verified_across_jumps(n):
    """Symbols that follow the local epsilon, and jump; never less than any pure report may say."""
    clones = acc.local_epsilon_for(n, 1.0, DELTA)
    both = [acc.shuffled_epsilon(n, c * clones, DELTA) for c in (1.0, 1.01)]
    assert both[0] <= 1.0 < both[1]
    for symbols in (lambda e: 2 + int(math.exp(min(e, 5.0))), lambda e: 2 + 40 * (int(9 * e) % 2)):

        def reports(local, symbols=symbols):
            return (RandomizedResponse(local, symbols(local)),)

        local = acc.local_epsilon_for(n, 1.0, DELTA, reports)
        assert clones < local
        assert acc.Shuffled(reports(local), n, drawn=True).epsilon(DELTA) <= 1.0
        assert acc.Shuffled(reports(local * (1 + 1e-4)), n, drawn=True).epsilon(DELTA) > 1.0
    for told, gains in ((lambda e: (RandomizedResponse(e / 2),) * 2, True),
                        (lambda e: (mech.Laplace(1.0, 1 / e, "replace-one"),), False)):  # fmt: skip
        assert (acc.local_epsilon_for(n, 1.0, DELTA, told) > clones) == gains


# --- the ledger -----------------------------------------------------------------------------------


def ledger(*mechanisms, groups=(), **options):
    made = acc.PrivacyLedger("point", "replace-one", **options)
    for mechanism, group in itertools.zip_longest(mechanisms, groups):
        made.charge([mechanism], name="x", group=group)
    return made


def test_an_entry_carries_the_local_and_the_central_guarantee():
    crowd = acc.Shuffled((RandomizedResponse(4.0),), 10_000)
    made = ledger(crowd)
    assert made.pure_epsilon() == made.epsilon(0.0) == crowd.pure_epsilon == 4.0
    central = acc.shuffled_epsilon(10_000, 4.0, DELTA)
    assert made.epsilon(DELTA) == crowd.epsilon(DELTA) == central < 0.7
    assert made.delta(central) <= DELTA and made.delta(4.0) == 0.0
    for reports in ((RandomizedResponse(4.0, 50),), (RandomizedResponse(2.0),) * 2):
        assert acc.Shuffled(reports, 10_000).pure_epsilon == 4.0
        assert acc.Shuffled(reports, 10_000).epsilon(DELTA) == central  # one theorem for all


def test_shuffled_sets_add_up_with_shares_of_delta():
    crowd = acc.Shuffled((RandomizedResponse(4.0),), 10_000)
    two = ledger(crowd, crowd)
    assert two.epsilon(DELTA) == pytest.approx(2 * crowd.epsilon(DELTA / 2))
    assert two.delta(two.epsilon(DELTA)) <= DELTA * (1 + 1e-5)
    assert two.epsilon(0.0) == 8.0
    mixed = ledger(crowd, RandomizedResponse(1.0))
    assert mixed.epsilon(DELTA) == pytest.approx(crowd.epsilon(DELTA / 2) + 1.0)
    noise = mech.Gaussian(1.0, 5.0, "replace-one")
    more = ledger(crowd, noise)
    alone = ledger(noise).epsilon(DELTA / 2)
    assert more.epsilon(DELTA) == pytest.approx(crowd.epsilon(DELTA / 2) + alone)
    parts = ledger(crowd, crowd, groups=("division 0/a", "division 0/b"))
    assert parts.epsilon(DELTA) == crowd.epsilon(DELTA)
    exact = ledger(crowd, mech.NoNoise("replace-one"))
    assert exact.epsilon(DELTA) == math.inf and exact.delta(1.0) == 1.0


def test_budgets_pay_for_the_central_guarantee_or_for_the_local_one():
    crowd = acc.Shuffled((RandomizedResponse(4.0),), 10_000)
    central = crowd.epsilon(DELTA)
    made = ledger(crowd, budget=acc.Budget(1.001 * central, DELTA))
    refuses(acc.BudgetExceededError, "", made.charge, [crowd], name="again")
    for budget in (acc.Budget(3.9), acc.Budget(3.9, DELTA, "gdp"), acc.Budget(3.0, DELTA, "rdp")):
        tight = ledger(budget=budget)  # these filters know no shuffler
        refuses(acc.BudgetExceededError, "", tight.charge, [crowd], name="x")
