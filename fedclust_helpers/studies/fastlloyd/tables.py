"""The designs of the result tables: which cells, how each is measured, how the table is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers._validation import FloatArray, check_int, check_positive
from fedclust_helpers.metrics import auc_over_epsilon
from fedclust_helpers.studies.fastlloyd.cells import MAX_RUNS, Cell, metrics_cell, nicv_cell
from fedclust_helpers.studies.fastlloyd.problems import G2_DIMENSIONS, REAL, load_problem
from fedclust_helpers.studies.fastlloyd.timing import round_cell
from fedclust_helpers.studies.feddp_kmeans.tables import FEDDP_TABLES, QUICK_FEDDP, FedDPDesign
from fedclust_helpers.studies.ldp_kmeans.tables import LDP_TABLES, QUICK_LDP, LdpDesign
from fedclust_helpers.studies.paper_data import ABLATION_DESIGN, SYNTH_DESIGN, SYNTH_K_DESIGN
from fedclust_helpers.studies.rr_cluster.tables import QUICK_RR, RR_TABLES, RRDesign

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0)
ALPHAS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
N_DRAWS = 3  # of each Synth and Synth-K data set
PRIVATE = ("sulloyd", "glloyd", "fastlloyd")
MAIN = ("lloyd", *PRIVATE)
CELL_COLUMNS = ["dataset", "init", "method", "epsilon", "runs"]
SHAPE_COLUMNS = ["n", "d", "k"]


@dataclass(frozen=True)
class Design:
    """How large the tables are made. The default is what is committed; `QUICK` is for tests."""

    real: tuple[str, ...] = REAL
    g2: tuple[int, ...] = G2_DIMENSIONS
    epsilons: tuple[float, ...] = EPSILONS
    synth: tuple[tuple[int, int], ...] = SYNTH_DESIGN
    synth_k: tuple[tuple[int, int], ...] = SYNTH_K_DESIGN
    n_draws: int = N_DRAWS
    ablation: tuple[tuple[int, int, float], ...] = ABLATION_DESIGN
    alphas: tuple[float, ...] = ALPHAS
    timing: tuple[str, ...] = (
        *(f"timesynth_{n}_{k}_{d}" for n in (10_000, 100_000) for k in (2, 5) for d in (2, 5)),
        "lsun",
        "s1",
    )
    feddp: FedDPDesign = FedDPDesign()
    ldp: LdpDesign = LdpDesign()
    rr: RRDesign = RRDesign()
    runs: int | None = None  # overrides the repetitions of every table

    def __post_init__(self) -> None:
        if self.runs is not None:
            check_int(self.runs, "runs", maximum=MAX_RUNS)
        check_int(self.n_draws, "n_draws", maximum=1000)
        for name in ("real", "g2", "epsilons", "synth", "synth_k", "ablation", "alphas", "timing"):
            if not isinstance(getattr(self, name), tuple):
                raise TypeError(f"{name} must be a tuple, got {type(getattr(self, name)).__name__}")
        for name in ("epsilons", "alphas"):
            for value in getattr(self, name):
                check_positive(value, name)


QUICK = Design(
    real=("iris",),
    g2=(2,),
    epsilons=(0.5, 1.0),
    synth=((2, 4),),
    synth_k=((2, 2),),
    n_draws=1,
    ablation=((2, 2, 0.5),),
    alphas=(0.8,),
    timing=("timesynth_500_2_2",),
    feddp=QUICK_FEDDP,
    ldp=QUICK_LDP,
    rr=QUICK_RR,
    runs=3,
)


@dataclass(frozen=True)
class Table:
    """`cells` lists the work, `measure` does one cell, `finish` makes the files from all cells."""

    cells: Callable[[Design], list[Cell]]
    measure: Callable[[Cell], dict[str, float]]
    finish: Callable[[pd.DataFrame, Path], dict[str, pd.DataFrame]]
    needs: tuple[str, ...] = ()
    sequential: bool = False  # one cell after the other: for time measurements
    extra: str = ""  # a module that it needs and that an optional extra installs


def _method_cells(
    table: str, dataset: str, methods: tuple[str, ...], epsilons: tuple[float, ...], runs: int
) -> list[Cell]:
    """One cell for each method and epsilon; Lloyd and the optimum have epsilon = inf."""
    out = []
    for method in methods:
        exact = method in ("lloyd", "optimum")
        init = "k-means++" if method == "optimum" else "halving"
        repetitions = 1 if method == "optimum" else runs
        out += [
            Cell(table, dataset, method, epsilon, repetitions, init)
            for epsilon in ((math.inf,) if exact else epsilons)
        ]
    return out


def _add_shapes(frame: pd.DataFrame) -> pd.DataFrame:
    shapes = pd.DataFrame({name: load_problem(name).shape for name in frame["dataset"].unique()}).T
    return frame.join(shapes, on="dataset")


# --- Figure 2 and Figure 3a: NICV ----------------------------------------------------------------


def _nicv_cells(design: Design) -> list[Cell]:
    out = []
    for dataset in (*design.real, *(f"g2_{d}" for d in design.g2)):
        heavy = dataset in ("mnist", "birch2") or (
            dataset.startswith("g2_") and int(dataset[3:]) > 64
        )
        runs = design.runs or (30 if heavy else 100)
        methods = ("optimum", "lloyd", "sulloyd", "sulloyd_fold", "glloyd", "glloyd_fold")
        out += _method_cells("fastlloyd_nicv", dataset, methods, design.epsilons, runs)
        out += [
            Cell("fastlloyd_nicv", dataset, "fastlloyd", epsilon, runs, init)
            for init in ("halving", "binary")
            for epsilon in design.epsilons
        ]
    return out


def _finish_nicv(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = _add_shapes(frame).rename(columns={"mean": "nicv_mean", "median": "nicv_median"})
    columns = ["dataset", *SHAPE_COLUMNS, "init", "method", "epsilon", "runs"]
    return {"fastlloyd_nicv": frame[[*columns, "nicv_mean", "nicv_median", "ci95"]]}


# --- Figures 6 to 8 ------------------------------------------------------------------------------


def _metrics_cells(design: Design) -> list[Cell]:
    methods = ("optimum", *MAIN)
    out = []
    for dataset in design.real:
        runs = design.runs or 30
        out += _method_cells("fastlloyd_metrics", dataset, methods, design.epsilons, runs)
    return out


def _finish_metrics(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = _add_shapes(frame)
    names = ("silhouette", "davies_bouldin", "centroid_mse")
    keys = ["dataset", *SHAPE_COLUMNS, "init", "method", "epsilon", "runs"]
    statistics = ["mean", "median", "ci95", "omitted"]
    parts = []
    for name in names:
        part = frame[keys].assign(metric=name)
        for statistic in statistics:
            part[statistic] = frame[f"{name}_{statistic}"]
        parts.append(part.astype({"omitted": int}))
    out = pd.concat(parts).sort_index(kind="stable")
    return {"fastlloyd_metrics": out[[*keys[:-1], "metric", "runs", *statistics]]}


# --- Figure 5 ------------------------------------------------------------------------------------

ABLATION_KEYS = ["alpha", "strategy", "postprocess", "clip_step"]


def _ablation_cells(design: Design) -> list[Cell]:
    """Counts have no floor here, as in the paper; the naive baseline is GLloyd."""
    runs = design.runs or 20
    out = []
    for k, d, separation in design.ablation:
        dataset = f"ablation_{k}_{d}_{separation:g}"
        out.append(Cell("fastlloyd_ablation", dataset, "glloyd", 0.1, runs))
        out += [
            Cell(
                "fastlloyd_ablation", dataset, "fastlloyd", 0.1, runs,
                options=(*zip(ABLATION_KEYS, values, strict=True), ("count_floor", None)),
            )
            for values in (
                (alpha, strategy, postprocess, clip)
                for alpha in design.alphas
                for strategy in ("step", "constant")
                for postprocess in ("fold", "truncate", "none")
                for clip in (True, False)
            )
        ]  # fmt: skip
    return out


def _finish_ablation(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Normalised as in the paper (ratio of averages), and as an average of ratios."""
    frame = _add_shapes(frame).rename(columns={"mean": "nicv_mean", "median": "nicv_median"})
    frame["separation"] = [float(name.rsplit("_", 1)[1]) for name in frame["dataset"]]
    naive = frame[frame["method"] == "glloyd"].set_index("dataset")
    for statistic in ("mean", "median"):
        base = frame["dataset"].map(naive[f"nicv_{statistic}"])
        frame[f"{statistic}_ratio"] = frame[f"nicv_{statistic}"] / base
    sets = frame[
        ["dataset", *SHAPE_COLUMNS, "separation", "method", *ABLATION_KEYS, "epsilon", "runs"]
        + ["nicv_mean", "nicv_median", "ci95"]
    ]
    groups = frame.groupby(["method", *ABLATION_KEYS], dropna=False, sort=False)
    table = groups.agg(
        sets=("dataset", "nunique"),
        runs=("runs", "first"),
        nicv_mean=("nicv_mean", "mean"),
        ci95=("ci95", lambda half_widths: math.sqrt((half_widths**2).sum()) / len(half_widths)),
        nicv_median=("nicv_median", "mean"),
        mean_of_ratios=("mean_ratio", "mean"),
        mean_of_median_ratios=("median_ratio", "mean"),
    ).reset_index()
    table["normalised"] = table["nicv_mean"] / naive["nicv_mean"].mean()
    return {"fastlloyd_ablation": table, "fastlloyd_ablation_sets": sets}


# --- Figures 3 and 4 -----------------------------------------------------------------------------


def _scaling_cells(design: Design) -> list[Cell]:
    runs = design.runs or 7  # times 3 draws of the data
    names = [f"synthk_{k}" for k, _ in design.synth_k] + [f"synth_{k}_{d}" for k, d in design.synth]
    return [
        cell
        for name in names
        for draw in range(design.n_draws)
        for cell in _method_cells(
            "fastlloyd_scaling", f"{name}_{draw}", MAIN, design.epsilons, runs
        )
    ]


def _finish_scaling(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    """Area under NICV over epsilon; the G2 part comes from the finished NICV table."""
    nicv = pd.read_csv(folder / "fastlloyd_nicv.csv")
    g2 = nicv[
        nicv["dataset"].str.startswith("g2_")
        & nicv["method"].isin(MAIN)
        & (nicv["init"] == "halving")
    ].rename(columns={"nicv_mean": "mean", "nicv_median": "median"})
    g2 = g2.assign(figure="3a", group=g2["dataset"])
    parts = frame["dataset"].str.split("_")
    frame = frame.assign(
        figure=parts.str[0].map({"synthk": "3b", "synth": "4"}),
        group=frame["dataset"].str.rsplit("_", n=1).str[0],
        k=parts.str[1].astype(int),
        d=[int(p[2]) if p[0] == "synth" else 2 for p in parts],
        n=10_000,
    )
    both = pd.concat([g2, frame])
    epsilons = np.unique(both["epsilon"][np.isfinite(both["epsilon"])])
    keys = ["figure", "group", *SHAPE_COLUMNS, "method"]
    rows = [
        dict(zip(keys, key, strict=True)) | _auc(cells, epsilons)
        for key, cells in both.groupby(keys, sort=False)
    ]
    table = pd.DataFrame(rows).rename(columns={"group": "dataset"})
    for name in ("auc", "auc_median"):
        base = table[table["method"] == "sulloyd"].set_index("dataset")[name]
        relative = "relative_to_sulloyd" + name.removeprefix("auc")
        table[relative] = table[name] / table["dataset"].map(base)
    return {"fastlloyd_scaling": table}


def _auc(cells: pd.DataFrame, epsilons: FloatArray) -> dict[str, float]:
    """AUC of one method on one setting, from its mean NICV over all draws at each epsilon.

    Without noise there is one value, the same at every epsilon.
    """
    draws, runs = int(cells["dataset"].nunique()), int(cells["runs"].iloc[0])
    groups = cells.groupby("epsilon")
    at = groups[["mean", "median"]].mean()
    at["ci95"] = groups["ci95"].apply(lambda c: math.sqrt((c**2).sum()) / len(c))
    mean, median, ci95 = (np.broadcast_to(at[c], len(epsilons)) for c in ("mean", "median", "ci95"))
    if len(at) == 1:
        half_width = float(ci95[0] * (epsilons[-1] - epsilons[0]))
    else:
        weights = [auc_over_epsilon(epsilons, row) for row in np.eye(len(epsilons))]
        half_width = float(np.linalg.norm(weights * ci95))
    return {
        "draws": draws,
        "runs": runs * draws,
        "auc": auc_over_epsilon(epsilons, mean),
        "ci95": half_width,
        "auc_median": auc_over_epsilon(epsilons, median),
    }


# --- Table 3 -------------------------------------------------------------------------------------

PAPER_ROUNDS: dict[str, tuple[int, float]] = {
    "timesynth_10000_2_2": (192, 3.03),
    "timesynth_10000_2_5": (384, 3.24),
    "timesynth_10000_5_2": (480, 4.32),
    "timesynth_10000_5_5": (960, 4.95),
    "timesynth_100000_2_2": (192, 12.57),
    "timesynth_100000_2_5": (384, 13.17),
    "timesynth_100000_5_2": (480, 22.05),
    "timesynth_100000_5_5": (960, 22.56),
    "lsun": (288, 2.6),
    "s1": (1440, 5.81),
}
"""Bytes and milliseconds per iteration that the paper's Table 3 prints for FastLloyd."""


def _timing_cells(design: Design) -> list[Cell]:
    runs = design.runs or 51
    return [Cell("fastlloyd_table3", name, "fastlloyd", 1.0, runs) for name in design.timing]


def _finish_timing(frame: pd.DataFrame, folder: Path) -> dict[str, pd.DataFrame]:
    frame = _add_shapes(frame).astype({"bytes_per_round": int})
    nothing = (math.nan, math.nan)
    paper = [PAPER_ROUNDS.get(name, nothing) for name in frame["dataset"]]
    frame["paper_bytes"], frame["paper_ms"] = zip(*paper, strict=True)
    frame["paper_bytes"] = frame["paper_bytes"].astype("Int64")
    ratio = ["round_time_ratio_to_sklearn", "ratio_p10", "ratio_p90"]
    columns = ["dataset", *SHAPE_COLUMNS, "bytes_per_round", "paper_bytes", "runs"]
    return {"fastlloyd_table3": frame[[*columns, *ratio, "paper_ms"]]}


TABLES: dict[str, Table] = {
    "fastlloyd_nicv": Table(_nicv_cells, nicv_cell, _finish_nicv),
    "fastlloyd_scaling": Table(
        _scaling_cells, nicv_cell, _finish_scaling, needs=("fastlloyd_nicv",)
    ),
    "fastlloyd_ablation": Table(_ablation_cells, nicv_cell, _finish_ablation),
    "fastlloyd_metrics": Table(_metrics_cells, metrics_cell, _finish_metrics),
    "fastlloyd_table3": Table(_timing_cells, round_cell, _finish_timing, sequential=True),
    **{name: Table(*parts) for name, parts in FEDDP_TABLES.items()},
    **{name: Table(*parts) for name, parts in LDP_TABLES.items()},
    **{name: Table(*parts) for name, parts in RR_TABLES.items()},
}
"""The tables by name, in the order in which they are made."""


def cell_row(cell: Cell) -> dict[str, Any]:
    """The columns that name a cell."""
    return {name: getattr(cell, name) for name in CELL_COLUMNS} | dict(cell.options)
