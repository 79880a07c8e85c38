"""Your turn of notebook 04: a right answer, typical mistakes and their sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def written(
    *, cut: Callable[..., Any] | None = None, count: float | None = None, reach: float = 2.0,
    variance: bool = False, only_chosen: bool = False, means: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """The table of a round, with one thing done otherwise."""

    def mine(updates: Any, choice: Any, k: int, clip: float, mu: float, rng: Any) -> Any:
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        kept = updates / np.maximum(1, lengths / clip) if cut is None else cut(updates, clip)
        rows = np.column_stack([kept, np.full(len(kept), count or clip)])
        table = np.zeros((k, rows.shape[1]))
        np.add.at(table, choice, rows)
        if means:
            table[:, :-1] /= np.maximum(table[:, -1:] / clip, 1)
        std = reach * clip / mu
        noise = rng.normal(0, std**2 if variance else std, table.shape)
        return (
            table + noise * np.isin(np.arange(k), choice)[:, None] if only_chosen else table + noise
        )

    return mine


def stretched(u, c):
    return c * u / np.linalg.norm(u, axis=1, keepdims=True)


RIGHT = (written(),)
MISTAKES = {
    "uncut": (written(cut=lambda u, c: u), "uncut updates"),
    "stretched": (
        written(cut=stretched),
        "stretch",
    ),
    "each number": (written(cut=lambda u, c: np.clip(u, -c, c)), "length of the whole update"),
    "ones": (written(count=1.0), "Let it add C"),
    "means": (written(means=True), "You return means"),
    "leaves": (written(reach=1.0), "Exchanged, one update goes and another comes: 2C"),
    "two rows": (written(reach=2**0.5), "one row can move by 2C"),
    "variance": (written(variance=True), "a standard deviation, not a variance"),
    "only chosen": (written(only_chosen=True), "get no noise"),
}
