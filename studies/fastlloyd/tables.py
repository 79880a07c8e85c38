"""The FastLloyd tables: their designs, and how cells become rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers._validation import FloatArray
from studies.bench import cell as bench
from studies.fastlloyd.cells import (
    PAPER_ROUNDS,
    SCORES,
    ablation,
    nicv,
    nicv_of_draw,
    round_time,
    scores,
)
from studies.fastlloyd.problems import G2_DIMENSIONS, REAL
from studies.paper_data import ABLATION_DESIGN, SYNTH_DESIGN, SYNTH_K_DESIGN

PRIVATE = ("sulloyd", "glloyd", "fastlloyd")
MAIN = ("lloyd", *PRIVATE)
ABLATION_KEYS = ["alpha", "strategy", "postprocess", "clip_step"]


@dataclass(frozen=True, kw_only=True)
class FastLloydDesign(bench.Design):
    """How large the FastLloyd tables are made."""

    real: tuple[str, ...] = REAL
    g2: tuple[int, ...] = G2_DIMENSIONS
    epsilons: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)
    synth: tuple[tuple[int, int], ...] = SYNTH_DESIGN
    synth_k: tuple[tuple[int, int], ...] = SYNTH_K_DESIGN
    n_draws: int = 3  # of each Synth and Synth-K data set
    ablation: tuple[tuple[int, int, float], ...] = ABLATION_DESIGN
    alphas: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
    timing: tuple[str, ...] = tuple(PAPER_ROUNDS)


FULL = FastLloydDesign()
QUICK = FastLloydDesign(
    real=("iris",), g2=(2,), epsilons=(0.5, 1.0), synth=((2, 4),), synth_k=((2, 2),), n_draws=1,
    ablation=((2, 2, 0.5),), alphas=(0.8,), timing=("timesynth_500_2_2",), runs=2,
)  # fmt: skip


def _methods(
    methods: tuple[str, ...], design: FastLloydDesign, runs: int, **rest: Any
) -> Iterator[bench.Settings]:
    """Each method at each epsilon; Lloyd and the optimum once, with epsilon = inf."""
    for method in methods:
        best = method == "optimum"
        epsilons = (math.inf,) if best or method == "lloyd" else design.epsilons
        init = {"init": "k-means++" if best else "halving"} | rest
        yield from bench.grid(
            **init, method=method, epsilon=epsilons, runs=1 if best else design.repeated(runs)
        )


# --- Figure 2 and Figure 3a; Figures 6 to 8 ------------------------------------------------------


def _nicv(design: FastLloydDesign) -> Iterator[bench.Settings]:
    heavy = ("mnist", "birch2", *(f"g2_{d}" for d in design.g2 if d > 64))
    methods = ("optimum", "lloyd", "sulloyd", "sulloyd_fold", "glloyd", "glloyd_fold", "fastlloyd")
    for dataset in (*design.real, *(f"g2_{d}" for d in design.g2)):
        runs = 30 if dataset in heavy else 100
        yield from _methods(methods, design, runs, dataset=dataset)
        yield from _methods(("fastlloyd",), design, runs, dataset=dataset, init="binary")


def _metrics(design: FastLloydDesign) -> Iterator[bench.Settings]:
    for dataset in design.real:
        yield from _methods(("optimum", *MAIN), design, 30, dataset=dataset)


def _finish_metrics(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """One row under another for each score."""
    statistics = ("mean", "median", "ci95", "omitted")
    parts = [
        frame.rename(columns={f"{name}_{s}": s for s in statistics}).assign(metric=name)
        for name in SCORES
    ]
    return pd.concat([p.loc[:, ~p.columns.str.contains("_")] for p in parts]).sort_index(
        kind="stable"
    )


# --- Figure 5 ------------------------------------------------------------------------------------


def _ablation(design: FastLloydDesign) -> Iterator[bench.Settings]:
    """The naive baseline is GLloyd."""
    for k, d, separation in design.ablation:
        dataset, runs = f"ablation_{k}_{d}_{separation:g}", design.repeated(20)
        common: bench.Settings = {"dataset": dataset, "epsilon": 0.1, "runs": runs}
        yield common | {"method": "glloyd"}
        yield from bench.grid(
            **common, method="fastlloyd", alpha=design.alphas, strategy=("step", "constant"),
            postprocess=("fold", "truncate", "none"), clip_step=(True, False),
        )  # fmt: skip


def _ablation_name(settings: bench.Settings) -> str:
    start = "{dataset}/{method}/halving/{epsilon:g}".format(**settings)
    if settings["method"] == "glloyd":
        return start
    options = [f"{name}={settings[name]}" for name in ABLATION_KEYS]
    return "/".join([start, *options, "count_floor=None"])


def _finish_ablation(frame: pd.DataFrame, folder: Path) -> bench.Files:
    """Normalised as in the paper (ratio of averages), and as an average of ratios."""
    frame = frame.reindex(columns=list(dict.fromkeys([*frame.columns, *ABLATION_KEYS])))
    frame["separation"] = [float(name.rsplit("_", 1)[1]) for name in frame["dataset"]]
    naive = frame[frame["method"] == "glloyd"].set_index("dataset")
    for statistic in ("mean", "median"):
        base = frame["dataset"].map(naive[f"nicv_{statistic}"])
        frame[f"{statistic}_ratio"] = frame[f"nicv_{statistic}"] / base
    table = bench.grouped(
        frame, ["method", *ABLATION_KEYS], "sets", runs=("runs", "first"),
        nicv_mean=("nicv_mean", "mean"), ci95=("ci95", _joint), nicv_median=("nicv_median", "mean"),
        mean_of_ratios=("mean_ratio", "mean"), mean_of_median_ratios=("median_ratio", "mean"),
    )  # fmt: skip
    table["normalised"] = table["nicv_mean"] / naive["nicv_mean"].mean()
    return {"fastlloyd_ablation": table, "fastlloyd_ablation_sets": frame}


def _joint(half_widths: pd.Series) -> float:
    """Half-width for the mean of independent means."""
    return math.sqrt((half_widths**2).sum()) / len(half_widths)


# --- Figures 3 and 4 -----------------------------------------------------------------------------


def _scaling(design: FastLloydDesign) -> Iterator[bench.Settings]:
    names = [("3b", f"synthk_{k}") for k, _ in design.synth_k]
    names += [("4", f"synth_{k}_{d}") for k, d in design.synth]
    for figure, dataset in names:
        for draw in range(design.n_draws):
            yield from _methods(MAIN, design, 7, figure=figure, dataset=dataset, draw=draw)


def _finish_scaling(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Area under NICV over epsilon; the G2 part comes from the finished NICV table."""
    known = pd.read_csv(folder / "fastlloyd_nicv.csv")
    g2 = known[
        known["dataset"].str.startswith("g2_")
        & known["method"].isin(MAIN)
        & (known["init"] == "halving")
    ]
    both = pd.concat([g2.assign(figure="3a", draw=0), frame])
    epsilons = np.unique(both["epsilon"][np.isfinite(both["epsilon"])])
    keys = ["figure", "dataset", "n", "d", "k", "method"]
    rows = [
        dict(zip(keys, key, strict=True)) | _auc(cells, epsilons)
        for key, cells in both.groupby(keys, sort=False)
    ]
    table = pd.DataFrame(rows)
    for name in ("auc", "auc_median"):
        base = table[table["method"] == "sulloyd"].set_index("dataset")[name]
        relative = "relative_to_sulloyd" + name.removeprefix("auc")
        table[relative] = table[name] / table["dataset"].map(base)
    return table


def _auc(cells: pd.DataFrame, epsilons: FloatArray) -> dict[str, float]:
    """AUC of one method on one setting, from its mean NICV over all draws at each epsilon.

    Without noise there is one value, the same at every epsilon.
    """
    draws, runs = int(cells["draw"].nunique()), int(cells["runs"].iloc[0])
    groups = cells.groupby("epsilon")
    names = ["nicv_mean", "nicv_median", "ci95"]
    at = groups[names[:2]].mean()
    at["ci95"] = groups["ci95"].apply(_joint)
    mean, median, ci95 = (np.broadcast_to(at[name], len(epsilons)) for name in names)
    if len(at) == 1:
        half_width = float(ci95[0] * (epsilons[-1] - epsilons[0]))
    else:
        weights = [np.trapezoid(row, epsilons) for row in np.eye(len(epsilons))]
        half_width = float(np.linalg.norm(weights * ci95))
    area, middle = (float(np.trapezoid(values, epsilons)) for values in (mean, median))  # Eq. 26
    return {
        "draws": draws, "runs": runs * draws, "auc": area, "ci95": half_width, "auc_median": middle
    }  # fmt: skip


RATIOS = ("round_time_ratio_to_sklearn", "ratio_p10", "ratio_p90")
SEED = "{dataset}/{method}/{init}/{epsilon:g}"
TABLES = bench.tables_of(
    FULL,
    QUICK,
    bench.Table(
        "fastlloyd_nicv", _nicv, nicv,
        "dataset,n,d,k,init,method,epsilon,runs,nicv_mean,nicv_median,ci95", seed=SEED,
    ),
    bench.Table(
        "fastlloyd_scaling", _scaling, nicv_of_draw,
        "figure,dataset,n,d,k,method,draws,runs,auc,ci95,auc_median,relative_to_sulloyd,"
        "relative_to_sulloyd_median",
        finish=_finish_scaling, seed="{dataset}_{draw}/{method}/{init}/{epsilon:g}",
        needs=("fastlloyd_nicv",), beside={"method": "sulloyd"}, paired=("dataset",),
    ),
    bench.Table(
        "fastlloyd_ablation", _ablation, ablation,
        {
            "fastlloyd_ablation": "method,alpha,strategy,postprocess,clip_step,sets,runs,nicv_mean,"
            "ci95,nicv_median,mean_of_ratios,mean_of_median_ratios,normalised",
            "fastlloyd_ablation_sets": "dataset,n,d,k,separation,method,alpha,strategy,postprocess,"
            "clip_step,epsilon,runs,nicv_mean,nicv_median,ci95",
        },
        finish=_finish_ablation, seed=_ablation_name, beside={"method": "glloyd"},
        paired=("dataset",),
    ),
    bench.Table(
        "fastlloyd_metrics", _metrics, scores,
        "dataset,n,d,k,init,method,epsilon,metric,runs,mean,median,ci95,omitted",
        finish=_finish_metrics, seed=SEED, names=("metric",),
    ),
    bench.Table(
        "fastlloyd_table3",
        lambda d: bench.grid(dataset=d.timing, epsilon=1.0, runs=d.repeated(51)), round_time,
        f"dataset,n,d,k,bytes_per_round,paper_bytes,runs,{','.join(RATIOS)},paper_ms",
        seed="{dataset}/fastlloyd/halving/{epsilon:g}", anew=RATIOS, sequential=True,
    ),
)  # fmt: skip
