"""FedDP result tables: made in their tiny size, and checked against the package's own pieces."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.feddp_kmeans.budgets import STEPS
from fedclust_helpers.federation import IdealSecureSum
from fedclust_helpers.studies import (
    QUICK,
    Design,
    load_results,
    run_table,
)
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.feddp_kmeans import cells, problems, tables

COST = "method,eps_total,T,seeds,cost_mean,ci95,excess_mean,excess_max"
COLUMNS = {
    "feddp_cost": f"level,clients,{COST}",
    "feddp_missing": f"missing,{COST}",
    "feddp_census": f"employment,{COST}",
    "feddp_pareto": (
        "panel,method,setting,eps1,eps2,eps3G,eps3L,eps4G,eps4L,T,eps_total,seeds,cost_mean,"
        "excess_mean,pareto"
    ),
    "feddp_proportions": (
        "table,panel,quantity,paper,ours,ours_mean_of_shares,all_settings,pareto_runs"
    ),
    "feddp_elbow": (
        "level,clients,eps1,eps2,eps_total,k_prime,k,seeds,cost_mean,ci95,elbow_median,"
        "elbow_is_true_k,elbow_within_1"
    ),
}
RESULTS = Path(__file__).resolve().parents[1] / "data" / "results"
SEEDS = QUICK.runs
STARTS = tuple(fk.STARTS)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All FedDP tables in their tiny size."""
    folder = tmp_path_factory.mktemp("feddp")
    for name in tables.FEDDP_TABLES:
        run_table(name, folder, design=QUICK)
    return folder


# --- making tables --------------------------------------------------------------------------------


def test_quick_run_writes_every_table(quick: Path) -> None:
    assert {path.name for path in quick.iterdir()} == {f"{name}.csv" for name in COLUMNS}
    for name, columns in COLUMNS.items():
        assert (quick / f"{name}.csv").read_text().splitlines()[0] == columns


def test_quick_cost_rows(quick: Path) -> None:
    table = pd.read_csv(quick / "feddp_cost.csv")
    # per panel and the one epsilon: feddp with 2 T, adaptive, three starts; starts, k-FED, optimal
    assert len(table) == 2 * (2 + 1 + 3 + 3 + 2)
    assert table.loc[table["eps_total"] == 0, "method"].tolist() == [*STARTS, *STARTS]
    assert (table["seeds"] == SEEDS).all()
    assert (table["excess_max"] >= table["excess_mean"]).all()
    optimal = table[table["method"] == "optimal"]
    assert (optimal[["excess_mean", "excess_max"]] == 0).all(axis=None)
    exact = table["method"].isin(["optimal", "kfed"])
    assert np.isinf(table.loc[exact, "eps_total"]).all() and (table.loc[exact, "T"] == -1).all()
    assert (table.loc[table["method"] == "feddp_adaptive", "T"] >= 1).all()
    best = optimal.set_index("level")["cost_mean"]
    gap = table["cost_mean"] - table["level"].map(best)
    np.testing.assert_allclose(table["excess_mean"], gap, atol=1e-4)


@pytest.mark.parametrize("method", ["feddp", "server_lloyds"])
@pytest.mark.parametrize("level", ["data", "client"])
def test_quick_cost_is_the_mean_of_its_runs(quick: Path, level: str, method: str) -> None:
    table = pd.read_csv(quick / "feddp_cost.csv")
    row = table.query("level == @level and method == @method and T == 1").iloc[0]
    panel = next(p for p in QUICK.feddp.panels if p[0] == level)
    costs = []
    for seed in range(SEEDS):
        name = problems.mixture_name(*panel, d=QUICK.feddp.d, k=QUICK.feddp.k, seed=seed)
        problem = problems.load_federated(name)
        protocol, server = seed_of(f"{name}/{method}|1|0.5").spawn(2)
        federation = IdealSecureSum(
            problem.data, seed=protocol, bound=problem.radius, domain="ball",
            ledger=PrivacyLedger(unit=problem.unit),
        )  # fmt: skip
        plan = cells.plan_for(federation, problem, method, epsilon=0.5, n_rounds=1)
        points = problem.dataset.server_points
        run = fk.run(federation, plan, points, rng=np.random.default_rng(server))
        costs.append(problem.cost(run.centers))
        assert 0.495 < run.epsilon <= 0.5
    assert row["cost_mean"] == pytest.approx(np.mean(costs), rel=1e-5)


def test_quick_missing_clusters_change_the_server_only(quick: Path) -> None:
    cost = pd.read_csv(quick / "feddp_cost.csv").query("level == 'data'")
    missing = pd.read_csv(quick / "feddp_missing.csv")
    keys = ["method", "eps_total", "T"]
    both = missing.query("missing == 0").merge(cost, on=keys)
    assert set(both["method"]) == {"feddp", "feddp_adaptive", *STARTS, "optimal"}
    assert both["cost_mean_x"].tolist() == both["cost_mean_y"].tolist()  # same names, same runs
    size = {"d": 6, "k": 3, "seed": 1}
    full, fewer = (
        problems.load_federated(problems.mixture_name("data", 20, 50, missing=m, **size)).dataset
        for m in (0, 1)
    )
    np.testing.assert_array_equal(full.points, fewer.points)
    assert len(fewer.server_points) == len(full.server_points) - 20


def test_quick_pareto_flags_and_totals(quick: Path) -> None:
    table = pd.read_csv(quick / "feddp_pareto.csv")
    assert len(table) == 2 * (4 + 3 * 2)
    for _, part in table.groupby(["panel", "method"]):
        for _, row in part.iterrows():
            better = (part["eps_total"] <= row["eps_total"]) & (
                part["excess_mean"] < row["excess_mean"]
            )
            assert row["pareto"] == (not better.any())
    row = table[(table["method"] == "feddp") & (table["T"] > 0)].iloc[0]
    steps = [row[name] for name in tables.STEP_COLUMNS]
    total = fk.StepBudgets(*steps, int(row["T"])).total()
    assert row["eps_total"] == pytest.approx(total, rel=1e-4)
    starts = table[table["method"] != "feddp"]
    assert (starts[["eps1", "eps2", "eps3G", "eps3L"]] == 0).all(axis=None)


def test_quick_proportions(quick: Path) -> None:
    table = pd.read_csv(quick / "feddp_proportions.csv", dtype={"table": str})
    pareto = pd.read_csv(quick / "feddp_pareto.csv").query("method == 'feddp' and pareto == 1")
    for column in ("ours", "ours_mean_of_shares", "all_settings"):
        sums = table.groupby(["panel", "table"])[column].sum()
        np.testing.assert_allclose(sums, 1.0, rtol=1e-4)
    for panel, part in pareto.groupby("panel"):
        row = table[(table["panel"] == panel) & (table["quantity"] == "eps1")].iloc[0]
        total = part[["eps1", "eps2", "eps3G", "eps3L"]].to_numpy().sum()
        assert row["ours"] == pytest.approx(part["eps1"].sum() / total, rel=1e-4)
        assert row["pareto_runs"] == len(part)


def test_quick_elbow_curve_falls(quick: Path) -> None:
    table = pd.read_csv(quick / "feddp_elbow.csv")
    assert table["k"].tolist() == [1, 2, 3, 4, 5, 6]
    # restarts find the optimum of so few points up to little: the curve may rise by 1 % at most
    assert (np.diff(table["cost_mean"]) < 0.01 * table["cost_mean"].max()).all()
    total = fk.StepBudgets(1.0, 1.0, 0.0, 0.0).total()
    np.testing.assert_allclose(table["eps_total"], total, rtol=1e-5)


def test_quick_census_stand_in(quick: Path) -> None:
    table = pd.read_csv(quick / "feddp_census.csv")
    assert (table["employment"] == "strips_8").all()
    assert set(table["method"]) == {"feddp", "feddp_adaptive", *STARTS, "kfed", "optimal"}


def test_tables_are_the_same_bytes_again_and_in_parallel(quick: Path, tmp_path: Path) -> None:
    for path in run_table("feddp_pareto", tmp_path, design=QUICK, n_jobs=2):
        assert path.read_bytes() == (quick / path.name).read_bytes()
    for path in run_table("feddp_elbow", tmp_path, design=QUICK):
        assert path.read_bytes() == (quick / path.name).read_bytes()


# --- designs --------------------------------------------------------------------------------------


def test_design_is_the_one_asked_for() -> None:
    design = Design().feddp
    assert design.panels[0] == ("data", 100, 1000)
    assert [(level, m, n) for level, m, n in design.panels[1:]] == [
        ("client", m, 50) for m in (1000, 2000, 5000)
    ]
    assert design.epsilons == (0.25, 0.5, 1.0, 2.0, 4.0)
    assert design.cost_seeds >= 10 and design.settings >= 300 and design.pareto_seeds >= 3
    jobs = tables.FEDDP_TABLES["feddp_cost"][0](Design())
    assert len({cell.key for cell in jobs}) == len(jobs) == 4 * design.cost_seeds * 4


def test_random_settings_do_not_depend_on_how_many_are_drawn() -> None:
    few, many = (cells.random_settings("client", "feddp", n) for n in (5, 400))
    assert many[:5] == few
    steps = np.array([[getattr(b, name) for name in STEPS] for b in many])
    low, high = cells.STEP_RANGE["client"]
    assert steps.min() >= low and steps.max() <= high
    # log-uniform: half of 1600 lie below the geometric mean; outside 0.45..0.55 by chance: 7e-5
    assert 0.45 < (steps < math.sqrt(low * high)).mean() < 0.55
    # each T has probability 1/3; a share of 400 outside 0.33 +- 0.1 by chance: 3e-5 each
    shares = np.bincount([b.n_rounds for b in many], minlength=3) / len(many)
    assert shares.shape == (3,) and (np.abs(shares - 1 / 3) < 0.1).all()
    assert {b.n_rounds for b in cells.random_settings("data", "server_lloyds", 60)} == {1, 2, 3}


def test_same_seed_gives_the_same_rows_at_both_levels() -> None:
    size = {"d": 6, "k": 3, "seed": 2}
    one = problems.load_federated(problems.mixture_name("data", 10, 20, **size))
    two = problems.load_federated(problems.mixture_name("client", 40, 5, **size))
    np.testing.assert_array_equal(one.dataset.points, two.dataset.points)
    np.testing.assert_array_equal(one.dataset.server_points, two.dataset.server_points)
    assert (one.unit, two.unit) == ("point", "client")
    assert one.clips is None and two.clips == problems.SHIPPED_CLIPS


@pytest.mark.parametrize("name", ["mixture_1", "data_10_20_6_3_0", "strips_8", "iris"])
def test_unknown_data_set(name: str) -> None:
    with pytest.raises(ValueError, match="name must be a data set"):
        problems.load_federated(name)


def test_best_cost_is_at_most_the_cost_of_the_true_means() -> None:
    name = problems.mixture_name("data", 20, 50, d=6, k=3, seed=0)
    problem = problems.load_federated(name)
    assert problems.best_cost(name) <= problem.cost(problem.dataset.true_centers)


def test_pareto_front_of_ties() -> None:
    epsilon = np.array([1.0, 1.0, 2.0, 3.0, 3.0])
    cost = np.array([4.0, 3.0, 3.0, 2.0, 2.5])
    assert tables.pareto_front(epsilon, cost).tolist() == [False, True, False, True, False]


# --- the committed tables -------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
def test_committed_columns(name: str) -> None:
    path = RESULTS / f"{name}.csv"
    assert path.read_text().splitlines()[0] == COLUMNS[name]
    assert path.stat().st_size < 2**20


def test_committed_rows_are_those_of_the_design() -> None:
    design = Design().feddp
    cost, pareto = load_results("feddp_cost"), load_results("feddp_pareto")
    runs = len(design.rounds) + 3 * len(design.start_rounds) + 1  # and feddp_adaptive
    assert len(cost) == len(design.panels) * (runs * len(design.epsilons) + 3 + 2)
    assert (cost["seeds"] == design.cost_seeds).all()
    sizes = pareto.groupby("method").size().to_dict()
    assert sizes.pop("feddp") == design.settings * len(design.panels)
    assert set(sizes.values()) == {design.start_settings * len(design.panels)}
    assert (pareto["seeds"] == design.pareto_seeds).all()
    missing = load_results("feddp_missing")
    assert set(missing["missing"]) == set(design.missing)
    assert (missing["seeds"] == design.missing_seeds).all()
    assert set(load_results("feddp_census")["employment"]) == set(tables.CENSUS)
    assert load_results("feddp_elbow").groupby(["k_prime", "level", "eps1"]).size().eq(20).all()


@pytest.mark.parametrize("method", ["feddp", "server_lloyds"])
def test_a_committed_pareto_setting_again(method: str) -> None:
    table = load_results("feddp_pareto").query("panel == 'client_1000' and method == @method")
    budgets = cells.random_settings("client", method, 4)[3]
    costs = []
    for seed in range(Design().feddp.pareto_seeds):
        name = problems.mixture_name("client", 1000, 50, d=100, k=10, seed=seed)
        problem = problems.load_federated(name)
        streams = seed_of(f"pareto/{name}/{method}/3")
        centers = cells.centers_of(problem, method, streams, budgets=budgets)
        costs.append(problem.cost(centers))
    row = table[table["setting"] == 3].iloc[0]
    # the same seeds; the table keeps 6 digits, and sums may be ordered otherwise elsewhere
    assert row["cost_mean"] == pytest.approx(np.mean(costs), rel=1e-4)
    assert row["eps_total"] == pytest.approx(budgets.total(), rel=1e-5)
