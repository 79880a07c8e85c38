"""Rooms as processes of their own, ended by SIGKILL: what a kill and a power cut leave behind."""

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
from flower_cases import LLOYD, N_CLIENTS, SECRET, client_rows, server, study

from fedclust_helpers.federation import simulate
from fedclust_helpers.flower import RoundFailedError
from fedclust_helpers.flower.__main__ import main
from fedclust_helpers.flower.room import read_config

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


def furnish(folder, agreed):
    for i, rows in enumerate(client_rows()):
        room = folder / str(i)
        room.mkdir()
        np.savetxt(room / "rows.csv", rows, delimiter=",", header="a,b", fmt="%.17g")
        (room / "secret").write_bytes(SECRET)
        (room / "study.json").write_text(agreed.to_json())
        (room / "room.toml").write_text(CONFIG.format(number=i))


class Processes:
    """A transport to rooms that are processes; an answer that never comes is lost."""

    addresses = range(N_CLIENTS)

    def __init__(self, folder):
        self.folder, self.rooms = folder, {}
        self.answers: queue.Queue = queue.Queue()
        for i in self.addresses:
            self.start(i)
        for i in self.addresses:
            self.wait(i)

    def start(self, i):
        with open(self.folder / str(i) / "log.txt", "a") as log:
            self.rooms[i] = subprocess.Popen(
                [sys.executable, "-m", "fedclust_helpers.flower", "room",
                 str(self.folder / str(i) / "room.toml")],
                stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip

    def wait(self, i):
        end = time.monotonic() + 60
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


@pytest.mark.slow
def test_killed_processes_go_on(tmp_path):
    agreed = study(noise_from="server", options=LLOYD | {"n_rounds": 6})
    furnish(tmp_path, agreed)
    processes = Processes(tmp_path)
    try:
        mode = stat.S_IMODE((tmp_path / "0" / "s").stat().st_mode)
        assert mode & 0o077 == 0  # the socket is the client's own
        room = server(tmp_path, agreed, processes, patience=0.5, deadline=60.0)
        gone = server(tmp_path, agreed, processes, patience=0.5, deadline=1.0)
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
        federation = simulate(client_rows(), "masked", **agreed.federation_options)
        reference = agreed.follow(federation, agreed.planned(federation))
        for i in range(N_CLIENTS):
            path = tmp_path / str(i) / "centers.csv"
            end = time.monotonic() + 30
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.05)
            assert np.array_equal(np.loadtxt(path, delimiter=","), reference.centers)
    finally:
        processes.stop()


def test_a_configuration_names_what_is_missing(tmp_path):
    path = tmp_path / "room.toml"
    path.write_text('rows = "rows.csv"\nepsilon = 1.0\n')
    refuses(ValueError, "must name .*'study'.*unknown: \\['epsilon'\\]", read_config, path)


def test_a_plan_can_be_read_before_anything_is_sent(tmp_path, capsys):
    furnish(tmp_path, study())
    main(["plan", str(tmp_path / "0" / "room.toml")])
    said = capsys.readouterr().out
    assert "guarantee" in said and "agreement" in said and "100.0% is left" in said
    assert not (tmp_path / "0" / "journal.json").exists()


def test_a_secret_is_new_and_private(tmp_path):
    path = tmp_path / "secret"
    main(["secret", str(path)])
    assert len(path.read_bytes()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    refuses(FileExistsError, "", main, ["secret", str(path)])
