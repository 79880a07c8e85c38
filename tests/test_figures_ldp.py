"""Figures of notebook 03: each draws on the axes it was given, says its claim, keeps its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only
from ldp_cases import four_rounds, one_round
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from numpy.typing import NDArray

from fedclust_helpers import datasets
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import LocalReports, simulate
from fedclust_helpers.studies.bench import style as figures
from fedclust_helpers.studies.ldp_kmeans import figures as ldp


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots()
        yield axes
        figure.canvas.draw()  # whatever was put on the axes can be rendered
        plt.close(figure)


@pytest.fixture
def row() -> Iterator[NDArray[np.object_]]:
    with plt.rc_context():
        figures.use_style()
        figure, axes = plt.subplots(1, 4, figsize=(14, 4))
        yield axes
        figure.canvas.draw()
        plt.close(figure)


@pytest.fixture(scope="module")
def points() -> NDArray[np.float64]:
    return datasets.make_ball_mixture(40_000, 2, 3, rng=np.random.default_rng(3)).points


@pytest.fixture(scope="module")
def one(points: NDArray) -> lk.LdpResult:
    rng = np.random.default_rng(0)
    return one_round(simulate(points, "local", seed=1), n_clusters=3, epsilon=4.0, rng=rng)


@pytest.fixture(scope="module")
def four(points: NDArray) -> tuple[LocalReports, lk.LdpResult]:
    users = simulate(points, "local", seed=1, keep_payloads=True)
    rng = np.random.default_rng(0)
    options = {"lsh": True, "t": 2}
    return users, four_rounds(users, n_clusters=3, epsilon=4.0, rng=rng, **options)


def title(ax: Axes) -> str:
    return ax.get_title() or ax.get_title(loc="left")


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def squares(ax: Axes) -> list[int]:
    """Number of squares in each collection of them."""
    return [len(c.get_paths()) for c in ax.collections if isinstance(c, PatchCollection)]


# --- building blocks ------------------------------------------------------------------------------


def test_coin_marks_the_truth(ax: Axes, rng: np.random.Generator) -> None:
    naive, debiased = read_only(rng.normal(40, 1, 200)), read_only(rng.normal(30, 2, 200))
    assert ldp.plot_coin(ax, naive, debiased, 30.0) is ax
    assert {"naive count", "de-biased", "truth"} <= set(texts(ax))
    assert list(ax.get_lines()[0].get_xdata()) == [30.0, 30.0]


def test_spectrum_draws_noise_and_popular_values(ax: Axes, rng: np.random.Generator) -> None:
    estimates = rng.normal(0, 1000, 4096)
    at = np.array([5, 9])
    estimates[at] = [9000, 12_000]
    counts = np.array([8500, 12_500])
    assert ldp.plot_spectrum(ax, read_only(estimates), at, counts, std=1000.0, z=4.0) is ax
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) == 2]
    assert any(np.allclose(line.get_xdata(), [9, 12]) for line in drawn)
    assert any(np.allclose(line.get_xdata(), [8.5, 12.5]) for line in drawn)
    assert any(np.allclose(line.get_xdata(), [4, 4]) for line in drawn)  # the threshold
    assert ax.patches[0].get_data().values.sum() == pytest.approx(4094, rel=0.02)  # the others


def test_splits(row: NDArray) -> None:
    m = [1, 10, 40]
    parts = {"split the budget": [1, 20, 80], "split the users": [1, 6, 13], "mixed": [1, 6, 13]}
    curves = {1.0: parts, 8.0: parts}
    measured = {1.0: {"split the users": (10, 6.1)}, 8.0: {}}
    ldp.plot_splits(row[:2], m, curves, measured)
    assert [title(a) for a in row[:2]] == ["ε = 1", "ε = 8"]
    assert [len(a.get_lines()) for a in row[:2]] == [4, 3]


def test_ladder(ax: Axes) -> None:
    shares = {1.0: [0.0, 0.2, 1.0], 4.0: [0.5, 1.0, 1.0]}
    assert ldp.plot_ladder(ax, [1000, 3000, 9000], shares, {1.0: 5000.0, 4.0: 2000.0}) is ax
    vertical = {float(np.asarray(line.get_xdata())[0]) for line in ax.get_lines()}
    assert {5000.0, 2000.0} <= vertical


def test_sums(ax: Axes) -> None:
    n = np.array([1000, 4000, 16_000])
    theory = np.sqrt(n)
    errors = read_only(np.stack([theory * 0.9, theory * 1.2], axis=1))
    assert ldp.plot_sums(ax, n, errors, theory, 5 * theory) is ax
    assert len(ax.get_lines()) == 4  # two runs, the lemma, theory
    assert "Lemma 2.12" in texts(ax)


def test_noise_audit_tells_alarm_from_none(row: NDArray, rng: np.random.Generator) -> None:
    same = rng.standard_normal(500)
    scores = {"bad": (same, same + 3), "fine": (same, same + 0.1)}
    ldp.plot_noise_audit(row[:2], scores, {"bad": 2.5, "fine": 0.3}, 1.0)
    assert texts(row[0])[0] == "claimed ε = 1\nε is at least 2.50"
    assert texts(row[1])[0] == "claimed ε = 1\nno alarm"


# --- cells ----------------------------------------------------------------------------------------


def test_corners_lie_half_a_side_from_centres(row: NDArray, points: NDArray) -> None:
    costs = {"corner": [0.5, 0.3], "center": [0.2, 0.1]}
    ldp.plot_corners(row[:2], read_only(points), 3, costs, [1, 2], best=0.05)
    _, *places = (c.get_offsets() for c in row[0].collections if not isinstance(c, PatchCollection))
    corners, centers = (np.asarray(p) for p in places)
    assert np.allclose(centers - corners, 0.125)
    assert squares(row[0]) == [len(corners)]
    assert np.allclose(row[1].get_lines()[0].get_ydata(), [0.5, 0.3])


def test_shells_count_their_cells(ax: Axes) -> None:
    shells = [(0.5, np.zeros((7, 2)), 0.3), (0.25, np.ones((5, 2)), 0.15)]
    assert ldp.plot_shells(ax, shells, np.array([0.1, 0.0])) is ax
    assert squares(ax) == [7, 5]
    assert texts(ax) == ["7 cells", "5 cells"]


def test_run_draws_the_chosen_cells(ax: Axes, points: NDArray, one: lk.LdpResult) -> None:
    assert one.chosen is not None
    assert ldp.plot_run(ax, read_only(points), one, one.centers) is ax
    by_depth = [int((one.chosen.depth == level.depth).sum()) for level in one.levels]
    assert squares(ax) == by_depth
    assert np.allclose(ax.collections[-1].get_offsets(), one.centers)


def test_run_without_cells_can_be_drawn(ax: Axes, points: NDArray) -> None:
    users = simulate(points[:1000], "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning):
        blind = one_round(users, n_clusters=3, epsilon=0.05, rng=np.random.default_rng(0))
    ldp.plot_run(ax, points, blind)
    assert sum(squares(ax)) == 0


def test_lights_say_n_and_cost(row: NDArray, points: NDArray, one: lk.LdpResult) -> None:
    results, costs = {10_000: one, 100_000: one}, {10_000: 0.25, 100_000: 0.125}
    ldp.plot_lights(row[:2], points, results, costs, one.centers)
    assert title(row[0]) == f"n = $10^4$: {len(one.weights)} cells"
    assert [a.get_xlabel() for a in row[:2]] == ["cost 0.250", "cost 0.125"]


def test_depths(ax: Axes) -> None:
    single = {10_000: read_only(np.array([[0.2, 0.4], [0.1, 0.1]]))}
    assert ldp.plot_depths(ax, [2, 3], single, {10_000: [0.1, 0.3]}, best=0.05) is ax
    assert np.allclose(ax.get_lines()[0].get_ydata(), [0.3, 0.1])
    assert np.allclose(ax.get_lines()[1].get_ydata(), 0.2)


# --- whole runs -----------------------------------------------------------------------------------


def test_methods_one_row_each(ax: Axes) -> None:
    costs = {
        "alg1": {1000: [0.4, 0.2], 100: [0.5, 0.7]},
        "private_mean": {1000: [0.8, 0.8], 100: [0.8, 0.8]},
    }
    assert ldp.plot_methods(ax, costs, best=0.02, single=0.5) is ax
    assert [t.get_text() for t in ax.get_yticklabels()] == ["one round", "one private mean"]
    assert {"0.300", "0.600", "0.800", "non-private"} <= set(texts(ax))
    marks = [line.get_markerfacecolor() for line in ax.get_lines()[:2]]
    assert marks[0] == "white"  # the smaller n is open
    assert marks[1] != "white"


def test_trust(ax: Axes) -> None:
    costs = {name: read_only(np.array([[0.3, 0.5], [0.1, 0.1]])) for name in ldp.TRUST}
    assert ldp.plot_trust(ax, [1000, 10_000], costs, best=0.02) is ax
    assert np.allclose(ax.get_lines()[0].get_ydata(), [0.4, 0.1])
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == [v[0] for v in ldp.TRUST.values()]


def test_rounds(row: NDArray, points: NDArray, four: tuple[LocalReports, lk.LdpResult]) -> None:
    _, result = four
    ldp.plot_rounds(row, read_only(points), result, result.centers)
    heavy, candidates = result.heavy, result.candidates
    assert heavy is not None and candidates is not None
    assert squares(row[0]) == [len(cells) for cells in heavy.cells]
    places = [len(c.get_offsets()) for c in row[1].collections[1:]]
    assert sum(places) == len(candidates)
    assert places[0] == len(heavy.centers())
    assert np.allclose(row[3].collections[-1].get_offsets(), result.centers)


def test_said_by_users_is_what_they_sent(
    points: NDArray, four: tuple[LocalReports, lk.LdpResult]
) -> None:
    users, _ = four
    table = ldp.said_by_users(users, points)
    assert users.split is not None
    assert table["round"].tolist() == [1, 2, 2, 3, 4, 4]
    for part, user in zip(users.split.parts, table["user"], strict=True):
        assert users.split.members(np.array([user]), part).all()
        assert not users.split.members(np.arange(user), part).any()  # the first of its part
    sent = table["what left the phone"]
    assert {"+1", "−1"} >= set(sent[[0, 1, 3, 4]])
    payload = users.transcript.view("server")[2].payload[0]
    assert sent[2] == f"({payload[0]:+.1f}, {payload[1]:+.1f})"


def test_said_by_users_needs_a_division_and_payloads(points: NDArray) -> None:
    with pytest.raises(ValueError, match="divided"):
        ldp.said_by_users(simulate(points, "local", seed=1), points)
    users = simulate(points, "local", seed=1)
    rng = np.random.default_rng(0)
    four_rounds(users, n_clusters=3, epsilon=4.0, rng=rng)
    with pytest.raises(ValueError, match="payloads"):
        ldp.said_by_users(users, points)


def test_growth_is_relative_to_the_first(ax: Axes) -> None:
    n = np.array([10_000, 40_000])
    assert ldp.plot_growth(ax, {"noise": (n, [100.0, 200.0], 0.5)}) is ax
    line, root = ax.get_lines()
    assert np.allclose(line.get_ydata(), [1, 2])
    assert np.allclose(root.get_ydata(), [1, 2])
    assert line.get_label() == "noise: slope 0.50"


def table() -> pd.DataFrame:
    rows = [
        (data, algorithm, n, d, k, eps, 0.1 * d / eps if data == "mixture" else 9.0, 0.05)
        for data in ("mixture", "birch2")
        for algorithm in ("alg1", "alg1_hso", "private_mean")
        for n in (10**4, 10**5)
        for d in (2, 10)
        for k in (3, 5)
        for eps in (1.0, 4.0)
    ]
    frame = pd.DataFrame(rows, columns="data algorithm n dprime k epsilon cost best".split())
    return frame.rename(columns={"cost": "cost_per_point", "best": "nonprivate_cost"})


def test_cost_ratios_take_one_round_and_sums_beyond_six_dimensions() -> None:
    frame = table()
    wrong = (frame["algorithm"] == "alg1") & (frame["dprime"] == 10)
    frame.loc[wrong, "cost_per_point"] = 77.0
    ratios = ldp.cost_ratios(frame, epsilon=4.0)
    assert ratios.index.tolist() == [10**4, 10**5]
    assert ratios.columns.tolist() == [2, 10]
    assert np.allclose(ratios, [[1.0, 5.0], [1.0, 5.0]])


def test_limits_with_and_without_a_table(row: NDArray) -> None:
    needed = {"a": [1e8, 1e6], "b": [1e5, 1e4]}
    ldp.plot_limits(row[:2], [1, 4], needed, table())
    assert len(row[0].get_lines()) == 2
    assert np.allclose(row[1].get_lines()[0].get_ydata(), [4, 20])
    assert {"one private mean", "d > 6:\nvector sums"} <= set(texts(row[1]))
    ldp.plot_limits(row[2:], [1, 4], needed, None)
    assert not row[3].get_visible()


# --- lemmas ---------------------------------------------------------------------------------------


def test_projection(row: NDArray) -> None:
    alphas = np.array([0.5, 0.1])
    ratios = read_only(np.array([[0.9, 1.1]]))  # for the first alpha only
    ldp.plot_projection(row[:2], alphas, ratios, [1.5, 1.1], [1.7, 0.3], [2.0, 1.2])
    assert [line.get_ydata()[0] for line in row[0].get_lines()] == [0.9, 1.1]
    assert len(row[1].get_lines()) == 3


def test_lsh(row: NDArray, rng: np.random.Generator) -> None:
    cloud = read_only(rng.normal(size=(50, 2)))
    same = np.arange(50) < 10
    scene = {"points": cloud, "same": same, "filter": np.zeros(2), "radius": 0.3}
    curve = np.array([1.0, 2.0]), np.array([0.5, 0.1])
    ratios = {6: ([1, 2, 4], [2.0, 40.0, 1e7]), 2: ([1, 2, 4], [0.9, 1.0, 1.1])}
    ldp.plot_lsh(row[:3], scene, {2: curve}, {2: curve}, ratios)
    mean = row[0].get_lines()[-1].get_xydata()[0]
    assert np.allclose(mean, cloud[same].mean(axis=0))
    # a name is written where its line leaves the axes
    places = {t.get_text(): t.xy for t in row[2].texts if t.get_text().startswith("c =")}
    assert places == {"c = 6": (2.0, 40.0), "c = 2": (4.0, 1.1)}
