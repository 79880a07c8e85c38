"""Pictures of notebook 00: trust models, the meaning of epsilon and delta, a first private step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from fedclust_helpers.studies.bench.style import COLORS, label_lines, plot_centers, plot_points

DARK = "#222222"
MUTED = "#555555"
WITHOUT = "#c9c9cf"  # the data without Alice: a grey area
WITH = DARK  # the data with Alice: a dark outline

# --- the four trust models in one picture ---------------------------------------------------------

_PILLS = {
    # kind of message: (face, edge, font family)
    "exact": ("#fbe3e5", COLORS["attack"], "sans-serif"),
    "noised": ("#e3ecfe", COLORS["secure sum"], "sans-serif"),
    "masked": ("#ececef", "#9c9ca1", "monospace"),
}

_MODELS: Mapping[str, Mapping[str, Any]] = {
    "trusted": {
        "title": "1  Trusted server",
        "wire": [("exact", "12"), ("exact", "7"), ("exact", "9")],
        "own": "has {}",
        "server": "sees 12, 7, 9\nadds up: 28\nadds noise: 30",
        "back": ("noised", "30"),
        "lines": (
            "server sees: the exact sum of each client",
            "other clients see: the noised sum",
            "noise from: the server",
        ),
    },
    "ideal": {
        "title": "2  Ideal secure sum",
        "wire": [("exact", "12"), ("exact", "7"), ("exact", "9")],
        "own": "has {}",
        "server": "sees 30\nonly",
        "back": ("noised", "30"),
        "lines": (
            "server sees: the noised sum",
            "other clients see: the noised sum",
            "noise from: a box that all must trust",
        ),
    },
    "masked": {
        "title": "3  Masked secure aggregation",
        "wire": [("masked", "5c1f"), ("masked", "d203"), ("masked", "77e9")],
        "own": "has {} + mask",
        "server": "sees random words\nadds them up\nadds noise, blindly",
        "back": ("masked", "a80d"),
        "lines": (
            "server sees: random words, not even the sum",
            "other clients see: the noised sum (they unmask 30)",
            "noise from: the server, which may not see the result",
        ),
    },
    "local": {
        "title": "4  Local",
        "wire": [("noised", "15"), ("noised", "3"), ("noised", "14")],
        "own": "has {} + noise",
        "server": "sees 15, 3, 14\nadds up: 32",
        "back": ("noised", "32"),
        "lines": (
            "server sees: a noised report of each client",
            "other clients see: the sum of the reports",
            "noise from: each client for itself",
        ),
    },
}


def _box(ax: Axes, x: float, y: float, w: float, h: float, *, face: str, edge: str) -> None:
    ax.add_patch(
        FancyBboxPatch(
            (x, y), w, h, boxstyle="round,pad=0,rounding_size=0.18",
            facecolor=face, edgecolor=edge, linewidth=1.2, zorder=2,
        )
    )  # fmt: skip


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=MUTED, linewidth=1.2,
            shrinkA=0, shrinkB=0, zorder=1,
        )
    )  # fmt: skip


def _pill(ax: Axes, x: float, y: float, kind: str, text: str) -> None:
    face, edge, family = _PILLS[kind]
    ax.text(
        x, y, text, ha="center", va="center", fontsize=10, family=family, color=DARK, zorder=4,
        bbox={"boxstyle": "round,pad=0.28", "facecolor": face, "edgecolor": edge},
    )  # fmt: skip


def plot_trust_model(ax: Axes, model: str) -> Axes:
    """Draw one trust model: three clients that hold 12, 7 and 9, the wire, and the server.

    Parameters
    ----------
    ax : Axes
        Its frame is switched off.
    model : {"trusted", "ideal", "masked", "local"}

    Raises
    ------
    ValueError
        If `model` is not one of the four.
    """
    if model not in _MODELS:
        raise ValueError(f"model must be one of {', '.join(_MODELS)}; got {model!r}")
    about = _MODELS[model]
    ax.set(xlim=(0, 10), ylim=(-1.35, 5.4), aspect="equal")
    ax.axis("off")
    ax.set_title(about["title"], fontweight="bold")
    middle = model == "ideal"
    server_x, server_w = (7.55, 2.35) if middle else (6.3, 3.6)
    for row, (value, (kind, text)) in enumerate(zip((12, 7, 9), about["wire"], strict=True)):
        y = 4.75 - 1.3 * row
        _box(ax, 0.1, y - 0.48, 2.5, 0.96, face="white", edge=MUTED)
        own = about["own"].format(value)
        ax.text(0.24, y, f"client {row + 1}\n{own}", va="center", fontsize=8.5, zorder=3)
        end = (
            (4.75, 3.45 + 0.6 * (1 - row)) if middle else (server_x - 0.05, 3.45 + 1.0 * (1 - row))
        )
        _arrow(ax, (2.6, y), end)
        at = 0.42
        _pill(ax, 2.6 + at * (end[0] - 2.6), y + at * (end[1] - y), kind, text)
    if middle:
        _box(ax, 4.8, 2.35, 1.75, 2.2, face="#f4f4f6", edge=MUTED)
        ax.text(
            5.675,
            3.45,
            "secure\nsum\n\n28\n+ noise",
            ha="center",
            va="center",
            fontsize=9,
            zorder=3,
        )
        _arrow(ax, (6.55, 3.45), (server_x - 0.05, 3.45))
        _pill(ax, 7.02, 3.98, "noised", "30")
    color = {"trusted": "trusted", "local": "local"}.get(model, "secure sum")
    _box(ax, server_x, 1.9, server_w, 3.2, face="white", edge=COLORS[color])
    x = server_x + server_w / 2
    ax.text(x, 4.6, "server", ha="center", va="center", fontweight="bold", fontsize=10, zorder=3)
    ax.text(x, 3.3, about["server"], ha="center", va="center", fontsize=9, zorder=3)
    ax.plot([x, x], [1.9, 1.15], color=MUTED, linewidth=1.2, zorder=1)
    ax.plot([x, 1.35], [1.15, 1.15], color=MUTED, linewidth=1.2, zorder=1)
    _arrow(ax, (1.35, 1.15), (1.35, 1.66))
    _pill(ax, 4.1, 1.15, *about["back"])
    for row, line in enumerate(about["lines"]):
        ax.text(0.1, 0.42 - 0.62 * row, line, va="center", fontsize=9.5, color=DARK)
    return ax


def plot_trust_models(axes: Sequence[Axes]) -> Sequence[Axes]:
    """All four trust models, one on each of four axes, with a key to the colours."""
    for ax, model in zip(np.ravel(np.asarray(axes, dtype=object)), _MODELS, strict=True):
        plot_trust_model(ax, model)
    figure = ax.figure
    figure.suptitle(
        "Raw data never leave a client; what else stays hidden depends on the trust model\n",
        x=0.01, ha="left", fontsize=12,
    )  # fmt: skip
    figure.supxlabel("on the wire: red = exact, blue = noised, grey code = masked", fontsize=10)
    return axes


def plot_server_views(
    axes: Sequence[Axes], views: Mapping[str, NDArray[Any]], exact: ArrayLike
) -> Sequence[Axes]:
    """What the server received in each trust model: one bar for each number.

    Parameters
    ----------
    axes : four Axes
    views : mapping of "trusted", "ideal", "masked", "local" to arrays
        The payloads of the messages to the server; the masked ones are unsigned integers.
    exact : array_like of shape (M,)
        The exact number of each client, drawn as dark ticks where the server received M numbers.
    """
    names = {
        "trusted": "Trusted: every\nexact count",
        "ideal": "Ideal: the noised\nsum only",
        "masked": "Masked: uniform\nrandom words",
        "local": "Local: every count,\nblurred by noise",
    }
    exact = np.asarray(exact, dtype=np.float64)
    for ax, (model, title) in zip(axes, names.items(), strict=True):
        values = np.asarray(views[model]).ravel()
        if values.dtype.kind == "u":
            shown = values / float(2 ** (8 * values.dtype.itemsize))
            ax.set_ylabel(f"word / $2^{{{8 * values.dtype.itemsize}}}$")
        else:
            shown = values.astype(np.float64)
            ax.set_ylabel("number received")
        kind = {"trusted": "trusted", "local": "local"}.get(model, "secure sum")
        ax.bar(np.arange(1, len(shown) + 1), shown, width=0.8, color=COLORS[kind])
        ax.axhline(0, color=MUTED, linewidth=0.8)
        ax.set_title(title, fontsize=10.5)
        ax.set_xlabel("client")
        if len(shown) == 1:
            ax.set(xlim=(-1, 3), xticks=[], xlabel="all clients")
        else:
            ax.set_xticks([1, len(shown) // 2, len(shown)])
            if model != "masked":
                x = np.arange(1, len(shown) + 1)
                ax.hlines(exact, x - 0.5, x + 0.5, color=DARK, linewidth=1.6)
    axes[0].figure.suptitle(
        "Same question, same answer in three of four models, four different views of the server",
        x=0.01, ha="left", fontsize=12,
    )  # fmt: skip
    return axes


# --- epsilon and delta ----------------------------------------------------------------------------


def plot_two_worlds(
    ax: Axes, without: ArrayLike, with_: ArrayLike, bins: ArrayLike, *, who: str = "Alice"
) -> Axes:
    """Histograms of a release on two neighbouring data sets: grey area without, dark line with."""
    without, with_ = np.asarray(without), np.asarray(with_)
    edges = np.asarray(bins, dtype=np.float64)
    width = np.diff(edges)
    low = np.histogram(without, edges)[0] / len(without) / width
    high = np.histogram(with_, edges)[0] / len(with_) / width
    ax.stairs(low, edges, fill=True, color=WITHOUT)
    ax.stairs(high, edges, color=WITH, linewidth=1.6)
    top = max(low.max(), high.max())
    ax.set_ylim(0, 1.3 * top)
    left, right = float(np.median(without)), float(np.median(with_))
    span = edges[-1] - edges[0]
    apart = right - left > 0.3 * span
    for x, name, side in (
        (left - 0.02 * span, f"without {who}", "right"),
        (right + 0.02 * span, f"with {who}", "left"),
    ):
        where = (left if side == "right" else right) if apart else x
        ax.text(where, 1.13 * top, name, ha="center" if apart else side, va="center", fontsize=10)
    ax.set_ylabel("density")
    ax.set_yticks([])
    return ax


def plot_log_ratio(
    ax: Axes,
    bins: ArrayLike,
    log_ratio: ArrayLike,
    standard_error: ArrayLike,
    epsilon: float,
    *,
    exact: ArrayLike | None = None,
) -> Axes:
    """Log of the ratio of two histograms, bin by bin, and the lines -epsilon and epsilon.

    `exact` is the same of the two distributions, one value for each bin: a grey line of steps.
    """
    edges = np.asarray(bins, dtype=np.float64)
    x = (edges[1:] + edges[:-1]) / 2
    for level in (-epsilon, epsilon):
        ax.axhline(level, color=COLORS["theory"], linestyle="--", linewidth=1.3)
    ax.axhline(0, color=MUTED, linewidth=0.6)
    if exact is not None:
        ax.stairs(np.asarray(exact), edges, baseline=None, color="#9c9ca1", linewidth=2)
    ax.errorbar(
        x, np.asarray(log_ratio), 2 * np.asarray(standard_error), fmt="o", color=DARK, markersize=4,
        linewidth=1,
    )  # fmt: skip
    right = float(edges[-1])
    ax.text(right + 0.1, epsilon, "ε", ha="left", va="center", fontsize=12)
    ax.text(right + 0.1, -epsilon, "-ε", ha="left", va="center", fontsize=12)
    ax.set_xlim(edges[0], right)
    ax.set_ylim(-1.6 * epsilon, 1.6 * epsilon)
    ax.set(xlabel="released count", ylabel="log ratio, with / without")
    ax.set_title("No answer favours a world by more than $e^{ε}$")
    return ax


def plot_attack(ax: Axes, epsilons: ArrayLike, success: ArrayLike) -> Axes:
    """Success of the membership attack against epsilon, with both theoretical curves."""
    epsilons = np.asarray(epsilons, dtype=np.float64)
    grid = np.geomspace(epsilons.min(), epsilons.max(), 200)
    ax.axhline(1.0, color=DARK, linestyle="--", linewidth=1.5)
    ax.text(grid[0], 1.012, "exact release: always right", va="bottom", fontsize=10)
    ax.axhline(0.5, color=COLORS["theory"], linewidth=0.8)
    ax.text(grid[-1], 0.49, "a coin", ha="right", va="top", fontsize=10)
    ceiling = 1 / (1 + np.exp(-grid))
    ax.plot(grid, ceiling, color=COLORS["theory"], linestyle=":", label="_ceiling")
    laplace = 1 - np.exp(-grid / 2) / 2
    ax.plot(grid, laplace, color=COLORS["theory"], linewidth=1.3, label="_laplace")
    ax.plot(epsilons, np.asarray(success), "X", color=COLORS["attack"], markersize=8, zorder=4)
    third = math.exp(0.62 * math.log(grid[-1] / grid[0])) * grid[0]
    line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.8}
    ax.annotate(
        "ceiling for any attack\non any ε-private release", (third, 1 / (1 + math.exp(-third))),
        xytext=(-22, 26), textcoords="offset points", ha="right", va="center", fontsize=10,
        arrowprops=line,
    )  # fmt: skip
    ax.annotate(
        "our attack (crosses); best\npossible for Laplace (line)",
        (1.25 * third, 1 - math.exp(-1.25 * third / 2) / 2), xytext=(20, -42),
        textcoords="offset points", ha="left", va="center", fontsize=10, arrowprops=line,
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set(ylim=(0.42, 1.08), xlabel="ε of the release (log scale)", ylabel="attacker is right")
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.set_xticks([], minor=True)
    ax.set_title("Epsilon caps every membership attack")
    return ax


def plot_delta(ax: Axes, mu: float, epsilon: float) -> Axes:
    """Density with Alice, e^epsilon times the density without her, and delta between them."""
    x = np.linspace(-3.2, 3.2 + mu + 0.6, 600)
    with_ = norm.pdf(x, mu)
    scaled = math.exp(epsilon) * norm.pdf(x)
    ax.fill_between(x, norm.pdf(x), color=WITHOUT, linewidth=0)
    ax.plot(x, scaled, color=MUTED, linestyle="--", linewidth=1.5)
    ax.plot(x, with_, color=WITH, linewidth=1.6)
    beyond = with_ > scaled
    ax.fill_between(x, scaled, with_, where=beyond, color=COLORS["attack"], alpha=0.55, linewidth=0)
    crossing = epsilon / mu + mu / 2
    ax.axvline(crossing, color=MUTED, linewidth=0.8, ymax=0.62)
    ax.text(-1.1, 0.62, "$e^{ε}$ times the density\nwithout Alice", ha="right", fontsize=10)
    ax.annotate(
        "without Alice", (-0.9, 0.2), xytext=(-1.75, 0.32), ha="right", va="center", fontsize=10,
        arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8},
    )  # fmt: skip
    ax.text(mu + 0.95, 0.305, "with Alice", fontsize=10)
    ax.annotate(
        "red area = δ", (crossing + 0.45, norm.pdf(crossing + 0.45, mu) * 0.8),
        xytext=(crossing + 1.0, 0.16), fontsize=10,
        arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8},
    )  # fmt: skip
    ax.set(ylim=(0, 1.12), yticks=[], ylabel="density", xlabel="released value (noise std = 1)")
    ax.set_title("Delta is what sticks out above $e^{ε}$ times the other density")
    return ax


def plot_units(
    axes: Sequence[Axes], answers: Mapping[str, ArrayLike], member: ArrayLike, *, who: str
) -> Sequence[Axes]:
    """Releases with noise for one point (left) and for one client (right), in both worlds.

    Parameters
    ----------
    axes : two Axes
    answers : mapping of "point" and "client" to arrays of shape (n,)
    member : array_like of bool of shape (n,)
        Whether the client `who` took part in each trial.
    """
    member = np.asarray(member, dtype=bool)
    claims = {
        "point": f"Noise for one point: {who} shows",
        "client": f"Noise for one client: {who} is hidden",
    }
    for ax, (unit, claim) in zip(axes, claims.items(), strict=True):
        values = np.asarray(answers[unit], dtype=np.float64)
        low, high = np.quantile(values, [0.003, 0.997])
        without, with_ = values[~member], values[member]
        step = max(1.0, round((high - low) / 45))
        edges = np.arange(math.floor(low) - 4 * step, high + 5 * step, step)
        plot_two_worlds(ax, without, with_, edges, who=who)
        ax.set(xlabel="released number of patients")
        ax.set_title(claim)
    return axes


# --- adjacency, composition -----------------------------------------------------------------------


def plot_changes(ax: Axes, changes: Mapping[str, ArrayLike], bounds: Mapping[str, float]) -> Axes:
    """Histograms of how far a sum moves between neighbours, one row for each adjacency."""
    # bins that end at the bounds; the factor keeps values on a bound in the bin below it
    edges = np.arange(43) * (min(bounds.values()) / 20) * (1 + 1e-9)
    styles = {"add/remove": (WITHOUT, True), "replace-one": (DARK, False)}
    for name, values in changes.items():
        color, filled = styles[name]
        heights = np.histogram(values, edges)[0] / np.size(values)
        ax.stairs(heights, edges, fill=filled, color=color, linewidth=1.6)
        ax.axvline(bounds[name], color=COLORS["theory"], linestyle="--", linewidth=1.3)
    top = 1.35 * ax.get_ylim()[1]
    ax.set_ylim(0, top)
    for name in changes:
        ax.text(
            bounds[name] - 0.04, 0.97 * top, f"{name}:\nat most {bounds[name]:.2f}", ha="right",
            va="top", fontsize=10,
        )  # fmt: skip
    ax.set(yticks=[], ylabel="share of pairs", xlabel="distance that the sum moves (L2)")
    ax.set_title("Replacing a point can move a sum twice as far as removing it")
    return ax


def plot_averaging(ax: Axes, rounds: ArrayLike, success: ArrayLike, mu: float) -> Axes:
    """Success of an attacker who averages T answers, and Phi(mu sqrt(T) / 2)."""
    rounds = np.asarray(rounds)
    grid = np.geomspace(rounds.min(), rounds.max(), 200)
    ax.plot(grid, norm.cdf(mu * np.sqrt(grid) / 2), color=COLORS["theory"], linewidth=1.3)
    ax.plot(rounds, np.asarray(success), "X", color=COLORS["attack"], markersize=8)
    ax.axhline(0.5, color=COLORS["theory"], linewidth=0.8)
    ax.text(rounds.max(), 0.51, "a coin", ha="right", va="bottom", fontsize=10)
    ax.annotate(
        "theory: Φ(μ√T/2)", (grid[120], norm.cdf(mu * np.sqrt(grid[120]) / 2)), xytext=(-8, 10),
        textcoords="offset points", ha="right", fontsize=10,
    )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_xticks(rounds, [f"{t}" for t in rounds])
    ax.set(ylim=(0.45, 1.02), xlabel="answers T (log scale)", ylabel="attacker is right")
    ax.set_title("Asking again averages noise away")
    return ax


def plot_composition(ax: Axes, rounds: ArrayLike, totals: Mapping[str, ArrayLike]) -> Axes:
    """Total epsilon of T releases by each way of adding up; keys: "basic", "GDP", "PLD"."""
    rounds = np.asarray(rounds)
    ax.plot(rounds, totals["basic"], "s--", color=MUTED, markersize=5, label="basic: add up")
    ax.plot(rounds, totals["GDP"], color=DARK, label="GDP: μ² adds up")
    ax.plot(rounds, totals["PLD"], "o", color=COLORS["secure sum"], markersize=7, zorder=4)
    ax.annotate(
        "PLD (dots)", (rounds[-2], np.asarray(totals["PLD"])[-2]), xytext=(0, 12),
        textcoords="offset points", ha="center", fontsize=10,
    )  # fmt: skip
    ax.set(xlabel="rounds T", ylabel="total ε", xticks=rounds[rounds >= 4], ylim=(0, None))
    ax.set_title("Good accounting saves budget")
    return label_lines(ax, x_offset=8)


# --- a first private Lloyd step -------------------------------------------------------------------


def plot_step(
    ax: Axes, points: ArrayLike, start: ArrayLike, exact: ArrayLike, noised: ArrayLike
) -> Axes:
    """One Lloyd step: public start (circles), exact means (crosses), released means (squares)."""
    start, exact, noised = (np.asarray(a, dtype=np.float64) for a in (start, exact, noised))
    plot_points(ax, points, size=7)
    ax.scatter(
        start[:, 0], start[:, 1], s=60, facecolor="white", edgecolor=DARK, linewidths=1.3, zorder=3
    )
    for a, b in zip(start, noised, strict=True):
        ax.annotate(
            "", b, xytext=a, zorder=2,
            arrowprops={
                "arrowstyle": "->", "color": MUTED, "linewidth": 1, "shrinkA": 5, "shrinkB": 5
            },
        )  # fmt: skip
    plot_centers(ax, noised, name="glloyd")
    ax.scatter(exact[:, 0], exact[:, 1], s=45, marker="x", color=DARK, linewidths=1.6, zorder=4)
    ax.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.set(xlabel="first measurement", ylabel="second measurement")
    ax.set_title("One private step (squares) lands\nnear the exact means (crosses)")
    return ax


def plot_private_clusters(
    ax: Axes,
    points: ArrayLike,
    centers: ArrayLike,
    reference: ArrayLike,
    *,
    epsilon: float,
    nicv: float,
    nicv_reference: float,
) -> Axes:
    """Released centres (squares) over non-private ones (crosses), with both costs in the title."""
    reference = np.asarray(reference, dtype=np.float64)
    plot_points(ax, points, size=7)
    plot_centers(ax, centers, name="glloyd")
    ax.scatter(
        reference[:, 0], reference[:, 1], s=45, marker="x", color=DARK, linewidths=1.6, zorder=4
    )
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.set(xlabel="first measurement", ylabel="second measurement")
    ax.set_title(f"ε = {epsilon:g}: NICV {nicv:.4f}\nwithout noise: {nicv_reference:.4f}")
    return ax


# --- choosing bounds and epsilon, tuning ----------------------------------------------------------


def plot_selection(ax: Axes, n_runs: ArrayLike, success: ArrayLike, ceiling: float) -> Axes:
    """Success of the attack on the best of m runs, against the ceiling of a single run."""
    n_runs = np.asarray(n_runs)
    ax.axhline(ceiling, color=COLORS["theory"], linestyle="--", linewidth=1.3)
    ax.text(
        n_runs[-1], ceiling - 0.015, "no attack on one run can exceed this", ha="right", va="top",
        fontsize=10,
    )  # fmt: skip
    ax.plot(n_runs, np.asarray(success), "X-", color=COLORS["attack"], markersize=8, linewidth=1)
    ax.axhline(0.5, color=COLORS["theory"], linewidth=0.8)
    ax.text(n_runs[-1], 0.49, "a coin", ha="right", va="top", fontsize=10)
    ax.set_xscale("log")
    ax.set_xticks(n_runs, [f"{m:g}" for m in n_runs])
    ax.set_xticks([], minor=True)
    ax.set(ylim=(0.42, 1.04), xlabel="runs m (log scale)", ylabel="attacker is right")
    ax.set_title("Publishing the best of m runs breaks the guarantee of each")
    return ax


def plot_cost(ax: Axes, x: ArrayLike, costs: ArrayLike, reference: float) -> Axes:
    """Median cost with its 10-90 % band over repetitions, beside the non-private cost.

    Parameters
    ----------
    x : array_like of shape (m,)
    costs : array_like of shape (m, n_repetitions)
    reference : float
        Cost of the non-private run, drawn dashed.
    """
    x, costs = np.asarray(x, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    low, median, high = np.quantile(costs, [0.1, 0.5, 0.9], axis=1)
    ax.fill_between(x, low, high, color=COLORS["glloyd"], alpha=0.25, linewidth=0)
    ax.plot(x, median, "s-", color=COLORS["glloyd"])
    ax.axhline(reference, color=DARK, linestyle="--", linewidth=1.5)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.text(
        np.sqrt(x.min() * x.max()), reference * 0.95, "non-private", ha="center", va="top",
        fontsize=10,
    )  # fmt: skip
    ax.set_xticks(x, [f"{v:g}" for v in x])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 4, 6)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(0.75 * reference, 1.15 * max(float(high.max()), ax.get_ylim()[1] / 1.15))
    ax.set_ylabel("NICV (log scale)")
    return ax
