"""Figures of the notebooks: one style, fixed colours and markers, direct labels.

Functions take an ``Axes`` and return it. The pictures of one notebook live in one submodule.
"""

from fedclust_helpers.figures.base import (
    COLORS,
    MARKERS,
    label_lines,
    plot_centers,
    plot_points,
    use_style,
)

__all__ = ["COLORS", "MARKERS", "label_lines", "plot_centers", "plot_points", "use_style"]
