"""A pytest plugin that records calls of public callables, and sweeps over some of them.

Two ways to run, chosen by the environment variable FEDCLUST_SWEEP, which names a JSON file:

* ``{"mode": "index", ...}``: note which test calls what, and how long tests take;
* ``{"mode": "sweep", "wanted": {target: [test, ...]}, ...}``: when one of these tests is about to
  make its first call of the target, fork, and try every change of every argument in the fork.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tools.sweep import allowed
from tools.sweep.changes import Change, changes
from tools.sweep.judge import (
    CHARGED,
    FINE,
    HANG,
    Call,
    Case,
    equal,
    in_child,
    judge,
    observe,
    unexpected,
)
from tools.sweep.targets import Target, watch_all

ATTEMPTS = 4  # recorded calls that are tried until one of them is valid
SLOW = 1.0  # seconds of a valid call that is too slow to be repeated for every change
ENVIRONMENT = "FEDCLUST_SWEEP"


class Index:
    """Which tests call which target: directly or through another public callable."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.node = ""
        self.depth = 0
        self.calls: dict[str, dict[str, bool]] = {}
        self.seconds: dict[str, float] = {}
        self.names = [t.name for t in watch_all(self.before)]

    def before(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.node:
            return
        tests = self.calls.setdefault(target.name, {})
        if not tests.get(self.node):
            frame = inspect.currentframe()
            caller = frame.f_back.f_back if frame and frame.f_back else None
            direct = caller is not None and "fedclust_helpers" not in caller.f_code.co_filename
            tests[self.node] = direct

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.node = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = 1e9

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.node = ""

    def pytest_sessionfinish(self) -> None:
        content = {"targets": self.names, "calls": self.calls, "seconds": self.seconds}
        self.out.write_text(json.dumps(content), encoding="utf-8")


class Sweep:
    """Try every change of every argument of the wanted calls."""

    def __init__(
        self,
        wanted: dict[str, list[str]],
        out: Path,
        *,
        share: float = 1.0,
        seed: int = 0,
        most: int = 80,
    ) -> None:
        self.wanted = {name: set(nodes) for name, nodes in wanted.items()}
        self.out = out.open("a", encoding="utf-8")
        self.share, self.seed, self.most = share, seed, most
        self.node = ""
        self.busy = False
        self.attempts: dict[tuple[str, str], int] = {}
        watch_all(self.before)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.node = nodeid

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.node = ""

    def pytest_sessionfinish(self) -> None:
        self.out.close()

    def before(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.busy or self.node not in self.wanted.get(target.name, ()):
            return
        key = (target.name, self.node)
        tried = self.attempts.get(key, 0)
        if tried >= ATTEMPTS:
            return
        self.attempts[key] = tried + 1
        self.busy = True
        try:
            if self.sweep(target, args, kwargs):
                self.attempts[key] = ATTEMPTS
        finally:
            self.busy = False

    def sweep(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """All cases of one call; False if the call as recorded is not valid."""
        if inspect.isclass(target.call):
            args = (None, *args)  # the signature is that of __init__
        try:
            call = Call(target, target.signature.bind(*args, **kwargs))
        except TypeError:
            return False
        gc.freeze()
        _, baseline = in_child(lambda: observe(call, None, None), seconds=20.0)
        if baseline is None or baseline["error"] is not None:
            return False
        children = os.times()
        again = in_child(lambda: observe(call, None, None), seconds=20.0)[1]
        taken = os.times()
        seconds = taken.children_user + taken.children_system
        seconds -= children.children_user + children.children_system
        stable = again is not None and equal(again["result"], baseline["result"])
        if baseline["modified"]:
            self._write(target, "", "valid call", "modified", "an argument was changed")
        todo = [
            (name, change)
            for name, value, parameter in call.values()
            for change in changes(name, value, parameter, target.doc)
        ]
        todo.append(unexpected())
        for name, change in self._chosen(target, todo, seconds):
            case = self._case(call, name, change, baseline, stable, seconds)
            self._write(target, name, change.kind, *case)
        return True

    def _chosen(
        self, target: Target, todo: list[tuple[str, Change]], seconds: float
    ) -> list[tuple[str, Change]]:
        """A share of the cases, and few where a call takes long."""
        rng = np.random.default_rng([self.seed, zlib.crc32(target.name.encode())])
        most = self.most if seconds < SLOW else max(8, int(self.most * SLOW / 4 / seconds))
        kept = np.flatnonzero(rng.random(len(todo)) < self.share)
        if len(kept) > most:
            kept = np.sort(rng.choice(kept, most, replace=False))
        return [todo[i] for i in kept]

    def _case(
        self, call: Call, name: str, change: Change, baseline: dict[str, Any], stable: bool,
        seconds: float,
    ) -> tuple[str, str]:  # fmt: skip
        limit = 3.0 + 3 * seconds
        why, found = in_child(lambda: observe(call, name, change), seconds=limit)
        if found is None:
            return HANG, why
        return judge(call, name, change, baseline, found, stable=stable)

    def _write(self, target: Target, name: str, kind: str, verdict: str, detail: str) -> None:
        case = Case(target.name, name, kind, verdict, detail[:300], self.node)
        reason = allowed.reason(case)
        line = {**case.as_dict(), "reason": reason}
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()


def pytest_configure(config: Any) -> None:
    """Start watching before the tests import anything."""
    setting = os.environ.get(ENVIRONMENT)
    if not setting:
        return
    options = json.loads(Path(setting).read_text(encoding="utf-8"))
    mode, out = options.pop("mode"), Path(options.pop("out"))
    plugin = Index(out) if mode == "index" else Sweep(out=out, **options)
    config.pluginmanager.register(plugin, "fedclust-sweep")


__all__ = ["CHARGED", "FINE", "Index", "Sweep", "pytest_configure"]
