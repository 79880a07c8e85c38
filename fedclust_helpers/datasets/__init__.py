"""Tables of real data (checked downloads), generated mixtures, splits over clients, scaling.

Iris, wine and digits ship with scikit-learn and ``make_*`` data is generated, so the default needs
no network. The rest uses the file in the folder named by the environment variable
``FEDCLUST_DATA_DIR``, or else a cached download whose sha256 is checked.

A `Dataset` brings *public* bounds: limits known without looking at the data. Private algorithms
scale with those (`scale_to_box`). Labels are for scoring, never an input of the clustering.
"""

from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._files import DatasetUnavailableError, RegistryEntry, fetch, registry
from fedclust_helpers.datasets.generators import gaussian_mixture, make_ball_mixture
from fedclust_helpers.datasets.loaders import (
    available,
    load_adult,
    load_birch2,
    load_breast_wisconsin,
    load_digits,
    load_fashion_mnist,
    load_iris,
    load_lsun,
    load_mnist,
    load_s1,
    load_wine,
    load_yeast,
)
from fedclust_helpers.datasets.splits import (
    partition_dirichlet,
    partition_iid,
    scale_min_max_not_private,
    scale_to_box,
)
