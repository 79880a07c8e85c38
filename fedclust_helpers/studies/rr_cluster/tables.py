"""Designs of the RR-Cluster tables (Yang, Hu, Kim, Li 2025) and how they are put together.

`tables` registers `RR_TABLES`; one run is in `rr_cells`, the clients in `rr_problems`, everything
but accuracy in `rr_checks`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedclust_helpers.rr_cluster.accounting import ACCOUNTANTS
from fedclust_helpers.studies.fastlloyd.cells import Cell, summary
from fedclust_helpers.studies.rr_cluster.cells import (
    DELTA,
    RATE,
    RELATION,
    Run,
    family,
    run_cell,
    training_cell,
)
from fedclust_helpers.studies.rr_cluster.checks import (
    LINE_NOISE,
    LINE_WEIGHTS,
    N_DRAWS,
    accountant_cell,
    curve_cell,
    flips_cell,
    lines_cell,
    network_cell,
    rebalancing_cell,
    reseeding_cell,
)
from fedclust_helpers.studies.rr_cluster.problems import load_clients

if TYPE_CHECKING:
    from fedclust_helpers.studies.fastlloyd.tables import Design

SETTING_KEYS = ["data", "setting", "model", "k", "epsilon", "delta", "rounds"]
RUN_KEYS = [
    "data", "setting", "model", "k", "method", "identifiers", "adjacency", "sampling", "accountant",
    "B", "epsilon", "delta", "rounds",
]  # fmt: skip
DIAGNOSED = ["groups_alone", "moved", "flip_rate", "reseeded"]
TUNING_SEED = 100  # the partitions from here on choose the clipping bounds and nothing else
FIRST_SEEDS = 5  # seeds of the less important rows that are run before any further ones
CLIP_GRID = (0.1, 0.3, 1.0)
CLIPS: dict[str, dict[str, dict[float, float]]] = {
    "softmax": {
        "fedavg_exact_fixed": {2.0: 0.3, 4.0: 1.0, 8.0: 1.0, math.inf: 1.0},
        "sums_ifca_exact_fixed": {2.0: 0.1, 4.0: 0.3, 8.0: 0.3, math.inf: 1.0},
        "sums_ifca_reseed_exact_fixed": {2.0: 0.3, 4.0: 0.3, 8.0: 0.3, math.inf: 1.0},
        "fedavg_exact_poisson": {2.0: 1.0, 4.0: 1.0, 8.0: 1.0},
        "sums_ifca_exact_poisson": {2.0: 0.3, 4.0: 0.3, 8.0: 0.3},
        "sums_ifca_reseed_exact_poisson": {2.0: 0.3, 4.0: 0.3, 8.0: 0.3},
        "ifca_noised_fixed": {2.0: 0.3, 4.0: 0.3, 8.0: 0.3},
        "ifca_exact_fixed": {math.inf: 1.0, 2.0: 0.1, 4.0: 0.3, 8.0: 0.3},
        "fedper_exact_fixed": {4.0: 1.0, math.inf: 1.0},
        "fesem_noised_fixed": {4.0: 0.3},
        "fedcam_noised_fixed": {4.0: 0.3},
        "fesem_exact_fixed": {4.0: 0.3, math.inf: 1.0},
        "fedcam_exact_fixed": {4.0: 0.3, math.inf: 1.0},
    },
    "one_hidden": {
        "fedavg_exact_fixed": {4.0: 1.0, math.inf: 1.0},
        "sums_ifca_exact_fixed": {4.0: 0.3, math.inf: 1.0},
        "sums_ifca_reseed_exact_fixed": {4.0: 0.3, math.inf: 1.0},
        "fedavg_exact_poisson": {4.0: 1.0},
        "sums_ifca_exact_poisson": {4.0: 0.3},
        "sums_ifca_reseed_exact_poisson": {4.0: 0.3},
        "ifca_noised_fixed": {4.0: 0.3},
        "ifca_exact_fixed": {math.inf: 1.0, 4.0: 0.3},
    },
}  # fmt: skip
"""Clipping bound by model, `family` and epsilon: the best of `CLIP_GRID` in rr_clips.csv."""


@dataclass(frozen=True)
class RRDesign:
    """How large the RR-Cluster tables are made; a part of `Design`."""

    data: str = "fashion"
    seeds: int = 10
    variant_seeds: int = 10  # of what is varied one factor at a time
    further_seeds: int = 10
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
    networks: tuple[tuple[str, str, float, int, int, int, float, float], ...] = (
        ("shakespeare_roles", "lstm", 8.0, 30, 4, 5, 1.0, 0.3),
        ("fashion_balanced", "cnn", 8.0, 30, 8, 2, 0.3, 1.0),
    )  # clients, model, epsilon, T, B, local steps, learning rate, C
    network_seeds: int = 3
    variants: tuple[tuple[str, str, int, int], ...] = (
        ("imbalanced", "softmax", 4, 50),
        ("balanced", "one_hidden", 4, 50),
        ("balanced", "softmax", 4, 100),
        ("balanced", "softmax", 2, 50),
    )


QUICK_RR = RRDesign(
    data="digits", heavy_seeds=2, curve_seeds=2, epsilons=(8.0,), sizes=(2, 3, 5), main_size=2,
    rounds=4, accountants=("paper", "paper_tight", "wor_rdp", "poisson_rdp"),
    accountant_rounds=(10,), accountant_epsilons=(1.0, 8.0), flip_epsilons=(8.0,),
    flip_shares=(0.5,), line_sizes=(2,), line_rounds=3, line_clients=80, rebalancing_sigmas=(1.0,),
    rebalancing_sizes=(0, 10), thresholds=(0.0, 0.3), wrong_ks=(2,),
    networks=(("digits_balanced", "cnn", 8.0, 2, 2, 1, 0.3, 0.3),), network_seeds=2,
    variants=(("imbalanced", "one_hidden", 2, 3),),
)  # fmt: skip
"""Tiny tables for tests."""


# --- which runs -----------------------------------------------------------------------------------

SUMS = ("sums_ifca", "sums_ifca_reseed")
BOTH = (("fixed", "wor_rdp"), ("poisson", "poisson_rdp"))


def headline_runs(rr: RRDesign) -> list[Run]:
    """DP-FedAvg, DP-IFCA, RR-Cluster as printed and corrected, sums only under both relations."""
    out = []
    for epsilon in rr.epsilons:
        for sampling, accountant in BOTH:
            out += [Run("fedavg", "none", sampling, accountant, 0, epsilon)]
            out += [Run(name, "none", sampling, accountant, rr.main_size, epsilon) for name in SUMS]
        for identifiers in ("corrected", "printed"):
            out += [Run("ifca", identifiers, epsilon=epsilon)]
            out += [Run("rr_ifca", identifiers, min_size=rr.main_size, epsilon=epsilon)]
    out += [Run("fedavg"), Run("ifca"), Run("rr_ifca", min_size=rr.main_size)]
    return out + [
        Run(name, "none", sampling, accountant, rr.main_size)
        for sampling, accountant in BOTH
        for name in SUMS
    ]


def exact_runs(rr: RRDesign) -> list[Run]:
    """IFCA and RR-Cluster with exact identifiers (not private): where B acts."""
    return [
        run
        for epsilon in rr.epsilons
        for run in (
            Run("ifca", epsilon=epsilon),
            Run("rr_ifca", min_size=rr.main_size, epsilon=epsilon),
        )
    ]


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
    smallest, *larger = [size for size in rr.sizes if size != rr.main_size]
    for epsilon in rr.epsilons:
        for size in (smallest, *larger):
            out.append(Run("rr_ifca", min_size=size, epsilon=epsilon))
        for size in larger:  # below, nobody is moved
            out.append(Run("rr_ifca", "corrected", min_size=size, epsilon=epsilon))
        for size in (smallest, larger[-1]):
            out.append(Run("sums_ifca", "none", *BOTH[1], size, epsilon))
        for identifiers in ("exponential", "krr"):
            for name, size in (("ifca", 0), ("rr_ifca", rr.main_size)):
                out.append(Run(name, identifiers, "fixed", "paper_tight", size, epsilon))
        if "poisson_pld" in rr.accountants:
            out.append(Run("fedavg", "none", "poisson", "poisson_pld", 0, epsilon))
            for name in SUMS:
                out.append(Run(name, "none", "poisson", "poisson_pld", rr.main_size, epsilon))
        out += [Run(name, epsilon=epsilon) for name in ("fedprox", "fedper")]
    out += [Run(name) for name in ("fedprox", "fedper")]
    return out + [Run("rr_ifca", min_size=size) for size in (smallest, *larger)]


def heavy_runs(rr: RRDesign) -> list[Run]:
    """FeSEM and FedCAM with and without rebalancing."""
    kinds = [(i, e) for e in rr.epsilons for i in ("corrected", "none")] + [("none", math.inf)]
    return [
        Run(prefix + base, identifiers, min_size=size, epsilon=epsilon)
        for identifiers, epsilon in kinds
        for base in ("fesem", "fedcam")
        for prefix, size in (("", 0), ("rr_", rr.main_size))
    ]


def _clip_of(rr: RRDesign, model: str, run: Run) -> float:
    """The tuned bound; that of the middle epsilon where it was not tuned for this one."""
    if math.isinf(run.epsilon):
        run = run._replace(sampling="fixed")  # without noise the relation is nothing
    tuned = CLIPS[model].get(family(run), {})
    return tuned.get(run.epsilon, tuned.get(_middle(rr), CLIP_GRID[1]))


def _middle(rr: RRDesign) -> float:
    return rr.epsilons[len(rr.epsilons) // 2]


def _name(rr: RRDesign, setting: str, seed: int) -> str:
    return f"{rr.data}_{setting}_{seed}"


# --- rr_clips: the clipping bounds, on partitions of their own ------------------------------------


def _clips_cells(design: Design) -> list[Cell]:
    """Softmax: the main methods at every epsilon; other models and methods at one, and at inf."""
    rr = design.rr
    models = dict.fromkeys(["softmax", *(variant[1] for variant in rr.variants)])
    few = (_middle(rr), math.inf)
    out = []
    for model in models:
        full = model == "softmax"
        runs = headline_runs(rr) + exact_runs(rr)
        if full:
            runs += [r for r in further_runs(rr) + heavy_runs(rr) if r.epsilon in few]
        by_family: dict[tuple[str, float], Run] = {}
        for run in runs:
            tuned_alone = run.accountant in ("wor_rdp", "poisson_rdp") and not (
                math.isinf(run.epsilon) and run.sampling == "poisson"
            )
            if tuned_alone and (full or run.epsilon in few):
                by_family.setdefault((family(run), run.epsilon), run)
        out += [
            run_cell(
                "rr_clips", _name(rr, "balanced", TUNING_SEED + seed), run, model=model, k=rr.k,
                rounds=rr.rounds, clip=clip,
            )
            for seed in range(rr.tuning_seeds[full])
            for run in by_family.values()
            for clip in CLIP_GRID
        ]  # fmt: skip
    return out


def _finish_clips(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = frame.assign(family=[family(run) for run in _runs(frame)])
    keys = ["model", "family", "epsilon", "clip"]
    rows = []
    for key, part in frame.groupby(keys, sort=False):
        found = summary(part["accuracy"])
        rows.append(dict(zip(keys, key, strict=True)) | {
            "seeds": len(part), "acc_mean": found["mean"], "acc_min": part["accuracy"].min(),
        })  # fmt: skip
    table = pd.DataFrame(rows)
    best = table.groupby(keys[:3], sort=False)["acc_mean"].transform("max")
    return {"rr_clips": table.assign(chosen=(table["acc_mean"] == best).astype(int))}


def _runs(frame: pd.DataFrame) -> list[Run]:
    columns = ["method", "identifiers", "sampling", "accountant", "B", "epsilon"]
    return [Run(*row) for row in frame[columns].itertuples(index=False, name=None)]


# --- rr_accuracy, rr_paired, rr_rounds ------------------------------------------------------------


def _accuracy_cells(design: Design) -> list[Cell]:
    """Most important first: an interrupted table has the base design's main rows."""
    rr = design.rr
    base = ("balanced", "softmax", rr.k, rr.rounds)
    blocks = [
        *((variant, main_runs(rr), rr.variant_seeds) for variant in rr.variants),
        (base, further_runs(rr), rr.further_seeds),
        (base, heavy_runs(rr), rr.heavy_seeds),
    ]
    last = design.runs or 99
    parts = [(base, headline_runs(rr) + exact_runs(rr), range(min(rr.seeds, last)))]
    for first, end in ((0, FIRST_SEEDS), (FIRST_SEEDS, last)):
        parts += [
            (setting, runs, range(first, min(seeds, end, last))) for setting, runs, seeds in blocks
        ]
    return [
        run_cell(
            "rr_accuracy", _name(rr, setting, seed), run, model=model, k=k, rounds=rounds,
            clip=_clip_of(rr, model, run),
        )
        for (setting, model, k, rounds), runs, part in parts
        for seed in part
        for run in runs
    ]  # fmt: skip


def _finish_accuracy(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = _described(frame)
    rows, rounds = [], []
    for key, part in frame.groupby(RUN_KEYS, sort=False):
        named = dict(zip(RUN_KEYS, key, strict=True))
        found = summary(part["accuracy"])
        means = {name: part[name].mean() for name in ("cluster_acc", "models_used", *DIAGNOSED)}
        common = named | {"seeds": len(part)}
        rows.append(common | means | {"acc_mean": found["mean"], "ci95": found["ci95"]})
        clip = part["clip"].iloc[0]
        lowest = part["accuracy"].min()
        rounds.append(common | means | {"clip": clip, "acc_min": lowest})
    last = ["seeds", "acc_mean", "ci95", "cluster_acc", "models_used"]
    return {
        "rr_accuracy": pd.DataFrame(rows)[[*RUN_KEYS, *last]],
        "rr_diagnostics": pd.DataFrame(rounds)[[*RUN_KEYS, "seeds", "clip", "acc_min", *DIAGNOSED]],
        "rr_paired": paired(frame),
    }


def _described(frame: pd.DataFrame) -> pd.DataFrame:
    """With the remaining columns of rr_accuracy.csv; without noise there is no accountant."""
    problems = {name: load_clients(name) for name in frame["dataset"].unique()}
    return frame.assign(
        data=[problems[name].data for name in frame["dataset"]],
        setting=[problems[name].setting for name in frame["dataset"]],
        adjacency=frame["sampling"].map(RELATION),
        accountant=frame["accountant"].where(np.isfinite(frame["epsilon"]), "exact"),
        delta=DELTA,
    )


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """Differences of accuracy to the references on the same clients, with 95 % t intervals.

    `frame` has one row for each run and set of clients. References: DP-IFCA and RR-Cluster (with
    the B of the first such row), as printed and as corrected (exact without noise); DP-FedAvg under
    the relation and accountant of the run, else the one with cohorts of fixed size; and the same
    run without rebalancing or re-seeding.
    """
    main_size = int(frame.loc[frame["method"] == "rr_ifca", "B"].iloc[0])
    rows = []
    for setting, part in frame.groupby(SETTING_KEYS, sort=False):
        places: dict[Run, list[int]] = {}
        for i, run in enumerate(_runs(part)):
            places.setdefault(run, []).append(i)
        runs = {
            run: part.iloc[rows].set_index("dataset")["accuracy"] for run, rows in places.items()
        }
        for run, ours in runs.items():
            for other in _references(run, runs, main_size):
                both = (ours - runs[other]).dropna()
                if other == run or len(both) < 2:
                    continue
                found = summary(both)
                rows.append(
                    dict(zip(SETTING_KEYS, setting, strict=True))
                    | {
                        "method": run.method, "identifiers": run.identifiers,
                        "adjacency": run.adjacency, "sampling": run.sampling,
                        "accountant": run.accountant, "B": run.min_size,
                        "reference": other.method, "reference_identifiers": other.identifiers,
                        "reference_B": other.min_size, "reference_accountant": other.accountant,
                        "same_relation": int(other.adjacency == run.adjacency),
                        "seeds": len(both), "diff_mean": found["mean"], "ci95": found["ci95"],
                        "diff_min": both.min(), "diff_max": both.max(),
                        "better_in": int((both > 0).sum()),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)[[*RUN_KEYS, *list(rows[0])[len(RUN_KEYS) :]]]


def _references(run: Run, runs: dict[Run, pd.Series], main_size: int) -> list[Run]:
    """The runs among `runs`, all of one setting and epsilon, that `run` is compared with."""
    exact = math.isinf(run.epsilon)
    accountant = "exact" if exact else "wor_rdp"
    wanted = [
        Run(method, identifiers, "fixed", accountant, size, run.epsilon)
        for method, size in (("ifca", 0), ("rr_ifca", main_size))
        for identifiers in (("none",) if exact else ("printed", "corrected"))
    ]
    own, usual = (
        Run("fedavg", "none", *promise, 0, run.epsilon)
        for promise in ((run.sampling, run.accountant), ("fixed", accountant))
    )
    wanted.append(own if own in runs else usual)
    without = {"sums_ifca_reseed": "sums_ifca"}.get(run.method, run.method.removeprefix("rr_"))
    size = run.min_size if without == "sums_ifca" else 0
    wanted.append(run._replace(method=without, min_size=size))
    return [other for other in dict.fromkeys(wanted) if other in runs]


# --- the smaller tables ---------------------------------------------------------------------------


def _cell(
    table: str, dataset: str, method: str, epsilon: float, runs: int = 1, init: str = "-",
    **options: Any,
) -> Cell:  # fmt: skip
    return Cell(table, dataset, method, epsilon, runs, init, tuple(options.items()))


def _accountants_cells(design: Design) -> list[Cell]:
    return [
        _cell("rr_accountants", "-", name, epsilon, rounds=rounds)
        for rounds in design.rr.accountant_rounds
        for name in design.rr.accountants
        for epsilon in design.rr.accountant_epsilons
    ]


def _finish_accountants(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    entries = [ACCOUNTANTS[name] for name in frame["method"]]
    frame = frame.rename(columns={"method": "accountant"}).assign(
        adjacency=[entry.adjacency for entry in entries],
        sampling=[entry.sampling for entry in entries],
        rate=RATE, delta=DELTA,
        noise_over_clip=frame["sigma"] * [2 if e.sampling == "fixed" else 1 for e in entries],
    )  # fmt: skip
    columns = ["accountant", "adjacency", "sampling", "rounds", "rate", "delta", "epsilon"]
    return {
        "rr_accountants": frame[[*columns, "floor", "sigma", "noise_over_clip", "printed_epsilon"]]
    }


def _flips_cells(design: Design) -> list[Cell]:
    rr = design.rr
    return [
        _cell("rr_flips", "-", kind, epsilon, rounds=rr.rounds, share=share, k=k)
        for k in (2, rr.k)
        for epsilon in rr.flip_epsilons
        for share in rr.flip_shares
        for kind in ("printed", "corrected", "exponential", "krr")
    ]


def _finish_flips(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    columns = {"method": "identifiers", "correct": "p_correct", "simulated": "p_simulated"}
    names = ["identifiers", "k", "epsilon", "delta", "rounds", "share", "amount", "sigma_theta"]
    frame = frame.rename(columns=columns).assign(delta=DELTA, draws=N_DRAWS)
    return {"rr_flips": frame[[*names, "p_correct", "p_simulated", "draws"]]}


def _lines_cells(design: Design) -> list[Cell]:
    rr = design.rr
    methods = [("fedavg", 0), ("ifca", 0), *(("rr_ifca", b) for b in rr.line_sizes)]
    return [
        _cell(
            "rr_lines", f"{size}_{difficulty}", method, math.inf, design.runs or rr.line_seeds,
            init, B=b, rounds=rr.line_rounds, clients=rr.line_clients,
        )
        for size in LINE_WEIGHTS
        for difficulty in LINE_NOISE
        for init in ("far", "normal1", "normal5")
        for method, b in (*methods, ("sums_ifca_reseed", 0))
    ]  # fmt: skip


def _finish_lines(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    names = frame["dataset"].str.split("_")
    frame = frame.assign(sizes=names.str[0], difficulty=names.str[1], seeds=frame["runs"])
    columns = ["sizes", "difficulty", "init", "method", "B", "rounds", "seeds", "all_found"]
    table = frame[[*columns, "lines_found", "mse_mean", "mse_median", "models_used"]]
    return {"rr_lines": table.astype({"all_found": int})}


def _rebalancing_cells(design: Design) -> list[Cell]:
    rr = design.rr
    return [
        _cell("rr_rebalancing", "-", "rr", math.inf, design.runs or rr.rebalancing_runs, reference,
              sigma_theta=sigma, B=size)
        for reference in ("inserted", "trained")
        for sigma in rr.rebalancing_sigmas
        for size in rr.rebalancing_sizes
    ]  # fmt: skip


def _finish_rebalancing(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = frame.rename(columns={"init": "reference", "runs": "repetitions"})
    columns = ["reference", "sigma_theta", "B", "repetitions", "bias2", "variance", "mse", "moved"]
    return {"rr_rebalancing": frame[columns]}


def _reseeding_cells(design: Design) -> list[Cell]:
    """The threshold on groups of different sizes, then a wrong number of models."""
    rr = design.rr
    ends = tuple(dict.fromkeys((rr.epsilons[0], rr.epsilons[-1])))
    grid = [
        (setting, rr.k, promise, epsilon, below)
        for setting in ("balanced", "imbalanced", "small")
        for promise, epsilons in ((BOTH[1], ends), (BOTH[0], ends[:1]))
        for epsilon in epsilons
        for below in rr.thresholds
    ] + [
        ("balanced", k, BOTH[1], epsilon, below)
        for k in rr.wrong_ks
        for epsilon in ends
        for below in rr.thresholds[:2]
    ]  # fmt: skip
    return [
        _cell(
            "rr_reseeding", _name(rr, setting, seed), "sums_ifca_reseed", epsilon, 1, "shared",
            sampling=sampling, accountant=accountant, B=rr.main_size, k=k, rounds=rr.rounds,
            below=below,
            clip=_clip_of(rr, "softmax", Run("sums_ifca", "none", sampling, accountant,
                                             rr.main_size, epsilon)),
        )
        for seed in range(min(design.runs or 99, rr.heavy_seeds))
        for setting, k, (sampling, accountant), epsilon, below in grid
    ]  # fmt: skip


def _finish_reseeding(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    names = frame["dataset"].str.split("_")
    frame = frame.assign(setting=names.str[1], adjacency=frame["sampling"].map(RELATION))
    keys = ["setting", "k", "adjacency", "sampling", "accountant", "epsilon", "rounds", "below"]
    plain = frame[frame["below"] == 0].set_index([*keys[:-1], "dataset"])["accuracy"]
    gain = frame.set_index([*keys[:-1], "dataset"])["accuracy"] - plain.reindex(
        pd.MultiIndex.from_frame(frame[[*keys[:-1], "dataset"]])
    )
    frame["gain"] = gain.to_numpy()
    rows = []
    for key, part in frame.groupby(keys, sort=False):
        accuracy, gained = summary(part["accuracy"]), summary(part["gain"])
        means = {c: part[c].mean() for c in ("models_used", "groups_alone", "reseeded")}
        rows.append(dict(zip(keys, key, strict=True)) | {
            "seeds": len(part), "acc_mean": accuracy["mean"], "ci95": accuracy["ci95"],
            "gain_mean": gained["mean"], "gain_ci95": gained["ci95"],
        } | means)  # fmt: skip
    return {"rr_reseeding": pd.DataFrame(rows)}


def _curves_cells(design: Design) -> list[Cell]:
    rr = design.rr
    runs = [
        Run(name, identifiers, "fixed", "wor_rdp", size, epsilon)
        for epsilon in rr.epsilons[:2]
        for name, identifiers, size in (
            ("fedavg", "none", 0), ("ifca", "corrected", 0),
            ("rr_ifca", "corrected", rr.main_size), ("ifca", "none", 0),
            ("rr_ifca", "none", rr.main_size), ("sums_ifca", "none", rr.main_size),
            ("sums_ifca_reseed", "none", rr.main_size),
        )
    ]  # fmt: skip
    return [
        run_cell("rr_curves", _name(rr, "balanced", seed), run, model="softmax", k=rr.k,
                 rounds=rr.rounds, clip=_clip_of(rr, "softmax", run))
        for seed in range(min(design.runs or 99, rr.curve_seeds))
        for run in runs
    ]  # fmt: skip


def _finish_curves(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    times = [name for name in frame.columns if name.isdigit()]
    keys = ["method", "identifiers", "sampling", "accountant", "B", "epsilon"]
    long = frame.melt([*keys, "dataset"], times, var_name="round", value_name="accuracy")
    rows = []
    for key, part in long.astype({"round": int}).groupby([*keys, "round"], sort=False):
        found = summary(part["accuracy"])
        rows.append(dict(zip([*keys, "round"], key, strict=True)) | {
            "seeds": len(part), "acc_mean": found["mean"], "ci95": found["ci95"],
        })  # fmt: skip
    return {"rr_curves": pd.DataFrame(rows)}


def _torch_cells(design: Design) -> list[Cell]:
    rr = design.rr
    out = []
    for name, model, epsilon, rounds, size, steps, rate, clip in rr.networks:
        runs = [
            Run("fedavg", epsilon=epsilon),
            Run("rr_ifca", "corrected", min_size=size, epsilon=epsilon),
            Run("sums_ifca_reseed", min_size=size, epsilon=epsilon), Run("fedavg"),
        ]  # fmt: skip
        for seed in range(min(design.runs or 99, rr.network_seeds)):
            for run in runs:
                cell = run_cell(
                    "rr_torch", f"{name}_{seed}", run, model=model, k=rr.k, rounds=rounds,
                    clip=clip,
                )  # fmt: skip
                more = (("n_steps", steps), ("learning_rate", rate))
                out.append(replace(cell, options=cell.options + more))
    return out


def _finish_torch(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = _described(frame)
    problems = [load_clients(name) for name in frame["dataset"]]
    frame["constant_acc"] = [problem.constant_accuracy for problem in problems]
    rows = []
    for key, part in frame.groupby(RUN_KEYS, sort=False):
        found = summary(part["accuracy"])
        constant = {name: part[name].iloc[0] for name in ("clip", "n_steps", "learning_rate")}
        means = {name: part[name].mean() for name in ("cluster_acc", "models_used", "constant_acc")}
        rows.append(dict(zip(RUN_KEYS, key, strict=True)) | constant | {
            "seeds": len(part), "acc_mean": found["mean"], "ci95": found["ci95"],
        } | means)  # fmt: skip
    return {"rr_torch": pd.DataFrame(rows)}


RR_TABLES: dict[str, tuple[Any, ...]] = {
    "rr_accountants": (_accountants_cells, accountant_cell, _finish_accountants),
    "rr_flips": (_flips_cells, flips_cell, _finish_flips),
    "rr_lines": (_lines_cells, lines_cell, _finish_lines),
    "rr_rebalancing": (_rebalancing_cells, rebalancing_cell, _finish_rebalancing),
    "rr_clips": (_clips_cells, training_cell, _finish_clips),
    "rr_accuracy": (_accuracy_cells, training_cell, _finish_accuracy),
    "rr_reseeding": (_reseeding_cells, reseeding_cell, _finish_reseeding),
    "rr_curves": (_curves_cells, curve_cell, _finish_curves),
    "rr_torch": (_torch_cells, network_cell, _finish_torch, (), False, "torch"),
}
"""Cells, measurement and finish of each table, in the order in which they are made."""
