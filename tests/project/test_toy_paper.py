"""A newcomer's first paper goes through every layer: `toy_paper`, which CONTRIBUTING.md follows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_paper as toy
from conftest import refuses
from matplotlib.figure import Figure
from test_notebooks import BUILD, COMPARE, read

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import Budget, BudgetExceededError
from fedclust_helpers.audit import audit_sensitivity
from fedclust_helpers.client_statistics.base import Values
from fedclust_helpers.federation import Federation, simulate
from fedclust_helpers.program import run
from studies.bench.grading import evaluate

ROWS = np.random.default_rng(0).normal(0, 0.3, (400, 3))
CLIENTS = [ROWS[:150], ROWS[150:151], ROWS[151:]]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def federation(trust: str = "ideal", **options: Any) -> Federation:
    made: Federation = simulate(CLIENTS, trust, seed=1, domain="ball", **options)
    return made


def test_every_federation_runs_it_and_the_ledger_says_so() -> None:
    centers = []
    for trust in ("ideal", "trusted", "serverless", "masked"):
        fed = federation(trust, budget=Budget(1.0, 1e-6))
        plan = toy.plan(fed, **BUDGET, n_rounds=3)
        result = run(fed, plan)
        assert result.epsilon == pytest.approx(plan.total_epsilon, rel=1e-9)
        assert result.epsilon <= 1.0 + 1e-9 and len(fed.ledger.releases) == 3
        assert "the private mean, 3 rounds" in str(plan)
        refuses(BudgetExceededError, "", run, fed, plan)
        centers.append(result.centers)
    np.testing.assert_allclose(centers[0][0], ROWS.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(centers[1], centers[0], atol=1e-4)
    np.testing.assert_allclose(centers[2:], [centers[0]] * 2, atol=0.3)


def test_no_record_moves_the_sum_further_than_declared() -> None:
    def statistic(rows: FloatArray) -> Values:
        return toy.TOTAL_AND_COUNT.compute(rows, np.array([0, len(rows)]))

    inside = ROWS / np.maximum(1, np.linalg.norm(ROWS, axis=1))[:, None]
    edge = np.vstack([inside, [[1.0, 0, 0]]])
    public = {"bound": 1.0, "n_features": 3}
    claims = tuple(
        toy.TOTAL_AND_COUNT.sensitivity_of(part, 2, "add/remove", **public)
        for part in toy.TOTAL_AND_COUNT.parts
    )
    pairs = [(inside, inside[1:]), (edge, inside)]
    assert audit_sensitivity(statistic, pairs, claims).verdict == "passed"
    assert audit_sensitivity(statistic, pairs, (0.9, 1.0)).verdict == "FAILED"


def test_the_claim_is_graded_and_drawn() -> None:
    row = evaluate(toy.CLAIM, lambda name: pytest.fail(f"reads {name}"), "toy")
    assert row["verdict"] == "reproduced" and row["found"].startswith("slope -")
    ax = toy.plot_errors(Figure().subplots(), toy.errors((100, 1000)))
    assert len(ax.lines) == 2


@pytest.mark.thorough
def test_its_cells_build_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(toy.__file__).parent), prepend=":")
    script = tmp_path / "00_toy.py"
    script.write_text(toy.CELL, encoding="utf-8")
    BUILD.build(script, timeout=600)
    outputs = [cell.outputs for cell in read(script.with_suffix(".ipynb")).cells]
    assert "1 round, epsilon 1.0" in str(outputs[0])
    assert any(kind == "image/png" for kind, _ in COMPARE.flat(outputs[1]))
