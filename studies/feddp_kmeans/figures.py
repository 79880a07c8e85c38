"""Figures of notebook 02: each draws numbers that the notebook computed, and returns its axes.

`METHODS` names the methods, told apart by marker, dash and lightness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.datasets import load_sample_image

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, as_points
from fedclust_helpers.audit.canary import CanaryAudit
from fedclust_helpers.feddp_kmeans import InitResult
from studies.bench.plots import (
    MAX_SHOWN,
    audit,
    bare,
    centers,
    cloud,
    crosses,
    curves,
    finish,
    headline,
    note,
    panels,
)
from studies.bench.style import (
    BLUE,
    DARK,
    DASHED,
    MUTED,
    PLUM,
    PURPLE,
    Look,
)
from studies.feddp_kmeans.bounds import eigengap, subspace_energy
from studies.paper_data import FederatedDataset
from studies.paper_data.federated import colour_patches

RUST = "#b3541e"
"""Dark orange: told from blue and from grey in print."""

METHODS: Mapping[str, Look] = {
    "feddp": Look("FedDP-KMeans", BLUE, "o-"),
    "feddp_adaptive": Look("adaptive (ours)", PURPLE, "D-"),
    "server_lloyds": Look("ServerLloyds", RUST, "s--"),
    "server_kmeanspp": Look("ServerKMeans++", MUTED, "v:"),
    "sphere_packing": Look("SpherePacking", PLUM, "^-."),
    "knows": Look("a start that knows", DARK, "o-"),
}
"""Look of each method; the keys are those of the result tables."""

INSIDE, OUTSIDE = BLUE, RUST  # server points like the clients' rows, and others
EXCESS = "per cent above the best"

# --- the data and the steps -----------------------------------------------------------------------


def plane_between(means: ArrayLike) -> NDArray[np.float64]:
    """Orthonormal directions (d, 2) along which the means differ most: the plane of the pictures.

    Made from the truth, so for pictures only.
    """
    means = as_points(means, "means")
    if len(means) < 2 or means.shape[1] < 2:
        raise ValueError("means must hold at least two means of at least two features")
    return np.linalg.svd(means - means.mean(axis=0))[2][:2].T


def _rows(ax: Axes, points: ArrayLike, plane: NDArray[np.float64]) -> None:
    """Client rows in the plane, and a frame without ticks that fills its place."""
    cloud(ax, np.asarray(points) @ plane, size=5).set(xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")


def _plane_of(made: FederatedDataset) -> tuple[FloatArray, FloatArray, Any, FloatArray]:
    """The plane between the means; means there; the clients' kind; server points there."""
    if made.true_centers is None or made.in_distribution is None:
        raise ValueError("made must have true_centers and in_distribution")
    plane, inside = plane_between(made.true_centers), np.asarray(made.in_distribution, dtype=bool)
    return plane, made.true_centers @ plane, inside, made.server_points @ plane


def _scene(ax: Axes, made: FederatedDataset, weights: ArrayLike | None = None) -> float:
    """Rows, means and server points, by area of their weight; the share of those elsewhere."""
    plane, means, inside, at = _plane_of(made)
    _rows(ax, made.points, plane)
    weight = np.ones(len(at)) if weights is None else np.maximum(np.asarray(weights, float), 0)
    area = 18 * weight / max(float(weight.mean()), 1e-9)
    look: dict[str, Any] = {"alpha": 0.75, "linewidths": 0.4, "zorder": 3}
    centers(ax, at[inside], INSIDE, size=area[inside], **look)
    look |= {"facecolor": "none", "edgecolor": OUTSIDE, "linewidths": 1.2}
    centers(ax, at[~inside], "none", "s", size=area[~inside], **look)
    crosses(ax, means)
    return float(weight[~inside].sum() / max(float(weight.sum()), 1e-9))


def plot_server_data(ax: Axes, made: FederatedDataset) -> Axes:
    """Client rows, server points of both kinds and true means in the plane between the means."""
    plane, means, inside, at = _plane_of(made)
    cloud(ax, made.points @ plane, size=5, label="rows of the clients")
    look: dict[str, Any] = {"linewidths": 0, "zorder": 3, "label": "server, same kind"}
    centers(ax, at[inside], INSIDE, size=16, **look)
    look = {"facecolor": "none", "edgecolor": OUTSIDE, "linewidths": 1.3}
    centers(ax, at[~inside], "none", "s", size=22, label="server, other kind", **look)
    crosses(ax, means, label="true means")
    title = f"{(~inside).mean():.0%} of the server's {len(inside)} points are of another kind"
    finish(ax, title, "direction 1 between the means", "direction 2").set(xticks=[], yticks=[])
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


def plot_rounds(
    axes: Any, rounds: Sequence[int], exact: Mapping[str, Any], private: Mapping[str, Any]
) -> Any:
    """Excess cost after T rounds without noise (left) and at one fixed budget (right).

    `exact`, `private` map keys of `METHODS` to arrays of shape (len(rounds), repetitions).
    """
    x, panel = "rounds T", panels(axes)
    for ax, runs in zip(panel, (exact, private), strict=True):
        curves(ax, rounds, runs, METHODS, quantiles=(0, 0.5, 1))
        ax.axhline(0, **DASHED)
    public = next(name for name in exact if name != "knows")
    plain, noised = (np.median(runs[public], axis=1) for runs in (exact, private))
    label, at = METHODS[public].label, rounds[int(noised.argmin())]
    titles = (
        f"Without noise {label} ends {plain.min():.1f} % above",
        f"With noise it gets to {noised.min():.1f} %, at T = {at}",
    )
    finish(panel[0], titles[0], x, EXCESS, log="x", xticks=rounds, names="upper right")
    finish(panel[1], titles[1], x, log="x", xticks=rounds)
    return axes


def plot_subspace(
    ax: Axes, epsilons: ArrayLike, energy: ArrayLike, meets: float, gaps: ArrayLike
) -> Axes:
    """Between-cluster energy kept by the private subspace against the budget of Step 1.

    `energy` has shape (m, repetitions); at epsilon `meets` the noise is predicted to equal the gap.
    `gaps` (m,), noise over gap, stand along the upper edge.
    """
    curves(ax, epsilons, {"": energy}, (Look("_", BLUE),))
    ax.axvline(meets, **DASHED)
    ax.axhline(1, **DASHED)
    note(ax, "here the predicted noise\nequals the gap", (meets, 0.3), (12, 0))
    kept, grid = np.asarray(energy).mean(axis=1), np.asarray(epsilons)
    title = f"Kept: {kept[0]:.0%} at ε = {grid[0]:g}, {kept[-1]:.0%} at {grid[-1]:g}"
    finish(ax, title, "ε of Step 1", "share of energy kept", log="x", xticks=epsilons,
           ylim=(0, 1.08))  # fmt: skip
    upper = ax.secondary_xaxis("top")
    upper.set_xlabel("noise in gaps")
    upper.set_xticks(np.asarray(epsilons), [f"{g:.1f}" for g in np.asarray(gaps)])
    upper.xaxis.set_minor_locator(NullLocator())
    return ax


def plot_weights(axes: Any, made: FederatedDataset, weights: ArrayLike) -> Any:
    """Server points before and after weighting; the area of a mark is its weight."""
    titles = ("Before: every server point counts the same", "After: a point weighs its rows")
    for ax, weight, title in zip(panels(axes), (None, weights), titles, strict=True):
        share = _scene(ax, made, weight)
        finish(ax, title, f"other kind (squares): {share:.0%} of the weight")
    return axes


def plot_init(
    axes: Any, made: FederatedDataset, init: InitResult, *, noise: float, best: float,
    epsilon: float,
) -> Any:  # fmt: skip
    """One run of FedDP-Init in three panels: spectrum, weighted server points, centres.

    Bars are eigenvalues with noise, dark marks without. `noise` is the spectral norm to expect of
    the noise of Step 1, `best` the cost per point of the optimum, `epsilon` the exact total.
    """
    left, middle, right = panels(axes)
    places, values = np.arange(1, len(init.eigenvalues) + 1), np.maximum(init.eigenvalues, 1) / 1e3
    outer = made.points.T @ made.points
    exact = np.linalg.eigvalsh(outer)[::-1][: len(places)] / 1e3
    left.bar(places, values, color=BLUE, width=0.7, label="with noise")
    left.plot(places, exact, "_", color=DARK, markersize=9, markeredgewidth=2, label="without")
    bottom = 0.3 * min(float(values.min()), float(exact.min()))
    share, (plane, means, *_) = _scene(middle, made, init.weights), _plane_of(made)
    assert made.true_centers is not None
    energy = subspace_energy(init.basis, made.true_centers)
    gaps = noise / eigengap(outer, init.basis.shape[1])
    text = (f"1  noise of {gaps:.1f} gaps: keeps {energy:.0%}", "eigenvalue", "size / 1000")
    finish(left, *text, log="y", ylim=(bottom, None), names="upper right")
    finish(middle, f"2  other kind weighs {share:.0%}")
    _rows(right, made.points, plane)
    centers(right, init.centers @ plane, BLUE)
    crosses(right, means)
    cost = kmeans.kmeans_cost(made.points, init.centers, normalize=True)
    finish(right, f"3  {100 * (cost / best - 1):.2g} % above the best")
    box = made.points[:: max(1, len(made.points) // MAX_SHOWN)] @ plane
    for ax in (middle, right):
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=(box[:, 0].min(), box[:, 0].max()), ylim=(box[:, 1].min(), box[:, 1].max()))
    headline(axes, f"FedDP-Init at a total of ε = {epsilon:.2f}")
    return axes


# --- audit, theory, whole runs -------------------------------------------------------------------


def plot_audit(
    axes: Any,
    scores: Mapping[str, tuple[ArrayLike, ArrayLike]],
    claimed_mu: float,
    reports: Sequence[CanaryAudit],
) -> Any:
    """Canary scores without (grey) and with (outline) the canary, one panel for each release.

    `scores` maps titles to (scores without, scores with), in units of the claimed sd.
    """
    for ax, (title, pair), report in zip(panels(axes), scores.items(), reports, strict=True):
        found, alarm = report.mu_lower_bound, report.mu_lower_bound > claimed_mu
        text = f"μ is at least {np.floor(1000 * found) / 1000:.3f}\nclaimed: {claimed_mu:.2f}"
        edges = audit(ax, title, pair, text + " ALARM" * alarm, alarm=alarm)
        grid = np.linspace(edges[0], edges[-1], 200)
        ax.plot(grid, norm.pdf(grid, claimed_mu), color=MUTED, linestyle="--", linewidth=1.2)
        ax.set_xlabel("score of a release / its own noise")
    return axes


def plot_planning(ax: Axes, over: pd.Series, ratio: pd.DataFrame) -> Axes:
    """Cost over that of the best public start against the predicted noise over gap.

    `over` and the columns of `ratio` (keys of `METHODS`) share an index (level, clients, epsilon);
    the levels are client, point, and photograph, where one patch is hidden.
    """
    level, hidden = over.index.get_level_values("level"), {"client": "client", "point": "row"}
    for name in ratio:
        label, color, style = METHODS[str(name)]
        y = np.maximum(ratio[name].to_numpy(), 1e-4)
        for kind in dict.fromkeys(level):
            part, mark = level == kind, style[0] if kind in hidden else "*"
            ax.plot(
                over[part], y[part], mark, color=color, markersize=6 if kind in hidden else 11,
                markerfacecolor=color if kind == "client" else "white",
                label=f"{label}, {f'one {hidden[kind]} hidden' if kind in hidden else kind}",
            )  # fmt: skip
    ax.axhline(1, **DASHED)
    ax.axvline(1, **DASHED)
    below, wins = over < 1, ratio["feddp"] < 1
    title = f"Ahead in {(wins & below).sum()} of {below.sum()} below 1 gap,"
    title += f" in {(wins & ~below).sum()} of {(~below).sum()} above"
    finish(
        ax, title, "predicted noise of Step 1 / gap", "loss / that of the best public start",
        log="xy",
        xticks=[0.3, 1, 3, 10, 30], yticks=[0.001, 0.01, 0.1, 1],
    )  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


def plot_limits(
    axes: Any, missing: ArrayLike, unseen: Mapping[str, ArrayLike], n_clusters: int,
    factors: ArrayLike, cut: Mapping[str, ArrayLike],
) -> Any:  # fmt: skip
    """Where it breaks: clusters that the server has never seen, and a radius that does not fit.

    Per cent above the best: `unseen` (missing, repetitions) by method, `cut` (factors, repetitions)
    of FedDP-KMeans by data set. Medians and ranges are drawn.
    """
    left, right = panels(axes)
    how: dict[str, Any] = {"interval": "bars", "quantiles": (0, 0.5, 1)}
    curves(left, missing, unseen, METHODS, **how)
    last = float(np.median(np.asarray(unseen["feddp"])[-1]))
    x = f"clusters missing at the server (of {n_clusters})"
    gone = np.asarray(missing)[-1]
    title = f"{gone} of {n_clusters} unseen: FedDP-KMeans {last:.1f} % above"
    finish(left, title, x, EXCESS, xticks=missing, ylim=(0, None), names="upper left")
    left.set_ylim(0, 1.5 * left.get_ylim()[1])
    curves(right, factors, cut, (Look("", BLUE, "o-"), Look("", RUST, "s--")), **how)
    right.axvline(1, **DASHED)
    first = " and ".join(f"{np.median(np.asarray(values)[0]):.0f}" for values in cut.values())
    title = f"{np.asarray(factors)[0]:g} of that length: {first} % above"
    finish(right, title, "radius / longest public record", log="xy", xticks=factors,
           yticks=[1, 3, 10, 30, 100, 300], names="upper right")  # fmt: skip
    return axes


# --- the photograph -------------------------------------------------------------------------------


def image_patches(image: ArrayLike) -> NDArray[np.float64]:
    """Patches (rows, columns, 12) of an image, scaled to the unit ball.

    As `paper_data.make_image_federation` does it, for every patch of the picture.
    """
    image = np.asarray(image, dtype=np.float64)
    if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 2:
        raise ValueError(f"image must have shape (h, w, 3) and hold a patch, got {image.shape}")
    return colour_patches(image, 2) / np.sqrt(12)


def paint(patches: ArrayLike, centers: ArrayLike | None = None) -> NDArray[np.float64]:
    """Picture (rows, columns, 3) in [0, 1]: the mean colour of each patch, or of its centre."""
    patches = np.asarray(patches, dtype=np.float64)
    h, w, d = patches.shape
    flat = patches.reshape(-1, d)
    if centers is not None:
        centers = as_points(centers, "centers", n_features=d)
        flat = centers[kmeans.assign(flat, centers).labels]
    colors = flat.reshape(len(flat), -1, 3).mean(axis=1) * np.sqrt(d)
    return np.asarray(np.clip((colors + 1) / 2, 0, 1).reshape(h, w, 3))


def plot_photographs(axes: Mapping[str, Axes], colours: Mapping[str, ArrayLike]) -> Any:
    """The hidden and the public picture, the hidden one in the colours of two methods, the colours.

    `axes` has the names hidden, public, server_lloyds, feddp and colours.
    """
    hidden, public = (image_patches(load_sample_image(f"{n}.jpg")) for n in ("china", "flower"))
    k = len(np.asarray(colours["feddp"]))
    pictures = {
        "hidden": ("private: held in strips", paint(hidden)),
        "public": ("public: at the server", paint(public)),
        "server_lloyds": (f"{k} colours by ServerLloyds", paint(hidden, colours["server_lloyds"])),
        "feddp": (f"{k} colours by FedDP-KMeans", paint(hidden, colours["feddp"])),
        "colours": (f"the {k} released colours of FedDP-KMeans", palette(colours["feddp"])[None]),
    }
    for name, (title, picture) in pictures.items():
        axes[name].imshow(picture, interpolation="nearest", aspect="auto")
        bare(axes[name]).set_title(title, fontsize=11)
    return axes


def palette(colours: ArrayLike) -> NDArray[np.float64]:
    """Mean colours (k, 3) in [0, 1] of centres of patches, from dark to light."""
    found = paint(np.asarray(colours)[None])[0]
    return found[np.argsort(found.sum(axis=1))]


def rgb(colours: Mapping[str, ArrayLike]) -> list[list[int]]:
    """The palette of FedDP-KMeans as red, green and blue from 0 to 255."""
    found: list[list[int]] = (255 * palette(colours["feddp"])).round().astype(int).tolist()
    return found
