"""The audits catch what is broken, and leave alone what is right.

Statistical tests are seeded; each says how likely it is to fail for a correct audit.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedclust_helpers import audit
from fedclust_helpers.accounting import gdp_delta, gdp_mu
from fedclust_helpers.mechanisms import Gaussian, Laplace

DELTA = 1e-5
MU = gdp_mu(4.0, DELTA)  # the recipe's budget, epsilon = 4
RUNS = 4000


def generator(*key):
    return np.random.default_rng(list(key))


def noisy(exact, std):
    """A vectorised Gaussian release of one array, or of a tuple of arrays."""
    if not isinstance(exact, tuple):
        exact = np.asarray(exact, dtype=float)
        return lambda rng, n_runs: exact + std * rng.standard_normal((n_runs, *exact.shape))
    parts = [noisy(value, scale) for value, scale in zip(exact, std, strict=True)]
    return lambda rng, n_runs: tuple(part(rng, n_runs) for part in parts)


# --- A. noise scale -------------------------------------------------------------------------------

SUMS = np.arange(6.0).reshape(3, 2)
COUNTS = np.array([50.0, 70.0, 30.0])


def test_correct_noise_passes_per_query():
    # false alarm 1e-3
    result = audit.audit_noise_scale(
        noisy((SUMS, COUNTS), (2.0, 5.0)),
        (SUMS, COUNTS),
        (2.0, 5.0),
        names=("sums", "counts"),
        rng=generator(1),
    )
    assert result.passed
    assert [query.name for query in result.queries] == ["sums", "counts"]
    assert [query.n_coordinates for query in result.queries] == [6, 3]
    assert all(query.interval[0] < 1 < query.interval[1] for query in result.queries)
    assert str(result).startswith("noise scale audit (2000 runs, false alarm 0.001): passed")
    assert "sums: sd/claimed" in str(result)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 2)])
def test_a_factor_of_1_1_is_caught_in_both_directions(shape):
    # a scalar at 2000 runs misses with probability about 1e-3, more coordinates far less
    exact = np.zeros(shape)
    for repetition in range(5):
        little = audit.audit_noise_scale(
            noisy(exact, 1 / 1.1), exact, 1.0, rng=generator(2, repetition)
        )
        much = audit.audit_noise_scale(noisy(exact, 1.1), exact, 1.0, rng=generator(3, repetition))
        assert little.queries[0].too_little and not little.queries[0].too_much
        assert much.queries[0].too_much and not much.queries[0].too_little
        assert not little.passed and not much.passed
        assert "TOO LITTLE NOISE" in str(little) and "TOO MUCH NOISE" in str(much)


def test_only_the_wrong_query_is_blamed():
    # the query with correct noise raises an alarm with probability below 1e-3
    result = audit.audit_noise_scale(
        noisy((SUMS, COUNTS), (2.0, 2.5)), (SUMS, COUNTS), (2.0, 5.0), rng=generator(4)
    )
    assert result.queries[0].passed and result.queries[1].too_little
    assert result.queries[1].ratio == pytest.approx(0.5, rel=0.05)


def test_one_wrong_coordinate_is_found_although_the_pooled_ratio_hides_it():
    # 50 coordinates: the pooled ratio moves by 0.5 %, the coordinate itself by 9 standard errors
    exact, std = np.zeros((10, 5)), np.ones((10, 5))
    std[7, 3] = 0.75
    result = audit.audit_noise_scale(noisy(exact, std), exact, 1.0, rng=generator(5))
    assert result.queries[0].too_little
    assert result.queries[0].worst_coordinate == (7, 3)
    assert abs(result.queries[0].ratio - 1) < 0.02
    # with the true standard deviations as the claim, nothing is wrong (false alarm 1e-3)
    assert audit.audit_noise_scale(noisy(exact, std), exact, std, rng=generator(6)).passed


def shared_stream(rng, n_runs):
    """Sums and counts from one stream: the first normals of the sums are those of the counts."""
    normals = rng.standard_normal((n_runs, 6))
    return SUMS + 2.0 * normals.reshape(-1, 3, 2), COUNTS + 5.0 * normals[:, :3]


def test_queries_that_share_one_noise_stream_are_caught():
    arguments = (shared_stream, (SUMS, COUNTS), (2.0, 5.0))
    result = audit.audit_noise_scale(*arguments, rng=generator(7))
    assert result.correlated and not result.passed and "DEPENDENT" in str(result)
    assert result.max_correlation == pytest.approx(1.0)
    assert all(query.passed for query in result.queries)  # each query alone looks right
    # dependence that is declared is no fault, and is reported as not tested (false alarm 1e-3)
    declared = audit.audit_noise_scale(*arguments, independent=False, rng=generator(8))
    assert declared.passed and math.isnan(declared.max_correlation)
    assert "not tested" in str(declared)


def test_declared_dependence_still_catches_the_scale():
    result = audit.audit_noise_scale(
        shared_stream, (SUMS, COUNTS), (2.0, 5.6), independent=False, rng=generator(9)
    )
    assert result.queries[0].passed and result.queries[1].too_little


def test_the_same_noise_in_every_run_is_caught():
    frozen = np.random.default_rng(0).standard_normal(3)
    result = audit.audit_noise_scale(
        lambda rng, n_runs: np.tile(frozen, (n_runs, 1)), np.zeros(3), 1.0, rng=generator(10)
    )
    assert result.queries[0].too_little and result.queries[0].biased
    assert result.queries[0].ratio == pytest.approx(0.0, abs=1e-12)


def test_a_shift_is_reported_as_bias_and_not_as_noise():
    # 0.2 standard deviations are 8.9 standard errors at 2000 runs
    result = audit.audit_noise_scale(noisy(0.2, 1.0), 0.0, 1.0, rng=generator(11))
    assert result.queries[0].biased and "BIASED" in str(result)
    assert not result.queries[0].too_little and not result.queries[0].too_much


def test_interval_is_the_chi_square_interval():
    drawn = generator(12).standard_normal(200)
    query = audit.audit_noise_scale(
        lambda rng, n_runs: drawn, 0.0, 1.0, n_runs=200, false_alarm=0.02, rng=generator(0)
    ).queries[0]
    # one scalar query: half of the false alarm goes to the scale, half to the bias
    spread = 199 * drawn.var(ddof=1)
    assert query.interval == pytest.approx(
        (
            math.sqrt(spread / stats.chi2.isf(0.005, 199)),
            math.sqrt(spread / stats.chi2.ppf(0.005, 199)),
        )
    )
    assert query.bias == pytest.approx(abs(stats.ttest_1samp(drawn, 0.0).statistic))


@pytest.mark.parametrize(("kind", "kurtosis"), [("gaussian", 0.0), ("laplace", 3.0)])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_false_alarm_rate_is_the_stated_one(kind, kurtosis, shape):
    # 300 audits at false alarm 0.05: more than 32 alarms have probability 5e-5 at 0.05 (Laplace is
    # approximate: 1e-3 at 0.06)
    rng = generator(13, len(shape), int(kurtosis))

    def release(rng, n_runs):
        if kind == "gaussian":
            return rng.standard_normal((n_runs, *shape))
        return rng.laplace(scale=math.sqrt(0.5), size=(n_runs, *shape))

    alarms = sum(
        not audit.audit_noise_scale(
            release,
            np.zeros(shape),
            1.0,
            n_runs=1000,
            false_alarm=0.05,
            excess_kurtosis=kurtosis,
            rng=rng,
        ).passed
        for _ in range(300)
    )
    assert alarms <= 32


def test_laplace_noise_needs_its_kurtosis():
    # Of 3000 correct Laplace releases 4.7 % fail at false alarm 0.05, and 22 % if the noise is
    # taken for Gaussian. Each side of the assertion fails with a probability of about 1e-4.
    mechanism = Laplace(sensitivity=1.0, scale=2.0)

    def alarms(kurtosis):
        return sum(
            not audit.audit_noise_scale(
                lambda rng, n_runs: mechanism.sample((n_runs, 2), rng=rng),
                np.zeros(2),
                mechanism.std,
                false_alarm=0.05,
                excess_kurtosis=kurtosis,
                rng=generator(14, repetition),
            ).passed
            for repetition in range(300)
        )

    assert alarms(3.0) <= 32 and alarms(0.0) > 40


def test_one_run_at_a_time_gives_the_same_audit():
    vectorised = audit.audit_noise_scale(noisy(SUMS, 2.0), SUMS, 2.0, n_runs=300, rng=generator(15))
    single = audit.audit_noise_scale(
        lambda rng: SUMS + 2.0 * rng.standard_normal(SUMS.shape),
        SUMS,
        2.0,
        n_runs=300,
        vectorized=False,
        rng=generator(15),
    )
    assert single == vectorised


def test_inputs_are_not_changed_and_integers_work():
    exact = np.array([3, 4])
    exact.setflags(write=False)
    # false alarm 1e-3
    assert audit.audit_noise_scale(noisy(exact, 2.0), exact, 2, rng=generator(16)).passed
    assert exact.tolist() == [3, 4]


# --- B. sensitivity -------------------------------------------------------------------------------

CENTERS = np.array([[-0.5, -0.5], [0.5, 0.4], [-0.3, 0.6]])
RADIUS = 0.4


def relative_sums(points):
    """Sums of differences to the nearest centre, over points within RADIUS of it."""
    differences = points[:, None] - CENTERS
    squared = (differences**2).sum(axis=2)
    labels = squared.argmin(axis=1)
    inside = squared.min(axis=1) <= RADIUS**2
    sums = np.zeros_like(CENTERS)
    np.add.at(sums, labels[inside], differences[np.arange(len(points)), labels][inside])
    return sums


def counts(points):
    return np.bincount(
        ((points[:, None] - CENTERS) ** 2).sum(axis=2).argmin(axis=1), minlength=len(CENTERS)
    )


def box(rng):
    return rng.uniform(-1, 1, size=(50, 2))


def add_one(points, rng):
    return np.vstack([points, rng.uniform(-1, 1, size=(1, 2))])


def replace_one(points, rng):
    return np.vstack([points[1:], rng.uniform(-1, 1, size=(1, 2))])


def test_relative_sums_keep_their_sensitivity_for_add_remove():
    pairs = list(audit.random_neighbours(box, add_one, 300, rng=generator(20)))
    worst = np.array([[0.5 + RADIUS * (1 - 1e-7), 0.4]])  # the analytic worst point
    pairs.append((pairs[0][0], np.vstack([pairs[0][0], worst])))
    result = audit.audit_sensitivity(relative_sums, pairs, RADIUS)
    assert result.passed and result.n_pairs == 301
    assert result.worst_index == (300,)
    assert result.ratio[0] == pytest.approx(1.0, abs=1e-6)
    assert str(result).startswith("sensitivity audit (301 pairs): passed")


def test_relative_sums_break_the_same_claim_under_replace_one():
    base = box(generator(21))
    left = np.vstack([base, [[0.5 - RADIUS * (1 - 1e-7), 0.4]]])
    right = np.vstack([base, [[0.5 + RADIUS * (1 - 1e-7), 0.4]]])
    result = audit.audit_sensitivity(relative_sums, [(left, right)], RADIUS)
    assert not result.passed and "FAILED" in str(result)
    assert result.ratio[0] == pytest.approx(2.0, abs=1e-6)
    assert audit.audit_sensitivity(relative_sums, [(left, right)], 2 * RADIUS).passed
    # random pairs alone show it too: 300 pairs, the largest is at least 1.2 times the claim
    pairs = audit.random_neighbours(box, replace_one, 300, rng=generator(22))
    assert audit.audit_sensitivity(relative_sums, pairs, RADIUS).ratio[0] > 1.2


def test_tuple_claims_are_checked_query_by_query():
    def statistic(points):
        return relative_sums(points), counts(points)

    pairs = list(audit.random_neighbours(box, add_one, 100, rng=generator(23)))
    result = audit.audit_sensitivity(statistic, pairs, (RADIUS, 0.5))
    assert len(result.ratio) == 2 and not result.passed
    assert result.ratio[0] <= 1 and result.ratio[1] == 2.0
    # one number is a claim about both together, in the joint norm
    assert audit.audit_sensitivity(statistic, pairs, math.hypot(RADIUS, 1.0)).passed
    assert not audit.audit_sensitivity(statistic, pairs, 1.0).passed
    # and each query may have a norm of its own
    mixed = audit.audit_sensitivity(
        statistic, pairs, (math.sqrt(2) * RADIUS, 1.0), norm=(1, math.inf)
    )
    assert mixed.passed


def test_a_move_between_two_clusters_exceeds_a_joint_claim():
    # two sums move by 2C and by C: sqrt(5) C in all, where 2C was claimed
    left, right = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, 0.0]])
    result = audit.audit_sensitivity(lambda sums: sums, [(left, right)], 2.0)
    assert result.worst == pytest.approx((math.sqrt(5),)) and not result.passed


def test_a_plain_sum_with_dummies_for_empty_clusters_exceeds_its_claim():
    # an empty cluster reports its old centre, so that the first point changes the sum by x - centre
    centre = np.array([-0.95, -0.95])

    def with_dummy(points):
        return points.sum(axis=0) if len(points) else centre

    pair = (np.empty((0, 2)), np.array([[1.0, 1.0]]))
    assert not audit.audit_sensitivity(with_dummy, [pair], math.sqrt(2)).passed


def test_zero_claims_and_slack():
    pairs = [(1.0, 2.0)]
    assert audit.audit_sensitivity(lambda x: 3.0, pairs, 0.0).ratio == (0.0,)
    assert audit.audit_sensitivity(lambda x: 3.0, pairs, 0.0).passed
    moved = audit.audit_sensitivity(lambda x: x, pairs, 0.0)
    assert moved.ratio == (math.inf,) and not moved.passed
    assert not audit.audit_sensitivity(lambda x: x, pairs, 0.99).passed
    assert audit.audit_sensitivity(lambda x: x, pairs, 0.99, slack=0.02).passed


@given(st.floats(0.1, 1e6), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_ratio_does_not_depend_on_the_unit(factor, seed):
    rng = np.random.default_rng(seed)
    pairs = [(rng.normal(size=(3, 2)), rng.normal(size=(3, 2))) for _ in range(3)]
    once = audit.audit_sensitivity(lambda x: x.sum(axis=0), pairs, 1.0)
    scaled = audit.audit_sensitivity(lambda x: factor * x.sum(axis=0), pairs, factor)
    assert scaled.ratio == pytest.approx(once.ratio)
    assert scaled.worst_index == once.worst_index


@pytest.mark.parametrize("seed", range(3))
def test_search_reaches_the_analytic_worst_point(seed):
    data = box(generator(24, seed))
    data.setflags(write=False)
    result = audit.search_sensitivity(relative_sums, data, (-1, 1), RADIUS, rng=generator(25, seed))
    assert result.passed and result.ratio[0] > 0.999
    (record,) = result.records
    assert np.linalg.norm(record - CENTERS, axis=1).min() == pytest.approx(RADIUS, rel=1e-3)
    # the reported change is that of the reported record
    again = audit.audit_sensitivity(relative_sums, [(data, np.vstack([data, record]))], RADIUS)
    assert again.worst == result.worst


def test_search_refutes_the_claim_under_replace_one():
    data = box(generator(26))
    result = audit.search_sensitivity(
        relative_sums,
        data,
        (np.full(2, -1.0), np.full(2, 1.0)),
        RADIUS,
        adjacency="replace-one",
        rng=generator(27),
    )
    assert not result.passed and 1.8 < result.ratio[0] <= 2.0 + 1e-9
    assert len(result.records) == 2


def test_search_without_climbs_is_the_random_search():
    data = box(generator(28))
    arguments = {"n_random": 50, "n_climbs": 0}
    result = audit.search_sensitivity(
        relative_sums, data, (-1, 1), RADIUS, **arguments, rng=generator(29)
    )
    assert result.n_pairs == 50
    climbed = audit.search_sensitivity(
        relative_sums, data, (-1, 1), RADIUS, n_random=50, n_climbs=2, n_steps=40, rng=generator(29)
    )
    assert climbed.n_pairs == 130 and climbed.ratio[0] >= result.ratio[0]


def test_random_neighbours_are_reproducible():
    first = list(audit.random_neighbours(box, add_one, 3, rng=generator(30)))
    second = list(audit.random_neighbours(box, add_one, 3, rng=generator(30)))
    assert len(first) == 3
    for (a, b), (c, d) in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


# --- C. canary ------------------------------------------------------------------------------------


def test_clopper_pearson_agrees_with_scipy():
    hits = np.arange(31)
    lower, upper = audit.clopper_pearson(hits, 30, tail=0.025)
    for k in hits:
        interval = stats.binomtest(int(k), 30).proportion_ci(0.95, method="exact")
        assert (lower[k], upper[k]) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert audit.clopper_pearson(1, 1, tail=0.1) == (pytest.approx(0.1), 1.0)


def test_bounds_are_the_printed_formula():
    # one threshold only: the scores take two values, with 900 and 100 ones of 1000 counted runs
    with_ = np.tile(np.r_[np.zeros(1), np.ones(9)], 200)
    without = np.tile(np.r_[np.ones(1), np.zeros(9)], 200)
    result = audit.audit_canary(without, with_, delta=0.01)
    low = stats.binomtest(900, 1000).proportion_ci(0.95, method="exact").low
    high = stats.binomtest(100, 1000).proportion_ci(0.95, method="exact").high
    assert result.epsilon_lower_bound == pytest.approx(math.log((low - 0.01) / high))
    assert result.mu_lower_bound == pytest.approx(
        stats.norm.ppf(1 - high) - stats.norm.ppf(1 - low)
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_both_directions_are_found(sign):
    rng = generator(40)
    without, with_ = rng.standard_normal(RUNS), sign * 2.0 + rng.standard_normal(RUNS)
    for pair in ((without, with_), (with_, without)):
        result = audit.audit_canary(*pair)
        assert 1.6 < result.mu_lower_bound < 2.1
        assert result.epsilon_lower_bound > 2.0


SUM = np.full(5, 12.0)
CANARY = np.eye(5)[2]  # the added record, of norm 1


def gaussian_sum_audit(factor, repetition, **claims):
    """Audit a Gaussian sum: claimed standard deviation 1/MU, real one `factor` times that."""
    std = 1 / MU
    return audit.audit_release(
        noisy(SUM, factor * std),
        noisy(SUM + CANARY, factor * std),
        SUM,
        SUM + CANARY,
        std,
        n_runs=RUNS,
        delta=DELTA,
        **claims,
        rng=generator(41, repetition),
    )


def test_recipe_passes_correct_noise_and_catches_a_halved_one():
    # Correct: an alarm has probability at most 5 %, measured 0.33 % of 3000, so 6 % for one of 20.
    # Halved: the bound is 1.85 mu with a standard deviation of 0.06 mu, lowest of 3000: 1.56 mu.
    correct = [gaussian_sum_audit(1.0, seed, claimed_mu=MU) for seed in range(20)]
    halved = [gaussian_sum_audit(0.5, seed, claimed_mu=MU) for seed in range(20)]
    assert all(result.passed for result in correct)
    assert all(result.mu_alarm and not result.passed for result in halved)
    assert 0.75 < np.mean([result.mu_lower_bound for result in correct]) / MU < 0.95
    assert 1.65 < np.mean([result.mu_lower_bound for result in halved]) / MU < 1.95
    assert "mu >= " in str(halved[0]) and "ALARM" in str(halved[0])
    assert "passed" in str(correct[0])


def test_epsilon_bound_catches_a_halved_noise_with_many_runs():
    # the bound is 4.76 with a standard deviation of 0.23, lowest of 60: 4.26
    rng = generator(42)
    size = 100_000
    without, shifted = rng.standard_normal(size), 2 * MU + rng.standard_normal(size)
    result = audit.audit_canary(without, shifted, delta=DELTA, claimed_epsilon=4.0)
    assert result.epsilon_alarm and not result.mu_alarm and not result.passed
    correct = audit.audit_canary(
        without, shifted - MU, delta=DELTA, claimed_epsilon=4.0, claimed_mu=MU
    )
    assert correct.passed  # false alarm at most 10 %, in practice below 1 %


@pytest.mark.parametrize("size", [400, RUNS])
def test_bounds_exceed_the_truth_no_more_often_than_stated(size):
    # Stated: at most 5 % for each bound. At exactly 5 %, more than 38 of 400 has probability 7e-5;
    # the measured rate for mu is 0.3 %.
    rng = generator(43, size)
    too_high = np.zeros(2, dtype=int)
    mu = 1.0
    for _ in range(400):
        result = audit.audit_canary(
            rng.standard_normal(size), mu + rng.standard_normal(size), delta=gdp_delta(mu, 1.0)
        )
        too_high += (result.mu_lower_bound > mu, result.epsilon_lower_bound > 1.0)
    assert (too_high <= 38).all()


def test_laplace_stays_below_its_epsilon_and_a_smaller_claim_is_refuted():
    # 30 audits at exactly epsilon = 1, at most 5 % false alarms each (measured 0.7 %): more than 7
    # has probability 1e-4 at most
    mechanism = Laplace(sensitivity=1.0, scale=1.0)
    results = []
    for repetition in range(30):
        rng = generator(44, repetition)
        scores = [shift + mechanism.sample(RUNS, rng=rng) for shift in (0.0, 1.0)]
        results.append(audit.audit_canary(*scores, claimed_epsilon=1.0))
    assert sum(result.epsilon_alarm for result in results) <= 7
    assert np.mean([result.epsilon_lower_bound for result in results]) > 0.7
    halved = [2.0 * shift + mechanism.sample(RUNS, rng=generator(45, shift)) for shift in (0, 1)]
    assert audit.audit_canary(*halved, claimed_epsilon=1.0).epsilon_alarm


def test_randomised_response_with_tied_scores():
    # epsilon = ln 3: the scores take two values only; false alarm at most 5 %
    rng = generator(46)
    kept = rng.random((2, 20_000)) < 0.75
    without, with_ = np.where(kept[0], 0, 1), np.where(kept[1], 1, 0)
    result = audit.audit_canary(without, with_, claimed_epsilon=math.log(3))
    assert result.passed
    assert 0.95 * math.log(3) < result.epsilon_lower_bound


def test_equal_data_sets_give_nothing():
    # nothing can be told apart: both bounds are 0 except with probability 5 % each
    rng = generator(47)
    result = audit.audit_canary(rng.standard_normal(RUNS), rng.standard_normal(RUNS))
    assert result.epsilon_lower_bound == result.mu_lower_bound == 0.0


def test_constant_scores_and_tiny_samples_are_harmless():
    flat = audit.audit_canary([1.0] * 10, [1.0] * 10, claimed_mu=1.0)
    assert flat.mu_lower_bound == flat.epsilon_lower_bound == 0.0 and flat.passed
    tiny = audit.audit_canary([0.0, 0.0], [1.0, 1.0], claimed_mu=1.0)
    assert tiny.mu_lower_bound == 0.0


def test_disjoint_scores_give_the_largest_bound_the_runs_allow():
    # a release without noise: 1000 counted runs, none on the wrong side
    result = audit.audit_canary(np.zeros(2000), np.ones(2000), claimed_epsilon=4.0)
    edge = 0.025 ** (1 / 1000)
    assert result.epsilon_lower_bound == pytest.approx(math.log(edge / (1 - edge)))
    assert result.epsilon_alarm


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_only_the_order_of_the_scores_matters(seed):
    rng = np.random.default_rng(seed)
    without, with_ = rng.standard_normal(300), 1.0 + rng.standard_normal(300)
    once = audit.audit_canary(without, with_, delta=1e-3, claimed_mu=1.0)
    assert audit.audit_canary(np.exp(without), np.exp(with_), delta=1e-3, claimed_mu=1.0) == once


def test_no_claim_is_no_pass():
    rng = generator(48)
    result = audit.audit_canary(rng.standard_normal(100), rng.standard_normal(100))
    assert not result.passed and not result.mu_alarm and not result.epsilon_alarm
    assert "no claim tested" in str(result)


def signed_report(sign, std):
    """One user's report in a heavy-sums oracle: a sign that depends on x, times g(x), plus noise.

    Here g(x) = 0.55, the far end of a set of diameter 0.1 around 0.5.
    """
    exact = sign * 0.55
    return lambda rng, n_runs: exact + std * rng.standard_normal(n_runs), exact


def test_local_oracle_calibrated_to_the_diameter_is_exposed():
    # The claim: sensitivity 2 * diameter = 0.2 and the classic Gaussian at epsilon 1, delta 1e-6.
    # The truth: the sign flips, so a report moves by up to 1.1, mu = 1.04 and epsilon about 5.1.
    # Over 200 runs the lowest bounds were mu >= 0.84 (claimed 0.19) and epsilon >= 1.7.
    delta, claimed_sensitivity = 1e-6, 0.2
    std = math.sqrt(2 * math.log(1.25 / delta)) * claimed_sensitivity / 1.0
    (release_0, exact_0), (release_1, exact_1) = [signed_report(sign, std) for sign in (1, -1)]
    assert audit.canary_mu(exact_0, exact_1, std) == pytest.approx(1.04, abs=0.01)
    result = audit.audit_release(
        release_0,
        release_1,
        exact_0,
        exact_1,
        std,
        n_runs=20_000,
        delta=delta,
        claimed_epsilon=1.0,
        claimed_mu=claimed_sensitivity / std,
        rng=generator(49),
    )
    assert result.epsilon_alarm and result.mu_alarm
    # no noise is needed to see it
    moved = audit.audit_sensitivity(lambda exact: exact, [(exact_0, exact_1)], claimed_sensitivity)
    assert moved.ratio[0] == pytest.approx(5.5)
    # and the noise itself is what was claimed: only step A is content (false alarm 1e-3)
    assert audit.audit_noise_scale(release_0, exact_0, std, rng=generator(50)).passed


def test_wrong_counts_hide_in_the_joint_score_and_show_alone():
    # split of mu = 1 in d = 2: counts hold 1/(1 + sqrt 8) of mu^2. Their noise is halved.
    share = 1 / (1 + math.sqrt(8))
    stds = (RADIUS / math.sqrt(1 - share), 1 / math.sqrt(share))
    moved = SUMS.copy()
    moved[1] += [RADIUS, 0.0]
    exact = ((SUMS, COUNTS), (moved, COUNTS + np.eye(3)[1]))
    assert audit.canary_mu(*exact, stds) == pytest.approx(1.0)
    broken = [noisy(value, (stds[0], stds[1] / 2)) for value in exact]

    def run(query, claim):
        return audit.audit_release(
            *broken, *exact, stds, n_runs=RUNS, query=query, claimed_mu=claim, rng=generator(51)
        )

    # The joint bound is 0.99 with a standard deviation of 0.05, so it alarms less than half the
    # time; alone it is 0.89 against a claim of 0.51, lowest of 500: 0.59.
    assert run(None, 1.0).mu_lower_bound < 1.2
    assert run(0, math.sqrt(1 - share)).passed  # false alarm 0.3 %
    assert run(1, math.sqrt(share)).mu_alarm
    # step A names the query at once
    scale = audit.audit_noise_scale(broken[0], exact[0], stds, rng=generator(52))
    assert scale.queries[0].passed and scale.queries[1].too_little


def test_scores_are_standard_normal_if_the_claims_hold():
    exact = ((SUMS, COUNTS), (SUMS + 0.3, COUNTS + 1.0))
    stds = (np.linspace(0.5, 2.0, 6).reshape(3, 2), 4.0)
    mu = audit.canary_mu(*exact, stds)
    for value, centre in zip(exact, (0.0, mu), strict=True):
        # 25 000 runs cross two batch boundaries; Kolmogorov-Smirnov at 1e-4 each
        scores = audit.canary_scores(
            noisy(value, stds), *exact, stds, n_runs=25_000, rng=generator(53, int(centre > 0))
        )
        assert stats.kstest(scores, stats.norm(loc=centre).cdf).pvalue > 1e-4


def test_scores_one_run_at_a_time():
    def one(rng):
        return SUM + rng.standard_normal(5)

    arguments = (SUM, SUM + CANARY, 1.0)
    single = audit.canary_scores(one, *arguments, n_runs=50, vectorized=False, rng=generator(54))
    batch = audit.canary_scores(noisy(SUM, 1.0), *arguments, n_runs=50, rng=generator(54))
    np.testing.assert_allclose(single, batch)


def test_the_packages_gaussian_passes_all_three_steps():
    # false alarm 1e-3 in step A, none in B, 0.3 % in C; the bound is 0.86 mu on average with a
    # standard deviation of 0.06 mu, and the lowest of 400 was 0.61 mu
    mechanism = Gaussian.from_budget(sensitivity=RADIUS, epsilon=4.0, delta=DELTA)
    data = box(generator(55))
    worst = np.vstack([data, [[0.5 + RADIUS * (1 - 1e-7), 0.4]]])
    exact = [relative_sums(points) for points in (data, worst)]

    def release(value):
        return lambda rng, n_runs: value + mechanism.sample((n_runs, *value.shape), rng=rng)

    assert audit.audit_noise_scale(
        release(exact[0]), exact[0], mechanism.std, rng=generator(56)
    ).passed
    assert audit.audit_sensitivity(relative_sums, [(data, worst)], mechanism.sensitivity).passed
    result = audit.audit_release(
        release(exact[0]),
        release(exact[1]),
        *exact,
        mechanism.std,
        claimed_mu=mechanism.gdp_mu,
        rng=generator(57),
    )
    assert result.passed and result.mu_lower_bound > 0.5 * mechanism.gdp_mu


# --- wrong use ------------------------------------------------------------------------------------


def scale_audit(**changes):
    arguments = {
        "release": noisy(np.zeros(3), 1.0),
        "exact": np.zeros(3),
        "claimed_std": 1.0,
        "rng": generator(0),
    } | changes
    return audit.audit_noise_scale(**arguments)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"rng": 0}, TypeError, "rng"),
        ({"n_runs": 9}, ValueError, "n_runs"),
        ({"n_runs": 20.0}, TypeError, "n_runs"),
        ({"false_alarm": 0.0}, ValueError, "false_alarm"),
        ({"excess_kurtosis": -1.0}, ValueError, "excess_kurtosis"),
        ({"claimed_std": 0.0}, ValueError, "claimed_std"),
        ({"claimed_std": math.nan}, ValueError, "claimed_std"),
        ({"claimed_std": np.ones(2)}, ValueError, "claimed_std"),
        ({"claimed_std": (1.0, 1.0)}, ValueError, "claimed_std"),
        ({"exact": ()}, ValueError, "exact"),
        ({"exact": np.zeros(0)}, ValueError, "exact"),
        ({"exact": "a"}, TypeError, "exact"),
        ({"exact": np.zeros(2)}, ValueError, "release"),
        ({"release": lambda rng, n_runs: np.full((n_runs, 3), math.nan)}, ValueError, "release"),
        ({"release": lambda rng, n_runs: np.zeros((3, n_runs))}, ValueError, "release"),
        ({"names": ("a", "b")}, ValueError, "names"),
        ({"names": "sums"}, ValueError, "names"),
    ],
)
def test_noise_scale_refuses(changes, error, match):
    with pytest.raises(error, match=match):
        scale_audit(**changes)


def test_a_release_that_changes_its_shape_is_refused():
    sizes = iter([3, 4] * 10)
    with pytest.raises(ValueError, match="same shapes"):
        scale_audit(release=lambda rng: np.zeros(next(sizes)), vectorized=False, n_runs=10)


@pytest.mark.parametrize(
    ("arguments", "keywords", "match"),
    [
        ((relative_sums, [], 1.0), {}, "neighbours"),
        ((relative_sums, [(CENTERS, CENTERS)], -1.0), {}, "claimed"),
        ((relative_sums, [(CENTERS, CENTERS)], (1.0, 1.0)), {}, "claimed"),
        ((relative_sums, [(CENTERS, CENTERS)], 1.0), {"norm": 0.5}, "norm"),
        ((relative_sums, [(CENTERS, CENTERS)], 1.0), {"norm": (1, 2)}, "norm"),
        ((relative_sums, [(CENTERS, CENTERS)], 1.0), {"slack": -0.1}, "slack"),
        ((lambda x: x, [(CENTERS, CENTERS[:2])], 1.0), {}, "statistic"),
        ((lambda x: math.inf, [(CENTERS, CENTERS)], 1.0), {}, "statistic"),
    ],
)
def test_sensitivity_refuses(arguments, keywords, match):
    with pytest.raises(ValueError, match=match):
        audit.audit_sensitivity(*arguments, **keywords)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"data": np.zeros(3)}, ValueError, "data"),
        ({"bounds": (1.0, -1.0)}, ValueError, "bounds"),
        ({"bounds": (np.zeros(3), 1.0)}, ValueError, "bounds"),
        ({"bounds": 1.0}, ValueError, "bounds"),
        ({"adjacency": "replace"}, ValueError, "adjacency"),
        ({"n_random": 0}, ValueError, "n_random"),
        ({"n_climbs": 301}, ValueError, "n_climbs"),
        ({"n_steps": -1}, ValueError, "n_steps"),
        ({"rng": None}, TypeError, "rng"),
    ],
)
def test_search_refuses(changes, error, match):
    arguments = {
        "statistic": relative_sums,
        "data": CENTERS,
        "bounds": (-1.0, 1.0),
        "claimed": RADIUS,
        "rng": generator(0),
    } | changes
    with pytest.raises(error, match=match):
        audit.search_sensitivity(**arguments)


def test_random_neighbours_refuses_at_once():
    with pytest.raises(ValueError, match="n_pairs"):
        audit.random_neighbours(box, add_one, 0, rng=generator(0))
    with pytest.raises(TypeError, match="rng"):
        audit.random_neighbours(box, add_one, 1, rng=np.random)


@pytest.mark.parametrize(
    ("scores", "keywords", "match"),
    [
        (([0.0], [0.0, 1.0]), {}, "scores_without"),
        (([0.0, 1.0], [[0.0, 1.0]]), {}, "scores_with"),
        (([0.0, 1.0], [0.0, math.nan]), {}, "scores_with"),
        (([0.0, 1.0], [0.0, 1.0]), {"confidence": 1.0}, "confidence"),
        (([0.0, 1.0], [0.0, 1.0]), {"delta": 1.0}, "delta"),
        (([0.0, 1.0], [0.0, 1.0]), {"claimed_mu": 0.0}, "claimed_mu"),
        (([0.0, 1.0], [0.0, 1.0]), {"claimed_epsilon": math.inf}, "claimed_epsilon"),
    ],
)
def test_canary_refuses(scores, keywords, match):
    with pytest.raises(ValueError, match=match):
        audit.audit_canary(*scores, **keywords)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"exact_with": SUM}, ValueError, "exact_with must differ"),
        ({"exact_with": np.zeros(4)}, ValueError, "exact_with"),
        ({"query": 1}, ValueError, "query"),
        ({"n_runs": 1}, ValueError, "n_runs"),
        ({"claimed_mu": -1.0}, ValueError, "claimed_mu"),
        ({"rng": 1}, TypeError, "rng"),
    ],
)
def test_audit_release_refuses_before_anything_is_released(changes, error, match):
    def never(rng, n_runs):
        raise AssertionError("the release must not run")

    arguments = {
        "release_without": never,
        "release_with": never,
        "exact_without": SUM,
        "exact_with": SUM + CANARY,
        "claimed_std": 1.0,
        "rng": generator(0),
    } | changes
    with pytest.raises(error, match=match):
        audit.audit_release(**arguments)


@pytest.mark.parametrize(
    ("arguments", "match"), [((3, 0), "trials"), ((3, 2), "successes"), ((0.5, 2), "successes")]
)
def test_clopper_pearson_refuses(arguments, match):
    with pytest.raises(ValueError, match=match):
        audit.clopper_pearson(*arguments, tail=0.1)
    with pytest.raises(ValueError, match="tail"):
        audit.clopper_pearson(1, 2, tail=0.0)
