"""Settings of notebook 01, what it is tried with, its random streams, and its data."""

from __future__ import annotations

import numpy as np

from fedclust_helpers._index import repeat
from studies.bench import samples
from studies.bench.lesson import Lesson
from studies.fastlloyd.experiments import two_hospitals

LESSON = Lesson(
    settings={
        "DATA": "patients", "SEED": 2025, "EPSILON": 1.0, "DELTA": 1e-6, "K": None, "N": None,
    },
    variations={
        "DATA": ("tumours", "photograph"), "EPSILON": (0.3, 2.0), "DELTA": (1e-5,), "K": (2, 8),
        "N": (300, 1000),
    },
    streams="data start practice masks variants shares audit breaks real gdp radii"
    .split(),
)  # fmt: skip
begin = LESSON.begin


def data(name: str, n: int | None = None, *, rng: np.random.Generator) -> samples.Rows:
    """The rows of notebook 01, in two columns: n of them, or all (2000 of the made patients).

    "patients": five groups, two hospitals that treat different mixtures of them. "tumours": four
    hospitals. "photograph": red and blue of 2000 pixels, by stripes of two owners.
    """

    def patients() -> samples.Rows:
        _, hospitals = two_hospitals(n or 2000, rng=rng)
        limits = np.array([20.0, 100.0]), np.array([100.0, 340.0])
        owners = repeat(np.arange(2), [len(hospitals.client(i)) for i in range(2)])
        points = np.vstack([hospitals.client(i) for i in range(2)])
        return samples.Rows(points, ("age", "cholesterol"), *limits, owners, 5)

    def photograph() -> samples.Rows:
        rows = samples.photograph(2, n or 2000, rng=rng)
        keep = [0, 2]
        return rows._replace(
            points=rows.points[:, keep], names=("red", "blue"), lower=rows.lower[keep],
            upper=rows.upper[keep],
        )  # fmt: skip

    makers = {
        "patients": patients,
        "tumours": lambda: samples.tumours(4, n, rng=rng),
        "photograph": photograph,
    }
    return samples.choose(name, makers)
