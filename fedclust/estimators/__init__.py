"""Estimators for people with data, in scikit-learn's manner.

    from fedclust import PrivateKMeans

    model = PrivateKMeans(3, 1.0, 1e-6, bounds="bounds.csv").fit(table, clients="hospital")
    model.statement()          # who saw what, what it cost, what is left
    model.save("model.json")   # centres and statement; `load` reads them again

`PrivateKMeans` is the one to take: private k-means under every trust model, by the method that is
never much worse in the tables of this project. The others are named after papers, and run the
paper's method unless they are told otherwise:

* `FastLloydKMeans`: clients with rows. By default they mask, and then nobody sees more than noised
  sums; with ``trust="trusted"`` a server sees those of every client.
* `FedDPKMeans`: a server with related public data; one row or one client is protected.
* `LocalKMeans`: users with one row each, who trust nobody, or a shuffler.
* `RRCluster`: clusters models instead of rows; one client is protected.

All of them are thin: they scale with public bounds, plan, and run the plan that functions of the
papers' packages made. **They play all clients in one process, which holds all rows**: a statement
says what each party would see on a machine of its own, as with `fedclust.flower`
(docs/deployment.md). ``preview`` gives the statement before anything is spent, ``rehearse`` tries a
plan on data that costs nothing. Labels of private rows are computed where the rows are, and are no
part of what is released, pickled or saved.

>>> import numpy as np
>>> from fedclust.estimators import PrivateKMeans
>>> rng = np.random.default_rng(0)
>>> clients = [rng.normal(m, 1, (600, 2)) for m in (2, 8)]
>>> model = PrivateKMeans(2, 1.0, 1e-6, bounds=(0, 10), mode="teaching", seed=0).fit(clients)
>>> np.sort(model.cluster_centers_, axis=0).round()
array([[2., 2.],
       [8., 8.]])
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedclust.estimators.bounds import PublicBoundsWarning
    from fedclust.estimators.cautions import UncertainCentersWarning
    from fedclust.estimators.columns import (
        PrivateBounds,
        PrivateSummary,
        private_bounds,
        private_summary,
    )
    from fedclust.estimators.kmeans import PrivateKMeans
    from fedclust.estimators.models import RRCluster
    from fedclust.estimators.papers import FastLloydKMeans, FedDPKMeans, LocalKMeans
    from fedclust.estimators.planning import TooFewRowsWarning, UnusualColumnWarning
    from fedclust.estimators.reclustering import from_copies
    from fedclust.estimators.statement import Statement

KINDS = {
    "PrivateKMeans": "kmeans", "FastLloydKMeans": "papers", "FedDPKMeans": "papers",
    "LocalKMeans": "papers", "RRCluster": "models",
}  # fmt: skip
"""The estimators, and the modules they are imported from when they are asked for."""
_HOMES = {
    **KINDS, "TooFewRowsWarning": "planning", "UnusualColumnWarning": "planning",
    "PublicBoundsWarning": "bounds", "Statement": "statement", "from_copies": "reclustering",
    "UncertainCentersWarning": "cautions",
    "private_bounds": "columns", "private_summary": "columns",
    "PrivateBounds": "columns", "PrivateSummary": "columns",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    found = globals()[name] = getattr(home, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def load(path: str | PathLike[str]) -> Any:
    """The estimator that `save` wrote: it predicts and shows its statement.

    It cannot be fitted: what was spent before is known to the ledger of the data alone. TypeError
    or ValueError if `path` is no path, or no such file.
    """
    from fedclust.estimators import saving

    return saving.load_as(path, {name: __getattr__(name) for name in KINDS})
