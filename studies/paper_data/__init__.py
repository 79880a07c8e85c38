"""Data of the papers: their generated sets, their federations, and the files they used.

A `FederatedDataset` is split over clients and has public points at the server; a
`LabelledFederation` has examples to train and to test models at every client. Everything else is a
`fedclust_helpers.datasets.Dataset`.
"""

from studies.paper_data.census import (
    ACS_STATES,
    EMPLOYMENT,
    load_acsincome,
    make_acsincome_federation,
    one_hot_acsincome,
)
from studies.paper_data.federated import make_image_federation, make_server_mixture
from studies.paper_data.images import (
    IMAGE_SOURCES,
    make_rotated_digits,
    make_rotated_images,
)
from studies.paper_data.records import FederatedDataset, LabelledFederation
from studies.paper_data.roles_and_lines import (
    ALPHABET,
    LINES,
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
    separation_index,
)
from studies.paper_data.text import load_tinyshakespeare

__all__ = [
    "ABLATION_DESIGN", "ACS_STATES", "ALPHABET", "EMPLOYMENT", "IMAGE_SOURCES", "LINES",
    "SYNTH_DESIGN", "SYNTH_K_DESIGN", "FederatedDataset", "LabelledFederation", "load_acsincome",
    "load_tinyshakespeare", "make_ablation", "make_acsincome_federation",
    "make_g2", "make_image_federation", "make_lines",
    "make_rotated_digits", "make_rotated_images", "make_server_mixture", "make_shakespeare_roles",
    "make_synth", "make_timesynth", "one_hot_acsincome", "separation_index",
]  # fmt: skip
