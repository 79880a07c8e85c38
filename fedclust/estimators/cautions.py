"""What a fit found, from released values alone: sizes of clusters, noise of centres, warnings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount
from fedclust_helpers._validation import FloatArray

EMPTY = 3.0  # standard deviations of its noise below which a count may be that of no row
SMALL = 0.05  # of an even share of the rows
NEAR = 0.5  # of the way to the next centre


class UncertainCentersWarning(UserWarning):
    """What was released says that centres are to be read with care."""


class ReleasedSizes(NamedTuple):
    """Released sizes (k,) of the clusters, and the noise of each.

    `size_std` is the standard deviation of the noise in a size, `center_std` (k,) that of each
    coordinate of a centre, in the box [-1, 1]^d; None where a method releases neither. `said`: its
    own warnings.
    """

    sizes: FloatArray
    size_std: float | None
    center_std: FloatArray | None
    said: tuple[str, ...] = ()


def released_sizes(result: Any, box_centers: FloatArray) -> ReleasedSizes:
    """Sizes and noise from the last sums of a run, or from what the reports of users say.

    The sizes are those of the clusters around the centres before the last step; those of reports
    are estimated numbers of users.
    """
    if not result.released or len(result.released[-1]) != 2:
        return _of_reports(result, box_centers)
    request, (sums, counts) = result.record[-1]
    std_sums, std_counts = result.record[-1][1].std
    k = len(box_centers)
    # cut steps are sums in units of the radius
    unit = request.numbers["radius"] if request.statistic.name == "cut_steps" else 1.0
    counts = np.asarray(counts[:k], dtype=np.float64)
    return ReleasedSizes(
        counts, std_counts, unit * std_sums / np.maximum(counts, max(1.0, std_counts))
    )


def _of_reports(result: Any, box_centers: FloatArray) -> ReleasedSizes:
    places, weights = result.proxies, np.asarray(result.weights, dtype=np.float64)
    centers = getattr(result, "low_centers", result.centers)
    if len(places) == 0:
        return ReleasedSizes(np.zeros(len(box_centers)), None, None)
    labels = kmeans.assign(places, centers).labels
    sizes = bincount(labels, weights, minlength=len(box_centers)).astype(np.float64)
    return ReleasedSizes(sizes, None, None, getattr(result, "cautions", ()))


def cautions(found: ReleasedSizes, box_centers: FloatArray, n_records: int) -> tuple[str, ...]:
    """Warnings about the result; `n_records` is the public number of rows."""
    k, told = len(box_centers), list(found.said)
    least = max(SMALL * n_records / k, EMPTY * (found.size_std or 0.0))
    small = np.flatnonzero(found.sizes < least)
    if len(small):
        why = "rows" if found.size_std is None else f"rows, with noise of {found.size_std:.3g}"
        each = ", ".join(f"{j} (about {max(found.sizes[j], 0):.0f} {why})" for j in small[:4])
        each += " and others" if len(small) > 4 else ""
        told.append(
            f"nearly empty: cluster {each}, of {n_records:,} rows in all: {k} clusters may be too"
            " many, or two groups lie in one cluster"
        )
    if found.center_std is not None and k > 1:
        gaps = np.linalg.norm(box_centers[:, None] - box_centers[None], axis=2)
        gaps[np.diag_indices(k)] = np.inf
        off = np.sqrt(box_centers.shape[1]) * found.center_std
        near = np.flatnonzero(off > NEAR * gaps.min(axis=1))
        if len(near):
            each = ", ".join(map(str, near[:8].tolist()))
            told.append(
                f"noise moves the centre of cluster {each} by about half of its distance to the"
                f" next centre, or more: {k} clusters are too many for these rows at this epsilon"
            )
    return tuple(told)
