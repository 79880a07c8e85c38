"""Where rivals run: one environment for each, one process in it, one line of JSON each way."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMMITS = {"2097cc7a07a0": "b5b0286", "5cca656abaec": "1854bd6"}
"""Fingerprint of the modules of Google and of DPM -> the commit that they are of."""


@dataclass(frozen=True)
class Copy:
    """What no index carries: the environment variable that names a copy, and where to get it."""

    variable: str
    holds: str
    address: str


@dataclass(frozen=True)
class Rival:
    """A library of others: what its environment holds, and the script that runs in it."""

    name: str
    requirements: tuple[str, ...]
    worker: str
    folder: Copy | None = None


RIVALS = {
    # it does not import with newer ones
    "diffprivlib": Rival(
        "diffprivlib", ("diffprivlib==0.6.6", "scikit-learn<1.6", "numpy<2.3"),
        "diffprivlib_worker.py",
    ),
    "google_lsh": Rival(
        "google_lsh", ("absl-py", "dp-accounting==0.6.0", "numpy==2.4.6", "scikit-learn==1.9.1"),
        "google_worker.py",
        Copy("GOOGLE_DP_CLUSTERING", "clustering/clustering_algorithm.py",
             "github.com/google/differential-privacy, folder learning/clustering"),
    ),
    "dpm": Rival(
        "dpm", ("diffprivlib==0.6.6", "scikit-learn<1.6", "numpy<2.3", "fast-histogram==0.14"),
        "dpm_worker.py",
        Copy("DPM_CLUSTERING", "dpm.py", "github.com/UzL-PrivSec/dp-mondrian-clustering"),
    ),
    # it imports two packages that it does not declare, and hashes text, which xxhash 3 refuses
    "pure_ldp": Rival(
        "pure_ldp", ("pure-ldp==1.2.0", "scikit-learn", "statsmodels", "xxhash<3"),
        "pure_ldp_worker.py",
    ),
}  # fmt: skip


class RivalUnavailableError(RuntimeError):
    """A rival cannot run here; the message says what to do."""


def folder_of(rival: Rival) -> list[str]:
    """The folder that a rival's worker needs as its argument, if any."""
    if rival.folder is None:
        return []
    copy = rival.folder
    folder = os.environ.get(copy.variable, "")
    if not (Path(folder) / copy.holds).is_file():
        raise RivalUnavailableError(
            f"{rival.name} is in no package index: get {copy.address}, and name the folder that"
            f" holds {copy.holds} in {copy.variable}; got {folder or 'nothing'!r}"
        )
    return [str(Path(folder).resolve())]


def python_of(rival: Rival, base: Path) -> Path:
    """The interpreter of a rival's environment, which is made under `base` if it is not there."""
    home = base / rival.name
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        venv.create(home, with_pip=True)
        command = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        made = subprocess.run([*command, *rival.requirements], capture_output=True, text=True)
        if made.returncode:
            raise RivalUnavailableError(
                f"{rival.name}: pip could not install {', '.join(rival.requirements)}"
            )
        done.touch()
    return python


@dataclass
class Process:
    """A running rival: `ask` sends one request and waits for its answer."""

    rival: Rival
    base: Path
    version: str = ""
    _running: Any = field(default=None, repr=False)

    def start(self) -> None:
        """Make its environment if needed, and start its worker."""
        if self._running is not None:
            return
        command = [python_of(self.rival, self.base), HERE / self.rival.worker]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self._running = subprocess.Popen(
            [*command, *folder_of(self.rival)], env=clean, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        told = self._read()["version"]
        self.version = COMMITS.get(told, told)

    def ask(self, what: str, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        self.start()
        self._running.stdin.write(json.dumps({"ask": what, **request}) + "\n")
        self._running.stdin.flush()
        return self._read()

    def stop(self) -> None:
        """End the worker, which stops when it is asked nothing more."""
        if self._running is not None:
            self._running.stdin.close()
            self._running.wait(timeout=30)
            self._running.stdout.close()
            self._running = None

    def packages(self) -> dict[str, str]:
        """Versions of all that is installed beside it."""
        command = [python_of(self.rival, self.base), "-m", "pip", "freeze"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return dict(line.split("==") for line in sorted(listed.splitlines()) if "==" in line)

    def _read(self) -> dict[str, Any]:
        line = self._running.stdout.readline()
        if not line:
            raise RivalUnavailableError(f"{self.rival.name} stopped without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer
