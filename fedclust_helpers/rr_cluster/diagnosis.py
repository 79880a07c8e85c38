"""A look behind the boundary that only a simulation can take; nothing of it may be released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.rr_cluster.algorithm import Round


def look(made: Round) -> tuple[float, IntArray]:
    """Share of the identifiers of a round that are wrong, and the sizes (k,) as clients chose."""
    true = made.exact.argmax(axis=1)
    wrong = float((true != made.released).mean())
    return wrong, np.bincount(true, minlength=len(made.models))


def summary(looks: Sequence[tuple[float, IntArray]]) -> dict[str, FloatArray]:
    """``flip_rate`` (T,) and ``true_sizes`` (T, k) of a run."""
    return {
        "flip_rate": np.array([wrong for wrong, _ in looks]),
        "true_sizes": np.array([sizes for _, sizes in looks]),
    }
