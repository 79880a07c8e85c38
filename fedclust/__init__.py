"""Private k-means for people with data: estimators, a command, and a real federation.

    from fedclust import PrivateKMeans

What `__all__` lists can be imported from here; all else is imported as modules:

* ``describing``: bounds and a summary of columns as they are, and k-means on such bounds
* ``ledgers``: what was spent, kept in a file
* ``estimators``, ``command``, ``flower``: entry points for tables, files and machines

They stand on `fedclust_helpers`, which imports nothing of this package.
"""

from __future__ import annotations

import importlib
from typing import Any

from fedclust_helpers import __version__ as __version__

__all__ = [
    "FastLloydKMeans", "FedDPKMeans", "KeptLedger", "LocalKMeans", "PrivateKMeans", "RRCluster",
    "from_copies",
    "load", "private_bounds", "private_summary",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "ledgers" if name == "KeptLedger" else "estimators"
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
