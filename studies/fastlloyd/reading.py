"""What the claims of FastLloyd read off the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from studies.bench.grading import Cells, at, decided, lower, several

NAMES = ("iris", "wine", "lsun", "breast", "yeast", "digits", "s1", "adult", "birch2", "mnist")


# --- Figure 2 -------------------------------------------------------------------------------------


def _real(nicv: pd.DataFrame, names: Sequence[str] = NAMES) -> pd.DataFrame:
    return nicv[nicv["dataset"].isin(names) & (nicv["init"] != "binary")]


def better(
    nicv: pd.DataFrame, first: str, second: str, names: Sequence[str] = NAMES
) -> dict[str, Any]:
    """Cells of Figure 2 in which the mean NICV of `first` is lower."""
    part = _real(nicv, names)
    keys = ["dataset", "epsilon"]
    return {"cells": lower(part, first, second, keys=keys, value="nicv_mean", by="method")}


def convergence(nicv: pd.DataFrame) -> dict[str, Any]:
    """Smallest epsilon at which the mean NICV is within 25 % of non-private Lloyd."""
    real = _real(nicv)
    lloyd = real[real["method"] == "lloyd"].set_index("dataset")["nicv_mean"]
    near = real[real["nicv_mean"] <= 1.25 * real["dataset"].map(lloyd)]
    first = near.groupby(["dataset", "method"])["epsilon"].min().unstack()
    first = first.reindex(index=lloyd.index, columns=["sulloyd", "glloyd", "fastlloyd"])
    first = first.fillna(np.inf)
    ours, others = first["fastlloyd"], first[["sulloyd", "glloyd"]].min(axis=1)
    sooner, later = int((ours < others).sum()), int((ours > others).sum())
    return {"sooner": sooner, "later": later, "never": int(np.isinf(ours).sum()), "n": len(ours)}


def largest(nicv: pd.DataFrame) -> dict[str, Any]:
    """The largest reduction of NICV against SuLloyd, by means and by medians."""
    table = _real(nicv).pivot_table(
        index=["dataset", "epsilon"], columns="method", values=["nicv_mean", "nicv_median"]
    )
    out: dict[str, Any] = {}
    for value in ("nicv_mean", "nicv_median"):
        reduction = 1 - table[value]["fastlloyd"] / table[value]["sulloyd"]
        out[value], out[f"{value}_at"] = reduction.max(), "{} at {:g}".format(*reduction.idxmax())
    return out


# --- Figures 3 to 8, Table 3 ----------------------------------------------------------------------


def auc(scaling: pd.DataFrame, figure: str, others: Sequence[str]) -> dict[str, Any]:
    """Cells in which the area under the NICV curve of FastLloyd is smaller than of the others."""
    part = scaling[scaling["figure"] == figure]
    each = [
        lower(part, "fastlloyd", other, keys=["dataset"], value="auc", by="method")
        for other in others
    ]
    return {"cells": sum(each, Cells(0, 0, 0))}


def gain(scaling: pd.DataFrame, figure: str, axis: str) -> dict[str, Any]:
    """Mean reduction of the AUC against SuLloyd along an axis, and its rank correlation."""
    part = scaling[(scaling["figure"] == figure) & (scaling["method"] == "fastlloyd")]
    gain = (1 - part.groupby(axis)["relative_to_sulloyd"].mean()).sort_index()
    ranks = pd.Series(gain.index, index=gain.index).corr(gain, method="spearman")
    return {"gain": at(gain, ".0%"), "ranks": ranks}


def ends(scaling: pd.DataFrame) -> dict[str, Any]:
    """Figure 3a: AUC over SuLloyd's at the lowest and the highest dimension."""
    part = scaling[scaling["figure"] == "3a"].set_index(["method", "d"])["relative_to_sulloyd"]
    fast, lloyd = part["fastlloyd"].sort_index(), part["lloyd"].sort_index()
    return {"low": (fast.iloc[0], lloyd.iloc[0]), "high": (fast.iloc[-1], lloyd.iloc[-1])}


def most(scaling: pd.DataFrame) -> dict[str, Any]:
    """Figure 4: the largest gain over SuLloyd, and where it is."""
    part = scaling[(scaling["figure"] == "4") & (scaling["method"] == "fastlloyd")]
    best = part.sort_values("relative_to_sulloyd").iloc[0]
    return {
        "most": 1 - best["relative_to_sulloyd"], "k": best["k"], "d": best["d"],
        "median": 1 - part["relative_to_sulloyd_median"].min(),
    }  # fmt: skip


def ablation(table: pd.DataFrame, column: str, better: object, worse: object) -> dict[str, Any]:
    """Two settings of one option, all others equal."""
    keys = {"alpha", "strategy", "postprocess", "clip_step"} - {column}
    fast = table[table["method"] == "fastlloyd"]
    named = fast.assign(option=fast[column].map({better: "better", worse: "worse"}))
    found = lower(named, "better", "worse", keys=sorted(keys), value="nicv_mean", by="option")
    lost = [
        alpha for alpha, part in named.groupby("alpha")
        if lower(part, "better", "worse", keys=sorted(keys), value="nicv_mean",
                 by="option").worse
    ]  # fmt: skip
    where = f"; against it only at alpha = {several(lost, 'g')}" if lost else ""
    return {"cells": found, "where": where}


def step(table: pd.DataFrame) -> dict[str, Any]:
    """Step against Constant: all cells, and the paper's measure with folding and clipping."""
    chosen = table.query("postprocess == 'fold' and clip_step == True")
    measure = chosen.pivot(index="alpha", columns="strategy", values="normalised")
    lower = measure["step"] < measure["constant"]
    cells = ablation(table, "strategy", "step", "constant")
    return cells | {"lower": int(lower.sum()), "n": len(lower)}


def alpha(table: pd.DataFrame) -> dict[str, Any]:
    """Figure 5: the normalised NICV by alpha, and which values tie with the best."""
    chosen = table.query("strategy == 'step' and postprocess == 'fold' and clip_step == True")
    curve = chosen.set_index("alpha")["normalised"]
    best: Any = curve.idxmin()
    gap = chosen.set_index("alpha")["nicv_mean"] - chosen["nicv_mean"].min()
    half = chosen.set_index("alpha")["ci95"]
    tie = [a for a in curve.index if gap[a] <= np.hypot(half[a], half[best])]
    return {"curve": at(curve, ".3f"), "tie": several(tie, "g"), "tied": 0.8 in tie,
            "alone": tie == [0.8]}  # fmt: skip


def metric(table: pd.DataFrame, metric: str, other: str, sign: int) -> dict[str, Any]:
    """Cells in which FastLloyd has the better score; `sign` is -1 where larger is better."""
    part = table[table["metric"] == metric].set_index(["dataset", "epsilon"])
    a, b = (part[part["method"] == m].dropna(subset="mean") for m in ("fastlloyd", other))
    a, b = a.align(b, join="inner", axis=0)
    half = np.hypot(a["ci95"].fillna(0), b["ci95"].fillna(0))
    return {"cells": decided(sign * (b["mean"] - a["mean"]), half)}


def table_3(table: pd.DataFrame) -> dict[str, Any]:
    """Rows whose bytes are those printed, and the range of the time ratios."""
    ratio = table["round_time_ratio_to_sklearn"]
    equal = int((table["bytes_per_round"] == table["paper_bytes"]).sum())
    return {"equal": equal, "n": len(table), "low": ratio.min(), "high": ratio.max()}
