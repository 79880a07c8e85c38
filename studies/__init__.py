"""Studies of the papers: result tables, claims, figures, widgets; nothing in the library uses them.

``python -m studies`` (or ``make results``) makes the tables; `load_results` reads
them. What a table is made of is in `bench.cell`, each paper's own in ``PAPER.tables``.

What `__all__` lists is imported when it is asked for: a lesson waits for its own study only.
"""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "TABLES": "tables",
    "PartialTableError": "bench.runner",
    "claims": "page",
    "end_table": "bench.ends",
    "grade": "page",
    "load_provenance": "bench.results",
    "load_results": "bench.results",
    "remake": "bench.rows",
    "RESULTS": "bench.results",
    "run_table": "bench.runner",
    "to_markdown": "bench.grading",
    "write_claims": "page",
}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)
