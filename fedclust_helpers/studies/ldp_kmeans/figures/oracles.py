"""Pictures of the building blocks: a coin, one bit per user, heavy hitters, sums, an audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import norm

from fedclust_helpers.studies.ldp_kmeans.figures._common import (
    BLUE,
    DARK,
    LOCAL,
    MUTED,
    PALE,
    THEORY,
    WRONG,
    line,
    panels,
    plain_ticks,
)


def plot_coin(ax: Axes, naive: ArrayLike, debiased: ArrayLike, truth: float) -> Axes:
    """Histograms of the counted and of the de-biased number of yes answers over many repetitions.

    Parameters
    ----------
    naive, debiased : array_like of shape (m,)
    truth : float
    """
    naive, debiased = np.asarray(naive, dtype=np.float64), np.asarray(debiased, dtype=np.float64)
    low, high = min(naive.min(), debiased.min()), max(naive.max(), debiased.max())
    edges = np.linspace(low, high, 90)
    tallest = 0.0
    for values, color, name in ((debiased, LOCAL, "de-biased"), (naive, WRONG, "naive count")):
        heights = np.histogram(values, edges)[0]
        ax.stairs(heights, edges, fill=True, color=color, alpha=0.85)
        tallest = max(tallest, float(heights.max()))
        ax.text(
            values.mean(), heights.max() * 1.04, name, ha="center", va="bottom", fontsize=10,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    ax.axvline(truth, color=DARK, linestyle="--", linewidth=1.4, zorder=0)
    ax.annotate(
        xy=(truth, 1.2 * tallest), xytext=(-6, 0), textcoords="offset points", ha="right",
        va="center", **{k: v for k, v in line("truth").items() if k != "arrowprops"},
    )  # fmt: skip
    ax.set(yticks=[], ylim=(0, 1.3 * tallest), xlabel="estimated number of “yes”")
    ax.set_ylabel("repetitions")
    ax.set_title("Counting the answers is wrong; undoing the coin is right")
    return ax


def plot_spectrum(
    ax: Axes, estimates: ArrayLike, popular: ArrayLike, counts: ArrayLike, *, std: float, z: float
) -> Axes:
    """Estimates of all buckets: a bell of noise, and the popular values that stand out of it.

    Parameters
    ----------
    estimates : array_like of shape (T,)
    popular, counts : array_like of shape (m,)
        Buckets of the planted values and their true counts.
    std, z : float
        Predicted standard deviation, and the threshold in such units.
    """
    estimates, popular = np.asarray(estimates, dtype=np.float64), np.asarray(popular)
    noise = np.delete(estimates, popular) / 1e3
    edges = np.linspace(noise.min(), noise.max(), 70)
    heights = np.histogram(noise, edges)[0]
    ax.stairs(np.maximum(heights, 0.5), edges, fill=True, color=PALE, baseline=0.5)
    grid = np.linspace(edges[0], edges[-1], 300)
    bell = norm.pdf(grid, 0, std / 1e3) * len(noise) * (edges[1] - edges[0])
    ax.plot(grid, bell, **THEORY)
    at, truth = estimates[popular] / 1e3, np.asarray(counts) / 1e3
    levels = np.geomspace(1.2, 60, len(at))
    ax.hlines(levels, at, truth, color=MUTED, linewidth=1.0)
    ax.plot(at, levels, "v", color=LOCAL, markersize=9, markeredgecolor="white")
    ax.plot(truth, levels, "|", color=DARK, markersize=14, markeredgewidth=1.8)
    ax.axvline(z * std / 1e3, color=MUTED, linestyle="--", linewidth=1.2)
    ax.text(z * std / 1e3 + 0.15, 2500, f"{z:.1f} sd:\nnoise ends here", va="top", fontsize=10)
    ax.set(yscale="log", ylim=(0.5, 8e3))
    ax.set(xlabel="estimated users in a bucket / 1000", ylabel="buckets (log scale)")
    first = int(np.argmax(truth))
    ax.annotate(
        xy=(float(at[first]), levels[first]), xytext=(0, 30), textcoords="offset points",
        ha="center", **line("popular places\n(ticks: the truth)"),
    )  # fmt: skip
    ax.set_title("One bit from each user, all buckets at once")
    return ax


def plot_splits(
    axes: Any,
    n_questions: ArrayLike,
    curves: Mapping[float, Mapping[str, ArrayLike]],
    measured: Mapping[float, Mapping[str, tuple[float, float]]],
) -> Any:
    """Error of M questions when the users or the budget are split, one panel per epsilon.

    Parameters
    ----------
    axes : one Axes for each epsilon
    n_questions : array_like of shape (m,)
    curves : epsilon -> name -> sd/sqrt(n) of shape (m,)
    measured : epsilon -> name -> (M, measured sd/sqrt(n))
    """
    labels = {"mixed": "mixed: ε/2.18 questions each"}
    styles = {
        "split the budget": (WRONG, "X"),
        "split the users": (LOCAL, "v"),
        "mixed": (BLUE, "o"),
    }
    for ax, (epsilon, parts) in zip(panels(axes), curves.items(), strict=True):
        for name, values in parts.items():
            color, marker = styles[name]
            style = "--" if name == "mixed" else "-"
            ax.plot(n_questions, values, style, color=color, label=labels.get(name, name))
            if name in measured[epsilon]:
                ax.plot(*measured[epsilon][name], marker, color=color, markersize=9)
        ax.set(xscale="log", yscale="log", xlabel="questions M (log scale)")
        plain_ticks(ax, [1, 2, 5, 10, 20, 40])
        plain_ticks(ax, [1, 2, 5, 10, 20, 50], "y")
        ax.set_title(f"ε = {epsilon:g}", fontsize=11)
    first = panels(axes)[0]
    first.set_ylabel("sd of a count / √n (log)")
    first.legend(loc="upper left")
    first.figure.suptitle("Let each user answer few questions well", x=0.01, ha="left", fontsize=12)
    return axes


def plot_ladder(
    ax: Axes, counts: ArrayLike, shares: Mapping[float, ArrayLike], limits: Mapping[float, float]
) -> Axes:
    """Share of runs in which a planted value was recovered, against how many users hold it.

    Parameters
    ----------
    counts : array_like of shape (m,)
    shares : epsilon -> shares of shape (m,)
    limits : epsilon -> predicted threshold
    """
    for (epsilon, values), (color, marker) in zip(
        shares.items(), ((LOCAL, "v"), (BLUE, "o")), strict=False
    ):
        ax.plot(counts, values, marker + "-", color=color, label=f"ε = {epsilon:g}")
        ax.axvline(limits[epsilon], color=color, linestyle="--", linewidth=1.3)
    ax.set(xscale="log", ylim=(-0.04, 1.08), xlabel="users who hold the value (log scale)")
    ax.set_ylabel("share of runs that find it")
    plain_ticks(ax, [1000, 3000, 10_000, 30_000])
    ax.legend(loc="center right", title="dashed: predicted")
    ax.set_title("Above the predicted count a value among 16 million is found")
    return ax


def plot_sums(
    ax: Axes, n_users: ArrayLike, errors: ArrayLike, theory: ArrayLike, bound: ArrayLike
) -> Axes:
    """Error of a recovered vector sum against n: each run, the exact rms, Lemma 2.12.

    Parameters
    ----------
    n_users, theory, bound : array_like of shape (m,)
    errors : array_like of shape (m, repetitions)
    """
    n_users, errors = np.asarray(n_users, dtype=np.float64), np.asarray(errors)
    for column in errors.T:
        ax.plot(n_users, column, "v", color=LOCAL, markersize=4, alpha=0.35, linewidth=0)
    ax.plot(n_users, bound, "--", color=WRONG)
    ax.plot(n_users, theory, color=DARK, linewidth=1.4)
    ax.set(xscale="log", yscale="log", xlabel="users n (log scale)")
    ax.set_ylabel("length of the error (log scale)")
    plain_ticks(ax, n_users)
    middle = len(n_users) // 2
    for values, name, up in ((bound, "Lemma 2.12", 12), (theory, "exact rms: σ√(d′n)", -18)):
        ax.annotate(
            name, (n_users[middle], np.asarray(values)[middle]), xytext=(8, up),
            textcoords="offset points", fontsize=10, color=DARK,
            ha="right" if up > 0 else "left",
        )  # fmt: skip
    ax.set_title("Sums cost √n too; the lemma is an upper bound with room")
    return ax


def plot_noise_audit(
    axes: Any,
    scores: Mapping[str, tuple[ArrayLike, ArrayLike]],
    lower: Mapping[str, float],
    claimed: float,
) -> Any:
    """Scores of one user's report for two possible values, one panel for each noise.

    Parameters
    ----------
    axes : two Axes
    scores : title -> (scores with value x, scores with value y)
    lower : title -> lower bound on epsilon
    claimed : float
    """
    for ax, (title, pair) in zip(panels(axes), scores.items(), strict=True):
        x, y = (np.asarray(v, dtype=np.float64) for v in pair)
        scale = x.std()
        x, y = x / scale, y / scale
        edges = np.linspace(min(x.min(), y.min()), max(x.max(), y.max()), 60)
        alarm = lower[title] > claimed
        ax.stairs(np.histogram(x, edges)[0], edges, fill=True, color=PALE)
        ax.stairs(np.histogram(y, edges)[0], edges, color=WRONG if alarm else DARK, linewidth=1.6)
        top = ax.get_ylim()[1]
        ax.set_ylim(0, 1.35 * top)
        verdict = f"ε is at least {lower[title]:.2f}" if alarm else "no alarm"
        ax.text(edges[0], 1.3 * top, f"claimed ε = {claimed:g}\n{verdict}", va="top", fontsize=10)
        ax.set(yticks=[], xlabel="score of a report / its noise", ylabel="reports")
        ax.set_title(title)
    return axes
