"""Over-clustered Lloyd: FastLloyd's guarantee, spent in the order in which it helps.

Three changes to FastLloyd, all of them releases of masked sums or post-processing:

* *find the data first*: a noised histogram (one or two columns), two noised moments (more), or
  votes for candidate centres (more columns and many clusters);
* *cut instead of drop*: a row that lies far from its centre pulls with length `radius`, so the
  radius can shrink, and with it the noise;
* *over-cluster*: the noised rounds move 2 k centres (1.5 k for few rows in many columns), which are
  then merged to k by weighted k-means on the server, free of charge; one more round settles them.
  After moments or votes, centres whose noised count is nothing move beside the fullest.

k itself can be chosen from what is released anyway (``n_clusters="auto"``): the elbow of the cost.

Budgets are shares of mu^2 (Gaussian DP): a release with noise multiplier z costs 1/z^2, and the
shares of a plan add up to 1. Which branch runs is decided by public numbers only.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers._lazy import neighbors
from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.client_statistics import CELL_COUNTS, MAX_CELLS
from fedclust_helpers.fastlloyd.algorithm import default_delta, of_points
from fedclust_helpers.fastlloyd.parameters import known_groups_excess, overclustered_excess
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
from fedclust_helpers.fastlloyd.rounds import ROUNDS, Branch, branch_for, parts_of
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

STARTS = 10  # of the server's k-means
BOX = 2.5  # standard deviations from the mean to the sides of the box of the data
VARIANCE, VARIANCE_SPREAD = 0.12, 0.6  # of a column in [-1, 1]: median, and how far off in the log
IDLE, ASIDE = 1.5, 0.2  # counts in noises below which a centre moves, and how far beside: in radii
PULL = 0.25  # of centres to the mean by singular values, where columns are many
K_RANGE = (2, 48)  # for n_clusters="auto"


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
        "auto" chooses k within `k_range` by the elbow of the cost that the server computes from
        the grid, or from the last round before the merge. It costs nothing; see claim B.k.elbow
        for when it is right.
    epsilon, delta : float
        Total; delta is 1/(N ln N) by default, which tells the federation's `n_records` N.
    branch : {"auto", "grid", "moments", "votes"}
        How the data is found. "grid" in one or two columns, and in three or four if a cluster has
        fewer than 15 rows for each noise of a count, or k = "auto". Else "votes" from 15 clusters
        on, from 5 in three or four columns, and from 3 in up to 16 columns if a cluster has 40
        rows for each noise of a count; never for k = "auto". Else "moments".
    k_range : (int, int), optional
        Smallest and largest k for "auto", public; (2, 48) by default. It matters: the elbow is
        where the cost lies farthest below the line between its two ends.

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    if branch == "auto":
        size = public.facts.n_records, public.facts.n_features, int(n_clusters)
        branch = branch_for(*size, 1 / sigma, open_k=k_range is not None)
    server = Server(public, sigma, int(n_clusters), branch, k_range)
    places = {"grid": server.grid, "moments": server.moments, "votes": server.votes}[branch]
    return (yield from places())


class Server:
    """The releases of one run, and what the server makes of them."""

    def __init__(
        self, public: Public, sigma: float, n_clusters: int, branch: str,
        k_range: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        f = public.facts
        self.public, self.rng, self.sigma = public, public.coins, sigma
        self.n, self.d, self.bound = f.n_records, f.n_features, f.bound
        self.k = self.n_planned = n_clusters
        self.k_range, self.costs = k_range, np.zeros((0, 2))
        self.rounds = list(ROUNDS[branch](self.n, self.d, self.k, 1 / sigma))  # still to come

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

    def choose_k(self, places: FloatArray, weights: FloatArray, within: float) -> None:
        """Where the plan leaves k open: the elbow of the cost of weighted places."""
        if self.k_range is not None and not self.public.dry:
            self.costs = costs_by_k(places, weights, self.k_range, within, rng=self.rng)
            self.k = elbow(self.costs)

    # --- few columns: a histogram

    def grid(self) -> Steps:
        """Histogram, one round of 2 k centres, merge, one round."""
        lower, upper = np.full(self.d, -self.bound), np.full(self.d, self.bound)
        while self.rounds[0].statistic is CELL_COUNTS:
            cells = self.rounds[0].size
            (counts,) = yield from self.ask(lower=lower, upper=upper, n_per_axis=cells)
            places, weights = cell_centers(lower, upper, cells), simplex(counts, self.n)
            side = (upper - lower) / cells
            if self.rounds[0].statistic is CELL_COUNTS:  # a coarse grid: where the data lie
                mean = weights @ places / self.n
                spread = np.sqrt(weights @ (places - mean) ** 2 / self.n + side**2 / 12)
                lower = np.maximum(lower, mean - BOX * spread)
                upper = np.minimum(upper, mean + BOX * spread)
        self.choose_k(places, weights, float((side**2).sum() / 12))
        half = float(np.linalg.norm(upper - lower)) / 2
        # as many centres as the plan says, on cells that hold something; copies hold nothing
        filled = int(np.count_nonzero(weights > 0))
        centers = self.means(places, weights, max(self.k, min(2 * self.k, filled // 2)), STARTS)
        centers = centers[np.resize(np.arange(len(centers)), 2 * self.k)]
        many, counts = yield from self.shrunk_round(centers, half)
        weights = simplex(counts, self.n)
        merged = self.means(many, weights, self.k, STARTS)  # free of charge
        settled, _ = yield from self.shrunk_round(merged, half)
        return Found(settled, many, weights, self.costs)

    def shrunk_round(self, centers: FloatArray, scale: float) -> Steps:
        """A cut round whose steps shrink by their own noise: (1 - d v/|step|^2)+."""
        radius = self.rounds[0].radius * scale * (self.n_planned / self.k) ** (1 / self.d)
        steps, variance, counts, _ = yield from self.step(centers, radius, math.inf)
        steps *= shrinkage(steps, self.d * variance)[:, None]
        return self.cut(centers + shortened(steps, radius)), counts

    # --- many columns: moments, or votes for candidates

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
        """Moments, rounds of more centres from an even spread, merge, one round."""
        mean, variance = yield from self.mean_and_variance()
        spread = even_spread(self.rounds[0].size, self.d, rng=self.rng, cluster=self.public.kmeans)
        centers = self.cut(mean + np.sqrt(3 * variance) * spread)
        return (yield from self.pulled_rounds(centers, mean, math.sqrt(variance.sum())))

    def votes(self) -> Steps:
        """Moments, votes for candidates twice, rounds of more centres, merge, one round."""
        mean, variance = yield from self.mean_and_variance()
        drawn = self.rng.standard_normal((self.rounds[0].size, self.d))
        places = self.cut(mean + np.sqrt(variance) * drawn)
        (counts,) = yield from self.ask(centers=places)
        places = self.cut(self.offspring(places, simplex(counts, self.n), variance))
        (counts,) = yield from self.ask(centers=places)
        centers = self.means(places, simplex(counts, self.n), self.rounds[0].size, 3)
        return (yield from self.pulled_rounds(centers, mean, math.sqrt(variance.sum())))

    def offspring(
        self, places: FloatArray, weights: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Candidates near those with votes, about as far off as these are from each other."""
        held, gap = places[weights > 0], 0.0
        if len(held) > 1:
            near = neighbors.NearestNeighbors(n_neighbors=2).fit(held).kneighbors(held)[0][:, 1]
            gap = float(np.median(near))
        parents = self.rng.choice(len(places), len(places), p=weights / weights.sum())
        side = 0.7 * gap / math.sqrt(self.d) * np.sqrt(variance / variance.mean())
        return places[parents] + side * self.rng.standard_normal(places.shape)

    def pulled_rounds(self, centers: FloatArray, mean: FloatArray, scale: float) -> Steps:
        """Rounds of more centres than k, merge, one round."""
        counts = np.ones(len(centers))
        while len(self.rounds) > 1:
            side = ASIDE * self.rounds[0].radius * scale
            centers, counts, noise = yield from self.pulled_round(centers, mean, scale)
            if len(self.rounds) > 2:  # what moves aside takes two rounds to find its group
                centers = self.cut(self.employed(centers, counts, noise, side))
        weights = simplex(counts, self.n)
        between = ((centers - weights @ centers / self.n) ** 2).sum(axis=1)
        within = scale**2 - float(weights @ between / self.n)
        self.choose_k(centers, weights, max(within, 0.0))
        merged = self.means(centers, weights, self.k, STARTS)  # free of charge
        settled, *_ = yield from self.pulled_round(merged, mean, scale)
        return Found(settled, centers, weights, self.costs)

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

    def pulled_round(self, centers: FloatArray, mean: FloatArray, scale: float) -> Steps:
        """A cut round, then a pull towards the mean: (1 - d v/(2 |C - m|^2))+ for each centre.

        With more than 6 k columns all centres are pulled together, by their singular values.
        """
        radius = self.rounds[0].radius * scale
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
        k_range = K_RANGE if k_range is None else k_range
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


def _price(plan: Plan) -> tuple[float | None, str]:
    """What noise is predicted to add to the cost, unless k is chosen later."""
    if plan.options["k_range"] is not None:
        return None, ""
    size = plan.facts.n_records, plan.n_clusters, plan.n_features, honest_mu(plan)
    return overclustered_excess(*size), (
        "of the cost of non-private k-means, about, is added for round groups of like size; more"
        " where groups are missed (claim B.central.foreseen says how often this was right);"
        f" {known_groups_excess(*size):.2g} if the groups were known"
    )


def honest_mu(plan: Plan) -> float:
    """1 over the noise multiplier of a plan, with the shares of clients who may not be honest."""
    return float(1 / (plan.facts.more_noise * plan.dial))


def _says(plan: Plan, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The statement tells the price of noise; and where k is chosen from releases."""
    if plan.options["k_range"] is None:
        price = f"{plan.predicted_error:.2g} {plan.predicted_error_is}"
        return [("price of noise", price) if row[0] == "predicted" else row for row in rows]
    low, high = plan.options["k_range"]
    at = [heading for heading, _ in rows].index("public")
    text = rows[at][1].replace(f" {high} clusters", f" {low} to {high} clusters")
    chosen = "afterwards, from what is released below; nothing more is released or charged"
    return [*rows[:at], ("public", text), ("k is chosen", chosen), *rows[at + 1 :]]


OVERCLUSTERED = Algorithm(
    name="over-clustered Lloyd", steps=overclustered, check=_checked, default_delta=default_delta,
    predict=_price, says=_says,
)  # fmt: skip
plan_overclustered = OVERCLUSTERED.door("plan_overclustered")
