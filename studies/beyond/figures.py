"""Figures of the better releases, from their committed tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from studies.bench.plots import curves, finish
from studies.bench.style import BLUE, DARK, ORANGE, Look

METHODS = {
    "fastlloyd": Look("FastLloyd", DARK, "s--"),
    "pe": Look("PE-means", ORANGE, "^-."),
    "overclustered": Look("over-clustered Lloyd", BLUE, "o-"),
}


def cost_of_bounds(table: pd.DataFrame) -> dict[str, pd.Series]:
    """By method: NICV over that with bounds that fit, geometric mean over epsilon and the sets.

    Only sets on which every method was run.
    """
    keys, found = ["dataset", "epsilon"], {}
    table = table[table["method"].isin(list(METHODS))]
    whole = table.groupby("dataset")["method"].nunique() == len(METHODS)
    table = table[table["dataset"].isin(whole.index[whole])]
    for method in METHODS:
        part = table[table["method"] == method].set_index([*keys, "width"])["nicv_mean"].unstack()
        found[method] = np.exp(np.log(part.div(part[1.0], axis=0)).mean())
    return found


def plot_bounds(ax: Axes, table: pd.DataFrame) -> Axes:
    """What public bounds cost that are too narrow or too wide, `width` times those that fit."""
    found = cost_of_bounds(table)
    widths = found["overclustered"].index
    curves(ax, None, found, METHODS)
    title = "Bounds ten times too wide: the method that first finds the data pays least"
    x, y = "width of the bounds over that of the data", "NICV over that with fitting bounds"
    return finish(ax, title, x, y, log="xy", xticks=widths, yticks=(1, 2, 4), names="upper left")
