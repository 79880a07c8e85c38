"""What notebook 00 measures beside its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import laplace

from fedclust_helpers import kmeans
from fedclust_helpers.accounting import gdp_epsilon
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.fastlloyd import plan_glloyd, run
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import Laplace
from studies.start.figures import MODELS, averaged


def log_ratios(
    worlds: Sequence[ArrayLike], places: Sequence[float], epsilon: float, edges: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Log of how much likelier each bin is in the second world: measured, its error, exact.

    `worlds` are two samples of Laplace noise of scale 1/epsilon around `places`; the error is one
    standard error of the measured value. Each array has shape (len(edges) - 1,).
    """
    bins = np.asarray(edges, dtype=np.float64)
    a, b = (np.histogram(world, bins)[0] for world in worlds)
    p, q = (np.diff(laplace(place, 1 / epsilon).cdf(bins)) for place in places)
    return np.log(b / a), np.sqrt(1 / a + 1 / b), np.log(q / p)


def noised_counts(
    flags: Sequence[NDArray[np.float64]], epsilon: float, seed: int
) -> tuple[dict[str, float], dict[str, NDArray[Any]]]:
    """One count under each of four trust models, and what the server received for it.

    `flags` holds zeros and ones of each client, shape (n_i, 1). Each answer is one release of
    epsilon, add/remove one row (local: as reports, charged for one replaced row), with Laplace
    noise in teaching mode. The sensitivity is 1 and one step of the masks' grid.
    """
    noise, answers, seen = Laplace.from_budget(1 + 2.0**-30, epsilon), {}, {}
    for model in MODELS:
        fed = simulate(flags, model, seed=seed, keep_payloads=True)
        if model == "local":  # no sum without noise ever exists here
            (answer,) = fed.reports(TOTAL, [noise.as_replace_one()], round=0)
        else:
            (answer,) = fed.noisy_sum(TOTAL, [noise], round=0)
        answers[model] = float(answer.sum())
        seen[model] = next(m.payload for m in fed.transcript.view("server") if m.round == 0)
    return answers, seen


def asking_again(
    mu: float, delta: float, *, rng: np.random.Generator, trials: int = 20_000
) -> pd.DataFrame:
    """An attacker averages T = 1, 2, 4, ..., 64 counts with Gaussian noise of strength `mu` each.

    A row for each T: how often it is right whether one person is in, as found and in theory; the
    sum of the epsilons at `delta` in total, the exact epsilon, and that over the epsilon of one.
    """
    rounds = 2 ** np.arange(7)
    is_in = rng.random((trials, 1)) < 0.5
    answers = is_in + rng.normal(0, 1 / mu, (trials, int(rounds.max())))
    averages = np.cumsum(answers, axis=1)[:, rounds - 1] / rounds
    exact = np.array([gdp_epsilon(mu * t**0.5, delta) for t in rounds])
    columns = {
        "right": ((averages > 0.5) == is_in).mean(axis=0),
        "theory": averaged(mu, rounds),
        "adding ε": [t * gdp_epsilon(mu, delta / t) for t in rounds],
        "adding μ²": exact,
        "times ε of one": exact / exact[0],
    }
    return pd.DataFrame(columns, index=pd.Index(rounds, name="answers"))


def strays(
    clients: Sequence[NDArray[np.float64]], delta: float, sizes: Sequence[int], *,
    rng: np.random.Generator, runs: int = 30,
) -> pd.DataFrame:  # fmt: skip
    """How many released centres have left their clusters: a row for each k, a column for each ε.

    A centre has left if it lies farther from the centre without noise than halfway to the next
    one. Each share is over all centres of `runs` runs of three rounds with Gaussian noise, each
    (ε, delta)-DP, add/remove one row, in teaching mode; all runs of one k have one public start.
    """
    points, shares = np.concatenate(list(clients)), {}
    for k in sizes:
        start = kmeans.sphere_packing(k, points.shape[1], rng=rng, method="largest")
        plain = kmeans.lloyd(points, start, n_rounds=3)
        apart = np.linalg.norm(plain[:, None] - plain, axis=2) + np.diag(np.full(k, np.inf))
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "n_clusters": k}
            asked |= {"initial": start, "n_rounds": 3, "postprocess": "truncate"}
            seeds = rng.integers(2**32, size=runs).tolist()
            feds = [simulate(clients, "ideal", seed=seed) for seed in seeds]
            made = np.array([run(fed, plan_glloyd(fed, **asked)).centers for fed in feds])
            left = np.linalg.norm(made - plain, axis=2) > apart.min(axis=1) / 2
            shares[f"k = {k}", f"ε = {epsilon:g}"] = f"{left.mean():.0%}"
    return pd.Series(shares).unstack(sort=False)
