"""Command line: ``python -m fedclust_helpers.studies --table all --jobs 2``."""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import replace
from pathlib import Path

from fedclust_helpers.studies.bench.runner import (
    PartialTableError,
    results_folder,
    run_table,
)
from fedclust_helpers.studies.fastlloyd.cells import MAX_RUNS
from fedclust_helpers.studies.fastlloyd.tables import QUICK, TABLES, Design
from fedclust_helpers.studies.page import write_claims


def main(arguments: list[str] | None = None) -> None:
    """Make the result tables."""
    parser = argparse.ArgumentParser(
        prog="python -m fedclust_helpers.studies",
        description="Make the result tables under data/results. Interrupted work is resumed.",
    )
    parser.add_argument("--table", choices=("all", *TABLES), default="all")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--runs", type=int, help="repetitions of every cell, instead of the design")
    parser.add_argument("--out", type=Path, help="folder (default data/results)")
    parser.add_argument("--quick", action="store_true", help="tiny tables; needs --out")
    parser.add_argument(
        "--claims", action="store_true", help="check all claims again and write their pages only"
    )
    options = parser.parse_args(arguments)
    if options.claims:
        for path in write_claims(options.out):
            print(f"wrote {path.name}")
        return
    if options.quick and options.out is None:
        parser.error("--quick needs --out: it must not replace the committed tables")
    if options.runs is not None and not 2 <= options.runs <= MAX_RUNS:
        parser.error(f"--runs must be at least 2 and at most {MAX_RUNS}")
    if not 1 <= options.jobs <= 1024:
        parser.error("--jobs must be between 1 and 1024")
    design = QUICK if options.quick else Design()
    if options.runs is not None:
        design = replace(design, runs=options.runs)
    folder = results_folder() if options.out is None else options.out
    for name in TABLES if options.table == "all" else (options.table,):
        extra = TABLES[name].extra
        if options.table == "all" and extra and importlib.util.find_spec(extra) is None:
            print(f"left out {name}: {extra} is not installed")
            continue
        try:
            written = run_table(name, folder, design=design, n_jobs=options.jobs, progress=True)
        except PartialTableError as error:
            parser.exit(1, f"{parser.prog}: {error}\n")
        for path in written:
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
