"""Settings of the notebook, what it is tried with, its random streams, and tables it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.lesson import Lesson
from fedclust_helpers.studies.side_by_side.cells import Outcome, asked, n_rounds, sent_by_one
from fedclust_helpers.studies.side_by_side.figures import LOOKS, NAMES
from fedclust_helpers.studies.side_by_side.reading import (
    curve,
    falls_below,
    overtakes,
    rises_above,
    rounded,
)

LESSON = Lesson(
    settings={"SEED": 4, "EPSILON": 1.0, "DELTA": 1e-6, "N": 20_000, "K": 5},
    variations={"EPSILON": (0.5, 2.0), "N": (10_000,), "K": (4, 6)},
    streams=("data", "runs", "public"),
)
begin = LESSON.begin

NOTHING = "nothing"


def as_table(frame: pd.DataFrame | Sequence[Any], columns: Sequence[str] | None = None) -> Any:
    """A frame, or rows with `columns`, as a table to read; numbers with four digits."""
    from IPython.display import Markdown

    if columns is not None:
        frame = pd.DataFrame(frame, columns=list(columns))
    assert isinstance(frame, pd.DataFrame)
    rows = [list(frame.columns), ["---"] * frame.shape[1]]
    for row in frame.to_numpy(dtype=object).tolist():
        rows.append([f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row])
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


def budgets(levels: ArrayLike, delta: float) -> dict[str, list[float]]:
    """What to ask of a plan for each epsilon of one replaced record, by kind of noise."""
    kinds = {
        "reports, as they are": "sketch", "Gaussian sums": "fastlloyd", "pure sums": "sulloyd",
    }  # fmt: skip
    return {
        name: [asked(method, float(e), delta)[0] for e in np.asarray(levels)]
        for name, method in kinds.items()
    }


def models(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows of ``rr_accuracy`` at one guarantee (one client replaced), over epsilon, by method."""
    same = {
        "data": "fashion_mnist", "setting": "balanced", "model": "softmax", "sampling": "fixed",
        "k": 4, "accountant": "wor_rdp",
    }  # fmt: skip
    for column, value in same.items():
        table = table[table[column] == value]
    wanted = {
        "sums only, re-seeded": ("sums_ifca_reseed", "none"),
        "one model (DP-FedAvg)": ("fedavg", "none"),
        "RR-Cluster": ("rr_ifca", "corrected"),
    }
    out = {}
    for name, (method, identifiers) in wanted.items():
        part = table[(table["method"] == method) & (table["identifiers"] == identifiers)]
        out[name] = part.drop_duplicates("epsilon").set_index("epsilon")
    return out


# --- where curves cross ---------------------------------------------------------------------------

LEVEL = 1.05
"""Cost over the best that counts as good."""
OVER, MIXED, SKETCH, ALG1, PUBLIC = (
    ("masked", "overclustered"), ("shuffled", "sketch"), ("local", "sketch"), ("local", "alg1"),
    ("none", "public_rows"),
)  # fmt: skip
PLANE: dict[str, Any] = {"data": "mixture", "d": 2, "k": 5}


def crossings(
    table: pd.DataFrame, x: str, epsilons: Sequence[float], **where: Any
) -> dict[float, pd.Series]:
    """From which x on each algorithm is within 5 % of the best, at each epsilon."""
    out = {}
    for epsilon in epsilons:
        lines = {key: curve(table, *key, x, epsilon=epsilon, **where) for key in LOOKS}
        found = {key: falls_below(line, LEVEL) for key, line in lines.items() if len(line)}
        out[epsilon] = pd.Series(found)
    return out


def said(found: Mapping[float, pd.Series]) -> pd.DataFrame:
    """`crossings` as a table to read."""
    keys = list(next(iter(found.values())).index)
    rows = [[LOOKS[key].label, *(rounded(each[key]) for each in found.values())] for key in keys]
    names = [f"within 5 % from n, ε = {epsilon:g}" for epsilon in found]
    return pd.DataFrame(rows, columns=["algorithm", *names])


def within(table: pd.DataFrame, key: tuple[str, str], x: str, **where: Any) -> str:
    """What x must be for at most 5 % above the best, in words."""
    line = curve(table, *key, x, **where)
    at = falls_below(line, LEVEL)
    return ("at most " if at == line.index[0] else "") + rounded(at)


def decision(table: pd.DataFrame) -> pd.DataFrame:
    """What to take, by what one trusts or has, and how many records it needs."""
    one, four = PLANE | {"epsilon": 1.0}, PLANE | {"epsilon": 4.0}
    sums, public = (curve(table, *key, "n", **one) for key in (OVER, PUBLIC))
    at = overtakes(sums, public)
    until = ("at most " if at == sums.index[0] else "") + rounded(at)
    rows = [
        ("public rows alike, 1 % of n", within(table, PUBLIC, "n", **one),
         f"none of these; sums are better from n = {until}"),
        ("sums, a server that follows the rules", within(table, OVER, "n", **one),
         "masked, over-clustered (01, beyond)"),
        ("only a shuffler", within(table, MIXED, "n", **one), "shuffled sketch (03)"),
        ("nobody, ε = 1", within(table, SKETCH, "n", **one), "sketch (03, beyond)"),
        ("nobody, ε = 4", within(table, SKETCH, "n", **four), "sketch"),
        ("nobody, and one bit is all", within(table, ALG1, "n", **one), "Algorithm 1 (03)"),
    ]  # fmt: skip
    columns = ["you trust, or have", "records for 5 % (d = 2, k = 5)", "take"]
    return pd.DataFrame(rows, columns=columns)


def limits(table: pd.DataFrame) -> pd.DataFrame:
    """How far the dials d, k and epsilon may be turned at n = 100,000."""
    large: dict[str, Any] = {"data": "mixture", "n": 100_000, "epsilon": 1.0}
    by_d = curve(table, *OVER, "d", k=5, **large).max()
    by_k = curve(table, *OVER, "k", d=2, **large).max()
    d = rises_above(curve(table, *SKETCH, "d", k=5, **large), LEVEL)
    k = rises_above(curve(table, *SKETCH, "k", d=2, **large), LEVEL)
    plane = PLANE | {"n": 100_000}
    rows = [
        ("columns d", f"{by_d:.3f} at worst (d to 16)", f"5 % is passed at d = {rounded(d)}"),
        ("clusters k", f"{by_k:.3f} at worst (k to 20)", f"5 % is passed at k = {rounded(k)}"),
        ("ε", f"within 5 % from {within(table, OVER, 'epsilon', **plane)}",
         f"within 5 % from {within(table, SKETCH, 'epsilon', **plane)}"),
    ]  # fmt: skip
    columns = ["dial (n = 100,000)", "masked, over-clustered", "local sketch"]
    return pd.DataFrame(rows, columns=columns)
