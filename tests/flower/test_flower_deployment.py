"""Whole runs over Flower: one SuperLink, three SuperNodes and three rooms, as processes.

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
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers.federation import simulate
from fedclust_helpers.flower import Study
from fedclust_helpers.secure_aggregation import public_key

pytestmark = pytest.mark.federation
pytest.importorskip("flwr", reason="needs Flower: make federation-test")

SCRIPTS = Path(__file__).resolve().parents[2] / "tools" / "federation"
K, D, ROWS, ROUNDS = 10, 50, 1000, 5
KEYS = [bytes([i + 1] * 32) for i in range(3)]
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


def rows(d: int = D) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    centers = rng.uniform(-0.7, 0.7, (K, d))
    return [
        np.clip(centers[rng.integers(K, size=ROWS)] + rng.normal(0, 0.1, (ROWS, d)), -1, 1)
        for _ in range(3)
    ]


def furnish(folder: Path, study: Study) -> None:
    """What each party has on its own machine."""
    secret = secrets.token_bytes(32)
    (folder / "study.json").write_text(study.to_json())
    for i, own in enumerate(rows(study.n_features)):
        room = folder / f"room-{i}"
        room.mkdir(exist_ok=True)
        np.save(room / "rows.npy", own)
        (room / "secret").write_bytes(secret)
        (room / "key").write_bytes(KEYS[i])
        (room / "study.json").write_text(study.to_json())
        (room / "room.toml").write_text(
            f'study = "study.json"\nrows = "rows.npy"\nnumber = {i}\nsecret = "secret"\n'
            f'key = "key"\ndomain = "{study.domain}"\nbound = 1.0\njournal = "journal.json"\n'
            'socket = "room.sock"\nresult = "centers.csv"\n'
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


def flwr_run(folder: Path, deadline: int = DEADLINE) -> subprocess.Popen:
    files = " ".join(
        f'{name}="{folder}/{file}"' for name, file in [
            ("study", "study.json"), ("journal", "server.json"), ("result", "result.csv"),
        ]
    )  # fmt: skip
    return subprocess.Popen(
        ["flwr", "run", str(SCRIPTS / "app"), "study", "--stream", "--run-config",
         f"{files} deadline={deadline}.0 patience={deadline / 3}"],
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
    with running(folder) as (port, started):
        start, before, loopback = time.monotonic(), processor_seconds(started), loopback_bytes()
        seconds, n_bytes = finished(flwr_run(folder))
        print(
            f"\nwhole run {time.monotonic() - start:.1f} s, exchanges {seconds} s,"
            f" {processor_seconds(started) - before:.1f} processor seconds in all,"
            f" {n_bytes} bytes (with all of Flower's own on the loopback interface"
            f" {loopback_bytes() - loopback}), load {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
            " processors"
        )
        check_result(folder, STUDY, n_bytes)

        # who is not registered, or does not know this server's certificate, does not get in
        for wrong in ("key", "authority"):
            nobody_else(folder, port, wrong)


def test_killed_parties_go_on(folder):
    """Without a server: a room and then the relay are killed after the first total."""
    study = replace(
        STUDY, run="with two kills", options={**STUDY.options, "n_rounds": 2}, trust="serverless",
        noise_from="clients", public_keys=[public_key(key).hex() for key in KEYS],
    )  # fmt: skip
    furnish(folder, study)
    with running(folder) as (_, started):
        run = flwr_run(folder)
        wait_for((folder / "server.json").exists, 600)  # one total is there
        kill_room(folder, 1, started)
        start_room(folder, 1)
        (relay,) = [pid for pid, args in family(started).items() if "flwr-serverapp" in args]
        os.kill(relay, signal.SIGKILL)
        said, _ = run.communicate(timeout=900)
        assert "seconds [" not in said
        print(f"\nthe relay was killed; flwr run says {said.splitlines()[-3:]}")
        finished(flwr_run(folder))
        check_result(folder, study)


def test_a_client_that_does_not_come_back(folder):
    """A room is killed after the first total: the others go on, and it has the result later."""
    options = {**STUDY.options, "n_rounds": 3}
    study = replace(
        STUDY, run="one goes", options=options, noise_from="clients", may_miss=1, repeats=1
    )
    furnish(folder, study)
    with running(folder) as (_, started):
        run = flwr_run(folder, deadline=90)
        journal = folder / "server.json"
        wait_for(lambda: journal.exists() and json.loads(journal.read_text())["runs"], 600)
        kill_room(folder, 2, started)
        seconds, _ = finished(run)
        sets = json.loads(journal.read_text())["asked"]
        print(f"\na room was killed: sets {sets}, exchanges {seconds} s")
        assert sets[0] == [[0, 1, 2]] and sets[2] == [[0, 1]]  # in round 1 it may have answered
        gone = {
            "silent": {t: [2] for t, asked in enumerate(sets) if len(asked) == 2},
            "away": {t: [2] for t, asked in enumerate(sets) if asked == [[0, 1]]},
        }
        federation = simulate(rows(), "masked", **study.federation_options, **gone)
        expected = study.follow(federation, study.planned(federation)).centers
        assert not (folder / "room-2" / "centers.csv").exists()
        start_room(folder, 2)
        finished(flwr_run(folder))  # nothing is asked or charged again: it gets the totals
        for i in range(3):
            path = folder / f"room-{i}" / "centers.csv"
            wait_for(path.exists, 20)
            assert np.array_equal(np.loadtxt(path, delimiter=","), expected)
        assert json.loads(journal.read_text())["asked"] == sets


def test_local_reports_equal_those_of_one_process(folder):
    """Each room answers for 1000 users; the server has the result, and nothing but reports."""
    study = Study(
        run="reports", method="ldp_one_round", options={"n_clusters": 3, "epsilon": 6.0},
        n_clients=3, users=[ROWS] * 3, n_records=3 * ROWS, n_features=2, seed=3, trust="local",
        receiver="server", adjacency="replace-one", domain="ball",
    )  # fmt: skip
    furnish(folder, study)
    with running(folder):
        seconds, n_bytes = finished(flwr_run(folder))
    print(f"\nlocal reports of {3 * ROWS} users: exchanges {seconds} s, {n_bytes} bytes")
    federation = simulate(np.concatenate(rows(2)), "local", **study.federation_options)
    reference = study.follow(federation, study.planned(federation))
    assert np.array_equal(np.loadtxt(folder / "result.csv", delimiter=","), reference.centers)
    assert n_bytes["received"] < 1.2 * federation.transcript.n_bytes()
    assert not list(folder.glob("room-*/centers.csv"))


@pytest.mark.parametrize(
    ("ahead", "let_in"), [(-310, False), (-60, True), (0, True), (3, True), (10, False)]
)
def test_the_clocks_that_flower_allows(ahead, let_in, monkeypatch):
    """What docs/deployment.md says of the time at a node: its signature on it, and the link."""
    import httpx
    from flwr.proto.fleet_pb2 import ActivateNodeRequest
    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
    from flwr.superlink.routers.fleet.node_auth import HTTPException, authenticate_node
    from flwr.supernode import node_auth_http_interceptor as node

    private, public = generate_key_pairs()
    monkeypatch.setattr(node, "now", lambda: now() + timedelta(seconds=ahead))
    request = httpx.Request("POST", "https://localhost/v1/fleet/activate-node")
    signer = node.NodeAuthHttpInterceptor(private, public)
    signer.intercept(SimpleNamespace(request=request), lambda context: None)
    asked = ActivateNodeRequest(public_key=public_key_to_bytes(public))
    seen = SimpleNamespace(headers=request.headers, state=SimpleNamespace(protobuf_request=asked))
    if let_in:
        authenticate_node(seen)
    else:
        refuses(HTTPException, "401", authenticate_node, seen)


ROOMS: dict[int, subprocess.Popen] = {}


def family(first: int) -> dict[int, str]:
    """A process and all that it and they started, with their command lines."""
    command = ["ps", "-ww", "-eo", "pid=,ppid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = [line.split(None, 2) for line in listed.splitlines()]
    found, grows = {first: ""}, True
    while grows:
        more = {int(pid): args for pid, parent, args in table if int(parent) in found}
        grows = not more.keys() <= found.keys()
        found |= more
    return found


def kill_room(folder: Path, i: int, started: int) -> None:
    """As a power cut would."""
    config = str(folder / f"room-{i}" / "room.toml")
    (process,) = [pid for pid, args in family(started).items() if args.endswith(f"room {config}")]
    os.kill(process, signal.SIGKILL)


def start_room(folder: Path, i: int) -> None:
    """The room of client i again."""
    config = str(folder / f"room-{i}" / "room.toml")
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


def check_result(folder: Path, study: Study, n_bytes: dict[str, int] | None = None) -> None:
    """The centres of each room are those of one process; of a whole run, the bytes too."""
    federation = simulate(rows(), study.trust, **study.federation_options)
    reference = study.follow(federation, study.planned(federation))
    for i in range(3):
        path = folder / f"room-{i}" / "centers.csv"
        wait_for(path.exists, 20)
        assert np.array_equal(np.loadtxt(path, delimiter=","), reference.centers)
    if n_bytes is not None:
        payload = federation.transcript.n_bytes() - federation.transcript.n_bytes(round=-1)
        again = n_bytes["again"]  # a busy machine is asked twice
        sent = n_bytes["sent"] + n_bytes["received"] - again
        print(
            f"payload {payload} bytes in the transcript, on the wire {sent / payload:.3f} of it"
            f" (and {again} bytes again)"
        )
        assert payload < sent <= 1.1 * payload


def nobody_else(folder: Path, port: int, wrong: str) -> None:
    """A node with an unknown key (or one that trusts another authority) does not get in."""
    own = folder / f"stranger-{wrong}"
    subprocess.run(["sh", str(SCRIPTS / "keys.sh"), str(own), "localhost", "1"], check=True)
    authority = own / "ca.crt" if wrong == "authority" else folder / "ca.crt"
    private = own / "client-0" if wrong == "key" else folder / "client-0"
    before = activated(folder)
    with open(own / "log.txt", "w") as log:
        node = subprocess.Popen(
            ["flower-supernode", "--root-certificates", str(authority), "--superlink",
             f"127.0.0.1:{port}", "--auth-supernode-private-key", str(private), "--port",
             str(free_port()), "--max-retries", "1"],
            env=environment(folder), stdout=log, stderr=log,
        )  # fmt: skip
    words = "certificate_verify_failed" if wrong == "authority" else "failed to activate supernode"
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


def loopback_bytes() -> int:
    """Sent over the loopback interface since the machine started, by everybody (Linux)."""
    (line,) = [x for x in Path("/proc/net/dev").read_text().splitlines() if x.strip()[:3] == "lo:"]
    return int(line.split(":")[1].split()[8])


def processor_seconds(first: int) -> float:
    """Of a process and all that it and they started, those that ended too (Linux)."""
    ticks = 0
    for process in family(first):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # ended in between
            continue
        ticks += sum(int(n) for n in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
