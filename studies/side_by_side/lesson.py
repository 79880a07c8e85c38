"""Settings of the notebook, what it is tried with, its random streams, and tables it shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers import accounting, kmeans, ldp_kmeans, metrics
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.federation import simulate
from studies.bench import samples
from studies.bench.lesson import Lesson
from studies.bench.samples import Rows
from studies.feddp_kmeans import lesson as feddp_lesson
from studies.side_by_side import reading
from studies.side_by_side.cells import (
    BAD,
    DELTA,
    N_CLIENTS,
    Task,
    asked,
    best_cost,
    one_run,
    points_of,
)
from studies.side_by_side.figures import LOOKS, NAMES
from studies.side_by_side.reading import curve, falls_below, said_from

LESSON = Lesson(
    settings={"SEED": 4, "DATA": "mixture", "EPSILON": 1.0, "DELTA": 1e-6, "N": 20_000, "K": 5},
    variations={
        "DATA": ("tumours", "photograph"), "EPSILON": (0.3, 2.0), "N": (2000,), "K": (2, 6),
    },
    streams=("data", "runs", "best", "page"),
)  # fmt: skip
begin = LESSON.begin


def _mixture(n: int, k: int, *, rng: np.random.Generator) -> Rows:
    points = make_ball_mixture(n, 2, k, rng=rng).points
    ends = np.ones(2)
    return Rows(points, ("first", "second"), -ends, ends, samples.dealt(n, N_CLIENTS), k)


def data(name: str, n: int = 2000, k: int = 5, *, rng: np.random.Generator) -> Rows:
    """The rows that the setting DATA names, at most n.

    Raises
    ------
    ValueError
        If there is no such data set; the message lists those that there are.
    """
    return samples.choose(name, {
        "mixture": lambda: _mixture(n, k, rng=rng),
        "tumours": lambda: samples.tumours(N_CLIENTS, min(n, 569), rng=rng),
        "photograph": lambda: samples.photograph(N_CLIENTS, n, rng=rng),
    })  # fmt: skip


def in_ball(rows: Rows) -> tuple[FloatArray, float]:
    """The points in the unit ball, which is public, and half the side of the public box."""
    fits = np.linalg.norm(rows.points, axis=1).max() <= 1
    bound = 1.0 if fits else 1 / math.sqrt(len(rows.names))
    return rows.points * bound, bound


SHOWN = tuple((trust, "overclustered") for trust in ("trusted", "ideal", "masked", "serverless"))
SHOWN += (("masked", "fastlloyd"),)
"""Runs of the package that stand beside the page's own."""


def package(points: FloatArray, k: int, **how: Any) -> pd.Series:
    """Cost of one run of each of `SHOWN`; `how` is for `one_run`."""
    runs = {pair: one_run(*pair, points, k, **how).centers for pair in SHOWN}
    return pd.Series({
        f"{trust}, {NAMES[method]}": kmeans.kmeans_cost(points, found)
        for (trust, method), found in runs.items()
    })  # fmt: skip


def other_kind(n_runs: int, epsilon: float, delta: float) -> pd.DataFrame:
    """Median cost over the best in the paper's mixture: a third of the server's rows is foreign.

    100 clients, 100,000 rows in 100 columns, ten groups; an ideal secure sum, (epsilon, delta) for
    one replaced record.
    """
    rows: list[dict[str, float]] = []
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        made = feddp_lesson.mixture(rng=rng)
        public, bound = made.made.server_points, made.made.radius
        fed, (eps, dlt) = made.federation(seed), asked("feddp", epsilon, delta)
        run = fk.run(fed, fk.plan(fed, public, n_clusters=10, epsilon=eps, delta=dlt), rng=rng)
        found = {
            PUBLIC: kmeans.weighted_kmeans(public, None, 10, rng=rng, n_init=10),
            FEDDP: run.centers,
        }
        eps, dlt = asked("overclustered", epsilon, delta)
        for pair, planner in ((OVER, fl.plan_overclustered), (FAST, fl.plan)):
            fed = simulate(made.rows, "ideal", seed=seed, bound=bound)
            plan = planner(fed, n_clusters=10, epsilon=eps, delta=dlt)
            found[pair] = fl.run(fed, plan).centers
        cost = {pair: metrics.nicv(made.made.points, each) for pair, each in found.items()}
        rows.append({NAMES[method]: value / made.best for (_, method), value in cost.items()})
    middle = pd.DataFrame(rows).median()
    head = f"cost / best, {len(public)} public rows"
    return pd.DataFrame({"method": middle.index, head: middle.map("{:.3f}".format)})


def as_table(frame: pd.DataFrame) -> Any:
    """A frame as a table to read; numbers with four digits."""
    from IPython.display import Markdown

    rows = [list(frame.columns), ["---"] * frame.shape[1]]
    for row in frame.to_numpy(dtype=object).tolist():
        texts = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        rows.append([text.replace("≤ ", "≤&nbsp;").replace("≥ ", "≥&nbsp;") for text in texts])
    return Markdown("\n".join(f"| {' | '.join(map(str, row))} |" for row in rows))


NOISE = (("the server", 10), ("the clients", 10), ("the clients", 2))
"""Who adds the noise of a masked sum, and how many clients there are."""


def publishing(
    epsilon: float, delta: float, *, sizes: Sequence[int] = (1000, 10_000), n_runs: int = 40
) -> pd.DataFrame:
    """What shares of noise cost masked over-clustered Lloyd beside noise of the server.

    Variance over the server's, and the median excess cost in per cent over `n_runs` runs, by the
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
            excess.append(round(100 * float(np.median(found)), 2))
        rows.append((who, m, m / made.plan.facts.n_honest if "client" in who else 1.0, *excess))
    columns = ["noise from", "clients", "variance", f"% above the best, n = {sizes[0]:,}"]
    return pd.DataFrame(rows, columns=[*columns, *(f"n = {size:,}" for size in sizes[1:])])


# --- where curves cross ---------------------------------------------------------------------------

LEVEL = 1.05
"""Cost over the best that counts as good."""
OVER, FAST = ("masked", "overclustered"), ("masked", "fastlloyd")
FEDDP, PUBLIC = ("ideal", "feddp"), ("none", "public_rows")
MIXED, SKETCH, ALG1 = ("shuffled", "sketch"), ("local", "sketch"), ("local", "alg1")
PLANE: dict[str, Any] = {"data": "mixture", "d": 2, "k": 5}


def crossings(
    table: pd.DataFrame, x: str, epsilons: Sequence[float], **where: Any
) -> dict[float, pd.DataFrame]:
    """From which x on the median of each algorithm stays within 5 % of the best, by epsilon.

    Not of FastLloyd, whose median hides its failures.
    """
    out = {}
    for epsilon in epsilons:
        where |= {"epsilon": epsilon, "value": "median"}
        lines = {key: curve(table, *key, x, **where) for key in LOOKS if key != FAST}
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


def over_best(rivals: pd.DataFrame) -> pd.DataFrame:
    """Median cost over the best at epsilon 1 of rivals and of ours, by set, with its n/k and d."""
    table = reading.over_best(rivals)[[*reading.RIVALS, "sulloyd", "fastlloyd", "overclustered"]]
    by = rivals.drop_duplicates("dataset").set_index("dataset").loc[table.index]
    table.insert(0, "d", by["d"])
    table.insert(0, "n / k", (by["n"] / by["k"]).round().astype(int))
    return table


# --- the decision table ---------------------------------------------------------------------------

TAKE: dict[tuple[str, str], tuple[str, str, str]] = {
    PUBLIC: ("nobody; public rows", "k-means on the public rows",
             "they are public anyway"),
    FEDDP: ("a party that adds up; public rows", "FedDP-KMeans (02)",
            "it knows exact sums"),
    OVER: ("an honest server", "masked, over-clustered (section 3)",
           "server and one client unmask the rest"),
    FAST: ("an honest server", "masked, FastLloyd (01)", "the same"),
    MIXED: ("a shuffler that tells nothing", "shuffled sketch (03)", "ε = {:.1f} is left"),
    SKETCH: ("nobody", "local sketch (03)", "nothing can fail"),
    ALG1: ("nobody", "local Algorithm 1 (03)", "nothing can fail"),
}  # fmt: skip
"""By what one trusts or has: what to take, and what is left of the promise if the trust fails."""


def report_alone(n: int, d: int, epsilon: float, delta: float) -> float:
    """The epsilon of one report of n users whose shuffled sketch is (epsilon, delta)-DP."""
    return float(accounting.local_epsilon_for(
        n, epsilon, delta, lambda e: (ldp_kmeans.sketch_report(e, d),)
    ))  # fmt: skip


def nearest(table: pd.DataFrame, n: int, d: int, k: int) -> tuple[int, int, int]:
    """The n, d and k of the table that are nearest, by factors."""
    settings = table[["n", "d", "k"]].drop_duplicates()
    far = np.abs(np.log(settings / np.array([n, d, k]))).sum(axis=1)
    found = settings.loc[far.idxmin()]
    return int(found["n"]), int(found["d"]), int(found["k"])


def said_place(place: tuple[int, int, int]) -> str:
    """n, d, k in words."""
    return "{:,}, {}, {}".format(*place)


def at(table: pd.DataFrame, n: int, d: int, k: int) -> dict[tuple[str, str], pd.DataFrame]:
    """The runs of one setting by (trust, method)."""
    part = table[(table["n"] == n) & (table["d"] == d) & (table["k"] == k)]
    return {key: part[(part["trust"] == key[0]) & (part["method"] == key[1])] for key in TAKE}


def said_runs(median: float, bad: float) -> str:
    """Median cost over the best, and in brackets the share of runs above `BAD` times it."""
    return f"{median:.2f} ({bad:.0%})"


def decision(
    table: pd.DataFrame, real: pd.DataFrame, *places: tuple[int, int, int]
) -> pd.DataFrame:
    """A row for each kind of trust: what to take, how it did, and what is left if trust fails.

    A column for the setting of `table` that is nearest to each of `places` (n, d, k), and for each
    real set of `real`: median cost over the best, and the share of runs above `BAD` times it.
    """
    near = [nearest(table, *place) for place in places]
    rows = []
    for key, (trust, take, fails) in TAKE.items():
        row = {"you trust": trust, "take": take}
        for place in near:
            cost = at(table, *place)[key]["over_optimum"]
            row[f"made: {said_place(place)}"] = said_runs(cost.median(), (cost > BAD).mean())
        of_key = (real["trust"] == key[0]) & (real["method"] == key[1]) & (real["epsilon"] == 1)
        for one in real[of_key & (real["data"] != "mixture")].to_dict("records"):
            place = one["n"], one["d"], one["k"]
            row[f"{one['data']}: {said_place(place)}"] = said_runs(one["median"], one["bad"])
        alone = report_alone(*near[0][:2], 1.0, DELTA) if key == MIXED else 0.0
        rows.append(row | {"if that trust fails": fails.format(alone)})
    return pd.DataFrame(rows)


def failures(table: pd.DataFrame) -> pd.DataFrame:
    """Share of the runs above `BAD` times the best, a row for each setting."""
    rows = []
    for n, d, k in table[["n", "d", "k"]].drop_duplicates().itertuples(index=False):
        found = at(table, n, d, k)
        shares = {
            LOOKS[key].label: f"{(runs['over_optimum'] > BAD).mean():.0%}"
            for key, runs in found.items()
        }  # fmt: skip
        rows.append({"n, d, k": said_place((n, d, k))} | shares)
    return pd.DataFrame(rows)


def large(rivals: pd.DataFrame) -> pd.DataFrame:
    """Median cost over the best and share of runs above `BAD`, by large set and method."""
    part = rivals[rivals["sets"] == "large"]
    cost = reading.over_best(part)
    bad = part.pivot(index="dataset", columns="method", values="bad").loc[cost.index, cost.columns]
    said = cost.map("{:.2f}".format) + bad.map(" ({:.0%})".format)
    shape = part.drop_duplicates("dataset").set_index("dataset").loc[cost.index, ["n", "d", "k"]]
    said.index = pd.Index([said_place((n, d, k)) for n, d, k in shape.itertuples(index=False)])
    said = said[[name for name in NAMES if name in said]].rename(columns=NAMES)
    return said.reset_index(names="n, d, k")


def none_of_these(
    runs: pd.DataFrame, table: pd.DataFrame, rivals: pd.DataFrame, better: pd.DataFrame
) -> pd.DataFrame:
    """Where no private algorithm of ours is good enough, with the numbers that say so."""
    real = table[(table["data"] != "mixture") & (table["epsilon"] == 1)]
    local = real[real["trust"] == "local"].groupby("data")["median"].min()
    mixed, public = (curve(real, *key, "data", value="median") for key in (MIXED, PUBLIC))
    bad = failures(runs).set_index("n, d, k")["masked, over-clustered"]
    bad = bad[bad.str.rstrip("%").astype(float) >= 10]
    cost = over_best(rivals)
    few = cost[cost["overclustered"] > 1.2]
    small = (f"{x['overclustered']:.2f} on {x['index']} ({x['n / k']:.0f} records a cluster)"
             for x in few.reset_index(names="index").to_dict("records"))  # fmt: skip
    part = better[(better["n"] == 100_000) & (better["dprime"] == 2) & (better["epsilon"] == 1)]
    wide = part[(part["data"] == "wide_bounds") & (part["algorithm"] == "sketch")]
    rows = [
        ("few records for the clusters and columns", "above 1.5 in "
         + "; ".join(f"{share} at {place}" for place, share in bad.items())
         + f"; {', '.join(small)}",
         f"public rows (digits {public['digits']:.2f}), fewer columns"),
        ("nobody trusted, and many clusters or columns", f"best local: {local['s1']:.2f} times on"
         f" S1, {local['digits']:.2f} on digits", f"a shuffler (S1 {mixed['s1']:.2f}), public rows"
         f" (S1 {public['s1']:.2f}, digits {public['digits']:.2f})"),
        ("bounds ten times too wide, nobody trusted",
         f"sketch: {wide['over_optimum'].item():.0f} times the best",
         "bounds from public knowledge, or private ones (06)"),
        ("models instead of points", "not here: 04 measures accuracy, not cost", "sums only (04)"),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["use none of these", "measured", "instead"])
