"""What a fit found, from released values alone: sizes of clusters, noise of centres, warnings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.fastlloyd import WeightedCopy

EMPTY = 3.0  # standard deviations of its noise below which a count may be that of no row
SMALL = 0.05  # of an even share of the rows
UNSETTLED = 1 / 8  # of the rows; what other limits find, and how often wrongly: better_warned.csv


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


def nearly_empty(sizes: FloatArray, size_std: float | None) -> NDArray[np.bool_]:
    """Which clusters (k,) are, by their released sizes and the noise in each."""
    return np.asarray(sizes < max(SMALL * sizes.mean(), EMPTY * (size_std or 0.0)))


def cautions(
    found: ReleasedSizes, box_centers: FloatArray, n_records: int, copy: WeightedCopy | None
) -> tuple[str, ...]:
    """Warnings about the result; `n_records` is the public number of rows.

    Noise is drawn anew from a fixed seed: one result has one set of warnings.
    """
    k, told = len(box_centers), list(found.said)
    small = np.flatnonzero(nearly_empty(found.sizes, found.size_std))
    if len(small):
        noise = "" if found.size_std is None else f", give or take {found.size_std:.3g}"
        each = ", ".join(
            f"{j} (about {max(found.sizes[j], 0):,.0f} rows{noise})" for j in small[:4]
        )
        each += " and others" if len(small) > 4 else ""
        told.append(
            f"nearly empty, of {n_records:,} rows in all: cluster {each}. There may be fewer groups"
            f" than {k}, or two of them share a cluster"
        )
    if copy is not None and k > 1:
        elsewhere = copy.unsettled(box_centers, rng=np.random.default_rng(0))  # protects nothing
        if elsewhere > UNSETTLED:
            told.append(
                f"another run may find other clusters: other noise of the same size would put about"
                f" {elsewhere:.0%} of the rows elsewhere. {k} clusters may be too many for these"
                " rows at this epsilon, or not the number of their groups"
            )
    return tuple(told)
