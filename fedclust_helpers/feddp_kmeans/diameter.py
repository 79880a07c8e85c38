"""Lemma 17: bring far components of the data together, so that the noise need not span the gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_positive,
)
from fedclust_helpers.feddp_kmeans._releases import noised_weights
from fedclust_helpers.feddp_kmeans.bounds import check_weight
from fedclust_helpers.feddp_kmeans.budgets import check_budget
from fedclust_helpers.feddp_kmeans.planning import check_federation
from fedclust_helpers.federation import SumFederation


@dataclass(frozen=True)
class DiameterReduction:
    """Translations that bring far components together; every client applies `move` to its rows.

    `anchors` (f, d) are the server points that stayed, `components` (f,) the component of each,
    `shifts` (c, d) the translation of each component, `bound` the radius that holds the moved
    anchors and everything within `distance` of them.
    """

    anchors: FloatArray
    components: IntArray
    shifts: FloatArray
    bound: float
    distance: float

    @property
    def server_points(self) -> FloatArray:
        """The anchors after the move."""
        return self.anchors + self.shifts[self.components]

    def move(self, rows: ArrayLike) -> FloatArray:
        """Translate each row with the component of its nearest anchor."""
        rows = as_points(rows, "rows", n_features=self.anchors.shape[1])
        return rows + self.shifts[self.components[kmeans.assign(rows, self.anchors).labels]]

    def restore(self, centers: ArrayLike) -> FloatArray:
        """Take centres found in the moved space back to the original one."""
        centers = as_points(centers, "centers", n_features=self.anchors.shape[1])
        nearest = kmeans.assign(centers, self.server_points).labels
        return centers - self.shifts[self.components[nearest]]


def _check_lengths(gaps: FloatArray, reach: float) -> None:
    """Refuse, before anything is released, lengths that no federation of moved rows could have."""
    longest = max(float(gaps.max()), reach)
    n_components = 1 if gaps.max() < reach else len(gaps)  # at most
    if not (reach > 1e-100 and 100 * longest * n_components + reach < 1e100):
        raise ValueError(
            "server_points, and sigma or distance, must keep moved rows between 1e-100 and 1e100 in"
            " size (rescale)"
        )


def reduce_diameter(
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    epsilon: float,
    sigma: float,
    min_weight: float,
    distance: float | None = None,
    round: int = 0,
) -> DiameterReduction:
    """Lemma 17: one noised histogram over server points, then translations; pure `epsilon`.

    Parameters
    ----------
    sigma, min_weight : float
        Largest standard deviation of a component in any direction, and its smallest weight.
    distance : float, optional
        D of the proof; 4 ln(n) sqrt(d) sigma by default.

    Notes
    -----
    A server point stays if B(q, D) holds epsilon n w_min/(200 ln|Q|) server points ("frozen") or
    n w_min/3 noised rows. The representative of component i goes to (100 D' i, 0, ...), D' the
    largest diameter of a component. Two details are ours: D' is at least D (with the printed rule,
    components of single points all land on the origin), and i counts from 0.

    The map acts on each row alone, so neighbours stay neighbours: what is released from moved rows
    composes on the same ledger.
    """
    check_federation(federation, unit="point")
    server = as_points(server_points, "server_points", n_features=federation.n_features)
    check_budget(epsilon)
    check_positive(sigma, "sigma")
    check_int(round, "round", minimum=0)
    needed, (size, d) = federation.n_records * check_weight(min_weight), server.shape
    if distance is None:  # one row has no spread of its own: ln 2 for ln 1
        distance = 4 * math.log(max(federation.n_records, 2)) * math.sqrt(d) * sigma
    reach = check_positive(distance, "distance")

    gaps = cdist(server, server)
    _check_lengths(gaps, reach)
    weights = noised_weights(federation, np.eye(d), server, epsilon, round=round)
    in_ball = gaps <= reach
    frozen = in_ball.sum(axis=1) >= epsilon * needed / (200 * math.log(max(size, 2)))
    stays = np.flatnonzero(frozen | (in_ball @ weights >= needed / 3))
    if len(stays) == 0:  # everything is noise: keep the heaviest ball
        stays = np.array([int((in_ball @ weights).argmax())])
    gaps = gaps[np.ix_(stays, stays)]
    n_components, components = connected_components(gaps < reach, directed=False)
    same = components[:, None] == components[None, :]
    diameter = max(float(gaps[same].max()), reach)
    representatives = server[stays][np.unique(components, return_index=True)[1]]
    targets = np.zeros((n_components, d))
    targets[:, 0] = 100 * diameter * np.arange(n_components)
    bound = 100 * diameter * (n_components - 1) + diameter + reach
    return DiameterReduction(
        server[stays], components.astype(np.int64), targets - representatives, bound, reach
    )
