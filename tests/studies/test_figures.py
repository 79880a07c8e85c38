"""Every figure draws what the data say on the axes it was given, and leaves its inputs alone.

`FIGURES` has one row a figure: what it is given, and a fact that can be read off what it drew.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only, refuses
from ldp_cases import four_rounds, one_round
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers import datasets
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import Shuffled, gdp_delta, gdp_epsilon, gdp_mu
from fedclust_helpers.audit import audit_canary
from fedclust_helpers.feddp_kmeans import STARTS, InitResult
from fedclust_helpers.federation import Federation, simulate
from fedclust_helpers.kmeans import kmeans_cost
from fedclust_helpers.metrics import nicv
from fedclust_helpers.program import Run
from studies import paper_data
from studies.bench import plots, style
from studies.bench.samples import Rows
from studies.fastlloyd import figures as fl
from studies.feddp_kmeans import figures as feddp
from studies.feddp_kmeans import lesson
from studies.feddp_kmeans.bounds import eigengap, subspace_energy
from studies.ldp_kmeans import figures as ldp
from studies.ldp_kmeans import lesson as ldp_lesson
from studies.own_data import figures as own
from studies.rr_cluster import accountants
from studies.rr_cluster import figures as rr
from studies.side_by_side import figures as side
from studies.start import figures as start

pytestmark = pytest.mark.slow

MODULES = (start, fl, feddp, ldp, rr, side, own)
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
    """Call on new axes with read-only inputs; render; the axes.

    `grid`: one (the default), a number in a row, (rows, columns), or a list of rows of names.
    """
    if isinstance(grid, list):
        axes: Any = plt.subplot_mosaic(grid)[1]
    else:
        shape = (1, grid) if isinstance(grid, int) else grid or (1, 1)
        size = (4.0 * shape[1], 4.0 * shape[0])
        axes = plt.subplots(*shape, figsize=size, squeeze=False)[1]
        axes = axes[0] if isinstance(grid, int) else axes if grid else axes[0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(axes, *frozen(args), **frozen(options)) is axes
        plt.gcf().canvas.draw()
    return axes


def title(ax: Axes) -> str:
    return " ".join((ax.get_title() or ax.get_title(loc="left")).split())


def titles(axes: Any) -> list[str]:
    return [title(ax) for ax in plots.panels(axes)]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def line(ax: Axes, which: str | int) -> NDArray[np.float64]:
    """Points (m, 2) of the line with this label, or number."""
    lines = ax.get_lines()
    if isinstance(which, str):
        lines, which = [one for one in lines if one.get_label() == which], 0
    return np.asarray(lines[which].get_xydata(), dtype=np.float64)


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]


def names(ax: Axes) -> list[str]:
    """What is written at the places of the vertical axis."""
    return [text.get_text() for text in ax.get_yticklabels()]


def shown(ax: Axes) -> NDArray[np.float64]:
    return np.asarray(ax.get_images()[0].get_array())


def verticals(ax: Axes) -> set[float]:
    return {float(np.asarray(one.get_xdata())[0]) for one in ax.get_lines()}


def squares(ax: Axes) -> list[int]:
    """Number of squares in each collection of them."""
    return [len(c.get_paths()) for c in ax.collections if isinstance(c, PatchCollection)]


def offsets(ax: Axes, which: int = -1) -> NDArray[np.float64]:
    return np.asarray(ax.collections[which].get_offsets(), dtype=np.float64)


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


def marked() -> Any:
    """Heavy cells of the four rounds."""
    return four()[1].heavy


@cache
def digits() -> Any:
    return paper_data.make_rotated_digits(8, n_train=4, n_test=1, rng=np.random.default_rng(0))


def painted(centers: Any) -> set[tuple[float, ...]]:
    """Mean colours of patches of four pixels, as they are drawn."""
    colour = centers.reshape(-1, 4, 3).mean(axis=1) * np.sqrt(12)
    return set(map(tuple, np.round(np.clip((colour + 1) / 2, 0, 1), 6).tolist()))


def colours(ax: Axes) -> set[tuple[float, ...]]:
    return set(map(tuple, np.round(shown(ax), 6).reshape(-1, 3).tolist()))


def trusted() -> pd.DataFrame:
    """An excess of 1, 2, 3, 4 % at the middle of the axes: the keys in their order."""
    keys = dict.fromkeys([*side.PRICED, *side.PRICE])
    rows = [
        ("mixture", *key, n, e, d, k, 1 + over, 0.002 * k)
        for i, key in enumerate(keys, 1)
        for n in (10_000, 100_000) for e in (1.0, 4.0) for d in (2, 4) for k in (5, 8)
        for over in [0.01 * i * (100_000 / n) * (d / 2) * (k / 5) / e]
    ]  # fmt: skip
    columns = "data trust method n epsilon d k median known"
    return pd.DataFrame(rows, columns=columns.split())


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
SPECTRUM[[5, 9]] = [9000, 4000]
FAR = RNG.normal(0, 20, (30, 2))
PATCHES = RNG.uniform(-0.25, 0.25, (16, 12))
BEGIN, END = np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])
WEIGHTS = RNG.normal(size=(2, 65 * 10))
HALVES = np.zeros((4, 6, 3))
HALVES[:, 3:] = 255
MASKED, LOCAL = ("masked", "overclustered"), ("local", "alg1")
CLINICS = Rows(MIX, ("age", "dose"), np.zeros(2), np.array([100.0, 40.0]), np.arange(60) % 2, 3)
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
    "hospitals": Row(fl.plot_hospitals, fixed([ROWS, ROWS[:7]], [TRUE, MOVED], TRUE),
                     lambda axes: [titles(axes), *(offsets(ax, i) for ax in axes for i in (1, 2))],
                     [["hospital A, 20 rows", "hospital B, 7 rows"], TRUE, TRUE, TRUE, MOVED],
                     {"grid": 2}),
    "reconstruction": Row(fl.plot_reconstruction, fixed(ROWS, [0.1, -0.9], [0.2, -0.8], FAR),
                          lambda ax: [offsets(ax, 0), *(line(ax.child_axes[0], i)[0]
                                                        for i in (1, 2))],
                          [FAR, [0.2, -0.8], [0.1, -0.9]]),  # the guesses, the exact one, the truth
    "roc": Row(fl.plot_roc, fixed({"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 1], [0, 1])}),
               lambda ax: np.ptp(line(ax, "most")[:, 1]
                                 - norm.cdf(norm.ppf(line(ax, "most")[:, 0]) + 0.5)), 0,
               {"mu": 0.5, "bound_label": "most"}),
    "variants": Row(fl.plot_variants, fixed({"one": [1.0, 2.0, 4.5], "other": [3.0, 1.5, 1.5]}),
                    lambda ax: [names(ax), *(line(ax, i)[:, 0] for i in (0, 1, 2, 3))],
                    [["one", "other"], [1, 2, 4.5], [2, 2], [3, 1.5, 1.5], [1.5, 1.5]]),
    "shares": Row(fl.plot_shares, fixed([0.1, 0.2], {"moves": [2.0, 1.0], "rests": [1.0, 2.0]}),
                  lambda ax: [line(ax, "moves"), line(ax, "rests")],
                  [[[0.1, 2], [0.2, 1]], [[0.1, 1], [0.2, 2]]]),
    "words": Row(fl.plot_words, fixed({"a": [1, 2, 99_999], "b": [50_001] * 5}),
                 lambda ax: [[bar.get_data().values[i] for i in (0, 20, 39)] for bar in ax.patches],
                 [[2, 0, 1], [0, 5, 0]]),
    "run": Row(fl.plot_run, fixed(ROWS, HISTORY),
               lambda ax: [offsets(ax), *(np.unique(np.linalg.norm(  # circles
                   line(ax, 4 + i) - HISTORY[-1][i], axis=1).round(9)) for i in range(4))],
               [HISTORY[-1], *[[0.3]] * 4], {"radius": 0.3}),
    "breaks": Row(fl.plot_breaks, fixed(LOSS, LOSS),  # medians of three sets
                  lambda axes: [(line(ax, "noise"), line(ax, "start")) for ax in axes],
                  [[[[2, 3], [8, 2]], [[2.14, 4], [8.56, 6]]]] * 2, {"grid": 2}),
    "table": Row(fl.plot_table,
                 fixed(pd.DataFrame(20 + 10 * ROWS, columns=["radius", "size"]),
                       {"one": [[10.0, 12.0]], "other": [[9.0, 8.0]]}, [[11.0, 13.0]]),
                 lambda ax: [ax.get_xlabel(), ax.get_ylabel(), *map(offsets, [ax] * 3, (1, 2, 3))],
                 ["radius", "size", [[10, 12]], [[9, 8]], [[11, 13]]]),
    # notebook 02
    "server data": Row(feddp.plot_server_data, lambda: (made(),),
                       lambda ax: [title(ax), *(len(c.get_offsets()) for c in ax.collections)],
                       ["29% of the server's 28 points are of another kind", 300, 20, 8, 4]),
    "found": Row(feddp.plot_found, lambda: (made(), truth()[:3], 0.0126),
                 lambda ax: [title(ax), *(len(c.get_offsets()) for c in ax.collections)],
                 ["Three noised sums: 0.013 above the best cost", 300, 3, 4]),
    "weights": Row(feddp.plot_weights,  # noise can make a weight negative
                   lambda: (made(), np.where(made().in_distribution, 9.0, -1.0)),
                   lambda axes: [re.findall(r"\d+%", ax.get_xlabel()) for ax in axes],
                   [["29%"], ["0%"]], {"grid": 2}),
    "init": Row(feddp.plot_init, lambda: (made(), started()), titles,
                lambda: ["1 noise of "
                         f"{1e4 / eigengap(made().points.T @ made().points, 4):.1f} gaps: keeps"
                         f" {subspace_energy(started().basis, truth()):.0%}",
                         "2 other kind weighs 29%", f"3 {excess():.2f} above the optimum"],
                {"noise": 1e4, "best": 3.0, "epsilon": 0.812, "grid": 3}),
    "rounds": Row(feddp.plot_rounds,
                  fixed([1, 2], {"sphere_packing": TWICE, "knows": 0 * TWICE},
                        {"sphere_packing": 3 + TWICE, "knows": TWICE}),
                  lambda axes: [titles(axes), *(line(ax, "SpherePacking")[:, 1] for ax in axes)],
                  [["Without noise SpherePacking ends 0.3 above",
                    "With noise 3.3 above at best, at T = 1"], [0.3, 0.9], [3.3, 3.9]],
                  {"grid": 2}),
    "subspace": Row(feddp.plot_subspace, fixed([0.1, 1], TWICE, 0.4, [5, 0.5]),
                    lambda ax: [title(ax).split("ε")[1], 0.4 in verticals(ax), line(ax, 0)[:, 1],
                                [t.get_text() for t in ax.child_axes[0].get_xticklabels()]],
                    [" = 0.40 on", True, [0.3, 0.9], ["5.0", "0.5"]]),
    "audit": Row(feddp.plot_audit, audited,  # a lower bound is never rounded up
                 lambda axes: ("ALARM" in texts(axes[0])[0],
                               0 <= audited()[2][1].mu_lower_bound
                               - float(texts(axes[1])[0].split()[4]) < 0.01), (False, True),
                 {"grid": 2}),
    "floor": Row(feddp.plot_floor, fixed([4, 16], TWICE, [0.1, 0.1], [0.3, 0.8]),
                 lambda ax: [title(ax), *(line(ax, name)[:, 1] for name in (
                     "measured", "floor as printed", "with √(8 d ln(1.25/δ))"))],
                 ["The error grows 3.0-fold, the printed floor 1.0-fold", [0.3, 0.9], [0.1, 0.1],
                  [0.3, 0.8]]),
    "planning": Row(feddp.plot_planning, lambda: (
        pd.Series([14.0, 7.0, 0.6], INDEX), pd.DataFrame({"feddp": [1.2, 0.7, 0.01]}, INDEX)),
        lambda ax: [title(ax), *(line(ax, f"FedDP-KMeans, one {who} hidden")
                                 for who in ("client", "row"))],
        ["FedDP-KMeans first loses at 14.0 gaps of noise", [[14.0, 1.2], [7.0, 0.7]],
         [[0.6, 0.01]]]),
    "limits of feddp": Row(
        feddp.plot_limits,
        fixed([0, 5], {"feddp": TWICE}, 10, [0.5, 1], {"m": 10 * TWICE, "p": 100 * TWICE}),
        lambda axes: [titles(axes), line(axes[0], 0)[:, 1], line(axes[1], "p"),
                      1.0 in verticals(axes[1])],
        [["Half unseen: FedDP-KMeans 0.9 % above", "0.5 of that length: 3 and 30 % above"],
         [0.3, 0.9], [[0.5, 30], [1, 90]], True], {"grid": 2}),
    "photographs": Row(
        feddp.plot_photographs, fixed({"feddp": PATCHES[:8], "server_lloyds": PATCHES[8:]}),
        lambda axes: [colours(axes["server_lloyds"]) <= painted(PATCHES[8:]),
                      colours(axes["feddp"]) <= painted(PATCHES[:8]),
                      np.diff(shown(axes["colours"])[0].sum(axis=1)).min() >= 0,
                      colours(axes["colours"]) == painted(PATCHES[:8])], [True] * 4,
        {"grid": [["hidden", "public"], ["server_lloyds", "feddp"], ["colours", "colours"]]}),
    # notebook 03
    "coin": Row(ldp.plot_coin, fixed([39.0, 41.0], [28.0, 32.0], 30.0),
                lambda ax: [verticals(ax), "off by +10" in title(ax)], [{30.0}, True]),
    "spectrum": Row(ldp.plot_spectrum, fixed(SPECTRUM, np.array([5, 9]), np.array([8500, 4500])),
                    lambda ax: [title(ax), *(line(ax, i)[:, 0] for i in (1, 2, 3))],
                    ["One bit from each user: 1 of 2 popular places stand out by 5 sd",
                     [9, 4], [8.5, 4.5], [5, 5]],  # estimates, truth, threshold
                    {"std": 1000.0}),
    "answers": Row(ldp.plot_answers, fixed([1, 4, 10], {1.0: [3.0, 5.0, 20.0], 8.0: [9, 2, 3]},
                                           {1.0: {1: 3.1}, 8.0: {4: 2.1, 10: 3.0}}),
                   lambda ax: [title(ax), line(ax, 2)[:, 1], line(ax, "ε = 8")],
                   ["Best number of answers: 1 at ε = 1, 4 at ε = 8", [9, 2, 3],
                    [[4, 2.1], [10, 3]]]),
    "corners": Row(ldp.plot_corners, lambda: (points(), 3, {0.5: (5.0, 2.0), 0.25: (3.0, 1.5)}),
                   lambda axes: [title(axes[1]), offsets(axes[0]) - offsets(axes[0], -2) - 0.125,
                                 squares(axes[0]) == [len(offsets(axes[0]))],
                                 *(line(axes[1], i)[:, 1] for i in (0, 1))],
                   lambda: ["At side 0.25 corners cost 3.0, centres 1.5",  # half a side: 0.125
                            np.zeros_like(offsets(plt.gcf().axes[0])), True, [5, 3], [2, 1.5]],
                   {"grid": 2}),
    "run of ldp": Row(ldp.plot_run, lambda: (points(), one(), one().centers),
                      lambda ax: (squares(ax), offsets(ax)),
                      lambda: ([m for level in one().levels for m in (
                          int((one().chosen.depth == level.depth).sum()), len(level.cells))][:-1],
                               one().centers)),  # all but the finest are outlined too
    "seen": Row(ldp.plot_seen, fixed({100: 0.2, 200: 0.5}, 200, 0.02),
                lambda ax: [title(ax), line(ax, 0), 200 in verticals(ax)],
                ["A cell with 2% of the users is seen in 50% of runs at 200",
                 [[100, 0.2], [200, 0.5]], True]),
    "sketch": Row(ldp.plot_sketch, lambda: (
        points(), (lambda places, at: (places[:, 0] > at[0]).astype(int), (np.array([0.0, 0.5]),)),
        (TRUE[:2], np.array([0.25, 0.75])), MOVED, "fits"),
        lambda axes: [title(axes[1]), np.unique(shown(axes[0])[:, :200]),
                      np.unique(shown(axes[0])[:, 200:]), offsets(axes[1], 0),
                      axes[1].collections[0].get_sizes(), offsets(axes[1])],
        ["fits", [0], [1], TRUE[:2], [1000, 3000], MOVED], {"grid": 2}),
    "rounds of ldp": Row(
        ldp.plot_rounds, lambda: (points(), four()[1], four()[1].centers, (1.2, 1.5)),
        lambda axes: [squares(axes[0]), sorted(offsets(axes[1], 1).tolist()), offsets(axes[1], 2),
                      offsets(axes[2]), offsets(axes[3], 1), offsets(axes[3], 2),
                      axes[0].figure.get_suptitle()],
        lambda: [[len(cells) for cells in marked().cells], sorted(marked().centers().tolist()),
                 four()[1].candidates[len(marked().centers()) :], four()[1].proxies,
                 four()[1].low_centers, four()[1].centers,
                 "Four rounds: 1.20 times the best before the means, 1.50 after them"],
        {"grid": 4}),
    "trust": Row(ldp.plot_trust, lambda: (pd.DataFrame(
        {"Algorithm 1": [9.0, 9.0, 9.0], "sketch": [2.0, 1.5, 1.04],
         "shuffled sketch": [2.0, 1.2, 1.1], "sum": [1.5, 1.04, 1.0]}, [10, 100, 1000]),),
        lambda ax: [title(ax), line(ax, "local: sketch"), line(ax, "a noised sum")[:, 1]],
        ["Trusting nobody takes 10 times the users with the sketch",
         [[10, 1], [100, 0.5], [1000, 0.04]], [0.5, 0.04, 1e-4]]),  # the best: at the bottom
    "photograph": Row(ldp.plot_photograph, fixed(HALVES, [[10.0] * 3, [260.0] * 3], 1.5),
                      lambda axes: [titles(axes), np.unique(shown(axes[1])[:, :2]),
                                    np.unique(shown(axes[1])[:, 2:])],
                      [["24 users, one pixel each", "2 released colours, 1.50 times the best cost"],
                       [10], [255]], {"grid": 2}),
    # notebook 04
    "ifca": Row(rr.plot_ifca, fixed(  # the first of those that found most
        {"below": [(1, [BEGIN, BEGIN]), (3, [BEGIN, END]), (3, [END, BEGIN])]}, (0, 1)),
        lambda grid: [titles(grid), grid[0, 0].get_ylabel(),
                      *(drawn.get_ydata() for drawn in grid[0, 1].get_lines())],
        [["start", "round 1"], "below: 3 found", [-2, 2], [-3, -3]], {"grid": (1, 2)}),
    "noise of means": Row(rr.plot_noise_of_means, fixed(
        np.array([3.0, 6.0]), np.array([[2.0, 2.2], [1.0, 0.8]]), [2.0, 1.0]),
        lambda ax: [title(ax), *line(ax, 0)[:, 1], line(ax, -1)[0, 1]],
        ["Even 6 updates: noise of 3.0 times C", 2, 1, 0.3], {"bound": 0.3}),
    "sizes": Row(rr.plot_sizes, fixed([[[3, 1], [2, 2], [4, 0]], [[1, 3], [2, 2], [2, 2]]], 2),
                 lambda axes: [titles(axes), line(axes[0], 0), line(axes[2], 1)],
                 [["as chosen: 1 to 3", "after noise: 2 to 2", "after rebalancing, B = 2: 0 to 4"],
                  [[0, 3], [1, 1]], [[0, 0], [1, 2]]], {"grid": 3}),
    "woken": Row(rr.plot_woken, fixed({("below", 0): [0, 0, 4], ("below", 15): [4, 4, 4]}),
                 lambda ax: [title(ax), names(ax), *(c.get_sizes() for c in ax.collections)],
                 ["Runs that found all four lines: 1, 3 of 3", ["below, B = 0", "below, B = 15"],
                  [40, 20], [60]]),  # areas
    "identifiers": Row(rr.plot_identifiers, fixed(lambda s: 1 / (1 + s), {1.0: 0.5, 4.0: 0.25}, 4),
                       lambda ax: [title(ax), line(ax, "integral")[0], line(ax, "simulated"),
                                   line(ax, "blind guess")[:, 1]],
                       ["25% to 50% of the noised identifiers are right", [0.2, 1 / 1.2],
                        [[1, 0.5], [4, 0.25]], [0.25, 0.25]]),
    "accountants": Row(rr.plot_accountants, fixed(
        [1, 10], {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}, 2.23),
        lambda ax: [title(ax), "floor 2.23" in texts(ax), "100" in ax.get_ylabel(),
                    line(ax, "fixed size, replace-one")],
        ["However much noise: Theorem 4.2 says ε ≥ 2.23", True, True, [[1, 2], [10, 0.5]]],
        {"n_rounds": 100}),
    "counter-example": Row(rr.plot_counter_example, fixed(
        {"with": [[1, 1], [-1, -1, -1]], "without": [[1, -1], [-1, -1]]}),
        lambda axes: [{"A", "sum +2 C", "sum −3 C"} <= set(texts(axes[0])),
                      {"moved", "sum 0 C", "sum −2 C"} <= set(texts(axes[1])),
                      [sum(getattr(t, "arrow_patch", None) is not None for t in ax.texts)
                       for ax in axes]], [True, True, [5, 4]], {"grid": 2}),
    "comparison": Row(rr.plot_comparison, fixed(
        {"rr_ifca": {2.0: [0.3, 0.5], 4.0: [0.5, 0.5]}, "fedavg": {2.0: [0.6], 4.0: [0.7]}}, 0.63),
        lambda ax: [title(ax), line(ax, "RR-Cluster"), line(ax, "each client alone")[0, 1]],
        ["At ε = 4 best: DP-FedAvg, 0.70", [[2, 0.4], [4, 0.5]], 0.63]),
    "threes": Row(rr.plot_threes, lambda: (WEIGHTS, SimpleNamespace(
        choices=np.zeros(8, dtype=int), groups_alone=1), digits()),
        lambda axes: [[ax.get_xlabel() for ax in axes], shown(axes[1]).ravel(),
                      axes[0].figure.get_suptitle()],
        [["8 clients,\n25% from group 1", "0 clients,\nnobody"],
         WEIGHTS[1].reshape(-1, 10)[:64, 3], "1 groups have a model of their own"], {"grid": 2}),
    "choice": Row(rr.plot_choice, fixed(),
                  lambda axes: [title(axes[0]), line(axes[0], 1)[0], heights(axes[1]),
                                axes[0].figure.get_suptitle()],
                  ["1 0% of identifiers wrong", [0.2, 0], [9, 1, 5, 5], "B = 4"],  # left end: none
                  {"sigmas": [0.2, 1.0], "wrong": [0.0, 0.4], "sigma": 0.0, "flip_rate": 0.0,
                   "sizes": {"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, "min_size": 4,
                   "title": "B = 4", "grid": 2}),
    # notebook 05
    "conversion": Row(side.plot_conversion, fixed(
        [1, 2], {"pure": [0.5, 1.0], "sums": [0.6, 1.1], "local": [1.0, 2.0]}),
        lambda ax: [line(ax, name)[:, 1] for name in ("pure", "sums", "local")],
        [[0.5, 1], [0.6, 1.1], [1, 2]]),
    "excess": Row(side.plot_excess, lambda: (trusted(),),
                  lambda axes: [titles(axes)[0], titles(axes)[3],
                                *(line(ax, "masked, over-clustered") for ax in axes),
                                line(axes[3], "best possible sum, groups known")],
                  ["records n: local sketch 30 % to 3 %",
                   "clusters k: local sketch 3 % to 4.8 %", [[1e4, 0.1], [1e5, 0.01]],
                   [[1, 0.01], [4, 0.0025]], [[2, 0.01], [4, 0.02]], [[5, 0.01], [8, 0.016]],
                   [[5, 0.01], [8, 0.016]]], {"grid": 4}),
    "price": Row(side.plot_price, lambda: (trusted(),),
                 lambda ax: [line(ax, "local (sketch)"), line(ax, "shuffled")[:, 1],
                             {look.label for look in side.PRICE.values()} <= set(texts(ax))],
                 [[[1e4, 0.3], [1e5, 0.03]], [0.2, 0.02], True],
                 {"data": "mixture", "epsilon": 1.0, "d": 2, "k": 5}),
    "runs": Row(side.plot_runs, lambda: ({
        LOCAL: pd.DataFrame({"over_optimum": [2.0, 3.0, 9.0]}),
        MASKED: pd.DataFrame({"over_optimum": [1.0, 1.1, 1.5]})}, (1000, 2, 5)),
        lambda ax: [title(ax), names(ax), line(ax, 0), line(ax, 1)[0], line(ax, 3)[0]],
        ["3 runs each, n = 1,000, d = 2, k = 5", ["masked, over-clustered", "local, Algorithm 1"],
         [[1, 1], [1.1, 1], [1.5, 1]], [1.1, 1], [3, 0]]),
    "wire": Row(side.plot_wire, lambda: (pd.DataFrame(
        [(*MASKED, 4000.0, 1.0), (*LOCAL, 1.0, 1.5)],
        columns=["trust", "method", "bytes", "over_optimum"]),
        [MASKED, ("local", "sketch"), LOCAL]),
        lambda ax: [[*line(ax, i)[0]] for i in (0, 1)] + [texts(ax)],
        [[4000, 1e-4], [1, 0.5], ["masked, over-clustered", "local, Algorithm 1"]]),
    "over best": Row(side.plot_over_best, lambda: (pd.DataFrame(
        {"n / k": [100.0, 2000.0], "d": [2, 9], "diffprivlib": [3.0, 4.0], "sulloyd": [5.0, 6.0],
         "google_lsh": [7.0, 8.0], "pe_means": [2.0, 1.1], "fastlloyd": [2.5, 1.6],
         "overclustered": [1.2, 1.5]}, ["s1", "adult"]),),
        lambda ax: [title(ax), names(ax), line(ax, "PE-means"), line(ax, "over-clustered")],
        ["ε = 1: over-clustered sums are lowest on 1 of 2 sets",
         ["s1 (n / k = 100, d = 2)", "adult (n / k = 2,000, d = 9)"],
         [[2, 1], [1.1, 0]], [[1.2, 1], [1.5, 0]]]),
    "dials": Row(side.plot_dials, fixed({MASKED: 1.05, LOCAL: 12.0}, "n = 9"),
                 lambda ax: [title(ax), texts(ax), line(ax, 0), line(ax, 1), ax.get_xlim()[1]],
                 ["n = 9", ["1.05", "12.00"], [[1.05, 1]], [[12, 0]], 24]),
    # notebook 06
    "map": Row(own.map_of, lambda: (CLINICS, 50 + 10 * TRUE),
               lambda ax: [title(ax), ax.get_xlabel(), offsets(ax, 0), offsets(ax)],
               ["3 released centres among 60 rows", "age", CLINICS.in_units(MIX),
                50 + 10 * TRUE]),
    "too wide": Row(own.ratios, fixed([1, 10], {"overclustered": [1.0, 1.2], "fastlloyd": [1, 4]}),
                    lambda ax: [title(ax), line(ax, "FastLloyd")],
                    ["Exact bounds to 10 times as wide: over-clustered 1.0 to 1.2, "
                     "FastLloyd 1.0 to 4.0",
                     [[1, 1], [10, 4]]]),
    "agreements": Row(own.agreements, fixed(
        {"known columns": [0.1, 0.2, 0.9], "paid for": [0.5, 0.7, 0.8]}),
        lambda ax: [title(ax), line(ax, 0), line(ax, 1)[0], line(ax, 3)[0]],
        ["Paying for bounds lifts the agreement from 0.20 to 0.70",
         [[0.1, 1], [0.2, 1], [0.9, 1]], [0.2, 1], [0.7, 0]]),
    "months": Row(own.months, fixed(),  # at the exact total the probability to fail is delta
                  lambda ax: [line(ax, "shares added up")[:, 1],
                              [gdp_delta(math.sqrt(n) * gdp_mu(0.5, 1e-6), e) * 1e6 / 3
                               for n, e in line(ax, "exact total")],
                              int(title(ax).split()[2])
                              - (line(ax, "exact total")[:, 1] <= 1.5).sum()],
                  [0.5 * np.arange(1, 13), [1] * 12, 0],
                  {"epsilon": 0.5, "delta": 1e-6, "budget": 1.5}),
}  # fmt: skip


def alike(found: Any, expected: Any) -> bool:
    """Equal words, equal numbers up to rounding, part by part."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(expected, (np.ndarray, int, float)):
        return np.shape(found) == np.shape(expected) and np.allclose(found, expected)
    return bool(found == expected)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_shows_what_it_was_given(name: str) -> None:
    row = FIGURES[name]
    found = row.read(draw(row.plot, *row.given(), **row.options))
    expected = row.expected() if inspect.isfunction(row.expected) else row.expected
    assert alike(found, expected), f"{found}\nnot\n{expected}"


def test_every_figure_has_a_row() -> None:
    made = {
        value
        for module in MODULES
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("plot_") or module is own and "ax" in inspect.signature(value).parameters
    }
    assert not made - {row.plot for row in FIGURES.values()}


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
    assert set(rr.ACCOUNTANTS) == set(accountants.ACCOUNTANTS)
    for looks in (feddp.METHODS, rr.METHODS, rr.ACCOUNTANTS):
        drawn = [look[1:] for name, look in looks.items() if name != "knows"]
        assert len(set(drawn)) >= len(drawn) - 1  # noisy points and one private mean are both grey


def test_rates_of_an_attack_are_shares_above_every_threshold() -> None:
    false, true = fl.rates([0.0, 1.0], [1.0, 2.0])
    assert np.allclose(false, [0, 0, 0.5, 0.5, 1, 1]) and np.allclose(true, [0, 0.5, 1, 1, 1, 1])


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
    assert feddp.rgb({"feddp": two}) == [[64] * 3, [191] * 3]


def test_run_without_cells_can_be_drawn() -> None:
    users = simulate(points()[:1000], "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning):
        blind = one_round(users, n_clusters=3, epsilon=0.05, rng=np.random.default_rng(0))
    assert sum(squares(draw(ldp.plot_run, points(), blind))) == 0


def test_cost_by_trust_has_one_column_for_each_and_only_its_task() -> None:
    methods = [("local", "alg1"), ("local", "sketch"), ("shuffled", "sketch"),
               ("ideal", "overclustered"), ("local", "alg4")]  # fmt: skip
    rows = [
        ("mixture", 2, k, eps, *key, n, 1 + (i + 1) / n if (k, eps) == (5, 1.0) else 99.0)
        for i, key in enumerate(methods) for n in (100, 10) for k in (5, 10) for eps in (1.0, 4.0)
    ]  # fmt: skip
    columns = ["data", "d", "k", "epsilon", "trust", "method", "n", "median"]
    costs = ldp_lesson.cost_by_trust(pd.DataFrame(rows, columns=columns))
    assert costs.index.tolist() == [10, 100] and list(costs) == [*ldp_lesson.BY_TRUST]
    assert np.allclose(costs, [[1.1, 1.2, 1.3, 1.4], [1.01, 1.02, 1.03, 1.04]])


def test_cost_by_columns_takes_vectors_beyond_six_columns() -> None:
    table = ldp_table()
    wrong = (table["algorithm"] == "alg1_hso") & (table["dprime"] == 2)
    table.loc[wrong, "cost_per_point"] = 77.0
    columns = "data n dprime k algorithm epsilon over_optimum".split()
    rows = [("mixture", 10**3, d, 5, "sketch", e, d + e) for d in (2, 10) for e in (1.0, 4.0)]
    better = pd.DataFrame(rows, columns=columns)
    ratios = ldp_lesson.cost_by_columns(table, better, n=10**5, epsilon=4.0)
    one, four = (f"{name}, 100,000 users" for name in ("Algorithm 1", "four rounds"))
    assert ratios.index.tolist() == [one, four, "sketch, 1,000 users"]
    assert ratios.columns.tolist() == [2, 10]
    assert np.allclose(ratios, [[1.0, 5.0], [1.0, 5.0], [6.0, 14.0]])


def test_over_best_has_mixtures_by_n_method_and_size() -> None:
    rows = [
        ("mixture", 10, 2, 5, m, 1.0, v) for m, v in (("alg1", 3.0), ("alg4", 9.0), ("sketch", 1.5))
    ]
    columns = "data n dprime k algorithm epsilon over_optimum".split()
    table = pd.DataFrame([*rows, ("rings", 10, 2, 5, "alg1", 1.0, 8.0)], columns=columns)
    found = ldp_lesson.over_best(table)
    assert list(found) == ["d=2, k=5"] and found.shape == (2, 1)
    assert found.loc[[(10, "Algorithm 1"), (10, "sketch")], "d=2, k=5"].tolist() == [3, 1.5]


def test_a_phone_may_say_more_behind_a_shuffler() -> None:
    """As much as the set of all answers allows: a little more would be too much."""
    local = ldp_lesson.local_epsilon(1000, delta=1e-6)
    cost = [Shuffled((lk.sketch_report(e, 2),), 1000, drawn=True).epsilon(1e-6)
            for e in (local, 1.01 * local)]  # fmt: skip
    assert cost[0] <= 1 < cost[1] and local > 3


def test_a_scorer_compares_with_k_means() -> None:
    best, ratio = ldp_lesson.scorer(points(), 3, rng=np.random.default_rng(0))
    assert ratio(best) == 1 and np.isnan(ratio(best[:2])) and ratio(points()[:50]) > 1
    middle = np.zeros((3, 2))
    assert ratio(middle) == kmeans_cost(points(), middle) / kmeans_cost(points(), best)


def test_what_users_said_is_what_the_first_of_each_part_sent() -> None:
    users, _ = four()
    table = ldp_lesson.said_by_users(users, points())
    assert users.split is not None and table["round"].tolist() == [1, 2, 2, 3, 4, 4]
    for part, user in zip(users.split.parts, table["user"], strict=True):
        assert users.split.members(np.array([user]), part).all()
        assert not users.split.members(np.arange(user), part).any()  # the first of its part
    payload = users.transcript.view("server")[2].payload[0]
    assert table["what left the phone"][2] == f"({payload[0]:+.1f}, {payload[1]:+.1f})"
