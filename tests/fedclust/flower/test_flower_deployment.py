"""Whole runs over Flower: one SuperLink, three SuperNodes and three rooms, as processes.

TLS, node authentication, the loopback interface only. A tier of its own with an environment of its
own: `make federation-test`. Prints seconds and bytes of each exchange.
"""

import json
import os
import re
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
from conftest import ROOT, refuses
from flower_cases import NAMES

from fedclust.flower import Study, link
from fedclust.flower.certificates import certificates
from fedclust.flower.keys import make_keys
from fedclust_helpers.federation import simulate

pytestmark = pytest.mark.federation
pytest.importorskip("flwr", reason="needs Flower: make federation-test")

K, D, ROWS, ROUNDS = 10, 50, 1000, 5
DEADLINE = 300  # seconds for one exchange: a busy machine starts processes slowly
STUDY = Study(
    run="deployment", method="fastlloyd",
    options={"n_clusters": K, "epsilon": 2.0, "n_rounds": ROUNDS}, n_clients=3,
    n_records=3 * ROWS, n_features=D, noise_from="server", seed=3,
)  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def rows(d: int = D) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    centers = rng.uniform(-0.7, 0.7, (K, d))
    return [
        np.clip(centers[rng.integers(K, size=ROWS)] + rng.normal(0, 0.1, (ROWS, d)), -1, 1)
        for _ in range(3)
    ]


def command(*line: object) -> list[str]:
    return [sys.executable, "-m", "fedclust.command", *map(str, line)]


def furnish(folder: Path, study: Study) -> str:
    """Three steps up to the rooms, as operators take them; returns the agreement."""
    port = free_port()
    authority = certificates("localhost")
    server = folder / "server"
    server.mkdir(mode=0o700)
    for name, content in authority.items():
        (server / name).write_bytes(content)
    draft = replace(
        study, clients=NAMES, server=f"localhost:{port}",
        certificate=authority["ca.crt"].decode("ascii"),
    )  # fmt: skip
    (folder / "study.json").write_text(draft.to_json())
    for name, own in zip(NAMES, rows(study.n_features), strict=True):
        np.save(folder / f"{name}.npy", own)
        made = ("--rows", folder / f"{name}.npy", "--budget", 6.0, 0.01, "--no-node")
        line = command("room", folder / "study.json", "--client", name, *made)
        subprocess.run(line, env=environment(), check=True, capture_output=True)
    line = command("room", folder / "study.json", "--client", NAMES[0], "--plan")
    told = subprocess.run(line, env=environment(), check=True, capture_output=True, text=True)
    return re.search(r"^agreement +(.*)$", told.stdout, re.M)[1]


@contextmanager
def running(folder: Path, agreement: str) -> Iterator[dict[str, subprocess.Popen]]:
    """A room with its SuperNode for each client, before a server; all are stopped at the end."""
    ROOMS.clear()
    try:
        for name in NAMES:
            open_room(folder, name, agreement)
        yield ROOMS
    finally:
        for room in ROOMS.values():
            room.terminate()
        for room in ROOMS.values():
            room.wait(60)


def open_room(folder: Path, name: str, agreement: str) -> None:
    line = command("room", folder / "study.json", "--client", name, "--agreed", agreement)
    log = folder / f"{name}.txt"
    with open(log, "w") as out:
        ROOMS[name] = subprocess.Popen(line, env=environment(), stdout=out, stderr=out)
    wait_for(lambda: "is ready" in log.read_text(), 240)


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(folder: Path, deadline: int = DEADLINE) -> subprocess.Popen:
    ROOMS[f"server {len(ROOMS)}"] = started = subprocess.Popen(
        command("run", folder / "study.json", "--deadline", deadline), env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return started


def test_three_processes_equal_one(tmp_path):
    """Round by round the same; and who does not belong there does not get in."""
    with running(tmp_path, furnish(tmp_path, STUDY)):
        start, before, loopback = time.monotonic(), processor_seconds(os.getpid()), loopback_bytes()
        server = run(tmp_path)
        wait_for(lambda: "3 of 3 clients are there" in server.stdout.readline(), 240)
        for wrong in ("key", "authority"):
            nobody_else(tmp_path, wrong)
        seconds, n_bytes = finished(tmp_path, server)
        print(
            f"\nwhole run {time.monotonic() - start:.1f} s, exchanges {seconds} s,"
            f" {processor_seconds(os.getpid()) - before:.1f} processor seconds in all,"
            f" {n_bytes} bytes (with all of Flower's own on the loopback interface"
            f" {loopback_bytes() - loopback}), load {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
            " processors"
        )
        check_result(tmp_path, STUDY, n_bytes)


def test_killed_parties_go_on(tmp_path):
    """Without a server: a room and then the relay are killed after the first total."""
    study = replace(
        STUDY, run="with two kills", options={**STUDY.options, "n_rounds": 2}, trust="serverless",
        noise_from="clients",
    )  # fmt: skip
    agreement = furnish(tmp_path, study)
    with running(tmp_path, agreement) as rooms:
        relay = run(tmp_path)
        wait_for((tmp_path / "server" / "journal.json").exists, 600)  # one total is there
        kill(rooms["south"])
        open_room(tmp_path, "south", agreement)
        relay.terminate()
        said, _ = relay.communicate(timeout=900)
        assert relay.returncode == 4 and "the same command goes on" in said
        finished(tmp_path, run(tmp_path))
        keyed = Study.read(tmp_path / "study.json")
        check_result(tmp_path, replace(study, public_keys=keyed.public_keys))


def test_a_client_that_does_not_come_back(tmp_path):
    """A room is killed after the first total: the others go on, and it has the result later."""
    study = replace(
        STUDY, run="one goes", options={**STUDY.options, "n_rounds": 3}, noise_from="clients",
        may_miss=1, repeats=1,
    )  # fmt: skip
    agreement, journal = furnish(tmp_path, study), tmp_path / "server" / "journal.json"
    with running(tmp_path, agreement) as rooms:
        server = run(tmp_path, deadline=90)
        wait_for(lambda: journal.exists() and kept(journal)["runs"], 600)
        kill(rooms[NAMES[2]])
        seconds, _ = finished(tmp_path, server)
        sets = kept(journal)["asked"]
        print(f"\na room was killed: sets {sets}, exchanges {seconds} s")
        assert sets[0] == [[0, 1, 2]] and sets[2] == [[0, 1]]  # in round 1 it may have answered
        gone = {
            "silent": {t: [2] for t, asked in enumerate(sets) if len(asked) == 2},
            "away": {t: [2] for t, asked in enumerate(sets) if asked == [[0, 1]]},
        }
        assert not (tmp_path / NAMES[2] / "centers.csv").exists()
        open_room(tmp_path, NAMES[2], agreement)
        finished(tmp_path, run(tmp_path))  # nothing is asked or charged again: it gets the totals
        check_result(tmp_path, study, **gone)
        assert kept(journal)["asked"] == sets


def test_local_reports_equal_those_of_one_process(tmp_path):
    """Each room answers for 1000 users; the server has the result, and nothing but reports."""
    study = Study(
        run="reports", method="ldp_one_round", options={"n_clusters": 3, "epsilon": 6.0},
        n_clients=3, users=[ROWS] * 3, n_records=3 * ROWS, n_features=2, seed=3, trust="local",
        receiver="server", adjacency="replace-one", domain="ball",
    )  # fmt: skip
    with running(tmp_path, furnish(tmp_path, study)):
        seconds, n_bytes = finished(tmp_path, run(tmp_path))
    print(f"\nlocal reports of {3 * ROWS} users: exchanges {seconds} s, {n_bytes} bytes")
    federation = simulate(np.concatenate(rows(2)), "local", **study.federation_options)
    reference = study.follow(federation, study.planned(federation))
    assert np.array_equal(centers(tmp_path / "server"), reference.centers)
    assert n_bytes["received"] < 1.2 * federation.transcript.n_bytes()
    assert not [name for name in NAMES if (tmp_path / name / "centers.csv").exists()]


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


def kept(journal: Path) -> dict:
    return json.loads(journal.read_text())


def kill(room: subprocess.Popen) -> None:
    """As a power cut would: its SuperNode ends with it."""
    room.kill()
    room.wait()


ROOMS: dict[str, subprocess.Popen] = {}  # and servers: all that is to be stopped


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


def finished(folder: Path, server: subprocess.Popen) -> tuple[list[float], dict[str, int]]:
    """Seconds of the exchanges and bytes, as the ServerApp measured them."""
    try:
        said, _ = server.communicate(timeout=900)
    except subprocess.TimeoutExpired:
        server.terminate()
        raise
    assert server.returncode == 0 and "guarantee" in said, said
    log = (folder / "server" / "said.txt").read_text()
    seconds, n_bytes = re.findall(r"seconds (\[.*?\]) bytes (\{.*?\})", log)[-1]
    return json.loads(seconds), json.loads(n_bytes.replace("'", '"'))


def centers(folder: Path) -> np.ndarray:
    return np.loadtxt(folder / "centers.csv", delimiter=",", skiprows=1)


def check_result(
    folder: Path, study: Study, n_bytes: dict[str, int] | None = None, **gone: dict[int, list[int]]
) -> None:
    """The centres of each room are those of one process; of a whole run, the bytes too."""
    federation = simulate(rows(), study.trust, **study.federation_options, **gone)
    reference = study.follow(federation, study.planned(federation))
    for name in NAMES:
        wait_for((folder / name / "centers.csv").exists, 20)
        assert np.array_equal(centers(folder / name), reference.centers)
    if n_bytes is not None:
        payload = federation.transcript.n_bytes() - federation.transcript.n_bytes(round=-1)
        sent = sum(n_bytes.values())
        print(f"payload {payload} bytes in the transcript, on the wire {sent / payload:.3f} of it")
        assert payload < sent <= 1.1 * payload


def nobody_else(folder: Path, wrong: str) -> None:
    """A node with an unknown key (or one that trusts another authority) does not get in."""
    own = folder / f"stranger-{wrong}"
    own.mkdir()
    study = Study.read(folder / "study.json")
    make_keys(own, study, "stranger")
    authority = certificates("localhost")["ca.crt"].decode("ascii")
    if wrong == "authority":
        study = replace(study, certificate=authority)
    before = activated(folder)
    node = link.start_node(own, study, own / "room.sock")
    words = "certificate_verify_failed" if wrong == "authority" else "failed to activate supernode"
    try:
        wait_for(lambda: words in (own / "node.log").read_text().lower(), 90)
    finally:
        node.stop()
    assert activated(folder) == before


def activated(folder: Path) -> int:
    """How often the link let a node in."""
    return (folder / "server" / "link.log").read_text().count("] Activated node_id")


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
