"""Apply mutants to copies of the tree and run their tests there, several at a time."""

from __future__ import annotations

import compileall
import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.mutants.catalogue import ROOT, Mutant, PatchError

COPIED = ("fedclust", "fedclust_helpers", "studies", "tests", "tools", "data", "pyproject.toml")
# imported once by the parent, so that every test run starts at once: none of them is mutated
PRELOADED = (
    "numpy", "scipy.stats", "scipy.sparse", "scipy.optimize", "sklearn.cluster", "pandas",
    "dp_accounting.pld", "cryptography", "hypothesis", "pytest", "joblib", "matplotlib.pyplot",
)  # fmt: skip
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: a verdict, the test that failed first (or why none), seconds."""

    mutant: Mutant
    verdict: str
    detail: str
    seconds: float
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.verdict:<9} {self.mutant.name:<60} {self.seconds:5.1f} s  {self.detail}"


class _Record:
    """A pytest plugin that remembers which tests failed, and what did not load."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid} does not load")


def copy_tree(target: Path) -> Path:
    """Copy what tests need to `target`, compiled; links to the outside stay behind."""
    target.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, target / name)
    for name in COPIED[:2]:
        compileall.compile_dir(target / name, quiet=2)
    return target


def _of_the_tree(module: Any) -> bool:
    """Whether a loaded module is the working tree's own: a copy must load its own."""
    file = Path(getattr(module, "__file__", None) or "")
    return any(file.is_relative_to(ROOT / name) for name in COPIED)


def _run_pytest(folder: Path, tests: Sequence[str], *, first: bool) -> None:
    """In a child process: run the tests in `folder` and write what failed beside it."""
    log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    sys.path[:] = [str(folder), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    for name in [name for name, module in sys.modules.items() if _of_the_tree(module)]:
        del sys.modules[name]
    import pytest

    found = _Record()
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    code = int(pytest.main([*options, *["-x"] * first, *tests], plugins=[found]))
    content = {"code": code, "failed": found.failed, "broken": found.broken}
    folder.with_suffix(".json").write_text(json.dumps(content), encoding="utf-8")


class _Run:
    """The tests of one mutant, at work in a copy of the tree."""

    def __init__(self, mutant: Mutant, folder: Path, *, first: bool) -> None:
        self.mutant, self.folder, self.started = mutant, folder, time.monotonic()
        self.before: dict[Path, bytes] = {}
        for name, text in mutant.texts(folder).items():
            self.before[folder / name] = (folder / name).read_bytes()
            self.write(folder / name, text.encode())
        folder.with_suffix(".json").unlink(missing_ok=True)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                _run_pytest(folder, mutant.tests, first=first)
            finally:
                os._exit(0)

    @staticmethod
    def write(path: Path, content: bytes) -> None:
        """Change a file; its cache goes, which is trusted by the second of the last change."""
        path.write_bytes(content)
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)

    def stop(self) -> None:
        """End the child, whatever it does, and put the files back."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for path, content in self.before.items():
            self.write(path, content)

    def outcome(self, limit: float) -> Outcome | None:
        """What became of the mutant, once the child has ended or its time is over."""
        seconds = time.monotonic() - self.started
        if seconds > limit:
            self.stop()
            return Outcome(self.mutant, BROKEN, f"more than {limit:g} s", seconds)
        if not os.waitpid(self.pid, os.WNOHANG)[0]:
            return None
        self.stop()
        result = self.folder.with_suffix(".json")
        if not result.exists():
            return Outcome(self.mutant, BROKEN, "the tests ended without a result", seconds)
        found = json.loads(result.read_text(encoding="utf-8"))
        failed = tuple(found["failed"])
        if found["broken"]:
            return Outcome(self.mutant, BROKEN, found["broken"][0], seconds)
        if found["code"] == 1 and failed:
            return Outcome(self.mutant, KILLED, failed[0], seconds, failed)
        if found["code"] == 0:
            return Outcome(self.mutant, SURVIVED, self.mutant.breaks, seconds)
        return Outcome(self.mutant, BROKEN, f"pytest ended with {found['code']}", seconds)


def run(
    mutants: Sequence[Mutant],
    *,
    jobs: int = 2,
    first: bool = True,
    limit: float = 120.0,
    report: Callable[[Outcome], None] = print,
) -> list[Outcome]:
    """Run the tests of every mutant in a copy that holds it, `jobs` at a time, for `limit` seconds.

    With ``first=False`` all tests that fail are found, not just the first. "BROKEN" are an edit
    that does not fit, tests that do not load, and those that never end.
    """
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # an extra: the tests that need it say so
            importlib.import_module(name)
    outcomes: list[Outcome] = []
    waiting, running = list(reversed(mutants)), list[_Run]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        free = [copy_tree(Path(folder) / f"copy{i}") for i in range(min(jobs, len(mutants)))]
        try:
            while waiting or running:
                done: list[Outcome] = []
                while waiting and free:
                    try:
                        running.append(_Run(waiting[-1], free[-1], first=first))
                        free.pop()
                    except (PatchError, FileNotFoundError) as error:
                        done.append(Outcome(waiting[-1], BROKEN, str(error), 0.0))
                    waiting.pop()
                for work in list(running):
                    if outcome := work.outcome(limit):
                        running.remove(work)
                        free.append(work.folder)
                        done.append(outcome)
                for outcome in done:
                    outcomes.append(outcome)
                    report(outcome)
                time.sleep(0.02)
        finally:
            for work in running:
                work.stop()
    return outcomes
