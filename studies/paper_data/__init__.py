"""Data of the papers: their generated sets, their federations, and the files they used.

A `FederatedDataset` is split over clients and has public points at the server; a
`LabelledFederation` has examples to train and to test models at every client. Everything else is a
`fedclust_helpers.datasets.Dataset`. What is read from files is listed in ``registry.csv``.
"""

from studies.paper_data.census import (
    ACS_STATES,
    EMPLOYMENT,
    make_acsincome_federation,
    one_hot_acsincome,
)
from studies.paper_data.federated import make_image_federation, make_server_mixture
from studies.paper_data.files import DatasetUnavailableError, available, fetch, registry
from studies.paper_data.images import (
    IMAGE_SOURCES,
    make_rotated_digits,
    make_rotated_images,
)
from studies.paper_data.loaders import (
    load_adult,
    load_birch2,
    load_breast_wisconsin,
    load_images,
    load_lsun,
    load_s1,
    load_yeast,
)
from studies.paper_data.open_tables import OPEN_TABLES, load_open
from studies.paper_data.records import FederatedDataset, LabelledFederation
from studies.paper_data.roles_and_lines import (
    ALPHABET,
    LINES,
    load_tinyshakespeare,
    make_lines,
    make_shakespeare_roles,
)
from studies.paper_data.synthetic import (
    ABLATION_DESIGN,
    SYNTH_DESIGN,
    SYNTH_K_DESIGN,
    make_ablation,
    make_g2,
    make_synth,
    make_timesynth,
)

__all__ = [
    "ABLATION_DESIGN", "ACS_STATES", "ALPHABET", "EMPLOYMENT", "IMAGE_SOURCES", "LINES",
    "OPEN_TABLES", "SYNTH_DESIGN", "SYNTH_K_DESIGN", "DatasetUnavailableError",
    "FederatedDataset", "LabelledFederation", "available", "fetch",
    "load_adult", "load_birch2", "load_breast_wisconsin", "load_images", "load_lsun",
    "load_open", "load_s1", "load_tinyshakespeare", "load_yeast", "make_ablation",
    "make_acsincome_federation", "make_g2", "make_image_federation", "make_lines",
    "make_rotated_digits", "make_rotated_images", "make_server_mixture",
    "make_shakespeare_roles", "make_synth", "make_timesynth", "one_hot_acsincome", "registry",
]  # fmt: skip
