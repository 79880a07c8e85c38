"""Run one case in a process of its own and say what happened."""

from __future__ import annotations

import builtins
import contextlib
import copy
import gc
import hashlib
import inspect
import itertools
import math
import os
import pickle
import re
import resource
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from tools.sweep.changes import Change, Stranger
from tools.sweep.targets import PACKAGE, Target

SECONDS = 3.0  # processor time of a case
WALL = 45.0  # and time on the clock, where a process waits
MEMORY = 2**30  # bytes that a case may ask for beyond what the test process holds
FINE, CLEAR, UNCLEAR, NONSENSE = "fine", "clear error", "unclear error", "nonsense accepted"
WRONG, HANG, CHARGED, MODIFIED = "nan or wrong", "hang or memory", "charged and failed", "modified"
VERDICTS = (FINE, CLEAR, UNCLEAR, NONSENSE, WRONG, HANG, CHARGED, MODIFIED)
OFFENCES = (UNCLEAR, NONSENSE, WRONG, HANG, CHARGED, MODIFIED)


@dataclass(frozen=True)
class Case:
    """One call with one changed argument, and what came of it."""

    target: str
    argument: str
    kind: str
    verdict: str
    detail: str
    test: str = ""
    reason: str = ""  # why an offence is none, from the list of allowed ones

    @property
    def group(self) -> str:
        """First-level module."""
        return self.target.split(".")[0]

    def as_dict(self) -> dict[str, str]:
        """For a line of JSON."""
        return asdict(self)


# --- looking at values ----------------------------------------------------------------------------


def numbers(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All numbers and words in a result, each with the path that leads to it."""
    if isinstance(value, bool | int | float | np.generic):
        yield path, np.asarray(value)
    elif isinstance(value, str | bytes) or value is None:
        yield path, value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fiubc":
            yield path, value
    elif isinstance(value, pd.DataFrame | pd.Series):
        table = value.to_frame() if isinstance(value, pd.Series) else value
        for column in table.select_dtypes("number"):
            yield f"{path}[{column}]", table[column].to_numpy()
    elif depth > 4:
        return
    elif isinstance(value, dict):
        for key, item in itertools.islice(value.items(), 200):
            yield from numbers(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        names = getattr(value, "_fields", None)
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        for i, item in enumerate(itertools.islice(items, 200)):
            yield from numbers(item, f"{path}.{names[i]}" if names else f"{path}[]", depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if not field.name.startswith("_"):
                yield from numbers(
                    getattr(value, field.name, None), f"{path}.{field.name}", depth + 1
                )


def not_finite(result: list[tuple[str, Any]]) -> set[str]:
    """Paths at which a result holds nan or infinity."""
    return {
        f"{path}:{'nan' if np.isnan(array).any() else 'inf'}"
        for path, array in result
        if isinstance(array, np.ndarray)
        and array.dtype.kind in "fc"
        and not np.isfinite(array).all()
    }


def equal(one: list[tuple[str, Any]], other: list[tuple[str, Any]]) -> bool:
    """Whether two results are the same up to rounding."""
    if [p for p, _ in one] != [p for p, _ in other]:
        return False
    for (_, a), (_, b) in zip(one, other, strict=True):
        if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
            return False
        if not isinstance(a, np.ndarray):
            if a != b:
                return False
        elif a.shape != b.shape or not np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True):
            return False
    return True


def fingerprint(value: Any, depth: int = 0) -> str:
    """A digest of plain data (arrays, tables, lists, dictionaries) that a caller hands over."""
    if isinstance(value, np.ndarray):
        raw = repr(value.tolist()).encode() if value.dtype.kind == "O" else value.tobytes()
        return hashlib.sha1(raw + str((value.shape, value.dtype)).encode()).hexdigest()
    if isinstance(value, pd.DataFrame | pd.Series):
        return hashlib.sha1(pickle.dumps(value)).hexdigest()
    if isinstance(value, list) and len(value) > 50 and depth == 0:
        with contextlib.suppress(Exception):  # items that cannot be pickled are looked at below
            return hashlib.sha1(pickle.dumps(value)).hexdigest()
    if isinstance(value, list | tuple) and depth < 4:
        return f"{len(value)}:" + ",".join(fingerprint(v, depth + 1) for v in value)
    if isinstance(value, dict) and depth < 4:
        return ",".join(f"{k!r}={fingerprint(v, depth + 1)}" for k, v in value.items())
    return (
        repr(value) if isinstance(value, int | float | str | bytes | None) else type(value).__name__
    )


def ledgers(*roots: Any) -> list[Any]:
    """The privacy ledgers that can be reached from some objects."""
    found, seen, queue = [], set(), [(root, 0) for root in roots]
    while queue and len(seen) < 5000:
        value, depth = queue.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | np.ndarray | type):
            continue
        seen.add(id(value))
        if type(value).__name__ == "PrivacyLedger":
            found.append(value)
            continue
        if depth > 6:
            continue
        inside: list[Any] = []
        if isinstance(value, dict):
            inside = list(value.values())[:50]
        elif isinstance(value, list | tuple):
            inside = list(value)[:50]
        elif type(value).__module__.startswith((PACKAGE, "tests", "test_", "tools")):
            inside = list(getattr(value, "__dict__", {}).values())
        else:
            inside = _closure(value)
        queue += [(item, depth + 1) for item in inside]
    return found


def is_stateful(call: Call) -> bool:
    """Whether a call may leave something behind in an object of the package."""
    return any(
        type(value).__module__.startswith((PACKAGE, "tests", "test_", "tools"))
        and not getattr(getattr(value, "__dataclass_params__", None), "frozen", False)
        or any(isinstance(content, _MUTABLE) for content in _closure(value))
        for value in call.reachable
    ) or bool(ledgers(*call.reachable))


_MUTABLE = (list, dict, set, np.random.Generator)


def _closure(value: Any) -> list[Any]:
    """What a function keeps from where it was made."""
    cells = (value.__closure__ or ()) if inspect.isfunction(value) else ()
    return [cell.cell_contents for cell in cells if _filled(cell)]


def generators(*roots: Any) -> list[np.random.Generator]:
    """The random generators among some values."""
    found = [r for r in roots if isinstance(r, np.random.Generator)]
    for root in roots:
        if isinstance(root, list | tuple):
            found += [r for r in root if isinstance(r, np.random.Generator)]
        elif isinstance(root, dict):
            found += [r for r in root.values() if isinstance(r, np.random.Generator)]
    return found


def with_own_generators(value: Any) -> Any:
    """The value with copies of its random generators, which also count what they `spawn`."""
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value)
    if not generators(value):
        return value
    if isinstance(value, dict):
        return {key: with_own_generators(item) for key, item in value.items()}
    return type(value)(map(with_own_generators, value))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def lines_of(found: list[Any]) -> list[int]:
    """How many releases each ledger holds."""
    return [len(ledger.releases) for ledger in found]


def names_an_argument(message: str, names: list[str]) -> bool:
    """Whether a message says which argument of the call it is about."""
    for name in names:
        word = re.escape(name)
        if len(name) > 2 and re.search(rf"(?<![\w.]){word}(?!\w)", message):
            return True
        if re.search(rf"^{word}\b|['\"`]{word}['\"`]", message):  # "k must", "'k'"
            return True
    return False


def _is_factory(parameter: inspect.Parameter) -> bool:
    """Whether the default is made by a dataclass each time."""
    return type(parameter.default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS"


# --- one case -------------------------------------------------------------------------------------


@dataclass
class Call:
    """A recorded call: the bound arguments, by name."""

    target: Target
    arguments: inspect.BoundArguments

    def names(self) -> list[str]:
        """Names that a message may use: the parameters and the keywords of ``**kwargs``."""
        own = [p for p in self.target.signature.parameters if p != "self"]
        # an estimator's settings: scikit-learn has `fit` check what the constructor was given
        bound = next(iter(self.arguments.arguments.values()), None) if self.target.bound else None
        estimator = hasattr(bound, "get_params") and not inspect.isclass(bound)
        settings = bound.get_params(deep=False) if estimator else ()
        return own + [k for k in (*self._options(), *settings) if k not in own]

    def _options(self) -> dict[str, Any]:
        for name, parameter in self.target.signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                return dict(self.arguments.arguments.get(name, {}))
        return {}

    def values(self) -> Iterator[tuple[str, Any, inspect.Parameter | None]]:
        """Every argument that can be changed: name, value, parameter (None in ``**kwargs``)."""
        for i, (name, parameter) in enumerate(self.target.signature.parameters.items()):
            if (i == 0 and (self.target.bound or name in ("self", "cls"))) or name[0] == "_":
                continue
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                continue
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                for key, value in self._options().items():
                    yield key, value, None
            elif name in self.arguments.arguments:
                yield name, self.arguments.arguments[name], parameter
            elif parameter.default is not inspect.Parameter.empty and not _is_factory(parameter):
                yield name, parameter.default, parameter

    def __call__(self, name: str | None = None, value: Any = None) -> Any:
        """Make the call, with `value` as the argument `name`."""
        arguments = inspect.BoundArguments(
            self.target.signature,
            dict(self.arguments.arguments),  # type: ignore[arg-type]
        )
        if name is not None:
            parameter = self.target.signature.parameters.get(name)
            if parameter is None or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                options = next(
                    (n for n, p in self.target.signature.parameters.items()
                     if p.kind is inspect.Parameter.VAR_KEYWORD), None,
                )  # fmt: skip
                if options is None:
                    return self.target.call(*arguments.args, **{**arguments.kwargs, name: value})
                arguments.arguments[options] = {**arguments.arguments.get(options, {}), name: value}
            else:
                arguments.arguments[name] = value
        if inspect.isclass(self.target.call):
            # the signature is that of __init__
            return self.target.call(*arguments.args[1:], **arguments.kwargs)
        return self.target.call(*arguments.args, **arguments.kwargs)

    @property
    def reachable(self) -> list[Any]:
        """Objects from which a ledger may be reached."""
        return list(self.arguments.arguments.values())


def _finished(result: Any) -> Any:
    """A lazy result is asked for its first values: a generator does nothing before."""
    if inspect.isgenerator(result) or type(result) in (map, filter, zip):
        return list(itertools.islice(result, 20))
    return result


def observe(call: Call, name: str | None, change: Change | None) -> dict[str, Any]:
    """Make the call here and now; what happened as plain data."""
    value = None if change is None else change.value
    # the next case in this process draws the same
    own = {n: with_own_generators(v) for n, v in call.arguments.arguments.items()}
    call = Call(call.target, inspect.BoundArguments(call.target.signature, own))  # type: ignore[arg-type]
    given = [*call.arguments.arguments.values(), value]
    before = [fingerprint(v) for v in given]
    found = ledgers(*call.reachable, value)
    lines = lines_of(found)
    out: dict[str, Any] = {"error": None, "result": [], "charged": False, "modified": []}
    warnings.simplefilter("ignore")
    try:
        result = _finished(call(name, value))
    except MemoryError:
        out["error"] = ("MemoryError", "", False)
    except RecursionError:
        out["error"] = ("RecursionError", "", False)
    except BaseException as error:  # noqa: BLE001 - whatever comes is the finding
        own = any(c.__module__.startswith(PACKAGE) for c in type(error).__mro__)
        out["error"] = (type(error).__name__, str(error)[:400], own,
                        isinstance(error, TypeError | ValueError), isinstance(error, OSError),
                        isinstance(error, ImportError))  # fmt: skip
    else:
        out["result"] = list(itertools.islice(numbers(result), 2000))
    out["charged"] = any(a > b for a, b in zip(lines_of(found), lines, strict=True))
    out["modified"] = [i for i, v in enumerate(given) if fingerprint(v) != before[i]]
    return out


def judge(
    call: Call, argument: str, change: Change, baseline: dict[str, Any], found: dict[str, Any],
    *, stable: bool,
) -> tuple[str, str]:  # fmt: skip
    """The verdict on what `observe` found, and the reason in a few words."""
    error = found["error"]
    if error is not None:
        text = f"{error[0]}: {error[1]}"
        if error[0] in ("MemoryError", "RecursionError"):
            return HANG, error[0]
        if found["charged"]:
            return CHARGED, text
        if found["modified"]:
            return MODIFIED, text
        own, checked, system, extra = error[2:]
        if own or extra or (system and not checked):
            return CLEAR, text
        if checked and names_an_argument(error[1], [*call.names(), argument]):
            return CLEAR, text
        return UNCLEAR, text
    if set(found["modified"]) - set(baseline["modified"]):
        return MODIFIED, "an argument was changed"
    new = not_finite(found["result"]) - not_finite(baseline["result"])
    if change.expected == "refused":
        return NONSENSE, f"accepted {_short(change.value)}" + (
            f", gave {sorted(new)}" if new else ""
        )
    if new and change.finite:
        return WRONG, f"gave {', '.join(sorted(new))}"
    if change.expected == "same" and stable and not equal(found["result"], baseline["result"]):
        return WRONG, "another result for the same value in another form"
    return FINE, ""


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) < 60 else f"{type(value).__name__} {text[:50]}..."


# --- processes ------------------------------------------------------------------------------------


def in_child(
    work: Callable[[], dict[str, Any]], *, seconds: float = SECONDS, memory: int = MEMORY
) -> tuple[str, dict[str, Any] | None]:
    """Run `work` in a fork with limits; "" and what it returned, or why it did not end."""
    return in_children([work], seconds=seconds, memory=memory)[0]


def in_children(
    works: Sequence[Callable[[], dict[str, Any]]],
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    batch: int = 1,
) -> list[tuple[str, dict[str, Any] | None]]:
    """Run each of `works` with limits of its own, `batch` of them in one fork after the other.

    A fork that is ended by one of them, or in which one of them changed an argument, runs no more.
    """
    out: list[tuple[str, dict[str, Any] | None]] = []
    while len(out) < len(works):
        out += _one_fork(works[len(out) : len(out) + batch], seconds, memory)
    return out


def _one_fork(
    works: Sequence[Callable[[], dict[str, Any]]], seconds: float, memory: int
) -> list[tuple[str, dict[str, Any] | None]]:
    reading, writing = os.pipe()
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _limit(own, seconds * len(works), memory)
            for work in works:
                signal.setitimer(signal.ITIMER_PROF, seconds)
                found = work()
                signal.setitimer(signal.ITIMER_PROF, 0)
                content = pickle.dumps(found)
                _write_all(writing, len(content).to_bytes(8, "big") + content)
                if found.get("modified"):
                    break
        finally:
            os._exit(0)
    os.close(writing)
    raw, why = _read_all(reading, pid)
    os.close(reading)
    status = os.waitpid(pid, 0)[1]
    out: list[tuple[str, dict[str, Any] | None]] = []
    while len(raw) >= 8 and len(raw) >= 8 + (size := int.from_bytes(raw[:8], "big")):
        out.append(("", pickle.loads(raw[8 : 8 + size])))
        raw = raw[8 + size :]
    if os.WIFSIGNALED(status) and not why:
        number = os.WTERMSIG(status)
        slow = number in (signal.SIGPROF, signal.SIGXCPU)
        why = f"more than {seconds:g} s" if slow else f"ended by signal {number}"
    if why or not out:
        out.append((why or "ended without an answer (memory?)", None))
    return out[: len(works)]


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _read_all(descriptor: int, pid: int) -> tuple[bytes, str]:
    """All that comes through a pipe; a child that is silent for too long is ended."""
    chunks: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], WALL)[0]:
            os.kill(pid, signal.SIGKILL)
            return b"".join(chunks), f"more than {WALL:g} s on the clock"
        chunk = os.read(descriptor, 1 << 20)
        if not chunk:
            return b"".join(chunks), ""
        chunks.append(chunk)


def _limit(parent: int, seconds: float, memory: int) -> None:
    """Limits of a child. What it does is seen by nobody else, so it may pass for its parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    builtins.input = lambda *_: (_ for _ in ()).throw(EOFError())  # type: ignore[assignment]
    sys.setrecursionlimit(2000)
    gc.disable()
    os.getpid = lambda: parent  # objects that refuse to be used after a fork: theirs is no other
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + 1, math.ceil(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        limit = _address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    np.seterr(all="ignore")


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def unexpected() -> tuple[str, Change]:
    """An argument that no call knows."""
    return "no_such_argument", Change("unknown argument", Stranger(), "refused")
