"""Figures and tables of notebook 04 (RR-Cluster)."""

from fedclust_helpers.studies.rr_cluster.figures._common import ACCOUNTANTS, METHODS
from fedclust_helpers.studies.rr_cluster.figures.privacy import (
    plot_accountants,
    plot_counter_example,
    plot_flips,
    plot_moved,
    plot_relations,
    plot_shifts,
    plot_views,
)
from fedclust_helpers.studies.rr_cluster.figures.results import (
    MAIN,
    main_rows,
    paired_gains,
    plot_choice,
    plot_comparison,
    plot_limits,
    plot_results,
)
from fedclust_helpers.studies.rr_cluster.figures.steps import (
    plot_bias_variance,
    plot_counts,
    plot_found,
    plot_ifca,
    plot_noise_of_means,
)
from fedclust_helpers.studies.rr_cluster.figures.theory import plot_convergence, plot_table_4

__all__ = [
    "ACCOUNTANTS",
    "MAIN",
    "METHODS",
    "main_rows",
    "paired_gains",
    "plot_accountants",
    "plot_bias_variance",
    "plot_choice",
    "plot_comparison",
    "plot_convergence",
    "plot_counter_example",
    "plot_counts",
    "plot_flips",
    "plot_found",
    "plot_ifca",
    "plot_limits",
    "plot_moved",
    "plot_noise_of_means",
    "plot_relations",
    "plot_results",
    "plot_shifts",
    "plot_table_4",
    "plot_views",
]
