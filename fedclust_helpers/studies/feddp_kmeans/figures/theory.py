"""Pictures of Theorem 3 and Lemma 7, and of where the client level loses its accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers.studies.bench.style import label_lines
from fedclust_helpers.studies.feddp_kmeans.figures._common import (
    DARK,
    INSIDE,
    OUTSIDE,
    THEORY,
    WRONG,
    panels,
    plain_ticks,
)


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
    ax = panels(axes)
    marks = ("o", "s", "^", "D")
    for mark, (separation, errors) in zip(marks, halving.items(), strict=False):
        shown = np.maximum(np.asarray(errors, dtype=np.float64), 1e-4)
        ax[0].plot(np.arange(len(shown)), shown, mark + "-", label=f"{separation:g} σ")
    start = max(float(np.asarray(e)[0]) for e in halving.values())
    steps = np.arange(6)
    ax[0].plot(steps, start * 0.5**steps, **THEORY)
    ax[0].set(yscale="log", ylim=(4e-5, 5e3), xlabel="rounds T", ylabel="error of a centre (log)")
    ax[0].set_title("The error halves, or better (line)")
    ax[0].legend(loc="upper right", ncols=2, columnspacing=0.8)

    for mark, color, (name, (product, floor)) in zip(
        marks, (INSIDE, OUTSIDE), floors.items(), strict=False
    ):
        ax[1].plot(np.asarray(product) / 1e3, floor, mark, color=color, label=f"{name} varied")
    product, floor = (np.concatenate([np.ravel(v[i]) for v in floors.values()]) for i in (0, 1))
    product = product / 1e3
    ends = np.array([product.min(), product.max()])
    ax[1].plot(ends, np.median(product * floor) / ends, **THEORY)
    ax[1].set(xscale="log", yscale="log", xlabel="ε n / 1000 (log)", ylabel="floor (log)")
    plain_ticks(ax[1], [5, 20, 80])
    plain_ticks(ax[1], [0.03, 0.1, 0.3], "y")
    ax[1].set_title("The floor falls as 1/(ε n)")
    ax[1].legend(loc="upper right")

    t, printed, exact = (np.asarray(v, dtype=np.float64) for v in rounds)
    ax[2].plot(t, printed[0] * t, **THEORY)
    ax[2].plot(t, exact[0] * np.sqrt(t), linestyle="--", **THEORY)
    ax[2].plot(t, printed, "o", color=WRONG, label="printed noise")
    ax[2].plot(t, exact, "s", color=INSIDE, label="exact composition")
    ax[2].set(xscale="log", yscale="log", xlabel="rounds T (log)", ylabel="floor (log)")
    plain_ticks(ax[2], t)
    ax[2].set_title("T as printed; √T is enough")
    ax[2].legend(loc="upper left")

    d, measured, bound, corrected = (np.asarray(v, dtype=np.float64) for v in dimensions)
    ax[3].plot(d, bound, color=WRONG, linestyle=":", linewidth=1.6)
    ax[3].plot(d, corrected, **THEORY)
    ax[3].plot(d, measured, "o", color=INSIDE)
    ax[3].set(xscale="log", yscale="log", xlabel="dimension d (log)", ylabel="floor (log)")
    ax[3].set(xlim=(d[0] * 0.8, d[-1] * 1.25))
    plain_ticks(ax[3], d)
    ax[3].text(d[-1], bound[-1] * 0.82, "printed", ha="right", va="top", fontsize=10)
    ax[3].text(d[1] * 1.3, corrected[1] * 0.8, "with √(d ln 1/δ)", va="top", fontsize=10)
    ax[3].set_title("A factor √d is missing")

    n, to_empirical, to_true = (np.asarray(v, dtype=np.float64) for v in true_means)
    ax[4].plot(n, to_true, "s-", color=WRONG, label="to the true means")
    ax[4].plot(n, to_empirical, "o-", color=INSIDE, label="to the empirical means")
    ax[4].set(xscale="log", yscale="log", xlabel="points n (log)", ylabel="error (log)")
    plain_ticks(ax[4], n)
    ax[4].set_title("It holds for the empirical means")
    ax[4].legend(loc="center right")

    d, printed_rate, fixed_rate = (np.asarray(v, dtype=np.float64) for v in lemma)
    ax[5].axhline(0.1, color=DARK, linestyle="--", linewidth=1.2)
    ax[5].plot(d, printed_rate, "o-", color=WRONG, label="printed")
    ax[5].plot(d, fixed_rate, "s-", color=INSIDE, label="corrected")
    ax[5].set_xscale("log")
    plain_ticks(ax[5], d)
    ax[5].text(d[-1], 0.13, "allowed", ha="right", fontsize=10)
    ax[5].set(xlabel="dimension d (log)", ylabel="share of failures", ylim=(-0.04, 1.08))
    ax[5].set_title("Lemma 7 fails from d = 2 on")
    ax[5].legend(loc="center right")
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
    axes : two Axes
    epsilons : array_like of shape (m,)
        Totals.
    noise_over_gap : mapping of "client" and "point" to arrays of shape (m,)
        Predicted spectral norm of the noise of Step 1 over the eigengap.
    ablation : mapping of names to the excess cost
    """
    left, right = panels(axes)
    epsilons = np.asarray(epsilons, dtype=np.float64)
    styles = {"client": (OUTSIDE, "s-"), "point": (INSIDE, "o-")}
    for unit, values in noise_over_gap.items():
        color, style = styles[unit]
        left.plot(epsilons, values, style, color=color, label=f"one {unit}")
    left.axhline(1, color=DARK, linestyle="--", linewidth=1.3)
    left.text(epsilons[0], 0.93, "found below", va="top", fontsize=10)
    left.set(xscale="log", yscale="log", xlabel="total ε (log)", ylabel="noise / eigengap (log)")
    plain_ticks(left, epsilons)
    plain_ticks(left, [0.3, 1, 3, 10], "y")
    left.set_title("Hiding a client drowns the subspace")
    label_lines(left, x_offset=8)
    y = np.arange(len(ablation))[::-1]
    widths = np.array(list(ablation.values()))
    right.barh(y, widths, color=[OUTSIDE] + ["#c9c9cf"] * (len(y) - 1), height=0.6)
    right.set_yticks(y, list(ablation))
    for height, width in zip(y, widths, strict=True):
        right.text(width, height, f" {width:.2f}", va="center", fontsize=10)
    right.set(xlim=(0, 1.18 * widths.max()), xlabel="cost above the optimum, total ε = 1")
    right.set_title("The noise of Step 1 harms most")
    return axes
