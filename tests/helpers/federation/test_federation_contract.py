"""What holds for every trust model with sums: the answer, the charge, what is refused, the bytes.

`ROWS` has every row of the table with sums, and its options that change what is sent. Where one
party adds the noise (`ONE`), one seed gives all of them one answer, up to the resolution of the
ring: each client and the server round once, by at most half a step. What differs between trust
models is who sees what: test_federation.py.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from algorithms import ONE_NOISE, SUMS, TRUST
from conftest import refuses
from lloyd_runs import lloyd_run

from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
)
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.federation import TRUST_MODELS, ClientData, TrustModelError, simulate
from fedclust_helpers.federation.trust import trust_model
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
)

CENTERS = np.array([[-0.5, -0.4], [0.5, -0.5], [0.1, 0.5]])
CENTERS.flags.writeable = False
RADIUS = 1.2
AT = {"centers": CENTERS, "radius": RADIUS}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {name: TRUST[name] for name in SUMS} | {
    "pre-shared": ("masked", {"noise_from": "server", "pre_shared_secret": bytes(range(32))}),
}
ONE = (*ONE_NOISE, "pre-shared")
every_row = pytest.mark.parametrize("row", ROWS)
rows_with_one_noise = pytest.mark.parametrize("row", ONE)


def made(row, clients, **options):
    trust, own = ROWS[row]
    return simulate(clients, trust, **{"seed": 1} | own | options)


def pair(std=0.5):
    """Gaussian mechanisms that are wide enough for every ring used here."""
    return (Gaussian(RADIUS + np.sqrt(2) * 2.0**-16, std), Gaussian(1.0, 2 * std))


def release(federation, mechanisms=None, round=0):
    return federation.noisy_sum(RELATIVE_SUMS_AND_COUNTS, mechanisms or pair(), round=round, **AT)


def total_noise(federation, epsilon=0.6):
    """Noise of the kind that this federation takes, for `TOTAL`."""
    multiplier = federation.noise_multiplier(epsilon, 1e-5)
    return [federation.gaussian(TOTAL, "total", multiplier=multiplier, n_coordinates=2)]


def halves(points):
    return [points[:100], points[100:]]


def tolerance(federation):
    """One rounding per client and one of the noise, half a step each; plus float summation."""
    return (federation.facts.n_clients + 1) * federation.facts.resolution / 2 + 1e-11


def close(federation, answer, other, more=0.0):
    return all(
        np.abs(a - b).max() <= tolerance(federation) + more
        for a, b in zip(answer, other, strict=True)
    )


def traces(federation):
    return federation.ledger.releases, len(federation.transcript.messages)


def test_the_rows_are_those_of_the_table():
    chosen = {
        trust_model(trust, own.get("noise_from"), own.get("receiver"))
        for trust, own in ROWS.values()
    }
    assert chosen == {
        row
        for rows in TRUST_MODELS.values()
        for row in rows
        if "noisy_sum" in row.aggregation.offers
    }


@pytest.mark.parametrize("trust", TRUST_MODELS)
@pytest.mark.parametrize("capability", ["noisy_sum", "collect", "reports", "ask"])
def test_a_trust_model_offers_what_it_may_show_and_no_more(trust, capability, mixture):
    federation = simulate(halves(mixture), trust, seed=1)
    before = traces(federation)
    ask, noise = getattr(federation, capability), [NoNoise(federation.facts.adjacency)]
    if capability not in federation.aggregation.offers:
        call = (TOTAL, noise) if capability != "ask" else (None,)
        refuses(TrustModelError, f"offers no {capability}", ask, *call, round=0)
        assert traces(federation) == before
    elif capability != "ask":
        ask(TOTAL, noise, round=0)
        assert len(federation.ledger.releases) == 1


# --- one round ------------------------------------------------------------------------------------

COHORTS = {
    "one client": [300], "two clients": [100, 200], "unequal": [1, 2, 4, 90, 203],
    "one-point clients": [1] * 300,
}  # fmt: skip


@pytest.mark.parametrize("cohort", COHORTS)
@rows_with_one_noise
def test_one_round_gives_the_same_answer(row, mixture, cohort):
    """However the rows are divided over clients, and in whatever order these come."""
    reference = release(made("trusted", [mixture]))
    clients = np.split(mixture, np.cumsum(COHORTS[cohort])[:-1])
    owners = np.repeat(np.arange(len(clients)), COHORTS[cohort])
    for arranged in (clients, clients[::-1], ClientData.from_owners(mixture, owners)):
        federation = made(row, arranged)
        released = release(federation)
        assert all(array.dtype == np.float64 for array in released)
        assert close(federation, released, reference)


@rows_with_one_noise
def test_noise_is_that_of_the_seeded_server_stream(row, mixture):
    # released minus exact, against the documented stream: seed -> spawn(4)[1]
    federation = made(row, [mixture], seed=11)
    exact = RELATIVE_SUMS_AND_COUNTS.compute(mixture, np.array([0, len(mixture)]), **AT)
    noise = np.random.default_rng(np.random.SeedSequence(11).spawn(4)[1])
    expected = [
        v[0] + noise.normal(0, m.std, v[0].shape) for v, m in zip(exact, pair(), strict=True)
    ]
    assert close(federation, release(federation), expected)


@pytest.mark.parametrize(
    "mechanisms",
    [
        (Laplace(2 * RADIUS, 3.0), Laplace(1.0, 3.0)),
        (DiscreteGaussian(RADIUS + 0.1, 3.0, 2.0**-10), DiscreteGaussian(1.0, 3.0)),
        (DiscreteLaplace(2 * RADIUS, 3.0, 2.0**-16), DiscreteLaplace(1.0, 3.0)),
        (NoNoise(), Gaussian(1.0, 2.0)),
    ],
    ids=lambda pair: "+".join(type(m).__name__ for m in pair),
)
@rows_with_one_noise
def test_every_mechanism_gives_the_same_answer(row, mixture, mechanisms):
    federation = made(row, halves(mixture))
    released = release(federation, mechanisms)
    assert close(federation, released, release(made("trusted", halves(mixture)), mechanisms))
    for value, mechanism in zip(released, mechanisms, strict=True):
        if mechanism.grid is not None:  # discrete noise stays on its grid
            assert np.array_equal(value / mechanism.grid, np.rint(value / mechanism.grid))


@every_row
def test_without_noise_the_sum_is_exact(row, mixture):
    federation = made(row, halves(mixture))
    exact = RELATIVE_SUMS_AND_COUNTS.compute(mixture, np.array([0, len(mixture)]), **AT)
    released = release(federation, (NoNoise(), NoNoise()))
    assert close(federation, released, [value[0] for value in exact])


@every_row
def test_the_same_seed_is_the_same_answer(row, mixture):
    seed = np.random.SeedSequence(5).spawn(3)[1]

    def once(seed):
        federation = made(row, halves(mixture), seed=seed)
        return federation.noisy_sum(TOTAL, total_noise(federation), round=0)[0]

    first, again, other = once(seed), once(seed), once(6)
    assert np.array_equal(first, again) and (first != other).all()
    assert seed.n_children_spawned == 0  # the caller's object is left alone


# --- whole runs -----------------------------------------------------------------------------------


@every_row
def test_runs_on_one_federation_share_nothing_but_the_ledger(row, mixture):
    """Pads go by the release: the second run starts at round 0 again and reuses none."""
    clients = halves(mixture)
    before = [c.copy() for c in clients]
    federation = made(row, clients)
    options = {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-5, "initial": CENTERS}
    first, second = (lloyd_run("fastlloyd", federation, **options) for _ in range(2))
    assert (first.released[0][0] != second.released[0][0]).all()
    assert first.epsilon <= 1 + 1e-9 < federation.ledger.epsilon(1e-5) < 2
    assert all(np.array_equal(a, b) for a, b in zip(clients, before, strict=True))
    exact = [
        lloyd_run("lloyd", f, n_clusters=3, n_rounds=6).history
        for f in (made(row, clients), made("trusted", clients))
    ]
    assert np.abs(exact[0] - exact[1]).max() < 10 * federation.facts.resolution + 1e-12


# --- what is refused before a row is read ---------------------------------------------------------


def recording(calls):
    """TOTAL that writes down which data it was given."""

    def compute(points, offsets):
        calls.append(points)
        return TOTAL.compute(points, offsets)

    return replace(TOTAL, name="recording", compute=compute)


def data_was_read(calls):
    return any(points.any() for points in calls)


@every_row
def test_budget_is_refused_before_any_data_is_read(row, mixture):
    calls: list[Any] = []
    statistic = recording(calls)
    federation = made(row, halves(mixture), budget=Budget(1.0, 1e-5))
    federation.noisy_sum(statistic, total_noise(federation), round=0)
    assert data_was_read(calls) and len(federation.ledger.releases) == 1
    before = traces(federation)
    calls.clear()
    with pytest.raises(BudgetExceededError):
        federation.noisy_sum(statistic, total_noise(federation, 0.9), round=1)
    assert not data_was_read(calls) and traces(federation) == before


def test_rounding_is_part_of_the_sensitivity(mixture):
    # theory checks F7: on a ring, eta itself is too little by sqrt(d) 2^-q
    exact = (Gaussian(RADIUS, 0.5), Gaussian(1.0, 0.5))
    for trust in ("trusted", "ideal"):
        release(made(trust, [mixture]), exact)
    for bits, q in ((32, 16), (64, 30)):
        slack = np.sqrt(2) * 2.0**-q
        federation = made("server's noise", [mixture], bits=bits)
        for little in (0.0, 0.99 * slack):
            noise = (Gaussian(RADIUS + little, 0.5), exact[1])
            refuses(ValueError, "'sums'", release, federation, noise)
        release(federation, (Gaussian(RADIUS + slack, 0.5), exact[1]))


@every_row
def test_check_release_leaves_no_trace(row, mixture):
    federation, fresh = (made(row, halves(mixture)) for _ in range(2))
    calls: list[Any] = []
    before, noise = traces(federation), total_noise(federation)
    federation.check_release(recording(calls), noise)
    assert traces(federation) == before and not data_was_read(calls)
    # and takes nothing from the noise stream
    a, b = (f.noisy_sum(TOTAL, noise, round=0)[0] for f in (federation, fresh))
    assert np.array_equal(a, b)


@every_row
def test_what_fails_in_every_client_is_an_error_after_the_charge(row, mixture):
    def compute(points, offsets):
        if points.any():  # not where the shapes of its answer are found
            raise TypeError(f"Cannot cast {points[0, 0]}")
        return TOTAL.compute(points, offsets)

    broken = replace(TOTAL, name="broken", compute=compute, takes={})
    federation = made(row, halves(mixture))
    with pytest.raises(RuntimeError, match="'broken' failed in every client") as caught:
        federation.noisy_sum(broken, total_noise(federation), round=0)
    assert str(mixture[0, 0]) not in str(caught.value)
    assert len(federation.ledger.releases) == 1


@pytest.mark.parametrize("wrong", ["raises", "nan", "inf", "other rows"])
@every_row
def test_a_client_that_fails_is_charged_and_answers_as_one_without_rows(row, mixture, wrong):
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
    got = []
    for rows in (bad, np.zeros_like(bad)):
        federation = made(row, [mixture[:50], rows, mixture[50:]])
        got.append(federation.noisy_sum(failing, total_noise(federation), round=0)[0])
        assert len(federation.ledger.releases) == 1
        assert federation.ledger.epsilon(1e-5) == pytest.approx(0.6)
    assert np.allclose(got[0], got[1], rtol=1e-12, atol=1e-12)
