"""What notebook 00 measures beside its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import laplace

from fedclust_helpers._validation import IntArray
from fedclust_helpers.accounting import gdp_epsilon
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import Laplace
from studies.start.figures import MODELS


def log_ratios(
    worlds: Sequence[ArrayLike], places: Sequence[float], scale: float, edges: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Log of how much likelier each bin is in the second world: measured, its error, exact.

    `worlds` are two samples of Laplace noise of this `scale` around `places`; the error is one
    standard error of the measured value. Each array has shape (len(edges) - 1,).
    """
    bins = np.asarray(edges, dtype=np.float64)
    a, b = (np.histogram(world, bins)[0] for world in worlds)
    p, q = (np.diff(laplace(place, scale).cdf(bins)) for place in places)
    return np.log(b / a), np.sqrt(1 / a + 1 / b), np.log(q / p)


def noised_counts(
    flags: Sequence[NDArray[np.float64]], *, epsilon: float, seed: int
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
    rounds: IntArray, mu: float, delta: float, *, rng: np.random.Generator, trials: int = 20_000
) -> NDArray[np.float64]:
    """An attacker averages T counts with Gaussian noise, each of strength `mu`: shape (3, rounds).

    How often it is right whether one person is in, the sum of the epsilons of T answers at
    `delta` in total, and their exact epsilon.
    """
    is_in = rng.random((trials, 1)) < 0.5
    answers = is_in + rng.normal(0, 1 / mu, (trials, int(rounds.max())))
    averages = np.cumsum(answers, axis=1)[:, rounds - 1] / rounds
    right = ((averages > 0.5) == is_in).mean(axis=0)
    added = [t * gdp_epsilon(mu, delta / t) for t in rounds]
    return np.array([right, added, [gdp_epsilon(mu * t**0.5, delta) for t in rounds]])
