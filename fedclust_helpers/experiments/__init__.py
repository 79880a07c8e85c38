"""Sweeps behind the committed result tables, and reading them.

``python -m fedclust_helpers.experiments`` (or ``make results``) makes them; `load_results` reads
them. The designs are in `tables`, one cell of a table in `cells`.
"""

from fedclust_helpers.experiments.cells import Cell
from fedclust_helpers.experiments.claims import Verdict, to_markdown, verdicts
from fedclust_helpers.experiments.feddp_claims import feddp_verdicts
from fedclust_helpers.experiments.ldp_claims import ldp_verdicts
from fedclust_helpers.experiments.problems import load_problem
from fedclust_helpers.experiments.rr_claims import rr_verdicts
from fedclust_helpers.experiments.runner import (
    PartialTableError,
    load_all_results,
    load_results,
    results_folder,
    run_table,
)
from fedclust_helpers.experiments.tables import QUICK, TABLES, Design

__all__ = [
    "QUICK",
    "TABLES",
    "Cell",
    "Design",
    "PartialTableError",
    "Verdict",
    "feddp_verdicts",
    "ldp_verdicts",
    "load_all_results",
    "load_problem",
    "load_results",
    "results_folder",
    "rr_verdicts",
    "run_table",
    "to_markdown",
    "verdicts",
]
