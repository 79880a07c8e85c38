"""Colours, marks and tick labels that the figures of notebook 01 share."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import COLORS

CYCLE = ("#5790fc", "#f89c20", "#e42536", "#964a8b", "#7a21dd", "#9c9ca1")
MARKS = ("o", "s", "^", "D", "v", "P")
THEORY: dict[str, Any] = {"color": COLORS["theory"], "linewidth": 1.2, "zorder": 1}


def plain_ticks(ax: Axes, values: ArrayLike, axis: str = "x") -> None:
    """Put labelled ticks at `values` only (log axes otherwise label powers of ten)."""
    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(FixedLocator([float(v) for v in np.asarray(values).ravel()]))
    which.set_major_formatter(StrMethodFormatter("{x:g}"))
    which.set_minor_formatter(NullFormatter())


def note(ax: Axes, text: str, xy: tuple[float, float], *, ha: str = "left") -> None:
    """Write a remark at a place in axes coordinates."""
    ax.text(*xy, text, transform=ax.transAxes, ha=ha, fontsize=10, color="#222222")


def headline(fig: Figure, text: str) -> None:
    """Write the claim of a figure with several panels above all of them."""
    fig.suptitle(text, x=0.01, ha="left", fontsize=12)
