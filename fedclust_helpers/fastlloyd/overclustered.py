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
from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.client_statistics import CELL_COUNTS, MAX_CELLS
from fedclust_helpers.fastlloyd.algorithm import default_delta, of_points
from fedclust_helpers.fastlloyd.parameters import measured_excess
from fedclust_helpers.fastlloyd.postprocessing import (
    cell_centers,
    costs_by_k,
    elbow,
    even_spread,
    likely_level,
    shrinkage,
    simplex,
    soft_rank,
)
from fedclust_helpers.fastlloyd.rounds import (
    MOST_CLUSTERS,
    Branch,
    largest_k,
    parts_of,
    rounds_for,
)
from fedclust_helpers.federation import FederationFacts
from fedclust_helpers.program import (
    Algorithm,
    Options,
    Plan,
    Public,
    Release,
    Steps,
    gaussian,
)

STARTS = 20  # of the server's k-means: one start ends in a worse optimum in a quarter of the runs
BOX = 2.5  # standard deviations from the mean to the sides of the box of the data
VARIANCE, VARIANCE_SPREAD = 0.12, 0.6  # of a column in [-1, 1]: median, and how far off in the log
IDLE, ASIDE = 1.0, 0.2  # counts in noises below which a centre moves, and how far beside: in radii
PULL = 0.25  # of centres to the mean by singular values, where columns are many
BORNE, LONGEST = 0.002, 4.0  # share of the cost that noise may add for a longer radius; its most


class Found(NamedTuple):
    """Centres (k, d), and those before they were merged, with their weights.

    `costs_by_k` has rows (k, cost per point) where k was chosen from them, else none.
    """

    centers: FloatArray
    before_merge: FloatArray
    weights: FloatArray
    costs_by_k: FloatArray


def overclustered(
    public: Public, sigma: float, *, n_clusters: int | Literal["auto"],
    branch: Branch | Literal["auto"] = "auto", k_range: tuple[int, int] | None = None,
) -> Steps:  # fmt: skip
    """Over-clustered Lloyd for a total of (epsilon, delta), add/remove one point.

    Parameters
    ----------
    federation : Federation
        The one that will run the plan, ideal, masked or serverless.
    n_clusters : int or "auto"
        "auto" chooses k within `k_range` from the many centres before the merge. It costs nothing.
    epsilon, delta : float
        Total; delta is 1/(N ln N) by default, which tells the federation's `n_records` N.
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
        return np.clip(centers, -self.bound, self.bound)

    def means(self, points: FloatArray, weights: FloatArray, k: int, n_init: int) -> FloatArray:
        """Weighted k-means; places that hold nothing are left out, and k is filled with copies."""
        held = weights > 0
        points, weights = points[held], weights[held]
        if len(points) <= k:
            return points[np.resize(np.arange(len(points)), k)]
        return self.public.kmeans(points, weights, k, rng=self.rng, n_init=n_init)

    def step(self, centers: FloatArray, radius: float, cap: float) -> Steps:
        """Steps of a cut round, at most `cap` long; their noise variance; counts, their noise."""
        # where k is chosen later than planned for, copies fill the message: they hold nothing
        message = centers[np.resize(np.arange(len(centers)), self.rounds[0].size)]
        answer = yield from self.ask(centers=message, radius=radius)
        (sums, counts), (std_sums, std_counts) = answer, answer.std
        sums, counts = sums[: len(centers)], counts[: len(centers)]
        divisor = np.maximum(counts, max(1.0, std_counts))
        steps = shortened(radius * sums / divisor[:, None], cap)
        return steps, (radius * std_sums / divisor) ** 2, counts, std_counts

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
        centers = self.means(places, weights, max(self.k, min(size, filled // 2)), 3)
        centers = centers[np.resize(np.arange(len(centers)), size)]  # copies hold nothing
        return (yield from self.settled(centers, mean, variance, half, self.shrunk))

    def mean_and_variance(self) -> Steps:
        """Mean and variances by column, each shrunk by its noise; the mean variance is likely."""
        d, bound, middle = self.d, self.bound, self.bound**2 / 2
        answer = yield from self.ask(middle=middle)
        (sums, squares), (std_sums, std_squares) = answer, answer.std
        mean = sums / self.n
        mean = mean * shrinkage(mean[None], np.array([d * (std_sums / self.n) ** 2]))[0]
        variance = squares / self.n + middle - mean**2
        common = float(variance.mean())
        off = (variance - common)[None]
        noise = np.array([d * (std_squares / self.n) ** 2])
        variance = common + off[0] * shrinkage(off, noise)[0]
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
                centers = self.cut(self.employed(centers, counts, noise, ASIDE * radius))
        weights = simplex(counts, self.n)
        self.choose_k(centers, weights, self.spread(centers, weights, centers, variance))
        places, centers = centers, self.means(centers, weights, self.k, STARTS)  # free of charge
        typical = math.sqrt(self.spread(places, weights, centers, variance))
        while self.rounds:
            radius = max(self.rounds[0].radius * scale, self.borne() * typical)
            centers, *_ = yield from moved(centers, radius, mean)
        return Found(centers, places, weights, self.costs)

    def spread(
        self, places: FloatArray, weights: FloatArray, centers: FloatArray, variance: FloatArray
    ) -> float:
        """Mean squared distance of rows to centres: of places that stand for them at least."""
        labels, squared = kmeans.assign(places, centers)
        loads = np.bincount(labels, weights, len(centers)) / self.n
        between = loads @ (centers - loads @ centers) ** 2
        return max(float(weights @ squared / self.n), float((variance - between).sum()))

    def borne(self) -> float:
        """How many typical distances a radius may be long: noise grows with it, cutting shrinks."""
        share, rows = self.rounds[0].share * parts_of(self.rounds[0], self.d)[0], self.n / self.k
        return min(LONGEST, math.sqrt(BORNE * share / self.d) * rows / self.sigma)

    def choose_k(self, places: FloatArray, weights: FloatArray, within: float) -> None:
        """Where the plan leaves k open: the best k for these places."""
        if self.k_range is not None and not self.public.dry:
            self.costs = costs_by_k(places, weights, self.k_range, within, rng=self.rng)
            self.k = elbow(self.costs)

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
        steps *= shrinkage(steps, self.d * variance)[:, None]
        return self.cut(centers + shortened(steps, radius)), counts, noise

    def pulled(self, centers: FloatArray, radius: float, mean: FloatArray) -> Steps:
        """A cut round, then a pull towards the mean: (1 - d v/(2 |C - m|^2))+ for each centre.

        With more than 6 k columns all centres are pulled together, by their singular values.
        """
        steps, variance, counts, noise = yield from self.step(centers, radius, 1.5 * radius)
        away = centers + steps - mean
        if self.d > 6 * self.k:
            away = soft_rank(away, np.sqrt(variance), PULL)
        else:
            away = away * shrinkage(away, self.d * variance / 2)[:, None]
        return self.cut(mean + away), counts, noise


def shortened(steps: FloatArray, most: float) -> FloatArray:
    """Rows (m, d) cut to length `most`."""
    length = np.linalg.norm(steps, axis=1)
    return steps * np.minimum(1.0, most / np.maximum(length, 1e-300))[:, None]


# --- what the planner knows -----------------------------------------------------------------------


def _checked(facts: FederationFacts, options: Options) -> Options:
    """Options with the largest k, and its range where it is chosen later."""
    k, k_range, branch = (options[name] for name in ("n_clusters", "k_range", "branch"))
    if k == "auto":
        k_range = (2, MOST_CLUSTERS) if k_range is None else k_range
        low = check_int(k_range[0], "k_range")
        k_range = low, check_int(k_range[1], "k_range", minimum=low + 1)
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
    """The statement tells what was measured; and where k is chosen, among which."""
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
