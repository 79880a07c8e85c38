"""Figures and tables of notebook 03 (locally private k-means)."""

from fedclust_helpers.studies.ldp_kmeans.figures._common import METHODS, TRUST
from fedclust_helpers.studies.ldp_kmeans.figures.grids import (
    plot_corners,
    plot_depths,
    plot_lights,
    plot_run,
    plot_shells,
)
from fedclust_helpers.studies.ldp_kmeans.figures.oracles import (
    plot_coin,
    plot_ladder,
    plot_noise_audit,
    plot_spectrum,
    plot_splits,
    plot_sums,
)
from fedclust_helpers.studies.ldp_kmeans.figures.results import (
    cost_ratios,
    plot_growth,
    plot_limits,
    plot_methods,
    plot_rounds,
    plot_trust,
    said_by_users,
)
from fedclust_helpers.studies.ldp_kmeans.figures.theory import plot_lsh, plot_projection

__all__ = [
    "METHODS",
    "TRUST",
    "cost_ratios",
    "plot_coin",
    "plot_corners",
    "plot_depths",
    "plot_growth",
    "plot_ladder",
    "plot_lights",
    "plot_limits",
    "plot_lsh",
    "plot_methods",
    "plot_noise_audit",
    "plot_projection",
    "plot_rounds",
    "plot_run",
    "plot_shells",
    "plot_spectrum",
    "plot_splits",
    "plot_sums",
    "plot_trust",
    "said_by_users",
]
