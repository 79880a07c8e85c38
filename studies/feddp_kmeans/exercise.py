""" "Your turn" of notebook 02: the noised outer product of Step 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers.audit import exercise

RADIUS, MU = 3.0, 0.5


def _cut(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows * np.minimum(1, RADIUS / np.linalg.norm(rows, axis=1, keepdims=True))


def _right(rows: NDArray[np.float64]) -> Any:
    return _cut(rows).T @ _cut(rows)


ASKED = exercise.Asked(
    lambda mine, rows, rng: mine(rows, RADIUS, MU, rng), _right, ("outer product",)
)
SLIPS = (
    (lambda rows: rows.T @ rows, "Some rows are longer than r: shorten these to length r first."),
    (
        lambda rows: np.clip(rows, -RADIUS, RADIUS).T @ np.clip(rows, -RADIUS, RADIUS),
        "You cut each column at r. It is the length of a row that may not exceed r.",
    ),
    (
        lambda rows: (unit := rows / np.linalg.norm(rows, axis=1, keepdims=True) * RADIUS).T @ unit,
        "You stretch short rows to length r, too. Only longer ones are cut.",
    ),
    (
        lambda rows: _right(rows) / len(rows),
        "You divide by the number of rows, which one row changes. The sum is asked for.",
    ),
    (
        lambda rows: np.cov(_cut(rows).T, bias=True) * len(rows),
        "You subtract the mean of the rows first. The sum of x xᵀ is asked for, as it is.",
    ),
)
_DUE = RADIUS**2 / MU
_HINTS = {
    1 / RADIUS: "Yours is right for r. A row is multiplied with itself, so it moves the sum by r².",
    1 / RADIUS**2: "Yours is right for rows of length 1; these may have length r.",
    2**0.5: "√2 r² is for a row that is replaced by another; here one is added or removed.",
    2.0: "Yours is right for two rows; here one is added or removed.",
}


def _full(rows: NDArray[np.float64]) -> exercise.Question:
    """A matrix that was made symmetric has one noise in two places: say so, not that it leaks."""

    def question(mine: Callable[..., Any]) -> Iterable[exercise.Finding]:
        (made,) = ASKED.answer(mine, rows, np.random.default_rng(0))
        noise = made - _right(rows)
        if np.allclose(noise, noise.T) and np.ptp(noise) > 1e-6:
            raise exercise.Stop(
                "You made the matrix symmetric. Each of the d² entries gets noise of its own, "
                "and the server averages later."
            )
        return ()

    return question


def examine(mine: Callable[..., Any]) -> exercise.Examination:
    """Examine ``mine(rows, radius, mu, rng)``, which returns the noised outer product (d, d).

    The promise is mu, add/remove one row: rows are cut to the public radius, so that one of them
    moves the sum by radius² in the Frobenius norm.
    """
    rng = np.random.default_rng(0)
    few, deep = rng.normal(0, 1.5, (6, 2)).round(1), rng.normal(0, 1, (9, 3))
    few[0], deep[0] = (4.0, 3.0), (5.0, 0.0, 0.0)  # longer than the radius
    cases = {"six rows": few, "one short row": np.array([[0.5, 1.0]])}
    neighbours = [(deep, np.delete(deep, i, axis=0)) for i in range(len(deep))]
    hints = {("outer product", ratio): hint for ratio, hint in _HINTS.items()}
    return exercise.examine(
        mine,
        exercise.values(ASKED, cases, SLIPS),
        _full(deep),
        exercise.promise(ASKED, neighbours, law="normal", strength=MU, due=(_DUE,), hints=hints),
    )
