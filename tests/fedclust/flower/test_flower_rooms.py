"""Rooms of a real federation, without an engine: equal to one process, whatever the wire does.

The transport is a direct call, so that every message can be lost, doubled, changed or repeated at
will. The same over Flower, with processes: test_flower_deployment.py.
"""

import json
import os
import secrets
import time
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from conftest import refuses
from flower_cases import (
    LLOYD,
    LOCAL,
    MEETING,
    N_CLIENTS,
    SECRET,
    SERVERLESS,
    SUMS,
    TRUSTED,
    BadNetwork,
    Deadly,
    Direct,
    Killed,
    Recording,
    ask,
    assert_same,
    client_rows,
    hello,
    killing,
    met,
    one_answer_each,
    open_room,
    open_rooms,
    outcome,
    refused,
    results,
    said_hello,
    server,
    session_of_room,
    study,
    ticks,
)

import fedclust_helpers
from fedclust.flower import JournalError, RoundFailedError
from fedclust.flower.journal import Journal
from fedclust.flower.keys import agreement_of, check_of, parts_of, spoken
from fedclust.flower.messages import decode, encode
from fedclust.flower.parties import PARTIES
from fedclust.flower.process import finish
from fedclust_helpers import kmeans
from fedclust_helpers.accounting import Budget
from fedclust_helpers.federation import ClientData, TrustModelError, simulate

# 165 users are few
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:nothing stands out")]

SERVER_POINTS = np.random.default_rng(3).normal(0, 0.3, (30, 2)).tolist()
SKETCH = {"n_clusters": 2, "epsilon": 2.0}
FEDDP = {"n_clusters": 3, "epsilon": 8.0, "delta": 1e-4, "n_rounds": 2}

STUDIES = {
    "noise of the server": study(noise_from="server"),
    "noise of the clients": study(),
    "read by the server": study(receiver="server"),
    "32 bits": study(bits=32),
    "over-clustered": study(
        method="fastlloyd_overclustered", options={"n_clusters": 3, "epsilon": 2.0}
    ),
    "over-clustered, read by the server": study(
        method="fastlloyd_overclustered", options={"n_clusters": 3, "epsilon": 2.0},
        receiver="server",
    ),
    "trusted server": study(**TRUSTED),
    "FedDP-KMeans, trusted server": study(
        method="feddp_kmeans", options=FEDDP, server_points=SERVER_POINTS, domain="ball", **TRUSTED
    ),
    "sums only": study(method="sums_only", options=SUMS, unit="client"),
    "serverless": study(**SERVERLESS),
    "serverless, 32 bits": study(bits=32, **SERVERLESS),
    "serverless, over-clustered": study(
        method="fastlloyd_overclustered", options={"n_clusters": 3, "epsilon": 2.0}, **SERVERLESS
    ),
    "serverless, models": study(method="sums_only", options=SUMS, unit="client", **SERVERLESS),
    "one round": study(method="ldp_one_round", options=SKETCH, **LOCAL),
    "one round with sums": study(method="ldp_one_round", options=SKETCH | {"sums": True}, **LOCAL),
    "sketch": study(method="ldp_sketch", options=SKETCH, **LOCAL),
    "sketch of seven columns": study(method="ldp_sketch", options=SKETCH, n_features=7, **LOCAL),
}  # fmt: skip


@pytest.fixture(params=list(STUDIES))
def agreed(request):
    return STUDIES[request.param]


# --- the contract ---------------------------------------------------------------------------------


def test_round_by_round_equal_to_one_process(agreed, tmp_path):
    rooms = open_rooms(tmp_path, agreed)
    returned = server(tmp_path, agreed, Direct(rooms)).run()
    assert_same(agreed, returned, rooms)


def test_payload_is_within_ten_percent_of_the_transcript(tmp_path):
    # k = 15 and d = 2 as for S1, the smallest messages of our data sets; no meeting, no end
    agreed = study(options=LLOYD | {"n_clusters": 15}, noise_from="server")

    class Counting(Direct):
        n_bytes = 0

        def send(self, address, message):
            super().send(address, message)
            if decode(message).kind not in MEETING:
                self.n_bytes += len(message) + len(self._waiting[-1][1])

    network = Counting(open_rooms(tmp_path, agreed))
    server(tmp_path, agreed, network, patience=20.0).run()
    federation = simulate(client_rows(), "masked", **agreed.federation_options)
    agreed.follow(federation, agreed.planned(federation))
    rounds = sum(federation.transcript.n_bytes(round=t) for t in range(3))
    header = 16
    sent = network.n_bytes - N_CLIENTS * 2 * header  # the first request, done
    assert rounds == 2 * 3 * N_CLIENTS * 8 * 15 * 3
    assert rounds <= sent <= 1.1 * rounds


@pytest.mark.parametrize(
    "end", ["noise of the clients", "read by the server", "serverless", "one round"]
)
def test_in_secure_mode_the_clients_agree_and_the_noise_is_fresh(tmp_path, end):
    agreed, outcomes = replace(STUDIES[end], seed=None), []
    for run in ("one", "two"):
        again, folder = replace(agreed, run=run), tmp_path / run
        folder.mkdir()
        rooms = open_rooms(folder, again)
        network = Recording(rooms)
        found = [outcome(r) for r in results(again, server(folder, again, network).run(), rooms)]
        assert all(np.array_equal(found[0], other) for other in found)
        assert abs(rooms[0].ledger().epsilon(rooms[0].plan.delta) - 2.0) < 1e-6
        outcomes.append(network.answers[0] if agreed.trust == "local" else found)
    assert any((a != b).any() for a, b in zip(*outcomes, strict=True))


# --- a bad network --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", ["lost", "doubled", "late", "out of order", "cut short", "garbled"]
)
@pytest.mark.parametrize("receiver", ["clients", "server"])
def test_a_bad_network_changes_nothing(tmp_path, fault, receiver):
    agreed = study(receiver=receiver)
    rooms = open_rooms(tmp_path, agreed)
    network = BadNetwork(rooms, fault, seed=1)
    returned = server(tmp_path, agreed, network).run()
    assert_same(agreed, returned, rooms)
    assert network.n_spoilt or fault in ("late", "out of order")
    assert one_answer_each(network.answers)


def test_a_client_that_never_answers_is_named_in_time(tmp_path):
    class Deaf(Direct):
        def send(self, address, message):
            if address != 1 or decode(message).kind in MEETING:
                super().send(address, message)

    rooms = open_rooms(tmp_path, study())
    heard, often = [], {"deadline": 300.0, "patience": 50.0}
    room = server(tmp_path, study(), Deaf(rooms), **often, clock=ticks(), say=heard.append)
    refuses(RoundFailedError, "no answer to total 0 within 300 s from client 1", room.run)
    assert heard == ["no answer yet from client 1: asked again"]  # once, and of no other
    server(tmp_path, study(), Direct(rooms)).run()  # it comes back, and the run goes on
    assert_same(study(), None, rooms)


def test_two_clients_of_one_number_are_refused(tmp_path):
    rooms = [open_room(tmp_path, study(), i) for i in (0, 1)]
    room = server(tmp_path, study(), Direct([*rooms, rooms[1]]))
    refuses(RoundFailedError, "clients must be number 0 to 2, each once", room.run)
    assert not any(r.ledger().releases for r in rooms)


def test_nobody_answers_in_the_name_of_another(tmp_path):
    class Liar(Direct):
        def send(self, address, message):
            super().send(address, message)
            if address == 2 and decode(message).kind == "total":
                frame = decode(self._waiting.pop()[1])
                self._waiting.append((2, encode(replace(frame, sender=0))))

    rooms = open_rooms(tmp_path, study())
    room = server(tmp_path, study(), Liar(rooms), deadline=300.0, clock=ticks())
    refuses(RoundFailedError, "in the name of client 0", room.run)


@pytest.mark.parametrize("spoil", ["shape", "kind", "parts"])
def test_an_answer_of_another_form_is_not_added(tmp_path, spoil):
    class Odd(Direct):
        def send(self, address, message):
            super().send(address, message)
            frame = decode(self._waiting[-1][1])
            if address == 2 and frame.kind == "answer":
                first = frame.arrays["0"]
                changed = {
                    "shape": {"0": first[:-1]}, "kind": {"0": first.astype(np.int64)},
                    "parts": {"2": first},
                }[spoil]  # fmt: skip
                self._waiting.pop()
                answer = encode(replace(frame, arrays={**frame.arrays, **changed}))
                self._waiting.append((2, answer))

    rooms = open_rooms(tmp_path, study())
    room = server(tmp_path, study(), Odd(rooms), deadline=300.0, clock=ticks())
    refuses(RoundFailedError, "from client 2 .*(numbers|parts)", room.run)
    assert not room.journal.path.exists()


# --- killed and started again ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", ["read by the server", "trusted server", "serverless", "one round with sums"]
)
def test_everybody_is_killed_at_every_message_and_goes_on(tmp_path, end):
    """Who follows the algorithm, and whose noise is one stream, is another one in each."""
    agreed = STUDIES[end]
    if agreed.method == "fastlloyd":
        agreed = replace(agreed, options=LLOYD | {"n_rounds": 2})
    network = Deadly(tmp_path, agreed)
    assert_same(agreed, network.run(), network.rooms)
    assert one_answer_each(network.answers, len(network.rooms[0].plan.releases))


def test_what_is_charged_is_never_less_than_what_left(tmp_path):
    agreed = study()
    room = open_room(tmp_path, agreed, 0)
    hello(room)
    charged_when_answered = []
    save = room.journal.save

    def watched(document):
        save(document)
        charged_when_answered.append(
            len(json.loads(room.journal.path.read_text())["runs"][0]["answered"])
        )

    room.journal.save = watched
    assert decode(ask(room, "total", 0)).kind == "answer"
    assert charged_when_answered == [1]  # on disk before the answer was returned
    room.journal.save = killing
    assert decode(ask(room, "total", 1, totals(room))).kind == "refused"
    again = open_room(tmp_path, agreed, 0)
    assert len(again.ledger().releases) == 1


def test_a_server_without_its_journal_cannot_go_on(tmp_path):
    class Stops(Direct):
        def send(self, address, message):
            if decode(message).number == 2:
                raise Killed
            super().send(address, message)

    rooms = open_rooms(tmp_path, study())
    with pytest.raises(Killed):
        server(tmp_path, study(), Stops(rooms)).run()
    lost = server(tmp_path, study(), Direct(rooms), journal=tmp_path / "other.json")
    refuses(RoundFailedError, "a journal was lost or put back", lost.run)
    # the releases that were made stay charged
    assert all(len(room.ledger().releases) == 2 for room in rooms)


# --- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [1e-6, 5.0, "ahead by an hour"])
def test_a_clock_of_its_own_pace_costs_time_and_nothing_else(tmp_path, pace, monkeypatch):
    """The server's clock (20 s of deadline) is nobody else's; wall clocks are nobody's."""
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the time of day is asked for"))
    ticks = count()
    step = 0.001 if isinstance(pace, str) else pace

    def clock():
        tick = next(ticks)
        return step * tick + (3600.0 if pace == "ahead by an hour" and tick > 20 else 0.0)

    agreed = study()
    rooms = open_rooms(tmp_path, agreed)
    network = BadNetwork(rooms, "lost", seed=1)
    returned, n_failed = None, 0
    while True:
        try:
            returned = server(tmp_path, agreed, network, clock=clock, deadline=20.0).run()
            break
        except RoundFailedError as error:
            assert "no answer to" in str(error) and n_failed < 1000
            n_failed += 1
    assert bool(n_failed) == (pace != 1e-6)
    assert_same(agreed, returned, rooms)
    assert one_answer_each(network.answers)


# --- a client trusts nobody -----------------------------------------------------------------------


def totals(room) -> dict[str, np.ndarray]:
    """A total of the right form, made up."""
    rng = np.random.default_rng(0)
    return {"0": rng.integers(2**40, size=(3, 2), dtype=np.uint64), "1": np.ones(3, np.uint64)}


def test_nothing_is_answered_before_the_agreement(tmp_path):
    room = open_room(tmp_path, study(), 0)
    refused(ask(room, "total"), "no hello came before")
    refused(ask(room, "hello"), "version, columns, bounds, keys, study, plan differ")
    refused(ask(room, "total"), "no hello came before")
    own = said_hello(room)
    refused(ask(room, "total"), "no session of this client")
    refused(ask(room, "session", 0, met(room, own) | {"nonces": np.zeros((3, 32))}), "must bring")
    hello(room)
    refused(ask(room, "total", session=bytes(32)), "no session of this client")
    assert room.ledger().releases == ()


def test_a_plan_beyond_the_budget_is_refused_at_hello(tmp_path):
    room = open_room(tmp_path, study(), 0, budget=Budget(1.0, 0.01))
    parts = {name: np.frombuffer(part, np.uint8) for name, part in room._parts.items()}
    refused(ask(room, "hello", 0, parts), "the plan would exceed the budget")
    assert not room.journal.path.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "another"}, {"bound": 2.0}, {"options": LLOYD | {"epsilon": 1.0}}, {"seed": 6},
        {"n_records": 1000}, {"max_colluding": 0}, {"bits": 32}, {"noise_from": "server"},
        {"columns": ["height", "age"]}, {"columns": ["age", "weight"]}, {"columns": None},
        {"upper": [1.0, 2.0]}, {"lower": [-2.0, -1.0]}, {"lower": None, "upper": None},
    ],
    ids=lambda changes: "=".join(map(str, next(iter(changes.items())))),
)  # fmt: skip
def test_another_study_is_another_agreement(tmp_path, changes):
    """Refused at hello, and what differs is said: the columns, the bounds, or else."""
    agreed = study(columns=["age", "height"], lower=[-1.0, -2.0], upper=[1.0, 1.0])
    rooms = open_rooms(tmp_path, agreed)
    rooms[2] = open_room(tmp_path, replace(agreed, **changes), 2)
    room = server(tmp_path, agreed, Direct(rooms))
    parts = {"columns": "columns", "bound": "bounds", "lower": "bounds", "upper": "bounds"}
    differ = parts.get(next(iter(changes)), "study")
    said = f"client 2 refused: the agreement is not this client's: {differ}(, plan)? differ"
    refuses(RoundFailedError, said, room.run)
    assert not any(r.ledger().releases for r in rooms)
    assert len({spoken(r.agreement) for r in rooms}) == 2  # and people who read it out hear it


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"public_seed": 2**60}, {"public_seed": 2**60 + 1}),
        ({"upper": [1.7e12, 2.0]}, {"upper": [1.7e12 + 1, 2.0]}),  # a millisecond since 1970
        ({"upper": [1.7e12, 2.0]}, {"upper": [np.nextafter(1.7e12, 2e12), 2.0]}),
        ({"bound": 1.0}, {"bound": 1.0 + 2.0**-52}),
    ],
    ids=["seed", "a millisecond", "the last bit", "bound"],
)
def test_what_stands_in_a_study_is_compared_to_the_last_bit(one, other):
    both = []
    for changes in (one, other):
        agreed = study(**{"lower": [-1.0, -2.0], "upper": [1.0, 2.0]} | changes)
        both.append(agreement_of(parts_of(agreed, agreed.planned(PARTIES["masked"](agreed)))))
    assert both[0] != both[1]


def test_one_number_in_two_forms_is_one_agreement():
    """As JSON has them: 1 and 1.0, a list and a tuple; and what a plan computes, to 12 digits."""
    both = [study(lower=low, upper=up) for low, up in (([-1, -2], [1, 2]), ((-1.0, -2.0), 2.0))]
    both[1] = replace(both[1], upper=[1.0, 2.0], bound=1)
    parts = [parts_of(s, s.planned(PARTIES["masked"](s))) for s in both]
    assert parts[0] == parts[1]
    plan = both[0].planned(PARTIES["masked"](both[0]))
    near = replace(plan, epsilon=plan.epsilon * (1 + 1e-15))
    assert parts_of(both[0], near) == parts[0]
    assert parts_of(both[0], replace(plan, epsilon=plan.epsilon * (1 + 1e-9))) != parts[0]


def test_another_version_is_another_agreement(tmp_path, monkeypatch):
    rooms = open_rooms(tmp_path, study())
    monkeypatch.setattr(fedclust_helpers, "__version__", "0.0.9")
    room = server(tmp_path, study(), Direct(rooms))
    refuses(RoundFailedError, "compare study files and package versions", room.run)


@pytest.mark.parametrize(
    ("own", "error"),
    [
        ({"bound": 0.5}, "study has bound 1.0, this client 0.5"),
        ({"domain": "ball"}, "study has domain box, this client ball"),
        ({"rows": [np.zeros((4, 3))] * 3}, "rows must have 2"),
        ({"secret": b"short"}, "secret must be 32 bytes"),
    ],
    ids=["bound", "domain", "dimension", "secret"],
)
def test_a_client_keeps_its_own_bounds(tmp_path, own, error):
    refuses(ValueError, error, open_room, tmp_path, study(), 0, **own)


def test_rounds_come_in_order_and_once(tmp_path):
    room = open_room(tmp_path, study(), 0)
    hello(room)
    refused(ask(room, "total", 1, totals(room)), "release 0 is the next one")
    first = ask(room, "total", 0)
    assert decode(first).kind == "answer"
    assert ask(room, "total", 0) == first  # repeated: the same bytes
    refused(ask(room, "total", 0, totals(room)), "answered before, to another request")
    refused(ask(room, "total", 2, totals(room)), "release 1 is the next one")
    refused(ask(room, "finish", 1, totals(room)), "no finish 1 is in the plan")
    second = ask(room, "total", 1, totals(room))
    assert decode(second).kind == "answer"
    refused(ask(room, "total", 0), "release 2 is the next one")
    other = {name: value + np.uint64(1) for name, value in totals(room).items()}
    refused(ask(room, "total", 1, other), "answered before, to another request")
    assert len(room.ledger().releases) == 2


def test_a_total_of_another_form_is_refused(tmp_path):
    room = open_room(tmp_path, study(), 0)
    hello(room)
    refused(ask(room, "total", 0, totals(room)), "before the first release")
    ask(room, "total", 0)
    good = totals(room)
    for wrong in (
        {}, {"0": good["0"]}, good | {"2": good["1"]}, good | {"1": good["1"].astype(float)},
        good | {"0": good["0"][:2]}, {"a": good["0"], "b": good["1"]},
    ):  # fmt: skip
        refused(ask(room, "total", 1, wrong), "not of the shape and kind")
    assert len(room.ledger().releases) == 1


RELEASE = {
    "statistic": np.frombuffer(b"relative_sums_and_counts", np.uint8),
    "centers": np.array([[-0.5, 0.1], [0.5, 0.1], [0.0, -0.4]]),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"statistic": np.frombuffer(b"total", np.uint8)}, "not of the statistic"),
        ({"statistic": np.frombuffer(b"os.system", np.uint8)}, "not of the statistic"),
        ({"radius": np.array(50.0)}, "does not fit the plan"),
        ({"radius": np.array(np.nan)}, "does not fit the plan"),
        ({"radius": np.array([0.1, 0.1])}, "does not fit the plan"),
        ({"centers": np.full((3, 2), np.nan)}, "does not fit the plan"),
        ({"centers": np.zeros((3, 5))}, "does not fit the plan"),
        ({"centers": np.zeros((90, 2))}, "does not fit the plan"),
        ({"bound": np.array(0.1)}, "does not fit the plan"),
        ({"n_features": np.array(1)}, "does not fit the plan"),
        ({"points": np.zeros((1, 2))}, "does not fit the plan"),
        ({"round": np.array(7)}, "does not fit the plan"),
        ({"sampling": np.array(0)}, "does not fit the plan"),
    ],
    ids=lambda value: (
        "=".join(map(str, next(iter(value.items())))) if isinstance(value, dict) else ""
    ),
)
def test_a_hostile_broadcast_is_refused_and_costs_nothing(tmp_path, changes, words):
    agreed = study(receiver="server")
    room = open_room(tmp_path, agreed, 0)
    hello(room)
    radius = {"radius": np.array(room.plan.broadcasts("radius")[0])}
    refused(ask(room, "release", 0, RELEASE | radius | changes), words)
    assert room.ledger().releases == ()
    good = ask(room, "release", 0, RELEASE | radius)
    assert decode(good).kind == "answer"
    moved = {"centers": RELEASE["centers"] + 0.1}
    refused(ask(room, "release", 0, RELEASE | radius | moved), "answered before")


@pytest.mark.parametrize("changes", [{}, {"receiver": "server"}, TRUSTED], ids=str)
def test_a_client_whose_statistic_fails_is_charged_and_answers_as_one_without_rows(
    tmp_path, changes, monkeypatch
):
    """Else a server that makes it fail for one value asks who has that value, free of charge."""
    agreed, true = study(**changes), kmeans.sums_and_counts

    def failing(points, centers, **how):
        if (points == 0.125).any():
            raise ValueError("0.125 is among the rows")
        sums, counts = true(points, centers, **how)
        return np.zeros_like(sums), np.zeros_like(counts)

    monkeypatch.setattr(kmeans, "sums_and_counts", failing)
    monkeypatch.setattr(secrets, "token_bytes", lambda n: b"1" * n)  # one session for both
    answers = []
    for value in (0.125, 0.25):
        folder = tmp_path / str(value)
        folder.mkdir()
        room = open_room(folder, agreed, 0, rows=[np.full((3, 2), value)])
        hello(room)
        by_server = {**RELEASE, "radius": np.array(room.plan.broadcasts("radius")[0])}
        kind, arrays = ("release", by_server) if changes else ("total", {})
        answers.append(ask(room, kind, 0, arrays))
        assert decode(answers[-1]).kind == "answer" and len(room.ledger().releases) == 1
        told = room.troubles()  # its own operator hears it, once and without a value
        assert len(told) == (value == 0.125) and not room.troubles()
        assert "0.125" not in "".join(told) and all("FAILED ON THESE ROWS" in t for t in told)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("receiver", ["clients", "server"])
def test_a_run_that_is_finished_is_over(tmp_path, receiver):
    agreed = study(receiver=receiver)
    rooms = open_rooms(tmp_path, agreed)
    server(tmp_path, agreed, Direct(rooms)).run()
    kind = "total" if receiver == "clients" else "release"
    refused(ask(rooms[0], kind, 3, totals(rooms[0])), "this run is finished")
    again = server(tmp_path, agreed, Direct(rooms), journal=tmp_path / "new.json")
    refuses(RoundFailedError, "start a new run", again.run)
    assert len(rooms[0].ledger().releases) == 3


def test_a_budget_is_shared_by_all_runs_of_a_journal(tmp_path):
    budget = Budget(5.0, 0.01)
    for i, expected in enumerate([True, True, False]):  # 2 + 2 fit into 5, three runs do not
        agreed = study(run=f"run {i}")
        rooms = open_rooms(tmp_path, agreed, budget=budget)
        room = server(tmp_path, agreed, Direct(rooms), journal=tmp_path / f"server {i}.json")
        if expected:
            room.run()
        else:
            refuses(RoundFailedError, "refused: .*would exceed the budget", room.run)
    assert all(len(room.ledger().releases) == 6 for room in rooms)
    assert rooms[0].ledger().remaining < 0.4


def test_two_runs_that_were_greeted_do_not_both_spend_the_budget(tmp_path, monkeypatch):
    """Nothing was charged when the second one said hello; its rows are not looked at."""
    one, two = (open_room(tmp_path, study(run=run), 0, budget=Budget(3.0, 0.01)) for run in "ab")
    for room in (one, two):
        hello(room)
    first, second = (bytes.fromhex(run["session"]) for run in one.journal.read()["runs"])
    assert decode(ask(one, "total", session=first)).kind == "answer"
    monkeypatch.setattr(PARTIES["masked"], "sent", lambda *_: pytest.fail("rows were read"))
    refused(ask(two, "total", session=second), "would exceed the budget")
    assert len(two.ledger().releases) == 1


def test_a_message_that_failed_leaves_the_way_where_it_was(tmp_path):
    """The total was read, and the algorithm had gone on, when the journal could not be saved."""
    rooms = open_rooms(tmp_path, study())

    class Fails(Direct):
        def send(self, address, message):
            room = self.rooms[address]
            save, room.journal.save = room.journal.save, killing
            room.answer(message)
            room.journal.save = save
            super().send(address, message)

    server(tmp_path, study(), Fails(rooms)).run()
    assert_same(study(), None, rooms)


def test_an_error_tells_nothing_about_the_rows(tmp_path, monkeypatch):
    room = open_room(tmp_path, study(), 0)
    hello(room)

    def failing(*args, **kwargs):
        raise KeyError("row 17 is 0.123456")

    monkeypatch.setattr(room, "_followed", failing)
    answer = ask(room, "total")
    refused(answer, "the client failed")
    assert b"0.123456" not in answer and room.ledger().releases == ()


def test_a_room_is_not_copied(tmp_path):
    import copy
    import pickle

    room = open_room(tmp_path, study(), 0)
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        refuses(TypeError, "must not be", how, room)


# --- the journal ----------------------------------------------------------------------------------


def test_a_damaged_journal_releases_nothing(tmp_path):
    room = open_room(tmp_path, study(), 0)
    hello(room)
    session = session_of_room(room)
    room.journal.path.write_text(room.journal.path.read_text()[:-40])
    refused(ask(room, "total", session=session), "journal is not to be had")
    refuses(JournalError, "damaged", room.ledger)
    refuses(JournalError, "damaged", open_room, tmp_path, study(), 0)
    room.journal.path.write_text("[]")
    refuses(JournalError, "damaged", open_room, tmp_path, study(), 0)


@pytest.mark.parametrize(
    ("changes", "budget", "name"),
    [
        ({"unit": "client"}, Budget(100.0, 0.1), "unit"),
        ({"adjacency": "replace-one"}, Budget(100.0, 0.1), "adjacency"),
        ({}, Budget(100.0, 0.1, "rdp"), "filter"),
    ],
    ids=["unit", "adjacency", "filter"],
)
def test_a_journal_is_for_one_way_of_counting(tmp_path, changes, budget, name):
    """Another would give the same rows a second budget, or take back what a filter promised."""
    hello(open_room(tmp_path, study(), 0))
    refuses(
        JournalError, f"client-0.json was kept for another {name}: .*, not ", open_room, tmp_path,
        study(**changes), 0, budget=budget,
    )  # fmt: skip


def test_an_older_journal_takes_the_filter_of_its_first_budget(tmp_path):
    journal = tmp_path / "client-0.json"
    older = {"format": 1, "unit": "point", "adjacency": "add/remove", "runs": []}
    journal.write_text(json.dumps(older))
    hello(open_room(tmp_path, study(), 0))
    assert json.loads(journal.read_text())["filter"] == "basic"


def test_a_journal_is_for_one_process(tmp_path):
    journal = Journal(tmp_path / "j.json", unit="point")
    other = Journal(tmp_path / "j.json", unit="point")
    for lasting in (journal.open, journal.hold):
        with (
            lasting(),
            pytest.raises(JournalError, match="in use by another process"),
            other.open(),
        ):
            pass
    with journal.hold(), journal.open() as document:  # one that is held is one's own
        journal.save(document)
    with other.open() as found:
        assert found == document
    with journal.hold():  # put back or removed: what was answered since is not forgotten
        journal.save(document)
        for change in (lambda: journal.path.write_text('{"runs": []}'), journal.path.unlink):
            change()
            refuses(JournalError, "changed or removed", journal.read)


def test_a_journal_has_one_budget_under_all_its_names(tmp_path):
    """Replacing the file under one name would leave what the other name has: a second budget."""
    journal, soft, hard = (tmp_path / name for name in ("client-0.json", "soft", "hard"))
    hello(open_room(tmp_path, study(), 0))
    soft.symlink_to(journal)
    hello(open_room(tmp_path, study(run="another"), 0, journal=soft))
    assert len(json.loads(journal.read_text())["runs"]) == 2
    with Journal(soft).hold(), pytest.raises(JournalError, match="in use"), Journal(journal).open():
        pass
    hard.hardlink_to(journal)
    for name in (journal, hard):
        refuses(JournalError, "second name", open_room, tmp_path, study(), 0, journal=name)


def test_files_of_a_client_are_for_its_account_alone(tmp_path):
    before = os.umask(0)
    try:
        journal = Journal(tmp_path / "new.json")
        with journal.open() as document:
            journal.save(document)
        for name in ("old.json", "old.json.lock", "old.json.new"):
            (tmp_path / name).write_text('{"runs": []}')
        with Journal(tmp_path / "old.json").open():  # one that is only read
            assert (tmp_path / "old.json").stat().st_mode & 0o777 == 0o600
        Journal(tmp_path / "old.json").save({})
        rooms = open_rooms(tmp_path, study())
        server(tmp_path, study(), Direct(rooms)).run()
        finish(tmp_path, rooms[0])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(modes, 0o600)


# --- studies and parties -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "ldp_kmeans"}, "method must be one of"),
        ({"run": ""}, "run must be a name"),
        ({"n_clients": 0}, "n_clients must be"),
        ({"trust": "ideal"}, "trust 'ideal' is not offered here"),
        ({"trust": "shuffled"}, "trust 'shuffled' is not offered here: Flower tells"),
        ({"trust": "blind"}, "trust must be one of"),
        ({"trust": "trusted"}, "noise_from must be 'server' where trust is 'trusted'"),
        ({"method": "sums_only", "receiver": "server"}, "receiver must be 'clients' for sums_only"),
        ({"columns": ["a", "a"]}, "columns must be a list of 2 different names"),
        ({"lower": 0.0}, "lower and upper must both be given"),
        ({"lower": [0.0, 1.0], "upper": 1.0}, "upper must be greater than lower"),
        ({"lower": [0.0] * 3, "upper": 1.0}, "lower must be a number or 2 numbers"),
    ],
)
def test_a_study_that_cannot_run_is_refused(changes, message):
    refuses(ValueError, message, study, **changes)


def test_a_study_is_the_same_when_read_again():
    bounded = study(lower=np.zeros(2), upper=1)  # one form of the bounds, in every agreement
    again = type(study()).from_json(bounded.to_json())
    assert again == bounded == study(lower=0.0, upper=[1.0, 1.0])
    for text, said in (
        ('{"code": 1}', "no field 'code'"), ('{"epsilom": 1, "run": "a"}', "no field 'epsilom'"),
        ('{"column": []}', "did you mean 'columns'"),
        ('{"run": "a"}', "must have the field 'method'"),
        ('{"run":\n"a"', "line 2: text must be a JSON object"), ("[]", "must be a JSON object"),
    ):  # fmt: skip
        refuses(ValueError, said, type(again).from_json, text)


@pytest.mark.parametrize("changes", [{}, TRUSTED, {"receiver": "server"}])
def test_no_server_asks_for_single_messages(changes):
    agreed = study(**changes)
    for more in ("collect", "reports"):
        refuses(TrustModelError, "", PARTIES[agreed.trust](agreed).require, more)


def test_a_server_that_adds_the_noise_may_not_read_the_sum(tmp_path):
    wrong = study(noise_from="server", receiver="server")
    refuses(ValueError, "receiver must be 'clients'", open_room, tmp_path, wrong, 0)


def test_laplace_noise_is_not_shared_among_clients(tmp_path):
    agreed = study(
        method="feddp_kmeans", options=FEDDP, server_points=SERVER_POINTS, domain="ball",
        receiver="server",
    )  # fmt: skip
    refuses(TypeError, "n_coordinates|Laplace", open_room, tmp_path, agreed, 0)


def first_masked(folder, agreed, rows) -> np.ndarray:
    """What client 0 sends first in a new journal, all others being as before."""
    folder.mkdir()
    room = open_room(folder, agreed, 0, rows=[rows])
    hello(room)
    return decode(ask(room, "total")).arrays["0"]


@pytest.mark.parametrize("options", [{}, SERVERLESS], ids=["masked", "serverless"])
def test_the_same_study_in_a_new_journal_has_other_pads(tmp_path, options):
    """Else the difference of two messages would be the row that was added between the runs."""
    agreed = study(**({"noise_from": "server"} if not options else options))
    rows = client_rows()[0]
    one, two = (
        first_masked(tmp_path / f"{i}", agreed, each) for i, each in enumerate((rows, rows[1:]))
    )
    difference = (one - two).view(np.int64)
    assert np.abs(difference).min() > 2**40  # of 6 uniform words; fails in 1 of 10^6 runs


def test_a_client_keeps_its_nonce_and_answers_in_one_session(tmp_path):
    room = open_room(tmp_path, study(), 0)
    own = said_hello(room)
    again = open_room(tmp_path, study(), 0)  # started again
    assert all(np.array_equal(said_hello(again)[name], own[name]) for name in own)
    other = met(again, own) | {"nonces": met(again, own)["nonces"][[1, 0, 2]]}
    refused(ask(again, "session", 0, other), "nonce of client 0 is not the one that it sent")
    hello(again)
    assert decode(ask(again, "session", 0, met(again, own, others=8))).kind == "session"
    ask(again, "total")  # so far no pad was used; from now on the session stands
    refused(ask(again, "session", 0, met(again, own)), "another session than that of the releases")
    assert decode(ask(again, "session", 0, met(again, own, others=8))).kind == "session"


def test_a_journal_that_was_put_back_stops_the_run(tmp_path):
    """Client 1 comes back with the nonce of an attempt before: refused, and nobody is charged."""
    agreed, journal = study(), tmp_path / "client-1.json"
    old = open_room(tmp_path, agreed, 1)
    hello(old)
    ask(old, "total")
    backup = journal.rename(tmp_path / "backup.json")

    class Stops(Direct):
        def send(self, address, message):
            if decode(message).number == 1:
                raise Killed
            super().send(address, message)

    rooms = open_rooms(tmp_path, agreed)
    with pytest.raises(Killed):
        server(tmp_path, agreed, Stops(rooms)).run()
    backup.rename(journal)
    refuses(
        RoundFailedError, "client 0 refused: .*another session .*start a new run",
        server(tmp_path, agreed, Direct(rooms)).run,
    )  # fmt: skip
    assert [len(room.ledger().releases) for room in rooms] == [1, 1, 1]


@pytest.mark.parametrize("agreed", [study(), study(**SERVERLESS)], ids=lambda agreed: agreed.trust)
def test_another_group_secret_is_refused_before_the_first_release(tmp_path, agreed):
    rooms = open_rooms(tmp_path, agreed)
    rooms[2] = open_room(tmp_path, agreed, 2, secret=SECRET[::-1])
    room = server(tmp_path, agreed, Direct(rooms))
    refuses(
        RoundFailedError, r"client 0 refused: .*another group secret than clients \[2\]", room.run
    )
    assert not any(r.ledger().releases for r in rooms)
    rooms[2] = open_room(tmp_path, agreed, 2)  # with the right one the same run goes on
    server(tmp_path, agreed, Direct(rooms)).run()
    assert_same(agreed, None, rooms)


def test_a_group_secret_is_not_exchanged_in_the_middle(tmp_path):
    hello(open_room(tmp_path, study(), 0))
    other = open_room(tmp_path, study(), 0, secret=SECRET[::-1])
    refused(ask(other, "total"), "the group secret is another one")
    ask(open_room(tmp_path, study(), 0), "total")
    parts = {name: np.frombuffer(part, np.uint8) for name, part in other._parts.items()}
    refused(ask(other, "hello", 0, parts), "the group secret is another one")


def test_checks_of_a_secret_are_new_in_every_run(tmp_path):
    """The server cannot recognise a secret: keyed, and over a nonce and a number of one run."""
    shown = set()
    for run, number in ((0, 0), (1, 0), (0, 1)):
        (tmp_path / f"{run}{number}").mkdir()
        room = open_room(tmp_path / f"{run}{number}", study(), number)
        own = said_hello(room)
        shown.add(own["check"].tobytes())
        expected = check_of(SECRET, room.agreement, number, own["nonce"].tobytes())
        assert own["check"].tobytes() == expected
    assert len(shown) == 3


def test_pads_cancel_where_the_server_reads(mixture):
    data = ClientData.from_clients([mixture[:100], mixture[100:]])
    federation = simulate(data, "masked", seed=1, receiver="server", keep_payloads=True)
    from fedclust_helpers import fastlloyd

    plan = fastlloyd.plan(federation, n_clusters=3, epsilon=2.0, n_rounds=1)
    result = fastlloyd.run(federation, plan)
    (sums,) = [m for m in federation.transcript.view("server") if m.name == "sums"]
    read = federation.aggregation.fixed_point.decode(sums.payload.sum(axis=0, dtype=np.uint64))
    assert np.array_equal(read, result.released[0][0])
    alone = federation.aggregation.fixed_point.decode(sums.payload[0])
    assert np.abs(alone).max() > 1e6  # one message alone is far outside of what sums may be
    other = simulate(data, "masked", seed=1)
    same = fastlloyd.run(other, fastlloyd.plan(other, n_clusters=3, epsilon=2.0, n_rounds=1))
    assert np.array_equal(same.centers, result.centers)
    assert federation.transcript.n_bytes(round=0) < other.transcript.n_bytes(round=0)
