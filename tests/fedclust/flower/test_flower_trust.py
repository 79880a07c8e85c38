"""Without a server, and without anybody who is trusted: the rooms of both, equal to one process."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import refuses
from flower_cases import (
    KEYS,
    LLOYD,
    LOCAL,
    N_CLIENTS,
    SECRET,
    SERVERLESS,
    Direct,
    Recording,
    ask,
    client_rows,
    hello,
    open_room,
    open_rooms,
    refused,
    server,
    session_of_room,
    study,
    ticks,
)

from fedclust.flower import RoundFailedError
from fedclust.flower.messages import decode, encode
from fedclust_helpers.accounting import Budget, LedgerMismatchError, PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.secure_aggregation import PadBook, pair_secret, public_key

SKETCH: dict[str, Any] = {"n_clusters": 2, "epsilon": 2.0}
ONE_ROUND = study(method="ldp_one_round", options=SKETCH, **LOCAL)
SKETCHED = study(method="ldp_sketch", options=SKETCH, **LOCAL)
WITH_SUMS = study(method="ldp_one_round", options=SKETCH | {"sums": True}, **LOCAL)
# 165 users are few
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:nothing stands out")]


# --- without a server -----------------------------------------------------------------------------


def test_relay_and_a_client_together_read_no_third_message(tmp_path):
    """They hold the group secret and the client's own keys; under masks alone that is enough."""
    left, name = {}, "relative_sums_and_counts/counts"
    for agreed in (study(), study(**SERVERLESS)):
        folder = tmp_path / agreed.trust
        folder.mkdir()
        room = open_room(folder, agreed, 0)
        hello(room)
        sent = decode(ask(room, "total")).arrays["1"]  # counts of the first release
        sent = sent - PadBook(SECRET, session_of_room(room)).pads(name, 0, N_CLIENTS, sent.shape)[0]
        pair = pair_secret(KEYS[2], public_key(KEYS[0]), use="pads")  # what clients 2 and 0 share
        pad = PadBook(pair, session_of_room(room)).pads(f"pair|{name}", 0, 1, sent.shape)[0]
        decode_sum = room._party().aggregation.fixed_point.decode
        left[agreed.trust] = [np.abs(decode_sum(sent)), np.abs(decode_sum(sent + pad))]
    assert left["masked"][0].max() < 1000  # 40 rows and one share of noise
    assert np.min(left["serverless"]) > 1e6  # uniform on the ring: fails in 1 of 1000 seeds


def test_a_key_is_that_of_the_study(tmp_path):
    agreed = study(**SERVERLESS)
    for key in (KEYS[1], None, b"short"):
        refuses(ValueError, "private", open_room, tmp_path, agreed, 0, key=key)
    draft = study(trust="serverless")
    refuses(ValueError, "public_keys must be given .*draft", open_room, tmp_path, draft, 0)
    swapped = study(**SERVERLESS | {"public_keys": SERVERLESS["public_keys"][::-1]})
    rooms = open_rooms(tmp_path, agreed)
    rooms[1] = open_room(tmp_path, swapped, 1)
    room = server(tmp_path, agreed, Direct(rooms))
    refuses(RoundFailedError, "client 1 refused: the agreement is not this client's", room.run)
    assert not any(r.ledger().releases for r in rooms)


@pytest.mark.parametrize("keys", [["ab" * 32] * 3, ["00" * 32], "ab", 7, ["x"] * 3, KEYS])
def test_keys_of_another_form_are_refused(keys):
    refuses((ValueError, TypeError), "public_keys must be", study, trust="serverless",
            public_keys=keys)  # fmt: skip


def test_a_federation_without_a_server_says_what_the_relay_sees(tmp_path):
    text = str(open_room(tmp_path, study(**SERVERLESS), 0).plan)
    assert "relay sees" in text and "uniformly random words" in text
    refuses(ValueError, "receiver must be 'clients'", study, receiver="server", **SERVERLESS)
    refuses(ValueError, "noise_from must be 'clients'", study, noise_from="server", **SERVERLESS)


# --- local reports --------------------------------------------------------------------------------


@pytest.mark.parametrize("agreed", [ONE_ROUND, WITH_SUMS, SKETCHED],
                         ids=["bits", "vectors", "symbols"])  # fmt: skip
def test_the_server_gets_the_reports_of_one_process_and_nothing_else(tmp_path, agreed):
    rooms = open_rooms(tmp_path, agreed)
    network = Recording(rooms)
    server(tmp_path, agreed, network).run()
    federation = simulate(
        np.concatenate(client_rows(agreed.n_features)), "local", keep_payloads=True,
        ledger=PrivacyLedger("point", "replace-one"), **agreed.federation_options,
    )  # fmt: skip
    agreed.follow(federation, agreed.planned(federation))
    reports = [m.payload for m in federation.transcript.view("server") if m.sender == "clients"]
    assert len(reports) == len(rooms[0].plan.releases)
    for sent, expected in zip(zip(*network.answers, strict=True), reports, strict=True):
        assert np.array_equal(np.concatenate(sent), expected)


def test_users_flip_as_often_as_they_say(tmp_path):
    """Secure mode, over the wire: 2 bits of 5000 users, against those of epsilon 60."""
    sent, epsilon = [], 1.0
    for each in (epsilon, 60.0):
        options = {"n_clusters": 2, "epsilon": each, "depths": [2]}
        agreed = study(
            method="ldp_one_round", options=options, **LOCAL | {"users": [5000] * 3},
            n_records=15000, seed=None, run=f"{each}",
        )  # fmt: skip
        rows = [np.random.default_rng(i).uniform(-0.5, 0.5, (5000, 2)) for i in range(3)]
        rooms = open_rooms(tmp_path, agreed, rows=rows)
        network = Recording(rooms)
        server(tmp_path, agreed, network, journal=tmp_path / f"{each}.json").run()
        sent.append(np.concatenate([answers[0] for answers in network.answers]))
    flip, n = 1 / (1 + np.exp(epsilon)), len(sent[0])
    flipped = (sent[0] != sent[1]).mean()
    assert abs(flipped - flip) < 4.5 * np.sqrt(flip * (1 - flip) / n)  # 1 run in 100,000


def test_a_request_brings_no_question(tmp_path):
    room = open_room(tmp_path, ONE_ROUND, 0)
    hello(room)
    for hostile in (
        {"statistic": np.frombuffer(b"cell counts", np.uint8)}, {"targets": np.zeros((3, 2))},
        {"epsilon": np.array(50.0)},
    ):  # fmt: skip
        refused(ask(room, "release", 0, hostile), "a request brings nothing")
    refused(ask(room, "total"), "no total 0 is in the plan")
    refused(ask(room, "release", 1), "release 0 is the next one")
    assert room.ledger().releases == ()
    first = ask(room, "release")
    assert decode(first).kind == "answer" and ask(room, "release") == first
    refused(ask(room, "release", 1), "no release 1 is in the plan")
    assert len(room.ledger().releases) == 1


@pytest.mark.parametrize("spoil", ["fewer users", "another kind", "an unknown symbol"])
def test_reports_that_no_user_would_send_are_not_counted(tmp_path, spoil):
    agreed = SKETCHED

    class Odd(Direct):
        def send(self, address, message):
            super().send(address, message)
            frame = decode(self._waiting[-1][1])
            if address == 2 and frame.kind == "answer":
                symbols = frame.arrays["0"]
                changed = {
                    "fewer users": symbols[1:], "another kind": symbols.astype(np.uint32),
                    "an unknown symbol": symbols + np.uint8(200),
                }[spoil]  # fmt: skip
                self._waiting.pop()
                self._waiting.append((2, encode(replace(frame, arrays={"0": changed}))))

    rooms = open_rooms(tmp_path, agreed)
    room = server(tmp_path, agreed, Odd(rooms), deadline=300.0, clock=ticks())
    refuses(RoundFailedError, "from client 2 .*reports", room.run)
    assert not room.journal.path.exists()


def test_each_user_pays_for_one_question(tmp_path):
    """The parts compose in parallel, in a journal too; runs of the same users add up."""
    ledgers = []
    for run in ("one", "two"):
        agreed = replace(WITH_SUMS, run=run)
        rooms = open_rooms(tmp_path, agreed, budget=Budget(5.0, 0.01))
        server(tmp_path, agreed, Direct(rooms), journal=tmp_path / f"{run}.json").run()
        ledgers.append(rooms[0].ledger())
    assert [r.group for r in ledgers[1].releases] == [
        f"division {i}/{part}" for i in (0, 1) for part in ("count", "sum")
    ]
    assert abs(ledgers[0].epsilon(1e-6) - 2.0) < 1e-6
    assert ledgers[1].epsilon(2e-6) <= 4.0 + 1e-6
    agreed = replace(WITH_SUMS, run="three")
    room = server(tmp_path, agreed, Direct(open_rooms(tmp_path, agreed, budget=Budget(5.0, 0.01))),
                  journal=tmp_path / "three.json")  # fmt: skip
    refuses(RoundFailedError, "refused: .*would exceed the budget", room.run)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"users": [1, 2]}, ValueError, "users must be 3 numbers"),
        ({"users": None}, ValueError, "with the sum n_records=165"),
        ({"users": [0, 80, 85]}, ValueError, "users must be"),
        ({"receiver": "clients"}, ValueError, "receiver must be 'server' where trust is 'local'"),
        ({"trust": "masked"}, ValueError, "users must be given where trust is 'local' only"),
        ({"method": "ldp_four_rounds"}, ValueError, "method must be one of"),
        ({"max_colluding": -1}, ValueError, "max_colluding must be >= 0"),
    ],
)  # fmt: skip
def test_a_local_study_that_cannot_run_is_refused(changes, error, message):
    refuses(error, message, replace, ONE_ROUND, **changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"adjacency": "add/remove"}, LedgerMismatchError, "replace-one"),
        ({"domain": "box"}, ValueError, "unit ball"),
        ({"method": "fastlloyd", "options": LLOYD}, TypeError, "noisy_sum"),
    ],
)
def test_a_local_study_that_protects_nothing_is_refused(tmp_path, changes, error, message):
    refuses(error, message, open_room, tmp_path, replace(ONE_ROUND, **changes), 0)


def test_a_room_answers_for_the_users_of_the_study(tmp_path):
    refuses(ValueError, "rows must be those of 40 users, got 41", open_room, tmp_path, ONE_ROUND, 0,
            rows=[np.zeros((41, 2))])  # fmt: skip
    each = study(method="ldp_one_round", options=SKETCH, n_records=3, **LOCAL | {"users": None})
    assert [each.users_of(i) for i in range(3)] == [range(1), range(1, 2), range(2, 3)]
