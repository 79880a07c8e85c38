"""Draw the figures of the README and of the book's first page from the committed result tables.

python tools/readme_figure.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

import studies  # noqa: E402
from studies.bench import readable  # noqa: E402
from studies.bench.style import use_style  # noqa: E402
from studies.beyond.figures import plot_bounds  # noqa: E402
from studies.side_by_side.figures import plot_price  # noqa: E402

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"


def save(fig: Any, name: str) -> None:
    """Write one figure, if it can be read."""
    if wrong := readable.problems(fig):
        raise SystemExit(f"{name}: " + "; ".join(wrong))
    FIGURES.mkdir(parents=True, exist_ok=True)
    fig.savefig(FIGURES / f"{name}.png", dpi=240, metadata={"Software": None})


def price_of_trust() -> None:
    """Excess cost over the number of records under every trust model: medians over data sets."""
    fig, ax = plt.subplots(figsize=(5.0, 4.3))
    where = {"data": "mixture", "d": 2, "k": 5, "epsilon": 1.0}
    plot_price(ax, studies.load_results("side_by_side"), **where)
    save(fig, "price_of_trust")


def better_bounds() -> None:
    """The cost of bounds that do not fit."""
    fig, ax = plt.subplots(figsize=(7.0, 3.9))
    plot_bounds(ax, studies.load_results("better_bounds"))
    save(fig, "better_bounds")


def main() -> None:
    """Draw all."""
    use_style()
    price_of_trust()
    better_bounds()


if __name__ == "__main__":
    main()
