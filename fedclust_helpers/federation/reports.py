"""What one user sends under local privacy: a query's two sides, public coins, a Gaussian report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers import _fast
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.accounting.ledger import Accountable
from fedclust_helpers.mechanisms import DiscreteGaussian, Gaussian, Mechanism, NoiseSource

Words = NDArray[np.uint64]
Reports = tuple[NDArray[np.generic], ...]

MAX_EPSILON = 10_000.0  # of a Gaussian report: beyond, nothing is hidden and floats give out


class LocalQuery(Protocol):
    """One question to every user of a group, asked once."""

    @property
    def name(self) -> str: ...
    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def mechanisms(self) -> tuple[Accountable, ...]: ...
    @property
    def public(self) -> Mapping[str, ArrayLike]: ...

    def check(self, n_features: int) -> None: ...
    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports: ...
    def collect(self, users: IntArray, reports: Reports) -> None: ...


def as_words(values: ArrayLike) -> Words:
    """Integers >= 0 as 64-bit words; no copy is made of those that are words already."""
    array = np.asarray(values)
    return array.view(np.uint64) if array.dtype == np.int64 else array.astype(np.uint64, copy=False)


def public_coins(seed: int, users: IntArray | Words) -> Words:
    """One public 64-bit word for each user number, the same for everybody who knows `seed`.

    The finaliser of SplitMix64 on ``seed + golden ratio * user``: anyone can compute any user's
    coin, and no coin depends on data. Coins carry no privacy, so they need no cipher.
    """
    words = as_words(users)
    loop = _fast.fast(_fast.coins, _fast.PER_USER * words.size)
    if loop is not None and words.ndim == 1:
        out = np.empty(len(words), dtype=np.uint64)
        loop(np.ascontiguousarray(words), np.uint64(seed), out)
        return out
    z = np.array(words)  # a fresh array: the steps below work in place
    with np.errstate(over="ignore"):
        z *= np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


def gaussian_report(
    radius: float,
    epsilon: float,
    delta: float,
    *,
    calibration: Literal["analytic", "as_printed"] = "analytic",
    grid: float | None = None,
    n_features: int = 1,
) -> Mechanism:
    """Noise for one vector g(x) with public bound sup ||g|| = `radius`, sent as ±g(x) + noise.

    Two values of one user, with signs that depend on them, differ by at most 2 sup ||g||: that is
    the sensitivity. (Algorithm 6 uses the sensitivity of g alone, which is 0 for a constant g:
    claims P7, F13.)

    (epsilon, delta) is that of one report, any two values of one user. Calibration "analytic" is
    exact for any epsilon; "as_printed" is the standard deviation 2 c_G Delta_g/eps of Algorithm 6,
    Delta_g = 2 radius, c_G = sqrt(2 ln(1.25/delta)): for a ball a factor 2 too much, proved for
    epsilon < 1 only; the ledger charges what it really gives. With a `grid` the noise is a discrete
    Gaussian on its multiples, for the secure source; the slack of rounding `n_features` coordinates
    is added to the sensitivity.
    """
    if grid is not None and calibration == "as_printed":
        raise ValueError("grid must not be given with calibration 'as_printed': it is continuous")
    sensitivity = 2 * radius
    if calibration == "as_printed":
        std = 2 * math.sqrt(2 * math.log(1.25 / delta)) * (2 * radius) / epsilon
        return Gaussian(sensitivity, std, "replace-one")
    if grid is not None:
        # each of two reports is rounded by half a step in each coordinate
        sensitivity += math.sqrt(n_features) * grid
        if radius / grid > 2.0**52:
            raise ValueError(f"grid must be at least 2^-52 of the radius {radius:g}, got {grid:g}")
        return DiscreteGaussian.from_budget(
            sensitivity, epsilon, delta, grid=grid, adjacency="replace-one",
            n_coordinates=n_features,
        )  # fmt: skip
    std = sensitivity * gaussian_sigma_analytic(epsilon, delta)
    return Gaussian(sensitivity, std, "replace-one")
