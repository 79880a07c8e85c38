"""The contract of every sum federation: same data and seed, same answer, same ledger.

What differs is who sees what; that is tested in test_federation.py. Tolerances come from the
resolution of the ring: each client and the server round once, by at most half a step.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import refuses
from lloyd_runs import lloyd_run

from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
)
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
)

SECRET = bytes(range(32))
CENTERS = np.array([[-0.5, -0.4], [0.5, -0.5], [0.1, 0.5]])
CENTERS.flags.writeable = False
RADIUS = 1.2

Make = Callable[..., Any]


def maker(trust: str, **fixed: Any) -> Make:
    return lambda clients, **options: simulate(clients, trust, **fixed, **options)


SUMS = {
    "trusted": maker("trusted"),
    "ideal": maker("ideal"),
    "masked": maker("masked"),
    "masked 32 bits": maker("masked", bits=32),
    "masked pre-shared": maker("masked", pre_shared_secret=SECRET),
}


@pytest.fixture(params=list(SUMS))
def make(request: pytest.FixtureRequest) -> Make:
    return SUMS[request.param]


def resolution(federation: Any) -> float:
    return federation.facts.resolution


def pair(std=0.5, *, grid=2.0**-16, d=2):
    """Gaussian mechanisms that are wide enough for every ring used here."""
    sensitivity = RADIUS + np.sqrt(d) * grid
    return (Gaussian(sensitivity, std), Gaussian(1.0, 2 * std))


def release(federation, *, mechanisms=None, round=0):
    return federation.noisy_sum(
        RELATIVE_SUMS_AND_COUNTS, mechanisms or pair(), round=round, centers=CENTERS, radius=RADIUS
    )


def split(points, sizes):
    return np.split(points, np.cumsum(sizes)[:-1])


def tolerance(federation):
    """One rounding per client and one of the noise, half a step each; plus float summation."""
    return (federation.n_clients + 1) * resolution(federation) / 2 + 1e-11


def unequal_sizes(n, m):
    sizes = np.ones(m, dtype=int)
    extra = np.arange(m) ** 2
    sizes += (n - m) * extra // extra.sum()
    sizes[-1] += n - sizes.sum()
    return sizes


COHORTS = {
    "one client": lambda n: np.array([n]),
    "two clients": lambda n: np.array([n // 3, n - n // 3]),
    "50 unequal clients": lambda n: unequal_sizes(n, 50),
    "one-point clients": lambda n: np.ones(n, dtype=int),
}


# --- one round ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", list(COHORTS))
def test_one_round_gives_the_same_answer(make, mixture, cohort):
    clients = split(mixture, COHORTS[cohort](len(mixture)))
    federation = make(clients, seed=1)
    reference = release(simulate([mixture], "trusted", seed=1))
    released = release(federation)
    for ours, expected in zip(released, reference, strict=True):
        assert ours.shape == expected.shape and ours.dtype == np.float64
        assert np.abs(ours - expected).max() <= tolerance(federation)


def test_noise_is_that_of_the_seeded_server_stream(make, mixture):
    # released minus exact, against the documented stream: seed -> spawn(4)[1]
    federation = make([mixture], seed=11)
    sums, counts = release(federation)
    exact = RELATIVE_SUMS_AND_COUNTS.compute(
        mixture, np.array([0, len(mixture)]), centers=CENTERS, radius=RADIUS
    )
    noise = np.random.default_rng(np.random.SeedSequence(11).spawn(4)[1])
    for value, true, mechanism in zip((sums, counts), exact, pair(), strict=True):
        expected = true[0] + noise.normal(0, mechanism.std, value.shape)
        assert np.abs(value - expected).max() <= tolerance(federation)


@pytest.mark.parametrize(
    "mechanisms",
    [
        (NoNoise(), NoNoise()),
        (Laplace(2 * RADIUS, 3.0), Laplace(1.0, 3.0)),
        (DiscreteGaussian(RADIUS + 0.1, 3.0, 2.0**-16), DiscreteGaussian(1.0, 3.0)),
        (DiscreteLaplace(2 * RADIUS, 3.0, 2.0**-16), DiscreteLaplace(1.0, 3.0)),
        (NoNoise(), Gaussian(1.0, 2.0)),
    ],
    ids=lambda pair: "+".join(type(m).__name__ for m in pair),
)
def test_every_mechanism_gives_the_same_answer(make, mixture, mechanisms):
    clients = split(mixture, [100, 200])
    federation = make(clients, seed=4)
    reference = release(simulate(clients, "trusted", seed=4), mechanisms=mechanisms)
    for a, b in zip(release(federation, mechanisms=mechanisms), reference, strict=True):
        assert np.abs(a - b).max() <= tolerance(federation)


def test_discrete_noise_stays_on_its_grid(make, mixture):
    mechanisms = (DiscreteGaussian(RADIUS + 0.1, 3.0, 2.0**-10), DiscreteGaussian(1.0, 3.0))
    sums, counts = release(make(split(mixture, [100, 200]), seed=4), mechanisms=mechanisms)
    assert np.array_equal(sums * 2**10, np.rint(sums * 2**10))
    assert np.array_equal(counts, np.rint(counts))


def test_permuting_or_merging_clients_changes_nothing(make, mixture):
    clients = split(mixture, [30, 70, 120, 80])
    answers = []
    for arranged in (
        clients,
        clients[::-1],
        [np.concatenate(clients[:2]), np.concatenate(clients[2:])],
        [mixture],
        ClientData.from_owners(mixture, np.repeat([2, 0, 3, 1], [30, 70, 120, 80])),
    ):
        federation = make(arranged, seed=9)
        answers.append((federation, release(federation)))
    for federation, answer in answers[1:]:
        for a, b in zip(answer, answers[0][1], strict=True):
            assert np.abs(a - b).max() <= tolerance(federation) + tolerance(answers[0][0])


def test_same_seed_same_answer_other_seed_other_answer(make, mixture):
    a, b, c = (release(make([mixture], seed=s)) for s in (1, 1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert all((x != y).all() for x, y in zip(a, c, strict=True))


def test_a_seed_sequence_can_be_used_again(make, mixture):
    seed = np.random.SeedSequence(5).spawn(3)[1]
    a, b = release(make([mixture], seed=seed)), release(make([mixture], seed=seed))
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert seed.n_children_spawned == 0  # the caller's object is left alone


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fastlloyd", "glloyd", "sulloyd"])
@pytest.mark.parametrize("bits", [64, 32])
def test_whole_runs_agree(mixture, method, bits):
    clients = split(mixture, [120, 180])
    budget = {"n_clusters": 3, "epsilon": 2.0, "n_rounds": 5}
    results = [
        lloyd_run(method, simulate(clients, trust, seed=21, **options), **budget)
        for trust, options in (("trusted", {}), ("ideal", {}), ("masked", {"bits": bits}))
    ]
    # a step divides a rounding error by a count of about 100 and a ring adds sqrt(d) 2^-q to the
    # noise scale, which is at most 600 here; nothing amplifies it while assignments agree
    limit = 1e-6 if bits == 64 else 2e-2
    for other in results[1:]:
        assert np.abs(other.history - results[0].history).max() < limit
    assert np.abs(results[1].history - results[0].history).max() < 1e-10


def test_whole_run_with_discrete_noise_agrees_across_grids(mixture):
    clients = split(mixture, [120, 180])
    histories = [
        lloyd_run(
            "fastlloyd",
            simulate(clients, trust, seed=3, noise="discrete"),
            n_clusters=3,
            epsilon=1.0,
        ).history
        for trust in ("trusted", "ideal", "masked")
    ]
    # the first two round on one grid at the client and add the same integers; the ring's is coarser
    assert np.array_equal(histories[0], histories[1])
    assert np.abs(histories[0] - histories[2]).max() < 1e-8


def test_lloyd_without_noise_agrees(make, mixture):
    clients = split(mixture, [120, 180])
    federation = make(clients, seed=8)
    result = lloyd_run("lloyd", federation, n_clusters=3, n_rounds=6)
    reference = lloyd_run("lloyd", simulate([mixture], "trusted", seed=8), n_clusters=3, n_rounds=6)
    assert np.abs(result.history - reference.history).max() < 10 * resolution(federation) + 1e-12


def test_a_federation_can_be_used_for_several_runs(make, mixture):
    # pads go by the release: the second run starts at round 0 again and reuses none
    federation = make(split(mixture, [120, 180]), seed=8)
    first = lloyd_run("fastlloyd", federation, n_clusters=3, epsilon=1.0, delta=1e-5)
    second = lloyd_run("fastlloyd", federation, n_clusters=3, epsilon=1.0, delta=1e-5)
    assert (first.released[0][0] != second.released[0][0]).all()
    alone = 1.0
    assert alone < federation.ledger.epsilon(1e-5) < 2 * alone


# --- data are never changed -----------------------------------------------------------------------


def test_data_and_broadcast_arrays_are_read_only_and_unchanged(make, mixture):
    clients = split(mixture, [100, 200])
    before = [c.copy() for c in clients]
    assert not any(c.flags.writeable for c in clients)
    lloyd_run("fastlloyd", make(clients, seed=1), n_clusters=3, epsilon=1.0, initial=CENTERS)
    release(make(clients, seed=1))
    assert all(np.array_equal(a, b) for a, b in zip(clients, before, strict=True))


# --- ledger ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fastlloyd", "glloyd", "sulloyd", "lloyd"])
def test_ledgers_of_whole_runs_cost_the_same(make, mixture, method):
    options = {} if method == "lloyd" else {"epsilon": 1.5}
    a, b = simulate([mixture], "trusted", seed=1), make([mixture], seed=1)
    for f in (a, b):
        lloyd_run(method, f, n_clusters=3, n_rounds=3, **options)
    assert b.ledger.epsilon(1e-4) == pytest.approx(a.ledger.epsilon(1e-4), rel=1e-9)
    assert [(r.round, r.name) for r in a.ledger.releases] == [
        (r.round, r.name) for r in b.ledger.releases
    ]


def recording(calls):
    """TOTAL that writes down which data it was given."""

    def compute(points, offsets):
        calls.append(points)
        return TOTAL.compute(points, offsets)

    return replace(TOTAL, name="recording", compute=compute)


def data_was_read(calls):
    return any(points.any() for points in calls)


def test_budget_is_refused_before_any_data_is_read(make, mixture):
    calls: list[Any] = []
    statistic = recording(calls)
    federation = make([mixture], seed=1, budget=Budget(1.0, 1e-5))
    good = Gaussian.from_budget(1.5, 0.6, 1e-5)
    federation.noisy_sum(statistic, [good], round=0)
    assert data_was_read(calls) and len(federation.ledger.releases) == 1
    n_messages = len(federation.transcript.messages)
    calls.clear()
    with pytest.raises(BudgetExceededError):
        federation.noisy_sum(statistic, [good.from_budget(1.5, 0.9, 1e-5)], round=1)
    assert not data_was_read(calls)
    assert len(federation.ledger.releases) == 1
    assert len(federation.transcript.messages) == n_messages


def test_a_run_that_the_budget_cannot_pay_is_refused_as_a_whole(make, mixture):
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5))
    federation = make([mixture], seed=1, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        lloyd_run("fastlloyd", federation, n_clusters=3, epsilon=1.1, delta=1e-5, n_rounds=4)
    assert not ledger.releases
    lloyd_run("fastlloyd", federation, n_clusters=3, epsilon=1.0, delta=1e-5, n_rounds=4)
    assert len(ledger.releases) == 4 and abs(ledger.remaining) < 1e-6


@pytest.mark.parametrize("wrong", ["raises", "nan", "inf", "other rows"])
def test_a_client_that_fails_is_charged_and_answers_as_one_without_rows(make, mixture, wrong):
    """Nobody else can tell: not from an error, nor from what the others' noised sum is."""
    bad = np.array([[0.125, -0.25], [0.5, 0.5]])

    def compute(points, offsets):
        (sums,) = TOTAL.compute(points, offsets)
        if (points == 0.125).any():
            if wrong == "raises":
                raise RuntimeError("the client broke down")
            sums = np.zeros((len(sums) + 1, 2)) if wrong == "other rows" else sums * float(wrong)
        return (sums,)

    failing = replace(TOTAL, name="failing", compute=compute, takes={})
    noise = [Gaussian.from_budget(1.5, 0.6, 1e-5)]
    got = []
    for rows in (bad, np.zeros_like(bad)):
        federation = make([mixture[:50], rows, mixture[50:]], seed=1, budget=Budget(1.0, 1e-5))
        got.append(federation.noisy_sum(failing, noise, round=0)[0])
        assert len(federation.ledger.releases) == 1
        assert federation.ledger.epsilon(1e-5) == pytest.approx(0.6)
    assert np.allclose(got[0], got[1], rtol=1e-12, atol=1e-12)


def test_too_small_a_sensitivity_is_refused_before_the_budget(make, mixture):
    calls: list[Any] = []
    federation = make([mixture], seed=1)
    with pytest.raises(ValueError, match="'total' hides a sensitivity of 1.4, but one point can"):
        federation.noisy_sum(recording(calls), [Gaussian(1.4, 1.0)], round=0)  # sqrt 2 is needed
    with pytest.raises(ValueError, match="L1"):
        federation.noisy_sum(recording(calls), [Laplace(1.9, 1.0)], round=0)  # 2 is needed
    assert not federation.ledger.releases and not data_was_read(calls)


def test_rounding_is_part_of_the_sensitivity(mixture):
    # theory checks F7: on a ring, eta itself is too little by sqrt(d) 2^-q
    exact = (Gaussian(RADIUS, 0.5), Gaussian(1.0, 0.5))
    for trust in ("trusted", "ideal"):
        release(simulate([mixture], trust, seed=1), mechanisms=exact)
    for bits, q in ((32, 16), (64, 30)):
        slack = np.sqrt(2) * 2.0**-q
        federation = simulate([mixture], "masked", seed=1, bits=bits)
        refuses(ValueError, "'sums'", release, federation, mechanisms=exact)
        with pytest.raises(ValueError, match="'sums'"):
            release(federation, mechanisms=(Gaussian(RADIUS + 0.99 * slack, 0.5), exact[1]))
        release(federation, mechanisms=(Gaussian(RADIUS + slack, 0.5), exact[1]))


def test_adjacency_and_unit_must_match_the_ledger(make, mixture):
    replace_one = Gaussian(3.0, 1.0, "replace-one")
    federation = make([mixture], seed=1)
    refuses(LedgerMismatchError, "replace-one", federation.noisy_sum, TOTAL, [replace_one], round=0)
    of_clients = make([mixture], seed=1, ledger=PrivacyLedger(unit="client"))
    with pytest.raises(LedgerMismatchError, match="one point.*one client"):
        of_clients.noisy_sum(TOTAL, [Gaussian(3.0, 1.0)], round=0)
    assert not federation.ledger.releases and not of_clients.ledger.releases
    kept = make([mixture], seed=1, ledger=PrivacyLedger(adjacency="replace-one"))
    kept.noisy_sum(TOTAL, [replace_one], round=0)
    with pytest.raises(ValueError, match="needs|can change it by"):
        kept.noisy_sum(TOTAL, [Gaussian(1.5, 1.0, "replace-one")], round=0)


@pytest.mark.parametrize("mechanisms", [[], [NoNoise()] * 2])
def test_one_mechanism_for_each_part(make, mixture, mechanisms):
    federation = make([mixture], seed=1)
    with pytest.raises(ValueError, match="mechanisms must be 1, one for each of"):
        federation.noisy_sum(TOTAL, mechanisms, round=0)
    assert not federation.ledger.releases


@pytest.mark.parametrize(
    ("broadcast", "match"),
    [
        ({"centers": CENTERS[:, :1], "radius": 1.0}, "centers"),
        ({"centers": CENTERS * np.nan, "radius": 1.0}, "centers"),
        ({"centers": CENTERS, "radius": 0.0}, "radius"),
        ({"centers": CENTERS, "radius": -1.0}, "radius"),
        ({"centers": CENTERS, "radius": np.nan}, "radius"),
        ({"centers": CENTERS}, "radius"),
        ({"radius": 1.0}, "centers"),
    ],
)
@pytest.mark.parametrize("mechanisms", [(NoNoise(), NoNoise()), pair(5.0)])
def test_wrong_broadcast_is_refused_before_the_budget(make, mixture, broadcast, match, mechanisms):
    federation = make([mixture], seed=1)
    sent = len(federation.transcript.messages)
    with pytest.raises((ValueError, TypeError), match=match):
        federation.noisy_sum(RELATIVE_SUMS_AND_COUNTS, mechanisms, round=0, **broadcast)
    assert not federation.ledger.releases and len(federation.transcript.messages) == sent


def test_check_release_leaves_no_trace(make, mixture):
    federation, calls = make([mixture], seed=1), []
    sent = len(federation.transcript.messages)
    federation.check_release(recording(calls), [Gaussian(1.5, 1.0)])
    assert not federation.ledger.releases and not data_was_read(calls)
    assert len(federation.transcript.messages) == sent
    # and takes nothing from the noise stream
    fresh = make([mixture], seed=1)
    a, b = (f.noisy_sum(TOTAL, [Gaussian(1.5, 1.0)], round=0) for f in (federation, fresh))
    assert np.array_equal(a[0], b[0])


# --- the serverless variant satisfies the same contract, with its own noise -----------------------


def test_serverless_sum_is_exact_without_noise(mixture):
    federation = simulate(split(mixture, [40, 60, 200]), "serverless", seed=1)
    exact = RELATIVE_SUMS_AND_COUNTS.compute(
        mixture, np.array([0, 300]), centers=CENTERS, radius=RADIUS
    )
    released = release(federation, mechanisms=(NoNoise(), NoNoise()))
    for value, true in zip(released, exact, strict=True):
        assert np.abs(value - true[0]).max() <= tolerance(federation)
