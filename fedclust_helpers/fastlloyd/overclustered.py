"""Over-clustered Lloyd: FastLloyd's guarantee, spent in the order in which it helps.

Three changes to FastLloyd, all of them releases of masked sums or post-processing:

* *find the data first*: a noised histogram (one or two columns), or two noised moments (more);
* *cut instead of drop*: a row that lies far from its centre pulls with length `radius`, so the
  radius can shrink, and with it the noise;
* *over-cluster*: the noised rounds move many centres, as many as the rows can fill: what comes back
  is a small weighted copy of the data (a coreset). k-means of it, from twenty starts, is free of
  charge; one or two more rounds settle its k centres. After moments, centres whose noised count is
  nothing move beside the fullest.

k itself can be chosen from the same copy (``n_clusters="auto"``).

Budgets are shares of mu^2 (Gaussian DP): a release with noise multiplier z costs 1/z^2, and the
shares of a plan add up to 1. What is released is decided by public numbers only.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import CELL_COUNTS, CUT_STEPS, MAX_CELLS
from fedclust_helpers.fastlloyd.algorithm import default_delta, of_points
from fedclust_helpers.fastlloyd.copies import WeightedCopy, filled_means
from fedclust_helpers.fastlloyd.parameters import measured_excess
from fedclust_helpers.fastlloyd.postprocessing import (
    cell_centers,
    elbow,
    even_spread,
    likely_level,
    simplex,
    soft_rank,
)
from fedclust_helpers.fastlloyd.rounds import (
    ROWS_OF_A_CLUSTER,
    Branch,
    checked_range,
    largest_k,
    parts_of,
    rounds_for,
)
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import Algorithm, Options, Public, Release, Steps, gaussian

BOX = 2.5  # standard deviations from the mean to the sides of the box of the data
VARIANCE, VARIANCE_SPREAD = 0.12, 0.6  # of a column in [-1, 1]: median, and how far off in the log
IDLE, ASIDE = 1.0, 0.2  # counts in noises below which a centre moves, and how far beside: in radii
PULL = 0.25  # of centres to the mean by singular values, where columns are many
BORNE, LONGEST = 0.002, 4.0  # share of the cost that noise may add for a longer radius; its most


class Found(NamedTuple):
    """Centres (k, d), and the weighted copy of the data that they were found in first.

    `costs_by_k` has rows (k, cost per point) where k was chosen from it, else none.
    """

    centers: FloatArray
    copy: WeightedCopy
    costs_by_k: FloatArray


def overclustered(
    public: Public, sigma: float, *, n_clusters: int | Literal["auto"],
    branch: Branch | Literal["auto"] = "auto", k_range: tuple[int, int] | None = None,
) -> Steps:  # fmt: skip
    """Over-clustered Lloyd for a total of (epsilon, delta), add/remove one point.

    Parameters
    ----------
    public : Public
        Facts and coins. The plan takes the `federation` that will run it, ideal, masked or
        serverless.
    sigma : float
        Noise multiplier of all rounds together. The plan takes `epsilon` and `delta`, the total,
        and finds the least; delta is 1/(N ln N) by default, which tells the federation's
        `n_records` N.
    n_clusters : int or "auto"
        "auto" chooses k within `k_range` from the many centres before the merge. It costs nothing.
    branch : {"auto", "grid", "moments"}
        How the data is found: "grid" in one or two columns, else "moments".
    k_range : (int, int), optional
        Smallest and largest k for "auto", public; (2, 48) by default. The largest is never more
        than leaves 30 rows to a cluster for each noise of a count.

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    if branch == "auto":
        branch = "grid" if public.facts.n_features <= 2 else "moments"
    k = int(n_clusters)
    if k_range is not None:
        k = largest_k(public.facts.n_records, 1 / sigma, k_range)
        k_range = k_range[0], k
    server = Server(public, sigma, k, branch, k_range)
    return (yield from (server.grid if branch == "grid" else server.moments)())


class Server:
    """The releases of one run, and what the server makes of them."""

    def __init__(
        self, public: Public, sigma: float, n_clusters: int, branch: Branch,
        k_range: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        f = public.facts
        self.public, self.rng, self.sigma = public, public.coins, sigma
        self.n, self.d, self.bound = f.n_records, f.n_features, f.bound
        self.k = self.n_planned = n_clusters
        self.k_range, self.costs = k_range, np.zeros((0, 2))
        self.rounds = rounds_for(branch, self.n, self.d, self.k, 1 / sigma)  # still to come

    def ask(self, **broadcast: Any) -> Steps:
        """The next release."""
        one = self.rounds.pop(0)
        shares = parts_of(one, self.d)
        noise = [gaussian(self.sigma / math.sqrt(one.share * share)) for share in shares]
        return (yield Release(one.statistic, noise, **broadcast))

    def cut(self, centers: FloatArray) -> FloatArray:
        """Centres within the box."""
        return kmeans.truncate(centers, bound=self.bound)

    def step(self, centers: FloatArray, radius: float, cap: float) -> Steps:
        """Steps of a cut round, at most `cap` long; their noise variance; counts.

        At last the standard deviations of the noise in sums and in counts.
        """
        # where k is chosen later than planned for, copies fill the message: they hold nothing
        message = centers[np.resize(np.arange(len(centers)), self.rounds[0].size)]
        answer = yield from self.ask(centers=message, radius=radius)
        (sums, counts), (std_sums, std_counts) = answer, answer.std
        sums, counts = sums[: len(centers)], counts[: len(centers)]
        divisor = np.maximum(counts, max(1.0, std_counts))
        steps = kmeans.shortened(radius * sums / divisor[:, None], cap)
        noise = radius * std_sums, std_counts
        return steps, (noise[0] / divisor) ** 2, counts, noise

    # --- where the data lie

    def grid(self) -> Steps:
        """Few columns: a histogram, and many centres on the cells that hold something."""
        lower, upper = np.full(self.d, -self.bound), np.full(self.d, self.bound)
        while self.rounds[0].statistic is CELL_COUNTS:
            cells = self.rounds[0].size
            (counts,) = yield from self.ask(lower=lower, upper=upper, n_per_axis=cells)
            places, weights = cell_centers(lower, upper, cells), simplex(counts, self.n)
            mean = weights @ places / self.n
            variance = weights @ (places - mean) ** 2 / self.n + ((upper - lower) / cells) ** 2 / 12
            if self.rounds[0].statistic is CELL_COUNTS:  # a coarse grid: where the data lie
                lower = np.maximum(lower, mean - BOX * np.sqrt(variance))
                upper = np.minimum(upper, mean + BOX * np.sqrt(variance))
        half, filled = float(np.linalg.norm(upper - lower)) / 2, int(np.count_nonzero(weights > 0))
        size = self.rounds[0].size
        centers = filled_means(
            places, weights, max(self.k, min(size, filled // 2)), rng=self.rng, n_init=3,
            cluster=self.public.kmeans,
        )  # fmt: skip
        centers = centers[np.resize(np.arange(len(centers)), size)]  # copies hold nothing
        return (yield from self.settled(centers, mean, variance, half, self.shrunk))

    def mean_and_variance(self) -> Steps:
        """Mean and variances by column, each shrunk by its noise; the mean variance is likely."""
        d, bound, middle = self.d, self.bound, self.bound**2 / 2
        answer = yield from self.ask(middle=middle)
        (sums, squares), (std_sums, std_squares) = answer, answer.std
        mean = sums / self.n
        mean = mean * kmeans.shrinkage(mean[None], np.array([d * (std_sums / self.n) ** 2]))[0]
        variance = squares / self.n + middle - mean**2
        common = float(variance.mean())
        off = (variance - common)[None]
        noise = np.array([d * (std_squares / self.n) ** 2])
        variance = common + off[0] * kmeans.shrinkage(off, noise)[0]
        noisy = std_squares / self.n / math.sqrt(d)
        total = d * likely_level(common, noisy, VARIANCE * bound**2, VARIANCE_SPREAD)
        found = variance.sum()
        variance = variance * (total / found) if found > 0 else np.full(d, total / d)
        variance = np.maximum(variance, 1e-3 * total / d)
        return self.cut(mean), variance * (total / variance.sum())

    def moments(self) -> Steps:
        """More columns: noised moments; many centres spread evenly over them."""
        mean, variance = yield from self.mean_and_variance()
        spread = even_spread(self.rounds[0].size, self.d, rng=self.rng, cluster=self.public.kmeans)
        centers, scale = self.cut(mean + np.sqrt(3 * variance) * spread), math.sqrt(variance.sum())
        return (yield from self.settled(centers, mean, variance, scale, self.pulled))

    # --- many centres, a copy of the data; k centres

    def settled(
        self, centers: FloatArray, mean: FloatArray, variance: FloatArray, scale: float, moved: Any
    ) -> Steps:
        """Rounds of many centres, k-means of what they hold, rounds of k centres."""
        while self.rounds[0].size > self.n_planned:
            radius = self.rounds[0].radius * scale
            centers, counts, noise = yield from moved(centers, radius, mean)
            if self.rounds[1:] and self.rounds[1].size > self.n_planned:
                centers = self.cut(self.employed(centers, counts, noise[1], ASIDE * radius))
        copy = self.copied(centers, counts, noise, variance)
        if self.k_range is not None and not self.public.dry:  # the plan leaves k open
            self.costs = copy.costs(self.k_range, rng=self.rng)
            self.k = elbow(self.costs)
        centers = copy.centers(self.k, rng=self.rng, cluster=self.public.kmeans)  # free of charge
        typical = math.sqrt(copy.cost(centers))
        while self.rounds:
            radius = max(self.rounds[0].radius * scale, self.borne() * typical)
            centers, *_ = yield from moved(centers, radius, mean)
        return Found(centers, copy, self.costs)

    def copied(
        self, places: FloatArray, counts: FloatArray, noise: tuple[float, float],
        variance: FloatArray,
    ) -> WeightedCopy:  # fmt: skip
        """The copy of the data: `variance` that is not between its places is around them."""
        weights = simplex(counts, self.n)
        between = weights @ (places - weights @ places / self.n) ** 2 / self.n
        std_sums, std_weights = (np.full(len(places), std) for std in noise)
        return WeightedCopy(
            places, weights, std_weights, std_sums,
            scatter=max(0.0, float((variance - between).sum())),
            noise=self.public.facts.more_noise * self.sigma,
        )  # fmt: skip

    def borne(self) -> float:
        """How many typical distances a radius may be long: noise grows with it, cutting shrinks."""
        share, rows = self.rounds[0].share * parts_of(self.rounds[0], self.d)[0], self.n / self.k
        return min(LONGEST, math.sqrt(BORNE * share / self.d) * rows / self.sigma)

    def employed(
        self, centers: FloatArray, counts: FloatArray, noise: float, side: float
    ) -> FloatArray:
        """Centres of which those without records moved beside those with the most.

        In many columns a centre may be nearest to several groups, and others to none: they would
        stay so for ever. Two that lie `side` apart cut the records of one between them, and part
        if these are two groups. Noised counts decide, so it is free of charge.
        """
        centers, load = centers.copy(), np.where(counts > IDLE * noise, counts, 0.0)
        for idle in np.flatnonzero(load == 0):
            fullest = int(load.argmax())
            if load[fullest] <= 2 * IDLE * noise:
                break
            load[fullest] /= 2
            way = self.rng.standard_normal(self.d)
            centers[idle] = centers[fullest] + side * way / np.linalg.norm(way)
        return centers

    def shrunk(self, centers: FloatArray, radius: float, mean: FloatArray) -> Steps:
        """A cut round whose steps shrink by their own noise: (1 - d v/|step|^2)+."""
        steps, variance, counts, noise = yield from self.step(centers, radius, math.inf)
        steps *= kmeans.shrinkage(steps, self.d * variance)[:, None]
        return self.cut(centers + kmeans.shortened(steps, radius)), counts, noise

    def pulled(self, centers: FloatArray, radius: float, mean: FloatArray) -> Steps:
        """A cut round, then a pull towards the mean: (1 - d v/(2 |C - m|^2))+ for each centre.

        With more than 6 k columns all centres are pulled together, by their singular values.
        """
        steps, variance, counts, noise = yield from self.step(centers, radius, 1.5 * radius)
        away = centers + steps - mean
        if self.d > 6 * self.k:
            away = soft_rank(away, np.sqrt(variance), PULL)
        else:
            away = away * kmeans.shrinkage(away, self.d * variance / 2)[:, None]
        return self.cut(mean + away), counts, noise


# --- what the planner knows -----------------------------------------------------------------------


def _checked(facts: FederationFacts, options: Options) -> Options:
    """Options with the largest k, and its range where it is chosen later."""
    k, k_range, branch = (options[name] for name in ("n_clusters", "k_range", "branch"))
    if k == "auto":
        k_range = checked_range(k_range)
        k = k_range[1]
    elif k_range is not None:
        raise ValueError("k_range must not be given unless n_clusters is 'auto'")
    options = of_points(facts, options | {"n_clusters": k, "k_range": k_range})
    if branch == "grid" and 2**facts.n_features > MAX_CELLS:
        raise ValueError(
            f"branch must not be 'grid' for {facts.n_features} features: too many cells"
        )
    return options


def _foreseen(plan: Plan) -> tuple[float | None, str]:
    """What such a plan added to the cost where it was measured, unless k is chosen later."""
    if plan.options["k_range"] is not None:
        return None, ""
    typical, most, settings = measured_excess(
        plan.facts.n_records, plan.n_clusters, honest_mu(plan)
    )
    return typical, (
        f"above the cost of non-private k-means, as a share, was typical in the {settings} settings"
        f" measured with about as many rows to a cluster; in nine of ten of these, nine of ten runs"
        f" stayed below {most:.2g}. Data of another shape may do worse"
    )


def honest_mu(plan: Plan) -> float:
    """1 over the noise multiplier of a plan, with the shares of clients who may not be honest."""
    return float(1 / (plan.facts.more_noise * plan.dial))


def _says(plan: Plan, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The statement tells of the copy, and what was measured; where k is chosen, among which."""
    n, sent = plan.facts.n_records, [r.numbers for r in plan.releases if r.name == CUT_STEPS.name]
    points = sent[0] // (plan.n_features + 1)
    most = min(points, largest_k(n, honest_mu(plan), (1, n)))
    copy = (
        f"{points} centres with noised counts are released on the way, a"
        " weighted copy of the data. Another number of clusters, found in it, costs nothing (up to"
        f" {most} have {ROWS_OF_A_CLUSTER:g} rows for each noise of a count); another fit of"
        " these rows costs its epsilon again. Copies of batches with no row in common can be put"
        " together"
    )
    pairs = [*pairs, ("copy", copy)]
    if plan.options["k_range"] is None:
        return [("cost", text) if heading == "predicted" else (heading, text)
                for heading, text in pairs]  # fmt: skip
    low, high = plan.options["k_range"]
    most = largest_k(plan.facts.n_records, 1 / plan.dial, (low, high))
    at = [heading for heading, _ in pairs].index("public")
    text = pairs[at][1].replace(f" {high} clusters", f" {low} to {most} clusters")
    chosen = "afterwards, from what is released below; nothing more is released or charged"
    if most < high:
        chosen += f". More than {most} clusters of so few rows would be noise"
    return [*pairs[:at], ("public", text), ("k is chosen", chosen), *pairs[at + 1 :]]


OVERCLUSTERED = Algorithm(
    name="over-clustered Lloyd", steps=overclustered, check=_checked, default_delta=default_delta,
    predict=_foreseen, says=_says,
)  # fmt: skip
plan_overclustered = OVERCLUSTERED.planner("plan_overclustered")
