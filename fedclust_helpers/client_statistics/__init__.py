"""What a client computes from its own data: pure functions, each with its sensitivity.

A `ClientStatistic` is a named, module-level pure function of (rows, broadcast arrays) together
with the bound on how much one record can change it. A remote client is sent the *name*, not code.
Every statistic here is additive: its value on a union of clients is the sum of its values.
"""

from collections.abc import Mapping

from fedclust_helpers.client_statistics.base import ClientMemory, ClientStatistic, Values
from fedclust_helpers.client_statistics.lloyd import (
    RELATIVE_SUMS_AND_COUNTS,
    SUMS_AND_COUNTS,
    TOTAL,
)
from fedclust_helpers.client_statistics.models import (
    ADDITIVE_UPDATES,
    CLIENT_UPDATES,
    MODEL_BLOCKS,
    NEAREST_UPDATES,
    SHARED_UPDATE,
    Batch,
    Model,
)
from fedclust_helpers.client_statistics.server_data import (
    BALL_SUMS_AND_COUNTS,
    CLIENT_MEANS,
    CLIENT_OUTER_PRODUCT,
    CLIENT_RESIDUAL_SUMS_AND_COUNTS,
    CLIENT_SERVER_POINT_WEIGHTS,
    CLIENT_SUMS_AND_COUNTS,
    OUTER_PRODUCT,
    PROJECTED_SUMS_AND_COUNTS,
    RESIDUAL_SUMS_AND_COUNTS,
    SERVER_POINT_WEIGHTS,
)

STATISTICS: Mapping[str, ClientStatistic] = {
    s.name: s
    for s in (
        RELATIVE_SUMS_AND_COUNTS,
        SUMS_AND_COUNTS,
        TOTAL,
        OUTER_PRODUCT,
        SERVER_POINT_WEIGHTS,
        PROJECTED_SUMS_AND_COUNTS,
        BALL_SUMS_AND_COUNTS,
        CLIENT_OUTER_PRODUCT,
        CLIENT_SERVER_POINT_WEIGHTS,
        CLIENT_MEANS,
        CLIENT_SUMS_AND_COUNTS,
        RESIDUAL_SUMS_AND_COUNTS,
        CLIENT_RESIDUAL_SUMS_AND_COUNTS,
        MODEL_BLOCKS,
        CLIENT_UPDATES,
        NEAREST_UPDATES,
        ADDITIVE_UPDATES,
        SHARED_UPDATE,
    )
}
"""Every statistic by the name that a remote client would be sent."""

__all__ = [
    "ADDITIVE_UPDATES",
    "BALL_SUMS_AND_COUNTS",
    "CLIENT_MEANS",
    "CLIENT_OUTER_PRODUCT",
    "CLIENT_RESIDUAL_SUMS_AND_COUNTS",
    "CLIENT_SERVER_POINT_WEIGHTS",
    "CLIENT_SUMS_AND_COUNTS",
    "CLIENT_UPDATES",
    "MODEL_BLOCKS",
    "NEAREST_UPDATES",
    "SHARED_UPDATE",
    "OUTER_PRODUCT",
    "PROJECTED_SUMS_AND_COUNTS",
    "RELATIVE_SUMS_AND_COUNTS",
    "RESIDUAL_SUMS_AND_COUNTS",
    "SERVER_POINT_WEIGHTS",
    "STATISTICS",
    "SUMS_AND_COUNTS",
    "TOTAL",
    "Batch",
    "ClientMemory",
    "ClientStatistic",
    "Model",
    "Values",
]
