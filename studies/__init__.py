"""Studies of the papers: result tables, claims, figures, widgets; nothing in the library uses them.

``python -m studies`` (or ``make results``) makes the tables; `load_results` reads
them. What a table is made of is in `bench.cell`, each paper's own in ``PAPER.tables``.
"""

from studies.bench.ends import end_table
from studies.bench.grading import to_markdown
from studies.bench.results import (
    RESULTS,
    load_provenance,
    load_results,
)
from studies.bench.rows import remake
from studies.bench.runner import PartialTableError, run_table
from studies.beyond.tables import TABLES as BEYOND
from studies.fastlloyd.tables import TABLES as FASTLLOYD
from studies.feddp_kmeans.tables import TABLES as FEDDP
from studies.ldp_kmeans.tables import TABLES as LDP
from studies.own_data.tables import TABLES as OWN
from studies.page import claims, grade, write_claims
from studies.rr_cluster.low_budget import TABLES as LOW
from studies.rr_cluster.mixing import TABLES as MIXED
from studies.rr_cluster.promise import TABLES as PROMISE
from studies.rr_cluster.race import TABLES as RACE
from studies.rr_cluster.tables import TABLES as RR
from studies.side_by_side.tables import TABLES as SIDE_BY_SIDE

TABLES = FASTLLOYD | FEDDP | LDP | RR | LOW | RACE | PROMISE | MIXED | BEYOND | OWN | SIDE_BY_SIDE
"""All tables by name, in the order in which they are made."""

__all__ = [
    "TABLES",
    "PartialTableError",
    "claims",
    "end_table",
    "grade",
    "load_provenance",
    "load_results",
    "remake",
    "RESULTS",
    "run_table",
    "to_markdown",
    "write_claims",
]
