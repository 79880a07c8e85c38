"""A figure of what was released: centres in their units, with the noise that moves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedclust.estimators.cautions import nearly_empty
from fedclust_helpers._lazy import imported
from fedclust_helpers._validation import FloatArray

SURE = 3.0  # standard deviations of its noise above which a weight is that of rows
PALE = 0.3  # opacity of a cluster that is nearly empty
INSIDE = 2.45  # standard deviations: an ellipse in the plane holds 95 % of Gaussian noise


def plot(estimator: Any, ax: Any, columns: Sequence[Any] | None, copy: Any = None) -> Any:
    """Draw the released centres of a fitted estimator; see `PrivateKMeans.plot`."""
    ellipse = imported("matplotlib.patches").Ellipse
    if ax is None:
        ax = imported("matplotlib.pyplot").subplots()[1]
    low, high = estimator._box
    names = getattr(estimator, "feature_names_in_", None)
    names = [f"column {i}" for i in range(len(low))] if names is None else list(names)
    if columns is None and len(low) > 2:
        at, seen_as = directions(estimator._box_centers)
        widths, frame = np.ones(2), None
        labels = ["first", "second"]
        labels = [f"{which} direction of the released centres, in the box" for which in labels]
    else:
        chosen = _numbers(columns, names)
        at, widths = estimator.cluster_centers_[:, chosen], (high - low)[chosen] / 2
        seen_as = None
        frame, labels = (low[chosen], high[chosen]), [str(names[i]) for i in chosen]
    if at.shape[1] == 1:  # one column: sizes on the other axis
        at = np.column_stack([at[:, 0], estimator.cluster_sizes_])
        labels.append("rows (released)")
    if copy is not None:
        if seen_as is not None:
            places = seen_as(estimator._copy.points)
        else:
            places = copy.points[:, chosen]
            if len(chosen) == 1:
                places = np.column_stack([places[:, 0], copy.weights])
        _draw_copy(ax, places, copy.weights, copy.weight_std)
    sizes = np.maximum(estimator.cluster_sizes_, 0)
    empty = nearly_empty(estimator.cluster_sizes_, estimator._size_std)
    shown = np.where(empty, PALE, 1.0)
    ax.scatter(*at.T, s=30 + 170 * sizes / max(float(sizes.max()), 1.0), alpha=shown, zorder=3)
    for j, place in enumerate(at):
        ax.annotate(str(j), place, xytext=(6, 6), textcoords="offset points")
        if estimator._center_std is not None:
            std = np.append(estimator._center_std[j] * widths, estimator._size_std or 0.0)[:2]
            across = 2 * INSIDE * std
            ax.add_patch(ellipse(place, *across, fill=False, linestyle="--", alpha=shown[j]))
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    if frame is not None and len(widths) == 2:
        ax.set_xlim(frame[0][0], frame[1][0])
        ax.set_ylim(frame[0][1], frame[1][1])
    noise = "" if estimator._center_std is None else ", 95 % of the noise"
    of = "" if copy is None else ",\nand the copy of the data (rings: may be noise)"
    pale = ";\npale: nearly empty" if empty.any() else ""
    ax.set_title(f"released centres{noise}{of}{pale};\nanother run may end elsewhere")
    return ax


def _draw_copy(ax: Any, places: FloatArray, weights: FloatArray, std: FloatArray) -> None:
    """Points of a copy, as large as their weights; empty rings where these may be noise alone."""
    area = 200 * weights / max(float(weights.max()), 1.0)
    sure = weights > SURE * std
    ax.scatter(*places[sure].T, s=area[sure], color="0.75", zorder=1)
    unsure = ~sure & (weights > 0)
    ax.scatter(*places[unsure].T, s=np.maximum(area, 12)[unsure], facecolors="none",
               edgecolors="0.7", zorder=1)  # fmt: skip


def directions(centers: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Centres (k, d) in the plane (k, 2) in which they differ most; how others are seen there."""
    middle, d = centers.mean(axis=0), centers.shape[1]
    plane = np.eye(d)[:2]
    if len(centers) > 1:
        plane = np.linalg.svd(centers - middle, full_matrices=False)[2][:2]

    def seen(points: FloatArray) -> FloatArray:
        return np.asarray((points - middle) @ plane.T)

    return seen(centers), seen


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
