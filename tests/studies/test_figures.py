"""Every figure draws what the data say on the axes it was given, and leaves its inputs alone.

`FIGURES` has one row a figure: what it is given, and a fact that can be read off what it drew.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only, refuses
from ldp_cases import four_rounds, one_round
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers import datasets
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gdp_delta, gdp_epsilon
from fedclust_helpers.audit import audit_canary
from fedclust_helpers.feddp_kmeans import STARTS, InitResult
from fedclust_helpers.federation import Federation, simulate
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.metrics import nicv
from fedclust_helpers.program import Run
from fedclust_helpers.rr_cluster import accounting
from studies import paper_data
from studies.bench import plots, style
from studies.fastlloyd import figures as fl
from studies.feddp_kmeans import figures as feddp
from studies.feddp_kmeans import lesson
from studies.feddp_kmeans.bounds import subspace_energy
from studies.ldp_kmeans import figures as ldp
from studies.ldp_kmeans import lesson as ldp_lesson
from studies.rr_cluster import figures as rr
from studies.start import figures as start

pytestmark = pytest.mark.slow

MODULES = (start, fl, feddp, ldp, rr)
RNG = np.random.default_rng(0)
TWICE = np.array([[0.2, 0.4], [0.9, 0.9]])  # two positions, two repetitions: means 0.3, 0.9
LOOKS = {"a": style.Look("A", style.BLUE, "s--")}


@pytest.fixture(autouse=True)
def style_and_close() -> Iterator[None]:
    with plt.rc_context():
        style.use_style()
        yield
    plt.close("all")


def frozen(value: Any) -> Any:
    """The same with read-only arrays."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, Mapping):
        return {key: frozen(part) for key, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(frozen(part) for part in value)
    return value


def draw(function: Callable[..., Any], *args: Any, grid: Any = (), **options: Any) -> Any:
    """Call on new axes (one, or a grid of this shape) with read-only inputs; render; the axes."""
    shape = (1, grid) if isinstance(grid, int) else grid or (1, 1)
    size = (4.0 * shape[1], 4.0 * shape[0])
    axes: Any = plt.subplots(*shape, figsize=size, squeeze=False)[1]
    axes = axes[0] if isinstance(grid, int) else axes if grid else axes[0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(axes, *frozen(args), **frozen(options)) is axes
        plots.panels(axes)[0].figure.canvas.draw()
    return axes


def title(ax: Axes) -> str:
    return " ".join((ax.get_title() or ax.get_title(loc="left")).split())


def titles(axes: Any) -> list[str]:
    return [title(ax) for ax in plots.panels(axes)]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax: Axes, which: str | int) -> NDArray[np.float64]:
    """Points (m, 2) of the line with this label, or number."""
    lines = ax.get_lines()
    if isinstance(which, str):
        lines, which = [one for one in lines if one.get_label() == which], 0
    return np.asarray(lines[which].get_xydata(), dtype=np.float64)


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.patches]


def verticals(ax: Axes) -> set[float]:
    return {float(np.asarray(one.get_xdata())[0]) for one in ax.get_lines()}


def squares(ax: Axes) -> list[int]:
    """Number of squares in each collection of them."""
    return [len(c.get_paths()) for c in ax.collections if isinstance(c, PatchCollection)]


def offsets(ax: Axes, which: int = -1) -> NDArray[np.float64]:
    return np.asarray(ax.collections[which].get_offsets(), dtype=np.float64)


def test_every_figure_is_drawn_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for module in MODULES:
        for name, _ in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("plot_"):
                assert f".{name}," in source, f"{module.__name__}.{name} has no test"


# --- the data of the rows -------------------------------------------------------------------------


@cache
def points() -> NDArray[np.float64]:
    return datasets.make_ball_mixture(40_000, 2, 3, rng=np.random.default_rng(3)).points


@cache
def one() -> Run:
    rng = np.random.default_rng(0)
    return one_round(simulate(points(), "local", seed=1), n_clusters=3, epsilon=4.0, rng=rng)


@cache
def four() -> tuple[Federation, Run]:
    users = simulate(points(), "local", seed=1, keep_payloads=True)
    rng = np.random.default_rng(0)
    return users, four_rounds(users, n_clusters=3, epsilon=4.0, rng=rng, lsh=True, t=2)


@cache
def made() -> paper_data.FederatedDataset:
    return paper_data.make_server_mixture(
        n_clients=5, rows_per_client=60, n_features=6, n_clusters=4, server_per_cluster=5,
        n_uniform=8, rng=np.random.default_rng(0),
    )  # fmt: skip


def truth() -> NDArray[np.float64]:
    means = made().true_centers
    assert means is not None
    return means


def excess() -> float:
    return kmeans_cost(made().points, truth(), normalize=True) - 3.0


def started() -> InitResult:
    return InitResult(
        eigenvalues=np.array([5e4, 2e4, -1.0, -2.0]), basis=np.eye(6)[:, :4],
        server_projected=np.zeros((28, 4)), weights=np.ones(28), kept=np.ones(28),
        projected_centers=np.zeros((4, 4)), sums=np.zeros((4, 6)), counts=np.ones(4),
        centers=truth(),
    )  # fmt: skip


def ldp_table() -> pd.DataFrame:
    rows = [
        (data, algorithm, n, d, k, eps, 0.1 * d / eps if data == "mixture" else 9.0, 0.05)
        for data in ("mixture", "birch2")
        for algorithm in ("alg1", "alg1_hso", "alg4", "private_mean", "ldp_lloyd")
        for n in (10**4, 10**5) for d in (2, 10) for k in (3, 5) for eps in (1.0, 4.0)
        if (algorithm, d) != ("alg1", 10)
    ]  # fmt: skip
    columns = "data algorithm n dprime k epsilon cost_per_point nonprivate_cost"
    return pd.DataFrame(rows, columns=columns.split())


def wins() -> pd.DataFrame:
    found = "better in 3, worse in 1, tie in 4 of 8 cells"
    rows = [
        ("L.a", "Fig. 2", "FastLloyd beats GLloyd in all cases", found),
        ("L.c", "Fig. 5", "Step beats Constant", found),
        ("L.d", "Table 3", "FastLloyd sends few bytes", "equal in 9 rows"),
    ]
    return pd.DataFrame(rows, columns=["id", "where", "statement", "found"]).set_index("id")


def audited() -> tuple[Any, ...]:
    same = np.random.default_rng(0).standard_normal(500)
    scores = {"fine": (same, same + 0.1), "bad": (same, same + 3)}
    claims = {"delta": 1e-6, "claimed_mu": 0.24, "claimed_epsilon": 1.0}
    return scores, 0.24, [audit_canary(*pair, **claims) for pair in scores.values()]


MIX = np.repeat([[-0.6, -0.5], [0.6, -0.4], [0.0, 0.6]], 20, axis=0)
TRUE, MOVED = MIX[::20], MIX[::20] + 0.05
EXACT = np.array([3.0, 5.0, 4.0])
VIEWS = {"trusted": EXACT[:, None], "ideal": np.array([12.4]), "local": EXACT[:, None] + 0.5,
         "masked": np.array([[2**63], [5], [2**64 - 1]], dtype=np.uint64)}  # fmt: skip
MEMBER = np.arange(600) % 2 == 0
ANSWERS = {"point": 950 + 50 * MEMBER + RNG.laplace(0, 1, 600),
           "client": 950 + 50 * MEMBER + RNG.laplace(0, 50, 600)}  # fmt: skip
HISTORY, ROWS = RNG.uniform(-1, 1, (3, 4, 2)), RNG.uniform(-1, 1, (20, 2))
LOSS = {2: [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], 8: [[2.0, 6.0], [2.0, 6.0], [2.0, 6.0]]}
INDEX = pd.MultiIndex.from_tuples(
    [("client", 1000, 1.0), ("client", 2000, 1.0), ("point", 100, 1.0)],
    names=["level", "clients", "eps_total"],
)
SPECTRUM = RNG.normal(0, 1000, 4096)
SPECTRUM[[5, 9]] = [9000, 12_000]
PARTS = {"split the budget": [1, 20, 80], "split the users": [1, 6, 13], "mixed": [1, 6, 13]}
COUNTS = np.array([[20.0, 5.0], [22.0, 1.0], [12.0, 11.0]])
RUNS = pd.DataFrame([("ifca", 2.0, 0.3), ("ifca", 2.0, 0.5), ("fedavg", 2.0, 0.6)],
                    columns=["method", "epsilon", "accuracy"])  # fmt: skip
BIAS = pd.DataFrame([("inserted", 20, 0.3, 0.2), ("trained", 20, -0.001, 0.4)],
                    columns=["reference", "B", "bias2", "variance"])  # fmt: skip
LOW = pd.DataFrame(
    [(method, who, e, d, e / 4 + 0.1 * (who == "everyone"), 0.01) for d in (1e-3, 1e-5)
     for e in (0.5, 1.0) for method, who in rr.LOW],
    columns=["method", "who", "epsilon", "delta", "acc_mean", "ci95"],
)  # fmt: skip
SAME = RNG.standard_normal(500)


def area(ax: Axes) -> float:
    x, y = np.asarray(ax.collections[-1].get_paths()[0].vertices).T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


class Row(NamedTuple):
    """A figure, what it is given, what can be read off it, and what that must be."""

    plot: Callable[..., Any]
    given: Callable[[], tuple[Any, ...]]
    read: Callable[[Any], Any]
    expected: Any
    options: dict[str, Any] = {}


def fixed(*given: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: given


FIGURES: dict[str, Row] = {
    # the marks
    "means": Row(plots.curves, fixed([1, 2], {"a": TWICE}, LOOKS),
                 lambda ax: line(ax, "A"), [[1, 0.3], [2, 0.9]]),
    "ranges": Row(plots.curves, fixed([1, 2], {"a": TWICE}, LOOKS),
                  lambda ax: ax.collections[0].get_paths()[0].vertices[:, 1].max(), 0.9),
    "errors": Row(plots.curves, fixed([1, 2], {"a": [3, 4]}, LOOKS),
                  lambda ax: [s[:, 1] for s in ax.collections[0].get_segments()],
                  [[2, 4], [2, 6]], {"errors": {"a": [1, 2]}, "interval": "bars"}),
    "quantiles": Row(plots.curves, fixed([1, 2], {"a": TWICE}, LOOKS),
                     lambda ax: line(ax, "A")[:, 1], [0.4, 0.9], {"quantiles": (0, 1, 1)}),
    "repetitions": Row(plots.curves, fixed([1, 2], {"a": TWICE}, LOOKS),
                       lambda ax: [np.ravel(one.get_ydata()) for one in ax.get_lines()], TWICE.T,
                       {"interval": "marks"}),
    "sorted": Row(plots.curves, lambda: (None, plots.by(pd.DataFrame(
        {"m": ["a", "a"], "x": [2, 1], "y": [7.0, 0.0]}), "m", "x", "y"), LOOKS),
        lambda ax: line(ax, 0), [[1, 0.5], [2, 7]], {"floor": 0.5}),
    "finish": Row(plots.finish, fixed("claim", "x", "y"),
                  lambda ax: (title(ax), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()),
                  ("claim", "y (log)", "linear", "log"),
                  {"log": "y", "xticks": [1, 3], "yticks": [0.5, 20]}),
    # notebook 00
    **{f"trust model {model}": Row(
        start.plot_trust_model, fixed(model),
        lambda ax: ({"12", "7", "9"} <= set(texts(ax)),
                    {t.partition(": ")[0] for t in texts(ax) if ": " in t}
                    >= {"noise from", "other clients see", "server sees"}),
        (model in ("trusted", "ideal"), True))
       for model in ("trusted", "ideal", "masked", "local")},
    "trust models": Row(start.plot_trust_models, fixed(), lambda axes: len(set(titles(axes))), 4,
                        {"grid": 4}),
    "server views": Row(start.plot_server_views, fixed(VIEWS, EXACT),
                        lambda axes: [h for ax in axes for h in heights(ax)],
                        [3, 5, 4, 12.4, 0.5, 0, 1, 3.5, 5.5, 4.5], {"grid": 4}),
    "two worlds": Row(start.plot_two_worlds, fixed(SAME, SAME + 1, np.arange(-4, 6)), texts,
                      ["without Bob", "with Bob"], {"who": "Bob"}),
    "units": Row(start.plot_units, fixed(ANSWERS, MEMBER), titles,
                 [f"Noise for one {who}: clinic 3 {what}" for who, what in (
                     ("point", "shows"), ("client", "is hidden"))],
                 {"who": "clinic 3", "grid": 2}),
    "log ratio": Row(start.plot_log_ratio,
                     fixed(np.arange(4.0), np.array([-0.9, 0.1, 1.1]), [0.1] * 3, 1.5,
                           np.array([-1.0, 0.0, 1.0])),
                     lambda ax: [*ax.patches[0].get_data().values, *line(ax, -1)[:, 1]],
                     [-1, 0, 1, -0.9, 0.1, 1.1]),
    "attack": Row(start.plot_attack, fixed([0.1, 1.0, 4.0], [0.52, 0.7, 0.93]),
                  lambda ax: [line(ax, "_ceiling")[-1, 1], line(ax, "_laplace")[-1, 1]],
                  [1 / (1 + np.exp(-4)), 1 - np.exp(-2) / 2]),
    "success": Row(start.plot_success, fixed([1, 4], [0.55, 0.6], "answers T", [0.54, 0.61]),
                   lambda ax: [line(ax, i)[-1] for i in (1, 2)], [[4.0, 0.61], [4.0, 0.6]]),
    "delta": Row(start.plot_delta, fixed(1.0, 1.0), lambda ax: area(ax) / gdp_delta(1.0, 1.0),
                 pytest.approx(1, rel=0.02)),  # polygon of a smooth curve
    "delta curves": Row(start.plot_delta_curves, fixed((0.25, 2.0)),
                        lambda ax: [gdp_epsilon(mu, line(ax, name)[20, 1]) / line(ax, name)[20, 0]
                                    for name, mu in (("_0.25", 0.25), ("_2", 2.0))], [1, 1]),
    "step": Row(start.plot_step, fixed(MIX, TRUE, TRUE, MOVED),
                lambda ax: "exact means (crosses) by 0.07 to 0.07" in title(ax), True),
    "private clusters": Row(
        start.plot_private_clusters, fixed(MIX, MOVED, TRUE), lambda ax: title(ax),
        f"ε = 2: NICV {nicv(MIX, MOVED):.4f} without noise: {nicv(MIX, TRUE):.4f}",
        {"epsilon": 2.0, "start": TRUE}),
    # notebook 01
    "reconstruction": Row(fl.plot_reconstruction,
                          fixed(ROWS, [0.1, -0.9], [0.1, -0.9], RNG.normal(0, 20, (30, 2))),
                          lambda ax: bool(ax.get_xlabel()), True),
    "table": Row(fl.plot_table,
                 fixed(pd.DataFrame(20 + 10 * ROWS, columns=["radius", "size"]), [[10.0, 10.0]],
                       [[11.0, 12.0]]), lambda ax: "radius" in ax.get_xlabel(), True),
    "hospitals": Row(fl.plot_hospitals, fixed([ROWS] * 2, [np.zeros((2, 2))] * 2, np.ones((2, 2))),
                     lambda axes: all(ax.get_xlabel() for ax in axes), True, {"grid": 2}),
    "masked": Row(fl.plot_masked, fixed(
        [{n: RNG.integers(0, 2**32, 99) for n in "abc"}] * 2, ["t", "u"], 32),
        lambda axes: all(ax.has_data() for ax in axes), True, {"grid": 2}),
    "rounding": Row(fl.plot_rounding, fixed(
        lambda m, sd, rule: np.abs(m) + 1.0, lambda eps, sd, rule: 1 / (1 + eps), 9.0, (0.1, 1e-5)),
        lambda axes: all(ax.has_data() for ax in axes), True, {"grid": 2}),
    "roc": Row(fl.plot_roc, fixed({"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 1], [0, 1])}),
               lambda ax: np.ptp(line(ax, "most")[:, 1]
                                 - norm.cdf(norm.ppf(line(ax, "most")[:, 0]) + 0.5)), 0,
               {"mu": 0.5, "bound_label": "most"}),
    "run": Row(fl.plot_run, fixed(ROWS, HISTORY),
               lambda ax: np.abs(np.concatenate([
                   (offsets(ax) - HISTORY[-1]).ravel(), np.linalg.norm(  # circles
                       [line(ax, i) for i in range(4, 8)] - HISTORY[-1][:, None], axis=2
                   ).ravel() - 0.3])).max(),
               0, {"radius": 0.3}),
    "changes": Row(fl.plot_changes, fixed([[3.0, 1.0, 2.0], [5.0, 0.5, 1.5]]),
                   lambda ax: line(ax, "relative sum, one added"), [[0.5, 50], [1, 100]]),
    "breaks": Row(fl.plot_breaks, fixed(LOSS, LOSS),  # medians of three sets
                  lambda axes: [(line(ax, "privacy"), line(ax, "start")) for ax in axes],
                  [[[[2, 3], [8, 2]], [[2.14, 4], [8.56, 6]]]] * 2, {"grid": 2}),
    "wins": Row(fl.plot_wins, lambda: (wins(),),
                lambda ax: [line(ax, "better"), line(ax, "worse")],
                [[[37.5, 1], [37.5, 0]], [[12.5, 1], [12.5, 0]]]),
    # notebook 02
    "server data": Row(feddp.plot_server_data, lambda: (made(),),
                       lambda ax: [len(c.get_offsets()) for c in ax.collections], [300, 20, 8, 4]),
    "weights": Row(feddp.plot_weights,  # noise can make a weight negative
                   lambda: (made(), np.where(made().in_distribution, 9.0, -1.0)),
                   lambda axes: [re.findall(r"\d+%", ax.get_xlabel()) for ax in axes],
                   [["29%"], ["0%"]], {"grid": 2}),
    "init": Row(feddp.plot_init, lambda: (made(), started()), titles,
                lambda: [f"1 subspace keeps {subspace_energy(started().basis, truth()):.0%}",
                         "2 other kind weighs 29%", f"3 {excess():.2f} above the optimum"],
                {"noise": 1e4, "best": 3.0, "epsilon": 0.812, "grid": 3}),
    "rounds": Row(feddp.plot_rounds,
                  fixed([1, 2], {"oracle": 0 * TWICE, "server_lloyds": TWICE},
                        {"oracle": TWICE, "server_lloyds": 3 + TWICE}),
                  lambda axes: [line(ax, "ServerLloyds")[:, 1] for ax in axes],
                  [[0.3, 0.9], [3.3, 3.9]], {"grid": 2}),
    "subspace": Row(feddp.plot_subspace, fixed([0.1, 1], {"mirror": TWICE, "average": TWICE},
                                               {"mirror": 0.4, "average": 0.3}),
                    lambda ax: ({0.4, 0.3} <= verticals(ax), *line(ax, 0)[:, 1]), (True, 0.3, 0.9)),
    "audit": Row(feddp.plot_audit, audited,  # a lower bound is never rounded up
                 lambda axes: ("ALARM" in texts(axes[0])[0],
                               0 <= audited()[2][1].mu_lower_bound
                               - float(texts(axes[1])[0].split()[4]) < 0.01), (False, True),
                 {"grid": 2}),
    "floor": Row(feddp.plot_floor, fixed([4, 16], TWICE, [0.1, 0.1], [0.3, 0.8]),
                 lambda ax: [line(ax, name)[:, 1] for name in ("measured", "floor as printed")],
                 [[0.3, 0.9], [0.1, 0.1]]),
    "costs": Row(feddp.plot_costs, lambda: (pd.DataFrame(  # private runs only
        {"feddp": [np.nan, 0.5, 0.0, 9.0]}, index=[0.0, 0.5, 1.0, np.inf]), ["feddp"]),
        lambda ax: line(ax, "FedDP-KMeans"), [[0.5, 0.5], [1.0, 1e-4]]),
    "planning": Row(feddp.plot_planning, lambda: (
        pd.Series([14.0, 7.0, 0.6], INDEX), pd.DataFrame({"feddp": [1.2, 0.7, 0.01]}, INDEX)),
        lambda ax: [*line(ax, "FedDP-KMeans, one client"), *line(ax, "FedDP-KMeans, one point")],
        [[14.0, 1.2], [7.0, 0.7], [0.6, 0.01]]),
    "missing": Row(feddp.plot_missing, fixed([0, 5], {"feddp": TWICE}, 10),
                   lambda ax: line(ax, 0)[:, 1], [0.3, 0.9]),
    "limits of feddp": Row(feddp.plot_limits, fixed(([0.5, 1], TWICE), ([5000, 20000], TWICE)),
                           lambda axes: 1.0 in verticals(axes[0]), True, {"grid": 2}),
    # notebook 03
    "coin": Row(ldp.plot_coin, fixed(RNG.normal(40, 1, 200), RNG.normal(30, 2, 200), 30.0),
                verticals, {30.0}),
    "spectrum": Row(ldp.plot_spectrum, fixed(SPECTRUM, np.array([5, 9]), np.array([8500, 12_500])),
                    lambda ax: sorted({float(x) for one in ax.get_lines() for x in
                                       np.ravel(one.get_xdata()) if len(one.get_xdata()) == 2}),
                    [4, 8.5, 9, 12, 12.5],  # threshold, truth, estimates
                    {"std": 1000.0, "z": 4.0}),
    "splits": Row(ldp.plot_splits, fixed([1, 10, 40], {1.0: PARTS, 8.0: PARTS},
                                         {1.0: {"split the users": 6.1}, 8.0: {}}),
                  lambda axes: [len(ax.get_lines()) for ax in axes], [4, 3], {"grid": 2}),
    "noise audit": Row(ldp.plot_noise_audit,
                       fixed({"bad": (SAME, SAME + 3), "fine": (SAME, SAME + 0.1)},
                             {"bad": 2.5, "fine": 0.3}, 1.0),
                       lambda axes: [texts(ax)[0].splitlines()[1] for ax in axes],
                       ["ε is at least 2.50", "no alarm"], {"grid": 2}),
    "corners": Row(ldp.plot_corners, lambda: (
        points(), 3, {"corner": {1: 0.5, 2: 0.3}, "center": {1: 0.2, 2: 0.1}}),
        lambda axes: line(axes[1], "corners")[:, 1], [0.5, 0.3], {"best": 0.05, "grid": 2}),
    "shells": Row(ldp.plot_shells, fixed((0.1, 0.0), np.array([0.5, 0.25])), squares,
                  lambda: [len(ldp.cells_of_shell(r, r / np.sqrt(2), (0.1, 0.0)))
                           for r in (0.5, 0.25)]),
    "run of ldp": Row(ldp.plot_run, lambda: (points(), one(), one().centers),
                      lambda ax: (squares(ax), offsets(ax).tolist()),
                      lambda: ([int((one().chosen.depth == level.depth).sum())  # type: ignore
                                for level in one().levels], one().centers.tolist())),
    "lights": Row(ldp.plot_lights, lambda: (
        points(), {10_000: one(), 100_000: one()}, {10_000: 0.25, 100_000: 0.125}, one().centers),
        lambda axes: [title(axes[0]), axes[1].get_xlabel()],
        lambda: [f"n = 10,000: {len(one().weights)} cells", "cost 0.1250"], {"grid": 2}),
    "lsh": Row(ldp.plot_lsh, fixed(),  # a name is written where its line leaves the axes
               lambda axes: [*(line(axes[0], -1)[0] - offsets(axes[0], 1).mean(axis=0)),
                             *(t.xy[0] for t in axes[1].texts if t.get_text().startswith("u ="))],
               [0, 0, 64, 64, 64, 32, 8], {"rng": np.random.default_rng(1), "grid": 2}),
    "methods": Row(ldp.plot_methods, fixed({
        "one round": {1000: [0.4, 0.2], 100: [0.5, 0.7]},
        "one private mean": {1000: [0.8, 0.8], 100: [0.8, 0.8]}}),
        lambda ax: {"0.300", "0.600", "0.800", "non-private"} <= set(texts(ax)), True,
        {"best": 0.02, "single": 0.5}),
    "trust": Row(ldp.plot_trust, fixed([1000, 10_000], dict.fromkeys(ldp.TRUST, TWICE)), legend,
                 [look.label for look in ldp.TRUST.values()], {"best": 0.02}),
    "limits of ldp": Row(ldp.plot_limits, lambda: (
        pd.DataFrame({"a": [1e8, 1e6], "b": [1e5, 1e4], "c": [1e3, 1e2]}, [1, 4]),
        ldp_lesson.cost_ratios(ldp_table(), epsilon=1).xs(5, level="k")),
        lambda axes: [line(axes[0], "b")[:, 1], line(axes[1], "four rounds, $10^5$ users")[:, 1]],
        [[1e5, 1e4], [4, 20]], {"grid": 2}),
    "four rounds": Row(ldp.plot_rounds, lambda: (points(), four()[1], four()[1].centers),
                       lambda axes: (squares(axes[0]), offsets(axes[3]).tolist()),
                       lambda: ([len(cells) for cells in four()[1].heavy.cells],  # type: ignore
                                four()[1].centers.tolist()), {"grid": 4}),
    # notebook 04
    "ifca": Row(rr.plot_ifca, fixed(
        np.array([[0.0, 1.0], [0.5, 2.0]]),
        {"below": [np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])]},
        (0, 1)), lambda grid: [one.get_ydata() for one in grid[0, 1].get_lines()],
        [[-2.0, 2.0], [-3.0, -3.0]], {"grid": (1, 2)}),
    "noise of means": Row(rr.plot_noise_of_means, fixed(
        np.array([3.0, 6.0]), np.array([[2.0, 2.1], [1.0, 0.9]]), [2.0, 1.0]),
        lambda ax: [*line(ax, 0)[:, 1], line(ax, -1)[0, 1]], [2, 1, 0.3], {"bound": 0.3}),
    "bias and variance": Row(rr.plot_bias_variance, lambda: (BIAS,),  # an estimate below 0 is 0
                             lambda axes: [*heights(axes[0]), heights(axes[1])[1]], [0.2, 0.3, 0],
                             {"grid": 2}),
    "identifiers": Row(rr.plot_identifiers, fixed(lambda s: 1 / (1 + s), [3.5, 2.2, 1.3]),
                       lambda ax: [*line(ax, "computed: noise, largest entry")[0],
                                   *line(ax, 1)[:, 1]],  # DP-IFCA in Table 4
                       [0.2, 1 / 1.2, 0.4218, 0.3906, 0.4062]),
    "moved": Row(rr.plot_moved, fixed({4: 0.0, 25: 8.0}, 0.4, 4),  # nobody: at the bottom
                 lambda ax: line(ax, "live run")[:, 1], [1e-4, 8.0]),
    "accountants": Row(rr.plot_accountants, fixed(
        [1, 10], {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}, 2.23),
        lambda ax: ("floor 2.23" in texts(ax), "100" in ax.get_ylabel()), (True, True),
        {"n_rounds": 100}),
    "counter-example": Row(rr.plot_counter_example, fixed(
        {"with": [[1, 1], [-1, -1, -1]], "without": [[1, -1], [-1, -1]]}),
        lambda axes: [{"A", "sum +2 C", "sum −3 C"} <= set(texts(axes[0])),
                      {"moved", "sum 0 C", "sum −2 C"} <= set(texts(axes[1]))], [True, True],
        {"grid": 2}),
    "shifts": Row(rr.plot_shifts, fixed({"breaks": 2.24, "holds": 2.0}),
                  lambda ax: len({bar.get_facecolor() for bar in ax.patches}), 2),
    "counts": Row(rr.plot_counts, fixed({"without": COUNTS, "with": COUNTS}, [(1, 1, 0)]),
                  lambda axes: (axes[0].get_images()[0].get_clim(), line(axes[1], 0).tolist()),
                  ((0, 22), [[1, 1]]), {"grid": 2}),
    "comparison": Row(rr.plot_comparison, lambda: (RUNS, 0.63),
                      lambda ax: [*line(ax, "DP-IFCA")[0], line(ax, "each client alone")[0, 1]],
                      [2, 0.4, 0.63]),
    "limits of rr": Row(rr.plot_limits, fixed(  # medians
        {0.25: [0.9, 0.8], 0.05: [0.2, 0.8]}, {2: [0.4], 4: [0.9]}, {"each client alone": 0.63}),
        lambda axes: [line(axes[0], 0), line(axes[0], 2)],
        [[[25, 0.9], [5, 0.2]], [[25, 0.85], [5, 0.5]]], {"grid": 2}),
    "low budget": Row(rr.plot_low_budget, lambda: (LOW, 0.63),
                      lambda axes: line(axes[1], "sums only, everybody"),
                      [[0.5, 0.225], [1, 0.35]], {"grid": 2}),
    "choice": Row(rr.plot_choice, fixed(), lambda axes: [*line(axes[0], 1)[0], *heights(axes[1])],
                  [0.2, 0.0, 9.0, 1.0, 5.0, 5.0],  # no noise: left end
                  {"sigmas": [0.2, 1.0], "wrong": [0.0, 0.4], "sigma": 0.0, "flip_rate": 0.0,
                   "sizes": {"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, "min_size": 4,
                   "title": "B = 4", "grid": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_shows_what_it_was_given(name: str) -> None:
    row = FIGURES[name]
    found = row.read(draw(row.plot, *row.given(), **row.options))
    expected = row.expected() if inspect.isfunction(row.expected) else row.expected
    try:
        assert np.shape(found) == np.shape(expected) and np.allclose(found, expected)
    except (TypeError, ValueError):  # words, or an approximation
        assert found == expected


# --- what the figures stand on --------------------------------------------------------------------


def test_names_at_line_ends_do_not_overlap_and_move_little() -> None:
    ax = draw(plots.curves, [0, 1], {f"line {i}": [0, y] for i, y in enumerate((1, 1.01, 1.02, 5))})
    plots.finish(ax, names="ends")
    ax.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:], strict=False))
    moved = {text.get_text(): text.xyann[1] for text in ax.texts}
    assert moved["line 3"] == pytest.approx(0)  # alone: stays
    assert moved["line 0"] == pytest.approx(-moved["line 2"], abs=1)


def test_colours_of_series_differ_also_in_grey() -> None:
    """Neighbours of the cycle differ in lightness or in marker, and no look appears twice."""
    assert len({look.color for look in style.LOOKS}) == len(style.LOOKS)
    assert len({look.style for look in style.LOOKS}) == len(style.LOOKS)
    assert set(rr.ACCOUNTANTS) == set(accounting.ACCOUNTANTS)
    for looks in (feddp.METHODS, rr.METHODS, rr.ACCOUNTANTS):
        drawn = [look[1:] for name, look in looks.items() if name != "oracle"]
        assert len(set(drawn)) >= len(drawn) - 1  # noisy points and one private mean are both grey


def test_plane_holds_most_of_the_spread_between_means() -> None:
    means = np.zeros((4, 5))
    means[:, 1], means[:, 3] = [0, 9, 0, 9], [0, 0, 4, 4]
    plane = feddp.plane_between(read_only(means))
    assert plane.T @ plane == pytest.approx(np.eye(2))
    assert [abs(plane[1, 0]), abs(plane[3, 1])] == pytest.approx([1, 1])  # the longer one first


def test_costs_beside_the_best_public_start() -> None:
    cells, best = lesson.against_starts(), lesson.best_costs()
    assert len(cells) == 20 and not cells.isna().any().any()
    row = ("client", 2000, 0.25)
    assert cells.loc[row, "feddp"] == best.loc[row, "feddp"]
    assert cells.loc[row, "start"] == best.loc[row, list(STARTS)].min()
    alone = best.loc[("client", 2000, 0.0), list(STARTS)]
    assert lesson.rival(cells).loc[row] == cells.loc[row, "untouched"] == alone.min()


def test_pictures_of_the_photograph() -> None:
    from sklearn.datasets import load_sample_image

    photo = paper_data.make_image_federation(server_in=0, rng=np.random.default_rng(0))
    patches = feddp.image_patches(load_sample_image("china.jpg"))
    rows = patches.transpose(1, 0, 2).reshape(-1, 12)
    np.testing.assert_allclose(rows, photo.points, rtol=1e-6, atol=1e-9)
    image = np.zeros((4, 6, 3))
    image[:, 3:] = 255
    patches = feddp.image_patches(read_only(image), block=1)
    two = np.array([[-0.5] * 3, [0.5] * 3]) / np.sqrt(3)
    assert feddp.paint(patches, two) == pytest.approx(0.25 + 0.5 * image / 255)
    refuses(ValueError, "true_centers", feddp.plot_server_data, plt.figure().gca(), photo)
    colours = {"feddp": photo.points[:8], "server_lloyds": photo.points[8:16]}
    axes = draw(feddp.plot_photographs, colours, grid=(2, 2))
    shown = [len(np.unique(np.round(ax.images[0].get_array(), 6).reshape(-1, 3), axis=0))
             for ax in axes[1]]  # fmt: skip
    assert max(shown) <= 8  # colours


def test_run_without_cells_can_be_drawn() -> None:
    users = simulate(points()[:1000], "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning):
        blind = one_round(users, n_clusters=3, epsilon=0.05, rng=np.random.default_rng(0))
    assert sum(squares(draw(ldp.plot_run, points(), blind))) == 0


def test_cells_of_a_shell_are_those_it_meets() -> None:
    """Against points of the shell itself: each lies in one of the cells, and each cell is met."""
    center, side = np.array([0.13, 0.07]), 0.2
    angle, length = RNG.uniform(0, 2 * np.pi, 100_000), RNG.uniform(0.5, 1, 100_000)
    ring = center + length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    met = set(map(tuple, np.floor(ring / side).astype(int).tolist()))
    cells = np.rint(ldp.cells_of_shell(0.5, side, center) / side).astype(int)
    assert met <= set(map(tuple, cells.tolist())) and len(cells) - len(met) <= 2  # mere touches


def test_cost_ratios_take_one_round_and_sums_beyond_six_dimensions() -> None:
    table = ldp_table()
    wrong = (table["algorithm"] == "alg1_hso") & (table["dprime"] == 2)
    table.loc[wrong, "cost_per_point"] = 77.0
    ratios = ldp_lesson.cost_ratios(table, epsilon=4.0)
    assert set(ratios.index.get_level_values("method")) == set(ldp_lesson.COMPARED)
    assert ratios.columns.tolist() == [2, 10] and len(ratios) == 3 * 2 * 2
    assert np.allclose(ratios, [1.0, 5.0])


def test_what_users_said_is_what_the_first_of_each_part_sent() -> None:
    users, _ = four()
    table = ldp_lesson.said_by_users(users, points())
    assert users.split is not None and table["round"].tolist() == [1, 2, 2, 3, 4, 4]
    for part, user in zip(users.split.parts, table["user"], strict=True):
        assert users.split.members(np.array([user]), part).all()
        assert not users.split.members(np.arange(user), part).any()  # the first of its part
    payload = users.transcript.view("server")[2].payload[0]
    assert table["what left the phone"][2] == f"({payload[0]:+.1f}, {payload[1]:+.1f})"
