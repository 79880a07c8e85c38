"""Figures of notebook 02: each draws on the axes it was given, says its claim, keeps its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.bench import style as figures
from fedclust_helpers.studies.feddp_kmeans import figures as feddp


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots()
        yield axes
        figure.canvas.draw()  # whatever was put on the axes can be rendered
        plt.close(figure)


@pytest.fixture
def six() -> Iterator[NDArray[np.object_]]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots(2, 3, figsize=(12, 8))
        yield axes
        figure.canvas.draw()
        plt.close(figure)


@pytest.fixture(scope="module")
def made() -> paper_data.FederatedDataset:
    return paper_data.make_server_mixture(
        n_clients=5, rows_per_client=60, n_features=6, n_clusters=4, server_per_cluster=5,
        n_uniform=8, rng=np.random.default_rng(0),
    )  # fmt: skip


def title(ax: Axes) -> str:
    return ax.get_title() or ax.get_title(loc="left")


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_plane_holds_most_of_the_spread_between_means(rng: np.random.Generator) -> None:
    means = np.zeros((4, 5))
    means[:, 1], means[:, 3] = [0, 9, 0, 9], [0, 0, 4, 4]
    plane = feddp.plane_between(read_only(means))
    assert plane.T @ plane == pytest.approx(np.eye(2))
    assert abs(plane[1, 0]) == pytest.approx(1)  # the longer direction first
    assert abs(plane[3, 1]) == pytest.approx(1)
    with pytest.raises(ValueError, match="three means"):
        feddp.plane_between(means[:2])


def test_server_data_shows_both_kinds(ax: Axes, made: paper_data.FederatedDataset) -> None:
    drawn = feddp.plot_server_data(
        ax, made.points, made.server_points, made.in_distribution, made.true_centers
    )
    assert drawn is ax
    sizes = [len(c.get_offsets()) for c in ax.collections]
    assert sizes == [300, 20, 8, 4]  # rows, same kind, other kind, means


def test_rounds_draw_private_and_exact(ax: Axes) -> None:
    private = {"oracle": read_only(np.array([0.2, 0.4])), "server_lloyds": np.array([3.0, 2.9])}
    exact = {"oracle": np.zeros(2), "server_lloyds": np.array([2.5, 2.0])}
    assert feddp.plot_rounds(ax, [1, 2], private, exact) is ax
    assert {"a start that knows", "ServerLloyds"} <= set(texts(ax))
    assert sum(line.get_linestyle() == ":" for line in ax.get_lines()) == 2


def test_subspace_marks_the_transitions(ax: Axes) -> None:
    energy = {"mirror": [[0.1, 0.2], [0.9, 1.0]], "average": [[0.2, 0.3], [0.9, 1.0]]}
    feddp.plot_subspace(ax, [0.1, 1], energy, {"mirror": 0.4, "average": 0.3})
    vertical = {float(np.asarray(line.get_xdata())[0]) for line in ax.get_lines()}
    assert {0.4, 0.3} <= vertical
    means = ax.get_lines()[0].get_ydata()
    assert np.allclose(means, [0.15, 0.95])


def test_weights_scale_the_marks(six: NDArray, made: paper_data.FederatedDataset) -> None:
    weights = np.where(made.in_distribution, 9.0, -1.0)  # noise can make a weight negative
    pair = six[0, :2]
    feddp.plot_weights(
        pair, made.points, made.server_points, read_only(weights), made.in_distribution,
        made.true_centers,
    )  # fmt: skip
    before, after = (ax.collections for ax in pair)
    assert len(set(before[1].get_sizes()) | set(before[2].get_sizes())) == 1
    assert (after[2].get_sizes() == 0).all()
    assert after[1].get_sizes().min() > before[1].get_sizes().min()
    assert pair[0].get_xlabel() == "other kind (squares): 29% of the weight"
    assert pair[1].get_xlabel() == "other kind (squares): 0% of the weight"


def test_init_panels(six: NDArray, made: paper_data.FederatedDataset) -> None:
    row = six[0]
    feddp.plot_init(
        row, made.points, made.server_points, made.in_distribution, made.true_centers,
        eigenvalues=[5e4, 2e4, -1.0], noise=1e4, energy=0.87, weights=np.ones(28),
        centers=made.true_centers, cost=3.21, best=3.0, epsilon=0.812,
    )  # fmt: skip
    assert [title(ax) for ax in row] == [
        "1  subspace keeps 87%", "2  other kind weighs 29%", "3  cost 3.21, best 3.00",
    ]  # fmt: skip
    assert "ε = 0.81" in row[0].figure.get_suptitle()
    assert row[0].get_lines()[0].get_ydata()[0] == 10.0  # thousands


def test_traffic(ax: Axes) -> None:
    sent, received = {"one": 8000.0, "two": 80.0}, {"one": 0.0, "two": 4000.0}
    assert feddp.plot_traffic(ax, sent, received) is ax
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [8.0, 0.08, 0.0, 4.0]
    assert len(texts(ax)) == 3  # nothing is written at an empty bar


def test_composition(six: NDArray) -> None:
    left, right = six[0, :2]
    totals = {"a": 6.0, "b": 4.5}
    formulas = {name: np.array([1.0, 0.5]) for name in "abcd"}
    feddp.plot_composition((left, right), totals, [1, 2], formulas)
    assert texts(left) == [" 6.00", " 4.50"]
    colors = [bar.get_facecolor() for bar in left.patches]
    assert colors[0] != colors[1]  # the smallest bill stands out
    assert len(right.get_lines()) == 5


def test_audit_raises_the_alarm_in_words(six: NDArray, rng: np.random.Generator) -> None:
    same = rng.standard_normal(500)
    scores = {"fine": (same, same + 0.1), "bad": (same, same + 3)}
    pair = six[0, :2]
    feddp.plot_audit(pair, scores, 0.24, {"fine": 0.1, "bad": 2.5})
    assert "ALARM" not in texts(pair[0])[0]
    assert texts(pair[1])[0] == "μ is at least 2.50\nclaimed: 0.24 ALARM"
    dashed = pair[0].get_lines()[0].get_xydata()
    assert dashed[:, 1] == pytest.approx(norm.pdf(dashed[:, 0], 0.24))


def test_bounds_fill_six_panels(six: NDArray) -> None:
    x = read_only(np.array([1.0, 2.0]))
    assert (
        feddp.plot_bounds(
            six, halving={20.0: np.array([8.0, 0.0]), 4.0: np.array([1.6, 0.8])},
            floors={"n": (1e3 * x, 1 / x), "ε": (4e3 * x, 0.25 / x)}, rounds=(x, x, np.sqrt(x)),
            dimensions=(4 * x, x, x / 9, x), true_means=(1e3 * x, 1e-6 / x, 0.1 / x),
            lemma=(x, x / 2, x / 100),
        )
        is six
    )  # fmt: skip
    assert len({title(ax) for ax in six.ravel()}) == 6
    drawn = six[0, 0].get_lines()[0].get_ydata()
    assert drawn[1] > 0  # an exact zero is drawn at the bottom of the log axis
    line = six[0, 1].get_lines()[-1].get_xydata()
    assert line[0] @ [0, 1] * line[0][0] == pytest.approx(line[1][0] * line[1][1])


def test_client_level(six: NDArray) -> None:
    left, right = six[0, :2]
    noise = {"client": [10.0, 4.0], "point": [2.0, 0.6]}
    feddp.plot_client_level((left, right), [0.5, 1], noise, {"as is": 3.0, "no noise": 0.5})
    assert {"one client", "one point"} <= set(texts(left))
    assert texts(right) == [" 3.00", " 0.50"]


def test_comparison_and_excess(ax: Axes) -> None:
    assert feddp.plot_comparison(ax, {"feddp": [0.01, 0.03], "server_lloyds": [3.0, 5.0]}) is ax
    assert [t.get_text() for t in ax.get_yticklabels()] == ["FedDP-KMeans", "ServerLloyds"]
    assert texts(ax) == ["0.02", "4"]
    ax.clear()
    values = read_only(np.array([[1.0, 3.0], [0.5, 0.7]]))
    assert feddp.plot_excess(ax, [0.5, 1], {"feddp_adaptive": values}) is ax
    assert np.allclose(ax.get_lines()[0].get_ydata(), [2.0, 0.6])
    assert "adaptive (ours)" in texts(ax)


def test_pareto_front_keeps_what_nothing_beats() -> None:
    epsilons = read_only(np.array([1.0, 0.5, 2.0, 1.5, 0.5]))
    costs = read_only(np.array([3.0, 5.0, 1.0, 4.0, 6.0]))
    front = feddp.pareto_front(epsilons, costs)
    assert front.tolist() == [1, 0, 2]
    for i in range(5):
        beaten = (epsilons <= epsilons[i]) & (costs <= costs[i])
        beaten[i] = False
        assert (i in front) == (not beaten.any())


def test_pareto_draws_every_method(ax: Axes) -> None:
    runs = pd.DataFrame(
        {"method": ["feddp", "feddp", "sphere_packing"], "eps_total": [0.3, 1.0, 0.5],
         "excess": [4.0, 0.1, 5.0]}
    )  # fmt: skip
    assert feddp.plot_pareto(ax, runs) is ax
    assert {"FedDP-KMeans", "SpherePacking"} <= set(texts(ax))


def table() -> pd.DataFrame:
    rows = [
        (level, clients, method, eps, t, 10, 50.0, 0.01, 0.1 * (t + 1) / eps, 1.0)
        for level, clients in (("point", 100), ("client", 1000))
        for method in ("feddp", "server_lloyds")
        for eps in (0.5, 1.0)
        for t in (0, 1)
    ]
    rows.append(("point", 100, "optimal", np.inf, 0, 10, 49.9, 0.01, 0.0, 0.0))
    columns = "level clients method eps_total T seeds cost_mean ci95 excess_mean excess_max".split()
    return pd.DataFrame(rows, columns=columns)


def test_cost_table_takes_the_best_number_of_rounds(six: NDArray) -> None:
    feddp.plot_cost_table(six[0], table())
    assert [ax.get_visible() for ax in six[0]] == [True, True, False]
    assert title(six[0, 0]) == "hiding one point, 100 clients"
    assert title(six[0, 1]) == "hiding one client, 1000 clients"
    assert np.allclose(six[0, 0].get_lines()[0].get_ydata(), [0.2, 0.1])


def test_missing_and_elbow(ax: Axes) -> None:
    excess = {"feddp": read_only(np.array([[0.5, 0.7], [1.0, 2.0]]))}
    assert feddp.plot_missing(ax, [0, 5], excess) is ax
    assert np.allclose(ax.get_lines()[0].get_ydata(), [0.6, 1.5])
    ax.clear()
    assert feddp.plot_elbow(ax, [2, 3, 4], [9.0, 4.0, 3.5], 3, 3) is ax
    assert any("k = 3" in text for text in texts(ax))


def test_limits(six: NDArray) -> None:
    pair = six[0, :2]
    costs = read_only(np.array([[3.0, 4.0], [0.5, 0.6]]))
    feddp.plot_limits(pair, ([6, 11], costs), ([5000, 20000], costs), radius=11.0)
    assert "needed" in texts(pair[0])
    assert len({title(ax) for ax in pair}) == 2


def test_patches_are_those_of_the_data_set() -> None:
    from sklearn.datasets import load_sample_image

    photo = paper_data.make_image_federation(server_in=0, rng=np.random.default_rng(0))
    patches = feddp.image_patches(load_sample_image("china.jpg"))
    rows = patches.transpose(1, 0, 2).reshape(-1, 12)
    assert rows == pytest.approx(photo.points, abs=1e-9)


def test_paint() -> None:
    image = np.zeros((4, 6, 3))
    image[:, 3:] = 255
    patches = feddp.image_patches(read_only(image), block=1)
    assert feddp.paint(patches) == pytest.approx(image / 255)
    two = np.array([[-0.5] * 3, [0.5] * 3]) / np.sqrt(3)
    assert feddp.paint(patches, two) == pytest.approx(0.25 + 0.5 * image / 255)
    with pytest.raises(ValueError, match="image"):
        feddp.image_patches(np.zeros((4, 6)))


def test_images(six: NDArray) -> None:
    pictures = {"left": np.zeros((2, 2, 3)), "right": np.ones((2, 2, 3))}
    feddp.plot_images(six[0, :2], pictures)
    assert [title(ax) for ax in six[0, :2]] == ["left", "right"]
