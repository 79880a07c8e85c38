"""`make rivals`: run what people use today on our data, and write data/results/rivals*.csv.

    GOOGLE_DP_CLUSTERING=/path DPM_CLUSTERING=/path python -m tools.rivals     all (an hour)
    python -m tools.rivals --only pe_means                  one method: its rows replace the old
    python -m tools.rivals --design quick --out FOLDER      tiny

Each rival gets an environment of its own (made once, under --environments). None of their code is
in this repository. Google's clustering and DPM are in no index: name copies of their folders.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from studies.bench.results import RESULTS
from studies.bench.runner import as_csv, as_json, run_table
from tools.rivals import tables
from tools.rivals.environments import RivalUnavailableError

Record = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]


def told(folder: Path, name: str, only: Sequence[str] = ()) -> Record:
    """Complete the provenance of a table: its command, and versions of all that rivals run on."""
    path = folder / f"{name}.json"
    made: Record = json.loads(path.read_text(encoding="utf-8"))
    made["command"] = " ".join(["python -m tools.rivals", *(["--only", *only] if only else [])])
    made["rivals"] = {
        rival: {"version": process.version, "python_packages": process.packages()}
        for rival, process in tables.processes.items()
        if process.version
    }
    path.write_text(as_json(made), encoding="utf-8")
    return made


def merged(old: Record, new: Record) -> Record:
    """The provenance of `rivals` after the rows of the methods of `new` replaced their old ones.

    What the first run says of itself stays; `made_apart` says it of each method made later.
    """
    own = ("command", "versions", "code_fingerprint", "commit", "cpu_seconds")
    apart = {method: {key: new[key] for key in own} for method in new["design"]["methods"]}
    return old | {
        "rivals": old["rivals"] | new["rivals"],
        "made_apart": old.get("made_apart", {}) | apart,
    }


def replaced(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """The rows of `old` with those of the methods of `new` in their places, as many as before."""
    both = old.copy()
    for method, rows in new.groupby("method"):
        where = both.index[both["method"] == method]
        both.loc[where] = rows.set_index(where)
    return both


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables; 1 if a rival cannot run here."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.rivals", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--table", choices=("all", *tables.TABLES), default="all")
    parser.add_argument("--only", nargs="+", default=[], choices=tuple(tables.METHODS))
    parser.add_argument("--design", choices=("full", "quick"), default="full")
    parser.add_argument("--out", type=Path, help="folder (default data/results)")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-rivals")
    options = parser.parse_args(argv)
    if options.design == "quick" and options.out is None:
        parser.error("--design quick needs --out: it must not replace the committed tables")
    folder = options.out or RESULTS
    tables.open_rivals(options.environments)
    try:
        for name, table in tables.TABLES.items():
            if options.table not in ("all", name) or (options.only and name != "rivals"):
                continue
            design = table.quick if options.design == "quick" else table.design
            if not options.only:
                run_table(table, folder, design=design, progress=True)
                told(folder, name)
                continue
            assert isinstance(design, tables.RivalsDesign)
            with tempfile.TemporaryDirectory() as apart:
                few = replace(design, methods=tuple(options.only))
                run_table(table, apart, design=few, progress=True)
                made = told(Path(apart), name, options.only)
                new = pd.read_csv(Path(apart) / f"{name}.csv", keep_default_na=False)
            old = pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
            (folder / f"{name}.csv").write_text(as_csv(replaced(old, new)), encoding="utf-8")
            beside = folder / f"{name}.json"
            record = json.loads(beside.read_text(encoding="utf-8"))
            beside.write_text(as_json(merged(record, made)), encoding="utf-8")
    except RivalUnavailableError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    finally:
        for process in tables.processes.values():
            process.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
