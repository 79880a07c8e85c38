"""Libraries that take long to import: each is imported when something of it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

EXTRAS = {"pandas": "data", "matplotlib": "plots"}
"""Libraries of the extras, which a plain installation lacks."""


def imported(name: str) -> Any:
    """The module of this name; ImportError says which extra brings one that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if error.name != top or top not in EXTRAS:
            raise
        extra = f"pip install '.[{EXTRAS[top]}]' in the checkout"
        raise ImportError(f"this needs {top}, which is not installed: {extra}") from None


if TYPE_CHECKING:
    import dp_accounting as dpa
    import pandas as pd
    from scipy import fft, optimize, special, stats
    from sklearn import cluster, metrics
    from sklearn import datasets as toy_data
else:

    class _Lazy:
        """Stands for a module."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(imported(self._name), name)

    dpa, pd = _Lazy("dp_accounting"), _Lazy("pandas")
    fft, optimize, stats = _Lazy("scipy.fft"), _Lazy("scipy.optimize"), _Lazy("scipy.stats")
    special = _Lazy("scipy.special")
    cluster, metrics = _Lazy("sklearn.cluster"), _Lazy("sklearn.metrics")
    toy_data = _Lazy("sklearn.datasets")
