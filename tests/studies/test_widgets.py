"""Widgets: same seed, same picture; honest titles; wrong settings are refused; quick answers.

What the controls call is `bench.widgets.redraw` of the function that drew the still picture. A
real browser moves them in tests/browser.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import SEED, read_only, refuses
from numpy.typing import NDArray

from fedclust_helpers import datasets, metrics
from fedclust_helpers.feddp_kmeans import split_epsilon
from fedclust_helpers.federation import ClientData
from fedclust_helpers.ldp_kmeans import detection_threshold
from studies import paper_data
from studies.bench import plots
from studies.fastlloyd import widget as fastlloyd
from studies.feddp_kmeans import widget as feddp
from studies.feddp_kmeans.problems import cut_rows
from studies.ldp_kmeans import widget as ldp
from studies.rr_cluster import widget as rr
from studies.side_by_side import widget as side
from studies.start import widget as start

pytestmark = pytest.mark.slow

SHARES = feddp.SHARES
SHORT = {"cohort": 24, "n_rounds": 6}


class Case(NamedTuple):
    """A widget: what draws, on which data, its settings, wrong ones, and its controls."""

    run: Callable[..., Any]
    explore: Callable[..., Any]
    data: tuple[Any, ...]
    settings: dict[str, Any]
    wrong: dict[str, tuple[Any, ...]]  # name -> wrong values; the message says the name
    fixed: dict[str, Any]  # for `explore`
    controls: dict[str, Any]  # description -> first value
    moved: dict[str, Any]  # other values of the controls
    n_panels: int = 1
    released: int = -1  # position of the centres among what is drawn


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def clients() -> ClientData:
    rng = np.random.default_rng(SEED)
    true = np.array([[-0.6, -0.5], [0.6, -0.4], [0.0, 0.6]])
    points = true[np.repeat(np.arange(3), 100)] + rng.normal(scale=0.08, size=(300, 2))
    points = rng.permutation(points).clip(-1, 1)
    return ClientData.from_clients([points[:150], points[150:]])


HOSPITALS = clients()
MADE = paper_data.make_server_mixture(
    n_clients=20, rows_per_client=500, n_features=20, n_clusters=5, side=2.0,
    server_per_cluster=10, n_uniform=20, rng=np.random.default_rng(3),
)  # fmt: skip
POINTS = read_only(datasets.make_ball_mixture(60_000, 2, 5, rng=np.random.default_rng(3)).points)
DIGITS = paper_data.make_rotated_digits(
    80, n_train=15, n_test=5, reuse=True, rng=np.random.default_rng(3)
)
CHOICES = {"sizes": (0, 5), "epsilons": (math.inf, 30.0)}

CASES = {
    "start": Case(
        start.private_clusters, start.explore, (HOSPITALS,),
        {"epsilon": 1.0, "n_clusters": 3, "seed": 1},
        {"epsilon": (0.0,), "n_clusters": (0,), "seed": (-1,)},
        {"seed": 1}, {"epsilon": 1.0, "k": 4}, {"epsilon": 0.5, "k": 8}, released=1,
    ),
    "fastlloyd": Case(
        fastlloyd.private_run, fastlloyd.explore, (HOSPITALS.points,),
        {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.8, "n_clusters": 3, "strategy": "step",
         "seed": 1},
        {"epsilon": (0.0,), "alpha": (-1.0,), "n_clusters": (0,), "seed": (-1,),
         "strategy": ("other",)},
        {"seed": 1, "n_clusters": 5, "epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "alpha": 0.2, "k": 5, "strategy": "constant"},
        {"epsilon": 0.5, "alpha": 0.6, "k": 10, "strategy": "step"},
    ),
    "feddp": Case(
        feddp.init_run, feddp.explore, (MADE,), {"epsilon": 1.0, "shares": SHARES, "seed": 1},
        {"epsilon": (0.0,), "shares": ((0.5, 0.5, 0.0, 0.1), (0.5, 0.5)), "seed": (-1,)},
        {"epsilon": 1.0, "seed": 1},
        {"epsilon": 1.0, "outer": 0.2, "weights": 0.2, "sums": 0.45, "counts": 0.15},
        {"epsilon": 0.4, "outer": 0.1, "weights": 0.2, "sums": 0.3, "counts": 0.4}, 3, 1,
    ),
    "ldp": Case(
        ldp.local_run, ldp.explore, (POINTS,),
        {"n": 60_000, "epsilon": 2.0, "depth": 3, "n_clusters": 5, "seed": 1},
        {"n": (60_001, 0), "epsilon": (0.0,), "depth": (7, 0), "seed": (-1,)},
        {"n_clusters": 5, "seed": 1}, {"users n": 60_000.0, "epsilon": 1.0, "depth": 3},
        {"n": 1e9, "epsilon": 1.0, "depth": 4},
    ),
    "rr": Case(
        rr.rebalancing_run, rr.explore, (DIGITS,),
        {"min_size": 5, "epsilon": 30.0, "identifiers": "exact", "seed": 1, **SHORT},
        {"seed": (-1,), "min_size": (7,)},
        {"seed": 1, **CHOICES, **SHORT}, {"B": 2, "epsilon": 30.0, "identifiers": "corrected"},
        {"B": 4, "epsilon": 30.0, "identifiers": "exact"}, 2,
    ),
    "side": Case(
        side.dials, side.explore, (), {"n": 3000, "d": 2, "k": 5, "epsilon": 1.0, "seed": 1},
        {"n": (99, 100_001), "epsilon": (0.0,), "seed": (-1,)},
        {"epsilon": 1.0, "seed": 1}, {"records n": 1e4, "d": 2, "k": 5, "epsilon": 1.0},
        {"n": 3e4, "d": 4, "k": 8, "epsilon": 2.0},
    ),
}  # fmt: skip


def draw(name: str, *data: Any, **changed: Any) -> list[Any]:
    """Run a widget's function on new axes, with some settings changed; its panels."""
    case = CASES[name]
    axes = plt.subplots(1, case.n_panels)[1]
    assert case.run(axes, *(data or case.data), **(case.settings | changed)) is axes
    return plots.panels(axes)


def released(name: str, panels: list[Any]) -> NDArray[np.float64]:
    """The centres that are drawn; of RR-Cluster the accuracy, side by side the last cost."""
    if name == "rr":
        found = re.findall(r"accuracy ([\d.]+)", panels[0].figure.get_suptitle())
        return np.asarray(found, dtype=float)
    if name == "side":
        return np.asarray(panels[-1].get_lines()[-1].get_xydata())
    return np.asarray(panels[-1].collections[CASES[name].released].get_offsets())


def title(ax: Any) -> str:
    return ax.get_title() or ax.get_title(loc="left")


def number(ax: Any) -> float:
    """The first number of a panel's title after its own number."""
    return float(re.findall(r"[\d.]+", title(ax))[1])


@pytest.mark.parametrize("name", CASES)
def test_same_seed_same_picture(name: str) -> None:
    first, second, other = draw(name), draw(name), draw(name, seed=2)
    assert np.array_equal(released(name, first), released(name, second))
    assert not np.array_equal(released(name, first), released(name, other))


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [(n, a, v) for n, case in CASES.items() for a, values in case.wrong.items() for v in values],
)
def test_wrong_settings_are_refused_by_name(name: str, argument: str, value: Any) -> None:
    refuses(ValueError, argument, draw, name, **{argument: value})


@pytest.mark.parametrize("name", CASES)
def test_controls_start_as_said_and_redraw_on_a_figure_of_their_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.get_fignums())))
    case = CASES[name]
    callback = case.explore(*case.data, **case.fixed)
    controls = callback.widget.children[: len(case.controls)]
    assert {c.description: c.value for c in controls} == pytest.approx(case.controls)
    assert not any(c.continuous_update for c in controls if hasattr(c, "min"))
    for _ in range(2):
        callback(**case.moved)
    assert shown[-2:] == [len(plt.get_fignums()) - 1, len(plt.get_fignums())]
    again = callback.widget.children[-2]
    assert again.description == "another draw"
    found = []
    for _ in range(3):  # with another draw, at the settings of the controls
        again.click()
        found.append(released(name, plots.panels(plt.gcf().axes)).tolist())
    assert len({str(one) for one in found}) > 1


# --- each picture says what was run ---------------------------------------------------------------


def test_start_moves_released_centres_only() -> None:
    (low,), (high,) = draw("start", epsilon=0.2), draw("start", epsilon=10.0)
    reference = [np.asarray(ax.collections[2].get_offsets()) for ax in (low, high)]
    assert np.array_equal(*reference)
    error = [np.linalg.norm(released("start", [ax]) - reference[0]) for ax in (low, high)]
    assert error[1] < error[0]  # seeded: same noise draws, 50 times smaller
    for k in (1, 3, 8):
        centers = released("start", draw("start", epsilon=0.5, n_clusters=k))
        assert centers.shape == (k, 2) and np.abs(centers).max() <= 1


def test_title_of_fastlloyd_holds_the_cost_of_what_is_drawn() -> None:
    (ax,) = draw("fastlloyd", reference=0.0123)
    cost = metrics.nicv(HOSPITALS.points, released("fastlloyd", [ax]))
    assert title(ax).endswith(f": {cost / 0.0123:.2f} times the best cost")
    # three groups of standard deviation 0.08 in two columns: cost about 2 * 0.08^2
    best = fastlloyd.reference_cost(HOSPITALS.points, 3, seed=1)
    assert best == pytest.approx(2 * 0.08**2, rel=0.2)


def kept(ax: Any) -> int:
    return int(re.search(r"keeps (\d+)%", title(ax))[1])  # type: ignore[index]


def test_feddp_more_budget_means_better_centres_and_shares_are_scaled() -> None:
    low, high, base = draw("feddp", epsilon=0.1), draw("feddp", epsilon=10.0), draw("feddp")
    assert number(high[2]) < number(low[2])  # cost; seeded, 100 times the budget
    assert kept(high[0]) > kept(low[0])  # energy of the subspace
    twice = draw("feddp", shares=[2 * share for share in SHARES])
    assert np.allclose(released("feddp", base), released("feddp", twice))
    starved = draw("feddp", shares=(0.001, *SHARES[1:]))
    assert kept(starved[0]) < kept(base[0])
    total = split_epsilon(1.0, proportions=SHARES).total()
    assert f"ε = {total:.2f}" in base[0].figure.get_suptitle() and total < 1
    small = cut_rows(MADE).points
    assert np.linalg.norm(small, axis=1).max() <= MADE.radius


def cells(ax: Any) -> int:
    return int(re.search(r"(\d+) cells", title(ax))[1])  # type: ignore[index]


def test_ldp_more_users_and_more_epsilon_show_more_cells() -> None:
    (many,), (few,), (shy,) = draw("ldp"), draw("ldp", n=6000), draw("ldp", epsilon=0.3)
    assert cells(many) > max(cells(few), cells(shy))  # seeded; sixteen cells hold more than 2 %
    share = detection_threshold(60_000, 2.0, 2) / 60_000
    assert f"a cell needs {share:.1%} of them" in title(many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing to see is said, not warned
        (blind,) = draw("ldp", n=50, epsilon=0.1)
    assert "no cell can be seen" in title(blind) and cells(blind) == 0
    assert [ldp.levels_of(depth) for depth in (1, 2, 4)] == [(1,), (1, 2), (3, 4)]


def test_rr_noised_identifiers_are_flipped_and_rebalancing_fills_up_to_b() -> None:
    noised, exact = draw("rr", identifiers="corrected"), draw("rr")
    assert noised[0].get_lines()[1].get_ydata()[0] > 0.2
    assert exact[0].get_lines()[1].get_ydata()[0] == 0
    assert "no ε" in exact[0].figure.get_suptitle()
    assert "ε = 30" in noised[0].figure.get_suptitle()
    used = [bar.get_height() for bar in draw("rr", epsilon=math.inf)[1].patches][4:]
    assert min(used) >= 5 and sum(used) == pytest.approx(24)
    off = draw("rr", min_size=0, epsilon=math.inf)
    chosen, used = np.split(np.array([bar.get_height() for bar in off[1].patches]), 2)
    assert np.allclose(chosen, used)
    assert "0 clients moved" in off[0].figure.get_suptitle()
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed (extra: notebooks)")
    b, epsilon, identifiers = rr.explore(DIGITS, seed=1, **CHOICES, **SHORT).widget.children[:3]
    assert b.max == 5 and [label for label, _ in epsilon.options] == ["30", "inf"]
    assert [value for _, value in identifiers.options] == ["corrected", "exact"]
