"""Colours, marks and names of the methods in the figures of notebook 03."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

from fedclust_helpers.studies.bench.style import COLORS
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    DARK,
    MUTED,
    THEORY,
    WRONG,
    line,
    mean_and_range,
    panels,
    plain_ticks,
)

LOCAL = COLORS["local"]
PALE = "#c9c9cf"  # what is only noise, or not in question
BLUE, ORANGE, PLUM = "#5790fc", "#f89c20", "#964a8b"
MAX_SHOWN = 1500  # users drawn in a picture

METHODS: Mapping[str, tuple[str, str, str]] = {
    "alg1": ("one round", LOCAL, "v"),
    "alg1_hso": ("one round + sums", LOCAL, "^"),
    "alg1_printed": ("one round, as printed", WRONG, "X"),
    "alg4": ("four rounds", ORANGE, "s"),
    "alg4_lsh": ("four rounds + LSH", ORANGE, "D"),
    "grid_histogram": ("one grid", BLUE, "o"),
    "gaussian_report": ("noisy points", "#9c9ca1", "P"),
    "ldp_lloyd": ("local Lloyd", PLUM, "<"),
    "private_mean": ("one private mean", "#9c9ca1", "_"),
    "central_glloyd": ("central GLloyd", COLORS["trusted"], "D"),
}
"""Name, colour and marker of each method; the keys are those of the result tables."""

TRUST: Mapping[str, tuple[str, str, str]] = {
    "local": ("local: trust nobody", COLORS["local"], "v"),
    "secure sum": ("secure sum", COLORS["secure sum"], "o"),
    "trusted": ("trusted server", COLORS["trusted"], "D"),
}
"""Name, colour and marker of each trust model."""


def powers(ax: Axes, values: Any, axis: str = "x") -> None:
    """Label powers of ten as 10^4, 10^5, ... and nothing else."""
    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(FixedLocator([float(v) for v in values]))
    which.set_minor_formatter(NullFormatter())


__all__ = [
    "BLUE",
    "DARK",
    "LOCAL",
    "MAX_SHOWN",
    "METHODS",
    "MUTED",
    "ORANGE",
    "PALE",
    "PLUM",
    "THEORY",
    "TRUST",
    "WRONG",
    "line",
    "mean_and_range",
    "panels",
    "plain_ticks",
    "powers",
]
