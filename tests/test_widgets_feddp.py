"""Widget of notebook 02: quick, same noise for all positions, same drawing function."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.typing import NDArray

from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.feddp_kmeans import widget as feddp

SHARES = (0.2, 0.2, 0.45, 0.15)


@pytest.fixture(scope="module")
def made() -> paper_data.FederatedDataset:
    return paper_data.make_server_mixture(
        n_clients=20, rows_per_client=500, n_features=20, n_clusters=5, side=2.0,
        server_per_cluster=10, n_uniform=20, rng=np.random.default_rng(3),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def draw(
    made: paper_data.FederatedDataset, epsilon: float, *, shares: Any = SHARES, seed: int = 1
) -> NDArray[np.object_]:
    _, axes = plt.subplots(1, 3)
    return np.asarray(feddp.init_run(axes, made, epsilon=epsilon, shares=shares, seed=seed))


def number(axes: NDArray[np.object_], panel: int) -> float:
    """The first number of a panel's title after its own number."""
    text = axes[panel].get_title() or axes[panel].get_title(loc="left")
    return float(re.findall(r"[\d.]+", text)[1])


def released(axes: NDArray[np.object_]) -> NDArray[np.float64]:
    return np.asarray(axes[2].collections[1].get_offsets())


def test_same_seed_same_picture(made: paper_data.FederatedDataset) -> None:
    first, second = draw(made, 1.0), draw(made, 1.0)
    assert np.array_equal(released(first), released(second))
    assert not np.array_equal(released(first), released(draw(made, 1.0, seed=2)))


def test_more_budget_means_better_centres(made: paper_data.FederatedDataset) -> None:
    low, high = draw(made, 0.1), draw(made, 10.0)
    assert number(high, 2) < number(low, 2)  # cost; seeded, 100 times the budget
    assert number(high, 0) > number(low, 0)  # energy of the subspace


def test_shares_are_scaled_and_matter(made: paper_data.FederatedDataset) -> None:
    base = draw(made, 1.0)
    twice = draw(made, 1.0, shares=[2 * s for s in SHARES])
    assert np.allclose(released(base), released(twice))
    starved = draw(made, 1.0, shares=(0.001, 0.2, 0.45, 0.15))
    assert number(starved, 0) < number(base, 0)


def test_title_states_the_exact_total(made: paper_data.FederatedDataset) -> None:
    from fedclust_helpers.feddp_kmeans import split_epsilon

    total = split_epsilon(1.0, proportions=SHARES).total()
    figure = draw(made, 1.0)[0].figure
    assert f"ε = {total:.2f}" in figure.get_suptitle()
    assert total < 1


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("epsilon", 0.0, "epsilon"),
        ("shares", (0.5, 0.5, 0.0, 0.1), "shares"),
        ("shares", (0.5, 0.5), "shares"),
        ("seed", -1, "seed"),
    ],
)
def test_wrong_arguments(
    made: paper_data.FederatedDataset, argument: str, value: Any, message: str
) -> None:
    arguments = {"epsilon": 1.0, "shares": SHARES, "seed": 1, argument: value}
    _, axes = plt.subplots(1, 3)
    with pytest.raises(ValueError, match=message):
        feddp.init_run(axes, made, **arguments)


def test_pictures_need_the_truth() -> None:
    photo = paper_data.make_image_federation(rng=np.random.default_rng(0))
    _, axes = plt.subplots(1, 3)
    with pytest.raises(ValueError, match="true_centers"):
        feddp.init_run(axes, photo, epsilon=1.0, shares=SHARES, seed=1)


def test_callback_draws_with_the_same_function(
    made: paper_data.FederatedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(feddp, "init_run", lambda axes, data, **options: calls.append(options))
    feddp.init_run_callback(made, seed=5)(2.0, 0.1, 0.2, 0.3, 0.4)
    assert len(calls) == 1
    clients = calls[0].pop("clients")
    assert calls == [{"epsilon": 2.0, "shares": (0.1, 0.2, 0.3, 0.4), "seed": 5}]
    assert np.linalg.norm(clients.points, axis=1).max() <= made.radius


def test_callback_answers_within_a_second_on_the_notebooks_data() -> None:
    small = paper_data.make_server_mixture(rows_per_client=200, rng=np.random.default_rng(5))
    redraw = feddp.init_run_callback(small, seed=1)
    redraw(1.0, *SHARES)  # the first figure also loads fonts
    seconds = []
    for epsilon in (0.4, 0.8, 1.6):
        begin = time.process_time()
        redraw(epsilon, *SHARES)
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 1.0  # processor time: other programs do not count


def test_sliders(made: paper_data.FederatedDataset) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    function = feddp.explore_init(made, seed=1)
    sliders = function.widget.children[:5]
    assert [s.description for s in sliders] == ["epsilon", "outer", "weights", "sums", "counts"]
    assert tuple(s.value for s in sliders) == (1.0, *SHARES)
    assert not any(s.continuous_update for s in sliders)
