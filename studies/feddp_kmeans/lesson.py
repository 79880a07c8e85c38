"""What notebook 02 runs on: settings, data, whole runs that it compares, one table it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedclust_helpers import accounting, kmeans
from fedclust_helpers import feddp_kmeans as fd
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import FloatArray, check_choice
from fedclust_helpers.federation import ClientData, Federation, Randomness, simulate
from fedclust_helpers.metrics import nicv
from studies.bench.lesson import Lesson
from studies.bench.results import load_results
from studies.bench.samples import Rows
from studies.feddp_kmeans.figures import METHODS
from studies.feddp_kmeans.problems import cut_rows
from studies.paper_data import FederatedDataset, make_image_federation, make_server_mixture

LESSON = Lesson(
    settings={
        "SEED": 5, "DATA": "mixture", "EPSILON": 1.0, "DELTA": 1e-6, "K": 10, "N_CLIENTS": 100,
        "N_ROWS": 1000,
    },
    variations={
        "DATA": ("photograph",), "EPSILON": (0.3, 2.0), "K": (2, 5, 11), "N_CLIENTS": (20,),
        "N_ROWS": (200,),
    },
    streams=(
        "large", "small", "rounds", "subspace", "weights", "server", "floor", "audit", "planning",
        "missing", "radius", "photo", "colours", "james stein", "k", "replaced", "fresh", "kinds",
    ),
)  # fmt: skip
begin = LESSON.begin

PUBLIC = {"server_lloyds": 1, "server_kmeanspp": 1, "sphere_packing": 3}
"""Public starts and the rounds that suit them."""


class Problem(NamedTuple):
    """Made data with the truth in it, the clients' rows cut to length r, the best cost per row."""

    made: FederatedDataset
    rows: ClientData
    best: float

    def federation(self, seed: Any, unit: str = "point", **how: Any) -> Federation:
        """An ideal secure sum over these rows, add/remove; teaching mode where `how` is empty."""
        ledger = accounting.PrivacyLedger(unit=unit, adjacency="add/remove")
        how = how or {"seed": seed}
        return simulate(self.rows, "ideal", bound=self.made.radius, domain="ball", ledger=ledger,
                        **how)  # fmt: skip

    def above(self, centers: FloatArray) -> float:
        """Cost above the best one, in per cent of it."""
        return 100 * (nicv(self.made.points, centers) / self.best - 1)


def mixture(
    k: int = 10, n_clients: int = 100, n_rows: int = 1000, *, rng: np.random.Generator, **more: Any
) -> Problem:
    """The paper's mixture in 100 columns (Appendix G.1)."""
    sizes = {"n_clients": n_clients, "rows_per_client": n_rows, "n_clusters": k}
    made = make_server_mixture(**sizes, **more, rng=rng)
    assert made.true_centers is not None
    best = kmeans.lloyd(made.points, made.true_centers, n_rounds=5)
    return Problem(made, cut_rows(made), nicv(made.points, best))


def photograph(
    k: int = 8, n_clients: int = 64, n_rows: int = 2000, *, rng: np.random.Generator
) -> Problem:
    """Strips of one photograph at the clients, at most `n_rows` patches of each, and another's.

    Its `true_centers` are the best colours found without privacy.
    """
    made = make_image_federation(n_clients=n_clients, n_clusters=k, rng=rng)
    kept = [rng.permutation(np.arange(*ends))[:n_rows] for ends in
            zip(made.offsets[:-1], made.offsets[1:], strict=True)]  # fmt: skip
    points = made.points[np.concatenate(kept)]
    offsets = np.cumsum([0, *map(len, kept)])
    found = kmeans.weighted_kmeans(points, None, k, rng=rng, n_init=3)
    made = replace(made, points=points, offsets=offsets, true_centers=found)
    return Problem(made, cut_rows(made), nicv(points, found))


def problem(name: str, k: int, n_clients: int, n_rows: int, *, rng: np.random.Generator) -> Problem:
    """The data set that the setting DATA names.

    Raises
    ------
    ValueError
        If there is no such data set; the message lists those that there are.
    """
    if check_choice(name, "DATA", ("mixture", "photograph")) == "mixture":
        return mixture(k, n_clients, n_rows, rng=rng)
    return photograph(k, n_clients, n_rows, rng=rng)


def data(name: str, *, rng: np.random.Generator) -> Rows:
    """The clients' rows of a small problem over the radius: in the box, as in all lessons."""
    made, rows, _ = problem(name, 10, 20, 50, rng=rng)
    d = made.n_features
    owners = repeat(np.arange(made.n_clients), np.diff(made.offsets))
    names = tuple(f"column {i + 1}" for i in range(d))
    ends = made.radius * np.ones(d)
    return Rows(rows.points / made.radius, names, -ends, ends, owners, made.n_clusters)


# --- whole runs -----------------------------------------------------------------------------------


def draws(seed: int) -> tuple[Any, np.random.Generator]:
    """The noise of a teaching run with this seed, and the same seed for the server's k-means."""
    return Randomness.teaching(seed).noise, np.random.default_rng(seed)


def start_that_knows(made: FederatedDataset) -> FloatArray:
    """For each true group, the mean of those of the server's own points that belong to it."""
    assert made.true_centers is not None
    own = made.server_points[made.in_distribution]
    labels = kmeans.assign(own, made.true_centers).labels
    sums, counts = kmeans.group_sums(own, labels, len(made.true_centers))
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], made.true_centers)


def after_rounds(
    problem: Problem, rounds: Sequence[int], epsilon: float, delta: float, seeds: Sequence[Any]
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Per cent above the best (rounds, seeds) by start: exact, and for epsilon in all."""
    made = problem.made
    exact, noised = ({name: np.empty((len(rounds), len(seeds))) for name in
                      ("sphere_packing", "knows")} for _ in range(2))  # fmt: skip
    for j, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        packed = fd.STARTS["sphere_packing"](made.server_points, made.n_clusters, rng=rng)
        for name, start in (("sphere_packing", packed), ("knows", start_that_knows(made))):
            for i, n_rounds in enumerate(rounds):
                plain = kmeans.lloyd(made.points, start, n_rounds=n_rounds)
                exact[name][i, j] = problem.above(plain)
                fed = problem.federation(seed)
                plan = fd.plan_lloyds(fed, initial=start, n_clusters=made.n_clusters,
                                      epsilon=epsilon, delta=delta, n_rounds=n_rounds)  # fmt: skip
                noised[name][i, j] = problem.above(fd.run(fed, plan).centers)
    return exact, noised


def centers_of(
    method: str, problem: Problem, epsilon: float, delta: float, seed: Any,
    n_rounds: int | None = None,
) -> FloatArray:  # fmt: skip
    """Centres of one run at (epsilon, delta) for a row; by default 0, `PUBLIC`, own rounds."""
    made, fed = problem.made, problem.federation(seed)
    rng, q = np.random.default_rng(seed), made.server_points
    ask: dict[str, Any] = {"n_clusters": made.n_clusters, "epsilon": epsilon, "delta": delta}
    if method == "feddp":
        plan = fd.plan(fed, q, n_rounds=n_rounds or 0, **ask)
    elif method == "feddp_adaptive":
        plan = fd.plan_adaptive(fed, q, n_rounds=n_rounds, rng=rng, **ask,
                                n_records=len(problem.rows.points))  # fmt: skip
    else:
        plan = fd.plan_lloyds(fed, q, initial=method, n_rounds=n_rounds or PUBLIC[method], **ask)
    return fd.run(fed, plan, rng=rng).centers


def above(
    method: str, problem: Problem, epsilon: float, delta: float, seed: Any,
    n_rounds: int | None = None,
) -> float:  # fmt: skip
    """Per cent above the best of `centers_of` for the same arguments."""
    return problem.above(centers_of(method, problem, epsilon, delta, seed, n_rounds))


def coloured(problem: Problem, epsilon: float, delta: float, seed: int) -> dict[str, FloatArray]:
    """Centres of FedDP-KMeans and of two public starts, 8 rounds each."""
    return {
        method: centers_of(method, problem, epsilon, delta, seed, n_rounds)
        for method, n_rounds in {"feddp": 0, "server_lloyds": 8, "server_kmeanspp": 8}.items()
    }


TRIO = ("feddp", "feddp_adaptive", "server_lloyds")


def without_some(
    missing: Sequence[int], k: int, n_rows: int, epsilon: float, delta: float, seeds: Sequence[Any]
) -> dict[str, FloatArray]:
    """Per cent above the best where the server has no point of some groups, (missing, seeds)."""
    found = {name: np.empty((len(missing), len(seeds))) for name in TRIO}
    for j, seed in enumerate(seeds):
        for i, n_missing in enumerate(missing):
            made = mixture(k, 100, n_rows, missing=n_missing, rng=np.random.default_rng(seed))
            for name in TRIO:
                found[name][i, j] = above(name, made, epsilon, delta, seed)
    return found


def predicted_gaps(problem: Problem, epsilon: float, delta: float) -> float:
    """Noise of Step 1 over the gap, as a plan predicts it from public numbers."""
    fed, made = problem.federation(0), problem.made
    plan = fd.plan_adaptive(
        fed, made.server_points, n_clusters=made.n_clusters, epsilon=epsilon, delta=delta,
        n_records=len(problem.rows.points), n_rounds=1, rng=np.random.default_rng(0),
    )  # fmt: skip
    return float(plan.dial.noise_over_gap)


def with_radius(
    factors: Sequence[float], k: int, n_rows: int, epsilon: float, delta: float,
    seeds: Sequence[Any],
) -> tuple[dict[str, FloatArray], dict[str, list[float]]]:  # fmt: skip
    """Per cent above the best (factors, seeds), and predicted gaps, by radius / longest record."""
    rng = np.random.default_rng(seeds[0])
    problems = {"mixture": mixture(k, 100, n_rows, rng=rng), "photograph": photograph(rng=rng)}
    found = {name: np.empty((len(factors), len(seeds))) for name in problems}
    gaps: dict[str, list[float]] = {name: [] for name in problems}
    for name, (made, _, best) in problems.items():
        longest = float(np.linalg.norm(made.server_points, axis=1).max())
        for i, factor in enumerate(factors):
            changed = replace(made, radius=factor * longest)
            tried = Problem(changed, cut_rows(changed), best)
            gaps[name].append(round(predicted_gaps(tried, epsilon, delta), 2))
            for j, seed in enumerate(seeds):
                found[name][i, j] = above("feddp", tried, epsilon, delta, seed)
    return found, gaps


def with_kinds(
    problem: Problem, epsilon: float, delta: float, seeds: Sequence[Any], n_rounds: int
) -> pd.DataFrame:
    """Median per cent above the best with both kinds of records, or one; rounds of ServerLloyds."""
    made, found = problem.made, {}
    own = np.asarray(made.in_distribution, dtype=bool)
    for name, kept in {"both": own | True, "own alone": own, "other alone": ~own}.items():
        fewer = replace(made, server_points=made.server_points[kept], in_distribution=own[kept])
        tried = problem._replace(made=fewer)
        found[name] = {
            METHODS[method].label: np.median(
                [above(method, tried, epsilon, delta, seed, n_rounds=t) for seed in seeds]
            )
            for method, t in (("feddp", 0), ("server_lloyds", n_rounds))
        }
    return pd.DataFrame(found).T


def with_tenths(
    problem: Problem, epsilon: float, delta: float, seeds: Sequence[Any]
) -> dict[str, float]:
    """Median per cent above the best where one step of FedDP-Init gets a tenth of its budget."""
    made, found = problem.made, {}
    for name in ("none", "outer", "weights", "sums", "counts"):
        costs = []
        for seed in seeds:
            fed = problem.federation(seed)
            plan = fd.plan(fed, made.server_points, n_clusters=made.n_clusters, epsilon=epsilon,
                           delta=delta)  # fmt: skip
            if name != "none":
                less = replace(plan.dial, **{name: getattr(plan.dial, name) / 10})
                plan = fd.plan(fed, made.server_points, n_clusters=made.n_clusters, budgets=less)
            run = fd.run(fed, plan, rng=np.random.default_rng(seed))
            costs.append(problem.above(run.centers))
        found[name] = round(float(np.median(costs)), 2)
    return found


# --- the committed table --------------------------------------------------------------------------


def best_costs() -> pd.DataFrame:
    """Mean excess by (level, clients, eps_total) and method at its best T, from `feddp_cost`."""
    keys = ["level", "clients", "eps_total"]
    return load_results("feddp_cost").pivot_table("excess_mean", keys, "method", aggfunc="min")


def against_starts() -> pd.DataFrame:
    """Both private methods beside the best public start: with private rounds, and untouched."""
    best, starts = best_costs(), list(fd.STARTS)
    spent = best[best["feddp"].notna()]
    alone = best.xs(0.0, level="eps_total")[starts].T.min()
    return spent[["feddp", "feddp_adaptive"]].assign(
        start=spent[starts].T.min(),
        untouched=[alone[level, clients] for level, clients, _ in spent.index],
    )


def rival(cells: pd.DataFrame) -> pd.Series:
    """The better public start of each row of `against_starts`."""
    return cells[["start", "untouched"]].T.min()


def beside(cells: pd.DataFrame, over: pd.Series, fresh: pd.DataFrame) -> pd.DataFrame:
    """Both methods over the best public start, and `gaps`: rows of both tables below each other."""
    both = pd.concat([cells.assign(start=rival(cells), gaps=over)[fresh.columns], fresh])
    methods = ["feddp", "feddp_adaptive"]
    return both[methods].div(both["start"], axis=0).assign(gaps=both["gaps"])


def on_photograph(
    delta: float, seeds: Sequence[Any], epsilons: Sequence[float] = (0.005, 0.05, 0.25, 1.0)
) -> pd.DataFrame:
    """Columns of `against_starts`, and predicted gaps: medians in %, at the better rounds."""
    tried, rows = photograph(rng=np.random.default_rng(seeds[0])), {}
    rounds = {"feddp": (0, 4), "feddp_adaptive": (None,)} | dict.fromkeys(PUBLIC, (1, 8))
    for epsilon in epsilons:
        costs = {
            name: min(
                np.median([above(name, tried, epsilon, delta, seed, n_rounds=t) for seed in seeds])
                for t in several
            )
            for name, several in rounds.items()
        }
        costs["start"] = min(costs.pop(name) for name in PUBLIC)
        rows["photograph", 64, epsilon] = costs | {"gaps": predicted_gaps(tried, epsilon, delta)}
    return pd.DataFrame(rows).T.rename_axis(["level", "clients", "eps_total"])


def noise_over_gap(cells: pd.DataFrame, delta: float, *, rng: np.random.Generator) -> pd.Series:
    """Predicted noise of Step 1 over the predicted gap, for each row of `against_starts`.

    From public numbers only: the server's points, r, d, k, and how many rows the clients hold. The
    gap grows with the number of rows, so one plan serves all sizes.
    """
    paper, many, rows = mixture(10, 2, 20, rng=rng), 10**6, {"point": 1000, "client": 50}
    base: dict[tuple[str, float], float] = {}
    for level, _, epsilon in cells.index:
        if (level, epsilon) in base:
            continue
        counts = {"rows_per_client": 50} if level == "client" else {}
        plan = fd.plan_adaptive(
            paper.federation(0, level), paper.made.server_points, n_clusters=10, epsilon=epsilon,
            delta=delta, n_records=many, n_rounds=1, rng=rng, **counts,
        )  # fmt: skip
        base[level, epsilon] = plan.dial.noise_over_gap * many
    found = [
        base[level, epsilon] / clients / rows[level] for level, clients, epsilon in cells.index
    ]
    return pd.Series(found, cells.index)
