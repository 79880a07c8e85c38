"""`make variations`: run every notebook with other seeds and settings, and list what is remarked.

    python -m tools.variations                        all notebooks, all variations; the table
    python -m tools.variations 01                     some notebooks: their rows of the table
    python -m tools.variations 01 --only SEED         one setting, or EPSILON=2; no table
    python -m tools.variations --jobs 2               kernels at the same time

A variation changes one setting of the cell tagged "settings": SEED (eight other values), and the
values that the notebook's `Lesson` names, every data set among them. A notebook with another
setting must run from its first to its last cell; a check that does not hold then is a remark, and
the numbers of the prose that such a run does not print are named. Ends with 1 if a cell raised.
The runs of whole notebooks replace their rows in data/results/variations.csv.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from studies.bench.lesson import REMARK
from tools.build_notebooks import BuildError, execute, load_script
from tools.variations.numbers import unprinted

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
TABLE = ROOT / "data" / "results" / "variations.csv"
KEYS = ["notebook", "settings", "setting", "value"]
COLUMNS = [*KEYS, "remarks", "unprinted", "error"]
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
PAPERS = {
    "00": "start", "01": "fastlloyd", "02": "feddp_kmeans", "03": "ldp_kmeans",
    "04": "rr_cluster", "05": "side_by_side", "06": "own_data",
}  # fmt: skip


class Variation(NamedTuple):
    """One run: a notebook with one setting changed."""

    notebook: str
    setting: str
    value: Any


class Outcome(NamedTuple):
    """What a run printed and where it stopped (empty: nowhere)."""

    variation: Variation
    remarks: tuple[str, ...]
    error: str
    unprinted: tuple[str, ...] = ()


def lesson_module(script: Path) -> Any:
    """The module with the `Lesson` of a notebook and its function `data`."""
    from importlib import import_module

    return import_module(f"studies.{PAPERS[script.stem[:2]]}.lesson")


def lesson_of(script: Path) -> Any:
    """The `Lesson` of a notebook."""
    return lesson_module(script).LESSON


def variations(script: Path) -> Iterator[Variation]:
    """All variations of one notebook: other seeds first."""
    lesson = lesson_of(script)
    others = [seed for seed in (*SEEDS, 9) if seed != lesson.settings["SEED"]][: len(SEEDS)]
    for value in others:
        yield Variation(script.stem, "SEED", value)
    for setting, values in lesson.variations.items():
        for value in values:
            yield Variation(script.stem, setting, value)


def key_of(variation: Variation) -> tuple[str, str, str, str]:
    """What names a row: the notebook, a digest of its committed settings, what is changed."""
    lesson = lesson_of(NOTEBOOKS / f"{variation.notebook}.py")
    settings = hashlib.sha256(repr(lesson.settings).encode()).hexdigest()[:8]
    return variation.notebook, settings, variation.setting, str(variation.value)


def outcome_of(variation: Variation, *, timeout: int = 300) -> Outcome:
    """Run one notebook with one setting changed; widget cells are left out."""
    notebook = load_script(NOTEBOOKS / f"{variation.notebook}.py")
    cells = [c for c in notebook.cells if "settings" in c.metadata.get("tags", ())]
    if len(cells) != 1:
        raise ValueError(f"{variation.notebook} has {len(cells)} cells tagged settings, not 1")
    cells[0].source += f"\n{variation.setting} = {variation.value!r}"
    error = ""
    try:
        execute(notebook, folder=NOTEBOOKS, timeout=timeout)
    except BuildError as wrong:
        number = sum(bool(c.get("outputs")) for c in notebook.cells)
        error = f"{str(wrong).strip().splitlines()[-1]} (after {number} cells with output)"
    text = "".join(
        str(output.get("text", ""))
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.get("outputs", [])
    )
    said = [line[len(REMARK) :] for line in text.splitlines() if line.startswith(REMARK)]
    return Outcome(variation, tuple(said), error, tuple(unprinted(notebook)))


def table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """One row for each run, remarks joined by " | "."""
    # values as text: a column of whole and other numbers would make 1 to 1.0, which is another row
    rows = [
        (*key_of(o.variation), " | ".join(o.remarks), str(len(o.unprinted)), o.error)
        for o in outcomes
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.variations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="part of a notebook's file name; all if none")
    parser.add_argument("--only", nargs="+", default=[], metavar="SETTING[=VALUE]")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(argv)

    scripts = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    if options.names:
        scripts = [s for s in scripts if any(name in s.stem for name in options.names)]
    every = [v for script in scripts for v in variations(script)]
    only = set(options.only)
    asked = [v for v in every if not only or only & {v.setting, f"{v.setting}={v.value}"}]
    if not asked:
        print("no such variation", file=sys.stderr)
        return 2
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ["PYTHONHASHSEED"] = "0"
    outcomes = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(outcome_of, asked):
            notebook, setting, value = done.variation
            state = done.error or f"{len(done.remarks)} remarks" * bool(done.remarks) or "ok"
            print(f"{notebook}  {setting}={value}  {state}", flush=True)
            for remark in done.remarks:
                print(f"    {remark}")
            for number in done.unprinted:
                print(f"    not printed: {number}")
            outcomes.append(done)
    if not only:
        there = pd.read_csv(TABLE, dtype=str, keep_default_na=False)
        kept = there[~there["notebook"].isin([script.stem for script in scripts])]
        both = pd.concat([kept, table(outcomes)]).sort_values("notebook", kind="stable")
        both.to_csv(TABLE, index=False, lineterminator="\n")
        print(f"written: {TABLE.relative_to(ROOT)}")
    stopped = sum(bool(o.error) for o in outcomes)
    remarks = sum(len(o.remarks) for o in outcomes)
    print(f"{len(outcomes)} runs, {stopped} stopped, {remarks} remarks")
    return 1 if stopped else 0


if __name__ == "__main__":
    raise SystemExit(main())
