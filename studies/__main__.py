"""Command line: ``python -m studies --table all --jobs 2``."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np

from studies import (
    RESULTS,
    TABLES,
    PartialTableError,
    remake,
    run_table,
    write_claims,
)
from studies.bench.cell import MAX_RUNS, Table
from studies.bench.rows import report, spread
from studies.page import moved_verdicts


def main(arguments: list[str] | None = None) -> None:
    """Make the result tables, or single rows of one."""
    parser = argparse.ArgumentParser(
        prog="python -m studies",
        description="Make the result tables under data/results. Interrupted work is resumed.",
    )
    parser.add_argument("--table", choices=("all", *TABLES), default="all")
    parser.add_argument(
        "--row", nargs="+", action="extend", metavar="KEY=VALUE",
        help="measure the rows with these settings again and compare them with the stored ones",
    )  # fmt: skip
    parser.add_argument(
        "--check", type=int, metavar="N",
        help="measure rows drawn at random again, N for every method, data set and other word among"
        " the settings, and grade all claims again: numbers stay in their intervals, verdicts as"
        " they are",
    )  # fmt: skip
    parser.add_argument("--draw", type=int, default=0, help="which rows --check draws (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--runs", type=int, help="repetitions of every cell, instead of the design")
    parser.add_argument("--out", type=Path, help="folder (default data/results)")
    parser.add_argument(
        "--design", choices=("full", "quick"), default="full",
        help="quick: tiny tables in minutes; needs --out",
    )  # fmt: skip
    parser.add_argument(
        "--claims", action="store_true", help="check all claims again and write their pages only"
    )
    options = parser.parse_args(arguments)
    if options.claims:
        for path in write_claims(options.out):
            print(f"wrote {path.name}")
        return
    if options.design == "quick" and options.out is None:
        parser.error("--design quick needs --out: it must not replace the committed tables")
    if options.runs is not None and not 2 <= options.runs <= MAX_RUNS:
        parser.error(f"--runs must be at least 2 and at most {MAX_RUNS}")
    if not 1 <= options.jobs <= 1024:
        parser.error("--jobs must be between 1 and 1024")
    folder = RESULTS if options.out is None else options.out
    if options.check is not None:
        if options.check < 1 or options.draw < 0:
            parser.error("--check must be at least 1, --draw at least 0")
        _check(parser, options, folder)
        return
    if options.row:
        _rows(parser, options.table, options.row, folder, options.design)
        return
    try:
        _tables(options, folder)
    except (PartialTableError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _asked(options: argparse.Namespace) -> Iterator[tuple[str, Table]]:
    """All tables, or the one that was asked for."""
    for name, table in TABLES.items():
        if options.table not in ("all", name):
            continue
        if options.table == "all" and table.extra and not importlib.util.find_spec(table.extra):
            print(f"left out {name}: {table.extra} is not installed")
            continue
        yield name, table


def _tables(options: argparse.Namespace, folder: Path) -> None:
    """Make the tables that were asked for."""
    for _, table in _asked(options):
        design = table.quick if options.design == "quick" else table.design
        if options.runs is not None:
            design = replace(design, runs=options.runs)
        made = run_table(table, folder, design=design, n_jobs=options.jobs, progress=True)
        for path in made:
            print(f"wrote {path.name}")


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, folder: Path) -> None:
    """Draw rows of the tables, measure them again, print what differs; grade all claims again.

    Status 2 if a number is outside of its interval or a verdict is another. Digits alone are not
    portable: processors round differently.
    """
    moved = 0
    for name, table in _asked(options):
        design = table.quick if options.design == "quick" else table.design
        rng = np.random.default_rng([options.draw, *name.encode()])
        rows = spread(table, rng=rng, n_each=options.check, design=design)
        jobs = [joblib.delayed(remake)(table, row, folder, design=design) for row in rows]
        made = [each for one in joblib.Parallel(options.jobs)(jobs) for each in one]
        found = [line for each in made for line in each.differences]
        beyond = [line for each in made for line in each.beyond]
        n_rows = sum(len(each.names) for each in made)
        print(f"{name}: {n_rows} rows, {len(found)} numbers differ, {len(beyond)} of them beyond"
              " their interval", *beyond, sep="\n  ", flush=True)  # fmt: skip
        moved += len(beyond)
    if options.table == "all":
        verdicts = moved_verdicts()
        print(f"claims: {len(verdicts)} verdicts differ", *verdicts, sep="\n  ")
        moved += len(verdicts)
    if moved:
        parser.exit(2)


def _rows(
    parser: argparse.ArgumentParser, name: str, pairs: list[str], folder: Path, design: str
) -> None:
    """Print rows as stored and recomputed; status 2 if digits differ."""
    if name == "all":
        parser.error("--row needs --table")
    if not all("=" in pair for pair in pairs):
        parser.error("--row takes KEY=VALUE, for example dataset=iris method=lloyd")
    wanted = dict(pair.split("=", 1) for pair in pairs)
    table = TABLES[name]
    try:
        made = remake(
            table, wanted, folder, design=table.quick if design == "quick" else table.design
        )
    except (ValueError, FileNotFoundError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    for each in made:
        print(report(each))
    differ = sum(len(each.differences) for each in made)
    print(f"{differ} numbers differ" if differ else "all digits agree")
    if differ:
        parser.exit(2)


if __name__ == "__main__":
    main()
