"""Tables that ship with scikit-learn, generated mixtures, splits over clients, scaling.

Nothing here needs a file or a network; data of the papers are in `studies.paper_data`.

A `Dataset` brings *public* bounds: limits known without looking at the data. Private algorithms
scale with those (`scale_to_box`). Labels are for scoring, never an input of the clustering.

>>> iris = load_iris()
>>> iris.points.shape, iris.n_clusters
((150, 4), 3)
"""

from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets.generators import gaussian_mixture, make_ball_mixture
from fedclust_helpers.datasets.shipped import load_digits, load_iris, load_wine
from fedclust_helpers.datasets.splits import (
    partition_iid,
    scale_from_box,
    scale_to_box,
)

__all__ = [
    "Dataset", "gaussian_mixture", "load_digits", "load_iris", "load_wine", "make_ball_mixture",
    "partition_iid", "scale_to_box",
]  # fmt: skip
