"""Draw the figures of the README and of the book's first page from the committed result tables.

python scripts/readme_figure.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)
import numpy as np  # noqa: E402

from fedclust_helpers import studies  # noqa: E402
from fedclust_helpers.studies.bench import readable  # noqa: E402
from fedclust_helpers.studies.bench.plots import by, curves, finish, note  # noqa: E402
from fedclust_helpers.studies.bench.style import (  # noqa: E402
    BLUE,
    DARK,
    MUTED,
    Look,
    use_style,
)
from fedclust_helpers.studies.beyond.figures import plot_bounds  # noqa: E402
from fedclust_helpers.studies.side_by_side.figures import plot_price  # noqa: E402

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
LOOKS = {
    "sulloyd_fold": Look("SuLloyd (Laplace noise)", MUTED, "^--"),
    "glloyd_fold": Look("GLloyd (Gaussian noise)", DARK, "s-"),
    "fastlloyd": Look("FastLloyd", BLUE, "o-"),
}
LEVELS = {"lloyd": ("Lloyd without noise", "--"), "optimum": ("best known, without noise", ":")}
NAMES = {  # at which ε the name of a line points to it, and from how many points away
    "sulloyd_fold": (0.15, (55, 26)),
    "glloyd_fold": (0.19, (45, 14)),
    "fastlloyd": (0.16, (-44, -22)),
}


def save(fig: Any, name: str) -> None:
    """Write one figure, if it can be read."""
    if wrong := readable.problems(fig):
        raise SystemExit(f"{name}: " + "; ".join(wrong))
    FIGURES.mkdir(parents=True, exist_ok=True)
    fig.savefig(FIGURES / f"{name}.png", dpi=120, metadata={"Software": None})


def price_of_trust() -> None:
    """Excess cost over the number of records under every trust model: medians over data sets."""
    fig, ax = plt.subplots(figsize=(7.6, 3.9))
    where = {"data": "mixture", "d": 2, "k": 5, "epsilon": 1.0}
    plot_price(ax, studies.load_results("side_by_side"), **where)
    save(fig, "price_of_trust")


def fastlloyd_s1() -> None:
    """NICV against epsilon on S1: means and 95 % intervals of 100 runs."""
    table = studies.load_results("fastlloyd_nicv")
    table = table[(table["dataset"] == "s1") & (table["init"] != "binary")]
    means, halves = (by(table, "method", "epsilon", y) for y in ("nicv_mean", "ci95"))
    fig, ax = plt.subplots(figsize=(7.0, 3.9))
    lines = {method: means[method] for method in LOOKS}
    curves(ax, None, lines, LOOKS, errors=halves, interval="bars")
    for method, (at, away) in NAMES.items():
        y = float(np.interp(at, means[method].index, means[method]))
        note(ax, LOOKS[method].label, (at, y), away, line=True)
    for method, (name, style) in LEVELS.items():
        level = float(means[method].iloc[0])
        ax.axhline(level, linestyle=style, color=DARK, linewidth=1.3, zorder=1)
        note(ax, name, (1.02, level), (0, -8), ha="right")
    title = "FastLloyd needs about half the ε for the same cost (data S1, k = 15)"
    x, y = "ε (total, add/remove one point)", "NICV: mean squared distance"
    finish(ax, title, x, y, ylim=(0, 0.068), xticks=means["fastlloyd"].index)
    save(fig, "fastlloyd_s1")


def better_bounds() -> None:
    """The cost of bounds that do not fit."""
    fig, ax = plt.subplots(figsize=(7.0, 3.9))
    plot_bounds(ax, studies.load_results("better_bounds"))
    save(fig, "better_bounds")


def main() -> None:
    """Draw all."""
    use_style()
    fastlloyd_s1()
    price_of_trust()
    better_bounds()


if __name__ == "__main__":
    main()
