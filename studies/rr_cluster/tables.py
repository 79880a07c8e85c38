"""The tables of RR-Cluster (Yang, Hu, Kim, Li 2025): their designs, and how cells become rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from studies.bench import cell as bench
from studies.rr_cluster.accountants import ACCOUNTANTS
from studies.rr_cluster.blocks import (
    LINE_NOISE,
    LINE_WEIGHTS,
    accountants,
    flips,
    lines,
    rebalancing,
)
from studies.rr_cluster.cells import (
    DELTA,
    RELATION,
    Run,
    curve,
    family,
    network,
    reseeding,
    training,
)
from studies.rr_cluster.design import (
    BOTH,
    CLIP_GRID,
    FULL,
    QUICK,
    RRDesign,
    best_clips,
    exact_runs,
    further_runs,
    headline_runs,
    heavy_runs,
    main_runs,
)
from studies.rr_cluster.problems import Clients

SETTING_KEYS = ["data", "setting", "model", "k", "epsilon", "delta", "rounds"]
RUN_KEYS = [
    "data", "setting", "model", "k", "method", "identifiers", "adjacency", "sampling", "accountant",
    "B", "epsilon", "delta", "rounds",
]  # fmt: skip
DIAGNOSED = ["groups_alone", "moved", "flip_rate", "reseeded"]
USED = ("cluster_acc", "models_used")
ACCURACY: dict[str, bench.Aggregate] = {
    "acc_mean": ("accuracy", bench.mean),
    "ci95": ("accuracy", bench.ci95),
}
TUNING_SEED = 100  # the partitions from here on choose the clipping bounds and nothing else
FIRST_SEEDS = 5  # seeds of the less important rows that are run before any further ones


# --- rr_clips: the clipping bounds, on partitions of their own ------------------------------------


def _clips(design: RRDesign) -> Iterator[bench.Settings]:
    """Softmax: the main methods at every epsilon; other models and methods at one, and at inf."""
    few = (design.middle, math.inf)
    for model in dict.fromkeys(["softmax", *(variant[1] for variant in design.variants)]):
        full = model == "softmax"
        runs = headline_runs(design) + exact_runs(design)
        if full:
            runs += [r for r in further_runs(design) + heavy_runs(design) if r.epsilon in few]
        by_family: dict[tuple[str, float], Run] = {}
        for run in runs:
            tuned_alone = run.accountant in ("wor_rdp", "poisson_rdp") and not (
                math.isinf(run.epsilon) and run.sampling == "poisson"
            )
            if tuned_alone and (full or run.epsilon in few):
                by_family.setdefault((family(run), run.epsilon), run)
        for seed in range(design.tuning_seeds[full]):
            for run, clip in product(by_family.values(), CLIP_GRID):
                yield design.row("balanced", TUNING_SEED + seed, run, model=model, clip=clip)


def _finish_clips(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    frame["family"] = [family(run) for run in _runs(frame)]
    return best_clips(frame, folder, ["model", "family", "epsilon"])


def _runs(frame: pd.DataFrame) -> list[Run]:
    columns = list(Run._fields)
    return [Run(*row) for row in frame[columns].itertuples(index=False, name=None)]


# --- rr_accuracy, rr_diagnostics, rr_paired -------------------------------------------------------


def _accuracy(design: RRDesign) -> Iterator[bench.Settings]:
    """Most important first: an interrupted table has the base design's main rows."""
    base = ("balanced", "softmax", design.k, design.rounds)
    seeds, last = design.at_most(design.seeds), design.at_most(99)
    blocks = [
        *((variant, main_runs(design), design.seeds) for variant in design.variants),
        (base, further_runs(design), design.seeds),
        (base, heavy_runs(design), design.heavy_seeds),
    ]
    parts = [(base, headline_runs(design) + exact_runs(design), range(seeds))]
    for first, end in ((0, FIRST_SEEDS), (FIRST_SEEDS, last)):
        parts += [(s, runs, range(first, min(most, end, last))) for s, runs, most in blocks]
    for (setting, model, k, rounds), runs, part in parts:
        for seed, run in product(part, runs):
            yield design.row(setting, seed, run, model=model, k=k, rounds=rounds)


def _finish_accuracy(frame: pd.DataFrame, folder: Path) -> bench.Files:
    frame = _described(frame)
    means = {name: (name, "mean") for name in (*USED, *DIAGNOSED)}
    worst = {"clip": ("clip", "first"), "acc_min": ("accuracy", "min")}
    table = bench.grouped(frame, RUN_KEYS, **ACCURACY, **means, **worst)
    return {"rr_accuracy": table, "rr_diagnostics": table, "rr_paired": paired(frame)}


def _described(frame: pd.DataFrame) -> pd.DataFrame:
    """With the remaining columns of rr_accuracy.csv; without noise there is no accountant."""
    return frame.assign(
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
    main_size = next(iter(frame.loc[frame["method"] == "rr_ifca", "B"]), 0)
    rows = []
    for setting, part in frame.groupby(SETTING_KEYS, sort=False):
        runs = {
            Run(*run): rows.set_index("seed")["accuracy"]  # type: ignore[arg-type]
            for run, rows in part.groupby(list(Run._fields), sort=False)
        }
        for run, ours in runs.items():
            for other in _references(run, runs, main_size):
                both = (ours - runs[other]).dropna()
                if other == run or len(both) < 2:
                    continue
                found, reference = bench.summary(both), other._asdict()
                rows.append(
                    dict(zip(SETTING_KEYS, setting, strict=True)) | run._asdict()
                    | {"adjacency": run.adjacency, "reference": other.method, "seeds": len(both)}
                    | {f"reference_{name}": value for name, value in reference.items()}
                    | {
                        "same_relation": int(other.adjacency == run.adjacency),
                        "diff_mean": found["mean"], "ci95": found["ci95"], "diff_min": both.min(),
                        "diff_max": both.max(), "better_in": int((both > 0).sum()),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


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
    size = run.B if without == "sums_ifca" else 0
    wanted.append(run._replace(method=without, B=size))
    return [other for other in dict.fromkeys(wanted) if other in runs]


# --- the smaller tables ---------------------------------------------------------------------------


def _accountants(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    entries = [ACCOUNTANTS[name] for name in frame["accountant"]]
    frame["adjacency"] = [entry.adjacency for entry in entries]
    return frame.assign(sampling=[entry.sampling for entry in entries])


def _lines(design: RRDesign) -> Iterator[bench.Settings]:
    methods = [("fedavg", 0), ("ifca", 0), *(("rr_ifca", b) for b in design.line_sizes)]
    for each in bench.grid(
        sizes=LINE_WEIGHTS, difficulty=LINE_NOISE, init=("far", "normal1", "normal5")
    ):
        for method, b in (*methods, ("sums_ifca_reseed", 0)):
            yield each | {
                "method": method, "B": b, "rounds": design.line_rounds,
                "clients": design.line_clients, "runs": design.repeated(design.line_seeds),
            }  # fmt: skip


def _reseeding(design: RRDesign) -> Iterator[bench.Settings]:
    """The threshold on groups of different sizes, then a wrong number of models."""
    ends = tuple(dict.fromkeys((design.epsilons[0], design.epsilons[-1])))
    promises = [(BOTH[1], epsilon) for epsilon in ends] + [(BOTH[0], ends[0])]
    settings = ("balanced", "imbalanced", "small")
    rows = list(product(settings, [design.k], promises, design.thresholds))
    rows += product(["balanced"], design.wrong_ks, promises[:-1], design.thresholds[:2])
    for seed in range(design.at_most(design.heavy_seeds)):
        for setting, k, (promise, epsilon), below in rows:
            run = Run("sums_ifca", "none", *promise, design.main_size, epsilon)
            yield design.row(setting, seed, run, k=k) | {"below": below}


def _gains(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """With the gain over no re-seeding on the same clients."""
    same = ["setting", "k", "sampling", "accountant", "epsilon", "rounds", "seed"]
    plain = frame[frame["below"] == 0].set_index(same)["accuracy"]
    without = plain.reindex(pd.MultiIndex.from_frame(frame[same])).to_numpy()
    gain = frame["accuracy"] - without
    return frame.assign(gain=gain, adjacency=frame["sampling"].map(RELATION))


def _curves(design: RRDesign) -> Iterator[bench.Settings]:
    size = design.main_size
    kinds = [
        ("fedavg", "none", 0), ("ifca", "corrected", 0), ("rr_ifca", "corrected", size),
        ("ifca", "none", 0), ("rr_ifca", "none", size), ("sums_ifca", "none", size),
        ("sums_ifca_reseed", "none", size),
    ]  # fmt: skip
    seeds = range(design.at_most(design.curve_seeds))
    for seed, epsilon, (name, identifiers, b) in product(seeds, design.epsilons[:2], kinds):
        yield design.row("balanced", seed, Run(name, identifiers, *BOTH[0], b, epsilon))


def _torch(design: RRDesign) -> Iterator[bench.Settings]:
    for data, setting, model, epsilon, rounds, size, steps, rate, clip in design.networks:
        runs = [
            Run("fedavg", epsilon=epsilon), Run("rr_ifca", "corrected", B=size, epsilon=epsilon),
            Run("sums_ifca_reseed", B=size, epsilon=epsilon), Run("fedavg"),
        ]  # fmt: skip
        seeds = range(design.at_most(design.network_seeds))
        yield from bench.grid(
            clients=[Clients(data, setting, seed) for seed in seeds], run=runs, model=model,
            k=design.k, rounds=rounds, clip=clip, n_steps=steps, learning_rate=rate,
        )  # fmt: skip


REFERENCE = "reference,reference_identifiers,reference_B,reference_accountant"
RUN = ",".join(RUN_KEYS)
TABLES = bench.tables_of(
    FULL,
    QUICK,
    bench.Table(
        "rr_accountants",
        lambda d: bench.grid(
            rounds=d.accountant_rounds, accountant=d.accountants, epsilon=d.accountant_epsilons
        ),
        accountants,
        "accountant,adjacency,sampling,rounds,rate,delta,epsilon,floor,sigma,noise_over_clip,"
        "printed_epsilon",
        finish=_accountants,
    ),
    bench.Table(
        "rr_flips",
        lambda d: bench.grid(
            k=(2, d.k), epsilon=d.flip_epsilons, share=d.flip_shares,
            identifiers=("printed", "corrected", "exponential", "krr"), rounds=d.rounds,
        ),
        flips,
        "identifiers,k,epsilon,delta,rounds,share,amount,sigma_theta,p_correct,p_simulated,draws",
        seed="-/{identifiers}/-/{epsilon:g}/rounds={rounds}/share={share}/k={k}",
    ),
    bench.Table(
        "rr_lines", _lines, lines,
        "sizes,difficulty,init,method,B,rounds,seeds,all_found,lines_found,mse_mean,mse_median,"
        "models_used",
    ),
    bench.Table(
        "rr_rebalancing",
        lambda d: bench.grid(
            reference=("inserted", "trained"), sigma_theta=d.rebalancing_sigmas,
            B=d.rebalancing_sizes, runs=d.repeated(d.rebalancing_runs),
        ),
        rebalancing, "reference,sigma_theta,B,repetitions,bias2,variance,mse,moved",
        seed="-/rr/{reference}/inf/sigma_theta={sigma_theta}/B={B}",
    ),
    bench.Table(
        "rr_clips", _clips, training, "model,family,epsilon,clip,seeds,acc_mean,acc_min,chosen",
        finish=_finish_clips, names=("family",), whole=("chosen",),
    ),
    bench.Table(
        "rr_accuracy", _accuracy, training,
        {
            "rr_accuracy": f"{RUN},seeds,acc_mean,ci95,cluster_acc,models_used",
            "rr_diagnostics": f"{RUN},seeds,clip,acc_min,{','.join(DIAGNOSED)}",
            "rr_paired": f"{RUN},{REFERENCE},same_relation,seeds,diff_mean,ci95,diff_min,diff_max,"
            "better_in",
        },
        finish=_finish_accuracy, names=("adjacency", "delta", *REFERENCE.split(",")),
    ),
    bench.Table(
        "rr_reseeding", _reseeding, reseeding,
        "setting,k,adjacency,sampling,accountant,epsilon,rounds,below,seeds,acc_mean,ci95,"
        "gain_mean,gain_ci95,models_used,groups_alone,reseeded",
        finish=_gains, names=("adjacency",), beside={"below": 0.0},
        paired=("clients", "run", "k", "rounds"),
        means=ACCURACY | {"gain_mean": ("gain", bench.mean), "gain_ci95": ("gain", bench.ci95)}
        | {name: (name, "mean") for name in ("models_used", "groups_alone", "reseeded")},
    ),
    bench.Table(
        "rr_curves", _curves, curve,
        "method,identifiers,sampling,accountant,B,epsilon,round,seeds,acc_mean,ci95",
        finish=lambda f, _: bench.melted(f.drop(columns="rounds"), "round", "round", "accuracy"),
        means=ACCURACY, names=("round",),
    ),
    bench.Table(
        "rr_torch", _torch, network,
        f"{RUN},clip,n_steps,learning_rate,seeds,acc_mean,ci95,cluster_acc,models_used,constant_acc",
        finish=lambda frame, folder: _described(frame), names=("adjacency",), extra="torch",
        means=ACCURACY | {name: (name, "mean") for name in (*USED, "constant_acc")},
    ),
)  # fmt: skip
"""In the order in which they are made."""
