"""A whole FastLloyd over Flower: one SuperLink, three SuperNodes and three rooms, as processes.

TLS, node authentication, the loopback interface only. A tier of its own with an environment of its
own: `make federation-test`. Prints seconds and bytes of each exchange.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedclust_helpers.federation import simulate
from fedclust_helpers.flower import Study

pytestmark = pytest.mark.federation
pytest.importorskip("flwr", reason="needs Flower: make federation-test")

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "federation"
K, D, ROWS, ROUNDS = 10, 50, 1000, 5
DEADLINE = 300  # seconds for one exchange: a busy machine starts processes slowly
STUDY = Study(
    run="deployment", method="fastlloyd",
    options={"n_clusters": K, "epsilon": 2.0, "n_rounds": ROUNDS}, n_clients=3,
    n_records=3 * ROWS, n_features=D, noise_from="server", seed=3,
)  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    off = ("FLWR_DISABLE_UPDATE_CHECK", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION")
    own = {
        "FLWR_HOME": str(folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0", "PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SCRIPTS.parents[1]),
    }  # fmt: skip
    return {**os.environ, **own, **dict.fromkeys(off, "1")}


def rows() -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    centers = rng.uniform(-0.7, 0.7, (K, D))
    return [
        np.clip(centers[rng.integers(K, size=ROWS)] + rng.normal(0, 0.1, (ROWS, D)), -1, 1)
        for _ in range(3)
    ]


def furnish(folder: Path, study: Study) -> None:
    """What each party has on its own machine."""
    secret = secrets.token_bytes(32)
    (folder / "study.json").write_text(study.to_json())
    for i, own in enumerate(rows()):
        room = folder / f"room-{i}"
        room.mkdir(exist_ok=True)
        np.save(room / "rows.npy", own)
        (room / "secret").write_bytes(secret)
        (room / "study.json").write_text(study.to_json())
        (room / "room.toml").write_text(
            f'study = "study.json"\nrows = "rows.npy"\nnumber = {i}\nsecret = "secret"\n'
            'journal = "journal.json"\nbound = 1.0\nsocket = "room.sock"\nresult = "centers.csv"\n'
            "[budget]\nepsilon = 6.0\ndelta = 0.01\n"
        )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def running(folder: Path) -> Iterator[tuple[int, int]]:
    """Everything that start.sh starts; stopped at the end."""
    port = free_port()
    with open(folder / "start.txt", "w") as log:
        started = subprocess.Popen(
            ["sh", str(SCRIPTS / "start.sh"), str(folder), "3", str(port)],
            env=environment(folder), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: "started:" in (folder / "start.txt").read_text(), 240)
        wait_for(lambda: all(is_ready(folder, i) for i in range(3)), 240)
        yield port, started.pid
    finally:
        started.terminate()
        try:
            started.wait(60)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


def is_ready(folder: Path, i: int) -> bool:
    return "is ready" in (folder / "log" / f"room-{i}.txt").read_text()


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.2)


def flwr_run(folder: Path) -> subprocess.Popen:
    files = f'study="{folder}/study.json" journal="{folder}/server.json"'
    return subprocess.Popen(
        ["flwr", "run", str(SCRIPTS / "app"), "study", "--stream", "--run-config",
         f"{files} deadline={DEADLINE}.0 patience={DEADLINE / 3}"],
        env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fed")
    for tool in ("openssl", "ssh-keygen"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    subprocess.run(["sh", str(SCRIPTS / "keys.sh"), str(folder), "localhost", "3"], check=True)
    return folder


def test_three_processes_equal_one(folder):
    """Round by round the same; and who does not belong there does not get in."""
    furnish(folder, STUDY)
    with running(folder) as (port, session):
        start, before = time.monotonic(), processor_seconds(session)
        seconds, n_bytes = finished(flwr_run(folder))
        print(
            f"\nwhole run {time.monotonic() - start:.1f} s, exchanges {seconds} s,"
            f" {processor_seconds(session) - before:.1f} processor seconds in all,"
            f" {n_bytes} bytes, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        )
        check_result(folder, STUDY, n_bytes)

        # who is not registered, or does not know this server's certificate, does not get in
        nobody_else(folder, port, key=True)
        nobody_else(folder, port, key=False)


def test_a_killed_client_goes_on(folder):
    """Its room is killed after the first total and started again; then all as in one process."""
    study = replace(STUDY, run="with a kill", options={**STUDY.options, "n_rounds": 2})
    furnish(folder, study)
    for i in range(3):
        (folder / f"room-{i}" / "centers.csv").unlink(missing_ok=True)
    (folder / "server.json").unlink(missing_ok=True)
    with running(folder):
        run = flwr_run(folder)
        wait_for(lambda: (folder / "server.json").exists(), 600)  # one total is there
        restart(folder, 1)
        _, n_bytes = finished(run)
        check_result(folder, study, n_bytes, retried=True)


ROOMS: dict[int, subprocess.Popen] = {}


def restart(folder: Path, i: int) -> None:
    """Kill the room of client i as a power cut would, and start it again."""
    config = str(folder / f"room-{i}" / "room.toml")
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True).stdout
    (process,) = [line for line in listed.splitlines() if line.endswith(f"room {config}")]
    os.kill(int(process.split()[0]), signal.SIGKILL)
    log = folder / "log" / f"room-{i}.txt"
    log.write_text("")
    with open(log, "w") as out:
        ROOMS[i] = subprocess.Popen(
            [sys.executable, "-m", "fedclust_helpers.flower", "room", config],
            env=environment(folder), stdout=out, stderr=out,
        )  # fmt: skip
    wait_for(lambda: is_ready(folder, i), 120)


@pytest.fixture(scope="module", autouse=True)
def stop_rooms():
    yield
    for room in ROOMS.values():
        room.kill()
        room.wait()


def finished(run: subprocess.Popen) -> tuple[list[float], dict[str, int]]:
    """Seconds of the exchanges and bytes, as the ServerApp prints them."""
    try:
        said, _ = run.communicate(timeout=900)
    except subprocess.TimeoutExpired:
        run.kill()
        raise
    (line,) = [line for line in said.splitlines() if line.startswith("seconds [")] or [said]
    assert line.startswith("seconds"), said[-3000:]
    text = line.removeprefix("seconds ").split(" bytes ")
    return json.loads(text[0]), json.loads(text[1].replace("'", '"'))


def check_result(
    folder: Path, study: Study, n_bytes: dict[str, int], retried: bool = False
) -> None:
    federation = simulate(rows(), "masked", **study.federation_options)
    reference = study.follow(federation, study.planned(federation))
    for i in range(3):
        path = folder / f"room-{i}" / "centers.csv"
        wait_for(path.exists, 20)
        assert np.array_equal(np.loadtxt(path, delimiter=","), reference.centers)
    payload = federation.transcript.n_bytes() - federation.transcript.n_bytes(round=-1)
    sent = sum(n_bytes.values())
    print(f"payload {payload} bytes in the transcript, {sent} on the wire ({sent / payload:.3f})")
    assert payload < sent <= (2.0 if retried else 1.1) * payload


def nobody_else(folder: Path, port: int, *, key: bool) -> None:
    """A node with an unknown key (or one that trusts another authority) does not get in."""
    own = folder / f"stranger-{key}"
    subprocess.run(["sh", str(SCRIPTS / "keys.sh"), str(own), "localhost", "1"], check=True)
    authority = folder / "ca.crt" if key else own / "ca.crt"
    private = own / "client-0" if key else folder / "client-0"
    before = activated(folder)
    with open(own / "log.txt", "w") as log:
        node = subprocess.Popen(
            ["flower-supernode", "--root-certificates", str(authority), "--superlink",
             f"127.0.0.1:{port}", "--auth-supernode-private-key", str(private), "--port",
             str(free_port()), "--max-retries", "1"],
            env=environment(folder), stdout=log, stderr=log,
        )  # fmt: skip
    words = "failed to activate supernode" if key else "certificate_verify_failed"
    try:
        wait_for(lambda: words in (own / "log.txt").read_text().lower(), 90)
    finally:
        node.terminate()
        try:
            node.wait(20)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
    assert activated(folder) == before


def activated(folder: Path) -> int:
    """How often the link let a node in."""
    return (folder / "log" / "link.txt").read_text().count("] Activated node_id")


def processor_seconds(session: int) -> float:
    """Of all processes of a session, with those they waited for (Linux)."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended in between
            continue
        if int(fields[3]) == session:
            ticks += sum(int(n) for n in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
