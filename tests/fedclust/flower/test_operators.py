"""What an operator types, and the mistakes of operators: each is refused, or does no harm.

A refusal is one line that names file, line and column, says what to do, and shows no value.
"""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import socket
import socketserver
import ssl
import stat
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import numpy as np
import pytest
from conftest import ROOT, refuses
from cryptography import x509
from flower_cases import KEYS, NAMES, Direct, client_rows, completed, server
from flower_cases import study as plain_study

from fedclust.command import federate, main
from fedclust.command.saying import say
from fedclust.flower import Study, keys, link, reach, watched
from fedclust.flower.certificates import certificates
from fedclust.flower.keys import complete as complete_study
from fedclust.flower.keys import group_secret, read_card, spoken
from fedclust.flower.parties import PARTIES
from fedclust.flower.process import RESULTS, open_room, read_config, write_result
from fedclust.flower.rows import read_rows
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.secure_aggregation import ciphers, pair_secret, public_key

pytestmark = pytest.mark.slow
NEW = [
    "--run", "spring", "--clients", "north,south,west", "--column", "age", "0", "110", "--column",
    "height in cm", "60", "220", "--records", "165", "--k", "3", "--epsilon", "2",
    "--server", "localhost:18765",
]  # fmt: skip


def said(capsys, *line, code=3):
    """What the command says: of a refusal, one line."""
    assert main([str(each) for each in line]) == code
    told = capsys.readouterr()
    if code == 3:
        assert told.err.startswith("fedclust: ") and told.err.count("\n") == 1, told
        assert "Traceback" not in told.err
    return told.err if code else told.out


def room(folder, name, *more):
    return ["room", folder / name / "study.json", "--client", name, "--no-node", *more]


@pytest.fixture
def parties(tmp_path, capsys):
    """A draft at the server, and at each of three clients with its rows."""
    said(capsys, "study", "new", tmp_path / "server", *NEW, code=0)
    for name, rows in zip(NAMES, client_rows(), strict=True):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "server" / "study.json", tmp_path / name)
        own = rows * [55, 80] + [55, 140]
        header = "age,height in cm"
        np.savetxt(tmp_path / name / "rows.csv", own, delimiter=",", header=header, comments="")
    return tmp_path


def made(parties, capsys):
    """Keys and cards of all clients, the cards at the first."""
    for name in NAMES:
        told = said(capsys, *room(parties, name, "--rows", parties / name / "rows.csv"), code=0)
        assert "The room has its keys" in told
        card = read_card(parties / name / f"{name}.card")
        assert card.holds.startswith("while at most 1 of the 3 clients pool what they know")
        if name != "north":
            shutil.copy(parties / name / f"{name}.card", parties / "north")


def complete(parties, capsys):
    """All keys in the study, and the study everywhere; the agreement."""
    made(parties, capsys)
    told = said(capsys, *room(parties, "north", "--plan"), code=0)
    for name in ("south", "west", "server"):
        shutil.copy(parties / "north" / "study.json", parties / name)
    return next(line for line in told.splitlines() if line.startswith("agreement"))[14:]


def opened(parties, name):
    return open_room(read_config(parties / name / name / "room.toml"))


# --- three steps ----------------------------------------------------------------------------------


def test_one_file_goes_round_twice_and_three_rooms_cluster(parties, capsys, monkeypatch):
    agreement = complete(parties, capsys)
    served = []
    monkeypatch.setattr(federate.rooms, "serve", lambda config, own, tell: served.append(own))
    for name in NAMES:
        assert main([str(x) for x in room(parties, name, "--agreed", agreement)]) == 0
    assert [own.number for own in served] == [0, 1, 2]
    assert len({own._secret for own in served}) == len({own.agreement for own in served}) == 1
    # nothing that the server has opens the secret; keys are for the account of the client alone
    everything = b"".join(p.read_bytes() for p in parties.glob("server/**/*") if p.is_file())
    assert served[0]._secret not in everything
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (parties / "west" / "west").iterdir()}
    assert modes == {0o600}

    study = Study.read(parties / "server" / "study.json")
    assert server(parties, study, Direct(served)).run() is None
    shown = federate.rooms.finish(parties / "north" / "north", served[0])
    centers = (parties / "north" / "north" / "centers.csv").read_text().splitlines()
    assert centers[0] == "age,height in cm" and len(centers) == 4
    table = np.loadtxt(centers[1:], delimiter=",")
    assert np.allclose(table, study.in_units(served[0].result.centers))
    assert ((table > [0, 60]) & (table < [110, 220])).all()  # years and centimetres, not [-1, 1]
    statement = (parties / "north" / "north" / "statement.txt").read_text()
    assert statement.strip() in shown and agreement in statement
    assert "guarantee epsilon = 2" in " ".join(statement.split()) and "age (0 to 110)" in statement
    assert "0.0% of the budget is left" in statement  # the default: this study alone


def test_nothing_is_asked_for_twice_and_a_journal_is_of_the_rows(parties, capsys):
    complete(parties, capsys)
    config = read_config(parties / "south" / "south" / "room.toml")
    assert config["journal"] == parties / "south" / "rows.csv.journal"
    assert (config["budget"]["epsilon"], config["budget"]["delta"]) == (2.0, 1e-6)
    told = said(capsys, *room(parties, "south", "--budget", "9", "1e-5"))
    assert "south/room.toml has rows, labels and budget already" in told


def test_a_second_study_is_told_to_say_the_budget_of_both(parties, capsys):
    """Its own cost alone cannot be enough; nothing is there after the refusal."""
    (parties / "south" / "rows.csv.journal").touch()
    (parties / "south" / "link.csv").symlink_to(parties / "south" / "rows.csv")
    for name in ("rows.csv", "link.csv"):
        told = said(capsys, *room(parties, "south", "--rows", parties / "south" / name))
        assert "rows.csv.journal has what earlier studies" in told and "--budget EPSILON" in told
    assert not (parties / "south" / "south").exists()
    line = room(parties, "south", "--rows", parties / "south" / "rows.csv", "--budget", 3, 1e-5)
    said(capsys, *line, code=0)


def test_what_a_study_needs_is_asked_or_refused(tmp_path, capsys, monkeypatch):
    cut = NEW[:]
    del cut[cut.index("--k") : cut.index("--k") + 2]
    assert "--k must be given: number of clusters" in said(capsys, "study", "new", tmp_path, *cut)
    for more, words in (
        (["--k", "four"], "k must be a whole number, got 'four'"),
        (["--column", "weight", "9", "2"], "upper must be greater than lower"),
        (["--column", "weight", "9", "1,5"], "upper bound of weight must be a number"),
        (["--clients", "a,a"], "clients must be 2 different names"),
        (["--clients", "north,NORTH"], "not in capitals alone"),  # one folder, on some disks
        (["--clients", "north,Server"], "none of them server"),
        (["--server", "localhost"], "server must be name:port"),
        (["--trust", "shuffled"], "trust 'shuffled' is not offered here"),
        (["--method", "sums_only"], "method must be one of"),
        (["--epsilon", "-1"], "epsilon must be"),
    ):
        assert words in said(capsys, "study", "new", tmp_path / "a", *NEW, *more)
    assert not (tmp_path / "a").exists()
    answers = iter(["9"])
    monkeypatch.setattr("builtins.input", lambda words: next(answers))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    said(capsys, "study", "new", tmp_path / "b", *cut, "--trust", "masked", "--delta", "1e-7",
         code=0)  # fmt: skip
    assert Study.read(tmp_path / "b" / "study.json").options["n_clusters"] == 9
    # a second study does not take the place of the first
    assert "b holds a study already" in said(capsys, "study", "new", tmp_path / "b", *NEW)


def test_every_trust_model_has_a_study(tmp_path, capsys):
    for trust, more in (("serverless", []), ("trusted", []), ("local", ["--users", "50,50,65"])):
        line = ["study", "new", tmp_path / trust, *NEW, "--trust", trust, *more]
        assert "Nothing is spent or sent yet" in said(capsys, *line, code=0)
        study = Study.read(tmp_path / trust / "study.json")
        assert (study.trust, study.n_records) == (trust, 165)


def test_run_says_which_of_two_commands_is_meant(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", "study.toml"])
    assert ended.value.code == 2 and "fedclust fit --config FILE" in capsys.readouterr().err


# --- keys -----------------------------------------------------------------------------------------


def test_a_server_that_swaps_keys_is_found_by_people_who_compare(parties, capsys, monkeypatch):
    """It gives the first client a card of its own for south: then it opens the group secret."""
    made(parties, capsys)
    monkeypatch.setattr(federate.rooms, "serve", lambda *_: pytest.fail("the room opened"))
    card = parties / "north" / "south.card"
    own = json.loads(card.read_text()) | {"public_key": public_key(KEYS[1]).hex()}
    card.write_text(json.dumps(own))
    said(capsys, *room(parties, "north", "--plan"), code=0)
    tricked = Study.read(parties / "north" / "study.json")
    north = opened(parties, "north")
    assert group_secret(tricked, 1, KEYS[1]) == north._secret  # it could read what north sends
    # with this study south would notice; with one made for it, by people who compare
    shutil.copy(parties / "north" / "study.json", parties / "south")
    assert "room.key is not the key of public_keys[1]" in said(capsys, *room(parties, "south"))
    shutil.copy(parties / "server" / "study.json", parties / "south" / "south")
    cards = [read_card(parties / f"{name}/{name}.card") for name in NAMES]
    cards[0] = replace(cards[0], public_key=public_key(KEYS[0]).hex())
    forged = complete_study(Study.read(parties / "server" / "study.json"), cards, KEYS[0])
    (parties / "south" / "study.json").write_text(forged.to_json())
    told = said(capsys, *room(parties, "south", "--agreed", spoken(north.agreement)))
    assert "the agreement is not what the others read" in told and "stays shut" in told
    assert opened(parties, "south").agreement != north.agreement


def test_a_room_stays_shut_until_somebody_compared(parties, capsys, monkeypatch):
    agreement = complete(parties, capsys)
    monkeypatch.setattr(federate.rooms, "serve", lambda config, own, tell: tell("is ready"))
    assert "nobody compared it" in said(capsys, *room(parties, "west"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda words: "no")
    assert "stays shut" in said(capsys, *room(parties, "west"))
    monkeypatch.setattr("builtins.input", lambda words: "Yes ")
    told = said(capsys, *room(parties, "west"), code=0)
    assert "is ready" in told and "flower-supernode --root-certificates" in told
    monkeypatch.setattr("builtins.input", lambda words: pytest.fail("asked again"))
    said(capsys, *room(parties, "west"), code=0)
    said(capsys, *room(parties, "north", "--agreed", *agreement.split()), code=0)  # as unquoted


@pytest.mark.parametrize("server", ["x:0", "x:70000", "münster:80", "x", "a b:80", ":80"])
def test_a_server_that_no_network_can_have_is_refused_with_the_study(server):
    with pytest.raises(ValueError, match="server must"):
        plain_study(server=server)


def test_processes_of_one_machine_go_around_proxies(tmp_path, monkeypatch):
    for own, whole in (("", "127.0.0.1,localhost,::1"), ("in.x", "in.x,127.0.0.1,localhost,::1")):
        monkeypatch.setenv("no_proxy", own)
        made = link._environment(tmp_path)
        assert made["no_proxy"] == made["NO_PROXY"] == whole


def test_keys_that_are_lost_changed_or_of_another_study_are_refused(parties, capsys):
    made(parties, capsys)
    own = parties / "south" / "south"
    (own / "room.toml").rename(own / "away")
    told = said(capsys, *room(parties, "south", "--rows", parties / "south" / "rows.csv"))
    assert "south is there, without a room.toml" in told  # keys are not made over old ones
    (own / "away").rename(own / "room.toml")
    card = parties / "north" / "west.card"
    good = card.read_text()
    card.write_text(good[:-40])
    assert "west.card is no card, or was cut short" in said(capsys, *room(parties, "north"))
    card.write_text(good.replace(json.loads(good)["study"], "ab" * 32))
    assert "the card of west was made for another study" in said(capsys, *room(parties, "north"))
    card.write_text((parties / "north" / "south.card").read_text())
    assert "the card of west was made for another" in said(capsys, *room(parties, "north"))
    card.write_text(good)
    complete_now = said(capsys, *room(parties, "north", "--plan"), code=0)
    assert "send it back to every client" in complete_now
    for name in ("south", "west"):
        shutil.copy(parties / "north" / "study.json", parties / name)
    (own / "room.key").rename(own / "lost")
    assert "room.key: there is no such file" in said(capsys, *room(parties, "south"))
    (own / "room.key").write_bytes(bytes(32))
    assert "room.key is not the key of public_keys[1]" in said(capsys, *room(parties, "south"))
    shutil.rmtree(parties / "west" / "west")
    told = said(capsys, *room(parties, "west", "--rows", parties / "west" / "rows.csv"))
    assert "study.json is complete, but west has no keys here" in told


def test_a_seal_opens_for_its_client_and_study_alone():
    agreed = completed(plain_study())
    assert len({group_secret(agreed, i, key) for i, key in enumerate(KEYS)}) == 1
    for changed in (
        replace(agreed, options={**agreed.options, "epsilon": 9.0}),
        replace(agreed, sealed=[agreed.sealed[i] for i in (1, 0, 2)]),
        replace(agreed, public_keys=[*agreed.public_keys[:2], "ab" * 32]),
    ):
        refuses(ValueError, "does not open", group_secret, changed, 0, KEYS[0])
    assert completed(plain_study()).sealed != agreed.sealed  # a new secret each time
    # the key of the seal is no key of pads
    sealed, first = bytes.fromhex(agreed.sealed[1]), public_key(KEYS[0])
    wrong = pair_secret(KEYS[1], first, use="pads")
    with pytest.raises(ValueError, match="does not open"):
        ciphers().unsealed(wrong, sealed[12:], keys._context(agreed, 1), sealed[:12])


def test_a_study_that_is_edited_after_keys_were_made_is_refused(parties, capsys):
    complete(parties, capsys)
    path = parties / "west" / "study.json"
    good = path.read_text()
    path.write_text(good.replace('"epsilon": 2.0', '"epsilon": 3.0').replace("110.0", "90.0"))
    for more in ([], ["--rows", parties / "west" / "rows.csv"]):  # as for a second study
        told = said(capsys, *room(parties, "west", *more))
        assert "not the one that west made its keys for: options, upper differ" in told
        assert "a second study goes into a folder of its own" in told
    path.write_bytes(b"\xef\xbb\xbf" + good.replace("\n", "\r\n").encode())  # an editor of Windows
    assert "agreement" in said(capsys, *room(parties, "west", "--plan"), code=0)
    path.write_text(good[:-40])
    assert "study.json: line" in said(capsys, *room(parties, "west"))
    path.write_text(good)
    line = ["room", path, "--client", "wets", "--no-node"]
    assert "client must be one of the clients of the study" in said(capsys, *line)


def test_a_clock_that_is_slow_by_a_day_takes_the_certificate(tmp_path):
    now = datetime.now(UTC)
    files = certificates("fed.example.org", now)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in ("ca.crt", "server.crt"):
        made = x509.load_pem_x509_certificate(files[name])
        assert made.not_valid_before_utc <= now - timedelta(hours=23)
    context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # from Python 3.13 on this is the default
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    for name, good in (("fed.example.org", True), ("127.0.0.1", True), ("other.org", False)):
        a, b, c, d = (ssl.MemoryBIO() for _ in range(4))
        client = context.wrap_bio(a, b, server_hostname=name)
        other = ours.wrap_bio(c, d, server_side=True)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        c.write(b.read())
        with pytest.raises(ssl.SSLWantReadError):
            other.do_handshake()
        a.write(d.read())
        if good:
            client.do_handshake()
        else:
            refuses(ssl.SSLCertVerificationError, "mismatch", client.do_handshake)


# --- rows -----------------------------------------------------------------------------------------

GOOD = "age,height in cm\n31,170\n32,171\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "rows.csv is empty"),
        ("age,height in cm\n", "rows.csv has no row"),
        (GOOD + "33,\n", "line 4, column height in cm: a missing value: fill it in"),
        (GOOD + "NA,9\n", "line 4, column age: a missing value"),
        (GOOD + "33\n", "line 4: 1 values below 2 names"),
        (GOOD + "33,170,5\n", "line 4: 3 values below 2 names"),
        (GOOD + '33,"177,7"\n', "line 4, column height in cm: thousands separators or a decimal"),
        (GOOD + "33,1 777\n", "line 4, column height in cm: thousands separators"),
        (GOOD + "33,<177\n", "line 4, column height in cm: a sign before a number"),
        (GOOD + "33,177 cm\n", "line 4, column height in cm: a unit"),
        (GOOD + "1977-07-07,9\n", "line 4, column age: a date"),
        (GOOD + "33,inf\n", "line 4, column height in cm: an infinite number"),
        (GOOD + "33,yes\n", "line 4, column height in cm: a truth value"),
        (GOOD + "33,tall 177\n", "line 4, column height in cm: words"),
        (GOOD.replace(",", ";"), "line 1: columns are separated by ';'"),
        (GOOD.replace("height in cm", "age"), "line 1: column 2 has the name of one before it"),
        (GOOD.replace("age", "Age"), "rows.csv must have the columns age, height in cm; age not"),
        (GOOD.replace("age", "weight"), "It has weight, height in cm"),
        ("177,33\n" + GOOD, "line 1: numbers where names of columns must be"),
        ((GOOD + "33,Zürich\n").encode("latin-1"), "line 4, column 2: signs that are not UTF-8 (p"),
        (GOOD.encode("utf-16"), "line 1, column 1: signs that are not UTF-8 (UTF-16)"),
        (None, "rows.csv: there is no such file"),
    ],
)  # fmt: skip
def test_rows_that_would_be_misread_are_refused_before_there_are_keys(parties, capsys, text, words):
    path = parties / "west" / "rows.csv"
    path.unlink()
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    told = said(capsys, *room(parties, "west", "--rows", path))
    assert "rows.csv" in told and words in told
    assert "177" not in told.replace("1234.5", "") and "1977" not in told and "rich" not in told
    assert not (parties / "west" / "west").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD.replace("\n", "\r\n"), ""), ("\ufeff" + GOOD, ""), (GOOD.replace("\n", "\r"), ""),
        (GOOD + "\n\n", ""), ("# " + GOOD, ""), (GOOD.replace("31", '" 31"'), ""),
        ("height in cm,age\n170,31\n171,32\n", "taken by name"),
        ("name,age,height in cm\nAda,31,170\nBob,32,171\n", "are left out: name"),
    ],
)  # fmt: skip
def test_what_does_no_harm_is_read(tmp_path, text, says):
    (tmp_path / "rows.csv").write_bytes(text.encode())
    rows, told = read_rows(tmp_path / "rows.csv", ["age", "height in cm"])
    assert rows.tolist() == [[31, 170], [32, 171]] and says in told and bool(told) == bool(says)


def test_one_row_is_enough_and_other_units_are_noticed(parties, capsys):
    rows = parties / "west" / "rows.csv"
    rows.write_text("age,height in cm\n31,1.7\n")  # metres
    told = said(capsys, *room(parties, "west", "--rows", rows), code=0)  # with its first command
    assert "rows.csv, column height in cm: most of the values are not within 60 to 220" in told
    assert "column age" not in told and "1.7" not in told


def test_the_first_command_of_a_room_says_how_columns_are_taken(parties, capsys):
    (parties / "west" / "rows.csv").write_text("height in cm,name,age\n170,Ada,31\n")
    told = said(capsys, *room(parties, "west", "--rows", parties / "west" / "rows.csv"), code=0)
    assert "left out: name" in told and "taken by name, in the order age, height in cm" in told


@pytest.mark.parametrize("method", RESULTS)
def test_bounds_and_a_summary_of_rows_as_they_are(parties, capsys, method):
    """Values may be missing, here alone; a file says of each column what one process finds."""
    path = parties / "server" / "study.json"
    raw = {"method": method, "domain": "raw", "lower": None, "upper": None, "seed": 3}
    raw["options"] = {"epsilon": 20.0, "delta": 1e-4}
    path.write_text(json.dumps(json.loads(path.read_text()) | raw))
    for name in NAMES:
        shutil.copy(path, parties / name)
    rows = parties / "west" / "rows.csv"
    good = rows.read_text()
    rows.write_text(good + "33,177 cm\n")
    told = said(capsys, *room(parties, "west", "--rows", rows))
    assert "column height in cm: a unit" in told  # what is neither a number nor missing
    rows.write_text(good + "NA,171\n-30, \n")
    agreement = complete(parties, capsys)
    for name in NAMES:
        assert agreement in said(capsys, *room(parties, name, "--plan"), code=0)
    rooms = [opened(parties, name) for name in NAMES]
    assert np.isnan(rooms[2]._rows[-2:]).tolist() == [[True, False], [False, True]]
    agreed = Study.read(parties / "north" / "study.json")
    server(parties, agreed, Direct(rooms)).run()
    own = parties / "north" / "north"
    shown = federate.rooms.finish(own, rooms[0])
    assert agreement in shown and "epsilon = 20" in (own / "statement.txt").read_text()
    everything = ClientData.from_clients([each._rows for each in rooms], missing=True)
    one = simulate(everything, "masked", **agreed.federation_options)
    expected = agreed.follow(one, agreed.planned(one)).value
    header, *lines = (own / RESULTS[method]).read_text().splitlines()
    assert header == ",age,height in cm"
    found = {line.split(",")[0]: [float(v) for v in line.split(",")[1:]] for line in lines}
    assert (found["lower"], found["upper"]) == (expected.lower.tolist(), expected.upper.tolist())
    if method == "private_summary":
        assert found["mean low"] == expected.mean.low.tolist()
        assert found["75 % high"] == expected.quartiles.high[:, 2].tolist()
        assert len(found) == 2 + 6 * 3


# --- folders, ports, processes --------------------------------------------------------------------


def test_a_result_is_never_that_of_another_run(tmp_path):
    class Result:
        centers = np.array([[0.0, 0.5]])

    agreed = plain_study(columns=["a", "b,c"], lower=[0, 0], upper=[10, 1])
    write_result(tmp_path, agreed, Result(), "one")
    assert (tmp_path / "centers.csv").read_text() == 'a,"b,c"\n5,0.75\n'
    Result.centers = Result.centers + 1
    write_result(tmp_path, agreed, Result(), "two")
    assert (tmp_path / "centers.csv").read_text() == 'a,"b,c"\n5,0.75\n'
    assert (tmp_path / "statement.txt").read_text() == "one\n"


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_written_to_is_named(parties, capsys, monkeypatch, code):
    def refusing(path, mode=0o777, **options):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", refusing)
    told = said(capsys, *room(parties, "west", "--rows", parties / "west" / "rows.csv"))
    assert told.startswith("fedclust: west: ") and os.strerror(code).lower() not in told


def test_an_error_without_a_number_is_still_a_line(capsys):
    assert say(OSError("strange"), 4) == 4 and capsys.readouterr().err == "fedclust: strange\n"


def test_a_socket_with_a_long_path_is_refused(parties, capsys):
    agreement = complete(parties, capsys)
    settings = parties / "west" / "west" / "room.toml"
    settings.write_text(f'socket = "{"s" * 90}"\n' + settings.read_text())
    told = said(capsys, *room(parties, "west", "--agreed", agreement))
    assert "socket must have a path of at most 100 letters" in told and "room.toml" in told


def test_a_run_needs_the_port_the_keys_and_flower(parties, capsys, monkeypatch):
    path = parties / "server" / "study.json"
    assert "Flower is not installed" in said(capsys, "run", path)
    monkeypatch.setattr(link, "need_flower", lambda: None)
    assert "study.json is a draft: north completes it" in said(capsys, "run", path)
    complete(parties, capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path.write_text(path.read_text().replace("18765", str(port)))
        assert f"port {port} is taken on this machine" in said(capsys, "run", path)
    (parties / "server" / "server" / "server.key").unlink()
    assert "server/server.key is not beside study.json" in said(capsys, "run", path)


def test_a_process_that_ends_says_what_it_said_last(tmp_path, monkeypatch):
    """A link that dies at once, and a key that was registered in an attempt before."""
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\necho '╭─ Error ─╮'; echo '│ it is \033[91mbroken │'; exit 7\n")
    script.chmod(0o755)
    monkeypatch.setattr(link, "_program", lambda name: script)
    (tmp_path / "server").mkdir()
    agreed = completed(plain_study(server="localhost:1"))
    with pytest.raises(link.LinkError, match=r"superlink ended with code 7 .*link.log.*is broken"):
        with link.super_link(tmp_path / "server", agreed):
            pytest.fail("it is not up")
    up = link.Started("x", tmp_path, "x.log", [])
    up.process.wait()
    up.log.write_text("INFO start\nERROR [Errno 98] address in use\n" + "INFO shutdown\n" * 9)
    assert ": ERROR [Errno 98] address in use" in str(up.error())
    up.log.write_text("it is broken")
    monkeypatch.setattr(up, "ended", lambda: False)
    refuses(link.LinkError, "broken", link._register, tmp_path, "north", "key", up)
    script.write_text("#!/bin/sh\necho 'Error: Public key already in use'; exit 1\n")
    link._register(tmp_path, "north", "key", up)
    refuses(link.LinkError, "flwr ended", link.run_study, tmp_path, tmp_path / "s", up, print)


def test_a_supernode_that_ends_is_started_again_and_stops_with_its_room(tmp_path, monkeypatch):
    """The server was up, and did not know its key yet."""
    script, heard = tmp_path / "program", []
    script.write_text(f"#!/bin/sh\necho not yet; echo x >> {tmp_path}/count; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(link, "_program", lambda name: script)
    monkeypatch.setattr(link, "AGAIN", 0.01)
    started = []

    def start():
        started.append(link.Started("flower-supernode", tmp_path, "node.log", []))
        return started[-1]

    node = link.KeptUp(start, heard.append)
    node.start()
    while len(started) < 3:
        time.sleep(0.01)
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    while started[-1].ended():
        time.sleep(0.01)
    node.stop()
    node.join(60)
    assert all(one.ended() for one in started) and len(heard) == 1 and "not yet" in heard[0]


class Door(socketserver.ThreadingTCPServer):
    """What stands at a port of this machine: a server with a certificate, a proxy, or no TLS."""

    daemon_threads = True

    def __init__(self, folder=None, answer=None, to=None):
        super().__init__(("127.0.0.1", 0), None)
        self.port, self.folder, self.answer, self.to = self.server_address[1], folder, answer, to
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, address):
        if self.folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
            with suppress(OSError), context.wrap_socket(request, server_side=True) as line:
                line.recv(1)
            return
        asked = request.recv(4096)
        self.answer = self.answer or b"HTTP/1.1 200 OK\r\n\r\n" * asked.startswith(b"CONNECT")
        request.sendall(self.answer or b"no TLS here")
        if self.to is not None:
            self.to.finish_request(request, address)


def test_why_a_server_is_not_reached_is_said(tmp_path, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    good, other = certificates("localhost"), certificates("localhost")["ca.crt"].decode()
    for name, content in good.items():
        (tmp_path / name).write_bytes(content)
    ca = good["ca.crt"].decode()
    with (
        Door(tmp_path) as up,
        Door(answer=b"hm") as plain,
        Door(to=up) as way,
        Door(answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as wall,
    ):
        assert reach.why_not("localhost", up.port, ca) == ""
        assert "another certificate than the study's" in reach.why_not("localhost", up.port, other)
        assert "no TLS at that port" in reach.why_not("localhost", plain.port, ca)
        free = link.free_port()
        assert "it refuses: not started yet" in reach.why_not("localhost", free, ca)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{way.port}")
        assert reach.why_not("localhost", up.port, ca) == ""
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{wall.port}")
        assert "does not let it through (HTTP/1.1 403 Forbidden)" in reach.why_not(
            "localhost", 1, ca
        )
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{free}")
        assert f"the proxy 127.0.0.1:{free}" in reach.why_not("localhost", up.port, ca)
        monkeypatch.setenv("no_proxy", "example.org, localhost")
        assert reach.why_not("localhost", up.port, ca) == ""
        for error, told in ((socket.gaierror(), "name of it is not known"),
                            (TimeoutError(), "it does not answer")):  # fmt: skip
            monkeypatch.setattr(socket, "create_connection", Mock(side_effect=error))
            assert told in reach.why_not("localhost", 1, ca)


def test_a_room_says_once_why_and_then_that_it_is_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "LOOK", 0.01)
    port, heard = link.free_port(), []
    made = certificates("localhost")
    study = plain_study(server=f"localhost:{port}", certificate=made["ca.crt"].decode())
    thread = link.Reaching(tmp_path, study, heard.append)
    looks = iter(["it refuses", "it refuses", ""])
    real = thread._look()
    thread._look = lambda: next(looks)
    thread.start()
    thread.join(60)
    assert "refuses: not started yet" in real
    assert heard == [
        f"not reached yet, tried again: the server localhost:{port}: it refuses",
        f"localhost:{port} is reached now",
    ]


@pytest.mark.parametrize(
    ("program", "closes", "code"),
    [("exit 7", False, 7), ("kill -9 $$", False, 137), ("exec sleep 600", True, 143)],
)
def test_a_watched_program_ends_as_it_would_or_with_its_input(program, closes, code):
    line = [sys.executable, "-IS", watched.__file__, "sh", "-c", program]
    process = subprocess.Popen(line, stdin=subprocess.PIPE)
    if closes:
        process.stdin.close()
    assert process.wait(300) == code


def test_nothing_outlives_a_command_that_is_killed(tmp_path):
    (tmp_path / "sleeper").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    (tmp_path / "sleeper").chmod(0o755)
    code = (
        "import sys, pathlib, time; from fedclust.flower import link\n"
        f"here = pathlib.Path({str(tmp_path)!r}); link._program = lambda name: here / name\n"
        "kept = link.Started('sleeper', here, 'log', []); time.sleep(600)"
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen([sys.executable, "-c", code], env=path)
    deadline = time.monotonic() + 300
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.kill()
    command.wait()
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(int((tmp_path / "pid").read_text()), 0)
            time.sleep(0.05)


def test_what_the_server_says_is_shown_to_its_end(tmp_path, monkeypatch):
    script = tmp_path / "program"
    monkeypatch.setattr(link, "_program", lambda name: script)
    monkeypatch.setenv("nodes", '{"nodes": [{"node-id": "17"}, {"node-id": "4"}]}')
    up = link.Started("x", tmp_path, "x.log", []) if script.exists() else None
    for last, code in (('{"done": "the end"}', 0), ('{"failed": "north is away"}', 1)):
        script.write_text(
            f'#!/bin/sh\n[ -z "$1" ] && exec sleep 60\n'  # the link itself
            f'[ "$1" = supernode ] && echo INFO "$nodes" && exit\n'
            f'echo "$@" > {tmp_path}/asked\necho \'{{"say": "one"}}\' > {tmp_path}/said.txt\n'
            f"echo '{last}' >> {tmp_path}/said.txt\nsleep 60\n"
        )
        script.chmod(0o755)
        up = up or link.Started("x", tmp_path, "x.log", [])
        heard = []
        if code == 0:
            assert link.run_study(tmp_path, tmp_path / "s", up, heard.append) == "the end"
        else:
            refuses(
                link.LinkError, "north is away", link.run_study, tmp_path, tmp_path / "s", up,
                heard.append,
            )  # fmt: skip
        assert heard == ["one"] and 'nodes="17 4"' in (tmp_path / "asked").read_text()
    up.stop()


def hears_control_c():
    """Also where these tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_control_c_closes_a_room_and_it_opens_again(parties, capsys):
    agreement = complete(parties, capsys)
    line = [sys.executable, "-m", "fedclust.command", *map(str, room(parties, "west"))]
    for end in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            [*line, "--agreed", agreement], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=hears_control_c,
        )  # fmt: skip
        deadline = time.monotonic() + 300
        while not (parties / "west" / "west" / "room.sock").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(end)
        try:
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
        assert (process.returncode, err.count("\n")) == (4, 1)
        assert err == "fedclust: stopped: the same command goes on from here\n"
        (parties / "west" / "west" / "room.sock").unlink(missing_ok=True)


def test_what_the_page_on_deployment_shows_can_be_given(tmp_path, capsys, monkeypatch):
    """Its three commands, and a study with the fields of each row of its table."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(fedclust .*?)```", page, re.S)
    new, own_room, own_run = (shlex.split(block.replace("\\\n", " "))[1:] for block in blocks)
    monkeypatch.chdir(tmp_path)
    said(capsys, *new, code=0)
    shutil.copy("spring/study.json", ".")
    (tmp_path / "rows.csv").write_text("age,height\n31,170\n")
    assert "Send south.card to north" in said(capsys, *own_room, "--no-node", code=0)
    monkeypatch.setattr(link, "need_flower", lambda: None)
    assert "is a draft" in said(capsys, *own_run)
    draft, tried = json.loads((tmp_path / "study.json").read_text()), 0
    for fields in re.findall(
        r"^\| [A-Z][^|]*\| (`\".*) \|$|^\| a server who[^|]*\| (.*) \|$", page, re.M
    ):
        study = draft | {"options": dict(draft["options"])}
        for words in re.findall(r'`("[^`]*)`', "".join(fields)):
            study |= json.loads(f"{{{words}}}")
        if "server_points" in "".join(fields):
            study["server_points"] = [[0.1, 0.2]] * 9
        if "training" in study:
            study["options"] |= {"n_rounds": 3, "training": study.pop("training")}
            study |= {"n_clients": 2400, "clients": None}
        agreed = Study.from_json(json.dumps(study))
        assert agreed.planned(PARTIES[agreed.trust](agreed)).epsilon == 1.0
        tried += 1
    assert tried == 5


def test_versions_of_flower_are_said_once(root):
    """The app is in the newest form of a bundle; page, Makefile and app name one version."""
    app = tomllib.loads((link.APP / "pyproject.toml").read_text())
    own = app["tool"]["flwr"]["app"]
    assert own["flwr-version-target"] == link.VERSION and own["fab-format-version"] == 1
    assert (link.APP / app["project"]["license"]["file"]).read_bytes() == (
        root / "LICENSE"
    ).read_bytes()
    for name in ("Makefile", "docs/deployment.md"):
        assert f"flwr=={link.VERSION}" in (root / name).read_text()
    for component in own["components"].values():
        module, _, name = component.partition(":")
        assert f"{name} = " in (link.APP / f"{module.replace('.', '/')}.py").read_text()
