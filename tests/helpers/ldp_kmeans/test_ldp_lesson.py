"""The two algorithms that notebook 03 writes in NumPy agree with the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest

from studies.ldp_kmeans import lesson

SCRIPT = Path(__file__).resolve().parents[3] / "notebooks" / "03_locally_private_kmeans.py"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the cells of the notebook that are tagged "algorithm" define."""
    space: dict[str, Any] = {"np": np}
    for cell in jupytext.read(SCRIPT, fmt="py:percent").cells:
        if "algorithm" in cell.metadata.get("tags", ()):
            exec(cell.source, space)
    return space


@pytest.mark.parametrize(
    "method", ["alg1", pytest.param("sketch", marks=[pytest.mark.slow, pytest.mark.thorough])]
)
def test_medians_of_five_runs_are_within_a_tenth(page: dict[str, Any], method: str) -> None:
    """100,000 users, epsilon 1, seeded."""
    users = lesson.data("app users", 100_000, rng=np.random.default_rng(5)).points
    _, ratio = lesson.scorer(users, 5, rng=np.random.default_rng(0))
    runs: dict[str, Callable[[Any], Any]] = {
        "alg1": lambda rng: page["one_grid"](users, 1.0, rng),
        "sketch": lambda rng: page["fit"](*page["ask"](users, 1.0, rng), 1.0),
    }
    ours = [ratio(*runs[method](np.random.default_rng(seed))) for seed in range(5)]
    same = {"depths": (3,)} if method == "alg1" else {}
    theirs = lesson.package_cost(method, users, 5, 1.0, ratio, **same)
    assert np.median(ours) == pytest.approx(theirs, rel=0.1)
    assert np.median(ours) < 1.2


def test_one_answer_changes_its_odds_by_e_to_epsilon_at_most(page: dict[str, Any]) -> None:
    """The coin and the colour of a board, counted over many phones that hold one value."""
    rng, n, epsilon = np.random.default_rng(1), 400_000, 1.0
    yes = page["flip"](np.ones(n, dtype=bool), epsilon, rng).mean()
    no = page["flip"](np.zeros(n, dtype=bool), epsilon, rng).mean()
    assert yes / no == pytest.approx(np.e, rel=0.02)  # its sd is 0.3 %
    boards, counts = page["ask"](np.zeros((n, 2)), epsilon, rng, m=2)
    true = page["colour"](np.zeros((1, 2)), *boards)[:, 0]
    for board, seen in enumerate(counts.reshape(2, 4)):
        others = np.delete(seen, true[board])
        assert seen[true[board]] / others == pytest.approx(np.full(3, np.e), rel=0.03)
