"""RR-Cluster result tables: made in their tiny size, and checked against the package's pieces."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import simulate
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.studies import (
    QUICK,
    Design,
    load_results,
    run_table,
)
from fedclust_helpers.studies import __main__ as command
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.rr_cluster import cells, checks, problems, tables, theory

RUN = "data,setting,model,k,method,identifiers,adjacency,sampling,accountant,B,epsilon,delta,rounds"
COLUMNS = {
    "rr_accuracy": f"{RUN},seeds,acc_mean,ci95,cluster_acc,models_used",
    "rr_paired": (
        f"{RUN},reference,reference_identifiers,reference_B,reference_accountant,same_relation,"
        "seeds,diff_mean,ci95,diff_min,diff_max,better_in"
    ),
    "rr_diagnostics": f"{RUN},seeds,clip,acc_min,groups_alone,moved,flip_rate,reseeded",
    "rr_clips": "model,family,epsilon,clip,seeds,acc_mean,acc_min,chosen",
    "rr_accountants": (
        "accountant,adjacency,sampling,rounds,rate,delta,epsilon,floor,sigma,noise_over_clip,"
        "printed_epsilon"
    ),
    "rr_flips": (
        "identifiers,k,epsilon,delta,rounds,share,amount,sigma_theta,p_correct,p_simulated,draws"
    ),
    "rr_lines": (
        "sizes,difficulty,init,method,B,rounds,seeds,all_found,lines_found,mse_mean,mse_median,"
        "models_used"
    ),
    "rr_rebalancing": "reference,sigma_theta,B,repetitions,bias2,variance,mse,moved",
    "rr_reseeding": (
        "setting,k,adjacency,sampling,accountant,epsilon,rounds,below,seeds,acc_mean,ci95,"
        "gain_mean,gain_ci95,models_used,groups_alone,reseeded"
    ),
    "rr_curves": (
        "method,identifiers,sampling,accountant,B,epsilon,round,seeds,acc_mean,ci95"
    ),
    "rr_torch": (
        f"{RUN},clip,n_steps,learning_rate,seeds,acc_mean,ci95,cluster_acc,models_used,constant_acc"
    ),
}  # fmt: skip
RESULTS = Path(__file__).resolve().parents[1] / "data" / "results"
HERE = [name for name in tables.RR_TABLES if name != "rr_torch"]
SEEDS = QUICK.runs
METHODS = {
    "fedavg", "fedprox", "fedper", "ifca", "fesem", "fedcam", "rr_ifca", "rr_fesem", "rr_fedcam",
    "sums_ifca", "sums_ifca_reseed",
}  # fmt: skip


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All RR-Cluster tables that need no extra, in their tiny size."""
    folder = tmp_path_factory.mktemp("rr")
    for name in HERE:
        run_table(name, folder, design=QUICK)
    return folder


# --- making tables --------------------------------------------------------------------------------


def test_quick_run_writes_every_table(quick: Path) -> None:
    made = set(COLUMNS) - {"rr_torch"}
    assert {path.name for path in quick.iterdir()} == {f"{name}.csv" for name in made}
    for name in made:
        assert (quick / f"{name}.csv").read_text().splitlines()[0] == COLUMNS[name]


def test_quick_accuracy_rows(quick: Path) -> None:
    table = pd.read_csv(quick / "rr_accuracy.csv")
    assert set(table["method"]) == METHODS
    assert set(table["identifiers"]) == {"none", "printed", "corrected", "exponential", "krr"}
    assert table.groupby("sampling")["adjacency"].unique().map(list).to_dict() == {
        "fixed": ["replace-one"], "poisson": ["add/remove"]
    }  # fmt: skip
    assert (table["accountant"].eq("exact") == np.isinf(table["epsilon"])).all()
    assert not table.duplicated(RUN.split(",")).any()
    released = ("printed", "corrected", "exponential", "krr")
    assert table.loc[table["identifiers"].isin(released), "sampling"].eq("fixed").all()
    assert table["acc_mean"].between(0, 1).all() and table["cluster_acc"].between(0.25, 1).all()
    one = table[table["method"].isin(["fedavg", "fedprox", "fedper"])]
    assert (one["models_used"] == 1).all() and (one["B"] == 0).all()
    assert (table.loc[table["method"].str.startswith("rr_"), "B"] > 0).all()


def test_quick_accuracy_is_the_mean_of_its_runs(quick: Path) -> None:
    """Rows again from the package's own functions, without the code of the cells."""
    table = pd.read_csv(quick / "rr_accuracy.csv").query("setting == 'balanced' and epsilon == 8")
    arguments = {"n_rounds": 4, "epsilon": 8.0, "delta": 1e-3}
    found: dict[str, list[float]] = {"ifca": [], "sums_ifca_reseed": []}
    for seed in range(SEEDS):
        problem = problems.load_clients(f"digits_balanced_{seed}")
        model = rr.SoftmaxRegression(64, 10)
        training = rr.Training(model, cohort=20, clip=0.3)
        initial = problem.initial(model, 4)
        for name in found:
            central = name == "ifca"
            adjacency = "replace-one" if central else "add/remove"
            federation = simulate(
                problem.train, "trusted" if central else "ideal", seed=problem.seed, bound=1.0,
                ledger=PrivacyLedger(unit="client", adjacency=adjacency),
            )  # fmt: skip
            if central:
                plan = rr.plan(
                    federation, training, n_clusters=4, identifiers="corrected",
                    rebalance="off", accountant="wor_rdp", **arguments,
                )  # fmt: skip
            else:
                plan = rr.plan_sums_only(
                    federation, training, n_clusters=4, min_size=2,
                    accountant="poisson_rdp", **arguments,
                )  # fmt: skip
            result = rr.run(federation, plan, initial=initial)
            assert 7.9 < result.epsilon <= 8 + 1e-6
            score = rr.evaluate(model, result.models, problem.train, problem.test, problem.groups)
            found[name].append(score.accuracy)
    for name, identifiers, accountant in (
        ("ifca", "corrected", "wor_rdp"), ("sums_ifca_reseed", "none", "poisson_rdp"),
    ):  # fmt: skip
        row = table[
            (table["method"] == name)
            & (table["identifiers"] == identifiers)
            & (table["accountant"] == accountant)
        ]
        assert row["acc_mean"].item() == pytest.approx(np.mean(found[name]), rel=1e-5)


def test_same_sampling_draws_the_same_clients() -> None:
    """Paired: without noise, clipping and rebalancing, sums only is IFCA on the same draws."""
    problem = problems.load_clients("digits_balanced_0")
    how = {"model": "softmax", "n_models": 4, "n_rounds": 3, "clip": 100.0}
    central, _ = cells.train(problem, cells.Run("ifca"), **how)
    # floor 1: an empty block stays, as an empty cluster does
    sums, _ = cells.train(problem, cells.Run("sums_ifca", min_size=1), **how)
    np.testing.assert_allclose(sums.models, central.models, atol=1e-9)
    again, _ = cells.train(problem, cells.Run("ifca"), **how)
    np.testing.assert_array_equal(again.models, central.models)


def test_initial_models_do_not_depend_on_their_number() -> None:
    problem = problems.load_clients("digits_balanced_1")
    model = problems.model_named("softmax", problem)
    four = problem.initial(model, 4)
    np.testing.assert_array_equal(problem.initial(model, 1), four[:1])
    other = problems.load_clients("digits_balanced_2").initial(model, 4)
    assert not np.isclose(four, other).any()


def test_quick_paired_differences(quick: Path) -> None:
    accuracy, paired = (pd.read_csv(quick / f"rr_{name}.csv") for name in ("accuracy", "paired"))
    same = [c for c in RUN.split(",") if c not in ("method", "identifiers", "B")]
    rows = paired.query("method == 'rr_ifca' and identifiers == 'corrected' and B == 2")
    row = rows.query("reference == 'ifca' and reference_identifiers == 'corrected'").iloc[0]
    ours, theirs = (
        accuracy[(accuracy[same] == row[same]).all(axis=1)]
        .query("method == @method and identifiers == 'corrected' and B == @size")["acc_mean"]
        .item()
        for method, size in (("rr_ifca", 2), ("ifca", 0))
    )
    assert row["diff_mean"] == pytest.approx(ours - theirs, abs=2e-6)
    assert row["diff_min"] <= row["diff_mean"] <= row["diff_max"] and row["same_relation"] == 1
    # another relation is said to be one
    poisson = paired.query("sampling == 'poisson' and reference == 'rr_ifca' and epsilon == 8")
    assert len(poisson) and (poisson["same_relation"] == 0).all()
    # DP-FedAvg under the same relation and accountant where there is one
    one = paired.query("method == 'sums_ifca' and reference == 'fedavg'")
    assert (one["reference_accountant"] == one["accountant"]).all()
    assert not (
        (paired["method"] == paired["reference"])
        & (paired["identifiers"] == paired["reference_identifiers"])
        & (paired["B"] == paired["reference_B"])
        & (paired["same_relation"] == 1)
        & (paired["accountant"] == paired["reference_accountant"])
    ).any()


def test_paired_interval_by_hand() -> None:
    base = {
        "data": "x", "setting": "balanced", "model": "softmax", "k": 4, "rounds": 2, "delta": 1e-3,
        "sampling": "fixed", "accountant": "wor_rdp", "epsilon": 2.0, "identifiers": "corrected",
    }  # fmt: skip
    rows = [
        base | {"method": method, "B": size, "dataset": f"x_{seed}", "accuracy": value}
        for method, size, values in (("ifca", 0, (0.1, 0.2, 0.3)), ("rr_ifca", 8, (0.2, 0.4, 0.3)))
        for seed, value in enumerate(values)
    ]
    table = tables.paired(pd.DataFrame(rows))
    row = table.query("method == 'rr_ifca'").iloc[0]
    # differences 0.1, 0.2, 0: mean 0.1, standard error 0.1/sqrt(3), t(2) = 4.3027
    assert (row["reference"], row["better_in"], row["seeds"]) == ("ifca", 2, 3)
    assert row["diff_mean"] == pytest.approx(0.1)
    assert row["ci95"] == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-4)


def test_tables_are_the_same_bytes_again_and_in_parallel(quick: Path, tmp_path: Path) -> None:
    for path in run_table("rr_reseeding", tmp_path, design=QUICK, n_jobs=2):
        assert path.read_bytes() == (quick / path.name).read_bytes()
    for path in run_table("rr_flips", tmp_path, design=QUICK):
        assert path.read_bytes() == (quick / path.name).read_bytes()


def test_accuracy_cells_are_resumable_and_headline_comes_first() -> None:
    jobs = tables.RR_TABLES["rr_accuracy"][0](Design())
    assert len({cell.key for cell in jobs}) == len(jobs)
    rr_design = Design().rr
    per_seed = len(tables.headline_runs(rr_design)) + len(tables.exact_runs(rr_design))
    first = jobs[: per_seed * rr_design.seeds]
    assert {cell.dataset.rsplit("_", 1)[0] for cell in first} == {"fashion_balanced"}
    assert {dict(cell.options)["rounds"] for cell in first} == {50}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is an extra")
def test_quick_torch_table(tmp_path: Path) -> None:
    (path,) = run_table("rr_torch", tmp_path, design=QUICK)
    assert path.read_text().splitlines()[0] == COLUMNS["rr_torch"]
    table = pd.read_csv(path)
    assert len(table) == 4 and table["constant_acc"].between(0.05, 0.2).all()


def test_all_tables_leave_out_what_needs_an_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def note(name: str, *args: object, **kwargs: object) -> list[Path]:
        made.append(name)
        return []

    monkeypatch.setattr(command, "run_table", note)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    command.main(["--quick", "--out", str(tmp_path)])
    assert "rr_accuracy" in made and "rr_torch" not in made
    assert "left out rr_torch: torch is not installed" in capsys.readouterr().out
    command.main(["--quick", "--out", str(tmp_path), "--table", "rr_torch"])
    assert made[-1] == "rr_torch"  # asked for by name: the error says what is missing


# --- clipping bounds ------------------------------------------------------------------------------


def test_tuning_uses_partitions_of_its_own() -> None:
    tuning, measuring = (
        {cell.dataset for cell in tables.RR_TABLES[name][0](Design())}
        for name in ("rr_clips", "rr_accuracy")
    )
    assert not tuning & measuring


def test_bounds_are_the_best_of_the_committed_table() -> None:
    table = load_results("rr_clips")
    for (model, family, epsilon), part in table.groupby(["model", "family", "epsilon"]):
        best = part.loc[part["acc_mean"].idxmax(), "clip"]
        assert tables.CLIPS[model][family][epsilon] == best, (model, family, epsilon)
    kept = sum(len(bounds) for model in tables.CLIPS.values() for bounds in model.values())
    assert kept == table.groupby(["model", "family", "epsilon"]).ngroups


def test_families_share_a_bound() -> None:
    run = cells.Run("ifca", "corrected", epsilon=2.0)
    for other in (
        run._replace(identifiers="printed"),
        run._replace(method="rr_ifca", min_size=8),
        run._replace(identifiers="krr", accountant="paper_tight"),
    ):
        assert cells.family(other) == cells.family(run)
    assert cells.family(run._replace(identifiers="none")) != cells.family(run)
    assert cells.family(run._replace(epsilon=math.inf)) != cells.family(run)


# --- the smaller tables ---------------------------------------------------------------------------


def test_quick_accountants(quick: Path) -> None:
    table = pd.read_csv(quick / "rr_accountants.csv")
    assert set(table["accountant"]) == set(QUICK.rr.accountants) < set(accounting.ACCOUNTANTS)
    low = table.query("accountant == 'paper' and epsilon == 1").iloc[0]
    assert low["floor"] > 1 and math.isnan(low["sigma"])
    row = table.query("accountant == 'wor_rdp' and epsilon == 8").iloc[0]
    assert row["sigma"] == pytest.approx(0.615, abs=5e-4)  # the notes' value for T = 10
    assert row["noise_over_clip"] == pytest.approx(2 * row["sigma"], rel=1e-5)
    assert row["printed_epsilon"] > 8


def test_quick_flips_formula_and_simulation(quick: Path) -> None:
    table = pd.read_csv(quick / "rr_flips.csv")
    # 5 standard errors of 100,000 draws: a false alarm has probability 6e-7 a row
    error = 5 * np.sqrt(table["p_correct"] * (1 - table["p_correct"]) / table["draws"])
    assert (np.abs(table["p_correct"] - table["p_simulated"]) < error).all()
    kind = table[table["k"] == 4].set_index("identifiers")
    assert kind.loc["printed", "p_correct"] > kind.loc["corrected", "p_correct"]
    assert kind.loc["krr", "p_correct"] > kind.loc["exponential", "p_correct"]


def test_line_starts_lie_where_they_are_said_to() -> None:
    rng = np.random.default_rng(0)
    far = np.concatenate([checks.line_starts("far", rng=rng) for _ in range(500)])
    wide = np.concatenate([checks.line_starts("normal5", rng=rng) for _ in range(500)])
    # 2000 draws each: means within 6 standard errors
    np.testing.assert_allclose(far.mean(axis=0), [0, -8], atol=6 * 0.5 / math.sqrt(2000))
    np.testing.assert_allclose(wide.std(axis=0), 5, atol=6 * 5 / math.sqrt(4000))


def test_lines_that_start_at_the_truth_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = np.array(checks.LINES)
    monkeypatch.setattr(checks, "line_starts", lambda init, *, rng: truth)
    cell = tables._cell(
        "rr_lines", "balanced_easy", "rr_ifca", math.inf, 2, "far", B=2, rounds=3, clients=80
    )
    found = checks.lines_cell(cell)
    assert found["all_found"] == 2 and found["lines_found"] == 4
    assert found["mse_mean"] == pytest.approx(0.09, rel=0.2)  # the variance of the noise


def test_quick_reseeding_gain_is_against_no_reseeding(quick: Path) -> None:
    table = pd.read_csv(quick / "rr_reseeding.csv")
    assert (table.loc[table["below"] == 0, "gain_mean"] == 0).all()
    assert (table.loc[table["below"] == 0, "reseeded"] == 0).all()
    keys = ["setting", "k", "sampling", "epsilon"]
    plain = table[table["below"] == 0].set_index(keys)["acc_mean"]
    gap = table["acc_mean"].to_numpy() - plain.loc[
        list(table[keys].itertuples(index=False, name=None))
    ].to_numpy()  # fmt: skip
    np.testing.assert_allclose(table["gain_mean"], gap, atol=1e-5)


def test_quick_curves_start_together_and_end_in_the_table(quick: Path) -> None:
    curves, accuracy = (pd.read_csv(quick / f"rr_{name}.csv") for name in ("curves", "accuracy"))
    first = curves[curves["round"] == 0]
    several = first[first["method"] != "fedavg"]
    assert several["acc_mean"].nunique() == 1
    last = curves[curves["round"] == 4].query("method == 'rr_ifca' and identifiers == 'corrected'")
    row = accuracy.query(
        "setting == 'balanced' and method == 'rr_ifca' and identifiers == 'corrected' and B == 2"
    )
    assert row["acc_mean"].item() != 0 and last["seeds"].item() == 2


def test_small_groups_are_small() -> None:
    problem = problems.load_clients("digits_small_0")
    assert np.bincount(problem.groups).tolist() == [24, 18, 12, 6]


@pytest.mark.parametrize("name", ["fashion_3", "digits_round_0", "iris_balanced_0", "digits", ""])
def test_unknown_clients(name: str) -> None:
    with pytest.raises(ValueError, match="name must be a data set"):
        problems.load_clients(name)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match="name must be 'softmax'"):
        problems.model_named("transformer", problems.load_clients("digits_balanced_0"))


# --- the committed tables -------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
def test_committed_columns(name: str) -> None:
    path = RESULTS / f"{name}.csv"
    assert path.read_text().splitlines()[0] == COLUMNS[name]
    assert path.stat().st_size < 2**20


def test_committed_accuracy_is_that_of_the_design() -> None:
    design = Design().rr
    table = load_results("rr_accuracy")
    base = table.query("setting == 'balanced' and model == 'softmax' and k == 4 and rounds == 50")
    assert set(base["method"]) == METHODS
    assert set(base["epsilon"]) == {*design.epsilons, math.inf}
    assert set(base["B"]) == {0, *design.sizes}
    main = base[base["method"].isin(["fedavg", "ifca", "rr_ifca", "sums_ifca_reseed"])]
    main = main[main["B"].isin([0, design.main_size]) & main["accountant"].isin(
        ["wor_rdp", "poisson_rdp", "exact"])]  # fmt: skip
    assert (main["seeds"] == design.seeds).all() and design.seeds >= 10
    cells_of = tables.RR_TABLES["rr_accuracy"][0](Design())
    assert len(cells_of) == table["seeds"].sum()


def test_an_accuracy_row_again() -> None:
    """One committed run from scratch: the same partition, models, draws and noise."""
    table = load_results("rr_diagnostics").query(
        "setting == 'balanced' and model == 'softmax' and k == 4 and rounds == 50"
        " and method == 'sums_ifca_reseed' and accountant == 'wor_rdp' and epsilon == 8"
    )
    row = table.iloc[0]
    run = cells.Run("sums_ifca_reseed", min_size=int(row["B"]), epsilon=8.0)
    problem = problems.load_clients("fashion_balanced_0")
    _, score = cells.train(
        problem, run, model="softmax", n_models=4, n_rounds=50, clip=float(row["clip"])
    )
    accuracy = load_results("rr_accuracy").loc[row.name]
    # one of ten seeds of a method that hardly varies between them
    assert abs(score.accuracy - accuracy["acc_mean"]) < 0.02
    assert score.accuracy >= row["acc_min"] - 1e-6


def test_committed_rebalancing_is_bit_for_bit_dp_ifca() -> None:
    """Noised identifiers, B <= 8: nobody is short, so nothing is drawn and nothing differs."""
    paired = load_results("rr_paired")
    rows = paired[
        (paired["method"] == "rr_ifca")
        & (paired["reference"] == "ifca")
        & paired["identifiers"].isin(["printed", "corrected"])
        & (paired["identifiers"] == paired["reference_identifiers"])
        & (paired["B"] <= 8) & (paired["k"] == 4)
    ]  # fmt: skip
    moved = load_results("rr_diagnostics").query(
        "method == 'rr_ifca' and identifiers in ('printed', 'corrected') and B <= 8 and k == 4"
    )
    assert len(rows) and (moved["moved"] < 0.1).all()
    assert (rows["diff_mean"].abs() < 0.01).all() and (rows["diff_mean"] == 0).mean() > 0.5


def test_committed_sums_only_beats_rr_cluster_under_the_same_promise() -> None:
    paired = load_results("rr_paired").query(
        "method == 'sums_ifca_reseed' and reference == 'rr_ifca' and same_relation == 1"
        " and accountant == 'wor_rdp' and epsilon == 2"
    )
    assert len(paired) and (paired["diff_mean"] - paired["ci95"] > 0).all()


def test_committed_accountants_have_the_numbers_of_the_notes() -> None:
    table = load_results("rr_accountants").set_index(["accountant", "rounds", "epsilon"])["sigma"]
    for key, sigma in {
        ("paper", 50, 2): 6.040, ("paper_tight", 50, 2): 3.062, ("wor_rdp", 50, 2): 2.474,
        ("poisson_rdp", 50, 2): 1.467, ("poisson_pld", 50, 4): 0.910, ("wor_rdp", 100, 8): 1.269,
        ("poisson_pld_replace", 50, 2): 2.038, ("paper", 200, 8): 1.833,
    }.items():  # fmt: skip
        assert table[key] == pytest.approx(sigma, abs=6e-4), key
    for rounds in (100, 200):
        assert math.isnan(table["paper", rounds, 2])


def test_committed_flips_agree_with_the_theory() -> None:
    table = load_results("rr_flips")
    row = table.query("identifiers == 'printed' and k == 4 and epsilon == 4 and share == 0.5")
    assert row["p_correct"].item() == pytest.approx(0.38, abs=5e-3)
    assert theory.argmax_accuracy(row["amount"].item(), 4) == pytest.approx(
        row["p_correct"].item(), abs=1e-5
    )
    error = 5 * np.sqrt(table["p_correct"] * (1 - table["p_correct"]) / table["draws"])
    assert (np.abs(table["p_correct"] - table["p_simulated"]) < error).all()


def test_names_of_the_seeds() -> None:
    problem = problems.load_clients("digits_balanced_0")
    assert problem.seed.entropy == seed_of("run/digits_balanced_0").entropy
    assert replace(Design(), runs=2).rr == Design().rr
