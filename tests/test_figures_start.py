"""Figures of notebook 00: each draws on the axes it was given, says its claim, keeps its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import read_only
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers.studies.bench import style as figures
from fedclust_helpers.studies.start import figures as start


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots()
        yield axes
        figure.canvas.draw()  # whatever was put on the axes can be rendered
        plt.close(figure)


@pytest.fixture
def four() -> Iterator[NDArray[np.object_]]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots(1, 4, figsize=(16, 8))
        yield axes
        figure.canvas.draw()
        plt.close(figure)


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def title(ax: Axes) -> str:
    return ax.get_title() or ax.get_title(loc="left")


@pytest.mark.parametrize("model", ["trusted", "ideal", "masked", "local"])
def test_trust_model_shows_exact_numbers_only_where_they_travel(ax: Axes, model: str) -> None:
    assert start.plot_trust_model(ax, model) is ax
    assert title(ax)
    shown = texts(ax)
    on_the_wire = {"12", "7", "9"} <= set(shown)
    assert on_the_wire == (model in ("trusted", "ideal"))
    if model == "masked":  # the party that adds the noise could take it away again
        assert "noise from: the server, which may not see the result" in shown
    for line in ("server sees: ", "other clients see: ", "noise from: "):
        assert sum(text.startswith(line) for text in shown) == 1


def test_unknown_trust_model_is_refused(ax: Axes) -> None:
    with pytest.raises(ValueError, match="model must be one of trusted, ideal, masked, local"):
        start.plot_trust_model(ax, "blockchain")


def test_trust_models_fill_four_axes(four: NDArray[np.object_]) -> None:
    assert start.plot_trust_models(four) is four
    assert len({title(ax) for ax in four}) == 4
    assert "Raw data never leave" in four[0].figure.get_suptitle()


def test_server_views(four: NDArray[np.object_]) -> None:
    exact = read_only(np.array([3.0, 5.0, 4.0]))
    views = {
        "trusted": exact[:, None],
        "ideal": np.array([12.4]),
        "masked": np.array([[2**63], [5], [2**64 - 1]], dtype=np.uint64),
        "local": exact[:, None] + 0.5,
    }
    assert start.plot_server_views(four, views, exact) is four
    heights = [[bar.get_height() for bar in ax.patches] for ax in four]
    assert heights[0] == [3.0, 5.0, 4.0]
    assert heights[1] == [12.4]
    assert heights[2] == pytest.approx([0.5, 0.0, 1.0])  # as a share of the ring
    assert heights[3] == [3.5, 5.5, 4.5]


def test_two_worlds_names_both(ax: Axes, rng: np.random.Generator) -> None:
    values = read_only(rng.normal(size=500))
    assert start.plot_two_worlds(ax, values, values + 1, np.arange(-4, 6), who="Bob") is ax
    assert texts(ax) == ["without Bob", "with Bob"]


def test_log_ratio_marks_epsilon_on_both_sides(ax: Axes) -> None:
    bins = np.arange(4.0)
    assert start.plot_log_ratio(ax, bins, [-1, 0, 1], [0.1, 0.1, 0.1], 1.5) is ax
    levels = {float(np.asarray(line.get_ydata())[0]) for line in ax.get_lines()}
    assert {-1.5, 1.5} <= levels
    assert texts(ax) == ["ε", "-ε"]


def test_log_ratio_draws_the_exact_steps_beside_the_measured_marks(ax: Axes) -> None:
    exact = read_only(np.array([-1.0, 0.0, 1.0]))
    start.plot_log_ratio(ax, np.arange(4.0), exact + 0.1, [0.1, 0.1, 0.1], 1.0, exact=exact)
    (steps,) = ax.patches
    assert np.array_equal(steps.get_data().values, exact)
    marks = ax.get_lines()[-1].get_ydata()
    assert np.allclose(marks, exact + 0.1)


def test_attack_curves_are_the_two_formulas(ax: Axes) -> None:
    epsilons = read_only(np.array([0.1, 1.0, 4.0]))
    assert start.plot_attack(ax, epsilons, [0.52, 0.7, 0.93]) is ax
    assert title(ax) == "Epsilon caps every membership attack"
    curves = {str(line.get_label()): line.get_xydata() for line in ax.get_lines()}
    assert curves["_ceiling"][-1] == pytest.approx([4.0, 1 / (1 + np.exp(-4))])
    assert curves["_laplace"][-1] == pytest.approx([4.0, 1 - np.exp(-2) / 2])
    assert (curves["_laplace"][:, 1] <= curves["_ceiling"][:, 1]).all()


def test_delta_area_is_delta(ax: Axes) -> None:
    from fedclust_helpers.accounting import gdp_delta

    assert start.plot_delta(ax, 1.0, 1.0) is ax
    red = ax.collections[-1].get_paths()[0].vertices  # outline of the red area
    x, y = red[:, 0], red[:, 1]
    area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    assert area == pytest.approx(gdp_delta(1.0, 1.0), rel=0.02)  # polygon of a smooth curve


def test_changes_name_their_bounds(ax: Axes, rng: np.random.Generator) -> None:
    changes = {"add/remove": rng.uniform(0, 1, 200), "replace-one": rng.uniform(0, 2, 200)}
    assert start.plot_changes(ax, changes, {"add/remove": 1.0, "replace-one": 2.0}) is ax
    assert texts(ax) == ["add/remove:\nat most 1.00", "replace-one:\nat most 2.00"]
    assert "twice as far" in title(ax)


def test_units(rng: np.random.Generator) -> None:
    member = read_only(np.arange(600) % 2 == 0)
    count = 950 + 50 * member
    figure, axes = plt.subplots(1, 2)
    answers = {"point": count + rng.laplace(0, 1, 600), "client": count + rng.laplace(0, 50, 600)}
    assert start.plot_units(axes, answers, member, who="clinic 3") is axes
    assert [title(ax) for ax in axes] == [
        "Noise for one point: clinic 3 shows",
        "Noise for one client: clinic 3 is hidden",
    ]
    plt.close(figure)


def test_averaging_draws_the_theory(ax: Axes) -> None:
    rounds = read_only(np.array([1, 4, 16]))
    assert start.plot_averaging(ax, rounds, [0.55, 0.6, 0.69], 0.25) is ax
    curve = ax.get_lines()[0].get_xydata()
    assert curve[-1] == pytest.approx([16.0, norm.cdf(0.5)])


def test_composition_labels_its_lines(ax: Axes) -> None:
    totals = {"basic": [1, 2, 4], "GDP": [1, 1.5, 2], "PLD": [1, 1.5, 2]}
    assert start.plot_composition(ax, [1, 2, 4], totals) is ax
    assert {"basic: add up", "GDP: μ² adds up", "PLD (dots)"} <= set(texts(ax))


def test_step_and_private_clusters(ax: Axes, mixture: NDArray, true_centers: NDArray) -> None:
    assert start.plot_step(ax, mixture, true_centers, true_centers, true_centers + 0.05) is ax
    assert "exact means" in title(ax)
    ax.clear()
    drawn = start.plot_private_clusters(
        ax, mixture, true_centers + 0.05, true_centers, epsilon=2.0, nicv=0.02,
        nicv_reference=0.01,
    )  # fmt: skip
    assert drawn is ax
    assert "ε = 2: NICV 0.0200" in title(ax) and "without noise: 0.0100" in title(ax)
    squares = ax.collections[1].get_offsets()
    assert np.allclose(squares, true_centers + 0.05)


def test_selection_and_cost(ax: Axes) -> None:
    assert start.plot_selection(ax, [1, 10], [0.6, 0.9], 0.62) is ax
    assert "best of m" in title(ax)
    ax.clear()
    costs = read_only(np.array([[0.2, 0.3, 0.4], [0.1, 0.1, 0.2]]))
    assert start.plot_cost(ax, [0.5, 1.0], costs, 0.09) is ax
    median = ax.get_lines()[0].get_ydata()
    assert np.allclose(median, [0.3, 0.1])
