"""Settings of notebook 00, what it is tried with, its random streams, and its data."""

from __future__ import annotations

import numpy as np

from fedclust_helpers import datasets
from studies.bench import samples
from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "DATA": "four wards", "SEED": 7, "EPSILON": 1.0, "DELTA": 1e-5, "K": None, "N": None,
        "M": 20,
    },
    variations={
        "DATA": ("tumours",), "EPSILON": (0.3, 2.0, 4.0), "DELTA": (1e-6,), "K": (2, 5),
        "N": (300, 3000), "M": (10,),
    },
    streams=(
        "data masks coins worlds attack noise delta unit rounds best start steps wide local strays"
    ).split(),
)  # fmt: skip
begin = LESSON.begin


def data(
    name: str, n: int | None = None, n_clients: int = 20, *, rng: np.random.Generator
) -> samples.Rows:
    """The rows of notebook 00 in two columns, dealt to `n_clients` clinics; n of them, or all.

    "four wards": four groups of patients, 1000 in all, with two made measurements from 0 to 10.
    "tumours": radius and texture of the nuclei of 569 tumours, see `samples.tumours`.
    """

    def wards() -> samples.Rows:
        means = [[-0.55, -0.45], [0.5, -0.55], [0.45, 0.5], [-0.35, 0.55]]
        sizes = np.diff(((n or 1000) * np.array([0, 0.3, 0.5, 0.8, 1])).astype(int))
        points = datasets.gaussian_mixture(means, 0.02, sizes, rng=rng).points
        points = rng.permutation(np.clip(points, -1, 1))  # clipping makes the limits hold
        limits, names = (np.zeros(2), np.full(2, 10.0)), ("first", "second")
        return samples.Rows(points, names, *limits, samples.dealt(len(points), n_clients), 4)

    makers = {"four wards": wards, "tumours": lambda: samples.tumours(n_clients, n, rng=rng)}
    return samples.choose(name, makers)
