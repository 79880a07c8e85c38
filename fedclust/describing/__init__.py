"""Columns described in their own units, privately: bounds of each, and a summary.

`plan_bounds` and `plan_summary` plan for a federation of rows as they are (``domain="raw"``), and
`run` follows. `within` has k-means on bounds that are found privately, as one plan with one total.
"""

from fedclust.describing.bounds import (
    BOUNDS,
    REFUSED,
    WARNED,
    Limits,
    check_sizes,
    plan_bounds,
    rate,
)
from fedclust.describing.summary import (
    BOUNDS_SHARE,
    SUMMARY,
    Estimate,
    Summary,
    plan_summary,
)
from fedclust.describing.within import FASTLLOYD, OVERCLUSTERED, Within
from fedclust_helpers.program import run
