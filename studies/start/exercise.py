""" "Your turn" of notebook 00: the noised sums and counts of one private step of Lloyd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers import kmeans
from fedclust_helpers.audit import exercise

MU = 0.5


def _start(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Three public centres in as many columns as the points have."""
    return np.array([-0.6, 0.0, 0.6])[:, None] * np.ones(points.shape[1])


def _right(points: NDArray[np.float64]) -> Any:
    return kmeans.sums_and_counts(points, _start(points))


def _means(points: NDArray[np.float64]) -> Any:
    sums, counts = _right(points)
    return sums / np.maximum(counts, 1)[:, None], counts


def _steps(points: NDArray[np.float64]) -> Any:
    sums, counts = _right(points)
    return sums - counts[:, None] * _start(points), counts


def _at_least_one(points: NDArray[np.float64]) -> Any:
    sums, counts = _right(points)
    return sums, np.maximum(counts, 1)


ASKED = exercise.Asked(
    lambda mine, points, rng: mine(points, _start(points), MU, rng), _right, ("sums", "counts")
)
SLIPS = (
    (_means, "You return means. Noise goes on sums; dividing comes after it and costs nothing."),
    (_steps, "You add up steps from the centres. Here the points themselves are added up."),
    (
        _at_least_one,
        "You raise a count of 0 to 1. Return it as it is: that belongs to the division.",
    ),
)
_SHARED = "Sums and counts are two questions about one patient: each gets half of μ², so μ/√2."
_SQUARES = "You give μ/2 to each. Squares add up, so each may have μ/√2."
_REPLACED = "Twice as much is for a patient who is replaced by another; here one leaves."


def examine(mine: Callable[..., Any]) -> exercise.Examination:
    """Examine ``mine(points, centers, mu, rng)``, which returns noised sums and counts.

    The promise is mu, add/remove one point of the box [-1, 1]^d: what one patient moves is √d in
    the sums and 1 in the counts. Two columns show the values, three the noise.
    """
    rng = np.random.default_rng(0)
    flat, deep = rng.uniform(-1, 1, (9, 2)).round(1), rng.uniform(-1, 1, (12, 3))
    deep[0] = 1  # a corner of the box
    cases = {"nine points": flat, "two points": np.array([[0.9, 0.7], [0.5, 0.8]])}
    due = (2 * deep.shape[1]) ** 0.5 / MU, 2**0.5 / MU
    hints: dict[tuple[str, float], str] = {
        ("sums", 3**-0.5): "A patient in a corner of the box moves the sums by √d, not by 1.",
        ("sums", (2 / 3) ** 0.5): "√2 is half the diagonal in two columns; in d columns it is √d.",
    }
    for part in ASKED.parts:
        hints |= {(part, 0.5**0.5): _SHARED, (part, 2**0.5): _SQUARES, (part, 2.0): _REPLACED}
    neighbours = [(deep, np.delete(deep, i, axis=0)) for i in range(len(deep))]
    return exercise.examine(
        mine,
        exercise.values(ASKED, cases, SLIPS),
        exercise.promise(ASKED, neighbours, law="normal", strength=MU, due=due, hints=hints),
    )
