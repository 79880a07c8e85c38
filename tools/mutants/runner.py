"""Apply mutants to copies of the tree and run their tests there."""

from __future__ import annotations

import compileall
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

from tools.mutants.base import Mutant, PatchError

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("fedclust_helpers", "studies", "tests", "tools", "data", "pyproject.toml")
# imported once by the parent, so that every test run starts at once: none of them is mutated
PRELOADED = (
    "numpy", "scipy.stats", "scipy.sparse", "scipy.optimize", "sklearn.cluster", "pandas",
    "dp_accounting", "dp_accounting.pld", "cryptography", "hypothesis", "pytest", "joblib",
    "matplotlib.pyplot",
)  # fmt: skip
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `verdict`, the test that failed first (or why not), seconds."""

    mutant: Mutant
    verdict: str
    detail: str
    seconds: float
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.verdict:<9} {self.mutant.name:<44} {self.seconds:5.1f} s  {self.detail}"


class _FirstFailure:
    """A pytest plugin that remembers which tests failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed += 1

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid} does not load")


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """Copy what tests need; caches and links to the outside stay behind."""
    target.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source = root / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.partial.csv", ".ipynb_checkpoints")
            shutil.copytree(source, target / name, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, target / name)


def _from_the_tree(module: Any) -> bool:
    """Whether a loaded module is one of the working tree's own: a copy must load its own."""
    file = getattr(module, "__file__", None)
    if not file:
        return module.__name__.split(".")[0] in ("fedclust_helpers", "studies", "tests")
    path = Path(file).resolve()
    return any(path.is_relative_to(ROOT / name) for name in COPIED)


def _run_pytest(folder: Path, tests: Sequence[str], result: Path, *, first: bool) -> None:
    """In a child process: run the tests of `folder`, write what failed, and end."""
    log = os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    sys.path[:] = [str(folder), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    for name in [name for name, module in sys.modules.items() if _from_the_tree(module)]:
        del sys.modules[name]
    # the tests of a copy that knows nothing of a repository, and writes no caches
    sys.dont_write_bytecode = True
    import pytest

    import fedclust_helpers

    found = _FirstFailure()
    if not Path(str(fedclust_helpers.__file__)).is_relative_to(folder):
        found.broken.append("the tests would import another copy of the package")
        code = 2
    else:
        options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
        options += ["-x"] if first else []
        code = int(pytest.main([*options, *tests], plugins=[found]))
    content = {"code": code, "failed": found.failed, "broken": found.broken, "passed": found.passed}
    result.write_text(json.dumps(content), encoding="utf-8")


class _Slot:
    """One copy of the tree and the test run that goes on there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result = folder.with_suffix(".json")
        copy_tree(folder)
        compileall.compile_dir(folder / "fedclust_helpers", quiet=2)
        self.pid = 0
        self.mutant: Mutant | None = None
        self.before: dict[Path, bytes] = {}
        self.started = 0.0

    def start(self, mutant: Mutant, *, first: bool) -> None:
        self.before = mutant.apply(self.folder)
        for path in self.before:  # a cache is trusted by the second in which its source changed
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        self.result.unlink(missing_ok=True)
        self.mutant, self.started = mutant, time.monotonic()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                _run_pytest(self.folder, mutant.tests, self.result, first=first)
            finally:
                os._exit(0)

    def finished(self) -> Outcome | None:
        """The outcome, once the child has ended or its time is over; the files are put back."""
        assert self.mutant is not None
        seconds = time.monotonic() - self.started
        over = seconds > self.mutant.seconds
        if over:
            os.killpg(self.pid, signal.SIGKILL)
        pid, _ = os.waitpid(self.pid, 0 if over else os.WNOHANG)
        if not pid:
            return None
        mutant, self.mutant = self.mutant, None
        for path, content in self.before.items():
            path.write_bytes(content)
        if over:
            return Outcome(mutant, BROKEN, f"more than {mutant.seconds:g} s", seconds)
        return _judge(mutant, self.result, seconds)

    def stop(self) -> None:
        if self.mutant is not None:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _judge(mutant: Mutant, result: Path, seconds: float) -> Outcome:
    if not result.exists():
        return Outcome(mutant, BROKEN, "the test process ended without a result", seconds)
    found = json.loads(result.read_text(encoding="utf-8"))
    failed = tuple(found["failed"])
    if found["broken"]:
        return Outcome(mutant, BROKEN, found["broken"][0], seconds)
    if found["code"] == 1 and failed:
        return Outcome(mutant, KILLED, failed[0], seconds, failed)
    if found["code"] == 0 and found["passed"]:
        return Outcome(mutant, SURVIVED, mutant.breaks, seconds)
    return Outcome(mutant, BROKEN, f"pytest ended with {found['code']}: no test ran", seconds)


def unchanged(mutants: Sequence[Mutant], *, seconds: float = 900.0) -> Mutant:
    """The tests of all `mutants`, to be run on the package as it is: all of them must pass."""
    tests = tuple(dict.fromkeys(test for m in mutants for test in m.tests))
    return Mutant("nothing-changed", "the tests pass on the package as it is", (), tests, False,
                  seconds)  # fmt: skip


def run(
    mutants: Sequence[Mutant],
    *,
    jobs: int = 2,
    first: bool = True,
    report: Callable[[Outcome], None] = print,
) -> list[Outcome]:
    """Run the tests of every mutant on a copy that holds it, `jobs` at a time.

    With ``first=False`` all tests that fail are found, not just the first. A patch that does not
    apply is "BROKEN", as is a mutant that keeps the tests from loading or never ends.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    _preload()
    outcomes: list[Outcome] = []

    def add(outcome: Outcome) -> None:
        outcomes.append(outcome)
        report(outcome)

    waiting = list(reversed(mutants))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        slots = [_Slot(Path(folder) / f"copy{i}") for i in range(min(jobs, len(mutants)))]
        try:
            while waiting or any(slot.mutant for slot in slots):
                for slot in slots:
                    if slot.mutant is not None:
                        outcome = slot.finished()
                        if outcome is None:
                            continue
                        add(outcome)
                    while waiting and slot.mutant is None:
                        mutant = waiting.pop()
                        try:
                            slot.start(mutant, first=first)
                        except PatchError as error:
                            add(Outcome(mutant, BROKEN, str(error), 0.0))
                time.sleep(0.02)
        finally:
            for slot in slots:
                slot.stop()
    return outcomes


def _preload() -> None:
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra: the tests that need it say so
            continue
