"""Experiments of notebook 01 whose plumbing is longer than their idea."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import count, product
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from fedclust.estimators import PrivateKMeans, UncertainCentersWarning
from fedclust_helpers import accounting, datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation import ClientData, Plan, Randomness, simulate
from fedclust_helpers.federation.aggregation import Masked
from fedclust_helpers.program import Run
from studies.bench.samples import Rows


def two_hospitals(n: int, *, rng: np.random.Generator) -> tuple[FloatArray, ClientData]:
    """About n points of five groups in [-1, 1]^2, and the two clients who hold them.

    Client 0 has most of groups 0 and 2, client 1 of groups 1 and 4; group 3 is shared.
    """
    means = [[-0.6, -0.55], [0.55, -0.6], [-0.65, 0.5], [0.1, 0.1], [0.65, 0.6]]
    sizes = np.rint(n * np.array([0.35, 0.25, 0.2, 0.125, 0.075])).astype(int)
    mixture = datasets.gaussian_mixture(means, 0.12**2, sizes, rng=rng)
    points = np.clip(mixture.points, -1, 1)
    part_in_first = np.array([1.0, 0.0, 0.99, 0.6, 0.02])[mixture.labels]
    owners = (rng.random(len(points)) >= part_in_first).astype(int)
    return points, ClientData.from_owners(points, owners)


def relative_statistic(
    rows: ArrayLike, centers: FloatArray, radius: float
) -> tuple[FloatArray, IntArray]:
    """What FastLloyd releases, before noise: sums of (x - centre) (k, d), and counts (k,)."""
    return kmeans.sums_and_counts(rows, centers, radius=radius, relative=True)


def one_record_moves(*, rng: np.random.Generator) -> tuple[float, float, float]:
    """Change over the radius by one record, in a random case: dimension, clusters, centres, data.

    Of the plain sums, of the relative sums, and of the relative sums if the record is replaced by
    the one opposite. Half of the records lie just inside the radius, the others anywhere in it.
    """
    d, k = int(rng.integers(1, 9)), int(rng.integers(1, 16))
    eta, centers = fl.max_radius(k, d), rng.uniform(-1, 1, (k, d))
    rows, way = rng.uniform(-1, 1, (60, d)), rng.normal(size=d)
    length = eta * rng.choice([rng.random() ** (1 / d), 1 - 1e-7])
    step = length * way / np.linalg.norm(way)
    more: tuple[Any, ...] = (rows[:0], centers[:1] + step, centers[:1] - step)
    base, added, other = (
        relative_statistic(np.vstack([rows, extra]), centers, eta)[0] for extra in more
    )
    plain, moved, replaced = (
        float(np.linalg.norm(move) / eta) for move in (more[1], added - base, added - other)
    )
    return plain, moved, replaced


def one_round(
    clients: Sequence[FloatArray], start: FloatArray, noise_from: str, seed: Any, **asked: Any
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centres of one masked round from a public start, and the noise that the server drew itself.

    That noise, of sums and of counts, is what is added if `noise_from` is "server"; if it is
    "clients", the server can only guess that it was so.
    """
    fed = simulate(clients, "masked", seed=seed, noise_from=noise_from)
    how: Any = {"n_clusters": len(start), "n_rounds": 1, "initial": start, **asked}
    published = fl.run(fed, fl.plan(fed, **how)).centers
    by_server = simulate(clients, "masked", seed=seed, noise_from="server")
    own = Randomness.teaching(seed).noise  # the server's own generator
    ring = cast(Masked, by_server.aggregation).fixed_point
    of_sums, of_counts = (
        ring.round(noise.sample(shape, rng=own))
        for noise, shape in zip(
            fl.plan(by_server, **how).mechanisms[0], (start.shape, start.shape[:1]), strict=True
        )
    )
    return published, of_sums, of_counts


def through_the_wire(
    clients: Sequence[FloatArray], plan: Plan, start: FloatArray, seed: Any
) -> Callable[..., Any]:
    """A release for an audit: round 0 of `plan`, masked; the server draws the noise, not `rng`."""
    stage, number = simulate(clients, "masked", seed=seed, noise_from="server"), count()
    at: Any = {"centers": start, "radius": plan.broadcasts("radius")[0]}

    def release(rng: np.random.Generator) -> Any:
        return stage.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, plan.mechanisms[0], round=next(number), **at
        )

    return release


def variant(
    points: FloatArray, centers: FloatArray, *, cut: bool, steps: bool, n_rounds: int,
    epsilon: float | None, delta: float, rng: np.random.Generator, **radii: Any,
) -> FloatArray:  # fmt: skip
    """Private Lloyd with or without each of FastLloyd's two ideas; centres (k, d) after all rounds.

    `steps`: sums of steps from the old centres, in place of sums of positions. `cut`: records
    beyond the radius do not count. Neither is GLloyd that folds, both are FastLloyd. Every variant
    has the noise that its own sensitivity needs: the radius (both), the diagonal of the box (steps
    that are not cut) or half of it (positions). Epsilon None: without noise.
    """
    k, d = centers.shape
    sigma = 0.0 if epsilon is None else np.sqrt(n_rounds) / accounting.gdp_mu(epsilon, delta)
    split = fl.split_noise if steps else fl.split_noise_glloyd
    noises = split(sigma, d) if sigma else (0.0, 0.0)
    for radius in fl.round_radii(n_rounds, k, d, **radii).tolist():
        reach = (radius if cut else 2 * np.sqrt(d)) if steps else np.sqrt(d)
        sums, counts = kmeans.sums_and_counts(
            points, centers, radius=radius if cut else None, relative=steps
        )
        noised = sums + rng.normal(0, 1, (k, d)) * noises[0] * reach
        divisor = np.maximum(counts + rng.normal(0, 1, k) * noises[1], 1)
        if not steps:
            centers = kmeans.fold(noised / divisor[:, None])
            continue
        centers = fl.update_centers(centers, noised, divisor, radius=reach)
    return centers


def best_centers(parts: Sequence[FloatArray], k: int) -> list[FloatArray]:
    """Centres of k-means without privacy, best of five starts, for the rows of each part."""
    fit, rng = kmeans.weighted_kmeans, np.random.default_rng(0)
    return [fit(rows, None, k, rng=rng, n_init=5) for rows in parts]


def at_rim(centers: FloatArray, radius: float) -> FloatArray:
    """A record (1, d) in the box, just inside the radius of its nearest centre: the worst case.

    Raises
    ------
    ValueError
        If no record along the axes from any of the centres is one.
    """
    axes = np.eye(centers.shape[1])
    for j, way in product(range(len(centers)), (*axes, *-axes)):
        record = centers[j : j + 1] + (1 - 1e-7) * radius * way
        if np.abs(record).max() <= 1 and kmeans.assign(record, centers).labels[0] == j:
            return record
    raise ValueError("centers and radius leave no room for a record at the rim")


def worst_case_scores(
    clients: Sequence[FloatArray], start: FloatArray, n_runs: int, *, mu: float
) -> Callable[..., FloatArray]:
    """A game: (seed) -> scores of masked rounds without and with one patient, (2, n_runs).

    The first clients hold 150 rows of each; the patient is at the rim of the radius. The attacker
    knows all other records and where the answer would move: the score is the answer in that
    direction, in standard deviations of the noise that is claimed. It has mean 0 without the
    patient and, if the noise is as planned for `mu`, mean mu with the patient. The game takes
    `noise`, what the code really adds as a part of that, and `reach`: how far the patient is from
    the centre, as a part of the radius.
    """
    few, k = [rows[:150] for rows in clients[:2]], len(start)

    def planned(strength: float) -> Plan:
        budget: Any = {"epsilon": accounting.gdp_epsilon(strength, 1e-5), "delta": 1e-5}
        budget |= {"initial": start, "n_rounds": 1, "strategy": "constant"}
        fed = simulate(few, "masked", seed=0, noise_from="server")
        return fl.plan(fed, n_clusters=k, **budget)

    claimed = planned(mu)
    radius = claimed.broadcasts("radius")[0]
    sds = [noise.std for noise in claimed.mechanisms[0]]

    def flat(answer: Any) -> FloatArray:
        parts = zip(answer, sds, strict=True)
        return np.concatenate([np.ravel(x) / sd for x, sd in parts])

    def game(seed: np.random.SeedSequence, noise: float = 1.0, reach: float = 1.0) -> FloatArray:
        worlds = few, [*few[:-1], np.vstack([few[-1], at_rim(start, reach * radius)])]
        out, in_ = (flat(relative_statistic(np.vstack(w), start, radius)) for w in worlds)
        way = (in_ - out) / np.linalg.norm(in_ - out)
        plan, rng = planned(mu / noise), np.random.default_rng(0)
        plays = [
            through_the_wire(w, plan, start, s) for w, s in zip(worlds, seed.spawn(2), strict=True)
        ]
        return np.array([[(flat(play(rng)) - out) @ way for _ in range(n_runs)] for play in plays])

    return game


VARIANTS: dict[str, dict[str, bool]] = {
    "plain sums": {"cut": False, "steps": False}, "cut only": {"cut": True, "steps": False},
    "steps only": {"cut": False, "steps": True}, "both": {"cut": True, "steps": True},
}  # fmt: skip


def over_exact(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence],
    epsilons: Sequence[float], *, delta: float,
) -> dict[float, dict[str, FloatArray]]:  # fmt: skip
    """By epsilon and name: cost of each of `VARIANTS` over that without noise, same start, (m,)."""
    how: Any = {"delta": delta, "n_rounds": 3}
    found: Any = {epsilon: {name: [] for name in VARIANTS} for epsilon in epsilons}
    for of_start, of_noise in (seed.spawn(2) for seed in seeds):
        start = kmeans.sphere_packing(k, points.shape[1], rng=np.random.default_rng(of_start))
        rng, plain = np.random.default_rng(of_noise), VARIANTS["plain sums"]
        exact = metrics.nicv(points, variant(points, start, epsilon=None, rng=rng, **plain, **how))
        for epsilon, (name, flags) in product(epsilons, VARIANTS.items()):
            rng = np.random.default_rng(of_noise)
            centers = variant(points, start, epsilon=epsilon, rng=rng, **flags, **how)
            found[epsilon][name].append(metrics.nicv(points, centers) / exact)
    return {e: {name: np.array(costs) for name, costs in of.items()} for e, of in found.items()}


def share_error(
    d: int, *, rng: np.random.Generator, epsilon: float, delta: float, of: int = 400,
    draws: int = 4000,
) -> Callable[..., FloatArray]:  # fmt: skip
    """Mean squared error of the centre of `of` records: (shares of mu^2 for counts, move) -> (m,).

    Move and error in radii; all shares have the same draws; one release spends (epsilon, delta).
    """
    noise = rng.normal(size=(draws, d + 1)) / accounting.gdp_mu(epsilon, delta)

    def error(shares: ArrayLike, step: float) -> FloatArray:
        w, true = np.ravel(shares)[:, None, None], step * np.eye(d)[0]
        means = (of * true + noise[:, 1:] / np.sqrt(1 - w)) / (of + noise[:, :1] / np.sqrt(w))
        return np.asarray(((means - true) ** 2).sum(axis=2).mean(axis=1))

    return error


def breaks(
    factors: Callable[[FloatArray, FloatArray, Run], FloatArray],
    seeds: Sequence[np.random.SeedSequence], **asked: Any,
) -> tuple[dict[int, FloatArray], dict[int, FloatArray]]:  # fmt: skip
    """`factors` of a run on made sets of five groups, by records (two columns), by columns (2000).

    It gets the points, the centres of Lloyd's algorithm from the true means, and a run of
    FastLloyd. A size maps to an array with one row for each seed.
    """

    def losses(n: int, d: int) -> FloatArray:
        found = []
        for seed in seeds:
            of_data, of_run = seed.spawn(2)
            rng = np.random.default_rng(of_data)
            groups = rng.uniform(-0.7, 0.7, (5, d))
            data = np.clip(groups[np.arange(n) % 5] + rng.normal(0, 0.1, (n, d)), -1, 1)
            fed = simulate([data], "ideal", seed=of_run)
            run = fl.run(fed, fl.plan(fed, n_clusters=5, **asked))
            found.append(factors(data, kmeans.lloyd(data, groups, n_rounds=5), run))
        return np.array(found)

    by_n = {n: losses(n, 2) for n in (100, 300, 1000, 3000)}
    return by_n, {d: losses(2000, d) for d in (2, 8, 32, 64)}


def finale(
    model: PrivateKMeans, methods: Sequence[str], rows: Rows, table: pd.DataFrame,
    seeds: Sequence[np.random.SeedSequence],
) -> tuple[dict[str, PrivateKMeans], pd.DataFrame]:  # fmt: skip
    """By method, the run of median cost, and how all runs compare with "k-means", without privacy.

    Columns: medians over the runs of the cost over that of k-means, and of the share of rows in the
    group of their label; 10 % and 90 % of the cost; how many runs warned. `table` has a column
    "hospital". The number of seeds must be odd.
    """
    (best,), runs, found = best_centers([rows.points], rows.k), dict[str, Any](), {}

    def score(centers: FloatArray) -> tuple[float, float]:
        right = np.mean(kmeans.assign(rows.points, centers).labels == rows.labels)
        cost = metrics.nicv(rows.points, centers) / metrics.nicv(rows.points, best)
        return cost, max(right, 1 - right)

    for method in methods:
        fits, warned = [], 0
        for seed in seeds:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", UncertainCentersWarning)
                one = clone(model).set_params(method=method, seed=int(seed.generate_state(1)[0]))
                one.fit(table, clients="hospital")
            centers = datasets.scale_to_box(one.cluster_centers_, rows.lower, rows.upper)
            fits.append((*score(centers), one))
            warned += bool(told)
        fits.sort(key=lambda fit: fit[0])
        costs, shares = np.array([fit[:2] for fit in fits]).T
        runs[method] = fits[len(fits) // 2][2]
        found[method] = (
            np.median(costs), np.median(shares), *np.quantile(costs, (0.1, 0.9)), warned
        )  # fmt: skip
    found["k-means"] = (*score(best), 1.0, 1.0, 0)
    columns = ["cost", "agreement", "10 %", "90 %", "warned"]
    return runs, pd.DataFrame.from_dict(found, orient="index", columns=columns)


def by_radius(
    points: FloatArray, k: int, seeds: Sequence[np.random.SeedSequence], alphas: Sequence[float],
    *, epsilon: float, delta: float, n_rounds: int = 7,
) -> dict[float, FloatArray]:  # fmt: skip
    """By alpha, the one radius of all rounds: median costs over Lloyd's, with and without noise."""
    found, d = {}, points.shape[1]
    how: Any = {"n_rounds": n_rounds, "delta": delta, "strategy": "constant", "steps": True}
    for alpha in alphas:
        costs, how["alpha"] = [], alpha
        for rng in map(np.random.default_rng, seeds):
            start = kmeans.sphere_packing(k, d, rng=rng)
            for e, cut in ((epsilon, True), (None, True), (None, False)):
                centers = variant(points, start, epsilon=e, cut=cut, rng=rng, **how)
                costs.append(metrics.nicv(points, centers))
        *cut_runs, lloyd = np.reshape(costs, (-1, 3)).T
        found[alpha] = np.median(cut_runs / lloyd, axis=1)
    return found
