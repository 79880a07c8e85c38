"""Figures of notebook 04: each draws on the axes it was given, says its claim, keeps its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedclust_helpers.rr_cluster.accounting import ACCOUNTANTS
from fedclust_helpers.studies.bench import style as figures
from fedclust_helpers.studies.rr_cluster import figures as rr
from fedclust_helpers.studies.rr_cluster.theory import Table4Row


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots()
        yield axes
        figure.canvas.draw()  # whatever was put on the axes can be rendered
        plt.close(figure)


@pytest.fixture
def three() -> Iterator[NDArray[np.object_]]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots(1, 3, figsize=(12, 4))
        yield axes
        figure.canvas.draw()
        plt.close(figure)


def title(ax: Axes) -> str:
    return ax.get_title() or ax.get_title(loc="left")


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def y_of(ax: Axes, label: str) -> NDArray[np.float64]:
    (line,) = [line for line in ax.get_lines() if line.get_label() == label]
    return np.asarray(line.get_ydata(), dtype=np.float64)


def test_names_are_those_of_the_tables_and_the_accountants() -> None:
    assert set(rr.ACCOUNTANTS) == set(ACCOUNTANTS)
    assert {"fedavg", "ifca", "rr_ifca", "sums_ifca", "sums_ifca_reseed"} <= set(rr.METHODS)
    private = [rr.METHODS[m][1:] for m in ("fedavg", "ifca", "rr_ifca", "sums_ifca")]
    assert len({color for color, _ in private}) == len({mark for _, mark in private}) == 4


def test_ifca_draws_each_model_as_its_line(three: NDArray) -> None:
    points = read_only(np.array([[0.0, 1.0], [0.5, 2.0]]))
    start, end = np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])
    grid = three[None, :2]
    rr.plot_ifca(grid, points, {"below": [start, end]}, (0, 1))
    drawn = [np.asarray(line.get_ydata()).tolist() for line in grid[0, 1].get_lines()]
    assert drawn == [[-2.0, 2.0], [-3.0, -3.0]]  # at x = -1 and 1
    assert [title(a) for a in grid[0]] == ["start", "round 1"]
    assert grid[0, 0].get_ylabel() == "below"
    assert len(grid[0, 0].collections[0].get_offsets()) == 2


def test_noise_of_means(ax: Axes) -> None:
    sizes, lengths = read_only(np.array([3.0, 6.0])), np.array([[2.0, 2.1], [1.0, 0.9]])
    assert rr.plot_noise_of_means(ax, sizes, lengths, [2.0, 1.0], bound=0.3) is ax
    assert np.allclose(ax.get_lines()[0].get_ydata(), [2, 1])
    assert ax.get_lines()[-1].get_ydata()[0] == 0.3
    assert any("√d" in text for text in texts(ax))


def test_found_draws_one_mark_for_each_seed(ax: Axes) -> None:
    found = {"below": {"ifca": [0, 0, 1], "rr_ifca": [4, 4, 4]}}
    assert rr.plot_found(ax, found) is ax
    marks = np.concatenate([line.get_xydata() for line in ax.get_lines()])
    assert len(marks) == 6 and len(np.unique(marks, axis=0)) == 6
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"IFCA", "RR-Cluster"}


def test_bias_variance_rings_the_best(three: NDArray) -> None:
    errors = {1.0: read_only(np.array([3.0, 1.0, 2.0]))}
    split = np.array([[0.0, 0.1, 0.2], [3.0, 1.0, 0.5]])
    assert rr.plot_bias_variance(three, [0, 10, 20], errors, split, split) is three
    ring = three[0].get_lines()[1].get_xydata()
    assert ring.tolist() == [[10.0, 1.0]]
    assert y_of(three[1], "bias²")[0] > 0  # an exact zero stays on the log axis
    assert len({title(a) for a in three}) == 3


def test_counts_say_who_was_replaced(three: NDArray) -> None:
    values = read_only(np.array([[20.0, 5.0], [22.0, 1.0], [12.0, 11.0]]))
    rr.plot_counts(three[:2], {"without": values, "with": values}, 2.5, [(1, 1, 0)])
    assert texts(three[1]) == ["model 1 replaced"]
    assert "model 0" in texts(three[0])
    assert np.allclose(three[1].get_lines()[0].get_ydata(), values[:, 0])


def test_flips(three: NDArray) -> None:
    sigmas, half = np.array([0.5, 1.0]), read_only(np.array([0.1, 0.4]))
    rr.plot_flips(
        three[:2], sigmas, {4: half}, {4: half}, {8.0: 1.3}, [2.0, 8.0], {"Gaussian": [0.7, 0.6]}
    )
    assert np.allclose(y_of(three[0], "k = 4"), half)
    assert "ε = 8" in texts(three[0]) and "a blind guess" in texts(three[1])


def test_moved_leaves_out_what_is_too_small(ax: Axes) -> None:
    expected = {4: np.array([1.0, 1e-9]), 8: np.array([10.0, 0.1])}
    assert rr.plot_moved(ax, [0.5, 2.0], expected, {8.0: 1.9}, {8: [(1.9, 0.2), (3.0, 0.0)]}) is ax
    assert np.isnan(y_of(ax, "B = 4")[1])
    points = [line.get_xydata().tolist() for line in ax.get_lines() if line.get_marker() == "s"]
    assert points == [[[1.9, 0.2]]]  # nothing is drawn where nobody was moved


def test_accountants_and_relations(ax: Axes) -> None:
    curves = {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}
    assert rr.plot_accountants(ax, [1, 10], curves, 2.23, n_rounds=100) is ax
    assert "floor 2.23" in texts(ax) and "100" in ax.get_ylabel()
    ax.clear()
    assert rr.plot_relations(ax, [2, 8], {"wor_rdp": [4.9, 1.9], "poisson_rdp": [1.5, 0.7]}) is ax
    assert np.allclose(ax.get_lines()[1].get_ydata(), [1.5, 0.7])


def test_counter_example_writes_the_sums(three: NDArray) -> None:
    worlds = {"with": [[1, 1], [-1, -1, -1]], "without": [[1, -1], [-1, -1]]}
    rr.plot_counter_example(three[:2], worlds)
    assert {"A", "sum +2 C", "sum −3 C"} <= set(texts(three[0]))
    assert {"moved", "sum 0 C", "sum −2 C"} <= set(texts(three[1]))
    arrows = [t for t in three[0].texts if getattr(t, "arrow_patch", None) is not None]
    assert len(arrows) == 5


def test_shifts_above_the_claim_are_another_colour(ax: Axes) -> None:
    assert rr.plot_shifts(ax, {"breaks": 2.24, "holds": 2.0}) is ax
    first, second = ax.patches
    assert first.get_facecolor() != second.get_facecolor()
    assert {" 2.24", " 2.00"} <= set(texts(ax))


def test_views_sort_by_the_true_group(three: NDArray) -> None:
    identifiers = read_only(np.eye(2)[[1, 0, 1]])
    rr.plot_views(three, identifiers, [1, 0, 1], np.zeros((3, 4)), [1.2, 2.1], [1, 2])
    shown = np.asarray(three[0].get_images()[0].get_array())
    assert shown.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert [bar.get_height() for bar in three[2].patches] == [1.2, 2.1]


def row(method: str, epsilon: float, sigma: float, low: float, high: float) -> Table4Row:
    return Table4Row(method, epsilon, 87.5, 56, sigma, low, high, 2.0, 0.4)


def test_table_4_draws_intervals_and_what_is_needed(ax: Axes) -> None:
    rows = [
        row("DP-IFCA", 4.0, 2.0, 1.0, np.inf),
        row("RR-Cluster(IFCA) B=8", 4.0, 0.0, 0.0, 0.4),
        row("RR-Cluster(IFCA) B=8", np.inf, 0.0, 0.0, 0.4),
    ]
    assert rr.plot_table_4(ax, rows) is ax
    assert np.allclose(y_of(ax, "needed by the accounting"), [2.0])
    assert np.allclose(y_of(ax, "DP-IFCA"), [2.0])
    assert (y_of(ax, "RR-Cluster, B=8") > 0).all()  # a zero stays on the log axis


def test_convergence(three: NDArray) -> None:
    x = np.array([0.5, 1.0])
    term = dict.fromkeys(("truth", "printed", "literal", "corrected"), read_only(x))
    tails = {"bound": x, "above": x, "below": x}
    distances = {"truth": 0.99 ** np.arange(9), "printed": 0.1 ** np.arange(9)}
    rr.plot_convergence(three, x, term, [50, 60], tails, distances)
    assert {"truth", "printed", "read literally", "corrected"} == {
        t.get_text() for t in three[0].get_legend().get_texts()
    }
    assert np.isnan(y_of(three[2], "printed")[-1]) and not np.isnan(y_of(three[2], "truth")).any()


def test_comparison_keeps_promises_apart(three: NDArray) -> None:
    runs = pd.DataFrame(
        [("ifca", "fixed", 2.0, 0.3), ("ifca", "fixed", 2.0, 0.5), ("fedavg", "poisson", 2.0, 0.6)],
        columns=["method", "sampling", "epsilon", "accuracy"],
    )
    rr.plot_comparison(three[:2], runs, note="remark")
    assert np.allclose(y_of(three[0], "DP-IFCA"), [0.4])
    assert [title(a) for a in three[:2]] == ["Fixed size, replace-one", "Poisson, add/remove"]
    assert "DP-FedAvg" in texts(three[1]) and "DP-FedAvg" not in texts(three[0])
    assert "remark" in texts(three[0])


def results_rows() -> pd.DataFrame:
    base = {"setting": "balanced", "model": "softmax", "k": 4, "rounds": 50}
    shared = {"sampling": "fixed", "accountant": "wor_rdp", "reference": "ifca"}
    shared |= {"reference_identifiers": "corrected"}
    rows = [
        base | {"method": m, "identifiers": i, "B": b, "epsilon": e}
        for m, (i, b) in rr.MAIN.items() for e in (2.0, np.inf)
    ]  # fmt: skip
    last = rows[-2]
    rows += [last | {"setting": "imbalanced"}, last | {"k": 2, "rounds": 100}]
    rows += [last | {"B": 25}, last | {"identifiers": "printed"}, last | {"sampling": "poisson"}]
    return pd.DataFrame([shared | row for row in rows])


def test_rows_of_the_committed_tables() -> None:
    found = rr.main_rows(results_rows())
    assert found["method"].tolist() == list(rr.MAIN)
    assert (found["epsilon"] == 2).all() and (found["setting"] == "balanced").all()
    gains = rr.paired_gains(results_rows(), "sums_ifca_reseed")
    assert gains["label"].tolist() == ["base setting", "2:1:1", "T = 100 k = 2"]


def test_results_draw_every_method_and_interval(three: NDArray) -> None:
    accuracy = pd.DataFrame(
        [("ifca", 2.0, 0.3, 0.01), ("ifca", 8.0, 0.6, 0.01), ("sums_ifca", 2.0, 0.6, 0.02)],
        columns=["method", "epsilon", "acc_mean", "ci95"],
    )
    paired = pd.DataFrame(
        [("base", 2.0, 0.3, 0.01), ("base", 8.0, -0.1, 0.01), ("other", 2.0, 0.0, 0.1)],
        columns=["label", "epsilon", "diff_mean", "ci95"],
    )
    rr.plot_results(three[:2], accuracy, paired)
    drawn = [bars.lines[0].get_ydata().tolist() for bars in three[0].containers]
    assert np.allclose(drawn[0], [30, 60]) and np.allclose(drawn[1], [60])
    at = [bars.lines[0].get_xdata()[0] for bars in three[1].containers]
    assert np.allclose(at, [30, -10, 0])
    colors = {bars.lines[0].get_color() for bars in three[1].containers}
    assert len(colors) == 3  # better, worse, undecided
    assert [t.get_text() for t in three[1].get_yticklabels()] == ["base", "other"]


def test_limits(three: NDArray) -> None:
    values = read_only(np.array([[0.2, 0.4], [0.9, 0.9]]))
    rr.plot_limits(
        three, ([0.05, 0.25], {0.1: values, 0.5: values}), ([2, 4], values),
        ([0.5, 1.0], {"sums_ifca": values, "sums_ifca_reseed": values}),
    )  # fmt: skip
    assert np.allclose(y_of(three[0], "threshold 0.1"), [0.3, 0.9])
    assert np.allclose(y_of(three[2], "sums only"), [0.3, 0.9])
    assert "truth" in texts(three[1])


def test_choice_marks_the_live_run(three: NDArray) -> None:
    rr.plot_choice(
        three, sigmas=[0.2, 1.0], wrong=[0.0, 0.4], sigma=0.0, flip_rate=0.0,
        sizes={"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, min_size=4,
        curve=([0, 4], [0.2, 0.3], [0.4, 0.5]), accuracy=0.45, title="B = 4",
    )  # fmt: skip
    assert title(three[0]) == "1  0% of identifiers wrong"
    assert three[0].get_lines()[1].get_xydata().tolist() == [[0.2, 0.0]]  # no noise: left end
    assert [bar.get_height() for bar in three[1].patches] == [9.0, 1.0, 5.0, 5.0]
    assert three[2].get_lines()[-1].get_xydata().tolist() == [[4.0, 0.45]]
    assert three[0].figure.get_suptitle() == "B = 4"
