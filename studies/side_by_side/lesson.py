"""Settings of the notebook, what it is tried with, its random streams, and tables it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from studies.bench.lesson import Lesson
from studies.side_by_side import reading
from studies.side_by_side.cells import (
    Outcome,
    Task,
    asked,
    best_cost,
    n_public,
    n_rounds,
    one_run,
    points_of,
    sent_by_one,
)
from studies.side_by_side.figures import LOOKS, NAMES, SETS, SMALLEST
from studies.side_by_side.reading import (
    curve,
    falls_below,
    overtakes,
    said_from,
    stays_below,
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
        texts = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        rows.append([text.replace("≤ ", "≤&nbsp;").replace("≥ ", "≥&nbsp;") for text in texts])
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
            trust, saw.get("server", "there is none"), saw.get("clients", NOTHING),
            facts.noise_from, facts.receiver,
        )  # fmt: skip
    columns = ["trust", "the server sees", "clients see", "noise from", "who learns the result"]
    return pd.DataFrame(list(rows.values()), columns=columns)


NOISE = (("the server", 10), ("the clients", 10), ("the clients", 2))
"""Who adds the noise of a masked sum, and how many clients there are."""


def publishing(
    epsilon: float, delta: float, *, sizes: Sequence[int] = (1000, 10_000), n_runs: int = 40
) -> pd.DataFrame:
    """What shares of noise cost masked over-clustered Lloyd beside noise of the server.

    Variance over the server's, and the mean excess cost in per cent over `n_runs` runs, by the
    size of the mixtures (d = 2, k = 5; five of each size).
    """
    rows = []
    for who, m in NOISE:
        how: dict[str, Any] = {"n_clients": m, "noise_from": who.removeprefix("the ")}
        excess = []
        for size in sizes:
            found = []
            for run in range(n_runs):
                task = Task("mixture", size, 2, 5)
                points, _ = points_of(task, run % 5)
                made = one_run("masked", "overclustered", points, 5, epsilon=epsilon, delta=delta,
                               seed=run, **how)  # fmt: skip
                cost = kmeans.kmeans_cost(points, made.centers, normalize=True)
                found.append(cost / best_cost(task, run % 5) - 1)
            excess.append(round(100 * float(np.mean(found)), 2))
        rows.append((who, m, m / made.plan.facts.n_honest if "client" in who else 1.0, *excess))
    columns = ["noise from", "clients", "variance", f"% above the best, n = {sizes[0]:,}"]
    return pd.DataFrame(rows, columns=[*columns, *(f"n = {size:,}" for size in sizes[1:])])


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
OVER, NO_SERVER = ("masked", "overclustered"), ("serverless", "overclustered")
FEDDP, PUBLIC = ("ideal", "feddp"), ("none", "public_rows")
MIXED, SKETCH, ALG1 = ("shuffled", "sketch"), ("local", "sketch"), ("local", "alg1")
PLANE: dict[str, Any] = {"data": "mixture", "d": 2, "k": 5}


def crossings(
    table: pd.DataFrame, x: str, epsilons: Sequence[float], **where: Any
) -> dict[float, pd.DataFrame]:
    """From which x on each algorithm is within 5 % of the best, by epsilon; `said` in words."""
    out = {}
    for epsilon in epsilons:
        lines = {key: curve(table, *key, x, epsilon=epsilon, **where) for key in LOOKS}
        at = {key: falls_below(line, LEVEL) for key, line in lines.items()}
        found = {key: (at[key], said_from(at[key], line)) for key, line in lines.items()}
        out[epsilon] = pd.DataFrame(found, index=["at", "said"]).T
    return out


def said(found: Mapping[float, pd.DataFrame]) -> pd.DataFrame:
    """`crossings` as a table to read."""
    keys = list(next(iter(found.values())).index)
    rows = [[LOOKS[key].label, *(each["said"][key] for each in found.values())] for key in keys]
    names = [f"within 5 % from n, ε = {epsilon:g}" for epsilon in found]
    return pd.DataFrame(rows, columns=["algorithm", *names])


def above(excess: float) -> str:
    """An excess cost as one says it."""
    return "≤ 0.01 %" if excess <= SMALLEST else f"{float(f'{100 * excess:.2g}'):g} %"


def gains(table: pd.DataFrame, n: int) -> pd.DataFrame:
    """Excess at epsilon 1 and 4, and how many times smaller the second is; a row for each."""
    rows = []
    for key, look in LOOKS.items():
        line = curve(table, *key, "epsilon", n=n, **PLANE) - 1
        less = round(max(line[1.0], SMALLEST) / max(line[4.0], SMALLEST), 1)
        rows.append((look.label, above(line[1.0]), above(line[4.0]), less))
    names = ["algorithm", "above the best, ε = 1", "ε = 4", "times smaller"]
    return pd.DataFrame(rows, columns=names, index=list(LOOKS))


def wire(table: pd.DataFrame) -> pd.DataFrame:
    """Rounds, bytes of one client over n, and seconds of what sends anything, at epsilon 1."""
    rows = []
    for trust, method in table[["trust", "method"]].drop_duplicates().itertuples(index=False):
        by = {c: curve(table, trust, method, "n", value=c, epsilon=1.0, **PLANE)
              for c in ("rounds", "bytes", "seconds")}  # fmt: skip
        if trust in ("none", "ideal"):
            continue
        sent = [by["bytes"][n] for n in (1e3, 1e5, 1e6)]
        sent.append(table["bytes"][(table["trust"] == trust) & (table["method"] == method)].max())
        rows.append((f"{trust}, {NAMES[method]}", by["rounds"][1e5], *map(bytes_said, sent),
                     f"{by['seconds'][1e5]:.2f}"))  # fmt: skip
    columns = ["algorithm", "rounds", "n = 1,000", "n = 100,000", "n = 1,000,000", "most anywhere"]
    return pd.DataFrame(rows, columns=[*columns, "seconds, n = 100,000"])


def bytes_said(number: float) -> str:
    """Bytes with two digits and a unit."""
    unit, power = ("MB", 6) if number >= 1e6 else ("kB", 3) if number >= 1e3 else ("B", 0)
    two = float(f"{number / 10**power:.2g}")
    return f"{two:g} {unit}"


def real_sets(table: pd.DataFrame) -> pd.DataFrame:
    """Sizes of the real sets, and how many rows of each count as public."""
    part = table[table["data"] != "mixture"].drop_duplicates("data")
    sizes = part[["data", "n", "d", "k"]].to_numpy(dtype=object).tolist()
    rows = [(SETS[name], f"{n:,}", d, k, n_public(n, k)) for name, n, d, k in sizes]
    return pd.DataFrame(rows, columns=["set", "records", "columns", "clusters", "public rows"])


def over_best(rivals: pd.DataFrame) -> pd.DataFrame:
    """Cost over the best of every rival and of ours, a row for each set, with its n/k and d."""
    table = reading.over_best(rivals)[[*reading.RIVALS, "fastlloyd", "overclustered"]]
    by = rivals.drop_duplicates("dataset").set_index("dataset").loc[table.index]
    table.insert(0, "d", by["d"])
    table.insert(0, "n / k", (by["n"] / by["k"]).round().astype(int))
    return table


def shapes(better: pd.DataFrame) -> dict[str, float]:
    """Worst cost of local methods at n = 100,000, d = 2, epsilon 1: odd shapes, and wide bounds."""
    part = better[(better["n"] == 100_000) & (better["dprime"] == 2) & (better["epsilon"] == 1)]
    odd = part[~part["data"].isin(["mixture", "wide_bounds"])]
    worst = odd.groupby("algorithm")["over_optimum"].max()
    wide = part[part["data"] == "wide_bounds"].set_index("algorithm")["over_optimum"]
    names = {"sketch": "sketch", "alg1": "Algorithm 1"}
    found = {name: worst[key] for key, name in names.items()}
    return found | {f"{name}, wide bounds": wide[key] for key, name in names.items()}


TAKE = {
    PUBLIC: ("public rows like yours, 1 % of n", "k-means on these, no budget"),
    FEDDP: (
        "a server with related rows, and exact sums or a box that adds up (no masks)",
        "FedDP-KMeans (02)",
    ),
    OVER: (
        "a server that follows the rules and never sees the result",
        "masked, over-clustered (01)",
    ),
    NO_SERVER: ("the other clients", "serverless, over-clustered (01)"),
    MIXED: ("a shuffler", "shuffled sketch (03)"),
    SKETCH: ("nobody", "local sketch (03)"),
    ALG1: ("nobody, by the paper alone", "Algorithm 1 (03)"),
}
"""What to take by what one trusts or has."""


def decision(table: pd.DataFrame) -> pd.DataFrame:
    """What to take, and how far each dial may be turned for a cost within 5 % of the best."""
    large: dict[str, Any] = {"data": "mixture", "n": 100_000, "epsilon": 1.0}
    rows = []
    free = curve(table, *PUBLIC, "n", epsilon=1.0, **PLANE)
    for key, words in TAKE.items():
        *n, least = (
            said_from(falls_below(line, LEVEL), line) for line in (
                curve(table, *key, "n", epsilon=1.0, **PLANE),
                curve(table, *key, "n", epsilon=4.0, **PLANE),
                curve(table, *key, "epsilon", n=100_000, **PLANE),
            )
        )  # fmt: skip
        d = stays_below(curve(table, *key, "d", k=5, **large), LEVEL)
        k = stays_below(curve(table, *key, "k", d=2, **large), LEVEL)
        ahead = said_from(overtakes(curve(table, *key, "n", epsilon=1.0, **PLANE), free), free)
        if key == PUBLIC:
            n[1], least, ahead = "knows no ε", "knows no ε", ""
        rows.append((*words, *n, least, d, k, ahead))
    columns = ["you trust, or have", "take", "n from, ε = 1", "n from, ε = 4", "ε from", "d to"]
    return pd.DataFrame(rows, columns=[*columns, "k to", "ahead of public rows, n from"])


def none_of_these(
    table: pd.DataFrame, rivals: pd.DataFrame, better: pd.DataFrame,
    accuracy: Mapping[str, pd.Series], alone: float,
) -> pd.DataFrame:  # fmt: skip
    """Where no private algorithm of ours is good enough, with the numbers that say so."""
    real = table[(table["data"] != "mixture") & (table["epsilon"] == 1)]
    local = real[real["trust"] == "local"].groupby("data")["over_optimum"].min()
    masked, mixed, public = (curve(real, *key, "data") for key in (OVER, MIXED, PUBLIC))
    cost = over_best(rivals)
    few = cost[cost["n / k"] < 100]["overclustered"]
    wide = shapes(better)["sketch, wide bounds"]
    passed = [name for name, values in accuracy.items() if (values <= alone).all()]
    rows = [
        ("fewer than 100 records for a cluster", f"masked, over-clustered: {few.min():.2f} times"
         f" the best or more ({', '.join(few.index)}; section 7)", "one client's own rows, or"
         " public rows"),
        ("nobody trusted, and many clusters or columns", f"best local: {local['s1']:.2f} times on"
         f" S1, {local['digits']:.2f} on digits", f"a shuffler (S1 {mixed['s1']:.2f}), public rows"
         f" (S1 {public['s1']:.2f}, digits {public['digits']:.2f})"),
        ("few records with many columns", f"masked, over-clustered: {masked['digits']:.2f} times on"
         " digits", f"public rows ({public['digits']:.2f})"),
        ("bounds ten times too wide", f"local sketch: {wide:.0f} times the best",
         "bounds from public knowledge (06)"),
        ("models instead of points", f"no better than a client alone ({alone:.2f}) at any ε tried:"
         f" {', '.join(passed)}", "sums only (04), or each client alone"),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["use none of these", "measured", "instead"])
