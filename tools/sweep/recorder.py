"""A pytest plugin that records calls of public callables, and sweeps over some of them.

Two ways to run, chosen by the environment variable FEDCLUST_SWEEP, which names a JSON file:

* ``{"mode": "index", ...}``: note which test calls what, and how long tests take;
* ``{"mode": "sweep", "wanted": {target: [test, ...]}, ...}``: when one of these tests is about to
  make its first call of the target, fork, and try every change of every argument in the fork.
"""

from __future__ import annotations

import functools
import gc
import inspect
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tools.sweep import allowed
from tools.sweep.changes import Change, changes
from tools.sweep.judge import (
    HANG,
    MODIFIED,
    SECONDS,
    Call,
    Case,
    equal,
    in_child,
    in_children,
    is_stateful,
    judge,
    observe,
    unexpected,
)
from tools.sweep.targets import Target, watch_all

BATCH = 12  # cases without state that share a process
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
        self.patched: list[str] = []
        self.names = [t.name for t in watch_all(self.around)]

    def around(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        proceed: Callable[[], Any],
    ) -> Any:  # fmt: skip
        direct, self.depth = self.depth == 0, self.depth + 1
        try:
            result = proceed()
        finally:
            self.depth -= 1
        if self.node:
            tests = self.calls.setdefault(target.name, {})
            tests[self.node] = tests.get(self.node, False) or direct
        return result

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """One set of parameters for each test function will do, and few drawn examples."""
        seen: set[str] = set()
        kept = []
        for item in items:
            function = item.nodeid.partition("[")[0]
            if function not in seen:
                kept.append(item)
                self.patched += [item.nodeid] if "monkeypatch" in item.fixturenames else []
            seen.add(function)
        items[:] = kept
        few_examples()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.node = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = 1e9

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.node = ""

    def pytest_sessionfinish(self) -> None:
        content = {"targets": self.names, "calls": self.calls, "seconds": self.seconds,
                   "patched": self.patched}  # fmt: skip
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
        watch_all(self.around)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        few_examples()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.node = nodeid

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.node = ""

    def pytest_sessionfinish(self) -> None:
        self.out.close()

    def around(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        proceed: Callable[[], Any],
    ) -> Any:  # fmt: skip
        if not self.busy and self.node in self.wanted.get(target.name, ()):
            key = (target.name, self.node)
            tried = self.attempts.get(key, 0)
            if tried < ATTEMPTS:
                self.attempts[key] = tried + 1
                self.busy = True
                try:
                    if self.sweep(target, args, kwargs):
                        self.attempts[key] = ATTEMPTS
                finally:
                    self.busy = False
        return proceed()

    def sweep(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """All cases of one call; False if the call as recorded is not valid."""
        if inspect.isclass(target.call):
            args = (None, *args)  # the signature is that of __init__
        try:
            call = Call(target, target.signature.bind(*args, **kwargs))
        except TypeError:
            return False
        gc.freeze()
        used = os.times()
        baselines = [in_child(lambda: observe(call, None, None), seconds=20.0) for _ in range(2)]
        now = os.times()
        seconds = now.children_user + now.children_system
        seconds = (seconds - used.children_user - used.children_system) / 2
        baseline, again = baselines[0][1], baselines[1][1]
        if baseline is None or baseline["error"] is not None:
            return False
        stable = again is not None and equal(again["result"], baseline["result"])
        if baseline["modified"]:
            self._write(target, "", "valid call", MODIFIED, "an argument was changed")
        todo = [
            (name, change)
            for name, value, parameter in call.values()
            for change in changes(name, value, parameter, target.doc)
        ]
        todo.append(unexpected())
        chosen = self._chosen(target, todo, seconds)
        works = [functools.partial(observe, call, name, change) for name, change in chosen]
        batch = 1 if is_stateful(call) else BATCH
        found = in_children(works, seconds=SECONDS + 3 * seconds, batch=batch)
        for (name, change), (why, seen) in zip(chosen, found, strict=True):
            if seen is None:
                self._write(target, name, change.kind, HANG, why)
                continue
            verdict = judge(call, name, change, baseline, seen, stable=stable)
            self._write(target, name, change.kind, *verdict)
        return True

    def _chosen(
        self, target: Target, todo: list[tuple[str, Change]], seconds: float
    ) -> list[tuple[str, Change]]:
        """A share of the cases, and few where a call takes long.

        Cases have a fixed order of their own, so that a sample is a part of what a whole run does.
        """
        most = self.most if seconds < SLOW else max(9, int(self.most * SLOW / 4 / seconds))
        if self.share < 1:
            most //= 3

        def place(case: tuple[str, Change]) -> int:
            return zlib.crc32(f"{target.name} {case[0]} {case[1].kind}".encode())

        chosen = sorted(todo, key=place)[:most]
        rng = np.random.default_rng([self.seed, zlib.crc32(target.name.encode())])
        kept = rng.random(len(chosen)) < min(1.0, 3 * self.share if self.share < 1 else 1.0)
        return [case for case, keep in zip(chosen, kept, strict=True) if keep]

    def _write(self, target: Target, name: str, kind: str, verdict: str, detail: str) -> None:
        case = Case(target.name, name, kind, verdict, detail[:300], self.node)
        reason = allowed.reason(case)
        line = {**case.as_dict(), "reason": reason}
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()


def few_examples() -> None:
    """Calls of a test that draws its arguments are alike: three of them are enough."""
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "sweep", derandomize=True, deadline=None, max_examples=3,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("sweep")


def pytest_configure(config: Any) -> None:
    """Start watching before the tests import anything."""
    setting = os.environ.get(ENVIRONMENT)
    if not setting:
        return
    options = json.loads(Path(setting).read_text(encoding="utf-8"))
    mode, out = options.pop("mode"), Path(options.pop("out"))
    plugin = Index(out) if mode == "index" else Sweep(out=out, **options)
    config.pluginmanager.register(plugin, "fedclust-sweep")


__all__ = ["Index", "Sweep", "pytest_configure"]
