"""`make mutants`: apply every mutant to a copy, run its tests, and say which test notices.

    python -m tools.mutants                    all of them, after the same tests without any change
    python -m tools.mutants --list             names and what each breaks
    python -m tools.mutants --only NAME ...    some of them (a prefix will do)
    python -m tools.mutants --quick            the ten that `make test-all` runs
    python -m tools.mutants --sample 10        ten drawn at random (--seed)
    python -m tools.mutants --every-test       go on after the first failing test, and list them all

Ends with 1 if a mutant survives, if a patch no longer applies, or if a test fails without a mutant.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import numpy as np

from tools.mutants.base import Mutant
from tools.mutants.catalogue import MUTANTS
from tools.mutants.runner import KILLED, SURVIVED, Outcome, run, unchanged


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for."""
    found = list(MUTANTS)
    if arguments.only:
        unknown = [n for n in arguments.only if not any(m.name.startswith(n) for m in found)]
        if unknown:
            raise SystemExit(f"no mutant is called {', '.join(unknown)}; see --list")
        found = [m for m in found if any(m.name.startswith(n) for n in arguments.only)]
    if arguments.quick:
        found = [m for m in found if m.quick]
    if arguments.sample is not None and arguments.sample < len(found):
        rng = np.random.default_rng(arguments.seed)
        drawn = sorted(rng.choice(len(found), arguments.sample, replace=False))
        found = [found[i] for i in drawn]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every-test", action="store_true")
    parser.add_argument("--no-baseline", action="store_true", help="trust the tests as they are")
    arguments = parser.parse_args(argv)
    mutants = chosen(arguments)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:<44} {'quick ' if mutant.quick else '      '}{mutant.breaks}")
        return 0

    started = time.monotonic()

    def report(outcome: Outcome) -> None:
        if outcome.mutant.edits:
            print(outcome, flush=True)
            if arguments.every_test:
                for test in dict.fromkeys(test.partition("[")[0] for test in outcome.failed):
                    print(f"{'':63}{test}")

    tasks = [*mutants] if arguments.no_baseline else [unchanged(mutants), *mutants]
    outcomes = run(tasks, jobs=arguments.jobs, first=not arguments.every_test, report=report)
    wrong = [o for o in outcomes if o.mutant.edits and o.verdict != KILLED]
    baseline = [o for o in outcomes if not o.mutant.edits and o.verdict != SURVIVED]
    for outcome in baseline:
        print(f"without any mutant: {outcome.detail} {' '.join(outcome.failed)}")
    print(
        f"{len(mutants)} mutants, {len(mutants) - len(wrong)} killed"
        f" ({time.monotonic() - started:.0f} s)"
    )
    for outcome in wrong:
        print(f"{outcome.verdict}: {outcome.mutant.name}: {outcome.detail}")
    return 1 if wrong or baseline else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
