"""The tables of all papers: tiny ones against the package's own pieces, and the committed ones."""

import importlib.util
import io
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import studies
from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers.datasets import make_ball_mixture
from fedclust_helpers.feddp_kmeans.budgets import STEPS
from studies.bench.cell import Cell, seed_of
from studies.bench.runner import as_csv
from studies.fastlloyd import cells as fl_cells
from studies.fastlloyd import problems as fl_problems
from studies.fastlloyd.problems import scale_min_max_not_private
from studies.feddp_kmeans import cells as feddp_cells
from studies.feddp_kmeans.tables import pareto_front
from studies.ldp_kmeans import problems
from studies.rr_cluster import blocks as rr_blocks
from studies.rr_cluster import cells as rr_cells
from studies.rr_cluster import design as rr_design
from studies.rr_cluster import tables as rr_tables
from studies.rr_cluster.problems import Clients, load_clients

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"
STARTS = tuple(fk.STARTS)
FILES = {file: table for table in studies.TABLES.values() for file in table.headers}
TORCH = importlib.util.find_spec("torch") is not None
# those that take seconds even when tiny
SLOW = {"feddp_cost", "feddp_pareto", "feddp_missing", "feddp_census", "ldp_cost",
        "rr_accountants", "rr_clips", "rr_accuracy", "rr_low_clips", "rr_low_budget",
        "rr_race_clips", "rr_race", "rr_promise_clips", "rr_promise", "rr_mixed",
        "better_nicv", "better_local", "trust_price", "side_by_side", "decisions"}  # fmt: skip
MADE = [
    pytest.param(name, marks=[pytest.mark.thorough] if name in SLOW else [])
    for name in studies.TABLES
    if name != "rr_torch" or TORCH
]


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tiny tables by the name of a file, made when first asked for; test processes share them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "quick"

    def read(file: str) -> pd.DataFrame:
        table = FILES[file]
        for needed in table.needs:
            read(needed)
        made, turn = folder / f"{table.name}.json", folder / f"{table.name}.turn"
        while not made.exists():
            try:
                turn.mkdir(parents=True)
            except FileExistsError:  # another test process is at it
                time.sleep(0.2)
                continue
            try:
                if not made.exists():
                    studies.run_table(table, folder, design=table.quick)
            finally:
                turn.rmdir()
        return pd.read_csv(folder / f"{file}.csv", dtype={"table": str})

    read.folder = folder  # type: ignore[attr-defined]
    return read


# --- all tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_a_tiny_table_has_the_columns_of_the_committed_one(quick: Any, name: str) -> None:
    for file, columns in studies.TABLES[name].headers.items():
        made = quick(file)
        assert list(made) == columns and len(made) and not made.isna().all(axis=1).any()
        path = RESULTS / f"{file}.csv"
        assert path.read_text().splitlines()[0] == ",".join(columns)
        assert path.stat().st_size < 2**20
    assert not list(quick.folder.glob(f"{name}.*.partial.jsonl"))


def some_numbers(name: str, cells: list[Cell]) -> list[dict[str, float]]:
    """Numbers of the right names for all cells of the committed design, drawn at random."""
    table, rng = studies.TABLES[name], np.random.default_rng(0)
    few = table.cells(table.quick)
    keys = table.values(few[0]) | table.values(few[-1])
    keys |= {f"k{k}": 0.0 for k in range(1, 21)} if name == "feddp_elbow" else {}
    keys |= {"run_0": 0.0, "run_1": 0.0} if name == "better_nicv" else {}
    if name == "rr_curves":
        keys = {f"round{t}": 0.0 for t in range(0, 51, 5)}
    fixed = {name: 1.0 for name in ("n", "d", "k", "eps_total") if name in keys}
    out = []
    for cell in cells:
        numbers = dict(zip(keys, rng.random(len(keys)), strict=True)) | fixed
        out.append(numbers | ({"chosen": cell.settings["T"]} if "chosen" in keys else {}))
    return out


@pytest.mark.parametrize("name", MADE)
def test_committed_rows_are_those_of_the_design(name: str) -> None:
    """Settings, repetitions and their order; only the numbers are invented here."""
    table = studies.TABLES[name]
    cells = table.cells(table.design)
    assert len({cell.key for cell in cells}) == len({cell.name for cell in cells}) == len(cells)
    numbers = some_numbers(name, cells)
    made = table.files(cells, numbers, RESULTS)
    named = {*table.names, *(c for cell in cells for c in cell.columns)}
    named |= {"seeds", "sets", "draws"} - set(numbers[0])  # over how many
    for file, frame in made.items():
        if file in ("feddp_proportions", "better_foreseen"):  # which rows depends on the numbers
            continue
        ours = pd.read_csv(io.StringIO(as_csv(frame)), dtype=str, keep_default_na=False)
        stored = pd.read_csv(RESULTS / f"{file}.csv", dtype=str, keep_default_na=False)
        columns = [c for c in stored if c in named]
        if not columns:  # a summary of the rows
            continue
        if "method" in stored and "T" in columns:  # that of feddp_adaptive is its own choice
            for each in (ours, stored):
                each.loc[each["method"] == "feddp_adaptive", "T"] = ""
        pd.testing.assert_frame_equal(ours[columns], stored[columns])
        assert not stored.duplicated([c for c in columns if c != "runs"]).any()


@pytest.mark.thorough
@pytest.mark.parametrize("names", [("fastlloyd_metrics", "feddp_elbow", "ldp_sums", "rr_flips")])
def test_tables_do_not_depend_on_the_number_of_processes(quick, tmp_path, names):
    for name in names:
        quick(name)
        for path in studies.run_table(
            studies.TABLES[name], tmp_path, design=studies.TABLES[name].quick, n_jobs=2
        ):
            assert path.read_bytes() == (quick.folder / path.name).read_bytes()


# --- FastLloyd ------------------------------------------------------------------------------------


def test_quick_scaling_is_the_area_of_the_nicv_table(quick: Any) -> None:
    nicv, scaling = quick("fastlloyd_nicv"), quick("fastlloyd_scaling")
    part = nicv[(nicv["dataset"] == "g2_2") & (nicv["method"] == "glloyd")]
    row = scaling[(scaling["figure"] == "3a") & (scaling["method"] == "glloyd")].iloc[0]
    assert row["auc"] == pytest.approx(np.trapezoid(part["nicv_mean"], part["epsilon"]), rel=1e-5)
    # trapezoid of two values over a width of 1/2: each weighs 1/4
    assert row["ci95"] == pytest.approx(np.linalg.norm(part["ci95"] / 4), rel=1e-5)
    assert (scaling.loc[scaling["method"] == "sulloyd", "relative_to_sulloyd"] == 1).all()


def test_table_3_counts_the_bytes_of_one_round(quick: Any) -> None:
    row = quick("fastlloyd_table3").iloc[0]
    assert row["bytes_per_round"] == 8 * 2 * (2 + 1) * 4  # 8 bytes, k, d + 1, two up and two down
    assert row["round_time_ratio_to_sklearn"] > 0
    committed = studies.load_results("fastlloyd_table3")
    assert (committed["bytes_per_round"] == committed["paper_bytes"]).all()


IRIS: dict[str, Any] = {"dataset": "iris", "init": "halving", "method": "fastlloyd", "epsilon": 1.0}


def test_more_runs_extend_fewer_runs() -> None:
    few, more = (fl_cells.all_centers(Cell("t", {}, runs), **IRIS) for runs in (2, 4))
    np.testing.assert_array_equal(few, more[:2])
    assert len(np.unique(np.round(more, 12), axis=0)) == 4  # runs differ


def test_committed_g2_is_drawn_as_named() -> None:
    problem = fl_problems.load_problem("g2_16")
    points = studies.paper_data.make_g2(16, rng=np.random.default_rng(seed_of("data/g2_16"))).points
    np.testing.assert_array_equal(problem.points, scale_min_max_not_private(points))
    assert problem.shape == {"n": 2048, "d": 16, "k": 2}


# --- FedDP-KMeans ---------------------------------------------------------------------------------


def test_random_settings_do_not_depend_on_how_many_are_drawn() -> None:
    few, many = (feddp_cells.random_settings("client", "feddp", n) for n in (5, 400))
    assert many[:5] == few
    steps = np.array([[getattr(b, name) for name in STEPS] for b in many])
    low, high = feddp_cells.STEP_RANGE["client"]
    assert steps.min() >= low and steps.max() <= high
    # log-uniform: half of 1600 lie below the geometric mean; outside 0.45..0.55 by chance: 7e-5
    assert 0.45 < (steps < math.sqrt(low * high)).mean() < 0.55
    # each T has probability 1/3; a share of 400 outside 0.33 +- 0.1 by chance: 3e-5 each
    shares = np.bincount([b.n_rounds for b in many], minlength=3) / len(many)
    assert shares.shape == (3,) and (np.abs(shares - 1 / 3) < 0.1).all()
    starts = feddp_cells.random_settings("point", "server_lloyds", 60)
    assert {b.n_rounds for b in starts} == {1, 2, 3}


def test_pareto_front_of_ties() -> None:
    epsilon = np.array([1.0, 1.0, 2.0, 3.0, 3.0])
    cost = np.array([4.0, 3.0, 3.0, 2.0, 2.5])
    assert pareto_front(epsilon, cost).tolist() == [False, True, False, True, False]


# --- local privacy --------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(1, 10), (2, 3), (2, 10), (4, 5), (20, 10)])
def test_ball_mixture(d: int, k: int) -> None:
    n = 50_000
    data, again = (make_ball_mixture(n, d, k, rng=np.random.default_rng(d + k)) for _ in range(2))
    np.testing.assert_array_equal(data.points, again.points)
    assert data.points.shape == (n, d) and data.points.dtype == np.float64
    assert data.labels is not None and set(data.labels) == set(range(k))
    norms = np.linalg.norm(data.points, axis=1)
    assert norms.max() <= 1.0
    means = np.array([data.points[data.labels == j].mean(axis=0) for j in range(k)])
    inside = norms < 1 - 1e-9
    spread = ((data.points - means[data.labels])[inside] ** 2).sum(axis=1).mean()
    # 0.15^2 but for points that were cut; the standard error is below 1 %
    assert 0.85 * 0.0225 < spread < 1.05 * 0.0225
    gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(k, 1)]
    assert gaps.min() > (0.45 if (d, k) in ((2, 3), (4, 5), (20, 10)) else 0.02)
    assert np.linalg.norm(means, axis=1).max() < 0.78


def test_real_points_lie_in_the_ball_by_public_bounds() -> None:
    ball = problems.Ball.real("pixels", 8, 0)
    pixels = problems.load_ball(ball)
    assert pixels.points.shape == (ball.n, ball.dprime) == (427 * 640, 3) and pixels.n_clusters == 8
    assert np.linalg.norm(pixels.points, axis=1).max() <= 1 + 1e-12
    # black and white are corners of the cube of half side 1/sqrt(3), whatever the picture holds
    levels = np.unique(np.rint((pixels.points * math.sqrt(3) + 1) * 127.5))
    assert levels.min() >= 0 and levels.max() <= 255


# --- RR-Cluster -----------------------------------------------------------------------------------


def digits(seed: int, setting: str = "balanced") -> Any:
    return load_clients(Clients("digits", setting, seed))


def test_same_sampling_draws_the_same_clients() -> None:
    """Paired: without noise, clipping and rebalancing, sums only is IFCA on the same draws."""
    problem, run = digits(0), rr_cells.Run
    how: Any = {"model": "softmax", "n_clusters": 4, "n_rounds": 3, "clip": 100.0}
    central, *_ = rr_cells.train(problem, run("ifca"), **how)
    # floor 1: an empty block stays, as an empty cluster does
    sums, *_ = rr_cells.train(problem, run("sums_ifca", B=1), **how)
    np.testing.assert_allclose(sums.models, central.models, atol=1e-9)
    again, *_ = rr_cells.train(problem, run("ifca"), **how)
    np.testing.assert_array_equal(again.models, central.models)


def test_paired_interval_by_hand() -> None:
    base = {
        "data": "x", "setting": "balanced", "model": "softmax", "k": 4, "rounds": 2, "delta": 1e-3,
        "sampling": "fixed", "accountant": "wor_rdp", "epsilon": 2.0, "identifiers": "corrected",
    }  # fmt: skip
    rows = [
        base | {"method": method, "B": size, "seed": seed, "accuracy": value}
        for method, size, values in (("ifca", 0, (0.1, 0.2, 0.3)), ("rr_ifca", 8, (0.2, 0.4, 0.3)))
        for seed, value in enumerate(values)
    ]
    row = rr_tables.paired(pd.DataFrame(rows)).query("method == 'rr_ifca'").iloc[0]
    # differences 0.1, 0.2, 0: mean 0.1, standard error 0.1/sqrt(3), t(2) = 4.3027
    assert (row["reference"], row["better_in"], row["seeds"]) == ("ifca", 2, 3)
    assert row["diff_mean"] == pytest.approx(0.1)
    assert row["ci95"] == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-4)


def test_bounds_are_the_best_of_the_committed_table() -> None:
    keys, tuned = ["model", "family", "epsilon"], rr_design.tuned_clips()
    groups = studies.load_results("rr_clips").groupby(keys)
    assert tuned == {key: part.loc[part["acc_mean"].idxmax(), "clip"] for key, part in groups}
    run, design = rr_cells.Run("ifca", "corrected", epsilon=2.0), rr_design.FULL
    assert design.clip("softmax", run) == tuned["softmax", "ifca_noised_fixed", 2.0] == 0.3
    other = rr_cells.Run("fesem", "corrected", epsilon=2.0)  # tuned at 4 only
    assert design.clip("softmax", other) == tuned["softmax", "fesem_noised_fixed", 4.0]


def test_flips_formula_and_simulation(quick: Any) -> None:
    for table in (quick("rr_flips"), studies.load_results("rr_flips")):
        # 5 standard errors of 100,000 draws: a false alarm has probability 6e-7 a row
        error = 5 * np.sqrt(table["p_correct"] * (1 - table["p_correct"]) / table["draws"])
        assert (np.abs(table["p_correct"] - table["p_simulated"]) < error).all()
    kind = quick("rr_flips").query("k == 4").set_index("identifiers")["p_correct"]
    assert kind["printed"] > kind["corrected"] and kind["krr"] > kind["exponential"]


def test_lines_that_start_at_the_truth_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = np.array(rr_blocks.LINES)
    monkeypatch.setattr(rr_blocks, "line_starts", lambda init, *, rng: truth)
    settings: Any = {"sizes": "balanced", "difficulty": "easy", "init": "far", "clients": 80}
    found = rr_blocks.lines(Cell("t", {}, 2), method="rr_ifca", B=2, rounds=3, **settings)
    assert found["all_found"] == 2 and found["lines_found"] == 4
    assert found["mse_mean"] == pytest.approx(0.09, rel=0.2)  # the variance of the noise
