"""Figures of notebook 02, sections 1 to 10: the data, the steps, the wire, the audit, theory.

Each draws numbers that the notebook computed, and returns its axes. `METHODS` names the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from fedclust_helpers._validation import as_points
from fedclust_helpers.studies.bench.plots import (
    MAX_SHOWN,
    audit,
    bars,
    centers,
    cloud,
    crosses,
    curves,
    finish,
    headline,
    note,
    panels,
)
from fedclust_helpers.studies.bench.style import (
    BLUE,
    DASHED,
    GREY,
    MUTED,
    ORANGE,
    PALE,
    PLUM,
    PURPLE,
    RED,
    THEORY,
    Look,
)

METHODS: Mapping[str, Look] = {
    "feddp": Look("FedDP-KMeans", BLUE, "o-"),
    "feddp_adaptive": Look("adaptive (ours)", PURPLE, "D-"),
    "server_lloyds": Look("ServerLloyds", ORANGE, "s-"),
    "server_kmeanspp": Look("ServerKMeans++", GREY, "v-"),
    "sphere_packing": Look("SpherePacking", PLUM, "^-"),
    "kfed": Look("k-FED (not private)", RED, "P-"),
    "oracle": Look("a start that knows", BLUE, "o-"),
}
"""Look of each method; the keys are those of the result tables."""

INSIDE, OUTSIDE = BLUE, ORANGE  # server points like the clients' rows, and others
EXCESS = "cost above the optimum"

# --- the data and the steps -----------------------------------------------------------------------


def plane_between(means: ArrayLike) -> NDArray[np.float64]:
    """Orthonormal directions (d, 2) along which the means differ most: the plane of the pictures.

    Made from the truth, so for pictures only.
    """
    means = as_points(means, "means")
    if len(means) < 3 or means.shape[1] < 2:
        raise ValueError("means must hold at least three means of at least two features")
    return np.linalg.svd(means - means.mean(axis=0))[2][:2].T


def _rows(ax: Axes, points: ArrayLike, plane: NDArray[np.float64]) -> None:
    """Client rows in the plane, and a frame without ticks that fills its place."""
    cloud(ax, np.asarray(points) @ plane, size=5).set(xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")


def _scene(
    ax: Axes, points: ArrayLike, server: ArrayLike, inside: ArrayLike, means: ArrayLike,
    weights: ArrayLike | None = None,
) -> float:  # fmt: skip
    """Rows, means and server points, by area of their weight; the share of those elsewhere."""
    plane, inside = plane_between(means), np.asarray(inside, dtype=bool)
    _rows(ax, points, plane)
    at = np.asarray(server) @ plane
    weight = np.ones(len(at)) if weights is None else np.maximum(np.asarray(weights, float), 0)
    area = 18 * weight / max(float(weight.mean()), 1e-9)
    look: dict[str, Any] = {"alpha": 0.75, "linewidths": 0.4, "zorder": 3}
    for chosen, color, marker in ((inside, INSIDE, "o"), (~inside, OUTSIDE, "s")):
        centers(ax, at[chosen], color, marker, size=area[chosen], **look)
    crosses(ax, np.asarray(means) @ plane)
    return float(weight[~inside].sum() / max(float(weight.sum()), 1e-9))


def plot_server_data(
    ax: Axes, points: ArrayLike, server: ArrayLike, inside: ArrayLike, means: ArrayLike
) -> Axes:
    """Client rows, server points of both kinds and true means in the plane between the means.

    Parameters
    ----------
    points, server, means : array_like of shape (., d)
    inside : array_like of bool of shape (q,)
        Which server points are drawn like the clients' rows.
    """
    plane, inside = plane_between(means), np.asarray(inside, dtype=bool)
    cloud(ax, np.asarray(points) @ plane, size=5)
    at = np.asarray(server) @ plane
    look: dict[str, Any] = {"linewidths": 0, "zorder": 3, "label": "server, same kind"}
    centers(ax, at[inside], INSIDE, size=16, **look)
    look = {"facecolor": "none", "edgecolor": OUTSIDE, "linewidths": 1.3}
    centers(ax, at[~inside], "none", "s", size=22, label="server, other kind", **look)
    crosses(ax, np.asarray(means) @ plane)
    title = "A third of the server's points come from elsewhere"
    finish(ax, title, "direction 1 between the means", "direction 2").set(xticks=[], yticks=[])
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.3)
    return ax


def plot_rounds(
    ax: Axes,
    rounds: Sequence[int],
    private: Mapping[str, ArrayLike],
    exact: Mapping[str, ArrayLike],
) -> Axes:
    """Excess cost after T rounds at one fixed budget, private (solid) and without noise (dotted).

    Parameters
    ----------
    private, exact : mapping of keys of `METHODS` to arrays of shape (len(rounds),)
    """
    curves(ax, rounds, private, METHODS)
    dotted = {name: Look("_exact", METHODS[name].color, ":") for name in private}
    curves(ax, rounds, {name: exact[name] for name in private}, dotted, linewidth=1.4)
    ax.axhline(0, **DASHED)
    top = 1.06 * max(float(np.max(v)) for v in private.values())
    return finish(
        ax, "More private rounds do not repair a bad start", "rounds T, all for the same ε",
        EXCESS, log="x", xticks=rounds, ylim=(-0.35, top), names="ends",
    )  # fmt: skip


def plot_subspace(
    ax: Axes, epsilons: ArrayLike, energy: Mapping[str, ArrayLike], transitions: Mapping[str, float]
) -> Axes:
    """Between-cluster energy kept by the private subspace against the budget of Step 1.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
    energy : mapping of "mirror" and "average" to arrays of shape (m, repetitions)
    transitions : mapping of the same keys to the predicted epsilon
    """
    looks = {"mirror": Look("mirrored triangle", GREY, "s-"), "average": Look("(E + Eᵀ)/2", BLUE)}
    curves(ax, epsilons, energy, looks)
    for name, place in transitions.items():
        ax.axvline(place, color=looks[name].color, linestyle="--", linewidth=1.3)
    ax.axhline(1, **DASHED)
    text = "dashed: where the predicted\nnoise equals the eigengap"
    note(ax, text, (transitions["mirror"], 0.5), (22, 0), line=True)
    return finish(
        ax, "The subspace is found once the noise falls below the gap", "ε of Step 1",
        "share of energy kept", log="x", xticks=epsilons, ylim=(0, 1.08), names="lower right",
    )  # fmt: skip


def plot_weights(
    axes: Any,
    points: ArrayLike,
    server: ArrayLike,
    weights: ArrayLike,
    inside: ArrayLike,
    means: ArrayLike,
) -> Any:
    """Server points before and after weighting; the area of a mark is its weight."""
    titles = ("Before: every server point counts the same", "After: a point weighs its rows")
    for ax, weight, title in zip(panels(axes), (None, weights), titles, strict=True):
        share = _scene(ax, points, server, inside, means, weight)
        finish(ax, title, f"other kind (squares): {share:.0%} of the weight")
    return axes


def plot_init(
    axes: Any,
    points: ArrayLike,
    server: ArrayLike,
    inside: ArrayLike,
    means: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    noise: float,
    energy: float,
    weights: ArrayLike,
    released: ArrayLike,
    cost: float,
    best: float,
    epsilon: float,
) -> Any:
    """One run of FedDP-Init in three panels: noised spectrum, weighted server points, centres.

    Parameters
    ----------
    axes : three Axes
    eigenvalues : array_like of shape (r,)
        Largest eigenvalues of the noised outer product.
    noise : float
        Spectral norm to expect of its noise.
    energy : float
        Share of the energy between the means that the subspace keeps.
    weights : array_like of shape (q,)
        Noised weights of the server points.
    released : array_like of shape (k, d)
    cost, best : float
        Cost per point of the released centres, and of the optimum.
    epsilon : float
        Exact total of the run.
    """
    left, middle, right = panels(axes)
    values = np.maximum(np.asarray(eigenvalues, dtype=np.float64), 1.0) / 1e3
    left.bar(np.arange(1, len(values) + 1), values, color=BLUE, width=0.7)
    left.axhline(noise / 1e3, **DASHED)
    bottom = 0.3 * min(float(values.min()), noise / 1e3)
    text = (f"1  subspace keeps {energy:.0%}", "eigenvalue (dashed: noise)", "size / 1000")
    finish(left, *text, log="y", ylim=(bottom, None))
    share = _scene(middle, points, server, inside, means, weights)
    middle.set_title(f"2  other kind weighs {share:.0%}", fontsize=11)
    plane = plane_between(means)
    _rows(right, points, plane)
    centers(right, np.asarray(released) @ plane, BLUE)
    crosses(right, np.asarray(means) @ plane)
    right.set_title(f"3  cost {cost:.2f}, best {best:.2f}", fontsize=11)
    box = np.asarray(points)[:: max(1, len(np.asarray(points)) // MAX_SHOWN)] @ plane
    for ax in (middle, right):
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=(box[:, 0].min(), box[:, 0].max()), ylim=(box[:, 1].min(), box[:, 1].max()))
    headline(axes, f"FedDP-Init at a total of ε = {epsilon:.2f}")
    return axes


# --- the wire, the bill, the audit ----------------------------------------------------------------


def plot_traffic(ax: Axes, sent: Mapping[str, float], received: Mapping[str, float]) -> Axes:
    """Bytes of one client by step, sent (filled) and received (outlined), in the order of steps."""
    names = list(dict.fromkeys([*sent, *received]))
    y = np.arange(len(names))[::-1]
    outlined = {"facecolor": "white", "edgecolor": BLUE, "linewidth": 1.4}
    for values, shift, style in ((sent, 0.19, {"color": BLUE}), (received, -0.19, outlined)):
        widths = np.array([values.get(name, 0.0) for name in names]) / 1e3
        ax.barh(y + shift, widths, height=0.34, **style)
        for height, width in zip(y + shift, widths, strict=True):
            if width > 0:
                ax.text(width, height, f" {width:.1f}", va="center", fontsize=9)
    ax.set_yticks(y, names)
    most = max([*sent.values(), *received.values()]) / 1e3
    title = "The outer product is most of what a client sends"
    x = "kilobytes of one client: sent (filled), received (outlined)"
    return finish(ax, title, x, xlim=(0, 1.12 * most))


def plot_composition(
    axes: Any, totals: Mapping[str, float], rounds: ArrayLike, formulas: Mapping[str, ArrayLike]
) -> Any:
    """Left: total epsilon by each way of adding up. Right: true epsilon of formulas that claim 1.

    Parameters
    ----------
    totals : mapping of names to the total epsilon of one run
    rounds : array_like of shape (m,)
    formulas : mapping of four names to true epsilons of shape (m,)
    """
    left, right = panels(axes)
    best = min(totals.values())
    colors = [BLUE if total == best else PALE for total in totals.values()]
    bars(left, totals, colors, "total ε", "The same run, five bills")
    looks = (
        Look("", ORANGE, "s-"),
        Look("", PLUM, "^-"),
        Look("", BLUE, "o-"),
        Look("", RED, "X-"),
    )
    curves(right, rounds, formulas, looks)
    right.axhline(1, **DASHED)
    finish(
        right, "Three printed formulas for “ε = 1”", "rounds T", "true ε", log="y",
        xticks=rounds, yticks=[0.1, 0.2, 0.5, 1, 2], names="ends",
    )  # fmt: skip
    return axes


def plot_audit(
    axes: Any,
    scores: Mapping[str, tuple[ArrayLike, ArrayLike]],
    claimed_mu: float,
    bounds: Mapping[str, float],
) -> Any:
    """Canary scores without (grey) and with (outline) the canary, one panel for each release.

    Parameters
    ----------
    scores : mapping of titles to (scores without, scores with), in units of the claimed sd
    bounds : mapping of the same titles to the lower bound on mu
    """
    for ax, (title, pair) in zip(panels(axes), scores.items(), strict=True):
        alarm = bounds[title] > claimed_mu
        text = f"μ is at least {bounds[title]:.2f}\nclaimed: {claimed_mu:.2f}" + " ALARM" * alarm
        edges = audit(ax, title, pair, text, alarm=alarm)
        grid = np.linspace(edges[0], edges[-1], 200)
        ax.plot(grid, norm.pdf(grid, claimed_mu), color=MUTED, linestyle="--", linewidth=1.2)
        ax.set_xlabel("score of a release / its own noise")
    return axes


# --- Theorem 3, Lemma 7, the client level ---------------------------------------------------------


def plot_bounds(
    axes: Any,
    *,
    halving: Mapping[float, ArrayLike],
    floors: Mapping[str, tuple[ArrayLike, ArrayLike]],
    rounds: tuple[ArrayLike, ArrayLike, ArrayLike],
    dimensions: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    true_means: tuple[ArrayLike, ArrayLike, ArrayLike],
    lemma: tuple[ArrayLike, ArrayLike, ArrayLike],
) -> Any:
    """Theorem 3 and Lemma 7 in six panels, measured points over printed and corrected lines.

    Parameters
    ----------
    axes : six Axes
    halving : mapping of separation (in sigma) to the error after 0, 1, ... rounds
    floors : mapping of "n" and "ε" to (epsilon * n, floor)
    rounds : T, floor with the printed noise, floor with exactly composed noise
    dimensions : d, measured floor, printed bound, corrected bound
    true_means : n, error to the empirical means, error to the true means
    lemma : d, failure rate of the printed bound, of the corrected bound
    """
    ax, steps = panels(axes), np.arange(6)
    errors = {f"{s:g} σ": (np.arange(np.size(e)), e) for s, e in halving.items()}
    curves(ax[0], None, errors, floor=1e-4)
    start = max(float(np.asarray(e)[0]) for e in halving.values())
    ax[0].plot(steps, start * 0.5**steps, **THEORY)
    text = ("The error halves, or better (line)", "rounds T", "error of a centre")
    finish(ax[0], *text, log="y", ylim=(4e-5, 5e3))
    ax[0].legend(loc="upper right", ncols=2, columnspacing=0.8)

    varied = {f"{n} varied": (np.asarray(p) / 1e3, f) for n, (p, f) in floors.items()}
    curves(ax[1], None, varied, (Look("", BLUE, "o"), Look("", ORANGE, "s")))
    product, floor = (np.concatenate([np.ravel(v[i]) for v in varied.values()]) for i in (0, 1))
    ends = np.array([product.min(), product.max()])
    ax[1].plot(ends, np.median(product * floor) / ends, **THEORY)
    finish(
        ax[1], "The floor falls as 1/(ε n)", "ε n / 1000", "floor", log="xy",
        xticks=[5, 20, 80], yticks=[0.03, 0.1, 0.3], names="upper right",
    )  # fmt: skip

    t, printed, exact = (np.asarray(v, dtype=np.float64) for v in rounds)
    ax[2].plot(t, printed[0] * t, **THEORY)
    ax[2].plot(t, exact[0] * np.sqrt(t), linestyle="--", **THEORY)
    looks = (Look("printed noise", RED, "o"), Look("exact composition", BLUE, "s"))
    curves(ax[2], t, dict(enumerate((printed, exact))), looks)
    text = ("T as printed; √T is enough", "rounds T", "floor")
    finish(ax[2], *text, log="xy", xticks=t, names="upper left")

    d, measured, bound, corrected = (np.asarray(v, dtype=np.float64) for v in dimensions)
    ax[3].plot(d, bound, color=RED, linestyle=":", linewidth=1.6)
    ax[3].plot(d, corrected, **THEORY)
    ax[3].plot(d, measured, "o", color=BLUE)
    note(ax[3], "printed", (d[-1], bound[-1] * 0.82), ha="right", va="top")
    note(ax[3], "with √(d ln 1/δ)", (d[1] * 1.3, corrected[1] * 0.8), va="top")
    finish(
        ax[3], "A factor √d is missing", "dimension d", "floor", log="xy", xticks=d,
        xlim=(d[0] * 0.8, d[-1] * 1.25),
    )  # fmt: skip

    n, to_empirical, to_true = true_means
    looks = (Look("to the true means", RED, "s-"), Look("to the empirical means", BLUE))
    curves(ax[4], n, dict(enumerate((to_true, to_empirical))), looks)
    text = ("It holds for the empirical means", "points n", "error")
    finish(ax[4], *text, log="xy", xticks=n, names="center right")

    d = np.asarray(lemma[0], dtype=np.float64)
    ax[5].axhline(0.1, **DASHED)
    looks = (Look("printed", RED), Look("corrected", BLUE, "s-"))
    curves(ax[5], d, dict(enumerate(lemma[1:])), looks)
    ax[5].text(d[-1], 0.13, "allowed", ha="right", fontsize=10)
    finish(
        ax[5], "Lemma 7 fails from d = 2 on", "dimension d", "share of failures", log="x",
        xticks=d, ylim=(-0.04, 1.08), names="center right",
    )  # fmt: skip
    return axes


def plot_client_level(
    axes: Any,
    epsilons: ArrayLike,
    noise_over_gap: Mapping[str, ArrayLike],
    ablation: Mapping[str, float],
) -> Any:
    """Why the client level is harder: noise of Step 1 against the eigengap, and an ablation.

    Parameters
    ----------
    epsilons : array_like of shape (m,)
        Totals.
    noise_over_gap : mapping of "client" and "point" to arrays of shape (m,)
        Predicted spectral norm of the noise of Step 1 over the eigengap.
    ablation : mapping of names to the excess cost
    """
    left, right = panels(axes)
    looks = {"client": Look("one client", ORANGE, "s-"), "point": Look("one point", BLUE)}
    curves(left, epsilons, noise_over_gap, looks)
    left.axhline(1, **DASHED)
    left.text(np.min(epsilons), 0.93, "found below", va="top", fontsize=10)
    finish(
        left, "Hiding a client drowns the subspace", "total ε", "noise / eigengap", log="xy",
        xticks=epsilons, yticks=[0.3, 1, 3, 10], names="ends",
    )  # fmt: skip
    colors = [ORANGE] + [PALE] * (len(ablation) - 1)
    bars(right, ablation, colors, EXCESS + ", total ε = 1", "The noise of Step 1 harms most")
    return axes
