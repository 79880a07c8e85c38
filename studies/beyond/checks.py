"""Live checks of the claims about better releases: guarantees, and slips that are easy to make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers import accounting, datasets, kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import Federation, simulate
from fedclust_helpers.program import Program, Walk
from studies.bench.grading import several
from studies.beyond import pe_means
from studies.fastlloyd.problems import load_problem


def channel() -> dict[str, Any]:
    """The largest ratio of a report's probabilities over e^epsilon, of every kind of question."""
    over = []
    for epsilon in (0.25, 1.0, 2.0, 4.0, 8.0):
        users = simulate(np.zeros((500, 8)), "local", seed=0)
        for release in lk.plan_sketch(users, n_clusters=4, epsilon=epsilon).releases:
            table = release.mechanisms[0].probabilities()
            over.append(float((table.max(axis=0) / table.min(axis=0)).max() / math.exp(epsilon)))
    return {"most": max(over), "least": min(over)}


def needed(table: pd.DataFrame) -> dict[str, Any]:
    """Sketches at epsilon 1, by users over `sketch_users_needed` for clusters of equal size."""
    part = table[(table["data"] == "mixture") & (table["algorithm"] == "sketch")]
    part = part[part["epsilon"] == 1]
    see = [
        lk.sketch_users_needed(1 / k, 1.0, d, n_clusters=k)
        for k, d in zip(part["k"].tolist(), part["dprime"].tolist(), strict=True)
    ]
    band = np.digitize(part["n"] / see, [1.0, 10.0])
    fewer, between, more = (part["over_optimum"][band == i].sort_values() for i in range(3))
    return {
        "fewer": several(fewer, ".2f"), "between": several(between, ".2f"),
        "more": several(more, ".2f"), "least": fewer.min(), "most": more.max(),
    }  # fmt: skip


class Replayed:
    """A federation that hands out earlier releases, and keeps the exact values behind them."""

    def __init__(self, federation: Federation, released: Sequence[Any], points: Any) -> None:
        self._federation, self._released, self._points = federation, released, points
        self.exact: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def noisy_sum(
        self, statistic: ClientStatistic, mechanisms: Sequence[Any], *, round: int,
        sampling: None, **sent: Any,
    ) -> Any:  # fmt: skip
        """The release of this round, as it was."""
        values = statistic.compute(self._points, np.array([0, len(self._points)]), **sent)
        self.exact += [np.ravel(v) / m.std for v, m in zip(values, mechanisms, strict=True)]
        return self._released[round]


def follow(federation: Any, plan: Program) -> None:
    """The algorithm of a plan, from the releases that this federation makes."""
    Walk(federation, plan).to_the_end()


def replay() -> dict[str, Any]:
    """Exact cost of whole transcripts on neighbours, over mu^2, for the three branches."""
    rng = np.random.default_rng(5)
    means = rng.uniform(-0.8, 0.8, (3, 3))
    points = np.clip(datasets.gaussian_mixture(means, 0.01, [100] * 3, rng=rng).points, -1, 1)
    rows = [np.ones(3), -np.ones(3), np.zeros(3), points[0]]
    worst = {}
    for branch in ("grid", "moments", "votes"):
        room = simulate([points], "ideal", seed=1)
        plan = fl.plan_overclustered(room, n_clusters=3, epsilon=1.0, branch=branch)
        released = fl.run(room, plan).released
        mu = 1 / room.noise_multiplier(1.0, plan.delta)
        exact = []
        for data in (points, *(np.vstack([points, row]) for row in rows)):
            again = simulate([data], "ideal", seed=1, n_records=plan.facts.n_records)
            forced: Any = Replayed(again, released, data)
            follow(forced, plan)
            exact.append(np.concatenate(forced.exact))
        worst[branch] = max(float(((one - exact[0]) ** 2).sum()) for one in exact[1:]) / mu**2
    return {"worst": list(worst.values())}


# --- PE-means, and what its variants give away ----------------------------------------------------


def pe_room(points: FloatArray, *, radius: float | None = None, **options: Any) -> Any:
    """A secure sum over rows of the box, in the smallest ball that holds it."""
    bound = math.sqrt(points.shape[1]) if radius is None else radius
    return simulate([points], "ideal", seed=1, domain="ball", bound=bound, **options)


def pe_cost(plan: Program, points: FloatArray, row: FloatArray) -> float:
    """Exact cost of a whole transcript of PE-means, replayed with one record more, over mu^2."""
    room = pe_room(points)
    released, exact = fl.run(room, plan).released, []
    for data in (points, np.vstack([points, row])):
        forced: Any = Replayed(pe_room(data, n_records=len(points)), released, data)
        follow(forced, plan)
        exact.append(np.concatenate(forced.exact))
    mu = 1 / room.noise_multiplier(plan.dial.epsilon, plan.delta)
    return float(((exact[1] - exact[0]) ** 2).sum()) / mu**2


def pe_replay() -> dict[str, Any]:
    """Transcripts with few and with many columns."""
    rng, worst = np.random.default_rng(6), []
    for d in (3, 40):
        points = rng.uniform(-1, 1, (150, d))
        plan = pe_means.plan_pe(pe_room(points), n_clusters=3, epsilon=1.0)
        worst.append(max(pe_cost(plan, points, row) for row in (np.ones(d), points[0])))
    return {"few": worst[0], "many": worst[1]}


def last_release() -> tuple[Program, FloatArray]:
    """A plan for many columns, and rows that it is for."""
    points = np.random.default_rng(7).uniform(-1, 1, (150, 40))
    return pe_means.plan_pe(pe_room(points), n_clusters=3, epsilon=1.0), points


def one_normal() -> dict[str, Any]:
    """Sums with and without a record, with one noise for all columns and with one for each."""
    plan, points = last_release()
    std, rng, errors = plan.releases[-1].mechanisms[0].std, np.random.default_rng(8), []
    for size in (1, points.shape[1]):
        with_, without = (x.sum(axis=0) + std * rng.normal(size=size) for x in (points, points[1:]))
        guess = with_ - without
        errors.append(float(np.abs(np.diff(guess) - np.diff(points[0])).max()))
    return {"one": errors[0], "own": errors[1]}


def shares() -> dict[str, Any]:
    """14 votes at 1/16 of mu^2 each, then sums and counts with the noise of 14 steps."""
    plan, _ = last_release()
    votes = pe_means.LOW_GENERATIONS
    spent = votes / pe_means.SHARES + 2 / votes
    mu = accounting.gdp_mu(plan.epsilon, plan.delta)
    return {"spent": spent, "epsilon": accounting.gdp_epsilon(math.sqrt(spent) * mu, plan.delta),
            "ours": plan.total_epsilon}  # fmt: skip


def empty_clusters() -> dict[str, Any]:
    """Clusters that an exact look leaves: a far record alone in its cluster, and without it."""
    centers = np.array([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.9]])
    rows = np.random.default_rng(9).normal([[-0.5, 0.0], [0.5, 0.0]] * 50, 0.05)
    found = []
    for data in (np.vstack([rows, centers[2]]), rows):
        counts = np.bincount(kmeans.assign(data, centers).labels, minlength=3)
        found.append(int(np.count_nonzero(counts)))
    return {"with_": found[0], "without": found[1]}


def exact_scale() -> dict[str, Any]:
    """Mean and largest length, solved from published centres in the units of the data."""
    points = load_problem("synth_8_4_7").points[:2000]
    middle = points.mean(axis=0)
    unit = float(np.linalg.norm(points - middle, axis=1).max())
    room = pe_room((points - middle) / unit, radius=1.0)
    plan = pe_means.plan_pe(room, n_clusters=8, epsilon=0.1)
    seen = fl.run(room, plan).centers  # every party can compute these
    published = middle + unit * seen
    lengths = [np.linalg.norm(np.diff(c, axis=0)) for c in (published, seen)]
    scale = float(lengths[0] / lengths[1])
    return {"unit": abs(scale / unit - 1),
            "mean": float(np.abs(published[0] - scale * seen[0] - middle).max())}  # fmt: skip


def misplaced_baseline() -> dict[str, Any]:
    """FastLloyd on rows scaled to the unit ball, its box still [-1, 1]^d; and in its own box."""
    logs = []
    for name in ("synth_8_4_7", "synthk_8_7"):
        points, k = load_problem(name).points, load_problem(name).n_clusters
        middle = points.mean(axis=0)
        unit = float(np.linalg.norm(points - middle, axis=1).max())
        for seed in range(8):
            costs = []
            for rows, back in (((points - middle) / unit, unit), (points, 1.0)):
                room = simulate([rows], "ideal", seed=seed)
                found = fl.run(room, fl.plan(room, n_clusters=k, epsilon=0.5)).centers
                costs.append(metrics.nicv(rows, found) * back**2)
            logs.append(math.log(costs[0] / costs[1]))
    return {"ratio": math.exp(float(np.mean(logs)))}
