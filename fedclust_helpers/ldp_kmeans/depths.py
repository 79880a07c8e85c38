"""How fine to ask: depths of the grids from a predicted error, by public numbers only.

**What is predicted.** k round clusters in the unit ball whose d axes have the standard deviation
sd = RADIUS k^(-1/d)/sqrt(d) each (divided by the scale of a projection), at random places of the
grid. Two values that differ by N(0, v) fall into the same of intervals of length s at random with

    meet(v, s) = erf(u) - (1 - exp(-u^2))/(u sqrt(pi)),    u = s/sqrt(2 v).

For cells of side s the share of a cluster in the cell of its centre is meet(sd^2, s)^d, and a
cluster fills about 1/meet(2 sd^2, s)^d cells.

* *Seen.* A cell is seen with z standard deviations of noise, z e of the users together. Clusters
  are uneven, so that seen(s) = Phi(log(meet(sd^2, s)^d/(k z e))/UNEVEN). Who is not seen at a
  depth is counted in a coarser cell; who is not seen at any costs FAR, and nobody costs more.
* *Bias.* A mean of cell centres is off by a saw-tooth of the place in the cell, in the mean square
  bias(s) = d sum_h s^2/(2 pi^2 h^2) exp(-(2 pi h sd/s)^2): s^2/12 an axis for a cluster within a
  cell, next to nothing once it covers two.
* *Noise.* e of each cell that the cluster fills moves its centre by
  k^2 e^2 d (sd^2 + s^2/12)/meet(2 sd^2, s)^d.

With vector sums the bias and noise of the counts do not matter, and instead

* *Mixing.* A cell holds users of other clusters, in the odds (k - 1) B/A with A = meet(2 sd^2, s)^d
  and B = meet(2 (FAR/d + sd^2), s)^d; each costs FAR/2, as a centre of both lies half-way.
* *Noise.* Every cell that is touched brings the noise of all n vectors:
  k^2 (1 + d' sigma^2) CELLS_PER_CLUSTER/(A n).

The three constants were chosen on mixtures; table `ldp_depths` shows the choice on fresh draws and
on real points beside the best depths there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, ndtr

from fedclust_helpers.ldp_kmeans.grids import MAX_CELLS
from fedclust_helpers.ldp_kmeans.heavy_cells import (
    MAX_SURVIVORS,
    detection_threshold,
    threshold,
)
from fedclust_helpers.ldp_kmeans.projections import scale_of

CELLS_PER_CLUSTER = 3  # cells over which a cluster spreads, as a rule of thumb
RADIUS = 0.2  # of a cluster, over k^(-1/d), at which k balls would fill the ball
UNEVEN = 0.8  # standard deviation of the logarithm of the largest cell of a cluster
FAR = 0.25  # mean square of the distance of who is not seen to where a centre is
DEEPEST, MOST = 6, 3  # depths that are tried, and how many at once
LISTED = 2**18  # cells of the first of them
_H = np.arange(1, 20)


@dataclass(frozen=True)
class Expected:
    """Public numbers from which an error is predicted.

    `n_users` of them count cells, of points in `n_features` dimensions that are projected to the
    `n_outputs` of the grid where that is fewer; `epsilon` is that of one user's counts.
    """

    n_users: float
    n_features: int
    n_outputs: int
    n_clusters: int
    epsilon: float
    n_sd: float = 3.5

    @property
    def scale(self) -> float:
        """What a projection divides lengths by."""
        return scale_of(self.n_outputs) if self.n_outputs < self.n_features else 1.0

    @property
    def sd(self) -> float:
        """Standard deviation of a cluster along an axis of the grid."""
        d = self.n_outputs
        return float(RADIUS * self.n_clusters ** (-1 / d) / math.sqrt(d) / self.scale)

    def noise(self, depths: tuple[int, ...]) -> float:
        """Standard deviation of a count as a share of the users."""
        n = max(1, round(self.n_users))
        return detection_threshold(n, self.epsilon, len(depths), n_sd=1) / n

    def seen(self, depth: int, depths: tuple[int, ...]) -> float:
        """Share of the users that cells of one of these depths are predicted to show."""
        d, z = self.n_outputs, self.n_sd
        if depth == depths[0]:
            z = max(z, threshold(2 ** min(d * depth, 60), z))
        most = _all(self.sd**2, _side(depth), d)
        return float(ndtr(math.log(most / (self.n_clusters * z * self.noise(depths))) / UNEVEN))

    def error(self, depths: tuple[int, ...]) -> float:
        """What cells of these depths are predicted to add to the cost of a user."""
        d, sd, k, before, total = self.n_outputs, self.sd, self.n_clusters, 0.0, 0.0
        for depth in reversed(depths):
            s, seen = _side(depth), max(before, self.seen(depth, depths))
            bias = d * float((np.exp(-((2 * np.pi * _H * sd / s) ** 2)) * (s / _H) ** 2).sum())
            noise = (k * self.noise(depths)) ** 2 * d * (sd**2 + s**2 / 12)
            off = bias / (2 * np.pi**2) + noise / _all(2 * sd**2, s, d)
            total += (seen - before) * min(FAR, off)
            before = seen
        return total + (1 - before) * FAR

    def error_of_sums(
        self, depths: tuple[int, ...], depth: int, n_summing: float, variance: float
    ) -> float:
        """The same with vector sums at one of them; `variance` is that of a whole noised vector."""
        d, k, s = self.n_outputs, self.n_clusters, _side(depth)
        seen = max(self.seen(p, depths) for p in depths if p >= depth)
        own = _all(2 * self.sd**2, s, d)
        others = (k - 1) * _all(2 * (FAR / (d * self.scale**2) + self.sd**2), s, d)
        noise = k**2 * (1 + variance) * CELLS_PER_CLUSTER / (own * n_summing)
        return (1 - seen + others / (own + others) / 2) * FAR + noise

    def best(self, tried: list[tuple[int, ...]] | None = None) -> tuple[int, ...]:
        """The depths with the least predicted error."""
        return min(tried or runs_of_depths(self.n_outputs), key=self.error)

    def best_for_sums(
        self, n_summing: float, variance: float, tried: list[tuple[int, ...]] | None = None
    ) -> tuple[tuple[int, ...], int]:
        """The depths of the counts, and the one of them for the sums."""
        return min(
            ((p, q) for p in tried or runs_of_depths(self.n_outputs) for q in p),
            key=lambda pair: self.error_of_sums(pair[0], pair[1], n_summing, variance),
        )


def meet(variance: float, side: float) -> float:
    """Probability that two values that differ by N(0, variance) share an interval of this length.

    The intervals lie at random: the mean of max(0, 1 - |X|/side).
    """
    u = side / math.sqrt(2 * variance)
    return float(erf(u) + math.expm1(-(u**2)) / (u * math.sqrt(math.pi)))


def _all(variance: float, side: float, n_axes: int) -> float:
    """`meet` on all axes at once."""
    return max(meet(variance, side) ** n_axes, 1e-300)


def runs_of_depths(n_outputs: int, *, below: int = 0) -> list[tuple[int, ...]]:
    """Runs of depths whose cells a server can list, in a cube 2^below times as wide as the ball."""
    runs = []
    for first in range(1, DEEPEST + 1):
        cells = 2 ** min(n_outputs * (first + below), 63)
        deeper = min(cells, MAX_SURVIVORS) << min(n_outputs, 63)
        for size in range(1, 1 + (MOST if deeper <= MAX_CELLS else 1)):
            if cells <= LISTED and first + size - 1 <= DEEPEST:
                runs.append(tuple(range(first, first + size)))
    return runs or [(1, 2)]  # which is refused in words


def _side(depth: int) -> float:
    return float(2.0 ** (1 - depth))
