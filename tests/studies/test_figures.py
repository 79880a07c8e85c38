"""Every figure draws what the data say on the axes it was given, and leaves its inputs alone.

`FIGURES` has one row a figure: what it is given, words and numbers that stand in it.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only, refuses
from ldp_cases import four_rounds, one_round
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.patches import Rectangle, StepPatch
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers import datasets
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gdp_delta, gdp_epsilon, gdp_mu
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


def words(axes: Any) -> str:
    """All that is written, panel by panel."""
    said = [plt.gcf().get_suptitle()]
    for ax in axes:
        said += [ax.get_title(), ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()]
        said += [text.get_text() for text in (*ax.texts, *ax.get_yticklabels())]
    return " | ".join(" ".join(one.split()) for one in said)


def series(axes: Any) -> Iterator[NDArray[np.float64]]:
    """All that is drawn: lines, marks, bars, steps and edges of areas (m, 2), images (m,)."""
    for ax in (*axes, *(child for parent in axes for child in parent.child_axes)):
        yield from (np.asarray(line.get_xydata(), dtype=float) for line in ax.get_lines())
        bars = [p for p in ax.patches if isinstance(p, Rectangle)]
        yield np.array([(bar.get_x(), bar.get_height()) for bar in bars]).reshape(-1, 2)
        steps = [p.get_data() for p in ax.patches if isinstance(p, StepPatch)]
        yield from (np.column_stack([step.edges[:-1], step.values]) for step in steps)
        yield from (np.asarray(image.get_array(), dtype=float).ravel() for image in ax.get_images())
        for found in ax.collections:
            marks = isinstance(found, PathCollection)
            parts = [found.get_offsets()] if marks else [p.vertices for p in found.get_paths()]
            yield from (np.asarray(part, dtype=float) for part in parts)


def stands(wanted: Any, drawn: list[NDArray[np.float64]]) -> bool:
    """Whether it is drawn: a point (a tuple), a number, a series (m, 2), or one axis of it."""
    if isinstance(wanted, tuple) or np.ndim(wanted) == 0:
        close = (np.isclose(one, wanted) for one in drawn if one.ndim == 2)
        return any(one.all(axis=1).any() if isinstance(wanted, tuple) else one.any()
                   for one in close)  # fmt: skip
    forms = (form for one in drawn for form in ((one, *one.T) if one.ndim == 2 else (one,)))
    return any(f.shape == np.shape(wanted) and np.allclose(f, wanted) for f in forms)


def line(ax: Axes, label: str) -> NDArray[np.float64]:
    """Points (m, 2) of the line with this label."""
    (found,) = (one for one in ax.get_lines() if one.get_label() == label)
    return np.asarray(found.get_xydata(), dtype=np.float64)


def shown(ax: Axes) -> NDArray[np.float64]:
    return np.asarray(ax.get_images()[0].get_array())


def squares(ax: Axes) -> list[int]:
    """Number of squares in each collection of them."""
    return [len(c.get_paths()) for c in ax.collections if isinstance(c, PatchCollection)]


def marks(ax: Axes) -> list[int]:
    """Number of marks in each collection of them."""
    return [len(c.get_offsets()) for c in ax.collections]


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
HISTORY, ROWS = RNG.uniform(-1, 1, (3, 4, 2)), RNG.uniform(-1, 1, (20, 2))
LOSS = {2: [[1.0, 2.0, 1.0], [3.0, 4.0, 1.0], [5.0, 9.0, 1.0]], 8: [[2.0, 6.0, 5.0]] * 3}
INDEX = pd.MultiIndex.from_tuples(
    [("client", 1000, 1.0), ("client", 2000, 1.0), ("point", 100, 1.0)],
    names=["level", "clients", "eps_total"],
)
SPECTRUM = RNG.normal(0, 1000, 4096)
SPECTRUM[[5, 9]] = [9000, 4000]
FAR = RNG.normal(0, 20, (30, 2))
PATCHES = RNG.uniform(-0.25, 0.25, (16, 12))
BEGIN, END = np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])
HALVES = np.zeros((4, 6, 3))
HALVES[:, 3:] = 255
MASKED, LOCAL = ("masked", "overclustered"), ("local", "alg1")
CLINICS = Rows(MIX, ("age", "dose"), np.zeros(2), np.array([100.0, 40.0]), np.arange(60) % 2, 3)
SAME = RNG.standard_normal(500)


def area(ax: Axes) -> float:
    x, y = np.asarray(ax.collections[-1].get_paths()[0].vertices).T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


class Row(NamedTuple):
    """A figure: what it is given, words and numbers that stand in it, and what else must hold."""

    plot: Callable[..., Any]
    given: Any = ()
    words: Any = ()
    numbers: Any = ()
    options: dict[str, Any] = {}
    holds: Callable[[Any], Any] = lambda axes: True


def of_trust(model: str) -> Row:
    """The exact numbers of the clients stand where somebody sees them."""
    return Row(start.plot_trust_model, (model,), ("server",), holds=lambda ax: (
        {"12", "7", "9"} <= {t.get_text() for t in ax.texts}) == (model in ("trusted", "ideal"))
    )  # fmt: skip


def are_circles(ax: Axes) -> bool:
    lengths = [np.linalg.norm(one.get_xydata() - center, axis=1)
               for one, center in zip(ax.get_lines()[4:8], HISTORY[-1], strict=True)]  # fmt: skip
    return np.allclose(lengths, 0.3)


def chosen_cells() -> list[int]:
    """Of the run of one round, level by level: those that are chosen, and all (not the finest)."""
    levels = one().levels
    counts = [(int((one().chosen.depth == at.depth).sum()), len(at.cells)) for at in levels]
    return [m for pair in counts for m in pair][:-1]


CORNER = 0.125  # half a side of the cells that are drawn
FIGURES: dict[str, Row] = {
    # the marks: means and ranges, error bars, quantiles, repetitions, sorted with a floor
    "means": Row(plots.curves, ([1, 2], {"a": TWICE}, LOOKS), (),
                 ([[1, 0.3], [2, 0.9]], (1, 0.2), (1, 0.4))),
    "errors": Row(plots.curves, ([1, 2], {"a": [3, 4]}, LOOKS), (),
                  ([[1, 2], [1, 4]], [[2, 2], [2, 6]]), {"errors": {"a": [1, 2]},
                                                         "interval": "bars"}),
    "quantiles": Row(plots.curves, ([1, 2], {"a": TWICE}, LOOKS), (), ([[1, 0.4], [2, 0.9]],),
                     {"quantiles": (0, 1, 1)}),
    "repetitions": Row(plots.curves, ([1, 2], {"a": TWICE}, LOOKS), (), (*TWICE.T,),
                       {"interval": "marks"}),
    "sorted": Row(plots.curves, lambda: (None, plots.by(pd.DataFrame(
        {"m": ["a", "a"], "x": [2, 1], "y": [7.0, 0.0]}), "m", "x", "y"), LOOKS), (),
        ([[1, 0.5], [2, 7]],), {"floor": 0.5}),
    "finish": Row(plots.finish, ("claim", "x", "y"), ("claim", "y (log)"), (),
                  {"log": "y", "xticks": [1, 3], "yticks": [0.5, 20]},
                  lambda ax: (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")),
    # notebook 00
    **{f"trust model {model}": of_trust(model)
       for model in ("trusted", "ideal", "masked", "local")},
    "trust models": Row(start.plot_trust_models, options={"grid": 4}, holds=lambda axes: len(
        {ax.get_title(loc="left") or ax.get_title() for ax in axes}) == 4),
    "two worlds": Row(start.plot_two_worlds, (SAME, SAME + 1, np.arange(-4, 6)),
                      ("without Alice", "with Alice")),
    "log ratio": Row(start.plot_log_ratio,
                     (np.arange(4.0), np.array([-0.9, 0.1, 1.1]), [0.1] * 3, 1.5,
                      np.array([-1.0, 0.0, 1.0])), (), ([-1, 0, 1], [-0.9, 0.1, 1.1])),
    "attack": Row(start.plot_attack, ([0.1, 1.0, 4.0], [0.52, 0.7, 0.93]), (),
                  (1 / (1 + np.exp(-4)), 1 - np.exp(-2) / 2)),
    "delta": Row(start.plot_delta, (1.0, 1.0), holds=lambda ax: (
        area(ax) == pytest.approx(gdp_delta(1.0, 1.0), rel=0.02))),  # polygon of a smooth curve
    "delta curves": Row(start.plot_delta_curves, ((0.25, 2.0),), holds=lambda ax: np.allclose(
        *zip(*((gdp_epsilon(mu, line(ax, f"_{mu:g}")[20, 1]), line(ax, f"_{mu:g}")[20, 0])
               for mu in (0.25, 2.0)), strict=True))),
    "step": Row(start.plot_step, (MIX, TRUE, TRUE, MOVED),
                ("exact means (crosses) by 0.07 to 0.07",)),
    "private clusters": Row(
        start.plot_private_clusters, (MIX, MOVED, TRUE),
        (f"ε = 2: NICV {nicv(MIX, MOVED):.4f}", f"without noise: {nicv(MIX, TRUE):.4f}"), (),
        {"epsilon": 2.0, "start": TRUE}),
    # notebook 01
    "reconstruction": Row(fl.plot_reconstruction, ([[0.1, -0.9]], [[0.2, -0.8]], FAR),
                          ("exact sums", "noised sums"), (FAR, [[0.2, -0.8]], [[0.1, -0.9]]),
                          {"grid": 2}),
    "roc": Row(fl.plot_roc, ({"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 1], [0, 1])},),
               options={"mu": 0.5, "bound_label": "most"}, holds=lambda ax: np.ptp(
                   line(ax, "most")[:, 1] - norm.cdf(norm.ppf(line(ax, "most")[:, 0]) + 0.5))
               < 1e-9),
    "variants": Row(fl.plot_variants, ({"one": [1.0, 2.0, 4.5], "other": [3.0, 1.5, 1.5]},),
                    ("one", "other"), ([1, 2, 4.5], [2, 2], [3, 1.5, 1.5], [1.5, 1.5])),
    "shares": Row(fl.plot_shares, ([0.1, 0.2], {"moves": [2.0, 1.0], "rests": [1.0, 2.0]}), (),
                  ([[0.1, 2], [0.2, 1]], [[0.1, 1], [0.2, 2]])),
    "words": Row(fl.plot_words, ({"a": [1, 2, 99_999], "b": [50_001] * 5},), holds=lambda ax: (
        [[bar.get_data().values[i] for i in (0, 20, 39)] for bar in ax.patches]
        == [[2, 0, 1], [0, 5, 0]])),
    "run": Row(fl.plot_run, (ROWS, HISTORY), (), (HISTORY[-1],), {"radius": 0.3}, are_circles),
    "breaks": Row(fl.plot_breaks, (LOSS, LOSS), (),  # medians of three sets
                  ([[1.74, 3], [6.96, 2]], [[2, 4], [8, 6]], [[2.3, 1], [9.2, 5]]), {"grid": 2}),
    # notebook 02
    "server data": Row(feddp.plot_server_data, lambda: (made(),),
                       ("29% of the server's 28 points are of another kind",),
                       holds=lambda ax: marks(ax) == [300, 20, 8, 4]),
    "weights": Row(feddp.plot_weights,  # noise can make a weight negative
                   lambda: (made(), np.where(made().in_distribution, 9.0, -1.0)), ("29%", "0%"), (),
                   {"grid": 2}),
    "init": Row(feddp.plot_init, lambda: (made(), started()), lambda: [
        f"1 noise of {1e4 / eigengap(made().points.T @ made().points, 4):.1f} gaps: keeps"
        f" {subspace_energy(started().basis, truth()):.0%}", "2 other kind weighs 29%",
        f"3 {100 * excess() / 3:.2g} % above the best"], (),
        {"noise": 1e4, "best": 3.0, "epsilon": 0.812, "grid": 3}),
    "rounds": Row(feddp.plot_rounds, (
        [1, 2], {"sphere_packing": TWICE, "knows": 0 * TWICE},
        {"sphere_packing": 3 + TWICE, "knows": TWICE}),
        ("Without noise SpherePacking ends 0.3 % above", "With noise it gets to 3.3 %, at T = 1"),
        ([0.3, 0.9], [3.3, 3.9]), {"grid": 2}),
    "subspace": Row(feddp.plot_subspace, ([0.1, 1], TWICE, 0.4, [5, 0.5]),
                    ("Kept: 30% at ε = 0.1, 90% at 1",), (0.4, [0.3, 0.9])),
    "audit": Row(feddp.plot_audit, audited, options={"grid": 2}, holds=lambda axes: (
        "ALARM" not in axes[0].texts[0].get_text()  # a lower bound is never rounded up
        and 0 <= audited()[2][1].mu_lower_bound - float(axes[1].texts[0].get_text().split()[4])
        < 0.01)),
    "planning": Row(feddp.plot_planning, lambda: (
        pd.Series([14.0, 7.0, 0.6], INDEX), pd.DataFrame({"feddp": [1.2, 0.7, 0.01]}, INDEX)),
        ("Ahead in 1 of 1 below 1 gap, in 1 of 2 above",),
        ([[14.0, 1.2], [7.0, 0.7]], [[0.6, 0.01]])),
    "limits of feddp": Row(
        feddp.plot_limits,
        ([0, 5], {"feddp": TWICE}, 10, [0.5, 1], {"m": 10 * TWICE, "p": 100 * TWICE}),
        ("5 of 10 unseen: FedDP-KMeans 0.9 % above", "0.5 of that length: 3 and 30 % above"),
        ([0.3, 0.9], [[0.5, 30], [1, 90]], 1.0), {"grid": 2}),
    "photographs": Row(
        feddp.plot_photographs, ({"feddp": PATCHES[:8], "server_lloyds": PATCHES[8:]},),
        options={"grid": [["hidden", "public"], ["server_lloyds", "feddp"], ["colours"] * 2]},
        holds=lambda axes: (
            colours(axes["server_lloyds"]) <= painted(PATCHES[8:])
            and colours(axes["feddp"]) <= painted(PATCHES[:8]) == colours(axes["colours"])
            and np.diff(shown(axes["colours"])[0].sum(axis=1)).min() >= 0)),
    # notebook 03
    "spectrum": Row(ldp.plot_spectrum, (SPECTRUM, np.array([5, 9]), np.array([8500, 4500])),
                    ("One bit from each user: 1 of 2 popular places stand out by 5 sd",),
                    ([9, 4], [8.5, 4.5], [5, 5]), {"std": 1000.0}),  # estimates, truth, threshold
    "run of ldp": Row(ldp.plot_run, lambda: (points(), one(), one().centers), (),
                      lambda: (one().centers,), holds=lambda ax: squares(ax) == chosen_cells()),
    "sketch": Row(ldp.plot_sketch, lambda: (
        points(), (lambda places, at: (places[:, 0] > at[0]).astype(int), (np.array([0.0, 0.5]),)),
        (TRUE[:2], np.array([0.25, 0.75])), MOVED, "fits"), ("fits",), (TRUE[:2], MOVED),
        {"grid": 2}, lambda axes: not shown(axes[0])[:, :200].any()
        and shown(axes[0])[:, 200:].all()
        and axes[1].collections[0].get_sizes().tolist() == [1000, 3000]),
    "trust": Row(ldp.plot_trust, lambda: (pd.DataFrame(
        {"grids": [9.0, 9.0, 9.0], "sketch": [2.0, 1.5, 1.04],
         "shuffled sketch": [2.0, 1.2, 1.1], "sum": [1.5, 1.04, 1.0]}, [10, 100, 1000]),
        [0.3, 0.1, 0.01], {"sketch": 900.0, "sum": 90.0}),
        ("Trusting nobody takes 10 times the users with the sketch",),
        # the best: at the bottom
        ([[10, 1], [100, 0.5], [1000, 0.04]], [0.5, 0.04, 1e-4], [0.3, 0.1, 0.01])),
    "photograph": Row(ldp.plot_photograph, (HALVES, [[10.0] * 3, [260.0] * 3], 1.5),
                      ("24 users, one pixel each", "2 released colours, 1.50 times the best cost"),
                      (), {"grid": 2}, lambda axes: [
                          {*half.ravel()} for half in np.split(shown(axes[1]), [2], axis=1)]
                      == [{10}, {255}]),
    # notebook 04
    "ifca": Row(rr.plot_ifca, (  # the first of those that found most
        {"below": [(1, [BEGIN, BEGIN]), (3, [BEGIN, END]), (3, [END, BEGIN])]}, (0, 1)),
        ("start", "round 1", "below: 3 found"), ([-2, 2], [-3, -3]), {"grid": (1, 2)}),
    "noise of means": Row(rr.plot_noise_of_means, (
        np.array([3.0, 6.0]), np.array([[2.0, 2.2], [1.0, 0.8]]), [2.0, 1.0]),
        ("6 updates: noise of 3.0 times C",), ([2, 1], 0.3), {"bound": 0.3}),
    "sizes": Row(rr.plot_sizes, ([[[3, 1], [2, 2], [4, 0]]], 2),
                 ("Chosen 1 to 3, after noise 2 to 2",), ([2, 2],),
                 holds=lambda ax: [bar.get_height() for bar in ax.patches] == [3, 1, 2, 2, 4, 0]),
    "accountants": Row(rr.plot_accountants, (
        [1, 10], {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}, 2.23),
        ("However much noise: Theorem 4.2 says ε ≥ 2.23", "floor 2.23", "100"),
        ([[1, 2], [10, 0.5]],), {"n_rounds": 100}),
    "comparison": Row(rr.plot_comparison, (
        {"rr_ifca": {2.0: [0.3, 0.5], 4.0: [0.5, 0.5]}, "fedavg": {2.0: [0.6], 4.0: [0.7]}}, 0.63),
        ("At ε = 4 best: DP-FedAvg, 0.70",), ([[2, 0.4], [4, 0.5]], 0.63)),
    "choice": Row(rr.plot_choice, (), ("1 0% of identifiers wrong", "B = 4"),
                  ((0.2, 0), [9, 1, 5, 5]),  # left end: none
                  {"sigmas": [0.2, 1.0], "wrong": [0.0, 0.4], "sigma": 0.0, "flip_rate": 0.0,
                   "sizes": {"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, "min_size": 4,
                   "title": "B = 4", "grid": 2}),
    # notebook 05
    "excess": Row(side.plot_excess, lambda: (trusted(),),
                  ("records n: local sketch 30 % to 3 %", "clusters k: local sketch 3 % to 4.8 %"),
                  ([[1e4, 0.1], [1e5, 0.01]], [[1, 0.01], [4, 0.0025]], [[2, 0.01], [4, 0.02]],
                   [[5, 0.01], [8, 0.016]]), {"grid": 4}),
    "price": Row(side.plot_price, lambda: (trusted(),), [x.label for x in side.PRICE.values()],
                 ([[1e4, 0.3], [1e5, 0.03]], [0.2, 0.02]),
                 {"data": "mixture", "epsilon": 1.0, "d": 2, "k": 5}),
    "copy": Row(side.plot_copy, (MIX, [[0.1, 0.2], [0.5, 0.5], [0.3, 0.1]], [40, 20, 10], TRUE),
                (f"3 centres with counts become {len(TRUE)}",), (TRUE, MIX)),
    "over best": Row(side.plot_over_best, lambda: (pd.DataFrame(
        {"n / k": [100.0, 2000.0], "d": [2, 9], "diffprivlib": [3.0, 4.0], "sulloyd": [5.0, 6.0],
         "google_lsh": [7.0, 8.0], "pe_means": [2.0, 1.1], "fastlloyd": [2.5, 1.6],
         "overclustered": [1.2, 1.5]}, ["s1", "adult"]),),
        ("ε = 1: over-clustered sums are lowest on 1 of 2 sets", "s1 (n / k = 100, d = 2)",
         "adult (n / k = 2,000, d = 9)"), ([[2, 1], [1.1, 0]], [[1.2, 1], [1.5, 0]])),
    "dials": Row(side.plot_dials, ({MASKED: 1.05, LOCAL: 12.0}, "n = 9"),
                 ("n = 9", "1.05", "12.00"), ([[1.05, 1]], [[12, 0]]),
                 holds=lambda ax: ax.get_xlim()[1] == 24),
    # notebook 06
    "map": Row(own.map_of, lambda: (CLINICS, 50 + 10 * TRUE),
               ("3 released centres among 60 rows", "age"),
               (CLINICS.in_units(MIX), 50 + 10 * TRUE)),
    "too wide": Row(own.ratios, ([1, 10], {"overclustered": [1.0, 1.2], "fastlloyd": [1, 4]}),
                    ("Exact bounds to 10 times as wide: over-clustered 1.0 to 1.2, FastLloyd 1.0 to"
                     " 4.0",), ([[1, 1], [10, 4]],)),
    "agreements": Row(own.agreements, (
        {"known columns": [0.1, 0.2, 0.9], "paid for": [0.5, 0.7, 0.8]},),
        ("Paying for bounds lifts the agreement from 0.20 to 0.70",),
        ([[0.1, 1], [0.2, 1], [0.9, 1]], (0.2, 1), (0.7, 0))),
    "months": Row(own.months, (), (), (0.5 * np.arange(1, 13),),
                  {"epsilon": 0.5, "delta": 1e-6, "budget": 1.5},
                  lambda ax: np.allclose(  # at the exact total the probability to fail is delta
                      [gdp_delta(math.sqrt(n) * gdp_mu(0.5, 1e-6), e) * 1e6 / 3
                       for n, e in line(ax, "exact total")], 1)
                  and int(words([ax]).split(" | ")[2].split()[2])
                  == (line(ax, "exact total")[:, 1] <= 1.5).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_shows_what_it_was_given(name: str) -> None:
    row = FIGURES[name]
    given, said, numbers = (x() if callable(x) else x for x in (row.given, row.words, row.numbers))
    axes = draw(row.plot, *given, **row.options)
    panels = [*axes.values()] if isinstance(axes, dict) else plots.panels(axes)
    text, drawn = words(panels), list(series(panels))
    assert not [one for one in said if " ".join(one.split()) not in text], text
    assert not [one for one in numbers if not stands(one, drawn)], drawn
    assert row.holds(axes)


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
    image = np.zeros((8, 12, 3))
    image[:, 6:] = 255
    patches = feddp.image_patches(read_only(image))
    two = np.array([[-0.5] * 12, [0.5] * 12]) / np.sqrt(12)
    assert feddp.paint(patches, two) == pytest.approx(0.25 + 0.5 * image[::2, ::2] / 255)
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


def test_a_scorer_compares_with_k_means() -> None:
    best, ratio = ldp_lesson.scorer(points(), 3, rng=np.random.default_rng(0))
    assert ratio(best) == 1 and np.isnan(ratio(best[:2])) and ratio(points()[:50]) > 1
    middle = np.zeros((3, 2))
    assert ratio(middle) == kmeans_cost(points(), middle) / kmeans_cost(points(), best)
