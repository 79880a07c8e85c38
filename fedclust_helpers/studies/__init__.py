"""Sweeps behind the committed result tables, and reading them.

``python -m fedclust_helpers.studies`` (or ``make results``) makes them; `load_results` reads
them. The designs are in `tables`, one cell of a table in `cells`.
"""

from fedclust_helpers.studies.bench.runner import (
    PartialTableError,
    load_all_results,
    load_results,
    results_folder,
    run_table,
)
from fedclust_helpers.studies.fastlloyd.cells import Cell
from fedclust_helpers.studies.fastlloyd.claims import Verdict, to_markdown, verdicts
from fedclust_helpers.studies.fastlloyd.problems import load_problem
from fedclust_helpers.studies.fastlloyd.tables import QUICK, TABLES, Design
from fedclust_helpers.studies.feddp_kmeans.claims import feddp_verdicts
from fedclust_helpers.studies.ldp_kmeans.claims import ldp_verdicts
from fedclust_helpers.studies.rr_cluster.claims import rr_verdicts

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
