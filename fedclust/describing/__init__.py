"""Columns described in their own units, privately: bounds of each, and a summary.

`plan_bounds` and `plan_summary` plan for a federation of rows as they are (``domain="raw"``), and
`run` follows. `within` has k-means on bounds that are found privately, as one plan with one total.

>>> import numpy as np
>>> from fedclust_helpers.federation import simulate
>>> ages = np.random.default_rng(0).normal(50, 10, (2000, 1))
>>> federation = simulate([ages], "trusted", seed=0, domain="raw")
>>> found = run(federation, plan_bounds(federation, epsilon=1.0))
>>> found.lower.round(-1), found.upper.round(-1)
(array([20.]), array([80.]))
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
