"""Studies of the papers: result tables, claims, figures, widgets; nothing in the library uses them.

``python -m fedclust_helpers.studies`` (or ``make results``) makes the tables; `load_results` reads
them. What a table is made of is in `bench.cell`, each paper's own in ``PAPER.tables``.
"""

from fedclust_helpers.studies.bench.grading import to_markdown
from fedclust_helpers.studies.bench.partial import PartialTableError
from fedclust_helpers.studies.bench.results import (
    load_all_results,
    load_provenance,
    load_results,
    results_folder,
)
from fedclust_helpers.studies.bench.rows import remake
from fedclust_helpers.studies.bench.runner import run_table
from fedclust_helpers.studies.beyond.tables import TABLES as BEYOND
from fedclust_helpers.studies.fastlloyd.tables import TABLES as FASTLLOYD
from fedclust_helpers.studies.feddp_kmeans.tables import TABLES as FEDDP
from fedclust_helpers.studies.ldp_kmeans.tables import TABLES as LDP
from fedclust_helpers.studies.page import claims, grade, write_claims
from fedclust_helpers.studies.rr_cluster.low_budget import TABLES as LOW
from fedclust_helpers.studies.rr_cluster.tables import TABLES as RR
from fedclust_helpers.studies.side_by_side.tables import TABLES as SIDE_BY_SIDE

TABLES = FASTLLOYD | FEDDP | LDP | RR | LOW | BEYOND | SIDE_BY_SIDE
"""All tables by name, in the order in which they are made."""

__all__ = [
    "TABLES",
    "PartialTableError",
    "claims",
    "grade",
    "load_all_results",
    "load_provenance",
    "load_results",
    "remake",
    "results_folder",
    "run_table",
    "to_markdown",
    "write_claims",
]
