"""Data sets of the papers: real ones (checked downloads), generated ones, splits, scaling.

Iris, wine, digits and two photographs ship with scikit-learn, and most ``make_*`` data sets are
generated, so the default needs no network. The rest uses the file in the folder named by the
environment variable ``FEDCLUST_DATA_DIR``, or else a cached download whose sha256 is checked.

A `Dataset` is one table. A `FederatedDataset` is split over clients and has public points at the
server; `make_server_mixture`, `load_stackoverflow_posts` and ``make_*_federation`` return one. Only
`make_dirichlet_federation` does not: like ``make_rotated_*``, `make_shakespeare_roles` and
`make_lines`, it returns a `LabelledFederation`, with examples to train and to test models at every
client.

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
from fedclust_helpers.datasets.images import (
    EMNIST_SUBSETS,
    IMAGE_SOURCES,
    load_cifar10,
    load_cifar100,
    load_emnist,
    load_fashion_mnist,
)
from fedclust_helpers.datasets.labelled import (
    ALPHABET,
    LINES,
    LabelledFederation,
    make_dirichlet_federation,
    make_lines,
    make_rotated_digits,
    make_rotated_images,
    make_shakespeare_roles,
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
    "ALPHABET",
    "EMNIST_SUBSETS",
    "EMPLOYMENT",
    "IMAGE_SOURCES",
    "LINES",
    "SENTENCE_MODEL",
    "STACKOVERFLOW_TAGS",
    "STACKOVERFLOW_URL",
    "SYNTH_DESIGN",
    "SYNTH_K_DESIGN",
    "Dataset",
    "DatasetUnavailableError",
    "FederatedDataset",
    "LabelledFederation",
    "RegistryEntry",
    "available",
    "fetch",
    "gaussian_mixture",
    "load_acsincome",
    "load_adult",
    "load_birch2",
    "load_breast_wisconsin",
    "load_cifar10",
    "load_cifar100",
    "load_digits",
    "load_emnist",
    "load_fashion_mnist",
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
    "make_dirichlet_federation",
    "make_g2",
    "make_image_federation",
    "make_lines",
    "make_rotated_digits",
    "make_rotated_images",
    "make_server_mixture",
    "make_shakespeare_federation",
    "make_shakespeare_roles",
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
