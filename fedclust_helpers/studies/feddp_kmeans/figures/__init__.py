"""Figures and tables of notebook 02 (FedDP-KMeans)."""

from fedclust_helpers.studies.feddp_kmeans.figures._common import METHODS
from fedclust_helpers.studies.feddp_kmeans.figures.privacy import (
    plot_audit,
    plot_composition,
    plot_traffic,
)
from fedclust_helpers.studies.feddp_kmeans.figures.results import (
    image_patches,
    paint,
    pareto_front,
    plot_comparison,
    plot_cost_table,
    plot_elbow,
    plot_excess,
    plot_images,
    plot_limits,
    plot_missing,
    plot_pareto,
)
from fedclust_helpers.studies.feddp_kmeans.figures.steps import (
    plane_between,
    plot_init,
    plot_rounds,
    plot_server_data,
    plot_subspace,
    plot_weights,
)
from fedclust_helpers.studies.feddp_kmeans.figures.theory import plot_bounds, plot_client_level

__all__ = [
    "METHODS",
    "image_patches",
    "paint",
    "pareto_front",
    "plane_between",
    "plot_audit",
    "plot_bounds",
    "plot_client_level",
    "plot_comparison",
    "plot_composition",
    "plot_cost_table",
    "plot_elbow",
    "plot_excess",
    "plot_images",
    "plot_init",
    "plot_limits",
    "plot_missing",
    "plot_pareto",
    "plot_rounds",
    "plot_server_data",
    "plot_subspace",
    "plot_traffic",
    "plot_weights",
]
