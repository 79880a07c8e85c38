"""Pictures of Table 4, Lemma 4.8 and Theorem 4.10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import panels, plain_ticks
from fedclust_helpers.studies.rr_cluster.figures._common import DARK, GOOD, MUTED, OTHER, WRONG
from fedclust_helpers.studies.rr_cluster.theory import Table4Row

SHOWN = {
    "DP-IFCA": ("#f89c20", "s", -0.05),
    "RR-Cluster(IFCA) B=4": ("#964a8b", "v", 0.0),
    "RR-Cluster(IFCA) B=8": ("#e42536", "^", 0.05),
}
SMALLEST, LARGEST = 0.1, 60.0  # noise is drawn within: 64 of 64 right fits any small one


def plot_table_4(ax: Axes, rows: Sequence[Table4Row]) -> Axes:
    """Identifier noise that would explain Table 4 (with 95 % interval), and what epsilon needs."""
    finite = [row for row in rows if np.isfinite(row.epsilon)]
    needed = {row.epsilon: row.needed for row in finite}
    epsilons = np.array(sorted(needed))
    ax.plot(
        epsilons, [needed[e] for e in epsilons], "--", color=DARK, label="needed by the accounting"
    )
    for method, (color, marker, shift) in SHOWN.items():
        part = [row for row in finite if row.method == method]
        x = np.array([row.epsilon * 2**shift for row in part])
        low, high = (np.array([getattr(row, n) for row in part]) for n in ("lowest", "highest"))
        low, high = np.maximum(low, 0.05), np.minimum(high, LARGEST)
        ax.vlines(x, low, high, color=color, linewidth=1.6)
        middle = np.array([row.sigma_s for row in part])
        ax.plot(
            x, np.clip(middle, SMALLEST, LARGEST), marker, color=color, markeredgecolor="white",
            markersize=8, label=method.replace("RR-Cluster(IFCA)", "RR-Cluster,"),
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", ylim=(0.08, 80), xlabel="printed ε (log)")
    ax.set_ylabel("identifier noise σ (log)")
    plain_ticks(ax, epsilons)
    plain_ticks(ax, [0.1, 0.3, 1, 3, 10, 30], "y")
    ax.legend(loc="upper right")
    ax.set_title("Table 4 fits DP-IFCA's noise, and not RR-Cluster's")
    return ax


def plot_convergence(
    axes: Any,
    sigmas: ArrayLike,
    term: Mapping[str, ArrayLike],
    sizes: ArrayLike,
    tails: Mapping[str, ArrayLike],
    distances: Mapping[str, ArrayLike],
) -> Any:
    """Lemma 4.8 (identifiers), Equation 18 and the contraction of Theorem 4.10 beside the truth.

    Parameters
    ----------
    axes : three Axes
    sigmas : array_like of shape (s,)
    term : mapping of "truth", "printed", "literal", "corrected" to arrays of shape (s,)
    sizes : array_like of shape (b,)
        Thresholds B.
    tails : mapping of "bound", "above", "below" to arrays of shape (b,)
    distances : mapping of "truth", "printed", "corrected" to distances by round
    """
    left, middle, right = panels(axes)
    styles = {
        "truth": (DARK, "-", "truth"), "printed": (WRONG, "--", "printed"),
        "literal": (MUTED, ":", "read literally"), "corrected": (GOOD, "-.", "corrected"),
    }  # fmt: skip
    for name, values in term.items():
        color, style, label = styles[name]
        left.plot(sigmas, values, style, color=color, label=label)
    left.axhspan(1, 100, color="#eeeeee", zorder=0)
    left.text(np.asarray(sigmas)[0], 20, "above 1: says nothing", fontsize=9, va="top")
    left.set(xscale="log", yscale="log", ylim=(1e-3, 30), xlabel="identifier noise σ (log)")
    left.set_ylabel("P(wrong cluster) (log)")
    plain_ticks(left, [0.2, 0.5, 1, 2, 5])
    left.set_title("Lemma 4.8: true, and empty")
    left.legend(loc=(0.36, 0.02), fontsize=9)
    shown = {"bound": (WRONG, "--", "bound"), "above": (OTHER, "-", "P(|S| > B)")}
    shown["below"] = (GOOD, "-", "P(|S| < B)")
    for name, (color, style, label) in shown.items():
        middle.plot(sizes, np.maximum(tails[name], 1e-12), style, color=color, label=label)
    middle.set(yscale="log", ylim=(1e-8, 100), xlabel="threshold B (400 clients, k = 4)")
    middle.set_title("Eq. 18 bounds the other tail")
    middle.legend(loc="lower right")
    for name, values in distances.items():
        color, style, label = styles[name]
        values = np.asarray(values, dtype=np.float64)
        seen = np.where(values < 1.5e-3, np.nan, values)
        right.plot(np.arange(len(seen)), seen, style, color=color, label=label)
    right.set(yscale="log", ylim=(1e-3, 1.5), xlabel="round", ylabel="distance (log)")
    right.set_title("Thm 4.10 promises too much")
    label_lines(right, x_offset=4)
    return axes
