"""Colours, marks and names of the methods in the figures of notebook 02."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers.studies.bench.style import COLORS

DARK = "#222222"
MUTED = "#555555"
INSIDE, OUTSIDE = "#5790fc", "#f89c20"  # server points like the clients' rows, and others
WRONG = COLORS["attack"]
THEORY: dict[str, Any] = {"color": COLORS["theory"], "linewidth": 1.3, "zorder": 1}

METHODS: Mapping[str, tuple[str, str, str]] = {
    "feddp": ("FedDP-KMeans", "#5790fc", "o"),
    "feddp_adaptive": ("adaptive (ours)", "#7a21dd", "D"),
    "server_lloyds": ("ServerLloyds", "#f89c20", "s"),
    "server_kmeanspp": ("ServerKMeans++", "#9c9ca1", "v"),
    "sphere_packing": ("SpherePacking", "#964a8b", "^"),
    "kfed": ("k-FED (not private)", "#e42536", "P"),
    "oracle": ("a start that knows", "#5790fc", "o"),
}
"""Name, colour and marker of each method; the keys are those of the result tables."""


def plain_ticks(ax: Axes, values: ArrayLike, axis: str = "x") -> None:
    """Put labelled ticks at `values` only (log axes otherwise label powers of ten)."""
    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(FixedLocator([float(v) for v in np.asarray(values).ravel()]))
    which.set_major_formatter(StrMethodFormatter("{x:g}"))
    which.set_minor_formatter(NullFormatter())


def line(text: str, color: str = MUTED) -> dict[str, Any]:
    """Keyword arguments of an annotation with a thin connecting line."""
    return {
        "text": text, "fontsize": 10, "color": DARK,
        "arrowprops": {"arrowstyle": "-", "color": color, "linewidth": 0.8},
    }  # fmt: skip


def panels(axes: Any) -> list[Axes]:
    """The axes of a grid as one list, row by row."""
    return list(np.ravel(np.asarray(axes, dtype=object)))


def mean_and_range(
    values: Sequence[ArrayLike] | ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, smallest and largest over the last axis."""
    array = np.asarray(values, dtype=np.float64)
    return array.mean(axis=-1), array.min(axis=-1), array.max(axis=-1)
