"""How large the RR-Cluster tables are made, and which runs they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from studies.bench import cell as bench
from studies.bench.cell import Design, Settings
from studies.bench.results import load_results
from studies.rr_cluster.accountants import ACCOUNTANTS
from studies.rr_cluster.cells import Run, family
from studies.rr_cluster.problems import Clients

CLIP_GRID = (0.1, 0.3, 1.0)


@cache
def tuned_clips(table: str = "rr_clips") -> dict[tuple[Any, ...], float]:
    """The best clip of a committed table, by all columns before it."""
    best = load_results(table).query("chosen == 1")
    keys = best.loc[:, :"clip"].iloc[:, :-1].itertuples(index=False, name=None)
    return dict(zip(keys, best["clip"], strict=True))


def best_clips(frame: pd.DataFrame, folder: Path, keys: list[str]) -> pd.DataFrame:
    """Mean accuracy by `keys` and clip, and which clip is the best of its keys."""
    means = {"acc_mean": ("accuracy", bench.mean), "acc_min": ("accuracy", "min")}
    table = bench.grouped(frame, [*keys, "clip"], **means)
    best = table.groupby(keys, sort=False)["acc_mean"].transform("max")
    return table.assign(chosen=(table["acc_mean"] == best).astype(int))


@dataclass(frozen=True, kw_only=True)
class RRDesign(Design):
    """How large the RR-Cluster tables are made."""

    data: str = "fashion_mnist"
    seeds: int = 10
    heavy_seeds: int = 5  # of FeSEM and FedCAM, and of rr_reseeding
    curve_seeds: int = 3
    tuning_seeds: tuple[int, int] = (1, 2)  # of one hidden layer, and of softmax regression
    epsilons: tuple[float, ...] = (2.0, 4.0, 8.0)
    sizes: tuple[int, ...] = (4, 8, 12, 25)
    main_size: int = 8
    k: int = 4
    rounds: int = 50
    accountants: tuple[str, ...] = tuple(ACCOUNTANTS)
    accountant_rounds: tuple[int, ...] = (10, 50, 75, 100, 200)
    accountant_epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    flip_epsilons: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0)
    flip_shares: tuple[float, ...] = (0.2, 0.5, 0.8, 0.95)
    line_sizes: tuple[int, ...] = (4, 8, 12, 25)
    line_seeds: int = 20
    line_rounds: int = 100
    line_clients: int = 1000
    rebalancing_sigmas: tuple[float, ...] = (0.25, 0.5, 1.0, 3.0)
    rebalancing_sizes: tuple[int, ...] = (0, 10, 15, 20, 30, 40, 50)
    rebalancing_runs: int = 60
    thresholds: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
    wrong_ks: tuple[int, ...] = (2, 3, 6, 8)
    networks: tuple[tuple[str, str, str, float, int, int, int, float, float], ...] = (
        ("shakespeare", "roles", "lstm", 8.0, 30, 4, 5, 1.0, 0.3),
        ("fashion_mnist", "balanced", "cnn", 8.0, 30, 8, 2, 0.3, 1.0),
    )  # data, setting, model, epsilon, T, B, local steps, learning rate, C
    network_seeds: int = 3
    variants: tuple[tuple[str, str, int, int], ...] = (
        ("imbalanced", "softmax", 4, 50),
        ("balanced", "one_hidden", 4, 50),
        ("balanced", "softmax", 4, 100),
        ("balanced", "softmax", 2, 50),
    )  # setting, model, k, T: one factor at a time

    @property
    def middle(self) -> float:
        """The epsilon at which everything was tuned."""
        return self.epsilons[len(self.epsilons) // 2]

    def clip(self, model: str, run: Run) -> float:
        """The tuned bound; that of the middle epsilon where it was not tuned for this one."""
        if math.isinf(run.epsilon):
            run = run._replace(sampling="fixed")  # without noise the relation is nothing
        tuned, kind = tuned_clips(), (model, family(run))
        usual = tuned.get((*kind, self.middle), CLIP_GRID[1])
        return tuned.get((*kind, run.epsilon), usual)

    def row(
        self, setting: str, seed: int, run: Run, *, model: str = "softmax", k: int | None = None,
        rounds: int | None = None, clip: float | None = None,
    ) -> Settings:  # fmt: skip
        """The settings of one run on one set of clients, by default of the base design."""
        return {
            "clients": Clients(self.data, setting, seed), "run": run, "model": model,
            "k": k or self.k, "rounds": rounds or self.rounds,
            "clip": clip or self.clip(model, run),
        }  # fmt: skip


FULL = RRDesign()
QUICK = RRDesign(
    data="digits", tuning_seeds=(1, 1), heavy_seeds=2, curve_seeds=2, epsilons=(8.0,),
    sizes=(2, 3, 5), main_size=2, rounds=4,
    accountants=("paper", "paper_tight", "wor_rdp", "poisson_rdp"),
    accountant_rounds=(10,), accountant_epsilons=(1.0, 8.0), flip_epsilons=(8.0,),
    flip_shares=(0.5,), line_sizes=(2,), line_rounds=3, line_clients=80, rebalancing_sigmas=(1.0,),
    rebalancing_sizes=(0, 10), thresholds=(0.0, 0.3), wrong_ks=(2,),
    networks=(("digits", "balanced", "cnn", 8.0, 2, 2, 1, 0.3, 0.3),), network_seeds=2,
    variants=(("imbalanced", "one_hidden", 2, 3),), runs=2,
)  # fmt: skip


# --- which runs -----------------------------------------------------------------------------------

SUMS = ("sums_ifca", "sums_ifca_reseed")
BOTH = (("fixed", "wor_rdp"), ("poisson", "poisson_rdp"))


def headline_runs(rr: RRDesign) -> list[Run]:
    """DP-FedAvg, DP-IFCA, RR-Cluster as printed and corrected, sums only under both relations."""
    out, size = [], rr.main_size
    for epsilon in rr.epsilons:
        for promise in BOTH:
            out += [Run("fedavg", "none", *promise, 0, epsilon)]
            out += [Run(name, "none", *promise, size, epsilon) for name in SUMS]
        for identifiers in ("corrected", "printed"):
            out += [Run("ifca", identifiers, epsilon=epsilon)]
            out += [Run("rr_ifca", identifiers, B=size, epsilon=epsilon)]
    out += [Run("fedavg"), Run("ifca"), Run("rr_ifca", B=size)]
    return out + [Run(name, "none", *promise, size) for promise in BOTH for name in SUMS]


def exact_runs(rr: RRDesign) -> list[Run]:
    """IFCA and RR-Cluster with exact identifiers (not private): where B acts."""
    kinds = (("ifca", 0), ("rr_ifca", rr.main_size))
    return [Run(name, B=size, epsilon=epsilon) for epsilon in rr.epsilons for name, size in kinds]


def main_runs(rr: RRDesign) -> list[Run]:
    """What is varied one factor at a time."""
    return [
        run
        for run in headline_runs(rr)
        if run.identifiers != "printed" and (math.isfinite(run.epsilon) or run.sampling == "fixed")
    ]


def further_runs(rr: RRDesign) -> list[Run]:
    """The rest of the base design: B, other identifiers, accountants and one-model baselines."""
    out = []
    sizes = [size for size in rr.sizes if size != rr.main_size]
    for epsilon in rr.epsilons:
        out += [Run("rr_ifca", B=size, epsilon=epsilon) for size in sizes]
        # below the smallest, nobody is moved
        out += [Run("rr_ifca", "corrected", B=size, epsilon=epsilon) for size in sizes[1:]]
        out += [Run("sums_ifca", "none", *BOTH[1], size, epsilon) for size in (sizes[0], sizes[-1])]
        for identifiers in ("exponential", "krr"):
            for name, size in (("ifca", 0), ("rr_ifca", rr.main_size)):
                out.append(Run(name, identifiers, "fixed", "paper_tight", size, epsilon))
        if "poisson_pld" in rr.accountants:
            for name, size in (("fedavg", 0), *((name, rr.main_size) for name in SUMS)):
                out.append(Run(name, "none", "poisson", "poisson_pld", size, epsilon))
        out += [Run(name, epsilon=epsilon) for name in ("fedprox", "fedper")]
    out += [Run(name) for name in ("fedprox", "fedper")]
    return out + [Run("rr_ifca", B=size) for size in sizes]


def heavy_runs(rr: RRDesign) -> list[Run]:
    """FeSEM and FedCAM with and without rebalancing."""
    kinds = [(i, e) for e in rr.epsilons for i in ("corrected", "none")] + [("none", math.inf)]
    return [
        Run(prefix + base, identifiers, B=size, epsilon=epsilon)
        for identifiers, epsilon in kinds
        for base in ("fesem", "fedcam")
        for prefix, size in (("", 0), ("rr_", rr.main_size))
    ]
