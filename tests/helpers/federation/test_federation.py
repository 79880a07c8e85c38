"""Who sees what: transcripts, trust models, modes, streams, shares, overflow.

Statistical tests are seeded; each says how likely it is to fail for correct code.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import refuses, words_uniform_p
from lloyd_runs import lloyd_run

from fedclust_helpers import federation as fl
from fedclust_helpers import mechanisms as mech
from fedclust_helpers.accounting import Budget, PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import (
    CLIENT_SUMS_AND_COUNTS,
    RELATIVE_SUMS_AND_COUNTS,
    SUMS_AND_COUNTS,
    TOTAL,
)
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation import clients as clients_of
from fedclust_helpers.secure_aggregation import FixedPoint, RingOverflowError

SECRET = bytes(range(32))
CENTERS = np.array([[-0.5, -0.4], [0.5, -0.5], [0.1, 0.5]])
CENTERS.flags.writeable = False
RADIUS = 1.2
PAIR = (mech.Gaussian(1.21, 0.5), mech.Gaussian(1.0, 1.0))
TOTAL_NOISE = [mech.Gaussian(1.5, 1.0)]


def release(federation, mechanisms=PAIR, round=0):
    return federation.noisy_sum(
        RELATIVE_SUMS_AND_COUNTS, mechanisms, round=round, centers=CENTERS, radius=RADIUS
    )


def exact_release(points):
    values = RELATIVE_SUMS_AND_COUNTS.compute(
        points, np.array([0, len(points)]), centers=CENTERS, radius=RADIUS
    )
    return tuple(v[0] for v in values)


def box(n, d, seed=0):
    points = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    points.flags.writeable = False
    return points


# --- stacked clients ------------------------------------------------------------------------------


def test_clipping_is_counted_at_the_client_and_never_sent():
    points = np.array([[0.0, 0.0], [3.0, -0.5], [0.1, -7.0], [9.0, 9.0]])
    for trust in ("trusted", "ideal"):
        federation = fl.simulate([points[:2], points[2:]], trust, seed=1, keep_payloads=True)
        assert federation.clipped_counts.tolist() == [1, 2]
        federation.noisy_sum(TOTAL, TOTAL_NOISE, round=0)
        assert not any("clip" in m.name for m in federation.transcript.messages)


# --- who sees what at each client ----------------------------------------------------------------


def test_collect_gives_each_client_s_message_and_charges():
    clients = [box(5, 2), box(9, 2, 1)]
    federation = fl.simulate(clients, "trusted", seed=1)
    (totals,) = federation.collect(TOTAL, TOTAL_NOISE, round=0)
    assert np.allclose(totals, [c.sum(axis=0) for c in clients])
    assert len(federation.ledger.releases) == 1


def test_local_reports_are_noised_at_each_client():
    clients = fl.ClientData.from_owners(box(4000, 2), np.arange(4000))
    federation = fl.simulate(clients, "local", seed=1, keep_payloads=True)
    (reports,) = federation.reports(TOTAL, [mech.Gaussian(3.0, 3.0, "replace-one")], round=0)
    noise = reports - clients.points
    # 8000 normals: standard deviation within 5 standard errors, false alarm 6e-7
    assert abs(noise.std() / 3.0 - 1) < 5 / np.sqrt(2 * 8000)
    (message,) = federation.transcript.view("server")
    assert np.array_equal(message.payload, reports)  # the server sees nothing but the reports


# --- what crosses the wire ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "d", "expected"),
    [(2, 2, 192), (2, 5, 384), (5, 2, 480), (5, 5, 960), (3, 2, 288), (15, 2, 1440)],
)
def test_bytes_per_round_are_those_of_table_3(k, d, expected):
    # the first four: Table 3; LSun (k = 3) and S1 (k = 15) with two clients by the same count
    federation = fl.simulate([box(40, d), box(60, d, 1)], "masked", noise_from="server", seed=1)
    result = lloyd_run("fastlloyd", federation, n_clusters=k, epsilon=1.0)
    for t in range(result.plan.n_rounds):
        assert federation.transcript.n_bytes(round=t) == expected
    halved = fl.simulate(
        [box(40, d), box(60, d, 1)], "masked", noise_from="server", seed=1, bits=32
    )
    lloyd_run("fastlloyd", halved, n_clusters=k, epsilon=1.0)
    assert halved.transcript.n_bytes(round=0) == expected // 2
    assert federation.transcript.n_bytes() == (
        expected * result.plan.n_rounds + federation.transcript.n_bytes(round=-1)
    )


RELEASED = ["sums", "counts"]
VIEWS = {  # what a party receives of the agreement on keys, and of each release
    ("masked", "server"): (["public key"] * 2 + ["sealed secret for client 1"], RELEASED),
    ("masked", "client 1"): (["public key of client 0", "sealed secret of client 0"],
                             [f"masked noisy {part}" for part in RELEASED]),
    ("ideal", "server"): ([], RELEASED), ("trusted", "server"): ([], RELEASED),
    ("trusted", "clients"): ([], ["centers", "radius"]), ("serverless", "server"): ([], []),
}  # fmt: skip


@pytest.mark.parametrize(("trust", "party"), VIEWS)
def test_a_party_receives_what_the_table_says_and_nothing_else(trust, party):
    """No noised or exact result comes back from the clients, in this round or the next."""
    federation = fl.simulate(
        [box(40, 2), box(60, 2, 1)], trust, seed=1, keep_payloads=True,
        **({"noise_from": "server"} if trust == "masked" else {}),
    )  # fmt: skip
    noise = (mech.NoNoise(), mech.NoNoise()) if trust == "serverless" else PAIR
    for round in (0, 1):
        release(federation, noise, round=round)
    seen = federation.transcript.view(party)
    keys, each = VIEWS[trust, party]
    assert [m.name for m in seen] == keys + 2 * each
    assert {m.dtype for m in seen[: len(keys)]} <= {"uint8"}
    if trust == "masked":  # words; for clients one total, not one row per client
        assert {m.dtype for m in seen[len(keys) :]} == {"uint64"}
        assert seen[-2].payload.shape == ((2, 3, 2) if party == "server" else (3, 2))


def test_the_ideal_server_sees_the_released_sum_alone():
    federation = fl.simulate([box(40, 2), box(60, 2, 1)], "ideal", seed=1, keep_payloads=True)
    released = release(federation)
    view = federation.transcript.view("server")
    assert [(m.sender, m.name) for m in view] == [("secure sum", "sums"), ("secure sum", "counts")]
    assert all(np.array_equal(m.payload, r) for m, r in zip(view, released, strict=True))
    assert not [m for m in federation.transcript.messages if m.sender == "clients"]


@pytest.mark.parametrize("sampling", [None, Sampling("poisson", rate=0.4)])
def test_an_ideal_sum_takes_clients_some_at_a_time_to_the_same_bits(monkeypatch, sampling):
    """In whole steps, whatever fits into memory; also of a cohort."""
    found = []
    for block in (1, 60, 2**18):
        monkeypatch.setattr(clients_of, "BLOCK", block)
        offsets = np.array([0, 1, 30, 31, 80, 120])
        fed = fl.simulate(
            ClientData(box(120, 2), offsets), "ideal", seed=3, noise="discrete",
            ledger=PrivacyLedger(unit="client"),
        )  # fmt: skip
        how = {"centers": CENTERS, "clip_sums": 2.0, "clip_counts": 9.0}
        noise = [
            fed.gaussian(CLIENT_SUMS_AND_COUNTS, part, multiplier=1.0, n_coordinates=6,
                         n_clusters=3, clip_sums=2.0, clip_counts=9.0)
            for part in CLIENT_SUMS_AND_COUNTS.parts
        ]  # fmt: skip
        released = fed.noisy_sum(CLIENT_SUMS_AND_COUNTS, noise, round=0, sampling=sampling, **how)
        found.append([*released, *((m.name, m.count) for m in fed.transcript.messages)])
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_the_trusted_server_sees_every_exact_message():
    a, b = box(40, 2), box(60, 2, 1)
    federation = fl.simulate([a, b], "trusted", seed=1, keep_payloads=True)
    release(federation)
    sums, counts = federation.transcript.view("server")
    for i, points in enumerate((a, b)):
        exact = exact_release(points)
        assert np.allclose(sums.payload[i], exact[0]) and np.array_equal(
            counts.payload[i], exact[1]
        )


def test_payloads_are_kept_on_request_only():
    federation = fl.simulate([box(40, 2), box(60, 2, 1)], "trusted", seed=1)
    release(federation)
    assert all(m.payload is None for m in federation.transcript.messages)
    frame = federation.transcript.to_frame()
    assert "payload" not in frame and len(frame) == len(federation.transcript.messages)
    assert frame["n_bytes"].mul(frame["count"]).sum() == federation.transcript.n_bytes()
    assert list(fl.Transcript().to_frame().columns) == list(frame.columns)


def test_serverless_has_no_server():
    federation = fl.simulate([box(20, 2)] * 4, "serverless", seed=1, n_records=80)
    release(federation, (mech.NoNoise(), mech.NoNoise()))
    assert {m.receiver for m in federation.transcript.messages} == {"nodes", "clients"}
    # 4 nodes: 12 share messages and 12 publications of 6 + 3 words
    assert federation.transcript.n_bytes(round=0) == 2 * 12 * 9 * 8


# --- modes and streams ----------------------------------------------------------------------------


def streams(randomness):
    nodes = (randomness.node_noise[0], randomness.node_noise[1])
    return {"public": randomness.public, "noise": randomness.noise, "keys": randomness.keys,
            "node 0": nodes[0], "node 1": nodes[1]}  # fmt: skip


def test_teaching_streams_are_independent():
    # pitfall P6: whoever holds one stream cannot compute another
    drawn = {n: g.normal(size=20_000) for n, g in streams(fl.Randomness.teaching(3, 2)).items()}
    names = list(drawn)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            # 10 pairs at 5 standard errors: false alarm 6e-6
            assert abs(np.corrcoef(drawn[a], drawn[b])[0, 1]) < 5 / np.sqrt(20_000)
            assert not np.isin(drawn[a], drawn[b]).any()


@pytest.mark.parametrize("trust", ["trusted", "ideal", "masked"])
def test_noise_of_sums_and_counts_is_uncorrelated(trust):
    # pitfall P7: there the correlation is .998
    points, n = box(30, 2), 1500  # 30 seeds, 50 rounds each
    exact = exact_release(points)
    noise = np.empty((n, 9))
    options = {"masked": {"noise_from": "server", "pre_shared_secret": SECRET}}.get(trust, {})
    for i in range(n):
        if i % 50 == 0:
            federation = fl.simulate([points], trust, seed=i, **options)
        parts = release(federation, round=i % 50)
        noise[i] = np.concatenate([(p - e).ravel() for p, e in zip(parts, exact, strict=True)])
    correlations = np.corrcoef(noise.T)[np.triu_indices(9, 1)]
    # 36 pairs at 5 standard errors: false alarm 2e-5
    assert np.abs(correlations).max() < 5 / np.sqrt(n)
    claimed = np.repeat([0.5, 1.0], [6, 3])
    # 9 standard deviations at 5 standard errors: false alarm 5e-6
    assert np.abs(noise.std(axis=0) / claimed - 1).max() < 5 / np.sqrt(2 * n)


def test_two_secure_federations_share_no_keys_and_no_session():
    a, b = (
        fl.simulate(
            [box(9, 2)] * 2, "masked", noise_from="server", mode="secure", keep_payloads=True
        )
        for _ in "ab"
    )
    assert a.aggregation.session != b.aggregation.session
    messages = a.transcript.messages + b.transcript.messages
    keys = [m.payload.tobytes() for m in messages if m.name == "public key"]
    assert len(set(keys)) == 4


# --- serverless (Appendix C.1) --------------------------------------------------------------------


def serverless(n_nodes, colluding, d=4000, **options):
    points = np.zeros((n_nodes, d)) + 0.25
    return fl.simulate(
        fl.ClientData.from_owners(points, np.arange(n_nodes)), "serverless", seed=5,
        max_colluding=colluding, keep_payloads=True, **options,
    )  # fmt: skip


def test_shares_add_up_and_single_shares_are_uniform():
    d = 3000
    federation = serverless(4, 1, d)
    federation.noisy_sum(TOTAL, [mech.NoNoise()], round=0)
    shares = federation.transcript.messages[0].payload  # (sender, node, d)
    assert shares.shape == (4, 4, d)
    encoded = FixedPoint(64, 30).encode(np.full((4, d), 0.25))
    assert np.array_equal(shares.sum(axis=1, dtype=np.uint64), encoded)
    for sender in range(4):
        for without in range(4):  # any three of the four shares say nothing
            some = np.delete(shares[sender], without, axis=0)
            # 32 tests: false alarm 3e-5
            assert words_uniform_p(some) > 1e-6
            assert words_uniform_p(some.sum(axis=0, dtype=np.uint64)) > 1e-6


# --- overflow, from public bounds -----------------------------------------------------------------


def test_overflow_is_decided_from_public_bounds():
    # theory checks L15: Adult has N = 48842 records, one count may reach all of them
    points, calls = box(50, 2), []

    def compute(points, offsets, **broadcast):
        calls.append(points.any())
        return RELATIVE_SUMS_AND_COUNTS.compute(points, offsets, **broadcast)

    watched = replace(RELATIVE_SUMS_AND_COUNTS, compute=compute)
    small = fl.simulate([points], "masked", noise_from="server", seed=1, bits=32, n_records=48842)
    sent = len(small.transcript.messages)
    with pytest.raises(RingOverflowError, match="sums may reach"):
        small.noisy_sum(watched, PAIR, round=0, centers=CENTERS, radius=RADIUS)
    with pytest.raises(RingOverflowError, match="counts may reach"):
        small.noisy_sum(watched, PAIR, round=0, centers=CENTERS, radius=0.1)
    refuses(RingOverflowError, "", lloyd_run, "fastlloyd", small, n_clusters=3, epsilon=1.0)
    assert not any(calls) and not small.ledger.releases
    assert len(small.transcript.messages) == sent
    for roomy in (
        fl.simulate([points], "masked", noise_from="server", seed=1, n_records=48842),
        fl.simulate(
            [points],
            "masked",
            noise_from="server",
            seed=1,
            bits=32,
            fractional_bits=12,
            n_records=48842,
        ),
        fl.simulate([points], "masked", noise_from="server", seed=1, bits=32),
    ):
        lloyd_run("fastlloyd", roomy, n_clusters=3, epsilon=1.0)


def test_overflow_counts_the_noise():
    # SuLloyd's Laplace noise alone leaves the 32-bit ring (pitfall P4): d = 784, k = 10, eps = .1
    federation = fl.simulate(
        [box(20, 784)], "masked", noise_from="server", seed=1, bits=32, n_records=10_000
    )
    with pytest.raises(RingOverflowError, match="noise up to"):
        lloyd_run("sulloyd", federation, n_clusters=10, epsilon=0.1)
    assert not federation.ledger.releases


def test_overflow_of_a_later_round_is_found_before_the_first():
    # alpha = 2 and k = 1: eta = 2 sqrt(d) is larger than the first radius sqrt(d)
    federation = fl.simulate(
        [box(20, 2)], "masked", noise_from="server", seed=1, bits=32, n_records=15_000
    )
    with pytest.raises(RingOverflowError, match="15000 records of at most 2.8"):
        lloyd_run("fastlloyd", federation, n_clusters=1, epsilon=8.0, alpha=2.0, n_rounds=3)
    assert not federation.ledger.releases


# --- ledgers over several federations -------------------------------------------------------------


def test_one_ledger_for_all_runs_on_a_data_set():
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5, "gdp"))
    points = box(300, 2)
    for trust in ("trusted", "ideal"):
        federation = fl.simulate([points], trust, seed=1, ledger=ledger)
        mechanisms = (mech.Gaussian(np.sqrt(2) + 1e-6, 12.0), mech.Gaussian(1.0, 12.0))
        federation.noisy_sum(SUMS_AND_COUNTS, mechanisms, round=0, centers=CENTERS)
    assert len(ledger.releases) == 2
    with pytest.raises(ValueError, match="budget must not be given with a ledger"):
        fl.simulate([points], "ideal", seed=1, ledger=ledger, budget=Budget(1.0, 1e-5))
