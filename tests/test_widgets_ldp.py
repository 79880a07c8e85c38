"""Widget of notebook 03: same noise for all positions, more users show more, no warnings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import read_only
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedclust_helpers import datasets
from fedclust_helpers.ldp_kmeans import detection_threshold
from fedclust_helpers.studies.ldp_kmeans import widget as ldp


@pytest.fixture(scope="module")
def points() -> NDArray[np.float64]:
    return datasets.make_ball_mixture(60_000, 2, 5, rng=np.random.default_rng(3)).points


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def draw(points: NDArray, *, n: int = 60_000, epsilon: float = 2.0, depth: int = 3, seed: int = 1
         ) -> Axes:  # fmt: skip
    _, ax = plt.subplots()
    options = {"epsilon": epsilon, "depth": depth, "seed": seed}
    return ldp.local_run(ax, read_only(points), n=n, n_clusters=5, **options)  # type: ignore[arg-type]


def released(ax: Axes) -> NDArray[np.float64]:
    """The centres are drawn last."""
    return np.asarray(ax.collections[-1].get_offsets())


def n_cells(ax: Axes) -> int:
    found = re.search(r"(\d+) cells", ax.get_title())
    assert found
    return int(found.group(1))


def test_same_seed_same_picture(points: NDArray) -> None:
    first, second = draw(points), draw(points)
    assert np.array_equal(released(first), released(second))
    assert not np.array_equal(released(first), released(draw(points, seed=2)))


def test_more_users_and_more_epsilon_show_more_cells(points: NDArray) -> None:
    many, few, shy = draw(points), draw(points, n=6000), draw(points, epsilon=0.3)
    assert n_cells(many) > n_cells(few)  # seeded; sixteen cells hold more than 2 %
    assert n_cells(many) > n_cells(shy)


def test_title_says_what_a_cell_needs(points: NDArray) -> None:
    share = detection_threshold(60_000, 2.0, 2) / 60_000
    assert f"a cell needs {share:.1%} of them" in draw(points).get_title()


def test_nothing_to_see_is_said_and_not_warned(points: NDArray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blind = draw(points, n=50, epsilon=0.1)
    assert "no cell can be seen" in blind.get_title()
    assert n_cells(blind) == 0


def test_levels() -> None:
    assert [ldp.levels_of(p) for p in (1, 2, 4)] == [(1,), (1, 2), (3, 4)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("n", 60_001), ("n", 0), ("epsilon", 0.0), ("depth", 7), ("depth", 0), ("seed", -1)],
)
def test_wrong_arguments(points: NDArray, argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=argument):
        draw(points, **{argument: value})  # type: ignore[arg-type]


def test_callback_draws_one_new_figure(points: NDArray, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.get_fignums())))
    redraw = ldp.local_run_callback(points, n_clusters=5, seed=1)
    redraw(1e9, 1.0, 3)  # more users than there are: all of them
    assert shown == [1]
    assert "n = 60,000" in plt.gca().get_title()


def test_sliders_start_within_their_limits(points: NDArray) -> None:
    pytest.importorskip("ipywidgets")
    explore = ldp.explore_local(points, n_clusters=5, seed=1)
    sliders = {child.description: child for child in explore.widget.children[:3]}
    assert set(sliders) == {"users n", "epsilon", "depth"}
    assert 10 ** sliders["users n"].max == pytest.approx(len(points))
    assert all(not slider.continuous_update for slider in sliders.values())
