"""Private federated clustering: one small module per idea, and estimators for people with data.

    from fedclust_helpers import PrivateKMeans

Estimators (and `load`, which reads what they saved) can be imported from here; all else is imported
as modules: ``from fedclust_helpers import fastlloyd, federation``. The modules form floors, each
importing only from the floors below it:

* ground: ``accounting``, ``datasets``, ``kmeans``, ``mechanisms``, ``metrics``,
  ``secure_aggregation``
* wire: ``client_statistics``, ``federation``, ``audit``
* papers: ``fastlloyd``, ``feddp_kmeans``, ``ldp_kmeans``, ``rr_cluster``
* top: ``estimators``, ``flower``, ``command``; above all of them the studies
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_ESTIMATORS = (
    "PrivateKMeans", "FastLloydKMeans", "FedDPKMeans", "LocalKMeans", "RRCluster", "load",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.estimators"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ESTIMATORS})
