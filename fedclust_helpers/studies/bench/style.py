"""Style, colours with a fixed meaning, and the few marks that every notebook uses."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

COLORS: Mapping[str, str] = {
    "non-private": "#222222",
    "lloyd": "#222222",
    "fastlloyd": "#5790fc",
    "glloyd": "#f89c20",
    "sulloyd": "#e42536",
    "trusted": "#964a8b",
    "secure sum": "#5790fc",
    "local": "#7a21dd",
    "data": "#c4c4c8",
    "attack": "#e42536",
    "theory": "#555555",
}
"""Colours by meaning; the same in all notebooks."""

MARKERS: Mapping[str, str] = {
    "non-private": "",
    "lloyd": "",
    "fastlloyd": "o",
    "glloyd": "s",
    "sulloyd": "^",
    "trusted": "D",
    "secure sum": "o",
    "local": "v",
}
"""Markers by meaning, so that colour is never the only code."""


def use_style() -> None:
    """Load the style file of this package; call once at the top of a notebook."""
    with as_file(files("fedclust_helpers.studies.bench") / "fedclust.mplstyle") as path:
        plt.style.use(path)


def label_lines(ax: Axes, *, x_offset: float = 4.0, min_gap: float = 12.0) -> Axes:
    """Write each labelled line's name at its right end, moved apart where ends are close.

    Parameters
    ----------
    x_offset, min_gap : float
        In points: distance from the end of the line, and smallest vertical distance of two names.
    """
    ax.figure.canvas.draw()
    pixels_per_point = ax.figure.dpi / 72
    entries = []
    for line in ax.get_lines():
        name = str(line.get_label())
        if name.startswith("_"):
            continue
        x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
        good = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(good):
            last = good[np.argmax(x[good])]
            pixel = ax.transData.transform((x[last], y[last]))[1]
            entries.append((pixel / pixels_per_point, x[last], y[last], name))
    entries.sort(key=lambda e: e[0])
    previous = -np.inf
    for height, x_end, y_end, name in entries:
        placed = max(height, previous + min_gap)
        previous = placed
        ax.annotate(
            name, (x_end, y_end), xytext=(x_offset, placed - height), textcoords="offset points",
            va="center", ha="left", fontsize=10, color="#222222", annotation_clip=False,
        )  # fmt: skip
    return ax


def plot_points(ax: Axes, points: ArrayLike, *, size: float = 4.0) -> Axes:
    """Data points of the first two columns, light grey, behind everything else."""
    points = np.asarray(points)
    ax.scatter(points[:, 0], points[:, 1], s=size, color=COLORS["data"], linewidths=0, zorder=1)
    ax.set_aspect("equal")
    return ax


def plot_centers(
    ax: Axes, centers: ArrayLike, *, name: str = "fastlloyd", label: str | None = None
) -> Axes:
    """Centres of the first two columns: large marks with a white edge, in the method's colour."""
    centers = np.asarray(centers)
    ax.scatter(
        centers[:, 0], centers[:, 1], s=90, color=COLORS[name], marker=MARKERS.get(name) or "X",
        edgecolor="white", linewidths=1.2, zorder=3, label=label,
    )  # fmt: skip
    return ax
