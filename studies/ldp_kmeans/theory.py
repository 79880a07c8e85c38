"""The paper's lemmas as functions: what is printed, what is right, and what an experiment gives.

Numbers of lemmas, lines and equations are those of the LDP paper (Chaturvedi, Jones, Nguyen).
Nothing here touches a federation: points are plain arrays, and no budget is spent.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.spatial.distance import pdist
from scipy.special import gammaln

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, IntArray, as_points
from fedclust_helpers.accounting import gdp_delta, gdp_epsilon
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question, ask_values
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from studies.ldp_kmeans.bounds import collision_probability

BLOCK = 2**22  # numbers that are held at once

# --- splitting users, splitting the budget --------------------------------------------------------


def response_factor(epsilon: float) -> float:
    """c = (e^eps + 1)/(e^eps - 1): what one-bit counts are multiplied with to be unbiased."""
    return RandomizedResponse(epsilon).debias


def split_users_std(n: int, epsilon: float, n_mechanisms: int, m: int = 1) -> float:
    """sd of a count when each of n users answers m of M questions: ``c(epsilon/m) sqrt(n M/m)``."""
    return response_factor(epsilon / m) * math.sqrt(n * n_mechanisms / m)


def split_budget_std(n: int, epsilon: float, n_mechanisms: int) -> float:
    """The same when all users answer all M questions: ``c(epsilon/M) sqrt(n)``."""
    return split_users_std(n, epsilon, n_mechanisms, n_mechanisms)


# --- oracles: Lemmas 2.11 and 2.12 (P6 to P9) -----------------------------------------------------


def count_rms(n: int, epsilon: float, *, rng: np.random.Generator, n_buckets: int = 1024) -> float:
    """Root mean square error of one-bit counts over the empty buckets, n users (claim P9).

    Lemma 2.11 promises O(sqrt(n log(n/beta))/epsilon); theory for the oracle: c sqrt(n).
    """
    oracle = OneBitCounts(
        lambda points, _: Question(np.zeros(len(points), dtype=np.uint64)), epsilon, rng=rng,
        n_buckets=n_buckets,
    )  # fmt: skip
    ask_values(oracle, np.zeros((n, 1)), rng=rng)
    empty = np.delete(oracle.spectrum[0], oracle.buckets(np.zeros(1, dtype=np.uint64)))
    return float(np.sqrt(np.mean(empty**2)))


class SumsError(NamedTuple):
    """Errors ||S(v) - true|| over values, the rms that theory gives, and the lemma's bound."""

    errors: FloatArray
    rms: float
    bound: float


def sums_error(
    n: int,
    n_features: int,
    epsilon: float,
    delta: float,
    *,
    rng: np.random.Generator,
    calibration: Literal["analytic", "as_printed"] = "as_printed",
    radius: float = 0.5,
    n_values: int = 64,
    beta: float = 0.1,
) -> SumsError:
    """HeavySumsOracle on random vectors of length `radius`, n users over `n_values` values (P6).

    Lemma 2.12 with Delta = 2 radius. Theory: rms^2 = n (E||g||^2 + d' sigma^2). (The lemma's
    "for every v" needs ln(n/beta); its proof holds for one v.)
    """
    mechanism = gaussian_report(radius, epsilon, delta, calibration=calibration)
    bound = lemma_2_12_bound(n, n_features, 2 * radius, epsilon, delta, beta)
    values, vectors = rng.integers(n_values, size=n), rng.normal(size=(n, n_features))
    vectors *= radius / np.linalg.norm(vectors, axis=1, keepdims=True)
    oracle = HeavySums(
        lambda points, _: (points[:, 0].astype(np.uint64), points[:, 1:]), radius, n_features,
        mechanism, rng=rng,
    )  # fmt: skip
    ask_values(oracle, np.column_stack([values, vectors]), rng=rng)
    truth = np.zeros((n_values, n_features))
    np.add.at(truth, values, vectors)
    errors = oracle.estimate(np.arange(n_values, dtype=np.uint64)) - truth
    rms = oracle.rms_error(n, radius**2 * (1 - 1 / n_values))
    return SumsError(np.linalg.norm(errors, axis=1), rms, bound)


def lemma_2_12_bound(
    n_users: int, n_features: int, delta_norm: float, epsilon: float, delta: float, beta: float
) -> float:
    """Lemma 2.12's bound on ||S(v) - true|| for one v, with Delta_g = Delta.

    ``2 Delta sqrt(2 n ln((d'+1)/beta)) + 4 c_G Delta/epsilon sqrt(2 d' n ln(4/beta))``
    """
    c_g = math.sqrt(2 * math.log(1.25 / delta))
    first = 2 * delta_norm * math.sqrt(2 * n_users * math.log((n_features + 1) / beta))
    second = 4 * c_g * delta_norm / epsilon
    return first + second * math.sqrt(2 * n_features * n_users * math.log(4 / beta))


class PrintedNoise(NamedTuple):
    """What Algorithm 6 claims, and what its noise gives: std, sensitivity, epsilon at delta."""

    claimed_epsilon: float
    std: float
    sensitivity: float
    true_epsilon: float


def printed_sums_truth(
    epsilon: float, delta: float, *, center_norm: float, radius: float
) -> PrintedNoise:
    """The privacy of Algorithm 6 as printed when g stays in B(centre, radius) (claims P7, F13).

    The noise, 2 c_G Delta_g/epsilon, is calibrated to Delta_g = 2 radius. But the report ``Z g(x)``
    with a sign Z that depends on f(x) can change by ``2 sup||g|| = 2 (center_norm + radius)``. With
    radius 0 there is no noise, and the sign of the report reveals f(x).
    """
    sensitivity = 2 * (center_norm + radius)
    std = 2 * math.sqrt(2 * math.log(1.25 / delta)) * (2 * radius) / epsilon
    if std == 0:
        return PrintedNoise(epsilon, std, sensitivity, math.inf if sensitivity else 0.0)
    return PrintedNoise(epsilon, std, sensitivity, gdp_epsilon(sensitivity / std, delta))


def algorithm_5_true_delta(epsilon: float, delta: float) -> float:
    """The true delta of Algorithm 5, line 7, at the claimed epsilon.

    Its noise 2 c_G^2/epsilon^2 is for sensitivity sqrt(2); points p, -p of one cluster differ by 2.
    """
    std = math.sqrt(2) * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return gdp_delta(2 / std, epsilon)


class CrossTerms(NamedTuple):
    """How often the step of the proof fails, and the exact share for large n."""

    violated: float
    limit: float


def cross_term_violation(
    n: int, n_features: int, *, rng: np.random.Generator, n_trials: int = 2000
) -> CrossTerms:
    """How often ``||sum b_j eta_j||^2 <= 2 sum ||eta_j||^2`` fails for Gaussian eta (claim P8).

    The proof of Lemma 2.12 uses it as a fact. For three equal vectors it says 9 <= 6. What is true:
    the sum of n signed standard Gaussians is N(0, n I), so the limit is P(chi^2_d > 2 d).
    """
    d = n_features
    total, squares = np.empty(n_trials), np.empty(n_trials)
    step = max(1, BLOCK // (n * d))
    for start in range(0, n_trials, step):
        eta = rng.normal(size=(min(step, n_trials - start), n, d))
        signs = rng.choice([-1.0, 1.0], size=(len(eta), n, 1))
        total[start : start + step] = ((signs * eta).sum(axis=1) ** 2).sum(axis=1)
        squares[start : start + step] = (eta**2).sum(axis=(1, 2))
    return CrossTerms(float(np.mean(total > 2 * squares)), float(stats.chi2.sf(2 * d, d)))


# --- dimension reduction: Lemmas 2.6 and 2.8, Theorem 2.7, Lemma 4.12 (P1 to P5) ------------------


def pairwise_cost(points: ArrayLike) -> float:
    """sum over ordered pairs ||p - q||^2/(2 |C|): equals sum ||p - mean||^2 (claim P1)."""
    return float(pdist(points, "sqeuclidean").sum() / len(np.asarray(points)))


def clustering_cost(points: ArrayLike, labels: ArrayLike) -> float:
    """Cost of a fixed clustering: squared distances to the means of its parts."""
    points = as_points(points)
    _, index, size = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(size), points.shape[1]))
    np.add.at(means, index, points)
    return float(((points - (means / size[:, None])[index]) ** 2).sum())


def projected_cost_ratio(
    points: ArrayLike, labels: ArrayLike, n_outputs: int, *, rng: np.random.Generator, n_maps: int
) -> FloatArray:
    """Cost of a fixed clustering after a random map to d dimensions, over its cost before (P3).

    Theorem 2.7 promises [1/(1 + alpha), 1 + alpha] at d = ln(k/(alpha beta))/alpha^2. Gaussian maps
    with entries of variance 1/d; one ratio for each, (n_maps,).
    """
    points, d = as_points(points), n_outputs
    before = clustering_cost(points, labels)
    maps = (rng.normal(size=(points.shape[1], d)) / math.sqrt(d) for _ in range(n_maps))
    return np.array([clustering_cost(points @ matrix, labels) / before for matrix in maps])


def longest_stretch(points: ArrayLike, n_outputs: int, *, rng: np.random.Generator) -> float:
    """max ||Tp||/||p|| over points (n, d') for one Gaussian map to d dimensions (claim P4)."""
    points, d = as_points(points), n_outputs
    width = points.shape[1]
    gram = np.zeros((width, width))  # T T^t: d may exceed d'
    step = max(1, BLOCK // width)
    for start in range(0, d, step):
        block = rng.normal(size=(width, min(step, d - start)))
        gram += block @ block.T
    images = np.einsum("ij,jk,ik->i", points, gram / d, points, optimize=True)
    return float(np.sqrt(np.max(images / np.einsum("ij,ij->i", points, points))))


class Stretch(NamedTuple):
    """A bound on max ||Tp||/||p||, as printed and corrected."""

    printed: float
    corrected: float


def stretch_bound(n_points: int, alpha: float, beta: float, n_outputs: int) -> Stretch:
    """Lemma 2.8, alpha sqrt(ln(n/beta)), and with the "1 +" of its own proof (claims P4, F14)."""
    log_term = math.log(n_points) - math.log(beta)
    return Stretch(alpha * math.sqrt(log_term), 1 + math.sqrt(2 * log_term / n_outputs))


def printed_scale(n_points: int, alpha: float, beta: float) -> float:
    """Line 2: "scale by 1/(alpha sqrt(ln(n/beta)))". Above 1 it blows points out of the ball."""
    return 1 / stretch_bound(n_points, alpha, beta, 1).printed


def expected_outside(n_points: int, alpha: float, n_outputs: int) -> float:
    """Unit vectors that the scale 1/(2(1 + alpha)) leaves outside B(0, 1/2) (P5, Lemma 4.12).

    n P(chi^2_d > d (1 + alpha)^2) grows with n, so d must contain ln n, or points are cut.
    """
    return float(n_points * stats.chi2.sf(n_outputs * (1 + alpha) ** 2, n_outputs))


# --- grids: line 8, Lemmas 3.3 and 4.2 (P10) ------------------------------------------------------


def grid_points_bound(n_clusters: int, n_features: int, alpha: float) -> int:
    """N_G of Lemma 3.3.2, by its proof: k 2^d C(d/alpha^2 + 1, d + 1) cells per level."""
    d = n_features
    return n_clusters * 2**d * math.comb(round(d / alpha**2) + 1, d + 1)


def discretised_cost(
    points: ArrayLike,
    depth: int,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    where: Literal["center", "corner"] = "center",
    n_init: int = 10,
) -> float:
    """Cost per point when k-means sees the centres (or corners, line 8) of cells, without noise."""
    points = as_points(points)
    grid = NestedGrid(points.shape[1])
    cells, weights = np.unique(grid.cells(points, depth), axis=0, return_counts=True)
    centers = grid.centers(cells, depth) if where == "center" else grid.corners(cells, depth)
    if len(centers) > n_clusters:
        centers = kmeans.weighted_kmeans(centers, weights, n_clusters, rng=rng, n_init=n_init)
    return kmeans.kmeans_cost(points, centers, normalize=True)


class NearbyCells(NamedTuple):
    """Mean number of nearby cells: measured, exact, and the product bound of Lemma 4.2."""

    mean: float
    exact: float
    bound: float


def mean_nearby_cells(
    n_features: int, n_shifts: int, *, rng: np.random.Generator, distance: float | None = None
) -> NearbyCells:
    """Cells of a randomly shifted unit grid within `distance` of a point (Lemma 4.2, claim P10).

    `distance` in cell sides, 1/d by default: the d matters. ``exact``: the volume of a unit cube
    grown by a ball, sum_j C(d, j) V_j r^j. ``bound``: (1 + 2r)^d, e^2 at most for r = 1/d.
    """
    d = n_features
    r = 1 / d if distance is None else distance
    position = rng.random((n_shifts, d))
    j = np.arange(d + 1)
    volumes = np.exp(j / 2 * math.log(math.pi) - gammaln(j / 2 + 1))  # of unit balls
    exact = sum(math.comb(d, i) * volumes[i] * r**i for i in range(d + 1))
    return NearbyCells(float(cells_within(position, r).mean()), float(exact), (1 + 2 * r) ** d)


def cells_within(positions: ArrayLike, distance: float) -> IntArray:
    """Cells of the unit grid Z^d within `distance` of each position (n, d): counts (n,).

    An integer position touches 2^d cells whatever the distance: Lemma 4.2 needs the random shift.
    """
    positions = as_points(positions, "positions")
    reach = math.floor(distance) + 1
    steps = np.arange(-reach, reach + 1)
    owner, squared = np.arange(len(positions)), np.zeros(len(positions))
    for axis in (positions - np.floor(positions)).T:
        below = axis[owner][:, None]
        gap = np.where(steps < 0, below - steps - 1, np.where(steps > 0, steps - below, 0.0))
        squared = (squared[:, None] + gap**2).ravel()
        near = squared <= distance**2
        owner, squared = repeat(owner, len(steps))[near], squared[near]
    return bincount(owner, minlength=len(positions))


def share_in_shifted_cell(
    n_features: int, *, rng: np.random.Generator, low: float = 0.0, side: float = 1.0
) -> float:
    """Share of a ball that stays in the cube [low, low + side)^d after a random shift.

    100,000 points uniform in B(0, 1/2), each shifted uniformly in [-1/2, 1/2]^d (Algorithm 4, lines
    2 to 5): almost nothing stays in the printed cube [0, 1)^d, all in the one of side 2, low = -1.
    """
    d, n = n_features, 100_000
    points = rng.normal(size=(n, d))
    points *= 0.5 * rng.random((n, 1)) ** (1 / d) / np.linalg.norm(points, axis=1, keepdims=True)
    points += rng.uniform(-0.5, 0.5, size=(n, d))
    return float(((points >= low) & (points < low + side)).all(axis=1).mean())


# --- locality-sensitive hashing: Lemmas 2.15 and 2.16 (P12 to P14) --------------------------------


def collision_ratio(t: int, c: float) -> float:
    """p(1)^2/p(c) of ball carving with w = t^(1/4), exact: what Lemma 2.15 calls Omega(B)."""
    return collision_probability(1.0, t) ** 2 / collision_probability(c, t)


class Lemma215(NamedTuple):
    """t for a wanted ratio B, the proof's lower bound over B, and the exact ratio over B."""

    t: float
    proved: float
    exact: float


def _c_prime(c: float) -> float:
    """c' = c^2/8 - 1/4 of Lemma 2.15, positive for c > sqrt(2)."""
    return c * c / 8 - 0.25


def lemma_2_15(B: float, c: float, *, as_printed: bool = True) -> Lemma215:  # noqa: N803
    """The choice of t in Lemma 2.15 and what it gives, as shares of the wanted ratio B (P12).

    Printed: sqrt(t) = (ln B + ln ln B)/c', and exp(c' sqrt(t))/t is then B/ln B, not Omega(B).
    Safe: sqrt(t) = (ln B + 2 ln ln B)/c'. `proved` is exp(c' sqrt(t))/(t B), without hidden
    constants; `exact` is p(1)^2/(p(c) B) at t rounded up.
    """
    log, prime = math.log(B), _c_prime(c)
    root = (log + (1 if as_printed else 2) * math.log(log)) / prime
    proved = math.exp(prime * root - log) / root**2
    return Lemma215(root**2, proved, collision_ratio(math.ceil(root**2), c) / B)


def exponent_ratio(c: float) -> float:
    """(1/c') (2c^2 - 1), at least 16: what "1/c' = O(1/(2c^2 - 1))" hides (claim P13)."""
    return (2 * c * c - 1) / _c_prime(c)


class FilterTrials(NamedTuple):
    """Lemma 2.16 in shifted grids: success, the promise p(1)/4, p(c), bound on the radius."""

    success: float
    promise: float
    p_far: float
    radius_bound: float


def lemma_2_16_trials(
    side: float, *, rng: np.random.Generator, c: float = 3.0, n_shifts: int = 4000
) -> FilterTrials:
    """Lemma 2.16 with the hash "cell of a randomly shifted grid in the plane" (claim P14).

    C: 200 points of a disc of diameter r = 1 with x_0 on its border; D: C and 2000 points of a disc
    of diameter 60 around it. p(1) = (1 - 1/(sqrt(2) side))^2, p(c) = max(0, 1 - c/side), exactly.
    A trial succeeds if the mean of all points in the cell of x_0 lies within
    cr + 8 p(c)|D| diam/(p(1)^2 |C|) of x_0 and at least p(1)|C|/2 points of C are among them.
    """
    n_near, n_far, diameter = 200, 2000, 60.0
    near = _disc(n_near, 0.5, rng)
    near[0] = (0.5, 0.0)  # x_0
    points = np.concatenate([near, _disc(n_far, diameter / 2, rng)])
    points -= near[0]
    p_near, p_far = (1 - 1 / (math.sqrt(2) * side)) ** 2, max(0.0, 1 - c / side)
    bound = c + 8 * p_far * len(points) / (p_near**2 * n_near) * diameter
    low = -rng.uniform(0, side, size=(n_shifts, 1, 2))  # cell of x_0
    won = np.empty(n_shifts, dtype=bool)
    step = max(1, BLOCK // (2 * len(points)))
    for start in range(0, n_shifts, step):
        corner = low[start : start + step]
        same = np.all((points >= corner) & (points < corner + side), axis=2)
        distance = np.linalg.norm(same @ points / same.sum(axis=1, keepdims=True), axis=1)
        enough = same[:, :n_near].sum(axis=1) >= p_near * n_near / 2
        won[start : start + step] = enough & (distance <= bound)
    return FilterTrials(float(won.mean()), p_near / 4, p_far, bound)


def _disc(n: int, radius: float, rng: np.random.Generator) -> FloatArray:
    angle = rng.uniform(0, 2 * math.pi, n)
    length = radius * np.sqrt(rng.random(n))
    return np.column_stack([length * np.cos(angle), length * np.sin(angle)])
