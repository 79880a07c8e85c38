"""`make sweep`: change one argument at a time of every public callable, and see what happens.

    python -m tools.sweep                      the whole library; writes data/results/sweep.csv
    python -m tools.sweep --only accounting    callables whose name starts so; writes no table
    python -m tools.sweep --sample 500         about as many cases, drawn at random (--seed)
    python -m tools.sweep --show VERDICT       offences of the last run: hang, nan ...
    python -m tools.sweep --index [FILE ...]   note anew which tests (of these files) call what

Ends with 1 where the goal is missed (see `tools.sweep.goal`) by a case that `known.txt` does not
list. That file is written by a run over the whole library: it should shrink, never grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.sweep import goal
from tools.sweep.judge import OFFENCES, VERDICTS, Case
from tools.sweep.recorder import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "tools" / "sweep" / "calls.json"
FOUND = ROOT / ".cache" / "sweep.jsonl"
KNOWN = ROOT / "tools" / "sweep" / "known.txt"
TABLE = ROOT / "data" / "results" / "sweep.csv"
TESTS_PER_TARGET = 1


# --- running tests --------------------------------------------------------------------------------


def _pytest(setting: dict[str, Any], tests: Sequence[str], folder: Path, name: str) -> Any:
    """Start pytest with the recorder; the process."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(setting), encoding="utf-8")
    environment = dict(os.environ)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[variable] = "1"
    environment |= {ENVIRONMENT: str(path), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.sweep.recorder"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--tb=line"]
    command += ["--continue-on-collection-errors"]
    command += ["-m", "not thorough and not browser"] if setting["mode"] == "index" else []
    log = (folder / f"{name}.log").open("w", encoding="utf-8")
    return subprocess.Popen(
        [*command, *tests], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
    )


def _wait(processes: list[Any], folder: Path) -> list[str]:
    """The lines of tests that failed."""
    failed: list[str] = []
    for i, process in enumerate(processes):
        process.wait()
        text = (folder / f"{i}.log").read_text(encoding="utf-8")
        if process.returncode not in (0, 1, 2):
            raise SystemExit(f"the tests did not run:\n{text[-3000:]}")
        failed += [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed


def _spread(costs: dict[str, float], jobs: int) -> list[list[str]]:
    """Divide names over jobs, the expensive ones first; names of one file stay together."""
    files: dict[str, float] = {}
    for name, cost in costs.items():
        files[name.split("::")[0]] = files.get(name.split("::")[0], 0.0) + cost
    loads, where = [0.0] * jobs, {}
    for file, cost in sorted(files.items(), key=lambda item: -item[1]):
        where[file] = loads.index(min(loads))
        loads[where[file]] += cost
    parts: list[list[str]] = [[] for _ in range(jobs)]
    for name in costs:
        parts[where[name.split("::")[0]]].append(name)
    return [part for part in parts if part]


# --- which tests call what ------------------------------------------------------------------------


def make_index(jobs: int, words: Sequence[str]) -> dict[str, list[str]]:
    """Run the quick tests, and choose for every target a few cheap ones that call it.

    With `words` only the files whose name holds one of them are run, and what other files were
    found to call before is kept.
    """
    files = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py"))
    files = [f for f in files if not words or any(word in f for word in words)]
    skipped = ("tests/house/", "tests/browser/", "figures", "widgets")
    files = [f for f in files if not any(word in f for word in skipped)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = _spread({f: float((ROOT / f).stat().st_size) for f in files}, jobs)
        settings = [{"mode": "index", "out": str(folder / f"{i}.out")} for i in range(len(parts))]
        started = [
            _pytest(setting, part, folder, str(i))
            for i, (setting, part) in enumerate(zip(settings, parts, strict=True))
        ]
        _wait(started, folder)
        noted = [json.loads(Path(s["out"]).read_text(encoding="utf-8")) for s in settings]
    targets = sorted({t for n in noted for t in n["targets"]})
    seconds = {t: s for n in noted for t, s in n["seconds"].items()}
    patched = {t for n in noted for t in n["patched"]}  # what is put in may check nothing
    chosen: set[str] = set()
    index: dict[str, list[str]] = {}
    before = json.loads(INDEX.read_text(encoding="utf-8")) if words and INDEX.exists() else {}
    for target in targets:
        calls = {t: d for n in noted for t, d in n["calls"].get(target, {}).items()}

        def price(test: str, calls: dict[str, bool] = calls) -> tuple[bool, bool, float, str]:
            return (
                test in patched,
                not calls[test],
                0.0 if test in chosen else seconds.get(test, 1e9),
                test,
            )

        tests = [t for t in before.get(target, ()) if t.split("::")[0] not in files]
        for test in sorted(calls, key=price):
            if len(tests) >= TESTS_PER_TARGET:
                break
            functions = {t.partition("[")[0] for t in tests}
            if test.partition("[")[0] not in functions and seconds.get(test, 1e9) < 1e8:
                tests.append(test)
        chosen.update(tests)
        index[target] = tests
    return index


# --- the sweep ------------------------------------------------------------------------------------


def sweep(
    wanted: dict[str, list[str]], *, jobs: int, share: float = 1.0, seed: int = 0
) -> tuple[list[Case], list[str]]:
    """Run the tests of the wanted targets with the recorder: what it found, which tests failed."""
    costs: Counter[str] = Counter()
    for tests in wanted.values():
        for test in tests:
            costs[test] += 0.3 + 0.5 * share
    parts = _spread(dict(costs), jobs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = []
        for i, part in enumerate(parts):
            mine = {t: [n for n in tests if n in set(part)] for t, tests in wanted.items()}
            setting = {"mode": "sweep", "out": str(folder / f"{i}.out"), "share": share,
                       "seed": seed, "wanted": {t: n for t, n in mine.items() if n}}  # fmt: skip
            started.append(_pytest(setting, part, folder, str(i)))
        failed = _wait(started, folder)
        lines = [
            line
            for i in range(len(parts))
            for line in (folder / f"{i}.out").read_text(encoding="utf-8").splitlines()
        ]
    cases = [Case(**json.loads(line)) for line in lines]
    return sorted(cases, key=lambda c: (c.target, c.argument, c.kind)), failed


def table(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """One row for each module: callables, cases, and how many came to which verdict."""
    rows = []
    groups = sorted({c.group for c in cases})
    for group in [*groups, "all"]:
        own = [c for c in cases if group in ("all", c.group)]
        count = Counter(FINE_IF_ALLOWED if c.reason else c.verdict for c in own)
        row: dict[str, Any] = {"module": group, "callables": len({c.target for c in own}),
                               "cases": len(own)}  # fmt: skip
        row |= {verdict: count[verdict] for verdict in VERDICTS}
        rows.append(row | {FINE_IF_ALLOWED: count[FINE_IF_ALLOWED]})
    return rows


FINE_IF_ALLOWED = "allowed, with a reason"


def write_table(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the table; its first line says how it was made."""
    lines = [",".join(rows[0])]
    lines += [",".join(str(v) if "," not in str(v) else f'"{v}"' for v in r.values()) for r in rows]
    lines[0] = lines[0].replace(FINE_IF_ALLOWED, "allowed")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """The table for people."""
    head = [key.split(",")[0] for key in rows[0]]
    widths = [max(len(h), *(len(str(v)) for v in column)) for h, column in
              zip(head, zip(*(r.values() for r in rows), strict=True), strict=True)]  # fmt: skip
    for line in [head, *(list(r.values()) for r in rows)]:
        print("  ".join(f"{v!s:>{w}}" for v, w in zip(line, widths, strict=True)))


def key(case: Case) -> str:
    """By which an offence that is known is recognised."""
    return f"{case.target}({case.argument}: {case.kind}) {case.verdict}"


def show(cases: Sequence[Case], verdict: str) -> None:
    """Print the offences of one verdict, those that speak of the same thing together."""
    found = [c for c in cases if c.verdict.startswith(verdict) and not c.reason]
    for case in found:
        print(f"{case.target}({case.argument}: {case.kind})  {case.detail}  [{case.test}]")
    print(f"{len(found)} cases")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.sweep", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", metavar="VERDICT")
    parser.add_argument("--index", nargs="*", metavar="FILE")
    parser.add_argument("--all", action="store_true", help="list every offence after the table")
    arguments = parser.parse_args(argv)
    if arguments.show:
        lines = FOUND.read_text(encoding="utf-8").splitlines()
        cases = [Case(**json.loads(line)) for line in lines]
        if arguments.only:
            cases = [c for c in cases if c.target.startswith(tuple(arguments.only))]
        show(cases, arguments.show)
        return 0
    if arguments.index is not None:
        index = make_index(arguments.jobs, arguments.index)
        INDEX.write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        silent = [t for t, tests in index.items() if not tests]
        print(f"{len(index)} callables, {len({t for n in index.values() for t in n})} tests")
        print(f"never called by a quick test: {', '.join(silent) or 'none'}")
        return 0
    started = time.monotonic()
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    wanted = {t: n for t, n in index.items() if n}
    if arguments.only:
        wanted = {t: n for t, n in wanted.items() if t.startswith(tuple(arguments.only))}
    share = 1.0
    if arguments.sample:
        wanted, share = goal.sample(wanted, arguments.sample, arguments.seed)
    cases, failed = sweep(wanted, jobs=arguments.jobs, share=share, seed=arguments.seed)
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text("".join(json.dumps(c.as_dict()) + "\n" for c in cases), encoding="utf-8")
    rows = table(cases)
    print_table(rows)
    whole = not arguments.only and not arguments.sample
    if whole:
        write_table(rows, TABLE)
    open_cases = [c for c in cases if goal.misses(c)]
    if whole:
        KNOWN.write_text("".join(f"{k}\n" for k in sorted({key(c) for c in open_cases})),
                         encoding="utf-8")  # fmt: skip
    known = set(KNOWN.read_text(encoding="utf-8").splitlines()) if KNOWN.exists() else set()
    missed = [c for c in open_cases if key(c) not in known]
    print(
        f"{len(cases)} cases in {time.monotonic() - started:.0f} s: {len(missed)} miss the goal,"
        f" and {len(open_cases) - len(missed)} that are known to"
    )
    for case in missed if arguments.all else missed[:40]:
        print(f"{case.verdict}: {case.target}({case.argument}: {case.kind})  {case.detail}")
    for line in failed:
        print(f"a recorded test failed: {line}")
    swept = {c.target for c in cases}
    lost = sorted(set(wanted) - swept) if share == 1.0 else []
    if lost:
        print(f"no valid call was recorded of: {', '.join(lost)}")
    return 1 if missed or failed or (lost and not arguments.only) else 0


assert set(OFFENCES) < set(VERDICTS)

if __name__ == "__main__":
    sys.exit(main())
