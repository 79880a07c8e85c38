""" "Your turn" of notebook 04: the table of one round of sums only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.audit import exercise

K, CLIP, MU = 3, 0.4, 0.5
Sent = tuple[FloatArray, IntArray]
"""Updates (m, d), not yet cut, and choices (m,)."""


def _added(rows: FloatArray, choice: IntArray, count: float = CLIP) -> FloatArray:
    """Rows and counts, added up for each of K models."""
    return np.eye(K)[choice].T @ np.column_stack([rows, np.full(len(rows), count)])


def _cut(updates: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(updates, axis=1, keepdims=True)
    return updates / np.maximum(1.0, lengths / CLIP)


def _right(sent: Sent) -> Any:
    return _added(_cut(sent[0]), sent[1])


def _uncut(sent: Sent) -> Any:
    return _added(*sent)


def _stretched(sent: Sent) -> Any:
    updates, choice = sent
    return _added(CLIP * updates / np.linalg.norm(updates, axis=1, keepdims=True), choice)


def _ones(sent: Sent) -> Any:
    return _added(_cut(sent[0]), sent[1], 1.0)


def _means(sent: Sent) -> Any:
    table = _right(sent)
    counts = np.maximum(table[:, -1:] / CLIP, 1)
    return np.column_stack([table[:, :-1] / counts, table[:, -1:]])


def _each_number(sent: Sent) -> Any:
    return _added(np.clip(sent[0], -CLIP, CLIP), sent[1])


ASKED = exercise.Asked(lambda mine, sent, rng: mine(*sent, K, CLIP, MU, rng), _right, ("table",))
SLIPS = (
    (_uncut, "You add up uncut updates: one client could move the sum as far as it likes."),
    (_stretched, "You stretch short updates to C. Cut the longer ones only."),
    (_each_number, "You cut each number. The promise is about the length of the whole update."),
    (_ones, "A client adds 1 to your counts. Let it add C: that needs no more noise, 1 would."),
    (_means, "You return means. Noise goes on sums; dividing comes after it and costs nothing."),
)
_LEAVES = (
    "Yours is right for a client who leaves. Exchanged, one update goes and another comes: 2C."
)
_TWO_ROWS = "Yours is right for two rows that move by C each. But one row can move by 2C."


def examine(mine: Callable[..., Any]) -> exercise.Examination:
    """Examine ``mine(updates, choice, k, clip, mu, rng)``, which returns the noised table.

    It has a row for each model: the sum of the cut updates (d numbers) and the count, in units of
    clip. The promise is mu, replace-one: any client with any update and any choice.
    """
    updates: NDArray[Any] = np.array([[0.1, -0.2], [0.9, 1.2], [-0.3, 0.1], [0.2, 0.2]])
    choice = np.array([0, 2, 2, 0])  # nobody chose the second model
    far = np.array([3.0, -4.0])

    def beside(update: FloatArray, model: int) -> Sent:
        return np.vstack([update, updates]), np.append(model, choice)

    neighbours = [
        (beside(far, first), beside(sign * far, second))
        for first, sign, second in ((0, -1, 0), (0, 1, 1), (1, -1, 2))
    ]
    due = 2 * CLIP / MU
    hints = {
        ("table", 0.5): _LEAVES, ("table", 0.5**0.5): _TWO_ROWS,
    }  # fmt: skip
    cases = {"four clients": (updates, choice), "one client": (updates[1:2], choice[1:2])}
    return exercise.examine(
        mine,
        exercise.values(ASKED, cases, SLIPS),
        exercise.promise(ASKED, neighbours, law="normal", strength=MU, due=(due,), hints=hints),
    )
