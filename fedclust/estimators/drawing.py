"""A figure of what was released: centres in their units, with the noise that moves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._lazy import imported
from fedclust_helpers._validation import FloatArray

INSIDE = 2.45  # standard deviations: an ellipse in the plane holds 95 % of Gaussian noise


def plot(estimator: Any, ax: Any, columns: Sequence[Any] | None) -> Any:
    """Draw the released centres of a fitted estimator; see `PrivateKMeans.plot`."""
    ellipse = imported("matplotlib.patches").Ellipse
    if ax is None:
        ax = imported("matplotlib.pyplot").subplots()[1]
    low, high = estimator._box
    names = getattr(estimator, "feature_names_in_", None)
    names = [f"column {i}" for i in range(len(low))] if names is None else list(names)
    if columns is None and len(low) > 2:
        at = directions(estimator._box_centers)
        widths, frame = np.ones(2), None
        labels = ["first", "second"]
        labels = [f"{which} direction of the released centres, in the box" for which in labels]
    else:
        chosen = _numbers(columns, names)
        at, widths = estimator.cluster_centers_[:, chosen], (high - low)[chosen] / 2
        frame, labels = (low[chosen], high[chosen]), [str(names[i]) for i in chosen]
    if at.shape[1] == 1:  # one column: sizes on the other axis
        at = np.column_stack([at[:, 0], estimator.cluster_sizes_])
        labels.append("rows (released)")
    sizes = np.maximum(estimator.cluster_sizes_, 0)
    ax.scatter(*at.T, s=30 + 170 * sizes / max(float(sizes.max()), 1.0), zorder=3)
    for j, place in enumerate(at):
        ax.annotate(str(j), place, xytext=(6, 6), textcoords="offset points")
        if estimator._center_std is not None and len(widths) == 2:
            across = 2 * INSIDE * estimator._center_std[j] * widths
            ax.add_patch(ellipse(place, *across, fill=False, linestyle="--"))
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    if frame is not None and len(widths) == 2:
        ax.set_xlim(frame[0][0], frame[1][0])
        ax.set_ylim(frame[0][1], frame[1][1])
    noise = "" if estimator._center_std is None else ", 95 % of the noise"
    ax.set_title(f"released centres{noise}")
    return ax


def directions(centers: FloatArray) -> FloatArray:
    """Centres (k, d) in the plane (k, 2) in which they differ most."""
    off = centers - centers.mean(axis=0)
    return off @ np.linalg.svd(off, full_matrices=False)[2][:2].T if len(off) > 1 else off[:, :2]


def _numbers(columns: Sequence[Any] | None, names: list[Any]) -> list[int]:
    """Numbers of one or two columns that are given by name or number."""
    if columns is None:
        return list(range(len(names)))
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not 1 <= len(columns) <= 2:
        raise ValueError("columns must be a sequence of one or two columns, by name or number")
    found = []
    for column in columns:
        if column in names:
            found.append(names.index(column))
        elif isinstance(column, int) and 0 <= column < len(names):
            found.append(column)
        else:
            raise ValueError(f"columns must be among {', '.join(map(str, names))}")
    return found
