"""Pictures of what crosses the wire, how budgets add up, and the audit of the released code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    DARK,
    INSIDE,
    MUTED,
    OUTSIDE,
    WRONG,
    panels,
    plain_ticks,
)


def plot_traffic(ax: Axes, sent: Mapping[str, float], received: Mapping[str, float]) -> Axes:
    """Bytes of one client by step, sent (filled) and received (outlined).

    Parameters
    ----------
    sent, received : mapping of step names to bytes, in the order of the steps
    """
    names = list(dict.fromkeys([*sent, *received]))
    y = np.arange(len(names))[::-1]
    for values, shift, style in (
        (sent, 0.19, {"color": INSIDE}),
        (received, -0.19, {"facecolor": "white", "edgecolor": INSIDE, "linewidth": 1.4}),
    ):
        widths = np.array([values.get(n, 0.0) for n in names]) / 1e3
        ax.barh(y + shift, widths, height=0.34, **style)
        for height, width in zip(y + shift, widths, strict=True):
            if width > 0:
                ax.text(width, height, f" {width:.1f}", va="center", fontsize=9, color=DARK)
    ax.set_yticks(y, names)
    ax.set(xlabel="kilobytes of one client: sent (filled), received (outlined)")
    ax.set_xlim(0, 1.12 * max([*sent.values(), *received.values()]) / 1e3)
    ax.set_title("The outer product is most of what a client sends")
    return ax


def plot_composition(
    axes: Any, totals: Mapping[str, float], rounds: ArrayLike, formulas: Mapping[str, ArrayLike]
) -> Any:
    """Left: total epsilon by each way of adding up. Right: true epsilon of formulas that claim 1.

    Parameters
    ----------
    axes : two Axes
    totals : mapping of names to the total epsilon of one run
    rounds : array_like of shape (m,)
    formulas : mapping of four names to true epsilons of shape (m,)
    """
    left, right = panels(axes)
    y = np.arange(len(totals))[::-1]
    widths = np.array(list(totals.values()))
    best = int(widths.argmin())
    left.barh(y, widths, color=[INSIDE if i == best else "#c9c9cf" for i in range(len(y))])
    left.set_yticks(y, list(totals))
    for height, width in zip(y, widths, strict=True):
        left.text(width, height, f" {width:.2f}", va="center", fontsize=10)
    left.set(xlim=(0, 1.18 * widths.max()), xlabel="total ε")
    left.set_title("The same run, five bills")
    rounds = np.asarray(rounds)
    styles = ((OUTSIDE, "s-"), ("#964a8b", "^-"), (INSIDE, "o-"), (WRONG, "X-"))
    for (name, values), (color, style) in zip(formulas.items(), styles, strict=True):
        right.plot(rounds, values, style, color=color, label=name)
    right.axhline(1, color=DARK, linestyle="--", linewidth=1.2)
    right.set_yscale("log")
    plain_ticks(right, rounds)
    plain_ticks(right, [0.1, 0.2, 0.5, 1, 2], "y")
    right.set(xlabel="rounds T", ylabel="true ε (log scale)")
    right.set_title("Three printed formulas for “ε = 1”")
    label_lines(right, x_offset=8)
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
    axes : two Axes
    scores : mapping of titles to (scores without, scores with)
        In units of the claimed standard deviation.
    claimed_mu : float
    bounds : mapping of the same titles to the lower bound on mu
    """
    for ax, (title, (without, with_)) in zip(panels(axes), scores.items(), strict=True):
        scale = float(np.std(np.asarray(without)))
        without, with_ = np.asarray(without) / scale, np.asarray(with_) / scale
        edges = np.linspace(min(without.min(), with_.min()), max(without.max(), with_.max()), 50)
        ax.stairs(np.histogram(without, edges, density=True)[0], edges, fill=True, color="#c9c9cf")
        alarm = bounds[title] > claimed_mu
        color = WRONG if alarm else DARK
        ax.stairs(np.histogram(with_, edges, density=True)[0], edges, color=color, linewidth=1.6)
        grid = np.linspace(edges[0], edges[-1], 200)
        ax.plot(grid, norm.pdf(grid, claimed_mu), color=MUTED, linestyle="--", linewidth=1.2)
        top = ax.get_ylim()[1]
        ax.set_ylim(0, 1.3 * top)
        ax.text(
            edges[0], 1.25 * top,
            f"μ is at least {bounds[title]:.2f}\nclaimed: {claimed_mu:.2f}"
            + (" ALARM" if alarm else ""),
            va="top", fontsize=10,
        )  # fmt: skip
        ax.set(yticks=[], xlabel="score of a release / its own noise", ylabel="density")
        ax.set_title(title)
    return axes
