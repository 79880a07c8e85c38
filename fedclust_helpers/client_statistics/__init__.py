"""What a client computes from its own data: pure functions, each with its sensitivity.

A `ClientStatistic` is a named, module-level pure function of (rows, broadcast arrays) together
with the bound on how much one record can change it. A remote client is sent the *name*, not code:
`STATISTICS` holds all of them. Every statistic here is additive: its value on a union of clients is
the sum of its values.

>>> from fedclust_helpers.client_statistics import SUMS_AND_COUNTS
>>> SUMS_AND_COUNTS.parts, SUMS_AND_COUNTS.unit
(('sums', 'counts'), 'point')
"""

from fedclust_helpers.client_statistics.base import (
    COUNT,
    STATISTICS,
    Change,
    ClientMemory,
    ClientStatistic,
    Values,
)
from fedclust_helpers.client_statistics.histograms import (
    DESCRIPTION,
    MAGNITUDE_COUNTS,
    WEIGHTED_COUNTS,
    magnitude_edges,
)
from fedclust_helpers.client_statistics.models import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
    MODEL_BLOCKS,
    NEAREST_BLOCKS,
    NEAREST_UPDATES,
    SHARED_UPDATE,
    Batch,
    Model,
)
from fedclust_helpers.client_statistics.points import (
    BALL_SUMS_AND_COUNTS,
    CLIENT_MEANS,
    CLIENT_OUTER_PRODUCT,
    CLIENT_RELATIVE_SUMS_AND_COUNTS,
    CLIENT_SERVER_POINT_WEIGHTS,
    CLIENT_SUMS_AND_COUNTS,
    CUT_RELATIVE_SUMS_AND_COUNTS,
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    RELATIVE_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
    SUMS_AND_COUNTS,
    TOTAL,
)
from fedclust_helpers.client_statistics.scouting import (
    CELL_COUNTS,
    CUT_STEPS,
    MAX_CELLS,
    MOMENTS,
)

__all__ = ["Change", "ClientStatistic", "RELATIVE_SUMS_AND_COUNTS", "SUMS_AND_COUNTS"]
