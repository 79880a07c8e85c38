"""Widget of notebook 01: public start, honest title, the same drawing function, quick answers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedclust_helpers import metrics
from fedclust_helpers.federation import ClientData
from fedclust_helpers.studies.fastlloyd import widget

SETTINGS = {"epsilon": 1.0, "alpha": 0.8, "n_clusters": 3, "strategy": "step", "seed": 1}


@pytest.fixture
def clients(mixture: NDArray[np.float64]) -> ClientData:
    return ClientData.from_clients([mixture[:150], mixture[150:]])


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def draw(clients: ClientData, **changed: object) -> Axes:
    _, ax = plt.subplots()
    result = widget.private_run(ax, clients, **(SETTINGS | changed))  # type: ignore[arg-type]
    assert result is ax
    return ax


def released(ax: Axes) -> NDArray[np.float64]:
    return np.asarray(ax.collections[-1].get_offsets())


def test_same_settings_same_picture(clients: ClientData) -> None:
    assert np.array_equal(released(draw(clients)), released(draw(clients)))
    assert not np.array_equal(released(draw(clients)), released(draw(clients, seed=2)))


@pytest.mark.parametrize(
    "changed", [{"epsilon": 0.05}, {"alpha": 2.0}, {"n_clusters": 7}, {"strategy": "constant"}]
)
def test_every_control_changes_the_picture_inside_the_box(
    clients: ClientData, changed: dict[str, object]
) -> None:
    centers = released(draw(clients, **changed))
    assert not np.array_equal(centers, released(draw(clients)))
    assert np.abs(centers).max() <= 1


def test_title_holds_the_cost_of_what_is_drawn(clients: ClientData) -> None:
    ax = draw(clients, reference=0.0123)
    cost = metrics.nicv(clients.points, released(ax))
    title = ax.get_title() or ax.get_title(loc="left")
    assert title.startswith(f"NICV {cost:.4f} (k-means 0.0123)")


def test_reference_is_a_good_clustering(clients: ClientData) -> None:
    # three groups of standard deviation 0.08 in two columns: cost about 2 * 0.08^2
    assert widget.reference_cost(clients, 3, seed=1) == pytest.approx(2 * 0.08**2, rel=0.2)


@pytest.mark.parametrize(
    ("argument", "value"), [("epsilon", 0.0), ("alpha", -1.0), ("n_clusters", 0), ("seed", -1)]
)
def test_wrong_arguments(clients: ClientData, argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=argument):
        draw(clients, **{argument: value})


def test_wrong_strategy(clients: ClientData) -> None:
    with pytest.raises(ValueError, match="strategy"):
        draw(clients, strategy="other")


def test_callback_draws_with_the_same_function(
    clients: ClientData, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(widget, "plot_run", lambda ax, points, history, **o: calls.append(history))
    widget.private_run_callback(clients, seed=1)(1.0, 0.8, 3, "step")
    assert len(calls) == 1
    assert calls[0].shape[1:] == (3, 2)


def test_callback_answers_within_a_second(clients: ClientData) -> None:
    redraw = widget.private_run_callback(clients, seed=1)
    redraw(1.0, 0.8, 3, "step")  # the first figure also loads fonts
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        redraw(0.5, 0.6, 10, "constant")
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 1.0  # processor time: other programs do not count


def test_controls(clients: ClientData) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    function = widget.explore_fastlloyd(clients, seed=1)
    epsilon, alpha, n_clusters, strategy = function.widget.children[:4]
    assert (epsilon.value, alpha.value, n_clusters.value) == (1.0, 0.8, 5)
    assert strategy.options == ("step", "constant")
    assert not epsilon.continuous_update
