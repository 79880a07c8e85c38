"""Rooms as processes of their own, ended by SIGKILL: what a kill and a power cut leave behind."""

import grp
import json
import os
import queue
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client

import numpy as np
import pytest
from conftest import ROOT, refuses
from flower_cases import (
    KEYS,
    LLOYD,
    LOCAL,
    N_CLIENTS,
    SECRET,
    SERVERLESS,
    client_rows,
    server,
)
from flower_cases import open_room as study_room
from flower_cases import study as plain_study

from fedclust_helpers.federation import simulate
from fedclust_helpers.flower import RoundFailedError
from fedclust_helpers.flower import room as room_module
from fedclust_helpers.flower.__main__ import main
from fedclust_helpers.flower.journal import locked
from fedclust_helpers.flower.room import open_room, read_config
from fedclust_helpers.secure_aggregation import public_key

CONFIG = """study = "study.json"
rows = "rows.csv"
number = {number}
secret = "secret"
journal = "journal.json"
socket = "s"
result = "centers.csv"
bound = 1.0
[budget]
epsilon = 4.0
delta = 0.05
"""


def study(**changes):
    """With the names that stand in rows.csv."""
    return plain_study(**{"columns": ["a", "b"]} | changes)


def furnish(folder, agreed):
    for i, rows in enumerate(client_rows()):
        room = folder / str(i)
        room.mkdir()
        np.savetxt(room / "rows.csv", rows, delimiter=",", header="a,b", fmt="%.17g")
        (room / "secret").write_bytes(SECRET)
        (room / "study.json").write_text(agreed.to_json())
        (room / "room.toml").write_text(CONFIG.format(number=i))


class Sockets:
    """A transport to rooms that are processes; an answer that never comes is lost."""

    addresses = range(N_CLIENTS)

    def __init__(self, folder):
        self.folder = folder
        self.answers: queue.Queue = queue.Queue()

    def send(self, address, message):
        threading.Thread(target=self.carried, args=(address, message), daemon=True).start()

    def carried(self, address, message):
        try:
            with Client(str(self.folder / str(address) / "s"), family="AF_UNIX") as room:
                room.send_bytes(message)
                self.answers.put((address, room.recv_bytes()))
        except (OSError, EOFError):
            pass

    def receive(self, timeout):
        try:
            return self.answers.get(timeout=timeout)
        except queue.Empty:
            return None


class Processes(Sockets):
    """The rooms too, which start with it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.rooms = {}
        for i in self.addresses:
            self.start(i)
        for i in self.addresses:
            self.wait(i)

    def start(self, i):
        with open(self.folder / str(i) / "log.txt", "a") as log:
            room = subprocess.Popen(
                [sys.executable, "-m", "fedclust_helpers.flower", "room",
                 str(self.folder / str(i) / "room.toml")],
                stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        if self.rooms.setdefault(i, room).poll() is not None:
            self.rooms[i] = room
        return room

    def wait(self, i):
        end = time.monotonic() + 300
        while not (self.folder / str(i) / "s").exists() and time.monotonic() < end:
            time.sleep(0.05)

    def kill(self, i):
        self.rooms[i].kill()
        assert self.rooms[i].wait() == -signal.SIGKILL
        (self.folder / str(i) / "s").unlink()

    def stop(self):
        for room in self.rooms.values():
            room.kill()
            room.wait()


@pytest.mark.thorough
def test_killed_processes_go_on(tmp_path):
    agreed = study(noise_from="server", options=LLOYD | {"n_rounds": 6})
    furnish(tmp_path, agreed)
    processes = Processes(tmp_path)
    try:
        mode = stat.S_IMODE((tmp_path / "0" / "s").stat().st_mode)
        assert mode & 0o077 == 0  # the socket is the client's own
        room = server(tmp_path, agreed, processes, patience=0.5)
        gone = server(tmp_path, agreed, processes, patience=0.5, deadline=1.0)
        second = processes.start(1)  # the same room.toml again
        assert second.wait(60) == 1
        assert "in use by another process" in (tmp_path / "1" / "log.txt").read_text()
        processes.kill(1)
        refuses(RoundFailedError, "no answer to hello 0 within 1 s", gone.run)
        processes.start(1)

        def killed_on_the_way():
            while not room.journal.path.exists():
                time.sleep(0.001)
            processes.kill(2)
            processes.start(2)

        killer = threading.Thread(target=killed_on_the_way)
        killer.start()
        room.run()
        killer.join()
        check_results(tmp_path, agreed)
    finally:
        processes.stop()


def check_results(folder, agreed):
    """Each room has written the centres of one process, and charged each release once."""
    federation = simulate(client_rows(), "masked", **agreed.federation_options)
    reference = agreed.follow(federation, agreed.planned(federation))
    for i in range(N_CLIENTS):
        path = folder / str(i) / "centers.csv"
        end = time.monotonic() + 300
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert np.array_equal(np.loadtxt(path, delimiter=","), reference.centers)
        (run,) = json.loads((folder / str(i) / "journal.json").read_text())["runs"]
        assert len(run["answered"]) == len(reference.ledger.releases)


def test_a_configuration_names_what_is_missing(tmp_path):
    path = tmp_path / "room.toml"
    path.write_text('rows = "rows.csv"\nepsilon = 1.0\n')
    refuses(ValueError, "must name .*'study'.*unknown: \\['epsilon'\\]", read_config, path)


def test_a_configuration_opens_rooms_of_every_trust(tmp_path):
    options = {"n_clusters": 2, "epsilon": 2.0}
    agreed = study(method="ldp_one_round", options=options, lower=-2.0, upper=2.0, **LOCAL)
    furnish(tmp_path, agreed)
    path = tmp_path / "0" / "room.toml"
    path.write_text('domain = "ball"\n' + path.read_text())
    room = open_room(read_config(path))
    # the box of the bounds fits into the unit ball
    assert np.allclose(room._rows, client_rows()[0] / 2 / np.sqrt(2), rtol=1e-14)

    agreed = study(**SERVERLESS)
    (tmp_path / "0" / "study.json").write_text(agreed.to_json())
    (tmp_path / "0" / "key").write_bytes(KEYS[0])
    path.write_text('key = "key"\n' + CONFIG.format(number=0))
    assert open_room(read_config(path)).agreement == study_room(tmp_path, agreed, 1).agreement


@pytest.mark.parametrize(
    ("columns", "header"),
    [(["a", "b"], "b,a"), (["a", "b"], "a,c"), (["a", "b"], "0.5,0.25"), (None, "a,b")],
    ids=["swapped", "another", "no names", "a study without names"],
)
def test_rows_of_other_columns_are_refused(tmp_path, columns, header):
    furnish(tmp_path, study(columns=columns))
    rows = tmp_path / "0" / "rows.csv"
    rows.write_text(header + rows.read_text().removeprefix("# a,b"))
    config = read_config(tmp_path / "0" / "room.toml")
    refuses(ValueError, "rows must have the columns of the study, in its order", open_room, config)


@pytest.mark.parametrize("what", ["journal", "socket"])
def test_one_room_for_a_journal_and_a_socket(tmp_path, what, monkeypatch):
    """A second one would deafen the first; that a kill opens the lock again is tested below."""
    furnish(tmp_path, study())
    path = tmp_path / "0" / "room.toml"
    monkeypatch.setattr(room_module, "_listening", lambda *_: pytest.fail("the room opened"))
    with locked(read_config(path)[what]):
        refuses(SystemExit, "is in use by another process", main, ["room", str(path)])
    (path.parent / "centers.csv").touch()  # of another run
    refuses(SystemExit, "is there before the run is finished", main, ["room", str(path)])


def test_a_socket_is_for_the_room_and_for_a_group_that_is_named(tmp_path):
    """Flower runs the server's program: it needs the socket, and an account without the files."""
    group = grp.getgrgid(os.getgid()).gr_name
    for named, mode in ((None, 0o600), (group, 0o660)):
        with room_module._listening(tmp_path / "s", named):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode


def test_a_plan_can_be_read_before_anything_is_sent(tmp_path, capsys):
    furnish(tmp_path, study())
    main(["plan", str(tmp_path / "0" / "room.toml")])
    said = capsys.readouterr().out
    assert "guarantee" in said and "100.0% is left" in said
    assert open_room(read_config(tmp_path / "0" / "room.toml")).said() in said
    assert not (tmp_path / "0" / "journal.json").exists()


@pytest.mark.parametrize("what", ["secret", "key"])
def test_a_secret_is_new_and_private(tmp_path, what, capsys):
    path = tmp_path / what
    main([what, str(path)])
    if what == "key":
        assert capsys.readouterr().out == f"public key {public_key(path.read_bytes()).hex()}\n"
    assert len(path.read_bytes()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    refuses(FileExistsError, "", main, [what, str(path)])


def test_what_the_page_on_deployment_shows_can_be_started(tmp_path):
    """Its study with the fields of each row of its table, and its room with the settings there."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    shown, room = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("json", "toml"))
    secret = tmp_path / "group.secret"
    secret.write_bytes(SECRET)
    np.savetxt(tmp_path / "rows.csv", [[55, 140]], delimiter=",", header="age,height")
    np.savetxt(tmp_path / "labels.csv", [1], fmt="%d", header="class")
    opened = set()
    table = re.findall(r"^   \| (`?\w.*?) \| (.*) \|(.*)\|$", page, re.M)
    for names, fields, settings in [("`fastlloyd`", "", ""), *table[1:]]:
        own = json.loads(shown) | {"seed": 1}
        for words in re.findall(r'`("[^`]*)`', fields):
            own |= json.loads(f"{{{words}}}")
        if own.get("trust") == "local" or "unit" in own:  # a user in each room; many clients
            own["n_clients"] = own["n_records"]
        if "training" in own:
            own["options"] |= {"n_rounds": 3, "training": own.pop("training")}
        missing = {
            "server_points": [[0.1, 0.2]] * 9,
            "public_keys": [public_key(k).hex() for k in KEYS],
        }
        own |= {name: value for name, value in missing.items() if f"`{name}`" in fields}
        (tmp_path / "room.key").write_bytes(KEYS[0])
        text = room
        for setting in re.findall(r"`(\w+)", settings):
            text = re.sub(rf"^( *)# {setting} =", rf"\1{setting} =", text, flags=re.M)
        (tmp_path / "room.toml").write_text(text)
        for method in re.findall(r"`(\w+)`", names) or ["fastlloyd"]:
            (tmp_path / "study.json").write_text(json.dumps(own | {"method": method}))
            made = open_room(read_config(tmp_path / "room.toml"))
            assert made.plan.delta == 1e-6 or made.study.trust == "local"
            opened.add((method, made.study.trust))
            (tmp_path / "journal.json").unlink(missing_ok=True)
    assert opened == {
        ("fastlloyd", "masked"), ("fastlloyd", "serverless"), ("fastlloyd", "trusted"),
        ("feddp_kmeans", "trusted"), ("sums_only", "masked"),
        ("ldp_one_round", "local"), ("ldp_sketch", "local"),
    }  # fmt: skip
