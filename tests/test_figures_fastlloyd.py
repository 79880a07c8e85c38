"""Figures of notebook 01: every function draws without error and returns what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedclust_helpers.studies.bench import style as figures
from fedclust_helpers.studies.fastlloyd import figures as draw

RNG = np.random.default_rng(0)
X = np.array([0.1, 0.5, 1.0, 2.0])
Y = {"one": X + 1, "two": 2 * X + 1, "three": X**2 + 1}
LOSS = np.stack([np.outer(1 + X, [0.5, 1, 3]), np.outer(2 + X, [0.5, 1, 3])], axis=1)


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with plt.style.context("default"):
        figures.use_style()
        yield
    plt.close("all")


def grid(rows: int, columns: int) -> NDArray[Any]:
    size = (3.0 * columns, 3.0 * rows)
    return np.asarray(plt.subplots(rows, columns, squeeze=False, figsize=size)[1])


ONE_PANEL: dict[str, Callable[[Axes], Axes]] = {
    "reconstruction": lambda ax: draw.plot_reconstruction(
        ax, RNG.uniform(-1, 1, (20, 2)), [0.1, -0.9], [0.1, -0.9], RNG.normal(0, 20, (30, 2))
    ),
    "roc": lambda ax: draw.plot_roc(
        ax, {"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 0.5, 1], [0, 0.6, 1])}, mu=0.5
    ),
    "error": lambda ax: draw.plot_error_over_epsilon(ax, X, Y, Y),
    "changes": lambda ax: draw.plot_changes(
        ax, {n: RNG.uniform(0, 9, 50) for n in "abc"}, {"η": 1, "2η": 2}
    ),
    "hockey stick": lambda ax: draw.plot_hockey_stick(ax, X, Y, {n: (X, v) for n, v in Y.items()}),
    "claim ratio": lambda ax: draw.plot_claim_ratio(ax, X, Y, dict.fromkeys(Y, 1.5)),
    "split": lambda ax: draw.plot_split(ax, X, Y, dict.fromkeys(Y, 1.0)),
    "run": lambda ax: draw.plot_run(
        ax, RNG.uniform(-1, 1, (20, 2)), RNG.uniform(-1, 1, (3, 4, 2)), radius=0.3
    ),
    "audit": lambda ax: draw.plot_audit(ax, ["a", "b", "c", "d"], Y),
}


@pytest.mark.parametrize("name", ONE_PANEL)
def test_one_panel(name: str) -> None:
    _, ax = plt.subplots()
    assert ONE_PANEL[name](ax) is ax
    assert ax.has_data()
    assert ax.get_xlabel() and ax.get_ylabel() or name == "audit"
    ax.figure.canvas.draw()


SEVERAL: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "hospitals": (
        2,
        lambda axes: draw.plot_hospitals(
            axes, [RNG.uniform(-1, 1, (9, 2))] * 2, [np.zeros((2, 2))] * 2, np.ones((2, 2))
        ),
    ),
    "error slips": (3, lambda axes: draw.plot_error_slips(axes, X, X, X, X, X, 1 + X, X)),
    "radius": (
        2,
        lambda axes: draw.plot_radius(axes, X, {n: v / 10 for n, v in Y.items()}, Y, 1.0),
    ),
    "fold": (2, lambda axes: draw.plot_fold(axes, X, {"a": X, "b": X}, X, Y)),
    "masked": (
        2,
        lambda axes: draw.plot_masked(
            axes, [{n: RNG.integers(0, 2**32, 99) for n in "abc"}] * 2, ["t", "u"], 32
        ),
    ),
    "attacks": (3, lambda axes: draw.plot_attacks(axes, (X, X), (X, X, X), (X, X))),
    "rounding": (2, lambda axes: draw.plot_rounding(axes, X, Y, X, Y, (0.1, 1e-5))),
    "breaks": (3, lambda axes: draw.plot_breaks(axes, (X, LOSS), (X, LOSS), (X, X / 9))),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_panels(name: str) -> None:
    n_panels, call = SEVERAL[name]
    axes = grid(1, n_panels)[0]
    assert call(axes) is axes
    assert all(ax.has_data() for ax in axes)
    draw.headline(axes[0].figure, "a claim")
    axes[0].figure.canvas.draw()


def test_breaks_tell_the_cost_of_privacy_from_that_of_the_start() -> None:
    axes = grid(1, 3)[0]
    draw.plot_breaks(axes, (X, LOSS), (X, 2 * LOSS), (X, X / 9))
    for ax, scale in zip(axes, (1, 2), strict=False):
        drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        assert np.allclose(drawn["privacy"], scale * (1 + X))  # medians of the three data sets
        assert np.allclose(drawn["start"], scale * (2 + X))
        low, high = ax.get_ylim()
        bands = np.quantile(scale * LOSS, [0.1, 0.9], axis=2)
        assert low < bands[0].min() and bands[1].max() < high


def _cells(**columns: Any) -> pd.DataFrame:
    rows = [
        {"dataset": data, "method": method, "epsilon": epsilon, "ci95": 0.1} | columns
        for data in ("iris", "s1", "wine")
        for method in ("lloyd", "sulloyd", "glloyd", "fastlloyd", "sulloyd_fold", "glloyd_fold")
        for epsilon in ((np.inf,) if method == "lloyd" else (0.1, 1.0))
    ]
    return pd.DataFrame(rows)


def test_nicv_hides_the_panels_that_it_does_not_need() -> None:
    axes = grid(2, 2)
    table = _cells(nicv_mean=0.5, nicv_median=0.4, n=150, d=4, k=3)
    assert draw.plot_nicv(axes, table) is axes
    assert [ax.get_visible() for ax in axes.ravel()] == [True] * 3 + [False]
    axes[0, 0].figure.canvas.draw()


def test_metrics_fill_missing_data_sets_with_others() -> None:
    table = pd.concat([_cells(metric=m, median=0.5) for m in draw.METRICS])
    axes = grid(3, 2)
    assert draw.plot_metrics(axes, table, ("s1", "mnist")) is axes
    assert [ax.get_title(loc="left") for ax in axes[0]] == ["s1", "iris"]
    axes[0, 0].figure.canvas.draw()


def test_scaling_and_ablation() -> None:
    rows = [
        {"figure": f, "k": k, "d": d, "method": m, "relative_to_sulloyd_median": 0.5}
        for f in ("3a", "3b", "4")
        for k in (2, 4)
        for d in (2, 8)
        for m in ("lloyd", "glloyd", "fastlloyd")
    ]
    axes = grid(1, 4)[0]
    assert draw.plot_scaling(axes[:3], pd.DataFrame(rows)) is not None
    options = [
        {"method": "fastlloyd", "postprocess": p, "strategy": s, "clip_step": True}
        | {"alpha": a, "normalised": a}
        for p in ("fold", "truncate", "none")
        for s in ("step", "constant")
        for a in (0.4, 0.8)
    ]
    assert draw.plot_ablation(axes[3], pd.DataFrame(options)) is axes[3]
    axes[0].figure.canvas.draw()
