"""Widget of notebook 04: same seed, same run; the band is the table; same drawing function."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.rr_cluster import widget as rr

SHORT = {"cohort": 24, "n_rounds": 6}


@pytest.fixture(scope="module")
def made() -> paper_data.LabelledFederation:
    return paper_data.make_rotated_digits(
        80, n_train=15, n_test=5, reuse=True, rng=np.random.default_rng(3)
    )


@pytest.fixture(scope="module")
def table(made: paper_data.LabelledFederation) -> pd.DataFrame:
    return rr.accuracy_table(made, sizes=(0, 5), epsilons=(30.0, math.inf), seeds=(1, 2), **SHORT)


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def draw(made: Any, table: Any, **changes: Any) -> NDArray[np.object_]:
    _, axes = plt.subplots(1, 3)
    options: dict[str, Any] = {"min_size": 5, "epsilon": 30.0, "identifiers": "exact", "seed": 1}
    return np.asarray(rr.rebalancing_run(axes, made, table, **(options | changes), **SHORT))


def accuracy(axes: NDArray[np.object_]) -> float:
    return float(axes[2].get_lines()[-1].get_ydata()[0])


def test_table_has_a_row_for_every_run(table: pd.DataFrame) -> None:
    assert list(table.columns) == ["identifiers", "epsilon", "B", "seed", "accuracy"]
    assert len(table) == 2 * 2 * 2 * 2 and not table.duplicated(["identifiers", "epsilon", "B",
                                                                 "seed"]).any()  # fmt: skip
    assert table["accuracy"].between(0, 1).all()


def test_the_live_run_is_a_row_of_the_table(made: Any, table: pd.DataFrame) -> None:
    part = table[(table["identifiers"] == "exact") & (table["epsilon"] == 30.0)]
    expected = part[(part["B"] == 5) & (part["seed"] == 2)]["accuracy"].item()
    axes = draw(made, table, seed=2)
    assert accuracy(axes) == expected
    band = axes[2].collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == part["accuracy"].min()
    assert band[:, 1].max() == part["accuracy"].max()


def test_noised_identifiers_are_flipped_and_exact_ones_are_not(made: Any, table: Any) -> None:
    noised, exact = draw(made, table, identifiers="corrected"), draw(made, table)
    assert noised[0].get_lines()[1].get_ydata()[0] > 0.2
    assert exact[0].get_lines()[1].get_ydata()[0] == 0
    assert "no ε" in exact[0].figure.get_suptitle()
    assert "ε = 30" in noised[0].figure.get_suptitle()


def test_rebalancing_fills_up_to_b(made: Any, table: Any) -> None:
    axes = draw(made, table, identifiers="exact", epsilon=math.inf)
    used = [bar.get_height() for bar in axes[1].patches][4:]
    assert min(used) >= 5 and sum(used) == pytest.approx(24)
    off = draw(made, table, min_size=0, epsilon=math.inf)
    chosen, used = np.split(np.array([bar.get_height() for bar in off[1].patches]), 2)
    assert np.allclose(chosen, used)
    assert "0 clients moved" in off[0].figure.get_suptitle()


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [("epsilon", 3.0, "table"), ("seed", -1, "seed"), ("min_size", 7, "min_size")],
)
def test_wrong_arguments(made: Any, table: Any, argument: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(made, table, **{argument: value})


def test_pictures_need_groups(table: Any) -> None:
    lines = paper_data.make_lines(40, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="groups and classes"):
        draw(lines, table)


def test_callback_draws_with_the_same_function(
    made: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(rr, "rebalancing_run", lambda axes, *data, **options: calls.append(options))
    rr.rebalancing_callback(made, table, seed=5, **SHORT)(4, 30.0, "exact")
    assert calls == [{"min_size": 4, "epsilon": 30.0, "identifiers": "exact", "seed": 5} | SHORT]


def test_callback_answers_within_a_second_on_the_notebooks_data() -> None:
    toy = paper_data.make_rotated_digits(
        200, n_train=20, n_test=5, reuse=True, rng=np.random.default_rng(5)
    )
    short = {"cohort": 40, "n_rounds": 20}
    grid = rr.accuracy_table(toy, sizes=(0, 10), epsilons=(16.0,), seeds=(1,), **short)
    redraw = rr.rebalancing_callback(toy, grid, seed=1, **short)
    redraw(8, 16.0, "corrected")  # the first figure also loads fonts
    seconds = []
    for b in (0, 5, 10):
        begin = time.process_time()
        redraw(b, 16.0, "corrected")
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 1.0  # processor time: other programs do not count


def test_controls(made: Any, table: Any) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    function = rr.explore_rebalancing(made, table, seed=1, **SHORT)
    controls = function.widget.children[:3]
    assert [c.description for c in controls] == ["B", "epsilon", "identifiers"]
    assert controls[0].max == 5 and [label for label, _ in controls[1].options] == ["30", "inf"]
    assert [value for _, value in controls[2].options] == ["corrected", "exact"]
    assert not controls[0].continuous_update and not controls[1].continuous_update
