"""Every figure draws what the data say on the axes it was given, and leaves its inputs alone.

`draw` holds what all share: the axes come back, nothing is written to the inputs, and the figure
renders without a warning.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import read_only
from ldp_cases import four_rounds, one_round
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from numpy.typing import NDArray
from scipy.stats import norm

from fedclust_helpers import datasets
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.accounting import gdp_delta, gdp_epsilon
from fedclust_helpers.federation import LocalReports, simulate
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.bench import plots, style
from fedclust_helpers.studies.fastlloyd import figures as fl
from fedclust_helpers.studies.fastlloyd import result_figures as fl_results
from fedclust_helpers.studies.feddp_kmeans import figures as feddp
from fedclust_helpers.studies.feddp_kmeans import result_figures as feddp_results
from fedclust_helpers.studies.ldp_kmeans import figures as ldp
from fedclust_helpers.studies.ldp_kmeans import result_figures as ldp_results
from fedclust_helpers.studies.rr_cluster import figures as rr
from fedclust_helpers.studies.rr_cluster import result_figures as rr_results
from fedclust_helpers.studies.rr_cluster.theory import Table4Row
from fedclust_helpers.studies.start import figures as start

MODULES = (start, fl, fl_results, feddp, feddp_results, ldp, ldp_results, rr, rr_results)
RNG = np.random.default_rng(0)
X = np.array([0.1, 0.5, 1.0, 2.0])
Y = {"one": X + 1, "two": 2 * X + 1, "three": X**2 + 1}
TWICE = np.array([[0.2, 0.4], [0.9, 0.9]])  # two positions, two repetitions: means 0.3, 0.9


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
    return ax.get_title() or ax.get_title(loc="left")


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


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


def test_every_figure_is_drawn_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for module in MODULES:
        for name, _ in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("plot_"):
                assert f".{name}," in source, f"{module.__name__}.{name} has no test"


# --- the marks ------------------------------------------------------------------------------------


def test_curves_draw_means_ranges_quantiles_and_errors() -> None:
    looks = {"a": style.Look("A", style.BLUE, "s--")}
    ax = draw(plots.curves, [1, 2], {"a": TWICE}, looks)
    assert np.allclose(line(ax, "A"), [[1, 0.3], [2, 0.9]])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.2, 0.9)
    ax = draw(plots.curves, [1, 2], {"a": [3, 4]}, looks, errors={"a": [1, 2]}, interval="bars")
    ends = [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()]
    assert ends == [[2, 4], [2, 6]]
    ax = draw(plots.curves, [1, 2], {"a": TWICE}, looks, quantiles=(0, 1, 1))
    assert np.allclose(line(ax, "A")[:, 1], [0.4, 0.9])
    ax = draw(plots.curves, [1, 2], {"a": TWICE}, looks, interval="marks")
    assert [np.ravel(one.get_ydata()).tolist() for one in ax.get_lines()] == TWICE.T.tolist()
    table = pd.DataFrame({"m": ["a", "a"], "x": [2, 1], "y": [7.0, 0.0]})
    ax = draw(plots.curves, None, plots.by(table, "m", "x", "y"), looks, floor=0.5)
    assert line(ax, 0).tolist() == [[1, 0.5], [2, 7]]  # sorted; zeros at the floor


def test_names_at_line_ends_do_not_overlap_and_move_little() -> None:
    ax = draw(plots.curves, [0, 1], {f"line {i}": [0, y] for i, y in enumerate((1, 1.01, 1.02, 5))})
    plots.finish(ax, names="ends")
    ax.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:], strict=False))
    offsets = {text.get_text(): text.xyann[1] for text in ax.texts}
    assert offsets["line 3"] == pytest.approx(0)  # alone: stays
    assert offsets["line 1"] == pytest.approx(0, abs=1)  # in the middle of three
    assert offsets["line 0"] == pytest.approx(-offsets["line 2"], abs=1)


def test_finish_names_axes_and_says_which_are_logarithmic() -> None:
    ax = draw(plots.finish, "claim", "x", "y", log="y", xticks=[1, 3], yticks=[0.5, 20])
    assert (title(ax), ax.get_xlabel(), ax.get_ylabel()) == ("claim", "x", "y (log)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["0.5", "20"]


def test_colours_of_series_differ_also_in_grey() -> None:
    """Neighbours of the cycle differ in lightness or in marker, and no look appears twice."""
    assert len({look.color for look in style.LOOKS}) == len(style.LOOKS)
    assert len({look.style for look in style.LOOKS}) == len(style.LOOKS)
    for looks in (feddp.METHODS, rr.METHODS, ldp_results.METHODS, rr.ACCOUNTANTS):
        drawn = [look[1:] for name, look in looks.items() if name != "oracle"]
        assert len(set(drawn)) >= len(drawn) - 1  # noisy points and one private mean are both grey


# --- notebook 00 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["trusted", "ideal", "masked", "local"])
def test_trust_model_shows_exact_numbers_only_where_they_travel(model: str) -> None:
    ax = draw(start.plot_trust_model, model)
    assert title(ax)
    shown = texts(ax)
    assert ({"12", "7", "9"} <= set(shown)) == (model in ("trusted", "ideal"))
    if model == "masked":  # the party that adds the noise could take it away again
        assert "noise from: the server, which may not see the result" in shown
    for begin in ("server sees: ", "other clients see: ", "noise from: "):
        assert sum(text.startswith(begin) for text in shown) == 1


def test_trust_models() -> None:
    axes = draw(start.plot_trust_models, grid=4)
    assert len({title(ax) for ax in axes}) == 4
    assert "Raw data never leave" in axes[0].figure.get_suptitle()


def test_server_views() -> None:
    exact = np.array([3.0, 5.0, 4.0])
    words = np.array([[2**63], [5], [2**64 - 1]], dtype=np.uint64)
    views = {"trusted": exact[:, None], "ideal": np.array([12.4]), "masked": words}
    views["local"] = exact[:, None] + 0.5
    shown = [heights(ax) for ax in draw(start.plot_server_views, views, exact, grid=4)]
    assert shown[0] == [3.0, 5.0, 4.0] and shown[1] == [12.4] and shown[3] == [3.5, 5.5, 4.5]
    assert shown[2] == pytest.approx([0.5, 0.0, 1.0])  # as a share of the ring


def test_two_worlds_and_units() -> None:
    values = RNG.normal(size=500)
    ax = draw(start.plot_two_worlds, values, values + 1, np.arange(-4, 6), who="Bob")
    assert texts(ax) == ["without Bob", "with Bob"]
    member = np.arange(600) % 2 == 0
    count = 950 + 50 * member
    answers = {"point": count + RNG.laplace(0, 1, 600), "client": count + RNG.laplace(0, 50, 600)}
    axes = draw(start.plot_units, answers, member, who="clinic 3", grid=2)
    assert title(axes[0]) == "Noise for one point: clinic 3 shows"
    assert title(axes[1]) == "Noise for one client: clinic 3 is hidden"


def test_log_ratio_marks_epsilon_and_draws_the_exact_steps() -> None:
    exact, bins = np.array([-1.0, 0.0, 1.0]), np.arange(4.0)
    ax = draw(start.plot_log_ratio, bins, exact + 0.1, [0.1] * 3, 1.5, exact)
    assert {-1.5, 1.5} <= {float(np.ravel(one.get_ydata())[0]) for one in ax.get_lines()}
    assert texts(ax) == ["ε", "-ε"]
    assert np.array_equal(ax.patches[0].get_data().values, exact)
    assert np.allclose(line(ax, -1)[:, 1], exact + 0.1)


def test_attack_curves_are_the_formulas() -> None:
    ax = draw(start.plot_attack, [0.1, 1.0, 4.0], [0.52, 0.7, 0.93])
    ceiling, best = line(ax, "_ceiling"), line(ax, "_laplace")
    assert ceiling[-1] == pytest.approx([4.0, 1 / (1 + np.exp(-4))])
    assert best[-1] == pytest.approx([4.0, 1 - np.exp(-2) / 2])
    assert (best[:, 1] <= ceiling[:, 1]).all()
    ax = draw(start.plot_success, [1, 4], [0.55, 0.6], "answers T", [0.54, 0.61])
    assert [line(ax, i)[-1].tolist() for i in (1, 2)] == [[4.0, 0.61], [4.0, 0.6]]


def test_delta_is_an_area_and_a_curve_for_each_mu() -> None:
    red = draw(start.plot_delta, 1.0, 1.0).collections[-1].get_paths()[0].vertices
    x, y = red[:, 0], red[:, 1]
    area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    assert area == pytest.approx(gdp_delta(1.0, 1.0), rel=0.02)  # polygon of a smooth curve
    ax = draw(start.plot_delta_curves, (0.25, 2.0))
    for name, mu in (("_0.25", 0.25), ("_2", 2.0)):
        epsilon, delta = line(ax, name)[20]
        assert gdp_epsilon(mu, delta) == pytest.approx(epsilon)


def test_steps_and_private_clusters(mixture: NDArray, true_centers: NDArray) -> None:
    moved = true_centers + 0.05
    ax = draw(start.plot_step, mixture, true_centers, true_centers, moved)
    assert "exact means" in title(ax)
    costs = {"epsilon": 2.0, "nicv": 0.02, "nicv_reference": 0.01}
    ax = draw(start.plot_private_clusters, mixture, moved, true_centers, **costs)
    assert title(ax) == "ε = 2: NICV 0.0200\nwithout noise: 0.0100"
    assert np.allclose(ax.collections[1].get_offsets(), moved)


# --- notebook 01 ----------------------------------------------------------------------------------

SIMPLE: dict[str, tuple[Any, ...]] = {
    "reconstruction": (fl.plot_reconstruction, RNG.uniform(-1, 1, (20, 2)), [0.1, -0.9],
                       [0.1, -0.9], RNG.normal(0, 20, (30, 2))),
    "error": (fl.plot_error_over_epsilon, X, Y, Y),
    "changes": (fl.plot_changes, {n: RNG.uniform(0, 9, 50) for n in "abc"}, {"η": 1, "2η": 2}),
    "hockey stick": (fl.plot_hockey_stick, X, Y, {name: (X, v) for name, v in Y.items()}),
    "claim ratio": (fl.plot_claim_ratio, X, Y, dict.fromkeys(Y, 1.5)),
    "split": (fl.plot_split, X, Y, dict.fromkeys(Y, 1.0)),
    "run": (fl.plot_run, RNG.uniform(-1, 1, (20, 2)), RNG.uniform(-1, 1, (3, 4, 2))),
    "hospitals": (fl.plot_hospitals, [RNG.uniform(-1, 1, (9, 2))] * 2, [np.zeros((2, 2))] * 2,
                  np.ones((2, 2))),
    "error slips": (fl.plot_error_slips, X, X, X, X, X, 1 + X, X),
    "radius": (fl.plot_radius, X, {name: v / 10 for name, v in Y.items()}, Y, 1.0),
    "fold": (fl.plot_fold, X, {"a": X, "b": X}, X, Y),
    "masked": (fl.plot_masked, [{n: RNG.integers(0, 2**32, 99) for n in "abc"}] * 2, ["t", "u"],
               32),
    "attacks": (fl.plot_attacks, (X, X), (X, X, X), (X, X)),
    "rounding": (fl.plot_rounding, X, Y, X, Y, (0.1, 1e-5)),
}  # fmt: skip
SEVERAL = {"hospitals": 2, "error slips": 3, "attacks": 3}
PAIRS = ("radius", "fold", "masked", "rounding")


@pytest.mark.parametrize("name", SIMPLE)
def test_figures_of_fastlloyd(name: str) -> None:
    axes = draw(*SIMPLE[name], grid=SEVERAL.get(name, 2 if name in PAIRS else ()))
    for ax in plots.panels(axes):
        assert ax.has_data() and ax.get_xlabel()


def test_fastlloyd_draws_the_bound_the_circles_and_the_alarm() -> None:
    rates = {"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 0.5, 1], [0, 0.6, 1])}
    bound = line(draw(fl.plot_roc, rates, mu=0.5, bound_label="most"), "most")
    assert np.allclose(bound[:, 1], norm.cdf(norm.ppf(bound[:, 0]) + 0.5))
    history = RNG.uniform(-1, 1, (3, 4, 2))
    ax = draw(fl.plot_run, RNG.uniform(-1, 1, (20, 2)), history, radius=0.3)
    assert np.allclose(ax.collections[-1].get_offsets(), history[-1])
    circles = [line(ax, i) for i in range(4, 8)]
    assert np.allclose(np.linalg.norm(circles - history[-1][:, None], axis=2), 0.3)
    ax = draw(fl.plot_audit, ["a", "b", "c", "d"], Y)
    assert "alarm" in texts(ax) and np.allclose(line(ax, "two")[:, 0], Y["two"])


def test_breaks_tell_the_cost_of_privacy_from_that_of_the_start() -> None:
    loss = np.stack([np.outer(1 + X, [0.5, 1, 3]), np.outer(2 + X, [0.5, 1, 3])], axis=1)
    axes = draw(fl_results.plot_breaks, (X, loss), (X, 2 * loss), (X, X / 9), grid=3)
    for ax, scale in zip(axes, (1, 2), strict=False):
        assert np.allclose(line(ax, "privacy")[:, 1], scale * (1 + X))  # medians of three sets
        assert np.allclose(line(ax, "start")[:, 1], scale * (2 + X))
        low, high = ax.get_ylim()
        bands = np.quantile(scale * loss, [0.1, 0.9], axis=2)
        assert low < bands[0].min() and bands[1].max() < high


def fl_cells(**columns: Any) -> pd.DataFrame:
    folded = ("sulloyd_fold", "glloyd_fold")
    return pd.DataFrame(
        {"dataset": data, "method": method, "epsilon": epsilon, "ci95": 0.1} | columns
        for data in ("iris", "s1", "wine")
        for method in ("lloyd", "sulloyd", "glloyd", "fastlloyd", *folded)
        for epsilon in ((np.inf,) if method == "lloyd" else (0.1, 1.0))
    )


def test_tables_of_fastlloyd() -> None:
    table = fl_cells(nicv_mean=0.5, nicv_median=0.4, n=150, d=4, k=3)
    axes = draw(fl_results.plot_nicv, table, grid=(2, 2))
    assert [ax.get_visible() for ax in axes.ravel()] == [True] * 3 + [False]
    assert np.allclose(line(axes[0, 0], "FastLloyd"), [[0.1, 0.5], [1, 0.5]])
    table = pd.concat([fl_cells(metric=m, median=0.5) for m in fl_results.METRICS])
    axes = draw(fl_results.plot_metrics, table, ("s1", "mnist"), grid=(3, 2))
    assert [title(ax) for ax in axes[0]] == ["s1", "iris"]  # missing: replaced by others
    rows = [
        {"figure": f, "k": k, "d": d, "method": m, "relative_to_sulloyd_median": 0.25}
        for f in ("3a", "3b", "4") for k in (2, 4) for d in (2, 8)
        for m in ("lloyd", "glloyd", "fastlloyd")
    ]  # fmt: skip
    axes = draw(fl_results.plot_scaling, pd.DataFrame(rows), grid=3)
    assert np.allclose(axes[2].get_images()[0].get_array(), 75)
    rows = [
        {"method": "fastlloyd", "postprocess": p, "strategy": s, "clip_step": True}
        | {"alpha": a, "normalised": 2 * a}
        for p in ("fold", "truncate", "none") for s in ("step", "constant") for a in (0.4, 0.8)
    ]  # fmt: skip
    ax = draw(fl_results.plot_ablation, pd.DataFrame(rows))
    assert np.allclose(line(ax, "truncate"), [[0.4, 0.8], [0.8, 1.6]])


# --- notebook 02 ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> paper_data.FederatedDataset:
    return paper_data.make_server_mixture(
        n_clients=5, rows_per_client=60, n_features=6, n_clusters=4, server_per_cluster=5,
        n_uniform=8, rng=np.random.default_rng(0),
    )  # fmt: skip


def test_plane_holds_most_of_the_spread_between_means() -> None:
    means = np.zeros((4, 5))
    means[:, 1], means[:, 3] = [0, 9, 0, 9], [0, 0, 4, 4]
    plane = feddp.plane_between(read_only(means))
    assert plane.T @ plane == pytest.approx(np.eye(2))
    assert abs(plane[1, 0]) == pytest.approx(1)  # the longer direction first
    assert abs(plane[3, 1]) == pytest.approx(1)
    with pytest.raises(ValueError, match="three means"):
        feddp.plane_between(means[:2])


def test_server_data_weights_and_start(made: paper_data.FederatedDataset) -> None:
    inside = made.in_distribution
    ax = draw(feddp.plot_server_data, made.points, made.server_points, inside, made.true_centers)
    sizes = [len(c.get_offsets()) for c in ax.collections]
    assert sizes == [300, 20, 8, 4]  # rows, same kind, other kind, means
    weights = np.where(inside, 9.0, -1.0)  # noise can make a weight negative
    scene = (made.points, made.server_points)
    pair = draw(feddp.plot_weights, *scene, weights, inside, made.true_centers, grid=2)
    before, after = (ax.collections for ax in pair)
    assert len(set(before[1].get_sizes()) | set(before[2].get_sizes())) == 1
    assert (after[2].get_sizes() == 0).all()
    assert after[1].get_sizes().min() > before[1].get_sizes().min()
    assert [ax.get_xlabel() for ax in pair] == [
        "other kind (squares): 29% of the weight", "other kind (squares): 0% of the weight",
    ]  # fmt: skip
    row = draw(
        feddp.plot_init, *scene, inside, made.true_centers, eigenvalues=[5e4, 2e4, -1.0],
        noise=1e4, energy=0.87, weights=np.ones(28), released=made.true_centers, cost=3.21,
        best=3.0, epsilon=0.812, grid=3,
    )  # fmt: skip
    assert [title(ax) for ax in row] == [
        "1  subspace keeps 87%", "2  other kind weighs 29%", "3  cost 3.21, best 3.00",
    ]  # fmt: skip
    assert "ε = 0.81" in row[0].figure.get_suptitle()
    assert line(row[0], 0)[0, 1] == 10.0  # thousands


def test_steps_of_feddp() -> None:
    private = {"oracle": np.array([0.2, 0.4]), "server_lloyds": np.array([3.0, 2.9])}
    exact = {"oracle": np.zeros(2), "server_lloyds": np.array([2.5, 2.0])}
    ax = draw(feddp.plot_rounds, [1, 2], private, exact)
    assert {"a start that knows", "ServerLloyds"} <= set(texts(ax))
    assert sum(one.get_linestyle() == ":" for one in ax.get_lines()) == 2
    energy = {"mirror": TWICE, "average": TWICE}
    ax = draw(feddp.plot_subspace, [0.1, 1], energy, {"mirror": 0.4, "average": 0.3})
    assert {0.4, 0.3} <= verticals(ax)
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9])


def test_bills_and_audit_of_feddp() -> None:
    sent, received = {"one": 8000.0, "two": 80.0}, {"one": 0.0, "two": 4000.0}
    ax = draw(feddp.plot_traffic, sent, received)
    assert [bar.get_width() for bar in ax.patches] == [8.0, 0.08, 0.0, 4.0]
    assert len(texts(ax)) == 3  # nothing is written at an empty bar
    formulas = {name: np.array([1.0, 0.5]) for name in "abcd"}
    axes = draw(feddp.plot_composition, {"a": 6.0, "b": 4.5}, [1, 2], formulas, grid=2)
    assert texts(axes[0]) == [" 6.00", " 4.50"]
    first, second = (bar.get_facecolor() for bar in axes[0].patches)
    assert first != second  # the smallest bill stands out
    assert len(axes[1].get_lines()) == 5
    same = RNG.standard_normal(500)
    scores = {"fine": (same, same + 0.1), "bad": (same, same + 3)}
    pair = draw(feddp.plot_audit, scores, 0.24, {"fine": 0.1, "bad": 2.5}, grid=2)
    assert "ALARM" not in texts(pair[0])[0]
    assert texts(pair[1])[0] == "μ is at least 2.50\nclaimed: 0.24 ALARM"
    bell = line(pair[0], 0)
    assert bell[:, 1] == pytest.approx(norm.pdf(bell[:, 0], 0.24))


def test_theory_of_feddp() -> None:
    x = np.array([1.0, 2.0])
    six = draw(
        feddp.plot_bounds, halving={20.0: np.array([8.0, 0.0]), 4.0: np.array([1.6, 0.8])},
        floors={"n": (1e3 * x, 1 / x), "ε": (4e3 * x, 0.25 / x)}, rounds=(x, x, np.sqrt(x)),
        dimensions=(4 * x, x, x / 9, x), true_means=(1e3 * x, 1e-6 / x, 0.1 / x),
        lemma=(x, x / 2, x / 100), grid=(2, 3),
    )  # fmt: skip
    assert len({title(ax) for ax in six.ravel()}) == 6
    assert line(six[0, 0], 0)[1, 1] > 0  # an exact zero is drawn at the bottom of the log axis
    ends = line(six[0, 1], -1)
    assert ends[0].prod() == pytest.approx(ends[1].prod())
    noise = {"client": [10.0, 4.0], "point": [2.0, 0.6]}
    ablation = {"as is": 3.0, "no noise": 0.5}
    left, right = draw(feddp.plot_client_level, [0.5, 1], noise, ablation, grid=2)
    assert {"one client", "one point"} <= set(texts(left))
    assert texts(right) == [" 3.00", " 0.50"]


def feddp_table() -> pd.DataFrame:
    rows = [
        (level, clients, method, eps, t, 0.1 * (t + 1) / eps)
        for level, clients in (("point", 100), ("client", 1000))
        for method in ("feddp", "server_lloyds") for eps in (0.5, 1.0) for t in (0, 1)
    ]  # fmt: skip
    rows.append(("point", 100, "kfed", np.inf, 0, 0.5))
    return pd.DataFrame(rows, columns="level clients method eps_total T excess_mean".split())


def test_runs_of_feddp() -> None:
    ax = draw(feddp_results.plot_comparison, {"feddp": [0.01, 0.03], "server_lloyds": [3.0, 5.0]})
    assert [t.get_text() for t in ax.get_yticklabels()] == ["FedDP-KMeans", "ServerLloyds"]
    assert texts(ax) == ["0.02", "4"]
    ax = draw(feddp_results.plot_excess, [0.5, 1], {"feddp_adaptive": TWICE})
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9])
    assert "adaptive (ours)" in texts(ax)
    methods = ["feddp", "feddp", "sphere_packing"]
    runs = pd.DataFrame({"method": methods, "eps_total": [0.3, 1, 0.5], "excess": [4, 0.1, 5]})
    assert {"FedDP-KMeans", "SpherePacking"} <= set(texts(draw(feddp_results.plot_pareto, runs)))
    one, two, spare = draw(feddp_results.plot_cost_table, feddp_table(), grid=3)
    assert [ax.get_visible() for ax in (one, two, spare)] == [True, True, False]
    assert title(one) == "hiding one point, 100 clients"
    assert title(two) == "hiding one client, 1000 clients"
    assert np.allclose(line(one, "FedDP-KMeans")[:, 1], [0.2, 0.1])  # the best number of rounds
    assert np.allclose(line(one, "k-FED (not private)")[:, 1], 0.5)  # spends nothing
    ax = draw(feddp_results.plot_missing, [0, 5], {"feddp": TWICE})
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9])
    ax = draw(feddp_results.plot_elbow, [2, 3, 4], [9.0, 4.0, 3.5], 3, 3)
    assert texts(ax) == ["elbow: k = 3\n(truth: 3)"]
    curves = (([6, 11], TWICE), ([5000, 20000], TWICE))
    pair = draw(feddp_results.plot_limits, *curves, radius=11.0, grid=2)
    assert "needed" in texts(pair[0])
    assert len({title(ax) for ax in pair}) == 2


def test_pareto_front_keeps_what_nothing_beats() -> None:
    epsilons = read_only(np.array([1.0, 0.5, 2.0, 1.5, 0.5]))
    costs = read_only(np.array([3.0, 5.0, 1.0, 4.0, 6.0]))
    front = feddp_results.pareto_front(epsilons, costs)
    assert front.tolist() == [1, 0, 2]
    for i in range(5):
        beaten = (epsilons <= epsilons[i]) & (costs <= costs[i])
        beaten[i] = False
        assert (i in front) == (not beaten.any())


def test_pictures_of_the_photograph() -> None:
    from sklearn.datasets import load_sample_image

    photo = paper_data.make_image_federation(server_in=0, rng=np.random.default_rng(0))
    patches = feddp_results.image_patches(load_sample_image("china.jpg"))
    rows = patches.transpose(1, 0, 2).reshape(-1, 12)
    assert rows == pytest.approx(photo.points, abs=1e-9)
    image = np.zeros((4, 6, 3))
    image[:, 3:] = 255
    patches = feddp_results.image_patches(read_only(image), block=1)
    assert feddp_results.paint(patches) == pytest.approx(image / 255)
    two = np.array([[-0.5] * 3, [0.5] * 3]) / np.sqrt(3)
    assert feddp_results.paint(patches, two) == pytest.approx(0.25 + 0.5 * image / 255)
    with pytest.raises(ValueError, match="image"):
        feddp_results.image_patches(np.zeros((4, 6)))
    pictures = {"left": np.zeros((2, 2, 3)), "right": np.ones((2, 2, 3))}
    axes = draw(feddp_results.plot_images, pictures, grid=2)
    assert [title(ax) for ax in axes] == ["left", "right"]


# --- notebook 03 ----------------------------------------------------------------------------------


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
    return users, four_rounds(users, n_clusters=3, epsilon=4.0, rng=rng, lsh=True, t=2)


def test_building_blocks_of_ldp() -> None:
    ax = draw(ldp.plot_coin, RNG.normal(40, 1, 200), RNG.normal(30, 2, 200), 30.0)
    assert {"naive count", "de-biased", "truth"} <= set(texts(ax))
    assert verticals(ax) == {30.0}
    estimates = RNG.normal(0, 1000, 4096)
    at, counts = np.array([5, 9]), np.array([8500, 12_500])
    estimates[at] = [9000, 12_000]
    ax = draw(ldp.plot_spectrum, estimates, at, counts, std=1000.0, z=4.0)
    drawn = [np.ravel(one.get_xdata()) for one in ax.get_lines() if len(one.get_xdata()) == 2]
    for expected in ([9, 12], [8.5, 12.5], [4, 4]):  # estimates, truth, threshold
        assert any(np.allclose(x, expected) for x in drawn)
    assert ax.patches[0].get_data().values.sum() == pytest.approx(4094, rel=0.02)  # the others
    parts = {"split the budget": [1, 20, 80], "split the users": [1, 6, 13], "mixed": [1, 6, 13]}
    errors, measured = {1.0: parts, 8.0: parts}, {1.0: {"split the users": (10, 6.1)}, 8.0: {}}
    row = draw(ldp.plot_splits, [1, 10, 40], errors, measured, grid=2)
    assert [title(ax) for ax in row] == ["ε = 1", "ε = 8"]
    assert [len(ax.get_lines()) for ax in row] == [4, 3]
    shares = {1.0: [0.0, 0.2, 1.0], 4.0: [0.5, 1.0, 1.0]}
    ax = draw(ldp.plot_ladder, [1000, 3000, 9000], shares, {1.0: 5000.0, 4.0: 2000.0})
    assert {5000.0, 2000.0} <= verticals(ax)
    n = np.array([1000, 4000, 16_000])
    errors = np.sqrt(n)[:, None] * [0.9, 1.2]
    ax = draw(ldp.plot_sums, n, errors, np.sqrt(n), 5 * np.sqrt(n))
    assert len(ax.get_lines()) == 4  # two runs, the lemma, theory
    assert "Lemma 2.12" in texts(ax)
    same = RNG.standard_normal(500)
    scores = {"bad": (same, same + 3), "fine": (same, same + 0.1)}
    row = draw(ldp.plot_noise_audit, scores, {"bad": 2.5, "fine": 0.3}, 1.0, grid=2)
    assert texts(row[0])[0] == "claimed ε = 1\nε is at least 2.50"
    assert texts(row[1])[0] == "claimed ε = 1\nno alarm"


def test_cells_of_ldp(points: NDArray, one: lk.LdpResult) -> None:
    costs = {"corner": [0.5, 0.3], "center": [0.2, 0.1]}
    row = draw(ldp.plot_corners, points, 3, costs, [1, 2], best=0.05, grid=2)
    _, *places = (c.get_offsets() for c in row[0].collections if not isinstance(c, PatchCollection))
    corners, centers = (np.asarray(p) for p in places)
    assert np.allclose(centers - corners, 0.125)  # half a side
    assert squares(row[0]) == [len(corners)]
    assert np.allclose(line(row[1], "corners")[:, 1], [0.5, 0.3])
    shells = [(0.5, np.zeros((7, 2)), 0.3), (0.25, np.ones((5, 2)), 0.15)]
    ax = draw(ldp.plot_shells, shells, np.array([0.1, 0.0]))
    assert squares(ax) == [7, 5] and texts(ax) == ["7 cells", "5 cells"]
    assert one.chosen is not None
    ax = draw(ldp.plot_run, points, one, one.centers)
    assert squares(ax) == [int((one.chosen.depth == level.depth).sum()) for level in one.levels]
    assert np.allclose(ax.collections[-1].get_offsets(), one.centers)
    results, costs = {10_000: one, 100_000: one}, {10_000: 0.25, 100_000: 0.125}
    row = draw(ldp.plot_lights, points, results, costs, one.centers, grid=2)
    assert title(row[0]) == f"n = $10^4$: {len(one.weights)} cells"
    assert [ax.get_xlabel() for ax in row] == ["cost 0.250", "cost 0.125"]


def test_run_without_cells_can_be_drawn(points: NDArray) -> None:
    users = simulate(points[:1000], "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning):
        blind = one_round(users, n_clusters=3, epsilon=0.05, rng=np.random.default_rng(0))
    assert sum(squares(draw(ldp.plot_run, points, blind))) == 0


def test_lemmas_of_ldp() -> None:
    ratios = np.array([[0.9, 1.1]])  # for the first alpha only
    alphas = np.array([0.5, 0.1])
    row = draw(ldp.plot_projection, alphas, ratios, [1.5, 1.1], [1.7, 0.3], [2.0, 1.2], grid=2)
    assert [one.get_ydata()[0] for one in row[0].get_lines()] == [0.9, 1.1]
    assert len(row[1].get_lines()) == 3
    cloud, same = RNG.normal(size=(50, 2)), np.arange(50) < 10
    scene = {"points": cloud, "same": same, "filter": np.zeros(2), "radius": 0.3}
    curve = {2: (np.array([1.0, 2.0]), np.array([0.5, 0.1]))}
    ratios = {6: ([1, 2, 4], [2.0, 40.0, 1e7]), 2: ([1, 2, 4], [0.9, 1.0, 1.1])}
    row = draw(ldp.plot_lsh, scene, curve, curve, ratios, grid=3)
    assert np.allclose(line(row[0], -1)[0], cloud[same].mean(axis=0))
    # a name is written where its line leaves the axes
    places = {t.get_text(): t.xy for t in row[2].texts if t.get_text().startswith("c =")}
    assert places == {"c = 6": (2.0, 40.0), "c = 2": (4.0, 1.1)}


def ldp_table() -> pd.DataFrame:
    rows = [
        (data, algorithm, n, d, k, eps, 0.1 * d / eps if data == "mixture" else 9.0, 0.05)
        for data in ("mixture", "birch2") for algorithm in ("alg1", "alg1_hso", "private_mean")
        for n in (10**4, 10**5) for d in (2, 10) for k in (3, 5) for eps in (1.0, 4.0)
    ]  # fmt: skip
    columns = "data algorithm n dprime k epsilon cost_per_point nonprivate_cost"
    return pd.DataFrame(rows, columns=columns.split())


def test_runs_of_ldp() -> None:
    single = {10_000: np.array([[0.2, 0.4], [0.1, 0.1]])}
    ax = draw(ldp_results.plot_depths, [2, 3], single, {10_000: [0.1, 0.3]}, best=0.05)
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.1]) and np.allclose(line(ax, 1)[:, 1], 0.2)
    costs = {
        "alg1": {1000: [0.4, 0.2], 100: [0.5, 0.7]},
        "private_mean": {1000: [0.8, 0.8], 100: [0.8, 0.8]},
    }
    ax = draw(ldp_results.plot_methods, costs, best=0.02, single=0.5)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["one round", "one private mean"]
    assert {"0.300", "0.600", "0.800", "non-private"} <= set(texts(ax))
    marks = [one.get_markerfacecolor() for one in ax.get_lines()[:2]]
    assert marks[0] == "white" != marks[1]  # the smaller n is open
    by_trust = dict.fromkeys(ldp_results.TRUST, TWICE)
    ax = draw(ldp_results.plot_trust, [1000, 10_000], by_trust, best=0.02)
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9])
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [look.label for look in ldp_results.TRUST.values()]
    growth = {"noise": (np.array([10_000, 40_000]), [100.0, 200.0], 0.5)}
    ax = draw(ldp_results.plot_growth, growth)
    assert np.allclose(line(ax, "noise: slope 0.50")[:, 1], [1, 2])
    assert np.allclose(line(ax, 1)[:, 1], [1, 2])  # the root
    needed = {"a": [1e8, 1e6], "b": [1e5, 1e4]}
    row = draw(ldp_results.plot_limits, [1, 4], needed, ldp_table(), grid=2)
    assert len(row[0].get_lines()) == 2
    assert np.allclose(line(row[1], 0)[:, 1], [4, 20])
    assert {"one private mean", "d > 6:\nvector sums"} <= set(texts(row[1]))
    assert not draw(ldp_results.plot_limits, [1, 4], needed, None, grid=2)[1].get_visible()


def test_cost_ratios_take_one_round_and_sums_beyond_six_dimensions() -> None:
    table = ldp_table()
    wrong = (table["algorithm"] == "alg1") & (table["dprime"] == 10)
    table.loc[wrong, "cost_per_point"] = 77.0
    ratios = ldp_results.cost_ratios(table, epsilon=4.0)
    assert ratios.index.tolist() == [10**4, 10**5]
    assert ratios.columns.tolist() == [2, 10]
    assert np.allclose(ratios, [[1.0, 5.0], [1.0, 5.0]])


def test_four_rounds(points: NDArray, four: tuple[LocalReports, lk.LdpResult]) -> None:
    users, result = four
    row = draw(ldp_results.plot_rounds, points, result, result.centers, grid=4)
    heavy, candidates = result.heavy, result.candidates
    assert heavy is not None and candidates is not None
    assert squares(row[0]) == [len(cells) for cells in heavy.cells]
    places = [len(c.get_offsets()) for c in row[1].collections[1:]]
    assert sum(places) == len(candidates) and places[0] == len(heavy.centers())
    assert np.allclose(row[3].collections[-1].get_offsets(), result.centers)
    table = ldp_results.said_by_users(users, points)
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
    users = simulate(points, "local", seed=1)
    with pytest.raises(ValueError, match="divided"):
        ldp_results.said_by_users(users, points)
    four_rounds(users, n_clusters=3, epsilon=4.0, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="payloads"):
        ldp_results.said_by_users(users, points)


# --- notebook 04 ----------------------------------------------------------------------------------


def test_names_are_those_of_the_tables_and_the_accountants() -> None:
    assert set(rr.ACCOUNTANTS) == set(accounting.ACCOUNTANTS)
    private = [rr.METHODS[m][1:] for m in ("fedavg", "ifca", "rr_ifca", "sums_ifca")]
    assert len({color for color, _ in private}) == len({mark for _, mark in private}) == 4
    assert set(rr_results.MAIN) <= set(rr.METHODS)


def test_algorithm_of_rr() -> None:
    clients = np.array([[0.0, 1.0], [0.5, 2.0]])
    begin, end = np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])
    grid = draw(rr.plot_ifca, clients, {"below": [begin, end]}, (0, 1), grid=(1, 2))
    drawn = [np.asarray(one.get_ydata()).tolist() for one in grid[0, 1].get_lines()]
    assert drawn == [[-2.0, 2.0], [-3.0, -3.0]]  # at x = -1 and 1
    assert [title(ax) for ax in grid[0]] == ["start", "round 1"]
    assert grid[0, 0].get_ylabel() == "below"
    assert len(grid[0, 0].collections[0].get_offsets()) == 2
    lengths = np.array([[2.0, 2.1], [1.0, 0.9]])
    ax = draw(rr.plot_noise_of_means, np.array([3.0, 6.0]), lengths, [2.0, 1.0], bound=0.3)
    assert np.allclose(line(ax, 0)[:, 1], [2, 1]) and line(ax, -1)[0, 1] == 0.3
    assert any("√d" in text for text in texts(ax))
    ax = draw(rr.plot_found, {"below": {"ifca": [0, 0, 1], "rr_ifca": [4, 4, 4]}})
    marks = np.concatenate([one.get_xydata() for one in ax.get_lines()])
    assert len(marks) == 6 == len(np.unique(marks, axis=0))  # one for each seed
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"IFCA", "RR-Cluster"}
    errors, split = {1.0: np.array([3.0, 1.0, 2.0])}, np.array([[0.0, 0.1, 0.2], [3.0, 1.0, 0.5]])
    three = draw(rr.plot_bias_variance, [0, 10, 20], errors, split, split, grid=3)
    assert line(three[0], 1).tolist() == [[10.0, 1.0]]  # a ring at the best
    assert line(three[1], "bias²")[0, 1] > 0  # an exact zero stays on the log axis
    assert len({title(ax) for ax in three}) == 3
    counts = np.array([[20.0, 5.0], [22.0, 1.0], [12.0, 11.0]])
    runs = {"without": counts, "with": counts}
    pair = draw(rr_results.plot_counts, runs, 2.5, [(1, 1, 0)], grid=2)
    assert texts(pair[1]) == ["model 1 replaced"] and "model 0" in texts(pair[0])
    assert np.allclose(line(pair[1], 0)[:, 1], counts[:, 0])


def test_identifiers_and_accounting_of_rr() -> None:
    half, sigmas = np.array([0.1, 0.4]), np.array([0.5, 1.0])
    rates = {"Gaussian": [0.7, 0.6]}
    pair = draw(rr.plot_flips, sigmas, {4: half}, {4: half}, {8.0: 1.3}, [2, 8], rates, grid=2)
    assert np.allclose(line(pair[0], "k = 4")[:, 1], half)
    assert "ε = 8" in texts(pair[0]) and "a blind guess" in texts(pair[1])
    expected = {4: np.array([1.0, 1e-9]), 8: np.array([10.0, 0.1])}
    measured = {8: [(1.9, 0.2), (3.0, 0.0)]}
    ax = draw(rr.plot_moved, [0.5, 2.0], expected, {8.0: 1.9}, measured)
    assert np.isnan(line(ax, "B = 4")[1, 1])  # too small to be seen
    marks = [one.get_xydata().tolist() for one in ax.get_lines() if one.get_marker() == "s"]
    assert marks == [[[1.9, 0.2]]]  # nothing is drawn where nobody was moved
    curves = {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}
    ax = draw(rr.plot_accountants, [1, 10], curves, 2.23, n_rounds=100)
    assert "floor 2.23" in texts(ax) and "100" in ax.get_ylabel()
    ax = draw(rr.plot_relations, [2, 8], {"wor_rdp": [4.9, 1.9], "poisson_rdp": [1.5, 0.7]})
    assert np.allclose(line(ax, 1)[:, 1], [1.5, 0.7])
    worlds = {"with": [[1, 1], [-1, -1, -1]], "without": [[1, -1], [-1, -1]]}
    pair = draw(rr.plot_counter_example, worlds, grid=2)
    assert {"A", "sum +2 C", "sum −3 C"} <= set(texts(pair[0]))
    assert {"moved", "sum 0 C", "sum −2 C"} <= set(texts(pair[1]))
    assert sum(getattr(t, "arrow_patch", None) is not None for t in pair[0].texts) == 5
    ax = draw(rr.plot_shifts, {"breaks": 2.24, "holds": 2.0})
    first, second = (bar.get_facecolor() for bar in ax.patches)
    assert first != second and {" 2.24", " 2.00"} <= set(texts(ax))


def test_theory_of_rr() -> None:
    def row(method: str, epsilon: float, sigma: float, low: float, high: float) -> Table4Row:
        return Table4Row(method, epsilon, 87.5, 56, sigma, low, high, 2.0, 0.4)

    rows = [
        row("DP-IFCA", 4.0, 2.0, 1.0, np.inf),
        row("RR-Cluster(IFCA) B=8", 4.0, 0.0, 0.0, 0.4),
        row("RR-Cluster(IFCA) B=8", np.inf, 0.0, 0.0, 0.4),
    ]
    ax = draw(rr.plot_table_4, rows)
    assert np.allclose(line(ax, "needed by the accounting")[:, 1], [2.0])
    assert np.allclose(line(ax, "DP-IFCA")[:, 1], [2.0])
    assert (line(ax, "RR-Cluster, B=8")[:, 1] > 0).all()  # a zero stays on the log axis
    x = np.array([0.5, 1.0])
    term = dict.fromkeys(("truth", "printed", "literal", "corrected"), x)
    tails = {"bound": x, "above": x, "below": x}
    distances = {"truth": 0.99 ** np.arange(9), "printed": 0.1 ** np.arange(9)}
    three = draw(rr.plot_convergence, x, term, [50, 60], tails, distances, grid=3)
    names = {text.get_text() for text in three[0].get_legend().get_texts()}
    assert names == {"truth", "printed", "read literally", "corrected"}
    assert np.isnan(line(three[2], "printed")[-1, 1])
    assert not np.isnan(line(three[2], "truth")).any()


def rr_rows() -> pd.DataFrame:
    base = {"setting": "balanced", "model": "softmax", "k": 4, "rounds": 50}
    shared = {"sampling": "fixed", "accountant": "wor_rdp", "reference": "ifca"}
    shared |= {"reference_identifiers": "corrected"}
    rows = [
        base | {"method": m, "identifiers": i, "B": b, "epsilon": e}
        for m, (i, b) in rr_results.MAIN.items() for e in (2.0, np.inf)
    ]  # fmt: skip
    last = rows[-2]
    rows += [last | {"setting": "imbalanced"}, last | {"k": 2, "rounds": 100}]
    rows += [last | {"B": 25}, last | {"identifiers": "printed"}, last | {"sampling": "poisson"}]
    return pd.DataFrame([shared | row for row in rows])


def test_rows_of_the_committed_tables_of_rr() -> None:
    found = rr_results.main_rows(rr_rows())
    assert found["method"].tolist() == list(rr_results.MAIN)
    assert (found["epsilon"] == 2).all() and (found["setting"] == "balanced").all()
    gains = rr_results.paired_gains(rr_rows(), "sums_ifca_reseed")
    assert gains["label"].tolist() == ["base setting", "2:1:1", "T = 100 k = 2"]


def test_runs_of_rr() -> None:
    one_hots = np.eye(2)[[1, 0, 1]]
    views = (one_hots, [1, 0, 1], np.zeros((3, 4)), [1.2, 2.1], [1, 2])
    three = draw(rr_results.plot_views, *views, grid=3)
    shown = np.asarray(three[0].get_images()[0].get_array())
    assert shown.tolist() == [[1, 0], [0, 1], [0, 1]]  # sorted by the true group
    assert heights(three[2]) == [1.2, 2.1]
    runs = pd.DataFrame(
        [("ifca", "fixed", 2.0, 0.3), ("ifca", "fixed", 2.0, 0.5), ("fedavg", "poisson", 4.0, 0.6)],
        columns=["method", "sampling", "epsilon", "accuracy"],
    )
    pair = draw(rr_results.plot_comparison, runs, remark="remark", grid=2)
    assert line(pair[0], "DP-IFCA")[0] == pytest.approx([0, 0.4])
    assert line(pair[1], "DP-FedAvg")[1] == pytest.approx([1, 0.6])  # the second epsilon
    assert [title(ax) for ax in pair] == ["Fixed size, replace-one", "Poisson, add/remove"]
    assert "DP-FedAvg" in texts(pair[1]) and "DP-FedAvg" not in texts(pair[0])
    assert "remark" in texts(pair[0])
    accuracy = pd.DataFrame(
        [("ifca", 2.0, 0.3, 0.01), ("ifca", 8.0, 0.6, 0.01), ("sums_ifca", 2.0, 0.6, 0.02)],
        columns=["method", "epsilon", "acc_mean", "ci95"],
    )
    paired = pd.DataFrame(
        [("base", 2.0, 0.3, 0.01), ("base", 8.0, -0.1, 0.01), ("other", 2.0, 0.0, 0.1)],
        columns=["label", "epsilon", "diff_mean", "ci95"],
    )
    left, right = draw(rr_results.plot_results, accuracy, paired, grid=2)
    drawn = [bars.lines[0].get_ydata().tolist() for bars in left.containers]
    assert np.allclose(drawn[0], [30, 60]) and np.allclose(drawn[1], [60])
    assert np.allclose([bars.lines[0].get_xdata()[0] for bars in right.containers], [30, -10, 0])
    assert len({bars.lines[0].get_color() for bars in right.containers}) == 3  # also undecided
    assert [t.get_text() for t in right.get_yticklabels()] == ["base", "other"]
    shares, methods = {0.1: TWICE, 0.5: TWICE}, ("sums_ifca", "sums_ifca_reseed")
    three = draw(
        rr_results.plot_limits, ([0.05, 0.25], shares), ([2, 4], TWICE),
        ([0.5, 1.0], dict.fromkeys(methods, TWICE)), grid=3,
    )  # fmt: skip
    assert np.allclose(line(three[0], "threshold 0.1")[:, 1], [0.3, 0.9])
    assert np.allclose(line(three[2], "sums only")[:, 1], [0.3, 0.9])
    assert "truth" in texts(three[1])


def test_choice_marks_the_live_run() -> None:
    three = draw(
        rr_results.plot_choice, sigmas=[0.2, 1.0], wrong=[0.0, 0.4], sigma=0.0, flip_rate=0.0,
        sizes={"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, min_size=4,
        curve=([0, 4], [0.2, 0.3], [0.4, 0.5]), accuracy=0.45, title="B = 4", grid=3,
    )  # fmt: skip
    assert title(three[0]) == "1  0% of identifiers wrong"
    assert line(three[0], 1).tolist() == [[0.2, 0.0]]  # no noise: left end
    assert heights(three[1]) == [9.0, 1.0, 5.0, 5.0]
    assert line(three[2], -1).tolist() == [[4.0, 0.45]]
    assert three[0].figure.get_suptitle() == "B = 4"
