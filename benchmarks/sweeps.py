"""What a cell of a sweep costs, here and on many workers; prints a table and a projection.

    python benchmarks/sweeps.py [--cells 48] [--milliseconds 100] [--workers 1 2 4]

Cells that do nothing but compute for a given CPU time are run by `run_table`, as every table is, by
processes of joblib and, if Dask is installed, by its workers; the numbers are compared with those
of one process. The projection divides the CPU seconds beside the committed tables among W workers,
table after table (no table starts before the last has ended), and adds what handing out a cell cost
here. It takes the cells of a table as equally long, as their seconds are stored in sum.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedclust_helpers.studies import TABLES, load_provenance
from fedclust_helpers.studies.bench.cell import Cell, Design, Numbers, Table
from fedclust_helpers.studies.bench.machines import dask_client
from fedclust_helpers.studies.bench.runner import run_table


def busy(cell: Cell, *, x: int, milliseconds: float) -> Numbers:
    """Compute for this much CPU time."""
    end, total = time.process_time() + milliseconds / 1000, 0
    while time.process_time() < end:
        total += sum(range(1000))
    return {"value": float(x)}


def table(cells: int, milliseconds: float) -> Table:
    """So many busy cells."""

    def settings(design: Design) -> list[dict[str, Any]]:
        return [{"x": x, "milliseconds": milliseconds} for x in range(cells)]

    return Table("busy", settings, busy, "x,milliseconds,value", seed="{x}/{milliseconds}")


def seconds(made: Table, **how: Any) -> tuple[float, bytes]:
    """Wall time of a table, and its numbers."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run_table(made, folder, **how)
        return time.perf_counter() - start, (Path(folder) / "busy.csv").read_bytes()


def projection(workers: int, per_cell: float) -> float:
    """Seconds of all committed tables on so many workers."""
    total = 0.0
    for name in TABLES:
        made = load_provenance(name)
        n, each = made["cells"], made["cpu_seconds"] / made["cells"]
        at_once = 1 if TABLES[name].sequential else workers
        total += max(-(-n // at_once) * each, n * per_cell)
    return total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=48)
    parser.add_argument("--milliseconds", type=float, default=100.0)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    work, empty = table(options.cells, options.milliseconds), table(10 * options.cells, 0.0)
    serial, wanted = seconds(work)
    print(f"one process: {serial:.2f} s for {options.cells} cells of {options.milliseconds:g} ms")
    print("backend  workers  seconds  speed-up  ms to hand out a cell  same numbers")
    overhead = 0.0
    backends = ["loky", "dask"]
    if find_spec("distributed") is None:
        print("Dask is not installed: left out (pip install 'fedclust[dask]')", file=sys.stderr)
        backends.remove("dask")
    for backend in backends:
        for workers in options.workers:
            with dask_client(None, workers) if backend == "dask" else nullcontext() as client:
                how = {"n_jobs": workers, "client": client}
                seconds(replace(work, settings=lambda design: [{"x": 0, "milliseconds": 0}]), **how)
                took, made = seconds(work, **how)
                each = 1000 * seconds(empty, **how)[0] / (10 * options.cells)
            print(
                f"{backend:7s}  {workers:7d}  {took:7.2f}  {serial / took:8.2f}"
                f"  {each:21.2f}  {made == wanted}"
            )
            overhead = each / 1000
    for workers in (1, 2, 4, 100, 200):
        print(f"all committed tables on {workers} workers: {projection(workers, overhead):.0f} s")
    slow = sorted(
        ((load_provenance(n)["cpu_seconds"] / load_provenance(n)["cells"], n) for n in TABLES),
        reverse=True,
    )
    for each, name in slow[:5]:
        print(f"CPU seconds of a cell: {each:.2f}  {name}")


if __name__ == "__main__":
    main()
