"""Every figure draws what the data say on the axes it was given, and leaves its inputs alone.

`draw` holds what all share: the axes come back, nothing is written to the inputs, and the figure
renders without a warning.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
X = np.array([0.1, 0.5, 1.0, 2.0])
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
    for looks in (feddp.METHODS, rr.METHODS, rr.ACCOUNTANTS):
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
    assert "exact means (crosses) by 0.07 to 0.07" in " ".join(title(ax).split())
    asked = {"epsilon": 2.0, "start": true_centers}
    ax = draw(start.plot_private_clusters, mixture, moved, true_centers, **asked)
    cost, best = (nicv(mixture, m) for m in (moved, true_centers))
    assert title(ax) == f"ε = 2: NICV {cost:.4f}\nwithout noise: {best:.4f}"
    assert np.allclose(ax.collections[1].get_offsets(), moved)


# --- notebook 01 ----------------------------------------------------------------------------------

SIMPLE: dict[str, tuple[Any, ...]] = {
    "reconstruction": (fl.plot_reconstruction, RNG.uniform(-1, 1, (20, 2)), [0.1, -0.9],
                       [0.1, -0.9], RNG.normal(0, 20, (30, 2))),
    "table": (fl.plot_table, pd.DataFrame(RNG.uniform(5, 30, (20, 2)), columns=["radius", "size"]),
              [[10.0, 10.0]], [[11.0, 12.0]]),
    "run": (fl.plot_run, RNG.uniform(-1, 1, (20, 2)), RNG.uniform(-1, 1, (3, 4, 2))),
    "hospitals": (fl.plot_hospitals, [RNG.uniform(-1, 1, (9, 2))] * 2, [np.zeros((2, 2))] * 2,
                  np.ones((2, 2))),
    "masked": (fl.plot_masked, [{n: RNG.integers(0, 2**32, 99) for n in "abc"}] * 2, ["t", "u"],
               32),
    "rounding": (fl.plot_rounding, lambda m, sd, rule: np.abs(m) + 1.0,
                 lambda epsilon, sd, rule: 1 / (1 + epsilon), 9.0, (0.1, 1e-5)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIMPLE)
def test_figures_of_fastlloyd(name: str) -> None:
    axes = draw(*SIMPLE[name], grid=2 if name in ("hospitals", "masked", "rounding") else ())
    for ax in plots.panels(axes):
        assert ax.has_data() and ax.get_xlabel()


def test_fastlloyd_draws_the_bound_the_circles_and_the_changes() -> None:
    rates = {"exact": ([0, 0, 1], [0, 1, 1]), "ours": ([0, 0.5, 1], [0, 0.6, 1])}
    bound = line(draw(fl.plot_roc, rates, mu=0.5, bound_label="most"), "most")
    assert np.allclose(bound[:, 1], norm.cdf(norm.ppf(bound[:, 0]) + 0.5))
    history = RNG.uniform(-1, 1, (3, 4, 2))
    ax = draw(fl.plot_run, RNG.uniform(-1, 1, (20, 2)), history, radius=0.3)
    assert np.allclose(ax.collections[-1].get_offsets(), history[-1])
    circles = [line(ax, i) for i in range(4, 8)]
    assert np.allclose(np.linalg.norm(circles - history[-1][:, None], axis=2), 0.3)
    ax = draw(fl.plot_changes, [[3.0, 1.0, 2.0], [5.0, 0.5, 1.5]])
    assert np.allclose(line(ax, "relative sum, one added"), [[0.5, 50], [1, 100]])
    assert {"η", "2η"} <= set(texts(ax))


def test_breaks_tell_the_cost_of_privacy_from_that_of_the_start() -> None:
    loss = {2: [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], 8: [[2.0, 6.0], [2.0, 6.0], [2.0, 6.0]]}
    axes = draw(fl.plot_breaks, loss, loss, grid=2)
    for ax in axes:
        assert np.allclose(line(ax, "privacy"), [[2, 3], [8, 2]])  # medians of three sets
        assert np.allclose(line(ax, "start"), [[2.14, 4], [8.56, 6]])
        low, high = ax.get_ylim()
        assert low < 1 and high > 8  # 10 to 90 %


def test_wins_are_shares_of_cells() -> None:
    found = "better in 3, worse in 1, tie in 4 of 8 cells"
    rows = pd.DataFrame(
        [
            ("L.a", "Fig. 2", "FastLloyd beats GLloyd in all cases", found),
            ("L.b", "Fig. 2", "glloyd beats SuLloyd", found),
            ("L.c", "Fig. 5", "Step beats Constant", found),
            ("L.d", "Table 3", "FastLloyd sends few bytes", "equal in 9 rows"),
        ],
        columns=["id", "where", "statement", "found"],
    ).set_index("id")
    ax = draw(fl.plot_wins, rows)
    assert np.allclose(line(ax, "better"), [[37.5, 1], [37.5, 0]])
    assert np.allclose(line(ax, "worse")[:, 0], 12.5)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["Fig. 2: cost, against GLloyd (8)", "Fig. 5: Step beats Constant (8)"]


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
    refuses(ValueError, "three means", feddp.plane_between, means[:2])


def test_server_data_weights_and_start(made: paper_data.FederatedDataset) -> None:
    inside = made.in_distribution
    ax = draw(feddp.plot_server_data, made)
    sizes = [len(c.get_offsets()) for c in ax.collections]
    assert sizes == [300, 20, 8, 4]  # rows, same kind, other kind, means
    weights = np.where(inside, 9.0, -1.0)  # noise can make a weight negative
    pair = draw(feddp.plot_weights, made, weights, grid=2)
    before, after = (ax.collections for ax in pair)
    assert len(set(before[1].get_sizes()) | set(before[2].get_sizes())) == 1
    assert (after[2].get_sizes() == 0).all()
    assert after[1].get_sizes().min() > before[1].get_sizes().min()
    assert [ax.get_xlabel() for ax in pair] == [
        "other kind (squares): 29% of the weight", "other kind (squares): 0% of the weight",
    ]  # fmt: skip
    init = InitResult(
        eigenvalues=np.array([5e4, 2e4, -1.0, -2.0]), basis=np.eye(6)[:, :4],
        server_projected=np.zeros((28, 4)), weights=np.ones(28), kept=np.ones(28),
        projected_centers=np.zeros((4, 4)), sums=np.zeros((4, 6)), counts=np.ones(4),
        centers=made.true_centers,
    )  # fmt: skip
    row = draw(feddp.plot_init, made, init, noise=1e4, best=3.0, epsilon=0.812, grid=3)
    share = subspace_energy(init.basis, made.true_centers)
    cost = kmeans_cost(made.points, made.true_centers, normalize=True)
    assert [title(ax) for ax in row] == [
        f"1  subspace keeps {share:.0%}", "2  other kind weighs 29%",
        f"3  {cost - 3:.2f} above the optimum",
    ]  # fmt: skip
    assert "ε = 0.81" in row[0].figure.get_suptitle()
    assert line(row[0], 0)[0, 1] == 10.0  # thousands


def test_pictures_need_the_truth(made: paper_data.FederatedDataset) -> None:
    photo = paper_data.make_image_federation(rng=np.random.default_rng(0))
    refuses(ValueError, "true_centers", feddp.plot_server_data, plt.figure().gca(), photo)


def test_steps_of_feddp() -> None:
    private = {"oracle": TWICE, "server_lloyds": 3 + TWICE}
    exact = {"oracle": 0 * TWICE, "server_lloyds": TWICE}
    left, right = draw(feddp.plot_rounds, [1, 2], exact, private, grid=2)
    assert np.allclose(line(left, "ServerLloyds")[:, 1], [0.3, 0.9])
    assert np.allclose(line(right, "ServerLloyds")[:, 1], [3.3, 3.9])
    named = [text.get_text() for text in left.get_legend().get_texts()]
    assert set(named) == {"a start that knows", "ServerLloyds"}
    energy = {"mirror": TWICE, "average": TWICE}
    ax = draw(feddp.plot_subspace, [0.1, 1], energy, {"mirror": 0.4, "average": 0.3})
    assert {0.4, 0.3} <= verticals(ax)
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9])


def test_audit_and_theory_of_feddp() -> None:
    same = RNG.standard_normal(500)
    scores = {"fine": (same, same + 0.1), "bad": (same, same + 3)}
    claims = {"delta": 1e-6, "claimed_mu": 0.24, "claimed_epsilon": 1.0}
    reports = [audit_canary(*pair, **claims) for pair in scores.values()]
    pair = draw(feddp.plot_audit, scores, 0.24, reports, grid=2)
    assert "ALARM" not in texts(pair[0])[0]
    bound = reports[1].mu_lower_bound  # a lower bound is never rounded up
    shown = float(texts(pair[1])[0].split()[4])
    assert bound - 0.01 < shown <= bound and texts(pair[1])[0].endswith("claimed: 0.24 ALARM")
    bell = line(pair[0], 0)
    assert bell[:, 1] == pytest.approx(norm.pdf(bell[:, 0], 0.24))
    ax = draw(feddp.plot_floor, [4, 16], TWICE, [0.1, 0.1], [0.3, 0.8])
    assert np.allclose(line(ax, "measured")[:, 1], [0.3, 0.9])
    assert np.allclose(line(ax, "floor as printed")[:, 1], 0.1)


def test_runs_of_feddp() -> None:
    costs = pd.DataFrame({"feddp": [np.nan, 0.5, 0.0, 9.0]}, index=[0.0, 0.5, 1.0, np.inf])
    ax = draw(feddp.plot_costs, costs, ["feddp"])
    assert line(ax, "FedDP-KMeans").tolist() == [[0.5, 0.5], [1.0, 1e-4]]  # private runs only
    index = pd.MultiIndex.from_tuples(
        [("client", 1000, 1.0), ("client", 2000, 1.0), ("point", 100, 1.0)],
        names=["level", "clients", "eps_total"],
    )
    ratio = pd.DataFrame({"feddp": [1.2, 0.7, 0.01]}, index)
    ax = draw(feddp.plot_planning, pd.Series([14.0, 7.0, 0.6], index), ratio)
    assert line(ax, "FedDP-KMeans, one client").tolist() == [[14.0, 1.2], [7.0, 0.7]]
    assert line(ax, "FedDP-KMeans, one point").tolist() == [[0.6, 0.01]]
    ax = draw(feddp.plot_missing, [0, 5], {"feddp": TWICE}, 10)
    assert np.allclose(line(ax, 0)[:, 1], [0.3, 0.9]) and "of 10" in ax.get_xlabel()
    pair = draw(feddp.plot_limits, ([0.5, 1], TWICE), ([5000, 20000], TWICE), grid=2)
    assert 1.0 in verticals(pair[0])  # the radius that is needed
    assert len({title(ax) for ax in pair}) == 2


def test_costs_beside_the_best_public_start() -> None:
    cells = lesson.against_starts()
    assert len(cells) == 20 and not cells.isna().any().any()
    best = lesson.best_costs()
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
    assert feddp.paint(patches) == pytest.approx(image / 255)
    two = np.array([[-0.5] * 3, [0.5] * 3]) / np.sqrt(3)
    assert feddp.paint(patches, two) == pytest.approx(0.25 + 0.5 * image / 255)
    refuses(ValueError, "image", feddp.image_patches, np.zeros((4, 6)))
    colours = {"feddp": photo.points[:8], "server_lloyds": photo.points[8:16]}
    axes = draw(feddp.plot_photographs, colours, grid=(2, 2))
    assert "held in 64 strips" in title(axes[0, 0])
    shown = [len(np.unique(np.round(ax.images[0].get_array(), 6).reshape(-1, 3), axis=0))
             for ax in axes[1]]  # fmt: skip
    assert max(shown) <= 8  # colours


# --- notebook 03 ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def points() -> NDArray[np.float64]:
    return datasets.make_ball_mixture(40_000, 2, 3, rng=np.random.default_rng(3)).points


@pytest.fixture(scope="module")
def one(points: NDArray) -> Run:
    rng = np.random.default_rng(0)
    return one_round(simulate(points, "local", seed=1), n_clusters=3, epsilon=4.0, rng=rng)


@pytest.fixture(scope="module")
def four(points: NDArray) -> tuple[Federation, Run]:
    users = simulate(points, "local", seed=1, keep_payloads=True)
    rng = np.random.default_rng(0)
    return users, four_rounds(users, n_clusters=3, epsilon=4.0, rng=rng, lsh=True, t=2)


def test_building_blocks_of_ldp() -> None:
    ax = draw(ldp.plot_coin, RNG.normal(40, 1, 200), RNG.normal(30, 2, 200), 30.0)
    assert {"naive count", "corrected", "truth"} <= set(texts(ax))
    assert verticals(ax) == {30.0} and "off by +10" in title(ax)
    estimates = RNG.normal(0, 1000, 4096)
    at, counts = np.array([5, 9]), np.array([8500, 4500])
    estimates[at] = [9000, 4000]
    ax = draw(ldp.plot_spectrum, estimates, at, counts, std=1000.0)
    drawn = [np.ravel(one.get_xdata()) for one in ax.get_lines() if len(one.get_xdata()) == 2]
    for expected in ([9, 4], [8.5, 4.5], [5, 5]):  # estimates, truth, threshold
        assert any(np.allclose(x, expected) for x in drawn)
    assert "1 of 2 popular places" in title(ax)
    assert ax.patches[0].get_data().values.sum() == pytest.approx(4094, rel=0.02)  # the others
    errors = {1.0: [3.0, 5.0, 20.0], 8.0: [9.0, 2.0, 3.0]}
    ax = draw(ldp.plot_answers, [1, 4, 10], errors, {1.0: {1: 3.1}, 8.0: {4: 2.1, 10: 3.0}})
    assert title(ax) == "Best number of answers: 1 at ε = 1, 4 at ε = 8"
    assert np.allclose(line(ax, "ε = 8"), [[4, 2.1], [10, 3]])


def test_cells_of_ldp(points: NDArray, one: Run) -> None:
    costs = {0.5: (5.0, 2.0), 0.25: (3.0, 1.5)}
    row = draw(ldp.plot_corners, points, 3, costs, grid=2)
    _, *places = (c.get_offsets() for c in row[0].collections if not isinstance(c, PatchCollection))
    corners, centers = (np.asarray(p) for p in places)
    assert np.allclose(centers - corners, 0.125)  # half a side
    assert squares(row[0]) == [len(corners)]
    assert np.allclose(line(row[1], 0)[:, 1], [5, 3])
    assert title(row[1]) == "At side 0.25 corners cost 3.0, centres 1.5"
    assert one.chosen is not None
    ax = draw(ldp.plot_run, points, one, one.centers)
    assert squares(ax) == [int((one.chosen.depth == level.depth).sum()) for level in one.levels]
    assert np.allclose(ax.collections[-1].get_offsets(), one.centers)
    ax = draw(ldp.plot_seen, {100: 0.2, 200: 0.5}, 200, 0.02)
    assert line(ax, 0).tolist() == [[100, 0.2], [200, 0.5]] and "50% of runs at 200" in title(ax)


def test_a_board_and_the_fit_of_a_sketch(points: NDArray) -> None:
    fit = np.array([[0.0, 0.1], [0.5, 0.2]]), np.array([0.25, 0.75])

    def halves(places: Any, at: Any) -> Any:
        return (places[:, 0] > at[0]).astype(int)

    board = halves, (np.array([0.0, 0.5]),)
    row = draw(ldp.plot_sketch, points, board, fit, points[:3], "fits", grid=2)
    image = np.asarray(row[0].get_images()[0].get_array())
    assert (image[:, :200] == 0).all() and (image[:, 200:] == 1).all()
    weights, best = row[1].collections
    assert weights.get_sizes().tolist() == [1000, 3000] and len(best.get_offsets()) == 3
    assert title(row[1]) == "fits"


def test_a_photograph_in_released_colours() -> None:
    image = np.zeros((4, 6, 3))
    image[:, 3:] = 255
    row = draw(ldp.plot_photograph, image, [[10.0] * 3, [260.0] * 3], 1.5, grid=2)
    painted = np.asarray(row[1].get_images()[0].get_array())
    assert np.unique(painted[:, :2]) == 10 and np.unique(painted[:, 2:]) == 255
    assert title(row[1]) == "2 released colours, 1.50 times the best cost"


def test_run_without_cells_can_be_drawn(points: NDArray) -> None:
    users = simulate(points[:1000], "local", seed=1)
    with pytest.warns(lk.NothingDetectedWarning):
        blind = one_round(users, n_clusters=3, epsilon=0.05, rng=np.random.default_rng(0))
    assert sum(squares(draw(ldp.plot_run, points, blind))) == 0


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


def test_cost_by_trust_is_drawn_above_the_best() -> None:
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
    ax = draw(ldp.plot_trust, costs)
    assert np.allclose(line(ax, "local: sketch"), [[10, 0.2], [100, 0.02]])
    assert "takes 1 times the users" in title(ax)


def test_cost_by_columns_takes_vectors_beyond_six_columns() -> None:
    table = ldp_table()
    wrong = (table["algorithm"] == "alg1_hso") & (table["dprime"] == 2)
    table.loc[wrong, "cost_per_point"] = 77.0
    ratios = ldp_lesson.cost_by_columns(table, n=10**5, epsilon=4.0)
    assert ratios.index.tolist() == ["four rounds", "one round"]
    assert ratios.columns.tolist() == [2, 10] and np.allclose(ratios, [1.0, 5.0])


def test_over_best_has_mixtures_by_n_method_and_size() -> None:
    rows = [
        ("mixture", 10, 2, 5, m, 1.0, v) for m, v in (("alg1", 3.0), ("alg4", 9.0), ("sketch", 1.5))
    ]
    columns = "data n dprime k algorithm epsilon over_optimum".split()
    table = pd.DataFrame([*rows, ("rings", 10, 2, 5, "alg1", 1.0, 8.0)], columns=columns)
    found = ldp_lesson.over_best(table)
    assert found.loc[(10, "Algorithm 1"), (2, 5)] == 3 and found.loc[(10, "sketch"), (2, 5)] == 1.5
    assert found.shape == (2, 1)


def test_a_scorer_compares_with_k_means(points: NDArray) -> None:
    best, ratio = ldp_lesson.scorer(points, 3, rng=np.random.default_rng(0))
    assert ratio(best) == 1 and np.isnan(ratio(best[:2])) and ratio(points[:50]) > 1
    assert ratio(np.zeros((3, 2))) == kmeans_cost(points, np.zeros((3, 2))) / kmeans_cost(
        points, best
    )


def test_four_rounds(points: NDArray, four: tuple[Federation, Run]) -> None:
    users, result = four
    row = draw(ldp.plot_rounds, points, result, result.centers, (1.2, 1.5), grid=4)
    heavy, candidates = result.heavy, result.candidates
    assert heavy is not None and candidates is not None
    assert squares(row[0]) == [len(cells) for cells in heavy.cells]
    places = [len(c.get_offsets()) for c in row[1].collections[1:]]
    assert sum(places) == len(candidates) and places[0] == len(heavy.centers())
    assert np.allclose(row[3].collections[-1].get_offsets(), result.centers)
    table = ldp_lesson.said_by_users(users, points)
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
    refuses(ValueError, "divided", ldp_lesson.said_by_users, users, points)
    four_rounds(users, n_clusters=3, epsilon=4.0, rng=np.random.default_rng(0))
    refuses(ValueError, "payloads", ldp_lesson.said_by_users, users, points)


# --- notebook 04 ----------------------------------------------------------------------------------


def test_names_are_those_of_the_tables_and_the_accountants() -> None:
    assert set(rr.ACCOUNTANTS) == set(accounting.ACCOUNTANTS)
    private = [rr.METHODS[m][1:] for m in ("fedavg", "ifca", "rr_ifca", "sums_ifca")]
    assert len({color for color, _ in private}) == len({mark for _, mark in private}) == 4


def test_algorithm_of_rr() -> None:
    begin, end = np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([[2.0, 0.0], [0.0, -3.0]])
    runs = {"below": [(1, [begin, begin]), (3, [begin, end]), (3, [end, begin])]}
    grid = draw(rr.plot_ifca, runs, (0, 1), grid=(1, 2))
    drawn = [np.asarray(one.get_ydata()).tolist() for one in grid[0, 1].get_lines()]
    assert drawn == [[-2.0, 2.0], [-3.0, -3.0]]  # at x = -1 and 1, of the first best run
    assert [title(ax) for ax in grid[0]] == ["start", "round 1"]
    assert grid[0, 0].get_ylabel() == "below: 3 found"
    lengths = np.array([[2.0, 2.2], [1.0, 0.8]])
    ax = draw(rr.plot_noise_of_means, np.array([3.0, 6.0]), lengths, [2.0, 1.0], bound=0.3)
    assert np.allclose(line(ax, 0)[:, 1], [2, 1]) and line(ax, -1)[0, 1] == 0.3
    assert title(ax) == "Even 6 updates: noise of 3.0 times C"
    history = [np.array([[3, 1], [2, 2], [4, 0]]), np.array([[1, 3], [2, 2], [2, 2]])]
    row = draw(rr.plot_sizes, history, 2, grid=3)
    assert [title(ax) for ax in row] == [
        "as chosen: 1 to 3", "after noise: 2 to 2", "after rebalancing, B = 2: 0 to 4"
    ]  # fmt: skip
    assert line(row[0], 0).tolist() == [[0, 3], [1, 1]]
    ax = draw(rr.plot_woken, {("below", 0): [0, 0, 4], ("below", 15): [4, 4, 4]})
    assert title(ax) == "Runs that found all four lines: 1, 3 of 3"
    assert ax.collections[0].get_sizes().tolist() == [120, 60]


def test_identifiers_and_accounting_of_rr() -> None:
    ax = draw(rr.plot_identifiers, lambda s: 1 / (1 + s), {1.0: 0.5, 4.0: 0.25}, 4)
    assert line(ax, "integral")[0] == pytest.approx([0.2, 1 / 1.2])
    assert line(ax, "simulated").tolist() == [[1, 0.5], [4, 0.25]]
    assert title(ax) == "50% to 75% of the noised identifiers are wrong"
    curves = {"paper": [3.0, 2.3], "wor_rdp": [2.0, 0.5]}
    ax = draw(rr.plot_accountants, [1, 10], curves, 2.23, n_rounds=100)
    assert "floor 2.23" in texts(ax) and "100" in ax.get_ylabel() and "below 2.23" in title(ax)
    worlds = {"with": [[1, 1], [-1, -1, -1]], "without": [[1, -1], [-1, -1]]}
    pair = draw(rr.plot_counter_example, worlds, grid=2)
    assert {"A", "sum +2 C", "sum −3 C"} <= set(texts(pair[0]))
    assert {"moved", "sum 0 C", "sum −2 C"} <= set(texts(pair[1]))
    assert sum(getattr(t, "arrow_patch", None) is not None for t in pair[0].texts) == 5


def test_runs_of_rr() -> None:
    scores = {"rr_ifca": {2.0: [0.3, 0.5], 4.0: [0.5, 0.5]}, "fedavg": {2.0: [0.6], 4.0: [0.7]}}
    ax = draw(rr.plot_comparison, scores, 0.63)
    assert line(ax, "RR-Cluster")[0] == pytest.approx([2, 0.4])
    assert line(ax, "each client alone")[0, 1] == 0.63
    assert title(ax) == "At ε = 4 best: DP-FedAvg, 0.70"
    made = paper_data.make_rotated_digits(8, n_train=4, n_test=1, rng=np.random.default_rng(0))
    models = RNG.normal(size=(2, 65 * 10))
    score = SimpleNamespace(choices=np.zeros(8, dtype=int), groups_alone=1)
    row = draw(rr.plot_threes, models, score, made, grid=2)
    shown = np.asarray(row[1].get_images()[0].get_array())
    assert np.array_equal(shown.ravel(), models[1].reshape(-1, 10)[:64, 3])
    assert [ax.get_xlabel() for ax in row] == [
        "8 clients,\n25% from group 1", "0 clients,\nnobody"
    ]  # fmt: skip


def test_choice_marks_the_live_run() -> None:
    pair = draw(
        rr.plot_choice, sigmas=[0.2, 1.0], wrong=[0.0, 0.4], sigma=0.0, flip_rate=0.0,
        sizes={"as chosen": [1.0, 9.0], "as used": [5.0, 5.0]}, min_size=4,
        title="B = 4", grid=2,
    )  # fmt: skip
    assert title(pair[0]) == "1  0% of identifiers wrong"
    assert line(pair[0], 1).tolist() == [[0.2, 0.0]]  # no noise: left end
    assert heights(pair[1]) == [9.0, 1.0, 5.0, 5.0]
    assert pair[0].figure.get_suptitle() == "B = 4"
