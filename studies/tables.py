"""The tables of all studies."""

from studies.beyond.tables import TABLES as BEYOND
from studies.fastlloyd.tables import TABLES as FASTLLOYD
from studies.feddp_kmeans.tables import TABLES as FEDDP
from studies.ldp_kmeans.tables import TABLES as LDP
from studies.own_data.tables import TABLES as OWN
from studies.rr_cluster.low_budget import TABLES as LOW
from studies.rr_cluster.mixing import TABLES as MIXED
from studies.rr_cluster.promise import TABLES as PROMISE
from studies.rr_cluster.race import TABLES as RACE
from studies.rr_cluster.tables import TABLES as RR
from studies.side_by_side.tables import TABLES as SIDE_BY_SIDE

TABLES = FASTLLOYD | FEDDP | LDP | RR | LOW | RACE | PROMISE | MIXED | BEYOND | OWN | SIDE_BY_SIDE
"""All tables by name, in the order in which they are made."""
