"""Colours, marks and names of the methods in the figures of notebook 04."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedclust_helpers.studies.bench.style import COLORS

DARK, MUTED = "#222222", "#555555"
GOOD, OTHER, WRONG, PURPLE, PALE = "#5790fc", "#f89c20", COLORS["attack"], "#964a8b", "#c9c9cf"
CYCLE = (GOOD, OTHER, WRONG, PURPLE)
STYLES = ("-", "--", "-.", ":")
THEORY: dict[str, Any] = {"color": COLORS["theory"], "linewidth": 1.3, "zorder": 1}

METHODS: Mapping[str, tuple[str, str, str]] = {
    "fedavg": ("DP-FedAvg", "#9c9ca1", "v"),
    "fedprox": ("DP-FedProx", "#9c9ca1", "<"),
    "fedper": ("DP-FedPer", "#9c9ca1", ">"),
    "ifca": ("DP-IFCA", "#f89c20", "s"),
    "fesem": ("DP-FeSEM", "#f89c20", "p"),
    "fedcam": ("DP-FedCAM", "#f89c20", "h"),
    "rr_ifca": ("RR-Cluster", "#e42536", "^"),
    "rr_fesem": ("RR-Cluster (FeSEM)", "#e42536", "P"),
    "rr_fedcam": ("RR-Cluster (FedCAM)", "#e42536", "X"),
    "sums_ifca": ("sums only", "#5790fc", "o"),
    "sums_ifca_reseed": ("sums only, re-seeded", "#7a21dd", "D"),
}
"""Name, colour and marker of each method; the keys are those of the result tables."""

ACCOUNTANTS: Mapping[str, tuple[str, str, str]] = {
    "paper": ("Theorem 4.2, printed", "#e42536", "^-"),
    "paper_tight": ("Theorem 4.2, tight conversion", "#f89c20", "s-"),
    "wor_rdp": ("fixed size, replace-one", "#5790fc", "o-"),
    "poisson_rdp": ("Poisson, add/remove (RDP)", "#7a21dd", "d--"),
    "poisson_pld": ("Poisson, add/remove", "#7a21dd", "D--"),
    "poisson_pld_replace": ("Poisson, replace-one", "#964a8b", "v:"),
}
"""Name, colour and line of each accountant; the keys are those of `rr_cluster.accounting`."""
