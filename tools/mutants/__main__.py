"""`make mutants`: apply every mutant to a copy, run its tests, and say which test notices.

    python -m tools.mutants                    all of mutants.txt, and others drawn by chance
    python -m tools.mutants --only NAME ...    some of them (a prefix will do)
    python -m tools.mutants --every-test       go on after the first failing test, and list them all
    python -m tools.mutants --each 0           those of mutants.txt alone; 30: more by chance (4)
    python -m tools.mutants --seed 1           others by chance

Ends with 1 if a mutant survives, if an edit no longer fits, or if a test fails without a mutant.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tools.mutants.catalogue import Mutant, mutants
from tools.mutants.mechanical import drawn
from tools.mutants.runner import KILLED, SURVIVED, Outcome, run


def unchanged(chosen: Sequence[Mutant]) -> list[Mutant]:
    """The tests of all `chosen`, to be run on the package as it is: all of them must pass."""
    sets = dict.fromkeys(m.tests if m.tests[0] == "-m" else ("by name",) for m in chosen)
    named = dict.fromkeys(t for m in chosen if m.tests[0] != "-m" for t in m.tests)
    groups = [tuple(named) if tests == ("by name",) else tests for tests in sets]
    return [Mutant("nothing changed", "tests pass", (), tests) for tests in groups]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[""])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every-test", action="store_true")
    parser.add_argument("--each", type=int, default=4, help="by chance, in each guard module")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    thought, by_chance = (
        [m for m in found if m.name.startswith(tuple(options.only))]
        for found in (mutants(), drawn(options.each, options.seed))
    )
    if not thought and not by_chance:
        parser.error(f"no mutant is called {', '.join(options.only)}")
    start = time.monotonic()

    def report(outcome: Outcome) -> None:
        if outcome.mutant.edits:
            print(outcome, flush=True)
            if options.every_test:
                for test in dict.fromkeys(test.partition("[")[0] for test in outcome.failed):
                    print(f"{'':10}{test}")

    def outcomes(chosen: Sequence[Mutant], limit: float) -> list[Outcome]:
        first = not options.every_test
        return run(chosen, jobs=options.jobs, first=first, limit=limit, report=report)

    base = outcomes(unchanged([*thought, *by_chance]), 900.0)
    wrong = [o for o in base if o.verdict != SURVIVED]
    wrong += [o for o in outcomes(thought, 120.0) if o.verdict != KILLED]
    wrong += [o for o in outcomes(by_chance, 300.0) if o.verdict == SURVIVED]
    print(f"{len(thought)} mutants of mutants.txt, {len(by_chance)} by chance", end=", ")
    print(f"{len(wrong)} not noticed ({time.monotonic() - start:.0f} s)")
    for outcome in wrong:
        print(outcome, *outcome.failed)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
