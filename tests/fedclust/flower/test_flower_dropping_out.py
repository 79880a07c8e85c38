"""Clients of a real federation that do not come back, or do: equal to one process, and charged.

Rooms in this process; the transport decides who is there. The argument: `federation.missing`.
"""

import json
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from conftest import refuses
from flower_cases import (
    KEYS,
    LLOYD,
    N_CLIENTS,
    SECRET,
    SERVERLESS,
    TRUSTED,
    Direct,
    Killed,
    ask,
    client_rows,
    hello,
    met,
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

from fedclust.flower import RoundFailedError
from fedclust.flower.journal import packed
from fedclust.flower.messages import decode, named, numbered
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.secure_aggregation import FixedPoint, PadBook, pair_secret, public_key

pytestmark = pytest.mark.slow

ONE = {"may_miss": 1, "repeats": 1}
WAYS = {
    "masked": {},
    "read by the server": {"receiver": "server"},
    "serverless": SERVERLESS,
}
NO_SECOND = {"noise of the server": {"noise_from": "server"}, "trusted": TRUSTED}


class Leaving(Direct):
    """A transport on which clients are gone: `gone` says of (kind, round, client) how.

    The round is the last that anything was said of: totals of earlier ones come late.
    "away": the message does not arrive; "mute": it is answered, and the answer does not arrive.
    """

    def __init__(self, rooms, gone):
        super().__init__(rooms)
        self.gone = gone
        self.sent, self.now = Counter(), 0

    def send(self, address, message):
        frame = decode(message)
        self.now = max(self.now, frame.number)
        how = self.gone(frame.kind, self.now, address)
        self.sent[frame.kind, frame.number] += 1
        if how != "away":
            super().send(address, message)
            if how == "mute":
                self._waiting.pop()


def never(kind, number, client):
    return ""


def gone_in(rounds, client=2, how="away"):
    """Gone when a round of these begins."""
    return lambda kind, number, i: how if i == client and number in rounds else ""


def silent_in(rounds, client=2, how="away"):
    """There when the roll is called in these rounds, and then not."""
    return lambda kind, number, i: (
        how if i == client and number in rounds and kind == "release" else ""
    )


def runs(folder, agreed, network, **options):
    return server(folder, agreed, network, deadline=300.0, clock=ticks(), **options).run()


def reference(agreed, **gone):
    federation = simulate(
        client_rows(agreed.n_features), agreed.trust,
        ledger=PrivacyLedger(agreed.unit, agreed.adjacency), **agreed.federation_options, **gone,
    )  # fmt: skip
    return agreed.follow(federation, agreed.planned(federation))


def charges(room):
    """The rounds that a client was charged for."""
    return [release.round for release in room.ledger().releases]


def assert_result(agreed, returned, rooms, expected):
    for result in results(agreed, returned, rooms):
        assert np.array_equal(outcome(result), outcome(expected))
        assert np.array_equal(result.history, expected.history)


# --- equal to one process -------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS | NO_SECOND)
def test_gone_before_a_round_and_back_again(tmp_path, way):
    """Nobody pays for a second set; who comes back gets the totals that it missed."""
    agreed = study(may_miss=1, repeats=int(way in WAYS), **(WAYS | NO_SECOND)[way])
    rooms = open_rooms(tmp_path, agreed)
    returned = runs(tmp_path, agreed, Leaving(rooms, gone_in({1})))
    assert_result(agreed, returned, rooms, reference(agreed, away={1: [2]}))
    assert [charges(room) for room in rooms] == [[0, 1, 2], [0, 1, 2], [0, 2]]
    assert all(room.finished for room in rooms)


@pytest.mark.parametrize("way", WAYS)
def test_gone_during_a_round(tmp_path, way):
    """The round is asked again of those who are left, and charged again to each of them."""
    agreed = study(**ONE, **WAYS[way])
    rooms = open_rooms(tmp_path, agreed)
    returned = runs(tmp_path, agreed, Leaving(rooms, silent_in({1})))
    expected = reference(agreed, silent={1: [2]})
    assert_result(agreed, returned, rooms, expected)
    assert [charges(room) for room in rooms] == [[0, 1, 1, 2], [0, 1, 1, 2], [0, 2]]
    assert rooms[0].ledger().releases == expected.ledger.releases


@pytest.mark.parametrize("way", WAYS)
def test_gone_after_its_message_and_two_in_turn(tmp_path, way):
    """Client 2 answers round 0 and is gone; in round 2 client 0 is, and client 2 is back."""
    agreed = study(**ONE, **WAYS[way])
    rooms = open_rooms(tmp_path, agreed)

    def gone(kind, number, client):
        return "away" if (client, number) in {(2, 1), (0, 2)} else ""

    returned = runs(tmp_path, agreed, Leaving(rooms, gone))
    assert_result(agreed, returned, rooms, reference(agreed, away={1: [2], 2: [0]}))
    assert [charges(room) for room in rooms] == [[0, 1], [0, 1, 2], [0, 2]]


def test_a_trusted_server_adds_up_those_who_answered(tmp_path):
    agreed = study(may_miss=1, **TRUSTED)
    rooms = open_rooms(tmp_path, agreed)
    returned = runs(tmp_path, agreed, Leaving(rooms, silent_in({1})))
    assert_result(agreed, returned, rooms, reference(agreed, silent={1: [2]}))
    assert [charges(room) for room in rooms] == [[0, 1, 2], [0, 1, 2], [0, 2]]


@pytest.mark.parametrize("way", WAYS)
def test_without_a_client_from_the_beginning(tmp_path, way):
    """It was not at the meeting: the others have a session without it, and it stays out."""
    agreed = study(**ONE, **WAYS[way])
    rooms = open_rooms(tmp_path, agreed)

    def gone(kind, number, client):
        return "away" if client == 2 and (kind, number) in {("hello", 0), ("session", 0)} else ""

    returned = runs(tmp_path, agreed, Leaving(rooms, gone))
    away = dict.fromkeys(range(3), [2])
    assert_result(agreed, returned, rooms[:2], reference(agreed, away=away))
    assert [charges(room) for room in rooms] == [[0, 1, 2], [0, 1, 2], []]
    assert not rooms[2].finished


def test_two_gone_at_once(tmp_path):
    """Three of five are enough where the study says so; the price is more noise."""
    keys = [bytes([i + 1] * 32) for i in range(5)]
    assert keys[:3] == KEYS
    rows = [*client_rows(), *client_rows()[:2]]
    agreed = study(n_clients=5, n_records=260, may_miss=2, repeats=1)
    rooms = [open_room(tmp_path, agreed, i, rows=rows) for i in range(5)]

    def gone(kind, number, client):
        return "away" if client in (1, 4) and (number, kind) == (1, "release") else ""

    returned = runs(tmp_path, agreed, Leaving(rooms, gone))
    federation = simulate(rows, "masked", **agreed.federation_options, silent={1: [1, 4]})
    expected = agreed.follow(federation, agreed.planned(federation))
    assert_result(agreed, returned, rooms, expected)
    assert [len(charges(room)) for room in rooms] == [4, 2, 4, 4, 2]


def test_who_was_asked_is_in_time_again(tmp_path):
    """The same set is asked again, and answers with the same bytes: no repeat is used."""
    agreed = study(**ONE)
    rooms = open_rooms(tmp_path, agreed)
    network = Leaving(rooms, None)
    network.gone = lambda kind, number, i: (
        "away" if (kind, number, i) == ("release", 1, 2) and network.sent["roll", 1] == N_CLIENTS
        else ""
    )  # fmt: skip
    returned = runs(tmp_path, agreed, network)
    assert_result(agreed, returned, rooms, reference(agreed))
    assert [charges(room) for room in rooms] == [[0, 1, 2]] * 3


# --- too many -------------------------------------------------------------------------------------


def test_the_run_stops_where_too_many_are_missing_and_goes_on_when_they_are_back(tmp_path):
    agreed = study(**ONE)
    rooms = open_rooms(tmp_path, agreed)
    both = Leaving(rooms, lambda kind, number, i: "away" if i and number == 1 else "")
    refuses(RoundFailedError, "no answer to roll 1 .*client 1, 2", runs, tmp_path, agreed, both)
    assert [charges(room) for room in rooms] == [[0]] * 3
    returned = runs(tmp_path, agreed, Leaving(rooms, never))
    assert_result(agreed, returned, rooms, reference(agreed))


def test_no_repeat_is_left_for_the_second_silence(tmp_path):
    """What was asked stays charged; once the client is back, the same set goes on."""
    agreed = study(**ONE)
    rooms = open_rooms(tmp_path, agreed)
    network = Leaving(rooms, silent_in({0, 1}))
    refuses(RoundFailedError, "no answer to release 1 .*client 2", runs, tmp_path, agreed, network)
    away = Leaving(rooms, gone_in({1}))
    refuses(
        RoundFailedError, r"clients \[2\] do not answer to release 1, and none of the 1 repeats",
        runs, tmp_path, agreed, away,
    )  # fmt: skip
    returned = runs(tmp_path, agreed, Leaving(rooms, never))
    assert_result(agreed, returned, rooms, reference(agreed, silent={0: [2]}))
    assert [charges(room) for room in rooms] == [[0, 0, 1, 2], [0, 0, 1, 2], [1, 2]]


def test_with_the_noise_of_the_server_a_round_that_has_begun_waits(tmp_path):
    agreed = study(may_miss=1, noise_from="server")
    rooms = open_rooms(tmp_path, agreed)
    silent = Leaving(rooms, silent_in({1}))
    refuses(RoundFailedError, "no answer to release 1", runs, tmp_path, agreed, silent)
    runs(tmp_path, agreed, Leaving(rooms, never))
    assert_result(agreed, None, rooms, reference(agreed))
    assert [charges(room) for room in rooms] == [[0, 1, 2]] * 3


# --- killed, and clients missing ------------------------------------------------------------------


class Mortal(Leaving):
    """The server is killed before its n-th message; rooms are opened anew on their journals."""

    def __init__(self, folder, agreed, gone, **options):
        super().__init__(open_rooms(folder, agreed, **options), gone)
        self.folder, self.agreed, self.options, self.left = folder, agreed, options, 0
        self.started = set()

    def send(self, address, message):
        self.left -= 1
        if self.left == 0:
            raise Killed
        frame = decode(message)
        new = (frame.kind, frame.number, address)
        if frame.number % 2 == address % 2 and new not in self.started:
            self.started.add(new)  # a room that was killed, and started again since
            self.rooms[address] = open_room(self.folder, self.agreed, address, **self.options)
        super().send(address, message)


@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_message_with_a_client_missing(tmp_path, way):
    """Before and after each set is named: the set that was named stands, and is paid for once."""
    agreed = study(options=LLOYD | {"n_rounds": 2}, **ONE, **WAYS[way])
    gone = silent_in({1}, client=1)
    expected = reference(agreed, silent={1: [1]})
    for n, kill_at in enumerate((11, 16, 21)):
        folder = tmp_path / str(n)
        folder.mkdir()
        network = Mortal(folder, agreed, gone)
        network.left = kill_at
        with suppress(Killed):
            runs(folder, agreed, network)
        returned = runs(folder, agreed, network)
        assert_result(agreed, returned, network.rooms, expected)
        assert [charges(room) for room in network.rooms] == [[0, 1, 1], [0], [0, 1, 1]]


def test_bounds_and_then_centres_within_one_budget_with_kills_and_a_silence_in_both(tmp_path):
    """One journal of the rows holds both studies and their repeats, and nothing fits any more."""
    options = {"epsilon": 12.0, "delta": 1e-3}
    bounds = study(run="bounds", method="private_bounds", options=options, domain="raw", **ONE)
    rows = [own * [80, 3] + [5, 1] for own in client_rows()]
    spent = PrivacyLedger()

    def done(agreed, kill_at, domain):
        network = Mortal(
            tmp_path, agreed, silent_in({0}, client=1), rows=rows, domain=domain, budget=budget
        )
        network.left = kill_at
        journal = tmp_path / f"server of {agreed.run}"
        with suppress(Killed):
            runs(tmp_path, agreed, network, journal=journal)
        assert network.left <= 0
        runs(tmp_path, agreed, network, journal=journal)
        own = [agreed.scaled(each) for each in rows]
        one = simulate(own, "masked", **agreed.federation_options, silent={0: [1]}, ledger=spent)
        return network.rooms, agreed.follow(one, agreed.planned(one))

    budget = Budget(1e3, 1e-2)
    rooms, expected = done(bounds, 12, "raw")
    found = [room.result for room in rooms if room.finished]
    assert all(np.array_equal(one.lower, expected.lower) for one in found) and len(found) == 3
    lower, upper = expected.lower.tolist(), expected.upper.tolist()
    centres = study(run="centres", lower=lower, upper=upper, **ONE)
    plan = open_room(tmp_path, centres, 0).plan
    budget = Budget(*np.add([12.0, 1e-3], [plan.epsilon, plan.delta]) * (1 + 1e-9))
    rooms, expected = done(centres, 15, "box")
    assert_result(centres, None, rooms, expected)
    assert rooms[0].ledger().releases == rooms[2].ledger().releases == spent.releases
    assert [charges(room) for room in rooms[:2]] == [[0, 0, 0, 0, 1, 2], [1, 2]]
    third = open_room(tmp_path, study(run="third"), 0, budget=budget)
    parts = {name: np.frombuffer(part, np.uint8) for name, part in third._parts.items()}
    refused(ask(third, "hello", 0, parts), "the plan would exceed the budget")


def test_a_journal_that_was_lost_is_noticed_where_clients_may_be_missing(tmp_path):
    agreed = study(**ONE)
    rooms = open_rooms(tmp_path, agreed)
    stops = Leaving(rooms, lambda kind, number, i: "away" if number == 2 else "")
    refuses(RoundFailedError, "no answer", runs, tmp_path, agreed, stops)
    for journal in ("server.json", "client-0.json"):
        kept = (tmp_path / journal).rename(tmp_path / "aside.json")
        again = open_rooms(tmp_path, agreed)
        refuses(RoundFailedError, "lost or put back", runs, tmp_path, agreed, Leaving(again, never))
        kept.rename(tmp_path / journal)
    runs(tmp_path, agreed, Leaving(open_rooms(tmp_path, agreed), never))


# --- a server that lies ---------------------------------------------------------------------------


def asked(room, number, who, kind="release", **more):
    return ask(room, kind, number, named(who, N_CLIENTS) | more)


def begun(folder, agreed):
    """Rooms after a meeting of all, with the broadcast of the first round."""
    rooms = open_rooms(folder, agreed)
    said = [said_hello(room) for room in rooms]
    everybody = {f"{n}s": np.stack([one[n] for one in said]) for n in ("nonce", "check")}
    for room in rooms:
        assert decode(ask(room, "session", 0, everybody)).kind == "session"
    broadcast = {
        "statistic": np.frombuffer(b"relative_sums_and_counts", np.uint8),
        "centers": np.array([[-0.3, 0.0], [0.0, 0.3], [0.3, 0.0]]), "radius": np.array(1.0),
    }  # fmt: skip
    return rooms, broadcast


def test_a_server_that_lies_about_who_is_gone_pays_twice_and_not_three_times(tmp_path):
    """It has all answers for A, says that client 2 is gone, and completes both sums."""
    agreed = study(receiver="server", options=LLOYD | {"epsilon": 50.0}, **ONE)
    rooms, broadcast = begun(tmp_path, agreed)
    sums, spent = [], [room.ledger().remaining for room in rooms]
    for who in ([0, 1, 2], [0, 1]):
        answers = [decode(asked(rooms[i], 0, who, **broadcast)) for i in who]
        assert {a.kind for a in answers} == {"answer"}
        again = [decode(asked(rooms[i], 0, who, **broadcast)) for i in who]
        for one, other in zip(answers, again, strict=True):  # the same bytes, also of A after B
            assert np.array_equal(one.arrays["1"], other.arrays["1"])
        sums.append(FixedPoint().decode(sum(a.arrays["1"] for a in answers)).sum())
    first = decode(asked(rooms[0], 0, [0, 1, 2], **broadcast))
    assert first.kind == "answer"
    assert abs(sums[0] - 165) < 30 and abs(sums[1] - 95) < 30  # noised numbers of rows
    assert sums[0] - sums[1] != round(sums[0] - sums[1])  # two noises, not one
    for room, third in ((rooms[0], [0, 2]), (rooms[1], [1, 2])):
        refused(asked(room, 0, third, **broadcast), "none of the 1 repeats of the plan is left")
    assert [charges(room) for room in rooms] == [[0, 0], [0, 0], [0]]
    left = [room.ledger().remaining for room in rooms]
    assert left[0] < spent[0] and left[0] == left[1]


@pytest.mark.parametrize("who", [[0, 1], [0, 2], [0, 1, 2]])
def test_without_a_server_relay_and_a_client_read_no_message_of_a_set(tmp_path, who):
    """Client 2 joins the relay: in the set or outside, it knows the group's pads and its own."""
    name = "relative_sums_and_counts/counts"
    rooms, _ = begun(tmp_path, study(**SERVERLESS, **ONE))
    sent = decode(asked(rooms[0], 0, who)).arrays["1"]
    of = "" if len(who) == N_CLIENTS else f"|of {','.join(map(str, who))}"
    session, place = session_of_room(rooms[0]), who.index(0)
    group = PadBook(SECRET, session).pads(name + of, 0, len(who), sent.shape)[place]
    pair = pair_secret(KEYS[2], public_key(KEYS[0]), use="pads")
    own = PadBook(pair, session).pads(f"pair|{name}{of}", 0, 1, sent.shape)[0]
    words = sent - group
    left = [FixedPoint().decode(guess) for guess in (words - own, words, words + own)]
    if 1 in who:  # the pad of clients 0 and 1 is left: uniform, fails in 1 of 1000 seeds
        assert np.min(np.abs(left)) > 1e6
    else:  # two in the set, one of whom tells: then nothing hides the other but its noise
        assert np.max(np.abs(left), axis=1).min() < 1000
        assert sorted(np.max(np.abs(left), axis=1))[1] > 1e6


def test_a_client_looks_at_the_set_before_it_answers(tmp_path):
    agreed = study(receiver="server", **ONE)
    rooms, broadcast = begun(tmp_path, agreed)
    room = rooms[0]
    refused(ask(room, "release", 0, broadcast), "must say which clients it is about")
    there = {"set": np.ones(N_CLIENTS, np.uint8)}
    refused(ask(room, "release", 0, broadcast | there), "must say which clients")
    refused(asked(room, 0, [1, 2], **broadcast), "client 0 is not of the set")
    refused(asked(room, 0, [0], **broadcast), "1 of 3 clients are too few: 1 may be missing")
    assert charges(room) == []
    assert decode(asked(room, 0, [0, 1], **broadcast)).kind == "answer"
    other = broadcast | {"centers": broadcast["centers"] / 2}  # a repeat asks for the same
    refused(asked(room, 0, [0, 1], **other), "answered before, to another request")
    refused(asked(room, 0, [0, 1, 2], **other), "answered before, to another request")
    assert charges(room) == [0]


def test_who_was_not_there_at_the_beginning_is_in_no_set(tmp_path):
    agreed = study(**ONE)
    room = open_room(tmp_path, agreed, 0)
    own = said_hello(room)
    absent = {name: array.copy() for name, array in met(room, own).items()}
    for array in absent.values():
        array[1:] = 0
    refused(ask(room, "session", 0, absent), "1 of 3 clients are too few to begin with")
    absent = {name: array.copy() for name, array in met(room, own).items()}
    for array in absent.values():
        array[2] = 0
    assert decode(ask(room, "session", 0, absent)).kind == "session"
    refused(asked(room, 0, [0, 1, 2]), "not there when the run began")
    assert decode(asked(room, 0, [0, 1])).kind == "answer"


def test_a_total_is_of_a_set_that_was_answered(tmp_path):
    agreed = study(**ONE)
    (room, *_), _ = begun(tmp_path, agreed)
    first = decode(asked(room, 0, [0, 1]))
    total = numbered(first.arrays.values()) | {"roll": np.array(7)}
    for who, words in (([0, 1, 2], "did not answer for"), ([0], "too few")):
        refused(asked(room, 1, who, "roll", **total), words)
    refused(ask(room, "roll", 1, total), "which clients it is about")
    called = decode(asked(room, 1, [0, 1], "roll", **total))
    assert (called.kind, called.number, called.arrays["roll"]) == ("here", 1, 7)
    refused(asked(room, 1, [0, 1], more=np.zeros(1)), "brings its set alone")
    refused(asked(room, 0, [0, 2]), "release 1 is the next one")


def test_no_total_is_kept_after_that_of_the_last_release(tmp_path):
    """Not even by a client that was away, and so has answered for none of them."""
    agreed = study(**ONE)
    (room, *_), _ = begun(tmp_path, agreed)
    first = decode(asked(room, 0, [0, 1]))
    total = numbered(first.arrays.values()) | {"roll": np.array(7)}
    last = len(room.plan.releases)
    with room.journal.open() as kept:
        mine = kept["runs"][0]
        mine["totals"] = [[packed(numbered(first.arrays.values())), [0, 1]]] * last
        room.journal.save(kept)
    refused(asked(room, last + 1, [1, 2], "roll", **total), "after the last release")
    assert len(room.journal.read()["runs"][0]["totals"]) == last


def test_a_repeat_is_within_the_budget_before_the_first_message(tmp_path):
    """The plan with its repeat is admitted, or refused at hello; what is not used is free again."""
    agreed = study(**ONE)
    plan = open_room(tmp_path, agreed, 0).plan
    alone = PrivacyLedger(releases=plan.entries()).epsilon(plan.delta)
    small = Budget((alone + plan.epsilon) / 2, plan.delta)
    room = open_room(tmp_path, agreed, 0, budget=small)
    parts = {name: np.frombuffer(part, np.uint8) for name, part in room._parts.items()}
    refused(ask(room, "hello", 0, parts), "the plan would exceed the budget")
    rooms = open_rooms(tmp_path, agreed, budget=Budget(2.0 * (1 + 1e-6), plan.delta))
    runs(tmp_path, agreed, Leaving(rooms, silent_in({0})))
    assert all(len(charges(room)) == 4 for room in rooms[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"may_miss": 3}, "may_miss must be"),
        ({"may_miss": 1, "max_colluding": 2}, "max_colluding must leave"),
        ({"may_miss": 1, "repeats": 1, "noise_from": "server"}, "repeats must be 0"),
        ({"may_miss": 1, "repeats": 1, **TRUSTED}, "repeats must be 0"),
        ({"may_miss": -1}, "may_miss must be"),
    ],
)
def test_a_study_that_could_not_keep_its_word_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        open_room(tmp_path, study(**changes), 0)


def test_without_a_word_in_the_study_all_have_to_take_part(tmp_path):
    room = open_room(tmp_path, study(receiver="server"), 0)
    hello(room)
    refused(ask(room, "roll", 0, {"roll": np.array(1)}), "no roll is called in this study")
    broadcast = {"statistic": np.frombuffer(b"relative_sums_and_counts", np.uint8)}
    refused(ask(room, "release", 0, broadcast | named([0, 1], N_CLIENTS)), "does not fit the plan")
    assert charges(room) == []


def test_a_journal_of_before_says_what_was_charged(tmp_path):
    """Its runs have the number of releases in the place of their list."""
    agreed = study()
    rooms = open_rooms(tmp_path, agreed)
    server(tmp_path, agreed, Direct(rooms)).run()
    path = tmp_path / "client-0.json"
    document = json.loads(path.read_text())
    (run,) = document["runs"]
    del run["answered"], run["repeats"]
    run["charged"] = 2
    path.write_text(json.dumps(document))
    assert charges(open_room(tmp_path, study(run="another"), 0)) == [0, 1]
