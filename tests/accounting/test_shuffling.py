"""Amplification by shuffling: against brute force, its limits, and what the ledger adds up."""

import itertools
import math

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers import accounting as acc
from fedclust_helpers import mechanisms as mech
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


@pytest.mark.parametrize("local", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 3), (5, 2), (4, 4)])
def test_never_below_what_shuffled_responses_give_away(n, k, local):
    """All data sets of n users, by enumeration; and for two values the binary delta is exact."""
    for share in (0.05, 0.3, 0.7):
        epsilon = share * local
        exact = worst_of_all_data(response(local, k), n, epsilon)
        assert exact <= acc.shuffled_delta(n, local, epsilon) + 1e-12
        if k == 2:
            assert acc.binary_delta(n, local, epsilon) == pytest.approx(exact, abs=1e-12)


def test_stronger_clones_as_first_printed_are_too_strong():
    """Three users, three values: more is given away than 2/(p + k - 1) clones would allow."""
    n = k = 3
    local, epsilon = 0.3, 0.21
    p = math.exp(local)
    a = 1 / (p + k - 1)
    printed = two_counts(n, a, (p * a, a, a), (a, p * a, a), epsilon)
    assert worst_of_all_data(response(local, k), n, epsilon) > 1.05 * printed


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


def test_questions_by_number_are_small_crowds_and_tickets_are_one():
    """Two questions: drawn with the report, n = 6 users are one crowd; by number, two of three."""
    local, epsilon, n = 2.0, 0.8, 6
    keep = response(local, 2)
    # values 0 and 1; a report is (question, bit), and the second question asks for the opposite
    drawn = np.concatenate([keep / 2, keep[::-1] / 2], axis=1)
    mixed = worst_of_all_data(drawn, n, epsilon)
    assert mixed <= acc.shuffled_delta(n, local, epsilon)
    split = worst_of_all_data(keep, n // 2, epsilon)  # the user's own question alone tells
    assert split > mixed
    assert split <= acc.shuffled_delta(n // 2, local, epsilon)


def test_one_data_set_of_the_others_is_a_lower_bound_at_any_size():
    for n, ones in ((10, 3), (500, 499), (100_000, 0)):
        found = acc.binary_delta(n, 1.5, 0.1, ones=ones)
        assert 0 <= found <= acc.shuffled_delta(n, 1.5, 0.1) + 1e-16 * n
    assert acc.binary_delta(500, 1.5, 0.1, ones=499) <= acc.binary_delta(500, 1.5, 0.1)
    # what the theorem tells the observer besides costs no more than a third of epsilon
    assert acc.binary_delta(1000, 1.0, 0.1) > acc.shuffled_delta(1000, 1.0, 0.15)


def test_monotone_and_never_above_the_local_epsilon():
    sizes = (1, 2, 10, 100, 10_000, 1_000_000)
    epsilons = [acc.shuffled_epsilon(n, 3.0, DELTA) for n in sizes]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[0] <= 3.0
    assert epsilons[-1] < 0.03
    reports = (0.1, 0.5, 2.0, 5.0, 8.0, 12.0, 40.0)
    epsilons = [acc.shuffled_epsilon(10_000, e, DELTA) for e in reports]
    assert epsilons == sorted(epsilons) and all(np.array(epsilons) <= reports)
    deltas = [acc.shuffled_delta(1000, 3.0, e) for e in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0)]
    assert deltas == sorted(deltas, reverse=True) and deltas[-1] == 0.0


@pytest.mark.parametrize("n", [10, 1000, 100_000])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_the_local_epsilon_is_solved_from_the_crowd(n, epsilon):
    local = acc.local_epsilon_for(n, epsilon, DELTA)
    assert local >= epsilon
    assert acc.shuffled_epsilon(n, local, DELTA) <= epsilon * (1 + 1e-9)
    assert acc.shuffled_epsilon(n, local * 1.01, DELTA) > epsilon  # not much less than allowed


def test_extremes_stay_finite_and_claim_nothing():
    assert acc.shuffled_epsilon(10, 1000.0, DELTA) == pytest.approx(1000.0)
    assert acc.local_epsilon_for(10, 50.0, DELTA) == 50.0
    assert acc.shuffled_delta(10**9, 10.0, 0.1) < DELTA
    assert acc.shuffled_delta(10, 1.0, 1e6) == 0.0 == acc.binary_delta(10, 1.0, 1e6)
    refuses(ValueError, "ones must be given", acc.binary_delta, 10_000, 1.0, 0.1)
    refuses(ValueError, "ones must be from 0", acc.binary_delta, 10, 1.0, 0.1, ones=10)


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


def test_only_pure_reports_are_amplified():
    noise = mech.Gaussian(1.0, 5.0, "replace-one")
    refuses(ValueError, "reports must be pure", acc.Shuffled, (noise,), 10)
    refuses(ValueError, "reports must be pure", acc.Shuffled, (), 10)
    refuses(TypeError, "reports", acc.Shuffled, (1.0,), 10)
    laplace = mech.Laplace(1.0, 1.0, "add/remove")
    refuses(ValueError, "replace-one", acc.Shuffled, (laplace,), 10)
    refuses(ValueError, "n_users", acc.Shuffled, (RandomizedResponse(1.0),), 0)
