"""Settings of the notebook, what it is tried with, its random streams, and tables it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers.studies.bench.lesson import Lesson
from fedclust_helpers.studies.side_by_side.cells import Outcome, n_rounds, sent_by_one
from fedclust_helpers.studies.side_by_side.figures import NAMES

LESSON = Lesson(
    settings={"SEED": 4, "EPSILON": 1.0, "DELTA": 1e-6, "N": 20_000, "K": 5},
    variations={"EPSILON": (0.5, 2.0), "DELTA": (1e-5,), "N": (10_000,), "K": (4, 6)},
    streams=("data", "runs", "public"),
)
begin = LESSON.begin

NOTHING = "nothing"


def as_table(frame: pd.DataFrame | Sequence[Any], columns: Sequence[str] | None = None) -> Any:
    """A frame, or rows with `columns`, as a table to read; numbers with three digits."""
    from IPython.display import Markdown

    frame = pd.DataFrame(frame, columns=columns)
    rows = [list(frame.columns), ["---"] * frame.shape[1]]
    for row in frame.to_numpy(dtype=object).tolist():
        rows.append([f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row])
    return Markdown("\n".join(f"| {' | '.join(map(str, row))} |" for row in rows))


def compared(
    runs: Mapping[tuple[str, str], Outcome], costs: Mapping[tuple[str, str], float], n: int,
    epsilon: float, delta: float,
) -> pd.DataFrame:  # fmt: skip
    """One row for each run: cost over the best, guarantee, rounds, bytes of a client.

    `epsilon` and `delta` are what one replaced record costs, the same in all rows.
    """
    rows = []
    for (trust, method), made in runs.items():
        plan = made.plan
        if plan is None:
            promise = ("no private data", "", "")
        else:
            how = "pure" if plan.delta == 0 else f"δ = {plan.delta:.2g}"
            kept = 0 if plan.delta == 0 else delta
            promise = (
                f"({epsilon:g}, {kept:g})", f"ε = {plan.epsilon:.3g}, {how}",
                f"{plan.facts.adjacency}, one {plan.facts.unit}",
            )  # fmt: skip
        sent = sent_by_one(made, trust, n)
        rows.append((
            trust, NAMES[method], f"{costs[trust, method]:.3f}", *promise, n_rounds(made),
            0 if plan is None else "into the box" if np.isnan(sent) else f"{sent:,.0f}",
        ))  # fmt: skip
    columns = ["trust", "algorithm", "cost / best", "(ε, δ) of one replaced", "asked of the plan"]
    return pd.DataFrame(rows, columns=[*columns, "which hides", "rounds", "bytes a client sends"])


def seen(runs: Mapping[tuple[str, str], Outcome]) -> pd.DataFrame:
    """What each party saw and who added noise, by trust model, from the federations' own facts."""
    rows: dict[str, tuple[Any, ...]] = {}
    for (trust, _), made in runs.items():
        if made.plan is None:
            continue
        facts = made.plan.facts
        saw = dict(facts.sees)
        rows[trust] = (
            trust, saw.get("server", NOTHING), saw.get("clients", NOTHING), facts.noise_from,
            facts.receiver,
        )  # fmt: skip
    columns = ["trust", "the server sees", "clients see", "noise from", "who learns the result"]
    return pd.DataFrame(list(rows.values()), columns=columns)
