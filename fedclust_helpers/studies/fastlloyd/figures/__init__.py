"""Figures of notebook 01: each draws numbers that the notebook computed, and returns its axes.

Nothing here computes a result. Arguments named `axes` take several ``Axes``.
"""

from fedclust_helpers.studies.fastlloyd.figures._common import headline
from fedclust_helpers.studies.fastlloyd.figures.results import (
    METRICS,
    plot_ablation,
    plot_breaks,
    plot_metrics,
    plot_nicv,
    plot_scaling,
)
from fedclust_helpers.studies.fastlloyd.figures.theory import (
    plot_changes,
    plot_claim_ratio,
    plot_error_over_epsilon,
    plot_error_slips,
    plot_fold,
    plot_hockey_stick,
    plot_hospitals,
    plot_radius,
    plot_reconstruction,
    plot_roc,
    plot_split,
)
from fedclust_helpers.studies.fastlloyd.figures.wire import (
    plot_attacks,
    plot_audit,
    plot_masked,
    plot_rounding,
    plot_run,
)

__all__ = [
    "METRICS",
    "headline",
    "plot_ablation",
    "plot_attacks",
    "plot_audit",
    "plot_breaks",
    "plot_changes",
    "plot_claim_ratio",
    "plot_error_over_epsilon",
    "plot_error_slips",
    "plot_fold",
    "plot_hockey_stick",
    "plot_hospitals",
    "plot_masked",
    "plot_metrics",
    "plot_nicv",
    "plot_radius",
    "plot_reconstruction",
    "plot_roc",
    "plot_rounding",
    "plot_run",
    "plot_scaling",
    "plot_split",
]
