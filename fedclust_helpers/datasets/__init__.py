"""Data sets of the papers: real ones (checked downloads), generated ones, splits, scaling.

Iris, wine, digits and two photographs ship with scikit-learn, and most ``make_*`` data sets are
generated, so the default needs no network. The rest uses the file in the folder named by the
environment variable ``FEDCLUST_DATA_DIR``, or else a cached download whose sha256 is checked.

A `Dataset` is one table. A `FederatedDataset` is split over clients and has public points at the
server; ``make_*_federation``, `make_server_mixture` and `load_stackoverflow_posts` return one.

A data set brings *public* bounds: limits known without looking at the data. Private algorithms
scale with those (`scale_to_box`). Labels are for scoring and for building a federation, never an
input of the clustering.
"""

from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._files import (
    DatasetUnavailableError,
    RegistryEntry,
    fetch,
    registry,
)
from fedclust_helpers.datasets.census import (
    ACS_STATES,
    ACS_URL,
    EMPLOYMENT,
    load_acsincome,
    make_acsincome_federation,
    one_hot_acsincome,
)
from fedclust_helpers.datasets.federated import (
    FederatedDataset,
    make_image_federation,
    make_server_mixture,
)
from fedclust_helpers.datasets.generators import (
    ABLATION_DESIGN,
    SYNTH_DESIGN,
    SYNTH_K_DESIGN,
    gaussian_mixture,
    make_ablation,
    make_ball_mixture,
    make_g2,
    make_synth,
    make_timesynth,
    separation_index,
)
from fedclust_helpers.datasets.loaders import (
    available,
    load_adult,
    load_birch2,
    load_breast_wisconsin,
    load_digits,
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
    partition_unequal,
    scale_min_max_not_private,
    scale_to_box,
)
from fedclust_helpers.datasets.text import (
    SENTENCE_MODEL,
    STACKOVERFLOW_TAGS,
    STACKOVERFLOW_URL,
    load_stackoverflow_posts,
    load_tinyshakespeare,
    make_shakespeare_federation,
)

__all__ = [
    "ABLATION_DESIGN",
    "ACS_STATES",
    "ACS_URL",
    "EMPLOYMENT",
    "SENTENCE_MODEL",
    "STACKOVERFLOW_TAGS",
    "STACKOVERFLOW_URL",
    "SYNTH_DESIGN",
    "SYNTH_K_DESIGN",
    "Dataset",
    "DatasetUnavailableError",
    "FederatedDataset",
    "RegistryEntry",
    "available",
    "fetch",
    "gaussian_mixture",
    "load_acsincome",
    "load_adult",
    "load_birch2",
    "load_breast_wisconsin",
    "load_digits",
    "load_iris",
    "load_lsun",
    "load_mnist",
    "load_s1",
    "load_stackoverflow_posts",
    "load_tinyshakespeare",
    "load_wine",
    "load_yeast",
    "make_ablation",
    "make_acsincome_federation",
    "make_ball_mixture",
    "make_g2",
    "make_image_federation",
    "make_server_mixture",
    "make_shakespeare_federation",
    "make_synth",
    "make_timesynth",
    "one_hot_acsincome",
    "partition_dirichlet",
    "partition_iid",
    "partition_unequal",
    "registry",
    "scale_min_max_not_private",
    "scale_to_box",
    "separation_index",
]
