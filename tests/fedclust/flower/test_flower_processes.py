"""Rooms as processes of their own, ended by SIGKILL: what a kill and a power cut leave behind."""

import grp
import json
import os
import queue
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
    NAMES,
    SECRET,
    client_rows,
    completed,
    server,
)
from flower_cases import study as plain_study

from fedclust.command import main
from fedclust.flower import RoundFailedError
from fedclust.flower import process as room_module
from fedclust.flower.journal import locked
from fedclust.flower.keys import spoken
from fedclust.flower.process import open_room, read_config
from fedclust_helpers.federation import simulate

CONFIG = """study = "study.json"
client = "{client}"
rows = "rows.csv"
journal = "journal.json"
socket = "s"
[budget]
epsilon = 4.0
delta = 0.05
"""


def study(**changes):
    """With the names that stand in rows.csv, and all keys."""
    return completed(plain_study(**{"columns": ["a", "b"]} | changes))


def furnish(folder, agreed):
    for name, rows, key in zip(NAMES, client_rows(), KEYS, strict=True):
        room = folder / name
        room.mkdir(parents=True)
        np.savetxt(room / "rows.csv", rows, delimiter=",", header="a,b", fmt="%.17g")
        (room / "room.key").write_bytes(key)
        for file in (folder / "study.json", room / "study.json"):
            file.write_text(agreed.to_json())
        (room / "room.toml").write_text(CONFIG.format(client=name))


def opened(folder, name="north", tell=lambda text: None):
    return open_room(read_config(folder / name / "room.toml"), tell)


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
            with Client(str(self.folder / NAMES[address] / "s"), family="AF_UNIX") as room:
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
        agreement = spoken(opened(self.folder, NAMES[i]).agreement)
        with open(self.folder / NAMES[i] / "log.txt", "a") as log:
            room = subprocess.Popen(
                [sys.executable, "-m", "fedclust.command", "room",
                 str(self.folder / "study.json"), "--client", NAMES[i], "--no-node", "--agreed",
                 agreement],
                stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        if self.rooms.setdefault(i, room).poll() is not None:
            self.rooms[i] = room
        return room

    def wait(self, i):
        end = time.monotonic() + 300
        while not (self.folder / NAMES[i] / "s").exists() and time.monotonic() < end:
            time.sleep(0.05)

    def kill(self, i):
        self.rooms[i].kill()
        assert self.rooms[i].wait() == -signal.SIGKILL
        (self.folder / NAMES[i] / "s").unlink()

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
        mode = stat.S_IMODE((tmp_path / "north" / "s").stat().st_mode)
        assert mode & 0o077 == 0  # the socket is the client's own
        room = server(tmp_path, agreed, processes, patience=0.5)
        gone = server(tmp_path, agreed, processes, patience=0.5, deadline=1.0)
        second = processes.start(1)  # the same room.toml again
        assert second.wait(60) == 3
        assert "in use by another process" in (tmp_path / "south" / "log.txt").read_text()
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
    for name in NAMES:
        path = folder / name / "centers.csv"
        end = time.monotonic() + 300
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert np.array_equal(np.loadtxt(path, delimiter=",", skiprows=1), reference.centers)
        (run,) = json.loads((folder / name / "journal.json").read_text())["runs"]
        assert len(run["answered"]) == len(reference.ledger.releases)


def test_a_configuration_names_what_is_missing(tmp_path):
    path = tmp_path / "room.toml"
    path.write_text('rows = "rows.csv"\nepsilon = 1.0\n')
    refuses(ValueError, "room.toml must have the setting 'study'", read_config, path)
    path.write_text(CONFIG.replace("socket", "sockets"))
    refuses(ValueError, "room.toml has no setting 'sockets'", read_config, path)
    path.write_text("study = ")
    refuses(ValueError, "room.toml is no TOML file: Invalid value", read_config, path)


def test_a_configuration_opens_rooms_of_every_trust(tmp_path):
    options = {"n_clusters": 2, "epsilon": 2.0}
    own = {"columns": ["a", "b"], "lower": -2.0, "upper": 2.0, "method": "ldp_one_round"}
    furnish(tmp_path / "local", completed(plain_study(options=options, **own, **LOCAL)))
    room = opened(tmp_path / "local")
    # the box of the bounds fits into the unit ball, and centres come back from there
    assert np.allclose(room._rows, client_rows()[0] / 2 / np.sqrt(2), rtol=1e-14)
    assert np.allclose(room.study.in_units(room._rows), client_rows()[0], rtol=1e-13)
    assert room._secret is None

    agreed = study(trust="serverless")
    furnish(tmp_path / "serverless", agreed)
    rooms = [opened(tmp_path / "serverless", name) for name in NAMES]
    assert len({room.agreement for room in rooms}) == len({room._secret for room in rooms}) == 1
    assert rooms[0]._secret != SECRET  # drawn when the study was completed


@pytest.mark.parametrize("what", ["journal", "socket"])
def test_one_room_for_a_journal_and_a_socket(tmp_path, what, monkeypatch, capsys):
    """A second one would deafen the first; that a kill opens the lock again is tested above."""
    furnish(tmp_path, study())
    config = read_config(tmp_path / "north" / "room.toml")
    monkeypatch.setattr(room_module, "_listening", lambda *_: pytest.fail("the room opened"))
    agreed = ["--agreed", spoken(opened(tmp_path).agreement)]
    line = ["room", str(tmp_path / "study.json"), "--client", "north", "--no-node", *agreed]
    with locked(config[what]):
        assert main(line) == 3
    assert "is in use by another process" in capsys.readouterr().err
    (tmp_path / "north" / "centers.csv").touch()  # of another run
    assert main(line) == 3
    assert "so it is another run's: move it" in capsys.readouterr().err


def test_a_socket_is_for_the_room_and_for_a_group_that_is_named(tmp_path):
    """Flower runs the server's program: it needs the socket, and an account without the files."""
    group = grp.getgrgid(os.getgid()).gr_name
    for named, mode in ((None, 0o600), (group, 0o660)):
        with room_module._listening(tmp_path / "s", named):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode
