"""The two units of privacy: which statistic each step sums, and the clip bounds of client level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import client_statistics as cs
from fedclust_helpers._validation import as_points, check_int, check_positive
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.program import Noise, Release


@dataclass(frozen=True)
class ClipBounds:
    """Client-level clip bounds (Appendix G.4): public numbers, chosen without looking at the data.

    `outer` is the Frobenius norm of a client's X^T X, `weights` the L1 norm of its histogram over
    server points, `means` the L2 norm of its k x d matrix of cluster means, `filled` the L1 norm of
    the 0/1 vector of its clusters; `sums` and `counts` are L2 and L1 norms in FedDP-Lloyds.

    >>> ClipBounds(outer=50.0, weights=200.0, means=3.0, filled=4.0, sums=100.0, counts=200.0).means
    3.0
    """

    outer: float
    weights: float
    means: float
    filled: float
    sums: float
    counts: float

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            if not 1e-100 < check_positive(getattr(self, name), name) < 1e100:
                raise ValueError(f"{name} must lie between 1e-100 and 1e100")

    @classmethod
    def suggest(
        cls, server_points: ArrayLike, *, rows_per_client: int, n_clusters: int
    ) -> ClipBounds:
        """Bounds from server data and public counts: what a typical client would need.

        With r2 = mean squared norm of the server points and n = `rows_per_client` independent
        rows: ||X^T X||_F is the root of its expected square under the server's moments, n rows
        fill k (1 - (1 - 1/k)^n) clusters, the matrix of means has length sqrt(filled r2), that of
        the sums n sqrt(r2/min(k, n)).
        """
        server = as_points(server_points, "server_points")
        n = check_int(rows_per_client, "rows_per_client", maximum=10**12)
        k = check_int(n_clusters, "n_clusters", maximum=10**12)
        norms = np.einsum("ij,ij->i", server, server)
        if not 0 < norms.max() < 1e100:
            raise ValueError("server_points must have lengths between 0 and 1e50, not all 0")
        r2 = float(norms.mean())
        second = server.T @ server / len(server)
        # a sample of n rows: E||X^T X||_F^2 = n E||x||^4 + n (n - 1) ||E x x^T||_F^2
        fourth = float((norms**2).mean())
        outer = math.sqrt(n * fourth + n * (n - 1) * float((second**2).sum()))
        filled = k * (1 - (1 - 1 / k) ** n)
        return cls(
            outer, 1.0, math.sqrt(filled * r2), filled, n * math.sqrt(r2 / min(k, n)), float(n)
        )


class Step(NamedTuple):
    """One release: its statistic, and the public clip bounds that every client is sent with it."""

    statistic: ClientStatistic
    clips: Mapping[str, Any] = {}

    def ask(self, *noise: Noise, **broadcast: Any) -> Release:
        """The noised sum over all clients."""
        return Release(self.statistic, noise, **broadcast, **self.clips)


class Level(NamedTuple):
    """The steps of FedDP-Init and FedDP-Lloyds for one unit of privacy."""

    outer: Step
    weights: Step
    means: Step
    lloyd: Step


def level_of(unit: str, clips: ClipBounds | None) -> Level:
    """Statistics for one point (no clips) or one client (clips needed)."""
    if unit == "point":
        if clips is not None:
            raise ValueError("clips must be None at data-point level (the ledger's unit is point)")
        return Level(
            Step(cs.OUTER_PRODUCT), Step(cs.SERVER_POINT_WEIGHTS),
            Step(cs.PROJECTED_SUMS_AND_COUNTS), Step(cs.BALL_SUMS_AND_COUNTS),
        )  # fmt: skip
    if clips is None:
        raise ValueError("clips must be given at client level (see ClipBounds.suggest)")
    return Level(
        Step(cs.CLIENT_OUTER_PRODUCT, {"clip_outer": clips.outer}),
        Step(cs.CLIENT_SERVER_POINT_WEIGHTS, {"clip_weights": clips.weights}),
        Step(cs.CLIENT_MEANS, {"clip_means": clips.means, "clip_filled": clips.filled}),
        Step(cs.CLIENT_SUMS_AND_COUNTS, {"clip_sums": clips.sums, "clip_counts": clips.counts}),
    )


def residual_step(clip: float, rows_per_client: int | None) -> Step:
    """Relative sums of the adaptive variant, cut to `clip` per row (no `rows_per_client`: one point
    is protected) or per client."""
    if rows_per_client is None:
        return Step(cs.CUT_RELATIVE_SUMS_AND_COUNTS, {"radius": clip})
    return Step(
        cs.CLIENT_RELATIVE_SUMS_AND_COUNTS,
        {"clip_sums": clip, "clip_counts": float(rows_per_client)},
    )
