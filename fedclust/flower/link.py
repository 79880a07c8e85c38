"""Flower's processes: the SuperLink at the server, a SuperNode beside each room, and one run.

Each writes to a log of its own; when one ends, what it said last is in the error.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedclust.flower import reach, watched
from fedclust.flower.keys import NODE_KEY
from fedclust.flower.server import SAID
from fedclust.flower.study import Study
from fedclust_helpers._private import private, write_private

APP = Path(__file__).with_name("app")
VERSION = "1.41.0"  # of Flower, with which this is tested
PAUSE = 0.2  # seconds between two looks
LOOPBACK = "127.0.0.1,localhost,::1"
AGAIN = 3.0  # seconds until a SuperNode that ended is started again
LINES = 4  # of a log, in an error
LOOK = 15.0  # seconds between two looks whether the server can be reached
OFF = (
    "FLWR_DISABLE_UPDATE_CHECK", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION",
)  # fmt: skip


class LinkError(RuntimeError):
    """A process of Flower could not be started, or ended; the text says which, and its log."""


def need_flower() -> None:
    """LinkError where Flower is not installed beside this Python."""
    if not _program("flower-supernode").exists():
        raise LinkError(
            "Flower is not installed in this environment: pip install"
            f" '.[federation]' 'flwr=={VERSION}' in the checkout, in an environment of its own"
        )


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _environment(folder: Path) -> dict[str, str]:
    """Without telemetry, and without anything that is installed while it runs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    own = {"FLWR_HOME": str(folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0", "PATH": path}
    polls = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1"}
    # processes of one machine never talk through a proxy
    around = ",".join(
        filter(None, [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), LOOPBACK])
    )
    direct = {"no_proxy": around, "NO_PROXY": around}
    return {**polls, **os.environ, **own, **direct, **dict.fromkeys(OFF, "1")}


class Started:
    """A process that writes to `log`, until `stop`, or until this one ends, however it ends."""

    def __init__(self, name: str, folder: Path, log: str, arguments: Sequence[str]) -> None:
        self.name, self.log = name, folder / log
        with open(self.log, "w", encoding="utf-8", opener=private) as file:
            self.process = subprocess.Popen(
                [sys.executable, "-IS", watched.__file__, str(_program(name)), *arguments],
                stdin=subprocess.PIPE, stdout=file, stderr=file, env=_environment(folder),
                start_new_session=True,
            )  # fmt: skip

    def ended(self) -> bool:
        """Whether it is there no more."""
        return self.process.poll() is not None

    def error(self) -> LinkError:
        """That it ended, and why: from its first error on, or else what it said last."""
        plain = re.sub(r"\x1b\[\d*m|[╭╮╰╯│─]", "", self.log.read_text("utf-8", "replace"))
        lines = [line.strip() for line in plain.splitlines() if line.strip()]
        wrong = [i for i, line in enumerate(lines) if re.search(r"(?i)\berrno\b|error\b", line)]
        told = lines[wrong[0] :][:LINES] if wrong else lines[-LINES:]
        last = f": {' '.join(told)}" if lines else ""
        place = f"{self.log.parent.name}/{self.log.name}"
        return LinkError(
            f"{self.name} ended with code {self.process.returncode} (all it said is in"
            f" {place}){last}"
        )

    def stop(self) -> None:
        """End it and what it started, and wait until it is gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        # an app of it that lived on would keep the journal from whoever goes on
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def split(server: str) -> tuple[str, int]:
    """Host and port of "name:port"."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _is_open(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(2)
        return one.connect_ex(("127.0.0.1", port)) == 0


def node_arguments(folder: Path, study: Study, room_socket: Path) -> list[str]:
    """What ``flower-supernode`` is started with; its certificate is written to `folder`."""
    if study.server is None or study.certificate is None:
        raise LinkError("the study names no server: it was not made by `fedclust study new`")
    certificate = folder / "ca.crt"
    write_private(certificate, study.certificate)
    return [
        "--root-certificates", str(certificate), "--superlink", study.server,
        "--auth-supernode-private-key", str(folder / NODE_KEY), "--port", str(free_port()),
        "--node-config", f'room="{room_socket.resolve()}"',
    ]  # fmt: skip


def start_node(folder: Path, study: Study, room_socket: Path) -> Started:
    """The SuperNode of a client, in the folder of its room; it waits for the server."""
    arguments = node_arguments(folder, study, room_socket)
    return Started("flower-supernode", folder, "node.log", arguments)


class KeptUp(threading.Thread):
    """A process that is started again where it ends, until `stop`; `tell` hears why, once.

    A SuperNode gives up where the server is up, but does not know its key yet.
    """

    def __init__(self, start: Callable[[], Started], tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._start_one, self._tell = start, tell
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._one: Started | None = None

    def run(self) -> None:
        """What the thread does."""
        told = False
        while not self._stopping.is_set():
            with self._lock:
                self._one = None if self._stopping.is_set() else self._start_one()
            if self._one is not None:
                self._one.process.wait()
                if not told and not self._stopping.is_set():
                    self._tell(f"not let in by the server yet, tried again: {self._one.error()}")
                    told = True
            self._stopping.wait(AGAIN)

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        self._stopping.set()
        with self._lock:
            if self._one is not None:
                self._one.stop()


class Reaching(threading.Thread):
    """Looks whether the server can be reached until it can, or until `stop`.

    `tell` hears why not, once for each reason, and then that it was reached.
    """

    def __init__(self, folder: Path, study: Study, tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._folder, self._tell = folder, tell
        self._server, self._certificate = str(study.server), study.certificate
        self._stopping = threading.Event()

    def run(self) -> None:
        """What the thread does."""
        told: set[str] = set()
        while not self._stopping.is_set():
            why = self._look()
            if self._stopping.is_set():
                return
            if not why:
                if told:
                    self._tell(f"{self._server} is reached now")
                return
            if why not in told:
                self._tell(f"not reached yet, tried again: the server {self._server}: {why}")
                told.add(why)
            self._stopping.wait(LOOK)

    def _look(self) -> str:
        line = [sys.executable, "-IS", reach.__file__, self._server]
        try:
            done = subprocess.run(
                line, input=self._certificate, env=_environment(self._folder),
                capture_output=True, text=True, timeout=3 * reach.SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "no answer"
        return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]

    def stop(self) -> None:
        """No more looks."""
        self._stopping.set()


@contextmanager
def super_link(folder: Path, study: Study) -> Iterator[Started]:
    """The SuperLink, in the server's folder, with the SuperNodes of all clients registered.

    LinkError where the port is taken, or it does not come up; nothing is left running.
    """
    port = split(str(study.server))[1]
    if _is_open(port):
        raise LinkError(
            f"port {port} is taken on this machine, perhaps by another `fedclust run`: stop what"
            " listens there; the port is the study's, so nobody else can be asked"
        )
    home = folder / "flwr"
    home.mkdir(exist_ok=True)
    write_private(
        home / "config.toml",
        f'[superlink]\ndefault = "study"\n\n[superlink.study]\naddress = "127.0.0.1:{port}"\n'
        f"root-certificates = {json.dumps(str(folder / 'ca.crt'))}\n",
    )
    link = Started(
        "flower-superlink", folder, "link.log",
        ["--host", "0.0.0.0", "--port", str(port), "--enable-supernode-auth",
         "--ssl-ca-certfile", str(folder / "ca.crt"), "--ssl-certfile", str(folder / "server.crt"),
         "--ssl-keyfile", str(folder / "server.key"), "--database", str(folder / "link.db"),
         "--disable-runtime-dependency-installation"],
    )  # fmt: skip
    try:
        while not _is_open(port):
            if link.ended():
                raise link.error()
            time.sleep(PAUSE)
        for name, key in zip(study.clients or (), study.node_keys or (), strict=True):
            _register(folder, name, key, link)
        yield link
    finally:
        link.stop()


def _ended(folder: Path, log: str, *line: str) -> Started:
    """A command of Flower at its end."""
    done = Started("flwr", folder, log, line)
    done.process.wait()
    done.stop()
    return done


def _register(folder: Path, client: str, key: str, link: Started) -> None:
    path = folder / f"{client}.pub"
    write_private(path, key + "\n")
    done = _ended(folder, "register.log", "supernode", "register", str(path), "study")
    if link.ended():
        raise link.error()
    # the keys of a study differ: one that is known is this client's, of an attempt before
    if done.process.returncode and "already" not in done.log.read_text("utf-8", "replace"):
        raise done.error()


def _nodes(folder: Path) -> list[str]:
    """The numbers that Flower gave the SuperNodes of the clients, in the order of the study."""
    done = _ended(folder, "nodes.log", "supernode", "list", "study", "--format", "json")
    if done.process.returncode:
        raise done.error()
    # Flower lists them by when they were registered: one after the other
    said = done.log.read_text("utf-8", "replace")
    return [each["node-id"] for each in json.loads(said[said.index("{") :])["nodes"]]


def run_study(
    folder: Path, path: Path, link: Started, tell: Callable[[str], None], **seconds: float
) -> str:
    """One run of the study in the file `path`: what is to be shown at its end.

    `tell` hears what happens; `seconds` are those of the app's configuration. LinkError where the
    run failed, with what the server said.
    """
    said = folder / SAID
    said.unlink(missing_ok=True)
    settings = {"study": str(path.resolve()), "folder": str(folder.resolve()), **seconds}
    settings["nodes"] = " ".join(_nodes(folder))
    text = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    run = Started(
        "flwr", folder, "run.log", ["run", str(APP), "study", "--stream", "--run-config", text]
    )  # fmt: skip
    heard = 0
    try:
        while True:
            over = run.ended()  # before the last look at what was said
            lines = _said(said)
            for line in lines[heard:]:
                ((kind, text),) = line.items()
                if kind == "failed":
                    raise LinkError(text)
                if kind == "done":
                    return text
                if kind == "say":
                    tell(text)
            heard = len(lines)
            if link.ended():
                raise link.error()
            if over:
                raise run.error()
            time.sleep(PAUSE)
    finally:
        run.stop()


def _said(path: Path) -> list[dict[str, Any]]:
    """The whole lines of the file."""
    if not path.exists():
        return []
    return [json.loads(x) for x in path.read_text("utf-8").splitlines(True) if x.endswith("\n")]
