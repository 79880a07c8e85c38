"""Libraries that take long to import: each is imported when something of it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dp_accounting as dpa
    import pandas as pd
    from scipy import optimize, special, stats
    from sklearn import cluster, metrics, neighbors
    from sklearn import datasets as toy_data
else:

    class _Lazy:
        """Stands for a module."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    dpa, pd = _Lazy("dp_accounting"), _Lazy("pandas")
    optimize, special = _Lazy("scipy.optimize"), _Lazy("scipy.special")
    stats = _Lazy("scipy.stats")
    cluster, metrics = _Lazy("sklearn.cluster"), _Lazy("sklearn.metrics")
    neighbors, toy_data = _Lazy("sklearn.neighbors"), _Lazy("sklearn.datasets")
