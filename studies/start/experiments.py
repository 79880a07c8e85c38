"""What notebook 00 measures beside its cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import laplace

from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import Laplace
from studies.start.figures import MODELS


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
) -> dict[str, float]:
    """One count under each of four trust models, to two decimals.

    `flags` holds zeros and ones of each client, shape (n_i, 1). Each answer is one release of
    epsilon, add/remove one row (local: as reports, charged for one replaced row), with Laplace
    noise in teaching mode. The sensitivity is 1 and one step of the masks' grid.
    """
    noise, answers = Laplace.from_budget(1 + 2.0**-30, epsilon), {}
    for model in MODELS:
        ends = {"noise_from": "server"} if model == "masked" else {}  # shares are not Laplace
        fed = simulate(flags, model, seed=seed, **ends)
        if model == "local":  # no sum without noise ever exists here
            (answer,) = fed.reports(TOTAL, [noise.as_replace_one()], round=0)
        else:
            (answer,) = fed.noisy_sum(TOTAL, [noise], round=0)
        answers[model] = round(float(answer.sum()), 2)
    return answers
