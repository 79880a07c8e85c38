"""Draw the README's figure from the committed result table: python scripts/readme_figure.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

from fedclust_helpers import studies  # noqa: E402
from fedclust_helpers.studies.bench import style as figures  # noqa: E402
from fedclust_helpers.studies.bench.style import label_lines  # noqa: E402

TARGET = Path(__file__).resolve().parents[1] / "docs" / "figures" / "fastlloyd_s1.png"
NAMES = {"sulloyd": "SuLloyd", "glloyd": "GLloyd", "fastlloyd": "FastLloyd"}


def main() -> None:
    """NICV against epsilon on S1: means and 95 % intervals of 100 runs."""
    figures.use_style()
    table = studies.load_results("fastlloyd_nicv")
    table = table[(table["dataset"] == "s1") & (table["init"] != "binary")]
    fig, ax = plt.subplots(figsize=(6.6, 3.6))
    for method, name in NAMES.items():
        part = table[table["method"] == method].sort_values("epsilon")
        ax.errorbar(
            part["epsilon"], part["nicv_mean"], yerr=part["ci95"], color=figures.COLORS[method],
            marker=figures.MARKERS[method], capsize=2,
        )  # fmt: skip
        ax.plot(part["epsilon"], part["nicv_mean"], color="none", label=name)
    for method, name in (("lloyd", "Lloyd, no noise"), ("optimum", "best non-private")):
        value = float(table.loc[table["method"] == method, "nicv_mean"].iloc[0])
        style = "--" if method == "lloyd" else ":"
        ax.plot([0.1, 1.0], [value, value], style, color="#222222", label=name)
    ax.set(xlabel="ε (total, add/remove one point)", ylabel="NICV", ylim=(0, None))
    ax.set_title("FastLloyd reaches the same cost at a smaller ε (S1, k = 15)")
    label_lines(ax)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(TARGET, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main()
