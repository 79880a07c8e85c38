"""Pictures of notebook 00: trust models, the meaning of epsilon and delta, a first private step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers.accounting import gdp_delta
from fedclust_helpers.metrics import nicv
from studies.bench import plots, style
from studies.bench.plots import finish, note
from studies.bench.style import BLUE, DARK, GREY, MUTED, PALE, RED, THEORY, TRUST

# --- the four trust models in one picture ---------------------------------------------------------

_PILLS = {
    # kind of message: (face, edge, font family)
    "exact": ("#fbe3e5", RED, "sans-serif"),
    "noised": ("#e3ecfe", BLUE, "sans-serif"),
    "masked": ("#ececef", GREY, "monospace"),
}


class _Model(NamedTuple):
    title: str
    color: str
    kind: str  # of the messages to the server
    words: tuple[str, str, str]
    own: str
    server: str
    back: tuple[str, str]


MODELS: Mapping[str, _Model] = {
    "trusted": _Model(
        "1  Trusted server", TRUST["trusted"], "exact", ("12", "7", "9"), "has {}",
        "sees 12, 7, 9\nadds up: 28\nadds noise: 30", ("noised", "30"),
    ),
    "ideal": _Model(
        "2  Ideal secure sum", TRUST["secure sum"], "exact", ("12", "7", "9"), "has {}",
        "sees 30\nonly", ("noised", "30"),
    ),
    "masked": _Model(
        "3  Masked", TRUST["secure sum"], "masked", ("81", "65", "71"),
        "has {} + mask", "sees random words\nadds them up\nadds noise, blindly",
        ("masked", "19"),
    ),
    "local": _Model(
        "4  Local", TRUST["local"], "noised", ("15", "3", "14"), "has {} + noise",
        "sees 15, 3, 14\nadds up: 32", ("noised", "32"),
    ),
}  # fmt: skip


def _box(ax: Axes, x: float, y: float, w: float, h: float, edge: str, face: str = "white") -> None:
    shape = "round,pad=0,rounding_size=0.18"
    box = FancyBboxPatch((x, y), w, h, boxstyle=shape, facecolor=face, edgecolor=edge, zorder=2)
    ax.add_patch(box).set_linewidth(1.2)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(start, end, color=MUTED, linewidth=1.2, zorder=1, **look))


def _pill(ax: Axes, x: float, y: float, kind: str, text: str) -> None:
    face, edge, family = _PILLS[kind]
    box = {"boxstyle": "round,pad=0.28", "facecolor": face, "edgecolor": edge}
    look: dict[str, Any] = {"ha": "center", "va": "center", "family": family, "bbox": box}
    ax.text(x, y, text, fontsize=10, color=DARK, zorder=4, **look)


def plot_trust_model(ax: Axes, model: str, words: Sequence[int] | None = None) -> Axes:
    """Draw "trusted", "ideal", "masked" or "local": three clients, the wire, and the server.

    `words`: three masked numbers of two digits to show instead of those of the table.
    """
    about, middle = MODELS[model], model == "ideal"
    if words is not None and model == "masked":
        a, b, c = (f"{word:02d}" for word in words)
        about = about._replace(words=(a, b, c), back=("masked", f"{(sum(words) + 2) % 100:02d}"))
    ax.set(xlim=(0, 10), ylim=(0.7, 5.4), aspect="equal")
    ax.axis("off")
    ax.set_title(about.title, fontweight="bold")
    left, width = (7.55, 2.35) if middle else (6.3, 3.6)
    centred: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
    for row, (value, word) in enumerate(zip((12, 7, 9), about.words, strict=True)):
        y = 4.75 - 1.3 * row
        _box(ax, 0.1, y - 0.53, 2.75, 1.06, MUTED)
        own = f"client {row + 1}\n{about.own.format(value)}"
        ax.text(0.24, y, own, va="center", fontsize=9.5, zorder=3)
        end = (4.75, 4.05 - 0.6 * row) if middle else (left - 0.05, 4.45 - row)
        _arrow(ax, (2.85, y), end)
        _pill(ax, 2.8 + 0.45 * (end[0] - 2.8), y + 0.45 * (end[1] - y), about.kind, word)
    if middle:
        _box(ax, 4.8, 2.35, 1.75, 2.2, MUTED, "#f4f4f6")
        ax.text(5.675, 3.45, "secure\nsum\n\n28\n+ noise", fontsize=10, **centred)
        _arrow(ax, (6.55, 3.45), (left - 0.05, 3.45))
        _pill(ax, 7.02, 3.98, "noised", "30")
    _box(ax, left, 1.9, width, 3.2, about.color)
    x = left + width / 2
    ax.text(x, 4.6, "server", fontweight="bold", fontsize=11, **centred)
    ax.text(x, 3.3, about.server, fontsize=10.5, **centred)
    ax.plot([x, x, 1.35], [1.9, 1.15, 1.15], color=MUTED, linewidth=1.2, zorder=1)
    _arrow(ax, (1.35, 1.15), (1.35, 1.66))
    _pill(ax, 4.1, 1.15, *about.back)
    return ax


def plot_trust_models(axes: Any, words: Sequence[int] | None = None) -> Any:
    """All four trust models, one on each of four axes, with a key to the colours."""
    for ax, model in zip(plots.panels(axes), MODELS, strict=True):
        plot_trust_model(ax, model, words)
    claim = "Raw data never leave a client; what else stays hidden depends on the model\n"
    plots.headline(axes, claim)
    key = "on the wire: red = exact, blue = noised, grey = masked"
    plots.panels(axes)[0].figure.supxlabel(key, fontsize=10)
    return axes


# --- epsilon and delta ----------------------------------------------------------------------------


def plot_two_worlds(ax: Axes, without: ArrayLike, with_: ArrayLike, bins: ArrayLike) -> Axes:
    """Histograms of a release on two neighbouring data sets: grey area without, dark line with."""
    edges = np.asarray(bins, dtype=np.float64)
    top = plots.two_histograms(ax, without, with_, edges)
    left, right = (float(np.median(np.asarray(values))) for values in (without, with_))
    span = edges[-1] - edges[0]
    apart = right - left > 0.3 * span
    for x, sign, name, side in ((left, -1, "without", "right"), (right, 1, "with", "left")):
        where = x if apart else x + 0.02 * sign * span
        note(ax, f"{name} Alice", (where, 1.13 * top), ha="center" if apart else side)
    ax.set_ylabel("density")
    return ax


def plot_log_ratio(
    ax: Axes, bins: ArrayLike, log_ratio: ArrayLike, standard_error: ArrayLike, epsilon: float,
    exact: ArrayLike,
) -> Axes:  # fmt: skip
    """Log of the ratio of two histograms, bin by bin, and the lines -epsilon and epsilon.

    `exact` is the same of the two distributions, one value for each bin: a grey line of steps.
    """
    edges = np.asarray(bins, dtype=np.float64)
    ax.axhline(0, color=MUTED, linewidth=0.6)
    for level, name in ((epsilon, "ε"), (-epsilon, "-ε")):
        ax.axhline(level, **THEORY | {"linestyle": "--"})
        ax.text(edges[-1] + 0.1, level, name, va="center", fontsize=12)
    ax.stairs(np.asarray(exact), edges, baseline=None, color=GREY, linewidth=2)
    ax.errorbar(
        (edges[1:] + edges[:-1]) / 2, np.asarray(log_ratio), 2 * np.asarray(standard_error),
        fmt="o", color=DARK, markersize=4, linewidth=1,
    )  # fmt: skip
    return finish(
        ax, "No answer favours a world by more than $e^{ε}$", "released count",
        "log ratio, with / without", xlim=(edges[0], edges[-1]),
        ylim=(-1.6 * epsilon, 1.6 * epsilon),
    )  # fmt: skip


def plot_attack(ax: Axes, epsilons: ArrayLike, success: ArrayLike) -> Axes:
    """Success of the membership attack against epsilon, with both theoretical curves."""
    epsilons = np.asarray(epsilons, dtype=np.float64)
    grid = np.geomspace(epsilons.min(), epsilons.max(), 200)
    ax.axhline(1.0, **style.DASHED)
    note(ax, "exact release: always right", (grid[0], 1.012), va="bottom")
    ceiling, best = 1 / (1 + np.exp(-grid)), 1 - np.exp(-grid / 2) / 2
    ax.plot(grid, ceiling, label="_ceiling", **THEORY | {"linestyle": ":", "linewidth": 1.8})
    ax.plot(grid, best, label="_laplace", **THEORY)
    text, at = "ceiling for any attack\non any ε-private release", 124
    note(ax, text, (grid[at], ceiling[at]), (-22, 26), line=True, ha="right")
    text, at = "our attack (crosses); best\npossible for Laplace (line)", 136
    note(ax, text, (grid[at], best[at]), (20, -42), line=True)
    ax.axhline(0.5, color=MUTED, linewidth=0.8)
    note(ax, "a coin", (epsilons[-1], 0.49), ha="right", va="top")
    ax.plot(epsilons, np.asarray(success), "X", color=RED, markersize=8, zorder=4)
    title, axis = "Epsilon caps every membership attack", "ε of the release"
    finish(ax, title, axis, "attacker is right", log="x", xticks=epsilons, ylim=(0.42, 1.08))
    ax.set_xticks([], minor=True)
    return ax


def plot_delta(ax: Axes, mu: float, epsilon: float) -> Axes:
    """Density with Alice, e^epsilon times the density without her, and delta between them."""
    x = np.linspace(-3.2, 3.2 + mu + 0.6, 600)
    with_, scaled = norm.pdf(x, mu), math.exp(epsilon) * norm.pdf(x)
    ax.fill_between(x, norm.pdf(x), color=PALE, linewidth=0)
    ax.plot(x, scaled, color=MUTED, linestyle="--", linewidth=1.5)
    ax.plot(x, with_, color=DARK, linewidth=1.6)
    beyond = with_ > scaled
    ax.fill_between(x, scaled, with_, where=beyond, color=RED, alpha=0.55, linewidth=0)
    crossing = epsilon / mu + mu / 2
    ax.axvline(crossing, color=MUTED, linewidth=0.8, ymax=0.62)
    ax.text(-1.1, 0.62, "$e^{ε}$ times\nthe density\nwithout Alice", ha="right", fontsize=10)
    note(ax, "without\nAlice", (-0.9, 0.2), (-42, 22), line=True, ha="right")
    ax.text(mu + 0.95, 0.305, "with Alice", fontsize=10)
    inside = crossing + 0.45
    note(ax, "red area = δ", (inside, 0.8 * float(norm.pdf(inside, mu))), (24, -2), line=True)
    return finish(
        ax, "Delta is what sticks out above $e^{ε}$ times the other density",
        "released value (noise std = 1)", "density", ylim=(0, 1.12), yticks=[],
    )  # fmt: skip


def plot_delta_curves(ax: Axes, mus: Sequence[float]) -> Axes:
    """Delta against epsilon (log), one line for each strength mu of Gaussian noise."""
    epsilons = np.linspace(0, 6, 200)
    for mu in mus:
        deltas = np.array([gdp_delta(mu, epsilon) for epsilon in epsilons])
        ax.plot(epsilons, deltas, color=DARK, linewidth=1.4, label=f"_{mu:g}")
        at = int(np.flatnonzero(deltas > 3e-7)[-1])  # the name stands right of the curve, or above
        inside = at < len(epsilons) - 1
        side: dict[str, Any] = {"ha": "left" if inside else "right"}
        note(ax, f"μ = {mu:g}", (epsilons[at], deltas[at]), (5, 2) if inside else (0, 13), **side)
    return finish(
        ax, "One noise has many (ε, δ): a curve for each μ", "ε", "δ", log="y",
        yticks=10.0 ** np.arange(-8, 1, 2), ylim=(1e-8, 1),
    )  # fmt: skip


# --- a first private Lloyd step -------------------------------------------------------------------


def _released(
    ax: Axes, points: ArrayLike, noised: ArrayLike, exact: ArrayLike, start: ArrayLike, title: str
) -> Axes:
    """Points of [-1, 1]^2, public start (circles), released centres (squares), exact (crosses)."""
    plots.cloud(ax, points, size=7)
    plots.centers(ax, noised, style.ORANGE, "s", size=120, label="released", zorder=3)
    plots.centers(ax, start, MUTED, size=55, label="public start")
    plots.crosses(ax, exact, label="without noise")
    ends: dict[str, Any] = dict.fromkeys(("xlim", "ylim"), (-1.05, 1.05))
    where = [-1, 0, 1]
    measured = ("first measurement", "second measurement")
    finish(ax, title, *measured, xticks=where, yticks=where, **ends)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, handletextpad=0.1)
    return ax


def plot_step(
    ax: Axes, points: ArrayLike, start: ArrayLike, exact: ArrayLike, noised: ArrayLike
) -> Axes:
    """One Lloyd step: public start (circles), exact means (crosses), released means (squares)."""
    missed = np.linalg.norm(np.asarray(noised) - np.asarray(exact), axis=1)
    low, high = missed.min(), missed.max()
    title = f"This release (squares) misses the exact\nmeans (crosses) by {low:.2f} to {high:.2f}"
    _released(ax, points, noised, exact, start, title)
    arrow = {"arrowstyle": "->", "color": MUTED, "linewidth": 1, "shrinkA": 5, "shrinkB": 5}
    for a, b in zip(np.asarray(start), np.asarray(noised), strict=True):
        ax.annotate("", b, xytext=a, zorder=2, arrowprops=arrow)
    return ax


def plot_private_clusters(
    ax: Axes, points: ArrayLike, centers_: ArrayLike, reference: ArrayLike, *, start: ArrayLike,
    epsilon: float,
) -> Axes:  # fmt: skip
    """Public start (circles), released centres (squares), those without noise (crosses).

    The title has the costs of both.
    """
    released, plain = (nicv(points, m) for m in (centers_, reference))
    title = f"ε = {epsilon:.3g}: NICV {released:.4f}\nwithout noise: {plain:.4f}"
    return _released(ax, points, centers_, reference, start, title)
