"""Draw the README's figure from the committed result table: python scripts/readme_figure.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

from fedclust_helpers import studies  # noqa: E402
from fedclust_helpers.studies.bench.plots import by, curves, finish  # noqa: E402
from fedclust_helpers.studies.bench.style import DARK, use_style  # noqa: E402
from fedclust_helpers.studies.fastlloyd.figures import METHODS  # noqa: E402

TARGET = Path(__file__).resolve().parents[1] / "docs" / "figures" / "fastlloyd_s1.png"


def main() -> None:
    """NICV against epsilon on S1: means and 95 % intervals of 100 runs."""
    use_style()
    table = studies.load_results("fastlloyd_nicv")
    table = table[(table["dataset"] == "s1") & (table["init"] != "binary")]
    fig, ax = plt.subplots(figsize=(6.6, 3.6))
    means, halves = (by(table, "method", "epsilon", y) for y in ("nicv_mean", "ci95"))
    lines = {method: means[method] for method in METHODS}
    curves(ax, None, lines, METHODS, errors=halves, interval="bars")
    for method, name in (("lloyd", "Lloyd, no noise"), ("optimum", "best non-private")):
        value = float(means[method].iloc[0])
        style = "--" if method == "lloyd" else ":"
        ax.plot([0.1, 1.0], [value, value], style, color=DARK, label=name)
    title = "FastLloyd reaches the same cost at a smaller ε (S1, k = 15)"
    x = "ε (total, add/remove one point)"
    finish(ax, title, x, "NICV", ylim=(0, None), names="ends")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(TARGET, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main()
