"""Sweeps behind the committed result tables, and reading them.

``python -m fedclust_helpers.studies`` (or ``make results``) makes them; `load_results` reads
them. The designs are in `tables`, one cell of a table in `cells`. What the papers claim, and what
we find, is in `claims` (the committed page) and `grade` (checked now).
"""

from fedclust_helpers.studies.bench.grading import to_markdown
from fedclust_helpers.studies.bench.runner import (
    PartialTableError,
    load_all_results,
    load_results,
    results_folder,
    run_table,
)
from fedclust_helpers.studies.fastlloyd.cells import Cell
from fedclust_helpers.studies.fastlloyd.problems import load_problem
from fedclust_helpers.studies.fastlloyd.tables import QUICK, TABLES, Design
from fedclust_helpers.studies.page import claims, grade, write_claims

__all__ = [
    "QUICK",
    "TABLES",
    "Cell",
    "Design",
    "PartialTableError",
    "claims",
    "grade",
    "load_all_results",
    "load_problem",
    "load_results",
    "results_folder",
    "run_table",
    "to_markdown",
    "write_claims",
]
