"""RR-Cluster, sums only and the baselines, on problems where the answer is known.

Statistical tests use fixed seeds and state the probability of a false alarm.
"""

import math
from typing import Any

import numpy as np
import pytest
from conftest import refuses, words_uniform_p
from hypothesis import given
from hypothesis import strategies as st
from rr_cases import (
    DATA,
    GROUPS,
    MODEL,
    C,
    P,
    Table,
    clients,
    dp_fedavg,
    dp_fedper,
    federation,
    planned,
    rr_cluster,
    sums_only,
    table_rows,
)
from scipy import stats

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
)
from fedclust_helpers.client_statistics.models import batch_of
from fedclust_helpers.federation import ClientData
from fedclust_helpers.program import Members, SumsOf
from fedclust_helpers.rr_cluster.sums_only import Reseeding
from fedclust_helpers.secure_aggregation import RingOverflowError

pytestmark = pytest.mark.slow

RUN: dict[str, Any] = {"n_rounds": 6, "delta": 1e-3, "cohort": 40, "clip": 0.5}
FAR = np.zeros((2, MODEL.n_parameters))  # the second is nobody's least loss
FAR[1, -C:], FAR[1, 0] = [50.0, -50.0, 0.0], 30.0
FAR.flags.writeable = False


def drawn(sampling="fixed", seed=1):
    """The 40 of 60 clients of the first round."""
    draws = np.random.default_rng(np.random.SeedSequence(seed).spawn(5)[4])
    if sampling == "poisson":
        return np.flatnonzero(draws.random(60) < 40 / 60)
    return np.sort(draws.choice(60, 40, replace=False))


def coins():
    """The public randomness of the seeded federation."""
    return np.random.default_rng(np.random.SeedSequence(1).spawn(5)[0])


def batch_for(data=DATA):
    return batch_of(data.points, data.offsets, data.labels)


# --- rebalancing ----------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    min_size=st.integers(0, 12),
    seed=st.integers(0, 2**31),
)
def test_strict_rebalancing(sizes, min_size, seed):
    k, m = len(sizes), sum(sizes)
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.repeat(np.arange(k), sizes))
    state, before = rng.bit_generator.state, clusters.copy()
    out = rr.rebalance(clusters, k, min_size, rng=rng)
    assert np.array_equal(clusters, before)
    wanted = min(min_size, m // k)
    after = np.bincount(out, minlength=k)
    assert len(out) == m and after.sum() == m
    if min(sizes) >= wanted:  # nothing is short: nobody moves and no coin is thrown
        assert np.array_equal(out, before) and rng.bit_generator.state == state
    else:
        assert after.min() >= wanted
        # only as many move as are missing, from clusters that can spare them
        missing = np.maximum(wanted - np.array(sizes), 0)
        assert (out != before).sum() == missing.sum()
        assert (after[missing > 0] == wanted).all()
        assert (np.array(sizes)[np.unique(before[out != before])] > wanted).all()


# --- identifiers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "s", "expected"), [(2, 0.5, 0.921), (2, 1.5, 0.681),
                                                   (4, 0.5, 0.823), (4, 2.15, 0.383)])  # fmt: skip
@pytest.mark.parametrize("kind", ["printed", "corrected"])
def test_probability_of_the_right_identifier(rng, k, s, expected, kind):
    # the table of the notes by exact quadrature, to three digits; false alarm 1e-4
    rows = table_rows(rng.integers(0, k, 2000), np.zeros((2000, 2)), k)
    f = federation(ClientData(rows, np.arange(2001)))
    sigma = s / (1 if kind == "printed" else math.sqrt(2))
    made = planned(
        rr.plan, f, Table(k, 2), n_clusters=k, sigma=sigma / math.sqrt(2), identifiers=kind,
        initial=np.zeros((k, 2)), **RUN | {"cohort": 2000, "n_rounds": 10},
    )  # fmt: skip
    assert made.mechanisms[0][0].sensitivity == math.sqrt(2)  # of two identifiers
    assert made.mechanisms[0][0].std == pytest.approx(s) and made.mechanisms[0][0].gdp_mu == (
        pytest.approx(math.sqrt(2) / s)
    )
    right = 20_000 * (1 - rr.diagnose(f, made)[1].flip_rate.mean())
    interval = stats.binom.interval(1 - 1e-4, 20_000, expected)
    assert interval[0] - 10 <= right <= interval[1] + 10


def test_randomised_answers(rng):
    true = rng.integers(0, 4, 40_000)
    exact, epsilon = np.eye(4)[true], 1.3
    answer = rr.RandomAnswer("krr", epsilon)
    got = answer.answer(exact, rng=np.random.default_rng(5))
    keep = math.exp(epsilon) / (math.exp(epsilon) + 3)
    assert stats.binomtest(int((got == true).sum()), len(true), keep).pvalue > 1e-4
    others = np.bincount((got - true)[got != true] % 4, minlength=4)[1:]
    assert stats.chisquare(others).pvalue > 1e-4
    # one wrong answer against the right one: exactly epsilon
    assert np.isclose(math.log(keep / ((1 - keep) / 3)), answer.pure_epsilon)
    # the exponential mechanism wastes a factor 2
    twice = rr.RandomAnswer("exponential", 2 * epsilon)
    assert np.array_equal(twice.answer(exact, rng=np.random.default_rng(5)), got)
    assert twice.pure_epsilon == 2 * epsilon
    # and the ledger knows their pure total
    ledger = PrivacyLedger(unit="client", adjacency="replace-one")
    ledger.charge([answer], name="answers")
    assert ledger.epsilon(0.0) == epsilon and ledger.epsilon(1e-3) <= epsilon
    refuses(TypeError, "use answer", answer.sample, 3, rng=rng)


# --- Algorithm 2 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clusterer", ["ifca", "fesem", "fedcam"])
def test_no_server_needs_to_be_trusted_where_everybody_takes_part(clusterer):
    """Under masks: the trusted run, with the same noise; the server has noised numbers and words.

    False alarm 1e-6.
    """
    run = RUN | {"cohort": 60, "sigma": 2.0, "clusterer": clusterer}
    ours, theirs = (
        rr_cluster(federation(keep_payloads=True, **t), MODEL, n_clusters=3, min_size=18, **run)
        for t in ({"trust": "masked", "noise_from": "server"}, {"trust": "trusted"})
    )
    assert np.abs(ours.models - theirs.models).max() < 1e-6
    assert math.isclose(ours.epsilon, theirs.epsilon)
    assert np.array_equal(ours.moved, theirs.moved) and ours.moved.sum() > 0
    sent = [m for m in ours.transcript.messages if m.round >= 0]  # before: keys
    told, words = (
        [m.payload for m in sent if m.receiver == "server"][i::2] for i in (0, 1)
    )  # two messages of each client in a round, and no third
    assert [w.shape[0] for w in told + words] == [60] * 12
    released = [a for asked, a in ours.record if isinstance(asked, Members)]
    assert np.array_equal(told, released) and "client noised, by name" in str(ours.plan)
    assert words_uniform_p(np.concatenate([w.ravel() for w in words])) > 1e-6
    if clusterer == "ifca":
        batch = batch_for(DATA)
        exact = [MODEL.losses(models, batch).argmin(axis=1) for models in ours.history[:-1]]
        assert (np.array(exact) != told).mean() > 0.3  # numbers with noise, half of the budget
        assert ours.plan.n_bytes == sum(m.n_bytes * m.count for m in sent)


def test_a_round_without_noise_is_the_mean_update_of_each_cluster(rng):
    models = MODEL.initial(3, rng=rng)
    f = federation()
    result = rr_cluster(
        f, MODEL, n_clusters=3, epsilon=math.inf, rebalance="off", initial=models,
        **RUN | {"n_rounds": 1, "server_rate": 0.5},
    )  # fmt: skip
    batch = batch_for(DATA.take(drawn()))
    choice = MODEL.losses(models, batch).argmin(axis=1)
    expected = models.copy()
    for j in range(3):
        steps = []
        for i in np.flatnonzero(choice == j):
            own = type(batch)(*(None if a is None else a[[i]] for a in batch))
            step = MODEL.train(models[[j]], own, n_steps=5, learning_rate=0.3)[0] - models[j]
            steps.append(step * min(1.0, 0.5 / np.linalg.norm(step)))
        if steps:
            expected[j] += 0.5 * np.mean(steps, axis=0)
    assert np.allclose(result.models, expected, atol=1e-11)
    assert np.array_equal(result.sizes[0], np.bincount(choice, minlength=3))
    assert result.history.shape == (2, 3, MODEL.n_parameters)
    assert np.array_equal(result.history[0], models) and result.epsilon == math.inf
    assert "no privacy" in result.warning


def test_a_cluster_without_a_client_keeps_its_model():
    run = {"n_clusters": 2, "initial": FAR} | RUN
    # with a finite budget too: no noise is added to a model without a divisor
    for noise in ({"epsilon": math.inf}, {"sigma": 0.1, "identifiers": "exact"}):
        result = rr_cluster(federation(), MODEL, rebalance="off", **noise, **run)
        assert np.array_equal(result.models[1], FAR[1]) and (result.sizes[:, 1] == 0).all()
        assert result.epsilon == math.inf
    filled = rr_cluster(federation(), MODEL, epsilon=math.inf, min_size=5, **run)
    assert (filled.sizes[:, 1] >= 5).all() and filled.moved[0] == 5
    assert not np.array_equal(filled.models[1], FAR[1])


@pytest.mark.parametrize("clusterer", ["ifca", "fesem", "fedcam"])
@pytest.mark.parametrize("noise", ["continuous", "discrete"])
def test_every_released_sum_has_noise_of_its_own_in_every_round(clusterer, noise):
    """Clients without a signal: what moves is noise; chi-square at 1e-6, and no value twice.

    FedCAM releases the common model's sum too.
    """
    data = ClientData(np.zeros((60, P)), np.arange(61), np.zeros(60, dtype=np.int64))
    f = federation(data, noise=noise)
    result = rr_cluster(
        f, MODEL, n_clusters=2, sigma=1.0, clusterer=clusterer, rebalance="off", n_steps=1,
        learning_rate=1e-9, initial=np.zeros((2, MODEL.n_parameters)), **RUN,
    )  # fmt: skip
    sums = np.array([answer[0] for asked, answer in result.record if isinstance(asked, SumsOf)])
    assert sums.shape == (6, 2 + (clusterer == "fedcam"), MODEL.n_parameters)
    std = result.plan.mechanisms[0][1].std
    statistic = (sums**2).sum() / std**2
    assert 5e-7 < stats.chi2.cdf(statistic, sums.size) < 1 - 5e-7
    scaled = np.sort((sums / std).ravel())
    assert np.diff(scaled).min() > 1e-8  # neither over rounds nor over clusters
    assert np.diff(np.sort(np.abs(scaled))).min() > 1e-8


@pytest.mark.parametrize(
    ("sigma", "nominal", "true"), [(2.474, 2.0, 2.63), (1.521, 4.0, 5.41), (0.940, 8.0, 10.71)]
)
def test_printed_identifiers_really_cost_more(sigma, nominal, true):
    """Nominal 2/4/8 at sigma_s = sigma_theta is 2.63/5.41/10.71 (T = 50, q = 0.1)."""
    ones = ClientData(np.zeros((1000, P)), np.arange(1001), np.zeros(1000, np.int64))
    run = {"n_clusters": 4, "n_rounds": 50, "delta": 1e-3, "cohort": 100, "clip": 1.0}
    for kind, cost in (("printed", true), ("corrected", nominal)):
        made = planned(rr.plan, federation(ones), MODEL, sigma=sigma, identifiers=kind, **run)
        assert made.epsilon == made.total_epsilon == pytest.approx(cost, abs=0.02)
        assert len(made.releases) == 50


@pytest.mark.parametrize("kind", ["krr", "exponential"])
def test_random_answers_are_calibrated_by_theorem_4_2(kind):
    few = RUN | {"n_clusters": 2, "cohort": 20, "identifiers": kind}
    data, _ = clients(300, 2)
    result = rr_cluster(federation(data), MODEL, epsilon=4.0, **few)
    assert 3.999 < result.epsilon <= 4.0 and result.plan.dial.amplified
    # two of three clients a round: Theorem 4.2 is worse than nothing
    plain = rr_cluster(federation(), MODEL, epsilon=4.0, **few | {"cohort": 40})
    assert not plain.plan.dial.amplified
    assert 3.2 < plain.epsilon <= min(4.0, plain.ledger.epsilon(1e-3))
    # the ledger amplifies nothing in such a round, the sums neither
    assert result.ledger.epsilon(1e-3) > 1.5 * result.epsilon
    assert result.ledger.releases[0].sampling is not None
    exact = rr_cluster(federation(), MODEL, epsilon=math.inf, **few)
    assert exact.epsilon == math.inf
    refuses(ValueError, "sigma must be None", rr_cluster, federation(), MODEL, sigma=1.0, **few)
    refuses(ValueError, "epsilon or sigma", rr_cluster, federation(), MODEL, **few)


# --- FeSEM and FedCAM -----------------------------------------------------------------------------


def test_fesem_moves_models_to_the_mean_of_their_members(rng):
    models = MODEL.initial(2, rng=rng)
    f = federation()
    result = rr_cluster(
        f, MODEL, n_clusters=2, epsilon=math.inf, clusterer="fesem", rebalance="off",
        initial=models, **RUN | {"n_rounds": 1, "cohort": 60, "clip": 100.0},
    )  # fmt: skip
    start = coins().integers(2, size=60)
    trained = MODEL.train(models[start], batch_for(), n_steps=5, learning_rate=0.3)
    nearest = np.array([[np.linalg.norm(t - m) for m in models] for t in trained]).argmin(axis=1)
    for j in range(2):
        if (nearest == j).any():
            assert np.allclose(result.models[j], trained[nearest == j].mean(axis=0), atol=1e-10)
    assert np.array_equal(f.client_memory.get("fesem"), nearest)
    assert not [m for m in f.transcript.messages if "fesem" in m.name]


def test_fedcam_clips_both_updates_jointly(rng):
    models, common = MODEL.initial(2, rng=rng), MODEL.initial(1, rng=rng)[0]
    arguments = {
        "labels": DATA.labels, "model": MODEL, "models": models, "common": common, "n_steps": 5,
        "learning_rate": 0.3,
    }  # fmt: skip
    ids, free = ADDITIVE_UPDATES.compute(DATA.points, DATA.offsets, clip=1e6, **arguments)
    _, cut = ADDITIVE_UPDATES.compute(DATA.points, DATA.offsets, clip=0.1, **arguments)
    d = MODEL.n_parameters
    assert free.shape == (60, 2 * d) and np.linalg.norm(cut, axis=1).max() <= 0.1
    assert np.allclose(cut, free * 0.1 / np.linalg.norm(free, axis=1, keepdims=True))
    # outputs of linear models add up as parameters
    batch = batch_for()
    choice = MODEL.losses(models + common, batch).argmin(axis=1)
    assert np.array_equal(ids.argmax(axis=1), choice)
    start = models[choice] + common
    first = MODEL.train(start, batch, n_steps=5, learning_rate=0.3)
    assert np.allclose(free[:, d:], first - start, atol=1e-12)
    second = MODEL.train(first, batch, n_steps=5, learning_rate=0.3)
    assert np.allclose(free[:, :d], second - first, atol=1e-12)
    needed = ADDITIVE_UPDATES.sensitivity_of(
        "updates", 2, "replace-one", clip=0.1, model=MODEL, n_features=P
    )
    assert needed == 0.2


def test_fedcam_averages_the_common_model_over_all():
    run = RUN | {"n_rounds": 1, "cohort": 60, "clip": 100.0}
    for model in (MODEL, rr.OneHiddenLayer(P, 5, C)):
        f = federation()
        result = rr_cluster(
            f, model, n_clusters=2, epsilon=math.inf, clusterer="fedcam", rebalance="off", **run
        )
        streams = coins()
        models, common = model.initial(2, rng=streams), model.initial(1, rng=streams)[0]
        ids, updates = ADDITIVE_UPDATES.compute(
            DATA.points, DATA.offsets, labels=DATA.labels, model=model, models=models,
            common=common, clip=100.0, n_steps=5, learning_rate=0.3,
        )  # fmt: skip
        d = model.n_parameters
        assert np.allclose(result.common, common + updates[:, :d].mean(axis=0), atol=1e-12)
        for j in np.unique(ids.argmax(axis=1)):
            mine = ids.argmax(axis=1) == j
            assert np.allclose(
                result.models[j], models[j] + updates[mine, d:].mean(axis=0), atol=1e-11
            )
        score = rr.evaluate(model, result.models, DATA, DATA, GROUPS, common=result.common)
        assert 0 <= score.accuracy <= 1


# --- sums only ------------------------------------------------------------------------------------

SCHEMES = [("poisson", "add/remove"), ("fixed", "replace-one")]


@pytest.mark.parametrize(("sampling", "adjacency"), SCHEMES)
def test_a_round_of_sums_without_noise(sampling, adjacency, rng):
    models = MODEL.initial(3, rng=rng)
    f = federation(trust="ideal", adjacency=adjacency)
    result = sums_only(
        f, MODEL, n_clusters=3, epsilon=math.inf, min_size=10, reseed=False, initial=models,
        **RUN | {"n_rounds": 1, "clip": 0.2},
    )  # fmt: skip
    part = DATA.take(drawn(sampling))
    ids, updates = CLIENT_UPDATES.compute(
        part.points, part.offsets, labels=part.labels, model=MODEL, models=models, clip=0.2,
        n_steps=5, learning_rate=0.3,
    )  # fmt: skip
    counts = ids.sum(axis=0)
    by = np.maximum(counts, 10)[:, None]
    assert np.allclose(result.models, models + ids.T @ updates / by, atol=1e-11)
    assert np.allclose(result.sizes, [counts], atol=1e-9)


def test_counts_are_free_under_replace_one():
    with_counts = sums_only(federation(trust="ideal"), MODEL, n_clusters=2, sigma=1.1, **RUN)
    alone = dp_fedavg(federation(trust="ideal"), MODEL, sigma=1.1, **RUN)
    assert with_counts.epsilon == alone.epsilon and alone.sizes.size == 0
    for run_ in (with_counts, alone):
        assert np.isclose(run_.plan.mechanisms[0][0].std, 2 * 0.5 * 1.1)


def test_counts_take_their_share_under_add_remove():
    f = federation(trust="ideal", adjacency="add/remove")
    made = planned(rr.plan_sums_only, f, MODEL, n_clusters=2, sigma=1.5, **RUN)
    (mechanism,), weight = made.mechanisms[0], made.broadcasts("count_weight")[0]
    s1, s2 = mechanism.std / 0.5, mechanism.std / weight
    assert np.isclose(1 / s1**2 + 1 / s2**2, 1 / 1.5**2) and np.isclose(1 / s2**2, 0.1 / 1.5**2)
    assert np.isclose(s1, 1.054 * 1.5, rtol=1e-3) and np.isclose(s2, 3.162 * 1.5, rtol=1e-3)


def test_every_block_is_released_empty_ones_too():
    result = sums_only(
        federation(trust="ideal", adjacency="add/remove"), MODEL, n_clusters=2, sigma=0.5,
        reseed=False, initial=FAR, **RUN,
    )  # fmt: skip
    assert (result.sizes != 0).all() and not np.array_equal(result.models[1], FAR[1])


def test_a_ring_that_is_too_small_is_refused_before_anything_is_read():
    f = federation(trust="masked", noise_from="server", adjacency="add/remove", bits=32)
    sent = len(f.transcript.messages)
    with pytest.raises(RingOverflowError, match="blocks"):
        sums_only(f, MODEL, n_clusters=2, sigma=1.0, **RUN | {"clip": 1e4, "cohort": 60})
    assert not f.ledger.releases and len(f.transcript.messages) == sent
    f = federation(trust="masked", noise_from="server", adjacency="add/remove", bits=32)
    everyone = {"n_clusters": 2, "sigma": 1.0} | RUN | {"cohort": 60}
    small = sums_only(f, MODEL, **everyone)
    large = sums_only(federation(adjacency="add/remove"), MODEL, **everyone)
    assert np.abs(small.models - large.models).max() < 0.01  # 16 fractional bits


# --- re-seeding -----------------------------------------------------------------------------------


def reseeding(n_rounds=30, k=3):
    return Reseeding(k, 2.0, n_rounds)


def test_a_dead_model_is_replaced_by_half_of_the_largest(rng):
    reseed, models = reseeding(), np.arange(6.0).reshape(3, 2)
    for t in range(3):
        dead = reseed.observe(np.array([8.0, 0.5, 20.0]))
        assert np.array_equal(dead, [False, t == 2, False])  # three counts decide
        if t < 2:
            assert reseed.act(t, models, rng=rng)[1] is None
    again = np.random.default_rng(8)
    after, event = reseed.act(2, models, rng=np.random.default_rng(8))
    assert event == (2, 1, 2) and np.array_equal(after[0], models[0])
    offset = again.normal(0.0, 0.03, 2)
    assert np.array_equal(after[1], models[2] - offset)
    assert np.array_equal(after[2], models[2] + offset)
    assert models[1, 0] == 2.0  # the given models are left alone
    # both start afresh: no verdict before three new counts
    for t in range(3, 6):
        assert reseed.observe(np.array([8.0, 0.0, 10.0]))[1] == (t == 5)


def test_at_most_one_model_in_three_rounds_and_none_late(rng):
    models, events = np.zeros((4, 2)), []
    reseed = reseeding(n_rounds=30, k=4)
    for t in range(30):
        reseed.observe(np.array([30.0, 0.0, 0.0, 0.0]))
        models, event = reseed.act(t, models, rng=rng)
        events += [] if event is None else [event[0]]
    assert events and min(np.diff(events)) >= 3 and max(events) < 18


# --- baselines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sampling", "adjacency"), SCHEMES)
def test_fedavg_divides_by_the_public_size(sampling, adjacency, rng):
    start = MODEL.initial(1, rng=rng)
    f = federation(trust="ideal", adjacency=adjacency)
    run = RUN | {"n_rounds": 1, "clip": 0.2}
    result = dp_fedavg(f, MODEL, epsilon=math.inf, initial=start, **run)
    part = DATA.take(drawn(sampling))
    starts = np.repeat(start, part.n_clients, axis=0)
    steps = MODEL.train(starts, batch_for(part), n_steps=5, learning_rate=0.3) - starts
    steps *= np.minimum(1, 0.2 / np.linalg.norm(steps, axis=1))[:, None]
    assert np.allclose(result.models[0], start[0] + steps.sum(axis=0) / 40, atol=1e-11)


def test_fedprox_is_fedavg_with_one_more_term():
    plain, prox = (
        dp_fedavg(federation(trust="ideal"), MODEL, proximal=mu, sigma=1.0, **RUN)
        for mu in (0.0, 1.0)
    )
    assert (plain.plan.method, prox.plan.method) == ("fedavg", "fedprox")
    assert not np.array_equal(plain.models, prox.models) and plain.epsilon == prox.epsilon


def test_fedper_keeps_heads_at_home():
    f = federation(trust="trusted", keep_payloads=True)
    start = MODEL.initial(1, rng=np.random.default_rng(2))
    result = dp_fedper(f, MODEL, epsilon=math.inf, initial=start, **RUN | {"clip": 5.0})
    messages = [m for m in f.transcript.messages if m.receiver == "server"]
    assert {m.shape for m in messages} == {(P * C,)} and {m.name for m in messages} == {"update"}
    assert np.array_equal(result.models[0, P * C :], start[0, P * C :])
    own = rr.personal_models(f, result)
    assert own.shape == (60, MODEL.n_parameters)
    assert (own[:, : P * C] == result.models[0, : P * C]).all()
    assert len(np.unique(own[:, -1])) > 40  # every drawn client has its own
    # a second run starts from the initial head again
    again = dp_fedper(
        federation(trust="trusted"), MODEL, epsilon=math.inf, initial=start, **RUN | {"clip": 5.0}
    )
    f.randomness.cohorts.bit_generator.state = federation().randomness.cohorts.bit_generator.state
    repeat = dp_fedper(f, MODEL, epsilon=math.inf, initial=start, **RUN | {"clip": 5.0})
    assert np.array_equal(again.models, repeat.models)


# --- evaluation -----------------------------------------------------------------------------------


def test_evaluation_of_known_clusters():
    good = np.zeros((3, P + 1, C))
    for g in range(2):
        for c in range(C):
            good[g, c, (c + g) % C] = 10.0
    good[2, :, 0] = -50.0  # nobody's
    good[2, -1, 0] = -50.0
    models = good.reshape(3, -1)
    found = rr.evaluate(MODEL, models, DATA, DATA, GROUPS)
    assert np.array_equal(found.choices, GROUPS)
    assert found.accuracy == 1.0 and found.cluster_accuracy == 1.0
    assert found.models_used == 2 and found.groups_alone == 2
    swapped = rr.evaluate(MODEL, models[[1, 2, 0]], DATA, DATA, GROUPS)
    assert swapped.cluster_accuracy == 1.0 and np.array_equal(swapped.choices, 2 - 2 * GROUPS)
    one = rr.evaluate(MODEL, models[[0, 2]], DATA, DATA, GROUPS)
    assert one.groups_alone == 0 and one.cluster_accuracy == 0.5 and one.models_used == 1
    own = rr.evaluate(MODEL, models[GROUPS], DATA, DATA, GROUPS)
    assert own.accuracy == 1.0 and np.array_equal(own.per_client, np.ones(60))


def test_only_a_plan_of_rr_cluster_has_identifiers_to_look_at():
    f = federation()
    made = planned(rr.plan_sums_only, f, MODEL, n_clusters=2, epsilon=3.0, **RUN)
    assert made.releases[0].sampling.scheme == "fixed"
    refuses(ValueError, "plan must be one of RR-Cluster", rr.diagnose, f, made)
