"""Widget of notebook 00: quick, public start, same drawing function as the still picture."""

from __future__ import annotations

import time
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedclust_helpers.federation import ClientData
from fedclust_helpers.studies.start import widget as start


@pytest.fixture
def clients(mixture: NDArray[np.float64]) -> ClientData:
    return ClientData.from_clients([mixture[:150], mixture[150:]])


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def draw(clients: ClientData, epsilon: float, k: int = 3, seed: int = 1) -> Axes:
    _, ax = plt.subplots()
    return start.private_clusters(ax, clients, epsilon=epsilon, n_clusters=k, seed=seed)


def released(ax: Axes) -> NDArray[np.float64]:
    return np.asarray(ax.collections[1].get_offsets())


def reference(ax: Axes) -> NDArray[np.float64]:
    return np.asarray(ax.collections[2].get_offsets())


def test_same_seed_same_picture(clients: ClientData) -> None:
    first, second = draw(clients, 1.0), draw(clients, 1.0)
    assert np.array_equal(released(first), released(second))
    assert not np.array_equal(released(first), released(draw(clients, 1.0, seed=2)))


def test_epsilon_moves_the_released_centres_only(clients: ClientData) -> None:
    low, high = draw(clients, 0.2), draw(clients, 10.0)
    assert np.array_equal(reference(low), reference(high))

    def error(ax: Axes) -> float:
        return float(np.linalg.norm(released(ax) - reference(ax)))

    assert error(high) < error(low)  # seeded: same noise draws, 30 times smaller


@pytest.mark.parametrize("k", [1, 3, 8])
def test_k_centres_inside_the_box(clients: ClientData, k: int) -> None:
    centers = released(draw(clients, 0.5, k))
    assert centers.shape == (k, 2)
    assert np.abs(centers).max() <= 1


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [("epsilon", 0.0, "epsilon"), ("n_clusters", 0, "n_clusters"), ("seed", -1, "seed")],
)
def test_wrong_arguments(clients: ClientData, argument: str, value: float, message: str) -> None:
    arguments = {"epsilon": 1.0, "n_clusters": 3, "seed": 1, argument: value}
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=message):
        start.private_clusters(ax, clients, **arguments)


def test_callback_draws_with_the_same_function(
    clients: ClientData, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(
        start, "private_clusters", lambda ax, data, **options: calls.append((data, options))
    )
    start.private_clusters_callback(clients, seed=5)(2.0, 4)
    assert calls == [(clients, {"epsilon": 2.0, "n_clusters": 4, "seed": 5})]


def test_callback_answers_within_a_second(clients: ClientData) -> None:
    redraw = start.private_clusters_callback(clients, seed=1)
    redraw(1.0, 3)  # the first figure also loads fonts
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        redraw(0.5, 8)
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 1.0  # processor time: other programs do not count


def test_sliders(clients: ClientData) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    function = start.explore_private_clusters(clients, seed=1)
    epsilon, n_clusters = function.widget.children[:2]
    assert (epsilon.value, n_clusters.value) == (1.0, 4)
    assert (n_clusters.min, n_clusters.max) == (1, 8)
    assert not epsilon.continuous_update
